"""JSON data that programs read: they compare and index it as that of ``json.loads``. Only type-checked."""

from __future__ import annotations

from reactive_agents import (
    ApprovalRequest,
    ApprovalRequested,
    CustomEvent,
    ExternalCallRequested,
    ReactiveAgent,
    RunContext,
    ToolCall,
    ToolCallStarted,
    ToolDefinition,
)


def up_to_fifty(request: ApprovalRequest) -> bool:
    return request.arguments["euros"] <= 50 and "euros" in request.parameters["properties"]


def own_accounts(ctx: RunContext[list[str]], definition: ToolDefinition) -> ToolDefinition:
    definition.parameters["properties"]["account"]["enum"] = ctx.deps
    return definition


def total(call: ToolCall) -> float:
    return float(sum(each["price"] for each in call.arguments["items"]))


def told(event: ApprovalRequested | ExternalCallRequested | ToolCallStarted | CustomEvent) -> float:
    data = event.data if isinstance(event, CustomEvent) else event.arguments
    return float(data["items"][0]["price"] * 2)


async def cart(agent: ReactiveAgent) -> list[str]:
    result = await agent.run("Buy tea.", session="a")
    state = await agent.sessions.update_state("a", {"cart": [each for each in result.state["cart"] if each]})
    return [each.upper() for each in (await agent.sessions.state("a"))["cart"] + state["cart"]]
