"""Parameters of requests to models that users set, for an agent or a run.

Each parameter has three states: a value, ``None`` for "send none", and :data:`UNSET` for "not set here". The
last is the default, so that the settings of a run change only the parameters that they name. A part of the
framework that sets a value itself, such as a judge that is asked at temperature 0, keeps it until the user
sets one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from attrs import Attribute, Factory, evolve, field, fields, frozen

from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.json import Json
from reactive_agents.core.json import texts_in as texts_in
from reactive_agents.core.secret_patterns import SHORTEST_SECRET, is_secret_field, is_secret_name
from reactive_agents.core.texts import with_article
from reactive_agents.core.values import Value


class Unset(Enum):
    """The state of a setting that is not set."""

    UNSET = "unset"

    def __repr__(self) -> str:
        """Return the name under which it is imported."""
        return "UNSET"


UNSET: Final = Unset.UNSET
"""The parameter is not set: the part that asks the model, or else the provider, decides."""

ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]

REQUIRED: Final = "required"
"""The ``tool_choice`` for a call of any tool."""
TOOL_CHOICES: Final = ("auto", REQUIRED, "none")
"""The values of ``tool_choice`` that are no names of tools."""
OMIT: Final = "omit"
"""A setting that is ``None``, in files: TOML has no ``null``."""

_MOST_STOPS: Final = 16
_OWN_FIELDS: Final = frozenset({"messages", "model", "stream", "tools"})
"""Fields of a body that say what is asked, and of whom: with others the answer is to another request."""
_LEAST_WINDOW: Final = 1_024
"""Tokens of the smallest window that is counted with."""
_EFFORTS: Final = get_args(ReasoningEffort)


def _number(least: float, most: float) -> Callable[[Any], bool]:
    return lambda value: type(value) in (int, float) and least <= value <= most


def _count(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and value >= least


def _as_float(value: float | Unset | None) -> float | Unset | None:
    return float(value) if type(value) is int else value


def _are_stops(value: object) -> bool:
    texts = isinstance(value, tuple) and all(isinstance(each, str) and each for each in value)
    return texts and 1 <= len(cast(tuple[str, ...], value)) <= _MOST_STOPS


def _is_choice(value: object) -> bool:
    return isinstance(value, str) and value not in ("", OMIT) and value == value.strip()


def _is_json(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_json, value))
    return value is None or isinstance(value, str | int | float | bool)


def _is_header(name: object, value: object) -> bool:
    texts = isinstance(name, str) and isinstance(value, str)
    return texts and bool(str(name).strip()) and not set("\r\n\0") & {*str(name), *str(value)}


def _checked(fits: Callable[[Any], bool], expected: str, *, shown: bool = True) -> Any:
    """Return a validator; ``shown``: whether its error has the value, no secret."""

    def validate(_: object, attribute: Attribute[Any], value: Any) -> None:
        if value is UNSET or value is None or fits(value):
            return
        hidden = f"{with_article(type(value).__name__)}, which is not shown: it may be secret"
        given = _shown(value) if shown else hidden
        raise ValueError(InvalidConfig(attribute.name, given, expected).message)

    return validate


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _as_texts(value: str | Sequence[str] | Unset | None) -> tuple[str, ...] | Unset | None:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else cast(Any, value)


@frozen(kw_only=True, eq=False, repr=False)
class ModelSettings(Value):
    """Parameters of the requests to a model; ``None`` sends none.

    A parameter that is not set is left to the part that asks the model: the turns of a run have no
    temperature, and the framework's own questions, such as those of a planner or a judge, have temperature 0.
    A parameter that the model's provider does not know is left out, and one that it refuses is left out from
    then on.

    Attributes:
        temperature: 0 to 2.
        top_p: above 0 and up to 1.
        max_tokens: upper bound of one answer, 1 or more, also of the framework's own questions.
        seed: a whole number, for providers that can repeat an answer.
        stop: texts that end an answer, at most 16.
        reasoning_effort: how much a reasoning model thinks, as far as its provider can be told.
        thinking_budget: the most tokens of its thinking, 0 or more; 0 switches thinking off.
        parallel_tool_calls: whether one answer may hold several calls.
        tool_choice: ``required``, or the name of a tool, for a call that comes before anything else; after
            the first call of a run the model chooses. ``none`` for a run without tools, ``auto`` for the
            model's choice.
        extra_body: further fields of the request's body, by the provider's own names; never ``messages``,
            ``model``, ``stream`` or ``tools``.
        headers: further headers of the request.

    Raises:
        ValueError: a value is wrong; the message names the field, the value, and what is expected.
    """

    temperature: float | Unset | None = field(
        default=UNSET, converter=_as_float, validator=_checked(_number(0, 2), "a number from 0 to 2, or None")
    )
    top_p: float | Unset | None = field(
        default=UNSET,
        converter=_as_float,
        validator=_checked(_number(1e-9, 1), "a number above 0 and up to 1, or None"),
    )
    max_tokens: int | Unset | None = field(
        default=UNSET, validator=_checked(_count(1), "a whole number, 1 or more, or None")
    )
    seed: int | Unset | None = field(
        default=UNSET, validator=_checked(lambda value: type(value) is int, "a whole number, or None")
    )
    stop: tuple[str, ...] | Unset | None = field(
        default=UNSET,
        converter=_as_texts,
        validator=_checked(_are_stops, f"1 to {_MOST_STOPS} texts that are not empty, or None"),
    )
    reasoning_effort: ReasoningEffort | Unset | None = field(
        default=UNSET, validator=_checked(_EFFORTS.__contains__, f"one of {', '.join(_EFFORTS)}, or None")
    )
    thinking_budget: int | Unset | None = field(
        default=UNSET, validator=_checked(_count(0), "tokens, 0 or more, or None")
    )
    parallel_tool_calls: bool | Unset | None = field(
        default=UNSET, validator=_checked(lambda value: isinstance(value, bool), "True, False or None")
    )
    tool_choice: str | Unset | None = field(
        default=UNSET,
        validator=_checked(_is_choice, "auto, required, none, the name of a tool other than omit, or None"),
    )
    extra_body: Mapping[str, Json] = field(
        default=Factory(dict),
        repr=False,
        validator=_checked(
            lambda value: isinstance(value, Mapping) and _is_json(value) and not _OWN_FIELDS & value.keys(),
            f"JSON data by the names of fields, which are not {', '.join(sorted(_OWN_FIELDS))}",
            shown=False,
        ),
    )
    headers: Mapping[str, str] = field(
        default=Factory(dict),
        repr=False,
        validator=_checked(
            lambda value: (
                isinstance(value, Mapping) and all(_is_header(name, each) for name, each in value.items())
            ),
            "texts without line breaks by the names of headers",
            shown=False,
        ),
    )

    def __repr__(self) -> str:
        """Return the settings, without the values of headers and further fields."""
        parts = [f"{name}={value!r}" for name, value in self.given.items()]
        parts += [f"{name}=<{', '.join(names)}>" for name in _TABLES if (names := [*getattr(self, name)])]
        return f"ModelSettings({', '.join(parts)})"

    @property
    def given(self) -> dict[str, Any]:
        """Return the parameters that are set, by their names."""
        return {name: value for name in PARAMETERS if (value := getattr(self, name)) is not UNSET}

    @property
    def first_call(self) -> str:
        """Return ``required`` or the tool to call first; empty if the model chooses."""
        choice = self.tool_choice
        return choice if isinstance(choice, str) and choice not in ("auto", "none") else ""

    @property
    def window_tokens(self) -> int | None:
        """Return the context window that ``num_ctx`` sets for models of Ollama."""
        if not self.extra_body:
            return None
        options = self.extra_body.get("options")
        given = {**self.extra_body, **options} if isinstance(options, Mapping) else self.extra_body
        tokens = given.get("num_ctx")
        return tokens if type(tokens) is int and tokens >= _LEAST_WINDOW else None

    def over(self, others: ModelSettings) -> ModelSettings:
        """Return these settings, completed by others, also single headers and fields."""
        if self == NO_SETTINGS or others == NO_SETTINGS:
            return others if self == NO_SETTINGS else self
        tables = {name: {**getattr(others, name), **getattr(self, name)} for name in _TABLES}
        return ModelSettings(**{**others.given, **self.given, **tables})

    @property
    def without_secrets(self) -> ModelSettings:
        """Return the settings without headers, and without secrets in the body."""
        if not self.headers and not self.extra_body:
            return self
        body = {name: item for name, item in self.extra_body.items() if not [*_secrets_in({name: item})]}
        return evolve(self, headers={}, extra_body=body)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the values of headers, and those in the body with a secret's name."""
        if not self.headers and not self.extra_body:
            return ()
        named = [value for name, value in self.headers.items() if _is_secret(name)]
        words = [word for value in named for word in value.split()]
        found = {*self.headers.values(), *words, *_secrets_in(dict(self.extra_body))}
        return tuple(sorted(each for each in found if len(each) >= SHORTEST_SECRET))


def _is_secret(name: str) -> bool:
    return is_secret_name(name) or is_secret_field(name)


def _secrets_in(value: Json) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from texts_in(item) if _is_secret(name) else _secrets_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets_in(item)


_TABLES: Final = ("extra_body", "headers")
PARAMETERS: Final = tuple(each.name for each in fields(ModelSettings) if each.name not in _TABLES)
"""The settings that are parameters of a request."""

NO_SETTINGS: Final = ModelSettings()
"""Nothing is set."""
