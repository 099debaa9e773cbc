"""Conversations: forms of messages, what a run adds, and what reaches whose prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from property_tests.strategies import wild_texts
from reactive_agents import ReactiveAgents
from reactive_agents.core.conversation import History, messages_of_run, wrong_history
from reactive_agents.core.ids import CallId
from reactive_agents.core.message_formats import (
    messages_from_json,
    messages_from_openai,
    messages_to_json,
    messages_to_openai,
)
from reactive_agents.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from reactive_agents.engine.conversations import fit_history, holder_path
from reactive_agents.kernel.context_window.token_estimate import message_size
from reactive_agents.testing import ScriptedLLM, forever, say

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
ARGUMENTS = st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(-9, 9), st.booleans()), max_size=3)
CALLS = st.builds(
    ToolCall, st.uuids().map(str).map(CallId), st.sampled_from(["look", "final-answer", "send"]), ARGUMENTS
)
NAMES = st.sampled_from(
    ["role", "content", "tool_calls", "id", "function", "name", "arguments", "type", "text", "tool_call_id"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | st.sampled_from(["user", "assistant", "tool"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


@st.composite
def transcripts(draw: st.DrawFn) -> tuple[Message, ...]:
    """Turns of a model with the results of some or all of its calls, in any order."""
    messages: list[Message] = []
    for _ in range(draw(st.integers(0, 5))):
        calls = tuple(draw(st.lists(CALLS, max_size=3, unique_by=lambda each: each.id)))
        messages.append(AssistantMessage(draw(TEXTS), calls))
        last = not draw(st.booleans())
        kept = draw(st.permutations(calls))
        messages += [ToolMessage(each.id, each.name, draw(TEXTS)) for each in (kept[1:] if last else kept)]
        if last:
            break
    return tuple(messages)


@given(st.lists(st.one_of(transcripts(), TEXTS.map(lambda text: (UserMessage(text), SystemMessage(text))))))
def test_messages_keep_their_meaning_in_both_forms(parts: Sequence[tuple[Message, ...]]) -> None:
    messages = tuple(message for part in parts for message in part)
    assert messages_from_json(messages_to_json(messages)) == Success(messages)
    assert messages_from_openai(messages_to_openai(messages)) == Success(messages)


@given(JSON)
def test_reading_a_conversation_of_somebody_else_never_raises(data: Any) -> None:
    for read in (messages_from_openai(data), messages_from_json(data)):
        if isinstance(read, Failure):
            assert all(problem.path and problem.problem for problem in read.failure().problems)


@given(wild_texts | st.sampled_from(["NaN", "[1]", "1e999", '{"a": 1, "a": 2}', " "]), st.booleans())
def test_whatever_arguments_are_read_can_be_kept(text: str, is_value: bool) -> None:
    given_text = f'{{"a": {text}}}' if is_value else text
    call = {"id": "1", "function": {"name": "look", "arguments": given_text}}
    messages = messages_from_openai([{"role": "assistant", "tool_calls": [call]}]).unwrap()
    assert messages_from_json(messages_to_json(messages)) == Success(messages)


@given(TEXTS, transcripts(), st.none() | TEXTS)
def test_what_a_run_adds_can_be_continued(
    task: str, transcript: tuple[Message, ...], reply: str | None
) -> None:
    added = messages_of_run(task, transcript, reply)
    assert wrong_history(added) is None
    assert added[0] == UserMessage(task)
    assert not reply or added[-1] == AssistantMessage(reply)


@given(st.lists(st.tuples(TEXTS, transcripts(), TEXTS), max_size=6), st.integers(0, 2_000))
def test_a_shortened_history_is_its_newest_part(
    runs: Sequence[tuple[str, tuple[Message, ...], str]], size: int
) -> None:
    messages = tuple(message for run in runs for message in messages_of_run(*run))
    fitted = fit_history(History(messages), size)
    assert sum(map(message_size, fitted.messages)) <= size
    assert fitted.messages == messages[len(messages) - len(fitted.messages) :]
    assert fitted.left_out == len(messages) - len(fitted.messages)
    assert wrong_history(fitted.messages) is None
    assert fit_history(fitted, size) == evolve(fitted)


@given(st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("xy")), min_size=2, max_size=8))
def test_nothing_of_one_user_or_session_reaches_another(order: Sequence[tuple[str, str]]) -> None:
    model = ScriptedLLM(forever(say("I see.")))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().build()

    async def talk() -> None:
        async with anyio.create_task_group() as group:
            for number, (user, session) in enumerate(order):
                name = f"{user}{session}"
                group.start_soon(
                    lambda name=name, user=user, number=number: agent.run(
                        f"[{name}] says {number}", session=name, user=user
                    )
                )

    anyio.run(talk)
    for request in model.requests:
        said = [each.content for each in request.messages if isinstance(each, UserMessage)]
        assert len({text.partition("]")[0] for text in said}) == 1
    for name in {f"{user}{session}" for user, session in order}:
        runs = [number for number, (user, session) in enumerate(order) if f"{user}{session}" == name]
        longest = max(
            (
                [each.content for each in request.messages if isinstance(each, UserMessage)]
                for request in model.requests
                if f"[{name}]" in request.messages[1].content
            ),
            key=len,
        )
        assert longest == [f"[{name}] says {number}" for number in runs]


WHOSE = st.sampled_from(
    [("A", None), ("B", None), ("A", "x"), ("B", "x2"), (None, "x3"), (None, "y"), (None, None)]
)


@given(st.lists(WHOSE, min_size=2, max_size=10), st.sampled_from(["agent", "nothing"]))
def test_memories_reach_the_prompts_of_their_owners_alone(
    order: Sequence[tuple[str | None, str | None]], anonymous: Any
) -> None:
    model = ScriptedLLM(forever(say("I see.")))
    agent = ReactiveAgents.create().with_llm(model).with_memory(anonymous=anonymous).build()
    owners = [user or session or "agent" for user, session in order]

    async def talk() -> None:
        for number, (user, session) in enumerate(order):
            task = f"Remember that my secret code is c{number}c."
            await agent.run(task, user=user, session=session)

    anyio.run(talk)
    for number, request in enumerate(model.requests):
        prompt = "\n".join(message.content for message in request.messages)
        seen = {index for index in range(len(order)) if f"c{index}c" in prompt}
        others = {owners[index] for index in seen if index != number}
        whose = {owners[number], "agent"} if anonymous == "agent" else {owners[number]} - {"agent"}
        assert others <= whose


# --- who has a conversation -------------------------------------------------------------------------------

agents = st.sampled_from(["a", "b", "c", "d"])


@given(agents, st.lists(agents, max_size=8))
def test_the_way_to_the_agent_that_has_a_conversation_is_short_and_ends_with_it(
    first: str, handoffs: list[str]
) -> None:
    path = holder_path(first, handoffs)
    assert (path[-1] if path else first) == (handoffs[-1] if handoffs else first)
    assert len(set(path)) == len(path)
    assert first not in path
    steps = set(zip([first, *handoffs], handoffs, strict=False))
    assert set(zip((first, *path), path, strict=False)) <= steps
    assert holder_path(first, path) == path
