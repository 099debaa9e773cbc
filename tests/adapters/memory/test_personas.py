"""Stores of personas: the same in a file and in memory, and in the file also after a restart."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Never

import anyio
import pytest
from attrs import evolve
from returns.maybe import Nothing, Some
from returns.result import Failure, Result, Success

from property_tests.test_persona_learning import a_learning
from reactive_agents.adapters import leases
from reactive_agents.adapters.memory import persona_store
from reactive_agents.adapters.memory.database import MEMORY, open_memory_store
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.adapters.sql import ALL_ROWS, Transaction
from reactive_agents.adapters.sqlite import migrate
from reactive_agents.core.errors import MemoryUnavailable
from reactive_agents.core.ids import ContextId, EventId, LearningId, PersonaId, PlanId, RunId, TaskId
from reactive_agents.core.persona_events import PersonaPlanEnded, PersonaPlanFormulated
from reactive_agents.core.persona_queue import EventEnd, NewMessage, WorkFilter, WorkItem, WorkKind
from reactive_agents.core.personas import (
    THOUGHTS_KEPT,
    DailyLimits,
    Feedback,
    PersonaOutcome,
    Room,
    SelfState,
    Thought,
    ThoughtId,
)
from reactive_agents.effects import attempt, effect
from reactive_agents.ports import PersonaStore
from reactive_agents.testing import FakeClock, InMemoryPersonaStore
from reactive_agents.testing.core import START
from tests.support.personas import a_persona_plan, an_event
from tests.support.sqlite_files import counted_work
from tests.support.virtual_time import SettableClock

pytestmark = pytest.mark.anyio

ADA = PersonaId("ada")
GENERAL = Room(ADA, "chat", ContextId("general"))
OF_DOMAIN = "persona_id = 'ada' AND tenant = '' AND domain = 'chat'"
OF_ROOM = f"{OF_DOMAIN} AND context_id = 'general'"


@pytest.fixture(params=["file", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PersonaStore]:
    if request.param == "memory":
        yield InMemoryPersonaStore()
        return
    kept = SqlitePersonaStore(tmp_path / "memory.db")
    yield kept
    await kept.aclose()


def a_thought(name: str, *, importance: float = 0.5, hours: float = 0.0, context: str = "general") -> Thought:
    at = START + timedelta(hours=hours)
    place = (ADA, "chat", ContextId(context))
    return Thought(ThoughtId(name), *place, "observation", f"It was {name}.", importance, at)


async def test_plans_are_kept_by_their_id_and_found_by_their_event(store: PersonaStore) -> None:
    plan = a_persona_plan("look", "write")
    (await attempt(store.save_plan(plan))).unwrap()
    assert (await attempt(store.get_plan(plan.id))).unwrap() == Some(plan)
    assert (await attempt(store.plan_of_event(plan.room, plan.event.id))).unwrap() == Some(plan)
    ended = evolve(plan.with_plan(status="completed"), succeeded=True)
    (await attempt(store.save_plan(ended))).unwrap()
    assert (await attempt(store.get_plan(plan.id))).unwrap() == Some(ended)
    assert (await attempt(store.get_plan(PlanId("other")))).unwrap() == Nothing
    assert (await attempt(store.plan_of_event(plan.room, EventId("other")))).unwrap() == Nothing
    for changes in ({"persona_id": "eve"}, {"tenant": "acme"}, {"context_id": "other"}, {"domain": "code"}):
        room = evolve(plan.room, **changes)  # type: ignore[arg-type]
        assert (await attempt(store.plan_of_event(room, plan.event.id))).unwrap() == Nothing


async def test_plans_are_listed_newest_first_by_what_is_named(store: PersonaStore) -> None:
    for number, (domain, context) in enumerate([("chat", "a"), ("code", "a"), ("chat", "b")]):
        plan = a_persona_plan(
            name=f"p{number}", domain=domain, event=an_event(name=f"e{number}", context=context)
        )
        made = plan.with_plan(created_at=START + timedelta(seconds=number))
        (await attempt(store.save_plan(made))).unwrap()
    (await attempt(store.save_plan(a_persona_plan(name="p0").with_plan(status="completed")))).unwrap()

    async def listed(**named: object) -> list[str]:
        found = await attempt(store.list_plans(ADA, **named))  # type: ignore[arg-type]
        return [plan.id for plan in found.unwrap()]

    assert await listed() == ["p2", "p1", "p0"]
    assert await listed(domain="chat") == ["p2", "p0"]
    assert await listed(status="active") == ["p2", "p1"]
    assert await listed(domain="chat", context_id="b") == ["p2"]
    assert await listed(limit=1) == ["p2"]
    assert (await attempt(store.list_plans(PersonaId("eve")))).unwrap() == ()


async def test_learnings_are_listed_by_confidence_and_can_be_deleted(store: PersonaStore) -> None:
    for learning in (
        a_learning("weak", confidence=0.2),
        a_learning("used", confidence=0.9, use_count=7),
        a_learning("strong", confidence=0.9),
        a_learning("code", domain="code"),
    ):
        (await attempt(store.change_learnings([(None, learning)]))).unwrap()
    listed = (await attempt(store.list_learnings(ADA, domain="chat"))).unwrap()
    assert [each.id for each in listed] == ["used", "strong", "weak"]
    assert len((await attempt(store.list_learnings(ADA))).unwrap()) == 4
    changed = a_learning("weak", confidence=0.95)
    for given, done in (([(listed[2], changed)], "stored"), ([(listed[2], None)], "stale")):
        assert (await attempt(store.change_learnings(given))).unwrap() == done
    assert (await attempt(store.get_learning(LearningId("weak")))).unwrap() == Some(changed)
    assert (await attempt(store.list_learnings(ADA))).unwrap()[0] == changed
    for done in ("stored", "stale"):
        assert (await attempt(store.change_learnings([(changed, None)]))).unwrap() == done
    assert (await attempt(store.get_learning(LearningId("weak")))).unwrap() == Nothing


async def test_thoughts_of_a_context_come_by_what_is_left_of_their_importance(store: PersonaStore) -> None:
    for thought in (
        a_thought("old and important", importance=0.9),
        a_thought("new and plain", importance=0.5, hours=36),
        a_thought("new and trifling", importance=0.1, hours=36),
        a_thought("elsewhere", importance=1.0, context="other"),
    ):
        (await attempt(store.add_thought(thought))).unwrap()

    async def recalled(**named: object) -> list[str]:
        found = await attempt(store.recall_thoughts(GENERAL, **named))  # type: ignore[arg-type]
        return [thought.id for thought in found.unwrap()]

    assert await recalled() == ["new and plain", "old and important", "new and trifling"]
    assert await recalled(limit=1) == ["new and plain"]
    assert await recalled(kinds=("decision",)) == []


async def test_the_working_memory_of_a_context_stays_small(store: PersonaStore) -> None:
    for number in range(THOUGHTS_KEPT + 3):
        (await attempt(store.add_thought(a_thought(f"t{number}", hours=number)))).unwrap()
    kept = (await attempt(store.recall_thoughts(GENERAL, limit=1_000))).unwrap()
    assert [thought.id for thought in kept] == [f"t{n}" for n in range(THOUGHTS_KEPT + 2, 2, -1)]


async def test_a_state_is_idle_until_it_is_stored(store: PersonaStore) -> None:
    assert (await attempt(store.get_self_state(GENERAL))).unwrap() == SelfState(GENERAL)
    busy = SelfState(GENERAL, "The goal", 0.5, ("A worry.",))
    (await attempt(store.save_self_state(busy))).unwrap()
    assert (await attempt(store.get_self_state(GENERAL))).unwrap() == busy
    for other in (evolve(GENERAL, context_id="other"), evolve(GENERAL, tenant="acme")):
        assert (await attempt(store.get_self_state(other))).unwrap() == SelfState(other)


async def test_the_journal_has_what_was_recorded_of_a_task_in_order(store: PersonaStore) -> None:
    events = [
        PersonaPlanEnded(RunId("r"), TaskId(task), number, START, PlanId("p"), "completed", "Done.", "So.")
        for number, task in enumerate(["a", "b", "a"])
    ]
    for event in events:
        (await attempt(store.record(event))).unwrap()
    assert (await attempt(store.journal(TaskId("a")))).unwrap() == (events[0], events[2])
    assert (await attempt(store.journal(TaskId("c")))).unwrap() == ()


# --- the queue ------------------------------------------------------------------------------------------


async def claimed(store: PersonaStore, kind: WorkKind = "event") -> WorkItem | None:
    return (await attempt(store.claim(ADA, kind, domains=("chat",)))).unwrap()


async def add(store: PersonaStore, name: str, context: str = "general", **fields: Any) -> WorkItem | None:
    event = an_event(name=name, context=context, **fields)
    room = Room(ADA, "chat", event.context_id, event.tenant)
    return (await attempt(store.add_event(room, event))).unwrap().item


async def test_claims_of_the_fake_do_not_expire_and_are_renewed_by_no_thread() -> None:
    clock = FakeClock()
    store = InMemoryPersonaStore(clock=clock)
    before = threading.enumerate()
    await add(store, "e1")
    assert await claimed(store) is not None
    (until,) = store._tables.rows("SELECT lease_until FROM persona_work")[0]
    assert until == ALL_ROWS
    assert threading.enumerate() == before


async def test_events_of_a_room_come_one_by_one_and_the_highest_priority_first(store: PersonaStore) -> None:
    for name, context, priority in (("e1", "a", 0.5), ("e2", "a", 0.5), ("e1", "b", 0.9), ("e1", "c", 0.1)):
        assert await add(store, name, context, priority=priority) is not None
    assert await add(store, "e1", "a") is not None
    assert (await attempt(store.waiting(ADA, "event", domains=("chat",)))).unwrap() == 4, "e1 is known"
    taken = [await claimed(store) for _ in range(3)]
    assert [(each.room.context_id, each.key) for each in taken if each] == [
        ("b", "e1"),
        ("a", "e1"),
        ("c", "e1"),
    ]
    assert await claimed(store) is None, "e2 comes after e1"
    first = taken[1]
    assert first is not None
    assert (await attempt(store.end_work(first))).unwrap()
    following = await claimed(store)
    assert following is not None
    assert (following.key, following.attempts) == ("e2", 1)
    assert (await attempt(store.claim(ADA, "event", domains=("code",)))).unwrap() is None


async def test_a_tenant_with_many_waiting_events_holds_up_no_other(store: PersonaStore) -> None:
    for tenant, rooms in (("big", 12), ("small", 2), ("", 1)):
        for room in range(rooms):
            await add(store, "e1", f"room-{room}", tenant=tenant)
    await add(store, "e1", "urgent", tenant="big", priority=0.9)
    turns = []
    for _ in range(16):
        item = await claimed(store)
        assert item is not None
        turns.append(f"{item.room.tenant or 'none'} {item.room.context_id}")
        assert (await attempt(store.end_work(item))).unwrap()
    assert turns[0] == "big urgent", "tenants have turns within a priority"
    assert turns[1:6] == ["small room-0", "none room-0", "big room-0", "small room-1", "big room-1"]
    assert turns[6:] == [f"big room-{room}" for room in range(2, 12)]
    assert await claimed(store) is None


async def test_the_turns_of_the_tenants_of_a_domain_are_its_own(store: PersonaStore) -> None:
    """Each domain has places for its messages."""
    for room in range(3):
        for domain, tenant in (("busy", "a"), ("chat", "a"), ("chat", "b")):
            event = an_event(tenant=tenant, context=f"room-{room}")
            place = Room(ADA, domain, event.context_id, tenant)
            (await attempt(store.add_event(place, event))).unwrap()
    turns = []
    for _ in range(3):
        for domain in ("busy", "chat"):
            item = (await attempt(store.claim(ADA, "event", domains=(domain,)))).unwrap()
            assert item is not None
            turns += [item.room.tenant] if domain == "chat" else []
    assert turns == ["a", "b", "a"]


@pytest.mark.parametrize("message_id", ["half \ud83d of it", "\ud83d\ude00"])
async def test_a_message_is_found_by_the_id_of_its_platform_whatever_that_is(
    store: PersonaStore, message_id: str
) -> None:
    await add(store, "e1")
    item = await claimed(store)
    assert item is not None
    assert (await attempt(store.end_work(item, message_id=message_id))).unwrap()
    (found,) = (await attempt(store.find_work(WorkFilter(ADA, message_id=message_id)))).unwrap()
    assert found.number == item.number


async def test_a_full_queue_takes_none_or_drops_the_oldest(store: PersonaStore) -> None:
    room, event = Room(ADA, "chat", ContextId("general")), an_event()
    assert await add(store, "e1") is not None
    full = (await attempt(store.add_event(room, event, capacity=1))).unwrap()
    assert (full.item, full.is_new, full.waiting) == (None, False, 1)
    taken = (await attempt(store.add_event(room, event, capacity=1, drop_oldest=True))).unwrap()
    assert taken.dropped is not None
    assert (taken.dropped.key, taken.is_new, taken.waiting) == ("e1", True, 1)
    other = evolve(room, tenant="acme"), evolve(event, tenant="acme")
    beside = (await attempt(store.add_event(*other, capacity=1, drop_oldest=True))).unwrap()
    assert (beside.dropped, beside.is_new, beside.waiting) == (None, True, 1), "each tenant has its own place"


async def test_what_was_given_back_is_tried_again_when_it_is_due(store: PersonaStore) -> None:
    await add(store, "e1")
    item = await claimed(store)
    assert item is not None
    assert (await attempt(store.release(item))).unwrap()
    item = await claimed(store)
    assert item is not None
    assert item.attempts == 1, "it was not tried before"
    later = datetime.now(UTC) + timedelta(days=1)
    assert (await attempt(store.release(item, due=later, reason="It failed."))).unwrap()
    assert await claimed(store) is None
    assert (await attempt(store.order_work(item.number, "retry"))).unwrap()
    again = await claimed(store)
    assert again is not None
    assert (again.attempts, again.reason) == (1, "It failed.")


async def test_a_clock_that_is_set_back_makes_no_try_wait_for_it(tmp_path: Path) -> None:
    clock = SettableClock()
    store = SqlitePersonaStore(tmp_path / "memory.db", clock=clock)
    await add(store, "e1")
    item = await claimed(store)
    assert item is not None
    due = clock.time + timedelta(seconds=8)
    assert (await attempt(store.release(item, due=due, reason="It failed."))).unwrap()
    clock.time -= timedelta(seconds=0.5)
    assert await claimed(store) is None, "clocks are corrected by fractions of a second"
    clock.time -= timedelta(days=1)
    assert await claimed(store) is not None
    await store.aclose()


@pytest.mark.parametrize("column", ["event", "outcome"])
async def test_what_cannot_be_read_is_a_dead_letter_that_holds_up_no_other_room(
    tmp_path: Path, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqlitePersonaStore(tmp_path / "memory.db")
    for name, context in (("e1", "a"), ("e2", "a"), ("e1", "b")):
        await add(store, name, context)
    with closing(sqlite3.connect(tmp_path / "memory.db")) as file, file:
        file.execute(f"UPDATE persona_work SET {column} = '{{}}' WHERE number = 1")
    other = await claimed(store)
    assert other is not None
    assert (other.room.context_id, other.key) == ("b", "e1")
    following = await claimed(store)
    assert following is not None
    assert (following.room.context_id, following.key) == ("a", "e2")
    (dead,) = (await attempt(store.find_work(WorkFilter(ADA, statuses=("dead",))))).unwrap()
    assert (dead.number, dead.reason) == (1, "[Its stored form cannot be read.]")
    assert caplog.messages == ["The event 1 is a dead letter: [Its stored form cannot be read.]"]
    said = (await attempt(store.transcript(following.room, before=following.number))).unwrap()
    unreadable = ["[Its stored form cannot be read.]"]
    assert [each.content for each in said] == (unreadable if column == "outcome" else [])
    await store.aclose()


async def test_work_of_a_process_that_is_gone_or_silent_is_taken_over(tmp_path: Path) -> None:
    clock = SettableClock()
    store = SqlitePersonaStore(tmp_path / "memory.db", clock=clock)
    await add(store, "e1")

    def held(by: str, seconds: float, attempts: int) -> None:
        until = int((clock.time.timestamp() + seconds) * 1e6)
        with closing(sqlite3.connect(tmp_path / "memory.db")) as file, file:
            values = (by, until, int(clock.time.timestamp() * 1e6), attempts)
            file.execute(
                "UPDATE persona_work SET holder = ?, lease_until = ?, updated_at = ?, attempts = ?", values
            )

    elsewhere = "h elsewhere 1 1"
    held(elsewhere, 10, 1)
    assert await claimed(store) is None
    held(elsewhere, -1, 1)
    assert await claimed(store) is not None, "another machine that renews nothing"
    python = "from reactive_agents.adapters.leases import new_holder; print(new_holder())"
    gone = (await anyio.run_process([sys.executable, "-c", python])).stdout.decode().strip()
    held(gone, 10, 1)
    assert await claimed(store) is not None, "a process of this machine that ended"
    held(gone, 10, 2)
    assert await claimed(store) is None, "two processes ended at it: the next one waits a second"
    clock.time += timedelta(seconds=1)
    assert await claimed(store) is not None
    await store.aclose()


async def test_a_clock_that_jumps_ahead_takes_no_work_from_a_live_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SettableClock()
    live, other = (
        SqlitePersonaStore(tmp_path / "memory.db", clock=each) for each in (SettableClock(), clock)
    )
    monkeypatch.setattr(leases.LeaseRenewal, "hold", lambda *_: None)
    monkeypatch.setattr(leases, "DOUBTED_S", 600.0)
    await add(live, "e1")
    assert await claimed(live) is not None
    assert await claimed(other) is None
    clock.time += timedelta(days=90)
    assert await claimed(other) is None
    monkeypatch.setattr(leases, "DOUBTED_S", 0.0)
    assert await claimed(other) is not None
    for store in (live, other):
        await store.aclose()


async def test_schedules_come_due_whatever_else_waits_in_the_room(store: PersonaStore) -> None:
    """A schedule is claimed when it is due, keeps its time while it stays the same, and can be dropped."""
    friday, today = datetime.now(UTC) + timedelta(days=4), datetime.now(UTC) - timedelta(seconds=1)
    for key, due in (("friday", friday), ("today", today)):
        (await attempt(store.add_schedule(GENERAL, key, an_event(key), due))).unwrap()
    assert (await attempt(store.waiting(ADA, "event", domains=("chat",)))).unwrap() == 0
    item = (await attempt(store.claim(ADA, "schedule", domains=("chat",)))).unwrap()
    assert item is not None
    assert (item.key, item.event.context_id, item.due) == ("today", "general", today)
    assert (await attempt(store.claim(ADA, "schedule", domains=("chat",)))).unwrap() is None
    assert (await attempt(store.release(item, due=today))).unwrap()
    (await attempt(store.add_schedule(GENERAL, "today", an_event("today"), friday))).unwrap()
    item = (await attempt(store.claim(ADA, "schedule", domains=("chat",)))).unwrap()
    assert item is not None  # the same event keeps the time that it waits for
    assert (await attempt(store.end_work(item))).unwrap()
    (await attempt(store.add_schedule(GENERAL, "friday", an_event("changed"), today))).unwrap()
    changed = (await attempt(store.claim(ADA, "schedule", domains=("chat",)))).unwrap()
    assert changed is not None
    assert (changed.key, changed.event.content) == ("friday", "changed")
    assert (await attempt(store.release(changed, due=today))).unwrap()
    assert (await attempt(store.order_work(changed.number, "drop"))).unwrap()
    assert (await attempt(store.claim(ADA, "schedule", domains=("chat",)))).unwrap() is None
    (await attempt(store.add_schedule(GENERAL, "friday", an_event("changed"), today))).unwrap()
    again = (await attempt(store.claim(ADA, "schedule", domains=("chat",)))).unwrap()
    assert again is not None
    assert again.number == changed.number


async def test_a_schedule_that_is_set_anew_is_of_the_new_event(store: PersonaStore) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    for author in ("Ann", "Bob"):
        event = an_event("Hello", f"by-{author}", author=author)
        (await attempt(store.add_schedule(GENERAL, "daily", event, later))).unwrap()
    (found,) = (await attempt(store.find_work(WorkFilter(ADA, user="Bob")))).unwrap()
    assert (await attempt(store.find_work(WorkFilter(ADA, event_id=found.event.id)))).unwrap() == (found,)
    (await attempt(store.forget(ADA, user="Ann"))).unwrap()
    assert (await attempt(store.find_work(WorkFilter(ADA)))).unwrap() == (found,)
    (await attempt(store.forget(ADA, user="Bob"))).unwrap()
    assert (await attempt(store.find_work(WorkFilter(ADA)))).unwrap() == ()


async def test_an_event_is_tried_when_its_task_begins(store: PersonaStore) -> None:
    await add(store, "e1")

    async def tries() -> int:
        (found,) = (await attempt(store.find_work(WorkFilter(ADA)))).unwrap()
        return found.attempts

    item = await claimed(store)
    assert item is not None
    assert (item.attempts, await tries()) == (1, 0), "a process that waits to begin may end"
    assert (await attempt(store.begin_task(item, TaskId("task")))).unwrap()
    assert await tries() == 1
    assert (await attempt(store.release(item, reason="It failed."))).unwrap()
    assert await tries() == 1
    again = await claimed(store)
    assert again is not None
    assert (again.attempts, await tries()) == (2, 1)
    assert (await attempt(store.release(again))).unwrap()
    assert await tries() == 1


async def test_who_lost_an_event_stores_nothing_about_it(store: PersonaStore) -> None:
    await add(store, "e1")
    item = await claimed(store)
    assert item is not None
    assert (await attempt(store.order_work(item.number, "retry"))).unwrap()
    other = await claimed(store)
    assert other is not None
    plan = a_persona_plan("look", event=item.event)
    outcome = PersonaOutcome(item.event.id, "completed", "Done.", plan, "So.")
    end = EventEnd(outcome, plan, (NewMessage("e1#answer", "So."),), evaluate=True)
    for refused in (
        store.save_plan(plan, item),
        store.end_event(item, end),
        store.end_work(item),
        store.release(item),
        store.begin_task(item, plan.task.id),
        store.replace_event(item, item.event),
    ):
        assert not (await attempt(refused)).unwrap()  # type: ignore[arg-type]
    assert (await attempt(store.get_plan(plan.id))).unwrap() == Nothing
    assert (await attempt(store.end_event(other, end))).unwrap()
    kinds = [each.kind for each in (await attempt(store.find_work(WorkFilter(ADA)))).unwrap()]
    assert sorted(kinds) == ["delivery", "evaluation", "event"]
    ended = store.end_work(other, message=end.messages[0])
    assert (await attempt(ended)).unwrap()
    assert sorted(kinds) == sorted(
        each.kind for each in (await attempt(store.find_work(WorkFilter(ADA)))).unwrap()
    ), "once by its key"


@pytest.mark.parametrize("refused", ["INSERT", "UPDATE"])
async def test_a_dead_letter_and_its_message_are_stored_together_or_not_at_all(
    tmp_path: Path, refused: str
) -> None:
    store = SqlitePersonaStore(tmp_path / "memory.db")
    await add(store, "e1")
    item = await claimed(store)
    assert item is not None
    condition = "NEW.kind = 'delivery'" if refused == "INSERT" else "NEW.status = 'dead'"
    with closing(sqlite3.connect(tmp_path / "memory.db")) as file, file:
        file.execute(
            f"CREATE TRIGGER refuse BEFORE {refused} ON persona_work WHEN {condition} "
            "BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )

    async def left() -> list[tuple[str, str]]:
        found = (await attempt(store.find_work(WorkFilter(ADA)))).unwrap()
        return [(each.kind, each.status) for each in reversed(found)]

    message = NewMessage("e1#fallback", "Later.", "fallback")
    assert isinstance(await attempt(store.end_work(item, "dead", message=message)), Failure)
    assert await left() == [("event", "open")]
    with closing(sqlite3.connect(tmp_path / "memory.db")) as file, file:
        file.execute("DROP TRIGGER refuse")
    assert (await attempt(store.order_work(item.number, "retry"))).unwrap()
    again = await claimed(store)
    assert again is not None
    assert not (await attempt(store.end_work(item, "dead", message=message))).unwrap(), "its claim was lost"
    assert (await attempt(store.end_work(again, "dead", message=message))).unwrap()
    assert await left() == [("event", "dead"), ("delivery", "open")]
    await store.aclose()


async def test_a_transcript_has_each_event_of_the_room_with_its_answers(store: PersonaStore) -> None:
    for name, context in (("e1", "a"), ("e1#x", "a"), ("e1", "b")):
        await add(store, name, context)
    item = await claimed(store)
    assert item is not None
    outcome = PersonaOutcome(item.event.id, "completed", "Done.", answer="So.")
    end = EventEnd(outcome, None, (NewMessage("e1#answer", "So.", is_delivered=True),))
    assert (await attempt(store.end_event(item, end))).unwrap()
    room = Room(ADA, "chat", ContextId("a"))
    said = (await attempt(store.transcript(room))).unwrap()
    assert [each.event_id for each in said] == ["e1", "e1"], "what waits was not checked yet"
    assert (await attempt(store.end_work(item))).unwrap()
    following = await claimed(store)
    assert following is not None
    assert (await attempt(store.end_work(following))).unwrap()
    said = (await attempt(store.transcript(room))).unwrap()
    assert [(each.author, each.event_id) for each in said] == [("Bob", "e1"), ("", "e1"), ("Bob", "e1#x")]
    earlier = (await attempt(store.transcript(room, before=item.number + 1, limit=1))).unwrap()
    assert [each.content for each in earlier] == ["So."]
    assert await claimed(store, "delivery") is None, "somebody else delivered it"


async def test_an_event_has_a_place_among_those_of_the_day_once(store: PersonaStore) -> None:
    for name, context, user in (("e1", "a", "bob"), ("e2", "b", "bob"), ("e3", "c", "eve")):
        await add(store, name, context, user=user)
    items = [item for item in [await claimed(store) for _ in range(3)] if item is not None]

    async def engaged(limits: DailyLimits, since: datetime = START) -> list[str]:
        return [(await attempt(store.engage(each, limits, since))).unwrap() for each in items]

    assert await engaged(DailyLimits(user_events=1)) == ["", "user", ""]
    assert await engaged(DailyLimits(tenant_events=2)) == ["", "tenant", ""], "it had its place"
    assert await engaged(DailyLimits(room_events=1)) == ["", "", ""]
    assert await engaged(DailyLimits(tenant_events=3, user_events=1)) == ["user", "user", ""]
    assert await engaged(DailyLimits(tenant_events=1), datetime.now(UTC) + timedelta(days=1)) == ["", "", ""]
    spent = (await attempt(store.spending(ADA, START, tenant="", user="bob"))).unwrap()
    assert (spent.events, spent.cost_usd) == (2, 0)
    assert (await attempt(store.spending(ADA, START, tenant="acme", user="bob"))).unwrap().events == 0


async def test_tries_are_counted_since_the_last_progress(store: PersonaStore) -> None:
    item = await add(store, "e1")
    for number in range(4):
        item = await claimed(store)
        assert item is not None
        assert (await attempt(store.begin_task(item, TaskId("task")))).unwrap()
        if number < 3:
            assert (await attempt(store.release(item, reason="It failed."))).unwrap()
    assert item is not None

    async def tries() -> int:
        (found,) = (await attempt(store.find_work(WorkFilter(ADA)))).unwrap()
        return found.attempts

    plan = a_persona_plan(event=item.event)
    assert (await attempt(store.save_plan(plan, item, progress=False))).unwrap()
    assert await tries() == 4
    assert (await attempt(store.save_plan(plan, item))).unwrap()
    assert await tries() == 1


async def test_the_texts_of_other_rooms_are_those_of_the_tenant_and_few(store: PersonaStore) -> None:
    for name, context, tenant in (("e1", "general", ""), ("e2", "b", ""), ("e3", "c", ""), ("e4", "d", "x")):
        await add(store, name, context, tenant=tenant, content=name)
    assert (await attempt(store.texts_of_other_rooms(GENERAL))).unwrap() == ("e3", "e2")
    assert (await attempt(store.texts_of_other_rooms(GENERAL, 1))).unwrap() == ("e3",)
    if isinstance(store, SqlitePersonaStore):  # hundreds of them are read at once
        await add(store, "e5", "e", content="word " * 5_000)
        assert (await attempt(store.texts_of_other_rooms(GENERAL))).unwrap() == ("e3", "e2")


async def test_what_an_event_costs_is_counted_while_it_is_under_way(store: PersonaStore) -> None:
    await add(store, "e1")
    item = await claimed(store)
    assert item is not None
    plan = a_persona_plan(event=item.event)
    for _ in range(2):
        assert (await attempt(store.save_plan(plan, item, cost_usd=0.25))).unwrap()
    assert (await attempt(store.spending(ADA, START, tenant=""))).unwrap().cost_usd == 0.5
    assert (await attempt(store.release(item, reason="It failed.", cost_usd=0.25))).unwrap()
    again = await claimed(store)
    assert again is not None
    outcome = PersonaOutcome(item.event.id, "completed", "Done.", answer="So.")
    assert (await attempt(store.end_event(again, EventEnd(outcome, cost_usd=0.25)))).unwrap()
    assert (await attempt(store.spending(ADA, START, tenant=""))).unwrap().cost_usd == 1.0


async def test_half_of_a_character_in_an_answer_keeps_nobody_from_it(store: PersonaStore) -> None:
    await add(store, "e1")
    item = await claimed(store)
    assert item is not None
    outcome = PersonaOutcome(item.event.id, "completed", "Wrong: \ud83d", answer="So \ud83d.")
    end = EventEnd(outcome, None, (NewMessage("e1#answer", "So \ud83d."),))
    assert (await attempt(store.end_event(item, end))).unwrap()
    message = await claimed(store, "delivery")
    assert message is not None
    assert message.message in ("So \ufffd.", "So \ud83d.")
    assert (await attempt(store.release(message, reason="Refused: \ud83d"))).unwrap()


@pytest.mark.parametrize(
    ("table", "index", "order"),
    [
        ("persona_work", "persona_work_by_room", f"{OF_ROOM} AND kind = 'event' ORDER BY number DESC"),
        ("persona_plans", "persona_plans_by_room", f"{OF_ROOM} ORDER BY created_at DESC, seq DESC"),
        ("persona_plans", "persona_plans_by_domain", f"{OF_DOMAIN} ORDER BY created_at DESC, seq DESC"),
        ("persona_work", "persona_work_by_day_of_room", f"{OF_ROOM} AND updated_at >= 5"),
    ],
)
async def test_the_latest_of_a_room_or_domain_are_found_without_reading_all_of_it(
    tmp_path: Path, table: str, index: str, order: str
) -> None:
    store = SqlitePersonaStore(tmp_path / "memory.db")
    await add(store, "e1")
    await store.aclose()
    query = f"SELECT * FROM {table} WHERE {order} LIMIT 50"
    with closing(sqlite3.connect(tmp_path / "memory.db")) as file:
        ways = [way for *_, way in file.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert [way for way in ways if index not in way] == [], "nothing is sorted"


@effect
async def renewed(store: SqlitePersonaStore, holder: str) -> Result[None, Never]:
    """Renew the lease of a holder."""
    return Success(await store._renew({holder: None}))


async def work_of_operations(path: Path, size: int) -> dict[str, int]:
    """Return the instructions of SQLite for each operation on a persona with so many events."""
    store = SqlitePersonaStore(path)

    def fill(file: Transaction) -> None:
        for number in range(size):
            event = an_event(name=f"e{number}", context=f"c{number % 9}")
            room = Room(ADA, "chat", event.context_id)
            for kind, sent in (("event", ""), ("delivery", f"m{number}")):
                named = {"status": "done", "message_id": sent, "plan_id": "p"}
                persona_store._insert(file, kind, room, event.id, event, lambda: number, **named)  # type: ignore[arg-type] # noqa: B023

    (await store._database.write("fill", fill)).unwrap()
    work, works = await counted_work(store._database)

    await work("add", store.add_event(Room(ADA, "chat", ContextId("c1")), an_event(name="new"), capacity=9))
    item = await work("claim", store.claim(ADA, "event", domains=("chat",)))
    store._leases.let_go_of_all()  # or it would be renewed beside what is counted
    await work("renew", renewed(store, item.holder))  # each second, for as long as something is held
    for chosen in (WorkFilter(ADA, limit=5), WorkFilter(ADA, ("event",), tenant="", limit=5)):
        assert len(await work(str(chosen), store.find_work(chosen))) == 5
    reacted = WorkFilter(ADA, ("delivery",), tenant="", domain="chat", message_id="m7", limit=1)
    assert len(await work("message", store.find_work(reacted))) == 1
    assert len(await work("other rooms", store.texts_of_other_rooms(GENERAL, 5))) == 5
    await store.aclose()
    return works


async def test_an_operation_on_many_events_takes_no_more_than_on_few(tmp_path: Path) -> None:
    few = await work_of_operations(tmp_path / "few.db", 100)
    many = await work_of_operations(tmp_path / "many.db", 800)
    grown = {name: work / few[name] for name, work in many.items()}
    assert {name: times for name, times in grown.items() if times > 1.2} == {}


async def test_what_is_kept_of_a_user_is_deleted(store: PersonaStore) -> None:
    await add(store, "e1", user="u1")
    await add(store, "e2", "b", user="u2")
    item = await claimed(store)
    assert item is not None
    plan = a_persona_plan("look", event=item.event)
    outcome = PersonaOutcome(item.event.id, "completed", "Done.", plan, "So.")
    end = EventEnd(outcome, plan, (NewMessage("e1#answer", "So."),), evaluate=True, cost_usd=0.5)
    assert (await attempt(store.end_event(item, end))).unwrap()
    learning = evolve(a_learning("l"), learned_from=(plan.task.id,))
    (await attempt(store.change_learnings([(None, learning)]))).unwrap()
    spent = (await attempt(store.spending(ADA, START, tenant="", user="u1"))).unwrap()
    assert (spent.events, spent.cost_usd) == (1, 0.5)
    assert (await attempt(store.texts_of_other_rooms(GENERAL))).unwrap() == (item.event.content,)
    assert (await attempt(store.forget(ADA, user="u1", tenant=""))).unwrap() == 1
    left = (await attempt(store.find_work(WorkFilter(ADA)))).unwrap()
    assert [each.key for each in left] == ["e2"]
    assert (await attempt(store.get_plan(plan.id))).unwrap() == Nothing


async def test_all_plans_of_an_event_that_was_tried_again_are_deleted(store: PersonaStore) -> None:
    event = an_event(name="e1", user="u1")
    await add(store, "e1", user="u1")
    for name in ("failed", "tried again"):
        (await attempt(store.save_plan(a_persona_plan("look", event=event, name=name)))).unwrap()
    (await attempt(store.save_plan(a_persona_plan("look", event=an_event(name="e2"), name="other")))).unwrap()
    assert (await attempt(store.forget(ADA, user="u1"))).unwrap() == 1
    left = (await attempt(store.list_plans(ADA))).unwrap()
    assert [each.id for each in left] == ["other"]


async def test_notes_of_a_user_and_the_state_of_their_rooms_are_deleted(store: PersonaStore) -> None:
    for name, user in (("mine", "u1"), ("other", "u2")):
        thought = evolve(a_thought(name, context=name), user=user)
        await add(store, name, name, user=user)
        (await attempt(store.add_thought(thought))).unwrap()
        (await attempt(store.save_self_state(SelfState(thought.room, f"busy with {user}")))).unwrap()
    (await attempt(store.forget(ADA, user="u1"))).unwrap()
    mine, other = (evolve(GENERAL, context_id=ContextId(name)) for name in ("mine", "other"))
    assert (await attempt(store.recall_thoughts(mine))).unwrap() == ()
    assert (await attempt(store.get_self_state(mine))).unwrap().focus == ""
    [kept] = (await attempt(store.recall_thoughts(other))).unwrap()
    assert kept.user == "u2"
    assert (await attempt(store.get_self_state(other))).unwrap().focus == "busy with u2"


async def test_retention_leaves_what_is_still_to_be_done(store: PersonaStore) -> None:
    for name, context in (("done", "a"), ("open", "b")):
        await add(store, name, context)
    item = await claimed(store)
    assert item is not None
    assert (await attempt(store.end_work(item))).unwrap()
    later = datetime.now(UTC) + timedelta(days=10_000)
    assert (await attempt(store.forget(ADA, before=later))).unwrap() == 1
    left = (await attempt(store.find_work(WorkFilter(ADA)))).unwrap()
    assert [each.key for each in left] == ["open"]


async def test_what_others_keep_of_a_user_is_deleted_too(store: PersonaStore) -> None:
    plan = a_persona_plan("look", event=an_event(name="e1", user="u2"))
    liked = Feedback(plan.id, "u1", good=True), Feedback(plan.id, "u3", good=True)
    lesson = evolve(a_learning("l", pattern="Bob's “order” is late."), learned_from=(TaskId("t1"),))
    stated = (lesson.pattern, "Be kind.")
    (await attempt(store.save_plan(evolve(plan, feedback=liked, learnings=stated)))).unwrap()
    await add(store, "r1", user="u1", feedback=liked[0])
    (await attempt(store.change_learnings([(None, lesson)]))).unwrap()
    shown = PersonaPlanFormulated(RunId("r"), plan.task.id, 1, START, plan, "So.", (lesson,))
    (await attempt(store.record(shown))).unwrap()
    item = await claimed(store)
    assert item is not None
    (await attempt(store.begin_task(item, TaskId("t1")))).unwrap()
    (await attempt(store.forget(ADA, user="u1"))).unwrap()
    kept = (await attempt(store.get_plan(plan.id))).unwrap().unwrap()
    assert (kept.feedback, kept.learnings) == (liked[1:], ("Be kind.",))
    [told] = (await attempt(store.journal(plan.task.id))).unwrap()
    assert isinstance(told, PersonaPlanFormulated)
    assert [each.pattern for each in told.shown] == ["[deleted]"]


# --- the file or the database ---------------------------------------------------------------------------


async def test_what_cannot_be_read_keeps_nobody_from_being_forgotten(tmp_path: Path) -> None:
    store = SqlitePersonaStore(tmp_path / "memory.db")
    plan = a_persona_plan("look", event=an_event(name="e1", user="u2"))
    (await attempt(store.save_plan(plan))).unwrap()
    await add(store, "r1", user="u1", feedback=Feedback(plan.id, "u1", good=True))
    await add(store, "e2", user="u1")
    with closing(sqlite3.connect(tmp_path / "memory.db")) as file, file:
        file.execute("UPDATE persona_work SET event = '{}' WHERE key = 'e2'")
        file.execute("UPDATE persona_plans SET data = '{}'")
    assert (await attempt(store.forget(ADA, user="u1"))).unwrap() == 2
    assert (await attempt(store.find_work(WorkFilter(ADA)))).unwrap() == ()
    await store.aclose()


async def test_those_who_claim_at_once_share_the_work_in_the_order_of_each_room(tmp_path: Path) -> None:
    stores = [SqlitePersonaStore(tmp_path / "memory.db") for _ in range(4)]
    for number in range(24):
        await add(stores[0], f"e{number // 6}", f"room-{number % 6}")
    taken: list[tuple[str, str]] = []

    async def work(store: PersonaStore) -> None:
        while len(taken) < 24:
            item = await claimed(store)
            if item is None:
                await anyio.sleep(0.001)
                continue
            taken.append((item.room.context_id, item.key))
            assert (await attempt(store.end_work(item))).unwrap()

    async with anyio.create_task_group() as group:
        for each in stores:
            group.start_soon(work, each)
    for number in range(6):
        assert [key for room, key in taken if room == f"room-{number}"] == ["e0", "e1", "e2", "e3"]
    assert len(taken) == 24, "none of them twice"
    for each in stores:
        await each.aclose()


async def test_what_is_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    plan = a_persona_plan("look", "write")
    first = SqlitePersonaStore(tmp_path / "memory.db")
    (await attempt(first.save_plan(plan))).unwrap()
    await first.aclose()
    second = SqlitePersonaStore(tmp_path / "memory.db")
    assert (await attempt(second.get_plan(plan.id))).unwrap() == Some(plan)
    await second.aclose()


async def test_a_file_from_before_personas_is_brought_forward(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    old = sqlite3.connect(path, isolation_level=None)
    migrate(old, MEMORY, to=2)
    assert old.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'persona%'").fetchone() == (0,)
    old.close()
    store = SqlitePersonaStore(path)
    assert (await attempt(store.list_plans(ADA))).unwrap() == ()
    await store.aclose()


async def test_a_file_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    writable = open_memory_store(tmp_path / "memory.db")
    (await writable.read("open", lambda _: None)).unwrap()
    await writable.aclose()
    database = open_memory_store(tmp_path / "memory.db", read_only=True)
    store = SqlitePersonaStore(database)
    failed = await attempt(store.save_plan(a_persona_plan()))
    assert isinstance(failed.failure(), MemoryUnavailable)
    assert "is read-only" in failed.failure().message
    await database.aclose()
