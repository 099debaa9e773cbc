"""Tokens as providers count them, and their cost: of one call and of a run.

These are the only two types for tokens and money. Every figure of a run is a sum of :class:`RunUsage` values,
each made of one response when it arrives, so that totals, events, budgets and the cost file cannot disagree.
Nothing is ever guessed: tokens that a provider does not report, and unknown prices, are counted as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Protocol

from attrs import frozen

from reactive_agents.core.values import Value


@frozen(eq=False, repr=False)
class Usage(Value):
    """Tokens of a call as the provider counted them, never guessed.

    ``reported`` is false when the provider sent no usage: the counts are then 0 because they are unknown.

    Attributes:
        cached_tokens: tokens of the input that the provider read from its cache of prompts.
        cache_write_tokens: tokens of the input that it wrote to that cache, which have another price.
        reasoning_tokens: tokens of the output that the model used for reasoning; litellm estimates
            them for providers that report none.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    reported: bool = True
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Return all counts of tokens."""
        parts = self.cached_tokens, self.cache_write_tokens, self.reasoning_tokens
        return self.input_tokens, self.output_tokens, self.total_tokens, *parts

    def __add__(self, other: Usage) -> Usage:
        """Return the sum; it is reported only when both are."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.total_tokens + other.total_tokens,
            self.reported and other.reported,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


NO_TOKENS = Usage()


@frozen(eq=False, repr=False)
class RunUsage(Value):
    """Tokens and cost of the calls of a run, of a model, a tool or an attempt.

    Attributes:
        model: the model, as it names itself; empty for a sum of several, and if a tool did not say which
            models it used.
        cost_usd: US dollars, as far as prices are known.
        calls: number of answered calls, without answers that could not be used.
        unpriced_calls: number of answers whose price is unknown, with those that could not be used.
        unreported_calls: number of answers whose tokens the provider did not report, counted likewise.
        cached: answers that were recorded before, and took nothing.
    """

    model: str = ""
    usage: Usage = NO_TOKENS
    cost_usd: float = 0.0
    calls: int = 0
    unpriced_calls: int = 0
    unreported_calls: int = 0
    cached: int = 0

    @property
    def tokens(self) -> int:
        """Total tokens, as far as they were reported."""
        return self.usage.total_tokens

    def __add__(self, other: RunUsage) -> RunUsage:
        """Return the sum, without a model if they are of two."""
        return RunUsage(
            self.model if self.model == other.model else "",
            other.usage if self.usage is NO_TOKENS else self.usage + other.usage,
            self.cost_usd + other.cost_usd,
            self.calls + other.calls,
            self.unpriced_calls + other.unpriced_calls,
            self.unreported_calls + other.unreported_calls,
            self.cached + other.cached,
        )

    def since(self, earlier: RunUsage) -> RunUsage:
        """Return what came on top of an earlier total of the same run."""
        before, unreported = earlier.usage, self.unreported_calls - earlier.unreported_calls
        return RunUsage(
            "",
            Usage(
                self.usage.input_tokens - before.input_tokens,
                self.usage.output_tokens - before.output_tokens,
                self.usage.total_tokens - before.total_tokens,
                unreported == 0,
                self.usage.cached_tokens - before.cached_tokens,
                self.usage.cache_write_tokens - before.cache_write_tokens,
                self.usage.reasoning_tokens - before.reasoning_tokens,
            ),
            max(0.0, self.cost_usd - earlier.cost_usd),
            self.calls - earlier.calls,
            self.unpriced_calls - earlier.unpriced_calls,
            unreported,
            self.cached - earlier.cached,
        )


NO_USAGE = RunUsage()
"""The usage of a run before its first call."""


def answer_usage(model: str, usage: Usage, cost_usd: float | None, *, cached: bool = False) -> RunUsage:
    """Return the usage of one answer; ``None`` for a price that is unknown."""
    if cached:
        return RunUsage(model, calls=1, cached=1)
    return RunUsage(model, usage, cost_usd or 0.0, 1, int(cost_usd is None), int(not usage.reported))


def unknown_usage(model: str) -> RunUsage:
    """Return the usage of an attempt without an answer that may be charged."""
    return RunUsage(model, Usage(reported=False), unpriced_calls=1, unreported_calls=1)


def by_model(parts: Iterable[RunUsage]) -> tuple[RunUsage, ...]:
    """Return the usage of each model, in the order of first use."""
    models: dict[str, RunUsage] = {}
    for part in parts:
        before = models.get(part.model)
        models[part.model] = part if before is None else before + part
    return tuple(models.values())


def total_usage(parts: Iterable[RunUsage]) -> RunUsage:
    """Return the sum of all parts; it has no model where these are of several."""
    whole: RunUsage | None = None
    for part in parts:
        whole = part if whole is None else whole + part
    return RunUsage() if whole is None else whole


class UsageRecorder(Protocol):
    """Adds usage to the account of a run, also while the run is being cancelled."""

    async def __call__(
        self, parts: Sequence[RunUsage], *, purpose: str = "", duration_ms: float = 0.0
    ) -> None:
        """Add the usage of calls that did not go through the run's own model service.

        With a ``purpose`` they are published as ``ModelCallCompleted``, of so many wall-clock milliseconds.
        """


USAGE_RECORDER: ContextVar[UsageRecorder | None] = ContextVar("usage_recorder", default=None)
"""The recorder of the run that is under way.

For calls of models that are not the run's, and for tools and calls that are cut off, and so return nothing.
"""
