"""Runs that find their task impossible end as ``abstained``, and everything that shows a run knows it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from reactive_agents import ReactiveAgents, agent_tool, tool
from reactive_agents.adapters.governance.audit_log import read_entries
from reactive_agents.core.events import TaskCompleted
from reactive_agents.core.results import Deliverable
from reactive_agents.kernel.toolset import COULD_NOT, FINAL_ANSWER_TOOL
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, answer, call, calls, say

WHY = "There is no price list for 2031; the list of that year would be needed."


def gives_up(text: str = "I cannot tell.", why: object = WHY) -> Turn:
    return call("final-answer", answer=text, could_not=why)


@tool
def price(item: str) -> str:
    """Look up a price."""
    raise LookupError(f"the catalogue of 2031 has not been published, so {item} is unknown")


def agent(*turns: Turn, using: Any = price) -> ReactiveAgents:
    return ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_tools(using).with_reasoning()


def test_the_model_may_say_that_the_task_cannot_be_done() -> None:
    result = agent(gives_up()).build().run_sync("What will a lamp cost?")
    assert (result.status, result.success, result.output) == ("abstained", False, "I cannot tell.")
    assert result.reason == f"It could not be done: {WHY}"
    assert result.metadata.terminated_by == "abstention"


def test_the_reason_alone_is_enough() -> None:
    result = agent(call("final-answer", could_not=WHY)).build().run_sync("What will a lamp cost?")
    assert (result.status, result.output) == ("abstained", WHY)


def test_the_reason_alone_is_enough_in_the_words_of_a_result() -> None:
    def order(item: str) -> str:
        """Order something."""
        return "The warehouse is down."

    turns = [call("order", item="lamp"), call("final-answer", could_not="The warehouse is down.")]
    result = agent(*turns, using=order).build().run_sync("Order a lamp.")
    assert (result.status, result.output) == ("abstained", "The warehouse is down.")


@pytest.mark.parametrize(
    ("text", "status"), [("A lamp costs 3 euros.", "completed"), ("I cannot tell.", "abstained")]
)
def test_an_answer_that_is_given_as_the_reason_too_is_judged_by_its_words(text: str, status: str) -> None:
    def cost(item: str) -> str:
        """Look up a price."""
        return f"A {item} costs 3 euros."

    turns = [call("cost", item="lamp"), gives_up(text, text)]
    result = agent(*turns, using=cost).build().run_sync("What does a lamp cost?")
    assert (result.status, result.output) == (status, text)


@pytest.mark.parametrize("placeholder", ["", "none", "N/A", "not applicable", None, False])
def test_a_placeholder_is_no_reason(placeholder: object) -> None:
    result = agent(gives_up("It is 3.", placeholder)).build().run_sync("What is 1 + 2?")
    assert (result.status, result.output) == ("completed", "It is 3.")


def test_a_required_tool_is_tried_first() -> None:
    llm = ScriptedLLM(gives_up(), call("price", item="lamp"), gives_up(), gives_up())
    builder = ReactiveAgents.create().with_llm(llm).with_tools(price).with_reasoning()
    result = builder.with_required_tools("price").build().run_sync("What will a lamp cost?")
    assert result.status == "abstained"
    assert "Not tried: price (0 of 1 calls done)" in llm.requests[1].messages[-1].content
    assert result.reason == f"It could not be done: {WHY} Needed: a call of price that works."


def test_the_model_is_asked_why_and_what_is_needed() -> None:
    said = json.loads(json.dumps(FINAL_ANSWER_TOOL.parameters))["properties"][COULD_NOT]
    assert "why" in said["description"]
    assert "needed" in said["description"]


def test_an_answer_that_repeats_the_error_of_a_required_tool_is_one() -> None:
    said = say("The catalogue of 2031 has not been published.")
    again = (call("price", item="lamp"), said, call("price", item="a lamp"), said)
    result = agent(*again).with_required_tools("price").build().run_sync("What will a lamp cost?")
    assert (result.status, result.output) == ("abstained", "The catalogue of 2031 has not been published.")
    assert "the catalogue of 2031 has not been published" in result.reason
    assert result.reason.endswith(". Needed: a call of price that works.")


def test_an_answer_of_something_else_is_not() -> None:
    said = answer("A lamp costs 30 euros.")
    turns = (call("price", item="lamp"), *[said] * 9)
    result = agent(*turns).with_required_tools("price").build().run_sync("What will a lamp cost?")
    assert result.status == "partial"


@pytest.mark.parametrize("strategy", ["tree-of-thought", "reflexion"])
def test_strategies_of_several_passes_end_with_it(strategy: str) -> None:
    thoughts = say(json.dumps({"thoughts": ["Read."]}))
    scores = say(json.dumps({"scores": [{"candidate": 1, "reason": "", "score": 1.0}]}))
    fine = say(json.dumps({"issues": [], "score": 0.9, "satisfied": True}))
    turns: dict[str, tuple[Turn, ...]] = {
        "tree-of-thought": (thoughts, scores, gives_up()),
        "reflexion": (gives_up(), fine),
    }
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns[strategy])).with_tools(price)
    options = {"strategies": {"tree_of_thought": {"depth": 1}}}
    result = builder.with_reasoning(strategy, **options).build().run_sync("What will a lamp cost?")
    assert (result.status, result.output) == ("abstained", "I cannot tell.")
    assert WHY in result.reason


# --- what shows it --------------------------------------------------------------------------------------


@frozen
class Price:
    euros: float


def test_structured_output_has_no_value_then() -> None:
    result = agent(gives_up('{"euros": 3.0}')).with_output_type(Price).build().run_sync("What will it cost?")
    assert (result.status, result.output, result.text) == ("abstained", None, '{"euros": 3.0}')


def test_it_is_not_verified_and_nothing_is_raised() -> None:
    builder = agent(gives_up()).with_verification(action="fail")
    result = builder.build().run_sync("What will a lamp cost?")
    assert (result.status, result.verification) == ("abstained", None)


def test_the_event_and_the_audit_log_have_it(tmp_path: Path) -> None:
    recorder = EventRecorder()
    built = agent(gives_up()).with_audit(tmp_path / "audit.db").build()
    built.subscribe(recorder)
    built.run_sync("What will a lamp cost?")
    (completed,) = recorder.of(TaskCompleted)
    assert completed.result.status == "abstained"
    entry = [each.entry for each in read_entries(tmp_path / "audit.db").unwrap()][-1]
    assert entry.status == "abstained"


def test_an_agent_that_asked_it_is_told_the_reason() -> None:
    inner = agent(gives_up()).with_name("prices").build()
    outer = ScriptedLLM(call("prices", task="The price of a lamp in 2031?"), say("There is none."))
    tools = agent_tool(inner, description="Knows prices.")
    ReactiveAgents.create().with_llm(outer).with_tools(tools).build().run_sync("What will it cost?")
    assert (
        outer.requests[1]
        .messages[-1]
        .content.startswith(f"The tool 'prices' failed: It could not be done: {WHY}")
    )


# --- deliverables ---------------------------------------------------------------------------------------


@tool(output=True)
def write_note(path: str, text: str) -> str:
    """Write a note."""
    if not text:
        raise ValueError("no text")
    return f"wrote {path}"


ENDS: dict[str, tuple[Turn, ...]] = {
    "completed": (answer("Done: wrote a.txt."),),
    "abstained": (gives_up(), gives_up()),  # after a failed call it is asked once more
    "partial": (call("write_note", path="c.txt", text=""),) * 3,
}


@pytest.mark.parametrize("status", ENDS)
def test_a_result_lists_what_the_run_produced(status: str) -> None:
    turns = (call("write_note", path="a.txt", text="1"), call("write_note", path="b.txt", text=""))
    turns = turns[::-1] if status == "completed" else turns
    limit: Callable[[ReactiveAgents], ReactiveAgents] = lambda each: each.with_max_iterations(5)  # noqa: E731
    result = limit(agent(*turns, *ENDS[status], using=write_note)).build().run_sync("Write notes.")
    assert result.status == status
    action = next(step for step in result.steps if step.type == "action" and "a.txt" in step.content)
    assert action.metadata is not None
    assert action.metadata.call_id is not None
    (delivered,) = result.deliverables
    digest = hashlib.sha256(action.content.encode()).hexdigest()
    assert delivered == Deliverable("write_note", action.metadata.call_id, digest, "a.txt", "write_note-1")


def test_tools_that_only_read_produce_nothing() -> None:
    @tool
    def look(path: str) -> str:
        """Look at a file."""
        return "empty"

    turns = (call("look", path="a.txt"), answer("It is empty."))
    assert agent(*turns, using=look).build().run_sync("What is in a.txt?").deliverables == ()


def tool_of(name: str, description: str, *returns: str | Exception) -> Callable[..., str]:
    """Return a function that plays what it returns or raises."""
    left = list(returns)

    def function(what: str = "") -> str:
        now = left.pop(0)
        if isinstance(now, Exception):
            raise now
        return now

    function.__name__, function.__doc__ = name, description
    return function


GONE = LookupError("no such file: old.log")
DELETE = ("delete_file", "Delete a file.", GONE)
LISTED = ("list_files", "List the files of a folder.", "a.log b.log")
SQL = ("execute_sql", "Execute an SQL statement against the database.", "42", ValueError("syntax error"))
SHELL = ("shell", "Run a command.", "removed old.log")
ZAP = ("zap", "", "zapped old.log")
WRITE = ("write_file", "Write a file.", "wrote a.txt")
VERIFY = ("verify", "Verify a file.", ValueError("no checksum"))
REFUND = ("refund", "Refund an order.", "refunded order 7")
NOTIFY = ("notify", "Notify the customer of an order.", ValueError("no address"))
EMAIL = ("send_mail", "Send an email.", ValueError("no address"))
CANCEL = "Cancel order 7 and mail Ana that it is cancelled."
CANCELLATION = ("order_cancellation", "Cancel an order.", ValueError("the shop is closed"))
CANCEL_ALL = ("cancel_all", "Cancel the open orders.", "1 order")
MAIL = ("send_mail", "Send an email.", "sent")
MAIL_OF_IT = ("send_mail", "Send an email.", "sent; order 7 is cancelled")
HAIKU = ("haiku", "Write a haiku.", ValueError("no muse"))
SCRAPE = ("scrape", "Scrape an article.", GONE)
MIRROR = ("mirror", "Mirror an article.", GONE)
IF_GONE = "Delete old.log. If it does not exist, say so."
IF_GONE_DE = "Lösche old.log. Wenn es die Datei nicht gibt, sag es."
BEES = "Bees dance to tell where flowers are."
FETCH = ("fetch", "Fetch a page.", BEES)


@pytest.mark.parametrize(
    ("task", "tools", "said", "status"),
    [
        (IF_GONE, (LISTED, DELETE), "There is no such file.", "completed"),
        (IF_GONE_DE, (LISTED, DELETE), "old.log gibt es nicht.", "completed"),
        (IF_GONE, (LISTED, DELETE), "I deleted old.log.", "partial"),
        ("Count the customers in the database.", (SQL, SQL), "There are 42 customers.", "completed"),
        ("Delete the file old.log.", (DELETE, SHELL), "It is removed.", "completed"),
        ("Delete the file old.log.", (DELETE, ZAP), "It is zapped.", "completed"),
        ("Delete the file old.log.", (DELETE, LISTED), "I deleted it; a.log and b.log are left.", "partial"),
        ("Summarise the article on bees.", (SCRAPE, FETCH), BEES, "completed"),
        ("Fasse den Artikel zusammen.", (MIRROR, FETCH), BEES, "completed"),
        ("Write a.txt and verify it.", (WRITE, VERIFY), "It is written; no checksum.", "completed"),
        ("Refund order 7.", (REFUND, NOTIFY), "Order 7 is refunded; there is no address.", "completed"),
        ("Refund order 7 and notify me.", (REFUND, NOTIFY), "Order 7 is refunded.", "partial"),
        ("Refund order 7, with an email to me.", (REFUND, EMAIL), "Order 7 is refunded.", "partial"),
        (CANCEL, (CANCELLATION, MAIL), "Order 7 is cancelled, and Ana was told.", "partial"),
        (CANCEL, (MAIL, CANCELLATION), "Order 7 is cancelled, and Ana was told.", "partial"),
        (CANCEL, (CANCELLATION, MAIL_OF_IT), "Order 7 is cancelled, and Ana was told.", "completed"),
        (CANCEL, (CANCELLATION, CANCEL_ALL, MAIL), "Order 7 is cancelled, and Ana was told.", "completed"),
        (CANCEL, (CANCELLATION, ZAP, MAIL), "Order 7 is cancelled, and Ana was told.", "completed"),
        ("Cancel order 7.", (CANCELLATION, MAIL), "The shop was asked to cancel order 7.", "completed"),
        ("Write a haiku and send it to Ana.", (HAIKU, MAIL), "Ana has the haiku.", "completed"),
        ("Supprime old.log ; s'il n'existe pas, dis-le.", (DELETE,), "old.log n'existe pas.", "completed"),
        ("删除文件 old.log,如果不存在请告诉我。", (DELETE,), "文件 old.log 不存在。", "completed"),
    ],
)
def test_a_failure_that_leaves_nothing_undone_is_no_partial_run(
    task: str, tools: tuple[tuple[Any, ...], ...], said: str, status: str
) -> None:
    made = {each[0]: tool_of(*each) for each in tools}
    turns = [call(each[0], what=f"{number} old.log") for number, each in enumerate(tools)]
    script = ScriptedLLM(*turns, *(answer(said) for _ in range(3)))
    built = ReactiveAgents.create().with_llm(script).with_tools(*made.values()).with_reasoning().build()
    result = built.run_sync(task)
    assert result.status == status, result.reason


@pytest.mark.parametrize("failing", [1, 2, 3])
@pytest.mark.parametrize("said", ["Done.", "The orders 1 to 3 are refunded.", "One of them is closed."])
def test_a_call_that_failed_beside_others_of_its_tool_leaves_its_act_undone(failing: int, said: str) -> None:
    """Wherever it stands in its turn: what was made beside it does not stand for it."""

    @tool(risk="medium")
    def refund(order: int) -> str:
        """Refund an order."""
        if order == failing and failing not in tried:
            tried.append(order)
            raise ValueError("the order is closed")
        return f"order {order} is refunded"

    def run(*turns: Turn) -> Any:
        tried.clear()
        turn = calls(*(call("refund", order=each) for each in (1, 2, 3)))
        return agent(turn, *turns, *[answer(said)] * 3, using=refund).build().run_sync("Refund 1, 2 and 3.")

    tried: list[int] = []
    result = run()
    assert (result.status, result.output) == ("partial", said)
    assert run(call("refund", order=failing)).status == "completed"
