"""The tools of one run: usage, checks, audit entries."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Generator, Iterable
from functools import partial
from math import isnan
from threading import Lock
from typing import TYPE_CHECKING, Any

from anyio import CancelScope
from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, events
from reactive_agents.core.events import ToolCallStarted
from reactive_agents.core.governance import made_with
from reactive_agents.core.ids import RequestId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.redaction import joined_texts, redact_texts
from reactive_agents.core.results import ReasoningStep, done_in, doubt_in
from reactive_agents.core.tools import (
    ANSWER_TIMEOUT_S,
    ASK_USER,
    TRIED,
    ToolDefinition,
    ToolResult,
    ToolScope,
)
from reactive_agents.core.values import replaced
from reactive_agents.effects import BrokenContract, attempt, attempt_foreign, effect
from reactive_agents.engine.context import CALLER
from reactive_agents.engine.guardrail import check_text, redact_sub_runs, withheld_result
from reactive_agents.engine.requests import request_answer, request_reply
from reactive_agents.engine.run_records import append_denial
from reactive_agents.engine.services import EngineServices
from reactive_agents.event_loop import CallSoon
from reactive_agents.kernel import RunEvents
from reactive_agents.kernel.service_calls import (
    definitions_of,
    is_built_in,
    problem_within,
)
from reactive_agents.kernel.tool_execution import may_have_acted
from reactive_agents.ports import Approver, ToolService

if TYPE_CHECKING:
    from reactive_agents.core.governance import (
        ApprovalDecision,
        ApprovalRequest,
        GuardrailReport,
        GuardrailStage,
    )
    from reactive_agents.core.run_context import RunContext
    from reactive_agents.engine.run_journal import RunJournal


class RunTools:
    """Implements ``ToolService`` for one run, with usage, checks and audit entries.

    The guardrail checks a result, or the error message of a failed tool, before the model sees it. If it is
    blocked, or could not be checked, the call fails with the error that the result was withheld. One of a
    tool that is not described as a look-up stays a call that worked: it must not be made again for its
    result.
    """

    def __init__(self, tools: ToolService, services: EngineServices) -> None:
        self._tools = tools
        self._definitions = definitions_of(tools)
        self._services = services
        self._guarded = bool(services.ports.guardrail)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions of the other service, as they were when the loop began."""
        return self._definitions

    def has_recorded(self, name: str) -> bool:
        """Return whether another version of the agent made the next call of this tool."""
        journal = self._services.journal
        return journal is not None and journal.has_call(name)

    @effect
    async def execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
    ) -> Result[ToolResult, errors.ToolErrors]:
        """Run a call with the other service; its result may be redacted or withheld."""
        handle, events = self._services.handle, self._services.events
        await handle.control.hold(f"call of {call.name}")
        failed = handle.failed_calls.get(call.name, 0)
        report = CallProgress(call, events, handle.control.call_soon) if events.are_read() else None
        events.publish(ToolCallStarted, call.name, call.id, call.arguments)
        under_way = _CallUnderWay(call, approver)
        making = partial(self._run_context, under_way, failed)
        scope = replaced(scope, run_context=making, report=report, known_texts=tuple(handle.known_texts))
        try:
            executed = await self._execute(under_way, scope)
        except BaseException:
            tool = next((each for each in self._definitions if each.name == call.name), None)
            is_in_doubt = under_way.has_begun and may_have_acted(tool)
            handle.interrupted_calls[scope.call_key] = under_way.call, is_in_doubt
            raise
        finally:
            under_way.end()
            if report is not None:
                report.end()
        worked = isinstance(executed, Success) and executed.unwrap().success
        if worked and call.name in self._services.ports.handoffs:
            from reactive_agents.engine.handoffs import accept_handoff

            edited = executed.unwrap().arguments
            accept_handoff(call if edited is None else call.edited(edited), self._services)
        error = _error_of(call, executed)
        if error is not None:
            handle.call_errors[scope.call_key] = error
            handle.failed_calls[call.name] = handle.failed_calls.get(call.name, 0) + 1
        elif failed:
            handle.failed_calls.pop(call.name, None)
        return executed

    def _run_context(self, under_way: _CallUnderWay, failed: int) -> RunContext[Any]:
        """Return the context of a call, whose tool failed so often in a row before."""
        call, ask = under_way.call, partial(self._ask_person, under_way)
        return self._services.run_context(
            tool_call_id=call.id, tool_name=call.name, retry=failed, ask_person=ask
        )

    async def _ask_person(
        self, under_way: _CallUnderWay, key: str, text: str, options: tuple[str, ...]
    ) -> str:
        """Return a person's answer to a question of the function under a key."""
        call, questions = under_way.call, under_way.questions
        if not under_way.has_ended:
            with CancelScope() as scope:  # cancelled when the call ends, while a thread of it still waits
                questions.append(scope)
                request_id = RequestId(f"{key}/question-{len(questions)}")
                return await request_answer(call, request_id, text, options, self._services)
        raise RuntimeError(f"ask_user: the call of {call.name!r} has ended")

    async def _execute(
        self, under_way: _CallUnderWay, scope: ToolScope
    ) -> Result[ToolResult, errors.ToolErrors]:
        call, account = under_way.call, self._services.llm.account
        passed, journal = account.count_calls(1), self._services.journal
        if journal is None:
            executed, recorded = await self._executed(passed, under_way, scope, under_way.approver), False
        else:
            executed, recorded = await self._recorded(under_way, scope, passed, journal)
        if recorded:
            self._services.events.replayed_calls.add(call.id)
        if isinstance(executed, Success):
            result = executed.unwrap()
            if result.origin not in TRIED:
                account.count_calls(-1)
            if recorded or result.usage:
                await self._take_in(result, recorded=recorded)
        elif isinstance(error := executed.failure(), errors.BudgetUnavailable):
            account.count_calls(-1)
            account.ended_by = error.message
        elif isinstance(error, errors.ToolNotApproved):
            await append_denial(call, error, self._services)
        shown = await self._guard(call, executed) if self._guarded else executed
        if isinstance(shown, Success):  # of a recorded call too
            self._services.handle.known_texts.extend(shown.unwrap().known_texts)
        return shown

    async def _take_in(self, result: ToolResult, *, recorded: bool) -> None:
        """Count the usage of a result, and register the content of one that was recorded."""
        if not recorded:
            if not result.counted:  # at once: the calls beside it may be cancelled
                await self._services.llm.add(result.usage)
            return
        self._services.llm.account.add(result.usage)
        content = self._services.content() if result.parts else None
        if content is not None and not isinstance(content, errors.ServiceMissing):
            content.know(result.parts)

    async def _guard(
        self, call: ToolCall, executed: Result[ToolResult, errors.ToolErrors]
    ) -> Result[ToolResult, errors.ToolErrors]:
        """Return the outcome of a call as the guardrail lets the model see it."""
        if not isinstance(executed, Success):
            error = executed.failure()
            if not isinstance(error, errors.ToolFailed):  # no other holds text of the tool
                return executed
            detail, withheld = await self._checked(call, error.detail)
            return Failure(evolve(error, detail=withheld or joined_texts(detail)))
        result = executed.unwrap()
        if not result.success:
            detail, withheld = await self._checked(call, result.error)
            return Success(evolve(result, error=withheld or joined_texts(detail)))
        value, withheld = await self._checked(call, result.result)
        if withheld:
            return Success(self._withheld(call, result, withheld))
        if value is result.result:
            return executed
        return Success(evolve(result, result=value, known_texts=()))  # the model sees another text

    def _withheld(self, call: ToolCall, result: ToolResult, told: str) -> ToolResult:
        """Return a result without its text: a failure of what only looks something up."""
        from reactive_agents.kernel.ordered_acts import is_lookup, only_reads  # its tables are large

        tools = [each for each in self._definitions if each.name == call.name]
        if not all(map(is_lookup, tools)):
            told = f"{told} The call was carried out: do not repeat it."
        hidden = evolve(result, result=None, parts=(), known_texts=())
        # by the description too: a tool of an MCP server has a risk also where it only reads
        fails = all(map(only_reads, tools))
        return evolve(hidden, error=told) if fails else evolve(hidden, result=told)

    async def _recorded(
        self, under_way: _CallUnderWay, scope: ToolScope, passed: str, journal: RunJournal
    ) -> tuple[Result[ToolResult, errors.ToolErrors], bool]:
        """Return the outcome of a call, and whether it was recorded before.

        Args:
            passed: the limit of tool calls that a call which was not recorded would pass; empty for none.
        """
        call, approver = under_way.call, under_way.approver
        from reactive_agents.engine.run_journal import RecordedCall

        needs_approval, repeatable, resumable = scope.needs_approval, False, False
        for each in self._definitions:
            if each.name == call.name:
                needs_approval = needs_approval or each.requires_approval
                repeatable = repeatable or each.idempotent
                resumable = resumable or each.resumable or each.external
        probe = getattr(self._tools, "was_done", None)
        return await journal.call_tool(
            RecordedCall(
                call,
                scope,
                approver,
                partial(self._executed, passed, under_way),
                under_way.note_begun,
                needs_approval=needs_approval,
                repeatable=repeatable,
                resumable=resumable,
                probe=None if probe is None else partial(probe, call.name),
            )
        )

    async def _with_content(self, result: ToolResult) -> ToolResult:
        content = self._services.content()
        if isinstance(content, errors.ServiceMissing):
            return evolve(result, parts=(), result=None, error=content.message)
        return await content.take_result(result)

    async def _executed(
        self, passed: str, under_way: _CallUnderWay, scope: ToolScope, approver: Approver | None
    ) -> Result[ToolResult, errors.ToolErrors]:
        if passed:
            return Failure(errors.BudgetUnavailable(passed, ""))
        call = under_way.call
        under_way.is_running = True
        caller, steps = CALLER.get(), list[ReasoningStep]()  # not those of the calls beside this one
        above = CALLER.set(None if caller is None else replaced(caller, unfinished=steps))
        try:
            outcome = await attempt_foreign(self._tools.execute, ToolResult, call, scope, approver)
        finally:
            CALLER.reset(above)
            if caller is not None:
                caller.unfinished.extend(steps)
        problem = outcome.problem if isinstance(outcome, BrokenContract) else None
        if isinstance(outcome, Success) and not is_built_in(self._tools):
            problem = problem_within(outcome.unwrap(), ToolResult)
        if isinstance(outcome, BrokenContract) or problem is not None:
            service = type(self._tools).__name__
            return Failure(errors.ToolFailed(call.name, f"The tool service {service} {problem}"))
        if not isinstance(outcome, Success):
            return _late_failure(call, outcome.failure(), steps) if steps else outcome
        result = outcome.unwrap()
        if result.origin == "external":
            return await self._from_outside(call, scope, result.arguments)
        return Success(await self._with_content(result)) if result.parts else outcome

    async def _from_outside(
        self, call: ToolCall, scope: ToolScope, edited: JsonObject | None
    ) -> Result[ToolResult, errors.ToolErrors]:
        """Return the result of a checked call that a person or another program gives.

        ``edited``: the arguments that an approver gave; ``None`` for those of the call.
        """
        made = call if edited is None else call.edited(edited)
        if call.name in self._services.ports.handoffs:
            from reactive_agents.engine.handoffs import request_handoff

            return made_with(edited, call, Success(await request_handoff(made, self._services)))
        timeouts = (each.timeout_s for each in self._definitions if each.name == call.name)
        timeout_s = next(timeouts, ANSWER_TIMEOUT_S)
        return made_with(edited, call, await request_reply(made, scope, timeout_s, self._services))

    async def _checked(self, call: ToolCall, value: Json) -> tuple[Json, str]:
        """Return the redacted value, or ``None`` and the reason why it is withheld."""
        from reactive_agents.core.governance import GuardrailReport  # of agents with a guardrail

        text = joined_texts(value)
        if not text.strip():
            return value, ""
        # what a person answers is an input, as the task is; what another program returns is a result
        asked = call.name == ASK_USER and any(
            each.external for each in self._definitions if each.name == ASK_USER
        )
        stage: GuardrailStage = "input" if asked else "tool-result"
        checked = await check_text(text, stage, self._services, call_id=call.id)
        if not isinstance(checked, Success):
            redact_sub_runs(text, GuardrailReport(allowed=False), self._services)
            return None, "The result was withheld: it could not be checked by the guardrail."
        report = checked.unwrap()
        redact_sub_runs(text, report, self._services)
        if not report.allowed:
            return None, withheld_result(report.violation)
        return _redacted(value, report), ""


