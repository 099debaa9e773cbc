"""Model calls of a run with usage, events and budget reservations.

Every call of a run goes through one service, whichever part of the run makes it, so that it is counted once
and published once. With a budget (``run_budget``) its cost is reserved before it is made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, get_args

from attrs import evolve
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, events
from reactive_agents.core.bases import NOT_SENT
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.events import ModelCallCompleted, ModelCallStarted
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.model_settings import NO_SETTINGS, ModelSettings
from reactive_agents.core.models import (
    FinishReason,
    ModelChunk,
    ModelRequest,
    ModelResponse,
    StreamCompleted,
)
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.usage import RunUsage, Usage, unknown_usage
from reactive_agents.effects import BrokenContract, Effect, attempt_foreign
from reactive_agents.event_loop import to_the_end, within
from reactive_agents.kernel.call_parsing.response_calls import without_marks
from reactive_agents.kernel.context import UsageAccount, with_valid_usage
from reactive_agents.kernel.events import RunEvents
from reactive_agents.kernel.run_budget import Held, RunBudget
from reactive_agents.kernel.service_calls import ServiceFaults, is_built_in, model_of
from reactive_agents.ports import LLM, Clock

if TYPE_CHECKING:
    from reactive_agents.core.errors import LLMErrors
    from reactive_agents.kernel.streamed_answer import AnswerStream


_SETTLING_S = 5.0
"""Seconds that a budget has to take in what was spent, also when the run is being cancelled."""


Hold: TypeAlias = Callable[[str], Awaitable[None]]
"""Wait before the step of that name as long as the run is paused."""
Attach: TypeAlias = Callable[
    [ModelRequest], Awaitable[Result[ModelRequest, "errors.ContentErrors | ServiceFailed"]]
]


class AnswerRecord(Protocol):
    """Answers that are recorded before they are used, so that none is asked for twice."""

    def find_answer(self, request: ModelRequest) -> tuple[str, Result[ModelResponse, LLMErrors] | None, int]:
        """Return a request's key, its recorded answer, and how often it was cut off."""
        ...

    async def prepared(self, key: str, request: ModelRequest, model: str) -> ModelRequest:
        """Return the request to send to a model, once all answers before it are recorded."""
        ...

    async def keep_answer(
        self, key: str, request: ModelRequest, answer: Result[ModelResponse, LLMErrors]
    ) -> None:
        """Record the answer to a request."""


