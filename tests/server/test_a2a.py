"""The A2A protocol, with its own client: cards, tasks, streams, input, cancellation, other people's tasks."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from a2a.client import Client, ClientConfig, create_client
from a2a.helpers.proto_helpers import get_artifact_text, get_data_parts, new_data_part, new_text_part
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import A2AError
from attrs import frozen

from reactive_agents import ReactiveAgents, agent_tool, tool
from reactive_agents.core.governance import ApprovalDecision
from reactive_agents.server import KeyLimits, Principal, a2a, create_app, runs
from reactive_agents.server.runs import AgentService
from reactive_agents.server.web import Problem
from reactive_agents.testing import ScriptedLLM, answer, call, calls, forever, say
from tests.support.servers import asking, bearer, keys_in, listening
from tests.support.sqlite_files import audited
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@frozen
class City:
    name: str
    people: int


PAID: list[str] = []
NO_HEADERS: Mapping[str, str] = {}


@tool(requires_approval=True)
def pay(to: str) -> str:
    """Pay somebody."""
    PAID.append(to)
    return f"paid {to}"


def clerk(*turns: Any) -> Any:
    return ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(*turns)).with_reasoning()


@asynccontextmanager
async def client_of(app: Any, headers: Mapping[str, str] = NO_HEADERS) -> AsyncIterator[Client]:
    async with asking(app, headers) as http:
        config = ClientConfig(httpx_client=http, streaming=True)
        async with await create_client("http://localhost/a2a/clerk", client_config=config) as client:
            yield client


MESSAGE: dict[str, Any] = {"message": {"role": "ROLE_USER", "messageId": "m1", "parts": [{"text": "Do it."}]}}
UNKNOWN_FILE = {"message": {**MESSAGE["message"], "parts": [{"raw": "AAAA", "filename": "a.exe"}]}}
NO_REQUESTS: list[tuple[Any, int | None, int]] = [
    ([{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": MESSAGE}], None, -32600),
    ([], None, -32600),
    ([1], None, -32600),
    ("x", None, -32600),
    ({}, None, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": 7}, 1, -32600),
    ({"jsonrpc": "1.0", "id": 1, "method": "SendMessage", "params": MESSAGE}, 1, -32600),
    ({"jsonrpc": "2.0", "id": {}, "method": "SendMessage", "params": MESSAGE}, None, -32600),
    ({"jsonrpc": "2.0", "id": True, "method": "SendMessage", "params": MESSAGE}, None, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": MESSAGE, "user": "ada"}, 1, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": "DropTables"}, 1, -32601),
    ({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": [1]}, 1, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": "x"}, 1, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": UNKNOWN_FILE}, 1, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"parts": "x"}}}, 1, -32602),
    (b"no json", None, -32700),
    (b"\xff", None, -32700),
    (b"[" * 100_000, None, -32700),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "\\ud800"}}', None, -32700),
    (b'{"jsonrpc": "2.0", "id": NaN, "method": "GetTask", "params": {"id": "x"}}', None, -32700),
]


async def test_what_is_no_request_is_an_error_and_no_failure_of_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = create_app(clerk(forever(say("Done."))).build())
    headers = {"content-type": "application/json", "a2a-version": "1.0"}
    async with asking(app, headers) as http:
        for given, number, code in NO_REQUESTS:
            body = given if isinstance(given, bytes) else json.dumps(given).encode()
            found = (await http.post("/a2a/clerk", content=body)).json()
            assert (found["id"], found["error"]["code"]) == (number, code), given
        typed = await http.post("/a2a/clerk", content=b"{}", headers={"content-type": "text/plain"})
    assert (typed.status_code, typed.json()["code"]) == (415, "unsupported-media-type")
    assert [each for each in caplog.records if each.exc_info] == []
    assert app.state.service.started == 0


async def test_texts_of_a_client_make_no_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    forged = "1\nERROR The disk is full. \x1b[31m" + "x" * 9_000
    message = {"role": "ROLE_USER", "messageId": "m", "taskId": forged, "parts": [{"text": "Hi"}]}
    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        ("SubscribeToTask", {"id": forged}),
        ("SendMessage", {"message": message}),
        ("SendStreamingMessage", {"message": message}),
    )
    async with asking(create_app(clerk(say("Done.")).build())) as http:
        for (method, params), version in itertools.product(asked, ("1.0", "\x9b31m")):
            body = {"jsonrpc": "2.0", "id": forged, "method": method, "params": params}
            sent = {"content-type": "application/json", "a2a-version": version.encode("latin-1")}
            given = await http.post("/a2a/clerk", content=json.dumps(body), headers=sent)  # type: ignore[arg-type]
            assert "error" in given.json()
    assert [each for each in caplog.messages if "31m" in each or "The disk" in each] == []


async def test_a_key_is_in_no_log_at_any_level(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = keys_in(tmp_path)
    header = {**bearer(keys, "ada"), "cookie": "sid=0123456789", "a2a-version": "1.0"}
    message = {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "Hi"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    with caplog.at_level(1), caplog.at_level(1, "a2a"):
        async with asking(create_app(clerk(say("Done.")).build(), keys=keys), header) as http:
            assert "result" in (await http.post("/a2a/clerk", json=body)).json()
    logged = caplog.text + "".join(str(each.args) for each in caplog.records)
    assert "ServerCallContext" in logged or "call_context" in logged
    assert header["authorization"].partition(" ")[2] not in logged
    assert "0123456789" not in logged


def request(*parts: Part | str, task: Task | None = None, context: str = "") -> SendMessageRequest:
    made = [new_text_part(each) if isinstance(each, str) else each for each in parts]
    message = Message(role=Role.ROLE_USER, message_id=uuid.uuid4().hex, parts=made, context_id=context)
    if task is not None:
        message.task_id, message.context_id = task.id, task.context_id
    return SendMessageRequest(message=message)


async def give(client: Client, sent: SendMessageRequest) -> tuple[Task, list[Any]]:
    """Return the task as the server has it after a message, and what was streamed."""
    streamed = [each async for each in client.send_message(sent)]
    first = streamed[0]
    known = first.task.id or first.status_update.task_id
    return await client.get_task(GetTaskRequest(id=known)), streamed


async def test_a_task_streams_its_answer_and_is_kept() -> None:
    def moons(planet: str) -> list[str]:
        """The moons of a planet."""
        return ["Phobos", "Deimos"]

    agent = clerk(call("moons", planet="Mars"), answer("Phobos and Deimos.")).with_tools(moons).build()
    async with client_of(create_app(agent, protocols=["a2a"])) as client:
        task, streamed = await give(client, request("Which moons has Mars?"))
    (artifact,) = task.artifacts
    assert (task.status.state, get_artifact_text(artifact)) == (
        TaskState.TASK_STATE_COMPLETED,
        "Phobos and Deimos.",
    )
    told = [each.status_update.status.message.parts for each in streamed if each.HasField("status_update")]
    assert any("moons succeeded" in parts[0].text for parts in told if parts)


async def test_a_context_is_a_conversation_and_a_typed_answer_is_data() -> None:
    model = ScriptedLLM(
        call("final-answer", name="Rome", people=3), call("final-answer", name="Oslo", people=1)
    )
    agent = ReactiveAgents.create().with_name("clerk").with_llm(model).with_reasoning()
    agent = agent.with_tools("calculator").with_output_type(City).build()
    async with client_of(create_app(agent, protocols=["a2a"])) as client:
        first, _ = await give(client, request("Rome?"))
        second, _ = await give(client, request("And Oslo?", context=first.context_id))
    assert get_data_parts(first.artifacts[0].parts) == [{"name": "Rome", "people": 3.0}]
    assert second.context_id == first.context_id
    assert second.id != first.id
    assert "Rome?" in [each.content for each in model.requests[-1].messages]


@pytest.mark.parametrize(
    ("reply", "paid"),
    [
        (new_data_part({"approved": True}), ["Ann"]),
        ("approve", ["Ann"]),
        (new_data_part({"approved": False}), []),
        (new_data_part({"approved": True, "arguments": {"to": "Bob"}}), []),
        ("no" * 100_000, []),
        ("No, it is too much: approve nothing.", []),
    ],
    ids=["data", "word", "denied", "edited", "long", "text"],
)
async def test_a_call_that_needs_approval_requires_input(reply: Part | str, paid: list[str]) -> None:
    PAID.clear()
    agent = clerk(call("pay", to="Ann"), forever(answer("That is what became of paying Ann.")))
    app = create_app(agent.with_tools(pay).with_approval().build(), protocols=["a2a"])
    async with client_of(app) as client:
        asked, _ = await give(client, request("Pay Ann."))
        assert (asked.status.state, PAID) == (TaskState.TASK_STATE_INPUT_REQUIRED, [])
        assert 'pay {"to": "Ann"}' in asked.status.message.parts[0].text
        ended, _ = await give(client, request(reply, task=asked))
    assert paid == PAID
    assert get_artifact_text(ended.artifacts[0]) == "That is what became of paying Ann."


@pytest.mark.parametrize("restarts", [False, True])
async def test_who_may_not_approve_calls_does_not_by_a_message_and_keeps_nobody_from_it(
    tmp_path: Path, restarts: bool
) -> None:
    PAID.clear()
    sender = Principal(user="ada", approves=False)

    def server(*turns: Any) -> Any:
        agent = clerk(*turns).with_tools(pay).with_approval()
        if restarts:
            agent = agent.with_durability(tmp_path / "runs.db")
        return create_app(agent.build(), protocols=["a2a"], authenticate=lambda _: sender)

    turns = [call("pay", to="Ann"), answer("Paid Ann.")]
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(client_of(server(*turns)))
        asked, _ = await give(client, request("Pay Ann."))
        if restarts:
            await stack.aclose()
            client = await stack.enter_async_context(client_of(server(turns[1])))
            asked = await client.get_task(GetTaskRequest(id=asked.id))
        with pytest.raises(A2AError, match="Another person has to decide"):
            await give(client, request("approve", task=asked))
        assert PAID == []
        sender = Principal(user="ada")
        ended, _ = await give(client, request("approve", task=asked))
    assert (ended.status.state, PAID) == (TaskState.TASK_STATE_COMPLETED, ["Ann"])


async def test_who_may_not_approve_is_told_that_a_task_has_ended_though_its_run_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "ENDED_S", 0.0)
    agent = clerk(answer("One."), answer("Two.")).build()
    sender = Principal(user="ada", approves=False)
    app = create_app(agent, protocols=["a2a"], authenticate=lambda _: sender)
    async with client_of(app) as client:
        ended, _ = await give(client, request("Count."))
        await give(client, request("Go on counting."))  # forgets the first run
        with pytest.raises(A2AError, match="terminal state"):
            await give(client, request("And?", task=ended))


async def test_a_question_is_answered_by_the_next_message_of_the_task() -> None:
    agent = clerk(call("ask-user", question="Which colour?"), answer("Painted blue.")).with_ask_user().build()
    async with client_of(create_app(agent, protocols=["a2a"])) as client:
        asked, _ = await give(client, request("Paint."))
        ended, _ = await give(client, request("blue", task=asked))
    assert "Which colour?" in asked.status.message.parts[0].text
    assert (ended.id, ended.status.state) == (asked.id, TaskState.TASK_STATE_COMPLETED)


@pytest.mark.parametrize("names_context", [True, False])
async def test_the_task_of_a_durable_run_outlives_its_server(tmp_path: Path, names_context: bool) -> None:
    PAID.clear()
    keys = keys_in(tmp_path)
    ann, bob = bearer(keys, "ann", user="ann"), bearer(keys, "bob", user="bob")

    def server(*turns: Any) -> Any:
        agent = clerk(*turns).with_tools(pay).with_approval().with_ask_user()
        agent = agent.with_audit(tmp_path / "audit.db")
        return create_app(agent.with_durability(tmp_path / "runs.db").build(), keys=keys)

    turns = call("pay", to="Ann"), call("ask-user", question="Which colour?"), answer("Paid Ann in blue.")
    async with client_of(server(turns[0]), ann) as client:
        shown, _ = await give(client, request("Pay Ann."))
    async with client_of(server(*turns[1:]), ann) as client:
        asked = await client.get_task(GetTaskRequest(id=shown.id))
        assert (asked.status.state, PAID) == (TaskState.TASK_STATE_INPUT_REQUIRED, [])
        assert (asked.context_id, asked.history[0].parts[0].text) == (shown.context_id, "Pay Ann.")
        assert 'pay {"to": "Ann"}' in asked.status.message.parts[0].text
        approving = request("approve", task=asked)
        if not names_context:  # the protocol lets a client leave it out
            approving.message.ClearField("context_id")
        asked, _ = await give(client, approving)
        assert (asked.status.state, PAID) == (TaskState.TASK_STATE_INPUT_REQUIRED, ["Ann"])
        assert asked.status.message.parts[0].text == "Which colour?"
        await give(client, request("blue", task=asked))
    async with client_of(server(), ann) as client:
        ended = await client.get_task(GetTaskRequest(id=shown.id))
    assert (ended.status.state, PAID) == (TaskState.TASK_STATE_COMPLETED, ["Ann"])
    assert get_artifact_text(ended.artifacts[0]) == "Paid Ann in blue."
    settled = ["request", "approval", "request", "answer"]
    assert audited(tmp_path / "audit.db") == ["start", *settled, "run"]
    async with client_of(server(), bob) as client:
        with pytest.raises(A2AError):
            await client.get_task(GetTaskRequest(id=shown.id))


def paying_clerk(folder: Path, *turns: Any, recover: bool = True) -> Any:
    """Serve a clerk whose payments need approval, on the durable runs of the folder."""
    agent = clerk(*turns).with_tools(pay).with_approval()
    agent = agent.with_durability(folder / "runs.db", recover=recover)
    return create_app(agent.build(), protocols=["a2a"])


async def test_a_message_after_a_restart_approves_nothing_unseen(
    tmp_path: Path,
) -> None:
    PAID.clear()

    server = partial(paying_clerk, tmp_path)
    async with client_of(server(call("pay", to="Ann"))) as client:
        asked, _ = await give(client, request("Pay Ann."))
    async with client_of(server(answer("Paid Ann."))) as client:
        streamed = [each async for each in client.send_message(request("approve", task=asked))]
        last = streamed[-1].status_update.status
        assert (last.state, PAID) == (TaskState.TASK_STATE_INPUT_REQUIRED, [])
        assert 'pay {"to": "Ann"}' in last.message.parts[0].text
        ended, _ = await give(client, request("approve", task=asked))
    assert (ended.status.state, PAID) == (TaskState.TASK_STATE_COMPLETED, ["Ann"])


async def test_a_task_goes_on_here_when_the_process_that_has_its_run_ends(tmp_path: Path) -> None:
    PAID.clear()

    def server(*turns: Any) -> Any:
        agent = clerk(*turns).with_tools(pay).with_approval().with_durability(tmp_path / "runs.db")
        return create_app(agent.build(), protocols=["a2a"], drain_s=0)

    ended: list[Any] = []

    async def approve() -> None:
        await give(here, request("approve", task=asked))  # which shows what waits
        ended.append(await give(here, request("approve", task=asked)))

    async with (
        client_of(server(answer("Paid Ann."))) as here,
        anyio.create_task_group() as group,
        client_of(server(call("pay", to="Ann"), say("Paid.", delay=3_600))) as elsewhere,
    ):
        asked, _ = await give(elsewhere, request("Pay Ann."))
        group.start_soon(approve)
        await until(lambda: PAID)
    ((task, _),) = ended
    assert (task.status.state, PAID) == (TaskState.TASK_STATE_COMPLETED, ["Ann"])


async def test_the_shown_requests_of_the_latest_tasks_alone_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PAID.clear()
    monkeypatch.setattr(a2a, "_MOST_TASKS", 2)
    turns = [call("pay", to=name) for name in ("Ann", "Ben", "Cat")]
    async with client_of(paying_clerk(tmp_path, *turns)) as client:
        tasks = [(await give(client, request("Pay.")))[0] for _ in turns]
    async with client_of(paying_clerk(tmp_path, forever(answer("Paid.")), recover=False)) as client:
        for task in tasks:
            await client.get_task(GetTaskRequest(id=task.id))
        ends = [(await give(client, request("approve", task=task)))[0] for task in reversed(tasks)]
    asked, ended = TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_COMPLETED
    assert [each.status.state for each in ends] == [ended, ended, asked]
    assert PAID == ["Cat", "Ben"]


async def task_followed_until(tmp_path: Path, act: Callable[[AgentService, str], Awaitable[Any]]) -> Any:
    """Return a task that was approved here and runs elsewhere, after an act on the service here."""
    PAID.clear()
    app = paying_clerk(tmp_path, recover=False)
    elsewhere_app = paying_clerk(tmp_path, call("pay", to="Ann"), say("x", delay=3_600))
    ended: list[Any] = []

    async def approve() -> None:
        ended.append(await give(here, request("approve", task=asked)))

    async with client_of(elsewhere_app) as elsewhere, client_of(app) as here:
        asked, _ = await give(elsewhere, request("Pay Ann."))
        await give(here, request("approve", task=asked))  # which shows what waits
        async with anyio.create_task_group() as group:
            group.start_soon(approve)
            await until(lambda: PAID)
            await act(app.state.service, asked.id)
        await elsewhere_app.state.service.drain(0)
    ((task, _),) = ended
    return task


async def test_a_task_whose_run_another_process_has_works_on_after_the_shutdown(tmp_path: Path) -> None:
    task = await task_followed_until(tmp_path, lambda service, _: service.drain(0))
    assert (task.status.state, PAID) == (TaskState.TASK_STATE_WORKING, ["Ann"])


async def test_a_store_that_fails_for_a_moment_neither_loses_an_answer_nor_ends_the_task(
    tmp_path: Path,
) -> None:
    PAID.clear()
    app = paying_clerk(tmp_path, recover=False)
    elsewhere_app = paying_clerk(tmp_path, call("pay", to="Ann"), say("x", delay=3_600))
    service, elsewhere_service = app.state.service, elsewhere_app.state.service
    ended: list[Any] = []

    async def approve() -> None:
        ended.append(await give(here, request("approve", task=asked)))

    def fail_once(method: str) -> None:
        async def fail(*_: Any) -> Any:
            delattr(service, method)
            raise Problem(503, "store-unavailable", "A store of the agent cannot be used now.")

        setattr(service, method, fail)

    async with client_of(elsewhere_app) as elsewhere, client_of(app) as here:
        asked, _ = await give(elsewhere, request("Pay Ann."))
        await give(here, request("approve", task=asked))  # which shows what waits
        fail_once("settle")
        again, _ = await give(here, request("approve", task=asked))
        assert (again.status.state, PAID) == (TaskState.TASK_STATE_INPUT_REQUIRED, [])
        async with anyio.create_task_group() as group:
            group.start_soon(approve)
            await until(lambda: PAID)
            fail_once("find")
        run = await elsewhere_service.find(elsewhere_service.anybody, asked.id)
        assert elsewhere_service.cancel(run)
        await run.until_ended()
        ended.append((await here.get_task(GetTaskRequest(id=asked.id)), []))
    states = [task.status.state for task, _ in ended]
    assert states == [TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_CANCELED]


async def test_a_task_whose_run_is_deleted_while_it_is_followed_has_failed(tmp_path: Path) -> None:
    async def delete(service: AgentService, run_id: str) -> None:
        await service.delete(await service.find(service.anybody, run_id))

    task = await task_followed_until(tmp_path, delete)
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert "no such run" in task.status.message.parts[0].text


async def test_a_task_that_waits_is_cancelled_after_a_restart(tmp_path: Path) -> None:
    PAID.clear()

    server = partial(paying_clerk, tmp_path)
    async with client_of(server(call("pay", to="Ann"))) as client:
        asked, _ = await give(client, request("Pay Ann."))
    async with client_of(server()) as client:
        cancelled = await client.cancel_task(CancelTaskRequest(id=asked.id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
    async with client_of(server()) as client:
        later = await client.get_task(GetTaskRequest(id=asked.id))
    assert (later.status.state, PAID) == (TaskState.TASK_STATE_CANCELED, [])


@pytest.mark.parametrize(
    ("turn", "state", "reason"),
    [
        (call("final-answer", answer="", could_not="There is no such planet."), "REJECTED", "no such planet"),
    ],
)
async def test_an_end_that_is_no_answer_is_told_as_such(turn: Any, state: str, reason: str) -> None:
    agent = clerk(forever(turn)).with_tools("calculator").build()
    async with client_of(create_app(agent, protocols=["a2a"])) as client:
        task, _ = await give(client, request("Which moons has Vulcan?"))
    assert TaskState.Name(task.status.state) == f"TASK_STATE_{state}"
    assert reason in task.status.message.parts[0].text


async def test_a_task_is_cancelled_with_its_run() -> None:
    begun, ended = anyio.Event(), anyio.Event()

    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return ""

    agent = clerk(forever(call("wait"))).with_tools(wait).build()
    ids: list[str] = []

    async def watch(client: Client) -> None:
        async for each in client.send_message(request("Wait.")):
            ids.append(each.task.id or each.status_update.task_id)  # noqa: PERF401 - read meanwhile

    async with listening(create_app(agent, protocols=["a2a"])) as address, httpx.AsyncClient() as http:
        config = ClientConfig(httpx_client=http, streaming=True)
        async with (
            await create_client(f"{address}/a2a/clerk", client_config=config) as client,
            anyio.create_task_group() as group,
        ):
            group.start_soon(watch, client)
            await begun.wait()
            await until(lambda: bool(ids))
            cancelled = await client.cancel_task(CancelTaskRequest(id=ids[0]))
            await ended.wait()
    assert cancelled.status.state == TaskState.TASK_STATE_CANCELED


async def test_a_message_approves_what_its_sender_was_shown_and_nothing_that_came_since() -> None:
    PAID.clear()
    go = anyio.Event()

    async def hold() -> str:
        """Wait."""
        await go.wait()
        return "held"

    first = clerk(call("pay", to="Ann"), answer("Paid.")).with_tools(pay).build()
    second = clerk(call("hold"), call("pay", to="Bob"), answer("Paid.")).with_tools(hold, pay).build()
    turns = calls(call("first", task="Pay."), call("second", task="Pay.")), forever(answer("Both."))
    agent = clerk(*turns).with_tools(agent_tool(first, name="first"), agent_tool(second, name="second"))
    app = create_app(agent.with_approval().build(), protocols=["a2a"])
    async with client_of(app) as client:
        asked, _ = await give(client, request("Pay both."))
        (run,) = app.state.service._live.values()
        go.set()
        await until(lambda: len(run.requests) == 2)
        again, _ = await give(client, request("approve", task=asked))
        assert again.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        await until(lambda: PAID == ["Ann"])
        assert 'pay {"to": "Bob"}' in again.status.message.parts[0].text
        await give(client, request("No.", task=asked))
    assert PAID == ["Ann"]


async def test_a_task_at_work_takes_no_message_and_keeps_its_answer() -> None:
    go, begun = anyio.Event(), anyio.Event()

    async def hold() -> str:
        """Wait."""
        begun.set()
        await go.wait()
        return "held"

    app = create_app(clerk(call("hold"), answer("First.")).with_tools(hold).build(), protocols=["a2a"])
    found: list[Task] = []

    async def watch(client: Client) -> None:
        found.append((await give(client, request("Hold.")))[0])

    async with client_of(app) as client, anyio.create_task_group() as group:
        group.start_soon(watch, client)
        await begun.wait()
        (task,) = (await client.list_tasks(ListTasksRequest())).tasks
        with pytest.raises(A2AError, match="requires input"):
            await give(client, request("More.", task=task))
        go.set()
    assert get_artifact_text(found[0].artifacts[0]) == "First."
    assert app.state.service.started == 1


async def test_a_task_whose_client_does_not_come_back_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a, "ANSWER_S", 0.05)
    agent = clerk(call("ask-user", question="Which?"), forever(answer("Blue."))).with_ask_user().build()
    app = create_app(agent, protocols=["a2a"])
    async with client_of(app) as client:
        asked, _ = await give(client, request("Paint."))
        (run,) = app.state.service._live.values()
        await until(lambda: run.has_ended)
        with pytest.raises(A2AError, match="terminal"):
            await give(client, request("blue", task=asked))
        task = await client.get_task(GetTaskRequest(id=asked.id))
    assert task.status.state == TaskState.TASK_STATE_CANCELED
    assert app.state.service.started == 1


async def test_the_task_of_a_durable_run_waits_for_its_client_as_long_as_its_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PAID.clear()
    monkeypatch.setattr(a2a, "ANSWER_S", 0.02)
    app = paying_clerk(tmp_path, call("pay", to="Ann"), forever(answer("Paid Ann.")))
    async with client_of(app) as client:
        asked, _ = await give(client, request("Pay Ann."))
        (run,) = app.state.service._live.values()
        assert not await run.changed(0.3)  # ten times as long as a run without a record is kept
        task = await client.get_task(GetTaskRequest(id=asked.id))
        assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        ended, _ = await give(client, request("approve", task=asked))
    assert (ended.status.state, PAID) == (TaskState.TASK_STATE_COMPLETED, ["Ann"])


async def test_a_task_whose_request_was_settled_elsewhere_has_the_end_of_its_run(tmp_path: Path) -> None:
    PAID.clear()
    app = paying_clerk(tmp_path, call("pay", to="Ann"), forever(answer("Paid Ann.")))
    async with client_of(app) as client:
        asked, _ = await give(client, request("Pay Ann."))
        service = app.state.service
        (run,) = service._live.values()
        (key,) = run.requests
        await service.settle(service.anybody, run, *key, ("approval", ApprovalDecision(approved=True)))
        await run.until_ended()
        task = await client.get_task(GetTaskRequest(id=asked.id))
    assert (task.status.state, PAID) == (TaskState.TASK_STATE_COMPLETED, ["Ann"])
    assert get_artifact_text(task.artifacts[0]) == "Paid Ann."


async def test_a_task_that_was_resumed_over_runs_takes_its_input_by_a_message(tmp_path: Path) -> None:
    PAID.clear()
    async with client_of(paying_clerk(tmp_path, call("pay", to="Ann"))) as client:
        asked, _ = await give(client, request("Pay Ann."))
    app = paying_clerk(tmp_path, forever(answer("Paid Ann.")), recover=False)
    async with client_of(app) as client:
        service = app.state.service
        await service.order(service.anybody, await service.find(service.anybody, asked.id), "resume")
        (run,) = service._live.values()
        await until(lambda: run.requests)
        task = await client.get_task(GetTaskRequest(id=asked.id))
        assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        ended, _ = await give(client, request("approve", task=task))
    assert (ended.status.state, PAID) == (TaskState.TASK_STATE_COMPLETED, ["Ann"])


async def test_the_latest_ended_tasks_alone_are_kept_however_they_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(a2a, "_MOST_TASKS", 1)
    question = call("ask-user", question="Which?")
    agent = clerk(forever(question)).with_ask_user().build()
    app = create_app(agent, protocols=["a2a"], limits=KeyLimits(runs=1))
    async with client_of(app) as client:
        waiting, _ = await give(client, request("Paint."))
        refused, _ = await give(client, request("Paint too."))
        await client.cancel_task(CancelTaskRequest(id=waiting.id))
        left = [each.id for each in (await client.list_tasks(ListTasksRequest())).tasks]
    assert refused.status.state == TaskState.TASK_STATE_REJECTED
    assert left == [waiting.id]


async def test_ended_tasks_with_large_messages_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a, "_MOST_BYTES", 110_000)
    app = create_app(clerk(forever(say("Yes."))).build(), protocols=["a2a"], limits=KeyLimits(runs=1))
    async with client_of(app) as client:
        tasks = [(await give(client, request("word " * 10_000)))[0] for _ in range(4)]
        left = [each.id for each in (await client.list_tasks(ListTasksRequest())).tasks]
    assert sorted(left) == sorted(each.id for each in tasks[-2:])


async def test_a_task_that_was_deleted_as_it_ended_is_not_stored_again() -> None:
    service = AgentService({"clerk": clerk(say("Yes.")).build()})
    store, sender = a2a._Tasks(service, "clerk"), service.anybody
    context = ServerCallContext(user=a2a._Caller(sender), state={"principal": sender})
    task = Task(id="one", status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))
    await store.save(task, context)
    await store.delete(task.id, context)
    task.status.state = TaskState.TASK_STATE_COMPLETED
    await store.save(task, context)
    assert await store.get(task.id, context) is None


async def test_contexts_of_keys_without_user_are_their_own(tmp_path: Path) -> None:
    keys, model = keys_in(tmp_path), ScriptedLLM(forever(say("Yes.")))
    agent = ReactiveAgents.create().with_name("clerk").with_llm(model).build()
    app = create_app(agent, keys=keys, protocols=["a2a"])
    async with client_of(app, bearer(keys, "one")) as client:
        first, _ = await give(client, request("A secret."))
        await give(client, request("More.", context=first.context_id))
        assert "A secret." in str(model.requests[-1].messages)
        other = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=other, headers=bearer(keys, "two")) as http:
            config = ClientConfig(httpx_client=http, streaming=True)
            async with await create_client("http://localhost/a2a/clerk", client_config=config) as thief:
                await give(thief, request("What was said?", context=first.context_id))
    assert "A secret." not in str(model.requests[-1].messages)


async def test_streams_are_counted_for_their_key() -> None:
    app = create_app(clerk(forever(say("x"))).build(), protocols=["a2a"], limits=KeyLimits(streams=1))
    service = app.state.service
    sent = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": MESSAGE}
    async with asking(app, {"a2a-version": "1.0"}) as http:
        service.uses.begin(service.anybody, "streams")
        refused = await http.post("/a2a/clerk", json=sent)
        service.uses.end(service.anybody, "streams")
        taken = await http.post("/a2a/clerk", json=sent)
    assert (refused.status_code, refused.json()["code"]) == (429, "too-many-streams")
    assert "TASK_STATE_COMPLETED" in taken.text
    assert (service.started, service.uses.open_streams) == (1, 0)


async def test_cards_and_tasks_of_others_do_not_exist(tmp_path: Path) -> None:
    PAID.clear()
    keys = keys_in(tmp_path)
    agent = clerk(call("pay", to="Ann"), forever(answer("Paid."))).with_tools(pay).with_approval().build()
    other = ReactiveAgents.create().with_name("other").with_llm(ScriptedLLM(forever(say("x")))).build()
    app = create_app([agent, other], keys=keys, protocols=["a2a"], drain_s=0.01)
    ada, bob = bearer(keys, "a", user="ada"), bearer(keys, "b", user="bob", agents=["clerk"])
    async with client_of(app, ada) as client:
        asked, _ = await give(client, request("Pay Ann."))
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as stranger:
            card = await stranger.get("/a2a/clerk/.well-known/agent-card.json")
            hidden = await stranger.get("/a2a/other/.well-known/agent-card.json", headers=bob)
            sent = await stranger.post("/a2a/clerk", json={"jsonrpc": "2.0", "id": 1, "method": "ListTasks"})
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=bob) as http:
            config = ClientConfig(httpx_client=http, streaming=True)
            async with await create_client("http://localhost/a2a/clerk", client_config=config) as thief:
                with pytest.raises(A2AError):
                    await thief.get_task(GetTaskRequest(id=asked.id))
                with pytest.raises(A2AError):
                    await give(thief, request("approve", task=asked))
                with pytest.raises(A2AError):
                    await thief.cancel_task(CancelTaskRequest(id=asked.id))
    assert [card.status_code, hidden.status_code, sent.status_code] == [401, 404, 401]
    assert PAID == []


@pytest.mark.parametrize(
    "part",
    [Part(url="https://example.org/x.png"), Part(raw=b"\x00\x01", filename="x.bin")],
    ids=["url", "unknown"],
)
async def test_parts_that_no_model_takes_are_refused(part: Part) -> None:
    model = ScriptedLLM(forever(say("x")))
    agent = ReactiveAgents.create().with_name("clerk").with_llm(model).build()
    async with client_of(create_app(agent, protocols=["a2a"])) as client:
        with pytest.raises(A2AError):
            await give(client, request("Look.", part))
    assert model.requests == []
