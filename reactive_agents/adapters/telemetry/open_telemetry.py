"""Traces and metrics of runs, by OpenTelemetry's conventions for generative AI.

A run is a span ``invoke_agent`` with child spans for model calls, tool calls and plans. Spans are created
from events, and an event is published in the task in which it happens: the span of a tool call is therefore
current while the tool runs, and the parent of requests and runs that the tool begins. Only the API package is
needed; the program's SDK exports the spans.

Content, which the bus has redacted, is included only if requested. A call that a continued run takes from its
record has no span, since the process that made it has sent one: a span that does not end is not exported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from attrs import define, field
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, MeterProvider, get_meter_provider
from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider

from reactive_agents.core import events
from reactive_agents.core.ids import CallId, PlanId, RunId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from reactive_agents.core.tasks import TaskResultMetadata
from reactive_agents.core.usage import Usage

SCOPE = "reactive_agents"
"""Name of the instrumentation."""

_PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "vertex_ai": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "watsonx": "ibm.watsonx.ai",
}
"""Names of providers in the conventions, if they differ from those in model names."""
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)

Attributes: TypeAlias = dict[str, Any]


@define(eq=False)
class _OpenSpan:
    span: Span
    before: Context
    began: datetime
    attributes: Attributes


@define(eq=False)
class _RunSpans:
    run: _OpenSpan
    conversation: Attributes
    models: dict[int, _OpenSpan] = field(factory=dict)
    tools: dict[CallId, _OpenSpan] = field(factory=dict)
    plans: dict[PlanId, _OpenSpan] = field(factory=dict)


class OpenTelemetryHandler:
    """Creates spans and metrics from events; a handler of the bus.

    Args:
        tracer_provider: creates the spans; by default that of the program.
        meter_provider: creates the metrics; by default that of the program.
        content: whether spans have tasks, requests, answers, arguments and results.

    Attributes:
        wants_requests: whether the bus passes it requests to models and their answers.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool = False,
    ) -> None:
        self._tracer = (tracer_provider or trace.get_tracer_provider()).get_tracer(SCOPE)
        meter = (meter_provider or get_meter_provider()).get_meter(SCOPE)
        self._duration: Histogram = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Duration of a model call, a tool call or a run.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._tokens: Histogram = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens of a model call.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._content = self.wants_requests = content
        self._runs: dict[RunId, _RunSpans] = {}
        self._handlers: Mapping[type, Callable[[Any, _RunSpans], None]] = {
            events.TaskCompleted: self._complete_run,
            events.TaskFailed: self._fail_run,
            events.ModelCallStarted: self._begin_model_call,
            events.ModelCallCompleted: self._complete_model_call,
            events.ModelCallAbandoned: self._abandon_model_call,
            events.ToolCallStarted: self._begin_tool_call,
            events.ToolCallCompleted: self._complete_tool_call,
            events.PlanCreated: self._begin_plan,
            events.PlanStepChanged: self._tell_of_plan_step,
            events.PlanEnded: self._end_plan,
            **dict.fromkeys(_NAMED_EVENTS, _add_named_event),
        }

    def __call__(self, event: Any) -> None:
        if isinstance(event, events.TaskStarted):
            self._begin_run(event)
            return
        handle = self._handlers.get(type(event))
        spans = None if handle is None else self._runs.get(event.run_id)
        if handle is not None and spans is not None:  # a run that began earlier has no spans
            handle(event, spans)

    def _begin_run(self, event: events.TaskStarted) -> None:
        conversation = {} if event.session is None else {"gen_ai.conversation.id": event.session}
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": str(event.agent),
            "gen_ai.agent.id": str(event.agent_id),
            "reactive_agents.run.id": str(event.run_id),
            **conversation,
        }
        if event.parent_run_id is not None:
            attributes["reactive_agents.run.parent_id"] = str(event.parent_run_id)
        if event.tags:
            attributes["reactive_agents.run.tags"] = list(event.tags)
        if self._content:
            attributes["gen_ai.input.messages"] = _message("user", event.input)
        opened = self._open(f"invoke_agent {event.agent}", SpanKind.INTERNAL, event, attributes)
        self._runs[event.run_id] = _RunSpans(opened, conversation)

    def _complete_run(self, event: events.TaskCompleted, spans: _RunSpans) -> None:
        result = event.result
        attributes: Attributes = {
            "reactive_agents.run.status": result.status,
            "reactive_agents.run.terminated_by": result.metadata.terminated_by,
        }
        if self._content and result.output:
            attributes["gen_ai.output.messages"] = _message("assistant", str(result.output))
        self._end_run(event, spans, result.metadata, attributes)

    def _fail_run(self, event: events.TaskFailed, spans: _RunSpans) -> None:
        attributes: Attributes = {"reactive_agents.run.status": event.status}
        self._end_run(event, spans, event.metadata, attributes, event.error)

    def _end_run(
        self,
        event: events.Event,
        spans: _RunSpans,
        figures: TaskResultMetadata,
        attributes: Attributes,
        error: Any = None,
    ) -> None:
        del self._runs[event.run_id]
        for left in (*spans.models.values(), *spans.tools.values(), *spans.plans.values()):
            _end(left, event.at, {}, "cancelled")
        spent = {"reactive_agents.run.cost_usd": figures.cost_usd, **_usage(figures.usage)}
        error_type = "" if error is None else _kind(error)
        self._close(spans.run, event.at, attributes | spent, error_type, getattr(error, "message", ""))
        contexts.attach(spans.run.before)

    def _begin_model_call(self, event: events.ModelCallStarted, spans: _RunSpans) -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider(event.model),
            "gen_ai.request.model": event.model.rpartition("/")[2],
            "reactive_agents.purpose": event.purpose,
            **spans.conversation,
        }
        for of_run in ("gen_ai.provider.name", "gen_ai.request.model"):  # of the first call
            spans.run.attributes.setdefault(of_run, attributes[of_run])
        if self._content and event.request is not None:
            attributes["gen_ai.input.messages"] = _json([*map(_said, event.request.messages)])
        name = f"chat {attributes['gen_ai.request.model']}"
        opened = self._open(name, SpanKind.CLIENT, event, attributes)
        spans.models[id(opened.span)] = opened

    def _complete_model_call(self, event: events.ModelCallCompleted, spans: _RunSpans) -> None:
        opened = _current_model_call(spans)
        if opened is None:
            return
        if event.replayed:
            contexts.attach(opened.before)
            return
        opened.attributes["gen_ai.response.model"] = event.model.rpartition("/")[2]
        attributes = _usage(event.usage)
        if event.finish_reason is not None:
            attributes["gen_ai.response.finish_reasons"] = [event.finish_reason]
        if self._content and event.response is not None:
            answered = event.response
            said = AssistantMessage(answered.content, answered.tool_calls, answered.thinking)
            told = {**_said(said), "finish_reason": answered.finish_reason}
            attributes["gen_ai.output.messages"] = _json([told])
        if event.cost_usd is not None:
            attributes["reactive_agents.cost_usd"] = event.cost_usd
        self._close(opened, event.at, attributes)
        contexts.attach(opened.before)
        for kind, tokens in (("input", event.usage.input_tokens), ("output", event.usage.output_tokens)):
            if event.usage.reported:
                self._tokens.record(tokens, _of_metrics(opened.attributes) | {"gen_ai.token.type": kind})

    def _abandon_model_call(self, event: events.ModelCallAbandoned, spans: _RunSpans) -> None:
        opened = _current_model_call(spans)
        if opened is not None:
            if not event.replayed:
                self._close(opened, event.at, {}, _kind(event.error), event.error.message)
            contexts.attach(opened.before)

    def _begin_tool_call(self, event: events.ToolCallStarted, spans: _RunSpans) -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.tool_name,
            "gen_ai.tool.call.id": str(event.call_id),
            "gen_ai.tool.type": "function",
            **spans.conversation,
        }
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = _json(event.arguments)
        spans.tools[event.call_id] = self._open(
            f"execute_tool {event.tool_name}", SpanKind.INTERNAL, event, attributes
        )

    def _complete_tool_call(self, event: events.ToolCallCompleted, spans: _RunSpans) -> None:
        opened = spans.tools.pop(event.call_id, None)
        if opened is None:
            return
        attributes: Attributes = {}
        if self._content and event.arguments is not None:  # an approver has changed them
            attributes["gen_ai.tool.call.arguments"] = _json(event.arguments)
        if self._content and event.success:
            result = event.result
            attributes["gen_ai.tool.call.result"] = result if isinstance(result, str) else _json(result)
        if not event.replayed:
            self._close(opened, event.at, attributes, "" if event.success else "tool_error", event.error)
        contexts.attach(opened.before)

    def _begin_plan(self, event: events.PlanCreated, spans: _RunSpans) -> None:
        attributes: Attributes = {"gen_ai.operation.name": "plan"}
        spans.plans[event.plan_id] = self._open("plan", SpanKind.INTERNAL, event, attributes, current=False)

    def _tell_of_plan_step(self, event: events.PlanStepChanged, spans: _RunSpans) -> None:
        opened = spans.plans.get(event.plan_id)
        if opened is not None:
            step = {
                "reactive_agents.plan.step.id": event.step_id,
                "reactive_agents.plan.step.status": event.status,
            }
            opened.span.add_event(type(event).__name__, step, _nanoseconds(event.at))

    def _end_plan(self, event: events.PlanEnded, spans: _RunSpans) -> None:
        opened = spans.plans.pop(event.plan_id, None)
        if opened is not None:
            self._close(opened, event.at, {"reactive_agents.plan.status": event.status})

    def _open(
        self, name: str, kind: SpanKind, event: events.Event, attributes: Attributes, *, current: bool = True
    ) -> _OpenSpan:
        before = contexts.get_current()
        span = self._tracer.start_span(
            name, before, kind, attributes, start_time=_nanoseconds(event.at), record_exception=False
        )
        if current:
            contexts.attach(trace.set_span_in_context(span, before))
        return _OpenSpan(span, before, event.at, attributes)

    def _close(
        self, opened: _OpenSpan, at: datetime, attributes: Attributes, error_type: str = "", error: str = ""
    ) -> None:
        _end(opened, at, attributes, error_type, error if self._content else "")
        told = _of_metrics(opened.attributes) | ({"error.type": error_type} if error_type else {})
        seconds = max(0.0, (at - opened.began).total_seconds())
        self._duration.record(seconds, told, trace.set_span_in_context(opened.span))


