"""One call of a tool over an open session, with all its outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.json_value import as_text, to_json_value
from reactive_agents.adapters.tools.mcp.connection import Connection, Session, is_lost
from reactive_agents.adapters.tools.mcp.server import shown
from reactive_agents.core.errors import ToolFailed, ToolTimedOut
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall

if TYPE_CHECKING:
    from mcp.types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        ResourceContents,
        TextResourceContents,
    )


async def call_tool(
    connection: Connection, session: Session, name: str, call: ToolCall, *, timeout_s: float
) -> Result[Json, ToolFailed | ToolTimedOut]:
    """Return the tool's value as JSON.

    A call that is cancelled or times out is cancelled at the server too.

    Args:
        name: of the tool, as its server knows it; failures carry the one of the call.
        timeout_s: seconds until ``ToolTimedOut``, above 0.
    """
    from mcp import MCPError

    server = connection.server
    client = session.client
    if client is None:
        return Failure(ToolFailed(call.name, await connection.discard(session)))
    arguments: Any = to_json_value(call.arguments)  # a model may send text that has no form in UTF-8
    answer: CallToolResult | None = None
    try:
        with anyio.move_on_after(timeout_s):
            answer = await client.call_tool(name, arguments)
    except MCPError as error:
        if is_lost(error):
            return Failure(ToolFailed(call.name, await connection.discard(session)))
        return Failure(ToolFailed(call.name, shown(server, error), type(error).__name__))
    except Exception as error:  # noqa: BLE001 - a server is arbitrary code; the library raises whatever it breaks
        return Failure(ToolFailed(call.name, shown(server, _innermost(error)), type(error).__name__))
    if answer is None:
        return Failure(ToolTimedOut(call.name, timeout_s))
    if answer.is_error:
        said = shown(server, result_text(answer)) or "the server did not say why"
        return Failure(ToolFailed(call.name, said))
    return Success(result_value(answer))


def _innermost(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return as_text(error) or type(error).__name__


# --- the content of a result ----------------------------------------------------------------------------


def result_value(result: CallToolResult) -> Json:
    """Return the structured content, or else the text.

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
    """Return all content blocks as text, one after the other."""
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
