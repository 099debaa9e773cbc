"""Tools whose functions ask a person in the middle of a call, also over the end of their process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.from_thread
import anyio.lowlevel
import httpx
import pytest
from dependency_injector import providers
from returns.maybe import Some

from reactive_agents import (
    AgentError,
    ModelRetry,
    ReactiveAgent,
    ReactiveAgents,
    RunContext,
    ToolCall,
    ToolResult,
    tool,
)
from reactive_agents.core import events
from reactive_agents.core.governance import QuestionRequest
from reactive_agents.core.ids import RunId
from reactive_agents.effects import attempt
from reactive_agents.server import create_app
from reactive_agents.testing import (
    EventRecorder,
    RecordingAuditLog,
    ScriptedLLM,
    answer,
    call,
    calls,
    forever,
)
from tests.support.servers import asking
from tests.support.virtual_time import in_virtual_time
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

BOOK = call("book", city="Rome")
HOTELS = ("Ritz", "Inn")


@tool
async def book(ctx: RunContext, city: str) -> str:
    """Book a hotel."""
    hotel = await ctx.ask_user(f"Which hotel in {city}?", HOTELS)
    nights = await ctx.ask_user(f"How many nights in {hotel}?")
    return f"{nights} nights in {hotel}"


@tool
def book_in_thread(ctx: RunContext, city: str) -> str:
    """Book a hotel."""
    hotel = anyio.from_thread.run(ctx.ask_user, f"Which hotel in {city}?", HOTELS)
    return f"one night in {hotel}"


def described(*tools: Any, turns: tuple[Any, ...] = (BOOK,)) -> ReactiveAgents:
    llm = ScriptedLLM(*turns, forever(answer("It is as you said.")))
    return ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(*tools)


def observed(result: Any) -> list[str]:
    return [step.content for step in result.steps if step.type == "observation"]


def answering(agent: ReactiveAgent, *texts: str) -> list[events.QuestionAsked]:
    """Answer the next questions with these texts, as soon as they are asked."""
    asked, given = list[events.QuestionAsked](), list(texts)

    def settle(event: events.AgentEvent) -> None:
        if isinstance(event, events.QuestionAsked):
            asked.append(event)
            if given:
                agent.answer(event.run_id, event.question_id, given.pop(0)).unwrap()

    agent.subscribe(settle)
    return asked


async def test_a_tool_asks_in_its_middle_and_goes_on_with_the_answers() -> None:
    agent = described(book).build()
    asked, recorder = answering(agent, "Inn", "3"), EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run("Book.")
    assert observed(result) == ["3 nights in Inn"]
    assert [(each.text, each.options) for each in asked] == [
        ("Which hotel in Rome?", HOTELS),
        ("How many nights in Inn?", ()),
    ]
    assert len({each.question_id for each in asked}) == 2
    (called,) = recorder.of(events.ToolCallStarted)
    assert {each.call_id for each in asked} == {called.call_id}
    assert [each.answer for each in recorder.of(events.QuestionAnswered)] == ["Inn", "3"]
    assert (result.metadata.requests, agent.pending_questions()) == (2, ())


async def test_a_plain_function_asks_from_its_thread_and_a_handler_answers() -> None:
    def cheaper(question: QuestionRequest) -> str:
        return question.options[-1]

    agent = described(book_in_thread, turns=(call("book_in_thread", city="Rome"),))
    result = await agent.with_ask_user(cheaper).build().run("Book.")
    assert observed(result) == ["one night in Inn"]


async def test_calls_beside_each_other_ask_each_by_itself() -> None:
    agent = described(book, turns=(calls(BOOK, call("book", city="Oslo")),)).build()
    answers = {"Rome": "Inn", "Oslo": "Ritz", "Inn": "1", "Ritz": "2"}

    async def people() -> None:
        for _ in range(4):
            await until(agent.pending_questions)
            question = agent.pending_questions()[-1]
            given = next(text for word, text in answers.items() if word in question.text)
            agent.answer(question.run_id, question.question_id, given).unwrap()

    results: list[Any] = []
    async with anyio.create_task_group() as group:
        group.start_soon(people)
        results.append(await agent.run("Book."))
    assert observed(results[0]) == ["1 nights in Inn", "2 nights in Ritz"]


@in_virtual_time
async def test_the_time_of_the_tool_stands_still_while_it_asks() -> None:
    @tool(timeout_s=10)
    async def brief(ctx: RunContext) -> str:
        """Ask."""
        return await ctx.ask_user("Now?")

    agent = described(brief, turns=(call("brief"),)).build()

    async def late() -> None:
        await until(agent.pending_questions)
        await anyio.sleep(50)
        (question,) = agent.pending_questions()
        agent.answer(question.run_id, question.question_id, "yes").unwrap()

    results: list[Any] = []
    async with anyio.create_task_group() as group:
        group.start_soon(late)
        results.append(await agent.run("Ask."))
    assert observed(results[0]) == ["yes"]


@in_virtual_time
async def test_without_an_answer_the_call_fails_with_the_reason_unless_the_tool_goes_on() -> None:
    @tool
    async def careful(ctx: RunContext) -> str:
        """Ask, or take the first."""
        try:
            return await ctx.ask_user("Which?")
        except ModelRetry:
            return "the first"

    agent = described(book, careful, turns=(calls(BOOK, call("careful")),)).with_timeout(answer=30).build()
    failed, went_on, *_ = observed(await agent.run("Book."))
    assert failed == (
        "The tool 'book' failed: Its question was not answered: no answer came within 30 seconds. "
        "Go on without it, or say what is missing."
    )
    assert went_on == "the first"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (("",), "ValueError: ask_user: question: got '', expected a text"),
        ((7,), "TypeError: ask_user: question: got 7, expected a text"),
        (("Which?", "yes"), "TypeError: ask_user: options: got 'yes', expected a list of texts"),
        (("Which?", (1,)), "TypeError: ask_user: options: got an array of 1 item, expected a list of texts"),
    ],
)
async def test_a_question_that_is_none_is_refused(given: tuple[Any, ...], error: str) -> None:
    @tool
    async def wrong(ctx: RunContext) -> str:
        """Ask."""
        try:
            return await ctx.ask_user(*given)
        except (TypeError, ValueError) as refused:
            return f"{type(refused).__name__}: {refused}"

    assert observed(await described(wrong, turns=(call("wrong"),)).build().run("Ask.")) == [error]


async def test_only_a_call_asks_and_only_until_it_ends() -> None:
    with pytest.raises(RuntimeError, match="only a call of a tool"):
        await cast(RunContext[None], RunContext(None)).ask_user("Which?")
    kept: list[RunContext] = []

    async def rule(ctx: RunContext, arguments: Any) -> bool:
        return await ctx.ask_user("May it run?") == "no"

    @tool(requires_approval=rule)
    async def keeps(ctx: RunContext) -> str:
        """Keep the context."""
        kept.append(ctx)
        return "kept"

    agent = described(keeps, turns=(call("keeps"),)).with_approval(lambda _: True).build()
    assert observed(await agent.run("Keep.")) == ["kept"]  # the rule raised, and a person has decided
    with pytest.raises(RuntimeError, match="the call of 'keeps' has ended"):
        await kept[0].ask_user("Which?")
    assert agent.pending_questions() == ()


async def test_nobody_is_asked_any_more_when_the_run_of_a_thread_is_cancelled() -> None:
    agent = described(book_in_thread, turns=(call("book_in_thread", city="Rome"),)).build()
    async with anyio.create_task_group() as group:
        group.start_soon(agent.run, "Book.")
        await until(agent.pending_questions)
        group.cancel_scope.cancel()
    await until(lambda: not agent.pending_questions())


async def test_a_wrapper_of_tool_calls_asks_too() -> None:
    async def asks(ctx: RunContext, made: ToolCall, run: Any) -> ToolResult:
        hotel = await ctx.ask_user("Which hotel?")
        result: ToolResult = await run({**made.arguments, "city": hotel})
        return result

    agent = described(book).with_tool_wrapper(asks).build()
    asked = answering(agent, "Rome", "Inn", "2")
    assert observed(await agent.run("Book.")) == ["2 nights in Inn"]
    assert len({each.question_id for each in asked}) == 3


async def test_the_question_and_its_answer_are_in_the_audit_log() -> None:
    log = RecordingAuditLog()
    agent = described(book).build()
    agent.container.governance.audit.override(providers.Object(Some(log)))
    answering(agent, "Inn", "3")
    await agent.run("Book.")
    asked = '{"question": "Which hotel in Rome?", "options": ["Ritz", "Inn"]}'
    assert [(each.action, each.subject, each.detail) for each in log.entries[1:3]] == [
        ("request", "book", f"Question asked. The arguments: {asked}"),
        ("answer", "book", 'Answered: {"answer": "Inn"}'),
    ]


async def next_request(client: httpx.AsyncClient, run: Any, before: str) -> Any:
    """The request that a run waits for, after another one."""
    while True:
        for request in (await client.get(f"/v1/runs/{run['run_id']}")).json()["requests"]:
            if request["id"] != before:
                return request
        await anyio.sleep(0.02)


async def test_it_is_answered_over_http() -> None:
    agent = described(book).with_name("clerk").build()
    async with asking(create_app([agent])) as client:
        run = (await client.post("/v1/runs", json={"task": "Book."})).json()
        asked = ""
        for given in ("Inn", "3"):
            request = await next_request(client, run, asked)
            asked = request["id"]
            path = f"/v1/runs/{run['run_id']}/requests/{request['id']}"
            settled = await client.post(path, json={"kind": "question", "answer": given})
            assert settled.status_code == 204
        ended = (await client.get(f"/v1/runs/{run['run_id']}", params={"wait_s": 60})).json()
    assert (ended["status"], ended["output"]) == ("completed", "It is as you said.")


# --- durable runs ---------------------------------------------------------------------------------------


class Desk:
    """A tool that acts, asks, acts and asks again."""

    def __init__(self, second: str = "How many nights?") -> None:
        self.acts: list[str] = []
        self.second = second

    def agent(self, path: Path, *turns: Any, idempotent: bool = True, **durability: Any) -> ReactiveAgent:
        @tool(idempotent=idempotent)
        async def book(ctx: RunContext) -> str:
            """Book a hotel."""
            self.acts.append("begun")
            hotel = await ctx.ask_user("Which hotel?", HOTELS)
            self.acts.append(hotel)
            nights = await ctx.ask_user(self.second)
            self.acts.append(nights)
            return f"{nights} nights in {hotel}"

        builder = described(book, turns=turns)
        return builder.with_durability(path, recover=False, **durability).build()


async def interrupted(path: Path, desk: Desk, **options: Any) -> None:
    """Leave a run at the second question of its call, as a process that is shut down does."""
    first = desk.agent(path, call("book"), **options)

    async def is_asked() -> None:
        while not await first.runs.questions("r"):
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Book.", run_id="r"))
        await is_asked()
        await first.runs.answer("r", "Inn")
        await until(lambda: "Inn" in desk.acts)
        await is_asked()
        group.cancel_scope.cancel()
    await first.aclose()


async def test_an_idempotent_call_is_run_again_and_gets_the_recorded_answers(tmp_path: Path) -> None:
    desk = Desk()
    await interrupted(tmp_path / "r.db", desk)
    later = desk.agent(tmp_path / "r.db")
    (open_one,) = await later.runs.questions("r")
    assert (open_one.kind, open_one.request["text"]) == ("question", "How many nights?")
    await later.runs.answer("r", "3")
    assert observed(await later.runs.resume("r")) == ["3 nights in Inn"]  # nobody answers it there
    assert desk.acts == ["begun", "Inn", "begun", "Inn", "3"]


async def test_an_open_question_is_asked_again_by_the_next_process(tmp_path: Path) -> None:
    desk = Desk()
    await interrupted(tmp_path / "r.db", desk)
    later = desk.agent(tmp_path / "r.db")
    asked = answering(later, "3")
    assert observed(await later.runs.resume("r")) == ["3 nights in Inn"]
    assert [each.text for each in asked] == ["How many nights?"]
    assert await later.runs.questions("r") == ()


async def test_a_recorded_answer_holds_for_no_other_question(tmp_path: Path) -> None:
    desk = Desk()
    await interrupted(tmp_path / "r.db", desk)
    desk.second = "How many rooms?"
    later = desk.agent(tmp_path / "r.db")
    await later.runs.answer("r", "3")  # nights
    asked = answering(later, "4")
    assert observed(await later.runs.resume("r")) == ["4 nights in Inn"]
    assert [each.text for each in asked] == ["How many rooms?"]
    assert await later.runs.questions("r") == ()


async def test_any_other_call_is_in_doubt_and_what_it_asked_is_no_longer_open(tmp_path: Path) -> None:
    desk = Desk()
    await interrupted(tmp_path / "r.db", desk, idempotent=False)
    later = desk.agent(tmp_path / "r.db", idempotent=False)
    record = later.container.memory.record().unwrap()
    result = await later.runs.resume("r")
    entries = (await attempt(record.entries(RunId("r")))).unwrap()
    assert [json.loads(each.body)["missing"] for each in entries if each.key == "t1/q2?="] == [
        "The call is not run again."
    ]
    assert (result.status, result.metadata.terminated_by) == ("partial", "in_doubt")
    assert desk.acts == ["begun", "Inn"]


async def test_a_call_in_doubt_that_a_person_lets_run_again_gets_the_recorded_answers(tmp_path: Path) -> None:
    desk = Desk()
    await interrupted(tmp_path / "r.db", desk, idempotent=False, in_doubt="fail")
    later = desk.agent(tmp_path / "r.db", idempotent=False, in_doubt="fail")
    await later.runs.answer("r", "3")
    with pytest.raises(AgentError, match="settle it, then resume"):
        await later.runs.resume("r")
    await later.runs.approve("r")
    assert observed(await later.runs.resume("r")) == ["3 nights in Inn"]
    assert desk.acts == ["begun", "Inn", "begun", "Inn", "3"]
