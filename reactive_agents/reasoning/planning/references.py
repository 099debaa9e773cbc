"""References to the results of other steps: ``{{from_step:s1}}``.

``{{from_step:s1}}`` and ``{{from_step:s1:full}}`` give the whole result, ``{{from_step:s1:summary}}``
for its first 500 characters. A result is text: an argument that is nothing but a reference to a JSON result
becomes the text of that JSON. The text of a result is never searched for references.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from returns.result import Failure, Result, Success

from reactive_agents.core.json import Json
from reactive_agents.core.plans import PlanStep
from reactive_agents.kernel.context_window.previews import cut_before

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
    value: Json,
    step: PlanStep,
    steps: Sequence[PlanStep],
    show: Callable[[str, str], str] = unchanged,
) -> Result[Json, str]:
    """Return the value with each reference replaced by its result.

    Pure and total. Fails with a message that names the reference: a step that refers to itself, to a step
    that does not exist or is not completed, or in a form that there is not.

    Args:
        value: text, or lists and objects with text in them.
        step: the step that the value is of.
        steps: all steps of the plan.
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
