"""Definitions of tools, results of calls, and the context of a tool function."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

from reactive_agents.core.content import Content
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId, TaskId
from reactive_agents.core.json import Json, JsonFields, JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.run_context import ProgressReport, RunContext, can_take
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import LIVE, OMITTED, Value, computed

Risk: TypeAlias = Literal["low", "medium", "high"]
CallOrigin: TypeAlias = Literal["executed", "declined", "in_doubt", "stored", "refused", "external"]
"""Where the result of a call comes from: a run of the tool, an earlier run of the same call, or a refusal.

A call that is ``declined`` was not approved. One that is ``in_doubt`` was under way when the process of a
durable run ended, or when its time was up, and may have taken effect. One that is ``external`` has no result
yet: it was checked and approved, and another program executes it.
"""
TRIED: frozenset[CallOrigin | None] = frozenset({"executed", "declined", "in_doubt"})
"""Origins of calls that no rule of the run held back."""

FINAL_ANSWER = "final-answer"
RECALL = "recall"
ASK_USER = "ask-user"
"""The external tool whose calls are questions to a person."""
LOAD_SKILL = "load-skill"
"""The tool whose description lists what it can load, a line each."""
ANSWER_TIMEOUT_S = 300.0
"""Seconds that an external call waits by default."""
RESERVED_NAMES = frozenset({FINAL_ANSWER, RECALL})
"""Names of the kernel's own tools."""

ApprovalRule: TypeAlias = (
    Callable[[dict[str, Any]], bool | Awaitable[bool]]
    | Callable[[RunContext[Any], dict[str, Any]], bool | Awaitable[bool]]
)
"""Return whether a call with these arguments needs approval; may take the run's context first."""


def is_approval_rule(given: object) -> bool:
    """Return whether a value is a function that can be an ``ApprovalRule``."""
    return callable(given) and any(can_take(given, count, follow_wrapped=True) for count in (1, 2))


RecordedRule: TypeAlias = Callable[[JsonObject, Callable[[], Awaitable[bool]]], Awaitable[bool]]
"""Take the arguments of a call, and a function that asks its rule whether it may run unasked."""

_PLAIN_OBJECT = frozenset({"type", "properties", "required", "additionalProperties", "title", "description"})
_PLAIN_VALUE = frozenset({"type", "title", "description", "default"})
_PLAIN_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


@frozen(slots=False, eq=False, repr=False)
class ToolDefinition(Value):
    """The definition of a tool, for the model and the tool service.

    Attributes:
        name: unique in a tool service; letters, digits, ``_`` and ``-``, at most 64 characters.
        description: what it does and when to use it.
        parameters: JSON Schema of the arguments, an object schema.
        timeout_s: seconds a call may take, above 0.
        requires_approval: whether a call is refused with ``ToolNotApproved`` unless someone approves it; also
            true if a rule of the tool lets some calls run unasked.
        risk: how much harm a wrong call can do.
        output: whether it delivers the result of the task (writes the report, sends the mail).
        idempotent: whether a call may be run again with the same arguments after a crash.
        external: whether its calls are checked and approved here, and executed by another program.
        notice: why its calls need approval, for the person who decides; never shown to the model.
        volatile: whether the same call may have another result the next time, such as the progress of a job;
            it is then run each time.
        resumable: whether its only effects are runs of agents, which continue after a crash; it is then run
            again.
        return_direct: whether its result ends the run as the answer, without another turn of the model.
        retries: how often it may be called again after it has failed, in a row; ``None`` for no limit.
    """

    name: str
    description: str
    parameters: JsonFields
    timeout_s: float = 60.0
    requires_approval: bool = False
    risk: Risk = "low"
    output: bool = False
    idempotent: bool = False
    volatile: bool = False
    notice: str = ""
    external: bool = False
    resumable: bool = False
    return_direct: bool = field(default=False, metadata=OMITTED)
    retries: int | None = field(default=None, metadata=OMITTED)

    @computed
    def schema_text(self) -> str:
        """Return the parameters as JSON text."""
        return json.dumps(self.parameters)

    @computed
    def prompt_bytes(self) -> int:
        """Return the bytes of what a model is shown of the tool."""
        described = len(self.description.encode("utf-8", "surrogatepass"))
        return len(self.name) + described + len(self.schema_text)

    @computed
    def plain_types(self) -> Mapping[str, tuple[type, ...]] | None:
        """Return the Python types of arguments whose schema has only a type.

        ``None`` when it asks more of the arguments as a whole than that some are there, and no others.
        """
        properties, required = self.parameters.get("properties"), self.parameters.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            return None
        if not (
            _PLAIN_OBJECT.issuperset(self.parameters) and all(isinstance(each, str) for each in required)
        ):
            return None
        types: dict[str, tuple[type, ...]] = {}
        for name, wanted in properties.items():
            if isinstance(wanted, dict) and _PLAIN_VALUE.issuperset(wanted):
                kind = wanted.get("type")
                types[name] = _PLAIN_TYPES.get(kind, ()) if isinstance(kind, str) else ()
        return types


