"""The record of strategies in the memory file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from returns.maybe import Nothing, Some
from returns.result import Failure, Success

from reactive_agents.adapters.memory.database import open_memory_store
from reactive_agents.adapters.memory.records import SqliteEffectiveness
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock
from tests.support.memories import a_result

pytestmark = pytest.mark.anyio


ON_BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
async def tracker(tmp_path: Path) -> AsyncIterator[SqliteEffectiveness]:
    database = open_memory_store(tmp_path / "memory.db")
    yield SqliteEffectiveness(database, FakeClock(step_s=1.0))
    await database.aclose()


async def test_without_a_record_there_is_nothing(tracker: SqliteEffectiveness) -> None:
    assert await attempt(tracker.get_effectiveness("reactive", "query")) == Success(Nothing)
    assert await attempt(tracker.get_best_strategy("query")) == Success(Nothing)


@ON_BOTH
async def test_averages_are_those_of_all_runs(tracker: SqliteEffectiveness) -> None:
    for cost, success in ((1.0, True), (2.0, False), (6.0, True)):
        result = a_result(cost=cost, confidence=cost / 8)
        assert await attempt(tracker.record("plan", "query", result, success=success)) == Success(None)
    stored = (await attempt(tracker.get_effectiveness("plan", "query"))).unwrap().unwrap()
    assert (stored.executions, stored.avg_cost, stored.avg_confidence) == (3, 3.0, 0.375)
    assert stored.avg_duration == pytest.approx(result.metadata.duration)
    assert stored.success_rate == pytest.approx(2 / 3)


async def test_the_best_strategy_has_the_best_rate_then_the_most_runs(tracker: SqliteEffectiveness) -> None:
    runs = [("a", True), ("a", False), ("b", True), ("c", True), ("c", True)]
    for strategy, success in runs:
        await attempt(tracker.record(strategy, "query", a_result(), success=success))
    await attempt(tracker.record("d", "report", a_result(), success=False))
    await tracker.database.aclose()
    assert await attempt(tracker.get_best_strategy("query")) == Success(Some("c"))
    assert await attempt(tracker.get_best_strategy("report")) == Success(Some("d"))


async def test_the_history_of_a_type_has_every_strategy(tracker: SqliteEffectiveness) -> None:
    for strategy, task_type in (("b", "query"), ("a", "query"), ("b", "query"), ("c", "report")):
        await attempt(tracker.record(strategy, task_type, a_result(cost=2.0), success=strategy == "a"))
    stored = (await attempt(tracker.history("query"))).unwrap()
    assert [(each.strategy, each.executions, each.success_rate) for each in stored] == [
        ("a", 1, 1.0),
        ("b", 2, 0.0),
    ]
    assert await attempt(tracker.history("other")) == Success(())


async def test_a_figure_that_is_no_number_is_a_failure(tracker: SqliteEffectiveness) -> None:
    result = a_result(cost=float("nan"))
    assert isinstance(await attempt(tracker.record("a", "query", result, success=True)), Failure)
    assert await attempt(tracker.get_effectiveness("a", "query")) == Success(Nothing)
