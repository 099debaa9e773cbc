"""What goes wrong with a persona: its steps, its inbox, and what is asked of its records."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from reactive_agents.core.errors.reasoning import StructuredOutputError
from reactive_agents.core.errors.runtime import RuntimeErrors
from reactive_agents.core.errors.services import MemoryErrors


@frozen
class StepIncomplete:
    """The run of a plan step ended without finishing it.

    Attributes:
        reason: why it ended, as the run says it.
        terminated_by: the policy or event that ended the run.
    """

    step_id: str
    reason: str
    terminated_by: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"Step {self.step_id} was not finished: {self.reason}"


@frozen
class StepTimedOut:
    """The run of a plan step did not end within ``timeout_s`` seconds."""

    step_id: str
    timeout_s: float

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"Step {self.step_id} did not end within {self.timeout_s:g} seconds."


@frozen
class DeliveryFailed:
    """The answer could not be put out. ``detail``: what the channel raised, or how long it took."""

    channel: str
    detail: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"The answer could not be delivered to {self.channel}: {self.detail}"


@frozen
class UnknownDomain:
    """A persona was given an event of a domain that it does not have. ``known``: those that it has."""

    domain: str
    known: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """One sentence that lists the known domains."""
        return f"There is no domain {self.domain!r}. Known: {', '.join(self.known) or 'none'}."


@frozen
class InboxFull:
    """An event was refused, because as many as the inbox takes are waiting. ``capacity``: that number."""

    capacity: int
    event_id: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"The inbox is full ({self.capacity} events wait); event {self.event_id!r} was refused."


@frozen
class RecordNotFound:
    """There is no plan, learning or template of that id. ``kind``: which of them was looked for."""

    kind: str
    id: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"There is no {self.kind} {self.id!r}."


StepErrors: TypeAlias = RuntimeErrors | StepIncomplete | StepTimedOut
"""Why a step of a plan failed."""

PersonaErrors: TypeAlias = (
    StepErrors
    | DeliveryFailed
    | UnknownDomain
    | InboxFull
    | RecordNotFound
    | StructuredOutputError
    | MemoryErrors
)
