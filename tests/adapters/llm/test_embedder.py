"""Embeddings through litellm, from a real HTTP server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from returns.result import Failure, Success

from reactive_agents import ReactiveAgents
from reactive_agents.adapters.governance.budget import SqliteBudget
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.llm.embedder import LiteLLMEmbedder
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import AuthenticationFailed, MalformedResponse, ModelUnavailable
from reactive_agents.core.events import MemoryBootstrapped, MemoryFlushed, ModelCallCompleted
from reactive_agents.core.usage import USAGE_RECORDER, RunUsage, Usage
from reactive_agents.effects import attempt
from reactive_agents.ports import Embedder
from reactive_agents.testing import EventRecorder
from tests.support.embedders import toy_vector
from tests.support.openai_server import Answer, OpenAIServer, Raw, embeddings, refusal

pytestmark = pytest.mark.anyio

MODEL = "openai/text-embedding-3-small"
KEY = "test-key-123"
BUSY = refusal(503, headers={"retry-after": "0"})


def embedder(server: OpenAIServer, attempts: int = 3) -> LiteLLMEmbedder:
    config = ModelConfig(
        "openai", "gpt-4o-mini", api_key=KEY, base_url=server.base_url, max_attempts=attempts, timeout_s=5.0
    )
    return LiteLLMEmbedder(MODEL, config, clock=SystemClock())


async def test_each_text_gets_its_vector_with_the_key_of_the_agents_provider() -> None:
    with OpenAIServer(embeddings([1.0, 2.0], [3.0, 4.0])) as server:
        port: Embedder = embedder(server)
        assert port.model == MODEL
        assert await attempt(port.embed(("a", "b"))) == Success([[1.0, 2.0], [3.0, 4.0]])  # type: ignore[arg-type]
        await embedder(server).aclose()
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert (request.body["model"], request.body["input"]) == ("text-embedding-3-small", ["a", "b"])


async def test_halves_of_surrogate_pairs_are_joined_or_replaced() -> None:
    with OpenAIServer(embeddings([1.0])) as server:
        service = embedder(server)
        assert await attempt(service.embed(("\ud800 \ud83d\ude42",))) == Success([[1.0]])
        await service.aclose()
    assert server.requests[0].body["input"] == ["\ufffd 🙂"]


async def test_what_looks_passing_is_asked_again() -> None:
    with OpenAIServer(BUSY, embeddings([1.0])) as server:
        service = embedder(server)
        assert await attempt(service.embed(("a",))) == Success([[1.0]])
        await service.aclose()
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (refusal(401, f"wrong key {KEY}"), AuthenticationFailed),
        (BUSY, ModelUnavailable),
        (embeddings([1.0], [2.0]), MalformedResponse),
        (Raw(200, "so it goes"), MalformedResponse),
    ],
)
async def test_a_refusal_is_a_typed_error_without_the_key(reply: Raw, error: type) -> None:
    with OpenAIServer(reply) as server:
        service = embedder(server, attempts=1)
        match await attempt(service.embed(("a",))):
            case Failure(problem):
                assert isinstance(problem, error)
                assert KEY not in problem.message
            case other:
                raise AssertionError(other)
        await service.aclose()


@pytest.mark.usefixtures("without_backoff")
async def test_every_answer_is_entered_into_the_account_of_the_run_also_one_that_cannot_be_used() -> None:
    entered: list[tuple[RunUsage, str, float]] = []

    async def enter(parts: Sequence[RunUsage], *, purpose: str = "", duration_ms: float = 0.0) -> None:
        entered.extend((part, purpose, duration_ms) for part in parts)

    with OpenAIServer(embeddings([1.0], [2.0]), BUSY, embeddings([1.0])) as server:
        service = embedder(server)
        account = USAGE_RECORDER.set(enter)
        assert await attempt(service.embed(("a",))) == Success([[1.0]])
        USAGE_RECORDER.reset(account)
        await service.aclose()
    for part, purpose, duration_ms in entered:
        assert (purpose, part.model, part.usage, part.calls) == ("embedding", MODEL, Usage(5, 0, 5), 1)
        assert part.cost_usd == pytest.approx(5 * 2e-8)
        assert duration_ms > 0
    assert len(entered) == 2, "a refusal costs nothing"


async def test_the_key_goes_to_no_other_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    config = ModelConfig("openai", "gpt-4o-mini", api_key=KEY, base_url="http://127.0.0.1:1")
    service = LiteLLMEmbedder("mistral/mistral-embed", config, clock=SystemClock())
    match await attempt(service.embed(("a",))):
        case Failure(AuthenticationFailed(message, _, missing)):
            assert (missing, KEY in message) == ("MISTRAL_API_KEY", False)
        case other:
            raise AssertionError(other)


def test_on_trio_it_says_that_it_cannot_be_asked() -> None:
    service = LiteLLMEmbedder(MODEL, ModelConfig(), clock=SystemClock())

    async def main() -> object:
        found = await attempt(service.embed(("a",)))
        await service.aclose()
        return found

    match anyio.run(main, backend="trio"):
        case Failure(ModelUnavailable(message, _)):
            assert "trio" in message
        case other:
            raise AssertionError(other)


async def test_an_agent_with_an_embedding_model_remembers_by_meaning(tmp_path: Path) -> None:
    builder = ReactiveAgents.create().with_memory(tmp_path / "m.db", tier="2", embedding_model=MODEL)
    answers = Answer("Ann owns 1 automobile."), Answer("One.")
    with OpenAIServer(*answers, embed=toy_vector) as server:
        builder = builder.with_model("openai/gpt-4o-mini", api_key=KEY, base_url=server.base_url)
        recorder = EventRecorder()
        async with builder.build() as agent:
            agent.subscribe(recorder)
            await agent.run("What belongs to Ann?")
            await agent.run("How many cars? I mean: car.")
        asked = [each for each in server.requests if each.path.endswith("completions")]
    assert "Ann owns 1 automobile." in str(asked[1].body["messages"])
    assert [event.tier for event in recorder.of(MemoryBootstrapped)] == ["2", "2"]
    assert [event.problem for event in recorder.of(MemoryFlushed)] == ["", ""]


async def test_a_run_goes_on_without_the_provider_of_embeddings_and_says_so(tmp_path: Path) -> None:
    builder = ReactiveAgents.create().with_memory(tmp_path / "m.db", tier="2", embedding_model=MODEL)
    with OpenAIServer(refusal(401), Answer("Done."), refusal(401)) as server:
        builder = builder.with_model("openai/gpt-4o-mini", api_key=KEY, base_url=server.base_url)
        recorder = EventRecorder()
        async with builder.build() as agent:
            agent.subscribe(recorder)
            assert (await agent.run("Anything.")).status == "completed"
    (begun,), (ended,) = recorder.of(MemoryBootstrapped), recorder.of(MemoryFlushed)
    assert begun.tier == "1"
    assert "refused the key" in begun.problem
    assert "refused the key" in ended.problem


async def test_what_embeddings_cost_is_in_the_account_of_the_run(tmp_path: Path) -> None:
    builder = ReactiveAgents.create().with_memory(tmp_path / "m.db", tier="2", embedding_model=MODEL)
    builder = builder.with_cost(tmp_path / "cost.db", daily_usd=1.0)
    with OpenAIServer(Answer("Ann owns 1 automobile."), embed=toy_vector) as server:
        builder = builder.with_model("openai/gpt-4o-mini", api_key=KEY, base_url=server.base_url)
        recorder = EventRecorder()
        async with builder.build() as agent:
            agent.subscribe(recorder)
            figures = (await agent.run("What belongs to Ann?")).metadata
            guard: SqliteBudget = agent.container.governance.budget().unwrap()
            day_usd = (await attempt(guard.state())).unwrap().day_usd
            tracker: SqliteCostTracker = agent.container.governance.cost_tracker().unwrap()
            totals = (await attempt(tracker.totals("model"))).unwrap()
    asked = sum(request.path.endswith("/embeddings") for request in server.requests)
    assert asked == 2, "of the task, and of what is kept"
    told = recorder.of(ModelCallCompleted)
    assert [event.purpose for event in told] == ["embedding", "think", "embedding"]
    embedded, answered = figures.models
    assert (answered.model, answered.usage.total_tokens) == ("openai/gpt-4o-mini", 18)
    assert (embedded.model, embedded.usage, embedded.calls) == (MODEL, Usage(10, 0, 10), 2)
    assert embedded.cost_usd == pytest.approx(10 * 2e-8)
    assert figures.model == "openai/gpt-4o-mini"
    assert (figures.model_calls, figures.tokens_used, figures.unpriced_calls) == (3, 28, 0)
    assert figures.cost_usd == pytest.approx(sum(event.cost_usd or 0.0 for event in told))
    assert {each.name: each.usage.total_tokens for each in totals} == {"openai/gpt-4o-mini": 18, MODEL: 10}
    assert day_usd == pytest.approx(figures.cost_usd)


async def test_tokens_of_embeddings_count_for_the_budget_of_the_run() -> None:
    builder = ReactiveAgents.create().with_memory(":memory:", tier="2", embedding_model=MODEL)
    with OpenAIServer(Answer("Too late."), embed=toy_vector) as server:
        builder = builder.with_model("openai/gpt-4o-mini", api_key=KEY, base_url=server.base_url)
        async with builder.with_budget(tokens=5).build() as agent:
            result = await agent.run("What belongs to Ann?")
    assert (result.status, result.metadata.terminated_by) == ("partial", "budget")
    assert {request.path for request in server.requests} == {"/v1/embeddings"}
