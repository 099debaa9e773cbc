"""Files of earlier versions open today: samples of each version are kept as they were written.

A sample is never changed. Where a change makes one of them fail, ``core/stored_forms.py`` says how the
earlier form is read; where a form changes, samples of the new one are added as those of a new version.
"""

from __future__ import annotations

import gzip
import importlib
import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.adapters.governance.audit_log import public_key_of, read_entries, verify
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.memory.database import open_memory_store
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.adapters.memory.records import SqliteEffectiveness, SqlitePlanStore
from reactive_agents.adapters.memory.service import MemoryArchive, SqliteMemory
from reactive_agents.agent.config import read_config, read_document
from reactive_agents.agent.persona_config import PersonaConfig
from reactive_agents.core import errors, events, memory, messages, personas, plans, tasks
from reactive_agents.core.codec import decode, encode, to_json
from reactive_agents.core.converter import union_members
from reactive_agents.core.governance import AuditEntry
from reactive_agents.core.ids import AgentId, PersonaId, PlanId, TaskId
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.persona_queue import WorkFilter
from reactive_agents.core.stored_forms import RETIRED_TAGS, TAG, TAGS, UPGRADES, renamed_fields, tag_of
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.effects import attempt
from reactive_agents.kernel import KernelState, deserialize_kernel_state, serialize_kernel_state
from reactive_agents.testing import FakeClock, ScriptedLLM, SequentialIds, say

SAMPLES = Path(__file__).parent / "stored_samples"
VALUES = sorted(SAMPLES.glob("version_*/values/*.jsonl"))
PERSONAS = sorted(SAMPLES.glob("version_*/persona.toml"))
CONFIGURATIONS = sorted(SAMPLES.glob("version_*/agent.*ml")) + sorted(SAMPLES.glob("version_*/agent.json"))
KINDS: dict[str, Any] = {
    "AgentEvent": events.AgentEvent,
    "AuditEntry": AuditEntry,
    "AuditErrors": errors.AuditErrors,
    "ConfigErrors": errors.ConfigErrors,
    "KernelErrors": errors.KernelErrors,
    "KernelState": KernelState,
    "LLMErrors": errors.LLMErrors,
    "LearningEntry": personas.LearningEntry,
    "MemoryEntry": memory.MemoryEntry,
    "Message": messages.Message,
    "PersonaErrors": errors.PersonaErrors,
    "PersonaEvent": PersonaEvent,
    "PersonaOutcome": personas.PersonaOutcome,
    "PersonaPlan": personas.PersonaPlan,
    "Plan": plans.Plan,
    "PlanStep": plans.PlanStep,
    "ReasoningErrors": errors.ReasoningErrors,
    "RuntimeErrors": errors.RuntimeErrors,
    "SelfState": personas.SelfState,
    "SessionSnapshot": memory.SessionSnapshot,
    "StepTransition": memory.StepTransition,
    "TaskResult": tasks.TaskResult,
    "Thought": personas.Thought,
    "ToolErrors": errors.ToolErrors,
}


def values_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("path", VALUES, ids=lambda path: f"{path.parts[-3]}/{path.stem}")
def test_values_open(path: Path) -> None:
    kind = KINDS[path.stem]
    for data in values_of(path):
        if kind is KernelState:
            state = deserialize_kernel_state(data).unwrap()
            assert deserialize_kernel_state(serialize_kernel_state(state)).unwrap() == state
        else:
            value = decode(data, kind).unwrap()
            assert decode(encode(value, kind), kind).unwrap() == value


def test_flat_kernel_states_are_read_as_nested_ones() -> None:
    for data in values_of(SAMPLES / "version_1/values/KernelState.jsonl"):
        state = deserialize_kernel_state(data).unwrap()
        assert (state.tokens, state.cost) == (data["tokens"], data["cost"])
        assert state.usage.unreported_calls == data["unreported_turns"]
        assert state.usage.unpriced_calls == data["unpriced_turns"]
        assert state.run_usage is not None
        assert (state.run_usage.tokens, state.run_usage.cost_usd) == (data["run_tokens"], data["run_cost"])
        assert state.transcript.shown_in_part == data["shown_in_part"]
        assert state.transcript.last_words == data["transcript"]["last_words"]
        assert state.transcript.estimate.counted == data["extent"]["counted"]
        assert state.ledger.call_ids == {*data["call_ids"]}
        assert state.ledger.calls.attempts == data["ledger"]["attempts"]


