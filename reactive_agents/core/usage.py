"""Tokens, as providers count them, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen


@frozen
class Usage:
    """Tokens as the provider counted them, never guessed.

    ``reported`` is false when the provider sent no usage: the counts are then 0 because they are unknown.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    reported: bool = True

    def __add__(self, other: Usage) -> Usage:
        """The two together; reported only when both are."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.total_tokens + other.total_tokens,
            self.reported and other.reported,
        )


@frozen
class ModelSpending:
    """What the calls of one model came to.

    Attributes:
        model: as it was named by who answered; empty where a tool did not say which models it used.
        cost_usd: US dollars, as far as prices are known.
        calls: answered calls; an answer that could not be used is none.
        unpriced_calls: answers whose price is unknown, also those that could not be used.
    """

    model: str
    usage: Usage
    cost_usd: float = 0.0
    calls: int = 0
    unpriced_calls: int = 0

    def __add__(self, other: ModelSpending) -> ModelSpending:
        """The two together, under the name of the first."""
        return ModelSpending(
            self.model,
            self.usage + other.usage,
            self.cost_usd + other.cost_usd,
            self.calls + other.calls,
            self.unpriced_calls + other.unpriced_calls,
        )


def spent_on_answer(model: str, usage: Usage, cost_usd: float | None) -> ModelSpending:
    """What one answer came to; ``None`` for a price that is unknown."""
    return ModelSpending(model, usage, cost_usd or 0.0, 1, int(cost_usd is None))


def unknown_spending(model: str) -> ModelSpending:
    """For an attempt that came to nothing and may be charged for: nobody said how much."""
    return ModelSpending(model, Usage(reported=False), unpriced_calls=1)


def by_model(spent: Iterable[ModelSpending]) -> tuple[ModelSpending, ...]:
    """What each model came to, in the order of first use."""
    models: dict[str, ModelSpending] = {}
    for each in spent:
        known = models.get(each.model)
        models[each.model] = each if known is None else known + each
    return tuple(models.values())
