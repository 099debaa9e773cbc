"""The conversation that a run continues: a session, or messages of the caller.

A run that belongs to a session waits for its turn, is shown the earlier messages, and adds its own. This
happens around the ten phases, since no phase may run before the run's turn, and since even a run that fails
has to let the next one begin.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from itertools import accumulate

import anyio
from anyio import to_thread
from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core import conversation, errors
from reactive_agents.core.content import parts_in
from reactive_agents.core.conversation import History, conversation_lines
from reactive_agents.core.event_redaction import ValueRedactor
from reactive_agents.core.events import ExecutionPhaseFailed
from reactive_agents.core.ids import SessionId
from reactive_agents.core.messages import Message, ToolMessage, UserMessage
from reactive_agents.core.settings import RunSettings
from reactive_agents.core.tasks import Task, TaskResult
from reactive_agents.core.values import replaced
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.lifecycle import DONE
from reactive_agents.engine.run_records import with_patience
from reactive_agents.engine.services import AcceptedHandoff, EnginePorts, EngineServices
from reactive_agents.kernel.context_window.token_estimate import message_size
from reactive_agents.kernel.context_window.window import merge_profile, model_window, profile_for
from reactive_agents.kernel.service_calls import CheckedCounter, broken_service, call_service
from reactive_agents.ports import LLM, SessionStore

_log = logging.getLogger("reactive_agents")


def conversation_problem(task: Task) -> errors.TaskError | None:
    """Return why the task's conversation cannot be continued, or ``None``."""
    wrong = conversation.wrong_name("session", task.session) or conversation.wrong_name("user", task.user)
    if wrong is not None:
        return errors.TaskError(f"{wrong}.", task.id)
    if not task.history:
        return None
    if task.session is not None:
        message = "history: got messages and a session, expected one of them: a session has its own history"
        return errors.TaskError(f"{message}.", task.id)
    problem = conversation.wrong_history(task.history)
    return None if problem is None else errors.TaskError(f"{problem}.", task.id)


async def continue_conversation(services: EngineServices) -> Result[None, errors.RuntimeErrors]:
    """Put the history that the run is shown into its context.

    Waits for earlier runs of the session, until the deadline at most. Fails with ``ExecutionError`` when the
    history cannot be read, since without it the run would answer a different question.
    """
    context, handed = services.handle.context, services.overrides.handed
    task = context.task
    if task.session is None and not task.history and handed is None:
        return DONE
    size = _history_size(context.selected_model, services.settings, services.ports, services.llm)
    if task.session is not None:
        key = conversation.SessionKey(task.agent_id, SessionId(task.session), task.user)
        begun = await _begin_turn(key, size, services)
        if not isinstance(begun, Success):
            return Failure(context.failure_of("bootstrap")(begun.failure()))
        history = begun.unwrap()
    elif handed is not None:
        history = evolve(handed.history, holder=handed.path)
    else:
        history = conversation.History(conversation.without_instructions(task.history))
    services.handle.context = replaced(context, history=fit_history(history, size))
    if task.session is not None or handed is not None:
        services.handle.state.begin(history.state)
    for target in services.ports.handoffs.values():
        if history.holder and target.agent == history.holder[0] and not target.problem():
            services.handle.handoff = AcceptedHandoff(target, path=history.holder[1:])
    return DONE


async def _begin_turn(
    key: conversation.SessionKey, size: int, services: EngineServices
) -> Result[conversation.History, errors.SessionErrors | errors.ServiceFailed | errors.ServiceMissing]:
    """Begin the run's turn of a session, and return the history before it."""
    handle, store = services.handle, services.ports.sessions().value_or(None)
    if store is None:
        return Failure(errors.ServiceMissing("sessions", "memory.sessions"))
    lacks = next((each for each in ("begin", "end", "state") if not hasattr(store, each)), None)
    if lacks is not None:  # known before the answer is paid for
        return Failure(broken_service("sessions", store, lacks, f"has no {lacks!r}."))
    late = f"Other runs held the session {key.session!r} until the time limit of the run."
    begun: Result[conversation.History, errors.SessionErrors | errors.ServiceFailed] = Failure(
        errors.ServiceFailed(late, "sessions", "begin")
    )
    handle.session = key  # also when this is cancelled as soon as the run has its turn
    run_id, begin = handle.context.run_id, SessionStore.begin
    with anyio.move_on_after(services.seconds_left()):
        begun = await call_service(
            "sessions", store, begin, conversation.History, key, run_id, size=size, earlier=LONGEST_EARLIER
        )
    if not isinstance(begun, Success):
        handle.session = None
        return begun
    history = begun.unwrap()
    state = {**services.settings.session_state, **history.state}
    return Success(evolve(history, state=state) if history.is_new else history)


