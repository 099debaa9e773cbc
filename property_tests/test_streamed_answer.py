"""The law of streamed answers: however the arguments are written and cut, the deltas are the answer."""

from __future__ import annotations

import json

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_agents import ReactiveAgents
from reactive_agents.core.codec import from_json
from reactive_agents.core.events import (
    ModelStreamRestarted,
    ModelTextRetracted,
    ModelTextStreamed,
    TaskCompleted,
)
from reactive_agents.core.json import JsonObject, json_without_surrogates, without_surrogates
from reactive_agents.core.models import (
    ModelChunk,
    StreamRestarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from reactive_agents.core.redaction import Redactor
from reactive_agents.kernel.streamed_answer import MemberText, PlainEscapes
from reactive_agents.testing import (
    ScriptedLLM,
    Turn,
    answer,
    call,
    calls,
    forever,
    malformed_call,
    say,
    streamed,
)
from tests.support.profiles import examples

texts = st.text(st.characters(codec=None) | st.sampled_from('"\\/\n\t{}[],:u0é😀\ud83d\ude00'), max_size=30)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
)
cuts = st.lists(st.integers(0, 200), max_size=20)


def parts_of(text: str, places: list[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@st.composite
def written_objects(draw: st.DrawFn) -> tuple[str, str]:
    """An object with a member ``answer``, and its JSON text, written in one of many ways."""
    before, after = (
        draw(st.dictionaries(texts, values, max_size=2)),
        draw(st.dictionaries(texts, values, max_size=2)),
    )
    text = draw(texts)
    whole = {**before, "answer": text, **{name: each for name, each in after.items() if name != "answer"}}
    blanks = draw(st.sampled_from([None, 0, 2]))
    return text, json.dumps(whole, ensure_ascii=draw(st.booleans()), indent=blanks)


@given(written=written_objects(), places=cuts)
def test_a_member_comes_out_whole_however_it_is_written_and_cut(
    written: tuple[str, str], places: list[int]
) -> None:
    text, whole = written
    member = MemberText("answer")
    shown = "".join([member.feed(part) for part in parts_of(whole, places)]) + member.finish()
    assert shown == without_surrogates(text)


@given(junk=texts | st.binary(max_size=30).map(lambda raw: raw.decode("latin-1")), places=cuts)
def test_what_is_no_json_does_no_harm(junk: str, places: list[int]) -> None:
    for start in ("", "{", '{"answer": "', '{"answer": "\\'):
        member, plain = MemberText("answer"), PlainEscapes()
        for part in parts_of(start + junk, places):
            member.feed(part)
            plain.feed(part)
        member.finish()
        plain.finish()


@given(value=values, places=cuts, ascii_only=st.booleans())
def test_escapes_that_are_written_out_leave_the_value_as_it_is(
    value: object, places: list[int], ascii_only: bool
) -> None:
    whole = json.dumps(value, ensure_ascii=ascii_only)
    plain = PlainEscapes()
    shown = "".join([plain.feed(part) for part in parts_of(whole, places)]) + plain.finish()
    assert json.loads(shown) == json.loads(whole)


def test_each_sign_that_is_escaped_without_need_is_written_out() -> None:
    signs = [chr(code) for code in range(ord(" "), ord("~") + 1)]
    for sign in signs:
        plain = PlainEscapes()
        shown = plain.feed(f'"\\u{ord(sign):04x}"') + plain.finish()
        assert shown == (f'"{sign}"' if sign not in '"\\' else f'"\\u{ord(sign):04x}"')


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('{"answer": "a\\qb", "other": 1}', "a"),  # no escape of JSON
        ('{"answer": "a\\u12g4b"}', "a"),
        ('{"answer": 7, "answer": "b"}', ""),  # no text
        ('{"other": , "answer": "b"}', ""),
    ],
)
def test_a_mistake_ends_the_text(written: str, shown: str) -> None:
    for size in (1, len(written)):
        member = MemberText("answer")
        parts = [written[at : at + size] for at in range(0, len(written), size)]
        assert "".join(map(member.feed, parts)) + member.finish() == shown


@examples(15)
@given(written=written_objects(), places=cuts, why=st.none() | texts)
def test_the_deltas_of_a_run_are_its_answer(
    written: tuple[str, str], places: list[int], why: str | None
) -> None:
    _, whole = written
    if why is not None:
        whole = json.dumps({"could_not": why, **json.loads(whole)})
    arguments = from_json(json_without_surrogates(whole), JsonObject).unwrap()
    first, *rest = parts_of(whole, places)
    chunks = [ToolCallDelta(0, "final-answer", first), *(ToolCallDelta(0, "", part) for part in rest)]
    assert_shows_its_answer(streamed(call("final-answer", arguments), *chunks))


def assert_shows_its_answer(*script: Turn, most_turns: int = 1) -> None:
    def look_up(name: str) -> str:
        """Look a name up."""
        return name

    async def run() -> None:
        agent = ReactiveAgents.create().with_llm(ScriptedLLM(*script)).with_reasoning()
        shown, output = "", None
        async for event in (
            agent.with_max_iterations(most_turns).with_tools(look_up).build().stream("Say something.")
        ):
            match event:
                case ModelTextStreamed(text=delta):
                    shown += delta
                case ModelTextRetracted() | ModelStreamRestarted():
                    shown = ""
                case TaskCompleted(result=result):
                    output = result.output
        assert shown.strip() == Redactor().redact(output or "").strip()

    anyio.run(run)


names = st.sampled_from(["final-answer", "final_answer", "look_up", "", "no such tool"])
fragments = (
    st.sampled_from(
        ['{"answer": "', "It is ", "so", '"}', "{", "}", "\\", "\\ud83d", '{"name": "x"}', "\x1b[2J"]
    )
    | texts
)
deltas = (
    st.builds(TextDelta, fragments)
    | st.builds(ThinkingDelta, fragments)
    | st.builds(ToolCallDelta, st.integers(0, 2), names, fragments)
    | st.builds(StreamRestarted, st.just("it broke"))
)
turns = st.sampled_from(
    [
        answer("It is so."),
        say("It is so, as far as is known."),
        say('final-answer: {"answer": "It is so."}'),
        call("look_up", name="it"),
        calls(answer("Too early."), call("look_up", name="that")),
        calls(answer("It is so."), text="Here it is:"),
        call("final-answer", could_not="There is no way to know."),
        malformed_call("final-answer", '{"answer": "It is'),
        say(""),
    ]
)


@examples(15)
@given(script=st.lists(st.tuples(turns, st.lists(deltas, max_size=6)), min_size=1, max_size=3))
def test_no_stream_of_deltas_leaves_another_text_than_the_answer(
    script: list[tuple[Turn, list[ModelChunk]]],
) -> None:
    played = (streamed(turn, *chunks) for turn, chunks in script)
    assert_shows_its_answer(*played, forever(answer("It is so.")), most_turns=6)
