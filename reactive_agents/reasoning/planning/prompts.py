"""Prompts of planning.

All but instructions and the task is data, and stands in fences.
"""

from __future__ import annotations

from collections.abc import Sequence

from reactive_agents.core.config import ContextProfile, Depth, ResultCompressionConfig
from reactive_agents.core.plans import Plan, PlanMode, PlanStep
from reactive_agents.core.requirements import ToolNeeds
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.call_parsing import signature
from reactive_agents.kernel.context_window.previews import preview
from reactive_agents.kernel.context_window.tool_results import result_budget
from reactive_agents.kernel.prompt import fence
from reactive_agents.reasoning.planning.schemas import MOST_STEPS

CHARACTERS_PER_TOKEN = 4
RESULTS_SHARE = 0.5
"""Of the window, what the results of all steps together get in one prompt."""
LEAST_SHOWN = 200
_LONGEST_ERROR = 1_000

_STEP_RULES = (
    "Each step has one of these types:\n"
    "- tool_call: one call of one tool whose arguments are known now, or are results of earlier steps; give "
    "tool_name and tool_args. It is run as it stands, without anyone thinking about it.\n"
    "- analysis: thinking or writing without tools, in one go.\n"
    "- composite: a smaller task that needs several calls, or calls whose arguments have to be found out; "
    "name in tool_hints the only tools it may use.\n"
    "A step sees nothing of the other steps but what it refers to. In an instruction or in an argument, "
    "{{from_step:s1}} stands for the whole result of s1, and {{from_step:s1:summary}} for its beginning. "
    "Where several things have to be looked up, make one tool_call for each of them, not one for all. Make "
    "no step that the task does not need."
)
_LINEAR = "The steps run in the order in which they stand, and may depend on earlier ones only."
_DAG = (
    "Steps run at the same time unless one depends on another: name in depends_on what has to come first, "
    "and leave out what does not."
)
_LAST = "Unless a tool delivers the result, let the last step be an analysis that writes the complete answer."
_SHALLOW = "Compare the results with what the task asks for. Say briefly what is missing, if anything is."
_DEEP = (
    "Take the task apart into all that it asks for, and look for each of these in the results: is it there, "
    "do tool results support it, do the results contradict each other? For each thing that is "
    "missing or doubtful, say what it is, so that steps can be made for it."
)
_REFLECT = (
    "Judge whether the results of a plan do what the task asks for. Be strict: what the results do not show "
    "has not been done. If the result of one step is by itself the complete answer to the task, name that "
    "step in answer_step."
)

ANALYSIS_INSTRUCTIONS = (
    "Do one step of a larger plan. Reply with the result of this step alone, complete and without remarks on "
    "how you got it."
)
ANSWER_INSTRUCTIONS = (
    "The steps of a plan were carried out. Write the answer to the task from their results. Use nothing that "
    "the results do not show, and state plainly what could not be done or found."
)


def plan_instructions(mode: PlanMode) -> str:
    """Return the instructions for making a plan."""
    order = _LINEAR if mode == "linear" else _DAG
    first = f"Make a plan for the task, of at most {MOST_STEPS} steps, whose ids will be s1, s2, … in order."
    return f"{first}\n{_STEP_RULES}\n{order} {_LAST}"


def patch_instructions(failed_id: str) -> str:
    """Return the instructions for rewriting one failed step."""
    return (
        f"The step {failed_id} of a plan failed. Rewrite it so that it works this time: correct its "
        f"arguments, or reach the same by another way. It keeps the id {failed_id}, and stays at its place "
        f"in the plan.\n{_STEP_RULES}"
    )


def replan_instructions(mode: PlanMode, first_id: str) -> str:
    """Return the instructions for rewriting all remaining steps."""
    order = _LINEAR if mode == "linear" else _DAG
    return (
        "A plan cannot continue as it is. Write the steps that are still needed, in place of all that are "
        f"not completed; completed steps stay and are not run again. Your steps get ids from {first_id} on, "
        f"in their order.\n{_STEP_RULES}\n{order} {_LAST}"
    )


