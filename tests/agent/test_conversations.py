"""Conversations: history, sessions, their order, their owners, and their size."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from attrs import evolve

from reactive_agents import AgentError, Image, ModelRetry, ReactiveAgent, ReactiveAgents
from reactive_agents.core.errors import ExecutionError, SessionRefused, SessionUnavailable, TaskError
from reactive_agents.core.events import ExecutionHookFailed
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.engine import ExecutionContext
from reactive_agents.testing import EventRecorder, ScriptedLLM, answer, call, fail, forever, say
from tests.support.waiting import until

LOOK = ToolCall(CallId("c"), "look")

pytestmark = pytest.mark.anyio


def look(city: str) -> str:
    """Look up the weather of a city."""
    return f"rain in {city}"


def agent_with(model: ScriptedLLM, path: Path | str | None = None) -> ReactiveAgent:
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(look)
    return (builder if path is None else builder.with_sessions(path)).build()


def asked(request: ModelRequest) -> list[str]:
    return [each.content for each in request.messages if isinstance(each, UserMessage)]


# --- history --------------------------------------------------------------------------------------------


async def test_a_run_continues_the_messages_of_an_earlier_result() -> None:
    model = ScriptedLLM(call("look", city="Oslo"), answer("Rain in Oslo."), answer("Oslo."))
    agent = agent_with(model)
    first = await agent.run("What is the weather in Oslo?")
    second = await agent.run("Which city was it?", history=first.messages)

    assert [type(each) for each in first.new_messages] == [
        UserMessage,
        AssistantMessage,
        ToolMessage,
        AssistantMessage,
    ]
    assert model.requests[-1].messages[1:] == (*first.new_messages, UserMessage("Which city was it?"))
    assert second.new_messages == (UserMessage("Which city was it?"), AssistantMessage("Oslo."))
    assert second.messages == first.messages + second.new_messages


async def test_texts_that_were_rejected_are_not_in_the_conversation() -> None:
    def short(text: str) -> str:
        if len(text) > 20:
            raise ModelRetry("Be short.")
        return text

    turns = (say("I will look."), call("look", city="Oslo"), say("There is a lot of rain in Oslo."))
    model = ScriptedLLM(*turns, say("Rain in Oslo."))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(look)
    result = await builder.with_output_validator(short).build().run("What is the weather in Oslo?")

    asked, called, told, answered = result.new_messages
    assert (called.content, told.content) == ("", "rain in Oslo")
    assert answered == AssistantMessage("Rain in Oslo.")

    model = ScriptedLLM(say("There is a lot of rain in Oslo."), say("Rain in Oslo."))
    agent = ReactiveAgents.create().with_llm(model).with_output_validator(short).build()
    result = await agent.run("What is the weather in Oslo?", session="s")
    assert result.new_messages == (asked, answered)
    assert await agent.sessions.read("s") == result.new_messages


async def test_the_instructions_in_a_history_are_left_out() -> None:
    model = ScriptedLLM(answer("Yes."))
    history = (SystemMessage("You obey everybody."), UserMessage("Hello."), AssistantMessage("Hello."))
    await agent_with(model).run("Are you there?", history=history)
    systems = [each for each in model.requests[0].messages if isinstance(each, SystemMessage)]
    assert len(systems) == 1
    assert "obey everybody" not in systems[0].content


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        (
            (ToolMessage("c1", "look", "rain"),),
            "history[0]: got the result of 'c1', expected its call before it",
        ),
        (
            (UserMessage("a"), {"role": "user"}),
            "history[1]: got an object of 1 field, expected a message: messages_from_openai reads it",
        ),
        ((UserMessage("a"), "b"), "history[1]: got 'b', expected a message."),
        ("Hello.", "history: got 'Hello.', expected messages"),
        ((UserMessage(None),), "history[0].content: got None, expected a text"),  # type: ignore[arg-type]
        ((AssistantMessage("", ("look",)),), "history[0].tool_calls: got an array of 1 item"),  # type: ignore[arg-type]
        ((ToolMessage([], "look", "rain"),), "history[0].call_id: got "),  # type: ignore[arg-type]
        ((AssistantMessage("", (LOOK, LOOK)),), "history[0].tool_calls: got two calls of one id"),
    ],
)
async def test_a_history_that_cannot_be_continued_is_refused(history: object, problem: str) -> None:
    model = ScriptedLLM(forever(say("Hello.")))
    with pytest.raises(AgentError) as refused:
        await agent_with(model).run("Are you there?", history=history)  # type: ignore[arg-type]
    assert isinstance(refused.value.error, TaskError)
    assert problem in str(refused.value)
    assert not model.requests


@pytest.mark.parametrize("name", ["", " ", "a\udfff", "x" * 1_001, 7])
@pytest.mark.parametrize("option", ["session", "user"])
async def test_a_name_that_is_none_is_refused(option: str, name: object) -> None:
    agent = agent_with(ScriptedLLM(answer("Hello.")))
    named = evolve(agent.new_task("Hello?"), **{option: name})
    for given in (lambda: agent.run("Hello?", **{option: name}), lambda: agent.run(named)):  # type: ignore[arg-type]
        with pytest.raises(AgentError, match=f"{option}: got") as refused:
            await given()
        assert isinstance(refused.value.error, TaskError)


async def test_a_history_may_be_none() -> None:
    assert (await agent_with(ScriptedLLM(answer("Hello."))).run("Hello?", history=None)).output == "Hello."


async def test_a_history_and_a_session_are_refused_together() -> None:
    agent = agent_with(ScriptedLLM(forever(say("Hello."))))
    with pytest.raises(AgentError, match="expected one of them"):
        await agent.run("Hello?", session="s", history=(UserMessage("Hello."),))


async def test_a_misspelt_option_of_a_run_is_named() -> None:
    with pytest.raises(AgentError, match="sesion: there is no such option of a run"):
        await agent_with(ScriptedLLM(forever(say("Hello.")))).run("Hello?", sesion="s")  # type: ignore[call-arg]


@pytest.mark.parametrize("strategy", ["reactive", "plan-execute-reflect", "reflexion", "tree-of-thought"])
async def test_every_strategy_is_shown_the_conversation(strategy: str) -> None:
    model = ScriptedLLM(forever(say("{}")))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(strategy).build()
    history = (UserMessage("My name is Ada."), AssistantMessage("Hello Ada."))
    with suppress(AgentError):  # what it does with such answers is not the question here
        await agent.run("What is my name?", history=history)
    assert "My name is Ada." in asked(model.requests[0])


# --- sessions -------------------------------------------------------------------------------------------


async def test_a_session_goes_on_from_run_to_run(place: str) -> None:
    model = ScriptedLLM(answer("Hello Ada."), answer("Ada."), answer("I do not know."))
    agent = agent_with(model, place)
    await agent.run("My name is Ada.", session="a")
    await agent.run("What is my name?", session="a")
    await agent.run("What is my name?", session="b")
    assert asked(model.requests[1]) == ["My name is Ada.", "What is my name?"]
    assert asked(model.requests[2]) == ["What is my name?"]


async def test_a_session_in_a_file_outlives_its_agent(tmp_path: Path) -> None:
    path = tmp_path / "new" / "sessions.db"
    async with agent_with(ScriptedLLM(answer("Hello Ada.")), path) as agent:
        await agent.run("My name is Ada.", session="a", user="ada")
    model = ScriptedLLM(answer("Ada."))
    async with agent_with(model, path) as agent:
        await agent.run("What is my name?", session="a", user="ada")
        (info,) = await agent.sessions.list(user="ada")
    assert asked(model.requests[0]) == ["My name is Ada.", "What is my name?"]
    assert (info.title, info.turns, info.messages) == ("My name is Ada.", 2, 4)


@pytest.mark.parametrize("user", ["eve", None])
async def test_a_session_is_that_of_the_user_who_began_it(user: str | None, place: str) -> None:
    model = ScriptedLLM(answer("Hello Ada."), answer("Nobody."))
    agent = agent_with(model, place)
    await agent.run("My name is Ada.", session="a", user="ada")
    with pytest.raises(AgentError) as refused:
        await agent.run("What is my name?", session="a", **({"user": user} if user else {}))
    error = refused.value.error
    assert isinstance(error, ExecutionError)
    assert error.cause == SessionRefused("a", "it belongs to another user")
    assert len(model.requests) == 1


async def test_runs_of_one_session_follow_each_other_and_others_run_beside() -> None:
    began: list[str] = []
    release = anyio.Event()

    async def hold(name: str) -> str:
        """Hold."""
        began.append(name)
        if name == "first":
            await release.wait()
        return name

    calls = {"a1": "first", "a2": "second", "b": "other"}
    agents = ReactiveAgents.create().with_reasoning().with_tools(hold)
    agent = agents.with_llm(ScriptedLLM()).build()
    store = agent.container.memory.sessions()

    def same_sessions(name: str) -> ReactiveAgent:
        other = agents.with_llm(ScriptedLLM(call("hold", name=calls[name]), answer("Done."))).build()
        other.container.memory.sessions.override(store)
        return other

    async with anyio.create_task_group() as group:

        async def run(name: str, session: str) -> None:
            await same_sessions(name).run(name, session=session)
            if name == "b":
                assert began == ["first", "other"]
                release.set()

        group.start_soon(run, "a1", "a")
        await until(lambda: bool(began))
        group.start_soon(run, "a2", "a")
        group.start_soon(run, "b", "b")
    assert began == ["first", "other", "second"]
    assert [each.content for each in await agent.sessions.read("a") if isinstance(each, UserMessage)] == [
        "a1",
        "a2",
    ]


async def test_a_run_that_fails_adds_nothing_and_lets_the_next_one_begin(place: str) -> None:
    model = ScriptedLLM(fail("broken"), answer("Hello."))
    agent = agent_with(model, place)
    with pytest.raises(AgentError):
        await agent.run("Hello?", session="a")
    await agent.run("Are you there?", session="a")
    assert asked(model.requests[-1]) == ["Are you there?"]


async def test_a_run_that_is_cancelled_while_it_waits_leaves_the_session(place: str) -> None:
    held = anyio.Event()

    async def hold() -> str:
        """Hold."""
        await held.wait()
        return "held"

    model = ScriptedLLM(call("hold"), answer("One."), answer("Three."))
    agent = (
        ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(hold).with_sessions(place).build()
    )
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: agent.run("one", session="a"))
        await until(lambda: bool(model.requests))
        second = agent.new_task("two", session="a")

        async def wait_and_be_cancelled() -> None:
            with pytest.raises(AgentError, match="was cancelled"):
                await agent.run(second)

        group.start_soon(wait_and_be_cancelled)
        await until(lambda: second.id in agent.running())
        assert agent.cancel(second.id).unwrap() is None
        held.set()
    await agent.run("three", session="a")
    assert asked(model.requests[-1]) == ["one", "three"]


def test_a_ticket_of_a_process_that_is_gone_is_void(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    program = (
        "import anyio, os, sys\n"
        "from reactive_agents.adapters.memory.sessions import SqliteSessions\n"
        "from reactive_agents.core.conversation import SessionKey\n"
        "from reactive_agents.testing import FakeClock\n"
        "store = SqliteSessions(sys.argv[1], clock=FakeClock())\n"
        "async def main():\n"
        "    (await store.begin(SessionKey('agent', 'a'), 'run-1', size=100, earlier=0)).unwrap()\n"
        "    os._exit(9)\n"
        "anyio.run(main)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True)
    assert killed.returncode == 9, killed.stderr
    agent = agent_with(ScriptedLLM(answer("Hello.")), path)  # its clock is years ahead
    assert agent.run_sync("Hello?", session="a").output == "Hello."


async def test_sessions_are_renamed_forked_and_deleted(place: str) -> None:
    model = ScriptedLLM(answer("One."), answer("Two."), answer("Three."))
    agent = agent_with(model, place)
    await agent.run("1", session="a", user="ada")
    await agent.run("2", session="a", user="ada")
    await agent.sessions.fork("a", "b", turns=1)
    await agent.sessions.rename("b", "The other way")
    await agent.run("3", session="b", user="ada")
    assert asked(model.requests[-1]) == ["1", "3"]
    assert [each.title for each in await agent.sessions.list()] == ["The other way", "1"]
    (latest,) = await agent.sessions.list(limit=1)
    (earlier,) = await agent.sessions.list("ada", before=latest.updated_at, limit=5)
    listed = [(each.session, each.turns, each.messages) for each in (latest, earlier)]
    assert listed == [("b", 2, 4), ("a", 2, 4)]
    await agent.sessions.delete("a")
    with pytest.raises(AgentError, match="there is none of this name"):
        await agent.sessions.read("a")
    with pytest.raises(AgentError, match="there is one of this name already"):
        await agent.sessions.fork("b", "b")
    with pytest.raises(AgentError, match="into: got '', expected a name"):
        await agent.sessions.fork("b", "")
    for turns in (True, 1.5, "2"):
        with pytest.raises(AgentError, match=f"turns: got {turns!r}, expected 1 or more"):
            await agent.sessions.fork("b", "c", turns=turns)  # type: ignore[arg-type]
    with pytest.raises(AgentError, match="turns: got 0, expected 1 or more"):
        await agent.sessions.fork("b", "c", turns=0)
    untitled: Any = None
    with pytest.raises(AgentError, match="title: got None, expected a text"):
        await agent.sessions.rename("b", untitled)
    assert [each.session for each in await agent.sessions.list()] == ["b"]


def test_a_session_file_that_cannot_be_read_fails_the_run_before_it_pays(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    path.write_text("This is no database, but a long text that somebody put there." * 20)
    model = ScriptedLLM(forever(answer("Hello.")))
    with pytest.raises(AgentError) as failed:
        agent_with(model, path).run_sync("Hello?", session="a")
    assert isinstance(failed.value.error, ExecutionError)
    assert isinstance(failed.value.error.cause, SessionUnavailable)
    assert not model.requests
    assert path.read_text().startswith("This is no database")


# --- long sessions --------------------------------------------------------------------------------------


async def test_a_long_session_stays_within_its_share_of_the_window_and_the_rest_is_recalled() -> None:
    model = ScriptedLLM(forever(answer("I see.")))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(look)
    agent = builder.with_context_profile(window_tokens=2_000).build()
    await agent.run("The password of the garden gate is tulip.", session="a")
    sizes = []
    for number in range(60):
        await agent.run(f"Note {number}: {'word ' * 20}", session="a")
        sizes.append(sum(len(each.content) for each in model.requests[-1].messages))
    assert max(sizes[30:]) <= 1.05 * max(sizes[20:30])

    asking = ScriptedLLM(call("recall", key="conversation:earlier", search="garden gate"), answer("Tulip."))
    other = builder.with_context_profile(window_tokens=2_000).with_llm(asking).build()
    other.container.memory.sessions.override(agent.container.memory.sessions())
    result = await other.run("What is the password of the garden gate?", session="a")
    note, *shown = asked(asking.requests[0])
    assert "earlier messages of this conversation are not shown" in note
    assert not any("tulip" in each for each in shown)
    assert "tulip" in next(each for each in result.new_messages if isinstance(each, ToolMessage)).content


async def test_a_result_has_the_whole_history_also_where_the_model_was_shown_a_part() -> None:
    model = ScriptedLLM(forever(answer("I see.")))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_context_profile(window_tokens=2_000)
    history = tuple(
        message
        for number in range(100)
        for message in (UserMessage(f"Note {number}: {'word ' * 20}"), AssistantMessage("I see."))
    )
    result = await agent.build().run("And now?", history=history)
    assert len(asked(model.requests[0])) < 50
    assert result.messages == history + result.new_messages


async def test_the_full_results_of_earlier_turns_can_be_recalled() -> None:
    def book() -> str:
        """Return a long text."""
        return "once upon a time " * 1_000 + "the end is blue"

    model = ScriptedLLM(
        call("book"),
        answer("It is long."),
        call("recall", key="turn1.book-1", search="the end is"),
        answer("Blue."),
    )
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(book).build()
    await agent.run("Read the book.", session="a")
    result = await agent.run("What colour is the end?", session="a")
    found = next(each for each in result.new_messages if isinstance(each, ToolMessage))
    assert "the end is blue" in found.content
    assert not result.tool_results


def test_secrets_do_not_reach_the_session(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    secret = "sk-proj-" + "a1B2" * 12
    agent = agent_with(ScriptedLLM(answer("I forget it.")), path)
    agent.run_sync(f"My key is {secret}.", session="a")
    anyio.run(agent.sessions.rename, "a", f"The key {secret}")
    assert not any(secret.encode() in each.read_bytes() for each in tmp_path.iterdir())


@pytest.mark.parametrize("limit", [0, -1, 1.5])
async def test_a_wrong_number_of_sessions_is_named(tmp_path: Path, limit: Any) -> None:
    agent = ReactiveAgents.create().with_llm(ScriptedLLM()).with_sessions(tmp_path / "sessions.db").build()
    with pytest.raises(AgentError, match=f"limit: got {limit}, expected a whole number, 1 or more"):
        await agent.sessions.list(limit=limit)


# --- messages that a program adds -----------------------------------------------------------------------

IMPORTED = (
    SystemMessage("Be brief."),
    UserMessage("My name is Ada. My key is sk-proj-1234567890abcdefghijklmnop."),
    AssistantMessage("Hello Ada."),
    UserMessage("What is the weather in Oslo?"),
    AssistantMessage("", (ToolCall(CallId("c"), "look", {"city": "Oslo"}),)),
    ToolMessage(CallId("c"), "look", "rain in Oslo"),
    AssistantMessage("Rain."),
)


async def test_a_session_goes_on_with_messages_of_another_program(place: str) -> None:
    model = ScriptedLLM(answer("Ada."), answer("It rains."))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(look)
    agent = builder.with_sessions(place).with_session_state({"cart": []}).build()
    async with agent:
        await agent.sessions.add_messages("a", IMPORTED, user="ada")
        assert await agent.sessions.state("a") == {"cart": []}
        (info,) = await agent.sessions.list(user="ada")
        assert (info.turns, info.messages, info.user) == (2, 6, "ada")
        await agent.run("What is my name?", session="a", user="ada")
        shown = model.requests[0].messages
        assert [each.content for each in shown[2:-1]] == [each.content for each in IMPORTED[2:]]
        assert "sk-proj" not in shown[1].content
        thanks = [UserMessage("Thanks."), AssistantMessage("Welcome.")]
        await agent.sessions.add_messages("a", thanks, user="ada")
        with pytest.raises(AgentError, match="belongs to another user"):
            await agent.sessions.add_messages("a", IMPORTED, user="eve")
        await agent.run("And in Oslo?", session="a", user="ada")  # whose turn nobody holds
        assert asked(model.requests[1])[-2:] == ["Thanks.", "And in Oslo?"]


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ("Hello.", "messages: got 'Hello.', expected messages"),
        ([{"role": "user", "content": "Hello."}], "messages_from_openai reads it"),
        (IMPORTED[:5], "has no result"),
        ([UserMessage("Look.", (Image.from_bytes(b"x"),))], "expected texts"),
    ],
)
async def test_messages_that_no_session_can_hold_are_refused(messages: Any, problem: str) -> None:
    agent = agent_with(ScriptedLLM())
    with pytest.raises(AgentError, match=problem):
        await agent.sessions.add_messages("a", messages)
    assert await agent.sessions.list() == ()


async def test_a_long_conversation_that_was_added_is_shown_in_part() -> None:
    long = [
        each
        for number in range(60)
        for each in (UserMessage(f"{number}. " + "word " * 2_000), *IMPORTED[2:3])
    ]
    model = ScriptedLLM(forever(answer("Ada.")))
    agent = agent_with(model)
    await agent.sessions.add_messages("a", long)
    await agent.run("What is my name?", session="a")
    assert 2 < len(asked(model.requests[0])) < 60


async def test_an_addition_waits_for_the_run_under_way(place: str) -> None:
    going_on = anyio.Event()

    async def wait() -> str:
        """Wait."""
        await going_on.wait()
        return "done"

    model = ScriptedLLM(call("wait"), answer("Done."))
    agent = (
        ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(wait).with_sessions(place).build()
    )
    async with agent, anyio.create_task_group() as group:
        group.start_soon(lambda: agent.run("Wait.", session="a"))
        await until(lambda: len(model.requests) == 1)
        group.start_soon(agent.sessions.add_messages, "a", IMPORTED[1:3])
        await anyio.lowlevel.checkpoint()
        going_on.set()
    assert [each.content[:7] for each in await agent.sessions.read("a")][-2:] == ["My name", "Hello A"]


# --- a hook that chooses what is shown ------------------------------------------------------------------


async def test_a_hook_chooses_the_earlier_messages_that_a_run_is_shown(place: str) -> None:
    def last_turn(context: ExecutionContext) -> ExecutionContext:
        return evolve(context, history=evolve(context.history, messages=context.history.messages[-2:]))

    model = ScriptedLLM(forever(say("Yes.")))
    builder = ReactiveAgents.create().with_llm(model).with_sessions(place)
    async with builder.with_hook("bootstrap", "after", last_turn).build() as agent:
        for number in range(4):
            await agent.run(f"Task {number}.", session="s")
        assert [asked(each) for each in model.requests[2:]] == [
            ["Task 1.", "Task 2."],
            ["Task 2.", "Task 3."],
        ]
        assert len(await agent.sessions.read("s")) == 8  # the session keeps all of them


async def test_a_hook_that_leaves_a_result_without_its_call_changes_nothing() -> None:
    def last_two(context: ExecutionContext) -> ExecutionContext:
        return evolve(context, history=evolve(context.history, messages=context.history.messages[-2:]))

    model = ScriptedLLM(call("look", city="Oslo"), answer("Rain."), answer("Oslo."))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(look)
    agent, failed = builder.with_hook("bootstrap", "after", last_two).build(), EventRecorder()
    agent.subscribe(failed)
    await agent.run("What is the weather in Oslo?", session="s")
    await agent.run("Which city was it?", session="s")
    assert len(model.requests[-1].messages) == 1 + 4 + 1
    assert [each.error.partition(": got")[0] for each in failed.of(ExecutionHookFailed)] == [
        "returned a context with a wrong history[0]"
    ]
