"""Validation of plans, before any of their steps runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve

from reactive_agents.core.errors import FieldProblem
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.call_parsing import repair_call, signature
from reactive_agents.kernel.call_parsing.argument_schema import required_of
from reactive_agents.kernel.call_parsing.tool_names import find_tool
from reactive_agents.reasoning.planning.references import malformed_reference
from reactive_agents.reasoning.planning.schemas import LLMPlanStep


def repaired_call(
    step: PlanStep, arguments: JsonObject, definitions: Sequence[ToolDefinition], call_id: str = ""
) -> ToolCall:
    """Return the call of a ``tool_call`` step, repaired as a model's own calls are."""
    repaired = repair_call(ToolCall(CallId(call_id), step.tool_name or "", arguments), definitions)
    return evolve(repaired.call, repairs=repaired.repairs)


def with_known_names(step: LLMPlanStep, names: Sequence[str]) -> LLMPlanStep:
    """Return the step with its tools under their exact names, where these are certain."""
    hints = tuple(dict.fromkeys(_known(name, names) for name in step.tool_hints))
    tool_name = None if step.tool_name is None else _known(step.tool_name, names)
    return evolve(step, tool_name=tool_name, tool_hints=hints)


def _known(name: str, names: Sequence[str]) -> str:
    return name if name in names else find_tool(name, tuple(names)) or name


# --- What is wrong with a plan, found before any of it runs ---


def find_problems(
    plan: Plan, written: Mapping[str, str], definitions: Sequence[ToolDefinition]
) -> tuple[FieldProblem, ...]:
    """Return the problems of the steps that a model wrote; empty when they can run.

    Args:
        plan: with these steps in it.
        written: for the id of each such step, its path in what the model wrote, such as ``$.steps[0]``.
        definitions: the tools that the run has.
    """
    found: list[FieldProblem] = []
    for step in plan.steps:
        path = written.get(step.id)
        if path is not None:
            found += (FieldProblem(f"{path}{place}", said) for place, said in _of_tools(step, definitions))
            found += (FieldProblem(f"{path}{place}", said) for place, said in _of_order(step, plan))
    cycle = find_cycle(plan.steps)
    if cycle:
        path = next((written[step_id] for step_id in cycle if step_id in written), "$")
        found.append(FieldProblem(f"{path}.depends_on", f"a circle of steps: {' → '.join(cycle)}"))
    return tuple(found)


def find_cycle(steps: Sequence[PlanStep]) -> tuple[str, ...]:
    """Return a cycle of dependencies, the first id again at its end.

    Empty without one.

    A step that depends on itself alone is no such circle: it is a problem by itself.
    """
    after = {step.id: [needed for needed in step.depends_on if needed != step.id] for step in steps}
    done: set[str] = set()
    for start in after:
        path: list[str] = []
        branches: list[Iterator[str]] = [iter((start,))]
        while branches:
            step_id = next(branches[-1], None)
            if step_id is None:
                branches.pop()
                if path:
                    done.add(path.pop())
            elif step_id in path:
                return (*path[path.index(step_id) :], step_id)
            elif step_id in after and step_id not in done:
                path.append(step_id)
                branches.append(iter(after[step_id]))
    return ()


def _of_tools(step: PlanStep, definitions: Sequence[ToolDefinition]) -> Iterator[tuple[str, str]]:
    known = {definition.name: definition for definition in definitions}
    names = ", ".join(known) or "there are none"
    for name in step.tool_hints:
        if name not in known:
            yield ".tool_hints", f"there is no tool {name!r}; expected some of: {names}"
    if step.type != "tool_call":
        return
    if not step.tool_name:
        yield ".tool_name", f"missing: a tool_call step names its tool; expected one of: {names}"
        return
    definition = known.get(step.tool_name)
    if definition is None:
        yield ".tool_name", f"there is no tool {step.tool_name!r}; expected one of: {names}"
        return
    call = repaired_call(step, step.tool_args, definitions)
    lacking = sorted(required_of(definition.parameters) - call.arguments.keys())
    if lacking:
        yield ".tool_args", f"missing: {', '.join(lacking)}; the tool is called as {signature(definition)}"


def _of_order(step: PlanStep, plan: Plan) -> Iterator[tuple[str, str]]:
    steps = {each.id: each for each in plan.steps}
    wrong = malformed_reference([step.instruction, step.tool_args])
    if wrong is not None:
        yield "", f"{wrong!r} is no reference of the form {{{{from_step:s1}}}}"
    for needed in step.depends_on:
        other = steps.get(needed)
        if needed == step.id:
            yield "", f"{step.id} refers to itself"
        elif other is None:
            yield "", f"{step.id} depends on {needed}, which does not exist; there are: {', '.join(steps)}"
        elif other.status in ("failed", "skipped"):
            yield "", f"{step.id} depends on {needed}, which has {_ended(other)}"
        elif plan.mode == "linear" and other.seq > step.seq:
            yield "", f"{step.id} depends on {needed}, which comes after it"


def _ended(step: PlanStep) -> str:
    return "failed" if step.status == "failed" else "been skipped"
