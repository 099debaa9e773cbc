"""A receptionist hands the conversation over, and the specialist keeps it in the next turn.

Prints:

    billing: You owe 40 EUR.
    handed over: ['billing']
    billing: By Friday.
    the receptionist's model was asked once
"""

from __future__ import annotations

import anyio

from reactive_agents import AgentEvent, HandedOff, ReactiveAgents, handoff
from reactive_agents.testing import ScriptedLLM, answer, call


def invoice(customer: str) -> str:
    """Look up the open invoice of a customer."""
    return "40 EUR, due on Friday"


async def main() -> None:
    # in your program: .with_model("openai/gpt-4o-mini")
    specialist = ScriptedLLM(call("invoice", customer="Ada"), answer("You owe 40 EUR."), answer("By Friday."))
    billing = ReactiveAgents.create().with_name("billing").with_llm(specialist).with_reasoning()
    receptionist = ScriptedLLM(call("transfer-to-billing", reason="It is about an invoice."))
    front_desk = ReactiveAgents.create().with_name("front desk").with_llm(receptionist).with_reasoning()
    transfer = handoff(billing.with_tools(invoice).build(), description="For invoices and payments.")
    agent = front_desk.with_handoffs(transfer).build()

    handed: list[str] = []

    def note(event: AgentEvent) -> None:
        if isinstance(event, HandedOff):
            handed.append(event.to_agent)

    agent.subscribe(note)
    first = await agent.run("I am Ada. What do I owe?", session="ada-1")
    print(f"{first.agent}: {first.output}")
    print("handed over:", handed)
    second = await agent.run("Until when?", session="ada-1")
    print(f"{second.agent}: {second.output}")
    print("the receptionist's model was asked", {1: "once"}[len(receptionist.requests)])


if __name__ == "__main__":
    anyio.run(main)
