"""Measurements of strategies in the laboratory, and the choice that they limit.

A heavier strategy costs 1.4 times the tokens of ``reactive`` or more, so it is selected only if it was
measured to give more right answers. ``make lab`` writes the measurements, ``measurements.json``: runs of
simulated models that slip in a stated share of their turns, on tasks whose answers can be checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import sqrt
from types import MappingProxyType

from attrs import evolve, field, frozen
from attrs.validators import and_, ge, le

from reactive_agents.core.codec import from_json
from reactive_agents.core.config import ContextTier
from reactive_agents.core.results import ReasoningStrategy
from reactive_agents.reasoning.selection.rules import PLAN, REACTIVE, REFLEXION, TREE, Selection

MEASUREMENTS_FILE = "measurements.json"
LEAST_RUNS = 12
"""The fewest runs of a strategy whose figures say anything."""
LEAST_GAIN = 0.05
"""The share of right answers that a heavier strategy has to add."""
_CERTAINTY = 1.64
"""Standard errors that a gain has to exceed, so that chance gives one in twenty."""
SLIPS_OF_TIER: Mapping[ContextTier, float] = MappingProxyType(
    {"local": 0.5, "mid": 0.25, "large": 0.0, "frontier": 0.0}
)
"""The share of turns in which a model of the tier is taken to slip."""
_HEAVY = frozenset({PLAN, REFLEXION, TREE})


@frozen
class Measurement:
    """The outcomes of a strategy's runs in the laboratory.

    Attributes:
        slips: share of the turns in which the simulated model slipped, 0 to 1.
        right: number of runs that were completed with the right answer.
        false_success: number of runs that were completed with a wrong answer.
        prompt_tokens: prompt tokens of all runs together.
    """

    strategy: ReasoningStrategy
    slips: float = field(validator=and_(ge(0.0), le(1.0)))
    runs: int = field(validator=ge(1))
    right: int = field(validator=ge(0))
    false_success: int = field(validator=ge(0))
    prompt_tokens: int = field(validator=ge(0))

    @property
    def share_right(self) -> float:
        """Share of right answers, 0 to 1."""
        return self.right / self.runs


@cache
def packaged_measurements() -> tuple[Measurement, ...]:
    """Return the figures that come with the package."""
    text = files("reactive_agents.reasoning.selection").joinpath(MEASUREMENTS_FILE).read_text("utf-8")
    read: tuple[Measurement, ...] = from_json(text, tuple[Measurement, ...]).unwrap()
    return read


def hold_to_gain(
    favourite: Selection,
    known: Sequence[ReasoningStrategy],
    tier: ContextTier,
    measurements: Sequence[Measurement],
) -> Selection:
    """Return the favourite if it is custom or gains by measurement, else ``reactive``."""
    if favourite.strategy not in _HEAVY or REACTIVE not in known:
        return favourite
    slips = SLIPS_OF_TIER[tier]
    found = {each.strategy: each for each in measurements if each.slips == slips and each.runs >= LEAST_RUNS}
    heavy, light = found.get(favourite.strategy), found.get(REACTIVE)
    if heavy is None or light is None:
        unmeasured = (
            f"{favourite.strategy} was not measured with a model that slips in {slips:.0%} of its turns"
        )
        return evolve(favourite, strategy=REACTIVE, reason=f"{favourite.reason}, but {unmeasured}")
    gains = heavy.share_right - light.share_right >= max(LEAST_GAIN, _CERTAINTY * _error(heavy, light))
    honest = heavy.false_success / heavy.runs <= light.false_success / light.runs
    figures = _figures(heavy, light)
    if gains and honest:
        return evolve(favourite, reason=f"{favourite.reason}; {figures}")
    return evolve(favourite, strategy=REACTIVE, reason=f"{favourite.reason}, but {figures}")


def _error(one: Measurement, other: Measurement) -> float:
    """Return the standard error of the difference of two shares."""
    return sqrt(sum(each.share_right * (1 - each.share_right) / each.runs for each in (one, other)))


def _figures(heavy: Measurement, light: Measurement) -> str:
    cost = (heavy.prompt_tokens / heavy.runs) / max(1.0, light.prompt_tokens / light.runs)
    return (
        f"in the laboratory, with {heavy.slips:.0%} of turns slipped, {heavy.strategy} was right in "
        f"{heavy.right} of {heavy.runs} runs and {REACTIVE} in {light.right} of {light.runs}, at {cost:.1f} "
        "times the tokens"
    )
