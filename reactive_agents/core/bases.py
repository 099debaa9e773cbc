"""The base class of events, and the errors that every layer makes.

The modules of ``events`` and of ``errors`` are built on them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime
from typing import Literal, TypeAlias, cast

from attrs import field, frozen

from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.values import Value

Stamp: TypeAlias = tuple[RunId, TaskId, int, datetime]
PlanChange: TypeAlias = Literal["patched", "replanned", "augmented", "required"]
CompactionReason: TypeAlias = Literal["growth", "window", "refused"]


@frozen(eq=False, repr=False)
class Event(Value):
    """The fields of every event.

    Attributes:
        sequence: position in the run, from 1, without gaps.
        at: when it happened, UTC.
        agent: the agent whose run it is.
        parent_run_id: the run whose tool began this one; ``None`` for none.
    """

    run_id: RunId
    task_id: TaskId
    sequence: int
    at: datetime
    agent: AgentId = field(default=AgentId(""), kw_only=True)
    parent_run_id: RunId | None = field(default=None, kw_only=True)


PUBLISH: ContextVar[Callable[..., None] | None] = ContextVar("publish", default=None)
"""Publishes an event of the run that is under way: its class, then its fields without the first four.

For services, which know nothing of runs, and whose news are not part of what they return.
"""


NOT_SENT = "The request was not sent."
"""The note of an exception that cut off a model call before anything was sent."""


class _Sentence:
    def __init__(self, template: str) -> None:
        self._template = template

    def __get__(self, error: object, owner: type | None = None) -> str:
        if error is None:
            return self._template
        return self._template.format(error, ", ".join(getattr(error, "known", ())) or "none")


def sentence(template: str) -> str:
    """Return the ``message`` of an error class.

    It formats the template with the error as ``0``, and the names in its field ``known`` as ``1``. A type
    checker sees the text that each error has, so that the error fits a protocol with a ``message``.

    >>> ServiceMissing("budget", "governance.budget").message
    'budget is enabled, but governance.budget provides no service: add one, or switch it off.'
    """
    return cast(str, _Sentence(template))


@frozen(eq=False, repr=False)
class FieldProblem(Value):
    """One problem of a document. ``path``: from the root, as ``$.steps[0].id``."""

    path: str
    problem: str


@frozen(eq=False, repr=False)
class DecodeError(Value):
    """A document does not have the expected type.

    Attributes:
        file: the name of the file that it is in; empty for none.
    """

    type_name: str
    problems: tuple[FieldProblem, ...]
    file: str = ""

    @property
    def message(self) -> str:
        """One sentence that names each field, its value and what was expected."""
        problems = "; ".join(f"{p.path}: {p.problem}" for p in self.problems)
        place = f" in {self.file}" if self.file else ""
        return f"Not a valid {self.type_name}{place}: {problems}"


@frozen(eq=False, repr=False)
class InvalidConfig(Value):
    """An option has an invalid value."""

    option: str
    value: str
    expected: str

    @property
    def message(self) -> str:
        """One sentence that names the option, its value and what was expected."""
        return f"{self.option}: got {self.value}, expected {self.expected.rstrip('.')}."


@frozen(eq=False, repr=False)
class ServiceMissing(Value):
    """A service is needed, but ``provider``, its place in the container, is empty."""

    service: str
    provider: str
    remedy: str = ""

    @property
    def message(self) -> str:
        """One sentence that says what is missing and what to do."""
        if self.remedy:
            return f"{self.service} needs {self.provider}, which provides no service: {self.remedy}."
        missing = f"{self.service} is enabled, but {self.provider} provides no service"
        return f"{missing}: add one, or switch it off."


@frozen(eq=False, repr=False)
class ServiceFailed(Value):
    """A guardrail, cost, verification or audit service failed."""

    message: str
    service: str
    operation: str


BudgetPeriod: TypeAlias = Literal["run", "day", "month", "user_day", "user_month"]


def named_period(period: str) -> str:
    """Return a budget's period as a sentence names it: ``user's day``."""
    return period.replace("_", "'s ")


ConfigErrors: TypeAlias = DecodeError | InvalidConfig | ServiceMissing
