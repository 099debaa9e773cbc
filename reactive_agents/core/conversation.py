"""Conversations: the messages of earlier runs, which a later run continues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, get_args

from attrs import evolve, field, frozen

from reactive_agents.core.codec import abbreviated
from reactive_agents.core.content import CONTENT_TYPES, Content
from reactive_agents.core.ids import AgentId, RunId, SessionId
from reactive_agents.core.json import (
    JsonObject,
    changed_keys,
    changes_of,
    with_changes,
    without_surrogates,
)
from reactive_agents.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from reactive_agents.core.tools import FINAL_ANSWER
from reactive_agents.core.values import LIVE, OMITTED, Value

if TYPE_CHECKING:
    from reactive_agents.core.config import MemoryScope


@frozen(eq=False, repr=False)
class History(Value):
    """The part of its conversation that a run is shown.

    Attributes:
        messages: oldest first, each call with its result.
        results: full texts of tool results that the messages show in part, by the keys that they name.
        earlier: the text of messages that are left out, which ``recall`` reads; empty for none.
        left_out: number of earlier messages that are not shown.
        turn: number of the previous run in its session, 0 for none; ``None`` outside of a session.
        parts: images, audio and documents of the session, even those that no message shows.
        holder: the path from the agent of the session to the one that has the conversation; empty if it is
            that agent itself.
        state: the state of the session when the run begins.
    """

    messages: tuple[Message, ...] = ()
    results: Mapping[str, str] = field(factory=dict)
    earlier: str = ""
    left_out: int = 0
    turn: int | None = None
    parts: tuple[Content, ...] = ()
    holder: tuple[str, ...] = ()
    state: JsonObject = field(factory=dict, metadata=OMITTED)

    @property
    def is_new(self) -> bool:
        """Whether no run has added to the conversation yet."""
        return not self.messages and not self.left_out


NO_HISTORY = History()

LONGEST_NAME = 1_000
"""The most characters of the name of a session or user."""
_LONGEST_LINE = 2_000


def wrong_history(messages: Sequence[object]) -> str | None:
    """Return why a run cannot continue these messages, or ``None``.

    Every tool result has to come after its call, and every call must have one before anything else is said,
    as providers refuse a conversation otherwise.
    """
    waiting: dict[str, str] = {}
    for index, message in enumerate(messages):
        place = f"history[{index}]"
        if not isinstance(message, get_args(Message)):
            fields = message if isinstance(message, Mapping) else ()
            form = "openai" if "role" in fields else "json" if "tag" in fields else ""
            hint = form and f": messages_from_{form} reads it"
            return f"{place}: got {abbreviated(message)}, expected a message{hint}"
        wrong = _wrong_field(message)
        if wrong is not None:
            return f"{place}.{wrong}"
        if isinstance(message, ToolMessage):
            if waiting.pop(message.call_id, None) is None:
                return f"{place}: got the result of {message.call_id!r}, expected its call before it"
        elif waiting:
            return f"{place}: expected the result of the call of {_called(waiting)} before it"
        elif isinstance(message, AssistantMessage):
            waiting = {call.id: call.name for call in message.tool_calls}
    return f"history: the call of {_called(waiting)} at the end has no result" if waiting else None


def _wrong_field(message: object) -> str | None:
    """Return the field of a message that has a wrong type, or ``None``."""
    texts = ["content"]
    if isinstance(message, ToolMessage):
        texts += ["call_id", "tool_name"]
    for name in texts:
        value: object = getattr(message, name)
        if not isinstance(value, str):
            return f"{name}: got {abbreviated(value)}, expected a text"
    parts: object = getattr(message, "parts", ())
    if not isinstance(parts, tuple | list) or not all(isinstance(each, CONTENT_TYPES) for each in parts):
        return f"parts: got {abbreviated(parts)}, expected images, audio and documents"
    calls: object = message.tool_calls if isinstance(message, AssistantMessage) else ()
    if not isinstance(calls, tuple | list) or not all(isinstance(each, ToolCall) for each in calls):
        return f"tool_calls: got {abbreviated(calls)}, expected tool calls"
    ids = [each.id for each in calls]
    return None if len(ids) == len(set(ids)) else "tool_calls: got two calls of one id"


def wrong_name(what: str, name: object) -> str | None:
    """Return why this cannot be the name of a session, user or run, or ``None``."""
    if name is None or (
        isinstance(name, str)
        and name.strip()
        and name not in (".", "..")  # no path of a URL can name them
        and len(name) <= LONGEST_NAME
        and name == without_surrogates(name)
    ):
        return None
    expected = f"a name of 1 to {LONGEST_NAME} characters that is not blank, '.' or '..'"
    return f"{what}: got {abbreviated(name)}, expected {expected}"


def _called(waiting: Mapping[str, str]) -> str:
    return repr(next(iter(waiting.values())))


def without_instructions(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages without the system's."""
    return tuple([each for each in messages if not isinstance(each, SystemMessage)])


