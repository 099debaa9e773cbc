"""The law of streams: however a text is cut, no secret is in the pieces, and nothing else is lost."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator
from unittest.mock import patch

import regex
from hypothesis import given
from hypothesis import strategies as st

from property_tests.test_redaction import STARTS, keys, secrets, surroundings
from reactive_agents.core.redaction import Redactor, StreamRedactor
from tests.support.profiles import examples

cuts = st.lists(st.integers(0, 400), max_size=30)
plain = st.text(string.ascii_letters + " .,\n", max_size=60) | st.sampled_from(STARTS)


def streamed(redactor: Redactor, text: str, places: list[int], learned: Iterable[str] = ()) -> str:
    """The text through a stream that cuts it at the places; what is learned is so after the stream began."""
    stream = StreamRedactor(redactor)
    stream.feed("")
    redactor.learn(learned)
    ends = sorted({min(place, len(text)) for place in places} | {len(text)})
    given_out = [stream.feed(text[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    return "".join((*given_out, stream.finish()))


@given(before=surroundings, key=keys, after=surroundings, places=cuts)
def test_no_key_of_a_known_provider_gets_through_in_pieces(
    before: str, key: str, after: str, places: list[int]
) -> None:
    assert key not in streamed(Redactor(), before + key + after, places)


@given(before=surroundings, secret=secrets, after=surroundings, places=cuts)
def test_no_known_value_gets_through_in_pieces(
    before: str, secret: str, after: str, places: list[int]
) -> None:
    redactor = Redactor(secrets=[secret])
    whole = before + secret + after
    assert secret not in streamed(redactor, whole, places).replace("[redacted:known]", "\0")


@given(before=surroundings, secret=secrets, after=surroundings, places=cuts)
def test_a_value_that_is_learned_within_a_stream_does_not_get_through_in_pieces(
    before: str, secret: str, after: str, places: list[int]
) -> None:
    shown = streamed(Redactor(), before + secret + after, places, [secret])
    assert secret not in shown.replace("[redacted:known]", "\0")


@given(parts=st.lists(plain | keys, max_size=6), places=cuts)
def test_what_is_given_out_has_no_secret_and_loses_nothing_else(parts: list[str], places: list[int]) -> None:
    text = " ".join(parts)
    redactor = Redactor()
    shown = streamed(redactor, text, places)
    assert redactor.redact(shown) == shown
    if redactor.redact(text) == text:
        assert shown == text


@given(text=plain.filter(str.strip))
def test_a_text_without_any_sign_is_hardly_held_back(text: str) -> None:
    stream = StreamRedactor(Redactor())
    given_out = stream.feed(text + " so much is clear ")
    assert given_out.endswith("so much is clear ") or any(start in text for start in STARTS)


class Counting(StreamRedactor):
    """Counts the characters that are looked at."""

    looked_at = 0

    def _safe_cut(self, text: str) -> int:
        self.looked_at += len(text)
        return super()._safe_cut(text)


@examples(8)
@given(
    letters=st.sampled_from(["a", "a-", "sk-", "a/b+", "AKIA", "-----BEGIN ", "eyJhbGciOi."]),
    size=st.integers(1, 40),
)
def test_an_unbroken_text_is_looked_at_a_few_times_however_long_it_is(letters: str, size: int) -> None:
    text = letters * (2_000 // len(letters))
    stream = Counting(Redactor())
    for start in range(0, len(text), size):
        stream.feed(text[start : start + size])
    stream.finish()
    assert stream.looked_at <= 6 * len(text) + 300 * len(text) / size


def test_the_patterns_are_compiled_once_for_all_chunks() -> None:
    stream = StreamRedactor(Redactor())
    stream.feed("The first chunk, ")
    with patch.object(regex, "compile") as compiled:
        stream.feed("and the second.")
    assert not compiled.called


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8), st.booleans()), max_size=8), plain)
def test_the_cut_is_in_no_match_and_before_every_live_one(
    found: list[tuple[int, int, bool]], text: str
) -> None:
    matches = [
        (start, min(start + length, len(text)), live) for start, length, live in found if start <= len(text)
    ]

    class Given(StreamRedactor):
        def _matches(self, _: str) -> Iterator[tuple[int, int, bool]]:
            return iter(matches)

    cut = Given(Redactor())._safe_cut(text)
    assert all(cut <= start for start, _, live in matches if live)
    assert not any(start < cut < end for start, end, _ in matches)
    kept = text[:cut]
    assert cut == len(text) or not kept or kept[-1] not in string.ascii_letters + string.digits
