"""What the model calls of a run came to."""

from __future__ import annotations

from math import inf

from attrs import define, evolve, field, frozen
from returns.result import Result, Success

from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.models import ModelResponse
from reactive_agents.core.tools import ToolSpending
from reactive_agents.core.usage import ModelSpending, Usage, by_model


@frozen
class Spending:
    """What the model calls of a run came to, by the providers' own figures.

    Attributes:
        cost_usd: US dollars, as far as prices are known.
        calls: calls that were answered.
        unpriced_calls: answers whose price is unknown, also those that could not be used.
        unreported_calls: such answers whose usage the provider did not report.
        model: the model that answered last; empty before the first answer.
    """

    usage: Usage = field(factory=Usage)
    cost_usd: float = 0.0
    calls: int = 0
    unpriced_calls: int = 0
    unreported_calls: int = 0
    model: str = ""

    def since(self, earlier: Spending) -> Spending:
        """What came on top of an earlier account of the same run."""
        unreported = self.unreported_calls - earlier.unreported_calls
        return Spending(
            usage=Usage(
                self.usage.input_tokens - earlier.usage.input_tokens,
                self.usage.output_tokens - earlier.usage.output_tokens,
                self.usage.total_tokens - earlier.usage.total_tokens,
                reported=unreported == 0,
            ),
            cost_usd=max(0.0, self.cost_usd - earlier.cost_usd),
            calls=self.calls - earlier.calls,
            unpriced_calls=self.unpriced_calls - earlier.unpriced_calls,
            unreported_calls=unreported,
            model=self.model,
        )


@define(eq=False)
class _Tally:
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cost_usd: float = 0.0
    calls: int = 0
    unpriced_calls: int = 0
    unreported_calls: int = 0

    @property
    def usage(self) -> Usage:
        return Usage(self.input_tokens, self.output_tokens, self.total_tokens, not self.unreported_calls)


class ModelAccount:
    """The account of one run; changed in place, since there is an entry for each call.

    Attributes:
        tokens: total tokens until now, as far as they were reported.
        cost_usd: US dollars until now, as far as prices are known.
    """

    __slots__ = ("_answered_last", "_by_model", "_of_tools", "_summed", "cost_usd", "tokens")

    def __init__(self) -> None:
        self._by_model: dict[str, _Tally] = {}
        self._of_tools: list[ToolSpending] = []
        self._answered_last = ""
        self._summed: Spending | None = None
        self.tokens = 0
        self.cost_usd = 0.0

    def add_call(self, model: str, usage: Usage, cost_usd: float | None) -> None:
        """Enter a call that was answered; ``None`` for a price that is unknown."""
        self._enter(model, usage, cost_usd or 0.0, calls=1, unpriced_calls=int(cost_usd is None))
        self._answered_last = model

    def add_refused(self, attempts: tuple[ModelSpending, ...]) -> None:
        """Enter what was spent on attempts that came to nothing."""
        for each in attempts:
            self._enter(each.model, each.usage, each.cost_usd, calls=0, unpriced_calls=each.unpriced_calls)

    def add_tool(self, spending: ToolSpending) -> None:
        """Enter what a tool spent on models of its own."""
        self._of_tools.append(spending)
        self._summed = None
        self.tokens += spending.usage.total_tokens
        self.cost_usd += spending.cost_usd

    @property
    def models(self) -> tuple[ModelSpending, ...]:
        """What each model came to, in the order of first use; those of tools come last."""
        parts = [
            ModelSpending(model, each.usage, each.cost_usd, each.calls, each.unpriced_calls)
            for model, each in self._by_model.items()
        ]
        for tool in self._of_tools:
            unnamed = ModelSpending("", tool.usage, tool.cost_usd, tool.calls, tool.unpriced_calls)
            parts += tool.models or (unnamed,)
        return by_model(parts)

    @property
    def spending(self) -> Spending:
        """All of it together."""
        if self._summed is None:
            self._summed = self._sum()
        return self._summed

    def _enter(self, model: str, usage: Usage, cost_usd: float, *, calls: int, unpriced_calls: int) -> None:
        tally = self._by_model.get(model)
        if tally is None:
            tally = self._by_model[model] = _Tally()
        tally.input_tokens += usage.input_tokens
        tally.output_tokens += usage.output_tokens
        tally.total_tokens += usage.total_tokens
        tally.cost_usd += cost_usd
        tally.calls += calls
        tally.unpriced_calls += unpriced_calls
        tally.unreported_calls += not usage.reported
        self.tokens += usage.total_tokens
        self.cost_usd += cost_usd
        self._summed = None

    def _sum(self) -> Spending:
        read, written, total, calls, unpriced, unreported = 0, 0, 0, 0, 0, 0
        for model in self._by_model.values():
            read += model.input_tokens
            written += model.output_tokens
            total += model.total_tokens
            calls += model.calls
            unpriced += model.unpriced_calls
            unreported += model.unreported_calls
        usage = Usage(read, written, total, not unreported)
        for tool in self._of_tools:
            usage += tool.usage
            calls += tool.calls
            unpriced += tool.unpriced_calls
        return Spending(usage, self.cost_usd, calls, unpriced, unreported, self._answered_last)


def believed(answer: Result[ModelResponse, LLMErrors]) -> Result[ModelResponse, LLMErrors]:
    """The answer of a model service; what it says of tokens or price that cannot be counts as unknown.

    Counts are 0 or more, a price is a finite number of dollars, 0 or more.
    """
    if not isinstance(answer, Success):
        return answer
    response = answer.unwrap()
    usage, cost_usd = response.usage, response.cost_usd
    counts_fit = usage.input_tokens >= 0 and usage.output_tokens >= 0 and usage.total_tokens >= 0
    price_fits = cost_usd is None or 0.0 <= cost_usd < inf
    if counts_fit and price_fits:
        return answer
    usage = usage if counts_fit else Usage(reported=False)
    return Success(evolve(response, usage=usage, cost_usd=cost_usd if price_fits else None))
