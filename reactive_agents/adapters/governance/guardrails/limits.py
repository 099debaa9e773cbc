"""Limits of a text that are not about safety: its length and its subject."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from reactive_agents.adapters.governance.guardrails.checks import Check
from reactive_agents.adapters.governance.guardrails.folding import fold, folded_pattern
from reactive_agents.core.governance import GuardrailAction, GuardrailFinding


def length_limit(characters: int, *, action: GuardrailAction = "block") -> Check:
    """A check that a text has at most so many characters; what is found is the rest of it."""

    def check(text: str) -> list[GuardrailFinding]:
        if len(text) <= characters:
            return []
        detail = f"The text has {len(text)} characters, more than {characters}."
        return [GuardrailFinding("length", characters, len(text), 1.0, action, detail)]

    return check


def allowed_topics(
    topics: Mapping[str, Collection[str]], *, action: GuardrailAction = "block", least_words: int = 4
) -> Check:
    """A check that a text has a word of one of the topics at least.

    Args:
        topics: the words of each topic; each stands for every word that begins with it.
        least_words: shorter texts, such as a greeting, may pass.
    """
    words = sorted({folded_pattern(word.lower()) for of_topic in topics.values() for word in of_topic})
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, words)) + ")") if words else None
    detail = f"The text is about none of the topics {', '.join(sorted(topics))}."

    def check(text: str) -> list[GuardrailFinding]:
        if len(text.split(maxsplit=least_words)) < least_words:
            return []
        if pattern is not None and pattern.search(fold(text).text):
            return []
        return [GuardrailFinding("off-topic", 0, len(text), 0.6, action, detail)]

    return check
