"""Steps of a plan that run at the same time share what is left of the run's budget."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from itertools import count, cycle
from typing import Any

import anyio
import anyio.lowlevel
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st
from returns.future import FutureResult
from returns.result import Result, Success

from reactive_agents.core.config import PlanExecuteConfig, ReasoningConfig, StrategiesConfig
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted, Usage
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.settings import BudgetConfig, CallLimit
from reactive_agents.effects import Effect, attempt
from reactive_agents.reasoning.strategies.plan_execute import plan_execute
from reactive_agents.testing.core import Answer
from tests.support.kernels import KernelBench, kernel_bench
from tests.support.models import services_with
from tests.support.plans import analysis_step, composite_step, tool_step
from tests.support.profiles import examples
from tests.support.strategies import strategy_input

MOST_TOKENS = 30


@frozen
class World:
    """The answers that a plan meets with; a list that runs out begins again.

    Attributes:
        steps: of the plan, none of which depends on another.
        waits: how often a model or tool lets the others go on before it answers.
        tokens: of each answer.
        calls: how many calls each turn of a model makes; 0 for an answer.
        works: whether each call of a tool does.
        retries: that a step has.
    """

    steps: tuple[str, ...]
    waits: tuple[int, ...]
    tokens: tuple[int, ...]
    calls: tuple[int, ...]
    works: tuple[bool, ...]
    retries: int


def some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, min_size=1, max_size=5).map(tuple)


worlds = st.builds(
    World,
    some(st.sampled_from(["call", "call", "look", "any", "both", "think"])),
    some(st.integers(0, 4)),
    some(st.integers(1, MOST_TOKENS)),
    some(st.integers(0, 3)),
    some(st.booleans()),
    st.integers(0, 2),
)


def planned(kind: str, number: int) -> dict[str, Any]:
    match kind:
        case "call":
            return tool_step("look", number=-number)
        case "look":
            return composite_step("Look around.", "look")
        case "both":
            return composite_step("Look and listen.", "look", "listen")
        case "any":
            return composite_step("Find out.")
        case _:
            return analysis_step("Think.")


@frozen(eq=False)
class Played:
    """Implements ``LLM``: makes the plan, works on its steps in turns of some length, and finds all well.

    Attributes:
        asked_at: tokens that had been spent whenever it was asked.
        under_way: the most questions that it had at once.
    """

    world: World
    asked_at: list[int] = field(factory=list)
    under_way: list[int] = field(factory=lambda: [0, 0])
    spent: list[int] = field(factory=list)
    numbers: Iterator[int] = field(factory=count)
    model: str = "played/test"
    waits: Iterator[int] = field(init=False)
    tokens: Iterator[int] = field(init=False)
    calls: Iterator[int] = field(init=False)
    works: Iterator[bool] = field(init=False)

    def __attrs_post_init__(self) -> None:
        for name in ("waits", "tokens", "calls", "works"):
            object.__setattr__(self, name, cycle(getattr(self.world, name)))

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        return FutureResult(self._answer(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        yield (await self._answer(request)).map(StreamCompleted)

    async def use(self, number: int) -> int:
        """A tool that takes its time, and may fail."""
        await self._wait()
        if not next(self.works):
            raise OSError("not today")
        return number

    async def _answer(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        self.asked_at.append(sum(self.spent))
        now, most = self.under_way
        self.under_way[:] = now + 1, max(most, now + 1)
        await self._wait()
        self.under_way[0] -= 1
        self.spent.append(next(self.tokens))
        text, calls = self._said(request)
        usage = Usage(0, self.spent[-1], self.spent[-1])
        reason: Any = "tool_calls" if calls else "stop"
        return Success(
            ModelResponse(text, self.model, calls, "", reason, usage, cost_usd=usage.total_tokens / 128)
        )

    def _said(self, request: ModelRequest) -> tuple[str, tuple[ToolCall, ...]]:
        match request.purpose:
            case "plan":
                steps = [planned(kind, number) for number, kind in enumerate(self.world.steps, 1)]
                return json.dumps({"steps": steps}), ()
            case "reflect":
                return json.dumps({"verdict": "SATISFIED", "confidence": 0.9}), ()
            case "think":
                names = [tool.name for tool in request.tools if tool.name in ("look", "listen")]
                number = next(self.calls) if names else 0
                return "So.", tuple(self._call(name) for _, name in zip(range(number), cycle(names)))
            case _:
                return "No idea.", ()

    def _call(self, name: str) -> ToolCall:
        number = next(self.numbers)
        return ToolCall(CallId(f"call-{number}"), name, {"number": number})

    async def _wait(self) -> None:
        for _ in range(next(self.waits)):
            await anyio.lowlevel.checkpoint()


async def play(
    world: World, budget: BudgetConfig, look: Answer | None = None
) -> tuple[Played, KernelBench, ReasoningResult]:
    llm = Played(world)
    bench = kernel_bench(tools={"look": look or llm.use, "listen": llm.use})
    config = PlanExecuteConfig(plan_mode="dag", step_retries=world.retries, max_refinements=1)
    asked = strategy_input(
        reasoning=ReasoningConfig(strategies=StrategiesConfig(plan_execute=config)),
        budget=budget,
        available_tools=("look", "listen"),
    )
    outcome = await attempt(plan_execute(asked, services_with(llm, bench)))
    return llm, bench, outcome.unwrap()


@examples(15)
@given(worlds, st.integers(1, 6), st.none() | st.integers(1, 6))
def test_calls_of_a_limited_tool_never_exceed_its_limit(world: World, look: int, listen: int | None) -> None:
    limits = {"look": look} if listen is None else {"look": look, "listen": listen}
    budget = BudgetConfig(calls=tuple(CallLimit(name, calls) for name, calls in limits.items()))
    _, bench, _ = anyio.run(play, world, budget)
    assert bench.tools is not None
    for name, most in limits.items():
        assert len(bench.tools.arguments_of(name)) <= most


@examples(15)
@given(worlds, st.integers(1, 400), st.booleans())
def test_a_spent_budget_ends_all_steps_with_the_calls_that_are_under_way(
    world: World, most: int, in_dollars: bool
) -> None:
    budget = BudgetConfig(cost_usd=most / 128) if in_dollars else BudgetConfig(tokens=most)
    llm, _, result = anyio.run(play, world, budget)
    assert all(spent < most for spent in llm.asked_at)
    spent, side_by_side = sum(llm.spent), max(1, llm.under_way[1])
    assert side_by_side <= len(world.steps)
    assert spent < most + side_by_side * max(world.tokens)
    if spent >= most and result.status != "completed":
        assert (result.status, result.metadata.terminated_by) == ("partial", "budget")


def test_calls_that_the_limit_surely_covers_are_made_side_by_side() -> None:
    world = World(("call",) * 6, (3,), (1,), (0,), (True,), retries=1)

    async def most_at_once(limit: int) -> int:
        now = most = 0

        async def look(number: int) -> int:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await anyio.lowlevel.checkpoint()
            now -= 1
            return number

        _, bench, _ = await play(world, BudgetConfig(calls=(CallLimit("look", limit),)), look)
        assert bench.tools is not None
        assert len(bench.tools.arguments_of("look")) == min(6, limit)
        return most

    assert [anyio.run(most_at_once, limit) for limit in (2, 8, 12)] == [1, 4, 6]
