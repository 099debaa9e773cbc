"""The decorator ``tool`` for functions, and external tools."""

from __future__ import annotations

import inspect
import logging
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping, MutableMapping
from copy import deepcopy
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Protocol, TypeAlias, cast, get_args, overload
from weakref import WeakKeyDictionary

from attrs import define, field, fields, frozen
from typing_extensions import ParamSpec, TypeVar

from reactive_agents.adapters.tools.signature import (
    PLAIN_TYPES,
    ResolvedSignature,
    ToolDefinitionError,
    ToolSignature,
    may_be_annotation,
    read_docstring,
    read_signature,
    resolve_signature,
)
from reactive_agents.core.json import JsonObject
from reactive_agents.core.run_context import RunContext, signature_of
from reactive_agents.core.tools import (
    ANSWER_TIMEOUT_S,
    ASK_USER,
    ApprovalRule,
    Risk,
    ToolDefinition,
    is_approval_rule,
)
from reactive_agents.core.values import lazy_pattern

if TYPE_CHECKING:
    from reactive_agents.adapters.tools.schema import ArgumentSchema

_log = logging.getLogger("reactive_agents")
_P = ParamSpec("_P", default=...)
_R = TypeVar("_R", default=Any)
_D = TypeVar("_D", contravariant=True, default=Any)
_Deps = TypeVar("_Deps")

WasDone: TypeAlias = Callable[[str], Any]
"""Return whether the call with an idempotency key took effect; sync or async."""

DEFAULT_TIMEOUT_S = 60.0

_NAME = lazy_pattern(r"[A-Za-z0-9_-]{1,64}")


@define(eq=False)
class _Contract:
    """The description of a function for a model, and the validator of its arguments.

    It does not reference the function.

    Attributes:
        definition: the latest definition of a tool of the function; the kernel compares definitions by
            identity.
    """

    description: str
    schema: ArgumentSchema
    context_parameter: str | None
    run_parameter: str | None
    deps_type: Any
    definition: ToolDefinition | None = None


_CONTRACTS: Mapping[bool, MutableMapping[object, _Contract]] = {
    False: WeakKeyDictionary(),
    True: WeakKeyDictionary(),
}
"""Contracts by function, so that an agent built for each request does not read functions again."""


