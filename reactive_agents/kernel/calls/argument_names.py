"""Arguments under another name than the schema has, brought to the name that was meant."""

from __future__ import annotations

from collections.abc import Callable

from reactive_agents.core.json import JsonObject
from reactive_agents.kernel.calls.coercion import coerce
from reactive_agents.kernel.calls.names import squash
from reactive_agents.kernel.calls.schema_fit import branches, fits, properties_of, required_of

_SYNONYMS = tuple(
    frozenset(group.split())
    for group in (
        "path filepath filename file pathname",
        "query q searchquery searchterm search question keywords",
        "content contents text body data",
        "expression expr formula equation",
        "command cmd commandline",
        "url uri link",
        "limit maxresults topk numresults count",
        "directory dir folder",
        "code script source",
        "answer finalanswer response",
    )
)
_ENVELOPES = frozenset({"arguments", "args", "parameters", "params", "input", "kwargs"})


def rename_arguments(arguments: JsonObject, schema: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """The arguments under the names of the schema, where it is clear which is meant, and what changed.

    Only names that the schema does not know are touched, and only names that are missing are given: first
    another way to write it, then a synonym, then the one unknown argument for the one missing required one if
    its value is of the right type. An object around all arguments is taken off.
    """
    unwrapped = _unwrapped(arguments, schema)
    if unwrapped is not None:
        return unwrapped, (f"The arguments were taken out of {next(iter(arguments))!r}.",)
    unknown = [key for key in arguments if key not in properties_of(schema)]
    if not unknown:
        return arguments, ()
    renamed: dict[str, str] = {}
    for means in (_is_variant, _is_synonym):
        renamed |= _claims(arguments, schema, renamed, means)
    renamed |= _only_one_left(arguments, schema, renamed)
    if not renamed:
        return arguments, ()
    healed = {renamed.get(key, key): value for key, value in arguments.items()}
    return healed, tuple(f"The argument {old!r} was taken as {new!r}." for old, new in renamed.items())


def _claims(
    arguments: JsonObject, schema: JsonObject, renamed: dict[str, str], means: Callable[[str, str], bool]
) -> dict[str, str]:
    """Who means whom, where that is certain in both directions."""
    missing = _missing(arguments, schema, renamed)
    unknown = [key for key in arguments if key not in properties_of(schema) and key not in renamed]
    targets = {key: [name for name in missing if means(key, name)] for key in unknown}
    claimed = [names[0] for names in targets.values() if len(names) == 1]
    return {
        key: names[0] for key, names in targets.items() if len(names) == 1 and claimed.count(names[0]) == 1
    }


def _only_one_left(arguments: JsonObject, schema: JsonObject, renamed: dict[str, str]) -> dict[str, str]:
    unknown = [key for key in arguments if key not in properties_of(schema) and key not in renamed]
    missing = [name for name in _missing(arguments, schema, renamed) if name in required_of(schema)]
    if len(unknown) != 1 or len(missing) != 1:
        return {}
    wanted = properties_of(schema)[missing[0]]
    value = arguments[unknown[0]]
    typed = any("type" in branch or "enum" in branch for branch in branches(wanted, schema))
    matches = fits(coerce(value, wanted, schema, name=missing[0]), wanted, schema)
    return {unknown[0]: missing[0]} if typed and matches and value not in (None, "") else {}


def _missing(arguments: JsonObject, schema: JsonObject, renamed: dict[str, str]) -> list[str]:
    """The names that may be given: all that are absent, or only the required ones if any name is allowed."""
    closed = schema.get("additionalProperties") is False
    required = required_of(schema)
    taken = set(renamed.values())
    return [
        name
        for name in properties_of(schema)
        if name not in arguments and name not in taken and (closed or name in required)
    ]


def _is_variant(written: str, name: str) -> bool:
    return squash(written) == squash(name)


def _is_synonym(written: str, name: str) -> bool:
    one, other = squash(written), squash(name)
    return any(one in group and other in group for group in _SYNONYMS)


def _unwrapped(arguments: JsonObject, schema: JsonObject) -> JsonObject | None:
    """The object that is the only argument, under a name that means no argument."""
    if len(arguments) != 1:
        return None
    ((key, value),) = arguments.items()
    properties = properties_of(schema)
    if key in properties or key.casefold() not in _ENVELOPES or not isinstance(value, dict):
        return None
    complete = required_of(schema) <= value.keys()
    return value if value and value.keys() <= properties.keys() and complete else None
