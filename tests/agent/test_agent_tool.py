"""An agent as a tool of another."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from dependency_injector.providers import Object
from returns.maybe import Some
from returns.result import Result

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, agent_tool, tool
from reactive_agents.adapters.governance.budget import SqliteBudget
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.config import CheckConfig
from reactive_agents.core.errors import LLMErrors, ModelUnavailable
from reactive_agents.core.events import ModelCallCompleted, TaskFailed
from reactive_agents.core.governance import ApprovalRequest
from reactive_agents.core.models import ModelRequest, ModelResponse, TokenPrice
from reactive_agents.core.tools import Risk
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.context import MOST_NESTED_RUNS
from reactive_agents.testing import (
    EventRecorder,
    FakeClock,
    InMemoryBudget,
    ScriptedLLM,
    Turn,
    answer,
    call,
    calls,
    fail,
    forever,
    say,
)
from tests.support.sqlite_files import sqlite_file
from tests.support.virtual_time import in_virtual_time

pytestmark = pytest.mark.anyio


async def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is empty"


def expert(*turns: Turn) -> ReactiveAgent:
    return (
        ReactiveAgents.create()
        .with_name("key finder")
        .with_llm(ScriptedLLM(*turns))
        .with_reasoning()
        .with_tools(look)
        .with_max_iterations(2)
        .build()
    )


def caller(llm: ScriptedLLM, inner: ReactiveAgent, *checks: CheckConfig, **options: float) -> ReactiveAgent:
    asked = agent_tool(inner, description="Finds lost keys.", **options)  # type: ignore[arg-type]
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(asked)
    return (builder.with_guardrails(*checks) if checks else builder).build()


LATE = "It did not end within seconds."


def asking(text: str = "In the drawer.") -> ScriptedLLM:
    return ScriptedLLM(
        call("key-finder", task="Where are the keys?", cost_usd=0.01), answer(text, cost_usd=0.01)
    )


async def test_its_answer_is_the_result_and_its_cost_is_added_to_the_callers() -> None:
    llm = asking()
    inner = expert(call("look", place="the drawer", cost_usd=0.1), answer("They are there.", cost_usd=0.2))
    result = await caller(llm, inner).run("Find my keys.")
    assert result.output == "In the drawer."
    assert result.steps[1].content == "They are there."
    assert llm.requests[0].tools[0].description == "Finds lost keys."
    figures = result.metadata
    assert figures.cost_usd == pytest.approx(0.32)
    assert (figures.tokens_used, figures.model_calls) == (60, 4)


async def test_a_partial_answer_says_that_it_is_one() -> None:
    inner = expert(call("look", place="a"), call("look", place="b"))
    result = await caller(asking(), inner).run("Find my keys.")
    assert result.steps[1].content.startswith("Only a partial answer. The limit of 2 turns was reached.")


@pytest.mark.parametrize(
    "turns",
    [
        [call("book", room="5"), forever(answer("Room 5 is booked."))],
        [answer({"answer": "", "could_not": "There is no room left."})],
    ],
)
async def test_a_caller_does_not_complete_what_its_agent_has_not_done(turns: list[Turn]) -> None:
    async def book(room: str) -> str:
        """Book a room."""
        raise RuntimeError("the hotel does not answer")

    builder = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(*turns)).with_reasoning()
    clerk = agent_tool(builder.with_tools(book).build(), description="Books rooms.")
    llm = ScriptedLLM(call("clerk", task="Book room 5."), forever(answer("Room 5 is booked.")))
    lead = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(clerk).build()
    result = await lead.run("Have the clerk book room 5.")
    assert (result.status, result.metadata.terminated_by) == ("partial", "failed_call")


@pytest.mark.parametrize(
    "end",
    [fail(ModelUnavailable("down", "m")), answer({"answer": "", "could_not": "There is no time left."})],
)
async def test_a_caller_is_told_what_its_agent_has_done_before_it_failed(end: Turn) -> None:
    @tool(risk="medium")
    async def send(to: str) -> str:
        """Send a mail."""
        return f"sent to {to}"

    turns = [call("look", place="the list"), call("send", to="Ada"), forever(end)]
    builder = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(*turns)).with_reasoning()
    clerk = agent_tool(builder.with_tools(look, send).build(), description="Sends mails.")
    llm = ScriptedLLM(call("clerk", task="Mail all."), forever(answer("The clerk failed after one mail.")))
    lead = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(clerk).build()
    result = await lead.run("Have the clerk mail all.")
    assert "Done before it ended, and not to be repeated: send." in result.steps[1].content


async def test_an_agent_with_return_direct_answers_for_its_caller() -> None:
    inner = agent_tool(expert(answer("They are there.")), return_direct=True)
    builder = ReactiveAgents.create().with_llm(asking()).with_reasoning().with_tools(inner)
    result = await builder.build().run("Find my keys.")
    assert (result.output, result.metadata.terminated_by) == ("They are there.", "return_direct")


@pytest.mark.parametrize(
    ("turns", "seen"),
    [
        ([call("look", place="a"), call("look", place="b")], "Only a partial answer. The limit of 2 turns"),
        ([answer({"answer": "", "could_not": "There are no keys."})], "There are no keys."),
        ([fail(ModelUnavailable("down", "m"))], "down"),
    ],
)
async def test_only_a_complete_answer_of_an_agent_with_return_direct_ends_its_caller(
    turns: list[Turn], seen: str
) -> None:
    inner = agent_tool(expert(*turns), return_direct=True, retries=0)
    could_not = answer({"answer": "", "could_not": "The keys were not found."})
    llm = ScriptedLLM(*(call("key-finder", task=f"Look {n}.") for n in range(2)), could_not)
    result = (
        await ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(inner).build().run("Find.")
    )
    told = [step.content for step in result.steps if step.type == "observation"]
    assert told[0].startswith("The tool 'key-finder' failed")
    assert seen in told[0]
    assert told[1].startswith("Not run: key-finder failed 1 time in a row and is not called again.")
    assert result.status == "abstained"


async def test_a_failure_is_an_observation_and_its_cost_counts_too() -> None:
    inner = expert(call("look", place="a", cost_usd=0.5), fail(ModelUnavailable("down", "m")))
    result = await caller(asking("It is down."), inner).run("Find my keys.")
    assert result.status == "completed"
    assert "down" in result.steps[1].content
    assert result.steps[1].metadata is not None
    assert result.steps[1].metadata.success is False
    assert result.metadata.cost_usd == pytest.approx(0.52)


async def test_the_callers_budget_counts_what_the_agent_spent() -> None:
    inner = expert(say("They are there.", cost_usd=2.0))
    asked = agent_tool(inner)
    builder = ReactiveAgents.create().with_llm(asking()).with_tools(asked).with_reasoning()
    result = await builder.with_budget(cost_usd=1.0).build().run("Find my keys.")
    assert (result.status, result.metadata.terminated_by) == ("partial", "budget")


async def test_an_agent_that_takes_too_long_is_cancelled() -> None:
    inner = expert(say("late", delay=30))
    result = await caller(asking(LATE), inner, timeout_s=0.05).run("Find my keys.")
    assert "did not end within 0.05 seconds" in result.steps[1].content
    assert inner.running() == ()


@pytest.mark.parametrize(
    ("risk", "hangs", "told"),
    [
        ("medium", False, " Done before it ended, and not to be repeated: send."),
        (
            "medium",
            True,
            " The call of send is in doubt: its result is not known, and it may have taken effect.",
        ),
        ("low", False, ""),
        ("low", True, ""),
    ],
)
@pytest.mark.parametrize("below", [False, True])
@in_virtual_time
async def test_an_agent_that_acted_before_its_time_was_up_is_not_to_be_called_again(
    risk: Risk, hangs: bool, told: str, *, below: bool
) -> None:
    @tool(risk=risk)
    async def send(to: str) -> str:
        """Send a mail."""
        await anyio.sleep(30 if hangs else 0)
        return "sent"

    model = ScriptedLLM(call("send", to="Ada"), answer("Sent.", delay=30))
    builder = ReactiveAgents.create().with_name("clerk").with_llm(model).with_reasoning().with_tools(send)
    if below:
        asks = ScriptedLLM(call("clerk", task="Mail Ada."), answer("Done.", delay=30))
        inner = agent_tool(builder.build())
        builder = ReactiveAgents.create().with_llm(asks).with_reasoning().with_tools(inner)
    clerk = agent_tool(builder.build(), name="clerk", timeout_s=5)
    llm = ScriptedLLM(call("clerk", task="Mail Ada."), forever(answer("Ada has the mail.")))
    lead = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(clerk).build()
    result = await lead.run("Have the clerk mail Ada.")
    ended_by = "in_doubt" if told else "failed_call"
    assert (result.status, result.metadata.terminated_by) == ("partial", ended_by)
    assert result.steps[1].content == f"The tool 'clerk' did not end within 5 seconds.{told}"
    assert any("Call it again" in each.content for each in result.steps) is not bool(told)


@in_virtual_time
async def test_a_late_call_is_not_said_to_have_done_what_an_agent_did_beside_it() -> None:
    @tool(risk="medium")
    async def send(to: str) -> str:
        """Send a mail."""
        return "sent"

    @tool(idempotent=True, timeout_s=6)
    async def look_up(name: str) -> str:
        """Look up an address."""
        await anyio.sleep(30)
        return ""

    model = ScriptedLLM(call("send", to="Ada"), answer("Sent.", delay=30))
    builder = ReactiveAgents.create().with_name("clerk").with_llm(model).with_reasoning().with_tools(send)
    clerk = agent_tool(builder.build(), timeout_s=5)
    together = calls(call("look_up", name="Ada"), call("clerk", task="Mail Ada."))
    llm = ScriptedLLM(together, forever(answer("Ada has the mail.")))
    lead = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(clerk, look_up).build()
    result = await lead.run("Look up the address of Ada and have the clerk mail Ada.")
    told = [each.content for each in result.steps if each.type == "observation"]
    assert told[:2] == [
        "The tool 'look_up' did not end within 6 seconds.",
        "The tool 'clerk' did not end within 5 seconds. Done before it ended, and not to be repeated: send.",
    ]


async def test_an_agent_of_a_durable_run_that_acted_before_its_time_was_up_is_in_doubt(
    tmp_path: Path,
) -> None:
    sent: list[str] = []

    @tool(risk="medium")
    async def send(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    limit_s, result = 0.2, None
    while not sent:  # a busy machine needs more time to begin the call
        model = ScriptedLLM(call("send", to="Ada"), answer("Sent.", delay=1_000))
        builder = ReactiveAgents.create().with_name("clerk").with_llm(model).with_reasoning()
        clerk = agent_tool(builder.with_tools(send).build(), timeout_s=limit_s)
        llm = ScriptedLLM(call("clerk", task="Mail Ada."), forever(answer("Ada has the mail.")))
        lead = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(clerk)
        agent = lead.with_durability(tmp_path / f"{limit_s}.db").build()
        result = await agent.run("Have the clerk mail Ada.", run_id="r")
        limit_s *= 4
    assert result is not None
    assert (result.status, result.metadata.terminated_by) == ("partial", "in_doubt")
    again = await agent.run("Have the clerk mail Ada.", run_id="r")
    assert [each.content for each in again.steps] == [each.content for each in result.steps]


class Endless(ScriptedLLM):
    """Never answers; ``cut_off`` is set when it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.was_asked = False
        self.cut_off = threading.Event()

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        self.was_asked = True
        try:
            await anyio.sleep_forever()
        finally:
            self.cut_off.set()
        raise AssertionError("it sleeps for ever")


