"""Replays and forks of recorded runs, and what they are exported as."""

from __future__ import annotations

import stat
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from dependency_injector.providers import Object
from returns.maybe import Some
from returns.result import Failure, Result, Success

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, RunContext, agent_tool, tool
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.errors import (
    BudgetExceeded,
    InvalidConfig,
    LLMErrors,
    ModelUnavailable,
    RecordErrors,
    RunRefused,
    ScriptExhausted,
    ToolFailed,
    root_cause,
)
from reactive_agents.core.events import PlanStoreFailed
from reactive_agents.core.governance import ApprovalRequest
from reactive_agents.core.ids import RunId
from reactive_agents.core.messages import AssistantMessage, ToolMessage, UserMessage
from reactive_agents.core.models import ModelRequest, StreamCompleted, TokenPrice
from reactive_agents.core.run_record import RunEntry
from reactive_agents.effects import attempt, effect
from reactive_agents.testing import (
    FakeClock,
    RecordedRunPlayer,
    RecordingAuditLog,
    ScriptedLLM,
    Turn,
    answer,
    call,
    calls,
    fail,
    forever,
    say,
)
from tests.support.models import RuledLLM
from tests.support.sensible import sensible
from tests.support.sqlite_files import sqlite_file

pytestmark = pytest.mark.anyio

sold: list[str] = []
HOUR = timedelta(hours=1)


@tool
def price(item: str) -> int:
    """Look up a price."""
    return {"apple": 3, "pear": 4}[item]


@tool(risk="high")
def sell(item: str) -> str:
    """Sell an item."""
    sold.append(item)
    return f"sold {item}"


def agent(path: Path, llm: Any, **options: Any) -> ReactiveAgent:
    described = ReactiveAgents.create().with_llm(llm).with_reasoning(options.get("strategy", "reactive"))
    described = described.with_tools(price, sell).with_system_prompt(options.get("instructions", "Be brief."))
    return described.with_durability(path, recover=False).build()


class SetBack(SystemClock):
    """A clock that can be set back."""

    offset = timedelta()

    def now(self) -> datetime:
        return SystemClock.now() + self.offset


SCRIPT = (
    calls(call("price", item="apple"), call("price", item="pear")),
    call("sell", item="apple"),
    answer("The apple is sold for 3."),
)


async def recorded(path: Path) -> ReactiveAgent:
    sold.clear()
    one = agent(path, ScriptedLLM(*SCRIPT))
    await one.run("Sell the cheaper of apple and pear.", run_id="r1")
    assert sold == ["apple"]
    return one


async def test_a_replay_ends_in_the_same_steps_and_result_without_model_or_tools(tmp_path: Path) -> None:
    one = await recorded(tmp_path / "r.db")
    replay = await agent(tmp_path / "r.db", ScriptedLLM()).runs.replay("r1")
    assert replay.difference == ""
    assert replay.outcome is not None
    again, before = replay.outcome.unwrap(), await one.runs.wait("r1")
    assert (again.output, again.tool_results, again.completed_at) == (
        before.output,
        before.tool_results,
        before.completed_at,
    )
    assert [step.id for step in again.steps] == [step.id for step in before.steps]
    assert sold == ["apple"]


async def test_an_unknown_run_has_no_steps_that_could_be_listed(tmp_path: Path) -> None:
    one = await recorded(tmp_path / "r.db")
    with pytest.raises(AgentError, match="Run 'r2' is not in the record"):
        await one.runs.steps("r2")


async def test_a_replay_goes_up_to_a_step(tmp_path: Path) -> None:
    one = await recorded(tmp_path / "r.db")
    steps = await one.runs.steps("r1")
    assert [(each.number, each.kind, each.name) for each in steps][:4] == [
        (1, "model", "think"),
        (2, "tool", "price"),
        (3, "tool", "price"),
        (4, "model", "think"),
    ]
    replay = await one.runs.replay("r1", until=3)
    assert (replay.outcome, replay.difference, replay.step) == (None, "", 3)
    assert (await one.runs.replay("r1", until=len(steps))).difference == ""
    with pytest.raises(AgentError, match=f"until: got 99, expected .* has {len(steps)}"):
        await one.runs.replay("r1", until=99)


@pytest.mark.parametrize("order", ["pause", "stop", "cancel"])
async def test_a_run_with_an_order_replays_up_to_where_it_is(tmp_path: Path, order: str) -> None:
    begun = anyio.Event()

    async def look(place: str) -> str:
        """Look at a place."""
        if place == "far":
            begun.set()
            await anyio.sleep_forever()
        return "nothing"

    llm = ScriptedLLM(call("look", place="near"), call("look", place="far"))
    described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(look)
    one = described.with_durability(tmp_path / "r.db", recover=False).build()
    async with anyio.create_task_group() as group:
        group.start_soon(partial(one.run, "Look.", run_id="r1"))
        await begun.wait()
        group.cancel_scope.cancel()
    await getattr(one.runs, order)("r1")
    replay = await one.runs.replay("r1")
    assert (replay.outcome, replay.difference, replay.step) == (None, "", 3)


@pytest.mark.parametrize("end", ["stop", "cancel", "time limit"])
async def test_a_run_that_was_cut_off_replays_up_to_there(tmp_path: Path, end: str) -> None:
    async def look() -> str:
        """Look around."""
        if end == "stop":
            one.stop(task.id, "enough").unwrap()
        elif end == "cancel":
            one.cancel(task.id).unwrap()
        await anyio.sleep_forever()
        return "nothing"

    described = ReactiveAgents.create().with_llm(ScriptedLLM(call("look"))).with_reasoning().with_tools(look)
    described = described.with_timeout(run=0.5 if end == "time limit" else 600)
    one = described.with_durability(tmp_path / "r.db", recover=False).build()
    task = one.new_task("Look.")
    with suppress(AgentError):
        assert (await one.run(task, run_id="r1")).status == "partial"
    assert (await one.runs.find("r1")).state in ("partial", "cancelled")
    assert (await one.runs.replay("r1")).difference == ""


