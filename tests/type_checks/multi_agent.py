# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Handoffs, questions and external calls, as type checkers see them."""

from __future__ import annotations

from typing import Any, assert_type

from returns.result import Result

from reactive_agents import AgentResult, ReactiveAgents, Tool, external_tool, handoff, without_tool_calls
from reactive_agents.core.errors import RequestNotPending
from reactive_agents.core.governance import ExternalCallRequest, QuestionRequest
from reactive_agents.core.ids import RequestId, RunId

inner = ReactiveAgents.create().with_model("offline").build()
agent = (
    ReactiveAgents.create()
    .with_model("offline")
    .with_handoffs(inner, handoff(inner, name="other", filter=without_tool_calls), "shop.agents:billing")
    .with_ask_user(lambda question: question.options[0])
    .build()
)
ReactiveAgents.create().with_handoffs(7)  # type: ignore[arg-type]
ReactiveAgents.create().with_ask_user(lambda question: 7)  # type: ignore[arg-type, return-value]


shipping = external_tool("ship", {"type": "object"}, description="Ship.")
assert_type(shipping, Tool[..., Any, object])


async def main() -> None:
    result = await agent.run("Do it.")
    assert_type(result, AgentResult)
    assert_type(result.handoffs, tuple[str, ...])
    assert_type(agent.pending_questions(), tuple[QuestionRequest, ...])
    assert_type(agent.pending_calls(), tuple[ExternalCallRequest, ...])
    answered = await agent.answer(RunId("r"), RequestId("q"), "text")
    assert_type(answered, Result[None, RequestNotPending])
    assert_type(agent.deliver(RunId("r"), RequestId("q"), [1]).result, Result[None, RequestNotPending])
