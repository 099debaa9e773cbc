"""A worker of a queue that may be killed: ``python -m tests.support.queue_worker URL FOLDER``."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import anyio

from reactive_agents import ReactiveAgent, ReactiveAgents, RunContext, tool
from tests.support.durable_crashes import StepModel, note


def paying_agent(url: str, folder: Path, *, kills: bool) -> ReactiveAgent:
    """Return an agent that makes two payments, and whose process is now and then killed meanwhile."""

    def pay(number: int, context: RunContext) -> str:
        """Make a payment."""
        if kills and random.random() < 0.02:
            os.kill(os.getpid(), signal.SIGKILL)
        note(folder / "effects", context.idempotency_key)
        return f"paid {number}"

    model = StepModel(folder, [[("pay", {"number": 1})], [("pay", {"number": 2})]])
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(tool(idempotent=True)(pay))
    return agent.with_durability(url, recover=False).build()


async def work(url: str, folder: Path) -> None:
    """Run what is queued until nothing is left."""
    agent = paying_agent(url, folder, kills=True)
    await agent.runs.work("payments", concurrency=8, until_idle=True)
    await agent.aclose()


if __name__ == "__main__":
    anyio.run(work, sys.argv[1], Path(sys.argv[2]))
