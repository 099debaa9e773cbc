"""Memory, plans and effectiveness in the test's process keep what the ports promise."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest
from attrs import evolve
from returns.maybe import Nothing, Some
from returns.result import Failure, Success

from reactive_agents.core.errors import MemoryUnavailable
from reactive_agents.core.ids import AgentId, PlanId, SessionId, TaskId
from reactive_agents.core.memory import (
    FlushReport,
    ForgetAgent,
    ForgetEntry,
    ForgetOlder,
    MemoryCandidate,
    MemoryContext,
    SessionSnapshot,
)
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.results import ReasoningMetadata, ReasoningResult
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt
from reactive_agents.ports import EffectivenessTracker, MemoryService, PlanStore, SearchableMemory
from reactive_agents.testing import FakeClock, InMemoryEffectivenessTracker, InMemoryMemory, InMemoryPlanStore
from reactive_agents.testing.core import START
from tests.support.virtual_time import Backend, virtual_time

pytestmark = pytest.mark.anyio

AGENT = AgentId("agent-1")
TASK = Task(TaskId("task-1"), AGENT, "Go.", START)
DOWN = MemoryUnavailable("The disk is full.", "any")
STEPS = (PlanStep("s1", 1, "Look", "Look.", "analysis"), PlanStep("s2", 2, "Do", "Do.", "analysis"))


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


def result(*, cost: float = 0.0, duration: float = 0.0, confidence: float = 0.5) -> ReasoningResult:
    return ReasoningResult(
        "reactive", (), "Done.", ReasoningMetadata(duration, cost, 0, 0, confidence), "completed"
    )


def session() -> SessionSnapshot:
    return SessionSnapshot(SessionId("s"), AGENT, (), "Went.", (), (TASK.id,), START, START, 0.0, 0)


def plan(name: str, age_s: float = 0.0, agent: AgentId = AGENT) -> Plan:
    made_at = START - timedelta(seconds=age_s)
    return Plan(PlanId(name), TASK.id, agent, "Goal", "linear", STEPS, "active", 1, made_at, made_at)


# --- memory ---------------------------------------------------------------------------------------------


async def test_memory_recalls_what_it_is_told_to_and_records_the_rest() -> None:
    memory = InMemoryMemory(MemoryContext("2", "Cats purr."))
    port: MemoryService = memory
    assert await attempt(port.bootstrap(AGENT, TASK)) == Success(MemoryContext("2", "Cats purr."))
    assert await attempt(port.flush(TASK, result())) == Success(FlushReport())
    assert await attempt(port.snapshot(session())) == Success(None)
    assert memory.bootstrapped == [(AGENT, TASK)]
    assert memory.flushed == [(TASK, result())]
    assert memory.snapshots == [session()]
    with pytest.raises(TypeError, match="This data is read-only"):
        memory.snapshots.clear()  # the store has them


async def test_without_a_context_nothing_is_recalled() -> None:
    assert (await attempt(InMemoryMemory().bootstrap(AGENT, TASK))).unwrap() == MemoryContext("1")


async def test_memory_can_be_down() -> None:
    memory = InMemoryMemory(fails_with=DOWN)
    assert await attempt(memory.bootstrap(AGENT, TASK)) == Failure(DOWN)
    assert await attempt(memory.flush(TASK, result())) == Failure(DOWN)
    assert await attempt(memory.snapshot(session())) == Failure(DOWN)
    memory.fails_with = None
    assert isinstance(await attempt(memory.bootstrap(AGENT, TASK)), Success)


async def test_entries_are_remembered_searched_and_forgotten() -> None:
    clock = FakeClock()
    memory = InMemoryMemory(clock=clock)
    port: SearchableMemory = memory
    first = (await attempt(port.remember(AGENT, MemoryCandidate("semantic", "Cats purr.", "user")))).unwrap()
    clock.advance(1.0)
    again = (await attempt(port.remember(AGENT, MemoryCandidate("semantic", "Cats purr.", "tool")))).unwrap()
    assert (again.id, again.origin, again.created_at) == (first.id, "user", first.created_at)
    assert again.seen_at == START + timedelta(seconds=1)
    assert await attempt(port.search(AGENT, "PURR cats")) == Success((again,))
    assert await attempt(port.search(AGENT, "purr", kinds=("episodic",))) == Success(())
    assert await attempt(port.search(AGENT, "dogs")) == Success(())
    assert await attempt(port.search(AGENT, "")) == Success(())
    await attempt(port.snapshot(session()))
    assert await attempt(port.forget(ForgetOlder(clock.now()))) == Success(1)
    assert memory.snapshots == []
    assert await attempt(port.forget(ForgetEntry(first.id))) == Success(1)
    await attempt(port.remember(AGENT, MemoryCandidate("procedural", "a, then b", "run", success=True)))
    (way,) = memory.entries.values()
    assert (way.successes, way.executions) == (1, 1)
    assert await attempt(port.forget(ForgetAgent(AgentId("other")))) == Success(0)
    assert await attempt(port.forget(ForgetAgent(AGENT))) == Success(1)


async def test_notes_last_until_the_flush() -> None:
    memory = InMemoryMemory()
    note = MemoryCandidate("working", "Try again.", "run")
    memory.note(TASK.id, note)
    assert memory.notes(TASK.id) == (note,)
    await attempt(memory.flush(TASK, result()))
    assert memory.notes(TASK.id) == ()


async def test_a_memory_that_is_down_remembers_nothing() -> None:
    memory = InMemoryMemory(fails_with=DOWN)
    candidate = MemoryCandidate("semantic", "Cats purr.", "user")
    assert await attempt(memory.remember(AGENT, candidate)) == Failure(DOWN)
    assert await attempt(memory.search(AGENT, "cats")) == Failure(DOWN)
    assert await attempt(memory.forget(ForgetAgent(AGENT))) == Failure(DOWN)
    assert memory.entries == {}


# --- plans ----------------------------------------------------------------------------------------------


async def test_a_plan_is_stored_replaced_and_found() -> None:
    store = InMemoryPlanStore()
    port: PlanStore = store
    assert await attempt(port.get(PlanId("p"))) == Success(Nothing)
    await attempt(port.save(plan("p")))
    changed = evolve(plan("p"), version=2)
    assert await attempt(port.save(changed)) == Success(None)
    assert await attempt(port.get(PlanId("p"))) == Success(Some(changed))
    assert store.plans == {PlanId("p"): changed}


async def test_a_step_is_replaced_and_its_transition_recorded() -> None:
    store = InMemoryPlanStore()
    await attempt(store.save(plan("p")))
    done = evolve(STEPS[1], status="completed", result="42")
    assert await attempt(store.update_step(PlanId("p"), done)) == Success(None)
    assert store.plans[PlanId("p")].steps == (STEPS[0], done)
    (transition,) = (await attempt(store.transitions(PlanId("p")))).unwrap()
    assert transition.step == done


async def test_a_step_that_is_not_there_cannot_be_updated() -> None:
    store = InMemoryPlanStore()
    await attempt(store.save(plan("p")))
    for plan_id, step in ((PlanId("q"), STEPS[0]), (PlanId("p"), evolve(STEPS[0], id="s9"))):
        match await attempt(store.update_step(plan_id, step)):
            case Failure(MemoryUnavailable(message, "update_step")):
                assert repr(step.id) in message
            case other:
                pytest.fail(f"got {other}")
    assert await attempt(store.transitions(PlanId("p"))) == Success(())


async def test_plans_are_listed_by_agent_and_newest_first() -> None:
    store = InMemoryPlanStore()
    for each in (plan("old", 9), plan("new", 1), plan("same age", 9), plan("foreign", 0, AgentId("other"))):
        await attempt(store.save(each))
    listed = (await attempt(store.list_plans(AGENT))).unwrap()
    assert [each.id for each in listed] == ["new", "same age", "old"]


async def test_steps_are_rewritten_with_their_transitions() -> None:
    store = InMemoryPlanStore()
    for each in (plan("p"), plan("q")):
        await attempt(store.save(each))
        await attempt(store.update_step(each.id, STEPS[0]))
    for plan_id in (PlanId("p"), PlanId("unknown")):
        assert await attempt(
            store.rewrite_steps(plan_id, lambda step: evolve(step, result="new"))
        ) == Success(None)
    assert {step.result for step in store.plans[PlanId("p")].steps} == {"new"}
    for plan_id, result in ((PlanId("p"), "new"), (PlanId("q"), STEPS[0].result)):
        (transition,) = (await attempt(store.transitions(plan_id))).unwrap()
        assert transition.step.result == result


async def test_a_plan_store_can_be_down_and_stores_nothing_then() -> None:
    store = InMemoryPlanStore(fails_with=DOWN)
    assert await attempt(store.save(plan("p"))) == Failure(DOWN)
    assert await attempt(store.update_step(PlanId("p"), STEPS[0])) == Failure(DOWN)
    assert await attempt(store.get(PlanId("p"))) == Failure(DOWN)
    assert await attempt(store.list_plans(AGENT)) == Failure(DOWN)
    assert await attempt(store.rewrite_steps(PlanId("p"), lambda step: step)) == Failure(DOWN)
    assert store.plans == {}


# --- effectiveness --------------------------------------------------------------------------------------


async def test_effectiveness_is_averaged_over_the_runs() -> None:
    clock = FakeClock()
    tracker = InMemoryEffectivenessTracker(clock)
    port: EffectivenessTracker = tracker
    assert await attempt(port.get_effectiveness("reactive", "query")) == Success(Nothing)
    first, second = (
        result(cost=1.0, duration=10, confidence=0.25),
        result(cost=2.0, duration=30, confidence=0.75),
    )
    await attempt(port.record("reactive", "query", first, success=True))
    clock.advance(60)
    await attempt(port.record("reactive", "query", second, success=False))
    known = (await attempt(port.get_effectiveness("reactive", "query"))).unwrap().unwrap()
    assert (known.success_rate, known.avg_cost, known.avg_duration, known.avg_confidence) == (
        0.5,
        1.5,
        20,
        0.5,
    )
    assert (known.executions, known.last_used) == (2, START + timedelta(seconds=60))
    assert await attempt(port.get_effectiveness("reactive", "report")) == Success(Nothing)


async def test_the_best_strategy_is_the_most_successful_then_the_most_used() -> None:
    tracker = InMemoryEffectivenessTracker()
    assert await attempt(tracker.get_best_strategy("query")) == Success(Nothing)
    for strategy, success in (("a", False), ("b", True), ("c", True), ("c", True), ("a", True)):
        await attempt(tracker.record(strategy, "query", result(), success=success))
    await attempt(tracker.record("d", "report", result(), success=True))
    assert await attempt(tracker.get_best_strategy("query")) == Success(Some("c"))


async def test_a_tracker_can_be_down_and_records_nothing_then() -> None:
    tracker = InMemoryEffectivenessTracker(fails_with=DOWN)
    assert await attempt(tracker.record("a", "query", result(), success=True)) == Failure(DOWN)
    assert await attempt(tracker.get_effectiveness("a", "query")) == Failure(DOWN)
    assert await attempt(tracker.get_best_strategy("query")) == Failure(DOWN)
    assert await attempt(tracker.history("query")) == Failure(DOWN)
    assert tracker.known == {}


AT_EXIT = """
import atexit

def use():
    print(*store._tables.rows("SELECT 1"))

atexit.register(use)  # called last
from reactive_agents.testing import InMemoryPersonaStore
store = InMemoryPersonaStore()
"""


def test_a_thread_can_use_a_store_while_its_process_ends() -> None:
    ended = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, check=True)
    assert ended.stdout == "(1,)\n", ended.stderr
