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
    """

    error: ProviderErrors
    retry: bool = False
    elsewhere: bool = True


def timed_out(model: str, timeout_s: float) -> Refusal:
    """No answer in time; it may be worth another attempt."""
    return Refusal(
        ModelTimeout(f"{model} did not answer within {timeout_s:g} seconds.", model, timeout_s), retry=True
    )
