"""``reactive-agents serve``, ``mcp`` and ``keys``: servers and their API keys."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from attrs import evolve, fields, frozen

from reactive_agents.adapters.system import end_on_sigterm_after
from reactive_agents.adapters.telemetry.console import SilentView
from reactive_agents.agent import AgentError, ReactiveAgent
from reactive_agents.agent.description import DeskOptions
from reactive_agents.cli import output
from reactive_agents.cli import run as running
from reactive_agents.cli.output import argument, option
from reactive_agents.core.conversation import wrong_name
from reactive_agents.event_loop import schedule_on_this_loop, spawn_on_this_loop
from reactive_agents.server.access import ApiKeys, KeyLimits, StoredKey
from reactive_agents.server.app import create_app, named_agents
from reactive_agents.server.process import DrainingServer, address_of
from reactive_agents.server.runs import AgentService
from reactive_agents.server.web import LOOPBACK_HOSTS

KeysOption = Annotated[Path, option("--keys FILE", "The file of the keys.")]
AgentArguments = Annotated[
    list[Path],
    argument("AGENT…", "Configurations of agents, or module:name of agents that are built in Python."),
]
AdmittedOption = Annotated[
    Path | None,
    option("--keys FILE", "The file of accepted API keys. Without it, only this machine has access."),
]
RunsOption = Annotated[
    str | None, option("--runs FILE_OR_URL", "Record the runs here, to survive a restart.")
]
_DRAIN_S = 30.0
_MOST_DAYS = 36_500


@frozen
class _Served:
    """Agents, and the address at which they are served."""

    configs: AgentArguments
    host: output.HostOption = "127.0.0.1"
    port: output.PortOption = 8_000
    keys_file: AdmittedOption = None
    runs: RunsOption = None
    allow_tools_from: output.AllowedModules = None

    def agents(self, *protected: Path | None) -> list[ReactiveAgent]:
        return [
            _agent(each, self.runs, self.allow_tools_from, *self.configs, *protected) for each in self.configs
        ]

    def listen(self, *, drain_s: float = _DRAIN_S, **options: Any) -> None:
        """Serve the agents over HTTP; the options are those of ``create_app``."""
        host, keys_file = self.host, self.keys_file
        if keys_file is None and host not in LOOPBACK_HOSTS:
            raise typer.BadParameter("an address that others can reach needs --keys.", param_hint="--host")
        keys = None if keys_file is None else ApiKeys(keys_file)
        if keys is not None and not keys.is_readable:
            raise typer.BadParameter(
                "the file cannot be read; 'reactive-agents keys create' makes one.", param_hint="--keys"
            )
        agents = self.agents(keys_file)
        anyio.run(_check_records, agents)
        try:
            app = create_app(agents, keys=keys, drain_s=0.0, **options)
        except (OSError, ValueError) as error:
            raise typer.BadParameter(str(error)) from None
        listening = output.listening_on(host, self.port)
        address = address_of(listening, host)
        if output.is_json():
            output.print_json({"address": address, "agents": [each.name for each in agents]})
        else:
            typer.echo(f"Serving {', '.join(each.name for each in agents)} on {address}", err=True)
        sys.stdout.flush()
        server = DrainingServer(app, service=app.state.service, drain_s=drain_s)
        with listening:
            anyio.run(server.serve, [listening])


ServedOptions = Annotated[_Served, output.Options(_Served)]


def serve(
    served: ServedOptions,
    queue: Annotated[str | None, option("--queue NAME", "Put runs into a queue for workers.")] = None,
    no_work: Annotated[bool, option("--no-work", "Run no worker in this process.")] = False,
    allow_hosts: Annotated[
        list[str] | None,
        option("--allow-host NAME", "A host name that clients use; any with --keys. Repeatable."),
    ] = None,
    origins: Annotated[
        list[str] | None, option("--origin URL", "A web page that may send requests (CORS). Repeatable.")
    ] = None,
    url: Annotated[str, option("--url URL", "The URL for clients, if the server is behind a proxy.")] = "",
    drain: Annotated[
        float, option("--drain SECONDS", "For runs on SIGTERM; 30 by default.", parser=output.SECONDS)
    ] = _DRAIN_S,
) -> None:
    """Serve agents over HTTP."""
    if no_work and queue is None:
        raise typer.BadParameter("needs --queue.", param_hint="--no-work")
    for origin in origins or ():
        if not re.fullmatch(r"https?://[^/\s]+", origin):
            expected = "a page's origin, such as https://app.example"
            raise typer.BadParameter(f"got {origin!r}, expected {expected}.", param_hint="--origin")
    served.listen(
        drain_s=drain,
        hosts=allow_hosts,
        origins=tuple(origins or ()),
        queue=queue,
        work=not no_work,
        url=url,
    )


@output.without_json
def mcp(
    served: ServedOptions,
    http: Annotated[
        bool, option("--http", "Use streamable HTTP at /mcp instead of standard streams.")
    ] = False,
) -> None:
    """Serve agents as the tools of an MCP server."""
    if http:
        served.listen(protocols=("mcp",))
        return
    agents = served.agents()
    try:
        anyio.run(_serve_streams, agents)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


async def _serve_streams(agents: Sequence[ReactiveAgent]) -> None:
    from reactive_agents.server.mcp import serve_stdio

    service = AgentService(named_agents(agents))
    schedule, ended = schedule_on_this_loop(), anyio.Event()
    failures: list[Exception] = []

    async def serve_client() -> None:
        try:
            await serve_stdio(service)
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)
        finally:
            ended.set()

    with end_on_sigterm_after(lambda: schedule(ended.set)):
        async with AsyncExitStack() as stack:
            for agent in agents:
                await stack.enter_async_context(agent)
            try:
                spawn_on_this_loop(serve_client)  # the signal does not wait for the line being read
                await ended.wait()
            finally:
                await service.drain(0)
    if failures:
        raise failures[0]


async def _check_records(agents: Sequence[ReactiveAgent]) -> None:
    """End the command before serving if runs cannot be recorded."""
    for agent in agents:
        if agent.container.settings().durability is not None:
            try:
                await agent.runs.check()
            except AgentError as error:
                raise output.fail(error.error, output.ExitCode.FAILED) from None


def _agent(
    path: Path, runs: str | None, allow_tools_from: str | None, *protected: Path | None
) -> ReactiveAgent:
    if output.is_python_name(path):
        return running.python_agent(path, runs=runs, allow_tools_from=allow_tools_from)
    read = running.read_config_file(path, allow_tools_from)
    config = output.value_or_exit(read)
    adjusted = running.durable(running.adjusted(config), runs)
    if adjusted.durability is not None:  # a server continues interrupted runs
        adjusted = evolve(adjusted, durability=evolve(adjusted.durability, recover=True))
    desk = DeskOptions(True, approval_timeout_s=running.LONGEST_WAIT_S)
    built = running.build_agent(adjusted, SilentView(), path, *protected, desk=desk)
    return output.value_or_exit(built)


keys = output.command_group("Create, list and revoke the API keys of a server.", no_args_is_help=True)


@keys.command()
def create(
    name: Annotated[str, argument("NAME", "For people.")],
    file: KeysOption,
    user: Annotated[str | None, option("--user -u USER", "The user of the key.")] = None,
    any_user: Annotated[bool, option("--any-user", "For a program that acts for all users.")] = False,
    no_approvals: Annotated[
        bool, option("--no-approvals", "It may not decide on calls that need approval.")
    ] = False,
    agents: Annotated[
        list[str] | None, option("--agent -a AGENT", "An agent that the key may use; all by default.")
    ] = None,
    days: Annotated[
        float | None, option("--days N", "The days until the key expires; never by default.")
    ] = None,
    limits: Annotated[
        list[str] | None, option("--limit NAME=N", "A limit, such as runs=5. Repeatable.")
    ] = None,
) -> None:
    """Create a key and print it once."""
    if (user is None) is not any_user:
        raise typer.BadParameter("give --user or --any-user.", param_hint="--user")
    if (problem := wrong_name("user", user)) is not None:
        raise typer.BadParameter(problem, param_hint="--user")
    if days is not None and not 0 < days <= _MOST_DAYS:
        raise typer.BadParameter(
            f"got {days:g}, expected a number above 0, at most {_MOST_DAYS}.", param_hint="--days"
        )
    chosen = _limits(limits or [])
    expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
    with _readable(file):
        key, stored = ApiKeys(file).create(
            name, agents=agents, user=user, expires_at=expires, limits=chosen, approves=not no_approvals
        )
        _read(file)
    output.report({"key": key, "id": stored.id}, key)


@keys.command("list")
def list_keys(file: KeysOption) -> None:
    """List the keys, without the keys themselves."""
    with _readable(file):
        found = _read(file)
    now = datetime.now(UTC)
    rows = (
        (
            each.id,
            each.name,
            "any" if each.user is None else each.user,
            "all" if each.agents is None else ", ".join(each.agents),
            f"{each.created_at:%Y-%m-%d}",
            "valid" if each.holds(now) else "revoked" if each.revoked_at else "expired",
            "approves" if each.approves else "no approvals",
        )
        for each in found
    )
    shown = [evolve(each, digest="") for each in found]
    output.print_found(shown, ("id", "name", "user", "agents", "created", "state", "calls"), rows)


@keys.command()
def revoke(
    key_id: Annotated[str, argument("ID", "Of the key.")],
    file: KeysOption,
) -> None:
    """Revoke a key: its next request is refused, and its streams end."""
    with _readable(file):
        found = ApiKeys(file).revoke(key_id)
        if not found:
            raise typer.BadParameter(f"there is no key {key_id!r}.", param_hint="ID")
        _read(file)
    output.report({"revoked": key_id}, f"Revoked {key_id}.")


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--keys") from None


def _read(file: Path) -> tuple[StoredKey, ...]:
    """Return the keys of a file, and report its other entries."""
    found, problems = ApiKeys(file).read()
    for each in problems:
        output.tell(f"warning: {each}")
    return found


def _limits(given: list[str]) -> KeyLimits:
    known = [each.name for each in fields(KeyLimits)]
    chosen: dict[str, float] = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            number = float(value) if name.endswith("_s") else int(value)
        except ValueError:
            number = 0
        if name not in known or not 0 < number < float("inf"):
            expected = f"a number above 0 for one of {', '.join(known)}"
            raise typer.BadParameter(f"got {text!r}, expected {expected}.", param_hint="--limit")
        chosen[name] = number
    return KeyLimits(**chosen)  # type: ignore[arg-type]
