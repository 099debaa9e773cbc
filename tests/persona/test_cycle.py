"""The whole way of an event: engagement, plan, steps, delivery, evaluation, learning."""

from __future__ import annotations

from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from attrs import evolve

from reactive_agents.core.codec import abbreviated
from reactive_agents.core.errors import (
    AuthenticationFailed,
    DeliveryFailed,
    InvalidEvent,
    LLMErrors,
    MemoryUnavailable,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    RequestRejected,
    StepTimedOut,
    StructuredOutputError,
    UnknownDomain,
)
from reactive_agents.core.events import ModelCallCompleted, TaskStarted
from reactive_agents.core.ids import LearningId, PlanId, TaskId
from reactive_agents.core.persona_events import (
    PersonaEngagementDecided,
    PersonaLearningChanged,
    PersonaPlanAdjusted,
    PersonaPlanFormulated,
    PersonaStageFailed,
    PersonaStepEnded,
)
from reactive_agents.core.personas import DeliveryPolicy, DomainEvent, PersonaTimeouts
from reactive_agents.effects import attempt
from reactive_agents.persona import PersonaDomain
from reactive_agents.testing import FakeTools, InMemoryPersonaStore, ScriptedLLM, call, fail, forever, say
from reactive_agents.testing.core import START
from reactive_agents.testing.scripted_llm import render_messages
from tests.support.personas import (
    EVALUATING,
    PLANNING,
    REPLANNING,
    an_event,
    assessed,
    persona_bench,
    planned,
)

pytestmark = pytest.mark.anyio

LIMITED = RateLimited("Too many requests.", "scripted/test")
AT_ONCE = DeliveryPolicy(backoff_s=0.0001)


def prompts(llm: ScriptedLLM, containing: str) -> list[str]:
    said = [render_messages(request.messages) for request in llm.requests]
    return [text for text in said if containing in text]


# --- the three scenarios --------------------------------------------------------------------------------


async def test_a_simple_message_gets_a_plan_and_an_answer() -> None:
    posted: list[tuple[str, str]] = []

    async def post(event: DomainEvent, answer: str) -> None:
        posted.append((event.context_id, answer))

    llm = ScriptedLLM(
        planned("Recall what React is.", "Compose the response."),
        say("React is a library for user interfaces.", when="Recall what React is."),
        say("React is a library, made by Facebook.", when="Compose the response."),
        assessed("Say in one sentence what it is first."),
    )
    bench = persona_bench(llm, deliver=post)
    outcome = await bench.process()
    assert (outcome.status, outcome.answer) == ("completed", "React is a library, made by Facebook.")
    assert posted == [("general", "React is a library, made by Facebook.")]
    plan = outcome.plan
    assert plan is not None
    assert [step.status for step in plan.plan.steps] == ["completed", "completed"]
    assert (plan.plan.status, plan.source, plan.succeeded) == ("completed", "model", True)
    assert outcome.evaluation is not None
    assert outcome.evaluation.meets_criteria
    assert outcome.evaluation.criteria[0].criterion == "The answer is clear."
    assert bench.store.plans[plan.id] == plan
    second = prompts(llm, "Compose the response.")[0]
    assert "<result>\nReact is a library for user interfaces.\n</result>" in second
    assert "This is the last step" in second
    assert outcome.tokens == 15 * 4  # planning, two steps, evaluation
    assert plan.plan.total_tokens == 15 * 2
    stages = [type(event).__name__ for event in bench.store.events]
    assert stages == [
        "PersonaEventReceived",
        "PersonaEngagementDecided",
        "PersonaPlanFormulated",
        *["PersonaStepStarted", "PersonaStepEnded", "PersonaPlanAdjusted"] * 2,
        "PersonaPlanEnded",
        "PersonaOutcomeEvaluated",
        "PersonaLearningChanged",
    ]


