"""A step costs the same however long the run is: calls and allocated bytes are counted, not timed."""

from __future__ import annotations

import sys
import tracemalloc
from statistics import median
from types import FrameType

import pytest
from returns.result import Result, Success

from reactive_agents import ReactiveAgents
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import ModelRequest, ModelResponse, Usage
from reactive_agents.effects import effect
from reactive_agents.engine import ExecutionContext
from reactive_agents.testing import EventRecorder, ScriptedLLM

pytestmark = pytest.mark.anyio

EARLY, LATE, SAMPLE = 100, 2_000, 40


class Measured(ScriptedLLM):
    """Calls a tool with new arguments each turn, and notes what each turn took.

    Attributes:
        calls: functions called up to each turn, also those of the interpreter.
        peaks: for each turn, the most bytes that were allocated on top of those at its beginning.
    """

    def __init__(self, turns: int) -> None:
        super().__init__()
        self.turns = turns
        self.count = 0
        self.calls: list[int] = []
        self.peaks: list[int] = []

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        turn = len(self.calls)
        self.calls.append(self.count)
        if tracemalloc.is_tracing():
            now, peak = tracemalloc.get_traced_memory()
            self.peaks.append(peak - self._began if turn else 0)
            tracemalloc.reset_peak()
            self._began = now
        read = 20 * len(request.messages)
        usage = Usage(read, 10, read + 10)
        if turn == self.turns:
            return Success(ModelResponse("done", self.model, usage=usage))
        made = ToolCall(CallId(f"call-{turn}"), "look", {"at": turn})
        return Success(ModelResponse("", self.model, (made,), usage=usage))

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        """Count a call, as a profiler."""
        self.count += event in ("call", "c_call")


async def run(model: Measured, hooks: bool) -> None:
    async def look(at: int) -> str:
        """Look there."""
        return f"seen {at}"

    builder = ReactiveAgents.create().with_llm(model).with_tools(look).with_reasoning()
    builder = builder.with_context_profile("local").with_max_iterations(model.turns + 1)
    seen: list[int] = []

    def watch(context: ExecutionContext) -> None:
        seen.append(len(context.tool_results))

    if hooks:
        builder = builder.with_hook("observe", "after", watch)
    agent = builder.build()
    if hooks:
        recorder = EventRecorder()
        agent.subscribe(lambda event: recorder.events.clear())
    assert (await agent.run("Look everywhere.")).output == "done"


def typical(figures: list[int], at: int) -> float:
    """Return what most of the turns around one took: some compact the transcript, or let a table grow."""
    return median(figures[at - SAMPLE : at])


@pytest.mark.parametrize("hooks", [False, True])
async def test_a_late_step_calls_as_many_functions_as_an_early_one(hooks: bool) -> None:
    model = Measured(LATE)
    sys.setprofile(model.note)
    try:
        await run(model, hooks)
    finally:
        sys.setprofile(None)
    each = [later - earlier for earlier, later in zip(model.calls, model.calls[1:], strict=False)]
    assert typical(each, LATE) <= 1.1 * typical(each, EARLY)


async def test_a_late_step_copies_no_more_than_an_early_one() -> None:
    model = Measured(LATE)
    tracemalloc.start()
    try:
        await run(model, hooks=False)
    finally:
        tracemalloc.stop()
    assert typical(model.peaks, LATE) <= 1.3 * typical(model.peaks, EARLY)
