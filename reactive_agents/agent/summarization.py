"""How earlier turns are put in short, made ready: default models filled in, functions found by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.adapters.llm.providers import default_model
from reactive_agents.agent.tool_references import imported
from reactive_agents.core.config import ReasoningConfig, SynthesisOverrides
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.reasoning.synthesis import GIVEN, SynthesisFunction
from reactive_agents.reasoning.synthesis.settings import function_of, model_of

Synthesizers = Mapping[str, SynthesisFunction]
_TOP = SynthesisOverrides()


def prepare_synthesis(
    reasoning: ReasoningConfig | None, given: SynthesisFunction | None
) -> Result[tuple[ReasoningConfig | None, Synthesizers], InvalidConfig]:
    """The configuration with the models of providers that name none, and the functions by their names.

    Fails for a function that cannot be found, for ``custom`` without one, for one that nothing uses, and for
    a provider without a model of its own.
    """
    if reasoning is None:
        unused = InvalidConfig("synthesis_strategy", repr(given), "with_reasoning(synthesis='custom')")
        return Success((None, {})) if given is None else Failure(unused)
    functions = _functions(reasoning, given)
    if isinstance(functions, Failure):
        return Failure(functions.failure())
    problem = _unfit(reasoning, given, functions.unwrap())
    if problem is not None:
        return Failure(problem)
    return _with_models(reasoning).map(lambda ready: (ready, functions.unwrap()))


def _places(reasoning: ReasoningConfig) -> dict[str, SynthesisOverrides]:
    """Where it can be configured, by the path of the option; the first is for all strategies."""
    tables = reasoning.strategies
    return {
        "reasoning": _TOP,
        "reasoning.strategies.reactive": tables.reactive,
        "reasoning.strategies.plan_execute": tables.plan_execute,
        "reasoning.strategies.tree_of_thought": tables.tree_of_thought,
        "reasoning.strategies.reflexion": tables.reflexion,
    }


def _functions(
    reasoning: ReasoningConfig, given: SynthesisFunction | None
) -> Result[Synthesizers, InvalidConfig]:
    functions: dict[str, SynthesisFunction] = {} if given is None else {GIVEN: given}
    for path, own in _places(reasoning).items():
        name = reasoning.synthesis_strategy if own is _TOP else own.synthesis_strategy
        if not name:
            continue
        option = f"{path}.synthesis_strategy"
        found = imported(name, option)
        if isinstance(found, Failure):
            return Failure(found.failure())
        if not callable(found.unwrap()):
            return Failure(InvalidConfig(option, repr(name), "the name of a function"))
        functions[name] = found.unwrap()
    return Success(functions)


def _unfit(
    reasoning: ReasoningConfig, given: SynthesisFunction | None, functions: Synthesizers
) -> InvalidConfig | None:
    used = False
    for path, own in _places(reasoning).items():
        if (own.synthesis or reasoning.synthesis) != "custom":
            continue
        function = function_of(reasoning, own, functions)
        if function is None:
            expected = "a function for 'custom': with_synthesis_strategy(function), or module:function"
            return InvalidConfig(f"{path}.synthesis_strategy", "none", expected)
        used = used or function is given
    if given is not None and not used:
        expected = "with_reasoning(synthesis='custom'), or custom for one of the strategies"
        return InvalidConfig("synthesis_strategy", repr(given), expected)
    return None


def _with_models(reasoning: ReasoningConfig) -> Result[ReasoningConfig, InvalidConfig]:
    for path, own in _places(reasoning).items():
        provider = reasoning.synthesis_provider if own is _TOP else own.synthesis_provider
        if not provider or model_of(reasoning, own):
            continue
        model = default_model(provider)
        if model is None:
            expected = "a provider with a default model, or a synthesis_model"
            return Failure(InvalidConfig(f"{path}.synthesis_provider", repr(provider), expected))
        if own is _TOP:
            reasoning = evolve(reasoning, synthesis_model=model)
        else:
            table = path.rpartition(".")[2]
            changed: dict[str, Any] = {table: evolve(own, synthesis_model=model)}
            reasoning = evolve(reasoning, strategies=evolve(reasoning.strategies, **changed))
    return Success(reasoning)