def _late_failure(
    call: ToolCall, error: errors.ToolErrors, steps: Iterable[ReasoningStep]
) -> Result[ToolResult, errors.ToolErrors]:
    """Return a failure, in doubt if the call was late and its run has acted."""
    told = " ".join(filter(None, (error.message, doubt_in(steps), done_in(steps))))
    if told == error.message or not isinstance(error, errors.ToolTimedOut):
        return Failure(error)
    return Success(ToolResult(call.id, call.name, error=told, origin="in_doubt"))


class _CallUnderWay:
    """A call as it is let run. Implements ``Approver``.

    Attributes:
        is_running: whether it runs, and nobody is being asked about it.
        questions: the scopes of the questions that its function has asked.
    """

    def __init__(self, call: ToolCall, asked: Approver | None) -> None:
        self.call = call
        self.is_running = False
        self.has_ended = False
        self.questions: list[CancelScope] = []
        self._asked = asked
        self._was_begun = False

    @property
    def approver(self) -> Approver | None:
        """The approver that notes the decision; ``None`` without one."""
        return None if self._asked is None else self

    @property
    def has_begun(self) -> bool:
        """Whether it may have taken effect, here or in a process that has ended."""
        return self.is_running or self._was_begun

    def note_begun(self) -> None:
        """Note that a process which has ended had begun the call."""
        self._was_begun = True

    def end(self) -> None:
        """Ask nothing more, also for a thread or task that it has left behind."""
        self.has_ended = True
        for each in self.questions:
            each.cancel()

    @effect
    async def decide(self, request: ApprovalRequest) -> Result[ApprovalDecision, errors.ServiceFailed]:
        """Return the decision of the other approver."""
        assert self._asked is not None, "there is an approver"
        self.is_running = False
        decided = await attempt(self._asked.decide(request))
        self.is_running = True
        if isinstance(decided, Success) and (edited := decided.unwrap().arguments) is not None:
            self.call = self.call.edited(edited)
        return decided


