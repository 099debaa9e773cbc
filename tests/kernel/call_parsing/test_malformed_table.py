"""Texts that models really write when they mean to call a tool, and when they do not."""

from __future__ import annotations

import pytest

from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.call_parsing.parser import parse_calls, split_thinking
from reactive_agents.kernel.call_parsing.repair import RepairedCall, repair_call

KNOWN = ("web-search", "file-read", "file_write", "clock", "calculator")
Q: JsonObject = {"query": "rain"}
SEARCH = ("web-search", Q)
CLOCK: tuple[str, JsonObject] = ("clock", {})

CALLS: list[tuple[str, list[tuple[str, JsonObject]]]] = [
    # the keys of a call
    ('{"name": "web-search", "arguments": {"query": "rain"}}', [SEARCH]),
    ('{"tool": "web-search", "parameters": {"query": "rain"}}', [SEARCH]),
    ('{"tool_name": "web_search", "args": {"query": "rain"}}', [SEARCH]),
    ('{"type": "tool_use", "id": "t1", "name": "web-search", "input": {"query": "rain"}}', [SEARCH]),
    ('{"function": {"name": "web-search", "arguments": "{\\"query\\": \\"rain\\"}"}}', [SEARCH]),
    ('{"action": "web-search", "action_input": {"query": "rain"}}', [SEARCH]),
    ('{"thought": "look", "action": "web-search", "action_input": {"query": "rain"}}', [SEARCH]),
    ('{"action": "web-search", "action_input": "rain"}', [("web-search", {"input": "rain"})]),
    ('[{"name": "clock"}, {"name": "web-search", "arguments": {"query": "rain"}}]', [CLOCK, SEARCH]),
    ('{"tool_calls": [{"name": "clock", "arguments": null}]}', [CLOCK]),
    ('{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "clock"}}]}', [CLOCK]),
    ('{"function_call": {"name": "clock", "arguments": "{}"}}', [CLOCK]),
    ('{"name": "functions.Web_Search", "arguments": {"query": "rain"}}', [SEARCH]),
    ('{"name": "clock"}\n{"name": "web-search", "arguments": {"query": "rain"}}', [CLOCK, SEARCH]),
    ('[{"name": "clock"}, {"name": "unheard-of"}]', [CLOCK]),
    # where it stands
    ('I will search.\n\n{"name": "web-search", "arguments": {"query": "rain"}}', [SEARCH]),
    ('{"name": "web-search", "arguments": {"query": "rain"}}\nNow I wait.', [SEARCH]),
    ('```json\n{"name": "web-search", "arguments": {"query": "rain"}}\n```', [SEARCH]),
    ('```\n{"name": "clock"}\n```\nand\n```tool_call\n{"name": "clock"}\n```', [CLOCK, CLOCK]),
    ('```json\n{"name": "web-search", "arguments": {"query": "rain"}}', [SEARCH]),
    ("```tool_code\nweb_search(query='rain')\n```", [SEARCH]),
    ('```json\n<tool_call>{"name": "clock"}</tool_call>\n```', [CLOCK]),
    ('web-search({"query":"rain"})', [SEARCH]),
    ('Final answer: web-search({"query": "rain"})', [SEARCH]),
    ('I look.\n`web-search({"query": "rain"})`', [SEARCH]),
    ('Let me see.\nweb_search(query="rain")', [SEARCH]),
    ('web_search(query="rain")\nclock()', [SEARCH, CLOCK]),
    ("[web_search(query='rain'), clock()]", [SEARCH, CLOCK]),
    ('Action: web-search\nAction Input: {"query": "rain"}', [SEARCH]),
    (
        "Thought: look\nAction: web-search\nAction Input: rain\nObservation: wet",
        [("web-search", {"input": "rain"})],
    ),
    ('```json\nweb-search({"query": "rain"})\n```', [SEARCH]),
    # tags and special tokens
    ('<tool_call>\n{"name": "web-search", "arguments": {"query": "rain"}}\n</tool_call>', [SEARCH]),
    ('So: <tool_call>{"name": "web-search", "arguments": {"query": "rain"}}', [SEARCH]),
    ('<tool_call>{"name": "clock"}</tool_call><tool_call>{"name": "clock"}', [CLOCK, CLOCK]),
    ('<tool_call>{"name": "web-search", "arguments": {"query": "rain"}}}</tool_call>', [SEARCH]),
    ('<tool_call>{"name": "web-search", "arguments": {"query": "rain"}</tool_call>', [SEARCH]),
    ("<tool_call>{'name': 'web-search', 'arguments': {'query': 'rain'}}</tool_call>", [SEARCH]),
    (
        "<tool_call>\n<function=web-search>\n<parameter=query>\nrain\n</parameter>\n</function>\n</tool_call>",
        [SEARCH],
    ),
    ("<function=web-search>\n<parameter=query>\nrain\n</parameter>\n</function>", [SEARCH]),
    ("<function=web-search>\n<parameter=query>rain</parameter>", [SEARCH]),
    ("<function=clock>\n</function>", [CLOCK]),
    ('<function=web-search>{"query": "rain"}</function>', [SEARCH]),
    ('<|python_tag|>{"name": "clock", "parameters": {}}; {"name": "clock"}', [CLOCK, CLOCK]),
    ('<|python_tag|>web_search.call(query="rain")<|eom_id|>', [SEARCH]),
    ('[TOOL_CALLS][{"name": "web-search", "arguments": {"query": "rain"}}]', [SEARCH]),
    ('[TOOL_CALLS]web-search{"query": "rain"}', [SEARCH]),
    ('[TOOL_CALLS]clock[ARGS]{}[TOOL_CALLS]web-search[ARGS]{"query": "rain"}', [CLOCK, SEARCH]),
    (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>web-search\n```json\n"
        '{"query": "rain"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
        [SEARCH],
    ),
    ('<｜tool▁call▁begin｜>web-search<｜tool▁sep｜>{"query": "rain"}<｜tool▁call▁end｜>', [SEARCH]),
    (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.clock:0<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>",
        [CLOCK],
    ),
    ("<tool_call>web-search\n<arg_key>query</arg_key>\n<arg_value>rain</arg_value>\n</tool_call>", [SEARCH]),
    ('<invoke name="web-search"><parameter name="query">rain</parameter></invoke>', [SEARCH]),
    ("<|channel|>commentary to=functions.clock <|constrain|>json<|message|>{}<|call|>", [CLOCK]),
    ('<|tool_call_start|>[web_search(query="rain")]<|tool_call_end|>', [SEARCH]),
    ('<|tool_call|>[{"name": "clock", "arguments": {}}]<|/tool_call|>', [CLOCK]),
    ('<tools>\n{"name": "web-search", "arguments": {"query": "rain"}}\n</tools>', [SEARCH]),
    ('<TOOLCALL>[{"name": "clock", "arguments": {}}]</TOOLCALL>', [CLOCK]),
    ('<functioncall> {"name": "clock", "arguments": {}}', [CLOCK]),
    (
        "<seed:tool_call>\n<function=web-search>\n<parameter=query>rain</parameter>\n</function>\n"
        "</seed:tool_call>",
        [SEARCH],
    ),
    (
        '<minimax:tool_call>\n<invoke name="web-search">\n<parameter name="query">rain</parameter>\n'
        "</invoke>\n</minimax:tool_call>",
        [SEARCH],
    ),
    (
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "web-search", "parameters": {"query": "rain"}}]'
        "<|END_ACTION|>",
        [SEARCH],
    ),
    ('Action: ```json\n[{"tool_name": "web-search", "parameters": {"query": "rain"}}]\n```', [SEARCH]),
    ('[TOOL_CALLS]\n```json\n[{"name": "clock", "arguments": {}}]\n```', [CLOCK]),
    ('commentary to=functions.web-search json{"query": "rain"}', [SEARCH]),
    ('{"recipient_name": "functions.web-search", "parameters": {"query": "rain"}}', [SEARCH]),
    ('{"tool_uses": [{"recipient_name": "functions.clock", "parameters": {}}]}', [CLOCK]),
    # what the model takes for the result
    (
        '<tool_call>{"name": "clock"}</tool_call>\n<tool_response>\n12:30\n</tool_response>\nIt is 12:30.',
        [CLOCK],
    ),
    # broken JSON
    ('{"name": "web-search", "arguments": {"query": "rain",},}', [SEARCH]),
    ('{"name": "web-search", "arguments": {"query": "rain"}}}', [SEARCH]),
    (
        '{"name": "file\\_write", "arguments": {"path": "my\\_notes.md"}}',
        [("file_write", {"path": "my_notes.md"})],
    ),
    ("{'name': 'web-search', 'arguments': {'query': 'rain'}}", [SEARCH]),
    ('{"name": "web-search", "arguments": {"query": "rain"}', [SEARCH]),
    ('{"name": "web-search", // look\n"arguments": {"query": "rain"}}', [SEARCH]),
    ('{"name": "file_write", "arguments": {"content": "a\nb"}}', [("file_write", {"content": "a\nb"})]),
    ("{name: web-search, arguments: {query: rain}}", [SEARCH]),
    ('{"name": "clock", "arguments": {"on": True}}', [("clock", {"on": True})]),
    ('{"name": "web-search" "arguments": {"query": "rain"}}', [SEARCH]),
    ('[{"name": "clock", "arguments": {}},]', [CLOCK]),
    # thinking
    ('<think>clock()</think>\n{"name": "web-search", "arguments": {"query": "rain"}}', [SEARCH]),
    ('I should look.\n</think>\n<tool_call>{"name": "clock"}</tool_call>', [CLOCK]),
    (
        '{"name": "file_write", "arguments": {"content": "<think>x</think>"}}',
        [("file_write", {"content": "<think>x</think>"})],
    ),
    (
        '<tool_call>{"name": "clock", "arguments": {"a": "</tool_call>"}}</tool_call>',
        [("clock", {"a": "</tool_call>"})],
    ),
]

PROSE = [
    '<think>{"name": "clock"}</think>It is noon.',
    "<think>\nclock()",
    '{"name": "clock", "price": 3}',
    '{"name": "unheard-of", "arguments": {}}',
    '{"city": "Oslo"}',
    '{"name": "clock", "arguments": [1]}',
    '{"name": "web-search", "description": "Searches.", "parameters": {"type": "object", "properties": {}}}',
    '{"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}',
    'For example, `{"name": "clock", "arguments": {}}` is a call.',
    'For example, {"name": "clock", "arguments": {}}',
    'For example:\n{"name": "clock", "arguments": {}}',
    'For example:\n\n```json\n{"name": "clock", "arguments": {}}\n```',
    'Send {"name": "clock", "arguments": {}} to it.',
    '{"name": "clock", "arguments": {}} is what I would send.',
    'Use `<tool_call>{"name": "clock"}</tool_call>` for that.',
    "You call clock() for the time.",
    "clock() gives the time.",
    "1. clock()\n2. rest",
    "```python\nclock()\n```",
    '```json\n{"name": "clock"}\nis a call\n```',
    "web-search(query)",
    "web-search(2 + 2)",
    "calculator(expression=a + b)",
    '<tool_call>{"name": "file_write", "arguments": {"path": "a", "content": "cut o',
    '<tool_call>{"name": "file_write", "arguments": {"lines": 12',
    "<function=file_write>\n<parameter=content>\ncut o",
    '{"name": "file_write", "arguments": {"content": "5" tall"}}',
    '<tool_call>{"name": "unheard-of"}</tool_call>',
    "[TOOL_CALLS] and then nothing",
    "<tool_call></tool_call>",
    "Action: rest\nAction Input: long",
    "",
    "{",
    "The [clock] is (right).",
]


@pytest.mark.parametrize(("text", "expected"), CALLS)
def test_calls(text: str, expected: list[tuple[str, JsonObject]]) -> None:
    assert [(call.name, call.arguments) for call in parse_calls(text, KNOWN).calls] == expected


@pytest.mark.parametrize(("text", "expected"), CALLS)
def test_what_templates_leave_around_a_call_makes_no_difference(
    text: str, expected: list[tuple[str, JsonObject]]
) -> None:
    ended = split_thinking(f"{text}<|im_end|>")[0]
    assert [(call.name, call.arguments) for call in parse_calls(ended, KNOWN).calls] == expected


@pytest.mark.parametrize("text", PROSE)
def test_prose(text: str) -> None:
    assert parse_calls(text, KNOWN).calls == ()


FENCED = "In HTML:\n```\n<think>a</think>\n```\nis it."


@pytest.mark.parametrize(
    ("text", "prose", "thinking"),
    [
        ('<think>So.</think>I look.\n\n<tool_call>{"name": "clock"}</tool_call>', "I look.", "So."),
        ('Here:\n```json\n{"name": "clock"}\n```\nDone.', "Here:\n\nDone.", ""),
        ('{"name": "clock"}\nDone.', "Done.", ""),
        ("Thought: look\nAction: clock\nAction Input: {}", "Thought: look", ""),
        ("So it is.\n</think>\n\nNoon.", "Noon.", "So it is."),
        (FENCED, FENCED, ""),
        (FENCED.replace("```\n<", "```html\n<"), FENCED.replace("```\n<", "```html\n<"), ""),
        (f"<think>Hm.</think>{FENCED}", FENCED, "Hm."),
        ("<think>\n```\nx\n```\n</think>\nNoon.", "Noon.", "```\nx\n```"),
        ("The tag `</think>` ends it.", "The tag `</think>` ends it.", ""),
        ('<tool_call>{"name": "clock"}</tool_call>\n<tool_response>3</tool_response>\nIt is 3.', "", ""),
        ("Noon.", "Noon.", ""),
    ],
)
def test_what_is_left(text: str, prose: str, thinking: str) -> None:
    parsed = parse_calls(text, KNOWN)
    assert (parsed.prose, parsed.thinking) == (prose, thinking)


def test_thinking_in_a_fenced_block_is_code_without_tools_too() -> None:
    parsed = parse_calls(f"<think>Hm.</think>{FENCED}", ())
    assert (parsed.prose, parsed.thinking) == (FENCED, "Hm.")


def test_names_that_fold_to_the_same_are_told_apart_by_exact_spelling_alone() -> None:
    known = ("get-it", "get_it")
    assert [call.name for call in parse_calls('{"name": "get_it"}', known).calls] == ["get_it"]
    assert parse_calls('{"name": "Get_It"}', known).calls == ()


def schema(required: list[str], closed: bool = True, **properties: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": not closed,
    }


TOOLS = (
    ToolDefinition(
        "web-search",
        "Search the web.",
        schema(["query"], query={"type": "string"}, limit={"type": "integer", "default": 5}),
    ),
    ToolDefinition(
        "file-read",
        "",
        schema(
            ["path"],
            path={"type": "string"},
            start_line={"type": "integer", "default": 1},
            raw={"type": "boolean"},
        ),
    ),
    ToolDefinition(
        "file_write", "", schema(["path", "content"], path={"type": "string"}, content={"type": "string"})
    ),
    ToolDefinition(
        "calculator", "Evaluate an expression.", schema(["expression"], expression={"type": "string"})
    ),
    ToolDefinition(
        "paint",
        "",
        schema(
            ["colour", "sizes"],
            colour={"enum": ["red", "blue"]},
            sizes={"type": "array", "items": {"type": "number"}},
            frame={"type": "object", "properties": {"width": {"type": "integer"}}},
            title={"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
    ),
)
PAINT: JsonObject = {"colour": "red", "sizes": [1]}

REPAIRED: list[tuple[str, JsonObject, str, JsonObject, int]] = [
    ("web_search", {"query": "a"}, "web-search", {"query": "a"}, 1),
    ("functions.web-search", {"query": "a"}, "web-search", {"query": "a"}, 1),
    ("WebSearch", {"query": "a"}, "web-search", {"query": "a"}, 1),
    ("search", {"query": "a"}, "web-search", {"query": "a"}, 1),
    ("web_search_tool", {"query": "a"}, "web-search", {"query": "a"}, 1),
    ("web-serch", {"query": "a"}, "web-search", {"query": "a"}, 1),
    ("read_file", {"path": "a"}, "file-read", {"path": "a"}, 1),
    ("web-search", {"q": "a"}, "web-search", {"query": "a"}, 1),
    ("web-search", {"search_query": "a", "Limit": "3"}, "web-search", {"query": "a", "limit": 3}, 3),
    ("web-search", {"about": "a"}, "web-search", {"query": "a"}, 1),
    ("web-search", {"input": {"query": "a"}}, "web-search", {"query": "a"}, 1),
    ("web-search", {"name": "web_search", "arguments": {"query": "a"}}, "web-search", {"query": "a"}, 1),
    ("web-search", {"query": 7}, "web-search", {"query": "7"}, 1),
    ("web-search", {"query": "a", "limit": None}, "web-search", {"query": "a"}, 1),
    ("web-search", {"query": "a", "limit": ""}, "web-search", {"query": "a"}, 1),
    ("web-search", {"query": "a", "limit": "null"}, "web-search", {"query": "a"}, 1),
    ("file-read", {"file_path": "a"}, "file-read", {"path": "a"}, 1),
    ("file-read", {"filename": "a", "startLine": 3.0}, "file-read", {"path": "a", "start_line": 3}, 3),
    ("file-read", {"path": "a", "raw": "True"}, "file-read", {"path": "a", "raw": True}, 1),
    ("file_write", {"file": "a", "text": "b"}, "file_write", {"path": "a", "content": "b"}, 2),
    ("file_write", {"path": "a", "content": {"b": 1}}, "file_write", {"path": "a", "content": '{"b": 1}'}, 1),
    ("calculator", {"expr": "1+1"}, "calculator", {"expression": "1+1"}, 1),
    ("calculator", {"input": 2}, "calculator", {"expression": "2"}, 2),
    ("paint", {"colour": "RED", "sizes": 1}, "paint", PAINT, 2),
    ("paint", {"colour": "red", "sizes": "[1]"}, "paint", PAINT, 1),
    ("paint", {"colour": "red", "sizes": ["1"]}, "paint", PAINT, 1),
    ("paint", {**PAINT, "frame": '{"width": "3"}'}, "paint", {**PAINT, "frame": {"width": 3}}, 1),
    ("paint", {**PAINT, "title": None}, "paint", {**PAINT, "title": None}, 0),
    ("web-search", {"query": "3"}, "web-search", {"query": "3"}, 0),
    ("web-search", {"query": ""}, "web-search", {"query": ""}, 0),
    ("web-search", {}, "web-search", {}, 0),
    ("web-search", {"query": None}, "web-search", {"query": None}, 0),
    ("web-search", {"query": ["a", "b"]}, "web-search", {"query": ["a", "b"]}, 0),
    ("web-search", {"q": "a", "question": "b"}, "web-search", {"q": "a", "question": "b"}, 0),
    ("web-search", {"query": "a", "q": "b"}, "web-search", {"query": "a", "q": "b"}, 0),
    (
        "web-search",
        {"name": "file-read", "arguments": {"query": "a"}},
        "web-search",
        {"name": "file-read", "arguments": {"query": "a"}},
        0,
    ),
    ("web-search", {"query": "a", "limit": "3.5"}, "web-search", {"query": "a", "limit": "3.5"}, 0),
    ("web-search", {"query": "a", "limit": "ten"}, "web-search", {"query": "a", "limit": "ten"}, 0),
    ("file-read", {"path": "a", "raw": 1}, "file-read", {"path": "a", "raw": 1}, 0),
    ("file-read", {"path": {"b": 1}}, "file-read", {"path": {"b": 1}}, 0),
    ("paint", {"colour": "green", "sizes": [1]}, "paint", {"colour": "green", "sizes": [1]}, 0),
    ("web-fetch", {"query": "a"}, "web-fetch", {"query": "a"}, 0),
    ("file-reads-all", {"path": "a"}, "file-reads-all", {"path": "a"}, 0),
]


@pytest.mark.parametrize(("name", "arguments", "tool", "expected", "repairs"), REPAIRED)
def test_healings(name: str, arguments: JsonObject, tool: str, expected: JsonObject, repairs: int) -> None:
    repaired = repair_call(ToolCall(CallId("c"), name, arguments), TOOLS)
    assert (repaired.call.name, repaired.call.arguments) == (tool, expected)
    assert len(repaired.repairs) == repairs, repaired.repairs


@pytest.mark.parametrize(
    ("malformed", "expected"),
    [
        ('{"query": "a",}', {"query": "a"}),
        ("{'query': 'a'}", {"query": "a"}),
        ('{"query": "a"', {"query": "a"}),
        ('"{\\"query\\": \\"a\\"}"', {"query": "a"}),
        ('```json\n{"query": "a"}\n```', {"query": "a"}),
        ('{"q": "a",}', {"query": "a"}),
        ("null", {}),
        ('{"query": "a"}<|im_end|>', {"query": "a"}),
        ('{"query": "a"}\n</tool_call>;', {"query": "a"}),
        ('{"query": "a</tool_call>",}', {"query": "a</tool_call>"}),
        ('{"query": "a"}{"query": "b"}', None),
        ('{"query": "cut o', None),
        ("rain", None),
        ("[1, 2", None),
    ],
)
def test_malformed_arguments(malformed: str, expected: JsonObject | None) -> None:
    call = ToolCall(CallId("c"), "web-search", malformed=malformed)
    repaired = repair_call(call, TOOLS)
    if expected is None:
        assert (repaired.call, repaired.repairs) == (call, ())
    else:
        assert (repaired.call.arguments, repaired.call.malformed) == (expected, "")
        assert repaired.repairs


def test_a_word_that_two_tools_share_names_neither() -> None:
    tools = (ToolDefinition("web-search", "", {}), ToolDefinition("image-search", "", {}))
    assert repair_call(ToolCall(CallId("c"), "search"), tools).definition is None


def test_get_is_never_taken_for_set() -> None:
    tools = (ToolDefinition("set_customer_order_history", "", {}),)
    assert repair_call(ToolCall(CallId("c"), "get_customer_order_history"), tools).definition is None


@pytest.mark.parametrize(
    "definition",
    [
        ToolDefinition("delete", "Delete a file.", schema(["path"], path={"type": "string"})),
        ToolDefinition("note", "Look up a note.", schema(["path"], path={"type": "string"}), risk="medium"),
        ToolDefinition(
            "note", "Look up a note.", schema(["path"], path={"type": "string"}), requires_approval=True
        ),
        ToolDefinition("note", "Look up a note.", schema(["path"], path={"type": "string"}), output=True),
        ToolDefinition("note", "", schema(["path"], path={"type": "string"})),
        ToolDefinition("final-answer", "Deliver the answer.", schema(["name"], name={"type": "string"})),
    ],
)
def test_an_unknown_argument_is_no_guess_of_what_a_tool_acts_on(definition: ToolDefinition) -> None:
    call = ToolCall(CallId("c"), definition.name, {"keep": "thesis.md"})
    assert repair_call(call, [definition]) == RepairedCall(call, (), definition)


def test_the_only_unknown_argument_is_the_missing_one_of_a_tool_that_looks_up() -> None:
    definition = ToolDefinition("note", "Look up a note.", schema(["path"], path={"type": "string"}))
    call = ToolCall(CallId("c"), "note", {"topic": "rain"})
    assert repair_call(call, [definition]).call.arguments == {"path": "rain"}


@pytest.mark.parametrize(
    ("wanted", "given"), [("value", "message"), ("content", "output"), ("result", "text")]
)
def test_names_of_an_answer_are_no_names_of_what_a_tool_acts_on(wanted: str, given: str) -> None:
    parameters = schema([wanted], **{wanted: {"type": "string"}})
    definition = ToolDefinition("store", "Store something.", parameters)
    call = ToolCall(CallId("c"), "store", {given: "rain"})
    assert repair_call(call, [definition]) == RepairedCall(call, (), definition)


@pytest.mark.parametrize("given", ["message", "result", "text"])
def test_the_text_of_an_answer_has_several_names(given: str) -> None:
    definition = ToolDefinition("final-answer", "Answer.", schema(["answer"], answer={"type": "string"}))
    call = ToolCall(CallId("c"), "final-answer", {given: "rain"})
    assert repair_call(call, [definition]).call.arguments == {"answer": "rain"}
