"""Agents as tools of other agents, and handoffs between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast, overload

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.decorator import Tool, tool
from reactive_agents.adapters.tools.service import ToolReport
from reactive_agents.agent.agent import ReactiveAgent
from reactive_agents.agent.errors import AgentError
from reactive_agents.agent.output_types import output_shape
from reactive_agents.agent.tool_references import imported
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.errors import InvalidConfig, ToolFailed, ToolNotApproved, root_cause
from reactive_agents.core.json import Json
from reactive_agents.core.messages import AssistantMessage, Message, ToolMessage
from reactive_agents.core.results import declined_in, done_in, doubt_in
from reactive_agents.core.run_context import RunContext, can_take, is_of_type, is_subtype, type_name
from reactive_agents.core.tasks import TaskResult, TaskResultMetadata
from reactive_agents.core.tools import ApprovalRule
from reactive_agents.core.usage import RunUsage
from reactive_agents.engine.handoffs import admits
from reactive_agents.engine.services import HandoffHandler, HandoffTarget, HistoryFilter
from reactive_agents.reasoning.structured_output.schema import Shape

TIMEOUT_S = 300.0

_Deps = TypeVar("_Deps")


def agent_tool_name(agent: str) -> str:
    """Return the name of the tool that runs an agent, as providers accept names.

    >>> agent_tool_name("the writer (v2)")
    'the-writer-v2-'
    """
    return re.sub(r"[^A-Za-z0-9_-]+", "-", agent)[:64]


@overload
def agent_tool(
    agent: ReactiveAgent[Any, None],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_s: float = TIMEOUT_S,
    requires_approval: bool | ApprovalRule = False,
    return_direct: bool = False,
    retries: int | None = None,
) -> Tool[..., Any, object]: ...


@overload
def agent_tool(
    agent: ReactiveAgent[Any, _Deps],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_s: float = TIMEOUT_S,
    requires_approval: bool | ApprovalRule = False,
    return_direct: bool = False,
    retries: int | None = None,
) -> Tool[..., Any, _Deps]: ...


def agent_tool(
    agent: ReactiveAgent[Any, Any],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_s: float = TIMEOUT_S,
    requires_approval: bool | ApprovalRule = False,
    return_direct: bool = False,
    retries: int | None = None,
) -> Tool:
    """Return a tool that gives a task to an agent and returns its answer.

    An agent that was created with ``deps`` is given those of its caller, which must be of the same type. If
    they are not, the function of its ``with_deps`` makes its own.

    The agent has its own limits and budget, and each of its model calls is reserved from the caller's budget
    too. Its tokens and cost are added to the caller's as they arise, also when it fails or is cancelled.
    A partial answer is marked as partial, with what is missing. An agent that abstains, or has not done what
    it was to do, is a failed call, which says why.

    Args:
        name: by default the agent's name, with ``-`` for characters that a tool's name may not have.
        description: the tasks that the agent is for, by which the caller's model chooses.
        timeout_s: seconds, above 0, after which a task is cancelled.
        requires_approval, retries: as for :func:`~reactive_agents.tool`.
        return_direct: whether the agent's answer ends the caller's run as its answer. One that is partial, or
            that abstains, is then a failed call, after which the caller goes on.

    Raises:
        TypeError: the agent is not one, or not built.
    """
    if not isinstance(agent, ReactiveAgent):
        raise TypeError(f"agent: got {abbreviated(agent)}, expected an agent that is built")

    async def ask(ctx: RunContext[Any], task: str) -> ToolReport:
        try:
            kind = agent.deps_type
            if kind is None or (agent.has_deps and not is_of_type(ctx.deps, kind)):
                result = await agent.run(task)
            else:
                result = await agent.run(task, deps=ctx.deps)
        except AgentError as error:
            return _report_of_failure(chosen, error)
        return _report(chosen, result, return_direct=return_direct)

    if not agent.has_deps:  # the builder of the caller compares it with its own
        ask.__annotations__["ctx"] = cast(Any, RunContext)[agent.deps_type]
    chosen = name or agent_tool_name(agent.name)
    text = description or f"Run the agent {agent.name} on a task and get its answer."
    made = tool(
        name=chosen,
        description=text,
        timeout_s=timeout_s,
        requires_approval=requires_approval,
        return_direct=return_direct,
        retries=retries,
        resumable=True,
    )(ask)
    return evolve(made, agent=agent)


def _report_of_failure(tool_name: str, error: AgentError) -> ToolReport:
    """Return the failed call of an agent whose run failed."""
    doubt, cause = doubt_in(error.steps), root_cause(error.error).message
    told = "\n".join(filter(None, (f"{cause} {doubt}".rstrip(), done_in(error.steps))))
    failed = Failure(ToolFailed(tool_name, told, type(error.error).__name__))
    return ToolReport(failed, _usage(error.metadata), is_in_doubt=bool(doubt))


def _report(tool_name: str, result: TaskResult[Any], *, return_direct: bool) -> ToolReport:
    """Return the call of an agent with its answer, failed if it has not done its task."""
    answer, usage, doubt = _answer(result), _usage(result.metadata), doubt_in(result.steps)
    if doubt:  # the caller does not know either whether it took effect
        told = answer if doubt in answer else f"{doubt}\n\n{answer}"
        return ToolReport(Failure(ToolFailed(tool_name, told)), usage, is_in_doubt=True)
    if declined_in(result.steps):  # the caller has not got what it asked for either
        return ToolReport(Failure(ToolNotApproved(tool_name, answer)), usage)
    undone = result.status == "abstained" or result.metadata.terminated_by in _UNDONE
    if undone or (return_direct and not result.success):  # no answer may rest on its having done it
        return ToolReport(Failure(ToolFailed(tool_name, answer)), usage)
    return ToolReport(answer, usage)


_UNDONE = ("failed_call", "not_done")
"""Ends of runs that have not done what they were to do, whatever their answer says."""


def _answer(result: TaskResult[Any]) -> str:
    text = result.text or ""
    if result.status == "completed":
        return text
    kind = "" if result.status == "abstained" else f"Only a {result.status} answer."
    told = " ".join(filter(None, (kind, result.reason, done_in(result.steps))))
    return f"{told}\n\n{text or 'There is no text.'}"


def _usage(figures: TaskResultMetadata | None) -> tuple[RunUsage, ...]:
    if figures is None:
        return ()
    total = RunUsage("", figures.usage, figures.cost_usd, figures.model_calls, figures.unpriced_calls)
    return figures.models or ((total,) if figures.model_calls else ())


LaterAgent: TypeAlias = Callable[[], ReactiveAgent[Any, Any]]
"""Returns an agent that is built later, so that two agents may hand over to each other."""
HandoffLike: TypeAlias = "ReactiveAgent[Any, Any] | Handoff | str"


@frozen(eq=False)
class Handoff:
    """An agent that a model may hand the conversation to.

    Attributes:
        agent: the agent, or a function that returns it.
        name: the name of the agent.
        description: what the agent is for, shown to the model that hands over.
        filter: chooses the messages before the task that the agent is shown.
        on_handoff: called before the conversation is handed over.
        requires_approval: whether an approver is asked, or a rule as for :func:`~reactive_agents.tool`.
        shape: the form of the data that the model hands over; ``None`` for none.
    """

    agent: ReactiveAgent[Any, Any] | LaterAgent
    name: str
    description: str = ""
    filter: HistoryFilter | None = None
    on_handoff: HandoffHandler | None = None
    requires_approval: bool | ApprovalRule = False
    shape: Shape[Any] | None = None

    @property
    def tool_name(self) -> str:
        """The name of the tool by which the model hands over."""
        return agent_tool_name(f"transfer-to-{self.name}")

    def tool(self) -> Tool:
        """Return the tool by which the model hands over."""

        def transfer(ctx: RunContext[Any], reason: str = "") -> None:
            """Hand over.

            Args:
                reason: what the other agent should know, if anything.
            """

        if isinstance(self.agent, ReactiveAgent):  # the builder compares it with its own
            transfer.__annotations__["ctx"] = cast(Any, RunContext)[self.agent.deps_type or Any]
        else:
            transfer.__annotations__["ctx"] = RunContext[Any]
        transfer.__annotations__["reason"] = str
        text = f"Hand the conversation over to {self.name}, who answers the user from now on."
        description = f"{text} {self.description}".strip()
        return tool(
            name=self.tool_name,
            description=description,
            requires_approval=self.requires_approval,
            external=True,
        )(transfer if self.shape is None else _with_input(transfer, self.shape.kind))

    def found(self) -> ReactiveAgent[Any, Any]:
        """Return the agent."""
        return self.agent if isinstance(self.agent, ReactiveAgent) else self.agent()


def handoff(
    agent: ReactiveAgent[Any, Any] | LaterAgent,
    *,
    name: str | None = None,
    description: str = "",
    filter: HistoryFilter | None = None,
    on_handoff: HandoffHandler | None = None,
    input_type: Any = None,
    requires_approval: bool | ApprovalRule = False,
) -> Handoff:
    """Return a handoff to an agent, with options, for ``with_handoffs``.

    Args:
        agent: the agent; for an agent that is built later, a function that returns it, which is called when a
            model hands over.
        name: the name of the agent; needed for a function.
        description: what the agent is for, shown to the model.
        filter: takes the messages before the task, and returns those that the agent is shown, such as
            :func:`without_tool_calls`.
        on_handoff: called with a ``HandoffInfo`` before the conversation is handed over, sync or async. When
            it raises, the handoff is prevented and the model reads the reason.
        input_type: the type of data that the model has to hand over, as of ``with_output_type``: the handler
            gets a value of it as ``HandoffInfo.input``, and the other agent is shown its JSON.
        requires_approval: whether an approver is asked, or a rule as for :func:`~reactive_agents.tool`.

    Raises:
        TypeError: the agent is a function, and there is no name; or an argument is of a wrong type.
    """
    if not isinstance(agent, ReactiveAgent) and not callable(agent):
        expected = "an agent that is built, or a function that returns it"
        raise TypeError(f"agent: got {abbreviated(agent)}, expected {expected}")
    for option, function, of in (("filter", filter, "messages"), ("on_handoff", on_handoff, "a HandoffInfo")):
        if function is not None and not (callable(function) and can_take(function, 1)):
            raise TypeError(f"{option}: got {abbreviated(function)}, expected a function of {of}")
    chosen = agent.name if name is None and isinstance(agent, ReactiveAgent) else name
    if not chosen:
        raise TypeError("name: got none, expected the name of the agent that the function returns")
    shape = None if input_type is None else output_shape(input_type)
    if isinstance(shape, Failure):
        wrong = shape.failure()
        raise TypeError(f"input_type: got {wrong.value}, expected {wrong.expected}")
    given = None if shape is None else shape.unwrap()
    return Handoff(agent, chosen, description, filter, on_handoff, requires_approval, given)


def _with_input(transfer: Callable[..., None], kind: Any) -> Callable[..., None]:
    """Return the function of a handoff that takes data of a type too."""

    def transfer_with_input(ctx: RunContext[Any], input: Any, reason: str = "") -> None:
        """Hand over.

        Args:
            input: the data for the other agent.
            reason: what the other agent should know besides, if anything.
        """

    transfer_with_input.__annotations__.update(transfer.__annotations__, input=kind)
    return transfer_with_input


def without_tool_calls(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages without calls of tools and their results."""
    kept: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            if message.content.strip():
                kept.append(evolve(message, tool_calls=()))
        elif not isinstance(message, ToolMessage):
            kept.append(message)
    return tuple(kept)


