"""Explanations of plans in words, from the journal, without a model call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import assert_never

from attrs import frozen

from reactive_agents.core import persona_events
from reactive_agents.core.persona_queue import WorkItem
from reactive_agents.core.personas import Evaluation, EvidenceSource, PersonaPlan, StepCall, StepOutcome

MOST_NAMED = 10
"""The maximum of transcript events in an explanation, the latest."""


@frozen
class ExplanationLine:
    """One line of an explanation. ``stage``: the subject in one word."""

    at: datetime
    stage: str
    text: str


def explain(journal: Iterable[persona_events.PersonaEvent]) -> tuple[ExplanationLine, ...]:
    """Return the lines from the event to the learnings, in journal order."""
    return tuple(
        ExplanationLine(event.at, stage, text) for event in journal for stage, text in explain_event(event)
    )


def explain_event(event: persona_events.PersonaEvent) -> Iterator[tuple[str, str]]:
    """Yield the lines of a journal event: stage and sentence."""
    match event:
        case persona_events.PersonaEventReceived(event=received, domain=domain):
            yield "event", f"{received.author} in {domain}/{received.context_id}: {received.content}"
        case persona_events.PersonaEventDropped(event_id=event_id):
            yield "event", f"Event {event_id} was dropped from a full inbox."
        case persona_events.PersonaEngagementDecided(engage=engage, reason=reason):
            yield "engagement", f"{'Engaged' if engage else 'Declined'}: {reason}"
        case persona_events.PersonaPlanFormulated():
            yield from _formulated(event)
        case persona_events.PersonaPlanResumed(completed_steps=count):
            yield "resumed", f"The plan was resumed; {count} step(s) were completed already."
        case persona_events.PersonaStepStarted(step=step):
            yield "step", f"{step.id} started: {step.instruction}"
        case persona_events.PersonaStepExpanded(step_id=step_id, steps=steps):
            yield (
                "plan",
                f"{step_id} was expanded to {', '.join(f'{step.id}: {step.instruction}' for step in steps)}",
            )
        case persona_events.PersonaStepEnded(outcome=outcome):
            yield from (("tool", _called(call)) for call in outcome.calls)
            yield "step", _ended(outcome)
            if outcome.tokens:
                yield "cost", f"{outcome.step_id}: {outcome.tokens} tokens, {outcome.cost_usd:g} US dollars"
        case persona_events.PersonaPlanAdjusted(action=action, reasoning=reasoning):
            if action != "CONTINUE":
                yield "adjustment", f"{action}: {reasoning}"
        case persona_events.PersonaPlanEnded(status=status, reason=reason, answer=answer):
            yield "outcome", f"{status}: {reason}"
            if answer:
                yield "answer", answer
        case persona_events.PersonaOutcomeEvaluated(evaluation=evaluation):
            yield from _evaluated(evaluation)
        case persona_events.PersonaLearningChanged(learning=learning, change=change):
            yield (
                "learning",
                f"{change} (confidence {learning.confidence:.2f}, succeeded in {learning.success_count} of "
                f"{learning.success_count + learning.failure_count} tasks): {learning.pattern}",
            )
        case persona_events.PersonaStageFailed(stage=stage, error=error):
            yield "failure", f"{stage}: {error.message}"
        case _:
            assert_never(event)


def _formulated(event: persona_events.PersonaPlanFormulated) -> Iterator[tuple[str, str]]:
    plan = event.plan
    if event.transcript:
        count, names = len(event.transcript), ", ".join(event.transcript[-MOST_NAMED:])
        yield "saw", f"{count} earlier event(s) of the room with their answers, the last: {names}"
    if event.notes:
        yield "knew", f"{event.notes} note(s) on the room"
    for number, learning in enumerate(event.shown, 1):
        followed = "followed" if learning.id in plan.follows else "shown"
        yield "learnings", f"{followed} {number}: {learning.pattern} (confidence {learning.confidence:.2f})"
    for warning in event.warnings:
        yield "learnings", f"warned of: {warning.pattern} (confidence {warning.confidence:.2f})"
    yield "plan", f"{event.reason} Goal: {plan.plan.goal}"
    yield from _plan_details(plan)


def _plan_details(plan: PersonaPlan) -> Iterator[tuple[str, str]]:
    for known in plan.learnings:
        yield "plan", f"Known: {known}"
    for risk in plan.risks:
        yield "plan", f"Risk: {risk}"
    for each in plan.contingencies:
        yield "plan", f"On {each.kind}: {' → '.join(each.actions)}"
    for criterion in plan.success_criteria:
        yield "plan", f"Criterion: {criterion}"


def _ended(outcome: StepOutcome) -> str:
    if outcome.success:
        return f"{outcome.step_id} succeeded: {outcome.output}"
    error = outcome.error.message if outcome.error is not None else outcome.detail
    return f"{outcome.step_id} failed: {error}{f' ({outcome.detail})' if outcome.detail else ''}"


def _called(call: StepCall) -> str:
    approval = {None: "", True: ", approved", False: ", not approved"}[call.approved]
    return f"{call.tool} {call.arguments} ({call.state}{approval}): {call.result}"


def explain_work(items: Iterable[WorkItem]) -> tuple[ExplanationLine, ...]:
    """Return a line for each queue item of an event: its tries and status."""
    lines = []
    for item in sorted(items, key=lambda each: each.number):
        words = [item.status, f"{item.attempts} attempt(s)"]
        if item.kind == "delivery":
            words += [item.message_kind, f"key {item.delivery_key}"]
            words += [f"sent as {item.message_id}"] if item.message_id else []
        if item.cost_usd:
            words.append(f"{item.cost_usd:g} US dollars")
        reason = f": {item.reason}" if item.reason else ""
        lines.append(ExplanationLine(item.created_at, item.kind, f"{', '.join(words)}{reason}"))
    return tuple(lines)


def explain_feedback(plan: PersonaPlan) -> Iterator[ExplanationLine]:
    """Yield a line for each user's opinion of a plan's answer."""
    for each in plan.feedback:
        opinion = "good" if each.good else "bad"
        yield ExplanationLine(
            each.at or plan.event.at, "reaction", f"The answer was {opinion} for {each.user}."
        )


_EVIDENCE: Mapping[EvidenceSource, str] = MappingProxyType(
    {
        "model": "",
        "calls": ", since the last tool call failed",
        "check": ", by the check of the program",
        "users": ", by the reactions of users",
    }
)


def _evaluated(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    by = _EVIDENCE[evaluation.evidence]
    yield (
        "evaluation",
        f"{'Every criterion was met' if evaluation.meets_criteria else 'Not every criterion was met'}{by}.",
    )
    for verdict in evaluation.criteria:
        evidence = f" ({verdict.evidence})" if verdict.evidence else ""
        yield "evaluation", f"{'met' if verdict.met else 'not met'}: {verdict.criterion}{evidence}"
    for worked in evaluation.what_worked:
        yield "evaluation", f"Worked: {worked}"
    for mistake in evaluation.mistakes:
        yield "evaluation", f"Mistake: {mistake}"
    for improvement in evaluation.improvements:
        yield "evaluation", f"Next time: {improvement}"
    if evaluation.pattern:
        yield "evaluation", f"Lesson: {evaluation.pattern}"
