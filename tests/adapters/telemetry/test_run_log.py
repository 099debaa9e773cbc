"""The run log: complete, redacted, growing with what is new, there after a kill, forgotten on demand."""

from __future__ import annotations

import gc
import hashlib
import json
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import aclosing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve
from returns.result import Success

from reactive_agents import AgentError, ReactiveAgents, RunContext, agent_tool, tool
from reactive_agents.adapters.sqlite import SqliteFile
from reactive_agents.adapters.telemetry import run_log
from reactive_agents.adapters.telemetry.run_log import SqliteRunLog, event_of
from reactive_agents.core.events import (
    ApprovalRequested,
    ModelCallCompleted,
    ModelCallStarted,
    TaskStarted,
    ToolCallCompleted,
)
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.messages import AssistantMessage
from reactive_agents.core.run_record import LoggedEvent, LoggedRun, LoggedRunFilter
from reactive_agents.effects import attempt
from reactive_agents.studio.run_document import timeline_of
from reactive_agents.testing import ScriptedLLM, answer, call, fail, forever, say
from reactive_agents.testing.core import START
from tests.support.command_line import command
from tests.support.fakes import refuse_thread
from tests.support.sqlite_files import counted_work, sqlite_file
from tests.support.waiting import until_blocking


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def logging_agent(path: Path, *turns: Any, **options: Any) -> ReactiveAgents:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(add)
    return builder.with_run_log(path, **options)


SUM = (call("add", a=1, b=2), answer("It is 3."))


def runs_in(path: Path, **chosen: Any) -> tuple[LoggedRun, ...]:
    async def read() -> Any:
        return await attempt(SqliteRunLog(path, read_only=True).runs(LoggedRunFilter(**chosen)))

    return anyio.run(read).unwrap()


def events_of(path: Path, run_id: str) -> tuple[LoggedEvent, ...]:
    async def read() -> Any:
        return await attempt(SqliteRunLog(path, read_only=True).events(RunId(run_id)))

    return anyio.run(read).unwrap()


