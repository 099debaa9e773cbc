"""The memory services on an SQLite file or a Postgres database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from os import PathLike, fspath
from threading import Lock

import anyio.to_thread
from attrs import evolve, frozen
from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.adapters import sql
from reactive_agents.adapters.memory import store, vectors
from reactive_agents.adapters.memory.database import MemoryStore, open_memory_store, record_redactor
from reactive_agents.adapters.memory.extraction import (
    extract_memories,
    extract_record,
    facts_by_model,
)
from reactive_agents.adapters.memory.recall import RecallQuery, fused, recall
from reactive_agents.adapters.memory.records import SqliteEffectiveness, SqlitePlanStore
from reactive_agents.adapters.memory.search import fingerprint, keyword_pairs, keywords_of, one_line, words_of
from reactive_agents.adapters.memory.store import Reach
from reactive_agents.adapters.memory.vectors import LONGEST_EMBEDDED, Embedding, embedded
from reactive_agents.adapters.sql import Transaction
from reactive_agents.core.config import MemoryConfig
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.core.ids import AgentId, TaskId
from reactive_agents.core.memory import (
    FlushReport,
    ForgetOlder,
    Forgetting,
    MemoryCandidate,
    MemoryContext,
    MemoryEntry,
    MemoryId,
    MemoryKind,
    SessionSnapshot,
    owner_of,
)
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.tasks import Task
from reactive_agents.effects import effect
from reactive_agents.ports import LLM, Clock, Embedder, IdSource

KEPT: dict[MemoryKind, int] = {"episodic": 1_000, "semantic": 10_000, "procedural": 500, "critique": 500}
"""The maximum of entries of each kind for an agent; the weakest are deleted."""

KEPT_SESSIONS = 200
MOST_TASKS_AT_WORK = 256
"""The maximum of working memories, so that runs without a flush are not held forever."""

CAUGHT_UP = 16
"""Older entries without a vector that a flush embeds, for example after a change of the model."""

_LONGEST_CONTENT, _LONGEST_SOURCE = 2_000, 400
_DEFAULT = MemoryConfig()


class SqliteMemory:
    """Implements ``MemoryService`` on a memory file or database.

    It is opened at first use; every failure is a ``MemoryUnavailable``. Recall writes nothing, so it also
    works with a full disk and read-only files.

    Args:
        database: the memory file or database; its creator closes it.
        clock: the clock for storage and decay.
        config: its tokens are counted by an upper estimate; its file is that of the database.
        embedder: enables hybrid search, which is tier ``2``; ``None`` for keyword search.
        redactor: removes secrets from every text before it is stored, embedded or shown to a model.

    Attributes:
        problem: why the last ``remember`` or ``search`` used keywords despite an embedder; empty otherwise.
    """

    def __init__(
        self,
        database: MemoryStore,
        config: MemoryConfig = _DEFAULT,
        *,
        clock: Clock,
        ids: IdSource,
        embedder: Embedder | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.problem = ""
        self._database = database
        self._clock = clock
        self._ids = ids
        self._config = config
        self._embedder = embedder
        self._redactor = redactor or Redactor()
        self._without_secrets = record_redactor(self._redactor).redacted
        self._working: dict[TaskId, tuple[MemoryCandidate, ...]] = {}
        self._noting = Lock()  # runs of several threads write notes at once

    @effect
    async def bootstrap(self, agent_id: AgentId, task: Task) -> Result[MemoryContext, MemoryErrors]:
        """Return the memories relevant to a task.

        These are facts that share its words or meaning, statements of the user, recent runs, successful
        procedures, and critiques of answers to similar tasks.
        """
        if self._passes_by(task):
            return Success(MemoryContext("1" if self._embedder is None else "2"))
        (embedding,), problem = await self._embedded((task.input,))
        reach, now = self._reach(agent_id, self._owner(task)), self._clock.now()

        def work(connection: Transaction) -> MemoryContext:  # in a thread, where a long task holds up no run
            words, pairs = keywords_of(task.input), keyword_pairs(task.input)
            asked = RecallQuery(reach, words, pairs, embedding, now, problem)
            return recall(connection, asked, token_budget=self._config.token_budget)

        return await self._database.read("bootstrap", work)

    @effect
    async def flush(
        self, task: Task, result: ReasoningResult, *, llm: LLM | None = None, model: str | None = None
    ) -> Result[FlushReport, MemoryErrors]:
        """Store the memories of a run and its notes, and delete expired ones, atomically.

        Falls back to rules without a working model, and to keywords without a working embedder; the report
        says so. Fails with ``MemoryUnavailable``; the notes are then kept.
        """
        if self._passes_by(task):
            self._drop_notes(task.id)
            return Success(FlushReport(skipped=True))
        chosen = await self._chosen(task, result, llm, model)
        if isinstance(chosen, Failure):
            return chosen
        candidates, unasked = chosen.unwrap()
        notes = (evolve(each, kind="semantic") for each in self.notes(task.id))
        now, owner = self._clock.now(), self._owner(task)
        entries = [
            self._entry(task.agent_id, each, now, task.id, owner)
            for each in (*candidates, *notes)
            if each.kind != "working"
        ]
        lacking = await self._without_vector(task.agent_id, now)
        if isinstance(lacking, Failure):
            return lacking
        older = lacking.unwrap()
        embeddings, unembedded = await self._embedded([each.content for each in (*entries, *older)])
        caught_up = list(zip(older, embeddings[len(entries) :], strict=True))
        problem = " ".join(filter(None, (unasked, unembedded)))

        def keep(connection: Transaction) -> FlushReport:
            for entry, embedding in zip(entries, embeddings, strict=False):
                _keep(connection, store.add(connection, entry), embedding)
            for entry, embedding in caught_up:
                _keep(connection, entry, embedding)
            dropped = store.delete_expired(connection, sql.shared_us(now, self._database))
            for kind, most in KEPT.items():
                dropped += store.delete_weakest(connection, Reach(task.agent_id, (owner,)), kind, keep=most)
            return FlushReport(len(entries), dropped, problem)

        flushed = await self._database.write("flush", keep, of=_part(task.agent_id, owner))
        if isinstance(flushed, Success):
            self._drop_notes(task.id)
        return flushed

    @effect
    async def holds(self, task: Task) -> Result[bool, MemoryErrors]:
        """Return whether a run has stored its memories, perhaps just before a crash."""
        return await self._database.read(
            "holds", partial(store.holds_task, agent_id=task.agent_id, task_id=task.id)
        )

    @effect
    async def snapshot(self, session: SessionSnapshot) -> Result[None, MemoryErrors]:
        """Store the whole run, and delete the agent's oldest ones beyond the limit."""
        clean = await anyio.to_thread.run_sync(self._without_secrets, session)
        return await self._database.write(
            "snapshot",
            lambda connection: store.save_session(connection, clean, keep=KEPT_SESSIONS),
            of=f"sessions\n{session.agent_id}",
        )

    def note(self, task_id: TaskId, note: MemoryCandidate) -> None:
        """Add a note to the working memory of a task; its flush stores it as a fact."""
        with self._noting:
            notes = self._working.pop(task_id, ())
            while len(self._working) >= MOST_TASKS_AT_WORK:
                self._working.pop(next(iter(self._working)))
            self._working[task_id] = with_note(notes, note)

    def notes(self, task_id: TaskId) -> tuple[MemoryCandidate, ...]:
        """Return the working memory of a task, oldest first; empty after its flush."""
        return self._working.get(task_id, ())

    @effect
    async def remember(
        self, agent_id: AgentId, candidate: MemoryCandidate, *, user: str | None = None
    ) -> Result[MemoryEntry, MemoryErrors]:
        """Store a memory of the agent or one of its users.

        A known one is renewed. Fails with ``MemoryUnavailable``, also for the kind of working memory.
        """
        if candidate.kind == "working":
            return Failure(MemoryUnavailable("Working memory is kept by note, for a task.", "remember"))
        entry = self._entry(
            agent_id, candidate, self._clock.now(), TaskId(""), owner_of(user, None, self._config.scope)
        )
        (embedding,), self.problem = await self._embedded((entry.content,))
        return await self._database.write(
            "remember",
            lambda connection: _keep(connection, store.add(connection, entry), embedding),
            of=_part(agent_id, entry.owner),
        )

    @effect
    async def search(
        self,
        agent_id: AgentId,
        text: str,
        *,
        user: str | None = None,
        kinds: Sequence[MemoryKind] = (),
        limit: int = 20,
    ) -> Result[tuple[MemoryEntry, ...], MemoryErrors]:
        """Return the agent's entries with every word of the text, or else with some.

        A user's entries are found for that user only. With an embedder, also finds entries of similar
        meaning. Empty for a text without words. Fails with ``MemoryUnavailable``.
        """
        if limit < 1 or not words_of(text):
            return Success(())
        (embedding,), self.problem = await self._embedded((text,))
        reach = self._reach(agent_id, owner_of(user, None, self._config.scope))
        among = store.Living(reach, self._clock.now(), tuple(kinds) or store.ALL_KINDS)

        def find(connection: Transaction) -> tuple[MemoryEntry, ...]:
            by_words = store.search(connection, among, text, limit=limit)
            if embedding is None:
                return by_words
            near = vectors.nearest(connection, among, embedding, limit=limit)
            return fused(by_words, [each.entry for each in near])[:limit]

        return await self._database.read("search", find)

    @effect
    async def forget(self, what: Forgetting) -> Result[int, MemoryErrors]:
        """Delete entries and sessions, for a user also plans; return their number."""
        return await _forget(self._database, what)

    async def _chosen(
        self, task: Task, result: ReasoningResult, llm: LLM | None, model: str | None
    ) -> Result[tuple[tuple[MemoryCandidate, ...], str], MemoryErrors]:
        """Return the selected memories, and why a configured model did not select them."""
        # in a thread, since a run may have many long texts
        task = await anyio.to_thread.run_sync(self._without_secrets, task)
        result = await anyio.to_thread.run_sync(self._without_secrets, result)
        problem = ""
        if self._config.extraction == "model":
            if llm is None:
                why = "the run had no model call to spare"
            else:
                facts = await facts_by_model(llm, model, task, result)
                if isinstance(facts, Success):
                    return Success(((*extract_record(task, result), *facts.unwrap()), ""))
                why = facts.failure()
            problem = f"Rules chose what to remember instead of the model ({why})."
        return Success((await anyio.to_thread.run_sync(extract_memories, task, result), problem))

    async def _embedded(self, texts: Sequence[str]) -> tuple[tuple[Embedding | None, ...], str]:
        """Return the embedding of each text, and the reason if one is missing."""
        nothing = (None,) * len(texts)
        if self._embedder is None:
            return nothing, ""
        clean = [self._redactor.redact(text)[:LONGEST_EMBEDDED] for text in texts]
        found = await embedded(self._embedder, clean)
        if isinstance(found, Success):
            return found.unwrap(), ""
        why = self._redactor.redact(found.failure())
        return nothing, f"Memory uses keyword search alone, because the embedder failed ({why})."

    async def _without_vector(
        self, agent_id: AgentId, now: datetime
    ) -> Result[tuple[MemoryEntry, ...], MemoryErrors]:
        embedder = self._embedder
        if embedder is None:
            return Success(())
        return await self._database.read(
            "flush",
            lambda connection: vectors.without_vector(
                connection, agent_id, embedder.model, now, limit=CAUGHT_UP
            ),
        )

    def _drop_notes(self, task_id: TaskId) -> None:
        with self._noting:
            self._working.pop(task_id, None)

    def _passes_by(self, task: Task) -> bool:
        return self._config.anonymous == "nothing" and task.user is None and task.session is None

    def _owner(self, task: Task) -> str:
        return owner_of(task.user, task.session, self._config.scope)

    @staticmethod
    def _reach(agent_id: AgentId, owner: str) -> Reach:
        """Return the scope of the agent's memories and those of the owner."""
        return Reach(agent_id, ("", owner) if owner else ("",))

    def _entry(
        self, agent_id: AgentId, candidate: MemoryCandidate, now: datetime, task_id: TaskId, owner: str
    ) -> MemoryEntry:
        redact = self._redactor.redact
        return MemoryEntry(
            MemoryId(self._ids.new()),
            agent_id,
            candidate.kind,
            # redact before joining lines, which can create or split a secret
            redact(one_line(redact(candidate.content)))[:_LONGEST_CONTENT],
            candidate.origin,
            redact(one_line(redact(candidate.source)))[:_LONGEST_SOURCE],
            task_id,
            min(1.0, max(0.0, candidate.importance)),
            now,
            now,
            successes=int(candidate.success is True),
            executions=int(candidate.success is not None),
            owner=owner,
        )


