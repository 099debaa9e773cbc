"""Whether the text of a step is a result, or the answer.

The checks are those that the answer of a reactive run has to pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from reactive_agents.core.plans import PlanStep
from reactive_agents.kernel.answer_check import Seen, ends_with_evidence, judge_text, unsupported_figures
from reactive_agents.kernel.prompt import stable_prefix
from reactive_agents.reasoning.planning.context import PlanningContext
from reactive_agents.reasoning.progress import Progress
from reactive_agents.reasoning.strategy import kernel_input

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")


def is_answer(text: str, progress: Progress, context: PlanningContext) -> bool:
    """Return whether the text of a step that a judge named can be sent as the answer.

    It plainly is one, or else some sentence of it bears evidence of what was found, and it announces nothing.
    Nothing in it is made up. Without tools every text is an answer.
    """
    if not context.tools:
        return bool(text.strip())
    seen = _seen(progress, context)
    judgement = judge_text(text, _described(context), seen)
    if judgement == "unclear" and any(ends_with_evidence(each, seen) for each in _SENTENCE_END.split(text)):
        judgement = "answer"
    return judgement == "answer" and not unsupported_figures(text, seen)


def problem_of(step: PlanStep, progress: Progress, context: PlanningContext) -> str:
    """Return why the text of an analysis is no result of it; empty when it is one.

    Figures that nothing supports are questioned once, as in a reactive run: they may be estimates.
    """
    text = step.result or ""
    if step.type != "analysis" or not context.tools:
        return ""
    seen = _seen(progress, context)
    if judge_text(text, _described(context), seen) == "announcement":
        return "It announced the result, and did not give it."
    figures = () if step.retries else unsupported_figures(text, _with(seen, step.instruction))
    return f"Nothing that was found supports: {', '.join(figures)}." if figures else ""


def _seen(progress: Progress, context: PlanningContext) -> Seen:
    given = context.input
    told = "\n".join(message.content for message in stable_prefix(kernel_input(given)))
    earlier = given.earlier.stored if given.earlier is not None else {}
    return Seen(given.task_description, (*earlier.values(), *progress.tool_results.values()), told)


def _with(seen: Seen, instruction: str) -> Seen:
    return Seen(seen.task, seen.results, f"{seen.told}\n{instruction}")


def _described(context: PlanningContext) -> Mapping[str, str]:
    return {tool.name: tool.description for tool in context.tools}
