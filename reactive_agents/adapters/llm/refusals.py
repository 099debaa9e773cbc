"""Why a model did not answer, and what may be done about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from attrs import frozen

from reactive_agents.core.errors import ModelTimeout, ProviderErrors

_SHORTEST_SECRET: Final = 6
"""Shorter values of variables are words such as ``true``, and no keys."""
_SECRETS: Final = (
    re.compile(r"\b(?:sk|gsk|xai|pplx|rk|pk)[-_][\w*.-]{6,}"),
    re.compile(r"\bAIza[\w-]{10,}"),
    re.compile(r"(?<=[Bb]earer )[\w.~+/=-]{6,}"),
    re.compile(r"(?<=[?&]key=)[^&\s'\"]+"),
)


@frozen
class Refusal:
    """Why there is no answer.

    Attributes:
        retry: the same request may succeed a little later.
        elsewhere: another model may answer it.
    """

    error: ProviderErrors
    retry: bool = False
    elsewhere: bool = True


def timed_out(model: str, timeout_s: float) -> Refusal:
    """No answer in time; it may be worth another attempt."""
    return Refusal(
        ModelTimeout(f"{model} did not answer within {timeout_s:g} seconds.", model, timeout_s), retry=True
    )


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets, and without what looks like a key."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "[redacted]")
    for pattern in _SECRETS:
        text = pattern.sub("[redacted]", text)
    return text
