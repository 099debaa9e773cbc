"""Phase 5: the agent loop. It shows itself as think, act and observe phases, one for each kernel step."""

from __future__ import annotations

from attrs import evolve
from returns.maybe import Some
from returns.result import Failure, Result, Success

from reactive_agents.core.config import ReasoningConfig
from reactive_agents.core.errors import ExecutionError, MaxIterationsError, RuntimeErrors
from reactive_agents.core.requirements import ToolNeeds
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.approvals import RunApprover
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.kernel_lifecycle import with_lifecycle
from reactive_agents.engine.services import EngineServices
from reactive_agents.kernel import KernelServices
from reactive_agents.reasoning import StrategyInput, StrategyServices
from reactive_agents.reasoning.strategies import direct
from reactive_agents.reasoning.typed_output import fit_output, with_answer_format


@effect
async def agent_loop(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context with what the selected strategy came to.

    Fails with ``ExecutionError`` when the strategy failed, with ``HookError`` when a strict hook did, and,
    without reasoning, with ``MaxIterationsError`` at the limit.
    """
    handle = services.handle
    given, ready = strategy_input(context, services), strategy_services(services)
    reasoning = services.ports.reasoning.value_or(None)
    if reasoning is None:
        run = direct.direct(given, ready)
    else:
        run = reasoning.execute(context.selected_strategy or "", given, ready)
    outcome = await attempt(run)
    if isinstance(outcome, Failure):
        error = outcome.failure()
        failed = ExecutionError(error.message, context.task_id, handle.phase, error)
        return Failure(handle.failure or failed)
    if handle.failure is not None:  # a strict hook's, which another strategy cannot make good
        return Failure(handle.failure)
    result = outcome.unwrap()
    if reasoning is None and result.metadata.terminated_by == "iteration_limit":
        return Failure(
            MaxIterationsError(context.task_id, result.metadata.iterations, context.max_iterations)
        )
    shape = services.ports.output_shape.value_or(None)
    if shape is not None:
        result = (await attempt(fit_output(result, shape, given, ready))).unwrap()
    return Success(evolve(handle.current_context(), reasoning=result))


def strategy_input(context: ExecutionContext, services: EngineServices) -> StrategyInput:
    """What the run asks of a strategy."""
    config = services.config
    reasoning = services.ports.reasoning.value_or(None)
    tools = services.ports.tools.value_or(None)
    return StrategyInput(
        task_description=context.task.input,
        task_type=context.task.type,
        run_id=context.run_id,
        task_id=context.task_id,
        agent_id=context.agent_id,
        session_id=context.session_id,
        config=reasoning.config if reasoning is not None else ReasoningConfig(),
        max_iterations=context.max_iterations,
        available_tools=tuple(tool.name for tool in tools.definitions()) if tools is not None else (),
        memory=context.memory_context,
        system_prompt=services.ports.output_shape.map(
            lambda shape: with_answer_format(config.system_prompt, shape)
        ).value_or(config.system_prompt),
        model=context.selected_model,
        context_profile=config.context_profile,
        result_compression=config.compression,
        deadline=context.deadline,
        needs=ToolNeeds(config.required_tools),
        budget=config.budget,
    )


def strategy_services(services: EngineServices) -> StrategyServices:
    """What a strategy of the run works with."""
    ports = services.ports
    kernel = KernelServices(
        llm=services.llm,
        clock=ports.clock,
        ids=ports.ids,
        tools=ports.tools,
        policies=ports.policies,
        approver=ports.approver.map(lambda approver: RunApprover(approver, services.handle, services.events)),
        events=Some(services.events),
        wrap=lambda inner: with_lifecycle(inner, services),
        counter=ports.counter,
    )
    return StrategyServices(kernel, services.llm)