@frozen(eq=False, slots=False)
class Tool(Generic[_P, _R, _D]):
    """A function that a model may call; still callable from Python as before.

    Its third type parameter is the type of the dependencies in the function's ``RunContext``.

    Attributes:
        function: the function, sync or async.
        name: the name that the model sees.
        timeout_s: seconds for a call; ``None`` for the default of the tool service.
        signature: the signature of the function when it became a tool.
        given_description: replaces the docstring's description.
        given_schema: replaces the schema of the function's annotations.
        agent: the agent that the function runs, if it is ``agent_tool``.
        was_done: returns after a crash whether the call with an idempotency key took effect.
        requires_approval, risk, output, idempotent, volatile, external, resumable, return_direct, retries: as
            in the definition.
    """

    function: Callable[_P, _R]
    name: str
    timeout_s: float | None = None
    requires_approval: bool | ApprovalRule = False
    risk: Risk = "low"
    output: bool = False
    idempotent: bool = False
    volatile: bool = False
    external: bool = False
    resumable: bool = False
    was_done: WasDone | None = None
    return_direct: bool = False
    retries: int | None = None
    signature: ToolSignature = field(kw_only=True, repr=False)
    given_description: str | None = field(default=None, kw_only=True, repr=False)
    given_schema: ArgumentSchema | None = field(default=None, kw_only=True, repr=False)
    agent: Any = field(default=None, kw_only=True, repr=False)

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call the function itself, without validation, approval or timeout."""
        return self.function(*args, **kwargs)

    @cached_property
    def definition(self) -> ToolDefinition:
        """The definition for the model; created at first use.

        Raises:
            ToolDefinitionError: an annotation cannot be resolved or has no JSON form.
        """
        contract = self._contract
        default_s = ANSWER_TIMEOUT_S if self.external else DEFAULT_TIMEOUT_S
        definition = ToolDefinition(
            name=self.name,
            description=self.given_description or contract.description or self.name.replace("_", " "),
            parameters=contract.schema.json_schema,
            timeout_s=default_s if self.timeout_s is None else self.timeout_s,
            requires_approval=self.requires_approval is not False,
            risk=self.risk,
            output=self.output,
            idempotent=self.idempotent,
            volatile=self.volatile,
            external=self.external,
            resumable=self.resumable,
            return_direct=self.return_direct,
            retries=self.retries,
        )
        known = contract.definition
        if known is None or known != definition:
            contract.definition = known = definition
        return known

    @property
    def schema(self) -> ArgumentSchema:
        """The schema of the arguments; created at first use, since it needs pydantic."""
        return self._contract.schema

    @property
    def context_parameter(self) -> str | None:
        """The parameter that receives the ``ToolContext``, if there is one."""
        return self._contract.context_parameter

    @property
    def run_parameter(self) -> str | None:
        """The parameter that receives the ``RunContext``, if there is one."""
        return self._contract.run_parameter

    @property
    def deps_type(self) -> Any:
        """The type of the dependencies in its ``RunContext``; ``Any`` if it accepts any."""
        return self._contract.deps_type

    @cached_property
    def _contract(self) -> _Contract:
        if self.given_schema is not None:
            resolved = resolve_signature(self.signature)
            text = read_docstring(inspect.getdoc(self.function)).text
            context, run = resolved.context_parameter, resolved.run_parameter
            taken = next((each for each in self.given_schema.names if each in (context, run)), None)
            if taken is not None:
                raise ToolDefinitionError(
                    f"The schema of the tool {self.name!r} has {taken!r}, which is the parameter of the "
                    "function for its context: give that another name."
                )
            misfit = "" if self.external else _misfit(self.given_schema, resolved, self.function)
            if misfit:
                raise ToolDefinitionError(f"The schema of the tool {self.name!r} does not fit: {misfit}.")
            return _Contract(text, self.given_schema, context, run, resolved.deps_type)
        return _contract_of(self.name, self.signature)


def _misfit(schema: ArgumentSchema, signature: ResolvedSignature, function: Callable[..., Any]) -> str:
    """Return which argument of a schema and its function differs; empty for none."""
    parameters = {each.name: each for each in signature.parameters}
    own = signature_of(function, follow_wrapped=False).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in own.values())
    for name in () if takes_any else schema.names:
        if name not in parameters:
            return f"{name!r} is a property of the schema, and no parameter of the function"
    is_flat = _NAMING_KEYWORDS.isdisjoint(schema.json_schema)
    for name, parameter in parameters.items() if is_flat else ():
        is_given = takes_any and name not in own  # by a wrapper, perhaps
        if parameter.default is parameter.empty and name not in schema.names and not is_given:
            return f"{name!r} is a required parameter of the function, and no property of the schema"
    return ""


_NAMING_KEYWORDS = frozenset(
    {"allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "if", "dependentSchemas", "patternProperties"}
)
"""Keywords of a JSON Schema beside ``properties`` that may describe arguments by their names."""


class ToolDecorator(Protocol):
    """Makes tools with the same options."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[RunContext[_Deps], _P], _R], /
    ) -> Tool[Concatenate[RunContext[_Deps], _P], _R, _Deps]: ...

    @overload
    def __call__(self, function: Callable[_P, _R], /) -> Tool[_P, _R, object]: ...


@overload
def tool(
    function: Callable[Concatenate[RunContext[_Deps], _P], _R], /
) -> Tool[Concatenate[RunContext[_Deps], _P], _R, _Deps]: ...


