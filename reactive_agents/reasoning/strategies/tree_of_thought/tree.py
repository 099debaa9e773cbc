"""Trees of thoughts as pure functions: growth, pruning and paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve

from reactive_agents.core.config import TreeOfThoughtConfig
from reactive_agents.core.results import ThoughtNode

_AROUND_WORDS = ".,;:!?\"'`“”‘’…"


def distinct(thoughts: Iterable[str]) -> tuple[str, ...]:
    """Return the thoughts that are not blank, each once, by their words.

    Case, white space and punctuation around words do not distinguish thoughts.

    Signs by themselves count, so that ``8 - 4`` is not ``8 + 4``.
    """
    seen: dict[tuple[str, ...], str] = {}
    for thought in thoughts:
        key = _words_of(thought)
        if key:
            seen.setdefault(key, thought.strip())
    return tuple(seen.values())


def _words_of(thought: str) -> tuple[str, ...]:
    words = (word.strip(_AROUND_WORDS) for word in thought.casefold().split())
    return tuple(word for word in words if word)


def children_of(
    parent: ThoughtNode | None, thoughts: Iterable[str], breadth: int, path: Sequence[ThoughtNode] = ()
) -> tuple[ThoughtNode, ...]:
    """Return the nodes after a node, or of the first level, from distinct thoughts.

    Args:
        path: the thoughts to the parent and itself, which are not thought again.
    """
    before = {_words_of(node.thought) for node in path}
    new = [thought for thought in distinct(thoughts) if _words_of(thought) not in before]
    prefix, above, depth = (f"{parent.id}.", parent.id, parent.depth + 1) if parent else ("", None, 1)
    return tuple(
        ThoughtNode(f"{prefix}{number}", above, depth, thought)
        for number, thought in enumerate(new[:breadth], 1)
    )


def pruned(level: Sequence[ThoughtNode], config: TreeOfThoughtConfig) -> tuple[ThoughtNode, ...]:
    """Return the level, with a reason at each thought that the search drops.

    Those that survive have at least the threshold's score, and are the ``breadth`` best; of equal scores, the
    first. A higher threshold never lets more of them survive.
    """
    beam = {node.id for node in by_score(level)[: config.breadth]}
    return tuple(evolve(node, pruned_because=_reason_to_drop(node, beam, config)) for node in level)


def survivors(level: Iterable[ThoughtNode]) -> tuple[ThoughtNode, ...]:
    """Return the thoughts that the search continues from, the best first."""
    return by_score(node for node in level if not node.pruned_because)


def by_score(nodes: Iterable[ThoughtNode]) -> tuple[ThoughtNode, ...]:
    """Return the nodes, the best first; unscored ones last."""
    return tuple(sorted(nodes, key=lambda node: -1.0 if node.score is None else node.score, reverse=True))


def _reason_to_drop(node: ThoughtNode, beam: set[str], config: TreeOfThoughtConfig) -> str:
    if node.score is None:
        return "it could not be judged"
    if node.score < config.pruning_threshold:
        return f"its score of {node.score:.2f} is below the threshold of {config.pruning_threshold:.2f}"
    return "" if node.id in beam else f"{config.breadth} thoughts of its level are better"


# --- The paths of a tree of thoughts that are worth following ---


def paths_of(nodes: Sequence[ThoughtNode]) -> tuple[tuple[ThoughtNode, ...], ...]:
    """Return the paths to follow, the best first, each from the first level down.

    They lead to the thoughts after which nothing is left to think out, and then to the survivors of the
    deepest level that has any. Where no thought survived at all, the only path is the thought of the first
    level with the best score. There is none in an empty tree.
    """
    known = {node.id: node for node in nodes}
    alive = survivors(nodes)
    deepest = max((node.depth for node in alive), default=0)
    finished = tuple(node for node in alive if node.finished)
    ends = finished + tuple(node for node in alive if node.depth == deepest and not node.finished)
    ends = ends or by_score(node for node in nodes if node.depth == 1)[:1]
    return tuple(path_to(end, known) for end in ends)


def path_to(node: ThoughtNode, known: Mapping[str, ThoughtNode]) -> tuple[ThoughtNode, ...]:
    """Return the thoughts from the first level to this one."""
    path = [node]
    while path[-1].parent is not None:
        path.append(known[path[-1].parent])
    return tuple(reversed(path))


def thoughts_on(path: Sequence[ThoughtNode]) -> str:
    """Return the thoughts of a path as a numbered list."""
    return "\n".join(f"{number}. {node.thought}" for number, node in enumerate(path, 1))
