"""What kind of error made a step fail: by its class first, by its words only when the class does not say."""

from __future__ import annotations

from reactive_agents.core.errors import (
    AddressRefused,
    AuthenticationFailed,
    GuardrailViolationError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    RequestRejected,
    ServiceMissing,
    StepIncomplete,
    StepTimedOut,
    StrategyNotFoundError,
    ToolFailed,
    ToolNotApproved,
    ToolNotFound,
    ToolTimedOut,
    WorkspaceViolation,
    root_cause,
)
from reactive_agents.core.personas import ErrorKind, StepOutcome

_OF_STATUS: dict[int | None, ErrorKind] = {
    401: "access_denied",
    403: "access_denied",
    404: "missing_resource",
    408: "timeout",
    429: "rate_limit",
}
_OF_EXCEPTION: dict[str, ErrorKind] = {
    "TimeoutError": "timeout",
    "FileNotFoundError": "missing_resource",
    "NotADirectoryError": "missing_resource",
    "LookupError": "missing_resource",
    "KeyError": "missing_resource",
    "PermissionError": "access_denied",
    "ConnectionError": "network",
    "ConnectionRefusedError": "network",
    "ConnectionResetError": "network",
    "BrokenPipeError": "network",
    "gaierror": "network",
}
_WORDS: tuple[tuple[ErrorKind, tuple[str, ...]], ...] = (
    ("rate_limit", ("rate limit", "too many requests", "429")),
    ("timeout", ("timeout", "timed out", "time limit", "did not end within")),
    ("network", ("network", "connection", "unreachable", "dns")),
    ("missing_resource", ("not found", "no such", "does not exist", "there is no", "404")),
    ("access_denied", ("permission", "unauthorized", "forbidden", "denied", "not approved", "is refused")),
)


def classify_failure(outcome: StepOutcome) -> ErrorKind:
    """The kind of error that a failed step ended with. Total: what nothing is known of is ``unknown``."""
    match outcome.error:
        case None:
            return kind_of_text(outcome.detail)
        case StepTimedOut() | StepIncomplete(terminated_by="deadline"):
            return "timeout"
        case StepIncomplete(reason=reason):
            return kind_of_text(f"{outcome.detail}\n{reason}")
        case error:
            return _kind_of(root_cause(error), outcome.detail)


def _kind_of(cause: object, detail: str) -> ErrorKind:
    match cause:
        case ModelTimeout() | ToolTimedOut():
            return "timeout"
        case RateLimited():
            return "rate_limit"
        case ToolNotFound() | StrategyNotFoundError() | ServiceMissing():
            return "missing_resource"
        case (
            WorkspaceViolation()
            | AddressRefused()
            | ToolNotApproved()
            | AuthenticationFailed()
            | GuardrailViolationError()
        ):
            return "access_denied"
        case ModelUnavailable() | RequestRejected() if cause.status in _OF_STATUS:
            return _OF_STATUS[cause.status]
        case ModelUnavailable():
            return "network"
        case ToolFailed(exception=exception) if exception in _OF_EXCEPTION:
            return _OF_EXCEPTION[exception]
    return kind_of_text(f"{getattr(cause, 'message', '')}\n{detail}")


def kind_of_text(text: str) -> ErrorKind:
    """The kind of error that a message speaks of.

    >>> kind_of_text("HTTP 429: Too Many Requests")
    'rate_limit'
    >>> kind_of_text("Something odd happened.")
    'unknown'
    """
    said = text.casefold()
    for kind, words in _WORDS:
        if any(word in said for word in words):
            return kind
    return "unknown"