async def test_a_replay_names_the_first_step_that_differs(tmp_path: Path) -> None:
    await recorded(tmp_path / "r.db")
    with sqlite_file(tmp_path / "r.db") as file:
        changed = file.execute(
            'UPDATE run_entries SET body = replace(body, \'"item": "pear"\', \'"item": "plum"\')'
            " WHERE kind = 'model' AND number < 3"
        )
        assert changed.rowcount
        gone = file.execute("DELETE FROM run_entries WHERE key LIKE '%t1=' AND body LIKE '%\"result\":4%'")
        assert gone.rowcount == 1
    replay = await agent(tmp_path / "r.db", ScriptedLLM()).runs.replay("r1")
    assert replay.difference == "it goes on with g1.1/t1, where the recorded run ended"
    assert (replay.step, replay.outcome) == (3, None)


@tool
def report(page: int) -> str:
    """Read a page of the report."""
    return f"Page {page}. " + "The apples are ripe. " * 200


READING = call("report", page=1), call("report", page=2), answer("The apples are ripe.")


def reader(path: Path, llm: Any, *, shown: int = 8_000, iterations: int = 10) -> ReactiveAgent:
    described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(report)
    described = described.with_context_profile(tool_result_chars=shown).with_max_iterations(iterations)
    return described.with_durability(path, recover=False).build()


@pytest.mark.parametrize(
    ("before", "changed", "step", "difference"),
    [
        ({}, {"shown": 400}, 3, "its request at m2 differs from the recorded one."),
        ({}, {"iterations": 1}, 2, "The result has 2 steps, and the recorded one 5."),
        ({"iterations": 1}, {}, 3, "it goes on with m2, where the recorded run ended"),
    ],
    ids=["request", "fewer", "more"],
)
async def test_where_the_program_was_changed_a_replay_names_the_first_step_that_differs(
    tmp_path: Path, before: dict[str, Any], changed: dict[str, Any], step: int, difference: str
) -> None:
    await reader(tmp_path / "r.db", ScriptedLLM(*READING), **before).run("Are they ripe?", run_id="r1")
    replay = await reader(tmp_path / "r.db", ScriptedLLM(), **changed).runs.replay("r1")
    assert (replay.step, replay.difference) == (step, difference)
    assert (await reader(tmp_path / "r.db", ScriptedLLM(), **before).runs.replay("r1")).difference == ""


@pytest.mark.parametrize(
    ("turns", "now", "before", "step", "difference"),
    [
        (READING, "Page 2.", "Page 3.", 4, "Step 4 has another observation: "),
        (READING, '"status":"completed"', '"status":"partial"', 5, "The status of the result differs: "),
        (READING[:1], "used up", "spent", 3, "It fails otherwise: "),
    ],
    ids=["step", "status", "error"],
)
async def test_a_replay_that_ends_otherwise_names_what_differs(
    tmp_path: Path, turns: tuple[Turn, ...], now: str, before: str, step: int, difference: str
) -> None:
    """The recorded result is that of an earlier program, for the same answers of model and tools."""
    with suppress(AgentError):
        await reader(tmp_path / "r.db", ScriptedLLM(*turns)).run("Are they ripe?", run_id="r1")
    with sqlite_file(tmp_path / "r.db") as file:
        (known,) = file.execute("SELECT result FROM runs").fetchone()
        assert now in known
        file.execute("UPDATE runs SET result = ?", (known.replace(now, before),))
    replay = await reader(tmp_path / "r.db", ScriptedLLM()).runs.replay("r1")
    assert (replay.step, replay.difference[: len(difference)]) == (step, difference)


async def test_a_run_that_a_budget_ended_is_forked_at_the_call_that_was_not_made(tmp_path: Path) -> None:
    def described(*turns: Turn, run_usd: float) -> ReactiveAgent:
        model = ScriptedLLM(*turns, price=TokenPrice(0.0, 0.001, max_output_tokens=100))
        builder = ReactiveAgents.create().with_llm(model).with_cost(tmp_path / "c.db", run_usd=run_usd)
        return builder.with_durability(tmp_path / "r.db", recover=False).build()

    poor, rich = described(run_usd=0.05), described(say("Four."), run_usd=1.0)
    assert (await poor.run("How many?", run_id="r1")).status == "partial"
    (step,) = await poor.runs.steps("r1")
    assert step.text == BudgetExceeded("run", 0.05, 0.0, 0.1).message
    with pytest.raises(AgentError, match="has 1 step, and no step 2"):
        await rich.runs.fork("r1", at=2)
    assert (await rich.runs.resume(await rich.runs.fork("r1", at=1))).output == "Four."


async def test_the_step_of_a_call_that_failed_says_why(tmp_path: Path) -> None:
    def pay(invoice: str) -> str:
        """Pay an invoice."""
        raise OSError("No money.")

    llm = ScriptedLLM(call("pay", invoice="A"), forever(answer("It is not paid: no money.")))
    one = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(pay)
    agent = one.with_durability(tmp_path / "r.db", recover=False).build()
    await agent.run("Pay A.", run_id="r1")
    steps = await agent.runs.steps("r1")
    assert [each.text for each in steps if each.kind == "tool"] == [
        ToolFailed("pay", "No money.", "OSError").message
    ]


