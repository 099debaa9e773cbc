"""The adaptive strategy and adaptive routing: who does the work, what is told, and what is learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from dependency_injector import providers
from returns.maybe import Some

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.adapters.memory.database import open_memory_store
from reactive_agents.adapters.memory.records import SqliteEffectiveness
from reactive_agents.adapters.system import SystemClock
from reactive_agents.adapters.telemetry.console import summary
from reactive_agents.core.config import AdaptiveConfig
from reactive_agents.core.errors import MemoryUnavailable, ModelUnavailable, StrategyExecutionError
from reactive_agents.core.events import ExecutionPhaseFailed, ReasoningStepCompleted, StrategySelected
from reactive_agents.core.results import ReasoningStatus
from reactive_agents.effects import attempt
from reactive_agents.reasoning import Strategy
from reactive_agents.testing import (
    EventRecorder,
    FixedVerifier,
    InMemoryEffectivenessTracker,
    ScriptedLLM,
    Turn,
    call,
    fail,
    say,
)
from tests.support.fakes import FOUR, stand_in
from tests.support.operations import counted_operations

pytestmark = pytest.mark.anyio
TREE = "Write a short story about a snail."


def agent(
    *turns: Turn,
    reasoning: str = "adaptive",
    adaptive: dict[str, Any] | None = None,
    tracker: InMemoryEffectivenessTracker | None = None,
    own: dict[str, Strategy] | None = None,
    **statuses: ReasoningStatus,
) -> Any:
    given = {name.replace("_", "-"): status for name, status in statuses.items()}
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns))
    for name in FOUR[1:]:
        builder = builder.with_strategy(name, stand_in(name, status=given.get(name, "completed")))
    for name, strategy in (own or {}).items():
        builder = builder.with_strategy(name, strategy)
    built = builder.with_reasoning(reasoning, adaptive={"measured": False, **(adaptive or {})}).build()
    if tracker is not None:
        built.container.memory.effectiveness.override(providers.Object(Some(tracker)))
    return built


async def run(built: Any, task: str) -> tuple[Any, EventRecorder]:
    recorder = EventRecorder()
    built.subscribe(recorder)
    return await built.run(task), recorder


async def test_the_adaptive_strategy_reports_the_one_that_did_the_work() -> None:
    result, recorder = await run(agent(say("4")), "What's 2+2?")
    assert (result.output, result.status) == ("4", "completed")
    figures = result.metadata
    assert (figures.strategy_used, figures.selected_strategy) == ("reactive", "reactive")
    assert [event.strategy for event in recorder.of(StrategySelected)] == ["adaptive"]
    first, *rest = recorder.of(ReasoningStepCompleted)
    assert (first.strategy, first.kernel_pass) == ("adaptive", "adaptive:select")
    assert "reactive" in (first.thought or "")
    assert {event.strategy for event in rest} == {"reactive"}
    assert result.steps[0].type == "plan"
    assert figures.steps_count == len(result.steps)
    assert summary(figures).endswith("(adaptive→reactive)")


async def test_routing_chooses_for_every_task_and_keeps_the_default_out_of_it() -> None:
    built = agent(reasoning="reactive", adaptive={"enabled": True})
    result, recorder = await run(built, TREE)
    assert result.output == "by tree-of-thought"
    assert result.metadata.selected_strategy == "tree-of-thought"
    (selected,) = recorder.of(StrategySelected)
    assert selected.strategy == "tree-of-thought"
    assert "an open question" in selected.reason


async def test_without_choice_nothing_is_said_of_one() -> None:
    result, _ = await run(agent(say("4"), reasoning="reactive"), "What's 2+2?")
    assert result.metadata.selected_strategy is None
    assert "→" not in summary(result.metadata)


@pytest.mark.parametrize(
    ("reasoning", "options"), [("adaptive", None), ("reactive", {"enabled": True})], ids=["strategy", "flag"]
)
async def test_a_strategy_that_fails_is_replaced_once(reasoning: str, options: Any) -> None:
    built = agent(say("A snail sat."), reasoning=reasoning, adaptive=options, tree_of_thought="failed")
    result, recorder = await run(built, TREE)
    assert (result.output, result.metadata.strategy_used) == ("A snail sat.", "reactive")
    assert result.metadata.selected_strategy == "reactive"
    assert "tree-of-thought is broken." in result.reason
    last = recorder.of(StrategySelected)[-1]
    assert last.strategy == "reactive"
    assert "tree-of-thought is broken." in last.reason


async def test_the_configured_default_goes_first_as_a_replacement() -> None:
    built = agent(reasoning="reflexion", adaptive={"enabled": True}, tree_of_thought="failed")
    result, _ = await run(built, TREE)
    assert result.metadata.strategy_used == "reflexion"


async def test_totals_include_what_a_failed_strategy_spent() -> None:
    built = agent(
        call("nowhere", cost_usd=0.25),
        fail(ModelUnavailable("down", "m")),
        reasoning="reflexion",
        adaptive={"enabled": True},
    )
    result, recorder = await run(built, "What's 2+2?")
    assert result.output == "by reflexion"
    assert (result.metadata.tokens_used, result.metadata.cost_usd) == (15, 0.25)
    assert len(recorder.of(StrategySelected)) == 2


async def test_when_both_fail_the_error_tells_of_both() -> None:
    built = agent(fail(ModelUnavailable("The server is down.", "m")), tree_of_thought="failed")
    with pytest.raises(AgentError) as caught:
        await built.run(TREE)
    cause = caught.value.error.cause  # type: ignore[union-attr]
    assert isinstance(cause, StrategyExecutionError)
    assert "tree-of-thought is broken." in cause.message
    assert "The server is down." in cause.message


async def test_a_partial_answer_is_no_failure() -> None:
    result, _ = await run(agent(tree_of_thought="partial"), TREE)
    assert (result.status, result.output) == ("partial", "by tree-of-thought")


async def test_a_model_can_choose_and_its_call_is_counted() -> None:
    choice = say('{"strategy": "reflexion", "reason": "it has to be good", "confidence": 1}', cost_usd=0.5)
    built = agent(choice, adaptive={"selection": "model"})
    result, recorder = await run(built, "What's 2+2?")
    assert result.output == "by reflexion"
    assert (result.metadata.model_calls, result.metadata.cost_usd) == (1, 0.5)
    assert "it has to be good" in (recorder.of(ReasoningStepCompleted)[0].thought or "")


# --- learning -------------------------------------------------------------------------------------------


async def test_every_outcome_is_recorded_under_the_kind_of_task() -> None:
    tracker = InMemoryEffectivenessTracker()
    built = agent(say("4"), reasoning="reactive", tracker=tracker)
    await built.run("What's 2+2?")
    known = tracker.known["reactive", "question"]
    assert (known.executions, known.success_rate) == (1, 1.0)


async def test_a_result_has_the_success_rate_of_its_strategy_with_this_run() -> None:
    tracker, task = InMemoryEffectivenessTracker(), "What's 2+2?"
    turns = (say("4"), say("fo", finish_reason="content_filter"), say("4"))
    built = agent(*turns, reasoning="reactive", tracker=tracker)
    ended = [await built.run(task) for _ in turns]
    assert [each.status for each in ended] == ["completed", "partial", "completed"]
    assert [each.metadata.effectiveness for each in ended] == [1.0, 0.5, pytest.approx(2 / 3)]
    known = (await attempt(tracker.get_effectiveness("reactive", "question"))).unwrap().unwrap()
    assert ended[-1].metadata.effectiveness == pytest.approx(known.success_rate)


async def test_what_says_nothing_of_the_strategy_leaves_its_rate_as_it_was() -> None:
    built = agent(tracker=InMemoryEffectivenessTracker(), reasoning="reflexion", reflexion="abstained")
    assert (await built.run("What's 2+2?")).metadata.effectiveness is None


async def test_without_learning_nothing_is_said_of_the_success_rate() -> None:
    built = ReactiveAgents.create().with_llm(ScriptedLLM(say("4"))).build()
    assert (await built.run("What's 2+2?")).metadata.effectiveness is None


async def test_a_type_of_the_users_own_is_recorded_as_it_is() -> None:
    tracker = InMemoryEffectivenessTracker()
    built = agent(say("4"), reasoning="reactive", tracker=tracker)
    await built.run(evolve(built.new_task("What's 2+2?"), type="sums"))
    assert list(tracker.known) == [("reactive", "sums")]


async def test_the_one_that_failed_and_the_one_in_its_place_are_both_recorded() -> None:
    tracker = InMemoryEffectivenessTracker()
    await agent(say("x"), tracker=tracker, tree_of_thought="failed").run(TREE)
    rates = {strategy: known.success_rate for (strategy, _), known in tracker.known.items()}
    assert rates == {"tree-of-thought": 0.0, "reactive": 1.0}


async def test_partial_and_unverified_answers_are_no_success() -> None:
    tracker = InMemoryEffectivenessTracker()
    await agent(tracker=tracker, tree_of_thought="partial").run(TREE)
    built = agent(say("4"), reasoning="reactive", tracker=tracker)
    built.container.governance.verifier.override(providers.Object(Some(FixedVerifier(0.1, threshold=0.5))))
    assert (await built.run("What's 2+2?")).metadata.effectiveness == 0.0
    assert [known.success_rate for known in tracker.known.values()] == [0.0, 0.0]


async def test_a_provider_that_is_down_teaches_nothing() -> None:
    tracker = InMemoryEffectivenessTracker()
    built = agent(fail(ModelUnavailable("down", "m")), reasoning="reactive", tracker=tracker)
    with pytest.raises(AgentError):
        await built.run("What's 2+2?")
    assert tracker.known == {}


async def test_learning_can_be_off() -> None:
    tracker = InMemoryEffectivenessTracker()
    await agent(say("4"), adaptive={"learning": False}, tracker=tracker).run("What's 2+2?")
    assert tracker.known == {}


async def test_an_outcome_that_cannot_be_recorded_is_an_event() -> None:
    tracker = InMemoryEffectivenessTracker(fails_with=MemoryUnavailable("The disk is full.", "record"))
    result, recorder = await run(agent(say("4"), reasoning="reactive", tracker=tracker), "What's 2+2?")
    assert result.success
    (failed,) = recorder.of(ExecutionPhaseFailed)
    assert (failed.phase, failed.fatal, failed.error.message) == ("memory-flush", False, "The disk is full.")
    assert recorder.tags()[-1] == "TaskCompleted"


async def test_outcomes_are_kept_in_the_memory_file(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    llm = ScriptedLLM(say("4"))
    async with ReactiveAgents.create().with_llm(llm).with_memory(path).with_reasoning().build() as built:
        await built.run("What's 2+2?")
    database = open_memory_store(path)
    record = SqliteEffectiveness(database, clock=SystemClock())
    (known,) = (await attempt(record.history("question"))).unwrap()
    await database.aclose()
    assert (known.strategy, known.executions, known.success_rate) == ("reactive", 1, 1.0)


async def test_looking_up_a_record_takes_no_more_work_after_many_runs() -> None:
    async def operations(runs: int) -> int:
        tracker = InMemoryEffectivenessTracker()
        for _ in range(runs):
            await agent(say("4"), reasoning="reactive", tracker=tracker).run("What's 2+2?")
        with counted_operations() as count:
            await attempt(tracker.get_effectiveness("reactive", "question"))
        return count.total

    assert await operations(20) == await operations(1)


def test_the_options_are_validated() -> None:
    with pytest.raises(AgentError, match="selection"):
        ReactiveAgents.create().with_reasoning(adaptive={"selection": "dice"}).build()
    assert AdaptiveConfig().selection == "heuristic"