_NAMED_EVENTS = (
    events.ApprovalRequested,
    events.ApprovalDecided,
    events.GuardrailTriggered,
    events.GuidanceGiven,
    events.ContextCompacted,
    events.BudgetWarning,
    events.ToolCallInDoubt,
    events.RunContinued,
    events.ModelStreamRestarted,
)
"""Events that are added to the run's span by name only, since fields may have content."""


def _add_named_event(event: events.Event, spans: _RunSpans) -> None:
    spans.run.span.add_event(type(event).__name__, timestamp=_nanoseconds(event.at))


def _current_model_call(spans: _RunSpans) -> _OpenSpan | None:
    """Return the model call of this task; other tasks may have others."""
    return spans.models.pop(id(trace.get_current_span()), None)


def _end(opened: _OpenSpan, at: datetime, attributes: Attributes, error_type: str, error: str = "") -> None:
    span = opened.span
    told = {**opened.attributes, **attributes}
    if error_type:
        told["error.type"] = error_type
        span.set_status(StatusCode.ERROR, error or None)
    span.set_attributes(told)
    span.end(_nanoseconds(at))


def _of_metrics(attributes: Attributes) -> Attributes:
    return {name: attributes[name] for name in _OF_METRICS if name in attributes}


_OF_METRICS = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.agent.name",
    "gen_ai.tool.name",
)


def _usage(usage: Usage) -> Attributes:
    if not usage.reported:
        return {}
    cached = {
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        **{name: tokens for name, tokens in cached.items() if tokens},
    }


def _message(role: str, text: str) -> str:
    return _json([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _said(message: Message) -> JsonObject:
    text: list[Json] = [{"type": "text", "content": message.content}] if message.content else []
    match message:
        case ToolMessage(call_id=call_id, content=content):
            told: Json = {"type": "tool_call_response", "id": str(call_id), "response": content}
            return {"role": "tool", "parts": [told]}
        case AssistantMessage(tool_calls=calls, thinking=thinking):
            thought: list[Json] = [{"type": "reasoning", "content": thinking}] if thinking else []
            made: list[Json] = [
                {"type": "tool_call", "id": str(each.id), "name": each.name, "arguments": each.arguments}
                for each in calls
            ]
            return {"role": "assistant", "parts": [*thought, *text, *made]}
        case SystemMessage():
            return {"role": "system", "parts": text}
        case UserMessage():
            return {"role": "user", "parts": text}


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def _provider(model: str) -> str:
    named = model.partition("/")[0] if "/" in model else "openai"
    return _PROVIDERS.get(named, named)


def _kind(error: object) -> str:
    return type(error).__name__


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
