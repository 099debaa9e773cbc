"""Prompts of which a provider read only a part, by its own count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_agents.core.usage import Usage
from reactive_agents.kernel.context_window.token_estimate import TokenEstimate, answered, unread

FIRST = TokenEstimate(fixed=1_000)


def counted(tokens: int) -> Usage:
    return Usage(tokens, 5, tokens + 5)


def next_request(size: int, tokens: int, *, before: int, before_size: int, guidance: tuple[int, int]) -> bool:
    """Return whether the second of two requests counts as unread."""
    earlier, now = guidance
    estimate = answered(FIRST, 1, before_size, before_size, counted(before), guidance=earlier)
    return unread(estimate, size, lambda: 1_000 + size, counted(tokens), guidance=now)


@pytest.mark.parametrize(
    ("size", "characters", "usage", "lost"),
    [
        (40_000, 41_000, counted(4_096), True),
        (40_000, 41_000, counted(9_000), False),
        (40_000, 12_000, counted(4_096), False),  # a script of several bytes for each character
        (40_000, 41_000, counted(7), False),  # a server that does not count
        (40_000, 41_000, Usage(reported=False), False),
    ],
    ids=["cut", "whole", "bytes", "no count", "unreported"],
)
def test_too_many_characters_for_each_token(size: int, characters: int, usage: Usage, lost: bool) -> None:
    assert unread(FIRST, size, lambda: characters, usage) is lost


def test_a_longer_request_with_no_more_tokens() -> None:
    assert next_request(9_000, 2_048, before=2_048, before_size=8_000, guidance=(0, 0))
    assert next_request(9_000, 1_900, before=2_048, before_size=8_000, guidance=(0, 0))
    assert not next_request(9_000, 2_300, before=2_048, before_size=8_000, guidance=(0, 0))
    assert not next_request(8_000, 2_048, before=2_048, before_size=8_000, guidance=(0, 0))
    # guidance that is gone may have been as many tokens as bytes
    assert not next_request(9_000, 2_048, before=2_048, before_size=8_000, guidance=(159, 0))


@given(
    st.integers(0, 60_000),
    st.integers(16, 60_000),
    st.integers(2, 7),
    st.integers(0, 2_000),
    st.integers(0, 2_000),
)
def test_a_server_that_reads_everything_never_counts_as_one_that_cuts(
    size: int, grown: int, characters_per_token: int, earlier: int, now: int
) -> None:
    def tokens(of: int) -> int:
        return -(-of // characters_per_token)

    before = tokens(1_000 + size + earlier)
    after = tokens(1_000 + size + grown + now)
    assert not next_request(size + grown, after, before=before, before_size=size, guidance=(earlier, now))


@given(st.integers(8_000, 200_000), st.integers(0, 60_000), st.integers(2, 7))
def test_a_server_that_counts_only_what_has_come_since_the_last_request_cuts_nothing(
    size: int, grown: int, characters_per_token: int
) -> None:
    new = -(-grown // characters_per_token)
    before = (1_000 + size) // characters_per_token
    assert not next_request(size + grown, new, before=before, before_size=size, guidance=(0, 0))


def test_a_count_that_what_has_come_since_does_not_explain_is_of_a_cut_prompt() -> None:
    assert next_request(40_000, 4_096, before=4_096, before_size=38_000, guidance=(0, 0))