@pytest.mark.parametrize("limit", ["run", "tool_call"])
@pytest.mark.parametrize("blocking", [False, True], ids=["in-a-thread", "on-the-loop"])
async def test_an_agent_that_is_run_without_async_ends_with_the_call_of_its_tool(
    blocking: bool, limit: str
) -> None:
    endless, began, ended = Endless(), threading.Event(), threading.Event()
    inner = ReactiveAgents.create().with_llm(endless).with_reasoning().build()

    def search(question: str) -> str:
        """Search for an answer."""
        began.set()
        try:
            return str(inner.run_sync(question).output)
        finally:
            ended.set()

    async def search_at_once(question: str) -> str:
        """Search for an answer."""
        return search(question)

    name, limit_s = "search_at_once" if blocking else "search", 0.2
    while not began.is_set():  # a busy machine needs more time to begin the call
        llm = ScriptedLLM(call(name, question="Where?"), forever(say("Nowhere.")))
        outer = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(search, search_at_once)
        result = await outer.with_timeout(**{limit: limit_s}).build().run("Find my keys.")
        ended_by = "deadline" if limit == "run" else "failed_call"  # with an answer that has no source
        assert (result.status, result.metadata.terminated_by) == ("partial", ended_by)
        limit_s *= 10
    assert await anyio.to_thread.run_sync(ended.wait, 60)
    assert endless.cut_off.is_set() is endless.was_asked


