"""Dependencies that a function of the program makes for each run, and closes after it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import define, field, frozen

from reactive_agents import AgentError, Personas, ReactiveAgent, ReactiveAgents, RunContext, agent_tool, tool
from reactive_agents.agent.agent import AgentResult
from reactive_agents.core.errors import InvalidConfig, RunCancelled, RunRefused
from reactive_agents.core.events import DependenciesNotClosed, TaskCompleted, TaskFailed
from reactive_agents.testing import InMemoryPersonaStore, ScriptedLLM, answer, call, forever, say
from tests.support.personas import assessed, planned

pytestmark = pytest.mark.anyio


@define
class Account:
    user: str | None
    is_open: bool = True

    def balance(self) -> str:
        assert self.is_open
        return f"{self.user} has 7"


@define
class Bank:
    """Makes accounts, and keeps those that it made."""

    made: list[Account] = field(factory=list)
    problem: type[BaseException] | None = None
    broken: str = ""

    @asynccontextmanager
    async def account_of(self, ctx: RunContext[None]) -> AsyncGenerator[Account]:
        self._fail("opening")
        async with anyio.create_task_group() as group:  # as clients of sockets have
            group.start_soon(anyio.sleep_forever)
            account = Account(ctx.user)
            self.made.append(account)
            try:
                yield account
            finally:
                account.is_open = False
                await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
                self._fail("closing")

    @contextmanager
    def plain_account_of(self, ctx: RunContext[None]) -> Generator[Account]:
        with self._threads():
            self._fail("opening")
            account = Account(ctx.user)
            self.made.append(account)
            try:
                yield account
            finally:
                account.is_open = False
                self._fail("closing")

    @contextmanager
    def _threads(self) -> Generator[None]:
        yield

    def simple_account_of(self, ctx: RunContext[None]) -> Account:
        return Account(ctx.user, is_open=True)

    def _fail(self, place: str) -> None:
        if self.broken == place:
            assert self.problem is not None
            raise self.problem("the bank is away")


def balance(ctx: RunContext[Account]) -> str:
    """Say what the user has."""
    return ctx.deps.balance()


def clerk(function: Callable[..., Any], *turns: Any, path: Path | None = None) -> ReactiveAgent[Any, Any]:
    described = ReactiveAgents.create(deps=Account).with_llm(ScriptedLLM(*turns)).with_reasoning()
    if path is not None:
        described = described.with_durability(path)
    return described.with_tools(balance).with_deps(function).build()


def turns() -> tuple[Any, ...]:
    return call("balance"), answer("Seven.")


async def test_a_function_makes_the_dependencies_of_a_run_that_is_given_none() -> None:
    bank = Bank()
    for function in (bank.account_of, bank.plain_account_of, bank.simple_account_of):
        result = await clerk(function, *turns()).run("How much?", user="ada")
        assert result.tool_results == {"balance-1": "ada has 7"}
    assert [each.is_open for each in bank.made] == [False, False]
    result = await clerk(bank.account_of, *turns()).run("How much?", user="ada", deps=Account("eve"))
    assert result.tool_results == {"balance-1": "eve has 7"}
    assert len(bank.made) == 2


async def test_a_stream_and_a_run_of_a_thread_close_what_was_opened() -> None:
    bank = Bank()
    events = [each async for each in clerk(bank.account_of, *turns()).stream("How much?")]
    assert isinstance(events[-1], TaskCompleted)
    one = clerk(bank.account_of, *turns())
    await anyio.to_thread.run_sync(lambda: one.run_sync("How much?"))
    async with aclosing(clerk(bank.account_of, *turns()).stream("How much?")) as stream:
        async for _ in stream:
            if len(bank.made) == 3:
                break
    assert [each.is_open for each in bank.made] == [False] * 3


@pytest.mark.parametrize("callers", [None, str, Account])
async def test_an_agent_that_is_a_tool_has_its_callers_dependencies_or_makes_its_own(callers: Any) -> None:
    bank, theirs = Bank(), Account("the caller")
    teller = agent_tool(clerk(bank.account_of, *turns()), name="teller")
    described = ReactiveAgents.create(deps=callers) if callers else ReactiveAgents.create()
    described = described.with_llm(ScriptedLLM(call("teller", task="How much?"), answer("Seven.")))
    agent: Any = described.with_reasoning().with_tools(teller).build()
    deps = {None: {}, str: {"deps": "text"}, Account: {"deps": theirs}}[callers]
    result = await agent.run("How much?", user="ada", **deps)
    (run,) = result.sub_runs
    whose = "the caller" if callers is Account else "ada"
    assert [each.content for each in run.steps if each.type == "observation"] == [f"{whose} has 7"]
    assert (len(bank.made), any(each.is_open for each in bank.made)) == (
        0 if callers is Account else 1,
        False,
    )


@pytest.mark.parametrize("how", ["agent", "outside", "stop"])
async def test_a_run_that_is_ended_closes_what_was_opened(how: str) -> None:
    bank = Bank()
    reached = anyio.Event()

    @tool
    async def wait(ctx: RunContext[Account]) -> None:
        """Wait."""
        reached.set()
        await anyio.sleep_forever()

    described = ReactiveAgents.create(deps=Account).with_llm(ScriptedLLM(forever(call("wait"))))
    one = described.with_reasoning().with_tools(wait).with_deps(bank.account_of).build()
    ends: list[object] = []
    one.subscribe(lambda event: ends.append(event) if isinstance(event, TaskFailed | TaskCompleted) else None)

    async def run() -> None:
        with suppress(AgentError):
            await one.run("Wait.")

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await reached.wait()
        if how == "outside":
            group.cancel_scope.cancel()
        else:
            (one.cancel if how == "agent" else one.stop)(one.running()[0])
    assert [each.is_open for each in bank.made] == [False]
    (end,) = ends
    assert isinstance(end, TaskCompleted if how == "stop" else TaskFailed)
    assert isinstance(end, TaskCompleted) or isinstance(end.error, RunCancelled)


def test_the_end_of_the_event_loop_closes_what_was_opened(caplog: pytest.LogCaptureFixture) -> None:
    bank, left = Bank(), list[object]()

    async def wait(ctx: RunContext[Account]) -> None:
        """Wait."""
        reached.set()
        await anyio.sleep_forever()

    described = ReactiveAgents.create(deps=Account).with_llm(ScriptedLLM(forever(call("wait"))))
    one = described.with_reasoning().with_tools(wait).with_deps(bank.account_of).build()

    async def main() -> None:
        left.append(asyncio.create_task(one.run("Wait.")))  # type: ignore[arg-type]
        await reached.wait()

    reached = asyncio.Event()
    asyncio.run(main())
    assert [each.is_open for each in bank.made] == [False]
    assert "could not be closed" not in caplog.text


@pytest.mark.parametrize("how", ["account_of", "plain_account_of"])
async def test_dependencies_that_cannot_be_opened_fail_the_run(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    bank = Bank(problem=ConnectionError, broken="opening")
    one = clerk(getattr(bank, how), *turns())
    with pytest.raises(AgentError) as failed:
        await one.run("How much?", run_id="r1")
    problem = f"has no dependencies: Bank.{how} raised ConnectionError"
    assert failed.value.error == RunRefused("r1", problem)
    assert "the bank is away" in caplog.text  # for the owner alone


@pytest.mark.parametrize("how", ["account_of", "plain_account_of"])
async def test_dependencies_that_cannot_be_closed_lose_no_answer(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    bank = Bank(problem=ConnectionError, broken="closing")
    events = [each async for each in clerk(getattr(bank, how), *turns()).stream("How much?")]
    assert isinstance(events[-1], TaskCompleted)
    assert events[-1].result.status == "completed"
    (told,) = [each for each in events if isinstance(each, DependenciesNotClosed)]
    assert told.function == f"Bank.{how}"
    (logged,) = [each for each in caplog.records if "could not be closed" in each.getMessage()]
    assert (logged.levelname, "the bank is away" in caplog.text) == ("WARNING", True)


async def test_a_run_that_is_cancelled_while_its_dependencies_are_opened_ends() -> None:
    begun = anyio.Event()
    left: list[str] = []

    @asynccontextmanager
    async def slow() -> AsyncGenerator[Account]:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.append("left")
        yield Account(None)

    one = clerk(slow)
    async with anyio.create_task_group() as group:

        async def run() -> None:
            with pytest.raises(AgentError) as failed:
                await one.run("How much?")
            assert isinstance(failed.value.error, RunCancelled)

        group.start_soon(run)
        await begun.wait()
        one.cancel(one.running()[0])
    assert left == ["left"]


async def test_dependencies_that_are_never_there_end_at_the_time_limit() -> None:
    async def never() -> Account:
        await anyio.sleep_forever()
        raise AssertionError

    described = ReactiveAgents.create(deps=Account).with_llm(ScriptedLLM()).with_timeout(run=0.05)
    with pytest.raises(AgentError, match=r"never did not end before the time limit of the run"):
        await described.with_deps(never).build().run("How much?")


async def test_dependencies_that_are_a_context_manager_themselves_are_not_entered() -> None:
    @frozen
    class Lock:
        entered: list[int] = field(factory=list)

        def __enter__(self) -> None:
            self.entered.append(1)

        def __exit__(self, *_: object) -> None: ...

    lock = Lock()
    described = ReactiveAgents.create(deps=Lock).with_llm(ScriptedLLM(say("Done.")))
    await described.with_deps(lambda: lock).build().run("Do it.")
    assert lock.entered == []

    @contextmanager
    def connection() -> Generator[sqlite3.Connection]:
        with closing(sqlite3.connect(":memory:", check_same_thread=False)) as opened:
            yield opened

    def count(ctx: RunContext[Any]) -> int:
        """Count."""
        assert isinstance(ctx.deps, sqlite3.Connection)
        return 1

    model = ScriptedLLM(call("count"), answer("One."))
    loose = ReactiveAgents.create(deps=object).with_llm(model).with_reasoning().with_tools(count)
    result = await loose.with_deps(connection).build().run("Count.")
    assert result.tool_results == {"count-1": "1"}


@pytest.mark.parametrize("wrong", [7, Account, lambda one, two: None])
async def test_what_is_no_function_of_dependencies_is_refused(wrong: Any) -> None:
    with pytest.raises(AgentError) as refused:
        ReactiveAgents.create(deps=Account).with_llm(ScriptedLLM()).with_deps(wrong).build()
    assert isinstance(refused.value.error, InvalidConfig)
    assert refused.value.error.option == "deps"
    with pytest.raises(AgentError, match="the agent was created without deps"):
        ReactiveAgents.create().with_llm(ScriptedLLM()).with_deps(lambda: None).build()


async def test_dependencies_of_another_type_fail_the_run() -> None:
    def seven() -> Any:
        return 7

    with pytest.raises(AgentError, match="from seven: deps: got an int, expected an Account"):
        await clerk(seven).run("How much?")


async def test_a_durable_run_is_continued_once_its_dependencies_can_be_opened(tmp_path: Path) -> None:
    bank = Bank(problem=ConnectionError, broken="opening")
    one = clerk(bank.account_of, path=tmp_path / "r.db")
    with pytest.raises(AgentError, match="raised ConnectionError"):
        await one.run("How much?", run_id="r1", user="ada")
    assert (await one.runs.find("r1")).state == "interrupted"
    bank.broken = ""
    async with clerk(bank.account_of, *turns(), path=tmp_path / "r.db") as other:  # continues it
        result: AgentResult = await other.runs.wait("r1")
    assert result.tool_results == {"balance-1": "ada has 7"}
    assert [each.is_open for each in bank.made] == [False]
    assert (await one.run("How much?", run_id="r1", user="ada")).status == "completed"
    assert len(bank.made) == 1  # a recorded result needs none


async def test_queued_and_scheduled_runs_are_given_the_dependencies_of_their_users(tmp_path: Path) -> None:
    bank = Bank()
    async with clerk(bank.account_of, *turns(), *turns(), path=tmp_path / "r.db") as one:
        for user in ("ada", "eve"):
            await one.submit("How much?", run_id=user, user=user)
            assert (await one.runs.wait(user)).tool_results == {"balance-1": f"{user} has 7"}
    replayed = await one.runs.replay("ada")
    assert replayed.difference == ""
    assert [(each.user, each.is_open) for each in bank.made] == [("ada", False), ("eve", False)]


async def test_the_runs_of_a_persona_are_given_dependencies() -> None:
    bank = Bank()
    builder = ReactiveAgents.create(deps=Account).with_reasoning().with_tools(balance)
    llm = ScriptedLLM(planned("Ask."), *turns(), assessed())
    persona = Personas.create("Mira").with_llm(llm).with_store(InMemoryPersonaStore())
    async with persona.with_domain("chat", builder.with_deps(bank.account_of)).build() as mira:
        assert (await mira.send("How much?")).answer == "Seven."
    assert [each.is_open for each in bank.made] == [False]
