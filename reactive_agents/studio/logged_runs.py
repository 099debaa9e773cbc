"""The runs that a studio shows, from a run log and from files.

The timeline of a run is cached, and updated with new events only.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from attrs import define, evolve, field
from returns.result import Failure, Success

from reactive_agents.adapters.encryption import RecordKey
from reactive_agents.adapters.run_record import states_in
from reactive_agents.adapters.sql import ALL_ROWS, is_made, shown_place
from reactive_agents.adapters.telemetry.run_log import BRIEF, RUN_LOG, SqliteRunLog
from reactive_agents.core.codec import decode, encode
from reactive_agents.core.errors import RunLogFailed
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.run_record import LoggedEvent, LoggedRun, LoggedRunFilter
from reactive_agents.effects import Effect, attempt
from reactive_agents.studio.run_document import KnownEvents, RunTimeline, turn_before

_log = logging.getLogger("reactive_agents")
MOST_OPENED = 50
_MOST_KEPT = 12
"""The maximum of cached timelines."""
_MOST_CHILDREN = 500
"""Sub-runs that the page of a run lists, the latest; its file has all."""
_MOST_EVENTS = 200_000


class RunUnreadable(Exception):
    """A run log or run file cannot be read; the message says why."""


@define(eq=False)
class KnownRun:
    """A run with its events so far."""

    run: LoggedRun
    timeline: RunTimeline
    events: KnownEvents = field(factory=KnownEvents)
    children: tuple[LoggedRun, ...] = ()

    def add(self, events: Sequence[LoggedEvent]) -> None:
        """Add the next events."""
        for each in events:
            self.timeline.add(each)
            body = {name: value for name, value in each.body.items() if name != "request"}
            self.events.by_number[each.sequence] = evolve(each, body=body) if "request" in each.body else each


class RunLibrary:
    """The runs to show.

    Args:
        path: the file of a run log, which need not exist yet, or a Postgres URL.
        read_only: never create or change the file, for a studio that begins no runs.
        key: decrypts the run log; by default that of the environment.
    """

    def __init__(self, path: str | Path, *, read_only: bool = True, key: RecordKey | None = None) -> None:
        self.place = shown_place(path)
        self._is_made = partial(is_made, path, RUN_LOG)
        self._has_log = not read_only
        self._path = path
        self._log = SqliteRunLog(path, read_only=read_only, key=key)
        self._opened: OrderedDict[str, tuple[LoggedRun, tuple[LoggedEvent, ...]]] = OrderedDict()
        self._known: OrderedDict[str, KnownRun] = OrderedDict()

    async def aclose(self) -> None:
        """Close the run log."""
        await self._log.aclose()

    async def has_log(self) -> bool:
        """Return whether there is a run log."""
        if not self._has_log:
            self._has_log = await anyio.to_thread.run_sync(self._is_made)
        return self._has_log

    def is_opened(self, run_id: str) -> bool:
        """Return whether a run comes from a file."""
        return run_id in self._opened

    async def runs(self, chosen: LoggedRunFilter) -> list[LoggedRun]:
        """Return the matching runs: first those from files, then the latest."""
        opened = [run for run, _ in reversed(self._opened.values()) if _fits(run, chosen)]
        if chosen.brief:
            opened = [evolve(each, task=each.task[:BRIEF]) for each in opened]
        logged = await _read(self._log.runs(chosen)) if await self.has_log() else ()
        return [*opened, *await self.current(logged)][: chosen.limit]

    async def current(self, logged: Iterable[LoggedRun]) -> list[LoggedRun]:
        """Return runs of the log with their states in the record beside it, if any."""
        runs = list(logged)
        unended = [each.run_id for each in runs if each.status in ("running", "interrupted")]
        read = await anyio.to_thread.run_sync(states_in, self._path, unended) if unended else Success({})
        if isinstance(read, Failure):
            _log.warning("The studio shows the states of the run log. %s", read.failure())
        states = read.value_or({})
        return [evolve(each, status=states.get(each.run_id, each.status)) for each in runs]

    async def find(self, run_id: str) -> LoggedRun | None:
        """Return a run by its id, or by its beginning."""
        if run_id in self._opened:
            return self._opened[run_id][0]
        return await _read(self._log.run(RunId(run_id))) if await self.has_log() else None

    async def known(self, run_id: str) -> KnownRun | None:
        """Return a run with all events so far; ``None`` if there is none."""
        run = await self.find(run_id)
        if run is None:
            return None
        known = self._known.get(run.run_id)
        if known is None:
            known = KnownRun(run, RunTimeline(run.started_at))
            self._known[run.run_id] = known
            while len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(run.run_id)
        known.run = run
        if run.run_id in self._opened:
            if not known.events.by_number:
                known.add(self._opened[run.run_id][1])
            return known
        after = known.timeline.last
        new = await _read(self._log.events(run.run_id, after, with_requests=False))
        if known.timeline.last == after:  # unless another request read them meanwhile
            known.add(new)
        listed = LoggedRunFilter(parent=run.run_id, limit=_MOST_CHILDREN, brief=True)
        known.children = await _read(self._log.runs(listed))
        return known

    async def requests(self, known: KnownRun, row_id: int) -> tuple[JsonObject, JsonObject]:
        """Return the request of a model call, and of the previous turn; empty for none."""
        row = known.timeline.row(row_id)
        before = None if row is None else turn_before(known.timeline, row)
        run_id = known.run.run_id
        own = await self._request(run_id, row_id)
        return own, {} if before is None else await self._request(run_id, before.id)

    async def _request(self, run_id: RunId, number: int) -> JsonObject:
        if run_id in self._opened:
            events: Sequence[LoggedEvent] = [
                each for each in self._opened[run_id][1] if each.sequence == number
            ]
        else:
            events = await _read(self._log.events(run_id, number - 1, limit=1))
        request = events[0].body.get("request") if events and events[0].sequence == number else None
        return request if isinstance(request, dict) else {}

    async def export(self, run_id: RunId) -> str:
        """Return a run and its sub-runs as JSON lines, as ``runs export`` writes them."""
        lines: list[str] = []
        waiting = [run_id]
        while waiting:
            run = await self.find(waiting.pop(0))
            if run is None:
                continue
            if run.run_id in self._opened:
                events = self._opened[run.run_id][1]
                waiting += [each.run_id for each, _ in self._opened.values() if each.parent == run.run_id]
            else:
                events = await _read(self._log.events(run.run_id))
                children = await _read(self._log.runs(LoggedRunFilter(parent=run.run_id, limit=ALL_ROWS)))
                waiting += [each.run_id for each in children]
            lines += lines_of(run, events)
        return "\n".join(lines) + "\n"

    async def open(self, text: str) -> list[RunId]:
        """Add the runs of a file until the studio ends; return their ids.

        A run gets a new id if its id is already known.

        Raises:
            RunUnreadable: it is not a run file.
        """
        found = parse_runs(text)
        names: dict[str, RunId] = {}
        for run, _ in found:
            name, number = run.run_id, 2
            while name in self._opened or await self.find(name) is not None:
                name, number = RunId(f"{run.run_id}~{number}"), number + 1
            names[run.run_id] = name
        for run, events in found:
            name = names[run.run_id]
            parent = run.parent if run.parent is None else names.get(run.parent, run.parent)
            moved = tuple(evolve(each, run_id=name) for each in events)
            self._opened[name] = (evolve(run, run_id=name, parent=parent), moved)
        while len(self._opened) > MOST_OPENED:
            self._opened.popitem(last=False)
        return list(names.values())


def parse_runs(text: str) -> list[tuple[LoggedRun, tuple[LoggedEvent, ...]]]:
    """Return the runs of a file of JSON lines, each with its events.

    Raises:
        RunUnreadable: it is not a run file.
    """
    found: list[tuple[LoggedRun, dict[int, LoggedEvent]]] = []
    for number, line in enumerate(text.split("\n"), 1):  # JSON may hold other ends of lines in its texts
        if not line.strip():
            continue
        if number > _MOST_EVENTS:
            raise RunUnreadable(f"The file has more than {_MOST_EVENTS} lines.")
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            raise RunUnreadable(f"Line {number} is not JSON: expected a run file of JSON lines.") from None
        kind, value = next(iter(document.items()), ("", None)) if isinstance(document, dict) else ("", None)
        if kind == "run" and isinstance(value, dict):
            known = {name: each for name, each in value.items() if name != "duration_s"}
            found.append((_decoded(known, LoggedRun, number), {}))
        elif kind == "event" and found:
            event = _decoded(value, LoggedEvent, number)
            found[-1][1][event.sequence] = event
        else:
            raise RunUnreadable(f"Line {number} is neither a run nor one of its events.")
    if not found:
        raise RunUnreadable("The file contains no run.")
    return [(run, tuple(events[each] for each in sorted(events))) for run, events in found]


def _decoded(value: Any, kind: Any, number: int) -> Any:
    read = decode(value, kind)
    if isinstance(read, Failure):
        raise RunUnreadable(f"Line {number}: {read.failure().message}")
    return read.unwrap()


def lines_of(run: LoggedRun, events: Iterable[LoggedEvent]) -> Iterator[str]:
    """Yield a run and its events as JSON lines."""
    yield json.dumps({"run": run_document(run)})
    for each in events:
        yield json.dumps({"event": encode(each)})


def run_document(run: LoggedRun) -> JsonObject:
    """Return the summary of a run as JSON data."""
    document = encode(run)
    assert isinstance(document, dict)
    return {**document, "duration_s": run.duration_s}


def _fits(run: LoggedRun, chosen: LoggedRunFilter) -> bool:
    names = ("agent", "user", "session", "status", "parent")
    return (
        all(getattr(chosen, name) in (None, getattr(run, name)) for name in names)
        and (chosen.tagged is None or chosen.tagged in run.tags)
        and chosen.tool is None
        and (chosen.since is None or run.started_at >= chosen.since)
        and (chosen.before is None or run.started_at < chosen.before)
        and (chosen.least_cost_usd is None or run.cost_usd >= chosen.least_cost_usd)
        and (chosen.text is None or run.contains(chosen.text))
        and (chosen.children or chosen.parent is not None or run.parent is None)
    )


async def _read(asked: Effect[Any, RunLogFailed]) -> Any:
    answered = await attempt(asked)
    if isinstance(answered, Failure):
        raise RunUnreadable(answered.failure().message)
    return answered.unwrap()
