"""The answer that a plan comes to."""

from __future__ import annotations

from reactive_agents.core.plans import Plan
from reactive_agents.kernel import one_shot_kernel
from reactive_agents.kernel.assemble import fence
from reactive_agents.reasoning.passes import Pass
from reactive_agents.reasoning.planning.output import Reflection
from reactive_agents.reasoning.planning.prompts import ANSWER_INSTRUCTIONS, shown_results
from reactive_agents.reasoning.planning.setting import NAME, Setting
from reactive_agents.reasoning.planning.stepping import NO_NEEDS
from reactive_agents.reasoning.strategy import profile_of


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
    lacking = fence("missing", "\n".join(f"- {each}" for each in missing)) if missing else ""
    return Pass(
        f"{NAME}:answer",
        "answer.",
        "\n\n".join(part for part in (plan.goal, results, lacking) if part),
        1,
        instructions=ANSWER_INSTRUCTIONS,
        allowed_tools=frozenset(),
        needs=NO_NEEDS,
        kernel=one_shot_kernel,
        kernel_type="one-shot",
        answers_by_tool=False,
    )
