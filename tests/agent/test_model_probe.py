"""The probe of a model over HTTP, against servers that have each of the properties that it looks for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import anyio
import pytest
from attrs import evolve

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents
from reactive_agents.core.events import ModelCallCompleted
from reactive_agents.core.model_profiles import PROBE_SUBJECTS, ModelProfile
from reactive_agents.testing import EventRecorder
from tests.support.model_server import Habits, ModelWithHabits
from tests.support.openai_server import Answer, Received, Reply

pytestmark = pytest.mark.usefixtures("without_backoff")
GOOD = Habits()


def builder_for(server: ModelWithHabits, path: Path) -> ReactiveAgents:
    return ReactiveAgents.create().with_model(
        "openai/small", base_url=server.base_url, api_key="none", profiles=path
    )


def probe(habits: Habits, path: Path, *, longest_prompt: int = 8_192) -> ModelProfile:
    async def ask() -> ModelProfile:
        with ModelWithHabits(habits) as server:
            async with builder_for(server, path).build() as agent:
                return await agent.probe(longest_prompt=longest_prompt)

    return anyio.run(ask)


def outcome(profile: ModelProfile, subject: str) -> str:
    return next(each.outcome for each in profile.findings if each.subject == subject)


def test_a_good_model_does_everything(tmp_path: Path) -> None:
    with ModelWithHabits() as server:
        agent = builder_for(server, tmp_path / "models.db").build()
        profile = anyio.run(_probe_and_close, agent)
        asked = len(server.requests)
    assert [each.subject for each in profile.findings] == [*PROBE_SUBJECTS]
    assert {each.outcome for each in profile.findings} == {"yes"}
    assert (profile.call_format, profile.slips, profile.refused_parameters) == ("native", (), frozenset())
    assert profile.complete
    assert asked <= 13
    assert profile.usage.calls == asked - 1  # the unknown model is refused
    assert profile.usage.tokens > 8_000


async def _probe_and_close(agent: ReactiveAgent) -> ModelProfile:
    async with agent:
        return await agent.probe(longest_prompt=8_192)


@pytest.mark.system
@pytest.mark.parametrize(
    ("habits", "subject"),
    [
        (evolve(GOOD, parallel=False), "parallel calls"),
        (evolve(GOOD, nested=False), "nested arguments"),
        (evolve(GOOD, numbers="text"), "numbers"),
        (evolve(GOOD, restrained=False), "restraint"),
        (evolve(GOOD, structured="fenced"), "structured output"),
        (evolve(GOOD, calls="none"), "tool calls"),
        (evolve(GOOD, any_model=True), "unknown model"),
        *(
            (evolve(GOOD, refuses=frozenset({name})), name)
            for name in ("temperature", "max_tokens", "parallel_tool_calls", "response_format")
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_each_weakness_is_found(habits: Habits, subject: str, tmp_path: Path) -> None:
    profile = probe(habits, tmp_path / "models.db")
    assert outcome(profile, subject) == "no"
    others = [each.subject for each in profile.findings if each.outcome == "no" and each.subject != subject]
    missing = ["parallel calls", "nested arguments"] if subject == "tool calls" else []
    assert others == missing


def test_whole_numbers_for_fractions_are_numbers_and_reported(tmp_path: Path) -> None:
    finding = probe(evolve(GOOD, numbers="whole"), tmp_path / "models.db").finding("numbers")
    assert finding is not None
    assert finding.outcome == "yes"
    assert "whole" in finding.detail


@pytest.mark.parametrize("status", [400, 500])
def test_calls_as_text_and_calls_of_described_tools_are_formats(status: int, tmp_path: Path) -> None:
    if status == 400:
        assert probe(evolve(GOOD, calls="text"), tmp_path / "1.db").call_format == "text"
        assert probe(evolve(GOOD, calls="prompt"), tmp_path / "3.db").call_format == "prompt"
    refusing = evolve(GOOD, calls="prompt", refuses=frozenset({"tools"}), refuses_with=status)
    profile = probe(refusing, tmp_path / "2.db")
    assert profile.call_format == "prompt"
    assert outcome(profile, "parallel calls") == outcome(profile, "nested arguments") == "yes"


@pytest.mark.parametrize("counts", [True, False])
def test_a_prompt_that_is_cut_silently_shows_the_window(counts: bool, tmp_path: Path) -> None:
    profile = probe(evolve(GOOD, window=3_000, counts=counts), tmp_path / "models.db", longest_prompt=16_384)
    assert outcome(profile, "context window") == "no"
    seen = profile.window_tokens
    assert seen is not None
    assert 1_500 <= seen <= 3_000


def test_a_window_that_the_server_names_is_taken(tmp_path: Path) -> None:
    profile = probe(evolve(GOOD, window=5_000, overflow=True), tmp_path / "m.db", longest_prompt=16_384)
    assert (outcome(profile, "context window"), profile.window_tokens) == ("no", 5_000)
    assert profile.tier("mid") == "mid"


def test_a_window_whose_end_was_not_reached_is_a_lower_bound(tmp_path: Path) -> None:
    profile = probe(GOOD, tmp_path / "models.db")
    assert not profile.window_is_limit
    assert 7_000 < (profile.window_tokens or 0) < 8_500
    assert (profile.window("mid"), profile.window("frontier")) == (None, None)


def test_a_server_that_is_down_leaves_every_row_unknown_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "models.db"
    with ModelWithHabits() as server:
        address = server.base_url

    async def ask() -> ModelProfile:
        builder = ReactiveAgents.create().with_model(
            "openai/small", base_url=address, api_key="none", profiles=path
        )
        async with builder.build() as agent:
            return await agent.probe()

    profile = anyio.run(ask)
    assert {each.outcome for each in profile.findings} == {"not known"}
    assert all("cannot be reached" in each.detail for each in profile.findings)


@pytest.mark.system
def test_a_failure_makes_one_row_unknown_and_a_later_probe_keeps_what_was_known(tmp_path: Path) -> None:
    path = tmp_path / "models.db"

    async def ask() -> tuple[ModelProfile, ModelProfile, ModelProfile]:
        with ModelWithHabits() as server:
            async with builder_for(server, path).build() as agent:
                first = await agent.probe(longest_prompt=8_192)
                server._habits = evolve(GOOD, failing=frozenset(range(len(server.requests) + 1, 999)))
                second = await agent.probe(longest_prompt=8_192)
                server._habits = evolve(GOOD, parallel=False)
                third = await agent.probe(longest_prompt=8_192)
                return first, second, third

    first, second, third = anyio.run(ask)
    assert [evolve(each, problem="") for each in second.findings] == list(first.findings)  # nothing is lost
    assert all("status 500" in each.problem for each in second.findings)
    assert not second.complete
    assert third.complete
    assert outcome(third, "parallel calls") == "no"

    numbers = list(range(7, 12))  # the attempts at nested arguments
    fresh = probe(evolve(GOOD, failing=frozenset(numbers)), tmp_path / "other.db")
    unknown = {each.subject: each.detail for each in fresh.findings if each.outcome == "not known"}
    assert unknown
    assert len(unknown) <= 3
    assert all("status 500" in detail for detail in unknown.values())


def test_the_profile_is_kept_for_its_owner_alone_and_used_by_agents_built_later(tmp_path: Path) -> None:
    path = tmp_path / "state" / "models.db"
    habits = evolve(
        GOOD, calls="prompt", refuses=frozenset({"tools", "temperature"}), window=3_000, parallel=False
    )

    def weather(city: str) -> str:
        """Get the weather of a city now."""
        return f"Sun in {city}."

    async def ask() -> None:
        with ModelWithHabits(habits) as server:
            builder = builder_for(server, path).with_reasoning().with_tools(weather)
            async with builder.build() as before:
                await before.probe(longest_prompt=8_192)
            assert before.container.settings().context_profile.tier is None
            asked = len(server.requests)
            async with builder.build() as agent:
                result = await agent.run("What is the weather in Oslo now? Find out with the tool.")
                window = agent.container.models.counter().unwrap().window(None)
            sent = [each.body for each in server.requests[asked:]]
            explicit = builder.with_context_profile("large").build()
        assert sent
        assert all("tools" not in body and "temperature" not in body for body in sent)
        assert '"name": "weather"' in sent[0]["messages"][0]["content"]
        assert any("<tool_result" in each["content"] for each in sent[-1]["messages"])
        assert any(step.type == "observation" and "Sun in Oslo." in step.content for step in result.steps)
        assert agent.container.settings().context_profile.tier == "local"
        assert explicit.container.settings().context_profile.tier == "large"
        assert window is not None
        assert window <= 3_000

    anyio.run(ask)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


class Miscounting(ModelWithHabits):
    """Reports the same tokens for every request."""

    def _next(self, received: Received) -> Reply:
        reply = super()._next(received)
        return evolve(reply, usage=(11, 5)) if isinstance(reply, Answer) else reply


def test_a_server_that_counts_wrongly_gets_no_window_by_its_count(tmp_path: Path) -> None:
    async def ask() -> tuple[ModelProfile, str]:
        with Miscounting() as server:
            builder = builder_for(server, tmp_path / "m.db").with_reasoning()
            async with builder.build() as agent:
                profile = await agent.probe(longest_prompt=8_192)
            async with builder.build() as agent:
                return profile, (await agent.run("Answer with the single word: ready")).output or ""

    profile, output = anyio.run(ask)
    found = profile.finding("context window")
    assert found is not None
    assert (found.outcome, found.value) == ("yes", "6144")
    assert found.detail.endswith("Its count of tokens is wrong: 11 for about 8,192.")
    assert output == "ready"


def test_the_error_of_a_window_that_is_too_small_names_the_probe(tmp_path: Path) -> None:
    async def ask() -> None:
        with ModelWithHabits(evolve(GOOD, window=60)) as server:
            builder = builder_for(server, tmp_path / "m.db").with_reasoning()
            async with builder.build() as agent:
                assert (await agent.probe(longest_prompt=2_048)).window_tokens == 60
            async with builder.with_system_prompt("Be careful. " * 300).build() as agent:
                await agent.run("Answer with the single word: ready")

    with pytest.raises(
        AgentError, match=r"or set window_tokens\. A longer text can be read by a tool, such as"
    ):
        anyio.run(ask)


def test_another_address_has_another_profile(tmp_path: Path) -> None:
    path = tmp_path / "models.db"
    probe(evolve(GOOD, refuses=frozenset({"temperature"})), path)
    with ModelWithHabits() as server:
        agent = builder_for(server, path).build()
        assert agent.container.models.llm()._known[0].profile is None


def test_a_file_that_cannot_be_read_is_logged_and_the_model_used_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "models.db"
    path.write_bytes(b"no database at all, but long enough to be looked at" * 30)
    with ModelWithHabits() as server:
        agent = builder_for(server, path).build()
        assert agent.container.models.llm()._known[0].profile is None
        profile = anyio.run(_probe_and_close, agent)
    assert profile.complete
    assert "is used without a profile" in caplog.text


def test_the_calls_of_a_probe_are_counted_as_events_and_in_the_cost_file(tmp_path: Path) -> None:
    async def ask() -> tuple[EventRecorder, ModelProfile, int]:
        with ModelWithHabits() as server:
            builder = builder_for(server, tmp_path / "m.db").with_cost(tmp_path / "cost.db")
            async with builder.build() as agent:
                recorder = EventRecorder()
                agent.subscribe(recorder)
                profile = await agent.probe(longest_prompt=2_048)
                tracker = agent.container.governance.cost_tracker().unwrap()
                totals = (await tracker.totals("model")).unwrap()._inner_value
                return recorder, profile, totals[0].usage.total_tokens

    recorder, profile, recorded = anyio.run(ask)
    calls = recorder.of(ModelCallCompleted)
    assert {each.purpose for each in calls} == {"probe"}
    assert sum(each.usage.total_tokens for each in calls) == profile.usage.tokens == recorded