async def test_a_rate_limit_triggers_the_contingency() -> None:
    llm = ScriptedLLM(
        planned("Ask the search service.", contingencies={"rate_limit": ("Wait, then answer briefly.",)}),
        fail(LIMITED, when="Ask the search service."),
        say("React, in short, is a library.", when="Wait, then answer briefly."),
        assessed(),
    )
    bench = persona_bench(llm)
    outcome = await bench.process()
    assert (outcome.status, outcome.answer) == ("completed", "React, in short, is a library.")
    assert outcome.plan is not None
    steps = outcome.plan.plan.steps
    assert [(step.instruction, step.status) for step in steps] == [
        ("Ask the search service.", "failed"),
        ("Wait, then answer briefly.", "completed"),
    ]
    adjusted = bench.recorder.of(PersonaPlanAdjusted)
    assert [(each.action, each.error_kind) for each in adjusted] == [
        ("CONTINGENCY", "rate_limit"),
        ("CONTINUE", None),
    ]
    assert outcome.plan.attempts == 0
    assert prompts(llm, REPLANNING) == []


async def test_five_similar_questions_make_one_learning_that_the_next_plan_is_shown() -> None:
    lessons = [
        "Check the user's React level before explaining hooks",
        "Check the user's React level before explaining hooks.",
        "Before explaining hooks, check the user's React level",
        "Always check the user's React level before explaining hooks",
        "Check a user's React level before explaining hooks!",
    ]
    questions = [
        "How do React hooks work?",
        "Please explain useState to me",
        "When does an effect run twice?",
        "What are custom hooks good for?",
        "Why is my state one render late?",
    ]
    turns = [planned("Explain it.", follows=(1,)), say("So and so.", when="Explain it.")]
    llm = ScriptedLLM(
        *(turn for lesson in lessons for turn in (*turns, assessed(lesson))), *turns, assessed()
    )
    bench = persona_bench(llm)
    for number, question in enumerate(questions):
        assert (await bench.process(question, f"event-{number}")).status == "completed"
    (learning,) = (await attempt(bench.persona.reasoning.learnings("chat"))).unwrap()
    assert learning.pattern == lessons[0]
    assert (learning.success_count, learning.failure_count, learning.use_count) == (5, 0, 5)
    assert learning.confidence == pytest.approx(0.79, rel=1e-2)
    assert len(set(learning.learned_from)) == 5
    await bench.process("Which rules do hooks have?", "event-6")
    shown = prompts(llm, PLANNING)[-1]
    assert f"1. {lessons[0]} (confidence 0.79, succeeded in 5 of 5 tasks, learned in this room)" in shown
    changes = [event.change for event in bench.recorder.of(PersonaLearningChanged)]
    assert changes == ["created", *["confirmed"] * 5]


# --- errors ---------------------------------------------------------------------------------------------

FAILURES: list[tuple[LLMErrors, str]] = [
    (ModelTimeout("No answer.", "m", 5.0), "timeout"),
    (LIMITED, "rate_limit"),
    (RequestRejected("There is no such model.", "m", 404), "missing_resource"),
    (AuthenticationFailed("The key is refused.", "m"), "access_denied"),
    (ModelUnavailable("The provider cannot be reached.", "m"), "network"),
    (RequestRejected("Odd.", "m", 400), "unknown"),
]


@pytest.mark.parametrize(("error", "kind"), FAILURES, ids=[kind for _, kind in FAILURES])
async def test_each_kind_of_error_has_its_contingency(error: LLMErrors, kind: str) -> None:
    foreseen = {each: (f"Make up for {each}.",) for _, each in FAILURES}
    llm = ScriptedLLM(
        planned("Look it up.", contingencies=foreseen),
        fail(error, when="Look it up."),
        say("Made up for.", when=f"Make up for {kind}."),
        assessed(),
    )
    outcome = await persona_bench(llm).process()
    assert (outcome.status, outcome.answer) == ("completed", "Made up for.")


