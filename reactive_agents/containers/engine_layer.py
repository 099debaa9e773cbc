"""The execution engine, with every service that there is."""

from __future__ import annotations

from typing import Any

from dependency_injector import containers, providers
from returns.maybe import Maybe, Nothing

from reactive_agents.core.config import ReactiveAgentsConfig
from reactive_agents.engine import EnginePorts, ExecutionEngine, LifecycleHook, LifecycleHookRegistry
from reactive_agents.kernel import Policy
from reactive_agents.reasoning.shapes import Shape


class EngineLayer(containers.DeclarativeContainer):
    """Provides ``hooks`` (which begin with ``given_hooks``), ``policies``, ``ports`` and ``engine``.

    ``output_shape`` is what answers have to look like: ``Nothing``, for text, until it is overridden.
    """

    config: providers.Dependency[ReactiveAgentsConfig] = providers.Dependency(
        instance_of=ReactiveAgentsConfig
    )
    core: providers.DependenciesContainer = providers.DependenciesContainer()
    models: providers.DependenciesContainer = providers.DependenciesContainer()
    tooling: providers.DependenciesContainer = providers.DependenciesContainer()
    memory: providers.DependenciesContainer = providers.DependenciesContainer()
    governance: providers.DependenciesContainer = providers.DependenciesContainer()
    reasoning: providers.DependenciesContainer = providers.DependenciesContainer()

    given_hooks: providers.Provider[tuple[LifecycleHook, ...]] = providers.Object(())
    hooks: providers.Provider[LifecycleHookRegistry] = providers.Singleton(LifecycleHookRegistry, given_hooks)
    policies: providers.Provider[tuple[Policy, ...]] = providers.Object(())
    output_shape: providers.Provider[Maybe[Shape[Any]]] = providers.Object(Nothing)
    ports: providers.Provider[EnginePorts] = providers.Singleton(
        EnginePorts,
        llm=models.llm,
        events=core.events,
        clock=core.clock,
        ids=core.ids,
        hooks=hooks,
        tools=tooling.tools,
        reasoning=reasoning.reasoning,
        memory=memory.memory,
        approver=governance.approver,
        guardrail=governance.guardrail,
        cost_router=governance.cost_router,
        cost_tracker=governance.cost_tracker,
        verifier=governance.verifier,
        audit=governance.audit,
        open_services=core.lifetimes.provided.open,
        policies=policies,
        counter=models.counter,
        prices=models.prices,
        budget=governance.budget,
        redactor=core.redactor,
        plans=memory.plan_store,
        output_shape=output_shape,
    )
    engine: providers.Provider[ExecutionEngine] = providers.Singleton(
        ExecutionEngine, config=config, ports=ports
    )
