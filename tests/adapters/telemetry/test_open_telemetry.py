"""Traces and metrics over OTLP to a real receiver, and what is in them."""

from __future__ import annotations

import gzip
import json
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import define, evolve, field
from opentelemetry import baggage, context, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from reactive_agents import AgentError, McpServer, ReactiveAgent, ReactiveAgents, agent_tool, tool
from reactive_agents.adapters.system import trace_headers
from reactive_agents.adapters.telemetry.console import describe
from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.core.events import (
    ModelCallCompleted,
    ToolCallCompleted,
    ToolCallStarted,
)
from reactive_agents.core.models import Usage
from reactive_agents.server import create_app
from reactive_agents.testing import EventRecorder, ScriptedLLM, answer, call, calls, fail, say
from tests.support.mcp_server import PROGRAM
from tests.support.servers import asking
from tests.support.waiting import until


@define(eq=False)
class Traced:
    """A tracer provider whose spans stay in memory."""

    exporter: InMemorySpanExporter = field(factory=InMemorySpanExporter)
    provider: TracerProvider = field(factory=lambda: TracerProvider(shutdown_on_exit=False))

    def __attrs_post_init__(self) -> None:
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def spans(self) -> dict[str, ReadableSpan]:
        """Return the spans by name."""
        return {span.name: span for span in self.exporter.get_finished_spans()}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def explode() -> str:
    """Fail."""
    raise OSError("the disk is full")


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def told(span: ReadableSpan, name: str) -> Any:
    return (span.attributes or {}).get(name)


def test_a_run_has_spans_of_its_calls_by_the_conventions() -> None:
    traced = Traced()
    model = ScriptedLLM(call("add", a=1, b=2), answer("It is 3."), model="openai/gpt-test")
    builder = ReactiveAgents.create().with_name("sums").with_llm(model).with_reasoning().with_tools(add)
    agent = builder.with_telemetry(traced.provider).build()
    result = agent.run_sync("Add 1 and 2.", tags=["math"], session="sums-1")
    spans = traced.exporter.get_finished_spans()
    assert [span.name for span in spans] == [
        "chat gpt-test",
        "execute_tool add",
        "chat gpt-test",
        "invoke_agent sums",
    ]
    first, used, _, run = spans
    assert {parent_of(span) for span in spans[:3]} == {id_of(run)}
    assert (parent_of(run), run.kind, first.kind) == (None, SpanKind.INTERNAL, SpanKind.CLIENT)
    assert told(run, "gen_ai.operation.name") == "invoke_agent"
    assert told(run, "gen_ai.agent.name") == "sums"
    assert told(run, "reactive_agents.run.tags") == ("math",)
    assert told(run, "reactive_agents.run.status") == "completed"
    assert told(run, "gen_ai.usage.input_tokens") == result.metadata.usage.input_tokens
    assert told(first, "gen_ai.provider.name") == "openai"
    assert told(first, "gen_ai.request.model") == "gpt-test"
    assert told(first, "gen_ai.usage.output_tokens") > 0
    assert told(first, "gen_ai.response.finish_reasons") == ("tool_calls",)
    assert told(run, "gen_ai.provider.name") == "openai"  # of its first model call
    assert {told(span, "gen_ai.conversation.id") for span in spans} == {"sums-1"}
    assert told(used, "gen_ai.tool.name") == "add"
    assert told(used, "gen_ai.tool.call.id")
    every = json.dumps([dict(span.attributes or {}) for span in spans], default=str)
    assert "Add 1" not in every
    assert "It is 3." not in every
    assert '"a"' not in every


