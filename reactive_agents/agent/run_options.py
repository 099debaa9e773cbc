"""The options of one run, which every way to run a task takes.

Some are data of its task. The others are live objects and changes of this run alone, which the engine gets
beside the task as ``RunOverrides``, so that they enter no event, record or memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import evolve, frozen
from returns.maybe import Nothing, Some
from returns.result import Failure, Result, Success
from typing_extensions import TypedDict

from reactive_agents.agent import validation
from reactive_agents.agent.output_types import output_shape, typed_results
from reactive_agents.agent.tool_references import ToolLike, find_tools
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.content import CONTENT_TYPES, Content, text_and_parts
from reactive_agents.core.conversation import wrong_name
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.ids import RunId
from reactive_agents.core.messages import Message
from reactive_agents.core.model_settings import ModelSettings
from reactive_agents.core.run_context import DepsFunction, wrong_deps
from reactive_agents.core.settings import BudgetConfig, CallLimit
from reactive_agents.core.tasks import TaskResult
from reactive_agents.core.values import Value
from reactive_agents.engine.services import NO_OVERRIDES, RunOverrides
from reactive_agents.ports import LLM, Approver

if TYPE_CHECKING:
    from reactive_agents.adapters.governance.requests import ApprovalHandler

TaskInput: TypeAlias = str | Content | Sequence[str | Content]
"""A task: a text, a part such as an image, or a list of texts and parts in their order."""


class TaskOptions(TypedDict, total=False):
    """Options of a run that are data of its task; ``None`` leaves one out.

    Attributes:
        session: the name of a conversation that the run continues and adds to. Runs of one session are made
            one after the other, in the order of their arrival.
        user: the program's name of the user whose task it is. A session belongs to the user who began it.
        history: messages of a conversation that the run continues, such as the ``messages`` of an earlier
            result; not together with a session. System messages are left out.
        metadata: JSON data of the program, which ``TaskStarted``, the result and ``RunContext`` carry; the
            model does not see it.
        tags: names, which are passed on like the metadata.
        settings: parameters of the run's requests to models; the agent's hold for all others.
        budget: limits of this run, which replace the agent's limits of the same name.
    """

    session: str | None
    user: str | None
    history: Sequence[Message] | None
    metadata: Mapping[str, Any] | None
    tags: Sequence[str] | None
    settings: ModelSettings | None
    budget: BudgetOptions | None


class BudgetOptions(TypedDict, total=False):
    """Limits of a run.

    Attributes:
        tokens: total tokens of all model calls, 1 or more.
        cost_usd: US dollars, above 0, of the model calls whose price is known.
        calls: how often each tool may be called, 1 or more; further calls are refused.
        requests: how many model calls may be answered, 1 or more.
        tool_calls: calls of all tools together, 1 or more.
    """

    tokens: int | None
    cost_usd: float | None
    calls: Mapping[str, int] | None
    requests: int | None
    tool_calls: int | None


class RunOptions(TaskOptions, total=False):
    """Options of a run besides its task; ``None`` leaves one out.

    Attributes:
        model: the model of this run, by name or as an object; no router chooses another.
        tools: further tools of this run, as in ``with_tools``.
        approver: decides on calls of this run that need approval: a function as in ``with_approval``, or an
            ``Approver``.
        run_id: the id of the run, such as the number of the order that it is for. With durability the run is
            done once under this id, and continued after a crash; without it, the id may be used once. A new
            id by default.
        accept_changes: whether a run that another version of the agent began is continued.
    """

    model: str | LLM | None
    tools: Sequence[ToolLike] | None
    approver: Approver | ApprovalHandler | None
    run_id: str | None
    accept_changes: bool | None


_DATA = tuple(TaskOptions.__annotations__)
_ALL = (*_DATA, *RunOptions.__annotations__, "deps", "output")

_HERE = {
    "context": "deps",
    "dependencies": "deps",
    "instructions": "metadata, which a function of with_instructions reads",
    "max_turns": "budget={'requests': …}",
    "message_history": "history",
    "model_settings": "settings",
    "output_type": "output",
    "session_id": "session",
    "thread_id": "session",
    "timeout": "with_timeout(…) of the builder",
    "usage_limits": "budget",
    "user_id": "user",
}
"""What stands here for options of other frameworks."""


def wrong_run(task: object, options: Mapping[str, object]) -> str | None:
    """Return the problem of a task or an option of its run, or ``None``."""
    if not isinstance(task, str):
        given = abbreviated(task)
        return (
            f"The task's input is {given}; expected a text that says what the agent is to do, or a list of "
            "texts, images, audio and documents."
        )
    if not options:
        return None
    for name in ("session", "user", "run_id"):
        wrong = wrong_name(name, options.get(name))
        if wrong is not None:
            return f"{wrong}."
    history = options.get("history")
    if isinstance(history, str) or not isinstance(history, Sequence | None):
        return f"history: got {abbreviated(history)}, expected messages."
    settings = options.get("settings")
    if not isinstance(settings, ModelSettings | None):
        return f"settings: got {abbreviated(settings)}, expected ModelSettings or None."
    unknown = sorted(options.keys() - set(_ALL))
    if unknown:
        known = _HERE.get(unknown[0]) or f"one of {', '.join(dict.fromkeys(_ALL))}"
        return f"{unknown[0]}: there is no such option of a run, expected {known}."
    return None


def task_text(given: object) -> tuple[Any, tuple[Content, ...]]:
    """Return the text of a task, with a label for each part, and the parts."""
    is_input = isinstance(given, (*CONTENT_TYPES, list, tuple))
    return (text_and_parts(given) if is_input else None) or (given, ())  # type: ignore[arg-type]


def task_fields(options: Mapping[str, Any]) -> Result[dict[str, Any], str]:
    """Return the fields of the task that options set, or what is wrong with one."""
    fields = {name: options[name] for name in _DATA if options.get(name) is not None}
    if "history" in fields:
        fields["history"] = tuple(fields["history"])
    if "settings" in fields:
        fields["model_settings"] = fields.pop("settings")
    if "budget" in fields:
        budget = budget_of(fields["budget"])
        if isinstance(budget, Failure):
            return Failure(budget.failure().message)
        fields["budget"] = budget.unwrap()
    if "metadata" in fields:
        metadata = validation.json_data("metadata", fields["metadata"])
        if isinstance(metadata, Failure):
            return Failure(metadata.failure().message)
        fields["metadata"] = metadata.unwrap()
    if "tags" in fields:
        tags = fields["tags"]
        if isinstance(tags, str) or not isinstance(tags, Sequence):
            return Failure(f"tags: got {abbreviated(tags)}, expected a list of names.")
        wrong = next(filter(None, (wrong_name("tags", each or "") for each in tags)), None)
        if wrong is not None:
            return Failure(f"{wrong}.")
        fields["tags"] = tuple(tags)
    return Success(fields)


def budget_of(given: object) -> Result[BudgetConfig, InvalidConfig]:
    """Return limits that are given by name."""
    expected = f"limits by name: {', '.join(BudgetOptions.__annotations__)}"
    if not isinstance(given, Mapping):
        return Failure(InvalidConfig("budget", abbreviated(given), expected))
    unknown = [name for name in given if name not in BudgetOptions.__annotations__]
    if unknown:
        return Failure(InvalidConfig("budget", abbreviated(unknown[0]), expected))
    calls, cost_usd = given.get("calls"), given.get("cost_usd")
    counts = {name: given.get(name) for name in ("tokens", "requests", "tool_calls")}
    wrong = validation.wrong_counts("budget.calls", calls) or validation.wrong_value(
        "budget.cost_usd", cost_usd, float | None, "US dollars above 0", validation.is_above_zero
    )
    for name, count in counts.items():
        wrong = wrong or validation.wrong_value(
            f"budget.{name}", count, int | None, "a whole number, 1 or more", validation.is_count
        )
    if wrong is not None:
        return Failure(wrong)
    limits = tuple(CallLimit(*each) for each in (calls or {}).items())
    return Success(BudgetConfig(cost_usd=cost_usd, calls=limits, **counts))


# --- options that are not data of the task ----------------------------------------------------------------


@frozen(eq=False, repr=False)
class RunChanges(Value):
    """The options of one run, in place of those of its agent.

    Attributes:
        present: converts the plain result into the result of the run; ``None`` for the agent's conversion.
    """

    overrides: RunOverrides = NO_OVERRIDES
    present: Callable[[TaskResult], Any] | None = None
    run_id: RunId | None = None


_AS_THE_AGENT: Result[RunChanges, InvalidConfig] = Success(RunChanges())


def run_changes(options: Mapping[str, Any], deps_type: Any) -> Result[RunChanges, InvalidConfig]:
    """Return the changes that options make in their run.

    Fails with ``InvalidConfig`` for the first wrong option.

    Args:
        deps_type: the type of the agent's dependencies; ``None`` for none.
    """
    if not options and deps_type is None:
        return _AS_THE_AGENT
    deps = options.get("deps")
    if (deps_type is not None or deps is not None) and not isinstance(deps, DepsFunction):
        wrong = wrong_deps(deps_type, deps)
        if wrong is not None:
            return Failure(wrong)
    given = {name: value for name, value in options.items() if name in _CHANGES and value is not None}
    if not given and deps is None:
        return _AS_THE_AGENT
    changes = RunChanges(RunOverrides(deps))
    for name, value in given.items():
        changed = _CHANGES[name](changes, value)
        if isinstance(changed, Failure):
            return changed
        changes = changed.unwrap()
    return Success(changes)


def _with_model(changes: RunChanges, given: Any) -> Result[RunChanges, InvalidConfig]:
    if isinstance(given, str):
        wrong = validation.wrong_text("model", given, "the name of a model that is not blank")
        if wrong is not None:
            return Failure(wrong)
        return Success(_with(_with_services(changes, cost_router=Nothing), model=given))
    expected = "the name of a model, or an object with complete, stream and model"
    wrong = validation.wrong_object("model", given, expected, "complete", "stream", "model")
    if wrong is not None:
        return Failure(wrong)
    from reactive_agents.containers.composition import as_maybe
    from reactive_agents.containers.layers import find_counter, find_prices

    counter, prices = as_maybe(find_counter(given)), as_maybe(find_prices(given))
    return Success(_with_services(changes, llm=given, counter=counter, prices=prices, cost_router=Nothing))


def _with_approver(changes: RunChanges, given: Any) -> Result[RunChanges, InvalidConfig]:
    if callable(getattr(given, "decide", None)):
        return Success(_with_services(changes, approver=Some(given)))
    if validation.wrong_handler("approver", given, "a request") is not None:
        expected = "a function that decides on a request, or an object with decide"
        return Failure(InvalidConfig("approver", abbreviated(given), expected))
    from reactive_agents.adapters.governance.requests import LocalRequestDesk  # of agents that ask

    handler: ApprovalHandler = given
    return Success(_with_services(changes, approver=Some(LocalRequestDesk(handler))))


def _with_output(changes: RunChanges, given: Any) -> Result[RunChanges, InvalidConfig]:
    try:
        found = _known_shape(given)
    except TypeError:  # a type that cannot be hashed
        found = output_shape(given)
    if isinstance(found, Failure):
        return Failure(evolve(found.failure(), option="output"))
    shape = found.unwrap()
    return Success(evolve(_with_services(changes, output_shape=Some(shape)), present=typed_results(shape)))


_known_shape = lru_cache(64)(output_shape)  # it takes long to make


_CHANGES: Mapping[str, Callable[[RunChanges, Any], Result[RunChanges, InvalidConfig]]] = {
    "model": _with_model,
    "tools": lambda changes, given: find_tools(given).map(lambda tools: _with(changes, tools=tools)),
    "output": _with_output,
    "approver": _with_approver,
    "run_id": lambda changes, given: Success(evolve(_with(changes, named=True), run_id=RunId(given))),
    "accept_changes": lambda changes, given: Success(_with(changes, accept_changes=bool(given))),
}


def live_options(options: Mapping[str, Any]) -> list[str]:
    """Return the names of options that are not data of the task, the run id apart."""
    return [name for name in options if name in _CHANGES.keys() - {"run_id"} and options[name]]


def _with(changes: RunChanges, **fields: Any) -> RunChanges:
    return evolve(changes, overrides=evolve(changes.overrides, **fields))


def _with_services(changes: RunChanges, **services: Any) -> RunChanges:
    return _with(changes, services={**changes.overrides.services, **services})
