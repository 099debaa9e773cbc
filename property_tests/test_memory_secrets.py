"""Whatever surrounds a known secret, no byte of it gets into the memory file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from property_tests.strategies import values_of, wild_texts
from reactive_agents.adapters.memory.database import record_redactor
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.adapters.memory.service import open_memory
from reactive_agents.core.codec import decode, encode
from reactive_agents.core.ids import AgentId, ContextId, PersonaId, TaskId
from reactive_agents.core.json import without_surrogates
from reactive_agents.core.memory import MemoryCandidate, SessionSnapshot
from reactive_agents.core.persona_queue import EventEnd, NewMessage
from reactive_agents.core.personas import PersonaOutcome, Room, SelfState, Thought, ThoughtId
from reactive_agents.core.plans import Plan
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock, SequentialIds
from tests.support.embedders import ToyEmbedder
from tests.support.memories import a_plan, a_result, a_session, a_task, criticised, observed
from tests.support.personas import a_persona_plan, an_event
from tests.support.profiles import examples

SECRET = "qZ7-violet-elephant-93xK"
REDACTOR = Redactor(environment={"HOUSE_TOKEN": SECRET})

surroundings = (
    st.text(max_size=30)
    | wild_texts
    | st.sampled_from(
        [
            "x" * 225,
            "Elbrus " * 2_850,
            "I always use ",
            "\n- ",
            ". ",
            "Remember that Ann owns 2 ",
            "\\",
            '"',
            "sk-",
            "[redacted:",
        ]
    )
)


@pytest.mark.system
@examples(10)
@given(surroundings, surroundings)
def test_no_byte_of_a_known_secret_is_in_the_file(before: str, after: str) -> None:
    text = f"{before}{SECRET}{after}"
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(_keep_everywhere, Path(folder) / "memory.db", text)
        stored = b"".join(path.read_bytes() for path in Path(folder).iterdir())
    assert b"Elbrus or Kazbek" in stored  # the rest is there
    assert b"elephant" not in stored


async def _keep_everywhere(path: Path, text: str) -> None:
    services = open_memory(
        path, clock=FakeClock(), ids=SequentialIds(), redactor=REDACTOR, embedder=ToyEmbedder()
    )
    memory, agent = services.memory, AgentId("agent-1")
    steps = observed("web-search", text, key="r1"), criticised(text)
    result = a_result(text, *steps, tool_results={"r1": text})
    failed = a_result(None, *steps, status="failed", reason=text)
    named = without_surrogates(text)  # names of strategies and types of tasks
    step = a_plan().steps[0]
    wanting = evolve(step, result=text, error=text, tool_args={"a": [text], text: 1})
    session = evolve(a_session(), summary=text, key_decisions=(text,))
    memory.note(TaskId("task-1"), MemoryCandidate("working", text, "tool", text))
    personas = SqlitePersonaStore(services.database, redactor=REDACTOR)
    room = Room(PersonaId("ada"), "chat", ContextId("room"))
    place = (ThoughtId("t-1"), room.persona_id, room.domain, room.context_id)
    thought = Thought(*place, "observation", text, 0.5, FakeClock().now())
    effects = (
        memory.flush(a_task(text), result),
        memory.flush(a_task("Elbrus or Kazbek?", name="task-2"), failed),
        memory.remember(agent, MemoryCandidate("semantic", text, "user", text)),
        memory.snapshot(evolve(session, messages=(*session.messages, session.messages[0].__class__(text)))),
        services.plans.save(evolve(a_plan(), goal=text, steps=(wanting, a_plan().steps[1]))),
        services.plans.update_step(a_plan().id, wanting),
        services.effectiveness.record(named, named, result, success=True),
        personas.save_plan(a_persona_plan(text, event=an_event(text))),
        personas.add_thought(thought),
        personas.save_self_state(SelfState(room, focus=text, preoccupations=(text,))),
        personas.add_event(room, an_event(text, name="event-2", details={"said": text})),
    )
    for each in effects:
        (await attempt(each)).unwrap()  # type: ignore[arg-type]
    item = (await attempt(personas.claim(room.persona_id, "event", domains=("chat",)))).unwrap()
    assert item is not None
    outcome = PersonaOutcome(item.event.id, "completed", text, answer=text)
    end = EventEnd(outcome, a_persona_plan(text), (NewMessage("event-2#answer", text),))
    assert (await attempt(personas.end_event(item, end))).unwrap()
    assert (await attempt(personas.release(item, reason=text))).unwrap()
    await services.aclose()


@examples(15)
@given(values_of(Task) | values_of(ReasoningResult) | values_of(SessionSnapshot) | values_of(Plan))
def test_values_without_secrets_can_be_written_and_read(
    value: Task | ReasoningResult | SessionSnapshot | Plan,
) -> None:
    # finds secrets in the words of fixed lists as well, but none in "redacted:pattern", which stands without
    # its brackets in the names of images
    eager = Redactor([r"[bf-moqsu-z]"])
    clean = record_redactor(eager).redacted(value)
    assert decode(encode(clean), type(value)).unwrap() == clean
    assert record_redactor(eager).redacted(clean) == clean
    assert record_redactor(Redactor([r"(?!)"])).redacted(value) == value
