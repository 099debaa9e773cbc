"""Execution of plans: the steps in their order, with retries, patches and skips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import assert_never

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ContextOverflow, KernelErrors, ModelCallFailed, ReasoningErrors
from reactive_agents.core.plans import Plan, PlanStep, PlanStepStatus
from reactive_agents.core.settings import NO_NEEDS, ToolRequirement
from reactive_agents.core.texts import shortened
from reactive_agents.effects import attempt, effect, gather
from reactive_agents.kernel import KernelState, given_call_kernel
from reactive_agents.kernel.prompt import fence
from reactive_agents.kernel.reducers import calls_of_turn
from reactive_agents.reasoning.passes import (
    Limit,
    Pass,
    Progress,
    calls_left_of_run,
    limit_reached,
    open_requirements_of_run,
    run_pass,
)
from reactive_agents.reasoning.planning import planner
from reactive_agents.reasoning.planning.context import (
    NAME,
    PlanJournal,
    PlanningContext,
    calls_under,
    evidence_in,
    problem_of,
)
from reactive_agents.reasoning.planning.prompts import (
    ANALYSIS_INSTRUCTIONS,
    COMPOSITE_INSTRUCTIONS,
    shown_results,
    step_content,
)
from reactive_agents.reasoning.planning.schemas import interpolate, references_in
from reactive_agents.reasoning.strategy import profile_of

_SHOWN_ARGUMENTS = 500
"""Characters of changed arguments that the title of a step tells."""


@frozen
class StepRun:
    """The outcome of a step, completed or failed with the error of its last attempt.

    ``states``: the final ones of its kernel runs; ``error``: what ended the last of them, if it failed.
    """

    step: PlanStep
    states: tuple[KernelState, ...] = ()
    error: KernelErrors | None = None


@effect
async def run_step(
    step: PlanStep, plan: Plan, progress: Progress, journal: PlanJournal, context: PlanningContext
) -> Result[StepRun, ReasoningErrors]:
    """Run a step until it succeeds or its retries are used up, and record each status.

    A reference without a result, and a call that was refused, fail the step at once, since they would fail
    again; so does a call in doubt, which may have taken effect. Fails with ``StrategyExecutionError`` when a
    kernel breaks its own rules.
    """
    clock = context.services.kernel.clock
    step = evolve(step, status="in_progress", started_at=clock.now())
    states: tuple[KernelState, ...] = ()
    made = calls_under(progress, (f"{step.id}.",))  # before it was rewritten
    while True:
        await journal.change_step(step)
        found = evidence_in(made, progress, context)
        prepared = _prepare(step, found, progress, plan, context)
        if isinstance(prepared, Failure):
            reason = f"The step could not be run: {prepared.failure()}."
            return Success(StepRun(await _ended(step, reason, journal, context), states))
        ran = await attempt(run_pass(prepared.unwrap(), progress, NAME, context.input, context.services))
        if isinstance(ran, Failure):
            return ran
        state = ran.unwrap()
        states, progress = (*states, state), progress.after(state)
        made += tuple(state.steps)
        step = _as_made(step, state)
        step = evolve(step, tokens_used=step.tokens_used + state.tokens, result=state.output)
        wrong = state.reason
        if state.outcome == "completed":
            wrong = problem_of(step, progress, context)
            if not wrong:
                return Success(StepRun(await _ended(step, None, journal, context), states))
        final = (
            step.retries >= context.config.step_retries or _was_refused(state) or state.outcome == "abstained"
        )
        if final or limit_reached(context.input, context.services) is not None:
            failed = await _ended(step, wrong, journal, context)
            return Success(StepRun(failed, states, state.error))
        step = evolve(step, retries=step.retries + 1, error=wrong)


def _as_made(step: PlanStep, state: KernelState) -> PlanStep:
    """Return a step with the arguments that who approved its call gave, if any."""
    call = next(iter(calls_of_turn(state).values()), None)
    if step.type != "tool_call" or call is None or not call.is_edited:
        return step
    told = shortened(call.arguments_text, _SHOWN_ARGUMENTS)
    title = f"{step.title} (who approved it changed its arguments to {told})"
    return evolve(step, title=title, tool_args=call.arguments)


async def _ended(
    step: PlanStep, error: str | None, journal: PlanJournal, context: PlanningContext
) -> PlanStep:
    now = context.services.kernel.clock.now()
    status: PlanStepStatus = "completed" if error is None else "failed"
    ended = evolve(step, status=status, error=error, completed_at=now)
    await journal.change_step(ended)
    return ended


def _prepare(
    step: PlanStep, found: str, progress: Progress, plan: Plan, context: PlanningContext
) -> Result[Pass, str]:
    """Return the kernel run of the step, with the results that it refers to.

    Args:
        found: the results of its tools in earlier attempts.
    """
    steps, made = plan.steps, partial(Pass, f"{NAME}:{step.id}", f"{step.id}.", delivers=False)
    if step.type == "tool_call":
        filled = interpolate(step.tool_args, step, steps)
        if isinstance(filled, Failure):
            return filled
        arguments = filled.unwrap()
        call_id = context.services.kernel.ids.new()
        call = planner.repaired_call(
            step, arguments if isinstance(arguments, dict) else {}, context.tools, call_id
        )
        kernel = given_call_kernel(call)
        return Success(
            made(
                step.instruction,
                1,
                needs=NO_NEEDS,
                kernel=kernel,
                kernel_type="given-call",
                answers_by_tool=False,
            )
        )
    shown = interpolate(step.instruction, step, steps, lambda text, of: fence(f"result-of-{of}", text))
    if isinstance(shown, Failure):
        return shown
    instruction, others = str(shown.unwrap()), _unnamed(step, plan, context)
    task = step_content(step, instruction, plan.goal, found, others)
    # what an attempt before said is no source of figures
    given = step_content(evolve(step, error=None, result=None), instruction, plan.goal, found, others)
    leads = step.id == steps[-1].id  # its text may be sent as it is
    match step.type:
        case "analysis":
            return Success(
                made(
                    task,
                    1,
                    instructions=ANALYSIS_INSTRUCTIONS,
                    allowed_tools=frozenset(),
                    needs=NO_NEEDS,
                    kernel="one-shot",
                    answers_by_tool=False,
                    leads=leads,
                )
            )
        case "composite":
            required = _required_calls(step, progress, plan, context)
            turns = 1 + sum(share for _, _, share in required)
            calls = tuple(ToolRequirement(name, done + share) for name, done, share in required)
            return Success(
                made(
                    task,
                    max(context.config.step_kernel_max_iterations, turns),
                    instructions=COMPOSITE_INSTRUCTIONS,
                    part=step.instruction,
                    user_task="" if given == task else given,
                    allowed_tools=frozenset(step.tool_hints) or None,
                    needs=evolve(context.input.needs, required=calls),
                    leads=leads,
                )
            )
    assert_never(step.type)


def _unnamed(step: PlanStep, plan: Plan, context: PlanningContext) -> str:
    """Return the results so far for a step that refers to none; otherwise empty.

    Small models forget the references, and a step that sees no results makes them up.
    """
    completed = tuple(each for each in plan.steps if each.status == "completed" and each.result)
    if not completed or references_in(step.instruction):
        return ""
    profile = profile_of(context.input, context.services)
    return shown_results(evolve(plan, steps=completed), profile, context.input.settings.compression)


def _required_calls(
    step: PlanStep, progress: Progress, plan: Plan, context: PlanningContext
) -> tuple[tuple[str, int, int], ...]:
    """Return the required tools of a step, each with its calls done and to make."""
    now, steps = open_requirements_of_run(progress, context.input, context.services), plan.steps
    return tuple(
        (each.name, done, planner.share_of_calls(step, each.min_calls - done, steps, each.name))
        for each, done in now.open
        if each.name in step.tool_hints
    )


def _was_refused(state: KernelState) -> bool:
    last = state.steps[-1].metadata if state.steps else None
    return last is not None and last.origin in ("refused", "declined", "in_doubt")


# --- the steps of a plan --------------------------------------------------------------------------------


@frozen
class ExecutedPlan:
    """The outcome of the steps of a plan, with the limit that ended it early, if any.

    ``error``: the error of the model, if it did not answer for a step that failed.
    """

    progress: Progress
    limit: Limit | None = None
    error: KernelErrors | None = None


async def execute_plan(
    progress: Progress, journal: PlanJournal, context: PlanningContext
) -> Result[ExecutedPlan, ReasoningErrors]:
    """Run all pending steps.

    A failed step is patched once; if it fails again, the steps that depend on it are skipped. Fails with
    ``StrategyExecutionError`` when a kernel breaks its own rules.
    """
    patched: frozenset[str] = frozenset()
    done = ExecutedPlan(progress)
    while batch := next_batch(
        journal.plan,
        calls_left_of_run(done.progress, context.input, context.services),
        attempts=1 + context.config.step_retries,
        # steps side by side do not know of each other's calls
        parallel=context.input.config.parallel_tool_calls
        and context.input.settings.budget.tool_calls is None,
    ):
        limit = limit_reached(context.input, context.services)
        if limit is not None:
            return Success(evolve(done, limit=limit))
        ready = await _ready(batch, journal)
        plan = journal.plan  # so that a request does not depend on which step beside it has ended
        ran = await gather([run_step(step, plan, done.progress, journal, context) for step in ready])
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
        repairable = [run.step for run in failed if run.step.id not in patched and _is_repairable(run)]
        patched |= await _repair(repairable, done.progress, journal, context)
    await _skip_cycles(journal)
    return Success(done)


async def _ready(batch: tuple[PlanStep, ...], journal: PlanJournal) -> list[PlanStep]:
    """Return the steps that can run, and skip the others."""
    ready = []
    for step in batch:
        reason = blocked_by(step, journal.plan)
        if reason is None:
            ready.append(step)
        else:
            await journal.change_step(evolve(step, status="skipped", error=f"Skipped: {reason}."))
    return ready


def _is_repairable(run: StepRun) -> bool:
    """Return whether a rewritten step may do better: not without the model's answer."""
    return not isinstance(run.error, ModelCallFailed) or isinstance(run.error.cause, ContextOverflow)


