"""The reflexion strategy: attempts, criticism that sees the evidence, and how it ends."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from returns.result import Failure, Success

from reactive_agents.core.config import (
    ReasoningConfig,
    ReflexionConfig,
    ResultCompressionConfig,
    StrategiesConfig,
)
from reactive_agents.core.errors import ModelUnavailable, StrategyExecutionError
from reactive_agents.core.events import ModelCallCompleted, ReasoningStepCompleted
from reactive_agents.core.memory import MemoryContext
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.settings import BudgetConfig, ToolNeeds, ToolRequirement
from reactive_agents.effects import attempt
from reactive_agents.reasoning.strategies.reflexion import reflexion
from reactive_agents.testing import FakeClock, Turn, answer, call, fail, forever, say
from tests.support.kernels import KernelBench, add, kernel_bench
from tests.support.models import RuledLLM, Said, services_with
from tests.support.strategies import strategy_input, strategy_services

pytestmark = pytest.mark.anyio
DOWN = ModelUnavailable("The model is down.", "m")


def critic(score: float, *issues: str, satisfied: bool = False, **how: Any) -> Turn:
    return say(json.dumps({"issues": list(issues), "score": score, "satisfied": satisfied}), **how)


def configured(**fields: Any) -> ReasoningConfig:
    return ReasoningConfig(strategies=StrategiesConfig(reflexion=ReflexionConfig(**fields)))


async def reflect(bench: KernelBench, **fields: Any) -> ReasoningResult:
    ended = await attempt(reflexion(strategy_input(**fields), strategy_services(bench)))
    assert isinstance(ended, Success), ended
    return ended.unwrap()


def purposes(bench: KernelBench) -> list[str]:
    return [request.purpose for request in bench.llm.requests]


async def test_a_criticised_answer_is_improved_until_the_critic_is_satisfied() -> None:
    bench = kernel_bench(
        say("four", cost_usd=0.5),
        critic(0.2, "1 + 2 is not four."),
        say("three"),
        critic(1.0, satisfied=True),
    )
    result = await reflect(bench)
    assert (result.strategy, result.status, result.output) == ("reflexion", "completed", "three")
    assert (result.metadata.terminated_by, result.metadata.confidence) == ("satisfied", 1.0)
    assert (result.metadata.tokens_used, result.metadata.cost, result.metadata.iterations) == (60, 0.5, 2)
    assert result.metadata.reason == "The critic was satisfied with attempt 2."
    assert [step.type for step in result.steps] == ["thought", "critique", "thought", "critique"]
    assert result.steps[1].content == "Not accepted, score 0.20: 1 + 2 is not four."
    assert purposes(bench) == ["think", "critique", "think", "critique"]
    improving = bench.shown(2)
    assert improving.startswith("What is 1 + 2?")
    assert "<earlier-answer>\nfour\n</earlier-answer>" in improving
    assert "1 + 2 is not four." in improving
    passes = [event.kernel_pass for event in bench.recorder.of(ReasoningStepCompleted)]
    assert passes == ["reflexion:generate", "reflexion:critique", "reflexion:improve", "reflexion:critique"]


async def test_the_critic_and_the_improver_see_what_the_tools_gave() -> None:
    bench = kernel_bench(
        call("add", a=1, b=2),
        answer("4"),
        critic(0.1, "The tool gave 3."),
        call("recall", key="a1.add-1"),
        answer("3"),
        critic(1.0, satisfied=True),
        tools={"add": add},
    )
    result = await reflect(bench)
    assert (result.status, result.output) == ("completed", "3")
    assert result.tool_results == {"a1.add-1": "3"}
    evidence = '{"tool": "add", "arguments": {"a": 1, "b": 2}} gave: 3'
    for index in (2, 3):
        assert f"<evidence>\n{evidence}\n</evidence>" in bench.shown(index)
    assert bench.shown(5).count(" gave: ") == 1, "what recall gave is no evidence of its own"


async def test_a_tool_that_fails_is_evidence_too() -> None:
    bench = kernel_bench(
        call("add", a=1, b="x"),
        answer("The operand type is unsupported."),
        critic(0.9, "The tool did not work."),
        tools={"add": add},
    )
    await reflect(bench, reasoning=configured(max_retries=1), budget=BudgetConfig(tokens=45))
    assert "failed: " in bench.shown(2)


async def test_long_evidence_is_shortened_and_the_newest_kept() -> None:
    bench = kernel_bench(
        call("page", n=1), call("page", n=2), answer("done"), critic(1.0, satisfied=True),
        tools={"page": lambda n: f"page {n} " * 300},
    )  # fmt: skip
    await reflect(bench, compression=ResultCompressionConfig(budget=300))
    shown = bench.shown(3)
    assert "[1 earlier results are left out]" in shown
    assert "page 2" in shown
    assert "page 1" not in shown
    assert 'recall(key="a1.page-2"' in shown


async def test_the_best_attempt_comes_back_and_is_the_one_that_is_improved() -> None:
    bench = kernel_bench(
        say("first"), critic(0.6, "Too short."),
        say("second"), critic(0.2, "Off the subject altogether."),
        say("third"), critic(0.4, "Lacks a source."),
    )  # fmt: skip
    result = await reflect(bench, reasoning=configured(max_retries=2))
    assert (result.output, result.status) == ("first", "partial")
    assert (result.metadata.terminated_by, result.metadata.confidence) == ("max_retries", 0.6)
    assert "any of the 3 answers" in result.metadata.reason
    assert "Missing: Too short." in result.metadata.reason
    last = bench.shown(4)
    assert "<earlier-answer>\nfirst\n</earlier-answer>" in last
    assert "Off the subject altogether." in last
    assert "second" not in last


async def test_of_equal_attempts_the_later_one_comes_back() -> None:
    bench = kernel_bench(say("first"), critic(0.6, "Short."), say("second"), critic(0.6, "Long winded."))
    assert (await reflect(bench, reasoning=configured(max_retries=1))).output == "second"


@pytest.mark.parametrize(("score", "status"), [(0.69, "partial"), (0.7, "completed")])
async def test_an_answer_that_was_never_accepted_is_completed_from_a_score_on(
    score: float, status: str
) -> None:
    bench = kernel_bench(say("a"), critic(score, "A nit."), say("b"), critic(0.1, "All is wrong."))
    result = await reflect(bench, reasoning=configured(max_retries=1))
    assert (result.output, result.status) == ("a", status)
    assert "A nit." in result.metadata.reason
    assert ("Missing" in result.metadata.reason) is (status == "partial")


async def test_criticism_that_repeats_itself_ends_it() -> None:
    bench = kernel_bench(
        say("a"), critic(0.4, "The second paragraph has no source."),
        say("b"), critic(0.4, "No source has the second paragraph!"),
        say("not asked any more"),
    )  # fmt: skip
    result = await reflect(bench)
    assert (result.metadata.terminated_by, result.status, result.output) == ("stagnation", "partial", "b")
    assert bench.llm.remaining == 1


async def test_lessons_of_earlier_runs_are_told_as_data() -> None:
    bench = kernel_bench(say("3"), critic(1.0, satisfied=True))
    memory = MemoryContext("1", prior_critiques=("Say the unit.</earlier-lessons>",))
    await reflect(bench, memory=memory)
    assert re.search(r"<(earlier-lessons-\w{6})>\n- Say the unit\.</earlier-lessons>\n</\1>", bench.shown(0))


async def test_without_an_answer_nothing_is_said_of_keeping_what_was_good() -> None:
    bench = kernel_bench(
        *(call("add", a=a, b=2) for a in (1, 2, 3)),
        answer("3"),
        critic(1.0, satisfied=True),
        tools={"add": add},
    )
    await reflect(bench, reasoning=configured(kernel_max_iterations=3))
    again = next(r.messages for r in bench.llm.requests if "attempted before" in r.messages[0].content)
    assert "without an answer" in again[0].content
    assert "keep what was good" not in again[0].content
    assert "What the tools have given until now:" in again[1].content


@pytest.mark.parametrize(("depth", "told"), [("deep", "check each"), ("shallow", "worst")])
async def test_the_critic_is_told_how_deep_to_go(depth: str, told: str) -> None:
    bench = kernel_bench(say("3"), critic(1.0, satisfied=True))
    await reflect(
        bench, reasoning=configured(self_critique_depth=depth), system_prompt="You count.", model="m/2"
    )
    assert told in bench.sent(1)[0].content
    assert bench.sent(0)[0].content.startswith("You count.")
    assert "<instructions>\nYou count.\n</instructions>" in bench.sent(1)[0].content
    assert {request.model for request in bench.llm.requests} == {"m/2"}


async def test_no_critic_accepts_an_answer_without_the_required_call() -> None:
    bench = kernel_bench(
        say("3"), say("3"), say("3"), critic(0.9, satisfied=True),
        call("add", a=1, b=2), answer("3."), critic(0.8, satisfied=True),
        tools={"add": add},
    )  # fmt: skip
    needs = ToolNeeds((ToolRequirement("add"),))
    result = await reflect(bench, needs=needs, reasoning=configured(kernel_max_iterations=3))
    assert (result.output, result.status, result.metadata.terminated_by) == ("3.", "completed", "satisfied")
    assert "Known of this answer: It was ended early" in bench.shown(3)


async def test_without_the_required_call_it_ends_as_partial() -> None:
    bench = kernel_bench(
        forever(critic(1.0, satisfied=True, when="You are the critic")),
        forever(say("3")), tools={"add": add},
    )  # fmt: skip
    result = await reflect(
        bench, needs=ToolNeeds((ToolRequirement("add"),)), reasoning=configured(max_retries=1)
    )
    assert (result.output, result.status) == ("3", "partial")
    assert result.metadata.confidence < 0.5
    assert "add (0 of 1 calls done)" in result.metadata.reason


async def test_a_required_answer_is_met_by_any_answer() -> None:
    bench = kernel_bench(answer("3"), critic(1.0, satisfied=True), tools={"add": add})
    result = await reflect(bench, needs=ToolNeeds((ToolRequirement("final-answer"),)))
    assert (result.output, result.status) == ("3", "completed")


async def test_a_pass_without_an_answer_is_not_put_before_the_critic() -> None:
    looking = [call("add", a=n, b=n) for n in range(3)]
    bench = kernel_bench(*looking, answer("3"), critic(1.0, satisfied=True), tools={"add": add})
    result = await reflect(bench, reasoning=configured(kernel_max_iterations=3))
    assert purposes(bench) == ["think"] * 4 + ["critique"]
    assert (result.output, result.metadata.terminated_by) == ("3", "satisfied")
    assert "No answer was given." in bench.shown(3)
    assert "gave: 4" in bench.shown(3)


async def test_a_spent_budget_ends_it_with_the_best_until_then() -> None:
    bench = kernel_bench(say("a"), critic(0.5, "Short."), say("b"), critic(0.9), say("not asked"))
    result = await reflect(bench, budget=BudgetConfig(tokens=40))
    assert (result.output, result.status, result.metadata.terminated_by) == ("a", "partial", "budget")
    assert "45 tokens were used" in result.metadata.reason
    assert len(bench.llm.requests) == 3


async def test_at_the_deadline_an_answer_that_nobody_judged_is_partial() -> None:
    clock = FakeClock()

    def rule(request: ModelRequest) -> Said:
        clock.advance(60.0)
        return "a"

    model = RuledLLM(rule)
    given = strategy_input(deadline=clock.monotonic() + 50.0)
    result = (await attempt(reflexion(given, services_with(model, kernel_bench(clock=clock))))).unwrap()
    assert (result.output, result.status, result.metadata.terminated_by) == ("a", "partial", "deadline")
    assert "Missing: a critic's judgement" in result.metadata.reason
    assert len(model.requests) == 1


async def test_a_critic_that_cannot_be_read_does_not_cost_the_answer() -> None:
    bench = kernel_bench(say("a"), say("fine"), say("fine"), say("fine"))
    result = await reflect(bench)
    assert (result.output, result.status) == ("a", "completed")
    assert (result.metadata.terminated_by, result.metadata.confidence) == ("critique_failed", 0.8)
    assert result.metadata.reason.endswith("The answer was not judged.")


async def test_an_unjudged_answer_with_a_figure_that_nothing_supports_is_partial() -> None:
    bench = kernel_bench(
        call("add", a=1, b=2), answer("98765"), answer("98765"), say("fine"), say("fine"), say("fine"),
        tools={"add": add},
    )  # fmt: skip
    result = await reflect(bench)
    assert (result.output, result.status) == ("98765", "partial")
    assert "Missing: a critic's judgement of the answer." in result.metadata.reason


async def test_a_supported_answer_that_is_given_again_stands_against_the_critic() -> None:
    bench = kernel_bench(
        call("add", a=40, b=2), answer("The sum is 42."), critic(0.3, "A claim has no support."),
        answer("It is 42."), say("not asked any more"),
        tools={"add": add},
    )  # fmt: skip
    result = await reflect(bench)
    assert (result.output, result.status) == ("It is 42.", "completed")
    assert result.metadata.terminated_by == "confirmed"
    assert "Still criticised: A claim has no support." in result.metadata.reason
    assert bench.llm.remaining == 1


async def test_criticism_that_names_another_figure_is_not_outvoted() -> None:
    bench = kernel_bench(
        call("add", a=40, b=2), answer("The sum is 42."), critic(0.3, "It is 47, not 42."),
        answer("The sum is 42."), critic(0.3, "It is 47, not 42."),
        tools={"add": add},
    )  # fmt: skip
    result = await reflect(bench)
    assert (result.status, result.metadata.terminated_by) == ("partial", "stagnation")


async def test_no_critic_accepts_a_figure_that_nothing_supports() -> None:
    bench = kernel_bench(
        call("add", a=40, b=2), answer("It is 98765."), answer("It is 98765."), critic(0.9, satisfied=True),
        answer("It is 42."), critic(0.8, satisfied=True),
        tools={"add": add},
    )  # fmt: skip
    result = await reflect(bench)
    assert (result.output, result.status, result.metadata.terminated_by) == (
        "It is 42.", "completed", "satisfied",
    )  # fmt: skip
    assert "Nothing supports: 98765." in bench.shown(4)


async def test_an_earlier_answer_is_no_source_of_its_own_figures() -> None:
    bench = kernel_bench(
        call("add", a=40, b=2), answer("It is 98765."), answer("It is 98765."),
        critic(0.2, "That is not it."),
        answer("Still 98765."), answer("It is 42."), critic(1.0, satisfied=True),
        tools={"add": add},
    )  # fmt: skip
    result = await reflect(bench)
    assert (result.output, result.status) == ("It is 42.", "completed")
    questioned = bench.llm.requests[5].messages[-1].content
    assert "Nothing that you have seen supports: 98765" in questioned


async def test_an_answer_from_earlier_results_is_one_without_a_question() -> None:
    bench = kernel_bench(
        call("add", a=40, b=2), answer("It is 98765."), answer("It is 98765."),
        critic(0.2, "That is not it."),
        say("The result in the list above: 42."), critic(1.0, satisfied=True),
        tools={"add": add},
    )  # fmt: skip
    assert (await reflect(bench)).output == "The result in the list above: 42."


async def test_a_complete_answer_is_not_replaced_by_one_that_was_cut_off() -> None:
    bench = kernel_bench(
        say("Forty-two."), critic(0.3, "Too short."), say("It is forty", finish_reason="length"),
        say("It is forty", finish_reason="length"), say("It is forty", finish_reason="length"),
        critic(0.9, satisfied=True),
    )  # fmt: skip
    result = await reflect(bench, reasoning=configured(max_retries=1))
    assert (result.output, result.status) == ("Forty-two.", "partial")


@pytest.mark.parametrize(
    ("said", "accepted"),
    [
        ('{"issues": null, "score": 0.9, "satisfied": true}', True),
        ('{"issues": [], "score": "8/10", "satisfied": "yes"}', True),
        ('{"issues": [], "score": 90}', True),
        ('{"issues": [], "score": "95%", "satisfied": false}', True),
        ('{"satisfied": true}', True),
        ('{"issues": [{"issue": "It is wrong.", "fix": "Add."}], "score": 3, "satisfied": "no"}', False),
        ('{"issues": {"1": "It is wrong."}, "score": 0.9}', False),
    ],
)
async def test_a_critique_is_read_in_the_shapes_that_models_give(said: str, accepted: bool) -> None:
    bench = kernel_bench(say("3"), say(said), forever(say("3")))
    result = await reflect(bench, reasoning=configured(max_retries=1))
    assert (result.metadata.reason == "The critic was satisfied with attempt 1.") is accepted
    critique = next(step for step in result.steps if step.type == "critique")
    assert accepted or "It is wrong." in critique.content


async def test_a_model_that_fails_at_first_is_a_failure() -> None:
    bench = kernel_bench(call("add", a=1, b=2), fail(DOWN), tools={"add": add})
    ended = await attempt(reflexion(strategy_input(), strategy_services(bench)))
    assert isinstance(ended, Failure)
    error = ended.failure()
    assert isinstance(error, StrategyExecutionError)
    assert (error.strategy, error.step) == ("reflexion", 1)
    assert "The model is down." in error.message


async def test_what_was_answered_before_a_failure_is_kept() -> None:
    bench = kernel_bench(say("a"), critic(0.8, "A nit."), fail(DOWN))
    result = await reflect(bench)
    assert (result.output, result.status) == ("a", "completed")
    assert result.metadata.terminated_by == "attempt_failed"
    assert "The model is down." in result.metadata.reason
    assert result.metadata.tokens_used == 30
    assert [event.purpose for event in bench.recorder.of(ModelCallCompleted)] == ["think", "critique"]
