"""Phases 3 and 8, model routing and cost tracking, and budgets after the loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import BudgetUnavailable, LLMErrors, RuntimeErrors
from reactive_agents.core.events import ModelRouted
from reactive_agents.core.governance import ModelRoute, RouteNeeds
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse
from reactive_agents.core.requirements import BudgetConfig
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.run_result import spending_record
from reactive_agents.engine.services import EngineServices
from reactive_agents.kernel import KernelInput, MeteredLLM
from reactive_agents.kernel.context_window.token_estimate import fixed_size
from reactive_agents.kernel.policies.limits import budget_reached_by_run
from reactive_agents.kernel.prompt import stable_prefix
from reactive_agents.kernel.service_calls import call_service, definitions_of


class SpendingLimit:
    """A model service that fails once the run's budget is used up.

    Within the loop a policy enforces the budget and ends the run.
    """

    def __init__(self, llm: MeteredLLM, limits: BudgetConfig) -> None:
        self._llm = llm
        self._limits = limits

    @property
    def model(self) -> str:
        """Return the model of a request that names none."""
        return self._llm.model

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        """Ask the model, unless the budget is used up."""
        refusal = self._refusal(request)
        return await attempt(self._llm.complete(request)) if refusal is None else Failure(refusal)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """Ask the model, unless the budget is used up."""
        refusal = self._refusal(request)
        if refusal is not None:
            yield Failure(refusal)
            return
        async with aclosing(self._llm.stream(request)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk

    def _refusal(self, request: ModelRequest) -> BudgetUnavailable | None:
        used_up = budget_reached_by_run(self._limits, self._llm.account)
        return None if used_up is None else BudgetUnavailable(used_up, request.model or self.model)


# --- Phase 3: model routing ---


async def cost_route(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """Select the model that the router chooses. Fails with ``ExecutionError``."""
    router = services.ports.cost_router.value_or(None)
    if router is None:
        return Success(context)
    needs = route_needs(context, services)
    routed = await call_service(
        "cost router.select_model", router.select_model, ModelRoute, context.task, needs
    )
    if not isinstance(routed, Success):
        return Failure(context.failure_of("cost-route")(routed.failure()))
    route = routed.unwrap()
    events = services.events
    events.publish(ModelRouted, route.model, route.reason)
    return Success(replaced(context, selected_model=route.model))


def route_needs(context: ExecutionContext, services: EngineServices) -> RouteNeeds:
    """Return the size of the run's request prefix, and whether it has tools."""
    tools = services.ports.tools.map(definitions_of).value_or(())
    prefix = stable_prefix(
        KernelInput(
            context.task.input,
            context.run_id,
            context.task_id,
            context.agent_id,
            context.session_id,
            services.settings,
            memory=context.memory_context,
        )
    )
    return RouteNeeds(fixed_size(prefix, tools), frozenset({"tools"} if tools else ()))


# --- Phase 8: cost tracking ---


async def cost_track(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """Record the usage of the run. Fails with ``ExecutionError``."""
    tracker = services.ports.cost_tracker.value_or(None)
    if tracker is None:
        return Success(context)
    record = spending_record(context, services)
    recorded = await call_service("cost tracking.record", tracker.record, None, record)
    if not isinstance(recorded, Success):
        return Failure(context.failure_of("cost-track")(recorded.failure()))
    services.progress.recorded += 1
    return Success(context)
