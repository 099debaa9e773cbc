"""Learnings compared by what they mean, where a persona's memory is of tier 2."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from reactive_agents import AgentError, Personas, read_persona
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import MemoryUnavailable
from reactive_agents.core.events import ModelCallCompleted
from reactive_agents.core.ids import PersonaId
from reactive_agents.core.persona_events import PersonaPlanFormulated, PersonaStageFailed
from reactive_agents.core.personas import LearningEntry
from reactive_agents.effects import attempt
from reactive_agents.testing import EventRecorder, ScriptedLLM, say
from tests.support.embedders import ToyEmbedder, toy_vector
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.personas import assessed, planned

pytestmark = pytest.mark.anyio

SAID = "Ask the doctor before you purchase a car"
RESTATED = "Ask the physician before you buy an automobile"
OTHER = "Feed cats twice each morning"


async def after_lessons(
    described: Personas, *lessons: str, recorder: EventRecorder | None = None
) -> tuple[LearningEntry, ...]:
    """Return the learnings of a persona that got one from each event."""
    questions = ("How far is the moon?", "Who wrote Emma?", "Which metals rust?", "Why do we yawn?")
    turns = [
        turn
        for lesson in lessons
        for turn in (planned("Answer it."), say("So.", when="Answer it."), assessed(lesson))
    ]
    async with described.with_llm(ScriptedLLM(*turns)).with_domain("chat").build() as ada:
        if recorder is not None:
            ada.subscribe(recorder)
        for question, _ in zip(questions, lessons, strict=False):
            await ada.send(question)
        return (await attempt(ada.reasoning.learnings("chat"))).unwrap()


async def test_a_lesson_in_other_words_is_the_same_one(tmp_path: Path) -> None:
    ada = Personas.create("Ada")
    by_words = await after_lessons(ada.with_memory(tmp_path / "words.db"), SAID, RESTATED, OTHER)
    assert sorted((each.pattern, each.success_count) for each in by_words) == [
        (SAID, 1),
        (RESTATED, 1),
        (OTHER, 1),
    ]
    vectors = ada.with_memory(tmp_path / "vectors.db", tier="2", embedder=ToyEmbedder())
    by_meaning = await after_lessons(vectors, SAID, RESTATED, OTHER)
    assert {(each.pattern, each.success_count) for each in by_meaning} == {(SAID, 1), (OTHER, 1)}


class Interrupted(ToyEmbedder):
    """An embedder that lets something happen while a lesson is compared."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:  # type: ignore[override]
        if RESTATED in texts and self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            await happens()
        return super().embed(texts)


@pytest.mark.parametrize(("what", "left"), [("confirmed", [3]), ("rejected", []), ("forgotten", [])])
async def test_a_lesson_that_changes_while_it_is_compared_is_read_again(
    tmp_path: Path, what: str, left: list[int]
) -> None:
    """Another process, such as a person at the command line, changes it meanwhile."""
    embedder = Interrupted()
    described = Personas.create("Ada").with_memory(tmp_path / "ada.db", tier="2", embedder=embedder)
    await after_lessons(described, SAID)
    store = SqlitePersonaStore(tmp_path / "ada.db")
    (lesson,) = (await attempt(store.list_learnings(PersonaId("Ada")))).unwrap()

    async def change() -> None:
        if what == "forgotten":
            (await attempt(store.forget(lesson.persona_id, user="user"))).unwrap()
            return
        changed = evolve(lesson, rejected=what == "rejected", success_count=lesson.success_count + 1)
        assert (await attempt(store.change_learnings([(lesson, changed)]))).unwrap() == "stored"

    embedder.meanwhile = change
    learnings = await after_lessons(described, RESTATED)
    assert embedder.meanwhile is None
    assert [each.success_count for each in learnings] == left
    kept = (await attempt(store.list_learnings(lesson.persona_id))).unwrap()
    assert len(kept) == (0 if what == "forgotten" else 1)
    await store.aclose()


async def test_how_alike_one_lesson_is_can_be_set(tmp_path: Path) -> None:
    strict = Personas.create("Ada").with_memory(tmp_path / "a.db", tier="2", embedder=ToyEmbedder())
    strict = strict.with_options(learning={"merge_above_cosine": 1.0})
    assert len(await after_lessons(strict, SAID, RESTATED)) == 2


