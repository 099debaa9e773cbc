"""The yardstick: an agent loop written by hand with plain dictionaries, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any


class BareModel:
    """Calls tools for ``turns`` turns, then answers."""

    def __init__(self, turns: int, calls: int = 1) -> None:
        self.turns = turns
        self.calls = calls

    async def __call__(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        turn = (len(messages) - 2) // (1 + self.calls)
        if turn >= self.turns:
            return {"role": "assistant", "content": "The answer is 3."}
        made = [
            {"id": f"call-{turn}-{n}", "name": "work", "arguments": {"number": turn, "text": "x"}}
            for n in range(self.calls)
        ]
        return {"role": "assistant", "content": "", "tool_calls": made}


async def work(number: int, text: str) -> str:
    """The tool of most scenarios."""
    return f"{text}{number}"


async def nap(number: int, text: str) -> str:
    """The tool that takes 50 ms."""
    await asyncio.sleep(0.05)
    return f"{text}{number}"


async def run_bare(model: BareModel, tool: Any) -> str:
    """One task."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a careful assistant."},
        {"role": "user", "content": "What is 1 + 2?"},
    ]
    while True:
        answer = await model(messages)
        messages.append(answer)
        made = answer.get("tool_calls")
        if not made:
            return str(answer["content"])
        results = await asyncio.gather(*(tool(**call["arguments"]) for call in made))
        for call, result in zip(made, results, strict=True):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
