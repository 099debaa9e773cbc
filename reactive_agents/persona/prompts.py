"""What a persona asks: trusted instructions, and contents in which everything from others is fenced."""

from __future__ import annotations

from collections.abc import Sequence

from reactive_agents.core.personas import (
    DomainEvent,
    LearningEntry,
    PersonaPlan,
    PersonaTask,
    SelfState,
    StepOutcome,
    Thought,
)
from reactive_agents.core.plans import PlanStep
from reactive_agents.kernel.context_window.previews import preview
from reactive_agents.kernel.prompt import fence

REUSED = """\
This plan was made for an earlier event that was much like this one. Where it names particulars of that \
event, those of this one are meant."""

RESULT_CHARACTERS = 4_000
"""Characters of an earlier step's result that a prompt shows."""

PLANNING = """\
Make a plan for the task before anything is done. Think it through in this order:
1. Goal: what exactly is to be achieved, so that one can tell whether it was.
2. Learnings: what the notes and the learned patterns say about such tasks; what worked, and what did not. \
Follow the patterns that fit, and give their numbers.
3. Risks: what could go wrong, and which assumptions may be false.
4. Steps: few, in order, each concrete enough to be carried out by itself. The result of the last step is \
what is sent as the answer.
5. Contingencies: for the kinds of error that may occur, which steps to take instead of the one that failed.
6. Success criteria: what can be checked in the result afterwards.
A simple task gets a plan of one step. A step that is too much for one go is marked as large; it is planned \
by itself later."""

EXPANDING = """\
Make a plan for one step of a larger plan, which is too much for one go. Break it into a few steps, each \
concrete enough to be carried out by itself; the result of the last one is the result of the step. Do not \
plan what the other steps of the larger plan are for."""

REPLANNING = """\
A plan failed in a way that it had not foreseen. Find out why: which assumption was false? Then make a plan \
for what is still to be done, in another way that avoids this error; make the goal smaller where that is \
needed. Steps that are completed are not done again, and their results stay available."""

EVALUATING = """\
Assess what was done, honestly: nobody is helped by praise that is not deserved. Go through the success \
criteria one by one, and say of each by its number whether the result meets it, and what in the result \
shows that. Then say what worked, what was a mistake, and what to do differently. Last, put the one lesson \
that helps with similar tasks into a single sentence that makes sense by itself; where there is nothing to \
learn, leave it empty."""


def role_of(name: str, role: str) -> str:
    """Who the persona is."""
    return f"You are {name}. {role}".strip()


def planning_content(
    task: PersonaTask,
    event: DomainEvent,
    *,
    thoughts: Sequence[Thought],
    learnings: Sequence[LearningEntry],
    state: SelfState,
    tools: Sequence[str],
) -> str:
    """What a plan is made for and on the ground of."""
    noted = "\n".join(f"- {thought.kind}: {thought.content}" for thought in thoughts)
    learned = "\n".join(
        f"{number}. {each.pattern} (confidence {each.confidence:.2f}, worked {each.success_count} of "
        f"{each.success_count + each.failure_count} times)"
        for number, each in enumerate(learnings, 1)
    )
    worries = "; ".join(state.preoccupations) or "none"
    busy = (
        f"Current focus: {state.focus or 'none'}\nCognitive load: {state.cognitive_load:.2f}\n"
        f"Preoccupations: {worries}"
    )
    return "\n\n".join(
        (
            fence("task", task.description),
            f"Domain: {task.domain}. Priority: {task.priority:g} of 1.",
            f"It comes from this event:\n{_event(event)}",
            f"Your notes on this context:\n{fence('notes', noted or 'none')}",
            f"Patterns that you learned in this domain:\n{fence('learnings', learned or 'none')}",
            f"Your state:\n{fence('state', busy)}",
            f"Tools that the steps can use: {', '.join(tools) or 'none'}",
        )
    )