@overload
def tool(function: Callable[_P, _R], /) -> Tool[_P, _R, object]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    timeout_s: float | None = None,
    requires_approval: bool | ApprovalRule = False,
    risk: Risk = "low",
    output: bool = False,
    idempotent: bool = False,
    volatile: bool = False,
    external: bool = False,
    resumable: bool = False,
    was_done: WasDone | None = None,
    return_direct: bool = False,
    retries: int | None = None,
) -> ToolDecorator: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    timeout_s: float | None = None,
    requires_approval: bool | ApprovalRule = False,
    risk: Risk = "low",
    output: bool = False,
    idempotent: bool = False,
    volatile: bool = False,
    external: bool = False,
    resumable: bool = False,
    was_done: WasDone | None = None,
    return_direct: bool = False,
    retries: int | None = None,
) -> Any:
    """Create a tool from a typed function; used bare or with options.

    The model sees the function's name, its docstring (Google, numpy or reST style) and a JSON Schema of its
    annotations. Parameters annotated ``RunContext[…]`` or ``ToolContext`` are filled in by the tool service
    and hidden from the model. A sync function runs in a worker thread, an ``async`` one on the event loop.
    The function may return any value, or a ``Result`` whose failure becomes the failure of the call.

    Args:
        name: instead of the function's name; letters, digits, ``_`` and ``-``, at most 64 characters.
        description: instead of the prose of the docstring.
        parameters: JSON Schema of the arguments, an object schema, instead of the annotations; the function
            takes its properties, or ``**arguments``.
        timeout_s: seconds for a call, above 0; by default that of the tool service.
        requires_approval: deny each call without approval; or a rule, a function that returns whether a call
            needs it, sync (in a thread) or async. It takes the arguments as an ``ApprovalRequest`` has them,
            or the ``RunContext`` and the arguments. If it raises, or returns no ``bool``, a person is asked.
        risk: the possible harm of a wrong call.
        output: whether the tool delivers the result of the task.
        idempotent: whether it may be repeated with the same arguments after a crash.
        volatile: whether results of the same call may differ, so that it is run each time.
        external: whether another program executes the tool: the function is never run, and each call waits
            for ``agent.deliver``, at most ``timeout_s`` seconds, by default 300.
        resumable: whether the function has no effect except runs of agents, so that a durable run repeats it
            after a crash, and the runs resume.
        was_done: called by a durable run that was interrupted during a call, with the idempotency key of the
            call. Returns its result, or ``True``, if it took effect; ``False`` if not, so that it is run now.
            If it raises, returns ``None`` or a ``Failure``, or exceeds ``timeout_s``, the call stays in
            doubt. Sync, in a thread, or async.
        return_direct: whether the result of a call that worked ends the run as the answer, without another
            turn of the model.
        retries: how often the model may call it again after it has failed, in a row, 0 or more; by default as
            often as the run allows.

    Raises:
        ToolDefinitionError: the function cannot be a tool as it stands; the message says what to change.
    """

    def decorate(decorated: Callable[..., Any], frame: types.FrameType | None) -> Tool[..., Any]:
        if not inspect.isroutine(decorated) and not isinstance(decorated, type):
            default = type(decorated).__name__
            if callable(decorated) and not isinstance(decorated, partial):
                decorated = cast(Any, decorated).__call__
        else:
            default = getattr(decorated, "__name__", "")
        chosen = default if name is None else name
        signature = read_signature(decorated, frame, any_arguments=parameters is not None)
        made: Tool[..., Any] = Tool(
            decorated,
            chosen,
            timeout_s=timeout_s,
            requires_approval=requires_approval,
            risk=risk,
            output=output,
            idempotent=idempotent,
            volatile=volatile,
            external=external,
            resumable=resumable,
            was_done=was_done,
            return_direct=return_direct,
            retries=retries,
            signature=signature,
            given_description=description,
            given_schema=None if parameters is None else given_schema(chosen, parameters),
        )
        _check_options(made)
        return made

    if function is not None:
        return decorate(function, sys._getframe(1))
    return lambda decorated: decorate(decorated, sys._getframe(1))


def as_tool(function: Tool | Callable[..., Any]) -> Tool:
    """Return the tool itself, or a function as a tool without options.

    Raises:
        ToolDefinitionError: the function cannot be a tool as it stands.
    """
    return function if isinstance(function, Tool) else tool(function)


