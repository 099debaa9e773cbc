"""The tool service: what runs, what is refused, and what a call ends in; on asyncio and on trio."""

from __future__ import annotations

import argparse
import asyncio
import csv
import functools
import re
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from returns.io import IOFailure
from returns.result import Failure, Result, Success

from reactive_agents.adapters.system import SystemClock
from reactive_agents.adapters.tools.decorator import Tool, as_tool, tool
from reactive_agents.adapters.tools.service import LocalToolService
from reactive_agents.core.errors import (
    InvalidToolArguments,
    ServiceFailed,
    ToolErrors,
    ToolFailed,
    ToolNotApproved,
    ToolNotFound,
    ToolTimedOut,
    WorkspaceViolation,
)
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.results import ModelRetry
from reactive_agents.core.tools import ToolContext, ToolResult, ToolScope
from reactive_agents.effects import attempt, effect, gather
from reactive_agents.ports import Approver, Clock, ToolService
from reactive_agents.testing import FakeClock, FixedApprover

pytestmark = pytest.mark.anyio

SCOPE = ToolScope(RunId("run"), TaskId("task"), AgentId("agent"), SessionId("session"), "run-1.0")


def make_service(*tools: Callable[..., Any], clock: Clock | None = None) -> LocalToolService:
    return LocalToolService(
        [as_tool(one) for one in tools],
        workspace=Path("/"),
        clock=clock or SystemClock(),
    )


async def run(
    service: ToolService,
    name: str,
    scope: ToolScope = SCOPE,
    approver: Approver | None = None,
    **arguments: Json,
) -> Result[ToolResult, ToolErrors]:
    return await attempt(service.execute(ToolCall(CallId("c1"), name, arguments), scope, approver))


async def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def subtract(a: int, b: int = 1) -> int:
    """Subtract."""
    return a - b


async def test_async_and_plain_tools_run() -> None:
    service = make_service(add, subtract)
    assert (await run(service, "add", a="2", b=3)).unwrap().result == 5
    result = (await run(service, "subtract", a=2)).unwrap()
    assert (result.call_id, result.tool_name, result.result, result.success) == ("c1", "subtract", 1, True)
    assert result.duration_ms > 0


async def test_a_tool_that_changes_its_arguments_changes_no_call_of_the_model() -> None:
    async def grow(items: Any) -> int:
        items["all"].append("more")
        return len(items["all"])

    call = ToolCall(CallId("c1"), "grow", {"items": {"all": []}})
    grown = await attempt(make_service(grow).execute(call, SCOPE))
    assert grown.unwrap().result == 1
    assert call.arguments == {"items": {"all": []}}


async def test_durations_are_measured_by_the_clock() -> None:
    result = (await run(make_service(add, clock=FakeClock(step_s=0.25)), "add", a=1)).unwrap()
    assert result.duration_ms == 250.0


async def test_plain_tools_run_beside_the_event_loop_and_each_other() -> None:
    barrier = threading.Barrier(2)

    def meet() -> bool:
        barrier.wait()
        return threading.current_thread() is not threading.main_thread()

    service = make_service(meet)
    calls = [service.execute(ToolCall(CallId(str(number)), "meet"), SCOPE) for number in range(2)]
    assert [result.unwrap().result for result in await gather(calls)] == [True, True]


async def test_definitions_keep_their_order_and_know_the_timeout() -> None:
    slow = tool(name="slow", timeout_s=9)(lambda: None)
    service = LocalToolService(
        [slow, as_tool(add)], workspace=Path("/"), clock=SystemClock(), default_timeout_s=3
    )
    assert [(one.name, one.timeout_s) for one in service.definitions()] == [("slow", 9), ("add", 3)]


async def test_a_service_without_tools() -> None:
    service = make_service()
    assert service.definitions() == ()
    assert (await run(service, "add")).failure() == ToolNotFound("add", ())


