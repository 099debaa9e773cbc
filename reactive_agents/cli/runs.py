"""``reactive-agents runs``: list and show past runs, from the run log."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from math import inf
from typing import Annotated, Any, Literal, TypeVar

import typer
from attrs import asdict, evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.encryption import KEY_VARIABLE
from reactive_agents.adapters.run_record import RUNS, SqliteRunRecord, states_in
from reactive_agents.adapters.sql import ALL_ROWS, look_into
from reactive_agents.adapters.system import SystemClock, default_run_log
from reactive_agents.adapters.telemetry.console import describe
from reactive_agents.adapters.telemetry.run_log import RUN_LOG, SqliteRunLog, event_of
from reactive_agents.cli import output
from reactive_agents.cli.output import argument, option
from reactive_agents.core.codec import encode
from reactive_agents.core.config import shown_place
from reactive_agents.core.errors import RunLogFailed
from reactive_agents.core.ids import AgentId, RunId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.run_record import (
    LoggedEvent,
    LoggedRun,
    LoggedRunFilter,
    RecordedRun,
    RunFilter,
    RunState,
)
from reactive_agents.core.tasks import TaskResult
from reactive_agents.core.texts import counted, dollars
from reactive_agents.effects import Effect, attempt
from reactive_agents.engine.recorded_answers import end_of, recorded_outcome
from reactive_agents.studio.diagrams import diagram_of, mermaid, svg
from reactive_agents.studio.logged_runs import lines_of, run_document
from reactive_agents.studio.run_document import timeline_of

_T = TypeVar("_T")
_POLL_S = 0.2
_LOOKS = 10
"""Polls without a new event between two looks at the record of a run that is followed."""

runs = output.command_group("List, show, follow and continue runs.", no_args_is_help=True)

RunsOption = Annotated[
    str | None,
    option(
        "--runs FILE_OR_URL",
        "The run log: a file, by default one in the user's state directory, or a Postgres URL.",
    ),
]
RunArgument = Annotated[str, argument("RUN", "The id of a run, or its beginning.")]


@frozen
class _OfLog:
    """Which runs are listed, by what the log alone has of them."""

    session: Annotated[str | None, option("--session SESSION", "Of this conversation.")] = None
    status: Annotated[
        Literal["running", "completed", "partial", "abstained", "failed", "cancelled"] | None,
        option("--status", "With this status."),
    ] = None
    tagged: Annotated[str | None, option("--tag TAG", "With this tag.")] = None
    tool: Annotated[str | None, option("--tool TOOL", "That called this tool.")] = None
    since: Annotated[
        datetime | None, option("--since TIME", "Begun then or later; UTC by default.", parser=output.moment)
    ] = None
    before: Annotated[
        datetime | None, option("--before TIME", "Begun before then; UTC by default.", parser=output.moment)
    ] = None
    least_cost_usd: Annotated[
        float | None,
        option("--min-cost USD", "That cost at least this.", parser=output.number_up_to(inf, "US dollars")),
    ] = None


_FLAGS = {"tagged": "--tag", "least_cost_usd": "--min-cost"}


@runs.command("list")
def list_runs(
    file: RunsOption = None,
    agent: Annotated[str | None, option("--agent -a NAME", "Of this agent.")] = None,
    user: Annotated[str | None, option("--user -u USER", "Of this user.")] = None,
    *,
    of_log: Annotated[_OfLog, output.Options(_OfLog)],
    state: Annotated[
        RunState | None, option("--state", "In this state, by the record of durable runs.")
    ] = None,
    children: Annotated[bool, option("--children", "Include the runs that tools began.")] = False,
    limit: Annotated[int, option("--limit -n N", "The most runs.", min=1)] = 20,
) -> None:
    """List runs of the log and the record, latest first."""
    chosen = asdict(of_log)
    given = [name for name, value in chosen.items() if value is not None]
    is_alone = file is not None and _is_record_alone(file)
    has_record = is_alone or _can_read_record(_place(file))
    if given and (state is not None or is_alone):
        flag = _FLAGS.get(given[0], f"--{given[0]}")
        raise output.bad_usage(flag, repr(chosen[given[0]]), _OF_RECORD)
    recorded: tuple[RecordedRun, ...] = ()
    is_new = file is None and not output.has_store(_place(file), RUNS)  # nothing was recorded here yet
    if (has_record and not given) or (state is not None and not is_new):
        wanted = RunFilter(
            None if agent is None else AgentId(agent),
            state,
            user,
            limit=limit,
            children=children,
            brief=True,
        )
        recorded = ask_record(_place(file), lambda record: record.runs(wanted))
    logged: tuple[LoggedRun, ...] = ()
    if state is None and not is_alone:
        logged = _runs(
            file,
            LoggedRunFilter(agent=agent, user=user, children=children, limit=limit, **chosen),
        )
    runs_, known, problems = _joined(file, logged, recorded, has_record=has_record)
    latest = sorted(runs_, key=lambda run: (run.started_at, run.run_id), reverse=True)[:limit]
    if output.is_json():
        output.print_json([_listed(each, known.get(each.run_id), problems) for each in latest])
        return
    rows = [_row(each, known.get(each.run_id), has_record=has_record) for each in latest]
    of_run = ("state", "tries", "queue") if has_record else ("status",)
    heads = ("run", "began", "agent", *of_run, "took", "tokens", "cost", "task")
    output.print_table(heads, rows, right=("tries", "took", "tokens", "cost"))


def _row(run: LoggedRun, recorded: RecordedRun | None, *, has_record: bool) -> tuple[str, ...]:
    """Return a run as a row of the list."""
    status = run.status if recorded is None else ", ".join((recorded.state, *_owed(recorded)))
    tried = ("", "") if recorded is None else (str(recorded.attempt), recorded.queue)
    is_over = run.ended_at is not None  # until then, nothing has its figures
    return (
        run.run_id,
        f"{run.started_at:%Y-%m-%d %H:%M:%S}",
        run.agent,
        status,
        *(tried if has_record else ()),
        "" if run.duration_s is None else f"{run.duration_s:.1f} s",
        *((str(run.tokens), dollars(run.cost_usd)) if is_over else ("", "")),
        output.one_line(run.task)[:60],
    )


_OF_RECORD = (
    "--agent, --user, --state, --children or --limit: the runs of a record are listed, not of a run log"
)


def _joined(
    file: str | None, logged: tuple[LoggedRun, ...], recorded: tuple[RecordedRun, ...], *, has_record: bool
) -> tuple[list[LoggedRun], dict[RunId, RecordedRun], dict[RunId, Json]]:
    """Return the runs of log and record, those of the record, and problems by id."""
    known = {each.run_id: each for each in recorded}
    names = {each.run_id for each in logged}
    unlogged = [each for each in recorded if each.run_id not in names]
    unrecorded = [each.run_id for each in logged if each.run_id not in known]

    async def find_logged(log: SqliteRunLog) -> Result[list[LoggedRun], RunLogFailed]:
        read: list[tuple[RunId, Result[Any, Any]]] = [
            (each.run_id, await attempt(log.run(each.run_id))) for each in unlogged
        ]
        found = [(name, run.value_or(None)) for name, run in read]
        return Success([run for name, run in found if run is not None and run.run_id == name])

    async def find_recorded(record: SqliteRunRecord) -> Result[list[RecordedRun], RunLogFailed]:
        read: list[Result[Any, Any]] = [await attempt(record.find(each)) for each in unrecorded]
        found = [each.value_or(None) for each in read]  # one may be encrypted with another key
        return Success([each for each in found if each is not None])

    if unlogged and output.has_store(_place(file), RUN_LOG):
        logged += tuple(_ask(file, find_logged))
    if unrecorded and has_record:
        known |= {each.run_id: each for each in ask_record(_place(file), find_recorded)}
    current, problems = _as_recorded(file, logged)
    names = {each.run_id for each in logged}
    return [*current, *(_unlogged(each) for each in recorded if each.run_id not in names)], known, problems


def _unlogged(run: RecordedRun) -> LoggedRun:
    """Return a run of which only the record has something, such as a queued one."""
    moment = run.created_at or SystemClock.now()
    task, ended = run.task, run.updated_at if run.has_ended else None
    known = LoggedRun(
        run.run_id,
        run.agent_id,
        moment,
        task.input,
        run.state,
        run.parent,
        task.session,
        task.user,
        task.tags,
        ended,
    )
    outcome = recorded_outcome(run) if run.has_ended and run.result else None
    if not isinstance(outcome, Success | Failure):
        return known
    end = end_of(outcome)
    return evolve(
        known,
        terminated_by=end.metadata.terminated_by,
        detail=end.reason if isinstance(end, TaskResult) else end.error.message,
        model_calls=end.metadata.model_calls,
        tokens=end.metadata.tokens_used,
        cost_usd=end.metadata.cost_usd,
    )


def _owed(run: RecordedRun | None) -> tuple[str, ...]:
    """Return which stores an ended run is still to be written to, in words."""
    return (f"not yet in {', '.join(run.owes)}",) if run is not None and run.owes else ()


def _listed(run: LoggedRun, known: RecordedRun | None, problems: dict[RunId, Json]) -> JsonObject:
    """Return the document of a run in a list, with what the record has of it."""
    updated = None if known is None else known.updated_at
    return {
        "state": run.status if known is None else known.state,
        "created_at": (run.started_at if known is None else known.created_at or run.started_at).isoformat(),
        "updated_at": None if updated is None else updated.isoformat(),
        "attempt": None if known is None else known.attempt,
        "queue": None if known is None else known.queue,
        "origin": None if known is None else known.origin,
        "owes": [] if known is None else [*known.owes],
        **_document(run, problems),
    }


def ask_record(
    place: str,
    question: Callable[[SqliteRunRecord], Effect[_T, Any] | Awaitable[Result[_T, Any]]],
    *,
    read_only: bool = True,
) -> _T:
    """Return what a record answers, decrypted with the key of the environment.

    Args:
        read_only: whether a record of an older version is refused, as a process may still write it.
    """
    check_record(place)
    key = os.environ.get(KEY_VARIABLE)
    return output.ask_store(
        lambda: SqliteRunRecord(place, clock=SystemClock(), key=key, read_only=read_only), question
    )


def check_record(place: str) -> None:
    """Exit with a usage error if a place has no record, instead of adding one to it."""
    output.check_there("--runs", place, "a record of runs", RUNS)


def _is_record_alone(place: str) -> bool:
    return not output.has_store(place, RUN_LOG) and output.has_store(place, RUNS)


def _can_read_record(place: str) -> bool:
    return output.has_store(place, RUNS) and isinstance(look_into(place, RUNS, lambda _: None), Success)


@runs.command()
def show(
    run: RunArgument,
    file: RunsOption = None,
    requests: Annotated[bool, option("--requests", "With the exact request of each model call.")] = False,
    results: Annotated[bool, option("--results", "With the full result of each tool call.")] = False,
    graph: Annotated[bool, option("--graph", "Only the plan or the tree of thoughts, in Mermaid.")] = False,
    picture: Annotated[bool, option("--svg", "The same as an SVG picture.")] = False,
) -> None:
    """Show a run as a timeline."""
    found, logged = _run_and_events(file, run)
    (found,), problems = _as_recorded(file, (found,))
    known = _recorded(file, found.run_id)
    if output.is_json():
        owes: JsonObject = {"owes": [] if known is None else [*known.owes]}
        output.print_json({**_document(found, problems), **owes, "log": [encode(each) for each in logged]})
        return
    if graph or picture:
        timeline = timeline_of(found, logged)
        drawn = diagram_of(timeline.plan, timeline.tree)
        typer.echo(svg(drawn) if picture else mermaid(drawn))
        return
    typer.echo(output.printable(_heading(found)))
    for owed in _owed(known):
        typer.echo(f"  {owed}")
    for each in logged:
        _print_event(each, found, requests=requests, results=results)


@runs.command()
@output.without_json
def tail(run: RunArgument, file: RunsOption = None) -> None:
    """Show a run, and follow it until it ends."""
    found, logged = _run_and_events(file, run)
    (shown,), _ = _as_recorded(file, (found,))
    typer.echo(output.printable(_heading(shown)))
    last, silent, told = 0, 0, ""
    while True:
        for each in logged:
            _print_event(each, found, requests=False, results=False)
            last = each.sequence
        found, logged = _run_and_events(file, found.run_id, after=last)
        if logged:
            silent = 0
            continue
        if found.ended_at is not None:
            return
        if silent % _LOOKS == 0:
            problem = _left_alone(_place(file), found.run_id)
            if problem not in ("", told):
                typer.echo(output.printable(problem), err=True)
            told = problem
        silent += 1
        time.sleep(_POLL_S)


def _left_alone(place: str, run_id: RunId) -> str:
    """Return that no process works on a durable run; empty where one does."""
    known = _recorded(place, run_id)
    if known is None or known.status != "open" or known.is_held:
        return ""
    return (
        f"No process works on the run {run_id}, which is {known.state}. To continue it: reactive-agents runs"
        f" resume {known.parent or run_id} --runs {shown_place(place)} --config AGENT"
    )


@runs.command()
@output.without_json
def export(
    run: Annotated[str | None, argument("[RUN]", "The id of a run, or its beginning.")] = None,
    file: RunsOption = None,
    user: Annotated[str | None, option("--user -u USER", "All runs of this user.")] = None,
) -> None:
    """Write one run or all as JSON lines: each run, then its events."""

    output.check_names(user=user)
    if run is not None and user is not None:
        raise typer.BadParameter("got a run as well, expected either a run or --user.", param_hint="--user")
    if run is None:
        every = LoggedRunFilter(user=user, children=True, limit=ALL_ROWS)
        found = _runs(file, every)
    else:
        found = (_find_run(file, run),)

    async def write(log: SqliteRunLog) -> Result[None, RunLogFailed]:
        for each in found:
            read = await attempt(log.events(each.run_id))
            logged = output.value_or_exit(read)
            for line in lines_of(each, logged):
                typer.echo(line)
        return Success(None)

    if found:
        _ask(file, write)


def _ask(
    file: str | None,
    question: Callable[[SqliteRunLog], Effect[_T, RunLogFailed] | Awaitable[Result[_T, RunLogFailed]]],
) -> _T:
    place = _place(file)
    output.check_there("--runs", place, "a run log")
    return output.ask_store(lambda: SqliteRunLog(place, read_only=True), question)


def _place(file: str | None) -> str:
    return str(default_run_log()) if file is None else file


def _runs(file: str | None, chosen: LoggedRunFilter) -> tuple[LoggedRun, ...]:
    is_new = file is None and not default_run_log().exists()  # nothing has run here yet
    return () if is_new else _ask(file, lambda log: log.runs(chosen))


def _find_run(file: str | None, run: str) -> LoggedRun:
    is_unlogged = _is_record_alone(_place(file))
    found = None if is_unlogged else _ask(file, lambda log: log.run(RunId(run)))
    if found is None:
        every = () if is_unlogged else _runs(file, LoggedRunFilter(children=True, limit=ALL_ROWS))
        meant = [each.run_id for each in every if each.run_id.startswith(run)]
        known = None
        if not meant and output.has_store(_place(file), RUNS):
            known = ask_record(_place(file), lambda record: record.find(RunId(run)))
        if known is not None:
            return _unlogged(known)
        problem = f"There is no run {run!r} in the {'record' if is_unlogged else 'log'}."
        if meant:
            problem = f"{len(meant)} runs in the log begin with {run!r}, such as {' and '.join(meant[:2])}."
        raise output.fail(RunLogFailed(problem, "run"))
    return found


def _recorded(file: str | None, run_id: RunId) -> RecordedRun | None:
    """Return a run as the record beside the log has it, if it can be read."""

    async def find(record: SqliteRunRecord) -> Result[RecordedRun | None, RunLogFailed]:
        read: Result[Any, Any] = await attempt(record.find(run_id))
        return Success(read.value_or(None))  # it may be encrypted with another key

    return ask_record(_place(file), find) if _can_read_record(_place(file)) else None


def _as_recorded(
    file: str | None, runs: tuple[LoggedRun, ...]
) -> tuple[tuple[LoggedRun, ...], dict[RunId, Json]]:
    """Return the runs, each unended one with its state in the record beside the log.

    If the record cannot be read, says so, or returns a field for the documents of the runs.
    """
    unended = [each.run_id for each in runs if each.status in ("running", "interrupted", "failed")]
    states = states_in(_place(file), unended)
    if isinstance(states, Failure):
        problem = f"The states of runs are those of the run log. {states.failure()}"
        if not (output.is_json() and runs):
            output.tell(f"warning: {problem}")
        return runs, {each.run_id: problem for each in runs}
    known = states.unwrap()
    return tuple(evolve(each, status=known.get(each.run_id, each.status)) for each in runs), {}


def _document(run: LoggedRun, problems: dict[RunId, Json]) -> JsonObject:
    """Return the document of a run, and why its state may be another one."""
    problem = {"state_problem": problems[run.run_id]} if run.run_id in problems else {}
    return {**run_document(run), **problem}


def _run_and_events(
    file: str | None, run: str, *, after: int = 0
) -> tuple[LoggedRun, tuple[LoggedEvent, ...]]:
    found = _find_run(file, run)
    if _is_record_alone(_place(file)):
        return found, ()
    return found, _ask(file, lambda log: log.events(found.run_id, after))


def _heading(run: LoggedRun) -> str:
    told = [f"run {run.run_id} of {run.agent}, {run.started_at:%Y-%m-%d %H:%M:%S} UTC: {run.status}"]
    names = {"session": run.session, "user": run.user, "parent": run.parent, "tags": ", ".join(run.tags)}
    told += [f"  {name}: {value}" for name, value in names.items() if value]
    told.append(f"  task: {output.one_line(run.task)}")
    if run.ended_at is not None:
        took = f"{run.duration_s:.2f} s" if run.duration_s is not None else ""
        calls = counted(run.model_calls, "model call")
        told.append(f"  {took}, {calls}, {run.tokens} tokens, {dollars(run.cost_usd)}")
        told.append(f"  ended by {run.terminated_by}: {output.one_line(run.detail)}")
    return "\n".join(told)


def _print_event(each: LoggedEvent, run: LoggedRun, *, requests: bool, results: bool) -> None:
    after = (each.at - run.started_at).total_seconds()
    event = event_of(each, run)
    line = None if event is None else describe(event)
    if line is not None:
        typer.echo(output.printable(f"{after:9.3f}  {line.kind:9} {line.text}"))
    elif event is None:
        typer.echo(output.printable(f"{after:9.3f}  {each.kind} {each.subject}"))
    if requests and each.kind == "ModelCallStarted":
        typer.echo(output.printable(json.dumps(each.body.get("request"), ensure_ascii=False, indent=2)))
    if results and each.kind == "ToolCallCompleted" and each.body.get("result") is not None:
        typer.echo(output.printable(json.dumps(each.body["result"], ensure_ascii=False, indent=2)))
