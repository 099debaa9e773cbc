"""The parts that every strategy shares: the kernel's input and the result."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from reactive_agents.core.config import ContextProfileOverrides, ReasoningConfig, ResultCompressionConfig
from reactive_agents.core.memory import MemoryContext
from reactive_agents.kernel import KernelInput
from reactive_agents.reasoning import begin_measure, conclude, kernel_input
from reactive_agents.testing import FakeClock
from tests.support.kernels import AGENT, RUN, SESSION, TASK, kernel_bench, new_state
from tests.support.strategies import strategy_input, strategy_services


def test_everything_that_the_input_says_reaches_the_kernel() -> None:
    memory = MemoryContext("1", "fact")
    profile, compression = ContextProfileOverrides("local"), ResultCompressionConfig(500)
    task = strategy_input(
        "Add.",
        reasoning=ReasoningConfig(parallel_tool_calls=False),
        memory=memory,
        system_prompt="You count.",
        model="m/1",
        context_profile=profile,
        compression=compression,
        deadline=9.0,
    )
    assert kernel_input(task, instructions="Slowly.", temperature=0.2) == KernelInput(
        "Add.",
        RUN,
        TASK,
        AGENT,
        SESSION,
        task.settings,
        instructions="Slowly.",
        memory=memory,
        model="m/1",
        temperature=0.2,
        deadline=9.0,
    )


@pytest.mark.parametrize(
    ("outcome", "status", "confidence"),
    [
        ("completed", "completed", 0.8),
        ("partial", "partial", 0.4),
        ("abstained", "abstained", 0.6),
        ("failed", "failed", 0.0),
        (None, "failed", 0.0),
    ],
)
def test_the_result_takes_its_status_from_the_runs_outcome(
    outcome: Any, status: str, confidence: float
) -> None:
    clock = FakeClock()
    services = strategy_services(kernel_bench(clock=clock))
    measure = begin_measure(services)
    clock.advance(0.25)
    state = evolve(
        new_state(),
        outcome=outcome,
        output="3",
        terminated_by="p",
        reason="Because.",
        scratchpad={"a-1": "x"},
    )
    result = conclude(state, measure, services, "What is 1 + 2?")
    assert (result.status, result.metadata.confidence, result.output) == (status, confidence, "3")
    assert (result.metadata.duration, result.metadata.reason) == (250.0, "Because.")
    assert result.tool_results == {"a-1": "x"}
