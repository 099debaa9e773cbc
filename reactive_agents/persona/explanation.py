"""Explanation of a plan in words, from the journal alone, and as a diagram.

No model is asked. Diagrams are Mermaid or SVG, with the status of each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType
from typing import TypeAlias, assert_never
from xml.sax.saxutils import escape

from attrs import frozen

from reactive_agents.core import persona_events
from reactive_agents.core.persona_queue import WorkItem
from reactive_agents.core.personas import Evaluation, EvidenceSource, PersonaPlan, StepCall, StepOutcome
from reactive_agents.core.plans import PlanStep, PlanStepStatus

MOST_NAMED = 10
"""Events of a transcript that an explanation names, the latest."""


@frozen
class ExplanationLine:
    """One line of an explanation. ``stage``: the subject in one word."""

    at: datetime
    stage: str
    text: str


def explain(journal: Iterable[persona_events.PersonaEvent]) -> tuple[ExplanationLine, ...]:
    """Return the lines from the event to the learnings, in the order of the journal."""
    return tuple(
        ExplanationLine(event.at, stage, text) for event in journal for stage, text in explain_event(event)
    )


def explain_event(event: persona_events.PersonaEvent) -> Iterator[tuple[str, str]]:
    """Yield the lines of one event of the journal: stage and sentence."""
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
    state = {None: "no result", True: "worked", False: "failed"}[call.success]
    approval = {None: "", True: ", approved", False: ", not approved"}[call.approved]
    return f"{call.tool} {call.arguments} ({state}{approval}): {call.result}"


def explain_work(items: Iterable[WorkItem]) -> tuple[ExplanationLine, ...]:
    """Return a line for each item of an event: its tries and its status."""
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
    """Yield a line for the opinion of each user about the answer of a plan."""
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


# --- diagrams -------------------------------------------------------------------------------------------

Edge: TypeAlias = tuple[str, str, str]
"""From a step to a step, with the kind of error that leads there; empty without an error."""

COLOURS: dict[PlanStepStatus, str] = {
    "pending": "#e8e8e8",
    "in_progress": "#fff3bf",
    "completed": "#d3f9d8",
    "failed": "#ffc9c9",
    "skipped": "#f1f3f5",
}
WIDTH, HEIGHT, GAP, MARGIN = 460, 46, 26, 20
SHOWN_CHARACTERS = 56
_ENTITIES = {ord(sign): f"#{ord(sign)};" for sign in '"#&<>`'}
"""Replacements of characters with a meaning in Mermaid labels; labels are untrusted text."""


def edges_of(plan: PersonaPlan) -> tuple[Edge, ...]:
    """Return the edges from step to step, and from failures to recoveries."""
    first = {recovery.steps[0]: recovery for recovery in plan.recoveries}
    steps = plan.plan.steps
    return tuple(
        (before.id, after.id, "" if after.id not in first else first[after.id].kind)
        for before, after in pairwise(steps)
    )


def mermaid(plan: PersonaPlan) -> str:
    """Return the plan as a Mermaid flow chart."""
    lines = ["flowchart TD", f'    goal(["{_quoted(_short(plan.plan.goal))}"])']
    lines += [f'    {step.id}["{_quoted(_label(step))}"]:::{step.status}' for step in plan.plan.steps]
    if plan.plan.steps:
        lines.append(f"    goal --> {plan.plan.steps[0].id}")
    for before, after, kind in edges_of(plan):
        lines.append(f"    {before} -. {kind} .-> {after}" if kind else f"    {before} --> {after}")
    lines += [f"    classDef {status} fill:{colour}" for status, colour in COLOURS.items()]
    return "\n".join(lines) + "\n"


def svg(plan: PersonaPlan) -> str:
    """Return the plan as a self-contained SVG image."""
    count = len(plan.plan.steps) + 1
    height = 2 * MARGIN + count * HEIGHT + (count - 1) * GAP
    width = WIDTH + 2 * MARGIN
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
            *_box(0, _short(plan.plan.goal), plan.plan.status, "#d0ebff"),
            *(
                line
                for number, step in enumerate(plan.plan.steps, 1)
                for line in _box(number, _label(step), step.status, COLOURS[step.status])
            ),
            *_arrows(plan),
            "</svg>\n",
        )
    )


def _box(number: int, text: str, status: str, colour: str) -> Iterator[str]:
    top = MARGIN + number * (HEIGHT + GAP)
    yield (
        f'<rect x="{MARGIN}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{colour}" '
        'stroke="#495057"/>'
    )
    yield f'<text x="{MARGIN + 12}" y="{top + 19}" fill="#212529">{escape(text)}</text>'
    yield f'<text x="{MARGIN + 12}" y="{top + 37}" font-size="11" fill="#495057">{escape(status)}</text>'


def _arrows(plan: PersonaPlan) -> Iterator[str]:
    middle = MARGIN + WIDTH // 2
    kinds = ["", *(kind for _, _, kind in edges_of(plan))][: len(plan.plan.steps)]
    for number, kind in enumerate(kinds, 1):
        end = MARGIN + number * (HEIGHT + GAP)
        dashes = ' stroke-dasharray="4 3"' if kind else ""
        yield f'<path d="M{middle} {end - GAP}V{end}" stroke="#495057"{dashes}/>'
        yield f'<path d="M{middle - 4} {end - 7}L{middle} {end}L{middle + 4} {end - 7}Z" fill="#495057"/>'
        if kind:
            yield f'<text x="{middle + 10}" y="{end - 9}" font-size="11" fill="#c92a2a">{kind}</text>'


def _label(step: PlanStep) -> str:
    return f"{step.id}: {_short(step.instruction)}"


def _short(text: str) -> str:
    line = "".join(each for each in " ".join(text.split()) if each.isprintable())  # XML has no others
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 1].rstrip()}…"


def _quoted(text: str) -> str:
    return text.translate(_ENTITIES)
