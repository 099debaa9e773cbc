"""What serving adds: latency of requests and events, memory of streams, 500 of them at once.

``python -m tests.benchmarks.serving``: the server is a process of its own; reader and server share a clock.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from datetime import UTC, datetime
from typing import Any

import anyio
from returns.result import Result, Success

from reactive_agents import ReactiveAgents, tool
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall, ToolMessage
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted, Usage
from reactive_agents.effects import attempt, effect
from reactive_agents.server import KeyLimits, create_app
from reactive_agents.server.process import DrainingServer, bound_socket

STREAMS, STEPS, ROUNDS = 500, 10, 200
ENOUGH = KeyLimits(requests_per_minute=1_000_000, runs=5_000, streams=5_000)


@tool
async def tick(seconds: float, number: int) -> str:
    """Wait."""
    await anyio.sleep(seconds)
    return f"waited {number}"


class SteppingModel:
    """Calls the tool as often as the task says, and then answers; it keeps nothing."""

    model = "bench/steps"

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        task = next(each.content for each in request.messages if "ticks: " in each.content)
        steps, seconds = task.partition("ticks: ")[2].split()[:2]
        done = sum(isinstance(each, ToolMessage) for each in request.messages)
        usage = Usage(10, 5, 15)
        if done >= int(steps):
            return Success(ModelResponse("The answer is here.", self.model, usage=usage, cost_usd=0.0))
        call = ToolCall(CallId(f"call-{done}"), "tick", {"seconds": float(seconds), "number": done})
        return Success(ModelResponse("", self.model, (call,), "", "tool_calls", usage, 0.0))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        answered = await attempt(self.complete(request))
        yield answered.map(StreamCompleted)


def served_agent() -> Any:
    """The agent of the measurements."""
    builder = ReactiveAgents.create().with_llm(SteppingModel()).with_reasoning()
    return builder.with_tools(tick).with_max_iterations(STEPS + 5).build()


def serve() -> None:
    """Serve the agent, and print the port."""
    app = create_app(served_agent(), limits=ENOUGH, drain_s=0)
    with bound_socket("127.0.0.1", 0) as listening:
        print(listening.getsockname()[1], flush=True)
        anyio.run(DrainingServer(app, service=app.state.service, drain_s=0).serve, [listening])


def memory_kb(process: int) -> int:
    """Return the resident memory of a process."""
    with open(f"/proc/{process}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def cpu_ms(process: int) -> float:
    """Return the processor time that a process has used."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1_000 / os.sysconf("SC_CLK_TCK")


async def timed(pending: Awaitable[object]) -> float:
    """Return the milliseconds that something takes."""
    began = time.perf_counter()
    await pending
    return (time.perf_counter() - began) * 1_000