def resolve_handoffs(sources: Sequence[HandoffLike]) -> Result[tuple[Handoff, ...], InvalidConfig]:
    """Return the handoffs to agents, also to those named as ``module:agent``.

    Fails with ``InvalidConfig`` for an object that is not an agent, and for two agents of one name.
    """
    handoffs: dict[str, Handoff] = {}
    for source in sources:
        given: object = source
        if isinstance(source, str):
            found = imported(source, "handoffs")
            if isinstance(found, Failure):
                return Failure(found.failure())
            given = found.unwrap()
        one = handoff(given) if isinstance(given, ReactiveAgent) else given
        if not isinstance(one, Handoff):
            expected = "an agent that is built, handoff(…), or the name of one"
            return Failure(InvalidConfig("handoffs", abbreviated(given), expected))
        if one.tool_name in handoffs:
            same = f"{one.name!r} and {handoffs[one.tool_name].name!r}, whose tools are both {one.tool_name}"
            expected = "names that differ in ASCII letters or digits, such as handoff(agent, name='billing')"
            return Failure(InvalidConfig("handoffs", same, expected))
        handoffs[one.tool_name] = one
    return Success(tuple(handoffs.values()))


def check_answers(handoffs: Sequence[Handoff], shape: Shape[Any] | None) -> Result[None, InvalidConfig]:
    """Fail with ``InvalidConfig`` for an agent whose answers are of another type."""
    for one in handoffs:
        if isinstance(one.agent, ReactiveAgent):
            problem = _wrong_answers(one.agent, shape)
            if problem:
                expected = "an agent without an output type, with the same, or with a member of the union"
                return Failure(InvalidConfig("handoffs", f"{one.name!r}, {problem}", expected))
    return Success(None)


