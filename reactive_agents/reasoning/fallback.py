"""Fallback: a second strategy, after a failure or a controller's escalation.

The second strategy continues the first: its limits and requirements count the calls of both, it can recall
the results of the first, and the result has the steps and totals of both. There is never a third one, so that
the cost of a run stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import define, evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.events import StrategySelected
from reactive_agents.core.results import ReasoningResult, ReasoningStep, ReasoningStrategy
from reactive_agents.core.values import Value
from reactive_agents.effects import BrokenContract, attempt, attempt_foreign
from reactive_agents.kernel import EarlierAttempt, KernelContext, KernelServices, KernelState, KernelStep
from reactive_agents.kernel.ledger import NO_CALLS, CallCounts, CallLedger
from reactive_agents.kernel.service_calls import is_built_in, problem_within
from reactive_agents.reasoning.confidence import ended_partial
from reactive_agents.reasoning.passes import limit_reached
from reactive_agents.reasoning.selection.history import is_own_failure, learn, tracker_of
from reactive_agents.reasoning.selection.rules import REACTIVE, candidates
from reactive_agents.reasoning.strategy import (
    Strategy,
    StrategyInput,
    StrategyMeasure,
    StrategyServices,
    begin_measure,
    not_registered,
    reasoning_result,
)


@define(eq=False)
class CallCounter:
    """Counts the calls, failed ones too, of all kernel runs whose kernel it wraps."""

    calls: CallCounts = NO_CALLS

    def wrap(self, inner: KernelStep) -> KernelStep:
        """Return the step with its calls counted."""

        async def step(
            state: KernelState, context: KernelContext
        ) -> Result[KernelState, errors.KernelErrors]:
            outcome = await inner(state, context)
            if isinstance(outcome, Success) and outcome.unwrap().ledger is not state.ledger:
                made = outcome.unwrap().ledger.calls.since(state.ledger.calls)
                self.calls = self.calls.then(made)
            return outcome

        return step


def with_kernels_wrapped(
    services: KernelServices, inner: Callable[[KernelStep], KernelStep]
) -> KernelServices:
    """Return services that wrap each kernel, inside the wrapper that they have."""
    outer = services.wrap
    return evolve(services, wrap=inner if outer is None else lambda step: outer(inner(step)))


FIRST = "first."
"""The prefix of the keys of the first strategy's results, if a second one follows."""

_Outcome: TypeAlias = Result[ReasoningResult, "errors.ReasoningErrors"]


@frozen(eq=False, repr=False)
class _Attempt(Value):
    """A strategy that was run, with its outcome and why that is not accepted."""

    strategy: ReasoningStrategy
    outcome: _Outcome
    problem: str


async def run_with_fallback(
    strategy: ReasoningStrategy,
    strategy_input: StrategyInput,
    services: StrategyServices,
    *,
    falls_back: bool,
) -> Result[ReasoningResult, errors.ReasoningErrors]:
    """Run a strategy, and another one if its outcome is not accepted.

    The result has the steps and totals of both. The calls of the first count for the limits and requirements
    of the second, which can recall their results. Fails as the last strategy does, with the problem of the
    first added, or with ``StrategyNotFoundError``.

    Args:
        falls_back: whether another strategy is tried when this one fails, and not only when the controller
            escalates the task.
    """
    measure, calls = begin_measure(services), CallCounter()
    counted = evolve(services, kernel=with_kernels_wrapped(services.kernel, calls.wrap))
    outcome = await run_strategy(strategy, strategy_input, counted)
    problem = _problem_of(strategy, outcome, services, falls_back=falls_back)
    uncontrolled = evolve(services, control=None)  # so that the controller counts as no limit
    if not problem or limit_reached(strategy_input, uncontrolled) is not None:
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
    if isinstance(outcome, Success):  # its own status may say otherwise
        await _learn_failure(outcome.unwrap(), strategy_input, services)
    services.kernel.publish(StrategySelected, strategy=name, reason=f"fallback: {problem}")
    second = await run_strategy(name, _input_after(first, calls, strategy_input), services)
    return _combined(first, name, second, measure, services)


