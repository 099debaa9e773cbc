"""The scenarios: the same work by the framework and by the bare loop, timed in turns."""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import frozen

from reactive_agents import ReactiveAgent
from tests.benchmarks.bare_loop import BareModel, nap, run_bare, work
from tests.benchmarks.framework import LoopModel, build_agent, build_real_agent


@frozen
class Measurement:
    """One figure of a scenario.

    Attributes:
        ours: the framework's figure.
        bare: the bare loop's; ``None`` where there is nothing to compare with.
        reach: what the framework is to stay under.
        peer: that of Agno; ``None`` where it was not measured.
    """

    scenario: str
    what: str
    unit: str
    ours: float
    bare: float | None
    reach: float | None
    peer: float | None = None


async def median_ms(work: Callable[[], Awaitable[object]], runs: int, rounds: int = 5) -> float:
    """The least median of several rounds, in milliseconds a run: what it takes when nothing disturbs it."""
    medians = []
    for _ in range(rounds):
        gc.collect()
        times = []
        for _ in range(runs):
            started = time.perf_counter()
            await work()
            times.append(time.perf_counter() - started)
        medians.append(statistics.median(times))
    return min(medians) * 1000


async def compare(turns: int, runs: int, calls: int = 1, *, slow: bool = False) -> tuple[float, float]:
    """Milliseconds a run: ours and the bare loop's."""
    tool = nap if slow else work
    agent = build_agent(LoopModel(turns, calls, tool.__name__), tool)
    bare = BareModel(turns, calls)
    result = await agent.run("What is 1 + 2?")
    assert result.output == "The answer is 3.", result
    assert result.metadata.model_calls == turns + 1, result.metadata
    ours = await median_ms(lambda: agent.run("What is 1 + 2?"), runs)
    theirs = await median_ms(lambda: run_bare(bare, tool), runs)
    return ours, theirs


async def with_requirements(turns: int, runs: int) -> float:
    """How many times as long a run takes when its tool is required in each turn and budgets are set."""
    plain = build_agent(LoopModel(turns), work)
    bound = build_agent(LoopModel(turns), work, required_calls=turns)
    return await times_as_long(bound, plain, runs)


async def with_nothing(turns: int, runs: int) -> float:
    """Milliseconds of a run that has no services, no hooks, and nobody who reads its events."""
    agent = build_agent(LoopModel(turns), work, everything=False)
    assert (await agent.run("What is 1 + 2?")).metadata.model_calls == turns + 1
    return await median_ms(lambda: agent.run("What is 1 + 2?"), runs)


async def with_other_tools(turns: int, runs: int, other_tools: int) -> float:
    """How many times as long a run takes when there are more tools, which the model does not call."""
    one = build_agent(LoopModel(turns), work)
    many = build_agent(LoopModel(turns), work, other_tools=other_tools)
    return await times_as_long(many, one, runs)


async def times_as_long(agent: ReactiveAgent, other: ReactiveAgent, runs: int) -> float:
    """How many times as long a run of the agent takes as one of the other."""
    assert (await agent.run("What is 1 + 2?")).status == "completed"
    with_it, without = [], []
    for _ in range(5):  # in turns, since the machine is now faster and now slower
        with_it.append(await median_ms(lambda: agent.run("What is 1 + 2?"), runs, rounds=1))
        without.append(await median_ms(lambda: other.run("What is 1 + 2?"), runs, rounds=1))
    return min(with_it) / min(without)


async def in_process() -> list[Measurement]:
    """S1 to S5."""
    found = []
    ours, bare = await compare(turns=0, runs=200)
    found.append(Measurement("S1", "one model call", "ms", ours, bare, 0.4))
    ours, bare = await compare(turns=3, runs=100)
    found.append(Measurement("S2", "three tool calls, then an answer", "ms", ours, bare, 1.0))
    per_step = {}
    for steps, runs in ((10, 60), (50, 20), (200, 6)):
        ours, bare = await compare(turns=steps, runs=runs)
        per_step[steps] = ours / steps
        what = f"{steps} sequential tool calls, a step"
        found.append(Measurement("S3", what, "ms", ours / steps, bare / steps, 0.15))
    growth = per_step[200] / per_step[10]
    found.append(Measurement("S3", "a step of 200 against a step of 10", "times", growth, None, 1.3))
    alone = await with_nothing(0, 200)
    found.append(Measurement("S1", "one model call, nothing else on", "ms", alone, None, None))
    alone = await with_nothing(50, 20) / 50
    found.append(
        Measurement("S3", "50 sequential tool calls, a step, nothing else on", "ms", alone, None, None)
    )
    for scenario, turns, runs in (("S2", 3, 100), ("S3", 50, 20)):
        times = await with_requirements(turns, runs)
        what = f"{turns} tool calls with requirements and budgets, against without"
        found.append(Measurement(scenario, what, "times", times, None, 1.3))
    times = await with_other_tools(50, 20, other_tools=49)
    found.append(Measurement("S3", "50 tool calls with 50 tools, against 1", "times", times, None, 1.3))
    found.extend(await with_services())
    ours, bare = await compare(turns=1, runs=5, calls=8, slow=True)
    found.append(Measurement("S4", "eight parallel tools of 50 ms", "ms", ours, bare, 55.0))
    found.extend(await concurrent(1000))
    return found


