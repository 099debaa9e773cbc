"""The application of a studio: who may ask, what it says of runs, and what it does with them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from reactive_agents import ApprovalDecision, ReactiveAgents, RunContext, ToolCall, ToolResult, tool
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.adapters.tools.decorator import external_tool
from reactive_agents.agent import AgentConfig
from reactive_agents.agent.persona_config import PersonaConfig
from reactive_agents.core.config import (
    AuditConfig,
    CostConfig,
    DurabilityConfig,
    MemoryConfig,
    RunLogConfig,
)
from reactive_agents.core.ids import PersonaId
from reactive_agents.core.models import ThinkingDelta
from reactive_agents.core.tools import RunTool
from reactive_agents.effects import attempt
from reactive_agents.studio.app import StudioAgent, create_studio, page_files
from reactive_agents.studio.logged_runs import RunLibrary
from reactive_agents.studio.records import StudioRecords
from reactive_agents.testing import RecordedRunPlayer, ScriptedLLM, Turn, answer, call, forever, say, streamed
from tests.support.personas import assessed, persona_bench, planned
from tests.support.servers import asking, events_of, listening
from tests.support.sqlite_files import sqlite_file
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

TOKEN = "a-token-that-nobody-knows"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(requires_approval=True, risk="high")
def send(text: str) -> str:
    """Send a letter."""
    return f"sent {text}"


SUM = (call("add", a=1, b=2), answer("It is 3."))


def summing(path: Path, *turns: Turn, **options: Any) -> StudioAgent:
    config = AgentConfig(
        name="sums",
        run_log=RunLogConfig(str(path)),
        durability=DurabilityConfig(str(path), recover=False),
        **options,
    )
    builder = ReactiveAgents.create().with_name("sums").with_llm(ScriptedLLM(*turns)).with_reasoning()
    builder = builder.with_tools(add, send).with_approval(timeout_s=600.0).with_run_log(path)
    builder = builder.with_durability(path, recover=False)
    if config.memory is not None:
        builder = builder.with_memory(path=config.memory.path)
    if config.audit is not None:
        builder = builder.with_audit(config.audit.path)
    if config.cost is not None:
        builder = builder.with_cost(path=config.cost.path)
    return StudioAgent(builder.build(), config)


@asynccontextmanager
async def studio(path: Path, *agents: StudioAgent, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client that is signed in."""
    app = create_studio(RunLibrary(path, read_only=not agents), agents, token=TOKEN, **options)
    async with asking(app) as client:
        client.base_url = await signed_in(client)
        yield client


async def signed_in(client: httpx.AsyncClient) -> httpx.URL:
    """Return where the page is, of which the client has the cookie then."""
    opened = await client.get(f"/?token={TOKEN}")
    assert opened.status_code == 303
    return client.base_url.join(opened.headers["location"])


async def started(client: httpx.AsyncClient, task: str = "Add 1 and 2.", **more: Any) -> str:
    begun = await client.post("/api/runs", json={"agent": "sums", "task": task, **more})
    assert begun.status_code == 201, begun.text
    run_id: str = begun.json()["run_id"]
    return run_id