def test_content_is_there_when_asked_for_and_redacted() -> None:
    traced = Traced()
    model = ScriptedLLM(call("add", a=1, b=2), answer("It is 3."))
    builder = ReactiveAgents.create().with_name("sums").with_llm(model).with_reasoning().with_tools(add)
    agent = builder.with_telemetry(traced.provider, content=True).with_redaction(r"pin-\d+").build()
    agent.run_sync("Add 1 and 2 for pin-4711.")
    spans = traced.spans()
    asked = told(spans["invoke_agent sums"], "gen_ai.input.messages")
    assert "Add 1 and 2" in asked
    assert "4711" not in asked
    assert "It is 3." in told(spans["invoke_agent sums"], "gen_ai.output.messages")
    assert json.loads(told(spans["execute_tool add"], "gen_ai.tool.call.arguments")) == {"a": 1, "b": 2}
    assert told(spans["execute_tool add"], "gen_ai.tool.call.result") == "3"
    first, last = (span for span in traced.exporter.get_finished_spans() if span.name.startswith("chat "))
    sent = json.loads(told(first, "gen_ai.input.messages"))
    assert [each["role"] for each in sent[:2]] == ["system", "user"]
    assert "4711" not in told(first, "gen_ai.input.messages")
    (said,) = json.loads(told(first, "gen_ai.output.messages"))
    (asked_for,) = said["parts"]
    assert (said["role"], said["finish_reason"]) == ("assistant", "tool_calls")
    assert asked_for == {**asked_for, "type": "tool_call", "name": "add", "arguments": {"a": 1, "b": 2}}
    *_, called, answered = json.loads(told(last, "gen_ai.input.messages"))
    assert called["parts"] == said["parts"]
    result = {"type": "tool_call_response", "id": asked_for["id"], "response": "3"}
    assert answered == {"role": "tool", "parts": [result]}


def test_tokens_of_the_providers_cache_are_told() -> None:
    traced = Traced()
    usage = Usage(100, 5, 105, cached_tokens=80, cache_write_tokens=20)
    model = ScriptedLLM(evolve(say("Hi."), usage=usage))
    ReactiveAgents.create().with_llm(model).with_telemetry(traced.provider).build().run_sync("Say hi.")
    for span in traced.exporter.get_finished_spans():
        assert told(span, "gen_ai.usage.input_tokens") == 100
        assert told(span, "gen_ai.usage.cache_read.input_tokens") == 80
        assert told(span, "gen_ai.usage.cache_creation.input_tokens") == 20


def test_a_sub_agent_is_below_the_call_that_began_it_and_the_run_below_the_caller() -> None:
    traced = Traced()

    def described(name: str, *turns: Any) -> ReactiveAgents:
        builder = ReactiveAgents.create().with_name(name).with_llm(ScriptedLLM(*turns)).with_reasoning()
        return builder.with_telemetry(traced.provider)

    helper = described("helper", call("add", a=1, b=2), answer("3")).with_tools(add).build()
    asks = agent_tool(helper, name="helper", description="Adds.")
    boss = described("boss", call("helper", task="Add 1 and 2."), answer("It is 3.")).with_tools(asks).build()
    with traced.provider.get_tracer("program").start_as_current_span("request"):
        boss.run_sync("What is 1 + 2?")
        assert trace.get_current_span() is not None
        with traced.provider.get_tracer("program").start_as_current_span("after"):
            pass
    spans = traced.spans()
    line = ["request", "invoke_agent boss", "execute_tool helper", "invoke_agent helper", "execute_tool add"]
    for above, below in pairwise(line):
        assert parent_of(spans[below]) == id_of(spans[above]), below
    assert parent_of(spans["after"]) == id_of(spans["request"])
    assert told(spans["invoke_agent helper"], "reactive_agents.run.parent_id")


def test_calls_beside_each_other_are_current_each_in_its_own_tool() -> None:
    traced = Traced()
    headers: list[str] = []

    @tool
    def look(at: str) -> str:
        """Look at a place."""
        headers.append(trace_headers()["traceparent"])
        return at

    model = ScriptedLLM(calls(call("look", at="a"), call("look", at="b")), answer("So."))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(look)
    builder.with_telemetry(traced.provider).build().run_sync("Look at both.")
    used = [span for span in traced.exporter.get_finished_spans() if span.name == "execute_tool look"]
    assert {f"{id_of(span):016x}" for span in used} == {each.split("-")[2] for each in headers}
    (run,) = (span for span in traced.exporter.get_finished_spans() if "invoke" in span.name)
    assert {parent_of(span) for span in used} == {id_of(run)}
    assert trace_headers() == {}


