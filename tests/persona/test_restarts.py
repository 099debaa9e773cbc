"""A persona that was stopped in the middle of a plan goes on with it, and repeats nothing that is done."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from returns.future import FutureResult

from reactive_agents import Personas, ReactiveAgents
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.errors import MemoryUnavailable, RateLimited
from reactive_agents.core.persona_events import (
    PersonaPlanAdjusted,
    PersonaPlanResumed,
    PersonaStageFailed,
    PersonaStepEnded,
    PersonaStepStarted,
)
from reactive_agents.core.personas import DeliveryPolicy, PersonaPlan
from reactive_agents.core.run_record import RunFilter
from reactive_agents.effects import attempt
from reactive_agents.testing import (
    FakeTools,
    InMemoryPersonaStore,
    ScriptedLLM,
    answer,
    call,
    fail,
    forever,
    say,
)
from tests.support.personas import an_event, assessed, persona_bench, planned

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]

KILLED_IN_STEP_2 = """
import sys, anyio
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.core.events import TaskStarted
from reactive_agents.testing import ScriptedLLM, say
from tests.support.personas import persona_bench, planned

def tell(event):
    if isinstance(event, TaskStarted) and event.input.startswith("Step two."):
        print("in step two", flush=True)

async def main():
    llm = ScriptedLLM(
        planned("Step one.", "Step two.", "Step three."),
        say("One is done.", when="Step one."),
        say("never", when="Step two.", delay=60.0),
    )
    bench = persona_bench(llm, store=SqlitePersonaStore(sys.argv[1]))
    bench.persona.services.events.subscribe(tell)
    await bench.process()

anyio.run(main)
"""


def kill_in_step_two(path: Path) -> None:
    command = [sys.executable, "-c", KILLED_IN_STEP_2, str(path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        assert (line, process.stderr.read()) == ("in step two\n", "")
    assert process.returncode == -signal.SIGKILL


@pytest.mark.system
@pytest.mark.parametrize("how", ["resume", "the same event again"])
async def test_a_killed_persona_goes_on_where_it_was(tmp_path: Path, how: str) -> None:
    path = tmp_path / "memory.db"
    kill_in_step_two(path)
    store = SqlitePersonaStore(path)
    llm = ScriptedLLM(
        say("Two is done.", when="Step two.\n"), say("Three is done.", when="Step three.\n"), assessed()
    )
    bench = persona_bench(llm, store=store)
    (active,) = (await attempt(store.list_plans(bench.persona.settings.id, status="active"))).unwrap()
    assert [step.status for step in active.plan.steps] == ["completed", "in_progress", "pending"]
    if how == "resume":
        (outcome,) = (await attempt(bench.persona.resume())).unwrap()
    else:
        outcome = (await attempt(bench.persona.process_event("chat", an_event()))).unwrap()
    assert (outcome.status, outcome.answer) == ("completed", "Three is done.")
    assert outcome.plan is not None
    assert outcome.plan.id == active.id
    assert [step.result for step in outcome.plan.plan.steps] == [
        "One is done.",
        "Two is done.",
        "Three is done.",
    ]
    assert [event.step.id for event in bench.recorder.of(PersonaStepStarted)] == ["s2", "s3"]
    assert bench.recorder.of(PersonaPlanResumed)[0].completed_steps == 1
    assert outcome.plan.plan.steps[1].retries == 1
    assert (await attempt(bench.persona.resume())).unwrap() == ()
    journal = (await attempt(store.journal(outcome.plan.task.id))).unwrap()
    names = [type(event).__name__ for event in journal]
    assert names[0] == "PersonaEventReceived"
    assert names[-1] == "PersonaOutcomeEvaluated"
    assert names.count("PersonaPlanResumed") == 1
    await store.aclose()


async def test_a_cancelled_persona_goes_on_as_a_fresh_object(tmp_path: Path) -> None:
    store = SqlitePersonaStore(tmp_path / "memory.db")
    llm = ScriptedLLM(
        planned("Step one.", "Step two."),
        say("One is done.", when="Step one."),
        say("never", when="Step two.", delay=60.0),
    )
    first = persona_bench(llm, store=store)
    async with anyio.create_task_group() as group:

        def stop(event: object) -> None:
            if isinstance(event, PersonaStepStarted) and event.step.id == "s2":
                group.cancel_scope.cancel()

        first.persona.services.events.subscribe(stop)
        group.start_soon(first.process)
    rest = ScriptedLLM(say("Two is done.", when="Step two.\n"), assessed())
    second = persona_bench(rest, store=store)
    (outcome,) = (await attempt(second.persona.resume())).unwrap()
    assert (outcome.status, outcome.answer) == ("completed", "Two is done.")
    assert rest.remaining == 0
    await store.aclose()


DURABLE = """
import os, signal, sys, anyio
from pathlib import Path
from reactive_agents import Personas, ReactiveAgents
from reactive_agents.effects import attempt
from reactive_agents.testing import ScriptedLLM, answer, call