async def request(port: int, method: str, path: str, body: object = None) -> Any:
    """Return the JSON answer to a request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n"
    )
    writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + data)
    text = await reader.read()
    writer.close()
    return json.loads(text.partition(b"\r\n\r\n")[2])


async def follow(port: int, run: str, late_ms: list[float]) -> int:
    """Read the events of a run; add how late each came after it happened. Return their number."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_000_000)
    writer.write(f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    events, begun = 0, datetime.now(UTC)
    while True:
        line = await reader.readline()
        if line.startswith(b"event: run") or not line:
            break
        if line.startswith(b"data: "):
            happened = line.partition(b'"at":"')[2].partition(b'"')[0].decode()
            events += 1
            if (at := datetime.fromisoformat(happened)) > begun:  # not one that was kept for the reader
                late_ms.append((datetime.now(UTC) - at).total_seconds() * 1_000)
    writer.close()
    return events


def shown(values: Sequence[float]) -> str:
    """Return median, 95th and 99th percentile."""
    cuts = statistics.quantiles(values, n=100)
    return f"{statistics.median(values):.2f} / {cuts[94]:.2f} / {cuts[98]:.2f}"


async def begin(port: int, steps: int, seconds: float) -> str:
    """Begin a run, and return its id."""
    run = await request(port, "POST", "/v1/runs", {"task": f"ticks: {steps} {seconds}"})
    return str(run["run_id"])


async def requests(port: int, process: int) -> None:
    """Print what a request costs."""
    agent = served_agent()
    body = {"model": "agent", "messages": [{"role": "user", "content": "ticks: 1 0"}]}
    for _ in range(20):
        await agent.run("ticks: 1 0")
        await request(port, "POST", "/v1/chat/completions", body)
    used = time.process_time()
    direct = [await timed(agent.run("ticks: 1 0")) for _ in range(ROUNDS)]
    own_ms = (time.process_time() - used) * 1_000 / ROUNDS
    used = cpu_ms(process)
    whole = [await timed(request(port, "POST", "/v1/chat/completions", body)) for _ in range(ROUNDS)]
    chat_ms = (cpu_ms(process) - used) / ROUNDS
    used = cpu_ms(process)
    alive = [await timed(request(port, "GET", "/healthz")) for _ in range(ROUNDS)]
    alive_ms = (cpu_ms(process) - used) / ROUNDS
    print(f"run of one tool call, no server: {own_ms:.2f} ms CPU, {shown(direct)} ms")
    print(f"the same as a chat completion: {chat_ms:.2f} ms CPU of the server, {shown(whole)} ms")
    print(f"GET /healthz: {alive_ms:.2f} ms CPU of the server, {shown(alive)} ms")


async def memory(port: int, process: int) -> None:
    """Print what a stream and a run hold."""
    before, late = memory_kb(process), list[float]()
    run = await begin(port, 1, 20.0)
    readers = [asyncio.create_task(follow(port, run, late)) for _ in range(STREAMS)]
    await asyncio.sleep(8)
    print(f"{STREAMS} idle streams of one run: {(memory_kb(process) - before) / STREAMS:.1f} kB each")
    await asyncio.gather(*readers)
    before = memory_kb(process)
    runs = [await begin(port, 1, 40.0) for _ in range(STREAMS)]
    with_runs = memory_kb(process)
    readers = [asyncio.create_task(follow(port, each, late)) for each in runs]
    await asyncio.sleep(8)
    streams = (memory_kb(process) - with_runs) / STREAMS
    print(
        f"{STREAMS} runs under way: {(with_runs - before) / STREAMS:.1f} kB each, a stream {streams:.1f} more"
    )
    await asyncio.gather(*readers)


async def load(port: int, process: int) -> None:
    """Print what many streams at once cost, and how late their events are."""
    late = list[float]()
    await follow(port, await begin(port, 12, 0.2), late)
    print(f"one stream: an event is read {shown(late)} ms after it happened")

    async def all_of(steps: int, pause: float, *, streamed: bool) -> None:
        late, began, used = list[float](), time.perf_counter(), cpu_ms(process)
        reading = []
        for _ in range(STREAMS):
            run = await begin(port, steps, pause)
            path = f"/v1/runs/{run}?wait_s=60"
            reading.append(
                asyncio.create_task(follow(port, run, late) if streamed else request(port, "GET", path))
            )
        read = await asyncio.gather(*reading)
        events = sum(read) if streamed else 0
        took, each = time.perf_counter() - began, (cpu_ms(process) - used) / STREAMS
        kind = f"{STREAMS} runs of {steps} steps, {pause:g} s each, {'streamed' if streamed else 'awaited'}"
        print(f"{kind}: {took:.1f} s, {each:.1f} ms CPU of the server for a run, {events} events")
        if streamed:
            print(f"    an event is read {shown(late)} ms after it happened")

    await all_of(STEPS, 0.0, streamed=False)
    await all_of(STEPS, 0.0, streamed=True)
    await all_of(3, 10.0, streamed=True)


def main() -> None:
    """Measure a server in a process of its own."""
    if "--serve" in sys.argv:
        serve()
        return
    command = [sys.executable, "-m", "tests.benchmarks.serving", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            for measure in (requests, memory, load):
                asyncio.run(measure(port, process.pid))
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
