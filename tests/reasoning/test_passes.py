"""Kernel runs as parts of a strategy."""

from __future__ import annotations

import pytest
from attrs import evolve
from returns.result import Success

from reactive_agents.core.errors import IterationLimitError, ModelUnavailable, ToolFailed
from reactive_agents.core.events import ReasoningStepCompleted
from reactive_agents.core.settings import BudgetConfig, CallLimit, ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import attempt
from reactive_agents.kernel import EarlierAttempt, KernelState
from reactive_agents.kernel.ledger import CallCounts, CallLedger
from reactive_agents.kernel.open_requirements import OpenRequirements, describe_unmet
from reactive_agents.reasoning.passes import (
    MOST_TURNS,
    Pass,
    Progress,
    begin_progress,
    calls_left_of_run,
    limit_reached,
    note_step,
    open_requirements_of_run,
    requirements_left,
    run_pass,
)
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices
from reactive_agents.testing import FakeTools, answer, call, fail, say
from tests.support.kernels import add, kernel_bench
from tests.support.strategies import strategy_input, strategy_services

pytestmark = pytest.mark.anyio

FIRST = Pass("test:first", "p1.", "Add 1 and 2.", 3)
SECOND = Pass("test:second", "p2.", "Add 3 and 4.", 3)


async def run(
    each: Pass, progress: Progress, given: StrategyInput, services: StrategyServices
) -> KernelState:
    ran = await attempt(run_pass(each, progress, "test", given, services))
    assert isinstance(ran, Success)
    return ran.unwrap()


async def test_passes_without_end_are_ended() -> None:
    bench = kernel_bench(say("3"))
    services, given = strategy_services(bench), strategy_input()
    progress = evolve(begin_progress(given, services), iterations=MOST_TURNS)
    ran = await attempt(run_pass(FIRST, progress, "mine", given, services))
    assert ran.failure() == IterationLimitError("mine", MOST_TURNS, 0)
    assert bench.llm.requests == []


async def test_recall_is_offered_in_a_later_pass_only_where_its_task_names_a_stored_result() -> None:
    bench = kernel_bench(call("add", a=1, b=2), answer("3"), answer("3"), tools={"add": add})
    services, given = strategy_services(bench), strategy_input()
    progress = begin_progress(given, services)
    progress = progress.after(await run(FIRST, progress, given, services))
    await run(SECOND, progress, given, services)
    assert [tool.name for tool in bench.llm.requests[-1].tools] == ["add", "final-answer"]


async def test_a_later_pass_can_recall_what_an_earlier_one_stored() -> None:
    bench = kernel_bench(
        call("add", a=1, b=2),
        answer("3"),
        call("recall", key="p1.add-1"),
        call("add", a=3, b=4),
        say("7"),
        tools={"add": add},
    )
    services, given = strategy_services(bench), strategy_input()
    progress = begin_progress(given, services)
    progress = progress.after(await run(FIRST, progress, given, services))
    assert progress.tool_results == {"p1.add-1": "3"}
    named = evolve(SECOND, task="Go on from what is stored as p1.add-1.")
    state = await run(named, progress, given, services)
    assert "3" in next(message.content for message in state.messages if hasattr(message, "call_id"))
    progress = progress.after(state)
    assert progress.tool_results == {"p1.add-1": "3", "p2.add-2": "7"}
    assert (progress.calls.attempts, progress.iterations) == ({"add": 2, "recall": 1}, 5)
    assert {event.kernel_pass for event in bench.recorder.of(ReasoningStepCompleted)} == {
        "test:first",
        "test:second",
    }
    keys = [
        step.metadata.result_key for step in progress.steps if step.type == "observation" and step.metadata
    ]
    assert keys == ["p1.add-1", None, "p2.add-2"]


async def test_a_pass_gets_what_is_left_of_budget_and_needs() -> None:
    bench = kernel_bench(call("add", a=1, b=2), say("3"), call("add", a=3, b=4), say("7"), tools={"add": add})
    needs = ToolNeeds((ToolRequirement("add", 2),))
    given = strategy_input(
        needs=needs, budget=BudgetConfig(calls=(CallLimit("add", 1),)), available_tools=("add",)
    )
    services = strategy_services(bench)
    progress = begin_progress(given, services)
    state = await run(FIRST, progress, given, services)
    assert state.outcome == "partial", "the required call is over the limit"
    progress = progress.after(state)
    now = open_requirements_of_run(progress, given, services)
    assert describe_unmet(now) == "the required tool add (1 of 2 calls done, 0 left in its budget)"
    assert describe_unmet(now) in state.reason, "kernel and strategy come to the same"
    await run(SECOND, progress, given, services)
    assert "add" not in {tool.name for tool in bench.llm.requests[-1].tools}


async def test_calls_of_an_earlier_try_of_the_run_count_for_limits_and_needs() -> None:
    bench = kernel_bench(say("7"), tools={"add": add})
    needs = ToolNeeds((ToolRequirement("add", 2), ToolRequirement("final-answer")))
    ledger = CallLedger(CallCounts({"add": 2}, {"add": 2}))
    given = strategy_input(
        needs=needs,
        budget=BudgetConfig(calls=(CallLimit("add", 2),)),
        available_tools=("add",),
        earlier=EarlierAttempt("3", ("It is wrong.",), {"p1.add-1": "3"}, ledger),
    )
    services = strategy_services(bench)
    progress = begin_progress(given, services)
    assert open_requirements_of_run(progress, given, services) == OpenRequirements()
    state = await run(SECOND, progress, given, services)
    assert state.outcome == "completed"
    assert "add" not in {tool.name for tool in bench.llm.requests[0].tools}
    progress = progress.after(state)
    assert progress.calls.attempts == {"add": 2}, "each call counts once"


