"""Cut-off turns, calls as text, texts, answers after a failure, and figures without a source."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from reactive_agents import ReactiveAgents, tool
from reactive_agents.core.events import GuidanceGiven, ModelTextRetracted
from reactive_agents.core.ids import CallId, StepId
from reactive_agents.core.messages import AssistantMessage, ToolCall
from reactive_agents.core.results import ReasoningStep, StepMetadata
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel import KernelState, Proposal, Redirect, Stop
from reactive_agents.kernel.open_items import open_items
from reactive_agents.kernel.policies import unfinished_work
from reactive_agents.kernel.policies.answers import (
    MOST_CUT_OFF,
    MOST_TEXTS,
    cut_off,
    text_answer,
    unsupported,
    written_call,
)
from reactive_agents.kernel.policies.decision import final_answer
from reactive_agents.kernel.policies.unfinished_work import failed_call, left_out
from reactive_agents.testing import ScriptedLLM, Turn, answer, call, calls, forever, say
from reactive_agents.testing.core import START
from tests.support.kernels import KernelBench, add, kernel_bench
from tests.support.moments import around, moment
from tests.support.operations import assert_linear

CONTEXT = around()
ADVICE = (
    "I'd wait until the others have come, since seats behind the pillars would be the only ones left now."
)
NO_CALL = Redirect(
    "text_answer",
    "You called no tool. If this is your answer, deliver it with final-answer. Otherwise make the call.",
)


def texts(*said: str, found: str = "", **fields: Any) -> KernelState:
    """A state after texts in a row, the last of them proposed, and the others asked about."""
    results = {"look-1": found} if found else {}
    messages = tuple(AssistantMessage(text) for text in said)
    asked = {"text_answer": len(said) - 1} if said[1:] else {}
    return moment(said[-1], messages=messages, scratchpad=results, told=asked, **fields)


def asked(bench: KernelBench) -> list[str]:
    return [event.policy for event in bench.recorder.of(GuidanceGiven)]


# --- cut off --------------------------------------------------------------------------------------------


def cut(text: str, reason: Any = "length", **fields: Any) -> KernelState:
    return evolve(moment("", **fields), proposal=Proposal(text, reason))


@pytest.mark.parametrize("text", ["", "half of it"])
def test_a_cut_off_turn_is_asked_again_twice(text: str) -> None:
    verdict = cut_off(cut(text), CONTEXT)
    assert isinstance(verdict, Redirect)
    assert "cut off at the output limit" in verdict.guidance
    assert isinstance(cut_off(cut(text, told={"cut_off": MOST_CUT_OFF - 1}), CONTEXT), Redirect)
    assert not isinstance(cut_off(cut(text, told={"cut_off": MOST_CUT_OFF}), CONTEXT), Redirect)


def test_what_is_cut_off_again_is_partial_and_an_empty_turn_ends_the_run() -> None:
    often = {"cut_off": MOST_CUT_OFF}
    assert cut_off(cut("half", told=often), CONTEXT) is None, "the policy final_answer makes it partial"
    verdict = cut_off(cut(" ", told=often, messages=(AssistantMessage("So far."),)), CONTEXT)
    assert isinstance(verdict, Stop)
    assert (verdict.policy, verdict.outcome, verdict.output) == ("cut_off", "partial", "So far.")
    assert "at its output limit" in verdict.reason


@pytest.mark.parametrize("text", ["half", '{"answer": "ha', "There are two trains: one leaves at 8 and"])
def test_a_filtered_turn_is_not_asked_again(text: str) -> None:
    part = cut_off(cut(text, "content_filter"), CONTEXT)
    assert isinstance(part, Stop)
    assert (part.outcome, part.output) == ("partial", text)
    verdict = cut_off(cut("", "content_filter"), CONTEXT)
    assert isinstance(verdict, Stop)
    assert "content filter" in verdict.reason


@pytest.mark.parametrize(
    "text", ['{"answer": ', '{"answer": "It is 3, si', '```json\n[{"total": 3}, ', '["one", "tw']
)
def test_an_answer_that_breaks_off_within_json_is_asked_for_twice(text: str) -> None:
    verdict = cut_off(moment(text), CONTEXT)
    assert isinstance(verdict, Redirect)
    assert verdict.guidance == "Your last reply broke off within JSON. Give the whole answer."
    often = moment(text, told={"cut_off": MOST_CUT_OFF})
    assert cut_off(often, CONTEXT) is None, "the policy final_answer makes it partial"
    ended = final_answer(often, CONTEXT)
    assert isinstance(ended, Stop)
    assert (ended.outcome, ended.output) == ("partial", text)
    assert ended.reason.startswith("The model's answer breaks off within JSON. Missing:")


@pytest.mark.parametrize(
    "text", ['{"answer": 3', '{"answer": "3"', "[1] The report.", "{", '{"a": 1} is JSON.']
)
def test_json_that_lacks_only_its_last_brackets_and_other_texts_are_whole(text: str) -> None:
    assert cut_off(moment(text), CONTEXT) is None


def test_whole_turns_and_last_turns_are_no_matter_of_it() -> None:
    assert cut_off(moment("It is 3."), CONTEXT) is None
    assert cut_off(moment(), CONTEXT) is None
    assert cut_off(cut("half", iteration=5), CONTEXT) is None


@pytest.mark.anyio
async def test_a_model_that_is_cut_off_for_ever_is_asked_three_times() -> None:
    bench = kernel_bench(forever(say("", finish_reason="length")), tools={"add": add})
    state = await bench.run(max_iterations=10)
    assert (state.outcome, state.terminated_by, state.iteration) == ("partial", "cut_off", 3)


# --- calls as text --------------------------------------------------------------------------------------


def test_a_call_of_an_unknown_tool_as_text_is_answered_with_the_tools() -> None:
    verdict = written_call(texts('{"name": "lookup", "arguments": {}}'), CONTEXT)
    assert isinstance(verdict, Redirect)
    assert "There is no tool 'lookup'." in verdict.guidance
    assert "The tools are: look, see, report, final-answer." in verdict.guidance
    broken = written_call(texts('<tool_call>{"name": "look", "argu'), CONTEXT)
    assert isinstance(broken, Redirect)
    assert "There is no tool" not in broken.guidance


def test_the_fourth_call_as_text_in_a_row_ends_the_run() -> None:
    verdict = written_call(texts(*["<tool_call>"] * MOST_TEXTS), CONTEXT)
    assert isinstance(verdict, Stop)
    assert (verdict.policy, verdict.outcome, verdict.output) == ("written_call", "partial", None)


@pytest.mark.parametrize(("told", "ends"), [(MOST_TEXTS - 2, False), (MOST_TEXTS - 1, True)])
def test_the_fourth_call_as_a_delivered_answer_ends_the_run(told: int, ends: bool) -> None:
    delivered = Proposal("lookup(coins)", "tool_calls", CallId("c"), unmade="lookup")
    verdict = written_call(evolve(moment(told={"written_call": told}), proposal=delivered), CONTEXT)
    assert isinstance(verdict, Stop if ends else Redirect)


def test_prose_and_delivered_answers_are_no_calls() -> None:
    assert written_call(texts("It is 3."), CONTEXT) is None
    assert written_call(evolve(moment(""), proposal=Proposal("<tool_call>", "stop", None)), CONTEXT)
    delivered = Proposal("<tool_call>", "tool_calls", ToolCall("c", "final-answer").id)
    assert written_call(evolve(moment(""), proposal=delivered), CONTEXT) is None


# --- texts ----------------------------------------------------------------------------------------------


def test_a_text_with_evidence_is_the_answer_at_once() -> None:
    assert text_answer(texts("The drawer holds 450 coins.", found="450 coins"), CONTEXT) is None


def test_a_text_without_results_is_the_answer_at_once_unless_it_is_about_the_speaker() -> None:
    assert text_answer(texts("It is so."), CONTEXT) is None
    assert text_answer(texts("I think so."), CONTEXT) == NO_CALL
    assert text_answer(texts("I think so.", "I think so."), CONTEXT) is None


def test_beside_results_a_text_that_tells_nothing_of_them_or_the_task_is_asked_twice() -> None:
    assert text_answer(texts("The coins are there.", found="450 coins"), CONTEXT) is None
    assert text_answer(texts("It is so.", found="450 coins"), CONTEXT) == NO_CALL
    assert text_answer(texts("I think so.", found="450 coins"), CONTEXT) == NO_CALL
    again = texts(*["I think so."] * 2, found="450 coins", failed_in_a_row={"see": 1})
    assert text_answer(again, CONTEXT) == NO_CALL
    assert text_answer(texts(*["I think so."] * 2, found="450 coins"), CONTEXT) is None
    assert text_answer(texts(*["I think so."] * 2, found="450 coins", iteration=5), CONTEXT) is None
    assert text_answer(texts(*["I think so."] * 3, found="450 coins"), CONTEXT) is None


def test_announcements_are_never_the_answer() -> None:
    for count in range(1, MOST_TEXTS):
        failed = texts(*["I will look:"] * count, failed_in_a_row={"look": 1})
        assert text_answer(failed, CONTEXT) == NO_CALL
    verdict = text_answer(texts(*["I will look:"] * MOST_TEXTS, failed_in_a_row={"look": 1}), CONTEXT)
    assert isinstance(verdict, Stop)
    assert (verdict.outcome, verdict.output) == ("partial", "I will look:")
    assert "announced in 4 turns" in verdict.reason


def test_a_call_in_between_starts_anew() -> None:
    state = texts("I will look:", "I think so.")
    made = AssistantMessage("", (ToolCall("c", "look"),))
    state = evolve(state, messages=(state.messages[0], made, state.messages[1]))
    assert text_answer(state, CONTEXT) == NO_CALL


def test_delivered_answers_and_runs_without_the_tool_are_not_asked() -> None:
    delivered = evolve(moment(""), proposal=Proposal("So.", "tool_calls", ToolCall("c", "x").id))
    assert text_answer(delivered, CONTEXT) is None
    assert text_answer(moment(), CONTEXT) is None
    assert text_answer not in kernel_bench().context().asked
    assert text_answer in kernel_bench(tools={"add": add}).context().asked


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("I will add them.", "partial"),
        ("Let me check.", "partial"),
        ('{"name": "addition", "arguments": {"a": 1}}', "partial"),
        ("I think so.", "completed"),
        ("Which numbers do you mean?", "completed"),
        ("I cannot add them.", "completed"),
    ],
)
async def test_in_a_run_of_one_turn_only_a_plain_announcement_is_no_answer(text: str, status: str) -> None:
    state = await kernel_bench(say(text), tools={"add": add}).run(max_iterations=1)
    assert (state.outcome, state.output) == (status, text)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("turns", "calls", "output"),
    [
        ((say("I think so."), answer("I think so.")), 2, "I think so."),
        ((forever(say("I think so.")),), 2, "I think so."),
        ((say("It is so."),), 1, "It is so."),
        ((call("add", a=1, b=2), say("The sum is 3.")), 2, "The sum is 3."),
        ((say("I will add them:"), call("add", a=1, b=2), answer("3")), 3, "3"),
    ],
)
async def test_a_run_with_texts(turns: tuple[Turn, ...], calls: int, output: str) -> None:
    bench = kernel_bench(*turns, tools={"add": add})
    state = await bench.run()
    assert (state.outcome, state.output, len(bench.llm.requests)) == ("completed", output, calls)


# --- after a failure ------------------------------------------------------------------------------------


def explode() -> None:
    raise OSError("the disk is full")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "outcome", "policies"),
    [("Nothing can be done.", "partial", ["failed_call"]), ("The disk is full.", "completed", [])],
)
async def test_an_answer_after_a_failed_call_is_asked_once_unless_it_says_why(
    text: str, outcome: str, policies: list[str]
) -> None:
    bench = kernel_bench(call("explode"), forever(answer(text)), tools={"explode": explode})
    state = await bench.run()
    assert (state.outcome, state.output, asked(bench)) == (outcome, text, policies)


def test_before_any_call_and_in_the_last_turn_nobody_asks() -> None:
    assert failed_call(moment("So."), CONTEXT) is None
    assert failed_call(moment("So.", iteration=5), CONTEXT) is None


# --- figures --------------------------------------------------------------------------------------------


def test_figures_that_nothing_supports_are_questioned_once_or_twice_as_a_text() -> None:
    verdict = unsupported(
        moment("It costs 57.18.", attempts={"look": 1}, scratchpad={"look-1": "12.5"}), CONTEXT
    )
    assert isinstance(verdict, Redirect)
    assert "supports: 57.18." in verdict.guidance
    assert (
        unsupported(moment("It costs 57.18.", attempts={"look": 1}, told={"unsupported": 1}), CONTEXT)
        is not None
    )
    assert (
        unsupported(moment("It costs 57.18.", attempts={"look": 1}, told={"unsupported": 2}), CONTEXT) is None
    )
    delivered = Proposal("It costs 57.18.", "tool_calls", ToolCall("c", "final-answer").id)
    assert unsupported(evolve(moment("", told={"unsupported": 1}), proposal=delivered), CONTEXT) is None
    assert (
        unsupported(moment("It costs 12.5.", attempts={"look": 1}, scratchpad={"look-1": "12.5"}), CONTEXT)
        is None
    )
    assert (
        unsupported(moment("It costs 12.5.", attempts={"look": 1}, scratchpad={"call:1": "12.5"}), CONTEXT)
        is not None
    )


@pytest.mark.anyio
async def test_a_text_that_is_turned_down_is_retracted_where_it_was_not_streamed() -> None:
    said = say("Let me add these.")
    bench = kernel_bench(said, call("add", a=1, b=2), answer("The sum is 3."), tools={"add": add})
    await bench.run()
    assert [event.policy for event in bench.recorder.of(ModelTextRetracted)] == ["text_answer"]


@pytest.mark.anyio
async def test_an_invented_figure_is_questioned_whichever_way_it_comes() -> None:
    bench = kernel_bench(
        answer("It is 4711."), call("add", a=1, b=2), answer("The sum is 3."), tools={"add": add}
    )
    state = await bench.run()
    assert (state.output, asked(bench)) == ("The sum is 3.", ["unsupported"])


@pytest.mark.parametrize(
    ("first", "second", "policies"),
    [
        ("It is 4711.", "It is 4711 indeed.", ["unsupported"]),
        ("It is 4711.", "It is 5822.", ["unsupported", "unsupported"]),
    ],
)
@pytest.mark.anyio
async def test_other_figures_in_place_of_invented_ones_are_questioned_again(
    first: str, second: str, policies: list[str]
) -> None:
    turns = (call("add", a=1, b=2), answer(first), answer(second), forever(answer(second)))
    bench = kernel_bench(*turns, tools={"add": add})
    state = await bench.run()
    assert (state.output, asked(bench)) == (second, policies)


def catalogue(name: str) -> str:
    """Entry of the catalogue."""
    return {"lamp": "12.41", "stool": "30.17", "rug": "8.02"}[name]


BASKET = "What do the lamp, the stool and the rug cost in all?"


def in_turns(*turns: Turn, task: str = BASKET) -> tuple[list[str], str | None]:
    """Return the policies that asked again, and the answer."""
    asked: list[str] = []
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(catalogue)
    agent = builder.build()
    agent.subscribe(lambda event: asked.append(event.policy) if isinstance(event, GuidanceGiven) else None)
    return asked, agent.run_sync(task).output


LOOKED_UP = [call("catalogue", name=item) for item in ("lamp", "stool", "rug")]


@pytest.mark.parametrize(
    "slip",
    [
        answer("That is 77.25 in all."),
        say("That is 77.25 in all."),
        say("Everything has been taken care of."),
        say("Good that you ask, the lamp it is."),
        answer("It has been worked out."),
    ],
)
def test_an_answer_before_any_look_up_is_questioned_whatever_the_words_of_the_tools(slip: Turn) -> None:
    asked, output = in_turns(slip, *LOOKED_UP, answer("50.60 in all."))
    assert output == "50.60 in all."
    assert asked


def test_a_text_without_the_figure_that_is_asked_for_is_asked_about_until_it_comes() -> None:
    musing = say("Adding is the next thing, all in all."), say("The catalogue has them, sure.")
    asked, output = in_turns(*LOOKED_UP, *musing, answer("50.60 in all."))
    assert (output, asked) == ("50.60 in all.", ["text_answer", "text_answer"])


def members(team: str) -> list[str]:
    """Ids of the members of a team."""
    return ["w-a", "w-b"]


def hours_of(member: str) -> int:
    """Hours of a member."""
    return {"w-a": 140, "w-b": 121}[member]


@pytest.mark.parametrize("deliver", [say, answer])
def test_an_answer_that_says_why_there_is_no_figure_is_taken(deliver: Callable[[str], Turn]) -> None:
    @tool
    def gauge(station: str) -> str:
        """Level of a station."""
        raise ConnectionError("the gauge is frozen")

    model = ScriptedLLM(call("gauge", station="Alder"), deliver("The gauge is frozen."))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off")
    result = builder.with_tools(gauge).build().run_sync("How high is the water at Alder?")
    assert (result.output, result.metadata.model_calls) == ("The gauge is frozen.", 2)


def test_a_text_without_the_figure_ends_partial_however_often_it_comes() -> None:
    model = ScriptedLLM(*LOOKED_UP, forever(say("Done!")))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off")
    result = builder.with_tools(catalogue).build().run_sync(BASKET)
    assert (result.status, result.metadata.terminated_by) == ("partial", "loop_detection")


def test_a_figure_that_another_tool_is_called_for_is_not_delivered_without_it() -> None:
    calls = [call("hours_of", member=each) for each in ("w-a", "w-b")]
    early = answer("The team has 2 members: w-a, w-b.")
    model = ScriptedLLM(call("members", team="red"), early, *calls, answer("261 hours."))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off")
    result = builder.with_tools(members, hours_of).build().run_sync("Total hours of the red team?")
    assert (result.output, result.metadata.model_calls) == ("261 hours.", 5)


def test_items_asked_about_as_a_list_count_as_asked() -> None:
    early = call("catalogue", name=["lamp"]), say("The lamp is 12.41 in all.")
    asked, output = in_turns(*early, *LOOKED_UP[1:], answer("50.60 in all."))
    assert (output, asked[:1]) == ("50.60 in all.", ["left_out"])


def test_a_step_of_a_plan_is_asked_for_what_it_is_to_do_alone() -> None:
    given = evolve(CONTEXT.input, task="Sum up a.csv.\n\nPart of: write b.md.", part="Sum up a.csv.")
    assert (given.to_do, evolve(given, part="").to_do) == ("Sum up a.csv.", given.task)


# --- the last turn --------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_last_turn_says_so_and_offers_the_answer_alone() -> None:
    bench = kernel_bench(*(call("add", a=n, b=n) for n in range(2)), answer("2"), tools={"add": add})
    state = await bench.run(max_iterations=3)
    assert (state.outcome, state.output) == ("completed", "2")
    assert [tool.name for tool in bench.llm.requests[1].tools] == ["add", "final-answer"]
    assert [tool.name for tool in bench.llm.requests[2].tools] == ["final-answer"]
    assert "This is your last turn." in bench.shown(2)
    assert "This is your last turn." not in bench.shown(1)


# --- items of a list that nothing was asked about ---------------------------------------------------------


DEPOTS = "How many crates are there in the depots Harlow, Tavy and Liskeard taken together?"
LISTS = [
    (DEPOTS, "Liskeard", ("Harlow", "Tavy")),
    (DEPOTS, "Tavy", ("Harlow", "Liskeard")),
    ("Look up the prices of lamp, desk and chair, and tell me their sum.", "lamp", ("desk", "chair")),
    ("Look up the prices of lamp, desk and chair, and tell me their sum.", "chair", ("lamp", "desk")),
    ("Which of Oslo, Rome and Paris has the largest population?", "Rome", ("Oslo", "Paris")),
    ("Compare P-12 and P-77.", "P-12", ("P-77",)),
    ("Wie viel kosten Lampe, Tisch und Stuhl zusammen?", "Tisch", ("Lampe", "Stuhl")),
    ("¿Cuánto cuestan lámpara, mesa y silla?", "mesa", ("lámpara", "silla")),
    ("Find Ines Boyle and Gus Ferro, then tell me who is older.", "Ines Boyle", ("Gus Ferro",)),
    ("¿Cuántas cajas hay en total en Liskeard, Tring y Ashby?", "Liskeard", ("Tring", "Ashby")),
    (
        "Combien de caisses y a-t-il au total dans Tring, Wexcombe et Harlow ?",
        "Tring",
        ("Wexcombe", "Harlow"),
    ),
    ("Add:\n- New York\n- Los Angeles\n- Rome", "New York", ("Los Angeles", "Rome")),
    ("Read notes.md and summarize it.", "notes.md", ()),
    ("Add up a.csv and b.csv, and save the sum as sum.txt.", "a.csv", ("b.csv", "sum.txt")),
    ("What do the lamp, the stool and a rug cost?", "lamp", ("stool", "rug")),
    ("Suma los precios de cuba, tonel y cazo de cobre, por favor.", "tonel", ("cuba", "cazo")),
    ("Send Ines and Gus a message each: lunch is at noon.", "Gus", ("Ines",)),
    ("Compare New York, Los Angeles and Rome.", "Los Angeles", ("New York", "Rome")),
    ("What do the lamp, the stool and a rug cost?", "the stool", ("lamp", "rug")),
    ("Was kosten die Lampe, der Stuhl und das Bett?", "Stuhl", ("Lampe", "Bett")),
    ("Read a.csv, but do not touch b.csv.", "a.csv", ()),
    ("What is the weather in Oslo and should I take a coat?", "Oslo", ()),
    ("Send Bob the report and the invoice.", "Bob", ()),
    ("What is the price of the lamp?", "lamp", ()),
    ("Look up the lamp, then write a poem.", "lamp", ()),
    ("Tell me about Ada Lovelace, who wrote the first program.", "Ada Lovelace", ()),
    ("How much is a bag of rice and a bottle of oil?", "rice", ("oil",)),
    ("Send a message to Ivo and to Petra that dinner is at 8.", "Ivo", ("Petra",)),
    ("Set the heating in the den to 19 and in the attic to 16.", "den", ("attic",)),
    ("Schalte das Licht in der Küche und im Bad ein.", "Küche", ("Bad",)),
    ("Wie warm ist es im Bad und in der Küche?", "Bad", ("Küche",)),
    ("Book Roma if possible, otherwise Napoli, tonight.", "Roma", ()),
    ("How far is it from Graz to Linz and from Linz to Passau?", "Linz", ("Passau",)),
    ("Ajoute 'payer le loyer' et 'appeler Luc' à ma liste.", "payer le loyer", ("appeler Luc",)),
    ("Check the weather in Paris and answer in French.", "Paris", ()),
    ("Search for shoes and for each list the price.", "shoes", ()),
    ("Add 'oat milk' to the list 'weekend'.", "oat milk", ()),
    ("Add 'call mom' to my list and mark 'gym' as done.", "call mom", ("gym",)),
    ("Invite Dana (dana@q.com) and Luis (luis@q.com).", "dana@q.com", ("luis@q.com",)),
    ("Please mail a@q.com, b@q.com and c@q.com.", "a@q.com", ("b@q.com", "c@q.com")),
    ("Write to a@q.com that it rains, and to b@q.com that it snows.", "a@q.com", ("b@q.com",)),
    ("Forward the note in c.md from a@q.com to b@q.com.", "b@q.com", ()),
    ("Log in as a@q.com and invite b@q.com.", "b@q.com", ()),
    ("Who wrote to us? Her mail is a@q.com, ours is b@q.com.", "a@q.com", ()),
    ("Find what has 'alpha', 'beta' or 'gamma' in it.", "alpha", ()),
    ('Look for "tall tower", or if that gives nothing, "high tower".', "tall tower", ()),
]


@pytest.mark.parametrize(("task", "asked", "left"), LISTS)
def test_items_beside_what_was_looked_up_are_known_by_their_form(
    task: str, asked: str, left: tuple[str, ...]
) -> None:
    assert open_items(task, [asked], f"{asked}: 179") == left
    assert open_items(task, [asked], f"{asked}: 179 {' '.join(left)}") == ()
    assert open_items(task, [], "") == ()


@pytest.mark.parametrize(
    ("task", "asked"),
    [
        ("Send Ines and Gus a message each: lunch is at noon.", ["Ines", "Gus"]),
        ("Compare New York, Los Angeles and Rome.", ["New York", "Los Angeles", "Rome"]),
        ("Suma los precios de cuba, tonel y cazo de cobre, por favor.", ["cuba", "tonel", "cazo de cobre"]),
    ],
)
def test_nothing_is_left_where_each_item_was_asked_about(task: str, asked: list[str]) -> None:
    assert open_items(task, asked, "\n".join(asked)) == ()


@pytest.mark.parametrize("mark", ["“", "„", "«", "« "])
def test_quotations_that_do_not_end_are_passed_over_in_time(mark: str) -> None:
    task = "Add “milk” and “tea”. "
    assert_linear(lambda size: open_items(task + mark * size, ["milk"], "milk"), 10_000)
    assert open_items(task + mark * 99, ["milk"], "milk") == ("tea",)


def test_a_long_text_among_the_items_is_named_by_its_beginning_on_one_line() -> None:
    long = f"tea\x1b[2J {'x' * 5_000}"
    task, once = f"Add 'milk' and '{long}' to the list.", answer("Added, as you said.")
    model = ScriptedLLM(call("add_item", item="milk"), forever(once))

    def add_item(item: str) -> str:
        """Add an item to the list."""
        return "added"

    result = (
        ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(add_item).build().run_sync(task)
    )
    assert "No call was made for: tea" in result.reason
    assert len(result.reason) < 400
    assert "\x1b" not in result.reason


@pytest.mark.parametrize("gap", [" ", "\n", "\t\n"])
def test_items_of_a_task_with_wide_gaps_are_found_in_time(gap: str) -> None:
    assert_linear(lambda size: open_items(f"Count A,{gap * size}B", ["A"], "A: 1"), 500)
    assert open_items(f"Count A,{' ' * 20_000}B", ["A"], "A: 1") == ("B",)


def looked_up(*items: str) -> list[Turn]:
    return [call("count", depot=item) for item in items]


def count(depot: str) -> int:
    """Count the crates of a depot."""
    return {"Harlow": 700, "Tavy": 21, "Liskeard": 179}[depot]


def test_the_last_turn_before_all_items_were_looked_up_is_partial_whatever_was_asked() -> None:
    early = say("Liskeard holds 179 crates.")
    model = ScriptedLLM(*looked_up("Liskeard"), early, *looked_up("Harlow"), answer("879 crates."))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(count)
    result = agent.with_max_iterations(4).build().run_sync(DEPOTS)
    assert (result.status, result.metadata.terminated_by) == ("partial", "left_out")
    assert "Tavy" in result.reason


@pytest.mark.parametrize("deliver", [say, answer])
def test_an_answer_before_all_items_of_a_list_were_looked_up_is_questioned_once(
    deliver: Callable[[str], Turn],
) -> None:
    early = deliver("Liskeard holds 179 crates.")
    model = ScriptedLLM(*looked_up("Liskeard"), early, *looked_up("Harlow", "Tavy"), answer("900 crates."))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(count).build()
    result = agent.run_sync(DEPOTS)
    assert (result.status, result.output) == ("completed", "900 crates.")
    asked = next(each for each in model.requests if "The task also names" in each.messages[-1].content)
    assert "Harlow, Tavy" in asked.messages[-1].content

    model = ScriptedLLM(*looked_up("Liskeard"), early, early)
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(count)
    assert agent.build().run_sync(DEPOTS).output == "Liskeard holds 179 crates."


def test_items_are_asked_about_again_after_each_look_up_that_found_something() -> None:
    early = [say("Liskeard holds 179 crates."), say("Harlow holds 700 crates.")]
    model = ScriptedLLM(
        *looked_up("Liskeard"),
        early[0],
        *looked_up("Harlow"),
        early[1],
        *looked_up("Tavy"),
        answer("900 crates."),
    )
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(count)
    assert agent.build().run_sync(DEPOTS).output == "900 crates."


def test_an_answer_of_the_last_turn_before_all_items_were_looked_up_is_partial() -> None:
    model = ScriptedLLM(*looked_up("Liskeard"), answer("So far 179 crates."))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(count)
    result = agent.with_max_iterations(2).build().run_sync(DEPOTS)
    assert (result.status, result.metadata.terminated_by) == ("partial", "left_out")
    assert result.output == "So far 179 crates."
    assert "Missing: Harlow, Tavy." in result.reason


def fails(depot: str) -> int:
    """Count the crates of a depot."""
    raise ConnectionError("the ledger is locked")


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ("There was an error, so this is it.", "partial"),
        ("It cannot be said: the ledger is locked.", "completed"),
    ],
)
def test_an_answer_with_nothing_of_the_failure_where_no_call_worked_is_partial(
    reply: str, status: str
) -> None:
    model = ScriptedLLM(call("fails", depot="Tavy"), answer(reply), answer(reply))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(fails)
    result = agent.build().run_sync("How many crates does the depot Tavy hold?")
    assert (result.status, result.output) == (status, reply)


REPLIES: list[tuple[str, str, str, str]] = [
    ("Switch the lamp in the hall on.", "Switch a lamp.", "ok", "The lamp in the hall is on now."),
    ("Switch the lamp in the hall on.", "Switch a lamp.", "ok", "I've turned it on for you."),
    ("Switch the lamp in the hall on.", "Switch a lamp.", "ok", "Done!"),
    ("Is the museum open on Monday?", "Tell the opening hours.", "closed", "Sadly not. Tuesday could do."),
    ("Is there a ferry before nine?", "List the ferries.", "08:40, 10:15", "Yes, one at twenty to nine."),
    ("How many nails are in stock?", "Count what is in stock.", "0", "None at the moment."),
    ("What was decided?", "Read the minutes.", "They buy a van in June.", "They will buy the van in June."),
    ("Has parcel 7 left?", "Tell the state of a parcel.", "packed", "It hasn't. You will get a message."),
    (
        "Wie ist das Wetter in Bergen?",
        "Tell the weather.",
        "4 °C, rain",
        "In Bergen sind es 4 °C. Viel Spaß!",
    ),
]


@pytest.mark.parametrize(("task", "description", "found", "reply"), REPLIES)
def test_a_plain_reply_after_the_look_up_is_the_answer_at_once(
    task: str, description: str, found: str, reply: str
) -> None:
    @tool(description=description)
    def use(what: str) -> str:
        return found

    model = ScriptedLLM(call("use", what="it"), say(reply))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(use)
    result = agent.build().run_sync(task)
    assert (result.status, result.output, result.metadata.model_calls) == ("completed", reply, 2)


@pytest.mark.parametrize("reply", ["I would recommend A unless you travel a lot.", "I'd take plan A."])
def test_a_text_that_comes_again_where_nothing_is_left_is_the_answer(reply: str) -> None:
    @tool
    def plan_info(plan: str) -> str:
        """Tell the price of a plan."""
        return {"A": "10 euros", "B": "14 euros"}[plan]

    model = ScriptedLLM(call("plan_info", plan="A"), call("plan_info", plan="B"), say(reply), say(reply))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off")
    result = agent.with_tools(plan_info).build().run_sync("Which plan should I take, A or B?")
    assert (result.status, result.output, result.metadata.model_calls) == ("completed", reply, 4)


def test_nothing_is_asked_about_items_that_a_tool_with_effects_was_not_called_for() -> None:
    @tool(risk="high")
    def book(name: str) -> str:
        """Book a seat."""
        return "booked"

    model = ScriptedLLM(call("book", name="Ann"), answer("Ann has a seat; Bob did not want one."))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(book)
    assert agent.build().run_sync("Book a seat for Ann and Bob.").metadata.model_calls == 2


@pytest.mark.parametrize(
    ("task", "reply", "asked_again"),
    [
        ("Reserve a seat for me", "Sure! What's your card number?", 1),
        ("Ein Platz in Ulm", "Gern! Für welche Nacht soll ich ihn suchen?", 1),
        ("Should I take a seat now?", f"It depends on how long it lasts. {ADVICE}", 1),
        ("Reserve a seat for me", "Shall I reserve the seat?", 3),
    ],
)
def test_a_question_for_what_is_missing_and_advice_are_asked_about_once(
    task: str, reply: str, asked_again: int
) -> None:
    def reserve(card: str) -> str:
        """Reserve a seat, ein Platz, for a card."""
        return "done"

    model = ScriptedLLM(forever(say(reply)))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(reserve)
    result = agent.build().run_sync(task)
    assert len(model.requests) == 1 + asked_again
    assert result.status == ("completed" if asked_again == 1 else "partial")


def test_a_question_for_what_a_derived_call_needs_is_taken_when_it_comes_again() -> None:
    def search_hotels(city: str, night: str) -> str:
        """Search hotels in a city."""
        return "none"

    model = ScriptedLLM(forever(say("Sure, for which night?")))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(search_hotels).build()
    result = agent.run_sync("Search hotels in Ulm.")
    assert (result.status, result.output) == ("completed", "Sure, for which night?")
    assert "Not finished: search_hotels" in str(model.requests[1].messages[-1].content)


@pytest.mark.parametrize(
    ("stock", "reply", "status"),
    [
        ("2", "There are only 2 in stock, so I haven't placed the order.", "abstained"),
        ("2", "I haven't placed the order.", "partial"),
        ("2", "There are 2 in stock.", "partial"),
    ],
)
def test_an_answer_that_says_again_why_a_derived_call_is_not_made_abstains(
    stock: str, reply: str, status: str
) -> None:
    def stock_level(item: str) -> str:
        """Return the units in stock."""
        return stock

    def place_order(item: str, quantity: str) -> str:
        """Place an order."""
        return "done"

    model = ScriptedLLM(call("stock_level", item="boots"), forever(say(reply)))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(stock_level, place_order)
    result = agent.build().run_sync("Place an order of 3 boots.")
    assert (result.status, result.output) == (status, reply)


def test_an_announcement_that_comes_again_is_not_the_answer() -> None:
    model = ScriptedLLM(call("count", depot="Harlow"), forever(say("I will write the report now.")))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(count)
    result = agent.build().run_sync("Report on the crates of Harlow.")
    assert result.status == "partial"


def test_an_amount_that_was_never_looked_up_is_questioned_in_any_language() -> None:
    model = ScriptedLLM(answer("Sie kostet 12,50 Euro."), answer("Das weiß ich nicht."))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(count)
    assert agent.build().run_sync("Was kostet die Lampe von Harlow?").output == "Das weiß ich nicht."


@pytest.mark.parametrize(
    ("task", "reply", "calls"),
    [
        ("When did the Berlin Wall fall?", "It fell on 9 November 1989.", 1),
        ("How many crates does Harlow hold?", "It holds 1989.", 2),
        ("Wann fiel die Berliner Mauer?", "Sie fiel 1989.", 1),
        ("Wie viele Kisten fasst Harlow?", "Es sind 1989.", 2),
    ],
)
def test_figures_are_not_questioned_where_no_tool_has_to_do_with_the_task(
    task: str, reply: str, calls: int
) -> None:
    model = ScriptedLLM(say(reply), answer(reply), answer(reply))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(count)
    assert agent.build().run_sync(task).metadata.model_calls >= calls
    if calls == 1:
        assert model.remaining == 2


@pytest.mark.parametrize("s", ["'s", "’s"])
def test_a_possessive_names_the_same_item(s: str) -> None:
    assert open_items(f"Cancel Ann{s} and Bob{s} bookings.", ["Ann", "Bob"], "Ann: 1\nBob: 2") == ()


def test_a_comparison_is_no_item_of_the_list_after_it() -> None:
    task = "Which account holds more, savings or giro?"
    assert open_items(task, ["savings"], "savings: 8,214.70") == ("giro",)
    task = "Which is in larger supply, bolt or nut?"
    assert open_items(task, ["bolt"], "bolt: 1250") == ("nut",)
    assert open_items("What do apples, pears and plums cost?", ["pears"], "pears: 2") == ("apples", "plums")


PAYWALL = "I am not able to open that article because of its paywall and cannot tell what is written there."


@pytest.mark.parametrize(
    ("error", "reply", "calls", "status"),
    [
        ("order not found", "I couldn't find that order. Could you check the number?", 2, "completed"),
        ("paywall", PAYWALL, 2, "abstained"),
        ("paywall timeout", PAYWALL, 4, "abstained"),
        ("behind a paywall", "It does not work.", 3, "completed"),
        ("no such order", '{"error": "no such order"}', 2, "completed"),
    ],
)
def test_an_answer_that_tells_a_failure_for_good_is_not_questioned(
    error: str, reply: str, calls: int, status: str
) -> None:
    def lookup(number: int) -> str:
        """Return an order."""
        raise RuntimeError(error)

    model = ScriptedLLM(call("lookup", number=5), forever(say(reply)))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(lookup)
    result = agent.build().run_sync("Where is it?")
    assert (len(model.requests), result.status) == (calls, status)


def test_a_failure_that_may_pass_is_told_once_the_call_was_made_again() -> None:
    def memory_of(service: str) -> str:
        """Return the memory of a service."""
        raise RuntimeError("503 backend unavailable")

    reply = "I couldn't get it: the backend is unavailable. Please try again in a while."
    for times, requests in ((1, 3), (2, 3)):
        made = [call("memory_of", service="billing")] * times
        model = ScriptedLLM(*made, forever(say(reply)))
        agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off")
        agent.with_tools(memory_of).build().run_sync("Where is it?")
        assert len(model.requests) == requests


def test_what_no_tool_does_is_abstained_from_at_once() -> None:
    reply = "I can't delete orders. I can only count them."
    model = ScriptedLLM(forever(say(reply)))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(count)
    result = agent.build().run_sync("Delete my last order of crates.")
    assert (len(model.requests), result.status, result.output) == (1, "abstained", reply)


def test_another_answer_before_all_items_were_looked_up_is_questioned_once_more() -> None:
    early = say("Liskeard holds 179 crates."), say("So there are 179 crates in all.")
    model = ScriptedLLM(*looked_up("Liskeard"), *early, *looked_up("Harlow", "Tavy"), answer("900 crates."))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning(tool_classifier="off").with_tools(count)
    assert agent.build().run_sync(DEPOTS).output == "900 crates."


@pytest.mark.parametrize("could_not", ["", "Harlow and Tavy cannot be counted."])
def test_items_are_not_asked_about_where_the_answer_says_what_could_not_be_done(could_not: str) -> None:
    made = json.dumps({"tool": "look", "arguments": {"at": "Liskeard"}})
    step = ReasoningStep(StepId("k-1"), "action", made, START, StepMetadata("look", CallId("c1")))
    given = evolve(moment(attempts={"look": 1}), steps=(step,))
    given = evolve(given, proposal=Proposal("Liskeard holds 179 crates.", could_not=could_not))
    assert (left_out(given, around(task=DEPOTS)) is None) is bool(could_not)


# --- runs of small models ---------------------------------------------------------------------------------


def forecast(city: str) -> str:
    """Get the current weather of a city."""
    return {"Cork": "9 °C, fog", "Bari": "21 °C, sunny", "Lodz": "3 °C, sleet"}[city]


def add_to_cart(product: str, quantity: int = 1) -> str:
    """Add a product to the shopping cart."""
    return "added"


def set_lamp(room: str, on: bool) -> str:
    """Switch the lamp of a room on or off."""
    return "ok"


def route(start: str, end: str) -> dict[str, float]:
    """Return the distance and duration of a route."""
    return {"km": 313.2, "minutes": 220}


def list_events(date: str) -> list[str]:
    """List the calendar events of a day."""
    return []


def tickets(status: str = "open") -> list[str]:
    """List support tickets."""
    return ["T-3"]


def lamps(page: int) -> dict[str, Any]:
    """List lamps with their prices."""
    items = [{"name": "Lumen 20", "price": 34.9}, {"name": "Lumen 40", "price": 52.5}, {"name": "Lumen 60"}]
    return {"items": items[2:] if page > 1 else items[:2], "has_more": page < 2}


def translate(text: str, language: str) -> str:
    """Translate a text."""
    return "お元気ですか?"


def update_inventory(sku: str, quantity: int) -> str:
    """Set the stock of an article."""
    return "ok"


def send_email(to: str, subject: str, body: str) -> str:
    """Send an e-mail."""
    return "sent"


def delete_file(path: str) -> str:
    """Delete a file."""
    return "deleted"


def move_file(source: str, destination: str) -> str:
    """Move or rename a file."""
    return "moved"


def read_file(path: str) -> str:
    """Read a text file."""
    raise FileNotFoundError("File not found")


def get_time(zone: str) -> str:
    """Return the current time in a time zone."""
    return "09:14"


def create_event(title: str, date: str) -> str:
    """Create a calendar event."""
    return "created"


def products(query: str) -> str:
    """Search the catalogue."""
    return "No such product."


def book_table(restaurant: str, guests: int) -> str:
    """Book a table at a restaurant."""
    return "confirmed"


KEPT_WITHOUT_CALLS = [
    (
        "Add milk, bread and eggs to my cart.",
        call("add_to_cart", product="milk"),
        "I've added milk, bread, and eggs to your cart.",
        "No call was made for: bread, eggs.",
    ),
    (
        "Turn off all lamps: hall, bath, attic.",
        call("set_lamp", room="hall", on=False),
        "The lamps in the hall, bath and attic are off now.",
        "No call was made for: bath, attic.",
    ),
    (
        "Rename draft.md to final.md and delete old.md.",
        call("move_file", source="draft.md", destination="final.md"),
        "draft.md has been renamed to final.md and old.md was deleted.",
        "old.md",
    ),
    (
        "Read secrets.env and tell me the DB host.",
        call("read_file", path="secrets.env"),
        "The DB host is db.internal.example.com.",
        "No call worked",
    ),
    (
        "Update the stock of Q-5 to 40, then email the warehouse at wh@acme.com.",
        call("send_email", to="wh@acme.com", subject="Q-5", body="It is 40 now."),
        "I've updated the stock of Q-5 to 40 and informed the warehouse.",
        "no call of update_inventory",
    ),
]


@pytest.mark.parametrize(("task", "made", "claim", "reason"), KEPT_WITHOUT_CALLS)
def test_what_is_kept_though_no_call_has_done_or_found_it_is_partial(
    task: str, made: Turn, claim: str, reason: str
) -> None:
    tools = (add_to_cart, set_lamp, update_inventory, send_email, delete_file, move_file, read_file)
    model = ScriptedLLM(made, forever(say(claim)))
    result = (
        ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(*tools).build().run_sync(task)
    )
    assert result.status == "partial"
    assert reason in result.reason


def order(order_id: str) -> dict[str, float]:
    """Get the details of an order."""
    return {"total": 59.98}


def refund_order(order_id: str, amount: float) -> str:
    """Refund an amount to the customer of an order."""
    return "ok"


@pytest.mark.parametrize(
    ("amount", "text", "status"),
    [
        (10, "I've refunded the full amount of $59.98 for order 3301.", "partial"),
        (10, "I've refunded $10 of the $59.98 for order 3301.", "completed"),
        (59.98, "I've refunded the full amount of $59.98 for order 3301.", "completed"),
    ],
)
def test_an_amount_of_a_look_up_is_not_the_one_that_was_acted_with(
    amount: float, text: str, status: str
) -> None:
    made = [call("order", order_id="3301"), call("refund_order", order_id="3301", amount=amount)]
    model = ScriptedLLM(*made, forever(say(text)))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(order, refund_order).build()
    result = agent.run_sync("Refund order 3301.")
    assert (result.status, "no call for 59.98" in result.reason) == (status, status == "partial")


def employee(role: str) -> dict[str, str]:
    """Look up an employee in the HR system."""
    return {"name": "Ruth Okafor", "role": role}


DOUBTED = [
    (
        employee,
        "Who leads the sales team?",
        [call("employee", role="head")],
        "The sales team is led by Jennifer Thompson.",
        "These names have no source: Jennifer Thompson.",
    ),
    (
        get_time,
        "What's the time in Nairobi?",
        [],
        "The current time in Nairobi is 3:45 PM.",
        "These figures have no source: 3:45.",
    ),
    (
        forecast,
        "How is the weather in Cork and in Bari?",
        [call("forecast", city="Cork")],
        "In Cork there is fog, and in Bari sun.",
        "No call was made for: Bari.",
    ),
    (
        list_events,
        "Which events do I have on 2026-08-01?",
        [call("list_events", date="2026-08-01")],
        "You have two events: a team lunch at 12:00 and a doctor's appointment at 16:00.",
        "These figures have no source: 12:00, 16:00.",
    ),
    (
        forecast,
        "Wie ist das Wetter in Lodz?",
        [],
        "In Lodz sind es derzeit 14 °C.",
        "These figures have no source: 14.",
    ),
    (
        tickets,
        "How many open tickets are there?",
        [],
        "There are currently 5 open tickets:\n\n1. Login issue\n2. Failed payment\n3. Slow dashboard\n"
        "4. Missing invoice on the account page\n5. Broken link in the footer",
        "No tool was called.",
    ),
]


@pytest.mark.parametrize(("used", "task", "made", "invented", "reason"), DOUBTED)
def test_what_an_answer_has_without_a_look_up_is_asked_about_and_named_where_it_is_kept(
    used: Callable[..., Any], task: str, made: list[Turn], invented: str, reason: str
) -> None:
    model = ScriptedLLM(*made, forever(say(invented)))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(used)
    result = agent.build().run_sync(task)
    assert len(model.requests) > len(made) + 1
    assert reason in result.reason


def test_an_answer_that_is_kept_without_the_figure_is_completed_with_a_note() -> None:
    model = ScriptedLLM(call("forecast", city="Bari"), forever(answer("It has [number] degrees in Bari.")))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(forecast).build()
    result = agent.run_sync("How many degrees has it in Bari?")
    assert (result.status, len(model.requests)) == ("completed", 3)
    assert "The figure that is asked for is not in it." in result.reason


GOOD_AT_ONCE = [
    (
        "How long does it take to drive from Lyon to Turin?",
        [call("route", start="Lyon", end="Turin")],
        "Driving from Lyon to Turin takes about 3 hours and 40 minutes (313 km).",
    ),
    (
        "Translate 'how are you?' into Japanese.",
        [call("translate", text="how are you?", language="Japanese")],
        '"How are you?" in Japanese is: お元気ですか?',
    ),
    (
        "Give me the weather of Cork, Bari and Lodz as JSON with the city as key and the sky as value.",
        [call("forecast", city=city) for city in ("Cork", "Bari", "Lodz")],
        '{"Cork": "fog", "Bari": "sunny", "Lodz": "sleet"}',
    ),
    ("Gracias, eso es todo.", [], "¡De nada! Que tengas un buen día."),
    ("Danke, das war alles für heute!", [], "Gern geschehen! Bis bald."),
    ("Muchas gracias por tu ayuda", [], "¡Con gusto! Aquí estoy si necesitas algo más."),
    (
        "Ajoute 'du pain' à mon panier.",
        [call("add_to_cart", product="du pain")],
        "C'est fait : « du pain » a été ajouté à votre panier. Autre chose ?",
    ),
    (
        "What is the price of the Quantum X sofa?",
        [call("products", query="Quantum X sofa")],
        "I couldn't find a product called Quantum X sofa, so I can't tell you its price.",
    ),
    (
        "What does the Lumen 40 cost?",
        [call("lamps", page=1)],
        "The Lumen 40 costs 52.50 EUR, and the Lumen 20 34.90 EUR.",
    ),
    ("Is the Lumen 40 the cheapest?", [call("lamps", page=1)], "No, the cheapest costs 34.90 EUR."),
    (
        "List all lamps.",
        [call("lamps", page=1), call("lamps", page=2)],
        "The lamps are Lumen 20, Lumen 40 and Lumen 60.",
    ),
]


@pytest.mark.parametrize(("task", "made", "text"), GOOD_AT_ONCE)
def test_an_everyday_answer_is_not_asked_about(task: str, made: list[Turn], text: str) -> None:
    tools = (route, translate, forecast, add_to_cart, products, book_table, lamps)
    model = ScriptedLLM(*made, say(text))
    result = (
        ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(*tools).build().run_sync(task)
    )
    assert (result.output, model.remaining) == (text, 0)
    assert result.status in ("completed", "abstained")


def test_thanks_with_an_order_are_an_order() -> None:
    model = ScriptedLLM(say("¡De nada! Que tengas un buen día."), say("¡De nada!"))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(book_table)
    agent.build().run_sync("Gracias, reserva una mesa en Casa Pepe.")
    assert len(model.requests) > 1


def test_one_thing_done_for_two_people_is_no_claim_about_the_second() -> None:
    done = say("Ann and Bob have a table at Nori.")
    tools = ReactiveAgents.create().with_llm(
        ScriptedLLM(call("book_table", restaurant="Nori for Ann", guests=2), forever(done))
    )
    result = (
        tools.with_reasoning()
        .with_tools(book_table)
        .build()
        .run_sync("Book a table at Nori for Ann and Bob.")
    )
    assert result.status == "completed"


@pytest.mark.parametrize("deliver", [say, answer])
def test_a_reply_to_thanks_is_taken_at_once(deliver: Callable[[str], Turn]) -> None:
    model = ScriptedLLM(deliver("Avec plaisir, bonne journée !"))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(add_to_cart, book_table)
    assert agent.build().run_sync("Merci beaucoup, bonne journée !").status == "completed"


def test_the_reason_names_a_tool_that_acts_and_that_the_model_was_asked_for() -> None:
    claim = "Your table at Roma is booked, and I've added it to your calendar."
    model = ScriptedLLM(call("book_table", restaurant="Roma", guests=5), forever(say(claim)))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(book_table, create_event)
    result = agent.build().run_sync("Book a table for 5 at Roma and put it in my calendar.")
    assert result.reason.endswith("Not called: create_event.")


def test_a_condition_that_nothing_was_looked_up_for_is_named() -> None:
    def get_temperature(room: str) -> str:
        """Read the temperature of a room."""
        return "21 degrees"

    def set_heating(on: bool) -> str:
        """Switch the heating on or off."""
        return "ok"

    task = "If the temperature of the hall is below 18 degrees, switch the heating on."
    look, switch = call("get_temperature", room="hall"), call("set_heating", on=True)
    for turns, doubt in (([switch], " Not called: get_temperature."), ([look, switch], "")):
        model = ScriptedLLM(*turns, forever(answer("The heating is on.")))
        builder = ReactiveAgents.create().with_llm(model).with_reasoning()
        result = builder.with_tools(get_temperature, set_heating).build().run_sync(task)
        assert (result.status, result.reason) == ("completed", f"The model gave its final answer.{doubt}")


def test_what_a_task_says_to_keep_is_not_missing() -> None:
    def delete_file(path: str) -> str:
        """Delete a file."""
        return "ok"

    both = calls(call("delete_file", path="a.log"), call("delete_file", path="b.log"))
    model = ScriptedLLM(both, forever(answer("a.log and b.log are deleted, and c.log was kept.")))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(delete_file).build()
    result = agent.run_sync("Delete a.log and b.log, but keep c.log.")
    assert (result.status, len(model.requests)) == ("completed", 2)


def test_one_of_several_to_choose_from_may_fail_in_the_same_turn() -> None:
    def restart_service(host: str) -> str:
        """Restart a service."""
        if host == "a1":
            raise RuntimeError("unreachable")
        return "restarted"

    hosts = [call("restart_service", host="a1"), call("restart_service", host="a2")]
    said = "It was restarted on a2; a1 is unreachable."
    for made in (hosts, hosts[::-1]):
        for task, status in (
            ("on a1 or a2", "completed"),
            ("on a1 and a2", "partial"),
            ("on a1 and a2 today or tomorrow", "partial"),
        ):
            model = ScriptedLLM(calls(*made), forever(answer(said)))
            builder = ReactiveAgents.create().with_llm(model).with_reasoning()
            result = builder.with_tools(restart_service).build().run_sync(f"Restart the service {task}.")
            assert result.status == status


@pytest.mark.parametrize("turns", [slice(None), slice(None, None, -1)])
@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("Tell Ben by e-mail or text message that I'm late.", "Ben was texted; his mailbox is full."),
        ("Sag Ben per E-Mail oder SMS, dass ich komme.", "Ben hat eine SMS; sein Postfach ist voll."),
        ("Tell Ben by text message and e-mail that I'm late.", ""),
    ],
)
def test_one_way_of_several_may_fail_beside_another(task: str, said: str, turns: slice) -> None:
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        raise ValueError("the mailbox is full")

    def send_text(to: str, text: str) -> str:
        """Send a text message."""
        return "delivered"

    made = [call("send_email", to="Ben", body="late"), call("send_text", to="Ben", text="late")]
    model = ScriptedLLM(calls(*made[turns]), forever(answer(said or "Ben was texted; his mailbox is full.")))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(send_email, send_text)
    assert builder.build().run_sync(task).status == ("completed" if said else "partial")


@pytest.mark.parametrize(
    ("error", "status"), [("b.tmp does not exist", "completed"), ("b.tmp is read-only", "partial")]
)
def test_one_of_several_to_delete_need_not_exist(error: str, status: str) -> None:
    def delete_file(path: str) -> str:
        """Delete a file."""
        if path == "b.tmp":
            raise OSError(error)
        return "deleted"

    made = [call("delete_file", path="a.tmp"), call("delete_file", path="b.tmp")]
    model = ScriptedLLM(calls(*made), forever(answer(f"a.tmp is deleted; {error}.")))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(delete_file)
    assert builder.build().run_sync("Delete a.tmp and b.tmp.").status == status


@pytest.mark.parametrize("said", ["Napoli is booked for 20:00; Roma was full.", "Napoli is booked at 20:00."])
def test_where_the_task_says_what_to_do_else_a_failure_may_be_told_in_its_words(said: str) -> None:
    def book_table(restaurant: str, day: str) -> str:
        """Book a table."""
        if restaurant == "Roma":
            raise ValueError("Roma is full")
        return "booked for 20:00"

    made = [call("book_table", restaurant=each, day="tonight") for each in ("Roma", "Napoli")]
    model = ScriptedLLM(calls(*made), forever(answer(said)))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(book_table)
    result = builder.build().run_sync("Book a table for tonight, at Roma if possible, otherwise at Napoli.")
    is_told = "full" in said
    assert result.status == ("completed" if is_told else "partial")
    assert not is_told or result.reason == "The model gave its final answer."


def test_no_call_is_missed_for_what_others_did_or_what_a_tool_looks_at_itself() -> None:
    def list_log() -> str:
        """List the log."""
        return "5: remove by Bo"

    def delete_ticket(id: int) -> str:
        """Delete a ticket."""
        return "ok"

    def close_window() -> str:
        """Close the window if it is open."""
        return "closed"

    def get_window() -> str:
        """Get the state of the window."""
        return "open"

    told = "Tell me the history of ticket 5.", call("list_log"), "Ticket 5 was deleted by Bo."
    closed = (
        "If the window is open, close it.",
        call("close_window"),
        "The window was open and is closed now.",
    )
    for task, made, said in (told, closed):
        model = ScriptedLLM(made, forever(answer(said)))
        agent = ReactiveAgents.create().with_llm(model).with_reasoning()
        agent = agent.with_tools(list_log, delete_ticket, close_window, get_window)
        assert agent.build().run_sync(task).reason == "The model gave its final answer."


@pytest.mark.parametrize(
    ("task", "text", "reads"),
    [
        ("What is 11 + 2?", "The answer is 13.", False),
        ("What is the weather in Vienna?", "In Graz it is warm.", False),
        ("What is the price of 11?", "12 costs 20 euros.", False),
        ("What is the price of 11?", "11 costs 20 euros.", True),
        ("What is the price of 11 if it is known?", "11 costs 20 euros.", False),
    ],
)
def test_calls_are_read_again_only_for_an_answer_that_may_be_about_something_else(
    task: str, text: str, reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    whole = unfinished_work.json_value
    monkeypatch.setattr(unfinished_work, "json_value", lambda made: read.append(made) or whole(made))
    made = json.dumps({"tool": "get_value", "arguments": {"of": f"Graz, for {task}"}})
    about = StepMetadata("get_value", CallId("c1"))
    steps = (
        ReasoningStep(StepId("k-1"), "action", made, START, about),
        ReasoningStep(StepId("k-2"), "observation", "warm", START, evolve(about, success=True)),
    )
    offered = (ToolDefinition("get_value", "Return a value.", {}),)
    unfinished_work.looked_up_for_other(text, task, offered, steps, {}, "")
    assert bool(read) is reads


def on_call(team: str) -> str | None:
    """Return who is on call for a team."""
    return None


def tell_customer(customer: str, message: str) -> str:
    """Tell the customer that something has happened."""
    return "ok"


def get_weather(city: str) -> str:
    """Return the weather in a city."""
    if city == "Lima":
        raise ValueError("No station for Lima")
    return {"Oslo": "4 °C, rain", "Rome": "19 °C, sunny"}[city]


def fares(city: str) -> str:
    """Return the fares of the flights from a city."""
    return {"Oslo": "Rome 120 euros", "Rome": "Oslo 95 euros"}[city]


def search_tickets(query: str) -> str:
    """Search the tickets."""
    return "TCK-1001: Printer jams (open)\nTCK-1002: Printer offline (closed)"


def close_ticket(ticket: str) -> str:
    """Close a ticket."""
    return "closed"


def give_back(order: str) -> None:
    """Give the money for an order back."""


def send_report(address: str) -> str:
    """Send a report."""
    return "sent"


def register_guest(name: str) -> str:
    """Register a guest."""
    return "registered"


def get_orders(customer: str) -> list[str]:
    """Return the orders of a customer."""
    return []


def web_search(query: str) -> list[str]:
    """Search the web."""
    return []


def get_readings(meter: str) -> str:
    """Return the reading of a meter, and its floor."""
    return {"171": "17122 kWh, floor 33", "172": "17233 kWh, floor 22"}[meter]


_BOTH = [call("get_weather", city="Oslo"), call("get_weather", city="Rome")]
_ORDERS = [call("get_orders", customer="C-17")]
_SEARCHED = [call("web_search", query="it")]
_METERS = [call("get_readings", meter="171"), call("get_readings", meter="172")]
_FARES = [call("fares", city="Oslo"), call("fares", city="Rome")]


@pytest.mark.parametrize(
    ("tools", "task", "made", "text", "status"),
    [
        ([get_weather], "How warm is it in Oslo and in Rome?", _BOTH, "Oslo: 19 °C, Rome: 4 °C", "partial"),
        ([get_weather], "How warm is it in Oslo and in Rome?", _BOTH, "Oslo: 4 °C, Rome: 19 °C", "completed"),
        (
            [get_weather],
            "How warm is it in Oslo and in Rome?",
            _BOTH,
            "| Oslo | 19 |\n| Rome | 4 |",
            "partial",
        ),
        ([fares], "What are the fares?", _FARES, "To Rome 120 euros, and to Oslo 95 euros.", "completed"),
        (
            [on_call],
            "Who is on call tonight?",
            [call("on_call", team="A")],
            "Maria Gonzalez is on call tonight.",
            "partial",
        ),
        (
            [on_call],
            "Who is on call tonight?",
            [call("on_call", team="A")],
            "Nobody is on call.",
            "completed",
        ),
        (
            [get_weather],
            "What is the weather in Lima?",
            [call("get_weather", city="Lima")],
            "Lima is unknown to the service.",
            "abstained",
        ),
        ([get_orders], "Which orders does C-17 have?", _ORDERS, "C-17 ordered tea and coffee.", "partial"),
        (
            [get_orders],
            "Which orders does C-17 have?",
            _ORDERS,
            "C-17 is without orders so far.",
            "completed",
        ),
        (
            [get_orders],
            "Welche Bestellungen hat C-17?",
            _ORDERS,
            "Es gibt keinerlei Bestellungen.",
            "completed",
        ),
        ([get_orders], "¿Qué pedidos tiene C-17?", _ORDERS, "Ningún pedido de C-17.", "completed"),
        (
            [get_orders],
            "Quelles sont les commandes de C-17 ?",
            _ORDERS,
            "C-17 n'a aucune commande.",
            "completed",
        ),
        ([web_search], "What is 15 % of 80?", _SEARCHED, "15 % of 80 is 12.", "completed"),
        (
            [web_search],
            "Who won the world cup in 1998?",
            _SEARCHED,
            "France won, beating Brazil.",
            "completed",
        ),
        (
            [get_readings],
            "What do the meters 171 and 172 show?",
            _METERS,
            "Meter 171: 17122. Meter 172: 17233.",
            "completed",
        ),
        (
            [get_readings],
            "What do the meters 171 and 172 show?",
            _METERS,
            "Meter 171: 17233. Meter 172: 17122.",
            "partial",
        ),
        ([web_search], "Can you keep a secret?", [], "Yes, I'll keep it to myself.", "completed"),
        ([search_tickets], "What's on my calendar?", [], "I'll check your calendar. One moment.", "partial"),
        (
            [search_tickets, close_ticket],
            "Close the open printer ticket.",
            [call("search_tickets", query="printer")],
            "TCK-1001 has been closed.",
            "partial",
        ),
        (
            [search_tickets, close_ticket],
            "Close the ticket TCK-1002.",
            [call("search_tickets", query="printer")],
            "TCK-1002 has been closed.",
            "completed",
        ),
        ([close_ticket], "Schließe das Ticket 12.", [], "Das Ticket 12 wurde geschlossen.", "partial"),
        (
            [get_weather],
            "Order a pizza margherita for me.",
            [call("order_pizza", kind="margherita")],
            "Your pizza has been ordered and will arrive in 30 minutes.",
            "partial",
        ),
        (
            [tell_customer],
            "Tell customer Lee that the repair is done.",
            [],
            "I have told Lee that the repair is done.",
            "partial",
        ),
        (
            [register_guest],
            "Register the guests Ann, Bo and Cy.",
            [call("register_guest", name="Ann")],
            "Registered: Ann, Bo and Cy",
            "partial",
        ),
        (
            [give_back],
            "Refund A7, please.",
            [call("give_back", order="A7")],
            "You have your money back.",
            "completed",
        ),
        ([get_weather], "Say hello to Ada.", [call("greet", name="Ada")], "Hello, Ada!", "completed"),
        (
            [get_weather],
            "Say hello to Ada.",
            [call("greet", name="Ada")],
            "Hello sent to Ada!",
            "partial",
        ),
        (
            [get_weather],
            "Email a thank-you note to Bo.",
            [call("send_email", to="Bo")],
            "Thanks! Your note is on its way to Bo.",
            "partial",
        ),
        (
            [send_report],
            "Rewrite politely: Send me the report.",
            [],
            "Would you please send me the report?",
            "completed",
        ),
        (
            [send_report],
            "Formuliere höflich um: Schick mir den Bericht.",
            [],
            "Könntest du mir bitte den Bericht schicken?",
            "completed",
        ),
        (
            [send_report],
            "Reescribe con cortesía: Envíame el informe.",
            [],
            "¿Podrías enviarme el informe, por favor?",
            "completed",
        ),
        (
            [send_report],
            "Rewrite politely: Send me the report.",
            [],
            "Shall I rewrite the report?",
            "partial",
        ),
        (
            [get_weather],
            "Traduis en anglais : « Pouvez-vous m'aider ? »",
            [],
            "Can you help me?",
            "completed",
        ),
    ],
)
def test_an_answer_that_is_repeated_ends_as_what_was_done_and_found_says(
    tools: list[Callable[..., Any]], task: str, made: list[Turn], text: str, status: str
) -> None:
    model = ScriptedLLM(*made, forever(answer(text) if made else say(text)))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(*tools).build()
    assert agent.run_sync(task).status == status


def test_a_list_that_is_headed_as_done_is_compared_with_the_calls_of_a_tool_of_high_risk() -> None:
    model = ScriptedLLM(call("register_guest", name="Ann"), forever(answer("Registered: Ann, Tom and Zoe")))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning()
    agent = agent.with_tools(tool(risk="high")(register_guest))
    assert agent.build().run_sync("Register the guests Ann, Tom and Zoe.").status == "partial"


@pytest.mark.parametrize("deliver", [answer, say])
def test_figures_that_are_swapped_after_another_fault_are_questioned_too(
    deliver: Callable[[str], Turn],
) -> None:
    said = "Oslo has 8311 degrees, Rome 19.", "Oslo has 19 degrees, Rome 4.", "Oslo has 4 degrees, Rome 19."
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(*_BOTH, *map(deliver, said))).with_reasoning()
    result = agent.with_tools(get_weather).build().run_sync("How warm is it in Oslo and in Rome?")
    assert (result.status, result.output) == ("completed", said[-1])