def test_the_span_of_a_call_ends_with_it_and_not_with_those_beside_it() -> None:
    traced, recorder = Traced(), EventRecorder()

    @tool
    def quick(at: str) -> str:
        """Look at a near place."""
        return at

    @tool(requires_approval=True)
    def slow(at: str) -> str:
        """Look at a far place."""
        time.sleep(0.05)
        return at

    model = ScriptedLLM(
        calls(call("slow", at="a"), call("quick", at="b"), call("quick", at="c")), answer("So.")
    )
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(quick, slow)
    agent = builder.with_approval(lambda _: True).with_telemetry(traced.provider).build()
    agent.subscribe(recorder)
    result = agent.run_sync("Look at all.")
    assert [each.content for each in result.steps if each.type == "observation"] == ["a", "b", "c"]
    spans = {
        (each.attributes or {}).get("gen_ai.tool.call.id"): each
        for each in traced.exporter.get_finished_spans()
    }
    ended = recorder.of(ToolCallCompleted)
    assert [each.tool_name for each in ended] == ["quick", "quick", "slow"]
    for each in ended:
        span = spans[each.call_id]
        assert span.end_time == int(each.at.timestamp() * 1_000_000) * 1000
        assert span.parent == spans[ended[0].call_id].parent


@pytest.mark.system
def test_a_call_of_an_mcp_server_carries_its_span() -> None:
    traced = Traced()
    server = McpServer("far", command=sys.executable, args=(str(PROGRAM),), trust_hints=True)
    llm = ScriptedLLM(call("carried"), answer("So."))
    builder = ReactiveAgents.create().with_llm(llm).with_mcp(server).with_reasoning()
    result = builder.with_telemetry(traced.provider).build().run_sync("Look.")
    span = traced.spans()["execute_tool carried"]
    assert f"{span.context.trace_id:032x}" in str(result.tool_results)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/runs", {"task": "Say hi."}),
        ("/v1/responses", {"model": "clerk", "input": "Say hi."}),
        ("/v1/chat/completions", {"model": "clerk", "messages": [{"role": "user", "content": "Say hi."}]}),
    ],
)
@pytest.mark.parametrize("header", ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "nonsense"])
async def test_a_run_over_http_is_in_the_trace_of_its_request(
    path: str, body: dict[str, Any], header: str
) -> None:
    traced = Traced()
    builder = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(say("Hi."))).with_reasoning()
    app = create_app(builder.with_telemetry(traced.provider).build())
    async with asking(app) as client:
        sent = await client.post(path, json=body, headers={"traceparent": header})
        assert sent.status_code in (200, 201)
        await until(lambda: "invoke_agent clerk" in traced.spans())
    span = traced.spans()["invoke_agent clerk"]
    is_joined = f"{span.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert is_joined == (parent_of(span) == 0xB7AD6B7169203331) == (header != "nonsense")
    assert trace_headers() == {}


@pytest.mark.anyio
async def test_a_run_over_http_is_below_the_span_that_the_program_made_of_the_request() -> None:
    traced = Traced()
    builder = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(say("Hi.")))
    app = create_app(builder.with_telemetry(traced.provider).build())
    sender = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    async with asking(app) as client:
        with traced.provider.get_tracer("program").start_as_current_span("POST /v1/runs"):
            await client.post("/v1/runs", json={"task": "Say hi."}, headers=sender)
            await until(lambda: "invoke_agent clerk" in traced.spans())
    spans = traced.spans()
    assert parent_of(spans["invoke_agent clerk"]) == id_of(spans["POST /v1/runs"])


