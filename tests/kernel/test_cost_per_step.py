"""What the kernel does for a step does not grow with the length of a run: counted, not timed."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from reactive_agents.testing import call, say
from tests.support.kernels import kernel_bench

pytestmark = pytest.mark.anyio


async def calls_per_step(steps: int) -> float:
    """Functions that a turn with a tool call goes through, also those of the interpreter and of libraries."""
    bench = kernel_bench(*(call("look", at=n) for n in range(steps)), say("done"), tools={"look": "seen"})
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        state = await bench.run(max_iterations=steps + 1)
    finally:
        sys.setprofile(None)
    assert state.output == "done"
    return count / steps


async def test_a_step_of_a_long_run_costs_what_one_of_a_short_run_does() -> None:
    await calls_per_step(1)  # what the first run alone does, such as filling caches
    short, long = await calls_per_step(20), await calls_per_step(400)
    assert long < 1.1 * short
