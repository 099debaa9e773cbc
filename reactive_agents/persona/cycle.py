"""The context of one event's processing: settings, services, events, usage.

Every stage gets a :class:`Cycle`. It publishes events and records them in the journal, and it is where a
failing store is reported and replaced by a default, so that no stage has to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from attrs import define, evolve, frozen
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure, Result

from reactive_agents.core.errors import MemoryErrors, PersonaErrors, StructuredOutputError
from reactive_agents.core.ids import AgentId, RunId, SessionId, TaskId
from reactive_agents.core.persona_events import PersonaEvent, PersonaStage, PersonaStageFailed
from reactive_agents.core.personas import PersonaPlan, PersonaSettings, Thought, ThoughtId, ThoughtKind
from reactive_agents.core.settings import RunSettings
from reactive_agents.effects import Effect, attempt
from reactive_agents.kernel import KernelServices, MeteredLLM, RunEvents
from reactive_agents.persona.domain import PersonaDomain
from reactive_agents.persona.prompts import role_of
from reactive_agents.ports import Clock, EventBus, IdSource, PersonaStore, TextComparison
from reactive_agents.reasoning import StrategyInput, StrategyServices
from reactive_agents.reasoning.structured_output import Question, Structured, ask_structured

_T = TypeVar("_T")


@frozen(eq=False)
class PersonaServices:
    """Services of a persona.

    Attributes:
        comparison: similarity of learned patterns by meaning; without it their words are compared.
    """

    store: PersonaStore
    events: EventBus
    clock: Clock
    ids: IdSource
    comparison: Maybe[TextComparison] = Nothing


@define(eq=False)
class Cycle:
    """The processing of one event.

    Attributes:
        meter: counts the tokens and dollars of planning and evaluation; steps are runs with own totals.
        step_tokens: tokens of the steps so far.
        step_cost_usd: US dollars of the steps so far.
    """

    settings: PersonaSettings
    services: PersonaServices
    domain: PersonaDomain
    events: RunEvents
    meter: MeteredLLM
    started: float
    step_tokens: int = 0
    step_cost_usd: float = 0.0

    @property
    def tokens(self) -> int:
        """All tokens so far, those of the steps included."""
        return self.meter.usage.tokens + self.step_tokens

    @property
    def cost_usd(self) -> float:
        """US dollars so far, of the model calls whose price is known."""
        return self.meter.usage.cost_usd + self.step_cost_usd

    async def publish(self, kind: Callable[..., Any], **fields: object) -> None:
        """Publish an event of a kind and record it in the journal."""
        event: PersonaEvent = kind(*self.events.stamp(), **fields)
        self.events.deliver(event)
        await self.attempt_or("record", self.services.store.record(event), None)

    async def attempt_or(self, stage: PersonaStage, pending: Effect[_T, MemoryErrors], default: _T) -> _T:
        """Await an effect of the store.

        When it fails, publish the failure and return the default.
        """
        outcome = await attempt(pending)
        if isinstance(outcome, Failure):
            self._publish_failure(stage, outcome.failure())
            return default
        return outcome.unwrap()

    async def fail_stage(self, stage: PersonaStage, error: PersonaErrors) -> None:
        """Publish the failure of a stage and record it.

        Not for failures of the store itself.
        """
        event = self._publish_failure(stage, error)
        await self.attempt_or("record", self.services.store.record(event), None)

    def _publish_failure(self, stage: PersonaStage, error: PersonaErrors) -> PersonaStageFailed:
        stamp = self.events.stamp()
        event = PersonaStageFailed(*stamp, persona_id=self.settings.id, stage=stage, error=error)
        self.events.deliver(event)
        return event

    async def ask(
        self, stage: Literal["plan", "replan", "evaluate"], question: Question[_T], task: str
    ) -> Result[Structured[_T], StructuredOutputError]:
        """Ask a model outside of a run; a failure is published as that of the stage.

        Args:
            task: the description of the task that the question belongs to.
        """
        settings, timeouts, engine = self.settings, self.settings.timeouts, self.domain.engine
        model, timeout_s = settings.planning_model, timeouts.planning_s
        if stage == "evaluate":
            model, timeout_s = settings.evaluation_model, timeouts.evaluation_s
        strategy_input = StrategyInput(
            task_description=task,
            task_type=self.domain.name,
            run_id=self.events.run_id,
            task_id=self.events.task_id,
            agent_id=AgentId(settings.id),
            session_id=SessionId(self.events.run_id),
            settings=RunSettings(
                system_prompt=role_of(settings.name, settings.role),
                context_profile=engine.settings.context_profile,
            ),
            deadline=self.services.clock.monotonic() + timeout_s,
        )
        kernel = KernelServices(
            llm=self.meter,
            clock=self.services.clock,
            ids=self.services.ids,
            events=Some(self.events),
            counter=engine.ports.counter,
        )
        services = StrategyServices(kernel, self.meter)
        answered = await attempt(
            ask_structured(evolve(question, model=model, about_answer=True), strategy_input, services)
        )
        if isinstance(answered, Failure):
            await self.fail_stage(stage, answered.failure())
        return answered


def begin_cycle(
    settings: PersonaSettings, services: PersonaServices, domain: PersonaDomain, task_id: TaskId
) -> Cycle:
    """Begin the processing of an event, with a new run id."""
    clock = services.clock
    events = RunEvents(services.events, clock, RunId(services.ids.new()), task_id)
    meter = MeteredLLM(domain.engine.ports.llm, events, clock)
    return Cycle(settings, services, domain, events, meter, clock.monotonic())


# --- working memory -----------------------------------------------------------------------------------------


LONGEST_THOUGHT = 500


async def add_thought(
    plan: PersonaPlan, kind: ThoughtKind, content: str, importance: float, cycle: Cycle
) -> None:
    """Add a thought to the working memory of the plan's context.

    It is shortened to :data:`LONGEST_THOUGHT` characters.
    """
    text = content if len(content) <= LONGEST_THOUGHT else content[: LONGEST_THOUGHT - 1] + "…"
    services = cycle.services
    thought = Thought(
        ThoughtId(services.ids.new()),
        plan.persona_id,
        plan.domain,
        plan.context_id,
        kind,
        text,
        importance,
        services.clock.now(),
    )
    await cycle.attempt_or("record", services.store.add_thought(thought), None)
