"""A step costs the same however long the run is, and a build little: all is counted, not timed."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from statistics import median
from types import FrameType
from typing import Any, TypeAlias

import pytest
from returns.result import Result, Success

from reactive_agents import ReactiveAgents
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import ModelRequest, ModelResponse, Usage
from reactive_agents.effects import effect
from reactive_agents.engine import ExecutionContext
from reactive_agents.testing import EventRecorder, ScriptedLLM, answer, call
from tests.support.operations import counted_operations, operations_of

pytestmark = pytest.mark.anyio

TraceFunction: TypeAlias = Callable[[FrameType, str, Any], Any]

EARLY, LATE, SAMPLE = 100, 2_000, 40
WHOLE_LATE = 1_000
"""Where nothing is compacted, so that each request holds all turns before it."""


class Measured(ScriptedLLM):
    """Calls a tool with new arguments each turn, and notes what each turn took that is compared.

    Args:
        watch: begins or ends to watch the turns; the others are as fast as they are.
        figure: what was seen since the last time.
        late: the last turn.
    """

    def __init__(self, watch: Callable[[bool], None], figure: Callable[[], int], late: int = LATE) -> None:
        super().__init__()
        self.late = late
        self.compared = (range(EARLY - SAMPLE, EARLY), range(late - SAMPLE, late))
        self.turn = self.shown = 0
        self.taken: list[list[int]] = [[], []]
        self._watch = watch
        self._figure = figure

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        for turns, taken in zip(self.compared, self.taken, strict=True):
            if self.turn - 1 in turns:
                taken.append(self._figure())
            if self.turn in (turns.start, turns.stop):
                self._watch(self.turn == turns.start)
                self._figure()
        self.turn += 1
        self.shown = len(request.messages)
        read = 20 * self.shown
        usage = Usage(read, 10, read + 10)
        if self.turn > self.late:
            return Success(ModelResponse("done", self.model, usage=usage))
        made = ToolCall(CallId(f"call-{self.turn}"), "look", {"at": self.turn})
        return Success(ModelResponse("", self.model, (made,), usage=usage))


async def run(model: Measured, hooks: bool) -> None:
    async def look(at: int) -> str:
        """Look there."""
        return f"seen {at}"

    builder = ReactiveAgents.create().with_llm(model).with_tools(look).with_reasoning()
    builder = builder.with_context_profile("local").with_max_iterations(model.late + 1)
    if model.late != LATE:
        builder = builder.with_context_profile("local", window_tokens=10_000_000)
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


def assert_the_same(model: Measured, most: float) -> None:
    """Compare what most turns took: some compact the transcript, or let a table grow."""
    early, late = model.taken
    assert len(early) == len(late) == SAMPLE
    assert 0 < median(late) <= most * median(early)


@pytest.mark.system
@pytest.mark.parametrize("hooks", [False, True])
async def test_a_late_step_calls_as_many_functions_as_an_early_one(hooks: bool) -> None:
    calls = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def figure() -> int:
        nonlocal calls
        seen, calls = calls, 0
        return seen

    model = Measured(lambda begins: sys.setprofile(note if begins else None), figure)
    await run(model, hooks)
    assert_the_same(model, 1.1)


@pytest.mark.system
async def test_a_late_step_takes_as_many_lines_and_calls_with_a_transcript_that_is_never_compacted() -> None:
    """What grows with the transcript is the copy of its messages, in C, into the request alone."""
    done, before = 0, sys.gettrace()

    def line(frame: FrameType, event: str, argument: object) -> TraceFunction:
        nonlocal done
        done += event == "line"
        return line

    def call(frame: FrameType, event: str, argument: object) -> None:
        nonlocal done
        done += event == "c_call"

    def watch(begins: bool) -> None:
        frame: FrameType | None = sys._getframe()
        while begins and frame is not None:  # the loop of the run has begun before
            frame.f_trace, frame = line, frame.f_back
        sys.settrace(line if begins else before)  # a measurement of coverage goes on
        sys.setprofile(call if begins else None)

    def figure() -> int:
        nonlocal done
        seen, done = done, 0
        return seen

    model = Measured(watch, figure, WHOLE_LATE)
    await run(model, hooks=False)
    early, late = map(median, model.taken)
    assert model.shown > 2 * WHOLE_LATE
    assert 0 < early == late


@pytest.mark.system
async def test_a_late_step_copies_no_more_than_an_early_one() -> None:
    """Compares, for each turn, the most bytes that were allocated on top of those at its beginning."""
    began = 0

    def figure() -> int:
        nonlocal began
        now, peak = tracemalloc.get_traced_memory()
        most, began = peak - began, now
        tracemalloc.reset_peak()
        return most

    model = Measured(lambda begins: tracemalloc.start() if begins else tracemalloc.stop(), figure)
    await run(model, hooks=False)
    assert_the_same(model, 1.3)


def test_of_a_long_task_no_more_is_read_as_an_order() -> None:
    def look(at: int) -> str:
        """Look there."""
        return f"seen {at}"

    def ask(lines: int) -> None:
        task = "Look there. " + "Apples and pears, 12.50 EUR, of a.txt for ann@x.org.\n" * lines
        builder = ReactiveAgents.create().with_llm(ScriptedLLM(call("look", at=1), answer("I saw 1.")))
        assert builder.with_tools(look).with_reasoning().build().run_sync(task).output == "I saw 1."

    ask(1)
    few, many = [operations_of(lambda: ask(lines)) for lines in (1_000, 10_000)]  # noqa: B023
    assert many <= 1.1 * few


MOST_OF_BUILD = 3_550
"""Lines and calls of a build in a process that has built such an agent before; it is at 3,090."""


def test_an_agent_is_built_with_little_work() -> None:
    """Stands for the time of ``build()`` with reasoning and one tool, which is to stay below 0.5 ms."""
    model = ScriptedLLM()

    def build() -> None:
        def look(number: int, text: str) -> str:
            """Look something up.

            Args:
                number: which of them.
                text: what to look for.
            """
            return f"{number}{text}"

        ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(look).build()

    build()
    assert operations_of(build) <= MOST_OF_BUILD


MOST_OF_RUN = {0: 4_600, 3: 12_950}
"""Lines and calls of a run of a kept agent, by the calls of its model; it is at 4,530 and 12,680."""


@pytest.mark.parametrize("turns", MOST_OF_RUN)
async def test_a_run_of_a_kept_agent_takes_little_work(turns: int) -> None:
    """Stands for the time of a run beside that of other frameworks."""

    async def look(at: int) -> str:
        """Look there."""
        return f"seen {at}"

    turn = [*(call("look", at=at) for at in range(turns)), answer("The answer is 3.")]
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(*turn * 3)).with_reasoning().with_tools(look).build()
    for _ in range(2):
        await agent.run("What is 1 + 2?")
    with counted_operations() as count:
        assert (await agent.run("What is 1 + 2?")).output == "The answer is 3."
    assert count.total <= MOST_OF_RUN[turns]
