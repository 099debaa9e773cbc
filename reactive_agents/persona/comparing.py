"""How alike a text is to what is known: by what they mean where that can be told, else by their words."""

from __future__ import annotations

from collections.abc import Sequence

from returns.maybe import Some
from returns.result import Failure

from reactive_agents.core.spending_account import ACCOUNT_OF_RUN
from reactive_agents.effects import attempt
from reactive_agents.kernel.words import word_similarity
from reactive_agents.persona.cycle import Cycle
from reactive_agents.persona.similarity import Measure


async def measure(text: str, others: Sequence[str], cycle: Cycle) -> Measure:
    """What the text can be compared with the others by. A comparison that fails is told, and words serve."""
    policy = cycle.settings.learning
    by_words = Measure(word_similarity, policy.merge_above)
    match cycle.services.comparison:
        case Some(comparison) if others:
            account = ACCOUNT_OF_RUN.set(cycle.meter.add)
            try:
                compared = await attempt(comparison.compare(text, others))
            finally:
                ACCOUNT_OF_RUN.reset(account)
        case _:
            return by_words
    if isinstance(compared, Failure):
        await cycle.fail_stage("compare", compared.failure())
        return by_words
    likeness = dict(zip(others, compared.unwrap(), strict=True))
    return Measure(lambda _, other: likeness[other], policy.merge_above_cosine)
