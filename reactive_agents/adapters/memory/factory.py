"""One memory, in a file or a database, and the services on it."""

from __future__ import annotations

from os import PathLike, fspath

from attrs import frozen
from returns.result import Result

from reactive_agents.adapters.memory.database import MemoryStore, open_memory_store
from reactive_agents.adapters.memory.records import SqliteEffectiveness, SqlitePlanStore
from reactive_agents.adapters.memory.service import MemoryArchive, SqliteMemory
from reactive_agents.core.config import MemoryConfig
from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.redaction import Redactor
from reactive_agents.effects import effect
from reactive_agents.ports import Clock, Embedder, IdSource


@frozen(eq=False)
class MemoryServices:
    """Memory, plans, effectiveness and archive that share one file or database.

    They open the file at first use, and again after :meth:`aclose`.
    """

    database: MemoryStore
    memory: SqliteMemory
    plans: SqlitePlanStore
    effectiveness: SqliteEffectiveness
    archive: MemoryArchive

    @effect
    async def open(self) -> Result[None, MemoryErrors]:
        """Open the file now, as a check. Fails with ``MemoryUnavailable``."""
        return await self.database.read("open", lambda _: None)

    async def aclose(self) -> None:
        """Close the file."""
        await self.database.aclose()


def open_memory(
    place: str | PathLike[str] | MemoryConfig,
    *,
    clock: Clock,
    ids: IdSource,
    embedder: Embedder | None = None,
    redactor: Redactor | None = None,
    read_only: bool = False,
) -> MemoryServices:
    """Return the services of a memory file, which is opened at first use.

    Args:
        place: the file, created with its directories if missing, or a Postgres URL; or the options of the
            memory with its place. ``:memory:`` keeps everything in this process while the services exist,
            even after closing.
        embedder, redactor: see :class:`~reactive_agents.adapters.memory.service.SqliteMemory`.
        read_only: only recall; every write fails.

    Raises:
        ValueError: ``:memory:`` is read-only.
    """
    config = place if isinstance(place, MemoryConfig) else MemoryConfig(fspath(place))
    database = open_memory_store(config.path, read_only=read_only, has_vectors=embedder is not None)
    redactor = redactor or Redactor()
    return MemoryServices(
        database,
        SqliteMemory(database, config, clock=clock, ids=ids, embedder=embedder, redactor=redactor),
        SqlitePlanStore(database, clock, redactor),
        SqliteEffectiveness(database, clock, redactor),
        MemoryArchive(database, clock),
    )
