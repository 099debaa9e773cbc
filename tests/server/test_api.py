"""Runs and sessions over HTTP: begun, followed, steered, settled."""

from __future__ import annotations

import gc
import json
import resource
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import anyio
import anyio.lowlevel
import httpx
import pytest
from attrs import evolve
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from reactive_agents import AgentError, FunctionCheck, ReactiveAgents, RunContext, agent_tool, tool
from reactive_agents.adapters.governance.audit_log import read_entries
from reactive_agents.adapters.tools.decorator import external_tool
from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.agent.agent import Sessions
from reactive_agents.core.conversation import SessionInfo
from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.core.governance import GuardrailFinding
from reactive_agents.server import ApiKeys, KeyLimits, Principal, create_app, live_run, runs
from reactive_agents.server.web import Problem
from reactive_agents.testing import ScriptedLLM, answer, call, calls, fail, forever, say
from tests.support.contents import PNG
from tests.support.mcp_server import PROGRAM
from tests.support.servers import asking, bearer, events_of, keys_in, listening
from tests.support.sqlite_files import sqlite_file
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


def builder(*turns: Any) -> Any:
    return ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(*turns)).with_reasoning()


LARGE_IMAGE = f"data:image/png;base64,{b64encode(PNG + bytes(37_500)).decode()}"