def augment_instructions(mode: PlanMode, first_id: str) -> str:
    """Return the instructions for steps that fill gaps."""
    order = _LINEAR if mode == "linear" else _DAG
    return (
        "All steps of a plan are completed, and the task is not. Write supplementary steps for what is "
        f"missing, and for nothing else. Your steps get ids from {first_id} on, in their "
        f"order.\n{_STEP_RULES}\n{order} {_LAST}"
    )


def reflect_instructions(depth: Depth) -> str:
    """Return the instructions for judging the results of a plan."""
    return f"{_REFLECT} {_DEEP if depth == 'deep' else _SHALLOW}"


def with_tools(instructions: str, tools: Sequence[ToolDefinition], needs: ToolNeeds) -> str:
    """Return the instructions with the available tools and the required calls."""
    return "\n\n".join(part for part in (instructions, _tools(tools), _requirements(needs)) if part)


def change_content(plan: Plan, results: str, missing: Sequence[str] = ()) -> str:
    """Return the task, the results so far, and the missing parts."""
    lacking = fence("missing", "\n".join(f"- {each}" for each in missing)) if missing else ""
    return "\n\n".join(part for part in (plan.goal, results, lacking) if part)


def step_content(step: PlanStep, instruction: str, goal: str, error: str, partial: str) -> str:
    """Return one step as a task; errors of the attempt before are data.

    Args:
        instruction: with the results that it refers to.
        partial: the partial result of the attempt before.
    """
    parts = [instruction]
    if goal.strip() != instruction.strip():
        parts.append(f"This is the step {step.title!r} of a larger task:\n{fence('larger-task', goal)}")
    if error:
        parts.append(f"The attempt before failed. Do better:\n{fence('error', clipped_error(error))}")
    if partial:
        parts.append(f"Its partial result:\n{fence('attempt-before', partial)}")
    return "\n\n".join(parts)


def shown_results(plan: Plan, profile: ContextProfile, compression: ResultCompressionConfig) -> str:
    """Return every step with its result, each within an equal share of the window."""
    room = int(profile.window_tokens * CHARACTERS_PER_TOKEN * RESULTS_SHARE) // max(1, len(plan.steps))
    budget = max(LEAST_SHOWN, min(result_budget(profile, compression), room))
    return "The steps of the plan so far:\n\n" + "\n\n".join(
        _shown(step, budget, profile, compression) for step in plan.steps
    )


def plan_in_lines(plan: Plan) -> str:
    """Return the plan in lines, for the trace."""
    return "\n".join(f"{step.id} ({_kind(step)}): {step.title}" for step in plan.steps)


def clipped_error(text: str) -> str:
    """Return an error, cut to the length that a prompt needs."""
    return text if len(text) <= _LONGEST_ERROR else f"{text[: _LONGEST_ERROR - 1]}…"


def _kind(step: PlanStep) -> str:
    tools = ", ".join(step.tool_hints) or step.tool_name
    return f"{step.type}: {tools}" if tools else step.type


def _shown(step: PlanStep, budget: int, profile: ContextProfile, compression: ResultCompressionConfig) -> str:
    after = f", after {', '.join(step.depends_on)}" if step.depends_on else ""
    said = [f"{step.id} ({_kind(step)}{after}), {step.status.replace('_', ' ')}: {step.title}"]
    if step.status != "completed":
        said.append(fence(f"instruction-of-{step.id}", clipped_error(step.instruction)))
    if step.error:
        said.append(fence(f"error-of-{step.id}", clipped_error(step.error)))
    if step.result:
        text = preview(
            step.result,
            None,
            budget,
            head_share=compression.head_share,
            list_items=profile.list_items,
        )
        said.append(fence(f"result-of-{step.id}", text))
    return "\n".join(said)


def _tools(tools: Sequence[ToolDefinition]) -> str:
    if not tools:
        return "There are no tools: all steps are of type analysis."
    lines = "\n".join(f"- {signature(tool)}: {' '.join(tool.description.split())}" for tool in tools)
    return f"The tools:\n{fence('tools', lines)}"


def _requirements(needs: ToolNeeds) -> str:
    if not needs.required:
        return ""
    lines = "\n".join(
        f"- {each.name}: {each.min_calls} {'call' if each.min_calls == 1 else 'calls'} or more"
        for each in needs.required
    )
    return f"TOOL CALL REQUIREMENTS\nThe plan must have a tool_call step for each of these:\n{lines}"
