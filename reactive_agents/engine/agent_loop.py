"""Phases 3 to 5: select a model and a strategy, and run the agent loop."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from attrs import evolve, field, frozen
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, events
from reactive_agents.core.conversation import owner_of
from reactive_agents.core.events import StrategySelected
from reactive_agents.core.ids import PlanId
from reactive_agents.core.results import (
    DEADLINE,
    WORKFLOW,
    ModelRetry,
    ReasoningResult,
    ReasoningStep,
)
from reactive_agents.core.settings import RunSettings
from reactive_agents.core.texts import with_article
from reactive_agents.core.tools import RESERVED_NAMES, TurnChanges
from reactive_agents.core.values import replaced
from reactive_agents.effects import Effect, attempt, effect, is_cancelled
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.guardrail import PLAN_ID, guard_output
from reactive_agents.engine.lifecycle import step_with_lifecycle
from reactive_agents.engine.run_result import partial_result, without_declined
from reactive_agents.engine.services import EngineServices, OutputValidator, RunHandle, approver_of
from reactive_agents.kernel import KernelInput, KernelServices
from reactive_agents.kernel.answer_form import AnswerForm
from reactive_agents.kernel.context_window.token_estimate import fixed_size
from reactive_agents.kernel.policies.limits import budget_refusal
from reactive_agents.kernel.policies.unfinished_work import (
    FAILED_CALL,
    LEFT_OUT,
    NOT_DONE,
    describe_left,
    describe_not_done,
    describe_undone,
)
from reactive_agents.kernel.prompt import stable_prefix
from reactive_agents.kernel.service_calls import (
    CheckedCounter,
    call_service,
    definitions_in,
    definitions_of,
    once,
)
from reactive_agents.kernel.termination import RETURN_DIRECT, in_time
from reactive_agents.ports import CostRouter
from reactive_agents.reasoning import Selection, StrategyInput, StrategyServices, structured_output
from reactive_agents.reasoning.confidence import ended_partial
from reactive_agents.reasoning.passes import call_missing_in, items_left_in, undone_act_in
from reactive_agents.reasoning.strategies import reactive

if TYPE_CHECKING:
    from reactive_agents.core.governance import JudgedAnswer, RouteNeeds
    from reactive_agents.ports import ToolService
    from reactive_agents.reasoning.structured_output.schema import Shape


# --- Phase 3: model routing ---


async def cost_route(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    """Select the model that the router chooses. Fails with ``ExecutionError``."""
    router = services.ports.cost_router.unwrap()
    from reactive_agents.core.governance import ModelRoute  # of agents that route

    needs = _route_needs(context, services)
    routed = await call_service(
        "cost router", router, CostRouter.select_model, ModelRoute, context.task, needs
    )
    if not isinstance(routed, Success):
        return Failure(context.failure_of("cost-route")(routed.failure()))
    route = routed.unwrap()
    services.events.publish(events.ModelRouted, route.model, route.reason)
    return Success(replaced(context, selected_model=route.model))


def _route_needs(context: ExecutionContext, services: EngineServices) -> RouteNeeds:
    """Return the size of the run's request prefix, and whether it has tools."""
    from reactive_agents.core.governance import RouteNeeds

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


# --- Phase 4: the strategy ---


