"""Two personas in one room, and one that asks another, come to an end."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest
from attrs import evolve

from reactive_agents import Personas, ReactiveAgents
from reactive_agents.core.personas import EngagementPolicy
from reactive_agents.effects import attempt
from reactive_agents.testing import ScriptedLLM, answer, call, forever, say
from tests.support.personas import an_event, persona_bench

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("turns", "said", "transcript"), [(0, 2, 50), (1, 2, 50), (2, 3, 50), (3, 4, 50), (2, 3, 0), (60, 42, 1)]
)
async def test_two_personas_in_a_room_fall_silent_until_a_person_speaks(
    turns: int, said: int, transcript: int
) -> None:
    benches = {
        name: persona_bench(
            ScriptedLLM(forever(say(f"{name} says so."))),
            id=name,
            name=name,
            reasoning=False,
            transcript=transcript,
            engagement=EngagementPolicy(peers=("Ada", "Eve"), max_peer_turns=turns, max_events=1_000),
        )
        for name in ("Ada", "Eve")
    }
    for number in range(2):  # whoever speaks in the room, everybody hears
        heard, spoken = deque([an_event("Hello.", f"person-{number}")]), 0
        while heard:
            event = heard.popleft()
            for name, bench in benches.items():
                outcome = (await attempt(bench.persona.process_event("chat", event))).unwrap()
                if outcome.status == "completed":
                    spoken += 1
                    heard.append(evolve(event, id=f"{event.id}>{name}", author=name, content=outcome.answer))
        assert spoken == said


async def test_a_persona_asks_another_one_in_a_room_of_their_own(tmp_path: Path) -> None:
    expert_llm = ScriptedLLM(forever(say("It burns 132 g an hour.")))
    expert = Personas.create("Expert").with_llm(expert_llm).with_memory(tmp_path / "expert.db")
    expert = expert.with_domain("chat").with_options(reasoning=False)
    async with expert.build() as asked:
        front_llm = ScriptedLLM(call("ask_expert", question="How much gas?"), answer("132 g an hour."))
        chat = ReactiveAgents.create().with_reasoning().with_tools(asked.as_tool())
        front = Personas.create("Front").with_llm(front_llm).with_memory(tmp_path / "front.db")
        async with front.with_domain("chat", chat).with_options(reasoning=False).build() as ada:
            assert (await ada.send("How much gas?", context="dealer-7")).answer == "132 g an hour."
        (plan,) = (await attempt(asked.persona.services.store.list_plans(asked.persona.settings.id))).unwrap()
        assert (plan.event.author, plan.context_id) == ("Front", "Front/chat/dealer-7")


async def test_personas_that_ask_each_other_do_so_once(tmp_path: Path) -> None:
    asked: list[str] = []

    async def ask_front(question: str) -> str:
        """Ask the front."""
        asked.append(question)
        return await to_front(question)

    expert_llm = ScriptedLLM(call("ask_front", question="Which stove?"), answer("That depends."))
    helper = ReactiveAgents.create().with_reasoning().with_tools(ask_front)
    expert = Personas.create("Expert").with_llm(expert_llm).with_memory(tmp_path / "expert.db")
    async with expert.with_domain("chat", helper).with_options(reasoning=False).build() as other:
        front_llm = ScriptedLLM(call("ask_expert", question="How much gas?"), answer("It depends."))
        chat = ReactiveAgents.create().with_reasoning().with_tools(other.as_tool())
        front = Personas.create("Front").with_llm(front_llm).with_memory(tmp_path / "front.db")
        async with front.with_domain("chat", chat).with_options(reasoning=False).build() as ada:
            to_front = ada.as_tool()
            assert (await ada.send("How much gas?")).answer == "It depends."
    assert asked == ["Which stove?"]
    last = expert_llm.requests[-1].messages[-1].content
    assert "Front is waiting for this answer itself" in last
