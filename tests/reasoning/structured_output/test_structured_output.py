"""Asking a model for a value of a given shape."""

from __future__ import annotations

from typing import Literal

import pytest
from attrs import evolve, field, frozen
from attrs.validators import and_, ge, le
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from reactive_agents.adapters.llm.offline import OfflineLLM
from reactive_agents.core.config import ContextProfileOverrides, ContextTier
from reactive_agents.core.errors import ModelTimeout, ModelUnavailable, StructuredOutputError
from reactive_agents.core.events import ModelCallCompleted
from reactive_agents.core.settings import BudgetConfig
from reactive_agents.effects import attempt
from reactive_agents.kernel import MeteredLLM, RunEvents
from reactive_agents.reasoning.structured_output.answer_parser import read_answer
from reactive_agents.reasoning.structured_output.question import Question, ask_structured
from reactive_agents.reasoning.structured_output.schema import shape_of
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


async def told(tier: ContextTier) -> str:
    bench = kernel_bench(say('{"value": 1}'))
    await ask(bench, context_profile=ContextProfileOverrides(tier=tier), system_prompt="Rhyme.")
    return bench.sent(0)[0].content


async def test_small_models_are_shown_an_example_and_large_ones_descriptions() -> None:
    for tier in ("local", "mid", "large", "frontier"):
        said, by_example = await told(tier), tier in ("local", "mid")
        assert '"maximum": 1.0' in said
        assert ("Half of it is right." in said) is by_example
        assert ("0 for worthless" in said) is not by_example


async def test_the_smaller_the_model_the_shorter_the_text() -> None:
    lengths = [len(await told(tier)) for tier in ("local", "mid", "large", "frontier")]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


@pytest.mark.parametrize("about_answer", [True, False])
async def test_the_instructions_of_the_user_never_lead_a_question(about_answer: bool) -> None:
    bench = kernel_bench(say('{"value": 1}'))
    asked = evolve(question, about_answer=about_answer)
    await attempt(ask_structured(asked, strategy_input(system_prompt="Rhyme."), strategy_services(bench)))
    system = bench.sent(0)[0].content
    assert system.startswith("Score the answer.")
    assert ("Rhyme." in system) is about_answer


# --- the forms in which models give a value -------------------------------------------------------------


@frozen
class Stop:
    """A place on a way."""

    place: str
    minutes: int = 0


@frozen
class Way:
    """A way.

    Attributes:
        stops: in their order.
    """

    stops: tuple[Stop, ...]


@frozen
class Wishes:
    """What somebody may want, all of it optional."""

    drink: str = ""
    food: str = ""


@frozen(kw_only=True)
class Colour:
    """A colour and why."""

    reason: str = ""
    name: Literal["red", "dark-blue"]


HOME = Way((Stop("home"), Stop("work", 5)))
STOPS = '[{"place": "home"}, {"place": "work", "minutes": 5}]'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (STOPS, HOME),
        (f"The stops:\n```json\n{STOPS}\n```", HOME),
        (f'{{"way": {{"stops": {STOPS}}}}}', HOME),
        (f'{{"way": {STOPS}}}', HOME),
        (f'{{"plan": {{"way": {{"stops": {STOPS}}}}}}}', HOME),
        (f'[{{"stops": {STOPS}}}]', HOME),
        ('{"stops": {"place": "home"}}', Way((Stop("home"),))),
        ('[{"place": "home"}]', Stop("home")),
        ('{"steps": [{"place": "home", "minutes": "3"}]}', Stop("home", 3)),
        ('{"stop": {"place": "home"}}', Stop("home")),
        ('{"wishes": {"drink": "tea"}}', Wishes("tea")),
        ('{"drink": "tea"}', Wishes("tea")),
        ('{"Place": "home", "MINUTES": "3"}', Stop("home", 3)),
        ('{"place": "home", "Place": "work"}', Stop("home")),
        ("red", Colour(name="red")),
        ('"Red."', Colour(name="red")),
        ("**dark-blue**", Colour(name="dark-blue")),
        ('{"reason": "sky", "name": "dark-blue"}', Colour(reason="sky", name="dark-blue")),
    ],
)
def test_a_value_is_read_in_the_forms_that_models_give(text: str, value: object) -> None:
    read = read_answer(text, shape_of(type(value)))
    assert read.unwrap() == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("As [a note] says, take the train.", Way),
        ("See [1] and [2].", Way),
        ('{"a": {"b": {"c": {"stops": []}}}}', Way),
        ('[{"place": "home"}, {"place": "work"}]', Stop),
        ("It should be red, I think.", Colour),
        ("green", Colour),
        ("home", Stop),
        ("[]", Stop),
        ('{"Place": "home", "PLACE": "work"}', Stop),
        ('First {"place": "home"} then {"place": "work"}', Stop),
        ('First {"stop": {"place": "home"}} then {"stop": {"place": "work"}}', Stop),
        ('```json\n{"place": "home"}\n```\nor\n```json\n{"place": "work"}\n```', Stop),
        ('First {"drink": "tea"} then {"drink": "milk"}', Wishes),
    ],
)
def test_other_texts_are_no_values(text: str, kind: type) -> None:
    assert isinstance(read_answer(text, shape_of(kind)), Failure)


@pytest.mark.parametrize(
    "text",
    [
        '{"place": "home", "minutes": 0} and again {"place": "home", "minutes": "0"}',
        'First {"place": "work"}, now\n```json\n{"place": "home"}\n```',
        'With {"minutes": 3} in mind: {"place": "home"}',
    ],
)
def test_objects_that_do_not_compete_are_one_value(text: str) -> None:
    assert read_answer(text, shape_of(Stop)).unwrap() == Stop("home")


def test_an_empty_list_does_not_compete_and_of_several_numbers_the_first_is_read() -> None:
    assert read_answer("Late: [3, 5]. Missed: [].", shape_of(list[int])).unwrap() == [3, 5]
    assert read_answer('First {"tries": 1}, then {"tries": 2}.', shape_of(int)).unwrap() == 1


def test_a_value_of_the_shape_goes_before_one_in_another_form() -> None:
    text = f'First I thought of {STOPS}. Now: {{"stops": [{{"place": "park"}}]}}'
    assert read_answer(text, shape_of(Way)).unwrap() == Way((Stop("park"),))


@given(
    st.text() | st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner)).map(str)
)
def test_no_text_breaks_the_reading(text: str) -> None:
    for kind in (Way, Stop, Wishes, Colour):
        read = read_answer(text, shape_of(kind))
        assert isinstance(read, Failure) or isinstance(read.unwrap(), kind)


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
