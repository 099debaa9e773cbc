"""Fallbacks at servers of their own: no key, header or finding of one server reaches another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from reactive_agents import (
    AgentError,
    AgentResult,
    FallbackModel,
    ModelSettings,
    ReactiveAgents,
    read_config,
)
from reactive_agents.core.config import ModelPrice
from reactive_agents.core.errors import DecodeError, InvalidConfig
from reactive_agents.core.events import ModelCallCompleted, TaskCompleted
from reactive_agents.testing import EventRecorder
from tests.support.command_line import command
from tests.support.model_server import Habits, ModelWithHabits
from tests.support.openai_server import Answer, Call, OpenAIServer, Received, Reply, refusal

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("without_backoff")]

DOWN = refusal(401, "no")
FIRST, SECOND = "first-key-12345", "second-key-67890"


@pytest.fixture(autouse=True)
def key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "environment-key-1")


async def asked(builder: ReactiveAgents, *, task: str = "Say hello.", **options: Any) -> AgentResult:
    async with builder.build() as agent:
        return await agent.run(task, **options)


def authorizations(server: OpenAIServer) -> list[str | None]:
    return [each.headers.get("authorization") for each in server.requests]


async def test_each_server_gets_its_own_key_model_and_settings() -> None:
    with OpenAIServer(DOWN) as one, OpenAIServer(Answer("Hello.", model="local")) as other:
        settings = ModelSettings(
            temperature=0.2, seed=7, headers={"x-team-key": "team"}, extra_body={"token": "secret-of-one"}
        )
        fallback = FallbackModel(
            "openai/local",
            base_url=other.base_url,
            api_key=SECOND,
            settings=ModelSettings(temperature=0.7, extra_body={"top_k": 3}),
        )
        builder = ReactiveAgents.create().with_model(
            "openai/first", api_key=FIRST, base_url=one.base_url, settings=settings
        )
        result = await asked(builder.with_fallbacks(fallback))
    assert result.metadata.model == "openai/local"
    assert (authorizations(one), authorizations(other)) == ([f"Bearer {FIRST}"], [f"Bearer {SECOND}"])
    assert one.requests[0].headers["x-team-key"] == "team"
    assert "x-team-key" not in other.requests[0].headers
    sent = other.requests[0].body
    assert (sent["model"], sent["temperature"], sent["seed"], sent["top_k"]) == ("local", 0.7, 7, 3)
    assert "token" not in sent
    assert one.requests[0].body["token"] == "secret-of-one"


async def test_headers_and_further_fields_do_not_go_to_another_provider_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with OpenAIServer(DOWN, DOWN) as one, OpenAIServer(Answer("Hello.")) as other:
        monkeypatch.setenv("DEEPSEEK_API_KEY", "deepseek-key-1234")
        monkeypatch.setenv("DEEPSEEK_API_BASE", other.base_url)
        settings = ModelSettings(headers={"x-team-key": "team"}, extra_body={"token": "secret-of-one"})
        builder = ReactiveAgents.create().with_model(
            "openai/first", api_key=FIRST, base_url=one.base_url, settings=settings
        )
        result = await asked(builder.with_fallbacks("openai/beside", "deepseek/fast"))
    assert result.metadata.model == "deepseek/fast"
    assert [each.headers.get("x-team-key") for each in one.requests] == ["team", "team"]  # by its own server
    assert "x-team-key" not in other.requests[0].headers
    assert "token" not in other.requests[0].body
    assert authorizations(other) == ["Bearer deepseek-key-1234"]


@pytest.mark.parametrize("named", ["openai/local", "deepseek/fast"])
async def test_a_run_that_names_another_server_sends_it_no_headers_and_fields_of_the_agent(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    with OpenAIServer(Answer("Hello.")) as one, OpenAIServer(DOWN) as other:
        monkeypatch.setenv("DEEPSEEK_API_KEY", "deepseek-key-1234")
        monkeypatch.setenv("DEEPSEEK_API_BASE", other.base_url)
        of_agent = ModelSettings(headers={"x-team-key": "team"}, extra_body={"token": "secret-of-one"})
        of_run = ModelSettings(headers={"x-run-key": "run"}, extra_body={"session": "of the run"})
        local = FallbackModel("openai/local", base_url=other.base_url, api_key=SECOND)
        builder = ReactiveAgents.create().with_model(
            "openai/first", api_key=FIRST, base_url=one.base_url, settings=of_agent
        )
        builder = builder.with_fallbacks(local, "openai/beside")
        await asked(builder, model=named, settings=of_run)
    (there,), (here,) = other.requests[:1], one.requests
    assert (there.headers.get("x-team-key"), there.headers["x-run-key"]) == (None, "run")
    assert (there.body.get("token"), there.body["session"]) == (None, "of the run")
    assert here.body["model"] == "beside"  # which answers, at the server of the agent
    assert (here.headers["x-team-key"], here.headers.get("x-run-key")) == ("team", None)
    assert (here.body["token"], here.body.get("session")) == ("secret-of-one", None)


@pytest.mark.parametrize("first_has_address", [True, False])
async def test_the_key_in_the_environment_goes_to_the_server_of_the_provider(
    monkeypatch: pytest.MonkeyPatch, first_has_address: bool
) -> None:
    with OpenAIServer(DOWN, DOWN) as own, OpenAIServer(DOWN, DOWN) as provider:
        monkeypatch.setenv("OPENAI_API_BASE", provider.base_url)  # stands for the provider's own server
        first, second = ("openai/local", own.base_url), ("openai/real", None)
        if not first_has_address:
            first, second = second, first
        builder = ReactiveAgents.create().with_model(first[0], base_url=first[1])
        with pytest.raises(AgentError):
            await asked(builder.with_fallbacks(FallbackModel(second[0], base_url=second[1])))
    assert authorizations(own) == ["Bearer none"]
    assert authorizations(provider) == ["Bearer environment-key-1"]


async def test_of_two_servers_without_a_key_the_first_gets_the_one_in_the_environment() -> None:
    with OpenAIServer(DOWN) as one, OpenAIServer(Answer("Hello.")) as other:
        builder = ReactiveAgents.create().with_model("openai/a", base_url=one.base_url)
        await asked(builder.with_fallbacks(FallbackModel("openai/a", base_url=other.base_url)))
    assert (authorizations(one), authorizations(other)) == (["Bearer environment-key-1"], ["Bearer none"])


async def test_a_streamed_answer_comes_from_the_server_of_the_fallback() -> None:
    with OpenAIServer(DOWN) as one, OpenAIServer(Answer("Hello.")) as other:
        fallback = FallbackModel("openai/b", base_url=other.base_url, api_key=SECOND)
        builder = ReactiveAgents.create().with_model("openai/a", api_key=FIRST, base_url=one.base_url)
        async with builder.with_fallbacks(fallback).build() as agent:
            ended = [event async for event in agent.stream("Say hello.") if isinstance(event, TaskCompleted)]
    assert [event.result.output for event in ended] == ["Hello."]
    assert (authorizations(one), authorizations(other)) == ([f"Bearer {FIRST}"], [f"Bearer {SECOND}"])
    assert other.requests[0].body["stream"] is True


async def test_a_second_key_of_one_server_is_a_fallback() -> None:
    with OpenAIServer(DOWN, Answer("Hello.")) as server:
        builder = ReactiveAgents.create().with_model("openai/a", api_key=FIRST, base_url=server.base_url)
        second = FallbackModel("openai/a", base_url=server.base_url, api_key=SECOND)
        same = FallbackModel("openai/a", base_url=server.base_url)
        result = await asked(builder.with_fallbacks(same, second))
    assert result.output == "Hello."
    assert authorizations(server) == [f"Bearer {FIRST}", f"Bearer {SECOND}"]


async def test_a_run_that_names_a_fallback_is_answered_by_its_server() -> None:
    with OpenAIServer() as one, OpenAIServer(Answer("Hello.")) as other:
        fallback = FallbackModel("openai/local", base_url=other.base_url, api_key=SECOND)
        builder = ReactiveAgents.create().with_model("openai/a", api_key=FIRST, base_url=one.base_url)
        result = await asked(builder.with_fallbacks(fallback), model="openai/local")
    assert (result.output, one.requests, authorizations(other)) == ("Hello.", [], [f"Bearer {SECOND}"])


async def test_a_named_model_without_a_fallback_has_all_its_attempts_again() -> None:
    with OpenAIServer(*[refusal(503, "busy")] * 10) as one:
        builder = ReactiveAgents.create().with_model("openai/first", api_key=FIRST, base_url=one.base_url)
        async with builder.build() as agent:
            for _ in range(2):
                with pytest.raises(AgentError):
                    await agent.run("Say hello.", model="openai/other")
    assert [each.body["model"] for each in one.requests] == ["other"] * 10


async def test_one_model_at_two_servers_has_two_prices_and_two_states() -> None:
    down = refusal(503, "down", headers={"retry-after": "0"})
    with OpenAIServer(*[down] * 9) as one, OpenAIServer(*[Answer("Hello.")] * 3) as other:
        price = ModelPrice(1.0, 2.0, 100)
        fallback = FallbackModel("openai/own", base_url=other.base_url, api_key=SECOND, price=price)
        builder = ReactiveAgents.create().with_model("openai/own", api_key=FIRST, base_url=one.base_url)
        builder = builder.with_prices({"openai/own": ModelPrice(50.0, 60.0, 100)}).with_fallbacks(fallback)
        recorder = EventRecorder()
        async with builder.build() as agent:
            agent.subscribe(recorder)
            for _ in range(2):
                await agent.run("Say hello.")
            dearest = (await agent.container.models.prices().unwrap().price(None)).unwrap()._inner_value
    assert [call.cost_usd for call in recorder.of(ModelCallCompleted)] == [pytest.approx(25e-6)] * 2
    assert dearest.input_usd == pytest.approx(50e-6)
    assert (len(one.requests), len(other.requests)) == (6, 2)  # a server that is down is asked once then


async def test_each_server_is_asked_by_its_own_probe(tmp_path: Path) -> None:
    path = tmp_path / "models.db"

    def weather(city: str) -> str:
        """Get the weather of a city now."""
        return f"Sun in {city}."

    text_only = evolve(Habits(), calls="prompt", refuses=frozenset({"tools"}), window=3_000)
    plain = evolve(Habits(), refuses=frozenset({"temperature"}))
    task = "What is the weather in Oslo now? Find out with the tool."
    with ModelWithHabits(text_only) as one, ModelWithHabits(plain) as other:
        for each in (one, other):
            named = ReactiveAgents.create().with_model(
                "openai/small", base_url=each.base_url, api_key="none", profiles=path
            )
            async with named.build() as agent:
                await agent.probe(longest_prompt=8_192)
        one._habits = evolve(one._habits, failing=frozenset(range(1, 999)))
        asked_before = len(other.requests)
        fallback = FallbackModel("openai/small", base_url=other.base_url, api_key=SECOND)
        builder = ReactiveAgents.create().with_model(
            "openai/small", base_url=one.base_url, api_key=FIRST, profiles=path
        )
        builder = builder.with_model_settings(ModelSettings(temperature=0.3)).with_reasoning()
        await asked(builder.with_fallbacks(fallback).with_tools(weather), task=task)
    bodies = [each.body for each in other.requests[asked_before:]]
    assert bodies
    assert all("tools" in body for body in bodies)
    assert not any("temperature" in body for body in bodies)


async def test_no_fallback_answers_a_probe(tmp_path: Path) -> None:
    refusing = evolve(Habits(), refuses=frozenset({"temperature"}))
    with ModelWithHabits(refusing) as one, ModelWithHabits() as other:
        fallback = FallbackModel("openai/small", base_url=other.base_url, api_key=SECOND)
        builder = ReactiveAgents.create().with_model(
            "openai/small", api_key=FIRST, base_url=one.base_url, profiles=tmp_path / "models.db"
        )
        async with builder.with_fallbacks(fallback).build() as agent:
            profile = await agent.probe(longest_prompt=2_048)
    assert profile.refused_parameters == {"temperature"}
    assert other.requests == []


class SmallWindow(OpenAIServer):
    """Reads a log day by day, and refuses prompts that are longer than its window."""

    def _next(self, received: Received) -> Reply:
        self.requests.append(received)
        messages = received.body["messages"]
        days, tokens = sum(each["role"] == "tool" for each in messages), len(str(messages)) // 4
        if tokens > 3_000:
            said = "This model's maximum context length is 3000 tokens."
            return refusal(400, said, code="context_length_exceeded")
        calls = (Call("log", {"n": days}, id=f"c{days}"),) if days < 4 else ()
        return Answer(None if calls else "Nothing happened.", calls, usage=(tokens, 5), model="b")


async def test_a_run_whose_first_model_is_down_fits_into_the_window_of_the_fallback() -> None:
    def log(n: int) -> str:
        """The log of a day."""
        return f"Day {n}. " + "Nothing happened here today. " * 200

    down = refusal(503, "down", headers={"retry-after": "0"})
    with OpenAIServer(*[down] * 40) as one, SmallWindow() as other:
        fallback = FallbackModel("openai/b", base_url=other.base_url, api_key=SECOND)
        builder = ReactiveAgents.create().with_model("openai/a", api_key=FIRST, base_url=one.base_url)
        builder = builder.with_context_profile(window_tokens=100_000).with_reasoning().with_tools(log)
        result = await asked(builder.with_fallbacks(fallback), task="What happened on the days 0 to 3?")
    assert (result.status, result.output) == ("completed", "Nothing happened.")


async def test_the_limits_of_the_first_server_hold_nothing_up_at_another() -> None:
    with OpenAIServer(DOWN, DOWN) as one, OpenAIServer(Answer("Hello."), Answer("Hello.")) as other:
        fallback = FallbackModel("openai/b", base_url=other.base_url, api_key=SECOND)
        builder = ReactiveAgents.create().with_model(
            "openai/a", api_key="limited-key-1", base_url=one.base_url
        )
        builder = builder.with_rate_limit(requests_per_minute=1).with_fallbacks(fallback)
        result = await asked(builder)
    assert result.output == "Hello."


async def test_keys_and_passwords_are_shown_and_written_nowhere(tmp_path: Path) -> None:
    with OpenAIServer(DOWN) as one, OpenAIServer(refusal(401, f"bad key {SECOND}")) as other:
        address = other.base_url.replace("http://", "http://me:password-123@")
        headers = {"x-key": "header-secret-9"}
        fallback = FallbackModel(
            "openai/b", base_url=address, api_key=SECOND, settings=ModelSettings(headers=headers)
        )
        builder = ReactiveAgents.create().with_model("openai/a", api_key=FIRST, base_url=one.base_url)
        builder = builder.with_fallbacks("openai/c", fallback)
        recorder = EventRecorder()
        agent = builder.build()
        agent.subscribe(recorder)
        with pytest.raises(AgentError) as failed:
            await agent.run(f"Is the key {SECOND}, or header-secret-9 of password-123?")
        await agent.aclose()
    config = builder.to_config()
    written = config.to_toml() + config.to_json() + repr(config) + repr(fallback) + repr(recorder.events)
    assert SECOND not in written + str(failed.value) + repr(failed.value.error)
    assert "password-123" not in repr(config) + repr(fallback) + repr(recorder.events)
    assert "header-secret-9" not in repr(config) + repr(fallback) + repr(recorder.events)
    assert [each if isinstance(each, str) else each.model for each in config.model.fallbacks] == [
        "openai/c",
        "openai/b",
    ]
    (tmp_path / "a.toml").write_text(config.to_toml())
    assert read_config(tmp_path / "a.toml").unwrap() == config


def test_a_file_names_the_server_of_a_fallback(tmp_path: Path) -> None:
    with OpenAIServer(DOWN) as one, OpenAIServer(Answer("Hello.")) as other:
        (tmp_path / "agent.toml").write_text(
            f"""
            [model]
            model = "openai/a"
            base_url = "{one.base_url}"

            [[model.fallbacks]]
            model = "openai/b"
            base_url = "{other.base_url}"
            price = {{ input_usd_per_million = 1, output_usd_per_million = 2 }}

            [model.fallbacks.settings]
            temperature = 0.5
            """
        )
        shown = command(
            "run", "--config", tmp_path / "agent.toml", "Say hello.", OPENAI_API_KEY="environment-key-1"
        )
    assert (shown.exit_code, shown.stdout.strip()) == (0, "Hello.")
    assert (authorizations(one), authorizations(other)) == (["Bearer environment-key-1"], ["Bearer none"])
    assert other.requests[0].body["temperature"] == 0.5


@pytest.mark.parametrize(
    ("fallback", "option", "value"),
    [
        (FallbackModel(" "), "model.fallbacks", "' '"),
        (FallbackModel("openai/b", base_url="user:pw@host"), "model.fallbacks[0].base_url", "user…"),
        (FallbackModel("openai/b", base_url=""), "model.fallbacks[0].base_url", "''"),
    ],
)
def test_a_wrong_fallback_is_refused(fallback: FallbackModel, option: str, value: str) -> None:
    with pytest.raises(AgentError) as failed:
        ReactiveAgents.create().with_model("openai/a").with_fallbacks(fallback).build()
    assert isinstance(failed.value.error, InvalidConfig)
    assert (failed.value.error.option, failed.value.error.value) == (option, value)


@pytest.mark.parametrize(
    ("fallback", "path", "problem"),
    [
        (3, "$.model.fallbacks[0]", "got 3, expected a string or an object"),
        (FallbackModel("openai/b", base_url=3), "$.model.fallbacks[0].base_url", "got 3"),  # type: ignore[arg-type]
        (FallbackModel("openai/b", api_key=3), "$.model.fallbacks[0].api_key", "may be secret"),  # type: ignore[arg-type]
        ({"model": "openai/b", "server": "x"}, "$.model.fallbacks[0].server", "unknown"),
        ({"base_url": "http://x"}, "$.model.fallbacks[0].model", "missing"),
    ],
)
def test_the_error_of_a_wrong_field_names_it(fallback: Any, path: str, problem: str) -> None:
    with pytest.raises(AgentError) as failed:
        ReactiveAgents.create().with_model("openai/a").with_fallbacks(fallback).build()
    assert isinstance(failed.value.error, DecodeError)
    (found,) = failed.value.error.problems
    assert found.path == path
    assert problem in found.problem
