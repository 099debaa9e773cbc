"""Slips of local models and faults of their servers, over HTTP: repaired, asked again, and reported."""

from __future__ import annotations

import json
import random

import pytest
from attrs import frozen

from reactive_agents import ReactiveAgents
from reactive_agents.agent.agent import AgentResult
from reactive_agents.core.events import GuidanceGiven, ModelCallCompleted, ReasoningStepCompleted
from reactive_agents.testing import EventRecorder
from tests.support.openai_server import Answer, Call, OpenAIServer, Raw, Received, Reply

pytestmark = pytest.mark.usefixtures("without_backoff")


def area(width: float, height: float) -> float:
    """Compute the area of a rectangle."""
    return width * height


def builder_for(server: OpenAIServer) -> ReactiveAgents:
    return (
        ReactiveAgents.create()
        .with_model("openai/local", base_url=server.base_url, api_key="none")
        .with_reasoning()
        .with_tools(area)
    )


def run(server: OpenAIServer, *, turns: int = 10) -> tuple[AgentResult, EventRecorder]:
    recorder = EventRecorder()
    agent = builder_for(server).with_max_iterations(turns).build()
    agent.subscribe(recorder)
    return agent.run_sync("What is the area of 3 by 2.5?"), recorder


END = Answer(None, (Call("final-answer", {"answer": "The area is 7.5."}, "call-end"),))


@pytest.mark.parametrize(
    ("made", "repairs"),
    [
        (Answer(None, (Call("area", {"width": 3, "height": 2.5}),)), ()),
        (
            Answer(None, (Call("area", {"width": "3", "height": "2.5"}),)),
            (
                "The argument 'width' was converted from \"3\" to 3.",
                "The argument 'height' was converted from \"2.5\" to 2.5.",
            ),
        ),
        (
            Answer('<tool_call>\n{"name": "area", "arguments": {"width": 3, "height": 2.5}}\n</tool_call>'),
            ("The call was written as text (hermes).",),
        ),
        (
            Answer(None, (Call("area", '{"width": 3, "height": "2.5"'),)),
            (
                "The text of the arguments was read as a JSON object.",
                "The argument 'height' was converted from \"2.5\" to 2.5.",
            ),
        ),
        (
            Answer(None, (Call("functions.Area", {"width": 3, "height": 2.5}),)),
            ("The tool 'functions.Area' was taken as 'area'.",),
        ),
    ],
    ids=["whole number for a fraction", "numbers as text", "call as text", "open JSON", "renamed tool"],
)
def test_every_repair_of_a_call_is_in_the_events_with_its_reason(
    made: Answer, repairs: tuple[str, ...]
) -> None:
    with OpenAIServer(made, END) as server:
        result, recorder = run(server)
    actions = [event for event in recorder.of(ReasoningStepCompleted) if event.action is not None]
    assert "area" in (actions[0].action or "")
    assert actions[0].repairs == repairs
    assert (result.status, result.output) == ("completed", "The area is 7.5.")
    assert "7.5" in next(iter(result.tool_results.values()))
    recorded = next(step.metadata for step in result.steps if step.type == "action")
    assert recorded is not None
    assert recorded.repairs == repairs


def test_every_steering_message_is_in_the_events_as_the_model_got_it() -> None:
    look = [Answer(None, (Call("area", {"width": n, "height": 1.0}, f"call-{n}"),)) for n in (1, 2)]
    with OpenAIServer(Answer("I will compute the area next."), *look, END) as server:
        _, recorder = run(server, turns=4)
        sent = [each.body["messages"] for each in server.requests]
    given = recorder.of(GuidanceGiven)
    assert [event.policy for event in given][-1] == "last_turn"
    told = [
        line.removeprefix("- ")
        for messages in sent
        for line in str(messages[-1]["content"]).splitlines()
        if messages[-1]["role"] == "user" and line.startswith("- ")
    ]
    assert [event.text for event in given] == told
    assert len(told) >= 2


def test_asking_again_for_structured_output_is_a_steering_message() -> None:
    @frozen
    class Area:
        area: float

    with OpenAIServer(
        Answer(None, (Call("area", {"width": 3, "height": 2.5}),)),
        END,
        Answer(None, (Call("final-answer", {"area": 7.5}),)),
    ) as server:
        recorder = EventRecorder()
        agent = builder_for(server).with_output_type(Area).build()
        agent.subscribe(recorder)
        result = agent.run_sync("What is the area of 3 by 2.5?")
        sent = server.requests[-1].body["messages"][-1]["content"]
    assert result.output == Area(7.5)
    assert f"- {recorder.of(GuidanceGiven)[-1].text}" in sent


class FailingServer(OpenAIServer):
    """Fails a share of its requests with status 500, and answers the others as a good model."""

    def __init__(self, share: float, seed: int) -> None:
        super().__init__()
        self._share = share
        self._random = random.Random(seed)
        self.failed = 0

    def _next(self, received: Received) -> Reply:
        with self._lock:
            self.requests.append(received)
            if self._random.random() < self._share:
                self.failed += 1
                return Raw(500, json.dumps({"error": {"message": "the runner has crashed"}}))
        if any(message["role"] == "tool" for message in received.body["messages"]):
            return END
        return Answer(None, (Call("area", {"width": 3, "height": 2.5}),))


@pytest.mark.system
def test_runs_finish_on_a_server_that_fails_one_in_four_requests() -> None:
    failed = 0
    for seed in range(100, 110):
        with FailingServer(0.25, seed) as server:
            result, recorder = run(server)
        assert (result.status, result.output) == ("completed", "The area is 7.5.")
        assert result.metadata.model_calls == len(recorder.of(ModelCallCompleted)) == 2
        assert len(server.requests) == 2 + server.failed
        failed += server.failed
    assert failed >= 4