async def ended(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    """Return the run when it has ended, by its stream."""
    events = events_of((await client.get(f"/api/runs/{run_id}/stream")).text)
    assert events[-1]["event"] == "end"
    return dict((await client.get(f"/api/runs/{run_id}")).json())


async def settled_by(client: httpx.AsyncClient, run_id: str, **body: Any) -> None:
    """Send an answer as soon as the run takes it: what waits is published before it is recorded."""
    for _ in range(500):
        if (await client.post(f"/api/runs/{run_id}/answers", json=body)).status_code == 200:
            return
        await anyio.sleep(0.02)
    raise AssertionError("the answer was not taken")


async def first_of(lines: AsyncIterator[str], beginning: str) -> AsyncIterator[str]:
    """Yield what follows the beginning in the first line that has it."""
    async for line in lines:
        if line.startswith(beginning):
            yield line.removeprefix(beginning)
            return


async def states(client: httpx.AsyncClient) -> list[str]:
    """Return what the list says of each run, the latest first."""
    return [each["status"] for each in (await client.get("/api/runs")).json()["runs"]]


async def until_stored(client: httpx.AsyncClient) -> None:
    """Wait until there is a conversation: it is stored after the last event of its run."""
    for _ in range(200):
        if (await client.get("/api/sessions?agent=sums")).json()["sessions"]:
            return
        await anyio.sleep(0.02)
    raise AssertionError("no conversation was stored")


# --- who may ask ---------------------------------------------------------------------------------------


async def test_nothing_is_shown_without_the_token(tmp_path: Path) -> None:
    app = create_studio(RunLibrary(tmp_path / "runs.db"), token=TOKEN)
    async with asking(app) as client:
        for path in (
            "/",
            "/static/main.js",
            "/api/state",
            "/api/runs",
            "/?token=wrong",
            "/api/state?token=" + TOKEN,
        ):
            assert (await client.get(path)).status_code == 401, path
        opened = await client.get(f"/?token={TOKEN}")
        cookie, place = opened.headers["set-cookie"], opened.headers["location"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert f"Path={place};" in cookie  # browsers send it to servers on all ports, and to no other path
        assert re.fullmatch(r"/[0-9a-f]{32}/", place)
        for path, status in ((place, 200), (f"{place}api/state", 200), (f"{place}api/runs/a%2Fb", 404)):
            assert (await client.get(path)).status_code == status
        client.cookies.clear()
        for path in (place, f"{place}api/state"):
            assert (await client.get(path)).status_code == 401
        name = cookie.partition("=")[0]
        client.cookies.set(name, "another-token")
        assert (await client.get("/api/state")).status_code == 401


async def test_the_token_that_a_browser_is_started_with_opens_the_page_once(tmp_path: Path) -> None:
    app = create_studio(RunLibrary(tmp_path / "runs.db"), token=TOKEN, once="another-one-for-the-browser")
    async with asking(app) as client:
        opened = await client.get("/?token=another-one-for-the-browser")
        assert opened.status_code == 303
        assert (await client.get(opened.headers["location"])).status_code == 200
        client.cookies.clear()
        for again in ("another-one-for-the-browser", ""):
            assert (await client.get(f"/?token={again}")).status_code == 401
        assert (await client.get(f"/?token={TOKEN}")).status_code == 303


@pytest.mark.parametrize("other", ["a b=1", '{"theme": 1}', 'name="never closed', "x{1}=1", "x"])
async def test_a_cookie_of_another_program_at_the_host_signs_nobody_out(tmp_path: Path, other: str) -> None:
    app = create_studio(RunLibrary(tmp_path / "runs.db"), token=TOKEN)
    async with asking(app) as client:
        opened = await client.get(f"/?token={TOKEN}")
        own = opened.headers["set-cookie"].partition(";")[0]
        client.cookies.clear()
        for cookies in (f"{other}; {own}", f"{own}; {other}"):
            page = await client.get(opened.headers["location"], headers={"cookie": cookies})
            assert page.status_code == 200, cookies


async def test_pages_of_others_reach_nothing(tmp_path: Path) -> None:
    async with studio(tmp_path / "runs.db", summing(tmp_path / "runs.db", *SUM)) as client:
        foreign = await client.get("/api/runs", headers={"host": "evil.example"})
        assert foreign.status_code == 421
        task = {"agent": "sums", "task": "Add."}
        for origin in ("http://evil.example", "null", "http://localhost.evil.example", "http://localhost:81"):
            refused = await client.post("/api/runs", json=task, headers={"origin": origin})
            assert refused.status_code == 403, origin
        form = await client.post(
            "/api/runs", content=json.dumps(task), headers={"content-type": "text/plain"}
        )
        assert form.status_code == 415
        assert (await client.get("/api/runs")).json() == {"runs": []}


async def test_every_response_forbids_what_the_page_does_not_need(tmp_path: Path) -> None:
    async with studio(tmp_path / "runs.db") as client:
        for path in ("/", "/static/main.js", "/static/style.css", "/api/state", "/nothing"):
            headers = (await client.get(path)).headers
            policy = headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self';")
            assert "unsafe" not in policy
            assert "require-trusted-types-for 'script'" in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path",
    [
        "../app.py",
        "..%2fapp.py",
        "%2e%2e/app.py",
        "....//app.py",
        "/etc/passwd",
        "main.js%00.css",
        "page/main.js",
        "__init__.py",
    ],
)
async def test_no_file_but_those_of_the_page_is_reached(tmp_path: Path, path: str) -> None:
    async with studio(tmp_path / "runs.db") as client:
        asked = await client.get(f"/static/{path}")
        assert asked.status_code in (404, 405), asked.text


def test_the_page_makes_no_markup_of_a_text_and_loads_nothing_from_elsewhere() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser"
        r"|\beval\(|new Function|srcdoc"
    )
    elsewhere = re.compile(rb"https?://(?!www\.w3\.org/)")
    for name, (content, _) in page_files().items():
        assert forbidden.search(content.decode()) is None, name
        assert elsewhere.search(content) is None, name
    assert b"<script>" not in page_files()["index.html"][0]
    assert b"style=" not in page_files()["index.html"][0]


# --- what it says of runs ------------------------------------------------------------------------------


async def test_a_run_is_begun_followed_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with studio(path, summing(path, *SUM)) as client:
        run_id = await started(client, user="ann")
        shown = await ended(client, run_id)
        assert (shown["run"]["status"], shown["run"]["user"]) == ("completed", "ann")
        rows = [(row["kind"], row["title"]) for row in shown["document"]["rows"] if not row["minor"]]
        assert rows == [
            ("start", "Task"),
            ("phase", "reasoning"),
            ("turn", "Turn 1"),
            ("tool", "add"),
            ("turn", "Turn 2"),
            ("answer", "Answer"),
            ("end", "Ended: completed"),
        ]
        assert shown["document"]["totals"]["model_calls"] == 2
        (listed,) = (
            await client.get("/api/runs?text=ADD 1&agent=sums&status=completed&tool=add&user=ann")
        ).json()["runs"]
        assert listed["run_id"] == run_id
        assert (await client.get("/api/runs?user=bob")).json()["runs"] == []


async def test_a_list_has_the_beginnings_of_the_tasks(tmp_path: Path) -> None:
    path, task = tmp_path / "runs.db", f"Add them: {'1 ' * 5_000}"
    async with studio(path, summing(path, answer("Done."))) as client:
        begun = (await client.post("/api/runs", json={"agent": "sums", "task": task})).json()
        shown = await ended(client, begun["run_id"])
        (listed,) = (await client.get("/api/runs")).json()["runs"]
        exported = (await client.get(f"/api/runs/{begun['run_id']}/export")).text
        await client.post("/api/open", json={"text": exported})
        opened, _ = (await client.get("/api/runs")).json()["runs"]
    assert opened["opened"]
    assert shown["run"]["task"] == task
    assert [each["task"] for each in (listed, opened)] == [task[:1_000]] * 2


