"""The laws of trees of thoughts: pruning, paths, and the bound of calls."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import anyio
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure

from reactive_agents.core.codec import decode, encode
from reactive_agents.core.config import ReasoningConfig, StrategiesConfig, TreeOfThoughtConfig
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.results import ThoughtNode, ThoughtTree
from reactive_agents.effects import attempt
from reactive_agents.reasoning.strategies.tree_of_thought import (
    REPLIES,
    VOTES,
    ThoughtScore,
    ThoughtScores,
    Vote,
    children_of,
    distinct,
    paths_of,
    pruned,
    tree_of_thought,
    with_scores,
    with_votes,
)
from tests.support.kernels import kernel_bench
from tests.support.models import DOWN, TOKENS, RuledLLM, Said, services_with
from tests.support.profiles import examples
from tests.support.strategies import strategy_input

words = st.lists(st.sampled_from(["ask", "Ask,", "the", "archive.", "8", "-", "+", "4", " "]), max_size=4)
thoughts = st.lists(words.map(" ".join) | st.text(max_size=4), max_size=8)
scores = st.none() | st.sampled_from([0.0, 0.4, 0.5, 0.9]) | st.floats(0, 1)
configs = st.builds(
    TreeOfThoughtConfig,
    st.integers(1, 3),
    st.integers(1, 3),
    st.floats(0, 1),
    st.sampled_from(["score", "vote"]),
    st.integers(1, 2),
)


def level_of(values: list[float | None]) -> tuple[ThoughtNode, ...]:
    return tuple(ThoughtNode(str(at), None, 1, f"thought {at}", value) for at, value in enumerate(values))


def alive(level: tuple[ThoughtNode, ...]) -> set[str]:
    return {node.id for node in level if not node.pruned_because}


@given(thoughts)
def test_what_is_distinct_stays_so_and_says_something(given_thoughts: list[str]) -> None:
    kept = distinct(given_thoughts)
    assert distinct(kept) == kept
    assert set(kept) <= {thought.strip() for thought in given_thoughts}
    assert len({each.casefold() for each in kept}) == len(kept)
    assert distinct([*given_thoughts, *(each.upper() for each in kept if each.isascii())]) == kept


@given(thoughts, st.integers(1, 4))
def test_children_are_numbered_below_their_parent(given_thoughts: list[str], breadth: int) -> None:
    parent = ThoughtNode("2.1", "2", 2, "before")
    children = children_of(parent, given_thoughts, breadth)
    assert len(children) == min(breadth, len(distinct(given_thoughts)))
    assert {(node.parent, node.depth) for node in children} <= {("2.1", 3)}
    assert [node.id for node in children] == [f"2.1.{n}" for n in range(1, len(children) + 1)]


@given(thoughts, thoughts)
def test_children_repeat_nothing_of_their_path(given_thoughts: list[str], before: list[str]) -> None:
    path = [ThoughtNode(str(at), None, 1, thought) for at, thought in enumerate(before)]
    children = [node.thought for node in children_of(path[-1] if path else None, given_thoughts, 9, path)]
    assert len(distinct([*before, *children])) == len(distinct(before)) + len(children)


@given(st.lists(scores, max_size=9), configs, st.floats(0, 1))
def test_a_higher_threshold_lets_no_more_survive(
    values: list[float | None], config: TreeOfThoughtConfig, other: float
) -> None:
    low, high = sorted((config.pruning_threshold, other))
    level = level_of(values)
    more = alive(pruned(level, evolve(config, pruning_threshold=low)))
    fewer = alive(pruned(level, evolve(config, pruning_threshold=high)))
    assert fewer <= more
    assert len(more) <= config.breadth


@given(st.lists(scores, max_size=9), configs)
def test_survivors_are_the_best_of_those_above_the_threshold(
    values: list[float | None], config: TreeOfThoughtConfig
) -> None:
    level = pruned(level_of(values), config)
    above = [value for value in values if value is not None and value >= config.pruning_threshold]
    kept = [node.score for node in level if not node.pruned_because]
    assert sorted(kept, reverse=True) == sorted(above, reverse=True)[: config.breadth]


@st.composite
def trees(draw: st.DrawFn) -> tuple[ThoughtNode, ...]:
    config, nodes = draw(configs), ()
    frontier: list[ThoughtNode | None] = [None]
    for _ in range(config.depth):
        families = [
            children_of(parent, [f"t{n}" for n in range(draw(st.integers(0, 3)))], 3) for parent in frontier
        ]
        level = tuple(evolve(node, score=draw(scores)) for family in families for node in family)
        level = pruned(level, config)
        nodes += level
        frontier = [node for node in level if not node.pruned_because]
        if not frontier:
            break
    return nodes


@given(trees())
def test_a_path_ends_at_a_pruned_thought_only_where_none_survived(nodes: tuple[ThoughtNode, ...]) -> None:
    paths = paths_of(nodes)
    survivors = [node for node in nodes if not node.pruned_because]
    assert bool(paths) is bool(nodes)
    for path in paths:
        assert [node.depth for node in path] == list(range(1, len(path) + 1))
        assert [node.parent for node in path] == [None, *(node.id for node in path[:-1])]
        assert not survivors or not any(node.pruned_because for node in path)
    ends = [path[-1] for path in paths]
    assert ends == sorted(ends, key=lambda node: -(node.score or 0.0))
    if survivors:
        assert {end.depth for end in ends} == {max(node.depth for node in survivors)}
    tree = ThoughtTree(nodes, tuple(node.id for node in paths[0]) if paths else ())
    assert decode(encode(tree, ThoughtTree), ThoughtTree).unwrap() == tree


numbers = st.integers(1, 12)


@given(st.lists(scores, max_size=6), st.lists(st.tuples(numbers, st.floats(0, 1))), st.integers(1, 3))
def test_judgements_of_candidates_that_there_are_not_change_nothing(
    values: list[float | None], given_scores: list[tuple[int, float]], breadth: int
) -> None:
    level = level_of([None] * len(values))
    judged = ThoughtScores(
        tuple(ThoughtScore(candidate=n, score=score) for n, score in [*given_scores, (99, 1.0)])
    )
    first = {}
    for number, score in given_scores:
        first.setdefault(number, score)
    assert [node.score for node in with_scores(level, judged)] == [
        first.get(number) for number in range(1, len(level) + 1)
    ]
    votes = [Vote(best=(number, number, 99)) for number, _ in given_scores]
    shares = [node.score for node in with_votes(level, votes, breadth)]
    assert shares == [
        sum(number == at for number, _ in given_scores) / len(votes) if votes else None
        for at in range(1, len(level) + 1)
    ]


def most_calls(config: TreeOfThoughtConfig) -> int:
    """An upper bound of the model calls of a search, without the later passes.

    The root and, on each level but the last, at most ``breadth`` thoughts are expanded, one question each.
    Scoring takes one question for the thoughts after one thought: as many again. Voting takes ``VOTES``
    questions for each level. Each question gets ``REPLIES`` replies at most.
    """
    expansions = 1 + (config.depth - 1) * config.breadth
    judgements = expansions if config.evaluation == "score" else VOTES * config.depth
    return REPLIES * (expansions + judgements)


@examples(15)
@given(st.integers(0, 10**6), configs)
def test_whatever_the_model_says_the_search_keeps_to_its_bound(
    seed: int, config: TreeOfThoughtConfig
) -> None:
    chance = Random(seed)

    def rule(request: ModelRequest) -> Said:
        fit: Any = {
            "expand": {"thoughts": chance.choices(["ask", "Ask,", "look up", " ", "wait"], k=4)},
            "score": {
                "scores": [{"candidate": n, "reason": "", "score": chance.random()} for n in (1, 2, 3)]
            },
            "vote": {"reason": "", "best": chance.choices(range(1, 9), k=3)},
        }.get(request.purpose)
        said = chance.choice(["", "none", DOWN, *["fit"] * 7])
        return (json.dumps(fit) if fit else "An answer.") if said == "fit" else said

    model = RuledLLM(rule)
    services = services_with(model, kernel_bench())
    given_input = strategy_input(
        reasoning=ReasoningConfig(strategies=StrategiesConfig(tree_of_thought=config))
    )

    async def run() -> Any:
        return await attempt(tree_of_thought(given_input, services))

    ended = anyio.run(run)
    searching = [request for request in model.requests if request.purpose != "think"]
    assert len(searching) <= most_calls(config)
    assert len(model.requests) - len(searching) <= config.breadth * config.kernel_max_iterations
    if isinstance(ended, Failure):
        assert ended.failure().cause.cause == DOWN
        return
    result = ended.unwrap()
    assert result.metadata.tokens_used == TOKENS * services.meter.usage.calls
    assert result.tree is not None
    ids = [node.id for node in result.tree.nodes]
    assert len(set(ids)) == len(ids)
    assert set(result.tree.chosen) <= set(ids)
    survivors = {node.id for node in result.tree.nodes if not node.pruned_because}
    assert not survivors or set(result.tree.chosen) <= survivors
    assert (result.status == "completed") <= (result.output in ("An answer.", "none"))
