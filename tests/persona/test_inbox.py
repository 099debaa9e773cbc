"""Many events at once: order within a context, contexts side by side, and a bound."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from attrs import evolve
from returns.future import FutureResult
from returns.result import Result, Success

from reactive_agents.adapters.leases import this_machine
from reactive_agents.core.errors import InboxFull, InvalidEvent, MemoryErrors, UnknownDomain
from reactive_agents.core.ids import EventId, PersonaId
from reactive_agents.core.persona_events import (
    PersonaEventDropped,
    PersonaEventReceived,
    PersonaStageFailed,
    PersonaStepStarted,
)
from reactive_agents.core.persona_queue import WorkFilter, WorkItem, WorkKind
from reactive_agents.core.personas import (
    DeliveryPolicy,
    DomainEvent,
    EventSchedule,
    InboxConfig,
    PersonaOutcome,
    PersonaTimeouts,
)
from reactive_agents.effects import attempt, effect
from reactive_agents.persona import PersonaInbox
from reactive_agents.persona.inbox import ALONE_S
from reactive_agents.testing import FakeTools, InMemoryPersonaStore, ScriptedLLM, answer, forever, say
from tests.support.personas import PersonaBench, alter, an_event, persona_bench
from tests.support.virtual_time import Backend, LoopClock, virtual_time

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


def inbox_bench(delay: float = 0.0, **inbox: object) -> PersonaBench:
    llm = ScriptedLLM(forever(say("So.", delay=delay)))
    return persona_bench(llm, reasoning=False, inbox=InboxConfig(**inbox))  # type: ignore[arg-type]


async def test_events_of_a_context_keep_their_order_and_contexts_go_side_by_side() -> None:
    bench = inbox_bench(delay=0.01)
    order: list[str] = []
    most = under_way = 0

    def count(event: object) -> None:
        nonlocal most, under_way
        if isinstance(event, PersonaStepStarted):
            under_way += 1
            most = max(most, under_way)

    def done(outcome: PersonaOutcome) -> None:
        nonlocal under_way
        under_way -= 1
        order.append(outcome.event_id)

    bench.persona.services.events.subscribe(count)
    async with PersonaInbox(bench.persona, done) as inbox:
        for number in range(4):
            for context in "abc":
                event = an_event(name=f"{context}{number}", context=context)
                assert (await attempt(inbox.submit("chat", event))).unwrap().is_new
    assert (await attempt(inbox.waiting())).unwrap() == 0
    for context in "abc":
        assert [name for name in order if name.startswith(context)] == [f"{context}{n}" for n in range(4)]
    assert most == 3


async def test_no_more_contexts_are_worked_on_than_the_limit() -> None:
    bench = inbox_bench(delay=0.005, max_contexts=2)
    most = under_way = 0

    def count(event: object) -> None:
        nonlocal most, under_way
        if isinstance(event, PersonaStepStarted):
            under_way += 1
            most = max(most, under_way)

    def done(outcome: PersonaOutcome) -> None:
        nonlocal under_way
        under_way -= 1

    bench.persona.services.events.subscribe(count)
    async with PersonaInbox(bench.persona, done) as inbox:
        for number in range(6):
            (await attempt(inbox.submit("chat", an_event(name=f"e{number}", context=f"c{number}")))).unwrap()
    assert (most, under_way) == (2, 0)


async def test_a_full_inbox_refuses_the_next_event() -> None:
    bench = inbox_bench(capacity=2)
    outcomes: list[PersonaOutcome] = []
    async with PersonaInbox(bench.persona, outcomes.append) as inbox:
        for number in range(2):
            (await attempt(inbox.submit("chat", an_event(name=f"e{number}")))).unwrap()
        assert (await attempt(inbox.submit("chat", an_event(name="e2")))).failure() == InboxFull(2, "e2")
    assert [outcome.event_id for outcome in outcomes] == ["e0", "e1"]


async def test_a_full_inbox_drops_the_event_that_waits_longest_and_says_so() -> None:
    bench = inbox_bench(capacity=2, overflow="drop_oldest")
    outcomes: list[PersonaOutcome] = []
    async with PersonaInbox(bench.persona, outcomes.append) as inbox:
        for number, context in enumerate("abc"):
            dropped = (
                (await attempt(inbox.submit("chat", an_event(name=f"e{number}", context=context))))
                .unwrap()
                .dropped
            )
        assert dropped is not None
        assert dropped.key == "e0"
    assert sorted(outcome.event_id for outcome in outcomes) == ["e1", "e2"]
    assert [event.event_id for event in bench.recorder.of(PersonaEventDropped)] == ["e0"]


async def test_a_context_that_lost_its_last_event_takes_new_ones() -> None:
    bench = inbox_bench(capacity=1, overflow="drop_oldest")
    outcomes: list[PersonaOutcome] = []
    async with PersonaInbox(bench.persona, outcomes.append) as inbox:
        (await attempt(inbox.submit("chat", an_event(name="e0", context="a")))).unwrap()
        (await attempt(inbox.submit("chat", an_event(name="e1", context="b")))).unwrap()
        (await attempt(inbox.submit("chat", an_event(name="e2", context="a")))).unwrap()
    assert [outcome.event_id for outcome in outcomes] == ["e2"]


async def test_a_channel_in_which_something_is_cancelled_is_tried_again_and_ends_no_worker() -> None:
    posted: list[str] = []

    async def post(event: DomainEvent, text: str, key: str) -> None:
        posted.append(event.id)
        if posted.count("e0") == 1:
            raise anyio.get_cancelled_exc_class()

    async def engage(event: DomainEvent, transcript: object) -> bool:
        if event.id == "e2":
            raise anyio.get_cancelled_exc_class()
        return True

    async def take(outcome: PersonaOutcome) -> None:
        taken.append(outcome.status)
        if outcome.event_id == "e1" and not refused:
            refused.append(outcome.event_id)
            raise anyio.get_cancelled_exc_class()

    taken, refused = list[str](), list[str]()
    llm = ScriptedLLM(forever(say("So.")))
    bench = persona_bench(llm, reasoning=False, deliver=post, delivery=DeliveryPolicy(backoff_s=0.001))
    bench.persona.domains["chat"] = evolve(bench.persona.domains["chat"], engage=engage)
    async with PersonaInbox(bench.persona, take) as inbox:
        for number, context in enumerate("abca"):
            (await attempt(inbox.submit("chat", an_event(name=f"e{number}", context=context)))).unwrap()
    assert [name for name in posted if name != "e1"] == ["e0", "e0", "e3"]
    assert sorted(taken) == ["completed"] * 4 + ["failed"]


class Late(InMemoryPersonaStore):
    """A store that says late what was claimed: it is held already, and not yet under way."""

    @effect
    async def claim(
        self, persona_id: PersonaId, kind: WorkKind, **chosen: Any
    ) -> Result[WorkItem | None, MemoryErrors]:
        claimed = await attempt(super().claim(persona_id, kind, **chosen))
        if kind == "event":
            await anyio.sleep(2)
        return claimed


@pytest.mark.parametrize("drains", [True, False])
async def test_what_is_being_claimed_as_the_inbox_ends_is_answered(drains: bool) -> None:
    posted: list[str] = []

    async def post(event: DomainEvent, text: str) -> None:
        posted.append(event.id)

    llm = ScriptedLLM(forever(say("So.")))
    bench = persona_bench(llm, reasoning=False, deliver=post, store=Late(clock=LoopClock()))
    event = an_event()
    (await attempt(bench.store.add_event(bench.persona.room_of("chat", event), event))).unwrap()
    async with PersonaInbox(bench.persona) as inbox:
        await anyio.sleep(0.1)
        if drains:
            inbox.drain()
    assert posted == ["event-1"]


async def test_nothing_waits_for_place_in_an_inbox_that_is_drained() -> None:
    bench, refused = inbox_bench(delay=1.0, capacity=1, max_contexts=1), list[object]()

    async def submit() -> None:
        refused.append((await attempt(inbox.submit("chat", an_event(name="e2"), wait=True))).failure())

    with anyio.move_on_after(3_600):
        async with PersonaInbox(bench.persona) as inbox, anyio.create_task_group() as group:
            (await attempt(inbox.submit("chat", an_event(name="e0")))).unwrap()
            await anyio.sleep(0.1)  # it is under way
            (await attempt(inbox.submit("chat", an_event(name="e1")))).unwrap()
            group.start_soon(submit)
            await anyio.sleep(0.1)
            inbox.drain()
    assert refused == [InboxFull(1, EventId("e2"))]
    assert (await attempt(inbox.waiting())).unwrap() == 1


async def test_an_event_that_is_deleted_while_it_waits_is_waited_for_no_more() -> None:
    bench, outcomes = inbox_bench(), list[PersonaOutcome]()
    first, room = an_event(name="e0", author="Eve"), bench.persona.room_of("chat", an_event())
    (await attempt(bench.store.add_event(room, first))).unwrap()
    held = await attempt(bench.store.claim(room.persona_id, "event", domains=("chat",)))
    assert held.unwrap().event == first  # by another process, which takes its time

    async def wait() -> None:
        outcomes.append(await bench.process(name="e1"))

    with anyio.move_on_after(3_600):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.sleep(1)
            assert (await attempt(bench.store.forget(room.persona_id, user="Bob"))).unwrap() == 1
    assert [(each.status, each.reason) for each in outcomes] == [("declined", "It was cancelled.")]


class Unreachable(InMemoryPersonaStore):
    @effect
    async def add_schedule(self, *_: object) -> Result[None, MemoryErrors]:
        await anyio.sleep_forever()
        return Success(None)


async def test_an_inbox_can_be_cancelled_as_it_is_entered() -> None:
    bench = persona_bench(ScriptedLLM(), reasoning=False, store=Unreachable())
    daily = (EventSchedule("daily", "0 8 * * *", "Post it."),)
    bench.persona.domains["chat"] = evolve(bench.persona.domains["chat"], schedules=daily)
    with anyio.move_on_after(1) as scope:
        async with PersonaInbox(bench.persona):
            raise AssertionError("its schedules are not stored")
    assert scope.cancelled_caught


async def test_an_event_at_which_a_process_ended_is_tried_alone() -> None:
    bench = inbox_bench(delay=0.01)
    under_way, beside = set[str](), dict[str, set[str]]()

    def begin(event: object) -> None:
        if isinstance(event, PersonaEventReceived):
            beside[event.event.id] = set(under_way)
            under_way.add(event.event.id)

    bench.persona.services.events.subscribe(begin)
    for number in range(4):
        event = an_event(name=f"e{number}", context=f"c{number}")
        added = await attempt(bench.store.add_event(bench.persona.room_of("chat", event), event))
        item = added.unwrap().item
        if number == 2:
            alter(bench.store, "UPDATE persona_work SET attempts = 1 WHERE number = ?", item.number)
    async with PersonaInbox(bench.persona, lambda outcome: under_way.discard(outcome.event_id)):
        pass
    assert beside["e1"] == {"e0"}
    assert beside["e2"] == set()
    assert "e2" not in beside["e3"]


async def test_an_outcome_that_is_not_taken_in_time_holds_up_no_other_room() -> None:
    llm = ScriptedLLM(forever(say("So.")))
    bench = persona_bench(
        llm, reasoning=False, inbox=InboxConfig(max_contexts=1), delivery=DeliveryPolicy(tries=1)
    )
    taken: list[str] = []

    async def take(outcome: PersonaOutcome) -> None:
        if outcome.event_id == "e0":
            await anyio.sleep_forever()
        taken.append(outcome.event_id)

    async with PersonaInbox(bench.persona, take) as inbox:
        for number, context in enumerate("ab"):
            (await attempt(inbox.submit("chat", an_event(name=f"e{number}", context=context)))).unwrap()
    assert taken == ["e1"]
    (dead,) = (await attempt(bench.store.find_work(WorkFilter(statuses=("dead",))))).unwrap()
    assert (dead.key, dead.reason) == ("e0", "The outcome was not taken: TimeoutError: ")


class ProcessEndsError(BaseException):
    """Ends the process of a worker."""


async def killed_while_its_outcome_is_taken(bench: PersonaBench) -> bool:
    """Begin a worker whose process ends when it takes an outcome; return whether it did."""

    def take(outcome: PersonaOutcome) -> None:
        raise ProcessEndsError

    try:
        async with PersonaInbox(bench.persona, take):
            pass
    except BaseExceptionGroup:
        return True
    return False


async def test_an_outcome_at_which_processes_end_is_a_dead_letter(caplog: pytest.LogCaptureFixture) -> None:
    bench = inbox_bench()
    release = bench.store.release
    bench.store.release = lambda *_, **__: FutureResult.from_value(
        True
    )  # a process that is gone does nothing
    event, kills = an_event(), 0
    (await attempt(bench.store.add_event(bench.persona.room_of("chat", event), event))).unwrap()
    while kills < 20 and await killed_while_its_outcome_is_taken(bench):
        kills += 1
        alter(bench.store, "UPDATE persona_work SET holder = ''")
    (dead,) = (await attempt(bench.store.find_work(WorkFilter(kinds=("event",))))).unwrap()
    reason = "Taking its outcome was interrupted 10 times, and it is given up."
    assert (kills, dead.status, dead.reason) == (10, "dead", reason)
    assert f"The event {dead.number} is a dead letter: {reason}" in caplog.messages
    asked = len(bench.recorder.of(PersonaEventReceived))

    bench.store.release = release
    (await attempt(bench.store.order_work(dead.number, "retry"))).unwrap()
    outcomes: list[PersonaOutcome] = []
    async with PersonaInbox(bench.persona, outcomes.append):
        pass
    assert [each.answer for each in outcomes] == ["So."]
    assert len(bench.recorder.of(PersonaEventReceived)) == asked, "it is not answered again"


async def test_a_worker_that_is_cancelled_while_an_outcome_is_taken_has_not_tried_it() -> None:
    bench, event = inbox_bench(), an_event()
    (await attempt(bench.store.add_event(bench.persona.room_of("chat", event), event))).unwrap()
    for _ in range(12):
        with anyio.CancelScope() as scope:

            async def take(outcome: PersonaOutcome, end: anyio.CancelScope = scope) -> None:
                end.cancel()
                await anyio.sleep_forever()

            async with PersonaInbox(bench.persona, take):
                pass
    outcomes: list[PersonaOutcome] = []
    async with PersonaInbox(bench.persona, outcomes.append):
        pass
    assert [each.answer for each in outcomes] == ["So."]


def late_bench(delay: float, **fields: Any) -> PersonaBench:
    """A persona with a tool, whose answers take a while by the clock of the event loop."""
    clock: Any = LoopClock()
    llm, tools = ScriptedLLM(forever(answer("So.", delay=delay))), FakeTools({"search": "nothing"})
    store = InMemoryPersonaStore(clock=clock)
    return persona_bench(llm, tools=tools, clock=clock, store=store, reasoning=False, **fields)


async def test_a_message_that_ends_processes_takes_no_event_with_it() -> None:
    posted: list[str] = []

    async def post(event: DomainEvent, text: str) -> None:
        if event.id == "killer":
            bench.store.release = lambda *_, **__: FutureResult.from_value(True)  # it is gone
            raise ProcessEndsError
        posted.append(event.id)

    bench = late_bench(20, deliver=post)
    release, kills = bench.store.release, 0
    while kills < 20:
        for name in ("killer", "e1")[: kills + 1]:
            event = an_event(name=name, context=name)
            (await attempt(bench.store.add_event(bench.persona.room_of("chat", event), event))).unwrap()
        try:
            async with PersonaInbox(bench.persona):
                pass
            break
        except BaseExceptionGroup:
            kills, bench.store.release = kills + 1, release
            gone = f"h {this_machine()} {2**22 + 1} 1"
            alter(bench.store, "UPDATE persona_work SET holder = ? WHERE holder != ''", gone)
    assert (kills, posted) == (10, ["e1"])
    (dead,) = (await attempt(bench.store.find_work(WorkFilter(statuses=("dead",))))).unwrap()
    assert dead.kind == "delivery"


async def test_an_event_that_is_tried_alone_and_waits_holds_up_the_others_for_a_while_only() -> None:
    """As one whose call waits for a person."""
    ended: dict[str, float] = {}
    bench = late_bench(2 * ALONE_S, timeouts=PersonaTimeouts(step_s=100 * ALONE_S))
    for name in ("waits", "other"):
        event = an_event(name=name, context=name)
        added = await attempt(bench.store.add_event(bench.persona.room_of("chat", event), event))
        if name == "waits":
            item = added.unwrap().item
            alter(bench.store, "UPDATE persona_work SET attempts = 1 WHERE number = ?", item.number)
    began = anyio.current_time()

    def take(outcome: PersonaOutcome) -> None:
        ended[outcome.event_id] = round((anyio.current_time() - began) / ALONE_S)

    async with PersonaInbox(bench.persona, take):
        pass
    assert ended == {"waits": 2, "other": 3}


@pytest.mark.parametrize("how", ["cancelled", "drained"])
async def test_an_event_that_waits_to_be_tried_alone_is_put_back_if_its_worker_ends(how: str) -> None:
    bench, taken = inbox_bench(delay=30), list[str]()
    for name in ("slow", "suspect"):
        event = an_event(name=name, context=name)
        added = await attempt(bench.store.add_event(bench.persona.room_of("chat", event), event))
        if name == "suspect":
            item = added.unwrap().item
            alter(bench.store, "UPDATE persona_work SET attempts = 1 WHERE number = ?", item.number)
    inbox = PersonaInbox(bench.persona, lambda outcome: taken.append(outcome.event_id))
    with anyio.CancelScope() as scope:
        async with inbox:
            await anyio.sleep(5)
            if how == "cancelled":
                scope.cancel()
            inbox.drain()
    found = (await attempt(bench.store.find_work(WorkFilter(event_id=EventId("suspect"))))).unwrap()
    assert [(each.holder, each.attempts) for each in found] == [("", 1)]
    assert taken == ([] if how == "cancelled" else ["slow"])
    async with inbox:  # which knows that none is in progress
        pass
    assert sorted(taken) == ["slow", "suspect"]


async def test_the_tries_of_an_event_are_none_of_its_outcome() -> None:
    bench, event, tries = inbox_bench(), an_event(), 0
    added = await attempt(bench.store.add_event(bench.persona.room_of("chat", event), event))
    item = added.unwrap().item
    alter(bench.store, "UPDATE persona_work SET attempts = 3 WHERE number = ?", item.number)

    def take(outcome: PersonaOutcome) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionError("busy")

    async with PersonaInbox(bench.persona, take):
        for _ in range(5):
            bench.clock.advance(60)
            await anyio.sleep(1)
    assert bench.store.work[item.number].status == "done"


async def test_a_channel_that_hangs_delays_no_other() -> None:
    order: list[str] = []

    async def hang(event: DomainEvent, text: str) -> None:
        await anyio.sleep_forever()

    async def post(event: DomainEvent, text: str) -> None:
        order.append(event.id)

    bench = persona_bench(
        ScriptedLLM(forever(say("So."))),
        deliver=hang,
        reasoning=False,
        inbox=InboxConfig(max_contexts=1),
        delivery=DeliveryPolicy(tries=1),
    )
    bench.persona.domains["mail"] = evolve(bench.persona.domains["chat"], name="mail", deliver=post)

    def failed(event: object) -> None:
        if isinstance(event, PersonaStageFailed):
            order.append("timed out")

    bench.persona.services.events.subscribe(failed)
    async with PersonaInbox(bench.persona) as inbox:
        for number, domain in enumerate(("chat", "mail")):
            event = an_event(name=f"e{number}", context=domain)
            (await attempt(inbox.submit(domain, event))).unwrap()
    assert order == ["e1", "timed out"]


async def test_what_cannot_be_put_in_is_refused() -> None:
    bench = inbox_bench()
    inbox = PersonaInbox(bench.persona)
    with pytest.raises(RuntimeError, match="not entered"):
        (await attempt(inbox.submit("chat", an_event())))
    async with inbox:
        assert (await attempt(inbox.submit("chess", an_event()))).failure() == UnknownDomain(
            "chess", ("chat",)
        )
        for content in ("", " \n\u3000"):
            refused = await attempt(inbox.submit("chat", an_event(content)))
            assert refused.failure() == InvalidEvent("content", "event-1", repr(content))


async def test_what_waits_is_a_part_of_the_cognitive_load() -> None:
    bench = inbox_bench(capacity=4, max_contexts=1)
    loads: list[float] = []
    room = bench.persona.room_of("chat", an_event())
    bench.persona.services.events.subscribe(
        lambda event: (
            loads.append(bench.store.states[room].cognitive_load)
            if isinstance(event, PersonaStepStarted)
            else None
        )
    )
    async with PersonaInbox(bench.persona) as inbox:
        for number in range(4):
            (await attempt(inbox.submit("chat", an_event(name=f"e{number}")))).unwrap()
    assert loads == [1.0, 0.75, 0.5, 0.25]
