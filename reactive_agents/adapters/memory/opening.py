"""One memory file and the three services on it."""

from __future__ import annotations

from os import PathLike

from attrs import frozen

from reactive_agents.adapters.memory.database import DEFAULT_BUSY_TIMEOUT_S, Database
from reactive_agents.adapters.memory.effectiveness import SqliteEffectiveness
from reactive_agents.adapters.memory.extraction import Extractor, extract_memories
from reactive_agents.adapters.memory.plans import SqlitePlanStore
from reactive_agents.adapters.memory.service import DEFAULT_TOKEN_BUDGET, SqliteMemory
from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.memory import MemoryTier
from reactive_agents.effects import Effect
from reactive_agents.ports.system import Clock, IdSource


@frozen(eq=False)
class MemoryServices:
    """Memory, plans and effectiveness that share one file and one connection.

    They open the file by their first use, and again after :meth:`aclose`.
    """

    database: Database
    memory: SqliteMemory
    plans: SqlitePlanStore
    effectiveness: SqliteEffectiveness

    def open(self) -> Effect[None, MemoryErrors]:
        """Open the file now, to see whether that works. Fails with ``MemoryUnavailable``."""
        return self.database.open()

    async def aclose(self) -> None:
        """Close the file."""
        await self.database.aclose()


def open_memory(
    path: str | PathLike[str],
    *,
    clock: Clock,
    ids: IdSource,
    tier: MemoryTier = "1",
    token_budget: int = DEFAULT_TOKEN_BUDGET,
    extract: Extractor = extract_memories,
    busy_timeout_s: float = DEFAULT_BUSY_TIMEOUT_S,
    read_only: bool = False,
) -> MemoryServices:
    """The services on a memory file. Nothing is read or made until the first of them is used.

    Args:
        path: the file; it and the folders above it are made when they are missing.
        tier: what recalled contexts say of themselves.
        token_budget: tokens that a bootstrap may return, 0 or more.
        extract: decides what of a run is worth keeping.
        busy_timeout_s: seconds to wait for a lock that another process holds, 0 or more.
        read_only: recall alone; everything that writes fails.

    Raises:
        ValueError: ``token_budget`` or ``busy_timeout_s`` is negative.
    """
    database = Database(path, busy_timeout_s=busy_timeout_s, read_only=read_only)
    return MemoryServices(
        database,
        SqliteMemory(database, clock=clock, ids=ids, tier=tier, token_budget=token_budget, extract=extract),
        SqlitePlanStore(database, clock=clock),
        SqliteEffectiveness(database, clock=clock),
    )
