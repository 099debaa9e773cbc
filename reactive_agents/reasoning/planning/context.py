"""The values that all parts of a planning run share, and its current plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Concatenate, ParamSpec

from attrs import define, evolve, frozen
from returns.result import Failure

from reactive_agents.core.config import PlanExecuteConfig
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable, ServiceFailed
from reactive_agents.core.events import (
    PlanChange,
    PlanCreated,
    PlanEnded,
    PlanRevised,
    PlanStepChanged,
    PlanStoreFailed,
)
from reactive_agents.core.plans import Plan, PlanStatus, PlanStep
from reactive_agents.core.results import ReasoningStep
from reactive_agents.core.settings import ToolNeeds
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import Effect
from reactive_agents.kernel.answer_check import judge_text
from reactive_agents.kernel.answer_form import claims_in
from reactive_agents.kernel.evidence import Seen, ends_with_evidence, unsupported_figures
from reactive_agents.kernel.ledger import NO_CALLS
from reactive_agents.kernel.prompt import stable_prefix
from reactive_agents.kernel.service_calls import call_service, definitions_in
from reactive_agents.kernel.toolset import toolset_for
from reactive_agents.ports import PlanStore
from reactive_agents.reasoning import passes
from reactive_agents.reasoning.planning import schemas
from reactive_agents.reasoning.strategy import (
    StrategyInput,
    StrategyMeasure,
    StrategyServices,
    kernel_input,
    profile_of,
)

NAME = "plan-execute-reflect"


@frozen(eq=False)
class PlanningContext:
    """Input, services and tools of a planning run.

    ``tools``: as the model is shown them; ``needs``: with those that were derived from the task.
    """

    input: StrategyInput
    services: StrategyServices
    tools: tuple[ToolDefinition, ...]
    needs: ToolNeeds

    @property
    def config(self) -> PlanExecuteConfig:
        """The options of the strategy."""
        return self.input.config.strategies.plan_execute


def planning_context(strategy_input: StrategyInput, services: StrategyServices) -> PlanningContext:
    """Return the context of a run, with the tools that its kernel runs will have.

    Requirements that were derived from the task do not hold for steps: the plan itself is a better reading of
    it.
    """
    definitions = definitions_in(services.kernel.tools)
    detail = profile_of(strategy_input, services).schema_detail
    toolset = toolset_for(definitions, detail, allowed=None, answers_by_tool=False)
    needs = strategy_input.needs
    given = tuple(each for each in needs.required if not each.derived)
    planned = evolve(strategy_input, needs=evolve(needs, required=given))
    return PlanningContext(planned, services, toolset.offered, needs)


def needs_left(progress: passes.Progress, context: PlanningContext) -> ToolNeeds:
    """Return the needs that a plan can still meet, with the calls still to make."""
    now = passes.open_requirements_of_run(progress, context.input, context.services)
    return passes.requirements_left(context.input.needs, now)


def calls_under(progress: passes.Progress, prefixes: tuple[str, ...]) -> tuple[ReasoningStep, ...]:
    """Return all calls, and the results whose keys have the prefix."""
    return tuple(
        step for step in progress.steps if step.type == "action" or step.result_key.startswith(prefixes)
    )


def evidence_in(steps: tuple[ReasoningStep, ...], progress: passes.Progress, context: PlanningContext) -> str:
    """Return calls with their results, as many as the model's profile admits."""
    return passes.evidence_of_run(evolve(progress, steps=steps), context.input, context.services)


def evidence_of_composites(plan: Plan, progress: passes.Progress, context: PlanningContext) -> str:
    """Return the results of tools in composite steps, replaced ones included.

    The result of a ``tool_call`` step is that of the step itself.
    """
    shown = {step.id for step in plan.steps if step.type == "tool_call"}
    others = {step.result_key.partition(".")[0] for step in progress.steps} - shown - {""}
    steps = calls_under(progress, tuple(f"{step_id}." for step_id in others)) if others else ()
    return evidence_in(steps, progress, context)


# --- Whether the text of a step is a result, or the answer ---
# The checks are those that the answer of a reactive run has to pass.


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")


