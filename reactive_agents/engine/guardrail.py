"""Guardrail checks of a run's input (phase 2), tool results and output."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
import anyio.lowlevel
from anyio import to_thread
from attrs import evolve
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, events
from reactive_agents.core.content import Content
from reactive_agents.core.conversation import without_instructions
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject, map_texts
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from reactive_agents.core.redaction import is_long, joined_texts, redact, replacing
from reactive_agents.core.results import ReasoningResult, ReasoningStep, StepMetadata, ThoughtTree
from reactive_agents.core.run_context import CHECKED_RUN
from reactive_agents.core.texts import unescaped
from reactive_agents.core.values import replaced
from reactive_agents.effects import gather
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.conversations import with_history
from reactive_agents.engine.lifecycle import publish_failure, run_error_hooks
from reactive_agents.engine.run_records import append_or_report
from reactive_agents.engine.services import EngineServices
from reactive_agents.kernel import KernelState, RunEvents
from reactive_agents.kernel.service_calls import call_service
from reactive_agents.kernel.termination import in_time
from reactive_agents.ports import Guardrail, PlanStore
from reactive_agents.reasoning import structured_output

if TYPE_CHECKING:
    from reactive_agents.core.errors import MemoryErrors, RuntimeErrors
    from reactive_agents.core.governance import GuardrailFinding, GuardrailReport, GuardrailStage
    from reactive_agents.core.plans import PlanStep
    from reactive_agents.core.tasks import SubRun


MOST_CHECKED: Final = 8
"""Messages of a history that are checked at the same time; a judge is a request to a model for each."""
MOST_PUBLISHED: Final = 20
"""Findings of one kind in a text that have an event each."""


async def check_text(
    text: str, stage: GuardrailStage, services: EngineServices, *, call_id: CallId | None = None
) -> Result[GuardrailReport, ServiceFailed]:
    """Return the report on a text of the guardrail, which has to be there.

    Findings are events, and a blocked text is an audit entry too. Model calls of the guardrail count as
    usage of the run. A text with JSON escapes is checked both as it is and with the escapes resolved.

    Args:
        call_id: the tool call whose result is checked.
    """
    if is_long(text):
        plain, places = await to_thread.run_sync(unescaped, text)
    else:
        plain, places = unescaped(text)
    checked = await _checked(text, stage, services)
    if plain != text and isinstance(checked, Success):
        first = checked.unwrap()
        again = await _checked(plain, stage, services)
        checked = again.map(lambda found: _combined(text, first, _in_original(found, places)))
    if not isinstance(checked, Success):
        return checked
    report = checked.unwrap()
    publish_findings(report, stage, services.events, call_id)
    if not report.allowed:
        entry = {"subject": report.violation, "detail": f"A guardrail blocked the {stage.replace('-', ' ')}."}
        await append_or_report("guardrail-block", services, stage=stage, call_id=call_id, **entry)
    return checked


def publish_findings(
    report: GuardrailReport, stage: GuardrailStage, run_events: RunEvents, call_id: CallId | None = None
) -> None:
    """Publish the findings of a report as events.

    Of many findings of one kind, those after the first ones have an event together.
    """
    kinds: dict[tuple[str, str], list[GuardrailFinding]] = {}
    for finding in report.findings:
        of_kind = kinds.setdefault((finding.category, finding.action), [])
        of_kind.append(finding)
        if len(of_kind) <= MOST_PUBLISHED:
            _publish(finding, stage, run_events, call_id)
    for of_kind in kinds.values():
        if more := of_kind[MOST_PUBLISHED:]:  # as in a page of addresses
            end, score = (max(getattr(each, name) for each in more) for name in ("end", "score"))
            told = f"The others of this kind: {len(more)}."
            _publish(evolve(more[0], end=end, score=score, detail=told), stage, run_events, call_id)


def _publish(
    finding: GuardrailFinding, stage: GuardrailStage, run_events: RunEvents, call_id: CallId | None
) -> None:
    run_events.publish(
        events.GuardrailTriggered,
        stage=stage,
        category=finding.category,
        action=finding.action,
        score=finding.score,
        start=finding.start,
        end=finding.end,
        detail=finding.detail,
        call_id=call_id,
    )


async def _checked(
    text: str, stage: GuardrailStage, services: EngineServices
) -> Result[GuardrailReport, ServiceFailed]:
    from reactive_agents.core.governance import GuardrailReport  # of agents with a guardrail

    guardrail = services.ports.guardrail.unwrap()
    before = CHECKED_RUN.get()  # of a run whose guardrail began this one
    CHECKED_RUN.set(services.run_context)
    try:
        return await call_service(
            "guardrail", guardrail, Guardrail.check, GuardrailReport, text, stage, services.llm
        )
    finally:
        CHECKED_RUN.set(before)


def _in_original(report: GuardrailReport, places: Sequence[int]) -> GuardrailReport:
    """Return a report on an unescaped text with the spans of the text itself."""
    last = len(places) - 1
    findings = tuple(
        evolve(each, start=places[min(max(each.start, 0), last)], end=places[min(max(each.end, 0), last)])
        for each in report.findings
    )
    return evolve(report, findings=findings)


def _combined(text: str, one: GuardrailReport, other: GuardrailReport) -> GuardrailReport:
    """Return a report on a text with all that two reports found in it."""
    from reactive_agents.core.governance import GuardrailReport

    new = tuple(each for each in other.findings if each not in one.findings)
    findings = (*one.findings, *new)
    worst = other if one.allowed else one
    redacted = other.redacted if one.redacted is None else one.redacted
    if any(each.action == "redact" for each in new):
        redacted = redact(text, [each for each in findings if each.action == "redact"])
    return GuardrailReport(worst.allowed, worst.violation, worst.detail, findings, redacted)


# --- Phase 2: the input ---


async def guardrail(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """Check the input, and return the context with the redacted input.

    That is the task and its documents, and the messages that the caller handed over. Fails with
    ``GuardrailViolationError`` when it is blocked, and with ``ExecutionError`` when the guardrail fails: a
    task that could not be checked is not run.
    """
    checked = await _checked_input(context.task.input, context, services)
    if not isinstance(checked, Success):
        return Failure(checked.failure())
    redacted = checked.unwrap()
    if redacted is not None:
        context = replaced(context, task=evolve(context.task, input=redacted))
    if context.task.parts:
        task = context.task
        documents = await _checked_documents(task.input, task.parts, context, services)
        if not isinstance(documents, Success):
            return Failure(documents.failure())
        text, parts = documents.unwrap()
        context = replaced(context, task=evolve(task, input=text, parts=parts))
    return Success(context) if not context.task.history else await _with_checked_history(context, services)


async def _checked_input(
    text: str, context: ExecutionContext, services: EngineServices
) -> Result[str | None, RuntimeErrors]:
    """Return the redacted text, or ``None`` if nothing has to be redacted."""
    checked = await _report(text, "input", context, services)
    if not isinstance(checked, Success):
        return Failure(checked.failure())
    report = checked.unwrap()
    return Success(report.redacted) if report.allowed else Failure(_violation(report, context))


async def _report(
    text: str, stage: GuardrailStage, context: ExecutionContext, services: EngineServices
) -> Result[GuardrailReport, RuntimeErrors]:
    checked = await check_text(text, stage, services)
    return checked.alt(context.failure_of("guardrail"))


def _violation(report: GuardrailReport, context: ExecutionContext) -> RuntimeErrors:
    message = f"The input was blocked: {report.detail or report.violation}"
    return errors.GuardrailViolationError(message, context.task_id, report.violation)


async def _checked_documents(
    text: str, parts: tuple[Content, ...], context: ExecutionContext, services: EngineServices
) -> Result[tuple[str, tuple[Content, ...]], RuntimeErrors]:
    """Return a text and its parts with the texts among these checked as well."""
    content = services.handle.content
    for part in parts:
        if content is None or not part.media_type.startswith("text/"):
            continue
        read = await content.text_of(part)
        if isinstance(read, Failure):
            return Failure(context.failure_of("guardrail")(read.failure()))
        checked = await _checked_input(read.unwrap(), context, services)
        if not isinstance(checked, Success):
            return Failure(checked.failure())
        redacted = checked.unwrap()
        if redacted is not None:
            changed = await content.with_text(part, redacted)
            if isinstance(changed, Failure):
                return Failure(context.failure_of("guardrail")(changed.failure()))
            new = changed.unwrap()
            parts = tuple([new if each is part else each for each in parts])
            text = text.replace(part.label, new.label, 1)
    return Success((text, parts))


async def _with_checked_history(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """Return the context with the messages checked that the caller handed over.

    Those of a session were checked when they were said; what a caller hands over may never have been.
    """
    turn, is_blocked = anyio.Lock(), False

    async def checked_in_turn(message: Message) -> Result[Message, RuntimeErrors]:
        nonlocal is_blocked
        async with turn:  # most checks do not wait, and others share the event loop
            await anyio.lowlevel.checkpoint()
        if is_blocked:  # each check that is begun may be paid for
            return Success(message)
        checked = await _checked_message(message, context, services)
        is_blocked |= isinstance(checked, Failure)
        return checked

    given = without_instructions(context.task.history)
    messages: list[Message] = []
    for checked in await gather([FutureResult(checked_in_turn(each)) for each in given], limit=MOST_CHECKED):
        if not isinstance(checked, Success):
            return Failure(checked.failure())
        messages.append(checked.unwrap())
    return Success(with_history(context, tuple(messages), services))


async def _checked_message(
    message: Message, context: ExecutionContext, services: EngineServices
) -> Result[Message, RuntimeErrors]:
    """Return a message without what is to be redacted or withheld."""
    texts = [message.content]
    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            texts += (call.name, joined_texts(call.arguments), call.malformed)
    text = "\n".join(filter(str.strip, texts))
    stage: GuardrailStage = "tool-result" if isinstance(message, ToolMessage) else "input"
    checked = await _report(text, stage, context, services)
    if not isinstance(checked, Success):
        return Failure(checked.failure())
    report = checked.unwrap()
    if not report.allowed:
        match message:
            case ToolMessage():
                return Success(evolve(message, content=withheld_result(report.violation), parts=()))
            case AssistantMessage(tool_calls=calls):
                kept = tuple(ToolCall(call.id, "withheld") for call in calls)
                return Success(AssistantMessage(WITHHELD, kept))
            case _:
                return Failure(_violation(report, context))
    if report.redacted is not None:
        message = _redacted_message(message, _redaction_like(text, report))
    if not isinstance(message, UserMessage | ToolMessage) or not message.parts:
        return Success(message)
    documents = await _checked_documents(message.content, message.parts, context, services)
    return documents.map(lambda found: evolve(message, content=found[0], parts=found[1]))


def withheld_result(violation: str) -> str:
    """Return what is shown in the place of a tool's result that was blocked."""
    return f"The result was withheld: a guardrail blocked it ({violation})."


