"""Tools of which a rule says for each call whether a person has to approve it."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from dependency_injector.providers import Object

from reactive_agents import (
    AgentError,
    ExternalCallRequested,
    ReactiveAgent,
    ReactiveAgents,
    RunContext,
    ToolCall,
    ToolResult,
    agent_tool,
    external_tool,
    handoff,
    tool,
)
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.system import SystemClock
from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.core.events import ApprovalDecided, ApprovalRequested, ToolCallInDoubt
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest
from reactive_agents.core.ids import RunId
from reactive_agents.core.run_record import RunEntry
from reactive_agents.core.tools import RunTool
from reactive_agents.effects import attempt, effect
from reactive_agents.testing import (
    EventRecorder,
    RecordingAuditLog,
    ScriptedLLM,
    Turn,
    answer,
    call,
    calls,
    forever,
    say,
)
from tests.adapters.tools.mcp.servers import old
from tests.support.plans import plan, satisfied, tool_step
from tests.support.virtual_time import LoopClock, in_virtual_time

pytestmark = pytest.mark.anyio

refunded: list[tuple[int, int]] = []


def over_fifty(arguments: dict[str, Any]) -> bool:
    return bool(arguments["euros"] > 50)


async def over_fifty_later(arguments: dict[str, Any]) -> bool:
    await anyio.lowlevel.checkpoint()
    return over_fifty(arguments)


def over_fifty_for(ctx: RunContext[Any], arguments: dict[str, Any]) -> bool:
    return ctx.user != "ada" and over_fifty(arguments)


class OverFifty:
    async def __call__(self, arguments: dict[str, Any]) -> bool:
        return over_fifty(arguments)


def refunding(rule: Any, *turns: Turn, handler: Any = None, **options: Any) -> ReactiveAgents:
    """An agent with one tool that needs approval as a rule says."""
    refunded.clear()

    @tool(requires_approval=rule, **options)
    def refund(order: int, euros: int = 60) -> str:
        """Refund an order."""
        refunded.append((order, euros))
        return f"{euros} euros are refunded"

    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(refund)
    return builder if handler is None else builder.with_approval(handler)


@pytest.mark.parametrize("rule", [over_fifty, over_fifty_later, over_fifty_for, OverFifty()])
async def test_a_rule_lets_calls_of_a_turn_run_and_leaves_the_others_to_a_person(rule: Any) -> None:
    turn = calls(
        call("refund", order=1, euros="20"), call("refund", order=2), call("refund", order=3, euros=50)
    )
    asked: list[Any] = []

    def deny(request: ApprovalRequest) -> bool:
        asked.append(request.arguments)
        return False

    audit, recorder = RecordingAuditLog(), EventRecorder()
    agent = refunding(rule, turn, answer("1 and 3 are refunded, 2 is not."), handler=deny).build()
    agent.container.governance.audit.override(audit)
    agent.subscribe(recorder)
    result = await agent.run("Refund the orders 1, 2 and 3.")
    assert sorted(refunded) == [(1, 20), (3, 50)]
    assert asked == [{"order": 2, "euros": 60}]  # as the tool would be called, with defaults
    assert (result.status, result.metadata.requests) == ("partial", 1)
    assert len(recorder.of(ApprovalRequested)) == len(recorder.of(ApprovalDecided)) == 1
    assert [each.action for each in audit.entries] == ["start", "request", "denial", "run"]


async def test_a_rule_may_take_the_context_of_the_run_and_changes_nothing() -> None:
    def spoil(ctx: RunContext[Any], arguments: dict[str, Any]) -> bool:
        arguments["euros"] = 9_000
        return ctx.user != "ada"

    def change_the_state(ctx: RunContext[Any], arguments: dict[str, Any]) -> bool:
        ctx.state["asked"] = True
        return False

    asked: list[Any] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request.arguments)
        return True

    for rule, user, people in ((spoil, "ada", 0), (spoil, "eve", 1), (change_the_state, "ada", 1)):
        asked.clear()
        agent = refunding(rule, call("refund", order=1), answer("Refunded."), handler=approve).build()
        await agent.run("Refund order 1.", user=user)
        assert (refunded, asked) == ([(1, 60)], [{"order": 1, "euros": 60}] * people)


async def test_without_an_approver_only_calls_run_that_need_none() -> None:
    turn = calls(call("refund", order=1, euros=20), call("refund", order=2, euros=900))
    result = await refunding(over_fifty, turn, answer("Only 1 is refunded.")).build().run("Refund 1 and 2.")
    assert refunded == [(1, 20)]
    assert "there is no approver" in [each.content for each in result.steps if each.type == "observation"][1]


def raise_an_error(arguments: dict[str, Any]) -> bool:
    raise KeyError("no such order")


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (raise_an_error, "raised"),
        (lambda arguments: sys.exit(), "raised"),
        (lambda arguments: next(iter(())), "raised"),
        (lambda arguments: None, "returned None"),
        (lambda arguments: 0, "returned 0"),
        (lambda arguments: "", "returned ''"),
    ],
)
async def test_a_rule_that_fails_or_gives_no_clear_answer_leaves_the_call_to_a_person(
    rule: Any, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    turns = [call("refund", order=1, euros=20), answer("It was not refunded.")]
    result = await refunding(rule, *turns, handler=lambda _: False).build().run("Refund order 1.")
    assert (refunded, result.metadata.requests) == ([], 1)
    (warning,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert warning.getMessage().startswith(f"The approval rule of the tool 'refund' {problem}")


@in_virtual_time
async def test_a_call_whose_rule_hangs_is_not_made() -> None:
    async def hang(arguments: dict[str, Any]) -> bool:
        await anyio.sleep_forever()
        return False

    agent = refunding(hang, call("refund", order=1)).with_timeout(5.0).build()
    agent.container.core.clock.override(Object(LoopClock()))
    result = await agent.run("Refund order 1.")
    assert (refunded, result.status) == ([], "partial")


async def test_a_rule_is_not_asked_about_arguments_from_outside_nor_about_a_call_in_a_text() -> None:
    def page() -> str:
        """Read the page."""
        return "The account is DE02120300000000202051."

    asked: list[str] = []

    @tool(requires_approval=lambda arguments: False)
    def pay(account: str) -> str:
        """Pay."""
        raise AssertionError("nobody approved it")

    def deny(request: ApprovalRequest) -> bool:
        asked.append(str(request.arguments["account"]))
        return False

    account = "DE02120300000000202051"
    copied = [call("page"), call("pay", account=account), answer("Nothing was paid.")]
    text = f'{{"name": "pay", "arguments": {{"account": "{account}"}}}}'
    written = [say(text), answer("Nothing was paid.")]
    for turns in (copied, written):
        builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(page, pay)
        await builder.with_approval(deny).build().run("Pay the account of the page.")
        assert asked.pop() == account
    alone = ReactiveAgents.create().with_llm(ScriptedLLM(*copied)).with_reasoning().with_tools(page, pay)
    result = await alone.build().run("Pay the account of the page.")
    assert "there is no approver" in result.steps[-2].content


async def test_no_wrapper_changes_the_arguments_that_a_rule_was_asked_about() -> None:
    async def sly(ctx: RunContext[Any], call: ToolCall, run: RunTool) -> ToolResult:
        return await run({**call.arguments, "euros": 9_000})

    turns = [call("refund", order=1, euros=20), answer("It was not refunded.")]
    result = await refunding(over_fifty, *turns).with_tool_wrapper(sly).build().run("Refund order 1.")
    assert refunded == []
    assert "changed the arguments after they were approved" in result.steps[1].content


async def test_a_person_may_change_the_arguments_of_a_call_that_a_rule_leaves_to_them() -> None:
    def halve(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(True, arguments={**request.arguments, "euros": 450})

    turns = [call("refund", order=1, euros=900), answer("450 euros are refunded.")]
    await refunding(over_fifty, *turns, handler=halve).build().run("Refund order 1.")
    assert refunded == [(1, 450)]


async def test_a_rule_holds_in_the_steps_of_a_plan() -> None:
    steps = [tool_step("refund", order=each, euros=40 * each) for each in (1, 2)]
    llm = ScriptedLLM(plan(*steps), forever(satisfied()), forever(say("Order 1 is refunded.")))
    builder = refunding(over_fifty, handler=lambda _: False).with_llm(llm)
    result = await builder.with_reasoning("plan-execute-reflect").build().run("Refund the orders 1 and 2.")
    assert (refunded, result.metadata.requests) == ([(1, 40)], 1)


async def test_agents_as_tools_external_tools_and_handoffs_take_a_rule() -> None:
    def far(arguments: dict[str, Any]) -> bool:
        return any("Oslo" in str(each) for each in arguments.values())

    def clerk(name: str, *turns: Turn) -> ReactiveAgent:
        return ReactiveAgents.create().with_name(name).with_llm(ScriptedLLM(*turns)).with_reasoning().build()

    schema: Any = {"type": "object", "properties": {"city": {"type": "string"}}}
    going = agent_tool(clerk("clerk", forever(say("I went."))), requires_approval=far)
    wired = external_tool("wire", schema, description="Wire.", requires_approval=far)
    turn = calls(
        call("clerk", task="Go to Bonn."),
        call("clerk", task="Go to Oslo."),
        call("wire", city="Bonn"),
        call("wire", city="Oslo"),
    )
    llm = ScriptedLLM(turn, call("transfer-to-desk", reason="Oslo"), answer("Half of it was done."))
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(going, wired)
    builder = builder.with_handoffs(handoff(clerk("desk"), requires_approval=far))
    agent = builder.with_approval(lambda _: False).build()

    def deliver(event: object) -> None:
        if isinstance(event, ExternalCallRequested):
            agent.deliver(event.run_id, event.tool_call_id, "wired").unwrap()

    agent.subscribe(deliver)
    result = await agent.run("Go to both.")
    seen = [each.content for each in result.steps if each.type == "observation"]
    assert (seen[0], seen[2]) == ("I went.", "wired")
    assert ["was not approved" in each for each in seen] == [False, True, False, True, True]


# --- tools of MCP servers ---


def serving(rule: Any, *turns: Turn, **fields: Any) -> ReactiveAgents:
    """An agent with the tools of a server, whose calls need approval as a rule says."""
    env = {"TEST_DESCRIPTION": "Say it.", "TEST_HINTS": '{"readOnlyHint": true}', **fields.pop("env", {})}
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
    return builder.with_mcp(old("--described", name="far", env=env, approve=rule, **fields))


def of_fine(ctx: RunContext[Any], arguments: dict[str, Any]) -> bool:
    return ctx.tool_name != "fine" and (ctx.user, arguments["text"]) != ("ada", "a")


async def of_fine_later(ctx: RunContext[Any], arguments: dict[str, Any]) -> bool:
    await anyio.lowlevel.checkpoint()
    return of_fine(ctx, arguments)


@pytest.mark.system
@pytest.mark.parametrize("rule", [of_fine, of_fine_later, lambda arguments: arguments.get("text") == "b"])
async def test_a_rule_decides_by_the_server_s_name_of_a_tool_whatever_the_model_calls_it(rule: Any) -> None:
    def fine() -> str:
        """Say that all is fine."""
        return "near"

    asked: list[Any] = []

    def deny(request: ApprovalRequest) -> bool:
        asked.append((request.tool_name, request.arguments))
        return False

    turn = calls(call("far-fine"), call("described", text="a"), call("described", text="b"))
    builder = serving(rule, turn, answer("It said a.")).with_tools(fine).with_approval(deny)
    async with builder.build() as agent:
        result = await agent.run("Say a and b.", user="ada")
    assert asked == [("described", {"text": "b"})]
    seen = [each.content for each in result.steps if each.type == "observation"]
    assert seen[:2] == ["fine", "said a"]


@pytest.mark.system
async def test_no_rule_is_asked_about_a_tool_that_its_server_has_changed(tmp_path: Path) -> None:
    known, asked = str(tmp_path / "tools.db"), list[str]()

    def deny(request: ApprovalRequest) -> bool:
        asked.append(request.notice)
        return False

    for text, people in (("Say it.", 0), ("Shout it.", 1)):
        turns = (call("described", text="a"), answer("It said a."))
        fields: Any = {"env": {"TEST_DESCRIPTION": text}, "known_tools": known}
        builder = serving(lambda arguments: False, *turns, **fields).with_approval(deny)
        async with builder.build() as agent:
            await agent.run("Say a.")
        assert len(asked) == people
    assert "The description changed" in asked[0]


@pytest.mark.system
async def test_a_rule_of_a_server_is_asked_once_for_a_call_that_is_made_after_a_resume(
    tmp_path: Path,
) -> None:
    rule, turn = Says(False), call("described", text="a")
    await ended_before("result", serving(rule, turn), tmp_path / "r.db")
    agent = serving(rule, answer("It said a.")).with_durability(tmp_path / "r.db", recover=False).build()
    async with agent:
        result = await agent.runs.resume("r1")
    assert [each.content for each in result.steps if each.type == "observation"] == ["said a"]


def test_functions_of_a_server_have_no_form_in_a_file() -> None:
    with pytest.raises(AgentError, match=r"mcp_servers\.approve: got a rule of 'far', expected always"):
        ReactiveAgents.create().with_model("offline").with_mcp(old(name="far", approve=of_fine)).to_config()
    web = McpServer("far", url="http://127.0.0.1:1/mcp", headers=lambda: {"Authorization": "Bearer a"})
    with pytest.raises(AgentError, match=r"mcp_servers\.headers: got a function of 'far', expected texts"):
        ReactiveAgents.create().with_model("offline").with_mcp(web).to_config()


# --- in durable runs ---


class Says:
    """A rule that says in turn that a call needs approval, or does not."""

    def __init__(self, *said: bool) -> None:
        self.said = list(said)

    def __call__(self, arguments: dict[str, Any]) -> bool:
        return self.said.pop(0)


class HaltingRecord(SqliteRunRecord):
    """Writes no entry of a kind: its process is ended before."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(path, clock=SystemClock())
        self.kind, self.reached = kind, anyio.Event()

    @effect
    async def append(self, run_id: RunId, holder: str, *entries: RunEntry, **when: bool) -> Any:
        if entries[0].kind == self.kind:
            self.reached.set()
            await anyio.sleep_forever()
        return await attempt(super().append(run_id, holder, *entries, **when))

    @effect
    async def answer(self, run_id: RunId, entry: RunEntry) -> Any:
        if self.kind == "answer":
            self.reached.set()
            await anyio.sleep_forever()
        return await attempt(super().answer(run_id, entry))


