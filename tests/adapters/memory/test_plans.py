"""Plans in the memory file keep what the port promises, and every transition in order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve
from returns.maybe import Nothing, Some
from returns.result import Failure, Success

from reactive_agents.adapters import sql
from reactive_agents.adapters.memory.database import open_memory_store
from reactive_agents.adapters.memory.records import SqlitePlanStore
from reactive_agents.adapters.memory.store import forget
from reactive_agents.core.errors import MemoryUnavailable
from reactive_agents.core.ids import PlanId
from reactive_agents.core.memory import ForgetUser, StepTransition, user_owner
from reactive_agents.effects import attempt
from reactive_agents.ports import PlanStore
from reactive_agents.testing import FakeClock
from reactive_agents.testing.core import START
from tests.support.memories import AGENT, OTHER, a_plan

pytestmark = pytest.mark.anyio


ON_BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
async def plans(tmp_path: Path) -> AsyncIterator[SqlitePlanStore]:
    database = open_memory_store(tmp_path / "memory.db")
    yield SqlitePlanStore(database, FakeClock(step_s=1.0))
    await database.aclose()


@ON_BOTH
async def test_a_plan_comes_back_as_it_was_saved(plans: SqlitePlanStore) -> None:
    port: PlanStore = plans
    plan = a_plan()
    assert await attempt(port.get(plan.id)) == Success(Nothing)
    assert await attempt(port.save(plan)) == Success(None)
    await plans.database.aclose()
    assert await attempt(port.get(plan.id)) == Success(Some(plan))


async def test_saving_again_replaces_the_plan_and_its_steps(plans: SqlitePlanStore) -> None:
    await attempt(plans.save(a_plan(steps=4)))
    shorter = evolve(a_plan(steps=1), goal="Another", version=2, status="abandoned")
    await attempt(plans.save(shorter))
    assert await attempt(plans.get(shorter.id)) == Success(Some(shorter))


async def test_every_transition_of_a_step_is_kept_in_order(plans: SqlitePlanStore) -> None:
    plan = a_plan()
    await attempt(plans.save(plan))
    begun = evolve(plan.steps[1], status="in_progress", started_at=START)
    done = evolve(begun, status="completed", result="2", completed_at=START, tokens_used=7)
    for step in (begun, done):
        assert await attempt(plans.update_step(plan.id, step)) == Success(None)
    assert await attempt(plans.get(plan.id)) == Success(Some(evolve(plan, steps=(plan.steps[0], done))))
    assert await attempt(plans.transitions(plan.id)) == Success(
        (
            StepTransition(plan.id, begun, START),
            StepTransition(plan.id, done, START + timedelta(seconds=1)),
        )
    )


@pytest.mark.parametrize(("plan_id", "step_id"), [("plan-1", "s9"), ("unknown", "s1")])
async def test_a_step_that_does_not_exist_is_a_failure(
    plans: SqlitePlanStore, plan_id: str, step_id: str
) -> None:
    plan = a_plan()
    await attempt(plans.save(plan))
    match await attempt(plans.update_step(PlanId(plan_id), evolve(plan.steps[0], id=step_id))):
        case Failure(MemoryUnavailable(message, "update_step")):
            assert repr(step_id) in message
        case other:
            raise AssertionError(other)
    assert await attempt(plans.transitions(PlanId(plan_id))) == Success(())


async def test_what_must_not_stay_is_rewritten_in_steps_and_transitions(plans: SqlitePlanStore) -> None:
    plan, other = a_plan(), a_plan("other")
    for each in (plan, other):
        await attempt(plans.save(each))
        await attempt(plans.update_step(each.id, evolve(each.steps[0], result="tulip")))
    done = await attempt(plans.rewrite_steps(plan.id, lambda step: evolve(step, result="rose")))
    assert done == Success(None)
    stored = (await attempt(plans.get(plan.id))).unwrap().unwrap()
    assert [step.result for step in stored.steps] == ["rose"] * len(plan.steps)
    assert [step.id for step in stored.steps] == [step.id for step in plan.steps]
    results = {
        plan_id: [each.step.result for each in (await attempt(plans.transitions(plan_id))).unwrap()]
        for plan_id in (plan.id, other.id)
    }
    assert results == {plan.id: ["rose"], other.id: ["tulip"]}


async def test_plans_are_listed_newest_first_and_of_one_agent(plans: SqlitePlanStore) -> None:
    old, first, second = a_plan("old", at=START - timedelta(days=1)), a_plan("first"), a_plan("second")
    for plan in (first, second, old, a_plan("strange", agent=OTHER), first):
        await attempt(plans.save(plan))
    assert await attempt(plans.list_plans(AGENT)) == Success((second, first, old))


async def test_the_plans_of_a_user_are_forgotten_with_their_transitions(plans: SqlitePlanStore) -> None:
    ada, bob = user_owner("ada"), user_owner("bob")
    own = a_plan("agent's own")
    owned = (evolve(a_plan("ada-1"), owner=ada), evolve(a_plan("ada-2", agent=OTHER), owner=ada))
    kept = (evolve(a_plan("bob-1"), owner=bob), own)
    for plan in (*owned, *kept):
        await attempt(plans.save(plan))
        await attempt(plans.update_step(plan.id, plan.steps[0]))
    for what, gone in ((ForgetUser("ada", OTHER), owned[1:]), (ForgetUser("ada"), owned)):
        done = await sql.erase(plans.database, "forget", partial(forget, what=what))
        assert isinstance(done, Success)
        for plan in (*owned, *kept):
            there = () if plan in gone else (plan.steps[0],)
            assert (await attempt(plans.get(plan.id))).unwrap() == (Nothing if plan in gone else Some(plan))
            changes = (await attempt(plans.transitions(plan.id))).unwrap()
            assert tuple(each.step for each in changes) == there


async def test_a_figure_that_json_cannot_say_is_a_failure(plans: SqlitePlanStore) -> None:
    assert isinstance(await attempt(plans.save(evolve(a_plan(), total_cost=float("nan")))), Failure)
    assert await attempt(plans.list_plans(AGENT)) == Success(())


async def test_text_that_describes_no_plan_is_a_failure(plans: SqlitePlanStore) -> None:
    await attempt(plans.save(a_plan()))
    await plans.database.write("spoil", lambda each: each.execute("UPDATE plans SET data = '{}'").rowcount)
    match await attempt(plans.get(PlanId("plan-1"))):
        case Failure(MemoryUnavailable(message, "get_plan")):
            assert "Not a valid Plan" in message
        case other:
            raise AssertionError(other)
