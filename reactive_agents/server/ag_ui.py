"""The AG-UI protocol: the events of a run for a user interface.

``Translation`` turns the events of a run into those of the protocol, and is pure. A run of the protocol may
be a part of a run of the agent: if a person must decide or answer, or the interface must execute a tool, the
stream ends with the open requests, the run waits, and the next request continues it.

Source: the Agent User Interaction Protocol 1.0, by its package ``ag-ui-protocol``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from ag_ui.core import events as ui
from ag_ui.core.types import Interrupt, Message, ResumeEntry, RunAgentInput, ToolMessage, UserMessage
from ag_ui.encoder import EventEncoder
from attrs import define, field
from pydantic import ValidationError
from returns.result import Failure
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from reactive_agents.adapters.telemetry.console import describe
from reactive_agents.adapters.tools.decorator import Tool, external_tool
from reactive_agents.adapters.tools.json_value import as_text
from reactive_agents.adapters.tools.signature import ToolDefinitionError
from reactive_agents.containers.layers import find_orders
from reactive_agents.core import events
from reactive_agents.core.codec import from_json
from reactive_agents.core.errors import RunCancelled, root_cause
from reactive_agents.core.governance import ApprovalDecision
from reactive_agents.core.ids import CallId, RunId
from reactive_agents.core.json import JsonObject, json_bytes
from reactive_agents.core.message_formats import messages_from_openai
from reactive_agents.core.redaction import joined_texts
from reactive_agents.core.run_record import OpenQuestion, RecordedRun
from reactive_agents.core.tasks import TaskResult, TaskResultMetadata
from reactive_agents.effects import call_function
from reactive_agents.kernel.context_window.tool_results import result_text
from reactive_agents.kernel.prompt import fence
from reactive_agents.server import web
from reactive_agents.server.access import Principal
from reactive_agents.server.runs import (
    ANSWER_S,
    AgentService,
    Answer,
    LiveRun,
    RequestKey,
    Run,
    RunRequest,
    WaitingRuns,
    guards,
    outcome_of,
    question_text,
    request_key,
)

_MOST_WAITING: Final = 1_000
"""The most waiting runs among which that of a thread is found."""
_KEPT_TEXTS: Final = ("calls",)
"""Reasons of retractions that leave the text in the conversation: a remark beside tool calls."""
_ROLES: Final = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant"}


@define(eq=False)
class Translation:
    """The events of the protocol for those of a run, one after the other.

    Attributes:
        thread_id, run_id: the ids of the request, for the stream.
        messages: the conversation with the messages of the run, without retracted texts.
        answered: the requests of the run that this request answers.
        interrupts: the ids of all that the thread was asked.
    """

    thread_id: str
    run_id: str
    messages: list[Message] = field(factory=list)
    answered: set[RequestKey] = field(factory=set)
    interrupts: set[str] = field(factory=set)
    _main: RunId = field(factory=lambda: RunId(""))
    _text: tuple[str, str] | None = None
    _texts: list[str] = field(factory=list)
    _thinking: str | None = None
    _calls: dict[tuple[RunId, CallId], str] = field(factory=dict)
    _actions: dict[tuple[RunId, CallId], str] = field(factory=dict)
    _call_ids: set[str] = field(factory=set)
    _sent_results: set[str] = field(factory=set)
    _subagents: set[RunId] = field(factory=set)
    _made: int = 0
    _prefix: str = ""

    def for_request(self, given: RunAgentInput, answered: set[RequestKey]) -> Translation:
        """Return the translation for the thread's next request, with its answers."""
        self.run_id, self.answered = given.run_id, answered
        self._made = 0
        return self

    @classmethod
    def after(cls, given: RunAgentInput, main: RunId) -> Translation:
        """Return the translation for a run whose earlier events only the client has."""
        made = cls(given.thread_id, given.run_id, list(given.messages))
        made._main = main
        for each in given.messages:
            made._call_ids.update(called.id for called in getattr(each, "tool_calls", None) or ())
        return made

    def begin(self, run: RunId) -> list[ui.BaseEvent]:
        """Return the first events of a stream, which may continue a run."""
        self._main = run
        self._prefix = f"{self.run_id}-"
        return [ui.RunStartedEvent(thread_id=self.thread_id, run_id=self.run_id)]

    def of(self, event: events.AgentEvent) -> list[ui.BaseEvent]:
        """Return the events for the next one of the run."""
        found = self._entered(event)
        is_main = event.run_id == self._main
        whose = None if is_main else str(event.run_id)
        match event:
            case events.ModelTextStreamed(text=text) if is_main and text:
                found += [*self._end_thinking(), *self._say(text)]
            case events.ModelThinkingStreamed(text=text) if is_main and text:
                found += [*self._end_text(), *self._think(text)]
            case events.ModelTextRetracted(policy=policy) if is_main:
                found += self._retract(keep=policy in _KEPT_TEXTS)
            case events.ModelStreamRestarted() if is_main:
                found += self._retract(keep=False)
            case events.ReasoningStepCompleted(action=str(action)):
                match from_json(action, JsonObject).value_or(None):
                    case {"arguments": dict(arguments)} if event.call_id is not None:
                        self._actions[event.run_id, event.call_id] = json.dumps(arguments)
            case events.ToolCallStarted(tool_name=name, call_id=call, arguments=arguments):
                found += self._close()
                self._actions.pop((event.run_id, call), None)
                found += self._call(event.run_id, call, name, json.dumps(arguments), whose)
            case events.ToolCallCompleted(tool_name=name, call_id=call):
                if (event.run_id, call) not in self._calls:  # it was refused, or answered, before it began
                    intended = self._actions.pop((event.run_id, call), "{}")
                    found += self._close()
                    found += self._call(event.run_id, call, name, intended, whose)
                shown = result_text(event.result) if event.success else event.error
                made = self._calls.pop((event.run_id, call))
                if made not in self._sent_results:
                    found.append(self._result(made, shown, whose))
            case events.TaskCompleted() | events.TaskFailed() if is_main:
                ended = event.result if isinstance(event, events.TaskCompleted) else event
                found += [*self._close(), *self.ended(ended)]
            case events.TaskCompleted(result=result):
                found.append(
                    ui.SubagentFinishedEvent(subagent_run_id=str(event.run_id), result=result.output)
                )
            case events.TaskFailed(error=error):
                message = root_cause(error).message
                found.append(ui.SubagentErrorEvent(subagent_run_id=str(event.run_id), message=message))
            case events.CustomEvent(name=name, data=data):
                found.append(ui.CustomEvent(name=name, value=data, subagent_run_id=whose))
            case events.ToolProgressed() | events.StrategySelected() | events.GuidanceGiven():
                line = describe(event)
                if line is not None:
                    found.append(ui.CustomEvent(name=line.kind, value=line.text, subagent_run_id=whose))
            case _:
                pass
        return found

    def suspended(self, questions: Iterable[OpenQuestion]) -> list[ui.BaseEvent]:
        """Return the last events of a stream whose run waits for these requests."""
        shown, interrupts, pending = self._close(), list[Interrupt](), list[str]()
        for each in questions:
            if each.kind == "call":
                asked: Any = each.request
                run, call, name = each.run_id, CallId(str(asked.get("call_id"))), str(asked.get("tool_name"))
                agent = str(asked.get("agent_id") or asked.get("agent"))
                shown += self._show_call(run, call, name, asked.get("arguments"), agent)
                pending.append(self._calls[run, call])
            else:
                interrupts.append(self._interrupt(each))
        outcome: ui.RunFinishedOutcome = ui.RunFinishedSuccessOutcome(pending_tool_call_ids=pending or None)
        if interrupts:
            outcome = ui.RunFinishedInterruptOutcome(interrupts=interrupts)
        self.interrupts.update(each.id for each in interrupts)
        end = ui.RunFinishedEvent(thread_id=self.thread_id, run_id=self.run_id, outcome=outcome)
        return [*shown, end]

    def _show_call(
        self, run: RunId, call: CallId, name: str, arguments: Any, agent: str
    ) -> list[ui.BaseEvent]:
        """Return the events of a pending call that the client does not know yet."""
        if (run, call) in self._calls:
            return []
        known = self._known_call(run, call, name)
        if known is not None:
            self._calls[run, call] = known
            return []
        is_main = run == self._main
        begun: list[ui.BaseEvent] = []
        if not is_main and run not in self._subagents:
            self._subagents.add(run)
            begun = [ui.SubagentStartedEvent(subagent_run_id=str(run), name=agent)]
        return [*begun, *self._call(run, call, name, json.dumps(arguments), None if is_main else str(run))]

    def _known_call(self, run: RunId, call: CallId, name: str) -> str | None:
        """Return the id of a call that the client was shown, perhaps by another process."""
        known, times = None, 0
        while (made := _call_id(self._main, run, call, name, times)) in self._call_ids:
            known, times = made, times + 1
        return known

    def interrupted(
        self, why: str = "The run was interrupted.", code: str = "interrupted"
    ) -> list[ui.BaseEvent]:
        """Return the last events of a stream whose run was interrupted."""
        return [*self._close(), ui.RunErrorEvent(message=why, code=code)]

    def answers(
        self, questions: Iterable[OpenQuestion], given: RunAgentInput
    ) -> list[tuple[RequestKey, Answer]]:
        """Return the answers of a request of the protocol to the requests of a run."""
        entries = {each.interrupt_id: each for each in given.resume or ()}
        results = {each.tool_call_id: each for each in given.messages if isinstance(each, ToolMessage)}
        found: list[tuple[RequestKey, Answer]] = []
        for each in questions:
            key, run = request_key(each), each.run_id
            if each.kind == "call":
                call, name = CallId(str(each.request.get("call_id"))), str(each.request.get("tool_name"))
                result = results.get(self._calls.get((run, call)) or self._known_call(run, call, name) or "")
                if result is not None:
                    self._sent_results.add(result.tool_call_id)
                    content = result.content if isinstance(result.content, str) else as_text(result.content)
                    found.append((key, ("call", content, result.error or "")))
            elif (entry := entries.get("/".join(key))) is not None:
                found.append((key, _answer(entry, to_approve=each.kind != "question")))
        return found

    # --- parts ----------------------------------------------------------------------------------------------

    def _entered(self, event: events.AgentEvent) -> list[ui.BaseEvent]:
        """Return the start of a sub-agent, when it is not known yet."""
        if event.run_id == self._main or event.run_id in self._subagents:
            return []
        self._subagents.add(event.run_id)
        parent = event.parent_run_id
        above = None if parent in (None, self._main) else str(parent)
        begun = ui.SubagentStartedEvent(
            subagent_run_id=str(event.run_id), name=str(event.agent), parent_subagent_run_id=above
        )
        return [*self._close(), begun]

    def _say(self, text: str) -> list[ui.BaseEvent]:
        begun: list[ui.BaseEvent] = []
        if self._text is None:
            self._text = (self._id(), "")
            begun.append(ui.TextMessageStartEvent(message_id=self._text[0], role="assistant"))
        made, so_far = self._text
        self._text = (made, so_far + text)
        return [*begun, ui.TextMessageContentEvent(message_id=made, delta=text)]

    def _think(self, text: str) -> list[ui.BaseEvent]:
        begun: list[ui.BaseEvent] = []
        if self._thinking is None:
            self._thinking = self._id()
            begun = [
                ui.ReasoningStartEvent(message_id=self._thinking),
                ui.ReasoningMessageStartEvent(message_id=self._thinking),
            ]
        return [*begun, ui.ReasoningMessageContentEvent(message_id=self._thinking, delta=text)]

    def _end_text(self) -> list[ui.BaseEvent]:
        if self._text is None:
            return []
        (made, text), self._text = self._text, None
        self._texts.append(made)
        self._add({"id": made, "role": "assistant", "content": text})
        return [ui.TextMessageEndEvent(message_id=made)]

    def _end_thinking(self) -> list[ui.BaseEvent]:
        if self._thinking is None:
            return []
        made, self._thinking = self._thinking, None
        return [ui.ReasoningMessageEndEvent(message_id=made), ui.ReasoningEndEvent(message_id=made)]

    def _close(self) -> list[ui.BaseEvent]:
        return [*self._end_thinking(), *self._end_text()]

    def _retract(self, *, keep: bool) -> list[ui.BaseEvent]:
        """Return a snapshot of the conversation without the latest text."""
        ended = self._close()
        texts, self._texts = self._texts, []
        if keep or not texts:
            return ended
        self.messages = [each for each in self.messages if each.id not in texts]
        return [*ended, ui.MessagesSnapshotEvent(messages=list(self.messages))]

    def _call(
        self, run: RunId, call: CallId, name: str, arguments: str, whose: str | None
    ) -> list[ui.BaseEvent]:
        times = 0
        while (made := _call_id(self._main, run, call, name, times)) in self._call_ids:
            times += 1
        self._calls[run, call] = made
        self._call_ids.add(made)
        function = {"name": name, "arguments": arguments}
        self._add(
            {"role": "assistant", "tool_calls": [{"id": made, "type": "function", "function": function}]}
        )
        return [
            ui.ToolCallStartEvent(tool_call_id=made, tool_call_name=name, subagent_run_id=whose),
            ui.ToolCallArgsEvent(tool_call_id=made, delta=arguments, subagent_run_id=whose),
            ui.ToolCallEndEvent(tool_call_id=made, subagent_run_id=whose),
        ]

    def _result(self, made: str, shown: str, whose: str | None) -> ui.BaseEvent:
        message = self._id()
        self._add({"id": message, "role": "tool", "tool_call_id": made, "content": shown})
        return ui.ToolCallResultEvent(
            message_id=message, tool_call_id=made, content=shown, subagent_run_id=whose
        )

    def ended(self, outcome: TaskResult | events.TaskFailed) -> list[ui.BaseEvent]:
        """Return the last events of a stream whose run has ended."""
        if not isinstance(outcome, events.TaskFailed):
            result = outcome
            document = {"status": result.status, "output": result.output, "reason": result.reason}
            said = self.messages[-1] if self.messages else None
            spoken: list[ui.BaseEvent] = []
            text = result.output or ("" if result.status == "completed" else result.reason)
            if text and (said is None or said.role != "assistant" or said.content != text):
                spoken = [*self._say(text), *self._end_text()]
            return [*spoken, self._finished(ui.RunFinishedSuccessOutcome(), result.metadata, document)]
        if isinstance(outcome.error, RunCancelled):
            return [self._finished(ui.RunFinishedCancelledOutcome(), outcome.metadata, None)]
        error = root_cause(outcome.error)
        usage = _usage(outcome.metadata)
        return [ui.RunErrorEvent(message=error.message, code=type(error).__name__, usage=usage)]

    def _finished(
        self, outcome: ui.RunFinishedOutcome, figures: TaskResultMetadata, document: Any
    ) -> ui.BaseEvent:
        return ui.RunFinishedEvent(
            thread_id=self.thread_id,
            run_id=self.run_id,
            outcome=outcome,
            result=document,
            usage=_usage(figures),
        )

    def _interrupt(self, question: OpenQuestion) -> Interrupt:
        reason, answer = "question", {"answer": {"type": "string"}}
        call = None
        if question.kind != "question":
            reason, answer = "approval", {"approved": {"type": "boolean"}}
            if question.kind == "approval":  # a call in doubt is made again as it was
                answer["arguments"] = {"type": "object"}
            call = self._calls.get((question.run_id, CallId(str(question.request.get("call_id")))))
        return Interrupt(
            id="/".join(request_key(question)),
            reason=reason,
            message=question_text(question),
            tool_call_id=call,
            response_schema={"type": "object", "properties": answer},
        )

    def _add(self, message: dict[str, Any]) -> None:
        message.setdefault("id", self._id())
        self.messages += RunAgentInput.model_validate(
            {"thread_id": "", "run_id": "", "messages": [message]}
        ).messages

    def _id(self) -> str:
        self._made += 1
        return f"{self._prefix}{self._made}"


