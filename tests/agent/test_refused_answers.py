"""Answers that were paid for and could not be used are in every account of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from dependency_injector import providers
from returns.maybe import Some

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.events import (
    FinalAnswerProduced,
    ModelCallAbandoned,
    ModelCallCompleted,
    TaskCompleted,
    TaskFailed,
)
from reactive_agents.core.tasks import TaskResult, TaskResultMetadata
from reactive_agents.core.usage import RunUsage, Usage, by_model
from reactive_agents.effects import attempt
from reactive_agents.testing import EventRecorder, InMemoryBudget, ScriptedLLM, say
from tests.support.openai_server import Answer, Call, OpenAIServer, Raw, refusal, sent_events
from tests.support.virtual_time import LoopClock, in_virtual_time

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("without_backoff")]

MODEL, OTHER = "openai/gpt-4o-mini", "openai/gpt-4o"
PRICE = {MODEL: (1.5e-7, 6e-7), OTHER: (2.5e-6, 1e-5)}
LOOK = Answer(calls=(Call("look", {"place": "the drawer"}),), usage=(100, 10))
FINAL = Answer(calls=(Call("final-answer", {"answer": "Nowhere."}),), usage=(200, 20))


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is empty"


def useless(read: int, written: int) -> Answer:
    return Answer(calls=(Call("", id="x"),), usage=(read, written))


def spent(read: int, written: int, *, calls: int = 0, model: str = MODEL) -> RunUsage:
    reading, writing = PRICE[model]
    usage = Usage(read, written, read + written)
    return RunUsage(model, usage, read * reading + written * writing, calls)


def asking(server: OpenAIServer, *fallbacks: str) -> ReactiveAgents:
    builder = ReactiveAgents.create().with_model(MODEL, api_key="k", base_url=server.base_url)
    return builder.with_fallbacks(*fallbacks).with_reasoning().with_tools(look)


def watched(agent: ReactiveAgent) -> EventRecorder:
    recorder = EventRecorder()
    agent.subscribe(recorder)
    return recorder


async def run(agent: ReactiveAgent, *, streaming: bool = False) -> TaskResult:
    if not streaming:
        return await agent.run("Where are the keys?")
    events = [event async for event in agent.stream("Where are the keys?")]
    (result,) = [event.result for event in events if isinstance(event, TaskCompleted)]
    return result


def assert_all_told(figures: TaskResultMetadata, recorder: EventRecorder, *expected: RunUsage) -> None:
    told = recorder.of(ModelCallCompleted) + recorder.of(ModelCallAbandoned)
    in_order = sorted(told, key=lambda event: event.sequence)
    assert by_model(each for event in in_order for each in event.spent) == figures.models
    assert [(each.model, each.usage, each.calls, each.unpriced_calls) for each in figures.models] == [
        (each.model, each.usage, each.calls, each.unpriced_calls) for each in expected
    ]
    assert [each.cost_usd for each in figures.models] == pytest.approx([each.cost_usd for each in expected])
    assert figures.usage == sum((each.usage for each in expected), Usage())
    assert figures.tokens_used == figures.usage.total_tokens
    assert figures.cost_usd == pytest.approx(sum(each.cost_usd for each in expected))
    assert figures.unpriced_calls == sum(each.unpriced_calls for each in expected)
    assert figures.model_calls == sum(each.calls for each in expected)


@pytest.mark.parametrize("streaming", [False, True])
async def test_an_answer_that_was_asked_for_again_is_in_all_totals(tmp_path: Path, streaming: bool) -> None:
    with OpenAIServer(useless(10, 1), LOOK, useless(20, 2), useless(30, 3), FINAL) as server:
        async with asking(server).with_cost(tmp_path / "cost.db", run_usd=1.0).build() as agent:
            recorder = watched(agent)
            result = await run(agent, streaming=streaming)
            budget = (await attempt(agent.container.governance.budget().unwrap().state())).unwrap()
        assert len(server.requests) == 5
    all_of_it = spent(360, 36, calls=2)
    assert (result.status, result.output) == ("completed", "Nowhere.")
    assert_all_told(result.metadata, recorder, all_of_it)
    assert recorder.of(FinalAnswerProduced)[0].total_tokens == 396
    assert budget.day_usd == pytest.approx(all_of_it.cost_usd)
    tracker = SqliteCostTracker(tmp_path / "cost.db", clock=SystemClock())
    (total,) = (await attempt(tracker.totals("model"))).unwrap()
    await tracker.aclose()
    assert (total.name, total.cost_usd) == (MODEL, pytest.approx(all_of_it.cost_usd))


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_model_that_was_given_up_is_on_the_list(streaming: bool) -> None:
    with OpenAIServer(*[useless(10, 1)] * 3, FINAL) as server:
        async with asking(server, OTHER).build() as agent:
            recorder = watched(agent)
            result = await run(agent, streaming=streaming)
    assert result.metadata.model == OTHER
    assert_all_told(result.metadata, recorder, spent(30, 3), spent(200, 20, calls=1, model=OTHER))


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_run_that_never_got_a_usable_answer_says_what_it_spent(streaming: bool) -> None:
    with OpenAIServer(LOOK, *[useless(10, 1)] * 3) as server:
        async with asking(server).build() as agent:
            recorder, budget = watched(agent), InMemoryBudget(run_usd=1.0)
            agent.container.governance.budget.override(providers.Object(Some(budget)))
            if streaming:
                assert [event async for event in agent.stream("Where are the keys?")]
            else:
                with pytest.raises(AgentError) as caught:
                    await agent.run("Where are the keys?")
                assert caught.value.metadata == recorder.of(TaskFailed)[0].metadata
    (failed,) = recorder.of(TaskFailed)
    assert_all_told(failed.metadata, recorder, spent(130, 13, calls=1))
    assert budget.spent_usd == pytest.approx(failed.metadata.cost_usd)


@pytest.mark.parametrize("cause", ["no JSON", "broken stream"])
async def test_what_nobody_reports_is_said_to_be_missing(cause: str) -> None:
    silent = Raw(200, "<html>") if cause == "no JSON" else sent_events(list(FINAL.pieces())[:1])
    streaming = cause == "broken stream"
    with OpenAIServer(silent, FINAL) as server:
        async with asking(server).with_context_profile(max_answer_tokens=100).build() as agent:
            recorder, budget = watched(agent), InMemoryBudget(run_usd=1.0)
            agent.container.governance.budget.override(providers.Object(Some(budget)))
            result = await run(agent, streaming=streaming)
    known = spent(200, 20, calls=1)
    usage = Usage(200, 20, 220, reported=False)
    assert_all_told(result.metadata, recorder, RunUsage(MODEL, usage, known.cost_usd, 1, 1))
    # of an attempt that nobody knows the price of, the most counts that it may have cost
    (reserved,) = budget.reserved
    assert budget.spent_usd == pytest.approx(reserved.amount_usd + known.cost_usd)


async def test_what_a_provider_refuses_leaves_the_totals_exact() -> None:
    with OpenAIServer(refusal(429), refusal(503), FINAL) as server:
        async with asking(server).build() as agent:
            recorder = watched(agent)
            result = await run(agent)
    assert_all_told(result.metadata, recorder, spent(200, 20, calls=1))


async def test_a_limit_on_tokens_sees_answers_that_could_not_be_used() -> None:
    with OpenAIServer(useless(500, 1), LOOK, FINAL) as server:
        async with asking(server).with_budget(tokens=600).build() as agent:
            result = await run(agent)
        assert len(server.requests) == 2
    assert (result.status, result.metadata.terminated_by) == ("partial", "budget")
    assert result.metadata.tokens_used == 611


@in_virtual_time
async def test_a_call_that_is_cut_off_may_have_cost_something() -> None:
    model = ScriptedLLM(say("never", delay=3_000))
    async with ReactiveAgents.create().with_llm(model).with_reasoning().with_timeout(300.0).build() as agent:
        agent.container.core.clock.override(providers.Object(LoopClock()))
        recorder = watched(agent)
        result = await run(agent)
    unknown = RunUsage("scripted/test", Usage(reported=False), unpriced_calls=1)
    assert_all_told(result.metadata, recorder, unknown)
