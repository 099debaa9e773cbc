"""The tables of memories against a plain dictionary, and the pure rules around them for any text."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from property_tests.strategies import values_of, wild_texts
from reactive_agents.adapters.memory import store, vectors
from reactive_agents.adapters.memory.database import MEMORY
from reactive_agents.adapters.memory.extraction import extract_memories
from reactive_agents.adapters.memory.recall import fused, recalled, tokens_of
from reactive_agents.adapters.memory.search import keywords_of, one_line, words_of
from reactive_agents.adapters.memory.service import with_note
from reactive_agents.adapters.memory.store import (
    FORGOTTEN_BELOW,
    Reach,
    fades_at,
    microseconds,
    moment_of,
    strength,
)
from reactive_agents.adapters.memory.vectors import Embedding
from reactive_agents.adapters.sql import believed_us, day_of
from reactive_agents.adapters.sqlite import migrate
from reactive_agents.core.ids import AgentId
from reactive_agents.core.memory import (
    ForgetAgent,
    ForgetEntry,
    ForgetOlder,
    MemoryCandidate,
    MemoryEntry,
    MemoryId,
    MemoryKind,
)
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.tasks import Task
from reactive_agents.testing.core import START
from tests.support.memories import an_entry
from tests.support.profiles import examples

AGENTS = st.sampled_from([AgentId("a"), AgentId("b")])
KINDS: st.SearchStrategy[MemoryKind] = st.sampled_from(store.ALL_KINDS)
WORDS = st.lists(
    st.sampled_from(["cat", "Dog", "and", "near", "café", "1874", "élan"]), min_size=1, max_size=4
)
PAUSES = st.integers(0, 90).map(lambda days: timedelta(days=days))

Key = tuple[AgentId, MemoryKind, str]


VECTORS = st.lists(st.integers(-3, 3), min_size=2, max_size=3).filter(any)
MODELS = st.sampled_from(["m/1", "m/2"])


def embedding(model: str, numbers: Sequence[float]) -> Embedding:
    length = math.hypot(*numbers)
    return Embedding(model, tuple(number / length for number in numbers))


def cosine(one: Embedding, other: Embedding) -> float:
    return sum(a * b for a, b in zip(one.values, other.values, strict=True))


class StoreMachine(RuleBasedStateMachine):
    """Every operation on the tables, done to a dictionary as well."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        migrate(self.connection, MEMORY)
        self.model: dict[Key, MemoryEntry] = {}
        self.vectors: dict[MemoryId, Embedding] = {}
        self.now: datetime = START
        self.count = 0

    def teardown(self) -> None:
        self.connection.close()

    @rule(
        agent=AGENTS, kind=KINDS, words=WORDS, importance=st.floats(0, 1), gap=st.sampled_from([" ", "\n\t"])
    )
    def add(self, agent: AgentId, kind: MemoryKind, words: list[str], importance: float, gap: str) -> None:
        self.count += 1
        name, content = f"m{self.count}", gap.join(words)
        entry = an_entry(name, content, agent=agent, kind=kind, importance=importance, at=self.now)
        stored = store.add(self.connection, entry)
        key = (agent, kind, " ".join(words).casefold())
        known = self.model.get(key)
        if known is None:
            assert stored == evolve(entry, content=" ".join(words))
        else:
            assert (stored.id, stored.content, stored.created_at) == (
                known.id,
                known.content,
                known.created_at,
            )
            assert stored.seen_at == self.now
            assert max(known.importance, importance) <= stored.importance <= 1.0
        self.model[key] = stored

    @rule(agent=AGENTS, words=WORDS, kinds=st.sets(KINDS, min_size=1))
    def search(self, agent: AgentId, words: list[str], kinds: set[MemoryKind]) -> None:
        among = store.Living(Reach(agent), self.now, tuple(kinds))
        found = store.search(self.connection, among, " ".join(words), limit=1_000)
        wanted = {word.lower() for word in words}
        expected = {
            entry.id
            for entry in self.alive()
            if entry.agent_id == agent and entry.kind in kinds
            if wanted <= set(entry.content.lower().split())
        }
        assert {entry.id for entry in found} == expected
        assert len(found) == len(expected)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), model=MODELS, numbers=VECTORS)
    def embed(self, data: st.DataObject, model: str, numbers: list[int]) -> None:
        entry = self.model[data.draw(st.sampled_from(sorted(self.model)))]
        self.vectors[entry.id] = embedding(model, numbers)
        vectors.put(self.connection, entry.id, self.vectors[entry.id])

    @rule(agent=AGENTS, model=MODELS, numbers=VECTORS, kinds=st.sets(KINDS, min_size=1))
    def nearest(self, agent: AgentId, model: str, numbers: list[int], kinds: set[MemoryKind]) -> None:
        query = embedding(model, numbers)
        among = store.Living(Reach(agent), self.now, tuple(kinds))
        found = vectors.nearest(self.connection, among, query, limit=1_000)
        comparable = {
            entry.id: cosine(query, self.vectors[entry.id])
            for entry in self.alive()
            if entry.agent_id == agent and entry.kind in kinds and entry.id in self.vectors
            if self.vectors[entry.id].model == model
            if self.vectors[entry.id].dimension == query.dimension
        }
        near = {each.entry.id: each.cosine for each in found}
        assert len(near) == len(found)
        assert near == {key: pytest.approx(comparable[key], abs=1e-5) for key in near}
        missed = [value for key, value in comparable.items() if key not in near]
        assert all(value < vectors.LEAST_COSINE + 1e-5 for value in missed)
        assert all(a.cosine >= b.cosine - 1e-6 for a, b in pairwise(found))

    @rule(agent=AGENTS, model=MODELS, limit=st.integers(0, 4))
    def without_vector(self, agent: AgentId, model: str, limit: int) -> None:
        found = vectors.without_vector(self.connection, agent, model, self.now, limit=limit)
        lacking = [
            fades_at(entry)
            for entry in self.alive()
            if entry.agent_id == agent
            if entry.id not in self.vectors or self.vectors[entry.id].model != model
        ]
        assert [fades_at(entry) for entry in found] == sorted(lacking, reverse=True)[:limit]

    @rule(agent=AGENTS, kind=KINDS, limit=st.integers(0, 5))
    def newest(self, agent: AgentId, kind: MemoryKind, limit: int) -> None:
        found = store.newest(self.connection, Reach(agent), kind, self.now, limit=limit)
        alive = [each for each in self.alive() if (each.agent_id, each.kind) == (agent, kind)]
        assert [each.seen_at for each in found] == sorted((e.seen_at for e in alive), reverse=True)[:limit]

    @rule(words=WORDS)
    def rarest(self, words: list[str]) -> None:
        asked = keywords_of(" ".join(words))
        known = {word for entry in self.model.values() for word in words_of(entry.content)}
        assert set(store.rarest(self.connection, Reach(None), asked)) == set(asked) & known

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def forget_one(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        assert store.forget(self.connection, ForgetEntry(self.model.pop(key).id)) == 1
        assert store.forget(self.connection, ForgetEntry(MemoryId("nobody"))) == 0

    @rule(agent=AGENTS)
    def forget_agent(self, agent: AgentId) -> None:
        gone = [key for key in self.model if key[0] == agent]
        assert store.forget(self.connection, ForgetAgent(agent)) == len(gone)
        self.drop(gone)

    @rule(age=PAUSES, agent=st.none() | AGENTS)
    def forget_older(self, age: timedelta, agent: AgentId | None) -> None:
        before = self.now - age
        gone = [
            key for key, entry in self.model.items() if entry.seen_at < before and agent in (None, key[0])
        ]
        assert store.forget(self.connection, ForgetOlder(before, agent)) == len(gone)
        self.drop(gone)

    @rule(pause=PAUSES)
    def wait(self, pause: timedelta) -> None:
        before = {entry.id: strength(entry, self.now) for entry in self.model.values()}
        alive = {entry.id for entry in self.alive()}
        self.now += pause
        assert all(strength(entry, self.now) <= before[entry.id] for entry in self.model.values())
        assert {entry.id for entry in self.alive()} <= alive

    @rule()
    def delete_expired(self) -> None:
        now = microseconds(self.now)
        created = (microseconds(entry.created_at) for entry in self.model.values())
        until = believed_us(now, max((at for at in created if at < day_of(now)), default=None))
        gone = [key for key, entry in self.model.items() if fades_at(entry) <= until]
        assert store.delete_expired(self.connection, now) == len(gone)
        self.drop(gone)

    @rule(agent=AGENTS, kind=KINDS, keep=st.integers(0, 4))
    def delete_weakest(self, agent: AgentId, kind: MemoryKind, keep: int) -> None:
        mine = {key: entry for key, entry in self.model.items() if key[:2] == (agent, kind)}
        assert store.delete_weakest(self.connection, Reach(agent), kind, keep=keep) == max(
            0, len(mine) - keep
        )
        gone = [key for key, entry in mine.items() if store.get(self.connection, entry.id) is None]
        left = [fades_at(entry) for key, entry in mine.items() if key not in gone]
        assert all(fades_at(mine[key]) <= min(left, default=0) for key in gone) or not left
        self.drop(gone)

    @invariant()
    def the_tables_hold_what_the_model_holds(self) -> None:
        for entry in self.model.values():
            assert store.get(self.connection, entry.id) == entry
        (count,) = self.connection.execute("SELECT count(*) FROM memories").fetchone()
        assert count == len(self.model)

    @invariant()
    def no_vector_outlives_its_entry(self) -> None:
        stored = self.connection.execute(
            "SELECT m.id FROM memory_vectors v LEFT JOIN memories m ON m.seq = v.seq"
        ).fetchall()
        known = {entry.id for entry in self.model.values()}
        assert {entry_id for (entry_id,) in stored} == known & self.vectors.keys()

    @invariant()
    def the_index_agrees_with_the_tables(self) -> None:
        self.connection.execute("INSERT INTO memory_words (memory_words) VALUES ('integrity-check')")

    def alive(self) -> list[MemoryEntry]:
        return [entry for entry in self.model.values() if fades_at(entry) > microseconds(self.now)]

    def drop(self, keys: list[Key]) -> None:
        for key in keys:
            del self.model[key]


StoreMachine.TestCase.settings = settings(examples(15), stateful_step_count=25)
TestStore = StoreMachine.TestCase


# --- rules for any text ---------------------------------------------------------------------------------


@examples(15)
@given(st.lists(wild_texts, max_size=4), wild_texts)
def test_any_text_can_be_kept_and_searched_for(contents: list[str], query: str) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, MEMORY)
    try:
        for number, content in enumerate(contents):
            stored = store.add(connection, an_entry(f"m{number}", content))
            assert store.get(connection, stored.id) == stored
        store.search(connection, store.Living(Reach(AgentId("agent-1")), START), query)
        store.rarest(connection, Reach(None), keywords_of(query))
    finally:
        connection.close()