def test_any_answer_counts_as_the_answer_tool() -> None:
    needs = ToolNeeds((ToolRequirement("add"), ToolRequirement("final-answer")))
    services = strategy_services(kernel_bench(tools={"add": add}))
    now = open_requirements_of_run(Progress("p"), strategy_input(needs=needs), services)
    assert describe_unmet(now) == "required calls: add (0 of 1 calls done)"
    assert requirements_left(needs, now).required == (ToolRequirement("add"),)


async def test_a_tool_that_delivers_is_never_used_up() -> None:
    report = ToolDefinition("report", "Delivers the report.", {"type": "object"}, output=True)
    bench = kernel_bench(
        call("report"),
        say("one"),
        call("report", text="another"),
        say("two"),
        tools=FakeTools({"report": "done"}, definitions=(report,)),
    )
    given = strategy_input(budget=BudgetConfig(calls=(CallLimit("report", 1),)), available_tools=("report",))
    services = strategy_services(bench)
    progress = begin_progress(given, services)
    progress = progress.after(await run(FIRST, progress, given, services))
    progress = progress.after(await run(SECOND, progress, given, services))
    assert progress.calls.succeeded == {"report": 2}
    assert calls_left_of_run(progress, given, services) == {}


async def test_a_tool_that_failed_for_good_in_one_pass_is_not_waited_for_in_the_next() -> None:
    broken = ToolFailed("add", "offline")
    bench = kernel_bench(
        *(call("add", a=number, b=1) for number in range(3)), say("none"), say("none"), tools={"add": broken}
    )
    given = strategy_input(needs=ToolNeeds((ToolRequirement("add"),)), available_tools=("add",))
    services = strategy_services(bench)
    progress = begin_progress(given, services)
    progress = progress.after(await run(evolve(FIRST, max_iterations=5), progress, given, services))
    assert progress.calls.failed_in_a_row == {"add": 3}
    state = await run(SECOND, progress, given, services)
    assert (state.iteration, state.outcome) == (1, "partial")
    lost = describe_unmet(open_requirements_of_run(progress.after(state), given, services))
    assert lost == "the required tool add (it failed 3 times in a row)"
    assert lost in state.reason


async def test_what_is_not_there_is_lost_for_strategies_too() -> None:
    given = strategy_input(needs=ToolNeeds((ToolRequirement("hear"),)))
    services = strategy_services(kernel_bench(tools={"add": add}))
    now = open_requirements_of_run(begin_progress(given, services), given, services)
    assert describe_unmet(now) == "the required tool hear (there is no such tool here)"
    assert requirements_left(given.needs, now).required == ()


async def test_a_spent_budget_ends_a_strategy_between_passes() -> None:
    bench = kernel_bench(say("one"), say("two"))
    services = strategy_services(bench)
    given = strategy_input(budget=BudgetConfig(tokens=1))
    assert limit_reached(given, services) is None
    progress = begin_progress(given, services)
    await run(FIRST, progress, given, services)
    limit = limit_reached(given, services)
    assert limit is not None
    assert limit.name == "budget"
    over = limit_reached(strategy_input(deadline=bench.clock.monotonic()), services)
    assert over is not None
    assert over.name == "deadline"


async def test_a_pass_whose_model_fails_is_a_failed_state() -> None:
    bench = kernel_bench(fail(ModelUnavailable("down", "m")))
    services = strategy_services(bench)
    state = await run(FIRST, begin_progress(strategy_input(), services), strategy_input(), services)
    assert state.status == "failed"


async def test_a_step_of_the_strategy_itself_is_told_as_a_thought() -> None:
    bench = kernel_bench()
    services = strategy_services(bench)
    progress = note_step(
        begin_progress(strategy_input(), services),
        "critique",
        "Too long.",
        services,
        label="test:critique",
    )
    progress = note_step(progress, "plan", "Two steps.", services, label="test:plan")
    assert [step.type for step in progress.steps] == ["critique", "plan"]
    assert len({step.id for step in progress.steps}) == 2
    assert [event.thought for event in bench.recorder.of(ReasoningStepCompleted)] == [
        "Too long.",
        "Two steps.",
    ]


async def test_the_limit_of_a_required_tool_holds_across_passes() -> None:
    turns = [call("add", a=number, b=1) for number in range(3)]
    bench = kernel_bench(
        *turns, say("one"), *[call("add", a=9, b=n) for n in range(3)], say("two"), tools={"add": add}
    )
    given = strategy_input(needs=ToolNeeds((ToolRequirement("add", 2),)), available_tools=("add",))
    services = strategy_services(bench)
    progress = begin_progress(given, services)
    for each in (FIRST, SECOND):
        progress = progress.after(await run(each, progress, given, services))
    assert progress.calls.attempts == {"add": 4}
