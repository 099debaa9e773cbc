"""The usage of a run: its figures are the sums of what was entered, in whatever order."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from hypothesis import given
from hypothesis import strategies as st

from reactive_agents.core.models import ModelResponse
from reactive_agents.core.usage import RunUsage, Usage, answer_usage, by_model, total_usage, unknown_usage
from reactive_agents.kernel.context import UsageAccount, with_valid_usage

names = st.sampled_from(["a/one", "b/two", ""])
counts = st.integers(0, 1_000)
usages = st.builds(lambda read, written: Usage(read, written, read + written), counts, counts)
dollars = st.integers(0, 64).map(lambda count: count / 64)  # their sums are exact
answers = st.builds(answer_usage, names, usages | st.just(Usage(reported=False)), dollars | st.none())
attempts = st.builds(unknown_usage, names) | st.builds(RunUsage, names, usages, dollars)
parts = st.lists(st.one_of(answers, attempts), max_size=6)


def figures(usage: RunUsage) -> tuple[object, ...]:
    return usage.usage, usage.cost_usd, usage.calls, usage.unpriced_calls, usage.unreported_calls


@given(st.lists(parts))
def test_the_figures_are_the_sums_of_what_was_entered(given: Sequence[Sequence[RunUsage]]) -> None:
    account = UsageAccount()
    entered: list[RunUsage] = []
    for each in given:
        before = account.total
        account.add(each)
        entered += each
        assert account.total.tokens == sum(part.tokens for part in entered)
        assert account.total.cost_usd == sum(part.cost_usd for part in entered)
        assert figures(account.total) == figures(total_usage(entered))
        assert figures(account.total) == figures(total_usage(account.models))
        assert figures(account.total.since(before)) == figures(total_usage(each))
    assert account.models == by_model(entered)
    assert len({part.model for part in account.models}) == len(account.models)


any_count = st.integers(-3, 3)


@given(st.builds(Usage, any_count, any_count, any_count), st.floats() | st.none())
def test_figures_that_cannot_be_are_unknown_and_others_stay(usage: Usage, cost_usd: float | None) -> None:
    said = ModelResponse("Yes.", "own/model", usage=usage, cost_usd=cost_usd)
    told = with_valid_usage(said)
    assert told.content == said.content
    if min(usage.input_tokens, usage.output_tokens, usage.total_tokens) < 0:
        assert told.usage == Usage(reported=False)
    else:
        assert told.usage == usage
    if cost_usd is not None and isfinite(cost_usd) and cost_usd >= 0:
        assert told.cost_usd == cost_usd
    else:
        assert told.cost_usd is None
