"""The laboratory itself: its tasks can be solved, its slips happen, and a seed repeats a run."""

from __future__ import annotations

import random

import pytest
from attrs import evolve

from reactive_agents.core.config import ContextProfile
from tests.lab.laboratory import Figures, run_tasks
from tests.lab.slips import BY_TEXT, CAPABLE, SLIPS, WEAK, of_one_kind
from tests.lab.tasks import FAMILIES, Family, LabTask


def some(count: int) -> list[tuple[Family, LabTask]]:
    """Return new tasks of each family; they hold the state of their tools."""
    return [(family, family.task(number)) for family in FAMILIES for number in range(count)]


def test_a_capable_model_solves_every_family() -> None:
    figures = run_tasks(some(1), CAPABLE)
    wrong = [(o.task_id, o.status, o.output) for o in figures.outcomes if o.ending != "right"]
    assert wrong == []
    assert not figures.slips


@pytest.mark.system
def test_tasks_that_cannot_be_done_end_as_abstained_and_that_is_right() -> None:
    tasks = [(family, family.task(number)) for family in FAMILIES for number in range(3)]
    impossible = [each for each in tasks if not each[1].can_be_done]
    for profile in (evolve(CAPABLE, answers_by_text=0.0), evolve(WEAK, answers_by_text=0.0, rate=0.25)):
        outcomes = run_tasks(impossible, profile).outcomes
        assert {outcome.ending for outcome in outcomes} == {"right"}
        assert "abstained" in {outcome.status for outcome in outcomes}
    done = run_tasks([each for each in tasks if each[1].can_be_done], CAPABLE).outcomes
    assert "abstained" not in {outcome.status for outcome in done}


@pytest.mark.system
def test_a_capable_model_that_answers_by_text_is_not_asked_again() -> None:
    by_tool, by_text = (run_tasks(some(1), evolve(BY_TEXT, answers_by_text=share)) for share in (0.0, 1.0))
    pairs = list(zip(by_tool.outcomes, by_text.outcomes, strict=True))
    more = [text.task_id for tool, text in pairs if text.calls > tool.calls]
    assert more == []
    assert by_text.count("right") == len(pairs)


@pytest.mark.system
def test_the_shorter_texts_of_local_models_cost_no_right_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> Figures:
        return run_tasks(some(2), WEAK, build=lambda builder: builder.with_context_profile(tier="local"))

    brief = run()
    monkeypatch.setattr(ContextProfile, "is_brief", False)
    usual = run()
    assert brief.count("right") >= usual.count("right")
    assert brief.count("false success") <= usual.count("false success")
    assert brief.prompt_tokens < 0.98 * usual.prompt_tokens


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_right_answer_is_right_and_the_plausible_one_wrong(family: Family) -> None:
    for number in range(20):
        task = family.task(number)
        acts = any(not definition.definition.idempotent for definition in task.tools)
        assert not task.is_right(task.wrong)
        if not (acts or task.family in ("report", "booking", "order")):
            assert task.is_right(task.answer)


@pytest.mark.system
def test_every_kind_of_slip_happens() -> None:
    chosen = [
        family
        for family in FAMILIES
        if family.name in ("failing tool", "manager", "conversion", "restraint", "slogan")
    ]

    def happens(kind: str) -> bool:
        profile = of_one_kind(kind, 1.0)
        return any(kind in run_tasks([(family, family.task(0))], profile).slips for family in chosen)

    never = [kind for kind in SLIPS if not happens(kind)]
    assert never == []


def test_a_seed_repeats_a_run() -> None:
    def run() -> object:
        return run_tasks([(family, family.task(0)) for family in FAMILIES[::3]], WEAK, seed=7).outcomes

    assert run() == run()


def test_families_are_split_in_halves() -> None:
    halves = [family.half for family in FAMILIES]
    assert halves.count("tuning") == halves.count("held-back") >= 6
    texts = [family.task(number).text for family in FAMILIES for number in range(50)]
    assert len(set(texts)) == len(texts)


def test_a_seed_makes_the_same_tasks() -> None:
    family = random.Random(0).choice(FAMILIES)
    assert family.task(3, 1).text == family.task(3, 1).text != family.task(3, 2).text


def test_a_weak_model_slips_in_half_of_its_turns() -> None:
    figures = run_tasks(some(1), WEAK)
    assert 0.3 < sum(figures.slips.values()) / figures.calls < 0.7
