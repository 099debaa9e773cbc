"""Prompts of planning.

All but instructions and the task is data, and stands in fences.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from reactive_agents.core.config import ContextProfile, ContextTier, Depth, ResultCompressionConfig
from reactive_agents.core.json import Json
from reactive_agents.core.plans import Plan, PlanMode, PlanStep
from reactive_agents.core.settings import ToolNeeds
from reactive_agents.core.texts import counted, shortened
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.call_parsing.argument_schema import properties_of, signature
from reactive_agents.kernel.context_window.previews import passages, preview
from reactive_agents.kernel.context_window.tool_results import result_budget
from reactive_agents.kernel.prompt import fence
from reactive_agents.reasoning.passes import Progress
from reactive_agents.reasoning.planning.context import PlanningContext, evidence_of_composites
from reactive_agents.reasoning.planning.schemas import MOST_STEPS
from reactive_agents.reasoning.strategy import profile_of

CHARACTERS_PER_TOKEN = 4
RESULTS_SHARE = 0.5
"""Of the window, what the results of all steps together get in one prompt."""
LEAST_SHOWN = 200
_LONGEST_ERROR = 1_000
_PLAIN = frozenset({"type", "title", "description", "default", "enum"})
"""Parts of a schema that a signature shows, and the description."""

_ANALYSIS_ONLY = "Each step is of type analysis: thinking or writing."
_STEP_TYPES = (
    "Each step has one of these types:\n"
    "- tool_call: one call of one tool. Its arguments are known now, or are results of earlier steps. Give "
    "tool_name and tool_args; the call is run exactly as written.\n"
    "- analysis: thinking or writing, without tools.\n"
    "- composite: several calls, or calls whose arguments have to be found out first. List in tool_hints the "
    "only tools that it may use."
)
_BRIEF_TYPES = (
    "Step types:\n"
    "- tool_call: one call with known arguments. Give tool_name and tool_args.\n"
    "- analysis: thinking or writing, without tools.\n"
    "- composite: several calls. List the tools in tool_hints."
)
_SEPARATE_CALLS = "To look up several things, make one tool_call for each."
_FEW_STEPS = "Make no step that the task does not need."
_LINEAR = "The steps run in this order. A step may depend on earlier ones only."
_DAG = (
    "Steps run at the same time unless one depends on another: list in depends_on the steps that must come "
    "first, and no others."
)
_LAST = "The last step is an analysis that writes the complete answer."
_UNLESS_DELIVERED = f"Unless a tool delivers the result, {_LAST[0].lower()}{_LAST[1:]}"
_SHALLOW = "Compare the results with what the task asks for. Say briefly what is missing, if anything."
_DEEP = (
    "List what the task asks for. For each item check: is it in the results, is it supported there, do "
    "the results contradict each other? Name each item that is missing or doubtful, so that steps can be "
    "made for it."
)
_REFLECT = (
    "Judge whether the results of a plan do what the task asks for. Be strict: what the results do not show "
    "has not been done. If the result of one step is by itself the complete answer to the task, name that "
    "step in answer_step."
)

ANALYSIS_INSTRUCTIONS = (
    "Do one step of a larger plan. Reply with the complete result of this step alone, without remarks on how "
    "you got it."
)
COMPOSITE_INSTRUCTIONS = (
    "This is one step of a larger plan. Do only this step: the other steps do the rest of the task. Your "
    "answer is the result of this step."
)
_ANSWER = (
    "The steps of a plan were carried out. Write the answer to the task from their results: state those that "
    "it asks for, and use nothing that no result shows."
)
_FIND_THE_REST = "Call tools only for what is still missing."
_SAY_THE_REST = "Say plainly what could not be done or found."


def plan_instructions(rules: str) -> str:
    """Return the instructions for making a plan. ``rules``: of :func:`step_rules`."""
    ids = "The steps get the ids s1, s2, … in their order."
    return f"Make a plan for the task, of at most {MOST_STEPS} steps. {ids}\n{rules}"


def patch_instructions(failed_id: str, rules: str) -> str:
    """Return the instructions for rewriting one failed step."""
    return (
        f"The step {failed_id} of a plan failed. Rewrite it so that it works this time: correct its "
        f"arguments, or reach the same in another way. Write this one step. It keeps its id, {failed_id}, "
        f"and its place in the plan.\n{rules}"
    )


def replan_instructions(first_id: str, rules: str) -> str:
    """Return the instructions for rewriting all remaining steps."""
    return (
        "A plan cannot continue as it is. Write the steps that are still needed, in place of all that are "
        "not completed. Completed steps stay, are not run again, and may be referred to. "
        f"{_ids_from(first_id)}\n{rules}"
    )


def augment_instructions(first_id: str, rules: str) -> str:
    """Return the instructions for steps that fill gaps."""
    return (
        "All steps of a plan are completed, but the task is not. Write supplementary steps for what is "
        f"missing, and for nothing else. They may refer to completed ones. {_ids_from(first_id)}\n{rules}"
    )


def step_rules(reference: str, tier: ContextTier, *, with_tools: bool) -> str:
    """Return the rules for steps, in fewer words for local models.

    Args:
        reference: the id of a step whose result may be referred to; empty when there is none.
        with_tools: whether the run has any.
    """
    local = tier == "local"
    parts = [_BRIEF_TYPES if local else _STEP_TYPES] if with_tools else [_ANALYSIS_ONLY]
    if reference:
        whole, beginning = f"{{{{from_step:{reference}}}}}", f"{{{{from_step:{reference}:summary}}}}"
        also = "" if local else f", {beginning} for its beginning"
        parts.append(
            f"{whole} in an instruction or argument stands for the result of {reference}{also}. A step sees "
            "no other results."
        )
    return "\n".join([*parts, f"{_SEPARATE_CALLS} {_FEW_STEPS}" if with_tools else _FEW_STEPS])


def order_rules(mode: PlanMode, *, with_tools: bool) -> str:
    """Return the rules for the order of steps."""
    order = _LINEAR if mode == "linear" else _DAG
    return f"{order} {_UNLESS_DELIVERED if with_tools else _LAST}"


def _ids_from(first_id: str) -> str:
    return f"Your steps get the ids from {first_id} on, in their order."


def reflect_instructions(depth: Depth) -> str:
    """Return the instructions for judging the results of a plan."""
    return f"{_REFLECT} {_DEEP if depth == 'deep' else _SHALLOW}"


def answer_instructions(*, with_tools: bool) -> str:
    """Return the instructions for the answer from the results of a plan."""
    parts = (_ANSWER, _FIND_THE_REST if with_tools else "", _SAY_THE_REST)
    return " ".join(part for part in parts if part)


def with_requirements(instructions: str, needs: ToolNeeds) -> str:
    """Return the instructions with the required calls."""
    return "\n\n".join(part for part in (instructions, _requirements(needs)) if part)


def described_tools(tools: Sequence[ToolDefinition]) -> str:
    """Return the tools with what their arguments mean; empty without any."""
    listed = "\n".join(map(_described, tools))
    return f"The tools:\n{fence('tools', listed)}" if tools else ""


def change_content(
    plan: Plan,
    progress: Progress,
    context: PlanningContext,
    missing: Sequence[str] = (),
    stored: Mapping[str, str] | None = None,
) -> str:
    """Return the task, the results so far, and the missing parts.

    ``stored``: as of :func:`shown_results`.
    """
    compression, profile = context.input.settings.compression, profile_of(context.input, context.services)
    results = shown_results(plan, profile, compression, stored)
    found = evidence_of_composites(plan, progress, context)
    seen = f"What the tools of composite steps gave:\n{fence('evidence', found)}" if found else ""
    lacking = fence("missing", "\n".join(f"- {each}" for each in missing)) if missing else ""
    return "\n\n".join(part for part in (plan.goal, results, seen, lacking) if part)


def step_content(step: PlanStep, instruction: str, goal: str, found: str, results: str = "") -> str:
    """Return one step as a task, with what the attempt before gave.

    Args:
        instruction: the instruction, with the results that it refers to.
        found: what its tools gave in earlier attempts.
        results: the results of other steps, for a step that refers to none of them.
    """
    parts = [instruction, *((results,) if results else ())]
    if goal.strip() != instruction.strip():
        parts.append(f"This is the step {step.title!r} of a larger task:\n{fence('larger-task', goal)}")
    if step.error:
        parts.append(f"The attempt before failed:\n{fence('error', clipped_error(step.error))}")
    if step.result:
        parts.append(f"Its partial result:\n{fence('attempt-before', step.result)}")
    if found:
        parts.append(f"Its tools have found this already. Look up only the rest:\n{fence('found', found)}")
    return "\n\n".join(parts)


def shown_results(
    plan: Plan,
    profile: ContextProfile,
    compression: ResultCompressionConfig,
    stored: Mapping[str, str] | None = None,
) -> str:
    """Return every step with its result, each within an equal share of the window.

    Of a result that is too long, the passages that are about the task are shown besides.

    Args:
        stored: results by the keys that ``recall`` reads; ``None`` where the model cannot recall.
    """
    keys = {text: key for key, text in (stored or {}).items()}
    room = int(profile.window_tokens * CHARACTERS_PER_TOKEN * RESULTS_SHARE) // max(1, len(plan.steps))
    budget = max(LEAST_SHOWN, min(result_budget(profile, compression), room))
    return "The steps of the plan so far:\n\n" + "\n\n".join(
        _shown(step, plan.goal, budget, profile, compression, keys.get(step.result or ""))
        for step in plan.steps
    )


def plan_in_lines(plan: Plan) -> str:
    """Return the plan in lines, for the trace."""
    return "\n".join(f"{step.id} ({_kind(step)}): {step.title}" for step in plan.steps)


def clipped_error(text: str) -> str:
    """Return an error, cut to the length that a prompt needs."""
    return shortened(text, _LONGEST_ERROR)


def _kind(step: PlanStep) -> str:
    tools = ", ".join(step.tool_hints) or step.tool_name
    return f"{step.type}: {tools}" if tools else step.type


def _shown(
    step: PlanStep,
    goal: str,
    budget: int,
    profile: ContextProfile,
    compression: ResultCompressionConfig,
    key: str | None,
) -> str:
    after = f", after {', '.join(step.depends_on)}" if step.depends_on else ""
    said = [f"{step.id} ({_kind(step)}{after}), {step.status.replace('_', ' ')}: {step.title}"]
    if step.status != "completed":
        said.append(fence(f"instruction-of-{step.id}", clipped_error(step.instruction)))
    if step.status != "completed" and step.type == "tool_call":
        call = f"{step.tool_name}({json.dumps(step.tool_args, ensure_ascii=False)})"
        said.append(fence(f"call-of-{step.id}", clipped_error(call)))
    if step.error:
        said.append(fence(f"error-of-{step.id}", clipped_error(step.error)))
    if step.result:
        about = passages(step.result, goal, budget // 4) if len(step.result) > budget else ""
        text = preview(
            step.result,
            key,
            budget - len(about),
            head_share=compression.head_share,
            list_items=profile.list_items,
        )
        said.append(fence(f"result-of-{step.id}", text))
        if about:
            said.append(fence(f"passages-of-{step.id}", about))
    return "\n".join(said)


def _described(tool: ToolDefinition) -> str:
    """Return a tool's signature and description, and what its types leave out."""
    schema, called = tool.parameters, signature(tool)
    lines = [f"- {called}: {' '.join(tool.description.split())}"]
    for name, argument in properties_of(schema).items():
        details = _details(argument)
        if details or "…" in called:
            lines.append(f"  {name}: {details or json.dumps(argument, ensure_ascii=False)}")
    if "$defs" in schema:
        lines.append(f"  $defs: {json.dumps(schema['$defs'], ensure_ascii=False)}")
    return "\n".join(lines)


def _details(argument: Json) -> str:
    """Return the description of a plain argument, or the schema of another one."""
    if not isinstance(argument, dict):
        return ""
    if _PLAIN.issuperset(argument):
        return str(argument.get("description", ""))
    return json.dumps(argument, ensure_ascii=False)


def _requirements(needs: ToolNeeds) -> str:
    if not needs.required:
        return ""
    lines = "\n".join(f"- {each.name}: {counted(each.min_calls, 'call')} or more" for each in needs.required)
    return f"TOOL CALL REQUIREMENTS\nThe plan must have a tool_call step for each of these:\n{lines}"
