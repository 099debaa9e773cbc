"""The offline model works through a question with real files, quotes them truly, and ends."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.adapters.llm.offline import (
    GUIDANCE,
    LEFT_OUT,
    NOTES,
    OfflineLLM,
    find_arithmetic,
    passages,
    respond,
)
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId, TaskId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.memory import MemoryContext
from reactive_agents.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from reactive_agents.core.models import (
    ModelRequest,
    ModelResponse,
    StreamCompleted,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import attempt
from reactive_agents.kernel import KernelInput
from reactive_agents.kernel.context_window.tool_results import preview
from reactive_agents.kernel.prompt import fence, render_guidance, stable_prefix
from reactive_agents.kernel.state import Guidance
from reactive_agents.kernel.toolset import FINAL_ANSWER_TOOL
from reactive_agents.ports import LLM
from tests.support.operations import assert_linear

REFUNDS = """# Refunds

We pay refunds within 14 days. They go
to the original card. A refund of a gift goes to the giver.

## Shipping

- Free above 50 EUR
- Otherwise 5 EUR
"""
RULES = """MAX_REFUND_EUR = 900
RETRIES = 3
"""


def tool(name: str, **parameters: str) -> ToolDefinition:
    properties: JsonObject = {key: {"type": kind} for key, kind in parameters.items()}
    return ToolDefinition(name, f"The tool {name}.", {"type": "object", "properties": properties})


CALCULATOR = tool("calculator", expression="string")
SEARCH = tool("file-search", query="string", glob="string")
READ = tool("file-read", path="string", start_line="integer", max_lines="integer")
TOOLS = (CALCULATOR, SEARCH, READ)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "refunds.md").write_text(REFUNDS, encoding="utf-8")
    (tmp_path / "rules.py").write_text(RULES, encoding="utf-8")
    return tmp_path


def search(folder: Path, query: str) -> Json:
    wanted = query.lower().split()
    found: list[Json] = [
        {"path": path.name, "line": number, "text": line}
        for path in sorted(folder.iterdir())
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if any(word in line.lower() for word in wanted)
    ]
    return {"matches": found, "total": len(found)}


def read(folder: Path, path: str, start_line: int, max_lines: int) -> Json:
    lines = (folder / path).read_text(encoding="utf-8").splitlines()
    part = lines[start_line - 1 : start_line - 1 + max_lines]
    end = start_line + len(part) - 1
    return {
        "path": path,
        "start_line": start_line,
        "end_line": end,
        "total_lines": len(lines),
        "text": "\n".join(part),
    }


def run_call(folder: Path, call: ToolCall) -> ToolMessage:
    arguments = call.arguments
    result: Json
    if call.name == "calculator":
        known: Mapping[object, Json] = {"17 * 23": 391, "12 / 100 * 250": 30.0}
        if arguments["expression"] not in known:
            return ToolMessage(call.id, call.name, "Division by zero.", is_error=True)
        result = known[arguments["expression"]]
    elif call.name == "file-search":
        result = search(folder, str(arguments["query"]))
    else:
        path, start, count = (arguments[key] for key in ("path", "start_line", "max_lines"))
        if not (folder / str(path)).exists():
            return ToolMessage(call.id, call.name, f"There is no file {path!r}.", is_error=True)
        assert isinstance(start, int)
        assert isinstance(count, int)
        result = read(folder, str(path), start, count)
    return ToolMessage(call.id, call.name, json.dumps(result, ensure_ascii=False))


def converse(
    folder: Path, question: str, tools: tuple[ToolDefinition, ...] = TOOLS, *, parallel: bool | None = None
) -> tuple[list[list[ToolCall]], str]:
    """The calls of each turn, and the answer."""
    messages: tuple[Message, ...] = (SystemMessage("Be careful."), UserMessage(question))
    turns: list[list[ToolCall]] = []
    for _ in range(12):
        response = respond(ModelRequest(messages, tools, parallel_tool_calls=parallel))
        if not response.tool_calls:
            return turns, response.content
        turns.append(list(response.tool_calls))
        results = [run_call(folder, call) for call in response.tool_calls]
        messages = (*messages, AssistantMessage(response.content, response.tool_calls), *results)
    raise AssertionError(f"no answer after {turns}")


def ask(*messages: Message, tools: tuple[ToolDefinition, ...] = (), **more: object) -> ModelResponse:
    return respond(ModelRequest(messages, tools, **more))  # type: ignore[arg-type]


def found(tool_name: str, content: str, arguments: JsonObject | None = None) -> tuple[Message, Message]:
    """A call and its result."""
    call = ToolCall(CallId("c1"), tool_name, arguments or {})
    return AssistantMessage("", (call,)), ToolMessage(call.id, tool_name, content)


# --- the turns ------------------------------------------------------------------------------------------


def test_it_calculates_searches_reads_and_quotes(folder: Path) -> None:
    turns, answer = converse(folder, "How long do refunds take, and what is 17 times 23?")
    assert [[(call.name, call.arguments) for call in turn] for turn in turns] == [
        [("calculator", {"expression": "17 * 23"}), ("file-search", {"query": "refunds"})],
        [("file-read", {"path": "refunds.md", "start_line": 1, "max_lines": 60})],
    ]
    assert answer.startswith("17 * 23 = 391\nQuotations")
    assert "- “We pay refunds within 14 days.” (refunds.md:3)" in answer
    assert [call.id for turn in turns for call in turn] == ["offline-2-1", "offline-2-2", "offline-5-1"]


def test_several_files_are_read_in_one_turn_or_one_by_one(folder: Path) -> None:
    question = "What is the maximum refund in EUR?"
    together, answer = converse(folder, question)
    assert [len(turn) for turn in together] == [1, 2]
    one_by_one, same = converse(folder, question, parallel=False)
    assert [len(turn) for turn in one_by_one] == [1, 1, 1]
    assert answer == same


def test_quotations_are_verbatim_and_their_lines_are_right(folder: Path) -> None:
    _, answer = converse(folder, "Where does the refund of a gift go? And what is MAX_REFUND_EUR?")
    quotes = re.findall(r"^- “(.+)” \((.+):(\d+)\)$", answer, re.M)
    assert quotes
    for text, path, line in quotes:
        lines = (folder / path).read_text(encoding="utf-8").splitlines()
        assert text in " ".join(lines[int(line) - 1 :])
        assert lines[int(line) - 1].split()[-1] in text


def test_a_second_search_uses_beginnings_when_the_first_found_nothing(folder: Path) -> None:
    turns, answer = converse(folder, "Do zebras wear pyjamas?")
    assert [call.arguments for turn in turns for call in turn] == [
        {"query": "zebras wear pyjamas"},
        {"query": "zebra wear pyjama"},
    ]
    assert answer == "There is nothing to quote for this question, and this model can only quote."


def test_the_second_search_finds_other_forms_of_a_word(folder: Path) -> None:
    turns, answer = converse(folder, "What about refunding?")
    assert [call.arguments.get("query") for turn in turns for call in turn] == [
        "refunding",
        "refund",
        None,
        None,
    ]
    assert "(refunds.md:3)" in answer


def test_what_was_read_without_a_match_is_said_to_be_so(folder: Path) -> None:
    search_result, read_result = search(folder, "retries"), read(folder, "refunds.md", 1, 60)
    response = ask(
        UserMessage("How do zebras sleep?"),
        *found("file-search", json.dumps(search_result)),
        *found("file-read", json.dumps(read_result)),
    )
    assert response.content == "There is nothing to quote for this question, and this model can only quote."


def test_a_file_that_the_question_names_is_read_first_and_quoted(folder: Path) -> None:
    turns, answer = converse(folder, "Summarise rules.py")
    assert [[call.arguments["path"] for call in turn] for turn in turns] == [["rules.py"]]
    assert answer.endswith("- “MAX_REFUND_EUR = 900” (rules.py:1)\n- “RETRIES = 3” (rules.py:2)")
    turns, answer = converse(folder, "Which retries are in rules.py?")
    assert [call.name for turn in turns for call in turn] == ["file-search", "file-read"]
    assert answer.endswith("- “RETRIES = 3” (rules.py:2)")


def test_without_read_the_matches_of_the_search_are_quoted(folder: Path) -> None:
    _, answer = converse(folder, "How many RETRIES are there?", (SEARCH,))
    assert "“RETRIES = 3” (rules.py:2)" in answer


def test_failed_calls_are_not_repeated(folder: Path) -> None:
    turns, answer = converse(folder, "What is 17 / 0 in missing.md?", (CALCULATOR, READ))
    assert [[call.name for call in turn] for turn in turns] == [["calculator"], ["file-read"]]
    assert answer.startswith("17 / 0: not calculated. Division by zero.")


def test_a_search_that_always_fails_is_given_up() -> None:
    messages: tuple[Message, ...] = (UserMessage("Which refund rules are there?"),)
    for turn in range(10):
        response = ask(*messages, tools=TOOLS)
        if not response.tool_calls:
            assert turn <= 2
            assert "nothing to quote" in response.content
            return
        failed = [ToolMessage(call.id, call.name, "No.", is_error=True) for call in response.tool_calls]
        messages = (*messages, AssistantMessage(response.content, response.tool_calls), *failed)
    pytest.fail("it never gave up")


def test_the_answer_goes_through_the_final_answer_tool_when_there_is_one() -> None:
    response = ask(UserMessage("What of refunds?"), tools=(FINAL_ANSWER_TOOL,))
    (call,) = response.tool_calls
    assert (call.name, response.content, response.finish_reason) == ("final-answer", "", "tool_calls")
    assert "nothing to quote" in str(call.arguments["answer"])


def test_without_tools_it_says_what_it_lacks() -> None:
    for messages in ((), (UserMessage("What is 2 + 2?"),), (UserMessage("Who won?"),)):
        assert "nothing to quote" in ask(*messages).content


# --- the question ---------------------------------------------------------------------------------------


def test_its_marks_of_the_conversation_are_those_of_the_kernel() -> None:
    assert render_guidance((Guidance("policy", "Hurry."),)).startswith(GUIDANCE)
    recalled = KernelInput(
        "task",
        RunId("run"),
        TaskId("task"),
        AgentId("agent"),
        SessionId("session"),
        memory=MemoryContext("1", "The office opens at nine."),
    )
    notes = stable_prefix(recalled)[1]
    assert notes.content.startswith(NOTES)
    assert LEFT_OUT in preview("x" * 900, None, 400)


def test_recalled_notes_and_guidance_are_not_the_question() -> None:
    notes = UserMessage(f"{NOTES} Data.\n" + fence("recalled-notes", "The office opens at nine."))
    guidance = UserMessage(render_guidance((Guidance("p", "Say when the kitchen closes."),)))
    (call,) = ask(notes, UserMessage("Which gifts?"), guidance, tools=(SEARCH,)).tool_calls
    assert call.arguments == {"query": "gifts"}


def test_a_new_question_after_an_answer_is_worked_on_afresh() -> None:
    messages: tuple[Message, ...] = (
        UserMessage("Which refunds are there?"),
        *found("file-search", '{"matches": [], "total": 0}'),
        AssistantMessage("None."),
        UserMessage("And which gifts?"),
    )
    (call,) = ask(*messages, tools=(SEARCH,)).tool_calls
    assert call.arguments == {"query": "gifts"}
    assert call.id == "offline-5-1"


@pytest.mark.parametrize(
    ("text", "expressions"),
    [
        ("What is 17 times 23?", ["17 * 23"]),
        ("12 % of 250", ["12 / 100 * 250"]),
        ("12.5 percent of 80, please", ["12.5 / 100 * 80"]),
        ("(3 + 4) * 2.5 and 2 ** 10", ["(3 + 4) * 2.5", "2 ** 10"]),
        ("7 divided by 2, 7 minus 2 and 7 plus 2 (as in 7 - 2)", ["7 / 2", "7 - 2", "7 + 2"]),
        ("-3 + 5 or 3 * -5", ["-3 + 5", "3 * -5"]),
        ("3 * 1,250 and 1,250 * 3", []),
        ("100 - 1", ["100 - 1"]),
        ("Who was there on 2026-01-31?", []),
        ("what is 10/4, on pages 10-12 of version 1.2.3", ["10/4"]),
        ("What happened in 1999?", []),
        ("(1 + ) 2 ** ** 3", []),
        ("", []),
    ],
)
def test_arithmetic_is_found_and_dates_are_not(text: str, expressions: list[str]) -> None:
    assert list(find_arithmetic(text)[0]) == expressions


@pytest.mark.anyio
@pytest.mark.parametrize("strategy", ["tree-of-thought", "plan-execute-reflect", "reflexion"])
async def test_only_the_arithmetic_of_the_question_is_calculated(strategy: str) -> None:
    built = ReactiveAgents.create().with_llm(OfflineLLM()).with_reasoning(strategy).with_tools("calculator")
    async with built.build() as agent:
        answer = (await agent.run("What is 2*3?")).output
    assert [line for line in str(answer).splitlines() if " = " in line] == ["2*3 = 6"]


def test_prose_is_split_into_sentences_and_keeps_its_lines() -> None:
    part = (
        "\n# Rest\n\n| a1 | b1 |\n| --- | --- |\n- An item\n1. Another\n\nA sentence that\ngoes on. The last."
    )
    assert [(one.line, one.text) for one in passages("a.md", part, first_line=7)] == [
        (10, "| a1 | b1 |"),
        (12, "An item"),
        (13, "Another"),
        (15, "A sentence that goes on."),
        (16, "The last."),
    ]
    code = passages("a.py", "one = 1\n\n# two. Three")
    assert [(one.line, one.text) for one in code] == [(1, "one = 1"), (3, "# two. Three")]


# --- shortened and foreign results ----------------------------------------------------------------------


def test_a_shortened_result_is_picked_apart(folder: Path) -> None:
    whole = json.dumps(search(folder, "refund eur"), ensure_ascii=False)
    cut = (
        whole[:330]
        + "\n[… 40 of 900 characters left out; the full result is stored as x-1 …]\n"
        + whole[-40:]
    )
    (call,) = ask(UserMessage("Which refunds?"), *found("file-search", cut), tools=(READ,)).tool_calls
    assert call.arguments["path"] == "refunds.md"
    text = json.dumps({"path": "a.md", "start_line": 5, "text": 'One.\nThe "zebra" sleeps.\nThree\u0001'})
    for end in (len(text) - 10, len(text) - 3, len(text) - 5):
        shown = (
            text[:end] + "\n[… 9 of 99 characters left out; the full result is stored as x-2 …]\ntail zebra"
        )
        arguments: JsonObject = {"path": "a.md", "start_line": 5}
        answer = ask(UserMessage("Who is a zebra?"), *found("file-read", shown, arguments)).content
        assert '“The "zebra" sleeps.” (a.md:6)' in answer
        assert "tail" not in answer
        assert "Three" not in ask(UserMessage("Three?"), *found("file-read", shown, arguments)).content


def test_the_outline_of_a_result_is_read_as_far_as_it_goes(folder: Path) -> None:
    found_lines: list[Json] = [
        {"path": f"{number}.md", "line": number, "text": f"Refund {number} in eur."} for number in range(40)
    ]
    outline = preview(json.dumps({"matches": found_lines, "total": 40, "more": [[1], [2]]}), "x-1", 400)
    assert "more of 40 items" in outline
    (call,) = ask(UserMessage("Which refunds?"), *found("file-search", outline), tools=(READ,)).tool_calls[:1]
    assert call.arguments["path"] == "0.md"

    text = "\n".join(["One.", "The zebra sleeps.", *(f"Line {number} is of no use." for number in range(80))])
    outline = preview(json.dumps({"path": "a.md", "start_line": 5, "text": text}), "x-2", 400)
    assert "more characters" in outline
    arguments: JsonObject = {"path": "a.md", "start_line": 5}
    answer = ask(UserMessage("Who is a zebra?"), *found("file-read", outline, arguments)).content
    assert "“The zebra sleeps.” (a.md:6)" in answer
    assert "recall" not in answer


def test_results_of_other_tools_are_quoted_by_the_name_of_the_tool() -> None:
    answer = ask(UserMessage("How warm is Oslo?"), *found("weather", "Sunny.\nOslo is warm.")).content
    assert "“Oslo is warm.” (weather result:2)" in answer


@pytest.mark.parametrize(
    "content", ["", "null", "[1, 2]", '{"matches": 3}', "[" * 100_000, '{"text": 5}', '"']
)
def test_strange_results_do_not_disturb_it(content: str) -> None:
    for name in ("calculator", "file-search", "file-read", "other", "final-answer"):
        assert (
            ask(UserMessage("Which refunds?"), *found(name, content), tools=TOOLS).model == "offline/quotes"
        )


# --- the answer for a schema ----------------------------------------------------------------------------


def instance(schema: JsonObject, *messages: Message) -> Json:
    value: Json = json.loads(ask(*messages, response_schema=schema).content)
    jsonschema.validate(value, schema)
    return value


def test_the_marks_around_data_are_not_quoted() -> None:
    schema: JsonObject = {"type": "object", "properties": {"goal": {"type": "string"}}, "required": ["goal"]}
    asked = UserMessage("<task>\nFind the goal of the refunds.\n</task>\n\nTools: none")
    assert instance(schema, asked) == {"goal": "Find the goal of the refunds."}


def test_a_schema_is_filled_with_quotations_and_the_least_that_it_allows(folder: Path) -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "shipping": {"type": "string", "description": "When shipping is free."},
            "days": {"type": "integer", "minimum": 1},
            "receiver": {"enum": ["seller", "giver", None], "description": "Who gets the refund of a gift."},
            "paid": {"anyOf": [{"type": "integer", "minimum": 2, "maximum": 1}, {"$ref": "#/$defs/Flag"}]},
            "parts": {"type": "array", "minItems": 2, "items": {"type": "number", "exclusiveMinimum": 0.5}},
            "kind": {"const": "refund"},
            "nested": {"type": "object", "properties": {"code": {"type": "string", "maxLength": 4}}},
            "left_out": {"type": "string"},
        },
        "required": ["shipping", "days", "receiver", "paid", "parts", "kind", "nested"],
        "$defs": {"Flag": {"type": "boolean"}},
    }
    read_result = found("file-read", json.dumps(read(folder, "refunds.md", 1, 60)))
    assert instance(schema, UserMessage("Give the facts."), *read_result) == {
        "shipping": "Free above 50 EUR",
        "days": 1,
        "receiver": "giver",
        "paid": False,
        "parts": [1.5, 1.5],
        "kind": "refund",
        "nested": {},
    }


def test_without_anything_read_strings_quote_the_question() -> None:
    schema: JsonObject = {"type": "string"}
    assert instance(schema, UserMessage("Find the gifts. Then stop.")) == "Find the gifts."
    assert instance(schema) == ""
    assert instance({"type": "string", "minLength": 3}) == "---"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "number", "minimum": 0.25, "maximum": 1}, 0.25),
        ({"type": "integer", "minimum": -5}, 0),
        ({"type": "integer", "exclusiveMinimum": 3}, 4),
        ({"type": "integer", "maximum": -2}, -2),
        ({"type": "number", "exclusiveMaximum": -2}, -3),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": 1}, 2),
        ({"type": ["null", "string"]}, None),
        ({"type": "integer", "enum": [7, 8]}, 7),
        ({"anyOf": [False, {"const": "x"}]}, "x"),
        ({"$ref": "#/$defs/Any", "$defs": {"Any": {}}}, ""),
        ({}, ""),
    ],
)
def test_numbers_types_and_branches(schema: JsonObject, expected: Json) -> None:
    assert instance(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/nowhere"},
        {"type": "integer", "minimum": 2, "maximum": 1},
        {"type": "object", "properties": {"a": True}, "required": ["a"]},
        {"$defs": {"A": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/A"}}}}}
        | {"$ref": "#/$defs/A"},
    ],
)
def test_a_schema_without_an_instance_is_answered_with_null(schema: JsonObject) -> None:
    assert ask(UserMessage("x"), response_schema=schema).content == "null"


# --- the port -------------------------------------------------------------------------------------------


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.anyio
async def test_the_stream_joins_to_the_whole_answer() -> None:
    llm: LLM = OfflineLLM()
    assert llm.model == "offline/quotes"
    request = ModelRequest((UserMessage("What of refunds and 2 + 2?"),), TOOLS, model="other/model")
    whole = (await attempt(llm.complete(request))).unwrap()
    assert whole.model == "offline/quotes"
    chunks = [chunk.unwrap() async for chunk in llm.stream(request)]
    assert chunks[-1] == StreamCompleted(whole)
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == whole.content
    deltas = [chunk for chunk in chunks if isinstance(chunk, ToolCallDelta)]
    assert [(delta.index, delta.name, json.loads(delta.arguments)) for delta in deltas] == [
        (index, call.name, call.arguments) for index, call in enumerate(whole.tool_calls)
    ]


def test_usage_counts_words_exactly_and_costs_nothing() -> None:
    response = ask(SystemMessage("Be  brief."), UserMessage("Who won?"))
    assert response.usage == Usage(4, len(response.content.split()), 4 + len(response.content.split()))
    assert (response.usage.reported, response.cost_usd) == (True, 0.0)
    called = ask(UserMessage("Read notes.md"), tools=(READ,))
    assert called.usage.input_tokens == 2 + sum(1 + (len(word) - 1) // 12 for word in str(READ).split())
    assert called.usage.output_tokens == 3 + 9  # Looking up: notes.md, and the name with three arguments


def test_the_work_grows_with_the_length_of_what_was_found() -> None:
    def work(size: int) -> None:
        lines = "\n".join(
            f"Line {n} says that refund number {n * 7} was paid on day {n}." for n in range(size)
        )
        part = found("file-read", json.dumps({"path": "a.md", "start_line": 1, "text": lines}))
        respond(ModelRequest((UserMessage("When was refund 49 paid?"), *part), TOOLS))

    assert_linear(work, 60)