def _call_id(main: RunId, run: RunId, call: CallId, name: str, times: int) -> str:
    """Return the id of a call for the client, the same after a restart.

    It names the main run, and has at most 40 characters, as providers expect that get it in a history.

    Args:
        times: how many calls of this run, id and name came before.
    """
    return f"{main}-{hashlib.sha256(json_bytes([run, call, name, times])).hexdigest()[:7]}"


def _answer(entry: ResumeEntry, *, to_approve: bool) -> Answer:
    given = entry.payload if isinstance(entry.payload, dict) else {}
    resolved = entry.status == "resolved"
    if to_approve:
        approved = given.get("approved", entry.payload) if resolved else False
        if not isinstance(approved, bool):
            raise web.Problem(422, "invalid-body", "/resume/payload/approved: expected true or false.")
        reason = "" if approved else str(given.get("reason", ""))
        return ("approval", ApprovalDecision(approved, reason, given.get("arguments")))
    text = entry.payload if isinstance(entry.payload, str) else given.get("answer")
    if resolved and isinstance(text, str) and text.strip():
        return ("question", text)
    return ("question", "The person gives no answer.")


def _usage(figures: TaskResultMetadata) -> list[ui.TokenUsage]:
    return [
        ui.TokenUsage(
            model=each.model,
            input_tokens=each.usage.input_tokens,
            output_tokens=each.usage.output_tokens,
            total_tokens=each.usage.total_tokens,
        )
        for each in figures.models
    ]


