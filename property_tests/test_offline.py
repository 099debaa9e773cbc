"""Laws of the offline model: it answers every request, always alike, and within the schema it is given."""

from __future__ import annotations

import json
from typing import Any

import anyio
import jsonschema
from hypothesis import example, given
from hypothesis import strategies as st

from reactive_agents.adapters.llm.offline import OfflineLLM, find_arithmetic, passages, respond
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from reactive_agents.core.models import ModelRequest, StreamCompleted, TextDelta
from reactive_agents.core.tools import ToolDefinition

NAMES = ("calculator", "file-search", "file-read", "final-answer", "other")

plain = st.text(max_size=40)
WORDS = (
    "What is 17 times 23 + 12 % of 250 ( ) - / 2026-01-31 refunds.md refund Before you go "
    "on: Notes recalled from earlier runs. [… left out …] \n # * “"
)
telling = st.lists(st.sampled_from(WORDS.split(" ")) | plain, max_size=14).map(" ".join)
scalars: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.floats() | plain
json_values: st.SearchStrategy[Json] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            plain | st.sampled_from(["matches", "path", "line", "text", "result"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)
arguments: st.SearchStrategy[JsonObject] = st.dictionaries(
    st.sampled_from(["path", "start_line", "query", "expression", "x"]), json_values, max_size=3
)
matches = st.fixed_dictionaries(
    {
        "matches": st.lists(
            st.fixed_dictionaries({"path": plain, "line": st.integers(), "text": telling}), max_size=4
        )
    }
)
parts = st.fixed_dictionaries({"path": plain, "start_line": st.integers(1, 99), "text": telling})
results = (json_values | matches | parts).map(json.dumps)
cut_results = st.builds(
    lambda text, at: text[:at] + "\n[… 5 of 50 characters left out; the rest is stored …]\n" + text[-at:],
    results,
    st.integers(0, 80),
)
calls = st.builds(ToolCall, st.sampled_from("abc").map(CallId), st.sampled_from(NAMES), arguments)
messages: st.SearchStrategy[Message] = (
    st.builds(SystemMessage, plain)
    | st.builds(UserMessage, telling)
    | st.builds(AssistantMessage, plain, st.lists(calls, max_size=2).map(tuple))
    | st.builds(
        ToolMessage,
        st.sampled_from("abcd").map(CallId),
        st.sampled_from(NAMES),
        telling | results | cut_results,
        st.booleans(),
    )
)
definitions = st.builds(
    ToolDefinition,
    st.sampled_from(NAMES),
    plain,
    st.sampled_from([{}, {"type": "object"}])
    | arguments.map(lambda known: {"type": "object", "properties": {key: {} for key in known}}),
)
requests = st.builds(
    ModelRequest,
    st.lists(messages, max_size=8).map(tuple),
    st.lists(definitions, max_size=5, unique_by=lambda tool: tool.name).map(tuple),
    parallel_tool_calls=st.none() | st.booleans(),
)


@st.composite
def bounded(draw: st.DrawFn) -> JsonObject:
    """The schema of a number with bounds that some number fits."""
    kind = draw(st.sampled_from(["integer", "number"]))
    low = draw(st.integers(-50, 50))
    lower = draw(st.sampled_from([{}, {"minimum": low}, {"exclusiveMinimum": low}]))
    high = low + draw(st.integers(2, 9))
    upper = draw(st.sampled_from([{}, {"maximum": high}, {"exclusiveMaximum": high}]))
    return {"type": kind, **lower, **upper}


@st.composite
def texts(draw: st.DrawFn) -> JsonObject:
    """The schema of a string, perhaps with lengths."""
    least = draw(st.integers(0, 9))
    bounds: JsonObject = {"minLength": least, "maxLength": least + 3}
    return {"type": "string", **(bounds if draw(st.booleans()) else {})}


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Json]) -> JsonObject:
    """The schema of an object, some of whose properties are required."""
    properties: JsonObject = draw(
        st.dictionaries(st.sampled_from(["name", "refund_days", "x", ""]), inner, max_size=3)
    )
    required: list[Json] = [name for name in properties if draw(st.booleans())]
    strict = draw(st.sampled_from([{}, {"additionalProperties": False}]))
    return {"type": "object", "properties": properties, "required": required, **strict}


