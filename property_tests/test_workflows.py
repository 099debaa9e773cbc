"""Laws of workflows: one that is stopped anywhere goes on, and makes the calls that are left."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from reactive_agents import AgentResult, ReactiveAgent, ReactiveAgents, RunContext, WorkflowRun, tool

Work: TypeAlias = "int | list[Work]"
"""A call, or parts: done in turn, or side by side where the list begins with a list."""

works: st.SearchStrategy[Work] = st.recursive(
    st.integers(0, 9), lambda inner: st.lists(inner, min_size=1, max_size=4), max_leaves=8
)


class _ProcessGone(BaseException):
    """The end of the process, which no workflow handles."""


def _agent(path: Path, work: Work, done: list[str], stop_at: int | None) -> ReactiveAgent:
    waits = len(done)

    @tool(idempotent=True)  # of those side by side, some are cut off
    async def do(number: int, context: RunContext) -> int:
        """Do something."""
        for _ in range(number):  # in another order than they were begun
            await anyio.lowlevel.checkpoint()
        done.append(context.idempotency_key)
        return number

    async def part(run: WorkflowRun, work: Work) -> str:
        if isinstance(work, int):
            if stop_at is not None and len(done) - waits >= stop_at:
                raise _ProcessGone
            return str(await run.call("do", number=work))
        parts = (part(run, each) for each in work)
        if isinstance(work[0], list):
            return f"[{' '.join(await run.gather(*parts))}]"
        return f"({' '.join([await each for each in parts])})"

    async def whole(run: WorkflowRun, task: str) -> str:
        return f"{await part(run, work)} {run.new_id()}"

    builder = ReactiveAgents.create().with_tools(do).with_workflow(whole)
    return builder.with_durability(path, recover=False).build()


@settings(max_examples=30)
@given(works, st.integers(0, 8))
def test_a_workflow_that_was_stopped_goes_on_with_the_calls_that_are_left(work: Work, stop_at: int) -> None:
    async def run(path: Path, done: list[str], stop_at: int | None) -> AgentResult | None:
        agent = _agent(path, work, done, stop_at)
        try:
            return await agent.run("do", run_id="r")
        except _ProcessGone:
            return None
        finally:
            await agent.aclose()

    async def check(folder: Path) -> None:
        at_once: list[str] = []
        expected = await run(folder / "whole.db", at_once, None)
        assert expected is not None
        done: list[str] = []
        stopped = await run(folder / "stopped.db", done, stop_at)
        result = stopped or await run(folder / "stopped.db", done, None)
        assert result is not None
        assert {*done} == {*at_once}  # their keys
        words, plain = (str(each.output).rpartition(" ")[0] for each in (result, expected))
        assert (words, result.status) == (plain, "completed")
        assert [step.content for step in result.steps] == [step.content for step in expected.steps]

    with TemporaryDirectory() as folder:
        anyio.run(check, Path(folder))
