"""Queries for the memories relevant to a task, and their selection for a prompt."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from attrs import frozen

from reactive_agents.adapters.memory import store, vectors
from reactive_agents.adapters.memory.search import one_line, words_of
from reactive_agents.adapters.memory.store import Reach, strength
from reactive_agents.adapters.memory.vectors import Embedding
from reactive_agents.adapters.sql import Transaction
from reactive_agents.core.memory import MemoryContext, MemoryEntry, MemoryId, MemoryKind, MemoryTier

_CANDIDATES = 40
_FACTS_OF_USER = 8
_FIRST_FACTS = 4  # the best matches come before the user's statements, the others after them
_EPISODES = 8
_PROCEDURES = 5
_CRITIQUES = 5


@frozen
class RecallQuery:
    """The query of memory at the start of a run.

    Attributes:
        reach: the agent's memories, and those of the task's user.
        words: the significant words of the task.
        pairs: its significant character pairs, for scripts without spaces.
        embedding: the task as a vector; ``None`` for keyword search.
        problem: why it is a keyword search although there is an embedder.
    """

    reach: Reach
    words: tuple[str, ...]
    pairs: tuple[str, ...]
    embedding: Embedding | None
    now: datetime
    problem: str = ""


def recall(connection: Transaction, asked: RecallQuery, *, token_budget: int) -> MemoryContext:
    """Return the memories relevant to a task: facts, episodes, procedures, critiques."""
    reach, now = asked.reach, asked.now
    words = store.rarest(connection, reach, asked.words)
    lasting = store.strongest(connection, reach, "semantic", now, limit=_FACTS_OF_USER)
    said = (entry for entry in lasting if entry.origin == "user")
    found, _ = _found(connection, asked, words, "semantic")
    matched = ranked(found, now)
    in_order = (*matched[:_FIRST_FACTS], *said, *matched[_FIRST_FACTS:])
    facts = {entry.id: entry for entry in in_order}
    ways = store.newest(connection, reach, "procedural", now, limit=_CANDIDATES)
    critiques, cosines = _found(connection, asked, words, "critique")
    similar = of_similar_tasks(asked.words, asked.pairs, critiques, cosines)
    return recalled(
        "1" if asked.embedding is None else "2",
        facts.values(),
        store.newest(connection, reach, "episodic", now, limit=_EPISODES),
        sorted((way for way in ways if way.successes), key=_reliability, reverse=True)[:_PROCEDURES],
        list(similar)[:_CRITIQUES],
        token_budget=token_budget,
        problem=asked.problem,
    )


def _found(
    connection: Transaction, asked: RecallQuery, words: Sequence[str], kind: MemoryKind
) -> tuple[tuple[MemoryEntry, ...], dict[MemoryId, float]]:
    """Return the entries of a kind that match the task, best first, and their cosines."""
    among = store.Living(asked.reach, asked.now, (kind,))
    by_words = store.matching(connection, among, words, every=False, limit=_CANDIDATES)
    if asked.pairs:
        by_pairs = store.containing(connection, among, asked.pairs, limit=_CANDIDATES)
        by_words = fused(by_words, by_pairs)
    if asked.embedding is None:
        return by_words, {}
    near = vectors.nearest(connection, among, asked.embedding, limit=_CANDIDATES)
    cosines = {each.entry.id: each.cosine for each in near}
    return fused(by_words, [each.entry for each in near]), cosines


def _reliability(way: MemoryEntry) -> float:
    """Return the success rate, smoothed by one added success and failure."""
    return (way.successes + 1) / (way.executions + 2)


BYTES_PER_TOKEN = 3
"""A safe estimate: English has about four bytes per token, most other scripts three or more."""

LABEL_TOKENS = 8
"""The tokens around the text of an episode or procedure."""

_EPISODES_SHARE = 0.3
_PROCEDURES_SHARE = 0.15
_CRITIQUES_SHARE = 0.25
_SIMILAR_SHARE = 0.5  # of a task's significant words
_SIMILAR_COSINE = 0.5


def tokens_of(text: str) -> int:
    """Return an upper estimate of a text's tokens, for selection, not for usage."""
    return math.ceil(len(text.encode(errors="replace")) / BYTES_PER_TOKEN)


def ranked(found: Sequence[MemoryEntry], now: datetime) -> tuple[MemoryEntry, ...]:
    """Return entries ranked by match and strength."""

    def worth(place: tuple[int, MemoryEntry]) -> float:
        return strength(place[1], now) / (1.0 + place[0] / 4.0)

    return tuple(entry for _, entry in sorted(enumerate(found), key=worth, reverse=True))


