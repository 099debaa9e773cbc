"""The state of a session: what tools keep from run to run."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from dependency_injector.providers import Object
from returns.result import Failure, Success

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, RunContext, agent_tool, handoff, tool
from reactive_agents.adapters.memory.sessions import SqliteSessions
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.conversation import SessionKey, SessionTurn
from reactive_agents.core.errors import ModelUnavailable, RecordFailed
from reactive_agents.core.ids import AgentId, RunId, SessionId
from reactive_agents.core.messages import AssistantMessage, UserMessage
from reactive_agents.core.run_context import MOST_STATE, SessionState
from reactive_agents.core.run_record import RunStatus
from reactive_agents.effects import attempt, effect
from reactive_agents.testing import FakeClock, ScriptedLLM, answer, call, calls, fail, forever, say
from tests.agent.test_durable_runs import HangingRecord
from tests.support.sqlite_files import sqlite_file

pytestmark = pytest.mark.anyio

AGENT = AgentId("agent")
KEY = SessionKey(AGENT, SessionId("a"), "ada")
ONE, TWO, THREE = RunId("run-1"), RunId("run-2"), RunId("run-3")


def add(ctx: RunContext, item: str) -> list[str]:
    """Put an item into the cart, and list the cart."""
    cart: list[str] = ctx.state.change("cart", lambda cart: [*cart, item], [])
    return cart


def observed(result: Any) -> list[str]:
    return [step.content for step in result.steps if step.type == "observation"]


def clerk(*turns: Any, tools: Any = (add,)) -> Any:
    return ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(*tools)


def adding(*items: str) -> list[Any]:
    return [turn for item in items for turn in (call("add", item=item), answer("It is in the cart."))]


def nested(levels: int) -> Any:
    """Return lists in each other."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


async def test_tools_read_in_a_run_what_they_kept_in_earlier_runs_of_the_session(place: str) -> None:
    agent = clerk(*adding("tea", "milk", "salt", "rice")).with_sessions(place).build()
    seen = []
    for session, user in (("a", "ada"), ("a", "ada"), ("b", "ada"), (None, None)):
        result = await agent.run("Add it.", session=session, user=user)
        seen.append((json.loads(observed(result)[0]), result.state))
    carts = [["tea"], ["tea", "milk"], ["salt"], ["rice"]]
    assert seen == [(cart, {"cart": cart}) for cart in carts]
    assert await agent.sessions.state("a") == {"cart": ["tea", "milk"]}
    with pytest.raises(AgentError, match="belongs to another user"):
        await agent.run("Add it.", session="a", user="eve")
    with pytest.raises(AgentError, match="there is none of this name"):
        await agent.sessions.state("c")
    await agent.sessions.fork("a", "early", turns=1)
    assert await agent.sessions.state("early") == {"cart": ["tea"]}
    await agent.sessions.delete("a")
    with pytest.raises(AgentError, match="there is none of this name"):
        await agent.sessions.state("a")
    await agent.aclose()


async def test_a_session_of_two_agents_over_one_file_has_a_state_for_each(tmp_path: Path) -> None:
    for name in ("one", "two"):
        agent = clerk(*adding(name)).with_name(name).with_sessions(tmp_path / "s.db").build()
        assert (await agent.run("Add it.", session="a")).state == {"cart": [name]}
        await agent.aclose()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda state: state["cart"].append("tea"), "read-only: assign a changed copy"),
        (lambda state: state["person"].update(name="Eve"), "read-only: assign a changed copy"),
        (lambda state: state["person"]["tags"].sort(), "read-only: assign a changed copy"),
        (lambda state: state.update(person={1, 2}), "state['person']: got a set, expected JSON data"),
        (lambda state: state.update(n=float("nan")), "state['n']: got nan, expected JSON data"),
        (lambda state: state.update(deep=nested(64)), "expected JSON data: lists, objects, texts, finite"),
        (lambda state: state.update({3: 4}), "state[3]: got 4, expected JSON data"),
        (lambda state: state.update(text="x" * MOST_STATE), "expected a state of at most 100,000 characters"),
    ],
)
async def test_a_change_that_could_not_be_kept_fails_the_call(change: Any, told: str) -> None:
    def put(ctx: RunContext) -> None:
        """Put it."""
        ctx.state["cart"] = ["milk"]
        ctx.state["person"] = {"name": "Ada", "tags": ["b", "a"]}
        change(ctx.state)

    result = await clerk(call("put"), forever(answer("It failed.")), tools=(put,)).build().run("Put it.")
    assert observed(result)[0].startswith("The tool 'put' failed (")
    assert told in observed(result)[0]
    assert result.state == {"cart": ["milk"], "person": {"name": "Ada", "tags": ["b", "a"]}}


