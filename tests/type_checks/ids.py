"""Identifiers are kinds of their own to a type checker."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
from reactive_agents.core.ids import RunId, TaskId


def show(run: RunId) -> str:
    return run


show(RunId("r"))
show(TaskId("t"))  # type: ignore[arg-type]
show("r")  # type: ignore[arg-type]
