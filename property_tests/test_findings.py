"""The laws of findings in JSON data: what is found is taken out, and the rest stays as and where it was."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from property_tests.strategies import json_values
from reactive_agents.core.governance import GuardrailFinding
from reactive_agents.core.redaction import joined_texts, redact_texts, replacing
from tests.support.operations import assert_linear


def shape(value: Any) -> Any:
    """The value without its texts and numbers."""
    if isinstance(value, list):
        return [shape(item) for item in value]
    if isinstance(value, dict):
        return [shape(item) for item in value.values()]
    return value if value is None or isinstance(value, bool) else "text"


@st.composite
def found_in(draw: st.DrawFn) -> tuple[Any, list[GuardrailFinding]]:
    value = draw(json_values)
    size = len(joined_texts(value))
    spans = draw(st.lists(st.tuples(st.integers(0, size), st.integers(0, size)), max_size=4))
    return value, [GuardrailFinding("c", *sorted(span), 1.0, "redact") for span in spans]


@given(found_in())
def test_the_shape_stays(found: tuple[Any, list[GuardrailFinding]]) -> None:
    value, findings = found
    redacted = redact_texts(value, findings)
    assert shape(redacted) == shape(value)
    json.dumps(redacted)


@given(json_values)
def test_without_findings_nothing_changes(value: Any) -> None:
    assert redact_texts(value, []) == value


@given(json_values, st.text("sxz", min_size=3, max_size=6))
def test_what_is_found_is_gone_wherever_it_was(value: Any, secret: str) -> None:
    def planted(data: Any) -> Any:
        if isinstance(data, str):
            return f"{data}{secret}{data}"
        if isinstance(data, list):
            return [planted(item) for item in data]
        if isinstance(data, dict):
            return {key: planted(item) for key, item in data.items()}
        return data

    data = planted(value)
    text = joined_texts(data)
    places = [at for at in range(len(text)) if text.startswith(secret, at)]
    findings = [GuardrailFinding("gone", at, at + len(secret), 1.0, "redact") for at in places]
    assert secret not in joined_texts(redact_texts(data, findings))


def test_the_work_of_redacting_grows_with_the_length_alone() -> None:
    def work(size: int) -> None:
        data = [{"id": n, "email": f"user{n}@example.org"} for n in range(size)]
        text = joined_texts(data)
        findings = [
            GuardrailFinding("email", *match.span(), 1.0, "redact") for match in re.finditer("user.*", text)
        ]
        pairs = [(text[each.start : each.end], "[email]") for each in findings]
        redact_texts(data, findings)
        replacing(pairs)(text)

    assert_linear(work, 200)


@given(st.text("ab@[", max_size=30), st.lists(st.text("ab@[", min_size=1, max_size=5), max_size=6))
def test_what_is_replaced_is_gone_and_the_rest_stays_as_it_was(text: str, olds: list[str]) -> None:
    made = replacing((old, f"<{number}>") for number, old in enumerate(olds))(text)
    rest = re.split(r"<([0-9])>", made)
    assert not any(old in piece for piece in rest[::2] for old in olds)
    for piece, number in zip(rest[::2], rest[1::2], strict=False):
        assert text.startswith(piece)
        text = text[len(piece) :]
        olds_here = [old for old in olds if text.startswith(old)]
        assert olds_here
        assert int(number) < len(olds)
        reach, at = max(map(len, olds_here)), 0
        while at < reach:  # as far as occurrences overlap
            reach = max([reach, *(at + len(old) for old in olds if text.startswith(old, at))])
            at += 1
        assert olds[int(number)] in text[:reach]
        assert len(olds[int(number)]) == max(len(old) for old in olds if old in text[:reach])
        text = text[reach:]
    assert text == rest[-1]


@given(st.text("ab", max_size=20), st.sampled_from(["ab", "abb", "b@"]), st.text("xyz", max_size=3))
def test_a_single_text_is_replaced_as_python_does_it(text: str, old: str, new: str) -> None:
    assert replacing([(old, new)])(text) == text.replace(old, new)
