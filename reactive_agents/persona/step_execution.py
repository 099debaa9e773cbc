"""Execution of a step: a full run of the domain's engine."""

from __future__ import annotations

import anyio
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ExecutionError, StepErrors, StepIncomplete, StepTimedOut
from reactive_agents.core.events import TaskFailed
from reactive_agents.core.ids import RunId, TaskId
from reactive_agents.core.personas import PersonaPlan, StepOutcome
from reactive_agents.core.plans import PlanStep
from reactive_agents.core.results import ReasoningStep
from reactive_agents.core.tasks import Task, TaskResult
from reactive_agents.effects import attempt
from reactive_agents.engine import ExecutionEngine
from reactive_agents.kernel.policies.abstentions import ABSTENTION
from reactive_agents.persona.cycle import Cycle
from reactive_agents.persona.prompts import step_content


async def execute_step(plan: PersonaPlan, step: PlanStep, cycle: Cycle) -> StepOutcome:
    """Execute a step and return its outcome.

    A partial run, one that abstained and one that timed out are failures.
    """
    services, engine = cycle.services, cycle.domain.engine
    started = services.clock.monotonic()
    limit = cycle.settings.timeouts.step_s
    run_id = RunId(services.ids.new())
    task = Task(
        TaskId(services.ids.new()),
        engine.settings.agent_id,
        step_content(plan, step),
        services.clock.now(),
        type=plan.domain,
    )
    ended, timed_out = await _run_with_timeout(engine, task, run_id, limit)
    error: StepErrors | None = None
    output, steps, tokens, cost_usd = "", tuple[ReasoningStep, ...](), 0, 0.0
    match ended:
        case Success(result):
            output, steps = result.output or "", result.steps
            tokens, cost_usd = result.metadata.tokens_used, result.metadata.cost_usd
            if not result.success:
                error = StepIncomplete(step.id, result.reason, result.metadata.terminated_by)
        case Failure(TaskFailed() as failed):
            error, steps = failed.error, failed.steps
            tokens, cost_usd = failed.metadata.tokens_used, failed.metadata.cost_usd
        case Failure(ExecutionError() as defect):
            error = defect
    if timed_out and error is not None:
        error = StepTimedOut(step.id, limit)
    cycle.step_tokens += tokens
    cycle.step_cost_usd += cost_usd
    return StepOutcome(
        step_id=step.id,
        run_id=run_id,
        success=error is None,
        output=output,
        at=services.clock.now(),
        error=error,
        detail="" if error is None else _last_tool_error(steps),
        duration_ms=(services.clock.monotonic() - started) * 1000,
        tokens=tokens,
        cost_usd=cost_usd,
    )


def is_abstention(outcome: StepOutcome) -> bool:
    """Return whether the run of a step found it to be impossible."""
    return isinstance(outcome.error, StepIncomplete) and outcome.error.terminated_by == ABSTENTION


async def _run_with_timeout(
    engine: ExecutionEngine, task: Task, run_id: RunId, limit: float
) -> tuple[Result[TaskResult, TaskFailed | ExecutionError], bool]:
    """Run the task; return its result and whether it timed out.

    On a timeout the engine cancels the run, so that its usage is recorded.
    """
    timed_out = False

    async def cancel_later() -> None:
        nonlocal timed_out
        await anyio.sleep(limit)
        timed_out = True
        engine.cancel(task.id)

    ended: Result[TaskResult, TaskFailed | ExecutionError]
    ended = Failure(ExecutionError("The run did not begin.", task.id, "bootstrap"))
    async with anyio.create_task_group() as group:
        group.start_soon(cancel_later)
        try:
            ended = await attempt(engine.conduct(task, run_id=run_id))
        except Exception as error:  # noqa: BLE001 - strategies, tools and hooks are the user's code; the persona continues
            ended = Failure(ExecutionError(f"{type(error).__name__}: {error}", task.id, "think"))
        group.cancel_scope.cancel()
    return ended, timed_out


def _last_tool_error(steps: tuple[ReasoningStep, ...]) -> str:
    """Return the last observation of the run when it is a failure.

    Otherwise an empty text.
    """
    seen = [step for step in steps if step.type == "observation" and step.metadata is not None]
    if seen and seen[-1].metadata is not None and seen[-1].metadata.success is False:
        return seen[-1].content
    return ""
