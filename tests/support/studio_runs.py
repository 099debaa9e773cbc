"""Recorded examples for the studio: a run of each strategy, made with scripted models; no key, no network.

``python -m tests.support.studio_runs`` makes them in ``build/studio`` and opens the studio on them.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
from attrs import evolve

from reactive_agents import ReactiveAgents, agent_tool, tool
from reactive_agents.adapters.telemetry.run_log import SqliteRunLog
from reactive_agents.core import events
from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from reactive_agents.core.models import ModelRequest, ModelResponse, Usage
from reactive_agents.testing import ScriptedLLM, Turn, answer, call, calls, fail, say
from tests.support.sqlite_files import sqlite_file

FOLDER = Path(__file__).parents[2] / "build" / "studio"

PRICES = {"Kestrel": "129.00 EUR", "Tarn": "99.00 EUR", "Ember 2": "74.50 EUR"}


@tool
async def price(product: str) -> str:
    """Look up the dealer price of a product."""
    await anyio.sleep(0.12)
    if product not in PRICES:
        raise LookupError(f"no product {product!r}; known are {', '.join(PRICES)}")
    return f"{product}: {PRICES[product]} net, 12 in a carton"


@tool
async def shipping(country: str, kilograms: float) -> str:
    """Work out what shipping costs."""
    await anyio.sleep(0.2)
    return f"{9.5 + kilograms * 0.85:.2f} EUR to {country}, 3 working days"


@tool(requires_approval=True, risk="high")
async def place_order(product: str, cartons: int) -> str:
    """Place an order with the supplier."""
    await anyio.sleep(0.1)
    return f"order 4471: {cartons} cartons of {product}"


PACE = 1.0
"""The part of the time of a model that its turns take."""


def took(turn: Turn, seconds: float, tokens_in: int, tokens_out: int) -> Turn:
    """Return a turn that takes a while and costs something, as a model's does."""
    usage = Usage(tokens_in, tokens_out, tokens_in + tokens_out)
    return evolve(turn, delay=seconds * PACE, usage=usage, cost_usd=(tokens_in * 0.25 + tokens_out * 2) / 1e6)


def builder(path: Path, name: str, *turns: Turn) -> ReactiveAgents:
    """Return an agent with a script whose runs are logged and recorded."""
    llm = ScriptedLLM(*turns)
    made = ReactiveAgents.create().with_name(name).with_llm(llm).with_tools(price, shipping)
    return made.with_run_log(path).with_durability(path, recover=False)


async def run(described: ReactiveAgents, task: str, **options: Any) -> RunId | None:
    """Run a task to its end, in whatever way; return the run's id."""
    async with described.build() as agent:
        outcome: Any = None
        async for event in agent.stream(task, **options):
            outcome = event
    return RunId(outcome.run_id)


async def reactive(path: Path) -> RunId | None:
    """A turn, two tools side by side, a failed call, an answer."""
    script = (
        took(
            calls(call("price", product="Kestrel"), call("shipping", country="Austria", kilograms=18)),
            0.9,
            1240,
            86,
        ),
        took(call("price", product="Tarn 2"), 0.6, 1420, 41),
        took(call("price", product="Tarn"), 0.5, 1560, 38),
        took(
            answer(
                "Two cartons: 12 Kestrel at 129.00 EUR and 12 Tarn at 99.00 EUR are 2,736.00 EUR net. "
                "Shipping 18 kg to Austria is 24.80 EUR and takes 3 working days.",
                thinking="12 * 129 = 1548 and 12 * 99 = 1188, which is 2736 together.",
            ),
            1.1,
            1710,
            152,
        ),
    )
    task = (
        "What does a dealer in Austria pay for one carton of the Kestrel and one of the Tarn, "
        "with shipping (18 kg)?"
    )
    return await run(builder(path, "sales", *script).with_reasoning(), task, user="ann", tags=["quote"])


async def planned(path: Path) -> RunId | None:
    """A plan whose first two steps are independent."""
    steps = [
        {
            "title": "Price of the Kestrel",
            "instruction": "Look up the price.",
            "type": "tool_call",
            "tool_name": "price",
            "tool_args": {"product": "Kestrel"},
        },
        {
            "title": "Price of the Tarn",
            "instruction": "Look up the price.",
            "type": "tool_call",
            "tool_name": "price",
            "tool_args": {"product": "Tarn"},
        },
        {
            "title": "Compare",
            "instruction": "Compare:\n{{from_step:s1}}\n{{from_step:s2}}",
            "type": "analysis",
            "depends_on": ["s1", "s2"],
        },
        {
            "title": "Recommend",
            "instruction": "Recommend one, from:\n{{from_step:s3}}",
            "type": "analysis",
            "depends_on": ["s3"],
        },
    ]
    script = (
        took(say(json.dumps({"steps": steps})), 1.2, 980, 240),
        took(
            say("The Kestrel is 129.00 EUR, the Tarn 99.00 EUR: the Tarn is 30.00 EUR cheaper."), 0.7, 720, 60
        ),
        took(
            say("Recommend the Tarn to price-conscious customers: 99.00 EUR against 129.00 EUR."),
            0.7,
            810,
            44,
        ),
        took(
            say(json.dumps({"verdict": "SATISFIED", "missing": [], "confidence": 0.9, "answer_step": "s4"})),
            0.4,
            900,
            30,
        ),
    )
    described = builder(path, "planner", *script).with_reasoning(
        "plan-execute-reflect", strategies={"plan_execute": {"plan_mode": "dag"}}
    )
    return await run(described, "Compare the dealer prices of the Kestrel and the Tarn, and recommend one.")


