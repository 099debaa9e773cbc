"""Whichever options an agent has, they hold together: one answer, paid, logged and recorded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from returns.future import FutureResult

from reactive_agents import AgentEvent, ReactiveAgent, ReactiveAgents, agent_tool, tool
from reactive_agents.core.messages import ToolMessage, UserMessage
from reactive_agents.core.models import ModelRequest, TokenPrice
from reactive_agents.effects import Effect, attempt
from tests.support.models import RuledLLM, Said
from tests.support.profiles import examples
from tests.support.sensible import sensible

STRATEGIES = ("reactive", "direct", "plan-execute-reflect", "reflexion", "tree-of-thought", "adaptive")
TASK = "What is 1 + 2? The key is tulip-4711."

Option = Callable[[ReactiveAgents[Any, Any], Path], ReactiveAgents[Any, Any]]
OPTIONS: Mapping[str, Option] = {
    "approval": lambda builder, _: builder.with_approval(lambda request: True),
    "audit": lambda builder, folder: builder.with_audit(folder / "audit.db"),
    "budget": lambda builder, _: builder.with_budget(tokens=100_000, cost_usd=50.0),
    "cost": lambda builder, folder: builder.with_cost(folder / "cost.db", daily_usd=100.0),
    "durability": lambda builder, folder: builder.with_durability(folder / "runs.db"),
    "guardrails": lambda builder, _: builder.with_guardrails(),
    "hook": lambda builder, _: builder.with_hook("think", "before", lambda context: None),
    "instructions": lambda builder, _: builder.with_instructions(lambda: "Be brief."),
    "memory": lambda builder, folder: builder.with_memory(folder / "memory.db"),
    "output type": lambda builder, _: builder.with_output_type(int),
    "redaction": lambda builder, _: builder.with_redaction("tulip-[0-9]+"),
    "run log": lambda builder, folder: builder.with_run_log(folder / "log.db"),
    "sessions": lambda builder, folder: builder.with_sessions(folder / "chats.db"),
    "verification": lambda builder, _: builder.with_verification(),
}
PLACES = ("tool", "toolset", "agent as tool", "handoff")
"""Where the tool is that the task needs."""


class Priced(RuledLLM):
    """A model with a price, so that budgets can hold it to one."""

    def price(self, model: str | None) -> Effect[TokenPrice | None, Any]:
        return FutureResult.from_value(TokenPrice(0.001, 0.001, max_output_tokens=10))


def rule(request: ModelRequest) -> Said:
    """Hand the question over, give it to the other agent, or add; once for each task."""
    asked = [
        at
        for at, message in enumerate(request.messages)
        if isinstance(message, UserMessage) and "1 + 2" in message.content
    ]
    request = evolve(request, messages=(request.messages[0], *request.messages[max(asked, default=1) :]))
    others = [each.name for each in request.tools if "adder" in each.name]
    if others and not any(isinstance(message, ToolMessage) for message in request.messages):
        handed: dict[str, object] = {"task": "What is 1 + 2?"} if others == ["adder"] else {}
        return others[0], handed
    return sensible(request)


def build(
    folder: Path, strategy: str, options: frozenset[str], place: str, *, direct: bool
) -> tuple[ReactiveAgent[Any, Any], Priced, list[int]]:
    """Return an agent, its model, and the sums that its tool has worked out."""
    llm, sums = Priced(rule), []

    @tool(requires_approval="approval" in options, return_direct=direct)
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        sums.append(a + b)
        return a + b

    builder: ReactiveAgents[Any, Any] = ReactiveAgents.create().with_llm(llm).with_reasoning(strategy)
    adder = ReactiveAgents.create().with_llm(llm).with_name("adder").with_reasoning().with_tools(add)
    if "approval" in options:
        adder = adder.with_approval(lambda request: True)
    match place:
        case "tool":
            builder = builder.with_tools(add)
        case "toolset":
            builder = builder.with_toolset([add], filter=lambda context, definition: True)
        case "agent as tool":
            builder = builder.with_tools(agent_tool(adder.build(), description="Adds numbers."))
        case _:
            builder = builder.with_handoffs(adder.build())
    for name in sorted(options):
        builder = OPTIONS[name](builder, folder)
    return builder.build(), llm, sums


async def check(
    folder: Path, strategy: str, options: frozenset[str], place: str, *, direct: bool, streamed: bool
) -> None:
    agent, llm, sums = build(folder, strategy, options, place, direct=direct)
    seen: list[AgentEvent] = []
    agent.subscribe(seen.append)
    given: dict[str, Any] = {"session": "talk"} if "sessions" in options else {}
    named = {**given, "run_id": "r"} if "durability" in options else given
    async with agent:
        if streamed:
            result: Any = [event async for event in agent.stream(TASK, **named)][-1]
            result = result.result
        else:
            result = await agent.run(TASK, **named)
        assert (str(result.output), result.status) == ("3", "completed"), result.reason
        asked, worked_out = len(llm.requests), len(sums)
        assert (result.metadata.model_calls, result.metadata.cost_usd) == (asked, asked * 0.25)
        own = [event.sequence for event in seen if event.run_id == result.run_id]
        assert own == [*range(1, len(own) + 1)]
        await _recorded_once(agent, asked * 0.25, options)
        if "durability" in options:
            again: Any = await agent.run(TASK, **named)
            assert (str(again.output), again.metadata, again.steps) == ("3", result.metadata, result.steps)
            assert (await agent.runs.replay("r")).difference == ""
            assert (len(llm.requests), len(sums)) == (asked, worked_out)
            await _recorded_once(agent, asked * 0.25, options)
        if "sessions" in options:
            following = await agent.run("And once more: what is 1 + 2?", **given)
            assert (str(following.output), following.status) == ("3", "completed"), following.reason


async def _recorded_once(agent: ReactiveAgent[Any, Any], paid: float, options: frozenset[str]) -> None:
    governance = agent.container.governance
    if "cost" in options:
        totals = (await attempt(governance.cost_tracker().unwrap().totals("agent"))).unwrap()
        assert sum(each.cost_usd for each in totals) == paid
    if "audit" in options:
        audit = (await attempt(governance.audit().unwrap().read())).unwrap()
        actions = [each.entry.action for each in audit]
        assert (actions.count("start"), actions.count("run")) == (1, 1)
    if "sessions" in options:
        messages = await agent.sessions.read("talk")
        assert sum(isinstance(message, UserMessage) for message in messages) == 1


@settings(examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(STRATEGIES),
    st.frozensets(st.sampled_from(sorted(OPTIONS))),
    st.sampled_from(PLACES),
    st.booleans(),
    st.booleans(),
)
def test_options_hold_together(
    tmp_path_factory: pytest.TempPathFactory,
    strategy: str,
    options: frozenset[str],
    place: str,
    direct: bool,
    streamed: bool,
) -> None:
    folder = tmp_path_factory.mktemp("agent")

    async def run() -> None:
        await check(folder, strategy, options, place, direct=direct, streamed=streamed)

    anyio.run(run)
    if "redaction" in options:
        files = [path for path in folder.iterdir() if not path.name.startswith("runs.db")]
        assert not [path.name for path in files if b"tulip-4711" in path.read_bytes()]