@pytest.mark.parametrize(
    "cut_off",
    [
        Answer(None, (Call("note", '{"text": "Milk"'),), finish_reason="length"),
        Answer('<tool_call>\n{"name": "note", "arguments": {"text": "Milk"', finish_reason="length"),
        Answer("", (), '<tool_call>\n{"name": "note", "arguments": {"text": "Milk"', finish_reason="length"),
    ],
    ids=["made", "written", "in thinking"],
)
def test_a_call_that_was_cut_off_is_not_completed(cut_off: Answer) -> None:
    noted: list[tuple[str, str]] = []

    def note(text: str, colour: str = "yellow") -> str:
        """Write a note."""
        noted.append((text, colour))
        return "It is on the wall."

    again = Answer(None, (Call("note", {"text": "Milk", "colour": "red"}, "call-b"),))
    end = Answer(None, (Call("final-answer", {"answer": "The note is on the wall."}, "call-end"),))
    with OpenAIServer(cut_off, again, end) as server:
        agent = builder_for(server).with_tools(note).build()
        result = agent.run_sync("Write the note Milk in red.")
    assert (result.status, noted) == ("completed", [("Milk", "red")])


CLOSED = "The order is already closed."


def refund(order: str, amount: float) -> str:
    """Refund an amount to the customer of an order."""
    raise ValueError(CLOSED)


def send_mail(to: str) -> str:
    """Send an email."""
    return f"Sent to {to}."


def look_up(order: str) -> str:
    """Look up an order."""
    return "49.90 EUR, paid"


REFUND = Answer(None, (Call("refund", {"order": "4711", "amount": 49.9}),))
MAIL = Answer(None, (Call("send_mail", {"to": "ana@example.com"}, "call-b"),))
LOOK = Answer(None, (Call("look_up", {"order": "4711"}, "call-c"),))
DONE = Answer("I have refunded 49.90 EUR for order 4711.")
NOT_DONE = Answer("I could not refund order 4711: it is already closed.")


@pytest.mark.parametrize(
    ("task", "turns", "status"),
    [
        ("Refund 49.90 EUR for order 4711.", [REFUND, DONE, DONE], "partial"),
        ("Refund 49.90 EUR for order 4711.", [REFUND, NOT_DONE], "abstained"),
        ("Look up order 4711 and refund 49.90 EUR.", [LOOK, REFUND, NOT_DONE], "partial"),
        ("Refund 49.90 EUR for order 4711, or mail ana@example.com.", [REFUND, MAIL, NOT_DONE], "completed"),
        ("Was order 4711 paid?", [LOOK, Answer("Yes, 49.90 EUR were paid.")], "completed"),
    ],
)
def test_what_was_ordered_and_failed_is_not_completed_whatever_the_answer_says(
    task: str, turns: list[Answer], status: str
) -> None:
    with OpenAIServer(*turns) as server:
        builder = ReactiveAgents.create().with_model("openai/local", base_url=server.base_url, api_key="none")
        agent = builder.with_reasoning().with_tools(refund, send_mail, look_up).build()
        result = agent.run_sync(task)
    assert result.status == status, result.reason
    assert ("refund failed" in result.reason) is (status == "partial")


@pytest.mark.parametrize("name", ['"area"', "area()", "area<|channel|>commentary", " area\n", "`area`"])
def test_signs_around_the_name_of_a_tool_are_no_part_of_it(name: str) -> None:
    with OpenAIServer(Answer(None, (Call(name, {"width": 3, "height": 2.5}),)), END) as server:
        result, _ = run(server)
    assert (result.status, result.output) == ("completed", "The area is 7.5.")
    assert result.metadata.tool_calls == 1


@pytest.mark.parametrize(
    ("repeated", "finish_reason"),
    [("the " * 3000, "stop"), ("I see. " * 800, "length"), ("是的 " * 500, "stop")],
)
def test_the_same_words_over_and_over_are_no_answer(repeated: str, finish_reason: str) -> None:
    stuck = Answer(repeated, finish_reason=finish_reason)
    with OpenAIServer(*[stuck] * 8) as server:
        result, _ = run(server)
    assert result.status == "partial"
    with OpenAIServer(stuck, Answer(None, (Call("area", {"width": 3, "height": 2.5}),)), END) as server:
        result, _ = run(server)
    assert (result.status, result.output) == ("completed", "The area is 7.5.")


def test_the_same_word_may_be_what_the_task_asks_for() -> None:
    with OpenAIServer(Answer("hello " * 100)) as server:
        result = builder_for(server).build().run_sync("Write hello a hundred times.")
    assert (result.status, result.output) == ("completed", "hello " * 100)


WRITTEN = '{"name": "area", "arguments": {"width": 1, "height": 2}}'


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("Show me a call of area, but do not make it.", f"Here is an example:\n```json\n{WRITTEN}\n```"),
        ("Explain how I would call area. Don't call it.", "You would write `area(width=1, height=2)`."),
        (f"Translate to German: please run {WRITTEN}", f"Bitte führe {WRITTEN} aus."),
        (f"Repeat exactly: {WRITTEN}", WRITTEN),
    ],
)
def test_a_call_that_is_only_to_be_shown_is_an_answer_when_it_comes_again(task: str, text: str) -> None:
    with OpenAIServer(*[Answer(text)] * 8) as server:
        result = builder_for(server).build().run_sync(task)
    assert (result.status, result.output, result.metadata.tool_calls) == ("completed", text, 0)