async def begun(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    """A run that was begun."""
    given = await client.post("/v1/runs", json={"task": "Do it.", **body})
    assert given.status_code == 201, given.text
    assert given.headers["location"] == f"/v1/runs/{given.json()['run_id']}"
    run: dict[str, Any] = given.json()
    return run


async def ended(client: httpx.AsyncClient, run: dict[str, Any]) -> dict[str, Any]:
    """The run when it has ended."""
    found = (await client.get(f"/v1/runs/{run['run_id']}", params={"wait_s": 60})).json()
    assert isinstance(found, dict)
    return found


async def waiting(client: httpx.AsyncClient, run: dict[str, Any], kind: str = "") -> dict[str, Any]:
    """The request that the run waits for, of any kind or of one."""
    while True:
        found = (await client.get(f"/v1/runs/{run['run_id']}")).json()
        for request in found["requests"]:
            if kind in ("", request["kind"]):
                assert found["status"] == "waiting"
                return dict(request)
        await anyio.sleep(0.001)


# --- runs -----------------------------------------------------------------------------------------------


async def test_a_run_goes_from_its_task_to_its_answer() -> None:
    async with asking(create_app(builder(say("Done.")).build())) as client:
        run = await begun(client, user="ada", session="work", tags=["a"], metadata={"order": 7})
        found = await ended(client, run)
        listed = (await client.get("/v1/runs", params={"status": "completed"})).json()["data"]
    assert (run["agent"], run["user"], run["session"]) == ("clerk", "ada", "work")
    assert (found["status"], found["output"], found["error"]) == ("completed", "Done.", None)
    assert found["usage"]["total_tokens"] > 0
    assert listed == [found]


async def test_the_events_of_a_run_are_streamed_and_the_run_is_the_last() -> None:
    async with asking(create_app(builder(say("Done.")).build())) as client:
        run = await begun(client)
        streamed = await client.get(f"/v1/runs/{run['run_id']}/events")
        found = await ended(client, run)
    events = events_of(streamed.text)
    kinds = [each["event"] for each in events]
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert (kinds[0], kinds[-2:]) == ("TaskStarted", ["TaskCompleted", "run"])
    assert "ModelTextStreamed" in kinds
    assert json.loads(events[-1]["data"]) == found
    assert all(json.loads(each["data"])["tag"] == each["event"] for each in events[:-1])


async def test_a_text_that_the_guardrail_has_not_checked_reaches_no_client() -> None:
    def no_tulips(text: str) -> Iterator[GuardrailFinding]:
        if "tulip" in text:
            start = text.index("tulip")
            yield GuardrailFinding("flower", start, start + 5, 1.0, "redact", "A flower.")

    gardener = ReactiveAgents.create().with_name("gardener").with_llm(ScriptedLLM(forever(say("A tulip."))))
    asked = agent_tool(gardener.build(), description="Knows flowers.")
    turns = [call("gardener", task="Which one?"), answer("It is a tulip.")] * 3
    guarded = builder(*turns).with_tools(asked).with_guardrails(no_tulips).build()
    messages = [{"role": "user", "content": "Which flower is it?"}]
    async with asking(create_app(guarded)) as client:
        run = await begun(client)
        told = [(await client.get(f"/v1/runs/{run['run_id']}/events")).text]
        chat = {"model": "clerk", "stream": True, "messages": messages}
        told.append((await client.post("/v1/chat/completions", json=chat)).text)
        sent: dict[str, Any] = {
            "threadId": "t",
            "runId": "r",
            "state": {},
            "tools": [],
            "context": [],
            "forwardedProps": {},
        }
        told.append(
            (await client.post("/ag-ui", json={**sent, "messages": [{"id": "1", **messages[0]}]})).text
        )
    assert [(each.count("tulip"), "It is a [flower]." in each) for each in told] == [(0, True)] * 3


async def test_nor_does_an_answer_that_was_rejected_before() -> None:
    @tool
    def look_up(name: str) -> str:
        """Look up a person."""
        return "Ada is at home."

    turns = [
        call("look_up", name="Ada"),
        answer("Call 01701234567, says Grace Hopper."),
        answer("It is unknown."),
    ]
    guarded = builder(*turns).with_tools(look_up).with_guardrails("personal-data").build()
    async with asking(create_app(guarded)) as client:
        run = await begun(client, task="What is the number of Ada?")
        told = (await client.get(f"/v1/runs/{run['run_id']}/events")).text
    assert "It is unknown." in told
    assert ("01701234567" in told, "Hopper" in told, "Ada is at home." in told) == (False, False, True)


async def test_a_reader_goes_on_after_the_last_event_it_has_read() -> None:
    async with asking(create_app(builder(say("Done.")).build())) as client:
        run = await begun(client)
        path = f"/v1/runs/{run['run_id']}/events"
        whole = events_of((await client.get(path)).text)
        assert whole[-1]["event"] == "run"
        for place, event in enumerate(whole):
            rest = await client.get(path, headers={"last-event-id": event["id"]})
            assert (rest.status_code, events_of(rest.text)) == (
                (204, []) if event is whole[-1] else (200, whole[place + 1 :])
            )
        for unknown in ("abcd:3", "nonsense", "7", f"{whole[0]['id']}9999999999", whole[0]["id"][:9] + "-1"):
            again = await client.get(path, headers={"last-event-id": unknown})
            assert events_of(again.text) == whole


async def test_a_reader_that_has_seen_the_end_of_a_run_of_the_record_is_told_to_stop(tmp_path: Path) -> None:
    described = builder(say("Done.")).with_durability(tmp_path / "runs.db")
    async with asking(create_app(described.build())) as client:
        run = await begun(client)
        await ended(client, run)
    async with asking(create_app(described.build())) as client:  # the next process
        path = f"/v1/runs/{run['run_id']}/events"
        (last,) = events_of((await client.get(path, headers={"last-event-id": "abcd:3"})).text)
        again = await client.get(path, headers={"last-event-id": last["id"]})
    assert (last["event"], again.status_code) == ("run", 204)


async def test_the_head_of_a_stream_ends_at_once_and_holds_no_place() -> None:
    go = anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await go.wait()
        return "waited"

    agent = builder(call("wait"), answer("Done.")).with_tools(wait).build()
    app = create_app(agent, limits=KeyLimits(streams=1))
    async with listening(app) as address, httpx.AsyncClient(base_url=address) as client:
        run = await begun(client)
        for _ in range(2):
            head = await client.head(f"/v1/runs/{run['run_id']}/events")
            assert (head.status_code, head.headers["content-type"].partition(";")[0], head.content) == (
                200,
                "text/event-stream",
                b"",
            )
        assert app.state.service.uses.open_streams == 0
        go.set()
        assert (await ended(client, run))["output"] == "Done."


async def test_a_stream_that_is_cut_off_goes_on_while_the_run_does() -> None:
    go = anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await go.wait()
        return "waited"

    app = create_app(builder(call("wait"), answer("Done.")).with_tools(wait).build())
    async with listening(app) as address, httpx.AsyncClient(base_url=address) as client:
        run = await begun(client)
        path, read = f"/v1/runs/{run['run_id']}/events", list[dict[str, str]]()
        async with client.stream("GET", path) as stream:
            async for line in stream.aiter_lines():
                read += events_of(line) if line.startswith("id:") else []
                if "ToolCallStarted" in line:
                    break
        await until(lambda: app.state.service.uses.open_streams == 0)
        go.set()
        rest = await client.get(path, headers={"last-event-id": read[-1]["id"]})
        whole = await client.get(path)
    assert events_of(whole.text)[len(read) :] == events_of(rest.text)
    assert events_of(rest.text)[-1]["event"] == "run"


async def test_instructions_of_the_program_are_in_no_event(tmp_path: Path) -> None:
    agent = builder(say("Done.")).with_system_prompt("Never name the supplier Acme.")
    async with asking(create_app(agent.with_run_log(tmp_path / "runs.db").build())) as client:
        run = await begun(client)
        await ended(client, run)
        streamed = (await client.get(f"/v1/runs/{run['run_id']}/events")).text
    assert "ModelCallStarted" in streamed
    assert "Acme" not in streamed


async def test_a_run_that_fails_says_why() -> None:
    model = fail(ModelUnavailable("The model is down.", "scripted"))
    async with asking(create_app(builder(model).build())) as client:
        found = await ended(client, await begun(client))
    assert (found["status"], found["output"]) == ("failed", None)
    assert "down" in found["error"]["message"]


@pytest.mark.parametrize(("order", "reason"), [("cancel", ""), ("stop", "It is late."), ("stop", "")])
async def test_a_run_is_ended_from_outside(order: str, reason: str) -> None:
    @tool
    async def wait() -> str:
        """Wait for ever."""
        await anyio.sleep_forever()
        return ""

    app = create_app(builder(forever(call("wait"))).with_tools(wait).build())
    async with asking(app) as client:
        run = await begun(client)
        body = {"json": {"reason": "It is late."}} if order == "stop" and reason else {}
        ordered = await client.post(f"/v1/runs/{run['run_id']}/{order}", **body)
        found = await ended(client, run)
        again = await client.post(f"/v1/runs/{run['run_id']}/{order}", **body)
    assert ordered.status_code == 202
    assert found["status"] == {"cancel": "cancelled", "stop": "partial"}[order]
    assert reason in found["reason"]
    assert (again.status_code, again.json()["code"]) == (409, "run-not-under-way")


async def test_a_run_is_paused_and_resumed() -> None:
    arrived, go = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        arrived.set()
        await go.wait()
        return "waited"

    app = create_app(builder(call("wait"), answer("Done.")).with_tools(wait).build())
    async with asking(app) as client:
        run = await begun(client)
        await arrived.wait()
        assert (await client.post(f"/v1/runs/{run['run_id']}/pause")).status_code == 202
        go.set()
        (live,) = app.state.service._live.values()
        await until(lambda: live.state == "paused")
        assert (await client.post(f"/v1/runs/{run['run_id']}/resume")).status_code == 202
        assert (await ended(client, run))["output"] == "Done."


async def test_a_run_beyond_the_time_of_its_key_is_stopped() -> None:
    @tool
    async def wait() -> str:
        """Wait for ever."""
        await anyio.sleep_forever()
        return ""

    agent = builder(forever(call("wait"))).with_tools(wait).build()
    async with asking(create_app(agent, limits=KeyLimits(run_s=0.05))) as client:
        found = await ended(client, await begun(client))
    assert (found["status"], "time limit of the key" in found["reason"]) == ("partial", True)


async def test_a_run_that_cannot_be_stopped_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(text: str) -> list[GuardrailFinding]:
        await anyio.sleep_forever()
        return []

    monkeypatch.setattr(runs, "_STOP_S", 0.05)
    agent = builder(forever(say("Done."))).with_guardrails(FunctionCheck(hang, stages=("output",))).build()
    async with asking(create_app(agent, limits=KeyLimits(runs=1, run_s=0.05))) as client:
        found = await ended(client, await begun(client))
        assert (found["status"], found["output"]) == ("cancelled", None)
        assert (await client.post("/v1/runs", json={"task": "Order tea."})).status_code == 201


async def test_the_time_of_a_key_stands_still_while_a_run_waits_for_a_person() -> None:
    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay, which takes for ever."""
        await anyio.sleep_forever()
        return ""

    agent = builder(forever(call("pay"))).with_tools(pay).with_approval(timeout_s=3_600.0).build()
    app = create_app(agent, limits=KeyLimits(run_s=1.5))
    async with asking(app) as client:
        run = await begun(client)
        request = await waiting(client, run)
        (live,) = app.state.service._live.values()
        assert not await live.changed(1.7)  # longer than the limit
        path = f"/v1/runs/{run['run_id']}/requests/{request['id']}"
        assert (await client.post(path, json={"kind": "approval", "approved": True})).status_code == 204
        found = await ended(client, run)
    assert (found["status"], "time limit of the key" in found["reason"]) == ("partial", True)


@pytest.mark.parametrize("order", ["resume", "the same request"])
async def test_a_run_that_another_process_took_meanwhile_is_not_waited_for(
    tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recovery elsewhere may take an interrupted run between the look at it and its claim."""
    monkeypatch.setattr(runs, "_BEGIN_S", 0.05)

    def app_of(*turns: Any) -> Any:
        made = builder(*turns).with_tools(delete).with_approval(timeout_s=3_600.0)
        return create_app(made.with_durability(tmp_path / "runs.db", recover=False).build())

    def as_before(run: Any) -> Any:
        return run and evolve(run, is_held=False)

    body, key = {"task": "Do it."}, {"idempotency-key": "k1"}
    here, elsewhere = app_of(), app_of(call("delete", path="a.tmp"), answer("It is gone."))
    async with asking(elsewhere) as other, asking(here) as client:
        run = (await other.post("/v1/runs", json=body, headers=key)).json()
        await waiting(other, run)
        service = here.state.service
        if order == "resume":
            found = await service.find(service.anybody, run["run_id"])
            await service.order(service.anybody, as_before(found), "resume")
        else:
            looks = iter([as_before])
            really = runs._begun_elsewhere

            async def look(*about: Any) -> Any:
                found = await really(*about)
                return None if next(looks, None) else found

            monkeypatch.setattr(runs, "_begun_elsewhere", look)
            again = await client.post("/v1/runs", json=body, headers=key)
            assert (again.status_code, again.json()["run_id"]) == (201, run["run_id"])
        request = await waiting(client, run)
        path = f"/v1/runs/{request['run_id']}/requests/{request['id']}"
        assert (await client.post(path, json={"kind": "approval", "approved": True})).status_code == 204
        assert (await ended(client, run))["output"] == "It is gone."


# --- requests to people ---------------------------------------------------------------------------------


@tool(requires_approval=True, risk="high")
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


@pytest.mark.parametrize("approved", [True, False])
async def test_a_call_is_approved_or_denied(approved: bool) -> None:
    said = answer("It is deleted." if approved else "It was not deleted.")
    agent = builder(call("delete", path="a.tmp"), said).with_tools(delete).with_approval().build()
    async with asking(create_app(agent)) as client:
        run = await begun(client)
        request = await waiting(client, run)
        assert request["kind"] == "approval"
        assert request["request"]["arguments"] == {"path": "a.tmp"}
        path = f"/v1/runs/{request['run_id']}/requests/{request['id']}"
        body = {"kind": "approval", "approved": approved, "reason": "not that one"}
        wrong = await client.post(path, json={"kind": "question", "answer": "yes"})
        settled = await client.post(path, json=body)
        assert (wrong.status_code, settled.status_code) == (409, 204)
        found = await ended(client, run)
        assert (await client.post(path, json=body)).status_code == 409
        seen = events_of((await client.get(f"/v1/runs/{run['run_id']}/events")).text)
    assert found["status"] == ("completed" if approved else "partial")
    results = [json.loads(each["data"]) for each in seen if each["event"] == "ToolCallCompleted"]
    assert results[0]["success"] is approved
    assert ("not that one" in results[0]["error"]) is not approved


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_call_is_approved_with_other_arguments(restarts: bool, tmp_path: Path) -> None:
    def served(*turns: Any) -> Any:
        described = builder(*turns).with_tools(delete).with_approval(timeout_s=60)
        described = described.with_audit(tmp_path / "a.db").with_durability(tmp_path / "r.db", recover=False)
        return create_app(described.build(), authenticate=lambda _: Principal(user="ada"), drain_s=0)

    async def decide(client: httpx.AsyncClient) -> None:
        request = await waiting(client, run)
        path = f"/v1/runs/{run['run_id']}/requests/{request['id']}"
        for body, named in (
            ({"arguments": {"path": 3}}, "path"),
            ({"arguments": {"path": "b", "force": True}}, "force"),
            ({"arguments": {}}, "path"),
            ({"arguments": ["b"]}, "arguments"),
            ({"approved": False, "arguments": {"path": "b"}}, "arguments"),
            ({"reason": "x" * 10_001}, "reason"),
        ):
            wrong = await client.post(path, json={"kind": "approval", "approved": True, **body})
            assert (wrong.status_code, named in wrong.text) == (422, True), wrong.text
            assert (await waiting(client, run))["id"] == request["id"]
        given = {"kind": "approval", "approved": True, "arguments": {"path": "b"}, "reason": "Better."}
        assert (await client.post(path, json=given)).status_code == 204

    async with asking(served(call("delete", path="a"), answer("Done."))) as client:
        run = await begun(client)
        await waiting(client, run)
        if not restarts:
            await decide(client)
            await ended(client, run)
    if restarts:
        async with asking(served(answer("Done."))) as client:
            await decide(client)
            await client.post(f"/v1/runs/{run['run_id']}/resume")
            await ended(client, run)
    entries = [each.entry for each in read_entries(tmp_path / "a.db").unwrap()]
    assert [each.detail for each in entries if each.action in ("request", "approval")] == [
        'Approval requested. The arguments: {"path": "a"}',
        'Approved: by ada: Better. The arguments were changed to: {"path": "b"}',
    ]


async def test_a_question_is_answered_and_an_external_result_delivered() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    agent = (
        builder(call("ask-user", question="Which size?"), call("locate"), answer("Sent."))
        .with_tools(external_tool("locate", schema, description="Where the user is."))
        .with_ask_user()
        .build()
    )
    async with asking(create_app(agent)) as client:
        run = await begun(client)
        question = await waiting(client, run)
        assert (question["kind"], question["request"]["text"]) == ("question", "Which size?")
        path = f"/v1/runs/{run['run_id']}/requests"
        blank = {"kind": "question", "answer": " "}
        refused = await client.post(f"{path}/{question['id']}", json=blank)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/answer")
        answered = {"kind": "question", "answer": "L"}
        assert (await client.post(f"{path}/{question['id']}", json=answered)).status_code == 204
        located = await waiting(client, run, "call")
        given = {"kind": "call", "result": {"lat": 1}}
        assert (await client.post(f"{path}/{located['id']}", json=given)).status_code == 204
        assert (await ended(client, run))["output"] == "Sent."


async def test_pointers_are_places_in_the_body_and_no_names_of_forms() -> None:
    wrong: list[tuple[str, Any, str]] = [
        ("/v1/runs", {"task": 1}, "/task"),
        ("/v1/runs", {"task": [{"type": 1}, 2]}, "/task/1"),
        ("/v1/runs", {}, "/task"),
        ("/v1/runs/r/requests/q", {"kind": "approval", "approved": "yes"}, "/approved"),
        ("/v1/runs/r/requests/q", {"kind": "approval"}, "/approved"),
        ("/v1/runs/r/requests/q", {"kind": "other"}, ""),
        ("/v1/runs", [], ""),
    ]
    async with asking(create_app(builder(say("Hi.")).build())) as client:
        for path, body, place in wrong:
            refused = await client.post(path, json=body)
            assert refused.status_code == 422, refused.text
            assert place in {each["pointer"] for each in refused.json()["errors"]}, refused.text
            assert all(each["pointer"].count("/") < 3 for each in refused.json()["errors"])
            assert "NewRun" not in refused.text


async def test_a_wrong_method_is_answered_with_those_that_the_path_has() -> None:
    async with asking(create_app(builder(say("Hi.")).build())) as client:
        for path, methods in (
            ("/v1/runs", "GET, HEAD, POST"),
            ("/v1/agents/clerk/sessions/s", "DELETE, GET, HEAD, PATCH"),
        ):
            refused = await client.put(path)
            assert (refused.status_code, refused.headers["allow"]) == (405, methods)
            assert refused.headers["content-type"] == "application/problem+json"


# --- beginning once, limits, dependencies ---------------------------------------------------------------


async def test_requests_with_one_key_begin_one_run() -> None:
    app = create_app(builder(forever(say("Done."))).build())
    once = {"idempotency-key": "order-7"}
    async with asking(app) as client:
        found = []

        async def ask(text: str, **more: Any) -> None:
            asked = {"task": text, "user": "ada", **more}
            found.append(await client.post("/v1/runs", json=asked, headers=once))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(ask, "Order tea.")
        assert {each.json()["run_id"] for each in found} == {found[0].json()["run_id"]}
        both = [("idempotency-key", "order-7"), ("idempotency-key", "order-8")]
        twice = await client.post("/v1/runs", json={"task": "Order tea."}, headers=both)
        assert (twice.status_code, twice.json()["code"]) == (400, "repeated-header")
        said = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
        for other_work in ({"tags": ["b"]}, {"metadata": {"shop": 2}}, {"history": said}, {"session": "s"}):
            await ask("Order tea.", **other_work)
            assert (found[-1].status_code, found[-1].json()["code"]) == (422, "other-task")
        await ask("Order coffee.")
        assert (found[-1].status_code, found[-1].json()["code"]) == (422, "other-task")
        other = await client.post("/v1/runs", json={"task": "Order tea.", "user": "bob"}, headers=once)
        assert other.json()["run_id"] != found[0].json()["run_id"]
    assert app.state.service.started == 2


async def test_limits_of_runs_streams_and_bodies_are_kept_and_given_back() -> None:
    go = anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await go.wait()
        return ""

    agent = builder(call("wait"), call("wait"), answer("Done."), answer("Done.")).with_tools(wait).build()
    app = create_app(agent, limits=KeyLimits(runs=2, streams=1, body_bytes=500))
    async with listening(app) as address, httpx.AsyncClient(base_url=address) as client:
        runs = [await begun(client) for _ in range(2)]
        third = await client.post("/v1/runs", json={"task": "Do it."})
        assert (third.status_code, third.json()["code"]) == (429, "too-many-runs")
        large = await client.post("/v1/runs", json={"task": "x" * 500})
        assert large.status_code == 413
        path = f"/v1/runs/{runs[0]['run_id']}/events"
        async with client.stream("GET", path) as stream:
            await anext(stream.aiter_lines())
            assert (await client.get(path)).json()["code"] == "too-many-streams"
        go.set()
        assert [(await ended(client, each))["status"] for each in runs] == ["completed"] * 2
        await until(lambda: app.state.service.uses.open_streams == 0)
        assert (await client.get(path)).status_code == 200
        for blank in ("", " \n"):
            assert (await client.post("/v1/runs", json={"task": blank})).status_code == 422
    assert app.state.service.uses.of(app.state.service.anybody).runs == 0


async def test_dependencies_are_made_for_whoever_asks() -> None:
    @tool
    def who(context: RunContext[str]) -> str:
        """Return the name of the key's user."""
        return context.deps

    agent = (
        ReactiveAgents.create(deps=str).with_llm(ScriptedLLM(call("who"), answer("Done."))).with_reasoning()
    )
    served = agent.with_tools(who).build()
    with pytest.raises(ValueError, match="deps has to make"):
        create_app(served)
    async with asking(create_app(served, deps=lambda principal: f"user {principal.user}")) as client:
        run = await begun(client)
        await ended(client, run)
        text = (await client.get(f"/v1/runs/{run['run_id']}/events")).text
    assert "user None" in text


async def test_dependencies_are_made_for_the_user_of_the_run(tmp_path: Path) -> None:
    keys, made = ApiKeys(tmp_path / "keys.json"), list[tuple[str, str | None]]()
    backend = bearer(keys, "backend")
    (stored,) = keys.list()

    @tool(requires_approval=True, idempotent=True)
    def who(context: RunContext[str]) -> str:
        """Return whose dependencies they are."""
        return context.deps

    def deps(principal: Principal) -> str:
        made.append((principal.key, principal.user))
        return f"account of {principal.user}"

    def served(*turns: Any, queue: str | None = None) -> Any:
        agent = ReactiveAgents.create(deps=str).with_name("clerk").with_llm(ScriptedLLM(*turns))
        agent = agent.with_reasoning().with_tools(who).with_approval(timeout_s=60)
        one = agent.with_durability(tmp_path / "runs.db", recover=False).build()
        return create_app(one, keys=keys, deps=deps, queue=queue, drain_s=0)

    async with asking(served(call("who")), backend) as client:
        run = await begun(client, user="ada")
        await waiting(client, run)
    assert made == [(stored.id, "ada")]
    approved = {"kind": "approval", "approved": True}
    for queue in (None, "web"):
        turns = (answer("Ada's."),) if queue is None else (call("who"), answer("Ada's."))
        async with asking(served(*turns, queue=queue), backend) as client:
            if queue is None:
                assert (await client.post(f"/v1/runs/{run['run_id']}/resume")).status_code == 202
            else:
                run = await begun(client, user="ada")
            request = (await waiting(client, run))["id"]
            await client.post(f"/v1/runs/{run['run_id']}/requests/{request}", json=approved)
            assert (await ended(client, run))["status"] == "completed"
            if queue is None:
                assert "account of ada" in (await client.get(f"/v1/runs/{run['run_id']}/events")).text
    assert made[1:] == [(stored.id, "ada"), ("", "ada")]


@pytest.mark.parametrize("way", ["create_app", "async create_app", "with_deps"])
async def test_dependencies_are_open_as_long_as_the_run_that_they_are_for(way: str, tmp_path: Path) -> None:
    seen: list[str] = []
    broken = False

    @asynccontextmanager
    async def account_of(sender: Principal | RunContext[None]) -> AsyncIterator[str]:
        if broken:
            raise ConnectionError("the database is away")
        seen.append(f"open {sender.user}")
        yield f"account of {sender.user}"
        seen.append(f"close {sender.user}")

    async def later(sender: Principal) -> object:
        return account_of(sender)

    @tool(requires_approval=True, idempotent=True)
    def who(context: RunContext[str]) -> str:
        """Return whose dependencies they are."""
        seen.append(context.deps)
        return context.deps

    model = ScriptedLLM(forever(answer("Done.", when="account of")), forever(call("who")))
    described = ReactiveAgents.create(deps=str).with_name("clerk").with_llm(model).with_reasoning()
    described = described.with_tools(who).with_approval(timeout_s=60)
    # no worker of the server takes over what the function that raises has interrupted
    described = described.with_durability(tmp_path / "r.db", recover=False)
    if way == "with_deps":
        app = create_app(described.with_deps(account_of).build())
    else:
        app = create_app(described.build(), deps=later if way.startswith("async") else account_of)
    async with asking(app) as client:
        run = await begun(client, user="ada")
        request = (await waiting(client, run))["id"]
        assert seen == ["open ada"]
        approved = {"kind": "approval", "approved": True}
        await client.post(f"/v1/runs/{run['run_id']}/requests/{request}", json=approved)
        assert (await ended(client, run))["output"] == "Done."
        assert seen == ["open ada", "account of ada", "close ada"]
        run = await begun(client, user="eve")
        await waiting(client, run)
        await client.post(f"/v1/runs/{run['run_id']}/cancel")
        await ended(client, run)
        assert seen[3:] == ["open eve", "close eve"]
        broken = True
        asked = {"model": "clerk", "messages": [{"role": "user", "content": "Who am I?"}]}
        failed = await client.post("/v1/chat/completions", json=asked)
        assert failed.status_code >= 400
        assert "raised ConnectionError" in failed.json()["error"]["message"]
        left = (await client.post("/v1/runs", json={"task": "Do it.", "user": "bob"})).json()
        place = f"/v1/runs/{left['run_id']}"
        await until(lambda: not app.state.service.runs_under_way)
        assert (await client.get(place)).json()["status"] == "interrupted"
        refused = await client.post(f"{place}/resume")
        assert (refused.status_code, refused.json()["code"]) == (409, "run-refused")
        assert "raised ConnectionError" in refused.json()["detail"]
        assert "the database is away" not in refused.text
        broken = False
        assert (await client.post(f"{place}/resume")).status_code == 202
        await waiting(client, left)
        assert seen[5:] == ["open bob"]
    assert seen[6:] == ["close bob"]


async def test_dependencies_that_cannot_be_made_take_no_place_from_later_runs() -> None:
    def deps(principal: object) -> str:
        if not made:
            made.append("database")
            raise ConnectionError("the database is away")
        return made[0]

    made: list[str] = []
    served = ReactiveAgents.create(deps=str).with_llm(ScriptedLLM(say("Done."))).with_reasoning().build()
    app, headers = create_app(served, deps=deps, limits=KeyLimits(runs=1)), {"idempotency-key": "once"}
    async with asking(app) as client:
        failed = await client.post("/v1/runs", json={"task": "Do it."}, headers=headers)
        assert failed.status_code == 500
        again = await client.post("/v1/runs", json={"task": "Do it."}, headers=headers)
        assert again.status_code == 201
        assert (await ended(client, again.json()))["status"] == "completed"


@pytest.mark.parametrize("way", ["the server ends", "the worker ends before"])
async def test_a_run_that_a_worker_of_the_server_has_is_resumed_after_it_unless_the_server_ends(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_BEGIN_S", 0.01)
    seen: list[str] = []
    broken = True

    @asynccontextmanager
    async def account(_: RunContext[None]) -> AsyncIterator[str]:
        if broken:
            raise ConnectionError("the database is away")
        seen.append("open")
        yield "account"
        seen.append("close")

    @tool(requires_approval=True)
    def pay(context: RunContext[str]) -> str:
        """Pay."""
        return context.deps

    described = ReactiveAgents.create(deps=str).with_name("clerk").with_llm(ScriptedLLM(forever(call("pay"))))
    described = described.with_reasoning().with_tools(pay).with_approval(timeout_s=60)
    described = described.with_durability(tmp_path / "r.db")
    agent = described.with_deps(account).build()
    app = create_app(agent, drain_s=inf)
    async with asking(app) as client:
        left, service = await begun(client), app.state.service
        await until(lambda: not service.runs_under_way)
        run = await service.find(service.anybody, left["run_id"])
        run = evolve(run, state="interrupted", is_held=False)  # as before the worker took it
        broken = False
        await until(lambda: seen == ["open"])  # by the worker
        await service.order(service.anybody, run, "resume")
        await waiting(client, left)
        if way == "the worker ends before":
            await agent.runs.stop_workers()
            await until(lambda: service._live[left["run_id"]].state == "waiting")
            assert (await client.get(f"/v1/runs/{left['run_id']}")).json()["status"] == "waiting"
    assert seen == ["open", "close"] * (2 if way == "the worker ends before" else 1)


async def test_a_durable_run_that_begins_to_wait_as_the_server_ends_is_interrupted_then(
    tmp_path: Path,
) -> None:
    is_ending = anyio.Event()

    @tool
    async def look() -> str:
        """Look."""
        await is_ending.wait()
        return "Seen."

    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "Paid."

    described = builder(call("look"), forever(call("pay"))).with_tools(look, pay).with_approval(timeout_s=60)
    service = runs.AgentService({"clerk": described.with_durability(tmp_path / "r.db").build()})
    run = await service.start(service.anybody, "clerk", runs.RunRequest("Pay."))
    async with anyio.create_task_group() as group:
        group.start_soon(service.drain, inf)
        await until(lambda: service.is_draining)
        is_ending.set()
    assert run.state == "interrupted"
    await service.agents["clerk"].aclose()


async def test_a_run_is_not_begun_when_the_server_begins_to_end_as_it_is_asked_for() -> None:
    class Ending(runs.AgentService):
        async def session_to_use(self, *_: Any) -> str:
            await self.drain(0)
            return "work"

    service = Ending({"clerk": builder(say("Done.")).build()})
    with pytest.raises(Problem) as refused:
        await service.start(service.anybody, "clerk", runs.RunRequest("Do it.", session="work"))
    assert (refused.value.status, service.runs_under_way, service.started) == (503, 0, 0)


# --- sessions -------------------------------------------------------------------------------------------


async def test_sessions_are_listed_read_renamed_forked_and_deleted() -> None:
    async with asking(create_app(builder(forever(say("Hello."))).build())) as client:
        for text in ("I am Ada.", "Who am I?"):
            await ended(client, await begun(client, task=text, session="my talk", user="ada"))
        base, whose = "/v1/agents/clerk/sessions", {"user": "ada"}
        (listed,) = (await client.get(base, params=whose)).json()["data"]
        assert (listed["name"], listed["user"], listed["turns"]) == ("my talk", "ada", 2)
        read = (await client.get(f"{base}/my talk", params=whose)).json()
        assert [each["content"] for each in read["content"]] == ["I am Ada.", "Hello.", "Who am I?", "Hello."]
        renamed = await client.patch(f"{base}/my talk", params=whose, json={"title": "Ada"})
        assert renamed.json()["title"] == "Ada"
        forked = await client.post(f"{base}/my talk/fork", params=whose, json={"into": "other", "turns": 1.0})
        assert (forked.status_code, forked.json()["turns"]) == (201, 1)
        taken = await client.post(f"{base}/my talk/fork", params=whose, json={"into": "other"})
        assert (taken.status_code, taken.json()["code"]) == (409, "session-refused")
        copied = await client.post(f"{base}/my talk/fork", params=whose)
        assert (copied.status_code, copied.json()["turns"]) == (201, 2)
        assert (await client.delete(f"{base}/{copied.json()['name']}", params=whose)).status_code == 204
        assert (await client.delete(f"{base}/my talk", params=whose)).status_code == 204
        assert (await client.delete(f"{base}/my talk", params=whose)).status_code == 404
        names = [each["name"] for each in (await client.get(base, params=whose)).json()["data"]]
    assert names == ["other"]


async def test_the_state_of_a_session_is_read_and_changed() -> None:
    def add(ctx: RunContext) -> str:
        """Put tea into the cart."""
        ctx.state["cart"] = [*ctx.state["cart"], "tea"]
        return f"for {ctx.state['plan']}"

    agent = builder(call("add"), answer("It is in the cart.")).with_tools(add).build()
    async with asking(create_app(agent)) as client:
        base, whose = "/v1/agents/clerk/sessions/my talk/state", {"user": "ada"}
        assert (await client.get(base, params=whose)).status_code == 404
        changes = {"values": {"plan": "free", "cart": []}, "delete": ["none"]}
        changed = await client.patch(base, params=whose, json=changes)
        assert (changed.status_code, changed.json()) == (200, {"state": {"plan": "free", "cart": []}})
        await ended(client, await begun(client, session="my talk", user="ada"))
        changed = await client.patch(base, params=whose, json={"delete": ["plan"]})
        assert changed.json() == (await client.get(base, params=whose)).json() == {"state": {"cart": ["tea"]}}
        for user in ({"user": "eve"}, {}):  # each has sessions of its own
            assert (await client.get(base, params=user)).status_code == 404
            await client.patch(base, params=user, json={"values": {"cart": []}})
        assert (await client.get(base, params=whose)).json() == {"state": {"cart": ["tea"]}}
        await agent.sessions.update_state("of-ada", {}, user="ada")
        refused = await client.patch("/v1/agents/clerk/sessions/of-ada/state", json={"values": {"a": 1}})
        assert (refused.status_code, refused.json()["code"]) == (409, "session-refused")
        large = {"values": {"a": "x" * 100_001}}
        refused = await client.patch(base, params=whose, json=large)
        assert (refused.status_code, refused.json()["code"]) == (409, "session-refused")
        for wrong in ({"values": [1]}, {"delete": "plan"}, {"plan": 1}):
            assert (await client.patch(base, params=whose, json=wrong)).status_code == 422


async def test_sessions_that_cannot_be_read_are_a_failure_of_the_store(tmp_path: Path) -> None:
    """Not a refusal: a client would give up, and be told where the store is."""
    path = tmp_path / "sessions.db"
    app = create_app(builder(forever(say("Done."))).with_sessions(path).build())
    base, state = "/v1/agents/clerk/sessions", {"values": {"plan": "free"}}
    async with asking(app) as client:
        await ended(client, await begun(client, session="talk", user="ada"))
        replaced(path)
        answers = [
            await client.request(method, f"{base}{place}?user=ada", json=body)
            for method, place, body in (
                ("GET", "", None),
                ("GET", "/talk", None),
                ("GET", "/talk/state", None),
                ("PATCH", "/new/state", state),
                ("PATCH", "/talk/state", state),
                ("DELETE", "/talk", None),
                ("POST", "/talk/fork", None),
            )
        ]
        body = {"task": "Order tea.", "session": "talk", "user": "ada"}
        answers.append(await client.post("/v1/runs", json=body))
    assert {(each.status_code, each.json()["code"]) for each in answers} == {(503, "store-unavailable")}
    assert not any(str(tmp_path) in each.text for each in answers)


async def test_sessions_are_listed_in_pages() -> None:
    agent = builder(forever(say("Hello."))).build()
    async with asking(create_app(agent)) as client:
        for name in ("one", "two", "three", "four", "five"):
            await agent.run("I am Ada.", session=name, user="ada")
        base, pages, before = "/v1/agents/clerk/sessions", list[list[str]](), {}
        for _ in range(3):
            page = (await client.get(base, params={"user": "ada", "limit": 2, **before})).json()["data"]
            pages.append([each["name"] for each in page])
            before = {"before": page[-1]["updated_at"]}
        assert pages == [["five", "four"], ["three", "two"], ["one"]]
        assert (await client.get(base, params={"user": "ada", **before})).json() == {"data": []}
        for wrong in ({"limit": 0}, {"limit": 501}, {"before": "2026-01-01T00:00:00"}, {"before": "soon"}):
            assert (await client.get(base, params=wrong)).status_code == 422
        listing = (await client.get("/openapi.json")).json()["paths"]["/v1/agents/{agent}/sessions"]["get"]
        assert {"before", "limit", "user"} <= {each["name"] for each in listing["parameters"]}


async def test_a_session_is_found_without_reading_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[SessionInfo]()
    listed = Sessions.list

    async def counted(*args: Any, **kwargs: Any) -> tuple[SessionInfo, ...]:
        found = await listed(*args, **kwargs)
        made.extend(found)
        return found

    monkeypatch.setattr(Sessions, "list", counted)
    agent = builder(forever(say("Hello."))).with_sessions(tmp_path / "sessions.db").build()
    async with asking(create_app(agent)) as client:
        for name in ("one", "two", "three", "two"):
            await ended(client, await begun(client, session=name, user="ada"))
    assert [each.session for each in made] == ["ada:two"]


async def test_a_session_that_the_program_began_goes_on(tmp_path: Path) -> None:
    agent = builder(forever(say("Hello."))).with_sessions(tmp_path / "sessions.db").build()
    async with asking(create_app(agent)) as client:
        await agent.run("I am Ada.", session="support-7", user="ada")
        await ended(client, await begun(client, session="support-7", user="ada"))
        listed = (await client.get("/v1/agents/clerk/sessions", params={"user": "ada"})).json()["data"]
    assert [(each["name"], each["turns"]) for each in listed] == [("support-7", 2)]


# --- durable runs ---------------------------------------------------------------------------------------


async def test_a_durable_run_is_found_by_the_next_server_and_settled_there(tmp_path: Path) -> None:
    def served() -> Any:
        turns = builder(call("delete", path="a.tmp"), answer("Done."), answer("Done."))
        return turns.with_tools(delete).with_approval().with_durability(tmp_path / "runs.db").build()

    first = create_app(served(), drain_s=0)
    async with asking(first) as client:
        run = await begun(client, user="ada")
        await waiting(client, run)
    async with asking(create_app(served())) as client:
        request = await waiting(client, run)
        body = {"kind": "approval", "approved": True}
        settled = await client.post(f"/v1/runs/{run['run_id']}/requests/{request['id']}", json=body)
        assert settled.status_code == 204
        found = await ended(client, run)
        streamed = events_of((await client.get(f"/v1/runs/{run['run_id']}/events")).text)
    assert (found["status"], found["output"], found["user"]) == ("completed", "Done.", "ada")
    assert [each["event"] for each in streamed] == ["run"]
    assert json.loads(streamed[0]["data"]) == found


async def test_a_request_keeps_its_id_over_a_restart_and_fits_into_paths(tmp_path: Path) -> None:
    def served(*turns: Any) -> Any:
        described = builder(*turns).with_tools(delete).with_approval(timeout_s=60)
        described = described.with_durability(tmp_path / "r.db", recover=False)
        return create_app(described.build(), drain_s=0)

    async def waiting_for(client: httpx.AsyncClient, number: int) -> list[str]:
        while True:
            asked = (await client.get(path)).json()["requests"]
            if len(asked) == number:
                return sorted(each["id"] for each in asked)
            await anyio.sleep(0.001)

    async with asking(served(calls(call("delete", path="a"), call("delete", path="b")))) as client:
        run = await begun(client)
        path = f"/v1/runs/{run['run_id']}"
        ids = await waiting_for(client, 2)
    assert "/" in ids[0]
    approved = {"kind": "approval", "approved": True}
    async with asking(served(answer("Done."))) as client:
        assert await waiting_for(client, 2) == ids
        for request_id in (ids[0], quote(ids[1], safe="")):
            settled = await client.post(f"{path}/requests/{request_id}", json=approved)
            assert settled.status_code == 204, settled.text
        assert (await client.post(f"{path}/resume")).status_code == 202
        assert (await ended(client, run))["status"] == "completed"


@pytest.mark.parametrize("restarts", [False, True])
async def test_the_audit_log_names_who_denied_a_call_and_the_model_is_not_told(
    restarts: bool, tmp_path: Path
) -> None:
    model = ScriptedLLM(
        call("delete", path="a"), answer("It was not deleted."), answer("It was not deleted.")
    )

    def served() -> Any:
        described = ReactiveAgents.create().with_name("clerk").with_llm(model).with_reasoning()
        described = described.with_tools(delete).with_approval(timeout_s=60).with_audit(tmp_path / "a.db")
        described = described.with_durability(tmp_path / "r.db", recover=False)
        return create_app(described.build(), authenticate=lambda _: Principal(user="ada"), drain_s=0)

    async def deny(client: httpx.AsyncClient) -> None:
        asked = await waiting(client, run)
        path = f"/v1/runs/{run['run_id']}/requests/{asked['id']}"
        decision = {"kind": "approval", "approved": False, "reason": "It is new."}
        assert (await client.post(path, json=decision)).status_code == 204

    async with asking(served()) as client:
        run = await begun(client)
        await waiting(client, run)
        if not restarts:
            await deny(client)
            await ended(client, run)
    if restarts:
        async with asking(served()) as client:
            await deny(client)
            await client.post(f"/v1/runs/{run['run_id']}/resume")
            await ended(client, run)
    entries = (each.entry for each in read_entries(tmp_path / "a.db").unwrap())
    told = [each.detail.partition(" The arguments")[0] for each in entries if each.action == "denial"]
    assert told == ["Denied: by ada: It is new."]
    assert "It is new." in repr(model.requests)
    assert "ada" not in repr([request.messages for request in model.requests])


async def test_the_audit_log_names_whose_run_it_is_and_who_approved_a_call(tmp_path: Path) -> None:
    def served(*turns: Any) -> Any:
        described = (
            builder(*turns).with_tools(delete).with_approval(timeout_s=60).with_audit(tmp_path / "a.db")
        )
        described = described.with_durability(tmp_path / "r.db", recover=False)
        return create_app(described.build(), authenticate=sender, drain_s=0)

    def sender(request: Request) -> Principal:
        return Principal(key="boss") if request.headers.get("x-boss") else Principal(user="ada")

    async def approve(client: httpx.AsyncClient, body: dict[str, Any], **headers: str) -> None:
        asked = await waiting(client, run)
        decision = {"kind": "approval", "approved": True, **body}
        path = f"/v1/runs/{run['run_id']}/requests/{asked['id']}"
        assert (await client.post(path, json=decision, headers=headers)).status_code == 204

    async with asking(served(call("delete", path="a"), call("delete", path="b"))) as client:
        run = await begun(client)
        first = await waiting(client, run)
        await approve(client, {})
        while True:
            if (await waiting(client, run))["id"] != first["id"]:
                break
            await anyio.sleep(0.001)
    async with asking(served(answer("Done."))) as client:
        await approve(client, {"reason": "It is old."}, **{"x-boss": "yes"})
        await client.post(f"/v1/runs/{run['run_id']}/resume")
        await ended(client, run)
    entries = [each.entry for each in read_entries(tmp_path / "a.db").unwrap()]
    assert [each.detail for each in entries if each.action == "start"] == ["For the user ada."]
    told = [each.detail.partition(" The arguments")[0] for each in entries if each.action == "approval"]
    assert told == ["Approved: by ada.", "Approved: by the key boss: It is old."]


async def test_who_may_not_approve_calls_gives_no_result_of_a_call_in_doubt(tmp_path: Path) -> None:
    under_way = anyio.Event()

    @tool
    async def pay() -> str:
        """Pay."""
        under_way.set()
        await anyio.sleep_forever()
        return "paid"

    def served(*turns: Any) -> Any:
        described = builder(*turns).with_tools(pay).with_approval(timeout_s=60)
        described = described.with_durability(tmp_path / "r.db", recover=False, in_doubt="ask")
        return create_app(described.build(), authenticate=sender, drain_s=0)

    def sender(request: Request) -> Principal:
        is_boss = bool(request.headers.get("x-boss"))
        return Principal(key="boss") if is_boss else Principal(user="ada", approves=False)

    async with asking(served(call("pay"))) as client:
        run = await begun(client)
        await under_way.wait()
    async with asking(served()) as client:
        assert (await client.post(f"/v1/runs/{run['run_id']}/resume")).status_code == 202
        await waiting(client, run)
    async with asking(served(answer("It was paid."))) as client:
        asked = await waiting(client, run)
        path, paid = f"/v1/runs/{run['run_id']}/requests/{asked['id']}", {"kind": "call", "result": "paid"}
        refused = await client.post(path, json=paid)
        assert (asked["kind"], refused.status_code, refused.json()["code"]) == (
            "doubt",
            403,
            "may-not-approve",
        )
        assert (await client.post(path, json=paid, headers={"x-boss": "yes"})).status_code == 204
        await client.post(f"/v1/runs/{run['run_id']}/resume")
        assert (await ended(client, run))["output"] == "It was paid."


async def test_a_run_of_the_record_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "cherry-orchard-4711"
    monkeypatch.setenv("SHOP_PASSWORD", secret)
    received: list[str] = []

    @tool(requires_approval=True)
    async def log_in(password: str) -> str:
        """Log in."""
        received.append(password)
        return f"{password} was accepted"

    def served(*turns: Any) -> Any:
        described = builder(*turns).with_tools(log_in).with_approval()
        return create_app(described.with_durability(tmp_path / "runs.db").build(), drain_s=0)

    async with asking(served(call("log-in", password=secret))) as client:
        run = await begun(client, task=f"Try {secret}.")
        await waiting(client, run)
    path = f"/v1/runs/{run['run_id']}"
    async with asking(served(answer(f"{secret} fits."), forever(say(f"It is {secret}.")))) as client:
        asked = await waiting(client, run)
        approval = {"kind": "approval", "approved": True}
        await client.post(f"{path}/requests/{asked['id']}", json=approval)
        assert (await ended(client, run))["status"] == "completed"
        body = {"model": "clerk", "input": "Again.", "metadata": {"of": secret}, "instructions": secret}
        made = (await client.post("/v1/responses", json=body)).json()
    async with asking(served()) as client:
        found = await client.get(path)
        shown = [await client.get(f"/v1/responses/{made['id']}"), await client.get(f"{path}/events")]
        shown += [await client.get("/v1/runs"), found]
    assert received == [secret]  # with which the run went on
    assert asked["request"]["arguments"] == {"password": "[redacted:field]"}
    assert [secret in each.text for each in shown] == [False] * 4
    assert found.json()["output"] == "[redacted:environment] fits."
    assert found.json()["task"] == "Try [redacted:environment]."


async def test_a_repeated_request_finds_its_run_in_another_process(tmp_path: Path) -> None:
    go, once = anyio.Event(), {"idempotency-key": "order-7"}

    @tool
    async def wait() -> str:
        """Wait."""
        await go.wait()
        return "waited"

    def served() -> Any:
        turns = builder(call("wait"), answer("Done.")).with_tools(wait)
        return create_app(turns.with_durability(tmp_path / "runs.db", recover=False).build())

    async with asking(served()) as one, asking(served()) as other:
        first = await one.post("/v1/runs", json={"task": "Order tea."}, headers=once)
        again = await other.post("/v1/runs", json={"task": "Order tea."}, headers=once)
        assert (again.status_code, again.json()["run_id"]) == (201, first.json()["run_id"])
        assert again.json()["status"] == "running"
        for work in ({"task": "Order coffee."}, {"task": "Order tea.", "metadata": {"shop": 2}}):
            refused = await other.post("/v1/runs", json=work, headers=once)
            assert (refused.status_code, refused.json()["code"]) == (422, "other-task")
        go.set()
        assert (await ended(one, first.json()))["output"] == "Done."
        late = await other.post("/v1/runs", json={"task": "Order tea."}, headers=once)
        assert late.json()["output"] == "Done."


def waiting_tool() -> tuple[Callable[[], Awaitable[str]], anyio.Event]:
    """A tool that waits for ever, and the event of its call."""
    arrived = anyio.Event()

    @tool(idempotent=True)
    async def wait() -> str:
        """Wait for ever."""
        arrived.set()
        await anyio.sleep_forever()
        return ""

    return wait, arrived


def returning_tool() -> Any:
    """The tool of the same name that does not wait."""

    @tool(name="wait", idempotent=True)
    async def returns() -> str:
        """Wait for ever."""
        return "waited"

    return returns


async def test_an_interrupted_run_is_continued_by_an_order(tmp_path: Path) -> None:
    wait, arrived = waiting_tool()
    waits = builder(call("wait"), answer("Done.")).with_tools(wait)
    app = create_app(waits.with_durability(tmp_path / "r.db", recover=False).build(), drain_s=0)
    async with asking(app) as client:
        run = await begun(client)
        await arrived.wait()
    resumed = builder(forever(answer("Done."))).with_tools(returning_tool())
    app = create_app(resumed.with_durability(tmp_path / "r.db", recover=False).build())
    async with asking(app) as client:
        assert (await client.get(f"/v1/runs/{run['run_id']}")).json()["status"] == "interrupted"
        assert (await client.post(f"/v1/runs/{run['run_id']}/resume")).status_code == 202
        found = await ended(client, run)
    assert (found["error"], found["status"], found["output"]) == (None, "completed", "Done.")


async def test_a_run_that_another_version_refuses_is_not_shown_as_failed(tmp_path: Path) -> None:
    wait, arrived = waiting_tool()

    def served(prompt: str) -> Any:
        one = builder(call("wait")).with_tools(wait).with_system_prompt(prompt)
        return create_app(one.with_durability(tmp_path / "r.db", recover=False).build(), drain_s=0)

    async with asking(served("Be brief.")) as client:
        run = await begun(client)
        await arrived.wait()
    async with asking(served("Be polite.")) as client:
        path = f"/v1/runs/{run['run_id']}"
        refused = await client.post(f"{path}/resume")
        assert (refused.status_code, refused.json()["code"]) == (409, "run-refused")
        assert "was begun by another version of the agent" in refused.json()["detail"]
        assert "Changed: instructions." in refused.json()["detail"]
        found = (await client.get(path, params={"wait_s": 0.1})).json()
        assert (found["status"], found["error"]) == ("interrupted", None)
        listed = (await client.get("/v1/runs")).json()["data"]
        assert [each["status"] for each in listed] == ["interrupted"]
        assert (await client.post(f"{path}/cancel")).status_code == 202
        assert (await client.get(path)).json()["status"] == "cancelled"


async def test_a_run_that_could_not_begin_says_why_and_is_begun_later(tmp_path: Path) -> None:
    program = tmp_path / "program"
    server = McpServer("far", command=str(program), args=(str(PROGRAM),))
    described = builder(forever(answer("Done."))).with_mcp(server)
    app = create_app(described.with_durability(tmp_path / "r.db", recover=False).build())
    ways = {by: {"Idempotency-Key": by} for by in ("request", "resume")} | {"resume without a key": {}}
    run_ids: dict[str, str] = {}
    async with asking(app) as client:
        for by, once in ways.items():
            run = (await client.post("/v1/runs", json={"task": "Order tea."}, headers=once)).json()
            found = await client.get(f"/v1/runs/{run['run_id']}", params={"wait_s": 60})
            assert found.json()["status"] == "interrupted"
            assert "nothing was begun. The MCP server 'far'" in found.json()["error"]["message"]
            run_ids[by] = run["run_id"]
            listed = (await client.get("/v1/runs", params={"status": "interrupted"})).json()["data"]
            assert {each["run_id"] for each in listed} == set(run_ids.values())
            if once:
                other = await client.post("/v1/runs", json={"task": "Order milk."}, headers=once)
                assert (other.status_code, other.json()["code"]) == (422, "other-task")
        program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        program.chmod(0o755)
        for by, run_id in run_ids.items():
            if by == "request":
                again = await client.post("/v1/runs", json={"task": "Order tea."}, headers=ways[by])
                assert again.json()["run_id"] == run_id
            else:
                assert (await client.post(f"/v1/runs/{run_id}/resume")).status_code == 202
            assert (await ended(client, {"run_id": run_id}))["output"] == "Done."


@pytest.mark.parametrize("queue", [None, "orders"])
async def test_a_repeated_request_whose_record_cannot_be_read_may_come_again(
    tmp_path: Path, queue: str | None
) -> None:
    agent = builder(forever(say("Done."))).with_durability(tmp_path / "r.db", recover=False).build()
    asked: Any = {"json": {"task": "Order tea."}, "headers": {"Idempotency-Key": "one"}}
    async with asking(create_app(agent, queue=queue)) as client:
        first = (await client.post("/v1/runs", json={"task": "Order milk."})).json()
        await ended(client, first)
        with sqlite_file(tmp_path / "r.db") as file:
            file.execute("ALTER TABLE runs RENAME TO moved")
        failed = await client.post("/v1/runs", **asked)
        with sqlite_file(tmp_path / "r.db") as file:
            file.execute("ALTER TABLE moved RENAME TO runs")
        again = await client.post("/v1/runs", **asked)
        assert (await ended(client, again.json()))["output"] == "Done."
    assert (failed.status_code, failed.json()["code"]) == (503, "store-unavailable")


async def test_a_key_has_a_limit_of_runs_that_wait_in_the_queue(tmp_path: Path) -> None:
    keys = keys_in(tmp_path)
    few = KeyLimits(queued=2)
    ada, eve, any_one = (bearer(keys, "k", user=user, limits=few) for user in ("ada", "eve", None))
    agent = builder(forever(say("Done."))).with_durability(tmp_path / "runs.db").build()

    async def submitted(client: httpx.AsyncClient, headers: dict[str, str], key: str = "") -> Any:
        more = {"idempotency-key": key} if key else {}
        return await client.post("/v1/runs", json={"task": "Do it."}, headers={**headers, **more})

    for starts in range(2):  # the next process counts them too
        async with asking(create_app(agent, keys=keys, queue="web", work=False)) as client:
            if not starts:
                paused = (await submitted(client, ada)).json()["run_id"]
                assert (await client.post(f"/v1/runs/{paused}/pause", headers=ada)).status_code == 202
                assert (await submitted(client, ada, "once")).status_code == 201
            refused = await submitted(client, ada)
            assert (refused.status_code, refused.json()["code"]) == (429, "too-many-queued")
            assert refused.headers["retry-after"] == "5"
            assert (await submitted(client, ada, "once")).status_code == 201
            assert (await submitted(client, any_one)).status_code == 429
    async with asking(create_app(agent, keys=keys, queue="web", work=False)) as client:
        assert (await submitted(client, eve)).status_code == 201
        await agent.runs.work("web", until_idle=True)
        assert (await submitted(client, ada)).status_code == 201


async def test_the_limit_of_queued_runs_is_one_for_all_processes_with_the_record(tmp_path: Path) -> None:
    keys = keys_in(tmp_path)
    ada = bearer(keys, "k", user="ada", limits=KeyLimits(queued=3))

    def served() -> Any:
        agent = builder(forever(say("Done."))).with_durability(tmp_path / "runs.db").build()
        return create_app(agent, keys=keys, queue="web", work=False)

    statuses: list[int] = []

    async def submit(client: httpx.AsyncClient) -> None:
        statuses.append((await client.post("/v1/runs", json={"task": "Do it."})).status_code)

    async with asking(served(), ada) as one, asking(served(), ada) as other:
        for client in (one, other, one, other, one):
            await submit(client)
        assert statuses == [201, 201, 201, 429, 429]
    async with asking(
        create_app(
            builder().with_durability(tmp_path / "of_one.db").build(), keys=keys, queue="web", work=False
        ),
        ada,
    ) as one:
        statuses.clear()
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(submit, one)
        assert sorted(statuses) == [201, 201, 201, 429, 429], "at once, too"


async def test_a_run_of_another_process_is_stopped_and_the_audit_log_says_by_whom(tmp_path: Path) -> None:
    wait, arrived = waiting_tool()
    keys, audit = keys_in(tmp_path), tmp_path / "audit.db"
    ada, program = bearer(keys, "Ada", user="ada"), bearer(keys, "Program")

    def served() -> Any:
        waits = builder(forever(call("wait"))).with_tools(wait).with_audit(audit)
        return create_app(waits.with_durability(tmp_path / "r.db", recover=False).build(), keys=keys)

    async with asking(served(), ada) as one, asking(served()) as other:
        first, second = await begun(one), await begun(one)
        await arrived.wait()
        for run, headers in ((first, ada), (second, program)):
            path = f"/v1/runs/{run['run_id']}/stop"
            stopped = await other.post(path, json={"reason": "It is late."}, headers=headers)
            assert stopped.status_code == 202
        found = [await ended(one, run) for run in (first, second)]
    assert [each["status"] for each in found] == ["partial", "partial"]
    assert found[0]["reason"] == "The run was stopped: It is late. Missing: a final answer."
    entries = (each.entry for each in read_entries(audit).unwrap())
    said = {str(each.run_id): each.detail for each in entries if each.action == "stop"}
    key = keys.list()[1].id
    assert said == {
        first["run_id"]: "Stopped by ada: It is late.",
        second["run_id"]: f"Stopped by the key {key}: It is late.",
    }


@pytest.mark.parametrize("pauses", ["here", "in another process"])
async def test_a_pause_is_one_for_all_processes(tmp_path: Path, pauses: str) -> None:
    arrived, go = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        arrived.set()
        await go.wait()
        return "waited"

    def served() -> Any:
        waits = builder(call("wait"), answer("Done.")).with_tools(wait)
        return create_app(waits.with_durability(tmp_path / "r.db", recover=False).build())

    async def status(client: httpx.AsyncClient) -> str:
        return str((await client.get(path)).json()["status"])

    async with asking(served()) as here, asking(served()) as other:
        path = f"/v1/runs/{(await begun(here))['run_id']}"
        await arrived.wait()
        pausing, resuming = (here, other) if pauses == "here" else (other, here)
        assert (await pausing.post(f"{path}/pause")).status_code == 202
        go.set()
        while await status(here) != "paused":
            await anyio.lowlevel.checkpoint()
        assert await status(other) == "paused"
        assert (await resuming.post(f"{path}/resume")).status_code == 202
        found = (await here.get(path, params={"wait_s": 60})).json()
    assert (found["status"], found["output"]) == ("completed", "Done.")


async def test_a_pause_that_outlived_its_process_is_lifted_by_one_order(tmp_path: Path) -> None:
    wait, arrived = waiting_tool()

    def served(*turns: Any, **options: Any) -> Any:
        waits = builder(*turns).with_tools(wait).with_durability(tmp_path / "r.db", recover=False)
        return create_app(waits.build(), **options)

    async with asking(served(call("wait"), drain_s=0)) as client:
        path = f"/v1/runs/{(await begun(client))['run_id']}"
        await arrived.wait()
        assert (await client.post(f"{path}/pause")).status_code == 202
    resumed = builder(forever(answer("Done."))).with_tools(returning_tool())
    app = create_app(resumed.with_durability(tmp_path / "r.db", recover=False).build())
    async with asking(app) as client:
        assert (await client.get(path)).json()["status"] == "paused"
        assert (await client.post(f"{path}/resume")).status_code == 202
        found = (await client.get(path, params={"wait_s": 60})).json()
    assert (found["status"], found["output"]) == ("completed", "Done.")


async def test_an_interrupted_run_is_stopped_by_an_order_with_what_it_has(tmp_path: Path) -> None:
    wait, arrived = waiting_tool()

    def served(*turns: Any, **options: Any) -> Any:
        waits = builder(*turns).with_tools(wait).with_durability(tmp_path / "r.db", recover=False)
        return create_app(waits.build(), **options)

    async with asking(served(call("wait"), drain_s=0)) as client:
        run = await begun(client)
        await arrived.wait()
    async with asking(served()) as client:
        assert (await client.post(f"/v1/runs/{run['run_id']}/stop")).status_code == 202
        found = await ended(client, run)
    assert (found["status"], found["reason"]) == (
        "partial",
        "The run was stopped. Missing: a final answer.",
    )


async def test_an_order_answers_with_the_run_as_it_is_then(tmp_path: Path) -> None:
    agent = builder(say("Done.")).with_durability(tmp_path / "runs.db").build()
    async with asking(create_app(agent, queue="web", work=False)) as client:
        run = await begun(client)
        states = []
        for order in ("pause", "resume", "cancel"):
            answered = await client.post(f"/v1/runs/{run['run_id']}/{order}")
            states.append((answered.status_code, answered.json()["status"]))
    assert states == [(202, "paused"), (202, "queued"), (202, "cancelled")]


async def test_queued_runs_are_done_by_workers(tmp_path: Path) -> None:
    agent = builder(forever(say("Done."))).with_durability(tmp_path / "runs.db").build()
    async with asking(create_app(agent, queue="web", work=False)) as client:
        run = await begun(client, user="ada")
        assert run["status"] == "queued"
        with anyio.move_on_after(0.05):
            await ended(client, run)
        assert (await client.get(f"/v1/runs/{run['run_id']}")).json()["status"] == "queued"
        await agent.runs.pause(run["run_id"])
        assert (await client.get(f"/v1/runs/{run['run_id']}")).json()["status"] == "paused"
        assert (await client.post(f"/v1/runs/{run['run_id']}/resume")).status_code == 202
        assert (await client.get(f"/v1/runs/{run['run_id']}")).json()["status"] == "queued"
        await agent.runs.work("web", until_idle=True)
        assert (await ended(client, run))["output"] == "Done."
    async with asking(create_app(agent, queue="web")) as client:
        assert (await ended(client, await begun(client)))["output"] == "Done."


@pytest.mark.parametrize("run_id", ["order/7", "100%", "a?b#c", "a b", "a%2Fb", "ü…/..", "../x", "//"])
async def test_a_run_of_the_program_is_reached_by_its_id(tmp_path: Path, run_id: str) -> None:
    agent = builder(call("delete", path="a.tmp"), answer("Done.")).with_tools(delete).with_approval()
    served = agent.with_durability(tmp_path / "runs.db").build()
    async with asking(create_app(served)) as client, anyio.create_task_group() as group:
        group.start_soon(lambda: served.run("Do it.", run_id=run_id))
        path, request = f"/v1/runs/{quote(run_id, safe='')}", dict[str, Any]()
        while not request:
            found = await client.get(path)
            request = next(iter(found.json().get("requests", ())), {})
        settling = f"{path}/requests/{quote(request['id'], safe='')}"
        body = {"kind": "approval", "approved": True}
        assert (await client.post(settling, json=body)).status_code == 204
        ended_run = (await client.get(path, params={"wait_s": 60})).json()
        assert (await client.post(f"{path}/cancel")).json()["code"] == "run-not-under-way"
        (streamed,) = events_of((await client.get(f"{path}/events")).text)
    assert (ended_run["run_id"], ended_run["output"]) == (run_id, "Done.")
    assert json.loads(streamed["data"]) == ended_run


@pytest.mark.parametrize("name", [".", ".."])
async def test_a_name_that_no_path_can_have_is_refused_at_the_start(tmp_path: Path, name: str) -> None:
    agent = builder(say("Done.")).with_durability(tmp_path / "runs.db").build()
    async with asking(create_app(agent)) as client:
        with pytest.raises(AgentError, match="run_id: got"):
            await agent.run("Do it.", run_id=name)
        await agent.run("Do it.", run_id="one")
        with pytest.raises(AgentError, match="into: got"):
            await agent.runs.fork("one", at=1, into=name)
        for field in ("user", "session"):
            refused = await client.post("/v1/runs", json={"task": "Do it.", field: name})
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid-body")
        asked = {"model": agent.name, "input": "Do it.", "conversation": name}
        refused = await client.post("/v1/responses", json=asked)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid-session")


# --- health, metrics ------------------------------------------------------------------------------------


async def test_health_readiness_and_metrics(tmp_path: Path) -> None:
    app = create_app(builder(forever(say("Done."))).build())
    async with asking(app) as client:
        await ended(client, await begun(client))
        await client.get("/v1/runs/a-name-that-a-stranger-chose")
        await client.get("/somewhere/else")
        metrics = (await client.get("/metrics")).text
        assert (await client.get("/readyz")).status_code == 200
        await app.state.service.drain(0)
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/healthz")).status_code == 200
        late = await client.post("/v1/runs", json={"task": "Do it."})
    assert (late.status_code, late.json()["code"]) == (503, "draining")
    assert 'reactive_agents_runs_ended_total{status="completed"} 1.0' in metrics
    assert 'route="/v1/runs/{run_id}",status="404"' in metrics
    assert "stranger" not in metrics
    assert "somewhere" not in metrics


def replaced(path: Path) -> None:
    """Another program puts its file in place of this one and its journal."""
    path.with_name(f"{path.name}-wal").unlink()
    path.with_name("other").write_bytes(b"no database" * 1_000)
    path.with_name("other").replace(path)


def full(path: Path) -> None:
    """No file of this process may grow beyond what this one is."""
    size = path.with_name(f"{path.name}-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.fixture
def limits_of_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("limits_of_files")
@pytest.mark.parametrize("breaks", [replaced, full])
@pytest.mark.parametrize("store", ["with_durability", "with_run_log"])
async def test_a_server_whose_runs_cannot_be_stored_is_not_ready(
    tmp_path: Path, store: str, breaks: Callable[[Path], None]
) -> None:
    path = tmp_path / "runs.db"

    async def readiness(*, broken: bool) -> list[httpx.Response]:
        app = create_app(getattr(builder(say("Done.")), store)(path).build())
        async with asking(app) as client:
            await ended(client, await begun(client))
            await app.state.service.check_stores()  # the log is opened by another thread
            if broken:
                breaks(path)
            return [await client.get(each) for each in ("/readyz", "/readyz", "/healthz")]

    assert [each.status_code for each in await readiness(broken=False)] == [200, 200, 200]
    broken = await readiness(broken=True)
    assert [each.status_code for each in broken] == [503, 503, 200]
    assert broken[0].json()["code"] == "store-unavailable"
    assert str(tmp_path) not in broken[0].text


@pytest.mark.parametrize("name", ["", "a b", "../x", "a/b", "x" * 65], ids=repr)
def test_an_agent_is_served_under_a_plain_name(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be served"):
        create_app({name: builder().build()})


async def test_cross_origin_requests_are_allowed_to_the_named_pages_alone() -> None:
    app = create_app(builder(forever(say("Done."))).build(), origins=["https://app.example"])
    asked = {"origin": "https://app.example", "access-control-request-method": "POST"}
    async with asking(app) as client:
        allowed = await client.options("/v1/runs", headers=asked)
        foreign = await client.options("/v1/runs", headers={**asked, "origin": "https://evil.example"})
        plain = await client.get("/v1/agents")
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    assert (foreign.status_code, "access-control-allow-origin" in foreign.headers) == (403, False)
    assert "access-control-allow-origin" not in plain.headers


@pytest.mark.parametrize(("names", "needs"), [(["clerk"], False), (["clerk", "mapper"], True)])
async def test_the_document_says_whether_a_run_has_to_name_its_agent(names: list[str], needs: bool) -> None:
    agents = [ReactiveAgents.create().with_name(each).with_llm(ScriptedLLM()).build() for each in names]
    async with asking(create_app(agents, protocols=["api"])) as client:
        document = (await client.get("/openapi.json")).json()
    form = document["components"]["schemas"]["NewRun"]
    assert ("agent" in form["required"]) is needs


@pytest.mark.parametrize(
    ("limit", "number", "left"),
    [
        ("MOST_ENDED", 2, 3),
        ("MOST_ENDED_EVENTS", 1, 1),
        ("MOST_ENDED_TEXT", 4, 3),
        ("ENDED_S", 0.0, 1),
        ("ENDED_S", 600.0, 4),
    ],
)
async def test_ended_runs_are_kept_within_limits(
    monkeypatch: pytest.MonkeyPatch, limit: str, number: float, left: int
) -> None:
    monkeypatch.setattr(runs, limit, number)
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("x")))).build()
    async with asking(create_app(agent, protocols=["api"])) as client:
        for _ in range(4):
            begun = (await client.post("/v1/runs", json={"task": "x"})).json()["run_id"]
            assert (await client.get(f"/v1/runs/{begun}?wait_s=60")).json()["output"] == "x"
        found = (await client.get("/v1/runs")).json()["data"]
    assert len(found) == left


async def test_ended_runs_with_large_results_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_ENDED_TEXT", 250_000)

    @tool
    def page() -> list[str]:
        """Read the page."""
        return ["word " * 10_000, "word " * 10_000]

    model = ScriptedLLM(*(turn for _ in range(4) for turn in (call("page"), answer("Read."))))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(page).build()
    app, begun = create_app(agent, protocols=["api"]), ""
    async with asking(app) as client:
        for _ in range(4):
            begun = (await client.post("/v1/runs", json={"task": "Read."})).json()["run_id"]
            assert (await client.get(f"/v1/runs/{begun}?wait_s=60")).json()["output"] == "Read."
        assert len((await client.get("/v1/runs")).json()["data"]) == 3  # two before the last one began
        assert (await client.get(f"/v1/runs/{begun}/events")).text.count("word " * 10_000) >= 2
    kept = [each for each in gc.get_objects() if isinstance(each, live_run.KeptEvent)]
    assert max(len(each.data) for each in kept) <= 100_000


@pytest.mark.parametrize(
    "asked",
    [
        {"task": "word " * 10_000},
        {"metadata": {"note": ["word " * 10_000]}},
        {"history": [{"role": "user", "content": "word " * 10_000}]},
        {"task": [{"type": "text", "text": "Go."}, {"type": "image_url", "image_url": {"url": LARGE_IMAGE}}]},
    ],
)
async def test_ended_runs_with_large_requests_fill_no_memory(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    monkeypatch.setattr(runs, "MOST_ENDED_TEXT", 110_000)
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("x")))).build()
    async with asking(create_app(agent, protocols=["api"])) as client:
        for _ in range(4):
            assert (await ended(client, await begun(client, **asked)))["output"] == "x"
        assert len((await client.get("/v1/runs")).json()["data"]) == 3  # two before the last one began