async def test_what_it_spent_counts_also_when_the_caller_is_cancelled_beside_it() -> None:
    async def wait() -> str:
        """Wait."""
        spent.set()
        await anyio.sleep(30)
        return "late"

    spent = anyio.Event()
    recorder = EventRecorder()
    llm = ScriptedLLM(calls(call("key-finder", task="Where?"), call("wait"), cost_usd=0.01))
    inner = agent_tool(expert(say("They are there.", cost_usd=0.2)), description="Finds lost keys.")
    outer = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(inner, wait).build()
    outer.subscribe(recorder)

    async def run() -> None:
        with pytest.raises(AgentError):
            await outer.run("Find my keys.")

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await spent.wait()
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        outer.cancel(outer.running()[0])
    (failed,) = recorder.of(TaskFailed)
    assert failed.metadata is not None
    assert failed.metadata.cost_usd == pytest.approx(0.21)


async def test_a_run_that_fails_has_the_steps_of_every_strategy_that_it_tried() -> None:
    down = fail(ModelUnavailable("down", "m", 503))
    llm = ScriptedLLM(call("look", place="a"), *[down] * 5)
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning("adaptive").with_tools(look).build()
    with pytest.raises(AgentError) as caught:
        await agent.run("Look at a.")
    assert [step.type for step in caught.value.steps] == ["action", "observation"]
    assert caught.value.metadata is not None
    assert (caught.value.metadata.steps_count, caught.value.metadata.iterations) == (2, 1)


