"""The laboratory's server of the Anthropic protocol: the same simulated models behind ``/v1/messages``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.lab.laboratory import ModelServer
from tests.support.openai_server import Answer, Call, Raw, Received, Reply

_JSON_TOOL = "json_tool_call"
"""The tool by which litellm asks for JSON, which this protocol has no mode for."""
_STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


class AnthropicServer(ModelServer):
    """Answers requests of the Anthropic protocol, whole ones only."""

    provider = "anthropic"

    @property
    def base_url(self) -> str:
        """The address to give to a client."""
        return super().base_url.removesuffix("/v1")

    def _next(self, received: Received) -> Reply:
        with self._lock:
            self.requests.append(received)
        body = received.body
        answer = self._model.reply(as_chat_request(body))
        wants_json = any(tool["name"] == _JSON_TOOL for tool in body.get("tools", ()))
        return Raw(200, json.dumps(as_message(answer, str(body["model"]), as_json=wants_json)))


def as_chat_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request of the Anthropic protocol in the form of the OpenAI protocol."""
    system = "\n".join(_texts(body.get("system", "")))
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for message in body["messages"]:
        messages.extend(_chat_messages(message))
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "parameters": tool["input_schema"],
            },
        }
        for tool in body.get("tools", ())
        if tool["name"] != _JSON_TOOL
    ]
    return {"model": body["model"], "messages": messages, **({"tools": tools} if tools else {})}


def _chat_messages(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for part in parts:
        if part["type"] == "tool_result":
            result = "\n".join(_texts(part.get("content", "")))
            yield {"role": "tool", "tool_call_id": part["tool_use_id"], "content": result}
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    calls = [
        {
            "id": part["id"],
            "type": "function",
            "function": {"name": part["name"], "arguments": json.dumps(part["input"])},
        }
        for part in parts
        if part["type"] == "tool_use"
    ]
    if text or calls:
        yield {"role": message["role"], "content": text, **({"tool_calls": calls} if calls else {})}


def _texts(content: str | list[Mapping[str, Any]]) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for part in content:
        yield str(part.get("text", ""))


def as_message(answer: Answer, model: str, *, as_json: bool = False) -> dict[str, Any]:
    """Return an answer in the form of the Anthropic protocol."""
    calls, text = answer.calls, answer.content or ""
    if as_json:
        calls, text = (Call(_JSON_TOOL, text, "call-json"),), ""
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    parts += [
        {"type": "tool_use", "id": call.id or f"call-{number}", "name": call.name, "input": _input(call)}
        for number, call in enumerate(calls)
    ]
    read, written = answer.usage or (0, 0)
    return {
        "id": "msg-1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": parts,
        "stop_reason": _STOPS[answer.finish if not calls else "tool_calls"],
        "stop_sequence": None,
        "usage": {"input_tokens": read, "output_tokens": written},
    }


def _input(call: Call) -> dict[str, Any]:
    """Return the arguments as an object: this protocol has no other."""
    try:
        value = json.loads(call.text)
    except ValueError:
        return {"arguments": call.text}
    return value if isinstance(value, dict) else {"arguments": value}
