"""Evaluation of agents: cases, repetitions, evaluators, and the report."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import attrs
import pytest

from reactive_agents import AgentError, Case, ReactiveAgent, ReactiveAgents, evaluate, tool
from reactive_agents.core.errors import ExecutionError, InvalidConfig, ModelUnavailable
from reactive_agents.evaluation import (
    CaseRun,
    EvaluationReport,
    Evaluator,
    Score,
    calls_tool,
    contains,
    costs_at_most,
    judged_by,
    matches,
    text_of,
)
from reactive_agents.testing import ScriptedLLM, answer, call, fail, forever, say

pytestmark = pytest.mark.anyio


@tool
def price(article: str) -> float:
    """Return the price of an article in euros."""
    if article == "gold":
        raise ValueError("not for sale")
    return 3.5


@tool(risk="high", requires_approval=False)
def order(article: str, pieces: int) -> str:
    """Order an article."""
    return f"ordered {pieces} of {article}"


def seller(*turns: Any) -> ReactiveAgent[Any, None]:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning("reactive")
    return builder.with_tools(price, order).build()


def tea() -> ReactiveAgent[Any, None]:
    return seller(call("price", article="tea"), answer("Tea is 3.50 euros.", cost_usd=0.002))


async def test_each_case_runs_as_often_as_asked_and_is_judged() -> None:
    seen: list[CaseRun] = []
    report = await evaluate(
        tea,
        [
            Case("How much is tea?", "price", evaluators=[contains("3.50", "EUROS"), calls_tool("price")]),
            Case("How much is tea today?", "no order", evaluators=[calls_tool("order", times=0)]),
        ],
        [matches(r"\d\.\d\d")],
        repeats=3,
        on_run=seen.append,
    )
    assert (report.passed, len(report.runs), report.pass_rate) == (6, 6, 1.0)
    assert [(run.case.name, run.attempt) for run in report.runs] == [
        ("price", 1),
        ("price", 2),
        ("price", 3),
        ("no order", 1),
        ("no order", 2),
        ("no order", 3),
    ]
    assert report.cost_usd == pytest.approx(0.012)
    first = report.runs[0]
    assert first.output == "Tea is 3.50 euros."
    assert [(each.name, each.arguments) for each in first.calls] == [("price", {"article": "tea"})]
    assert [each.name for each in first.scores] == ["status", "contains", "calls price", "matches"]
    assert sorted(map(id, seen)) == sorted(map(id, report.runs))
    assert not report.errors


async def test_the_report_says_what_did_not_pass_and_how_often() -> None:
    answers = iter(["Tea is 3.50 euros.", "Tea is 3.5 euros.", "Tea is 3.50 euros."])
    report = await evaluate(
        lambda: seller(call("price", article="tea"), answer(next(answers))),
        [Case("How much is tea?", evaluators=[contains("3.50")])],
        repeats=3,
        limit=1,
    )
    assert report.pass_rate == pytest.approx(2 / 3)
    (case,) = report.cases
    assert (case.name, case.passed, case.runs) == ("How much is tea?", 2, 3)
    assert case.problems == {"contains: no '3.50'": 1}
    lines = str(report).splitlines()
    assert lines[0].split() == ["case", "passed", "cost", "seconds", "not", "passed"]
    assert lines[1].startswith("How much is tea?  2 of 3  $0.0000")
    assert lines[1].endswith("contains: no '3.50' (1 of 3 runs)")
    assert lines[2].startswith("all")
    assert lines[2].endswith("67% passed")
    data: Any = report.to_json()
    assert (data["passed"], data["runs"], data["cases"][0]["problems"]) == (2, 3, dict(case.problems))


async def test_a_run_passes_only_with_the_status_that_is_expected() -> None:
    def unsure() -> ReactiveAgent[Any, None]:
        return seller(forever(call("price", article="gold")))

    report = await evaluate(
        unsure, [Case("How much is gold?", "any", status=None), Case("How much is gold?", "done")]
    )
    anyway, done = report.runs
    assert anyway.status == done.status != "completed"
    assert anyway.passed
    assert not done.passed
    assert done.scores[0].reason.startswith(f"{done.status}: ")
    assert anyway.calls == ()  # what failed is no call that was made


async def test_a_run_that_fails_is_judged_and_loses_no_other() -> None:
    model = ScriptedLLM(
        fail(ModelUnavailable("The model is down.", "m"), when="first"), say("Here.", when="second")
    )
    agent = ReactiveAgents.create().with_llm(model).build()
    report = await evaluate(agent, [Case("The first."), Case("The second."), Case("Third", options={"x": 1})])
    failed, ended, wrong = report.runs
    assert failed.status == "failed"
    assert isinstance(failed.error, ExecutionError)
    assert "The model is down." in failed.reason
    assert not failed.passed
    assert ended.passed
    assert ended.result is not None
    assert wrong.status == "failed"
    assert "x" in wrong.reason


async def test_an_agent_that_cannot_be_built_is_a_failed_run() -> None:
    def unbuildable() -> ReactiveAgent[Any, None]:
        return ReactiveAgents.create().with_model("").build()

    report = await evaluate(unbuildable, [Case("Hello.")])
    assert report.runs[0].status == "failed"
    assert report.runs[0].error is not None


async def test_the_expected_output_is_compared_where_nothing_else_judges() -> None:
    def agent() -> ReactiveAgent[Any, None]:
        return ReactiveAgents.create().with_llm(ScriptedLLM(say(" 4 "))).build()

    cases = [
        Case("2 + 2?", "right", expected="4"),
        Case("2 + 2?", "wrong", expected="5"),
        Case("2 + 2?", "judged", expected="5", evaluators=[contains("4")]),
    ]
    report = await evaluate(agent, cases)
    assert [run.passed for run in report.runs] == [True, False, True]
    assert report.cases[1].problems == {"expected output: got ' 4 ', expected '5'": 1}


@attrs.frozen
class Invoice:
    total: float


async def test_structured_output_is_compared_as_a_value() -> None:
    def agent() -> ReactiveAgent[Any, None]:
        return ReactiveAgents.create().with_llm(ScriptedLLM(say('{"total": 3.5}'))).build()

    case = Case("The invoice.", expected=Invoice(3.5), options={"output": Invoice})
    report = await evaluate(agent, [case], [lambda run: run.output == run.case.expected])
    assert report.pass_rate == 1.0
    assert text_of(report.runs[0]) == '{"total": 3.5}'


@pytest.mark.parametrize(
    ("arguments", "passes"),
    [
        ({}, True),
        ({"times": 1}, True),
        ({"times": 2}, False),
        ({"pieces": 2}, True),
        ({"pieces": 3}, False),
        ({"times": 0, "pieces": 3}, True),
    ],
)
async def test_calls_are_counted_with_their_arguments(arguments: dict[str, Any], passes: bool) -> None:
    def agent() -> ReactiveAgent[Any, None]:
        return seller(call("order", article="tea", pieces=2), answer("I ordered 2 of tea."))

    report = await evaluate(agent, [Case("Order 2 of tea.")], [calls_tool("order", **arguments)])
    assert report.runs[0].status == "completed"
    assert report.runs[0].passed is passes


@pytest.mark.parametrize(("tool", "is_known"), [("recall", True), ("final-answer", True), ("oder", False)])
async def test_a_tool_that_was_never_called_is_one_that_a_run_may_have(tool: str, is_known: bool) -> None:
    report = await evaluate(tea, [Case("How much is tea?")], [calls_tool(tool, times=0)])
    (score,) = report.runs[0].scores[1:]
    assert (score.passed, score.is_error) == (is_known, not is_known)


async def test_the_cost_of_a_run_is_judged() -> None:
    report = await evaluate(tea, [Case("How much is tea?")], [costs_at_most(0.001)])
    assert report.cases[0].problems == {"costs at most $0.001: $0.0020": 1}
    assert (await evaluate(tea, [Case("How much is tea?")], [costs_at_most(0.002)])).pass_rate == 1.0


async def test_scores_pass_from_a_limit_on_and_may_be_awaited() -> None:
    async def half(run: CaseRun) -> float:
        return 0.5

    def named(run: CaseRun) -> Score:
        return Score(0.9, "almost", "style")

    cases = [Case("How much is tea?")]
    assert (await evaluate(tea, cases, [half, named])).pass_rate == 1.0
    report = await evaluate(tea, cases, [half, named], pass_score=0.8)
    assert report.cases[0].problems == {"half": 1}
    report = await evaluate(tea, cases, [half, named], pass_score=1)
    assert report.cases[0].problems == {"half": 1, "style: almost": 1}


class Unprintable(Exception):
    """An exception without a text."""

    def __str__(self) -> str:
        raise ValueError


def unprintable(run: CaseRun) -> bool:
    raise Unprintable


def cancelled(run: CaseRun) -> bool:
    raise asyncio.CancelledError  # as the result of a cancelled future does


def raises(run: CaseRun) -> bool:
    raise KeyError("output")


def complains(run: CaseRun) -> bool:
    raise OSError("The index is down.")


def forgets(run: CaseRun) -> Any:
    return None


def exceeds(run: CaseRun) -> float:
    return 1.5


@pytest.mark.parametrize(
    ("evaluator", "problem"),
    [
        (raises, "raises: the evaluator raised KeyError: 'output'"),
        (unprintable, "unprintable: the evaluator raised Unprintable: <Unprintable>"),
        (
            cancelled,
            "cancelled: the evaluator raised RuntimeError: something that it waited for was cancelled",
        ),
        (complains, "complains: the evaluator raised OSError: The index is down."),
        (forgets, "forgets: the evaluator raised ValueError: got None, expected True, False or a score"),
        (exceeds, "exceeds: the evaluator raised ValueError: got 1.5, expected True, False or a score"),
    ],
)
async def test_an_evaluator_that_fails_is_named_and_loses_no_run(
    evaluator: Evaluator, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        report = await evaluate(tea, [Case("How much is tea?")], [evaluator, contains("3.50")])
    (found,) = report.cases[0].problems
    assert found.startswith(problem)
    assert [each.is_error for each in report.runs[0].scores] == [False, True, False]
    assert len(report.errors) == 1
    assert "was not judged by" in caplog.text
    assert ".." not in caplog.messages[-1]
    assert {each.name for each in caplog.records} == {"reactive_agents"}  # the log that is redacted


async def test_an_agent_judges_by_a_criterion() -> None:
    strict = ScriptedLLM(say('{"reason": "It names no currency.", "score": 0.2}'))
    judge = ReactiveAgents.create().with_llm(strict).build()
    report = await evaluate(
        tea, [Case("How much is tea?", expected="3.50")], [judged_by(judge, "It names the currency.")]
    )
    assert report.cases[0].problems == {"judged: It names the currency.: It names no currency.": 1}
    asked = str(strict.requests[0].messages)
    for each in ("It names the currency.", "How much is tea?", "Tea is 3.50 euros.", "expected"):
        assert each in asked
    assert report.cost_usd == pytest.approx(0.002)


async def test_what_judges_cost_is_reported_apart_from_the_runs() -> None:
    no = '{"reason": "No.", "score": 0.2}'
    model = ScriptedLLM(say(no, cost_usd=0.03), forever(say("Tea.", cost_usd=0.01)))
    judge = ReactiveAgents.create().with_llm(model).build()
    cases = [Case("How much is tea?")]
    report = await evaluate(tea, cases, [judged_by(judge, "It is short.")], repeats=2, limit=1)
    assert [each.is_error for run in report.runs for each in run.scores] == [False, False, False, True]
    assert report.cost_usd == pytest.approx(0.004)
    assert report.judges_cost_usd == pytest.approx(0.03 + 0.01 * (len(model.requests) - 1))
    assert report.judges_cost_usd > 0.03
    assert str(report).splitlines()[-1].split() == ["judges", f"${report.judges_cost_usd:.4f}"]
    assert report.to_json()["judges_cost_usd"] == report.judges_cost_usd


async def test_judges_of_unknown_price_are_not_shown_as_no_cost() -> None:
    model = ScriptedLLM(say('{"reason": "Yes.", "score": 1}', cost_usd=None))
    judge = ReactiveAgents.create().with_llm(model).build()
    report = await evaluate(tea, [Case("How much is tea?")], [judged_by(judge, "It is short.")])
    assert report.pass_rate == 1.0
    assert str(report).splitlines()[-1].split() == ["judges", "$0.0000", "or", "more"]
    assert report.to_json()["judges_unpriced_calls"] == 1


async def test_a_judge_without_a_judgement_is_an_error_of_the_evaluator() -> None:
    judge = ReactiveAgents.create().with_llm(ScriptedLLM(fail(ModelUnavailable("Down.", "m")))).build()
    report = await evaluate(tea, [Case("How much is tea?")], [judged_by(judge, "It is short.")])
    assert [each.name for each in report.errors] == ["judged: It is short."]
    assert "Down." in report.errors[0].reason


untyped_case: Any = Case


@pytest.mark.parametrize(
    ("wrong", "option", "message"),
    [
        ({"cases": []}, "cases", "expected a list of one case or more"),
        ({"cases": Case("Hello.")}, "cases", "expected a list of one case or more"),
        ({"cases": [Case("Hello."), Case("Hello.")]}, "cases", "2 cases named 'Hello.'"),
        ({"cases": iter([])}, "cases", "expected a list of one case or more"),
        ({"cases": ["Hello."]}, "cases[0]", "got 'Hello.', expected a Case"),
        ({"cases": [untyped_case("Hello.", 5)]}, "cases[0].name", "got 5, expected a text"),
        (
            {"cases": [untyped_case("Hello.", status="complete")]},
            "cases[0].status",
            "expected one of completed, ",
        ),
        (
            {"cases": [untyped_case("Hello.", evaluators=contains("x"))]},
            "cases[0].evaluators",
            "expected a list of",
        ),
        ({"cases": [untyped_case("Hello.", options=None)]}, "cases[0].options", "got None, expected a dict"),
        ({"agent": ReactiveAgents.create()}, "agent", "of a builder, pass build"),
        ({"agent": "openai/gpt-4o"}, "agent", "expected an agent, or a function that returns one"),
        ({"evaluators": contains("x")}, "evaluators", "expected a list of functions of a CaseRun"),
        ({"evaluators": ["polite"]}, "evaluators", "expected a list of functions of a CaseRun"),
        ({"evaluators": [lambda output, expected: True]}, "evaluators", "functions of a CaseRun"),
        ({"on_run": "print"}, "on_run", "got 'print', expected a function of a CaseRun"),
        ({"repeats": 0}, "repeats", "got 0, expected a whole number, 1 or more"),
        ({"limit": 0}, "limit", "got 0, expected a whole number, 1 or more"),
        ({"pass_score": 0}, "pass_score", "got 0, expected a number above 0 and up to 1"),
        ({"pass_score": "high"}, "pass_score", "got 'high', expected a number above 0 and up to 1"),
    ],
)
async def test_wrong_arguments_are_named(wrong: dict[str, Any], option: str, message: str) -> None:
    with pytest.raises(AgentError) as caught:
        await evaluate(**{"agent": tea, "cases": [Case("Hello.")], **wrong})
    assert isinstance(caught.value.error, InvalidConfig)
    assert caught.value.error.option == option
    assert message in str(caught.value)


async def test_no_more_runs_go_on_at_once_than_the_limit() -> None:
    under_way = most = 0

    def agent() -> ReactiveAgent[Any, None]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        return ReactiveAgents.create().with_llm(ScriptedLLM(say("Yes.", delay=0.01))).build()

    def ended(run: CaseRun) -> None:
        nonlocal under_way
        under_way -= 1

    await evaluate(agent, [Case("Really?")], repeats=9, limit=2, on_run=ended)
    assert most == 2


async def test_names_come_from_tasks_and_print_safely() -> None:
    long = "Tell me all that you know " * 9
    report = await evaluate(tea, [Case(["How much\n is", "tea?\x1b[2J"]), Case(long)])
    assert [case.name for case in report.cases] == ["How much is tea?\x1b[2J", long[:39] + "…"]
    assert "\x1b" not in str(report)


@pytest.mark.parametrize(
    ("evaluator", "arguments", "message"),
    [
        (contains, (), "contains: got an array of 0 items, expected one text or more"),
        (contains, ("",), "expected one text or more, none of them empty"),
        (contains, (5,), "expected one text or more, none of them empty"),
        (calls_tool, (price,), "tool: got a Tool, expected the name of a tool"),
        (costs_at_most, ("1",), "usd: got '1', expected US dollars, 0 or more"),
        (costs_at_most, (-1,), "usd: got -1, expected US dollars, 0 or more"),
        (judged_by, ("openai/gpt-4o", "It is short."), "judge: got 'openai/gpt-4o', expected an agent"),
        (judged_by, (tea(), " "), "criterion: got ' ', expected a text"),
    ],
)
def test_an_evaluator_that_could_not_judge_is_refused_when_it_is_made(
    evaluator: Any, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(AgentError) as refused:
        evaluator(*arguments)
    assert message in str(refused.value)


@pytest.mark.parametrize("times", [-1, "1", 1.5])
def test_a_number_of_calls_that_cannot_be_is_refused(times: Any) -> None:
    with pytest.raises(AgentError, match="expected a whole number, 0 or more"):
        calls_tool("price", times=times)


async def test_repetitions_are_not_answered_from_one_recorded_run(tmp_path: Path) -> None:
    model = ScriptedLLM(forever(say("Yes.")))
    agent = ReactiveAgents.create().with_llm(model).with_durability(tmp_path / "runs.db").build()
    case = Case("Really?", options={"run_id": "once"})
    with pytest.raises(AgentError, match="run_id: got 'once', expected none where a case runs several times"):
        await evaluate(agent, [case], repeats=3)
    assert model.requests == []
    assert (await evaluate(agent, [case])).pass_rate == 1.0
    assert (await evaluate(agent, [Case("Really?")], repeats=3)).pass_rate == 1.0
    assert len(model.requests) == 4


async def test_a_function_that_builds_no_agent_is_named() -> None:
    nothing: Any = lambda: None  # noqa: E731
    report = await evaluate(nothing, [Case("Hello.")])
    assert "got None, expected an agent, or a function that returns one" in report.runs[0].reason


async def test_an_evaluator_that_waits_for_something_cancelled_loses_no_run() -> None:
    async def asks(run: CaseRun) -> bool:
        asked = asyncio.ensure_future(asyncio.sleep(60))
        asked.cancel()
        return bool(await asked)

    report = await evaluate(tea, [Case("How much is tea?"), Case("And today?")], [asks])
    assert [run.status for run in report.runs] == ["completed", "completed"]
    assert [each.reason for each in report.errors] == [
        "the evaluator raised RuntimeError: something that it waited for was cancelled"
    ] * 2


async def test_on_run_may_be_async() -> None:
    kept: list[str] = []

    async def keep(run: CaseRun) -> None:
        kept.append(run.case.name)

    await evaluate(tea, [Case("How much is tea?")], repeats=2, on_run=keep)
    assert kept == ["How much is tea?"] * 2


async def test_a_report_is_made_of_the_runs_that_were_kept() -> None:
    kept: list[CaseRun] = []
    assert str(EvaluationReport(tuple(kept))).splitlines()[-1].endswith("0% passed")
    report = await evaluate(tea, [Case("How much is tea?")], repeats=2, on_run=kept.append)
    assert EvaluationReport(tuple(kept)).pass_rate == report.pass_rate == 1.0


async def test_half_a_character_can_be_printed() -> None:
    def quotes(run: CaseRun) -> Score:
        return Score(0.0, "It says \ud83d.")

    table = str(await evaluate(tea, [Case("How much is tea?")], [quotes]))
    assert "It says \ufffd." in table
    table.encode()


async def test_a_row_of_the_table_is_one_line() -> None:
    def verbose(run: CaseRun) -> Score:
        return Score(0.0, "It says\n\n" + "nothing " * 100)

    lines = str(await evaluate(tea, [Case("How much is tea?")], [verbose])).splitlines()
    assert len(lines) == 3
    assert len(lines[1]) < 250


async def test_unknown_prices_are_neither_shown_nor_judged_as_no_cost() -> None:
    def unlisted() -> ReactiveAgent[Any, None]:
        return ReactiveAgents.create().with_llm(ScriptedLLM(say("Yes.", cost_usd=None))).build()

    report = await evaluate(unlisted, [Case("Really?")], [costs_at_most(0.01)])
    assert "$0.0000 or more" in str(report).splitlines()[1]
    assert "$0.0000 or more" in str(report).splitlines()[2]
    assert [each.reason for each in report.errors] == [
        "the evaluator raised ValueError: the price of 1 model call is unknown"
    ]
    data: Any = report.to_json()
    assert data["cases"][0]["unpriced_calls"] == 1
