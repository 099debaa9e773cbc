"""Calls of services, which end with a result or a typed error in any case.

Services are the user's code as often as ours. One that raises, that forgets ``@effect``, that returns
something else than its port says, or that waits for a task which was cancelled must not look like a defect of
the run, and must not cost the answer that a run has paid for. Whether the error ends the run is decided by
the caller.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from returns.maybe import Maybe
from returns.result import Failure, Result

from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import BrokenContract, Effect, attempt_foreign
from reactive_agents.ports import TokenCounter, ToolService

_log = logging.getLogger("reactive_agents")

_P = ParamSpec("_P")
_A = TypeVar("_A")
_E = TypeVar("_E")


async def call_service(
    name: str,
    method: Callable[_P, Effect[_A, _E]],
    expected: type[_A] | None,
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> Result[_A, _E | ServiceFailed]:
    """Call a method of a service.

    Fails as it does, or with ``ServiceFailed`` when it breaks its port.

    Args:
        name: service and method, for the error, such as ``memory.flush``.
        expected: the class of the value; ``None`` where nothing reads it.
    """
    outcome = await attempt_foreign(method, expected or object, *args, **kwargs)
    if isinstance(outcome, BrokenContract):
        return Failure(broken_service(name, method, outcome.problem))
    return outcome


def broken_service(name: str, method: object, problem: str) -> ServiceFailed:
    """Return the error of a service that breaks its port.

    ``problem``: as of ``BrokenContract``.
    """
    service, _, operation = name.partition(".")
    owner = getattr(method, "__self__", None)
    shown = f"{service} service" if owner is None else f"{service} service {type(owner).__name__}"
    return ServiceFailed(f"The {shown} {problem}", service, operation)


class BrokenServiceError(Exception):
    """A service that broke its port where no failure can be returned.

    Attributes:
        failure: names the service.
    """

    def __init__(self, failure: ServiceFailed) -> None:
        super().__init__(failure.message)
        self.failure = failure


def definitions_of(tools: ToolService) -> tuple[ToolDefinition, ...]:
    """Return the definitions of a tool service.

    Raises:
        BrokenServiceError: the service raised, or returned no tuple.
    """
    cause: Exception | None = None
    try:
        found: object = tools.definitions()
    except Exception as error:  # noqa: BLE001 - the service is arbitrary code of the user
        problem, cause = f"raised {type(error).__name__}: {error}", error
    else:
        if isinstance(found, tuple):
            return found
        if inspect.iscoroutine(found):
            found.close()
        problem = f"returned {type(found).__name__}, expected a tuple of ToolDefinition."
    message = f"The tool service {type(tools).__name__} {problem}"
    raise BrokenServiceError(ServiceFailed(message, "tools", "definitions")) from cause


def definitions_in(tools: Maybe[ToolService]) -> tuple[ToolDefinition, ...]:
    """Return the definitions of a tool service, if there is one."""
    service = tools.value_or(None)
    return () if service is None else service.definitions()


class CheckedCounter:
    """A token counter that knows nothing where a custom one fails.

    It fails when it raises or gives no number, which is logged with its class. A request is then bounded by
    its bytes, and the window is that of the model's profile.
    """

    __slots__ = ("_counter",)

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    def count(self, request: ModelRequest) -> int | None:
        """As the port says."""
        return self._checked("count", request)

    def window(self, model: str | None) -> int | None:
        """As the port says."""
        return self._checked("window", model)

    def _checked(self, name: str, given: object) -> int | None:
        counter = type(self._counter).__name__
        try:
            found: object = getattr(self._counter, name)(given)
        except Exception:  # noqa: BLE001 - the service is arbitrary code of the user
            _log.warning("%s of the token counter %s raised.", name, counter, exc_info=True)
            return None
        if found is None or (isinstance(found, int) and found >= 0):
            return found
        if inspect.iscoroutine(found):
            found.close()
        kind = type(found).__name__
        _log.warning("%s of the token counter %s returned %s, expected a count.", name, counter, kind)
        return None
