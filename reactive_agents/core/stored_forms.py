"""The stored forms of values: tags of classes, and upgrades of earlier versions.

Files outlive the code that wrote them: kernel states, memory files, audit logs and configurations of an
earlier version must open after classes were renamed, merged or given other fields. So nothing here is derived
from the code. The rules for a change:

- A tag is written into files, so it is never changed and never used again. A class that is renamed or moved
  keeps its tag; only the path beside it changes. A class that goes gets an entry in ``RETIRED_TAGS``.
- A new field has a default, and needs nothing else. A field that is renamed, nested or removed gets a
  function in ``UPGRADES`` that makes today's fields of yesterday's; it sees every form ever written and
  leaves today's as it is.
- Forms are only ever added: samples of each version lie in ``tests/stored_samples``, and all of them must
  open.

The functions see untrusted JSON data, and must not raise for any object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from reactive_agents.core.json import Json, JsonObject

Upgrade: TypeAlias = Callable[[JsonObject], JsonObject]
"""Return the fields in today's form, of the fields of an object in any earlier one."""

TAG = "tag"
"""The key beside the fields that names the class of a value, where a field may hold one of several."""

VERSION = "version"
"""The key beside the fields of a document that says which version of its form it has."""

_PACKAGE = "reactive_agents."


def tag_of(kind: type) -> str:
    """Return the tag of a class; for a class outside the table its name."""
    return _TAG_BY_PATH.get(f"{kind.__module__}.{kind.__qualname__}", kind.__name__)


def upgrade_of(kind: type) -> Upgrade | None:
    """Return the upgrade of a class's earlier forms, if there were any."""
    return UPGRADES.get(f"{kind.__module__}.{kind.__qualname__}".removeprefix(_PACKAGE))


def renamed_fields(**names: str) -> Upgrade:
    """Return an upgrade for fields that have other names now.

    >>> renamed_fields(ladder="tiers")({"path": "cost.db", "ladder": []})
    {'path': 'cost.db', 'tiers': []}
    """

    def upgrade(data: JsonObject) -> JsonObject:
        return {names[key] if key in names and names[key] not in data else key: data[key] for key in data}

    return upgrade


def nested_fields(name: str, *fields: str) -> Upgrade:
    """Return an upgrade for fields that are nested under a new one.

    >>> nested_fields("calls", "attempts", "succeeded")({"attempts": {"add": 1}, "told": {}})
    {'told': {}, 'calls': {'attempts': {'add': 1}}}
    """

    def upgrade(data: JsonObject) -> JsonObject:
        inner = {key: data[key] for key in fields if key in data}
        if not inner or name in data:
            return data
        return {**{key: data[key] for key in data if key not in inner}, name: inner}

    return upgrade


_METHODS: JsonObject = {"off": "drop", "fast": "template", "deep": "model"}
_COMPACTION = {
    "synthesis": "method",
    "synthesis_model": "model",
    "synthesis_provider": "provider",
    "synthesis_strategy": "function",
    "synthesis_temperature": "temperature",
}


def _reasoning(data: JsonObject) -> JsonObject:
    """Move options named ``synthesis…`` to the fields of ``compaction``."""
    data = _with_compaction(data, {})
    strategies = data.get("strategies")
    if isinstance(strategies, dict):
        common = data.get("compaction")
        shared = common if isinstance(common, dict) else {}
        own = {
            name: _with_compaction(each, shared) if isinstance(each, dict) else each
            for name, each in strategies.items()
        }
        data = {**data, "strategies": own}
    return data


def _with_compaction(data: JsonObject, shared: JsonObject) -> JsonObject:
    earlier = {new: data[old] for old, new in _COMPACTION.items() if data.get(old) is not None}
    data = {key: value for key, value in data.items() if key not in _COMPACTION}
    if not earlier:
        return data
    method, model = earlier.get("method"), earlier.get("model")
    if isinstance(method, str):
        earlier["method"] = _METHODS.get(method, method)
    if shared and isinstance(model, str) and "/" in model:
        earlier = {"provider": None, **earlier}
    given = data.get("compaction")
    return {**data, "compaction": {**shared, **(given if isinstance(given, dict) else {}), **earlier}}


