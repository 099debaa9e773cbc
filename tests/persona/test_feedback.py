"""Evidence for what was learned, besides the model's praise: reactions of users, checks, failed calls."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest
from attrs import evolve
from returns.future import FutureResult
from returns.maybe import Maybe
from returns.result import Result

from reactive_agents.core.channels import Reaction
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable, RateLimited
from reactive_agents.core.ids import PlanId
from reactive_agents.core.persona_events import PersonaOutcomeEvaluated, PersonaStageFailed
from reactive_agents.core.persona_queue import WorkItem
from reactive_agents.core.personas import (
    DeliveryPolicy,
    DomainEvent,
    Feedback,
    LearningEntry,
    PersonaOutcome,
    PersonaPlan,
    PersonaTimeouts,
    StepCall,
)
from reactive_agents.effects import attempt, effect
from reactive_agents.persona.explanation import explain_event
from reactive_agents.testing import FakeTools, ScriptedLLM, Turn, answer, call, fail, say
from reactive_agents.testing.core import START
from tests.support.personas import PersonaBench, alter, an_event, assessed, persona_bench, planned

pytestmark = pytest.mark.anyio

LESSON = "Name the source."


def turns(*, met: bool = True) -> tuple[Turn, ...]:
    return planned("Say it.", goal="Bob knows it."), say("So."), assessed(LESSON, met=met)


async def answered(*script: Turn, **settings: Any) -> PersonaBench:
    """A persona whose answer to Bob has the platform's id ``m1``."""

    async def deliver(event: DomainEvent, text: str) -> str:
        return "m1"

    bench = persona_bench(ScriptedLLM(*(script or turns())), deliver=deliver, **settings)
    assert (await bench.process()).status == "completed"
    return bench


async def react(bench: PersonaBench, user: str, *, good: bool, message: str = "m1") -> PersonaOutcome | None:
    """The outcome of a reaction; ``None`` where there is no such message."""
    found = await attempt(bench.persona.feedback_of("chat", Reaction(message, user, good)))
    event = found.unwrap()
    if event is None:
        return None
    return (await attempt(bench.persona.process_event("chat", event))).unwrap()


def outcomes(bench: PersonaBench) -> tuple[bool, ...]:
    [learning] = bench.store.learnings.values()
    assert isinstance(learning, LearningEntry)
    return learning.outcomes


async def test_a_thumb_down_weakens_what_the_model_praised_and_ends_the_reuse_of_its_plan() -> None:
    bench = await answered()
    [plan] = bench.store.plans.values()
    assert (outcomes(bench), plan.succeeded) == ((True,), True)
    before = next(iter(bench.store.learnings.values())).confidence
    noted = await react(bench, "Bob", good=False)
    assert noted is not None
    assert (noted.status, noted.reason) == ("declined", "It was noted: the answer was bad for its users.")
    assert outcomes(bench) == (True, False)
    assert next(iter(bench.store.learnings.values())).confidence < before
    [plan] = bench.store.plans.values()
    assert plan.succeeded is False  # and so it is not reused
    assert noted.tokens == 0


@pytest.mark.parametrize("helps", [True, False])
async def test_a_lesson_is_credited_only_where_plans_without_it_do_worse(helps: bool) -> None:
    without = (planned("Say it."), say("So."), assessed(met=not helps))
    following = (planned("Say it.", follows=(1,)), say("So."), assessed())
    llm = ScriptedLLM(*turns(), *without * 4, *following * 4)

    async def deliver(event: DomainEvent, text: str) -> str:
        return f"m{event.id}"

    bench = persona_bench(llm, reuse_above=1.0, deliver=deliver)
    for number in range(9):
        assert (await bench.process("How far is the moon?", f"event-{number}")).status == "completed"
    for liked in (False, True):
        [learning] = bench.store.learnings.values()
        assert (learning.pattern, learning.outcomes) == (LESSON, (True,) * (5 + liked))
        assert (learning.confidence > 0.75) == helps
        assert helps or learning.confidence < 0.6
        if not liked:
            assert await react(bench, "Bob", good=True, message="mevent-8") is not None


