"""The facade of a persona: send it events, let it go on after a restart, look at what it has."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from returns.result import Failure

from reactive_agents.agent.errors import AgentError
from reactive_agents.agent.option_values import wrong_handler
from reactive_agents.containers.lifetimes import Lifetimes
from reactive_agents.containers.persona import PersonaContainer
from reactive_agents.core.decode_problems import shown
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.ids import ContextId, EventId
from reactive_agents.core.personas import Domain, DomainEvent, PersonaOutcome
from reactive_agents.effects import attempt
from reactive_agents.persona import Persona, PersonaInbox, PersonaReasoningSystem
from reactive_agents.persona.inbox import OnOutcome
from reactive_agents.ports import Clock, EventBus, IdSource
from reactive_agents.ports.event_bus import EventHandler


class PersonaAgent:
    """A persona, ready for events. Use it as ``async with persona:``, so that it is closed at the end.

    Attributes:
        container: its services; override a provider there before the first event to swap a service.
        name: what it is called.
    """

    def __init__(self, container: PersonaContainer, *, name: str) -> None:
        self.container = container
        self.name = name

    @property
    def persona(self) -> Persona:
        """The persona itself, with effects in place of exceptions."""
        persona: Persona = self.container.persona()
        return persona

    @property
    def reasoning(self) -> PersonaReasoningSystem:
        """Its plans and learnings."""
        return self.persona.reasoning

    async def send(
        self, content: str, *, domain: Domain | None = None, context: str = "default", author: str = "user"
    ) -> PersonaOutcome:
        """Send one event, and wait for what becomes of it.

        Args:
            domain: where it comes from; the first domain by default.
            context: the room, file or session that it belongs to.

        Raises:
            AgentError: the persona has no such domain, or what is sent is no text.
        """
        return await self.process(
            domain or next(iter(self.persona.domains)), self.new_event(content, context, author)
        )

    async def process(self, domain: Domain, event: DomainEvent) -> PersonaOutcome:
        """The whole cycle of an event. A plan that failed is an outcome that says why.

        Raises:
            AgentError: the persona has no such domain.
        """
        outcome = await attempt(self.persona.process_event(domain, event))
        if isinstance(outcome, Failure):
            known = ", ".join(outcome.failure().known)
            raise AgentError(InvalidConfig("domain", repr(domain), f"one of {known}"))
        return outcome.unwrap()

    def inbox(self, on_outcome: OnOutcome | None = None) -> PersonaInbox:
        """A queue for many events at once; enter it, and ``submit`` events to it."""
        return PersonaInbox(self.persona, on_outcome)

    def new_event(self, content: str, context: str = "default", author: str = "user") -> DomainEvent:
        """An event with a new id, of now.

        Raises:
            AgentError: one of them is no text.
        """
        for name, value in (("content", content), ("context", context), ("author", author)):
            if not isinstance(value, str):
                raise AgentError(InvalidConfig(f"event.{name}", shown(value), "a text"))
        ids: IdSource = self.container.core.ids()
        clock: Clock = self.container.core.clock()
        return DomainEvent(EventId(ids.new()), ContextId(context), author, content, clock.now())

    def subscribe(self, handler: EventHandler) -> Callable[[], None]:
        """Call ``handler`` with every later event, also of the steps' runs; returns what ends it.

        Raises:
            AgentError: the handler is no function, or an ``async`` one, which nothing would await.
        """
        wrong = wrong_handler(handler)
        if wrong is not None:
            raise AgentError(wrong)
        bus: EventBus = self.container.core.events()
        return bus.subscribe(handler)

    async def aclose(self) -> None:
        """Close what the persona opened. It can be used again afterwards."""
        lifetimes: Lifetimes = self.container.core.lifetimes()
        await lifetimes.aclose()

    async def __aenter__(self) -> PersonaAgent:
        await self.persona.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.persona.__aexit__(kind, error, trace)
        finally:
            await self.aclose()
