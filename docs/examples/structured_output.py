"""Structured output: answers as typed values, and how to handle invalid ones.

Prints:

    Invoice(customer='Ada', lines=[Line(item='tea', cents=450), Line(item='cake', cents=320)]): 7.70
    partial: no invoice, but the text 'I have lost the slip.'
"""

from __future__ import annotations

from dataclasses import dataclass

from reactive_agents import ReactiveAgents, TypedResult
from reactive_agents.testing import ScriptedLLM, Turn, forever, say


@dataclass
class Line:
    item: str
    cents: int


@dataclass
class Invoice:
    customer: str
    lines: list[Line]


def run(*turns: Turn) -> TypedResult[Invoice]:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
    return builder.with_output_type(Invoice).build().run_sync("Write the invoice for Ada's tea and cake.")


def main() -> None:
    answer = '{"customer": "Ada", "lines": [{"item": "tea", "cents": 450}, {"item": "cake", "cents": "320"}]}'
    done = run(say(f"Here is the invoice:\n{answer}"))
    if done.status == "completed":  # a type checker knows now that there is an invoice
        print(f"{done.output}: {sum(line.cents for line in done.output.lines) / 100:.2f}")
    result = run(say("I have lost the slip."), forever(say("There is no invoice.")))
    print(f"{result.status}: no invoice, but the text {result.text!r}")


if __name__ == "__main__":
    main()
