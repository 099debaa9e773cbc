"""One event's way through a persona: its services, its account, and what is told and recorded of it."""

from __future__ import annotations

from typing import TypeVar

from attrs import define, field, frozen
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure

from reactive_agents.core.errors import MemoryErrors, PersonaErrors
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

_T = TypeVar("_T")


@frozen(eq=False)
class PersonaServices:
    """What a persona works with. ``comparison``: for learned patterns; without it they go by their words."""

    store: PersonaStore
    events: EventBus
    clock: Clock
    ids: IdSource
    comparison: Maybe[TextComparison] = Nothing


@define(eq=False)
class Cycle:
    """The live end of one event's processing.

    Attributes:
        meter: the account of planning and evaluation; steps are runs with accounts of their own.
        step_tokens: what the steps spent.
        step_cost_usd: US dollars, likewise.
    """

    settings: PersonaSettings
    services: PersonaServices
    domain: PersonaDomain
    events: RunEvents
    meter: MeteredLLM
    started: float
    step_tokens: int = 0
    step_cost_usd: float = 0.0
    _session: SessionId = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._session = SessionId(self.events.run_id)

    @property
    def tokens(self) -> int:
        """All tokens so far, those of the steps included."""
        return self.meter.spending.usage.total_tokens + self.step_tokens

    @property
    def cost_usd(self) -> float:
        """US dollars so far, of the model calls whose price is known."""
        return self.meter.spending.cost_usd + self.step_cost_usd

    async def tell(self, event: PersonaEvent) -> None:
        """Publish an event and put it on record."""
        self.events.deliver(event)
        await self.kept("record", self.services.store.record(event), None)

    async def kept(self, stage: PersonaStage, pending: Effect[_T, MemoryErrors], default: _T) -> _T:
        """What the store gives, or the default when it fails: the work goes on without, and says so."""
        outcome = await attempt(pending)
        if isinstance(outcome, Failure):
            self._publish_failure(stage, outcome.failure())
            return default
        return outcome.unwrap()

    async def fail_stage(self, stage: PersonaStage, error: PersonaErrors) -> None:
        """Say that a stage failed, and put it on record; not for the store, which keeps the record."""
        event = self._publish_failure(stage, error)
        await self.kept("record", self.services.store.record(event), None)

    def _publish_failure(self, stage: PersonaStage, error: PersonaErrors) -> PersonaStageFailed:
        stamp = self.events.stamp()
        event = PersonaStageFailed(*stamp, persona_id=self.settings.id, stage=stage, error=error)
        self.events.deliver(event)
        return event

    def asking(self, about: str, timeout_s: float) -> tuple[StrategyInput, StrategyServices]:
        """What a question outside of a run needs.

        Args:
            about: the task that it belongs to.
            timeout_s: seconds that the answer may take, attempts included.
        """
        ports = self.domain.engine.ports
        strategy_input = StrategyInput(
            task_description=about,
            task_type=self.domain.name,
            run_id=self.events.run_id,
            task_id=self.events.task_id,
            agent_id=AgentId(self.settings.id),
            session_id=self._session,
            settings=RunSettings(
                system_prompt=role_of(self.settings.name, self.settings.role),
                context_profile=self.domain.engine.settings.context_profile,
            ),
            deadline=self.services.clock.monotonic() + timeout_s,
        )
        kernel = KernelServices(
            llm=self.meter,
            clock=self.services.clock,
            ids=self.services.ids,
            events=Some(self.events),
            counter=ports.counter,
        )
        return strategy_input, StrategyServices(kernel, self.meter)


def begin_cycle(
    settings: PersonaSettings, services: PersonaServices, domain: PersonaDomain, task_id: TaskId
) -> Cycle:
    """A cycle with a run id of its own."""
    clock = services.clock
    events = RunEvents(services.events, clock, RunId(services.ids.new()), task_id)
    meter = MeteredLLM(domain.engine.ports.llm, events, clock)
    return Cycle(settings, services, domain, events, meter, clock.monotonic())


# --- Entries of a persona's working memory ---


LONGEST_THOUGHT = 500


async def keep_thought(
    plan: PersonaPlan, kind: ThoughtKind, content: str, importance: float, cycle: Cycle
) -> None:
    """Keep a thought about the context of a plan, shortened to :data:`LONGEST_THOUGHT` characters."""
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
    await cycle.kept("record", services.store.keep_thought(thought), None)
