"""Laws of telling answers from announcements and found figures from invented ones, and of the runs around."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from decimal import Decimal
from types import FrameType
from typing import Any

import anyio
import pytest
from attrs import evolve
from hypothesis import assume, example, given
from hypothesis import strategies as st

from reactive_agents.core.figures import (
    is_small,
    larger_figures,
    numbers_and_names,
    plain_numbers,
    read_number,
)
from reactive_agents.core.json import JsonObject
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel import KernelState
from reactive_agents.kernel.answer_check import judge_text, unmade_call
from reactive_agents.kernel.call_parsing.spelled_calls import lone_answer, spelled_answer, spelled_calls
from reactive_agents.kernel.clauses import LETTER, MANY_WORDS, QUESTION, asks_back, clauses_of, size_of
from reactive_agents.kernel.contradictions import miscompared, mistotalled, swapped
from reactive_agents.kernel.evidence import Seen, ends_with_evidence, unsupported_figures
from reactive_agents.kernel.ordered_acts import CompletedCall, parts_left
from reactive_agents.kernel.policies.answers import MOST_TEXTS
from reactive_agents.testing import FakeTools, Turn, call, forever, say
from tests.support.kernels import add, kernel_bench
from tests.support.profiles import examples

numbers = st.one_of(
    st.integers(0, 10**6).map(str),
    st.decimals(0, 10**4, places=2).map(str),
    st.builds("{}-{}".format, st.text("ABCXYZ", min_size=1, max_size=3), st.integers(1, 9999)),
)
pieces = st.one_of(
    numbers,
    st.text(max_size=12),
    st.sampled_from(
        [
            "I will",
            "Let me",
            "now",
            "not",
            "checking",
            "?",
            ":",
            "…",
            "\n",
            "- ",
            "1. ",
            "{",
            '"name": "x"',
            "<tool_call>",
            "get_price",
            "}",
        ]
    ),
)
texts = st.lists(pieces, max_size=25).map(" ".join)
seens = st.builds(Seen, texts, st.lists(texts, max_size=4).map(tuple))
TOOLS = {"get_price": "Get the price of an item.", "search": "Search the web.", "final-answer": ""}


@given(texts, seens)
@examples(30)
def test_every_text_is_judged_without_an_error(text: str, seen: Seen) -> None:
    figures = unsupported_figures(text, seen)
    assert len(set(figures)) == len(figures)
    assert all(figure in plain_numbers(text) for figure in figures)
    unmade_call(text)
    assert judge_text(text, TOOLS, seen) in ("answer", "announcement", "unclear")


@given(st.one_of(texts, st.text("0123456789 \n.,:;/-()*!?'$%a", max_size=16)))
@example("A4")
@example("It is 3%, or -5.")
@example("(3) 1. and 1 250")
@examples(60)
def test_larger_figures_are_all_but_the_small_counts(text: str) -> None:
    assert [*larger_figures(text)] == [each for each in numbers_and_names(text) if not is_small(each)]


@given(st.lists(numbers, min_size=1, max_size=5), texts, seens)
@examples(20)
def test_a_figure_that_stands_in_a_result_is_supported(figures: list[str], around: str, seen: Seen) -> None:
    result = f"{around} | {' | '.join(figures)} |"
    assert unsupported_figures(" and ".join(figures), Seen(seen.task, (*seen.results, result))) == ()


@given(texts, seens, texts)
@examples(25)
def test_more_results_never_make_a_figure_unsupported(text: str, seen: Seen, more: str) -> None:
    assume(seen.results or LETTER.search(more))  # a look-up that found nothing is known to support none
    before = unsupported_figures(text, seen)
    after = unsupported_figures(text, Seen(seen.task, (*seen.results, more)))
    assert set(after) <= set(before)


amounts = st.one_of(st.integers(10, 99), st.integers(0, 5000), st.sampled_from(["1.250", "2.100", "0.19"]))
amounts_found = st.lists(amounts.map(str), min_size=1, max_size=8)


@given(
    st.sampled_from(["What is the total?", "Which shares are they?", "List them."]),
    st.lists(amounts_found.map("\n".join), min_size=1, max_size=3),
    amounts_found.map("\n".join),
    st.data(),
)
@examples(40)
def test_more_results_never_make_a_total_or_share_unsupported(
    task: str, results: list[str], more: str, data: st.DataObject
) -> None:
    found = [read_number(each) for each in "\n".join(results).split()]
    part = data.draw(st.lists(st.sampled_from(range(len(found))), min_size=1, unique=True))
    total = sum(found[each] for each in part)
    percent = 100 * total / (sum(found) or 1)
    text = data.draw(st.sampled_from([f"{total:.0f} kg", f"{total:.2f} kg", f"{percent:.1f} percent"]))
    before = unsupported_figures(text, Seen(task, tuple(results)))
    assert set(unsupported_figures(text, Seen(task, (*results, more)))) <= set(before)
    if text == f"{sum(found):.2f} kg":
        assert not before


@given(
    st.sampled_from(["What is the total?", "What is the average?", "What do 2 of each and 3 more cost?"]),
    st.lists(st.one_of(numbers, st.integers(0, 10**320).map(str)), min_size=1, max_size=5),
    st.one_of(texts, numbers),
)
@example("What is the total?", ["9" * 200, "8" * 200], "42")
@examples(40)
def test_contradictions_are_sought_in_any_text_without_an_error(
    task: str, found: list[str], text: str
) -> None:
    looked_up: dict[str, str] = dict(zip(("Rome", "Oslo", "Bari", "GE", "Bo"), found, strict=False))
    said = f"The total is {text}. The average is {text}. Rome has {text}, and Oslo {found[0]}."
    mistotalled(said, Seen(task, tuple(found)), looked_up)
    swapped(said, task, looked_up)
    miscompared(said, "Is Rome warmer than Oslo?", looked_up)


@given(st.lists(st.decimals(0, 10**6, places=2), min_size=2, max_size=5))
@examples(40)
def test_a_sum_of_all_results_is_no_wrong_total(amounts: list[Decimal]) -> None:
    looked_up = {f"thing {number}": str(amount) for number, amount in enumerate(amounts)}
    seen = Seen("What is the total?", tuple(looked_up.values()))
    assert mistotalled(f"The total is {sum(amounts)}.", seen, looked_up) == ()


@pytest.mark.parametrize("more", ["", "10\n11\n12\n13\n14\n1.250"])
def test_a_share_of_the_first_results_is_supported_beside_any_further_ones(more: str) -> None:
    assert unsupported_figures("54.9 percent", Seen("List them.", ("21\n0\n138\n147", more))) == ()


@given(st.sampled_from(["?", ":", "…", "..."]), texts, seens)
@examples(20)
def test_what_ends_open_is_never_an_answer_at_once(end: str, text: str, seen: Seen) -> None:
    # a task may have a text that ends open, and after something found a question may follow the answer
    stated = [each for each in clauses_of(text + end) if not QUESTION.search(each)]
    assume(end != "?" or size_of(" ".join(stated)) < MANY_WORDS)  # so may it follow a long text
    assert judge_text(text + end, TOOLS, Seen("")) == "announcement"
    assert not ends_with_evidence(text + end, seen)


def _calls_during(text: str, seen: Seen) -> int:
    """Return how many functions are called while a text is judged."""
    count = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        unsupported_figures(text, seen)
        judge_text(text, TOOLS, seen)
        unmade_call(text)
    finally:
        sys.setprofile(before)
    return count


@given(st.lists(pieces, min_size=10, max_size=25), st.lists(pieces, min_size=1, max_size=25))
@examples(10)
def test_the_work_grows_no_faster_than_the_texts(answer: list[str], result: list[str]) -> None:
    few, many = 20, 200
    once = _calls_during(" ".join(answer * few), Seen("", (" ".join(result * few),)))
    often = _calls_during(" ".join(answer * many), Seen("", (" ".join(result * many),)))
    assert often <= 12 * once + 20_000


# --- runs -----------------------------------------------------------------------------------------------


@given(texts.filter(str.strip), st.booleans(), st.integers(2, 10))
@examples(15)
def test_a_model_that_goes_on_answering_by_text_has_a_bounded_number_of_turns(
    text: str, looks_first: bool, turns: int
) -> None:
    assume("add" not in text)
    first = (call("add", a=1, b=2),) if looks_first else ()
    bench = kernel_bench(*first, forever(say(text)), tools={"add": add})
    state = anyio.run(lambda: bench.run(max_iterations=turns))
    assert state.status == "done"
    assert len(bench.llm.requests) <= min(turns, len(first) + MOST_TEXTS + 1)
    if state.outcome == "completed":
        assert state.output == text


# --- calls in any spelling ------------------------------------------------------------------------------

names = st.sampled_from(["reserve", "reserve_table", "file-write", "getPrice", "book"])
parameters = st.sampled_from(["restaurant_id", "guests", "path", "item", "when", "to"])
values = st.one_of(st.integers(0, 999), st.sampled_from(["r979", "Alto", "a/b.txt", "7 May", "x"]))
calls = st.tuples(names, st.dictionaries(parameters, values, min_size=1, max_size=4))
Spelling = Callable[[str, dict[str, Any]], str]


def pairs(arguments: dict[str, Any], form: str, between: str) -> str:
    return between.join(form.format(key, json.dumps(value)) for key, value in arguments.items())


SPELLINGS: dict[str, Spelling] = {
    "label": lambda name, given: f"{name}: {json.dumps(given)}",
    "beside": lambda name, given: f"{name} {json.dumps(given, indent=1)}",
    "bold": lambda name, given: f"**{name}**\n```json\n{json.dumps(given)}\n```",
    "sentence": lambda name, given: f"Calling `{name}` with {json.dumps(given)}.",
    "key": lambda name, given: json.dumps({name: given}),
    "tag": lambda name, given: f"<{name}>{pairs(given, '<{0}>{1}</{0}>', '')}</{name}>",
    "tag with object": lambda name, given: f"<{name}>\n{json.dumps(given)}\n</{name}>",
    "tool and arguments": lambda name, given: f"Tool: {name}\nArguments: {pairs(given, '{}={}', ', ')}",
    "list": lambda name, given: f"{name}\n{pairs(given, '- {}: {}', chr(10))}",
    "positions": lambda name, given: f"I call {name}({', '.join(map(json.dumps, given.values()))})",
    "keywords": lambda name, given: f"Step 2: {name}({pairs(given, '{}={}', ', ')})",
    "upper case": lambda name, given: f"{name.upper()}: {json.dumps(given)}",
    "broken off": lambda name, given: f"{name}: {json.dumps(given)[:-1]}",
}
ALONE: dict[str, Spelling] = {
    "alone": lambda name, given: json.dumps(given),
    "fenced": lambda name, given: f"```json\n{json.dumps(given)}\n```",
}


def tool_of(name: str, arguments: dict[str, Any]) -> ToolDefinition:
    properties: JsonObject = {key: {} for key in arguments}
    return ToolDefinition(
        name, "Does something.", {"type": "object", "properties": properties, "required": [*arguments]}
    )


def run_of(*turns: Turn, tool: ToolDefinition) -> KernelState:
    other, found = tool_of("look", {"place": "x"}), '{"id": "r979", "name": "Alto"}'
    tools = FakeTools({"look": found, tool.name: "done"}, definitions=(other, evolve(tool, risk="high")))
    return anyio.run(lambda: kernel_bench(call("look", place="x"), *turns, tools=tools).run(max_iterations=8))


@given(calls, st.sampled_from(sorted(SPELLINGS)), st.booleans())
@examples(30)
def test_a_call_in_any_spelling_is_never_the_answer(
    made: tuple[str, dict[str, Any]], spelling: str, delivers: bool
) -> None:
    text = SPELLINGS[spelling](*made)
    turn = call("final-answer", answer=text) if delivers else say(text)
    state = run_of(forever(turn), tool=tool_of(*made))
    assert state.outcome != "completed"
    observed = [each.metadata.tool_used for each in state.steps if each.metadata and each.metadata.success]
    assert made[0] not in observed


@given(calls, st.sampled_from(sorted(ALONE)))
@examples(15)
def test_arguments_alone_are_no_answer_before_they_are_delivered(
    made: tuple[str, dict[str, Any]], spelling: str
) -> None:
    text = ALONE[spelling](*made)
    assert run_of(forever(say(text)), tool=tool_of(*made)).outcome != "completed"
    delivered = run_of(say(text), forever(call("final-answer", answer=text)), tool=tool_of(*made))
    assert (delivered.outcome, delivered.output) == ("completed", text)


@given(
    calls,
    st.dictionaries(st.sampled_from(["id", "total", "name"]), values, min_size=1),
    st.sampled_from(sorted(ALONE)),
)
@examples(15)
def test_data_with_other_keys_is_an_answer(
    tool: tuple[str, dict[str, Any]], data: dict[str, Any], spelling: str
) -> None:
    text = ALONE[spelling]("", {"id": "r979", **data})
    state = run_of(forever(call("final-answer", answer=text)), tool=tool_of(*tool))
    assert (state.outcome, state.output) == ("completed", text)
    assert unmade_call(text, spelled_calls(text, (tool_of(*tool),))) is None


@given(st.sampled_from(sorted({*SPELLINGS, "alone"} - {"broken off", "positions", "list"})), st.booleans())
@examples(15)
def test_an_answer_in_any_spelling_of_its_tool_is_delivered(spelling: str, delivers: bool) -> None:
    text = {**SPELLINGS, **ALONE}[spelling]("final-answer", {"answer": "Alto has the id r979."})
    turn = call("final-answer", answer=text) if delivers else say(text)
    state = run_of(forever(turn), tool=tool_of("book", {"when": 1}))
    assert (state.outcome, state.output) == ("completed", "Alto has the id r979.")


@given(texts, st.lists(calls, max_size=4))
@examples(25)
def test_every_text_is_looked_through_for_calls_without_an_error(
    text: str, tools: list[tuple[str, dict[str, Any]]]
) -> None:
    definitions = [tool_of(*each) for each in tools]
    found = spelled_calls(text, definitions)
    assert all(0 <= each.start < each.end <= len(text) for each in found)
    spelled_answer(text, whole=False)
    lone_answer(text)


REQUESTS = (
    "Tell me the date",
    "I need your name",
    "Please specify the amount",
    "Sag mir das Datum",
    "Which date?",
)
PAYING = (
    ToolDefinition("pay_bill", "Pay a bill.", {"properties": {"number": {}, "date": {}}}),
    ToolDefinition("list_bills", "List bills.", {}),
)


@given(text=st.lists(st.one_of(pieces, st.sampled_from(REQUESTS)), max_size=12).map(" ".join), task=texts)
@example(text="Which date?", task="Pay it.")
def test_what_is_asked_for_is_missing_in_the_task(text: str, task: str) -> None:
    if asks_back(text, task, PAYING):
        assert asks_back(text, task)
    if asks_back(text, f"{task} {text}"):
        assert QUESTION.search(text)


@given(st.sampled_from(REQUESTS), texts)
def test_what_is_quoted_asks_for_nothing(request: str, task: str) -> None:
    assert asks_back(request, "Do it.")
    assert not asks_back(f"The label says “{request}”.", task)


@given(
    st.lists(st.integers(100, 999).map("R-{}".format), min_size=2, max_size=6, unique=True),
    st.data(),
)
def test_the_parts_that_are_left_are_those_that_no_call_had(bills: list[str], data: st.DataObject) -> None:
    paid = data.draw(st.lists(st.sampled_from(bills), min_size=1, unique=True))
    listed = f"{', '.join(bills[:-1])} and {bills[-1]}"
    calls = [CompletedCall("pay_bill", {"bill": (each,)}, f"{each} is paid") for each in paid]
    rest = {each for each in bills if each not in paid}
    for claim in ("All bills are paid.", f"I paid {listed}.", f"{listed} were paid."):
        assert set(parts_left(f"Pay bills {listed}.", claim, PAYING, calls)) == rest
    told = f"{' and '.join(paid)} {'was' if len(paid) == 1 else 'were'} paid."
    assert not parts_left(f"Pay bills {listed}.", told, PAYING, calls)
    assert not parts_left(f"Are bills {listed} paid?", "All are paid.", PAYING, calls)