@in_virtual_time
@pytest.mark.parametrize("cut_off_by", ["the run", "the tool"])
async def test_what_it_spent_until_it_was_cut_off_counts_too(cut_off_by: str) -> None:
    inner = expert(call("look", place="the drawer", cost_usd=0.1), say("never", delay=30))
    made = caller(
        asking(LATE),
        inner,
        **({"timeout_s": 0.2} if cut_off_by == "the tool" else {}),
    )
    if cut_off_by == "the tool":
        result = await made.run("Find my keys.")
        assert result.output == LATE
        figures = result.metadata
    else:
        recorder = EventRecorder()
        made.subscribe(recorder)
        with anyio.move_on_after(0.2):
            await made.run("Find my keys.")
        (failed,) = recorder.of(TaskFailed)
        assert failed.metadata is not None
        figures = failed.metadata
    assert figures.cost_usd == pytest.approx(0.12 if cut_off_by == "the tool" else 0.11)
    assert figures.model_calls == (3 if cut_off_by == "the tool" else 2)


# --- approval -------------------------------------------------------------------------------------------

erased: list[str] = []


@tool(requires_approval=True, risk="high")
async def erase(path: str) -> str:
    """Erase a file."""
    erased.append(path)
    return "erased"


def clerk() -> ReactiveAgents:
    llm = ScriptedLLM(call("erase", path="a"), say("I tried."), call("erase", path="a"), say("I tried."))
    return ReactiveAgents.create().with_name("clerk").with_llm(llm).with_tools(erase)


@pytest.mark.parametrize("approved", [True, False])
async def test_the_approver_of_the_caller_decides_for_an_agent_without_one(approved: bool) -> None:
    erased.clear()
    asked: list[str] = []

    def decide(request: ApprovalRequest) -> bool:
        asked.append(request.tool_name)
        return approved

    llm = ScriptedLLM(call("clerk", task="Erase a."), say("Done."))
    lead = ReactiveAgents.create().with_llm(llm).with_tools(agent_tool(clerk().build()))
    await lead.with_approval(decide).build().run("Tidy up.")
    assert asked[:1] == ["erase"]
    assert erased[:1] == (["a"] if approved else [])


async def test_what_an_agent_was_not_allowed_to_do_is_not_done_for_its_caller_either() -> None:
    erased.clear()
    llm = ScriptedLLM(call("clerk", task="Erase a."), forever(answer("a is erased.")))
    lead = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(agent_tool(clerk().build()))
    result = await lead.with_required_tools("clerk").with_approval(lambda _: False).build().run("Tidy up.")
    assert (erased, result.status) == ([], "partial")
    assert "The call of erase was not approved" in result.steps[1].content
    assert "clerk" in result.reason


