"""The offline model drives the ReAct kernel from the question to a finished run."""

from __future__ import annotations

import pytest
from returns.maybe import Nothing, Some

from reactive_agents.adapters.llm.offline import OfflineLLM
from reactive_agents.core.config import ResultCompressionConfig
from reactive_agents.core.ids import AgentId, RunId, SessionId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.settings import RunSettings
from reactive_agents.effects import attempt
from reactive_agents.kernel import (
    KernelInput,
    KernelRunOptions,
    KernelServices,
    KernelState,
    react_kernel,
    run_kernel,
)
from reactive_agents.testing import FakeClock, FakeTools, SequentialIds

pytestmark = pytest.mark.anyio

GUIDE = [f"Filler number {number} stands here." for number in range(40)]
GUIDE[4] = "The backup runs every night at two."


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def search(query: str) -> Json:
    words = query.lower().split()
    found: list[Json] = [
        {"path": "guide.md", "line": number, "text": line}
        for number, line in enumerate(GUIDE, 1)
        if any(word in line.lower() for word in words)
    ]
    return {"matches": found, "total": len(found)}


def read(path: str, start_line: int = 1, max_lines: int = 100) -> Json:
    if path != "guide.md":
        raise FileNotFoundError(path)
    part = GUIDE[start_line - 1 : start_line - 1 + max_lines]
    return {"path": path, "start_line": start_line, "total_lines": len(GUIDE), "text": "\n".join(part)}


def add(expression: str) -> int:
    return sum(int(part) for part in expression.split("+"))


async def run(task: str, tools: FakeTools | None, *, budget: int | None = None) -> KernelState:
    kernel_input = KernelInput(
        task,
        RunId("run"),
        TaskId("task"),
        AgentId("agent"),
        SessionId("session"),
        RunSettings(compression=ResultCompressionConfig(budget)),
    )
    services = KernelServices(
        OfflineLLM(), FakeClock(), SequentialIds(), Nothing if tools is None else Some(tools)
    )
    options = KernelRunOptions(6, "reactive", "react")
    return (await attempt(run_kernel(react_kernel, kernel_input, options, services))).unwrap()


@pytest.mark.parametrize("budget", [None, 400])
async def test_a_question_is_answered_with_a_quotation(budget: int | None) -> None:
    tools = FakeTools({"file-search": search, "file-read": read, "calculator": add})
    state = await run("When does the backup run, and what is 20 + 22?", tools, budget=budget)
    assert {call.name for call in tools.calls[:2]} == {"calculator", "file-search"}  # at once, in any order
    assert [call.name for call in tools.calls[2:]] == ["file-read"]
    assert (state.outcome, state.terminated_by, state.iteration) == ("completed", "final_answer", 3)
    assert state.output is not None
    assert "20 + 22 = 42" in state.output
    assert "“The backup runs every night at two.” (guide.md:5)" in state.output


async def test_a_tool_that_fails_leaves_an_honest_answer() -> None:
    tools = FakeTools({"file-read": read})
    state = await run("Summarise missing.md", tools)
    assert len(tools.calls) == 1
    assert (state.outcome, state.terminated_by) == ("partial", "failed_call")
    assert state.output == "There is nothing to quote for this question, and this model can only quote."


async def test_without_tools_the_run_ends_after_one_turn() -> None:
    state = await run("Who won?", None)
    assert (state.outcome, state.iteration) == ("completed", 1)
    assert "nothing to quote" in (state.output or "")
