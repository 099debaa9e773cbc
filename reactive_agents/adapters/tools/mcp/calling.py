"""One call of a tool over a session that is there, and every way that it can end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.json_value import as_text, to_json_value
from reactive_agents.adapters.tools.mcp.connection import Connection, Session, is_lost
from reactive_agents.adapters.tools.mcp.content import result_text, result_value
from reactive_agents.adapters.tools.mcp.redaction import shown
from reactive_agents.core.errors import ToolFailed, ToolTimedOut
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall

if TYPE_CHECKING:
    from mcp.types import CallToolResult


async def call_tool(
    connection: Connection, session: Session, name: str, call: ToolCall, *, timeout_s: float
) -> Result[Json, ToolFailed | ToolTimedOut]:
    """The tool's value as JSON; a cancelled call, or one that takes too long, is cancelled at the server too.

    Args:
        name: of the tool, as its server knows it; failures carry the one of the call.
        timeout_s: seconds until ``ToolTimedOut``, above 0.
    """
    from mcp import MCPError

    server = connection.server
    client = session.client
    if client is None:
        return Failure(ToolFailed(call.name, await connection.bury(session)))
    arguments: Any = to_json_value(call.arguments)  # a model may send text that has no form in UTF-8
    answer: CallToolResult | None = None
    try:
        with anyio.move_on_after(timeout_s):
            answer = await client.call_tool(name, arguments)
    except MCPError as error:
        if is_lost(error):
            return Failure(ToolFailed(call.name, await connection.bury(session)))
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
