"""Reading on in stored results: by slices, items, paths, queries and words; and when the tool is offered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reactive_agents.core.config import ContextProfile, ContextProfileOverrides, ResultCompressionConfig
from reactive_agents.core.events import GuidanceGiven, ToolCallCompleted
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall, ToolMessage
from reactive_agents.core.tools import ToolResult
from reactive_agents.kernel import direct_kernel
from reactive_agents.kernel.context_window.previews import preview
from reactive_agents.kernel.context_window.recall import recall
from reactive_agents.kernel.context_window.tool_results import shown_of
from reactive_agents.testing import answer, call, calls, forever, say
from tests.support.kernels import KernelBench, assert_balanced, kernel_bench, steps_of

pytestmark = pytest.mark.anyio

LINES = "\n".join(f"line {number} says something" for number in range(200))
DATA: dict[str, Any] = {
    "matches": [{"path": f"docs/{n}.md", "text": f"words of number {n}"} for n in range(60)],
    "odd key": {"text": LINES, "flag": True},
    "total": 60,
}
STORED = {"web-1": LINES, "search-2": json.dumps(DATA), "empty-3": "", "list-4": json.dumps(["x" * 900, 1])}


def ask(room: int = 400, hits: int = 3, **arguments: Any) -> ToolResult:
    made = ToolCall(CallId("c1"), "recall", arguments)
    return recall(made, STORED, ContextProfile(search_hits=hits), ResultCompressionConfig(room))


def read(room: int = 400, **arguments: Any) -> str:
    answer = ask(room, **arguments)
    assert answer.error == ""
    assert isinstance(answer.result, str)
    assert len(answer.result) <= room
    return answer.result


# --- slices ---------------------------------------------------------------------------------------------


def test_without_a_start_the_text_is_read_from_its_beginning_with_where_to_go_on() -> None:
    text = read(key="web-1")
    body, _, note = text.rpartition("\n")
    assert LINES.startswith(body)
    assert note == f"[… characters 0 to {len(body)} of {len(LINES)} of web-1; go on with start={len(body)} …]"


def test_a_slice_has_the_characters_that_were_asked_for() -> None:
    assert read(key="web-1", start=10, length=7) == (
        f"{LINES[10:17]}\n[… characters 10 to 17 of {len(LINES)} of web-1; go on with start=17 …]"
    )


def test_the_last_slice_says_that_it_is_the_last() -> None:
    start = len(LINES) - 30
    text = read(key="web-1", start=str(start))
    assert (
        text == f"{LINES[-30:]}\n[… characters {start} to {len(LINES)} of {len(LINES)} of web-1; the end …]"
    )


def test_a_text_that_fits_is_given_as_it_is() -> None:
    assert read(room=len(LINES), key="web-1") == LINES
    assert read(key="empty-3") == ""


# --- places in JSON -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("matches[3].text", "words of number 3"),
        ("matches.3.text", "words of number 3"),
        ("$.matches[-1]['path']", "docs/59.md"),
        ('["odd key"].flag', "true"),
        ("total", "60"),
    ],
)
def test_a_path_leads_to_a_value(path: str, found: str) -> None:
    assert read(key="search-2", path=path) == found


def test_a_long_value_at_a_path_is_sliced_on_its_own() -> None:
    text = read(key="search-2", path='["odd key"].text', start=22, length=21)
    assert text.startswith("line 1 says something\n")
    assert f"characters 22 to 43 of {len(LINES)} of this part" in text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nope", "no key 'nope' at the result. Keys there: 'matches', 'odd key', 'total'."),
        ("matches[60]", "The list at 'matches' has 60 items: there is none at 60."),
        ("matches.path", "There is a list of 60 items at 'matches': give a position in it."),
        ("total.x", "no list and no object at 'total'"),
        ("matches[", "cannot be read from '[' on"),
        ("a..b", "no key 'a'"),
        ('["bad \\x escape"]', "no key 'bad"),
    ],
)
def test_a_path_that_leads_nowhere_says_what_is_there(path: str, words: str) -> None:
    assert words in ask(key="search-2", path=path).error


def test_items_of_a_list_are_read_as_many_as_fit() -> None:
    text = read(key="search-2", path="matches", items=[10, 12])
    assert text == (
        '[10] {"path": "docs/10.md", "text": "words of number 10"}\n'
        '[11] {"path": "docs/11.md", "text": "words of number 11"}\n'
        "[… items 10 to 11 of 60 of this part; go on with items=[12, 14] …]"
    )
    assert "items 10 to 14 of 60 of this part; go on with items=[15, 20]" in read(
        key="search-2", path="matches", items=[10, 60]
    )
    assert read(key="search-2", path="matches", items=[58, 99]).endswith("of this part; the end …]")


def test_an_item_that_does_not_fit_is_begun_and_points_to_its_path() -> None:
    text = read(key="list-4", items=[0, 2])
    assert text.startswith("xxx")
    assert text.endswith("\n[… the beginning of item 0, which has 900 characters: read on by its path …]")


def test_items_of_what_is_no_list_are_an_error() -> None:
    assert "There is no list at search-2" in ask(key="search-2", items=[0, 1]).error
    assert "there is none at 60" in ask(key="search-2", path="matches", items=[60, 61]).error


@pytest.mark.system
@pytest.mark.parametrize("wanted", [{"path": "[3].s"}, {"items": [0, 2]}, {"path": "[3]", "search": "y"}])
async def test_of_json_that_is_too_large_for_paths_it_is_said_so_with_what_works(wanted: Any) -> None:
    large = "[" + ", ".join(['{"s": "yes"}'] * 150_000) + "]"
    bench = kernel_bench(
        call("web", query="a"),
        call("recall", key="web-1", **wanted),
        call("recall", key="web-1", start=2, length=12),
        call("recall", key="web-1", search="yes"),
        say("Done."),
        tools={"web": large},
    )
    state = await bench.run()
    assert_balanced(bench, state)
    _, refused, sliced, found = steps_of(state, "observation")
    assert refused.content == (
        f"The result web-1 has {len(large)} characters: paths and items are there for results of up to "
        "2000000. Use search or start."
    )
    assert large[2:14] in sliced.content
    assert "yes" in found.content


def test_a_large_text_that_is_no_json_is_none_at_any_length() -> None:
    answer = recall(
        ToolCall(CallId("c1"), "recall", {"key": "text-1", "path": "a"}),
        {"text-1": "word " * 500_000},
        ContextProfile(),
        ResultCompressionConfig(400),
    )
    assert "no JSON that has paths" in answer.error


def test_a_query_takes_a_part_of_a_result() -> None:
    assert read(key="search-2", query="matches[:2].path") == '["docs/0.md", "docs/1.md"]'
    assert read(key="search-2", query="matches[*].path", items=[0, 1]).startswith("[0] docs/0.md\n")
    assert "The query was not answered: Invalid" in ask(key="search-2", query="a[").error
    assert "it finds nothing here" in ask(key="search-2", query="nope").error


def test_a_query_of_a_text_that_is_no_json_looks_for_its_words() -> None:
    assert read(key="web-1", query="LINE 77") == read(key="web-1", search="LINE 77")
    assert "Use search to look for words" in ask(key="search-2", query="P-318").error


# --- words ----------------------------------------------------------------------------------------------


def test_a_search_in_a_text_gives_lines_with_their_place() -> None:
    text = read(key="web-1", search="LINE 77")
    start = LINES.index("line 77 ")
    assert text.startswith(f"line 78 (start={start}): line 77 says something\n")
    assert read(key="web-1", start=start, length=7).startswith("line 77\n")


def test_only_so_many_places_are_given_and_all_are_counted() -> None:
    text = read(key="web-1", search="something")
    assert text.count("(start=") == 3
    assert text.endswith("[… 3 of 200 places in web-1 hold all of the words …]")


def test_a_search_in_json_gives_items_with_their_path() -> None:
    text = read(key="search-2", search="number 42")
    assert text.startswith('matches[42]: {"path": "docs/42.md", "text": "words of number 42"}\n')
    assert read(key="search-2", path="matches[42].path") == "docs/42.md"


def test_a_search_in_a_text_within_json_gives_its_line_and_path() -> None:
    text = read(key="search-2", search="line 5 something")
    start = LINES.index("line 5 ")
    assert text.startswith(f'["odd key"].text, line 6 (start={start}): line 5 says something\n')


def test_where_no_place_holds_all_words_those_with_one_are_given() -> None:
    text = read(key="search-2", search="docs/7.md zebra")
    assert text.startswith("matches[7]: ")
    assert text.endswith("[… 1 place in search-2 holds one of the words …]")


def test_nothing_found_is_an_answer_too() -> None:
    assert read(key="web-1", search="zebra") == "[… nothing in web-1 holds any of the words …]"
    assert "has no words" in ask(key="web-1", search=" ").error


def test_a_long_line_is_shown_around_the_first_of_the_words() -> None:
    text = "begin " + "x " * 500 + "needle " + "y " * 500
    made = ToolCall(CallId("c1"), "recall", {"key": "a-1", "search": "needle"})
    answer = recall(made, {"a-1": text}, ContextProfile(), ResultCompressionConfig(400))
    assert str(answer.result).startswith("line 1 (start=0): …x x")
    assert "needle y y" in str(answer.result)


# --- what is wrong with a call --------------------------------------------------------------------------


def test_an_unknown_key_is_answered_with_those_there_are() -> None:
    error = ask(key="nope").error
    assert error == "There is no stored result 'nope'. Known keys: web-1, search-2, empty-3, list-4."
    many = {f"a-{n}": "" for n in range(50)}
    made = ToolCall(CallId("c1"), "recall", {"key": "x" * 999})
    error = recall(made, many, ContextProfile(), ResultCompressionConfig()).error
    assert error.endswith("a-48, a-49 and 30 earlier ones.")
    assert len(error) < 400


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "key: got null, expected the key of a stored result"),
        ({"key": 7}, "key: got 7, expected a text"),
        ({"key": "web-1", "start": -1}, "start: got -1, expected a whole number of 0 or more"),
        ({"key": "web-1", "start": True}, "start: got true"),
        ({"key": "web-1", "length": 0}, "length: got 0, expected a whole number of 1 or more"),
        ({"key": "web-1", "items": [3, 1]}, "items: got [3, 1], expected two whole numbers"),
        ({"key": "web-1", "items": "3"}, 'items: got "3"'),
        ({"key": "web-1", "path": "a", "query": "a"}, "either path or query"),
        ({"key": "web-1", "items": [0, 1], "search": "a"}, "either items or search"),
        ({"key": "web-1", "where": 1}, "where: got 1, expected one of key, search, path"),
        ({"key": "web-1", "start": 10**9}, "start must be below that"),
        ({"key": "web-1", "path": "a"}, "no JSON that has paths"),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments: dict[str, Any], words: str) -> None:
    assert words in ask(**arguments).error


def test_what_is_not_given_may_be_null_or_empty() -> None:
    assert read(room=len(LINES), key="web-1", search="", path=None, items=[], start=0.0) == LINES


def test_arguments_that_were_no_json_are_told_as_they_were() -> None:
    made = ToolCall(CallId("c1"), "recall", malformed='{"key": ')
    assert "expected a JSON object" in recall(made, STORED, ContextProfile(), ResultCompressionConfig()).error


@pytest.mark.parametrize("depth", [50, 300, 600, 800, 900, 950, 980, 5_000])
def test_no_depth_of_a_result_is_too_much(depth: int) -> None:
    deep = '[{"a": ' * depth + '"needle"' + "}]" * depth
    shown_of(deep, "a-1", "look", ContextProfile(), ResultCompressionConfig(300, transform={"look": "[0].a"}))
    assert len(preview(deep, "a-1", 300)) <= 300
    for arguments in ({"search": "needle"}, {"path": "[0].a[0]"}, {"items": [0, 1]}, {"query": "[0]"}, {}):
        made = ToolCall(CallId("c1"), "recall", {"key": "a-1", **arguments})
        answer = recall(made, {"a-1": deep}, ContextProfile(), ResultCompressionConfig(300))
        assert answer.error or len(str(answer.result)) <= 300


# --- within a run ---------------------------------------------------------------------------------------

SMALL = ContextProfileOverrides(tool_result_chars=400)


def offered(bench: KernelBench) -> list[bool]:
    return [any(tool.name == "recall" for tool in request.tools) for request in bench.llm.requests]


@pytest.mark.parametrize("answers_by_tool", [True, False])
async def test_it_is_offered_from_the_first_result_on_that_is_shown_in_part(answers_by_tool: bool) -> None:
    bench = kernel_bench(
        call("look"),
        call("read"),
        call("recall", key="read-2", start=100, length=20),
        answer("done") if answers_by_tool else say("done"),
        tools={"look": "seen", "read": LINES},
    )
    state = await bench.run(
        direct_kernel, context_profile=SMALL, options={"answers_by_tool": answers_by_tool}
    )
    assert offered(bench) == [False, False, True, True]
    assert bench.shown() == (
        f"{LINES[100:120]}\n[… characters 100 to 120 of {len(LINES)} of read-2; go on with start=120 …]"
    )
    assert state.scratchpad == {"look-1": "seen", "read-2": LINES}
    assert state.tools_used == {"look", "read"}
    assert bench.tools is not None
    assert [made.name for made in bench.tools.calls] == ["look", "read"]
    assert [told.tool_name for told in bench.recorder.of(ToolCallCompleted)] == ["look", "read", "recall"]
    assert steps_of(state, "observation")[-1].content == bench.shown()
    assert_balanced(bench, state)


async def test_a_run_whose_results_fit_is_never_offered_it_and_cannot_call_it() -> None:
    bench = kernel_bench(call("look"), call("recall", key="look-1"), answer("done"), tools={"look": "seen"})
    await bench.run()
    assert offered(bench) == [False, False, False]
    refusal = bench.sent()[-1]
    assert isinstance(refusal, ToolMessage)
    assert refusal.is_error
    assert refusal.content == "Unknown tool 'recall'. Known tools: look, final-answer."


async def test_an_error_that_is_shown_in_part_gives_nothing_to_recall() -> None:
    def explode() -> None:
        raise ValueError("x" * 9_000)

    bench = kernel_bench(call("explode"), forever(answer("done")), tools={"explode": explode})
    await bench.run(context_profile=SMALL)
    assert offered(bench) == [False, False, False]


async def test_it_is_offered_whatever_tools_a_step_is_held_to() -> None:
    bench = kernel_bench(
        call("read"), call("recall", key="read-1", search="line 7"), answer("done"), tools={"read": LINES}
    )
    await bench.run(context_profile=SMALL, allowed_tools=frozenset({"read"}))
    assert [tool.name for tool in bench.llm.requests[-1].tools] == ["read", "final-answer", "recall"]
    assert "line 7 says something" in bench.shown()


async def test_it_runs_beside_other_calls_and_reads_what_was_stored_before_the_turn() -> None:
    bench = kernel_bench(
        call("read"),
        calls(call("recall", key="read-1", length=6), call("look"), call("recall", key="look-2")),
        answer("line 7 says something"),
        tools={"read": LINES, "look": LINES},
    )
    state = await bench.run(context_profile=SMALL)
    first, _, third = [message.content for message in bench.sent()[-3:]]
    assert first.startswith("line 0\n[…")
    assert third == "There is no stored result 'look-2'. Known keys: read-1."
    assert set(state.scratchpad) == {"read-1", "look-2"}
    assert_balanced(bench, state)


async def test_a_call_that_is_made_again_is_shown_as_it_was_under_the_same_key() -> None:
    bench = kernel_bench(call("read"), call("read"), say("done"), tools={"read": LINES})
    state = await bench.run(context_profile=SMALL)
    first, second = steps_of(state, "observation")
    assert first.content == second.content
    assert [step.metadata.result_key for step in (first, second) if step.metadata] == ["read-1", "read-1"]
    assert state.scratchpad == {"read-1": LINES}


async def test_reading_on_leaves_stored_answers_of_other_calls_valid() -> None:
    bench = kernel_bench(
        call("read"), call("recall", key="read-1", length=6), call("read"), say("done"), tools={"read": LINES}
    )
    await bench.run(context_profile=SMALL)
    assert bench.tools is not None
    assert len(bench.tools.calls) == 1


async def test_reading_on_is_no_new_gathering_that_could_count_as_enough() -> None:
    bench = kernel_bench(
        call("read"),
        *(call("recall", key="read-1", start=start, length=20) for start in (0, 40, 80, 120)),
        answer("done"),
        tools={"read": LINES},
    )
    await bench.run(max_iterations=10, context_profile=SMALL)
    assert bench.recorder.of(GuidanceGiven) == []


async def test_a_call_that_was_written_as_text_is_run_as_any_other() -> None:
    bench = kernel_bench(
        call("read"), say('recall({"key": "read-1", "length": 6})'), answer("done"), tools={"read": LINES}
    )
    state = await bench.run(context_profile=SMALL)
    assert bench.shown().startswith("line 0\n[…")
    assert set(state.scratchpad) == {"read-1"}


async def test_a_call_that_an_answer_consists_of_is_run_and_its_result_is_the_answer() -> None:
    bench = kernel_bench(
        call("read"),
        call("final-answer", answer='recall({"key": "read-1", "length": 6})'),
        tools={"read": LINES},
    )
    state = await bench.run(context_profile=SMALL)
    assert (state.output or "").startswith("line 0\n[…")
    assert set(state.scratchpad) == {"read-1"}
