"""Asking a model for a value of a given shape."""

from __future__ import annotations

import pytest
from attrs import evolve, field, frozen
from attrs.validators import and_, ge, le
from returns.result import Failure, Success

from reactive_agents.adapters.llm.offline import OfflineLLM
from reactive_agents.core.config import ContextProfileOverrides, ContextTier
from reactive_agents.core.errors import ModelTimeout, ModelUnavailable, StructuredOutputError
from reactive_agents.core.events import ModelCallCompleted
from reactive_agents.core.requirements import BudgetConfig
from reactive_agents.effects import attempt
from reactive_agents.kernel import MeteredLLM, RunEvents
from reactive_agents.reasoning.structured_output import Question, ask_structured, shape_of
from reactive_agents.testing import fail, say
from tests.support.kernels import RUN, TASK, KernelBench, kernel_bench
from tests.support.strategies import strategy_input, strategy_services

pytestmark = pytest.mark.anyio


@frozen
class Score:
    """How good an answer is.

    Attributes:
        value: 0 for worthless, 1 for perfect.
    """

    value: float = field(validator=and_(ge(0.0), le(1.0)))
    reason: str = ""


question = Question(
    shape_of(Score, example=Score(0.5, "Half of it is right.")), "Score the answer.", "The answer: 4", "score"
)


async def ask(bench: KernelBench, **fields: object) -> object:
    asked = ask_structured(question, strategy_input(**fields), strategy_services(bench))
    return await attempt(asked)


async def test_a_value_comes_back_at_once() -> None:
    bench = kernel_bench(say('Here it is:\n```json\n{"value": "0.9", "reason": "right"}\n```'))
    answered = await ask(bench)
    assert isinstance(answered, Success)
    assert (answered.unwrap().value, answered.unwrap().attempts) == (Score(0.9, "right"), 1)
    (request,) = bench.llm.requests
    assert request.response_schema == question.shape.schema
    assert request.purpose == "score"
    assert "Score the answer." in request.messages[0].content
    assert request.messages[-1].content == "The answer: 4"
    assert [event.purpose for event in bench.recorder.of(ModelCallCompleted)] == ["score"]


async def test_a_wrong_reply_is_asked_for_again_with_the_exact_problem() -> None:
    bench = kernel_bench(say('{"value": 7}'), say("no idea"), say('{"value": 0.7}'))
    answered = await ask(bench)
    assert isinstance(answered, Success)
    assert (answered.unwrap().value, answered.unwrap().attempts) == (Score(0.7), 3)
    assert bench.sent(1)[-2].content == '{"value": 7}'
    assert "$.value: 'value' must be <= 1.0: 7.0" in bench.shown(1)
    assert "there is no whole JSON value in it" in bench.shown(2)
    assert len(bench.sent(2)) == len(bench.sent(1)), "only the last reply is shown again"


async def test_after_the_last_retry_it_fails_with_the_problems() -> None:
    bench = kernel_bench(say("a"), say("b"), say('{"value": "much"}'), say("not asked any more"))
    answered = await ask(bench)
    assert isinstance(answered, Failure)
    error = answered.failure()
    assert isinstance(error, StructuredOutputError)
    assert (error.purpose, error.attempts) == ("score", 3)
    assert [problem.path for problem in error.problems] == ["$.value"]
    assert bench.llm.remaining == 1


async def test_a_reply_that_was_cut_off_is_asked_for_shorter() -> None:
    bench = kernel_bench(say('{"value": 0.', finish_reason="length"), say('{"value": 0.5}'))
    assert isinstance(await ask(bench), Success)
    assert "cut off" in bench.shown(1)


async def test_a_model_that_fails_is_the_cause() -> None:
    bench = kernel_bench(say("no"), fail(ModelUnavailable("down", "m")))
    answered = await ask(bench)
    assert isinstance(answered, Failure)
    error = answered.failure()
    assert isinstance(error, StructuredOutputError)
    assert (error.attempts, error.cause) == (2, ModelUnavailable("down", "m"))


async def test_no_question_is_asked_after_the_deadline() -> None:
    bench = kernel_bench(say('{"value": 1}'))
    answered = await ask(bench, deadline=bench.clock.monotonic() - 1.0)
    assert isinstance(answered, Failure)
    error = answered.failure()
    assert isinstance(error, StructuredOutputError)
    assert isinstance(error.cause, ModelTimeout)
    assert bench.llm.requests == []


@pytest.mark.parametrize(
    ("tier", "has_example", "has_rules"),
    [("local", True, True), ("mid", True, True), ("large", False, False), ("frontier", False, False)],
)
async def test_small_models_are_told_more(tier: ContextTier, has_example: bool, has_rules: bool) -> None:
    bench = kernel_bench(say('{"value": 1}'))
    await ask(bench, context_profile=ContextProfileOverrides(tier=tier))
    told = bench.sent(0)[0].content
    assert '"maximum": 1.0' in told
    assert ("Half of it is right." in told) is has_example
    assert ("Write every field" in told) is has_rules


async def test_the_offline_model_gives_an_instance() -> None:
    bench = kernel_bench()
    services = strategy_services(bench)
    offline = MeteredLLM(OfflineLLM(), RunEvents(bench.bus, bench.clock, RUN, TASK), bench.clock)
    services = evolve(services, kernel=evolve(services.kernel, llm=offline), meter=offline)
    answered = await attempt(ask_structured(question, strategy_input(), services))
    assert isinstance(answered, Success)


async def test_a_spent_budget_allows_no_further_attempt() -> None:
    bench = kernel_bench(say("no JSON"), say('{"value": 1}'))
    asked = ask_structured(question, strategy_input(budget=BudgetConfig(tokens=15)), strategy_services(bench))
    error = (await attempt(asked)).failure()
    assert (error.attempts, bench.llm.remaining) == (1, 1)
