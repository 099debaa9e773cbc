"""The contest: each entrant plays the same puzzles, with models of the same skill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from reactive_agents import ReactiveAgents
from reactive_agents.reasoning import StrategyRegistry
from tests.benchmarks.strategies.game import Numbers, is_won, play, read_steps
from tests.benchmarks.strategies.player import TASK, Player, Skill


@frozen
class Entrant:
    """A strategy with its options. ``runs``: how often it is run; the answer given most often counts."""

    name: str
    strategy: str
    options: Mapping[str, Any] = field(factory=dict)
    runs: int = 1


ENTRANTS = (
    Entrant("direct", "direct"),
    Entrant("direct, best of 8 by majority", "direct", runs=8),
    Entrant("reactive", "reactive"),
    Entrant("plan-execute-reflect", "plan-execute-reflect"),
    Entrant("reflexion", "reflexion"),
    Entrant("tree-of-thought", "tree-of-thought"),
    Entrant("tree-of-thought, by votes", "tree-of-thought", {"tree_of_thought": {"evaluation": "vote"}}),
)
"""Those whose strategy is registered take part. The player has to know what a strategy asks besides turns."""


@frozen
class Standing:
    """The score of an entrant. ``won``: 0 to 1; ``calls``: model calls a game, on average."""

    entrant: str
    step: float
    won: float
    calls: float


def entrants() -> tuple[Entrant, ...]:
    """The entrants whose strategy there is."""
    known = StrategyRegistry().names()
    return tuple(each for each in ENTRANTS if each.strategy in known)


async def compete(
    entrant: Entrant, skill: Skill, games: Sequence[Numbers], *, with_check: bool = False
) -> Standing:
    """The entrant's share of games won, and its model calls a game."""
    won = calls = 0
    for seed, numbers in enumerate(games):
        builder = ReactiveAgents.create().with_llm(Player(skill, seed))
        builder = builder.with_reasoning(entrant.strategy, strategies=dict(entrant.options))
        agent = (builder.with_tools(check_of(numbers)) if with_check else builder).build()
        answers: Counter[str] = Counter()
        for _ in range(entrant.runs):
            result = await agent.run(TASK.format(numbers=" ".join(map(str, numbers))))
            calls += result.metadata.model_calls
            answers[result.output or ""] += 1
        won += is_won(numbers, answers.most_common(1)[0][0])
    return Standing(entrant.name, skill.step, won / len(games), calls / len(games))


def check_of(numbers: Numbers) -> Any:
    """A tool that says what steps come to."""

    def check(steps: str) -> str:
        """Return the numbers that are left after the steps, one a line."""
        left = play(numbers, read_steps(steps))
        return "A step is not possible." if left is None else " ".join(map(str, left))

    return check