async def _repair(
    failed: list[PlanStep], progress: Progress, journal: PlanJournal, context: PlanningContext
) -> frozenset[str]:
    """Have failed steps rewritten, as configured; return the ids of those rewritten."""
    written: frozenset[str] = frozenset()
    for step in failed:
        if limit_reached(context.input, context.services) is not None:
            break
        if context.config.patch_strategy == "in-place":
            changed = await planner.patch_step(journal.plan, step, progress, context)
            if isinstance(changed, Success):
                await journal.revise(changed.unwrap(), "patched")
                written |= {step.id}
            continue
        changed = await planner.replan(journal.plan, progress, context)
        if isinstance(changed, Success):
            await journal.revise(changed.unwrap(), "replanned")
            written |= {each.id for each in journal.plan.steps}
        break
    return written


async def _skip_cycles(journal: PlanJournal) -> None:
    """Skip the steps of dependency cycles, which a stored plan may have."""
    circle = " → ".join(planner.find_cycle(journal.plan.steps))
    for step in journal.plan.steps:
        if step.status == "pending":
            reason = f"Skipped: it is in, or depends on, a circle of steps: {circle or step.id}."
            await journal.change_step(evolve(step, status="skipped", error=reason))


# --- The order in which the steps of a plan run ----------------------------------------------------------


