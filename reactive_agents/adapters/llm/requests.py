"""From a request to the arguments of a chat completion in the OpenAI form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import assert_never

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.surrogates import mended
from reactive_agents.core.tools import ToolDefinition


def chat_arguments(request: ModelRequest, *, schema_supported: bool, json_supported: bool) -> JsonObject:
    """The arguments that say what is asked; what the request leaves to the provider is left out.

    Args:
        request: what is asked.
        schema_supported: whether the provider holds answers to a JSON Schema.
        json_supported: whether the provider can be told to answer in JSON.
    """
    arguments: JsonObject = {"messages": list(chat_messages(request.messages))}
    if request.tools:
        arguments["tools"] = [_tool(tool) for tool in request.tools]
        if request.parallel_tool_calls is not None:
            arguments["parallel_tool_calls"] = request.parallel_tool_calls
    if request.temperature is not None:
        arguments["temperature"] = request.temperature
    if request.max_tokens is not None:
        arguments["max_tokens"] = request.max_tokens
    if request.response_schema is not None:
        if schema_supported:
            arguments["response_format"] = _schema_format(request.response_schema)
        elif json_supported and _speaks_of_json(request.messages):
            arguments["response_format"] = {"type": "json_object"}
    return arguments


def chat_messages(messages: Sequence[Message]) -> tuple[JsonObject, ...]:
    """The conversation in the OpenAI form, message by message, without halves of surrogate pairs."""
    return tuple(_chat_message(message) for message in messages)


def count_tool_calls(messages: Sequence[Message]) -> int:
    """How many tool calls the conversation holds."""
    return sum(len(message.tool_calls) for message in messages if isinstance(message, AssistantMessage))


def _chat_message(message: Message) -> JsonObject:
    match message:
        case SystemMessage(content):
            return {"role": "system", "content": mended(content)}
        case UserMessage(content):
            return {"role": "user", "content": mended(content)}
        case AssistantMessage(content, ()):
            return {"role": "assistant", "content": mended(content)}
        case AssistantMessage(content, calls):
            spoken: Json = mended(content) or None
            return {"role": "assistant", "content": spoken, "tool_calls": [_call(call) for call in calls]}
        case ToolMessage(call_id, tool_name, content):
            return {
                "role": "tool",
                "tool_call_id": mended(call_id),
                "name": mended(tool_name),
                "content": mended(content),
            }
    assert_never(message)


def _call(call: ToolCall) -> JsonObject:
    # malformed arguments go back as an empty object: several providers parse what they are sent, and the
    # tool's message already tells the model what was wrong
    arguments = mended(json.dumps(call.arguments, ensure_ascii=False))
    function: JsonObject = {"name": mended(call.name), "arguments": arguments}
    return {"id": mended(call.id), "type": "function", "function": function}


def _tool(tool: ToolDefinition) -> JsonObject:
    function: JsonObject = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def _schema_format(schema: JsonObject) -> JsonObject:
    # not strict: strict mode refuses schemas with optional properties
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": False}}


def _speaks_of_json(messages: Sequence[Message]) -> bool:
    """Whether the conversation mentions JSON: without it OpenAI refuses the ``json_object`` format."""
    return any("json" in message.content.lower() for message in messages)
