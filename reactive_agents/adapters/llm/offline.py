"""Models without weights or network: one quotes results of tools, one refuses."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from functools import cached_property
from math import inf, log
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Never

from attrs import field, frozen
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.adapters.llm.providers import NO_MODEL
from reactive_agents.core import models
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from reactive_agents.core.tools import FINAL_ANSWER, ToolDefinition
from reactive_agents.core.values import Value, lazy_pattern
from reactive_agents.effects import Effect

if TYPE_CHECKING:
    from reactive_agents.core.errors import LLMErrors

MODEL = "offline/quotes"
_LONGEST_TOKEN = 12
"""Characters of a word that count as one token."""
MAX_QUOTES, MAX_QUOTE_CHARACTERS, MAX_LINES = 3, 400, 60


class OfflineLLM:
    """Implements ``LLM`` without a model, deterministically and in milliseconds.

    It calls ``calculator`` for the arithmetic of a question, ``file-search`` for its keywords (again with
    their beginnings if nothing was found), ``file-read`` for the best files and ``document-search`` for
    passages, if these tools are available.
    Then it quotes the best matching sentences, each with its file and line. It does not reason, has no
    knowledge, and reports if nothing matched. For a request with a response schema, the answer is an instance
    of it: strings are quotations, and other values minimal. Its tokens are words separated by white space,
    long ones in pieces, and cost nothing.
    """

    model = MODEL

    def price(self, model: str | None) -> Effect[models.TokenPrice | None, Never]:
        """Nothing."""
        return FutureResult.from_value(models.TokenPrice(0.0, 0.0))

    def complete(self, request: models.ModelRequest) -> Effect[models.ModelResponse, LLMErrors]:
        """Return the next tool calls, or the answer. Never fails."""
        return FutureResult.from_value(respond(request))

    async def stream(
        self, request: models.ModelRequest
    ) -> AsyncIterator[Result[models.ModelChunk, LLMErrors]]:
        """Yield the same, word by word. Never fails."""
        response = respond(request)
        for word in re.findall(r"\s*\S+|\s+", response.content):
            yield Success(models.TextDelta(word))
        for index, call in enumerate(response.tool_calls):
            yield Success(
                models.ToolCallDelta(index, call.name, json.dumps(call.arguments, ensure_ascii=False))
            )
        yield Success(models.StreamCompleted(response))


class NoLLM:
    """Implements ``LLM`` for a workflow without a model: each call fails."""

    model = NO_MODEL

    def complete(self, request: models.ModelRequest) -> Effect[models.ModelResponse, LLMErrors]:
        """Fail with ``RequestRejected``."""
        return FutureResult.from_failure(self._refusal())

    async def stream(
        self, request: models.ModelRequest
    ) -> AsyncIterator[Result[models.ModelChunk, LLMErrors]]:
        """Yield the same failure."""
        yield Failure(self._refusal())

    @staticmethod
    def _refusal() -> LLMErrors:
        from reactive_agents.core.errors import RequestRejected  # the first answer needs no errors

        return RequestRejected("This agent has no model: with_model(...) gives it one.", NO_MODEL)


def respond(request: models.ModelRequest) -> models.ModelResponse:
    """Return the answer of the offline model."""
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
        text, wanted = "", [(FINAL_ANSWER, _fields_of_answer(request.tools, text, reading))]
    turn = len(request.messages)  # distinguishes calls of different turns
    calls = tuple(ToolCall(CallId(f"offline-{turn}-{n}"), *call) for n, call in enumerate(wanted, 1))
    read = _count(*(message.content for message in request.messages), *request.tools, request.response_schema)
    written = _count(text, *wanted)
    usage = models.Usage(read, written, read + written)
    return models.ModelResponse(
        text, MODEL, calls, "", "tool_calls" if calls else "stop", usage, cost_usd=0.0
    )


def _fields_of_answer(tools: Iterable[ToolDefinition], text: str, reading: Reading) -> JsonObject:
    """Return the arguments of ``final-answer`` by its schema."""
    schema = next(tool.parameters for tool in tools if tool.name == FINAL_ANSWER)
    known = schema.get("properties")
    is_text = isinstance(known, dict) and known.get("answer") == {"type": "string"}
    if is_text and schema.get("required") == ["answer"]:
        return JsonObject(answer=text)
    made = instance(schema, reading.quotation)
    return made if isinstance(made, dict) else JsonObject(answer=text)


def _count(*parts: object) -> int:
    """Return the number of words in the parts; each piece of a long word counts."""
    words = (word for part in parts if part is not None for word in str(part).split())
    return sum(1 + (len(word) - 1) // _LONGEST_TOKEN for word in words)


def _look_ups(reading: Reading, offered: set[str]) -> list[tuple[str, JsonObject]]:
    """Return the calls of this turn, without repetitions; none after the last look-up."""
    calls, made = list[tuple[str, JsonObject]](), reading.made
    if CALCULATOR in offered:
        calls += [(CALCULATOR, JsonObject(expression=one)) for one in reading.expressions[made[CALCULATOR] :]]
    if SEARCH in offered and reading.keywords and made[SEARCH] < (1 if reading.matches else 2):
        query = map(stem, reading.keywords) if made[SEARCH] else reading.keywords
        calls.append((SEARCH, JsonObject(query=" ".join(query))))
    if DOCUMENTS in offered and reading.keywords and not made[DOCUMENTS]:
        calls.append((DOCUMENTS, JsonObject(query=" ".join(reading.keywords))))
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


# --- the question of a conversation, and passages that match it -----------------------------------------


CALCULATOR, SEARCH, READ, DOCUMENTS = "calculator", "file-search", "file-read", "document-search"
GUIDANCE, NOTES, LEFT_OUT = "Before you go on:", "Notes recalled from earlier runs.", "\n[… "
MAX_KEYWORDS, MAX_EXPRESSIONS, MAX_FILES, LINES_BEFORE = 8, 3, 3, 15
SATURATION, LENGTH_SHARE, WORTH = 1.2, 0.75, 0.5
_STOPWORDS = """
about after all also am an and any are as at be been before but by calculate can compute could describe did
do does each explain find for from get give go had has have her his how if in into is it its list long make
many may me more most much must my no not of on only or other our out please quote read say says search she
should so some such summarise summarize take takes tell than that the their them then there these they this
those to too us very was we were what when where which while who whose why will with would you your
"""
STOPWORDS = frozenset(_STOPWORDS.split())
_WORD = lazy_pattern(r"[^\W_]{2,}")
_FENCE = lazy_pattern(r"^</?\w+(?:-[0-9a-f]{6})?>$", re.M)
_MATERIAL = lazy_pattern(
    r"<(?!(?:task|larger-task|step|goal|event)(?:-[0-9a-f]{6})?>)([\w.-]+)>\n.*?\n</\1>", re.S
)
"""Fenced material in a prompt, except the task itself."""
_ENDING = lazy_pattern(r"(?<=\w{3})(?:ies|ing|ed|es|ys|[ey]|(?<!s)s)$")
_FILE = lazy_pattern(r"(?<![\w/.:-])[\w./-]*\w\.(?:md|rst|txt|py|toml|json|ya?ml|csv|cfg|ini|html)\b")
_PROSE = lazy_pattern(r"(?:^|/)[^./]*$|\.(?:md|rst|txt)$", re.I)
_PROSE_BREAK = lazy_pattern(
    r"(\A\s+|^#+ .*\s*|^\s*```.*\s*|\n\s*\n|^\s*(?:[-*+]|\d+[.)]) +|^(?=\s*[|>])"  # blocks
    r"|(?<=[.!?])\s+(?=[\"'“(\[*`]?[A-Z0-9]))",  # sentences
    re.M,
)
_OPERATOR, _NUMBER = r"(?:\s*(?:\*\*|[+*/%])\s*|\s+-\s+)", r"-?\d+(?:\.\d+)?"
_TERM = rf"(?:{_NUMBER}|\({_NUMBER}(?:{_OPERATOR}{_NUMBER})*\))"
_EXPRESSION = lazy_pattern(rf"(?<![\w.,-]){_TERM}(?:{_OPERATOR}{_TERM})+(?!\w|[.,]\d)")
_CUT_TEXT = lazy_pattern(r'(?:\\n(?:(?!\\n)[^"\\]|\\[^n])*)?" …\d+ more characters')
_LEFT_OUT_ITEMS = lazy_pattern(r",?\s*… \d+ (?:more of \d+ )?(?:items?|keys?)(?=\s*[\]}])")
_SPOKEN = {"(%|percent) of": "/ 100 *", "times|[×x]": "*", "divided by": "/", "plus": "+", "minus": "-"}


@frozen(eq=False, repr=False)
class Passage(Value):
    """A sentence or line, and its position."""

    path: str
    line: int
    text: str

    @cached_property
    def stems(self) -> Counter[str]:
        """Return how often each stem occurs."""
        return Counter(map(stem, words(self.text)))


@frozen(eq=False, repr=False)
class Reading(Value):
    """The offline model's reading of a conversation.

    Attributes:
        question: the last message of the user that is neither notes nor guidance.
        keywords: the words of the question to look for, in order, each once.
        expressions: its arithmetic, without that of fenced material.
        files: the paths in it.
        made: the number of calls of each tool with a result or error.
        matches: the lines that searches found.
        read: the sentences of files that were read.
        sums: each expression with its result or error.
    """

    question: str = ""
    keywords: tuple[str, ...] = ()
    expressions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    made: Counter[str] = field(factory=Counter)
    matches: list[Passage] = field(factory=list)
    read: list[Passage] = field(factory=list)
    sums: list[str] = field(factory=list)

    def files_to_read(self) -> list[tuple[str, int]]:
        """Return the best files with start lines: named ones first, then by matches."""
        targets = dict.fromkeys(self.files, 1)
        for one in [*best(self.matches, self.keywords), *self.matches]:
            targets.setdefault(one.path, max(1, one.line - LINES_BEFORE))
        return list(targets.items())[:MAX_FILES]

    def quotation(self, about: str) -> str:
        """Return the sentence that matches question and description best; may be empty."""
        pool = self.read or self.matches or passages("question", _FENCE.sub("", self.question))
        return next((one.text for one in best(pool, [*self.keywords, *words(about)])), "")


def read_conversation(messages: Iterable[Message]) -> Reading:
    """Return the last question with the results of its calls."""
    reading, asked = Reading(), dict[str, JsonObject]()
    for message in messages:
        if isinstance(message, AssistantMessage):
            asked |= {call.id: call.arguments for call in message.tool_calls}
        elif isinstance(message, ToolMessage):
            _take_result(reading, message, asked.get(message.call_id, {}))
        elif isinstance(message, UserMessage) and not message.content.startswith((GUIDANCE, NOTES)):
            expressions, _ = find_arithmetic(_MATERIAL.sub(" ", message.content))
            _, rest = find_arithmetic(message.content)
            keywords = tuple(dict.fromkeys(words(_FILE.sub(" ", rest))))[:MAX_KEYWORDS]
            files = tuple(dict.fromkeys(_FILE.findall(rest)))
            reading = Reading(message.content, keywords, expressions, files)
    return reading


def find_arithmetic(text: str) -> tuple[tuple[str, ...], str]:
    """Return the arithmetic in a text, and the rest of the text.

    A minus needs spaces: ``2026-01-31`` is not arithmetic."""
    for spoken, operator in _SPOKEN.items():
        text = re.sub(rf"(?<=[\d)])\s*(?:{spoken})\s*(?=[\d(])", f" {operator} ", text, flags=re.I)
    found = dict.fromkeys(" ".join(one.split()) for one in _EXPRESSION.findall(text))
    return tuple(found)[:MAX_EXPRESSIONS], _EXPRESSION.sub(" ", text)


def words(text: str) -> list[str]:
    """Return the significant words of a text, in order."""
    return [word for word in _WORD.findall(text) if word.lower() not in STOPWORDS]


def stem(word: str) -> str:
    """Return the approximate stem of a word."""
    return _ENDING.sub("", word.lower())


def passages(path: str, text: str, *, first_line: int = 1) -> list[Passage]:
    """Return the sentences of a prose file without headings, or the lines of another."""
    found, line = list[Passage](), first_line
    parts = _PROSE_BREAK.split(text) if _PROSE.search(path) else re.split(r"(\n)", text)
    for index, part in enumerate(parts):  # passages and breaks alternate
        if index % 2 == 0 and _WORD.search(part):
            above = part[: -len(part.lstrip())].count("\n")
            found.append(Passage(path, line + above, " ".join(part.split())))
        line += part.count("\n")
    return found


def best(candidates: Iterable[Passage], query: Iterable[str]) -> list[Passage]:
    """Return the passages that match a query, best first, down to half the best score.

    The score is BM25 (Robertson and Zaragoza, 2009) over the stems of words.
    """
    pool = list({(one.path, one.text): one for one in candidates}.values())
    counts = [one.stems for one in pool]
    mean = sum(own.total() for own in counts) / max(len(pool), 1) or 1.0
    scores = [0.0] * len(pool)
    for term in sorted(set(map(stem, query))):
        having = sum(term in own for own in counts)
        rarity = log(1 + (len(pool) - having + 0.5) / (having + 0.5))
        for position, own in enumerate(counts):
            damping = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * own.total() / mean)
            scores[position] += rarity * own[term] * (SATURATION + 1) / (own[term] + damping)
    ranked = sorted(range(len(pool)), key=lambda position: -scores[position])
    return [pool[p] for p in ranked if scores[p] and scores[p] >= WORTH * scores[ranked[0]]]


def _take_result(reading: Reading, message: ToolMessage, arguments: JsonObject) -> None:
    name, content = message.tool_name, message.content
    reading.made[name] += 1
    if name == CALCULATOR:
        outcome = f": not calculated. {content}" if message.is_error else f" = {content}"
        reading.sums.append(f"{arguments.get('expression', 'the sum')}{outcome}")
    elif message.is_error or name == FINAL_ANSWER:
        return
    elif name in (SEARCH, DOCUMENTS):
        found = _content(content).get("matches" if name == SEARCH else "passages")
        for entry in found if isinstance(found, list) else ():
            match entry:
                case {"path": str(path), "line": int(line), "text": str(text)}:
                    reading.matches.append(Passage(path, line, text.strip()))
                case {"path": str(path), "start_line": int(line), "text": str(text)}:
                    reading.read.extend(passages(path, text, first_line=line))
    else:
        part = arguments | _content(content)
        path = str(part.get("path", name)) if name == READ else f"{name} result"
        start, text = part.get("start_line"), str(part.get("text", content))
        reading.read.extend(passages(path, text, first_line=start if isinstance(start, int) else 1))


def _content(result: str) -> JsonObject:
    """Return the JSON object of a result, completed if it was truncated, or its text."""
    kept = result.partition(LEFT_OUT)[0]
    outline = _LEFT_OUT_ITEMS.sub("", _CUT_TEXT.sub('"', kept))
    for text in (result, outline, kept.rpartition("\\n")[0] + '"}', kept.rpartition('"}')[0] + '"}]}'):
        with suppress(ValueError, RecursionError):
            data: Json = json.loads(text, strict=False)
            if isinstance(data, dict):
                return data
    return {"text": kept}


# --- instances of JSON Schemas --------------------------------------------------------------------------


class _NoInstance(Exception):
    """No instance of this branch of the schema can be built."""


def instance(schema: JsonObject, quote: Callable[[str], str]) -> Json:
    """Return an instance of the schema with texts from ``quote``.

    ``None`` if impossible.

    Supported are types, ``enum``, ``const``, ``$ref`` into ``$defs``, ``anyOf`` (the first that can be
    built), required properties, ``items`` with ``minItems``, lengths of strings and bounds of numbers;
    nothing else is, such as ``pattern`` or keys next to ``$ref`` and ``anyOf``.
    """
    definitions: Any = schema.get("$defs", {})

    def build(schema: Any, about: str, within: tuple[str, ...] = ()) -> Json:
        """Return an instance. ``about``: its description; ``within``: its references."""
        if not isinstance(schema, dict):
            raise _NoInstance
        about = f"{about} {schema.get('description', '')}"
        if "$ref" in schema:
            reference = schema["$ref"]
            target = None if reference in within else definitions.get(reference.removeprefix("#/$defs/"))
            return build(target, about, (*within, reference))
        for branch in schema.get("anyOf", ()):
            with suppress(_NoInstance):
                return build(branch, about, within)
        if "anyOf" in schema:
            raise _NoInstance
        if "const" in schema or schema.get("enum"):
            values: list[Json] = schema.get("enum") or [schema["const"]]
            sentence = quote(about).lower()
            said = [value for value in values if isinstance(value, str) and value.lower() in sentence]
            return (said or values)[0]
        kind = schema.get("type", "object" if "properties" in schema else "string")
        match kind[0] if isinstance(kind, list) else kind:
            case "object":
                known, required = schema.get("properties", {}), schema.get("required", ())
                return {name: build(known.get(name, {}), name.replace("_", " "), within) for name in required}
            case "array":
                return [
                    build(schema.get("items", {}), about, within) for _ in range(schema.get("minItems", 0))
                ]
            case "string":
                return quote(about)[: schema.get("maxLength")].ljust(schema.get("minLength", 0), "-")
            case "integer" | "number":
                return _nearest_to_zero(schema)
            case other:
                return False if other == "boolean" else None

    try:
        return build(schema, "")
    except _NoInstance:
        return None


def _nearest_to_zero(schema: dict[str, Any]) -> Json:
    low: float = max(schema.get("minimum", -inf), schema.get("exclusiveMinimum", -inf) + 1)
    high: float = min(schema.get("maximum", inf), schema.get("exclusiveMaximum", inf) - 1)
    if low > high:
        raise _NoInstance
    return max(low, min(0, high))