async def end_turn(result: TaskResult | None, services: EngineServices) -> None:
    """Add the run to its session, and let the session's next run begin.

    Without a result nothing is added. A failure does not withhold the answer, which was paid for: it is an
    event and a line in the log.
    """
    handle = services.handle
    key = handle.session
    store = None if key is None else services.ports.sessions().value_or(None)
    if key is None or store is None:
        return
    task, run_id = handle.context.task, handle.context.run_id
    turn = None
    if result is not None and result.output is not None:
        turn = await _redacted(_turn(result, services), services)
    ending = call_service("sessions", store, SessionStore.end, None, key, run_id, turn)
    ended = await with_patience(ending, services)
    if ended is None:
        ended = Failure(
            errors.ServiceFailed("The sessions service did not answer in time.", "sessions", "end")
        )
    else:
        services.progress.recorded += 1
    if not isinstance(ended, Success):
        error = errors.ExecutionError(ended.failure().message, task.id, "complete", ended.failure())
        what = "was not added to" if turn is not None else "did not give back its turn of"
        _log.warning("Run %s %s session %r: %s", run_id, what, key.session, error.message)
        services.events.publish(ExecutionPhaseFailed, phase="complete", error=error, fatal=False)
        is_refused = isinstance(ended.failure(), errors.SessionRefused)
        if turn is not None and services.journal is not None and not is_refused:
            await services.journal.owe("sessions", key=key, turn=turn)


def _turn(result: TaskResult, services: EngineServices) -> conversation.SessionTurn:
    messages: tuple[Message, ...] = result.new_messages
    shown = "\n".join(each.content for each in messages if isinstance(each, ToolMessage))
    results = {key: text for key, text in result.tool_results.items() if key in shown}
    text = "\n".join(conversation.conversation_lines(messages))
    history = services.handle.context.history
    known = {**history.state, **result.state}  # a thread that was given up may change others afterwards
    changed = tuple([key for key in services.handle.state.changed if key in known])
    return conversation.SessionTurn(
        result.run_id,
        messages,
        text,
        results,
        holder_path(services.settings.name, result.handoffs),
        result.state,
        changed,
        {key: history.state[key] for key in changed if key in history.state},
        services.settings.session_state if history.is_new else {},
    )


async def _redacted(turn: conversation.SessionTurn, services: EngineServices) -> conversation.SessionTurn:
    """Return the turn redacted; a long one in a thread."""
    redactor = services.ports.redactor
    if redactor is None:
        return turn
    redact = partial(ValueRedactor(redactor).redacted, turn)
    if redactor.long_in([[turn.text, *turn.results.values()]]):
        return await to_thread.run_sync(redact)
    return redact()


def holder_path(agent: str, handoffs: Sequence[str]) -> tuple[str, ...]:
    """Return the shortest way from an agent to the one that has the conversation.

    >>> holder_path("triage", ("billing", "triage", "refunds", "law", "refunds"))
    ('refunds',)
    """
    path: list[str] = []
    for name in handoffs:
        if name == agent:
            path.clear()
        elif name in path:
            del path[path.index(name) + 1 :]
        else:
            path.append(name)
    return tuple(path)


def shown_history(
    messages: tuple[Message, ...], model: str | None, settings: RunSettings, ports: EnginePorts
) -> conversation.History:
    """Return the part of earlier messages that a question outside of a run is shown.

    Args:
        model: the model that answers; ``None`` for that of the engine.
    """
    size = _history_size(model, settings, ports, ports.llm)
    return fit_history(conversation.History(conversation.without_instructions(messages)), size)


