"""Nothing that was said in one room alone reaches another, whatever a model makes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Never

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from returns.future import FutureResult
from returns.result import Result, Success

from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted
from reactive_agents.core.personas import LearningPolicy
from reactive_agents.effects import attempt
from reactive_agents.persona.generality import general_form, is_general, room_words
from reactive_agents.testing.scripted_llm import render_messages
from tests.support.operations import assert_linear
from tests.support.personas import assessed, persona_bench, planned
from tests.support.profiles import examples

SECRETS = (
    "Rexalot",
    "melanoma",
    "4711",
    "ada@home.example",
    "Пётр",
    "高橋",
    "o'Malley",
    "x9-17",
    "Ungewöhnlich",
    "Bob",
    "Wu",
    "Иван",
    "철수",
    "王小明",
    "สมชาย",
    "ヤマダ",
)
"""Each is said in one room of a persona."""
COMMON = ("please", "how", "order", "kettle", "boil", "Tuesday", "the", "my", "is")
sentences = st.lists(st.sampled_from(COMMON), min_size=1, max_size=5).map(" ".join)
ENDINGS = ("{}s", "{}da", "{}lar", "{}ovna", "{}さんに", "ขอ{}ครับ", "お客様の{}へ")
forms = st.sampled_from(
    [str, str.lower, str.upper, str.title, "“{}”".format, "{}.".format, *(each.format for each in ENDINGS)]
)


@example("高橋", "{}s".format, "please", "order", [], True)
@example("高橋", "{}s".format, "please", "order", [], False)
@example("高橋", "お客様の{}へ".format, "please", "order", ["please order"], False)
@example("สมชาย", "ขอ{}ครับ".format, "please", "order", [], True)
@example("Wu", "{}lar".format, "please", "order", ["please order"], False)
@example("Bob", "{}ovna".format, "please", "order", ["please order"], True)
@given(st.sampled_from(SECRETS), forms, sentences, sentences, st.lists(sentences, max_size=3), st.booleans())
def test_a_general_lesson_has_no_word_of_its_room_alone(
    secret: str, form: object, before: str, after: str, elsewhere: list[str], is_speaker: bool
) -> None:
    said = () if is_speaker else (f"{before} {secret} {after}",)
    words = room_words(said, (secret,) if is_speaker else ("Bob",), elsewhere=elsewhere, known=())
    lesson = f"{before} {form(secret)} {after}"  # type: ignore[operator]
    assert not is_general(lesson, words)
    assert secret.casefold() not in general_form(lesson, words).casefold()


@given(sentences, st.lists(st.sampled_from(SECRETS)))
def test_what_every_room_says_is_general(lesson: str, said: list[str]) -> None:
    words = room_words((lesson, *said), ("Bob",), elsewhere=(" ".join(COMMON),), known=("Tuesday",))
    assert is_general(lesson, words)


@given(st.text(max_size=60), st.lists(st.text(max_size=30), max_size=3))
def test_the_form_is_general_itself(lesson: str, said: list[str]) -> None:
    words = room_words(said, (), elsewhere=(), known=("number name address quotation",))
    form = general_form(lesson, words)
    assert general_form(form, words) == form


class Gossip:
    """A model that repeats all that was said in plans, answers, mistakes and lessons.

    Attributes:
        said: the message that it repeats.
        prompts: all that it was shown since that was set.
    """

    model = "gossip"

    def __init__(self) -> None:
        self.said = ""
        self.prompts: list[str] = []

    def complete(self, request: ModelRequest) -> FutureResult[ModelResponse, Never]:
        """Return the answer."""
        self.prompts.append(render_messages(request.messages).casefold())
        text, about = f"I know of {self.said}.", (self.said,)
        if request.purpose == "persona-plan":
            text = planned(f"Answer about {self.said}.", goal=self.said, learnings=about, follows=(1,)).text
        elif request.purpose == "persona-evaluate":
            text = assessed(f"Ask about {self.said}.", mistakes=about, what_worked=about).text
        return FutureResult.from_value(ModelResponse(text, self.model))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, Never]]:
        """Yield the same at once."""
        yield Success(StreamCompleted((await attempt(self.complete(request))).unwrap()))


secrets = st.sampled_from(SECRETS)
messages = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1), secrets, sentences), min_size=2, max_size=6
)


@examples(15)
@given(messages, st.booleans())
def test_no_prompt_of_a_room_has_what_another_one_said(
    events: list[tuple[int, int, str, str]], named: bool
) -> None:
    """A secret belongs to the room in which it was said first; there alone it is said again."""

    async def talk() -> None:
        llm, owner = Gossip(), dict[str, tuple[int, int]]()
        bench = persona_bench(llm, learning=LearningPolicy(min_confidence=0.0), reuse_above=0.1)
        for number, (room, tenant, secret, text) in enumerate(events):
            own = owner.setdefault(secret, (room, tenant)) == (room, tenant)
            llm.said, llm.prompts = f"{text} {secret}" if own else text, []
            place = {"context": f"room-{room}", "tenant": f"t{tenant}"}
            author = secret if named and own else "Guest"
            await bench.process(llm.said, f"e{number}", author=author, **place)
            others = [each.casefold() for each, whose in owner.items() if whose != (room, tenant)]
            assert [each for each in others for prompt in llm.prompts if each in prompt] == []

    anyio.run(talk)


def test_a_lesson_of_several_rooms_is_used_in_all_and_one_of_a_room_in_it_alone() -> None:
    async def talk() -> None:
        llm = Gossip()
        bench = persona_bench(llm, learning=LearningPolicy(min_confidence=0.0), reuse_above=1.0)
        for number, said in enumerate(("boil the kettle", "boil the kettle", "pet melanoma")):
            llm.said = said
            await bench.process(said, f"e{number}", context=f"room-{number}")
        learned = [(each.pattern, each.room) for each in bench.store.learnings.values()]
        assert learned == [
            ("Ask about boil the kettle.", "room-0"),
            ("Ask about boil the kettle.", None),
            ("Ask about pet melanoma.", "room-2"),
        ]
        llm.said, llm.prompts = "hello", []
        await bench.process("hello", "e9", context="room-9")
        assert "ask about boil the kettle. (confidence" in llm.prompts[0]
        assert "melanoma" not in "".join(llm.prompts)

    anyio.run(talk)


@pytest.mark.parametrize("unit", ["Ab ", "! A", "a:", "_", "\u201c"])
def test_long_texts_of_a_room_hold_up_no_process(unit: str) -> None:
    def judged(size: int) -> str:
        text = unit * size
        return general_form(text, room_words([text], ["ada"], elsewhere=["hello"], known=["tea"]))

    assert_linear(judged, 2_000)
