"""Agents that are built in Python, as processes: dependencies are closed, and made again after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from reactive_agents.server import ApiKeys
from tests.support.waiting import until_blocking

APP = """
import os, signal, time
from contextlib import asynccontextmanager
from pathlib import Path

from reactive_agents import ReactiveAgents, RunContext, tool
from reactive_agents.testing import ScriptedLLM, answer, call, forever

FOLDER = Path(__file__).parent


def note(text):
    with (FOLDER / "notes").open("a") as file:
        file.write(f"{text}\\n")


note("imported")


@asynccontextmanager
async def shop_of(ctx: RunContext[None]):
    note(f"open {ctx.user}")
    try:
        yield f"the shop of {ctx.user}"
    finally:
        note(f"close {ctx.user}")


@tool(idempotent=True)
def sell(ctx: RunContext[str], item: str) -> str:
    "Sell an item."
    note("selling")
    while (FOLDER / "wait").exists():
        time.sleep(0.01)
    return f"{ctx.deps} sold {item}"


def make():
    model = ScriptedLLM(forever(answer("Sold.", when="sold tea")), forever(call("sell", item="tea")))
    described = ReactiveAgents.create(deps=str).with_name("clerk").with_llm(model).with_reasoning()
    described = described.with_tools(sell).with_durability(FOLDER / "runs.db")
    return described.with_run_log(FOLDER / "runs.db").with_deps(shop_of)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def notes(folder: Path) -> list[str]:
    path = folder / "notes"
    return path.read_text().splitlines() if path.exists() else []


@contextmanager
def process(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command in the folder, killed at the end."""
    program = "from reactive_agents.cli.main import main; main()"
    command = [sys.executable, "-P", "-c", program, *words]  # as the script, which has another path
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment) as started:
        try:
            yield started
        finally:
            started.kill()


def ended(folder: Path, *words: str) -> str:
    with process(folder, *words) as started:
        said, _ = started.communicate()
    assert started.returncode == 0
    return said


@contextmanager
def serving(folder: Path, command: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server of the agent, and its address."""
    with process(folder, command, "shop:make", "--port", "0", *options) as started:
        assert started.stdout is not None
        if command == "studio":
            yield started, started.stdout.readline().partition(" ")[2].strip()
            return
        text = ""
        while not text.endswith("}\n"):
            text += started.stdout.readline() or "}\n"
        yield started, json.loads(text)["address"]


def test_a_worker_goes_on_with_the_dependencies_of_the_user(folder: Path) -> None:
    (folder / "wait").touch()
    with process(folder, "run", "shop:make", "Sell tea.", "--user", "ada", "--run-id", "r1") as killed:
        until_blocking(lambda: "selling" in notes(folder))
        killed.kill()
    (folder / "wait").unlink()
    assert notes(folder) == ["imported", "open ada", "selling"]
    told = json.loads(ended(folder, "worker", "shop:make", "--until-idle", "--json"))
    assert (told["ended"], told["left"]) == ({"completed": 1}, [])
    assert notes(folder)[3:] == ["imported", "open ada", "selling", "close ada"]
    assert ended(folder, "run", "shop:make", "Sell tea.", "--user", "ada", "--run-id", "r1") == "Sold.\n"
    assert notes(folder)[7:] == ["imported"]  # a recorded result needs none


def test_a_worker_that_is_ended_closes_what_its_runs_have_open(folder: Path) -> None:
    (folder / "wait").touch()
    with process(folder, "run", "shop:make", "Sell tea.", "--user", "ada", "--run-id", "r1") as first:
        until_blocking(lambda: "selling" in notes(folder))
        first.kill()
    with process(folder, "worker", "shop:make", "--finish", "0") as worker:
        until_blocking(lambda: notes(folder).count("selling") == 2)
        worker.send_signal(signal.SIGTERM)
        (folder / "wait").unlink()
        worker.wait()
    assert notes(folder)[-1] == "close ada"


def test_a_server_takes_over_the_runs_of_one_that_was_killed(folder: Path) -> None:
    keys = ApiKeys(folder / "keys.json")
    headers = {"authorization": f"Bearer {keys.create('ada', user='ada')[0]}"}
    options = ("--keys", "keys.json", "--json")
    (folder / "wait").touch()
    with serving(folder, "serve", *options) as (_, other), serving(folder, "serve", *options) as (first, at):
        begun = httpx.post(f"{at}/v1/runs", json={"task": "Sell tea."}, headers=headers)
        until_blocking(lambda: "selling" in notes(folder))
        first.kill()
        (folder / "wait").unlink()
        place = f"{other}/v1/runs/{begun.json()['run_id']}"
        while (found := httpx.get(place, params={"wait_s": 60}, headers=headers, timeout=120).json())[
            "output"
        ] is None:
            assert found["status"] in ("interrupted", "running")
        assert (found["status"], found["output"]) == ("completed", "Sold.")
        asked = {"model": "clerk", "messages": [{"role": "user", "content": "Sell tea."}]}
        answered = httpx.post(f"{other}/v1/chat/completions", json=asked, headers=headers, timeout=120)
        assert answered.json()["choices"][0]["message"]["content"] == "Sold."
    opened = ["open ada", "selling", "close ada"]
    assert notes(folder) == ["imported", "imported", *opened[:2], *opened, *opened]


def test_an_agent_continues_its_own_runs_at_the_next_start(folder: Path) -> None:
    (folder / "wait").touch()
    with process(folder, "run", "shop:make", "Sell tea.", "--user", "eve", "--run-id", "r1") as killed:
        until_blocking(lambda: "selling" in notes(folder))
        killed.kill()
    (folder / "wait").unlink()
    assert ended(folder, "run", "shop:make", "Sell tea.", "--user", "bob") == "Sold.\n"
    assert notes(folder).count("open eve") == 1  # a command for one task continues no others
    program = (
        "import anyio, shop\nagent = shop.make().build()\n"
        "async def main():\n"
        "    async with agent:\n"
        "        print((await agent.runs.wait('r1')).tool_results)\n"
        "anyio.run(main)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout == "{'sell-1': 'the shop of eve sold tea'}\n"
    assert notes(folder)[-1] == "close eve"


def test_the_studio_begins_runs_of_an_agent_in_python(folder: Path) -> None:
    with serving(folder, "studio") as (_, address), httpx.Client(follow_redirects=True, timeout=120) as page:
        place = page.get(address).url
        state = page.get(place.join("api/state")).json()
        (shown,) = state["agents"]
        assert (shown["name"], shown["tools"], shown["durable"]) == ("clerk", ["sell"], True)
        task = {"agent": "clerk", "task": "Sell tea.", "user": "ada"}
        origin = address.partition("/?")[0]
        begun = page.post(place.join("api/runs"), json=task, headers={"origin": origin})
        assert begun.is_success, begun.text
        until_blocking(lambda: "close ada" in notes(folder))
