"""The laws of reflexion: the best attempt comes back, whatever the critic says, within the bound of calls."""

from __future__ import annotations

import json

import anyio
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from reactive_agents.core.config import ReasoningConfig, ReflexionConfig, StrategiesConfig
from reactive_agents.core.models import ModelRequest
from reactive_agents.effects import attempt
from reactive_agents.reasoning.strategies.reflexion import (
    Attempt,
    Critique,
    best_of,
    is_stagnant,
    reflexion,
    verdict_of,
)
from tests.support.kernels import kernel_bench
from tests.support.models import DOWN, TOKENS, RuledLLM, Said, services_with
from tests.support.profiles import examples
from tests.support.strategies import strategy_input

scores = st.sampled_from([0.0, 0.3, 0.5, 0.69, 0.7, 1.0]) | st.floats(0, 1)
issues = st.lists(st.sampled_from(["Too long.", "No source.", "The sum is 23.", ""]) | st.text(max_size=8))
critiques = st.builds(Critique, issues.map(tuple), scores, st.booleans())
unjudged = st.builds(Attempt, st.text(min_size=1), shortfall=st.sampled_from(["", "Missing: add."]))
attempts = unjudged | st.builds(lambda made, critique: made.judged(critique), unjudged, critiques)


def is_good(critique: Critique) -> bool:
    """Whether it accepts what has no fault of its own: it says so, or has a good score and names no issue."""
    return critique.satisfied or (critique.score >= 0.7 and not any(map(str.strip, critique.issues)))


@given(st.lists(attempts, min_size=1))
def test_no_attempt_is_better_than_the_best_and_no_later_one_as_good(tried: list[Attempt]) -> None:
    best = best_of(tried)
    assert best is not None
    at = next(index for index, each in enumerate(tried) if each is best)
    assert all(each.rank <= best.rank for each in tried)
    assert all(each.rank < best.rank or each is best for each in tried[at + 1 :])


@given(st.lists(attempts))
def test_a_verdict_is_about_the_best_attempt_and_says_why(tried: list[Attempt]) -> None:
    verdict, best = verdict_of(tried, "The limit was reached.", "max_retries"), best_of(tried)
    assert verdict.reason.startswith("The limit was reached.")
    assert verdict.output == (None if best is None else best.text)
    if best is None or best.shortfall or best.critique is None:
        assert (verdict.status, "Missing" in verdict.reason) == ("partial", True)
    elif best.critique.satisfied:
        assert verdict.status == "completed"
    else:
        assert verdict.status == ("completed" if best.critique.score >= 0.7 else "partial")
        assert all(issue.strip().rstrip(".") in verdict.reason for issue in best.critique.issues)


@given(unjudged, critiques)
def test_no_critic_accepts_what_falls_short(made: Attempt, critique: Critique) -> None:
    judged = made.judged(critique)
    assert judged.accepted is (is_good(critique) and not made.shortfall)
    assert judged.score == (min(critique.score, 0.5) if made.shortfall else critique.score)
    assert judged.critique is not None
    assert set(critique.issues) <= set(judged.critique.issues)


@given(critiques, scores, scores)
def test_the_same_criticism_is_stagnation_unless_the_score_rises(
    critique: Critique, before: float, after: float
) -> None:
    pair = [Attempt("a").judged(Critique(critique.issues, score, False)) for score in (before, after)]
    assert is_stagnant(pair) is (after <= before)
    assert not is_stagnant(pair[:1])
    assert not is_stagnant([pair[0], Attempt("a", shortfall="Missing: add.").judged(critique)])


said = st.one_of(
    st.text(max_size=5).map(lambda text: f"answer {text}"),
    st.just(""),
    st.just(("lookup", {"word": "a"})),
    st.just(DOWN),
)
judged = st.one_of(
    critiques.map(
        lambda each: json.dumps({"issues": each.issues, "score": each.score, "satisfied": each.satisfied})
    ),
    st.just("no critique"),
    st.just(DOWN),
)


@examples(15)
@given(st.data(), st.integers(1, 3), st.integers(1, 3))
def test_whatever_the_model_says_the_run_ends_within_its_bound_and_with_honest_totals(
    data: st.DataObject, max_retries: int, turns: int
) -> None:
    accepted: list[bool] = []

    def rule(request: ModelRequest) -> Said:
        answer = data.draw(judged if request.purpose == "critique" else said)
        if request.purpose == "critique" and isinstance(answer, str) and answer.startswith("{"):
            accepted.append(is_good(Critique(**json.loads(answer))))
        return answer

    model = RuledLLM(rule)
    bench = kernel_bench(tools={"lookup": "A word."})
    services = services_with(model, bench)
    config = ReflexionConfig(max_retries, kernel_max_iterations=turns)
    given_input = strategy_input(reasoning=ReasoningConfig(strategies=StrategiesConfig(reflexion=config)))

    async def run() -> object:
        return await attempt(reflexion(given_input, services))

    ended = anyio.run(run)
    assert len(model.requests) <= (1 + max_retries) * (turns + 3)
    assert services.meter.usage.tokens == TOKENS * services.meter.usage.calls
    if isinstance(ended, Failure):
        assert DOWN in (ended.failure().cause, getattr(ended.failure().cause, "cause", None))
        return
    assert isinstance(ended, Success)
    result = ended.unwrap()
    critics = [step for step in result.steps if step.type == "critique"]
    assert result.metadata.tokens_used == services.meter.usage.tokens
    assert result.metadata.cost == services.meter.usage.cost_usd
    assert (result.status == "partial") <= ("Missing" in result.metadata.reason)
    assert len(critics) <= 1 + max_retries
    assert (result.metadata.terminated_by == "satisfied") <= any(accepted)
    assert (result.output is None) <= (result.status == "partial")


@examples(15)
@given(st.lists(critiques, min_size=1, max_size=5))
def test_the_answer_is_never_worse_than_the_best_that_was_seen(verdicts: list[Critique]) -> None:
    seen: dict[str, tuple[bool, float]] = {}
    letters = iter("abcdefgh")

    def rule(request: ModelRequest) -> Said:
        if request.purpose != "critique":
            return f"answer {next(letters)}"
        verdict = verdicts[len(seen) % len(verdicts)]
        seen[f"answer {'abcdefgh'[len(seen)]}"] = (is_good(verdict), verdict.score)
        return json.dumps({"issues": verdict.issues, "score": verdict.score, "satisfied": verdict.satisfied})

    services = services_with(RuledLLM(rule), kernel_bench())

    async def run() -> object:
        return await attempt(reflexion(strategy_input(), services))

    ended = anyio.run(run)
    assert isinstance(ended, Success)
    output = ended.unwrap().output
    assert output is not None
    assert seen[output] == max(seen.values())
    assert output == [text for text, rank in seen.items() if rank == seen[output]][-1]
