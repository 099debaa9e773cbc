"""Lifecycle hooks: the user's functions before, after, or on an error of a phase.

A hook is arbitrary code beside the run, so its failure must neither be silent nor, by default, cost the run:
it is logged with its traceback and published, and its change of the context is dropped. With strict hooks it
ends the run. A hook that could never run, for a phase or timing that does not exist, is refused at once.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from threading import Lock
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args, get_type_hints

import anyio
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.codec import abbreviated, wrong_change
from reactive_agents.core.conversation import wrong_history
from reactive_agents.core.events import ExecutionHookFired
from reactive_agents.core.run_context import can_take
from reactive_agents.effects import is_cancelled
from reactive_agents.engine.context import LIFECYCLE_PHASES, ExecutionContext, LifecyclePhase
from reactive_agents.kernel import RunEvents

HookTiming: TypeAlias = Literal["before", "after", "on-error"]
HookHandler: TypeAlias = Callable[
    [ExecutionContext], ExecutionContext | Awaitable[ExecutionContext | None] | None
]

_log = logging.getLogger("reactive_agents")


HOOK_TIMINGS: tuple[HookTiming, ...] = get_args(HookTiming)


class InvalidHook(ValueError):
    """A hook that would never run; ``error`` names the field and its legal values."""

    def __init__(self, error: errors.InvalidConfig) -> None:
        super().__init__(error.message)
        self.error = error


def wrong_hook(phase: object, timing: object, handler: object) -> errors.InvalidConfig | None:
    """Return the first wrong field of a hook, or ``None``."""
    if phase not in LIFECYCLE_PHASES:
        return errors.InvalidConfig("hook.phase", repr(phase), f"one of {', '.join(LIFECYCLE_PHASES)}")
    if timing not in HOOK_TIMINGS:
        return errors.InvalidConfig("hook.timing", repr(timing), f"one of {', '.join(HOOK_TIMINGS)}")
    if callable(handler) and can_take(handler, 1):
        return None
    return errors.InvalidConfig("hook.handler", abbreviated(handler), "a function of the ExecutionContext")


@frozen(eq=False)
class LifecycleHook:
    """A handler for one phase and timing, sync or async; it may return a new context.

    Raises:
        InvalidHook: there is no such phase or timing, or the handler is no function.
    """

    phase: LifecyclePhase
    timing: HookTiming
    handler: HookHandler

    def __attrs_post_init__(self) -> None:
        wrong = wrong_hook(self.phase, self.timing, self.handler)
        if wrong is not None:
            raise InvalidHook(wrong)


_NONE: Mapping[object, LifecycleHook] = MappingProxyType({})


class LifecycleHookRegistry:
    """The hooks of an engine. ``hooks``: the initial ones."""

    def __init__(self, hooks: Iterable[LifecycleHook] = ()) -> None:
        self._hooks: dict[tuple[LifecyclePhase, HookTiming], dict[object, LifecycleHook]] = {}
        self._changing = Lock()
        for hook in hooks:
            self.register(hook)

    def register(self, hook: LifecycleHook) -> Callable[[], None]:
        """Register a hook, or raise ``InvalidHook``; return how to unregister it.

        A hook that is registered twice runs twice, and is unregistered twice.
        """
        if not isinstance(hook, LifecycleHook):
            raise InvalidHook(errors.InvalidConfig("hook", repr(hook), "a LifecycleHook"))
        key = (hook.phase, hook.timing)
        registration = object()
        with self._changing:  # always a new mapping: a run may iterate over the old one
            self._hooks[key] = {**self._hooks.get(key, {}), registration: hook}

        def unregister() -> None:
            with self._changing:
                left = self._hooks[key].items()
                self._hooks[key] = {each: other for each, other in left if each is not registration}

        return unregister

    def list(self) -> tuple[LifecycleHook, ...]:
        """Return all hooks, grouped by phase and timing, each group in its order."""
        return tuple(hook for group in self._hooks.values() for hook in group.values())

    def has(self, phase: LifecyclePhase, timing: HookTiming) -> bool:
        """Return whether there is a hook for the phase and timing."""
        return bool(self._hooks) and bool(self._hooks.get((phase, timing)))

    async def run(
        self,
        phase: LifecyclePhase,
        timing: HookTiming,
        context: ExecutionContext,
        events: RunEvents,
        *,
        strict: bool,
        time_left: Callable[[], float] | None = None,
    ) -> Result[ExecutionContext, errors.HookError]:
        """Run the hooks in order, each with the context that the previous one returned.

        A hook that raises or returns anything but a context or ``None`` is logged and published as
        ``ExecutionHookFailed``, and its change of the context is dropped. A cancellation counts as raised
        unless the run itself is being cancelled. Fails with ``HookError`` at the first such hook when
        ``strict``.

        Args:
            time_left: seconds until the next hook is cancelled, which is a failure; ``None`` for no limit.
        """
        for hook in self._hooks.get((phase, timing), _NONE).values():
            problem, raised = "", None
            try:
                returned = hook.handler(context)
                if returned is not None:
                    if inspect.isawaitable(returned):
                        returned = await (returned if time_left is None else _cut_off(returned, time_left()))
                    context, problem = _returned_context(returned, context)
            except (Exception, anyio.get_cancelled_exc_class()) as error:
                if not isinstance(error, Exception) and is_cancelled():  # it is the run that is cancelled
                    raise
                problem, raised = f"{type(error).__name__}: {error}", error
            if not problem:
                events.publish(ExecutionHookFired, phase, timing)
                continue
            _log.error("A lifecycle hook for %s/%s failed: %s", phase, timing, problem, exc_info=raised)
            from reactive_agents.core.control_events import ExecutionHookFailed  # as few hooks do

            events.publish(ExecutionHookFailed, phase=phase, timing=timing, error=problem)
            if strict:
                return Failure(
                    errors.HookError(f"A hook for {phase}/{timing} failed: {problem}", phase, timing, problem)
                )
        return Success(context)


async def _cut_off(pending: Awaitable[ExecutionContext | None], seconds: float) -> ExecutionContext | None:
    with anyio.move_on_after(seconds):
        return await pending
    raise TimeoutError("it was cancelled at the time limit of the run")


def _returned_context(returned: object, context: ExecutionContext) -> tuple[ExecutionContext, str]:
    """Return the context after a hook, and the problem of its return value, or empty."""
    if returned is None or returned is context:
        return context, ""
    if not isinstance(returned, ExecutionContext):
        return context, f"returned {type(returned).__name__}, expected an ExecutionContext or None"
    for name, kind in _kinds().items():
        wrong = wrong_change(kind, getattr(context, name), getattr(returned, name), name)
        if wrong is not None:
            return context, f"returned a context with a wrong {wrong.path}: {wrong.problem}"
    if returned.history is not context.history:
        split = wrong_history(returned.history.messages)
        if split is not None:  # which a provider would refuse
            return context, f"returned a context with a wrong {split}"
    return returned, ""


@cache
def _kinds() -> dict[str, Any]:
    """Return the kinds of what a hook may change, but ``metadata``, which is its own."""
    from reactive_agents.core.memory import MemoryContext
    from reactive_agents.core.results import VerificationReport

    known = {"MemoryContext": MemoryContext, "VerificationReport": VerificationReport}
    hints = get_type_hints(ExecutionContext, localns=known)
    return {name: kind for name, kind in hints.items() if name != "metadata"}