async def test_many_reactions_to_one_answer_are_one_piece_of_evidence() -> None:
    bench = await answered()
    for number in range(5):
        assert await react(bench, f"user{number}", good=True) is not None
    assert outcomes(bench) == (True, True)
    again = await react(bench, "user0", good=True)
    assert again is not None
    assert again.reason == "It was handled already."
    for number in range(6):
        await react(bench, f"other{number}", good=False)
    assert outcomes(bench) == (True, True, False)


async def test_the_latest_opinion_of_a_user_counts_and_is_given_once_each() -> None:
    bench = await answered()
    for good in (True, False, True, False):  # the last two are known
        await react(bench, "Bob", good=good)
    [plan] = bench.store.plans.values()
    assert [(each.user, each.good) for each in plan.feedback] == [("Bob", False)]
    assert outcomes(bench) == (True, True, False)


async def test_an_evaluation_that_comes_after_the_reaction_respects_it() -> None:
    bench = await answered(*turns(met=False)[:2], evaluation="off")
    assert await react(bench, "Bob", good=True) is not None
    [plan] = bench.store.plans.values()
    assert (plan.liked, plan.succeeded) == (True, None)
    bench.persona.settings = evolve(bench.persona.settings, evaluation="after")
    judged = persona_bench(ScriptedLLM(assessed(LESSON, met=False)), store=bench.store)
    same = (
        'persona_id, tenant, domain, context_id, key, event_id, "user", priority, '
        "created_at, updated_at, event"
    )
    alter(
        bench.store,
        f"INSERT INTO persona_work (kind, {same}, plan_id, task_id) "
        f"SELECT 'evaluation', {same}, ?, ? FROM persona_work WHERE kind = 'event'",
        plan.id,
        plan.task.id,
    )
    (await attempt(judged.persona.resume())).unwrap()
    [plan] = bench.store.plans.values()
    assert plan.succeeded is True
    assert outcomes(bench) == (True,)


@pytest.mark.parametrize("changes", [{"message_id": "m2"}, {"message_id": ""}, {"tenant": "acme"}], ids=str)
async def test_what_is_no_message_of_the_tenant_has_no_event(changes: dict[str, str]) -> None:
    bench = await answered()
    reaction = evolve(Reaction("m1", "Bob", good=False), **changes)
    assert (await attempt(bench.persona.feedback_of("chat", reaction))).unwrap() is None


async def test_feedback_on_a_plan_of_another_room_is_not_taken() -> None:
    bench = await answered()
    [plan] = bench.store.plans.values()
    for plan_id, tenant in ((plan.id, "acme"), (PlanId("none"), "")):
        event = evolve(plan.event, id="r1", tenant=tenant, feedback=Feedback(plan_id, "Eve", good=False))
        outcome = (await attempt(bench.persona.process_event("chat", event))).unwrap()
        assert outcome.reason == "The answer that it is about is not known any more."
    assert outcomes(bench) == (True,)


async def test_an_author_who_corrects_the_last_answer_is_evidence_against_it() -> None:
    script = (planned("Say it again.", corrects=True), say("It is 132."), assessed())
    bench = await answered(*turns(), *script, *script)
    assert outcomes(bench) == (True,)
    await bench.process("Someone else is wrong.", "event-2", author="Eve")
    assert outcomes(bench) == (True,)  # it is not the last answer to her
    await bench.process("No, it is 132.", "event-3")
    assert outcomes(bench) == (True, False)
    first = next(iter(bench.store.plans.values()))
    assert (first.succeeded, first.feedback) == (False, (Feedback(first.id, "Bob", good=False, at=START),))


# --- checks of the program, and failed calls ----------------------------------------------------------


def refund(order: str) -> str:
    """Refund an order."""
    if order == "4711":
        raise RuntimeError("The order is not paid.")
    return f"refunded {order}"


REFUND = planned("Refund it.", goal="Bob has his money."), call("refund", order="4711")