async def test_the_step_of_a_replay_is_a_number_of_the_recorded_steps(tmp_path: Path) -> None:
    """Also for parallel calls, whatever the order in which they ended."""
    second = anyio.Event()

    @tool
    async def look(page: int) -> str:
        """Look at a page."""
        await second.wait() if page == 1 else second.set()
        return f"seen {page}"

    def described(llm: ScriptedLLM) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(look)
        return one.with_durability(tmp_path / "r.db", recover=False).build()

    turns = [calls(call("look", page=page), call("look", page=page + 1)) for page in (1, 3)]
    await described(ScriptedLLM(*turns, answer("All is seen."))).run("Look.", run_id="r1")
    one = described(ScriptedLLM())
    texts = [each.text for each in await one.runs.steps("r1")]
    assert texts[1:3] == ["seen 2", "seen 1"]
    assert [(await one.runs.replay("r1", until=until)).step for until in range(1, 8)] == [*range(1, 8)]
    with sqlite_file(tmp_path / "r.db") as file:
        file.execute("UPDATE runs SET result = replace(result, 'seen 3', 'seen 5')")
    replay = await one.runs.replay("r1")
    assert texts[replay.step - 1] == "seen 3"
    assert replay.difference == f"Step {replay.step} has another observation: 'seen 3'"


async def test_a_run_whose_tools_depend_on_its_dependencies_is_replayed_with_these(tmp_path: Path) -> None:
    def stock(ctx: RunContext[str], product: str) -> str:
        """Return how many pieces there are."""
        return f"{ctx.deps}: 12 {product}"

    builder = ReactiveAgents.create(deps=str).with_reasoning().with_durability(tmp_path / "runs.db")
    builder = builder.with_llm(ScriptedLLM(call("stock", product="A-1"), answer("There are 12.")))
    agent = builder.with_toolset([stock], filter=lambda ctx, _: ctx.deps != "Rome").build()
    await agent.run("How many?", deps="Berlin", run_id="r")
    without = await agent.runs.replay("r")
    assert without.difference.startswith("It fails, unlike the recorded run: tools: got 'stock', which takes")
    replay = await agent.runs.replay("r", deps="Berlin")
    assert (replay.difference, replay.step) == ("", 3)


async def test_a_replay_within_a_tool_costs_its_run_nothing(tmp_path: Path) -> None:
    one = reader(tmp_path / "r.db", ScriptedLLM(*READING))
    await one.run("Are they ripe?", run_id="r1")

    @tool
    async def check() -> str:
        """Replay the run."""
        return (await one.runs.replay("r1")).difference or "equal"

    described = ReactiveAgents.create().with_llm(ScriptedLLM(call("check"), answer("It is equal.")))
    result = await described.with_reasoning().with_tools(check).build().run("Check it.")
    assert (result.output, result.metadata.model_calls, result.sub_runs) == ("It is equal.", 2, ())


async def test_a_run_that_a_changed_program_continued_is_replayed_by_that_program(tmp_path: Path) -> None:
    hanging = anyio.Event()

    @tool
    async def pay(number: int) -> str:
        """Pay an invoice."""
        if number == 2:
            hanging.set()
            await anyio.sleep_forever()
        return f"paid {number}"

    def described(used: Any, *turns: Turn) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(used)
        return one.with_durability(tmp_path / "r.db", recover=False).build()

    first = described(pay, call("pay", number=1), call("pay", number=2))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Pay.", run_id="r1"))
        await hanging.wait()
        group.cancel_scope.cancel()
    changed = described(price, call("price", item="apple"), answer("The apple costs 3."))
    assert (await changed.runs.resume("r1", accept_changes=True)).output == "The apple costs 3."
    replay = await changed.runs.replay("r1")
    assert (replay.difference, replay.step) == ("", len(await changed.runs.steps("r1")))
    other = await described(sell).runs.replay("r1")  # which reads that the tool of the later call is unknown
    assert (other.difference, other.step) == ("its request at m4 differs from the recorded one.", 7)


async def test_a_fork_by_a_changed_program_uses_the_answers_that_it_shares(tmp_path: Path) -> None:
    await reader(tmp_path / "r.db", ScriptedLLM(*READING)).run("Are they ripe?", run_id="r1")
    llm = ScriptedLLM(answer("They are ripe."))
    changed = reader(tmp_path / "r.db", llm, shown=400)
    fork = await changed.runs.fork("r1", at=5)
    assert (await changed.runs.resume(fork)).output == "They are ripe."
    assert len(llm.requests) == 1
    assert (await changed.runs.replay(fork)).difference == ""


async def test_a_write_that_the_record_lacks_is_no_difference(tmp_path: Path) -> None:
    """Where the run is cut off while it is closed, it ends without that entry."""
    await recorded(tmp_path / "r.db")
    described = ReactiveAgents.create().with_llm(ScriptedLLM()).with_reasoning().with_tools(price, sell)
    described = described.with_system_prompt("Be brief.").with_cost(tmp_path / "cost.db")
    replay = await described.with_durability(tmp_path / "r.db", recover=False).build().runs.replay("r1")
    assert (replay.difference, replay.outcome is not None) == ("", True)
    assert not (tmp_path / "cost.db").exists()


async def test_a_run_during_which_the_clock_is_set_back_replays(tmp_path: Path) -> None:
    clock = SetBack()

    async def set_back(days: int) -> str:
        """Set the clock back."""
        clock.offset -= timedelta(days=days)
        return "done"

    def described(llm: ScriptedLLM) -> ReactiveAgent:
        agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(set_back)
        return agent.with_durability(tmp_path / "r.db", recover=False).build()

    one = described(ScriptedLLM(call("set_back", days=1), call("set_back", days=2), answer("It is earlier.")))
    one.container.core.clock.override(Object(clock))
    result = await one.run("Set it back.", run_id="r1")
    times = [step.timestamp for step in result.steps]
    assert times == sorted(times)
    assert times[0] < times[-1], "it is the time of each answer"
    assert (await described(ScriptedLLM()).runs.replay("r1")).difference == ""


