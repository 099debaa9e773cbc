"""Stream a run: its steps as they happen, the progress of a tool, and the answer in deltas.

The answer comes by ``final-answer``, and streams as a text would. A delta ends where no secret can have
begun, which need not be where the model ended it. ``stream_output`` gives the answer alone.

Prints:

    calls {"tool": "moons", "arguments": {"planet": "Mars"}}
    moons 50 % Phobos
    moons 100 % Deimos
    Mars |has |two moons,| |Phobos |and |Deimos.|
    completed after 2 model calls
    Mars has two moons, Phobos and Deimos.
"""

from __future__ import annotations

import anyio

from reactive_agents import ReactiveAgents, RunContext
from reactive_agents.core import events
from reactive_agents.testing import ScriptedLLM, answer, call


async def moons(ctx: RunContext, planet: str) -> list[str]:
    """The moons of a planet."""
    found = {"Mars": ["Phobos", "Deimos"]}.get(planet, [])
    for number, moon in enumerate(found, 1):
        await ctx.progress(number / len(found), moon)
    return found


async def main() -> None:
    turns = (call("moons", planet="Mars"), answer("Mars has two moons, Phobos and Deimos."))
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns, *turns)).with_reasoning()
    async with builder.with_tools(moons).build() as agent:
        async for event in agent.stream("Which moons has Mars?"):
            match event:
                case events.ReasoningStepCompleted(action=str(action)) if "moons" in action[:20]:
                    print("calls", action)
                case events.ToolProgressed(tool_name=name, progress=float(part), message=message):
                    print(name, f"{100 * part:.0f} %", message)
                case events.ModelTextStreamed(text=text):
                    print(text, end="|", flush=True)
                case events.ModelTextRetracted() | events.ModelStreamRestarted():
                    print(" (that was not the answer)")
                case events.TaskCompleted(result=result):
                    print(f"\n{result.status} after {result.metadata.model_calls} model calls")
        latest = ""
        async for text in agent.stream_output("Which moons has Mars?"):
            latest = text
        print(latest)


if __name__ == "__main__":
    anyio.run(main)
