"""Usage that is recorded, forgotten and pruned at random, and the totals that it must have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, timedelta
from random import Random

from attrs import evolve

from reactive_agents.adapters.governance.cost_tracker import Grouping, SpendingTotal, SqliteCostTracker
from reactive_agents.core.governance import SpendingRecord
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.effects import attempt
from reactive_agents.testing.core import START

HUGE = 2**62
NAMES: dict[Grouping, Callable[[SpendingRecord], str]] = {
    "agent": lambda record: record.agent_id,
    "user": lambda record: record.user or "",
    "day": lambda record: f"{record.at.astimezone(UTC):%Y-%m-%d}",
    "run": lambda record: record.run_id,
}


def a_record(random: Random, number: int) -> SpendingRecord:
    models = tuple(
        RunUsage(
            name,
            Usage(random.choice([1, HUGE]), 2, random.choice([3, HUGE]), reported=random.random() < 0.9),
            random.randrange(5) / 4,
            random.randrange(2),
        )
        for name in ("big", "small", "tiny")
        if random.random() < 0.5
    )
    at = START + timedelta(hours=random.randrange(-60, 60))
    agent, user = AgentId(random.choice("ab")), random.choice(["ann", "bob", None])
    return SpendingRecord(RunId(f"run-{number}"), TaskId("t"), agent, models, at, user)


def expected(records: Iterable[SpendingRecord], by: Grouping) -> set[SpendingTotal]:
    groups: dict[str, tuple[int, list[RunUsage]]] = {}
    for record in records:
        pairs = [(NAMES[by](record), [*record.models])] if by != "model" else [
            (each.model, [each]) for each in record.models
        ]  # fmt: skip
        for name, used in pairs:
            runs, before = groups.get(name, (0, []))
            groups[name] = runs + 1, before + used
    return {
        SpendingTotal(
            name,
            runs,
            Usage(
                sum(each.usage.input_tokens for each in used),
                sum(each.usage.output_tokens for each in used),
                sum(each.usage.total_tokens for each in used),
                reported=all(each.usage.reported for each in used),
            ),
            sum(each.cost_usd for each in used),
            sum(each.unpriced_calls for each in used),
        )
        for name, (runs, used) in groups.items()
    }


async def check_totals(tracker: SqliteCostTracker, records: Iterable[SpendingRecord]) -> None:
    records = [*records]
    for since in (None, *(START + timedelta(hours=hours, minutes=hours % 7) for hours in (-48, -5, 0, 30))):
        for by in ("model", *NAMES):
            some = [each for each in records if since is None or each.at >= since]
            found = (await attempt(tracker.totals(by, since=since))).unwrap()
            assert len({*found}) == len(found)
            assert {*found} == expected(some, by), (by, since)


async def use_at_random(tracker: SqliteCostTracker, random: Random) -> None:
    """Record, forget and prune usage, and check all totals in between."""
    kept: dict[str, SpendingRecord] = {}
    for number in range(40):
        record = a_record(random, number)
        (await attempt(tracker.record(record))).unwrap()
        kept[record.run_id] = record
        (await attempt(tracker.record(evolve(record, user="again")))).unwrap()
        if number in (15, 30):
            await check_totals(tracker, kept.values())
            forgotten = [name for name, each in kept.items() if each.user == "ann"]
            assert (await attempt(tracker.forget("ann"))).unwrap() == len(forgotten)
            kept |= {name: evolve(kept[name], user=None) for name in forgotten}
            before = START - timedelta(hours=30 - number)
            old = [name for name, each in kept.items() if each.at < before]
            assert (await attempt(tracker.prune(before))).unwrap() == len(old)
            kept = {name: each for name, each in kept.items() if name not in old}
        if number == 30:
            await check_totals(tracker, kept.values())
    await check_totals(tracker, kept.values())
    assert (await attempt(tracker.prune(START + timedelta(days=9)))).unwrap() == len(kept)
    await check_totals(tracker, ())