def test_a_run_is_there_with_every_event_and_its_requests(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    published: list[Any] = []
    agent = logging_agent(path, *SUM).with_name("sums").build()
    agent.subscribe(published.append)
    result = agent.run_sync("Add 1 and 2.", user="u-1", session="s-1", tags=["math"])
    (run,) = runs_in(path)
    assert (run.run_id, run.agent, run.status, run.user, run.session) == (
        result.run_id,
        "sums",
        "completed",
        "u-1",
        "s-1",
    )
    assert (run.tags, run.task, run.terminated_by) == (("math",), "Add 1 and 2.", "final_answer")
    assert (run.tokens, run.model_calls) == (result.metadata.tokens_used, 2)
    logged = events_of(path, run.run_id)
    assert [(each.sequence, each.kind) for each in logged] == [
        (each.sequence, type(each).__name__) for each in published
    ]
    begun = [each for each in logged if each.kind == "ModelCallStarted"]
    request: Any = begun[1].body["request"]
    assert request["messages"][1]["content"] == "Add 1 and 2."
    assert request["messages"][-1]["content"] == "3"
    assert {each["name"] for each in request["tools"]} == {"add", "final-answer"}
    made = next(each for each in logged if each.kind == "ToolCallCompleted")
    event = event_of(made, run)
    assert isinstance(event, ToolCallCompleted)
    assert (event.tool_name, event.result, event.run_id) == ("add", 3, run.run_id)


def test_the_key_of_the_record_encrypts_the_log_wherever_it_is(tmp_path: Path) -> None:
    path, key = tmp_path / "log.db", bytes(32)
    plain = logging_agent(path, say("sealed: as you say.")).build()
    plain.run_sync("sealed: bids for the harbour", tags=["a"])
    built = logging_agent(path, *SUM).with_durability(tmp_path / "runs.db", key=key).build()
    built.run_sync("Add 1 and 2 for violet-harbour.", user="ada", tags=["b"])
    assert b"violet" not in b"".join(each.read_bytes() for each in tmp_path.iterdir())
    sealed, readable = runs_in(path)
    assert (sealed.user, sealed.tags, sealed.status) == ("ada", ("b",), "completed")
    assert sealed.task == "(it is encrypted, and there is no key: see REACTIVE_AGENTS_RUNS_KEY)"
    assert readable.task == "sealed: bids for the harbour"

    async def found(text: str, limit: int | None = None) -> Any:
        log = SqliteRunLog(path, read_only=True, key=key)
        return await attempt(log.runs(LoggedRunFilter(text=text, limit=limit)))

    assert [len(anyio.run(found, text).unwrap()) for text in ("VIOLET", "harbour", "boat")] == [1, 2, 0]
    assert [each.tags for each in anyio.run(found, "harbour", 1).unwrap()] == [("b",)]
    with sqlite_file(path) as file:
        digests = {each for (each,) in file.execute("SELECT digest FROM run_texts")}
    text = json.dumps({"content": "Add 1 and 2 for violet-harbour.", "tag": "UserMessage"}, sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:32] not in digests, "a guess could be checked"


def test_a_log_that_cannot_be_encrypted_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "log.db"
    log = SqliteRunLog(path, key="short")
    log(TaskStarted(RunId("r1"), TaskId("t1"), 1, START, AgentId("a1"), "Add."))
    for _ in range(3):
        anyio.run(log.flush)
    assert "its key does not have 32 bytes" in caplog.messages[-1]
    assert b"Add." not in path.read_bytes()


def test_a_run_is_logged_after_the_system_gave_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SqliteRunLog(tmp_path / "runs.db")
    started = TaskStarted(RunId("r1"), TaskId("t1"), 1, START, AgentId("a1"), "Add.")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            log(started)
    log(evolve(started, run_id=RunId("r2")))
    until_blocking(lambda: not log._waiting)
    anyio.run(log.aclose)
    assert {each.run_id for each in runs_in(tmp_path / "runs.db")} == {"r1", "r2"}


def test_secrets_are_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    agent = logging_agent(path, call("add", a=1, b=2), answer("pin-4711")).with_redaction(r"pin-\d+").build()
    agent.run_sync("My code is pin-4711.")
    assert "My code is" in runs_in(path)[0].task
    whole = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert b"pin-4711" not in whole


def test_runs_are_found_by_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    logging_agent(path, *SUM).with_name("sums").build().run_sync("One.", user="ann", tags=["a"])
    logging_agent(path, answer("So.")).with_name("talk").build().run_sync("Two.", user="bob")
    with pytest.raises(AgentError):
        logging_agent(path, fail("no")).with_name("talk").build().run_sync("Three.")

    def tasks(**chosen: Any) -> list[str]:
        return [run.task for run in runs_in(path, **chosen)]

    assert tasks() == ["Three.", "Two.", "One."]
    assert tasks(agent="talk") == ["Three.", "Two."]
    assert tasks(user="ann") == tasks(tagged="a") == tasks(tool="add") == ["One."]
    assert tasks(status="failed") == ["Three."]
    assert tasks(status="cancelled") == []
    assert tasks(limit=1) == ["Three."]
    first = runs_in(path)[-1].started_at
    assert tasks(before=first + timedelta(microseconds=1)) == ["One."]
    assert tasks(since=first + timedelta(microseconds=1)) == ["Three.", "Two."]
    assert tasks(least_cost_usd=1.0) == []


def test_a_cancelled_run_is_no_failed_one(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    agent = logging_agent(path, say("Late.", delay=3_600.0)).build()

    async def cancel() -> None:
        with anyio.CancelScope() as scope:
            agent.subscribe(lambda event: scope.cancel() if isinstance(event, ModelCallStarted) else None)
            await agent.run("Wait.")
        await agent.aclose()

    anyio.run(cancel)
    (run,) = runs_in(path, status="cancelled")
    assert (run.status, run.terminated_by) == ("cancelled", "cancelled")
    assert runs_in(path, status="failed") == ()
    timeline = timeline_of(run, events_of(path, run.run_id))
    assert timeline.ended is not None
    assert timeline.ended["status"] == "cancelled"
    shown = command("runs", "list", "--runs", path, "--status", "cancelled", "--json")
    assert [each["status"] for each in json.loads(shown.stdout)] == ["cancelled"]


def test_runs_that_a_tool_begins_have_their_parent(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    helper = logging_agent(path, *SUM).with_name("helper").build()
    asks = agent_tool(helper, name="helper", description="Adds.")
    boss = logging_agent(path, call("helper", task="Add."), answer("3")).with_name("boss").with_tools(asks)
    boss.build().run_sync("What is 1 + 2?")
    anyio.run(helper.aclose)
    (top,) = runs_in(path)
    both = runs_in(path, children=True)
    assert {run.agent: run.parent for run in both} == {"boss": None, "helper": top.run_id}


def test_the_file_grows_with_what_is_new(tmp_path: Path) -> None:
    def size(steps: int) -> int:
        path = tmp_path / f"runs{steps}.db"
        turns = [call("add", a=number, b=1) for number in range(steps)]
        logging_agent(path, *turns, answer("So.")).with_max_iterations(steps + 2).build().run_sync("Count.")
        file = sqlite3.connect(path)
        (stored,) = file.execute("SELECT sum(length(body)) FROM run_texts").fetchone()
        (events,) = file.execute("SELECT sum(length(body)) FROM run_events").fetchone()
        file.close()
        return int(stored) + int(events)

    few, many = size(10), size(40)
    assert many < 6 * few  # it would be 16 times as much if each request were stored whole


def test_a_long_run_keeps_one_request_in_memory(tmp_path: Path) -> None:
    alive: list[int] = []

    async def look(context: RunContext, number: int) -> int:
        """Look up a number."""
        await agent.container.core.events().flush()
        if number in (0, 29):
            alive.append(sum(isinstance(each, AssistantMessage) for each in gc.get_objects()))
        return number

    turns = [call("look", number=number) for number in range(30)]
    model = ScriptedLLM(*turns, answer("So."))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(look)
    agent = builder.with_run_log(tmp_path / "runs.db").with_max_iterations(32).build()
    agent.run_sync("Count.")
    assert len(alive) == 2
    assert alive[-1] - alive[0] < 100  # it would be 465 if each request were kept


def test_requests_have_their_texts_after_the_file_was_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "_ATTEMPTS", 1_000)
    path = tmp_path / "runs.db"
    log = SqliteRunLog(path, patience_s=0.0)
    agent = logging_agent(tmp_path / "other.db", *SUM).build()

    async def main() -> None:
        async with agent:
            agent.container.core.events().subscribe(log)
            await attempt(log.check())
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            await agent.run("Add 1 and 2.")
            await log.flush()
            assert log._failures
            other.execute("ROLLBACK")
            other.close()
        await log.aclose()

    anyio.run(main)
    (run,) = runs_in(path)
    asked: list[Any] = [
        each.body["request"] for each in events_of(path, run.run_id) if "request" in each.body
    ]
    assert len(asked) == 2
    assert not any(None in each["messages"] or None in each["tools"] for each in asked)
    assert not log._texts


def test_a_user_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    agent = logging_agent(path, *SUM, *SUM).build()

    async def main() -> int:
        async with agent:
            await agent.run("Ann's secret sum.", user="ann")
            await agent.run("Bob's sum.", user="bob")
            return await agent.forget(user="ann")

    assert anyio.run(main) >= 1
    assert [run.user for run in runs_in(path)] == ["bob"]
    assert b"secret sum" not in b"".join(each.read_bytes() for each in tmp_path.iterdir())


@tool(requires_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return "paid"


def paying_agent(path: Path, *turns: Any, instructions: str = "") -> ReactiveAgents:
    builder = logging_agent(path, *turns).with_tools(pay).with_system_prompt(instructions)
    return builder.with_approval(timeout_s=60)


@pytest.mark.parametrize("is_durable", [True, False])
def test_nothing_of_a_run_that_is_forgotten_while_it_is_under_way_is_logged_again(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, is_durable: bool
) -> None:
    path, asked, ended = tmp_path / "log.db", anyio.Event(), list[str]()
    described = paying_agent(path, call("pay", amount=5), answer("Paid 5."))
    if is_durable:
        described = described.with_durability(tmp_path_factory.mktemp("record") / "runs.db", recover=False)

    async def main() -> None:
        async with described.build() as agent, anyio.create_task_group() as group:

            async def run() -> None:
                try:
                    result = await agent.run("Pay 5 for Ada of 12 Elm Street.", run_id="r-1", user="ada")
                    ended.append(result.status)
                except AgentError as error:
                    ended.append(type(error.error).__name__)

            agent.subscribe(lambda event: asked.set() if isinstance(event, ApprovalRequested) else None)
            group.start_soon(run)
            await asked.wait()
            assert await agent.forget(user="ada") == 1 + is_durable
            for each in agent.pending_approvals():
                agent.approve(each.run_id, each.approval_id)

    anyio.run(main)
    assert ended == ["ExecutionError" if is_durable else "completed"]  # its record was deleted, too
    assert (runs_in(path), events_of(path, "r-1")) == ((), ())


def test_a_run_that_a_tool_begins_is_forgotten_by_the_user_of_the_run_above(tmp_path: Path) -> None:
    path, asked, forgotten = tmp_path / "log.db", anyio.Event(), list[int]()
    helper = logging_agent(path, answer("Seen.")).with_name("helper").build()
    asks = agent_tool(helper, name="helper", description="Looks.", requires_approval=True)
    turns = (call("helper", task="Look at 12 Elm Street."), answer("Seen."))
    boss = logging_agent(path, *turns).with_tools(asks)

    async def main() -> None:
        async with helper, boss.with_approval(timeout_s=60).build() as agent:
            agent.subscribe(lambda event: asked.set() if isinstance(event, ApprovalRequested) else None)
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: agent.run("Look there.", user="ada"))
                await asked.wait()
                forgotten.append(await agent.forget(user="ada"))  # before the other run begins
                (request,) = agent.pending_approvals()
                agent.approve(request.run_id, request.approval_id)
            await helper.container.core.run_log().unwrap().flush()
            forgotten.append(await agent.forget(user="ada"))

    anyio.run(main)
    assert forgotten == [1, 1]
    assert runs_in(path, children=True) == ()


def test_a_refusal_is_no_event_of_the_run_that_is_under_way(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    path, record = tmp_path / "log.db", tmp_path_factory.mktemp("record") / "runs.db"
    shown, refused, outside = list[str](), list[str](), list[str]()
    asked = anyio.Event()

    def agent(*turns: Any, instructions: str = "") -> Any:
        described = paying_agent(path, *turns, instructions=instructions)
        return described.with_durability(record, recover=False).build()

    async def live(one: Any) -> None:
        async with aclosing(one.stream("Pay 5.", run_id="r-1", user="ada")) as events:
            async for event in events:
                shown.append(type(event).__name__)
                if isinstance(event, ApprovalRequested):
                    asked.set()

    async def main() -> None:
        async with agent(call("pay", amount=5)) as one, anyio.create_task_group() as group:
            group.start_soon(live, one)
            await asked.wait()
            one.subscribe(lambda event: outside.append(type(event).__name__))
            async for event in one.stream("Eve's task.", run_id="r-1", user="eve"):
                refused.append(type(event).__name__)
            group.cancel_scope.cancel()
        async with agent(instructions="Be brief.") as other:
            other.subscribe(lambda event: outside.append(type(event).__name__))
            await other.runs.work(until_idle=True)

    anyio.run(main)
    assert refused == ["TaskStarted", "TaskFailed"]  # the stream of the call that is refused
    assert (shown.count("TaskStarted"), shown.count("TaskFailed")) == (1, 0)
    assert outside == ["ApprovalDecided", "TaskFailed"]  # of the run itself, when it was cancelled
    (run,) = runs_in(path)
    assert (run.status, run.user, run.task) == ("interrupted", "ada", "Pay 5.")
    assert run.detail == "Run 'r-1' was interrupted and can be resumed: it was cancelled from outside."
    kinds = [each.kind for each in events_of(path, "r-1")]
    assert (kinds.count("TaskStarted"), kinds.count("TaskFailed")) == (1, 1)
    (told,) = [each.getMessage() for each in caplog.records if each.name == "reactive_agents"]
    assert told.startswith("The run r-1 cannot go on here: Run 'r-1' was begun by another version")


def test_old_runs_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    for number in range(4):
        logging_agent(path, answer("So."), keep_runs=2).build().run_sync(f"Task {number}.")
    assert [run.task for run in runs_in(path)] == ["Task 3.", "Task 2."]
    file = sqlite3.connect(path)
    kept = {name for (name,) in file.execute("SELECT run_id FROM logged_runs")}
    assert {name for (name,) in file.execute("SELECT DISTINCT run_id FROM run_events")} <= kept
    file.close()


def test_runs_of_more_than_the_days_to_keep_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    for days, name in ((31, "Old."), (29, "Late."), (1, "Yesterday.")):
        logging_agent(path, answer("So."), keep_days=None).build().run_sync(name)
        make_earlier(path, days)
    logging_agent(path, answer("So."), keep_days=None).build().run_sync("Never delete.")
    assert [run.task for run in runs_in(path)] == ["Never delete.", "Yesterday.", "Late.", "Old."]
    logging_agent(path, answer("So.")).build().run_sync("New.")
    assert [run.task for run in runs_in(path)] == ["New.", "Never delete.", "Yesterday.", "Late."]


def make_earlier(path: Path, days: int) -> None:
    """Set back the time at which the latest run began, as if the clock had moved on since."""
    latest = "(SELECT max(started_us) FROM logged_runs)"
    with sqlite_file(path) as file:
        statement = f"UPDATE logged_runs SET started_us = started_us - ? WHERE started_us = {latest}"
        file.execute(statement, (days * 86_400 * 10**6,))


def test_a_clock_that_jumps_ahead_deletes_no_run_on_its_first_day(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    logging_agent(path, answer("So.")).build().run_sync("Before.")
    make_earlier(path, 100)
    for name in ("First.", "Second."):
        logging_agent(path, answer("So.")).build().run_sync(name)
    assert [run.task for run in runs_in(path)] == ["Second.", "First.", "Before."]
    make_earlier(path, 1)
    logging_agent(path, answer("So.")).build().run_sync("The next day.")
    assert [run.task for run in runs_in(path)] == ["The next day.", "First.", "Second."]


async def work_of_operations(path: Path, size: int) -> dict[str, int]:
    """Return the instructions of SQLite for each operation on a log with so many runs."""
    log = SqliteRunLog(path)

    def fill(file: Any) -> None:
        rows = [
            row
            for number in range(size)
            for row in (
                (f"r{number}", "clerk", None, f"s{number % 20}", f"u{number}", number),
                (f"r{number}-below", "helper", f"r{number}", None, f"u{number}", number),
            )
        ]
        rows += [("x", "rare", None, "rare", "rare", 0), ("x-below", "helper", "x", None, "rare", 0)]
        file.executemany(
            "INSERT INTO logged_runs VALUES"
            " (?, ?, ?, ?, ?, '[]', 'Pay.', ?, 1, 'completed', '', '', 1, 1, 0.0, '1')",
            [(run, agent, parent, session, user, at) for run, agent, parent, session, user, at in rows],
        )

        tools = [(run, 1, "final-answer" if number % 2 else "fetch") for run, *_, number in rows]
        tools += [("r5", 2, "seldom"), ("x", 2, "seldom"), ("x", 3, "seldom")]
        file.executemany("INSERT INTO run_events VALUES (?, ?, 1, 'ToolCallCompleted', ?, '{}')", tools)

    (await log._file.write("fill", fill)).unwrap()
    work, works = await counted_work(log._file)

    assert (await work("a run", log.run(RunId("r5")))).run_id == "r5"
    assert (await work("a run by its beginning", log.run(RunId("r7-")))).run_id == "r7-below"
    assert len(await work("the latest", log.runs(LoggedRunFilter(limit=5)))) == 5
    for names in ({"agent": "rare"}, {"session": "rare"}, {"user": "rare"}, {"parent": "x"}):
        assert len(await work(str(names), log.runs(LoggedRunFilter(**names, limit=5)))) == 1  # type: ignore[arg-type]
    for name, some in (("seldom", 2), ("fetch", 5), ("unknown", 0)):
        assert len(await work(name, log.runs(LoggedRunFilter(tool=name, limit=5)))) == some
    assert await work("no such status", log.runs(LoggedRunFilter(status="failed"))) == ()
    assert await work("forget", log.forget("rare")) == 2
    await log.aclose()
    return works


def test_an_operation_on_a_log_of_many_runs_takes_no_more_than_on_one_of_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave_as_it_is(_: SqliteFile, *, rewrites: bool = False) -> None:
        """Forgetting also rewrites the file, which takes as long as the file is."""

    monkeypatch.setattr(SqliteFile, "empty_log", leave_as_it_is)
    monkeypatch.setattr(run_log, "_OFTEN", 50)
    few = anyio.run(work_of_operations, tmp_path / "few.db", 200)
    many = anyio.run(work_of_operations, tmp_path / "many.db", 1_600)
    grown = {name: work / few[name] for name, work in many.items()}
    assert {name: times for name, times in grown.items() if times > 1.2} == {}


def test_a_few_runs_are_deleted_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other writers of the file wait for each transaction, and the events of all runs for the whole."""
    monkeypatch.setattr(run_log, "_MOST_PRUNED", 5)
    monkeypatch.setattr(run_log, "_DELETED_AT_ONCE", 2)
    path = tmp_path / "runs.db"
    for number in range(8):
        logging_agent(path, answer("So.")).build().run_sync(f"Task {number}.")
    deleted = list[int]()
    log = SqliteRunLog(path, keep_runs=1)

    async def prune() -> None:
        write = log._file.write

        async def counted(*args: Any, **options: Any) -> Any:
            written = await write(*args, **options)
            deleted.append(written.unwrap().rowcount)
            return written

        monkeypatch.setattr(log._file, "write", counted)
        await log._prune(START)

    anyio.run(prune)
    assert deleted == [2, 2, 1]
    assert [run.task for run in runs_in(path)] == ["Task 7.", "Task 1.", "Task 0."]


def test_the_runs_of_a_user_are_forgotten_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other writers of the file, such as all recorded runs, wait for each transaction."""
    monkeypatch.setattr(run_log, "_DELETED_AT_ONCE", 2)
    path = tmp_path / "runs.db"
    described = ReactiveAgents.create().with_name("helper").with_llm(ScriptedLLM(forever(say("It is so."))))
    helper = described.with_run_log(path).build()
    asked = agent_tool(helper, name="ask", description="Ask the helper.")
    turns = [turn for _ in range(5) for turn in (call("ask", task="Help."), answer("So it is."))]
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning(answer_checks=())
    agent = builder.with_tools(asked).with_run_log(path).build()
    for user in ("ann", "bob", "ann", "ann", "ann"):
        agent.run_sync("Ask.", user=user)
    anyio.run(helper.container.core.events().flush)
    assert len(runs_in(path, children=True, limit=50)) == 10
    log, transactions = SqliteRunLog(path), list[int]()

    async def forget() -> Any:
        write = log._file.write

        async def counted(*args: Any, **options: Any) -> Any:
            before = in_file()
            written = await write(*args, **options)
            transactions.append(before - in_file())
            return written

        monkeypatch.setattr(log._file, "write", counted)
        return await attempt(log.forget("ann"))

    def in_file() -> int:
        with sqlite_file(path) as file:
            (runs,) = file.execute("SELECT count(*) FROM logged_runs").fetchone()
        return int(runs)

    assert anyio.run(forget).unwrap() == 8  # with those that the tool began
    assert transactions == [2, 2, 2, 2, 0]
    assert [each.user for each in runs_in(path)] == ["bob"]


def test_many_threads_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    def work() -> None:
        for _ in range(3):
            logging_agent(path, *SUM).build().run_sync("Add.")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = runs_in(path, limit=50)
    assert [run.status for run in found] == ["completed"] * 12
    for run in found:
        sequences = [each.sequence for each in events_of(path, run.run_id)]
        assert sequences == list(range(1, len(sequences) + 1))


def test_a_file_that_cannot_be_written_fails_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "runs.db").write_text("This is no database." * 100)
    assert logging_agent(tmp_path / "runs.db", *SUM).build().run_sync("Add.").status == "completed"
    assert "is not a database" in caplog.text
    assert (tmp_path / "runs.db").read_text().startswith("This is no database.")


KILLED = """
import os, signal, sys, time
from pathlib import Path
from reactive_agents import ReactiveAgents, tool
from reactive_agents.testing import ScriptedLLM, call, forever

@tool
def look(at: int) -> str:
    "Look."
    if at == 3:
        Path(sys.argv[2]).touch()
        time.sleep(60)
    return "seen"

model = ScriptedLLM(*(call("look", at=number) for number in range(9)))
agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(look).with_run_log(sys.argv[1])
agent.build().run_sync("Look.")
"""


@pytest.mark.system
def test_a_killed_run_is_there_up_to_the_kill(tmp_path: Path) -> None:
    path, ready = tmp_path / "runs.db", tmp_path / "ready"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path), str(ready)])
    try:

        async def wait() -> None:
            log = SqliteRunLog(path, read_only=True)
            while True:  # until the last batch before the kill is written
                if ready.exists():
                    found = await attempt(log.runs(LoggedRunFilter()))
                    if isinstance(found, Success) and found.unwrap():
                        logged = await attempt(log.events(found.unwrap()[0].run_id))
                        if [each.kind for each in logged.unwrap()].count("ToolCallStarted") == 4:
                            return
                await anyio.sleep(0.02)

        anyio.run(wait)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    (run,) = runs_in(path)
    assert (run.status, run.ended_at) == ("running", None)
    kinds = [each.kind for each in events_of(path, run.run_id)]
    assert kinds.count("ToolCallCompleted") == 3
    assert kinds[-1] == "ToolCallStarted"


