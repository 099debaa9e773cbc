"""Inputs of kernels: task, services, usage, the frozen context and verdicts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from attrs import Factory, evolve, field, frozen
from returns.maybe import Maybe, Nothing
from returns.result import Result

from reactive_agents.core.config import AnswerCheck, CompactionMethod, ContextProfile
from reactive_agents.core.content import Content, own_words
from reactive_agents.core.conversation import NO_HISTORY, History
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId, TaskId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import Message, UserMessage
from reactive_agents.core.models import ModelResponse
from reactive_agents.core.results import ReasoningStatus, ReasoningStrategy
from reactive_agents.core.settings import NO_NEEDS, RunSettings, ToolNeeds
from reactive_agents.core.texts import counted
from reactive_agents.core.usage import NO_USAGE, RunUsage, Usage, by_model, total_usage
from reactive_agents.core.values import Value
from reactive_agents.effects import Effect
from reactive_agents.kernel.answer_form import AnswerForm
from reactive_agents.kernel.events import KernelHooks, RunEvents
from reactive_agents.kernel.ledger import NO_CALLS, CallCounts, CallLedger
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.toolset import SameObjects, Toolset
from reactive_agents.ports import LLM, Approver, Clock, IdSource, TokenCounter, ToolService

if TYPE_CHECKING:
    from reactive_agents.core.errors import KernelErrors, ServiceFailed
    from reactive_agents.core.events import AgentEvent
    from reactive_agents.core.memory import MemoryContext
    from reactive_agents.core.tools import TurnChanges

_Fields = ParamSpec("_Fields")
_LONGEST_END = 20_000
"""Characters of each end of a task that are read as an order."""


class UsageAccount:
    """The usage of one run so far, with that of the runs that its tools began.

    Each call adds to it, from any thread; it is summed when it is read.

    Args:
        caller: the account of the run that began this one.
        most_calls: the limit of all tool calls of the run; ``None`` for none.

    Attributes:
        tool_calls: number of tool calls, without ``final-answer``, ``recall`` and calls that were not run.
        ended_by: the limit of tool calls that the run would have passed, in a sentence.
    """

    def __init__(self, caller: UsageAccount | None = None, most_calls: int | None = None) -> None:
        self._caller = caller
        self._most_calls = most_calls
        self.tool_calls = 0
        self._lock = Lock()
        self._models: tuple[RunUsage, ...] = ()
        self._total = NO_USAGE
        self._new: list[RunUsage] = []
        self.ended_by = ""

    def add(self, parts: Sequence[RunUsage]) -> None:
        """Add the usage of calls, of attempts without an answer, or of a tool."""
        with self._lock:
            self._new += parts
        if self._caller is not None:
            self._caller.add(parts)

    def count_calls(self, number: int, whose: str = "limit") -> str:
        """Count tool calls, for the runs above too; return which limit they pass."""
        with self._lock:
            self.tool_calls += number
            most = self._most_calls
            passed = most is not None and self.tool_calls > most
        above = "" if self._caller is None else self._caller.count_calls(number, "caller's limit")
        return f"The {whose} of {counted(most or 0, 'tool call')} was reached." if passed else above

    @property
    def total(self) -> RunUsage:
        """The sum of everything that was added."""
        if self._new:
            self._sum()
        return self._total

    @property
    def models(self) -> tuple[RunUsage, ...]:
        """The usage of each model, in the order of first use."""
        if self._new:
            self._sum()
        return self._models

    def _sum(self) -> None:
        with self._lock:
            self._models = by_model((*self._models, *self._new))
            self._total = total_usage((NO_USAGE, *self._models))
            self._new = []  # last: a reader in another thread waits until the sum is there


def with_valid_usage(response: ModelResponse) -> ModelResponse:
    """Return a service's answer, with impossible tokens or prices counted as unknown.

    Token counts are 0 or more; a price is a finite number of dollars, 0 or more.
    """
    usage, cost_usd = response.usage, response.cost_usd
    counts_fit = min(usage.counts) >= 0
    price_fits = cost_usd is None or 0.0 <= cost_usd < inf
    if counts_fit and price_fits:
        return response
    usage = usage if counts_fit else Usage(reported=False)
    return evolve(response, usage=usage, cost_usd=cost_usd if price_fits else None)


@frozen(eq=False, repr=False)
class Proceed(Value):
    """Take the next step: no policy has an objection."""


@frozen(eq=False, repr=False)
class Redirect(Value):
    """Continue with guidance for the next turn; a proposed answer is rejected."""

    policy: str
    guidance: str


@frozen(eq=False, repr=False)
class Stop(Value):
    """End the run.

    Attributes:
        outcome: how good the output is; ``failed`` ends the run as failed.
        output: the answer, or the part of it that there is.
        reason: why the run ends, in a sentence, with what is missing unless the outcome is ``completed``.
    """

    policy: str
    outcome: ReasoningStatus
    output: str | None
    reason: str


Verdict: TypeAlias = Proceed | Redirect | Stop


# --- What a kernel is given: its input, its services, and the context that is frozen for the whole run ---


@frozen(eq=False, repr=False)
class Provenance(Value):
    """Texts that a run was shown: of its user and program, and of strangers by source."""

    trusted: tuple[str, ...]
    sources: Mapping[str, str]


@frozen(eq=False, repr=False)
class EarlierAttempt(Value):
    """An earlier attempt at the same task in the same run that was not good enough.

    Attributes:
        answer: the answer, shown to the model as data; empty when there was none.
        findings: its problems, one sentence each, shown as data as well.
        stored: the tool results of that attempt by their keys, which ``recall`` reads.
        ledger: the ledger of its calls, which count for limits and requirements.
    """

    answer: str
    findings: tuple[str, ...]
    stored: Mapping[str, str] = field(factory=dict)
    ledger: CallLedger = CallLedger()


@frozen(eq=False, repr=False)
class CompactionMaterial(Value):
    """The material for a summary of earlier turns.

    Attributes:
        task: the task of the run, which every prompt shows.
        records: the summary of still earlier turns, one line each, oldest first.
        dropped: the messages to summarize, oldest first; each call with its result.
        kept: the messages that stay and need no summary.
        keys: the keys of the full results of calls.
        failing: calls that failed and have not succeeded since, each with its error.
        budget: maximum characters of the text; the excess is cut off.
    """

    task: str
    records: tuple[str, ...]
    dropped: tuple[Message, ...]
    kept: tuple[Message, ...]
    keys: Mapping[CallId, str]
    failing: tuple[str, ...]
    budget: int


CompactionFunction: TypeAlias = Callable[[CompactionMaterial], str | Awaitable[str]]
"""Summarizes earlier turns as text; sync or async. It fails when it raises or returns no text."""


@frozen(eq=False, repr=False)
class CompactionSettings(Value):
    """Compaction of a kernel run's transcript; by default only when necessary.

    Attributes:
        model: the model of the method ``model``, as ``provider/model``; ``None`` for the run's model.
        temperature: the temperature of that model, 0 to 2.
        function: the function of the method ``custom``; without one, templates are used.
    """

    method: CompactionMethod = "drop"
    model: str | None = None
    temperature: float = 0.0
    function: CompactionFunction | None = None


def order_in(task: str) -> str:
    """Return a task as an order, each word of which policies read.

    These are its own words, of a long task its ends, since what is between them is data.
    """
    task = own_words(task)
    if len(task) <= 2 * _LONGEST_END:
        return task
    return f"{task[:_LONGEST_END]}\n\n{task[-_LONGEST_END:]}"


def _asked_by(given: KernelInput) -> str:
    return given.user_task or given.task


def _to_do_by(given: KernelInput) -> str:
    return order_in(given.part or given.asked)


@frozen(eq=False, repr=False)
class KernelInput(Value):
    """The input of a kernel run.

    Attributes:
        task: the task that the model is shown.
        user_task: the task in the user's words, if ``task`` has more, such as earlier answers and results,
            which are no source of a figure or an argument; otherwise empty.
        part: the part of the task to do, such as the instruction of a plan's step; empty for all of it.
        instructions: the strategy's instructions; trusted text, part of the system prompt.
        memory: the memories that were recalled; shown as data.
        model: the model, in place of the service's default.
        temperature: 0 to 2; ``None`` leaves it to the provider.
        allowed_tools: the only tools to offer; ``None`` offers all.
        compaction: how the transcript is shortened as it grows.
        deadline: the latest end of the run, in seconds of the monotonic clock; ``None`` for no limit.
        call_limits: maximum calls of each tool in the whole run; ``None`` takes those of ``needs``.
        calls: calls of earlier kernel runs of the strategy, which count too, since limits and requirements
            are always those of the whole run.
        results: stored results of earlier kernel runs of the strategy, which the model can recall.
        key_prefix: the prefix of the keys of this run's results, so that runs of one task share none.
        earlier: the earlier attempt, when this is another try.
        history: the conversation that the run continues; the task is its next message.
        answer_form: the form of the answer; ``None`` for any text.
        parts: images, audio and documents of the task.
        asked: the task in the user's words.
        to_do: the task of this run, the whole task or its part, as an order.
    """

    task: str
    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    session_id: SessionId
    settings: RunSettings = RunSettings()
    instructions: str = ""
    memory: MemoryContext | None = None
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    allowed_tools: frozenset[str] | None = None
    compaction: CompactionSettings = CompactionSettings()
    deadline: float | None = None
    needs: ToolNeeds = NO_NEEDS
    call_limits: Mapping[str, int] | None = None
    calls: CallCounts = NO_CALLS
    results: Mapping[str, str] = field(factory=dict)
    key_prefix: str = ""
    earlier: EarlierAttempt | None = None
    history: History = NO_HISTORY
    user_task: str = ""
    part: str = ""
    answer_form: AnswerForm | None = None
    parts: tuple[Content, ...] = ()

    asked: str = field(init=False, eq=False, repr=False, default=Factory(_asked_by, takes_self=True))
    to_do: str = field(init=False, eq=False, repr=False, default=Factory(_to_do_by, takes_self=True))


@frozen(eq=False, repr=False)
class KernelContext(Value):
    """The context of a kernel run, passed unchanged to every step.

    Attributes:
        tools: ``Nothing`` when the run has no tool service.
        approver: decides on calls that need approval; without one they are denied.
        call_limits: maximum calls of each tool; no limit for tools that are not in it.
        prefix: the messages that every request begins with.
        policies: evaluated in this order before each step; the first verdict wins.
        asked: the policies that apply to this run.
        within_turns: the policies in ``asked`` that are evaluated while the calls of a turn are pending.
        before_turns: those evaluated before the model's next turn, while no answer is proposed.
        max_iterations: maximum turns of the model.
        counter: knows the model's window and tokenizer; ``Nothing`` for none.
        callers: returns what the runs were shown whose tools began this one.
        documents: returns the texts of the documents that the model was shown.
        later_messages: returns what the user has said since the run began, as in a fork.
    """

    input: KernelInput
    profile: ContextProfile
    llm: LLM
    tools: Maybe[ToolService]
    approver: Maybe[Approver]
    toolset: Toolset
    call_limits: Mapping[str, int]
    hooks: KernelHooks
    clock: Clock
    prefix: tuple[Message, ...]
    policies: tuple[Policy, ...]
    max_iterations: int
    counter: Maybe[TokenCounter] = Nothing
    callers: Callable[[], tuple[Provenance, ...]] = tuple
    documents: Callable[[], tuple[str, ...]] = tuple
    later_messages: Callable[[], tuple[str, ...]] = tuple
    asked: tuple[Policy, ...] = field(init=False, eq=False, default=())
    within_turns: tuple[Policy, ...] = field(init=False, eq=False, default=())
    before_turns: tuple[Policy, ...] = field(init=False, eq=False, default=())

    def __attrs_post_init__(self) -> None:
        same = SameObjects(self.policies)
        met = tuple([condition(self) for condition in _conditions(same)])
        for name, policies in _by_moment(same, met, self.input.settings.answer_checks).items():
            object.__setattr__(self, name, policies)

    @property
    def messages_of_others(self) -> tuple[Message, ...]:
        """The messages besides the run's own: the prefix, and later ones of the user."""
        return (*self.prefix, *map(UserMessage, self.later_messages()))

    @property
    def approves(self) -> bool:
        """Return whether there is an approver for calls that need approval."""
        return self.approver is not Nothing

    def worded(self, text: str, brief: str) -> str:
        """Return a text for the model: the brief one for weaker tiers."""
        return brief if self.profile.is_brief else text


