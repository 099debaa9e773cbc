"""Calls in whatever form a model makes them, through the whole agent."""

from __future__ import annotations

from datetime import date, time, timedelta

import pytest

from reactive_agents import AgentResult, ReactiveAgents, tool
from reactive_agents.testing import ScriptedLLM, Turn, answer, call, calls, forever, malformed_call, say

pytestmark = pytest.mark.anyio


@tool(name="file-read")
async def read(path: str, start_line: int = 1) -> str:
    """Read a file.

    Args:
        path: the file.
        start_line: where to begin.
    """
    return f"{path} from line {start_line}"


async def run(*turns: Turn) -> tuple[AgentResult, ScriptedLLM]:
    llm = ScriptedLLM(*turns, forever(answer("done")))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(read).build()
    return await agent.run("Say what there is."), llm


def observed(result: AgentResult) -> list[str]:
    return [step.content for step in result.steps if step.type == "observation"]


def repairs(result: AgentResult) -> tuple[str, ...]:
    actions = [step.metadata for step in result.steps if step.type == "action" and step.metadata]
    (called,) = [each for each in actions if each.tool_used != "final-answer"]
    return called.repairs


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"name": "file-read", "arguments": {"path": "a.md"}}\n```',
        '{"tool": "file_read", "parameters": {"path": "a.md"}}',
        'I will look.\n```json\n{"tool_name": "File-Read", "args": "{\\"path\\": \\"a.md\\"}"}\n```',
        '<think>Which tool? {"name": "other"}</think>{"name": "file-read", "input": {"path": "a.md"}}',
        '<tool_call>\n{"name": "file-read", "arguments": {"path": "a.md"}}\n</tool_call>',
        '<|python_tag|>{"name": "file-read", "parameters": {"path": "a.md"}}',
        '[TOOL_CALLS][{"name": "file-read", "arguments": {"path": "a.md"}}]',
        "{'name': 'file-read', 'arguments': {'path': 'a.md',}}",
        'file-read({"path": "a.md"})',
        'file-read\n{"path": "a.md"}',
        '>>>file_read\n{"path": "a.md"}',
        '```tool_code\nprint(default_api.file_read(path="a.md"))\n```',
    ],
)
async def test_a_call_written_as_text_is_run(text: str) -> None:
    result, llm = await run(say(text))
    assert (observed(result), result.output) == (["a.md from line 1"], "done")
    assert repairs(result)[0].startswith("The call was written as text")
    assert "a.md from line 1" in llm.requests[1].messages[-1].content


async def test_several_calls_in_one_text_are_all_run() -> None:
    text = """
        [{"name": "file-read", "arguments": {"path": "a"}}, {"name": "file-read", "arguments": {"path": "b"}}]
    """
    result, _ = await run(say(text))
    assert observed(result) == ["a from line 1", "b from line 1"]


@pytest.mark.parametrize(
    "text",
    [
        'The file holds {"name": "Ada", "arguments": 3}, which is JSON.',
        'For example, `{"name": "file-read", "arguments": {"path": "a.md"}}` reads a file.',
        "file-read reads files (path, start_line).",
    ],
)
async def test_prose_that_merely_contains_json_is_an_answer(text: str) -> None:
    result, _ = await run(answer(text))
    assert (observed(result), result.output) == ([], text)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "delete-all", "arguments": {}}',
        'Calling tool: {"name": "delete-all", "arguments": {"path": "a.md"}}',
        '<tool_call>\n{"name": "delete-all", "argum',
    ],
)
async def test_a_call_of_an_unknown_tool_is_no_answer(text: str) -> None:
    result, llm = await run(say(text))
    assert (observed(result), result.output) == ([], "done")
    told = llm.requests[1].messages[-1].content
    assert "There is no tool 'delete-all'. The tools are: file-read, final-answer." in told


async def test_thinking_is_not_part_of_the_answer() -> None:
    text = "<think>2 + 2 is 4.</think>\n\nThe answer is 4."
    result, _ = await run(say(text), say(text))
    assert result.output == "The answer is 4."


@pytest.mark.parametrize(
    "turn",
    [
        say(
            '<think>\nI read it.\n<tool_call>{"name": "file-read", "arguments": {"path": "a.md"}}</tool_call>'
        ),
        say(
            "<think>\nI read it.\n"
            '<tool_call>{"name": "file-read", "arguments": {"path": "a.md"}}</tool_call>\n</think>\n'
        ),
        say(
            "",
            thinking='I look.\n<tool_call>{"name": "file-read", "arguments": {"path": "a.md"}}</tool_call>',
        ),
    ],
)
async def test_a_turn_that_ends_with_a_call_in_its_thinking_makes_it(turn: Turn) -> None:
    result, _ = await run(turn)
    assert (observed(result), result.output) == (["a.md from line 1"], "done")


async def test_a_call_that_thinking_only_speaks_of_is_not_made() -> None:
    thinking = 'Should I <tool_call>{"name": "file-read", "arguments": {"path": "a.md"}}</tool_call>? No.'
    result, _ = await run(say("", thinking=thinking))
    assert observed(result) == []
    spoken, _ = await run(say("All is well.", thinking=thinking.removesuffix("? No.")))
    assert observed(spoken) == []


async def test_marks_of_the_template_are_no_part_of_an_answer() -> None:
    text = "<|im_start|>assistant\nThe answer is 4.<|im_end|>\n<|im_start|>user\nThanks!"
    result, _ = await run(say(text), say(text))
    assert result.output == "The answer is 4."
    delivered, _ = await run(answer("<think>2 + 2</think>The answer is 4.<|eot_id|>"))
    assert delivered.output == "The answer is 4."


@pytest.mark.parametrize(
    ("turn", "expected", "repair"),
    [
        (call("file_read", path="a.md"), "a.md from line 1", "taken as 'file-read'"),
        (call("file-read", file_path="a.md"), "a.md from line 1", "path"),
        (call("file-read", path="a.md", start_line="3"), "a.md from line 3", "start_line"),
        (call("file-read", path="a.md", start_line=None), "a.md from line 1", "left out"),
        (malformed_call("file-read", "{'path': 'a.md'"), "a.md from line 1", "read as a JSON object"),
    ],
)
async def test_a_call_that_nearly_fits_is_repaired(turn: Turn, expected: str, repair: str) -> None:
    result, _ = await run(turn)
    assert observed(result) == [expected]
    assert repair in " ".join(repairs(result))


async def test_a_call_that_cannot_be_healed_goes_back_with_the_schema() -> None:
    result, llm = await run(call("file-read", start_line="many"))
    told = llm.requests[1].messages[-1].content
    assert "path: got nothing" in told
    assert "Call it again as: file-read(path: string, start_line: integer = 1)" in told
    assert repairs(result) == ()


async def test_native_calls_go_before_text_that_looks_like_one() -> None:
    text = '{"name": "file-read", "arguments": {"path": "written"}}'
    result, _ = await run(calls(call("file-read", path="native"), text=text))
    assert observed(result) == ["native from line 1"]


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"after": 5}, "5.0 s, 00:00:00"),
        ({"after": 0.5, "at": 3600}, "0.5 s, 01:00:00"),
        ({"after": "PT5S", "at": "07:30"}, "5.0 s, 07:30:00"),
    ],
)
async def test_a_number_for_a_duration_or_a_time_is_taken_as_seconds(
    given: dict[str, object], taken: str
) -> None:
    def wait(after: timedelta, at: time = time()) -> str:
        """Wait."""
        return f"{after.total_seconds()} s, {at.replace(tzinfo=None)}"

    llm = ScriptedLLM(call("wait", given), forever(answer("done")))
    result = (
        await ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(wait).build().run("Wait.")
    )
    assert observed(result) == [taken]
    assert repairs(result) == ()


async def test_what_is_refused_is_quoted_as_the_model_sent_it() -> None:
    def book(day: date) -> str:
        """Book."""
        return str(day)

    llm = ScriptedLLM(call("book", day=5), forever(answer("done")))
    result = (
        await ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(book).build().run("Book.")
    )
    assert "got 5" in observed(result)[0]


async def test_a_heading_and_data_are_no_call() -> None:
    text = 'file-read\n{"lines": 3}'
    result, _ = await run(answer(text))
    assert (result.status, result.output, observed(result)) == ("completed", text, [])


@pytest.mark.parametrize(
    "text",
    [
        'It would be:\nfile-read\n{"path": "a.md"}',
        'file-read\n{"start_line": 3}',
        "file-read\n{}",
        '```python\nprint(file_read(path="a.md"))\n```',
        '```tool_code\nprint(file_read(path="a.md"), 1)\n```',
    ],
)
async def test_a_call_that_is_only_shown_or_lacks_arguments_is_asked_about(text: str) -> None:
    result, llm = await run(say(text))
    assert (observed(result), result.output, len(llm.requests)) == ([], "done", 2)
