"""Structured output: answers as typed values, a validator, and how to handle what is no value.

Prints:

    Invoice(customer='Ada', lines=[Line(item='tea', cents=450), Line(item='cake', cents=320)]): 7.70
    partial: no invoice, but the text 'I have lost the slip.'
"""

from __future__ import annotations

from dataclasses import dataclass

from reactive_agents import ModelRetry, ReactiveAgents, RunContext, TypedResult, tool
from reactive_agents.testing import ScriptedLLM, Turn, answer, call, forever, say


@dataclass
class Line:
    item: str
    cents: int


@dataclass
class Invoice:
    customer: str
    lines: list[Line]


@tool
def slip(customer: str) -> str:
    """Read a customer's slip."""
    return f"{customer}: tea 450, cake 320"


def has_the_total(ctx: RunContext[int], invoice: Invoice) -> None:
    total = sum(line.cents for line in invoice.lines)
    if total != ctx.deps:
        raise ModelRetry(f"The lines add up to {total} cents, and {ctx.deps} were paid.")


def run(*turns: Turn) -> TypedResult[Invoice]:
    builder = ReactiveAgents.create(deps=int).with_llm(ScriptedLLM(*turns)).with_tools(slip).with_reasoning()
    agent = builder.with_output_type(Invoice).with_output_validator(has_the_total).build()
    return agent.run_sync("Write the invoice for Ada's tea and cake.", deps=770)


def main() -> None:
    tea, cake = {"item": "tea", "cents": 450}, {"item": "cake", "cents": 320}
    one, both = ({"customer": "Ada", "lines": lines} for lines in ([tea], [tea, cake]))
    result = run(call("slip", customer="Ada"), answer(one), answer(both))  # one does not add up
    if result.status == "completed":  # a type checker knows now that there is an invoice
        print(f"{result.output}: {sum(line.cents for line in result.output.lines) / 100:.2f}")
    lost = run(say("I have lost the slip."), forever(say("I have lost the slip.")))
    print(f"{lost.status}: no invoice, but the text {lost.text!r}")


if __name__ == "__main__":
    main()
