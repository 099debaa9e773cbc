"""Answers by text are taken at once, and texts that are none are asked about, in everyday runs."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.testing import ScriptedLLM, Turn, answer, call, forever, say
from tests.lab.spoken_answers import SPOKEN, Part, SpokenCase

pytestmark = pytest.mark.system

MOST_ASKED_AGAIN = 0.02
MOST_TAKEN: Mapping[Part, float] = {"first": 0.09, "second": 0.1, "third": 0.19, "everyday": 0.34}
"""Of texts that are no answers. Those of the last part are halves of answers and invented ones, mostly."""


def _tools(case: SpokenCase) -> list[Callable[..., str]]:
    results = iter([result for _, _, result in case.calls])

    def tool_of(name: str, description: str) -> Callable[..., str]:
        given: Mapping[str, Any] = next((given for tool, given, _ in case.calls if tool == name), {"id": ""})

        def function(**_: Any) -> str:
            result = next(results)
            if result.startswith("error: "):
                raise RuntimeError(result.removeprefix("error: "))
            return result

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter(key, keyword, annotation=type(value)) for key, value in given.items()]
        named: Any = function
        named.__signature__ = inspect.Signature(parameters, return_annotation=str)
        named.__annotations__ = {**{each.name: each.annotation for each in parameters}, "return": str}
        named.__name__ = named.__qualname__ = name
        named.__doc__ = description
        return function

    return [tool_of(name, description) for name, description in case.tools.items()]


def _requests(case: SpokenCase, turns: Iterable[Turn]) -> Sequence[Any]:
    llm = ScriptedLLM(*turns)
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning("reactive").with_tools(*_tools(case)).build()
    agent.run_sync(case.task)
    return llm.requests


def is_asked_again(case: SpokenCase) -> str:
    """Return what the model is told in place of taking its answer; empty when it is taken."""
    turns = [call(tool, dict(given)) for tool, given, _ in case.calls]
    requests = _requests(case, (*turns, say(case.answer), forever(answer(case.answer))))
    return "" if len(requests) == len(turns) + 1 else str(requests[len(turns) + 1].messages[-1].content)


def is_taken(case: SpokenCase, made: int, text: str) -> bool:
    """Return whether a text is taken for the answer after so many calls."""
    turns = [call(tool, dict(given)) for tool, given, _ in case.calls]
    rest = (*turns[made:], forever(answer(case.answer)))
    return len(_requests(case, (*turns[:made], say(text), *rest))) == made + 1


def asked_again(part: Part) -> list[str]:
    """Return the answers that are not taken at once."""
    return [f"{case.task} {case.answer}" for case in SPOKEN[part] if is_asked_again(case)]


def taken(part: Part) -> list[str]:
    """Return the texts that are no answers and are taken for one."""
    return [
        f"{case.task} {text}"
        for case in SPOKEN[part]
        for made, text in case.unfinished
        if is_taken(case, made, text)
    ]


def test_an_answer_is_taken_at_once() -> None:
    again = [text for part in SPOKEN for text in asked_again(part)]
    assert len(again) <= MOST_ASKED_AGAIN * sum(map(len, SPOKEN.values())), again


@pytest.mark.parametrize("part", SPOKEN)
def test_what_is_no_answer_is_asked_about(part: Part) -> None:
    texts = sum(len(case.unfinished) for case in SPOKEN[part])
    assert len(found := taken(part)) <= MOST_TAKEN[part] * texts, found


if __name__ == "__main__":
    logging.disable(logging.ERROR)
    for part, cases in SPOKEN.items():
        texts = sum(len(case.unfinished) for case in cases)
        print(part, len(asked_again(part)), "of", len(cases), "asked again,", end=" ")
        print(len(taken(part)), "of", texts, "taken")
