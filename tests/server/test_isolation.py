"""What strangers and other users may try: nothing of one user reaches another."""

from __future__ import annotations

import itertools
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx
import pytest
from attrs import define, evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reactive_agents import ReactiveAgents, tool
from reactive_agents.adapters.telemetry.run_log import SqliteRunLog
from reactive_agents.core.ids import RunId
from reactive_agents.effects import attempt
from reactive_agents.server import KeyLimits, Principal, create_app, web
from reactive_agents.server.runs import shown_name, stored_name
from reactive_agents.testing import ScriptedLLM, answer, call, forever, say
from tests.support.servers import NARROW, asking, bearer, events_of, keys_in, listening
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

SECRET = "the code is 1234"


def agent(name: str, *turns: Any, folder: Path | None = None) -> Any:
    built = ReactiveAgents.create().with_name(name).with_llm(ScriptedLLM(*turns)).with_reasoning()
    return (built.with_durability(folder / f"{name}.db") if folder else built).build()


@define
class House:
    """A server with a run and a session of Ada's."""

    client: httpx.AsyncClient
    keys: Mapping[str, dict[str, str]]
    run: str
    app: Any


@asynccontextmanager
async def house(folder: Path, durable: bool = False) -> AsyncIterator[House]:
    keys = keys_in(folder)
    who = {
        "ada": bearer(keys, "ada", user="ada"),
        "bob": bearer(keys, "bob", user="bob"),
        "judge": bearer(keys, "judge", agents=["judge"]),
        "backend": bearer(keys, "backend"),
    }
    agents = [
        agent(each, forever(say(f"Indeed, {SECRET}.")), folder=folder if durable else None)
        for each in ("clerk", "judge")
    ]
    app = create_app(agents, keys=keys)
    async with asking(app) as client:
        body = {"agent": "clerk", "task": f"Remember: {SECRET}.", "session": "diary"}
        run = (await client.post("/v1/runs", json=body, headers=who["ada"])).json()["run_id"]
        await client.get(f"/v1/runs/{run}?wait_s=60", headers=who["ada"])
        yield House(client, who, run, app)


async def everything(home: House, headers: dict[str, str], run: str, user: str = "") -> list[httpx.Response]:
    """The answers to all requests that could show or change the run, its session, or that they exist."""
    whose = f"?user={user}" if user else ""
    base = "/v1/agents/clerk/sessions"
    requests = [
        ("GET", f"/v1/runs/{run}", None),
        ("GET", f"/v1/runs/{run}?wait_s=1", None),
        ("GET", f"/v1/runs/{run}/events", None),
        ("POST", f"/v1/runs/{run}/cancel", None),
        ("POST", f"/v1/runs/{run}/pause", None),
        ("POST", f"/v1/runs/{run}/resume", None),
        ("POST", f"/v1/runs/{run}/stop", {"reason": ""}),
        ("POST", f"/v1/runs/{run}/requests/approval-1", {"kind": "approval", "approved": True}),
        ("GET", f"/v1/responses/resp_a_1_{run}", None),
        ("DELETE", f"/v1/responses/resp_a_1_{run}", None),
        ("GET", f"{base}/diary{whose}", None),
        ("GET", f"{base}/{quote('ada:diary', safe='')}{whose}", None),
        ("PATCH", f"{base}/diary{whose}", {"title": "mine"}),
        ("GET", f"{base}/diary/state{whose}", None),
        ("POST", f"{base}/diary/fork{whose}", {"into": "copy"}),
        ("DELETE", f"{base}/diary{whose}", None),
    ]
    return [
        await home.client.request(method, path, json=body, headers=headers)
        if body is not None
        else await home.client.request(method, path, headers=headers)
        for method, path, body in requests
    ]


@pytest.mark.parametrize("durable", [False, True])
async def test_runs_and_sessions_of_another_do_not_exist(tmp_path: Path, durable: bool) -> None:
    async with house(tmp_path, durable) as home:
        before = await everything(home, home.keys["bob"], "no-such-run")
        for who, user in (("bob", ""), ("judge", ""), ("judge", "ada")):
            answers = await everything(home, home.keys[who], home.run, user)
            assert [each.status_code for each in answers] == [404] * len(answers)
            assert not [each.text for each in answers if "1234" in each.text or home.run in each.text]
        assert [each.content for each in await everything(home, home.keys["bob"], home.run)] == [
            each.content for each in before
        ]
        for path in ("/v1/runs", "/v1/agents/clerk/sessions"):
            assert (await home.client.get(path, headers=home.keys["bob"])).json() == {"data": []}
            asked = await home.client.get(path, params={"user": "ada"}, headers=home.keys["bob"])
            assert (asked.status_code, asked.json()["code"]) == (403, "foreign-user")
        mine = await home.client.get(f"/v1/runs/{home.run}", headers=home.keys["ada"])
        diary = await home.client.get("/v1/agents/clerk/sessions/diary", headers=home.keys["ada"])
        assert (mine.json()["status"], diary.json()["session"]["turns"]) == ("completed", 1)


