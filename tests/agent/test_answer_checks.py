"""Answers that stand as the model gives them, where checks of answers are left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from reactive_agents import AgentError, AgentResult, ReactiveAgents
from reactive_agents.core.config import ANSWER_CHECKS, AnswerCheck
from reactive_agents.core.events import GuidanceGiven
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, answer, call, forever, say


def cancel_order(order: str) -> str:
    """Cancel an order."""
    return f"order {order} is cancelled"


def price(item: str) -> str:
    """Look up the price of an item."""
    if item == "lamp":
        raise ValueError("the catalogue is closed")
    return f"{item}: 12.50 EUR"


CASES: dict[AnswerCheck, tuple[str, tuple[Turn, ...], str]] = {
    "written_call": ("What does a chair cost?", (), 'prices({"item": "chair"})'),
    "left_out": ("Look up chair, table and sofa.", (call("price", item="chair"),), "A chair is 12.50 EUR."),
    "text_answer": ("What does a chair cost?", (), "I will look up the price of the chair now."),
    "unsupported": ("What does a chair cost?", (call("price", item="chair"),), "It is 4711.30 EUR."),
    "not_done": ("Cancel order 1001.", (), "I have cancelled order 1001."),
    "refusal": ("What does a chair cost?", (), "Sorry, I can't help with that."),
    "failed_call": ("What does a lamp cost?", (call("price", item="lamp"),), "Many people like lamps."),
}
"""For each check a task, the calls before the answer, and an answer that the check asks about."""


def run(name: AnswerCheck, checks: Sequence[AnswerCheck]) -> tuple[AgentResult, list[str], int]:
    """Run the case of a check; return the result, who asked, and the number of model calls."""
    task, calls, text = CASES[name]
    model = ScriptedLLM(*calls, forever(say(text) if name == "text_answer" else answer(text)))
    agent = (
        ReactiveAgents.create()
        .with_llm(model)
        .with_tools(price, cancel_order)
        .with_reasoning(answer_checks=checks, tool_classifier="off")
        .build()
    )
    events = EventRecorder()
    agent.subscribe(events)
    result = agent.run_sync(task)
    asked = [event.policy for event in events.of(GuidanceGiven)]
    return result, asked, len(model.requests)


@pytest.mark.parametrize("name", ANSWER_CHECKS)
def test_without_checks_an_answer_stands_as_the_model_gives_it(name: AnswerCheck) -> None:
    _, calls, text = CASES[name]
    result, asked, model_calls = run(name, ())
    assert (result.status, result.output, asked) == ("completed", text, [])
    assert model_calls == len(calls) + 1
    assert name in run(name, (name,))[1]
    assert name not in run(name, tuple(each for each in ANSWER_CHECKS if each != name))[1]


def test_without_not_done_no_strategy_holds_an_answer_to_the_order() -> None:
    def status(checks: Sequence[AnswerCheck]) -> str:
        model = ScriptedLLM(forever(answer("I have cancelled order 1001.")))
        builder = ReactiveAgents.create().with_llm(model).with_tools(cancel_order)
        options = {"answer_checks": checks, "tool_classifier": "off"}
        agent = builder.with_reasoning("reflexion", **options).build()  # type: ignore[arg-type]
        return agent.run_sync("Cancel order 1001.").status

    assert status(("not_done",)) == "partial"
    assert status(()) == "completed"


def test_a_failed_call_is_no_end_of_its_own_where_its_check_is_left_out() -> None:
    def end(checks: Sequence[AnswerCheck]) -> str:
        def cancel(order: str) -> str:
            """Cancel an order."""
            raise ValueError("the shop is closed")

        model = ScriptedLLM(call("cancel", order="1001"), forever(answer("Order 1001 is dealt with.")))
        builder = ReactiveAgents.create().with_llm(model).with_tools(cancel)
        agent = builder.with_reasoning(answer_checks=checks, tool_classifier="off").build()
        return agent.run_sync("Cancel order 1001.").metadata.terminated_by

    assert end(("failed_call",)) == "failed_call"
    assert end(()) == "final_answer"


def test_a_configuration_names_the_checks_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text('name = "shop"\n[model]\nmodel = "offline"\n[reasoning]\nanswer_checks = ["not_done"]\n')
    agent = ReactiveAgents.from_config(file).build()
    assert agent.config is not None
    assert agent.config.reasoning is not None
    assert agent.config.reasoning.answer_checks == ("not_done",)
    with pytest.raises(AgentError, match=r"answer_checks\[0\]: got 'nothing', expected .*'not_done'"):
        ReactiveAgents.create().with_reasoning(answer_checks=["nothing"]).build()  # type: ignore[list-item]
