"""The selector: model, rules, experience and controller together."""

from __future__ import annotations

from typing import Any

import pytest
from returns.maybe import Some
from returns.result import Failure, Result

from reactive_agents.core.config import AdaptiveConfig, ReasoningConfig
from reactive_agents.core.errors import (
    MemoryUnavailable,
    ModelUnavailable,
    ReasoningErrors,
    SelectionError,
    StrategyNotFoundError,
)
from reactive_agents.core.settings import BudgetConfig
from reactive_agents.effects import attempt
from reactive_agents.reasoning import (
    ReasoningController,
    ReasoningService,
    Selection,
    StrategyRegistry,
    StrategySelector,
)
from reactive_agents.reasoning.selection.selector import selection_context
from reactive_agents.testing import FakeClock, InMemoryEffectivenessTracker, fail, say
from tests.support.fakes import registry_of, stand_in
from tests.support.kernels import KernelBench, kernel_bench
from tests.support.memories import a_result
from tests.support.strategies import strategy_input, strategy_services

pytestmark = pytest.mark.anyio
ROUTED = AdaptiveConfig(enabled=True, measured=False)
DOWN = MemoryUnavailable("The disk is full.", "history")
CHOICE = '{"strategy": "tree-of-thought", "reason": "it is open", "confidence": 0.9}'


async def select(
    *turns: Any,
    task: str = "What's 2+2?",
    adaptive: AdaptiveConfig = ROUTED,
    registry: StrategyRegistry | None = None,
    bench: KernelBench | None = None,
    **service: Any,
) -> Result[Selection, ReasoningErrors]:
    config = ReasoningConfig(adaptive=adaptive)
    reasoning = ReasoningService(registry or registry_of(), config, **service)
    given = strategy_input(task, reasoning=config)
    return await attempt(reasoning.select_strategy(given, strategy_services(bench or kernel_bench(*turns))))


MODEL = AdaptiveConfig(enabled=True, selection="model")


async def test_rules_choose_without_a_model() -> None:
    selection = (await select(task="Write a technical report")).unwrap()
    assert (selection.strategy, selection.method) == ("reflexion", "rules")


async def test_a_model_chooses_from_what_is_registered_and_knows_the_record() -> None:
    tracker = InMemoryEffectivenessTracker(FakeClock())
    await attempt(tracker.record("reactive", "question", a_result(cost=0.25), success=True))
    bench = kernel_bench(say(CHOICE))
    registry = registry_of()

    def own(*_: object) -> Any:
        """Asks an oracle."""

    registry.register("oracle", own)
    selection = (
        await select(adaptive=MODEL, bench=bench, registry=registry, effectiveness=Some(tracker))
    ).unwrap()
    assert (selection.strategy, selection.reason, selection.method) == (
        "tree-of-thought",
        "it is open",
        "model",
    )
    asked = bench.sent(0)[-1].content
    assert "- oracle: Asks an oracle." in asked
    assert "- reactive: 1 of 1 succeeded, $0.2500" in asked
    assert "adaptive" not in asked
    assert bench.llm.requests[0].purpose == "select-strategy"


@pytest.mark.parametrize(
    "turns",
    [
        (fail(ModelUnavailable("down", "m")),),
        (say("I would think."), say("Hm.")),
        (say('{"strategy": "magic", "reason": "x"}'),),
        (say('{"strategy": "adaptive", "reason": "x"}'),),
    ],
)
async def test_rules_stand_in_for_a_model_that_makes_no_choice(turns: Any) -> None:
    selection = (await select(*turns, adaptive=MODEL)).unwrap()
    assert (selection.strategy, selection.method) == ("reactive", "rules")
    assert "The rules chose." in selection.reason


async def test_a_bare_name_is_a_choice_and_an_unknown_one_is_asked_for_again() -> None:
    assert (await select(say("Reflexion."), adaptive=MODEL)).unwrap().strategy == "reflexion"
    asked_again = (say('{"strategy": "magic"}'), say('{"reason": "words", "strategy": "reflexion"}'))
    selection = (await select(*asked_again, adaptive=MODEL)).unwrap()
    assert (selection.strategy, selection.reason, selection.method) == ("reflexion", "words", "model")


async def test_the_model_chooses_among_the_registered_names() -> None:
    bench, registry = kernel_bench(say("oracle")), registry_of()
    registry.register("oracle", stand_in("oracle"))
    assert (await select(adaptive=MODEL, bench=bench, registry=registry)).unwrap().strategy == "oracle"
    schema: Any = bench.llm.requests[0].response_schema
    assert list(schema["properties"])[:2] == ["reason", "strategy"], "the reason comes before the choice"
    assert set(schema["properties"]["strategy"]["enum"]) == set(registry.names()) - {"adaptive", "direct"}


async def test_experience_enters_the_choice_unless_learning_is_off() -> None:
    tracker = InMemoryEffectivenessTracker(FakeClock())
    for success in (False,) * 60:
        await attempt(tracker.record("reactive", "question", a_result(), success=success))
    for _ in range(60):
        await attempt(tracker.record("reflexion", "question", a_result(), success=True))
    selection = (await select(effectiveness=Some(tracker))).unwrap()
    assert (selection.strategy, selection.method) == ("reflexion", "history")
    off = AdaptiveConfig(enabled=True, learning=False)
    assert (await select(adaptive=off, effectiveness=Some(tracker))).unwrap().strategy == "reactive"


async def test_a_record_that_cannot_be_read_is_told_and_passed_over() -> None:
    tracker = InMemoryEffectivenessTracker(fails_with=DOWN)
    selection = (await select(effectiveness=Some(tracker))).unwrap()
    assert selection.strategy == "reactive"
    assert "The disk is full." in selection.reason


async def test_the_controllers_choice_goes_before_all_others() -> None:
    async def tree(_: object) -> str:
        return "tree-of-thought"

    controller = ReasoningController(on_adapt=tree)
    selection = (await select(adaptive=MODEL, controller=Some(controller))).unwrap()
    assert (selection.strategy, selection.method) == ("tree-of-thought", "controller")
    assert selection.confidence == 1, "so the choice itself is nothing that the controller doubts"
    unknown = await select(controller=Some(ReasoningController(on_adapt=lambda _: "magic")))
    assert isinstance(unknown.failure(), StrategyNotFoundError)
    none = await select(controller=Some(ReasoningController(on_adapt=lambda _: None)))
    assert none.unwrap().strategy == "reactive"


async def test_without_any_strategy_there_is_no_choice() -> None:
    bench = kernel_bench()
    given, services = strategy_input(), strategy_services(bench)
    selector = StrategySelector({"adaptive": stand_in("adaptive")})
    selected = await attempt(selector.select(selection_context(given, services), given, services))
    assert isinstance(selected, Failure)
    assert isinstance(selected.failure(), SelectionError)


def test_the_context_tells_of_time_and_money_left() -> None:
    bench = kernel_bench(clock=FakeClock())
    services = strategy_services(bench)
    plain = selection_context(strategy_input(), services)
    assert (plain.urgency, plain.cost_budget, plain.time_constraint) == (0.5, None, None)
    now = bench.clock.monotonic()
    given = strategy_input(deadline=now + 3.0, budget=BudgetConfig(cost_usd=2.0))
    hurried = selection_context(given, services)
    assert hurried.urgency > 0.9
    assert (hurried.cost_budget, hurried.time_constraint) == (2.0, pytest.approx(3_000))
