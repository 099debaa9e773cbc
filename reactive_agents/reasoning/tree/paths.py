"""The paths of a tree of thoughts that are worth following."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reactive_agents.core.reasoning import ThoughtNode
from reactive_agents.reasoning.tree.growth import by_score, survivors


def paths_of(nodes: Sequence[ThoughtNode]) -> tuple[tuple[ThoughtNode, ...], ...]:
    """The paths to follow, the best first, each from the first level down.

    They lead to the survivors of the deepest level that has any. Where no thought survived at all, the only
    path is the thought of the first level with the best score. There is none in an empty tree.
    """
    known = {node.id: node for node in nodes}
    alive = survivors(nodes)
    deepest = max((node.depth for node in alive), default=0)
    ends = tuple(node for node in alive if node.depth == deepest)
    ends = ends or by_score(node for node in nodes if node.depth == 1)[:1]
    return tuple(path_to(end, known) for end in ends)


def path_to(node: ThoughtNode, known: Mapping[str, ThoughtNode]) -> tuple[ThoughtNode, ...]:
    """The thoughts from the first level to this one."""
    path = [node]
    while path[-1].parent is not None:
        path.append(known[path[-1].parent])
    return tuple(reversed(path))


def thoughts_on(path: Sequence[ThoughtNode]) -> str:
    """The thoughts of a path as a numbered list."""
    return "\n".join(f"{number}. {node.thought}" for number, node in enumerate(path, 1))
