"""The signature, docstring and name of a tool, without a schema library."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping
from functools import partial
from hashlib import sha256
from operator import is_
from typing import Any, cast
from weakref import WeakKeyDictionary

from attrs import field, frozen

from reactive_agents.core.run_context import RunContext, annotations_of, signature_of
from reactive_agents.core.tools import ToolContext
from reactive_agents.core.values import Value, lazy_pattern


class ToolDefinitionError(TypeError):
    """A function cannot be a tool as it stands; the message says what to change."""


@frozen(eq=False)
class ToolSignature:
    """The parameters of a tool function, and the scope of its annotations.

    Attributes:
        parameters: the parameters from :mod:`inspect`, in order, with unresolved annotations.
        enclosing: classes and modules that were visible where the function became a tool, for string
            annotations with local names.
    """

    function: Callable[..., Any]
    parameters: tuple[inspect.Parameter, ...]
    enclosing: Mapping[str, Any] = field(factory=dict, repr=False)


@frozen(eq=False)
class ResolvedSignature:
    """A signature whose annotations are types.

    Attributes:
        parameters: the parameters for the model.
        annotations: the type of each of them; ``Any`` without an annotation.
        context_parameter: the parameter for the :class:`ToolContext`, if any.
        run_parameter: the parameter for the :class:`RunContext`, if any.
        deps_type: the type of its dependencies; ``Any`` if it accepts any.
        names: names for the annotations of local classes.
    """

    parameters: tuple[inspect.Parameter, ...]
    annotations: Mapping[str, Any]
    context_parameter: str | None
    run_parameter: str | None
    deps_type: Any
    names: Mapping[str, Any] = field(repr=False)


def read_signature(
    function: Callable[..., Any], frame: types.FrameType | None, *, any_arguments: bool = False
) -> ToolSignature:
    """Return the signature of ``function`` as seen from ``frame``.

    Args:
        any_arguments: whether it may take ``**arguments``, which a given schema describes.

    Raises:
        ToolDefinitionError: it is not a function or method, it yields, or it has a parameter that a model
            cannot fill by name.
    """
    if not inspect.isroutine(function) or isinstance(function, partial):  # from 3.14 on it is a routine
        raise ToolDefinitionError(
            f"A tool is made from a function or a bound method, not from {function!r}: wrap it in a def."
        )
    is_plain = isinstance(function, types.FunctionType) and not any_arguments
    if is_plain and _SIGNED.isdisjoint(function.__dict__):
        parameters = _parameters_of(cast(types.FunctionType, function))
    else:
        parameters = _read_parameters(function, any_arguments=any_arguments)
    return ToolSignature(function, parameters, _local_types(frame))


def _parameters_of(function: types.FunctionType) -> tuple[inspect.Parameter, ...]:
    """Return the parameters, read once for all functions of one definition."""
    code, given = function.__code__, tuple(_beside_code(function))
    known = _KNOWN.get(code)
    if known is not None and len(known[0]) == len(given) and all(map(is_, known[0], given)):
        return known[1]
    parameters = _read_parameters(function, any_arguments=False)
    is_of_request = "<locals>" in function.__qualname__  # what it was made with is not kept then
    if not is_of_request or all(map(_is_plain, given)):
        _KNOWN[code] = given, parameters
    return parameters


def _beside_code(function: types.FunctionType) -> Iterator[object]:
    """Yield what the parameters of a function are made of besides its code."""
    for each in (annotations_of(function), function.__kwdefaults__ or {}):
        yield len(each)
        yield from each
        yield from each.values()
    yield from function.__defaults__ or ()


def _is_plain(each: object) -> bool:
    return type(each) in PLAIN_TYPES or (isinstance(each, type) and each in PLAIN_TYPES)


PLAIN_TYPES: frozenset[object] = frozenset({str, int, float, bool, types.NoneType})
"""Types whose values, and which themselves, always mean the same."""


_SIGNED = frozenset({"__wrapped__", "__signature__"})
"""Attributes of a function that have another signature than its own."""
_KNOWN: MutableMapping[types.CodeType, tuple[tuple[object, ...], tuple[inspect.Parameter, ...]]] = (
    WeakKeyDictionary()
)
"""The parameters of the last function of a code, by all that they are made of besides it."""


def _read_parameters(function: Callable[..., Any], *, any_arguments: bool) -> tuple[inspect.Parameter, ...]:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolDefinitionError(f"{_name(function)} yields its values: let it return a list instead.")
    try:
        parameters = tuple(signature_of(function).parameters.values())
    except ValueError as error:  # some functions in C have no signature
        raise ToolDefinitionError(
            f"{_name(function)} has no readable signature: wrap it in a def."
        ) from error
    if any_arguments:
        parameters = tuple(each for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD)
    for position, parameter in enumerate(parameters):
        _refuse_unfillable(function, parameter, position)
    return parameters


def resolve_signature(signature: ToolSignature) -> ResolvedSignature:
    """Return the signature with evaluated annotations.

    Raises:
        ToolDefinitionError: an annotation contains an undefined name, or two parameters take the context.
    """
    function = inspect.unwrap(signature.function)
    function = getattr(function, "__func__", function)
    names, known = {**signature.enclosing, **_closure(function)}, getattr(function, "__globals__", {})
    hints: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for parameter in signature.parameters:
        annotation = parameter.annotation
        if (
            isinstance(annotation, str)
            and annotation in _BUILT_IN
            and not (annotation in names or annotation in known)
        ):
            hints[parameter.name] = _BUILT_IN[annotation]
        elif annotation is not inspect.Parameter.empty:
            rest[parameter.name] = annotation
    if rest:
        hints |= _evaluated(function, rest, known, names)
    kinds = {name: _context_in(hints[name])[0] for name in rest}
    context, run = (_only_one(function, kind, kinds) for kind in (ToolContext, RunContext))
    visible = tuple(each for each in signature.parameters if each.name not in (context, run))
    return ResolvedSignature(
        parameters=visible,
        annotations={parameter.name: hints.get(parameter.name, Any) for parameter in visible},
        context_parameter=context,
        run_parameter=run,
        deps_type=Any if run is None else deps_type(hints[run]),
        names=names,
    )


def _evaluated(
    function: Callable[..., Any], annotated: dict[str, Any], known: Mapping[str, Any], names: dict[str, Any]
) -> dict[str, Any]:
    known = {"ToolContext": ToolContext, "RunContext": RunContext, **known}
    for parameter, annotation in annotated.items():
        is_text = isinstance(annotation, str)
        if _OF_A_RUN.match(annotation) if is_text else typing.get_origin(annotation) is RunContext:
            try:
                typing.get_type_hints(_annotated({parameter: annotation}), known, names)
            except _UNRESOLVED:  # the model does not see the type, which may be missing at run time
                annotated[parameter] = RunContext
    try:
        return typing.get_type_hints(_annotated(annotated), known, names, include_extras=True)
    except _UNRESOLVED as error:
        raise ToolDefinitionError(
            f"{_name(function)} has an annotation that cannot be resolved: {error}. "
            "Define or import the type at module level (not only under TYPE_CHECKING)."
        ) from error


_BUILT_IN = {"str": str, "int": int, "float": float, "bool": bool}
_OF_A_RUN = lazy_pattern(r"(\w+\.)*RunContext\[")
_UNRESOLVED = (NameError, AttributeError, SyntaxError, TypeError)


def _annotated(annotations: dict[str, Any]) -> Any:
    return types.SimpleNamespace(__annotations__=annotations)


def _refuse_unfillable(function: Callable[..., Any], parameter: inspect.Parameter, position: int) -> None:
    match parameter.kind:
        case inspect.Parameter.VAR_POSITIONAL:
            problem = f"takes *{parameter.name}, which a model cannot fill in: take a list instead"
        case inspect.Parameter.VAR_KEYWORD:
            problem = (
                f"takes **{parameter.name}, which a model cannot fill in: take a dict instead, or describe "
                "the arguments with tool(parameters=…), a JSON Schema"
            )
        case inspect.Parameter.POSITIONAL_ONLY:
            problem = (
                f"takes {parameter.name!r} by position only, but a tool is called by name: remove the '/'"
            )
        case _ if position == 0 and parameter.name in ("self", "cls") and _is_in_class(function):
            problem = (
                "is a method without its object: make the tool from the bound method, tool(object.method)"
            )
        case _:
            return
    raise ToolDefinitionError(f"{_name(function)} {problem}.")


def _is_in_class(function: Callable[..., Any]) -> bool:
    outer, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    return bool(outer) and not outer.endswith("<locals>")


def _only_one(function: Callable[..., Any], kind: type, kinds: Mapping[str, object]) -> str | None:
    """Return the parameter of such a context, or ``None``."""
    found = [name for name, each in kinds.items() if each is kind]
    if len(found) > 1:
        raise ToolDefinitionError(f"{_name(function)} has more than one {kind.__name__}: {', '.join(found)}.")
    return found[0] if found else None


def deps_type(hint: object) -> Any:
    """Return the type of the dependencies in an annotated ``RunContext``."""
    return next(iter(typing.get_args(_context_in(hint)[1])), Any)


def _context_in(hint: object) -> tuple[object, object]:
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        hint = typing.get_args(hint)[0]
        origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        kinds = [each for each in typing.get_args(hint) if each is not type(None)]
        hint = kinds[0] if len(kinds) == 1 else hint
        origin = typing.get_origin(hint)
    return origin or hint, hint


def _local_types(frame: types.FrameType | None) -> dict[str, Any]:
    if frame is None or frame.f_locals is frame.f_globals:
        return {}
    return {name: value for name, value in frame.f_locals.items() if may_be_annotation(value)}


def may_be_annotation(value: object) -> bool:
    """Return whether a value may be a type, or a module that has types."""
    kinds = (type, types.ModuleType, typing.NewType, typing.TypeVar)
    return isinstance(value, kinds) or typing.get_origin(value) is not None


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    names: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # a variable of the enclosing function without a value yet
            continue
    return names


def _name(function: Callable[..., Any]) -> str:
    return f"The function {getattr(function, '__qualname__', repr(function))!r}"


@frozen(eq=False, repr=False)
class Documentation(Value):
    """A parsed docstring.

    Attributes:
        text: the prose, without the sections on arguments, results and errors.
        arguments: the description of each argument or attribute, by name, on one line.
    """

    text: str = ""
    arguments: Mapping[str, str] = field(factory=dict)


def read_docstring(docstring: str | None) -> Documentation:
    """Parse a Google, numpy, reST or Epydoc docstring; another style is all prose."""
    if not docstring or not docstring.strip():
        return Documentation()
    from docstring_parser import ParseError, parse
    from docstring_parser.common import DocstringParam, DocstringRaises, DocstringReturns

    plain = inspect.cleandoc(docstring)
    try:
        parsed = parse(docstring)
    except ParseError:
        return Documentation(plain)
    if not any(isinstance(part, DocstringParam | DocstringReturns | DocstringRaises) for part in parsed.meta):
        return Documentation(plain)
    paragraphs = (parsed.short_description, parsed.long_description)
    return Documentation(
        text="\n\n".join(paragraph.strip() for paragraph in paragraphs if paragraph),
        arguments={
            parameter.arg_name: " ".join(parameter.description.split())
            for parameter in parsed.params
            if parameter.description
        },
    )


_MOST_NAME = 64
_FORBIDDEN = lazy_pattern(r"[^A-Za-z0-9_-]")


def valid_name(name: str) -> str:
    """Return the name with letters, digits, ``_`` and ``-``, at most 64 characters.

    A longer name ends in a digest, so that names with the same beginning stay distinct.

    >>> valid_name("files.read")
    'files_read'
    """
    made = _FORBIDDEN.sub("_", name) or "_"
    if len(made) <= _MOST_NAME:
        return made
    digest = sha256(name.encode(errors="replace")).hexdigest()[:8]
    return f"{made[: _MOST_NAME - 9]}-{digest}"


def prefixed_name(prefix: str, name: str, taken: Container[str], read_as: Callable[[str], str] = str) -> str:
    """Return the valid name ``<prefix>-<name>``, with a number at its end if taken.

    ``read_as``: the form of a name in which it is among those taken.

    >>> prefixed_name("files", "read", {"files-read"})
    'files-read-2'
    """
    candidate, number = valid_name(f"{prefix}-{name}"), 1
    while read_as(candidate) in taken:
        number += 1
        candidate = valid_name(f"{prefix}-{name}-{number}")
    return candidate
