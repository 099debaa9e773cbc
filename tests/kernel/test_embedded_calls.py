"""An answer that is a bare tool call is run, and its result takes the answer's place."""

from __future__ import annotations

import pytest

from reactive_agents.core.errors import ToolFailed
from reactive_agents.core.events import FinalAnswerProduced, ToolCallCompleted
from reactive_agents.core.settings import ToolNeeds, ToolRequirement
from reactive_agents.testing import answer, call, calls, forever, say
from tests.support.kernels import add, assert_balanced, assert_valid_transcript, kernel_bench

pytestmark = pytest.mark.anyio
BARE = 'FINAL ANSWER: web-search({"query": "test"})'


def search(query: str) -> str:
    return f"found {query}"


async def test_a_bare_call_is_run_and_its_result_is_the_answer() -> None:
    bench = kernel_bench(call("final-answer", answer=BARE), tools={"web-search": search})
    state = await bench.run()
    assert (state.status, state.outcome, state.output) == ("done", "completed", "found test")
    assert "written as text" in state.reason
    assert state.scratchpad == {"web-search-1": "found test"}
    assert bench.tools is not None
    assert bench.tools.arguments_of("web-search") == [{"query": "test"}]
    (answer,) = bench.recorder.of(FinalAnswerProduced)
    assert answer.answer == "found test"
    assert bench.recorder.tags()[-1] == "FinalAnswerProduced"
    assert_valid_transcript(state.messages)
    assert_balanced(bench, state)


async def test_several_bare_calls_are_run_and_their_results_are_the_answer() -> None:
    both = '[{"name": "web-search", "args": {"query": "a"}}, {"tool": "web_search", "input": {"query": "b"}}]'
    bench = kernel_bench(call("final-answer", answer=both), tools={"web-search": search})
    state = await bench.run()
    assert state.output == "found a\nfound b"
    assert_balanced(bench, state)


async def test_a_bare_call_in_the_models_text_is_a_call_like_any_other() -> None:
    bench = kernel_bench(say(BARE), say("It is found."), tools={"web-search": search})
    state = await bench.run()
    assert (state.output, state.iteration) == ("It is found.", 2)
    assert state.scratchpad == {"web-search-1": "found test"}
    (action,) = [step for step in state.steps if step.type == "action"]
    assert action.metadata is not None
    assert action.metadata.repairs == ("The call was written as text (plain).",)
    assert_valid_transcript(bench.llm.requests[1].messages)
    assert_balanced(bench, state)


async def test_a_bare_call_that_fails_leaves_no_answer_and_says_so() -> None:
    broken = ToolFailed("web-search", "offline")
    bench = kernel_bench(call("final-answer", answer=BARE), tools={"web-search": broken})
    state = await bench.run()
    assert (state.status, state.outcome, state.output) == ("done", "partial", None)
    assert "offline Missing: an answer." in state.reason
    assert [event.success for event in bench.recorder.of(ToolCallCompleted)] == [False]
    assert_balanced(bench, state)


@pytest.mark.parametrize("tools", [None, {"web-search": search}])
async def test_an_answer_in_the_form_of_the_answer_tools_call_is_taken_out_of_it(
    tools: dict[str, object] | None,
) -> None:
    bench = kernel_bench(say('final-answer({"answer": "The sum is 3."})'), tools=tools)  # type: ignore[arg-type]
    state = await bench.run()
    assert (state.output, state.outcome) == ("The sum is 3.", "completed")
    assert bench.recorder.of(ToolCallCompleted) == []


async def test_the_last_words_of_a_run_at_its_limit_are_guarded_too() -> None:
    bench = kernel_bench(
        forever(calls(call("web-search", query="a"), text='web-search({"query": "b"})')),
        tools={"web-search": search},
    )
    state = await bench.run(max_iterations=1)
    assert (state.output, state.outcome, state.terminated_by) == ("found b", "partial", "iteration_limit")
    assert_balanced(bench, state)


