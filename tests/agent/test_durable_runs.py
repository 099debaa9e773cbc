"""Runs that outlive their process: by their record, nothing is lost and nothing done twice."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing, closing, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast
from unittest.mock import ANY

import anyio
import anyio.lowlevel
import pytest
from attrs import evolve
from dependency_injector.providers import Object
from returns.maybe import Some
from returns.result import Failure, Result, Success

from reactive_agents import (
    AgentError,
    AgentResult,
    FunctionCheck,
    ReactiveAgent,
    ReactiveAgents,
    RunContext,
    agent_tool,
    handoff,
    tool,
)
from reactive_agents.adapters import run_record, sqlite
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.system import SystemClock
from reactive_agents.agent.runs import give_order
from reactive_agents.core.config import ModelTier
from reactive_agents.core.errors import (
    BudgetExceeded,
    KernelErrors,
    MalformedResponse,
    RecordFailed,
    RunCancelled,
    RunInterrupted,
    RunRefused,
    SessionUnavailable,
    root_cause,
)
from reactive_agents.core.events import (
    AgentEvent,
    ApprovalRequested,
    ExecutionPhaseFailed,
    ModelCallAbandoned,
    ModelCallStarted,
    RunContinued,
    TaskCompleted,
    ToolCallInDoubt,
)
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest, AuditEntry
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.messages import ToolCall, UserMessage
from reactive_agents.core.model_settings import ModelSettings
from reactive_agents.core.models import ModelRequest, ModelResponse, StreamCompleted, TokenPrice
from reactive_agents.core.results import doubt_in
from reactive_agents.core.run_record import EntryKind, RecordedRun, RunEntry, RunFilter, RunStatus
from reactive_agents.core.tasks import Task
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.usage import USAGE_RECORDER, RunUsage, Usage, total_usage
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import KernelContext, KernelState, transition_state
from reactive_agents.testing import AllowAll, EventRecorder, ScriptedLLM, answer, call, calls, say
from tests.support.models import RuledLLM, Said
from tests.support.sensible import sensible
from tests.support.sqlite_files import sqlite_file
from tests.support.waiting import closed_at, until

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


class Bank:
    """Payments, of which one hangs."""

    def __init__(self, hangs_at: int = 0) -> None:
        self.paid: list[tuple[int, str]] = []
        self.happened: list[str] = []
        self.hanging = anyio.Event()
        self.hangs_at = hangs_at

    async def pay(self, number: int, context: RunContext) -> str:
        """Make a payment."""
        if number == self.hangs_at:
            self.hanging.set()
            await anyio.sleep_forever()
        self.paid.append((number, context.idempotency_key))
        self.happened.append("call")
        return f"paid {number}"

    @property
    def numbers(self) -> list[int]:
        return [number for number, _ in self.paid]


def agent(
    path: Path, bank: Bank, llm: ScriptedLLM, *, options: Any = None, **durability: Any
) -> ReactiveAgent:
    paying = tool(**(options or {}))(bank.pay)
    described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(paying)
    return described.with_durability(path, recover=False, **durability).build()


async def interrupted(path: Path, bank: Bank, *, options: Any = None, **durability: Any) -> None:
    """Leave a run during its second payment, as a process that is shut down does."""
    llm = ScriptedLLM(call("pay", number=1), call("pay", number=2))
    await cut_off(agent(path, bank, llm, options=options, **durability), bank)


async def cut_off(running: ReactiveAgent, bank: Bank) -> None:
    """Cancel a run at the payment that hangs."""
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: running.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()


def approving_agent(path: Path, bank: Bank, *turns: Any, **options: Any) -> ReactiveAgent:
    """An agent with approval, whose run stops at a call in doubt."""
    clerk = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
    clerk = clerk.with_tools(tool(**options)(bank.pay)).with_approval(timeout_s=60)
    return clerk.with_durability(path, recover=False, in_doubt="fail").build()


async def test_a_run_that_has_ended_gives_its_result_without_a_model_call(tmp_path: Path) -> None:
    bank = Bank()
    first = await agent(tmp_path / "r.db", bank, ScriptedLLM(call("pay", number=1), answer("Done."))).run(
        "Pay.", run_id="order-1"
    )
    again = agent(tmp_path / "r.db", bank, ScriptedLLM())
    events = EventRecorder()
    again.subscribe(events)
    second = await again.run("Pay.", run_id="order-1")
    assert second == first
    assert bank.numbers == [1]
    assert events.of(TaskCompleted)[-1].result == first


@pytest.mark.parametrize(
    ("given", "calls_made"), [({}, 2), ({"budget": {"requests": 3}, "accept_changes": True}, 3)]
)
async def test_a_continued_run_keeps_its_budget_unless_it_is_given_another(
    tmp_path: Path, given: Any, calls_made: int
) -> None:
    path, bank = tmp_path / "r.db", Bank(hangs_at=2)
    running = agent(path, bank, ScriptedLLM(call("pay", number=1), call("pay", number=2)))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: running.run("Pay.", run_id="order-1", budget={"requests": 2}))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    again = agent(path, Bank(), ScriptedLLM(call("pay", number=3), answer("Paid.")))
    run = again.run("Pay.", run_id="order-1", **given) if given else again.runs.resume("order-1")
    result = await run
    assert (result.status, result.metadata.model_calls) == ("partial", calls_made)
    assert result.reason.startswith(f"The limit of {calls_made} model calls was reached.")
    replayed = await again.runs.replay("order-1")
    assert given or not replayed.difference


async def test_a_run_that_has_ended_gives_its_result_from_a_file_that_cannot_be_written(
    tmp_path: Path,
) -> None:
    bank, path = Bank(), tmp_path / "r.db"
    first = await agent(path, bank, ScriptedLLM(call("pay", number=1), answer("Done."))).run(
        "Pay.", run_id="order-1"
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        again = agent(path, bank, ScriptedLLM())
        assert await again.run("Pay.", run_id="order-1") == first
        assert await again.runs.resume("order-1") == first


async def test_a_run_goes_on_in_its_files_when_a_tool_changes_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is that of the directory where the agent was first used."""
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    @tool(idempotent=True)
    async def enter() -> str:
        """Enter the other directory."""
        os.chdir(elsewhere)
        return "entered"

    llm = ScriptedLLM(call("enter"), answer("The other directory is entered."))
    described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(enter)
    described = described.with_sessions("s.db").with_memory("m.db").with_cost("c.db").with_audit("a.db")
    one = described.with_run_log("l.db").with_durability("r.db", recover=False).build()
    failures: list[ExecutionPhaseFailed] = []
    one.subscribe(lambda event: failures.append(event) if isinstance(event, ExecutionPhaseFailed) else None)
    result = await one.run("Enter it.", run_id="r", session="s", user="u")
    assert (await one.run("Enter it.", run_id="r", session="s", user="u")).output == result.output
    await one.aclose()
    assert (failures, os.listdir(elsewhere)) == ([], [])


async def test_another_task_under_the_same_id_is_refused(tmp_path: Path) -> None:
    await agent(tmp_path / "r.db", Bank(), ScriptedLLM(answer("Done."))).run("Pay.", run_id="order-1")
    other = agent(tmp_path / "r.db", Bank(), ScriptedLLM(answer("Done.")))
    with pytest.raises(AgentError) as refused:
        await other.run("Pay twice.", run_id="order-1")
    assert refused.value.error == RunRefused("order-1", "has another task: input differs")
    with pytest.raises(AgentError) as refused:
        await other.run("Pay.", run_id="order-1", user="ada", metadata={"request": 1})
    assert refused.value.error == RunRefused("order-1", "has another task: user and metadata differ")


async def test_the_id_of_a_run_of_another_agent_is_refused(tmp_path: Path) -> None:
    def named(name: str) -> ReactiveAgent:
        described = ReactiveAgents.create().with_name(name).with_llm(ScriptedLLM(say("Hello there.")))
        return described.with_reasoning().with_durability(tmp_path / "r.db", recover=False).build()

    await named("a").run("Greet me.", run_id="order-1")
    other = named("b")
    other.runs.ensure_worker = lambda queue: None  # type: ignore[method-assign]
    for ask in (other.run, other.submit):
        with pytest.raises(AgentError) as refused:
            await ask("Greet me.", run_id="order-1")
        assert refused.value.error == RunRefused("order-1", "belongs to the agent 'a'")
    assert await other.runs.list() == ()


class BrokenRecord:
    """A record of which one method raises, or is not there."""

    def __init__(self, record: Any, method: str, *, lacks: bool = False) -> None:
        self._record, self._method, self._lacks = record, method, lacks

    def __getattr__(self, name: str) -> Any:
        if name != self._method:
            return getattr(self._record, name)
        if self._lacks:
            raise AttributeError(name)
        return self._fail

    async def _fail(self, *_: object, **__: object) -> None:
        raise KeyError("no such row")


@pytest.mark.parametrize("lacks", [False, True])
@pytest.mark.parametrize("method", ["claim", "append", "end"])
async def test_a_record_that_breaks_its_port_is_named_and_loses_no_answer(
    tmp_path: Path, method: str, lacks: bool
) -> None:
    one = agent(tmp_path / "r.db", Bank(), llm := ScriptedLLM(call("pay", number=1), answer("Paid.")))
    record = one.container.memory.record().unwrap()
    one.container.memory.record.override(Object(BrokenRecord(record, method, lacks=lacks)))
    with pytest.raises(AgentError, match=r"record service BrokenRecord (raised KeyError|has no)") as failed:
        await one.run("Pay.", run_id="order-1")
    assert isinstance(root_cause(failed.value.error), RecordFailed)
    did = failed.value.metadata
    assert did is not None
    assert (did.model_calls, did.tokens_used) == (len(llm.requests), 15 * len(llm.requests))
    assert bool(failed.value.steps) == (method == "end")  # the call of pay was not begun without a record
    again = agent(tmp_path / "r.db", Bank(), later := ScriptedLLM(call("pay", number=1), answer("Paid.")))
    assert (await again.run("Pay.", run_id="order-1")).output == "Paid."
    asked = {"claim": (0, 2), "append": (0, 2), "end": (2, 0)}  # the first time, and again
    assert (len(llm.requests), len(later.requests)) == asked[method]


@pytest.mark.parametrize("broken", ["definitions", "model"])
async def test_what_a_durable_run_is_described_by_is_named_where_it_breaks(
    tmp_path: Path, broken: str
) -> None:
    class NumberedLLM(ScriptedLLM):
        model = property(lambda self: 5, lambda self, _: None)  # type: ignore[assignment]

    llm = NumberedLLM(answer("Paid.")) if broken == "model" else ScriptedLLM(answer("Paid."))
    one = agent(tmp_path / "r.db", Bank(), llm)
    if broken == "definitions":
        tools = BrokenRecord(None, "definitions")
        one.container.tooling.tools.override(Object(Some(tools)))
    with pytest.raises(AgentError, match=r"The tool service BrokenRecord|model of the llm service"):
        await one.run("Pay.", run_id="order-1")


async def test_a_recorded_output_of_another_type_is_refused(tmp_path: Path) -> None:
    """A result without its value would look like one whose value is ``None``."""

    def typed(output: Any, *turns: Any) -> ReactiveAgent:
        described = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        return described.with_output_type(output).with_durability(tmp_path / "r.db", recover=False).build()

    assert (await typed(list[int], say("[1, 2]")).run("Count.", run_id="r1")).output == [1, 2]
    changed = typed(dict[str, int])
    for again in (changed.run("Count.", run_id="r1"), changed.runs.resume("r1"), changed.runs.wait("r1")):
        with pytest.raises(AgentError, match="has an output that is no dict"):
            await again
    assert (await changed.run("Count.", run_id="r1", output=list[int])).output == [1, 2]


async def test_a_recorded_result_that_is_not_completed_has_no_value_of_another_type(tmp_path: Path) -> None:
    def typed(*turns: Any) -> ReactiveAgent:
        described = ReactiveAgents.create().with_llm(ScriptedLLM(*turns))
        return described.with_durability(tmp_path / "r.db", recover=False).build()

    begun = await typed(*[say("It is not known.")] * 9).run("Count.", run_id="r1", output=int)
    assert begun.status == "partial"
    for kind in (int, list[int]):
        again = await typed().run("Count.", run_id="r1", output=kind)
        assert (again.status, again.output, again.reason) == ("partial", None, begun.reason)
    assert (await typed().run("Count.", run_id="r1")).output == "It is not known."


async def test_without_durability_a_run_id_is_used_once() -> None:
    plain = (
        ReactiveAgents.create().with_llm(ScriptedLLM(*[answer("It is said.")] * 6)).with_reasoning().build()
    )
    assert (await plain.run("Say it.", run_id="one")).run_id == RunId("one")
    with pytest.raises(AgentError) as refused:
        await plain.run("Say it.", run_id="one")
    assert isinstance(refused.value.error, RunRefused)
    assert (await plain.run("Say it.")).output == "It is said."


