"""The Game of 24: make 24 of four numbers, two of them at a time. Exact, by fractions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from random import Random

from attrs import frozen

GOAL = Fraction(24)
Numbers = tuple[Fraction, ...]
"""The numbers that are left, in order of size."""

_NUMBER = r"-?\d+(?:/\d+)?"
_STEP = re.compile(rf"({_NUMBER}) ([-+*/]) ({_NUMBER}) = ({_NUMBER})")


@frozen
class Step:
    """Two of the numbers that are left become one."""

    left: Fraction
    sign: str
    right: Fraction
    result: Fraction

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right} = {self.result}"

    def after(self, numbers: Numbers) -> Numbers | None:
        """Return the numbers that are left, or ``None`` when it is not possible with these, or false."""
        rest = list(numbers)
        for used in (self.left, self.right):
            if used not in rest:
                return None
            rest.remove(used)
        return as_numbers([*rest, self.result]) if self in _steps_of(self.left, self.right) else None


def as_numbers(values: Iterable[Fraction | int]) -> Numbers:
    """The numbers in order of size."""
    return tuple(sorted(map(Fraction, values)))


@cache
def steps(numbers: Numbers) -> tuple[Step, ...]:
    """Everything that can be done with the numbers."""
    found = dict.fromkeys(
        step
        for at, left in enumerate(numbers)
        for right in numbers[at + 1 :]
        for step in (*_steps_of(left, right), *_steps_of(right, left))
    )
    return tuple(found)


@cache
def winnable(numbers: Numbers) -> bool:
    """Whether 24 can still be made."""
    if len(numbers) == 1:
        return numbers[0] == GOAL
    return any(winnable(step.after(numbers) or ()) for step in steps(numbers)) if numbers else False


def read_steps(text: str) -> tuple[Step, ...]:
    """The steps that stand in a text."""
    return tuple(
        Step(Fraction(left), sign, Fraction(right), Fraction(result))
        for left, sign, right, result in _STEP.findall(text)
    )


def play(numbers: Numbers, taken: Iterable[Step]) -> Numbers | None:
    """Return the numbers that are left after the steps, or ``None`` when one of them is not possible."""
    left: Numbers | None = numbers
    for step in taken:
        left = step.after(left) if left is not None else None
    return left


def is_won(numbers: Numbers, answer: str) -> bool:
    """Whether the steps of an answer make 24."""
    return play(numbers, read_steps(answer)) == (GOAL,)


def puzzles(count: int, seed: int = 24) -> tuple[Numbers, ...]:
    """Different puzzles that have a solution, with numbers from 1 to 13."""
    chance, found = Random(seed), dict[Numbers, None]()
    while len(found) < count:
        numbers = as_numbers(chance.randint(1, 13) for _ in range(4))
        if winnable(numbers):
            found[numbers] = None
    return tuple(found)


def _steps_of(left: Fraction, right: Fraction) -> tuple[Step, ...]:
    made = [("+", left + right), ("-", left - right), ("*", left * right)]
    if right:
        made.append(("/", left / right))
    return tuple(Step(left, sign, right, result) for sign, result in made)