@pytest.mark.parametrize("name", ["Add", "add ", "ad", ""])
async def test_names_are_exact(name: str) -> None:
    assert (await run(make_service(add, subtract), name)).failure() == ToolNotFound(name, ("add", "subtract"))


async def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="'add'"):
        make_service(add, tool(name="add")(subtract))


async def test_a_timeout_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="default_timeout_s: got 0"):
        LocalToolService([], workspace=Path("/"), clock=SystemClock(), default_timeout_s=0)


async def test_arguments_that_do_not_fit_do_not_run_the_tool() -> None:
    ran: list[int] = []
    error = (await run(make_service(_note(ran)), "note")).failure()
    assert isinstance(error, InvalidToolArguments)
    assert error.problems[0].argument == "number"
    assert ran == []


def _note(into: list[int]) -> Callable[[int], None]:
    def note(number: int) -> None:
        into.append(number)

    return note


async def test_malformed_arguments_do_not_run_the_tool() -> None:
    service = make_service(add)
    call = ToolCall(CallId("c1"), "add", malformed='{"a": 1')
    error = (await attempt(service.execute(call, SCOPE))).failure()
    assert isinstance(error, InvalidToolArguments)
    assert "could not be read as JSON" in error.message


# --- what a tool gives back -----------------------------------------------------------------------------


@attrs.frozen
class Point:
    x: int


@attrs.frozen
class ShopClosed:
    message: str = "come back tomorrow"


def gives_point() -> Point:
    return Point(1)


def gives_success() -> Result[Point, str]:
    return Success(Point(2))


def gives_tool_error() -> Result[int, ToolErrors]:
    return Failure(WorkspaceViolation("x", "no."))


def gives_text_failure() -> Result[int, str]:
    return Failure("sold out")


def gives_value_failure() -> Result[int, ShopClosed]:
    return Failure(ShopClosed())


async def gives_exception_failure() -> Result[int, Exception]:
    return Failure(LookupError("gone"))


@effect
async def gives_effect() -> Result[int, ToolErrors]:
    return Success(3)


def gives_io_failure() -> object:
    return IOFailure("io")


def gives_awaitable() -> Awaitable[int]:
    return add(4)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (gives_point, {"x": 1}),
        (gives_success, {"x": 2}),
        (gives_effect, 3),
        (gives_awaitable, 5),
    ],
)
async def test_values(function: Callable[..., Any], expected: Json) -> None:
    assert (await run(make_service(function), function.__name__)).unwrap().result == expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (gives_tool_error, WorkspaceViolation("x", "no.")),
        (gives_text_failure, ToolFailed("gives_text_failure", "sold out")),
        (gives_value_failure, ToolFailed("gives_value_failure", "come back tomorrow", "ShopClosed")),
        (gives_exception_failure, ToolFailed("gives_exception_failure", "gone", "LookupError")),
        (gives_io_failure, ToolFailed("gives_io_failure", "io")),
    ],
)
async def test_failures(function: Callable[..., Any], expected: ToolErrors) -> None:
    assert (await run(make_service(function), function.__name__)).failure() == expected


