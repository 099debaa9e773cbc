"""What a streamed run tells: the answer however it comes, thinking, arguments, retractions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing

import anyio
import pytest
from returns.result import Result, Success

from reactive_agents import ReactiveAgent, ReactiveAgents, agent_tool
from reactive_agents.adapters.telemetry.event_bus import MOST_WAITING
from reactive_agents.core.errors import LLMErrors, RunCancelled
from reactive_agents.core.events import (
    AgentEvent,
    ModelStreamRestarted,
    ModelTextRetracted,
    ModelTextStreamed,
    ModelThinkingStreamed,
    TaskCompleted,
    TaskFailed,
    TaskStarted,
    ToolArgumentsStreamed,
)
from reactive_agents.core.models import (
    ModelChunk,
    ModelRequest,
    ModelResponse,
    StreamCompleted,
    TextDelta,
    ToolCallDelta,
)
from reactive_agents.testing import (
    EventRecorder,
    ScriptedLLM,
    Turn,
    answer,
    call,
    calls,
    forever,
    say,
    streamed,
)
from tests.support.openai_server import Answer, Call, OpenAIServer, Reply
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("without_backoff")]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def shown_by(events: Iterable[AgentEvent]) -> str:
    """The text that a reader sees at the end who prints the deltas and heeds the retractions."""
    text = ""
    for event in events:
        match event:
            case ModelTextStreamed(text=delta):
                text += delta
            case ModelTextRetracted() | ModelStreamRestarted():
                text = ""
    return text


def of(events: Iterable[AgentEvent], kind: type) -> list[str]:
    return [event.text for event in events if isinstance(event, kind)]  # type: ignore[attr-defined]


async def events_of(
    *turns: Turn, strategy: str = "reactive", task: str = "What is 1 + 2?"
) -> list[AgentEvent]:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning(strategy).with_tools(add)
    return [event async for event in builder.build().stream("What is 1 + 2?")]


def delivered(events: list[AgentEvent]) -> str:
    last = events[-1]
    assert isinstance(last, TaskCompleted), last
    return last.result.output or ""


async def test_an_answer_by_final_answer_streams_like_a_text() -> None:
    events = await events_of(call("add", a=1, b=2), answer("The answer is 3, and that is all."))
    assert shown_by(events) == delivered(events) == "The answer is 3, and that is all."
    assert len(of(events, ModelTextStreamed)) > 1
    arguments = [event for event in events if isinstance(event, ToolArgumentsStreamed)]
    assert {(each.tool_name, each.index, each.model_call) for each in arguments} == {("add", 0, 1)}
    assert json.loads("".join(each.text for each in arguments)) == {"a": 1, "b": 2}


async def test_a_text_beside_calls_is_retracted() -> None:
    beside = calls(call("add", a=1, b=2), text="I will add them.")
    events = await events_of(beside, calls(answer("The answer is 3."), text="Here it is:"))
    retracted = [event.policy for event in events if isinstance(event, ModelTextRetracted)]
    assert retracted == ["calls", "calls"]
    assert shown_by(events) == delivered(events) == "The answer is 3."


async def test_an_answer_beside_other_calls_is_retracted() -> None:
    early = calls(answer("The answer is 4."), call("add", a=1, b=2))
    events = await events_of(early, answer("The answer is 3."))
    assert "The answer is 4." in "".join(of(events, ModelTextStreamed))
    assert shown_by(events) == delivered(events) == "The answer is 3."


async def test_a_delivered_answer_that_is_turned_down_is_retracted() -> None:
    turned_down = answer("I will call the add tool.")
    made_up = call("final-answer", answer="add(a=1, b=2)")
    events = await events_of(made_up, turned_down, call("add", a=1, b=2), answer("The answer is 3."))
    assert any(isinstance(event, ModelTextRetracted) for event in events)
    assert shown_by(events) == delivered(events)


async def test_what_a_model_says_by_could_not_is_the_answer() -> None:
    why = "There is no such account, and a name would be needed."
    events = await events_of(call("final-answer", could_not=why))
    assert shown_by(events) == delivered(events) == why
    events = await events_of(call("final-answer", could_not=why, answer="Nothing can be said."))
    assert shown_by(events) == delivered(events) == "Nothing can be said."


async def test_a_call_that_is_written_as_text_does_not_stand_as_the_answer() -> None:
    written = say('<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>')
    spelled = say('final-answer: {"answer": "The answer is 3."}')
    events = await events_of(written, spelled)
    assert shown_by(events) == delivered(events) == "The answer is 3."


async def test_a_broken_stream_starts_again_and_its_text_is_void() -> None:
    with OpenAIServer(Answer("The answer is 4.", cut_after=1), Answer("The answer is 3.")) as server:
        events = await events_of_server(server)
    assert any(isinstance(event, ModelStreamRestarted) for event in events)
    assert shown_by(events) == delivered(events) == "The answer is 3."


async def events_of_server(server: OpenAIServer) -> list[AgentEvent]:
    builder = ReactiveAgents.create().with_model("openai/gpt-4o-mini", api_key="k", base_url=server.base_url)
    async with builder.with_reasoning().with_tools(add).build() as agent:
        return [event async for event in agent.stream("What is 1 + 2?")]


async def test_the_same_over_a_real_server() -> None:
    text = 'Three: "3", \\ 😀 — é\n\tdone.'
    replies: tuple[Reply, ...] = (
        Answer("Let me add.", calls=(Call("add", {"a": 1, "b": 2}),), reasoning="I have to add."),
        Answer(calls=(Call("final-answer", json.dumps({"answer": text})),)),
    )
    with OpenAIServer(*replies) as server:
        events = await events_of_server(server)
    assert shown_by(events) == delivered(events) == text
    assert "".join(of(events, ModelThinkingStreamed)) == "I have to add."
    assert "".join(of(events, ToolArgumentsStreamed)) == '{"a": 1, "b": 2}'


async def test_a_failed_run_leaves_no_text_that_stands() -> None:
    with OpenAIServer(*[Answer("The answer is 3.", cut_after=1)] * 9) as server:
        events = await events_of_server(server)
    assert isinstance(events[-1], TaskFailed)
    assert shown_by(events) == ""


async def test_of_plans_the_last_answer_stands_and_plans_are_thinking() -> None:
    from tests.support.plans import ANALYSING, analysis_step, plan, satisfied

    events = await events_of(
        plan(analysis_step("Add the numbers."), analysis_step("Say it.")),
        say("It is 3.", when=ANALYSING),
        say("Three.", when=ANALYSING),
        satisfied("s2"),
        answer("It is three."),
        answer("It is three."),
        strategy="plan-execute-reflect",
    )
    assert shown_by(events) == delivered(events)
    purposes = {event.purpose for event in events if isinstance(event, ModelThinkingStreamed)}
    assert "plan" in purposes
    assert all("{" not in text for text in of(events, ModelTextStreamed))


async def test_secrets_do_not_get_through_arguments_and_answers_in_parts() -> None:
    key = "sk-" + "a1B2c3D4e5F6g7H8i9J0" * 2
    for written in (key, "".join(f"\\u{ord(each):04x}" for each in key)):
        parts = [written[at : at + 5] for at in range(0, len(written), 5)]
        looked_up = streamed(
            call("add", a=1, b=2),
            ToolCallDelta(0, "add", '{"a": "'),
            *(ToolCallDelta(0, "", part) for part in parts),
            ToolCallDelta(0, "", '"}'),
        )
        told = streamed(
            answer(f"It is {key}."),
            ToolCallDelta(0, "final-answer", '{"answer": "It is '),
            *(ToolCallDelta(0, "", part) for part in parts),
            ToolCallDelta(0, "", '."}'),
        )
        events = await events_of(looked_up, told)
        assert shown_by(events) == delivered(events) == "It is [redacted:openai-key]."
        given = "".join(of(events, ToolArgumentsStreamed))
        assert key not in given
        assert key not in json.loads(given)["a"]


async def test_the_name_of_an_agent_is_redacted_in_its_events() -> None:
    name = "sk-" + "a1B2c3D4e5F6g7H8i9J0" * 2
    agent = ReactiveAgents.create().with_name(name).with_llm(ScriptedLLM(say("Hi."))).build()
    assert {event.agent async for event in agent.stream("Say hi.")} == {"[redacted:openai-key]"}


async def test_nothing_is_streamed_where_nobody_reads() -> None:
    asked: list[str] = []

    class Model(ScriptedLLM):
        def stream(self, request):  # type: ignore[no-untyped-def, override]
            asked.append("stream")
            return super().stream(request)

    agent = ReactiveAgents.create().with_llm(Model(say("Hi."), say("Hi."))).build()
    await agent.run("Say hi.")
    assert asked == []
    assert [type(event).__name__ async for event in agent.stream("Say hi.")][-1] == "TaskCompleted"
    assert asked == ["stream"]


class Talkative(ScriptedLLM):
    """A model with a long answer, which counts the deltas that were taken of it."""

    taken = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        for _ in range(1500):
            self.taken += 1
            yield Success(TextDelta("word "))
        yield Success(StreamCompleted(ModelResponse("word " * 1500, self.model)))


@pytest.mark.system
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_slow_reader_holds_up_its_own_run_and_no_other() -> None:
    model = Talkative()
    agent = ReactiveAgents.create().with_llm(model).build()
    other = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("Hi.")))).build()
    events: list[AgentEvent] = []
    async for event in agent.stream("Talk."):
        events.append(event)
        if len(events) in (20, 900):
            at_first = model.taken
            for _ in range(5):
                await other.run("Say hi.")
            assert at_first <= model.taken <= len(events) + MOST_WAITING + 20
    assert shown_by(events) == delivered(events)
    assert model.taken == 1500


async def test_a_reader_who_leaves_a_run_that_waits_for_it_cancels_the_run() -> None:
    model = Talkative()
    agent = ReactiveAgents.create().with_llm(model).build()
    async with aclosing(agent.stream("Talk.")) as events:
        async for _ in events:
            await until(lambda: model.taken > MOST_WAITING // 2)
            break
    assert agent.running() == ()
    assert model.taken < 1500


def team(*turns: Turn, in_thread: bool = False) -> ReactiveAgent:
    """An agent with another as its tool, which may be run by a plain function in a thread."""
    worker = ReactiveAgents.create().with_name("adder").with_llm(ScriptedLLM(*turns)).with_reasoning()
    adder = worker.with_tools(add).build()

    def ask(task: str) -> str:
        """Ask for a sum."""
        return adder.run_sync(task).output or ""

    boss = ScriptedLLM(call("ask" if in_thread else "adder", task="Add 1 and 2."), answer("It is 3."))
    builder = ReactiveAgents.create().with_name("boss").with_llm(boss).with_reasoning()
    return builder.with_redaction(r"CASE-x").with_tools(ask if in_thread else agent_tool(adder)).build()


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_sub_agents_events_are_in_the_callers_stream(in_thread: bool) -> None:
    turns = (call("add", a=1, b=2), answer("The sum of CASE-x is 3."))
    events = [event async for event in team(*turns, in_thread=in_thread).stream("What is 1 + 2?")]
    own = [event for event in events if event.agent == "boss"]
    subs = [event for event in events if event.agent == "adder"]
    assert len(own) + len(subs) == len(events)
    assert {each.parent_run_id for each in own} == {None}
    assert {each.parent_run_id for each in subs} == {events[0].run_id}
    for part in (own, subs):
        assert [each.sequence for each in part] == list(range(1, len(part) + 1))
        assert isinstance(part[0], TaskStarted)
        assert isinstance(part[-1], TaskCompleted)
    assert shown_by(own) == delivered(own) == "It is 3."
    # the patterns of the agent that is read hold for those below it as well
    assert shown_by(subs) == delivered(subs) == "The sum of [redacted:pattern] is 3."


async def test_runs_of_sub_agents_go_to_no_stream_of_others() -> None:
    agent = team(forever(answer("It is 3.")))
    recorder = EventRecorder()
    agent.subscribe(recorder)
    await agent.run("What is 1 + 2?")
    assert {event.agent for event in recorder.events} == {"boss"}


async def test_cancelling_a_run_within_a_streamed_answer_closes_its_connection() -> None:
    reply = Answer(
        calls=(Call("final-answer", json.dumps({"answer": "The answer is three."})),), stalls_after=1
    )
    with OpenAIServer(reply) as server:
        builder = ReactiveAgents.create()
        builder = builder.with_model("openai/gpt-4o-mini", api_key="k", base_url=server.base_url)
        events: list[AgentEvent] = []
        async with builder.with_reasoning().with_tools(add).build() as agent:
            async for event in agent.stream("What is 1 + 2?"):
                events.append(event)
                if isinstance(event, ModelTextStreamed):
                    agent.cancel(event.task_id)
        await until(server.hung_up.is_set)
    last = events[-1]
    assert isinstance(last, TaskFailed)
    assert isinstance(last.error, RunCancelled)
    assert shown_by(events) == ""
    assert last.metadata.usage.reported is False


@pytest.mark.parametrize("asks_tools", [False, True])
async def test_a_run_that_is_stopped_within_its_answer_keeps_the_text_so_far(asks_tools: bool) -> None:
    said = "The sky is blue because of the air."
    delivered = Answer(calls=(Call("final-answer", {"answer": said}),), stalls_after=1)
    with OpenAIServer(delivered if asks_tools else Answer(said, stalls_after=1)) as server:
        builder = ReactiveAgents.create().with_model("openai/m", base_url=server.base_url, api_key="k")
        builder = builder.with_reasoning().with_tools(add) if asks_tools else builder
        agent = builder.build()
        task = agent.new_task("Why is the sky blue?")
        events: list[AgentEvent] = []
        async for event in agent.stream(task, session="s"):
            events.append(event)
            if isinstance(event, ModelTextStreamed):
                agent.stop(task.id)
        assert isinstance(events[-1], TaskCompleted)
        result = events[-1].result
        assert (result.status, result.metadata.terminated_by) == ("partial", "stopped")
        assert result.output == shown_by(events)
        assert said.startswith(str(result.output))
        assert [each.content for each in await agent.sessions.read("s")] == [task.input, result.output]


@pytest.mark.parametrize("with_loop", [False, True])
async def test_a_run_that_its_time_limit_cuts_off_within_its_answer_keeps_the_text_so_far(
    with_loop: bool,
) -> None:
    class Endless(ScriptedLLM):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
            yield Success(TextDelta("The sky is blue "))
            yield Success(TextDelta("because "))
            await anyio.sleep_forever()

    builder = ReactiveAgents.create().with_llm(Endless()).with_timeout(run=2.0)
    agent = (builder.with_reasoning() if with_loop else builder).build()
    events = [event async for event in agent.stream("Why is the sky blue?", session="s")]
    assert isinstance(events[-1], TaskCompleted)
    result = events[-1].result
    assert (result.status, result.metadata.terminated_by) == ("partial", "deadline")
    assert result.output == shown_by(events) == "The sky is blue because "
    assert [each.content for each in await agent.sessions.read("s")][1:] == [result.output]


def test_a_script_says_its_chunks() -> None:
    turn = streamed(say("It is 3."), "It ", TextDelta("is 3."))
    assert turn.chunks == (TextDelta("It "), TextDelta("is 3."))


@pytest.mark.parametrize(
    ("written", "text", "thinking"),
    [
        ("<think>Hm, so.</think>\n\nIt is 3.", "It is 3.", "Hm, so."),
        ("[THINK]Hm, so.[/THINK]It is 3.", "It is 3.", "Hm, so."),
        ("Hm, so.\n</think>\n\nIt is 3.", "It is 3.", ""),
    ],
)
async def test_thinking_written_into_the_text_is_streamed_as_thinking(
    written: str, text: str, thinking: str
) -> None:
    with OpenAIServer(Answer(written), Answer(written)) as server:
        agent = ReactiveAgents.create().with_model("openai/m", api_key="k", base_url=server.base_url).build()
        async with agent, aclosing(agent.stream("Add.")) as stream:
            events = [event async for event in stream]
            result = await agent.run("Add.")
    assert shown_by(events).strip() == text
    assert "".join(of(events, ModelThinkingStreamed)) == thinking
    assert result.output == text
    assert [each.content for each in result.new_messages] == ["Add.", text]
