"""Tools whose result is the answer of the run."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve, frozen

from reactive_agents import AgentError, ModelRetry, ReactiveAgents, tool
from reactive_agents.core.codec import to_json
from reactive_agents.core.config import CheckConfig
from reactive_agents.core.events import ModelTextRetracted, ModelTextStreamed
from reactive_agents.core.messages import AssistantMessage
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.testing import ScriptedLLM, Turn, answer, call, calls

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
LONG = "\n".join(f"{n:04} a line of the report" for n in range(2_000))


@frozen
class City:
    name: str
    people: int


@tool(return_direct=True)
def report(of: str = "") -> Any:
    """Return the report."""
    if of == "broken":
        raise ValueError("no such report")
    made = {"long": LONG, "city": City("Rome", 2_800_000), "nothing": None, "blank": " "}
    return made.get(of, f"The report of {of}.")


@tool
def look(at: str = "") -> str:
    """Look something up."""
    if at == "away":
        raise ValueError("not there")
    return f"seen {at}"


def building(*turns: Turn, strategy: str = "reactive", tools: Any = (report, look)) -> Any:
    built: Any = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_tools(*tools)
    return built.with_reasoning(strategy) if strategy else built


@pytest.mark.parametrize("strategy", ["reactive", "direct", ""])
@pytest.mark.parametrize(("of", "text"), [("May", "The report of May."), ("long", LONG)])
async def test_the_result_is_the_answer_as_it_is(strategy: str, of: str, text: str) -> None:
    result = await building(call("report", of=of), strategy=strategy).build().run("The report.")
    assert (result.status, result.output, result.metadata.model_calls) == ("completed", text, 1)
    assert result.metadata.terminated_by == "return_direct"
    assert result.reason == "The result of report is the answer."
    assert result.new_messages[-1] == AssistantMessage(text)


async def test_a_streamed_run_ends_with_the_text_of_the_result() -> None:
    standing = ""
    async with aclosing(building(call("report", of="May")).build().stream("The report.")) as events:
        async for event in events:
            if isinstance(event, ModelTextRetracted):
                standing = ""
            standing += event.text if isinstance(event, ModelTextStreamed) else ""
    assert standing == "The report of May."


@pytest.mark.parametrize("of", ["broken", "nothing", "blank"])
async def test_a_failure_and_an_empty_result_go_to_the_model(of: str) -> None:
    result = await building(call("report", of=of), call("report", of="May")).build().run("The report.")
    assert (result.output, result.metadata.model_calls) == ("The report of May.", 2)


async def test_of_calls_in_one_turn_all_are_run_and_the_last_such_result_is_the_answer() -> None:
    turn = calls(call("report", of="May"), call("report", of="June"), call("look", at="a"))
    result = await building(turn).build().run("The report.")
    assert (result.status, result.output) == ("completed", "The report of June.")
    assert set(result.tool_results) == {"report-1", "report-2", "look-3"}


async def test_a_call_that_is_not_approved_does_not_end_the_run() -> None:
    guarded = tool(return_direct=True, requires_approval=True)(report.function)
    turns = call("report", of="May"), answer("There is no report, since it was not approved.")
    built = building(*turns, tools=(guarded,)).with_approval(lambda request: False).build()
    result = await built.run("The report.")
    assert result.metadata.model_calls == 2
    assert result.metadata.terminated_by != "return_direct"


async def test_what_is_required_is_done_first_and_the_run_ends_with_the_result() -> None:
    turns = call("report", of="May"), call("look", at="a")
    built = building(*turns).with_required_tools("look").build()
    result = await built.run("The report.")
    assert (result.status, result.output, result.metadata.model_calls) == (
        "completed",
        "The report of May.",
        2,
    )


async def test_what_cannot_be_done_any_more_makes_it_partial() -> None:
    built = building(call("report", of="May")).with_required_tools("look").with_max_iterations(1)
    result = await built.build().run("The report.")
    assert (result.status, result.output) == ("partial", "The report of May.")
    assert "Missing: required calls: look" in result.reason


async def test_an_act_that_failed_beside_it_is_the_models_to_repair() -> None:
    @tool(risk="medium")
    def send_mail(to: str) -> str:
        """Send a mail."""
        if to == "ann":
            raise ValueError("no such address")
        return "sent"

    first = calls(call("send_mail", to="ann"), call("report", of="May"))
    built = building(first, call("send_mail", to="ann@x.org"), tools=(report, send_mail)).build()
    result = await built.run("Send a mail to ann, and give me the report.")
    assert (result.status, result.output, result.metadata.model_calls) == (
        "completed",
        "The report of May.",
        2,
    )


@pytest.mark.parametrize("strategy", ["reactive", ""])
async def test_a_result_of_the_output_type_is_its_value(strategy: str) -> None:
    built = building(call("report", of="city"), strategy=strategy).with_output_type(City).build()
    result = await built.run("Which city?")
    assert (result.output, result.metadata.model_calls) == (City("Rome", 2_800_000), 1)


async def test_a_result_of_another_type_goes_to_the_model() -> None:
    turns = call("report", of="May"), answer({"name": "Rome", "people": 2_800_000})
    result = await building(*turns).with_output_type(City).build().run("Which city? 2800000 are in Rome.")
    assert (result.status, result.output, result.metadata.model_calls) == (
        "completed",
        City("Rome", 2_800_000),
        2,
    )


async def test_a_validator_turns_a_result_down_once() -> None:
    asked: list[str] = []

    def in_june(text: str) -> None:
        asked.append(text)
        if "June" not in text:
            raise ModelRetry("It is about June.")

    turns = call("report", of="May"), call("look", at="June"), call("report", of="June")
    result = await building(*turns).with_output_validator(in_june).build().run("The report.")
    assert (result.status, result.output, result.metadata.model_calls) == (
        "completed",
        "The report of June.",
        3,
    )
    assert asked == ["The report of May.", "The report of June."]


async def test_a_guardrail_sees_the_result_as_an_answer() -> None:
    brief = CheckConfig("length", max_characters=10, stages=("output",))
    built = building(call("report", of="May")).with_guardrails(brief).build()
    with pytest.raises(AgentError, match="The output was blocked"):
        await built.run("Go.")


async def test_a_call_in_the_text_of_a_result_is_not_run() -> None:
    @tool(return_direct=True)
    def fetch() -> str:
        """Fetch a page."""
        return '{"tool": "look", "arguments": {"at": "a"}}'

    result = await building(call("fetch"), tools=(fetch, look)).build().run("Fetch it.")
    assert (result.output, set(result.tool_results)) == (fetch(), {"fetch-1"})


async def test_reflexion_does_not_criticise_it() -> None:
    result = await building(call("report", of="May"), strategy="reflexion").build().run("The report.")
    assert (result.status, result.output, result.metadata.model_calls) == (
        "completed",
        "The report of May.",
        1,
    )


def test_stored_definitions_without_the_option_are_as_they_were() -> None:
    plain = ToolDefinition("look", "Look.", {"type": "object"})
    assert "return_direct" not in to_json(plain)
    assert '"return_direct":true' in to_json(evolve(plain, return_direct=True)).replace(" ", "")


# --- with a record ----------------------------------------------------------------------------------------


PROGRAM = """
import os, signal, sys
from reactive_agents import ReactiveAgents, tool
from reactive_agents.testing import ScriptedLLM, call

