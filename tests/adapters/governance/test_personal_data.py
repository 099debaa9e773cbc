"""Personal data: the labelled texts, and the check digits."""

from __future__ import annotations

import random

import pytest

from reactive_agents.adapters.governance.guardrails import personal_data as checksums
from reactive_agents.adapters.governance.guardrails.personal_data import personal_data
from reactive_agents.core.governance import GuardrailFinding
from tests.adapters.governance.guardrail_samples import PERSONAL
from tests.support.operations import assert_linear


def found(text: str) -> list[GuardrailFinding]:
    findings = personal_data()(text)
    assert isinstance(findings, list)
    return findings


def test_there_are_enough_samples() -> None:
    assert sum(kind != "none" for kind, _ in PERSONAL) >= 40


@pytest.mark.parametrize(("kind", "text"), PERSONAL, ids=[text[:30] for _, text in PERSONAL])
def test_each_sample_has_its_kind_and_no_other(kind: str, text: str) -> None:
    assert [each.category for each in found(text)] == ([] if kind == "none" else [kind])


@pytest.mark.parametrize(
    ("text", "spot"),
    [
        ("Write to anna.schmidt@example.org.", "anna.schmidt@example.org"),
        ("(DE89 3704 0044 0532 0130 00 today)", "DE89 3704 0044 0532 0130 00"),
        ("pay 12 with 4111 1111 1111 1111, or not", "4111 1111 1111 1111"),
        ("SSN 219-09-9999.", "219-09-9999"),
    ],
)
def test_the_span_is_exactly_the_datum(text: str, spot: str) -> None:
    (finding,) = found(text)
    assert text[finding.start : finding.end] == spot


def test_one_changed_digit_is_noticed_by_every_checksum() -> None:
    chosen = random.Random(7)
    for valid, is_valid in (
        ("4111111111111111", checksums.card_number),
        ("DE89370400440532013000", checksums.iban),
        ("86095742719", checksums.german_tax_id),
        ("12345678Z", checksums.spanish_id),
        ("255081416802538", checksums.french_id),
    ):
        assert is_valid(valid)
        for _ in range(20):
            place = chosen.randrange(4, 9)
            other = chosen.choice([digit for digit in "0123456789" if digit != valid[place]])
            assert not is_valid(valid[:place] + other + valid[place + 1 :])


@pytest.mark.system
@pytest.mark.parametrize(
    "piece", ["a", "1", " ", "a.", "a@", "1 ", "444 ", "+49 ", "DE89 ", "0", "a@b.", "12-", "X1234567", "%"]
)
def test_the_work_grows_with_the_length_alone(piece: str) -> None:
    assert_linear(lambda size: found(piece * (size // len(piece))), 3_000)
