"""A server of the OpenAI protocol with the stated habits and limits of a model and its server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from tests.support.openai_server import Answer, Call, OpenAIServer, Raw, Received, Reply, refusal


@frozen
class Habits:
    """How a served model behaves; the defaults are those of a good one.

    Attributes:
        calls: ``native``, ``text``, ``prompt`` (calls only tools that a prompt describes), or ``none``.
        refuses: parameters that the server refuses with status 400.
        refuses_with: that status.
        parallel: whether it makes several calls in one turn.
        nested: whether it gives objects as objects, or as texts of JSON.
        numbers: ``plain``, ``whole`` (integers for fractions) or ``text``.
        restrained: whether it answers without a call where no tool is of use.
        structured: ``plain``, or ``fenced`` for JSON within other text.
        window: tokens, four characters each, of which the oldest are cut silently; ``None`` for no end.
        overflow: whether a longer prompt is refused, with the window, instead of cut.
        counts: whether it reports usage.
        any_model: whether it answers whatever model is named.
        failing: numbers of the requests, from 1, that get status 500.
    """

    calls: str = "native"
    refuses: frozenset[str] = frozenset()
    refuses_with: int = 400
    parallel: bool = True
    nested: bool = True
    numbers: str = "plain"
    restrained: bool = True
    structured: str = "plain"
    window: int | None = None
    overflow: bool = False
    counts: bool = True
    any_model: bool = False
    failing: frozenset[int] = frozenset()


class ModelWithHabits(OpenAIServer):
    """Answers the requests of a probe as a model with these habits does."""

    def __init__(self, habits: Habits = Habits(), *, model: str = "small") -> None:
        super().__init__()
        self._habits = habits
        self._served = model

    def _next(self, received: Received) -> Reply:
        with self._lock:
            self.requests.append(received)
            number = len(self.requests)
        body, habits = received.body, self._habits
        if number in habits.failing:
            return Raw(500, json.dumps({"error": {"message": "the worker crashed"}}))
        if body["model"] != self._served and not habits.any_model:
            return refusal(404, f"the model {body['model']!r} does not exist")
        for name in sorted(habits.refuses & body.keys()):
            return refusal(habits.refuses_with, f"{name} is not supported")
        messages = [_text(each) for each in body["messages"]]
        tokens = sum(len(each) for each in messages) // 4
        if habits.window is not None and tokens > habits.window:
            if habits.overflow:
                said = f"This model's maximum context length is {habits.window} tokens."
                return refusal(400, said, code="context_length_exceeded")
            messages = [("".join(messages))[-habits.window * 4 :]]
            tokens = habits.window
        answer = self._answer(messages, body)
        return Answer(
            answer.content, answer.calls, usage=(tokens, 5) if habits.counts else None, model=self._served
        )

    def _answer(self, messages: list[str], body: Mapping[str, Any]) -> Answer:
        habits, asked, shown = self._habits, messages[-1], "\n".join(messages)
        tools = {each["function"]["name"] for each in body.get("tools", ())}
        if "Which code word" in asked:
            return Answer("7413" if "code word is 7413" in shown else "I do not know of any code word.")
        if "capital of France" in asked:
            text = json.dumps({"city": "Paris", "country": "France"})
            return Answer(text if habits.structured == "plain" else f"Here it is:\n```json\n{text}\n```")
        if "7 plus 5" in asked:
            return Answer("12") if habits.restrained else self._calls(Call("weather", {"city": "12"}))
        described = "tool_call" in shown
        if "tool" not in asked or (not tools and not (described and habits.calls == "prompt")):
            return Answer("ready")
        if habits.calls == "none" or (habits.calls == "prompt" and not described):
            return Answer("I will look that up.")
        if "Lima" in asked:
            cities = ["Oslo", "Lima"][: 2 if habits.parallel else 1]
            return self._calls(*(Call("weather", {"city": city}, f"call-{city}") for city in cities))
        if "Order" in asked:
            return self._calls(Call("order", self._order()))
        return self._calls(Call("weather", {"city": "Oslo"}))

    def _order(self) -> Mapping[str, object]:
        habits = self._habits
        kinds: Mapping[str, tuple[object, object]] = {
            "plain": (6.5, 20.0),
            "whole": (6, 20),
            "text": ("6.5", "20"),
        }
        price, deposit = kinds[habits.numbers]
        guest = {"name": "Ada", "seats": 4}
        dishes = [{"name": "soup", "price": price}, {"name": "bread", "price": 2}]
        return {
            "guest": guest if habits.nested else json.dumps(guest),
            "dishes": dishes if habits.nested else json.dumps(dishes),
            "deposit": deposit,
        }

    def _calls(self, *calls: Call) -> Answer:
        if self._habits.calls == "native":
            return Answer(None, calls)
        written = (
            f'<tool_call>{{"name": "{call.name}", "arguments": {call.text}}}</tool_call>' for call in calls
        )
        return Answer("\n".join(written))


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