def test_what_the_state_holds_is_lists_and_objects_whose_copies_may_be_changed() -> None:
    given = {"a": [1, {"b": [2]}]}
    state = SessionState(given)
    given["a"].append(3)
    assert state == {"a": [1, {"b": [2]}]}
    assert json.dumps(state["a"]) == '[1, {"b": [2]}]'
    for copied in (copy.deepcopy(state["a"]), copy.copy(state["a"]), list(state["a"]), state["a"] + [4]):
        copied.append(5)
    assert f"{state}" == str({"a": [1, {"b": [2]}]})
    snapshot: Any = state.snapshot()
    snapshot["a"][1]["b"].append(6)
    assert state == {"a": [1, {"b": [2]}]}
    del state["a"]
    assert (len(state), state.get("a")) == (0, None)


def test_a_tool_is_tested_with_a_state_of_the_test() -> None:
    context = RunContext(None, state={"cart": ["tea"]})
    assert add(context, "milk") == context.state["cart"] == ["tea", "milk"]
    assert add(RunContext(None), "milk") == ["milk"]


async def test_only_tools_change_it_and_instructions_read_it() -> None:
    def told(ctx: RunContext) -> str:
        with pytest.raises(TypeError, match=r"state\['cart'\]: only tools change it, while they are called"):
            ctx.state["cart"] = []
        return f"In the cart: {', '.join(ctx.state.get('cart', []))}."

    model = ScriptedLLM(*adding("tea", "milk"))
    builder: Any = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(add)
    agent = builder.with_instructions(told).build()
    for _ in range(2):
        await agent.run("Add it.", session="a")
    shown = [request.messages[0].content for request in model.requests]
    assert [text.partition("In the cart: ")[2].partition(".")[0] for text in shown] == ["", "", "tea", "tea"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_calls_side_by_side_lose_no_change(is_async: bool) -> None:
    async def add_later(ctx: RunContext, item: str) -> list[str]:
        """Put an item into the cart, and list the cart."""
        await anyio.lowlevel.checkpoint()
        return add(ctx, item)

    items = [f"item {number}" for number in range(40)]
    name = "add_later" if is_async else "add"
    turn = calls(*(call(name, item=item) for item in items))
    agent = clerk(turn, answer("All are in the cart."), tools=(add_later if is_async else add,)).build()
    result = await agent.run("Add all.")
    assert Counter(result.state["cart"]) == Counter(items)


async def test_runs_side_by_side_in_one_session_lose_no_change(tmp_path: Path) -> None:
    agents = [clerk(*adding(f"item {n}")).with_sessions(tmp_path / "s.db").build() for n in range(5)]
    async with anyio.create_task_group() as group:
        for agent in agents:
            group.start_soon(lambda one=agent: one.run("Add it.", session="a"))
    state = await agents[0].sessions.state("a")
    assert sorted(state["cart"]) == [f"item {n}" for n in range(5)]
    for agent in agents:
        await agent.aclose()


async def test_a_run_that_fails_changes_nothing() -> None:
    turns = [*adding("tea"), call("add", item="milk"), fail(ModelUnavailable("down", "m")), *adding("salt")]
    agent = clerk(*turns).build()
    await agent.run("Add it.", session="a")
    with pytest.raises(AgentError, match="down"):
        await agent.run("Add it.", session="a")
    assert (await agent.run("Add it.", session="a")).state == {"cart": ["tea", "salt"]}


async def test_data_as_deep_as_it_may_be_and_a_switch_that_becomes_a_number_are_stored(place: str) -> None:
    values = [nested(63), True, 1, 1.0, False, 0, None]

    def put(ctx: RunContext, number: int) -> None:
        """Put it."""
        ctx.state["value"] = values[number]

    turns = [turn for number in range(len(values)) for turn in (call("put", number=number), answer("Done."))]
    agent = clerk(*turns, tools=(put,)).with_sessions(place).build()
    for value in values:
        result = await agent.run("Put it.", session="a")
        assert repr(await agent.sessions.state("a")) == repr(result.state) == repr({"value": value})
    await agent.aclose()


def test_it_may_be_read_while_another_thread_deletes_a_key() -> None:
    state = SessionState({"a": 1, "b": 2})
    items, values = iter(state.items()), iter(state.values())
    assert (next(items), next(values)) == (("a", 1), 1)
    del state["b"]
    assert (list(items), list(values), dict(state)) == ([("b", 2)], [2], {"a": 1})


async def test_secrets_in_it_are_redacted_when_it_is_stored() -> None:
    def log_in(ctx: RunContext) -> None:
        """Log in."""
        ctx.state["token"] = {"key": "sk-ant-api03-" + "a1B2c3D4" * 12}

    agent = clerk(call("log_in"), answer("Done."), tools=(log_in,)).build()
    await agent.run("Log in.", session="a")
    assert "a1B2c3D4" not in json.dumps(await agent.sessions.state("a"))


# --- the first value, and changes by the program ----------------------------------------------------------


FIRST: dict[str, Any] = {"cart": [], "plan": None}


async def test_new_sessions_and_runs_without_one_begin_with_the_state_of_the_agent(place: str) -> None:
    def clear(ctx: RunContext) -> None:
        """Delete the cart."""
        del ctx.state["cart"]

    builder = clerk(*adding("tea"), call("clear"), *2 * [answer("Done.")], tools=(add, clear))
    agent = builder.with_session_state(FIRST).with_sessions(place).build()
    assert (await agent.run("Add it.")).state == {"cart": ["tea"], "plan": None}
    assert (await agent.run("Clear it.", session="a")).state == {"plan": None}
    assert await agent.sessions.state("a") == {"plan": None}
    assert (await agent.run("Is it full?", session="a")).state == {"plan": None}
    await agent.aclose()


async def test_the_first_value_is_stored_with_the_first_run_that_has_an_answer(tmp_path: Path) -> None:
    turns = [call("add", item="tea"), fail(ModelUnavailable("down", "m")), answer("Yes.")]
    agent = clerk(*turns).with_session_state(FIRST).with_sessions(tmp_path / "s.db").build()
    with pytest.raises(AgentError, match="down"):
        await agent.run("Add it.", session="a")
    with pytest.raises(AgentError, match="there is none of this name"):
        await agent.sessions.state("a")
    assert (await agent.run("Is it full?", session="a")).state == FIRST
    await agent.aclose()
    later = clerk(answer("Yes."), *adding("milk")).with_session_state({"cart": ["salt"], "new": 1})
    later = later.with_sessions(tmp_path / "s.db").build()
    assert (await later.run("Is it full?", session="a")).state == FIRST
    assert (await later.run("Add it.", session="a")).state == {"cart": ["milk"], "plan": None}
    await later.aclose()


def test_the_first_value_is_data_of_a_configuration(tmp_path: Path) -> None:
    for name, kept in (("agent.json", FIRST), ("agent.toml", {"cart": []})):  # TOML has no null
        config = ReactiveAgents.create().with_reasoning().with_session_state(FIRST).config
        config.save(tmp_path / name)
        builder = ReactiveAgents.from_config(tmp_path / name).with_llm(ScriptedLLM(say("Yes.")))
        assert builder.build().run_sync("Is it full?").state == kept


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1], "session_state: got an array of 1 item, expected an object of JSON data with texts as keys."),
        ({1: 2}, "session_state: got the key 1, expected an object of JSON data with texts as keys."),
        ({"a": {1}}, "session_state['a']: got a set, expected JSON data"),
        (
            {"a": "x" * MOST_STATE},
            "session_state: got 100,009 characters of JSON, expected a state of",
        ),
    ],
)
def test_a_first_value_that_could_not_be_kept_is_refused(values: Any, told: str) -> None:
    with pytest.raises(AgentError) as refused:
        clerk().with_session_state(values).build()
    assert str(refused.value).startswith(told)


