"""``reactive-agents run``: run an agent on one task."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast
from urllib.parse import urlsplit

import anyio
import attrs
import typer
from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.requests import LocalRequestDesk
from reactive_agents.adapters.system import default_run_log, end_on_sigterm_after
from reactive_agents.adapters.telemetry.console import SilentView, progress_view
from reactive_agents.adapters.tools.builtin import builtin_tools
from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.agent import AgentConfig, ReactiveAgent, ReactiveAgents, read_config
from reactive_agents.agent.assembly import assemble_agent
from reactive_agents.agent.config import name_model, read_mcp_servers
from reactive_agents.agent.description import AgentComponents, DeskOptions
from reactive_agents.agent.run_options import RunOptions, TaskInput, TaskOptions
from reactive_agents.cli import output
from reactive_agents.cli.output import argument, option
from reactive_agents.cli.sessions import SessionOption, SessionsOption, UserOption, default_sessions_file
from reactive_agents.core.codec import encode
from reactive_agents.core.config import (
    IN_PROCESS,
    DurabilityConfig,
    ModelConfig,
    ReasoningConfig,
    RunLogConfig,
    SessionsConfig,
)
from reactive_agents.core.content import Content, part_of_file
from reactive_agents.core.errors import (
    ConfigErrors,
    InvalidConfig,
    RunCancelled,
    RunInterrupted,
    RuntimeErrors,
    root_cause,
)
from reactive_agents.core.events import TaskCompleted, TaskFailed
from reactive_agents.core.json import JsonObject, without_surrogates
from reactive_agents.core.results import ReasoningStatus
from reactive_agents.core.tasks import Task, TaskResult
from reactive_agents.event_loop import schedule_on_this_loop
from reactive_agents.kernel.prompt import fence

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent  # with those of personas

DEFAULT_MODEL = "offline"
LONGEST_WAIT_S = 7 * 86_400.0
"""Seconds that a recorded run waits for an approval from another process."""

EXIT_CODES: dict[ReasoningStatus, output.ExitCode] = {
    "completed": output.ExitCode.COMPLETED,
    "failed": output.ExitCode.FAILED,
    "partial": output.ExitCode.PARTIAL,
    "abstained": output.ExitCode.ABSTAINED,
}


ModelOption = Annotated[
    str | None,
    option(
        "--model -m M",
        "provider/model, or a provider for its default model. 'offline', the default, needs neither "
        "key nor network: it can only look things up and quote them.",
    ),
]
StrategyOption = Annotated[
    str | None,
    option(
        "--strategy -s S",
        "How the agent reasons: 'reactive', the default, 'plan-execute-reflect', 'reflexion', "
        "'tree-of-thought', 'adaptive' to let it choose for each task, or 'direct' for no reasoning.",
    ),
]
ToolsOption = Annotated[
    str | None,
    option(
        "--tools -t A,B",
        "Built-in tools (calculator, file-list, file-search, file-read, file-write, http-get, "
        "web-search, shell, or 'all') and module:function for custom ones. None by default.",
    ),
]
WorkspaceOption = Annotated[
    Path | None, option("--workspace -w DIR", "The directory of the file tools; the current one by default.")
]
IterationsOption = Annotated[
    int | None,
    option("--max-iterations -n N", "The maximum number of turns of the model.", min=1),
]
ConfigOption = Annotated[
    Path | None,
    option(
        "--config -c FILE",
        "An agent's configuration, .toml or .json, which the other options override; or module:name of "
        "an agent that is built in Python.",
    ),
]


PromptOption = Annotated[str | None, option("--system-prompt TEXT", "The agent's instructions.")]
McpOption = Annotated[
    list[str] | None,
    option(
        "--mcp SERVER",
        "An MCP server whose tools the agent has: a command, or an http address; NAME=… names it. Or a "
        "file mcp.json with several. May be given several times.",
    ),
]
FileOption = Annotated[
    list[Path] | None,
    option(
        "--file -f FILE",
        "A file that is put into the task: a text, an image, audio or a document. May be given several "
        "times.",
    ),
]


@frozen
class DescribedAgent:
    """An agent in a file, or of ``module:name``, changed by the options of a command."""

    model: ModelOption = None
    strategy: StrategyOption = None
    tools: ToolsOption = None
    workspace: WorkspaceOption = None
    max_iterations: IterationsOption = None
    path: ConfigOption = None
    system_prompt: PromptOption = None
    mcp: McpOption = None
    base_url: output.ServerOption = None
    allow_tools_from: output.AllowedModules = None

    @property
    def config(self) -> Result[AgentConfig, ConfigErrors]:
        """The configuration in the file, changed by the options."""
        changes = self.strategy, self.tools, self.workspace, self.max_iterations, self.system_prompt
        return (
            read_config_file(self.path, self.allow_tools_from)
            .map(lambda known: adjusted(known, self.model, *changes))
            .map(lambda known: known if self.base_url is None else at_address(known, self.base_url))
            .bind(lambda known: with_mcp_servers(known, self.mcp or ()))
        )

    def from_python(self, view: SilentView | None = None, **of_files: object) -> ReactiveAgent | None:
        """Return the agent that was built in Python; ``None`` for one of a file.

        Args:
            view: asks the person at the terminal what the agent itself asks nobody.
            of_files: further options that are for files.
        """
        if self.path is None or not output.is_python_name(self.path):
            return None
        options = attrs.asdict(evolve(self, path=None), recurse=False)
        return python_agent(self.path, view, **options, **of_files)


def python_agent(place: object, view: SilentView | None = None, **of_files: object) -> ReactiveAgent:
    """Return the agent of ``module:name``; exit if there is none."""
    agent = output.from_python(place, ReactiveAgent, ReactiveAgents, **of_files)
    if not agent.has_deps:
        expected = "an agent whose builder has with_deps(function), since its runs take dependencies"
        raise output.bad_usage("AGENT", repr(str(place)), expected)
    if view is not None and sys.stdin.isatty():
        governance = agent.container.governance
        for found in (governance.approver(), governance.desk()):
            desk = found.value_or(None)
            if isinstance(desk, LocalRequestDesk):
                desk.ask_here(view.ask, view.answer, view.execute)
    return agent


def tell_unkept(agent: ReactiveAgent) -> None:
    """Say that no later command can continue a conversation."""
    if agent.config is not None and agent.config.sessions.path == IN_PROCESS:
        output.tell("The conversation ends with this command: with_sessions(path) of the agent keeps it.")


AgentOptions = Annotated[DescribedAgent, output.Options(DescribedAgent)]


def run(
    described: AgentOptions,
    words: Annotated[
        list[str] | None,
        argument(
            "[AGENT] [TASK]",
            "The task for the agent; '-', or none, reads it from standard input. Before it, as for "
            "--config, the agent's configuration, or module:name of one built in Python.",
        ),
    ] = None,
    file: FileOption = None,
    runs: Annotated[
        str | None, option("--runs FILE_OR_URL", "Record the run in this place, so that it can be continued.")
    ] = None,
    run_id: Annotated[
        str | None,
        option("--run-id ID", "The run's id; with --runs, a repeated id does not repeat the work."),
    ] = None,
    session: SessionOption = None,
    sessions: SessionsOption = None,
    user: UserOption = None,
    quiet: Annotated[bool, option("--quiet -q", "Print the answer only.")] = False,
) -> None:
    """Run an agent on one task.

    Progress goes to standard error, the answer to standard output.
    """
    *named, task = words or (None,)
    if len(named) > 1 or (named and described.path is not None):
        wrong = "one task, in quotation marks, and one agent before it"
        raise output.bad_usage("TASK", f"{len(named) + 1} arguments", wrong)
    if named:
        described = evolve(described, path=Path(str(named[0])))
    view = SilentView() if quiet or output.is_json() else progress_view(sys.stderr)
    output.check_names(run_id=run_id, session=session, user=user)
    whose: TaskOptions = {"session": session, "user": user}
    told = task_text(task).bind(lambda text: with_files(text, file or ()))
    agent = described.from_python(view, runs=runs, sessions=sessions)
    if agent is not None:
        if session is not None:
            tell_unkept(agent)
        own: Result[ReactiveAgent, ConfigErrors] = Success(agent)
        built = told.bind(lambda _: own)
        raise typer.Exit(run_task(built, told.value_or(""), view, whose, run_id=run_id))
    configured = described.config.map(lambda known: durable(known, runs))
    if session is not None or sessions is not None:
        configured = configured.map(lambda known: with_sessions(known, sessions))
    built = told.bind(lambda _: configured).bind(lambda known: build_agent(known, view, described.path))
    raise typer.Exit(run_task(built, told.value_or(""), view, whose, run_id=run_id))


def task_text(task: str | None) -> Result[str, ConfigErrors]:
    """Return the task, read from standard input for ``-`` and ``None``.

    Fails if it is blank or not UTF-8, and if standard input is a terminal.
    """
    if task is None and sys.stdin.isatty():
        return Failure(InvalidConfig("task", "none", "a task, or one on standard input"))
    text = sys.stdin.read() if task in (None, "-") else task
    if text is None or not text.strip():
        return Failure(InvalidConfig("task", repr(text or ""), "a task that is not blank"))
    if text != without_surrogates(text):
        return Failure(InvalidConfig("task", "bytes of another encoding", "a text in UTF-8"))
    return Success(text)


_LARGEST_TEXT: Final = 1_000_000


def with_files(text: str, files: Sequence[Path]) -> Result[TaskInput, ConfigErrors]:
    """Return a task with text files appended, and other files as parts."""
    parts: list[Content] = []
    for path in files:
        try:
            data = path.read_bytes()
        except OSError as error:
            return Failure(InvalidConfig("--file", repr(str(path)), f"a readable file ({error.strerror})"))
        part = None if (said := _text_of(data)) is not None else part_of_file(path.name, data)
        if said is not None and len(said) <= _LARGEST_TEXT:
            said = f"name: {path.name}\n\n{said}"
            text = f"{text}\n\nA file:\n{fence('file', said)}"
        elif part is not None:
            parts.append(part)
        else:
            expected = f"UTF-8 text of at most {_LARGEST_TEXT} characters, an image, audio or a document"
            return Failure(InvalidConfig("--file", repr(str(path)), expected))
    return Success([text, *parts] if parts else text)


def _text_of(data: bytes) -> str | None:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text or data.startswith(b"%PDF") else text


_NAMED: Final = re.compile(r"([A-Za-z0-9_-]{1,32})=(.+)", re.DOTALL)


def with_mcp_servers(config: AgentConfig, servers: Sequence[str]) -> Result[AgentConfig, ConfigErrors]:
    """Return the configuration with MCP servers added by command or URL."""
    known = list(config.mcp_servers)
    for given in servers:
        if given.endswith(".json"):
            listed = read_mcp_servers(given)
            if isinstance(listed, Failure):
                return Failure(listed.failure())
            known += listed.unwrap()
            continue
        named = _NAMED.fullmatch(given)
        name, place = (named[1], named[2]) if named is not None else ("", given)
        try:
            if re.match("https?://", place):
                shown = (urlsplit(place).hostname or "server").partition(".")[0]
                server = McpServer(name or _free_name(shown, known), url=place)
            else:
                program, *arguments = shlex.split(place) or [""]
                made = name or _free_name(Path(program).stem, known)
                server = McpServer(made, command=program, args=tuple(arguments))
        except ValueError as error:  # the value is not shown: an address may hold a key
            expected = f"a command, or an http address ({error})"
            return Failure(InvalidConfig("--mcp", f"a text of {len(given)} characters", expected))
        known.append(server)
    names = [each.name for each in known]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return Failure(InvalidConfig("--mcp", repr(twice), "each server name once"))
    return Success(evolve(config, mcp_servers=tuple(known)))


def _free_name(wanted: str, known: Sequence[McpServer]) -> str:
    base = re.sub("[^A-Za-z0-9_-]+", "-", wanted).strip("-")[:28] or "server"
    taken = {each.name for each in known}
    names = (base if number == 1 else f"{base}-{number}" for number in count(1))
    return next(name for name in names if name not in taken)


def read_config_file(path: Path | None, allow_tools_from: str | None) -> Result[AgentConfig, ConfigErrors]:
    """Return the configuration in a file; by default that of a reactive agent."""
    if path is None:
        return Success(AgentConfig(reasoning=ReasoningConfig()))
    return read_config(path, allow_tools_from=output.names(allow_tools_from))


def adjusted(
    config: AgentConfig,
    model: str | None = None,
    strategy: str | None = None,
    tools: str | None = None,
    workspace: Path | None = None,
    max_iterations: int | None = None,
    system_prompt: str | None = None,
) -> AgentConfig:
    """Return the configuration with the options; without a model, the offline one."""
    changes: dict[str, Any] = {}
    if model is not None or config.model == ModelConfig():
        changes["model"] = name_model(config.model, DEFAULT_MODEL if model is None else model)
    if strategy is not None:
        changes["reasoning"] = evolve(config.reasoning or ReasoningConfig(), default_strategy=strategy)
    if tools is not None:
        names = output.names(tools)
        changes["tools"] = tuple(builtin_tools()) if names == ("all",) else names
    if workspace is not None:
        changes["workspace"] = str(workspace)
    if max_iterations is not None:
        changes["max_iterations"] = max_iterations
    if system_prompt is not None:
        changes["system_prompt"] = system_prompt
    return evolve(config, **changes)


def at_address(config: AgentConfig, base_url: str) -> AgentConfig:
    """Return the configuration with the model's server, and a key for it."""
    known = config.model
    key = known.api_key or output.key_of_server(known.model or known.provider)
    return evolve(config, model=evolve(known, base_url=base_url, api_key=key))


