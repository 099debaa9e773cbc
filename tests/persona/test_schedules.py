"""Events that come later: by the notation of cron, and as reminders."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from attrs import evolve, fields
from dependency_injector import providers
from returns.future import FutureResult
from returns.result import Failure

from reactive_agents import AgentError, Personas
from reactive_agents.agent.persona import PersonaAgent
from reactive_agents.core.errors import MemoryUnavailable
from reactive_agents.core.events import ToolCallCompleted
from reactive_agents.core.ids import ContextId, EventId
from reactive_agents.core.persona_queue import WorkFilter
from reactive_agents.core.personas import DomainEvent, EngagementPolicy, EventSchedule, PersonaOutcome, Room
from reactive_agents.effects import attempt
from reactive_agents.persona import PersonaInbox
from reactive_agents.persona.persona import EVENT_UNDER_WAY, MOST_REMINDERS, remind
from reactive_agents.testing import (
    EventRecorder,
    FakeClock,
    InMemoryPersonaStore,
    ScriptedLLM,
    answer,
    call,
    forever,
    say,
)
from reactive_agents.testing.core import START
from tests.support.personas import PersonaBench, an_event, persona_bench
from tests.support.virtual_time import Backend, virtual_time
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

MORNING = EventSchedule("morning", "0 8 * * *", "Post the open tickets.", context="team")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


def bench_with(*schedules: EventSchedule, **fields: Any) -> PersonaBench:
    fields = {"clock": FakeClock(), **fields}
    bench = persona_bench(ScriptedLLM(forever(say("So."))), reasoning=False, **fields)
    bench.persona.domains["chat"] = evolve(bench.persona.domains["chat"], schedules=schedules)
    return bench


async def resumed(bench: PersonaBench) -> list[tuple[str, str]]:
    """The ids and rooms of the events that a process finds to do."""
    outcomes = (await attempt(bench.persona.resume())).unwrap()
    return [(each.event_id, each.room.context_id) for each in outcomes if each.room is not None]


async def test_an_event_comes_at_each_time_and_once_for_those_that_were_missed() -> None:
    bench = bench_with(MORNING)
    assert await resumed(bench) == []
    bench.clock.advance(timedelta(days=1).total_seconds())
    day = f"{START:%Y-%m-%d}"
    assert await resumed(bench) == [(f"morning@{day}T08:00:00", "team")]
    assert await resumed(bench) == []
    bench.clock.advance(timedelta(days=5).total_seconds())
    later = f"{START + timedelta(days=5):%Y-%m-%d}"
    assert await resumed(bench) == [(f"morning@{later}T08:00:00", "team")]


def another_process(bench: PersonaBench, *schedules: EventSchedule) -> PersonaBench:
    """A process of the same persona, which began with these schedules."""
    return bench_with(*schedules, store=bench.store, clock=bench.clock)


def advance(bench: PersonaBench, days: float) -> None:
    bench.clock._start += timedelta(days=days)


async def test_a_changed_schedule_follows_its_new_times() -> None:
    bench = bench_with(MORNING)
    assert await resumed(bench) == []
    changed = another_process(bench, evolve(MORNING, cron="0 20 * * *", timezone="Europe/Berlin"))
    assert await resumed(changed) == []
    advance(changed, 1)
    assert await resumed(changed) == [(f"morning@{START:%Y-%m-%d}T20:00:00", "team")]


CHANGES: dict[str, Any] = {
    "cron": "0 9 * * *",
    "timezone": "Europe/Berlin",
    "content": "Post all tickets.",
    "context": "everybody",
    "author": "the office",
    "priority": 0.9,
    "tenant": "acme",
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_schedule_with_any_change_is_another_one(name: str) -> None:
    bench = bench_with(MORNING)
    assert await resumed(bench) == []
    assert await resumed(another_process(bench, evolve(MORNING, **{name: CHANGES[name]}))) == []
    assert len({each.key for each in bench.store.work.values()}) == 2
    of_the_process = {"misfire_grace_s"}
    assert CHANGES.keys() == {each.name for each in fields(EventSchedule)} - {"name"} - of_the_process


async def test_a_removed_schedule_comes_no_more_and_is_dropped_after_a_day() -> None:
    bench = bench_with(MORNING)
    assert await resumed(bench) == []
    removed = another_process(bench)
    for passed, status in ((1, "open"), (1, "dropped")):
        advance(removed, passed)
        assert await resumed(removed) == []
        assert [each.status for each in bench.store.work.values()] == [status]


async def test_a_clock_far_ahead_drops_no_schedule_of_another_version() -> None:
    bench = bench_with(MORNING)
    assert await resumed(bench) == []
    ahead = bench_with(store=bench.store)
    ahead.store._clock = ahead.clock
    advance(ahead, 90)
    for _ in range(2):
        assert await resumed(ahead) == []
        advance(ahead, 0.5)
    bench.store._clock = bench.clock
    advance(bench, 1)
    assert await resumed(bench) == [(f"morning@{START:%Y-%m-%d}T08:00:00", "team")]


async def test_a_schedule_that_was_stored_by_its_name_alone_goes_on() -> None:
    """As an earlier version stored it, with a time that came while no process ran."""
    bench = bench_with()
    room = Room(bench.persona.settings.id, "chat", ContextId("team"))
    event = DomainEvent(
        EventId("morning"),
        ContextId("team"),
        MORNING.author,
        MORNING.content,
        datetime.fromtimestamp(0, UTC),
        MORNING.priority,
        {"cron": MORNING.cron, "timezone": MORNING.timezone, "direct": True},
    )
    at_eight = START.replace(hour=8)
    (await attempt(bench.store.add_schedule(room, "cron/morning", event, at_eight))).unwrap()
    advance(bench, 1)
    later = another_process(bench, MORNING)
    assert await resumed(later) == [(f"morning@{at_eight:%Y-%m-%dT%H:%M:%S}", "team")]
    assert [each.status for each in bench.store.work.values() if each.key == "cron/morning"] == ["dropped"]
    advance(later, 1)
    assert len(await resumed(later)) == 1


async def test_processes_with_different_schedules_keep_those_of_each_other() -> None:
    """While a version that adds one is deployed, and changes another."""
    evening = EventSchedule("evening", "0 20 * * *", "Sum up.", context="team")
    old = bench_with(MORNING)
    assert await resumed(old) == []
    new = another_process(old, evolve(MORNING, content="Post all tickets."), evening)
    assert await resumed(new) == []
    again = another_process(old, MORNING)  # the old version, started again meanwhile
    assert await resumed(again) == []
    advance(new, 1)
    day = f"{START:%Y-%m-%d}"
    at_eight, at_twenty = (f"morning@{day}T08:00:00", "team"), (f"evening@{day}T20:00:00", "team")
    assert await resumed(again) == [at_eight]
    assert await resumed(new) == [at_twenty], "what several have comes once"
    advance(new, 1)
    assert [name for name, _ in await resumed(new)] == [
        f"{name}@{START + timedelta(days=1):%Y-%m-%d}T{hour}:00:00"
        for name, hour in (("morning", "08"), ("evening", "20"))
    ]
    assert [each.content async for each in contents(new)][-2:] == ["Post all tickets.", "Sum up."]


async def contents(bench: PersonaBench) -> AsyncIterator[DomainEvent]:
    found = await attempt(bench.store.find_work(WorkFilter(kinds=("event",))))
    for each in reversed(found.unwrap()):
        yield each.event


async def test_a_schedule_that_a_clock_far_ahead_armed_comes_at_its_next_time() -> None:
    ahead = bench_with(MORNING)
    advance(ahead, 3650)
    assert await resumed(ahead) == []
    right = bench_with(MORNING, store=ahead.store)
    right.store._clock = right.clock
    assert await resumed(right) == []
    advance(right, 1)
    assert await resumed(right) == [(f"morning@{START:%Y-%m-%d}T08:00:00", "team")]


async def test_an_inbox_arms_its_schedules_again_when_the_clock_is_set_back() -> None:
    bench = bench_with(MORNING)
    advance(bench, 3650)
    outcomes: list[PersonaOutcome] = []
    async with PersonaInbox(bench.persona, outcomes.append):
        await until(lambda: bench.store.work)
        advance(bench, -3650)
        await anyio.sleep(1)
        advance(bench, 1)
        await until(lambda: outcomes)
    assert [each.event_id for each in outcomes] == [f"morning@{START:%Y-%m-%d}T08:00:00"]


async def test_schedules_are_stored_when_the_store_can_be_used_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = bench_with(MORNING)
    bench.store.fails_with = MemoryUnavailable("The file is locked.", "add_schedule")
    refused = await attempt(bench.persona.resume())
    assert isinstance(refused, Failure)
    arm_schedules, tries = bench.persona.arm_schedules, list[bool]()

    async def refused_again() -> Any:
        tries.append(True)
        return await arm_schedules()

    bench.persona.arm_schedules = refused_again
    async with PersonaInbox(bench.persona):
        await until(lambda: len(tries) > 1)
        bench.store.fails_with = None
        await until(lambda: bench.store.work)
    told = [each for each in caplog.messages if "stored later" in each]
    assert told == ["The schedules are stored later: The file is locked."], "once, not at each try"


@pytest.mark.parametrize("skews", [(-3, 5), (5, -3), (5, 3)])
async def test_each_event_comes_once_whatever_the_clocks_of_the_machines_say(skews: tuple[int, int]) -> None:
    """``skew_us`` is by how much the clock of the database is ahead of that of a machine."""
    bench, names = bench_with(MORNING), list[str]()
    machines = bench, bench_with(MORNING, store=bench.store)
    for second in range(-20, 20):
        for machine, skew in zip(machines, skews, strict=True):
            bench.store._tables.skew_us, bench.store._clock = skew * 1_000_000, machine.clock
            machine.clock._start = START + timedelta(hours=8, seconds=second - skew)
            if second % 2 == (machine is bench):
                names += [name for name, _ in await resumed(machine)]
    assert names == [f"morning@{START:%Y-%m-%d}T08:00:00"]


def set_clock(machine: PersonaBench, days: float, of_machine: float) -> None:
    """Set the clock of the database, and that of a machine, to so many days after the start."""
    machine.store._clock = machine.clock
    machine.clock._start = START + timedelta(days=of_machine)
    machine.store._tables.skew_us = round((days - of_machine) * 24 * 3600 * 1e6)


async def test_a_machine_whose_clock_is_ahead_drops_no_schedule_of_another_version() -> None:
    old = bench_with(MORNING)
    new = bench_with(store=old.store)
    set_clock(old, 0, 0)
    assert await resumed(old) == []
    set_clock(new, 0.1, 3)
    assert await resumed(new) == []
    set_clock(old, 1, 1)
    assert await resumed(old) == [(f"morning@{START:%Y-%m-%d}T08:00:00", "team")]


async def test_a_machine_whose_clock_is_ahead_adds_no_event_of_a_later_day() -> None:
    bench = bench_with(MORNING)
    for day in range(3):
        set_clock(bench, day, day + 2)
        expected = [(f"morning@{START + timedelta(days=day - 1):%Y-%m-%d}T08:00:00", "team")]
        assert await resumed(bench) == (expected if day else [])


async def test_a_machine_whose_clock_is_behind_makes_up_for_the_latest_time_alone() -> None:
    bench = bench_with(MORNING)
    set_clock(bench, 0, 0)
    assert await resumed(bench) == []
    set_clock(bench, 5, 1)
    assert await resumed(bench) == [(f"morning@{START + timedelta(days=4):%Y-%m-%d}T08:00:00", "team")]


@pytest.mark.parametrize(("late_h", "comes"), [(1, True), (3, False)])
async def test_an_event_that_is_too_late_waits_for_its_next_time(
    late_h: int, comes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    bench = bench_with(evolve(MORNING, misfire_grace_s=2 * 3600))
    assert await resumed(bench) == []
    advance(bench, 3 + (8 + late_h) / 24)
    missed = START.replace(hour=8) + timedelta(days=3)
    assert await resumed(bench) == [(f"morning@{missed:%Y-%m-%dT%H:%M:%S}", "team")] * comes
    told = f"The schedule morning missed its time of {missed.isoformat()}."
    assert (told in caplog.messages) is not comes
    advance(bench, 1 - late_h / 24)
    assert len(await resumed(bench)) == 1


async def test_an_event_that_could_not_be_stored_is_added_later_under_its_id() -> None:
    bench = bench_with(MORNING)
    assert await resumed(bench) == []
    bench.clock.advance(timedelta(days=1).total_seconds())
    item = (await bench.persona.claim("schedule")).unwrap()
    assert item is not None
    bench.store.fails_with = MemoryUnavailable("add_event", "busy")
    await bench.persona.work_item(item)
    bench.store.fails_with = None
    (await attempt(bench.store.release(item, due=item.due))).unwrap()  # as its lease would end
    assert len(await resumed(bench)) == 1


async def test_an_inbox_pauses_before_it_adds_an_event_again_that_was_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, refused = bench_with(MORNING), list[str]()
    assert await resumed(bench) == []
    bench.clock.advance(timedelta(days=1).total_seconds())
    add_event = bench.store.add_event

    def refuses(room: Room, event: DomainEvent, **options: Any) -> Any:
        if len(refused) == 100:  # as if there were no pause
            return add_event(room, event, **options)
        refused.append(event.id)
        return FutureResult.from_failure(MemoryUnavailable("add_event", "refused"))

    monkeypatch.setattr(bench.store, "add_event", refuses)
    async with PersonaInbox(bench.persona):
        await anyio.sleep(10)
        monkeypatch.undo()
    assert 1 < len(refused) < 100
    assert len({*refused}) == 1


async def test_an_inbox_takes_events_that_come_due_and_ends_without_waiting_for_more() -> None:
    bench = bench_with(MORNING)
    outcomes: list[PersonaOutcome] = []
    async with PersonaInbox(bench.persona, outcomes.append):
        await until(lambda: bench.store.work)
        bench.clock.advance(timedelta(days=1).total_seconds())
        await until(lambda: outcomes)
    assert [each.answer for each in outcomes] == ["So."]


async def test_an_inbox_that_is_left_at_once_takes_what_came_due_before() -> None:
    bench = bench_with(MORNING)
    assert await resumed(bench) == []
    bench.clock.advance(timedelta(days=1).total_seconds())
    outcomes: list[PersonaOutcome] = []
    async with PersonaInbox(bench.persona, outcomes.append):
        pass
    assert [each.answer for each in outcomes] == ["So."]


@pytest.mark.parametrize("how", ["resume", "inbox"])
async def test_an_event_that_a_program_schedules_comes_without_other_schedules(how: str) -> None:
    bench = bench_with()
    due = START + timedelta(hours=1)
    (await attempt(bench.persona.schedule("chat", an_event(name="later"), due))).unwrap()
    bench.clock.advance(timedelta(hours=2).total_seconds())
    if how == "resume":
        assert await resumed(bench) == [("later", "general")]
        return
    outcomes: list[PersonaOutcome] = []
    async with PersonaInbox(bench.persona, outcomes.append):
        (await attempt(bench.persona.schedule("chat", an_event(name="another"), due))).unwrap()
        await anyio.sleep(2)
    assert [each.event_id for each in outcomes] == ["later", "another"]


async def test_events_of_one_id_are_scheduled_in_each_of_their_rooms() -> None:
    bench = bench_with()
    for room in ("a", "b"):
        event = an_event(name="later", context=room)
        (await attempt(bench.persona.schedule("chat", event, START + timedelta(hours=1)))).unwrap()
    advance(bench, 1)
    assert sorted(await resumed(bench)) == [("later", "a"), ("later", "b")]


# --- reminders ----------------------------------------------------------------------------------------------


def reminding(llm: ScriptedLLM, sent: list[str], **engagement: Any) -> tuple[PersonaAgent, FakeClock]:
    async def deliver(event: object, text: str) -> None:
        sent.append(text)

    clock = FakeClock()
    described = Personas.create("Ada").with_llm(llm).with_store(InMemoryPersonaStore(clock=clock))
    described = described.with_domain("chat", deliver=deliver, reminders=True)
    ada = described.with_options(reasoning=False, engagement=EngagementPolicy(**engagement)).build()
    ada.container.core.clock.override(providers.Object(clock))
    return ada, clock


async def test_a_reminder_comes_back_into_its_room_at_its_time() -> None:
    friday = START + timedelta(days=4)
    llm = ScriptedLLM(
        call("remind", at=friday.isoformat(), text="Call Eve."),
        answer("I will."),
        answer("Call Eve now."),
    )
    sent: list[str] = []
    ada, clock = reminding(llm, sent)
    async with ada:
        await ada.send("Remind me on Friday to call Eve.", context="bob", author="Bob")
        assert (await attempt(ada.persona.resume())).unwrap() == ()
        clock.advance(timedelta(days=4).total_seconds())
        [outcome] = (await attempt(ada.persona.resume())).unwrap()
    assert sent == ["I will.", "Call Eve now."]
    assert outcome.plan is not None
    event = outcome.plan.event
    assert (event.context_id, event.author, event.at) == ("bob", "Bob", friday)
    assert event.content == "A reminder that was asked for here: Call Eve."


async def test_a_reminder_knows_the_day_and_comes_in_quiet_hours_too() -> None:
    night = START + timedelta(days=1, hours=14)
    llm = ScriptedLLM(
        call("remind", at=night.isoformat(), text="Sleep.", when="It is Thursday, 2026-01-01T"),
        answer("I will."),
        answer("Sleep now."),
    )
    sent: list[str] = []
    ada, clock = reminding(llm, sent, quiet_hours=["22:00-07:00"], timezone="Asia/Tokyo")
    async with ada:
        await ada.send("Remind me tomorrow at night.", author="Bob")
        clock.advance(timedelta(days=1, hours=14, minutes=5).total_seconds())
        await attempt(ada.persona.resume())
    assert sent == ["I will.", "Sleep now."]
    assert "+09:00 (Asia/Tokyo) now." in str(llm.requests[0].messages[-1].content)


async def test_a_reminder_of_a_step_that_is_executed_again_comes_once() -> None:
    bench, event, due = bench_with(), an_event(), START + timedelta(days=4)
    under_way = EVENT_UNDER_WAY.set((bench.persona, bench.persona.room_of("chat", event), event))
    try:
        for text in ("Call Eve.", "Call Eve.", "Call Ann."):
            await remind(due.isoformat(), text)
    finally:
        EVENT_UNDER_WAY.reset(under_way)
    advance(bench, 5)
    assert len(await resumed(bench)) == 2


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ("on Friday", "expected a time such as 2026-01-01"),
        ("2026-01-05T09:00:00", "has no offset"),
        ("2025-01-05T09:00:00+00:00", "is not within a year from now"),
        ("2036-01-05T09:00:00+00:00", "is not within a year from now"),
    ],
)
async def test_a_time_that_cannot_be_meant_is_explained_to_the_model(when: str, problem: str) -> None:
    llm = ScriptedLLM(call("remind", at=when, text="Call Eve."), forever(answer("I cannot.")))
    ada, _ = reminding(llm, [])
    recorder = EventRecorder()
    async with ada:
        ada.subscribe(recorder)
        await ada.send("Remind me.")
    [called] = [each for each in recorder.of(ToolCallCompleted) if each.tool_name == "remind"]
    assert not called.success
    assert problem in str(llm.requests[1].messages[-1])


async def test_a_user_has_no_more_than_so_many_reminders() -> None:
    when = START + timedelta(days=1)
    llm = ScriptedLLM(call("remind", at=when.isoformat(), text="Again."), forever(answer("Full.")))
    ada, _ = reminding(llm, [])
    async with ada:
        for number in range(MOST_REMINDERS):
            later = an_event("x", f"e{number}", author="Bob")
            (await attempt(ada.persona.schedule("chat", later, when))).unwrap()
        recorder = EventRecorder()
        ada.subscribe(recorder)
        await ada.send("Remind me.", author="Bob")
    assert [each.success for each in recorder.of(ToolCallCompleted) if each.tool_name == "remind"] == [False]


@pytest.mark.parametrize(
    "wrong", [{"cron": "every day"}, {"timezone": "Moon"}, {"name": "morning"}], ids=["cron", "zone", "twice"]
)
def test_a_schedule_that_cannot_be_is_refused(wrong: dict[str, str]) -> None:
    other = evolve(MORNING, **{"name": "other", **wrong})
    described = Personas.create().with_llm(ScriptedLLM())
    expected = "expected (times in the notation of cron|each name once)"
    with pytest.raises(AgentError, match=rf"domains\.chat\.schedules\.{other.name}: .*{expected}"):
        described.with_domain("chat", schedules=(MORNING, other)).build()
