"""A process that builds agents and lets them go, and prints the kinds of objects that were left by each.

A process of its own, as the other tests of a process import libraries in threads meanwhile, and a measurement
of coverage keeps a tracer for each thread.
"""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from pathlib import Path

from reactive_agents import ReactiveAgents
from reactive_agents.testing import ScriptedLLM, forever, say

BUILDS = 50
"""More than the caches that fill once have entries."""


def say_hello(name: str) -> str:
    """Say hello to somebody."""
    return f"Hello, {name}!"


def build(memory: Path) -> None:
    """Build an agent with what keeps files, threads and connections, run it, and let it go."""
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("Hello."))))
    builder = builder.with_reasoning().with_tools(say_hello).with_guardrails().with_approval()
    builder.with_memory(memory).build().run_sync("Hello?")


def count() -> Counter[str]:
    """Return how many objects of each type there are."""
    gc.collect()
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())


if __name__ == "__main__":
    for _ in range(3):
        build(Path(sys.argv[1]))
    before = count()
    for _ in range(BUILDS):
        build(Path(sys.argv[1]))
    grown = count() - before
    print(json.dumps({name: more for name, more in grown.items() if more >= BUILDS}))
