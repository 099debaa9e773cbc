"""Whether a cancellation is the task's own."""

from __future__ import annotations

import asyncio

import anyio
import anyio.lowlevel
import pytest
from returns.result import Result, Success

from reactive_agents.effects import effect, gather, is_cancelled

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_scope_that_cancels_the_task_counts_until_it_is_left() -> None:
    seen: list[bool] = [is_cancelled()]
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            seen.append(is_cancelled())
            raise
    assert [*seen, is_cancelled()] == [False, True, False]


async def test_the_cancellation_of_another_task_does_not_count() -> None:
    other = asyncio.ensure_future(asyncio.sleep(10))
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other
    assert not is_cancelled()


async def test_a_group_of_tasks_of_which_one_fails_does_not_count() -> None:
    async def failing() -> None:
        await asyncio.sleep(0)
        raise ValueError("x")

    task = asyncio.current_task()
    assert task is not None
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(failing())
    except ExceptionGroup:
        assert not is_cancelled()
    assert task.cancelling() == 0


async def test_a_task_that_is_cancelled_while_it_waits_for_a_group_that_fails_then_counts() -> None:
    seen: list[bool] = []

    async def fails_as_it_ends() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            raise ValueError("x")

    async def host() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fails_as_it_ends())
        except ExceptionGroup:
            seen.append(is_cancelled())

    task = asyncio.ensure_future(host())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    await asyncio.wait([task])  # from CPython 3.13 on the task then ends as cancelled, too
    assert seen == [True]


async def test_a_task_that_is_cancelled_while_it_gathers_groups_counts() -> None:
    """The task group of ``gather`` takes the count of the task's cancellations back."""
    seen: list[bool] = []

    async def end_late() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)

    @effect
    async def below() -> Result[None, str]:
        async with anyio.create_task_group() as group:
            group.start_soon(end_late)
            await anyio.sleep_forever()
        return Success(None)

    async def body() -> None:
        try:
            await gather([below(), below()])
        except asyncio.CancelledError:
            seen.append(is_cancelled())
            raise

    task = asyncio.create_task(body())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [True]


async def test_a_task_that_is_cancelled_itself_is_so_also_behind_a_shield() -> None:
    seen: list[bool] = []

    async def body() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                seen.append(is_cancelled())

    task = asyncio.create_task(body())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [True]


async def test_an_effect_that_waits_for_something_cancelled_does_not_vanish_from_a_gather() -> None:
    @effect
    async def asks() -> Result[int, str]:
        other = asyncio.ensure_future(asyncio.sleep(10))
        other.cancel()
        await other
        return Success(1)

    @effect
    async def works() -> Result[int, str]:
        return Success(2)

    for limit in (1, 2):
        with pytest.raises(RuntimeError, match="waited for something that was cancelled"):
            await gather([asks(), works()], limit=limit)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_scope_around_a_gather_of_groups_is_left_as_cancelled() -> None:
    @effect
    async def below() -> Result[None, str]:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            await anyio.sleep_forever()
        return Success(None)

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(gather, [below(), below()])
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
