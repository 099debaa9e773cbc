"""A model without weights or network: it calls tools, and answers with quotations of what they found."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

from attrs import evolve
from returns.future import FutureResult
from returns.result import Result, Success

from reactive_agents.adapters.llm.offline_ranking import beginning, passages, rank, stems
from reactive_agents.adapters.llm.offline_reading import (
    CALCULATOR,
    FINAL_ANSWER,
    READ,
    SEARCH,
    Reading,
    read_conversation,
)
from reactive_agents.adapters.llm.offline_schema import instance
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import AssistantMessage, ToolCall
from reactive_agents.core.models import (
    ModelChunk,
    ModelRequest,
    ModelResponse,
    StreamCompleted,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import Effect

MODEL = "offline/quotes"
MAX_QUOTES, MAX_QUOTE_CHARACTERS, MAX_LINES = 3, 400, 60
WORTH = 0.5  # of the best passage's score: what falls short of it is not quoted
_CHUNK = re.compile(r"\s*\S+|\s+")


class OfflineLLM:
    """Implements ``LLM`` without a model: the same request always gets the same answer, in milliseconds.

    It calls ``calculator`` for the arithmetic of a question, ``file-search`` for its keywords (once more,
    with the beginnings of two of them, when nothing was found) and ``file-read`` for the best files, as far
    as these tools are offered. Then it quotes the sentences that match best, each with its file and line. It
    does not reason, knows nothing by itself, and says when nothing matched. Where the request has a response
    schema, the answer is an instance of it: strings are quotations, and the rest is the least that the
    schema allows.

    Its tokens are words, separated by white space: it counts them exactly, and they cost nothing. Model,
    temperature and ``max_tokens`` of a request do not matter to it; its answers are short.
    """

    @property
    def model(self) -> str:
        """``offline/quotes``."""
        return MODEL

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        """The next tool calls, or the answer. Never fails."""
        return FutureResult(self._answer(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """The same, word by word. Never fails."""
        response = respond(request)
        for word in _CHUNK.findall(response.content):
            yield Success(TextDelta(word))
        for index, call in enumerate(response.tool_calls):
            yield Success(ToolCallDelta(index, call.name, json.dumps(call.arguments, ensure_ascii=False)))
        yield Success(StreamCompleted(response))

    async def _answer(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        return Success(respond(request))


def respond(request: ModelRequest) -> ModelResponse:
    """What the offline model answers."""
    reading = read_conversation(request.messages)
    offered = {definition.name: definition for definition in request.tools}
    calls = _look_ups(reading, offered)
    if request.parallel_tool_calls is False:
        calls = calls[:1]
    if calls:
        text = "Looking up: " + "; ".join(str(next(iter(call.arguments.values()))) for call in calls)
    elif request.response_schema is not None:
        text = _instance_text(reading, request.response_schema)
    else:
        text = _answer_text(reading, offered)
    if not calls and FINAL_ANSWER in offered:
        text, calls = "", [_call(offered[FINAL_ANSWER], answer=text)]
    earlier = sum(len(m.tool_calls) for m in request.messages if isinstance(m, AssistantMessage))
    numbered = tuple(evolve(c, id=CallId(f"offline-{n}")) for n, c in enumerate(calls, earlier + 1))
    usage = count_words(request, text, numbered)
    return ModelResponse(
        text, MODEL, numbered, "", "tool_calls" if calls else "stop", usage=usage, cost_usd=0.0
    )


def count_words(request: ModelRequest, text: str, calls: tuple[ToolCall, ...]) -> Usage:
    """The words that the model reads (messages, calls, tools, schema) and writes, arguments as JSON text."""
    read = sum(len(message.content.split()) for message in request.messages)
    read += sum(_words_of(m.tool_calls) for m in request.messages if isinstance(m, AssistantMessage))
    for tool in request.tools:
        read += len(f"{tool.name} {tool.description} {json.dumps(tool.parameters)}".split())
    if request.response_schema is not None:
        read += len(json.dumps(request.response_schema).split())
    written = len(text.split()) + _words_of(calls)
    return Usage(read, written, read + written)


def _words_of(calls: tuple[ToolCall, ...]) -> int:
    return sum(len(f"{call.name} {json.dumps(call.arguments)}".split()) for call in calls)


def _look_ups(reading: Reading, offered: dict[str, ToolDefinition]) -> list[ToolCall]:
    """The calls of this turn; none once all is looked up. What has been called is never called again."""
    calls, made = [], reading.made
    longest = sorted(reading.keywords, key=len)[-2:]
    if CALCULATOR in offered:
        left = reading.expressions[made.get(CALCULATOR, 0) :]
        calls += [_call(offered[CALCULATOR], expression=expression) for expression in left]
    if SEARCH in offered and reading.keywords:
        queries = [" ".join(reading.keywords)]
        if not reading.matches:
            queries.append(" ".join(beginning(word) for word in reading.keywords if word in longest))
        calls += [_call(offered[SEARCH], query=query) for query in queries[made.get(SEARCH, 0) :][:1]]
    if READ in offered and not calls:
        left_files = reading.files_to_read()[made.get(READ, 0) :]
        calls = [_call(offered[READ], path=p, start_line=n, max_lines=MAX_LINES) for p, n in left_files]
    return calls


def _call(tool: ToolDefinition, **arguments: str | int) -> ToolCall:
    """A call, without the arguments that the tool does not take."""
    known = tool.parameters.get("properties")
    fitting = {n: a for n, a in arguments.items() if n in known} if isinstance(known, dict) else arguments
    return ToolCall(CallId(""), tool.name, {**(fitting or arguments)})


def _answer_text(reading: Reading, offered: dict[str, ToolDefinition]) -> str:
    parts = list(reading.sums)
    if reading.expressions and not parts:
        parts.append(f"Not calculated, for want of a calculator: {'; '.join(reading.expressions)}")
    ranked = rank(reading.quotable, reading.query)
    best = [one for score, one in ranked[:MAX_QUOTES] if score >= WORTH * ranked[0][0]]
    best = best or [one for one in reading.quotable if one.path in reading.files][:MAX_QUOTES]
    if best:
        parts.append("Quotations that match the question best, chosen by their words, without reasoning:")
        parts += [f"- “{_shortened(one.text)}” ({one.path}:{one.line})" for one in best]
    elif reading.quotable:
        parts.append("Nothing in what was read matches the question, and this model can only quote.")
    elif reading.keywords or not parts:
        parts.append("There is nothing to quote for this question, and this model can only quote.")
    return "\n".join(parts)


def _instance_text(reading: Reading, schema: JsonObject) -> str:
    pool = reading.quotable or passages("question", reading.question)

    def quote(about: str) -> str:
        ranked = rank(pool, [*reading.query, *stems(about)])
        return ranked[0][1].text if ranked else ""

    return json.dumps(instance(schema, quote), ensure_ascii=False)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_QUOTE_CHARACTERS else text[: MAX_QUOTE_CHARACTERS - 1] + "…"