async def test_the_program_changes_the_state_before_between_and_in_runs(place: str) -> None:
    agent: ReactiveAgent

    async def order(ctx: RunContext) -> None:
        """Order what is in the cart."""
        ctx.state["ordered"] = ctx.state["cart"]
        await agent.sessions.update_state("a", {"plan": "paid", "ordered": 1})  # as from a web page

    turns = [*adding("tea"), call("order"), answer("Done."), answer("Yes.")]
    agent = clerk(*turns, tools=(add, order)).with_session_state(FIRST).with_sessions(place).build()
    change = agent.sessions.update_state
    assert await change("a", {"plan": "free", "seen": 1}, user="ada") == {"plan": "free", "seen": 1}
    (info,) = await agent.sessions.list("ada")
    assert (info.session, info.turns, info.title) == ("a", 0, "")
    result = await agent.run("Add it.", session="a", user="ada")
    assert result.state == {"cart": ["tea"], "plan": "free", "seen": 1}
    assert await change("a", {"cart": ["milk"]}, delete=["seen", "none"]) == {
        "cart": ["milk"],
        "plan": "free",
    }
    result = await agent.run("Order it.", session="a", user="ada")
    assert result.state == {"cart": ["milk"], "plan": "free", "ordered": ["milk"]}
    now = {"cart": ["milk"], "plan": "paid", "ordered": ["milk"]}
    assert await agent.sessions.state("a") == now
    assert (await agent.run("Is it full?", session="a", user="ada")).state == now
    assert [each.title for each in await agent.sessions.list()] == ["Add it."]
    await agent.sessions.fork("a", "early", turns=1)
    assert await agent.sessions.state("early") == {"cart": ["milk"], "plan": "paid", "ordered": 1}
    await agent.aclose()


