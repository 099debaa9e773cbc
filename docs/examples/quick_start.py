"""The shortest agent: a model, the built-in tools, one question.

The offline model needs no key and no network; put "openai/gpt-5.4-mini" or another model in its place.

Prints:

    completed by final_answer
    17 * 23 = 391
"""

from __future__ import annotations

from reactive_agents import ReactiveAgents


def main() -> None:
    agent = ReactiveAgents.create().with_model("offline").with_reasoning().with_tools("calculator").build()
    result = agent.run_sync("What is 17 * 23?")
    print(f"{result.status} by {result.metadata.terminated_by}")
    print(result.output)


if __name__ == "__main__":
    main()