def test_texts_that_no_file_holds_are_stored_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    logging_agent(path, answer("half a \ud83d")).build().run_sync("One \udc00 half.")
    (run,) = runs_in(path)
    assert run.status == "completed"
    assert json.dumps([each.body for each in events_of(path, run.run_id)])


def test_an_endless_run_keeps_up(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    model = forever(call("add", a=1, b=1))
    agent = logging_agent(path, model).with_max_iterations(30).build()
    assert agent.run_sync("Go on.").status == "partial"
    (run,) = runs_in(path)
    assert run.events == len(events_of(path, run.run_id)) > 20


def test_the_response_of_each_model_call_is_logged_beside_its_request(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    turns = (call("add", a=1, b=2), answer("It is 3.", thinking="One and two."))
    logging_agent(path, *turns).build().run_sync("Add 1 and 2.")
    logged = events_of(path, runs_in(path)[0].run_id)
    begun = [each.body for each in logged if each.kind == "ModelCallStarted"]
    ended: list[Any] = [each.body for each in logged if each.kind == "ModelCallCompleted"]
    assert [each["model_call"] for each in begun] == [each["model_call"] for each in ended] == [1, 2]
    assert ended[0]["response"]["tool_calls"][0]["arguments"] == {"a": 1, "b": 2}
    assert ended[1]["response"]["thinking"] == "One and two."


def test_nobody_who_does_not_want_requests_is_given_responses() -> None:
    published: list[Any] = []
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("Hi."))).with_reasoning().build()
    agent.subscribe(published.append)
    agent.run_sync("Say hi.")
    (ended,) = (each for each in published if isinstance(each, ModelCallCompleted))
    assert (ended.response, ended.model_call) == (None, 1)


