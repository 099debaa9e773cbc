"""Logged runs and their events, as they are read afterwards."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from reactive_agents.core.ids import RunId
from reactive_agents.core.json import JsonObject

RUN_LOG_FILE = "runs.db"
"""The run log of the command line, in the user's state directory."""


@frozen
class LoggedRun:
    """One run in a run log.

    Attributes:
        agent: the agent's name.
        parent: the run whose tool began it.
        task: what the agent was asked, redacted.
        status: ``running`` while no end is logged, then that of the result, or ``failed``.
        terminated_by: what ended it; empty while no end is logged.
        detail: the reason of the result, or the message of the error.
        version: of the package that ran it.
        events: how many events it has.
    """

    run_id: RunId
    agent: str
    started_at: datetime
    task: str
    status: str = "running"
    parent: RunId | None = None
    session: str | None = None
    user: str | None = None
    tags: tuple[str, ...] = ()
    ended_at: datetime | None = None
    terminated_by: str = ""
    detail: str = ""
    model_calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    version: str = ""
    events: int = 0

    @property
    def duration_s(self) -> float | None:
        """Wall-clock seconds; ``None`` while no end is logged."""
        return None if self.ended_at is None else (self.ended_at - self.started_at).total_seconds()


@frozen
class LoggedRunFilter:
    """Which runs are wanted; ``None`` for all.

    Attributes:
        tool: a tool that the run has called.
        since: when the run began, at the earliest.
        before: when the run began, exclusive.
        least_cost_usd: of the run in US dollars, at least.
        children: whether runs that tools began are listed as well.
        limit: the most runs, 1 or more.
    """

    agent: str | None = None
    user: str | None = None
    session: str | None = None
    status: str | None = None
    tag: str | None = None
    tool: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    least_cost_usd: float | None = None
    children: bool = False
    limit: int = 20


@frozen
class LoggedEvent:
    """One event of a logged run.

    Attributes:
        sequence: position in the run, from 1.
        kind: the name of its class.
        subject: the tool, the purpose of a model call, the phase or the policy that it is about, if any.
        body: its fields as JSON, redacted; the messages of a request are those that the model was sent.
    """

    run_id: RunId
    sequence: int
    at: datetime
    kind: str
    subject: str
    body: JsonObject
