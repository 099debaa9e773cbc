"""A program that is killed in the middle of its work, is started again, and goes on.

Prints:

    started: paid 1, paid 2, killed
    started again: paid 3, paid 4, All four invoices are paid.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from reactive_agents import ReactiveAgents, RunContext, tool
from reactive_agents.testing import ScriptedLLM, answer, call

FOLDER = Path(os.environ.get("DURABLE_FOLDER", "."))


@tool(idempotent=True)  # the bank knows a payment by its key, so that it may be asked once more
def pay(invoice: int, context: RunContext) -> str:
    """Pay an invoice."""
    bank = FOLDER / context.idempotency_key.replace(":", "-")
    if invoice == 3 and not bank.exists():
        bank.write_text("asked")
        print("killed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    print(f"paid {invoice}", end=", ", flush=True)
    return f"paid {invoice}"


async def pay_all() -> None:
    """Pay four invoices, under the name of the work."""
    first = 4 if (FOLDER / "runs.db").exists() else 1  # the script of a model that answers what is asked
    model = ScriptedLLM(
        *[call("pay", invoice=n) for n in range(first, 5)], answer("All four invoices are paid.")
    )
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(pay)
    async with agent.with_durability(FOLDER / "runs.db", recover=False).build() as durable:
        print((await durable.run("Pay invoices 1 to 4.", run_id="invoices-of-may")).output)


def start(folder: str) -> str:
    """Start this program as a process of its own, and return what it prints."""
    own = {**os.environ, "DURABLE_FOLDER": folder}
    process = subprocess.run([sys.executable, __file__], env=own, stdout=subprocess.PIPE, text=True)
    return process.stdout


if __name__ == "__main__":
    if "DURABLE_FOLDER" in os.environ:
        asyncio.run(pay_all())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            print("started:", start(temporary), end="")
            print("started again:", start(temporary), end="")
