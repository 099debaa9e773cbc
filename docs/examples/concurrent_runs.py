"""One agent, several concurrent runs with separate results; one is cancelled.

Prints:

    What is 2 * 3? 2 * 3 = 6
    What is 4 * 5? 4 * 5 = 20
    What is 6 / 0? 6 / 0: not calculated. The tool 'calculator' failed (ZeroDivisionError): division by zero
    cancelled in phase think
"""

from __future__ import annotations

import anyio

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, Task
from reactive_agents.core.errors import RunCancelled
from reactive_agents.effects import gather
from reactive_agents.testing import ScriptedLLM, say

QUESTIONS = ("What is 2 * 3?", "What is 4 * 5?", "What is 6 / 0?")


async def main() -> None:
    async with ReactiveAgents.create().with_model("offline").with_tools("calculator").build() as agent:
        results = await gather([agent.run_effect(question) for question in QUESTIONS], limit=2)
    for question, result in zip(QUESTIONS, results, strict=True):
        print(question, result.unwrap().output)

    slow = ReactiveAgents.create().with_llm(ScriptedLLM(say("too late", delay=60))).build()
    task = slow.new_task("Take your time.")
    async with anyio.create_task_group() as group:
        group.start_soon(report, slow, task)
        await anyio.wait_all_tasks_blocked()
        slow.cancel(task.id)


async def report(agent: ReactiveAgent, task: Task) -> None:
    try:
        await agent.run(task)
    except AgentError as failure:
        match failure.error:
            case RunCancelled(phase=phase):
                print("cancelled in phase", phase)


if __name__ == "__main__":
    anyio.run(main)