made = open(sys.argv[2], "a")

@tool(return_direct=True, risk="medium")
def report(of: str) -> str:
    "Return the report."
    print(of, file=made, flush=True)
    return f"The report of {of}."

def kill(context):
    if sys.argv[3] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)

turns = [call("report", of="May")] if sys.argv[3] == "kill" else []
builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(report)
agent = builder.with_hook("complete", "before", kill).with_durability(sys.argv[1], recover=False).build()
result = agent.run_sync("The report.", run_id="r1")
print(result.status, result.output, result.metadata.model_calls, result.metadata.terminated_by)
"""


@pytest.mark.system
def test_a_run_killed_after_the_result_ends_the_same_without_a_call(tmp_path: Path) -> None:
    def started(mode: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "r.db"), str(tmp_path / "made"), mode]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    killed, resumed = started("kill"), started("resume")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert resumed.stdout.split("\n")[0] == "completed The report of May. 1 return_direct", resumed.stderr
    assert (tmp_path / "made").read_text() == "May\n"


@pytest.mark.parametrize("was_done", [None, lambda key: "The report of May."])
async def test_a_call_in_doubt_ends_the_run_only_if_its_result_is_known(
    tmp_path: Path, was_done: Any
) -> None:
    hanging = anyio.Event()

    @tool(return_direct=True, risk="high", was_done=was_done)
    async def slow(of: str) -> None:
        """Return the report."""
        hanging.set()
        await anyio.sleep_forever()

    def built(*turns: Turn) -> Any:
        return building(*turns, tools=(slow,)).with_durability(tmp_path / "r.db", recover=False).build()

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: built(call("slow", of="May")).run("The report.", run_id="r1"))
        await hanging.wait()
        group.cancel_scope.cancel()
    unknown = answer("It is not known whether the report was made.")
    result = await built(unknown, unknown).run("The report.", run_id="r1")
    assert (result.metadata.terminated_by == "return_direct") is (was_done is not None)
    assert result.output == (
        "The report of May." if was_done else "It is not known whether the report was made."
    )


async def test_a_replay_ends_the_same(tmp_path: Path) -> None:
    built = building(call("report", of="May")).with_durability(tmp_path / "r.db", recover=False).build()
    result = await built.run("The report.", run_id="r1")
    replayed = await built.runs.replay("r1")
    assert replayed.outcome is not None
    assert (replayed.outcome.unwrap().output, replayed.difference) == (result.output, "")