SERVICES = ("memory", "guardrails", "verification", "cost", "audit")


async def with_services() -> list[Measurement]:
    """S2 with real services in files: none, each by itself, and all."""
    found = []
    for chosen in ((), *((service,) for service in SERVICES), SERVICES):
        with TemporaryDirectory() as directory:
            agent = build_real_agent(LoopModel(3), work, Path(directory), *chosen)
            async with agent:
                assert (await agent.run("What is 1 + 2?")).output == "The answer is 3."
                ours = await median_ms(lambda agent=agent: agent.run("What is 1 + 2?"), 20)
        name = "every service" if len(chosen) > 1 else "".join(chosen) or "no service"
        found.append(Measurement("S2", f"three tool calls with {name}, in files", "ms", ours, None, None))
    return found


async def concurrent(runs: int) -> list[Measurement]:
    """S5: many S2 runs at once, their time and the memory at their peak."""
    agent = build_agent(LoopModel(3), work)
    bare = BareModel(3)

    async def ours() -> None:
        await asyncio.gather(*(agent.run("What is 1 + 2?") for _ in range(runs)))

    async def theirs() -> None:
        await asyncio.gather(*(run_bare(bare, work) for _ in range(runs)))

    our_ms = await median_ms(ours, 1, rounds=5) / runs
    bare_ms = await median_ms(theirs, 1, rounds=5) / runs
    what = f"{runs} concurrent runs"
    return [
        Measurement("S5", f"{what}, a run", "ms", our_ms, bare_ms, 0.8),
        Measurement("S5", f"{what}, peak memory", "MiB", await peak_mib(ours), await peak_mib(theirs), None),
    ]


async def peak_mib(work: Callable[[], Awaitable[None]]) -> float:
    """The most memory that Python objects took while the work ran, in MiB above what there was before."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        await work()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (peak - before) / 2**20


FIRST_ANSWER = """
from reactive_agents import ReactiveAgents
agent = ReactiveAgents.create().with_model("offline").with_reasoning().build()
assert agent.run_sync("What is 17 * 23?").output
"""
MEMORY = """
import re
from pathlib import Path
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""
"""Not ``resource.getrusage``, whose peak a new process inherits from the one that started it."""


def new_process() -> list[Measurement]:
    """S6: what a new process pays; its bare counterpart is the interpreter alone."""
    interpreter_ms, interpreter_end_ms, interpreter_mib = start("pass")
    imported_ms, _, imported_mib = start("import reactive_agents")
    builder_ms, _, builder_mib = start("from reactive_agents import ReactiveAgents")
    answer_ms, end_ms, answer_mib = start(FIRST_ANSWER)
    return [
        Measurement("S6", "import reactive_agents", "ms", imported_ms - interpreter_ms, None, 150.0),
        Measurement("S6", "process that imported it", "MiB", imported_mib, interpreter_mib, 45.0),
        Measurement("S6", "import ReactiveAgents", "ms", builder_ms - interpreter_ms, None, 250.0),
        Measurement("S6", "process that imported it", "MiB", builder_mib, interpreter_mib, None),
        Measurement("S6", "process start to first answer", "ms", answer_ms, interpreter_ms, 250.0),
        Measurement("S6", "process start to its end", "ms", end_ms, interpreter_end_ms, None),
        Measurement("S6", "process that answered", "MiB", answer_mib, interpreter_mib, None),
    ]


def start(code: str, rounds: int = 9) -> tuple[float, float, float]:
    """Return what a new process that runs the code takes.

    The least wall-clock milliseconds until the code has run, and until the process has ended; the peak of
    resident MiB. The code of modules is compiled beforehand, as it is after the first run of a program.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    told = [sys.executable, "-c", f"{code}\nprint(flush=True)"]
    subprocess.run(told, check=True, capture_output=True, env=environment)
    done, ended = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        with subprocess.Popen(told, stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            done.append((time.perf_counter() - started) * 1000)
        ended.append((time.perf_counter() - started) * 1000)
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}\n{MEMORY}"], check=True, capture_output=True, text=True
    )
    return min(done), min(ended), float(shown.stdout)