folder, is_first = Path(sys.argv[1]), sys.argv[2] == "first"

def pay(invoice: str) -> str:
    "Pay an invoice."
    with (folder / "paid").open("a") as file:
        file.write(invoice)
    return "paid"

async def look_up(invoice: str) -> str:
    "Look an invoice up."
    if is_first:
        os.kill(os.getpid(), signal.SIGKILL)
    return "It is paid."

async def main():
    turns = [call("pay", invoice="A")] if is_first else []
    llm = ScriptedLLM(*turns, call("look_up", invoice="A"), answer("A is paid."))
    clerk = ReactiveAgents.create().with_reasoning().with_tools(pay, look_up)
    described = Personas.create("Ada").with_memory(folder / "ada.db").with_llm(llm)
    described = described.with_domain("chat", clerk.with_durability(folder / "runs.db"))
    async with described.with_options(reasoning=False).build() as ada:
        if is_first:
            await ada.send("Pay A.")
        (outcome,) = (await attempt(ada.persona.resume())).unwrap()
    print(outcome.status, outcome.answer)

anyio.run(main)
"""


@pytest.mark.system
def test_the_run_of_a_step_goes_on_from_its_record(tmp_path: Path) -> None:
    def process(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", DURABLE, str(tmp_path), name]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert process("first").returncode == -signal.SIGKILL
    assert process("second").stdout == "completed A is paid.\n"
    assert (tmp_path / "paid").read_text() == "A"
    with closing(sqlite3.connect(tmp_path / "runs.db")) as record:
        assert record.execute("SELECT status, attempt FROM runs").fetchall() == [("completed", 2)]


async def test_a_step_whose_record_cannot_be_used_is_tried_again_later(tmp_path: Path) -> None:
    folder, paid = tmp_path / "runs.db", list[str]()
    folder.mkdir()

    def pay(invoice: str) -> str:
        """Pay an invoice."""
        paid.append(invoice)
        return "paid"

    llm = ScriptedLLM(call("pay", invoice="A"), answer("A is paid."))
    clerk = ReactiveAgents.create().with_reasoning().with_tools(pay).with_durability(folder)
    described = Personas.create("Ada").with_llm(llm).with_store(InMemoryPersonaStore())
    described = described.with_domain("chat", clerk).with_options(
        reasoning=False, delivery={"backoff_s": 0.01, "tries": 2}
    )
    async with described.build() as ada:
        left = await ada.process("chat", ada.new_event("Pay A."))
        assert (left.status, paid) == ("declined", [])
        assert "record" in left.reason
        folder.rmdir()
        await anyio.sleep(0.02)  # until its next try
        (outcome,) = (await attempt(ada.persona.resume())).unwrap()
    assert (outcome.answer, paid) == ("A is paid.", ["A"])


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_the_run_of_an_event_that_is_given_up_is_cancelled(tmp_path: Path, is_elsewhere: bool) -> None:
    """Also if another process has it, which does not end it."""
    begun = anyio.Event()

    async def hang() -> str:
        """Hang."""
        begun.set()
        await anyio.sleep(60)
        return "done"

    clerk = ReactiveAgents.create().with_reasoning().with_tools(hang)
    clerk = clerk.with_durability(tmp_path / "runs.db")
    described = Personas.create("Ada").with_llm(ScriptedLLM(call("hang", cost_usd=0.5)))
    described = described.with_memory(tmp_path / "ada.db").with_domain("chat", clerk)
    async with described.with_options(reasoning=False).build() as ada:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: ada.send("Hang."))
            await begun.wait()
            group.cancel_scope.cancel()
        with closing(sqlite3.connect(tmp_path / "ada.db")) as memory, memory:
            memory.execute("UPDATE persona_work SET attempts = 5")  # it ended as many processes
    other = SqliteRunRecord(tmp_path / "runs.db", clock=SystemClock())
    if is_elsewhere:
        (run,) = (await attempt(other.runs(RunFilter()))).unwrap()
        (await attempt(other.claim(run, lambda order: None))).unwrap()
    async with described.with_options(
        reasoning=False, timeouts={"step_s": 0.2 if is_elsewhere else 60.0}
    ).build() as ada:
        (outcome,) = (await attempt(ada.persona.resume())).unwrap()
        assert outcome.plan is not None
        journal = (await attempt(ada.persona.services.store.journal(outcome.plan.task.id))).unwrap()
    await other.aclose()
    assert (outcome.status, outcome.cost_usd) == ("failed", 0.0 if is_elsewhere else 0.5)
    assert "given up" in outcome.reason
    (ended,) = (each.outcome for each in journal if isinstance(each, PersonaStepEnded))
    states = [] if is_elsewhere else [("hang", "may have taken effect")]
    assert [(each.tool, each.state) for each in ended.calls] == states
    assert [each.status for each in outcome.plan.plan.steps] == ["failed"]
    with closing(sqlite3.connect(tmp_path / "runs.db")) as record:
        (found,) = record.execute("SELECT status, wanted FROM runs").fetchall()
    assert found == (("open", "cancel") if is_elsewhere else ("cancelled", ""))


async def test_a_step_whose_run_has_ended_is_completed_in_an_event_that_is_given_up(tmp_path: Path) -> None:
    ended = anyio.Event()

    class Hangs(SqlitePersonaStore):
        def save_plan(self, plan: PersonaPlan, *args: Any, **kwargs: Any) -> Any:
            if plan.plan.steps[0].status == "completed":
                return FutureResult(hang())
            return super().save_plan(plan, *args, **kwargs)

    async def hang() -> Any:
        ended.set()
        await anyio.sleep_forever()

    clerk = ReactiveAgents.create().with_reasoning().with_durability(tmp_path / "runs.db")
    described = Personas.create("Ada").with_llm(ScriptedLLM(say("Paid.")))
    described = described.with_domain("chat", clerk).with_options(reasoning=False)
    store = Hangs(tmp_path / "ada.db")
    async with described.with_store(store).build() as ada, anyio.create_task_group() as group:
        group.start_soon(lambda: ada.send("Pay."))
        await ended.wait()
        group.cancel_scope.cancel()
    with closing(sqlite3.connect(tmp_path / "ada.db")) as memory, memory:
        memory.execute("UPDATE persona_work SET attempts = 10")  # it ended as many processes
    await store.aclose()
    async with described.with_memory(tmp_path / "ada.db").build() as ada:
        (outcome,) = (await attempt(ada.persona.resume())).unwrap()
    assert outcome.plan is not None
    (step,) = outcome.plan.plan.steps
    assert (outcome.status, step.status, step.result) == ("failed", "completed", "Paid.")


KILLED_AS_A_STEP_FAILS = """
import os, signal, sys, anyio
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.core.errors import RateLimited
from reactive_agents.core.persona_events import PersonaStepEnded
from reactive_agents.testing import FakeTools, ScriptedLLM, call, fail
from tests.support.personas import persona_bench, planned

