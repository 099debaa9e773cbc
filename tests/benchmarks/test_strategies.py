"""The benchmark of the strategies, with few games: it plays, its figures are sound, and judgement pays."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.strategies.__main__ import DOCS, contest
from tests.benchmarks.strategies.contest import compete, entrants
from tests.benchmarks.strategies.game import (
    Numbers,
    as_numbers,
    is_won,
    play,
    puzzles,
    read_steps,
    steps,
    winnable,
)
from tests.benchmarks.strategies.player import Skill, first_wrong
from tests.benchmarks.strategies.report import plot, table

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def games() -> tuple[Numbers, ...]:
    return puzzles(12)


@given(st.lists(st.integers(1, 13), min_size=2, max_size=3))
def test_a_game_is_winnable_when_one_of_its_steps_leaves_it_so(values: list[int]) -> None:
    numbers = as_numbers(values)
    following = [step.after(numbers) for step in steps(numbers)]
    assert all(left is not None and len(left) == len(numbers) - 1 for left in following)
    assert winnable(numbers) is any(winnable(left) for left in following if left is not None)
    for step in steps(numbers):
        assert read_steps(f"First {step}.") == (step,)


def test_only_three_possible_steps_to_24_win(games: tuple[Numbers, ...]) -> None:
    numbers = as_numbers([4, 7, 8, 8])
    assert is_won(numbers, "8 / 8 = 1\n7 - 1 = 6\n4 * 6 = 24")
    assert not is_won(numbers, "8 / 8 = 1\n7 - 1 = 6")
    assert not is_won(numbers, "8 / 8 = 1\n7 - 1 = 6\n6 + 4 = 24")
    assert not is_won(numbers, "9 / 8 = 9/8")
    assert play(numbers, read_steps("8 / 7 = 8/7")) == as_numbers([4, 8, Fraction(8, 7)])
    assert first_wrong(numbers, read_steps("8 / 8 = 1\n7 * 4 = 28\n28 + 1 = 29")) == 2
    assert len(set(games)) == len(games)
    assert all(map(winnable, games))


@pytest.mark.system
@pytest.mark.parametrize("with_check", [False, True])
async def test_a_model_without_fault_wins_every_game(games: tuple[Numbers, ...], with_check: bool) -> None:
    perfect = Skill(1.0, critic=1.0, noise=0.0)
    for entrant in entrants():
        standing = await compete(entrant, perfect, games[:3], with_check=with_check)
        assert (standing.won, standing.entrant) == (1.0, entrant.name)


@pytest.mark.system
async def test_judgement_pays(games: tuple[Numbers, ...]) -> None:
    standings = await contest(games, (0.7,), with_check=False)
    won = {each.entrant: each.won for each in standings}
    calls = {each.entrant: each.calls for each in standings}
    assert won["tree-of-thought"] > won["direct, best of 8 by majority"]
    assert won["reflexion"] > won["reactive"]
    assert (calls["direct"], calls["reactive"]) == (1.0, 1.0)
    assert calls["reflexion"] <= 8
    assert calls["tree-of-thought"] <= 15
    assert "| reflexion | " in table(standings)
    drawn = ElementTree.fromstring(plot(standings))
    assert len(drawn.findall("{http://www.w3.org/2000/svg}polyline")) == len(entrants())


@pytest.mark.system
async def test_the_same_game_ends_the_same_way(games: tuple[Numbers, ...]) -> None:
    for entrant in entrants():
        first, second = [await compete(entrant, Skill(0.6), games[:2]) for _ in range(2)]
        assert first == second


def test_the_page_has_the_tables_and_the_plot() -> None:
    page = (DOCS / "strategies.md").read_text(encoding="utf-8")
    for entrant in entrants():
        assert f"| {entrant.name} | " in page
    assert "(strategies.svg)" in page
    ElementTree.parse(DOCS / "strategies.svg")
