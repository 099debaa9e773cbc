"""The protocol of OpenAI, spoken by OpenAI's own client with a real server on 127.0.0.1."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import openai
import pytest
from openai import AsyncOpenAI

from reactive_agents import ReactiveAgents, tool
from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.core.ids import AgentId, TaskId
from reactive_agents.core.json import json_bytes
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import TokenPrice
from reactive_agents.core.tasks import Task
from reactive_agents.server import KeyLimits, Principal, create_app, openai_protocol, runs
from reactive_agents.server.openai_protocol import Turns
from reactive_agents.testing import ScriptedLLM, answer, call, calls, fail, forever, say
from tests.support.contents import PNG
from tests.support.servers import asking, bearer, keys_in, listening
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def speaking(agents: Any, key: str = "none", **options: Any) -> AsyncIterator[AsyncOpenAI]:
    async with (
        listening(create_app(agents, **options)) as address,
        AsyncOpenAI(base_url=f"{address}/v1", api_key=key) as client,
    ):
        yield client


def agent(*turns: Any, name: str = "clerk", tools: Any = ()) -> Any:
    builder = ReactiveAgents.create().with_name(name).with_llm(ScriptedLLM(*turns)).with_reasoning()
    return (builder.with_tools(*tools) if tools else builder).build()


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# --- models and chat completions ------------------------------------------------------------------------


async def test_agents_are_models() -> None:
    async with speaking([agent(name="clerk"), agent(name="poet")]) as client:
        assert [each.id async for each in client.models.list()] == ["clerk", "poet"]
        assert (await client.models.retrieve("poet")).owned_by == "reactive_agents"
        with pytest.raises(openai.NotFoundError) as missing:
            await client.models.retrieve("judge")
    assert missing.value.code == "model_not_found"


async def test_a_completion_has_answer_usage_and_the_run() -> None:
    async with speaking(agent(say("Hello Ada."))) as client:
        messages: Any = [{"role": "user", "content": "Hi, I am Ada."}]
        found = await client.chat.completions.create(model="clerk", messages=messages)
    assert found.choices[0].message.content == "Hello Ada."
    assert found.choices[0].finish_reason == "stop"
    assert found.usage is not None
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens > 0
    about: Any = found.model_extra["reactive_agents"] if found.model_extra else {}
    assert about["status"] == "completed"
    assert about["run_id"] in found.id


@pytest.mark.parametrize("streams", [False, True])
async def test_a_run_without_an_answer_tells_why_in_the_content(tmp_path: Path, streams: bool) -> None:
    """Most clients show nothing else."""
    llm = ScriptedLLM(say("Hello."), price=TokenPrice(1.0, 1.0, max_output_tokens=100))
    builder = ReactiveAgents.create().with_name("clerk").with_llm(llm).with_reasoning()
    served = builder.with_cost(tmp_path / "cost.db", daily_usd=0.1).build()
    messages: Any = [{"role": "user", "content": "Hi."}]
    async with speaking(served) as client:
        if streams:
            chunks = await client.chat.completions.create(model="clerk", messages=messages, stream=True)
            choices = [each.choices[0] async for each in chunks if each.choices]
            content = "".join(each.delta.content or "" for each in choices)
            finish = choices[-1].finish_reason
        else:
            found = await client.chat.completions.create(model="clerk", messages=messages)
            content, finish = found.choices[0].message.content or "", found.choices[0].finish_reason
        response = await client.responses.create(model="clerk", input="Hi.")
    assert content.startswith("The budget of the day is exhausted: ")
    assert finish == "length"
    assert response.output_text.startswith("The budget of the day is exhausted: ")
    assert llm.requests == []


async def test_a_conversation_and_its_instructions_reach_the_model() -> None:
    served = agent(say("Ada."))
    async with speaking(served) as client:
        messages: Any = [
            {"role": "system", "content": "Answer in one word."},
            {"role": "user", "content": "I am Ada."},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "Who am I?"},
        ]
        await client.chat.completions.create(model="clerk", messages=messages, temperature=0.5, max_tokens=9)
    (request,) = served.container.models.llm().requests
    texts = [each.content for each in request.messages if isinstance(each, UserMessage)]
    assert texts[0] == "I am Ada."
    assert "Answer in one word.\n\nWho am I?" in texts[-1]
    assert (request.temperature, request.max_tokens) == (0.5, 9)


async def test_the_text_of_an_agent_without_tools_is_streamed_as_it_comes() -> None:
    async with speaking(agent(say("One two three four."))) as client:
        stream = await client.chat.completions.create(
            model="clerk",
            messages=[{"role": "user", "content": "Count."}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [each async for each in stream]
    deltas = [each.choices[0].delta.content for each in chunks if each.choices]
    assert "".join(filter(None, deltas)) == "One two three four."
    assert len([each for each in deltas if each]) > 1
    assert [each.choices[0].finish_reason for each in chunks if each.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens > 0


async def test_the_joined_content_of_an_agent_with_tools_is_its_answer_alone() -> None:
    turns = [calls(call("add", a=2, b=2), text="Let me add that."), answer("It is four.")]
    async with speaking(agent(*turns, tools=[add])) as client:
        stream = await client.chat.completions.create(
            model="clerk", messages=[{"role": "user", "content": "2 + 2?"}], stream=True
        )
        deltas = [each.choices[0].delta async for each in stream if each.choices]
    assert "".join(each.content or "" for each in deltas) == "It is four."
    shown = "".join((each.model_extra or {}).get("reasoning_content", "") for each in deltas)
    assert "Let me add that." in shown


async def test_an_image_reaches_the_model() -> None:
    served = agent(forever(say("A dot.")))
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    content: Any = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    async with speaking(served) as client:
        await client.chat.completions.create(model="clerk", messages=[{"role": "user", "content": content}])
        await client.responses.create(
            model="clerk",
            input=[
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "What is it?"},
                        {"type": "input_image", "image_url": url, "detail": "auto"},
                    ],
                }
            ],
        )
    for request in served.container.models.llm().requests:
        parts = [part for each in request.messages if isinstance(each, UserMessage) for part in each.parts]
        assert [part.data for part in parts] == [PNG]


# --- errors ---------------------------------------------------------------------------------------------


REFUSED: list[tuple[dict[str, Any], str | None]] = [
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}, "tools"),
    ({"n": 2}, "n"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"logprobs": True}, "logprobs"),
    ({"presence_penalty": 0.5}, "presence_penalty"),
    ({"verbosity": "low"}, "verbosity"),
    ({"messages": [{"role": "assistant", "content": "Hi"}]}, "messages"),
    ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages"),
    ({"messages": []}, "messages"),
    ({"temperature": 9}, None),
    ({"model": "judge"}, "model"),
]


async def test_what_an_agent_cannot_do_is_refused() -> None:
    served = agent(forever(say("never")))
    async with speaking(served) as client:
        for options, param in REFUSED:
            asked: Any = {"model": "clerk", "messages": [{"role": "user", "content": "Hi"}], **options}
            with pytest.raises(openai.APIStatusError) as refused:
                await client.chat.completions.create(**asked)
            assert refused.value.status_code in (400, 404), options
            assert refused.value.body is not None
            assert refused.value.param == param
    assert served.container.models.llm().requests == []


async def test_an_image_that_is_not_accepted_is_a_fault_of_the_request() -> None:
    image = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/key.png"}}
    messages: Any = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}]
    async with speaking(agent(forever(say("never")))) as client:
        with pytest.raises(openai.BadRequestError, match="expected a URL of a public host") as refused:
            await client.chat.completions.create(model="clerk", messages=messages)
    assert refused.value.code == "invalid_value"


async def test_a_failed_run_is_an_error_that_the_client_does_not_repeat() -> None:
    served = agent(forever(fail(ModelUnavailable("The model is down.", "scripted"))))
    question: Any = {"model": "clerk", "messages": [{"role": "user", "content": "Hi"}]}
    async with speaking(served) as client:
        with pytest.raises(openai.InternalServerError, match="down"):
            await client.chat.completions.create(**question)
        begun = len(served.container.models.llm().requests)
        with pytest.raises(openai.APIError, match="down"):
            async for _ in await client.chat.completions.create(**question, stream=True):
                pass
        with pytest.raises(openai.InternalServerError, match="down"):
            await client.responses.create(model="clerk", input="Hi")
    assert len(served.container.models.llm().requests) == 3 * begun


async def test_a_key_reaches_its_agents_alone(tmp_path: Path) -> None:
    keys = keys_in(tmp_path)
    key = bearer(keys, "Ada", agents=["clerk"])["authorization"].removeprefix("Bearer ")
    agents = [agent(say("Hello."), name="clerk"), agent(name="judge")]
    async with speaking(agents, key, keys=keys) as client:
        assert [each.id async for each in client.models.list()] == ["clerk"]
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="judge", input="Hi")
        with pytest.raises(openai.AuthenticationError) as stranger:
            await client.with_options(api_key="ra_0_0").models.list()
    assert stranger.value.code == "invalid_api_key"


# --- responses ------------------------------------------------------------------------------------------


async def test_a_response_goes_on_from_the_one_before() -> None:
    served = agent(say("Hello Ada."), say("You are Ada."))
    async with speaking(served) as client:
        first = await client.responses.create(model="clerk", input="I am Ada.")
        second = await client.responses.create(
            model="clerk", input="Who am I?", previous_response_id=first.id, instructions="Be short."
        )
    assert (first.output_text, second.output_text) == ("Hello Ada.", "You are Ada.")
    assert first.status == "completed"
    assert second.previous_response_id == first.id
    assert first.usage is not None
    assert first.usage.total_tokens > 0
    _, request = served.container.models.llm().requests
    assert [each.content for each in request.messages[-3:-1]] == ["I am Ada.", "Hello Ada."]


async def test_a_client_that_keeps_the_conversation_sends_it_each_time() -> None:
    served = agent(say("Hello Ada."), say("You are Ada."))
    said: Any = [{"role": "user", "content": "I am Ada."}]
    async with speaking(served) as client:
        first = await client.responses.create(model="clerk", input=said)
        said += [*first.output, {"role": "user", "content": [{"type": "input_text", "text": "Who am I?"}]}]
        second = await client.responses.create(model="clerk", input=said)
        assert (await client.responses.retrieve(second.id)).output_text == "You are Ada."
        with pytest.raises(openai.NotFoundError, match="send its messages"):
            await client.responses.create(model="clerk", input="?", previous_response_id=second.id)
        with pytest.raises(openai.BadRequestError, match="the conversation already contains"):
            await client.responses.create(model="clerk", input=said, previous_response_id=first.id)
        await client.responses.delete(second.id)
    _, request = served.container.models.llm().requests
    assert [each.content for each in request.messages[-3:]] == ["I am Ada.", "Hello Ada.", "Who am I?"]


async def test_two_responses_go_on_from_one_each_in_its_own_way() -> None:
    served = agent(say("Red or blue?"), say("Red it is."), say("Blue it is."), say("You chose red."))
    async with speaking(served) as client:
        first = await client.responses.create(model="clerk", input="Ask me.")
        red = await client.responses.create(model="clerk", input="Red.", previous_response_id=first.id)
        await client.responses.create(model="clerk", input="Blue.", previous_response_id=first.id)
        await client.responses.create(model="clerk", input="Which?", previous_response_id=red.id)
    requests = served.container.models.llm().requests
    said = [[each.content for each in request.messages if each.content] for request in requests]
    assert not any("Red" in text for text in said[2] if "or" not in text)
    assert "Red it is." in said[3]
    assert "Blue it is." not in said[3]


async def test_a_response_that_another_process_goes_on_from_is_gone_on_from_apart(tmp_path: Path) -> None:
    began, go = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        began.set()
        await go.wait()
        return ""

    made: dict[str, Any] = {}

    async def ask(client: AsyncOpenAI, said: str, previous: Any) -> None:
        made[said] = await client.responses.create(
            model="clerk", input=said, previous_response_id=previous and previous.id
        )

    turns = say("Red or blue?"), call("wait"), say("Red it is.")
    one = durable(tmp_path, *turns, tools=[wait])
    other = durable(tmp_path, say("Blue it is."), say("You chose blue."), tools=[wait])
    async with speaking(one) as here, speaking(other) as there, anyio.create_task_group() as group:
        await ask(here, "Ask me.", None)
        group.start_soon(ask, here, "Red.", made["Ask me."])
        await began.wait()
        with pytest.raises(openai.ConflictError):
            await there.with_options(max_retries=0).responses.delete(made["Ask me."].id)
        await ask(there, "Blue.", made["Ask me."])
        await ask(there, "Which?", made["Blue."])
        go.set()
    assert made["Red."].output_text == "Red it is."
    texts = [each.content for each in other.container.models.llm().requests[-1].messages]
    assert ("Blue it is." in texts, "Red." in texts) == (True, False)


async def test_two_processes_that_go_on_from_one_response_at_once_have_two_conversations(
    tmp_path: Path,
) -> None:
    """Both have looked at its session before either of them begins a run in it."""
    looked = [0]

    def looks_with_the_other(service: runs.AgentService) -> None:
        look = service.session

        async def session(*given: Any) -> Any:
            found = await look(*given)
            looked[0] += 1
            await until(lambda: looked[0] >= 2)
            return found

        service.session = session  # type: ignore[method-assign]

    made: dict[str, Any] = {}

    async def ask(client: AsyncOpenAI, said: str, previous: Any) -> None:
        made[said] = await client.responses.create(
            model="clerk", input=said, previous_response_id=previous and previous.id
        )

    one = durable(tmp_path, say("Red or blue?"), say("Red it is."))
    other = durable(tmp_path, say("Blue it is."))
    apps = create_app(one), create_app(other)
    async with listening(apps[0]) as here, listening(apps[1]) as there:
        clients = [AsyncOpenAI(base_url=f"{each}/v1", api_key="none") for each in (here, there)]
        await ask(clients[0], "Ask me.", None)
        for app in apps:
            looks_with_the_other(app.state.service)
        async with anyio.create_task_group() as group:
            for client, said in zip(clients, ("Red.", "Blue."), strict=True):
                group.start_soon(ask, client, said, made["Ask me."])
        for client in clients:
            await client.close()
    sessions = await one.sessions.list()
    assert [(each.turns, each.is_held) for each in sessions] == [(2, False), (2, False)]
    texts = sorted(
        [str(await one.sessions.read(each.session)) for each in sessions], key=lambda t: "Red." in t
    )
    assert [("Blue it is." in text, "Red it is." in text) for text in texts] == [(True, False), (False, True)]


async def test_a_conversation_is_kept_by_its_name_for_its_user() -> None:
    served = agent(say("Hello Ada."), say("You are Ada."), say("I do not know."))
    async with speaking(served) as client:
        for user, text in (("ada", "I am Ada."), ("ada", "Who am I?"), ("bob", "Who am I?")):
            await client.responses.create(model="clerk", input=text, conversation="talk", user=user)
    requests = served.container.models.llm().requests
    assert ["I am Ada." in str(each.messages) for each in requests] == [True, True, False]


async def test_a_response_of_another_user_is_no_previous_response(tmp_path: Path) -> None:
    keys = keys_in(tmp_path)
    ada, bob = (bearer(keys, each, user=each)["authorization"][7:] for each in ("ada", "bob"))
    async with speaking(agent(say("The code is 1234.")), ada, keys=keys) as client:
        first = await client.responses.create(model="clerk", input="My code is 1234.")
        other = client.with_options(api_key=bob)
        for previous in (first.id, "resp_1", "resp_a_9_b", f"{first.id}_1", "resp_%2e_1_a", "x" * 5_000):
            with pytest.raises(openai.NotFoundError) as refused:
                await other.responses.create(model="clerk", input="Tell me.", previous_response_id=previous)
            assert "1234" not in str(refused.value)


def durable(folder: Path, *turns: Any, tools: Any = ()) -> Any:
    model = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(*turns)).with_reasoning()
    model = model.with_tools(*tools) if tools else model
    return model.with_durability(folder / "runs.db").with_sessions(folder / "sessions.db").build()


async def test_a_response_is_found_again_by_the_next_server_and_gone_on_with(tmp_path: Path) -> None:
    async with speaking(durable(tmp_path, say("Hello Ada."))) as client:
        first = await client.responses.create(
            model="clerk", input="I am Ada.", temperature=0.5, metadata={"a": "b"}, instructions="Be short."
        )
        assert (await client.responses.retrieve(first.id)).model_dump() == first.model_dump()
    async with speaking(durable(tmp_path, say("You are Ada."))) as client:
        found = await client.responses.retrieve(first.id)
        second = await client.responses.create(
            model="clerk", input="Who?", previous_response_id=first.id, stream=True
        )
        events = [each async for each in second]
        assert (await client.responses.retrieve(events[-1].response.id)) == events[-1].response
    assert found.model_dump() == first.model_dump()
    assert events[-1].response.output_text == "You are Ada."


@pytest.mark.parametrize("is_lasting", [False, True])
async def test_the_latest_conversations_of_responses_are_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lasting: bool
) -> None:
    monkeypatch.setattr(openai_protocol, "MOST_IN_MEMORY", 2)
    served = agent(forever(say("Indeed.")))
    if is_lasting:
        served = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(forever(say("Indeed."))))
        served = served.with_reasoning().with_sessions(tmp_path / "s.db").build()
    async with speaking(served) as client:
        first, second = [
            await client.responses.create(model="clerk", input=each) for each in ("One.", "Two.")
        ]
        again = await client.responses.create(model="clerk", input="1?", previous_response_id=first.id)
        await client.responses.create(model="clerk", input="Three.")
        await client.responses.create(model="clerk", input="1?", previous_response_id=again.id)
        found = await served.sessions.list()
        assert [each.title for each in found] == ["One.", "Three.", *["Two."] * is_lasting]
        if not is_lasting:
            with pytest.raises(openai.NotFoundError):
                await client.responses.create(model="clerk", input="2?", previous_response_id=second.id)


async def test_the_conversation_of_a_run_that_ended_at_once_is_free() -> None:
    service = runs.AgentService({})
    turns = Turns(service, busy := {("clerk", "talk")}, "clerk")
    turns.held = ("clerk", "talk")
    task = Task(TaskId("t1"), AgentId("clerk"), "Hello.", datetime.now(UTC))
    live = runs.LiveRun("clerk", task, service.anybody, is_durable=False)
    live.end(0.0)
    turns.keep_until_ended(live)
    assert busy == set()


async def test_a_refused_request_does_not_hold_the_turn_that_it_reserved(tmp_path: Path) -> None:
    began, go = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        began.set()
        await go.wait()
        return ""

    turns = say("Red or blue?"), call("wait"), say("I have waited."), say("Red it is.")
    said: Any = [{"role": "assistant", "content": "Red or blue?"}, {"role": "user", "content": "Red."}]
    served = durable(tmp_path, *turns, tools=[wait])
    async with speaking(served, limits=KeyLimits(runs=1)) as client, anyio.create_task_group() as group:
        once = client.with_options(max_retries=0)
        first = await once.responses.create(model="clerk", input="Ask me.")
        with pytest.raises(openai.BadRequestError, match="the conversation already contains"):
            await once.responses.create(model="clerk", input=said, previous_response_id=first.id)
        assert [each.is_held for each in await served.sessions.list()] == [False]
        group.start_soon(partial(once.responses.create, model="clerk", input="Wait.", store=False))
        await began.wait()
        with pytest.raises(openai.RateLimitError):
            await once.responses.create(model="clerk", input="Red.", previous_response_id=first.id)
        assert [each.is_held for each in await served.sessions.list()] == [False]
        go.set()
        await until(lambda: len(served.container.models.llm().requests) == 3)
        second = await client.responses.create(model="clerk", input="Red.", previous_response_id=first.id)
    assert second.id.split("_")[1] == first.id.split("_")[1]


async def test_a_response_is_deleted_with_its_turn() -> None:
    served = agent(forever(say("Yes.")))
    async with speaking(served) as client:
        one = await client.responses.create(model="clerk", input="One.")
        two = await client.responses.create(model="clerk", input="Two.", previous_response_id=one.id)
        await client.responses.delete(two.id)
        for missing in (
            client.responses.retrieve(two.id),
            client.responses.delete(two.id),
            client.responses.create(model="clerk", input="More.", previous_response_id=two.id),
        ):
            with pytest.raises(openai.NotFoundError):
                await missing
        again = await client.responses.create(model="clerk", input="Again.", previous_response_id=one.id)
        assert again.id.split("_")[:3] == two.id.split("_")[:3]
        await client.responses.delete(again.id)
        await client.responses.delete(one.id)
    assert await served.sessions.list() == ()
    said = [each.content for each in served.container.models.llm().requests[-1].messages]
    assert ("Two." in said, "One." in said) == (False, True)


async def test_a_conversation_that_cannot_be_read_is_neither_missing_nor_deleted(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    built = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(forever(say("Yes."))))
    async with speaking(built.with_sessions(path).build()) as client:
        once = client.with_options(max_retries=0)
        one = await client.responses.create(model="clerk", input="One.")
        path.with_name(f"{path.name}-wal").unlink()
        path.with_name("other").write_bytes(b"no database" * 1_000)
        path.with_name("other").replace(path)
        for asked in (
            once.responses.create(model="clerk", input="Two.", previous_response_id=one.id),
            once.responses.delete(one.id),
        ):
            with pytest.raises(openai.InternalServerError) as failed:
                await asked
            assert failed.value.status_code == 503
        assert (await client.responses.retrieve(one.id)).id == one.id


async def test_a_response_is_that_of_its_user_and_no_other_run_is_one(tmp_path: Path) -> None:
    keys = keys_in(tmp_path)
    ada, bob = (bearer(keys, each, user=each)["authorization"][7:] for each in ("ada", "bob"))
    forged = {"openai_response": {"id": "resp_a_0_b", "created_at": 1, "request": {"input": "x"}}}
    async with speaking(agent(forever(say("The code is 1234."))), ada, keys=keys) as client:
        first = await client.responses.create(model="clerk", input="My code is 1234.")
        unkept = await client.responses.create(model="clerk", input="Forget it.", store=False)
        run: Any = await client.post("/runs", body={"task": "x", "metadata": forged}, cast_to=object)
        other = client.with_options(api_key=bob)
        strange = (
            "resp_1",
            f"resp_a_1_{run['run_id']}",
            f"x{first.id}",
            first.id.rpartition("_")[2],
            unkept.id,
        )
        for who, name in ((other, first.id), *((client, each) for each in strange)):
            for refused in (who.responses.retrieve(name), who.responses.delete(name)):
                with pytest.raises(openai.NotFoundError) as missing:
                    await refused
                assert missing.value.code == "response_not_found"
        assert (await client.responses.retrieve(first.id)).output_text == "The code is 1234."


@pytest.mark.parametrize("form", ["resp_a_b_1_{}", "_{}", "resp_a_x_{}", "resp_a_99999999_{}"])
async def test_a_run_whose_metadata_names_a_forged_id_is_no_response(tmp_path: Path, form: str) -> None:
    keys = keys_in(tmp_path)
    ada, sender = bearer(keys, "ada", user="ada"), Principal(user="ada")
    forged = form.format(run := runs.keyed_run_id(sender, "ada", "clerk", "one"))  # which a client can tell
    stored = {"openai_response": {"id": forged, "created_at": 1, "request": {}}}
    async with asking(create_app(agent(say("Done.")), keys=keys), ada) as client:
        begun = await client.post(
            "/v1/runs", json={"task": "x", "metadata": stored}, headers={"idempotency-key": "one"}
        )
        assert begun.json()["run_id"] == run
        await client.get(f"/v1/runs/{run}?wait_s=60")
        answers = [await client.request(each, f"/v1/responses/{forged}") for each in ("GET", "DELETE")]
    assert [each.status_code for each in answers] == [404, 404]


async def test_a_response_is_in_progress_until_its_run_has_ended_and_may_fail() -> None:
    go = anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await go.wait()
        return ""

    broken = fail(ModelUnavailable("The model is down.", "scripted"))
    async with speaking(agent(call("wait"), broken, tools=[wait])) as client:
        stream = await client.responses.create(model="clerk", input="Hi", stream=True)
        created: Any = await anext(stream)
        made = await client.responses.retrieve(created.response.id)
        with pytest.raises(openai.ConflictError):
            await client.with_options(max_retries=0).responses.delete(made.id)
        go.set()
        last = [each async for each in stream][-1]
        failed = await client.responses.retrieve(made.id)
    assert (made.status, made.output) == ("in_progress", [])
    assert (failed.status, failed) == ("failed", last.response)  # type: ignore[union-attr]


async def test_a_request_that_is_repeated_with_its_key_is_one_response(tmp_path: Path) -> None:
    once = {"idempotency-key": "order-7"}
    async with speaking(durable(tmp_path, say("Done."))) as client:
        both = []

        async def ask() -> None:
            both.append(await client.responses.create(model="clerk", input="Do it.", extra_headers=once))

        async with anyio.create_task_group() as group:  # the first two at once
            group.start_soon(ask)
            group.start_soon(ask)
        await ask()
    async with speaking(durable(tmp_path)) as client:
        late = await client.responses.create(model="clerk", input="Do it.", extra_headers=once)
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(model="clerk", input="Another.", extra_headers=once)
    assert [each.model_dump() for each in both] == [late.model_dump()] * 3


@pytest.mark.parametrize("asks", ["responses", "chat", "streamed responses"])
async def test_one_key_at_once_in_two_processes_is_one_run_with_one_answer(tmp_path: Path, asks: str) -> None:
    texts, go = list[str](), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        made.append("wait")
        await go.wait()
        return ""

    async def ask(client: AsyncOpenAI) -> None:
        more: Any = {"extra_headers": {"idempotency-key": "order-7"}}
        if asks == "chat":
            said: Any = [{"role": "user", "content": "Do it."}]
            found: Any = await client.chat.completions.create(model="clerk", messages=said, **more)
            texts.append(f"{found.id} {found.choices[0].message.content}")
        elif asks == "responses":
            found = await client.responses.create(model="clerk", input="Do it.", **more)
            texts.append(f"{found.id} {found.output_text}")
        else:
            events = await client.responses.create(model="clerk", input="Do it.", stream=True, **more)
            found = [each async for each in events][-1]
            texts.append(f"{found.response.id} {found.response.output_text}")

    made: list[str] = []
    turns = call("wait"), say("Done."), say("Another.")
    one, other = (durable(tmp_path, *turns, tools=[wait]) for _ in range(2))
    async with speaking(one) as first, speaking(other) as second, anyio.create_task_group() as group:
        group.start_soon(ask, first)
        group.start_soon(ask, second)
        await until(lambda: len(made) == 1)
        go.set()
    assert len(texts) == 2
    assert len(set(texts)) == 1
    assert texts[0].endswith(" Done.")
    assert made == ["wait"]


async def test_a_response_that_waits_for_another_process_holds_up_no_other_key(tmp_path: Path) -> None:
    began, go = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        began.set()
        await go.wait()
        return ""

    async def ask(client: AsyncOpenAI, key: str) -> None:
        once = {"idempotency-key": key}
        found = await client.responses.create(model="clerk", input="Do it.", extra_headers=once)
        texts.append(f"{key}: {found.output_text}")

    texts: list[str] = []
    one = durable(tmp_path, call("wait"), say("Done."), tools=[wait])
    other = durable(tmp_path, say("At once."), tools=[wait])
    async with speaking(one) as first, speaking(other) as second, anyio.create_task_group() as group:
        group.start_soon(ask, first, "a")
        await began.wait()
        group.start_soon(ask, second, "a")
        await ask(second, "b")
        go.set()
    assert sorted(texts) == ["a: Done.", "a: Done.", "b: At once."]
    assert texts[0] == "b: At once."


@pytest.mark.parametrize("is_durable", [False, True])
async def test_a_repeated_request_with_a_secret_gets_its_response(tmp_path: Path, is_durable: bool) -> None:
    """What is stored of the first one is redacted."""
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    once = {"idempotency-key": "order-7"}

    async def ask(client: AsyncOpenAI, told: str) -> Any:
        given: Any = {"instructions": told, "metadata": {"order": secret}, "extra_headers": once}
        return await client.responses.create(model="clerk", input="Do it.", **given)

    served = durable(tmp_path, say("Done.")) if is_durable else agent(say("Done."))
    async with speaking(served) as client:
        both = [await ask(client, f"The key is {secret}.") for _ in range(2)]
        with pytest.raises(openai.BadRequestError):
            await ask(client, "There is no key.")
    if is_durable:
        async with speaking(durable(tmp_path)) as client:
            both.append(await ask(client, f"The key is {secret}."))
    assert all(each.model_dump() == both[0].model_dump() for each in both)


async def test_a_response_is_streamed_in_events_that_the_client_understands() -> None:
    async with speaking(agent(say("One two three."), say("Four."))) as client:
        async with client.responses.stream(model="clerk", input="Count.") as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_response()
        again = await client.responses.create(
            model="clerk", input="Go on.", previous_response_id=final.id, stream=True
        )
        texts = [each.delta async for each in again if each.type == "response.output_text.delta"]
    assert final.output_text == "One two three."
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert kinds.count("response.output_text.delta") > 1
    assert "".join(texts) == "Four."


async def test_the_stream_of_a_failed_run_ends_with_its_failure() -> None:
    async with speaking(agent(fail(ModelUnavailable("The model is down.", "scripted")))) as client:
        stream = await client.responses.create(model="clerk", input="Hi", stream=True)
        events = [each async for each in stream]
    assert events[-1].type == "response.failed"
    assert "down" in str(events[-1].response.error)


# --- disconnection --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["chat", "response", "stream"])
async def test_a_run_is_cancelled_when_its_client_leaves(how: str) -> None:
    begun, ended = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return ""

    served = agent(forever(call("wait")), tools=[wait])
    app = create_app(served)
    messages: Any = [{"role": "user", "content": "Wait."}]

    async with listening(app) as address, AsyncOpenAI(base_url=f"{address}/v1", api_key="none") as client:

        async def ask() -> None:
            if how == "response":
                await client.responses.create(model="clerk", input="Wait.")
            elif how == "chat":
                await client.chat.completions.create(model="clerk", messages=messages)
            else:
                async for _ in await client.chat.completions.create(
                    model="clerk", messages=messages, stream=True
                ):
                    pass

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await begun.wait()
            group.cancel_scope.cancel()
        await ended.wait()
        await until(lambda: not app.state.service.runs_under_way)
        assert app.state.service.ended == {"cancelled": 1}
        assert app.state.service.uses.open_streams == 0


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
async def test_a_request_with_a_key_gets_its_answer_after_its_client_left(path: str) -> None:
    begun, go = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await go.wait()
        return ""

    async def receive() -> dict[str, Any]:
        if sent:
            return {"type": "http.request", "body": sent.pop()}
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        statuses.append(message.get("status"))

    asked = {"model": "clerk", "input": "Do it.", "messages": [{"role": "user", "content": "Do it."}]}
    sent, statuses = [json_bytes(asked)], list[Any]()
    headers = {"host": "localhost", "content-type": "application/json", "idempotency-key": "order-7"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    app: Any = create_app(agent(call("wait"), say("Done."), tools=[wait]))
    async with asking(app) as client:
        await app(scope, receive, send)
        assert statuses[0] == 499
        go.set()
        again = await client.post(path, content=json_bytes(asked), headers=headers)
    assert "Done." in again.text
    assert app.state.service.started == 1
