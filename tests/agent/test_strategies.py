"""The real strategies from the builder to the result: chosen, replaced, watched, and within limits."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.core.errors import ControllerError, root_cause
from reactive_agents.core.events import ModelCallCompleted, StrategySelected, TaskCompleted, TaskFailed
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.results import ReasoningStep
from reactive_agents.reasoning import ReasoningController, UncertaintySignal
from reactive_agents.testing import EventRecorder
from tests.support.models import DOWN, FailingAt, RuledLLM, Said
from tests.support.sensible import UNSURE, sensible

pytestmark = pytest.mark.anyio
TASKS = {
    "plan-execute-reflect": "Search for the prices of ten coins, then compare them, and then write a report.",
    "reflexion": "Write a cover letter for a job as a gardener.",
    "tree-of-thought": "Brainstorm names for a bakery.",
}
all_strategies = pytest.mark.parametrize("name", ["direct", "reactive", *TASKS, "adaptive"])
OWN_STEP = {"plan-execute-reflect": "reflection", "reflexion": "critique", "tree-of-thought": "plan"}
every_strategy = pytest.mark.parametrize("name", TASKS)
SMALL = {"tree_of_thought": {"breadth": 2, "depth": 1, "pruning_threshold": 0.1}}


@frozen
class Sum:
    """A sum."""

    total: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    ADDED.append((a, b))
    return a + b


ADDED: list[tuple[int, int]] = []


@pytest.fixture(autouse=True)
def nothing_added() -> None:
    ADDED.clear()


def builder(llm: Any, strategy: str, **options: Any) -> ReactiveAgents:
    made = ReactiveAgents.create().with_llm(llm).with_tools(add)
    return made.with_reasoning(strategy, **{"strategies": SMALL, **options})


async def watched(made: ReactiveAgents, task: str) -> tuple[Any, EventRecorder]:
    recorder, agent = EventRecorder(), made.build()
    agent.subscribe(recorder)
    return await agent.run(task), recorder


# --- chosen ---------------------------------------------------------------------------------------------


@every_strategy
@pytest.mark.parametrize("how", ["strategy", "flag"])
async def test_the_strategy_that_suits_is_chosen_and_does_the_work(name: str, how: str) -> None:
    model = RuledLLM(sensible)
    options = {"adaptive": {"enabled": how == "flag", "measured": False}}
    made = builder(model, "adaptive" if how == "strategy" else "reactive", **options)
    result, recorder = await watched(made, TASKS[name])
    assert (result.status, result.output) == ("completed", "3"), result.reason
    figures = result.metadata
    assert (figures.strategy_used, figures.selected_strategy) == (name, name)
    (selected,) = recorder.of(StrategySelected)
    assert selected.strategy == ("adaptive" if how == "strategy" else name)
    assert figures.model_calls == len(model.requests) == len(recorder.of(ModelCallCompleted))
    assert (figures.tokens_used, figures.cost_usd) == (15 * len(model.requests), 0.25 * len(model.requests))
    assert figures.steps_count == len(result.steps)


@pytest.mark.parametrize(("name", "calls"), [("reflexion", 1), ("tree-of-thought", 3)])
async def test_a_strategy_that_fails_is_replaced_within_the_limits_of_the_run(name: str, calls: int) -> None:
    recorder = EventRecorder()
    model = RuledLLM(
        lambda request: DOWN if len(model.requests) > calls and not replaced() else sensible(request)
    )

    def replaced() -> bool:
        return recorder.of(StrategySelected)[-1].strategy == "reactive"

    routed = builder(model, "adaptive", adaptive={"measured": False})
    made = routed.with_budget(calls={"add": 1}).with_required_tools("add")
    agent = made.build()
    agent.subscribe(recorder)
    result = await agent.run(TASKS[name])
    assert result.metadata.strategy_used == "reactive"
    assert name in result.reason
    assert ADDED == [(1, 2)], "the calls of the first strategy count"
    assert (result.status, result.output) == ("completed", "3"), result.reason


# --- watched --------------------------------------------------------------------------------------------


def doubtful(own: str, reaction: str) -> ReasoningController:
    def decide(signal: UncertaintySignal) -> str:
        return reaction if signal.step.type == own else "continue"

    return ReasoningController(on_uncertainty=decide)  # type: ignore[arg-type]


@every_strategy
async def test_a_controller_can_abort_a_strategy_for_a_step_of_its_own(name: str) -> None:
    model = RuledLLM(partial(sensible, confidence=UNSURE))
    made = builder(model, name).with_controller(doubtful(OWN_STEP[name], "abort"))
    result, _ = await watched(made, TASKS[name])
    assert (result.status, result.metadata.terminated_by) == ("partial", "controller")
    assert f"the {OWN_STEP[name]} has a confidence of 0.20" in result.reason
    assert result.output == (None if name == "tree-of-thought" else "3"), "what there is of an answer"
    assert result.metadata.tokens_used == 15 * len(model.requests)


@every_strategy
async def test_a_controller_can_hand_the_task_on(name: str) -> None:
    model = RuledLLM(partial(sensible, confidence=UNSURE))
    controller = evolve(doubtful(OWN_STEP[name], "escalate"), on_adapt=lambda _: "reactive")
    result, recorder = await watched(builder(model, name).with_controller(controller), TASKS[name])
    assert (result.status, result.output) == ("completed", "3")
    assert result.metadata.strategy_used == "reactive"
    assert [event.strategy for event in recorder.of(StrategySelected)] == [name, "reactive"]
    assert len(ADDED) == (1 if name == "tree-of-thought" else 2)
    if name != "tree-of-thought":
        assert "which recall reads: first." in model.requests[-1].messages[2].content
    assert result.metadata.tokens_used == 15 * len(model.requests)
    assert len({step.id for step in result.steps}) == len(result.steps)
    keys = [step.metadata.result_key for step in result.steps if step.metadata and step.metadata.result_key]
    assert set(keys) == set(result.tool_results)


@every_strategy
@pytest.mark.parametrize("hook", ["before_reasoning", "during_step", "after_step", "on_uncertainty"])
async def test_a_controller_that_raises_ends_every_strategy_with_its_error(name: str, hook: str) -> None:
    def explode(_: object) -> Any:
        raise ValueError("out of order")

    model = RuledLLM(partial(sensible, confidence=UNSURE))
    agent = builder(model, name).with_controller(ReasoningController(**{hook: explode})).build()
    with pytest.raises(AgentError) as caught:
        await agent.run(TASKS[name])
    error = root_cause(caught.value.error)
    assert isinstance(error, ControllerError)
    assert (error.hook, error.problem) == (hook, "ValueError: out of order")


@every_strategy
async def test_a_controller_sees_every_step_once(name: str) -> None:
    seen: list[ReasoningStep] = []
    made = builder(RuledLLM(sensible), name)
    result, _ = await watched(made.with_controller(ReasoningController(during_step=seen.append)), TASKS[name])
    assert sorted(step.id for step in seen) == sorted(step.id for step in result.steps)
    assert OWN_STEP[name] in {step.type for step in seen}


# --- within limits --------------------------------------------------------------------------------------


@every_strategy
async def test_a_call_that_fails_leaves_an_honest_account(name: str) -> None:
    whole = RuledLLM(sensible)
    await builder(whole, name).build().run(TASKS[name])
    for index in range(len(whole.requests)):
        model, recorder = FailingAt(RuledLLM(sensible), index, for_good=True), EventRecorder()
        agent = builder(model, name).build()
        agent.subscribe(recorder)
        await agent.run_effect(TASKS[name])
        last = recorder.events[-1]
        if isinstance(last, TaskFailed):
            assert root_cause(last.error) == DOWN
            figures = last.metadata
        else:
            assert isinstance(last, TaskCompleted)
            figures = last.result.metadata
            unjudged = last.result.metadata.terminated_by == "critique_failed"
            assert last.result.output == "3"
            assert last.result.status == ("completed" if unjudged else "partial")
            assert not unjudged or "The answer was not judged." in last.result.reason
        assert figures.tokens_used == 15 * model.answered


@all_strategies
async def test_every_strategy_gives_a_value_of_the_type(name: str) -> None:
    model = RuledLLM(
        lambda request: '{"total": 3}' if request.purpose == "output-type" else sensible(request)
    )
    result = await builder(model, name).with_output_type(Sum).build().run(TASKS.get(name, "What is 1 + 2?"))
    assert (result.output, result.status) == (Sum(3), "completed")
    assert result.metadata.model_calls == len(model.requests)
    about_answer = [request for request in model.requests if request.purpose != "score"]
    for request in about_answer:
        shown = "".join((request.messages[0].content, *(tool.schema_text for tool in request.tools)))
        assert '"total"' in shown, request.purpose


@all_strategies
async def test_the_answer_of_every_strategy_passes_the_guardrail(name: str) -> None:
    def personal(request: ModelRequest) -> Said:
        said = sensible(request)
        return "Write to ann@example.org." if said == "3" else said

    made = builder(RuledLLM(personal), name).with_guardrails()
    result, _ = await watched(made, TASKS.get(name, "What is 1 + 2?"))
    assert (result.status, result.output) == ("completed", "Write to [email].")
    assert not any("ann@" in step.content for step in result.steps)


@all_strategies
async def test_a_second_try_is_accounted_for_in_every_strategy(name: str) -> None:
    def wrong(request: ModelRequest) -> Said:
        said = sensible(request)
        return "It is 450." if said == "3" else said

    model = RuledLLM(wrong)
    made = builder(model, name).with_verification(action="retry").with_required_tools("add")
    result, _ = await watched(made, TASKS.get(name, "What is 1 + 2?"))
    assert result.status == "completed", "the required call of the first try counts"
    figures = result.metadata
    assert figures.model_calls == len(model.requests)
    assert figures.tokens_used == 15 * len(model.requests)
    assert figures.steps_count == len(result.steps) == len({step.id for step in result.steps})
    keys = [step.metadata.result_key for step in result.steps if step.metadata and step.metadata.result_key]
    assert set(keys) == set(result.tool_results)
    assert any("The number '450' was not observed." in each.content for each in model.requests[-1].messages)


@all_strategies
async def test_every_answer_has_the_agents_role_and_every_request_fits_its_profile(name: str) -> None:
    model = RuledLLM(sensible)
    made = builder(model, name).with_system_prompt("You are Bob.").with_context_profile(max_answer_tokens=99)
    await watched(made, TASKS.get(name, "What is 1 + 2?"))
    for request in model.requests:
        leads = request.messages[0].content.startswith("You are Bob.")
        assert leads is (request.purpose == "think"), "the role leads answers, and no question about them"
    assert {request.max_tokens for request in model.requests if request.purpose != "reflect"} == {99}


@pytest.mark.parametrize(
    ("name", "tokens", "asked"),
    [
        ("direct", 15, 1),
        ("reactive", 15, 1),
        ("plan-execute-reflect", 45, 3),  # no plan: the reactive strategy would come next
        ("reflexion", 30, 2),
        ("tree-of-thought", 45, 3),
        ("adaptive", 15, 1),  # a choice that cannot be read is not asked for once more
    ],
)
async def test_no_model_is_asked_once_the_budget_is_spent(name: str, tokens: int, asked: int) -> None:
    model = RuledLLM(lambda request: "no JSON" if request.purpose == "plan" else sensible(request))
    options = {"adaptive": {"selection": "model"}} if name == "adaptive" else {}
    made = builder(model, name, **options).with_budget(tokens=tokens)
    result, _ = await watched(made, TASKS.get(name, "What is 1 + 2?"))
    assert len(model.requests) == asked
    assert (result.status, result.metadata.terminated_by) == ("partial", "budget")
    assert f"{15 * asked} tokens were used, the budget was {tokens}." in result.reason


async def test_what_was_criticised_is_a_lesson_for_the_next_run(tmp_path: Path) -> None:
    def hard(request: ModelRequest) -> Said:
        if request.purpose != "critique":
            return "A letter with a date." if "No date." in str(request.messages) else "A letter."
        good = "with a date" in request.messages[-1].content
        issues = [] if good else ["No date."]
        return json.dumps({"issues": issues, "score": 1.0 if good else 0.4, "satisfied": good})

    asked: list[int] = []
    for _ in range(2):
        model = RuledLLM(hard)
        made = ReactiveAgents.create().with_name("clerk").with_llm(model).with_reasoning("reflexion")
        async with made.with_memory(tmp_path / "memory.db").build() as agent:
            result = await agent.run("Write a cover letter for a gardener.")
        assert result.output == "A letter with a date."
        asked.append(len(model.requests))
    assert asked == [4, 2], "the second run knows what the first one was criticised for"
    told = "\n".join(message.content for message in model.requests[0].messages)
    assert "<earlier-lessons>" in told
    assert "Accepted" not in told.replace("Not accepted", ""), "praise is no lesson"