ThoughtKernel: TypeAlias = Callable[[KernelState, KernelContext], Effect[KernelState, "KernelErrors"]]
"""One step of reasoning: the next state, from this one and the frozen context."""

KernelStep: TypeAlias = Callable[
    [KernelState, KernelContext], Coroutine[Any, Any, Result[KernelState, "KernelErrors"]]
]
"""A step of a run: the kernel's step with everything around it, such as lifecycle hooks."""

Policy: TypeAlias = Callable[[KernelState, KernelContext], Verdict | None]
"""A pure decision about a run; ``None`` for no verdict."""

_P = TypeVar("_P", bound=Policy)


def between_turns(policy: _P) -> _P:
    """Mark a policy that is not evaluated while the calls of a turn are pending.

    It judges the proposed answer, and the state before the model's next turn.
    """
    return _marked(policy, moment="between turns")


def about_answers(policy: _P) -> _P:
    """Mark a policy that is evaluated only where an answer is proposed."""
    return _marked(policy, moment="answers")


def applies_where(condition: Callable[[KernelContext], bool]) -> Callable[[_P], _P]:
    """Mark a policy that applies only to runs whose context meets a condition."""

    def mark(policy: _P) -> _P:
        return _marked(policy, applies=condition)

    return mark


def optional_check(name: AnswerCheck) -> Callable[[_P], _P]:
    """Mark a policy about answers that the settings of a run may leave out."""

    def mark(policy: _P) -> _P:
        return _marked(policy, moment="answers", check=name)

    return mark


