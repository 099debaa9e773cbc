"""The strategies of one kernel run, ``reactive`` and ``direct``.

The reactive strategy is ReAct (Yao et al., 2022, arXiv:2210.03629). The direct one asks the model, runs its
calls and accepts its first text.
"""

from __future__ import annotations

from reactive_agents.core import errors
from reactive_agents.core.config import DEFAULT_KERNEL
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.settings import DEFAULT_MAX_ITERATIONS
from reactive_agents.effects import Effect
from reactive_agents.kernel import KernelRunOptions
from reactive_agents.reasoning import strategy
from reactive_agents.reasoning.passes import has_tools, loop_instructions, run_once

REACTIVE = "reactive"


def reactive(
    strategy_input: strategy.StrategyInput, services: strategy.StrategyServices
) -> Effect[ReasoningResult, errors.ReasoningErrors]:
    """Think, act and observe until there is an answer or the limit is reached.

    Fails with ``StrategyExecutionError`` when the model does not answer.
    """
    config = strategy_input.config.strategies.reactive
    turns = strategy_input.max_iterations or config.max_iterations
    is_brief = strategy.profile_of(strategy_input, services).is_brief
    task = strategy.kernel_input(
        strategy_input,
        instructions=loop_instructions(turns, is_brief=is_brief) if has_tools(services) else "",
        temperature=config.temperature,
        compaction=strategy.compaction_of(strategy_input.config, REACTIVE, services),
    )
    options = KernelRunOptions(
        max_iterations=turns,
        strategy=REACTIVE,
        kernel_type=strategy_input.config.kernel,
        kernel_pass="reactive:main",
    )
    return run_once(strategy_input.config.kernel, task, options, services)


DIRECT = "direct"


def direct(
    strategy_input: strategy.StrategyInput, services: strategy.StrategyServices
) -> Effect[ReasoningResult, errors.ReasoningErrors]:
    """Run the loop without reasoning, or the configured kernel in its place."""
    kernel = strategy_input.config.kernel
    if kernel == DEFAULT_KERNEL:
        kernel = "direct"
    options = KernelRunOptions(
        max_iterations=strategy_input.max_iterations or DEFAULT_MAX_ITERATIONS,
        strategy=DIRECT,
        kernel_type=kernel,
        kernel_pass="direct:main",
        answers_by_tool=strategy_input.answer_form is not None,
    )
    return run_once(kernel, strategy.kernel_input(strategy_input), options, services)
