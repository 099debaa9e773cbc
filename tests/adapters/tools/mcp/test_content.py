"""Content blocks as text and as JSON."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from reactive_agents.adapters.tools.mcp.connection import result_text, result_value
from reactive_agents.core.content import Audio, Document, Image
from tests.adapters.tools.mcp.servers import old, opened, value

pytestmark = pytest.mark.anyio


def encoded(size: int) -> str:
    return base64.b64encode(b"x" * size).decode()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 100])
def test_an_image_is_shown_by_its_label(size: int) -> None:
    picture = ImageContent(data=encoded(size), mime_type="image/png")
    assert result_text(CallToolResult(content=[picture])) == Image.from_bytes(b"x" * size).label


def test_bytes_that_are_no_base64_are_named() -> None:
    picture = ImageContent(data="%%%", mime_type="image/png")
    assert result_text(CallToolResult(content=[picture])) == "[image: image/png, not valid base64]"


def test_the_kind_of_a_resource_is_that_of_its_bytes() -> None:
    blob = base64.b64encode(b"%PDF-1.7").decode()
    resource = BlobResourceContents(uri="file:///a/b.png", blob=blob, mime_type="image/png")
    label = Document.from_bytes(b"%PDF-1.7", name="b.png").label
    shown = f"[resource: file:///a/b.png, image/png, 8 bytes]\n{label}"
    assert result_text(CallToolResult(content=[EmbeddedResource(resource=resource)])) == shown


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (TextContent(text="half a \ud83d"), "half a �"),
        (AudioContent(data=encoded(5), mime_type="audio/wav"), Audio.from_bytes(b"x" * 5).label),
        (ResourceLink(name="a", uri="file:///a"), "[resource: file:///a, unknown type, unknown size]"),
        (
            ResourceLink(name="a", uri="file:///a", mime_type="text/csv", size=7),
            "[resource: file:///a, text/csv, 7 bytes]",
        ),
        (
            EmbeddedResource(resource=BlobResourceContents(uri="file:///b", blob=encoded(9))),
            "[resource: file:///b, unknown type, 9 bytes]\n" + Document.from_bytes(b"x" * 9, name="b").label,
        ),
        (
            EmbeddedResource(resource=TextResourceContents(uri="file:///c", text="ä")),
            "[resource: file:///c, text/plain, 2 bytes]\nä",
        ),
    ],
)
def test_each_kind_of_block_becomes_text(block: Any, text: str) -> None:
    assert result_value(CallToolResult(content=[block])) == text


async def test_a_block_of_an_unknown_form_is_named_and_the_others_are_used() -> None:
    content = [
        {"type": "text", "text": "The first."},
        {"type": "video", "data": "x" * 9_000},
        {"type": "image", "data": "AA=="},
        None,
        {"type": "text", "text": "The last."},
    ]
    async with opened(old(env={"TEST_CONTENT": json.dumps(content)})) as tools:
        lines = (await value(tools, "fine")).splitlines()
    assert (lines[0], lines[-1]) == ("The first.", "The last.")
    assert lines[1] == "[video: content of an unknown form]"
    assert lines[2].startswith('{"type": "video", "data": "xxx')
    assert len(lines[2]) == 2_000
    assert lines[3:5] == ["[image: content of an unknown form]", '{"type": "image", "data": "AA=="}']
    assert lines[5:7] == ["[NoneType: content of an unknown form]", "null"]


def test_structured_content_comes_before_its_text() -> None:
    text = TextContent(text='{"a": 1}')
    assert result_value(CallToolResult(content=[text], structured_content={"a": 1})) == {"a": 1}
    assert result_value(CallToolResult(content=[text], structured_content=[])) == []
    assert result_value(CallToolResult(content=[])) == ""


@pytest.mark.parametrize(
    "shape",
    [
        {"type": "object", "properties": {"n": {"type": "integer"}}},
        {"type": "object", "properties": {"n": {"$ref": "http://127.0.0.1:1/n"}}},
        {"type": "object", "properties": {"n": {"pattern": "^(6+)+$"}}},
        {"type": "nonsense"},
        "no schema",
    ],
)
async def test_a_result_is_not_judged_by_the_schema_that_its_server_has_for_results(shape: Any) -> None:
    """The tool has run; and a schema of a stranger may take for ever."""
    async with opened(old("--shaped", env={"TEST_SHAPE": json.dumps(shape)})) as tools:
        assert await value(tools, "fine") == {"n": "7"}
