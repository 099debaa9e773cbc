"""The scripted model plays its turns in order, or by what a prompt says, and says what it lacks."""

from __future__ import annotations

import datetime
import enum
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import pytest
from pydantic import BaseModel, Field
from returns.result import Failure, Result, Success

from reactive_agents import AgentError, ReactiveAgents, tool
from reactive_agents.adapters.tools.builtin import builtin_tools
from reactive_agents.adapters.tools.decorator import ask_user
from reactive_agents.core.errors import LLMErrors, RateLimited, ScriptExhausted, root_cause
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from reactive_agents.core.models import (
    ModelChunk,
    ModelRequest,
    ModelResponse,
    StreamCompleted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
)
from reactive_agents.core.tools import FINAL_ANSWER, ToolDefinition
from reactive_agents.effects import attempt, gather
from reactive_agents.ports import LLM
from reactive_agents.testing.scripted_llm import (
    ScriptedLLM,
    TestModel,
    Turn,
    call,
    calls,
    fail,
    forever,
    malformed_call,
    render_messages,
    say,
)
from tests.support.operations import counted_operations
from tests.support.virtual_time import Backend, virtual_time

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


def ask(text: str = "Go on.", *, model: str | None = None) -> ModelRequest:
    return ModelRequest((SystemMessage("Be brief."), UserMessage(text)), model=model)


async def answer(llm: LLM, text: str = "Go on.") -> ModelResponse:
    return (await attempt(llm.complete(ask(text)))).unwrap()


async def pieces(llm: LLM, request: ModelRequest) -> list[Result[ModelChunk, LLMErrors]]:
    return [piece async for piece in llm.stream(request)]


async def test_turns_without_a_condition_are_played_in_order() -> None:
    llm = ScriptedLLM(say("one"), say("two", thinking="hm", finish_reason="length"))
    assert llm.remaining == 2
    first = await answer(llm)
    assert first == ModelResponse(
        "one", "scripted/test", usage=Usage(10, 5, 15, reported=True), cost_usd=0.0, finish_reason="stop"
    )
    second = await answer(llm)
    assert (second.content, second.thinking, second.finish_reason) == ("two", "hm", "length")
    assert llm.remaining == 0


async def test_a_turn_reports_the_usage_and_cost_that_it_is_given() -> None:
    llm = ScriptedLLM(say("dear", usage=Usage(1, 2, 3), cost_usd=0.5), call("f", usage=Usage(4, 5, 9)))
    assert (await answer(llm)).usage == Usage(1, 2, 3)
    assert (await answer(llm)).usage.total_tokens == 9


async def test_a_request_may_name_another_model() -> None:
    llm = ScriptedLLM(say("hello"), model="scripted/own")
    assert llm.model == "scripted/own"
    assert (await attempt(llm.complete(ask(model="scripted/other")))).unwrap().model == "scripted/other"


async def test_calls_have_ids_that_are_unique_over_the_life_of_the_object() -> None:
    llm = ScriptedLLM(
        call("read", path="a.md"),
        calls(call("read", path="b.md"), call("search", {"two words": 2}, query="x"), text="Both at once."),
    )
    first, second = await answer(llm), await answer(llm)
    assert first.tool_calls == (ToolCall(CallId("call-1"), "read", {"path": "a.md"}),)
    assert first.finish_reason == "tool_calls"
    assert second.content == "Both at once."
    assert [(made.id, made.name, made.arguments) for made in second.tool_calls] == [
        ("call-2", "read", {"path": "b.md"}),
        ("call-3", "search", {"two words": 2, "query": "x"}),
    ]


async def test_a_malformed_call_carries_the_text_of_its_arguments() -> None:
    (made,) = (await answer(ScriptedLLM(malformed_call("read", '{"path": ')))).tool_calls
    assert (made.arguments, made.malformed) == ({}, '{"path": ')


def test_calls_refuses_a_turn_that_calls_nothing() -> None:
    with pytest.raises(ValueError, match=r"call\(\)"):
        calls(say("text"))
    with pytest.raises(ValueError, match=r"call\(\)"):
        calls()


async def test_a_scripted_failure_is_the_failure_of_the_effect_and_of_the_stream() -> None:
    error = RateLimited("Too many requests.", "scripted/test", 1.0)
    llm = ScriptedLLM(fail(error), fail(error))
    assert await attempt(llm.complete(ask())) == Failure(error)
    assert await pieces(llm, ask()) == [Failure(error)]