def end(event):
    if isinstance(event, PersonaStepEnded):
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    llm = ScriptedLLM(
        planned("Pay A.", contingencies={"rate_limit": ("Tell Bob.",)}),
        call("pay", invoice="A", when="Pay A."),
        fail(RateLimited("Too many requests.", "m")),
    )
    store = SqlitePersonaStore(sys.argv[1])
    bench = persona_bench(llm, tools=FakeTools({"pay": lambda **given: "It is paid."}), store=store)
    bench.persona.services.events.subscribe(end)
    await bench.process()

anyio.run(main)
"""


@pytest.mark.system
async def test_a_step_that_failed_is_shown_to_the_next_whenever_the_process_ends(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    killed = await anyio.run_process(
        [sys.executable, "-c", KILLED_AS_A_STEP_FAILS, str(path)], cwd=ROOT, check=False
    )
    assert (killed.returncode, killed.stderr) == (-signal.SIGKILL, b"")
    store = SqlitePersonaStore(path)
    llm = ScriptedLLM(say("It is paid.", when="Tell Bob.\n"), assessed())
    bench = persona_bench(llm, store=store)
    (outcome,) = (await attempt(bench.persona.resume())).unwrap()
    await store.aclose()
    assert outcome.status == "completed"
    shown = str(llm.requests[0].messages[-1].content)
    assert "Step s1 failed. What it did may have taken effect; do not do it again" in shown
    assert '- pay {"tool": "pay", "arguments": {"invoice": "A"}} [worked] It is paid.' in shown


@pytest.mark.parametrize("until", [PersonaPlanAdjusted, PersonaStepStarted])
async def test_a_step_that_failed_is_shown_to_the_next_though_the_store_was_busy(until: type) -> None:
    llm = ScriptedLLM(
        planned("Pay A.", contingencies={"rate_limit": ("Tell Bob.",)}),
        call("pay", invoice="A", when="Pay A."),
        fail(RateLimited("Too many requests.", "m")),
        forever(say("It is paid.", when="[worked] It is paid.")),
    )
    tools = FakeTools({"pay": lambda **given: "It is paid."})
    bench = persona_bench(llm, tools=tools, evaluation="off")
    store, save_plan = bench.store, bench.store.save_plan

    def is_busy_after_the_first_step(event: object) -> None:
        if isinstance(event, PersonaStepStarted) and event.step.id == "s1":
            store.save_plan = lambda *given, **named: FutureResult.from_failure(
                MemoryUnavailable("The file is locked.", "save_plan")
            )
        elif isinstance(event, until):
            store.save_plan = save_plan

    bench.persona.services.events.subscribe(is_busy_after_the_first_step)
    outcome = await bench.process()
    assert (outcome.answer, outcome.status) == ("It is paid.", "completed")
    assert outcome.plan is not None
    journal = (await attempt(store.journal(outcome.plan.task.id))).unwrap()
    assert [each.outcome.success for each in journal if isinstance(each, PersonaStepEnded)] == [False, True]


@pytest.mark.parametrize("is_stored", [False, True], ids=["busy", "the answer of the server is lost"])
async def test_the_outcome_of_the_last_step_is_stored_once_though_its_store_failed(is_stored: bool) -> None:
    llm = ScriptedLLM(planned("Pay A."), call("pay", invoice="A"), say("It is paid."))
    bench = persona_bench(llm, tools=FakeTools({"pay": lambda **given: "It is paid."}), evaluation="off")
    store, save_plan = bench.store, bench.store.save_plan

    def fails_after_the_step(plan: object, *given: Any, **named: Any) -> Any:
        if not named.get("journal"):
            return save_plan(plan, *given, **named)
        lost = MemoryUnavailable("The connection is lost.", "save_plan")
        if is_stored:
            return save_plan(plan, *given, **named).bind(lambda _: FutureResult.from_failure(lost))
        return FutureResult.from_failure(lost)

    store.save_plan = fails_after_the_step
    outcome = await bench.process()
    assert outcome.plan is not None
    journal = (await attempt(store.journal(outcome.plan.task.id))).unwrap()
    (ended,) = (each.outcome for each in journal if isinstance(each, PersonaStepEnded))
    assert [each.tool for each in ended.calls] == ["pay"], "what the evaluation is shown"


async def test_no_step_begins_that_a_later_process_would_not_know_of() -> None:
    llm = ScriptedLLM(*[planned("Pay A.")] * 2, say("It is paid.", when="Pay A."))
    bench = persona_bench(llm, evaluation="off", delivery=DeliveryPolicy(backoff_s=0.001))
    save_plan, tries = bench.store.save_plan, list[str]()

    def is_busy_at_first(plan: object, *given: Any, **named: Any) -> Any:
        tries.append("save_plan")
        if len(tries) < 3:
            return FutureResult.from_failure(MemoryUnavailable("The file is locked.", "save_plan"))
        return save_plan(plan, *given, **named)

    bench.store.save_plan = is_busy_at_first
    assert (await bench.process()).status == "declined"
    assert [each.purpose for each in llm.requests] == ["persona-plan"]
    assert {each.stage for each in bench.recorder.of(PersonaStageFailed)} == {"record"}
    bench.clock.advance(1)
    (outcome,) = (await attempt(bench.persona.resume())).unwrap()
    assert outcome.answer == "It is paid."


IN_DOUBT = """
import os, signal, sys, anyio
from pathlib import Path
from reactive_agents import Personas, ReactiveAgents
from reactive_agents.core.errors import RateLimited
from reactive_agents.effects import attempt
from reactive_agents.testing import ScriptedLLM, call, fail, say
from tests.support.personas import assessed, planned