@frozen(eq=False, repr=False)
class _Marks(Value):
    """Where and when a policy is evaluated; by default everywhere and always."""

    applies: Callable[[KernelContext], bool] | None = None
    moment: Literal["always", "between turns", "answers"] = "always"
    check: AnswerCheck | None = None


_UNMARKED = _Marks()


def _marked(policy: _P, **changes: Any) -> _P:
    policy.marks = evolve(_marks_of(policy), **changes)  # type: ignore[attr-defined]
    return policy


@lru_cache(maxsize=64)
def _conditions(policies: SameObjects[Policy]) -> tuple[Callable[[KernelContext], bool], ...]:
    """Return the conditions under which policies apply, each once."""
    applies = (_marks_of(policy).applies for policy in policies.objects)
    return tuple(dict.fromkeys(each for each in applies if each is not None))


@lru_cache(maxsize=64)
def _by_moment(
    policies: SameObjects[Policy], met: tuple[bool, ...], checks: tuple[AnswerCheck, ...]
) -> Mapping[str, tuple[Policy, ...]]:
    """Return the policies that apply to a run, by the fields of its context.

    Args:
        met: which of their conditions the run meets.
        checks: which of those that can be left out are asked.
    """
    holds = dict(zip(_conditions(policies), met, strict=True))
    asked: list[Policy] = []
    within: list[Policy] = []
    before: list[Policy] = []
    for policy in policies.objects:
        marks = _marks_of(policy)
        if marks.check is not None and marks.check not in checks:
            continue
        if marks.applies is not None and not holds[marks.applies]:
            continue
        asked.append(policy)
        if marks.moment != "answers":
            before.append(policy)
            if marks.moment == "always":
                within.append(policy)
    return {"asked": tuple(asked), "within_turns": tuple(within), "before_turns": tuple(before)}


