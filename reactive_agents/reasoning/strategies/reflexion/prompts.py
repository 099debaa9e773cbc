"""Prompts of reflexion, for attempts, critiques and improvements."""

from __future__ import annotations

from collections.abc import Sequence

from reactive_agents.core.config import Depth
from reactive_agents.kernel.prompt import fence
from reactive_agents.reasoning.strategies.reflexion.attempts import Attempt, Critique

LESSONS_KEPT = 3
"""Critiques of other attempts that an improvement is shown, the last ones."""

_AGAIN = (
    "The task was attempted before, without an answer. Look up only what is still missing, and answer from "
    "what the tools have given."
)
_LESSONS = (
    "Answers to such tasks were criticised in earlier runs. Do not repeat these mistakes; what is not about "
    "this task does not count."
)
_IMPROVE = (
    "The task was attempted before, and a critic has read the answer. Write a new, complete answer: its "
    "reader sees neither the earlier answer nor the criticism. Correct what the critic is right about, and "
    "keep what was good. If the approach was wrong, take another one. Look up only what is still missing or "
    "in doubt."
)
_SHALLOW = (
    "You are the critic of an answer. Look for the worst faults: what is wrong, and what the task asks for "
    "that is missing. Name two issues at most."
)
_DEEP = (
    "You are the critic of an answer. List what the task asks for, and check that the answer does each. List "
    "the claims and steps of the answer, and check each: work it out again where that is possible, and "
    "compare it with the evidence where there is any. What the evidence does not support is an issue. Say of "
    "each issue where it is and what would correct it."
)
_FAIR = (
    "Be strict about what is wrong, and name nothing that is only a matter of taste. The score is 0 for "
    "useless, 0.3 for wrong in its main point, 0.5 for right in part, 0.7 for right and complete with "
    "harmless flaws, 1 for nothing to improve. Be satisfied when a reader can use the answer as it is."
)


def first_instructions(lessons: Sequence[str]) -> str:
    """Return the instructions of the first pass; ``lessons`` of earlier runs."""
    return _LESSONS if lessons else ""


def next_instructions(best: Attempt | None) -> str:
    """Return the instructions of a later pass, after the best answer until now."""
    return _AGAIN if best is None else _IMPROVE


def critic_instructions(depth: Depth) -> str:
    """Return the instructions of the critic."""
    return f"{_DEEP if depth == 'deep' else _SHALLOW} {_FAIR}"


def critic_content(task: str, attempt: Attempt, evidence: str, *, with_tools: bool) -> str:
    """Return the task, the answer and the tool results, for the critic.

    Args:
        evidence: empty when no tool was used.
        with_tools: whether the run has any.
    """
    parts = [
        f"The task:\n{task}",
        f"The answer to criticise:\n{fence('answer', attempt.text)}",
        f"What the tools gave:\n{fence('evidence', evidence or 'No tool was used.')}" if with_tools else "",
        f"Known of this answer: {attempt.shortfall}" if attempt.shortfall else "",
    ]
    return "\n\n".join(part for part in parts if part)


def generate_task(task: str, lessons: Sequence[str]) -> str:
    """Return the task with critiques of earlier runs."""
    if not lessons:
        return task
    listed = "\n".join(f"- {lesson}" for lesson in lessons)
    return f"{task}\n\nCriticised in earlier runs:\n{fence('earlier-lessons', listed)}"


def improve_task(task: str, best: Attempt | None, others: Sequence[Critique], evidence: str) -> str:
    """Return the task with the best answer, the critiques, and the evidence.

    Args:
        others: critiques of the answers that were no better, oldest first.
    """
    parts = [task]
    if best is not None:
        parts.append(f"The best answer until now:\n{fence('earlier-answer', best.text)}")
        if best.critique is not None:
            parts.append(f"Its criticism:\n{fence('critique', critique_text(best.critique))}")
    listed = "\n".join(critique_text(each) for each in others[-LESSONS_KEPT:])
    if listed:
        others_were = "The criticism of other attempts, which were no better" if best else "The criticism"
        parts.append(f"{others_were}:\n{fence('critique', listed)}")
    if evidence:
        parts.append(f"What the tools have given until now:\n{fence('evidence', evidence)}")
    return "\n\n".join(parts)


def critique_text(critique: Critique) -> str:
    """Return a critique as one line."""
    head = f"{'Accepted' if critique.satisfied else 'Not accepted'}, score {critique.score:.2f}"
    issues = " ".join(" ".join(issue.split()) for issue in critique.issues)
    return f"{head}: {issues}" if issues else f"{head}."