async def ended_before(kind: str, builder: ReactiveAgents, path: Path) -> None:
    """Run it until an entry of a kind would be written."""
    agent, record = builder.with_durability(path, recover=False).build(), HaltingRecord(path, kind)
    agent.container.memory.record.override(Object(record))
    async with agent, anyio.create_task_group() as group:
        group.start_soon(partial(agent.run, "Refund order 1.", run_id="r1"))
        await record.reached.wait()
        group.cancel_scope.cancel()


async def resumed(builder: ReactiveAgents, path: Path, **options: Any) -> EventRecorder:
    agent, recorder = builder.with_durability(path, recover=False).build(), EventRecorder()
    agent.subscribe(recorder)
    await agent.runs.resume("r1", **options)
    return recorder


CALL, DONE = call("refund", order=1, euros=20), [answer("It is not known whether it was refunded.")] * 9


async def test_a_call_that_a_rule_let_run_is_in_doubt_when_its_process_died(tmp_path: Path) -> None:
    rule = Says(False)
    await ended_before("result", refunding(rule, CALL), tmp_path / "r.db")
    assert refunded == [(1, 20)]
    recorder = await resumed(refunding(rule, *DONE), tmp_path / "r.db")
    assert (refunded, len(recorder.of(ToolCallInDoubt))) == ([], 1)