async def test_an_interrupted_run_goes_on_and_reports_the_call_in_doubt(tmp_path: Path) -> None:
    bank = Bank(hangs_at=2)
    await interrupted(tmp_path / "r.db", bank)
    llm = ScriptedLLM(call("pay", number=3), answer("Paid 1 and 3; 2 is in doubt."))
    resumed = agent(tmp_path / "r.db", bank, llm)
    events = EventRecorder()
    resumed.subscribe(events)
    result = await resumed.run("Pay.", run_id="order-1")
    assert bank.numbers == [1, 3]
    assert [(each.handling, each.key) for each in events.of(ToolCallInDoubt)] == [("told", "order-1:t2")]
    assert events.of(RunContinued)[0].attempt == 2
    assert "may have taken effect" in llm.requests[0].messages[-1].content
    assert (result.status, result.metadata.terminated_by) == ("partial", "in_doubt")
    assert result.reason.startswith("The call of pay is in doubt: its result is not known")
    assert result.metadata.model_calls == 4  # two of the first process, two of the second


@pytest.mark.parametrize("said", ["I have paid number 1.", "It is in doubt whether number 1 was paid."])
async def test_a_required_call_that_is_in_doubt_is_not_asked_for_again(tmp_path: Path, said: str) -> None:
    """The task names the tool; the model is told not to make the call before it knows more."""
    bank, task = Bank(hangs_at=1), "Use the pay tool for number 1."
    running = agent(tmp_path / "r.db", bank, ScriptedLLM(call("pay", number=1)))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: running.run(task, run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    llm = ScriptedLLM(answer(said))
    result = await agent(tmp_path / "r.db", bank, llm).run(task, run_id="order-1")
    assert (result.output, len(llm.requests), bank.numbers) == (said, 1, [])
    assert (result.status, result.metadata.terminated_by) == ("partial", "in_doubt")
    assert result.reason.startswith("The call of pay is in doubt")


async def test_a_run_that_is_partial_for_another_cause_names_the_doubt_too(tmp_path: Path) -> None:
    bank = Bank(hangs_at=2)
    await interrupted(tmp_path / "r.db", bank)
    asking = agent(tmp_path / "r.db", bank, ScriptedLLM(*[call("pay", number=1)] * 9))
    result = await asking.run("Pay.", run_id="order-1")
    assert (result.status, result.metadata.terminated_by) == ("partial", "loop_detection")
    assert "The call of pay is in doubt" in result.reason


async def test_an_idempotent_call_is_made_again_with_the_same_key(tmp_path: Path) -> None:
    bank = Bank(hangs_at=2)
    await interrupted(tmp_path / "r.db", bank, options={"idempotent": True})
    bank.hangs_at = 0
    resumed = agent(tmp_path / "r.db", bank, ScriptedLLM(answer("Done.")), options={"idempotent": True})
    events = EventRecorder()
    resumed.subscribe(events)
    await resumed.run("Pay.", run_id="order-1")
    assert bank.paid == [(1, "order-1:t1"), (2, "order-1:t2")]
    assert [(each.handling, each.key) for each in events.of(ToolCallInDoubt)] == [("repeated", "order-1:t2")]


def note_writes(agent: ReactiveAgent, happened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Note each entry that is written, each commit of such entries, and each wait for the disk.

    The lease of a run is renewed at any time, so that its commits are not noted.
    """

    def to_disk(log: int) -> None:
        os.fsync(log)
        happened.append("disk")

    monkeypatch.setattr(sqlite, "_DATA_TO_DISK", to_disk)
    database: Any = cast(SqliteRunRecord, agent.container.memory.record().unwrap())._file

    def traced(connect: Any = database._connect) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect()
        connection.set_trace_callback(seen)
        return connection

    uncommitted = list[str]()

    def seen(statement: str) -> None:
        entries = [each for each in ("model", "intent", "result") if f"'{each}'" in statement]
        happened.extend(entries)
        uncommitted.extend(entries)
        if statement == "COMMIT" and uncommitted:
            happened.append("commit")
            uncommitted.clear()

    database._connect = traced


@pytest.mark.parametrize("idempotent", [False, True])
async def test_what_is_recorded_before_a_call_that_must_not_be_repeated_is_on_the_disk(
    tmp_path: Path, idempotent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    def pay(number: int) -> str:
        """Make a payment."""
        happened.append("call")
        return f"paid {number}"

    model = ScriptedLLM(call("pay", number=1), answer("Paid."))
    described = ReactiveAgents.create().with_llm(model).with_reasoning()
    paying = described.with_tools(tool(idempotent=idempotent)(pay)).with_durability(tmp_path / "r.db").build()
    note_writes(paying, happened, monkeypatch)
    await paying.run("Pay.", run_id="order-1")
    begun, ended = happened.index("model"), len(happened) - happened[::-1].index("model") - 1
    waited = [] if idempotent else ["disk"]
    assert happened[begun:ended] == ["model", "intent", "commit", *waited, "call", "result", "commit"]
    assert happened[ended:] == ["model", "commit", "disk"]  # the last answer, at the end
    await paying.aclose()


@pytest.mark.parametrize(
    ("found", "paid", "told"),
    [(True, [1], "It was done"), ("receipt 17", [1], "receipt 17"), (False, [1, 2], "paid 2")],
)
async def test_a_probe_settles_the_doubt(tmp_path: Path, found: Any, paid: list[int], told: str) -> None:
    bank, asked = Bank(hangs_at=2), list[str]()

    async def was_done(key: str) -> Any:
        asked.append(key)
        return found

    await interrupted(tmp_path / "r.db", bank, options={"was_done": was_done})
    bank.hangs_at = 0
    llm = ScriptedLLM(answer("Done."))
    await agent(tmp_path / "r.db", bank, llm, options={"was_done": was_done}).run("Pay.", run_id="order-1")
    assert asked == ["order-1:t2"]
    assert bank.numbers == paid
    assert told in llm.requests[0].messages[-1].content


async def test_a_probe_that_does_not_know_leaves_the_call_in_doubt(tmp_path: Path) -> None:
    """One that hangs has the time of a call, and does not hold up the event loop."""
    ended = threading.Event()
    probes = (
        lambda key: ended.wait(),
        lambda key: Failure("unreachable"),
        lambda key: sys.exit(1),
        lambda key: None,  # such as one that ends without a return
    )
    for number, was_done in enumerate(probes):
        bank, path = Bank(hangs_at=2), tmp_path / f"{number}.db"
        await interrupted(path, bank, options={"was_done": was_done})
        bank.hangs_at = 0
        llm = ScriptedLLM(answer("Paid 1; 2 is in doubt."))
        resumed = agent(path, bank, llm, options={"was_done": was_done, "timeout_s": 0.05})
        await resumed.run("Pay.", run_id="order-1", accept_changes=True)
        assert bank.numbers == [1]
        assert "may have taken effect" in llm.requests[0].messages[-1].content
    ended.set()


async def test_a_doubt_stops_the_run_where_that_is_wanted(tmp_path: Path) -> None:
    bank = Bank(hangs_at=2)
    await interrupted(tmp_path / "r.db", bank, in_doubt="fail")
    stopped = agent(tmp_path / "r.db", bank, ScriptedLLM(answer("Done.")), in_doubt="fail")
    for _ in range(2):
        with pytest.raises(AgentError) as refused:
            await stopped.run("Pay.", run_id="order-1")
        assert isinstance(refused.value.error, RunInterrupted)
    assert bank.numbers == [1]


async def test_a_doubt_in_the_run_of_another_agent_stops_its_caller_too(tmp_path: Path) -> None:
    """The caller says how calls in doubt are settled for an agent without a record of its own."""
    bank = Bank(hangs_at=1)

    def described(outer: ScriptedLLM, inner: ScriptedLLM) -> ReactiveAgent:
        payer = ReactiveAgents.create().with_name("payer").with_llm(inner).with_reasoning()
        clerk = ReactiveAgents.create().with_llm(outer).with_reasoning()
        clerk = clerk.with_tools(agent_tool(payer.with_tools(bank.pay).build()))
        return clerk.with_durability(tmp_path / "r.db", in_doubt="fail", recover=False).build()

    first = described(ScriptedLLM(call("payer", task="Pay 1.")), ScriptedLLM(call("pay", number=1)))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    outer, inner = ScriptedLLM(answer("1 is paid.")), ScriptedLLM(answer("Paid 1."))
    later = described(outer, inner)
    with pytest.raises(AgentError, match="may have taken effect; settle it") as stopped:
        await later.runs.resume("order-1")
    error = stopped.value.error
    (question,) = await later.runs.questions()
    assert isinstance(error, RunInterrupted)
    assert error.run_id == "order-1"  # which can be resumed
    assert error.reason.startswith(f"its sub-run {question.run_id!r} cannot go on: the call t1 of pay")
    assert (outer.requests, inner.requests) == ([], [])
    await later.runs.answer(question.run_id, "receipt 17")
    assert (await later.runs.resume("order-1")).output == "1 is paid."
    assert "receipt 17" in inner.requests[0].messages[-1].content
    assert bank.numbers == []


@pytest.mark.parametrize(
    ("own", "callers", "holds"),
    [("tell", "fail", "fail"), ("fail", "tell", "fail"), ("ask", "tell", "ask"), ("tell", "tell", "tell")],
)
async def test_of_an_agent_and_its_caller_the_stricter_setting_for_calls_in_doubt_holds(
    tmp_path: Path, own: Any, callers: Any, holds: str
) -> None:
    bank, asked = Bank(hangs_at=1), list[str]()

    async def deny(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request.tool_name)
        return ApprovalDecision(False)

    def described(outer: ScriptedLLM, inner: ScriptedLLM) -> ReactiveAgent:
        payer = ReactiveAgents.create().with_name("payer").with_llm(inner).with_reasoning()
        payer = payer.with_tools(bank.pay).with_approval(deny)
        payer = payer.with_durability(tmp_path / "own.db", in_doubt=own, recover=False)
        clerk = ReactiveAgents.create().with_llm(outer).with_reasoning().with_approval(deny)
        clerk = clerk.with_tools(agent_tool(payer.build()))
        return clerk.with_durability(tmp_path / "r.db", in_doubt=callers, recover=False).build()

    first = described(ScriptedLLM(call("payer", task="Pay 1.")), ScriptedLLM(call("pay", number=1)))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    later = described(ScriptedLLM(*[answer("1 may be paid.")] * 2), ScriptedLLM(answer("1 may be paid.")))
    if holds == "fail":
        with pytest.raises(AgentError, match="may have taken effect; settle it"):
            await later.runs.resume("order-1")
        return
    assert (await later.runs.resume("order-1")).status == "partial"
    assert asked == (["pay"] if holds == "ask" else [])


@pytest.mark.parametrize("hands_over", [False, True])
async def test_an_agent_with_a_key_is_refused_below_a_caller_that_would_record_it_in_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hands_over: bool
) -> None:
    secret = ReactiveAgents.create().with_name("secret").with_llm(ScriptedLLM(*[answer("A pear.")] * 2))
    secret = secret.with_reasoning().with_durability(tmp_path / "own.db", recover=False, key=b"k" * 32)
    built = secret.build()

    def caller(*turns: Any, **durability: Any) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        one = one.with_handoffs(later) if hands_over else one.with_tools(agent_tool(built))
        return one.with_durability(tmp_path / "r.db", recover=False, **durability).build()

    later = handoff(lambda: built, name="secret")  # found in the run alone
    name = "transfer-to-secret" if hands_over else "secret"
    turns = call(name, **({} if hands_over else {"task": "Name a fruit."})), *[answer("A pear.")] * 2
    if hands_over:
        agent = caller(*turns)
        with pytest.raises(AgentError, match="'secret', which encrypts its runs"):
            await agent.run("Name a fruit.", run_id="r")
        assert b"pear" not in (tmp_path / "r.db").read_bytes()
        assert (await agent.runs.find("r")).state == "interrupted"
        assert "pear" in ((await caller(*turns, key=b"o" * 32).runs.resume("r")).output or "")
        return
    with pytest.raises(AgentError, match="'secret', whose runs are encrypted"):
        caller()
    monkeypatch.setenv("REACTIVE_AGENTS_RUNS_KEY", "A" * 43)
    assert (await caller(*turns).run("Name a fruit.", run_id="r")).output == "A pear."
    with closing(sqlite3.connect(tmp_path / "r.db")) as file:
        assert all(task.startswith("sealed:") for (task,) in file.execute("SELECT task FROM runs"))


async def keep_error(context: RunContext, made: ToolCall, run: Any) -> ToolResult:
    """Return the result of a call as it is."""
    result: ToolResult = await run(made.arguments)
    return result


async def swallow_error(context: RunContext, made: ToolCall, run: Any) -> ToolResult:
    """Return a result that hides the error of a call."""
    return evolve(await run(made.arguments), error="", result="All went well.")


@pytest.mark.parametrize("wrappers", [(), (keep_error,), (swallow_error,)])
@pytest.mark.parametrize("ends", ["completed", "at its limit", "with an error"])
async def test_a_doubt_in_the_run_of_another_agent_is_one_of_its_caller(
    tmp_path: Path, ends: str, wrappers: tuple[Any, ...]
) -> None:
    bank = Bank(hangs_at=1)

    def described(outer: ScriptedLLM, inner: ScriptedLLM) -> ReactiveAgent:
        payer = ReactiveAgents.create().with_name("payer").with_llm(inner).with_reasoning()
        payer = payer.with_tools(bank.pay)
        payer = payer.with_max_iterations(2) if ends == "at its limit" else payer
        clerk = ReactiveAgents.create().with_llm(outer).with_reasoning()
        clerk = clerk.with_tools(agent_tool(payer.build()))
        for wrapper in wrappers:
            clerk = clerk.with_tool_wrapper(wrapper)
        return clerk.with_durability(tmp_path / "r.db", recover=False).build()

    first = described(ScriptedLLM(call("payer", task="Pay 1.")), ScriptedLLM(call("pay", number=1)))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    rest: dict[str, list[Any]] = {
        "completed": [answer("1 may be paid.")],
        "at its limit": [call("pay", number=3)],
        "with an error": [],
    }
    outer, inner = (
        ScriptedLLM(*[answer("It is in doubt whether 1 was paid: it may have taken effect.")] * 2),
        ScriptedLLM(*rest[ends]),
    )
    result = await described(outer, inner).runs.resume("order-1")
    assert (result.status, result.metadata.terminated_by) == ("partial", "in_doubt")
    assert result.reason.startswith("The call of payer is in doubt: its result is not known")
    observed = outer.requests[0].messages[-1].content
    if wrappers == (swallow_error,):
        assert observed == "All went well."
    else:
        assert "The call of pay is in doubt" in observed
        assert "may have taken effect" in observed
    (seen,) = (step.metadata for step in result.steps if step.type == "observation")
    assert seen is not None
    assert seen.origin == "in_doubt"


async def test_without_an_approver_nobody_is_asked_about_a_doubt(tmp_path: Path) -> None:
    """The model is told at once, so that a later approval would have no effect."""
    bank = Bank(hangs_at=2)
    await interrupted(tmp_path / "r.db", bank, in_doubt="ask")
    resumed = agent(tmp_path / "r.db", bank, ScriptedLLM(answer("2 is in doubt.")), in_doubt="ask")
    await resumed.run("Pay.", run_id="order-1")
    assert bank.numbers == [1]
    with closing(sqlite3.connect(tmp_path / "r.db")) as file:
        assert file.execute("SELECT key FROM run_entries WHERE kind = 'question'").fetchall() == []


async def test_a_call_is_still_in_doubt_if_its_run_is_stopped_while_a_person_is_asked(tmp_path: Path) -> None:
    path, bank, ended = tmp_path / "r.db", Bank(hangs_at=2), list[AgentResult]()
    options: Any = {"risk": "medium", "description": "Pay a bill."}
    await interrupted(path, bank, options=options, in_doubt="ask")
    described = ReactiveAgents.create().with_llm(ScriptedLLM()).with_reasoning()
    described = described.with_tools(tool(**options)(bank.pay)).with_approval(timeout_s=60)
    waiting = described.with_durability(path, recover=False, in_doubt="ask").build()

    async def resume() -> None:
        ended.append(await waiting.runs.resume("order-1"))

    async with anyio.create_task_group() as group:
        group.start_soon(resume)
        while not await waiting.runs.questions("order-1"):
            await anyio.lowlevel.checkpoint()
        await waiting.runs.stop("order-1")
    assert ended[0].steps[-1].is_declined_or_in_doubt
    assert ended[0].steps[-1].content == "Cut off with the run; it may have taken effect."


def is_told(path: Path) -> bool:
    """Return whether the record says that the run log has a question."""
    with closing(sqlite3.connect(path)) as file:
        return file.execute("SELECT 1 FROM run_entries WHERE key LIKE '%?+'").fetchone() is not None


@pytest.mark.parametrize(
    ("settle", "paid", "told"),
    [
        (lambda runs: runs.approve("order-1"), [1, 2], "paid 2"),
        (lambda runs: runs.deny("order-1"), [1], "may have taken effect"),
        (lambda runs: runs.answer("order-1", "receipt 17"), [1], "receipt 17"),
    ],
)
async def test_a_doubt_is_asked_about_over_a_restart_and_settled_by_another_process(
    tmp_path: Path, settle: Any, paid: list[int], told: str
) -> None:
    path, bank = tmp_path / "r.db", Bank(hangs_at=2)
    await interrupted(path, bank, in_doubt="ask")
    bank.hangs_at = 0

    def asking(llm: ScriptedLLM) -> ReactiveAgent:
        described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(tool(bank.pay))
        described = described.with_approval(timeout_s=60)
        return described.with_durability(path, recover=False, in_doubt="ask").build()

    for _ in range(2):  # two processes that ask, and end before anybody answers
        asked, first = anyio.Event(), asking(ScriptedLLM())
        first.subscribe(lambda event, asked=asked: isinstance(event, ApprovalRequested) and asked.set())
        async with anyio.create_task_group() as group:
            group.start_soon(lambda one=first: one.run("Pay.", run_id="order-1"))
            await asked.wait()
            await until(partial(is_told, path))
            group.cancel_scope.cancel()
    assert bank.numbers == [1]
    other = agent(path, bank, ScriptedLLM())
    (question,) = await other.runs.questions()
    assert (question.kind, question.request["arguments"]) == ("doubt", {"number": 2})
    await settle(other.runs)
    llm = ScriptedLLM(*[answer("It is settled.")] * 2)
    last = asking(llm)
    events = EventRecorder()
    last.subscribe(events)
    assert (await last.run("Pay.", run_id="order-1")).output == "It is settled."
    assert bank.numbers == paid
    assert told in llm.requests[0].messages[-1].content
    assert events.of(ApprovalRequested) == []  # it is not asked again
    assert len(events.of(ToolCallInDoubt)) == 1


async def test_a_doubt_is_settled_while_the_run_waits_for_it(tmp_path: Path) -> None:
    path, bank, asked = tmp_path / "r.db", Bank(hangs_at=2), anyio.Event()
    await interrupted(path, bank, in_doubt="ask")
    bank.hangs_at = 0
    described = (
        ReactiveAgents.create().with_reasoning().with_tools(tool(bank.pay)).with_approval(timeout_s=60)
    )
    described = described.with_llm(ScriptedLLM(answer("It is paid.")))
    waiting = described.with_durability(path, recover=False, in_doubt="ask").build()
    waiting.subscribe(lambda event: asked.set() if isinstance(event, ApprovalRequested) else None)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: waiting.run("Pay.", run_id="order-1"))
        await asked.wait()
        await agent(path, bank, ScriptedLLM()).runs.approve("order-1")
    assert bank.paid == [(1, "order-1:t1"), (2, "order-1:t2")]


async def test_a_call_in_doubt_that_was_approved_is_asked_about_again_when_its_process_died_too(
    tmp_path: Path,
) -> None:
    path, bank = tmp_path / "r.db", Bank(hangs_at=2)
    await interrupted(path, bank, in_doubt="ask")
    approved = agent(path, bank, ScriptedLLM(), in_doubt="fail")
    with pytest.raises(AgentError):
        await approved.run("Pay.", run_id="order-1")
    await approved.runs.approve("order-1")
    bank.hanging = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: approved.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()  # the payment is under way once more
        group.cancel_scope.cancel()
    bank.hangs_at = 0
    with pytest.raises(AgentError) as stopped:
        await approved.run("Pay.", run_id="order-1")
    assert isinstance(stopped.value.error, RunInterrupted)
    assert bank.numbers == [1]
    assert [each.key for each in await approved.runs.questions()] == ["t2!?"]
    await approved.runs.approve("order-1")
    last = agent(path, bank, ScriptedLLM(answer("It is paid.")), in_doubt="fail")
    assert (await last.run("Pay.", run_id="order-1")).output == "It is paid."
    assert bank.paid == [(1, "order-1:t1"), (2, "order-1:t2")]


async def test_a_call_in_doubt_is_made_again_after_its_second_intent_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a loss of power, its approval would otherwise hold for one more attempt."""
    path, bank, happened = tmp_path / "r.db", Bank(hangs_at=2), list[str]()
    await interrupted(path, bank, in_doubt="fail")
    one = agent(path, bank, ScriptedLLM(answer("It is paid.")), in_doubt="fail")
    with pytest.raises(AgentError):
        await one.run("Pay.", run_id="order-1")
    await one.runs.approve("order-1")
    await one.aclose()
    note_writes(one, happened, monkeypatch)
    bank.hangs_at, bank.happened = 0, happened
    await one.run("Pay.", run_id="order-1")
    before = happened[: happened.index("call")]
    intended = len(before) - 1 - before[::-1].index("intent")
    committed = before.index("commit", intended)
    assert "disk" in before[committed:]  # a renewal of the lease may come between
    await one.aclose()


async def test_each_process_that_continues_the_run_reports_the_call_in_doubt(tmp_path: Path) -> None:
    """The one before may have died before anybody was told."""
    bank = Bank(hangs_at=2)
    await interrupted(tmp_path / "r.db", bank)
    bank.hangs_at, bank.hanging = 3, anyio.Event()
    told: list[tuple[str, str]] = []

    def note(event: AgentEvent) -> None:
        if isinstance(event, ToolCallInDoubt):
            told.append((event.key, event.handling))

    second = agent(tmp_path / "r.db", bank, ScriptedLLM(call("pay", number=3)))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: second.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    third = agent(tmp_path / "r.db", bank, ScriptedLLM(*[answer("2 and 3 are in doubt.")] * 2))
    third.subscribe(note)
    await third.run("Pay.", run_id="order-1")
    assert told == [("order-1:t2", "told"), ("order-1:t3", "told")]


async def test_a_run_whose_coroutine_was_closed_is_continued_without_waiting_for_its_lease(
    tmp_path: Path,
) -> None:
    bank = Bank(hangs_at=2)
    first = agent(tmp_path / "r.db", bank, ScriptedLLM(call("pay", number=1), call("pay", number=2)))
    await closed_at(bank.hanging, first.run("Pay.", run_id="order-1"))
    again = agent(tmp_path / "r.db", bank, ScriptedLLM(answer("One is paid.")))
    assert (await again.runs.find("order-1")).state == "interrupted"
    assert (await again.run("Pay.", run_id="order-1")).output == "One is paid."
    assert bank.numbers == [1]


async def test_the_run_log_has_all_events_before_the_run_has_ended(tmp_path: Path) -> None:
    """A run that has ended is not run again, so that its log would lack what was not written."""
    log, there = tmp_path / "log.db", list[Counter[str]]()

    class Record(SqliteRunRecord):
        @effect
        async def end(self, run_id: RunId, holder: str, status: RunStatus, result: str) -> Any:
            with closing(sqlite3.connect(log)) as file:
                there.append(Counter(kind for (kind,) in file.execute("SELECT kind FROM run_events")))
            return await attempt(super().end(run_id, holder, status, result))

    llm = ScriptedLLM(*[answer("It is said.")] * 2)
    described = ReactiveAgents.create().with_llm(llm).with_reasoning()
    one = described.with_run_log(log).with_durability(tmp_path / "r.db").build()
    one.container.memory.record.override(Object(Record(tmp_path / "r.db", clock=SystemClock())))
    events = EventRecorder()
    one.subscribe(events)
    await one.run("Say it.", run_id="order-1")
    assert there == [Counter(type(each).__name__ for each in events.events)]
    assert there[0]["TaskCompleted"] == 1


async def test_parallel_calls_are_each_done_once(tmp_path: Path) -> None:
    bank = Bank(hangs_at=2)
    llm = ScriptedLLM(calls(*(call("pay", number=number) for number in (1, 2, 3))))
    first = agent(tmp_path / "r.db", bank, llm)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()
        while len(bank.paid) < 2:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    resumed = agent(tmp_path / "r.db", bank, ScriptedLLM(*[answer("Payment 2 is in doubt.")] * 2))
    result = await resumed.run("Pay.", run_id="order-1")
    assert sorted(bank.numbers) == [1, 3]
    assert result.output == "Payment 2 is in doubt."


async def test_a_run_under_way_elsewhere_is_waited_for(tmp_path: Path) -> None:
    bank = Bank()
    gate = anyio.Event()

    async def slow(number: int) -> str:
        """Make a payment slowly."""
        bank.hanging.set()
        await gate.wait()
        return f"paid {number}"

    def paying(llm: ScriptedLLM) -> ReactiveAgent:
        described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(slow)
        return described.with_durability(tmp_path / "r.db").build()

    results: list[Any] = []

    async def run(one: ReactiveAgent) -> None:
        results.append(await one.run("Pay.", run_id="order-1"))

    async with anyio.create_task_group() as group:
        group.start_soon(run, paying(ScriptedLLM(call("slow", number=1), answer("Done."))))
        await bank.hanging.wait()
        group.start_soon(run, paying(ScriptedLLM()))
        await anyio.sleep(0.05)
        gate.set()
    assert [each.output for each in results] == ["Done.", "Done."]


async def test_a_process_that_lost_its_run_stops_before_the_next_call(tmp_path: Path) -> None:
    bank = Bank()

    async def taken_over(number: int) -> str:
        """Make a payment, meanwhile another process takes the run over."""
        bank.paid.append((number, ""))
        with sqlite_file(tmp_path / "r.db") as file:
            file.execute("UPDATE runs SET holder = 'another'")
        return "paid"

    llm = ScriptedLLM(call("taken_over", number=1), call("taken_over", number=2), answer("Done."))
    described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(taken_over)
    with pytest.raises(AgentError) as lost:
        await described.with_durability(tmp_path / "r.db").build().run("Pay.", run_id="order-1")
    assert isinstance(lost.value.error, RunInterrupted)
    assert bank.numbers == [1]


async def test_a_process_that_lost_its_run_waits_no_longer_for_a_person(tmp_path: Path) -> None:
    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        raise AssertionError("the run belongs to another process")

    described = ReactiveAgents.create().with_llm(ScriptedLLM(call("send", to="Ann"))).with_reasoning()
    described = described.with_tools(send).with_approval(timeout_s=86_400)
    one = described.with_durability(tmp_path / "r.db").build()

    async def take_over() -> None:
        record, told = one.container.memory.record().unwrap(), False
        while not told:  # from then on it writes nothing until somebody decides
            entries = (await attempt(record.entries(RunId("order-1")))).unwrap()
            told = any(each.key == "t1/q1?+" for each in entries)
        with sqlite_file(tmp_path / "r.db") as file:
            file.execute("UPDATE runs SET holder = 'another'")

    async with anyio.create_task_group() as group:
        group.start_soon(take_over)
        with pytest.raises(AgentError) as lost:
            await one.run("Send.", run_id="order-1")
        assert isinstance(lost.value.error, RunInterrupted)


async def test_a_run_of_another_version_of_the_agent_is_refused_with_what_differs(tmp_path: Path) -> None:
    bank = Bank(hangs_at=2)
    await interrupted(tmp_path / "r.db", bank)

    def changed(llm: ScriptedLLM) -> ReactiveAgent:
        described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(tool(bank.pay))
        return described.with_system_prompt("Be brief.").with_durability(tmp_path / "r.db").build()

    with pytest.raises(AgentError) as refused:
        await changed(ScriptedLLM()).run("Pay.", run_id="order-1")
    assert isinstance(refused.value.error, RunRefused)
    assert refused.value.error.differences == ("Changed: instructions.",)
    accepted = changed(ScriptedLLM(*[answer("Payment 2 is in doubt.")] * 2))
    result = await accepted.run("Pay.", run_id="order-1", accept_changes=True)
    assert result.output == "Payment 2 is in doubt."


class OtherLLM(ScriptedLLM):
    @property
    def model(self) -> str:
        return "other/model"


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda one: one.with_llm(OtherLLM()), "model, from scripted/test to other/model."),
        (lambda one: one.with_reasoning("reflexion"), "strategy, from reactive to reflexion."),
        (lambda one: one.with_max_iterations(7), "options."),
        (lambda one: one.with_tools(tool(name="refund")(Bank().pay)), "New: tool refund."),
        (lambda one: one.with_tools(tool(idempotent=True)(Bank().pay)), "tool pay."),
        (lambda one: one, "version, from 0.0.9 to "),
    ],
    ids=["model", "strategy", "options", "new tool", "tool", "version"],
)
async def test_each_part_of_an_agent_that_has_changed_is_named(
    tmp_path: Path, change: Any, difference: str
) -> None:
    def described(bank: Bank, llm: ScriptedLLM) -> ReactiveAgents:
        one = ReactiveAgents.create().with_llm(llm).with_reasoning()
        one = one if "tool pay" in difference and not bank.hangs_at else one.with_tools(bank.pay)
        return one.with_durability(tmp_path / "r.db", recover=False)

    bank = Bank(hangs_at=1)
    first = described(bank, ScriptedLLM(call("pay", number=1))).build()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    if "version" in difference:  # as the package of that version has recorded it
        with sqlite_file(tmp_path / "r.db") as file:
            (known,) = file.execute("SELECT definition FROM runs").fetchone()
            assert json.loads(known)["version"] == version("reactive-agents")
            file.execute(
                "UPDATE runs SET definition = ?", (json.dumps({**json.loads(known), "version": "0.0.9"}),)
            )
    changed = change(described(Bank(), ScriptedLLM())).build()
    with pytest.raises(AgentError) as refused:
        await changed.runs.resume("order-1")
    assert isinstance(refused.value.error, RunRefused)
    expected = difference if "New" in difference else f"Changed: {difference}"
    assert any(each.startswith(expected) for each in refused.value.error.differences)


