"""What of the memory is shown at the start of a run, and in which words: pure, within a budget of tokens.

Every entry is one line that begins with where it comes from, so that text out of a tool can neither pass for
a person's words nor pretend to be an entry of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from reactive_agents.adapters.memory.fading import strength
from reactive_agents.adapters.memory.search import one_line, words_of
from reactive_agents.core.memory import MemoryContext, MemoryEntry, MemoryId, MemoryTier

BYTES_PER_TOKEN = 3
"""On the safe side: English has about four bytes to a token, and most other scripts three or more."""

LABEL_TOKENS = 8
"""What the frame around an episode or a procedure costs besides its text."""

_EPISODES_SHARE = 0.3
_PROCEDURES_SHARE = 0.15
_CRITIQUES_SHARE = 0.25
_SIMILAR_SHARE = 0.5  # of a task's telling words
_SIMILAR_COSINE = 0.5


def tokens_of(text: str) -> int:
    """An upper estimate of the tokens of a text; for choosing what to show, never for accounts."""
    return math.ceil(len(text.encode(errors="replace")) / BYTES_PER_TOKEN)


def ranked(found: Sequence[MemoryEntry], now: datetime) -> tuple[MemoryEntry, ...]:
    """Entries in the order of their match, brought into the order of match and strength together."""

    def worth(place: tuple[int, MemoryEntry]) -> float:
        return strength(place[1], now) / (1.0 + place[0] / 4.0)

    return tuple(entry for _, entry in sorted(enumerate(found), key=worth, reverse=True))


def of_similar_tasks(
    words: Sequence[str],
    pairs: Sequence[str],
    critiques: Iterable[MemoryEntry],
    cosines: Mapping[MemoryId, float],
) -> Iterator[MemoryEntry]:
    """Those of the critiques whose task is like the one at hand, in their order.

    Args:
        words: the telling words of the task at hand; a similar one has half of them and the pairs together.
        pairs: its telling pairs of characters, where words are not told apart by spaces.
        cosines: how near the entries are that were also found by their vectors; 0.5 is near enough.
    """
    telling = len(words) + len(pairs)
    for entry in critiques:
        shared = len(frozenset(words).intersection(words_of(entry.content)))
        shared += sum(pair in entry.content for pair in pairs)
        share = shared / telling if telling else 0.0
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
    """The first of each that fit into the budget; what the others leave over goes to facts."""
    ways, ways_cost = _fitting(procedures, show_procedure, int(token_budget * _PROCEDURES_SHARE))
    past, past_cost = _fitting(episodes, show_episode, int(token_budget * _EPISODES_SHARE))
    wanting, wanting_cost = _fitting(critiques, show_critique, int(token_budget * _CRITIQUES_SHARE))
    known, _ = _fitting(facts, show_fact, token_budget - ways_cost - past_cost - wanting_cost)
    return MemoryContext(tier, "\n".join(known), past, ways, wanting, problem)


def show_fact(entry: MemoryEntry) -> str:
    """The fact as a line of a list."""
    return f"- {show_critique(entry)}"


def show_critique(entry: MemoryEntry) -> str:
    """The critique after who said it and when."""
    return f"[{_origin(entry)}; {entry.seen_at:%Y-%m-%d}] {one_line(entry.content)}"


def show_episode(entry: MemoryEntry) -> str:
    """The episode as a line with its date, how it went, and who says so."""
    went = "worked" if entry.successes == entry.executions else "did not work"
    if entry.executions > 1:
        went = f"worked {entry.successes} of {entry.executions} times"
    return f"[{_origin(entry)}; {entry.seen_at:%Y-%m-%d}; {went}] {one_line(entry.content)}"


def show_procedure(entry: MemoryEntry) -> str:
    """The procedure with how often it worked."""
    return f"{one_line(entry.content)} (worked {entry.successes} of {entry.executions} times)"


def _origin(entry: MemoryEntry) -> str:
    source = one_line(entry.source).translate({ord("["): "(", ord("]"): ")"})
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
