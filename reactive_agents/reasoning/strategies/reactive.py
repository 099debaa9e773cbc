"""The reactive strategy: one ReAct kernel run (Yao et al., 2022).

arXiv:2210.03629.
"""

from __future__ import annotations

from reactive_agents.core.errors import ReasoningErrors
from reactive_agents.core.results import ReasoningResult
from reactive_agents.effects import Effect
from reactive_agents.kernel import KernelRunOptions
from reactive_agents.reasoning.passes import has_tools, loop_instructions, run_once
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices, compaction_of, kernel_input

NAME = "reactive"


def reactive(
    strategy_input: StrategyInput, services: StrategyServices
) -> Effect[ReasoningResult, ReasoningErrors]:
    """Think, act and observe until there is an answer or the limit is reached.

    Fails with ``StrategyExecutionError`` when the model does not answer.
    """
    config = strategy_input.config.strategies.reactive
    turns = strategy_input.max_iterations or config.max_iterations
    task = kernel_input(
        strategy_input,
        instructions=loop_instructions(turns) if has_tools(services) else "",
        temperature=config.temperature,
        compaction=compaction_of(strategy_input.config, NAME, services),
    )
    options = KernelRunOptions(
        max_iterations=turns,
        strategy=NAME,
        kernel_type=strategy_input.config.kernel,
        kernel_pass="reactive:main",
    )
    return run_once(strategy_input.config.kernel, task, options, services)