async def test_a_run_does_not_go_on_without_the_options_that_it_was_begun_with(tmp_path: Path) -> None:
    bank = Bank(hangs_at=1)
    pay = tool(idempotent=True)(bank.pay)

    def described(*turns: Any) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        return one.with_durability(tmp_path / "r.db", recover=False).build()

    first = described(call("pay", number=1))
    options: dict[str, Any] = {"tools": [pay], "output": int, "approver": lambda request: True}
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay 1.", run_id="order-1", **options))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    later = described(call("final-answer", value=1))
    outcomes = await later.runs.recover()
    refused = outcomes[RunId("order-1")].failure()
    assert isinstance(refused, RunRefused)
    assert refused.differences == ("Gone: option approver.", "Gone: option output.", "Gone: option tools.")
    bank.hangs_at = 0
    assert (await later.run("Pay 1.", run_id="order-1", **options)).output == 1


@pytest.mark.parametrize("accepted", [False, True])
async def test_a_run_of_another_version_of_a_sub_agent_is_refused_like_that_of_the_agent(
    tmp_path: Path, accepted: bool
) -> None:
    bank = Bank(hangs_at=1)

    def described(outer: ScriptedLLM, inner: ScriptedLLM, prompt: str) -> ReactiveAgent:
        payer = ReactiveAgents.create().with_name("payer").with_llm(inner).with_reasoning()
        payer = payer.with_tools(tool(idempotent=True)(bank.pay)).with_system_prompt(prompt)
        clerk = ReactiveAgents.create().with_llm(outer).with_reasoning().with_tools(agent_tool(payer.build()))
        return clerk.with_durability(tmp_path / "r.db", recover=False).build()

    first = described(ScriptedLLM(call("payer", task="Pay 1.")), ScriptedLLM(call("pay", number=1)), "Pay.")
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    bank.hangs_at = 0
    done = ScriptedLLM(answer("1 is paid.")), ScriptedLLM(answer("Paid 1."))
    changed = described(*done, "Pay at once.")
    if accepted:
        result = await changed.run("Pay.", run_id="order-1", accept_changes=True)
        assert (result.output, bank.numbers) == ("1 is paid.", [1])
    else:
        with pytest.raises(AgentError) as refused:
            await changed.run("Pay.", run_id="order-1")
        error = refused.value.error
        assert isinstance(error, RunRefused)
        assert (error.run_id, error.differences) == ("order-1", ("Changed: instructions.",))
        assert (await changed.runs.find("order-1")).state == "interrupted"


