"""The port of sessions: conversations that are kept from run to run."""

from __future__ import annotations

from typing import Protocol

from reactive_agents.core.conversation import History, SessionInfo, SessionKey, SessionTurn
from reactive_agents.core.errors import SessionErrors
from reactive_agents.core.ids import AgentId, RunId, SessionId
from reactive_agents.core.messages import Message
from reactive_agents.effects import Effect


class SessionStore(Protocol):
    """Keeps sessions; every method fails with ``SessionUnavailable``.

    A session belongs to its agent and to the user who began it: for another user there is none of its name,
    and every method that names one fails with ``SessionRefused``.
    """

    def begin(
        self, key: SessionKey, run_id: RunId, *, size: int, earlier: int
    ) -> Effect[History, SessionErrors]:
        """Wait until earlier runs of the session have ended, and return its history.

        The run then holds the session until :meth:`end`, also against other processes.

        Args:
            size: bytes of messages that the run can show; the newest ones are returned.
            earlier: characters of text of the messages before those.
        """
        ...

    def end(self, key: SessionKey, run_id: RunId, turn: SessionTurn | None) -> Effect[None, SessionErrors]:
        """Add the run to the session, once, and let the next one begin.

        Args:
            turn: ``None`` for a run that adds nothing, as one that failed.
        """
        ...

    def sessions(
        self, agent: AgentId, user: str | None = None
    ) -> Effect[tuple[SessionInfo, ...], SessionErrors]:
        """Return the agent's sessions, of one user or of all, the latest first."""
        ...

    def messages(self, agent: AgentId, session: SessionId) -> Effect[tuple[Message, ...], SessionErrors]:
        """Return all messages of a session."""
        ...

    def rename(self, agent: AgentId, session: SessionId, title: str) -> Effect[None, SessionErrors]:
        """Give a session another title."""
        ...

    def fork(
        self, agent: AgentId, session: SessionId, into: SessionId, turns: int | None = None
    ) -> Effect[None, SessionErrors]:
        """Copy a session, or its first turns, into a new one of the same user."""
        ...

    def delete(self, agent: AgentId, session: SessionId) -> Effect[None, SessionErrors]:
        """Delete a session with everything in it."""
        ...

    def forget(self, user: str) -> Effect[int, SessionErrors]:
        """Delete all sessions of a user, of every agent; return how many there were."""
        ...