async def test_parallel_calls_begin_at_the_time_of_the_run_which_goes_on_at_that_of_the_last(
    tmp_path: Path,
) -> None:
    clock, audit = FakeClock(), RecordingAuditLog()

    @tool(requires_approval=True)
    async def work(hours: int) -> str:
        """Work for some hours."""
        clock.advance(hours * 3_600)
        return "done"

    llm = ScriptedLLM(
        call("work", hours=1), calls(call("work", hours=2), call("work", hours=3)), answer("All is done.")
    )
    one = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(work).with_audit()
    built = one.with_approval(lambda _: True).with_durability(tmp_path / "r.db", recover=False).build()
    built.container.core.clock.override(Object(clock))
    built.container.governance.audit.override(Object(audit))
    begun = clock.now()
    result = await built.run("Work.", run_id="r1")
    asked = [(each.at - begun) // HOUR for each in audit.entries if each.action == "request"]
    ended = [(each.timestamp - begun) // HOUR for each in result.steps if each.type == "observation"]
    assert (asked, ended) == ([0, 1, 1], [1, 6, 6])
    assert (await built.runs.replay("r1")).difference == ""


@pytest.mark.parametrize("strategy", ["plan-execute-reflect", "reflexion", "tree-of-thought"])
async def test_each_strategy_replays(tmp_path: Path, strategy: str) -> None:
    one = agent(tmp_path / "r.db", RuledLLM(sensible), strategy=strategy)
    await one.run("What is 1 + 2?", run_id="r1")
    replay = await agent(tmp_path / "r.db", ScriptedLLM(), strategy=strategy).runs.replay("r1")
    assert replay.difference == ""
    assert replay.outcome is not None


async def test_a_fork_shares_the_record_up_to_its_step_and_goes_another_way(tmp_path: Path) -> None:
    await recorded(tmp_path / "r.db")
    llm = ScriptedLLM(call("sell", item="pear"), answer("The pear is sold for 4."))
    other = agent(tmp_path / "r.db", llm)
    fork = await other.runs.fork("r1", at=4, message="Sell the pear.", into="r2")
    assert (await other.runs.resume(fork)).output == "The pear is sold for 4."
    assert sold == ["apple", "pear"]
    assert llm.requests[0].messages[-1] == UserMessage("Sell the pear.")
    assert UserMessage("Sell the pear.") in llm.requests[1].messages
    assert (await other.runs.find("r2")).origin == "r1"
    replay = await other.runs.replay("r2")
    assert replay.difference == ""
    with sqlite_file(tmp_path / "r.db") as file:
        counts = dict(
            file.execute("SELECT run_id, count(*) FROM run_entries JOIN runs ON id = run GROUP BY 1")
        )
    assert counts["r2"] < counts["r1"]


async def test_a_fork_of_a_fork_has_the_messages_of_both_where_they_were_said(tmp_path: Path) -> None:
    await recorded(tmp_path / "r.db")
    first = agent(tmp_path / "r.db", ScriptedLLM(call("price", item="apple"), answer("It is 3.")))
    await first.runs.resume(await first.runs.fork("r1", at=4, message="Look once more.", into="r2"))
    llm = ScriptedLLM(answer("The apple is 3, and the pear 4."))
    second = agent(tmp_path / "r.db", llm)
    last = len(await second.runs.steps("r2"))
    await second.runs.resume(await second.runs.fork("r2", at=last, message="Name both.", into="r3"))
    assert UserMessage("Look once more.") in llm.requests[0].messages
    assert llm.requests[0].messages[-1] == UserMessage("Name both.")
    assert (await second.runs.replay("r3")).difference == ""
    llm = ScriptedLLM(answer("It is 3 and 4."))
    third = agent(tmp_path / "r.db", llm)
    await third.runs.resume(await third.runs.fork("r2", at=last))
    places = [each.content for each in llm.requests[0].messages]
    assert places.index("Look once more.") < len(places) - 1, "the answer to it comes after it"


async def test_a_fork_goes_on_with_the_ids_of_its_original(tmp_path: Path) -> None:
    """The plan that it shares is stored under one of them."""

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    described = ReactiveAgents.create().with_llm(RuledLLM(sensible)).with_reasoning("plan-execute-reflect")
    described = described.with_tools(add).with_memory(tmp_path / "m.db")
    one = described.with_durability(tmp_path / "r.db", recover=False).build()
    failures: list[PlanStoreFailed] = []
    one.subscribe(lambda event: failures.append(event) if isinstance(event, PlanStoreFailed) else None)
    await one.run("What is 1 + 2?", run_id="r1")
    assert [each.name for each in await one.runs.steps("r1")] == ["plan", "add", "think", "reflect"]
    for run_id, fork in (("r1", "r2"), ("r2", "r3")):
        await one.runs.resume(await one.runs.fork(run_id, at=3, into=fork))
    assert failures == []
    await one.aclose()


async def test_a_fork_of_a_fork_may_make_the_same_call_again(tmp_path: Path) -> None:
    """Its intent is in the records of both."""
    await recorded(tmp_path / "r.db")
    for run_id in ("r1", "r2", "r3"):
        one = agent(tmp_path / "r.db", ScriptedLLM(call("sell", item="apple"), answer("The apple is sold.")))
        fork = await one.runs.fork(run_id, at=2, into=f"r{int(run_id[1:]) + 1}")
        assert (await one.runs.resume(fork)).output == "The apple is sold."
        assert (await one.runs.replay(fork)).difference == ""


async def test_a_call_of_a_fork_that_was_interrupted_is_in_doubt_though_its_original_made_it(
    tmp_path: Path,
) -> None:
    await recorded(tmp_path / "r.db")
    begun = anyio.Event()

    @tool(risk="high")
    async def sell(item: str) -> str:
        """Sell an item."""
        begun.set()
        await anyio.sleep_forever()
        return "never"

    described = ReactiveAgents.create().with_llm(ScriptedLLM()).with_reasoning().with_tools(price, sell)
    described = described.with_system_prompt("Be brief.").with_durability(tmp_path / "r.db", recover=False)
    hanging = described.build()
    fork = await hanging.runs.fork("r1", at=5, into="r2")
    async with anyio.create_task_group() as group:
        group.start_soon(hanging.runs.resume, fork)
        await begun.wait()
        group.cancel_scope.cancel()
    later = agent(tmp_path / "r.db", ScriptedLLM(*[answer("It may be sold.")] * 2))
    await later.runs.resume(fork)
    assert sold == ["apple"], "by the first run alone"
    assert "In doubt" in (await later.runs.steps(fork))[4].text


async def test_what_a_fork_shares_was_paid_once(tmp_path: Path) -> None:
    def described(boss: list[Turn], helper: list[Turn]) -> ReactiveAgent:
        inner = ReactiveAgents.create().with_name("helper").with_llm(ScriptedLLM(*helper)).with_reasoning()
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*boss)).with_reasoning()
        one = one.with_tools(agent_tool(inner.with_cost(tmp_path / "cost.db").build()))
        return one.with_cost(tmp_path / "cost.db").with_durability(tmp_path / "r.db", recover=False).build()

    boss = call("helper", task="How many?", cost_usd=1.0), answer("There are 3.", cost_usd=1.0)
    await described([*boss], [say("3", cost_usd=8.0)]).run("How many are there?", run_id="r1")
    other = described([boss[1]], [])
    result = await other.runs.resume(await other.runs.fork("r1", at=3, into="r2"))
    assert (result.metadata.cost_usd, result.metadata.model_calls) == (1.0, 2)
    assert [each.cached for each in result.metadata.models] == [1]
    with sqlite_file(tmp_path / "cost.db") as file:
        rows = file.execute("SELECT run_id, nano_usd FROM spending_models").fetchall()
    assert sorted(usd // 10**9 for _, usd in rows) == [1, 2, 8]
    assert (await other.runs.replay("r2")).difference == ""


async def test_a_fork_waits_until_it_is_resumed(tmp_path: Path) -> None:
    """No worker makes its calls before it has the result that it was given."""
    one = await recorded(tmp_path / "r.db")
    fork = await one.runs.fork("r1", at=5, tool_result="sold for 2")
    assert await one.runs.recover() == {}
    await one.runs.work("default", until_idle=True)
    assert (await one.runs.find(fork)).attempt == 0
    steps = await one.runs.steps(fork)
    assert (len(steps), steps[-1].text) == (5, "sold for 2")
    assert sold == ["apple"]


async def test_a_fork_with_another_result_of_a_tool(tmp_path: Path) -> None:
    await recorded(tmp_path / "r.db")
    llm = ScriptedLLM(call("sell", item="pear"), answer("The pear is sold."))
    other = agent(tmp_path / "r.db", llm)
    steps = await other.runs.steps("r1")
    prices = {each.text: each for each in steps if each.name == "price"}  # of parallel calls, in either order
    kept, replaced = prices["3"], prices["4"]
    await other.runs.resume(await other.runs.fork("r1", at=replaced.number, tool_result=1))
    assert sold == ["apple", "pear"]
    assert (await other.runs.steps(await other.runs.fork("r1", at=5, tool_result=None)))[4].text == "null"
    results = [each.content for each in llm.requests[0].messages if isinstance(each, ToolMessage)]
    assert sorted(results) == sorted([kept.text, "1"])


async def test_the_message_of_a_fork_is_a_source_and_may_ask_for_something_else(tmp_path: Path) -> None:
    await recorded(tmp_path / "r.db")
    llm = ScriptedLLM(call("sell", item="pear"), answer("The pear is sold, one of the 2,751."))
    other = agent(tmp_path / "r.db", llm)
    fork = await other.runs.fork("r1", at=4, message="Sell the pear. We have 2,751.")
    ended = await other.runs.resume(fork)
    assert (ended.status, len(llm.requests)) == ("completed", 2)


async def test_a_call_that_the_message_of_a_fork_quotes_is_not_the_models_own(tmp_path: Path) -> None:
    quoted = '<tool_call>{"name": "price", "arguments": {"item": "pear"}}</tool_call>'
    llm = ScriptedLLM(answer("Hello!"), say(quoted), forever(answer("It looks up a price.")))
    one = agent(tmp_path / "r.db", llm)
    await one.run("Good morning.", run_id="r1")
    fork = await one.runs.fork("r1", at=1, message=f"What does this line do? {quoted}")
    assert not (await one.runs.resume(fork)).tool_results


async def test_a_fork_of_a_fork_shares_the_result_that_was_replaced(tmp_path: Path) -> None:
    one = await recorded(tmp_path / "r.db")
    await one.runs.fork("r1", at=5, into="r2", tool_result="out of stock")
    second = agent(tmp_path / "r.db", ScriptedLLM(forever(answer("No apple is left."))))
    await second.runs.resume("r2")
    llm = ScriptedLLM(forever(answer("Try the pear.")))
    third = agent(tmp_path / "r.db", llm)
    await third.runs.resume(await third.runs.fork("r2", at=6, message="What now?"))
    results = [each.content for each in llm.requests[0].messages if isinstance(each, ToolMessage)]
    assert results == ["3", "4", "out of stock"]


async def test_a_fork_with_the_result_of_a_call_that_was_in_doubt(tmp_path: Path) -> None:
    begun = anyio.Event()

    async def pay(invoice: str) -> str:
        """Pay an invoice."""
        begun.set()
        await anyio.sleep_forever()
        return "never"

    def described(*turns: Turn) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(pay)
        return one.with_durability(tmp_path / "r.db", recover=False).build()

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: described(call("pay", invoice="may")).run("Pay May.", run_id="r1"))
        await begun.wait()
        group.cancel_scope.cancel()
    await described(forever(answer("It may be paid."))).run("Pay May.", run_id="r1")
    other = described(forever(answer("It is paid.")))
    result = await other.runs.resume(await other.runs.fork("r1", at=2, tool_result="receipt 17"))
    assert [each.content for each in result.steps if each.type == "observation"] == ["receipt 17"]


