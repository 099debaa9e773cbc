"""What goes wrong between us and a language model."""

from __future__ import annotations

from typing import TypeAlias

from reactive_agents.core.errors.budgets import BudgetExceeded, BudgetUnavailable
from reactive_agents.core.frozen import frozen


@frozen
class RateLimited:
    """The provider refuses more requests for now. ``retry_after_s``: seconds to wait, when it said so."""

    message: str
    model: str
    retry_after_s: float | None = None


@frozen
class ModelTimeout:
    """No answer within ``timeout_s`` seconds."""

    message: str
    model: str
    timeout_s: float


@frozen
class AuthenticationFailed:
    """The key is missing or refused. ``missing``: the environment variable that would hold it."""

    message: str
    model: str
    missing: str | None = None


@frozen
class ContextOverflow:
    """The request is longer than the model's window. ``limit``: tokens, when the provider said so."""

    message: str
    model: str
    limit: int | None = None


@frozen
class MalformedResponse:
    """The provider's answer is not of its protocol's form. ``excerpt``: the start of what came."""

    message: str
    model: str
    excerpt: str = ""


@frozen
class ModelUnavailable:
    """The provider cannot be reached or fails. ``status``: its HTTP status, when it answered."""

    message: str
    model: str
    status: int | None = None


@frozen
class RequestRejected:
    """The provider will not answer this request: unknown model, invalid parameter, content policy."""

    message: str
    model: str
    status: int | None = None


@frozen
class ScriptExhausted:
    """A scripted model was asked more often than its script has turns, or the turn did not fit."""

    message: str
    last_request: str


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