class HangingRecord(SqliteRunRecord):
    """A record that hangs before it adds the entry of a key, or the outcome of a run."""

    def __init__(self, path: Path, hangs_at: str) -> None:
        super().__init__(path, clock=SystemClock())
        self.hanging = anyio.Event()
        self._hangs_at = hangs_at

    @effect
    async def append(self, run_id: RunId, holder: str, *entries: RunEntry, **when: bool) -> Any:
        if run_id == "order-1" and entries[0].key == self._hangs_at:
            self.hanging.set()
            await anyio.sleep_forever()
        return await attempt(super().append(run_id, holder, *entries, **when))


@pytest.mark.parametrize("hangs_at", ["sessions.begin1", "t1="])
async def test_an_interrupted_run_leaves_its_turn_of_a_session(tmp_path: Path, hangs_at: str) -> None:
    def described(*turns: Any) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        one = one.with_tools(tool(idempotent=True)(Bank().pay)).with_sessions(tmp_path / "s.db")
        return one.with_durability(tmp_path / "r.db", recover=False).build()

    turns = call("pay", number=1), answer("Paid 1.")
    first = described(*turns)
    record = HangingRecord(tmp_path / "r.db", hangs_at)
    first.container.memory.record.override(Object(record))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay 1.", run_id="order-1", session="s"))
        await record.hanging.wait()
        group.cancel_scope.cancel()
    assert (await first.runs.find("order-1")).state == "interrupted"
    await described(call("pay", number=2), answer("Paid 2.")).run("Pay 2.", session="s")
    again = described(*turns[hangs_at == "t1=" :])
    await again.runs.resume("order-1")
    said = [each.content for each in await again.sessions.read("s") if isinstance(each, UserMessage)]
    assert said == ["Pay 2.", "Pay 1."]


@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_run_whose_sessions_cannot_be_used_goes_on_when_they_can(
    tmp_path: Path, has_begun: bool
) -> None:
    bank = Bank(hangs_at=2 if has_begun else 0)

    def described(*turns: Any) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        one = one.with_tools(tool(idempotent=True)(bank.pay)).with_sessions(tmp_path / "s.db")
        return one.with_durability(tmp_path / "r.db", recover=False).build()

    turns = call("pay", number=1), call("pay", number=2), answer("All is paid.")
    if has_begun:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: described(*turns).run("Pay.", run_id="order-1", session="s"))
            await bank.hanging.wait()
            group.cancel_scope.cancel()
        for each in list(tmp_path.glob("s.db*")):  # noqa: ASYNC240
            each.unlink()
    (tmp_path / "s.db").mkdir()
    with pytest.raises(AgentError) as stopped:
        await described().run("Pay.", run_id="order-1", session="s")
    assert isinstance(stopped.value.error, RunInterrupted)
    assert isinstance(stopped.value.error.cause, SessionUnavailable)
    assert "s.db" in stopped.value.error.reason
    (tmp_path / "s.db").rmdir()
    bank.hangs_at = 0
    again = described(*turns[2 * has_begun :])
    assert (await again.runs.find("order-1")).state == "interrupted"
    assert (await again.runs.resume("order-1")).status == "completed"
    assert bank.numbers == [1, 2]
    assert len(await again.sessions.read("s")) > 1


async def test_a_turn_of_a_session_stores_its_history_once_and_has_it_in_its_result(tmp_path: Path) -> None:
    def described(*turns: Any) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        one = one.with_sessions(tmp_path / "s.db").with_durability(tmp_path / "r.db", recover=False)
        return one.build()

    said = "A plum of the first turn."
    await described(*[answer(said)] * 2).run("Name a fruit.", session="s")
    first = await described(*[answer("A pear.")] * 2).run("Name another.", run_id="r", session="s")
    assert said in [each.content for each in first.history]
    entries = "FROM run_entries WHERE run = (SELECT id FROM runs WHERE run_id = 'r')"
    with closing(sqlite3.connect(tmp_path / "r.db")) as file:
        stored = file.execute(f"SELECT result FROM runs WHERE run_id = 'r' UNION ALL SELECT body {entries}")
        assert sum(text.count(said) for (text,) in stored) == 1
    later = described()
    assert await later.run("Name another.", run_id="r", session="s") == first
    assert await later.runs.resume("r") == await later.runs.wait("r") == first
    replayed = await later.runs.replay("r")
    assert replayed.difference == ""
    assert replayed.outcome is not None
    assert replayed.outcome.unwrap().history == first.history
    with sqlite_file(tmp_path / "r.db") as file:  # as an earlier version stored it
        (text,) = file.execute("SELECT result FROM runs WHERE run_id = 'r'").fetchone()
        (begun,) = file.execute(f"SELECT body {entries} AND key = 'sessions.begin1'").fetchone()
        result = {**json.loads(text)["result"], "history": json.loads(begun)["value"]["messages"]}
        file.execute("UPDATE runs SET result = ? WHERE run_id = 'r'", (json.dumps({"result": result}),))
    assert await described().runs.resume("r") == first


class Noted:
    """A service, with a list of the calls of its methods."""

    def __init__(self, service: Any, called: list[str]) -> None:
        self._service, self._called = service, called

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._service, name)
        if not callable(found):
            return found

        def noted(*args: Any, **kwargs: Any) -> Any:
            self._called.append(f"{type(self._service).__name__}.{name}")
            return found(*args, **kwargs)

        return noted


class UnendingRecord(SqliteRunRecord):
    """A record that cannot store how a run has ended, except for a sub-run."""

    @effect
    async def end(self, run_id: RunId, holder: str, status: RunStatus, result: str) -> Any:
        known = (await attempt(self.find(run_id))).unwrap()
        if known is not None and known.parent is not None:
            return await attempt(SqliteRunRecord.end(self, run_id, holder, status, result))
        return Failure(RecordFailed("The disk is full.", "end"))


