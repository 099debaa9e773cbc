"""The answer that a plan comes to, and the result of its run."""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ReasoningErrors, StrategyExecutionError
from reactive_agents.core.plans import Plan, PlanStatus
from reactive_agents.core.reasoning import ReasoningResult, ReasoningStatus
from reactive_agents.effects import attempt
from reactive_agents.kernel import one_shot_kernel
from reactive_agents.reasoning.passes import Pass, limit_reached, run_pass
from reactive_agents.reasoning.planning.output import Reflection
from reactive_agents.reasoning.planning.prompts import ANSWER_INSTRUCTIONS, change_content, shown_results
from reactive_agents.reasoning.planning.record import PlanRecord
from reactive_agents.reasoning.planning.setting import NAME, Setting
from reactive_agents.reasoning.planning.stepping import NO_NEEDS
from reactive_agents.reasoning.planning.working import End
from reactive_agents.reasoning.progress import Progress
from reactive_agents.reasoning.strategy import CONFIDENCE, profile_of, reasoning_result


async def conclude_plan(
    progress: Progress, end: End, record: PlanRecord, setting: Setting
) -> Result[ReasoningResult, ReasoningErrors]:
    """The answer, the last status of the plan, and the result."""
    plan = record.plan
    output = finished_answer(plan, end.reflection) if end.reflection is not None and end.reached else None
    if output is None and end.may_ask and any(step.status == "completed" for step in plan.steps):
        missing = end.reflection.missing if end.reflection is not None else ()
        asked = answer_pass(plan, missing, setting)
        ran = await attempt(run_pass(asked, progress, NAME, setting.input, setting.services))
        if isinstance(ran, Failure):
            return ran
        state = ran.unwrap()
        progress = progress.after(state)
        output = state.output
        if state.outcome != "completed":
            why = f"{end.why} {state.reason.rstrip('.')}. Missing: the whole answer."
            limit = limit_reached(setting.input, setting.services)
            by = "answer_failed" if limit is None else limit.name
            end = evolve(end, terminated_by=by, why=why, reached=False)
    output = output or best_so_far(plan)
    await record.end(_plan_status(end))
    if output is None and end.error is not None:
        return Failure(StrategyExecutionError(NAME, end.why, progress.iterations, end.error))
    status: ReasoningStatus = "completed" if end.reached else "partial"
    confidence = end.reflection.confidence if end.reflection is not None else CONFIDENCE[status]
    return Success(
        reasoning_result(
            NAME,
            record.measure,
            setting.services,
            steps=progress.steps,
            output=output,
            status=status,
            iterations=progress.iterations,
            terminated_by=end.terminated_by,
            reason=end.why,
            results=progress.tool_results,
            confidence=confidence if end.reached else min(confidence, CONFIDENCE["partial"]),
        )
    )


def _plan_status(end: End) -> PlanStatus:
    """A plan that something from outside ended stays active: it can be resumed."""
    if end.reached:
        return "completed"
    return "failed" if end.terminated_by in ("refinement_limit", "refinement_failed") else "active"


def finished_answer(plan: Plan, reflection: Reflection) -> str | None:
    """The result that is the answer already; ``None`` when it is still to be written.

    It is that of the step which the reflection names, or of the only step, where it is a text that a model
    wrote.
    """
    if reflection.verdict != "SATISFIED":
        return None
    completed = [step for step in plan.steps if step.status == "completed"]
    for step in completed:
        if step.id == reflection.answer_step:
            return step.result
    alone = completed[0] if len(plan.steps) == len(completed) == 1 else None
    return alone.result if alone is not None and alone.type != "tool_call" else None


def best_so_far(plan: Plan) -> str | None:
    """What there is of an answer when none can be written any more: the last text of a model, else of a tool.

    What a failed step had come to counts when no step is completed.
    """
    completed = [step for step in plan.steps if step.status == "completed"]
    written = [step for step in completed if step.type != "tool_call"]
    for steps in (written, completed, plan.steps):
        for step in reversed(steps):
            if (step.result or "").strip():
                return step.result
    return None


def answer_pass(plan: Plan, missing: tuple[str, ...], setting: Setting) -> Pass:
    """The model call that writes the answer from the results of the steps."""
    profile = profile_of(setting.input, setting.services)
    results = shown_results(plan, profile, setting.input.result_compression)
    return Pass(
        f"{NAME}:answer",
        "answer.",
        change_content(plan, results, missing),
        1,
        instructions=ANSWER_INSTRUCTIONS,
        allowed_tools=frozenset(),
        needs=NO_NEEDS,
        kernel=one_shot_kernel,
        kernel_type="one-shot",
        answers_by_tool=False,
    )