async def test_a_plan_whose_last_call_failed_meets_nothing_whatever_the_model_says() -> None:
    praise = answer("It is refunded, sorry for the RuntimeError."), assessed(LESSON)
    bench = persona_bench(ScriptedLLM(*REFUND, *praise), tools=FakeTools({"refund": refund}))
    outcome = await bench.process()
    assert (outcome.status, outcome.evaluation and outcome.evaluation.evidence) == ("failed", "calls")
    assert outcomes(bench) == (False,)
    [plan] = bench.store.plans.values()
    assert plan.succeeded is False
    told = [line for each in bench.recorder.of(PersonaOutcomeEvaluated) for line in explain_event(each)]
    assert told[0] == ("evaluation", "Not every criterion was met, since the last tool call failed.")


async def test_a_call_that_failed_and_then_worked_is_no_evidence_and_the_judge_is_shown_both() -> None:
    seen = "refund.*4711.*failed.*not paid.*\n.*refund.*4712.*worked.*refunded 4712"
    script = call("refund", order="4712"), answer("Refunded 4712."), assessed(LESSON)
    llm = ScriptedLLM(*REFUND, *script)
    bench = persona_bench(llm, tools=FakeTools({"refund": refund}))
    outcome = await bench.process()
    assert outcome.evaluation is not None
    assert (outcome.evaluation.evidence, outcomes(bench)) == ("model", (True,))
    assert re.search(seen, str(llm.requests[-1].messages[-1].content))


@pytest.mark.parametrize(
    ("says", "praise", "worked", "evidence"),
    [
        (False, True, False, "check"),
        (True, False, True, "check"),
        (None, True, True, "model"),
        (None, False, False, "model"),
    ],
)
async def test_a_check_of_the_program_counts_more_than_the_model(
    says: bool | None, praise: bool, worked: bool, evidence: str
) -> None:
    judged: list[tuple[str, str, tuple[StepCall, ...]]] = []

    async def check(event: DomainEvent, text: str, calls: tuple[StepCall, ...]) -> bool | None:
        judged.append((event.id, text, calls))
        return says

    bench = await answered(*turns(met=praise), check=check)
    assert judged == [("event-1", "So.", ())]
    assert outcomes(bench) == (worked,)
    [evaluated] = bench.recorder.of(PersonaOutcomeEvaluated)
    assert evaluated.evaluation.evidence == evidence
    assert await react(bench, "Bob", good=not worked) is not None
    assert outcomes(bench) == (worked, not worked)  # and the users count most


async def test_a_check_that_raises_is_an_evaluation_that_is_tried_again() -> None:
    broken = [True]

    def check(event: DomainEvent, text: str, calls: tuple[StepCall, ...]) -> bool:
        if broken:
            raise LookupError("no such order")
        return True

    bench = await answered(*turns(), check=check)
    assert bench.store.learnings == {}
    [failed] = bench.recorder.of(PersonaStageFailed)
    assert (failed.stage, "LookupError: no such order" in failed.error.message) == ("evaluate", True)
    broken.clear()
    bench.clock.advance(60)
    (await attempt(bench.persona.resume())).unwrap()
    assert outcomes(bench) == (True,)


async def test_a_check_that_hangs_is_an_evaluation_that_is_tried_again() -> None:
    async def check(event: DomainEvent, text: str, calls: tuple[StepCall, ...]) -> bool:
        await anyio.sleep_forever()
        return True

    bench = await answered(*turns(), check=check, timeouts=PersonaTimeouts(evaluation_s=0.001))
    [failed] = bench.recorder.of(PersonaStageFailed)
    assert (failed.stage, "TimeoutError" in failed.error.message) == ("evaluate", True)


async def test_no_check_judges_the_answer_of_a_plan_that_failed() -> None:
    def check(event: DomainEvent, text: str, calls: tuple[StepCall, ...]) -> bool:
        raise AssertionError("there is no answer")

    refused = fail(RateLimited("Too many requests.", "m"))
    llm = ScriptedLLM(planned("Say it."), refused, assessed(LESSON))
    bench = persona_bench(llm, check=check, max_replans=0)
    outcome = await bench.process()
    assert (outcome.status, bench.recorder.of(PersonaStageFailed)) == ("failed", [])
    assert outcome.evaluation is not None
    assert outcome.evaluation.meets_criteria is False


