"""Tasks, their complexity, and the results of their runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, cast

from attrs import evolve, field, frozen
from typing_extensions import TypeVar

from reactive_agents.core import results
from reactive_agents.core.content import Content
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.json import JsonFields, JsonObject
from reactive_agents.core.messages import Message
from reactive_agents.core.model_settings import ModelSettings
from reactive_agents.core.settings import BudgetConfig
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.core.values import OMITTED, Value, lazy_pattern

TaskPriority: TypeAlias = Literal["low", "medium", "high", "critical"]


@frozen(eq=False, repr=False)
class Task(Value):
    """A task for an agent.

    Attributes:
        agent_id: the agent under whose id the run is remembered, accounted for and audited, even when another
            agent executes it.
        type: the kind of task, for learning across runs.
        details: further data for phases, hooks and strategies.
        session: the name of the conversation that the run continues and adds to; ``None`` for none.
        user: the program's name of the user whose task it is; ``None`` for no user.
        history: messages of a conversation that the run continues, oldest first; not with a session.
        tags: names that the program gave the run.
        metadata: JSON data that the program gave the run; nothing in this package reads it.
        parts: images, audio and documents, in the order of their labels in the input.
        model_settings: parameters of the run's requests to models, which override those of the agent.
        scope: the owner of the run's memories, in place of its user; ``None`` for the user.
        budget: limits of the run, which replace those of the agent that they name.
        is_relayed: whether a model or a persona wrote the input, so that memory does not take it for words of
            the user.
    """

    id: TaskId
    agent_id: AgentId
    input: str
    created_at: datetime
    type: str = "query"
    priority: TaskPriority = "medium"
    tags: tuple[str, ...] = ()
    details: JsonObject = field(factory=dict)
    session: str | None = None
    user: str | None = None
    history: tuple[Message, ...] = ()
    metadata: JsonObject = field(factory=dict)
    parts: tuple[Content, ...] = field(default=(), metadata=OMITTED)
    model_settings: ModelSettings | None = None
    scope: str | None = None
    budget: BudgetConfig | None = field(default=None, metadata=OMITTED)
    is_relayed: bool = field(default=False, metadata=OMITTED)

    def listed(self, name: str) -> tuple[str, ...]:
        """Return the texts in the details under a name: a list, a single text, or none."""
        given: object = self.details.get(name)
        if isinstance(given, str):
            return (given,)
        several = given if isinstance(given, list | tuple | set | frozenset) else ()
        return tuple(each for each in several if isinstance(each, str))


@frozen(slots=False, eq=False, repr=False)
class TaskResultMetadata(Value):
    """Figures of a run.

    Attributes:
        duration_ms: wall-clock milliseconds of the whole run, all phases included.
        cost_usd: US dollars, as far as prices are known, with the cost of answers that could not be used.
        unpriced_calls: number of answers whose price is unknown, so that ``cost_usd`` lacks them.
        tokens_used: total tokens of all model calls, as the providers counted them.
        usage: the same tokens, by input and output.
        model_calls: number of answered model calls.
        tool_calls: number of tool calls, those of sub-runs included, without calls that were not run.
        models: tokens, cost and calls of each model, in the order of first use.
        strategy_used: the strategy that produced the output; ``direct`` when reasoning is off.
        model: the model that answered last.
        terminated_by: the policy or event that ended the reasoning.
        requests: number of approvals, questions and external calls that people were asked for, including
            those of agents that work for this run.
        confidence: 0 to 1, from the verifier if there was one, otherwise from the course of the run.
        effectiveness: 0 to 1, the share of successes of the strategy on such tasks so far, including this
            run; ``None`` if outcomes are not recorded, for example without a memory.
        tags: the tags of the run, as given by ``run(task, tags=…)``.
        given: the data of ``run(task, metadata=…)``.
    """

    duration_ms: float
    cost_usd: float
    tokens_used: int
    steps_count: int
    strategy_used: results.ReasoningStrategy
    model: str
    terminated_by: str
    iterations: int = 0
    model_calls: int = 0
    unpriced_calls: int = 0
    usage: Usage = field(factory=Usage)
    confidence: float | None = None
    effectiveness: float | None = None
    selected_strategy: results.ReasoningStrategy | None = None
    models: tuple[RunUsage, ...] = ()
    requests: int = 0
    tags: tuple[str, ...] = ()
    given: JsonObject = field(factory=dict)
    tool_calls: int = field(default=0, metadata=OMITTED)


@frozen(eq=False, repr=False)
class SubRun(Value):
    """A run that a tool of a run began, such as that of another agent, or a handoff.

    Attributes:
        parent_run_id: the run whose tool began it.
        agent: name of the agent.
        task: its task.
        status: its status, ``failed`` if it has no result.
        output: its answer as text, if there is one.
        reason: why it ended, in a sentence.
        metadata: its figures, which the totals of its parent include.
    """

    run_id: RunId
    parent_run_id: RunId
    agent: str
    task: str
    status: results.ReasoningStatus
    output: str | None
    reason: str
    steps: tuple[results.ReasoningStep, ...]
    metadata: TaskResultMetadata


Output = TypeVar("Output", covariant=True, default=str)
"""The type of the answers: ``str`` without an output type."""


@frozen(kw_only=True, eq=False, repr=False)
class TaskResult(Value, Generic[Output]):
    """The result of a run that did not fail.

    Its class depends on its status: ``CompletedResult``, ``PartialResult`` or ``AbstainedResult``. So a
    comparison of ``status`` tells a type checker the type of ``output``.

    Attributes:
        output: the answer, a text or a value of the agent's output type. With status ``partial`` it is the
            part of the answer that there is, or ``None``; with ``abstained`` it is the text that says why
            there is no answer, or ``None`` with an output type.
        success: whether the status is ``completed``.
        reason: why the run ended, in a sentence; with ``partial`` also what is missing, with ``abstained``
            why the task cannot be done and what would be needed.
        tool_results: the full text of every tool result, by the key that its observation step names.
        verification: the findings of the verifier, if there was one.
        tree: the thoughts of a strategy that searches a tree of thoughts.
        deliverables: the products of the run, however it ended, with the calls that show them.
        new_messages: the messages that the run adds to its conversation: the task, its calls and their
            results as the model saw them, the answer.
        history: the messages of the conversation that it continued.
        output_text: the answer as text, if there is an output type; ``None`` if ``output`` is that text.
        sub_runs: the runs that its tools began, and those that the tools of these runs began, in the order
            in which they ended.
        handoffs: names of the agents that the conversation was handed to, in order.
        agent: name of the agent that answered; empty in results of earlier versions.
        state: the state of the session as the run left it, or of the run if it has no session.
    """

    task_id: TaskId
    run_id: RunId
    agent_id: AgentId
    output: Output | None
    success: bool
    status: results.ReasoningStatus
    reason: str
    steps: tuple[results.ReasoningStep, ...]
    metadata: TaskResultMetadata
    completed_at: datetime
    tool_results: Mapping[str, str] = field(factory=dict)
    verification: results.VerificationReport | None = None
    tree: results.ThoughtTree | None = None
    deliverables: tuple[results.Deliverable, ...] = ()
    new_messages: tuple[Message, ...] = ()
    history: tuple[Message, ...] = ()
    output_text: str | None = None
    sub_runs: tuple[SubRun, ...] = ()
    handoffs: tuple[str, ...] = ()
    agent: str = ""
    state: JsonFields = field(factory=dict, metadata=OMITTED)

    if not TYPE_CHECKING:

        def __new__(cls, **fields: Any) -> TaskResult[Any]:
            """Return an instance of the class of the status."""
            if cls is TaskResult:
                cls = _CLASSES.get(fields.get("status"), cls)
            return object.__new__(cls)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from reactive_agents.core.json_schema import pydantic_schema

        return pydantic_schema(cls, TaskResult, source, handler)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        from reactive_agents.core.json_schema import pydantic_json_schema

        return pydantic_json_schema(cls, core_schema, handler)

    def __repr__(self) -> str:
        from reactive_agents.core.texts import line_of  # imported by those that print results

        return line_of(self)

    def _repr_html_(self) -> str:
        """Return the result as notebooks show it."""
        from reactive_agents.core.texts import html_of

        return html_of(self)

    def unwrap(self) -> Output:
        """Return the answer of a completed run.

        Raises:
            ValueError: the run is not completed; the message is its status and reason.
        """
        if self.status != "completed":
            raise ValueError(f"The run ended as {self.status}: {self.reason}")
        return cast(Output, self.output)

    @property
    def text(self) -> str | None:
        """The answer as text, also where it is no value of the output type."""
        if self.output_text is not None:
            return self.output_text
        return self.output if isinstance(self.output, str) else None

    @property
    def result(self) -> AgentResult:
        """The same result with the answer as text, as events carry it."""
        return cast("AgentResult", evolve(cast(Any, self), output=self.text, output_text=None))

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the conversation with this run, for the ``history`` of the next."""
        return self.history + self.new_messages