# --- requests -------------------------------------------------------------------------------------------


class AgUiEndpoint:
    """Answers requests of the protocol with streams of its events."""

    def __init__(self, service: AgentService) -> None:
        self._service = service
        self._waiting: WaitingRuns[Translation] = WaitingRuns(service, ANSWER_S)
        self._encoder = EventEncoder()

    async def __call__(self, request: Request) -> Response:
        """Begin a run, or continue the one that waits for the answers in the request."""
        principal = self._service.principal(request)
        name, _ = self._service.agent(principal, request.path_params.get("agent"))
        limits = principal.limits
        data = await web.read_json(request, most=limits.body_bytes, seconds=limits.body_s)
        try:
            given = RunAgentInput.model_validate(data)
        except ValidationError as error:
            raise web.problem_of(error, "invalid-body", data) from None
        with self._service.uses.held(principal, "streams") as held:
            key = _thread(principal, name, given.thread_id)
            taken = await self._taken_up(principal, name, given)
            if taken is None and (settled := await self._settled(principal, name, given)) is not None:
                rest = web.EventStream(self._rest(principal, key, *settled, given))
                return self._service.stream(principal, rest, held, self._ended_by)
            run, after, translation = taken or await self._begun(principal, name, given)
            held.callback(self._cancel_unless_waiting, key, run)
            stream = web.EventStream(self._stream(key, run, after, translation))
            return self._service.stream(principal, stream, held, self._ended_by)

    def _cancel_unless_waiting(self, key: str, run: LiveRun) -> None:
        """Cancel the run of a stream that has ended if no client will come back for it."""
        waiting = self._waiting.look(key)
        if waiting is None or waiting.run is not run:
            self._service.cancel(run)

    async def _begun(
        self, principal: Principal, name: str, given: RunAgentInput
    ) -> tuple[LiveRun, int, Translation]:
        last = given.messages[-1] if given.messages else None
        if not isinstance(last, UserMessage):
            raise web.Problem(422, "no-task", "The last message has to be the user's.")
        *history, task = _messages(given.messages)
        tools = await self._offered(name, given)
        context = "\n".join(f"{each.description}: {each.value}" for each in given.context or ())
        asked = RunRequest(
            f"{task.content}\n\n{fence('client-context', context)}" if context else task.content,
            parts=task.parts,
            history=tuple(history),
            metadata={
                "thread_id": given.thread_id,
                "thread_owner": principal.owner,
                "client_run_id": given.run_id,
            },
            tools=tools,
        )
        await self._give_up(principal, name, given.thread_id)
        run = await self._service.start_here(principal, name, asked)
        return run, 0, Translation(given.thread_id, given.run_id, list(given.messages))

    async def _give_up(self, principal: Principal, name: str, thread_id: str) -> None:
        """Cancel the waiting run of a thread: the person sends a new task instead."""
        thread = {"thread_id": thread_id, "thread_owner": principal.owner}.items()
        for run in await self._service.recent(principal, name, None, "waiting", _MOST_WAITING):
            if thread <= run.task.metadata.items():
                with suppress(web.Problem):  # it has ended meanwhile
                    await self._service.order(principal, run, "cancel")

    async def _offered(self, name: str, given: RunAgentInput) -> list[Tool]:
        """Return the tools of the interface.

        Raises:
            Problem: their definitions are wrong, or look like prompt injection.
        """
        tools = _tools(given)
        if tools and guards(self._service.agents[name], "input"):
            await _refuse_orders(tools)
        return tools

    async def _taken_up(
        self, principal: Principal, name: str, given: RunAgentInput
    ) -> tuple[LiveRun, int, Translation] | None:
        """Return the waiting run of the thread, with its requests settled."""
        key = _thread(principal, name, given.thread_id)
        waiting = self._waiting.look(key)
        if waiting is None:
            return None
        run, translation = waiting.run, waiting.state
        answers = translation.answers(run.questions, given)
        resumed = {each.interrupt_id for each in given.resume or ()}
        settled = (resumed & translation.interrupts) - {"/".join(asked) for asked in run.requests}
        if given.resume and len(answers) + len(settled) < len(given.resume):
            raise web.Problem(409, "other-interrupt", "The run waits for the answers to other interrupts.")
        await self._settle(principal, run, answers)
        if self._waiting.take(key) is None:  # another request of the thread continues it, with its events
            return None
        if not answers and not settled:
            self._service.cancel(run)  # the person sent a new task instead
            return None
        return run, waiting.after, translation.for_request(given, {key for key, _ in answers})

    async def _settled(
        self, principal: Principal, name: str, given: RunAgentInput
    ) -> tuple[RunId, set[RequestKey], list[Tool]] | None:
        """Answer requests of a durable run of the thread that this process did not begin.

        Returns the run, the answered requests, and the tools of the interface; ``None`` if the request of the
        protocol has no answers to such a run.

        Raises:
            Problem: there is no run for its answers, or they are refused.
        """
        run = await self._run_of_answers(principal, name, given)
        if run is None:
            if given.resume:
                raise web.Problem(409, "run-not-waiting", "No run of this thread waits for an answer.")
            return None
        tools = await self._offered(name, given)
        translation = Translation.after(given, run.run_id)
        answers = translation.answers(await self._service.open_questions(run), given)
        await self._settle(principal, run, answers)
        return run.run_id, {asked for asked, _ in answers}, tools

    async def _settle(
        self, principal: Principal, run: Run, answers: Sequence[tuple[RequestKey, Answer]]
    ) -> None:
        for _, answer in answers:
            principal.must_settle(answer[0])
        for asked, answer in answers:
            try:
                await self._service.settle(principal, run, *asked, answer)
            except web.Problem as problem:
                if problem.code != "not-waiting":  # else it was settled meanwhile
                    raise

    async def _run_of_answers(self, principal: Principal, name: str, given: RunAgentInput) -> Run | None:
        """Return the durable run of the thread that the answers of a request name."""
        last = given.messages[-1] if given.messages else None
        named = [last.tool_call_id.rpartition("-")[0]] if isinstance(last, ToolMessage) else []
        for each in given.resume or ():  # the id of a request may contain a slash, and that of a run too
            named += [each.interrupt_id.partition("/")[0], each.interrupt_id.rpartition("/")[0]]
        for run_id in dict.fromkeys(filter(None, named)):
            try:
                run = await self._service.find(principal, run_id)
                while isinstance(run, RecordedRun) and run.parent is not None:
                    run = await self._service.find(principal, run.parent)
            except web.Problem as problem:
                if problem.status != 404:
                    raise
                continue
            is_durable = isinstance(run, RecordedRun) or run.is_durable
            is_of_agent = self._service.served_name(run) == name
            if is_durable and is_of_agent and run.task.metadata.get("thread_id") == given.thread_id:
                return run
        return None

    async def _rest(
        self,
        principal: Principal,
        key: str,
        run_id: RunId,
        answered: set[RequestKey],
        tools: Sequence[Tool],
        given: RunAgentInput,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the end of a durable run by its record, which has no events of its course."""
        translation = Translation.after(given, run_id)
        yield self._encoded(translation.begin(run_id))
        last = translation.interrupted()
        try:
            async for run, asked in self._service.follow_recorded(principal, run_id, answered, tools):
                if (outcome := outcome_of(run)) is not None:
                    last = translation.ended(outcome)
                    break
                if asked:
                    if isinstance(run, LiveRun):  # it goes on in this process
                        self._waiting.leave(key, run, run.last, translation)
                    last = translation.suspended(asked)
                    break
                yield web.HEARTBEAT
        except web.Problem as problem:
            last = translation.interrupted(problem.detail, problem.code)
        yield self._encoded(last)

    async def _stream(
        self, key: str, run: LiveRun, after: int, translation: Translation
    ) -> AsyncGenerator[bytes, None]:
        yield self._encoded(translation.begin(run.run_id))
        async for kept in run.follow(after):
            if kept is None:
                yield web.HEARTBEAT
                continue
            after = kept.number
            if made := translation.of(kept.event):
                yield self._encoded(made)
            new = run.requests.keys() - translation.answered
            if new and after == run.last:
                self._waiting.leave(key, run, after, translation)
                yield self._encoded(translation.suspended(run.questions))
                return
        if run.is_interrupted:
            yield self._encoded(translation.interrupted())

    def _ended_by(self, problem: web.Problem) -> bytes:
        return self._encoded([ui.RunErrorEvent(message=problem.detail, code=problem.code)])

    def _encoded(self, made: Iterable[ui.BaseEvent]) -> bytes:
        return "".join(map(self._encoder.encode, made)).encode()


def _thread(principal: Principal, agent: str, thread_id: str) -> str:
    """Return the name under which the run of a thread waits for its client."""
    return json.dumps([principal.owner, agent, thread_id])


def _messages(messages: Sequence[Message]) -> list[Any]:
    told = [each.model_dump(by_alias=False, exclude_none=True) for each in messages]
    kept = [_openai(each) for each in told if each["role"] in (*_ROLES, "tool")]
    read = messages_from_openai(kept)
    if isinstance(read, Failure):
        raise web.Problem(422, "invalid-body", read.failure().message)
    return list(read.unwrap())


def _openai(message: dict[str, Any]) -> dict[str, Any]:
    message = {**message, "role": _ROLES.get(message["role"], "tool")}
    if isinstance(message.get("content"), list):
        message["content"] = [_part(each) for each in message["content"]]
    return message


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]}
    source = part["source"]
    if source["type"] not in ("data", "url"):
        raise web.Problem(422, "invalid-body", f"A part from a {source['type']} is not accepted.")
    is_data = source["type"] == "data"
    url = f"data:{source['mime_type']};base64,{source['value']}" if is_data else source["value"]
    if part["type"] == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    if part["type"] == "audio" and is_data:
        kind = source["mime_type"].rpartition("/")[2]
        return {"type": "input_audio", "input_audio": {"data": source["value"], "format": kind}}
    if part["type"] == "document" and is_data:
        return {"type": "file", "file": {"file_data": url, "filename": part.get("id") or "document"}}
    raise web.Problem(
        422, "invalid-body", f"A part of the type {part['type']} is not accepted from this source."
    )


def _tools(given: RunAgentInput) -> list[Tool]:
    try:
        return [
            external_tool(
                each.name,
                each.parameters or {"type": "object", "properties": {}},
                description=each.description,
            )
            for each in given.tools or ()
        ]
    except ToolDefinitionError as error:
        raise web.Problem(422, "invalid-tool", str(error)) from None


async def _refuse_orders(tools: Sequence[Tool]) -> None:
    """Refuse client tools whose definitions look like prompt injection.

    Raises:
        Problem: a definition looks like orders to the model.
    """
    definitions = [each.definition for each in tools]
    texts = [f"{each.description}\n\n{joined_texts(each.parameters)}" for each in definitions]
    found = await call_function(find_orders, "\n\n".join(texts))
    if found:
        raise web.Problem(422, "invalid-tool", f"A definition looks like orders to the model: {found}")


def routes(service: AgentService) -> list[BaseRoute]:
    """Return the routes of the protocol."""
    endpoint = AgUiEndpoint(service)
    return [
        Route("/ag-ui", endpoint.__call__, methods=["POST"]),
        Route("/ag-ui/{agent}", endpoint.__call__, methods=["POST"]),
    ]
