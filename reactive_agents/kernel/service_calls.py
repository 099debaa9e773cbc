"""Calls of services, which end with a result or a typed error in any case.

Services are the user's code as often as ours. A service may raise, forget ``@effect``, return a value that
its port does not allow, or wait for a task that was cancelled. That must not look like a defect of the run,
and must not cost the answer that a run has paid for. The caller decides whether the error ends the run.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar, get_origin

from attrs import has
from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.core.codec import wrong_field
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.models import ModelRequest, TokenPrice
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import BRANCH, BrokenContract, Effect, attempt_foreign
from reactive_agents.ports import LLM, Clock, IdSource, PriceList, TokenCounter, ToolService

_log = logging.getLogger("reactive_agents")

_P = ParamSpec("_P")
_A = TypeVar("_A")
_E = TypeVar("_E")
_S = TypeVar("_S")


async def call_service(
    name: str,
    service: _S,
    method: Callable[Concatenate[_S, _P], Effect[_A, _E]],
    expected: type[_A] | None,
    /,
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> Result[_A, _E | ServiceFailed]:
    """Call a method of a service.

    Fails as the method does, or with ``ServiceFailed`` when the service lacks the method or breaks its port.

    Args:
        name: the name of the service, for the error and the record, such as ``memory``.
        method: the method of the port, such as ``MemoryService.flush``; the service's own method is called.
        expected: the class of the value; ``None`` if nothing reads it.
    """
    call = partial(call_outside_record, name, service, method, expected, *args, **kwargs)
    return await once(f"{name}.{method.__name__}", call)


def once(name: str, call: Callable[[], Awaitable[Result[_A, _E]]]) -> Awaitable[Result[_A, _E]]:
    """Return the result of a call, from the record of a durable run if it is there."""
    branch = BRANCH.get()
    return call() if branch is None else branch.once(name, call)


async def call_outside_record(
    name: str,
    service: _S,
    method: Callable[Concatenate[_S, _P], Effect[_A, _E]],
    expected: type[_A] | None,
    /,
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> Result[_A, _E | ServiceFailed]:
    """Call a method of a service, as :func:`call_service`, outside of any record."""
    operation = method.__name__
    try:
        own = getattr(service, operation, None)
    except Exception as error:  # noqa: BLE001 - a property of the user's, or a connection behind it
        problem = f"raised {type(error).__name__} for its {operation!r}: {error}"
        return Failure(broken_service(name, service, operation, problem))
    if own is None:
        return Failure(broken_service(name, service, operation, f"has no {operation!r}."))
    kind = object if expected is None else get_origin(expected) or expected
    outcome = await attempt_foreign(own, kind, *args, **kwargs)
    if isinstance(outcome, BrokenContract):
        return Failure(broken_service(name, service, operation, outcome.problem))
    if isinstance(outcome, Success) and expected is not None and not is_built_in(service):
        wrong = problem_within(outcome.unwrap(), expected)
        if wrong is not None:
            return Failure(broken_service(name, service, operation, wrong))
    return outcome


def problem_within(value: object, expected: type) -> str | None:
    """Return which field of a value that custom code returned is wrong, or ``None``."""
    if not has(expected) and get_origin(expected) is not tuple:
        return None
    wrong = wrong_field(expected, value)
    if wrong is None:
        return None
    return f"returned a {expected.__name__} with a wrong {wrong.path}: {wrong.problem}."


def broken_service(name: str, service: object, operation: str, problem: str) -> ServiceFailed:
    """Return the error of a service that breaks its port, as ``BrokenContract`` says."""
    return ServiceFailed(f"The {name} service {type(service).__name__} {problem}", name, operation)


class BrokenServiceError(Exception):
    """Raised when a service breaks its port in a method that cannot return a failure.

    Attributes:
        failure: the error, which names the service.
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
        wrong = None
        if isinstance(found, tuple):
            wrong = None if is_built_in(tools) else next(filter(None, map(_definition_problem, found)), None)
            if wrong is None:
                return found
        if inspect.iscoroutine(found):
            found.close()
        problem = f"returned {wrong or type(found).__name__}, expected a tuple of ToolDefinition."
    message = f"The tool service {type(tools).__name__} {problem}"
    raise BrokenServiceError(ServiceFailed(message, "tools", "definitions")) from cause


def _definition_problem(given: object) -> str | None:
    if not isinstance(given, ToolDefinition):
        return f"{given!r:.80} in a tuple"
    is_wrong = not isinstance(given.name, str) or not isinstance(given.parameters, Mapping)
    return f"a definition with the name {given.name!r} and {given.parameters!r:.80}" if is_wrong else None


def definitions_in(tools: Maybe[ToolService]) -> tuple[ToolDefinition, ...]:
    """Return the definitions of a tool service, if there is one."""
    service = tools.value_or(None)
    return () if service is None else service.definitions()


# --- Services without a way to fail: a clock, a source of ids, the name of a model ---