class CompletedResult(TaskResult[Output]):
    """The result of a run that has its answer: ``output`` is never ``None``."""

    __slots__ = ()  # the fields, and the constructor, are those of the base

    if TYPE_CHECKING:
        output: Output
        success: Literal[True]
        status: Literal["completed"]


class PartialResult(TaskResult[Output]):
    """The result of a run that ended early: ``reason`` says what is missing.

    The status is ``failed`` when a custom strategy sets it.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        success: Literal[False]
        status: Literal["partial", "failed"]


class AbstainedResult(TaskResult[Output]):
    """The result of a run that found its task impossible: ``reason`` says why."""

    __slots__ = ()

    if TYPE_CHECKING:
        success: Literal[False]
        status: Literal["abstained"]


_CLASSES: Mapping[Any, type[TaskResult[Any]]] = {
    "completed": CompletedResult,
    "partial": PartialResult,
    "failed": PartialResult,
    "abstained": AbstainedResult,
}

if TYPE_CHECKING:
    AgentResult: TypeAlias = CompletedResult[str] | PartialResult[str] | AbstainedResult[str]
    """The result of a run whose answer is a text."""

    TypedResult: TypeAlias = CompletedResult[Output] | PartialResult[Output] | AbstainedResult[Output]
    """The result of a run with an output type."""
else:  # their common base, for isinstance and for what reads annotations
    AgentResult = TypedResult = TaskResult


COMPLEX_TYPES = frozenset({"research", "analysis", "creative", "multi-step"})
"""Types of tasks that take more than a question does, whatever their words."""

READ_CHARACTERS = 8_000
"""Characters of a task that are looked at; what is longer is as hard as it gets by its length."""

_LONG_WORDS = 300
_MANY_DEMANDS = 6
_MANY_STEPS = 6

_THINKING = lazy_pattern(
    r"\b(?:analy[sz]\w*|architect\w*|compar\w*|critici\w*|debug\w*|deriv\w*|design\w*|diagnos\w*|evaluat\w*|"
    r"implement\w*|investigat\w*|migrat\w*|multi-?step|optimi[sz]\w*|plan|planning|prov(?:e|ing)|reason\w*|"
    r"refactor\w*|research\w*|root cause|step[- ]by[- ]step|strateg\w*|synthesi[sz]\w*|trade-?offs?|why)\b",
    re.IGNORECASE,
)
_DEMANDS = lazy_pattern(
    r"\b(?:must|should|at least|at most|exactly|only|without|unless|except|ensure|each|every)\b",
    re.IGNORECASE,
)
_STEPS = lazy_pattern(
    r"^\s{0,8}(?:[-*•]|\d{1,3}[.)])\s|\b(?:then|after that|afterwards|finally|next)\b|\?",
    re.IGNORECASE | re.MULTILINE,
)
_FORMAL = lazy_pattern(
    r"```|\b(?:def|class|SELECT|function|import|struct)\b.{0,80}[({;:]|[∑∫√≤≥∀∃]|\\(?:frac|sum|int)\b"
)


def analyze_complexity(task_description: str, task_type: str = "query") -> float:
    """Return a task's complexity: 0 for a greeting, 1 for many steps and conditions.

    The sum of five indicators, each up to its share: words that ask for reasoning (0.3, two are enough),
    length (0.2 at 300 words), steps and questions (0.2 at 6), conditions (0.15 at 6), and code or formulas
    (0.15); and 0.3 more for a type of task that is known to be hard, such as ``research``. The words are
    English; the other indicators work in any language.
    """
    text = task_description[:READ_CHARACTERS]
    score = (
        0.3 * _share(_THINKING, text, 2)
        + 0.2 * min(1.0, len(text.split()) / _LONG_WORDS)
        + 0.2 * _share(_STEPS, text, _MANY_STEPS)
        + 0.15 * _share(_DEMANDS, text, _MANY_DEMANDS)
        + 0.15 * _share(_FORMAL, text, 1)
        + 0.3 * (task_type in COMPLEX_TYPES)
    )
    return round(min(1.0, score), 3)


def task_complexity(task: Task) -> float:
    """Return the complexity of a task, 0 to 1; at least 0.5 for a critical one."""
    score = analyze_complexity(task.input, task.type)
    return max(score, 0.5) if task.priority == "critical" else score


def estimated_tokens(size: int) -> int:
    """Return an upper estimate of the tokens of a text: one for three bytes of UTF-8."""
    return size // 3 + 1


def _share(pattern: re.Pattern[str], text: str, enough: int) -> float:
    found = 0
    for _ in pattern.finditer(text):
        found += 1
        if found == enough:
            break
    return found / enough
