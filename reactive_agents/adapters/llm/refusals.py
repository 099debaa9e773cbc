"""Why a model did not answer, and what may be done about it."""

from __future__ import annotations

from attrs import evolve, frozen

from reactive_agents.core.errors import ModelTimeout, ProviderErrors
from reactive_agents.core.models import ModelResponse
from reactive_agents.core.spending_account import ACCOUNT_OF_RUN
from reactive_agents.core.tools import ToolSpending
from reactive_agents.core.usage import ModelSpending


@frozen
class Refusal:
    """Why there is no answer.

    Attributes:
        retry: the same request may succeed a little later.
        elsewhere: another model may answer it.
        retry_after_s: how many seconds later, when the provider said so.
        spent: on an answer that cannot be used, or an attempt that may be charged for; ``None`` for nothing.
    """

    error: ProviderErrors
    retry: bool = False
    elsewhere: bool = True
    retry_after_s: float | None = None
    spent: ModelSpending | None = None


class Refusals:
    """What went wrong with one call until now, and what was spent on it."""

    def __init__(self) -> None:
        self._of_models: list[Refusal] = []
        self._spent: list[ModelSpending] = []

    def enter(self, refusal: Refusal) -> None:
        """An attempt came to nothing."""
        if refusal.spent is not None:
            self._spent.append(refusal.spent)

    def give_up(self, refusal: Refusal) -> None:
        """A model was given up because of this."""
        self._of_models.append(refusal)

    @property
    def latest(self) -> Refusal:
        """Why the latest model was given up."""
        return self._of_models[-1]

    def before(self, response: ModelResponse) -> ModelResponse:
        """The answer that came in the end, with what the attempts before it came to."""
        return evolve(response, refused=self._handed_over()) if self._spent else response

    def verdict(self) -> ProviderErrors:
        """The first model's error; what the fallbacks said is added to its message."""
        first, *others = (refusal.error for refusal in self._of_models)
        message = first.message
        if others:
            fallbacks = " ".join(error.message for error in others)
            message = f"{message} The fallbacks failed too: {fallbacks}"
        return evolve(first, message=message, refused=self._handed_over())

    async def report(self) -> None:
        """The call is cut off, and will return nothing: tell the account of the run that goes on."""
        account, spent = ACCOUNT_OF_RUN.get(), self._handed_over()
        if account is not None and spent:
            await account(ToolSpending.of(spent))

    def _handed_over(self) -> tuple[ModelSpending, ...]:
        spent = tuple(self._spent)
        self._spent.clear()
        return spent


def timed_out(model: str, timeout_s: float, *, retry_after_s: float | None = None) -> Refusal:
    """No answer in time; it may be worth another attempt."""
    error = ModelTimeout(f"{model} did not answer within {timeout_s:g} seconds.", model, timeout_s)
    return Refusal(error, retry=True, retry_after_s=retry_after_s)