class MeteredLLM:
    """A model service for one run: adds up usage, publishes events, keeps budgets.

    With ``streaming`` the answers are streamed while the events have subscribers; each delta is an event.
    With a redactor the deltas contain no secret, not even a split one. With a budget the cost of each call is
    reserved first; a call that would exceed the budget is not made.

    Args:
        hold: awaited before each call; it waits as long as the run is paused.
        account: adds up the usage; a new one by default.
        faults: collects the fault of a service without a model name; new ones by default.
        record: records the answers; a recorded answer is counted, and nothing is reserved for it.
        settings: the user's settings for every call of the run.

    Attributes:
        account: the usage of the run so far.
        budget: the budget of the run; ``None`` if neither it nor a run above it has one.
        answered_by: the model that answered last; empty before the first answer.
        refusal: why the budget refused the latest call; ``None`` when it did not.
        attach: puts images, audio and documents into a request; ``None`` for a run without any.
    """

    def __init__(
        self,
        llm: LLM,
        events: RunEvents,
        clock: Clock,
        *,
        streaming: bool = False,
        budget: RunBudget | None = None,
        redactor: Redactor | None = None,
        hold: Hold | None = None,
        account: UsageAccount | None = None,
        faults: ServiceFaults | None = None,
        record: AnswerRecord | None = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> None:
        self._llm = llm
        self._is_built_in = is_built_in(llm)
        self._settings = settings
        self._record = record
        self._faults = faults or ServiceFaults()
        self._hold = hold
        self._events = events
        self._calls = 0
        self._clock = clock
        self.budget = budget
        self._redactor = redactor
        if streaming:
            from reactive_agents.kernel.streamed_answer import AnswerStream

            events.answer = AnswerStream(events, redactor, events.above)
        self.account = account or UsageAccount()
        self.answered_by = ""
        self.refusal: errors.BudgetExceeded | errors.BudgetUnavailable | None = None
        self.attach: Attach | None = None

    @property
    def model(self) -> str:
        """The model that answers a request which names none."""
        return self._llm.model if self._is_built_in else model_of(self._llm, self._faults)

    @property
    def models(self) -> tuple[RunUsage, ...]:
        """Return the usage of each model in the order of first use, foreign ones last."""
        return self.account.models

    @property
    def usage(self) -> RunUsage:
        """The usage of the run until now, that of other services included."""
        return self.account.total

    async def add(self, parts: Sequence[RunUsage], *, purpose: str = "", duration_ms: float = 0.0) -> None:
        """As :class:`~reactive_agents.core.usage.UsageRecorder` says."""
        self.account.add(parts)
        events = self._events
        for part in parts if purpose else ():
            price = None if part.unpriced_calls else part.cost_usd
            events.publish(ModelCallCompleted, purpose, part.model, part.usage, price, duration_ms)
        cost_usd = sum(part.cost_usd for part in parts)
        if self.budget is not None and cost_usd:
            await to_the_end(partial(within, _SETTLING_S, self.budget.spend(cost_usd), None))

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        """As the port says."""
        complete = self._complete if self._record is None else partial(self._recorded, self._record)
        return FutureResult(complete(request.under(self._settings)))

    async def _recorded(
        self, record: AnswerRecord, request: ModelRequest
    ) -> Result[ModelResponse, LLMErrors]:
        key, known = self._found(record, request)
        if known is not None:
            return known
        answer = await self._complete(await self._prepared(record, key, request))
        await record.keep_answer(key, request, answer)
        return answer

    def _found(
        self, record: AnswerRecord, request: ModelRequest
    ) -> tuple[str, Result[ModelResponse, LLMErrors] | None]:
        """Return a request's key and recorded answer; count what was sent before."""
        key, known, cut_off = record.find_answer(request)
        answers = [Failure(self._cut_off(request))] * cut_off if cut_off else []
        for each in answers if known is None else (*answers, known):
            self._account(request, each, self._clock.monotonic(), self._tell_of(request), replayed=True)
        return key, known

    async def _prepared(self, record: AnswerRecord, key: str, request: ModelRequest) -> ModelRequest:
        if self._hold is not None:  # what waits is not being sent
            await self._hold("model call")
        return await record.prepared(key, request, request.model or self.model)

    async def _complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        admitted = await self._admitted(request)
        if not isinstance(admitted, tuple):
            return admitted
        request, reservation, started = admitted
        number = self._tell_of(request)
        try:
            answer = self._checked(request, await self._asked(request))
        except BaseException as error:  # cut off, by a deadline or by who cancels the run
            await self._account_cut_off(request, error, reservation, started, number)
            raise
        self._account(request, answer, started, number)
        if reservation is not None:
            await self._settle(reservation, answer)
        return answer

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """As the port says."""
        request = asked = request.under(self._settings)
        key = ""
        if self._record is not None:
            key, known = self._found(self._record, asked)
            if known is not None:
                yield known.map(StreamCompleted)
                return
            request = await self._prepared(self._record, key, asked)
        admitted = await self._admitted(request)
        if not isinstance(admitted, tuple):
            if self._record is not None:
                await self._record.keep_answer(key, asked, admitted)
            yield admitted
            return
        request, reservation, started = admitted
        number = self._tell_of(request)
        answer: Result[ModelResponse, LLMErrors] | None = None
        try:
            async with aclosing(self._llm.stream(request)) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    answer = _answer_in(chunk)
                    if answer is not None:
                        break
                    yield chunk
        except Exception as error:  # noqa: BLE001 - the service is arbitrary code of the user
            answer = self._broken(request, f"raised {type(error).__name__}: {error}")
        except BaseException as error:
            await self._account_cut_off(request, error, reservation, started, number)
            raise
        answer = self._checked(request, answer or self._unfinished())
        self._account(request, answer, started, number)
        await self._settle(reservation, answer)
        if self._record is not None:
            await self._record.keep_answer(key, asked, answer)
        yield answer.map(StreamCompleted)

    async def _admitted(
        self, request: ModelRequest
    ) -> tuple[ModelRequest, Held | None, float] | Failure[LLMErrors]:
        """Return the whole request, its reservation and the time; wait while paused."""
        if self._hold is not None:
            await self._hold("model call")
        started, held = self._clock.monotonic(), None
        if self.attach is not None:
            attached = await self.attach(request)
            if isinstance(attached, Failure):
                refused = errors.RequestRejected(attached.failure().message, request.model or self.model)
                self._account(request, Failure(refused), started)
                return Failure(refused)
            request = attached.unwrap()
        if self.budget is not None:
            reserved = await self.budget.reserve(request, request.model or self.model)
            self.refusal = reserved.failure() if isinstance(reserved, Failure) else None
            if self.refusal is not None:
                self._account(request, Failure(self.refusal), started)
                return Failure(self.refusal)
            held = reserved.unwrap()
        return request, held, started

    def _tell_of(self, request: ModelRequest) -> int:
        """Publish that the model is asked; return the number of the call."""
        self._calls += 1
        events, shown, model = self._events, None, ""
        if events.are_read():
            shown, model = request if events.have_requests else None, request.model or self.model
        events.publish(ModelCallStarted, request.purpose, model, shown, self._calls)
        return self._calls

    async def _asked(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        answer = self._events.answer
        if answer is None or not self._events.are_read():
            outcome = await attempt_foreign(self._llm.complete, ModelResponse, request)
            if isinstance(outcome, Success) or not isinstance(outcome, BrokenContract):
                return outcome
            return self._broken(request, outcome.problem)
        try:
            return await self._streamed(request, answer)
        except Exception as error:  # noqa: BLE001 - the service is arbitrary code of the user
            return self._broken(request, f"raised {type(error).__name__}: {error}")

    def _checked(
        self, request: ModelRequest, answer: Result[ModelResponse, LLMErrors]
    ) -> Result[ModelResponse, LLMErrors]:
        if not isinstance(answer, Success):
            return answer
        response = answer.unwrap()
        problem = response_problem(response)
        if problem is not None:
            return self._broken(request, problem)
        checked = without_written_thinking(with_valid_usage(response))
        return answer if checked is response else Success(checked)

    def _broken(self, request: ModelRequest, problem: str) -> Failure[errors.ModelUnavailable]:
        """Return the failure of a model service that violates its contract."""
        model, service = request.model or self.model, type(self._llm).__name__
        message = f"The model service {service} {problem}"
        return Failure(errors.ModelUnavailable(message, model, refused=(unknown_usage(model),)))

    async def _settle(self, reservation: Held | None, answer: Result[ModelResponse, LLMErrors]) -> None:
        if self.budget is not None and reservation is not None:
            # what a call has cost is known now, or never
            await to_the_end(partial(within, _SETTLING_S, self.budget.settle(reservation, answer), None))

    async def _streamed(
        self, request: ModelRequest, answer: AnswerStream
    ) -> Result[ModelResponse, LLMErrors]:
        from reactive_agents.kernel.streamed_answer import ModelDeltas

        deltas = ModelDeltas(request, self._events, answer, self._redactor)
        async with aclosing(self._llm.stream(request)) as chunks:  # type: ignore[type-var]
            try:
                async for chunk in chunks:
                    last = _answer_in(chunk)
                    if last is not None:
                        return last
                    if isinstance(chunk, Success):
                        deltas.add(chunk.unwrap())
                    await self._events.keep_up()
            finally:
                deltas.end()
        return self._unfinished()

    def _cut_off(self, request: ModelRequest) -> errors.ModelUnavailable:
        model = request.model or self.model
        message = f"The call of {model} was cut off before it ended; it may be charged."
        return errors.ModelUnavailable(message, model, refused=(unknown_usage(model),))

    async def _account_cut_off(
        self,
        request: ModelRequest,
        cut_off: BaseException,
        reservation: Held | None,
        started: float,
        number: int,
    ) -> None:
        """Count a call that was cut off; one that was not sent frees its reservation."""
        if NOT_SENT not in getattr(cut_off, "__notes__", ()):
            self._account(request, Failure(self._cut_off(request)), started, number)
            return
        model = request.model or self.model
        message = f"The call of {model} was cut off while it waited for its rate limit; it was not sent."
        waited = Failure(errors.RateLimited(message, model))
        self._account(request, waited, started, number)
        await self._settle(reservation, waited)

    def _unfinished(self) -> Failure[errors.MalformedResponse]:
        message, refused = "The stream ended without its last chunk.", (unknown_usage(self.model),)
        return Failure(errors.MalformedResponse(message, self.model, refused=refused))

    def _account(
        self,
        request: ModelRequest,
        answer: Result[ModelResponse, LLMErrors],
        started: float,
        number: int = 0,
        *,
        replayed: bool = False,
    ) -> None:
        duration_ms = (self._clock.monotonic() - started) * 1000
        match answer:
            case Success(response):
                model, usage, cost_usd = response.model, response.usage, response.cost_usd
                refused, cached = response.refused, response.cached
                if cached:
                    usage, cost_usd = Usage(), 0.0
                self.account.add(response.spent)
                self.answered_by = model
                said = response if self._events.have_requests else None
                self._events.publish(
                    ModelCallCompleted,
                    request.purpose,
                    model,
                    usage,
                    cost_usd,
                    duration_ms,
                    refused,
                    cached,
                    said,
                    number,
                    response.finish_reason,
                    replayed,
                )
            case Failure(error):
                self.account.add(errors.refused_attempts(error))
                abandoned = request.purpose, error, duration_ms, number, replayed
                self._events.publish(events.ModelCallAbandoned, *abandoned)


def _answer_in(chunk: Result[ModelChunk, LLMErrors]) -> Result[ModelResponse, LLMErrors] | None:
    """Return the answer or failure that ends a stream; ``None`` for the other chunks."""
    match chunk:
        case Success(StreamCompleted(response)):
            return Success(response)
        case Failure(error):
            return Failure(error)
        case _:
            return None


def without_written_thinking(response: ModelResponse) -> ModelResponse:
    """Return a response whose text is free of thinking and of marks of the template."""
    content, thinking = without_marks(response.content)
    if response.thinking and content[:1] == "\n":  # the gap between thinking and text
        content = content.lstrip("\n")
    if not thinking and content == response.content:
        return response
    exposed = "\n\n".join(filter(None, (response.thinking, thinking)))
    return evolve(response, content=content, thinking=exposed)


_FINISH_REASONS = get_args(FinishReason)
_TEXTS = ("content", "model", "thinking")
_NUMBERS = frozenset({int, float})


def response_problem(response: ModelResponse) -> str | None:
    """Return what a custom service did wrong, such as ``returned …``, or ``None``."""
    calls, usage, refused = response.tool_calls, response.usage, response.refused
    if not (
        isinstance(response.content, str)
        and isinstance(response.model, str)
        and isinstance(response.thinking, str)
    ):
        name = next(each for each in _TEXTS if not isinstance(getattr(response, each), str))
        expected = "a text, also an empty one"
    elif response.finish_reason not in _FINISH_REASONS:
        name, expected = "finish_reason", f"one of {', '.join(_FINISH_REASONS)}"
    elif not isinstance(calls, tuple | Sequence) or not all(map(_is_call, calls)):
        name, expected = "tool_calls", "ToolCall objects, each with a name and with JSON data as arguments"
    elif not isinstance(usage, Usage) or not (
        _NUMBERS.issuperset(map(type, usage.counts))  # as nearly always
        or all(isinstance(each, int | float) for each in usage.counts)
    ):
        name, expected = "usage", "a Usage of whole numbers"
    elif refused != () and not (
        isinstance(refused, tuple | Sequence) and all(isinstance(each, RunUsage) for each in refused)
    ):
        name, expected = "refused", "RunUsage objects"
    elif not isinstance(response.cost_usd, int | float | None):
        name, expected = "cost_usd", "US dollars or None"
    else:
        return None
    return f"returned a response with the {name} {getattr(response, name)!r:.80}, expected {expected}."


def _is_call(call: object) -> bool:
    if not (isinstance(call, ToolCall) and isinstance(call.name, str)):
        return False
    try:
        return isinstance(call.arguments, dict | Mapping) and bool(call.arguments_text)  # it is kept
    except (TypeError, ValueError, RecursionError):
        return False
