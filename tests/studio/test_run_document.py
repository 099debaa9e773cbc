"""The document of a run: linear in the events of any file, which no event makes fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve

from reactive_agents.core.ids import RunId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.run_record import LoggedEvent, LoggedRun
from reactive_agents.studio.run_document import (
    KnownEvents,
    RunTimeline,
    compare,
    place_children,
    timeline_of,
    tool_call_details,
)
from tests.support.operations import assert_linear, operations_of

START = datetime(2026, 1, 1, tzinfo=UTC)
RUN = LoggedRun(RunId("r"), "clerk", START, "Do it.")
Bodies = Iterable[tuple[str, JsonObject]]


def timeline_from(bodies: Bodies) -> RunTimeline:
    events = [
        LoggedEvent(RUN.run_id, number, START + timedelta(milliseconds=number), kind, "", body)
        for number, (kind, body) in enumerate(bodies, 1)
    ]
    return timeline_of(RUN, events)


def steps(number: int, status: str = "pending") -> list[Json]:
    return [{"id": f"s{each}", "status": status} for each in range(number)]


def calls(number: int) -> Bodies:
    return [("ToolCallStarted", {"tool_name": "look", "call_id": str(each)}) for each in range(number)]


HOSTILE: dict[str, Callable[[int], Bodies]] = {
    "calls that never end": calls,
    "requests that never end": lambda many: [
        ("ModelCallStarted", {"model_call": each, "purpose": "think"}) for each in range(many)
    ],
    "resumed with many open questions": lambda many: [
        *[("QuestionAsked", {"question_id": str(each)}) for each in range(many)],
        *[("ExecutionResumed", {})] * many,
    ],
    "a long plan, step by step": lambda many: [
        ("PlanCreated", {"steps": steps(many)}),
        *[("PlanStepChanged", {"step_id": f"s{each}", "status": "done"}) for each in range(many)],
    ],
    "a plan that grows": lambda many: [
        ("PlanCreated", {}),
        *[("PlanRevised", {"steps": [{"id": f"s{each}", "status": "done"}]}) for each in range(many)],
    ],
    "a long plan, revised again and again": lambda many: [
        ("PlanCreated", {"steps": steps(many, "done")}),
        *[("PlanRevised", {"steps": []})] * many,
    ],
    "a tree that grows": lambda many: [
        ("ThoughtsJudged", {"thoughts": [{"id": f"n{each}"}]}) for each in range(many)
    ],
    "arguments that are changed again and again": lambda many: [
        *calls(1),
        *[("ApprovalDecided", {"call_id": "0", "approved": True, "arguments": {"a": 1}})] * many,
    ],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_timeline_is_linear_in_its_events(name: str) -> None:
    assert_linear(lambda many: timeline_from(HOSTILE[name](many)), 200)


@pytest.mark.parametrize("name", HOSTILE)
def test_two_runs_of_any_events_are_compared(name: str) -> None:
    one, other = (
        timeline_from(HOSTILE[name](1_200)),
        timeline_from([("PlanCreated", {}), *HOSTILE[name](1_200)]),
    )
    assert len(compare(one, other)["pairs"]) >= len(compare(one, one)["pairs"])  # type: ignore[arg-type]


def test_many_rows_after_the_first_difference_are_compared_by_position() -> None:
    def compared(number: int) -> int:
        one, other = (timeline_from([(kind, {}), *calls(number)]) for kind in ("PlanCreated", "HandedOff"))
        return operations_of(lambda: compare(one, other))

    assert compared(4_000) < 5 * compared(1_001)


def test_a_plan_keeps_what_was_done_and_takes_the_new_steps() -> None:
    timeline = timeline_from(
        [
            ("PlanCreated", {"goal": "Pay.", "mode": "linear", "steps": steps(4)}),
            ("PlanStepChanged", {"step_id": "s0", "status": "completed", "title": "Look"}),
            ("PlanRevised", {"change": "changed", "version": 2, "steps": [{"id": "s2"}, {"id": "new"}]}),
            ("PlanEnded", {"status": "completed"}),
        ]
    )
    assert timeline.plan is not None
    assert [(each["id"], each["status"]) for each in timeline.plan["steps"]] == [
        ("s0", "completed"),
        ("s2", "pending"),
        ("new", "pending"),
    ]
    assert (timeline.plan["status"], timeline.plan["version"]) == ("completed", 2)


def test_numbers_of_events_may_be_far_apart() -> None:
    known = KnownEvents()
    for number, kind in ((1, "ToolCallStarted"), (10**15, "ApprovalRequested"), (10**16, "Other")):
        body: JsonObject = {"tool_name": "look", "call_id": "c", "risk": "high"}
        known.by_number[number] = LoggedEvent(RUN.run_id, number, START, kind, "", body)
    timeline = timeline_of(RUN, known.by_number.values())
    row = timeline.row(1)
    assert row is not None
    assert tool_call_details(row, known)["approval"] == {
        "risk": "high",
        "copied": None,
        "notice": None,
        "approved": None,
        "reason": "",
    }
    row.end = 2
    assert tool_call_details(row, known)["shown"] is None


@pytest.mark.parametrize(
    "names", [{"call_id": "c"}, {}], ids=["named", "of a version whose steps name no call"]
)
def test_the_details_of_a_call_have_its_steps(names: JsonObject) -> None:
    action = json.dumps({"tool": "look", "arguments": {}})
    intended: JsonObject = {**names, "action": action, "copied": ["$.at"], "repairs": []}
    other: JsonObject = {
        "action": json.dumps({"tool": "pay"}),
        "copied": [],
        **({"call_id": "d"} if names else {}),
    }
    observed = ("ReasoningStepCompleted", {**names, "observation": "It is blue."})
    call: JsonObject = {"tool_name": "look", "call_id": "c"}
    ended = ("ToolCallCompleted", {**call, "success": True, "result": "It is blue."})
    bodies: Bodies = [
        ("ReasoningStepCompleted", intended),
        ("ReasoningStepCompleted", other),
        ("ToolCallStarted", call),
        *([ended, observed] if names else [observed, ended]),
    ]
    timeline, known = timeline_from(bodies), KnownEvents()
    for number, (kind, body) in enumerate(bodies, 1):
        known.by_number[number] = LoggedEvent(RUN.run_id, number, START, kind, "", body)
    (row,) = (each for each in timeline.rows if each.kind == "tool")
    details = tool_call_details(row, known)
    assert (details["shown"], details["copied"]) == ("It is blue.", ["$.at"])


def test_sub_runs_are_placed_with_one_look_at_each_call() -> None:
    def placed(number: int) -> RunTimeline:
        bodies: list[tuple[str, JsonObject]] = []
        for each in range(number):
            call: JsonObject = {"tool_name": f"agent{each % 2}", "call_id": str(each), "duration_ms": 1.0}
            bodies += [("ToolCallStarted", call), ("ToolCallCompleted", {**call, "success": True})]
        timeline = timeline_from(bodies)
        starts = [START + timedelta(milliseconds=2 * each + 1.5) for each in range(number)]
        children = [
            evolve(RUN, run_id=RunId(f"r{each}"), agent=f"agent{each % 2}", started_at=at)
            for each, at in enumerate(starts)
        ]
        found = [each["row"] for each in place_children(timeline, children)]
        assert found == [2 * each + 1 for each in range(number)]
        return timeline

    assert_linear(placed, 100)