class ServiceFaults:
    """Faults of services that cannot report a failure, in one run.

    Each service and method is logged once. The first fault ends the run at its next step. Until then, and
    while the run is closed, the last good value is used.

    Attributes:
        first: the first fault; ``None`` without any.
    """

    def __init__(self) -> None:
        self.first: ServiceFailed | None = None
        self._known: set[tuple[str, str]] = set()

    def call(
        self, name: str, service: object, method: str, expected: str, accept: Callable[[Any], bool]
    ) -> Any:
        """Return the value of a method or attribute, or ``None`` with a fault.

        Args:
            name: the name of the service, for the fault.
            expected: a description of the values that ``accept`` takes, for the message.
        """
        try:
            found: Any = getattr(service, method)
            found = found() if callable(found) else found
            if accept(found):
                return found
        except Exception as error:  # noqa: BLE001 - the service is arbitrary code of the user
            problem = f"raised {type(error).__name__}: {error}"
        else:
            if inspect.iscoroutine(found):
                found.close()
            problem = f"returned {_shown(found)}, expected {expected}"
        message = f"{method} of the {name} service {type(service).__name__} {problem}."
        if (name, method) not in self._known:
            self._known.add((name, method))
            _log.warning("%s", message)
        if self.first is None:
            self.first = ServiceFailed(message, name, method)
        return None


def is_built_in(service: object) -> bool:
    """Return whether a service or strategy is built in, so that it needs no check."""
    kind = type(service)
    made_in: str = (service if kind is FunctionType else kind).__module__
    return made_in.startswith("reactive_agents.")


class CheckedClock:
    """A clock that stands still when a custom one fails."""

    def __init__(self, clock: Clock, faults: ServiceFaults) -> None:
        self._clock, self._faults = clock, faults
        self._now, self._passed = datetime.fromtimestamp(0, UTC), 0.0

    def now(self) -> datetime:
        """As the port says."""
        told = self._faults.call("clock", self._clock, "now", "a datetime with its time zone", _is_time)
        if told is not None:
            self._now = told
        return self._now

    def monotonic(self) -> float:
        """As the port says."""
        told = self._faults.call("clock", self._clock, "monotonic", "seconds as a number", _is_number)
        if told is not None:
            self._passed = told
        return self._passed


class CheckedIds:
    """A source of ids that counts when a custom one fails.

    Args:
        prefix: the prefix of the counted ids.
    """

    def __init__(self, ids: IdSource, faults: ServiceFaults, prefix: str) -> None:
        self._ids, self._faults, self._prefix = ids, faults, prefix
        self._count = 0

    def new(self) -> str:
        """As the port says."""
        made: str | None = self._faults.call("ids", self._ids, "new", "a text that is not empty", _is_name)
        if made is not None:
            return made
        self._count += 1
        return f"{self._prefix}.{self._count}"


def checked_sources(
    clock: Clock, ids: IdSource, faults: ServiceFaults, prefix: str
) -> tuple[Clock, IdSource]:
    """Return a clock and a source of ids that do not raise; built-in ones unchanged."""
    is_own = is_built_in(clock) and is_built_in(ids)
    if is_own and hasattr(clock, "now") and hasattr(clock, "monotonic") and hasattr(ids, "new"):
        return clock, ids
    return CheckedClock(clock, faults), CheckedIds(ids, faults, prefix)


def model_of(llm: LLM, faults: ServiceFaults) -> str:
    """Return the model name of a service; ``unknown`` when the service fails."""
    model: str | None = faults.call("llm", llm, "model", "a text", lambda told: isinstance(told, str))
    return "unknown" if model is None else model


def _is_time(told: object) -> bool:
    return isinstance(told, datetime) and told.tzinfo is not None


def _is_number(told: object) -> bool:
    return isinstance(told, int | float) and isfinite(told)


def _is_name(told: object) -> bool:
    return isinstance(told, str) and bool(told)


def _shown(found: object) -> str:
    plain = found is None or isinstance(found, int | float) or found == ""
    return repr(found) if plain else type(found).__name__


async def price_in(prices: PriceList, model: str | None) -> Result[TokenPrice | None, ServiceFailed]:
    """Return the price of a token, or why a price list failed, which is logged."""
    known = await call_service("prices", prices, PriceList.price, None, model)
    if isinstance(known, Failure):
        failed: ServiceFailed = known.failure()
    else:
        price = known.unwrap()
        if price is None or (isinstance(price, TokenPrice) and _is_price(price)):
            return Success(price)
        problem = f"returned {price!r:.80}, expected a TokenPrice of US dollars, 0 or more, or None."
        failed = broken_service("prices", prices, "price", problem)
    _log.warning("%s", failed.message)
    return Failure(failed)


def _is_price(price: TokenPrice) -> bool:
    longest: object = price.max_output_tokens
    dollars = all(_is_number(usd) and usd >= 0 for usd in (price.input_usd, price.output_usd))
    return dollars and (longest is None or (isinstance(longest, int) and longest >= 0))


class CheckedCounter:
    """A token counter that knows nothing when a custom one fails.

    The custom one fails when it raises or returns no number, which is logged with its class. A request is
    then bounded by its bytes, and the window is that of the model's profile.
    """

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