def with_sessions(config: AgentConfig, path: str | None) -> AgentConfig:
    """Return the configuration with conversations in a file, by default the user's."""
    if path is None:
        known = config.sessions.path != IN_PROCESS
        return config if known else evolve(config, sessions=SessionsConfig(str(default_sessions_file())))
    return evolve(config, sessions=SessionsConfig(_a_place(path, "--sessions")))


def durable(config: AgentConfig, runs: str | None) -> AgentConfig:
    """Return the configuration with durable runs in a place, if one is given."""
    if runs is None:
        return config
    place = _a_place(runs, "--runs")
    known = config.durability or DurabilityConfig(place)
    return evolve(config, durability=evolve(known, path=place, recover=False))


def _a_place(given: str, option: str) -> str:
    if not given:  # a variable of the shell that is not set
        raise typer.BadParameter("got '', expected a file or an address of Postgres.", param_hint=option)
    return given


def build_agent(
    config: AgentConfig, view: SilentView, *files: Path | None, desk: DeskOptions | None = None
) -> Result[ReactiveAgent, ConfigErrors]:
    """Return the agent; on a terminal, it asks the user for approvals and answers.

    Its runs are logged in the user's state directory, unless the configuration names another file or
    ``REACTIVE_AGENTS_RUN_LOG`` is ``off``.

    Args:
        files: the configuration and other files that no tool of the agent may write.
        desk: the desk for requests to people; by default the terminal, if there is one.
    """
    if config.run_log is None and os.environ.get("REACTIVE_AGENTS_RUN_LOG") != "off":
        file_of_runs = default_run_log()
        recorded = config.durability
        beside = str(file_of_runs) if recorded is None or "://" in recorded.path else recorded.path
        config = evolve(config, run_log=RunLogConfig(beside))
    if desk is None:
        there = sys.stdin.isatty()
        desk = DeskOptions(
            there, view.ask, question_handler=view.answer, call_handler=view.execute, attended=there
        )
        if config.durability is not None and not there:  # ``runs approve`` and ``runs answer`` may come
            desk = DeskOptions(True, approval_timeout_s=LONGEST_WAIT_S)
    protected = tuple(file.resolve() for file in files if file is not None)
    return assemble_agent(config, AgentComponents(tools=config.tools, desk=desk, config_files=protected))


