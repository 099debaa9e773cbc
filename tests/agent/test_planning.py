"""Plan-execute-reflect from the builder to the answer, with real tools, files and processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, tool
from reactive_agents.core.errors import HookError, ReasoningError, RunCancelled, TaskError, root_cause
from reactive_agents.core.events import (
    ApprovalDecided,
    ContextCompacted,
    PlanCreated,
    PlanStepChanged,
    PlanStoreFailed,
    TaskFailed,
    ToolCallCompleted,
)
from reactive_agents.core.plans import Plan
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt
from reactive_agents.engine import ExecutionContext
from reactive_agents.kernel.ledger import CallCounts
from reactive_agents.ports import PlanStore
from reactive_agents.reasoning.passes import Progress
from reactive_agents.reasoning.planning.context import earlier_progress
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, call, say
from tests.support.memories import a_plan
from tests.support.plans import (
    ANALYSING,
    ANSWERING,
    REPLANNING,
    analysis_step,
    answer,
    composite_step,
    plan,
    satisfied,
    steps,
    tool_step,
    unsatisfied,
)

pytestmark = pytest.mark.anyio
STRATEGY = "plan-execute-reflect"
ROOT = Path(__file__).parents[2]
NOTED: list[str] = []


@tool
def note(text: str) -> str:
    """Note something down."""
    NOTED.append(text)
    return f"noted {text}"


@tool(idempotent=True)
def look() -> str:
    """Look around."""
    NOTED.append("looked")
    return "a desk"


@tool
def send() -> str:
    """Send a letter."""
    NOTED.append("sent")
    return "sent"


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    NOTED.clear()


def planner(*turns: Turn, **options: Any) -> ReactiveAgents:
    start = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(*turns))
    strategies = {"plan_execute": options} if options else {}
    return start.with_reasoning(STRATEGY, strategies=strategies)


async def stored_plans(agent: ReactiveAgent) -> tuple[Plan, ...]:
    store: PlanStore = agent.container.memory.plan_store().unwrap()
    return (await attempt(store.list_plans(agent.agent_id))).unwrap()


def resuming(agent: ReactiveAgent, plan_id: object) -> Task:
    return evolve(agent.new_task("Go on."), details={"plan_id": plan_id})


# --- whole runs -----------------------------------------------------------------------------------------


async def test_a_run_from_the_builder_is_accounted_for() -> None:
    made = plan(tool_step("note", text="a"), composite_step("Note b.", "note"), analysis_step("Sum up."))
    agent = (
        planner(
            made,
            call("note", text="b"),
            say("Noted b."),
            say("Summed.", when=ANALYSING),
            satisfied(),
            answer("All noted."),
        )
        .with_tools(note, send)
        .build()
    )
    recorder = EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run("Note a and b.")
    assert (result.status, result.output, result.success) == ("completed", "All noted.", True)
    assert NOTED == ["a", "b"]
    figures = result.metadata
    assert figures.strategy_used == STRATEGY
    assert (figures.model_calls, figures.tokens_used, figures.iterations) == (6, 90, 4)
    assert set(result.tool_results) == {"s1.note-1", "s2.note-2"}
    assert [event.tool_name for event in recorder.of(ToolCallCompleted)] == ["note", "note"]


@pytest.mark.parametrize("tools", [(), ("calculator", "file-search", "file-read")])
async def test_the_offline_model_plans_too(tools: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "moon.md").write_text("# The moon\n\nThe moon is 384400 km away from the earth.\n")
    start = ReactiveAgents.create().with_model("offline").with_reasoning(STRATEGY)
    agent = (start.with_tools(*tools) if tools else start).with_workspace(tmp_path).build()
    recorder = EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run("How far away is the moon, and what is 17 * 23?")
    assert result.status == "completed"
    assert result.metadata.strategy_used == STRATEGY
    assert len(recorder.of(PlanCreated)) == 1
    said = str(result.output)
    assert ("384400 km" in said and "17 * 23 = 391" in said) if tools else "nothing to quote" in said


@pytest.mark.system
def test_the_command_plans_over_real_files() -> None:
    question = "How does a run end when the iteration limit is reached, and what is 17 * 23?"
    tools = "calculator,file-search,file-read"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "reactive_agents",
            "run",
            question,
            "-qt",
            tools,
            "-w",
            "docs",
            "-s",
            STRATEGY,
        ],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("17 * 23 = 391")
    assert "When the iteration limit is reached, the run ends as `partial`" in done.stdout


async def test_lifecycle_hooks_see_the_calls_of_a_plan() -> None:
    seen: list[str] = []

    def after_act(context: ExecutionContext) -> None:
        seen.extend(result.tool_name for result in context.tool_results)

    agent = (
        planner(plan(tool_step("note", text="a")), satisfied(), answer())
        .with_tools(note)
        .with_hook("act", "after", after_act)
        .build()
    )
    await agent.run("Note a.")
    assert set(seen) == {"note"}


async def test_a_strict_hook_that_fails_in_a_step_fails_the_run() -> None:
    def broken(context: ExecutionContext) -> None:
        raise ValueError("no")

    agent = (
        planner(plan(tool_step("note", text="a")), satisfied(), answer())
        .with_tools(note)
        .with_hook("observe", "before", broken)
        .with_strict_hooks()
        .build()
    )
    with pytest.raises(AgentError) as failure:
        await agent.run("Note a.")
    assert isinstance(failure.value.error, HookError)


@pytest.mark.parametrize("approved", [True, False])
async def test_a_tool_that_needs_approval_needs_it_in_a_plan_too(approved: bool) -> None:
    @tool(requires_approval=True)
    def burn() -> str:
        """Burn it."""
        NOTED.append("burnt")
        return "ashes"

    denied = {} if approved else {"could_not": "Burning it was denied."}
    ending = call("final-answer", answer="No.", when=ANSWERING, **denied)
    agent = (
        planner(plan(tool_step("burn")), satisfied(), ending, max_refinements=1, step_retries=0)
        .with_tools(burn)
        .with_approval(lambda request: approved)
        .build()
    )
    recorder = EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run("Burn it.")
    assert [event.approved for event in recorder.of(ApprovalDecided)] == [approved]
    assert len(NOTED) == approved
    assert result.status == ("completed" if approved else "abstained")


@pytest.mark.parametrize("budget", [{"tokens": 80}, {"cost_usd": 80 / 128}])
async def test_steps_that_run_at_the_same_time_spend_one_budget(budget: dict[str, Any]) -> None:
    made = plan(*(composite_step(f"Note room {room}.", "note") for room in "abcd"), cost_usd=15 / 128)
    turns = [call("note", text=f"{n}", delay=0.01, cost_usd=15 / 128) for n in range(12)]
    agent = (
        planner(made, *turns, plan_mode="dag", step_kernel_max_iterations=3)
        .with_tools(note)
        .with_budget(**budget)
        .build()
    )
    result = await agent.run("Note all rooms.")
    assert (result.status, result.metadata.terminated_by) == ("partial", "budget")
    assert 80 <= result.metadata.usage.total_tokens < 80 + 4 * 15
    assert len(NOTED) == result.metadata.model_calls - 1


async def test_steps_that_run_at_the_same_time_share_the_calls_of_a_tool() -> None:
    free, single = composite_step("Note more.", "note"), tool_step("note", text="one")
    turns = [call("note", text=f"{n}") for n in range(8)]
    agent = (
        planner(plan(single, free, free, single), *turns, plan_mode="dag", step_kernel_max_iterations=4)
        .with_tools(note)
        .with_budget(calls={"note": 4})
        .build()
    )
    result = await agent.run("Note all there is.")
    assert result.status == "partial"
    assert len(NOTED) == 4


async def test_the_strategys_own_compaction_counts() -> None:
    def page(at: int) -> str:
        return f"Page {at} says: " + f"word{at} " * 130

    async def told_of(method: str) -> list[ContextCompacted]:
        script = [call("page", at=at) for at in range(4)]
        agent = (
            planner(
                plan(composite_step("Read the pages.", "page")),
                *script,
                call("final-answer", answer="Read."),
                satisfied(),
                step_kernel_max_iterations=9,
                compaction={"method": method},
            )
            .with_context_profile(window_tokens=8_000, tool_result_chars=1_000)
            .with_tools(page)
            .build()
        )
        recorder = EventRecorder()
        agent.subscribe(recorder)
        assert (await agent.run("Read.")).output == "Read."
        return recorder.of(ContextCompacted)

    assert {event.method for event in await told_of("template")} == {"template"}
    assert await told_of("drop") == []


async def test_a_request_of_a_step_does_not_depend_on_which_step_beside_it_has_ended(tmp_path: Path) -> None:
    turns = [plan(tool_step("note", text="one"), analysis_step("Say what it is."))]
    turns += [say("It is one.", when="Say what it is."), satisfied("s2"), answer("It is one.")]
    builder = planner(*turns, plan_mode="dag").with_tools(note)
    agent = builder.with_durability(tmp_path / "runs.db").build()
    await agent.run("Note one.", run_id="order-1")
    assert (await agent.runs.replay("order-1")).difference == ""
    await agent.aclose()


# --- plans that outlive a run ---------------------------------------------------------------------------


@pytest.mark.system
@pytest.mark.parametrize(("second", "done_again"), [("look", ["looked"]), ("send", [])])
async def test_a_plan_of_a_killed_process_goes_on_in_another(
    second: str, done_again: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "memory.db"
    command = [sys.executable, "-m", "tests.support.plan_crashes", str(path), second]
    killed = await anyio.run_process(command, cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    turns = [say("Written: noted one.", when="noted one"), satisfied("s3")]
    if not done_again:
        turns[1:] = [unsatisfied("the letter"), steps(analysis_step("Say so."), when=REPLANNING)]
        turns += [say("The letter may have been sent.", when="Say so."), satisfied("s4")]
        turns += [answer("The letter may have been sent.")]
    agent = planner(*turns).with_memory(path).with_tools(note, look, send).build()
    recorder = EventRecorder()
    agent.subscribe(recorder)
    async with agent:
        (left,) = await stored_plans(agent)
        assert [step.status for step in left.steps] == ["completed", "in_progress", "pending"]
        result = await agent.run(resuming(agent, left.id))
        (ended,) = await stored_plans(agent)
    assert result.status == "completed"
    assert done_again == NOTED, "what was completed is not done again"
    assert ended.steps[0].result == "noted one"
    assert ended.status == "completed"
    assert "s1" not in {event.step_id for event in recorder.of(PlanStepChanged)}
    assert result.output == ("Written: noted one." if done_again else "The letter may have been sent.")


async def test_a_cancelled_run_leaves_a_plan_that_goes_on(tmp_path: Path) -> None:
    entered = anyio.Event()

    async def wait() -> str:
        """Wait for ever."""
        entered.set()
        await anyio.sleep_forever()
        return "never"

    path = tmp_path / "memory.db"
    made = plan(tool_step("note", text="a"), tool_step("wait"), analysis_step("Write."))
    first = planner(made).with_memory(path).with_tools(note, tool(wait)).build()
    errors: list[object] = []

    async def run(task: Task) -> None:
        try:
            await first.run(task)
        except AgentError as failure:
            errors.append(failure.error)

    async with first, anyio.create_task_group() as group:
        task = first.new_task("Do it.")
        group.start_soon(run, task)
        await entered.wait()
        first.cancel(task.id)
    assert [type(error) for error in errors] == [RunCancelled]
    second = planner(
        say("Noted was a.", when="Write."),
        unsatisfied("the waiting"),
        steps(tool_step("look"), when=REPLANNING),
        satisfied("s3"),
    )
    async with second.with_memory(path).with_tools(note, look, tool(wait)).build() as agent:
        (left,) = await stored_plans(agent)
        result = await agent.run(resuming(agent, left.id))
    assert (result.status, result.output) == ("completed", "Noted was a.")
    assert NOTED == ["a", "looked"]


async def test_a_plan_goes_on_where_the_strategy_is_chosen_too(tmp_path: Path) -> None:
    made = plan(analysis_step("Write one."), analysis_step("Write two."))
    first = planner(made, say("one", when="Write one.")).with_budget(tokens=25)
    async with first.with_memory(tmp_path / "memory.db").build() as agent:
        assert (await agent.run("Write both.")).status == "partial"
        (left,) = await stored_plans(agent)
    second = ReactiveAgents.create().with_name("clerk").with_reasoning("adaptive")
    second = second.with_llm(ScriptedLLM(say("two", when="Write two."), satisfied("s2")))
    async with second.with_memory(tmp_path / "memory.db").build() as agent:
        result = await agent.run(resuming(agent, left.id))
    assert (result.output, result.metadata.selected_strategy) == ("two", STRATEGY)


async def test_a_plan_that_cannot_be_resumed_fails_the_run(tmp_path: Path) -> None:
    without = planner(say("never")).build()
    with pytest.raises(AgentError, match="keeps no plans"):
        await without.run(resuming(without, "p"))
    async with planner(say("never")).with_memory(tmp_path / "memory.db").build() as agent:
        with pytest.raises(AgentError) as failure:
            await agent.run(resuming(agent, "gone"))
        assert isinstance(root_cause(failure.value.error), ReasoningError)
        with pytest.raises(AgentError) as wrong:
            await agent.run(resuming(agent, 7))
    assert isinstance(wrong.value.error, TaskError)
    assert "details.plan_id: got 7" in wrong.value.error.message


async def test_a_memory_that_is_broken_does_not_end_the_run(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_text("this is no database " * 100)
    agent = planner(plan(tool_step("note", text="a")), satisfied(), answer("Done.")).with_memory(path)
    recorder = EventRecorder()
    async with agent.with_tools(note).build() as built:
        built.subscribe(recorder)
        assert (await built.run("Note a.")).output == "Done."
    assert len(recorder.of(PlanStoreFailed)) == 1


async def test_calls_of_the_first_try_count_when_an_answer_is_planned_anew() -> None:
    judged = satisfied()
    agent = (
        planner(
            plan(tool_step("look")),
            judged,
            say("The desk weighs 450 kilograms.", when=ANSWERING),
            steps(analysis_step("Write it again."), when="The number '450' was not observed."),
            say("There is a desk.", when=ANALYSING),
            judged,
        )
        .with_tools(look)
        .with_required_tools("look")
        .with_budget(calls={"look": 1})
        .with_verification(action="retry")
        .build()
    )
    result = await agent.run("What is there?")
    assert (result.status, result.output) == ("completed", "There is a desk."), result.reason
    assert NOTED == ["looked"], "the plan of the second try needs no step for it"


def test_a_resumed_plan_and_an_earlier_try_do_not_count_a_call_twice() -> None:
    step = evolve(a_plan().steps[0], type="tool_call", tool_name="look", status="completed", result="a desk")
    resumed = evolve(a_plan(), steps=(step,))
    assert earlier_progress(resumed, Progress("p")).calls.succeeded == {"look": 1}
    assert earlier_progress(
        resumed, Progress("p", calls=CallCounts(succeeded={"look": 1}))
    ).calls.succeeded == {"look": 1}
    assert earlier_progress(resumed, Progress("p", calls=CallCounts({"look": 2}))).calls.attempts == {
        "look": 2
    }


async def test_a_cancelled_plan_has_the_calls_under_way_and_not_those_that_share_their_ids() -> None:
    begun = anyio.Event()

    async def pay(to: str) -> str:
        """Pay somebody."""
        begun.set()
        await anyio.sleep(30)
        return to

    async def hold(context: ExecutionContext) -> None:
        if "Beth" in str(context.messages):
            await anyio.sleep(30)

    def step(name: str) -> dict[str, object]:
        instruction = {"title": name, "instruction": f"pay {name}", "type": "composite"}
        return {**instruction, "tool_hints": ["pay"], "depends_on": []}

    def paying(name: str) -> Turn:
        written = json.dumps({"name": "pay", "arguments": {"to": name}})
        return say(f"<tool_call>{written}</tool_call>", when=f"pay {name}")

    plan = say(json.dumps({"steps": [step("Adam"), step("Beth")]}))
    agent = (
        ReactiveAgents.create()
        .with_llm(ScriptedLLM(plan, paying("Adam"), paying("Beth")))
        .with_reasoning("plan-execute-reflect", strategies={"plan_execute": {"plan_mode": "dag"}})
        .with_tools(pay)
        .with_hook("act", "before", hold)
        .build()
    )
    failed: list[TaskFailed] = []
    agent.subscribe(lambda event: failed.append(event) if isinstance(event, TaskFailed) else None)

    async def run() -> None:
        with pytest.raises(AgentError):
            await agent.run("Pay them.")

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await begun.wait()
        agent.cancel(agent.running()[0])
    (last,) = failed
    actions = [each.content for each in last.steps if each.type == "action"]
    assert len(actions) == 1
    assert "Adam" in actions[0]
