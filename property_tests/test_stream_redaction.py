"""The law of streams: however a text is cut, no secret is in the pieces, and nothing else is lost."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from property_tests.test_redaction import STARTS, keys, secrets, surroundings
from reactive_agents.core.redaction import Redactor, StreamRedactor

cuts = st.lists(st.integers(0, 400), max_size=30)
plain = st.text(string.ascii_letters + " .,\n", max_size=60) | st.sampled_from(STARTS)


def streamed(redactor: Redactor, text: str, places: list[int]) -> str:
    """The text through a stream that cuts it at the places, and each piece through the redactor once more."""
    stream = StreamRedactor(redactor)
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
