"""Required tools, budgets and loop detection, through the builder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_agents import AgentError, AgentResult, ModelRetry, ReactiveAgents, tool
from reactive_agents.adapters.tools.signature import ToolDefinitionError
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.events import GuidanceGiven, ToolCallCompleted
from reactive_agents.core.messages import ToolMessage
from reactive_agents.core.models import Usage
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, answer, call, calls, forever, say

TOPICS = [
    "lions hunt in groups at dusk and rest through the heat of the day",
    "whales sing songs that travel for hundreds of miles under water",
    "owls turn their heads very far and fly without any sound at night",
    "bees dance to tell the others where flowers with nectar are to be found",
    "foxes store food in autumn and find it again under deep snow",
]


class Watched:
    """A run of an agent, what the model was sent, and what was told of it."""

    def __init__(self, script: tuple[Turn, ...], *tools: Any, **options: Any) -> None:
        self.llm = ScriptedLLM(*script)
        self.ran: list[str] = []
        self.recorder = EventRecorder()
        self.builder = ReactiveAgents.create().with_llm(self.llm).with_reasoning(**options)
        self.builder = self.builder.with_tools(*(tools or self.usual_tools())).with_max_iterations(12)

    def usual_tools(self) -> tuple[Any, ...]:
        async def search(topic: int) -> str:
            """Search the library."""
            self.ran.append("search")
            return TOPICS[topic % len(TOPICS)]

        async def note(text: str) -> str:
            """Write something down."""
            self.ran.append("note")
            return f"noted {text}"

        @tool(output=True)
        async def report(text: str) -> str:
            """Deliver the report."""
            self.ran.append("report")
            return f"delivered: {text}"

        async def broken(at: int = 0) -> str:
            """Never works."""
            self.ran.append("broken")
            raise ValueError(f"out of order at {at}")

        return search, note, report, broken

    def run(
        self,
        build: Callable[[ReactiveAgents], ReactiveAgents] = lambda it: it,
        task: str = "Report on the animals.",
    ) -> AgentResult:
        agent = build(self.builder).build()
        agent.subscribe(self.recorder)
        return agent.run_sync(task)

    def said(self, index: int) -> str:
        """The guidance in one request."""
        last = self.llm.requests[index].messages[-1]
        return last.content if last.content.startswith("Before you go on:") else ""

    def policies(self) -> list[str]:
        return [event.policy for event in self.recorder.of(GuidanceGiven)]

    def origins(self) -> list[str]:
        return [event.origin for event in self.recorder.of(ToolCallCompleted)]


# --- required tools -------------------------------------------------------------------------------------


def test_an_answer_that_comes_too_early_is_turned_down_and_the_next_is_taken() -> None:
    watched = Watched((say("Animals live."), call("search", topic=1), say("Whales sing.")))
    result = watched.run(lambda it: it.with_required_tools("search"))
    assert (result.status, result.output) == ("completed", "Whales sing.")
    assert result.metadata.terminated_by == "final_answer"
    assert watched.policies() == ["progress", "required_tools"]
    assert watched.said(0).endswith("- Required before the answer: search.")
    assert "Not finished: search (0 of 1 calls done)" in watched.said(1)


def test_an_answer_by_the_tool_is_turned_down_too() -> None:
    early = call("final-answer", answer="Animals live.")
    watched = Watched((early, call("search", topic=1), call("final-answer", answer="Whales sing.")))
    result = watched.run(lambda it: it.with_required_tools("search"))
    assert (result.status, result.output) == ("completed", "Whales sing.")
    assert "Not accepted" in watched.llm.requests[1].messages[-2].content


def test_each_tool_has_to_work_as_often_as_it_says_and_others_pass_meanwhile() -> None:
    script = (
        call("search", topic=0),
        call("note", text="lions"),
        say("Early."),
        call("search", topic=1),
        answer("Done."),
    )
    watched = Watched(script)
    result = watched.run(lambda it: it.with_required_tools(min_calls={"search": 2}))
    assert (result.status, result.output) == ("completed", "Done.")
    assert watched.ran == ["search", "note", "search"]
    assert "Still required: search (1 of 2 calls done)" in watched.said(1)
    assert "search (1 of 2 calls done)" in watched.said(3)
    assert watched.said(4) == ""


def test_a_satisfied_tool_may_be_called_again() -> None:
    script = (*(call("search", topic=topic) for topic in range(3)), answer("Done."))
    watched = Watched(script)
    assert watched.run(lambda it: it.with_required_tools("search")).status == "completed"
    assert watched.ran == ["search"] * 3


def test_a_failed_call_does_not_count() -> None:
    made = 0

    async def search(topic: int) -> str:
        nonlocal made
        made += 1
        if made == 1:
            raise ValueError("busy")
        return TOPICS[topic]

    watched = Watched(
        (call("search", topic=1), say("Early."), call("search", topic=1), answer("Done.")), search
    )
    result = watched.run(lambda it: it.with_required_tools("search"))
    assert (result.status, result.output, made) == ("completed", "Done.", 2)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("same", [True, False])
def test_a_tool_that_fails_for_good_ends_the_run_before_its_limit(parallel: bool, same: bool) -> None:
    script = tuple(call("broken", at=0 if same else number) for number in range(12))
    watched = Watched(script, parallel_tool_calls=parallel)
    result = watched.run(lambda it: it.with_required_tools("broken"))
    assert (result.status, result.metadata.terminated_by) == ("partial", "required_tools")
    assert "Missing: the required tool broken" in result.reason
    assert len(watched.llm.requests) <= 6
    assert "out_of_reach" in watched.policies()


def test_once_a_tool_failed_for_good_an_answer_is_partial_and_names_it() -> None:
    script = (*(call("broken", at=number) for number in range(3)), say("It is not known."))
    watched = Watched(script)
    result = watched.run(lambda it: it.with_required_tools("broken"))
    assert (result.status, result.output) == ("partial", "It is not known.")
    assert result.metadata.terminated_by == "required_tools"
    assert result.reason == "Missing: the required tool broken (it failed 3 times in a row)."
    assert "Not to be had: the required tool broken (it failed 3 times in a row)" in watched.said(3)


def test_a_requirement_beyond_its_budget_is_known_to_be_lost_from_the_start() -> None:
    watched = Watched((call("search", topic=0), say("Lions hunt.")))
    result = watched.run(
        lambda it: it.with_required_tools(min_calls={"search": 3}).with_budget(calls={"search": 2})
    )
    assert (result.status, result.output) == ("partial", "Lions hunt.")
    assert result.reason == "Missing: the required tool search (1 of 3 calls done, 1 left in its budget)."
    assert "Not to be had" in watched.said(0)


def test_what_is_never_called_is_missing_at_the_limit() -> None:
    watched = Watched(tuple(say(f"Answer {number}.") for number in range(3)))
    result = watched.run(lambda it: it.with_required_tools("search").with_max_iterations(3))
    assert (result.status, result.output) == ("partial", "Answer 2.")
    assert result.metadata.terminated_by == "required_tools"
    assert result.reason == "Missing: required calls: search (0 of 1 calls done)."


def test_a_tool_without_arguments_can_be_required_more_than_once() -> None:
    rolled = 0

    async def roll() -> int:
        nonlocal rolled
        rolled += 1
        return rolled

    watched = Watched((call("roll"), call("roll"), call("roll"), call("roll"), answer("Done.")), roll)
    result = watched.run(lambda it: it.with_required_tools(min_calls={"roll": 3}))
    assert (result.status, rolled) == ("completed", 3)
    assert watched.origins() == ["executed", "executed", "executed", "stored"]


@pytest.mark.parametrize(
    ("build", "option"),
    [
        (lambda it: it.with_required_tools("serch"), "required_tools"),
        (lambda it: it.with_required_tools(min_calls={"search": 0}), "required_tools"),
        (lambda it: it.with_required_tools(min_calls={"search": "2"}), "required_tools"),
        (lambda it: it.with_budget(calls={"serch": 1}), "budget.calls"),
        (lambda it: it.with_budget(calls={"search": 0}), "budget.calls"),
        (lambda it: it.with_budget(calls={"search": 1.5}), "budget.calls"),
        (lambda it: it.with_budget(tokens=0), "budget.tokens"),
        (lambda it: it.with_budget(tokens=2.5), "budget.tokens"),
        (lambda it: it.with_budget(cost_usd=0), "budget.cost_usd"),
        (lambda it: it.with_budget(cost_usd=float("nan")), "budget.cost_usd"),
    ],
)
def test_what_cannot_be_required_or_budgeted_is_said_at_build(build: Any, option: str) -> None:
    with pytest.raises(AgentError) as caught:
        build(Watched(()).builder).build()
    error = caught.value.error
    assert isinstance(error, InvalidConfig)
    assert error.option == option


def test_later_calls_of_the_builder_add_to_earlier_ones() -> None:
    builder = (
        Watched(())
        .builder.with_required_tools("search", min_calls={"note": 2})
        .with_required_tools(min_calls={"search": 3})
        .with_budget(tokens=100, calls={"search": 4, "note": 5})
        .with_budget(cost_usd=0.5, calls={"note": 6})
    )
    assert {each.name: each.min_calls for each in builder.config.required_tools} == {"search": 3, "note": 2}
    budget = builder.config.budget
    assert (budget.tokens, budget.cost_usd) == (100, 0.5)
    assert {each.name: each.max_calls for each in budget.calls} == {"search": 4, "note": 6}
    assert ReactiveAgents.from_config(builder.config).config.budget == budget


# --- budgets of calls -----------------------------------------------------------------------------------


def test_a_required_tool_may_be_called_twice_more_than_it_has_to() -> None:
    script = (
        *(call("search", topic=topic) for topic in range(4)),
        call("report", text="animals"),
        answer("Done."),
    )
    watched = Watched(script)
    result = watched.run(lambda it: it.with_required_tools("search", "report"))
    assert result.status == "completed"
    assert watched.ran == ["search"] * 3 + ["report"]
    assert watched.origins() == ["executed"] * 3 + ["refused", "executed"]
    refusal = next(m for m in reversed(watched.llm.requests[4].messages) if isinstance(m, ToolMessage))
    assert "the budget of 3 calls for search is used up" in refusal.content
    assert "Call report to produce the output." in refusal.content


def test_in_sequential_mode_no_limit_is_derived_and_one_call_a_turn_is_run() -> None:
    both = calls(call("search", topic=0), call("search", topic=1))
    script = (both, *(call("search", topic=topic) for topic in (1, 2, 3, 4)), answer("Done."))
    watched = Watched(script, parallel_tool_calls=False)
    result = watched.run(lambda it: it.with_required_tools("search"))
    assert result.status == "completed"
    assert watched.ran == ["search"] * 5
    assert watched.origins() == ["refused", *["executed"] * 5]


@pytest.mark.parametrize("parallel", [True, False])
def test_explicit_limits_win_in_both_modes(parallel: bool) -> None:
    script = (*(call("search", topic=topic) for topic in range(5)), answer("Done."))
    watched = Watched(script, parallel_tool_calls=parallel)
    result = watched.run(lambda it: it.with_required_tools("search").with_budget(calls={"search": 4}))
    assert result.status == "completed"
    assert watched.ran == ["search"] * 4


def test_calls_of_one_turn_count_each() -> None:
    several = calls(*(call("search", topic=topic) for topic in range(4)))
    watched = Watched((several, answer("Done.")))
    assert watched.run(lambda it: it.with_budget(calls={"search": 2})).status == "completed"
    assert watched.ran == ["search"] * 2
    assert watched.origins() == ["refused", "refused", "executed", "executed"]


# --- retries of a tool ----------------------------------------------------------------------------------


def retried(retries: int | None, ran: list[int]) -> Any:
    @tool(retries=retries)
    def order(at: int) -> str:
        """Place an order."""
        ran.append(at)
        if at % 3:
            raise ModelRetry(f"not at {at}")
        return "ordered"

    return order


@pytest.mark.parametrize(("retries", "most"), [(0, 1), (1, 2), (2, 3), (None, 5)])
def test_a_tool_that_fails_is_called_again_as_often_as_it_may(retries: int | None, most: int) -> None:
    ran = list[int]()
    places = [4, 5, 7, 8, 10]
    watched = Watched((*(call("order", at=at) for at in places), answer("No.")), retried(retries, ran))
    watched.run(lambda it: it)
    assert ran == places[:most]
    refusals = [
        message.content for message in watched.llm.requests[-1].messages if "Not run" in message.content
    ]
    assert bool(refusals) is (retries is not None)
    assert all("in a row and is not called again. Do without it" in each for each in refusals)


def test_a_success_sets_the_failures_of_a_tool_back() -> None:
    ran = list[int]()
    places = [1, 3, 2, 6, 4, 5]
    turns = (*(call("order", at=at) for at in places), answer("Done."), answer("Done."))
    Watched(turns, retried(1, ran)).run(lambda it: it)
    assert ran == places


def test_a_required_tool_without_retries_left_cannot_succeed() -> None:
    ran = list[int]()
    turns = (call("order", at=1), *[answer("All parcels leave tomorrow.")] * 4)
    watched = Watched(turns, retried(0, ran))
    result = watched.run(lambda it: it.with_required_tools("order"))
    assert (result.status, ran) == ("partial", [1])
    assert "the required tool order (it failed 1 time in a row)" in result.reason


def test_a_tool_without_retries_left_is_not_asked_for_again() -> None:
    watched = Watched(
        (call("order", at=1), answer("It is on its way."), answer("It failed.")), retried(0, [])
    )
    watched.run(lambda it: it)
    told = watched.llm.requests[-1].messages[-1].content
    assert "The call of order did not work. Say so in the answer." in told
    assert "Call it again" not in told


@pytest.mark.parametrize("retries", [-1, 1.5, True, "2"])
def test_retries_are_a_whole_number(retries: Any) -> None:
    with pytest.raises(ToolDefinitionError, match=r"has retries=.*: give it a whole number, 0 or more"):
        tool(name="order", retries=retries)(lambda: None)


def test_a_tool_that_delivers_is_never_refused() -> None:
    script = (*(call("report", text=f"draft {number}") for number in range(3)), answer("Done."))
    watched = Watched(script)
    assert watched.run(lambda it: it.with_budget(calls={"report": 1})).status == "completed"
    assert watched.ran == ["report"] * 3


def test_an_optional_tool_that_delivers_is_named_beside_the_answer() -> None:
    watched = Watched((call("search", topic=0), call("search", topic=1), answer("Done.")))
    watched.run(lambda it: it.with_budget(calls={"search": 1}))
    refusal = watched.llm.requests[2].messages[-1].content
    assert "the budget of 1 call for search is used up" in refusal
    assert "final-answer" in refusal
    assert "report" in refusal


# --- budgets of the run ---------------------------------------------------------------------------------


def test_spent_tokens_end_the_run_with_what_it_has() -> None:
    spending = Usage(60, 40, 100)
    thinking = [
        calls(call("search", topic=topic), text=f"So far {topic}.", usage=spending) for topic in range(5)
    ]
    watched = Watched((*thinking, say("Done.")))
    result = watched.run(lambda it: it.with_budget(tokens=200))
    assert (result.status, result.output) == ("partial", "So far 1.")
    assert result.metadata.terminated_by == "budget"
    assert result.reason == "200 tokens were used, the budget was 200. Missing: a final answer."
    assert len(watched.llm.requests) == 2


def test_spent_dollars_end_the_run() -> None:
    watched = Watched(tuple(call("search", topic=topic, cost_usd=0.06) for topic in range(5)))
    result = watched.run(lambda it: it.with_required_tools("report").with_budget(cost_usd=0.1))
    assert (result.status, result.metadata.terminated_by) == ("partial", "budget")
    assert result.reason.startswith("$0.1200 was spent, the budget was $0.1000. Missing: required calls")


def test_an_answer_within_the_last_tokens_still_counts() -> None:
    watched = Watched((answer("Done.", usage=Usage(500, 500, 1000)),))
    assert watched.run(lambda it: it.with_budget(tokens=10)).status == "completed"


@pytest.mark.parametrize("answer", [say("Early."), call("final-answer", answer="Early.")])
def test_an_answer_is_not_turned_down_for_a_turn_that_cannot_be_paid(answer: Turn) -> None:
    watched = Watched((answer,))
    result = watched.run(lambda it: it.with_required_tools("search").with_budget(tokens=1))
    assert (result.status, result.output) == ("partial", "Early.")
    assert result.reason == "Missing: required calls: search (0 of 1 calls done)."
    assert watched.policies() == ["progress"]


def test_an_empty_reply_with_the_last_tokens_is_not_asked_about() -> None:
    watched = Watched((say(""), say("Done.")))
    result = watched.run(lambda it: it.with_budget(tokens=1))
    assert (result.status, result.metadata.terminated_by) == ("partial", "budget")
    assert len(watched.llm.requests) == 1


def test_the_wall_clock_ends_the_run_too() -> None:
    async def dawdle() -> str:
        await asyncio.sleep(5)
        return "late"

    watched = Watched((call("dawdle"), say("Done.")), dawdle)
    result = watched.run(lambda it: it.with_required_tools("dawdle").with_timeout(run=0.1))
    assert (result.status, result.metadata.terminated_by) == ("partial", "deadline")
    assert "required calls: dawdle (0 of 1 calls done)" in result.reason


# --- novelty and the change of phase --------------------------------------------------------------------


def gather(*topics: int) -> list[Turn]:
    return [call("search", topic=topic) for topic in topics]


def test_results_with_little_new_call_for_delivery_with_the_figure() -> None:
    script = (*gather(0, 1, 2, 3, 5), answer("Done."))  # topic 5 is topic 0 once more
    watched = Watched(script)
    assert watched.run().status == "completed"
    assert watched.policies() == ["diminishing_returns"]
    assert "0% new information" in watched.said(5)
    assert "Do not gather more. Call final-answer with the answer." in watched.said(5)


PAGE = " ".join(TOPICS)


def read_all(task: str, *turns: Turn) -> tuple[AgentResult, list[str]]:
    def read_note(path: str) -> str:
        """Read a note."""
        return f"{PAGE} in Rome" if "6" in path else PAGE

    def list_notes(folder: str) -> str:
        """List the notes of a folder."""
        return "alto bero calo dano"

    def search_notes(query: str) -> str:
        """Search the notes."""
        return PAGE

    watched = Watched(turns, read_note, list_notes, search_notes)
    return watched.run(task=task), watched.policies()


@pytest.mark.parametrize(
    "task",
    [
        "Read all notes in the folder notes and tell me which one mentions Rome.",
        "Read the notes 1, 2, 3, 4, 5 and 6 and tell me which one mentions Rome.",
        "Which of the notes 1 to 6 mentions Rome?",
        "Welche der Notizen 1 bis 6 erwähnt Rom?",
        "Lis chaque note du dossier notes : laquelle parle de Rome ?",
    ],
)
def test_things_of_one_kind_that_a_task_goes_through_are_not_called_enough(task: str) -> None:
    reads = [call("read_note", path=f"n0{number}.md") for number in range(1, 7)]
    result, asked = read_all(task, *reads, answer("Note 6 mentions Rome."))
    assert (result.status, "diminishing_returns" in asked) == ("completed", False)


def test_names_that_a_result_has_listed_are_gone_through_too() -> None:
    listed = call("list_notes", folder="notes")
    reads = [call("read_note", path=name) for name in ("alto", "bero", "calo")]
    _, asked = read_all(
        "Read every note and sum them up.", listed, *reads, answer("All of them are on animals.")
    )
    assert "diminishing_returns" not in asked


@pytest.mark.parametrize(
    ("task", "calls"),
    [
        ("What do the notes say on lions?", [call("read_note", path=f"n0{n}.md") for n in (1, 2, 3)]),
        (
            "Find all there is on lions.",
            [
                call("search_notes", query=query)
                for query in ("hunting lions", "lions at dusk", "groups of lions")
            ],
        ),
    ],
)
def test_searches_that_bring_nothing_new_are_called_enough(task: str, calls: list[Turn]) -> None:
    _, asked = read_all(task, *calls, answer("Lions hunt in groups at dusk."))
    assert "diminishing_returns" in asked


def test_the_tool_that_delivers_is_named_when_it_is_required() -> None:
    script = (*gather(0, 1, 2, 3, 5), call("report", text="animals"), answer("Done."))
    watched = Watched(script)
    result = watched.run(lambda it: it.with_required_tools("report"))
    assert result.status == "completed"
    assert "0% new information" in watched.said(5)
    assert "Call report to produce the output." in watched.said(5)


def test_with_calls_still_required_little_new_is_said_without_a_word_of_enough() -> None:
    script = (*gather(0, 1, 2, 3, 5, 4), answer("Done."))
    watched = Watched(script)
    assert watched.run(lambda it: it.with_required_tools(min_calls={"search": 6})).status == "completed"
    assert "0% new information" in watched.said(5)
    assert "sufficient" not in watched.said(5)
    assert "search (5 of 6 calls done)" in watched.said(5)


def test_once_all_is_gathered_the_model_is_told_to_deliver_instead_of_its_progress() -> None:
    script = (*gather(0, 1), call("report", text="animals"), answer("Done."))
    watched = Watched(script)
    result = watched.run(lambda it: it.with_required_tools("report", min_calls={"search": 2}))
    assert result.status == "completed"
    assert watched.policies() == ["progress", "progress", "synthesis"]
    assert "report, search (2 calls)" in watched.said(0)
    assert "Still required: report (0 of 1 calls done); search (1 of 2 calls done)." in watched.said(1)
    assert watched.said(2).endswith("- What was required is gathered. Call report to produce the output.")


def test_what_delivers_comes_after_what_it_needs() -> None:
    early = calls(call("search", topic=0), call("report", text="nothing"))
    watched = Watched((early, call("report", text="animals"), answer("Done.")))
    result = watched.run(lambda it: it.with_required_tools("search", "report"))
    assert result.status == "completed"
    assert watched.ran == ["search", "report"]
    refusal = next(
        step.content for step in result.steps if step.type == "observation" and "Not run" in step.content
    )
    assert "still required first: search (0 of 1 calls done)" in refusal


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("The lamp costs 88.75 euros.", True),
        ("A bird flew over seven hills yesterday.", True),
        ("A report on the animals is on its way.", False),
    ],
)
def test_a_sender_with_what_was_not_found_yet_comes_after_what_it_needs(text: str, refused: bool) -> None:
    sent: list[str] = []

    @tool(risk="medium")
    def send(text: str) -> str:
        """Send a text."""
        sent.append(text)
        return "sent"

    later = (call("search", topic=0), call("send", text=TOPICS[0]), answer("Done."))
    watched = Watched((call("send", text=text), *later))
    result = watched.run(lambda it: it.with_tools(send).with_required_tools("send", "search"))
    refusals = [step for step in result.steps if "Not run: it has an effect" in step.content]
    assert (len(refusals), text in sent) == (int(refused), not refused)
    assert result.status == "completed"
    assert watched.ran.count("search") == 1


def test_what_delivers_may_come_first_if_the_model_insists() -> None:
    script = (call("report", text="a"), call("report", text="a"), call("search", topic=0), answer("Done."))
    watched = Watched(script)
    result = watched.run(lambda it: it.with_required_tools("search", "report"))
    assert result.status == "completed"
    assert watched.ran == ["report", "search"]


# --- circles --------------------------------------------------------------------------------------------


def test_the_same_call_again_gets_the_stored_result_then_ends_the_run() -> None:
    watched = Watched((forever(call("search", topic=0)),))
    result = watched.run()
    assert watched.ran == ["search"]
    assert watched.origins() == ["executed", "stored", "stored", "stored"]
    assert "made before" in watched.said(2)
    assert "nothing new" in watched.said(3)
    assert (result.status, result.metadata.terminated_by) == ("partial", "loop_detection")
    assert result.reason.endswith("Missing: a final answer.")


def test_calls_by_turns_that_bring_nothing_new_end_the_run_too() -> None:
    watched = Watched(tuple(call("search", topic=number % 2) for number in range(12)))
    result = watched.run()
    assert watched.ran == ["search"] * 2
    assert result.metadata.terminated_by == "loop_detection"
    assert len(watched.llm.requests) == 5


def test_a_call_made_before_beside_a_new_one_is_pointed_out_but_is_no_circle() -> None:
    again = [calls(call("search", topic=0), call("search", topic=topic)) for topic in range(1, 5)]
    watched = Watched((call("search", topic=0), *again, answer("Done.")))
    assert watched.run().status == "completed"
    assert watched.ran == ["search"] * 5
    assert "made before" in watched.said(2)


def test_a_poll_that_fails_first_is_run_again() -> None:
    tried = 0

    async def poll(job: str) -> str:
        nonlocal tried
        tried += 1
        if tried < 4:
            raise ValueError("not ready")
        return "ready"

    watched = Watched((*[call("poll", job="a")] * 4, say("It is ready.")), poll)
    result = watched.run()
    assert (result.status, tried) == ("completed", 4)


def test_after_a_change_a_call_is_run_again() -> None:
    content = "old"

    async def read() -> str:
        return content

    @tool(risk="medium")
    async def edit(text: str) -> str:
        nonlocal content
        content = text
        return "edited"

    script = (call("read"), call("edit", text="new"), call("read"), answer("Done."))
    watched = Watched(script, read, edit)
    assert watched.run().status == "completed"
    assert watched.origins() == ["executed"] * 3
    assert "new" in watched.llm.requests[3].messages[-1].content


def test_what_was_read_beside_a_change_is_read_again() -> None:
    content = "old"

    async def read() -> str:
        return content

    @tool(risk="medium")
    async def edit(text: str) -> str:
        nonlocal content
        await asyncio.sleep(0)
        content = text
        return "edited"

    script = (calls(call("edit", text="new"), call("read")), call("read"), answer("Done."))
    watched = Watched(script, read, edit)
    assert watched.run().status == "completed"
    assert watched.origins() == ["executed"] * 3
    assert watched.llm.requests[2].messages[-1].content == "new"


def test_delivering_the_same_over_and_over_ends_the_run() -> None:
    watched = Watched((forever(call("report", text="animals")),))
    result = watched.run()
    assert result.metadata.terminated_by == "loop_detection"
    assert watched.ran == ["report"] * 2


@pytest.mark.parametrize("answer", [say("Animals live."), call("final-answer", answer="Animals live.")])
def test_the_same_answer_again_ends_the_run(answer: Turn) -> None:
    watched = Watched((forever(answer),))
    result = watched.run(lambda it: it.with_required_tools("search"))
    assert (result.status, result.output) == ("partial", "Animals live.")
    assert result.metadata.terminated_by == "loop_detection"
    assert result.reason.endswith("Missing: required calls: search (0 of 1 calls done).")
    assert len(watched.llm.requests) == 4


def test_answers_by_turns_end_the_run_too() -> None:
    watched = Watched(tuple(say(f"Answer {number % 2}.") for number in range(12)))
    result = watched.run(lambda it: it.with_required_tools("search"))
    assert result.metadata.terminated_by == "loop_detection"
    assert len(watched.llm.requests) == 5


def test_an_early_answer_may_be_given_again_once_it_rests_on_the_required_tool() -> None:
    script = (say("Whales sing."), *gather(1, 1, 1), say("Whales sing."))
    watched = Watched(script)
    result = watched.run(lambda it: it.with_required_tools("search"))
    assert (result.status, result.output) == ("completed", "Whales sing.")


# --- the offline model ----------------------------------------------------------------------------------


def offline(folder: Path) -> ReactiveAgents:
    (folder / "animals.md").write_text("# Animals\n\nWhales sing songs under water.\n", encoding="utf-8")
    return (
        ReactiveAgents.create()
        .with_model("offline")
        .with_reasoning()
        .with_tools("file-search", "file-read", "calculator")
        .with_workspace(folder)
    )


def test_the_offline_model_meets_what_it_calls_by_itself(tmp_path: Path) -> None:
    result = offline(tmp_path).with_required_tools("file-search").build().run_sync("Do whales sing songs?")
    assert (result.status, result.metadata.terminated_by) == ("completed", "final_answer")
    assert "Whales sing songs" in (result.output or "")


def test_the_offline_model_without_a_required_tool_ends_partial_and_soon(tmp_path: Path) -> None:
    result = offline(tmp_path).with_required_tools("calculator").build().run_sync("Do whales sing songs?")
    assert result.status == "partial"
    assert "calculator (0 of 1 calls done)" in result.reason
    assert "Whales sing songs" in (result.output or "")


def test_the_offline_model_runs_out_of_tokens(tmp_path: Path) -> None:
    result = offline(tmp_path).with_budget(tokens=1).build().run_sync("Do whales sing songs?")
    assert (result.status, result.metadata.terminated_by) == ("partial", "budget")


def test_the_offline_model_makes_one_call_a_turn_in_sequential_mode(tmp_path: Path) -> None:
    agent = offline(tmp_path).with_reasoning(parallel_tool_calls=False).build()
    recorder = EventRecorder()
    agent.subscribe(recorder)
    result = agent.run_sync("Do whales sing songs, and what is 2 * 3?")
    assert result.status == "completed"
    assert {event.origin for event in recorder.of(ToolCallCompleted)} == {"executed"}


def test_a_volatile_tool_is_run_each_time() -> None:
    states = iter(["pending", "pending", "pending", "pending", "ready"])

    @tool(volatile=True)
    async def poll(job: int) -> str:
        """How far a job is."""
        return next(states)

    llm = ScriptedLLM(*(call("poll", job=1) for _ in range(5)), say("It is ready."))
    result = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(poll).build().run_sync("Wait.")
    assert (result.status, result.output) == ("completed", "It is ready.")
    assert [step.content for step in result.steps if step.type == "observation"][-1] == "ready"