async def test_an_unforeseen_failure_is_planned_anew_and_completed_steps_stay() -> None:
    llm = ScriptedLLM(
        planned("Gather the facts.", "Ask the search service.", "Write it up."),
        say("Facts: 42.", when="Gather the facts."),
        fail(LIMITED, when="Ask the search service."),
        planned("Write it up from the facts alone.", when=REPLANNING, goal="A smaller goal."),
        say("It is 42.", when="Write it up from the facts alone."),
        assessed(),
    )
    bench = persona_bench(llm)
    outcome = await bench.process()
    assert (outcome.status, outcome.answer) == ("completed", "It is 42.")
    assert outcome.plan is not None
    assert [(step.instruction, step.status) for step in outcome.plan.plan.steps] == [
        ("Gather the facts.", "completed"),
        ("Ask the search service.", "failed"),
        ("Write it up.", "skipped"),
        ("Write it up from the facts alone.", "completed"),
    ]
    assert (outcome.plan.attempts, outcome.plan.plan.goal) == (1, "A smaller goal.")
    (asked,) = prompts(llm, REPLANNING)
    assert "Too many requests." in asked
    assert "<result>\nFacts: 42.\n</result>" in asked
    observations = [thought for thought in bench.store.thoughts if thought.kind == "observation"]
    assert [thought.importance for thought in observations] == [0.8]
    assert "rate_limit" in observations[0].content
    assert (
        len([each for each in bench.recorder.of(TaskStarted) if each.input.startswith("Gather the facts.")])
        == 1
    )


async def test_the_steps_after_a_failed_one_know_what_it_did() -> None:
    """Otherwise they would do it again: here the model has no new plan, so the whole task is tried."""
    task = "Respond to the message: What is React?"
    llm = ScriptedLLM(
        planned("Order it."),
        call("order", number=7, when="Order it."),
        fail(LIMITED, when="Order it."),
        *[say("I cannot plan.", when=REPLANNING)] * 3,
        call("final-answer", answer="React is a library.", when=f"{task}\n\nThis is one step"),
        assessed(),
    )
    bench = persona_bench(llm, tools=FakeTools({"order": "ordered under O-1"}))
    outcome = await bench.process()
    assert outcome.status == "completed", outcome.reason
    for prompt in (prompts(llm, REPLANNING)[0], prompts(llm, f"{task}\n\nThis is one step")[0]):
        assert '- order {"tool": "order", "arguments": {"number": 7}} [worked]' in prompt
        assert "ordered under O-1" in prompt
        assert "Too many requests." in prompt
    assert "Step s1 failed. What it did may have taken effect; do not do it again:" in prompt


async def test_a_task_that_cannot_be_done_is_no_failure() -> None:
    why = "There is no price list for that year."
    gives_up = call("final-answer", could_not=why)
    llm = ScriptedLLM(planned("Look it up."), evolve(gives_up, when="Look it up."), assessed())
    bench = persona_bench(llm, tools=FakeTools({"search": "nothing"}), max_replans=0)
    outcome = await bench.process()
    assert (outcome.status, outcome.answer) == ("abstained", "")
    assert why in outcome.reason


async def test_the_fourth_failure_ends_the_plan() -> None:
    llm = ScriptedLLM(
        planned("Way 0."),
        *(turn for number in range(1, 4) for turn in [planned(f"Way {number}.", when=REPLANNING)]),
        *(fail(LIMITED, when=f"Way {number}.") for number in range(4)),
        assessed(),
    )
    delivered: list[str] = []

    async def post(event: DomainEvent, answer: str) -> None:
        delivered.append(answer)

    bench = persona_bench(llm, deliver=post)
    outcome = await bench.process()
    assert outcome.status == "failed"
    assert outcome.reason == (
        "Step s4 (Way 3.) failed (rate_limit) after 3 new plans; aborting. "
        "The model call (think, iteration 0) failed: Too many requests."
    )
    assert outcome.plan is not None
    assert (outcome.plan.attempts, outcome.plan.plan.status) == (3, "failed")
    assert [each.action for each in bench.recorder.of(PersonaPlanAdjusted)] == [*["REPLAN"] * 3, "ABORT"]
    assert outcome.evaluation is not None
    assert not outcome.evaluation.meets_criteria  # whatever the model says: the plan failed
    assert delivered == []
    assert len([each for each in bench.store.thoughts if each.kind == "observation"]) == 4


