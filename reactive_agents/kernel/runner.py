"""The one loop: policies and kernel take turns until the run ends.

There is no second loop anywhere, so that every kernel, custom ones included, has the same guarantees: a limit
on its turns and steps, a deadline, a budget, a typed error for whatever goes wrong, and a final state with a
reason. The loop itself decides nothing: ``termination`` applies the verdict of a policy, and ``state`` checks
the state that a kernel returns. Policies and kernels may be code of the user, which may raise or return
anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.conversation import NO_HISTORY
from reactive_agents.core.results import DEADLINE, ReasoningStatus, ReasoningStep
from reactive_agents.core.settings import BudgetConfig
from reactive_agents.core.tools import TurnChanges
from reactive_agents.core.values import Value, replaced
from reactive_agents.effects import BrokenContract, Effect, attempt_foreign, effect
from reactive_agents.kernel import termination
from reactive_agents.kernel.context import (
    KernelContext,
    KernelInput,
    KernelRunOptions,
    KernelServices,
    KernelStep,
    Proceed,
    Redirect,
    Stop,
    ThoughtKernel,
    UsageAccount,
    Verdict,
)
from reactive_agents.kernel.context_window.window import profile_under
from reactive_agents.kernel.embedded_calls import run_embedded_calls
from reactive_agents.kernel.events import build_kernel_hooks
from reactive_agents.kernel.kernels import BUILT_IN_KERNELS, ENDED_BY, react_kernel
from reactive_agents.kernel.ledger import NO_CALLS, CallLedger
from reactive_agents.kernel.open_requirements import call_limits, describe_missing, requirements_of
from reactive_agents.kernel.policies.answers import held_to_form
from reactive_agents.kernel.policies.decision import STANDARD_POLICIES, decide, with_backstops
from reactive_agents.kernel.policies.limits import BUDGET, budget_refusal
from reactive_agents.kernel.prompt import EARLIER_MESSAGES, REACT_INSTRUCTIONS, stable_prefix
from reactive_agents.kernel.reducers import with_usage
from reactive_agents.kernel.service_calls import definitions_in
from reactive_agents.kernel.state import (
    TERMINAL,
    Guidance,
    KernelState,
    custom_successor,
    initial_kernel_state,
    successor,
)
from reactive_agents.kernel.toolset import FINAL_ANSWER, FINAL_ANSWER_TOOL, toolset_for

_TRUSTED = tuple(BUILT_IN_KERNELS.values())
"""Kernels whose states need no check, since they have the declared types."""
_NEW_LEDGER = replaced(CallLedger())


@effect
async def run_kernel(
    kernel: ThoughtKernel, kernel_input: KernelInput, options: KernelRunOptions, services: KernelServices
) -> Result[KernelState, errors.KernelErrors]:
    """Repeat the kernel until it or a policy ends the run, and return the final state.

    A run that goes wrong has a final state too: its status is ``failed``, with the typed ``error`` and with
    everything that was done until then. The error names a kernel or policy that raised or broke its contract.
    A run that stops early is ``done`` with outcome ``partial``. Fails with ``IllegalTransition`` when a
    kernel returns a state that may not follow the one it was given.
    """
    return await run_to_end(kernel, kernel_input, options, services)


async def run_to_end(
    kernel: ThoughtKernel, kernel_input: KernelInput, options: KernelRunOptions, services: KernelServices
) -> Result[KernelState, errors.KernelErrors]:
    """Run as :func:`run_kernel` says."""
    context = assemble_context(kernel_input, options, services)
    step: KernelStep = partial(_checked_step, kernel, options.kernel_type)
    if services.wrap is not None:
        step = services.wrap(step)
    state = _begin(context, options, services)
    account, budget, kernel_steps = services.account, kernel_input.settings.budget, 0
    is_limited = budget.limits_spending or budget.tool_calls is not None
    turn = context  # has the tools of the model's turn; policies judge by all
    while state.status not in TERMINAL:
        if account is not None and (is_limited or account.ended_by):
            state = _with_account(state, account, budget)
        verdict: Verdict | errors.PolicyFailed | errors.OutputValidatorFailed
        verdict = decide(state, context, kernel_steps)
        if kernel_input.answer_form is not None and isinstance(verdict, Stop):
            verdict = await held_to_form(verdict, state, context)
        if isinstance(verdict, Proceed):
            if services.turn_changes is not None and state.status == "thinking":
                turn, following = await _take_turn(step, state, context, services.turn_changes, turn)
            else:
                following = await _take_step(step, state, turn)
            kernel_steps += 1
        else:
            following = await _after_verdict(state, verdict, context, account)
        if not isinstance(following, Success):
            return following
        state = following.unwrap()
    ended = await run_embedded_calls(state, turn)
    if isinstance(ended, Success):
        _publish_end(ended.unwrap(), context)
    return ended


def _begin(context: KernelContext, options: KernelRunOptions, services: KernelServices) -> KernelState:
    """Return the state before the first step, with what earlier kernel runs have left."""
    results = _results_before(context.input)
    return initial_kernel_state(
        id=services.ids.new(),
        task_id=context.input.task_id,
        strategy=options.strategy,
        kernel_type=options.kernel_type,
        meta=options.meta,
        results=results,
        shown_in_part=bool(results)
        and any(key in message.content for key in results for message in context.prefix),
        ledger=_ledger_before(context.input),
    )


async def _after_verdict(
    state: KernelState,
    verdict: Redirect | Stop | errors.PolicyFailed | errors.OutputValidatorFailed,
    context: KernelContext,
    account: UsageAccount | None,
) -> Result[KernelState, errors.IllegalTransition]:
    """Return the state after a verdict that steers or ends the run."""
    match verdict:
        case Redirect():
            if state.proposal is not None:
                context.hooks.on_retracted(state, verdict.policy)
            context.hooks.on_guidance(Guidance(verdict.policy, verdict.guidance))
            redirected = termination.redirect_run(state, verdict)
            for rejected in redirected.value_or(state).results[len(state.results) :]:
                await context.hooks.on_result(rejected)
            return redirected
        case Stop():
            if verdict.policy == BUDGET and state.status == "acting" and account is not None:
                account.ended_by = verdict.reason  # no other pass of the run begins
            return termination.stop_run(state, verdict)
        case _:
            return termination.fail_run(state, verdict)


def assemble_context(
    kernel_input: KernelInput, options: KernelRunOptions, services: KernelServices
) -> KernelContext:
    """Return the context of a kernel run, which is the same for all of its steps."""
    definitions = definitions_in(services.tools)
    settings, limits = kernel_input.settings, kernel_input.call_limits
    profile = profile_under(kernel_input.model or services.llm.model, settings)
    toolset = toolset_for(
        definitions,
        profile.schema_detail,
        allowed=kernel_input.allowed_tools,
        answers_by_tool=options.answers_by_tool,
        answer=FINAL_ANSWER_TOOL if kernel_input.answer_form is None else kernel_input.answer_form.tool,
    )
    if limits is None:
        limits = call_limits(kernel_input.needs, settings.budget, parallel=settings.parallel_tool_calls)
    prefix = stable_prefix(
        kernel_input,
        has_tools=bool(toolset.offered),
        answers_by_tool=toolset.permits(FINAL_ANSWER),
        is_brief=profile.is_brief,
    )
    return KernelContext(
        input=kernel_input,
        profile=profile,
        llm=services.llm,
        tools=services.tools,
        approver=services.approver,
        toolset=toolset,
        call_limits=limits,
        hooks=build_kernel_hooks(services.events.value_or(None), kernel_pass=options.kernel_pass),
        clock=services.clock,
        prefix=prefix,
        policies=services.policies
        + (STANDARD_POLICIES if options.policies is None else with_backstops(options.policies)),
        max_iterations=options.max_iterations,
        counter=services.counter,
        callers=services.callers,
        documents=services.documents,
        later_messages=services.later_messages,
    )


async def _take_turn(
    step: KernelStep,
    state: KernelState,
    context: KernelContext,
    find_changes: Callable[[], Awaitable[Result[TurnChanges, errors.ServiceFailed]]],
    before: KernelContext,
) -> tuple[KernelContext, Result[KernelState, errors.KernelErrors]]:
    """Take a turn of the model with the tools of that turn, and return its context.

    Args:
        before: the context of the turn before.
    """
    found = await find_changes()
    if isinstance(found, Failure):
        failed = errors.KernelFailed(found.failure().message, state.kernel_type)
        return before, termination.fail_run(state, failed)
    changes, detail = found.unwrap(), context.profile.schema_detail
    turn = context
    if changes:
        turn = evolve(context, toolset=context.toolset.of_turn(changes, detail, before.toolset))
    return turn, await _take_step(step, state, turn)


def _with_account(state: KernelState, account: UsageAccount, budget: BudgetConfig) -> KernelState:
    """Return the state with the usage of the whole run, as far as a budget limits it.

    It is part of the state, so that kernels side by side share one budget, and policies stay pure.
    """
    if budget.limits_spending and state.run_usage is not account.total:
        state = replaced(state, run_usage=account.total)
    if account.ended_by or budget.tool_calls is not None:
        state = replaced(state, run_calls=account.tool_calls, passed_limit=account.ended_by)
    return state


def _results_before(kernel_input: KernelInput) -> Mapping[str, str]:
    """Return the results that were stored before this run, and that a prompt may name."""
    earlier, history = kernel_input.earlier, kernel_input.history
    if history is NO_HISTORY and earlier is None:
        return kernel_input.results
    left_out = {EARLIER_MESSAGES: history.earlier} if history.earlier else {}
    stored = earlier.stored if earlier else {}
    return {**left_out, **history.results, **stored, **kernel_input.results}


def _ledger_before(kernel_input: KernelInput) -> CallLedger:
    """Return the initial ledger of a run, with the calls of earlier kernel runs."""
    if kernel_input.earlier is None:
        return _NEW_LEDGER if kernel_input.calls is NO_CALLS else CallLedger(earlier=kernel_input.calls)
    ledger = kernel_input.earlier.ledger
    return replaced(ledger, calls=NO_CALLS, earlier=kernel_input.calls.then(ledger.counted))


async def _checked_step(
    kernel: ThoughtKernel, kernel_type: str, state: KernelState, context: KernelContext
) -> Result[KernelState, errors.KernelErrors]:
    """Return the kernel's next state.

    Fails as the kernel does, with ``KernelFailed`` when it breaks its contract, and with
    ``IllegalTransition`` when its state may not follow.
    """
    outcome = await attempt_foreign(kernel, KernelState, state, context)
    if isinstance(outcome, Success) and (kernel in _TRUSTED or outcome.unwrap() is state):
        return outcome
    if isinstance(outcome, BrokenContract):
        return Failure(errors.KernelFailed(f"The kernel {kernel_type} {outcome.problem}", kernel_type))
    if kernel in _TRUSTED:
        return outcome
    match outcome.bind(partial(custom_successor, state)):
        case Failure(errors.IllegalTransition() as error):
            message = f"The kernel {kernel_type} returned an illegal state: {error.message}"
            return Failure(evolve(error, message=message))
        case checked:
            return checked


async def _take_step(
    step: KernelStep, state: KernelState, context: KernelContext
) -> Result[KernelState, errors.KernelErrors]:
    """Run one step of the kernel, until the deadline at most; a failure ends the run.

    Tool calls end at the deadline by themselves; the step that records them may take a little longer. A model
    call that the budget refuses is no failure: the run stops with its results so far.
    """
    seconds = termination.seconds_left(context)
    if state.status != "thinking":
        seconds = max(seconds, 0.0) + termination.FINISHING_S
    result = await termination.in_time(step(state, context), seconds) if seconds > 0 else None
    if result is None:
        reason = "The time limit of the run was reached."
        return termination.stop_run(state, termination.stop_early(DEADLINE, reason, state, context))
    if not isinstance(result, Success):
        return _after_failure(state, context, result.failure())
    following = result.unwrap()
    if following.status in TERMINAL and following.outcome is None:
        following = _with_outcome(following, context)
    return successor(state, following)


def _after_failure(
    state: KernelState, context: KernelContext, error: errors.KernelErrors
) -> Result[KernelState, errors.KernelErrors]:
    if isinstance(error, errors.ModelCallFailed):
        state = with_usage(state, errors.refused_attempts(error.cause))
    refusal = budget_refusal(error)
    if refusal is not None:
        return termination.stop_run(state, termination.stop_early("budget", refusal.message, state, context))
    return (
        Failure(error) if isinstance(error, errors.IllegalTransition) else termination.fail_run(state, error)
    )


def _with_outcome(state: KernelState, context: KernelContext) -> KernelState:
    """Return the terminal state; partial when a required tool has not succeeded."""
    requirements = requirements_of(state, context)
    unmet = state.status == "done" and bool(requirements.open or requirements.lost)
    done: ReasoningStatus = "partial" if unmet else "completed"
    outcome: ReasoningStatus = done if state.status == "done" else "failed"
    reason = state.reason or f"The kernel ended the run as {outcome}."
    return evolve(
        state,
        outcome=outcome,
        terminated_by=state.terminated_by or "kernel",
        reason=f"{reason} {describe_missing(requirements)}" if unmet else reason,
    )


def _publish_end(state: KernelState, context: KernelContext) -> None:
    is_answer = state.terminated_by != ENDED_BY  # what a given call returned is none
    if is_answer and state.status != "failed":
        context.hooks.on_done(state)


@frozen(eq=False, repr=False)
class ReActKernelResult(Value):
    """Summary of a ReAct run.

    ``state.usage`` shows whether the totals lack calls without a known price or token count.
    """

    output: str | None
    steps: tuple[ReasoningStep, ...]
    total_tokens: int
    total_cost: float
    tools_used: frozenset[str]
    iterations: int
    terminated_by: str
    state: KernelState


def execute_react_kernel(
    kernel_input: KernelInput,
    services: KernelServices,
    *,
    max_iterations: int = 10,
    parent_strategy: str = "reactive",
    kernel_pass: str = "",
) -> Effect[ReActKernelResult, errors.KernelErrors]:
    """Run the ReAct kernel as :func:`run_kernel`, by default with its instructions."""
    options = KernelRunOptions(max_iterations, parent_strategy, "react", kernel_pass)
    instructions = kernel_input.instructions or REACT_INSTRUCTIONS
    ready = evolve(kernel_input, instructions=instructions)
    return run_kernel(react_kernel, ready, options, services).map(_summary_of)


def _summary_of(state: KernelState) -> ReActKernelResult:
    return ReActKernelResult(
        output=state.output,
        steps=tuple(state.steps),
        total_tokens=state.tokens,
        total_cost=state.cost,
        tools_used=state.tools_used,
        iterations=state.iteration,
        terminated_by=state.terminated_by,
        state=state,
    )