described = st.sampled_from([{}, {"description": "When the refund is paid."}])
leaves: st.SearchStrategy[Any] = (
    bounded()
    | texts()
    | st.sampled_from(
        [
            {},
            {"type": "boolean"},
            {"type": "null"},
            {"type": ["string", "null"]},
            {"const": {"a": [1]}},
            {"$ref": "#/$defs/Shared"},
            {"$ref": "#/$defs/Tree"},
        ]
    )
    | st.lists(plain | st.integers() | st.none(), min_size=1, max_size=3, unique=True).map(
        lambda values: {"enum": values}
    )
)
schemas: st.SearchStrategy[Any] = st.recursive(
    st.builds(lambda one, more: {**one, **more}, leaves, described),
    lambda inner: (
        objects(inner)
        | st.builds(lambda item, n: {"type": "array", "items": item, "minItems": n}, inner, st.integers(0, 3))
        | st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches})
    ),
    max_leaves=8,
)
DEFS: JsonObject = {
    "Shared": {"type": "integer", "minimum": 3},
    "Tree": {
        "type": "object",
        "properties": {
            "label": {"type": "string"},
            "next": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
        },
        "required": ["label", "children"],
    },
}


@given(requests)
def test_every_request_is_answered_and_always_alike(request: ModelRequest) -> None:
    response = respond(request)
    assert response == respond(request)
    offered = {tool.name for tool in request.tools}
    assert {call.name for call in response.tool_calls} <= offered
    assert response.tool_calls or response.content
    assert (response.finish_reason == "tool_calls") == bool(response.tool_calls)
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    if request.parallel_tool_calls is False:
        assert len(response.tool_calls) <= 1


@given(requests)
def test_it_comes_to_an_answer_whatever_its_calls_give(request: ModelRequest) -> None:
    conversation = request.messages
    for turn in range(20):
        response = respond(ModelRequest(conversation, request.tools, parallel_tool_calls=False))
        if not response.tool_calls or response.tool_calls[0].name == "final-answer":
            return
        results = [
            ToolMessage(call.id, call.name, '{"matches": []}', is_error=turn % 2 == 0)
            for call in response.tool_calls
        ]
        conversation = (*conversation, AssistantMessage(response.content, response.tool_calls), *results)
    raise AssertionError("twenty turns and no answer")


@given(requests)
def test_the_stream_joins_to_the_answer(request: ModelRequest) -> None:
    async def play() -> None:
        chunks = [chunk.unwrap() async for chunk in OfflineLLM().stream(request)]
        assert chunks[-1] == StreamCompleted(respond(request))
        words = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
        assert words == respond(request).content

    anyio.run(play)


@given(schemas, requests)
def test_an_answer_for_a_schema_is_an_instance_of_it(schema: JsonObject, request: ModelRequest) -> None:
    whole: JsonObject = {**schema, "$defs": DEFS}
    response = respond(ModelRequest(request.messages, response_schema=whole))
    jsonschema.Draft202012Validator(whole).validate(json.loads(response.content))


@given(
    st.lists(st.text(alphabet="ab C.!?#`-*|>1 ", max_size=12), max_size=12), st.sampled_from(["a.md", "b.py"])
)
def test_passages_begin_on_the_line_that_they_name(lines: list[str], path: str) -> None:
    for one in passages(path, "\n".join(lines), first_line=10):
        assert one.text.split()[0] in lines[one.line - 10]
        assert one.text in " ".join(" ".join(lines[one.line - 10 :]).split())


@given(telling | st.text(alphabet="17 .+-*/()%"))
@example("(1 + 2) * 3 % of 23 times 4.5")
def test_arithmetic_is_always_arithmetic(text: str) -> None:
    for expression in find_arithmetic(text)[0]:
        assert not set(expression) - set("0123456789.+-*/%() ")
        compile(expression, "<sum>", "eval")


def test_an_empty_bullet_does_not_lend_its_line_to_what_follows() -> None:
    (one,) = passages("a.md", "- \n11", first_line=10)
    assert (one.line, one.text) == (11, "11")