def _compacted(data: JsonObject) -> JsonObject:
    if "before_chars" not in data:
        return data
    data = renamed_fields(before_chars="size_before", after_chars="size_after")(data)
    tokens: JsonObject = {"tokens_before": data["size_before"], "tokens_after": data.get("size_after", 0)}
    return {**data, **tokens, "method": "drop", "configured": "auto", "iteration": 0, "turns": 0}


def _synthesized(data: JsonObject) -> JsonObject:
    names = {"mode": "method", "asked": "configured"}
    sizes = {"characters_before": "size_before", "characters_after": "size_after"}
    gone = {"fell_back", "reason", "window_share", "idle_turns", "novelty"}
    made = {key: item for key, item in renamed_fields(**names, **sizes)(data).items() if key not in gone}
    for name in ("method", "configured"):
        method = made.get(name)
        made[name] = _METHODS.get(method, method) if isinstance(method, str) else method
    tokens, share = data.get("tokens_before"), data.get("window_share")
    known = isinstance(tokens, int) and isinstance(share, int | float) and share > 0
    window = round(tokens / share) if known else 0  # type: ignore[operator]
    problem = data.get("reason") if data.get("fell_back") is True else ""
    return {**made, "reason": "growth", "window_tokens": window, "problem": problem}


def _with_usage_by_model(data: JsonObject) -> JsonObject:
    """Return a tool result whose totals of spending are a list by model."""
    if "spending" not in data or "usage" in data:
        return data
    spending = data["spending"]
    parts: Json = []
    if isinstance(spending, dict):
        models = spending.get("models")
        whole = {key: spending[key] for key in spending if key != "models"}
        parts = models if isinstance(models, list) and models else [whole]
    return {**{key: data[key] for key in data if key != "spending"}, "usage": parts}


_TAGGED: Mapping[str, str] = {
    "content": "Audio Document Image",
    "control_events": """
        ContextCompacted ContextLost CustomEvent DependenciesNotClosed ExecutionHookFailed ExecutionPaused
        ExecutionResumed ExecutionStopped GuidanceGiven ModelCallAbandoned ModelCallDelayed
        ModelParameterRefused ModelStreamRestarted ModelTextRetracted ModelTextStreamed
        ModelThinkingStreamed RunContinued SessionAwaited ToolArgumentsStreamed ToolCallInDoubt
        ToolProgressed
    """,
    "bases": "DecodeError InvalidConfig ServiceFailed ServiceMissing",
    "events": """
        ExecutionCancelled ExecutionHookFired ExecutionLoopIteration ExecutionPhaseEntered
        ExecutionPhaseFailed ExecutionPhaseSkipped FinalAnswerProduced ModelCallCompleted ModelCallStarted
        ReasoningStepCompleted StrategySelected TaskCompleted TaskFailed TaskStarted ToolCallCompleted
        ToolCallStarted
    """,
    "memory": "ForgetAgent ForgetEntry ForgetOlder ForgetUser",
    "messages": "AssistantMessage SystemMessage ToolMessage UserMessage",
    "models": "StreamCompleted StreamRestarted TextDelta ThinkingDelta ToolCallDelta",
    "persona_events": """
        PersonaEngagementDecided PersonaEventDropped PersonaEventReceived PersonaLearningChanged
        PersonaOutcomeEvaluated PersonaPlanAdjusted PersonaPlanEnded PersonaPlanFormulated
        PersonaPlanResumed PersonaStageFailed PersonaStepEnded PersonaStepExpanded PersonaStepStarted
    """,
    "run_errors": """
        AddressRefused AuditBroken AuthenticationFailed BudgetExceeded BudgetUnavailable ContentRefused
        ContentUnavailable ContentUnsupported ContextOverflow ControllerError DeliveryFailed ExecutionError
        GuardrailViolationError HookError IllegalAgentState IllegalTransition InboxFull InvalidEvent
        InvalidToolArguments IterationLimitError KernelFailed LeaseLost MalformedResponse MaxIterationsError
        MemoryUnavailable ModelCallFailed ModelTimeout ModelUnavailable OutputValidatorFailed PolicyFailed
        RateLimited ReasoningError RecordFailed RecordNotFound RequestRejected RunCancelled RunInterrupted
        RunRefused ScriptExhausted SelectionError SessionRefused SessionUnavailable StepIncomplete
        StepTimedOut StrategyExecutionError StrategyNotFoundError StructuredOutputError TaskError ToolFailed
        ToolNotAnswered ToolNotApproved ToolNotFound ToolTimedOut UnknownDomain VerificationFailed
        WorkspaceViolation
    """,
    "service_events": """
        ApprovalDecided ApprovalRequested BudgetNotSettled BudgetWarning ExternalCallDelivered
        ExternalCallRequested GuardrailTriggered HandedOff MemoryBootstrapped MemoryFlushed
        MemorySnapshotSaved ModelRouted PlanCreated PlanEnded PlanRevised PlanStepChanged PlanStoreFailed
        QuestionAnswered QuestionAsked ResultVerified ThoughtsJudged ToolNeedsFound ToolWithheld
        VerificationActed
    """,
}
"""Tags of the classes of each module of ``core``. A class has the name of its tag, unless it was renamed."""

