"""Stream a run: its steps as they happen, and the answer's text in deltas.

A piece ends where no secret can have begun, which need not be where the model ended it.

Prints:

    calls {"tool": "moons", "arguments": {"planet": "Mars"}}
    sees ["Phobos", "Deimos"]
    Mars |has |two moons,| |Phobos |and |Deimos.|
    completed after 2 model calls
"""

from __future__ import annotations

import anyio

from reactive_agents import ReactiveAgents
from reactive_agents.core.events import ModelTextStreamed, ReasoningStepCompleted, TaskCompleted
from reactive_agents.testing import ScriptedLLM, call, say


def moons(planet: str) -> list[str]:
    """The moons of a planet."""
    return {"Mars": ["Phobos", "Deimos"]}.get(planet, [])


async def main() -> None:
    model = ScriptedLLM(call("moons", planet="Mars"), say("Mars has two moons, Phobos and Deimos."))
    async with ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(moons).build() as agent:
        async for event in agent.stream("How many moons has Mars?"):
            match event:
                case ReasoningStepCompleted(action=str(action)):
                    print("calls", action)
                case ReasoningStepCompleted(observation=str(seen)):
                    print("sees", seen)
                case ModelTextStreamed(text=text):
                    print(text, end="|", flush=True)
                case TaskCompleted(result=result):
                    print(f"\n{result.status} after {result.metadata.model_calls} model calls")


if __name__ == "__main__":
    anyio.run(main)
