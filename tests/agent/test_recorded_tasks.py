"""Ten tasks with recorded models over HTTP: each ends right, or says honestly that it does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest
from attrs import frozen

from reactive_agents import Personas, ReactiveAgents
from reactive_agents.adapters.tools.decorator import tool
from reactive_agents.agent.agent import AgentResult
from tests.support.recorded_server import RECORDINGS, RecordedServer

ORDER = (
    "A dealer orders 3 full cartons of the Kestrel (with the second pot support) and 2 full cartons of the "
    "Halo 1000. What does the dealer pay for the goods, net, after all discounts, and what does EU shipping "
    "cost? Name the files that you used."
)
FILES = ("file-search", "file-read", "calculator", "file-write")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A copy of the documents."""
    copy = tmp_path / "workspace"
    shutil.copytree(RECORDINGS / "workspace", copy)
    return copy


def builder_for(server: RecordedServer, workspace: Path, *tools: object) -> ReactiveAgents:
    return (
        ReactiveAgents.create()
        .with_model("openai/recorded", base_url=server.base_url, api_key="none")
        .with_tools(*FILES, *tools)  # type: ignore[arg-type]
        .with_workspace(workspace)
        .with_approval(lambda _: True)
    )


def run(server: RecordedServer, builder: ReactiveAgents, task: str) -> AgentResult:
    with server:
        return builder.build().run_sync(task)


def test_a_capable_model_orders(workspace: Path) -> None:
    server = RecordedServer("order_capable")
    result = run(server, builder_for(server, workspace).with_reasoning(), ORDER)
    assert result.status == "completed"
    assert "2,967.74" in (result.output or "")
    assert (len(server.requests), server.left) == (3, [])


def test_an_announcement_of_a_weak_model_does_not_end_the_order(workspace: Path) -> None:
    server = RecordedServer("order_weak")
    builder = builder_for(server, workspace).with_reasoning().with_context_profile("local")
    result = run(server, builder.with_max_iterations(16), ORDER)
    assert (result.status, server.left) == ("completed", [])
    assert "2,967.74" in (result.output or "")
    assert "free" in (result.output or "")
    calls = [step for step in result.steps if step.type == "action"]
    assert sum(bool(step.metadata and step.metadata.repairs) for step in calls) >= 8


def test_a_plan_writes_the_comparison(workspace: Path) -> None:
    server = RecordedServer("comparison_plan")
    result = run(
        server,
        builder_for(server, workspace).with_reasoning("plan-execute-reflect"),
        "Compare the Kestrel and the Tarn: weight and boil time. Write comparison.md with a table.",
    )
    assert (result.status, server.left) == ("completed", [])
    assert "| Kestrel | 372 g |" in (workspace / "comparison.md").read_text("utf-8")
    assert "comparison.md" in (result.output or "")


def test_a_plan_whose_first_tool_fails_writes_the_right_table(workspace: Path) -> None:
    asked: list[str] = []

    @tool
    def gas_price(country: str) -> str:
        """Look up the price of a 230 g gas cartridge in a country."""
        asked.append(country)
        if len(asked) == 1:
            raise ConnectionError("the price service did not answer")
        return "5.98 euros for a 230 g cartridge"

    server = RecordedServer("fuel_plan")
    result = run(
        server,
        builder_for(server, workspace, gas_price).with_reasoning("plan-execute-reflect"),
        "Compare the Ember 2 and the Kestrel: how much does the gas for boiling 40 litres cost with each in "
        "Germany (DE), at the price per gram of the 230 g cartridge? Write fuel.md in the workspace with a "
        "table, then verify it.",
    )
    assert asked == ["DE", "DE"]
    assert (result.status, server.left) == ("completed", [])
    assert "13.03" in (workspace / "fuel.md").read_text("utf-8")
    assert "6.48" in (result.output or "")