def handoff_target(one: Handoff, shape: Shape[Any] | None, deps: Any) -> HandoffTarget:
    """Return the target of a handoff, for the engine."""

    def problem() -> str:
        try:
            agent = one.found()
        except Exception as error:  # noqa: BLE001 - the function is the user's
            return f"the agent {one.name} raised {type(error).__name__}: {error}"
        if not isinstance(agent, ReactiveAgent):
            return f"{one.name} is no agent"
        if agent.deps_type is not None and not is_subtype(deps, agent.deps_type):
            return f"{one.name} takes dependencies of the type {type_name(agent.deps_type)}"
        wrong = _wrong_answers(agent, shape)
        return f"{one.name}, {wrong}" if wrong else ""

    return HandoffTarget(
        one.name,
        lambda: one.found().container.engine.engine(),
        problem,
        lambda: one.found().agent_id,
        one.filter,
        one.on_handoff,
        None if one.shape is None else partial(_read_input, one.shape),
    )


def _read_input(shape: Shape[Any], data: Json) -> Any:
    return shape.read(data).unwrap()  # the arguments of the call were checked


def _wrong_answers(agent: ReactiveAgent[Any, Any], shape: Shape[Any] | None) -> str:
    """Return why the answers of an agent are not of a type; empty if they are."""
    other: Shape[Any] | None = agent.container.engine.output_shape().value_or(None)
    if other is None or shape is None or admits(shape.schema, other.schema):
        return ""
    return f"which answers with {other.name}, not {shape.name}"
