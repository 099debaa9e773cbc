"""A shop's agent: the database, the customer and the tools of each run are its dependencies.

Prints:

    Your order A7 is on its way. ('web',)
    You have your money back. ['A7']
"""

from __future__ import annotations

from dataclasses import dataclass, field

from reactive_agents import ReactiveAgents, RunContext, tool
from reactive_agents.testing import ScriptedLLM, answer, call


@dataclass
class Shop:
    orders: dict[str, str]
    clerk: bool = False
    refunds: list[str] = field(default_factory=list)


def order_state(ctx: RunContext[Shop], order: str) -> str:
    """Look up how far an order is."""
    return ctx.deps.orders.get(order, "unknown")


@tool(requires_approval=True)
def refund(ctx: RunContext[Shop], order: str) -> None:
    """Give the money for an order back."""
    ctx.deps.refunds.append(order)


def introduce(ctx: RunContext[Shop]) -> str:
    return f"You speak with {ctx.user}, who has {len(ctx.deps.orders)} order(s)."


def for_clerks(ctx: RunContext[Shop], definition: object) -> bool:
    return ctx.deps.clerk


def main() -> None:
    last = answer("You have your money back.")
    told = answer("Your order A7 is on its way.")
    model = ScriptedLLM(call("order_state", order="A7"), told, call("shop_refund", order="A7"), last)
    builder = ReactiveAgents.create(deps=Shop).with_llm(model).with_reasoning().with_tools(order_state)
    builder = builder.with_toolset([refund], prefix="shop_", filter=for_clerks)
    agent = builder.with_instructions("You are a clerk of the Corner shop.", introduce).build()

    first = agent.run_sync("Where is A7?", deps=Shop({"A7": "on its way"}), user="Ada", tags=["web"])
    print(first.output, first.metadata.tags)
    desk = Shop({"A7": "on its way"}, clerk=True)
    print(agent.run_sync("Refund A7.", deps=desk, approver=lambda request: True).output, desk.refunds)


if __name__ == "__main__":
    main()