async def run_contained(
    name: ReasoningStrategy, strategy: Strategy, strategy_input: StrategyInput, services: StrategyServices
) -> _Outcome:
    """Run a strategy that may be the user's code, and return its outcome.

    Fails as the strategy does, and with ``StrategyExecutionError`` when it raises or returns anything but an
    effect of a ``ReasoningResult``.
    """
    outcome = await attempt_foreign(strategy, ReasoningResult, strategy_input, services)
    if isinstance(outcome, BrokenContract):
        return Failure(errors.StrategyExecutionError(name, f"The strategy {name} {outcome.problem}"))
    if isinstance(outcome, Success) and not is_built_in(strategy):
        problem = problem_within(outcome.unwrap(), ReasoningResult)
        if problem is not None:
            return Failure(errors.StrategyExecutionError(name, f"The strategy {name} {problem}"))
    return outcome


async def run_strategy(
    strategy: ReasoningStrategy, strategy_input: StrategyInput, services: StrategyServices
) -> _Outcome:
    """Run one strategy with every step seen by the controller.

    A failure is recorded here, since the caller cannot tell whose it is.
    """
    known = services.strategies.get(strategy)
    if known is None:
        return not_registered(strategy, services.strategies)
    control = services.control
    if control is not None:
        control.begin(strategy)
    measure = begin_measure(services)
    outcome = await run_contained(strategy, known, strategy_input, services)
    if control is not None:
        await control.conclude(outcome.unwrap().steps if isinstance(outcome, Success) else ())
    undisturbed = control is None or (control.ending is None and control.failure is None)
    if not isinstance(outcome, Success) and undisturbed and is_own_failure(outcome.failure()):
        nothing = reasoning_result(
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


def _problem_of(
    strategy: ReasoningStrategy, outcome: _Outcome, services: StrategyServices, *, falls_back: bool
) -> str:
    """Return why the outcome is not accepted, in a sentence; empty when it is."""
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
) -> Result[ReasoningStrategy | None, errors.ReasoningErrors]:
    """Return the strategy to try next; ``None`` when there is no other.

    It is the default one, or else ``reactive``, or else the best of the others.
    """
    others = [name for name in candidates(services.strategies) if name != first.strategy]
    if not others:
        return Success(None)
    escalates = services.control is not None and services.control.ending is not None
    if not escalates:
        for name in (strategy_input.config.default_strategy, REACTIVE):
            if name in others:
                return Success(name)
    from reactive_agents.reasoning.selection.selector import StrategySelector, selection_context

    selector = StrategySelector(services.strategies, measurements=None)
    context = selection_context(strategy_input, services)
    without = frozenset({first.strategy})
    selected = await attempt(selector.select(context, strategy_input, services, without=without))
    return selected.map(lambda selection: selection.strategy)


def _input_after(first: _Attempt, calls: CallCounter, strategy_input: StrategyInput) -> StrategyInput:
    """Return the input of the second strategy."""
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
    return Success(ended_partial(result, "controller", reason))


def _combined(
    first: _Attempt,
    name: ReasoningStrategy,
    second: _Outcome,
    measure: StrategyMeasure,
    services: StrategyServices,
) -> _Outcome:
    if not isinstance(second, Success):
        error = second.failure()
        message = f"{first.problem} The fallback strategy {name} failed too: {error.message}"
        cause = error.cause if isinstance(error, errors.StrategyExecutionError) else None
        return Failure(errors.StrategyExecutionError(name, message, cause=cause))
    result = second.unwrap()
    steps, results, iterations = result.steps, dict(result.tool_results), result.metadata.iterations
    if not isinstance(first.outcome, Success):
        error = first.outcome.failure()
        iterations += (error.step or 0) if isinstance(error, errors.StrategyExecutionError) else 0
    else:
        earlier = first.outcome.unwrap()
        steps = (*map(_with_first_key, earlier.steps), *steps)
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
    )
    figures = evolve(
        both.metadata,
        confidence=min(result.metadata.confidence, both.metadata.confidence),
        selected_strategy=name,
    )
    return Success(evolve(both, metadata=figures))


def _with_first_key(step: ReasoningStep) -> ReasoningStep:
    metadata = step.metadata
    if metadata is None or metadata.result_key is None:
        return step
    return evolve(step, metadata=evolve(metadata, result_key=FIRST + metadata.result_key))
