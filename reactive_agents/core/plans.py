"""Plans and their steps, as strategies make and the plan store keeps them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from attrs import field, frozen

from reactive_agents.core.config import PlanMode as PlanMode
from reactive_agents.core.ids import AgentId, PlanId, TaskId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.values import Value

PlanStepType: TypeAlias = Literal["composite", "tool_call", "analysis"]
PlanStepStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "skipped"]
PlanStatus: TypeAlias = Literal["active", "completed", "failed", "abandoned"]


@frozen(eq=False, repr=False)
class PlanStep(Value):
    """One step of a plan.

    Attributes:
        id: ``s1``, ``s2``, …, unique in the plan.
        seq: position, from 1.
        tool_name: the tool of a ``tool_call`` step.
        tool_hints: the only tools that a ``composite`` step may use.
        depends_on: ids of steps that must be completed first.
        retries: attempts made after the first.
        expected_outcome: the expected result of the step; may be empty.
    """

    id: str
    seq: int
    title: str
    instruction: str
    type: PlanStepType
    tool_name: str | None = None
    tool_args: JsonObject = field(factory=dict)
    tool_hints: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    status: PlanStepStatus = "pending"
    result: str | None = None
    error: str | None = None
    retries: int = 0
    tokens_used: int = 0
    started_at: datetime | None = None
    completed_at: datetime | None = None
    expected_outcome: str = ""


@frozen(eq=False, repr=False)
class Plan(Value):
    """A goal and its steps.

    Attributes:
        version: grows by one with each change of the steps.
        owner: the owner of the plan's task, like the owner of a memory; empty for the agent's own.
    """

    id: PlanId
    task_id: TaskId
    agent_id: AgentId
    goal: str
    mode: PlanMode
    steps: tuple[PlanStep, ...]
    status: PlanStatus
    version: int
    created_at: datetime
    updated_at: datetime
    total_tokens: int = 0
    total_cost: float = 0.0
    owner: str = ""
