"""What the kernel itself costs a step, and that it does not grow with the length of a run."""

from __future__ import annotations

import time

import pytest

from reactive_agents.testing import call, say
from tests.support.kernels import kernel_bench

pytestmark = pytest.mark.anyio
ROUNDS = 5


async def microseconds_per_step(calls: int) -> float:
    """The best of some runs, as other work on the machine only adds to it."""
    best = float("inf")
    for _ in range(ROUNDS):
        bench = kernel_bench(*(call("look") for _ in range(calls)), say("done"), tools={"look": "seen"})
        started = time.perf_counter()
        state = await bench.run(max_iterations=calls + 1)
        best = min(best, (time.perf_counter() - started) / state.kernel_steps)
        assert state.output == "done"
    return best * 1e6


async def test_a_step_of_a_long_run_costs_what_one_of_a_short_run_does() -> None:
    await microseconds_per_step(10)
    short, long = await microseconds_per_step(10), await microseconds_per_step(200)
    assert long < 2 * short  # 1.0 on a quiet machine
    assert short < 1_000  # 45 on a quiet machine
