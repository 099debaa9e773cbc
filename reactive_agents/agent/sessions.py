"""The sessions of an agent: listed, read, renamed, forked and deleted."""

from __future__ import annotations

from reactive_agents.agent.errors import AgentError, value_or_raise
from reactive_agents.core import errors
from reactive_agents.core.conversation import SessionInfo, wrong_name
from reactive_agents.core.ids import AgentId, SessionId
from reactive_agents.core.messages import Message
from reactive_agents.core.redaction import Redactor
from reactive_agents.effects import attempt
from reactive_agents.ports import SessionStore


class Sessions:
    """The conversations of an agent that have a name.

    Every method raises ``AgentError`` with the typed error.
    """

    def __init__(self, store: SessionStore, agent: AgentId, redactor: Redactor) -> None:
        self._store = store
        self._agent = agent
        self._redactor = redactor

    async def list(self, user: str | None = None) -> tuple[SessionInfo, ...]:
        """Return the sessions of one user, or of all, the latest first."""
        return value_or_raise(await attempt(self._store.sessions(self._agent, user)))

    async def read(self, session: str) -> tuple[Message, ...]:
        """Return all messages of a session, oldest first."""
        return value_or_raise(await attempt(self._store.messages(self._agent, SessionId(session))))

    async def rename(self, session: str, title: str) -> None:
        """Give a session another title, without secrets."""
        shown = self._redactor.redact(title)
        value_or_raise(await attempt(self._store.rename(self._agent, SessionId(session), shown)))

    async def fork(self, session: str, into: str, *, turns: int | None = None) -> None:
        """Copy a session into a new one of the same user.

        Args:
            into: the name of the new session.
            turns: only its first runs, so many, 1 or more; by default all.
        """
        wrong = wrong_name("into", into)
        if turns is not None and turns < 1:
            wrong = f"turns: got {turns}, expected 1 or more"
        if wrong is not None:
            raise AgentError(errors.SessionRefused(session, wrong))
        value_or_raise(
            await attempt(self._store.fork(self._agent, SessionId(session), SessionId(into), turns))
        )

    async def delete(self, session: str) -> None:
        """Delete a session with everything in it."""
        value_or_raise(await attempt(self._store.delete(self._agent, SessionId(session))))
