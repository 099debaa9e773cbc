"""Every way that a provider can refuse, as the typed error that comes of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import (
    AuthenticationFailed,
    ContextOverflow,
    LLMErrors,
    MalformedResponse,
    ModelUnavailable,
    RateLimited,
    RequestRejected,
)
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.effects import attempt
from tests.support.openai_server import OpenAIServer, Raw, Reply, refusal

pytestmark = pytest.mark.anyio

MODEL = "openai/gpt-4o-mini"
TOO_LONG = "This model's maximum context length is 8192 tokens, but your messages have 9000."


class NoonClock:
    """Shows noon for ever."""

    def now(self) -> datetime:
        return datetime(2026, 1, 1, 12, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


async def failure_of(reply: Reply, *, base_url: str = "", key: str = "abc-secret-def") -> LLMErrors:
    with OpenAIServer(reply) as server:
        config = ModelConfig(
            model=MODEL, api_key=key, base_url=base_url or server.base_url, max_attempts=1, timeout_s=5.0
        )
        llm = LiteLLM(config, clock=NoonClock())
        whole = await attempt(llm.complete(ModelRequest((UserMessage("?"),))))
        await llm.aclose()
    return whole.failure()


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (
            refusal(500, "out of order"),
            ModelUnavailable(
                "The provider of openai/gpt-4o-mini failed with status 500: out of order", MODEL, 500
            ),
        ),
        (
            Raw(502, "<html>bad gateway</html>", {"Content-Type": "text/html"}),
            ModelUnavailable(
                "The provider of openai/gpt-4o-mini failed with status 502: <html>bad gateway</html>",
                MODEL,
                502,
            ),
        ),
        (
            Raw(503, '{"error": "too busy"}'),
            ModelUnavailable(
                "The provider of openai/gpt-4o-mini failed with status 503: too busy", MODEL, 503
            ),
        ),
        (
            Raw(400, '{"error": {"code": "odd"}}'),
            RequestRejected("The request to openai/gpt-4o-mini was refused: {'code': 'odd'}", MODEL, 400),
        ),
        (
            refusal(401, "Incorrect key"),
            AuthenticationFailed("The provider of openai/gpt-4o-mini refused the key: Incorrect key", MODEL),
        ),
        (
            refusal(400, TOO_LONG),
            ContextOverflow(
                f"The request is longer than openai/gpt-4o-mini can read: {TOO_LONG}", MODEL, 8192
            ),
        ),
        (
            refusal(400, "too long", code="context_length_exceeded"),
            ContextOverflow("The request is longer than openai/gpt-4o-mini can read: too long", MODEL),
        ),
        (
            refusal(400, "temperature is too high"),
            RequestRejected(
                "The request to openai/gpt-4o-mini was refused: temperature is too high", MODEL, 400
            ),
        ),
        (
            refusal(400, "house-brand does not support tools"),
            RequestRejected(
                "The request to openai/gpt-4o-mini was refused: house-brand does not support tools. "
                "`reactive-agents models probe` finds out how it calls tools.",
                MODEL,
                400,
            ),
        ),
        (
            refusal(404, "no such model"),
            RequestRejected(
                "The provider of openai/gpt-4o-mini refused the model: no such model.", MODEL, 404
            ),
        ),
        (
            refusal(404, "Not Found"),
            RequestRejected(
                "The request to openai/gpt-4o-mini was refused: Not Found. "
                "Status 404: is the path of base_url right? It often ends with /v1.",
                MODEL,
                404,
            ),
        ),
    ],
)
async def test_refusals_become_typed_errors(reply: Reply, expected: LLMErrors) -> None:
    assert await failure_of(reply) == expected


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "9" * 400}, 31_536_000.0),
        ({"retry-after-ms": "9" * 400}, 31_536.0),
        ({"retry-after": "Thu, 01 Jan 9999 12:00:30 GMT"}, 31_536_000.0),
        ({"retry-after": "Thu, 01 Jan -1 12:00:30 GMT"}, None),
        ({"retry-after": "Thu, 01 Jan 9999999999999999999999 12:00:30"}, None),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 +99999999999999999999"}, None),
        ({"retry-after": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}, None),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 -99999999999999"}, None),
        ({}, None),
    ],
)
async def test_a_rate_limit_says_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    error = await failure_of(refusal(429, "slow down", headers=headers))
    assert isinstance(error, RateLimited)
    assert error.retry_after_s == seconds


async def test_a_body_that_is_no_json_is_shown_in_part() -> None:
    error = await failure_of(Raw(200, "<html>" + "x" * 500))
    assert isinstance(error, MalformedResponse)
    assert error.excerpt == "<html>" + "x" * 194


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        "[1]",
        "null",
        '{"choices": null}',
        '{"choices": [null]}',
        '{"choices": [{"message": null}]}',
        '{"choices": [{"message": {"content": 5}}]}',
        '{"choices": [{"message": {"tool_calls": [{"id": "x", "function": {"name": null}}]}}]}',
    ],
)
async def test_json_that_is_no_answer_is_malformed(body: str) -> None:
    error = await failure_of(Raw(200, body))
    assert isinstance(error, MalformedResponse)
    assert "Traceback" not in error.message
    assert "site-packages" not in error.message


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with OpenAIServer() as gone:
        address = gone.base_url
    error = await failure_of(Raw(200), base_url=address)
    assert isinstance(error, ModelUnavailable)
    assert error.status is None
    assert error.message.startswith(f"{MODEL} cannot be reached at {address.removesuffix('/v1')}: ")
    assert not error.message.endswith(
        "Connection error."
    )  # which would be the client's words for every cause


async def test_an_unknown_provider_is_rejected() -> None:
    llm = LiteLLM(ModelConfig(model="nobody/nothing"))
    error = (await attempt(llm.complete(ModelRequest((UserMessage("?"),))))).failure()
    assert isinstance(error, RequestRejected)
    assert "\n" not in error.message


@pytest.mark.parametrize("status", [400, 401, 429, 500])
@pytest.mark.parametrize("secret", ["abc-secret-def", "sk-proj-0123456789", "Bearer eyJhbGciOi.x"])
async def test_no_secret_is_repeated(status: int, secret: str) -> None:
    error = await failure_of(refusal(status, f"Not with {secret}, please"))
    assert secret.removeprefix("Bearer ") not in str(error)
    assert re.search(r"\[redacted:[a-z-]+\], please", error.message)


async def test_secrets_are_not_in_the_excerpt_of_a_body() -> None:
    assert "abc-secret-def" not in str(await failure_of(Raw(200, "<html> abc-secret-def </html>")))


async def test_long_and_many_lined_messages_are_shortened_to_one_line() -> None:
    error = await failure_of(refusal(400, "first\nsecond\n" + "x" * 1000))
    assert len(error.message) < 320
    assert "first second xxx" in error.message
