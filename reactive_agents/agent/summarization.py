"""Resolution of compaction options: default models and functions by name."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.adapters.llm.providers import default_model
from reactive_agents.agent.tool_references import imported
from reactive_agents.core.config import CompactionConfig, ReasoningConfig
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.kernel import CompactionFunction
from reactive_agents.reasoning.strategy import GIVEN_FUNCTION

STRATEGIES = ("reactive", "plan_execute", "tree_of_thought", "reflexion")


def prepare_compaction(
    reasoning: ReasoningConfig | None, given: CompactionFunction | None
) -> Result[tuple[ReasoningConfig | None, Mapping[str, CompactionFunction]], InvalidConfig]:
    """Return the configuration with default models and functions filled in.

    Fails for a function that cannot be found, for ``custom`` without one, for one that nothing uses, and for
    a provider without a default model.
    """
    functions: dict[str, CompactionFunction] = {} if given is None else {GIVEN_FUNCTION: given}
    unused = given is not None
    if reasoning is not None:
        ready = _prepared(reasoning.compaction, "reasoning.compaction", functions)
        if isinstance(ready, Failure):
            return ready
        unused = unused and not _takes_given(reasoning.compaction)
        reasoning = evolve(reasoning, compaction=ready.unwrap())
        for name in STRATEGIES:
            options = getattr(reasoning.strategies, name)
            if options.compaction is None:
                continue
            ready = _prepared(options.compaction, f"reasoning.strategies.{name}.compaction", functions)
            if isinstance(ready, Failure):
                return ready
            unused = unused and not _takes_given(options.compaction)
            changed = {name: evolve(options, compaction=ready.unwrap())}
            reasoning = evolve(reasoning, strategies=evolve(reasoning.strategies, **changed))
    if unused:
        expected = "with_reasoning(compaction={'method': 'custom'}), or that for one of the strategies"
        return Failure(InvalidConfig("compaction_function", repr(given), expected))
    return Success((reasoning, functions))


def _takes_given(config: CompactionConfig) -> bool:
    return config.method == "custom" and not config.function


def _prepared(
    config: CompactionConfig, option: str, functions: dict[str, CompactionFunction]
) -> Result[CompactionConfig, InvalidConfig]:
    if config.function:
        found = imported(config.function, f"{option}.function")
        if isinstance(found, Failure):
            return Failure(found.failure())
        if not callable(found.unwrap()):
            return Failure(
                InvalidConfig(f"{option}.function", repr(config.function), "the name of a function")
            )
        functions[config.function] = found.unwrap()
    if _takes_given(config) and GIVEN_FUNCTION not in functions:
        expected = "a function for 'custom': with_compaction_function(function), or module:function"
        return Failure(InvalidConfig(f"{option}.function", "none", expected))
    if config.provider and not config.model:
        model = default_model(config.provider)
        if model is None:
            expected = "a provider with a default model, or a model"
            return Failure(InvalidConfig(f"{option}.provider", repr(config.provider), expected))
        config = evolve(config, model=model)
    return Success(config)
