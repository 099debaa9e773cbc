"""A controller sees every step of every strategy, and may change, end or hand on a run."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from dependency_injector import providers
from returns.maybe import Some
from returns.result import Failure, Result, Success

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.core.errors import ControllerError, ReasoningErrors, root_cause
from reactive_agents.core.events import StrategySelected
from reactive_agents.core.ids import StepId
from reactive_agents.core.results import ReasoningResult, ReasoningStep, StepMetadata
from reactive_agents.effects import attempt, effect
from reactive_agents.reasoning import (
    Reaction,
    ReasoningController,
    Strategy,
    StrategyInput,
    StrategyServices,
    UncertaintySignal,
)
from reactive_agents.reasoning.controller import confidence_of
from reactive_agents.reasoning.passes import (
    Pass,
    Progress,
    begin_progress,
    limit_reached,
    note_step,
    run_pass,
)
from reactive_agents.reasoning.strategy import begin_measure, reasoning_result
from reactive_agents.testing import (
    EventRecorder,
    InMemoryEffectivenessTracker,
    ScriptedLLM,
    Turn,
    answer,
    call,
    calls,
    forever,
    say,
)
from reactive_agents.testing.core import START
from tests.support.fakes import stand_in

pytestmark = pytest.mark.anyio


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def broken(a: int) -> int:
    """Always fails."""
    raise ValueError("no")


def result_of(
    progress: Progress, output: str | None, services: StrategyServices, *, ended_by: str = "final_answer"
) -> ReasoningResult:
    return reasoning_result(
        "critic",
        begin_measure(services),
        services,
        steps=progress.steps,
        output=output,
        status="completed",
        iterations=progress.iterations,
        terminated_by=ended_by,
        reason="Done.",
        results=progress.tool_results,
    )


@effect
async def critic(
    strategy_input: StrategyInput, services: StrategyServices
) -> Result[ReasoningResult, ReasoningErrors]:
    """Two passes with a critique between them."""
    progress, output = begin_progress(strategy_input, services), ""
    for number in (1, 2):
        each = Pass("critic:write", f"p{number}.", strategy_input.task_description, 3)
        ran = await attempt(run_pass(each, progress, "critic", strategy_input, services))
        if isinstance(ran, Failure):
            return Failure(ran.failure())
        progress, output = progress.after(ran.unwrap()), ran.unwrap().output or output
        if limit_reached(strategy_input, services) is not None:
            break
        doubt = StepMetadata(confidence=0.2)
        progress = note_step(
            progress,
            "critique",
            "Weak.",
            services,
            label="critic:critique",
            metadata=doubt,
        )
    return Success(result_of(progress, output, services))


def agent(
    *turns: Turn, strategy: str = "reactive", own: dict[str, Strategy] | None = None, **hooks: Any
) -> Any:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_tools(add, broken)
    for name, each in {"critic": critic, **(own or {})}.items():
        builder = builder.with_strategy(name, each)
    return builder.with_reasoning(strategy).with_controller(ReasoningController(**hooks)).build()


ADD = call("add", a=1, b=2)


@pytest.mark.parametrize("strategy", ["reactive", "adaptive", "direct", "critic"])
async def test_every_step_of_every_strategy_is_seen_once_and_in_order(strategy: str) -> None:
    during: list[ReasoningStep] = []
    after: list[ReasoningStep] = []
    turns = (ADD, say("three"), say("3"))
    built = agent(*turns, strategy=strategy, during_step=during.append, after_step=after.append)
    result = await built.run("What is 1 + 2?")
    assert during == after == list(result.steps)
    assert len(during) >= 3


async def test_hooks_may_be_async_and_change_what_is_recorded() -> None:
    async def louder(step: ReasoningStep) -> ReasoningStep:
        return evolve(step, content=step.content.upper())

    def marked(step: ReasoningStep) -> ReasoningStep:
        return evolve(step, content=f"{step.content}!")

    built = agent(ADD, say("three"), say("3"), strategy="critic", during_step=louder, after_step=marked)
    result = await built.run("What is 1 + 2?")
    contents = {step.type: step.content for step in result.steps}
    assert (contents["thought"], contents["critique"], contents["observation"]) == ("3!", "WEAK.!", "3!")
    assert result.output == "3"


async def test_the_input_can_be_changed_before_reasoning() -> None:
    llm = ScriptedLLM(say("3"))
    controller = ReasoningController(
        before_reasoning=lambda given: evolve(given, task_description="What is 2 + 3?")
    )
    built = ReactiveAgents.create().with_llm(llm).with_reasoning().with_controller(controller).build()
    await built.run("What is 1 + 2?")
    assert llm.requests[0].messages[-1].content == "What is 2 + 3?"


async def test_certain_steps_raise_no_signal() -> None:
    signals: list[UncertaintySignal] = []

    def never(signal: UncertaintySignal) -> Reaction:
        signals.append(signal)
        return "abort"

    result = await agent(ADD, say("3"), on_uncertainty=never).run("What is 1 + 2?")
    assert (result.status, signals) == ("completed", [])


async def test_going_on_after_a_signal_changes_nothing() -> None:
    signals: list[UncertaintySignal] = []

    async def go_on(signal: UncertaintySignal) -> Reaction:
        signals.append(signal)
        return "continue"

    turns = (call("broken", a=1), say("I am not sure, but a ValueError."))
    result = await agent(*turns, on_uncertainty=go_on).run("What is 1 + 2?")
    assert (result.status, result.output) == ("completed", "I am not sure, but a ValueError.")
    assert [(signal.confidence, signal.strategy) for signal in signals] == [
        (0.3, "reactive"),
        (0.4, "reactive"),
    ]
    assert signals[0].reason == "the tool broken failed"


async def test_an_abort_ends_the_run_as_partial_with_what_there_is() -> None:
    turns = forever(calls(call("broken", a=1), text="Trying."))
    result = await agent(turns, on_uncertainty=lambda _: "abort").run("What is 1 + 2?")
    assert (result.status, result.output) == ("partial", "Trying.")
    assert result.metadata.terminated_by == "controller"
    assert "the tool broken failed" in result.reason
    assert result.metadata.model_calls == 1


async def test_an_abort_between_passes_ends_the_whole_strategy() -> None:
    def after_the_critique(signal: UncertaintySignal) -> Reaction:
        return "abort" if signal.step.type == "critique" else "continue"

    built = agent(answer("draft"), answer("better"), strategy="critic", on_uncertainty=after_the_critique)
    result = await built.run("Write.")
    assert (result.status, result.output) == ("partial", "draft")
    assert (result.metadata.terminated_by, result.metadata.model_calls) == ("controller", 1)


async def test_an_abort_of_a_strategy_with_nothing_to_show_is_partial_too() -> None:
    @effect
    async def hopeless(
        strategy_input: StrategyInput, services: StrategyServices
    ) -> Result[ReasoningResult, ReasoningErrors]:
        await attempt(
            run_pass(
                Pass("x", "p.", "x", 2),
                begin_progress(strategy_input, services),
                "x",
                strategy_input,
                services,
            )
        )
        return Failure(ControllerError("x", "y"))

    built = agent(
        call("broken", a=1), strategy="hopeless", own={"hopeless": hopeless}, on_uncertainty=lambda _: "abort"
    )
    result = await built.run("Write.")
    assert (result.status, result.output, result.metadata.terminated_by) == ("partial", None, "controller")


async def test_an_escalation_hands_the_task_to_the_strategy_that_suits_it() -> None:
    built = agent(
        ADD,
        call("broken", a=1),
        own={"reflexion": stand_in("reflexion"), "tree-of-thought": stand_in("tree-of-thought")},
        on_uncertainty=lambda _: "escalate",
    )
    recorder = EventRecorder()
    built.subscribe(recorder)
    result = await built.run("Write an essay on bees.")
    assert (result.output, result.status) == ("by reflexion", "completed")
    assert (result.metadata.strategy_used, result.metadata.selected_strategy) == ("reflexion", "reflexion")
    assert "The controller escalated: the tool broken failed." in result.reason
    assert recorder.of(StrategySelected)[-1].strategy == "reflexion"
    observations = [step for step in result.steps if step.type == "observation"]
    assert observations[0].metadata is not None
    key = observations[0].metadata.result_key
    assert result.tool_results[key] == "3"


async def test_a_doubt_at_the_very_end_is_handed_on_too() -> None:
    def at_the_last(signal: UncertaintySignal) -> Reaction:
        return "escalate" if signal.step.type == "critique" else "continue"

    @effect
    async def brief(
        strategy_input: StrategyInput, services: StrategyServices
    ) -> Result[ReasoningResult, ReasoningErrors]:
        progress = note_step(
            begin_progress(strategy_input, services),
            "critique",
            "Weak.",
            services,
            label="brief:critique",
            metadata=StepMetadata(confidence=0.1),
        )
        return Success(evolve(result_of(progress, "draft", services), strategy="brief"))

    tracker = InMemoryEffectivenessTracker()
    built = agent(
        strategy="brief",
        own={"brief": brief, "reflexion": stand_in("reflexion")},
        on_uncertainty=at_the_last,
        on_adapt=lambda _: "brief",
    )
    built.container.memory.effectiveness.override(providers.Object(Some(tracker)))
    result = await built.run("Write an essay on bees.")
    assert (result.output, result.status) == ("by reflexion", "completed")
    assert [step.content for step in result.steps] == ["Weak."]
    rates = {strategy: known.success_rate for (strategy, _), known in tracker.known.items()}
    assert rates == {"brief": 0.0, "reflexion": 1.0}


async def test_the_controller_may_choose_the_strategy_that_follows() -> None:
    built = agent(
        call("broken", a=1),
        own={"reflexion": stand_in("reflexion"), "tree-of-thought": stand_in("tree-of-thought")},
        on_uncertainty=lambda _: "escalate",
        on_adapt=lambda _: "tree-of-thought",
    )
    assert (await built.run("Write an essay on bees.")).output == "by tree-of-thought"


async def test_a_second_escalation_and_one_without_another_strategy_are_partial() -> None:
    built = agent(
        call("broken", a=1),
        call("broken", a=2),
        strategy="adaptive",
        on_uncertainty=lambda _: "escalate",
        on_adapt=lambda given: "critic",
    )
    result = await built.run("What is 1 + 2?")
    assert (result.status, result.metadata.terminated_by) == ("partial", "controller")
    alone = ReactiveAgents.create().with_llm(ScriptedLLM(call("broken", a=1))).with_tools(broken)
    controller = ReasoningController(on_uncertainty=lambda _: "escalate")
    built = alone.with_reasoning().with_controller(controller).build()
    registry = built.container.reasoning.registry()
    for name in set(registry.names()) - {"reactive", "direct", "adaptive"}:
        del registry.strategies[name]
    result = await built.run("What is 1 + 2?")
    assert (result.status, result.metadata.terminated_by) == ("partial", "controller")
    assert "There is no other strategy." in result.reason


# --- controllers that fail ------------------------------------------------------------------------------


def explode(_: object) -> Any:
    raise KeyError("x")


@pytest.mark.parametrize(
    "hook", ["before_reasoning", "during_step", "after_step", "on_uncertainty", "on_adapt"]
)
@pytest.mark.parametrize("wrong", [explode, lambda _: 3])
async def test_a_controller_that_fails_ends_the_run_with_a_typed_error(hook: str, wrong: Any) -> None:
    strategy = "adaptive" if hook == "on_adapt" else "reactive"
    built = agent(call("broken", a=1), forever(say("I am not sure.")), strategy=strategy, **{hook: wrong})
    with pytest.raises(AgentError) as caught:
        await built.run("What is 1 + 2?")
    error = root_cause(caught.value.error)
    assert isinstance(error, ControllerError)
    assert error.hook == hook
    assert error.problem


async def test_a_step_may_not_become_another() -> None:
    built = agent(say("3"), after_step=lambda step: evolve(step, id=StepId("other")))
    with pytest.raises(AgentError, match="expected a ReasoningStep with the id"):
        await built.run("What is 1 + 2?")


def test_what_is_no_controller_is_refused_and_one_needs_reasoning() -> None:
    with pytest.raises(AgentError, match="a ReasoningController"):
        ReactiveAgents.create().with_controller(3).build()  # type: ignore[arg-type]
    builder = ReactiveAgents.create().with_llm(ScriptedLLM()).with_controller(ReasoningController())
    with pytest.raises(AgentError, match="with_reasoning"):
        builder.build()
    with pytest.raises(AgentError, match="to be serialised"):
        builder.with_reasoning().with_model("offline").with_controller(ReasoningController()).to_config()


# --- what counts as uncertain ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "content", "metadata", "confidence"),
    [
        ("thought", "The answer is 3.", None, None),
        ("thought", "I'm not sure about that.", None, 0.4),
        ("thought", "I cannot determine the year.", None, 0.4),
        ("observation", "I don't know", StepMetadata(success=True), None),
        ("observation", "boom", StepMetadata(success=False, tool_used="add"), 0.3),
        ("critique", "fine", StepMetadata(confidence=0.9), 0.9),
    ],
)
def test_the_confidence_of_a_step(kind: Any, content: str, metadata: Any, confidence: float | None) -> None:
    known = confidence_of(ReasoningStep(StepId("s"), kind, content, START, metadata))
    assert (known and known[0]) == confidence
