"""The laws of findings in JSON data: what is found is taken out, and the rest stays as and where it was."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from property_tests.strategies import json_values
from reactive_agents.core.findings import joined_texts, redact_texts
from reactive_agents.core.governance import GuardrailFinding


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