# --- The output ---


WITHHELD = "[withheld]"
_SHORTEST_SPAN = 4
"""Shorter spans occur everywhere, and say nothing by themselves."""

_Redact: TypeAlias = Callable[[str], str]


async def guard_output(
    result: ReasoningResult, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """Check the output, and return the context with it.

    Redactions are applied to steps, transcript and plans too. Fails with ``GuardrailViolationError`` when the
    output is blocked, and with ``ExecutionError`` when it could not be checked; then every text of the run is
    withheld, and only the names of the used tools stay.
    """
    handle = services.handle
    output = result.output
    if not services.ports.guardrail or not output:
        return Success(handle.current_context(reasoning=result))
    context = handle.current_context()
    from reactive_agents.core.governance import GuardrailReport

    checked = await in_time(check_text(output, "output", services), services.seconds_to_finish())
    if checked is None:
        late = "The guardrail service did not check the output before the time limit of the run."
        checked = Failure(errors.ServiceFailed(late, "guardrail", "check"))
    error: RuntimeErrors
    if isinstance(checked, Success):
        report = checked.unwrap()
        if report.allowed:
            if report.redacted is not None:
                redact = _redaction_like(output, report)
                redact_sub_runs(output, report, services)
                result = await _with_redactions(result, report.redacted, redact, services)
            return Success(handle.current_context(reasoning=result))
        message = f"The output was blocked by a guardrail: {report.violation}"
        error = errors.GuardrailViolationError(message, context.task_id, report.violation)
    else:
        error, report = context.failure_of(handle.phase)(checked.failure()), GuardrailReport(allowed=False)
    redact = _redaction_like(output, report)
    _withhold(services)
    redact_sub_runs(output, report, services)
    await rewrite_stored_plans(lambda step: _withheld_step(_redacted_step(step, redact)), services)
    await run_error_hooks(handle.phase, handle.current_context(), error, services)
    return Failure(error)


def _withhold(services: EngineServices) -> None:
    def withheld(state: KernelState) -> KernelState:
        steps = _withheld_steps(state.steps)
        return replaced(state, steps=steps, messages=(), pending=(), output=None, proposal=None)

    services.handle.rewrite_states(withheld)


def _withheld_steps(steps: Iterable[ReasoningStep]) -> tuple[ReasoningStep, ...]:
    def bare(metadata: StepMetadata | None) -> StepMetadata | None:
        return None if metadata is None else evolve(metadata, repairs=())

    return tuple(evolve(step, content=WITHHELD, metadata=bare(step.metadata)) for step in steps)


async def _with_redactions(
    result: ReasoningResult, output: str, redact: _Redact, services: EngineServices
) -> ReasoningResult:
    last = services.handle.kernel_state

    def redacted(state: KernelState) -> KernelState:
        messages = tuple(_redacted_message(message, redact) for message in state.messages)
        said = output if state is last else state.output and redact(state.output)
        return replaced(state, steps=_redacted_steps(state.steps, redact), messages=messages, output=said)

    services.handle.rewrite_states(redacted)
    await rewrite_stored_plans(lambda step: _redacted_step(step, redact), services)
    result = evolve(
        result,
        output=output,
        steps=_redacted_steps(result.steps, redact),
        messages=tuple(_redacted_message(message, redact) for message in result.messages),
        metadata=evolve(result.metadata, reason=redact(result.metadata.reason)),
        tree=None if result.tree is None else _redacted_tree(result.tree, redact),
    )
    shape = services.ports.output_shape.value_or(None)
    if shape is None:
        return result
    return structured_output.retyped_result(structured_output.answer_form(shape), result)


def _redaction_like(output: str, report: GuardrailReport) -> _Redact:
    """Return a function that applies the output's redactions to other texts."""
    whole = (output, WITHHELD if report.redacted is None else report.redacted)
    spans: list[tuple[str, str]] = []
    for finding in report.findings:
        span = output[finding.start : finding.end]
        if finding.action != "warn" and len(span.strip()) >= _SHORTEST_SPAN:
            instead = WITHHELD if finding.action == "block" else f"[{finding.category}]"
            spans += ((span, instead), (unescaped(span)[0], instead))
    replace_spans = replacing((*spans, *map(_both_in_json, spans)))

    def redact(text: str) -> str:
        for old, new in (_both_in_json(whole), whole):  # the longer first
            text = text.replace(old, new)
        return replace_spans(text)

    return redact


def redact_sub_runs(text: str, report: GuardrailReport, services: EngineServices) -> None:
    """Redact in the runs that tools began what was redacted in a text of this run.

    Each line of a text that was blocked is withheld, with the steps of the runs whose answer has it.
    """
    runs = services.handle.sub_runs
    if not runs or (report.allowed and report.redacted is None):
        return
    lines = () if report.allowed else [line for line in text.splitlines() if len(line) >= _SHORTEST_SPAN]
    pairs = [(line, WITHHELD) for line in lines]
    like_text, in_lines = _redaction_like(text, report), replacing((*pairs, *map(_both_in_json, pairs)))

    def redact(said: str) -> str:
        return in_lines(like_text(said))

    def redacted(run: SubRun) -> SubRun:
        output = None if run.output is None else redact(run.output)
        is_withheld = not report.allowed and output != run.output
        steps = _withheld_steps(run.steps) if is_withheld else _redacted_steps(run.steps, redact)
        return evolve(run, task=redact(run.task), output=output, reason=redact(run.reason), steps=steps)

    runs[:] = map(redacted, runs)


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


def _redacted_object(value: JsonObject, redact: _Redact) -> JsonObject:
    return {key: map_texts(item, redact) for key, item in value.items()}


PLAN_ID = "plan_id"
"""The detail of a task that names a stored plan to continue."""


async def rewrite_stored_plans(rewritten: Callable[[PlanStep], PlanStep], services: EngineServices) -> None:
    """Change the steps of the run's stored plans; a failure of the store is an event."""
    store = services.ports.plans.value_or(None)
    if store is None:
        return
    task = services.handle.context.task
    listed = await call_service("plan store", store, PlanStore.list_plans, tuple, task.agent_id)
    if isinstance(listed, Failure):
        _publish_store_failure(listed.failure(), services)
        return
    for plan in listed.unwrap():
        if plan.task_id == task.id or plan.id == task.details.get(PLAN_ID):
            changed = await call_service(
                "plan store", store, PlanStore.rewrite_steps, None, plan.id, rewritten
            )
            if isinstance(changed, Failure):
                _publish_store_failure(changed.failure(), services)


def _publish_store_failure(problem: MemoryErrors | ServiceFailed, services: EngineServices) -> None:
    phase = services.handle.phase
    publish_failure(phase, services.handle.context.failure_of(phase)(problem), services, fatal=False)
