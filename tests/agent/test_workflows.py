"""Workflows: agents whose calls are made by a function of the program."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import Any, cast

import anyio
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field

from reactive_agents import (
    AgentError,
    ApprovalDecision,
    CallFailed,
    ReactiveAgent,
    ReactiveAgents,
    RunContext,
    WorkflowRun,
    agent_tool,
    tool,
)
from reactive_agents.core.errors import RunInterrupted
from reactive_agents.core.events import (
    AgentEvent,
    CustomEvent,
    FinalAnswerProduced,
    ToolCallCompleted,
    ToolCallStarted,
)
from reactive_agents.kernel import Stop
from reactive_agents.testing import ScriptedLLM, answer, call, forever, say

pytestmark = pytest.mark.anyio

paid: list[int] = []


@dataclass
class Amount:
    """What the agent of a test answers."""

    amount: int


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    paid.clear()


@tool(risk="high")
def pay(amount: int) -> dict[str, int]:
    """Pay an amount."""
    paid.append(amount)
    return {"paid": amount, "number": len(paid)}


@tool
def price(product: str) -> int:
    """Look up a price."""
    if product == "?":
        raise ValueError("no such product")
    return len(product)


def shop(workflow: Any, *turns: Any) -> ReactiveAgents:
    builder = ReactiveAgents.create().with_name("shop").with_tools(pay, price)
    if turns:
        builder = builder.with_llm(ScriptedLLM(*turns))
    return builder.with_workflow(workflow)


def calls_in(result: Any) -> list[str]:
    return [step.content for step in result.steps if step.type == "action"]


async def test_a_workflow_calls_tools_the_model_and_other_agents() -> None:
    sender = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(say("By train."))).build()

    async def order(run: WorkflowRun, task: str) -> str:
        total = await run.call("price", product="abc") + await run.call("price", product="ab")
        receipt = await run.call("pay", amount=total)
        letter = await run.ask(f"Thank for {task}.")
        sent = await sender.run("How is it sent?")
        return f"{letter} {receipt['paid']} {sent.output}"

    agent = shop(order, say("Thank you!")).build()
    result = await agent.run("an order")
    assert (result.output, result.status, paid) == ("Thank you! 5 By train.", "completed", [5])
    assert result.reason == "The workflow order has returned."
    assert (result.metadata.terminated_by, result.metadata.strategy_used) == ("workflow", "order")
    assert (result.metadata.tool_calls, result.metadata.model_calls) == (3, 2)
    assert [each.agent for each in result.sub_runs] == ["clerk"]
    assert result.tool_results["w3.pay-1"] == '{"paid": 5, "number": 1}'


async def test_a_workflow_needs_no_model_unless_it_asks_one() -> None:
    async def silent(run: WorkflowRun, task: str) -> str:
        return task.upper()

    async def asking(run: WorkflowRun, task: str) -> str:
        return await run.ask(task)

    assert (await shop(silent).build().run("hello")).output == "HELLO"
    with pytest.raises(AgentError, match="This agent has no model: with_model"):
        await shop(asking).build().run("hello")


async def test_equal_calls_are_made_as_often_as_the_program_says() -> None:
    async def thrice(run: WorkflowRun, task: str) -> int:
        return sum([(await run.call("pay", amount=5))["number"] for _ in range(3)])

    assert (await shop(thrice).build().run("pay")).output == "6"
    assert paid == [5, 5, 5]


async def test_calls_side_by_side_have_their_results_and_steps_in_order() -> None:
    async def both(run: WorkflowRun, task: str) -> list[Any]:
        async def twice(name: str) -> list[int]:
            return [await run.call("price", product=name), await run.call("price", product=name * 2)]

        return await run.gather(twice("abc"), run.call("price", product="a"), twice("ab"))

    result = await shop(both).build().run("look up")
    assert result.output == "[[3, 6], 1, [2, 4]]"
    assert [each.partition("product")[2] for each in calls_in(result)] == [
        f'": "{name}"}}}}' for name in ("abc", "abcabc", "a", "ab", "abab")
    ]


async def test_one_failure_of_several_calls_is_raised_after_all_have_ended() -> None:
    async def several(run: WorkflowRun, task: str) -> str:
        try:
            await run.gather(run.call("price", product="?"), run.call("pay", amount=1), run.call("nothing"))
        except CallFailed as failed:
            return f"{failed.tool} {failed.origin}"
        return "none failed"

    result = await shop(several).build().run("look up")
    assert (result.output, result.status, paid) == ("price executed", "completed", [1])


async def test_failures_can_be_returned_in_their_places() -> None:
    async def several(run: WorkflowRun, task: str) -> list[str]:
        made = (run.call("price", product=each) for each in ("abc", "?", "ab"))
        return [str(each) for each in await run.gather(*made, return_exceptions=True)]

    output = (await shop(several).build().run("look up")).output
    assert output == """["3", "price: The tool 'price' failed (ValueError): no such product", "2"]"""


async def test_with_a_limit_only_so_many_calls_are_under_way_at_once() -> None:
    under_way, most = 0, 0

    async def several(run: WorkflowRun, task: str) -> list[str]:
        async def watched(name: str) -> int:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            try:
                found: int = await run.call("price", product=name)
                await anyio.sleep(0.01)
            finally:
                under_way -= 1
            return found

        names = ("abc", "?", "ab", "a", "abcd")
        made = await run.gather(*map(watched, names), return_exceptions=True, limit=2)
        return [str(each)[:5] for each in made]

    assert (await shop(several).build().run("look up")).output == '["3", "price", "2", "1", "4"]'
    assert most == 2


@pytest.mark.parametrize(
    ("limit", "error"),
    [
        (0, "ValueError: limit: got 0, expected 1 or more"),
        (True, "TypeError: limit: got True, expected a whole number, 1 or more"),
        ("2", "TypeError: limit: got '2', expected a whole number, 1 or more"),
    ],
)
async def test_a_limit_that_is_none_is_an_error_before_any_call(
    limit: Any, error: str, recwarn: pytest.WarningsRecorder
) -> None:
    async def several(run: WorkflowRun, task: str) -> str:
        try:
            await run.gather(run.call("pay", amount=1), run.call("pay", amount=2), limit=limit)
        except (TypeError, ValueError) as wrong:
            return f"{type(wrong).__name__}: {wrong}"
        return "none"

    assert (await shop(several).build().run("x")).output == error
    assert not paid
    assert not [each for each in recwarn if "never awaited" in str(each.message)]


async def _raises(run: WorkflowRun) -> None:
    raise KeyError("stock")


async def test_a_call_that_is_never_begun_is_closed(recwarn: pytest.WarningsRecorder) -> None:
    async def closed(run: WorkflowRun, task: str) -> str:
        with pytest.raises(KeyError):
            await run.gather(run.call("price", product="a"), _raises(run))
        return "ended"

    assert (await shop(closed).build().run("x")).output == "ended"
    assert not [each for each in recwarn if "never awaited" in str(each.message)]


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (("price", {"product": "?"}), "The workflow order failed: price: "),
        (("prize", {}), "The workflow order failed: prize: Unknown tool 'prize'. Known tools: pay, price."),
        (("pay", {"amount": "much"}), "amount: got"),
        (("pay", {"amount": object()}), "TypeError: pay: amount: got an object"),
    ],
)
async def test_a_failure_that_the_workflow_does_not_handle_fails_the_run(
    made: tuple[str, dict[str, Any]], problem: str
) -> None:
    async def order(run: WorkflowRun, task: str) -> Any:
        await run.call("pay", amount=1)
        return await run.call(made[0], **made[1])

    with pytest.raises(AgentError) as raised:
        await shop(order).build().run("x")
    assert problem in str(raised.value)
    assert [step.content for step in raised.value.steps if step.type == "action"][:1] == [
        '{"tool": "pay", "arguments": {"amount": 1}}'
    ]


@pytest.mark.parametrize(
    "returned",
    [
        None,
        object(),
        {"when": object()},
        Stop("stock", "completed", cast(Any, object()), ""),
        Stop("stock", cast(Any, "done"), "x", ""),
    ],
)
async def test_what_is_no_answer_fails_the_run(returned: Any) -> None:
    async def order(run: WorkflowRun, task: str) -> Any:
        return returned

    with pytest.raises(AgentError, match=r"The workflow order returned .*, expected the answer"):
        await shop(order).build().run("x")


async def test_an_exception_fails_the_run_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        raise KeyError("stock")

    with pytest.raises(AgentError, match="The workflow order failed: KeyError: 'stock'"):
        await shop(order).build().run("x")
    assert "The workflow order raised." in caplog.text
    assert 'KeyError("stock")' in caplog.text


async def test_a_stopped_workflow_keeps_the_steps_of_its_calls() -> None:
    async def waiting(run: WorkflowRun, task: str) -> str:
        await run.call("price", product="abc")
        agent.stop(agent.running()[0], "It is enough").unwrap()
        await anyio.sleep_forever()
        return "never"

    agent = shop(waiting).build()
    result = await agent.run("x")
    assert (result.status, result.metadata.terminated_by) == ("partial", "stopped")
    assert calls_in(result) == ['{"tool": "price", "arguments": {"product": "abc"}}']


async def test_a_workflow_says_how_it_ends() -> None:
    async def order(run: WorkflowRun, task: str) -> Stop:
        if task == "fail":
            return Stop("stock", "failed", None, "The stock is away.")
        if task == "list":
            return Stop("stock", "partial", cast(Any, {"sold": 2}), "Missing: the third.")
        return Stop("stock", "partial", "2 of 3", "Missing: the third.")

    agent = shop(order).build()
    result = await agent.run("do")
    assert (result.status, result.output, result.reason) == ("partial", "2 of 3", "Missing: the third.")
    assert result.metadata.terminated_by == "stock"
    assert (await agent.run("list")).output == '{"sold": 2}'
    with pytest.raises(AgentError, match="The stock is away"):
        await agent.run("fail")


async def test_the_answer_has_the_output_type() -> None:
    @dataclass
    class Receipt:
        paid: int

    async def order(run: WorkflowRun, task: str) -> Receipt:
        return Receipt((await run.call("pay", amount=3))["paid"])

    agent = ReactiveAgents.create().with_tools(pay).with_workflow(order).with_output_type(Receipt).build()
    assert (await agent.run("pay")).output == Receipt(3)


async def test_pydantic_models_and_dates_are_arguments_and_answers() -> None:
    class Booking(BaseModel):
        day: date
        seats: list[str] = []

    @tool
    def book(booking: Booking) -> str:
        """Book seats."""
        return f"{booking.seats[0]} on {booking.day:%A}"

    async def booked(run: WorkflowRun, task: str) -> Booking:
        booking = Booking(day=date(2026, 3, 2), seats=["1A"])
        told = await run.call("book", booking=booking)
        return Booking(day=booking.day, seats=[told])

    builder = ReactiveAgents.create().with_tools(book).with_workflow(booked)
    assert (await builder.build().run("book")).output == '{"day": "2026-03-02", "seats": ["1A on Monday"]}'
    typed = builder.with_output_type(Booking).build()
    assert (await typed.run("book")).output == Booking(day=date(2026, 3, 2), seats=["1A on Monday"])


async def test_sets_in_pydantic_models_are_arguments_in_one_order() -> None:
    class Part(BaseModel):
        model_config = ConfigDict(frozen=True)
        seats: frozenset[int]

    class Guests(RootModel[set[int]]):
        pass

    @dataclass
    class Desk:
        open: set[int]

    class Booking(BaseModel):
        model_config = ConfigDict(extra="allow")
        seats: set[int] = Field(alias="places")
        parts: set[Part] = set()
        rows: dict[str, list[set[int]]] = {}
        guests: Guests = Guests(set())
        desk: Desk = Desk(set())

        @computed_field(alias="free")  # type: ignore[prop-decorator]
        @property
        def left(self) -> set[int]:
            return self.seats

    told: list[Any] = []

    @tool
    def book(booking: dict[str, Any]) -> str:
        """Book seats."""
        told.append(booking)
        return "Booked."

    async def booked(run: WorkflowRun, task: str) -> str:
        for first, second in ((0, 8), (8, 0)):  # sets of small numbers keep the order of what collides
            seats = {first, second}
            parts = {Part(seats=frozenset(each)) for each in ((first, second), (9, 1))}
            others = {"guests": Guests(seats), "desk": Desk(seats), "note": seats}
            booking = Booking.model_validate(
                {"places": seats, "parts": parts, "rows": {"x": [seats]}, **others}
            )
            await run.call("book", booking=booking)
        return "Done."

    await ReactiveAgents.create().with_tools(book).with_workflow(booked).build().run("book")
    parts = [{"seats": [0, 8]}, {"seats": [1, 9]}]
    others = {"guests": [0, 8], "desk": {"open": [0, 8]}, "free": [0, 8], "note": [0, 8]}
    assert told == [{"places": [0, 8], "parts": parts, "rows": {"x": [[0, 8]]}, **others}] * 2


async def test_what_does_not_have_the_output_type_is_not_converted_by_the_model() -> None:
    async def order(run: WorkflowRun, task: str) -> dict[str, str]:
        return {"total": "3"}

    model = ScriptedLLM(say('{"amount": 5}'))
    agent = ReactiveAgents.create().with_llm(model).with_workflow(order)
    result = await agent.with_output_type(Amount).build().run("pay")
    assert (result.status, result.metadata.model_calls) == ("partial", 0)
    assert "amount: Field required" in result.reason


async def test_the_output_type_is_not_told_to_a_model_that_is_asked() -> None:
    async def order(run: WorkflowRun, task: str) -> Amount:
        return Amount(len(await run.ask("Write a letter.", tools=("price",))))

    model = ScriptedLLM(answer("Dear Ada"))
    agent = ReactiveAgents.create().with_llm(model).with_tools(price).with_workflow(order)
    assert (await agent.with_output_type(Amount).build().run("pay")).output == Amount(8)
    assert "amount" not in str(model.requests[0])


@pytest.mark.parametrize(("tools", "unknown"), [(("price", "prise"), "prise"), ("prise", "prise")])
async def test_asking_with_an_unknown_tool_is_an_error(tools: Any, unknown: str) -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        return await run.ask("What does abc cost?", tools=tools)

    with pytest.raises(AgentError, match=f"tools: got {unknown}, expected names of tools: pay, price"):
        await shop(order, say("3")).build().run("x")


async def test_a_declined_call_makes_the_run_partial() -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        await run.call("pay", amount=3)
        return "paid"

    async def handled(run: WorkflowRun, task: str) -> str:
        try:
            await run.call("pay", amount=3)
        except CallFailed as failed:
            return f"not paid: {failed.origin}"
        return "paid"

    def decide(request: Any) -> ApprovalDecision:
        return ApprovalDecision(False, "Too much.")

    guarded = tool(requires_approval=True)(pay.function)
    for workflow, output in ((order, None), (handled, "not paid: declined")):
        builder = ReactiveAgents.create().with_tools(guarded).with_workflow(workflow)
        result = await builder.with_approval(decide).build().run("pay")
        assert (result.status, result.output, result.metadata.terminated_by) == (
            "partial",
            output,
            "not_approved",
        )
    assert not paid


async def test_limits_of_the_run_make_it_partial() -> None:
    async def forever(run: WorkflowRun, task: str) -> str:
        while True:
            await run.call("price", product="a")

    async def sleeping(run: WorkflowRun, task: str) -> str:
        await run.call("price", product="a")
        await anyio.sleep_forever()
        return "never"

    result = await shop(forever).build().run("x", budget={"tool_calls": 4})
    assert (result.status, result.metadata.tool_calls) == ("partial", 4)
    assert result.reason == "The limit of 4 tool calls was reached. Missing: the rest of the workflow."
    result = await shop(sleeping).with_timeout(1.0).build().run("x")
    assert (result.status, result.metadata.terminated_by) == ("partial", "deadline")
    assert calls_in(result) == ['{"tool": "price", "arguments": {"product": "a"}}']


async def test_a_function_that_tries_again_at_a_limit_does_not_hold_up_the_program() -> None:
    async def stubborn(run: WorkflowRun, task: str) -> int:
        while True:
            try:
                await run.call("price", product="a")
            except CallFailed:
                tries.append(1)
                assert len(tries) < 100_000

    tries: list[int] = []
    agent = shop(stubborn).build()
    async with anyio.create_task_group() as group:
        group.start_soon(partial(agent.run, "x", budget={"tool_calls": 1}))
        while not tries:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert len(tries) < 100_000


async def test_the_most_turns_of_a_run_are_a_limit_that_a_loop_of_tries_ends_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def stubborn(run: WorkflowRun, task: str) -> str:
        while True:
            try:
                await run.ask("What now?")
            except CallFailed as failed:
                tries.append(failed.origin)
                if len(tries) == 2:
                    raise

    tries: list[str] = []
    monkeypatch.setattr("reactive_agents.reasoning.strategies.workflow.MOST_TURNS", 3)
    result = await shop(stubborn, *[say("Wait.")] * 3).build().run("x")
    assert (result.status, result.metadata.terminated_by) == ("partial", "iteration_limit")
    assert (result.metadata.model_calls, tries) == (3, ["refused", "refused"])


async def test_a_function_that_leaves_calls_under_way_fails_after_they_have_ended(tmp_path: Path) -> None:
    @tool
    async def send() -> str:
        """Send."""
        begun.set()
        await anyio.sleep(0.01)
        sent.append(1)
        return "sent"

    async def order(run: WorkflowRun, task: str) -> str:
        tasks.append(asyncio.create_task(run.call("send")))
        await begun.wait()
        tasks.append(asyncio.create_task(run.call("price", product="a")))
        return "done"

    begun, sent, tasks = asyncio.Event(), list[int](), list[asyncio.Task[Any]]()
    agent = ReactiveAgents.create().with_tools(send, price).with_workflow(order)
    with pytest.raises(AgentError, match=r"returned while calls were under way, .* await: send") as raised:
        await agent.with_durability(tmp_path / "runs.db").build().run("x")
    assert sent == [1]
    assert [step.content for step in raised.value.steps if step.type == "observation"] == ["sent"]
    with pytest.raises(RuntimeError, match="price: the function of the workflow has ended"):
        await tasks[1]


@pytest.mark.parametrize("declines", [False, True])
async def test_an_exception_of_a_task_group_is_named_as_without_one(declines: bool) -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(run.call, "pay", amount=3) if declines else partial(_raises, run))
        return "paid"

    guarded = tool(requires_approval=True)(pay.function)
    builder = ReactiveAgents.create().with_tools(guarded).with_workflow(order)
    agent = builder.with_approval(lambda request: ApprovalDecision(False, "Too much.")).build()
    if declines:
        assert (await agent.run("x")).metadata.terminated_by == "not_approved"
    else:
        with pytest.raises(AgentError, match="The workflow order failed: KeyError: 'stock'"):
            await agent.run("x")


@pytest.mark.parametrize(
    ("problems", "is_durable"), [(["a"], False), (["a"], True), (["a", "a"], False), (["a", "b"], False)]
)
async def test_an_exception_group_of_asyncio_ends_the_run_as_its_exceptions_do(
    problems: list[str], is_durable: bool, tmp_path: Path
) -> None:
    async def failing(run: WorkflowRun, task: str) -> str:
        raise ValueError(task)

    async def order(run: WorkflowRun, task: str) -> str:
        async with asyncio.TaskGroup() as group:
            for each in problems:
                group.create_task(shop(failing).build().run(each))
        return "paid"

    agent = durable(tmp_path / "runs.db", order) if is_durable else shop(order).build()
    with pytest.raises(AgentError) as raised:
        await agent.run("x")
    named = "; ".join(
        f"AgentError: The workflow failing failed: ValueError: {each}" for each in dict.fromkeys(problems)
    )
    assert str(raised.value) == f"The workflow order failed: {named}"
    assert (await shop(_paid).build().run("x")).output == "paid"


async def _paid(run: WorkflowRun, task: str) -> str:
    return "paid"


async def _handles_a_failed_group() -> None:
    """Leaves the task counted as cancelled before Python 3.13."""
    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(_raises(cast(Any, None)))


async def test_what_is_raised_after_a_failed_group_was_handled_is_an_error_of_the_function() -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        await _handles_a_failed_group()
        await run.call("price", product="?")
        return "paid"

    with pytest.raises(AgentError, match=r"^The workflow order failed: price: .*no such product"):
        await shop(order).build().run("x")

    async def part(run: WorkflowRun) -> str:
        await _handles_a_failed_group()
        return cast(str, await run.call("price", product="?"))

    async def gathered(run: WorkflowRun, task: str) -> str:
        failed, found = await run.gather(part(run), run.call("price", product="abc"), return_exceptions=True)
        return f"{type(failed).__name__}, {found}"

    assert (await shop(gathered).build().run("x")).output == "CallFailed, 3"


async def test_what_a_function_raises_as_it_is_cut_off_at_the_time_limit_does_not_fail_the_run() -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("there is nothing to close")

    result = await shop(order).with_timeout(0.05).build().run("x")
    assert (result.status, result.metadata.terminated_by) == ("partial", "deadline")


async def test_parts_of_several_kinds_are_named_and_fail_the_run() -> None:
    async def fails_as_it_ends(run: WorkflowRun) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            await _raises(run)

    async def order(run: WorkflowRun, task: str) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(run.call("pay", amount=3))
            group.create_task(fails_as_it_ends(run))
        return "paid"

    guarded = tool(requires_approval=True)(pay.function)
    builder = ReactiveAgents.create().with_tools(guarded).with_workflow(order)
    agent = builder.with_approval(_declines).build()
    with pytest.raises(AgentError, match=r"The workflow order failed: pay: .*Too much.*; KeyError: 'stock'"):
        await agent.run("x")


async def _declines(request: Any) -> ApprovalDecision:
    return ApprovalDecision(False, "Too much.")


async def test_asking_with_what_is_no_text_is_an_error() -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        return await run.ask(cast(Any, {"amount": 3}))

    with pytest.raises(AgentError, match=r"TypeError: task: got .*, expected a text"):
        await shop(order, say("3")).build().run("x")


async def test_required_tools_that_were_not_called_are_missing() -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        return "paid"

    result = await shop(order).with_required_tools("pay").build().run("pay")
    assert result.status == "partial"
    assert "Missing: required calls: pay" in result.reason


async def test_a_workflow_is_not_run_again_for_a_verification() -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        await run.call("pay", amount=3)
        return "paid"

    agent = shop(order).with_verification(action="retry", threshold=0.99).build()
    result = await agent.run("Pay 3 and name the amount.")
    assert paid == [3]
    assert (result.status, result.output) == ("completed", "paid")
    assert "The answer was not verified" in result.reason


async def test_the_context_has_dependencies_and_user() -> None:
    async def who(run: WorkflowRun[str], task: str) -> str:
        context: RunContext[str] = run.context
        said = "/".join(message.content for message in run.history)
        return f"{context.user} {context.deps} {context.session} {run.task} {said}"

    agent = ReactiveAgents.create(deps=str).with_workflow(who).build()
    assert (await agent.run("x", user="ada", session="s", deps="shop")).output == "ada shop s x "
    result = await agent.run("y", user="ada", session="s", deps="shop")
    assert result.output == "ada shop s y x/ada shop s x "


async def test_a_workflow_asks_with_tools() -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        return await run.ask("What does abc cost?", tools=("price",), instructions="Be brief.")

    model = ScriptedLLM(call("price", product="abc"), answer("3"))
    agent = ReactiveAgents.create().with_llm(model).with_tools(pay, price).with_workflow(order).build()
    assert (await agent.run("x")).output == "3"
    assert [each.name for each in model.requests[0].tools] == ["price", "final-answer"]


async def test_a_workflow_is_a_tool_of_another_agent() -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        return f"paid {(await run.call('pay', amount=4))['paid']}"

    model = ScriptedLLM(call("shop", task="Pay 4."), answer("4 were paid."))
    lead = ReactiveAgents.create().with_llm(model).with_reasoning()
    result = await lead.with_tools(agent_tool(shop(order).build(), description="Pays.")).build().run("Pay 4.")
    assert (result.output, paid) == ("4 were paid.", [4])
    assert result.sub_runs[0].output == "paid 4"


async def test_the_events_have_each_call_and_one_answer() -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        await run.call("price", product="abc")
        await run.call("pay", amount=3)
        return "done"

    events: list[AgentEvent] = [event async for event in shop(order).build().stream("x")]
    assert [each.tool_name for each in events if isinstance(each, ToolCallStarted)] == ["price", "pay"]
    answers = [each for each in events if isinstance(each, FinalAnswerProduced)]
    assert [(each.answer, each.strategy) for each in answers] == [("done", "order")]


async def test_data_that_the_function_emits_is_published_in_its_place() -> None:
    left: list[WorkflowRun] = []

    async def order(run: WorkflowRun, task: str) -> str:
        left.append(run)
        run.emit("begun", {"task": task})
        await run.call("pay", amount=1)
        await run.context.emit("paid", 1)
        return "paid"

    agent, seen = shop(order).build(), list[AgentEvent]()
    agent.subscribe(seen.append)
    await agent.run("pay")
    left[0].emit("late", None)
    shown = [
        (each.name, each.data, each.tool_name, each.call_id, each.replayed)
        if isinstance(each, CustomEvent)
        else each.tool_name
        for each in seen
        if isinstance(each, CustomEvent | ToolCallCompleted)
    ]
    assert shown == [("begun", {"task": "pay"}, "", "", False), "pay", ("paid", 1, "", "", False)]
    with pytest.raises(TypeError, match="emit: got 7 and"):
        left[0].emit(cast(str, 7), None)


async def test_data_that_a_thread_emits_is_published_on_the_event_loop_of_the_run() -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        await anyio.to_thread.run_sync(run.emit, "in a thread", None)
        run.emit("after it", None)
        return "done"

    agent, seen = ReactiveAgents.create().with_workflow(order).build(), list[tuple[str, int]]()
    agent.subscribe(
        lambda each: seen.append((each.name, get_ident())) if isinstance(each, CustomEvent) else None
    )
    await agent.run("order")
    assert seen == [("in a thread", get_ident()), ("after it", get_ident())]


async def test_a_partial_function_is_a_workflow_of_the_name_of_its_function() -> None:
    async def greet(word: str, run: WorkflowRun, task: str) -> str:
        return f"{word} {task}"

    result = await shop(partial(greet, "Good morning")).build().run("Ada")
    assert (result.output, result.metadata.strategy_used) == ("Good morning Ada", "greet")


@pytest.mark.parametrize(
    ("wrong", "given"),
    [
        (lambda run, task: "x", "<lambda>"),
        (5, "5"),
        ("order", "'order'"),
        (len, "len"),
        (partial(_raises), "a partial"),
    ],
)
def test_what_is_no_async_function_is_refused(wrong: Any, given: str) -> None:
    expected = f"workflow: got {given}, expected an async function of a WorkflowRun and the task"
    with pytest.raises(AgentError, match=expected):
        ReactiveAgents.create().with_workflow(wrong).build()


def test_a_strategy_that_would_replace_the_workflow_is_refused() -> None:
    async def order(run: WorkflowRun, task: str) -> str:
        return "done"

    assert shop(order, say("x")).with_reasoning("order").build()
    with pytest.raises(AgentError, match="reactive, and a workflow, expected with_workflow after"):
        shop(order, say("x")).with_reasoning().build()


# --- durable runs -------------------------------------------------------------------------------------------


def durable(path: Path, workflow: Any) -> ReactiveAgent:
    return shop(workflow).with_durability(path, recover=False).build()


async def interrupted(path: Path, stop_before: int) -> None:
    """Run until the process is gone before a payment of the number."""

    async def order(run: WorkflowRun, task: str) -> str:
        for amount in (1, 2, 3):
            if amount == stop_before:
                raise SystemExit
            await run.call("pay", amount=amount)
        return "never"

    with pytest.raises(SystemExit):
        await durable(path, order).run("pay", run_id="r")


async def test_an_interrupted_run_goes_on_without_repeating_a_call(tmp_path: Path) -> None:
    await interrupted(tmp_path / "runs.db", stop_before=3)
    seen = []

    async def order(run: WorkflowRun, task: str) -> str:
        seen.extend([(await run.call("pay", amount=each), run.now(), run.new_id()) for each in (1, 2, 3)])
        return "all paid"

    agent = durable(tmp_path / "runs.db", order)
    result = await agent.run("pay", run_id="r")
    assert (result.output, result.metadata.tool_calls, paid) == ("all paid", 3, [1, 2, 3])
    first = [*seen]
    seen.clear()
    replay = await agent.runs.replay("r")
    assert (replay.difference, seen) == ("", first)


@pytest.mark.parametrize("accepts", [False, True])
async def test_what_was_emitted_before_recorded_calls_comes_again_as_replayed(
    tmp_path: Path, *, accepts: bool
) -> None:
    await interrupted(tmp_path / "runs.db", stop_before=2)

    async def order(run: WorkflowRun, task: str) -> str:
        for amount in (1, 2):
            run.emit("next", amount)
            await run.call("pay", amount=amount)
        run.emit("all", None)
        return "paid"

    agent, seen = durable(tmp_path / "runs.db", order), list[AgentEvent]()
    agent.subscribe(seen.append)
    await agent.run("pay", run_id="r", accept_changes=accepts)
    emitted = [(each.name, each.data, each.replayed) for each in seen if isinstance(each, CustomEvent)]
    assert emitted == [("next", 1, True), ("next", 2, False), ("all", None, False)]


@pytest.mark.parametrize(
    ("tool_name", "arguments", "difference"),
    [
        ("pay", {"amount": 9}, "it calls pay at t1 with other arguments than the recorded ones"),
        ("price", {"product": "a"}, "it calls price at t1, and the record has pay"),
    ],
)
async def test_a_workflow_that_makes_other_calls_is_not_given_their_results(
    tmp_path: Path, tool_name: str, arguments: dict[str, Any], difference: str
) -> None:
    await interrupted(tmp_path / "runs.db", stop_before=2)

    async def order(run: WorkflowRun, task: str) -> Any:
        return await run.call(tool_name, **arguments)

    with pytest.raises(AgentError) as raised:
        await durable(tmp_path / "runs.db", order).run("pay", run_id="r")
    assert difference in str(raised.value)
    assert paid == [1]


async def paying_both(run: WorkflowRun, task: str) -> str:
    await run.call("pay", amount=1)
    await run.call("pay", amount=2)
    return "paid"


async def test_a_run_that_a_durable_run_submits_is_submitted_once(tmp_path: Path) -> None:
    queued = durable(tmp_path / "queue.db", paying_both)

    async def order(run: WorkflowRun, task: str) -> Any:
        submitted = [await queued.submit(task, queue="night") for _ in range(2)]
        if is_first:
            raise SystemExit
        return submitted

    is_first = True
    with pytest.raises(SystemExit):
        await durable(tmp_path / "runs.db", order).run("pay", run_id="r")
    is_first, agent = False, durable(tmp_path / "runs.db", order)
    result = await agent.run("pay", run_id="r")
    assert (await agent.runs.replay("r")).difference == ""
    submitted = json.loads(result.output or "")
    assert sorted(submitted) == sorted(each.run_id for each in await queued.runs.list())
    assert len(set(submitted)) == 2
    for each in submitted:
        await queued.runs.delete(each)
    assert (await agent.runs.replay("r")).difference == ""
    assert [*await queued.runs.list()] == []  # a replay submits nothing


async def test_a_replay_that_lacks_the_dependencies_of_a_workflow_says_so(tmp_path: Path) -> None:
    async def order(run: WorkflowRun[str], task: str) -> str:
        return run.context.deps.upper() + str(await run.call("price", product="abc"))

    builder = ReactiveAgents.create(deps=str).with_tools(price).with_workflow(order)
    agent = builder.with_durability(tmp_path / "runs.db", recover=False).build()
    assert (await agent.run("x", run_id="r", deps="shop")).output == "SHOP3"
    assert (await agent.runs.replay("r", deps="shop")).difference == ""
    difference = (await agent.runs.replay("r")).difference
    assert difference.endswith("The replay was given no dependencies: replay(run_id, deps=…).")


@pytest.mark.parametrize("change", ["model", "instructions", "message"])
async def test_a_fork_for_a_model_is_refused_where_there_is_none(tmp_path: Path, change: str) -> None:
    agent = durable(tmp_path / "runs.db", paying_both)
    await agent.run("pay", run_id="r")
    with pytest.raises(
        AgentError, match=f"{change}: got .*, expected nothing, since this agent has no model"
    ):
        await agent.runs.fork("r", at=2, **cast(Any, {change: "Leave out the second."}))
    fork = await agent.runs.fork("r", at=1, tool_result={"paid": 1})
    assert (await agent.runs.resume(fork)).output == "paid"
    assert paid == [1, 2, 2]


async def test_a_message_of_a_fork_is_shown_to_the_model_that_a_workflow_asks(tmp_path: Path) -> None:
    async def order(run: WorkflowRun, task: str) -> list[str]:
        return [await run.ask("Which invoices are open?"), await run.ask("Which are due?")]

    model = ScriptedLLM(say("7 and 8"), say("8"), say("7"))
    builder = ReactiveAgents.create().with_llm(model).with_workflow(order)
    agent = builder.with_durability(tmp_path / "runs.db", recover=False).build()
    await agent.run("pay", run_id="r")
    fork = await agent.runs.fork("r", at=2, message="Leave out that of Acme.")
    assert (await agent.runs.resume(fork)).output == '["7 and 8", "7"]'
    assert [each.content for each in model.requests[-1].messages[-2:]] == [
        "Which are due?",
        "Leave out that of Acme.",
    ]


@pytest.mark.parametrize("leaves_out", ["all", "last", "side by side", "handles it"])
async def test_a_workflow_that_leaves_out_a_recorded_call_is_interrupted(
    tmp_path: Path, leaves_out: str
) -> None:
    async def first(run: WorkflowRun, task: str) -> str:
        calls = [run.call("pay", amount=1), run.call("pay", amount=2)]
        if leaves_out == "side by side":
            await run.gather(*calls)
        else:
            for each in calls:
                await each
        raise SystemExit

    async def second(run: WorkflowRun, task: str) -> str:
        if leaves_out == "side by side":
            return await paying_both(run, task)
        if leaves_out == "last":
            await run.call("pay", amount=1)
        if leaves_out == "handles it":
            try:
                await run.call("pay", amount=9)
            except BaseException:  # noqa: BLE001 - as a function of the program may do
                await run.call("pay", amount=10)
        return "paid"

    first.__name__ = second.__name__ = "order"
    with pytest.raises(SystemExit):
        await durable(tmp_path / "runs.db", first).run("pay", run_id="r")
    with pytest.raises(AgentError) as raised:
        await durable(tmp_path / "runs.db", second).run("pay", run_id="r")
    assert isinstance(raised.value.error, RunInterrupted)
    assert sorted(paid) == [1, 2]  # calls side by side end in any order


@pytest.mark.parametrize("begins", [False, True], ids=["left out", "and another begun"])
@pytest.mark.parametrize("fails", [False, True])
async def test_what_left_out_calls_took_is_counted_once(tmp_path: Path, *, fails: bool, begins: bool) -> None:
    def agent(workflow: Any) -> ReactiveAgent:
        described = shop(workflow, say("Thanks.", cost_usd=0.25), say("Thanks.", cost_usd=0.5))
        return described.with_durability(tmp_path / "runs.db", recover=False).build()

    sender = (
        ReactiveAgents.create()
        .with_name("clerk")
        .with_llm(ScriptedLLM(forever(say("Sent.", cost_usd=0.125))))
    )

    async def first(run: WorkflowRun, task: str) -> str:
        await run.ask("Thank.")
        await run.call("pay", amount=1)
        await sender.build().run("Send it.")
        raise SystemExit

    async def second(run: WorkflowRun, task: str) -> str:
        await run.call("pay", amount=1)
        for _ in range(2 * begins):
            await sender.build().run("Send it.")
        if fails:
            raise ValueError("x")
        return "paid"

    with pytest.raises(SystemExit):
        await agent(first).run("pay", run_id="r")
    try:
        ended: Any = await agent(second).run("pay", run_id="r", accept_changes=True)
    except AgentError as error:
        ended = error
    metadata = ended.metadata
    assert isinstance(ended, AgentError) == fails, ended
    took = 0.25 + 0.125 * (1 + begins)
    assert (metadata.cost_usd, metadata.model_calls, metadata.tool_calls) == (took, 2 + begins, 1)
    assert paid == [1]


async def paying_one(run: WorkflowRun, task: str) -> str:
    return f"paid {await run.call('pay', amount=1)}"


@pytest.mark.parametrize(
    ("made", "then", "left_out"),
    [
        ("ask", "nothing", "it ends, and the record has an answer of the model at m1"),
        ("ask", "pay", "it makes a new call at t1, and the record has an answer of the model at m1"),
        ("run", "nothing", "it ends, and the record has a run of 'shop' at r1"),
        ("run", "pay", "it makes a new call at t1, and the record has a run of 'shop' at r1"),
        ("pay", "run", "it makes a new call at r1, and the record has a call of pay at t1"),
        ("both", "run", "it makes a new call at r1, and the record has a run of 'shop' at g1.0/r1"),
        ("cut off", "nothing", "it ends, and the record has a call of wait at t1"),
    ],
)
async def test_an_answer_sub_run_or_call_in_doubt_that_is_left_out_interrupts_the_run(
    tmp_path: Path, made: str, then: str, left_out: str
) -> None:
    @tool
    async def wait() -> str:
        """Wait."""
        cut_off.cancel()
        await anyio.sleep_forever()
        return "never"

    sub = shop(paying_one).build()

    async def order(run: WorkflowRun, task: str) -> str:
        if made == "ask":
            await run.ask("What now?")
        elif made == "run":
            await sub.run("x")
        elif made == "both":
            await run.gather(sub.run("x"), sub.run("x"))
        elif made == "cut off":
            with cut_off:
                await run.call("wait")
        elif made == "pay":
            await run.call("pay", amount=2)
        if not is_first:
            return "done"
        raise SystemExit

    def agent() -> ReactiveAgent:
        builder = ReactiveAgents.create().with_tools(pay, wait).with_llm(ScriptedLLM(say("Pay.")))
        return builder.with_workflow(order).with_durability(tmp_path / "runs.db", recover=False).build()

    is_first, cut_off = True, anyio.CancelScope()
    with pytest.raises(SystemExit):
        await agent().run("x", run_id="r")
    before, is_first, made = [*paid], False, then
    with pytest.raises(AgentError) as raised:
        await agent().run("x", run_id="r")
    assert isinstance(raised.value.error, RunInterrupted)
    assert left_out in str(raised.value)
    assert paid == before


async def test_recorded_sub_runs_are_reached_again_wherever_they_were_begun(tmp_path: Path) -> None:
    sub = shop(paying_one).build()

    @tool(idempotent=True)
    async def delegate() -> str:
        """Run an agent within a tool."""
        return (await sub.run("x")).output or ""

    async def order(run: WorkflowRun, task: str) -> Any:
        first = await sub.run("x")
        found = await run.gather(sub.run("y"), run.call("delegate"), run.gather(sub.run("x"), sub.run("y")))
        if is_first:
            raise SystemExit
        return [first.output, found[1], (await sub.run("y")).output]

    def agent() -> ReactiveAgent:
        builder = ReactiveAgents.create().with_tools(delegate).with_workflow(order)
        return builder.with_durability(tmp_path / "runs.db", recover=False).build()

    is_first = True
    with pytest.raises(SystemExit):
        await agent().run("x", run_id="r")
    is_first = False
    result = await agent().run("x", run_id="r")
    assert (result.status, len(result.sub_runs), len(paid)) == ("completed", 6, 6)


@pytest.mark.parametrize("in_group", [False, True])
async def test_calls_beside_each_other_without_gather_are_refused_in_a_durable_run(
    tmp_path: Path, in_group: bool
) -> None:
    """Their names would depend on which of them ends first, so that the run could not be continued."""

    async def order(run: WorkflowRun, task: str) -> str:
        if in_group:
            async with anyio.create_task_group() as group:
                for each in "ab":
                    group.start_soon(partial(run.call, "price", product=each))
        else:
            await asyncio.gather(*(run.call("price", product=each) for each in "ab"))
        return "done"

    assert (await shop(order).build().run("x")).output == "done"
    with pytest.raises(AgentError, match=r"price: another call is under way, expected run\.gather"):
        await durable(tmp_path / "runs.db", order).run("x")


async def test_a_difference_within_a_task_group_interrupts_the_run(tmp_path: Path) -> None:
    await interrupted(tmp_path / "runs.db", stop_before=2)

    async def order(run: WorkflowRun, task: str) -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(run.call, "pay", amount=9))
        return "never"

    with pytest.raises(AgentError, match="with other arguments than the recorded ones") as raised:
        await durable(tmp_path / "runs.db", order).run("pay", run_id="r")
    assert isinstance(raised.value.error, RunInterrupted)


async def test_a_sub_run_with_another_task_than_the_recorded_one_interrupts_the_run(tmp_path: Path) -> None:
    sub = shop(paying_both).build()

    async def first(run: WorkflowRun, task: str) -> str:
        await sub.run("one")
        raise SystemExit

    async def second(run: WorkflowRun, task: str) -> Any:
        return (await sub.run("two")).output

    first.__name__ = second.__name__ = "order"
    with pytest.raises(SystemExit):
        await durable(tmp_path / "runs.db", first).run("pay", run_id="r")
    with pytest.raises(AgentError, match="has another task: input differs") as raised:
        await durable(tmp_path / "runs.db", second).run("pay", run_id="r")
    assert isinstance(raised.value.error, RunInterrupted)


async def test_a_call_in_doubt_ends_the_run_also_before_recorded_calls(tmp_path: Path) -> None:
    """A time limit of the function cut the call off, which nobody knows when the run is continued."""

    @tool
    async def waiting() -> str:
        """Wait."""
        cut_off.cancel()
        await anyio.sleep_forever()
        return "never"

    async def order(run: WorkflowRun, task: str) -> str:
        with cut_off:
            await run.call("waiting")
        await run.call("pay", amount=1)
        raise SystemExit

    def agent() -> ReactiveAgent:
        builder = ReactiveAgents.create().with_tools(waiting, pay).with_workflow(order)
        return builder.with_durability(tmp_path / "runs.db", recover=False).build()

    cut_off = anyio.CancelScope()
    with pytest.raises(SystemExit):
        await agent().run("pay", run_id="r")
    cut_off = anyio.CancelScope()
    result = await agent().run("pay", run_id="r")
    assert (result.status, result.metadata.terminated_by, paid) == ("partial", "in_doubt", [1])
