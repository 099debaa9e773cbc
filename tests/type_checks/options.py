"""A misspelt option, or one of a wrong type, is an error to a type checker."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
from collections.abc import Mapping
from typing import Any, assert_type

from reactive_agents import (
    ApprovalDecision,
    ModelSettings,
    Personas,
    ReactiveAgents,
    RunContext,
    external_tool,
    tool,
)
from reactive_agents.core.config import ReactiveConfig
from reactive_agents.core.ids import ApprovalId, RunId

agents = ReactiveAgents.create()

agents.with_reasoning("reactive", strategies={"reactive": {"temperature": 0.2}}, kernel="react")
agents.with_reasoning(
    strategies={"reactive": ReactiveConfig(temperature=None)}, compaction={"method": "drop"}
)
agents.with_reasoning(temprature=1)  # type: ignore[call-arg]
agents.with_reasoning(parallel_tool_calls="no")  # type: ignore[arg-type]
agents.with_reasoning(strategies={"reactive": {"temprature": 1}})  # type: ignore[arg-type]
agents.with_reasoning(strategies={"reactiv": {}})  # type: ignore[arg-type]
agents.with_reasoning(compaction={"method": "forget"})  # type: ignore[arg-type]

agents.with_context_profile("mid", tool_result_chars=4000)
agents.with_context_profile(tool_result_char=4000)  # type: ignore[call-arg]
agents.with_result_compression(head_share=0.5, transform={"search": "matches[*].path"})
agents.with_result_compression(headshare=0.5)  # type: ignore[call-arg]
agents.with_content(max_bytes=5_000_000, model_takes=["image"])
agents.with_content(max_byte=5_000_000)  # type: ignore[call-arg]

personas = Personas.create("Ada")
personas.with_options(role="A clerk.", learning={"shown": 3}, reuse_above=0.9)
personas.with_options(rol="A clerk.")  # type: ignore[call-arg]
personas.with_options(learning={"show": 3})  # type: ignore[arg-type]

ModelSettings(temperature=None, stop=["END"], reasoning_effort="low")
ModelSettings(temperature="warm")  # type: ignore[arg-type]
ModelSettings(reasoning_effort="a lot")  # type: ignore[arg-type]
ModelSettings(temprature=0.2)  # type: ignore[call-arg]
agents.with_model("offline", settings=ModelSettings(top_p=0.5))
agents.with_model_settings({"top_p": 0.5})  # type: ignore[arg-type]
agents.with_rate_limit(request_per_minute=3)  # type: ignore[call-arg]


def is_large(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments["euros"] > 50)


async def is_large_for(ctx: RunContext[int], arguments: dict[str, Any]) -> bool:
    return bool(arguments["euros"] > ctx.deps)


def is_named(name: str) -> bool:
    return bool(name)


def refund(euros: int) -> str:
    return "refunded"


for decorator in (
    tool(requires_approval=lambda arguments: arguments["euros"] > 50),
    tool(requires_approval=lambda ctx, arguments: arguments["euros"] > 50 and ctx.user is None),
    tool(requires_approval=is_large),
    tool(requires_approval=is_large_for),
):
    agents.with_tools(decorator(refund))
tool(requires_approval=is_named)  # type: ignore[arg-type]
tool(requires_approval="always")  # type: ignore[call-overload]

FORM = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
DAYS = {"days": 2}
agents.with_tools(tool(name="holiday", parameters=FORM)(refund), external_tool("go", FORM, description="Go."))
agents.with_session_state(DAYS)
ApprovalDecision(True, arguments=DAYS)
ApprovalDecision(True, arguments=["days"])  # type: ignore[arg-type]


async def run() -> None:
    agent = agents.build()
    agent.approve(RunId("r"), ApprovalId("a"), arguments=DAYS)
    await agent.runs.approve("r", arguments=DAYS)
    result = await agent.run("Hello?", settings=ModelSettings(seed=7))
    assert_type(result.output, str | None)
    await agent.run("Hello?", settings={"seed": 7})  # type: ignore[call-overload]


def overridden() -> None:
    with agents.build().override(model="offline", settings=ModelSettings(seed=7), budget={"requests": 3}):
        pass
    with ReactiveAgents.create(deps=int).build().override(deps=3):
        pass
    with ReactiveAgents.create(deps=int).build().override(deps="three"):  # type: ignore[arg-type]
        pass
    with agents.build().override(modle="offline"):  # type: ignore[call-arg]
        pass