async def test_a_session_of_the_same_name_is_each_users_own(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        for name in ("diary", "ada:diary"):
            body = {"agent": "clerk", "task": "What was the code?", "session": name}
            run = await home.client.post("/v1/runs", json=body, headers=home.keys["bob"])
            found = await home.client.get(
                f"/v1/runs/{run.json()['run_id']}?wait_s=60", headers=home.keys["bob"]
            )
            assert found.json()["status"] == "completed"
        requests = home.app.state.service.agents["clerk"].container.models.llm().requests
    assert ["Remember" in str(each.messages) for each in requests] == [True, False, False]


async def test_no_header_or_field_makes_another_user_of_a_key(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        bob, run = home.keys["bob"], f"/v1/runs/{home.run}"
        for header in ("user", "x-user", "x-forwarded-user", "remote-user", "x-api-user"):
            given = await home.client.get(run, headers={**bob, header: "ada"})
            assert given.status_code == 404
        rewritten = {"x-original-url": run, "x-rewrite-url": run, "x-http-method-override": "DELETE"}
        for path in ("/v1/agents", "/v1/agents/clerk/sessions/diary"):
            found = await home.client.get(path, headers={**home.keys["ada"], **rewritten})
            assert found.status_code == 200
            assert home.run not in found.text
        for body in ({"user": "ada"}, {"metadata": {"user": "ada"}, "user": "ada"}):
            asked = {"task": "Hi", "agent": "clerk", **body}
            assert (await home.client.post("/v1/runs", json=asked, headers=bob)).status_code == 403
        both = [("authorization", bob["authorization"]), ("authorization", home.keys["ada"]["authorization"])]
        assert (await home.client.get(run, headers=both)).status_code == 400
        for text in ("", "Basic YWRhOmFkYQ==", "Bearer", "Bearer ", "bearer null", "Bearer ra_" + "é" * 9):
            strange = await home.client.get(run, headers=[(b"authorization", text.encode("utf-8"))])
            assert strange.status_code == 401
        assert (await home.client.get("/metrics", headers=bob)).status_code == 403


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/agents/clerk/sessions", "/v1/models"])
async def test_a_sender_with_a_blank_user_is_nobody(path: str) -> None:
    """As where a proxy did not send the name, which would not be narrowed to anybody's runs."""
    app = create_app(
        agent("clerk", forever(say(SECRET))),
        authenticate=lambda request: Principal(user=request.headers.get("x-user", "")),
    )
    async with asking(app) as client:
        body, ada = {"task": f"Remember: {SECRET}.", "session": "diary"}, {"x-user": "ada"}
        run = (await client.post("/v1/runs", json=body, headers=ada)).json()["run_id"]
        await client.get(f"/v1/runs/{run}?wait_s=60", headers=ada)
        assert (await client.get(path, headers=ada)).status_code == 200
        for nobody in ({}, {"x-user": " "}):
            assert (await client.get(path, headers=nobody)).status_code == 401


def test_a_sender_is_never_awaited() -> None:
    async def authenticate(request: Any) -> Principal:
        return Principal(user="ada")

    with pytest.raises(ValueError, match="authenticate: got an async function"):
        create_app(agent("clerk"), authenticate=authenticate)  # type: ignore[arg-type]


@pytest.mark.parametrize("stores", ["runs", "sessions"])
def test_agents_whose_stored_data_have_one_name_are_not_served_side_by_side(
    tmp_path: Path, stores: str
) -> None:
    def unnamed() -> Any:
        built = ReactiveAgents.create().with_llm(ScriptedLLM())
        place = tmp_path / "stored.db"
        return (built.with_durability(place) if stores == "runs" else built.with_sessions(place)).build()

    with pytest.raises(ValueError, match="Two agents have the name 'agent'"):
        create_app({"clerk": unnamed(), "judge": unnamed()})


def test_agents_of_one_name_without_any_sessions_are_served_side_by_side() -> None:
    agents = {"clerk": agent("clerk"), "judge": agent("clerk")}
    for each in agents.values():
        each.container.memory.sessions.override(None)
    assert create_app(agents).routes


PATHS = (
    "/v1/runs/../runs/{run}",
    "/v1/runs/%2e%2e/runs/{run}",
    "//v1/runs/{run}",
    "/v1//runs/{run}",
    "/v1/runs/{run}/",
    "/v1/runs/{run}%00",
    "/v1/runs/{run}%2f..%2f{run}",
    "/V1/RUNS/{run}",
    "/healthz/../v1/runs/{run}",
    "/openapi.json/../v1/runs/{run}",
    "/v1/agents/judge/../clerk/sessions/diary",
    "/v1/agents/judge/sessions/..%2f..%2fclerk%2fsessions%2fdiary",
    "/v1/agents/clerk/sessions/%FF",
    "/v1/runs/" + "a" * 5_000,
)


async def test_no_way_of_writing_a_path_leads_around_the_key(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        for path, headers in itertools.product(PATHS, ({}, home.keys["bob"], home.keys["judge"])):
            target = path.format(run=home.run)
            request = httpx.Request("GET", f"http://localhost{target}", headers=headers)
            request.extensions["target"] = target.encode()
            given = await home.client.send(request)
            assert given.status_code in (401, 404), target
            assert "1234" not in given.text


users = st.text(min_size=1, max_size=12)


@given(st.tuples(users, users), st.tuples(users, users))
def test_no_two_users_have_one_stored_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    if one[0] != other[0]:
        assert stored_name(*one) != stored_name(*other)
    assert shown_name(one[0], stored_name(*one)) == one[1]


keys_and_users = st.sampled_from(["ada", "bob", "backend"])
steps = st.lists(
    st.tuples(keys_and_users, st.sampled_from(["s", "t"]), st.sampled_from([None, "ada", "bob"])), max_size=6
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=6)
@given(steps)
async def test_in_any_order_of_requests_each_reads_its_own(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str | None]]
) -> None:
    keys = keys_in(tmp_path_factory.mktemp("keys"))
    who = {each: bearer(keys, each, user=each) for each in ("ada", "bob")} | {"backend": bearer(keys, "b")}
    served = agent("clerk", forever(say("Noted.")))
    async with asking(create_app(served, keys=keys)) as client:
        owners: dict[str, str | None] = {}
        for number, (key, session, user) in enumerate(steps):
            owner = user if key == "backend" else key
            body = {"task": f"note {number} of {owner}", "session": session, "user": user}
            begun = await client.post("/v1/runs", json=body, headers=who[key])
            if key != "backend" and user not in (None, key):
                assert begun.status_code == 403
                continue
            owners[begun.json()["run_id"]] = owner
            await client.get(f"/v1/runs/{begun.json()['run_id']}?wait_s=60", headers=who[key])
        for reader in ("ada", "bob"):
            listed = (await client.get("/v1/runs", headers=who[reader])).json()["data"]
            assert {each["run_id"] for each in listed} == {run for run, of in owners.items() if of == reader}
            sessions = (await client.get("/v1/agents/clerk/sessions", headers=who[reader])).json()["data"]
            for each in sessions:
                path = f"/v1/agents/clerk/sessions/{each['name']}"
                read = (await client.get(path, headers=who[reader])).json()
                said = [m["content"] for m in read["content"] if m["role"] == "user"]
                assert said
                assert all(text.endswith(f"of {reader}") for text in said)


MESSAGE = {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "Hello."}]}
WAITING = {
    "/v1/chat/completions": {"model": "clerk", "messages": [{"role": "user", "content": "Hello."}]},
    "/v1/responses": {"model": "clerk", "input": "Hello."},
    "/ag-ui": {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "Hello."}]},
    "/a2a/clerk": {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}},
    "/mcp": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "clerk",
            "arguments": {"task": "Hello."},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    },
}
VERSIONS = {
    "a2a-version": "1.0",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "clerk",
}


