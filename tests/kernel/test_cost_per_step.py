"""What the kernel itself costs a step, and that it does not grow with the length of a run."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import pytest

from reactive_agents.testing import call, say
from tests.support.kernels import kernel_bench

pytestmark = pytest.mark.anyio
ROUNDS = 8


@pytest.fixture(autouse=True)
def _no_garbage_collection() -> Iterator[None]:
    """A collection looks at all that the other tests left behind: not a cost of the kernel."""
    gc.disable()
    yield
    gc.enable()


async def microseconds_per_step(calls: int) -> float:
    """The processor time of one run, divided by its steps."""
    bench = kernel_bench(*(call("look") for _ in range(calls)), say("done"), tools={"look": "seen"})
    started = time.process_time()
    state = await bench.run(max_iterations=calls + 1)
    spent = time.process_time() - started
    assert state.output == "done"
    return spent / state.kernel_steps * 1e6


async def test_a_step_of_a_long_run_costs_what_one_of_a_short_run_does() -> None:
    runs = [(await microseconds_per_step(10), await microseconds_per_step(200)) for _ in range(ROUNDS)]
    short, long = map(min, zip(*runs, strict=True))  # the best of each, as other work only adds to them
    assert long < 2 * short  # 1.0 on a quiet machine
    assert short < 1_000  # 45 on a quiet machine