async def reflected(path: Path) -> RunId | None:
    """A weak attempt, a critique, a better one."""
    first = {
        "issues": [
            "It does not say how the Kestrel is packed.",
            "It promises a delivery time that nothing supports.",
        ],
        "score": 0.35,
        "satisfied": False,
    }
    script = (
        took(call("price", product="Kestrel"), 0.5, 640, 40),
        took(answer("Dear dealer, the Kestrel is 129.00 EUR and arrives tomorrow."), 0.8, 700, 40),
        took(say(json.dumps(first)), 0.6, 900, 70),
        took(answer("Dear dealer, the Kestrel is 129.00 EUR net, in cartons of 12."), 0.8, 980, 52),
        took(say(json.dumps({"issues": [], "score": 0.94, "satisfied": True})), 0.5, 760, 28),
    )
    described = builder(path, "writer", *script).with_reasoning("reflexion")
    return await run(described, "Write a dealer one sentence with the price of the Kestrel.")


async def searched(path: Path) -> RunId | None:
    """Two levels of thoughts, of which some are pruned."""

    def thoughts(*texts: str, when: str = "") -> Turn:
        return took(say(json.dumps({"thoughts": list(texts)}), when=when), 0.6, 520, 90)

    def scores(*values: float, when: str = "") -> Turn:
        given = [{"candidate": n, "reason": "So.", "score": value} for n, value in enumerate(values, 1)]
        return took(say(json.dumps({"scores": given}), when=when), 0.5, 610, 60)

    one, two, three = "Bundle it with a gas cartridge", "Lower the price by 10 %", "Show it at alpine huts"
    script = (
        thoughts(one, two, three),
        scores(0.8, 0.3, 0.72),
        thoughts(
            "Offer the bundle to the 40 largest dealers",
            "Print the bundle in the catalogue",
            "Bundle from two pieces on",
            when=f"1. {one}",
        ),
        thoughts(
            "Lend ten stoves to huts above 2,000 m",
            "Pay huts for a demonstration",
            "Film a breakfast at a hut",
            when=f"1. {three}",
        ),
        scores(0.9, 0.55, 0.4, when="largest dealers"),
        scores(0.84, 0.2, 0.6, when="Lend ten stoves"),
        took(
            answer(
                "Offer a bundle of the Kestrel and a gas cartridge to the 40 largest dealers first: "
                "they sell most of the stoves."
            ),
            0.9,
            900,
            80,
        ),
    )
    described = builder(path, "strategist", *script).with_reasoning(
        "tree-of-thought", strategies={"tree_of_thought": {"breadth": 3, "depth": 2}}
    )
    return await run(described, "How should we sell more of the Kestrel stove next spring?")


async def delegated(path: Path) -> RunId | None:
    """A tool that is another agent."""
    expert = builder(
        path,
        "logistics",
        took(call("shipping", country="Norway", kilograms=42.0), 0.4, 410, 33),
        took(answer("Shipping 42 kg to Norway is 45.20 EUR."), 0.5, 480, 25),
    ).with_reasoning()
    async with expert.build() as asked:
        script = (
            took(call("logistics", task="What does shipping 42 kg to Norway cost?"), 0.6, 700, 40),
            took(answer("45.20 EUR, in 3 working days."), 0.5, 780, 20),
        )
        described = builder(path, "front-desk", *script).with_tools(agent_tool(asked)).with_reasoning()
        return await run(
            described,
            "A customer in Norway wants 42 kg of stoves. What does shipping cost?",
            session="norway-7",
        )


async def failed(path: Path) -> RunId | None:
    """A model that does not answer."""
    script = (
        took(call("price", product="Ember 2"), 0.4, 500, 30),
        fail(ModelUnavailable("The model is overloaded (529).", "scripted/test")),
    )
    return await run(
        builder(path, "sales", *script).with_reasoning(), "What does the Ember 2 cost?", user="ben"
    )


async def chosen(path: Path) -> RunId | None:
    """A task whose strategy is chosen for it."""
    script = (
        took(call("price", product="Ember 2"), 0.4, 500, 30),
        took(answer("74.50 EUR net."), 0.4, 560, 20),
    )
    described = builder(path, "clerk", *script).with_reasoning("adaptive", adaptive={"measured": False})
    return await run(described, "What is the dealer price of the Ember 2?")


EXAMPLES = (chosen, failed, delegated, searched, reflected, planned, reactive)


async def make_runs(path: Path) -> dict[str, RunId | None]:
    """Run every example; return the ids of their runs."""
    return {each.__name__: await each(path) for each in EXAMPLES}