def test_a_server_that_a_model_chose_gets_no_baggage_of_the_program() -> None:
    traced = Traced()
    state = trace.TraceState([("vendor", "tenant-7")])
    above = trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(1), trace_state=state)
    current = trace.set_span_in_context(trace.NonRecordingSpan(above))
    token = context.attach(baggage.set_baggage("user", "ada@example.org", current))
    try:
        with traced.provider.get_tracer("program").start_as_current_span("request"):
            assert list(trace_headers()) == ["traceparent"]
    finally:
        context.detach(token)


def test_failures_have_their_kind_and_no_content() -> None:
    traced = Traced()
    model = ScriptedLLM(call("explode"), fail("no"))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(explode)
    with pytest.raises(AgentError):
        agent.with_telemetry(traced.provider).build().run_sync("Go.")
    for name in ("execute_tool explode", "chat test", "invoke_agent agent"):
        span = next(each for each in reversed(traced.exporter.get_finished_spans()) if each.name == name)
        assert span.status.status_code == StatusCode.ERROR
        assert told(span, "error.type")
        assert "disk" not in str(span.status.description)


def test_a_run_that_is_cut_off_leaves_no_open_span() -> None:
    traced = Traced()
    from reactive_agents.adapters.telemetry.open_telemetry import OpenTelemetryHandler

    handler = OpenTelemetryHandler(traced.provider)
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(call("stop"), say("no"))).with_reasoning()

    @tool
    def stop() -> str:
        """Stop the run."""
        built.stop(built.running()[0])
        return "stopped"

    built = agent.with_tools(stop).build()
    built.subscribe(handler)
    assert built.run_sync("Go.").status == "partial"
    assert handler._runs == {}
    assert "execute_tool stop" in traced.spans()


@pytest.mark.anyio
async def test_what_a_continued_run_takes_from_its_record_is_traced_and_counted_once(
    tmp_path: Path,
) -> None:
    traced, reader, made = Traced(), InMemoryMetricReader(), anyio.Event()
    meters = MeterProvider([reader], shutdown_on_exit=False)

    @tool(idempotent=True)
    async def wait() -> str:
        """Wait once."""
        if not made.is_set():
            made.set()
            await anyio.sleep_forever()
        return "waited"

    def described(*turns: Any) -> ReactiveAgent:
        builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        builder = builder.with_tools(add, explode, wait).with_telemetry(traced.provider, meters)
        return builder.with_durability(tmp_path / "r.db", recover=False).build()

    first = described(calls(call("add", a=1, b=2), call("explode")), call("wait"))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Add, and wait.", run_id="order-1"))
        await made.wait()
        group.cancel_scope.cancel()
    again, seen = described(answer("It is 3.")), EventRecorder()
    again.subscribe(seen)
    result = await again.run("Add, and wait.", run_id="order-1")
    assert (result.metadata.model_calls, result.metadata.tokens_used) == (3, 45)

    assert [each.replayed for each in seen.of(ModelCallCompleted)] == [True, True, False]
    assert [each.replayed for each in seen.of(ToolCallCompleted)] == [True, True, False]
    lines = [line.text for line in map(describe, seen.events) if line is not None]
    assert "the run is continued, attempt 2" in lines
    assert sum("from the record" in each for each in lines) == 4
    names = Counter(span.name for span in traced.exporter.get_finished_spans())
    assert (names["chat test"], names["execute_tool add"]) == (3, 1)
    assert (names["execute_tool wait"], names["invoke_agent agent"]) == (2, 2)  # cut off, and made again
    assert names["execute_tool explode"] == 1
    assert trace.get_current_span() is trace.INVALID_SPAN
    points: dict[str, Any] = {
        metric.name: metric.data.data_points
        for of_resource in reader.get_metrics_data().resource_metrics
        for of_scope in of_resource.scope_metrics
        for metric in of_scope.metrics
    }
    assert sum(each.sum for each in points["gen_ai.client.token.usage"]) == 45


