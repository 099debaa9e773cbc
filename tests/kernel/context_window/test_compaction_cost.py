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
NARROW = ContextProfileOverrides(window_tokens=16_000)


async def calls_per_turn(turns: int, settings: CompactionSettings, profile: ContextProfileOverrides) -> float:
    """Functions that a turn calls, those of the interpreter and of libraries included."""
    bench = kernel_bench(*(call("look", at=n) for n in range(turns)), say("done"), tools={"look": "seen"})
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        state = await bench.run(
            react_kernel, max_iterations=turns + 1, context_profile=profile, compaction=settings
        )
    finally:
        sys.setprofile(None)
    assert state.output == "done"
    return count / turns


async def test_a_turn_of_a_long_run_costs_what_one_of_a_short_run_does() -> None:
    auto = CompactionSettings("auto")
    await calls_per_turn(1, auto, ROOMY)
    short, long = await calls_per_turn(20, auto, ROOMY), await calls_per_turn(400, auto, ROOMY)
    assert long < 1.1 * short


async def test_a_turn_costs_little_more_than_without() -> None:
    await calls_per_turn(1, CompactionSettings("auto"), ROOMY)
    off = await calls_per_turn(100, CompactionSettings("drop"), ROOMY)
    auto = await calls_per_turn(100, CompactionSettings("auto"), ROOMY)
    assert auto - off < 50


@pytest.mark.parametrize("method", ["template", "auto", "drop"])
async def test_also_a_run_that_is_shortened_again_and_again_does_not_get_slower(
    method: CompactionMethod,
) -> None:
    """The average grows until the first time: turns before it are never shortened, those after it are."""
    settings = CompactionSettings(method)
    await calls_per_turn(1, settings, NARROW)
    calls = {turns: turns * await calls_per_turn(turns, settings, NARROW) for turns in (400, 800, 1_600)}
    assert (calls[1_600] - calls[800]) / 800 < 1.1 * (calls[800] - calls[400]) / 400