@pytest.mark.parametrize("path", WAITING)
async def test_a_run_whose_client_waits_is_run_where_others_are_queued(tmp_path: Path, path: str) -> None:
    model = ScriptedLLM(forever(say("It is done.")))
    durable = ReactiveAgents.create().with_name("clerk").with_llm(model)
    served = durable.with_durability(tmp_path / "runs.db").build()
    async with asking(create_app(served, queue="web", work=False), VERSIONS) as client:
        answered = await client.post(path, json=WAITING[path])
    assert "It is done." in answered.text


# --- over a socket --------------------------------------------------------------------------------------


async def raw(address: str, *pieces: bytes) -> bytes:
    """All that the server sends for these bytes, until it closes the connection."""
    port = int(address.rpartition(":")[2])
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        for piece in pieces:
            await stream.send(piece)
        received = b""
        try:
            while True:
                received += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return received


HEAD = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
NEXT = b"GET /v1/agents HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


MALFORMED = {
    "both lengths": HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + NEXT,
    "two lengths": HEAD + b"Content-Length: 4\r\nContent-Length: 60\r\n\r\n{}  " + NEXT,
    "two codings": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + NEXT,
    "a space": HEAD + b"Content-Length : 2\r\n\r\n{}" + NEXT,
    "a sign": HEAD + b"Content-Length: +2\r\n\r\n{}" + NEXT,
    "a bare line feed": HEAD + b"X: a\nContent-Length: 0\r\n\r\n" + NEXT,
    "folded": HEAD + b" folded: x\r\nContent-Length: 2\r\n\r\n{}" + NEXT,
    "a null": HEAD + b"Authorization: a\0b\r\nContent-Length: 2\r\n\r\n{}" + NEXT,
    "huge": HEAD + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
    "no host": b"GET /v1/agents HTTP/1.1\r\n\r\n",
    "foreign host": b"GET http://evil.example/v1/agents HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


async def test_a_malformed_request_begins_nothing_and_ends_its_connection() -> None:
    app = create_app(agent("clerk", forever(say("never"))))
    async with listening(app, http="h11", timeout_keep_alive=0.1) as address:
        for name, request in MALFORMED.items():
            assert (await raw(address, request)).startswith(b"HTTP/1.1 4"), name
    assert app.state.service.started == 0


@pytest.mark.parametrize("path", [b"/v1/runs", b"/v1/responses", b"/ag-ui", b"/a2a/clerk", b"/mcp"])
async def test_a_body_that_does_not_come_is_given_up(path: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_DISCARDS_S", 0.1)
    served = agent("clerk", forever(say("never")))
    hasty, app = create_app(served, limits=evolve(NARROW, body_s=0.05)), create_app(served, limits=NARROW)
    head = HEAD.replace(b"/v1/runs", path)
    async with listening(hasty) as address:
        late = await raw(address, head + b'Content-Length: 100\r\n\r\n{"task": ')
    async with listening(app) as address:
        large = await raw(address, head + b"Content-Length: 99999999999\r\n\r\n")
        endless = await raw(
            address, head + b"Transfer-Encoding: chunked\r\n\r\n", *[b"400\r\n" + b"x" * 0x400 + b"\r\n"] * 4
        )
        async with httpx.AsyncClient(base_url=address) as client:
            assert (await client.get("/healthz")).status_code == 200
    assert late.startswith(b"HTTP/1.1 408")
    assert large.startswith(b"HTTP/1.1 413")
    assert endless.startswith(b"HTTP/1.1 413")
    assert hasty.state.service.started == app.state.service.started == 0


async def test_hostile_texts_of_models_and_tools_stay_within_their_event() -> None:
    hostile = 'x\n\nid: 9\nevent: run\ndata: {"status":"completed"}\r\n\r\n: \u2028\x00</script>'

    @tool
    def look() -> str:
        """Look."""
        return hostile

    model = ScriptedLLM(call("look"), answer(hostile))
    built = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(look).build()
    async with asking(create_app(built)) as client:
        run = (await client.post("/v1/runs", json={"task": hostile})).json()
        await client.get(f"/v1/runs/{run['run_id']}?wait_s=60")
        streamed = await client.get(f"/v1/runs/{run['run_id']}/events")
    events = events_of(streamed.text)
    assert [each["event"] for each in events].count("run") == 1
    assert [int(each["id"].partition(":")[2]) for each in events[:-1]] == list(range(1, len(events)))
    assert "</script>" in events[-1]["data"]
    assert streamed.headers["x-content-type-options"] == "nosniff"


async def test_idle_streams_end_with_their_readers() -> None:
    begun, go = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await go.wait()
        return ""

    model = ScriptedLLM(call("wait"), answer("Done."))
    built = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(wait).build()
    app = create_app(built, limits=KeyLimits(streams=200))
    uses = app.state.service.uses
    async with listening(app) as address, httpx.AsyncClient(base_url=address) as client:
        run = (await client.post("/v1/runs", json={"task": "Wait."})).json()["run_id"]
        await begun.wait()
        asked = f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        port = int(address.rpartition(":")[2])
        readers = []
        for _ in range(200):
            reader = socket.create_connection(("127.0.0.1", port))
            reader.send(asked)
            readers.append(reader)
            if len(readers) % 50 == 0:
                await until(lambda: uses.open_streams == len(readers))
        refused = await client.get(f"/v1/runs/{run}/events")
        assert refused.json()["code"] == "too-many-streams"
        assert (await client.get("/healthz")).status_code == 200
        for reader in readers:
            reader.close()
        await until(lambda: uses.open_streams == 0)
        go.set()
        found = (await client.get(f"/v1/runs/{run}?wait_s=60")).json()
    assert found["output"] == "Done."


async def test_the_error_of_a_failed_run_names_no_folder_of_the_server_to_a_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "my agents"
    (folder / "audit.db").mkdir(parents=True)
    built = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(forever(say("Hello."))))
    built = built.with_audit(folder / "audit.db", on_failure="stop").with_run_log(folder / "log.db")
    built = built.with_durability(folder / "runs.db", recover=False)
    told = "The audit file 'audit.db' cannot be opened: it is a directory."
    chat = {"model": "clerk", "messages": [{"role": "user", "content": "Who?"}]}
    asked: Any = {"headers": {"Idempotency-Key": "one"}, "json": {"task": "Who?"}}
    run = ""
    for _ in range(2):  # the second server knows the run by its record alone
        async with asking(create_app(built.build())) as client:
            run = (await client.post("/v1/runs", **asked)).json()["run_id"]
            document = (await client.get(f"/v1/runs/{run}?wait_s=60")).json()
            assert document["error"] == {"type": "ExecutionError", "message": told}
            assert "my agents" not in (await client.get(f"/v1/runs/{run}/events")).text
            answered = (await client.post("/v1/chat/completions", json=chat)).json()
            assert answered["error"]["message"] == told
    assert str(folder / "audit.db") in caplog.text
    log = SqliteRunLog(folder / "log.db", read_only=True)
    logged = (await attempt(log.events(RunId(run)))).unwrap()
    await log.aclose()
    assert str(folder / "audit.db") in str([each.body for each in logged])


UI = {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {}}
SAID = [{"id": "1", "role": "user", "content": "Go."}]
SENT = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Go."}]}


@pytest.mark.parametrize(
    ("path", "body", "last"),
    [
        ("/v1/runs", {"task": "Go."}, '"code":"unauthorized"'),
        (
            "/v1/chat/completions",
            {"model": "clerk", "messages": [{"role": "user", "content": "Go."}], "stream": True},
            '"code":"invalid_api_key"',
        ),
        ("/v1/responses", {"model": "clerk", "input": "Go.", "stream": True}, '"code":"invalid_api_key"'),
        ("/ag-ui", {**UI, "messages": SAID}, '"code":"unauthorized"'),
        (
            "/a2a/clerk",
            {"jsonrpc": "2.0", "id": "one", "method": "SendStreamingMessage", "params": {"message": SENT}},
            '"id":"one"',
        ),
    ],
)
async def test_a_stream_ends_when_its_key_is_revoked(
    tmp_path: Path, path: str, body: dict[str, Any], last: str
) -> None:
    reached, opened = anyio.Event(), anyio.Event()

    @tool
    async def gate() -> str:
        """Go through the gate."""
        reached.set()
        await opened.wait()
        return "open"

    model = ScriptedLLM(call("gate"), answer(f"Indeed, {SECRET}."))
    clerk = ReactiveAgents.create().with_name("clerk").with_llm(model).with_reasoning().with_tools(gate)
    keys, streamed = keys_in(tmp_path), list[str]()
    ada = {**bearer(keys, "ada", user="ada"), "a2a-version": "1.0"}

    async def follow() -> None:
        answered = await client.post(path, json=body, headers=ada)
        if path == "/v1/runs":
            answered = await client.get(f"/v1/runs/{answered.json()['run_id']}/events", headers=ada)
        assert answered.status_code == 200
        streamed.extend(each["data"] for each in events_of(answered.text))

    app = create_app(clerk.build(), keys=keys)
    async with asking(app) as client, anyio.create_task_group() as group:
        group.start_soon(follow)
        await until(lambda: reached.is_set() and app.state.service.uses.open_streams)
        keys.revoke(keys.list()[0].id)
        opened.set()
    assert app.state.service.uses.open_streams == 0
    assert "revoked" in streamed[-1]
    assert last in streamed[-1].replace('": ', '":')
    assert not [each for each in streamed if "1234" in each]
