"""A plan for a step that is too large for one go: its steps take its place, down to a depth."""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure

from reactive_agents.core.persona_events import PersonaStepExpanded
from reactive_agents.core.personas import PersonaPlan
from reactive_agents.core.plans import PlanStep
from reactive_agents.effects import attempt
from reactive_agents.persona.cycle import Cycle
from reactive_agents.persona.drafts import contingencies_of, plan_shape, with_large_steps
from reactive_agents.persona.plan_changes import depth_of, expand_step
from reactive_agents.persona.prompts import EXPANDING, expansion_content
from reactive_agents.reasoning.structured import Question, ask_structured


async def expand_large_step(plan: PersonaPlan, step: PlanStep, cycle: Cycle) -> PersonaPlan | None:
    """The plan with a plan of its own for the step.

    ``None`` when the step is not large, or stands at the depth limit already, or when the model gives no
    usable plan for it: it is then executed as it is.
    """
    settings = cycle.settings
    if step.id not in plan.large_steps or depth_of(plan, step.id) >= settings.max_depth:
        return None
    content = expansion_content(plan, step, tools=cycle.domain.tool_names())
    question = Question(plan_shape(), EXPANDING, content, "persona-plan", model=settings.planning_model)
    asking = cycle.asking(plan.task.description, settings.timeouts.planning_s)
    answered = await attempt(ask_structured(question, *asking))
    if isinstance(answered, Failure):
        await cycle.fail_stage("plan", answered.failure())
        return None
    draft = answered.unwrap().value
    expanded = expand_step(plan, step.id, draft.actions(), cycle.services.clock.now())
    ids = expanded.expansions[-1].steps
    known = {each.kind for each in plan.contingencies}
    foreseen = tuple(each for each in contingencies_of(draft) if each.kind not in known)
    expanded = evolve(with_large_steps(expanded, draft, ids), contingencies=(*plan.contingencies, *foreseen))
    await cycle.kept("record", cycle.services.store.save_plan(expanded), None)
    added = tuple(each for each in expanded.plan.steps if each.id in ids)
    await cycle.tell(
        PersonaStepExpanded(*cycle.events.stamp(), plan_id=plan.id, step_id=step.id, steps=added)
    )
    return expanded
