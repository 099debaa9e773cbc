"""An agent as a tool of another."""

from __future__ import annotations

import re
from typing import Any, TypeVar, cast, overload

from returns.result import Failure

from reactive_agents.adapters.tools.decorator import Tool, tool
from reactive_agents.adapters.tools.execution import ToolReport
from reactive_agents.agent.agent import ReactiveAgent
from reactive_agents.agent.errors import AgentError
from reactive_agents.core.errors import ToolFailed, root_cause
from reactive_agents.core.run_context import RunContext
from reactive_agents.core.tasks import TaskResult, TaskResultMetadata
from reactive_agents.core.usage import RunUsage

TIMEOUT_S = 300.0

_Deps = TypeVar("_Deps")


@overload
def agent_tool(
    agent: ReactiveAgent[Any, None],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_s: float = TIMEOUT_S,
    requires_approval: bool = False,
) -> Tool[..., Any, object]: ...


@overload
def agent_tool(
    agent: ReactiveAgent[Any, _Deps],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_s: float = TIMEOUT_S,
    requires_approval: bool = False,
) -> Tool[..., Any, _Deps]: ...


def agent_tool(
    agent: ReactiveAgent[Any, Any],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_s: float = TIMEOUT_S,
    requires_approval: bool = False,
) -> Tool:
    """Return a tool that gives a task to an agent and returns its answer.

    An agent that was created with ``deps`` is given those of its caller, which have to be of its type.

    The agent keeps to its own limits and budget, and reserves each model call from those of its caller too.
    Its tokens and cost are added to the caller's as they arise, also when it fails or is cancelled.
    A partial answer is marked as one, with what is missing; one that abstained says why the task cannot be
    done.

    Args:
        name: by default the agent's, with ``-`` for characters that a tool's name may not have.
        description: of the tasks that the agent is for, by which the caller's model chooses.
        timeout_s: seconds that one task may take, above 0; then it is cancelled.
    """

    async def ask(ctx: RunContext[Any], task: str) -> ToolReport:
        try:
            if agent.deps_type is None:
                result = await agent.run(task)
            else:
                result = await agent.run(task, deps=ctx.deps)
        except AgentError as error:
            failed = Failure(ToolFailed(chosen, root_cause(error.error).message, type(error.error).__name__))
            return ToolReport(failed, _usage(error.metadata))
        return ToolReport(_answer(result), _usage(result.metadata))

    if agent.deps_type is not None:  # the builder of the caller compares it with its own
        ask.__annotations__["ctx"] = cast(Any, RunContext)[agent.deps_type]
    chosen = name or re.sub(r"[^A-Za-z0-9_-]+", "-", agent.name)[:64]
    text = description or f"Give a task to the agent {agent.name} and get its answer."
    return tool(
        name=chosen,
        description=text,
        timeout_s=timeout_s,
        requires_approval=requires_approval,
        resumable=True,
    )(ask)


def _answer(result: TaskResult[Any]) -> str:
    text = result.text or ""
    if result.status == "completed":
        return text
    if result.status == "abstained":
        return f"{result.reason}\n\n{text or 'There is no text.'}"
    return f"Only a {result.status} answer. {result.reason}\n\n{text or 'There is no text.'}"


def _usage(figures: TaskResultMetadata | None) -> tuple[RunUsage, ...]:
    if figures is None:
        return ()
    total = RunUsage("", figures.usage, figures.cost_usd, figures.model_calls, figures.unpriced_calls)
    return figures.models or (total,)