def run_task(
    built: Result[ReactiveAgent, ConfigErrors],
    task: TaskInput | Task,
    view: SilentView,
    whose: TaskOptions | None = None,
    *,
    run_id: str | None = None,
    accept_changes: bool = False,
) -> output.ExitCode:
    """Run the task on the agent, print its outcome and return the exit code."""
    if isinstance(built, Failure):
        error = built.failure()
        _print_failure(error_document(error), error.message)
        return output.ExitCode.BAD_USAGE
    agent = built.unwrap()
    new_task = agent.new_task(task, **whose or {})
    ends: list[TaskCompleted | TaskFailed] = []
    begun: set[str] = set()
    try:
        anyio.run(_run_to_end, agent, new_task, view, ends, begun, run_id, accept_changes)
    except KeyboardInterrupt:
        _print_interruption(new_task, ends, begun)
        return output.ExitCode.INTERRUPTED
    assert ends, "a run ends with TaskCompleted or TaskFailed"
    last = ends[-1]
    if isinstance(last, TaskFailed):
        document = failure_document(last, agent.agent_id)
        _print_failure(document, root_cause(last.error).message)
        return output.ExitCode.FAILED
    result = last.result
    if output.is_json():
        output.print_json(result_document(result))
        return EXIT_CODES[result.status]
    if result.output is not None:
        output.print_answer(result.output)
    if result.status != "completed":
        output.tell(f"{result.status}: {result.reason}")
    return EXIT_CODES[result.status]


