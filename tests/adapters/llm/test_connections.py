"""Connections are reused, and closed: when told to, when their loop ends, and when their owner is gone."""

from __future__ import annotations

import gc

import anyio
import pytest
from returns.result import Failure

from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.effects import attempt
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.waiting import until_blocking

MODEL = "openai/gpt-4o-mini"
QUESTION = ModelRequest((UserMessage("?"),))


def adapter(server: OpenAIServer, *, timeout_s: float = 5.0) -> LiteLLM:
    return LiteLLM(ModelConfig(model=MODEL, api_key="k", base_url=server.base_url, timeout_s=timeout_s))


async def ask(llm: LiteLLM) -> str:
    return (await attempt(llm.complete(QUESTION))).unwrap().content


def connections_after(server: OpenAIServer, expected: int) -> int:
    """The open connections once there are as many as expected."""
    until_blocking(lambda: server.open_connections == expected)
    return server.open_connections


def test_one_connection_serves_many_requests_until_it_is_closed() -> None:
    async def talk(server: OpenAIServer) -> None:
        llm = adapter(server)
        for _ in range(3):
            await ask(llm)
            assert server.open_connections == 1
        await llm.aclose()
        assert connections_after(server, 0) == 0
        assert await ask(llm) == "Yes."
        await llm.aclose()
        await llm.aclose()

    with OpenAIServer(*[Answer("Yes.")] * 4) as server:
        anyio.run(talk, server)


def test_closing_one_adapter_leaves_the_other_its_connection() -> None:
    async def talk(server: OpenAIServer) -> None:
        first, second = adapter(server), adapter(server)
        await ask(first)
        await ask(second)
        await first.aclose()
        assert connections_after(server, 1) == 1
        assert await ask(second) == "Yes."
        await second.aclose()

    with OpenAIServer(*[Answer("Yes.")] * 3) as server:
        anyio.run(talk, server)


def test_other_users_of_litellm_keep_their_clients() -> None:
    async def talk(server: OpenAIServer) -> None:
        llm = adapter(server)
        await ask(llm)
        import litellm
        from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

        messages = [{"role": "user", "content": "?"}]
        for _ in range(2):
            answer = await litellm.acompletion(
                model=MODEL, messages=messages, api_key="k", api_base=server.base_url
            )
            assert isinstance(answer, litellm.ModelResponse)
            assert connections_after(server, 2) == 2
        await llm.aclose()
        assert connections_after(server, 1) == 1
        await close_litellm_async_clients()
        assert connections_after(server, 0) == 0

    with OpenAIServer(*[Answer("Yes.")] * 3) as server:
        anyio.run(talk, server)


def test_an_adapter_works_in_one_event_loop_after_another_without_being_closed() -> None:
    with OpenAIServer(*[Answer("Yes.")] * 3) as server:
        llm = adapter(server)
        for _ in range(3):
            assert anyio.run(ask, llm) == "Yes."
            assert connections_after(server, 0) == 0


def test_the_connections_of_a_forgotten_adapter_are_closed() -> None:
    async def talk(server: OpenAIServer) -> None:
        await ask(adapter(server))
        gc.collect()
        assert await anyio.to_thread.run_sync(connections_after, server, 0) == 0

    with OpenAIServer(Answer("Yes.")) as server:
        anyio.run(talk, server)


def test_questions_are_asked_at_the_same_time() -> None:
    async def talk(server: OpenAIServer) -> None:
        llm = adapter(server)
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(ask, llm)
        await llm.aclose()

    with OpenAIServer(*[Answer("Yes.")] * 4, together=4) as server:
        anyio.run(talk, server)


def test_on_trio_the_failure_says_so() -> None:
    pytest.importorskip("trio")
    llm = LiteLLM(ModelConfig(model=MODEL, api_key="k"))
    message = f"{MODEL} cannot be called here: litellm works on asyncio only, not on trio."
    assert anyio.run(attempt, llm.complete(QUESTION), backend="trio") == Failure(
        ModelUnavailable(message, MODEL)
    )
