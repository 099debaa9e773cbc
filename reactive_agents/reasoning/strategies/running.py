"""What every strategy that is one kernel run has in common."""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ReasoningErrors, StrategyExecutionError
from reactive_agents.core.reasoning import ReasoningResult
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import KernelInput, KernelRunOptions, ThoughtKernel, run_kernel
from reactive_agents.reasoning.strategy import StrategyServices, begin_measure, conclude
from reactive_agents.reasoning.synthesis import SynthesisSettings, with_synthesis

NO_SYNTHESIS = SynthesisSettings("off")


@effect
async def run_once(
    kernel: ThoughtKernel,
    task: KernelInput,
    options: KernelRunOptions,
    services: StrategyServices,
    *,
    synthesis: SynthesisSettings = NO_SYNTHESIS,
) -> Result[ReasoningResult, ReasoningErrors]:
    """The result of one kernel run, partial when it stopped early.

    Fails with ``StrategyExecutionError`` when the kernel failed; its cause is the kernel's own error.

    Args:
        synthesis: how earlier turns are put in short while the run goes on; not at all by default.
    """
    kernel = with_synthesis(kernel, synthesis, services.kernel)
    measure = begin_measure(services)
    run = await attempt(run_kernel(kernel, task, options, services.kernel))
    if not isinstance(run, Success):
        error = run.failure()
        return Failure(StrategyExecutionError(options.strategy, error.message, cause=error))
    state = run.unwrap()
    if state.status == "failed":
        return Failure(
            StrategyExecutionError(options.strategy, state.reason, step=state.iteration, cause=state.error)
        )
    return Success(conclude(state, measure, services))
