"""The document of a run: total over whatever events say, and the same however its events come."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from property_tests.strategies import public_aliases, union_members, values_of, wild_json
from reactive_agents.core.codec import encode
from reactive_agents.core.ids import RunId
from reactive_agents.core.run_record import LoggedEvent, LoggedRun
from reactive_agents.studio.diagrams import diagram_of, mermaid, plan_diagram, svg, tree_diagram
from reactive_agents.studio.run_document import (
    KnownEvents,
    RunTimeline,
    compare,
    message_changes,
    model_call_details,
    timeline_of,
    tool_call_details,
)
from tests.support.profiles import examples

START = datetime(2026, 5, 4, tzinfo=UTC)
RUN = LoggedRun(RunId("r"), "agent", START, "task")
KINDS = {kind.__name__: kind for kind in union_members(public_aliases()["AgentEvent"]) or ()}

NAMES = sorted({name for kind in KINDS.values() for name in kind.__annotations__} | {"call_id", "model_call"})


def is_loggable(value: Any) -> bool:
    """Return whether a value has no NaN or infinity, which no log has and no file of a run may have."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


WILD_BODIES = st.dictionaries(
    st.sampled_from(NAMES),
    wild_json.filter(is_loggable) | st.sampled_from(["s1", "think", 1, 2]),
    max_size=6,
)


@st.composite
def real_bodies(draw: st.DrawFn) -> tuple[str, Any]:
    name = draw(st.sampled_from(sorted(KINDS)))
    body: Any = encode(draw(values_of(KINDS[name])))
    return name, {key: value for key, value in body.items() if key not in ("run_id", "sequence", "at")}


BODIES = st.one_of(
    st.tuples(st.sampled_from([*sorted(KINDS), "Unknown", "_row", "add"]), WILD_BODIES), real_bodies()
)


def logged(bodies: list[tuple[str, Any]]) -> list[LoggedEvent]:
    return [
        LoggedEvent(RunId("r"), number, START + timedelta(milliseconds=7 * number), kind, "", body)
        for number, (kind, body) in enumerate(bodies, 1)
    ]


EVENTS = st.lists(BODIES, max_size=12).map(logged)


@given(EVENTS)
@examples(15)
def test_whatever_events_say_there_is_a_document(given_events: list[LoggedEvent]) -> None:
    timeline = timeline_of(RUN, given_events)
    document: Any = timeline.document()
    json.dumps(document, allow_nan=False)
    ids = [row["id"] for row in document["rows"]]
    assert ids == sorted(set(ids))
    assert set(ids) <= {each.sequence for each in given_events}
    assert all(len(row["note"]) <= 160 and "\n" not in row["note"] for row in document["rows"])
    assert all(
        row["took_ms"] is None or row["took_ms"] >= 0 for row in document["rows"] if row["kind"] == "phase"
    )
    known = KnownEvents({each.sequence: each for each in given_events})
    for row in timeline.rows:
        json.dumps([model_call_details(row, known, {}, {}), tool_call_details(row, known)])


@given(EVENTS)
@examples(15)
def test_diagrams_are_valid_pictures_of_it(given_events: list[LoggedEvent]) -> None:
    timeline = timeline_of(RUN, given_events)
    drawn = diagram_of(timeline.plan, timeline.tree)
    picture = ElementTree.fromstring(svg(drawn))
    assert len(picture.findall("{http://www.w3.org/2000/svg}g")) == (1 if drawn is None else len(drawn.boxes))
    assert mermaid(drawn).startswith("graph TD\n")
    for diagram in (
        plan_diagram(timeline.plan) if timeline.plan else None,
        tree_diagram(timeline.tree) if timeline.tree else None,
    ):
        if diagram is not None:
            names = [each.id for each in diagram.boxes]
            assert len(names) == len(set(names))
            assert len({(each.x, each.y) for each in diagram.boxes}) == len(names)
            assert all(first in names and then in names for first, then in diagram.edges)


@given(EVENTS, st.lists(st.integers(0, 12), max_size=4))
@examples(15)
def test_a_page_that_is_sent_changes_has_the_whole(given_events: list[LoggedEvent], cuts: list[int]) -> None:
    timeline = RunTimeline(START)
    page: dict[str, Any] = {}
    rows: dict[int, Any] = {}
    sent = 0
    for number, event in enumerate(given_events):
        timeline.add(event)
        if number in cuts or number == len(given_events) - 1:
            changed: Any = timeline.document(sent)
            rows |= {row["id"]: row for row in changed.pop("rows")}
            page |= changed
            sent = timeline.last
    whole: Any = timeline.document()
    assert list(dict(sorted(rows.items())).values()) == whole.pop("rows")
    assert page == (whole if given_events else {})


@given(EVENTS, EVENTS)
@examples(20)
def test_two_runs_are_compared_up_to_the_first_difference(
    one: list[LoggedEvent], other: list[LoggedEvent]
) -> None:
    left, right = timeline_of(RUN, one), timeline_of(RUN, other)
    itself: Any = compare(left, left)
    assert itself["first"] is None
    assert all(same and a == b for a, b, same in itself["pairs"])
    there: Any = compare(left, right)
    back: Any = compare(right, left)
    assert there["first"] == back["first"]
    pairs = there["pairs"]
    assert all(same for _, _, same in pairs[: len(pairs) if there["first"] is None else there["first"]])
    for side in (0, 1):
        shown = [pair[side] for pair in pairs if pair[side] is not None]
        assert shown == sorted(set(shown))


@given(st.lists(wild_json, max_size=6), st.lists(wild_json, max_size=6))
@examples(20)
def test_messages_are_new_or_were_there(messages: list[Any], before: list[Any]) -> None:
    changes: Any = message_changes(messages, before)
    kept = [each["message"] for each in changes["messages"] if not each["is_new"]]
    assert [each["message"] for each in changes["messages"]] == messages
    assert sorted(map(json.dumps, [*kept, *changes["gone"]])) == sorted(map(json.dumps, before))
    assert not any(each["is_new"] for each in message_changes(messages, messages)["messages"])  # type: ignore[union-attr,index,call-overload]