folder, is_first = Path(sys.argv[1]), sys.argv[2] == "first"

def pay(invoice: str) -> str:
    "Pay an invoice."
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    plan = planned("Pay A.", contingencies={"rate_limit": ("Tell Bob.",)})
    llm = ScriptedLLM(plan, call("pay", invoice="A"))
    if not is_first:
        llm = ScriptedLLM(fail(RateLimited("Too many requests.", "m")), say("I do not know."), assessed())
    clerk = ReactiveAgents.create().with_reasoning().with_tools(pay).with_durability(folder / "runs.db")
    described = Personas.create("Ada").with_memory(folder / "ada.db").with_llm(llm)
    async with described.with_domain("chat", clerk).with_options(max_replans=0).build() as ada:
        if is_first:
            await ada.send("Pay A.")
        await attempt(ada.persona.resume())
    for request in llm.requests:
        print(request.messages[-1].content)

anyio.run(main)
"""


@pytest.mark.system
def test_a_call_in_doubt_is_shown_as_one_that_may_have_taken_effect(tmp_path: Path) -> None:
    def process(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", IN_DOUBT, str(tmp_path), name]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert process("first").returncode == -signal.SIGKILL
    shown = process("second").stdout
    called = '- pay {"tool": "pay", "arguments": {"invoice": "A"}} [may have taken effect] In doubt:'
    assert shown.count(called) == 2, "the next step and the evaluation"