async def strategy_select(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    """Select a strategy or fail with ``ExecutionError``; ``direct`` without reasoning."""
    if services.handle.handoff is not None:  # the conversation is with another agent
        return Success(replaced(context, selected_strategy=reactive.DIRECT))
    reasoning = services.ports.reasoning.value_or(None)
    if reasoning is None:
        strategy, reason = reactive.DIRECT, "reasoning is off"
    else:
        chosen: Result[Selection, errors.ReasoningErrors] | None = reasoning.configured()
        if chosen is None:
            ready = strategy_services(services)
            given = strategy_input(context, services, ready)
            chosen = await attempt(reasoning.select_strategy(given, ready))
        if not isinstance(chosen, Success):
            return Failure(context.failure_of("strategy-select")(chosen.failure()))
        selection = chosen.unwrap()
        strategy, reason = selection.strategy, selection.reason
    services.events.publish(StrategySelected, strategy, reason)
    return Success(replaced(context, selected_strategy=strategy))


# --- Phase 5: the agent loop ---


async def agent_loop(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    """Run the selected strategy, and return the context with its checked outcome.

    The outcome is partial when a budget refused a model call of the strategy. Fails with ``ExecutionError``
    when the strategy or the guardrail failed, with ``HookError`` when a strict hook failed, with
    ``GuardrailViolationError`` when the output is blocked, with ``MaxIterationsError`` at the limit of a run
    without reasoning, and with ``TaskError`` when the task's ``plan_id`` is not a string.
    """
    handle = services.handle
    if services.journal is not None:
        services.journal.restore(handle.state)
    if handle.handoff is not None:
        return await _handed_over(context, services)
    plan_id = context.task.details.get(PLAN_ID)
    if plan_id is not None and not isinstance(plan_id, str):
        message = f"details.{PLAN_ID}: got {plan_id!r}, expected the id of a plan as a string."
        return Failure(errors.TaskError(message, context.task_id))
    ready = strategy_services(services)
    given = strategy_input(context, services, ready)
    reasoning, calls_before = services.ports.reasoning.value_or(None), services.llm.account.tool_calls
    if reasoning is None:
        run = reactive.direct(given, ready)
    else:
        run = reasoning.execute(context.selected_strategy or "", given, ready)
    loop = _until_handoff(run, handle) if services.ports.handoffs else attempt(run)
    # the strategies of this package end by themselves at the deadline
    outcome = await in_time(loop, services.seconds_to_finish() + services.settings.timeouts.grace_s)
    ended = handle.ending_error()
    if ended is not None:  # a strategy of several kernel runs may have continued after it
        return Failure(ended)
    if handle.handoff is not None:
        return await _handed_over(context, services)
    if not isinstance(outcome, Success):
        return await _without_outcome(None if outcome is None else outcome.failure(), context, services)
    result = outcome.unwrap()
    if reasoning is None and result.metadata.terminated_by == "iteration_limit":
        turns = result.metadata.iterations
        return Failure(errors.MaxIterationsError(context.task_id, turns, context.max_iterations))
    if result.metadata.terminated_by == DEADLINE and result.output is None:
        result = evolve(result, output=services.events.text_so_far or None)
    result = _held_to_orders(result, services.llm.account.tool_calls - calls_before, given, ready)
    if given.answer_form is not None:
        shape = services.ports.output_shape.value_or(structured_output.TEXT)
        result = (await attempt(structured_output.convert_output(result, shape, given, ready))).unwrap()
        if handle.failure is not None:
            return Failure(handle.failure)
    return await guard_output(without_declined(result), services)


async def _without_outcome(
    error: errors.ReasoningErrors | None, context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    """Return the partial outcome of a loop that a limit cut off, or its error.

    Args:
        error: that of the strategy; ``None`` if it did not end in time.
    """
    ended_by, limit = DEADLINE, "The time limit of the run was reached."
    if error is not None:
        refusal = budget_refusal(error)
        if refusal is None:
            phase = services.handle.phase
            return Failure(errors.ExecutionError(error.message, context.task_id, phase, error))
        ended_by, limit = "budget", refusal.message
    partial = partial_result(ended_by, f"{limit} Missing: a final answer.", context, services)
    return await guard_output(partial, services)


def _held_to_orders(
    result: ReasoningResult, calls: int, given: StrategyInput, ready: StrategyServices
) -> ReasoningResult:
    """Return the outcome, partial if an act failed or was only claimed.

    Args:
        calls: number of tool calls that were made; nothing is known of those that the steps lack.
    """
    if result.status != "completed" or not result.output:
        return result
    if result.metadata.terminated_by in (RETURN_DIRECT, WORKFLOW):
        return result
    checks = given.settings.answer_checks
    if calls and calls > _calls_in(result.steps):
        return result
    if FAILED_CALL in checks and (failure := undone_act_in(result, given, ready)):
        return ended_partial(result, FAILED_CALL, describe_undone(failure))
    steps, results = result.steps, result.tool_results
    missing = call_missing_in(result.output, steps, results, given, ready) if NOT_DONE in checks else ""
    if missing:
        return ended_partial(result, NOT_DONE, describe_not_done(missing))
    left = items_left_in(result, given, ready) if calls and LEFT_OUT in checks else ()
    if not left:
        return result
    reason, doubt = result.metadata.reason, describe_left(left)
    if doubt in reason:
        return result
    return evolve(result, metadata=evolve(result.metadata, reason=f"{reason} {doubt}"))


def _calls_in(steps: Iterable[ReasoningStep]) -> int:
    """Return how many calls of tools steps are of."""
    known = [step.metadata.tool_used for step in steps if step.type == "observation" and step.metadata]
    return sum([tool not in (None, *RESERVED_NAMES) for tool in known])


async def _until_handoff(
    run: Effect[ReasoningResult, errors.ReasoningErrors], handle: RunHandle
) -> Result[ReasoningResult, errors.ReasoningErrors] | None:
    """Return the outcome of a strategy; ``None`` when a handoff has ended it."""
    with anyio.CancelScope() as handle.loop:
        return await attempt(run)
    return None


async def _handed_over(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    from reactive_agents.engine.handoffs import hand_over  # imported by runs with other agents

    return await hand_over(context, services)


def _settings(services: EngineServices) -> RunSettings:
    """Return the engine's settings with the reasoning options."""
    settings = services.settings
    reasoning = services.ports.reasoning.value_or(None)
    if reasoning is not None and reasoning.config is not settings.reasoning:
        settings = evolve(settings, reasoning=reasoning.config)
    return settings


def strategy_input(
    context: ExecutionContext, services: EngineServices, ready: StrategyServices
) -> StrategyInput:
    """Return the input of the run's strategy, which has these services."""
    plan_id = context.task.details.get(PLAN_ID)
    handed = services.overrides.handed
    return StrategyInput(
        task_description=context.task.input,
        task_type=context.task.type,
        run_id=context.run_id,
        task_id=context.task_id,
        agent_id=context.agent_id,
        session_id=context.session_id,
        settings=_settings(services),
        max_iterations=services.settings.explicit_limit(context.max_iterations),
        available_tools=tuple([tool.name for tool in definitions_in(ready.kernel.tools)]),
        memory=context.memory_context,
        model=context.selected_model,
        deadline=context.deadline,
        needs=services.settings.needs,
        earlier=context.earlier,
        history=context.history,
        plan_id=PlanId(plan_id) if isinstance(plan_id, str) else None,
        key_prefix="" if handed is None else handed.key_prefix,
        answer_form=form_of_answers(services),
        parts=context.task.parts,
        owner=owner_of(*services.handle.owner),
    )


def strategy_services(services: EngineServices) -> StrategyServices:
    """Return the services of the strategy, without tools for ``tool_choice="none"``."""
    ports, tools = services.ports, services.ports.tools.value_or(None)
    run_tools: Maybe[ToolService] = Nothing
    if tools is not None and services.settings.model_settings.tool_choice != "none":
        from reactive_agents.engine.run_tools import RunTools  # of agents with tools

        run_tools = Some(RunTools(tools, services))
    approver = approver_of(ports)
    if approver is not Nothing:
        from reactive_agents.engine.requests import RunApprover  # of agents with an approver

        approver = Some(RunApprover(approver.unwrap(), services))
    asks_each_turn = run_tools is not Nothing and getattr(tools, "asked_each_turn", False)
    kernel = KernelServices(
        llm=services.llm,
        clock=ports.clock,
        ids=ports.ids,
        tools=run_tools,
        policies=ports.policies,
        approver=approver,
        events=Some(services.events),
        wrap=lambda step: partial(step_with_lifecycle, services, step),
        counter=ports.counter.map(CheckedCounter),
        account=services.llm.account,
        callers=tuple if services.handle.caller is None else services.handle.caller.shown,
        documents=services.documents,
        later_messages=tuple if services.journal is None else services.journal.later_messages,
        turn_changes=partial(_turn_changes, services) if asks_each_turn else None,
    )
    return StrategyServices(kernel, services.llm, plans=ports.plans, run_context=services.run_context)


async def _turn_changes(services: EngineServices) -> Result[TurnChanges, errors.ServiceFailed]:
    """Return how the tools of the model's next turn differ, as recorded."""

    async def ask() -> Result[TurnChanges, errors.ServiceFailed]:
        tools: Any = services.ports.tools.unwrap()
        found: Result[TurnChanges, errors.ServiceFailed]
        with anyio.move_on_after(services.seconds_left()):
            found = await tools.turn_changes(services.run_context())
            return found
        return Success(())  # the turn is not taken

    changes: Result[TurnChanges, errors.ServiceFailed] = await once("tools.withheld", ask)
    if isinstance(changes, Failure):
        error, handle = changes.failure(), services.handle
        handle.failure = errors.ExecutionError(error.message, handle.context.task_id, handle.phase, error)
    return changes


# --- Output validators: functions of the program that judge and change answers ---
# They run on answers that no policy objects to, wherever in a run such an answer stands, and once for each:
# what was accepted is not judged again. What they return takes the place of the answer in all that follows,
# so that events, memory and the result have one answer.


SERVICE = "output validators.accept"
LONGEST_REASON = 4_000
"""Characters of a validator's reason that the model is shown."""


def form_of_answers(services: EngineServices) -> AnswerForm | None:
    """Return the form of the run's answers; ``None`` for any text."""
    shape = services.ports.output_shape.value_or(None)
    validators = services.ports.output_validators
    if shape is None and not validators:
        return None
    judged = structured_output.TEXT if shape is None else shape
    form = structured_output.answer_form(judged)
    return evolve(form, accept=_Judge(judged, form, validators, services)) if validators else form


@frozen(eq=False)
class _Judge:
    """Asks the validators of a run about an answer, in their order.

    Attributes:
        accepted: the answers that were accepted, which are not judged again.
        rejected: the answers that were rejected, whose number is ``retry`` in the context.
    """

    shape: Shape[Any]
    form: AnswerForm
    validators: tuple[OutputValidator, ...]
    services: EngineServices
    accepted: set[str] = field(factory=set)
    rejected: list[str] = field(factory=list)

    async def __call__(self, text: str) -> Result[str, str | errors.OutputValidatorFailed]:
        """Return the answer as it is delivered, the objection to it, or a failure."""
        if text in self.accepted:
            return Success(text)
        from reactive_agents.core.governance import JudgedAnswer  # of agents with validators

        judged = await call_service("output validators", self, _Judge.accept, JudgedAnswer, text)
        if not isinstance(judged, Success):
            error = judged.failure()
            if not isinstance(error, errors.OutputValidatorFailed):
                error = errors.OutputValidatorFailed(SERVICE, error.message)
            handle = self.services.handle
            handle.failure = errors.ExecutionError(error.message, handle.context.task_id, handle.phase, error)
            return Failure(error)
        answer = judged.unwrap()
        if answer.objection:
            self.rejected.append(text)
            return Failure(f"The answer was not accepted: {answer.objection}")
        self.accepted.add(answer.text)
        return Success(answer.text)

    @effect
    async def accept(self, text: str) -> Result[JudgedAnswer, errors.OutputValidatorFailed]:
        """Return the judgement on an answer that has the form."""
        from reactive_agents.core.governance import JudgedAnswer

        value: Any = text
        if self.form.has_fields:
            value = structured_output.read_answer(text, self.shape).unwrap()
        for validator in self.validators:
            before = self._text(value)
            try:
                returned = self._call(validator, value)
                if inspect.isawaitable(returned):
                    returned = await returned
            except ModelRetry as retry:
                returned = retry
            except Exception as error:
                if is_cancelled():
                    raise
                return Failure(
                    errors.OutputValidatorFailed(validator.name, f"raised {type(error).__name__}: {error}")
                )
            if isinstance(returned, ModelRetry):
                reason = str(returned).strip() or f"{validator.name} refused it."
                return Success(JudgedAnswer(text, reason[:LONGEST_REASON]))
            value = value if returned is None else returned
            after = self._text(value)
            problem = (
                f"got {with_article(type(value).__name__)}" if after is None else self.form.problem_in(after)
            )
            if after is None or problem:
                wrong = f"returned a value that is not of the type {self.shape.name}: {problem}"
                return Failure(errors.OutputValidatorFailed(validator.name, wrong))
            text = text if after == before else after
        return Success(JudgedAnswer(text))

    def _call(self, validator: OutputValidator, value: Any) -> Any:
        if not validator.takes_context:
            return validator.function(value)
        return validator.function(self.services.run_context(retry=len(self.rejected)), value)

    def _text(self, value: Any) -> str | None:
        """Return the text of a value; ``None`` for one that has no JSON form."""
        try:
            return structured_output.text_of_value(value, self.shape)
        except Exception:  # noqa: BLE001 - the serializers of a type are the user's code
            return None