def turns_of(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """Yield the messages in turns, each of which a message of the user begins."""
    begins = [index for index, message in enumerate(messages) if index and isinstance(message, UserMessage)]
    for start, end in pairwise((0, *begins, len(messages))):
        if start < end:
            yield tuple(messages[start:end])


def messages_of_run(
    task: str, transcript: Sequence[Message], answer: str | None, parts: tuple[Content, ...] = ()
) -> tuple[Message, ...]:
    """Return the messages that a run adds to its conversation.

    They are the task, its calls with their results, and the answer. The answer is a text of the assistant,
    even if it was delivered by ``final-answer``. Calls without a result, as in a run that was stopped, are
    left out.
    """
    answered = {each.call_id for each in transcript if isinstance(each, ToolMessage)}
    kept: list[Message] = [UserMessage(task, parts)]
    for message in transcript:
        if isinstance(message, AssistantMessage):
            calls = message.tool_calls
            if calls:
                calls = tuple([each for each in calls if each.id in answered and each.name != FINAL_ANSWER])
            if len(calls) < len(message.tool_calls):
                message = evolve(message, tool_calls=calls)
            if calls or (message.content.strip() and message.content != answer):
                kept.append(message)
        elif not (isinstance(message, ToolMessage) and message.tool_name == FINAL_ANSWER):
            kept.append(message)
    if answer:
        kept.append(AssistantMessage(answer))
    return tuple(kept)


def without_rejected_answers(transcript: Sequence[Message]) -> tuple[Message, ...]:
    """Return the transcript of a run without the texts of the model that have no call.

    Apart from the answer of the run, these are answers that were rejected, and announcements of a call.
    """
    return tuple([each for each in transcript if not isinstance(each, AssistantMessage) or each.tool_calls])


def conversation_lines(messages: Iterable[Message]) -> Iterator[str]:
    """Yield each message as text: its speaker, what was said and called, shortened.

    Further lines are indented, so that none looks like a message of another speaker.
    """
    for message in messages:
        match message:
            case AssistantMessage(content, calls):
                said = " ".join(filter(None, (content, *(f"[called {call.described}]" for call in calls))))
                speaker = "Assistant"
            case ToolMessage(tool_name=name):
                speaker, said = f"Result of {name}", message.content
            case _:
                speaker, said = "User", message.content
        shown = said if len(said) <= _LONGEST_LINE else f"{said[:_LONGEST_LINE]} […]"
        yield f"{speaker}: " + "\n  ".join(shown.splitlines())


@frozen(eq=False, repr=False)
class SessionKey(Value):
    """The session of a run: one of an agent, and of the user, if any, who began it."""

    agent: AgentId
    session: SessionId
    user: str | None = None


@frozen(eq=False, repr=False)
class SessionTurn(Value):
    """The part of a session that one run adds.

    Attributes:
        messages: the task, its calls with their results, and the answer.
        text: the same as plain text.
        results: full texts of the tool results that the messages show in part, by the keys that they name.
        holder: the way from the agent of the session to the one that has the conversation; empty for itself.
        state: the state of the session when the run ended.
        changed: the keys of it that the run changed; those that ``state`` lacks were deleted.
        before: the values of these keys when the run began.
        initial: the first values of a new session, of keys that it has not.
    """

    run_id: RunId
    messages: tuple[Message, ...]
    text: str
    results: Mapping[str, str] = field(factory=dict)
    holder: tuple[str, ...] = ()
    state: JsonObject = field(factory=dict)
    changed: tuple[str, ...] = ()
    before: JsonObject = field(factory=dict)
    initial: JsonObject = field(factory=dict)

    def changes(self, present: JsonObject) -> JsonObject:
        """Return the changes of the present state of the session by this run."""
        missing = [key for key in self.initial if key not in present]
        return {**changes_of(self.initial, missing), **changes_of(self.state, self.changed)}

    def state_after(self, present: JsonObject) -> JsonObject:
        """Return the present state of the session with the changes of this run."""
        return with_changes(present, self.changes(present))

    def conflicts(self, present: JsonObject) -> tuple[str, ...]:
        """Return the changed keys that others have set to other values since it began."""
        own, present = (
            {key: each[key] for key in self.changed if key in each}
            for each in (self.state, {**self.initial, **present})
        )
        by_others, differing = changed_keys(self.before, present), changed_keys(own, present)
        return tuple(key for key in self.changed if key in by_others and key in differing)


@frozen(eq=False, repr=False)
class SessionInfo(Value):
    """A session in a list.

    Attributes:
        title: the beginning of its first task, or a new name.
        is_held: whether a run of another process, or of this one, has its turn or waits for it.
    """

    session: SessionId
    user: str | None
    title: str
    turns: int
    messages: int
    created_at: datetime
    updated_at: datetime
    is_held: bool = field(default=False, metadata=LIVE)


def owner_of(user: str | None, session: str | None, scope: MemoryScope = "user") -> str:
    """Return who owns a run's memories: its user, its session, or ``""``, the agent."""
    if scope == "agent":
        return ""
    if user is not None:
        return user_owner(user)
    return "" if session is None else f"session:{session}"


def user_owner(user: str) -> str:
    """Return the owner of a user's memories."""
    return f"user:{user}"
