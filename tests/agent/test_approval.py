"""Tools that need approval, through the whole agent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Annotated

import anyio
import pytest
from dependency_injector import providers
from pydantic import BeforeValidator
from returns.maybe import Some
from returns.result import Failure, Success

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, agent_tool, tool
from reactive_agents.adapters.governance.requests import ApprovalHandler
from reactive_agents.core.errors import ApprovalNotPending
from reactive_agents.core.events import (
    AgentEvent,
    ApprovalDecided,
    ApprovalRequested,
    FinalAnswerProduced,
    TaskFailed,
    ToolCallCompleted,
    VerificationActed,
)
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest
from reactive_agents.core.ids import ApprovalId, RunId, TaskId
from reactive_agents.engine import ExecutionEngine
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
from tests.support.plans import composite_step, plan, satisfied, tool_step
from tests.support.virtual_time import LoopClock, in_virtual_time
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

wiped: list[str] = []


@tool(requires_approval=True, risk="high")
async def wipe(disk: str) -> str:
    """Wipe a disk."""
    wiped.append(disk)
    return f"{disk} is empty"


def build(
    llm: ScriptedLLM, handler: ApprovalHandler | None = None, *, approval: bool = True
) -> ReactiveAgent:
    wiped.clear()
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(wipe)
    return (builder.with_approval(handler) if approval else builder).build()


def script(said: str = "Done.") -> ScriptedLLM:
    return ScriptedLLM(call("wipe", disk="sda"), answer(said))


def first_of(given: object) -> object:
    return given[0] if isinstance(given, list) else given


async def test_who_approves_is_shown_what_runs() -> None:
    shown: list[object] = []
    ran: list[object] = []

    @tool(requires_approval=True)
    def pay(
        amount: int,
        real: bool = True,
        to: Annotated[str, BeforeValidator(first_of)] = "eve",
        due: date | None = None,
    ) -> str:
        """Pay."""
        ran.append({"amount": amount, "real": real, "to": to, "due": due and due.isoformat()})
        return "Paid."

    def approve(request: ApprovalRequest) -> bool:
        shown.append(request.arguments)
        return True

    llm = ScriptedLLM(
        call("pay", amount="0009_0"),
        call("pay", amount="7", real="no", to=["ann", "eve"], due="2030-01-02"),
        forever(answer("Done.")),
    )
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(pay)
    await builder.with_approval(approve).build().run("Pay.")
    assert shown == ran
    assert shown[0] == {"amount": 90, "real": True, "to": "eve", "due": None}
    assert len(shown) == 2


async def test_a_handler_lets_a_call_run() -> None:
    asked: list[ApprovalRequest] = []

    def handler(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    agent = build(script(), handler)
    recorder = EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run("Wipe sda.")
    assert (wiped, result.steps[1].content) == (["sda"], "sda is empty")
    assert [(request.tool_name, request.arguments, request.risk) for request in asked] == [
        ("wipe", {"disk": "sda"}, "high")
    ]
    tags = recorder.tags()
    assert tags.index("ApprovalRequested") < tags.index("ApprovalDecided") < tags.index("ToolCallCompleted")
    assert recorder.of(ApprovalDecided)[0].approved


async def test_a_denial_is_an_observation_with_its_reason() -> None:
    llm = script("sda was not wiped.")
    result = await build(llm, lambda request: ApprovalDecision(False, "sda holds the accounts")).run(
        "Wipe sda."
    )
    assert wiped == []
    assert (result.status, result.output) == ("partial", "sda was not wiped.")
    assert "sda holds the accounts" in llm.requests[1].messages[-1].content
    assert result.steps[1].metadata is not None
    assert result.steps[1].metadata.success is False


async def test_with_nobody_to_ask_the_call_is_denied_and_the_model_told() -> None:
    llm = script("It was not wiped.")
    await build(llm, approval=False).run("Wipe sda.")
    assert wiped == []
    assert "needs approval" in llm.requests[1].messages[-1].content


async def test_the_run_is_paused_until_someone_elsewhere_decides() -> None:
    agent = build(ScriptedLLM(calls(call("wipe", disk="sda"), call("wipe", disk="sdb")), say("Done.")))
    engine: ExecutionEngine = agent.container.engine.engine()
    states: list[str] = []

    def decide(event: ApprovalRequested) -> None:
        states.append(engine.get_context(TaskId(event.task_id)).unwrap().agent_state)
        if event.arguments["disk"] == "sda":
            assert isinstance(agent.approve(event.run_id, event.approval_id), Success)
        else:
            assert isinstance(agent.deny(event.run_id, event.approval_id, "keep sdb"), Success)
        assert isinstance(agent.approve(event.run_id, event.approval_id), Failure)

    events: list[AgentEvent] = []
    async for event in agent.stream("Wipe both."):
        events.append(event)
        if isinstance(event, ApprovalRequested):
            decide(event)
    assert states == ["paused", "paused"]
    assert wiped == ["sda"]
    assert [(event.approved, event.reason) for event in events if isinstance(event, ApprovalDecided)] == [
        (True, ""),
        (False, "keep sdb"),
    ]
    assert agent.pending_approvals() == ()


async def test_a_decision_is_about_the_arguments_that_were_shown_also_when_calls_share_an_id() -> None:
    steps = [{**composite_step(f"Wipe {disk}.", "wipe"), "depends_on": []} for disk in ("sda", "sdb")]
    wipes = [
        say(f'<tool_call>{{"name":"wipe","arguments":{{"disk":"{disk}"}}}}</tool_call>', when=f"Wipe {disk}.")
        for disk in ("sda", "sdb")
    ]
    agent = (
        ReactiveAgents.create()
        .with_llm(ScriptedLLM(plan(*steps), *wipes, forever(say("Done."))))
        .with_reasoning("plan-execute-reflect", strategies={"plan_execute": {"plan_mode": "dag"}})
        .with_tools(wipe)
        .with_approval(timeout_s=5)
        .build()
    )
    wiped.clear()
    asked: list[ApprovalRequested] = []
    decided: list[ApprovalDecided] = []
    async for event in agent.stream("Wipe the disks."):
        if isinstance(event, ApprovalDecided):
            decided.append(event)
        if isinstance(event, ApprovalRequested):
            asked.append(event)
            if len(asked) == 2:
                for each in asked:
                    if each.arguments == {"disk": "sdb"}:
                        agent.approve(each.run_id, each.approval_id).unwrap()
                    else:
                        agent.deny(each.run_id, each.approval_id, "keep it").unwrap()
    assert len({each.call_id for each in asked}) == 1
    assert wiped == ["sdb"]
    approved = {each.approval_id: each.approved for each in decided}
    assert approved == {each.approval_id: each.arguments == {"disk": "sdb"} for each in asked}


async def test_a_request_that_nobody_answers_times_out() -> None:
    llm = ScriptedLLM(call("wipe", disk="sda"), say("Done."))
    agent = ReactiveAgents.create().with_llm(llm).with_tools(wipe).with_approval(timeout_s=0.02).build()
    await agent.run("Wipe sda.")
    assert "no decision came within 0.02 seconds" in llm.requests[1].messages[-1].content


@in_virtual_time
async def test_a_request_that_the_deadline_of_the_run_ends_is_a_denial_on_record() -> None:
    llm = script()
    agent = ReactiveAgents.create().with_llm(llm).with_tools(wipe).with_approval().with_timeout(300.0).build()
    agent.container.core.clock.override(providers.Object(LoopClock()))
    log = RecordingAuditLog()
    agent.container.governance.audit.override(providers.Object(Some(log)))
    recorder = EventRecorder()
    agent.subscribe(recorder)
    wiped.clear()
    result = await agent.run("Wipe sda.")
    (asked,), (decided,) = recorder.of(ApprovalRequested), recorder.of(ApprovalDecided)
    assert (decided.approval_id, decided.approved) == (asked.approval_id, False)
    (completed,) = recorder.of(ToolCallCompleted)
    reason = "no answer came before the run's deadline."
    assert completed.error == f"The call of 'wipe' was not approved: {reason}"
    assert [(entry.action, entry.detail.split(" The arg")[0]) for entry in log.entries[1:3]] == [
        ("request", "Approval requested."),
        ("denial", f"Denied: {reason}"),
    ]
    assert (result.metadata.terminated_by, wiped) == ("deadline", [])


async def test_a_request_of_a_cancelled_run_is_decided_too() -> None:
    agent = build(script())
    decisions: list[ApprovalDecided] = []
    steps: list[str] = []
    async for event in agent.stream("Wipe sda."):
        if isinstance(event, ApprovalRequested):
            agent.cancel(TaskId(event.task_id)).unwrap()
        if isinstance(event, TaskFailed):
            steps += [step.type for step in event.steps]
        if isinstance(event, ApprovalDecided):
            decisions.append(event)
    (decided,) = decisions
    assert (decided.approved, decided.reason) == (
        False,
        "the run was interrupted before the call could be approved.",
    )
    assert wiped == []
    assert steps == ["action"]  # which is not in doubt


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_approver_that_raises_denies_the_call_and_is_named(at_once: bool) -> None:
    class Broken:
        def decide(self, request: ApprovalRequest) -> object:
            if at_once:
                raise OSError("nobody is at the desk")
            return self._later()

        async def _later(self) -> object:
            raise OSError("nobody is at the desk")

    agent = build(script("Nothing was wiped."))
    agent.container.governance.approver.override(providers.Object(Some(Broken())))
    recorder = EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run("Wipe it.")
    assert result.metadata.terminated_by == "not_approved"
    assert wiped == []
    (decided,) = recorder.of(ApprovalDecided)
    assert decided.reason == "The approval service Broken raised OSError: nobody is at the desk"


async def test_a_request_of_a_stopped_run_is_decided_too() -> None:
    agent = build(script())
    recorder = EventRecorder()
    agent.subscribe(recorder)
    agent.subscribe(lambda event: agent.stop(event.task_id) if isinstance(event, ApprovalRequested) else None)
    result = await agent.run("Wipe it.")
    assert (result.status, result.metadata.terminated_by) == ("partial", "stopped")
    assert agent.pending_approvals() == ()
    assert [event.approved for event in recorder.of(ApprovalDecided)] == [False]
    assert wiped == []


async def test_a_cancelled_run_leaves_no_request_behind() -> None:
    agent = build(script())
    async with anyio.create_task_group() as group:
        group.start_soon(agent.run, "Wipe sda.")
        await until(agent.pending_approvals)
        group.cancel_scope.cancel()
    assert agent.pending_approvals() == ()
    assert agent.running() == ()


@pytest.mark.parametrize("by", ["handoff", "tool"])
@pytest.mark.parametrize("own_handler", [False, True])
@in_virtual_time
async def test_a_call_of_an_inner_agent_waits_on_the_desk_of_the_outermost_one_unless_it_has_a_handler(
    by: str, own_handler: bool
) -> None:
    async def approve(_: ApprovalRequest) -> bool:
        return True

    inner_builder = ReactiveAgents.create().with_name("inner").with_llm(script()).with_reasoning()
    inner = inner_builder.with_tools(wipe).with_approval(approve if own_handler else None).build()
    outer_builder = ReactiveAgents.create().with_reasoning().with_approval()
    if by == "handoff":
        outer_builder = outer_builder.with_handoffs(inner).with_llm(ScriptedLLM(call("transfer-to-inner")))
    else:
        outer_builder = outer_builder.with_tools(agent_tool(inner))
        outer_builder = outer_builder.with_llm(ScriptedLLM(call("inner", task="Wipe sda."), answer("Done.")))
    outer, found = outer_builder.build(), list[tuple[int, int]]()

    wiped.clear()
    user = "ada" if by == "handoff" else None  # an agent that is a tool has no user
    async for event in outer.stream("Wipe sda.", user="ada"):
        if isinstance(event, ApprovalRequested) and not own_handler:
            found.append((len(outer.pending_approvals()), len(inner.pending_approvals())))
            (request,) = outer.pending_approvals()
            assert (request.user, request.parent_run_id) == (user, event.parent_run_id)
            assert request.parent_run_id is not None
            outer.approve(event.run_id, event.approval_id)
    assert wiped == ["sda"]
    assert found == ([] if own_handler else [(1, 0)])


async def test_deciding_without_approval_switched_on_is_a_typed_failure() -> None:
    agent = build(script(), approval=False)
    assert agent.approve(RunId("r"), ApprovalId("c")).failure() == ApprovalNotPending("r", "c")
    assert agent.deny(RunId("r"), ApprovalId("c")).failure() == ApprovalNotPending("r", "c")


def test_a_wrong_timeout_is_named_at_build() -> None:
    with pytest.raises(AgentError, match=r"approval\.timeout_s: got 0"):
        ReactiveAgents.create().with_llm(script()).with_approval(timeout_s=0).build()


@pytest.mark.parametrize(
    "text", ["Done.", "I wiped it, as you approved.", "You refused it.", "sda was not wiped.", "Abgelehnt."]
)
@pytest.mark.parametrize("deliver", [say, answer])
async def test_a_run_is_partial_whatever_the_answer_says_of_a_call_that_was_declined(
    text: str, deliver: Callable[[str], Turn]
) -> None:
    model = ScriptedLLM(call("wipe", disk="sda"), deliver(text))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(wipe)
    agent, recorder = builder.with_approval(lambda _: False).build(), EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run("Wipe sda.")
    assert (result.status, result.output, result.metadata.terminated_by) == ("partial", text, "not_approved")
    (ended,) = recorder.of(FinalAnswerProduced)
    assert (ended.status, ended.terminated_by) == ("partial", "not_approved")
    assert result.reason.startswith("The call of wipe was not approved")


async def test_a_second_attempt_completes_nothing_that_was_declined_in_the_first() -> None:
    model = ScriptedLLM(call("wipe", disk="sda"), forever(answer("sda was not wiped.")))
    tries = EventRecorder()
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(wipe)
    agent = builder.with_verification(action="retry").with_approval(lambda _: False).build()
    agent.subscribe(tries)
    result = await agent.run("Wipe sda.")
    assert [event.action for event in tries.of(VerificationActed)] == ["retry"]
    assert (result.status, result.metadata.terminated_by) == ("partial", "not_approved")


async def test_an_agent_that_takes_over_completes_nothing_that_was_declined_before() -> None:
    other = ReactiveAgents.create().with_name("other").with_llm(ScriptedLLM(answer("All is done.")))
    other = other.with_reasoning().with_tools(send)
    model = ScriptedLLM(call("wipe", disk="sda"), call("transfer-to-other"))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(wipe)
    builder = builder.with_handoffs(other.build())
    result = await builder.with_approval(lambda _: False).build().run("Wipe sda.")
    assert (result.status, result.output) == ("partial", "All is done.")
    assert result.reason.startswith("The call of wipe was not approved")


async def test_a_call_stands_for_no_other_one_that_has_the_id_of_the_declined_one() -> None:
    made = {
        "Wipe sda.": '"wipe","arguments":{"disk":"sda"}',
        "Write to Ann.": '"send","arguments":{"to":"Ann","text":"Hi"}',
        "Write more.": '"send","arguments":{"to":"Ann","text":"Dear Ann"}',
    }
    model = ScriptedLLM(
        plan(*(composite_step(order, "wipe", "send") for order in made)),
        *(say(f'<tool_call>{{"name":{text}}}</tool_call>', when=order) for order, text in made.items()),
        satisfied(),
        forever(say("Done.")),
    )
    builder = ReactiveAgents.create().with_llm(model).with_reasoning("plan-execute-reflect")
    agent = builder.with_tools(wipe, send).with_approval(lambda asked: "Dear Ann" in asked.described).build()
    result = await agent.run("Wipe sda, and write to Ann.")
    ids = {step.metadata.call_id for step in result.steps if step.metadata and step.metadata.origin}
    assert (len(ids), result.status) == (1, "partial")
    assert result.reason.startswith("The call of wipe was not approved")


@pytest.mark.parametrize("said", ["The wiping of sda was declined: too risky.", "Wiped sda."])
@pytest.mark.parametrize("required", [[], ["wipe"]])
@pytest.mark.parametrize("timeout_s", [None, 60.0])
@in_virtual_time
async def test_nobody_is_asked_again_after_a_refusal_because_the_task_requires_the_call(
    said: str, required: list[str], timeout_s: float | None
) -> None:
    again = call("wipe", disk="sda"), forever(answer(said))
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(call("wipe", disk="sda"), answer(said), *again))
    builder = builder.with_reasoning().with_tools(wipe).with_required_tools(*required)
    if timeout_s is None:
        builder = builder.with_approval(lambda _: ApprovalDecision(False, "too risky"))
    else:
        builder = builder.with_approval(timeout_s=timeout_s)
    agent, recorder = builder.build(), EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run("Wipe sda.")
    assert len(recorder.of(ApprovalRequested)) == 1
    assert (result.status, result.metadata.terminated_by) == ("partial", "not_approved")
    assert result.output == said


@pytest.mark.parametrize("said", [None, "Done."])
async def test_a_better_call_than_the_declined_one_is_one_of_those_that_are_required(
    said: str | None,
) -> None:
    answers = [] if said is None else [answer(said)]
    turns = call("send", to="Ann", text="Hi"), call("send", to="Ann", text="Dear Ann"), *answers
    model = ScriptedLLM(*turns, call("send", to="Bob", text="Dear Bob"), forever(answer("Sent to both.")))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(send)
    builder = builder.with_required_tools(min_calls={"send": 2})
    agent = builder.with_approval(lambda request: request.arguments["text"] != "Hi").build()
    recorder = EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run("Write to Ann and Bob.")
    assert (result.status, result.output) == ("completed", "Sent to both.")
    made = [event.approved for event in recorder.of(ApprovalDecided)]
    assert made == [False, True, True]


async def test_a_step_of_a_plan_that_was_declined_is_not_tried_again() -> None:
    model = ScriptedLLM(plan(tool_step("wipe", disk="sda")), satisfied(), forever(answer("Not wiped.")))
    builder = ReactiveAgents.create().with_llm(model).with_tools(wipe)
    builder = builder.with_reasoning("plan-execute-reflect")
    agent, recorder = builder.with_approval(lambda _: False).build(), EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run("Wipe sda.")
    assert len(recorder.of(ApprovalRequested)) == 1
    assert result.status == "partial", result.reason


async def test_no_strategy_completes_what_was_declined() -> None:
    accepted = say('{"issues": [], "score": 1.0, "satisfied": true}', when="critique")
    model = ScriptedLLM(call("wipe", disk="sda"), answer("Not wiped."), accepted)
    agent = ReactiveAgents.create().with_llm(model).with_reasoning("reflexion").with_tools(wipe)
    result = await agent.with_approval(lambda _: False).build().run("Wipe sda.")
    assert (result.status, result.metadata.terminated_by) == ("partial", "not_approved")


@pytest.mark.parametrize("disks", [("sda", "sdb"), ("sdb", "sda")])
@pytest.mark.parametrize("text", ["Both are wiped.", "sda is wiped; sdb is waiting for approval."])
async def test_one_call_that_was_approved_does_not_stand_for_one_that_was_declined(
    disks: tuple[str, str], text: str
) -> None:
    model = ScriptedLLM(*(call("wipe", disk=disk) for disk in disks), answer(text), answer(text))
    result = await build(model, lambda request: request.arguments["disk"] == "sda").run("Wipe sda and sdb.")
    assert (wiped, result.status) == (["sda"], "partial"), result.reason


@tool(requires_approval=True)
def send(to: str, text: str = "") -> str:
    """Send a message."""
    return f"sent to {to}"


@tool(requires_approval=True)
def restart() -> str:
    """Restart the server."""
    return "restarted"


@pytest.mark.parametrize(
    ("turns", "status"),
    [
        ([call("send", to="Ann", text="Hi"), call("send", to="Ann", text="Dear Ann")], "completed"),
        ([call("send", to="Ann", text="Hi"), call("send", to="Bob", text="Hi")], "completed"),
        ([call("send", to="Ann", text="Hi"), call("send", to="Bob", text="Dear Bob")], "partial"),
        ([calls(call("send", to="Ann", text="Hi"), call("send", to="Bob", text="Hi"))], "partial"),
        ([call("send", to="Ann", text="Hi"), call("lookup", name="Ann")], "partial"),
        ([call("restart"), call("restart")], "completed"),
    ],
)
async def test_a_better_call_that_is_made_later_stands_for_one_that_was_declined(
    turns: list[Turn], status: str
) -> None:
    @tool
    def lookup(name: str) -> str:
        """Look a person up."""
        return f"{name} lives in Bonn"

    decisions = iter([False, True])
    model = ScriptedLLM(*turns, answer("It is done."))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(send, restart, lookup)
    agent = builder.with_approval(lambda _: next(decisions)).build()
    result = await agent.run("See to it.")
    assert result.status == status, result.reason


async def test_the_output_of_a_run_with_a_declined_call_is_typed() -> None:
    model = ScriptedLLM(call("wipe", disk="sda"), call("final-answer", answer=7))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(wipe).with_output_type(int)
    result = await builder.with_approval(lambda _: False).build().run("Wipe sda. How many are left?")
    assert (result.status, result.output) == ("partial", 7)