def test_a_kernel_state_of_a_newer_version_is_refused_as_such() -> None:
    (data, *_) = values_of(SAMPLES / "version_1/values/KernelState.jsonl")
    (problem,) = deserialize_kernel_state({**data, "version": 99}).failure().problems
    assert problem.path == "$.version"
    assert "a newer program wrote it" in problem.problem
    assert "wrong" not in deserialize_kernel_state({**data, "version": "x"}).failure().message


# --- files ----------------------------------------------------------------------------------------------


@pytest.fixture(
    params=sorted({path.parent for path in SAMPLES.glob("version_*/*.db.gz")}), ids=lambda path: path.name
)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with the database files of a version."""
    for packed in request.param.glob("*.db.gz"):
        (tmp_path / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    return tmp_path


@pytest.mark.anyio
async def test_memory_files_open(files: Path) -> None:
    database, clock = open_memory_store(files / "memory.db"), FakeClock()
    plan = (await attempt(SqlitePlanStore(database, clock).get(PlanId("plan-1")))).unwrap().unwrap()
    assert [step.status for step in plan.steps] == ["completed", "in_progress", "pending"]
    assert (await attempt(SqlitePlanStore(database, clock).transitions(plan.id))).unwrap()
    kept = SqliteMemory(database, clock=clock, ids=SequentialIds())
    found = (await attempt(kept.search(AgentId("agent-1"), "keys drawer"))).unwrap()
    assert {entry.kind for entry in found} == {"episodic", "semantic", "procedural", "critique"}
    session = (await attempt(MemoryArchive(database, clock).sessions())).unwrap()[-1]
    assert session.id == "session-0"
    assert len(session.messages) == 2
    history = (await attempt(SqliteEffectiveness(database, clock).history("query"))).unwrap()
    assert [(each.strategy, each.executions) for each in history] == [("reactive", 2)]
    stored = SqlitePersonaStore(database)
    (journal, samples) = (
        (await attempt(stored.journal(TaskId("task-1")))).unwrap(),
        values_of(SAMPLES / "version_1/values/PersonaEvent.jsonl"),
    )
    assert len(journal) == len(samples)
    persona = PersonaId("personaid-0")
    assert len((await attempt(stored.list_plans(persona))).unwrap()) == 1
    assert len((await attempt(stored.list_learnings(persona))).unwrap()) == 1
    (plan_of_persona,) = (await attempt(stored.list_plans(persona))).unwrap()
    (waiting,) = (await attempt(stored.find_work(WorkFilter(kinds=("event",))))).unwrap()
    assert (waiting.room, waiting.status) == (plan_of_persona.room, "open")
    await database.aclose()


@pytest.mark.anyio
async def test_the_memory_of_an_agent_goes_on(files: Path) -> None:
    llm = ScriptedLLM(say("In the blue drawer."))
    agent = ReactiveAgents.create().with_llm(llm).with_memory(files / "agent-memory.db").build()
    async with agent:
        await agent.run("Where are the office keys?")
    assert "blue drawer" in "\n".join(message.content for message in llm.requests[0].messages)


def test_audit_logs_open_and_are_valid(files: Path) -> None:
    path = files / "audit.db"
    summary = verify(path, public_key=public_key_of(bytes(range(32))).unwrap()).unwrap()
    entries = read_entries(path).unwrap()
    assert summary.entries == len(entries)
    assert [(each.entry.action, each.entry.status) for each in entries] == [
        ("approval", None),
        ("run", "completed"),
    ]


@pytest.mark.anyio
async def test_cost_files_open(files: Path) -> None:
    tracker = SqliteCostTracker(files / "cost.db", clock=FakeClock())
    (total,) = (await attempt(tracker.totals(by="model"))).unwrap()
    assert (total.name, total.runs, total.cost_usd) == ("scripted/test", 1, 0.02)
    await tracker.aclose()


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: f"{path.parts[-2]}/{path.name}")
def test_configurations_of_agents_open(path: Path) -> None:
    config = read_config(path).unwrap()
    assert config.name == "writer"
    assert config.cost is not None
    assert [each.model for each in config.cost.tiers] == ["openai/gpt-5.4-mini", "openai/gpt-5.4"]
    assert None not in (config.memory, config.guardrails, config.verification, config.audit, config.reasoning)


@pytest.mark.parametrize("path", PERSONAS, ids=lambda path: path.parts[-2])
def test_configurations_of_personas_open(path: Path) -> None:
    (domain,) = read_document(path, PersonaConfig).unwrap().domains
    assert domain.agent.cost is not None
    assert domain.agent.cost.tiers


# --- the tables -----------------------------------------------------------------------------------------


def class_at(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"reactive_agents.{module}"), name)


def unions_in(kind: Any, seen: set[Any]) -> Iterator[Any]:
    """The classes of every union of classes that a type holds."""
    if isinstance(kind, typing.NewType) or kind in seen:
        return
    seen.add(kind)
    members = union_members(kind)
    if len(members) > 1 and all(map(attrs.has, members)):
        yield from members
    for inner in (*members, *(each for each in typing.get_args(kind) if not isinstance(each, str | int))):
        yield from unions_in(inner, seen)
    if attrs.has(kind):
        for hint in typing.get_type_hints(kind).values():
            yield from unions_in(hint, seen)


def test_every_class_of_a_stored_union_has_a_tag_of_its_own() -> None:
    seen: set[Any] = set()
    used = {each for kind in KINDS.values() for each in unions_in(kind, seen)}
    tagged = {class_at(path): tag for tag, path in TAGS.items()}
    assert not {each.__name__ for each in used - tagged.keys()}
    assert len(tagged) == len(TAGS)
    assert all(tag_of(kind) == tag for kind, tag in tagged.items())
    assert not RETIRED_TAGS.keys() & TAGS.keys()
    assert all(tag in TAGS for tag, _ in RETIRED_TAGS.values())


def test_the_tags_that_were_ever_written_are_all_known() -> None:
    def tags_in(data: Any) -> Iterator[str]:
        if isinstance(data, dict):
            if isinstance(data.get(TAG), str):
                yield data[TAG]
            for item in data.values():
                yield from tags_in(item)
        elif isinstance(data, list):
            for item in data:
                yield from tags_in(item)

    written = {tag for path in VALUES for data in values_of(path) for tag in tags_in(data)}
    assert written <= TAGS.keys() | RETIRED_TAGS.keys()


def test_upgrades_are_of_classes_and_leave_what_they_do_not_know() -> None:
    for path, upgrade in UPGRADES.items():
        assert attrs.has(class_at(path))
        for data in ({}, {"other": [1]}):
            assert upgrade(dict(data)) == data
    for _, upgrade in RETIRED_TAGS.values():
        assert isinstance(upgrade({}), dict)


def test_a_retired_tag_is_read_as_the_class_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    retired = {"HumanMessage": ("UserMessage", renamed_fields(text="content"))}
    monkeypatch.setattr("reactive_agents.core.converter.RETIRED_TAGS", retired)
    read = decode({"tag": "HumanMessage", "text": "hi"}, messages.Message)
    assert read.unwrap() == messages.UserMessage("hi")
    assert '"tag": "UserMessage"' in to_json(read.unwrap(), messages.Message)


def test_the_totals_of_a_tool_become_its_usage_by_model() -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "reported": True}
    whole = {"usage": usage, "cost_usd": 0.5, "calls": 2, "unpriced_calls": 1}
    old = {"call_id": "c", "tool_name": "ask", "result": "3"}
    read = decode({**old, "spending": {**whole, "models": []}}, ToolResult).unwrap()
    assert read.usage == (RunUsage("", Usage(1, 2, 3), 0.5, 2, 1),)
    named = decode({**old, "spending": {**whole, "models": [{**whole, "model": "m"}]}}, ToolResult).unwrap()
    assert named.usage == (RunUsage("m", Usage(1, 2, 3), 0.5, 2, 1),)
    assert decode({**old, "spending": None}, ToolResult).unwrap().usage == ()
