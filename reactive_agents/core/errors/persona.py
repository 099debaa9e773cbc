"""Errors of personas: steps, delivery, inbox and records."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from reactive_agents.core.errors.runtime import RuntimeErrors
from reactive_agents.core.errors.services import MemoryErrors
from reactive_agents.core.errors.strategies import StructuredOutputError


@frozen
class StepIncomplete:
    """The run of a plan step ended without finishing it.

    Attributes:
        reason: why the run ended, in the words of its result.
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
    """The answer could not be delivered.

    ``detail``: the exception of the channel, or the timeout.
    """

    channel: str
    detail: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"The answer could not be delivered to {self.channel}: {self.detail}"


@frozen
class UnknownDomain:
    """An event was sent to a domain that the persona does not have.

    ``known``: its domains.
    """

    domain: str
    known: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """One sentence that lists the known domains."""
        return f"There is no domain {self.domain!r}. Known: {', '.join(self.known) or 'none'}."


@frozen
class InboxFull:
    """The inbox rejected an event because it is full.

    ``capacity``: the number of events that it holds.
    """

    capacity: int
    event_id: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"The inbox is full ({self.capacity} events wait); event {self.event_id!r} was rejected."


@frozen
class RecordNotFound:
    """There is no record of this id.

    ``kind``: plan, learning, template or memory entry.
    """

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
