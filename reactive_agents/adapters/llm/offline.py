"""A model without weights or network: it calls tools, and answers with quotations of what they found."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from textwrap import shorten
from typing import Never

from returns.future import FutureResult
from returns.result import Result, Success

from reactive_agents.adapters.llm.offline_reading import (
    CALCULATOR,
    READ,
    SEARCH,
    Reading,
    best,
    read_conversation,
    stem,
)
from reactive_agents.adapters.llm.offline_schema import instance
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import (
    ModelChunk,
    ModelRequest,
    ModelResponse,
    StreamCompleted,
    TextDelta,
    TokenPrice,
    ToolCallDelta,
    Usage,
)
from reactive_agents.core.tools import FINAL_ANSWER
from reactive_agents.effects import Effect

MODEL = "offline/quotes"
MAX_QUOTES, MAX_QUOTE_CHARACTERS, MAX_LINES = 3, 400, 60


class OfflineLLM:
    """Implements ``LLM`` without a model: the same request always gets the same answer, in milliseconds.

    It calls ``calculator`` for the arithmetic of a question, ``file-search`` for its keywords (once more,
    with the beginnings of the words, when nothing was found) and ``file-read`` for the best files, as far as
    these tools are offered. Then it quotes the sentences that match best, each with its file and line. It
    does not reason, knows nothing by itself, and says when nothing matched. Where the request has a response
    schema, the answer is an instance of it: strings are quotations, and the rest is the least that the
    schema allows. Its tokens are words, separated by white space, and cost nothing.
    """

    @property
    def model(self) -> str:
        """``offline/quotes``."""
        return MODEL

    def price(self, model: str | None) -> Effect[TokenPrice | None, Never]:
        """Nothing."""
        return FutureResult.from_value(TokenPrice(0.0, 0.0))

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        """The next tool calls, or the answer. Never fails."""
        return FutureResult.from_value(respond(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """The same, word by word. Never fails."""
        response = respond(request)
        for word in re.findall(r"\s*\S+|\s+", response.content):
            yield Success(TextDelta(word))
        for index, call in enumerate(response.tool_calls):
            yield Success(ToolCallDelta(index, call.name, json.dumps(call.arguments, ensure_ascii=False)))
        yield Success(StreamCompleted(response))


def respond(request: ModelRequest) -> ModelResponse:
    """What the offline model answers."""
    reading = read_conversation(request.messages)
    offered = {tool.name for tool in request.tools}
    wanted = _look_ups(reading, offered)
    if request.parallel_tool_calls is False:
        wanted = wanted[:1]
    if wanted:
        text = "Looking up: " + "; ".join(str(next(iter(arguments.values()))) for _, arguments in wanted)
    elif request.response_schema is None:
        text = _answer_text(reading)
    else:
        text = json.dumps(instance(request.response_schema, reading.quotation), ensure_ascii=False)
    if not wanted and FINAL_ANSWER in offered:
        text, wanted = "", [(FINAL_ANSWER, JsonObject(answer=text))]
    turn = len(request.messages)  # it tells the calls of one turn from those of another
    calls = tuple(ToolCall(CallId(f"offline-{turn}-{n}"), *call) for n, call in enumerate(wanted, 1))
    read = _count(*(message.content for message in request.messages), *request.tools, request.response_schema)
    written = _count(text, *wanted)
    usage = Usage(read, written, read + written)
    return ModelResponse(text, MODEL, calls, "", "tool_calls" if calls else "stop", usage, cost_usd=0.0)


def _count(*parts: object) -> int:
    """How many words the parts have, written as text."""
    return sum(len(str(part).split()) for part in parts if part is not None)


def _look_ups(reading: Reading, offered: set[str]) -> list[tuple[str, JsonObject]]:
    """The calls of this turn; none once all is looked up. What has been called is never called again."""
    calls, made = list[tuple[str, JsonObject]](), reading.made
    if CALCULATOR in offered:
        calls += [(CALCULATOR, JsonObject(expression=one)) for one in reading.expressions[made[CALCULATOR] :]]
    if SEARCH in offered and reading.keywords and made[SEARCH] < (1 if reading.matches else 2):
        query = map(stem, reading.keywords) if made[SEARCH] else reading.keywords
        calls.append((SEARCH, JsonObject(query=" ".join(query))))
    if READ in offered and not calls:
        for path, line in reading.files_to_read()[made[READ] :]:
            calls += [(READ, JsonObject(path=path, start_line=line, max_lines=MAX_LINES))]
    return calls


def _answer_text(reading: Reading) -> str:
    parts, pool = list(reading.sums), reading.read or reading.matches
    quotes = best(pool, reading.keywords) or [one for one in pool if one.path in reading.files]
    if quotes:
        parts.append("Quotations that match the question best, chosen by their words, without reasoning:")
        for one in quotes[:MAX_QUOTES]:
            text = shorten(one.text, MAX_QUOTE_CHARACTERS, placeholder=" …")
            parts.append(f"- “{text}” ({one.path}:{one.line})")
    elif reading.keywords or not parts:
        parts.append("There is nothing to quote for this question, and this model can only quote.")
    return "\n".join(parts)
