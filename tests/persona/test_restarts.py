"""A persona that was stopped in the middle of a plan goes on with it, and repeats nothing that is done."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.core.persona_events import PersonaPlanResumed, PersonaStepStarted
from reactive_agents.effects import attempt
from reactive_agents.testing import ScriptedLLM, say
from tests.support.personas import an_event, assessed, persona_bench

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
    active = (await attempt(bench.persona.reasoning.current_plan())).unwrap().unwrap()
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
    from tests.support.personas import planned

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