async def test_a_session_whose_first_run_is_under_way_is_that_of_its_user(place: str) -> None:
    change: Any = None

    async def order(ctx: RunContext) -> None:
        """Order what is in the cart."""
        with pytest.raises(AgentError, match="belongs to another user"):
            await change("a", {"cart": []}, user="eve")
        await change("a", {"plan": "paid"})
        ctx.state["ordered"] = True

    agent = clerk(call("order"), answer("Done."), tools=(order,)).with_sessions(place).build()
    change = agent.sessions.update_state
    await agent.run("Order it.", session="a", user="ada")
    assert [(each.user, each.turns) for each in await agent.sessions.list()] == [("ada", 1)]
    assert await agent.sessions.state("a") == {"plan": "paid", "ordered": True}
    await agent.aclose()


@pytest.mark.parametrize(
    ("session", "given", "told"),
    [
        ("a", {"values": {"a": {1}}}, "values['a']: got a set, expected JSON data"),
        ("a", {"values": [1]}, "values: got an array of 1 item, expected an object of JSON data"),
        ("a", {"delete": "cart"}, "delete: got 'cart', expected a list of keys."),
        ("a", {"user": "eve"}, "session 'a': it belongs to another user."),
        (
            "a",
            {"values": {"b": "x" * MOST_STATE}},
            "session 'a': state: got 100,017 characters of JSON in all",
        ),
        (
            "b",
            {"values": {"b": "x" * MOST_STATE}},
            "session 'b': state: got 100,009 characters of JSON in all",
        ),
        (" ", {}, "session ' ': session: got ' ', expected a name"),
    ],
)
async def test_a_change_by_the_program_that_could_not_be_kept_is_refused(
    session: str, given: Any, told: str
) -> None:
    agent = clerk().build()
    await agent.sessions.update_state("a", {"a": 1}, user="ada")
    with pytest.raises(AgentError) as refused:
        await agent.sessions.update_state(session, **given)
    assert str(refused.value).startswith(told)
    assert [each.session for each in await agent.sessions.list()] == ["a"]
    assert await agent.sessions.state("a") == {"a": 1}


async def test_a_state_of_two_runs_that_is_too_large_can_be_made_smaller() -> None:
    def cut(ctx: RunContext) -> None:
        """Shorten it."""
        ctx.state["a"] = "x" * 50_000
        del ctx.state["b"]

    agent = clerk(call("cut"), answer("Done."), tools=(cut,)).build()
    half = "x" * 60_000
    for key in "ab":
        turn = SessionTurn(RunId(key), (UserMessage("a"),), "a", state={key: half}, changed=(key,))
        store: Any = agent.container.memory.sessions().unwrap()
        of_nobody = SessionKey(AGENT, SessionId("a"))
        await attempt(store.begin(of_nobody, RunId(key), size=1_000, earlier=0))
        await attempt(store.end(of_nobody, RunId(key), turn))
    assert (await agent.run("Cut it.", session="a")).state == {"a": "x" * 50_000}


# --- what is stored ---------------------------------------------------------------------------------------


