"""The type of checks, and checks by a classifier, of length, topics and toxicity."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import SupportsFloat, TypeAlias

import anyio.to_thread
from attrs import Factory, field, frozen

from reactive_agents.core.config import ALL_STAGES
from reactive_agents.core.governance import GuardrailAction, GuardrailFinding, GuardrailStage
from reactive_agents.core.run_context import CHECKED_RUN, RunContext, can_take
from reactive_agents.core.texts import fold, folded_pattern

_log = logging.getLogger("reactive_agents")

Findings: TypeAlias = Iterable[GuardrailFinding]
Check: TypeAlias = Callable[[str], Findings | Awaitable[Findings]]
"""Check a text and return findings: any function, such as one around presidio."""


def _check_stages(check: object, attribute: object, stages: object) -> None:
    given = [*stages] if isinstance(stages, Collection) else []
    if not given or any(each not in ALL_STAGES for each in given):
        raise ValueError(f"stages: got {stages!r}, expected one or more of {', '.join(ALL_STAGES)}")


@frozen
class FunctionCheck:
    """A check by a function of the program.

    Args:
        function: takes the text, or the ``RunContext`` and the text; sync or async.
        stages: the stages that it checks.
    """

    function: Callable[..., Findings | Awaitable[Findings]]
    stages: tuple[GuardrailStage, ...] = field(default=ALL_STAGES, validator=_check_stages)
    _takes_text_alone: bool = field(
        default=Factory(lambda check: can_take(check.function, 1), takes_self=True), init=False, repr=False
    )

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __call__(self, text: str) -> Findings | Awaitable[Findings]:
        """Call the function; outside of a run the context has no dependencies."""
        if self._takes_text_alone:
            return self.function(text)
        context = CHECKED_RUN.get()
        return self.function(RunContext(None) if context is None else context(), text)


@frozen
class ClassifierCheck:
    """A check by a local classifier, such as a pipeline of ``transformers``.

    A classifier that raises, or returns no number from 0 to 1, logs a warning and is a finding
    ``classifier-unavailable`` with the action ``on_failure``.

    Args:
        classifier: returns the probability that a text is an attack; called in a worker thread.
        threshold: 0 to 1; the lowest probability for a finding.
        action: the reaction to a finding.
        on_failure: the reaction to a text that was not classified.
        stages: the stages that it checks.
    """

    classifier: Callable[[str], float]
    threshold: float = 0.8
    action: GuardrailAction = "block"
    on_failure: GuardrailAction = "block"
    stages: tuple[GuardrailStage, ...] = ("input", "tool-result")

    async def __call__(self, text: str) -> tuple[GuardrailFinding, ...]:
        """Return no finding, or one for the whole text."""
        try:
            probability: object = await anyio.to_thread.run_sync(self.classifier, text)
        except Exception as error:  # noqa: BLE001 - a classifier is arbitrary code of the user
            _log.warning("The classifier of texts raised.", exc_info=True)
            return (self._unavailable(text, f"raised {type(error).__name__}"),)
        if isinstance(probability, bool) or not isinstance(probability, SupportsFloat):
            return (self._no_probability(text, type(probability).__name__),)
        score = float(probability)
        if not 0.0 <= score <= 1.0:
            return (self._no_probability(text, repr(score)),)
        if score < self.threshold:
            return ()
        detail = "A classifier takes the text for an attack."
        return (GuardrailFinding("prompt-injection", 0, len(text), score, self.action, detail),)

    def _no_probability(self, text: str, shown: str) -> GuardrailFinding:
        problem = f"returned {shown}, expected a probability from 0 to 1"
        _log.warning("The classifier of texts %s.", problem)
        return self._unavailable(text, problem)

    def _unavailable(self, text: str, problem: str) -> GuardrailFinding:
        detail = f"The text was not classified: the classifier {problem}."
        return GuardrailFinding("classifier-unavailable", 0, len(text), 1.0, self.on_failure, detail)


def length_limit(characters: int, *, action: GuardrailAction = "block") -> Check:
    """Return a check of the maximum length of a text; the excess is the finding."""

    def check(text: str) -> list[GuardrailFinding]:
        if len(text) <= characters:
            return []
        detail = f"The text has {len(text)} characters, more than {characters}."
        return [GuardrailFinding("length", characters, len(text), 1.0, action, detail)]

    return check


_LEAST_WORDS = 4
"""Shorter texts, such as greetings, need no topic."""


def allowed_topics(topics: Mapping[str, Collection[str]], *, action: GuardrailAction = "block") -> Check:
    """Return a check that a text has a word of at least one topic.

    Args:
        topics: the words of each topic, which match as prefixes.
    """
    words = sorted({folded_pattern(word.lower()) for of_topic in topics.values() for word in of_topic})
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, words)) + ")") if words else None
    detail = f"The text is about none of the topics {', '.join(sorted(topics))}."

    def check(text: str) -> list[GuardrailFinding]:
        if len(text.split(maxsplit=_LEAST_WORDS)) < _LEAST_WORDS:
            return []
        if pattern is not None and pattern.search(fold(text).text):
            return []
        return [GuardrailFinding("off-topic", 0, len(text), 0.6, action, detail)]

    return check


_SEVERITY: tuple[tuple[float, str], ...] = (
    (0.95, r"kill yourself|kys|i(?:'ll| will| am going to|'m going to) (?:kill|murder|rape|hurt|stab|shoot"
     r") (?:you|her|him|them)"),
    (0.95, r"(?:you|they) (?:should|deserve to) (?:die|be killed|be raped)|go (?:and )?die|bring dich um|v"
     r"errecke"),
    (0.9, r"ich (?:bringe?|mach|stech) (?:dich|euch) (?:um|kalt|ab)|gas the \w{2,12}|subhumans?|untermensc"
     r"h(?:en)?"),
    (0.75, r"(?:you(?:'re| are)?|du|ihr)(?: \w{1,9}){0,3} (?:piece of shit|scum|whore|slut|bitch|cunt|reta"
     r"rd|vermin|hurensohn|abschaum)"),
    (0.7, r"fuck (?:you|off)|fick dich|motherfuckers?|hurensohn|missgeburt|wichser|arschloch"),
    (0.6, r"(?:you(?:'re| are)|du bist)(?: (?:such|a|an|all|so|just|ein|eine|nur|total))*? (?:idiots?|moro"
     r"ns?|imbeciles?|worthless|pathetic|disgusting|idiot|vollidiot|dumm|wertlos)"),
    (0.3, r"shit|fuck(?:ing|ed)?|damn|crap|asshole|bastard|bitch|scheisse|verdammt"),
)  # fmt: skip
_PATTERNS = tuple((severity, re.compile(rf"\b(?:{words})\b")) for severity, words in _SEVERITY)


def toxicity(*, action: GuardrailAction = "block", threshold: float = 0.6) -> Check:
    """Return a check for insults and threats.

    Args:
        action: the reaction from the threshold on; milder words are warnings.
        threshold: 0 to 1; 0.3 are swear words, 0.6 insults, 0.9 threats.
    """

    def check(text: str) -> list[GuardrailFinding]:
        plain = fold(text)
        return [
            GuardrailFinding(
                "toxicity",
                *plain.span(*match.span()),
                severity,
                action if severity >= threshold else "warn",
                f"The text has words of severity {severity:g}.",
            )
            for severity, pattern in _PATTERNS
            for match in pattern.finditer(plain.text)
        ]

    return check
