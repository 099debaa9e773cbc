"""A program whose runs wait for their model until a SIGTERM comes.

``python -m tests.support.sigterm FOLDER COUNT``: as many runs at once, or ``run_sync`` for a count of 0, for
-1 within a running event loop, and for -2 in a worker thread, whose runs a handler of the main thread
cancels. It says ``ready`` on standard output when all of them are in a model call, and which phases of their
ends failed. With ``to its own thread`` as a third argument the thread of the run sends the signal to itself.
Any other one is how the runs are awaited, each in its own session: ``wait_for``, ``gather``, ``wait`` or
``create_task``. A fourth argument makes the runs durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

import anyio

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.adapters.system import cancel_on_sigterm
from reactive_agents.core.events import AgentEvent, ExecutionLoopIteration, ExecutionPhaseFailed
from reactive_agents.testing import ScriptedLLM, forever, say


def main() -> None:
    """Run until the signal comes."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    asked = 0

    def count_runs(event: AgentEvent) -> None:
        nonlocal asked
        if isinstance(event, ExecutionLoopIteration):
            asked += 1
            if asked == max(count, 1):
                print("ready", flush=True)
                if sys.argv[3:] == ["to its own thread"]:
                    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        elif isinstance(event, ExecutionPhaseFailed):
            print(event.phase, "not recorded", flush=True)

    model = ScriptedLLM(forever(say("never", delay=3_600)))
    builder = ReactiveAgents.create().with_llm(model)
    builder = builder.with_cost(folder / "cost.db").with_audit(folder / "audit.db")
    if sys.argv[4:]:
        builder = builder.with_durability(folder / "runs.db")
    agent = builder.with_sessions(folder / "sessions.db").build()
    agent.subscribe(count_runs)

    async def run_all() -> None:
        with cancel_on_sigterm():
            async with anyio.create_task_group() as group:
                for number in range(count):
                    group.start_soon(agent.run, f"task {number}")

    async def run_each(awaited: str) -> None:
        runs = [agent.run(f"task {number}", session=f"session {number}") for number in range(count)]
        with cancel_on_sigterm():
            if awaited == "gather":
                await asyncio.gather(*runs)
            elif awaited == "wait":
                await asyncio.wait([asyncio.create_task(run) for run in runs])
            elif awaited == "wait_for":
                await partial(asyncio.wait_for, timeout=3_600)(runs[0])
            else:
                await asyncio.create_task(runs[0])

    async def run_sync_in_a_loop() -> None:
        agent.run_sync("the only task")

    def run_in_a_worker_thread() -> None:
        def cancel_all(signal_number: int, frame: object) -> None:
            for task_id in agent.running():
                agent.cancel(task_id)

        signal.signal(signal.SIGTERM, cancel_all)
        with contextlib.suppress(AgentError), ThreadPoolExecutor() as pool:
            running = pool.submit(agent.run_sync, "the only task")
            while not running.done():
                wait([running], timeout=1)
            running.result()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)

    if count > 0 and sys.argv[3:]:
        asyncio.run(run_each(sys.argv[3]))
    elif count == -2:
        run_in_a_worker_thread()
    elif count:
        anyio.run(run_all if count > 0 else run_sync_in_a_loop)
    else:
        agent.run_sync("the only task")


if __name__ == "__main__":
    main()