async def test_a_run_is_partial_where_the_call_of_its_agent_was_declined_whatever_it_says() -> None:
    llm = ScriptedLLM(
        call("clerk", task="Erase a."), forever(answer("The clerk was not allowed to erase a."))
    )
    lead = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(agent_tool(clerk().build()))
    result = await lead.with_approval(lambda _: False).build().run("Tidy up.")
    assert (result.status, result.metadata.terminated_by) == ("partial", "not_approved")
    assert "clerk" in result.reason
    assert result.metadata.model_calls > len(llm.requests)


async def test_an_agents_own_approver_goes_before_that_of_the_caller() -> None:
    erased.clear()
    llm = ScriptedLLM(call("clerk", task="Erase a."), say("Done."))
    careful = clerk().with_approval(lambda _: False).build()
    lead = ReactiveAgents.create().with_llm(llm).with_tools(agent_tool(careful))
    await lead.with_approval(lambda _: True).build().run("Tidy up.")
    assert erased == []


async def test_without_any_approver_the_call_is_denied_also_after_a_run_with_one() -> None:
    erased.clear()
    worker = clerk().build()
    llm = ScriptedLLM(call("clerk", task="Erase a."), forever(say("Done.")))
    lead = ReactiveAgents.create().with_llm(llm).with_tools(agent_tool(worker)).with_approval(lambda _: True)
    await lead.build().run("Tidy up.")
    erased.clear()
    await worker.run("Erase a.")
    assert erased == []


# --- budgets --------------------------------------------------------------------------------------------

PRICE = TokenPrice(0.0, 0.001, max_output_tokens=100)
"""A call may cost 10 cents."""
EIGHT = [call("worker", task=f"Part {number}.") for number in range(8)]


def worker(*turns: Turn, price: TokenPrice | None = PRICE) -> ReactiveAgents:
    return ReactiveAgents.create().with_name("worker").with_llm(ScriptedLLM(*turns, price=price))


def lead(inner: ReactiveAgent, *turns: Turn) -> ReactiveAgents:
    model = ScriptedLLM(*(turns or (calls(*EIGHT), forever(answer("Done.")))), price=PRICE)
    return ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(agent_tool(inner))


def cost_of(recorder: EventRecorder) -> float:
    return sum(event.cost_usd or 0.0 for event in recorder.of(ModelCallCompleted))


SLOW = forever(say("Here is my part.", delay=0.05, cost_usd=0.09))


@pytest.mark.parametrize("limited_by", ["a budget", "a cost file"])
async def test_eight_agents_at_once_stay_within_the_budget_of_their_caller(limited_by: str) -> None:
    spent = EventRecorder()
    inner = worker(SLOW).build()
    inner.subscribe(spent)
    outer = lead(inner)
    outer = outer.with_budget(cost_usd=0.5) if limited_by == "a budget" else outer.with_cost(run_usd=0.5)
    result = await outer.build().run("Do all parts.")
    assert 0.35 < cost_of(spent) <= 0.5
    assert result.metadata.cost_usd == pytest.approx(cost_of(spent))


async def test_an_agent_whose_price_is_unknown_makes_no_calls_under_a_cost_file_with_a_limit() -> None:
    inner = worker(SLOW, price=None).build()
    result = (
        await lead(inner, call("worker", task="All."), answer("Not done."))
        .with_cost(run_usd=5.0)
        .build()
        .run("Do it.")
    )
    assert "its price is not known" in result.steps[1].content


async def test_eight_agents_at_once_stay_within_the_tokens_of_their_caller() -> None:
    spent = EventRecorder()
    inner = worker(SLOW, price=None).with_context_profile(max_answer_tokens=100).build()
    inner.subscribe(spent)
    result = await lead(inner).with_budget(tokens=1_000).build().run("Do all parts.")
    answered = spent.of(ModelCallCompleted)
    assert 0 < len(answered) < 8
    assert result.metadata.tokens_used <= 1_000


async def test_the_budget_of_a_caller_holds_for_agents_of_its_agents() -> None:
    spent = EventRecorder()
    innermost = worker(SLOW).build()
    innermost.subscribe(spent)
    middle = lead(innermost).with_name("worker").build()
    middle.subscribe(spent)
    outer = lead(middle, call("worker", task="All of it."), forever(answer("Done."))).with_cost(run_usd=0.5)
    result = await outer.build().run("Do all parts.")
    assert 0.2 < cost_of(spent) <= 0.5
    assert result.metadata.cost_usd == pytest.approx(cost_of(spent))