def compute_waves(plan: Plan) -> tuple[tuple[PlanStep, ...], ...]:
    """Return the pending steps as waves of steps that may run concurrently; pure.

    A linear plan has one step a wave, in order. In a dag a step comes after all pending steps that it depends
    on; steps that depend on each other in a circle are in no wave. Steps that are completed, or have ended
    otherwise, are in none either.
    """
    pending = [step for step in plan.steps if step.status == "pending"]
    if plan.mode == "linear":
        return tuple((step,) for step in pending)
    waves: list[tuple[PlanStep, ...]] = []
    while pending:
        waiting = {step.id for step in pending}
        wave = tuple(step for step in pending if waiting.isdisjoint(step.depends_on))
        if not wave:
            break
        waves.append(wave)
        pending = [step for step in pending if step not in wave]
    return tuple(waves)


def blocked_by(step: PlanStep, plan: Plan) -> str | None:
    """Return why a step cannot run, such as a failed dependency; ``None`` when it can."""
    statuses = {each.id: each.status for each in plan.steps}
    for needed in step.depends_on:
        status = statuses.get(needed)
        if status is None:
            return f"it depends on {needed}, which does not exist"
        if status != "completed":
            return f"it depends on {needed}, which is {status.replace('_', ' ')}"
    return None


def next_batch(plan: Plan, left: Mapping[str, int], *, attempts: int, parallel: bool) -> tuple[PlanStep, ...]:
    """Return the steps to run next, concurrently; empty when no step is left; pure.

    Steps do not know of calls that are made at the same time. So the most calls that a step may make are set
    aside for it. It runs when the remaining calls of its tools cover that, or when no step beside it may call
    these tools; otherwise it waits, and then has the calls that the others left. So no limit is exceeded, and
    no call stays unused, as some would if the calls were divided between the steps.

    Args:
        left: how often each tool with a limit may still be called, 0 or more.
        attempts: the most attempts of a step, 1 or more.
        parallel: whether steps may run at the same time.
    """
    wave = next(iter(compute_waves(plan)), ())
    if not parallel:
        return wave[:1]
    batch: list[PlanStep] = []
    aside: Counter[str] = Counter()
    for step in wave:
        most = _most_calls(step, left, attempts)
        if all(name not in aside or aside[name] + calls <= left[name] for name, calls in most.items()):
            batch.append(step)
            aside.update(most)
    return tuple(batch)


def _most_calls(step: PlanStep, left: Mapping[str, int], attempts: int) -> Mapping[str, int]:
    """Return the most calls of each limited tool that a step may make."""
    if step.type == "tool_call":
        return {name: attempts for name in left if name == step.tool_name}
    if step.type == "composite":
        return {name: calls for name, calls in left.items() if not step.tool_hints or name in step.tool_hints}
    return {}
