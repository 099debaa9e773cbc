"""A studio that listens on 127.0.0.1."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from reactive_agents.agent import AgentConfig
from reactive_agents.core.config import AuditConfig, DurabilityConfig, MemoryConfig
from reactive_agents.server.process import DrainingServer
from reactive_agents.studio.app import StudioAgent, create_studio
from reactive_agents.studio.logged_runs import RunLibrary
from reactive_agents.testing import Turn, answer
from tests.support import studio_runs
from tests.support.waiting import until_blocking

TOKEN = "a-token-that-nobody-knows"


def run_apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of an async function; on a thread, since the browser's loop is on this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(anyio.run, function, *arguments).result()


def buyer(log: Path, folder: Path) -> StudioAgent:
    """An agent whose second call needs approval, with memory and an audit log."""
    memory, audit = str(folder / "memory.db"), str(folder / "audit.db")
    described = studio_runs.waiting_agent(log).with_approval(timeout_s=600.0)
    agent = described.with_memory(path=memory).with_audit(audit).build()
    return StudioAgent(
        agent,
        AgentConfig(
            name="buyer",
            durability=DurabilityConfig(str(log), recover=False),
            memory=MemoryConfig(memory),
            audit=AuditConfig(audit),
        ),
    )


def scripted(log: Path, name: str, *turns: Turn) -> StudioAgent:
    """An agent of a script, whose runs are recorded."""
    script = turns or (answer("It is so."),) * 5
    agent = studio_runs.builder(log, name, *script).with_reasoning().build()
    return StudioAgent(agent, AgentConfig(name=name, durability=DurabilityConfig(str(log), recover=False)))


@contextmanager
def serving(log: Path, agents: Sequence[StudioAgent] = (), port: int = 0, **options: Any) -> Iterator[str]:
    """The address of a studio, with its token."""
    app = create_studio(RunLibrary(log, read_only=not agents), agents, token=TOKEN, **options)
    with socket.create_server(("127.0.0.1", port)) as bound:
        server = DrainingServer(app, service=app.state.service, drain_s=0.0, log_level="error")
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        until_blocking(lambda: server.started or not thread.is_alive())
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}/?token={TOKEN}"
        finally:
            server.should_exit = True
            thread.join()
