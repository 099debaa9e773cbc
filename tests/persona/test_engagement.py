"""Which events a persona takes up: a pure policy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import anyio
import pytest
from attrs import evolve

from reactive_agents.core.channels import Reaction
from reactive_agents.core.ids import EventId
from reactive_agents.core.persona_queue import Utterance
from reactive_agents.core.personas import DomainEvent, EngagementDecision, EngagementPolicy, PersonaTimeouts
from reactive_agents.effects import attempt
from reactive_agents.persona import should_engage
from reactive_agents.testing import ScriptedLLM, forever, say
from reactive_agents.testing.core import START
from tests.support.personas import PersonaBench, an_event, assessed, persona_bench, planned

NOW = START + timedelta(seconds=100)


def decide(event: DomainEvent | None = None, **given: Any) -> EngagementDecision:
    defaults: dict[str, Any] = {"policy": EngagementPolicy(), "recent": (), "now": NOW}
    return should_engage(event or an_event(), name="Ada", **{**defaults, **given})


def test_it_takes_up_what_nothing_speaks_against() -> None:
    assert decide().engage


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (decide(an_event(author="Ada")), "The persona is its author."),
        (
            decide(an_event(author="bot"), policy=EngagementPolicy(ignored_authors=("bot",))),
            "by bot are ignored",
        ),
        (
            decide(an_event(priority=0.2), policy=EngagementPolicy(min_priority=0.3)),
            "priority 0.2 is below 0.3",
        ),
    ],
)
def test_it_declines_with_a_reason(decision: EngagementDecision, reason: str) -> None:
    assert not decision.engage
    assert reason in decision.reason


def test_it_limits_itself_within_the_window_alone() -> None:
    policy = EngagementPolicy(max_events=2, window_s=60.0)
    inside, outside = NOW - timedelta(seconds=59), NOW - timedelta(seconds=60)
    assert decide(policy=policy, recent=[inside, outside, outside]).engage
    declined = decide(policy=policy, recent=[inside, inside])
    assert (declined.engage, declined.refused) == (False, True)
    assert declined.reason == "The limit of 2 events of this context in 60 seconds is reached."


def test_a_clock_that_was_set_back_keeps_nobody_waiting() -> None:
    tomorrow = NOW + timedelta(days=1)
    policy = EngagementPolicy(max_events=1, staff=("Eve",))
    assert decide(policy=policy, recent=[tomorrow], transcript=[spoken("Eve", -24 * 3600)]).engage
    assert not decide(policy=policy, recent=[NOW + timedelta(seconds=1)]).engage, "another machine's clock"


MENTIONS = EngagementPolicy(mentions_only=True, names=("support",))


def spoken(author: str, seconds_ago: float = 10.0) -> Utterance:
    """A message of the room; of the persona without an author."""
    return Utterance(author, "Hello.", NOW - timedelta(seconds=seconds_ago), EventId("earlier"))


@pytest.mark.parametrize(
    ("event", "engages"),
    [
        (an_event("What is React?"), False),
        (an_event("@ada, what is React?"), True),
        (an_event("Does SUPPORT know it?"), True),
        (an_event("Adam and the supporters know it."), False),
        (an_event(details={"mentioned": True}), True),
        (an_event(details={"direct": True}), True),
        (an_event(details={"mentioned": "yes", "direct": 1}), False),
        (an_event(details={"thread": True}), True),
    ],
)
def test_it_answers_only_when_it_is_addressed(event: DomainEvent, engages: bool) -> None:
    assert decide(event, policy=MENTIONS, transcript=[spoken("")]).engage is engages


def test_a_thread_in_which_it_never_spoke_is_not_its_own() -> None:
    thread = an_event(details={"thread": True})
    assert not decide(thread, policy=MENTIONS, transcript=[spoken("Eve")]).engage


def test_it_is_quiet_at_night_but_for_what_is_urgent() -> None:
    clock = f"{NOW:%H:%M}"
    night = EngagementPolicy(quiet_hours=(f"{clock}-00:00", "00:00-00:01"), urgent=0.9)
    declined = decide(policy=night)
    assert (declined.engage, declined.refused) == (False, True)
    assert decide(an_event(priority=0.9), policy=night).engage
    later = f"{NOW + timedelta(minutes=1):%H:%M}"
    elsewhere = EngagementPolicy(quiet_hours=(f"{clock}-{later}",), timezone="Asia/Tokyo")
    assert decide(policy=elsewhere).engage


@pytest.mark.parametrize(
    "wrong",
    [
        {"quiet_hours": ("22-7",)},
        {"timezone": "../UTC"},
        {"timezone": "Moon"},
        {"window_s": float("inf")},
        {"handover_s": 1e11},
    ],
    ids=str,
)
def test_hours_and_time_zones_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        EngagementPolicy(**wrong)


def test_it_is_silent_while_the_staff_has_taken_over() -> None:
    policy = EngagementPolicy(staff=("Eve",), handover_s=60.0)
    assert not decide(an_event(author="Eve"), policy=policy).engage
    assert not decide(policy=policy, transcript=[spoken("Eve", 59), spoken("Bob")]).engage
    assert decide(policy=policy, transcript=[spoken("Eve", 60), spoken("Bob")]).engage


@pytest.mark.anyio
@pytest.mark.parametrize("transcript", [0, 1, 50])
async def test_what_prompts_are_shown_of_the_room_does_not_decide_on_engagement(transcript: int) -> None:
    policy = EngagementPolicy(staff=("Eve",), peers=("Max",), max_peer_turns=1)
    bench = persona_bench(
        ScriptedLLM(forever(say("So."))), reasoning=False, engagement=policy, transcript=transcript
    )
    said = [await bench.process("Hm.", f"e{number}", author="Max") for number in range(3)]
    assert [each.status for each in said] == ["completed", "declined", "declined"]
    for author, name in (("Bob", "e4"), ("Eve", "e5"), ("Bob", "e6"), ("Bob", "e7")):
        said.append(await bench.process("And now?", name, author=author))
    assert [each.status for each in said[3:]] == ["completed", "declined", "declined", "declined"]
    assert said[-1].reason == "A person of the staff has taken over."


@pytest.mark.anyio
async def test_with_a_reaction_nobody_speaks() -> None:
    policy = EngagementPolicy(staff=("Eve",), peers=("Max",), max_peer_turns=1)

    async def deliver(event: DomainEvent, text: str) -> str:
        return f"m-{event.id}"

    bench = persona_bench(
        ScriptedLLM(forever(say("So."))), reasoning=False, engagement=policy, deliver=deliver
    )
    await bench.process("Hm.", "e1", author="Max")
    for user in ("Bob", "Eve"):
        reaction = Reaction("m-e1", user, good=True)
        event = (await attempt(bench.persona.feedback_of("chat", reaction))).unwrap()
        assert event is not None
        assert (await attempt(bench.persona.process_event("chat", event))).unwrap().status == "declined"
    assert (await bench.process("Hm.", "e2", author="Max")).status == "declined", "no person has spoken"
    assert (await bench.process("And now?", "e3")).status == "completed", "nobody has taken over"


# --- rules of a domain --------------------------------------------------------------------------------------


def bench_with(engage: Any, **settings: Any) -> PersonaBench:
    bench = persona_bench(ScriptedLLM(forever(say("So."))), reasoning=False, **settings)
    domain = bench.persona.domains["chat"]
    bench.persona.domains["chat"] = evolve(domain, engage=engage)
    return bench


@pytest.mark.anyio
async def test_a_function_of_the_program_decides_last() -> None:
    seen: list[tuple[str, ...]] = []

    async def rule(event: DomainEvent, transcript: Sequence[Utterance]) -> bool | EngagementDecision:
        seen.append(tuple(each.content for each in transcript))
        if "lawyer" in event.content:
            return EngagementDecision(False, "A person answers lawyers.", refused=True)
        return event.content != "Hm."

    bench = bench_with(rule)
    assert (await bench.process("Hello.", "e1")).status == "completed"
    declined = await bench.process("Hm.", "e2")
    assert (declined.status, declined.reason) == ("declined", "A rule of the program declined it.")
    handed = await bench.process("My lawyer asks.", "e3")
    assert (handed.reason, handed.refused) == ("A person answers lawyers.", True)
    assert seen == [(), ("Hello.", "So."), ("Hello.", "So.", "Hm.")]


@pytest.mark.anyio
async def test_a_rule_that_raises_fails_the_event_alone() -> None:
    def rule(event: DomainEvent, transcript: object) -> bool:
        raise LookupError("no such customer")

    outcome = await bench_with(rule).process()
    assert (outcome.status, outcome.plan) == ("failed", None)
    assert outcome.reason == "Whether to engage could not be decided: LookupError: no such customer"


@pytest.mark.anyio
async def test_a_rule_that_hangs_fails_the_event_after_the_time_of_a_step() -> None:
    async def rule(event: DomainEvent, transcript: object) -> bool:
        await anyio.sleep_forever()
        return True

    bench = bench_with(rule, timeouts=PersonaTimeouts(step_s=0.001))
    assert (await bench.process()).reason == "Whether to engage could not be decided: TimeoutError: "


@pytest.mark.anyio
async def test_a_domain_reasons_or_not_whatever_the_persona_does() -> None:
    llm = ScriptedLLM(planned("Say it."), say("So."), assessed(), say("Quick."))
    bench = persona_bench(llm)
    assert (await bench.process("What is React?", "e1")).evaluation is not None
    bench.persona.domains["chat"] = evolve(bench.persona.domains["chat"], reasoning=False)
    outcome = (await attempt(bench.persona.process_event("chat", an_event("And Vue?", "e2")))).unwrap()
    assert (outcome.answer, outcome.evaluation) == ("Quick.", None)