_LONGEST_MESSAGE = 500


class CallProgress:
    """Publishes the progress that a tool reports for one call, until the call ends.

    When other threads report faster than the run's event loop takes the reports, only the latest counts.
    Reports that come while a reader of the events is behind are dropped. What it emits is published in order,
    and never dropped.
    """

    def __init__(self, call: ToolCall, events: RunEvents, call_soon: CallSoon) -> None:
        self._call = call
        self._events = events
        self._call_soon = call_soon
        self._latest: tuple[float | None, str] | None = None
        self._emitted: deque[tuple[str, Json]] = deque()
        self._lock = Lock()
        self._has_ended = False

    def __call__(self, progress: float | None, message: str) -> Awaitable[None]:
        """Take a report, from any thread, or raise ``TypeError`` without a number."""
        if not isinstance(progress, int | float | None):
            raise TypeError(f"progress: got {type(progress).__name__}, expected a number from 0 to 1.")
        with self._lock:
            is_waiting, self._latest = self._latest is not None, (progress, message)
        if not is_waiting:
            self._call_soon(self._publish)
        return self

    def emit(self, name: str, data: Json) -> Awaitable[None]:
        """Take data for the readers of the events, from any thread."""
        self._emitted.append((name, data))
        self._call_soon(self._publish_emitted)
        return self

    def __await__(self) -> Generator[Any, Any, None]:
        return self._events.keep_up().__await__()

    def end(self) -> None:
        """Take no more reports."""
        self._publish_emitted()
        self._has_ended = True

    def _publish_emitted(self) -> None:
        while self._emitted:
            name, data = self._emitted.popleft()
            if not self._has_ended:
                self._events.publish(events.CustomEvent, self._call.name, self._call.id, name, data)

    def _publish(self) -> None:
        with self._lock:
            latest, self._latest = self._latest, None
        behind = any(reader.is_behind for reader in self._events.readers)
        if latest is None or self._has_ended or behind:
            return
        done, message = latest
        part = None if done is None or isnan(done) else min(max(float(done), 0.0), 1.0)
        text = str(message)[:_LONGEST_MESSAGE]
        self._events.publish(events.ToolProgressed, self._call.name, self._call.id, part, text)


def _error_of(call: ToolCall, executed: Result[ToolResult, errors.ToolErrors]) -> errors.ToolErrors | None:
    if not isinstance(executed, Success):
        return executed.failure()
    result = executed.unwrap()
    return errors.ToolFailed(call.name, result.error) if result.error else None


def _redacted(value: Json, report: GuardrailReport) -> Json:
    if report.redacted is None:
        return value
    spans = [finding for finding in report.findings if finding.action == "redact"]
    if isinstance(value, str) or not spans:  # without spans: the guardrail's whole text
        return report.redacted
    return redact_texts(value, spans)
