"""Trees of thoughts: growing, pruning and reading them as pure functions, and the search that does it."""

from __future__ import annotations

from reactive_agents.reasoning.tree.calls import most_calls
from reactive_agents.reasoning.tree.growth import children_of, distinct, pruned
from reactive_agents.reasoning.tree.paths import paths_of, thoughts_on
from reactive_agents.reasoning.tree.search import Searched, search_tree

__all__ = [
    "Searched",
    "children_of",
    "distinct",
    "most_calls",
    "paths_of",
    "pruned",
    "search_tree",
    "thoughts_on",
]