async def test_the_first_unused_turn_that_fits_is_taken() -> None:
    llm = ScriptedLLM(say("about cats", when="cats"), say("about dogs", when="dogs"), say("about anything"))
    assert (await answer(llm, "What of dogs?")).content == "about dogs"
    assert (await answer(llm, "What of birds?")).content == "about anything"
    assert (await answer(llm, "What of cats?")).content == "about cats"


async def test_a_condition_sees_calls_and_results_too() -> None:
    conversation = (
        UserMessage("Look."),
        AssistantMessage("I look.", (ToolCall(CallId("1"), "search", {"query": "tëa"}),)),
        ToolMessage(CallId("1"), "search", "no hits", is_error=False),
    )
    assert render_messages(conversation) == (
        'user: Look.\nassistant: I look.\nsearch({"query": "tëa"})\ntool search: no hits'
    )
    llm = ScriptedLLM(say("found", when="tëa"), say("hits", when="no hits"))
    request = ModelRequest(conversation)
    assert (await attempt(llm.complete(request))).unwrap().content == "found"
    assert (await attempt(llm.complete(request))).unwrap().content == "hits"


async def test_concurrent_calls_get_the_turns_that_their_prompts_ask_for() -> None:
    names = [f"<{index}>" for index in range(20)]
    llm = ScriptedLLM(*(say(name, when=name, delay=0.001 * (index % 3)) for index, name in enumerate(names)))
    answers = await gather([llm.complete(ask(name)) for name in reversed(names)])
    assert [each.unwrap().content for each in answers] == names[::-1]
    assert llm.remaining == 0


async def test_concurrent_plain_turns_are_each_played_once() -> None:
    llm = ScriptedLLM(*(call("tool", number=index) for index in range(20)))
    answers = await gather([llm.complete(ask()) for _ in range(20)])
    made = [each.unwrap().tool_calls[0] for each in answers]
    assert sorted(str(one.arguments["number"]) for one in made) == sorted(str(index) for index in range(20))
    assert len({one.id for one in made}) == 20


async def test_an_endless_turn_stays_and_is_not_counted() -> None:
    llm = ScriptedLLM(forever(say("no", when="critique")), say("yes"))
    assert [(await answer(llm, "critique")).content for _ in range(3)] == ["no", "no", "no"]
    assert llm.remaining == 1
    assert (await answer(llm)).content == "yes"
    assert llm.remaining == 0


async def test_an_exhausted_script_says_what_it_was_asked() -> None:
    llm = ScriptedLLM(say("only"))
    await answer(llm)
    match await attempt(llm.complete(ask("And now?"))):
        case Failure(ScriptExhausted(message, last_request)):
            assert message == (
                "The script is used up: request 2 (purpose 'think') came after its last turn, number 1. "
                "The request ends with: user: And now?"
            )
            assert last_request == "system: Be brief.\nuser: And now?"
        case other:
            pytest.fail(f"got {other}")


async def test_a_request_that_fits_no_turn_says_what_the_turns_want() -> None:
    llm = ScriptedLLM(say("x", when="cats"), say("y", when="dogs"))
    long = "birds " * 1000
    match await attempt(llm.complete(ask(long))):
        case Failure(ScriptExhausted(message, last_request)):
            no_turn = "No turn of the script fits request 1 (purpose 'think'); turns unused: 2."
            assert message.startswith(f"{no_turn} The request ends with: user: birds birds ")
            assert len(message) < 450
            assert last_request.endswith("…\nunused turn: wants 'cats'\nunused turn: wants 'dogs'")
            assert len(last_request) < 1000
        case other:
            pytest.fail(f"got {other}")
    assert llm.remaining == 2
    assert len(llm.requests) == 1


async def test_nothing_happens_before_the_effect_is_awaited() -> None:
    llm = ScriptedLLM(say("one"))
    pending = llm.complete(ask("first"))
    assert llm.requests == []
    assert (await attempt(pending)).unwrap().content == "one"
    assert llm.requests == [ask("first")]


async def test_a_delay_passes_before_the_answer_and_can_be_cancelled() -> None:
    llm = ScriptedLLM(say("late", delay=20), say("too late", delay=60))
    started = anyio.current_time()
    await answer(llm)
    assert anyio.current_time() - started == pytest.approx(20)
    with anyio.move_on_after(30) as scope:
        await answer(llm)
    assert scope.cancelled_caught


