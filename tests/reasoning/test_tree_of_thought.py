"""The tree-of-thought strategy: the search, the work along the best path, and how both end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from returns.result import Failure, Success

from reactive_agents.core.config import ReasoningConfig, StrategiesConfig, TreeOfThoughtConfig
from reactive_agents.core.errors import ModelUnavailable, StrategyExecutionError
from reactive_agents.core.events import ReasoningStepCompleted, ThoughtsJudged
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.settings import BudgetConfig, ToolNeeds, ToolRequirement
from reactive_agents.effects import attempt
from reactive_agents.kernel.policies.answers import MOST_CUT_OFF
from reactive_agents.reasoning.strategies.tree_of_thought import tree_of_thought
from reactive_agents.testing import FakeClock, Turn, answer, call, fail, forever, say
from tests.support.kernels import KernelBench, add, kernel_bench
from tests.support.models import RuledLLM, Said, services_with
from tests.support.strategies import strategy_input, strategy_services

pytestmark = pytest.mark.anyio
DOWN = ModelUnavailable("The model is down.", "m")


def thoughts(*texts: str, **how: Any) -> Turn:
    return say(json.dumps({"thoughts": list(texts)}), **how)


def scores(*values: float, **how: Any) -> Turn:
    given = [{"candidate": n, "reason": "So.", "score": value} for n, value in enumerate(values, 1)]
    return say(json.dumps({"scores": given}), **how)


def vote(*best: int, **how: Any) -> Turn:
    return say(json.dumps({"reason": "So.", "best": list(best)}), **how)


def configured(**fields: Any) -> ReasoningConfig:
    return ReasoningConfig(strategies=StrategiesConfig(tree_of_thought=TreeOfThoughtConfig(**fields)))


TWO = configured(breadth=2, depth=2)
ONE = configured(breadth=2, depth=1)


async def think(bench: KernelBench, **fields: Any) -> ReasoningResult:
    ended = await attempt(tree_of_thought(strategy_input(**fields), strategy_services(bench)))
    assert isinstance(ended, Success), ended
    return ended.unwrap()


def purposes(bench: KernelBench) -> list[str]:
    return [request.purpose for request in bench.llm.requests]


def nodes(result: ReasoningResult) -> dict[str, tuple[str, float | None, bool]]:
    assert result.tree is not None
    return {node.id: (node.thought, node.score, not node.pruned_because) for node in result.tree.nodes}


async def test_the_best_path_is_searched_and_worked_along() -> None:
    bench = kernel_bench(
        thoughts("guess", "add"),
        scores(0.6, 0.9),
        thoughts("by hand", "by tool", when="1. add"),
        thoughts("again", when="1. guess"),
        scores(0.4, 0.95, when="by hand"),
        scores(0.7, when="again"),
        call("add", a=1, b=2),
        call("final-answer", answer="3", cost_usd=0.5),
        tools={"add": add},
    )
    result = await think(bench, reasoning=TWO)
    assert (result.strategy, result.status, result.output) == ("tree-of-thought", "completed", "3")
    assert nodes(result) == {
        "1": ("guess", 0.6, True),
        "2": ("add", 0.9, True),
        "2.1": ("by hand", 0.4, False),
        "2.2": ("by tool", 0.95, True),
        "1.1": ("again", 0.7, True),
    }
    assert result.tree is not None
    assert result.tree.chosen == ("2", "2.2")
    assert result.metadata.reason.endswith("It was worked out along path 1 of 2.")
    assert (result.metadata.tokens_used, result.metadata.cost, result.metadata.iterations) == (120, 0.5, 2)
    assert purposes(bench) == ["expand", "score", "expand", "expand", "score", "score", "think", "think"]
    working = bench.sent(6)[-1].content
    assert working.startswith("What is 1 + 2?")
    assert "<approach>\n1. add\n2. by tool\n</approach>" in working
    assert [step.type for step in result.steps] == ["plan", "action", "observation", "action"]
    assert result.tool_results == {"p1.add-1": "3"}
    passes = {event.kernel_pass for event in bench.recorder.of(ReasoningStepCompleted)}
    assert passes == {"tree-of-thought:search", "tree-of-thought:path-1"}


async def test_thoughts_are_grounded_in_the_tools_and_the_context() -> None:
    bench = kernel_bench(thoughts("add"), scores(0.9), answer("3"), tools={"add": add})
    await think(bench, reasoning=ONE, system_prompt="You count.", model="m/2")
    expand, score, _ = bench.llm.requests
    assert "add: Add two numbers." in expand.messages[-1].content
    assert "<candidates>\n1. add\n</candidates>" in score.messages[-1].content
    assert (expand.temperature, score.temperature) == (0.7, 0.0)
    assert {request.model for request in bench.llm.requests} == {"m/2"}
    leads = [request.messages[0].content.startswith("You count.") for request in bench.llm.requests]
    assert leads == [False, False, True]
    assert "You count." not in score.messages[0].content


# --- a search that ends early ---------------------------------------------------------------------------


def finished_scores(*values: tuple[float, bool], **how: Any) -> Turn:
    given = [{"candidate": n, "finished": done, "score": value} for n, (value, done) in enumerate(values, 1)]
    return say(json.dumps({"scores": given}), **how)


@pytest.mark.parametrize(
    ("turns", "asked", "chosen"),
    [
        ((thoughts(),), ["expand"], ()),
        (
            (thoughts("Say Paris.", "Look it up."), finished_scores((0.9, True), (0.6, False))),
            ["expand", "score"],
            ("1",),
        ),
        (
            (thoughts("Look it up.", "Say Paris."), scores(0.6, 0.9), thoughts(when="1. Say Paris.")),
            ["expand", "score", "expand"],
            ("2",),
        ),
        (
            (thoughts("Say Paris.", "Guess."), scores(0.9, 0.6), thoughts("say PARIS", when="1. Say Paris.")),
            ["expand", "score", "expand"],
            ("1",),
        ),
    ],
    ids=["no thoughts", "finished by its score", "no thoughts after the best", "the best again"],
)
async def test_a_simple_question_costs_at_most_four_calls(
    turns: tuple[Turn, ...], asked: list[str], chosen: tuple[str, ...]
) -> None:
    bench = kernel_bench(*turns, say("Paris.", when="What is the capital"))
    result = await think(bench, task="What is the capital of France?")
    assert (result.output, result.status) == ("Paris.", "completed")
    assert purposes(bench) == [*asked, "think"]
    assert result.tree is not None
    assert result.tree.chosen == chosen
    assert "Nothing was left to think out." in result.metadata.reason


async def test_a_finished_thought_that_is_not_the_best_is_a_path_and_is_not_expanded() -> None:
    bench = kernel_bench(
        thoughts("long", "short"),
        finished_scores((0.9, False), (0.6, True)),
        thoughts("further", when="1. long"),
        scores(0.2, when="further"),
        say("3"),
    )
    result = await think(bench, reasoning=TWO)
    assert purposes(bench) == ["expand", "score", "expand", "score", "think"]
    assert result.tree is not None
    assert result.tree.chosen == ("2",)


async def test_votes_end_a_search_by_their_majority() -> None:
    done = say(json.dumps({"finished": [1], "best": [1, 2]}))
    bench = kernel_bench(thoughts("add", "count"), done, vote(1), done, say("3"))
    result = await think(bench, reasoning=configured(breadth=2, depth=3, evaluation="vote"))
    assert purposes(bench) == ["expand", "vote", "vote", "vote", "think"]
    assert result.tree is not None
    assert [node.finished for node in result.tree.nodes] == [True, False]


async def test_a_thought_that_repeats_an_ancestor_is_dropped() -> None:
    bench = kernel_bench(
        thoughts("add"), scores(0.9), thoughts("Add.", "check", when="1. add"), scores(0.9), say("3")
    )
    assert nodes(await think(bench, reasoning=TWO)) == {"1": ("add", 0.9, True), "1.1": ("check", 0.9, True)}


@pytest.mark.parametrize("tools", [{"add": add}, None])
async def test_tools_are_spoken_of_only_where_there_are_some(tools: Any) -> None:
    bench = kernel_bench(thoughts("add"), scores(0.9), answer("3") if tools else say("3"), tools=tools)
    await think(bench, reasoning=ONE)
    for request in bench.llm.requests[:2]:
        assert ("tool" in "".join(each.content for each in request.messages)) is (tools is not None)


async def test_candidates_that_say_the_same_are_one() -> None:
    bench = kernel_bench(thoughts("Add them.", "add  THEM", " ", "8 - 4", "8 + 4"), scores(0.9), say("3"))
    result = await think(bench, reasoning=configured(breadth=3, depth=1))
    assert [thought for thought, _, _ in nodes(result).values()] == ["Add them.", "8 - 4", "8 + 4"]


async def test_only_the_best_of_a_level_are_gone_on_from() -> None:
    bench = kernel_bench(
        thoughts("a", "b"), scores(0.6, 0.7),
        thoughts("c", "d", when="1. a"), thoughts("e", "f", when="1. b"),
        scores(0.9, 0.6, when="1. c"), scores(0.8, 0.7, when="1. e"),
        say("3"),
    )  # fmt: skip
    result = await think(bench, reasoning=TWO)
    assert {id_ for id_, (_, _, alive) in nodes(result).items() if alive} == {"1", "2", "1.1", "2.1"}
    assert result.tree is not None
    assert {node.pruned_because for node in result.tree.nodes} == {"", "2 thoughts of its level are better"}
    told = [each.thoughts for each in bench.recorder.of(ThoughtsJudged)]
    assert [len(level) for level in told] == [2, 4]
    assert (*told[0], *told[1]) == result.tree.nodes


async def test_votes_can_stand_for_scores() -> None:
    bench = kernel_bench(thoughts("a", "b", "c"), vote(2, 3), vote(2), vote(3, 2), say("3"))
    config = configured(breadth=3, depth=1, evaluation="vote")
    result = await think(bench, reasoning=config)
    assert [score for _, score, _ in nodes(result).values()] == [0.0, 1.0, pytest.approx(2 / 3)]
    assert purposes(bench) == ["expand", "vote", "vote", "vote", "think"]
    assert result.tree is not None
    assert result.tree.chosen == ("2",)


async def test_a_level_where_all_is_pruned_is_left_out_and_told() -> None:
    bench = kernel_bench(thoughts("a", "b"), scores(0.6, 0.1), thoughts("c"), scores(0.2), say("3"))
    result = await think(bench, reasoning=configured(breadth=2, depth=3))
    assert result.tree is not None
    assert result.tree.chosen == ("1",)
    assert "No thought of level 2 reached the threshold of 0.50." in result.metadata.reason


async def test_where_nothing_survives_the_best_thought_is_followed_and_it_is_told() -> None:
    bench = kernel_bench(thoughts("a", "b"), scores(0.1, 0.3), say("3"))
    result = await think(bench)
    assert result.tree is not None
    assert (result.tree.chosen, result.status) == (("2",), "completed")
    assert "No thought of level 1 reached the threshold of 0.50." in result.metadata.reason


async def test_the_next_best_path_is_taken_when_a_pass_does_not_complete() -> None:
    bench = kernel_bench(
        thoughts("a", "b"), scores(0.6, 0.9), call("add", a=1, b=2), say("3"), tools={"add": add}
    )
    result = await think(bench, reasoning=configured(breadth=2, depth=1, kernel_max_iterations=1))
    assert (result.output, result.status) == ("3", "completed")
    assert result.tree is not None
    assert result.tree.chosen == ("1",)
    assert "along path 2 of 2" in result.metadata.reason
    assert "p1.add-1" in result.tool_results
    again = bench.llm.requests[-1]
    assert 'add", "arguments": {"a": 1, "b": 2}} gave: 3' in again.messages[1].content
    assert "recall" not in {tool.name for tool in again.tools}, "all of it was shown"


async def test_when_no_path_completes_the_best_one_is_the_partial_result() -> None:
    cut = [
        say(f"half of {path} {n}", finish_reason="length") for path in "ab" for n in range(MOST_CUT_OFF + 1)
    ]
    bench = kernel_bench(thoughts("a", "b"), scores(0.6, 0.9), *cut)
    result = await think(bench, reasoning=ONE)
    assert (result.output, result.status) == (f"half of a {MOST_CUT_OFF}", "partial")
    assert result.tree is not None
    assert result.tree.chosen == ("2",)
    assert "Missing: the rest of the answer." in result.metadata.reason


async def test_a_required_tool_that_was_not_called_is_missing() -> None:
    bench = kernel_bench(thoughts("a"), scores(0.9), forever(say("3")), tools={"add": add})
    needs = ToolNeeds((ToolRequirement("add"),))
    result = await think(bench, reasoning=ONE, needs=needs)
    assert result.status == "partial"
    assert "add (0 of 1 calls done)" in result.metadata.reason


async def test_a_required_answer_is_met_by_any_answer() -> None:
    bench = kernel_bench(thoughts("a"), scores(0.9), answer("3"), tools={"add": add})
    result = await think(bench, reasoning=ONE, needs=ToolNeeds((ToolRequirement("final-answer"),)))
    assert (result.output, result.status) == ("3", "completed")


async def test_thoughts_that_nobody_could_judge_are_the_last_resort() -> None:
    bench = kernel_bench(thoughts("a", "b"), fail(DOWN), say("3"))
    result = await think(bench, reasoning=ONE)
    assert result.tree is not None
    assert result.tree.chosen == ("1",)
    assert "The thoughts of level 1 could not be judged." in result.metadata.reason
    assert result.status == "completed"


async def test_without_thoughts_the_work_is_done_without_an_approach() -> None:
    bench = kernel_bench(fail(DOWN), say("3"))
    result = await think(bench)
    assert (result.status, result.output) == ("completed", "3")
    assert result.tree is not None
    assert (result.tree.nodes, result.tree.chosen) == ((), ())
    assert "without an approach. No thoughts could be had for level 1: The model is down." in (
        result.metadata.reason
    )
    assert bench.shown(1) == "What is 1 + 2?"


async def test_a_branch_that_cannot_be_expanded_does_not_end_the_others() -> None:
    bench = kernel_bench(
        thoughts("a", "b"), scores(0.6, 0.7),
        thoughts("c", when="1. a"), say("?", when="1. b"), say("?", when="1. b"),
        scores(0.9), say("3"),
    )  # fmt: skip
    result = await think(bench, reasoning=TWO)
    assert result.tree is not None
    assert result.tree.chosen == ("1", "1.1")


async def test_a_model_that_stays_down_is_a_failure() -> None:
    bench = kernel_bench(forever(fail(DOWN)))
    ended = await attempt(tree_of_thought(strategy_input(), strategy_services(bench)))
    assert isinstance(ended, Failure)
    error = ended.failure()
    assert isinstance(error, StrategyExecutionError)
    assert error.strategy == "tree-of-thought"
    assert "The model is down." in error.message


async def test_the_search_leaves_half_of_the_budget_to_the_work() -> None:
    bench = kernel_bench(thoughts("a"), scores(0.9), say("3"))
    result = await think(bench, budget=BudgetConfig(tokens=60))
    assert (result.status, result.output) == ("completed", "3")
    assert "before level 2, as its share of the budget was used up" in result.metadata.reason


async def test_the_search_leaves_half_of_the_time_to_the_work() -> None:
    clock = FakeClock()

    def rule(request: ModelRequest) -> Said:
        clock.advance(60.0 if request.purpose == "expand" else 1.0)
        return json.dumps({"thoughts": ["a"]}) if request.purpose == "expand" else "3"

    model = RuledLLM(rule)
    given = strategy_input(deadline=clock.monotonic() + 100.0)
    ended = await attempt(tree_of_thought(given, services_with(model, kernel_bench(clock=clock))))
    result = ended.unwrap()
    assert (result.status, result.output) == ("completed", "3")
    assert [request.purpose for request in model.requests] == ["expand", "think"]
    assert "The thoughts of level 1 could not be judged." in result.metadata.reason
