"""``reactive-agents run``: run an agent on one task."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, cast

import anyio
import attrs
import typer
from attrs import evolve
from returns.result import Failure, Result

from reactive_agents.adapters.telemetry.console import SilentView, View, progress_view
from reactive_agents.adapters.tools.builtin import builtin_tools
from reactive_agents.agent import AgentConfig, ReactiveAgent, read_config
from reactive_agents.agent.assembly import assemble_agent
from reactive_agents.agent.config import name_model
from reactive_agents.agent.description import AgentComponents, DeskOptions
from reactive_agents.agent.signals import cancel_on_sigterm
from reactive_agents.cli import output
from reactive_agents.core.codec import encode
from reactive_agents.core.config import ModelConfig, ReasoningConfig
from reactive_agents.core.errors import ConfigErrors, RunCancelled, RuntimeErrors, root_cause
from reactive_agents.core.events import AgentEvent, TaskCompleted, TaskFailed
from reactive_agents.core.json import JsonObject
from reactive_agents.core.results import ReasoningStatus
from reactive_agents.core.tasks import Task, TaskResult

DEFAULT_MODEL = "offline"

EXIT_CODES: dict[ReasoningStatus, output.ExitCode] = {
    "completed": output.ExitCode.COMPLETED,
    "failed": output.ExitCode.FAILED,
    "partial": output.ExitCode.PARTIAL,
    "abstained": output.ExitCode.ABSTAINED,
}


def _iterations(text: str) -> int:
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise typer.BadParameter(f"got {text!r}, expected an integer of 1 or more.")


ModelOption = Annotated[
    str | None,
    output.option(
        "--model",
        "-m",
        metavar="M",
        help="provider/model, or a provider for its default model. 'offline', the default, needs neither "
        "key nor network: it can only look things up and quote them.",
    ),
]
StrategyOption = Annotated[
    str | None,
    output.option(
        "--strategy",
        "-s",
        metavar="S",
        help="How the agent reasons: 'reactive', the default, 'plan-execute-reflect', 'reflexion', "
        "'tree-of-thought', 'adaptive' to let it choose for each task, or 'direct' for no reasoning.",
    ),
]
ToolsOption = Annotated[
    str | None,
    output.option(
        "--tools",
        "-t",
        metavar="A,B",
        help="Built-in tools (calculator, file-list, file-search, file-read, file-write, http-get, "
        "web-search, shell, or 'all') and module:function for custom ones. None by default.",
    ),
]
WorkspaceOption = Annotated[
    Path | None,
    output.option(
        "--workspace",
        "-w",
        metavar="DIR",
        help="The directory that file tools may not leave; the current one by default.",
    ),
]
IterationsOption = Annotated[
    int | None,
    output.option(
        "--max-iterations",
        "-n",
        metavar="N",
        parser=_iterations,
        help="The maximum number of turns of the model.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    output.option(
        "--config",
        "-c",
        metavar="FILE",
        help="An agent's configuration, .toml or .json; the other options override it.",
    ),
]


def run(
    task: Annotated[str, typer.Argument(help="The task for the agent.", show_default=False)],
    model: ModelOption = None,
    strategy: StrategyOption = None,
    tools: ToolsOption = None,
    workspace: WorkspaceOption = None,
    max_iterations: IterationsOption = None,
    config: ConfigOption = None,
    allow_tools_from: output.AllowedModules = None,
    as_json: output.JsonOption = False,
    quiet: Annotated[bool, output.option("--quiet", "-q", help="Print the answer and nothing else.")] = False,
) -> None:
    """Run an agent on one task.

    Progress goes to standard error, the answer to standard output.
    """
    configured = read_config_file(config, allow_tools_from).map(
        lambda known: override(known, model, strategy, tools, workspace, max_iterations)
    )
    view = SilentView() if quiet or as_json else progress_view(sys.stderr)
    built = configured.bind(lambda known: build_agent(known, view, config))
    raise typer.Exit(run_task(built, task, view, as_json=as_json))


def read_config_file(path: Path | None, allow_tools_from: str | None) -> Result[AgentConfig, ConfigErrors]:
    """Return the configuration of a file; without one, that of an agent that reasons."""
    source = AgentConfig(reasoning=ReasoningConfig()) if path is None else path
    return read_config(source, allow_tools_from=output.names(allow_tools_from))


def override(
    config: AgentConfig,
    model: str | None = None,
    strategy: str | None = None,
    tools: str | None = None,
    workspace: Path | None = None,
    max_iterations: int | None = None,
) -> AgentConfig:
    """Return the configuration with the given options.

    With the offline model if it has none.
    """
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
    return evolve(config, **changes)


def build_agent(config: AgentConfig, view: View, file: Path | None) -> Result[ReactiveAgent, ConfigErrors]:
    """Return the agent; on a terminal, its user is asked for approvals and answers.

    Args:
        config: of the agent.
        view: asks the user.
        file: the one of the configuration, which no tool of the agent may write.
    """
    there = sys.stdin.isatty()
    desk = DeskOptions(there, view.ask, question_handler=view.answer, attended=there)
    files = () if file is None else (file.resolve(),)
    return assemble_agent(config, AgentComponents(tools=config.tools, desk=desk, config_files=files))


def run_task(
    built: Result[ReactiveAgent, ConfigErrors], task: str, view: View, *, as_json: bool
) -> output.ExitCode:
    """Run the task on the agent, print its outcome and return the exit code."""
    if isinstance(built, Failure):
        error = built.failure()
        _print_failure(error_document(error), error.message, as_json=as_json)
        return output.ExitCode.BAD_USAGE
    agent = built.unwrap()
    new_task = agent.new_task(task)
    ends: list[TaskCompleted | TaskFailed] = []
    try:
        anyio.run(_run_to_end, agent, new_task, view, ends)
    except KeyboardInterrupt:
        _print_interruption(new_task, ends, as_json=as_json)
        return output.ExitCode.INTERRUPTED
    assert ends, "a run ends with TaskCompleted or TaskFailed"
    last = ends[-1]
    if isinstance(last, TaskFailed):
        document = failure_document(last, agent.agent_id)
        _print_failure(document, root_cause(last.error).message, as_json=as_json)
        return output.ExitCode.FAILED
    result = last.result
    if as_json:
        output.print_json(result_document(result))
        return EXIT_CODES[result.status]
    if result.output is not None:
        typer.echo(_shown(result.output))
    if result.status != "completed":
        typer.echo(output.printable(f"{result.status}: {result.reason}"), err=True)
    return EXIT_CODES[result.status]


async def _run_to_end(
    agent: ReactiveAgent, task: Task, view: View, ends: list[TaskCompleted | TaskFailed]
) -> None:
    """Run the task and keep its last event, also when the stream is abandoned."""

    def keep(event: AgentEvent) -> None:
        if isinstance(event, TaskCompleted | TaskFailed) and event.task_id == task.id:
            ends.append(event)

    agent.subscribe(keep)
    with cancel_on_sigterm(), view:
        async with agent:
            async for event in agent.stream(task):
                view.show(event)


def _print_interruption(task: Task, ends: list[TaskCompleted | TaskFailed], *, as_json: bool) -> None:
    if not as_json:
        typer.echo("Interrupted.", err=True)
        return
    match ends[-1:]:
        case [TaskCompleted(result=result)]:  # interrupted while the agent was closed
            output.print_json(result_document(result))
        case [TaskFailed() as failed]:
            output.print_json(failure_document(failed, task.agent_id))
        case _:
            output.print_json(error_document(RunCancelled(task.id, "bootstrap"), kind=RuntimeErrors))


def _print_failure(document: JsonObject, message: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(document)
    else:
        typer.echo(output.printable(f"error: {message}"), err=True)


def _shown(answer: str) -> str:
    """Return the answer, for a terminal without control characters."""
    return output.printable(answer) if sys.stdout.isatty() else answer


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
    """Return the JSON document of an error before the run.

    The fields of a run are null.
    """
    empty: JsonObject = dict.fromkeys(field.name for field in attrs.fields(TaskResult))
    return {
        **empty,
        "success": False,
        "status": "failed",
        "reason": error.message,
        "steps": [],
        "tool_results": {},
        "error": encode(error, kind),
    }
