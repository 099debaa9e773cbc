"""Lifecycle hooks: what a user runs before, after, or on an error of a phase."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from threading import Lock
from types import MappingProxyType
from typing import Literal, TypeAlias

import anyio
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import HookError
from reactive_agents.core.events import ExecutionHookFailed, ExecutionHookFired
from reactive_agents.effects import is_cancelled
from reactive_agents.engine.context import ExecutionContext, LifecyclePhase
from reactive_agents.kernel import RunEvents

HookTiming: TypeAlias = Literal["before", "after", "on-error"]
HookHandler: TypeAlias = Callable[
    [ExecutionContext], ExecutionContext | Awaitable[ExecutionContext | None] | None
]

_log = logging.getLogger("reactive_agents")


@frozen(eq=False)
class LifecycleHook:
    """A handler for one phase and timing. It may be sync or async, and return a new context or nothing."""

    phase: LifecyclePhase
    timing: HookTiming
    handler: HookHandler


_NONE: Mapping[object, LifecycleHook] = MappingProxyType({})


class LifecycleHookRegistry:
    """The hooks of an engine. ``hooks``: those to begin with."""

    def __init__(self, hooks: Iterable[LifecycleHook] = ()) -> None:
        self._hooks: dict[tuple[LifecyclePhase, HookTiming], dict[object, LifecycleHook]] = {}
        self._changing = Lock()
        for hook in hooks:
            self.register(hook)

    def register(self, hook: LifecycleHook) -> Callable[[], None]:
        """Run the hook from now on, after those that are registered; returns what ends that.

        A hook that is registered twice runs twice, until each registration has been ended by its own.
        """
        key = (hook.phase, hook.timing)
        registration = object()
        with self._changing:  # always a new mapping: the one before may be in use by a run
            self._hooks[key] = {**self._hooks.get(key, {}), registration: hook}

        def unregister() -> None:
            with self._changing:
                left = self._hooks[key].items()
                self._hooks[key] = {each: other for each, other in left if each is not registration}

        return unregister

    def list(self) -> tuple[LifecycleHook, ...]:
        """All hooks, grouped by phase and timing, each group in its order."""
        return tuple(hook for group in self._hooks.values() for hook in group.values())

    def has(self, phase: LifecyclePhase, timing: HookTiming) -> bool:
        """Whether there is any hook to run."""
        return bool(self._hooks.get((phase, timing)))

    async def run(
        self,
        phase: LifecyclePhase,
        timing: HookTiming,
        context: ExecutionContext,
        events: RunEvents,
        *,
        strict: bool,
        time_left: Callable[[], float] | None = None,
    ) -> Result[ExecutionContext, HookError]:
        """Run the hooks in their order, each on the context that the one before left.

        A hook that raises or returns anything but a context or ``None`` is logged and published as
        ``ExecutionHookFailed``, and what it did to the context is dropped. A cancellation counts as raised
        unless the run itself is being cancelled. Fails with ``HookError`` at the first such hook when
        ``strict``.

        Args:
            time_left: seconds that the next hook may take before it is cut off, which is a failure; ``None``
                for as long as it likes.
        """
        for hook in self._hooks.get((phase, timing), _NONE).values():
            problem = ""
            try:
                returned = hook.handler(context)
                if returned is not None:
                    if inspect.isawaitable(returned):
                        returned = await (returned if time_left is None else _cut_off(returned, time_left()))
                    context, problem = _left(returned, context)
            except (Exception, anyio.get_cancelled_exc_class()) as error:
                if not isinstance(error, Exception) and is_cancelled():  # not only something that it awaited
                    raise
                problem = f"{type(error).__name__}: {error}"
            if not problem:
                events.publish(ExecutionHookFired, phase, timing)
                continue
            _log.error("A lifecycle hook for %s/%s failed: %s", phase, timing, problem)
            events.publish(ExecutionHookFailed, phase=phase, timing=timing, error=problem)
            if strict:
                return Failure(
                    HookError(f"A hook for {phase}/{timing} failed: {problem}", phase, timing, problem)
                )
        return Success(context)


async def _cut_off(pending: Awaitable[ExecutionContext | None], seconds: float) -> ExecutionContext | None:
    with anyio.move_on_after(seconds):
        return await pending
    raise TimeoutError("it was cut off at the time limit of the run")


def _left(returned: object, context: ExecutionContext) -> tuple[ExecutionContext, str]:
    """The context that a hook leaves, and what is wrong with what it returned."""
    if returned is None or isinstance(returned, ExecutionContext):
        return returned or context, ""
    return context, f"returned {type(returned).__name__}, expected an ExecutionContext or None"