TurnChanges: TypeAlias = tuple[str | ToolDefinition, ...]
"""How the tools of a turn differ: names of those left out, and definitions shown in place of others."""


@frozen(eq=False, repr=False)
class KnownText(Value):
    """The text of a file that a run has written, or some lines of it that it has read.

    Attributes:
        digest: SHA-256 of the bytes of the whole file, in hexadecimal.
        first, last, total: the lines that were read, counted from 1, and those of the file; without them, all
            of the text is known.
    """

    digest: str
    first: int = 1
    last: int = 0
    total: int = 0


def texts_known_whole(known: Iterable[KnownText]) -> frozenset[str]:
    """Return the digests of the texts whose lines are all known.

    >>> texts_known_whole([KnownText("a", 3, 5, 5), KnownText("b", 2, 5, 5), KnownText("a", 1, 2, 5)])
    frozenset({'a'})
    """
    reached: dict[str, int] = {}
    whole = set()
    for each in sorted(known, key=lambda text: text.first):
        before = reached.get(each.digest, 0)
        if each.first <= before + 1:
            reached[each.digest] = before = max(before, each.last)
        if before >= each.total:
            whole.add(each.digest)
    return frozenset(whole)


@frozen(slots=False, eq=False, repr=False)
class ToolScope(Value):
    """The run and agent of a call, filled in by the caller of the tool service.

    Attributes:
        call_key: unique for this call and the same when the run is replayed, so usable as an idempotency key.
        deadline: when the run must have ended, in seconds of the run's monotonic clock; ``None`` for never.
        needs_approval: whether this call needs approval, also where its tool does not.
        recorded_rule: returns whether the rule of the tool lets the call run unasked, as it was recorded the
            first time; ``None`` where nothing is recorded.
        run_context: makes the context of the call, for functions that take one; ``None`` outside of agents.
        report: takes the progress of the call, from any thread; ``None`` where the events have no readers.
        known_texts: what the run has read and written of files.
        parameters: JSON Schema of the arguments that the model was shown instead of the tool's; they have to
            fit both.
    """

    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    session_id: SessionId
    call_key: str
    deadline: float | None = None
    needs_approval: bool = False
    run_context: Callable[[], RunContext[Any]] | None = field(default=None, eq=False, repr=False)
    report: ProgressReport | None = field(default=None, eq=False, repr=False)
    known_texts: tuple[KnownText, ...] = field(default=(), eq=False, repr=False)
    recorded_rule: RecordedRule | None = field(default=None, eq=False, repr=False)
    parameters: JsonObject | None = field(default=None, eq=False, repr=False)


@frozen(eq=False, repr=False)
class ToolContext(Value):
    """Passed to a tool function with a parameter of this type; hidden from the model.

    Attributes:
        call_id: stable across replays of the run, usable as an idempotency key.
        workspace: the directory that file tools may not leave, absolute and without symlinks.
        deadline: the latest end of the call, in seconds of the monotonic clock; ``None`` for no limit.
        protected: resolved paths that tools do not write: configuration, code and records of the agent.
        known_texts: what the run has read and written of files; a tool adds what it shows or writes.
    """

    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    call_id: str
    workspace: Path
    deadline: float | None = None
    protected: frozenset[Path] = frozenset()
    known_texts: list[KnownText] = field(factory=list, eq=False, repr=False, metadata=LIVE)


@frozen(eq=False, repr=False)
class ToolResult(Value):
    """A call that was executed or refused. ``error`` is empty after a success.

    Attributes:
        result: the full value as JSON; ``None`` when the call failed.
        duration_ms: wall-clock milliseconds.
        origin: whether the tool was run for this call.
        usage: the usage of models that the tool itself has called, by model.
        counted: whether the usage is already in the account of the run.
        parts: images, audio and documents, in the order of their labels in the result.
        known_texts: what the call has read or written of files.
        arguments: those that an approver gave in place of the model's; a wrapper cannot set them.
        ran: the arguments of each run of the tool, if a wrapper did not run it once with those of the call.
    """

    call_id: CallId
    tool_name: str
    result: Json = None
    error: str = ""
    duration_ms: float = field(default=0.0)
    origin: CallOrigin = "executed"
    usage: tuple[RunUsage, ...] = ()
    counted: bool = False
    parts: tuple[Content, ...] = field(default=(), metadata=OMITTED)
    known_texts: tuple[KnownText, ...] = field(default=(), metadata=OMITTED)
    arguments: JsonObject | None = field(default=None, metadata=OMITTED)
    ran: tuple[JsonObject, ...] | None = field(default=None, metadata=OMITTED)

    @property
    def success(self) -> bool:
        """Return whether the tool succeeded."""
        return not self.error


RunTool: TypeAlias = Callable[[Mapping[str, Json]], Awaitable[ToolResult]]
"""Run the tool of a call with arguments; the result of a failed tool has an ``error``."""

ToolWrapper: TypeAlias = Callable[[RunContext[Any], ToolCall, Any], Any]
"""Code around each call of a tool: takes the context, the call, and a function that runs the tool."""
