"""Wrong dependencies, and missing ones, are type errors: of runs, of tools, and of agents as tools."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, assert_type

from reactive_agents import (
    AgentResult,
    GuardrailFinding,
    McpServer,
    Personas,
    ReactiveAgent,
    ReactiveAgents,
    RunContext,
    Tool,
    ToolCall,
    ToolResult,
    TypedResult,
    agent_tool,
    tool,
)
from reactive_agents.core.json import Json
from reactive_agents.core.tools import RunTool, ToolDefinition


@dataclass
class Shop:
    stock: int

    def left(self, ctx: "RunContext[Shop]", item: str) -> int:
        return ctx.deps.stock

    def plain(self, item: str) -> int:
        return self.stock


class Branch(Shop):
    pass


class Bank:
    pass


def of_shop(ctx: RunContext[Shop], item: str) -> int:
    return ctx.deps.stock


async def of_bank(ctx: RunContext[Bank]) -> Bank:
    return ctx.deps


def of_anything(ctx: RunContext[object], item: str) -> str:
    return item


def of_any(ctx: RunContext, item: str) -> str:
    return item


def without(*, item: str) -> str:
    return item


@tool(name="shop", timeout_s=3)
def shop_tool(ctx: RunContext[Shop], item: str) -> int:
    return assert_type(ctx.deps, Shop).stock


@tool
def bank_tool(ctx: RunContext[Bank]) -> None: ...


@tool
def plain_tool(item: str) -> int:
    return len(item)


def finds(ctx: RunContext[Shop], where: Any) -> dict[str, Any]:
    return {}


def says(what: Any) -> Any:
    return what


def functions_with_any() -> None:
    builder = ReactiveAgents.create(deps=Shop)
    assert_type(builder.with_tools(finds).build(), ReactiveAgent[AgentResult, Shop])
    assert_type(builder.with_tools(of_any, says).build(), ReactiveAgent[AgentResult, Shop])
    assert_type(ReactiveAgents.create().with_tools(says).build(), ReactiveAgent[AgentResult, None])


def builders() -> None:
    builder = ReactiveAgents.create(deps=Shop)
    builder.with_tools(of_shop, of_anything, of_any, without, shop_tool, plain_tool, "calculator").build()
    builder.with_tools(Shop(3).left, Shop(3).plain).build()
    builder.with_tools(of_shop, bank_tool).build()  # type: ignore[arg-type]
    builder.with_tools(without, bank_tool)  # type: ignore[arg-type]
    assert_type(plain_tool("tea"), int)
    none = ReactiveAgents.create()
    none.with_tools(of_anything, plain_tool, without).build()
    none.with_tools(without, shop_tool)  # type: ignore[arg-type]
    typed = builder.with_output_type(list[int]).build()
    assert_type(typed, ReactiveAgent[TypedResult[list[int]], Shop])
    ReactiveAgents.from_config({"model": "offline"}, deps=Shop).with_tools(of_shop).build()


async def runs() -> None:
    agent = ReactiveAgents.create(deps=Shop).build()
    assert_type(await agent.run("Count.", deps=Shop(1), user="ada"), AgentResult)
    assert_type(agent.run_sync("Count.", deps=Branch(1)), AgentResult)
    await agent.run("Count.")  # type: ignore[call-overload]
    agent.run_sync("Count.", deps=Bank())  # type: ignore[call-overload]
    await agent.run_effect("Count.", deps=Bank())  # type: ignore[call-overload]
    agent.stream("Count.")  # type: ignore[call-arg]
    await agent.run("Count.", deps=Shop(1), sesion="s")  # type: ignore[call-overload]
    await ReactiveAgents.create().build().run("Count.", deps=Shop(1))  # type: ignore[call-overload]
    assert_type(await agent.run("Count.", deps=Shop(1), output=int), TypedResult[int])
    assert_type(
        agent.run_sync("Count.", deps=Shop(1), output=list[int] | None), TypedResult[list[int] | None]
    )
    agent.run_sync("Count.", output=int)  # type: ignore[call-overload]
    optional = ReactiveAgents.create(deps=Shop | None).build()
    await optional.run("Count.")
    await optional.run("Count.", deps=Shop(1))


@asynccontextmanager
async def opened(ctx: RunContext[None]) -> AsyncGenerator[Shop]:
    yield Shop(1)


@contextmanager
def opened_plainly() -> Generator[Branch]:
    yield Branch(1)


async def made_later(ctx: RunContext[None]) -> Shop:
    return Shop(1)


async def made_dependencies() -> None:
    builder = ReactiveAgents.create(deps=Shop).with_tools(of_shop)
    agent = builder.with_deps(opened).build()
    assert_type(await agent.run("Count.", user="ada"), AgentResult)
    agent.run_sync("Count.", deps=Branch(1))
    agent.run_sync("Count.", deps=Bank())  # type: ignore[call-overload]
    builder.with_deps(opened_plainly).with_deps(made_later).with_deps(lambda: Shop(1)).build()
    builder.with_deps(lambda: Bank())  # type: ignore[arg-type]


def about_shop(ctx: RunContext[Shop], text: str) -> list[GuardrailFinding]:
    return []


def about_anything(ctx: RunContext[object], text: str) -> list[GuardrailFinding]:
    return []


def guardrails_that_take_the_context() -> None:
    shops = ReactiveAgents.create(deps=Shop).with_guardrails("length", about_shop, about_anything)
    assert_type(shops.build(), ReactiveAgent[AgentResult, Shop])
    ReactiveAgents.create(deps=Branch).with_guardrails(about_shop).with_guardrails(lambda text: []).build()
    ReactiveAgents.create(deps=Bank).with_guardrails(about_shop)  # type: ignore[arg-type]
    ReactiveAgents.create().with_guardrails(about_shop)  # type: ignore[arg-type]


def agents_as_tools(shop: ReactiveAgent[Any, Shop], none: ReactiveAgent[Any]) -> None:
    assert_type(agent_tool(shop), Tool[..., Any, Shop])
    ReactiveAgents.create(deps=Branch).with_tools(agent_tool(shop), agent_tool(none), without).build()
    ReactiveAgents.create(deps=Bank).with_tools(agent_tool(shop), without)  # type: ignore[arg-type]


async def options_of_a_run(agent: ReactiveAgent) -> None:
    assert_type(await agent.run("Count.", output=Shop, tags=["a"], metadata={"a": [1]}), TypedResult[Shop])
    await agent.run("Count.", model="offline", budget={"tokens": 3, "calls": {"count": 1}}, approver=bool)
    await agent.run("Count.", budget={"token": 3})  # type: ignore[call-overload]
    await agent.run("Count.", model=3)  # type: ignore[call-overload]
    await agent.run("Count.", tags=3)  # type: ignore[call-overload]


def shop_text(ctx: RunContext[Shop]) -> str:
    return f"{ctx.deps.stock} left."


async def bank_text(ctx: RunContext[Bank]) -> str | None:
    return None


def keep(ctx: RunContext[Shop], definition: ToolDefinition) -> bool:
    return ctx.deps.stock > 0


def chosen(ctx: RunContext[Shop]) -> list[Tool | Callable[..., object]]:
    return [ctx.deps.left, shop_tool]


async def around(ctx: RunContext[Shop], call: ToolCall, run: RunTool) -> ToolResult:
    return await run({**call.arguments, "stock": ctx.deps.stock})


def plainly_around(
    ctx: RunContext[Shop], call: ToolCall, run: Callable[[Mapping[str, Json]], ToolResult]
) -> ToolResult:
    return run(call.arguments)


def no_wrapper(ctx: RunContext[Shop], call: ToolCall) -> None:
    return None


def tool_wrappers() -> None:
    ReactiveAgents.create(deps=Shop).with_tool_wrapper(around).with_tool_wrapper(plainly_around).build()
    ReactiveAgents.create(deps=Bank).with_tool_wrapper(around)  # type: ignore[arg-type]
    ReactiveAgents.create(deps=Shop).with_tool_wrapper(no_wrapper)  # type: ignore[arg-type]


def instructions_and_toolsets() -> None:
    builder = ReactiveAgents.create(deps=Shop)
    builder.with_instructions("Be brief.", shop_text, lambda: "Now.").build()
    builder.with_instructions(bank_text)  # type: ignore[arg-type]
    builder.with_toolset([of_shop, shop_tool, "calculator"], prefix="a_", filter=keep).build()
    builder.with_toolset(chosen, only=["left"]).build()
    builder.with_toolset([without, bank_tool])  # type: ignore[list-item]
    ReactiveAgents.create(deps=Bank).with_toolset(chosen)  # type: ignore[arg-type]
    ReactiveAgents.create(deps=Bank).with_toolset([without], filter=keep)  # type: ignore[arg-type]
    builder.with_mcp(McpServer("crm", command="crm"), filter=keep).build()
    ReactiveAgents.create(deps=Bank).with_mcp(McpServer("crm", command="crm"), filter=keep)  # type: ignore[arg-type]


def personas_with_dependencies() -> None:
    shops = ReactiveAgents.create(deps=Shop)
    Personas.create("Ada").with_domain("chat", shops, deps=Branch(1)).with_domain("code").build()
    made = shops.with_deps(opened)
    Personas.create("Ada").with_domain("chat", made).with_domain("code", made, deps=Shop(1)).build()
    Personas.create("Ada").with_domain("chat", shops)  # type: ignore[arg-type]
    Personas.create("Ada").with_domain("chat", shops, deps=Bank())  # type: ignore[misc]


def tools_of_any_signature(search: Tool) -> None:
    lead = ReactiveAgents.create().with_tools(search, agent_tool(ReactiveAgents.create().build()))
    assert_type(lead.build(), ReactiveAgent[AgentResult, None])