@pytest.mark.parametrize("lead", ["Ejemplo:", "So sieht ein Aufruf aus:", "Here is an example of a call:"])
async def test_a_call_that_an_answer_shows_with_words_of_its_own_is_not_run(lead: str) -> None:
    shown = f'{lead}\n```json\n{{"name": "web-search", "arguments": {{"query": "test"}}}}\n```'
    bench = kernel_bench(forever(answer(shown)), tools={"web-search": search})
    state = await bench.run()
    assert state.output == shown
    assert bench.tools is not None
    assert bench.tools.calls == []


@pytest.mark.parametrize("text", ["The sum is 3.", 'Use web-search({"query": "test"}) to find it.'])
async def test_prose_is_left_alone(text: str) -> None:
    bench = kernel_bench(answer(text), tools={"web-search": search})
    assert (await bench.run()).output == text
    assert bench.tools is not None
    assert bench.tools.calls == []


async def test_a_tool_outside_the_scope_is_not_run_by_this_way_either() -> None:
    bench = kernel_bench(answer(BARE), tools={"web-search": search, "add": add})
    state = await bench.run(allowed_tools=frozenset({"add"}))
    assert state.output == BARE
    assert bench.tools is not None
    assert bench.tools.calls == []


async def test_an_early_end_is_still_explained_when_the_bare_call_fails() -> None:
    broken = ToolFailed("web-search", "offline")
    bench = kernel_bench(call("final-answer", answer=BARE), tools={"web-search": broken})
    state = await bench.run(needs=ToolNeeds((ToolRequirement("hear"),)))
    assert (state.outcome, state.terminated_by) == ("partial", "required_tools")
    assert state.reason.startswith("Missing: the required tool hear (there is no such tool here). The answer")
    assert state.reason.endswith("offline Missing: an answer.")


async def test_a_bare_call_has_a_key_of_its_own() -> None:
    script = (call("web-search", query="b"), call("final-answer", answer=BARE))
    bench = kernel_bench(*script, tools={"web-search": search})
    state = await bench.run()
    assert state.output == "found test"
    assert bench.tools is not None
    assert [scope.call_key for scope in bench.tools.scopes] == ["id-0001-1.0", "id-0001-answer-2.0"]


# --- in the last turn -----------------------------------------------------------------------------------


async def test_a_call_written_as_the_last_turn_leaves_its_result_as_the_output() -> None:
    bench = kernel_bench(say(BARE), tools={"web-search": search})
    state = await bench.run(max_iterations=1)
    assert (state.outcome, state.output, state.terminated_by) == ("partial", "found test", "iteration_limit")
    assert state.reason == (
        "The limit of 1 turn was reached. The last one was a call written as text; its result is the output. "
        "Missing: a final answer."
    )
    assert_valid_transcript(state.messages)
    assert_balanced(bench, state)


async def test_it_is_the_whole_result_however_little_of_it_was_shown() -> None:
    long = "word " * 10_000
    bench = kernel_bench(say(BARE), tools={"web-search": lambda query: long})
    assert (await bench.run(max_iterations=1)).output == long


async def test_several_calls_written_as_the_last_turn_leave_their_results() -> None:
    both = 'web-search({"query": "a"})\nweb-search({"query": "b"})'
    bench = kernel_bench(say(both), tools={"web-search": search})
    assert (await bench.run(max_iterations=1)).output == "found a\nfound b"


async def test_a_call_of_an_earlier_turn_does_not_count_nor_does_one_that_fails_nor_a_native_one() -> None:
    bench = kernel_bench(say(BARE), call("web-search", query="b"), tools={"web-search": search})
    assert (await bench.run(max_iterations=2)).output is None
    broken = kernel_bench(say(BARE), tools={"web-search": ToolFailed("web-search", "offline")})
    assert (await broken.run(max_iterations=1)).output is None