@given(wild_texts)
def test_a_line_is_one_line_and_stays_as_it_is(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert line.encode().decode() == line == one_line(line)


@examples(15)
@given(values_of(Task), values_of(ReasoningResult), wild_texts, wild_texts)
def test_any_run_leaves_an_episode_of_bounded_length(
    task: Task, result: ReasoningResult, text: str, output: str
) -> None:
    found = extract_memories(evolve(task, input=text), evolve(result, output=output))
    assert [each.kind for each in found].count("episodic") == 1
    assert all(0.0 <= each.importance <= 1.0 for each in found)
    assert all(len(each.content) <= 1_000 and len(each.source) <= 400 for each in found)


@given(st.floats(0, 1), KINDS, st.integers(0, 3_000))
def test_an_entry_is_forgotten_when_its_strength_says_so(
    importance: float, kind: MemoryKind, days: int
) -> None:
    entry = an_entry("m", "Fact", kind=kind, importance=importance)
    now = START + timedelta(days=days)
    if abs(strength(entry, now) - FORGOTTEN_BELOW) > 1e-9:
        assert (moment_of(fades_at(entry)) > now) == (strength(entry, now) > FORGOTTEN_BELOW)


@given(
    st.lists(st.tuples(wild_texts, st.sampled_from(["user", "tool", "model", "run"]))), st.integers(0, 200)
)
def test_what_is_recalled_fits_and_no_entry_makes_two_lines(said: list[tuple[str, str]], budget: int) -> None:
    entries = [an_entry(f"m{n}", text, origin=origin) for n, (text, origin) in enumerate(said)]  # type: ignore[arg-type]
    context = recalled("1", entries, entries, entries, entries, token_budget=budget)
    texts = (context.semantic, *context.episodes, *context.procedures, *context.prior_critiques)
    assert sum(tokens_of(text) for text in texts) <= budget
    assert all(line.startswith("- [") for line in context.semantic.splitlines())
    assert len(context.semantic.splitlines()) <= len(entries)


@given(st.lists(st.lists(st.integers(0, 12), unique=True, max_size=8), max_size=4))
def test_one_order_of_several_holds_each_once_and_agrees_with_them(rankings: list[list[int]]) -> None:
    one = fused(*rankings)
    assert sorted(one) == sorted({each for ranking in rankings for each in ranking})
    for first, second in pairwise(one):
        # what every ranking puts behind, or leaves out, is not put before
        behind = [
            first in ranking and (second not in ranking or ranking.index(first) < ranking.index(second))
            for ranking in rankings
            if first in ranking or second in ranking
        ]
        assert any(behind)
    if len(rankings) == 1:
        assert list(one) == rankings[0]


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1)), max_size=30), st.integers(1, 5))
def test_working_memory_is_bounded_and_keeps_what_matters_most(
    notes: list[tuple[int, float]], capacity: int
) -> None:
    kept: tuple[MemoryCandidate, ...] = ()
    for number, importance in notes:
        note = MemoryCandidate("working", f"Note {number}", "run", importance=importance)
        dropped = set(kept) - set(with_note(kept, note, most=capacity))
        kept = with_note(kept, note, most=capacity)
        assert len(kept) <= capacity
        assert len({each.content for each in kept}) == len(kept)
        assert all(
            lost.importance <= each.importance or lost.content == note.content
            for lost in dropped
            for each in kept
        )
