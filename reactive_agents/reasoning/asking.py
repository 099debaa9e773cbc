"""One question to the run's model outside of a kernel run, within the run's time."""

from __future__ import annotations

from math import inf

from returns.result import Failure, Result

from reactive_agents.core.errors import LLMErrors, ModelTimeout
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.kernel.deadline import in_time
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices


async def ask_model(
    request: ModelRequest, strategy_input: StrategyInput, services: StrategyServices
) -> Result[ModelResponse, LLMErrors]:
    """The model's answer. Fails as the model does, and with ``ModelTimeout`` when the run's time is up."""
    deadline = strategy_input.deadline
    left = inf if deadline is None else deadline - services.kernel.clock.monotonic()
    answered = await in_time(services.kernel.llm.complete(request), left) if left > 0 else None
    if answered is not None:
        return answered
    model = request.model or services.kernel.llm.model
    return Failure(ModelTimeout("The time limit of the run was reached.", model, max(left, 0.0)))