async def test_a_model_that_always_fails_ends_in_an_outcome_that_says_why() -> None:
    bench = persona_bench(ScriptedLLM(forever(fail(LIMITED))))
    outcome = await bench.process()
    assert outcome.status == "failed"
    assert "rate_limit" in outcome.reason
    assert outcome.evaluation is None
    failed = [event.stage for event in bench.recorder.of(PersonaStageFailed)]
    assert failed == ["plan", "replan", "replan", "replan", "evaluate"]


async def test_a_model_that_cannot_plan_still_answers_and_it_is_said() -> None:
    llm = ScriptedLLM(
        *[say("I would rather chat.", when=PLANNING)] * 3,
        say("React is a library.", when="Respond to the message: What is React?"),
        assessed(),
    )
    bench = persona_bench(llm)
    outcome = await bench.process()
    assert (outcome.status, outcome.answer) == ("completed", "React is a library.")
    assert outcome.plan is not None
    assert (outcome.plan.source, len(outcome.plan.plan.steps)) == ("reactive", 1)
    (formulated,) = bench.recorder.of(PersonaPlanFormulated)
    assert formulated.reason.startswith("Planning failed, so the event is answered without a plan")
    (failed,) = bench.recorder.of(PersonaStageFailed)
    assert failed.stage == "plan"
    assert isinstance(failed.error, StructuredOutputError)


async def test_a_step_that_takes_too_long_is_cancelled_and_its_account_is_kept() -> None:
    llm = ScriptedLLM(
        planned("Take your time.", contingencies={"timeout": ("Be quick.",)}),
        say("Late.", when="Take your time.", delay=30.0),
        say("Quick.", when="Be quick."),
        assessed(),
    )
    bench = persona_bench(llm, timeouts=PersonaTimeouts(step_s=0.05))
    outcome = await bench.process()
    assert (outcome.status, outcome.answer) == ("completed", "Quick.")
    first = bench.recorder.of(PersonaStepEnded)[0].outcome
    assert first.error == StepTimedOut("s1", 0.05)


async def test_an_output_channel_that_fails_is_told() -> None:
    async def post(event: DomainEvent, answer: str) -> None:
        raise OSError("the room is closed")

    llm = ScriptedLLM(planned("Answer."), say("So.", when="Answer."), assessed())
    bench = persona_bench(llm, deliver=post, delivery=AT_ONCE)
    outcome = await bench.process()
    assert (outcome.status, outcome.answer) == ("failed", "So.")
    assert outcome.reason == "The answer could not be delivered to chat: OSError: the room is closed"
    failures = [event.error for event in bench.recorder.of(PersonaStageFailed)]
    assert [type(error) for error in failures] == [DeliveryFailed] * 3


async def test_a_plain_function_delivers_a_message_once() -> None:
    posted: list[str] = []

    def post(event: DomainEvent, answer: str) -> None:
        posted.append(answer)

    bench = persona_bench(
        ScriptedLLM(forever(say("So."))), deliver=post, delivery=AT_ONCE, reasoning=False, evaluation="off"
    )
    assert (await bench.process()).status == "completed"
    assert posted == ["So."]


async def test_an_output_channel_that_hangs_is_left_after_the_time_of_a_step() -> None:
    async def hang(event: DomainEvent, answer: str) -> None:
        await anyio.sleep_forever()

    llm = ScriptedLLM(planned("Answer."), say("So.", when="Answer."), assessed())
    bench = persona_bench(llm, deliver=hang, timeouts=PersonaTimeouts(step_s=0.1), delivery=AT_ONCE)
    outcome = await bench.process()
    assert (outcome.status, outcome.answer) == ("failed", "So.")
    assert outcome.reason == "The answer could not be delivered to chat: it took more than 0.1 seconds"


async def test_without_its_store_a_persona_still_answers_and_says_what_is_missing() -> None:
    broken = InMemoryPersonaStore(fails_with=MemoryUnavailable("The file is locked.", "any"))
    llm = ScriptedLLM(planned("Answer."), say("So.", when="Answer."), assessed("A lesson."))
    bench = persona_bench(llm, store=broken)
    outcome = await bench.process()
    assert (outcome.status, outcome.answer) == ("completed", "So.")
    assert {event.stage for event in bench.recorder.of(PersonaStageFailed)} == {"recall", "record", "learn"}


