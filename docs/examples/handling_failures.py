"""The three ways in which a run ends, and how to handle each.

Prints:

    completed: The water is hot.
    partial: no output. The limit of 2 turns was reached. Missing: a final answer.
    failed: ModelUnavailable after 2 steps and 15 tokens. The server is down.
"""

from __future__ import annotations

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.core.errors import ModelUnavailable, root_cause
from reactive_agents.testing import ScriptedLLM, Turn, answer, call, fail, forever


def heat(degrees: int) -> str:
    """Heat the water to some degrees."""
    if degrees > 100:
        raise ValueError("water boils at 100 degrees")
    return f"{degrees} degrees"


def run(*turns: Turn) -> None:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(heat)
    try:
        result = builder.with_max_iterations(2).build().run_sync("Heat the water.")
    except AgentError as failure:
        cause = root_cause(failure.error)
        tokens = failure.metadata.tokens_used if failure.metadata else 0
        steps = len(failure.steps)
        print(f"failed: {type(cause).__name__} after {steps} steps and {tokens} tokens. {cause.message}")
        return
    if result.success:
        print(f"{result.status}: {result.output}")
    else:
        print(f"{result.status}: {result.output or 'no output'}. {result.reason}")


def main() -> None:
    run(call("heat", degrees=90), answer("The water is hot."))
    run(forever(call("heat", degrees=900)))
    run(call("heat", degrees=90), fail(ModelUnavailable("The server is down.", "openai/gpt-5.4-mini", 503)))


if __name__ == "__main__":
    main()