@pytest.mark.parametrize("text", ["", " ", "one", "  two  words \n and a line\n", "naïve — “quoted”\tend"])
async def test_the_streamed_words_join_to_the_content(text: str) -> None:
    llm = ScriptedLLM(say(text, thinking="let me see"))
    streamed = [piece.unwrap() for piece in await pieces(llm, ask())]
    assert "".join(piece.text for piece in streamed if isinstance(piece, TextDelta)) == text
    assert "".join(piece.text for piece in streamed if isinstance(piece, ThinkingDelta)) == "let me see"
    assert isinstance(streamed[-1], StreamCompleted)
    assert streamed[-1].response.content == text


async def test_streamed_calls_come_in_pieces_and_then_whole() -> None:
    llm = ScriptedLLM(calls(call("read", path="a.md"), malformed_call("read", "{oops"), text="Reading."))
    streamed = [piece.unwrap() for piece in await pieces(llm, ask())]
    deltas = [piece for piece in streamed if isinstance(piece, ToolCallDelta)]
    assert [(delta.index, delta.name) for delta in deltas if delta.name] == [(0, "read"), (1, "read")]
    assert len(deltas) == 3
    assert "".join(delta.arguments for delta in deltas if delta.index == 0) == '{"path": "a.md"}'
    assert "".join(delta.arguments for delta in deltas if delta.index == 1) == "{oops"
    last = streamed[-1]
    assert isinstance(last, StreamCompleted)
    assert [made.id for made in last.response.tool_calls] == ["call-1", "call-2"]


def test_a_delay_is_not_negative() -> None:
    with pytest.raises(ValueError, match="delay"):
        say("x", delay=-1)


def test_turns_are_values() -> None:
    assert say("x") == Turn("x")
    assert call("f", a=1) == call("f", {"a": 1})


async def test_a_plain_script_takes_no_more_work_for_a_long_transcript_or_a_late_turn() -> None:
    """The framework's overhead is measured with this model."""
    llm = ScriptedLLM(forever(call("tool", number=1)))

    async def operations(messages: int) -> int:
        request = ModelRequest(tuple(UserMessage("word " * 1000) for _ in range(messages)))
        with counted_operations() as count:
            assert isinstance(await attempt(llm.complete(request)), Success)
        return count.total

    await operations(1)
    early = await operations(1)
    for _ in range(100):
        await operations(1)
    assert await operations(1) == await operations(100) == early


async def test_a_function_answers_what_no_turn_before_it_fits() -> None:
    model = ScriptedLLM(say("first"), lambda request: say(f"{len(request.messages)} messages"))
    said = [(await attempt(model.complete(ask()))).unwrap().content for _ in range(3)]
    assert said == ["first", "2 messages", "2 messages"]
    assert model.remaining == 0


async def test_what_is_no_turn_is_refused_at_once() -> None:
    wrong: Any = "hi"
    with pytest.raises(TypeError, match="ScriptedLLM: got str, expected turns, as say and call make them"):
        ScriptedLLM(say("hello"), wrong)


# --- a model without a script -----------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"


class Part(BaseModel):
    """A part of an order."""

    color: Color
    count: Annotated[int, Field(ge=2, le=9)]
    note: str = "none"
    below: list[Part] = []


class Order(BaseModel):
    """An order."""

    id: uuid.UUID
    day: datetime.date
    parts: Annotated[list[Part], Field(min_length=1)]
    pay: Literal["cash", "card"] | None
    share: Annotated[float, Field(gt=0, lt=1)]
    name: Annotated[str, Field(min_length=3)]


made: list[Any] = []


async def order(order: Order, often: int = 4) -> str:
    """Look an order up."""
    made.append((order, often))
    return "It is on its way."


async def stock(product: str) -> int:
    """Look up how many there are."""
    made.append(product)
    return 7


async def never_run(x: Any) -> str:
    """Take what is not generated."""
    raise AssertionError(x)


@pytest.mark.parametrize("parallel", [True, False])
async def test_a_test_model_calls_each_tool_once_and_answers_with_their_results(parallel: bool) -> None:
    made.clear()
    builder = ReactiveAgents.create().with_llm(TestModel()).with_tools(order, stock)
    result = await builder.with_reasoning(parallel_tool_calls=parallel).build().run("Look everything up.")
    (given, often), product = made
    assert (given.parts[0].color, given.parts[0].count, given.pay, often) == (Color.RED, 2, "cash", 4)
    assert (0 < given.share < 1, len(given.name), product) == (True, 3, "a")
    assert (result.status, result.output) == ("completed", "order: It is on its way.\nstock: 7")


