"""The queue of personas in Postgres does what that in memory does, which uses the statements of SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import anyio
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.core.ids import ContextId, PersonaId, TaskId
from reactive_agents.core.persona_queue import CRON, EventEnd, NewMessage, Submission, WorkFilter, WorkItem
from reactive_agents.core.personas import DailyLimits, PersonaOutcome, Room
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock
from reactive_agents.testing.core import START
from reactive_agents.testing.memory import InMemoryPersonaStore
from tests.support.personas import a_persona_plan, an_event
from tests.support.postgres import Server
from tests.support.profiles import examples

ADA = PersonaId("ada")
EVERYTHING = WorkFilter(ADA, limit=500)
HOUR = timedelta(hours=1)
Step = tuple[str, tuple[Any, ...], dict[str, Any]]

rooms = st.builds(
    Room,
    st.just(ADA),
    st.sampled_from(["chat", "mail"]),
    st.sampled_from(["a", "b"]).map(ContextId),
    st.sampled_from(["", "t"]),
)
dues = st.sampled_from([START - HOUR, START + HOUR])
limits = st.sampled_from([None, 1, 2])
users = st.sampled_from(["Ann", "Bob"])
kinds = st.sampled_from(["event", "event", "delivery", "evaluation", "schedule"])
domains = st.sampled_from([("chat",), ("chat", "mail")])
known = st.sampled_from([(), ("other",), ("other", CRON)])
costs = st.sampled_from([0.0, 0.5])
messages = st.builds(
    NewMessage, st.sampled_from(["m1", "m2"]), st.just("text"), st.just("answer"), st.booleans()
)


@st.composite
def events(draw: st.DrawFn, room: Room) -> Any:
    return an_event(
        draw(st.sampled_from(["hi", "there"])),
        draw(st.sampled_from(["e1", "e2", "e3"])),
        context=room.context_id,
        author=draw(users),
        priority=draw(st.sampled_from([0.1, 0.9])),
        tenant=room.tenant,
    )


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """A step without a claim: the name of a method and its arguments."""
    room = draw(rooms)
    event = draw(events(room))
    full = {"capacity": draw(limits), "drop_oldest": draw(st.booleans())}
    return draw(
        st.sampled_from(
            [
                ("add_event", (room, event), full),
                ("add_event", (room, event), full),
                ("add_schedule", (room, draw(st.sampled_from(["k1", CRON])), event, draw(dues)), {}),
                ("claim", (ADA, draw(kinds)), {"domains": draw(domains)}),
                ("claim", (ADA, draw(kinds)), {"domains": draw(domains)}),
                ("claim", (ADA, draw(kinds)), {"domains": draw(domains), "room": room}),
                ("claim", (ADA, "schedule"), {"domains": draw(domains), "schedules": draw(known)}),
                ("find_work", (WorkFilter(ADA, user=draw(users), limit=3),), {}),
                ("waiting", (ADA, draw(kinds)), {"domains": draw(domains)}),
                ("transcript", (room,), {"limit": draw(st.sampled_from([0, 1, 50]))}),
                ("spending", (ADA, START), {"tenant": room.tenant, "user": draw(users)}),
                ("texts_of_other_rooms", (room,), {}),
                ("forget", (ADA,), draw(st.sampled_from([{"user": "Bob"}, {"tenant": "t"}]))),
                ("order_work", (draw(st.integers(0, 9)), draw(st.sampled_from(["retry", "drop"]))), {}),
            ]
        )
    )


@st.composite
def steps_of_claims(draw: st.DrawFn) -> Step:
    """A step with an earlier claim, whose number among them stands in its place."""
    status = draw(st.sampled_from(["done", "dead", "dropped"]))
    reason, cost = draw(st.sampled_from(["", "bad"])), draw(costs)
    most = DailyLimits(tenant_events=draw(limits), user_events=draw(limits), room_events=draw(limits))
    chosen: tuple[str, tuple[Any, ...], dict[str, Any]] = draw(
        st.sampled_from(
            [
                ("end_event", (draw(st.lists(messages, max_size=2)), draw(st.booleans())), {}),
                (
                    "end_work",
                    (status,),
                    {"reason": reason, "cost_usd": cost, "message": draw(st.none() | messages)},
                ),
                ("release", (), {"due": draw(st.none() | dues), "reason": reason, "cost_usd": cost}),
                ("engage", (most, START), {}),
                ("begin_task", (TaskId(draw(st.sampled_from(["t1", "t2"]))),), {}),
            ]
        )
    )
    name, given_values, options = chosen
    return name, (draw(st.integers(0, 9)), *given_values), options


def comparable(value: Any) -> Any:
    """Return a value without the numbers, holders and times, which each store gives in its own way."""
    if isinstance(value, WorkItem):
        times: dict[str, Any] = {"created_at": START, "updated_at": START, "due": None}
        return evolve(value, number=0, holder=bool(value.holder), **times)  # type: ignore[arg-type]
    if isinstance(value, Submission):
        item, dropped = comparable(value.item), comparable(value.dropped)
        return evolve(value, item=item, dropped=dropped)
    return tuple(map(comparable, value)) if isinstance(value, tuple) else value


def end_of(claim: WorkItem, said: Sequence[NewMessage], dead: bool) -> EventEnd:
    plan = a_persona_plan(event=claim.event, name=f"plan-{claim.key}", domain=claim.room.domain)
    outcome = PersonaOutcome(claim.event.id, "failed" if dead else "completed", "why", given_up=dead)
    return EventEnd(outcome, plan, tuple(said), evaluate=not dead, cost_usd=0.25)


async def done_in(store: Any, clock: FakeClock, done: Sequence[Step]) -> list[Any]:
    """Return what each step returns."""
    claims: list[WorkItem] = []
    returned: list[Any] = []
    for name, given_values, options in done:
        values = list(given_values)
        if name == "order_work":
            found = (await attempt(store.find_work(EVERYTHING))).unwrap()
            if not found:
                continue
            values[0] = found[values[0] % len(found)].number
        elif isinstance(next(iter(values)), int):
            if not claims:
                continue
            values[0] = claim = claims[values[0] % len(claims)]
            if name == "end_event":
                if claim.kind != "event":
                    continue
                values = [claim, end_of(claim, *values[1:])]
        clock.advance(1)
        result = (await attempt(getattr(store, name)(*values, **options))).unwrap()
        if name == "claim" and result is not None:
            claims.append(result)
        returned.append((name, comparable(result)))
    rest = (await attempt(store.find_work(EVERYTHING))).unwrap()
    return [*returned, *map(comparable, rest)]


@given(done=st.lists(steps() | steps_of_claims(), max_size=40))
@examples(15)
def test_both_queues_do_the_same(server: Server, done: list[Step]) -> None:
    async def compare() -> None:
        clock = FakeClock()
        expected = await done_in(InMemoryPersonaStore(clock=clock), clock, done)
        clock = FakeClock()
        store = SqlitePersonaStore(server.new(), clock=clock)
        try:
            assert await done_in(store, clock, done) == expected
        finally:
            await store.aclose()

    anyio.run(compare)
