"""A text whose stream broke, continued by a model that writes on from there.

Some models take an answer that has begun as the last message of a request, and write the rest of it. So what
was streamed before a break is kept, and not charged for a second time. It is done for texts alone: exposed
reasoning and tool calls that have begun cannot be continued.

Imports litellm; load it off the loop.
"""

from __future__ import annotations

from typing import Any

import litellm
from attrs import evolve

from reactive_agents.adapters.llm.attempts import FailedAttempt
from reactive_agents.adapters.llm.completion import PreparedRequest
from reactive_agents.adapters.llm.providers import provider_of
from reactive_agents.core import models
from reactive_agents.core.errors import RequestRejected
from reactive_agents.core.messages import AssistantMessage

_PROVIDERS = frozenset({"anthropic"})
"""Providers that take the beginning of an answer as an ordinary message."""


class PartialText:
    """The text of an answer so far, over the attempts to stream it.

    Args:
        model: as ``provider/model``.
    """

    def __init__(self, model: str, request: models.ModelRequest) -> None:
        self._possible = request.response_schema is None and _continues(model)
        self._text = ""
        self._kept = ""
        """The text that the present attempt continues."""
        self._blank = False
        """Whether blanks that were streamed may come once more."""

    def continues(self) -> bool:
        """Return whether the next attempt continues the text; else it is forgotten."""
        self._kept = self._text if self._possible else ""
        if not self._kept.strip():
            self._kept = self._text = ""
        self._blank = self._kept != self._kept.rstrip()
        return bool(self._kept)

    def continued(self, prepared: PreparedRequest) -> PreparedRequest:
        """Return the request with the text that it is to continue, if there is one."""
        if not self._kept:
            return prepared
        begun = AssistantMessage(self._kept.rstrip())  # blanks at its end would be refused
        request = prepared.request
        return evolve(prepared, request=evolve(request, messages=(*request.messages, begun)))

    def is_refused(self, failed: FailedAttempt) -> bool:
        """Return whether the text was not taken; it is then forgotten for good."""
        if not self._kept or not isinstance(failed.error, RequestRejected):
            return False
        self._possible = False
        self._kept = self._text = ""
        return True

    def take(self, chunk: Any) -> Any:
        """Return a chunk as it continues the answer; ``None`` for one that adds nothing."""
        match chunk:
            case models.TextDelta(text):
                if self._blank:
                    text = text.lstrip()
                    self._blank = not text
                self._text += text
                return models.TextDelta(text) if text else None
            case models.StreamCompleted(response) if self._kept:
                return models.StreamCompleted(evolve(response, content=self._text))
            case models.StreamCompleted():
                return chunk
        self._possible = False
        return chunk


def _continues(model: str) -> bool:
    provider = provider_of(model)
    if provider not in _PROVIDERS:
        return False
    known = litellm.model_cost.get(model) or litellm.model_cost.get(model.partition("/")[2]) or {}
    return bool(known.get("supports_assistant_prefill"))