@pytest.mark.parametrize("strategy", ["plan-execute-reflect", "reflexion", "adaptive"])
async def test_what_services_did_for_an_interrupted_run_is_done_and_counted_once(
    tmp_path: Path, strategy: Any
) -> None:
    """Memory, plans, routing, checks, cost and audit: all of it is in the record, with what it has cost."""

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        called.append("add")
        return a + b

    def rule(request: ModelRequest) -> Said:
        called.append(f"model: {request.purpose}")
        return sensible(request)

    def described(folder: Path) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(RuledLLM(rule)).with_reasoning(strategy).with_tools(add)
        one = one.with_memory(folder / "m.db").with_guardrails().with_verification(self_consistency=1)
        one = one.with_cost(folder / "c.db", tiers=[ModelTier("ruled/test")])
        one = one.with_audit(folder / "a.db").with_durability(folder / "r.db", recover=False)
        built = one.build()
        memory, governance = built.container.memory, built.container.governance
        kept = memory.memory, memory.plan_store, memory.effectiveness
        account = governance.cost_router, governance.cost_tracker, governance.audit
        for provider in (*kept, *account, governance.verifier, governance.guardrail):
            provider.override(Object(Some(Noted(provider().unwrap(), called))))
        return built

    called: list[str] = []
    for name in ("whole", "interrupted"):
        (tmp_path / name).mkdir()
    whole = await described(tmp_path / "whole").run("What is 1 + 2?", run_id="order-1")
    expected, called = called, []
    first = described(tmp_path / "interrupted")
    record = UnendingRecord(tmp_path / "interrupted/r.db", clock=SystemClock())
    first.container.memory.record.override(Object(record))
    with pytest.raises(AgentError, match="The disk is full"):
        await first.run("What is 1 + 2?", run_id="order-1")
    assert Counter(called) == Counter(expected)
    assert {each.partition(".")[2] for each in called} >= {
        "flush",
        "select_model",
        "record",
        "append",
        "check",
    }
    called = []
    resumed = await described(tmp_path / "interrupted").run("What is 1 + 2?", run_id="order-1")
    assert (resumed.status, resumed.output) == (whole.status, whole.output)
    assert resumed.metadata.models == whole.metadata.models
    assert called == []


async def test_a_process_that_lost_its_run_leaves_the_turn_of_the_session_to_the_next(tmp_path: Path) -> None:
    bank = Bank()
    begun, may_end = anyio.Event(), anyio.Event()
    asked, may_answer = anyio.Event(), anyio.Event()

    @tool(idempotent=True)
    async def pay(number: int) -> str:
        """Make a payment."""
        if not begun.is_set():
            begun.set()
            await may_end.wait()
        bank.paid.append((number, ""))
        return "paid 1"

    class Slow(ScriptedLLM):
        @effect
        async def complete(self, request: ModelRequest) -> Any:
            asked.set()
            await may_answer.wait()
            return await attempt(super().complete(request))

    def described(llm: ScriptedLLM) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(pay)
        one = one.with_sessions(tmp_path / "s.db").with_durability(tmp_path / "r.db", recover=False)
        return one.build()

    first, second = described(ScriptedLLM(call("pay", number=1))), described(Slow(answer("Paid 1.")))
    results: list[Any] = []

    async def resume() -> None:
        results.append(await second.runs.resume("order-1"))

    async with anyio.create_task_group() as group:

        async def lose() -> None:
            with pytest.raises(AgentError) as lost:
                await first.run("Pay 1.", run_id="order-1", session="s")
            results.append(lost.value.error)

        async with anyio.create_task_group() as losing:
            losing.start_soon(lose)
            await begun.wait()
            with sqlite_file(tmp_path / "r.db") as file:
                file.execute("UPDATE runs SET holder = ''")  # as when its lease has expired
            group.start_soon(resume)
            await asked.wait()
            may_end.set()
        with closing(sqlite3.connect(tmp_path / "s.db")) as file:
            assert file.execute("SELECT run_id FROM conversation_tickets").fetchall() == [("order-1",)]
        may_answer.set()
    assert isinstance(results[0], RunInterrupted)
    assert results[1].output == "Paid 1."


@pytest.mark.parametrize("hangs_at", ["audit.append1", "audit.end1"])
async def test_an_audit_entry_that_was_written_as_the_process_ended_is_there_once(
    tmp_path: Path, hangs_at: str
) -> None:
    def described() -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*[answer("It is said.")] * 2)).with_reasoning()
        one = one.with_audit(tmp_path / "a.db").with_durability(tmp_path / "r.db", recover=False)
        return one.build()

    first, record = described(), HangingRecord(tmp_path / "r.db", hangs_at)
    first.container.memory.record.override(Object(record))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Say it.", run_id="order-1"))
        await record.hanging.wait()
        group.cancel_scope.cancel()
    assert (await described().run("Say it.", run_id="order-1")).output == "It is said."
    with closing(sqlite3.connect(tmp_path / "a.db")) as file:
        bodies = [json.loads(body) for (body,) in file.execute("SELECT body FROM entries")]
    assert [each["action"] for each in bodies] == ["start", "run"]


def running(one: ReactiveAgent) -> Any:
    """A tool of a program that gives a task to an agent."""

    @tool(idempotent=True, name="payer")
    async def give(task: str) -> str:
        """Give a task to the payer."""
        return (await one.run(task)).output or ""

    return give


@pytest.mark.parametrize(
    ("hands_over", "hangs_at", "as_tool"),
    [
        (False, "t1=", agent_tool),
        (False, "m2", agent_tool),
        (False, "t2=", agent_tool),
        (True, "t1=", agent_tool),
        (True, "m2", agent_tool),
        (True, "t2=", agent_tool),
        (False, "t1=", running),
        (True, "m2", running),
    ],
)
async def test_what_other_agents_spent_is_counted_once_over_restarts(
    tmp_path: Path, hands_over: bool, hangs_at: str, as_tool: Callable[[ReactiveAgent], Any]
) -> None:
    """Whether their runs ended before the crash, or their result is recorded."""

    def described(folder: Path, outer: list[Any], inner: list[Any]) -> ReactiveAgent:
        payer = ReactiveAgents.create().with_name("payer").with_llm(ScriptedLLM(*inner)).with_reasoning()
        paying = payer.with_tools(tool(idempotent=True)(Bank().pay)).with_cost(folder / "cost.db").build()
        clerk = ReactiveAgents.create().with_llm(ScriptedLLM(*outer)).with_reasoning()
        clerk = clerk.with_tools(as_tool(paying), tool(idempotent=True)(Bank().pay))
        if hands_over:
            clerk = clerk.with_handoffs(handoff(paying))
        clerk = clerk.with_cost(folder / "cost.db").with_audit(folder / "audit.db")
        return clerk.with_durability(folder / "r.db", recover=False).build()

    last = call("transfer-to-payer", reason="Pay.") if hands_over else call("pay", number=2)
    outer = [call("payer", task="Pay 1."), last, answer("All is paid.")]
    inner = [call("pay", number=1), answer("Paid 1."), *[answer("All is paid.")] * hands_over]
    results, stored = [], []
    for name in ("whole", "interrupted"):
        folder = tmp_path / name
        folder.mkdir()
        if name == "interrupted":
            first = described(folder, outer, inner)
            record = HangingRecord(folder / "r.db", hangs_at)
            first.container.memory.record.override(Object(record))
            async with anyio.create_task_group() as group:
                group.start_soon(lambda one=first: one.run("Pay all.", run_id="order-1"))
                await record.hanging.wait()
                group.cancel_scope.cancel()
            done = {"t1=": 1, "m2": 1, "t2=": 2}[hangs_at]
            outer, inner = outer[done:], inner[2:]
        one = described(folder, outer, inner)
        results.append(await one.run("Pay all.", run_id="order-1"))
        await one.aclose()
        with closing(sqlite3.connect(folder / "cost.db")) as file:
            stored.append(file.execute("SELECT sum(total_tokens) FROM spending_models").fetchall())
        with closing(sqlite3.connect(folder / "audit.db")) as file:
            bodies = [json.loads(body) for (body,) in file.execute("SELECT body FROM entries")]
        stored[-1] += [each["action"] for each in bodies]
    whole, resumed = results
    assert stored[0] == stored[1]
    assert resumed.metadata.model_calls == whole.metadata.model_calls
    assert resumed.metadata.tool_calls == whole.metadata.tool_calls == 3
    asked_again = int(hangs_at == "m2")  # its first answer may be charged too
    known = evolve(total_usage(whole.metadata.models), usage=ANY, unpriced_calls=asked_again)
    assert total_usage(resumed.metadata.models) == evolve(known, unreported_calls=asked_again)
    assert resumed.metadata.tokens_used == whole.metadata.tokens_used
    assert [(each.agent, each.output) for each in resumed.sub_runs] == [
        (each.agent, each.output) for each in whole.sub_runs
    ]
    assert len(whole.sub_runs) == 1 + hands_over


@pytest.mark.parametrize("as_tool", [agent_tool, running])
@pytest.mark.parametrize("waits", [False, True])
async def test_what_a_run_spent_whose_process_is_gone_is_counted_when_it_is_cancelled(
    tmp_path: Path, waits: bool, as_tool: Callable[[ReactiveAgent], Any]
) -> None:
    bank = Bank(hangs_at=0 if waits else 3)

    def described(*turns: Any, inner: Sequence[Any] = ()) -> ReactiveAgent:
        payer = ReactiveAgents.create().with_name("payer").with_llm(ScriptedLLM(*inner)).with_reasoning()
        paying = as_tool(payer.with_tools(tool(bank.pay)).build())
        pay = tool(requires_approval=waits)(bank.pay)
        clerk = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(paying, pay)
        clerk = clerk.with_approval(timeout_s=60) if waits else clerk
        clerk = clerk.with_cost(tmp_path / "cost.db").with_audit(tmp_path / "audit.db")
        return clerk.with_durability(tmp_path / "r.db", recover=False).build()

    first = described(
        calls(call("payer", task="Pay 1."), call("payer", task="Pay 2.")),
        call("pay", number=3),
        inner=[call("pay", number=1), call("pay", number=2), answer("Paid."), answer("Paid.")],
    )
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        while waits and not await first.runs.questions("order-1"):
            await anyio.lowlevel.checkpoint()
        if not waits:
            await bank.hanging.wait()
        group.cancel_scope.cancel()
    await first.aclose()
    later = described()
    await later.runs.cancel("order-1")
    assert (await later.runs.find("order-1")).state == "cancelled"
    with pytest.raises(AgentError) as ended:
        await later.runs.wait("order-1")
    assert isinstance(ended.value.error, RunCancelled)
    assert ended.value.metadata is not None
    metadata = ended.value.metadata
    assert metadata is not None
    assert (metadata.model_calls, metadata.tool_calls, len(metadata.models)) == (6, 4, 1)
    with pytest.raises(AgentError, match="has ended"):
        await later.runs.cancel("order-1")
    await later.aclose()
    with closing(sqlite3.connect(tmp_path / "cost.db")) as file:
        counted = file.execute("SELECT run_id, total_tokens FROM spending_models").fetchall()
    assert counted == [("order-1", metadata.tokens_used)]
    assert metadata.tokens_used > 0
    with closing(sqlite3.connect(tmp_path / "audit.db")) as file:
        entered = [json.loads(body)["action"] for (body,) in file.execute("SELECT body FROM entries")]
    assert entered == ["start", *["request"] * waits, "cancel", "run"]


@pytest.mark.parametrize("by", ["its agent", "a program without it", "the next process"])
@pytest.mark.parametrize("within", [False, True])
async def test_a_run_that_is_cancelled_without_its_process_names_its_calls_in_doubt(
    tmp_path: Path, by: str, within: bool
) -> None:
    bank, path = Bank(hangs_at=2), tmp_path / "r.db"

    def described(*turns: Any) -> ReactiveAgent:
        clerk = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        clerk = clerk.with_tools(tool(bank.pay)).with_audit(tmp_path / "audit.db")
        if within:
            boss = ReactiveAgents.create().with_llm(ScriptedLLM(call("clerk", task="Pay."))).with_reasoning()
            clerk = boss.with_tools(agent_tool(clerk.with_name("clerk").build()))
        return clerk.with_durability(path, recover=False).build()

    first = described(call("pay", number=1), call("pay", number=2))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    await first.aclose()
    later, recorder = described(), EventRecorder()
    later.subscribe(recorder)
    if by == "its agent":
        await later.runs.cancel("order-1")
    elif by == "the next process":
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE runs SET wanted = 'cancel' WHERE run_id = 'order-1'")
        with suppress(AgentError):
            await later.runs.resume("order-1")
    else:
        record = SqliteRunRecord(path, clock=SystemClock())
        assert await give_order(record, RunId("order-1"), "cancel", SystemClock()) == Success(None)
    with pytest.raises(AgentError) as ended:
        await later.runs.wait("order-1")
    assert isinstance(ended.value.error, RunCancelled)
    named = "clerk and of pay" if within else "pay"
    assert f"The call of {named} is in doubt" in str(ended.value)
    assert doubt_in(ended.value.steps) == ended.value.error.doubt
    assert [json.loads(each.content)["arguments"] for each in ended.value.steps if each.type == "action"] == [
        *([{"task": "Pay."}] if within else []),
        {"number": 2},
    ]
    published = [(each.tool_name, each.handling) for each in recorder.of(ToolCallInDoubt)]
    tools = named.split(" and of ")
    assert published == ([] if by == "a program without it" else [(each, "cancelled") for each in tools])
    assert bank.numbers == [1]


