"""What keeps a model from being asked: a budget that is used up, or one that cannot be kept."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.usage import RunUsage

BudgetPeriod: TypeAlias = Literal["run", "day", "month"]


@frozen
class BudgetExceeded:
    """A reservation would take a budget past its limit, so nothing was reserved and nothing was spent.

    Attributes:
        period: the budget that is too small; days and months are those of UTC.
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
    """There is a budget, and it cannot be kept, so that the model is not asked.

    Attributes:
        message: why: the budget cannot be read, it is used up, or nobody knows what the call may cost.
    """

    message: str
    model: str


# --- What goes wrong between us and a language model ---


RefusedAttempts: TypeAlias = tuple[RunUsage, ...]
"""The attempts of a call that came to nothing and are, or may be, charged for, also those of fallbacks."""


@frozen
class RateLimited:
    """The provider refuses more requests for now. ``retry_after_s``: seconds to wait, when it said so."""

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
    """The key is missing or refused. ``missing``: the environment variable that would hold it."""

    message: str
    model: str
    missing: str | None = None
    refused: RefusedAttempts = ()


@frozen
class ContextOverflow:
    """The request is longer than the model's window. ``limit``: tokens, when the provider said so."""

    message: str
    model: str
    limit: int | None = None
    refused: RefusedAttempts = ()


@frozen
class MalformedResponse:
    """The provider's answer is not of its protocol's form. ``excerpt``: the start of what came."""

    message: str
    model: str
    excerpt: str = ""
    refused: RefusedAttempts = ()


@frozen
class ModelUnavailable:
    """The provider cannot be reached or fails. ``status``: its HTTP status, when it answered."""

    message: str
    model: str
    status: int | None = None
    refused: RefusedAttempts = ()


@frozen
class RequestRejected:
    """The provider will not answer this request: unknown model, invalid parameter, content policy."""

    message: str
    model: str
    status: int | None = None
    refused: RefusedAttempts = ()


@frozen
class ScriptExhausted:
    """A scripted model was asked more often than its script has turns, or the turn did not fit."""

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
    """Whether a provider may charge for the attempt all the same, since it did not refuse it."""
    match error:
        case ModelTimeout() | MalformedResponse() | ModelUnavailable(status=None):
            return True
        case _:
            return False


def refused_attempts(error: LLMErrors) -> RefusedAttempts:
    """What was, or may have been, spent on a call that came to nothing, attempt by attempt."""
    match error:
        case BudgetExceeded() | BudgetUnavailable():
            return ()
        case _:
            return error.refused