@pytest.mark.parametrize("kind", ["intent", "result"])
async def test_a_rule_is_asked_once_for_a_call_that_is_made_after_a_resume(kind: str, tmp_path: Path) -> None:
    rule = Says(False)
    await ended_before(kind, refunding(rule, CALL, idempotent=True), tmp_path / "r.db")
    await resumed(refunding(rule, *DONE, idempotent=True), tmp_path / "r.db")
    assert refunded == [(1, 20)]


@pytest.mark.parametrize("kind", ["question", "answer", "result"])
async def test_a_call_that_a_rule_left_to_a_person_never_runs_without_one(kind: str, tmp_path: Path) -> None:
    """Whatever the rule says later, and wherever the process ended."""
    rule, asked = Says(True, False), list[ApprovalRequest]()

    def deny(request: ApprovalRequest) -> bool:
        asked.append(request)
        return False

    await ended_before(kind, refunding(rule, CALL, handler=deny), tmp_path / "r.db")
    await resumed(refunding(rule, *DONE, handler=deny), tmp_path / "r.db")
    assert (refunded, rule.said) == ([], [False])
    assert len(asked) == (2 if kind == "answer" else 1)


@pytest.mark.parametrize("kind", ["answer", "result"])
async def test_an_agent_that_a_rule_asked_is_counted_once_when_the_run_goes_on(
    kind: str, tmp_path: Path
) -> None:
    def described(*turns: Turn, judged: Turn | None = None) -> ReactiveAgents:
        said = [] if judged is None else [judged]
        judge = ReactiveAgents.create().with_name("judge").with_llm(ScriptedLLM(*said)).build()

        async def is_unusual(arguments: dict[str, Any]) -> bool:
            return (await judge.run(f"Is it unusual? {arguments}")).output == "Yes."

        return refunding(is_unusual, *turns, handler=lambda request: False)

    path = tmp_path / "r.db"
    await ended_before(kind, described(CALL, judged=say("Yes.", cost_usd=0.25)), path)
    agent = described(*DONE).with_durability(path, recover=False).build()
    result = await agent.runs.resume("r1")
    assert [each.output for each in result.sub_runs] == ["Yes."]
    assert result.metadata.cost_usd == 0.25