async def _run_to_end(
    agent: ReactiveAgent,
    task: Task,
    view: SilentView,
    ends: list[TaskCompleted | TaskFailed],
    begun: set[str],
    run_id: str | None,
    accept_changes: bool,
) -> None:
    """Run the task; store its id and last event, even if the stream is abandoned."""
    options: RunOptions = {}
    if run_id is not None:
        options = {"run_id": run_id, "accept_changes": accept_changes}

    def keep(event: AgentEvent) -> None:
        if event.task_id != task.id and event.run_id != run_id:
            return
        begun.add(event.run_id)
        if isinstance(event, TaskCompleted | TaskFailed):
            ends.append(event)

    agent.subscribe(keep)
    schedule, scope = schedule_on_this_loop(), anyio.CancelScope()
    with end_on_sigterm_after(lambda: schedule(scope.cancel)):
        with scope, view:
            async with aclosing(agent):  # of which the command runs one task, and recovers no others
                async for event in agent.stream(task, **options):
                    view.show(event)
                    if not ends:
                        keep(event)  # a refusal is in the stream alone
        if scope.cancel_called:
            _print_interruption(task, ends, begun)


def _print_interruption(task: Task, ends: list[TaskCompleted | TaskFailed], begun: set[str]) -> None:
    if not output.is_json():
        typer.echo("Interrupted.", err=True)
        return
    match ends[-1:]:
        case [TaskCompleted(result=result)]:  # interrupted while the agent was closed
            output.print_json(result_document(result))
        case [TaskFailed() as failed]:
            output.print_json(failure_document(failed, task.agent_id))
        case _:  # a recorded run that can be continued under its id
            error: RuntimeErrors = RunCancelled(task.id, "bootstrap")
            for run_id in begun:
                error = RunInterrupted(run_id, "the command was interrupted.")
            output.print_json(error_document(error, kind=RuntimeErrors))


def _print_failure(document: JsonObject, message: str) -> None:
    if output.is_json():
        output.print_json(document)
    else:
        output.tell(f"error: {message}")


def result_document(result: TaskResult) -> JsonObject:
    """Return the JSON document of a run that has a result."""
    return {**cast(JsonObject, encode(result)), "error": None}


def failure_document(failed: TaskFailed, agent_id: str) -> JsonObject:
    """Return the JSON document of a run that failed with an error."""
    return {
        **error_document(failed.error, kind=RuntimeErrors),
        "task_id": failed.task_id,
        "run_id": failed.run_id,
        "agent_id": agent_id,
        "completed_at": encode(failed.at),
        "steps": encode(failed.steps),
        "metadata": encode(failed.metadata),
    }


def error_document(error: RuntimeErrors | ConfigErrors, *, kind: object = ConfigErrors) -> JsonObject:
    """Return an error before the run as JSON, with null for the fields of a run."""
    empty: JsonObject = dict.fromkeys(field.name for field in attrs.fields(TaskResult))
    return {
        **empty,
        "success": False,
        "status": "failed",
        "reason": error.message,
        "steps": [],
        "tool_results": {},
        "error": {**cast(JsonObject, encode(error, kind)), "message": error.message},
    }
