"""The reactive strategy: one run of the ReAct kernel (Yao et al., 2022, arXiv:2210.03629)."""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ReasoningErrors, StrategyExecutionError
from reactive_agents.core.reasoning import ReasoningResult
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import REACT_INSTRUCTIONS, KernelRunOptions, react_kernel, run_kernel
from reactive_agents.reasoning.strategy import (
    StrategyInput,
    StrategyServices,
    begin_measure,
    conclude,
    kernel_input,
)

NAME = "reactive"


@effect
async def reactive(
    strategy_input: StrategyInput, services: StrategyServices
) -> Result[ReasoningResult, ReasoningErrors]:
    """Think, act and observe until there is an answer or the limit is reached, which gives a partial result.

    Fails with ``StrategyExecutionError`` when the model does not answer.
    """
    config = strategy_input.config.strategies.reactive
    measure = begin_measure(services)
    options = KernelRunOptions(
        max_iterations=min(config.max_iterations, strategy_input.max_iterations),
        strategy=NAME,
        kernel_type="react",
        kernel_pass="reactive:main",
    )
    task = kernel_input(strategy_input, instructions=REACT_INSTRUCTIONS, temperature=config.temperature)
    run = await attempt(run_kernel(react_kernel, task, options, services.kernel))
    if isinstance(run, Failure):
        error = run.failure()
        return Failure(StrategyExecutionError(NAME, error.message, cause=error))
    state = run.unwrap()
    if state.error is not None:
        return Failure(
            StrategyExecutionError(NAME, state.error.message, step=state.iteration, cause=state.error)
        )
    return Success(conclude(state, measure, services))