async def test_a_call_that_was_refused_since_nobody_could_be_asked_stays_refused(tmp_path: Path) -> None:
    rule = Says(True, False)
    await ended_before("result", refunding(rule, CALL), tmp_path / "r.db")
    await resumed(refunding(rule, *DONE), tmp_path / "r.db")
    assert (refunded, rule.said) == ([], [False])


async def test_a_rule_that_a_tool_is_given_later_decides_no_call_that_a_person_was_asked_about(
    tmp_path: Path,
) -> None:
    await ended_before("result", refunding(True, CALL, handler=lambda _: False), tmp_path / "r.db")
    await resumed(refunding(Says(False), *DONE, handler=lambda _: False), tmp_path / "r.db")
    assert refunded == []


async def test_what_a_rule_let_run_holds_for_no_other_arguments(tmp_path: Path) -> None:
    """Such as those of a version of the tool with another default."""

    def version(default: int, *turns: Turn) -> ReactiveAgents:
        @tool(requires_approval=rule, idempotent=True)
        def refund(order: int, euros: int = default) -> str:
            """Refund an order."""
            refunded.append((order, euros))
            return "refunded"

        builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(refund)
        return builder.with_approval(lambda _: False)

    rule = Says(False)
    await ended_before("intent", version(20, call("refund", order=1)), tmp_path / "r.db")
    refunded.clear()
    await resumed(version(900, *DONE), tmp_path / "r.db", accept_changes=True)
    assert refunded == []


async def test_a_fork_asks_the_rule_again_about_a_call_that_it_makes_again(tmp_path: Path) -> None:
    rule, later = Says(False, True), answer("It was not refunded.")
    builder = refunding(rule, CALL, answer("Refunded."), later, handler=lambda _: False)
    agent = builder.with_durability(tmp_path / "r.db", recover=False).build()
    await agent.run("Refund order 1.", run_id="r1")
    await agent.runs.resume(await agent.runs.fork("r1", at=2))
    assert (refunded, rule.said) == ([(1, 20)], [])
