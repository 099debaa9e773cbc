"""The law of schedules: each time of a schedule comes once, whichever processes have it and are there."""

from __future__ import annotations

from datetime import datetime, timedelta

import anyio
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from reactive_agents.core.personas import EventSchedule
from reactive_agents.core.run_record import latest_time
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock, InMemoryPersonaStore, ScriptedLLM, forever, say
from reactive_agents.testing.core import START
from tests.support.personas import PersonaBench, persona_bench

SCHEDULES = (EventSchedule("hourly", "0 * * * *", "Look."), EventSchedule("often", "*/25 * * * *", "Look."))
"""At whole hours both have an event; the ids differ by the names."""

chosen = st.lists(st.sampled_from(range(len(SCHEDULES))), unique=True)
steps = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 90)), max_size=12)
"""Which of two processes looks for work, and after how many minutes; together less than a day."""


def process(store: InMemoryPersonaStore, clock: FakeClock, indexes: list[int]) -> PersonaBench:
    made = persona_bench(ScriptedLLM(forever(say("So."))), store=store, clock=clock, reasoning=False)
    schedules = tuple(SCHEDULES[index] for index in indexes)
    made.persona.domains["chat"] = evolve(made.persona.domains["chat"], schedules=schedules)
    return made


@given(chosen, chosen, steps)
def test_each_time_comes_once_to_whoever_has_the_schedule(
    first: list[int], second: list[int], done: list[tuple[int, int]]
) -> None:
    async def run() -> None:
        clock = FakeClock()
        store = InMemoryPersonaStore(clock=clock)
        processes = [(indexes, process(store, clock, indexes)) for indexes in (first, second)]
        served: dict[int, datetime] = {}
        for number, minutes in done:
            clock.advance(timedelta(minutes=minutes).total_seconds())
            indexes, bench = processes[number]
            expected = set[str]()
            for index in indexes:
                schedule = SCHEDULES[index]
                latest = latest_time(schedule.cron, "UTC", START - timedelta(days=1), clock.now())
                if latest > served.setdefault(index, clock.now()):
                    expected.add(f"{schedule.name}@{latest:%Y-%m-%dT%H:%M:%S}")
                    served[index] = latest
            outcomes = (await attempt(bench.persona.resume())).unwrap()
            assert {each.event_id for each in outcomes} == expected
            assert len(outcomes) == len(expected)

    anyio.run(run)
