"""The outcome of the agent loop on its way out: what the guardrail takes away, nothing after it sees."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import GuardrailViolationError, RuntimeErrors
from reactive_agents.core.findings import replacing
from reactive_agents.core.governance import GuardrailReport
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import AssistantMessage, Message
from reactive_agents.core.plans import PlanStep
from reactive_agents.core.reasoning import ReasoningResult, ThoughtTree
from reactive_agents.core.steps import ReasoningStep, StepMetadata
from reactive_agents.core.values import replaced
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.guarding import check_text
from reactive_agents.engine.lifecycle import fire_on_error
from reactive_agents.engine.services import EngineServices
from reactive_agents.engine.stored_plans import rewrite_stored_plans
from reactive_agents.kernel import KernelState
from reactive_agents.reasoning.typed_output import still_of

WITHHELD = "[withheld]"
_SHORTEST_SPAN = 4
"""Shorter spans occur everywhere, and say nothing by themselves."""

_Redact: TypeAlias = Callable[[str], str]


async def guard_output(
    result: ReasoningResult, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context with the result, redacted where the guardrail did so: in steps, transcript and plans too.

    Fails with ``GuardrailViolationError`` when the output may not go out, and with ``ExecutionError`` when it
    could not be checked. Then nothing that the run wrote is left of it but which tools it used.
    """
    handle = services.handle
    context, output = handle.current_context(), result.output
    if not services.ports.guardrail or not output:
        return Success(replaced(context, reasoning=result))
    checked = await check_text(output, "output", services)
    error: RuntimeErrors | None = None
    if not isinstance(checked, Success):
        error = context.failure_of(handle.phase)(checked.failure())
    elif not checked.unwrap().allowed:
        violation = checked.unwrap().violation
        message = f"The output was blocked by a guardrail: {violation}"
        error = GuardrailViolationError(message, context.task_id, violation)
    report = checked.unwrap() if isinstance(checked, Success) else GuardrailReport(allowed=False)
    if error is None:
        if report.redacted is not None:
            redact = _redacting(output, report)
            result = await _with_redactions(result, report.redacted, redact, services)
        return Success(replaced(handle.current_context(), reasoning=result))
    redact = _redacting(output, report)
    _withhold(services)
    await rewrite_stored_plans(lambda step: _withheld_step(_redacted_step(step, redact)), services)
    await fire_on_error(handle.phase, handle.current_context(), error, services)
    return Failure(error)


def _withhold(services: EngineServices) -> None:
    def withheld(state: KernelState) -> KernelState:
        steps = tuple(evolve(step, content=WITHHELD, metadata=_unhealed(step)) for step in state.steps)
        return replaced(state, steps=steps, messages=(), pending=(), output=None, proposal=None)

    services.handle.rewrite(withheld)


def _unhealed(step: ReasoningStep) -> StepMetadata | None:
    return None if step.metadata is None else evolve(step.metadata, healings=())


async def _with_redactions(
    result: ReasoningResult, output: str, redact: _Redact, services: EngineServices
) -> ReasoningResult:
    last = services.handle.kernel_state

    def redacted(state: KernelState) -> KernelState:
        messages = tuple(_redacted_message(message, redact) for message in state.messages)
        said = output if state is last else state.output and redact(state.output)
        return replaced(state, steps=_redacted_steps(state.steps, redact), messages=messages, output=said)

    services.handle.rewrite(redacted)
    await rewrite_stored_plans(lambda step: _redacted_step(step, redact), services)
    result = evolve(
        result,
        output=output,
        steps=_redacted_steps(result.steps, redact),
        metadata=evolve(result.metadata, reason=redact(result.metadata.reason)),
        tree=None if result.tree is None else _redacted_tree(result.tree, redact),
    )
    return services.ports.output_shape.map(partial(still_of, result=result)).value_or(result)


def _redacting(output: str, report: GuardrailReport) -> _Redact:
    """Takes out of other texts what the guardrail took out of the output: all of it, or a span of it."""
    whole = (output, WITHHELD if report.redacted is None else report.redacted)
    spans: list[tuple[str, str]] = []
    for finding in report.findings:
        span = output[finding.start : finding.end]
        if finding.action != "warn" and len(span.strip()) >= _SHORTEST_SPAN:
            spans.append((span, WITHHELD if finding.action == "block" else f"[{finding.category}]"))
    replace_spans = replacing((*spans, *map(_both_in_json, spans)))

    def redact(text: str) -> str:
        for old, new in (_both_in_json(whole), whole):  # the longer first
            text = text.replace(old, new)
        return replace_spans(text)

    return redact


def _both_in_json(pair: tuple[str, str]) -> tuple[str, str]:
    return _in_json(pair[0]), _in_json(pair[1])


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _redacted_steps(steps: Iterable[ReasoningStep], redact: _Redact) -> tuple[ReasoningStep, ...]:
    return tuple(evolve(step, content=redact(step.content)) for step in steps)


def _redacted_step(step: PlanStep, redact: _Redact) -> PlanStep:
    return evolve(
        step,
        title=redact(step.title),
        instruction=redact(step.instruction),
        tool_args=_redacted_object(step.tool_args, redact),
        result=None if step.result is None else redact(step.result),
        error=None if step.error is None else redact(step.error),
    )


def _withheld_step(step: PlanStep) -> PlanStep:
    result, error = (None if text is None else WITHHELD for text in (step.result, step.error))
    return evolve(step, result=result, error=error)


def _redacted_tree(tree: ThoughtTree, redact: _Redact) -> ThoughtTree:
    return evolve(tree, nodes=tuple(evolve(node, thought=redact(node.thought)) for node in tree.nodes))


def _redacted_message(message: Message, redact: _Redact) -> Message:
    if isinstance(message, AssistantMessage):
        calls = tuple(
            evolve(call, arguments=_redacted_object(call.arguments, redact), malformed=redact(call.malformed))
            for call in message.tool_calls
        )
        return evolve(
            message, content=redact(message.content), thinking=redact(message.thinking), tool_calls=calls
        )
    return evolve(message, content=redact(message.content))


def _redacted_value(value: Json, redact: _Redact) -> Json:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_redacted_value(item, redact) for item in value]
    return _redacted_object(value, redact) if isinstance(value, dict) else value


def _redacted_object(value: JsonObject, redact: _Redact) -> JsonObject:
    return {key: _redacted_value(item, redact) for key, item in value.items()}
