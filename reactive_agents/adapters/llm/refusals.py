"""Why a model did not answer, and what may be done about it."""

from __future__ import annotations

from reactive_agents.core.errors import ModelTimeout, ProviderErrors
from reactive_agents.core.frozen import frozen


@frozen
class Refusal:
    """Why there is no answer.

    Attributes:
        retry: the same request may succeed a little later.
        elsewhere: another model may answer it.
        retry_after_s: how many seconds later, when the provider said so.
    """

    error: ProviderErrors
    retry: bool = False
    elsewhere: bool = True
    retry_after_s: float | None = None


def timed_out(model: str, timeout_s: float, *, retry_after_s: float | None = None) -> Refusal:
    """No answer in time; it may be worth another attempt."""
    error = ModelTimeout(f"{model} did not answer within {timeout_s:g} seconds.", model, timeout_s)
    return Refusal(error, retry=True, retry_after_s=retry_after_s)
