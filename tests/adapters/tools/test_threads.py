"""Waiting for a thread: a plain function that has none yet has not begun."""

from __future__ import annotations

import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import attrs
import pytest

from reactive_agents.adapters.system import SystemClock
from reactive_agents.adapters.tools.decorator import tool
from reactive_agents.core.errors import ToolTimedOut
from reactive_agents.core.json import Json
from tests.adapters.tools.test_service import SCOPE, make_service, run
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def only_one_thread() -> None:
    anyio.to_thread.current_default_thread_limiter().total_tokens = 1


async def test_the_time_of_a_tool_begins_with_its_function(let_go: threading.Event) -> None:
    only_one_thread()
    begun = anyio.Event()
    ended: list[Json] = []

    def hold() -> bool:
        anyio.from_thread.run_sync(begun.set)
        return let_go.wait()

    service = make_service(hold, tool(name="work", timeout_s=0.4)(lambda: "worked"))
    async with anyio.create_task_group() as group:
        group.start_soon(run, service, "hold")
        await begun.wait()

        async def work() -> None:
            ended.append((await run(service, "work")).unwrap().result)

        group.start_soon(work)
        await anyio.sleep(0.45)  # longer than the timeout of the tool
        assert ended == []
        let_go.set()
    assert ended == ["worked"]


async def test_waiting_for_a_thread_ends_at_the_deadline_of_the_run(let_go: threading.Event) -> None:
    only_one_thread()
    ran: list[int] = []
    service = make_service(tool(name="hold")(lambda: let_go.wait()), tool(name="note")(lambda: ran.append(1)))
    async with anyio.create_task_group() as group:
        group.start_soon(run, service, "hold")
        await until(lambda: anyio.to_thread.current_default_thread_limiter().borrowed_tokens == 1)
        scope = attrs.evolve(SCOPE, deadline=SystemClock().monotonic() + 0.05)
        assert (await run(service, "note", scope)).failure() == ToolTimedOut("note", 0.0)
        let_go.set()
    assert ran == []
    assert (await run(service, "note")).unwrap().success


async def test_a_thread_that_is_abandoned_or_has_ended_keeps_nobody_waiting(let_go: threading.Event) -> None:
    only_one_thread()

    def await_a_thread() -> Coroutine[Any, Any, int]:
        async def count() -> int:
            return await anyio.to_thread.run_sync(lambda: 3)

        return count()

    def explode() -> None:
        raise OSError

    stuck = tool(name="stuck", timeout_s=0.02)(lambda: let_go.wait())
    service = make_service(stuck, await_a_thread, explode)
    assert (await run(service, "stuck")).failure() == ToolTimedOut("stuck", 0.02)
    await run(service, "explode")
    late = attrs.evolve(SCOPE, deadline=0.0)
    assert (await run(service, "explode", late)).failure() == ToolTimedOut("explode", 0.0)
    assert (await run(service, "await_a_thread")).unwrap().result == 3
    assert anyio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
