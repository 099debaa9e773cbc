"""What is in a memory file, of every agent: for those who look after it."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from returns.maybe import Maybe
from returns.result import Result

from reactive_agents.adapters.memory import store
from reactive_agents.adapters.memory.database import Database
from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.ids import AgentId
from reactive_agents.core.memory import Forgetting, MemoryEntry, MemoryId, MemoryKind, SessionSnapshot
from reactive_agents.effects import effect
from reactive_agents.ports.system import Clock


@frozen(eq=False)
class MemoryArchive:
    """Reads entries and sessions as they are stored, and forgets. Fails with ``MemoryUnavailable``.

    Args:
        database: the memory file; who made it closes it.
        clock: tells what has faded.
    """

    database: Database
    clock: Clock

    @effect
    async def search(
        self, text: str, *, agent_id: AgentId | None = None, kinds: Sequence[MemoryKind] = (), limit: int = 20
    ) -> Result[tuple[MemoryEntry, ...], MemoryErrors]:
        """Entries that contain every word of the text, best match first, the faded ones left out."""
        now, wanted = self.clock.now(), tuple(kinds) or store.ALL_KINDS
        return await self.database.read(
            "search",
            lambda connection: store.search(connection, agent_id, text, now, kinds=wanted, limit=limit),
        )

    @effect
    async def get(self, entry_id: MemoryId) -> Result[Maybe[MemoryEntry], MemoryErrors]:
        """The entry of that id, faded or not, or ``Nothing``."""
        found = await self.database.read("get", lambda connection: store.get(connection, entry_id))
        return found.map(Maybe.from_optional)

    @effect
    async def entries(
        self,
        *,
        agent_id: AgentId | None = None,
        kinds: Sequence[MemoryKind] = (),
        limit: int | None = None,
    ) -> Result[tuple[MemoryEntry, ...], MemoryErrors]:
        """Entries, faded or not, those first that were seen last; all of them without a limit."""
        wanted = tuple(kinds) or store.ALL_KINDS
        return await self.database.read(
            "entries", lambda connection: store.listed(connection, agent_id, kinds=wanted, limit=limit)
        )

    @effect
    async def sessions(
        self, *, agent_id: AgentId | None = None
    ) -> Result[tuple[SessionSnapshot, ...], MemoryErrors]:
        """The sessions that are kept, the newest first."""
        return await self.database.read(
            "sessions", lambda connection: store.listed_sessions(connection, agent_id)
        )

    @effect
    async def forget(self, what: Forgetting) -> Result[int, MemoryErrors]:
        """Delete entries and sessions; how many there were."""
        return await self.database.write("forget", lambda connection: store.forget(connection, what))
