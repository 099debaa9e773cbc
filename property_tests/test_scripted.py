"""Laws of the scripted model: order, conditions and streams hold for every script."""

from __future__ import annotations

import anyio
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from reactive_agents.core.errors import ScriptExhausted
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import ModelRequest, StreamCompleted, TextDelta
from reactive_agents.effects import attempt
from reactive_agents.testing.scripted_llm import ScriptedLLM, say

texts = st.text(max_size=60)


@given(st.lists(texts, max_size=8))
def test_a_plain_script_is_answered_in_order_and_then_exhausted(script: list[str]) -> None:
    async def play() -> None:
        llm = ScriptedLLM(*map(say, script))
        request = ModelRequest((UserMessage("next"),))
        for index, text in enumerate(script):
            assert llm.remaining == len(script) - index
            assert (await attempt(llm.complete(request))).unwrap().content == text
        match await attempt(llm.complete(request)):
            case Failure(error):
                assert isinstance(error, ScriptExhausted)
            case Success(response):
                raise AssertionError(f"answered {response}")

    anyio.run(play)


@given(
    st.lists(st.sampled_from(["ant", "bee", "cat", ""]), max_size=8), st.permutations(["ant", "bee", "cat"])
)
def test_the_turn_that_is_taken_is_the_first_unused_one_that_fits(wants: list[str], asked: list[str]) -> None:
    async def play() -> None:
        llm = ScriptedLLM(*(say(str(index), when=want) for index, want in enumerate(wants)))
        unused = list(enumerate(wants))
        for prompt in asked:
            fitting = next((turn for turn in unused if turn[1] in prompt), None)
            outcome = await attempt(llm.complete(ModelRequest((UserMessage(prompt),))))
            if fitting is None:
                assert isinstance(outcome, Failure)
            else:
                unused.remove(fitting)
                assert outcome.unwrap().content == str(fitting[0])
        assert llm.remaining == len(unused)

    anyio.run(play)


@given(texts)
def test_a_stream_joins_to_its_content(text: str) -> None:
    async def play() -> None:
        streamed = [
            piece.unwrap()
            async for piece in ScriptedLLM(say(text)).stream(ModelRequest((UserMessage("go"),)))
        ]
        assert "".join(piece.text for piece in streamed if isinstance(piece, TextDelta)) == text
        last = streamed[-1]
        assert isinstance(last, StreamCompleted)
        assert last.response.content == text

    anyio.run(play)
