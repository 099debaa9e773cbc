"""Schemas that a model fills in, examples of them, and the steps made of them.

An example that names a tool that the run lacks, or an id that is not to be had, is copied by small models and
refused: so each example is made for its run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

from attrs import field, frozen
from attrs.validators import and_, ge, le, max_len, min_len
from returns.result import Failure, Result, Success

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.plans import PlanStep, PlanStepType
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.call_parsing import argument_schema
from reactive_agents.kernel.context_window.previews import cut_before

MOST_STEPS = 50
"""Steps that one plan, or one addition to it, may have."""

Verdict: TypeAlias = Literal["SATISFIED", "UNSATISFIED"]


@frozen
class LLMPlanStep:
    """One step of a plan.

    Attributes:
        title: a few words for people.
        instruction: what exactly is to be done in this step.
        type: how the step is run.
        tool_name: the tool of a tool_call step.
        tool_args: the arguments of a tool_call step.
        tool_hints: the only tools that a composite step may use.
        depends_on: ids of steps that must be completed before this one.
    """

    title: str = field(validator=min_len(1))
    instruction: str = field(validator=min_len(1))
    type: PlanStepType
    tool_name: str | None = None
    tool_args: JsonObject = field(factory=dict)
    tool_hints: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()


@frozen
class LLMPlanOutput:
    """The steps that lead to the goal, in the order in which they are to be done."""

    steps: tuple[LLMPlanStep, ...] = field(validator=and_(min_len(1), max_len(MOST_STEPS)))


@frozen(kw_only=True)
class Reflection:
    """Whether the results of a plan reach its goal; findings come before the verdict.

    Attributes:
        missing: what is still missing, one item for each thing.
        verdict: SATISFIED when the results do all that the task asks for.
        confidence: how sure that is, 0 to 1.
        answer_step: id of the step whose result is the complete answer as it stands; null for none.
    """

    missing: tuple[str, ...] = ()
    verdict: Verdict
    confidence: float = field(validator=and_(ge(0.0), le(1.0)))
    answer_step: str | None = None


# --- From the content that a model gave to steps with ids, positions and statuses ---


def hydrate_steps(steps: Sequence[LLMPlanStep], *, first: int, position: int = 1) -> tuple[PlanStep, ...]:
    """Return the steps with ids in their order, all pending.

    A step depends on what it says, other than itself, and on the steps that it refers to.

    Args:
        first: the number of the first id.
        position: the position of the first step in its plan, from 1.
    """
    return tuple(
        hydrate_step(step, step_id=f"s{first + offset}", seq=position + offset)
        for offset, step in enumerate(steps)
    )


def hydrate_step(step: LLMPlanStep, *, step_id: str, seq: int) -> PlanStep:
    """Return one pending step."""
    others = (each for each in step.depends_on if each != step_id)
    named = (*others, *references_in([step.instruction, step.tool_args]))
    return PlanStep(
        id=step_id,
        seq=seq,
        title=step.title,
        instruction=step.instruction,
        type=step.type,
        tool_name=step.tool_name if step.type == "tool_call" else None,
        tool_args=step.tool_args if step.type == "tool_call" else {},
        tool_hints=step.tool_hints if step.type == "composite" else (),
        depends_on=tuple(dict.fromkeys(named)),
    )


def next_number(steps: Sequence[PlanStep]) -> int:
    """Return the number of the next id, above that of every step."""
    numbers = (int(step.id[1:]) for step in steps if step.id[1:].isdecimal())
    return max(numbers, default=0) + 1


def next_position(steps: Sequence[PlanStep]) -> int:
    """Return the position after that of every step."""
    return max((step.seq for step in steps), default=0) + 1


# --- Examples, made of the tools that a run has ----------------------------------------------------------


_DEEPEST = 8
_TEXTS = {"date": "2026-01-31", "date-time": "2026-01-31T09:00:00Z", "time": "09:00:00Z", "email": "a@b.org"}
_TEXTS |= {"uri": "https://example.org", "uuid": "00000000-0000-4000-8000-000000000000"}


def example_plan(tools: Sequence[ToolDefinition], first: int) -> LLMPlanOutput:
    """Return a plan of two steps: a call where there is a tool, and an analysis.

    Args:
        first: the number of the id that its first step will get.
    """
    writing = LLMPlanStep("Answer", f"Write the answer from this: {{{{from_step:s{first}}}}}", "analysis")
    return LLMPlanOutput((example_step(tools), writing))


def example_step(tools: Sequence[ToolDefinition]) -> LLMPlanStep:
    """Return a step that calls one of the tools; without tools an analysis."""
    if not tools:
        return LLMPlanStep("Causes", "List the three main causes.", "analysis")
    tool = next((each for each in tools if not each.output), tools[0])
    arguments = example_arguments(tool.parameters)
    return LLMPlanStep("Look it up", f"Call {tool.name}.", "tool_call", tool.name, arguments)


def example_arguments(parameters: JsonObject) -> JsonObject:
    """Return values for the arguments that a tool requires."""
    return _fields(parameters, parameters, 0)


def _fields(schema: JsonObject, root: JsonObject, depth: int) -> JsonObject:
    known, required = argument_schema.properties_of(schema), argument_schema.required_of(schema)
    return {name: _value(known.get(name, {}), root, name, depth + 1) for name in known if name in required}


def _value(schema: Json, root: JsonObject, name: str, depth: int) -> Json:
    """Return a value of the first form that is not null."""
    forms = [
        each for each in argument_schema.branches(schema, root) if argument_schema.types_of(each) != {"null"}
    ]
    form: JsonObject = forms[0] if forms else {}
    choices, kinds = argument_schema.choices_of(form), argument_schema.types_of(form)
    if choices:
        return choices[0]
    if "properties" in form and depth < _DEEPEST:
        return _fields(form, root, depth)
    if "array" in kinds:
        return [_value(form["items"], root, name, depth + 1)] if "items" in form and depth < _DEEPEST else []
    if "object" in kinds:
        return {}
    if "boolean" in kinds:
        return True
    if kinds & {"integer", "number"}:
        low = form.get("minimum", 1)
        return low if isinstance(low, int | float) else 1
    return _TEXTS.get(str(form.get("format")), f"the {name}")


# --- References to the results of other steps: ``{{from_step:s1}}`` ---
# ``{{from_step:s1}}`` and ``{{from_step:s1:full}}`` give the whole result, ``{{from_step:s1:summary}}``
# for its first 500 characters. A result is text: an argument that is nothing but a reference to a JSON result
# becomes the text of that JSON. The text of a result is never searched for references.


SUMMARY_CHARACTERS = 500
DEEPEST = 64
"""Levels of nested arguments that are looked at; what lies deeper is refused."""

_REFERENCE = re.compile(r"\{\{\s*from_step\s*:\s*([^{}:\s]+)\s*(?::\s*(full|summary)\s*)?\}\}")
_SIGN = re.compile(r"\{\{\s*from_step")


class _Unresolved(Exception):
    """A reference without a result; the message says why."""


def references_in(value: Json) -> tuple[str, ...]:
    """Return the ids of the steps that the texts of a value refer to, each once."""
    found = (match[1] for text in _texts(value) for match in _REFERENCE.finditer(text))
    return tuple(dict.fromkeys(found))


def malformed_reference(value: Json) -> str | None:
    """Return the beginning of the first invalid reference; ``None`` without one."""
    for text in _texts(value):
        rest = _REFERENCE.sub("", text)
        sign = _SIGN.search(rest)
        if sign is not None:
            return rest[sign.start() : sign.start() + 40]
    return None


def unchanged(text: str, step_id: str) -> str:
    """Return a result unchanged, as an argument of a tool gets it."""
    return text


def interpolate(
    value: Json, step: PlanStep, steps: Sequence[PlanStep], show: Callable[[str, str], str] = unchanged
) -> Result[Json, str]:
    """Return the value with each reference replaced by its result.

    Pure and total. Fails with a message that names the reference: a step that refers to itself, to a step
    that does not exist or is not completed, or in a form that there is not.

    Args:
        value: text, or lists and objects with text in them.
        step: the step that the value is of.
        show: what is made of a result and the id of its step.
    """
    known = {each.id: each for each in steps}
    try:
        return Success(_filled(value, step.id, known, show, DEEPEST))
    except _Unresolved as problem:
        return Failure(str(problem))


def summary_of(text: str) -> str:
    """Return the first 500 characters of a result, cut at a word if one is near."""
    return text if len(text) <= SUMMARY_CHARACTERS else text[: cut_before(text, SUMMARY_CHARACTERS)]


def _filled(
    value: Json, step_id: str, known: dict[str, PlanStep], show: Callable[[str, str], str], room: int
) -> Json:
    if room < 0:
        raise _Unresolved(f"the arguments are nested more than {DEEPEST} levels deep")
    if isinstance(value, str):
        wrong = malformed_reference(value)
        if wrong is not None:
            raise _Unresolved(f"{wrong!r} is no reference of the form {{{{from_step:s1}}}}")
        return _REFERENCE.sub(lambda match: _result(match, step_id, known, show), value)
    if isinstance(value, list):
        return [_filled(item, step_id, known, show, room - 1) for item in value]
    if isinstance(value, dict):
        for name in value:
            if _SIGN.search(name):
                raise _Unresolved(f"the name {name[:40]!r} of an argument holds a reference; only values can")
        return {name: _filled(item, step_id, known, show, room - 1) for name, item in value.items()}
    return value


def _result(
    match: re.Match[str], step_id: str, known: dict[str, PlanStep], show: Callable[[str, str], str]
) -> str:
    wanted = match[1]
    if wanted == step_id:
        raise _Unresolved(f"{match[0]} refers to the step itself")
    source = known.get(wanted)
    if source is None:
        steps = ", ".join(known) or "none"
        raise _Unresolved(f"{match[0]} refers to a step that does not exist; there are: {steps}")
    if source.status != "completed" or source.result is None:
        status = source.status.replace("_", " ")
        raise _Unresolved(f"{match[0]} refers to a step that is not completed ({wanted} is {status})")
    return show(summary_of(source.result) if match[2] == "summary" else source.result, wanted)


def _texts(value: Json) -> Iterator[str]:
    """Return the texts in a value, names of arguments included, to the depth limit."""
    level: list[Json] = [value]
    for _ in range(DEEPEST + 2):
        following: list[Json] = []
        for each in level:
            if isinstance(each, str):
                yield each
            elif isinstance(each, list):
                following.extend(each)
            elif isinstance(each, dict):
                following.extend((*each, *each.values()))
        level = following
