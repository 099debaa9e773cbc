"""How a strategy's transcript is put in short: its own settings before those of all strategies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from attrs import frozen

from reactive_agents.core.config import ReasoningConfig, SynthesisMode, SynthesisOverrides
from reactive_agents.reasoning.synthesis.material import SynthesisMaterial

SynthesisFunction: TypeAlias = Callable[[SynthesisMaterial], str | Awaitable[str]]
"""What earlier turns come to, as text; sync or async. It fails by raising, and with what is no text."""

GIVEN = ""
"""The name of the function that was given as such, and not by its name."""

_NONE_OF_ITS_OWN = SynthesisOverrides()


@frozen
class SynthesisSettings:
    """What the configuration comes to for one strategy.

    Attributes:
        model: of ``deep``, as ``provider/model``; ``None`` takes the run's.
        function: of ``custom``; without one, ``fast`` stands in.
    """

    mode: SynthesisMode = "auto"
    model: str | None = None
    temperature: float = 0.0
    function: SynthesisFunction | None = None


def overrides_of(config: ReasoningConfig, strategy: str) -> SynthesisOverrides:
    """The settings of a strategy's own; none for strategies that have no table in the configuration."""
    tables: dict[str, SynthesisOverrides] = {
        "reactive": config.strategies.reactive,
        "plan-execute-reflect": config.strategies.plan_execute,
        "tree-of-thought": config.strategies.tree_of_thought,
        "reflexion": config.strategies.reflexion,
    }
    return tables.get(strategy.replace("_", "-"), _NONE_OF_ITS_OWN)


def synthesis_settings(
    config: ReasoningConfig, strategy: str, functions: Mapping[str, SynthesisFunction]
) -> SynthesisSettings:
    """Each field as the strategy sets it, else as the configuration does for all strategies.

    Args:
        strategy: its registered name; ``adaptive`` and strategies of one's own have no fields of their own.
        functions: by the names that ``synthesis_strategy`` has for them.
    """
    own = overrides_of(config, strategy)
    temperature = own.synthesis_temperature
    return SynthesisSettings(
        mode=own.synthesis or config.synthesis,
        model=model_of(config, own),
        temperature=config.synthesis_temperature if temperature is None else temperature,
        function=function_of(config, own, functions),
    )


def model_of(config: ReasoningConfig, own: SynthesisOverrides) -> str | None:
    """The model of ``deep`` with its provider; a strategy's own full name needs no provider."""
    model = own.synthesis_model or config.synthesis_model
    if own.synthesis_model and "/" in own.synthesis_model and own.synthesis_provider is None:
        return model
    provider = own.synthesis_provider or config.synthesis_provider
    if not model or not provider or model.startswith(f"{provider}/"):
        return model
    return f"{provider}/{model}"


def function_of(
    config: ReasoningConfig, own: SynthesisOverrides, functions: Mapping[str, SynthesisFunction]
) -> SynthesisFunction | None:
    """The function of ``custom``: the strategy's own, else the one that was given, else the one for all."""
    if own.synthesis_strategy:
        return functions.get(own.synthesis_strategy)
    return functions.get(GIVEN) or functions.get(config.synthesis_strategy or GIVEN)