async def test_a_turn_stores_what_it_changed(tmp_path: Path) -> None:
    def count(ctx: RunContext) -> None:
        """Count."""
        ctx.state.change("n", lambda n: n + 1, 0)

    turns = [turn for _ in range(3) for turn in (call("count"), answer("Done."), answer("Hello."))]
    agent = clerk(*turns, tools=(count,)).with_session_state({"text": "x" * 9_000})
    agent = agent.with_sessions(tmp_path / "s.db").with_durability(tmp_path / "r.db").build()
    results = [await agent.run("Count.", session="a") for _ in range(6)]
    await agent.aclose()
    assert results[-1].state == {"text": "x" * 9_000, "n": 3}
    with sqlite_file(tmp_path / "s.db") as file:
        rows = file.execute("SELECT state, changes FROM conversation_turns ORDER BY number").fetchall()
    assert {whole for whole, _ in rows} == {""}
    assert json.loads(rows[0][1]) == {"text": ["x" * 9_000], "n": [1]}
    assert [changes for _, changes in rows[1:]] == ["{}", '{"n": [2]}', "{}", '{"n": [3]}', "{}"]
    with sqlite_file(tmp_path / "r.db") as file:
        results = file.execute("SELECT body FROM run_entries WHERE kind = 'result'").fetchall()
    assert [json.loads(body)["changes"] for (body,) in results] == [{"n": [1]}, {"n": [2]}, {"n": [3]}]


# --- processes that stand still -------------------------------------------------------------------------


async def test_a_run_that_was_overtaken_adds_its_changes_in_its_place(place: str) -> None:
    clock = FakeClock()
    store = SqliteSessions(place, clock=clock)

    def turn(run: RunId, state: Any, *changed: str) -> SessionTurn:
        said = (UserMessage("asked"), AssistantMessage("said"))
        return SessionTurn(run, said, "text", state=state, changed=changed)

    async def begun(run: RunId) -> Any:
        return (await attempt(store.begin(KEY, run, size=1_000, earlier=0))).unwrap().state

    await begun(ONE)
    first = {"a": 1, "b": 1, "gone": 1, "kept": 1}
    await attempt(store.end(KEY, ONE, turn(ONE, first, *first)))
    assert await begun(TWO) == first
    stalled = {"a": 2, "b": 2, "kept": 1, "new": 2}
    expired = "UPDATE conversation_tickets SET valid_until_us = ?"  # as where its process stands still
    await store._file.write(
        "expire", lambda file: file.execute(expired, (store._shared_now() - 60_000_000,)), of="x"
    )
    assert await begun(THREE) == first
    later = {"a": 1, "b": 3, "gone": 1, "kept": 1}
    await attempt(store.end(KEY, THREE, turn(THREE, later, "b")))
    assert await attempt(store.end(KEY, TWO, turn(TWO, stalled, "a", "b", "gone", "new"))) == Success(None)
    wanted = {"a": 2, "b": 3, "kept": 1, "new": 2}
    assert (await attempt(store.state(AGENT, KEY.session))).unwrap() == wanted
    assert await begun(RunId("run-4")) == wanted
    await store.aclose()


# --- durable runs, handoffs -----------------------------------------------------------------------------


def durable(folder: Path, *turns: Any, handoffs: Any = (), name: str = "clerk") -> ReactiveAgent:
    built = clerk(*turns, tools=(tool(idempotent=True)(add),)).with_name(name).with_sessions(folder / "s.db")
    built = built.with_handoffs(*handoffs) if handoffs else built
    made: ReactiveAgent = built.with_durability(folder / "r.db", recover=False).build()
    return made


async def hang(agent: ReactiveAgent, folder: Path, key: str) -> None:
    """Begin a run whose process ends before it records the entry of a key."""
    record = HangingRecord(folder / "r.db", key)
    agent.container.memory.record.override(Object(record))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: agent.run("Add it.", run_id="order-1", session="a"))
        await record.hanging.wait()
        group.cancel_scope.cancel()


@pytest.mark.parametrize(("key", "left"), [("t1=", 1), ("m2", 1), ("t2=", 2), ("m3", 2)])
async def test_a_continued_run_has_each_change_once_and_its_replay_and_fork_the_same(
    tmp_path: Path, key: str, left: int
) -> None:
    await durable(tmp_path, *adding("salt")).run("Add it.", session="a")
    turns = [call("add", item="tea"), call("add", item="milk"), answer("Both are in the cart.")]
    await hang(durable(tmp_path, *turns), tmp_path, key)
    resumed = durable(tmp_path, *turns[left:])
    result = await resumed.runs.resume("order-1")
    wanted = {"cart": ["salt", "tea", "milk"]}
    assert (result.state, await resumed.sessions.state("a")) == (wanted, wanted)
    again = await durable(tmp_path).run("Add it.", run_id="order-1", session="a")
    assert again.state == wanted
    replay = await durable(tmp_path).runs.replay("order-1")
    assert replay.difference == ""
    assert replay.outcome is not None
    assert replay.outcome.unwrap().state == wanted
    forking = durable(tmp_path, call("add", item="rice"), answer("Done."))
    forked = await forking.runs.resume(await forking.runs.fork("order-1", at=3))
    assert forked.state == {"cart": ["salt", "tea", "rice"]}