def with_history(
    context: ExecutionContext, messages: tuple[Message, ...], services: EngineServices
) -> ExecutionContext:
    """Return the context with other messages of the caller, cut to the window."""
    size = _history_size(context.selected_model, services.settings, services.ports, services.llm)
    shown = evolve(
        context.history, messages=conversation.without_instructions(messages), earlier="", left_out=0
    )
    task = evolve(context.task, history=messages)
    return replaced(context, task=task, history=fit_history(shown, size))


def _history_size(model: str | None, settings: RunSettings, ports: EnginePorts, llm: LLM) -> int:
    """Return the most bytes of earlier messages that the model is shown."""
    overrides = settings.limits_of_model
    profile = merge_profile(profile_for(model or llm.model), overrides)
    counter = ports.counter.map(CheckedCounter)
    window_tokens = model_window(overrides, profile, counter, model).tokens
    return int(window_tokens * HISTORY_SHARE) * BYTES_PER_TOKEN


# --- The images, audio and documents of a run ---


async def take_content(services: EngineServices) -> Result[None, errors.RuntimeErrors]:
    """Store the content of the task and history in the run's context.

    Fails with ``ExecutionError`` when a part is refused, since without it the run would answer a different
    question.
    """
    context = services.handle.context
    task, history = context.task, context.history
    callers = None if services.handle.caller is None else services.handle.caller.content()
    if callers is not None:
        own = {part.label for part in task.parts}
        shown = [part for part in callers.shown_in(task.input) if part.label not in own]
        task = evolve(task, parts=(*task.parts, *shown)) if shown else task
    if not (task.parts or history.parts or (task.history and any(parts_in(task.history)))):
        return DONE
    content = services.content()
    if isinstance(content, errors.ServiceMissing):
        return Failure(context.failure_of("bootstrap")(content))
    content.know((*history.parts, *parts_in(history.messages)))
    continued = await content.take_messages(task.history)
    if isinstance(continued, Failure):
        return Failure(context.failure_of("bootstrap")(continued.failure()))
    if task.history:
        context = with_history(replaced(context, task=task), continued.unwrap(), services)
        task = context.task
    taken = await content.take(task.input, task.parts)
    if isinstance(taken, Failure):
        return Failure(context.failure_of("bootstrap")(taken.failure()))
    text, parts = taken.unwrap()
    services.handle.context = replaced(context, task=evolve(task, input=text, parts=parts))
    return DONE


async def release_content(services: EngineServices) -> None:
    """End the hold of a run on its content; a failure is logged.

    The content of a turn that its session does not have yet stays.
    """
    content, journal = services.handle.content, services.journal
    if content is None or (journal is not None and "sessions" in journal.entries.owes):
        return
    released = await with_patience(content.release(), services)
    if released is None:
        _log.warning("The content of a run was not released: The content service did not answer in time.")
    elif isinstance(released, Failure):
        _log.warning("The content of a run was not released: %s", released.failure().message)


# --- The conversation that a run continues, within a share of the model's window ---
# What does not fit is left out from the oldest on, a whole run of the conversation at a time, so that calls
# stay with their results. It is kept as a text that ``recall`` reads.


HISTORY_SHARE = 0.5
"""The largest share of the window for the messages of earlier runs."""
BYTES_PER_TOKEN = 3
"""The bytes that a token of a conversation surely has; most have more, so that it is cut a little early."""
LONGEST_EARLIER = 50_000
"""The most characters of omitted messages that ``recall`` reads, the newest ones."""


def fit_history(history: History, size: int) -> History:
    """Return the history with the newest messages, of at most so many bytes.

    It begins with a message of the user. The messages before become part of ``earlier``.
    """
    messages = history.messages
    taken = list(accumulate(map(message_size, reversed(messages))))
    if not taken or taken[-1] <= size:
        return history
    first = next(
        (
            index
            for index, message in enumerate(messages)
            if isinstance(message, UserMessage) and taken[len(messages) - 1 - index] <= size
        ),
        len(messages),
    )
    kept = messages[first:]
    shown = "\n".join(message.content for message in kept if isinstance(message, ToolMessage))
    left_out = "\n".join(conversation_lines(messages[:first]))
    return evolve(
        history,
        messages=kept,
        results={key: text for key, text in history.results.items() if key in shown},
        earlier="\n".join(filter(None, (history.earlier, left_out)))[-LONGEST_EARLIER:],
        left_out=history.left_out + first,
    )