async def test_a_fork_of_a_fork_from_before_its_message_begins_with_that_message(tmp_path: Path) -> None:
    one = await recorded(tmp_path / "r.db")
    await one.runs.fork("r1", at=4, into="r2", message="Sell nothing.")
    for at, turns in ((1, [call("price", item="apple")]), (3, list[Turn]())):
        llm = ScriptedLLM(*turns, forever(answer("It is 3.")))
        other = agent(tmp_path / "r.db", llm)
        await other.runs.resume(await other.runs.fork("r2" if at == 1 else "r3", at=at, into=f"r{2 + at}"))
        said = [each.content for each in llm.requests[0].messages]
        assert said.index("Sell nothing.") == 2, "at its beginning, and once"
        assert said.count("Sell nothing.") == 1


async def test_a_run_that_was_handed_over_twice_is_replayed(tmp_path: Path) -> None:
    def described(*scripts: tuple[Turn, ...]) -> ReactiveAgent:
        later = list[ReactiveAgent]()
        for name, script in zip(("buyer", "clerk"), scripts, strict=False):
            one = ReactiveAgents.create().with_name(name).with_llm(ScriptedLLM(*script)).with_reasoning()
            later = [one.with_tools(price).with_handoffs(*later).build()]
        lead = ReactiveAgents.create().with_llm(ScriptedLLM(*scripts[-1])).with_reasoning()
        return lead.with_handoffs(*later).with_durability(tmp_path / "r.db", recover=False).build()

    one = described(
        (call("price", item="pear"), answer("A pear costs 4.")),
        (call("transfer-to-buyer", reason="A price."),),
        (call("transfer-to-clerk", reason="A price."),),
    )
    assert (await one.run("What does a pear cost?", run_id="r1")).handoffs == ("clerk", "buyer")
    replay = await described((), (), ()).runs.replay("r1")
    assert (replay.difference, replay.outcome is not None) == ("", True)