# --- what it takes up -----------------------------------------------------------------------------------


async def test_it_declines_its_own_messages_and_costs_nothing_by_it() -> None:
    llm = ScriptedLLM()
    bench = persona_bench(llm)
    outcome = await bench.process(author="Ada")
    assert (outcome.status, outcome.reason) == ("declined", "The persona is its author.")
    assert llm.requests == []
    assert bench.recorder.of(PersonaEngagementDecided)[0].engage is False


async def test_an_event_is_handled_once() -> None:
    llm = ScriptedLLM(planned("Answer."), say("So.", when="Answer."), assessed())
    bench = persona_bench(llm)
    assert (await bench.process()).status == "completed"
    again = await bench.process()
    assert (again.status, again.reason) == ("declined", "It was handled already.")


async def test_an_event_that_comes_again_while_it_is_worked_on_is_declined() -> None:
    llm = ScriptedLLM(planned("Answer."), say("So.", when="Answer.", delay=0.02), assessed())
    bench = persona_bench(llm)
    outcomes: list[str] = []

    async def process() -> None:
        outcomes.append((await bench.process()).reason)

    async with anyio.create_task_group() as group:
        group.start_soon(process)
        group.start_soon(process)
        await anyio.lowlevel.checkpoint()
        assert (await attempt(bench.persona.resume())).unwrap() == ()
    assert outcomes == ["It is being processed already.", "Every step succeeded or was recovered from."]


async def test_a_plan_that_was_given_up_is_ended_on_disk_before_it_is_told() -> None:
    llm = ScriptedLLM(planned("Way 0.", "Way 1."), forever(fail(LIMITED)))
    bench = persona_bench(llm, max_replans=0)
    stored: list[str] = []
    bench.persona.services.events.subscribe(
        lambda event: (
            stored.extend(plan.plan.status for plan in bench.store.plans.values())
            if isinstance(event, PersonaPlanAdjusted)
            else None
        )
    )
    assert (await bench.process()).status == "failed"
    assert stored == ["failed"]
    assert (await attempt(bench.persona.resume())).unwrap() == ()


async def test_a_description_that_raises_fails_its_event_alone() -> None:
    bench = persona_bench(ScriptedLLM())
    chat = bench.persona.domains["chat"]
    bench.persona.domains["chat"] = PersonaDomain(
        "chat", chat.engine, describe=lambda event: event.details["x"]
    )
    outcome = await bench.process()
    assert (outcome.status, outcome.reason) == ("failed", "The event could not be described: KeyError: 'x'")


async def test_an_unknown_domain_is_an_error_that_names_the_known_ones() -> None:
    bench = persona_bench(ScriptedLLM())
    outcome = await attempt(bench.persona.process_event("chess", an_event()))
    assert outcome.failure() == UnknownDomain("chess", ("chat",))


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (an_event(" "), "content"),
        (an_event(name=""), "id"),
        (an_event(context="\t"), "context_id"),
        (an_event(author=""), "author"),
    ],
)
async def test_an_event_with_a_blank_field_is_an_error_that_names_it(event: DomainEvent, field: str) -> None:
    bench = persona_bench(ScriptedLLM())
    refused = (await attempt(bench.persona.process_event("chat", event))).failure()
    wrong = InvalidEvent(field, event.id, repr(getattr(event, field)))
    assert refused == wrong
    assert refused.message.startswith(f"event.{field}: got {wrong.got}, expected a text ")
    refused = (await attempt(bench.persona.schedule("chat", event, START))).failure()
    assert refused == wrong


async def test_an_event_is_scheduled_for_a_moment_only() -> None:
    bench, wrong = persona_bench(ScriptedLLM()), cast(Any, "tomorrow")
    refused = (await attempt(bench.persona.schedule("chat", an_event("Hello"), wrong))).failure()
    assert "event.due: got 'tomorrow', expected a datetime" in refused.message