@pytest.mark.anyio
async def test_a_run_that_is_cancelled_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    traced = Traced()
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(call("add", a=1, b=2))).with_reasoning()
    agent = builder.with_tools(add).with_telemetry(traced.provider).with_logging().build()
    with caplog.at_level(logging.INFO, logger="reactive_agents.runs"):
        async with aclosing(agent.stream("Add 1 and 2.")) as events:
            async for event in events:
                if isinstance(event, ToolCallStarted):
                    break
    assert told(traced.spans()["invoke_agent agent"], "reactive_agents.run.status") == "cancelled"
    (line,) = [each for each in caplog.records if each.name == "reactive_agents.runs"]
    assert (line.levelno, "cancelled with RunCancelled" in line.message) == (logging.INFO, True)


# --- over OTLP ------------------------------------------------------------------------------------------


@contextmanager
def receiver() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """An OTLP receiver on loopback: its address, and what it has received."""
    received: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            received.append((self.path, body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_spans_and_metrics_reach_a_receiver() -> None:
    with receiver() as (address, received):
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{address}/v1/traces")))
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{address}/v1/metrics"))
        meters = MeterProvider([reader], shutdown_on_exit=False)
        model = ScriptedLLM(call("add", a=1, b=2), answer("It is 3."))
        builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(add)
        builder.with_telemetry(tracers, meters).build().run_sync("Add 1 and 2.")
        tracers.shutdown()
        meters.shutdown()
    spans = [
        span.name
        for path, body in received
        if path == "/v1/traces"
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]
    assert sorted(spans) == ["chat test", "chat test", "execute_tool add", "invoke_agent agent"]
    metrics = {
        metric.name: metric
        for path, body in received
        if path == "/v1/metrics"
        for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for of_scope in of_resource.scope_metrics
        for metric in of_scope.metrics
    }
    tokens = metrics["gen_ai.client.token.usage"].histogram.data_points
    kinds = {pair.value.string_value for point in tokens for pair in point.attributes if "type" in pair.key}
    assert kinds == {"input", "output"}
    assert sum(point.count for point in tokens) == 4
    assert (
        sum(point.count for point in metrics["gen_ai.client.operation.duration"].histogram.data_points) == 4
    )


# --- the log --------------------------------------------------------------------------------------------


def test_runs_are_in_the_log_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "reactive_agents.runs")
    model = ScriptedLLM(call("explode"), call("add", a=1, b=2), answer("It is 3."))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(add, explode)
    result = agent.with_name("clerk").with_logging().build().run_sync("Add 1 and 2.")
    of_runs = {
        (vars(each)["run_id"], vars(each)["agent"])
        for each in caplog.records
        if each.name == "reactive_agents.runs"
    }
    assert of_runs == {(result.run_id, "clerk")}
    lines = [
        (each.levelname, each.getMessage()) for each in caplog.records if each.name == "reactive_agents.runs"
    ]
    assert [level for level, _ in lines].count("INFO") == 1
    assert "completed by final_answer, 3 model calls" in next(
        text for level, text in lines if level == "INFO"
    )
    assert any(level == "WARNING" and "explode failed" in text for level, text in lines)
    assert any(level == "DEBUG" and "answered (" in text for level, text in lines)
    assert not any("Add 1" in text or "It is" in text for _, text in lines)


def test_a_failed_run_is_in_the_log_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    agent = (
        ReactiveAgents.create()
        .with_llm(ScriptedLLM(fail(ModelUnavailable("no\nINFO well", "m"))))
        .with_reasoning()
        .with_logging()
    )
    with pytest.raises(AgentError):
        agent.build().run_sync("Go.")
    (line,) = (each for each in caplog.records if each.name == "reactive_agents.runs")
    assert line.levelname == "ERROR"
    assert "caused by" in line.getMessage()
    assert "no INFO well" in line.getMessage()
