"""Parameters on the wire: settings, cache marks, and what providers refuse."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest
from returns.result import Failure, Result

from reactive_agents import ModelSettings
from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.adapters.llm.parameters import Omission, RefusedParameters, omission_of
from reactive_agents.core.bases import PUBLISH
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import LLMErrors, RequestRejected
from reactive_agents.core.events import ModelParameterRefused
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from reactive_agents.core.models import ModelRequest, ModelResponse, StreamCompleted
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import attempt
from tests.support.openai_server import Answer, OpenAIServer, Raw, Received, Reply, refusal

pytestmark = pytest.mark.anyio

SCHEMA: JsonObject = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOLS = (ToolDefinition("add", "Adds.", SCHEMA), ToolDefinition("sub", "Subtracts.", SCHEMA))
TURN = ModelRequest(
    (SystemMessage("Be brief."), UserMessage("Add."), AssistantMessage("Hm.")), TOOLS, stable=2
)
ALL = ModelSettings(
    temperature=0.3,
    top_p=0.5,
    max_tokens=2000,
    seed=7,
    stop=["END"],
    reasoning_effort="low",
    thinking_budget=1024,
    parallel_tool_calls=False,
    extra_body={"custom": {"field": 1}},
    headers={"x-team": "blue"},
)
MESSAGE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 5,
        "output_tokens": 3,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
    },
}
HI = Raw(200, json.dumps(MESSAGE))


class Refusing(OpenAIServer):
    """Refuses parameters, one with each answer, in the words of some provider."""

    def __init__(self, **words: str) -> None:
        super().__init__()
        self.words = words

    def _next(self, received: Received) -> Reply:
        self.requests.append(received)
        for name, words in self.words.items():
            if name in received.body:
                return refusal(400, words)
        return Answer("ready")


def adapter(server: OpenAIServer, model: str, refused: RefusedParameters | None = None) -> LiteLLM:
    base_url = server.base_url
    if model.startswith("anthropic/"):
        base_url = base_url.removesuffix("/v1")
    config = ModelConfig(model=model, api_key="test-key-123", base_url=base_url, max_attempts=2)
    return LiteLLM(config, refused=refused or RefusedParameters())


async def ask(
    llm: LiteLLM, request: ModelRequest, *, streaming: bool = False
) -> Result[ModelResponse, LLMErrors]:
    if not streaming:
        return await attempt(llm.complete(request))
    chunks = [chunk async for chunk in llm.stream(request)]
    return chunks[-1].map(lambda last: last.response if isinstance(last, StreamCompleted) else last)  # type: ignore[arg-type, return-value]


@pytest.fixture
def published() -> Iterator[list[tuple[Any, ...]]]:
    """The events of a run, as they are published."""
    found: list[tuple[Any, ...]] = []
    token = PUBLISH.set(lambda *event: found.append(event))
    yield found
    PUBLISH.reset(token)


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
async def test_all_settings_reach_a_server_of_the_openai_protocol(streaming: bool) -> None:
    with OpenAIServer(Answer("x")) as server:
        llm = adapter(server, "openai/house-brand")
        assert (await ask(llm, TURN.under(ALL), streaming=streaming)).unwrap().content == "x"
        await llm.aclose()
    (sent,) = server.requests
    body = {name: value for name, value in sent.body.items() if name not in ("messages", "tools", "model")}
    assert {name: value for name, value in body.items() if not name.startswith("stream")} == {
        "temperature": 0.3,
        "top_p": 0.5,
        "max_tokens": 2000,
        "seed": 7,
        "stop": ["END"],
        "reasoning_effort": "low",
        "parallel_tool_calls": False,
        "custom": {"field": 1},
    }
    assert sent.headers["x-team"] == "blue"
    assert "cache_control" not in str(sent.body)


async def test_all_settings_reach_a_server_of_the_anthropic_protocol() -> None:
    with OpenAIServer(HI) as server:
        llm = adapter(server, "anthropic/claude-sonnet-4-5")
        (await ask(llm, TURN.under(ALL))).unwrap()
        await llm.aclose()
    (sent,) = server.requests
    expected = {
        "max_tokens": 2000,
        "stop_sequences": ["END"],
        "custom": {"field": 1},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    assert {name: sent.body[name] for name in expected} == expected
    assert sent.body["tool_choice"]["disable_parallel_tool_use"] is True
    assert sent.headers["x-team"] == "blue"


async def test_without_settings_no_parameter_is_sent() -> None:
    with OpenAIServer(Answer("x")) as server:
        llm = adapter(server, "openai/house-brand")
        await ask(llm, TURN)
        await llm.aclose()
    assert server.requests[0].body.keys() == {"model", "messages", "tools"}


async def test_the_stable_prefix_is_marked_for_a_provider_that_needs_it() -> None:
    with OpenAIServer(HI, HI) as server:
        llm = adapter(server, "anthropic/claude-sonnet-5")
        answer = (await ask(llm, TURN)).unwrap()
        await ask(llm, ModelRequest(TURN.messages, TOOLS))
        await llm.aclose()
    marked, unmarked = (each.body for each in server.requests)
    mark = {"type": "ephemeral"}
    assert marked["system"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
    assert [tool.get("cache_control") for tool in marked["tools"]] == [None, mark]
    contents = [part for message in marked["messages"] for part in message["content"]]
    assert [part.get("cache_control") for part in contents] == [mark, None]
    assert "cache_control" not in str(unmarked)
    usage = answer.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (125, 100, 20)


async def test_the_task_is_marked_after_two_texts_of_the_model_in_a_row() -> None:
    before = UserMessage("Hi."), AssistantMessage("Hello."), AssistantMessage("What is it?")
    request = ModelRequest((*before, UserMessage("Add."), UserMessage("Please.")), stable=4)
    with OpenAIServer(HI) as server:
        llm = adapter(server, "anthropic/claude-sonnet-5")
        (await ask(llm, request)).unwrap()
        await llm.aclose()
    parts = [part for each in server.requests[0].body["messages"] for part in each["content"]]
    assert [part["text"] for part in parts if "cache_control" in part] == ["Add."]


async def test_an_older_claude_is_not_asked_to_think_between_calls() -> None:
    called = AssistantMessage("", (ToolCall(CallId("c"), "add", {"a": 1}),))
    after_calls = ModelRequest(
        (UserMessage("Add."), called, ToolMessage(CallId("c"), "add", "2")), TOOLS
    ).under(ModelSettings(thinking_budget=1024))
    with OpenAIServer(HI, HI) as server:
        for model in ("anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-5"):
            llm = adapter(server, model)
            (await ask(llm, after_calls)).unwrap()
            await llm.aclose()
    older, newer = (each.body for each in server.requests)
    assert "thinking" not in older
    assert newer["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
async def test_a_refused_parameter_is_left_out_at_once_and_from_then_on(
    streaming: bool, published: list[tuple[Any, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    refused = RefusedParameters()
    words = {
        "temperature": "Unsupported value: 'temperature' does not support 0.3 with this model.",
        "parallel_tool_calls": "Unknown parameter: 'parallel_tool_calls'.",
    }
    with Refusing(**words) as server, caplog.at_level(logging.WARNING, "reactive_agents"):
        first = adapter(server, "openai/house-brand", refused)
        answer = (await ask(first, TURN.under(ALL), streaming=streaming)).unwrap()
        other = adapter(server, "openai/house-brand", refused)
        await ask(other, TURN.under(ALL), streaming=streaming)
        await first.aclose()
        await other.aclose()
    assert (answer.content, answer.refused) == ("ready", ())
    assert [sorted(words.keys() & each.body.keys()) for each in server.requests] == [
        ["parallel_tool_calls", "temperature"],
        ["parallel_tool_calls"],
        [],
        [],
    ]
    assert server.requests[-1].body["top_p"] == 0.5
    assert published == [
        (ModelParameterRefused, "openai/house-brand", "temperature", ""),
        (ModelParameterRefused, "openai/house-brand", "parallel_tool_calls", ""),
    ]
    assert "refused the parameter temperature" in caplog.text


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("model", "settings", "missing"),
    [
        ("openai/o3", ModelSettings(temperature=0.5, seed=3, max_tokens=99), ["temperature"]),  # by its value
        ("openai/o3", ModelSettings(temperature=1, top_p=0.5), ["top_p"]),
        ("openai/gpt-5.4-mini", ModelSettings(stop="END", reasoning_effort="low"), ["stop"]),  # by its name
        ("openai/gpt-4o", ModelSettings(reasoning_effort="low", thinking_budget=9), ["reasoning_effort"]),
        (
            "openai/house-brand",
            ModelSettings(temperature=0.3, seed=7).over(ModelSettings(stop=["END"], top_p=0.5)),
            [],
        ),
        ("openai/house-brand", ModelSettings(parallel_tool_calls=False, temperature=None), []),
    ],
)
async def test_a_setting_that_litellm_does_not_send_is_reported_once(
    model: str,
    settings: ModelSettings,
    missing: list[str],
    streaming: bool,
    published: list[tuple[Any, ...]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = {"max_tokens": ("max_tokens", "max_completion_tokens")}
    with OpenAIServer(*[Answer("x")] * 2) as server, caplog.at_level(logging.WARNING, "reactive_agents"):
        llm = adapter(server, model, RefusedParameters())
        for _ in range(2):
            await ask(llm, ModelRequest((UserMessage("Hi."),)).under(settings), streaming=streaming)
        await llm.aclose()
    reported = [each[2] for each in published]
    assert [each[3:] for each in published] == [("", False)] * len(published)
    assert reported[: len(missing)] == missing
    given = {name for name, value in settings.given.items() if value is not None} - {"parallel_tool_calls"}
    sent = {name for name in given if {*names.get(name, (name,))} & server.requests[0].body.keys()}
    assert {*reported} == given - sent
    assert all(f"The setting {name} is not sent" in caplog.text for name in reported)


async def test_a_server_that_refuses_to_count_a_stream_streams_all_the_same() -> None:
    refused = RefusedParameters()
    with Refusing(stream_options="Unrecognized request argument supplied: stream_options") as server:
        model = adapter(server, "openai/house-brand", refused)
        answers = [(await ask(model, TURN, streaming=True)).unwrap().content for _ in range(2)]
        await model.aclose()
    assert answers == ["ready", "ready"]
    assert ["stream_options" in each.body for each in server.requests] == [True, False, False]


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
async def test_requests_of_one_time_find_out_once_what_is_refused(
    streaming: bool, published: list[tuple[Any, ...]]
) -> None:
    refused = RefusedParameters(first_answer_s=60)
    words = {name: f"Unknown parameter: '{name}'." for name in ("temperature", "top_p")}
    with Refusing(**words) as server:
        llm = adapter(server, "openai/house-brand", refused)
        answers: list[str] = []

        async def one() -> None:
            answers.append((await ask(llm, TURN.under(ALL), streaming=streaming)).unwrap().content)

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(one)
        await llm.aclose()
    assert answers == ["ready"] * 10
    assert len(server.requests) == 12
    assert [each[2] for each in published] == ["temperature", "top_p"]


async def test_the_first_request_holds_up_no_other_for_long_or_when_it_is_cancelled() -> None:
    refused, sent = RefusedParameters(first_answer_s=0), ("m", "", ("top_p",))
    assert await refused.is_first(sent)
    assert not await refused.is_first(sent)  # it goes on beside it
    refused.conclude(sent, taken=False)
    assert await refused.is_first(sent)
    refused.conclude(sent, taken=True)
    assert not await refused.is_first(sent)
    patient = RefusedParameters(first_answer_s=60)
    with OpenAIServer(Raw(200, delay_s=600), Answer("ready")) as server:
        llm = adapter(server, "openai/house-brand", patient)
        async with anyio.create_task_group() as group:
            cut_off = anyio.CancelScope()

            async def first() -> None:
                with cut_off:
                    await ask(llm, TURN.under(ALL))

            group.start_soon(first)
            await anyio.to_thread.run_sync(server.asked.wait)
            group.start_soon(ask, llm, TURN.under(ALL))
            await anyio.wait_all_tasks_blocked()
            cut_off.cancel()
        await llm.aclose()
    assert len(server.requests) == 2


async def test_the_other_name_of_the_limit_of_tokens_is_taken(published: list[tuple[Any, ...]]) -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    with Refusing(max_tokens=words) as server:
        llm = adapter(server, "openai/house-brand")
        (await ask(llm, TURN.under(ModelSettings(max_tokens=99)))).unwrap()
        await llm.aclose()
    last = server.requests[-1].body
    assert ("max_tokens" in last, last["max_completion_tokens"]) == (False, 99)
    assert published == [(ModelParameterRefused, "openai/house-brand", "max_tokens", "max_completion_tokens")]


async def test_a_request_that_is_refused_all_the_same_is_remembered_for_nothing() -> None:
    refused = RefusedParameters()
    with OpenAIServer(refusal(400, "temperature is not allowed"), refusal(400, "no such format")) as server:
        llm = adapter(server, "openai/house-brand", refused)
        answer = await ask(llm, TURN.under(ALL))
        await llm.aclose()
    assert isinstance(answer, Failure)
    assert isinstance(answer.failure(), RequestRejected)
    assert len(server.requests) == 2
    assert refused.of("openai/house-brand", server.base_url) == ()


@pytest.mark.parametrize(
    "error",
    [
        {"message": "the temperature tool schema is not supported", "param": "tools"},
        {"message": "temperature is not supported", "param": "tools[0].function"},
        {"message": "refused: what is the temperature in Oslo", "code": "content_policy_violation"},
        {"message": "refused: what is the temperature in Oslo"},
    ],
)
async def test_an_error_about_something_else_blames_no_parameter(
    error: dict[str, str], published: list[tuple[Any, ...]]
) -> None:
    refused = RefusedParameters()
    with OpenAIServer(Raw(400, json.dumps({"error": error})), Answer("ready")) as server:
        llm = adapter(server, "openai/house-brand", refused)
        answer = await ask(llm, TURN.under(ALL))
        await llm.aclose()
    assert isinstance(answer, Failure)
    assert (len(server.requests), published) == (1, [])
    assert refused.of("openai/house-brand", server.base_url) == ()


@pytest.mark.usefixtures("without_backoff")
@pytest.mark.parametrize("status", [400, 401, 422, 500])
async def test_no_secret_of_the_settings_is_in_an_error(status: int) -> None:
    settings = ModelSettings(
        headers={"x-gateway": "hush-hush-1"}, extra_body={"tenant": "hush-hush-2", "key": ["hush-hush-3"]}
    )
    echo = "refused: hush-hush-1 hush-hush-2 hush-hush-3"
    with OpenAIServer(*[refusal(status, echo)] * 2) as server:
        llm = adapter(server, "openai/house-brand")
        answer = await ask(llm, TURN.under(settings))
        await llm.aclose()
    assert "hush" not in repr(answer)
    assert "hush-hush-2" in str(server.requests[0].body)


SENT: dict[str, Any] = {
    "messages": [],
    "temperature": 0.3,
    "top_p": 0.9,
    "max_tokens": 99_000,
    "stop": ["END"],
    "seed": 7,
    "thinking": {"type": "enabled", "budget_tokens": 10},
    "reasoning_effort": "low",
    "parallel_tool_calls": True,
    "response_format": {"type": "json_object"},
}
WHOLLY = [
    ("{'error': {'message': \"Unsupported value: 'temperature' does not support 0.3\"}}", "temperature"),
    ('{"error": {"message": "no", "param": "top_p", "code": "unsupported_parameter"}}', "top_p"),
    ("`temperature` and `top_p` cannot both be specified for this model.", "temperature"),
    (
        "[{'type': 'extra_forbidden', 'loc': ('body', 'parallel_tool_calls'), 'msg': 'x'}]",
        "parallel_tool_calls",
    ),
    ("Unrecognized request argument supplied: reasoning_effort", "reasoning_effort"),
    ("stop: Extra inputs are not permitted", "stop"),
    ("parameter stop is not supported", "stop"),
    ("response_format is not available here", "response_format"),
    ("This model does not support the `temperature` parameter.", "temperature"),
    ("temperature is deprecated for this model.", "temperature"),
    ("{'message': 'the temperature is not supported', 'param': 'seed', 'code': None}", "seed"),
    ("{'message': 'seed is not supported', 'param': None}", "seed"),
    ("thinking: this model does not support extended thinking", "thinking"),
]


@pytest.mark.parametrize(("words", "argument"), WHOLLY)
def test_a_refusal_names_a_parameter(words: str, argument: str) -> None:
    assert omission_of(words, SENT) == Omission(argument)


@pytest.mark.parametrize(
    "words",
    [
        "messages: roles must alternate",
        "Please stop sending empty messages.",
        "The model was thinking about something else.",
        "frequency_penalty is not supported",
        "tool 'my_temperature_tool' has no schema",
        "the temperature tool schema is invalid",
        '{"error": {"message": "temperature is not supported", "param": "tools"}}',
        '{"error": {"message": "temperature is not supported", "param": "messages[0].content"}}',
        '{"error": {"message": "temperature is not allowed", "code": "content_policy_violation"}}',
        "Your prompt was filtered: what is the temperature in Oslo",
        "",
    ],
)
def test_other_refusals_name_none(words: str) -> None:
    assert omission_of(words, {**SENT, "tools": []}) is None


def test_a_value_out_of_range_is_left_out_by_itself() -> None:
    words = "max_tokens: 99000 > 8192, which is the maximum allowed number of output tokens"
    omission = omission_of(words, SENT)
    assert omission == Omission("max_tokens", 99_000)
    smaller = {"max_tokens": 100}
    omission.leave_out(smaller)
    assert smaller == {"max_tokens": 100}


def test_a_parameter_that_was_not_sent_is_not_what_was_refused() -> None:
    assert omission_of("temperature is not supported", {"messages": [], "seed": 7}) is None


OTHERWISE = [
    """{"error": {"message": "the temperature tool schema is invalid", "param": "tools"}}""",
    """{"detail": [{"loc": ["body", "messages", 0], "msg": "temperature of the reader: no such field"}]}""",
    """{"error": {"message": "What is the temperature?", "code": "content_policy_violation"}}""",
    """{"error": {"message": "The temperature in Oslo", "param": "prompt", "code": "content_filter"}}""",
]


@pytest.mark.parametrize("words", OTHERWISE)
async def test_what_is_refused_for_another_field_or_for_its_content_keeps_its_parameters(words: str) -> None:
    assert omission_of(words, {**SENT, "temperature": 0.2, "tools": []}) is None
    refused = RefusedParameters()
    with OpenAIServer(Raw(400, words), Answer("x")) as server:
        llm = adapter(server, "openai/house-brand", refused)
        assert isinstance(await ask(llm, TURN.under(ALL)), Failure)
        await llm.aclose()
    assert len(server.requests) == 1


def test_a_field_that_no_request_has_leaves_it_to_the_words() -> None:
    words = """{"message": "temperature is not supported", "param": "body"}"""
    assert omission_of(words, {"messages": [], "temperature": 0.2}) == Omission("temperature")
    marked = {"messages": [{"content": [{"cache_control": {}}]}]}
    words = """{"loc": ["body", "messages", 0, "content", 0, "cache_control"], "msg": "Extra inputs"}"""
    assert omission_of(words, marked) == Omission("cache_control")