def test_reflexion_turns_an_unsupported_claim_into_a_supported_one(workspace: Path) -> None:
    server = RecordedServer("letter_reflexion")
    result = run(
        server,
        builder_for(server, workspace).with_reasoning("reflexion"),
        "Write a short letter to a dealer who wants to return opened cartons.",
    )
    assert result.status == "completed"
    assert "12 %" in (result.output or "")
    assert any(step.type == "observation" and "60 days" in step.content for step in result.steps)


def test_tree_of_thought_stops_at_the_proof_that_there_is_no_solution() -> None:
    server = RecordedServer("puzzle_tree")
    agent = (
        ReactiveAgents.create()
        .with_model("openai/recorded", base_url=server.base_url, api_key="none")
        .with_reasoning("tree-of-thought")
    )
    result = run(server, agent, "Pay exactly 37 euros with coins of 6 and 10 euros only.")
    assert "no solution" in (result.output or "")
    assert result.status in ("completed", "abstained")
    assert len(server.requests) <= 4


@pytest.mark.parametrize(
    ("name", "task", "right"),
    [
        ("adaptive_question", "What is the boil time of the Tarn?", "3 minutes 10 seconds"),
        (
            "adaptive_slogan",
            "Improve this slogan for the Glim 300, which has to be true: 'Light for ever.'",
            "Nine hours",
        ),
        (
            "adaptive_quote",
            "First find the weights of the stoves, then work out the EU shipping for 10 pieces of each, and "
            "finally write shipping-quote.md.",
            "9.02 kg",
        ),
    ],
)
def test_adaptive_does_three_tasks(name: str, task: str, right: str, workspace: Path) -> None:
    server = RecordedServer(name)
    builder = builder_for(server, workspace).with_reasoning("adaptive", adaptive={"measured": False})
    result = run(server, builder, task)
    assert result.status == "completed"
    assert right in (result.output or "")


def test_a_persona_looks_things_up_and_knows_what_a_follow_up_is_about(
    workspace: Path, tmp_path: Path
) -> None:
    server = RecordedServer("persona_dealers")

    async def talk() -> tuple[str | None, str | None]:
        chat = builder_for(server, workspace).with_reasoning()
        described = Personas.create("Mira").with_memory(tmp_path / "mira.db").with_domain("chat", chat)
        async with described.build() as mira:
            first = await mira.send("How many grams of gas does the Kestrel need to boil 10 litres?")
            second = await mira.send("And for 5 litres?")
            return first.answer, second.answer

    with server:
        answers = anyio.run(talk)
    assert ["62 g" in (answers[0] or ""), "31 g" in (answers[1] or "")] == [True, True]
    assert server.left == []


@frozen
class Line:
    """One line of an order."""

    article: str
    pieces: int
    price: float


@frozen
class Order:
    """An order."""

    customer: str
    lines: tuple[Line, ...]
    total: float


def test_a_nested_value_is_read(workspace: Path) -> None:
    server = RecordedServer("order_typed")
    builder = builder_for(server, workspace).with_reasoning().with_output_type(Order)
    with server:
        result = builder.build().run_sync("Huber orders one full carton of the Kestrel at list price.")
    assert result.status == "completed"
    assert result.output == Order("Huber", (Line("ST-210", 8, 124.0),), 992.0)


def test_what_is_to_be_remembered_is_there_in_the_next_run(workspace: Path, tmp_path: Path) -> None:
    server = RecordedServer("memory_dealer")
    builder = (
        ReactiveAgents.create()
        .with_model("openai/recorded", base_url=server.base_url, api_key="none")
        .with_reasoning()
        .with_memory(tmp_path / "memory.db")
        .with_verification()
        .with_guardrails()
    )
    with server:
        agent = builder.build()
        first = agent.run_sync("Remember that dealer Huber wants the Kestrel delivered on Tuesdays.")
        second = agent.run_sync("On which day does dealer Huber want the Kestrel?")
    assert "Tuesdays" in (first.output or "")
    assert "Tuesdays" in (second.output or "")
    shown = str(server.requests[-1].body["messages"])
    assert "Huber" in shown.replace("On which day does dealer Huber", "")
    assert second.verification is not None
    assert second.verification.verified