async def long_run(path: Path, turns: int) -> RunId:
    """Log a run of three steps a turn, as events of a bus would come; return its id."""
    log, run_id = SqliteRunLog(path), RunId("01LONGRUN00000000000000000")
    begun, number = datetime(2026, 5, 4, 9, 0, tzinfo=UTC), 0

    def stamp() -> tuple[RunId, TaskId, int, datetime]:
        nonlocal number
        number += 1
        return run_id, TaskId("t"), number, begun + timedelta(milliseconds=40 * number)

    origin: dict[str, Any] = {"agent": AgentId("archivist")}
    log(events.TaskStarted(*stamp(), AgentId("archivist"), "File every letter of the archive.", **origin))
    log(events.StrategySelected(*stamp(), "reactive", "the configured default", **origin))
    stable = (SystemMessage("File letters."), UserMessage("File every letter of the archive."))
    latest: tuple[Any, ...] = ()
    for turn in range(1, turns + 1):
        asked = ToolCall("c", "file_letter", {"number": turn, "folder": f"folder {turn % 17}"})  # type: ignore[arg-type]
        request = ModelRequest((*stable, *latest))
        response = ModelResponse("", "scripted/test", (asked,), usage=Usage(900, 30, 930), cost_usd=0.0003)
        result = f"letter {turn} is filed"
        log(events.ModelCallStarted(*stamp(), "think", "scripted/test", request, turn, **origin))
        log(
            events.ModelCallCompleted(
                *stamp(),
                "think",
                "scripted/test",
                response.usage,
                0.0003,
                35.0,
                response=response,
                model_call=turn,
                **origin,
            )
        )
        step = events.ReasoningStepCompleted
        place = ("reactive", turn, "reactive:main")
        log(step(*stamp(), *place, action=asked.described, call_id=asked.id, **origin))
        log(events.ToolCallStarted(*stamp(), "file_letter", asked.id, asked.arguments, **origin))
        log(events.ToolCallCompleted(*stamp(), "file_letter", asked.id, True, 3.0, result=result, **origin))
        log(step(*stamp(), *place, observation=result, call_id=asked.id, **origin))
        log(events.GuidanceGiven(*stamp(), "requirements", f"{turns - turn} letters are left.", **origin))
        latest = (*latest, AssistantMessage("", (asked,)), ToolMessage(asked.id, "file_letter", result))[-12:]
    log(events.TaskCompleted(*stamp(), _result(run_id, begun), **origin))
    await log.aclose()
    return run_id


def _result(run_id: RunId, at: datetime) -> Any:
    from reactive_agents.core.tasks import AgentResult, TaskResultMetadata

    metadata = TaskResultMetadata(1.0, 0.5, 1_000, 5_000, "reactive", "scripted/test", "final_answer")
    return AgentResult(  # type: ignore[operator]
        task_id=TaskId("t"),
        run_id=run_id,
        agent_id=AgentId("archivist"),
        output="All letters are filed.",
        success=True,
        status="completed",
        reason="",
        steps=(),
        metadata=metadata,
        completed_at=at,
    )


def waiting_agent(path: Path) -> ReactiveAgents:
    """Return an agent whose tool needs approval, for a run that somebody watches."""
    script = (
        took(call("price", product="Kestrel"), 0.3, 800, 40),
        took(call("place_order", product="Kestrel", cartons=2), 0.3, 900, 50),
        took(answer("The order 4471 of 2 cartons is placed."), 0.3, 1000, 30),
    )
    return builder(path, "buyer", *script).with_tools(place_order).with_reasoning()


CONFIGURATION = """\
name = "helper"
tools = ["calculator", "file-search", "file-read"]
workspace = "docs"

[model]
model = "offline"

[reasoning]
default_strategy = "reactive"

[memory]
path = "build/studio/memory.db"

[audit]
path = "build/studio/audit.db"

[cost]
path = "build/studio/cost.db"
daily_usd = 5.0

[sessions]
path = "build/studio/sessions.db"
"""


async def talked(path: Path, described: Path) -> None:
    """Hold a conversation with the agent of the page, which is remembered and audited."""
    async with ReactiveAgents.from_config(described).with_run_log(path).build() as agent:
        await agent.run("What is 17 * 23?", session="sums")
        await agent.run("What is 391 / 23?", session="sums")


def main() -> None:
    """Make the runs, and open the studio on them."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    log, described = FOLDER / "runs.db", FOLDER / "agent.toml"
    described.write_text(CONFIGURATION, encoding="utf-8")
    logging.disable()  # calls and runs that fail are examples too
    anyio.run(make_runs, log)
    anyio.run(talked, log, described)
    with sqlite_file(log) as file:
        (count,) = file.execute("SELECT count(*) FROM logged_runs").fetchone()
    print(f"{count} runs are in {log}.", flush=True)
    command = [
        sys.executable,
        "-m",
        "reactive_agents",
        "studio",
        str(FOLDER / "agent.toml"),
        "--runs",
        str(log),
    ]
    os.execv(sys.executable, [*command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
