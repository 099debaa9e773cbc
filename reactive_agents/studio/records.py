"""Memory, usage, audit logs and personas for the page of a studio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial
from pathlib import Path

import anyio.to_thread
from attrs import define, field
from returns.result import Failure, Success

from reactive_agents.adapters.governance.audit_log import read_entries, verify
from reactive_agents.adapters.governance.budget import sum_usd
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.memory.database import open_memory_store
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.adapters.memory.service import MemoryArchive
from reactive_agents.adapters.system import SystemClock, UlidSource
from reactive_agents.adapters.telemetry.event_bus import LocalEventBus
from reactive_agents.agent import AgentConfig
from reactive_agents.agent.errors import AgentError, value_of
from reactive_agents.agent.persona_config import PersonaConfig
from reactive_agents.core.codec import encode
from reactive_agents.core.config import IN_PROCESS, is_postgres
from reactive_agents.core.errors import RecordNotFound
from reactive_agents.core.ids import AgentId, LearningId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.memory import ForgetEntry, MemoryId
from reactive_agents.core.run_record import LoggedRun
from reactive_agents.effects import attempt
from reactive_agents.persona import PersonaReasoningSystem, PersonaServices
from reactive_agents.persona.explanation import explain
from reactive_agents.server.web import Problem
from reactive_agents.studio.diagrams import persona_diagram

_MOST_ENTRIES = 500
_MOST_PLANS = 20
_MOST_USERS = 50


@define(eq=False)
class StudioRecords:
    """The stores of the configured agents and personas.

    Attributes:
        personas: by their ids.
    """

    personas: Mapping[str, PersonaConfig] = field(factory=dict)

    async def memories(self, config: AgentConfig, agent: AgentId, text: str) -> list[Json]:
        """Return the entries with every word of a text, or else with some; or the latest."""
        path = _existing(None if config.memory is None else config.memory.path)
        if path is None:
            return []
        async with aclosing(open_memory_store(path, read_only=True)) as store:
            archive = MemoryArchive(store, SystemClock())
            if text.strip():
                found = await value_of(archive.search(text, agent_id=agent, limit=_MOST_ENTRIES))
            else:
                found = await value_of(archive.entries(agent_id=agent, limit=_MOST_ENTRIES))
        return [encode(each) for each in found]

    async def forget(self, config: AgentConfig, entry: str) -> int:
        """Delete an entry; return the number of deleted ones."""
        path = _existing(None if config.memory is None else config.memory.path)
        if path is None:
            return 0
        async with aclosing(open_memory_store(path)) as store:
            archive = MemoryArchive(store, SystemClock())
            return await value_of(archive.forget(ForgetEntry(MemoryId(entry))))

    def spending(self, runs: Sequence[LoggedRun]) -> dict[str, Json]:
        """Return the totals of runs, by agent, by user and by UTC day."""
        days = _totals((f"{each.started_at:%Y-%m-%d}", each) for each in runs)
        days.sort(key=lambda each: str(each["name"]), reverse=True)
        agents = _by_cost(_totals((each.agent, each) for each in runs))
        users = _by_cost(_totals((each.user or "", each) for each in runs))
        return {
            "by_agent": list(agents),
            "by_user": list(users[:_MOST_USERS]),
            "by_day": list(days[:31]),
            "users": len(users),
            "days": len(days),
        }

    async def limits(self, name: str, config: AgentConfig) -> list[JsonObject]:
        """Return the budgets of an agent, with the amount spent per day and month."""
        cost = config.cost
        if cost is None:
            return []
        now = SystemClock().now()
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        given = (
            ("day", cost.daily_usd, today),
            ("month", cost.monthly_usd, today.replace(day=1)),
            ("each run", cost.run_usd, None),
            ("each user, a day", cost.user_daily_usd, None),
            ("each user, a month", cost.user_monthly_usd, None),
        )
        limits: list[JsonObject] = []
        for period, limit, since in given:
            if limit is not None:
                spent = None if since is None else await self._spent(cost.path, since)
                limits.append({"agent": name, "period": period, "limit_usd": limit, "spent_usd": spent})
        return limits

    async def _spent(self, place: str, since: datetime) -> float:
        path = _existing(place)
        if path is None:
            return 0.0
        async with aclosing(
            SqliteCostTracker(path, clock=SystemClock(), read_only=is_postgres(path))
        ) as tracker:
            totals = await value_of(tracker.totals("agent", since=since))
        return float(sum_usd(each.cost_usd for each in totals))

    async def audit(self, config: AgentConfig) -> JsonObject:
        """Return whether an audit log is valid, and its latest entries."""
        nothing: JsonObject = {"valid": True, "head": "", "signed": None, "problem": ""}
        path = _existing(None if config.audit is None else config.audit.path)
        if path is None:
            return {**nothing, "entries_count": 0, "entries": []}
        verified = await anyio.to_thread.run_sync(verify, path)
        read = await anyio.to_thread.run_sync(partial(read_entries, path, latest=_MOST_ENTRIES))
        entries = read.value_or(())
        shown: list[Json] = [
            {
                "sequence": each.sequence,
                "at": each.entry.at.isoformat(),
                "run_id": each.entry.run_id,
                "action": each.entry.action,
                "subject": each.entry.subject,
                "detail": ", ".join(filter(None, (each.entry.status or "", each.entry.detail))),
            }
            for each in reversed(entries)
        ]
        if isinstance(verified, Failure):
            return {**nothing, "valid": False, "entries": shown, "problem": verified.failure().message}
        summary = verified.unwrap()
        head = "" if summary.head is None else f"{summary.head.sequence}:{summary.head.hash}"
        told: JsonObject = {"entries_count": summary.entries, "head": head, "signed": summary.signed}
        return {**nothing, **told, "entries": shown}

    async def persona(self, name: str) -> JsonObject:
        """Return the latest plans of a persona with explanations, and its learnings."""
        config = self._config(name)
        path = _existing(config.memory)
        if path is None:
            return {"plans": [], "learnings": []}
        async with aclosing(SqlitePersonaStore(open_memory_store(path, read_only=True))) as store:
            plans: list[Json] = []
            for each in await value_of(store.list_plans(config.persona_id, limit=_MOST_PLANS)):
                journal = await value_of(store.journal(each.task.id))
                plans.append(
                    {
                        "at": each.plan.created_at.isoformat(),
                        "goal": each.plan.goal,
                        "status": each.plan.status,
                        "event": f"{each.event.author}: {each.event.content}",
                        "diagram": persona_diagram(each).document(),
                        "explanation": [
                            {"stage": line.stage, "text": line.text} for line in explain(journal)
                        ],
                    }
                )
            learnings = await value_of(_reasoning(config, store).learnings())
            return {"plans": plans, "learnings": [encode(each) for each in learnings]}

    async def forget_learning(self, name: str, learning: str) -> bool:
        """Delete a learning and prevent relearning it; return whether it existed."""
        config = self._config(name)
        path = _existing(config.memory)
        if path is None:
            return False
        async with aclosing(SqlitePersonaStore(path)) as store:
            deleted = await attempt(_reasoning(config, store).delete_learning(LearningId(learning)))
            if isinstance(deleted, Success):
                return True
            problem = deleted.failure()
            if isinstance(problem, RecordNotFound):
                return False
            raise AgentError(problem)

    def _config(self, name: str) -> PersonaConfig:
        if name not in self.personas:
            raise Problem(404, "persona-not-found", "No persona of this name is loaded.")
        return self.personas[name]


def _reasoning(config: PersonaConfig, store: SqlitePersonaStore) -> PersonaReasoningSystem:
    services = PersonaServices(store, LocalEventBus(), SystemClock(), UlidSource())
    return PersonaReasoningSystem(config.settings(), services)


def _existing(place: str | None) -> Path | str | None:
    """Return the file or URL of a store if it exists."""
    if place is None or is_postgres(place):
        return place
    return Path(place) if place != IN_PROCESS and Path(place).is_file() else None


def _by_cost(totals: list[JsonObject]) -> list[JsonObject]:
    return sorted(totals, key=lambda each: float(str(each["cost_usd"])), reverse=True)


def _totals(runs: Iterable[tuple[str, LoggedRun]]) -> list[JsonObject]:
    groups: dict[str, list[LoggedRun]] = {}
    for name, run in runs:
        groups.setdefault(name, []).append(run)
    return [
        {
            "name": name,
            "runs": len(each),
            "tokens": sum(run.tokens for run in each),
            "cost_usd": sum_usd(run.cost_usd for run in each),
        }
        for name, each in groups.items()
    ]
