"""The laws of previews: never above the budget, never less for more, never silent about what is missing."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
from hypothesis import assume, given
from hypothesis import strategies as st

from property_tests.strategies import json_values, wild_json, wild_texts
from reactive_agents.core.config import ContextProfile, ResultCompressionConfig, SchemaDetail
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition, ToolResult
from reactive_agents.kernel.context_window.previews import (
    compile_query,
    cut_after,
    cut_before,
    json_value,
    outline,
    preview,
    run_query,
)
from reactive_agents.kernel.context_window.recall import below, recall, value_at
from reactive_agents.kernel.context_window.tool_results import result_text, shown_of, view_of
from reactive_agents.kernel.toolset import fit_definitions
from tests.support.profiles import examples

KEY = "file-search-12"
budgets = st.integers(200, 3_000)
shares = st.sampled_from([0.0, 0.3, 0.7, 1.0]) | st.floats(0, 1)
words = st.sampled_from(["a", "word", "\n", " ", "\t", "longer-word-here", "\n\n", "é", "0"])
proses = st.lists(words, max_size=60).map("".join).flatmap(
    lambda text: st.integers(1, 60).map(lambda times: text * times)
)  # fmt: skip
plain = st.none() | st.booleans() | st.integers() | st.floats() | wild_texts | proses
documents: st.SearchStrategy[Any] = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=6).flatmap(lambda items: st.integers(1, 40).map(lambda n: items * n))
        | st.dictionaries(wild_texts | st.sampled_from(["path", "text", "a.b", "é"]), inner, max_size=5)
    ),
    max_leaves=10,
)
results = documents | proses | documents.map(json.dumps)


def written(value: Any) -> str:
    try:
        return result_text(value)
    except ValueError:  # an integer that Python does not write
        assume(False)
        raise


# --- previews -------------------------------------------------------------------------------------------


@examples(30)
@given(results, budgets, shares, st.integers(1, 200))
def test_a_preview_keeps_to_its_budget_and_says_what_is_missing(
    value: Any, budget: int, share: float, items: int
) -> None:
    text = written(value)
    shown = preview(text, KEY, budget, head_share=share, list_items=items)
    assert len(shown) <= min(budget, max(len(text), 0)) or shown == text
    assert (shown == text) == (len(text) <= budget)
    assert preview(text, KEY, budget, head_share=share, list_items=items) == shown
    if shown != text:
        assert f'recall(key="{KEY}"' in shown
        assert re.search(rf"\b{len(text)} characters", shown)


@examples(20)
@given(proses, budgets, st.integers(1, 300), shares)
def test_a_larger_budget_never_shows_less_of_a_text(text: str, budget: int, more: int, share: float) -> None:
    smaller, larger = (
        shown_parts(preview(text, KEY, size, head_share=share), text) for size in (budget, budget + more)
    )
    assert smaller[0] <= larger[0]
    assert smaller[1] <= larger[1]


def shown_parts(shown: str, text: str) -> tuple[int, int]:
    """How much is shown of the start and of the end of a text; all of it counts for both."""
    if shown == text:
        return len(text), len(text)
    note = re.search(
        r"\n?\[… (\d+) of \d+ characters left out; more: recall\(key=\S+ start=(\d+)\) …\]\n", shown
    )
    assert note is not None
    head, left_out = int(note[2]), int(note[1])
    tail = len(text) - head - left_out
    assert shown[:head] == text[:head]
    assert shown[len(shown) - tail :] == text[len(text) - tail :]
    return head, tail


@examples(15)
@given(documents, st.integers(0, 2_000), st.integers(0, 500), st.integers(1, 100))
def test_an_outline_fits_its_room_and_more_room_never_shows_fewer_values(
    value: Any, room: int, more: int, items: int
) -> None:
    written(value)
    smaller, larger = outline(value, room, items), outline(value, room + more, items)
    assert len(smaller) <= room
    assert len(larger) <= room + more
    assert shown_of_list(value, smaller) <= shown_of_list(value, larger)


def shown_of_list(value: Any, shown: str) -> int:
    """How many items of a list are shown."""
    if not isinstance(value, list):
        return 0
    left_out = re.search(r"(?:^|\n |, |\[)… (\d+) more of \d+ items?\n?\]\Z", shown)
    if left_out is not None:
        return len(value) - int(left_out[1])
    return len(value) if shown.endswith("]") and not shown.startswith("[…") else 0


@given(proses, st.integers(0, 500), st.integers(0, 100))
def test_a_greater_length_never_cuts_earlier(text: str, length: int, more: int) -> None:
    assert cut_before(text, length) <= cut_before(text, length + more)
    assert cut_after(text, length) <= cut_after(text, length + more)
    assert cut_before(text, length) <= length
    assert cut_after(text, length) <= length


expressions = st.sampled_from(
    ["@", "path", "[*].path", "[0]", "length(@)", "*", "keys(@)", "[@, @]", "[]", "a.b", "abs(@)", "text"]
)


@examples(15)
@given(results, budgets, expressions)
def test_a_transformed_result_keeps_to_the_budget_too(value: Any, budget: int, expression: str) -> None:
    text = written(value)
    compression = ResultCompressionConfig(budget, transform={"look": expression})
    shown = shown_of(text, KEY, "look", ContextProfile(), compression)
    assert len(shown) <= budget
    if not shown.startswith(text):
        assert KEY in shown


@examples(15)
@given(results, budgets)
def test_what_is_kept_is_the_whole_text(value: Any, budget: int) -> None:
    text = written(value)
    view = view_of(
        ToolResult(CallId("c"), "look", value), {}, ContextProfile(), ResultCompressionConfig(budget)
    )
    assert (view.full, view.key) == (text, "look-1")
    assert view.in_part == (len(text) > budget)


# --- recall ---------------------------------------------------------------------------------------------


def recalled(text: str, budget: int, **arguments: Any) -> ToolResult:
    call = ToolCall(CallId("c"), "recall", {"key": KEY, **arguments})
    return recall(call, {KEY: text}, ContextProfile(), ResultCompressionConfig(budget))


@examples(15)
@given(results, budgets)
def test_the_slices_of_a_result_make_up_the_whole(value: Any, budget: int) -> None:
    text = written(value)
    start, read = 0, ""
    while True:
        given_back = result_text(recalled(text, budget, start=start).result)
        assert len(given_back) <= budget
        note = re.search(
            r"\n\[… characters (\d+) to (\d+) of \d+ of \S+; (?:go on|the end).* …\]\Z", given_back
        )
        if note is None or (start == 0 and given_back == text):
            read += given_back
            break
        assert int(note[1]) == start < int(note[2])
        read, start = read + given_back[: note.start()], int(note[2])
        if start == len(text):
            break
    assert read == text


@examples(20)
@given(results, budgets, st.dictionaries(
    st.sampled_from(["search", "path", "query", "items", "start", "length", "key", "x"]), wild_json | proses
))  # fmt: skip
def test_whatever_is_asked_the_answer_is_bounded_and_never_an_exception(
    value: Any, budget: int, arguments: dict[str, Any]
) -> None:
    answer = recalled(written(value), budget, **arguments)
    assert (answer.result is None) == bool(answer.error)
    assert len(result_text(answer.result)) <= budget or answer.error
    assert len(answer.error) < 3_000


@examples(15)
@given(documents, st.data())
def test_every_place_has_a_path_that_leads_there(value: Any, choice: st.DataObject) -> None:
    place, path = value, ""
    while isinstance(place, list | dict) and place and choice.draw(st.booleans()):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = choice.draw(st.sampled_from(keys))
        place, path = place[key], below(path, key)
    assert value_at(value, path).unwrap() is place


@examples(15)
@given(st.text(alphabet="ab.[]*@|,&{}:?`'\"()0-5 !<=_", max_size=40) | wild_texts, json_values)
def test_any_text_is_a_query_or_is_refused_and_neither_raises(expression: str, value: Any) -> None:
    for query in compile_query(expression).map(lambda found: [found]).value_or([]):
        run_query(query, json.dumps(value)).map(json.dumps)


@given(wild_json)
def test_what_is_read_back_from_a_result_is_what_was_written(value: Any) -> None:
    text = written(value)
    if isinstance(value, list | dict) and "NaN" not in text:
        assert json_value(text) == value


# --- schemas --------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "title", "description", "default", "examples"])
annotations = st.fixed_dictionaries(
    {},
    optional={
        "title": st.just("T"),
        "description": st.sampled_from(["One.", "One. Two."]),
        "default": json_values,
        "examples": st.lists(json_values, max_size=2),
        "$comment": st.just("c"),
    },
)
leaves: st.SearchStrategy[dict[str, Any]] = st.sampled_from([
    {"type": "string"},
    {"type": "integer", "minimum": 1},
    {"enum": ["description", {"title": "x"}, None]},
    {"const": {"default": 1}},
    {"type": ["null", "boolean"]},
    {},
])  # fmt: skip


def noted(schemas: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(lambda schema, notes: {**schema, **notes}, schemas, annotations)


def holding(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=2)
    return noted(
        st.builds(
            lambda properties, required, more: {
                "type": "object", "properties": properties, "required": required, "additionalProperties": more
            },
            st.dictionaries(names, inner, max_size=3),
            st.lists(names, max_size=1),
            st.booleans() | inner,
        )
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | several.map(lambda each: {"prefixItems": each})
        | several.map(lambda each: {"anyOf": each})
        | several.map(lambda each: {"allOf": each})
        | inner.map(lambda each: {"not": each})
        | inner.map(lambda each: {"patternProperties": {"^d": each}})
        | st.builds(lambda one, two: {"if": one, "then": two}, inner, inner)
    )  # fmt: skip


schemas = st.recursive(noted(leaves), holding, max_leaves=6)
instances: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["description", "x"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3) | st.just({"title": "x"})
    ),
    max_leaves=5,
)


@examples(20)
@given(schemas, st.lists(instances, min_size=1, max_size=6), st.sampled_from(["compact", "trimmed", "full"]))
def test_a_schema_in_fewer_words_accepts_the_same_arguments(
    schema: dict[str, Any], candidates: list[Any], detail: SchemaDetail
) -> None:
    (fitted,) = fit_definitions([ToolDefinition("t", "Does it.", schema)], detail)
    jsonschema.Draft202012Validator.check_schema(fitted.parameters)
    before = jsonschema.Draft202012Validator(schema)
    after = jsonschema.Draft202012Validator(fitted.parameters)
    assert [before.is_valid(each) for each in candidates] == [after.is_valid(each) for each in candidates]
    assert len(json.dumps(fitted.parameters)) <= len(json.dumps(schema))
    assert fit_definitions([fitted], detail) == (fitted,)
