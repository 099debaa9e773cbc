"""The cost of compaction for a step while nothing is summarized: counted, not timed."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from reactive_agents.core.config import CompactionMethod, ContextProfileOverrides
from reactive_agents.kernel import CompactionSettings, react_kernel
from reactive_agents.testing import call, say
from tests.support.kernels import kernel_bench

pytestmark = pytest.mark.anyio

ROOMY = ContextProfileOverrides(window_tokens=1_000_000)
NARROW = ContextProfileOverrides(window_tokens=8_000)


async def calls_until(turns: int, method: CompactionMethod, profile: ContextProfileOverrides) -> list[int]:
    """Functions called until each turn of a run, those of the interpreter and of libraries included."""
    counts: list[int] = []
    count = 0

    def look(at: int) -> str:
        counts.append(count)
        return "seen"

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    bench = kernel_bench(*(call("look", at=n) for n in range(turns + 1)), say("done"), tools={"look": look})
    sys.setprofile(note)
    try:
        state = await bench.run(
            react_kernel,
            max_iterations=turns + 2,
            context_profile=profile,
            compaction=CompactionSettings(method),
        )
    finally:
        sys.setprofile(None)
    assert state.output == "done"
    return counts


async def test_a_turn_of_a_long_run_costs_what_one_of_a_short_run_does() -> None:
    await calls_until(1, "auto", ROOMY)
    calls = await calls_until(400, "auto", ROOMY)
    assert calls[400] - calls[380] < 1.1 * (calls[21] - calls[1])


async def test_a_turn_costs_little_more_than_without() -> None:
    await calls_until(1, "auto", ROOMY)
    off, auto = await calls_until(100, "drop", ROOMY), await calls_until(100, "auto", ROOMY)
    assert auto[-1] - off[-1] < 50 * 100


@pytest.mark.parametrize("method", ["template", "auto", "drop"])
async def test_also_a_run_that_is_shortened_again_and_again_does_not_get_slower(
    method: CompactionMethod,
) -> None:
    """The cost grows until the first time: turns before it are never shortened, those after it are."""
    await calls_until(1, method, NARROW)
    calls = await calls_until(400, method, NARROW)
    assert calls[400] - calls[200] < 2 * 1.1 * (calls[200] - calls[100])