async def test_what_a_tool_emits_is_a_row_with_its_name_and_data(tmp_path: Path) -> None:
    def scan(ctx: RunContext[object]) -> str:
        """Scan the shelf."""
        ctx.emit("<b>row</b>", {"number": 7, "text": "<script>x</script>"})
        ctx.emit("count", 0)
        return "scanned"

    path = tmp_path / "runs.db"
    builder = ReactiveAgents.create().with_name("sums").with_reasoning().with_tools(scan).with_run_log(path)
    agent = builder.with_llm(ScriptedLLM(call("scan"), answer("It is scanned."))).build()
    config = AgentConfig(name="sums", run_log=RunLogConfig(str(path)))
    async with studio(path, StudioAgent(agent, config)) as client:
        run_id = await started(client, "Scan the shelf.")
        rows = (await ended(client, run_id))["document"]["rows"]
        (call_row,) = (row for row in rows if row["kind"] == "tool")
        first, second = (row for row in rows if row["label"] == "scan")
        assert (first["title"], first["note"]) == ("<b>row</b>", "number=7, text=<script>x</script>")
        assert (second["title"], second["note"], second["minor"]) == ("count", "0", False)
        assert first["depth"] == call_row["depth"] + 1
        body = (await client.get(f"/api/runs/{run_id}/rows/{first['id']}")).json()["body"]
        assert (body["name"], body["data"]["number"]) == ("<b>row</b>", 7)


async def test_a_turn_shows_what_the_model_saw_said_and_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with studio(path, summing(path, *SUM)) as client:
        run_id = await started(client)
        rows = (await ended(client, run_id))["document"]["rows"]
        turns = [row["id"] for row in rows if row["kind"] == "turn"]
        first = (await client.get(f"/api/runs/{run_id}/rows/{turns[0]}")).json()
        second = (await client.get(f"/api/runs/{run_id}/rows/{turns[1]}")).json()
        assert first["response"]["tool_calls"][0]["arguments"] == {"a": 1, "b": 2}
        assert all(each["is_new"] for each in first["messages"])
        new = [each["message"]["tag"] for each in second["messages"] if each["is_new"]]
        assert new == ["AssistantMessage", "ToolMessage"]
        assert second["turn_before"] == "Turn 1"
        (called,) = (row["id"] for row in rows if row["kind"] == "tool")
        details = (await client.get(f"/api/runs/{run_id}/rows/{called}")).json()
        assert (details["arguments"], details["result"], details["origin"]) == (
            {"a": 1, "b": 2},
            3,
            "executed",
        )
        assert (await client.get(f"/api/runs/{run_id}/rows/9999")).status_code == 404
        assert (await client.get("/api/runs/none")).status_code == 404