@pytest.mark.parametrize(
    ("options", "shown"), [({}, OTHER), ({"tier": "2", "embedder": ToyEmbedder()}, SAID)]
)
async def test_a_plan_is_shown_what_means_most_for_its_task(
    tmp_path: Path, options: dict[str, Any], shown: str
) -> None:
    described = Personas.create("Ada").with_memory(tmp_path / "a.db", **options)
    await after_lessons(described, SAID, OTHER)
    recorder = EventRecorder()
    one = described.with_options(learning={"shown": 1})
    one = one.with_domain("chat", describe=lambda event: event.content)
    llm = ScriptedLLM(planned("Answer it."), say("So.", when="Answer it."), assessed())
    async with one.with_llm(llm).build() as ada:
        ada.subscribe(recorder)
        await ada.send("Can one physician buy any automobile?")
    (formulated,) = recorder.of(PersonaPlanFormulated)
    assert [each.pattern for each in formulated.shown] == [shown]


async def test_words_serve_where_the_embedder_fails_and_it_is_said(tmp_path: Path) -> None:
    broken = ToyEmbedder(problem=OSError("no power"))
    described = Personas.create("Ada").with_memory(tmp_path / "a.db", tier="2", embedder=broken)
    recorder = EventRecorder()
    known = await after_lessons(described, SAID, f"{SAID}!", RESTATED, recorder=recorder)
    assert sorted((each.pattern, each.success_count) for each in known) == [(SAID, 1), (RESTATED, 1)]
    failures = recorder.of(PersonaStageFailed)
    assert {each.stage for each in failures} == {"compare"}
    message = "Texts are compared by their words alone, since the embedder failed (OSError: no power)."
    assert failures[0].error == MemoryUnavailable(message, "compare")


async def test_what_is_spent_on_comparing_is_in_the_account_of_the_event(tmp_path: Path) -> None:
    model = "openai/text-embedding-3-small"
    answers = [Answer(turn.text) for turn in (planned("Answer it."), say("So."), assessed(SAID))]
    recorder = EventRecorder()
    with OpenAIServer(*answers, *answers, embed=toy_vector) as server:
        described = Personas.create("Ada").with_memory(tmp_path / "a.db", tier="2", embedding_model=model)
        asked_of = ModelConfig("openai", "gpt-4o-mini", api_key="key", base_url=server.base_url)
        described = described.with_options(model=asked_of)
        async with described.with_domain("chat").build() as ada:
            ada.subscribe(recorder)
            outcomes = [await ada.send(each) for each in ("How far is the moon?", "Who wrote Emma?")]
        asked = sum(request.path.endswith("/embeddings") for request in server.requests)
    told = recorder.of(ModelCallCompleted)
    assert asked == sum(event.purpose == "embedding" for event in told) > 0
    assert sum(each.tokens for each in outcomes) == sum(event.usage.total_tokens for event in told)


def test_a_file_says_what_makes_vectors(tmp_path: Path) -> None:
    path = tmp_path / "ada.toml"
    path.write_text(
        'name = "Ada"\nmemory = "ada.db"\ntier = "2"\nembedding_model = "openai/text-embedding-3-small"\n'
        "[model]\nmodel = 'offline'\n[learning]\nmerge_above_cosine = 0.9\n[[domains]]\nname = 'chat'\n"
    )
    config = read_persona(path).unwrap()
    assert (config.tier, config.embedding_model) == ("2", "openai/text-embedding-3-small")
    assert config.settings().learning.merge_above_cosine == 0.9
    assert Personas.from_config(path).build().persona.services.comparison.value_or(None) is not None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tier": "2"}, "embedding_model: got none, expected a model"),
        ({"tier": "1", "embedding_model": "a/b"}, "tier: got '1', expected '2'"),
        ({"tier": "2", "embedding_model": "a/b", "embedder": ToyEmbedder()}, "embedding_model: got 'a/b'"),
        ({"tier": "3"}, r"\$\.tier"),
        ({"tier": "2", "embedder": "a/b"}, "embedder: got 'a/b', expected an object with embed and model"),
    ],
)
def test_a_tier_that_does_not_fit_is_refused(options: dict[str, Any], said: str) -> None:
    described = Personas.create("Ada").with_memory("a.db", **options).with_llm(ScriptedLLM())
    with pytest.raises(AgentError, match=said):
        described.with_domain("chat").build()
