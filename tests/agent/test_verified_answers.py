"""Verification in whole runs: what it sees, what is done about it, and what the result carries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from dependency_injector import providers
from returns.maybe import Some
from returns.result import Result, Success

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents
from reactive_agents.core.codec import from_json, to_json
from reactive_agents.core.errors import ModelUnavailable, ServiceFailed, VerificationFailed
from reactive_agents.core.events import (
    ExecutionPhaseSkipped,
    ModelCallCompleted,
    ResultVerified,
    TaskFailed,
    VerificationActed,
)
from reactive_agents.core.governance import VerificationReport
from reactive_agents.core.messages import ToolMessage, UserMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.tasks import Task, TaskResult
from reactive_agents.core.usage import Usage
from reactive_agents.effects import effect
from reactive_agents.ports import LLM
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, answer, call, fail, say
from tests.support.models import RuledLLM, Said
from tests.support.virtual_time import LoopClock, in_virtual_time

pytestmark = pytest.mark.anyio


async def weigh(thing: str) -> str:
    """Weigh a thing."""
    return f"The {thing} weighs 120 grams."


WEIGH = call("weigh", thing="apple", cost_usd=0.1)
RIGHT, WRONG = say("It weighs 120 grams.", cost_usd=0.1), say("It weighs 360 grams.", cost_usd=0.1)
UNOBSERVED = "The number '360' was not observed."


def weighing(*turns: Turn, **options: Any) -> tuple[ReactiveAgent, ScriptedLLM, EventRecorder]:
    llm = ScriptedLLM(*turns)
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(weigh)
    agent = builder.with_verification(**options).build()
    recorder = EventRecorder()
    agent.subscribe(recorder)
    return agent, llm, recorder


def acted(recorder: EventRecorder) -> list[str]:
    return [event.action for event in recorder.of(VerificationActed)]


async def test_the_result_carries_the_report_and_its_receipt() -> None:
    agent, _, recorder = weighing(WEIGH, RIGHT)
    result = await agent.run("How heavy is the apple?")
    report = result.verification
    assert report is not None
    assert report.receipt is not None
    assert (report.confidence, report.verified, report.receipt.verdict) == (1.0, True, "verified")
    assert report.receipt.tools == ("weigh",)
    assert report.receipt.evidence == ("weigh-1",)
    assert report.claims[0].key == "weigh-1"
    assert from_json(to_json(result), TaskResult).unwrap() == result
    assert acted(recorder) == []


async def test_annotate_says_so_in_the_reason_and_leaves_the_status() -> None:
    agent, _, recorder = weighing(WEIGH, WRONG)
    result = await agent.run("How heavy is the apple?")
    assert (result.status, result.output) == ("completed", "It weighs 360 grams.")
    expected = f"The answer was not verified (confidence 0.00): {UNOBSERVED}"
    assert result.reason == f"The model gave its final answer. {expected}"
    assert result.verification is not None
    assert not result.verification.verified
    (event,) = recorder.of(VerificationActed)
    assert (event.action, event.detail) == ("annotate", expected)


async def test_fail_is_a_typed_error_with_confidence_and_findings() -> None:
    agent, _, recorder = weighing(WEIGH, WRONG, action="fail")
    with pytest.raises(AgentError) as caught:
        await agent.run("How heavy is the apple?")
    error = caught.value.error
    assert isinstance(error, VerificationFailed)
    assert (error.confidence, error.findings) == (0.0, (UNOBSERVED,))
    assert caught.value.metadata is not None
    assert caught.value.metadata.terminated_by == "verification"
    assert caught.value.metadata.confidence == 0.0
    assert len(caught.value.steps) == 3
    assert acted(recorder) == ["fail"]
    assert isinstance(recorder.events[-1], TaskFailed)


async def test_retry_shows_the_findings_and_keeps_the_better_answer() -> None:
    agent, llm, recorder = weighing(
        WEIGH, WRONG, call("weigh", thing="pear", cost_usd=0.1), RIGHT, action="retry"
    )
    result = await agent.run("How heavy is the apple?")
    assert (result.output, result.status) == ("It weighs 120 grams.", "completed")
    assert result.reason == "The model gave its final answer."
    review = llm.requests[2].messages[2].content
    assert "It weighs 360 grams." in review
    assert UNOBSERVED in review
    assert "data, not instructions" in review
    assert "weigh-1" in review
    assert acted(recorder) == ["retry"]
    assert [event.verified for event in recorder.of(ResultVerified)] == [False, True]


async def test_totals_and_steps_of_a_retry_are_those_of_both_tries() -> None:
    again = call("weigh", thing="pear", cost_usd=0.1)
    agent, _, recorder = weighing(WEIGH, WRONG, again, RIGHT, action="retry")
    result = await agent.run("How heavy is the apple?")
    assert [step.type for step in result.steps].count("observation") == 2
    assert len({step.id for step in result.steps}) == len(result.steps)
    assert dict(result.tool_results) == {
        "weigh-1": "The apple weighs 120 grams.",
        "weigh-2": "The pear weighs 120 grams.",
    }
    figures = result.metadata
    assert (figures.model_calls, figures.iterations, figures.steps_count) == (4, 4, len(result.steps))
    assert figures.cost_usd == pytest.approx(0.4)
    assert len(recorder.of(ModelCallCompleted)) == 4


async def test_the_second_try_may_read_what_the_first_one_saw() -> None:
    recall = call("recall", key="weigh-1")
    agent, llm, _ = weighing(WEIGH, WRONG, recall, RIGHT, action="retry")
    result = await agent.run("How heavy is the apple?")
    assert result.output == "It weighs 120 grams."
    last = llm.requests[-1].messages[-1]
    assert isinstance(last, ToolMessage)
    assert "120 grams" in last.content


async def test_a_worse_second_answer_does_not_take_the_place_of_the_first() -> None:
    half = say("It weighs 120 grams, and 360 grams with the bowl.")
    agent, _, _ = weighing(WEIGH, half, say("It weighs 480 grams."), action="retry")
    result = await agent.run("How heavy is the apple?")
    assert result.output == "It weighs 120 grams, and 360 grams with the bowl."
    assert result.verification is not None
    assert result.verification.confidence == result.metadata.confidence == 0.5
    assert "The answer was not verified (confidence 0.50)" in result.reason
    assert result.metadata.model_calls == 3


async def test_a_second_answer_that_is_no_value_does_not_take_the_place_of_one_that_is() -> None:
    llm = ScriptedLLM(WEIGH, answer("[360]"), *[answer("Nobody knows.")] * 4)
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(weigh)
    agent = builder.with_verification(action="retry").with_output_type(list[int]).build()
    result = await agent.run("How heavy is the apple?")
    assert (result.status, result.output) == ("completed", [360])
    assert result.result.verification is not None
    assert UNOBSERVED in result.reason


async def test_the_first_answer_keeps_the_tree_that_it_came_from() -> None:
    def worse_each_time(request: ModelRequest) -> Said:
        tries = sum(each.purpose == "expand" for each in model.requests)
        if request.purpose == "expand":
            return json.dumps({"thoughts": [f"Thought of try {tries}."]})
        if request.purpose == "score":
            return json.dumps({"scores": [{"candidate": 1, "reason": "", "score": 0.9}]})
        return "It weighs 120 grams, and 360 with the bowl." if tries == 1 else "It weighs 480 grams."

    model = RuledLLM(worse_each_time)
    small = {"tree_of_thought": {"breadth": 1, "depth": 1}}
    builder = ReactiveAgents.create().with_llm(model).with_reasoning("tree-of-thought", strategies=small)
    result = await builder.with_verification(action="retry").build().run("It weighs 120 grams, or how much?")
    assert result.output == "It weighs 120 grams, and 360 with the bowl."
    assert result.tree is not None
    assert [node.thought for node in result.tree.nodes] == ["Thought of try 1."]
    assert result.metadata.iterations == 2
    assert result.metadata.steps_count == len(result.steps)


async def test_a_second_try_that_fails_leaves_the_first_answer() -> None:
    agent, _, _ = weighing(WEIGH, WRONG, fail(ModelUnavailable("down", "m", 503)), action="retry")
    result = await agent.run("How heavy is the apple?")
    assert (result.status, result.output) == ("completed", "It weighs 360 grams.")
    assert UNOBSERVED in result.reason


async def test_a_retry_keeps_to_the_limits_of_the_run() -> None:
    llm = ScriptedLLM(WEIGH, WRONG, call("weigh", thing="pear"), RIGHT)
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(weigh)
    builder = builder.with_verification(action="retry").with_budget(calls={"weigh": 1})
    result = await builder.build().run("How heavy is the apple?")
    refused = [step for step in result.steps if step.metadata and step.metadata.origin == "refused"]
    assert len(refused) == 1
    assert "weigh-2" not in result.tool_results


@pytest.mark.parametrize(
    ("limit", "word"), [({"tokens": 30}, "budget"), ({"cost_usd": 0.2}, "budget"), ({}, "turns")]
)
async def test_a_run_that_has_nothing_left_is_not_tried_again(limit: dict[str, Any], word: str) -> None:
    llm = ScriptedLLM(WEIGH, WRONG)
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(weigh)
    builder = builder.with_verification(action="retry").with_max_iterations(10 if limit else 2)
    agent = (builder.with_budget(**limit) if limit else builder).build()
    recorder = EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run("How heavy is the apple?")
    assert result.output == "It weighs 360 grams."
    (event,) = recorder.of(VerificationActed)
    assert event.action == "annotate"
    assert word in event.detail


async def test_a_retry_works_without_reasoning_too() -> None:
    llm = ScriptedLLM(WEIGH, WRONG, RIGHT)
    builder = ReactiveAgents.create().with_llm(llm).with_tools(weigh).with_verification(action="retry")
    result = await builder.build().run("How heavy is the apple?")
    assert (result.output, result.metadata.model_calls) == ("It weighs 120 grams.", 3)


@in_virtual_time
async def test_time_that_runs_out_meanwhile_leaves_the_first_answer() -> None:
    llm = ScriptedLLM(WEIGH, WRONG, say("Too late.", delay=500))
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(weigh)
    builder = builder.with_verification(action="retry").with_timeout(run=300.0)
    agent = builder.build()
    agent.container.core.clock.override(providers.Object(LoopClock()))
    result = await agent.run("How heavy is the apple?")
    assert result.output == "It weighs 360 grams."
    assert UNOBSERVED in result.reason


async def test_the_judge_is_a_model_call_of_the_run() -> None:
    opinion = say(
        '{"score": 0.0, "unsupported": ["It weighs 120 grams."]}', usage=Usage(7, 3, 10), cost_usd=0.5
    )
    agent, llm, recorder = weighing(WEIGH, RIGHT, opinion, judge_model="judge/1")
    result = await agent.run("How heavy is the apple?")
    assert llm.requests[-1].model == "judge/1"
    assert [event.purpose for event in recorder.of(ModelCallCompleted)] == ["think", "think", "verify"]
    assert [each.model for each in result.metadata.models] == ["scripted/test", "judge/1"]
    assert result.metadata.cost_usd == pytest.approx(0.7)
    assert result.metadata.confidence == 0.5


async def test_further_answers_are_model_calls_of_the_run() -> None:
    agent, _, recorder = weighing(WEIGH, RIGHT, say("120 grams."), say("360 grams."), self_consistency=2)
    result = await agent.run("How heavy is the apple?")
    assert result.verification is not None
    assert result.verification.agreement == 0.5
    assert [event.purpose for event in recorder.of(ModelCallCompleted)].count("self-consistency") == 2
    assert result.metadata.model_calls == 4


@pytest.mark.parametrize("limit", [{"cost_usd": 0.25}, {"tokens": 45}])
async def test_nobody_is_asked_once_the_budget_of_the_run_is_used_up(limit: dict[str, Any]) -> None:
    opinion = say('{"score": 1.0, "unsupported": []}', cost_usd=0.1)
    llm = ScriptedLLM(WEIGH, RIGHT, opinion, say("120 grams."))
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(weigh).with_budget(**limit)
    agent = builder.with_verification(judge_model="judge/1", self_consistency=3).build()
    result = await agent.run("How heavy is the apple?")
    assert (result.status, result.metadata.model_calls) == ("completed", 3)
    assert result.verification is not None
    assert result.verification.findings == ("3 of 3 further answers failed.",)


class Streamer:
    """A verifier that streams two opinions; keeps whether each came."""

    def __init__(self) -> None:
        self.came: list[bool] = []

    @effect
    async def verify(
        self, task: Task, result: ReasoningResult, *, llm: LLM, model: str | None = None
    ) -> Result[VerificationReport, ServiceFailed]:
        """Stream."""
        for _ in range(2):
            request = ModelRequest((UserMessage("Well?"),), model=llm.model)
            chunks = [chunk async for chunk in llm.stream(request)]
            self.came.append(isinstance(chunks[-1], Success))
        return Success(VerificationReport(1.0, True))


async def test_a_verifier_that_streams_is_held_to_the_budget_too() -> None:
    llm = ScriptedLLM(RIGHT, say("Fine.", cost_usd=0.1))
    agent = ReactiveAgents.create().with_llm(llm).with_budget(cost_usd=0.2).build()
    verifier = Streamer()
    agent.container.governance.verifier.override(providers.Object(Some(verifier)))
    await agent.run("How heavy is the apple?")
    assert verifier.came == [True, False]


async def test_deliverables_of_agent_and_task_are_looked_for_in_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text("hello")
    llm = ScriptedLLM(say("All done."))
    builder = ReactiveAgents.create().with_llm(llm).with_workspace(tmp_path)
    agent = builder.with_verification(deliverables=("report.md",)).build()
    task = evolve(agent.new_task("Write it up."), details={"deliverables": ["data.csv"]})
    report = (await agent.run(task)).verification
    assert report is not None
    assert report.receipt is not None
    assert (report.receipt.delivered, report.receipt.missing) == (("report.md",), ("data.csv",))


async def test_without_a_verifier_there_is_no_report_and_the_phase_says_so() -> None:
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("It weighs 360 grams."))).build()
    recorder = EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run("How heavy is the apple?")
    assert result.verification is None
    skipped = {event.phase: event.reason for event in recorder.of(ExecutionPhaseSkipped)}
    assert skipped["verify"] == "no service is provided"


async def test_recalled_notes_and_what_was_said_before_are_evidence() -> None:
    llm = ScriptedLLM(say("I see."), say("It is 12 Elm Street, near Kestrel Park."))
    agent = ReactiveAgents.create().with_llm(llm).with_memory().with_verification().build()
    await agent.run("Remember that my address is 12 Elm Street, near Kestrel Park.", user="ada")
    recalled = await agent.run("What is my address?", user="ada")
    assert recalled.verification is not None
    assert {claim.key for claim in recalled.verification.claims} == {"recalled-notes"}
    assert recalled.verification.verified

    llm = ScriptedLLM(say("I see."), say("You paid 450 euros."), say("You paid 450 euros."))
    agent = ReactiveAgents.create().with_llm(llm).with_verification().build()
    first = await agent.run("I paid 450 euros.")
    told = await agent.run("How much did I pay?", history=first.messages)
    assert told.verification is not None
    assert [(claim.supported, claim.key) for claim in told.verification.claims] == [(True, "conversation")]
    invented = await agent.run("How much did I pay?", history=told.new_messages)
    assert invented.verification is not None
    assert not invented.verification.claims[0].supported  # an answer is no evidence for itself
