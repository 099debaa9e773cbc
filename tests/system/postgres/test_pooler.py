"""Stores behind PgBouncer: with a pool for each transaction, and refused with one for each statement."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from psycopg.conninfo import conninfo_to_dict

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, tool
from reactive_agents.testing import ScriptedLLM, answer, call
from tests.support.postgres import Server
from tests.support.waiting import until_blocking

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="PgBouncer is not installed"),
]
CONFIG = """
[databases]
{database} = host={sockets} dbname={database} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
auth_file = {folder}/users.txt
pool_mode = {mode}
default_pool_size = 2
max_client_conn = 200
"""
CALLERS = 6


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def pooled(place: str, server: Server) -> Iterator[Callable[[str], str]]:
    """A function that starts a pooler of two connections in a mode, and returns its address."""
    started: list[subprocess.Popen[bytes]] = []
    with TemporaryDirectory(prefix="pgbouncer-", ignore_cleanup_errors=True) as name:
        folder = Path(name)

        def start(mode: str) -> str:
            parts = conninfo_to_dict(place)
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            text = CONFIG.format(
                database=parts["dbname"], sockets=parts["host"], port=port, mode=mode, folder=folder
            )
            (folder / "pgbouncer.ini").write_text(text)
            (folder / "users.txt").write_text('"postgres" ""\n')
            folder.chmod(0o755)
            owner = server._server.system_user
            as_owner = ["-u", owner] if os.geteuid() == 0 and owner else []
            command = ["pgbouncer", "-q", *as_owner, str(folder / "pgbouncer.ini")]
            started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            until_blocking(lambda: started[-1].poll() is not None or _listens(port))
            return f"postgresql://postgres@127.0.0.1:{port}/{parts['dbname']}"

        yield start
        for process in started:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def agent(place: str, *turns: Any) -> ReactiveAgent:
    """Return an agent that keeps all in the database."""

    @tool(idempotent=True)
    async def note(number: int) -> str:
        """Note a number."""
        return "noted"

    described = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(note)
    described = described.with_sessions(place).with_memory(place).with_cost(place).with_audit(place)
    return described.with_run_log(place).with_durability(place, recover=False).build()


async def test_stores_share_two_connections_of_a_pool_for_each_transaction(
    pooled: Callable[[str], str],
) -> None:
    place = pooled("transaction")
    agents = [agent(place, call("note", number=number), answer("It is noted.")) for number in range(CALLERS)]
    async with anyio.create_task_group() as group:
        for number, each in enumerate(agents):
            group.start_soon(lambda each=each, n=number: each.run("Note.", run_id=f"r{n}", session="s"))
    first = agents[0]
    assert {run.state for run in await first.runs.list()} == {"completed"}
    assert len(await first.sessions.read("s")) == 4 * CALLERS
    assert (await first.runs.replay("r0")).difference == ""
    for each in agents:
        await each.aclose()


async def test_a_pool_for_each_statement_is_refused_with_its_reason(pooled: Callable[[str], str]) -> None:
    described = ReactiveAgents.create().with_llm(ScriptedLLM())
    one = described.with_durability(pooled("statement"), recover=False).build()
    with pytest.raises(AgentError, match="statement pooling mode"):
        await one.run("Note.", run_id="r")
    await one.aclose()