def _marks_of(policy: Policy) -> _Marks:
    marks: _Marks = getattr(policy, "marks", _UNMARKED)
    return marks


@frozen(eq=False, repr=False)
class KernelServices(Value):
    """The services of a kernel run.

    Attributes:
        events: publishes kernel events; ``Nothing`` to publish none.
        wrap: wraps each step, so that an engine can run its lifecycle hooks.
        approver: decides on tool calls that need approval.
        policies: policies that are asked before those of the run's options.
        counter: knows the model's window and tokenizer.
        account: the usage of the run, which its budget limits; without it a kernel knows only its own usage.
        callers: returns what the runs were shown whose tools began this one.
        documents: returns the texts of the documents that the model was shown.
        later_messages: returns what the user has said since the run began, as in a fork.
        turn_changes: returns before each turn of the model how its tools differ in this turn; ``None`` where
            they are always the same.
    """

    llm: LLM
    clock: Clock
    ids: IdSource
    tools: Maybe[ToolService] = Nothing
    events: Maybe[RunEvents] = Nothing
    wrap: Callable[[KernelStep], KernelStep] | None = None
    approver: Maybe[Approver] = Nothing
    policies: tuple[Policy, ...] = ()
    counter: Maybe[TokenCounter] = Nothing
    account: UsageAccount | None = None
    callers: Callable[[], tuple[Provenance, ...]] = tuple
    documents: Callable[[], tuple[str, ...]] = tuple
    later_messages: Callable[[], tuple[str, ...]] = tuple
    turn_changes: Callable[[], Awaitable[Result[TurnChanges, ServiceFailed]]] | None = None

    def publish(
        self,
        kind: Callable[Concatenate[RunId, TaskId, int, datetime, _Fields], AgentEvent],
        /,
        *args: _Fields.args,
        **kwargs: _Fields.kwargs,
    ) -> None:
        """Publish an event of the kind with these fields, if events go anywhere."""
        events = self.events.value_or(None)
        if events is not None:
            events.publish(kind, *args, **kwargs)


@frozen(eq=False, repr=False)
class KernelRunOptions(Value):
    """Options of a kernel run.

    Attributes:
        max_iterations: maximum turns of the model, 1 or more.
        kernel_pass: label for events, such as ``reflexion:generate``.
        answers_by_tool: whether the model is offered the ``final-answer`` tool.
        policies: the policies; ``None`` for the standard ones. ``final_answer`` and ``iteration_limit`` are
            added at the end if they are missing, so that an answer without an objection is accepted.
    """

    max_iterations: int
    strategy: ReasoningStrategy
    kernel_type: str
    kernel_pass: str = ""
    answers_by_tool: bool = True
    policies: tuple[Policy, ...] | None = None
    meta: JsonObject = field(factory=dict)
