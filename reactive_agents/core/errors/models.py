"""Errors of model calls and of the budgets that are checked before them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.usage import RunUsage

BudgetPeriod: TypeAlias = Literal["run", "day", "month"]


@frozen
class BudgetExceeded:
    """A reservation would exceed a budget, so nothing was reserved or spent.

    Attributes:
        period: the budget that would be exceeded; days and months are in UTC.
        limit_usd: US dollars that may be spent in the period.
        spent_usd: US dollars that are spent or reserved in it already.
        needed_usd: US dollars that were to be reserved.
    """

    period: BudgetPeriod
    limit_usd: float
    spent_usd: float
    needed_usd: float = 0.0

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return (
            f"The budget of the {self.period} is exhausted: {self.spent_usd:.6g} of {self.limit_usd:.6g} US "
            f"dollars are spent or reserved, and the next call may cost {self.needed_usd:.6g}."
        )


@frozen
class BudgetUnavailable:
    """A budget is set but cannot be enforced, so the model is not called.

    Attributes:
        message: the reason: the budget cannot be read, it is used up, or the price of the call is unknown.
    """

    message: str
    model: str


# --- What goes wrong between us and a language model ---


RefusedAttempts: TypeAlias = tuple[RunUsage, ...]
"""The attempts of a call that came to nothing and are, or may be, charged for, also those of fallbacks."""


@frozen
class RateLimited:
    """The provider limits requests.

    ``retry_after_s``: seconds to wait, if it states them.
    """

    message: str
    model: str
    retry_after_s: float | None = None
    refused: RefusedAttempts = ()


@frozen
class ModelTimeout:
    """No answer within ``timeout_s`` seconds."""

    message: str
    model: str
    timeout_s: float
    refused: RefusedAttempts = ()


@frozen
class AuthenticationFailed:
    """The key is missing or refused. ``missing``: its environment variable."""

    message: str
    model: str
    missing: str | None = None
    refused: RefusedAttempts = ()


@frozen
class ContextOverflow:
    """The request exceeds the context window.

    ``limit``: tokens, if the provider states them.
    """

    message: str
    model: str
    limit: int | None = None
    refused: RefusedAttempts = ()


@frozen
class MalformedResponse:
    """The provider's answer violates its protocol.

    ``excerpt``: the start of the answer.
    """

    message: str
    model: str
    excerpt: str = ""
    refused: RefusedAttempts = ()


@frozen
class ModelUnavailable:
    """The provider cannot be reached or fails. ``status``: its HTTP status, if any."""

    message: str
    model: str
    status: int | None = None
    refused: RefusedAttempts = ()


@frozen
class RequestRejected:
    """The provider rejects this request: unknown model, parameter, content policy."""

    message: str
    model: str
    status: int | None = None
    refused: RefusedAttempts = ()


@frozen
class ScriptExhausted:
    """A scripted model has no turn left that fits the request."""

    message: str
    last_request: str
    refused: RefusedAttempts = ()


ProviderErrors: TypeAlias = (
    RateLimited
    | ModelTimeout
    | AuthenticationFailed
    | ContextOverflow
    | MalformedResponse
    | ModelUnavailable
    | RequestRejected
    | ScriptExhausted
)
LLMErrors: TypeAlias = ProviderErrors | BudgetExceeded | BudgetUnavailable


def may_be_charged(error: LLMErrors) -> bool:
    """Return whether a provider may charge for the failed attempt."""
    match error:
        case ModelTimeout() | MalformedResponse() | ModelUnavailable(status=None):
            return True
        case _:
            return False


def refused_attempts(error: LLMErrors) -> RefusedAttempts:
    """Return the usage of the attempts of a failed call, known or possible."""
    match error:
        case BudgetExceeded() | BudgetUnavailable():
            return ()
        case _:
            return error.refused