def test_events_are_read_without_their_requests_and_a_few_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    logging_agent(path, *SUM).build().run_sync("Add 1 and 2.")
    whole = events_of(path, runs_in(path)[0].run_id)

    async def read(**options: Any) -> Any:
        log = SqliteRunLog(path, read_only=True)
        return await attempt(log.events(whole[0].run_id, **options))

    short = anyio.run(lambda: read(with_requests=False)).unwrap()
    assert [each.sequence for each in short] == [each.sequence for each in whole]
    assert all("request" not in each.body for each in short)
    assert [each.body["purpose"] for each in short if each.kind == "ModelCallStarted"] == ["think", "think"]
    few = anyio.run(lambda: read(after=2, limit=3)).unwrap()
    assert [each.sequence for each in few] == [3, 4, 5]


def test_runs_are_found_by_a_text_and_by_the_run_that_began_them(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    expert = ReactiveAgents.create().with_name("expert").with_llm(ScriptedLLM(say("3.")))
    asked = expert.with_reasoning().with_run_log(path).build()
    model = ScriptedLLM(call("expert", task="Add."), answer("3."))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(agent_tool(asked))
    agent.with_run_log(path).build().run_sync("Ask the EXPERT.")
    anyio.run(asked.aclose)  # writes what waits
    (run,) = runs_in(path, text="the expert")
    assert run.task == "Ask the EXPERT."
    assert [each.agent for each in runs_in(path, parent=run.run_id)] == ["expert"]
    assert runs_in(path, text="nobody") == ()


def test_a_continued_run_keeps_the_events_of_each_attempt(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    hanging = anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        hanging.set()
        await anyio.sleep_forever()
        return ""

    def agent(*turns: Any) -> Any:
        builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(wait, add)
        return builder.with_durability(path, recover=False).with_run_log(path).build()

    async def interrupt_and_continue() -> None:
        async with agent(call("add", a=1, b=2), call("wait")) as first, anyio.create_task_group() as group:
            group.start_soon(lambda: first.run("Add.", run_id="r-1"))
            await hanging.wait()
            group.cancel_scope.cancel()
        async with agent(*[answer("It is 3; the waiting is in doubt.")] * 3) as second:
            await second.run("Add.", run_id="r-1")

    anyio.run(interrupt_and_continue)
    (run,) = runs_in(path)
    assert run.status == "partial"  # a call is in doubt
    kinds = [each.kind for each in events_of(path, run.run_id)]
    before, after = kinds[: kinds.index("RunContinued")], kinds[kinds.index("RunContinued") :]
    assert (before.count("ModelCallStarted"), after[-1]) == (2, "TaskCompleted")
    assert after.count("ModelCallCompleted") == after.count("ModelCallStarted") > 2  # two are recorded


def test_a_run_that_could_not_begin_is_that_of_its_agent_and_user(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, folder = tmp_path / "log.db", tmp_path_factory.mktemp("record") / "own"
    given: dict[str, Any] = {"user": "ann", "session": "s", "tags": ["t"]}
    folder.touch()

    async def run(task: str) -> list[Any]:
        seen: list[Any] = []
        described = logging_agent(path, *SUM).with_name("clerk").with_durability(folder / "runs.db")
        async with aclosing(described.build()) as agent:
            agent.subscribe(lambda event: seen.append((event.sequence, type(event).__name__, event.agent)))
            with suppress(AgentError):
                await agent.run(task, run_id="r-1", **given)
        return seen

    assert anyio.run(run, "Ad.") == [(1, "TaskStarted", "clerk"), (2, "TaskFailed", "clerk")]
    (failed,) = runs_in(path, agent="clerk", user="ann", session="s", tagged="t")
    assert (failed.status, failed.ended_at, failed.task) == ("interrupted", None, "Ad.")
    folder.unlink()
    folder.mkdir()
    seen = anyio.run(run, "Add.")
    (run_,) = runs_in(path, agent="clerk", user="ann", session="s", tagged="t")
    assert (run_.status, run_.task) == ("completed", "Add.")
    assert [(each.sequence, each.kind) for each in events_of(path, "r-1")] == [
        (number, kind) for number, kind, _ in seen
    ]


def test_an_interrupted_run_begins_once_and_keeps_its_end(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, seen = tmp_path / "runs.db", list[tuple[int, str]]()
    described = logging_agent(path, *SUM).with_sessions(tmp_path_factory.mktemp("sessions"))  # no file
    agent = described.with_durability(path, recover=False).build()
    agent.subscribe(lambda event: seen.append((event.sequence, type(event).__name__)))
    with pytest.raises(AgentError, match="was interrupted and can be resumed: The sessions file"):
        agent.run_sync("Add.", run_id="r-1", session="s")
    assert [number for number, _ in seen] == [*range(1, len(seen) + 1)]
    assert (seen[0][1], seen[-1][1]) == ("TaskStarted", "TaskFailed")
    assert [(each.sequence, each.kind) for each in events_of(path, "r-1")] == seen


def test_a_log_is_checked_by_writing_to_it(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def check(**options: bool) -> bool:
        log = SqliteRunLog(path, **options)
        checked = await attempt(log.check())
        await log.aclose()
        return isinstance(checked, Success)

    assert [anyio.run(check), anyio.run(check)] == [True, True]
    assert not anyio.run(lambda: check(read_only=True))


@pytest.mark.parametrize("key", [None, b"1" * 32])
def test_a_brief_list_has_the_beginnings_of_the_tasks(tmp_path: Path, key: bytes | None) -> None:
    path, task = tmp_path / "log.db", f"Summarize: {'word ' * 1_000}the end"
    agent = logging_agent(path, say("Done."))
    if key is not None:
        agent = agent.with_durability(tmp_path / "runs.db", key=key)
    agent.build().run_sync(task)

    async def listed(chosen: LoggedRunFilter) -> list[str]:
        async with aclosing(SqliteRunLog(path, read_only=True, key=key)) as log:
            return [each.task for each in (await attempt(log.runs(chosen))).unwrap()]

    assert anyio.run(listed, LoggedRunFilter()) == [task]
    for text in (None, "the end"):
        assert anyio.run(listed, LoggedRunFilter(text=text, brief=True)) == [task[:1_000]]