@pytest.mark.parametrize(
    ("url", "path", "named"),
    [
        ("https://agents.example/shop/", "", "https://agents.example/shop"),
        ("", "/agents", "http://localhost/agents"),
    ],
)
async def test_clients_are_told_the_address_by_which_they_reach_the_application(
    url: str, path: str, named: str
) -> None:
    app = create_app(builder(say("Done.")).build(), url=url)
    outer = Starlette(routes=[Mount(path, app)], lifespan=lambda _: app.router.lifespan_context(app))
    async with asking(outer) as client:
        card = (await client.get(f"{path}/a2a/clerk/.well-known/agent-card.json")).json()
        document = (await client.get(f"{path}/openapi.json")).json()
        begun = await client.post(f"{path}/v1/runs", json={"task": "Go."})
    assert card["supportedInterfaces"][0]["url"] == f"{named}/a2a/clerk"
    assert document["servers"] == [{"url": named}]
    run = begun.json()["run_id"]
    assert begun.headers["location"] == f"{urlsplit(named).path}/v1/runs/{run}"


@pytest.mark.parametrize("url", ["agents.example", "ftp://agents.example", "https://agents.example/?a=1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected an address such as"):
        create_app(builder().build(), url=url)


async def test_a_page_may_send_the_headers_of_its_client() -> None:
    app = create_app(builder().build(), origins=["https://app.example"])
    asked = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, x-stainless-lang, mcp-protocol-version",
    }
    async with asking(app) as client:
        assert (await client.options("/v1/chat/completions", headers=asked)).status_code == 200
