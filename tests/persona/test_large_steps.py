"""Steps that get a plan of their own, down to a depth."""

from __future__ import annotations

import pytest

from reactive_agents.core.codec import to_json
from reactive_agents.core.persona_events import PersonaStageFailed, PersonaStepExpanded
from reactive_agents.persona.plan_changes import PlanDraft, StepDraft
from reactive_agents.testing import ScriptedLLM, Turn, say
from tests.support.personas import PLANNING, assessed, persona_bench

pytestmark = pytest.mark.anyio

EXPANDING = "Make a plan for one step of a larger plan"


def drafted(*steps: StepDraft, when: str) -> Turn:
    return say(to_json(PlanDraft("The goal.", steps, ("It is there.",))), when=when)


def large(action: str) -> StepDraft:
    return StepDraft(action, large=True)


async def test_a_large_step_gets_a_plan_whose_steps_take_its_place() -> None:
    llm = ScriptedLLM(
        drafted(large("Study the matter."), StepDraft("Write it up."), when=PLANNING),
        drafted(StepDraft("Find sources."), StepDraft("Compare them."), when=EXPANDING),
        say("Two sources.", when="Find sources.\n"),
        say("They agree.", when="Compare them.\n"),
        say("Both agree on it.", when="Write it up.\n"),
        assessed(),
    )
    bench = persona_bench(llm)
    outcome = await bench.process()
    assert (outcome.status, outcome.answer) == ("completed", "Both agree on it.")
    assert outcome.plan is not None
    assert [(step.id, step.instruction, step.status) for step in outcome.plan.plan.steps] == [
        ("s1", "Study the matter.", "completed"),
        ("s3", "Find sources.", "completed"),
        ("s4", "Compare them.", "completed"),
        ("s2", "Write it up.", "completed"),
    ]
    assert outcome.evaluation is not None
    assert outcome.evaluation.steps_executed == 3
    (expanded,) = bench.recorder.of(PersonaStepExpanded)
    assert (expanded.step_id, [step.id for step in expanded.steps]) == ("s1", ["s3", "s4"])


@pytest.mark.parametrize(("max_depth", "planned"), [(1, 0), (2, 1), (3, 2)])
async def test_the_depth_is_limited(max_depth: int, planned: int) -> None:
    llm = ScriptedLLM(
        drafted(large("Level one."), when=PLANNING),
        drafted(large("Level two."), when="<step>\nLevel one.\n</step>"),
        drafted(large("Level three."), when="<step>\nLevel two.\n</step>"),
        *(
            say(f"{level} is done.", when=f"{level}.\n\n")
            for level in ("Level one", "Level two", "Level three")
        ),
        assessed(),
    )
    bench = persona_bench(llm, max_depth=max_depth)
    outcome = await bench.process()
    assert len(bench.recorder.of(PersonaStepExpanded)) == planned
    assert outcome.answer == ("Level one is done.", "Level two is done.", "Level three is done.")[planned]


async def test_a_large_step_without_a_usable_plan_is_executed_as_it_is() -> None:
    llm = ScriptedLLM(
        drafted(large("Study the matter."), when=PLANNING),
        *[say("No plan.", when=EXPANDING)] * 3,
        say("Studied.", when="Study the matter.\n"),
        assessed(),
    )
    bench = persona_bench(llm)
    outcome = await bench.process()
    assert (outcome.status, outcome.answer) == ("completed", "Studied.")
    assert [event.stage for event in bench.recorder.of(PersonaStageFailed)] == ["plan"]