@pytest.mark.parametrize(
    ("raised", "kind", "detail"),
    [
        (KeyError("missing"), "KeyError", "'missing'"),
        (ValueError(), "ValueError", "ValueError"),
        (StopIteration("early"), "StopIteration", "early"),
        (TimeoutError("its own"), "TimeoutError", "its own"),
        (ExceptionGroup("group", [LookupError("inner")]), "LookupError", "inner"),
        (
            ExceptionGroup("two", [LookupError("a"), ExceptionGroup("one", [ValueError("b")])]),
            "ExceptionGroup",
            "two (2 sub-exceptions): LookupError: a; ValueError: b",
        ),
        (
            ExceptionGroup("two", [LookupError("a" * 10_000), ValueError("b")]),
            "ExceptionGroup",
            f"two (2 sub-exceptions): LookupError: {'a' * 986}…; ValueError: b",
        ),
    ],
)
async def test_what_a_tool_raises_becomes_a_failure_without_a_trace(
    raised: Exception, kind: str, detail: str
) -> None:
    def fail() -> None:
        raise raised

    assert (await run(make_service(fail), "fail")).failure() == ToolFailed("fail", detail, kind)


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_the_log_of_an_exception_begins_in_the_tool(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def find(article: str) -> float:
        return {"tea": 3.5}[article]

    def price(article: str) -> float:
        return find(article)

    async def price_later(article: str) -> float:
        return find(article)

    function = price if kind == "sync" else price_later
    await run(make_service(function), function.__name__, article="milk")
    assert re.findall(r"(?m)^ +File .*, in (\w+)$", caplog.text) == [function.__name__, "find"]
    assert "KeyError: 'milk'" in caplog.text


ASKED = ModelRetry("Take a longer word.")


@pytest.mark.parametrize("raised", [ASKED, ExceptionGroup("of a task group", [ASKED])])
async def test_what_a_tool_asks_of_the_model_is_no_fault_of_the_tool(
    raised: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def look(word: str) -> str:
        raise raised

    error = (await run(make_service(look), "look", word="a")).failure()
    assert error.message == "The tool 'look' failed: Take a longer word."
    assert not caplog.records


@pytest.mark.parametrize("place", ["text", "cause", "note"])
async def test_the_log_has_the_beginning_of_a_text_that_somebody_else_may_have_chosen(
    caplog: pytest.LogCaptureFixture, place: str
) -> None:
    page = "x" * 1_000_000

    def look() -> str:
        error = ValueError(page if place == "text" else "xxx")
        if place == "note":
            error.add_note(page)
        raise error from ValueError(page) if place == "cause" else None

    (await run(make_service(look), "look")).failure()
    assert "line" in caplog.text
    assert caplog.text.index("ValueError: xxx") < len(caplog.text) < 20_000


async def test_a_sync_tool_that_raises_the_end_of_a_generator_has_failed() -> None:
    def look() -> str:
        raise GeneratorExit

    error = (await run(make_service(look), "look")).failure()
    assert error == ToolFailed("look", "it raised GeneratorExit", "RuntimeError")


async def test_a_tool_that_asks_for_nothing_has_failed() -> None:
    def look() -> str:
        raise ModelRetry

    error = (await run(make_service(look), "look")).failure()
    assert error == ToolFailed("look", "ModelRetry", "ModelRetry")


def raise_cancelled() -> None:
    raise asyncio.CancelledError


async def raise_cancelled_async() -> None:
    raise asyncio.CancelledError("by hand")


@pytest.mark.parametrize("function", [raise_cancelled, raise_cancelled_async])
async def test_a_cancellation_that_is_not_the_runs_own_is_a_failure_of_the_tool(
    function: Callable[..., Any],
) -> None:
    error = (await run(make_service(tool(name="fail")(function)), "fail")).failure()
    assert isinstance(error, ToolFailed)
    assert error.exception == "CancelledError"
    assert error.detail in ("CancelledError", "by hand")


async def test_a_tool_may_fail_with_the_cancellation_of_a_task_of_its_own() -> None:
    def start() -> asyncio.Task[None]:
        other = asyncio.ensure_future(asyncio.sleep(10))
        other.cancel()
        return other

    async def wait() -> None:
        await start()

    async def wait_in_a_group() -> None:
        async with anyio.create_task_group():
            await start()

    for function in (wait, wait_in_a_group):
        error = (await run(make_service(tool(name="wait")(function)), "wait")).failure()
        assert isinstance(error, ToolFailed)
        assert error.exception == "CancelledError"


async def test_a_tool_that_ends_the_program_ends_its_call_only() -> None:
    def parse() -> None:
        argparse.ArgumentParser(exit_on_error=False).exit(2)

    async def leave() -> None:
        sys.exit("no such option")

    async def leave_in_a_group() -> None:
        async with anyio.create_task_group():
            sys.exit(3)

    service = make_service(parse, leave, leave_in_a_group)
    failures = [(await run(service, name)).failure() for name in ("parse", "leave", "leave_in_a_group")]
    assert failures == [
        ToolFailed("parse", "2", "SystemExit"),
        ToolFailed("leave", "no such option", "SystemExit"),
        ToolFailed("leave_in_a_group", "3", "SystemExit"),
    ]


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


async def test_a_generator_is_no_result() -> None:
    @wrapped
    def count() -> Iterator[int]:
        yield 1

    @wrapped
    async def count_async() -> AsyncIterator[int]:
        yield 1

    async def pick() -> Result[Iterator[int], str]:
        return Success(number for number in range(3))

    service = make_service(count, count_async, pick)
    for name in ("count", "count_async", "pick"):
        error = (await run(service, name)).failure()
        assert "generator), which was not read" in error.message
        assert "list" in error.message


async def test_what_is_read_one_by_one_is_no_result() -> None:
    def rows() -> Any:
        return csv.reader(["a,b"])

    def doubled() -> Any:
        return map(str, [1, 2])

    class Numbers:
        def __aiter__(self) -> AsyncIterator[int]:
            return self

        async def __anext__(self) -> int:
            return 1

    def numbers() -> Any:
        return Numbers()

    service = make_service(rows, doubled, numbers)
    kinds = {"rows": "reader", "doubled": "map", "numbers": "Numbers"}
    for name, kind in kinds.items():
        error = (await run(service, name)).failure()
        assert f"it returned an iterator ({kind})" in error.message
        assert "list" in error.message


async def test_a_record_that_can_also_be_read_one_by_one_is_a_result() -> None:
    @attrs.frozen
    class Page:
        number: int

        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            raise StopIteration

    def page() -> Any:
        return Page(3)

    assert (await run(make_service(page), "page")).unwrap().result == {"number": 3}


async def test_a_long_message_is_cut() -> None:
    async def fail() -> None:
        raise ValueError("x" * 10_000)

    error = (await run(make_service(fail), "fail")).failure()
    assert isinstance(error, ToolFailed)
    assert len(error.detail) == 2_000


# --- time -----------------------------------------------------------------------------------------------


async def wait_async() -> None:
    await anyio.sleep_forever()


def wait_awaitable() -> Coroutine[Any, Any, None]:
    return wait_async()


let_go = threading.Event()


def wait_plain() -> None:
    let_go.wait()


@pytest.mark.parametrize("function", [wait_async, wait_plain, wait_awaitable])
async def test_a_tool_that_takes_too_long(function: Callable[..., Any]) -> None:
    let_go.clear()
    service = make_service(tool(name="wait", timeout_s=0.05)(function), add)
    assert (await run(service, "wait")).failure() == ToolTimedOut("wait", 0.05)
    assert (await run(service, "add", a=2)).unwrap().result == 3
    let_go.set()


async def test_the_deadline_of_the_run_comes_first() -> None:
    scope = attrs.evolve(SCOPE, deadline=0.05)
    failed = (await run(make_service(wait_async, clock=FakeClock()), "wait_async", scope)).failure()
    assert failed == ToolTimedOut("wait_async", 0.05)


async def test_after_the_deadline_nothing_runs() -> None:
    ran: list[int] = []
    service = make_service(tool(name="note")(_note(ran)), clock=FakeClock(step_s=1))
    scope = attrs.evolve(SCOPE, deadline=0.0)
    assert (await run(service, "note", scope, number=1)).failure() == ToolTimedOut("note", 0.0)
    assert ran == []


async def test_cancellation_from_outside_passes_through() -> None:
    begun = anyio.Event()
    outcomes: list[object] = []

    async def wait() -> None:
        begun.set()
        await anyio.sleep_forever()

    async def call() -> None:
        outcomes.append(await run(make_service(wait), "wait"))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await begun.wait()
        group.cancel_scope.cancel()
    assert outcomes == []


@pytest.mark.parametrize("on_loop", [True, False])
async def test_what_is_no_exception_passes_through(on_loop: bool) -> None:
    class Stop(BaseException): ...

    async def stop_async() -> None:
        raise Stop

    def stop_plain() -> None:
        raise Stop

    stop: Callable[..., Any] = stop_async if on_loop else stop_plain
    with pytest.raises(Stop):
        await run(make_service(tool(name="stop")(stop)), "stop")


# --- the context ----------------------------------------------------------------------------------------


async def test_the_context_is_filled_in(tmp_path: Path) -> None:
    seen: list[ToolContext] = []

    @tool(timeout_s=5)
    def look(number: int, context: ToolContext) -> int:
        seen.append(context)
        return number

    link = tmp_path / "link"
    (tmp_path / "real").mkdir()
    link.symlink_to("real")
    service = LocalToolService([look], workspace=link, clock=FakeClock())
    assert (await run(service, "look", number=1)).unwrap().result == 1
    await run(service, "look", attrs.evolve(SCOPE, deadline=2.0), number=1)
    expected = ToolContext(
        RunId("run"), TaskId("task"), AgentId("agent"), "run-1.0", (tmp_path / "real").resolve(), 5.0
    )
    assert seen == [expected, attrs.evolve(expected, deadline=2.0)]


async def test_a_model_cannot_send_a_context() -> None:
    @tool
    def look(context: ToolContext | None = None) -> bool:
        return context is not None

    service = make_service(look)
    error = (await run(service, "look", context={})).failure()
    assert isinstance(error, InvalidToolArguments)
    assert (await run(service, "look")).unwrap().result is True


# --- approval -------------------------------------------------------------------------------------------


class NeverAnswers:
    @effect
    async def decide(self, request: ApprovalRequest) -> Result[ApprovalDecision, ServiceFailed]:
        await anyio.sleep_forever()
        return Success(ApprovalDecision(True))


def risky(ran: list[int]) -> Tool[..., Any]:
    return tool(name="risky", requires_approval=True)(_note(ran))


async def test_an_approved_call_runs() -> None:
    ran: list[int] = []
    approver = FixedApprover()
    assert (await run(make_service(risky(ran)), "risky", approver=approver, number=1)).unwrap().success
    assert ran == [1]
    (request,) = approver.requests
    assert (request.tool_name, request.arguments, request.call_id) == ("risky", {"number": 1}, "c1")
    assert (request.run_id, request.risk) == (SCOPE.run_id, "low")


@pytest.mark.parametrize(
    ("approver", "reason"),
    [
        (None, "there is no approver"),
        (FixedApprover(False), "declined"),
        (FixedApprover(False, "not on a Friday"), "not on a Friday"),
        (
            FixedApprover(fails_with=ServiceFailed("terminal closed", "approvals", "decide")),
            "terminal closed",
        ),
    ],
)
async def test_anything_but_yes_refuses(approver: Approver | None, reason: str) -> None:
    ran: list[int] = []
    error = (await run(make_service(risky(ran)), "risky", approver=approver, number=1)).failure()
    assert isinstance(error, ToolNotApproved)
    assert reason in error.reason
    assert ran == []


async def test_waiting_for_approval_ends_at_the_deadline() -> None:
    ran: list[int] = []
    scope = attrs.evolve(SCOPE, deadline=0.05)
    service = make_service(risky(ran), clock=FakeClock())
    error = (await run(service, "risky", scope, NeverAnswers(), number=1)).failure()
    assert isinstance(error, ToolNotApproved)
    assert "deadline" in error.reason


async def test_nobody_is_asked_about_a_call_that_cannot_run_or_needs_no_approval() -> None:
    ran: list[int] = []
    approver = FixedApprover()
    service = make_service(risky(ran), add)
    await run(service, "risky", approver=approver, number="x")
    await run(service, "add", approver=approver, a=1)
    assert (approver.requests, ran) == ([], [])
