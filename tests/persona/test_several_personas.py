"""Two personas in one room, and one that asks another, come to an end."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve
from returns.result import Result

from reactive_agents import Personas, ReactiveAgents
from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.persona_queue import Submission, WorkItem
from reactive_agents.core.personas import DomainEvent, EngagementPolicy, PersonaOutcome, Room
from reactive_agents.effects import attempt, effect
from reactive_agents.persona import Persona
from reactive_agents.testing import InMemoryPersonaStore, ScriptedLLM, answer, call, forever, say
from reactive_agents.testing.scripted_llm import render_messages
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
            sent = await ada.send("How much gas?", context="dealer-7", author="Bob")
            assert sent.answer == "132 g an hour."
        (plan,) = (await attempt(asked.persona.services.store.list_plans(asked.persona.settings.id))).unwrap()
        assert (plan.event.author, plan.context_id) == ("Front", "Front/chat/dealer-7")
        assert plan.event.user_id == "Bob", "by whom it is limited and deleted"


@asynccontextmanager
async def other_process(persona: Persona, outcomes: list[PersonaOutcome]) -> AsyncIterator[None]:
    """Let another worker of a persona take every event as soon as it is there."""
    send, receive = anyio.create_memory_object_stream[WorkItem](10)
    add_event = persona.services.store.add_event

    async def work() -> None:
        async for item in receive:
            outcome = await persona.work_event(item)
            assert outcome is not None
            outcomes.append(outcome)
            await persona.end_event(item, outcome)

    @effect
    async def added(room: Room, event: DomainEvent, **options: Any) -> Result[Submission, MemoryErrors]:
        submission = await attempt(add_event(room, event, **options))
        item = (await persona.claim("event", room)).unwrap()
        if item is not None:
            await send.send(item)
        return submission

    persona.services.store.add_event = added  # type: ignore[method-assign]
    async with receive, anyio.create_task_group() as group:
        group.start_soon(work)
        async with send:
            yield


async def test_a_question_may_be_answered_by_another_process_and_comes_back_to_nobody(tmp_path: Path) -> None:
    asked: list[str] = []
    outcomes: list[PersonaOutcome] = []

    async def ask_front(question: str) -> str:
        """Ask the front."""
        asked.append(question)
        return await to_front(question)

    expert_llm = ScriptedLLM(call("ask_front", question="Which stove?"), answer("That depends."))
    helper = ReactiveAgents.create().with_reasoning().with_tools(ask_front)
    expert = Personas.create("Expert").with_llm(expert_llm).with_store(InMemoryPersonaStore())
    front_llm = ScriptedLLM(call("ask_expert", question="How much gas?"), answer("That depends."))
    front = Personas.create("Front").with_llm(front_llm).with_store(InMemoryPersonaStore())
    described = expert.with_domain("chat", helper).with_options(reasoning=False)
    async with described.build() as other, other_process(other.persona, outcomes):
        chat = ReactiveAgents.create().with_reasoning().with_tools(other.as_tool())
        async with front.with_domain("chat", chat).with_options(reasoning=False).build() as ada:
            to_front = ada.as_tool()
            assert (await ada.send("How much gas?")).answer == "That depends."
        assert "That depends." in render_messages(front_llm.requests[-1].messages)
        assert "Front is waiting for this answer itself" in render_messages(expert_llm.requests[-1].messages)
    assert (asked, [each.status for each in outcomes]) == (["Which stove?"], ["completed"])


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


@pytest.mark.parametrize("evaluation", ["after", "background"])
def test_a_persona_works_on_the_event_loops_of_several_threads(
    evaluation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = InMemoryPersonaStore.get_self_state

    @effect
    async def slowly(store: InMemoryPersonaStore, room: Room) -> Result[Any, MemoryErrors]:
        await anyio.sleep(0.01)  # others come meanwhile
        return await attempt(read(store, room))

    monkeypatch.setattr(InMemoryPersonaStore, "get_self_state", slowly)
    bench = persona_bench(ScriptedLLM(forever(say("So."))), evaluation=evaluation)
    outcomes: list[PersonaOutcome] = []

    async def entered(room: str) -> PersonaOutcome:
        async with bench.persona:
            return await bench.process(name=room, context=room)

    def work(number: int) -> None:
        room = f"room-{number}"
        alone = partial(bench.process, name=room, context=room)
        outcomes.append(anyio.run(partial(entered, room) if number % 2 else alone))

    async def main() -> None:
        async with bench.persona, anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(anyio.to_thread.run_sync, work, number)

    anyio.run(main)
    assert [each.status for each in outcomes] == ["completed"] * 4
