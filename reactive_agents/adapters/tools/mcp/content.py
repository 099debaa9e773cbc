"""What a call of an MCP tool gave back, as JSON or as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactive_agents.adapters.tools.json_value import as_text, to_json_value
from reactive_agents.core.json import Json

if TYPE_CHECKING:
    from mcp.types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        ResourceContents,
        TextResourceContents,
    )


def result_value(result: CallToolResult) -> Json:
    """The structured content, or else the text.

    Pictures, sounds and binary resources are described by their type and size. When they come with structured
    content, the value is ``{"result": structured content, "attachments": [descriptions]}``.
    """
    structured = result.structured_content
    if structured is None:
        return result_text(result)
    attachments: list[Json] = [_describe(block) for block in result.content if block.type != "text"]
    value = to_json_value(structured)
    return {"result": value, "attachments": attachments} if attachments else value


def result_text(result: CallToolResult) -> str:
    """All content blocks as text, one after the other."""
    return "\n".join(_describe(block) for block in result.content)


def _describe(block: ContentBlock) -> str:
    match block.type:
        case "text":
            return as_text(block.text)
        case "image" | "audio":
            return f"[{block.type}: {as_text(block.mime_type)}, {_decoded_size(block.data)} bytes]"
        case "resource_link":
            size = "unknown size" if block.size is None else f"{block.size} bytes"
            return f"[resource: {as_text(block.uri)}, {as_text(block.mime_type or 'unknown type')}, {size}]"
        case "resource":
            return _describe_resource(block.resource)


def _describe_resource(resource: TextResourceContents | BlobResourceContents) -> str:
    from mcp.types import BlobResourceContents

    if isinstance(resource, BlobResourceContents):
        return _heading(resource, "unknown type", _decoded_size(resource.blob))
    text = as_text(resource.text)
    return f"{_heading(resource, 'text/plain', len(text.encode()))}\n{text}"


def _heading(resource: ResourceContents, kind: str, size: int) -> str:
    return f"[resource: {as_text(resource.uri)}, {as_text(resource.mime_type or kind)}, {size} bytes]"


def _decoded_size(base64_text: str) -> int:
    return len(base64_text) * 3 // 4 - base64_text[-2:].count("=")
