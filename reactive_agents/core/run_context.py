"""The context of a run, for a program's own functions: its tools.

It is made where such a function is called, and only for those that ask for it, by
``EngineServices.run_context``. What it holds never enters an event, a record, a memory or JSON:
dependencies are live objects of the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol

from attrs import field, frozen
from typing_extensions import TypeVar

from reactive_agents.core.ids import RunId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.usage import RunUsage

Deps = TypeVar("Deps", covariant=True, default=Any)
"""The type of the dependencies of a run."""


@frozen(eq=False)
class RunContext(Generic[Deps]):
    """The run that a function is called for; hidden from the model.

    Attributes:
        deps: the dependencies that the run was given with ``run(task, deps=…)``; ``None`` without.
        user: whose task it is, as the program names its users; ``None`` for no user.
        session: the conversation that the run continues; ``None`` for none.
        usage: tokens and cost of the run until now, with those of the runs that its tools began.
        retry: how often in a row this tool has failed before in the run.
        model: the model that answered last; before the first answer that which is asked.
        tool_call_id: of the call that the function is run for, as in the events; ``None`` outside of calls.
        metadata: of the run, as ``run(task, metadata=…)`` gave it.
        tags: of the run, likewise.
    """

    deps: Deps = field(repr=False)
    run_id: RunId
    task_id: TaskId
    user: str | None = None
    session: str | None = None
    usage: RunUsage = RunUsage()
    retry: int = 0
    model: str = ""
    tool_call_id: str | None = None
    metadata: Mapping[str, Json] = field(factory=dict)
    tags: tuple[str, ...] = ()


class RunContexts(Protocol):
    """Makes the contexts of one run."""

    def __call__(self, *, tool_call_id: str | None = None, retry: int = 0) -> RunContext[Any]:
        """Return the context as it is now."""
        ...