async def test_spending_of_an_agent_is_entered_once_into_the_budget_of_its_caller() -> None:
    guard = InMemoryBudget(run_usd=5.0)
    outer = lead(worker(SLOW).build()).build()
    with outer.container.governance.budget.override(Object(Some(guard))):
        result = await outer.run("Do all parts.")
    assert guard.spent_usd == pytest.approx(result.metadata.cost_usd) == pytest.approx(8 * 0.09)


async def test_an_agent_that_runs_itself_is_ended_at_a_depth() -> None:
    runs: list[str] = []

    async def again(task: str) -> str:
        """Give the task to the same agent."""
        runs.append(task)
        return (await agent.run(task)).output or ""

    llm = ScriptedLLM(forever(call("again", task="Do it.")))
    agent = ReactiveAgents.create().with_llm(llm).with_tools(again).with_max_iterations(1).build()
    with pytest.raises(AgentError):
        await agent.run("Do it.")
    assert len(runs) == MOST_NESTED_RUNS


async def test_agents_that_call_each_other_are_named_when_they_are_too_deep() -> None:
    def other(name: str, partner: list[ReactiveAgent]) -> ReactiveAgent:
        async def ask(task: str) -> str:
            """Ask the partner."""
            return (await partner[0].run(task)).output or ""

        llm = ScriptedLLM(forever(call("ask", task="Do it.")))
        builder = ReactiveAgents.create().with_name(name).with_llm(llm).with_tools(ask).with_max_iterations(1)
        return builder.build()

    partner: list[ReactiveAgent] = []
    lead = other("lead", partner)
    partner.append(other("clerk", [lead]))
    recorder = EventRecorder()
    lead.subscribe(recorder)
    with pytest.raises(AgentError):
        await lead.run("Do it.")
    refused = recorder.of(TaskFailed)[0].error.message
    assert refused.startswith("8 runs are under way, each begun by a tool of the one before: lead → clerk → ")
    assert refused.endswith("→ lead. 'lead' calls itself.")


# --- what the caller's result says ----------------------------------------------------------------------


async def test_the_result_has_the_runs_of_its_agents_with_their_steps_and_figures() -> None:
    inner = expert(call("look", place="the drawer", cost_usd=0.1), answer("They are there.", cost_usd=0.2))
    result = await caller(asking(), inner).run("Find my keys.")
    (sub,) = result.sub_runs
    assert (sub.agent, sub.parent_run_id, sub.task) == ("key finder", result.run_id, "Where are the keys?")
    assert (sub.status, sub.output) == ("completed", "They are there.")
    assert [step.type for step in sub.steps] == ["action", "observation", "action"]
    assert sub.metadata.cost_usd == pytest.approx(0.3)
    assert result.metadata.cost_usd == pytest.approx(0.32)
    assert (result.agent, result.handoffs) == ("agent", ())


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("action", ["redact", "block"])
async def test_what_the_caller_may_not_read_is_not_in_the_runs_of_its_agents(
    action: Literal["redact", "block"], nested: bool
) -> None:
    inner = expert(call("look", place="the drawer"), forever(answer("They are there: keys@example.org.")))
    guards = CheckConfig("personal-data", action=action, stages=("tool-result",))
    llm = ScriptedLLM(call("key-finder", task="Where?"), forever(answer("In the drawer.")))
    lead = caller(llm, inner, guards)
    if nested:
        llm = ScriptedLLM(call("agent", task="Find them."), forever(answer("They are found.")))
        lead = ReactiveAgents.create().with_llm(llm).with_tools(agent_tool(lead)).build()
    sub, *_ = (await lead.run("Find my keys.")).sub_runs
    assert sub.agent == "key finder"
    assert "keys@example.org" not in f"{sub.output} {sub.steps}"
    kept = "They are there: [email]." if action == "redact" else "[withheld]"
    assert sub.output == kept
    assert [step.content == "[withheld]" for step in sub.steps] == [action == "block"] * 3


async def test_what_the_answer_may_not_say_is_not_in_the_runs_of_its_agents() -> None:
    inner = expert(answer("Ask keys@example.org."))
    guards = CheckConfig("personal-data", stages=("output",))
    lead = caller(ScriptedLLM(call("key-finder", task="Where?"), answer("keys@example.org")), inner, guards)
    result = await lead.run("Find my keys.")
    assert (result.output, result.sub_runs[0].output) == ("[email]", "Ask [email].")


