"""Replace clock and ids, so that times, durations and ids of a run are fixed.

Prints:

    2026-01-01T00:00:00+00:00 TaskStarted
    2026-01-01T00:01:30+00:00 ToolCallCompleted
    2026-01-01T00:01:30+00:00 TaskCompleted
    task id-0001 took 90 seconds
"""

from __future__ import annotations

from dependency_injector import providers

from reactive_agents import ReactiveAgents
from reactive_agents.core.events import TaskCompleted, TaskStarted, ToolCallCompleted
from reactive_agents.testing import EventRecorder, FakeClock, ScriptedLLM, SequentialIds, call, say


def main() -> None:
    clock = FakeClock()

    def boil_an_egg() -> str:
        """Boil an egg."""
        clock.advance(90)
        return "soft"

    model = ScriptedLLM(call("boil_an_egg"), say("The egg is soft."))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(boil_an_egg).build()
    agent.container.core.clock.override(providers.Object(clock))
    agent.container.core.ids.override(providers.Object(SequentialIds()))
    recorder = EventRecorder()
    agent.subscribe(recorder)

    result = agent.run_sync("Boil me an egg.")
    for event in recorder.events:
        if isinstance(event, TaskStarted | ToolCallCompleted | TaskCompleted):
            print(event.at.isoformat(), type(event).__name__)
    print(f"task {result.task_id} took {result.metadata.duration_ms / 1000:g} seconds")


if __name__ == "__main__":
    main()
