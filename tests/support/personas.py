"""Personas made of scripted and in-memory services."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from reactive_agents.core.codec import to_json
from reactive_agents.core.ids import AgentId, ContextId, EventId, PersonaId, PlanId, TaskId
from reactive_agents.core.personas import (
    Contingency,
    DomainEvent,
    PersonaOutcome,
    PersonaPlan,
    PersonaSettings,
    PersonaTask,
)
from reactive_agents.core.plans import Plan
from reactive_agents.effects import attempt
from reactive_agents.persona import Check, Deliver, Persona, PersonaDomain, PersonaServices
from reactive_agents.persona.plan_changes import (
    ContingencyDraft,
    CriterionDraft,
    EvaluationDraft,
    PlanDraft,
    StepDraft,
    new_steps,
)
from reactive_agents.ports import LLM, PersonaStore
from reactive_agents.testing import EventRecorder, FakeClock, FakeTools, InMemoryPersonaStore, Turn, say
from reactive_agents.testing.core import START
from tests.support.engines import bench

PLANNING, REPLANNING, EVALUATING = (
    "Make a plan for the task",
    "A plan failed in a way",
    "Evaluate the outcome",
)
"""Text that only the prompts of one stage contain."""

SETTINGS: dict[str, Any] = {"id": PersonaId("ada"), "name": "Ada"}


def an_event(
    content: str = "What is React?", name: str = "event-1", *, context: str = "general", **fields: Any
) -> DomainEvent:
    """A message of a user."""
    return DomainEvent(
        EventId(name), ContextId(context), fields.pop("author", "Bob"), content, START, **fields
    )


def a_task(event: DomainEvent, domain: str = "chat") -> PersonaTask:
    """The task that a persona derives from the event."""
    described = f"Respond to the message: {event.content}"
    return PersonaTask(
        TaskId(f"task-of-{event.id}"), domain, event.context_id, described, 0.5, event.id, START
    )


def a_persona_plan(*actions: str, contingencies: tuple[Contingency, ...] = (), **fields: Any) -> PersonaPlan:
    """An active plan of these steps."""
    event = fields.pop("event", an_event())
    task, name = a_task(event, fields.pop("domain", "chat")), PlanId(fields.pop("name", "plan-1"))
    steps = new_steps([(action, "It is there.") for action in actions or ("Do it.",)])
    plan = Plan(
        name, task.id, AgentId(SETTINGS["id"]), "The goal", "linear", steps, "active", 1, START, START
    )
    made = PersonaPlan(plan, SETTINGS["id"], task, event, "model")
    return evolve(made, contingencies=contingencies, success_criteria=("It is clear.",), **fields)


def alter(store: Any, statement: str, *values: object) -> None:
    """Change the tables of a store in memory, as another process would."""
    store._tables._connection.execute(statement, values)


def planned(
    *actions: str,
    when: str = PLANNING,
    contingencies: dict[str, tuple[str, ...]] | None = None,
    **fields: Any,
) -> Turn:
    """A turn that answers with a plan."""
    foreseen = tuple(ContingencyDraft(kind, steps) for kind, steps in (contingencies or {}).items())  # type: ignore[arg-type]
    steps = tuple(StepDraft(action, "It is there.") for action in actions)
    draft = PlanDraft(
        fields.pop("goal", "Bob knows it."),
        steps,
        ("The answer is clear.",),
        contingencies=foreseen,
        **fields,
    )
    return say(to_json(draft), when=when)


def assessed(pattern: str = "", *, met: bool = True, when: str = EVALUATING, **fields: Any) -> Turn:
    """A turn that answers with an assessment of one criterion."""
    draft = EvaluationDraft(
        (CriterionDraft(number=1, evidence="It says so.", met=met),), pattern=pattern, **fields
    )
    return say(to_json(draft), when=when)


@frozen(eq=False)
class PersonaBench:
    """A persona and what watches it."""

    persona: Persona
    store: Any
    recorder: EventRecorder
    clock: FakeClock

    async def process(
        self, content: str = "What is React?", name: str = "event-1", **fields: Any
    ) -> PersonaOutcome:
        """One event of the chat, through the whole cycle."""
        return (await attempt(self.persona.process_event("chat", an_event(content, name, **fields)))).unwrap()


def persona_bench(
    llm: LLM,
    *,
    tools: FakeTools | None = None,
    store: PersonaStore | None = None,
    deliver: Deliver | None = None,
    check: Check | None = None,
    clock: FakeClock | None = None,
    options: dict[str, Any] | None = None,
    services: dict[str, object] | None = None,
    **settings: Any,
) -> PersonaBench:
    """A persona with one domain, ``chat``, whose engine has the given model, tools and services."""
    clock = clock or FakeClock(step_s=0.001)
    engines = bench(llm, tools=tools or FakeTools({}), clock=clock, options=options, **(services or {}))
    ports = engines.engine.ports
    kept = store if store is not None else InMemoryPersonaStore(clock=clock)
    of_persona = PersonaServices(kept, ports.events, clock, ports.ids)
    domain = PersonaDomain("chat", engines.engine, deliver=deliver, check=check)
    persona = Persona(PersonaSettings(**{**SETTINGS, **settings}), [domain], of_persona)
    return PersonaBench(persona, kept, engines.recorder, clock)
