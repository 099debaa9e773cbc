"""Reflexion: attempt, criticise, improve (Shinn et al., 2023, arXiv:2303.11366)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen
from attrs.validators import and_, ge, le
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.codec import decode
from reactive_agents.core.figures import numbers_and_names
from reactive_agents.core.json import Json
from reactive_agents.core.results import ReasoningResult, ReasoningStatus, StepMetadata, failures_in
from reactive_agents.core.texts import word_similarity
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import KernelState
from reactive_agents.kernel.answer_form import claims_in
from reactive_agents.kernel.evidence import Seen, is_supported, unsupported_figures
from reactive_agents.kernel.prompt import fence, stable_prefix
from reactive_agents.kernel.termination import RETURN_DIRECT
from reactive_agents.reasoning import passes
from reactive_agents.reasoning.passes import Progress, evidence_of_run
from reactive_agents.reasoning.strategy import (
    StrategyInput,
    StrategyServices,
    begin_measure,
    kernel_input,
    reasoning_result,
)
from reactive_agents.reasoning.structured_output.question import Question, ask_structured
from reactive_agents.reasoning.structured_output.schema import shape_read_by

REPEATED = 0.8
"""The least share of common words of two texts of which the second says nothing new."""

GOOD_ENOUGH = 0.7
"""The score from which an answer that no critic accepted still counts as completed."""

SHORTFALL_CAP = 0.5
"""The highest score of an attempt with a known shortfall."""


@frozen
class Critique:
    """A critic's judgement of an answer.

    Attributes:
        issues: what is wrong or missing, a sentence each, the worst first; empty when nothing is.
        score: 0 for useless, 0.3 for wrong in its main point, 0.5 for right in part, 0.7 for right and
            complete with harmless flaws, 1 for nothing to improve.
        satisfied: whether the answer can be delivered as it is.
    """

    issues: tuple[str, ...]
    score: float = field(validator=and_(ge(0.0), le(1.0)))
    satisfied: bool


def read_critique(data: Json) -> Result[Critique, errors.DecodeError]:
    """Return the critique that JSON data describes.

    Other shapes that models give are read as well: a score as ``8/10``, ``80%`` or 80, issues as objects or
    as none, and a critique without the fields that follow from the others. Fails with ``DecodeError``.
    """
    if isinstance(data, dict):
        issues = _issues_in(data.get("issues"))
        score = _score_in(data.get("score"), data.get("satisfied"))
        satisfied = data.get("satisfied", isinstance(score, float) and score >= GOOD_ENOUGH and not issues)
        satisfied = _YES_OR_NO.get(str(satisfied).strip().lower(), satisfied)
        data = {"issues": issues, "score": score, "satisfied": satisfied}
    return decode(data, Critique)


_YES_OR_NO: Mapping[str, bool] = {"yes": True, "true": True, "no": False, "false": False}
_SCORE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:%|/\s*(\d+)|out of\s+(\d+))?\s*")


def _issues_in(issues: Json) -> Json:
    if isinstance(issues, dict):
        issues = list(issues.values())
    if isinstance(issues, str) or issues is None:
        issues = [issues] if issues else []
    if not isinstance(issues, list):
        return issues
    texts: list[Json] = [
        " ".join(str(part) for part in each.values() if part) if isinstance(each, dict) else each
        for each in issues
    ]
    return texts


def _score_in(score: Json, satisfied: Json) -> Json:
    """Return a score from 0 to 1; without one it follows from the verdict."""
    if score is None and isinstance(satisfied, bool):
        return GOOD_ENOUGH if satisfied else SHORTFALL_CAP
    written = _SCORE.fullmatch(str(score)) if isinstance(score, str | int | float) else None
    if written is None or isinstance(score, bool):
        return score
    value = float(written[1])
    scale = 100 if "%" in str(score) or value > 10 else 10 if value > 1 else 1
    most = float(written[2] or written[3] or scale)
    return value / most if most else score


@frozen
class Attempt:
    """An answer of one pass.

    Attributes:
        critique: the critique; ``None`` for an attempt that was not judged.
        shortfall: what the framework found missing, such as a required call; empty for an answer that its
            pass completed.
        impossible: why the task cannot be done, if that is the answer; otherwise empty.
        evidence: 2 if the text is supported by what was seen, 0 if nothing supports one of its figures, and 1
            if neither is known.
        unsupported: the figures that nothing supports.
        claims: the text without the model's own ratings.
    """

    text: str
    critique: Critique | None = None
    shortfall: str = ""
    impossible: str = ""
    evidence: int = 1
    unsupported: tuple[str, ...] = ()
    claims: str = ""

    @property
    def accepted(self) -> bool:
        """Whether it can be delivered as it is."""
        return self.critique is not None and self.critique.satisfied

    @property
    def score(self) -> float:
        """0 to 1; 0 without a critique."""
        return 0.0 if self.critique is None else self.critique.score

    @property
    def rank(self) -> tuple[bool, bool, int, float]:
        """The order of attempts: accepted, complete, by evidence, by score."""
        return self.accepted, not self.shortfall, self.evidence, self.score

    def judged(self, critique: Critique) -> Attempt:
        """Return the attempt with a critique; facts count more than the critic.

        An attempt with a shortfall or an unsupported figure is never accepted; one with a good score is
        accepted if the critic names no issue.
        """
        if self.shortfall:
            issues = (self.shortfall, *critique.issues)
            critique = Critique(issues, min(critique.score, SHORTFALL_CAP), satisfied=False)
        elif self.unsupported:
            issues = (f"Nothing supports: {', '.join(self.unsupported)}.", *critique.issues)
            critique = Critique(issues, critique.score, satisfied=False)
        elif critique.score >= GOOD_ENOUGH and not any(issue.strip() for issue in critique.issues):
            critique = evolve(critique, satisfied=True)
        return evolve(self, critique=critique)

    def confirms(self, earlier: Attempt) -> bool:
        """Return whether it confirms an earlier attempt in spite of its critique.

        It does when both say the same, what was seen supports it, and the critique names no figure that they
        lack.
        """
        if self.shortfall or earlier.shortfall or min(self.evidence, earlier.evidence) < 2:
            return False
        issues = () if earlier.critique is None else earlier.critique.issues
        own, others, named = (
            set(numbers_and_names(text)) for text in (self.claims, earlier.claims, " ".join(issues))
        )
        if own != others or not named <= own:
            return False
        return bool(own) or word_similarity(self.text, earlier.text) >= REPEATED


def attempt_at(
    text: str, seen: Seen, *, claims: str | None = None, shortfall: str = "", impossible: str = ""
) -> Attempt:
    """Return an attempt with its evidence; without results no figure is unsupported.

    ``claims``: what of the text needs a source; by default all.
    """
    claims = text if claims is None else claims
    unsupported = unsupported_figures(claims, seen) if seen.results and not impossible else ()
    evidence = 0 if unsupported else 1 + is_supported(claims, seen)
    return Attempt(text, None, shortfall, impossible, evidence, unsupported, claims)


def best_of(attempts: Sequence[Attempt]) -> Attempt | None:
    """Return the attempt of the highest rank; of equal ones the last."""
    return max(reversed(attempts), key=lambda each: each.rank, default=None)


def is_stagnant(attempts: Sequence[Attempt]) -> bool:
    """Return whether the last critique repeats the one before, without a better score.

    An attempt that fell short does not count, since the next one continues where it ended.
    """
    if len(attempts) < 2 or any(each.shortfall for each in attempts[-2:]):
        return False
    before, last = (each.critique for each in attempts[-2:])
    if before is None or last is None:
        return False
    if last.score > before.score:
        return False
    same = last.issues == before.issues
    return same or word_similarity(" ".join(before.issues), " ".join(last.issues)) >= REPEATED


# --- How a reflexion run is reported: its status and the reason for it ---


_ANSWERS = {1: "the only answer", 2: "either of the two answers"}


@frozen
class Verdict:
    """The outcome; without answer no ``output``, and without judgement no ``score``."""

    output: str | None
    status: ReasoningStatus
    reason: str
    score: float | None


def verdict_of(attempts: Sequence[Attempt], why: str, terminated_by: str) -> Verdict:
    """Return the best attempt with its status and reason.

    The status is ``completed`` when the critic accepted the attempt or gave it a score of ``GOOD_ENOUGH`` or
    more. By its instructions such an answer is right and complete with harmless flaws, which the reason
    names; many critics are never satisfied, so that otherwise a good answer could never be completed. It is
    also ``completed`` when another attempt confirmed it, and when it is complete and its critique could not
    be read, unless nothing supports one of its figures. It is ``partial`` with a lower score, when a limit
    prevented the critique, when its own pass left something undone, and when a budget prevented an
    improvement. It is ``abstained`` when its pass found the task impossible.

    Args:
        why: why the run ended, in a sentence.
    """
    best = best_of(attempts)
    if best is None:
        return Verdict(None, "partial", f"{why} Missing: an answer.", 0.0)
    if best.impossible:
        return Verdict(best.text, "abstained", f"{best.impossible} {why}", best.score)
    if best.accepted:
        return Verdict(best.text, "completed", why, best.score)
    unjudged = best.critique is None and terminated_by in ("critique_failed", RETURN_DIRECT)
    if unjudged and not best.shortfall and best.evidence:
        return Verdict(best.text, "completed", f"{why} The answer was not judged.", None)
    good = terminated_by == "confirmed" or best.score >= GOOD_ENOUGH
    status: ReasoningStatus = "completed" if good and terminated_by != "budget" else "partial"
    return Verdict(best.text, status, f"{why} {_shortfall_of(best, attempts, status)}", best.score)


def _shortfall_of(best: Attempt, attempts: Sequence[Attempt], status: ReasoningStatus) -> str:
    if best.critique is None:
        parts = [best.shortfall, "Missing: a critic's judgement of the answer."]
        return " ".join(part for part in parts if part)
    judged = sum(each.critique is not None for each in attempts)
    of = _ANSWERS.get(judged, f"any of the {judged} answers")
    said = f"No critic accepted {of}; the best has a score of {best.score:.2f}."
    issues = "; ".join(issue.strip().rstrip(".") for issue in best.critique.issues if issue.strip())
    lead = "Missing" if status == "partial" else "Still criticised"
    criticised = f"{lead}: {issues or 'a reason, as the critic gave none'}."
    return f"{said} {criticised}"


LESSONS_KEPT = 3
"""How many critiques of other attempts an improvement is shown, the last ones."""

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


def critic_content(task: str, attempt: Attempt, evidence: str, *, with_tools: bool) -> str:
    """Return the task, the answer and the tool results, if any, for the critic."""
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


NAME = "reflexion"
_CRITIQUE = Critique(("The second total is 41, not 43: the last item was left out.",), 0.3, False)


@frozen
class _Trial:
    """The attempts so far; ``critiques`` has one entry for each judged attempt."""

    progress: Progress
    attempts: tuple[Attempt, ...] = ()
    critiques: tuple[Critique, ...] = ()


@frozen
class _End:
    """The end of the attempts; ``error`` when it was a failure."""

    terminated_by: str
    why: str
    error: errors.ReasoningErrors | None = None


@effect
async def reflexion(
    strategy_input: StrategyInput, services: StrategyServices
) -> Result[ReasoningResult, errors.ReasoningErrors]:
    """Attempt the task, and improve the best answer until the critic is satisfied.

    It ends when the critic is satisfied, when another attempt gives a supported answer again, after
    ``max_retries`` improvements, when critiques repeat each other, at a limit of the run, and when an attempt
    or a critique fails. In each case the best attempt is returned, with the status that :func:`verdict_of`
    gives it. Fails with ``StrategyExecutionError`` when the model fails before there is an answer.

    It asks the model at most ``(1 + max_retries) * (kernel_max_iterations + 3)`` times, without compaction: a
    critique takes one call, and two more if its replies cannot be read.
    """
    measure = begin_measure(services)
    trial, end = _Trial(passes.begin_progress(strategy_input, services)), None
    while end is None:
        trial, end = await _attempt_once(trial, strategy_input, services)
    verdict = verdict_of(trial.attempts, end.why, end.terminated_by)
    if verdict.output is None and end.error is not None:
        return Failure(end.error)
    progress, reason = trial.progress, verdict.reason
    if verdict.status == "completed":
        reason = progress.with_doubts(reason, verdict.output)
    return Success(
        reasoning_result(
            NAME,
            measure,
            services,
            steps=progress.steps,
            output=verdict.output,
            status=verdict.status,
            iterations=progress.iterations,
            terminated_by=end.terminated_by,
            reason=reason,
            results=progress.tool_results,
            rejections=progress.rejections,
            task=strategy_input.task_description,
            form=strategy_input.answer_form,
            confidence=verdict.score,
        )
    )


async def _attempt_once(
    trial: _Trial, strategy_input: StrategyInput, services: StrategyServices
) -> tuple[_Trial, _End | None]:
    """Return the trial with one more attempt and its critique, and its end, if any."""
    each = _next_pass(trial, strategy_input, services)
    ran = await attempt(passes.run_pass(each, trial.progress, NAME, strategy_input, services))
    if isinstance(ran, Failure):
        return trial, _End("attempt_failed", ran.failure().message, ran.failure())
    state = ran.unwrap()
    trial = evolve(trial, progress=trial.progress.after(state))
    if state.status == "failed":
        error = errors.StrategyExecutionError(NAME, state.reason, trial.progress.iterations, state.error)
        return trial, _End("attempt_failed", state.reason, error)
    made = _attempt_of(state, trial.progress, strategy_input)
    if made is not None and (confirmed := _confirmed(trial, made)) is not None:
        return confirmed
    if made is not None and state.terminated_by == RETURN_DIRECT and not made.shortfall:
        return evolve(trial, attempts=(made,)), _End(RETURN_DIRECT, state.reason)
    limit = passes.limit_reached(strategy_input, services)
    if limit is not None:
        return _with_attempt(trial, made), _ended_by(limit)
    judged = await _judge(made, state, trial.progress, strategy_input, services)
    if isinstance(judged, Failure):
        error = judged.failure()
        limit = passes.limit_reached(strategy_input, services)
        end = _End("critique_failed", error.message) if limit is None else _ended_by(limit)
        return _with_attempt(trial, made), end
    trial = _with_critique(trial, made, judged.unwrap(), services)
    end = _end_by_critique(trial, made, strategy_input)
    return trial, end or _ended_by(passes.limit_reached(strategy_input, services))


def _next_pass(trial: _Trial, strategy_input: StrategyInput, services: StrategyServices) -> passes.Pass:
    task, number = strategy_input.task_description, len(trial.critiques) + 1
    if number == 1:
        lessons = strategy_input.memory.prior_critiques if strategy_input.memory is not None else ()
        pass_task, instructions = generate_task(task, lessons), _LESSONS if lessons else ""
    else:
        best = best_of(trial.attempts)
        instructions = _AGAIN if best is None else _IMPROVE
        others = tuple(each for each in trial.critiques if best is None or each is not best.critique)
        pass_task = improve_task(
            task, best, others, evidence_of_run(trial.progress, strategy_input, services)
        )
    label = f"{NAME}:{'generate' if number == 1 else 'improve'}"
    turns = strategy_input.config.strategies.reflexion.kernel_max_iterations
    return passes.Pass(label, f"a{number}.", pass_task, turns, instructions=instructions, user_task=task)


def _attempt_of(state: KernelState, progress: Progress, strategy_input: StrategyInput) -> Attempt | None:
    """Return the answer of a pass, if any, with the shortfall of an incomplete pass."""
    text = state.output or ""
    if not text.strip():
        return None
    told = (message.content for message in stable_prefix(kernel_input(strategy_input)))
    results = (*progress.tool_results.values(), *failures_in(progress.steps))
    seen = Seen(strategy_input.task_description, results, "\n".join(told))
    claims = claims_in(text, strategy_input.answer_form)
    if state.outcome == "abstained":
        return attempt_at(text, seen, claims=claims, impossible=state.reason)
    early = "" if state.outcome == "completed" else f"It was ended early: {state.reason}"
    return attempt_at(text, seen, claims=claims, shortfall=early)


def _confirmed(trial: _Trial, made: Attempt) -> tuple[_Trial, _End] | None:
    """Return the end by an attempt that confirms an earlier one, without a critic."""
    for number, earlier in enumerate(trial.attempts, 1):
        if made.confirms(earlier):
            why = f"Another attempt gave the answer of attempt {number} again, and what was seen supports it."
            return _with_attempt(trial, evolve(made, critique=earlier.critique)), _End("confirmed", why)
    return None


async def _judge(
    made: Attempt | None,
    state: KernelState,
    progress: Progress,
    strategy_input: StrategyInput,
    services: StrategyServices,
) -> Result[Critique, errors.StructuredOutputError]:
    """Return the critique of an attempt; one without an answer needs no model."""
    if made is None:
        return Success(Critique((f"No answer was given. {state.reason}",), 0.0, False))
    found = evidence_of_run(progress, strategy_input, services)
    depth = strategy_input.config.strategies.reflexion.self_critique_depth
    question = Question(
        shape_read_by(Critique, read_critique, example=_CRITIQUE),
        f"{_DEEP if depth == 'deep' else _SHALLOW} {_FAIR}",
        critic_content(
            strategy_input.task_description, made, found, with_tools=bool(found) or passes.has_tools(services)
        ),
        "critique",
        about_answer=True,
    )
    answered = await attempt(ask_structured(question, strategy_input, services))
    return answered.map(lambda structured: structured.value)


def _with_attempt(trial: _Trial, made: Attempt | None) -> _Trial:
    return trial if made is None else evolve(trial, attempts=(*trial.attempts, made))


def _with_critique(
    trial: _Trial, made: Attempt | None, critique: Critique, services: StrategyServices
) -> _Trial:
    judged = None if made is None else made.judged(critique)
    final = critique if judged is None or judged.critique is None else judged.critique
    progress = passes.note_step(
        trial.progress,
        "critique",
        critique_text(final),
        services,
        label=f"{NAME}:critique",
        metadata=StepMetadata(confidence=final.score, success=final.satisfied),
    )
    return _with_attempt(evolve(trial, progress=progress, critiques=(*trial.critiques, final)), judged)


def _end_by_critique(trial: _Trial, made: Attempt | None, strategy_input: StrategyInput) -> _End | None:
    """Return the end by the last critique, or by the number of critiques, if any."""
    count = len(trial.critiques)
    if made is not None and trial.attempts[-1].accepted:
        return _End("satisfied", f"The critic was satisfied with attempt {count}.")
    if count > strategy_input.config.strategies.reflexion.max_retries:
        return _End("max_retries", f"The limit of {count} attempts was reached.")
    if made is not None and is_stagnant(trial.attempts):
        return _End("stagnation", f"Attempt {count} was criticised for the same as the one before.")
    return None


def _ended_by(limit: passes.Limit | None) -> _End | None:
    return None if limit is None else _End(limit.name, limit.reason)