def _contract_of(name: str, signature: ToolSignature) -> _Contract:
    """Return the contract of a function, cached unless it depends on local names.

    Raises:
        ToolDefinitionError: an annotation cannot be resolved or has no JSON form.
    """
    function = getattr(signature.function, "__func__", signature.function)
    contracts = _CONTRACTS[inspect.ismethod(signature.function)]
    known = None if signature.enclosing else contracts.get(function)
    if known is not None:
        return known
    if sys.flags.optimize > 1:
        _warn_of_optimization()
    written = signature.function.__doc__
    documentation = written if isinstance(written, str) else inspect.getdoc(signature.function)
    resolved = resolve_signature(signature)
    shape = _shape_of(name, documentation, resolved)
    contract = _SHAPES.get(shape) if shape is not None else None
    if contract is None:
        contract = _read_contract(name, documentation, resolved)
        if shape is not None:
            if len(_SHAPES) >= _MOST_SHAPES:
                _SHAPES.clear()
            _SHAPES[shape] = contract
    if not signature.enclosing:
        contracts[function] = contract
    return contract


_SHAPES: dict[tuple[object, ...], _Contract] = {}
"""Contracts of functions by all that they depend on: routes define their tools again for each request."""
_MOST_SHAPES = 128
_PLAIN_CLASSES = PLAIN_TYPES | {list, dict, tuple, set}
_PLAIN_KINDS = (*_PLAIN_CLASSES, Any, ..., typing.Union, types.UnionType)


def _shape_of(
    name: str, documentation: str | None, signature: ResolvedSignature
) -> tuple[object, ...] | None:
    """Return all that a contract depends on; ``None`` where that cannot be told."""
    defaults = [each.default for each in signature.parameters if each.default is not each.empty]
    if any(map(may_be_annotation, signature.names.values())) or not PLAIN_TYPES.issuperset(
        map(type, defaults)
    ):
        return None
    deps = signature.deps_type
    if not all(map(_is_plain, signature.annotations.values())) or not (deps is Any or isinstance(deps, type)):
        return None
    kinds = (*signature.annotations.items(), deps)
    # as text too, since `int | str` equals `str | int`, and 1 equals True
    described = repr((kinds, [(each.name, each.default) for each in signature.parameters]))
    shape = (name, documentation, signature.context_parameter, signature.run_parameter, kinds, described)
    return None if "<locals>" in described else shape


def _is_plain(annotation: Any) -> bool:
    """Return whether a type always means the same, unlike a class."""
    if type(annotation) is type:
        return annotation in _PLAIN_CLASSES
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return PLAIN_TYPES.issuperset(map(type, parts))
    if origin is typing.Annotated:
        return _is_plain(parts[0]) and {*map(type, parts[1:])} == {str}
    kind = annotation if origin is None else origin
    return any(kind is each for each in _PLAIN_KINDS) and all(map(_is_plain, parts))


def _read_contract(name: str, documentation: str | None, signature: ResolvedSignature) -> _Contract:
    from reactive_agents.adapters.tools.schema import build_schema

    read = read_docstring(documentation and inspect.cleandoc(documentation))
    schema = build_schema(name, signature, read.arguments)
    return _Contract(
        read.text, schema, signature.context_parameter, signature.run_parameter, signature.deps_type
    )


@cache
def _warn_of_optimization() -> None:
    _log.warning(
        "Python was started with -OO, which removes docstrings: models are not told what tools and their "
        "arguments are for, unless description= and Annotated say it. Use -O."
    )


def valid_tool_name(name: str) -> bool:
    """Return whether a tool may have this name."""
    return _NAME.fullmatch(name) is not None


