"""Whatever a provider answers, the account is the sum of what was reported, and says what is missing."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import stamina
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from returns.maybe import Nothing, Some

from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.events import ModelCallAbandoned, ModelCallCompleted
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.usage import RunUsage, Usage, by_model
from reactive_agents.effects import attempt
from reactive_agents.kernel import MeteredLLM, RunBudget, RunEvents
from reactive_agents.testing import EventRecorder, FakeClock, InMemoryBudget, InMemoryEventBus
from tests.support.kernels import RUN, TASK
from tests.support.openai_server import Answer, Call, OpenAIServer, Raw, Reply, refusal
from tests.support.profiles import examples

MODEL, OTHER = "openai/gpt-4o-mini", "openai/gpt-4o"
PRICE = {MODEL: (1.5e-7, 6e-7), OTHER: (2.5e-6, 1e-5)}
REQUEST = ModelRequest((UserMessage("Go on."),), max_tokens=100)

counts = st.none() | st.tuples(st.integers(0, 999), st.integers(1, 99))
replies = st.one_of(
    st.builds(lambda usage: Answer("Fine.", usage=usage), counts),
    st.builds(lambda usage: Answer(calls=(Call("", id="x"),), usage=usage), counts),
    st.builds(lambda usage: Answer(choices=False, usage=usage), counts),
    st.sampled_from([Raw(200, "<html>"), refusal(429), refusal(500), refusal(400)]),
)


@frozen
class Script:
    """The answers of the provider, and how it is asked."""

    replies: list[Reply]
    streaming: bool
    max_attempts: int
    fallbacks: tuple[str, ...]


scripts = st.builds(
    Script,
    st.lists(replies, min_size=1, max_size=8),
    st.booleans(),
    st.integers(1, 3),
    st.sampled_from([(), (OTHER,)]),
)


async def play(script: Script) -> tuple[MeteredLLM, EventRecorder, InMemoryBudget, Sequence[str]]:
    """Ask until the script is used up; returns also which model was asked for each reply."""
    bus, recorder, clock = InMemoryEventBus(), EventRecorder(), FakeClock()
    bus.subscribe(recorder)
    events, budget = RunEvents(bus, clock, RUN, TASK), InMemoryBudget(run_usd=100.0)
    with OpenAIServer(*script.replies) as server, stamina.set_testing(True, attempts=9, cap=True):
        llm = LiteLLM(
            ModelConfig(
                model=MODEL,
                api_key="k",
                base_url=server.base_url,
                max_attempts=script.max_attempts,
                fallbacks=script.fallbacks,
                timeout_s=30.0,
            )
        )
        guard = RunBudget(budget, events, prices=Some(llm), counter=Nothing)
        meter = MeteredLLM(llm, events, clock, streaming=script.streaming, budget=guard)
        while len(server.requests) < len(script.replies):
            await attempt(meter.complete(REQUEST))
        await llm.aclose()
        models = [f"openai/{request.body['model']}" for request in server.requests]
    return meter, recorder, budget, models[: len(script.replies)]


def reported(model: str, reply: Reply) -> RunUsage | None:
    """Return the usage that a reply reports, or ``None`` when nothing is charged for it."""
    if isinstance(reply, Raw) and reply.status >= 400:
        return None
    answered = int(isinstance(reply, Answer) and reply.choices and not reply.calls)
    if isinstance(reply, Raw) or reply.usage is None:
        return RunUsage(model, Usage(reported=False), 0.0, answered, 1)
    (read, written), (reading, writing) = reply.usage, PRICE[model]
    return RunUsage(model, Usage(read, written, read + written), read * reading + written * writing, answered)


@examples(10)
@given(script=scripts)
def test_the_account_is_the_sum_of_what_was_reported(script: Script) -> None:
    meter, recorder, budget, models = anyio.run(play, script)
    expected = [reported(model, reply) for model, reply in zip(models, script.replies, strict=True)]
    charged = [each for each in expected if each is not None]
    assert rounded(meter.models) == rounded(by_model(charged))
    spending = meter.usage
    assert spending.usage == sum((each.usage for each in charged), Usage())
    assert spending.unpriced_calls == sum(each.unpriced_calls for each in charged)
    assert spending.calls == sum(each.calls for each in charged)
    told = sorted(
        (*recorder.of(ModelCallCompleted), *recorder.of(ModelCallAbandoned)), key=lambda each: each.sequence
    )
    assert by_model(each for event in told for each in event.spent) == meter.models
    most = max((each.amount_usd for each in budget.reserved), default=0.0)  # the same for each call
    assert abs(budget.spent_usd - spending.cost_usd - spending.unpriced_calls * most) < 1e-9


def rounded(models: Sequence[RunUsage]) -> list[tuple[str, Usage, int, int, int]]:
    """In billionths of a dollar, since sums of fractions depend on their order."""
    return [(m.model, m.usage, round(m.cost_usd * 1e9), m.calls, m.unpriced_calls) for m in models]