EXPECTED_NAME = "a name of at most 1000 characters, none of them a control character"


@pytest.mark.parametrize("mark", ["\x00", "\n", "\x1b[2J", "\x9b", "\u2028", "\ud800", "x" * 1_000])
@pytest.mark.parametrize("field", ["id", "context_id", "author", "user", "tenant"])
async def test_names_are_short_and_have_no_characters_that_command(field: str, mark: str) -> None:
    bench = persona_bench(ScriptedLLM())
    event = evolve(an_event(), **{field: f"Bob{mark}Eve"})
    refused = (await attempt(bench.persona.process_event("chat", event))).failure()
    assert refused == InvalidEvent(field, event.id, abbreviated(getattr(event, field)), EXPECTED_NAME)
    assert bench.store.work == {}


# --- models, reuse, background --------------------------------------------------------------------------


async def test_planning_and_evaluation_can_have_models_of_their_own() -> None:
    llm = ScriptedLLM(planned("Answer."), say("So.", when="Answer."), assessed())
    bench = persona_bench(llm, planning_model="small/planner", evaluation_model="small/judge")
    await bench.process()
    models = [(call.purpose, call.model) for call in bench.recorder.of(ModelCallCompleted)]
    assert models == [
        ("persona-plan", "small/planner"),
        ("think", "scripted/test"),
        ("persona-evaluate", "small/judge"),
    ]


async def test_a_plan_serves_again_for_a_task_that_is_alike() -> None:
    llm = ScriptedLLM(
        planned("Answer."),
        forever(say("So.", when="Answer.")),
        assessed(),
        assessed(),
    )
    bench = persona_bench(llm)
    first = await bench.process("How do React hooks work in detail?", "event-1")
    second = await bench.process("How do React hooks work, in detail", "event-2")
    assert first.plan is not None
    assert second.plan is not None
    assert (second.plan.source, second.plan.derived_from) == ("reused", first.plan.id)
    assert second.answer == "So."
    assert len(prompts(llm, PLANNING)) == 1
    assert "Reuses plan" in bench.recorder.of(PersonaPlanFormulated)[1].reason


async def test_a_plan_that_serves_again_is_known_to_be_of_another_event() -> None:
    rain = forever(say("Rain.", when="This is one step"))
    llm = ScriptedLLM(planned("Look up the city."), rain, assessed(), assessed())
    bench = persona_bench(llm)
    await bench.process("What will the weather be like in Oslo this Sunday?", "event-1")
    again = await bench.process("What will the weather be like in Rome this Sunday?", "event-2")
    assert again.plan is not None
    assert again.plan.source == "reused"
    for requests in (prompts(llm, "This is one step"), prompts(llm, EVALUATING)):
        first, second = requests
        assert "was made for an earlier event" not in first
        assert "Where it names details of that event, use the details of this event instead." in second
        assert "in Rome" in second


async def test_a_plan_with_words_of_its_own_task_does_not_serve_another() -> None:
    rain = forever(say("Rain.", when="This is one step"))
    llm = ScriptedLLM(planned("Look up Oslo."), rain, assessed(), planned("Look up Rome."), assessed())
    bench = persona_bench(llm)
    await bench.process("What will the weather be like in Oslo this Sunday?", "event-1")
    again = await bench.process("What will the weather be like in Rome this Sunday?", "event-2")
    assert again.plan is not None
    assert (again.plan.source, again.plan.plan.steps[0].instruction) == ("model", "Look up Rome.")


async def test_a_plan_whose_latest_reuse_failed_serves_no_more() -> None:
    rain = forever(say("Rain.", when="This is one step"))
    plan = planned("Look up the city.")
    llm = ScriptedLLM(plan, rain, assessed(), assessed(met=False), plan, assessed())
    bench = persona_bench(llm)
    found = [
        await bench.process("What will the weather be like in Oslo this Sunday?", f"event-{number}")
        for number in range(3)
    ]
    assert [each.plan.source for each in found if each.plan is not None] == ["model", "reused", "model"]


