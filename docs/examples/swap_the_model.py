"""Replace the model of an agent by overriding its provider in the container.

Prints:

    offline/quotes: There is nothing to quote for this question, and this model can only quote.
    scripted/parrot: Hello!
    offline/quotes: There is nothing to quote for this question, and this model can only quote.
"""

from __future__ import annotations

from dependency_injector import providers

from reactive_agents import ReactiveAgents
from reactive_agents.testing import ScriptedLLM, forever, say

QUESTION = "Greet me like a parrot."


def main() -> None:
    agent = ReactiveAgents.create().with_model("offline").with_reasoning().build()

    def ask() -> None:
        result = agent.run_sync(QUESTION)
        print(f"{result.metadata.model}: {result.output}")

    ask()
    parrot = ScriptedLLM(forever(say("Hello!")), model="scripted/parrot")
    with agent.container.models.llm.override(providers.Object(parrot)):
        agent.container.reset_singletons()  # the engine was made already, with the model of then
        ask()
    agent.container.reset_singletons()
    ask()


if __name__ == "__main__":
    main()
