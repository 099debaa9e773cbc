"""What a model fills in: the content of a plan, and its judgement of what the plan came to."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen
from attrs.validators import and_, ge, le, max_len, min_len

from reactive_agents.core.json import JsonObject
from reactive_agents.core.plans import PlanStepType

MOST_STEPS = 50
"""Steps that one plan, or one addition to it, may have."""

Verdict: TypeAlias = Literal["SATISFIED", "UNSATISFIED"]


@frozen
class LLMPlanStep:
    """One step of a plan.

    Attributes:
        title: a few words for people.
        instruction: what exactly is to be done in this step.
        type: how the step is run.
        tool_name: the tool of a tool_call step.
        tool_args: the arguments of a tool_call step.
        tool_hints: the only tools that a composite step may use.
        depends_on: ids of steps that must be completed before this one.
    """

    title: str = field(validator=min_len(1))
    instruction: str = field(validator=min_len(1))
    type: PlanStepType
    tool_name: str | None = None
    tool_args: JsonObject = field(factory=dict)
    tool_hints: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()


@frozen
class LLMPlanOutput:
    """The steps that lead to the goal, in the order in which they are to be done."""

    steps: tuple[LLMPlanStep, ...] = field(validator=and_(min_len(1), max_len(MOST_STEPS)))


@frozen
class Reflection:
    """Whether the results of a plan reach its goal.

    Attributes:
        verdict: SATISFIED when the results do all that the task asks for.
        confidence: how sure that is, 0 to 1.
        missing: what is still missing, one item for each thing.
        answer_step: id of the step whose result is the complete answer as it stands; null for none.
    """

    verdict: Verdict
    confidence: float = field(validator=and_(ge(0.0), le(1.0)))
    missing: tuple[str, ...] = ()
    answer_step: str | None = None
