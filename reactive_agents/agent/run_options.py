"""The options of one run, which every way to run a task takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from typing_extensions import TypedDict

from reactive_agents.core.codec import abbreviated
from reactive_agents.core.conversation import wrong_name
from reactive_agents.core.messages import Message


class RunOptions(TypedDict, total=False):
    """Options of a run besides its task.

    Attributes:
        session: the name of a conversation that the run continues and adds to. Runs of one session follow
            each other, in the order in which they came.
        user: whose task it is, as the program names its users. A session belongs to the user who began it.
        history: messages of a conversation that the run continues, such as the ``messages`` of an earlier
            result; without a session. Those of the system are left out. ``None`` for none.
        run_id: the name of the run, such as that of the order that it is for: with durability the run is done
            once under it, and continued after a crash; without, it may be used once. A new one by default.
        accept_changes: continue a run that another version of the agent began.
    """

    session: str | None
    user: str | None
    history: Sequence[Message] | None
    run_id: str | None
    accept_changes: bool


def wrong_run(task: object, options: Mapping[str, object]) -> str | None:
    """Return the problem of a task or an option of its run, or ``None``."""
    if not isinstance(task, str):
        given = abbreviated(task)
        return f"The task's input is {given}; expected a text that says what the agent is to do."
    if not options:
        return None
    for name in ("session", "user", "run_id"):
        wrong = wrong_name(name, options.get(name))
        if wrong is not None:
            return f"{wrong}."
    history = options.get("history")
    if isinstance(history, str) or not isinstance(history, Sequence | None):
        return f"history: got {abbreviated(history)}, expected messages."
    unknown = sorted(options.keys() - RunOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(RunOptions.__annotations__)
        return f"{unknown[0]}: there is no such option of a run, expected one of {known}."
    return None
