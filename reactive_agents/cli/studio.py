"""``reactive-agents studio``: a page that shows and controls runs."""

from __future__ import annotations

import secrets
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from attrs import evolve, field, frozen
from returns.result import Failure, Success

from reactive_agents.adapters.system import default_run_log
from reactive_agents.adapters.telemetry.console import SilentView
from reactive_agents.agent import AgentConfig, ReactiveAgent, read_config
from reactive_agents.agent.config import read_document
from reactive_agents.agent.description import DeskOptions
from reactive_agents.agent.persona_config import PersonaConfig
from reactive_agents.cli import output
from reactive_agents.cli.output import argument, option
from reactive_agents.cli.run import LONGEST_WAIT_S, adjusted, build_agent, python_agent, with_sessions
from reactive_agents.cli.runs import RunsOption
from reactive_agents.core.config import DurabilityConfig, RunLogConfig

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 7330
_DRAIN_S = 3.0
"""Seconds for runs to end after Ctrl-C; then durable ones are interrupted, to be continued later."""
_NEEDED = "starlette and uvicorn, which are installed with reactive-agents[server]"


@frozen
class StudioFiles:
    """The files that a studio opens."""

    agents: tuple[tuple[Path, AgentConfig], ...] = ()
    built: tuple[ReactiveAgent, ...] = ()
    personas: tuple[PersonaConfig, ...] = ()
    runs: tuple[Path, ...] = field(default=())


@output.without_json
def studio(
    files: Annotated[
        list[Path] | None,
        argument(
            "[FILE…]",
            "Configurations of agents and personas (.toml, .json), files of runs (.jsonl), and "
            "module:name of agents that are built in Python.",
        ),
    ] = None,
    runs: RunsOption = None,
    host: Annotated[
        str,
        option(
            "--host HOST",
            "The address to listen on; other machines can reach addresses other than the default.",
            show_default=True,
        ),
    ] = LOOPBACK,
    port: Annotated[
        int, option("--port PORT", "0 picks a free port.", min=0, max=65_535, show_default=True)
    ] = DEFAULT_PORT,
    name: Annotated[list[str] | None, option("--name HOST", "Another host name of the page.")] = None,
    by: Annotated[
        str | None,
        option("--by NAME", "Who gives orders and answers, for the audit log; the studio by default."),
    ] = None,
    browser: Annotated[bool, option("--browser", "Open the page in the browser.")] = False,
    allow_tools_from: output.AllowedModules = None,
) -> None:
    """Open a page that shows and controls runs."""
    places = files or ()
    named = tuple(python_agent(each) for each in places if output.is_python_name(each))
    described = [each for each in places if not output.is_python_name(each)]
    given = evolve(read_files(described, output.names(allow_tools_from)), built=named)
    configs = [config for _, config in given.agents] + [each.config for each in named if each.config]
    logs = [config.run_log.path for config in configs if config.run_log is not None]
    log = runs or (logs[0] if logs else str(default_run_log()))
    try:
        from reactive_agents.server.process import DrainingServer, address_of
    except ImportError:
        raise output.bad_usage("studio", "nothing", _NEEDED) from None
    token = secrets.token_urlsafe(32)
    once = secrets.token_urlsafe(32) if browser else ""
    hosts = LOOPBACK, "localhost", "::1", host, *(name or ())
    app = build_app(given, log, token, hosts, once=once, by=by)
    listening = output.listening_on(host, port)
    shown = LOOPBACK if host in ("0.0.0.0", "::") else host
    address = f"{address_of(listening, shown)}/?token={token}"
    typer.echo(f"Studio: {address}")
    typer.echo(
        "Anyone with this address can read the runs and start new ones. Press Ctrl-C to stop.", err=True
    )
    if browser:
        webbrowser.open(
            address.replace(token, once)
        )  # other users of the machine see it in the list of processes
    sys.stdout.flush()
    with listening, suppress(KeyboardInterrupt):
        server = DrainingServer(app, service=app.state.service, drain_s=_DRAIN_S, log_level="error")
        anyio.run(server.serve, [listening])


def read_files(paths: Sequence[Path], allowed: Sequence[str]) -> StudioFiles:
    """Return agents, personas and runs in files; exit if one is wrong."""
    agents, personas, runs = list[tuple[Path, AgentConfig]](), list[PersonaConfig](), list[Path]()
    for path in paths:
        if not path.is_file():
            raise output.bad_usage("FILE", repr(str(path)), "a file that exists, or module:name")
        if path.suffix == ".jsonl":
            runs.append(path)
            continue
        agent = read_config(path, allow_tools_from=allowed)
        if isinstance(agent, Success):
            agents.append((path, agent.unwrap()))
            continue
        persona = read_document(path, PersonaConfig, allow_tools_from=allowed)
        if isinstance(persona, Failure):
            raise output.fail((persona if b"domains" in path.read_bytes() else agent).failure())
        personas.append(persona.unwrap())
    return StudioFiles(tuple(agents), (), tuple(personas), tuple(runs))


def build_app(
    given: StudioFiles,
    log: str,
    token: str,
    hosts: Sequence[str],
    *,
    once: str = "",
    by: str | None = None,
) -> Any:
    """Return the application of a studio; exit if it cannot be made.

    The agents log and record their runs in the file of the run log, so that the page shows and forks them.
    """
    from reactive_agents.studio.app import STUDIO, StudioAgent, create_studio
    from reactive_agents.studio.logged_runs import RunLibrary, RunUnreadable
    from reactive_agents.studio.records import StudioRecords

    agents: list[StudioAgent] = []
    for path, config in given.agents:
        ready = _with_stores(config, str(log))
        desk = DeskOptions(True, approval_timeout_s=LONGEST_WAIT_S)
        built = build_agent(ready, SilentView(), path, desk=desk)
        agents.append(StudioAgent(output.value_or_exit(built), ready))
    for agent in given.built:
        own = agent.config
        if own is None or own.run_log is None or own.run_log.path != log:
            expected = f"an agent with_run_log({log!r}), which the page shows"
            raise output.bad_usage("AGENT", repr(agent.name), expected)
        agents.append(StudioAgent(agent, own))
    names = [each.agent.name for each in agents]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise output.bad_usage("name", repr(twice), "another name for each agent")
    keys = [agent.container.core.run_log_key() for agent in given.built]
    library = RunLibrary(log, read_only=not agents, key=next(filter(None, keys), None))
    for path in given.runs:
        try:
            anyio.run(library.open, path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RunUnreadable) as error:
            raise output.bad_usage(str(path), "a file", f"a file of runs ({error})") from None
    records = StudioRecords({str(each.persona_id): each for each in given.personas})
    return create_studio(
        library, agents, token=token, once=once, records=records, hosts=hosts, by=by or STUDIO
    )


def _with_stores(config: AgentConfig, log: str) -> AgentConfig:
    config = with_sessions(adjusted(config), None)
    durability = evolve(config.durability or DurabilityConfig(log), recover=False)
    return evolve(config, run_log=RunLogConfig(log), durability=durability)