def _part(agent_id: AgentId, owner: str) -> str:
    """Return the name of the memories whose writes are serialised."""
    return f"{agent_id}\n{owner}"


def _keep(connection: Transaction, entry: MemoryEntry, embedding: Embedding | None) -> MemoryEntry:
    if embedding is not None:
        vectors.put(connection, entry.id, embedding)
    return entry


MOST_NOTES = 32


def with_note(
    notes: tuple[MemoryCandidate, ...], note: MemoryCandidate, *, most: int = MOST_NOTES
) -> tuple[MemoryCandidate, ...]:
    """Return the notes with a new one, without its duplicate or the weakest."""
    mark = fingerprint(note.content)
    kept = [*(known for known in notes if fingerprint(known.content) != mark), note]
    if len(kept) > most:
        kept.remove(min(kept, key=lambda each: each.importance))
    return tuple(kept)


@frozen(eq=False)
class MemoryArchive:
    """Reads and deletes stored entries and sessions; fails with ``MemoryUnavailable``.

    Args:
        database: the memory file or database; its creator closes it.
    """

    database: MemoryStore
    clock: Clock

    @effect
    async def search(
        self, text: str, *, agent_id: AgentId | None = None, kinds: Sequence[MemoryKind] = (), limit: int = 20
    ) -> Result[tuple[MemoryEntry, ...], MemoryErrors]:
        """Return the unexpired entries with every word of the text, or else with some."""
        among = store.Living(Reach(agent_id), self.clock.now(), tuple(kinds) or store.ALL_KINDS)
        return await self.database.read(
            "search", lambda connection: store.search(connection, among, text, limit=limit)
        )

    @effect
    async def get(self, entry_id: MemoryId) -> Result[Maybe[MemoryEntry], MemoryErrors]:
        """Return the entry with an id, even if expired, or ``Nothing``."""
        found = await self.database.read("get", lambda connection: store.get(connection, entry_id))
        return found.map(Maybe.from_optional)

    @effect
    async def entries(
        self, *, agent_id: AgentId | None = None, kinds: Sequence[MemoryKind] = (), limit: int | None = None
    ) -> Result[tuple[MemoryEntry, ...], MemoryErrors]:
        """Return entries, expired ones too, most recently seen first."""
        wanted = tuple(kinds) or store.ALL_KINDS
        return await self.database.read(
            "entries", lambda connection: store.listed(connection, Reach(agent_id), kinds=wanted, limit=limit)
        )

    @effect
    async def sessions(
        self, *, agent_id: AgentId | None = None
    ) -> Result[tuple[SessionSnapshot, ...], MemoryErrors]:
        """Return the stored sessions, newest first."""
        return await self.database.read(
            "sessions", lambda connection: store.listed_sessions(connection, agent_id)
        )

    @effect
    async def forget(self, *what: Forgetting) -> Result[int, MemoryErrors]:
        """Delete entries and sessions, in one transaction; return their number."""
        return await _forget(self.database, *what)


async def _forget(database: MemoryStore, *what: Forgetting) -> Result[int, MemoryErrors]:
    """Forget; for what is only old, which is done often, a file is not rewritten."""

    def work(connection: Transaction) -> int:
        return sum(store.forget(connection, each) for each in what)

    rewrites = not all(isinstance(each, ForgetOlder) for each in what)
    return await sql.erase(database, "forget", work, rewrites=rewrites)


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
        embedder, redactor: see :class:`SqliteMemory`.
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