@pytest.mark.parametrize("tools", [(), (stock,)])
async def test_a_test_model_gives_a_value_of_the_output_type(tools: Any) -> None:
    builder = ReactiveAgents.create().with_llm(TestModel()).with_reasoning().with_tools(*tools)
    result = await builder.with_output_type(Part).build().run("Which part?")
    assert result.output == Part(color=Color.RED, count=2)
    lone = await builder.with_output_type(list[int]).build().run("Which numbers?")
    assert lone.output == []


async def test_a_test_model_takes_arguments_an_answer_and_which_tools_it_calls() -> None:
    made.clear()
    model = TestModel(tools=["stock"], arguments={"stock": {"product": "tea"}}, answer="There are 7.")
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(order, stock)
    assert (await builder.build().run("How much tea is there?")).output == "There are 7."
    assert made == ["tea"]
    plain = ReactiveAgents.create().with_llm(TestModel()).build()
    assert (await plain.run("Hello.")).output == "This is a test."


def test_a_test_model_changes_no_file_unless_the_tool_is_named(tmp_path: Path) -> None:
    def steps_of(model: TestModel) -> set[str]:
        builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_workspace(tmp_path)
        offered = tuple(name for name in builtin_tools() if name != "web-search")  # of the network
        result = builder.with_tools(*offered, ask_user, stock).build().run_sync("Look everything up.")
        return {each.metadata.tool_used for each in result.steps if each.metadata and each.metadata.tool_used}

    reading = {each.name for each in builtin_tools().values() if each.idempotent} - {"web-search"}
    assert steps_of(TestModel()) - {FINAL_ANSWER} == reading | {"stock"}
    assert list(tmp_path.iterdir()) == []
    steps_of(TestModel(tools=["file-write"]))
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    steps_of(TestModel(arguments={"file-write": {"path": "b", "content": "Tea."}}))
    assert (tmp_path / "b").read_text() == "Tea."


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (
            {"type": "string", "pattern": "^[0-9]+$"},
            "no value could be generated for the schema of the tool 'code'",
        ),
        ({"$ref": "#/$defs/node"}, "contains itself"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "no value could be generated for the schema of"),
    ],
)
async def test_a_test_model_names_the_tool_for_which_no_arguments_can_be_generated(
    schema: Any, problem: str
) -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}
    parameters = {"type": "object", "properties": {"x": schema}, "required": ["x"], "$defs": {"node": node}}
    coded = tool(name="code", parameters=parameters)(never_run)
    agent = ReactiveAgents.create().with_llm(TestModel()).with_reasoning().with_tools(coded).build()
    with pytest.raises(AgentError, match=r"TestModel: .*'code'") as wrong:
        await agent.run("Go.")
    assert isinstance(root_cause(wrong.value.error), ScriptExhausted)
    assert problem in str(wrong.value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer", "exclusiveMinimum": 4}, 5),
        ({"type": "integer", "maximum": -3}, -3),
        ({"type": "integer", "exclusiveMaximum": 0}, -1),
        ({"type": "number", "minimum": 0.1, "maximum": 0.3}, 0.2),
        ({"type": "integer", "minimum": 7, "multipleOf": 5}, 10),
        ({"type": "string", "format": "email"}, "a@example.com"),
        ({"type": ["null", "string"]}, None),
        ({"allOf": [{"type": "object", "required": ["a"]}, {"required": ["b"]}]}, {"a": "a", "b": "a"}),
        (
            {"prefixItems": [{"type": "boolean"}], "items": {"const": 3}, "minItems": 2, "type": "array"},
            [False, 3],
        ),
        ({"oneOf": [{"type": "object", "properties": {"k": {"enum": [9]}}, "required": ["k"]}]}, {"k": 9}),
        (True, "a"),
    ],
)
async def test_a_test_model_generates_simple_values(schema: Any, value: Any) -> None:
    parameters = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    request = ModelRequest((UserMessage("Go."),), (ToolDefinition("t", "", parameters),))
    response = (await attempt(TestModel().complete(request))).unwrap()
    assert response.tool_calls[0].arguments == {"x": value}
