"""Which calls of a turn are run."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import AssistantMessage, ToolCall
from reactive_agents.core.settings import BudgetConfig, CallLimit, ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel import KernelContext, KernelState
from reactive_agents.kernel.ledger import CallCounts, CallLedger
from reactive_agents.kernel.open_requirements import call_limits
from reactive_agents.kernel.tool_execution import ONE_AT_A_TIME, screen_calls
from reactive_agents.testing import FakeTools
from tests.support.kernels import kernel_bench, new_state

SCHEMA: dict[str, Any] = {"type": "object"}
EDIT = ToolDefinition("edit", "Changes something.", SCHEMA, risk="medium")
REPORT = ToolDefinition("report", "Delivers.", SCHEMA, output=True)


def context(**fields: Any) -> KernelContext:
    tools = FakeTools({"look": "seen", "edit": "done", "report": "done"}, definitions=(EDIT, REPORT))
    return kernel_bench(tools=tools).context(**fields)


def limited(**calls: int) -> dict[str, Any]:
    return {"budget": BudgetConfig(calls=tuple(CallLimit(*each) for each in calls.items()))}


def call(name: str = "look", **arguments: Any) -> ToolCall:
    return ToolCall(CallId(f"c-{name}"), name, arguments)


def knows(*calls: ToolCall, attempts: int = 0) -> KernelState:
    """A state in which the results of the calls are stored."""
    keys = {each.fingerprint: f"look-{number}" for number, each in enumerate(calls)}
    ledger = CallLedger(answers=keys, calls=CallCounts({"look": attempts or len(calls)}))
    return evolve(new_state(), ledger=ledger, scratchpad=dict.fromkeys(keys.values(), "seen before"))


def origins(state: KernelState, where: KernelContext, *calls: ToolCall) -> list[str]:
    return ["run" if each is None else each.origin for each in screen_calls(state, where, calls)]


def test_limits_are_the_required_calls_and_two_more() -> None:
    needs = ToolNeeds((ToolRequirement("look"), ToolRequirement("edit", 4)))
    assert call_limits(needs, BudgetConfig(), parallel=True) == {"look": 3, "edit": 6}
    assert call_limits(needs, BudgetConfig(), parallel=False) == {}
    derived = ToolNeeds((ToolRequirement("look", derived=True),))
    assert call_limits(derived, BudgetConfig(), parallel=True) == {}


@pytest.mark.parametrize("parallel", [True, False])
def test_explicit_limits_win(parallel: bool) -> None:
    budget = BudgetConfig(calls=(CallLimit("look", 1), CallLimit("report", 9)))
    needs = ToolNeeds((ToolRequirement("look"),))
    assert call_limits(needs, budget, parallel=parallel) == {"look": 1, "report": 9}


def test_of_two_requirements_for_one_tool_the_larger_counts() -> None:
    needs = ToolNeeds((ToolRequirement("look", 4), ToolRequirement("look", 1)))
    assert call_limits(needs, BudgetConfig(), parallel=True) == {"look": 6}


def test_a_call_made_before_gets_what_was_stored_also_over_its_budget() -> None:
    state = knows(call(at="a"))
    (answer,) = screen_calls(state, context(**limited(look=1)), (call(at="a"),))
    assert answer is not None
    assert (answer.origin, answer.result, answer.success) == ("stored", "seen before", True)


def test_a_result_that_is_no_longer_there_is_found_again() -> None:
    assert origins(evolve(knows(call(at="a")), scratchpad={}), context(), call(at="a")) == ["run"]


def test_behind_a_change_of_the_same_turn_nothing_stored_holds() -> None:
    state = knows(call(at="a"))
    assert origins(state, context(), call("edit"), call(at="a")) == ["run", "run"]
    assert origins(state, context(), call(at="a"), call("edit")) == ["stored", "run"]


def test_a_required_call_without_arguments_is_run_until_there_are_enough() -> None:
    two = context(needs=ToolNeeds((ToolRequirement("look", 2),)))
    assert origins(knows(call()), two, call()) == ["run"]
    met = evolve(knows(call()), ledger=evolve(knows(call()).ledger, calls=CallCounts(succeeded={"look": 2})))
    assert origins(met, two, call()) == ["stored"]
    assert origins(knows(call(at="a")), two, call(at="a")) == ["stored"]


def test_calls_over_budget_are_refused_one_by_one() -> None:
    tight = context(**limited(look=3))
    asked = [call(at=place) for place in "bcd"]
    assert origins(knows(call(at="a")), tight, *asked) == ["run", "run", "refused"]


def test_a_refusal_names_the_budget_and_the_way_to_deliver() -> None:
    required = {"needs": ToolNeeds((ToolRequirement("report"),)), **limited(look=1)}
    state = knows(call(at="a"))
    (answer,) = screen_calls(state, context(**required), (call(at="b"),))
    assert answer is not None
    assert answer.error == (
        "Not run: the budget of 1 call for look is used up. Call report to produce the output."
    )
    (answer,) = screen_calls(state, context(**limited(look=1)), (call(at="b"),))
    assert answer is not None
    assert answer.error.endswith(
        "Call final-answer with the answer. If the task asks for an output, produce it with report first."
    )


def test_tools_that_deliver_are_never_refused() -> None:
    strict = evolve(context(), call_limits={"report": 1, "final-answer": 1})
    spent = evolve(new_state(), ledger=CallLedger(calls=CallCounts({"report": 9, "final-answer": 9})))
    assert origins(spent, strict, call("report"), call("final-answer", answer="3")) == ["run", "run"]


def test_in_sequential_mode_one_call_is_run_and_the_others_may_come_again() -> None:
    sequential = context(parallel_tool_calls=False)
    state = knows(call(at="a"))
    screened = screen_calls(state, sequential, (call(at="a"), call(at="b"), call(at="c"), call("edit")))
    assert [each and each.origin for each in screened] == ["stored", None, "refused", "refused"]
    assert screened[2] is not None
    assert screened[2].error == ONE_AT_A_TIME


def test_in_sequential_mode_an_answer_beside_a_call_does_not_take_its_place() -> None:
    sequential = context(parallel_tool_calls=False)
    assert origins(new_state(), sequential, call("final-answer", answer="3"), call(at="a")) == ["run", "run"]


# --- a call that would take effect a second time --------------------------------------------------------


def has_done(made: ToolCall, *, questioned: bool = False, turns: int = 1) -> KernelState:
    """A state in which the call has taken effect."""
    done = CallCounts({made.name: 1}, {made.name: 1}, effects={made.fingerprint: "edit-1"})
    told = frozenset([made.fingerprint] if questioned else [])
    ledger = CallLedger(calls=done, questioned=told)
    return evolve(new_state(), ledger=ledger, scratchpad={"edit-1": "number 17"}, iteration=turns)


@pytest.mark.parametrize("name", ["edit", "report"])
def test_a_call_that_changed_something_is_questioned_before_it_is_run_again(name: str) -> None:
    made = call(name, at="a")
    (answer,) = screen_calls(has_done(made), context(), (made,))
    assert answer is not None
    assert (answer.origin, answer.success) == ("refused", False)
    assert "number 17" in answer.error
    assert origins(has_done(made), context(), call(name, at="b")) == ["run"]


def test_a_questioned_call_that_is_made_again_is_run() -> None:
    made = call("edit", at="a")
    assert origins(has_done(made, questioned=True), context(), made) == ["run"]


def test_a_call_with_an_effect_is_questioned_where_the_task_only_asks_and_forbids() -> None:
    made, bench = call("edit", at="a"), context(task="How many are there? Change nothing for that.")
    started = evolve(new_state(), iteration=1)
    (answer,) = screen_calls(started, bench, (made,))
    assert answer is not None
    assert (answer.origin, "only asks" in answer.error) == ("refused", True)
    again = evolve(started, ledger=CallLedger(questioned=frozenset([made.fingerprint])))
    assert origins(again, bench, made) == ["run"]
    assert origins(started, bench, call("look", at="a")) == ["run"]
    assert origins(new_state(), bench, made) == ["run"]  # that of a plan, which no model made


@pytest.mark.parametrize(
    "task", ["Show me such a call. Do not make it.", "Zeig mir einen, aber ändere nichts."]
)
def test_a_call_in_a_text_may_be_an_example_where_the_task_says_what_not_to_do(task: str) -> None:
    made, bench = evolve(call("edit", at="a"), written=True), context(task=task)
    bare = evolve(new_state(), iteration=1, messages=(AssistantMessage("", (made,)),))
    shown = evolve(bare, messages=(AssistantMessage("Here is an example:", (made,)),))
    asked = CallLedger(questioned=frozenset([made.fingerprint]))
    assert origins(bare, bench, made) == origins(shown, bench, made) == ["refused"]
    assert origins(evolve(bare, ledger=asked), bench, made) == ["run"]
    assert origins(evolve(shown, ledger=asked), bench, made) == ["refused"]
    assert origins(bare, bench, evolve(made, written=False)) == ["run"]
    assert origins(bare, context(task="Change a."), made) == ["run"]


@pytest.mark.parametrize(
    ("task", "first"),
    [
        ("Change it, but don't spend more than 100.", "run"),
        ("Please change it, no more than 3 times.", "run"),
        ("Change a: show me the call, but don't execute it.", "refused"),
        ("Ändere es, aber höchstens dreimal und nicht öfter.", "refused"),
    ],
)
def test_a_written_call_is_questioned_once_in_a_run_where_the_task_only_limits_it(
    task: str, first: str
) -> None:
    made, bench = evolve(call("edit", at="a"), written=True), context(task=task)
    says = "I'll edit a now." if "don't execute" not in task else ""
    started = evolve(new_state(), iteration=1, messages=(AssistantMessage(says, (made,)),))
    assert origins(started, bench, made) == [first]
    asked = evolve(started, ledger=CallLedger(questioned=frozenset([made.fingerprint])))
    assert origins(asked, bench, made) == ["run"]
    acted = evolve(started, ledger=CallLedger(calls=CallCounts({"edit": 1}, {"edit": 1})))
    assert origins(acted, bench, evolve(call("edit", at="b"), written=True)) == ["run"]


@pytest.mark.parametrize("says", ["Here's the call I'd use:", "I'll show it:"])
def test_a_call_that_is_shown_again_is_not_run_where_the_task_forbids_the_call(says: str) -> None:
    made, bench = (
        evolve(call("edit", at="a"), written=True),
        context(task="Show the edit call. Do not make it."),
    )
    shown = evolve(new_state(), iteration=1, messages=(AssistantMessage(says, (made,)),))
    asked = CallLedger(questioned=frozenset([made.fingerprint]))
    assert origins(evolve(shown, ledger=asked), bench, made) == ["refused"]


def test_two_equal_calls_of_one_turn_are_run_once_where_they_change_something() -> None:
    made = call("edit", at="a")
    assert origins(new_state(), context(), made, made) == ["run", "refused"]


@pytest.mark.parametrize("fields", [{"idempotent": True}, {"volatile": True}])
def test_calls_that_may_be_repeated_are_run_again(fields: dict[str, Any]) -> None:
    tools = FakeTools({"edit": "done"}, definitions=(evolve(EDIT, **fields),))
    made = call("edit", at="a")
    assert origins(has_done(made), kernel_bench(tools=tools).context(), made) == ["run"]


def test_a_call_without_arguments_is_run_as_often_as_it_is_required() -> None:
    needs = ToolNeeds((ToolRequirement("edit", 2),))
    assert origins(has_done(call("edit")), context(needs=needs), call("edit")) == ["run"]


def test_a_call_that_no_model_made_gets_the_first_result() -> None:
    made = call("edit", at="a")
    (answer,) = screen_calls(has_done(made, turns=0), context(), (made,))
    assert answer is not None
    assert (answer.origin, answer.result) == ("stored", "number 17")
