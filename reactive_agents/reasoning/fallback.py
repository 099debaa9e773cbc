"""The tool calls that a strategy has made, whatever came of it: those that follow it go on from there."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import (
    KernelErrors,
    ReasoningErrors,
    StrategyExecutionError,
    StrategyNotFoundError,
)
from reactive_agents.core.events import StrategySelected
from reactive_agents.core.results import ReasoningResult, ReasoningStep, ReasoningStrategy
from reactive_agents.effects import BrokenContract, attempt, attempt_foreign, effect
from reactive_agents.kernel import EarlierAttempt, KernelContext, KernelServices, KernelState, ThoughtKernel
from reactive_agents.kernel.ledger import NO_CALLS, CallCounts, CallLedger
from reactive_agents.reasoning.controller import ended_by_controller
from reactive_agents.reasoning.passes import limit_reached
from reactive_agents.reasoning.selection.history import is_its_own, learn, tracker_of
from reactive_agents.reasoning.selection.rules import REACTIVE, candidates
from reactive_agents.reasoning.selection.selector import StrategySelector, selection_context
from reactive_agents.reasoning.strategy import (
    Measure,
    Strategy,
    StrategyInput,
    StrategyServices,
    begin_measure,
    empty_result,
    reasoning_result,
)


@define(eq=False)
class CallAccount:
    """Counts the calls of all kernel runs whose kernel it wraps, also of a strategy that fails in the end."""

    calls: CallCounts = NO_CALLS

    def wrap(self, kernel: ThoughtKernel) -> ThoughtKernel:
        """The same kernel, its calls counted."""

        @effect
        async def step(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
            outcome = await attempt(kernel(state, context))
            if isinstance(outcome, Success) and outcome.unwrap().ledger is not state.ledger:
                made = outcome.unwrap().ledger.calls.since(state.ledger.calls)
                self.calls = self.calls.then(made)
            return outcome

        return step


def with_kernels_wrapped(
    services: KernelServices, inner: Callable[[ThoughtKernel], ThoughtKernel]
) -> KernelServices:
    """The services with something more around each kernel, inside of what is around it already."""
    outer = services.wrap
    return evolve(services, wrap=inner if outer is None else lambda kernel: outer(inner(kernel)))


# --- Running a strategy, and once a run another one in its place ---


FIRST = "first."
"""Begins the keys of the first strategy's results, where a second one follows."""

_Outcome = Result[ReasoningResult, ReasoningErrors]


@frozen
class _Attempt:
    """A strategy that was run, and why it does not stand."""

    strategy: ReasoningStrategy
    outcome: _Outcome
    problem: str


@effect
async def run_with_successor(
    strategy: ReasoningStrategy,
    strategy_input: StrategyInput,
    services: StrategyServices,
    *,
    falls_back: bool,
) -> Result[ReasoningResult, ReasoningErrors]:
    """What the strategy comes to, or the one that takes its place; steps and totals are those of both.

    Calls of the first count for the limits and requirements of the second, which can recall what they gave.
    Fails as the last strategy does, with what was wrong with the first, or with ``StrategyNotFoundError``.

    Args:
        falls_back: whether another strategy is tried when this one fails.
    """
    if not falls_back and services.control is None:  # nobody can put another one in its place
        return await _run(strategy, strategy_input, services)
    measure, calls = begin_measure(services), CallAccount()
    counted = evolve(services, kernel=with_kernels_wrapped(services.kernel, calls.wrap))
    outcome = await _run(strategy, strategy_input, counted)
    problem = _why_not(strategy, outcome, services, falls_back=falls_back)
    if not problem or limit_reached(strategy_input, _unended(services)) is not None:
        return outcome
    first = _Attempt(strategy, outcome, problem)
    successor = await _successor(first, strategy_input, services)
    if not isinstance(successor, Success):
        return Failure(successor.failure())
    name = successor.unwrap()
    if name is None:
        return _without_successor(first)
    if services.control is not None and services.control.ending is not None:
        services.control.escalated = True
    if isinstance(outcome, Success):  # it was not good enough, whatever it says of itself
        await _learn_failure(outcome.unwrap(), strategy_input, services)
    _tell(name, problem, services)
    second = await _run(name, _input_after(first, calls, strategy_input), services)
    return _together(first, name, second, measure, services)


async def run_contained(
    name: ReasoningStrategy, strategy: Strategy, strategy_input: StrategyInput, services: StrategyServices
) -> _Outcome:
    """Run a strategy that may be a user's own code, and return its outcome.

    Fails as the strategy does, and with ``StrategyExecutionError`` when it raises or returns something else
    than an effect of a ``ReasoningResult``.
    """
    outcome = await attempt_foreign(strategy, ReasoningResult, strategy_input, services)
    if isinstance(outcome, BrokenContract):
        return Failure(StrategyExecutionError(name, f"The strategy {name} {outcome.problem}"))
    return outcome


async def _run(
    strategy: ReasoningStrategy, strategy_input: StrategyInput, services: StrategyServices
) -> _Outcome:
    """The outcome of one strategy, every step of it seen by the controller.

    A failure is recorded here, as nobody else will see it as the strategy's.
    """
    known = services.strategies.get(strategy)
    if known is None:
        return Failure(StrategyNotFoundError(strategy, tuple(services.strategies)))
    control = services.control
    if control is not None:
        control.begin(strategy)
    measure = begin_measure(services)
    outcome = await run_contained(strategy, known, strategy_input, services)
    if control is not None:
        await control.conclude(outcome.unwrap().steps if isinstance(outcome, Success) else ())
    undisturbed = control is None or (control.ending is None and control.failure is None)
    if not isinstance(outcome, Success) and undisturbed and is_its_own(outcome.failure()):
        nothing = empty_result(
            strategy,
            measure,
            services,
            status="failed",
            terminated_by="error",
            reason=outcome.failure().message,
        )
        await _learn_failure(nothing, strategy_input, services)
    return outcome