def is_answer(text: str, progress: passes.Progress, context: PlanningContext) -> bool:
    """Return whether the text of a step that a judge named can be sent as the answer.

    It plainly is one, or else some sentence of it bears evidence of what was found, and it announces nothing.
    Nothing in it is made up. Without tools every text is an answer.
    """
    if not context.tools:
        return bool(text.strip())
    seen = _seen(progress, context)
    judgement = judge_text(text, _described(context), seen)
    if judgement == "unclear" and any(ends_with_evidence(each, seen) for each in _SENTENCE_END.split(text)):
        judgement = "answer"
    return judgement == "answer" and not unsupported_figures(claims_in(text, context.input.answer_form), seen)


def problem_of(step: PlanStep, progress: passes.Progress, context: PlanningContext) -> str:
    """Return why a text is not the result of an analysis; empty when it is.

    Figures that nothing supports are questioned once, as in a reactive run, since they may be estimates.
    """
    text = step.result or ""
    if step.type != "analysis" or not context.tools:
        return ""
    seen = _seen(progress, context)
    if judge_text(text, _described(context), seen) == "announcement":
        return "It announced the result, and did not give it."
    told = f"{seen.told}\n{step.instruction}"
    claims = claims_in(text, context.input.answer_form)
    figures = () if step.retries else unsupported_figures(claims, evolve(seen, told=told))
    return f"Nothing that was found supports: {', '.join(figures)}." if figures else ""


def _seen(progress: passes.Progress, context: PlanningContext) -> Seen:
    given = context.input
    told = "\n".join(message.content for message in stable_prefix(kernel_input(given)))
    earlier = given.earlier.stored if given.earlier is not None else {}
    return Seen(given.task_description, (*earlier.values(), *progress.tool_results.values()), told)


def _described(context: PlanningContext) -> Mapping[str, str]:
    return {tool.name: tool.description for tool in context.tools}


_P = ParamSpec("_P")


