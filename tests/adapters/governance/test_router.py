"""Model routing gives each task the cheapest model that is up to it, and says why."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from reactive_agents.adapters.governance.model_router import (
    ModelTier,
    TierRouter,
    choose_tier,
    needed_capabilities,
)
from reactive_agents.core.governance import RouteNeeds
from reactive_agents.core.ids import AgentId, TaskId
from reactive_agents.core.tasks import Task, estimated_tokens, task_complexity
from reactive_agents.effects import attempt
from reactive_agents.ports import CostRouter
from reactive_agents.testing.core import START

pytestmark = pytest.mark.anyio

SMALL = ModelTier("small", 0.3, 8_000)
EYES = ModelTier("eyes", 0.5, 32_000, frozenset({"vision"}))
LARGE = ModelTier("large", 0.9, 200_000, frozenset({"vision", "audio"}))
LADDER = (SMALL, EYES, LARGE)

EASY = "What is the capital of France?"
HARD = """Design and implement a migration of our database, and analyse the trade-offs.
1. Compare at least three tools; each must run without a service.
2. Then evaluate every one of them: why is it slow, and where?
3. Finally, prove that exactly one of them must be chosen, unless none should be.
```sql
SELECT name FROM tools;
```
"""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def task(text: str) -> Task:
    return Task(TaskId("t"), AgentId("a"), text, START)


def needs_of(given: Task, *capabilities: str) -> RouteNeeds:
    return RouteNeeds(len(given.input.encode()), frozenset(capabilities))


async def chosen(text: str, **details: object) -> str:
    router: CostRouter = TierRouter(LADDER)
    given = evolve(task(text), details=details)
    return (await attempt(router.select_model(given, needs_of(given)))).unwrap().model


async def test_an_easy_task_gets_the_lowest_rung() -> None:
    route = (await attempt(TierRouter(LADDER).select_model(task(EASY), needs_of(task(EASY))))).unwrap()
    assert route.model == "small"
    assert route.reason == (
        "the cheapest that is able and trusted up to 0.30 (complexity 0.04, about 4107 tokens)"
    )


async def test_a_hard_task_climbs() -> None:
    assert await chosen(HARD) == "large"


async def test_a_task_that_does_not_fit_climbs() -> None:
    assert await chosen("word " * 4_000) == "eyes"


async def test_a_task_that_needs_a_capability_climbs() -> None:
    assert await chosen(EASY, capabilities=["vision"]) == "eyes"
    assert await chosen(EASY, capabilities=["audio", "vision"]) == "large"


async def test_all_that_the_first_request_holds_must_fit() -> None:
    needs = RouteNeeds(3 * 10_000)
    route = (await attempt(TierRouter(LADDER).select_model(task(EASY), needs))).unwrap()
    assert route.model == "eyes"


async def test_what_the_run_needs_counts_where_a_tier_names_it() -> None:
    needs = needs_of(task(EASY), "tools")
    silent = (await attempt(TierRouter(LADDER).select_model(task(EASY), needs))).unwrap()
    assert silent.model == "small"
    tiers = (*LADDER, ModelTier("handy", capabilities=frozenset({"tools"})))
    spoken = (await attempt(TierRouter(tiers).select_model(task(EASY), needs))).unwrap()
    assert spoken.model == "handy"
    assert "needs tools" in spoken.reason


async def test_a_task_that_is_too_hard_for_all_gets_the_last_that_is_able() -> None:
    router = TierRouter(LADDER, complexity=lambda _: 1.0, needs=lambda _: frozenset({"vision"}))
    route = (await attempt(router.select_model(task(EASY), needs_of(task(EASY))))).unwrap()
    assert route.model == "large"
    assert route.reason == (
        "the last tier that is able, since none is trusted with so hard a task "
        "(complexity 1.00, about 4107 tokens, needs vision)"
    )


async def test_a_task_that_no_rung_is_able_to_do_is_a_failure() -> None:
    router = TierRouter((SMALL, evolve(EYES, context_tokens=4_000)), needs=lambda _: frozenset({"vision"}))
    failed = (await attempt(router.select_model(task(EASY), needs_of(task(EASY))))).failure()
    assert failed.message == (
        "No model tier is able to do the task: small lacks vision; "
        "eyes has a window of 4000 tokens, and 4107 are needed."
    )
    assert (failed.service, failed.operation) == ("cost-router", "select-model")


def test_needs_are_the_strings_of_the_details() -> None:
    assert needed_capabilities(evolve(task(EASY), details={"capabilities": ["a", 1, "b"]})) == {"a", "b"}
    assert needed_capabilities(evolve(task(EASY), details={"capabilities": "vision"})) == {"vision"}
    assert needed_capabilities(task(EASY)) == frozenset()


def test_routing_needs_a_tier() -> None:
    with pytest.raises(ValueError, match="expected one or more"):
        TierRouter(())
    with pytest.raises(ValueError, match="max_complexity"):
        ModelTier("small", 1.5)
    with pytest.raises(ValueError, match="capabilities"):
        ModelTier("small", capabilities="tools")


def test_complexity_grows_with_what_is_asked() -> None:
    assert task_complexity(task("Hello!")) < 0.05
    assert task_complexity(task(EASY)) < task_complexity(task("Compare the capitals of France and Spain."))
    assert task_complexity(task(HARD)) > 0.7
    assert task_complexity(evolve(task("Hello!"), priority="critical")) == 0.5
    assert estimated_tokens(0) == 1


@given(st.text(), st.text())
def test_complexity_is_a_fraction_and_more_text_is_never_easier(first: str, second: str) -> None:
    both = task_complexity(task(f"{first}\n\n{second}"))
    assert 0 <= task_complexity(task(first)) <= 1
    assert both >= task_complexity(task(first)) - 0.001


tiers = st.builds(
    ModelTier,
    st.sampled_from("abcdef"),
    st.floats(0, 1),
    st.none() | st.integers(1, 1_000),
    st.frozensets(st.sampled_from("xyz")),
)


@given(
    st.lists(tiers, min_size=1, max_size=6),
    st.floats(0, 1),
    st.integers(1, 1_000),
    st.frozensets(st.sampled_from("xyz")),
)
def test_the_choice_is_able_and_no_cheaper_one_would_do(
    tiers: list[ModelTier], complexity: float, tokens: int, needs: frozenset[str]
) -> None:
    able = [
        tier
        for tier in tiers
        if needs <= tier.capabilities and (tier.context_tokens is None or tokens <= tier.context_tokens)
    ]
    trusted = [tier for tier in able if complexity <= tier.max_complexity]
    match choose_tier(tiers, complexity=complexity, tokens=tokens, needs=needs):
        case Success(route):
            assert route.model == (trusted[0] if trusted else able[-1]).model
        case Failure():
            assert not able