async def test_a_fork_that_makes_a_call_again_asks_for_approval_again(tmp_path: Path) -> None:
    """What was approved was the call of the other run."""
    asked: list[str] = []

    def asking(llm: ScriptedLLM) -> ReactiveAgent:
        async def approve(request: ApprovalRequest) -> bool:
            asked.append(request.run_id)
            return True

        described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_approval(approve)
        described = described.with_tools(tool(requires_approval=True)(sell.function))
        return described.with_durability(tmp_path / "r.db", recover=False).build()

    sold.clear()
    sale = call("sell", item="apple"), answer("The apple is sold.")
    await asking(ScriptedLLM(*sale)).run("Sell the apple.", run_id="r1")
    other = asking(ScriptedLLM(sale[1]))
    await other.runs.resume(await other.runs.fork("r1", at=2, into="r2"))
    assert (asked, sold) == (["r1", "r2"], ["apple", "apple"])


@pytest.mark.parametrize("approved", [True, False])
async def test_the_audit_log_has_the_start_of_a_fork_and_what_it_does_again(
    tmp_path: Path, approved: bool
) -> None:
    @tool(requires_approval=True)
    def wire(number: int) -> str:
        """Send money."""
        return f"sent {number}"

    log, of_forks = RecordingAuditLog(), approved
    described = ReactiveAgents.create().with_reasoning().with_tools(wire)
    script = [calls(call("wire", number=1), call("wire", number=2)), call("wire", number=3)]
    one = (
        described.with_llm(ScriptedLLM(*script, answer("Sent."), *[answer("Sent again.")] * 2))
        .with_approval(lambda request: of_forks if request.run_id != "r1" else True)
        .with_durability(tmp_path / "r.db", recover=False)
        .build()
    )
    one.container.governance.audit.override(Object(Some(log)))
    await one.run("Wire twice.", run_id="r1")

    def entered(run_id: str) -> list[str]:
        return [each.action for each in log.entries if each.run_id == run_id]

    assert entered("r1") == ["start", *["request"] * 2, *["approval"] * 2, "request", "approval", "run"]
    await one.runs.resume(await one.runs.fork("r1", at=5, into="f"))
    assert entered("f") == ["start", "request", "approval" if approved else "denial", "run"]
    await one.runs.resume(await one.runs.fork("f", at=6, into="of_fork"))
    assert entered("of_fork") == ["start", "run"]
    assert (await one.runs.replay("f")).difference == ""


async def test_a_fork_of_a_run_that_was_deleted_is_refused(tmp_path: Path) -> None:
    """Without the entries that it shares, it would do all of them again."""
    other = await recorded(tmp_path / "r.db")
    fork = await other.runs.fork("r1", at=4)
    await other.runs.delete("r1")
    with pytest.raises(AgentError) as refused:
        await agent(tmp_path / "r.db", ScriptedLLM(*SCRIPT)).runs.resume(fork)
    assert isinstance(refused.value.error, RunRefused)
    assert "forked from has been deleted" in refused.value.error.message
    assert sold == ["apple"]


async def test_the_messages_of_forks_are_in_the_turns_of_their_session(tmp_path: Path) -> None:
    def seller(*turns: Any) -> ReactiveAgent:
        return agent(tmp_path / "r.db", ScriptedLLM(*turns))

    await seller(*SCRIPT).run("Sell the apple.", run_id="r1", session="shop")
    one = seller(answer("The pear costs 4."), answer("You were told of both."))
    second = await one.runs.fork("r1", at=4, message="And the pear?")
    await one.runs.resume(second)
    last = len(await one.runs.steps(second))
    two = seller(call("sell", item="pear"), answer("The pear is sold, too."))
    third = await two.runs.fork(second, at=last, message="Sell it.")
    told = await two.runs.resume(third)
    said = [each.content for each in told.new_messages if isinstance(each, UserMessage)]
    assert said == ["Sell the apple.", "And the pear?", "Sell it."]
    assert [type(each).__name__[:4] for each in told.new_messages] == [
        *("User", "Assi", "Tool", "Tool"),
        *("User", "User", "Assi", "Tool", "Assi"),
    ]
    read = await two.sessions.read("shop")
    assert [each.content for each in read if isinstance(each, UserMessage)] == said
    assert (await two.runs.replay(third)).difference == ""


