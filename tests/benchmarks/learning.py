"""How fast the choice of a strategy learns: known success rates, 1,000 tasks, and the regret that adds up.

``python -m tests.benchmarks.learning`` prints the figures and writes the plot of docs/adaptive-strategy.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from attrs import define, field

from reactive_agents.core.results import SelectionContext, StrategyEffectiveness
from reactive_agents.core.tasks import analyze_complexity
from reactive_agents.reasoning.selection.history import choose_by_history
from reactive_agents.reasoning.selection.rules import choose_by_rules, learned_type
from reactive_agents.testing.core import START

PLOT = Path(__file__).parents[2] / "docs" / "learning.svg"
TASKS = 1_000
SEEDS = tuple("abcdefgh")

COST_USD: Mapping[str, float] = {
    "reactive": 0.01,
    "plan-execute-reflect": 0.04,
    "reflexion": 0.05,
    "tree-of-thought": 0.12,
}
RATES: Mapping[str, Mapping[str, float]] = {
    "What is the capital of Peru?": {
        "reactive": 0.92,
        "plan-execute-reflect": 0.85,
        "reflexion": 0.8,
        "tree-of-thought": 0.5,
    },
    "Write a report on the outage.": {  # the rules take reflexion, and are right
        "reactive": 0.5,
        "plan-execute-reflect": 0.6,
        "reflexion": 0.9,
        "tree-of-thought": 0.55,
    },
    "Research the market and then compile a table.": {  # they take plan-execute-reflect, and are wrong
        "reactive": 0.85,
        "plan-execute-reflect": 0.35,
        "reflexion": 0.4,
        "tree-of-thought": 0.3,
    },
    "Brainstorm names for a bakery.": {  # they take tree-of-thought, and are wrong
        "reactive": 0.3,
        "plan-execute-reflect": 0.25,
        "reflexion": 0.8,
        "tree-of-thought": 0.45,
    },
}
"""The chance of success of each strategy on each kind of task; in two of four the rules are wrong."""


@define
class Course:
    """A simulation. ``regret``: after each task, the chances of success that were given away until then."""

    regret: list[float] = field(factory=list)
    chosen: Counter[str] = field(factory=Counter)


def simulate(tasks: int, seed: str, *, uniform: bool = False) -> Course:
    """The course of so many tasks.

    Args:
        seed: what kinds of task, draws and successes follow from.
        uniform: whether strategies are chosen at random instead.
    """
    course, regret = Course(), 0.0
    known: dict[tuple[str, str], StrategyEffectiveness] = {}
    for number in range(tasks):
        task = list(RATES)[int(_chance(f"{seed} task {number}") * len(RATES))]
        rates = RATES[task]
        if uniform:
            strategy = list(rates)[int(_chance(f"{seed} any {number}") * len(rates))]
        else:
            strategy = _choose(task, tuple(known.values()), f"{seed} {number}")
        success = _chance(f"{seed} success {number}") < rates[strategy]
        task_type = learned_type(task, "query")
        known[strategy, task_type] = _after(known.get((strategy, task_type)), strategy, task_type, success)
        regret += max(rates.values()) - rates[strategy]
        course.regret.append(regret)
        course.chosen[strategy] += 1
    return course


def _choose(task: str, records: tuple[StrategyEffectiveness, ...], seed: str) -> str:
    context = SelectionContext(task, "query", analyze_complexity(task), 0.5)
    history = [each for each in records if each.task_type == learned_type(task, "query")]
    favourite = choose_by_rules(context, tuple(COST_USD))
    return choose_by_history(favourite, history, tuple(COST_USD), context, seed=seed).strategy


def _after(
    before: StrategyEffectiveness | None, strategy: str, task_type: str, success: bool
) -> StrategyEffectiveness:
    count = before.executions if before else 0
    worked = before.success_rate * count if before else 0.0
    rate = (worked + success) / (count + 1)
    return StrategyEffectiveness(strategy, task_type, rate, COST_USD[strategy], 1.0, 0.5, count + 1, START)


def _chance(text: str) -> float:
    return int.from_bytes(sha256(text.encode()).digest()[:6]) / 2**48


def _mean(courses: list[Course]) -> list[float]:
    return [sum(values) / len(values) for values in zip(*(each.regret for each in courses), strict=True)]


def _plot(lines: Mapping[str, list[float]]) -> str:
    width, height, left, top = 640, 320, 56, 24
    highest = max(max(values) for values in lines.values())
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 160} {height + 72}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{width + 160}" height="{height + 72}" fill="white"/>',
        f'<path d="M{left} {top}V{top + height}H{left + width}" fill="none" stroke="#444"/>',
        f'<text x="{left + width / 2}" y="{top + height + 36}" text-anchor="middle">tasks</text>',
        f'<text x="{left}" y="{top - 8}">cumulative regret</text>',
    ]
    for tick in range(0, TASKS + 1, 250):
        x = left + width * tick / TASKS
        drawn.append(f'<text x="{x:.0f}" y="{top + height + 18}" text-anchor="middle">{tick}</text>')
    for tick in range(0, int(highest) + 1, 100):
        y = top + height * (1 - tick / highest)
        drawn.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{tick}</text>')
    for (name, values), colour in zip(lines.items(), ("#b33", "#27a"), strict=True):
        places = [
            f"{left + width * (n + 1) / TASKS:.1f},{top + height * (1 - values[n] / highest):.1f}"
            for n in range(0, TASKS, 10)
        ]
        drawn.append(
            f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        y = top + height * (1 - values[-1] / highest)
        drawn.append(f'<text x="{left + width + 6}" y="{y + 4:.0f}" fill="{colour}">{name}</text>')
    return "\n".join((*drawn, "</svg>\n"))


def main() -> None:
    """Print the figures, and write the plot."""
    learned = [simulate(TASKS, seed) for seed in SEEDS]
    uniform = [simulate(TASKS, seed, uniform=True) for seed in SEEDS]
    for seed, one, other in zip(SEEDS, learned, uniform, strict=True):
        share = one.regret[-1] / other.regret[-1]
        print(f"{seed}: learned {one.regret[-1]:.1f}, uniform {other.regret[-1]:.1f}, {share:.0%}")
    lines = {"uniform choice": _mean(uniform), "learned choice": _mean(learned)}
    print({name: round(values[-1], 1) for name, values in lines.items()})
    PLOT.write_text(_plot(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