@define(eq=False)
class PlanJournal:
    """The one place where the plan of a run changes.

    A store that fails is reported once and not asked again: the run continues without it.

    Attributes:
        before: the plan's tokens and cost before this run.
        store: ``None`` when there is none, or when it has failed.
    """

    plan: Plan
    measure: StrategyMeasure
    services: StrategyServices
    before: tuple[int, float]
    store: PlanStore | None

    @classmethod
    def of(cls, plan: Plan, measure: StrategyMeasure, services: StrategyServices) -> PlanJournal:
        """Return the journal of a plan, without publishing anything yet."""
        before = plan.total_tokens, plan.total_cost
        return cls(plan, measure, services, before, services.plans.value_or(None))

    async def begin(self, *, resumed: bool) -> None:
        """Publish and store the plan."""
        plan = self.plan
        self.services.kernel.publish(
            PlanCreated, plan_id=plan.id, goal=plan.goal, mode=plan.mode, steps=plan.steps, resumed=resumed
        )
        await self._save()

    async def change_step(self, step: PlanStep) -> None:
        """Replace the step with the same id."""
        steps = tuple(step if each.id == step.id else each for each in self.plan.steps)
        self.plan = evolve(self.plan, steps=steps, updated_at=self.services.kernel.clock.now())
        self.services.kernel.publish(
            PlanStepChanged,
            plan_id=self.plan.id,
            step_id=step.id,
            title=step.title,
            status=step.status,
            error=step.error or "",
            retries=step.retries,
        )
        if self.store is not None:
            await self._keep(self.store, PlanStore.update_step, self.plan.id, step)

    async def revise(self, plan: Plan, change: PlanChange) -> None:
        """Replace the plan by one with other steps."""
        self.plan = plan
        pending = tuple(step for step in plan.steps if step.status == "pending")
        self.services.kernel.publish(
            PlanRevised, plan_id=plan.id, version=plan.version, change=change, steps=pending
        )
        await self._save()

    async def end(self, status: PlanStatus) -> None:
        """Publish and store the last status of the plan."""
        self.plan = evolve(self.plan, status=status, updated_at=self.services.kernel.clock.now())
        self.services.kernel.publish(PlanEnded, plan_id=self.plan.id, status=status)
        await self._save()

    async def _save(self) -> None:
        spent = self.services.meter.usage.since(self.measure.spent)
        tokens, cost = self.before
        self.plan = evolve(
            self.plan, total_tokens=tokens + spent.usage.total_tokens, total_cost=cost + spent.cost_usd
        )
        if self.store is not None:
            await self._keep(self.store, PlanStore.save, self.plan)

    async def _keep(
        self,
        store: PlanStore,
        write: Callable[Concatenate[PlanStore, _P], Effect[None, MemoryErrors]],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> None:
        kept = await call_service("plan store", store, write, None, *args, **kwargs)
        if not isinstance(kept, Failure):
            return
        self.store = None
        error = kept.failure()
        if isinstance(error, ServiceFailed):
            error = MemoryUnavailable(error.message, error.operation)
        self.services.kernel.publish(PlanStoreFailed, plan_id=self.plan.id, error=error)


# --- Changes of a plan while it runs. Pure, and none of them touches a step that is completed ---


def apply_patch(plan: Plan, failed_id: str, replacement: schemas.LLMPlanStep, now: datetime) -> Plan:
    """Return the plan with one step rewritten and pending, unless it is completed."""
    changed = tuple(
        schemas.hydrate_step(replacement, step_id=step.id, seq=step.seq)
        if step.id == failed_id and step.status != "completed"
        else step
        for step in plan.steps
    )
    return plan if changed == plan.steps else _changed(plan, changed, now)


def replace_remaining(plan: Plan, output: schemas.LLMPlanOutput, now: datetime) -> Plan:
    """Return the plan with new steps, of new ids, for all that are not completed."""
    kept = tuple(step for step in plan.steps if step.status == "completed")
    return _changed(plan, kept + _added(plan, output), now)


def apply_augment(plan: Plan, output: schemas.LLMPlanOutput, now: datetime) -> Plan:
    """Return the plan with supplementary steps at its end."""
    return _changed(plan, plan.steps + _added(plan, output), now)


def _added(plan: Plan, output: schemas.LLMPlanOutput) -> tuple[PlanStep, ...]:
    first, position = schemas.next_number(plan.steps), schemas.next_position(plan.steps)
    return schemas.hydrate_steps(output.steps, first=first, position=position)


def _changed(plan: Plan, steps: tuple[PlanStep, ...], now: datetime) -> Plan:
    return evolve(plan, steps=steps, version=plan.version + 1, updated_at=now)


# --- A stored plan that goes on in another run ---


def resumed_plan(plan: Plan, definitions: Sequence[ToolDefinition], now: datetime) -> Plan:
    """Return a stored plan in the form in which it can continue. Pure.

    Completed steps keep their results. A step that was under way when its run was killed may have taken
    effect. It is run again if that does no harm, because it called no tool or only idempotent ones; otherwise
    it counts as failed, with the reason.
    """
    idempotent = {definition.name for definition in definitions if definition.idempotent}
    steps = tuple(_resumed(step, idempotent) for step in plan.steps)
    return evolve(plan, steps=steps, status="active", version=plan.version + 1, updated_at=now)


def earlier_progress(plan: Plan, progress: passes.Progress) -> passes.Progress:
    """Return the progress with the results and calls of completed steps; pure.

    Calls that it already has, for example from an earlier attempt of the same run, do not count twice.
    """
    done = [step for step in plan.steps if step.type == "tool_call" and step.status == "completed"]
    called = [(step, step.tool_name) for step in done if step.tool_name]
    results = {f"{step.id}.{name}-1": step.result or "" for step, name in called}
    made = NO_CALLS.with_calls((name, True) for _, name in called)
    return evolve(
        progress, tool_results={**results, **progress.tool_results}, calls=progress.calls.at_least(made)
    )


def _resumed(step: PlanStep, idempotent: set[str]) -> PlanStep:
    if step.status != "in_progress":
        return step
    tools = (step.tool_name or "",) if step.type == "tool_call" else step.tool_hints
    harmless = step.type == "analysis" or (bool(tools) and idempotent.issuperset(tools))
    if harmless:
        return evolve(step, status="pending", started_at=None)
    said = f"tool {tools[0]} is" if len(tools) == 1 else "tools are"
    reason = (
        "An earlier run was ended in the middle of this step, which may have taken effect; "
        f"it is not run again, since its {said} not idempotent."
    )
    return evolve(step, status="failed", error=reason)