_RENAMED: Mapping[str, str] = {}
"""Tags whose class has another name now, each with the path of the class."""

TAGS: Mapping[str, str] = {
    **{tag: f"core.{module}.{tag}" for module, tags in _TAGGED.items() for tag in tags.split()},
    **_RENAMED,
}
"""Tags, each with the class that has it now."""

RETIRED_TAGS: Mapping[str, tuple[str, Upgrade]] = {"ContextSynthesized": ("ContextCompacted", _synthesized)}
"""Tags of classes that are gone: the tag of the class in their place, and its fields made of theirs."""


def _kernel_state(data: JsonObject) -> JsonObject:
    """Return a kernel state with nested totals, transcript figures and call ids."""
    made = {key: data[key] for key in data if key not in _FLAT}
    counts = {key: data[key] for key in _TOTALS if key in data}
    if counts and "usage" not in data:
        unknown = counts.get("unreported_turns", 0)
        made["usage"] = {
            "usage": {"total_tokens": counts.get("tokens", 0), "reported": unknown == 0},
            "cost_usd": counts.get("cost", 0.0),
            "calls": data.get("iteration", 0),
            "unpriced_calls": counts.get("unpriced_turns", 0),
            "unreported_calls": unknown,
        }
    if data.get("run_tokens") or data.get("run_cost"):
        tokens: JsonObject = {"total_tokens": data.get("run_tokens", 0)}
        made["run_usage"] = {"usage": tokens, "cost_usd": data.get("run_cost", 0.0)}
    facts = {new: data[old] for old, new in _TRANSCRIPT.items() if old in data}
    transcript = data.get("transcript", {})
    if facts and isinstance(transcript, dict):
        made["transcript"] = {**transcript, **facts}
    ledger = data.get("ledger", {})
    if "call_ids" in data and isinstance(ledger, dict):
        made["ledger"] = {**ledger, "call_ids": data["call_ids"]}
    return made


def _state_of_a_room(data: JsonObject) -> JsonObject:
    """Return the state of a persona in a room, from when it had one for all rooms."""
    if "persona_id" not in data or "room" in data:
        return data
    room: JsonObject = {"persona_id": data["persona_id"], "domain": "", "context_id": ""}
    return {**{key: data[key] for key in data if key != "persona_id"}, "room": room}


_TOTALS = ("tokens", "cost", "unreported_turns", "unpriced_turns")
_TRANSCRIPT = {"extent": "estimate", "shown_in_part": "shown_in_part"}
_FLAT = frozenset({*_TOTALS, *_TRANSCRIPT, "run_tokens", "run_cost", "call_ids"})

UPGRADES: Mapping[str, Upgrade] = {
    "kernel.state.KernelState": _kernel_state,
    "core.tools.ToolResult": _with_usage_by_model,
    "core.messages.ToolCall": renamed_fields(healings="repairs"),
    "core.results.StepMetadata": renamed_fields(healings="repairs"),
    "kernel.ledger.CallLedger": nested_fields("calls", "attempts", "succeeded", "failed_in_a_row"),
    "core.config.CostConfig": renamed_fields(ladder="tiers"),
    "core.config.ReasoningConfig": _reasoning,
    "core.control_events.ContextCompacted": _compacted,
    "core.personas.SelfState": _state_of_a_room,
}
"""Classes that were written differently, each with the function that reads all earlier forms."""

_TAG_BY_PATH: Mapping[str, str] = {_PACKAGE + path: tag for tag, path in TAGS.items()}
