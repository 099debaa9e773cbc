"""The usage of a run, summed in one place."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from threading import Lock

from attrs import evolve
from returns.result import Result, Success

from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.models import ModelResponse
from reactive_agents.core.usage import RunUsage, Usage, by_model, total_usage


class UsageAccount:
    """The usage of one run so far, with that of the runs that its tools began.

    Each call adds to it, from any thread; it is summed when it is read.

    Args:
        caller: the account of the run that began this one.
    """

    __slots__ = ("_caller", "_lock", "_models", "_new", "_total")

    def __init__(self, caller: UsageAccount | None = None) -> None:
        self._caller = caller
        self._lock = Lock()
        self._models: tuple[RunUsage, ...] = ()
        self._total = RunUsage()
        self._new: list[RunUsage] = []

    def add(self, parts: Sequence[RunUsage]) -> None:
        """Add the usage of calls, of attempts without an answer, or of a tool."""
        with self._lock:
            self._new += parts
        if self._caller is not None:
            self._caller.add(parts)

    @property
    def total(self) -> RunUsage:
        """The sum of everything that was added."""
        if self._new:
            self._sum()
        return self._total

    @property
    def models(self) -> tuple[RunUsage, ...]:
        """The usage of each model, in the order of first use."""
        if self._new:
            self._sum()
        return self._models

    def _sum(self) -> None:
        with self._lock:
            new = self._new
            self._models = by_model((*self._models, *new))
            self._total = total_usage((self._total, *new))
            self._new = []  # last: a reader in another thread waits until the sum is there


def with_valid_usage(answer: Result[ModelResponse, LLMErrors]) -> Result[ModelResponse, LLMErrors]:
    """Return a service's answer; tokens or a price that cannot be count as unknown.

    Counts are 0 or more, a price is a finite number of dollars, 0 or more.
    """
    if not isinstance(answer, Success):
        return answer
    response = answer.unwrap()
    usage, cost_usd = response.usage, response.cost_usd
    counts = (usage.input_tokens, usage.output_tokens, usage.total_tokens)
    counts_fit = min(*counts, usage.cached_tokens, usage.cache_write_tokens) >= 0
    price_fits = cost_usd is None or 0.0 <= cost_usd < inf
    if counts_fit and price_fits:
        return answer
    usage = usage if counts_fit else Usage(reported=False)
    return Success(evolve(response, usage=usage, cost_usd=cost_usd if price_fits else None))
