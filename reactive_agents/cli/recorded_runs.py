"""``reactive-agents runs`` and ``worker``: continue and steer recorded runs.

The commands belong to the group of ``cli/runs.py``, which shows past runs.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio
import typer
from attrs import evolve
from returns.result import Success

from reactive_agents.adapters.system import SystemClock, cancel_on_sigterm
from reactive_agents.adapters.telemetry.console import SilentView, progress_view
from reactive_agents.agent import ReactiveAgent
from reactive_agents.agent.errors import AgentError
from reactive_agents.agent.runs import exported, give_order, settle_question
from reactive_agents.cli import output
from reactive_agents.cli import run as running
from reactive_agents.cli.output import argument, option
from reactive_agents.cli.runs import ask_record, check_record, runs
from reactive_agents.core.codec import from_json
from reactive_agents.core.config import QueueEngineName
from reactive_agents.core.errors import InvalidConfig, RunInterrupted, RunRefused
from reactive_agents.core.events import AgentEvent, TaskCompleted, TaskFailed, TaskStarted
from reactive_agents.core.governance import ApprovalDecision, described_request
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import Json, JsonObject, abbreviated
from reactive_agents.core.run_record import RunOrder
from reactive_agents.core.texts import escaped

_T = TypeVar("_T")

RecordOption = Annotated[str, option("--runs FILE_OR_URL", "The record: a file, or a Postgres URL.")]
AgentRecordOption = Annotated[
    str | None,
    option(
        "--runs FILE_OR_URL",
        "The record: a file, or a Postgres URL. An agent that is built in Python names it itself.",
    ),
]
RunArgument = Annotated[str, argument("RUN", "The id of the run.")]
KeyOption = Annotated[str | None, option("--key KEY", "The id of the question; optional if only one waits.")]
ByOption = Annotated[str, option("--by NAME", "Who decides, for the audit log; not for the model.")]
OrderedByOption = Annotated[str, option("--by NAME", "Who asks for it, for the audit log.")]
COMMAND_LINE = "the command line"
_LATER = "the next run, recovery or worker of its agent does that"
StepOption = Annotated[int, option("--at STEP", "The step to run again.", min=1)]


@runs.command()
def questions(file: RecordOption) -> None:
    """List requests to people: approvals, questions, calls in doubt."""
    found = ask_record(file, lambda record: record.questions())
    rows = (
        (
            each.run_id,
            each.key,
            each.kind,
            f"{each.asked_at:%Y-%m-%d %H:%M}",
            each.user or "",
            each.parent or "",
            _asked(each.request) if each.kind != "unreadable" else "encrypted with another key",
        )
        for each in found
    )
    output.print_found(found, ("run", "key", "kind", "asked", "user", "parent", "what"), rows)


@runs.command()
def cancel(
    run: RunArgument,
    file: AgentRecordOption = None,
    by: OrderedByOption = COMMAND_LINE,
    config: running.ConfigOption = None,
    allow_tools_from: output.AllowedModules = None,
) -> None:
    """Cancel a run in any process.

    With its agent, a run whose process is gone is entered in the cost and the audit log at once.
    """
    if config is not None:
        agent = _recording_agent(file, config, None, None, allow_tools_from)
        _with(agent, lambda: agent.runs.cancel(run, by=by))
        output.report({"run_id": run, "order": "cancel"}, f"Cancelled {run}.")
        return
    if file is None:
        raise output.bad_usage("--runs", "nothing", "the file or the address of the record")
    _order(file, run, "cancel", "Cancelled", by)


@runs.command()
def stop(
    run: RunArgument,
    file: RecordOption,
    reason: Annotated[str, option("--reason TEXT", "A sentence for the result.")] = "",
    by: OrderedByOption = COMMAND_LINE,
) -> None:
    """Stop a run in any process, with its partial result."""
    _order(file, run, "stop", "Stopped", by, reason)


@runs.command()
def pause(run: RunArgument, file: RecordOption, by: OrderedByOption = COMMAND_LINE) -> None:
    """Pause a run in any process, before its next step."""
    _order(file, run, "pause", "Paused", by)


@runs.command()
def unpause(run: RunArgument, file: RecordOption, by: OrderedByOption = COMMAND_LINE) -> None:
    """Continue a paused run."""
    _order(file, run, "", "Resumed", by)


@runs.command()
def approve(
    run: RunArgument,
    file: RecordOption,
    key: KeyOption = None,
    reason: Annotated[str, option("--reason TEXT", "For the audit log.")] = "",
    arguments: Annotated[
        str | None, option("--arguments JSON", "All arguments of the call, in place of the model's.")
    ] = None,
    by: ByOption = "",
) -> None:
    """Approve a waiting call, or approve repeating a call in doubt."""
    edited = None if arguments is None else from_json(arguments, JsonObject).value_or(None)
    if arguments is not None and edited is None:
        raise output.bad_usage("--arguments", abbreviated(arguments), "a JSON object")
    _settle(file, run, key, ApprovalDecision(True, reason, edited, by))


@runs.command()
def deny(
    run: RunArgument,
    file: RecordOption,
    key: KeyOption = None,
    reason: Annotated[str, option("--reason TEXT", "For the model.")] = "",
    by: ByOption = "",
) -> None:
    """Deny a waiting call, or deny repeating a call in doubt."""
    _settle(file, run, key, ApprovalDecision(False, reason, by=by))


@runs.command()
def answer(
    run: RunArgument,
    text: Annotated[str, argument("TEXT", "The answer.")],
    file: RecordOption,
    key: KeyOption = None,
) -> None:
    """Answer a question, or give the result of an external call or a call in doubt."""
    body: JsonObject = {"value": text, "error": "", "missing": ""}
    _settle(file, run, key, body)


@runs.command()
def prune(
    file: RecordOption,
    before: output.OlderThan,
) -> None:
    """Delete runs that ended long ago."""
    deleted = ask_record(file, lambda record: record.delete(before=before), read_only=False)
    output.report({"deleted": deleted}, f"Deleted {deleted} runs.")


@runs.command()
def schedules(file: RecordOption) -> None:
    """List the schedules of all agents."""
    found = ask_record(file, lambda record: record.schedules())
    rows = (
        (
            each.name,
            each.agent_id,
            f"{each.cron} ({each.timezone})",
            each.queue,
            f"{each.next_at:%Y-%m-%d %H:%M:%S}",
            output.one_line(each.task.input),
        )
        for each in found
    )
    headings = ("schedule", "agent", "times", "queue", "next", "task")
    output.print_found(found, headings, rows)


# --- with the agent -----------------------------------------------------------------------------------------


def _recording_agent(
    file: AgentRecordOption = None,
    config: running.ConfigOption = None,
    model: running.ModelOption = None,
    tools: running.ToolsOption = None,
    allow_tools_from: output.AllowedModules = None,
) -> ReactiveAgent:
    """Return the agent whose runs are in an existing record."""
    if not output.is_python_name(config):
        check_record(file or "")
    return _agent(file, config, model, tools, allow_tools_from)


RecordingAgent = Annotated[ReactiveAgent, output.Options(_recording_agent)]


@runs.command()
def resume(
    run: RunArgument,
    agent: RecordingAgent,
    accept_changes: Annotated[
        bool, option("--accept-changes", "Accept another version of the agent.")
    ] = False,
) -> None:
    """Continue a run, or print its recorded result."""
    known = _with(agent, lambda: agent.runs.find(run))
    view = SilentView() if output.is_json() else progress_view(sys.stderr)
    raise typer.Exit(
        running.run_task(Success(agent), known.task, view, run_id=run, accept_changes=accept_changes)
    )


@runs.command()
def steps(run: RunArgument, file: RecordOption) -> None:
    """List the recorded steps of a run: model answers and tool results."""
    from reactive_agents.engine.replay import recorded_steps

    entries = ask_record(file, lambda record: record.entries(RunId(run)))
    if not entries:
        raise output.fail(RunRefused(RunId(run), "is not in the record, or has no steps"))
    found = recorded_steps(entries)
    rows = ((str(each.number), each.kind, each.name, output.one_line(each.text)) for each in found)
    output.print_found(found, ("step", "kind", "name", "text"), rows, right=("step",))


@runs.command()
def recording(run: RunArgument, file: RecordOption) -> None:
    """Print a run as JSON for ``testing.RecordedRunPlayer``."""
    output.as_json.set(True)
    known = ask_record(file, lambda record: record.find(RunId(run)))
    if known is None:
        raise output.fail(RunRefused(RunId(run), "is not in the record"))
    entries = ask_record(file, lambda record: record.entries(RunId(run)))
    output.print_json({"run_id": run, "task": known.task.input, "entries": exported(entries)})


@runs.command()
def replay(
    run: RunArgument,
    agent: RecordingAgent,
    until: Annotated[int | None, option("--until STEP", "Stop after this step.", min=1)] = None,
) -> None:
    """Replay a run from its record, without model and tools.

    Exits with 1 if the replay differs.
    """
    durability = agent.container.settings().durability
    if durability is not None:  # the agent would bring an older record forward
        ask_record(durability.path, lambda record: record.entry(RunId(run), ""))
    done = _with(agent, lambda: agent.runs.replay(run, until=until))
    document: Json = {"run_id": run, "difference": done.difference, "step": done.step}
    told = f"Differs in step {done.step}: {done.difference}" if done.difference else "The replay is equal."
    output.report(document, told)
    raise typer.Exit(output.ExitCode.FAILED if done.difference else output.ExitCode.COMPLETED)


@runs.command()
def fork(
    run: RunArgument,
    agent: RecordingAgent,
    at: StepOption,
    fork_model: Annotated[str | None, option("--with-model M", "The model from then on.")] = None,
    instructions: Annotated[str | None, option("--instructions TEXT", "Instructions from then on.")] = None,
    message: Annotated[str | None, option("--message TEXT", "A message from then on.")] = None,
    tool_result: Annotated[str | None, option("--tool-result TEXT", "The result of the step.")] = None,
    into: Annotated[str | None, option("--run-id ID", "Id of the new run.")] = None,
) -> None:
    """Create a run from the record of another up to a step; ``resume`` runs it."""
    made = _with(
        agent,
        lambda: agent.runs.fork(
            run,
            at=at,
            into=into,
            model=fork_model,
            instructions=instructions,
            message=message,
            tool_result=... if tool_result is None else tool_result,
        ),
    )
    output.report({"run_id": made}, made)


@runs.command()
def schedule(
    name: Annotated[str, argument("NAME", "Of the schedule.")],
    cron: Annotated[str, argument("CRON", "Its times.")],
    task: Annotated[str, argument("TASK", "The task.")],
    file: AgentRecordOption = None,
    config: running.ConfigOption = None,
    timezone: Annotated[str, option("--timezone ZONE", "Of the times.")] = "UTC",
    queue: Annotated[str, option("--queue NAME", "Its queue.")] = "default",
    allow_tools_from: output.AllowedModules = None,
) -> None:
    """Let workers run a task on a cron schedule, such as '0 2 * * *'."""
    agent = _agent(file, config, None, None, allow_tools_from)
    agent.runs.ensure_worker = lambda *_: None  # type: ignore[method-assign]
    _with(agent, lambda: agent.schedule(name, cron, task, timezone=timezone, queue=queue))
    output.report({"schedule": name}, f"Scheduled {name}.")


@runs.command()
def unschedule(
    name: Annotated[str, argument("NAME", "Of the schedule.")],
    file: AgentRecordOption = None,
    config: running.ConfigOption = None,
    allow_tools_from: output.AllowedModules = None,
) -> None:
    """Delete a schedule of an agent."""
    agent = _recording_agent(file, config, None, None, allow_tools_from)
    _with(agent, lambda: agent.runs.unschedule(name))
    output.report({"schedule": name}, f"Deleted the schedule {name}.")


def worker(
    config: Annotated[
        Path, argument("AGENT", "The agent's configuration, or module:name of one built in Python.")
    ],
    file: AgentRecordOption = None,
    queue: Annotated[str, option("--queue NAME", "Its queue.")] = "default",
    concurrency: Annotated[int, option("--concurrency N", "Most concurrent runs; 4 by default.", min=1)] = 4,
    total: Annotated[int | None, option("--total N", "The same for all workers together.", min=1)] = None,
    rate: Annotated[
        str | None, option("--rate N/SECONDS", "Most runs that all workers start in that time.")
    ] = None,
    finish: Annotated[
        float, option("--finish SECONDS", "For steps on SIGTERM; 10 by default.", parser=output.SECONDS)
    ] = 10.0,
    until_idle: Annotated[bool, option("--until-idle", "End when nothing is due.")] = False,
    engine: Annotated[
        QueueEngineName, option("--engine NAME", "Who assigns the runs: record or dbos.")
    ] = "record",
    allow_tools_from: output.AllowedModules = None,
) -> None:
    """Run queued and interrupted runs."""
    agent = _agent(file, config, None, None, allow_tools_from, engine=engine)
    ended: Counter[str] = Counter()
    under_way: dict[RunId, None] = {}

    def count(event: AgentEvent) -> None:
        if isinstance(event, TaskStarted) and event.parent_run_id is None:
            under_way[event.run_id] = None
        elif isinstance(event, TaskCompleted):
            under_way.pop(event.run_id, None)
            ended[event.result.status] += 1
        elif isinstance(event, TaskFailed) and not isinstance(event.error, RunInterrupted | RunRefused):
            under_way.pop(event.run_id, None)
            ended[event.status] += 1

    agent.subscribe(count)

    async def work() -> tuple[RunId, ...]:
        with cancel_on_sigterm():
            try:
                return await agent.runs.work(
                    queue,
                    concurrency=concurrency,
                    total=total,
                    rate=None if rate is None else _rate(rate),
                    finish_s=finish,
                    until_idle=until_idle,
                )
            except anyio.get_cancelled_exc_class():
                told(tuple(under_way))  # before the signal ends the process
                raise

    def told(left: Sequence[RunId]) -> None:
        if output.is_json():
            output.print_json({"queue": queue, "ended": {**ended}, "left": [*left]})

    left = _with(agent, work)
    told(left)
    if left:
        raise typer.Exit(output.ExitCode.PARTIAL)


def _rate(text: str) -> tuple[int, float]:
    runs_, _, seconds = text.partition("/")
    try:
        return int(runs_), float(seconds)
    except ValueError:
        raise AgentError(InvalidConfig("--rate", repr(text), "N/SECONDS, such as 100/60")) from None


def _agent(
    file: str | None,
    config: Path | None,
    model: str | None,
    tools: str | None,
    allow_tools_from: str | None,
    *,
    engine: QueueEngineName = "record",
) -> ReactiveAgent:
    if output.is_python_name(config):
        dbos = engine if engine == "dbos" else None
        return running.python_agent(
            config, runs=file, model=model, tools=tools, allow_tools_from=allow_tools_from, engine=dbos
        )
    if file is None:
        raise output.bad_usage("--runs", "nothing", "the file or the address of the record")
    read = output.value_or_exit(running.read_config_file(config, allow_tools_from))
    configured = running.durable(running.adjusted(read, model, tools=tools), file)
    if engine == "dbos" and configured.durability is not None:
        configured = evolve(configured, durability=evolve(configured.durability, engine="dbos"))
    return output.value_or_exit(running.build_agent(configured, SilentView(), config))


def _with(agent: ReactiveAgent, body: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    async def run() -> _T:
        async with aclosing(agent):
            return await body()

    try:
        return anyio.run(run)
    except AgentError as error:
        raise output.fail(error.error) from None


def _order(file: str, run: str, order: RunOrder, told: str, by: str, reason: str = "") -> None:
    ask_record(
        file,
        lambda record: give_order(record, RunId(run), order, SystemClock(), by, reason),
        read_only=False,
    )
    known = ask_record(file, lambda record: record.find(RunId(run))) if order in ("stop", "cancel") else None
    is_left = known is not None and known.status == "open" and not known.is_held and order == "stop"
    later = " No process has it: it ends so when runs resume or a worker continues it." if is_left else ""
    if known is not None and known.owes:
        later = f" It is not yet in {', '.join(known.owes)}: {_LATER}."
    output.report({"run_id": run, "order": order}, f"{told} {run}.{later}")


def _settle(file: str, run: str, key: str | None, given: JsonObject | ApprovalDecision) -> None:
    settled = ask_record(
        file,
        lambda record: settle_question(record, RunId(run), key, given, SystemClock.now()),
        read_only=False,
    )
    known = ask_record(file, lambda record: record.find(RunId(run)))
    is_held = known is not None and known.is_held
    told = "" if is_held else " No process continues the run now: runs resume or a worker does."
    document: JsonObject = {"run_id": run, "key": settled.key, "is_held": is_held}
    output.report(document, f"Settled {settled.key} of {run}.{told}")


def _asked(request: JsonObject) -> str:
    """Return a request in full, as the person who decides has to see it."""
    if "text" in request:
        question = (request["text"], *_texts(request.get("options")))
        return escaped(" / ".join(" ".join(str(each).split()) for each in question))
    if "risk" not in request:  # an external call
        return escaped(
            f"{request.get('tool_name')} {json.dumps(request.get('arguments'), ensure_ascii=False)}"
        )
    return described_request(
        str(request.get("tool_name")),
        request.get("arguments"),
        str(request["risk"]),
        _texts(request.get("copied")),
        str(request.get("notice") or ""),
    )


def _texts(given: Json) -> list[str]:
    return [str(each) for each in given] if isinstance(given, list) else []
