"""Failed attempts to call a model, and retries."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from attrs import evolve, field, frozen

from reactive_agents.core.errors import ContextOverflow, ModelTimeout, ProviderErrors, may_be_charged
from reactive_agents.core.models import ModelResponse
from reactive_agents.core.texts import as_sentence
from reactive_agents.core.usage import USAGE_RECORDER, RunUsage, by_model

if TYPE_CHECKING:
    from stamina import Attempt


@frozen
class FailedAttempt:
    """The reason for a missing answer, and the possible reactions.

    Attributes:
        retry: whether the same request may succeed later.
        elsewhere: whether another model may answer.
        retry_after_s: seconds to wait, if the provider gave them.
        spent: the usage of an unusable answer, or of an attempt that may be charged for; ``None`` for none.
        refusal: the provider's words if it rejected the request, with secrets; never leaves the adapter.
    """

    error: ProviderErrors
    retry: bool = False
    elsewhere: bool = True
    retry_after_s: float | None = None
    spent: RunUsage | None = None
    refusal: str = field(default="", repr=False)


class FailedAttempts:
    """The failed attempts of one call so far, and their usage."""

    def __init__(self) -> None:
        self._of_models: list[FailedAttempt] = []
        self._spent: list[RunUsage] = []

    def enter(self, failed: FailedAttempt) -> None:
        """Record a failed attempt."""
        if failed.spent is not None:
            self._spent.append(failed.spent)

    def give_up(self, failed: FailedAttempt) -> None:
        """Record the failure for which a model was given up."""
        self._of_models.append(failed)

    @property
    def latest(self) -> FailedAttempt:
        """The failure for which the latest model was given up."""
        return self._of_models[-1]

    @property
    def are_charged(self) -> bool:
        """Whether any of them may be charged for."""
        return bool(self._spent)

    def before(self, response: ModelResponse) -> ModelResponse:
        """Return the final answer, with the usage of the attempts before it."""
        return evolve(response, refused=self._handed_over()) if self._spent else response

    def verdict(self) -> ProviderErrors:
        """Return the first model's error, whose message adds failures of the fallbacks.

        If the first is down and a fallback's window is too small, it is that error: less may be answered.
        """
        first, *others = (failed.error for failed in self._of_models)
        message = first.message
        if others:
            fallbacks = " ".join(error.message for error in others)
            message = f"{as_sentence(message)} The fallbacks failed too: {fallbacks}"
        if self._of_models[0].retry:
            first = next((each for each in others if isinstance(each, ContextOverflow)), first)
        return evolve(first, message=message, refused=self._handed_over())

    async def report(self) -> None:
        """Report the usage of a cancelled call to its run."""
        account, spent = USAGE_RECORDER.get(), self._handed_over()
        if account is not None and spent:
            await account(by_model(spent))

    def _handed_over(self) -> tuple[RunUsage, ...]:
        spent = tuple(self._spent)
        self._spent.clear()
        return spent


def timed_out(model: str, timeout_s: float, *, retry_after_s: float | None = None) -> FailedAttempt:
    """Return the failure of an attempt that timed out."""
    error = ModelTimeout(f"{model} did not answer within {timeout_s:g} seconds.", model, timeout_s)
    return FailedAttempt(error, retry=True, retry_after_s=retry_after_s)


_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 8.0
_JITTER_S: Final = 0.2
_MOST_CHARGED: Final = 3
"""The maximum of attempts for a model that may be charged for or took the whole timeout."""


# without any handler, each retry would print a line to the terminal
logging.getLogger("stamina").addHandler(logging.NullHandler())


class AttemptFailed(Exception):
    """Carries a failed attempt through the retry loop; never leaves the adapter."""

    def __init__(self, failed: FailedAttempt) -> None:
        super().__init__(failed.error.message)
        self.attempt = failed


def attempts(*, at_most: int, longest_wait_s: float) -> AsyncIterator[Attempt]:
    """Yield attempts to call one model, with growing waits between them.

    Raise :class:`AttemptFailed` within an attempt to get the next; it propagates from the last one, and from
    one that cannot be retried.

    Args:
        at_most: requests to send, 1 or more.
        longest_wait_s: seconds; a provider that asks for a longer wait is given up.
    """

    import stamina  # here, to keep the import of the adapter cheap

    charged = 0

    def wait(error: Exception) -> bool | float:
        nonlocal charged
        if not isinstance(error, AttemptFailed) or not error.attempt.retry:
            return False
        charged += may_be_charged(error.attempt.error)
        if charged >= _MOST_CHARGED:
            return False
        asked = error.attempt.retry_after_s
        if asked is None:
            return True
        return asked if asked <= longest_wait_s else False

    context = stamina.retry_context(
        on=wait,
        attempts=at_most,
        timeout=None,
        wait_initial=_FIRST_WAIT_S,
        wait_max=_LONGEST_WAIT_S,
        wait_jitter=_JITTER_S,
    )
    return aiter(context)