@pytest.mark.parametrize("own", [["tea"], []])
async def test_a_run_that_goes_on_keeps_the_changes_of_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, own: Any
) -> None:
    """What it assigned counts, also where it is the value with which it began."""

    @tool(idempotent=True)
    def put(ctx: RunContext, key: str, value: Any) -> None:
        """Put it."""
        ctx.state[key] = value

    def putting(*turns: Any) -> ReactiveAgent:
        builder = clerk(*turns, answer("Done."), tools=(put,)).with_name("clerk").with_session_state(FIRST)
        builder = builder.with_sessions(tmp_path / "s.db").with_durability(tmp_path / "r.db", recover=False)
        made: ReactiveAgent = builder.build()
        return made

    await hang(putting(call("put", key="cart", value=own)), tmp_path, "m2")
    other = putting(*(call("put", key=key, value=["milk"]) for key in ("cart", "plan")))
    await other.run("Put it.", session="a")
    assert not caplog.messages
    resumed = putting(call("put", key="mine", value=1))
    result = await resumed.runs.resume("order-1")
    assert result.state == {"cart": own, "plan": None, "mine": 1}
    wanted = {"cart": own, "plan": ["milk"], "mine": 1}
    assert await resumed.sessions.state("a") == wanted
    assert caplog.messages == [
        "Run order-1 and others since it began changed the same keys of the state of session 'a': 'cart'."
        " They have the values of the latest run."
    ]
    replay = await resumed.runs.replay("order-1")
    assert replay.outcome is not None
    assert (replay.difference, replay.outcome.unwrap().state) == ("", result.state)
    assert await resumed.sessions.state("a") == wanted


async def test_changes_of_calls_side_by_side_are_recorded_with_the_calls(tmp_path: Path) -> None:
    items = [f"item {number}" for number in range(20)]
    turn = calls(*(call("add", item=item) for item in items))
    await hang(durable(tmp_path, turn), tmp_path, "m2")
    result = await durable(tmp_path, answer("All are in the cart.")).runs.resume("order-1")
    cart: Any = result.state["cart"]
    assert sorted(cart) == sorted(items)


@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_agents_that_have_the_conversation_after_a_handoff_share_its_state(
    tmp_path: Path, is_cut_off: bool
) -> None:
    """Also if the process ends when the other agent has answered, and its run is not repeated."""
    inner = [call("add", item="milk"), answer("Both are in the cart.")]
    outer = [call("add", item="tea"), call("transfer-to-other")]
    if is_cut_off:
        other = durable(tmp_path, *inner, name="other")
        first = durable(tmp_path, *outer, handoffs=[handoff(other)])
        first.container.memory.record.override(Object(UnseenEnd(tmp_path / "r.db", clock=SystemClock())))
        with pytest.raises(AgentError, match="The server is gone"):
            await first.run("Add it.", run_id="order-1", session="a")
        inner, outer = [], []
    other = durable(tmp_path, *inner, name="other")
    agent = durable(tmp_path, *outer, handoffs=[handoff(other)])
    result = await agent.run("Add it.", run_id="order-1", session="a")
    assert (result.state, result.handoffs) == ({"cart": ["tea", "milk"]}, ("other",))
    assert await agent.sessions.state("a") == {"cart": ["tea", "milk"]}


class UnseenEnd(SqliteRunRecord):
    """A record that stores the outcome of a run, and loses its connection before it says so."""

    @effect
    async def end(self, run_id: RunId, holder: str, status: RunStatus, result: str) -> Any:
        await attempt(super().end(run_id, holder, status, result))
        return Failure(RecordFailed("The server is gone.", "end"))


async def test_an_agent_that_is_a_tool_has_a_state_of_its_own() -> None:
    inner = agent_tool(clerk(*adding("milk")).with_name("helper").build())
    agent = clerk(
        call("add", item="tea"), call("helper", task="Add milk."), answer("Done."), tools=(add, inner)
    )
    result = await agent.build().run("Add it.", session="a")
    assert result.state == {"cart": ["tea"]}