async def test_runs_at_every_depth_are_in_the_result_also_those_that_failed() -> None:
    innermost = expert(fail(ModelUnavailable("down", "m")))
    llm = ScriptedLLM(call("key-finder", task="Where?"), forever(answer("Nobody knows.")))
    middle = caller(llm, innermost)
    llm = ScriptedLLM(call("agent", task="Find them."), forever(answer("Not found.")))
    outer = ReactiveAgents.create().with_name("lead").with_llm(llm).with_tools(agent_tool(middle)).build()
    result = await outer.run("Find my keys.")
    assert [(each.agent, each.status) for each in result.sub_runs] == [
        ("key finder", "failed"),
        ("agent", result.sub_runs[1].status),
    ]
    assert result.sub_runs[0].parent_run_id == result.sub_runs[1].run_id
    assert result.sub_runs[1].parent_run_id == result.run_id
    assert result.sub_runs[0].output is None


async def test_approvals_of_a_sub_agent_count_for_the_caller() -> None:
    erased.clear()
    llm = ScriptedLLM(call("clerk", task="Erase a."), say("Done."))
    lead = ReactiveAgents.create().with_llm(llm).with_tools(agent_tool(clerk().build()))
    result = await lead.with_approval(lambda _: True).build().run("Tidy up.")
    assert (result.metadata.requests, result.sub_runs[0].metadata.requests) == (1, 1)


async def test_agents_that_share_a_file_record_their_cost_once(tmp_path: Path) -> None:
    path = tmp_path / "cost.db"
    turns = (call("look", place="the drawer", cost_usd=0.1), answer("They are there.", cost_usd=0.2))
    inner = worker(*turns, price=None).with_name("key finder").with_tools(look).with_reasoning()
    model = ScriptedLLM(call("key-finder", task="Where?", cost_usd=0.01), forever(answer("In the drawer.")))
    middle = worker().with_llm(model).with_reasoning().with_tools(agent_tool(inner.with_cost(path).build()))
    model = ScriptedLLM(call("worker", task="All.", cost_usd=0.02), forever(answer("In the drawer.")))
    lead = ReactiveAgents.create().with_name("lead").with_llm(model).with_reasoning()
    async with lead.with_tools(agent_tool(middle.build())).with_cost(path).build() as agent:
        result = await agent.run("Find my keys.")
    assert result.metadata.cost_usd == pytest.approx(0.33)
    totals = (await attempt(SqliteCostTracker(path, clock=FakeClock()).totals("agent"))).unwrap()
    assert {each.name: round(each.cost_usd, 6) for each in totals} == {"key finder": 0.3, "lead": 0.03}


@pytest.mark.parametrize("limit_usd", [5.0, 0.2])
async def test_agents_that_share_a_daily_budget_count_each_call_once(
    limit_usd: float, tmp_path: Path
) -> None:
    path = tmp_path / "cost.db"
    inner = worker(forever(say("Here is my part.", cost_usd=0.05))).with_cost(path, daily_usd=5.0)
    outer = lead(
        inner.build(), call("worker", task="All.", cost_usd=0.05), forever(answer("Done.", cost_usd=0.05))
    )
    async with outer.with_cost(path, daily_usd=limit_usd, run_usd=5.0).build() as agent:
        result = await agent.run("Do it.", user="Ada")
    budget = SqliteBudget(path, daily_usd=None, monthly_usd=None, clock=SystemClock())
    state = (await attempt(budget.state())).unwrap()
    assert (await attempt(budget.state(user="Ada"))).unwrap() == state
    assert state.day_usd == state.month_usd == pytest.approx(result.metadata.cost_usd) == pytest.approx(0.15)
    with sqlite_file(path) as file:
        runs = file.execute(
            "SELECT nano_usd FROM periods WHERE name LIKE 'run %' ORDER BY nano_usd"
        ).fetchall()
    assert [nano / 1e9 for (nano,) in runs] == [0.05, 0.15]


def test_an_agent_that_is_not_built_is_no_tool() -> None:
    builder: Any = ReactiveAgents.create().with_name("clerk")
    with pytest.raises(TypeError, match="agent: got a ReactiveAgents, expected an agent that is built"):
        agent_tool(builder)
