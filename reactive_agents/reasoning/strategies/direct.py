"""The direct strategy: ask the model, run its calls, take its first text."""

from __future__ import annotations

from reactive_agents.core.config import DEFAULT_KERNEL
from reactive_agents.core.errors import ReasoningErrors
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.settings import DEFAULT_MAX_ITERATIONS
from reactive_agents.effects import Effect
from reactive_agents.kernel import KernelRunOptions
from reactive_agents.reasoning.passes import run_once
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices, kernel_input

NAME = "direct"


def direct(
    strategy_input: StrategyInput, services: StrategyServices
) -> Effect[ReasoningResult, ReasoningErrors]:
    """Run the loop without reasoning, or the configured kernel in its place.

    Fails with ``StrategyExecutionError``.
    """
    kernel = strategy_input.config.kernel
    if kernel == DEFAULT_KERNEL:
        kernel = "direct"
    options = KernelRunOptions(
        max_iterations=strategy_input.max_iterations or DEFAULT_MAX_ITERATIONS,
        strategy=NAME,
        kernel_type=kernel,
        kernel_pass="direct:main",
        answers_by_tool=strategy_input.answer_form is not None,
    )
    return run_once(kernel, kernel_input(strategy_input), options, services)