async def test_a_run_whose_record_a_fork_shares_is_not_pruned_before_it(tmp_path: Path) -> None:
    await recorded(tmp_path / "r.db")
    other = agent(
        tmp_path / "r.db", ScriptedLLM(call("sell", item="pear"), answer("The pear is sold for 4."))
    )
    fork = await other.runs.fork("r1", at=4, message="Sell the pear.")
    assert await other.runs.prune(timedelta()) == 0
    assert (await other.runs.resume(fork)).output == "The pear is sold for 4."
    assert await other.runs.prune(timedelta()) == 2
    assert await other.runs.list() == ()


async def test_a_run_is_pruned_with_all_forks_of_its_forks_at_once(tmp_path: Path) -> None:
    await recorded(tmp_path / "r.db")
    other = agent(tmp_path / "r.db", ScriptedLLM(*SCRIPT, *SCRIPT))
    await other.run("Sell another apple.", run_id="r2")
    ended = ["r1"]
    for _ in range(3):
        ended.append(await other.runs.fork(ended[-1], at=4, message="Sell the pear."))
        await agent(tmp_path / "r.db", ScriptedLLM(answer("It is sold."))).runs.resume(ended[-1])
    waits = await other.runs.fork("r2", at=4, message="Sell the pear.")
    assert await other.runs.prune(timedelta()) == 4
    assert [each.run_id for each in await other.runs.list()] == [waits, "r2"]


async def test_a_fork_of_a_run_that_is_deleted_meanwhile_is_refused(tmp_path: Path) -> None:
    other = await recorded(tmp_path / "r.db")

    class Pruned(SqliteRunRecord):
        @effect
        async def entries(self, run_id: RunId) -> Result[tuple[RunEntry, ...], RecordErrors]:
            found = await attempt(SqliteRunRecord.entries(self, run_id))
            await other.runs.delete(run_id)
            return found

    forking = agent(tmp_path / "r.db", ScriptedLLM())
    forking.container.memory.record.override(Object(Pruned(tmp_path / "r.db", clock=SystemClock())))
    with pytest.raises(AgentError, match="the run r1 that is forked has been deleted"):
        await forking.runs.fork("r1", at=4)


async def test_a_fork_with_another_model_and_other_instructions(tmp_path: Path) -> None:
    await recorded(tmp_path / "r.db")
    llm = ScriptedLLM(answer("I sell nothing."))
    other = agent(tmp_path / "r.db", llm)
    fork = await other.runs.fork("r1", at=4, model="test/other", instructions="Sell nothing.")
    await other.runs.resume(fork)
    assert llm.requests[0].model == "test/other"
    assert "Sell nothing." in llm.requests[0].messages[0].content
    with pytest.raises(AgentError) as refused:
        await other.runs.fork("r1", at=99)
    assert isinstance(refused.value.error, RunRefused)


@pytest.mark.parametrize(
    "wrong",
    [{"at": 0}, {"at": "1"}, {"message": " "}, {"model": 5}, {"instructions": ""}, {"tool_result": object()}],
)
async def test_a_fork_of_wrong_values_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    one = await recorded(tmp_path / "r.db")
    (name,) = wrong
    with pytest.raises(AgentError, match=f"{name}: got") as refused:
        await one.runs.fork("r1", **{"at": 2, **wrong})
    assert isinstance(refused.value.error, InvalidConfig)
    for until in (0, -1):
        with pytest.raises(AgentError, match="until: got"):
            await one.runs.replay("r1", until=until)
    with pytest.raises(AgentError, match="limit: got 0"):
        await one.runs.list(limit=0)


async def test_an_export_that_cannot_be_written_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    one, path = await recorded(tmp_path / "r.db"), tmp_path / "missing" / "run.json"
    with pytest.raises(FileNotFoundError) as caught:
        await one.runs.export("r1", path)
    assert str(caught.value) == f"[Errno 2] No such file or directory: {str(path)!r}"


async def test_an_exported_run_is_played_as_a_model_and_tools(tmp_path: Path) -> None:
    one = await recorded(tmp_path / "r.db")
    await one.runs.export("r1", tmp_path / "run.json")
    assert stat.S_IMODE((tmp_path / "run.json").stat().st_mode) == 0o600, "it has all that was said"
    player = RecordedRunPlayer(tmp_path / "run.json")
    tested = ReactiveAgents.create().with_llm(player).with_reasoning().with_tools(price, sell)
    played = tested.with_system_prompt("Be brief.").build()
    service = played.container.tooling.tools().unwrap()
    played.container.tooling.tools.override(Object(player.tools(service)))
    result = await played.run(player.task)
    assert result.output == "The apple is sold for 3."
    assert sold == ["apple"]