async def test_an_evaluation_whose_process_ended_after_it_had_learned_teaches_nothing_twice() -> None:
    follows = planned("Say it.", goal="Bob knows it.", follows=(1,))
    bench = await answered(*turns(), follows, say("So."), assessed("Name it."), reuse_above=1.0)
    end_work = bench.store.end_work

    def ends_the_process(item: WorkItem, *given: Any, **named: Any) -> Any:
        if item.kind == "evaluation":
            return FutureResult.from_failure(MemoryUnavailable("The process has ended.", "end_work"))
        return end_work(item, *given, **named)

    bench.store.end_work = ends_the_process
    assert (await bench.process(name="e2")).status == "completed"
    bench.store.end_work = end_work
    learned = dict(bench.store.learnings)
    alter(bench.store, "UPDATE persona_work SET holder = '' WHERE kind = 'evaluation'")
    await attempt(bench.persona.resume())
    assert [each.success_count for each in learned.values()] == [2, 1]
    assert bench.store.learnings == learned
    assert not any(each.is_open for each in bench.store.work.values())


async def test_an_evaluation_that_ends_its_process_is_not_repeated_without_end() -> None:
    bench, tries = persona_bench(ScriptedLLM(*turns())), list[int]()

    def note(event: object) -> None:
        if isinstance(event, PersonaOutcomeEvaluated):
            tries.extend(each.attempts for each in bench.store.work.values() if each.kind == "evaluation")

    bench.persona.services.events.subscribe(note)
    item = await waiting_evaluation(bench)
    alter(bench.store, "UPDATE persona_work SET attempts = 7, holder = '' WHERE number = ?", item.number)
    await attempt(bench.persona.resume())
    assert tries == [8]


async def waiting_evaluation(bench: PersonaBench) -> WorkItem:
    event = an_event()
    (await attempt(bench.store.add_event(bench.persona.room_of("chat", event), event))).unwrap()
    item = (await bench.persona.claim("event")).unwrap()
    assert item is not None
    outcome = await bench.persona.work_event(item)
    assert outcome is not None
    await bench.persona.end_event(item, outcome)
    evaluation = (await bench.persona.claim("evaluation")).unwrap()
    assert evaluation is not None
    return evaluation


@pytest.mark.parametrize("busy", ["get_plan", "list_learnings", "change_learnings"])
async def test_a_reaction_that_cannot_be_stored_is_taken_later(busy: str) -> None:
    bench = await answered(delivery=DeliveryPolicy(backoff_s=0.001))
    kept, locked = getattr(bench.store, busy), MemoryUnavailable("The file is locked.", busy)
    setattr(bench.store, busy, lambda *given, **named: FutureResult.from_failure(locked))
    assert await react(bench, "Bob", good=False) is not None
    setattr(bench.store, busy, kept)
    bench.clock.advance(1)
    (await attempt(bench.persona.resume())).unwrap()
    assert outcomes(bench) == (True, False)
    [plan] = bench.store.plans.values()
    assert [each.good for each in plan.feedback] == [False]


async def test_a_reaction_during_an_evaluation_stays_with_the_plan() -> None:
    bench = persona_bench(ScriptedLLM(*turns()))
    item = await waiting_evaluation(bench)
    get_plan, reads = bench.store.get_plan, list[PlanId]()

    @effect
    async def read(plan_id: PlanId) -> Result[Maybe[PersonaPlan], MemoryErrors]:
        found = await attempt(get_plan(plan_id))
        reads.append(plan_id)
        if len(reads) == 2:  # before the evaluated plan is stored
            plan = found.unwrap().unwrap()
            reaction = Feedback(plan_id, "Eve", good=False)
            (await attempt(bench.store.save_plan(evolve(plan, feedback=(reaction,))))).unwrap()
        return found

    bench.store.get_plan = read
    evaluated = await bench.persona.work_item(item)
    assert evaluated is not None
    [plan] = bench.store.plans.values()
    assert [each.user for each in plan.feedback] == ["Eve"]
