"""The account of a run: its figures are the sums of what was entered, whatever and in whatever order."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st
from returns.result import Success

from reactive_agents.core.models import ModelResponse
from reactive_agents.core.tools import ToolSpending
from reactive_agents.core.usage import ModelSpending, Usage
from reactive_agents.kernel.usage import ModelAccount, believed

Entry: TypeAlias = tuple[str, Usage, float | None] | tuple[ModelSpending, ...] | ToolSpending

names = st.sampled_from(["a/one", "b/two"])
counts = st.integers(0, 1_000)
usages = st.builds(lambda read, written: Usage(read, written, read + written), counts, counts)
dollars = st.integers(0, 64).map(lambda count: count / 64)  # their sums are exact
refused = st.lists(
    st.builds(ModelSpending, names, usages, dollars, unpriced_calls=st.integers(0, 1)), max_size=3
)
entries = st.lists(
    st.tuples(names, usages, dollars | st.none())
    | refused.map(tuple)
    | st.builds(ToolSpending, usages, dollars, calls=st.integers(0, 3))
)


@given(entries)
def test_the_figures_are_the_sums_of_what_was_entered(given: Sequence[Entry]) -> None:
    account = ModelAccount()
    tokens, cost_usd = 0, 0.0
    for entry in given:
        match entry:
            case ToolSpending():
                account.add_tool(entry)
                tokens, cost_usd = tokens + entry.usage.total_tokens, cost_usd + entry.cost_usd
            case (str() as model, Usage() as usage, price):
                account.add_call(model, usage, price)
                tokens, cost_usd = tokens + usage.total_tokens, cost_usd + (price or 0.0)
            case _:
                account.add_refused(entry)
                tokens += sum(each.usage.total_tokens for each in entry)
                cost_usd += sum(each.cost_usd for each in entry)
        assert (account.tokens, account.cost_usd) == (tokens, cost_usd)
        assert account.spending.usage.total_tokens == tokens
        assert account.spending.cost_usd == cost_usd
        assert sum(each.usage.total_tokens for each in account.models) == tokens
        assert sum(each.cost_usd for each in account.models) == cost_usd


any_count = st.integers(-3, 3)


@given(st.builds(Usage, any_count, any_count, any_count), st.floats() | st.none())
def test_figures_that_cannot_be_are_unknown_and_others_stay(usage: Usage, cost_usd: float | None) -> None:
    said = ModelResponse("Yes.", "own/model", usage=usage, cost_usd=cost_usd)
    told = believed(Success(said)).unwrap()
    assert told.content == said.content
    if min(usage.input_tokens, usage.output_tokens, usage.total_tokens) < 0:
        assert told.usage == Usage(reported=False)
    else:
        assert told.usage == usage
    if cost_usd is not None and isfinite(cost_usd) and cost_usd >= 0:
        assert told.cost_usd == cost_usd
    else:
        assert told.cost_usd is None
