"""Findings about a model and its server, and the settings that follow from them.

The same weights behave differently on another server, so a profile belongs to a model at an address.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias, get_args

from attrs import evolve, frozen

from reactive_agents.core.config import CONTEXT_PROFILES, ContextTier
from reactive_agents.core.config import PROFILES_FILE as PROFILES_FILE
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import Value

ProbeSubject: TypeAlias = Literal[
    "answer",
    "temperature",
    "max_tokens",
    "tool calls",
    "parallel_tool_calls",
    "parallel calls",
    "nested arguments",
    "numbers",
    "restraint",
    "response_format",
    "structured output",
    "context window",
    "unknown model",
]
"""What a probe looks at; names with an underscore, and ``temperature``, are parameters of a request."""

PROBE_SUBJECTS: tuple[ProbeSubject, ...] = get_args(ProbeSubject)

ProbeOutcome: TypeAlias = Literal["yes", "no", "not known"]

CallFormat: TypeAlias = Literal["native", "text", "prompt"]
"""How a model calls tools: by the protocol, as text, or as text when the prompt describes the tools."""

_PARAMETERS = frozenset({"temperature", "max_tokens", "parallel_tool_calls", "response_format"})
_SKILLS: tuple[ProbeSubject, ...] = (
    "parallel calls",
    "nested arguments",
    "numbers",
    "restraint",
    "structured output",
)
_ROOMY = 16_384
_NARROW = 4_096


@frozen(eq=False, repr=False)
class ProbeFinding(Value):
    """One finding of a probe.

    Attributes:
        outcome: whether the model, or its server, does this as the protocol says.
        detail: the evidence, or the reason why it is not known, in a sentence.
        at: when it was found.
        value: the call format of ``tool calls``; the tokens of ``context window``; else empty.
        problem: why the latest probe could not find it again; empty when it did.
    """

    subject: ProbeSubject
    outcome: ProbeOutcome
    detail: str
    at: datetime
    value: str = ""
    problem: str = ""


@frozen(eq=False, repr=False)
class ModelProfile(Value):
    """Findings about a model at an address.

    Attributes:
        model: the model, as ``provider/model``.
        address: the address of the server, without credentials; empty for the provider's own.
        findings: one for each subject.
        usage: tokens and cost of the latest probe.
    """

    model: str
    address: str
    findings: tuple[ProbeFinding, ...]
    usage: RunUsage = RunUsage()

    def finding(self, subject: ProbeSubject) -> ProbeFinding | None:
        """Return what is known of a subject; ``None`` when nothing is."""
        found = next((each for each in self.findings if each.subject == subject), None)
        return None if found is None or found.outcome == "not known" else found

    @property
    def complete(self) -> bool:
        """Whether the latest probe found out about every subject."""
        found = map(self.finding, PROBE_SUBJECTS)
        return all(each is not None and not each.problem for each in found)

    @property
    def call_format(self) -> CallFormat | None:
        """How the model calls tools; ``None`` when it was not seen to."""
        found = self.finding("tool calls")
        formats: Mapping[str, CallFormat] = {"native": "native", "text": "text", "prompt": "prompt"}
        return formats.get(found.value) if found is not None else None

    @property
    def refused_parameters(self) -> frozenset[ProbeSubject]:
        """Parameters that the server refuses, which are not sent."""
        return frozenset(f.subject for f in self.findings if f.subject in _PARAMETERS and f.outcome == "no")

    @property
    def window_tokens(self) -> int | None:
        """Tokens of a prompt whose beginning the model still knows."""
        found = self.finding("context window")
        return int(found.value) if found is not None and found.value.isdecimal() else None

    @property
    def window_is_limit(self) -> bool:
        """Whether longer prompts lose their beginning, or are refused."""
        found = self.finding("context window")
        return found is not None and found.outcome == "no"

    @property
    def slips(self) -> tuple[ProbeSubject, ...]:
        """Things that the model did wrong when it was asked for them."""
        return tuple(f.subject for f in self.findings if f.subject in _SKILLS and f.outcome == "no")

    def after(self, earlier: ModelProfile | None) -> ModelProfile:
        """Return this profile with the earlier findings where this one knows nothing."""
        if earlier is None:
            return self
        known = {each.subject: each for each in earlier.findings if each.outcome != "not known"}
        kept = (
            evolve(known[each.subject], problem=each.detail)
            if each.outcome == "not known" and each.subject in known
            else each
            for each in self.findings
        )
        return evolve(self, findings=tuple(kept))

    def tier(self, named: ContextTier) -> ContextTier:
        """Return the context tier for the model.

        Args:
            named: the tier by its name. A model that slips gets a smaller one, a model by a small name that
                does everything right and has a window of 16,384 tokens or more gets ``mid``.
        """
        window = self.window_tokens
        narrow = window is not None and self.window_is_limit and window <= _NARROW
        if len(self.slips) >= 2 or narrow:
            return "local"
        if self.slips or self.call_format in ("text", "prompt"):
            return "local" if named == "local" else "mid"
        right = self.call_format == "native" and all(self.finding(skill) for skill in _SKILLS)
        return "mid" if named == "local" and right and (window or 0) >= _ROOMY else named

    def window(self, tier: ContextTier) -> int | None:
        """Return the window to count with; ``None`` for what is listed or presumed.

        One that was seen to end counts. One whose end was not reached does where the tier presumes less.
        """
        seen = self.window_tokens
        if seen is None or self.window_is_limit:
            return seen
        return seen if seen > CONTEXT_PROFILES[tier].window_tokens else None