async def test_the_runs_that_a_call_in_doubt_had_begun_are_in_the_result(tmp_path: Path) -> None:
    hanging = anyio.Event()

    def described(*turns: Any) -> ReactiveAgent:
        lookup = ReactiveAgents.create().with_name("lookup").with_llm(ScriptedLLM(say("Three.")))
        looking = lookup.with_reasoning().build()

        async def order(number: int) -> str:
            """Order a part."""
            await looking.run("What is 1 + 2?")
            hanging.set()
            await anyio.sleep_forever()
            return "ordered"

        clerk = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        return clerk.with_tools(tool(order)).with_durability(tmp_path / "r.db", recover=False).build()

    first = described(call("order", number=1))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Order.", run_id="order-1"))
        await hanging.wait()
        group.cancel_scope.cancel()
    later = described(answer("It may have been ordered."))
    result: Any = await later.runs.resume("order-1")
    assert result.status == "partial"
    assert [(each.agent, each.output, each.parent_run_id) for each in result.sub_runs] == [
        ("lookup", "Three.", "order-1")
    ]
    assert result.metadata.model_calls == 3
    assert (await later.runs.resume("order-1")).sub_runs == result.sub_runs


@pytest.mark.parametrize("settled", [False, True])
async def test_a_call_that_a_person_has_settled_is_not_in_doubt_when_its_run_is_cancelled(
    tmp_path: Path, settled: bool
) -> None:
    bank, path = Bank(hangs_at=1), tmp_path / "r.db"
    await cut_off(approving_agent(path, bank, call("pay", number=1)), bank)
    later = approving_agent(path, bank)
    with pytest.raises(AgentError, match="settle it, then resume"):
        await later.runs.resume("order-1")
    if settled:
        await later.runs.answer("order-1", "paid 1")
    await later.runs.cancel("order-1")
    with pytest.raises(AgentError) as ended:
        await later.runs.wait("order-1")
    assert ("The call of pay is in doubt" in str(ended.value)) is not settled


async def test_a_call_in_doubt_that_is_cut_off_again_is_named_once(tmp_path: Path) -> None:
    bank, path = Bank(hangs_at=1), tmp_path / "r.db"
    await cut_off(approving_agent(path, bank, call("pay", number=1), risk="high"), bank)
    later = approving_agent(path, bank, risk="high")
    with pytest.raises(AgentError, match="settle it, then resume"):
        await later.runs.resume("order-1")
    await later.runs.approve("order-1")
    bank.hanging = anyio.Event()
    ended: list[AgentError] = []

    async def resume() -> None:
        with pytest.raises(AgentError) as error:
            await later.runs.resume("order-1")
        ended.append(error.value)

    async with anyio.create_task_group() as group:
        group.start_soon(resume)
        await bank.hanging.wait()
        await later.runs.cancel("order-1")
    assert "The call of pay is in doubt" in str(ended[0])
    assert [each.type for each in ended[0].steps] == ["action", "observation"]


async def test_a_question_to_the_user_is_not_in_doubt_when_its_run_is_cancelled(tmp_path: Path) -> None:
    def described() -> ReactiveAgent:
        clerk = ReactiveAgents.create().with_llm(ScriptedLLM(call("ask-user", question="Which?")))
        clerk = clerk.with_reasoning().with_ask_user()
        return clerk.with_durability(tmp_path / "r.db", recover=False).build()

    first = described()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        while not await first.runs.questions("order-1"):
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    later = described()
    await later.runs.cancel("order-1")
    with pytest.raises(AgentError) as ended:
        await later.runs.wait("order-1")
    assert isinstance(ended.value.error, RunCancelled)
    assert (ended.value.error.doubt, ended.value.steps) == ("", ())


@pytest.mark.parametrize("by", ["its agent", "a program without it", "the next process"])
@pytest.mark.parametrize("hangs_at", ["in the sub-run", "t1="])
async def test_what_an_unfinished_sub_run_spent_is_counted_when_its_caller_is_cancelled(
    tmp_path: Path, by: str, hangs_at: str
) -> None:
    within = hangs_at == "in the sub-run"
    bank, path = Bank(hangs_at=2 if within else 0), tmp_path / "r.db"

    def described(outer: list[Any], inner: list[Any]) -> ReactiveAgent:
        payer = ReactiveAgents.create().with_name("payer").with_llm(ScriptedLLM(*inner)).with_reasoning()
        paying = payer.with_tools(tool(bank.pay)).with_cost(tmp_path / "cost.db").build()
        clerk = ReactiveAgents.create().with_llm(ScriptedLLM(*outer)).with_reasoning()
        clerk = clerk.with_tools(agent_tool(paying)).with_cost(tmp_path / "cost.db")
        return clerk.with_durability(path, recover=False).build()

    inner = [call("pay", number=1), call("pay", number=2), answer("Paid.")]
    first = described([call("payer", task="Pay both.")], inner)
    record = HangingRecord(path, hangs_at)
    first.container.memory.record.override(Object(record))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        await (bank.hanging if within else record.hanging).wait()
        group.cancel_scope.cancel()
    await first.aclose()
    later = described([], [])
    if by == "its agent":
        await later.runs.cancel("order-1")
    elif by == "the next process":
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE runs SET wanted = 'cancel' WHERE run_id = 'order-1'")
        with suppress(AgentError):
            await later.runs.resume("order-1")
    else:
        cancelled = await give_order(record, RunId("order-1"), "cancel", SystemClock())
        assert cancelled == Success(None)
    record = later.container.memory.record().unwrap()
    runs = (await attempt(record.runs(RunFilter(children=True)))).unwrap()
    states = {run.agent_id: run.state for run in runs}
    assert states == {"agent": "cancelled", "payer": "cancelled" if within else "completed"}
    with pytest.raises(AgentError) as ended:
        await later.runs.wait("order-1")
    await later.aclose()
    metadata = ended.value.metadata
    assert isinstance(ended.value.error, RunCancelled)
    assert metadata is not None
    assert (metadata.model_calls, metadata.tool_calls) == (3 if within else 4, 1 if within else 2)
    assert metadata.tokens_used == sum(each.usage.total_tokens for each in metadata.models) > 0
    if by != "a program without it":  # which knows no place for what it counts
        with closing(sqlite3.connect(tmp_path / "cost.db")) as file:
            counted = file.execute("SELECT sum(total_tokens) FROM spending_models").fetchall()
        assert counted == [(metadata.tokens_used,)]


@pytest.mark.parametrize("own_record", [False, True])
@pytest.mark.parametrize("where", ["in the sub-run", "after the sub-run"])
async def test_a_limit_of_tool_calls_holds_over_sub_runs_and_restarts(
    tmp_path: Path, where: str, own_record: bool
) -> None:
    within = where == "in the sub-run"
    bank, later = Bank(hangs_at=2 if within else 3), Bank()

    def described(paying: Bank, outer: list[Any], inner: list[Any]) -> ReactiveAgent:
        payer = ReactiveAgents.create().with_name("payer").with_llm(ScriptedLLM(*inner)).with_reasoning()
        payer = payer.with_tools(tool(idempotent=True)(paying.pay))
        if own_record:
            payer = payer.with_durability(tmp_path / "payer.db", recover=False)
        clerk = ReactiveAgents.create().with_llm(ScriptedLLM(*outer)).with_reasoning()
        clerk = clerk.with_tools(agent_tool(payer.build()), tool(idempotent=True)(paying.pay))
        return clerk.with_durability(tmp_path / "r.db", recover=False).build()

    outer = [call("payer", task="Pay."), *(call("pay", number=number) for number in range(3, 9))]
    inner = [call("pay", number=1), call("pay", number=2), answer("1 and 2 are paid.")]
    first = described(bank, outer, inner)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1", budget={"tool_calls": 4}))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    one = described(later, outer[1:] if within else outer[2:], inner[2:] if within else [])
    result = await one.runs.resume("order-1")
    assert result.reason.startswith("The limit of 4 tool calls was reached.")
    assert (bank.numbers, later.numbers) == (([1], [2, 3]) if within else ([1, 2], [3]))
    assert result.metadata.tool_calls == 4
    replay = await described(Bank(), [], []).runs.replay("order-1")
    assert replay.difference == ""
    assert replay.outcome is not None
    again = replay.outcome.unwrap()
    assert (again.status, again.reason, again.metadata.tool_calls) == (result.status, result.reason, 4)


async def test_a_refusal_by_the_callers_limit_is_recorded_and_replayed(tmp_path: Path) -> None:
    bank = Bank()
    payer = ReactiveAgents.create().with_name("payer").with_reasoning().with_tools(bank.pay)
    payer = payer.with_llm(ScriptedLLM(*(call("pay", number=number) for number in range(1, 9))))
    paying = payer.with_durability(tmp_path / "r.db", recover=False).build()
    clerk = ReactiveAgents.create().with_llm(ScriptedLLM(call("payer", task="Pay."), answer("1 is paid.")))
    clerk = clerk.with_reasoning().with_tools(agent_tool(paying))
    one = clerk.with_durability(tmp_path / "r.db", recover=False).build()
    result = await one.run("Pay.", run_id="order-1", budget={"tool_calls": 2})
    (below,) = result.sub_runs
    assert below.reason.startswith("The caller's limit of 2 tool calls was reached.")
    replay = await paying.runs.replay(below.run_id)
    assert replay.difference == ""
    assert replay.outcome is not None
    again = replay.outcome.unwrap()
    assert (again.status, again.reason) == ("partial", below.reason)
    assert bank.numbers == [1]


async def test_the_runs_of_an_agent_with_a_record_of_its_own_are_kept_over_restarts_and_forks(
    tmp_path: Path,
) -> None:
    bank = Bank(hangs_at=1)

    def described(*turns: Any) -> ReactiveAgent:
        payer = ReactiveAgents.create().with_name("payer").with_llm(ScriptedLLM(*[answer("Paid.")] * 2))
        paying = payer.with_reasoning().with_durability(tmp_path / "payer.db", recover=False).build()
        clerk = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        clerk = clerk.with_tools(agent_tool(paying), tool(idempotent=True)(bank.pay))
        return clerk.with_durability(tmp_path / "r.db", recover=False).build()

    first = described(call("payer", task="Pay."), call("pay", number=1))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    bank.hangs_at = 0
    one = described(*[answer("All is paid.")] * 2)
    resumed = await one.run("Pay.", run_id="order-1")
    forked = await one.runs.resume(await one.runs.fork("order-1", at=4))
    for result in (resumed, forked):
        assert [(each.agent, each.output) for each in result.sub_runs] == [("payer", "Paid.")]


async def test_a_caller_knows_the_requests_and_the_cost_of_an_agent_with_a_record_of_its_own(
    tmp_path: Path,
) -> None:
    """Also after a restart, since it is in the record of the caller."""
    bank, path = Bank(), tmp_path / "r.db"

    def described(*inner: Any) -> ReactiveAgent:
        payer = ReactiveAgents.create().with_name("payer").with_llm(ScriptedLLM(*inner)).with_reasoning()
        payer = payer.with_tools(tool(requires_approval=True)(bank.pay))
        paying = payer.with_durability(tmp_path / "payer.db", recover=False).build()
        clerk = ReactiveAgents.create().with_llm(ScriptedLLM(call("payer", task="Pay."))).with_reasoning()
        clerk = clerk.with_tools(agent_tool(paying)).with_approval(timeout_s=60)
        return clerk.with_durability(path, recover=False).build()

    async def asks(one: ReactiveAgent, run_id: str) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: one.run("Pay.", run_id=run_id))
            while not await one.runs.questions(run_id, below=True):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    await asks(described(call("pay", number=1)), "order-1")
    later = described()
    assert (await later.runs.find("order-1")).state == "waiting"
    (question,) = await later.runs.questions("order-1", below=True)
    assert (question.parent, question.request["tool_name"]) == ("order-1", "pay")
    await later.runs.cancel("order-1")
    with pytest.raises(AgentError) as ended:
        await later.runs.wait("order-1")
    assert ended.value.metadata is not None
    assert ended.value.metadata.model_calls == 2
    assert (await later.runs.questions(), bank.paid) == ((), [])


