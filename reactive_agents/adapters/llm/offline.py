"""A model without weights or network: it calls tools, and answers with quotations of what they found."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator

from returns.future import FutureResult
from returns.result import Result, Success

from reactive_agents.adapters.llm.offline_evidence import (
    CALCULATOR,
    FINAL_ANSWER,
    LINES,
    READ,
    SEARCH,
    Evidence,
    files_to_read,
    gather_evidence,
)
from reactive_agents.adapters.llm.offline_question import Question, find_question
from reactive_agents.adapters.llm.offline_ranking import Passage, passages, rank, stem, stems
from reactive_agents.adapters.llm.offline_schema import instance
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import Json, JsonObject
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
MAX_QUOTES, WORTH, MAX_QUOTE_CHARACTERS = 3, 0.4, 400
_CHUNK = re.compile(r"\s*\S+|\s+")


class OfflineLLM:
    """Implements ``LLM`` without a model: the same request always gets the same answer, in milliseconds.

    It calls ``calculator`` for the arithmetic of a question, ``file-search`` for its keywords (a second time
    with one keyword when nothing was found) and ``file-read`` for the best files, as far as these tools are
    offered, and then quotes the sentences that match best, each with its file and line. It does not reason,
    knows nothing by itself and says when nothing matched. Where the request has a response schema, the
    answer is an instance of it: strings quote, and everything else is the least that the schema allows.

    Its tokens are words, separated by white space: it counts them exactly, and they cost nothing. It has one
    model, whatever model a request names, and no use for a temperature.
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
    """What the offline model answers.

    A text longer than the request's ``max_tokens`` is cut there; tool calls are never cut.
    """
    tools = {definition.name: definition for definition in request.tools}
    question = find_question(request.messages)
    evidence = gather_evidence(request.messages, question)
    text, wanted = "", _next_calls(question, evidence, tools)
    if wanted:
        text = "Looking up " + ", ".join(dict.fromkeys(str(value) for _, _, value in wanted)) + "."
    elif request.response_schema is not None:
        text = json.dumps(_instance(request.response_schema, question, evidence), ensure_ascii=False)
    else:
        text = _answer_text(question, evidence, tools)
    if not wanted and FINAL_ANSWER in tools:
        text, wanted = "", [(FINAL_ANSWER, {"answer": text}, text)]
    if request.parallel_tool_calls is False:
        wanted = wanted[:1]
    earlier = sum(len(m.tool_calls) for m in request.messages if isinstance(m, AssistantMessage))
    calls = tuple(
        ToolCall(CallId(f"offline-{number}"), name, arguments)
        for number, (name, arguments, _) in enumerate(wanted, earlier + 1)
    )
    pieces = _CHUNK.findall(text)
    cut = request.max_tokens is not None and len(text.split()) > request.max_tokens
    text = "".join(pieces[: request.max_tokens]) if cut else text
    finish = "length" if cut and not calls else "tool_calls" if calls else "stop"
    return ModelResponse(text, MODEL, calls, "", finish, _usage(request, text, calls), cost_usd=0.0)


def _next_calls(
    question: Question, evidence: Evidence, tools: dict[str, ToolDefinition]
) -> list[tuple[str, JsonObject, Json]]:
    """The calls of this turn; none once there is nothing left to look up. Every look-up is made once."""
    made, calls = evidence.made, []
    if CALCULATOR in tools:
        for expression in question.expressions[made.get(CALCULATOR, 0) :]:
            calls.append(_call(tools[CALCULATOR], expression, {}))
    queries = [" ".join(question.keywords), max(question.keywords, key=len, default="")]
    if len(question.keywords) < 2 or evidence.matches or evidence.search_failed:
        queries.pop()
    if SEARCH in tools and question.keywords:
        calls += [_call(tools[SEARCH], query, {}) for query in queries[made.get(SEARCH, 0) :][:1]]
    if not calls and READ in tools:
        for path, line in files_to_read(question, evidence)[made.get(READ, 0) :]:
            calls.append(_call(tools[READ], path, {"start_line": line, "max_lines": LINES}))
    return calls


_ARGUMENTS = {CALCULATOR: "expression", SEARCH: "query", READ: "path"}


def _call(tool: ToolDefinition, value: str, more: JsonObject) -> tuple[str, JsonObject, Json]:
    """A call that fits the tool's parameters: under their own name of the value, without what they lack."""
    known = tool.parameters.get("properties")
    usual = _ARGUMENTS[tool.name]
    if not isinstance(known, dict) or not known:
        return tool.name, {usual: value, **more}, value
    name = usual if usual in known else next(iter(known))
    return tool.name, {name: value, **{key: given for key, given in more.items() if key in known}}, value


def _answer_text(question: Question, evidence: Evidence, tools: dict[str, ToolDefinition]) -> str:
    parts = list(evidence.sums)
    if question.expressions and not evidence.sums and CALCULATOR not in tools:
        parts.append(f"There is no calculator here for {', '.join(question.expressions)}.")
    quotable = (*question.given, *evidence.quotable)
    query = [stem(word) for word in question.keywords]
    ranked = rank(quotable, query)
    best = [one for score, one in ranked[:MAX_QUOTES] if score >= WORTH * ranked[0][0]]
    if best:
        parts.append("Quotations that match the question best (chosen by their words, without reasoning):")
        parts += [f'- "{_shortened(one.text)}" ({one.path}:{one.line})' for one in best]
    elif query and quotable:
        parts.append("Nothing in what was read matches the question. This model only quotes.")
    elif query or not parts:
        parts.append("There is nothing to quote for this question, and this model only quotes.")
    return "\n".join(parts)


def _instance(schema: JsonObject, question: Question, evidence: Evidence) -> Json:
    given = (*question.given, *evidence.quotable)
    pool: tuple[Passage, ...] = given or tuple(passages("question", question.text))
    query = [stem(word) for word in question.keywords]
    rankings: dict[str, list[str]] = {}

    def quote(about: str, place: int) -> str:
        if about not in rankings:
            rankings[about] = [one.text for _, one in rank(pool, [*query, *stems(about)])]
        return rankings[about][place] if place < len(rankings[about]) else ""

    return instance(schema, quote)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_QUOTE_CHARACTERS else text[: MAX_QUOTE_CHARACTERS - 1] + "…"


def _usage(request: ModelRequest, text: str, calls: tuple[ToolCall, ...]) -> Usage:
    """The words of what was read (messages, calls, tools, schema) and of what was written."""
    read = sum(map(_count, _texts_of(request)))
    written = _count(text) + sum(map(_count_call, calls))
    return Usage(read, written, read + written, reported=True)


def _texts_of(request: ModelRequest) -> Iterator[str]:
    for message in request.messages:
        yield message.content
        if isinstance(message, AssistantMessage):
            yield from (f"{call.name} {json.dumps(call.arguments)}" for call in message.tool_calls)
    for tool in request.tools:
        yield f"{tool.name} {tool.description} {json.dumps(tool.parameters)}"
    if request.response_schema is not None:
        yield json.dumps(request.response_schema)


def _count(text: str) -> int:
    return len(text.split())


def _count_call(call: ToolCall) -> int:
    return _count(f"{call.name} {json.dumps(call.arguments)}")