def _check_options(made: Tool[..., Any]) -> None:
    name, seconds, retries, text = made.name, made.timeout_s, made.retries, made.given_description
    if not isinstance(name, str) or not valid_tool_name(name):
        raise ToolDefinitionError(
            f"The tool name {name!r} is not of 1 to 64 ASCII letters, digits, '_' and '-': "
            'give it another with tool(name="…").'
        )
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    checks: list[tuple[str, object, bool, str]] = [
        ("timeout_s", seconds, seconds is None or (is_number and 0 < seconds < math.inf), "seconds above 0"),
        (
            "retries",
            retries,
            retries is None or (type(retries) is int and retries >= 0),
            "a whole number, 0 or more",
        ),
        ("risk", made.risk, made.risk in get_args(Risk), f"one of {', '.join(get_args(Risk))}"),
        ("description", text, isinstance(text, str | None), "a text"),
        ("was_done", made.was_done, made.was_done is None or callable(made.was_done), "a function"),
        (
            "requires_approval",
            rule := made.requires_approval,
            isinstance(rule, bool) or is_approval_rule(rule),
            _RULE,
        ),
    ]
    checks += (
        (each, value := getattr(made, each), isinstance(value, bool), "True or False") for each in _SWITCHES
    )
    for option, value, fits, expected in checks:
        if not fits:
            raise ToolDefinitionError(f"The tool {name!r} has {option}={value!r}: give it {expected}.")


_RULE = "True, False, or a function of the arguments, or of a RunContext and the arguments"
_SWITCHES = tuple(
    each.name for each in fields(Tool) if isinstance(each.default, bool) and each.name != "requires_approval"
)


# --- Tools that another program executes, and the one by which a model asks a person ---


def external_tool(
    name: str,
    parameters: Mapping[str, Any],
    *,
    description: str,
    timeout_s: float | None = None,
    requires_approval: bool | ApprovalRule = False,
    risk: Risk = "low",
    output: bool = False,
    idempotent: bool = False,
    volatile: bool = False,
    return_direct: bool = False,
    retries: int | None = None,
) -> Tool[..., Any, object]:
    """Return an external tool, which another program executes.

    Each call is validated, and waits for ``agent.deliver``. To describe the arguments by a Python function,
    use ``@tool(external=True)``.

    Args:
        parameters: JSON Schema of the arguments, an object schema.
        description: for the model.
        timeout_s: seconds that a call waits for its result, above 0; by default ``timeouts.answer_s``.
        requires_approval, risk, output, idempotent, volatile, return_direct, retries: as for :func:`tool`.

    Raises:
        ToolDefinitionError: the name, the schema or an option is not valid.
    """
    return tool(
        name=name,
        description=description,
        parameters=parameters,
        timeout_s=timeout_s,
        requires_approval=requires_approval,
        risk=risk,
        output=output,
        idempotent=idempotent,
        volatile=volatile,
        return_direct=return_direct,
        retries=retries,
        external=True,
    )(_not_run)


def given_schema(name: str, given: Mapping[str, Any]) -> ArgumentSchema:
    """Return the schema of the arguments that a program gives.

    Raises:
        ToolDefinitionError: it is not a valid object schema.
    """
    from reactive_agents.adapters.tools.mcp.listed_tools import ArgumentCheck
    from reactive_agents.adapters.tools.schema import ArgumentSchema  # imports the codec and more

    try:
        if not isinstance(given, Mapping) or given.get("type") != "object":
            raise ValueError("its type is not object")
        parameters: JsonObject = deepcopy(dict(given))
        check = ArgumentCheck(parameters)
    except Exception as error:
        raise ToolDefinitionError(f"The schema of the tool {name!r} is not valid: {error}.") from error
    properties = parameters.get("properties")
    names = tuple(properties) if isinstance(properties, dict) else ()
    return ArgumentSchema(parameters, None, names, check)


def _not_run() -> None:
    """Describe no arguments: the schema does."""


@tool(name=ASK_USER, external=True)
def ask_user(question: str, options: list[str] | None = None) -> None:
    """Ask the user for what only they know or decide; wait for the answer.

    Args:
        question: one question, with all that is needed to answer it.
        options: answers to choose from, if there are few.
    """
