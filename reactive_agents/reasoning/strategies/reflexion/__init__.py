"""Reflexion: attempt, criticise, improve (Shinn et al., 2023, arXiv:2303.11366)."""

from __future__ import annotations

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ReasoningErrors, StrategyExecutionError, StructuredOutputError
from reactive_agents.core.results import ReasoningResult, StepMetadata
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import KernelState
from reactive_agents.kernel.answer_check import Seen
from reactive_agents.kernel.prompt import stable_prefix
from reactive_agents.reasoning import passes
from reactive_agents.reasoning.confidence import failures_in
from reactive_agents.reasoning.passes import Progress, evidence_of_run
from reactive_agents.reasoning.strategies.reflexion import prompts
from reactive_agents.reasoning.strategies.reflexion.attempts import (
    Attempt,
    Critique,
    attempt_at,
    best_of,
    is_stagnant,
    read_critique,
    verdict_of,
)
from reactive_agents.reasoning.strategy import (
    StrategyInput,
    StrategyServices,
    begin_measure,
    kernel_input,
    reasoning_result,
)
from reactive_agents.reasoning.structured_output import Question, ask_structured, shape_read_by

NAME = "reflexion"
_CRITIQUE = Critique(("The second total is 41, not 43: the last item was left out.",), 0.3, False)


@frozen
class _Trial:
    """The attempts so far; ``critiques`` has one entry for each that was judged."""

    progress: Progress
    attempts: tuple[Attempt, ...] = ()
    critiques: tuple[Critique, ...] = ()


@frozen
class _End:
    """The end of the attempts; ``error`` when it was a failure."""

    terminated_by: str
    why: str
    error: ReasoningErrors | None = None


@effect
async def reflexion(
    strategy_input: StrategyInput, services: StrategyServices
) -> Result[ReasoningResult, ReasoningErrors]:
    """Attempt the task, and improve the best answer until the critic is satisfied.

    It ends when the critic is satisfied, when another attempt gives a supported answer again, after
    ``max_retries`` improvements, when critiques repeat each other, at a limit of the run, and when an attempt
    or a critique fails. In each case the best attempt
    is returned, with the status that :func:`verdict_of` gives it. Fails with ``StrategyExecutionError`` when
    the model fails before there is an answer.

    Asks the model at most ``(1 + max_retries) * (kernel_max_iterations + 3)`` times, compaction not
    counted: a critique takes one call, and two more where its replies cannot be read.
    """
    measure = begin_measure(services)
    trial, end = _Trial(passes.begin_progress(strategy_input, services)), None
    while end is None:
        trial, end = await _attempt_once(trial, strategy_input, services)
    verdict = verdict_of(
        trial.attempts,
        end.why,
        over_budget=end.terminated_by == "budget",
        confirmed=end.terminated_by == "confirmed",
        unread=end.terminated_by == "critique_failed",
    )
    if verdict.output is None and end.error is not None:
        return Failure(end.error)
    progress = trial.progress
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
            reason=verdict.reason,
            results=progress.tool_results,
            rejections=progress.rejections,
            task=strategy_input.task_description,
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
        error = StrategyExecutionError(NAME, state.reason, trial.progress.iterations, state.error)
        return trial, _End("attempt_failed", state.reason, error)
    made = _attempt_of(state, trial.progress, strategy_input)
    if made is not None and (confirmed := _confirmed(trial, made)) is not None:
        return confirmed
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
        pass_task, instructions = prompts.generate_task(task, lessons), prompts.first_instructions(lessons)
    else:
        best = best_of(trial.attempts)
        instructions = prompts.next_instructions(best)
        others = tuple(each for each in trial.critiques if best is None or each is not best.critique)
        pass_task = prompts.improve_task(
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
    if state.outcome == "abstained":
        return attempt_at(text, seen, impossible=state.reason)
    early = "" if state.outcome == "completed" else f"It was ended early: {state.reason}"
    return attempt_at(text, seen, shortfall=early)


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
) -> Result[Critique, StructuredOutputError]:
    """Return the critique of an attempt.

    A pass without an answer needs no model for that.
    """
    if made is None:
        return Success(Critique((f"No answer was given. {state.reason}",), 0.0, False))
    found = evidence_of_run(progress, strategy_input, services)
    question = Question(
        shape_read_by(Critique, read_critique, example=_CRITIQUE),
        prompts.critic_instructions(strategy_input.config.strategies.reflexion.self_critique_depth),
        prompts.critic_content(
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
        prompts.critique_text(final),
        services,
        strategy=NAME,
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
