"""Handoffs: another agent takes over a conversation, and answers for the run.

The model asks for a handoff by calling a tool. The other calls of the turn still run; then the agent loop
ends, whatever its strategy, and the other agent runs within this run: on its account, within its budgets and
time, and with its approver. So no tool waits for the other agent, and cost is counted once. A handoff that is
not possible is an error of the call, which the model reads before it continues.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

import anyio
from attrs import evolve
from returns.maybe import Some
from returns.result import Failure, Result, Success

from reactive_agents.core import conversation, errors
from reactive_agents.core.codec import data_to_json
from reactive_agents.core.conversation import History
from reactive_agents.core.events import HandedOff
from reactive_agents.core.governance import HandoffInfo
from reactive_agents.core.ids import TaskId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall, ToolMessage
from reactive_agents.core.model_settings import UNSET
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.tasks import Task, TaskResult
from reactive_agents.core.tools import FINAL_ANSWER, ToolResult
from reactive_agents.effects import call_function
from reactive_agents.engine.context import MOST_NESTED_RUNS, ExecutionContext, agents_under_way, too_deep
from reactive_agents.engine.guardrail import PLAN_ID, guard_output
from reactive_agents.engine.run_records import append_or_report, redacted_arguments
from reactive_agents.engine.run_result import partial_result, without_declined
from reactive_agents.engine.services import (
    AcceptedHandoff,
    AgentEngine,
    EngineServices,
    HandedConversation,
    HandoffTarget,
    RunOverrides,
)
from reactive_agents.kernel.context_window.tool_results import tool_of

_log = logging.getLogger("reactive_agents")
_REASON_KEY = "handoff-reason"
MOST_HANDOFFS = 5
"""Handoffs that models may ask for while one task is worked on."""


# --- accepting one --------------------------------------------------------------------------------------


async def request_handoff(call: ToolCall, services: EngineServices) -> ToolResult:
    """Return the result of a call that asks for a handoff."""
    handle, target = services.handle, services.ports.handoffs[call.name]
    context = handle.context
    refusal = _refusal(target, services)
    if refusal:
        return _refused(call, refusal)
    handle.claimed_handoff = target.agent
    try:
        info = HandoffInfo(
            services.settings.name,
            target.agent,
            _reason_of(call),
            context.task.input,
            context.task.user,
            context.task.session,
            services.overrides.deps,
            None if target.read_input is None else target.read_input(call.arguments.get("input")),
        )
        if target.on_handoff is not None:
            with anyio.fail_after(services.settings.timeouts.tool_call_s):
                await call_function(target.on_handoff, info)
    except Exception as error:  # noqa: BLE001 - a handler is arbitrary user code
        _log.warning("The on_handoff of the handoff to %s raised.", target.agent, exc_info=error)
        handle.claimed_handoff = ""
        return _refused(call, f"{type(error).__name__}: {error}")
    shown = redacted_arguments(call.arguments, services)
    detail = f"Handed over to {target.agent}. The arguments: {shown}"
    await append_or_report("handoff", services, subject=target.agent, detail=detail, call_id=call.id)
    return ToolResult(call.id, call.name, f"The conversation goes to {target.agent}.")


def accept_handoff(call: ToolCall, services: EngineServices) -> None:
    """Accept the handoff of a call; the agent loop then ends with the next step.

    It is apart from :func:`request_handoff`, since a durable run has the result of that from its record.
    """
    handle, target = services.handle, services.ports.handoffs[call.name]
    if handle.handoff is None:
        handle.claimed_handoff = target.agent
        handle.handoff = AcceptedHandoff(target, _reason_and_input(call), call)
        services.events.publish(HandedOff, target.agent, handle.handoff.reason)


def _refusal(target: HandoffTarget, services: EngineServices) -> str:
    """Return why the conversation is not handed over now; empty if it can be."""
    claimed, handed = services.handle.claimed_handoff, services.overrides.handed
    before = () if handed is None else handed.agents
    if claimed:
        return f"the conversation goes to {claimed} already"
    if len(before) >= MOST_HANDOFFS:
        course = " → ".join((*before, services.settings.name))
        return f"it was handed over {MOST_HANDOFFS} times already ({course}). Answer, or say what is missing"
    return _required_first(services) or _too_deep() or target.problem()


def _required_first(services: EngineServices) -> str:
    """Return which required calls of this agent are still to be made; empty for none."""
    worked = Counter(each.tool_name for each in services.handle.tool_results if each.success)
    known = {*services.ports.handoffs, FINAL_ANSWER}
    missing = [
        each.name
        for each in services.settings.required_tools
        if each.name not in known and worked[each.name] < each.min_calls
    ]
    return f"this is required first: {', '.join(missing)}" if missing else ""


def _too_deep() -> str:
    agents = agents_under_way()
    return too_deep((*agents, "another")) if len(agents) >= MOST_NESTED_RUNS else ""


def _refused(call: ToolCall, reason: str) -> ToolResult:
    error = f"Not handed over: {reason.rstrip('.')}."
    return ToolResult(call.id, call.name, error=error, origin="refused")


def _reason_of(call: ToolCall) -> str:
    reason = call.arguments.get("reason")
    return reason.strip() if isinstance(reason, str) else ""


def _reason_and_input(call: ToolCall) -> str:
    """Return the reason of the model, followed by the data that it hands over."""
    given = call.arguments.get("input")
    return "\n".join(filter(None, (_reason_of(call), "" if given is None else data_to_json(given))))


# --- running the other agent ----------------------------------------------------------------------------


async def hand_over(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    """Run the agent that takes over, and return the context with its answer.

    Fails as its run does, and with ``TaskError`` when a filter does not return a conversation.
    """
    handle, handoff = services.handle, services.handle.handoff
    assert handoff is not None
    own = partial_result("handoff", "", context, services)
    said = _said(context, handoff, services)
    names = services.ports.handoffs
    results = {key: text for key, text in own.tool_results.items() if tool_of(key) not in names}
    shown = _shown(context, results, said, handoff)
    if isinstance(shown, Failure):
        message = f"The filter of the handoff to {handoff.target.agent}: {shown.failure()}."
        return Failure(errors.TaskError(message, context.task_id))
    engine = handoff.target.engine()
    overrides = _overrides(context, shown.unwrap(), handoff, engine, services)
    task = _task(context, handoff, services)
    outcome = await engine.conduct(task, overrides=overrides)
    if not isinstance(outcome, Success):
        error: Any = outcome.failure().error
        return Failure(evolve(error, task_id=context.task_id) if hasattr(error, "task_id") else error)
    answered = outcome.unwrap()
    handle.state.become(answered.state)
    handle.handoffs = (handoff.target.agent, *answered.handoffs)
    handle.answered_by = answered.agent if answered.handoffs else handoff.target.agent
    return await guard_output(without_declined(_with_answer(own, said, answered)), services)


def _said(
    context: ExecutionContext, handoff: AcceptedHandoff, services: EngineServices
) -> tuple[Message, ...]:
    """Return the messages of this agent, without the handoffs themselves."""
    if handoff.call is None:
        return ()
    names, wanted = services.ports.handoffs, handoff.call.id
    states = [
        state
        for state in services.handle.kernel_states.values()
        if any(
            isinstance(each, AssistantMessage) and any(call.id == wanted for call in each.tool_calls)
            for each in state.messages
        )
    ]
    if not states:
        return ()
    messages: list[Message] = []
    for message in conversation.without_rejected_answers(states[-1].messages):
        if isinstance(message, AssistantMessage):
            calls = tuple(call for call in message.tool_calls if call.name not in names)
            if calls or message.content.strip():
                messages.append(evolve(message, tool_calls=calls))
        elif not (isinstance(message, ToolMessage) and message.tool_name in names):
            messages.append(message)
    _, *said = conversation.messages_of_run(context.task.input, messages, None)
    return tuple(said)


def _shown(
    context: ExecutionContext, results: Mapping[str, str], said: tuple[Message, ...], handoff: AcceptedHandoff
) -> Result[History, str]:
    """Return the conversation before the task, as the other agent is shown it."""
    history = context.history
    reason = (AssistantMessage(handoff.reason),) if handoff.reason else ()
    own = conversation.messages_of_run(context.task.input, (*said, *reason), None) if said or reason else ()
    messages = (*history.messages, *own)
    # the words of a model are no user's: an argument that is copied from them is one from outside
    said_why = {_REASON_KEY: handoff.reason} if handoff.reason else {}
    known = {**history.results, **results, **said_why}
    if handoff.target.filter is None:
        return Success(evolve(history, messages=messages, results=known, turn=None))
    try:
        chosen = tuple(handoff.target.filter(messages))
    except Exception as error:  # noqa: BLE001 - a filter is arbitrary user code
        return Failure(f"it raised {type(error).__name__}: {error}")
    wrong = conversation.wrong_history(chosen)
    if wrong is not None:
        return Failure(wrong)
    text = "\n".join(each.content for each in chosen if isinstance(each, ToolMessage))
    kept = {key: value for key, value in known.items() if key in text}
    return Success(History(chosen, {**kept, **said_why}))


def _overrides(
    context: ExecutionContext,
    history: History,
    handoff: AcceptedHandoff,
    engine: AgentEngine,
    services: EngineServices,
) -> RunOverrides:
    ports, overrides = services.ports, services.overrides
    handed = overrides.handed
    before = () if handed is None else handed.agents
    turn = "" if context.history.turn is None else f"turn{context.history.turn + 1}."
    prefix = turn if handed is None else handed.key_prefix
    shape, other = ports.output_shape.value_or(None), engine.ports.output_shape.value_or(None)
    changes: dict[str, Any] = {}
    if shape is not None and (other is None or not admits(shape.schema, other.schema)):
        changes["output_shape"] = Some(shape)
    if ports.output_validators and (shape is not None or other is None):
        own = () if changes else engine.ports.output_validators
        changes["output_validators"] = (*own, *ports.output_validators)
    return RunOverrides(
        deps=overrides.deps,
        services=changes,
        handed=HandedConversation(
            evolve(history, state=services.handle.state.snapshot()),
            before if handoff.call is None else (*before, services.settings.name),
            handoff.path,
            # a colon marks what is no result of a tool, see tool_results
            f"{prefix}{handoff.target.agent.replace(' ', '-').replace(':', '%3A')}.",
            services.seconds_left(),
            services.handle.control,
            services.events.answer,
        ),
    )


def _task(context: ExecutionContext, handoff: AcceptedHandoff, services: EngineServices) -> Task:
    task = context.task
    settings = task.model_settings
    return evolve(
        task,
        id=TaskId(services.ports.ids.new()),
        agent_id=handoff.target.agent_id(),
        details={key: value for key, value in task.details.items() if key != PLAN_ID},
        session=None,
        history=(),
        budget=None,  # that of the run holds for all that it begins
        model_settings=settings and evolve(settings, tool_choice=UNSET),  # which has been obeyed
        is_relayed=services.is_relayed,
    )


def _with_answer(own: ReasoningResult, said: tuple[Message, ...], answered: TaskResult) -> ReasoningResult:
    """Return the outcome of both agents, with the answer of the second."""
    figures = answered.metadata
    confidence = own.metadata.confidence if figures.confidence is None else figures.confidence
    return evolve(
        own,
        steps=(*own.steps, *answered.steps),
        output=answered.text,
        status=answered.status,
        tool_results={**own.tool_results, **answered.tool_results},
        tree=answered.tree,
        messages=(*said, *answered.new_messages[1:]),
        metadata=evolve(
            own.metadata,
            steps_count=len(own.steps) + len(answered.steps),
            confidence=confidence,
            iterations=own.metadata.iterations + figures.iterations,
            terminated_by=figures.terminated_by,
            reason=answered.reason,
        ),
    )


def admits(own: JsonObject, other: JsonObject) -> bool:
    """Return whether every answer of the other schema is one of this agent's own.

    It is if the schemas are equal, or the other one is a member of the own union.

    >>> admits({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string"})
    True
    """
    return _plain(own, own) == _plain(other, other) or any(
        _plain(each, own) == _plain(other, other) for each in _members(own)
    )


def _members(schema: JsonObject) -> list[Any]:
    members = schema.get("anyOf")
    return members if isinstance(members, list) else []


def _plain(schema: Any, root: JsonObject) -> Any:
    """Return a schema without its titles, and with its references filled in once."""
    if isinstance(schema, list):
        return [_plain(each, root) for each in schema]
    if not isinstance(schema, dict):
        return schema
    reference, definitions = schema.get("$ref"), root.get("$defs")
    if isinstance(reference, str) and isinstance(definitions, dict):
        found = definitions.get(reference.rpartition("/")[2])
        if isinstance(found, dict) and "$ref" not in str(found):
            return _plain(found, root)
    return {key: _plain(value, root) for key, value in schema.items() if key not in ("title", "$defs")}
