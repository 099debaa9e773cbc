"""Dropping parts of a transcript, which stay available by recall.

In this order, and no further than is needed: old tool results become stubs that name their keys; old texts
and arguments are shortened; whatever is still too large is shown in part, the newest last; the oldest turns
are put aside as a whole. A call and its result stay or go together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from attrs import evolve, frozen

from reactive_agents.core.ids import CallId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from reactive_agents.core.values import Value
from reactive_agents.kernel.context_window.previews import preview
from reactive_agents.kernel.toolset import RECALL

Cost = Callable[[Message], int]

_STUB = "[compacted: "
_LONGEST_STUB = 200
_KEPT_TEXT = 400
"""Characters of an old text or of old arguments that are kept."""
_LEAST = 50
"""What a message is cut down to at the least, before whole turns are put aside."""
_LEAST_SHOWN = 160
"""Characters of a view that names its key; with fewer, a stub says more."""
_TRIED = (4.0, 2.0, 1.0, 0.25)
"""Characters to a unit of cost, tried in this order: more of a text is kept when its tokens are counted."""


@frozen(eq=False, repr=False)
class Compacted(Value):
    """A smaller transcript, its cost, and what was taken out and is kept nowhere else."""

    messages: tuple[Message, ...]
    stored: Mapping[str, str]
    cost: int


def compact(
    messages: Sequence[Message],
    room: int,
    cost: Cost,
    *,
    goal: int | None = None,
    keys: Mapping[CallId, str] | None = None,
    scratchpad: Mapping[str, str] | None = None,
) -> Compacted:
    """Return the transcript within ``room``, at last without any message.

    Args:
        messages: a transcript after the stable prefix, each call answered right after it.
        room: what the messages may cost together; one that costs less comes back unchanged.
        goal: cost to shrink to once something is dropped, so that not every step drops; at most ``room``.
        keys: the keys of the results of calls.
    """
    work = _Work(messages, cost, keys or {}, scratchpad or {})
    if work.total > room:
        goal = room if goal is None else min(goal, room)
        _stub_old_results(work, goal)
        _shorten_old_texts(work, goal)
        _clamp(work, room, goal)
        _drop_turns(work, room, goal)
    return Compacted(tuple(work.messages), work.stored, work.total)


class _Work:
    """The transcript while it is made smaller."""

    def __init__(
        self,
        messages: Sequence[Message],
        cost: Cost,
        keys: Mapping[CallId, str],
        scratchpad: Mapping[str, str],
    ) -> None:
        self.messages = list(messages)
        self.cost = cost
        self.costs = [cost(message) for message in messages]
        self.total = sum(self.costs)
        self.stored: dict[str, str] = {}
        self.last_turn = _last_turn(self.messages)
        self._keys = keys
        self._scratchpad = scratchpad
        self._recalled = {
            call.id: call.arguments.get("key")
            for message in messages
            if isinstance(message, AssistantMessage)
            for call in message.tool_calls
            if call.name == RECALL
        }

    def put(self, position: int, message: Message) -> bool:
        """Replace a message by a cheaper one; refuses one that is not."""
        cost = self.cost(message)
        if cost >= self.costs[position]:
            return False
        self.total += cost - self.costs[position]
        self.messages[position], self.costs[position] = message, cost
        return True

    def key_for(self, kind: str) -> str:
        """Return a key for :meth:`keep`; no tool result has such a key."""
        return f"{kind}:{len(self._scratchpad) + len(self.stored) + 1}"

    def keep(self, key: str, text: str) -> None:
        """Keep a text that was taken out."""
        self.stored[key] = text

    def source(self, message: ToolMessage) -> tuple[str, str] | None:
        """Where the full text of a tool result is kept already, and the text."""
        key = self._keys.get(message.call_id) or self._recalled.get(message.call_id)
        return (key, self._scratchpad[key]) if isinstance(key, str) and key in self._scratchpad else None


def stub(characters: int, key: str) -> str:
    """Return the placeholder of a removed text."""
    return f"{_STUB}{characters} characters, stored as {key}; recall it]"


def _is_stub(text: str) -> bool:
    return len(text) <= _LONGEST_STUB and text.startswith(_STUB)


def _last_turn(messages: Sequence[Message]) -> int:
    spoken = [position for position, one in enumerate(messages) if isinstance(one, AssistantMessage)]
    return spoken[-1] if spoken else max(0, len(messages) - 1)


def _stub_old_results(work: _Work, goal: int) -> None:
    for position in range(work.last_turn):
        if work.total <= goal:
            return
        message = work.messages[position]
        if not isinstance(message, ToolMessage) or _is_stub(message.content):
            continue
        source = work.source(message)
        key, text = source or (work.key_for("result"), message.content)
        if work.put(position, evolve(message, content=stub(len(text), key), parts=())) and source is None:
            work.keep(key, text)


def _shorten_old_texts(work: _Work, goal: int) -> None:
    last_words = max(
        (
            position
            for position, message in enumerate(work.messages)
            if isinstance(message, AssistantMessage) and message.content.strip()
        ),
        default=-1,
    )
    for position in range(work.last_turn):
        if work.total <= goal:
            return
        if not isinstance(work.messages[position], AssistantMessage):
            continue
        _shorten_arguments(work, position, _KEPT_TEXT)
        if position != last_words:
            _cut(work, position, _KEPT_TEXT)


def _shorten_arguments(work: _Work, position: int, limit: int) -> None:
    message = work.messages[position]
    if not isinstance(message, AssistantMessage):
        return
    limit = max(_LONGEST_STUB, limit // max(1, len(message.tool_calls)))
    for index, call in enumerate(message.tool_calls):
        written = call.sent_arguments
        if len(written) <= limit:
            continue
        key = work.key_for("arguments")
        shorter = evolve(call, arguments=shorter_arguments(call.arguments, key, limit), malformed="")
        if call.malformed:
            shorter = evolve(shorter, arguments={"compacted": stub(len(written), key)})
        calls = (*message.tool_calls[:index], shorter, *message.tool_calls[index + 1 :])
        following = evolve(message, tool_calls=calls)
        if work.put(position, following):
            work.keep(key, written)
            message = following


def shorter_arguments(arguments: JsonObject, key: str, limit: int) -> JsonObject:
    """Return arguments with large ones replaced, of about ``limit`` characters.

    Args:
        key: the key of the full arguments, as JSON text.
    """
    allowed = max(_LEAST, limit // max(1, len(arguments)))
    shorter: JsonObject = {}
    for name, value in arguments.items():
        size = len(value) if isinstance(value, str) else len(json.dumps(value))
        kept: Json = value if size <= allowed else stub(size, key)
        shorter[name] = kept
    if len(json.dumps(shorter)) <= max(limit, _LONGEST_STUB):
        return shorter
    return {"compacted": stub(len(json.dumps(arguments, ensure_ascii=False)), key)}


def _clamp(work: _Work, room: int, goal: int) -> None:
    for share in dict.fromkeys(max(_LEAST, part) for part in (room // 4, room // 16, _LEAST)):
        for position in range(len(work.messages)):
            if work.total <= room:
                return
            excess = work.total - (goal if position < work.last_turn else room)
            if work.costs[position] > share:
                allowed = max(share, work.costs[position] - excess)
                _shorten_arguments(work, position, allowed // 2)
                if work.costs[position] > allowed:
                    _cut(work, position, allowed)


def _cut(work: _Work, position: int, allowed: int) -> None:
    """Shorten a message's content to the allowed cost, if possible."""
    message = work.messages[position]
    if len(message.content) <= _LEAST or _is_stub(message.content):
        return
    source = work.source(message) if isinstance(message, ToolMessage) else None
    kind = "result" if isinstance(message, ToolMessage) else "said"
    key, text = source or (work.key_for(kind), message.content)
    bare = evolve(message, parts=()) if isinstance(message, ToolMessage) else message
    around = work.cost(evolve(bare, content=""))
    for characters in _TRIED:
        budget = int(max(0, allowed - around) * characters)
        budget = min(budget, len(message.content) - 1)
        shown = preview(text, key, budget) if budget >= _LEAST_SHOWN else stub(len(text), key)
        cheaper = evolve(bare, content=shown)
        if work.cost(cheaper) <= allowed or characters == _TRIED[-1]:
            if work.put(position, cheaper) and source is None:
                work.keep(key, text)
            return


