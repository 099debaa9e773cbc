"""Running one step of a plan, again where that may help."""

from __future__ import annotations

from typing import assert_never

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ContextOverflow, KernelErrors, ModelCallFailed, ReasoningErrors
from reactive_agents.core.plans import PlanStep, PlanStepStatus
from reactive_agents.core.requirements import ToolNeeds, ToolRequirement
from reactive_agents.effects import attempt, effect, gather
from reactive_agents.kernel import KernelState, given_call_kernel, one_shot_kernel
from reactive_agents.kernel.prompt import fence
from reactive_agents.reasoning.passes import (
    Limit,
    Pass,
    calls_left_of_run,
    limit_reached,
    open_requirements_of_run,
    run_pass,
)
from reactive_agents.reasoning.planning.context import NAME, Setting
from reactive_agents.reasoning.planning.plan_journal import PlanRecord
from reactive_agents.reasoning.planning.planner import patch_step, replan
from reactive_agents.reasoning.planning.prompts import ANALYSIS_INSTRUCTIONS, step_content
from reactive_agents.reasoning.planning.references import interpolate
from reactive_agents.reasoning.planning.schedule import blocked_by, next_batch
from reactive_agents.reasoning.planning.validation import find_cycle, healed_call
from reactive_agents.reasoning.progress import Progress

NO_NEEDS = ToolNeeds()


@frozen
class StepRun:
    """What running a step came to.

    Attributes:
        step: completed, or failed with the error of its last attempt.
        states: of the kernel runs that it took.
        error: what ended the last of them, if it failed.
    """

    step: PlanStep
    states: tuple[KernelState, ...] = ()
    error: KernelErrors | None = None


@effect
async def run_step(
    step: PlanStep, progress: Progress, record: PlanRecord, setting: Setting
) -> Result[StepRun, ReasoningErrors]:
    """Run a step until it works or has used up its retries; each change of its status is recorded.

    A reference that has no result, and a call that was refused, fail the step at once: they would fail again.
    Fails with ``StrategyExecutionError`` when a kernel breaks its own rules.
    """
    clock = setting.services.kernel.clock
    step = evolve(step, status="in_progress", started_at=clock.now())
    states: tuple[KernelState, ...] = ()
    while True:
        await record.change_step(step)
        prepared = _prepare(step, progress, record, setting)
        if isinstance(prepared, Failure):
            reason = f"The step could not be run: {prepared.failure()}."
            return Success(StepRun(await _ended(step, reason, record, setting), states))
        ran = await attempt(run_pass(prepared.unwrap(), progress, NAME, setting.input, setting.services))
        if isinstance(ran, Failure):
            return ran
        state = ran.unwrap()
        states, progress = (*states, state), progress.after(state)
        step = evolve(step, tokens_used=step.tokens_used + state.tokens, result=state.output)
        if state.outcome == "completed":
            return Success(StepRun(await _ended(step, None, record, setting), states))
        final = step.retries >= setting.config.step_retries or _was_refused(state)
        if final or limit_reached(setting.input, setting.services) is not None:
            failed = await _ended(step, state.reason, record, setting)
            return Success(StepRun(failed, states, state.error))
        step = evolve(step, retries=step.retries + 1, error=state.reason)


async def _ended(step: PlanStep, error: str | None, record: PlanRecord, setting: Setting) -> PlanStep:
    now = setting.services.kernel.clock.now()
    status: PlanStepStatus = "completed" if error is None else "failed"
    ended = evolve(step, status=status, error=error, completed_at=now)
    await record.change_step(ended)
    return ended


def _prepare(step: PlanStep, progress: Progress, record: PlanRecord, setting: Setting) -> Result[Pass, str]:
    """The kernel run that the step takes, with the results that it refers to."""
    steps, label, key = record.plan.steps, f"{NAME}:{step.id}", f"{step.id}."
    if step.type == "tool_call":
        filled = interpolate(step.tool_args, step, steps)
        if isinstance(filled, Failure):
            return filled
        arguments = filled.unwrap()
        call_id = setting.services.kernel.ids.new()
        call = healed_call(step, arguments if isinstance(arguments, dict) else {}, setting.tools, call_id)
        return Success(
            Pass(
                label,
                key,
                step.instruction,
                1,
                instructions="",
                needs=NO_NEEDS,
                kernel=given_call_kernel(call),
                kernel_type="given-call",
                answers_by_tool=False,
            )
        )
    shown = interpolate(step.instruction, step, steps, lambda text, of: fence(f"result-of-{of}", text))
    if isinstance(shown, Failure):
        return shown
    task = step_content(step, str(shown.unwrap()), record.plan.goal, step.error or "", step.result or "")
    match step.type:
        case "analysis":
            return Success(
                Pass(
                    label,
                    key,
                    task,
                    1,
                    instructions=ANALYSIS_INSTRUCTIONS,
                    allowed_tools=frozenset(),
                    needs=NO_NEEDS,
                    kernel=one_shot_kernel,
                    kernel_type="one-shot",
                    answers_by_tool=False,
                )
            )
        case "composite":
            return Success(
                Pass(
                    label,
                    key,
                    task,
                    setting.config.step_kernel_max_iterations,
                    allowed_tools=frozenset(step.tool_hints) or None,
                    needs=_needs_of(step, progress, setting),
                )
            )
    assert_never(step.type)


def _needs_of(step: PlanStep, progress: Progress, setting: Setting) -> ToolNeeds:
    """One call of each tool of the step that the task still requires."""
    now = open_requirements_of_run(progress, setting.input, setting.services)
    wanted = (ToolRequirement(each.name, done + 1) for each, done in now.open if each.name in step.tool_hints)
    return evolve(setting.input.needs, required=tuple(wanted))


def _was_refused(state: KernelState) -> bool:
    last = state.steps[-1].metadata if state.steps else None
    return last is not None and last.origin == "refused"


# --- Running the steps of a plan in their order, and mending those that fail ---


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
        calls_left_of_run(progress, setting.input, setting.services),
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
