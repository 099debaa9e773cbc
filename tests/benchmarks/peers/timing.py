"""The peer rows and how each is timed. Standard library only: a peer's interpreter imports it as well."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

ROWS = (
    "kept, one call",
    "kept, three tools",
    "kept, a step at 50",
    "kept, a step at 200",
    "built for each run, one call",
    "built for each run, three tools",
    "built for each run, 300 at once",
)
AT_ONCE = 300


async def figures(
    build: Callable[..., Any], run: Callable[[Any, int], Awaitable[object]], *, rounds: int
) -> list[float]:
    """Return milliseconds of processor time for each row: a run, a step, or a run of many at once.

    Args:
        build: makes an agent for so many turns; ``plain`` says whether its tool is a plain function.
        run: runs it, and sees that it did the work.
        rounds: of which the fastest counts, each by its median.
    """
    found = []
    for turns, runs in ((0, 60), (3, 30), (50, 4), (200, 1)):
        kept = build(turns, plain=False)
        await run(kept, turns)
        ms = await median_ms(lambda kept=kept, turns=turns: run(kept, turns), runs, rounds)
        found.append(ms / turns if turns >= 50 else ms)
    for turns, runs in ((0, 30), (3, 20)):
        ms = await median_ms(lambda turns=turns: run(build(turns, plain=True), turns), runs, rounds)
        found.append(ms)

    async def at_once() -> None:
        await asyncio.gather(*(run(build(3, plain=True), 3) for _ in range(AT_ONCE)))

    found.append(await median_ms(at_once, 1, rounds) / AT_ONCE)
    return found


async def median_ms(work: Callable[[], Awaitable[object]], runs: int, rounds: int) -> float:
    """Return the least median of several rounds: what it takes when nothing disturbs it."""
    medians = []
    for _ in range(rounds):
        gc.collect()
        times = []
        for _ in range(runs):
            started = time.process_time()
            await work()
            times.append(time.process_time() - started)
        medians.append(statistics.median(times))
    return min(medians) * 1000
