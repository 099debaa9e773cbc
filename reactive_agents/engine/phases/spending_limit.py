"""The run's model for the phases after the loop, as long as the run has something left to spend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from returns.result import Failure, Result

from reactive_agents.core.errors import BudgetUnavailable, LLMErrors
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse
from reactive_agents.core.requirements import BudgetConfig
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import MeteredLLM
from reactive_agents.kernel.policies.spending import spent_by_run


class SpendingLimit:
    """A model service that fails with ``BudgetUnavailable`` once the run has spent what it may.

    In the loop a policy sees to that, and ends the run.
    """

    def __init__(self, llm: MeteredLLM, limits: BudgetConfig) -> None:
        self._llm = llm
        self._limits = limits

    @property
    def model(self) -> str:
        """The model that answers a request which names none."""
        return self._llm.model

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        """As the port says."""
        refusal = self._refusal(request)
        return await attempt(self._llm.complete(request)) if refusal is None else Failure(refusal)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """As the port says."""
        refusal = self._refusal(request)
        if refusal is not None:
            yield Failure(refusal)
            return
        async with aclosing(self._llm.stream(request)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk

    def _refusal(self, request: ModelRequest) -> BudgetUnavailable | None:
        used_up = spent_by_run(self._limits, self._llm.account)
        return None if used_up is None else BudgetUnavailable(used_up, request.model or self.model)
