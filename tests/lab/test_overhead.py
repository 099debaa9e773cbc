"""Prompt tokens of a run beside those of the same loop written by hand."""

from __future__ import annotations

import pytest

from reactive_agents import ReactiveAgents, Tool, tool
from reactive_agents.core.config import ContextTier
from tests.lab.simulated_model import size_of
from tests.support.openai_server import Answer, Call, OpenAIServer

ROLE = (
    "You are the assistant of a mail-order company. Answer questions of its employees about articles, orders "
    "and prices in short and complete sentences, and give amounts in euros."
)


@tool
def price(item: str) -> str:
    """Look up the price of one item.

    Args:
        item: the name of the item.
    """
    return f"{item}: 12.50"


@tool
def search_orders(customer: str, status: str = "open", limit: int = 10) -> list[dict[str, object]]:
    """Search the orders of a customer, the newest first, with their articles, amounts and dates of delivery.

    Args:
        customer: the name or the number of the customer.
        status: open, delivered or returned.
        limit: how many orders to return at most, 1 to 50.
    """
    return [
        {"order": f"A-{number}", "article": "garden chair", "amount": 49.9 + number, "delivery": "2026-03-14"}
        for number in range(5)
    ]


@pytest.mark.parametrize(
    ("offered", "cost", "tier", "most"),
    [(search_orders, "49.90", "mid", 1.3), (price, "12.50", "mid", 1.605), (price, "12.50", "local", 1.565)],
)
def test_one_tool_and_four_turns_take_little_more_than_by_hand(
    offered: Tool, cost: str, tier: ContextTier, most: float
) -> None:
    name = offered.definition.name
    argument = next(iter(offered.definition.parameters["required"]))
    calls = (Answer(None, (Call(name, {argument: f"number {n}"}, f"call-{n}"),)) for n in range(3))
    done = Answer(None, (Call("final-answer", {"answer": f"{cost} each."}, "call-end"),))
    with OpenAIServer(*calls, done) as server:
        agent = (
            ReactiveAgents.create()
            .with_model("openai/any", base_url=server.base_url, api_key="none")
            .with_reasoning()
            .with_tools(offered)
            .with_system_prompt(ROLE)
            .with_context_profile(tier=tier)
            .build()
        )
        agent.run_sync("What did the customers number 0, number 1 and number 2 order, and what does it cost?")
    bodies = [received.body for received in server.requests]
    ours = sum(size_of(body["messages"], body["tools"]) for body in bodies)
    by_hand = sum(
        size_of([{"role": "system", "content": ROLE}, *body["messages"][1:]], body["tools"][:1])
        for body in bodies
    )
    assert len(bodies) == 4
    assert ours <= most * by_hand, (ours, by_hand)