async def test_a_stream_goes_on_after_the_event_that_the_page_has(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with studio(path, summing(path, *SUM)) as client:
        run_id = await started(client)
        whole = (await ended(client, run_id))["document"]
        late = events_of(
            (await client.get(f"/api/runs/{run_id}/stream", headers={"last-event-id": "10"})).text
        )
        changed = json.loads(late[0]["data"])["document"]
        assert late[0]["id"] == str(whole["last"])
        assert {row["id"] for row in changed["rows"]} < {row["id"] for row in whole["rows"]}


# --- what it does --------------------------------------------------------------------------------------


async def test_a_call_is_approved_and_another_denied(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    turns = (
        call("send", text="one"),
        call("send", text="two"),
        answer("One letter is sent; two was denied."),
    )
    async with studio(path, summing(path, *turns)) as client:
        run_id = await started(client, "Send one and two.")

        settled = set[str]()

        async def settle(**given: Any) -> Any:
            new: list[Any] = []
            while not new:
                waiting = (await client.get(f"/api/runs/{run_id}")).json()["document"]["waiting"]
                new = [each for each in waiting if each["id"] not in settled]
            each = new[0]
            settled.add(each["id"])
            body = {"kind": each["kind"], "id": each["id"], **given}
            assert (await client.post(f"/api/runs/{run_id}/answers", json=body)).status_code == 200
            again = await client.post(f"/api/runs/{run_id}/answers", json=body)
            assert again.status_code in (404, 409)
            return each["request"]["arguments"]["text"]

        assert await settle(approved=True) == "one"
        assert await settle(approved=False, reason="Not this one.") == "two"
        shown = await ended(client, run_id)
        calls = [row for row in shown["document"]["rows"] if row["kind"] == "tool"]
        assert [row["state"] for row in calls] == ["done", "denied"]
        details = (await client.get(f"/api/runs/{run_id}/rows/{calls[0]['id']}")).json()
        assert (details["shown"], details["is_shortened"]) == ("sent one", False)
        details = (await client.get(f"/api/runs/{run_id}/rows/{calls[1]['id']}")).json()
        assert details["approval"] | {"copied": None} == {
            "approved": False,
            "reason": "Not this one.",
            "by": "the studio",
            "risk": "high",
            "notice": "",
            "copied": None,
        }


async def test_a_call_shows_the_arguments_of_its_approver_and_the_runs_of_its_wrapper(tmp_path: Path) -> None:
    async def twice(ctx: RunContext[object], made: ToolCall, run: RunTool) -> ToolResult:
        await run(made.arguments)
        return await run(made.arguments)

    path, other = tmp_path / "runs.db", dict[str, Any](text="two")
    builder = ReactiveAgents.create().with_name("sums").with_reasoning().with_tools(send).with_run_log(path)
    builder = builder.with_llm(ScriptedLLM(call("send", text="one"), answer("Sent.")))
    builder = builder.with_approval(lambda _: ApprovalDecision(True, arguments=other, by="Ada"))
    agent = builder.with_tool_wrapper(twice).build()
    config = AgentConfig(name="sums", run_log=RunLogConfig(str(path)))
    async with studio(path, StudioAgent(agent, config)) as client:
        run_id = await started(client, "Send one.")
        rows = (await ended(client, run_id))["document"]["rows"]
        (row,) = [each["id"] for each in rows if each["kind"] == "tool"]
        details = (await client.get(f"/api/runs/{run_id}/rows/{row}")).json()
    assert (details["arguments"], details["ran"]) == (other, [other, other])
    assert (details["approval"]["asked"], details["approval"]["by"]) == ({"text": "one"}, "Ada")


async def test_a_studio_without_the_agent_shows_which_runs_wait_and_which_are_interrupted(
    tmp_path: Path,
) -> None:
    path, reached = tmp_path / "runs.db", anyio.Event()

    async def nap() -> str:
        """Sleep."""
        reached.set()
        await anyio.sleep_forever()
        return ""

    model = ScriptedLLM(call("send", text="one"), call("nap"))
    builder = ReactiveAgents.create().with_name("sums").with_llm(model).with_reasoning().with_approval()
    builder = builder.with_tools(send, nap).with_run_log(path).with_durability(path, recover=False)
    async with builder.build() as agent:
        for run_id, is_there in (("waits", agent.pending_approvals), ("naps", reached.is_set)):
            async with anyio.create_task_group() as group:
                group.start_soon(lambda name=run_id: agent.run("Do it.", run_id=name))
                await until(is_there)
                group.cancel_scope.cancel()
    async with studio(path) as client:
        assert await states(client) == ["interrupted", "waiting"]
        opened = [
            (await client.get(f"/api/runs/{each}")).json()["run"]["status"] for each in ("naps", "waits")
        ]
        assert opened == ["interrupted", "waiting"]


async def test_a_run_is_paused_stopped_and_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    waits = call("send", text="one")
    async with studio(path, summing(path, waits, waits)) as client:
        for action, status in (("stop", "partial"), ("cancel", "cancelled")):
            run_id = await started(client)
            seen: list[str] = []
            while seen[:1] != ["waiting"]:
                await anyio.sleep(0.01)
                seen = await states(client)
            can = (await client.get(f"/api/runs/{run_id}")).json()["can"]
            assert (can["order"], can["stop"], can["answer"]) == (True, True, True)
            for order in ("pause", "resume", action):
                done = await client.post(f"/api/runs/{run_id}/orders", json={"action": order})
                assert done.status_code == 200, done.text
            shown = await ended(client, run_id)
            assert shown["run"]["status"] == status
            assert ("was cancelled" in shown["document"]["ended"]["reason"]) == (action == "cancel")
            late = await client.post(f"/api/runs/{run_id}/orders", json={"action": "pause"})
            assert late.status_code == 409


@pytest.mark.parametrize("by", ["the studio", "Ada"])
async def test_orders_and_decisions_of_the_studio_are_audited_in_its_name(tmp_path: Path, by: str) -> None:
    path = tmp_path / "runs.db"
    turns = (call("send", text="one"), call("send", text="two"), answer("One is sent; two was denied."))
    options: dict[str, Any] = {} if by == "the studio" else {"by": by}
    audited = summing(path, *turns, audit=AuditConfig(str(tmp_path / "audit.db")))
    async with studio(path, audited, **options) as client:
        run_id = await started(client)
        for order in ("pause", "resume"):
            await client.post(f"/api/runs/{run_id}/orders", json={"action": order})
        settled: list[str] = []
        for approved in (True, False):
            new: list[str] = []
            while not new:
                waiting = (await client.get(f"/api/runs/{run_id}")).json()["document"]["waiting"]
                new = [each["id"] for each in waiting if each["id"] not in settled]
            settled += new
            await settled_by(client, run_id, kind="approval", id=new[0], approved=approved)
        await ended(client, run_id)
        entries = (await client.get("/api/audit?agent=sums")).json()["entries"]
    told = {each["action"]: each["detail"] for each in entries}
    assert [by in told[each] for each in ("pause", "resume", "approval", "denial")] == [True] * 4


async def test_a_run_is_forked_at_a_step_and_compared_with_its_fork(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with studio(path, summing(path, *SUM, answer("It is 30."))) as client:
        run_id = await started(client)
        shown = await ended(client, run_id)
        assert (shown["can"]["fork"], shown["can"]["recording"]) == (True, True)
        (called,) = (row["id"] for row in shown["document"]["rows"] if row["kind"] == "tool")
        step = (await client.get(f"/api/runs/{run_id}/rows/{called}")).json()["fork_step"]
        forked = await client.post(f"/api/runs/{run_id}/fork", json={"step": step, "tool_result": 30})
        assert forked.status_code == 201, forked.text
        fork = await ended(client, forked.json()["run_id"])
        assert fork["document"]["answer"] == "It is 30."
        compared = (await client.get(f"/api/compare/{run_id}/{fork['run']['run_id']}")).json()
        rows = [{row["id"]: row for row in side["rows"]} for side in compared["runs"]]
        pair = compared["pairs"][compared["first"]]
        assert [rows[side][pair[side]]["title"] for side in (0, 1)] == ["add", "add"]
        turn, _, same = compared["pairs"][0]
        assert (rows[0][turn]["title"], same) == ("Turn 1", True)


async def test_a_run_that_is_under_way_is_forked_when_it_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    turns = call("send", text="Hello"), answer("Sent."), answer("Done.")
    async with studio(path, summing(path, *turns)) as client:
        run_id = await started(client)
        can, shown = {}, ""
        for _ in range(500):
            if shown != "waiting":
                await anyio.sleep(0.02)
                run = (await client.get(f"/api/runs/{run_id}")).json()
                can, shown = run["can"], run["run"]["status"]
        refused = await client.post(f"/api/runs/{run_id}/fork", json={"step": 1})
        assert (can["fork"], refused.status_code) == (False, 409)
        assert can["reason"] == refused.json()["detail"]
        await client.post(f"/api/runs/{run_id}/orders", json={"action": "cancel"})
        assert (await ended(client, run_id))["can"]["fork"]
        forked = await client.post(f"/api/runs/{run_id}/fork", json={"step": 1})
        assert (await ended(client, forked.json()["run_id"]))["run"]["status"] == "completed"


async def test_a_fork_asks_another_model_and_shows_it_a_message(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with studio(path, summing(path, *SUM, answer("C'est 3."))) as client:
        run_id = await started(client)
        rows = (await ended(client, run_id))["document"]["rows"]
        turn = next(row["id"] for row in rows if row["title"] == "Turn 2")
        step = (await client.get(f"/api/runs/{run_id}/rows/{turn}")).json()["fork_step"]
        body = {"step": step, "model": "another", "message": "Say it in French."}
        forked = await client.post(f"/api/runs/{run_id}/fork", json=body)
        assert forked.status_code == 201, forked.text
        fork = await ended(client, forked.json()["run_id"])
        assert fork["document"]["answer"] == "C'est 3."
        turn = next(row["id"] for row in fork["document"]["rows"] if row["title"] == "Turn 2")
        seen = (await client.get(f"/api/runs/{forked.json()['run_id']}/rows/{turn}")).json()
        assert seen["model"] == "another"
        assert "Say it in French." in seen["messages"][-1]["message"]["content"]
        for wrong, status in (({"step": 99}, 409), ({"step": 0}, 422), ({"step": 1, "tool_result": 3}, 409)):
            assert (await client.post(f"/api/runs/{run_id}/fork", json=wrong)).status_code == status


async def test_null_is_a_result_of_a_fork_too(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with studio(path, summing(path, *SUM, *[answer("There is no sum.")] * 2)) as client:
        run_id = await started(client)
        await ended(client, run_id)
        forked = await client.post(f"/api/runs/{run_id}/fork", json={"step": 2, "tool_result": None})
        assert forked.status_code == 201, forked.text
        fork = await ended(client, forked.json()["run_id"])
        (called,) = (row["id"] for row in fork["document"]["rows"] if row["kind"] == "tool")
        seen = (await client.get(f"/api/runs/{forked.json()['run_id']}/rows/{called}")).json()
        assert (seen["result"], seen["error"]) == (None, "")


def asking_things(path: Path, *turns: Turn) -> StudioAgent:
    """An agent that asks a person, and has a tool that another program executes."""
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    locate = external_tool("locate", schema, description="Where the user is.")
    builder = ReactiveAgents.create().with_name("sums").with_llm(ScriptedLLM(*turns)).with_reasoning()
    builder = builder.with_tools(locate).with_ask_user().with_run_log(path)
    durable = DurabilityConfig(str(path), recover=False)
    agent = builder.with_durability(path, recover=False).build()
    return StudioAgent(agent, AgentConfig(name="sums", durability=durable))


@pytest.mark.parametrize("here", [True, False], ids=["here", "elsewhere"])
async def test_a_question_is_answered_and_the_result_of_a_call_delivered(tmp_path: Path, here: bool) -> None:
    path = tmp_path / "runs.db"
    turns = (call("ask-user", question="Which size?", options=["S", "L"]), call("locate"), answer("Sent."))
    elsewhere = asking_things(path, *turns).agent
    async with (
        studio(path, asking_things(path, *turns)) as client,
        elsewhere,
        anyio.create_task_group() as group,
    ):
        run_id = await started(client, "Send it.") if here else "order%2F7"
        if not here:
            group.start_soon(lambda: elsewhere.run("Send it.", run_id="order/7"))
        for kind, value in (("question", "L"), ("call", {"lat": 1})):
            waiting: list[Any] = []
            while [each["kind"] for each in waiting] != [kind]:
                await anyio.sleep(0.01)
                shown = (await client.get(f"/api/runs/{run_id}")).json()
                waiting = shown.get("document", {"waiting": []})["waiting"]
            if kind == "question":
                body = {"kind": kind, "id": waiting[0]["id"], "value": " "}
                blank = await client.post(f"/api/runs/{run_id}/answers", json=body)
                assert (blank.status_code, blank.json()["code"]) == (422, "blank-answer")
            await settled_by(client, run_id, kind=kind, id=waiting[0]["id"], value=value)
        shown = await ended(client, run_id)
    assert shown["document"]["answer"] == "Sent."
    results = [row for row in shown["document"]["rows"] if row["kind"] == "tool"]
    assert [row["title"] for row in results] == ["ask-user", "locate"]


async def test_a_run_goes_into_a_file_and_opens_in_another_studio(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with studio(path, summing(path, *SUM)) as client:
        run_id = await started(client)
        shown = await ended(client, run_id)
        file = (await client.get(f"/api/runs/{run_id}/export")).text
        again = (await client.post("/api/open", json={"text": file})).json()["run_ids"]
        assert again == [f"{run_id}~2"]
    async with studio(tmp_path / "others.db") as other:
        (opened,) = (await other.post("/api/open", json={"text": file})).json()["run_ids"]
        seen = (await other.get(f"/api/runs/{opened}")).json()
        assert seen["document"] == shown["document"]
        assert not seen["can"]["order"]
        assert "opened from a file" in seen["can"]["reason"]
        turn = next(row["id"] for row in seen["document"]["rows"] if row["title"] == "Turn 2")
        assert (await other.get(f"/api/runs/{opened}/rows/{turn}")).json()["messages"][-1]["message"][
            "content"
        ] == "3"
        assert [each["opened"] for each in (await other.get("/api/runs")).json()["runs"]] == [True]
    assert not (tmp_path / "others.db").exists()


async def test_the_file_of_a_run_has_all_of_its_many_sub_runs(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    one = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("Done.")))).with_run_log(path).build()

    @tool
    async def begin() -> str:
        """Begin the others."""
        for number in range(501):
            await one.run(f"Part {number}.")
        return "all done"

    llm = ScriptedLLM(call("begin"), answer("All are done."))
    many = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(begin).with_run_log(path).build()
    async with one, many:
        result = await many.run("Begin them.")
    async with studio(path) as client:
        file = (await client.get(f"/api/runs/{result.run_id}/export")).text
    runs = [read["run"] for read in map(json.loads, file.splitlines()) if "run" in read]
    assert len(runs) == 1 + 501


async def test_a_file_that_another_program_wrote_again_opens(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with studio(path, summing(path, *SUM)) as client:
        run_id = await started(client, "Sum up:\u20281 and 2.")
        await ended(client, run_id)
        file = (await client.get(f"/api/runs/{run_id}/export")).text
        lines = [json.dumps(json.loads(line), ensure_ascii=False) for line in file.splitlines()]
        assert "\u2028" in lines[0]
        opened = await client.post("/api/open", json={"text": "\r\n".join(lines)})
        assert opened.json()["run_ids"] == [f"{run_id}~2"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        '{"event": {}}',
        '{"run": {"run_id": 7}}',
        '{"run": "../../etc/passwd"}',
        "[" * 100_000,
        '{"run": {}}\n{"event": {}}',
    ],
)
async def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    async with studio(tmp_path / "runs.db") as client:
        refused = await client.post("/api/open", json={"text": text})
        assert refused.status_code == 422
        assert refused.headers["content-type"] == "application/problem+json"


async def test_a_run_is_saved_as_a_recording_that_plays(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with studio(path, summing(path, *SUM)) as client:
        run_id = await started(client)
        await ended(client, run_id)
        (tmp_path / "recording.json").write_text((await client.get(f"/api/runs/{run_id}/recording")).text)
    player = RecordedRunPlayer(tmp_path / "recording.json")
    agent = ReactiveAgents.create().with_llm(player).with_reasoning().with_tools(add).build()
    assert (await agent.run(player.task)).output == "It is 3."


async def test_a_log_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_bytes(b"no database" * 100)
    async with studio(tmp_path / "runs.db") as client:
        told = await client.get("/api/runs")
        assert told.status_code == 422
        assert "runs.db" in told.json()["detail"]


async def test_a_run_of_another_process_is_approved_by_its_record(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    elsewhere = summing(path, call("send", text="one"), answer("One is sent.")).agent
    async with studio(path, summing(path)) as client, elsewhere, anyio.create_task_group() as group:
        group.start_soon(lambda: elsewhere.run("Send one.", run_id="r-1"))
        shown: Any = {"document": {"waiting": []}}
        while not shown.get("document", {"waiting": []})["waiting"]:
            await anyio.sleep(0.02)
            shown = (await client.get("/api/runs/r-1")).json()
        assert (shown["can"]["answer"], shown["can"]["order"], shown["can"]["stop"]) == (True, True, False)
        (each,) = shown["document"]["waiting"]
        await settled_by(client, "r-1", kind=each["kind"], id=each["id"], approved=True)
        assert (await ended(client, "r-1"))["document"]["answer"] == "One is sent."


async def test_an_interrupted_run_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    killed = summing(path, call("add", a=1, b=2), call("send", text="one")).agent
    async with killed, anyio.create_task_group() as group:
        group.start_soon(lambda: killed.run("Add, and send it.", run_id="r-1"))
        await until(killed.pending_approvals)
        group.cancel_scope.cancel()
    async with studio(path, summing(path, answer("It is 3; sending was not approved."))) as client:
        before = (await client.get("/api/runs/r-1")).json()
        assert before["can"]["resume"]
        assert await states(client) == ["waiting"]  # no process has it, and its letter needs approval
        assert (await client.post("/api/runs/r-1/orders", json={"action": "continue"})).status_code == 200
        await settled_by(client, "r-1", kind="approval", id="r-1:t2", approved=False, reason="No.")
        after = await ended(client, "r-1")
        assert after["document"]["answer"] == "It is 3; sending was not approved."
        titles = [row["title"] for row in after["document"]["rows"] if row["kind"] in ("turn", "attempt")]
        assert titles == ["Turn 1", "Turn 2", "Continued, attempt 2", "Turn 1", "Turn 2", "Turn 3"]
        totals = after["document"]["totals"]
        assert [totals["model_calls"], totals["models"][0]["calls"], totals["tool_calls"]] == [3, 3, 2]


async def test_the_text_of_a_model_is_followed_as_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    thinking = streamed(call("send", text="one"), ThinkingDelta("First I "), ThinkingDelta("send it."))
    agent = summing(path, thinking, answer("It is sent."))
    app = create_studio(RunLibrary(path, read_only=False), [agent], token=TOKEN)
    async with (
        listening(app) as address,
        httpx.AsyncClient(base_url=address, timeout=60) as client,
    ):
        client.base_url = await signed_in(client)
        run_id = await started(client, "Send, and add.")
        seen: list[str] = []
        async with client.stream("GET", f"/api/runs/{run_id}/stream") as stream:
            async for line in stream.aiter_lines():
                name, _, value = line.partition(": ")
                seen += [value] if name == "event" else []
                if name == "data" and json.loads(value).get("text") == "First I send it.":
                    shown: Any = {"document": {"waiting": []}}
                    while not shown["document"]["waiting"]:  # the log is a moment later
                        shown = (await client.get(f"/api/runs/{run_id}")).json()
                    (waiting,) = shown["document"]["waiting"]
                    again = f"/api/runs/{run_id}/stream?after={shown['document']['last']}"
                    async with client.stream("GET", again) as late:  # what can be done may have changed
                        data = [each async for each in first_of(late.aiter_lines(), "data: ")]
                    assert json.loads(data[0])["can"] == shown["can"]
                    body = {"kind": "approval", "id": waiting["id"], "approved": True}
                    await client.post(f"/api/runs/{run_id}/answers", json=body)
        assert "delta" in seen
        assert (seen[0], seen[-1]) == ("changes", "end")


# --- other records -------------------------------------------------------------------------------------


async def test_conversations_memory_budgets_and_the_audit_log_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    options = {
        "memory": MemoryConfig(str(tmp_path / "memory.db")),
        "audit": AuditConfig(str(tmp_path / "audit.db")),
        "cost": CostConfig(str(tmp_path / "cost.db"), daily_usd=5.0, user_daily_usd=2.0),
    }
    async with studio(path, summing(path, *SUM, **options), records=StudioRecords()) as client:
        task = "My name is Ann, and I live in Vienna. Add 1 and 2."
        run_id = await started(client, task, session="s-1")
        await ended(client, run_id)
        await until_stored(client)
        (session,) = (await client.get("/api/sessions?agent=sums")).json()["sessions"]
        assert session["session"] == "s-1"
        messages = (await client.get("/api/sessions/sums/s-1")).json()["messages"]
        assert [messages[0]["content"], messages[-1]["content"]] == [task, "It is 3."]
        assert (await client.get("/api/sessions/sums/new")).json()["messages"] == []
        entries = (await client.get("/api/memory?agent=sums")).json()["entries"]
        assert any("Vienna" in each["content"] for each in entries)
        found = (await client.get("/api/memory?agent=sums&text=vienna")).json()["entries"]
        forget = {"agent": "sums", "id": found[0]["id"]}
        assert (await client.post("/api/memory/forget", json=forget)).json() == {"forgotten": 1}
        left = (await client.get("/api/memory?agent=sums")).json()["entries"]
        assert len(left) == len(entries) - 1
        audit = (await client.get("/api/audit?agent=sums")).json()
        assert audit["valid"]
        assert audit["entries"][0]["run_id"] == run_id
        budgets = (await client.get("/api/budgets")).json()
        assert budgets["by_agent"][0]["runs"] == 1
        assert [(each["name"], each["runs"]) for each in budgets["by_user"]] == [("", 1)]
        of_user = {"agent": "sums", "period": "each user, a day", "limit_usd": 2.0, "spent_usd": None}
        of_day = {"agent": "sums", "period": "day", "limit_usd": 5.0, "spent_usd": 0.0}
        assert budgets["limits"] == [of_day, of_user]
        assert (await client.get("/api/memory?agent=nobody")).status_code == 404


async def test_a_store_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path, spoiled = tmp_path / "runs.db", tmp_path / "spoiled.db"
    spoiled.write_text("This is no database. " * 100)
    config = AgentConfig(
        "sums", memory=MemoryConfig(str(spoiled)), cost=CostConfig(str(spoiled), daily_usd=5.0)
    )
    agent = ReactiveAgents.create().with_name("sums").with_llm(ScriptedLLM()).with_sessions(spoiled).build()
    async with studio(path, StudioAgent(agent, config), records=StudioRecords()) as client:
        for place in ("sessions?agent=sums", "sessions/sums/s-1", "memory?agent=sums", "budgets"):
            refused = await client.get(f"/api/{place}")
            assert (refused.status_code, refused.json()["code"]) == (503, "unavailable"), place
            assert "spoiled.db" in refused.json()["detail"]


async def test_a_run_whose_record_cannot_be_read_is_shown_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    builder = ReactiveAgents.create().with_name("sums").with_llm(ScriptedLLM(*SUM)).with_reasoning()
    described = builder.with_tools(add).with_run_log(path)
    plain = described.with_durability(path).build()
    await plain.run("Add 1 and 2.", run_id="r")
    await plain.aclose()
    sealed = described.with_llm(ScriptedLLM(*SUM)).with_durability(path, key=bytes(32)).build()
    await sealed.run("Add 1 and 2.", run_id="sealed")
    await sealed.aclose()
    with sqlite_file(path) as file:
        file.execute("UPDATE runs SET task = (SELECT task FROM runs WHERE run_id = 'sealed')")
    async with studio(path, summing(path)) as client:
        refused = await client.get("/api/runs/sealed")  # its log has the same key
        assert "it is encrypted, and there is no key" in refused.json()["detail"]
        run = (await client.get("/api/runs/r")).json()
        assert "it is encrypted, and there is no key" in run["can"]["reason"]
        (tool,) = [each for each in run["document"]["rows"] if each["kind"] == "tool"]
        step = await client.get(f"/api/runs/r/rows/{tool['id']}")
        assert (step.status_code, step.json()["fork_step"]) == (200, None)
        recording = await client.get("/api/runs/r/recording")
        assert (recording.status_code, recording.json()["code"]) == (503, "unavailable")


async def test_budgets_say_how_many_users_there_are(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("Hello.")))).with_run_log(path).build()
    for number in range(52):
        await agent.run("Hello.", user=f"user-{number}")
    await agent.aclose()
    async with studio(path) as client:
        budgets = (await client.get("/api/budgets")).json()
        assert (len(budgets["by_user"]), budgets["users"], budgets["days"]) == (50, 52, 1)


async def test_a_conversation_of_a_user_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    turns = (answer("It is so."), answer("It is still so."))
    async with studio(path, summing(path, *turns)) as client:
        await ended(client, await started(client, "Say it.", session="s-1", user="ann"))
        await until_stored(client)
        (stored,) = (await client.get("/api/sessions?agent=sums")).json()["sessions"]
        known = (await client.get(f"/api/sessions/sums/{stored['session']}")).json()
        assert (known["name"], known["user"]) == ("s-1", "ann")
        again = {"session": known["name"], "user": known["user"]}
        await ended(client, await started(client, "Say it again.", **again))
        messages: list[Any] = []
        while len(messages) < 4:
            messages = (await client.get(f"/api/sessions/sums/{stored['session']}")).json()["messages"]
            await anyio.sleep(0.02)
        assert messages[-1]["content"] == "It is still so."


async def test_plans_and_learnings_of_a_persona_are_shown_and_deleted(tmp_path: Path) -> None:
    memory = tmp_path / "memory.db"
    llm = ScriptedLLM(
        planned("Gather facts.", "Write."),
        say("Facts: 42.", when="Gather facts.\n"),
        say("It is 42.", when="Write.\n"),
        assessed("Begin with the facts."),
    )
    store = SqlitePersonaStore(memory)
    await persona_bench(llm, store=store).process("What is React?")
    await store.aclose()
    personas = {each: PersonaConfig(each.title(), str(memory), id=each) for each in ("ada", "eve")}
    records = StudioRecords(personas)
    async with studio(tmp_path / "runs.db", records=records) as client:
        assert (await client.get("/api/state")).json()["personas"][0] == {"id": "ada", "name": "Ada"}
        shown = (await client.get("/api/personas/ada")).json()
        (plan,) = shown["plans"]
        assert [box["title"] for box in plan["diagram"]["boxes"]][1:] == ["Gather facts.", "Write."]
        assert plan["diagram"]["boxes"][1]["state"] == "completed"
        assert plan["diagram"]["edges"] == [["goal", "s1"], ["s1", "s2"]]
        assert "event" in {line["stage"] for line in plan["explanation"]}
        (learning,) = shown["learnings"]
        foreign = await client.post("/api/personas/eve/forget", json={"id": learning["id"]})
        assert foreign.json() == {"forgotten": False}
        forgotten = await client.post("/api/personas/ada/forget", json={"id": learning["id"]})
        assert forgotten.json() == {"forgotten": True}
        assert (await client.get("/api/personas/ada")).json()["learnings"] == []
        assert (await client.get("/api/personas/bob")).status_code == 404
    store = SqlitePersonaStore(memory)
    (kept,) = (await attempt(store.list_learnings(PersonaId("ada")))).unwrap()
    await store.aclose()
    assert kept.rejected  # it is recognised, and not learned again


async def test_a_tampered_audit_log_is_told(tmp_path: Path) -> None:

    path, audit = tmp_path / "runs.db", tmp_path / "audit.db"
    async with studio(path, summing(path, *SUM, audit=AuditConfig(str(audit)))) as client:
        await ended(client, await started(client))
    with sqlite_file(audit) as file:
        (table,) = file.execute(
            "SELECT name FROM sqlite_schema WHERE sql LIKE '%hash%' AND type = 'table'"
        ).fetchone()
        for (trigger,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            file.execute(f'DROP TRIGGER "{trigger}"')
        file.execute(f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})")
    async with studio(path, summing(path, *SUM, audit=AuditConfig(str(audit)))) as client:
        told = (await client.get("/api/audit?agent=sums")).json()
        assert told["valid"] is False
        assert told["problem"]
