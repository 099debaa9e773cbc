"""An application: fifty tickets sorted by typed output, at most eight at once, within a budget.

Prints:

    50 tickets: 17 urgent, 33 normal
    most for: billing
    model calls: 50
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import anyio
from returns.result import Success

from reactive_agents import ReactiveAgents
from reactive_agents.effects import gather
from reactive_agents.testing import ScriptedLLM, forever, say

TICKETS = [
    f"Ticket {number}: {'my card was charged twice' if number % 3 else 'the site is down'}"
    for number in range(50)
]


@dataclass
class Triage:
    team: Literal["billing", "operations"]
    urgent: bool


BILLING = forever(say('{"team": "billing", "urgent": false}', when="charged twice"))
OUTAGE = forever(say('{"team": "operations", "urgent": true}', when="is down"))


async def main() -> None:
    model = ScriptedLLM(BILLING, OUTAGE)  # in your program: .with_model("openai/gpt-5.4-mini")
    agent = ReactiveAgents.create().with_llm(model).with_output_type(Triage).with_budget(tokens=2_000).build()
    outcomes = await gather([agent.run_effect(ticket) for ticket in TICKETS], limit=8)
    results = [each.unwrap() for each in outcomes if isinstance(each, Success)]
    sorted_out = [result.output for result in results if result.status == "completed"]
    urgent = sum(triage.urgent for triage in sorted_out)
    print(f"{len(sorted_out)} tickets: {urgent} urgent, {len(sorted_out) - urgent} normal")
    print("most for:", Counter(triage.team for triage in sorted_out).most_common(1)[0][0])
    print("model calls:", len(model.requests))


if __name__ == "__main__":
    anyio.run(main)
