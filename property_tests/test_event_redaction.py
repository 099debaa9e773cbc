"""The laws of redacted events: no known secret is left, and an event without one is the same object."""

from __future__ import annotations

import re
from typing import Any, get_args
from unittest.mock import patch

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from property_tests.strategies import check_each, texts, values_of
from property_tests.test_redaction import secrets, surroundings
from reactive_agents.core import redaction
from reactive_agents.core.codec import to_json
from reactive_agents.core.errors import ExecutionError, ModelCallFailed, ModelUnavailable
from reactive_agents.core.event_redaction import ValueRedactor
from reactive_agents.core.events import AgentEvent, FinalAnswerProduced, TaskFailed
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.secret_patterns import PATTERNS, SecretPattern, folded
from reactive_agents.core.tasks import TaskResultMetadata
from reactive_agents.testing.core import START
from tests.support.operations import operations_of
from tests.support.profiles import examples

SECRET = "pl4nted-s3cret-value"
KINDS = get_args(AgentEvent)


def with_secret(value: Any, secret: str) -> Any:
    """The value with the secret in each of its texts."""
    if isinstance(value, str):
        return f"{value} {secret} {value}"
    if isinstance(value, tuple | list | frozenset):
        return type(value)(with_secret(each, secret) for each in value)
    if isinstance(value, dict):
        return {with_secret(key, secret): with_secret(item, secret) for key, item in value.items()}
    if attrs.has(type(value)):
        fixed = (
            "agent",  # redacted once for all events of a run
            "digest",
            "run_id",
            "parent_run_id",
            "task_id",
            "session_id",
            "plan_id",
            "learned_from",
            "id",
            "phase",
            "timing",
        )
        fields = attrs.fields(attrs.resolve_types(type(value)))
        changes = {
            field.name: with_secret(getattr(value, field.name), secret)
            for field in fields
            if field.name not in fixed and "Literal" not in str(field.type)
        }
        return attrs.evolve(value, **changes)
    return value


def test_no_text_of_an_event_keeps_a_known_secret_and_one_without_is_the_same_object(
    subtests: pytest.Subtests,
) -> None:
    redactor = ValueRedactor(Redactor(secrets=[SECRET]))

    def law(kind: type) -> None:
        @examples(5)
        @given(values_of(kind))
        def check(event: Any) -> None:
            assert redactor.redacted(event) is event
            assert redactor.redacted(event) is event
            redacted = redactor.redacted(with_secret(event, SECRET))
            assert SECRET not in to_json(redacted, AgentEvent)
            assert (redacted.run_id, redacted.sequence, redacted.at) == (
                event.run_id,
                event.sequence,
                event.at,
            )
            assert redactor.redacted(redacted) == redacted

        check()

    check_each(subtests, {kind.__name__: kind for kind in KINDS}, law)


@given(secret=secrets, before=surroundings, after=texts)
def test_a_text_that_was_clean_for_one_redactor_is_looked_at_by_another(
    secret: str, before: str, after: str
) -> None:
    event = FinalAnswerProduced("r", "t", 1, START, "s", before + secret + after, "completed", "", 1, 1)  # type: ignore[arg-type]
    ValueRedactor(Redactor()).redacted(event)
    shown = ValueRedactor(Redactor(secrets=[secret])).redacted(event).answer
    assert secret not in shown.replace("[redacted:known]", "\0")


@examples(20)
@given(st.lists(surroundings | st.sampled_from(["ſecret", "PAſſWORD: a1b2c3d4", "apİ_Key=12345678"])))
def test_what_shows_no_sign_has_no_match(pieces: list[str]) -> None:
    text = "".join(pieces)
    plain = folded(text)
    for pattern in PATTERNS:
        if not any(sign in plain for sign in pattern.signs):
            assert pattern.pattern.search(text) is None, pattern.kind


def test_every_pattern_has_a_sign() -> None:
    assert all(pattern.signs and pattern.heads for pattern in PATTERNS)
    assert all(sign == folded(sign) for pattern in PATTERNS for sign in pattern.signs)
    assert all(head == folded(head) for pattern in PATTERNS for head, _ in pattern.heads)


def matching(pattern: SecretPattern) -> st.SearchStrategy[str]:
    """Texts with a match of a pattern, which is easier to generate without its possessive repetitions."""
    return st.from_regex(re.sub(r"(?<!\\)([*+?}])\+", r"\1", pattern.pattern.pattern))


@pytest.mark.parametrize("pattern", PATTERNS)
@examples(6)
@given(data=st.data())
def test_each_match_begins_near_a_head_of_its_pattern(pattern: SecretPattern, data: st.DataObject) -> None:
    text = data.draw(matching(pattern))
    plain = folded(text)
    for start in range(len(text)):
        if pattern.pattern.match(text, start):
            heads = ((head, start + before + len(head)) for head, before in pattern.heads)
            assert any(plain.find(head, start, end) >= 0 for head, end in heads), text[start:]


@examples(40)
@given(
    st.lists(st.sampled_from(PATTERNS).flatmap(matching) | surroundings, max_size=4),
    st.sampled_from([". ", "ß ", "İx", "the api is\n"]),
    secrets,
)
def test_a_long_text_is_redacted_as_by_a_search_through_all_of_it(
    pieces: list[str], filler: str, known: str
) -> None:
    text = "".join((*pieces, known, filler * 2_000, *reversed(pieces), known))
    redactor = Redactor([r"CASE-\d+"], secrets=[known])
    shown = redactor.redact(text)
    with patch.object(redaction, "_SPARSE", len(text)):  # no place is worth a look of its own
        assert shown == Redactor([r"CASE-\d+"], secrets=[known]).redact(text)


def test_folding_keeps_each_character_in_its_place() -> None:
    every = [chr(each) for each in range(0x110000)]
    assert all(len(folded(each)) == len(folded(f"é{each}")) - 1 == 1 for each in every)


def test_what_an_expression_takes_for_a_letter_of_a_sign_is_folded_to_it() -> None:
    every = "".join(map(chr, range(0x110000)))
    for letter in sorted({letter for each in PATTERNS for letter in "".join(each.signs)}):
        alike = re.findall(re.escape(letter), every, re.IGNORECASE)
        assert {folded(f"é{each}")[1] for each in alike} == {letter}


def test_an_error_deep_inside_is_redacted() -> None:
    cause = ModelCallFailed("think", 0, ModelUnavailable(f"refused {SECRET}", "m"))
    error = ExecutionError(f"because {SECRET}", "t", "think", cause)
    metadata = TaskResultMetadata(1.0, 0.0, 0, 0, "s", "m", "error")
    event = TaskFailed("r", "t", 1, START, error, (), metadata)  # type: ignore[arg-type]
    redacted = ValueRedactor(Redactor(secrets=[SECRET])).redacted(event)
    assert SECRET not in to_json(redacted, AgentEvent)
    assert redacted.metadata is metadata


def test_a_class_is_examined_once_for_the_redactors_of_all_agents() -> None:
    @attrs.frozen
    class Note:
        text: str
        runs: tuple[TaskResultMetadata, ...] = ()

    redactor, note = Redactor(), Note("Look there.")
    first, second = (operations_of(lambda: ValueRedactor(redactor).redacted(note)) for _ in range(2))
    assert second < first / 2