async def test_a_text_that_no_file_can_hold_as_it_is_is_exported(tmp_path: Path) -> None:
    """A lone surrogate is half of a character, as of a text that was cut off."""
    one = agent(tmp_path / "r.db", ScriptedLLM(answer("Hello to you: é.")))
    await one.run("Say hello \ud83d.", run_id="r1")
    await one.runs.export("r1", tmp_path / "run.json")
    assert "é" in (tmp_path / "run.json").read_text(encoding="utf-8")
    assert RecordedRunPlayer(tmp_path / "run.json").task == "Say hello \ud83d."


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ('"task"', '"tusk"', "'task'"),
        ('"tool_calls"', '"tool_cals"', "m1: .*tool_cals"),
        ('"entries": [', '"entries": 3, "others": [', "not iterable"),
        ('"task": "', '"task": 5, "other": "', "'task': got 5, expected a text"),
        ('"kind": "model"', '"kind": "thought"', "'kind': got 'thought', expected model"),
        ('"key": "t1="', '"key": 5', "removesuffix"),
        ("{", "[" * 100_000, "(?i:recursion)"),
        ("{", "", "Extra data"),
    ],
)
async def test_a_recording_that_was_edited_wrongly_is_refused_with_the_place(
    tmp_path: Path, before: str, after: str, problem: str
) -> None:
    one = await recorded(tmp_path / "r.db")
    await one.runs.export("r1", tmp_path / "run.json")
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace(before, after, 1))
    with pytest.raises(ValueError, match=f"run.json is not a recording of a run: .*{problem}"):
        RecordedRunPlayer(tmp_path / "run.json")


def test_a_file_that_is_no_text_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"run.json is not a recording of a run: .*can.t decode byte"):
        RecordedRunPlayer(tmp_path / "run.json")


async def test_calls_of_one_turn_are_played_with_their_own_results(tmp_path: Path) -> None:
    second_ended = anyio.Event()

    async def look(item: str) -> str:
        """Look something up."""
        if item == "slow":
            await second_ended.wait()
        second_ended.set()
        return f"The {item} one."

    llm = ScriptedLLM(calls(call("look", item="slow"), call("look", item="quick")), answer("Both are there."))
    described = ReactiveAgents.create().with_reasoning().with_tools(look)
    one = described.with_llm(llm).with_durability(tmp_path / "r.db", recover=False).build()
    first = await one.run("Look up both.", run_id="r1")
    await one.runs.export("r1", tmp_path / "run.json")
    player = RecordedRunPlayer(tmp_path / "run.json")
    played = described.with_llm(player).build()
    service = played.container.tooling.tools().unwrap()
    played.container.tooling.tools.override(Object(player.tools(service)))
    again = await played.run(player.task)
    assert [each.content for each in again.steps] == [each.content for each in first.steps]


async def test_a_recording_plays_each_purpose_in_its_own_order_and_says_when_it_is_over(
    tmp_path: Path,
) -> None:
    one = agent(tmp_path / "r.db", RuledLLM(sensible), strategy="plan-execute-reflect")
    await one.run("What is 1 + 2?", run_id="r1")
    await one.runs.export("r1", tmp_path / "run.json")
    said = {each.name: each.text for each in await one.runs.steps("r1") if each.kind == "model"}
    player = RecordedRunPlayer(tmp_path / "run.json")

    async def played(purpose: str) -> Any:
        (chunk,) = [each async for each in player.stream(ModelRequest((), purpose=purpose))]
        return cast(Result[StreamCompleted, LLMErrors], chunk).map(lambda ended: ended.response.content)

    assert len(said) > 1
    for purpose in reversed(said):
        assert await played(purpose) == Success(said[purpose])
    over = "The recorded run has no further answer for the purpose 'plan'."
    assert await played("plan") == Failure(ScriptExhausted(over, "plan"))


async def test_a_recording_plays_the_failure_of_a_model(tmp_path: Path) -> None:
    down = ModelUnavailable("The model is down.", "m")
    one = agent(tmp_path / "r.db", ScriptedLLM(fail(down)))
    with pytest.raises(AgentError):
        await one.run("What does a pear cost?", run_id="r1")
    await one.runs.export("r1", tmp_path / "run.json")
    player = RecordedRunPlayer(tmp_path / "run.json")
    with pytest.raises(AgentError) as failed:
        await ReactiveAgents.create().with_llm(player).with_reasoning().build().run(player.task)
    assert root_cause(failed.value.error) == down


async def test_a_tool_that_the_recorded_run_called_less_often_is_named(tmp_path: Path) -> None:
    await (await recorded(tmp_path / "r.db")).runs.export("r1", tmp_path / "run.json")
    player = RecordedRunPlayer(tmp_path / "run.json")
    llm = ScriptedLLM(call("sell", item="apple"), call("sell", item="pear"), forever(answer("One is sold.")))
    tested = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(price, sell).build()
    tools = tested.container.tooling.tools
    tools.override(Object(player.tools(tools().unwrap())))
    await tested.run("Sell both.")
    said = llm.requests[2].messages
    asked = [
        each.id for message in said if isinstance(message, AssistantMessage) for each in message.tool_calls
    ]
    first, second = [each for each in said if isinstance(each, ToolMessage)][:2]
    assert [first.call_id, second.call_id] == asked
    assert first.content == "sold apple"
    assert "The recorded run has no further call of this tool." in second.content


async def test_a_run_that_was_handed_over_is_continued_and_replayed(tmp_path: Path) -> None:
    def described(triage: ScriptedLLM, billing: ScriptedLLM) -> ReactiveAgent:
        other = ReactiveAgents.create().with_name("billing").with_llm(billing).with_reasoning()
        agent = ReactiveAgents.create().with_name("triage").with_llm(triage).with_reasoning()
        agent = agent.with_handoffs(other.with_tools(price).build())
        return agent.with_durability(tmp_path / "r.db", recover=False).build()

    first = described(
        ScriptedLLM(call("transfer-to-billing", reason="A price.")),
        ScriptedLLM(call("price", item="pear"), answer("A pear costs 4.")),
    )
    result = await first.run("What does a pear cost?", run_id="r1")
    assert (result.output, result.agent) == ("A pear costs 4.", "billing")
    again = described(ScriptedLLM(), ScriptedLLM())
    assert (await again.run("What does a pear cost?", run_id="r1")).output == "A pear costs 4."
    replay = await again.runs.replay("r1")
    assert replay.difference == ""
    assert replay.outcome is not None
