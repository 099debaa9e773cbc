"""Running the steps of a plan in their order, and mending those that fail."""

from __future__ import annotations

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ContextOverflow, KernelErrors, ModelCallFailed, ReasoningErrors
from reactive_agents.core.plans import PlanStep
from reactive_agents.effects import gather
from reactive_agents.reasoning.passes import Limit, limit_reached
from reactive_agents.reasoning.planning.checking import find_cycle
from reactive_agents.reasoning.planning.making import patch_step, replan
from reactive_agents.reasoning.planning.record import PlanRecord
from reactive_agents.reasoning.planning.setting import Setting
from reactive_agents.reasoning.planning.stepping import StepRun, run_step
from reactive_agents.reasoning.planning.waves import blocked_by, next_batch
from reactive_agents.reasoning.progress import Progress, calls_left


@frozen
class Executed:
    """What the run of a plan has come to.

    Attributes:
        limit: what ended it before its last step.
        error: of the model, when it did not answer for a step that failed.
    """

    progress: Progress
    limit: Limit | None = None
    error: KernelErrors | None = None


async def execute_plan(
    progress: Progress, record: PlanRecord, setting: Setting
) -> Result[Executed, ReasoningErrors]:
    """Run all pending steps. One that failed is patched once; what depends on one that stays so is skipped.

    Fails with ``StrategyExecutionError`` when a kernel breaks its own rules.
    """
    patched: frozenset[str] = frozenset()
    done = Executed(progress)
    while batch := _next_batch(done.progress, record, setting):
        limit = limit_reached(setting.input, setting.services)
        if limit is not None:
            return Success(evolve(done, limit=limit))
        ready = await _ready(batch, record)
        ran = await gather([run_step(step, done.progress, record, setting) for step in ready])
        failed: list[StepRun] = []
        for each in ran:
            if isinstance(each, Failure):
                return each
            run = each.unwrap()
            for state in run.states:
                done = evolve(done, progress=done.progress.after(state))
            if run.step.status != "completed":
                failed.append(run)
                if isinstance(run.error, ModelCallFailed):
                    done = evolve(done, error=run.error)
        mendable = [run.step for run in failed if run.step.id not in patched and _can_be_mended(run)]
        patched |= await _mend(mendable, done.progress, record, setting)
    await _skip_circles(record)
    return Success(done)


def _next_batch(progress: Progress, record: PlanRecord, setting: Setting) -> tuple[PlanStep, ...]:
    return next_batch(
        record.plan,
        calls_left(setting.input.budget, progress),
        attempts=1 + setting.config.step_retries,
        parallel=setting.input.config.parallel_tool_calls,
    )


async def _ready(batch: tuple[PlanStep, ...], record: PlanRecord) -> list[PlanStep]:
    """The steps that can run; the others are skipped."""
    ready = []
    for step in batch:
        reason = blocked_by(step, record.plan)
        if reason is None:
            ready.append(step)
        else:
            await record.change_step(evolve(step, status="skipped", error=f"Skipped: {reason}."))
    return ready


def _can_be_mended(run: StepRun) -> bool:
    """Whether a rewritten step may do better; that the model did not answer is not the step's fault."""
    return not isinstance(run.error, ModelCallFailed) or isinstance(run.error.cause, ContextOverflow)


async def _mend(
    failed: list[PlanStep], progress: Progress, record: PlanRecord, setting: Setting
) -> frozenset[str]:
    """Have the failed steps written anew, as the configuration says; the ids of the steps that were.

    A step that no patch is found for stays as it is.
    """
    written: frozenset[str] = frozenset()
    for step in failed:
        if limit_reached(setting.input, setting.services) is not None:
            break
        if setting.config.patch_strategy == "in-place":
            changed = await patch_step(record.plan, step, progress, setting)
            if isinstance(changed, Success):
                await record.revise(changed.unwrap(), "patched")
                written |= {step.id}
            continue
        changed = await replan(record.plan, progress, setting)
        if isinstance(changed, Success):
            await record.revise(changed.unwrap(), "replanned")
            written |= {each.id for each in record.plan.steps}
        break
    return written


async def _skip_circles(record: PlanRecord) -> None:
    """Skip the steps that no order has a place for, as a plan from elsewhere may have them."""
    circle = " → ".join(find_cycle(record.plan.steps))
    for step in record.plan.steps:
        if step.status == "pending":
            reason = f"Skipped: it is in, or depends on, a circle of steps: {circle or step.id}."
            await record.change_step(evolve(step, status="skipped", error=reason))
