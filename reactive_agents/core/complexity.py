"""Estimates of a task's complexity by heuristics, without a model."""

from __future__ import annotations

import re

from reactive_agents.core.tasks import Task

COMPLEX_TYPES = frozenset({"research", "analysis", "creative", "multi-step"})
"""Types of tasks that take more than a question does, whatever their words."""

READ_CHARACTERS = 8_000
"""Characters of a task that are looked at; what is longer is as hard as it gets by its length."""

_LONG_WORDS = 300
_MANY_DEMANDS = 6
_MANY_STEPS = 6

_THINKING = re.compile(
    r"\b(?:analy[sz]\w*|architect\w*|compar\w*|critici\w*|debug\w*|deriv\w*|design\w*|diagnos\w*|evaluat\w*|"
    r"implement\w*|investigat\w*|migrat\w*|multi-?step|optimi[sz]\w*|plan|planning|prov(?:e|ing)|reason\w*|"
    r"refactor\w*|research\w*|root cause|step[- ]by[- ]step|strateg\w*|synthesi[sz]\w*|trade-?offs?|why)\b",
    re.IGNORECASE,
)
_DEMANDS = re.compile(
    r"\b(?:must|should|at least|at most|exactly|only|without|unless|except|ensure|each|every)\b",
    re.IGNORECASE,
)
_STEPS = re.compile(
    r"^\s{0,8}(?:[-*•]|\d{1,3}[.)])\s|\b(?:then|after that|afterwards|finally|next)\b|\?",
    re.IGNORECASE | re.MULTILINE,
)
_FORMAL = re.compile(
    r"```|\b(?:def|class|SELECT|function|import|struct)\b.{0,80}[({;:]|[∑∫√≤≥∀∃]|\\(?:frac|sum|int)\b"
)


def analyze_complexity(task_description: str, task_type: str = "query") -> float:
    """Return a task's complexity: 0 for a greeting, 1 for many steps and conditions.

    The sum of five indicators, each up to its share: words that ask for reasoning (0.3, two are enough),
    length (0.2 at 300 words), steps and questions (0.2 at 6), conditions (0.15 at 6), and code or formulas
    (0.15); and 0.3 more for a type of task that is known to be hard, such as ``research``. The words are
    English; the other indicators work in any language.
    """
    text = task_description[:READ_CHARACTERS]
    score = (
        0.3 * _share(_THINKING, text, 2)
        + 0.2 * min(1.0, len(text.split()) / _LONG_WORDS)
        + 0.2 * _share(_STEPS, text, _MANY_STEPS)
        + 0.15 * _share(_DEMANDS, text, _MANY_DEMANDS)
        + 0.15 * _share(_FORMAL, text, 1)
        + 0.3 * (task_type in COMPLEX_TYPES)
    )
    return round(min(1.0, score), 3)


def task_complexity(task: Task) -> float:
    """Return the complexity of a task, 0 to 1; at least 0.5 for a critical one."""
    score = analyze_complexity(task.input, task.type)
    return max(score, 0.5) if task.priority == "critical" else score


def estimated_tokens(size: int) -> int:
    """Return an upper estimate of the tokens of a text: one for three bytes of UTF-8."""
    return size // 3 + 1


def _share(pattern: re.Pattern[str], text: str, enough: int) -> float:
    found = 0
    for _ in pattern.finditer(text):
        found += 1
        if found == enough:
            break
    return found / enough
