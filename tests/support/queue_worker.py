"""Workers of a queue that may be killed: ``python -m tests.support.queue_worker URL FOLDER ENGINE``.

Each is a fork of this process, so that it begins at once, and another takes its place when it was killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio

from reactive_agents import ReactiveAgent, ReactiveAgents, RunContext, tool
from tests.support.durable_crashes import StepModel, note

ROOT = Path(__file__).parents[2]


def is_first(folder: Path) -> bool:
    """Return whether this is the first payment of all, in whatever process."""
    with suppress(FileExistsError):
        (folder / "first").touch(exist_ok=False)
        return True
    return False


def paying_agent(url: str, folder: Path, *, kills: bool, engine: Any = "record") -> ReactiveAgent:
    """Return an agent that makes two payments, and whose process is now and then killed meanwhile."""

    def pay(number: int, context: RunContext) -> str:
        """Make a payment."""
        if kills and (is_first(folder) or random.random() < 0.02):
            os.kill(os.getpid(), signal.SIGKILL)
        note(folder / "effects", context.idempotency_key)
        return f"paid {number}"

    model = StepModel(folder, [[("pay", {"number": 1})], [("pay", {"number": 2})]])
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(tool(idempotent=True)(pay))
    return agent.with_durability(url, recover=False, engine=engine).build()


async def work(url: str, folder: Path, engine: str) -> None:
    """Run what is queued until nothing is left."""
    agent = paying_agent(url, folder, kills=True, engine=engine)
    await agent.runs.work("payments", concurrency=8, until_idle=True)
    await agent.aclose()


def queue_with_kills(url: str, folder: Path, engine: str, runs: int) -> dict[str, Any]:
    """Queue runs, and let three workers run them, which are killed and started again; return counts."""

    async def submit() -> None:
        agent = paying_agent(url, folder, kills=False, engine=engine)
        agent.runs.ensure_worker = lambda queue: None  # type: ignore[method-assign]
        for number in range(runs):
            await agent.submit("Pay all.", run_id=f"payment-{number}", queue="payments")
        await agent.aclose()

    async def states() -> set[str]:
        agent = paying_agent(url, folder, kills=False, engine=engine)
        found = await agent.runs.list(limit=10_000)
        await agent.aclose()
        return {run.state for run in found if run.queue == "payments"}

    anyio.run(submit)
    command = [sys.executable, "-m", "tests.support.queue_worker", url, str(folder), engine]
    kills = int(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    keys = (folder / "effects").read_text().splitlines()
    return {
        "runs": runs,
        "states": anyio.run(states),
        "kills": kills,
        "payments": len(set(keys)),
        "again": len(keys) - len(set(keys)),
    }


def forked(url: str, folder: Path, engine: str) -> int:
    """Start a worker; return the id of its process."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            anyio.run(work, url, folder, engine)
            status = 0
        except BaseException:  # noqa: BLE001 - else nobody reads it
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


def main(url: str, folder: Path, engine: str) -> None:
    """Let three workers run what is queued, as a supervisor does; print how many were killed."""
    if engine == "dbos":
        import dbos  # noqa: F401 - what is imported here, each fork has

    kills, workers = 0, {forked(url, folder, engine) for _ in range(3)}
    while workers:
        pid, status = os.wait()
        workers.remove(pid)
        if os.waitstatus_to_exitcode(status) == -signal.SIGKILL:
            kills += 1
            workers.add(forked(url, folder, engine))
        elif status:
            sys.exit("a worker failed")
    print(kills)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
