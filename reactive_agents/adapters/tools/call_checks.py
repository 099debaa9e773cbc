"""Validation and conversion of a model's arguments for a tool, and approval."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import attrs
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.json_value import (
    SHOWN_CHARS,
    as_text,
    first_problems,
    shorten,
    to_json_value,
)
from reactive_agents.adapters.tools.schema import ArgumentSchema
from reactive_agents.core.errors import ArgumentProblem, InvalidToolArguments, ToolNotApproved
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest, ArgumentsCheck
from reactive_agents.core.ids import ApprovalId
from reactive_agents.core.json import Json, JsonObject, abbreviated, copied_json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.run_context import SessionState, can_take
from reactive_agents.core.texts import shortened
from reactive_agents.core.tools import ApprovalRule, ToolDefinition, ToolScope
from reactive_agents.effects import attempt, call_function, is_cancelled
from reactive_agents.ports import Approver

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_log = logging.getLogger("reactive_agents")


def convert_arguments(
    tool_name: str, schema: ArgumentSchema, arguments: JsonObject, *, shown: JsonObject | None = None
) -> Result[dict[str, Any], InvalidToolArguments]:
    """Return the sent arguments, converted to the annotated types.

    Converts without loss (``"3"`` to ``3``), but ``true`` to no number. Fails with ``InvalidToolArguments``,
    which names each argument that is missing, unknown or of the wrong type; total for any JSON object.

    Args:
        shown: a JSON Schema that the arguments have to fit too, as they were sent or converted; ``None`` for
            none.
    """
    converted = _converted(tool_name, schema, arguments)
    if shown is None or not isinstance(converted, Success):
        return converted
    fits = shown_check(tool_name, shown)
    if isinstance(fits(arguments), Success):
        return converted
    given = {name: _as_it_is(value) for name, value in converted.unwrap().items()}
    return fits(given).bind(lambda _: converted)


def shown_check(
    tool_name: str, shown: JsonObject | None
) -> Callable[[JsonObject], Result[None, InvalidToolArguments]]:
    """Return the check that arguments fit the schema that was shown, if any.

    Its ``InvalidToolArguments`` names each argument that does not fit.
    """
    if shown is None:
        return lambda _: Success(None)
    from reactive_agents.adapters.tools.mcp.listed_tools import ArgumentCheck  # of prepared tools

    return partial(ArgumentCheck(shown), tool_name)


def _converted(
    tool_name: str, schema: ArgumentSchema, arguments: JsonObject
) -> Result[dict[str, Any], InvalidToolArguments]:
    if schema.validator is None:
        checked = schema.check(tool_name, arguments) if schema.check is not None else Success(None)
        return checked.map(lambda _: dict(arguments))
    if wrong := _truths_for_numbers(schema, arguments):
        return Failure(InvalidToolArguments(tool_name, wrong))
    try:
        return Success(schema.validator.validate_python(arguments))
    except Exception as error:  # noqa: BLE001 - validators and constructors of the user's types are arbitrary code
        from pydantic_core import ValidationError

        if isinstance(error, ValidationError):
            details = error.errors(include_url=False, include_context=False)
            return Failure(InvalidToolArguments(tool_name, _problems(details, schema, arguments)))
        problem = ArgumentProblem("arguments", shorten(arguments), f"valid values ({as_text(error)})")
        return Failure(InvalidToolArguments(tool_name, (problem,)))


def _fields(schema: ArgumentSchema) -> Mapping[str, JsonObject]:
    return cast(Mapping[str, JsonObject], schema.json_schema.get("properties", {}))


def _truths_for_numbers(schema: ArgumentSchema, arguments: JsonObject) -> tuple[ArgumentProblem, ...]:
    truths = [name for name, value in arguments.items() if isinstance(value, bool)]
    if not truths:
        return ()
    fields = _fields(schema)
    kinds = {name: fields.get(name, {}).get("type") for name in truths}
    return tuple(
        ArgumentProblem(name, shorten(arguments[name]), f"a value of the type {kind}")
        for name, kind in kinds.items()
        if kind in ("integer", "number")
    )


def arguments_of_run(schema: ArgumentSchema, converted: Mapping[str, Any]) -> JsonObject:
    """Return the arguments of a tool as JSON: converted, and with defaults."""
    fields = _fields(schema)
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    known = {**defaults, **{name: _as_it_is(value) for name, value in converted.items()}}
    return {name: known[name] for name in (*schema.names, *known) if name in known}


def _as_it_is(value: object) -> Json:
    return value if type(value) is str else to_json_value(value)  # keeps lone surrogates


def malformed_arguments(tool_name: str, text: str) -> InvalidToolArguments:
    """Return the error for arguments that are not a JSON object."""
    breaks_off = text.lstrip().startswith("{") and not text.rstrip().endswith("}")
    hint = ": it breaks off; send less in one call" if breaks_off else ""
    expected = f"a JSON object (this text could not be read as JSON{hint})"
    return InvalidToolArguments(
        tool_name, (ArgumentProblem("arguments", shortened(text, SHOWN_CHARS), expected),)
    )


def _problems(
    details: Sequence[ErrorDetails], schema: ArgumentSchema, arguments: JsonObject
) -> tuple[ArgumentProblem, ...]:
    found: dict[str, ArgumentProblem] = {}
    for detail in details:
        missing = detail["type"] == "missing"
        path = _path(detail["loc"], arguments, missing=missing)
        got = "nothing" if missing else shorten(detail["input"])
        expected = _expected(detail, schema)
        earlier = found.get(path)
        if earlier is not None:  # each member of a union states its expectation
            if expected not in earlier.expected.split(" or "):
                found[path] = ArgumentProblem(path, earlier.got, f"{earlier.expected} or {expected}")
        else:
            found[path] = ArgumentProblem(path, got, expected)
    return first_problems(tuple(found.values()))


def _expected(detail: ErrorDetails, schema: ArgumentSchema) -> str:
    match detail["type"]:
        case "missing":
            return "a value, since it is required"
        case "extra_forbidden" if len(detail["loc"]) == 1:
            return f"no argument of that name; known arguments: {', '.join(schema.names) or 'none'}"
        case "extra_forbidden" | "unexpected_keyword_argument":
            return "no field of that name"
        case _:
            message = detail["msg"]
            for prefix in ("Input should be ", "Value error, ", "Assertion failed, "):
                message = message.removeprefix(prefix)
            return message


def _path(location: tuple[int | str, ...], arguments: object, *, missing: bool) -> str:
    """Return a location such as ``items[2].name``, without type names."""
    path, here = "", arguments
    for position, step in enumerate(location):
        if isinstance(step, int) and isinstance(here, list) and step < len(here):
            path, here = f"{path}[{step}]", here[step]
        elif isinstance(here, Mapping) and step in here:
            path, here = f"{path}.{step}", here[step]
        elif missing and position == len(location) - 1:
            path = f"{path}.{step}"
    return path.removeprefix(".") or "arguments"


async def seek_approval(
    approver: Approver | None,
    call: ToolCall,
    definition: ToolDefinition,
    scope: ToolScope,
    *,
    rule: ApprovalRule | None,
    tool_name: str = "",
    check: ArgumentsCheck,
    patience_s: float | None,
) -> Result[JsonObject | None, ToolNotApproved]:
    """Ask the rule of a tool, then the approver.

    Fails with ``ToolNotApproved`` without a clear yes.

    Returns the arguments that the approver gave in place of those of the call, which fit the tool, if any.

    Args:
        rule: may let the call run unasked; not asked about a call that needs approval for itself or for a
            notice, or has arguments from outside.
        tool_name: the name of the tool for the rule, if it is not that in the call.
        check: returns whether arguments fit the tool.
        patience_s: seconds to wait for the answer; ``None`` waits forever.
    """
    decision = ApprovalDecision(False, "no answer came before the run's deadline.")
    with anyio.move_on_after(patience_s):
        if rule is not None and not (scope.needs_approval or call.copied or definition.notice):
            asking, known = partial(_lets_run, rule, tool_name or call.name, call, scope), scope.recorded_rule
            if await (asking() if known is None else known(call.arguments, asking)):
                return Success(None)
        if approver is None:
            return _refused(call, "it needs approval, and there is no approver.")
        decided = await attempt(approver.decide(_request(call, definition, scope, check)))
        if isinstance(decided, Failure):
            return _refused(call, f"asking for approval failed: {decided.failure().message}")
        asked = _request(call, definition, scope, check)  # the approver may have changed the other one
        taken = asked.taken(decided.unwrap())
        if isinstance(taken, Failure):
            return _refused(call, f"the decision could not be taken. {taken.failure().message}")
        decision = taken.unwrap()
    if decision.approved is True:
        return Success(decision.arguments)
    return _refused(call, decision.reason or "the request was declined.", decision.by)


async def _lets_run(rule: ApprovalRule, tool_name: str, call: ToolCall, scope: ToolScope) -> bool:
    """Ask the rule of a tool; it lets a call run only by returning ``False``."""
    arguments = copied_json(call.arguments)
    try:
        if can_take(rule, 1, follow_wrapped=True):
            said = await call_function(rule, arguments)
        elif scope.run_context is None:
            raise TypeError("it takes a RunContext, which only an agent's runs have")
        else:
            context = scope.run_context()
            reading = SessionState(context.state, read_only=True)
            said = await call_function(
                rule, attrs.evolve(context, state=reading, tool_name=tool_name), arguments
            )
    except BaseException as error:  # a rule is arbitrary user code
        if not is_its_own(error):
            raise
        told = type(error), error, within_the_tool(error.__traceback__)
        _log.warning(
            "The approval rule of the tool %r raised: the call needs approval.", call.name, exc_info=told
        )
        return False
    if isinstance(said, bool):
        return not said
    _log.warning(
        "The approval rule of the tool %r returned %s, expected True or False: the call needs approval.",
        call.name,
        abbreviated(said),
    )
    return False


def _request(
    call: ToolCall, definition: ToolDefinition, scope: ToolScope, check: ArgumentsCheck
) -> ApprovalRequest:
    return ApprovalRequest(
        run_id=scope.run_id,
        task_id=scope.task_id,
        agent_id=scope.agent_id,
        # not the call's id, which is unique within one kernel only, and steps of a plan run in parallel
        approval_id=ApprovalId(scope.call_key),
        call_id=call.id,
        tool_name=call.name,
        arguments=call.arguments,
        risk=definition.risk,
        copied=call.copied,
        notice=definition.notice,
        parameters=definition.parameters if scope.parameters is None else scope.parameters,
        check=check,
    )


def _refused(call: ToolCall, reason: str, by: str = "") -> Failure[ToolNotApproved]:
    return Failure(ToolNotApproved(call.name, reason, by))


def at_least_one(tool_name: str, argument: str, value: int) -> InvalidToolArguments | None:
    """Return the error of an argument below 1, or ``None``."""
    if value >= 1:
        return None
    return InvalidToolArguments(tool_name, (ArgumentProblem(argument, str(value), "1 or more"),))


# --- what a function of the program raises ----------------------------------------------------------------


def is_its_own(error: BaseException) -> bool:
    """Return whether only the function failed, not its task or the program."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_its_own, error.exceptions))
    if isinstance(error, CancelledError | anyio.get_cancelled_exc_class()):
        return not is_cancelled()  # something awaited by the function was cancelled
    return isinstance(error, Exception | SystemExit)  # ``sys.exit`` ends the call, not the program


_CALLERS: Final = frozenset({"reactive_agents", "anyio", "asyncio", "trio", "returns"})
"""The packages whose frames lead to a tool."""


def within_the_tool(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the tool on; the whole of it for a built-in tool."""
    own = trace
    while own is not None and own.tb_frame.f_globals.get("__name__", "").partition(".")[0] in _CALLERS:
        own = own.tb_next
    return own or trace