def _drop_turns(work: _Work, room: int, goal: int) -> None:
    if work.total <= room:
        return
    written: list[str] = []
    key = work.key_for("turns")
    note: Message = UserMessage("")
    note_cost = size = 0
    while work.messages:
        has_old_turns = any(not isinstance(each, ToolMessage) for each in work.messages[1:])
        if work.total + note_cost <= (goal if has_old_turns else room):
            break
        for piece in map(_written, _take_oldest(work)):
            written.append(piece)
            size += len(piece) + 1
        note = UserMessage(f"{_STUB}what came before, {size - 1} characters, stored as {key}; recall it]")
        note_cost = work.cost(note)
    work.keep(key, "\n".join(written))
    if note_cost <= room:
        work.messages.insert(0, note)
        work.total += note_cost


def _take_oldest(work: _Work) -> list[Message]:
    """Remove the oldest turn; of the last turn its oldest call, then its text."""
    first = work.messages[0]
    end = 1
    while end < len(work.messages) and isinstance(work.messages[end], ToolMessage):
        end += 1
    calls = first.tool_calls if isinstance(first, AssistantMessage) else ()
    if len(work.messages) > end or len(calls) < 2:
        return _take(work, end)
    assert isinstance(first, AssistantMessage)
    call = calls[0]
    answer = next((n for n in range(1, end) if getattr(work.messages[n], "call_id", None) == call.id), None)
    taken: list[Message] = [evolve(first, content="", tool_calls=(call,))]
    if answer is not None:
        taken.append(work.messages.pop(answer))
        work.total -= work.costs.pop(answer)
    fewer = evolve(first, tool_calls=calls[1:])
    cost = work.cost(fewer)
    work.total += cost - work.costs[0]
    work.messages[0], work.costs[0] = fewer, cost
    return taken


def _take(work: _Work, end: int) -> list[Message]:
    taken = work.messages[:end]
    work.total -= sum(work.costs[:end])
    del work.messages[:end], work.costs[:end]
    return taken


def _written(message: Message) -> str:
    match message:
        case ToolMessage(_, tool_name, content):
            return f"result of {tool_name}: {content}"
        case AssistantMessage(content, calls):
            made = (f"call of {call.name}: {call.sent_arguments}" for call in calls)
            return "\n".join(filter(None, (content, *made)))
        case _:
            return message.content
