"""Places in JSON by a path such as ``matches[3].text``: finding the value there, and writing the path."""

from __future__ import annotations

import json
import re

from returns.result import Failure, Result, Success

from reactive_agents.core.json import Json

_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*\Z")
_PART = re.compile(r"""\[\s*(-?\d{1,9})\s*\]|\[\s*("(?:[^"\\]|\\.)*"|'[^']*')\s*\]|\.?([^.\[\]"']+)""")
_SHOWN = 60
_SHOWN_KEYS = 12


def value_at(value: Json, path: str) -> Result[Json, str]:
    """The value at a path; fails with a sentence that says where the path leaves the data, and what is there.

    Args:
        path: keys after dots or in brackets with quotes, positions in brackets, counted from 0, or from the
            end when negative. A ``$`` before the first is allowed.
    """
    rest = path.strip().removeprefix("$")
    position = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None:
            return Failure(f"The path cannot be read from {_shortened(rest[position:])} on.")
        done = _shortened(rest[:position]) if position else "the result"
        found = _step(value, part, done)
        if isinstance(found, Failure):
            return found
        value, position = found.unwrap(), part.end()
    return Success(value)


def below(path: str, key: str | int) -> str:
    """The path of an item or of a key's value in what is at a path."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if _PLAIN_KEY.match(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{json.dumps(key, ensure_ascii=False)}]"


def _step(value: Json, part: re.Match[str], done: str) -> Result[Json, str]:
    index, quoted, plain = part.groups()
    if isinstance(value, list):
        number = index if index is not None else (plain or "").strip()
        if not re.fullmatch(r"-?\d{1,9}", number):
            return Failure(f"There is a list of {len(value)} items at {done}: give a position in it.")
        at = int(number)
        if -len(value) <= at < len(value):
            return Success(value[at])
        return Failure(f"The list at {done} has {len(value)} items: there is none at {at}.")
    if isinstance(value, dict):
        key = index if index is not None else _key(quoted, plain)
        if key in value:
            return Success(value[key])
        known = ", ".join(_shortened(each) for each in list(value)[:_SHOWN_KEYS])
        more = f" and {len(value) - _SHOWN_KEYS} more" if len(value) > _SHOWN_KEYS else ""
        return Failure(f"There is no key {_shortened(key)} at {done}. Keys there: {known or 'none'}{more}.")
    return Failure(f"There is no list and no object at {done}, so the path cannot go on there.")


def _key(quoted: str | None, plain: str) -> str:
    if quoted is None:
        return plain.strip()
    if quoted.startswith("'"):
        return quoted[1:-1]
    try:
        return str(json.loads(quoted, strict=False))
    except ValueError:  # an escape that JSON does not have
        return quoted[1:-1]


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
