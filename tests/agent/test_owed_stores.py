"""Durable runs that could not be written to their other stores as they ended, and are written there later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from dependency_injector.providers import Object
from returns.maybe import Some
from returns.result import Success

from reactive_agents import AgentError, Image, ReactiveAgent, ReactiveAgents, agent_tool, tool
from reactive_agents.adapters.governance.audit_log import SqliteAuditLog, read_entries
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.system import SystemClock
from reactive_agents.agent.runs import give_order
from reactive_agents.core.events import AgentEvent, ToolCallCompleted
from reactive_agents.core.governance import AuditEntry
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.run_record import RecordedRun, RunEntry, RunStatus
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.run_journal import RecordedEntries
from reactive_agents.testing import ScriptedLLM, answer, call
from tests.support import contents
from tests.support.sqlite_files import audited, sqlite_file
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

STORES = {
    "sessions": "conversation_turns",
    "cost": "spending_runs",
    "memory": "memories",
    "audit": "entries",
}
"""A table of each store, in a file of its own."""


def fill_disk(folder: Path, stores: Sequence[str]) -> None:
    """Let nothing be added to these stores; one that is not there yet is a file of another program."""
    for name in stores:
        path = folder / f"{name}.db"
        if not path.exists():
            path.write_text("This is no database.")
            continue
        with sqlite_file(path) as file:
            file.execute(
                f"CREATE TRIGGER full BEFORE INSERT ON {STORES[name]} BEGIN"
                " SELECT RAISE(ABORT, 'database or disk is full'); END"
            )


def empty_disk(folder: Path, stores: Sequence[str]) -> None:
    for name in stores:
        path = folder / f"{name}.db"
        if path.read_bytes().startswith(b"This"):
            path.unlink()
            continue
        with sqlite_file(path) as file:
            file.execute("DROP TRIGGER full")


def clerk(
    folder: Path,
    *turns: Any,
    llm: ScriptedLLM | None = None,
    fills: Sequence[str] = (),
    without: Sequence[str] = (),
    **durability: Any,
) -> ReactiveAgent:
    """Return an agent with all stores, whose tool fills the disk of some."""

    @tool(idempotent=True)
    def pay() -> str:
        """Make a payment."""
        fill_disk(folder, fills)
        return "paid"

    described = ReactiveAgents.create().with_llm(llm or ScriptedLLM(*turns)).with_reasoning().with_tools(pay)
    options = {
        "sessions": described.with_sessions,
        "cost": described.with_cost,
        "memory": described.with_memory,
        "audit": described.with_audit,
    }
    for name in options:
        if name not in without:
            described = getattr(described, f"with_{name}")(folder / f"{name}.db")
    return described.with_durability(folder / "runs.db", **{"recover": False, **durability}).build()


PAYS = call("pay"), answer("It is paid by Ann, who lives in Oslo.")


def counts(folder: Path) -> dict[str, int]:
    """Return how often the run is in each store."""
    found = {}
    for name, table in {**STORES, "snapshots": "sessions"}.items():
        with sqlite_file(folder / f"{'memory' if name == 'snapshots' else name}.db") as file:
            (found[name],) = file.execute(f"SELECT count(*) FROM {table}").fetchone()
    return found


WRITTEN = {"sessions": 1, "cost": 1, "memory": 3, "audit": 2, "snapshots": 1}


@pytest.mark.parametrize(
    ("store", "by"),
    [
        ("sessions", "recover"),
        ("cost", "run"),
        ("memory", "resume"),
        ("audit", "a worker"),
        (None, "recover"),
    ],
)
async def test_what_a_full_store_missed_of_a_run_is_written_there_later_and_once(
    tmp_path: Path, store: str | None, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    full = list(STORES) if store is None else [store]
    run: dict[str, Any] = {"run_id": "order-1", "session": "s", "user": "ann"}
    result = await clerk(tmp_path, *PAYS, fills=full).run("Pay.", **run)
    assert result.status == "completed"
    (told,) = (each.getMessage() for each in caplog.records if "has ended, but" in each.getMessage())
    assert all(each in told for each in full)
    later = clerk(tmp_path)
    known = await later.runs.find("order-1")
    assert (known.state, {*known.owes}) == ("completed", {*full})

    async def go_on() -> None:
        if by == "recover":
            assert (await later.runs.recover())[known.run_id].unwrap().output == result.output
        elif by == "a worker":
            await later.runs.work(until_idle=True)
        else:
            given: dict[str, Any] = {} if by == "resume" else {"session": "s", "user": "ann"}
            again = await (
                later.runs.resume("order-1")
                if by == "resume"
                else later.run("Pay.", run_id="order-1", **given)
            )
            assert again == result

    await go_on()
    assert {*(await later.runs.find("order-1")).owes} == {*full}
    assert (await later.runs.replay("order-1")).difference == ""
    assert f"is still not in {full[0]}" in caplog.text
    empty_disk(tmp_path, full)
    later = clerk(tmp_path)
    await go_on()
    assert (await later.runs.find("order-1")).owes == ()
    assert counts(tmp_path) == WRITTEN
    assert audited(tmp_path / "audit.db") == ["start", "run"]
    await later.runs.recover()
    assert counts(tmp_path) == WRITTEN
    assert (await later.runs.replay("order-1")).difference == ""


async def test_the_next_turn_of_a_session_is_shown_the_one_that_could_not_be_added(tmp_path: Path) -> None:
    """It is added in its place before the next run reads the session; other stores are written after it."""
    await clerk(tmp_path, *PAYS, fills=[*STORES]).run("Pay.", run_id="order-1", session="s", user="ann")
    empty_disk(tmp_path, [*STORES])
    llm = ScriptedLLM(answer("Ann has paid."))
    later = clerk(tmp_path, llm=llm)
    await later.run("Who has paid?", run_id="order-2", session="s", user="ann")
    assert "Pay." in [each.content for each in llm.requests[0].messages if isinstance(each, UserMessage)]
    assert (await later.runs.find("order-1")).owes == ()
    assert counts(tmp_path) == {**counts(tmp_path), "sessions": 2, "cost": 2, "audit": 4, "snapshots": 2}


async def test_two_processes_that_write_what_is_owed_write_it_once(tmp_path: Path) -> None:
    await clerk(tmp_path, *PAYS, fills=[*STORES]).run("Pay.", run_id="order-1", session="s", user="ann")
    empty_disk(tmp_path, [*STORES])
    written: list[str] = []

    class Noted(SqliteAuditLog):
        @effect
        async def append(self, entry: AuditEntry) -> Any:
            written.append(entry.action)
            await anyio.lowlevel.checkpoint()
            return await attempt(super().append(entry))

    agents = [clerk(tmp_path) for _ in range(4)]
    for each in agents:
        log = Noted(tmp_path / "audit.db", clock=SystemClock())
        each.container.governance.audit.override(Object(Some(log)))
    async with anyio.create_task_group() as group:
        for each in agents:
            group.start_soon(each.runs.recover)
    assert written == ["run"]
    assert counts(tmp_path) == WRITTEN


async def test_what_is_owed_to_a_store_that_the_agent_lacks_stays_owed_and_is_not_pruned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await clerk(tmp_path, *PAYS, fills=["audit", "cost"]).run(
        "Pay.", run_id="order-1", session="s", user="ann"
    )
    empty_disk(tmp_path, ["audit", "cost"])
    other = clerk(tmp_path, without=["audit"])
    await other.runs.recover()
    assert "The run order-1 is still not in audit: The agent has no store for audit now." in caplog.text
    assert (await other.runs.find("order-1")).owes == ("audit",)
    assert await other.runs.prune(timedelta(0)) == 0
    await clerk(tmp_path).runs.recover()
    assert counts(tmp_path) == WRITTEN
    assert await other.runs.prune(timedelta(0)) == 1


async def test_what_a_run_owes_is_not_written_to_the_stores_of_another_agent(tmp_path: Path) -> None:
    await clerk(tmp_path, *PAYS, fills=["cost"]).run("Pay.", run_id="order-1", session="s", user="ann")
    empty_disk(tmp_path, ["cost"])
    other = ReactiveAgents.create().with_name("other").with_llm(ScriptedLLM()).with_cost(tmp_path / "o.db")
    built = other.with_durability(tmp_path / "runs.db", recover=False).build()
    assert (await built.runs.resume("order-1")).status == "completed"
    assert (await built.runs.find("order-1")).owes == ("cost",)
    await clerk(tmp_path).runs.recover()
    assert counts(tmp_path) == WRITTEN


async def test_the_turn_of_a_session_that_was_deleted_meanwhile_is_no_longer_owed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await clerk(tmp_path, *PAYS, fills=["sessions"]).run("Pay.", run_id="order-1", session="s", user="ann")
    empty_disk(tmp_path, ["sessions"])
    later = clerk(tmp_path)
    await later.sessions.delete("s")
    await later.runs.recover()
    assert "it was deleted while the run was under way" in caplog.text
    assert (await later.runs.find("order-1")).owes == ()
    assert counts(tmp_path)["sessions"] == 0


async def test_what_an_encrypted_run_owes_is_encrypted_and_written_with_the_key(tmp_path: Path) -> None:
    key = b"k" * 32
    full = [*STORES]
    await clerk(tmp_path, *PAYS, fills=full, key=key).run("Pay.", run_id="order-1", session="s", user="ann")
    with sqlite_file(tmp_path / "runs.db") as file:
        bodies = [body for (body,) in file.execute("SELECT body FROM run_entries WHERE key LIKE 'owed:%'")]
    assert len(bodies) == 4
    assert all(body.startswith("sealed:") for body in bodies)
    empty_disk(tmp_path, full)
    await clerk(tmp_path, key=b"o" * 32).runs.recover()
    assert not (tmp_path / "cost.db").exists()
    await clerk(tmp_path, key=key).runs.recover()
    assert counts(tmp_path) == WRITTEN


async def test_what_a_sub_run_owes_is_written_after_the_next_run_of_its_agent(tmp_path: Path) -> None:
    """Its agent has no record of its own: it is in that of its caller."""

    def described(*turns: Any, fills: Sequence[str] = ()) -> ReactiveAgent:
        @tool(idempotent=True)
        def pay() -> str:
            """Make a payment."""
            fill_disk(tmp_path, fills)
            return "paid"

        payer = ReactiveAgents.create().with_name("payer").with_llm(ScriptedLLM(*PAYS)).with_reasoning()
        payer = payer.with_tools(pay).with_audit(tmp_path / "audit.db")
        outer = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        outer = outer.with_tools(agent_tool(payer.build()))
        return outer.with_durability(tmp_path / "runs.db", recover=False).build()

    turns = call("payer", task="Pay."), answer("It is paid.")
    await described(*turns, fills=["audit"]).run("Pay.", run_id="order-1")
    assert audited(tmp_path / "audit.db") == ["start"]
    empty_disk(tmp_path, ["audit"])
    await described(*turns).run("Pay again.", run_id="order-2")
    assert audited(tmp_path / "audit.db") == ["start", "start", "run", "run"]
    with sqlite_file(tmp_path / "runs.db") as file:
        assert file.execute("SELECT 1 FROM runs WHERE wanted <> '' OR holder <> ''").fetchall() == []


async def test_who_gave_an_order_is_in_the_audit_log_later_if_it_was_full(tmp_path: Path) -> None:
    agent = clerk(tmp_path, *PAYS, fills=["audit"])

    def order(event: AgentEvent) -> None:
        if isinstance(event, ToolCallCompleted):
            for give, by in ((agent.pause, "Ann"), (agent.resume, "Bob")):
                assert give(event.task_id, by=by) == Success(None)

    agent.subscribe(order)
    await agent.run("Pay.", run_id="order-1")
    empty_disk(tmp_path, ["audit"])
    for _ in range(2):
        await clerk(tmp_path).runs.recover()
    assert (await clerk(tmp_path).runs.find("order-1")).owes == ()
    entries = [each.entry for each in read_entries(tmp_path / "audit.db").unwrap()]
    assert [each.action for each in entries] == ["start", "pause", "resume", "run"]
    assert [each.detail for each in entries[1:3]] == ["Paused by Ann.", "Resumed by Bob."]


@pytest.mark.parametrize("its_caller", ["is cancelled", "ends without it"])
async def test_an_unfinished_sub_run_that_ends_with_its_caller_is_audited(
    tmp_path: Path, its_caller: str
) -> None:
    @tool(requires_approval=True)
    def pay() -> str:
        """Make a payment."""
        return "paid"

    def described(*turns: Any) -> ReactiveAgent:
        payer = ReactiveAgents.create().with_name("payer").with_llm(ScriptedLLM(*turns)).with_reasoning()
        payer = payer.with_tools(pay).with_audit(tmp_path / "audit.db")
        llm = ScriptedLLM(call("payer", task="Pay."), answer("It is paid."))
        outer = ReactiveAgents.create().with_llm(llm).with_reasoning().with_approval()
        outer = outer.with_tools(agent_tool(payer.build()))
        return outer.with_durability(tmp_path / "runs.db", recover=False).build()

    killed = described(call("pay"))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: killed.run("Pay.", run_id="order-1"))
        await until(killed.pending_approvals)
        group.cancel_scope.cancel()
    assert audited(tmp_path / "audit.db") == ["start", "request"]
    if its_caller == "is cancelled":
        record = SqliteRunRecord(tmp_path / "runs.db", clock=SystemClock())
        assert await give_order(record, RunId("order-1"), "cancel", SystemClock()) == Success(None)
        await record.aclose()
    else:
        await described().runs.stop("order-1")
        assert (await described().runs.resume("order-1")).status == "partial"
    with sqlite_file(tmp_path / "runs.db") as file:
        (sub_run,) = file.execute("SELECT run_id FROM runs WHERE parent = 'order-1'").fetchone()
    known = await described().runs.find(sub_run)
    assert (known.status, known.owes) == ("cancelled", ("audit",))
    await described(answer("It is paid.")).run("Ask the payer.", run_id="order-2")
    entries = [
        each.entry for each in read_entries(tmp_path / "audit.db").unwrap() if each.entry.run_id == sub_run
    ]
    assert [each.action for each in entries] == ["start", "request", "cancel", "run"]
    assert entries[2].detail == "Cancelled by the end of its caller."


async def test_the_image_of_a_turn_that_is_owed_stays_until_its_session_has_it(tmp_path: Path) -> None:
    def described(*turns: Any, fills: Sequence[str] = ()) -> ReactiveAgent:
        @tool(idempotent=True)
        def look() -> str:
            """Look."""
            fill_disk(tmp_path, fills)
            return "seen"

        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(look)
        one = one.with_sessions(tmp_path / "sessions.db").with_content(model_takes=["image"], unheld_bytes=0)
        return one.with_durability(tmp_path / "runs.db", recover=False).build()

    task = ["Look at it.", Image.from_bytes(contents.PNG)]
    first = described(call("look"), answer("It is seen."), fills=["sessions"])
    await first.run(task, run_id="order-1", session="s")
    empty_disk(tmp_path, ["sessions"])
    await described().runs.recover()
    with sqlite_file(tmp_path / "sessions.db") as file:
        held = file.execute("SELECT holder FROM content_holders").fetchall()
        assert file.execute("SELECT count(*) FROM contents").fetchone() == (1,)
    assert held == [("session:1",)]


async def test_a_failed_run_is_in_the_cost_and_the_audit_log_later_and_once(tmp_path: Path) -> None:
    failing = clerk(tmp_path, call("pay"), fills=["cost", "audit"])
    with pytest.raises(AgentError, match="The script is used up"):
        await failing.run("Pay.", run_id="order-1", session="s", user="ann")
    assert {*(await failing.runs.find("order-1")).owes} == {"cost", "audit"}
    empty_disk(tmp_path, ["cost", "audit"])
    later = clerk(tmp_path)
    with pytest.raises(AgentError, match="The script is used up"):
        await later.runs.resume("order-1")
    assert (await later.runs.find("order-1")).owes == ()
    assert audited(tmp_path / "audit.db") == ["start", "run"]
    assert counts(tmp_path)["cost"] == 1


async def test_a_run_that_is_cancelled_while_an_earlier_one_is_written_is_left_to_go_on(
    tmp_path: Path,
) -> None:
    await clerk(tmp_path, *PAYS, fills=["sessions", "audit"]).run("Pay.", run_id="order-1", session="s")
    empty_disk(tmp_path, ["sessions", "audit"])
    scope = anyio.CancelScope()

    class Hangs(SqliteAuditLog):
        @effect
        async def append(self, entry: AuditEntry) -> Any:
            scope.cancel()
            await anyio.lowlevel.checkpoint()

    later = clerk(tmp_path, answer("Ann has paid."))
    log = Hangs(tmp_path / "audit.db", clock=SystemClock())
    later.container.governance.audit.override(Object(Some(log)))
    with scope:
        await later.run("Who has paid?", run_id="order-2", session="s")
    assert scope.cancelled_caught
    assert (await later.runs.find("order-2")).state == "interrupted"
    again = clerk(tmp_path, answer("Ann has paid."))
    assert (await again.run("Who has paid?", run_id="order-2", session="s")).status == "completed"


async def test_an_earlier_run_with_another_key_does_not_hold_up_the_next_one(tmp_path: Path) -> None:
    first = clerk(tmp_path, *PAYS, fills=["sessions"], key=b"o" * 32)
    await first.run("Pay.", run_id="order-1", session="s")
    empty_disk(tmp_path, ["sessions"])
    later = clerk(tmp_path, answer("Ann has paid."), key=b"k" * 32)
    result = await later.run("Who has paid?", run_id="order-2", session="s")
    assert result.status == "completed"


async def test_a_record_that_cannot_note_what_is_owed_has_the_outcome(tmp_path: Path) -> None:
    class Plain(SqliteRunRecord):
        owe: Any = None

        @effect
        async def end(  # type: ignore[override]
            self, run_id: RunId, holder: str, status: RunStatus, result: str
        ) -> Any:
            return await attempt(super().end(run_id, holder, status, result))

    agent = clerk(tmp_path, *PAYS, fills=["audit"])
    agent.container.memory.record.override(Object(Plain(tmp_path / "runs.db", clock=SystemClock())))
    assert (await agent.run("Pay.", run_id="order-1")).status == "completed"
    assert (await agent.runs.find("order-1")).state == "completed"


async def test_the_memories_of_a_fork_are_stored_beside_those_of_its_origin(tmp_path: Path) -> None:
    """Both have the same task, by which memory knows what it has of a run."""
    await clerk(tmp_path, *PAYS).run("Pay.", run_id="order-1", user="ann")
    other = clerk(tmp_path, call("pay"), answer("It is paid by Bob, who lives in Rome."), fills=["memory"])
    fork = await other.runs.fork("order-1", at=1)
    await other.runs.resume(fork)
    assert (await other.runs.find(fork)).owes == ("memory",)
    empty_disk(tmp_path, ["memory"])
    await clerk(tmp_path).runs.recover()
    with sqlite_file(tmp_path / "memory.db") as file:
        found = " ".join(content for (content,) in file.execute("SELECT content FROM memories"))
    assert "Oslo" in found
    assert "Rome" in found


def test_what_a_run_owes_is_known_without_reading_its_entries_again() -> None:
    now = SystemClock().now()
    task = Task(TaskId("t"), AgentId("a"), "Pay.", now)
    run = RecordedRun(RunId("r"), AgentId("a"), task, origin_entries=1)
    stores = enumerate(("memory", "sessions", "cost", "sessions"), 1)
    entries = RecordedEntries(
        run, [RunEntry(f"owed:{each}:{n}", "service", now, "{}", n) for n, each in stores]
    )
    entries.clear()
    assert list(entries.owes) == ["sessions", "cost"]