@pytest.mark.parametrize("begun_in", ["a record of its own", "the record of its caller"])
async def test_an_unfinished_sub_run_goes_on_in_the_record_that_has_it(tmp_path: Path, begun_in: str) -> None:
    """Earlier versions began those of an agent with a record of its own there."""
    is_own = begun_in == "a record of its own"

    def described(bank: Bank, lead: list[Any], inner: list[Any], place: Path) -> ReactiveAgent:
        payer = ReactiveAgents.create().with_name("payer").with_llm(ScriptedLLM(*inner)).with_reasoning()
        paying = payer.with_tools(bank.pay).with_durability(place, recover=False).build()
        clerk = ReactiveAgents.create().with_llm(ScriptedLLM(*lead)).with_reasoning()
        clerk = clerk.with_tools(agent_tool(paying))
        return clerk.with_durability(tmp_path / "r.db", recover=False).build()

    bank, own = Bank(hangs_at=2), tmp_path / "payer.db"
    inner = [call("pay", number=1), call("pay", number=2)]
    first = described(bank, [call("payer", task="Pay.")], inner, tmp_path / "r.db")
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    await first.aclose()
    if is_own:
        with closing(sqlite3.connect(tmp_path / "r.db")) as file, closing(sqlite3.connect(own)) as copy, file:
            file.backup(copy)
            file.execute("DELETE FROM runs WHERE parent = 'order-1'")
    later = described(again := Bank(), [answer("1 is paid.")], [answer("1 is paid, 2 may be.")], own)
    result = await later.runs.resume("order-1")
    assert (bank.numbers, again.numbers, result.status) == ([1], [], "partial")
    assert [each.agent for each in result.sub_runs] == ["payer"]


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_call_of_a_tool_that_a_new_version_lacks_keeps_its_result_or_its_doubt(
    tmp_path: Path, is_done: bool
) -> None:
    """And no other call gets either."""
    bank, sent = Bank(hangs_at=1), list[str]()

    @tool(idempotent=False)
    async def send(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        if not is_done:
            bank.hanging.set()
            await anyio.sleep_forever()
        return f"sent to {to}"

    def described(tools: Sequence[Any], *turns: Any) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(*tools)
        return one.with_durability(tmp_path / "r.db", recover=False).build()

    turns = [call("send", to="Ann"), call("pay", number=1), call("pay", number=2), answer("Ann is paid.")]
    pay = tool(idempotent=True)(bank.pay)
    first = described([send, pay], *turns)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Write to Ann, and pay 1 and 2.", run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    bank.hangs_at = 0
    later = described([pay], *turns[2 if is_done else 1 :])
    result = await later.runs.resume("order-1", accept_changes=True)
    mailed, *paid = [step.content for step in result.steps if step.type == "observation"]
    assert (sent, paid) == (["Ann"], ["paid 1", "paid 2"])
    assert mailed.startswith("sent to Ann" if is_done else "In doubt")
    assert result.status == ("completed" if is_done else "partial")
    assert (await described([pay]).runs.replay("order-1")).difference == ""


_HANGS_AT_ITS_SECOND_REQUEST = """
import asyncio, sys
from reactive_agents import ReactiveAgents, tool
from reactive_agents.effects import attempt, effect
from reactive_agents.testing import ScriptedLLM, call

class Hanging(ScriptedLLM):
    @effect
    async def complete(self, request):
        if "paid 1" in str(request.messages[-1].content):
            await asyncio.sleep(3600)
        return await attempt(super().complete(request))

@tool
async def pay(number: int) -> str:
    "Make a payment."
    return f"paid {number}"

described = ReactiveAgents.create().with_llm(Hanging(call("pay", number=1))).with_reasoning().with_tools(pay)
agent = described.with_durability(sys.argv[1], recover=False).build()
asyncio.run(agent.run("Pay.", run_id="order-1"))
"""


@pytest.mark.system
async def test_requests_that_were_cut_off_by_kills_are_counted(tmp_path: Path) -> None:
    """Each may be charged; what a fork takes over was asked for by another run."""
    path = tmp_path / "r.db"
    for killed in (1, 2):
        command = [sys.executable, "-c", _HANGS_AT_ITS_SECOND_REQUEST, str(path)]
        process = await anyio.open_process(command, cwd=ROOT, stdout=None, stderr=None)
        record = SqliteRunRecord(path, clock=SystemClock())
        sent: list[str] = []
        while len(sent) < 1 + killed:
            entries = (await attempt(record.entries(RunId("order-1")))).value_or(())
            sent = [each.key for each in entries if each.kind == "request"]
            await anyio.sleep(0.01)
        process.kill()
        await process.aclose()
        await record.aclose()
        assert sent == ["m1<", "m2<", "m2<<"][: 1 + killed]
    one, events = agent(path, bank := Bank(), ScriptedLLM(answer("Paid."))), EventRecorder()
    one.subscribe(events)
    result = await one.run("Pay.", run_id="order-1")
    (used,) = result.metadata.models
    assert (used.calls, used.unpriced_calls, used.unreported_calls, bank.numbers) == (2, 2, 2, [])
    assert [each.replayed for each in events.of(ModelCallAbandoned)] == [True, True]
    assert "cut off" in events.of(ModelCallAbandoned)[0].error.message
    assert [each.model_call for each in events.of(ModelCallStarted)] == [1, 2, 3, 4]
    assert await agent(path, Bank(), ScriptedLLM()).run("Pay.", run_id="order-1") == result
    replay = await one.runs.replay("order-1")
    assert replay.difference == ""
    assert replay.outcome is not None
    assert replay.outcome.unwrap().metadata.models == (used,)
    again = agent(path, Bank(), ScriptedLLM(answer("Paid once more.")))
    forked = await again.runs.resume(await again.runs.fork("order-1", at=3))
    assert [each.unpriced_calls for each in forked.metadata.models] == [0]


class LateRecord(SqliteRunRecord):
    """A record that writes an entry which may come later as late as it may."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, clock=SystemClock())
        self.late: list[RunEntry] = []
        self.written: list[tuple[str, str]] = []

    @effect
    async def append(
        self, run_id: RunId, holder: str, *entries: RunEntry, durable: bool = False, later: bool = False
    ) -> Any:
        when = "later" if later else "on the disk" if durable else "at once"
        self.written += [(each.key, when) for each in entries]
        if later:
            self.late += entries  # on its way: the order of another process is not known
            return Success(None)
        await attempt(self.settle(run_id, holder))
        return await attempt(super().append(run_id, holder, *entries, durable=durable))

    @effect
    async def settle(self, run_id: RunId, holder: str) -> Any:
        late, self.late = self.late, []
        for entry in late:
            await attempt(super().append(run_id, holder, entry))
        return Success(None)

    @effect
    async def end(self, run_id: RunId, holder: str, status: RunStatus, result: str) -> Any:
        await attempt(self.settle(run_id, holder))
        return await attempt(super().end(run_id, holder, status, result))


@pytest.mark.parametrize("idempotent", [False, True])
async def test_nothing_outside_is_called_before_what_came_before_is_recorded(
    tmp_path: Path, idempotent: bool
) -> None:
    record = LateRecord(tmp_path / "runs.db")
    open_at: list[tuple[str, list[str]]] = []

    def note(called: str) -> None:
        open_at.append((called, [each.key for each in record.late]))

    class Model(ScriptedLLM):
        @effect
        async def complete(self, request: ModelRequest) -> Any:
            note("model")
            return await attempt(super().complete(request))

    @tool(idempotent=idempotent)
    async def pay(number: int) -> str:
        """Make a payment."""
        note("pay")
        return f"paid {number}"

    class Audit:
        @effect
        async def append(self, entry: AuditEntry) -> Any:
            note(f"audit of the {entry.action}")
            return Success(None)

    llm = Model(call("pay", number=1), calls(call("pay", number=2), call("pay", number=3)), answer("Paid."))
    described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(pay)
    built = described.with_durability(tmp_path / "runs.db", recover=False).build()
    built.container.memory.record.override(Object(record))
    built.container.governance.audit.override(Object(Some(Audit())))
    assert (await built.run("Pay three times.", run_id="order-1")).status == "completed"
    steps = ["model", "pay", "model", "pay", "pay", "model"]
    assert [called for called, _ in open_at] == ["audit of the start", *steps, "audit of the run"]
    assert open_at[-1][1] == [], "the last answer is recorded before the entry of the run"
    beside = [keys for called, keys in open_at if called == "pay" and keys]
    assert all(key.startswith("g1.") for keys in beside for key in keys)  # results of parallel calls
    assert [keys for called, keys in open_at if called == "model"] == [["m1<"], ["m2<"], ["m3<"]]
    intent = "at once" if idempotent else "on the disk"
    written = [each for each in record.written if not each[0].startswith("audit")]
    assert written[:4] == [("m1<", "later"), ("m1", "later"), ("t1", intent), ("t1=", "later")]
    assert await built.runs.steps("order-1")
    assert {each.key for each in (await attempt(record.entries(RunId("order-1")))).unwrap()} >= {
        key for key, _ in record.written
    }


async def test_a_task_that_is_cut_off_while_it_writes_leaves_each_entry_once(
    tmp_path: Path,
    anyio_backend_name: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task of asyncio is cancelled at once, whatever shields it; the thread goes on."""
    if anyio_backend_name != "asyncio":
        return
    record, run_id = SqliteRunRecord(tmp_path / "runs.db", clock=SystemClock()), RunId("r")
    task = Task(TaskId("t"), AgentId("a"), "Do it.", SystemClock.now())
    claimed = await attempt(record.claim(RecordedRun(run_id, AgentId("a"), task), lambda _: None))
    holder = claimed.unwrap().holder

    async def add(key: str, kind: EntryKind, **when: bool) -> None:
        await attempt(record.append(run_id, holder, RunEntry(key, kind, SystemClock.now(), "{}"), **when))

    async def append() -> None:
        await add("m1", "model", later=True)
        await add("t1", "intent", durable=True)

    begun, may_end = threading.Event(), threading.Event()

    def slow_disk(log: int) -> None:
        begun.set()
        may_end.wait()

    monkeypatch.setattr(sqlite, "_DATA_TO_DISK", slow_disk)
    cut_off = asyncio.create_task(append())
    await until(begun.is_set)
    cut_off.cancel()
    with suppress(asyncio.CancelledError):
        await cut_off
    may_end.set()
    await attempt(record.release(run_id, holder))
    found = (await attempt(record.entries(run_id))).unwrap()
    assert [each.key for each in found] == ["m1", "t1"]
    assert caplog.text == ""
    await record.aclose()


async def test_a_step_is_two_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is written with the intent of its call, the last one with the end of the run."""
    batches: list[list[str]] = []
    append = run_record._HeldRun.append

    async def noted(held: Any, entries: Any, **options: bool) -> Any:
        batches.append([each.key for each in entries])
        return await append(held, entries, **options)

    monkeypatch.setattr(run_record._HeldRun, "append", noted)

    @tool
    async def pay(number: int) -> str:
        """Make a payment."""
        return f"paid {number}"

    together = [call("pay", number=number) for number in range(3, 23)]
    llm = ScriptedLLM(call("pay", number=1), call("pay", number=2), calls(*together), answer("All is paid."))
    described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(pay)
    built = described.with_durability(tmp_path / "runs.db", recover=False).build()
    assert (await built.run("Pay all.", run_id="order-1")).status == "completed"
    assert batches[:4] == [["m1<", "m1", "t1"], ["t1="], ["m2<", "m2", "t2"], ["t2="]]
    assert batches[4][:2] == ["m3<", "m3"]
    intents = [batch for batch in batches[4:] if any(key.endswith("/t1") for key in batch)]
    assert len(intents) == 2  # those of nineteen calls while the first one was written
    assert len(await built.runs.steps("order-1")) == 4 + 22
    await built.aclose()


async def test_an_entry_is_no_larger_for_the_steps_before_it(tmp_path: Path) -> None:
    """The bytes that a step stores are the same at step 100 and at step 300."""

    @tool
    async def pay(number: int) -> str:
        """Make a payment."""
        return "paid"

    turns = (call("pay", number=10_000 + step) for step in range(320))
    described = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(pay)
    described = described.with_max_iterations(320).with_durability(tmp_path / "r.db", recover=False)
    async with described.build() as built:
        with suppress(AgentError):
            await built.run("Pay all.", run_id="order-1")
        steps = {each.key: each.entry for each in await built.runs.steps("order-1")}
    with sqlite_file(tmp_path / "r.db") as file:
        sizes = dict(file.execute("SELECT number, length(key) + length(body) FROM run_entries"))

    def stored(step: int) -> int:
        """Return the bytes of ten steps, but for the digits of their numbers."""
        entries = range(steps[f"m{step}"], steps[f"m{step + 10}"])
        return sum(sizes[number] for number in entries)

    assert stored(300) - stored(100) <= 10 * 4 * 6


async def test_a_run_goes_on_when_its_secrets_have_changed(tmp_path: Path) -> None:
    """A key that is renewed is no other version of the agent."""
    bank = Bank(hangs_at=1)

    def described(key: str, *turns: Any) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        one = one.with_tools(tool(idempotent=True)(bank.pay))
        one = one.with_model_settings(ModelSettings(headers={"x-key": key}, extra_body={"api_key": key}))
        return one.with_durability(tmp_path / "r.db", recover=False).build()

    first = described("old-secret", call("pay", number=1))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    bank.hangs_at = 0
    assert (await described("new-secret", answer("Paid.")).runs.resume("order-1")).output == "Paid."


async def test_what_a_kernel_streams_is_asked_for_once_over_a_restart(tmp_path: Path) -> None:
    """Also a request that the budget refused, which may be allowed by now."""
    streamed = anyio.Event()
    price = TokenPrice(0.001, 0.001)

    def described(llm: ScriptedLLM, *, hangs: bool = False) -> ReactiveAgent:
        @effect
        async def poet(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
            lines: list[str] = []
            for most in (100_000, 10):
                request = ModelRequest((UserMessage("A line."),), purpose="line", max_tokens=most)
                async with aclosing(context.llm.stream(request)) as chunks:  # type: ignore[type-var]
                    async for chunk in chunks:
                        match chunk:
                            case Success(StreamCompleted(response)):
                                lines.append(response.content)
                            case Failure(BudgetExceeded()):
                                lines.append("Too dear.")
            if hangs:
                streamed.set()
                await anyio.sleep_forever()
            return transition_state(state, status="done", iteration=1, output=" ".join(lines))

        one = ReactiveAgents.create().with_llm(llm).with_kernel("poet", poet).with_reasoning(kernel="poet")
        one = one.with_cost(tmp_path / "cost.db", run_usd=1.0)
        return one.with_durability(tmp_path / "r.db", recover=False).build()

    first = described(ScriptedLLM(say("Old pond.", cost_usd=0.25), price=price), hangs=True)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("A poem.", run_id="poem-1"))
        await streamed.wait()
        group.cancel_scope.cancel()
    again = described(ScriptedLLM(price=TokenPrice(0.0, 0.0)))
    result = await again.run("A poem.", run_id="poem-1")
    assert result.output == "Too dear. Old pond."
    assert (result.metadata.model_calls, result.metadata.cost_usd) == (1, 0.25)
    assert (await again.runs.replay("poem-1")).difference == ""


class Spending(AllowAll):
    """A guardrail whose checks cost something, such as those of a judge."""

    @effect
    async def check(self, text: str, stage: Any, llm: Any = None) -> Any:
        account = USAGE_RECORDER.get()
        assert account is not None
        await account((RunUsage("judge/1", Usage(5, 1, 6), 0.25, 1),), purpose="judge", duration_ms=1.0)
        return await attempt(super().check(text, stage, llm))


async def test_what_a_service_spent_is_counted_once_over_a_restart(tmp_path: Path) -> None:
    def described(folder: Path, guardrail: Any, *turns: Any) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        built = one.with_durability(folder / "r.db", recover=False).build()
        built.container.governance.guardrail.override(guardrail)
        return built

    for name in ("whole", "interrupted"):
        (tmp_path / name).mkdir()
    whole = await described(tmp_path / "whole", Spending(), say("Hello.")).run("Greet.", run_id="r1")
    first = described(tmp_path / "interrupted", Spending(), say("Hello."))
    record = UnendingRecord(tmp_path / "interrupted/r.db", clock=SystemClock())
    first.container.memory.record.override(Object(record))
    with pytest.raises(AgentError, match="The disk is full"):
        await first.run("Greet.", run_id="r1")
    unused = Spending()
    resumed = await described(tmp_path / "interrupted", unused).runs.resume("r1")
    assert unused.checked == []
    assert [each.cost_usd for each in whole.metadata.models if each.model == "judge/1"] == [0.5]
    assert resumed.metadata.models == whole.metadata.models


async def test_a_run_that_a_validator_began_is_counted_once_over_a_restart(tmp_path: Path) -> None:
    judge = ReactiveAgents.create().with_name("judge").with_llm(ScriptedLLM(say("It is fine."))).build()

    async def accept(text: str) -> None:
        await judge.run(f"Is it fine? {text}")

    def described(*turns: Any) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_output_validator(accept)
        return one.with_durability(tmp_path / "r.db", recover=False).build()

    first = described(say("Hello."))
    first.container.memory.record.override(Object(UnendingRecord(tmp_path / "r.db", clock=SystemClock())))
    with pytest.raises(AgentError, match="The disk is full"):
        await first.run("Greet.", run_id="r1")
    one = described()
    resumed = await one.runs.resume("r1")
    assert [each.output for each in resumed.sub_runs] == ["It is fine."]
    assert resumed.metadata.model_calls == 2
    assert (await one.runs.replay("r1")).difference == ""


@pytest.mark.parametrize("by", ["a rule", "a guardrail"])
@pytest.mark.parametrize("goes_on", [False, True])
async def test_an_agent_that_a_service_asked_is_counted_once_when_its_run_is_cancelled(
    tmp_path: Path, by: str, *, goes_on: bool
) -> None:
    judge = (
        ReactiveAgents.create().with_name("judge").with_llm(ScriptedLLM(say("No.", cost_usd=0.25))).build()
    )

    async def judged(given: Any) -> Any:
        await judge.run(f"Is it unusual? {given}")
        return False if by == "a rule" else []

    def described(bank: Bank, *turns: Any) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        if by == "a rule":
            rule = tool(requires_approval=judged)(bank.pay)
            one = one.with_tools(rule).with_approval(lambda request: False)
        else:
            check = FunctionCheck(judged, stages=("input",))
            one = one.with_tools(tool(bank.pay)).with_guardrails(check)
        return one.with_durability(tmp_path / "r.db", recover=False).build()

    async def unless_failed(one: ReactiveAgent) -> None:
        with suppress(AgentError):
            await one.runs.resume("order-1")

    bank = Bank(hangs_at=1)
    async with anyio.create_task_group() as group:
        first = described(bank, call("pay", number=1))
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        await bank.hanging.wait()
        group.cancel_scope.cancel()
    later, record = described(Bank()), HangingRecord(tmp_path / "r.db", "m2<")
    later.container.memory.record.override(Object(record))
    async with anyio.create_task_group() as group:
        if goes_on:
            group.start_soon(unless_failed, later)
            await record.hanging.wait()
        await later.runs.cancel("order-1")
    with pytest.raises(AgentError) as ended:
        await later.runs.wait("order-1")
    assert ended.value.metadata is not None
    assert (ended.value.metadata.cost_usd, ended.value.metadata.model_calls) == (0.25, 2)


@pytest.mark.parametrize(("is_agent", "hangs_at"), [(True, "m2"), (False, "t1="), (False, "m2")])
async def test_agents_of_a_call_and_of_its_rule_are_counted_once_over_a_restart(
    tmp_path: Path, hangs_at: str, *, is_agent: bool
) -> None:
    """Also if the call is in doubt."""

    def described(*turns: Any) -> ReactiveAgent:
        judge = ReactiveAgents.create().with_name("judge").with_llm(ScriptedLLM(say("No.", cost_usd=0.25)))
        payer = ReactiveAgents.create().with_name("payer").with_llm(ScriptedLLM(say("Paid.", cost_usd=1)))
        one, paying = judge.build(), payer.build()

        async def is_unusual(arguments: dict[str, Any]) -> bool:
            return (await one.run(f"Is it unusual? {arguments}")).output == "Yes."

        async def pay(task: str) -> str:
            """Give a task to the payer."""
            return (await paying.run(task)).output or ""

        made = agent_tool(paying, requires_approval=is_unusual)
        if not is_agent:
            made = tool(name="payer", requires_approval=is_unusual)(pay)
        built = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(made)
        return built.with_durability(tmp_path / "r.db", recover=False).build()

    first = described(call("payer", task="Pay."), say("It is paid."))
    record = HangingRecord(tmp_path / "r.db", hangs_at)
    first.container.memory.record.override(Object(record))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="order-1"))
        await record.hanging.wait()
        group.cancel_scope.cancel()
    one = described(*[answer("It is not known whether it was paid.")] * 3)
    assert (await one.runs.resume("order-1")).metadata.cost_usd == 1.25
    assert (await one.runs.replay("order-1")).difference == ""


async def test_the_model_call_of_a_service_is_counted_and_in_the_run_log_once_over_a_restart(
    tmp_path: Path,
) -> None:
    """Also if the service had done its work, and does not ask the model again."""

    def described(*turns: Any) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_run_log(tmp_path / "log.db")
        one = one.with_memory(tmp_path / "m.db", extraction="model")
        return one.with_durability(tmp_path / "r.db", recover=False).build()

    first = described(say("Hello."), say("[]"))
    record = HangingRecord(tmp_path / "r.db", "memory.flush1")
    first.container.memory.record.override(Object(record))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Greet.", run_id="order-1"))
        await record.hanging.wait()
        with closing(sqlite3.connect(tmp_path / "log.db")) as file:
            logged = file.execute("SELECT subject FROM run_events WHERE kind = 'ModelCallCompleted'")
            assert logged.fetchall() == [("think",), ("extract-memories",)]
        group.cancel_scope.cancel()
    assert (await described().runs.resume("order-1")).metadata.model_calls == 2


async def test_a_caller_is_interrupted_while_the_record_of_a_named_sub_run_cannot_be_used(
    tmp_path: Path,
) -> None:
    """Its model would be told of a failed call, and try another way."""
    folder = tmp_path / "own"
    folder.touch()

    def described(lead: list[Any], helper: list[Any]) -> ReactiveAgent:
        inner = ReactiveAgents.create().with_name("helper").with_llm(ScriptedLLM(*helper)).with_reasoning()
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*lead)).with_reasoning()
        asked = inner.with_durability(folder / "r.db", recover=False).build()

        @tool(idempotent=True)
        async def helper(task: str) -> str:
            """Ask the helper."""
            return str((await asked.run(task, run_id="count-1")).output)

        return one.with_tools(helper).with_durability(tmp_path / "r.db", recover=False).build()

    first = described([call("helper", task="How many?")], [])
    with pytest.raises(AgentError, match="nothing was begun") as stopped:
        await first.run("How many are there?", run_id="r1")
    error = stopped.value.error
    assert isinstance(error, RunInterrupted)
    assert (error.run_id, type(error.cause)) == ("r1", RecordFailed)
    folder.unlink()
    folder.mkdir()
    later = described([answer("There are 3.")], [say("3")])
    assert (await later.runs.resume("r1")).output == "There are 3."


async def test_a_resumed_run_counts_the_requests_and_models_of_calls_that_it_does_not_repeat(
    tmp_path: Path,
) -> None:
    """Those that people were asked for before, also in a sub-run; an agent that asked no model adds none."""

    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        return f"sent to {to}"

    def named(name: str, *turns: Any, **options: Any) -> Any:
        described = ReactiveAgents.create().with_name(name).with_llm(ScriptedLLM(*turns)).with_reasoning()
        return described.with_tools(send, *options.get("agents", ())).with_approval(lambda _: True)

    def lead(place: Path) -> ReactiveAgent:
        idle = named("idle").with_budget(cost_usd=0.5)
        clerk = named("clerk", call("send", to="Bob"), answer("Sent to Bob."))
        agents = [agent_tool(each.build()) for each in (idle, clerk)]
        made = [call("send", to="Ann"), call("clerk", task="Write."), call("idle", task="Idle.", cost_usd=1)]
        one = named("lead", *made, answer("All are sent."), agents=agents)
        return one.with_durability(place, recover=False).build()

    whole = await lead(tmp_path / "whole.db").run("Write.", run_id="r1")
    first = lead(tmp_path / "r.db")
    record = UnendingRecord(tmp_path / "r.db", clock=SystemClock())
    first.container.memory.record.override(Object(record))
    with pytest.raises(AgentError, match="The disk is full"):
        await first.run("Write.", run_id="r1")
    resumed = await lead(tmp_path / "r.db").runs.resume("r1")
    assert (whole.status, whole.metadata.requests) == ("completed", 2)
    assert resumed.metadata.requests == 2
    assert resumed.metadata.models == whole.metadata.models


class AskingJudge(AllowAll):
    """A guardrail that asks a model."""

    @effect
    async def check(self, text: str, stage: Any, llm: Any = None) -> Any:
        await attempt(llm.complete(ModelRequest((UserMessage(f"Is it safe? {text}"),), purpose="judge")))
        return await attempt(super().check(text, stage, llm))


class CutOffLLM(ScriptedLLM):
    """A model whose judgements are cut off, always or before they are given."""

    always = True

    @effect
    async def complete(self, request: ModelRequest) -> Any:
        if request.purpose != "judge":
            return await attempt(super().complete(request))
        paid = (RunUsage("judge/1", Usage(5, 1, 6), 0.25, 1),)
        if self.always:
            return Failure(MalformedResponse("It is cut off.", "judge/1", refused=paid))
        return Success(ModelResponse("Yes.", self.model, refused=paid))


@pytest.mark.parametrize("always", [True, False])
async def test_a_paid_attempt_of_a_service_is_counted_once_over_a_restart_and_not_in_a_fork(
    tmp_path: Path, always: bool
) -> None:
    def described(folder: Path, *turns: Any) -> ReactiveAgent:
        llm = CutOffLLM(*turns)
        llm.always = always
        one = ReactiveAgents.create().with_llm(llm).with_reasoning()
        built = one.with_durability(folder / "r.db", recover=False).build()
        built.container.governance.guardrail.override(AskingJudge())
        return built

    def of_judge(result: Any) -> list[float | None]:
        return [each.cost_usd for each in result.metadata.models if each.model == "judge/1"]

    for name in ("whole", "interrupted"):
        (tmp_path / name).mkdir()
    whole = await described(tmp_path / "whole", say("Hello.")).run("Greet.", run_id="r1")
    assert of_judge(whole) == [0.5]  # of the task and of the answer
    first = described(tmp_path / "interrupted", say("Hello."))
    record = UnendingRecord(tmp_path / "interrupted/r.db", clock=SystemClock())
    first.container.memory.record.override(Object(record))
    with pytest.raises(AgentError, match="The disk is full"):
        await first.run("Greet.", run_id="r1")
    resumed = await described(tmp_path / "interrupted").runs.resume("r1")
    assert resumed.metadata.models == whole.metadata.models
    again = described(tmp_path / "whole", say("Good day."))
    fork = await again.runs.resume(await again.runs.fork("r1", at=2))
    assert of_judge(fork) == [0.25]