def of_similar_tasks(
    words: Sequence[str],
    pairs: Sequence[str],
    critiques: Iterable[MemoryEntry],
    cosines: Mapping[MemoryId, float],
) -> Iterator[MemoryEntry]:
    """Return the critiques of similar tasks, in their order.

    Args:
        words: the significant words of the current task; a similar one has half of its words and pairs.
        pairs: its pairs of characters, in scripts without spaces.
        cosines: the similarity of entries that were also found by vectors; 0.5 is enough.
    """
    keywords = len(words) + len(pairs)
    for entry in critiques:
        shared = len(frozenset(words).intersection(words_of(entry.content)))
        shared += sum(pair in entry.content for pair in pairs)
        share = shared / keywords if keywords else 0.0
        if share >= _SIMILAR_SHARE or cosines.get(entry.id, 0.0) >= _SIMILAR_COSINE:
            yield entry


def recalled(
    tier: MemoryTier,
    facts: Iterable[MemoryEntry],
    episodes: Iterable[MemoryEntry],
    procedures: Iterable[MemoryEntry],
    critiques: Iterable[MemoryEntry] = (),
    *,
    token_budget: int,
    problem: str = "",
) -> MemoryContext:
    """Return the entries of each kind within the budget; facts get the rest."""
    ways, ways_cost = _fitting(procedures, show_procedure, int(token_budget * _PROCEDURES_SHARE))
    past, past_cost = _fitting(episodes, show_episode, int(token_budget * _EPISODES_SHARE))
    wanting, wanting_cost = _fitting(critiques, show_critique, int(token_budget * _CRITIQUES_SHARE))
    known, _ = _fitting(facts, show_fact, token_budget - ways_cost - past_cost - wanting_cost)
    return MemoryContext(tier, "\n".join(known), past, ways, wanting, problem)


def show_fact(entry: MemoryEntry) -> str:
    """Return a fact as a list item."""
    return f"- {show_critique(entry)}"


def show_critique(entry: MemoryEntry) -> str:
    """Return a critique as a line with its source and date."""
    return f"[{_origin(entry)}; {entry.seen_at:%Y-%m-%d}] {_content(entry)}"


def show_episode(entry: MemoryEntry) -> str:
    """Return an episode as a line with its date, outcome and source."""
    went = "worked" if entry.successes == entry.executions else "did not work"
    if entry.executions > 1:
        went = f"worked {entry.successes} of {entry.executions} times"
    return f"[{_origin(entry)}; {entry.seen_at:%Y-%m-%d}; {went}] {_content(entry)}"


def show_procedure(entry: MemoryEntry) -> str:
    """Return a procedure as a line with its success rate."""
    return f"{one_line(entry.content)} (worked {entry.successes} of {entry.executions} times)"


_PARENTHESES = str.maketrans("[]", "()")


def _content(entry: MemoryEntry) -> str:
    """Return the content on one line; no untrusted one can imitate a mark of origin."""
    line = one_line(entry.content)
    return line.translate(_PARENTHESES) if entry.origin in ("tool", "model") else line


def _origin(entry: MemoryEntry) -> str:
    source = one_line(entry.source).translate(_PARENTHESES)
    match entry.origin:
        case "user":
            return "said by the user"
        case "run":
            return "recorded by the framework"
        case "model":
            return f"from a model's {'critique' if entry.kind == 'critique' else 'answer'}, unverified"
        case "tool":
            return f"from the tool {source or 'of an earlier run'}, untrusted"


def _fitting(
    entries: Iterable[MemoryEntry], show: Callable[[MemoryEntry], str], budget: int
) -> tuple[tuple[str, ...], int]:
    lines: list[str] = []
    spent = 0
    for entry in entries:
        line = show(entry)
        cost = tokens_of(line) + LABEL_TOKENS
        if spent + cost <= budget:
            lines.append(line)
            spent += cost
    return tuple(lines), spent


_T = TypeVar("_T", bound=Hashable)

SMOOTHING = 60
"""The constant that flattens the weights of ranks; the value recommended by its authors."""


def fused(*rankings: Sequence[_T]) -> tuple[_T, ...]:
    """Return one ranking of the items in several rankings, each once.

    Reciprocal rank fusion, by G. V. Cormack, C. L. A. Clarke and S. Büttcher, "Reciprocal rank fusion
    outperforms Condorcet and individual rank learning methods", SIGIR 2009. Of equal ones, that of an earlier
    ranking and position comes first; no item occurs twice in one ranking.

    >>> fused(["a", "b", "c"], ["c", "a"])
    ('a', 'c', 'b')
    """
    scores: dict[_T, float] = {}
    for ranking in rankings:
        for place, each in enumerate(ranking, start=1):
            scores[each] = scores.get(each, 0.0) + 1.0 / (SMOOTHING + place)
    return tuple(sorted(scores, key=lambda each: -scores[each]))