def expansion_content(plan: PersonaPlan, step: PlanStep, *, tools: Sequence[str]) -> str:
    """The step to be planned, and what it is a part of."""
    done = [each for each in plan.plan.steps if each.status == "completed" and each.result]
    return "\n\n".join(
        (
            f"The step:\n{fence('step', step.instruction)}",
            f"What it should bring: {fence('expected', step.expected_outcome or 'not said')}",
            f"The goal of the larger plan:\n{fence('goal', plan.plan.goal)}",
            f"The event that it is about:\n{_event(plan.event)}",
            *(_result(each) for each in done),
            f"Tools that the steps can use: {', '.join(tools) or 'none'}",
        )
    )


def replanning_content(plan: PersonaPlan, outcome: StepOutcome, *, tools: Sequence[str]) -> str:
    """What failed, and what is there already."""
    steps = plan.plan.steps
    done = [step for step in steps if step.status == "completed"]
    failed = next(step for step in steps if step.id == outcome.step_id)
    error = outcome.error.message if outcome.error is not None else ""
    problem = "\n".join(part for part in (error, outcome.detail, outcome.output) if part)
    return "\n\n".join(
        (
            f"The task:\n{fence('task', plan.task.description)}",
            f"The goal of the plan that failed: {fence('goal', plan.plan.goal)}",
            f"{len(done)} of {len(steps)} steps were completed. Their results:",
            *(_result(step) for step in done),
            f"It failed at this step:\n{fence('step', failed.instruction)}",
            f"The error:\n{fence('error', preview(problem, None, RESULT_CHARACTERS))}",
            f"Tools that the steps can use: {', '.join(tools) or 'none'}",
        )
    )


def evaluation_content(plan: PersonaPlan, answer: str) -> str:
    """What was planned, what was done, and what came of it."""
    criteria = "\n".join(f"{number}. {each}" for number, each in enumerate(plan.success_criteria, 1))
    steps = plan.plan.steps
    lines = "\n".join(
        f"- {step.instruction} [{step.status}]{f' {step.error}' if step.error else ''}" for step in steps
    )
    completed = sum(step.status == "completed" for step in steps)
    return "\n\n".join(
        (
            f"The task:\n{fence('task', plan.task.description)}",
            f"The goal:\n{fence('goal', plan.plan.goal)}",
            *_reuse(plan),
            f"The plan ended as {plan.plan.status}: {completed} of {len(steps)} steps completed, "
            f"planned anew {plan.attempts} times.",
            f"The steps:\n{fence('steps', lines)}",
            f"The result:\n{fence('result', preview(answer or 'none', None, RESULT_CHARACTERS))}",
            f"The success criteria:\n{fence('criteria', criteria)}",
        )
    )


def step_content(plan: PersonaPlan, step: PlanStep) -> str:
    """The task of the run that executes a step: the step itself, and as data what it is about."""
    if plan.source == "reactive" and plan.attempts == 0:
        return f"{step.instruction}\n\n{_event(plan.event)}"
    earlier = [each for each in plan.plan.steps if each.status == "completed" and each.result]
    is_last = plan.next_step is not None and [each.id for each in _open(plan)] == [step.id]
    return "\n\n".join(
        (
            step.instruction,
            *([f"What this should bring: {step.expected_outcome}"] if step.expected_outcome else []),
            "This is one step of a plan. Do this step alone. The plan's goal:",
            fence("goal", plan.plan.goal),
            f"The event that it is about:\n{_event(plan.event)}",
            *_reuse(plan),
            *(_result(each) for each in earlier),
            *(["It is the last step: your answer is sent as it is."] if is_last else []),
        )
    )


def _open(plan: PersonaPlan) -> list[PlanStep]:
    return [step for step in plan.plan.steps if step.status in ("pending", "in_progress")]


def _reuse(plan: PersonaPlan) -> list[str]:
    return [REUSED] if plan.source == "reused" and plan.attempts == 0 else []


def _event(event: DomainEvent) -> str:
    return fence("event", f"from: {event.author}\n{event.content}")


def _result(step: PlanStep) -> str:
    shown = preview(step.result or "", None, RESULT_CHARACTERS)
    return f"The result of step {step.id} ({step.title}):\n{fence('result', shown)}"
