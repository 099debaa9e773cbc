"""A tool call that was written as text is found; prose that mentions a tool is not."""

from __future__ import annotations

import time

import pytest

from reactive_agents.kernel.call_text import embedded_call

NAMES = {"web-search", "now", "file_read"}


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('web-search({"query":"test"})', "web-search", {"query": "test"}),
        ('FINAL ANSWER: web-search({"query": "test"})', "web-search", {"query": "test"}),
        ('I will look it up.\n  `web-search({"query": "a) b\\"("})`', "web-search", {"query": 'a) b"('}),
        ('web-search( {\n  "query": {"deep": [1, 2]}\n} );\n', "web-search", {"query": {"deep": [1, 2]}}),
        ("now()", "now", {}),
        ('file_read({"path": "ü"}).', "file_read", {"path": "ü"}),
        ("Not this: web-search({)\nnow()", "now", {}),
    ],
)
def test_a_bare_call_at_the_end_is_found(text: str, name: str, arguments: object) -> None:
    found = embedded_call(text, NAMES)
    assert found is not None
    assert (found.name, found.arguments) == (name, arguments)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The answer is 3.",
        'You can call web-search({"query": "test"})',
        'web-search({"query": "test"}) found nothing.',
        'mail-send({"to": "all"})',
        'web-search({"query": "test")',
        "web-search([1])",
        'web-search("test")',
        'web-search({"query": "test"}',
        "web-search({" + '"a":{' * 5_000,
    ],
)
def test_what_is_no_bare_call_is_left_alone(text: str) -> None:
    assert embedded_call(text, NAMES) is None


@pytest.mark.parametrize(
    "piece", ["now(", "now()\n", "now(   \n", 'now({"a":\n', "final answer:", "`" * 3, "\n "]
)
def test_the_search_takes_no_more_than_linear_time(piece: str) -> None:
    started = time.perf_counter()
    embedded_call(piece * (100_000 // len(piece)) + "x", NAMES)
    assert time.perf_counter() - started < 1.0
