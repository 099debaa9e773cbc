"""Examples for the prompts of planning, made of the tools that a run has.

An example that names another tool, or an id that is not to be had, is copied by small models and refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.call_parsing import argument_schema
from reactive_agents.reasoning.planning.schemas import LLMPlanOutput, LLMPlanStep

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