@pytest.mark.parametrize(
    "changes",
    [{"doubted": True}, {"outcomes": (True, True, False)}],
    ids=["in doubt", "failed in another plan"],
)
async def test_a_plan_whose_lesson_does_not_hold_serves_no_more(changes: dict[str, Any]) -> None:
    rain = forever(say("Rain.", when="This is one step"))
    plan = planned("Look up the city.")
    llm = ScriptedLLM(plan, rain, assessed("Look it up first."), plan, assessed())
    bench = persona_bench(llm)
    await bench.process("What will the weather be like in Oslo this Sunday?", "event-1")
    (learning,) = bench.store.learnings.values()
    (await attempt(bench.store.change_learnings([(learning, evolve(learning, **changes))]))).unwrap()
    again = await bench.process("What will the weather be like in Oslo this Sunday?", "event-2")
    assert again.plan is not None
    assert again.plan.source == "model"


async def test_a_failed_reuse_of_a_plan_that_followed_nothing_counts_as_a_sign_of_a_change() -> None:
    rain = forever(say("Rain.", when="This is one step"))
    lesson = "Look it up first."
    llm = ScriptedLLM(planned("Look up the city."), rain, assessed(lesson), assessed(lesson, met=False))
    bench = persona_bench(llm)
    first = await bench.process("What will the weather be like in Oslo this Sunday?", "event-1")
    assert first.plan is not None
    ((_, learning),) = bench.store.learnings.items()
    trusted = evolve(learning, outcomes=(True,) * 9, success_count=90, confidence=0.8)
    (await attempt(bench.store.change_learnings([(learning, trusted)]))).unwrap()
    for number in range(5):
        name, task = LearningId(f"other-{number}"), TaskId(f"task-{number}")
        failed = {"outcomes": (*trusted.outcomes, False), "failure_count": 1} if number < 2 else {}
        other = evolve(trusted, id=name, pattern=f"Word{number}.", learned_from=(task,), **failed)
        (await attempt(bench.store.change_learnings([(None, other)]))).unwrap()
        if failed:
            inner = evolve(first.plan.plan, id=PlanId(f"plan-{number}"))
            subject = evolve(first.plan.task, id=task, description="Another.")
            failure = evolve(first.plan, plan=inner, task=subject, succeeded=False)
            (await attempt(bench.store.save_plan(failure))).unwrap()
    again = await bench.process("What will the weather be like in Oslo this Sunday?", "event-2")
    assert again.plan is not None
    assert (again.plan.source, again.plan.follows) == ("reused", ())
    doubted = {str(name) for name, each in bench.store.learnings.items() if each.doubted}
    assert doubted == {"other-2", "other-3", "other-4"}


async def test_a_plan_that_was_found_wanting_does_not_serve_again() -> None:
    llm = ScriptedLLM(
        planned("Answer."),
        say("So.", when="Answer."),
        assessed(met=False),
        planned("Answer well."),
        say("Well.", when="Answer well."),
        assessed(),
    )
    bench = persona_bench(llm)
    await bench.process("How do React hooks work in detail?", "event-1")
    second = await bench.process("How do React hooks work, in detail", "event-2")
    assert second.answer == "Well."


async def test_evaluation_in_the_background_is_done_at_the_end() -> None:
    llm = ScriptedLLM(planned("Answer."), say("So.", when="Answer."), assessed("A lesson to keep."))
    bench = persona_bench(llm, evaluation="background")
    async with bench.persona:
        async with bench.persona:  # as by the application of its channels
            pass
        outcome = await bench.process()
        assert (outcome.status, outcome.evaluation) == ("completed", None)
    assert [each.pattern for each in bench.store.learnings.values()] == ["A lesson to keep."]


async def test_the_plain_reactive_pattern_has_no_plan_and_no_evaluation() -> None:
    llm = ScriptedLLM(say("React is a library."))
    outcome = await persona_bench(llm, reasoning=False).process()
    assert (outcome.status, outcome.answer, outcome.tokens) == ("completed", "React is a library.", 15)
