"""A workflow that is killed in the middle of its payments, is started again, and goes on.

Prints:

    started: paid 40, killed
    started again: paid 15, Dear Ada, 55 euros are on their way.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from reactive_agents import ReactiveAgents, WorkflowRun, tool
from reactive_agents.testing import ScriptedLLM, say

FOLDER = Path(os.environ.get("WORKFLOW_FOLDER", "."))


@tool(idempotent=True)  # the bank knows it by the context's idempotency_key: it may be asked once more
def pay(amount: int) -> int:
    """Pay an amount."""
    if amount == 15 and not (FOLDER / "asked").exists():
        (FOLDER / "asked").touch()
        print("killed", flush=True)
        os.kill(os.getpid(), 9)
    print("paid", amount, end=", ", flush=True)
    return amount


async def refund(run: WorkflowRun, customer: str) -> str:
    paid = 0
    for amount in (40, 15):
        paid += await run.call("pay", amount=amount)
    return await run.ask(f"Write to {customer} that {paid} euros are on their way.")


async def refund_ada() -> None:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(say("Dear Ada, 55 euros are on their way.")))
    builder = builder.with_tools(pay).with_workflow(refund)
    async with builder.with_durability(FOLDER / "runs.db", recover=False).build() as agent:
        print((await agent.run("Ada", run_id="refund-4711")).output)


def start(folder: str) -> str:
    own = {**os.environ, "WORKFLOW_FOLDER": folder}
    return subprocess.run([sys.executable, __file__], env=own, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    if "WORKFLOW_FOLDER" in os.environ:
        asyncio.run(refund_ada())
        sys.exit()
    with tempfile.TemporaryDirectory() as temporary:
        print("started:", start(temporary), end="")
        print("started again:", start(temporary), end="")