async def _learn_failure(
    result: ReasoningResult, strategy_input: StrategyInput, services: StrategyServices
) -> None:
    tracker = tracker_of(result.strategy, strategy_input.config, services.effectiveness)
    if tracker is None:
        return
    await learn(
        tracker,
        strategy_input.task_description,
        strategy_input.task_type,
        result,
        success=False,
        task_id=strategy_input.task_id,
        events=services.kernel.events,
    )


def _why_not(
    strategy: ReasoningStrategy, outcome: _Outcome, services: StrategyServices, *, falls_back: bool
) -> str:
    """Why the outcome does not stand, in a sentence; empty when it does."""
    control = services.control
    if control is not None and control.failure is not None:
        return ""
    if control is not None and control.ending is not None:
        escalates = control.ending.kind == "escalate" and not control.escalated
        return control.ending.reason if escalates else ""
    if not falls_back:
        return ""
    if not isinstance(outcome, Success):
        return f"The strategy {strategy} failed: {outcome.failure().message}"
    result = outcome.unwrap()
    return f"The strategy {strategy} failed: {result.metadata.reason}" if result.status == "failed" else ""


async def _successor(
    first: _Attempt, strategy_input: StrategyInput, services: StrategyServices
) -> Result[ReasoningStrategy | None, ReasoningErrors]:
    """The agent's default, else ``reactive``, else the next best; for an escalation, what suits best.

    ``None`` when there is no other strategy.
    """
    others = [name for name in candidates(services.strategies) if name != first.strategy]
    if not others:
        return Success(None)
    escalates = services.control is not None and services.control.ending is not None
    if not escalates:
        for name in (strategy_input.config.default_strategy, REACTIVE):
            if name in others:
                return Success(name)
    selector = StrategySelector(services.strategies)
    context = selection_context(strategy_input, services)
    without = frozenset({first.strategy})
    selected = await attempt(selector.select(context, strategy_input, services, without=without))
    return selected.map(lambda selection: selection.strategy)


def _input_after(first: _Attempt, calls: CallAccount, strategy_input: StrategyInput) -> StrategyInput:
    """The input of the strategy that comes second."""
    earlier = strategy_input.earlier or EarlierAttempt("", ())
    given = first.outcome.map(_rekeyed_results).value_or({})
    stored = {**earlier.stored, **given}
    ledger = CallLedger(earlier=earlier.ledger.counted.then(calls.calls))
    return evolve(strategy_input, earlier=evolve(earlier, stored=stored, ledger=ledger))


def _rekeyed_results(result: ReasoningResult) -> dict[str, str]:
    return {FIRST + key: text for key, text in result.tool_results.items()}


def _without_successor(first: _Attempt) -> _Outcome:
    if not isinstance(first.outcome, Success):
        return first.outcome
    result = first.outcome.unwrap()
    if result.status == "failed":
        return first.outcome
    reason = f"{first.problem} There is no other strategy. Missing: the rest of the answer."
    return Success(ended_by_controller(result, reason))


def _together(
    first: _Attempt,
    name: ReasoningStrategy,
    second: _Outcome,
    measure: Measure,
    services: StrategyServices,
) -> _Outcome:
    if not isinstance(second, Success):
        error = second.failure()
        message = f"{first.problem} The strategy {name}, in its place, failed too: {error.message}"
        cause = error.cause if isinstance(error, StrategyExecutionError) else None
        return Failure(StrategyExecutionError(name, message, cause=cause))
    result = second.unwrap()
    steps, results, iterations = result.steps, dict(result.tool_results), result.metadata.iterations
    if not isinstance(first.outcome, Success):
        error = first.outcome.failure()
        iterations += (error.step or 0) if isinstance(error, StrategyExecutionError) else 0
    else:
        earlier = first.outcome.unwrap()
        steps = (*map(_rekeyed, earlier.steps), *steps)
        results = {**_rekeyed_results(earlier), **results}
        iterations += earlier.metadata.iterations
    both = reasoning_result(
        result.strategy,
        measure,
        services,
        steps=steps,
        output=result.output,
        status=result.status,
        iterations=iterations,
        terminated_by=result.metadata.terminated_by,
        reason=f"{first.problem} {name} took its place. {result.metadata.reason}",
        results=results,
        confidence=result.metadata.confidence,
    )
    return Success(evolve(both, metadata=evolve(both.metadata, selected_strategy=name)))


def _rekeyed(step: ReasoningStep) -> ReasoningStep:
    metadata = step.metadata
    if metadata is None or metadata.result_key is None:
        return step
    return evolve(step, metadata=evolve(metadata, result_key=FIRST + metadata.result_key))


def _tell(name: ReasoningStrategy, reason: str, services: StrategyServices) -> None:
    events = services.kernel.events.value_or(None)
    if events is not None:
        events.publish(StrategySelected, strategy=name, reason=f"in its place: {reason}")


def _unended(services: StrategyServices) -> StrategyServices:
    """The services without the controller, so that time and budget alone count as limits."""
    return evolve(services, control=None)
