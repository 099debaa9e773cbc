"""The A2A protocol: agents that accept tasks from other agents.

A context of the protocol is a session, and a task is a run with the same id. A run that waits for an approval
or an answer is a task that requires input; the next message of the task continues it. After a restart, the
task of a durable run is found in its record.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Final, TypeAlias

from a2a.auth.user import User
from a2a.helpers.proto_helpers import get_data_parts, new_data_part, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.jsonrpc_models import JSONParseError
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.response_helpers import agent_card_to_dict, build_error_response
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Artifact,
    CancelTaskRequest,
    GetTaskRequest,
    HTTPAuthSecurityScheme,
    Message,
    Part,
    Role,
    SecurityRequirement,
    SecurityScheme,
    SendMessageRequest,
    StringList,
    Task,
    TaskState,
    TaskStatus,
)
from a2a.utils import errors
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from reactive_agents import __version__
from reactive_agents.adapters.telemetry.console import describe
from reactive_agents.agent import ReactiveAgent
from reactive_agents.core import events
from reactive_agents.core.content import Content, part_of_file
from reactive_agents.core.errors import RunCancelled, root_cause
from reactive_agents.core.governance import MOST_REASON, ApprovalDecision
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import json_bytes
from reactive_agents.core.run_record import OpenQuestion, RecordedRun
from reactive_agents.core.texts import one_line, shortened
from reactive_agents.server import runs
from reactive_agents.server.access import Principal
from reactive_agents.server.runs import ANSWER_S, SERVER, RequestKey, question_text, request_key
from reactive_agents.server.web import JsonText, Problem, read_json, sse, with_body

_Waiting: TypeAlias = tuple[frozenset[RequestKey], ServerCallContext]
"""The requests shown to the client of a task, and the context of its request."""

_PRINCIPAL: Final = "principal"
_VERSION: Final = "a2a-version"
_ANSWER: Final = "answer"
_MOST_TASKS: Final = 1_000
"""The maximum of ended tasks, and of tasks with shown requests, that are stored for an agent."""
_MOST_BYTES: Final = 100_000_000
"""The maximum of bytes of ended tasks that are stored for an agent, but for the last one."""
_STATES: Final = {
    "completed": TaskState.TASK_STATE_COMPLETED,
    "partial": TaskState.TASK_STATE_FAILED,
    "failed": TaskState.TASK_STATE_FAILED,
    "abstained": TaskState.TASK_STATE_REJECTED,
}
_ENDED: Final = frozenset({*_STATES.values(), TaskState.TASK_STATE_CANCELED})
_AT_WORK: Final = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})
_STREAMED: Final = frozenset({"SendStreamingMessage", "SubscribeToTask"})
_YES: Final = frozenset({"yes", "approve", "approved", "ok"})
_NO_TOOL: Final = "No one executes this tool here."
_SHOWN_KINDS: Final = ("phase", "plan", "tool", "handoff", "guidance")
"""Kinds of lines that are published as the status of a running task."""


class _Caller(User):
    def __init__(self, principal: Principal) -> None:
        self.principal = principal

    @property
    def is_authenticated(self) -> bool:
        return bool(self.principal.key)

    @property
    def user_name(self) -> str:
        """The owner of the tasks that the sender can access: its user, or its key."""
        return self.principal.owner


class _Contexts(ServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        principal: Principal = request.state.principal
        version = {_VERSION: request.headers[_VERSION]} if _VERSION in request.headers else {}
        state = {_PRINCIPAL: principal, "headers": version}  # which the library logs
        return ServerCallContext(user=_Caller(principal), state=state)


class _Tasks(InMemoryTaskStore):
    """The tasks of this process, and those of durable runs by their record.

    Attributes:
        begun: ids of the tasks that began in this process, not to be read from their records.
        sizes: bytes of the tasks of this process.
    """

    def __init__(self, service: runs.AgentService, name: str) -> None:
        super().__init__()
        self.begun: set[str] = set()
        self.sizes: dict[str, int] = {}
        self._service = service
        self._name = name

    async def save(self, task: Task, context: ServerCallContext) -> None:
        if task.id in self.sizes or task.status.state not in _ENDED:  # else it was deleted as it ended
            await super().save(task, context)
            self.sizes[task.id] = task.ByteSize()

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        await super().delete(task_id, context)
        self.sizes.pop(task_id, None)

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        known = await super().get(task_id, context)
        if known is None:
            return None if task_id in self.begun else await self._recorded(task_id, context)
        if known.status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
            with suppress(Problem):
                run = await self._service.find(context.state[_PRINCIPAL], task_id)
                if runs.outcome_of(run) is not None:  # it was settled elsewhere, or too late
                    self._show_end(known, run)
        return known

    async def _recorded(self, task_id: str, context: ServerCallContext) -> Task | None:
        principal: Principal = context.state[_PRINCIPAL]
        try:
            run = await self._service.find(principal, task_id)
            if run.run_id != task_id or self._service.served_name(run) != self._name:
                return None
            waiting = await self._service.open_questions(run)
        except Problem as problem:
            if problem.status == 404:
                return None
            raise errors.InternalError(message=problem.detail) from None
        whose, session = _session(principal, ""), runs.session_of(run) or ""
        if run.task.user != principal.user or not session.startswith(whose):
            return None
        task, asked = Task(id=task_id, context_id=session.removeprefix(whose)), new_text_part(run.task.input)
        task.history.append(Message(role=Role.ROLE_USER, message_id=task_id, parts=[asked]))
        if isinstance(run, RecordedRun) and run.updated_at is not None:
            task.status.timestamp.FromDatetime(run.updated_at)
        if isinstance(run, RecordedRun) and run.order == "cancel":  # requested, but not carried out yet
            _show(task, TaskState.TASK_STATE_CANCELED, [])
        elif waiting:
            _show(task, TaskState.TASK_STATE_INPUT_REQUIRED, _questions(waiting))
        elif not run.has_ended:
            _show(task, TaskState.TASK_STATE_WORKING, [])
        else:
            self._show_end(task, run)
        return task

    def _show_end(self, task: Task, run: runs.Run) -> None:
        state, answered, reason = _end_of(run, self._service.agents[self._name])
        if answered:
            del task.artifacts[:]
            task.artifacts.append(Artifact(artifact_id=_ANSWER, parts=answered))
        _show(task, state, [new_text_part(reason)] if reason else [])


def _show(task: Task, state: TaskState, told: Sequence[Part]) -> None:
    """Set the state of a task, with a message of the agent about it."""
    task.status.state = state
    task.status.ClearField("message")
    if told:
        message = Message(role=Role.ROLE_AGENT, message_id=f"{task.id}-{state}", parts=told)
        task.status.message.CopyFrom(message)


class AgentTasks(AgentExecutor):
    """Runs the tasks that other agents give to an agent.

    Attributes:
        handler: cancels a task whose client does not come back.
    """

    handler: DefaultRequestHandler

    def __init__(self, service: runs.AgentService, name: str, store: _Tasks) -> None:
        self._service = service
        self._name = name
        self._store = store
        self._waiting: runs.WaitingRuns[_Waiting] = runs.WaitingRuns(service, ANSWER_S, self._give_up)
        self._runs: dict[str, runs.LiveRun] = {}
        self._shown: dict[str, frozenset[RequestKey]] = {}  # the latest last
        self._ended: deque[tuple[str, ServerCallContext]] = deque()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run or continue a task until it ends or requires input."""
        waits = False
        try:
            waits = await self._execute(context, event_queue)
        finally:
            if not waits:
                await self._forget(str(context.task_id), context.call_context)

    async def _execute(self, context: RequestContext, event_queue: EventQueue) -> bool:
        """Return whether the task requires input now."""
        task_id, context_id = str(context.task_id), str(context.context_id)
        updater = TaskUpdater(event_queue, task_id, context_id)
        principal: Principal = context.call_context.state[_PRINCIPAL]
        waiting = self._waiting.take(task_id)
        if waiting is not None:
            run, after, (asked, _) = waiting.run, waiting.after, waiting.state
            settled = await self._settle(run, asked, context)
        elif context.current_task is not None:
            return await self._continue(principal, task_id, updater, context)
        else:
            self._store.begun.add(task_id)
            submitted = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            history = [context.message] if context.message is not None else []
            await event_queue.enqueue_event(
                Task(id=task_id, context_id=context_id, status=submitted, history=history)
            )
            try:
                run = await self._begin(principal, context)
            except Problem as problem:
                await updater.reject(updater.new_agent_message([new_text_part(problem.detail)]))
                return False
            after, settled = 0, set()
        self._runs[task_id] = run
        try:
            await updater.start_work()
            return await self._follow(run, after, settled, updater, context)
        except BaseException:
            self._service.cancel(run)
            raise

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Cancel the run of a task."""
        task_id = str(context.task_id)
        waiting, run = self._waiting.take(task_id), self._runs.get(task_id)
        if run is not None:
            self._service.cancel(run, context.call_context.state[_PRINCIPAL].name or SERVER)
        await TaskUpdater(event_queue, task_id, str(context.context_id)).cancel()
        if waiting is not None:
            await self._forget(task_id, context.call_context)

    async def cancel_recorded(self, task_id: str, context: ServerCallContext) -> None:
        """Cancel the run of a task that did not begin in this process."""
        if await self._is_recorded(task_id, context):
            principal: Principal = context.state[_PRINCIPAL]
            with suppress(Problem):  # it has ended
                await self._service.order(principal, await self._service.find(principal, task_id), "cancel")
            self._shown.pop(task_id, None)

    async def _is_recorded(self, task_id: str, context: ServerCallContext) -> bool:
        return task_id not in self._store.begun and await self._store.get(task_id, context) is not None

    async def note_shown(self, task_id: str, context: ServerCallContext) -> None:
        """Remember the waiting request that the client was shown, which a message settles."""
        if await self._is_recorded(task_id, context):
            principal: Principal = context.state[_PRINCIPAL]
            with suppress(Problem):  # it has no record
                run = await self._service.find(principal, task_id)
                self._note(task_id, await self._service.open_questions(run))

    def _note(self, task_id: str, waiting: Iterable[OpenQuestion]) -> None:
        self._shown.pop(task_id, None)
        if keys := frozenset(map(request_key, waiting)):
            self._shown[task_id] = keys
        if len(self._shown) > _MOST_TASKS:  # whose next message shows its requests again
            del self._shown[next(iter(self._shown))]

    async def context_of_message(self, task_id: str, context: ServerCallContext) -> str:
        """Return the context of the task that a message is for; empty for an unknown task.

        Raises:
            UnsupportedOperationError: the task is running: the message could only begin another run; or it
                waits for an approval, on which another person has to decide.
        """
        task, principal = await self._store.get(task_id, context), context.state[_PRINCIPAL]
        if task is not None and task.status.state in _AT_WORK:
            raise _not_now()
        waits = task is not None and task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        if waits and not principal.approves:  # the message would count as the answer
            try:
                for each in await self._service.open_questions(await self._service.find(principal, task_id)):
                    principal.must_settle("approval" if each.kind == "doubt" else each.kind)
            except Problem as problem:
                raise errors.UnsupportedOperationError(message=problem.detail) from None
        return "" if task is None else task.context_id

    # --- parts ----------------------------------------------------------------------------------------------

    async def _begin(self, principal: Principal, context: RequestContext) -> runs.LiveRun:
        text, parts = _task_of(context.message.parts if context.message is not None else ())
        session = _session(principal, str(context.context_id))
        asked = runs.RunRequest(text, parts=parts, session=session, run_id=RunId(str(context.task_id)))
        return await self._service.start_here(principal, self._name, asked)

    async def _continue(
        self, principal: Principal, task_id: str, updater: TaskUpdater, context: RequestContext
    ) -> bool:
        """Settle the requests of a run that no task waits for here, and follow it."""
        run = await self._service.find(principal, task_id)
        waiting = await self._service.open_questions(run)
        if not waiting:  # the message came during the run
            raise _not_now()
        answered = await self._settle(run, self._shown.pop(task_id, frozenset()), context)
        if not answered:  # its sender may mean another request: show the waiting ones
            return await self._ask(task_id, waiting, updater)
        await updater.start_work()
        try:
            async for run, asked in self._service.follow_recorded(principal, task_id, answered):
                if isinstance(run, runs.LiveRun):
                    self._runs[task_id] = run
                    return await self._follow(run, 0, answered, updater, context)
                if asked:
                    return await self._ask(task_id, asked, updater)
        except Problem as problem:
            if problem.status == 503:  # the run goes on: its record has the state of the task
                await self._store.delete(task_id, context.call_context)
            else:
                await updater.failed(updater.new_agent_message([new_text_part(problem.detail)]))
            return False
        await self._tell_end(run, updater)
        return False

    async def _ask(self, task_id: str, waiting: Sequence[OpenQuestion], updater: TaskUpdater) -> bool:
        """Show the waiting requests of a record; ``False``: no live run waits here."""
        self._note(task_id, waiting)
        await updater.requires_input(updater.new_agent_message(_questions(waiting)))
        return False

    async def _follow(
        self,
        run: runs.LiveRun,
        after: int,
        settled: set[RequestKey],
        updater: TaskUpdater,
        context: RequestContext,
    ) -> bool:
        """Report the run; return whether the task requires input now."""
        said = False
        async for kept in run.follow(after):
            if kept is None:
                continue
            after = kept.number
            match kept.event:
                case events.ModelTextStreamed(text=text) if kept.event.run_id == run.run_id and text:
                    await updater.add_artifact([new_text_part(text)], _ANSWER, append=said or None)
                    said = True
                case events.ModelTextRetracted() | events.ModelStreamRestarted():
                    said = False  # the next text replaces this one
                case events.TaskCompleted() | events.TaskFailed() | events.ExecutionPhaseSkipped():
                    pass
                case event:
                    line = describe(event)
                    if line is not None and line.kind in _SHOWN_KINDS:
                        message = updater.new_agent_message([new_text_part(line.text)])
                        await updater.start_work(message)
            for each in run.questions:
                if each.kind == "call" and (key := request_key(each)) not in settled:
                    settled.add(key)
                    await self._service.settle(self._service.anybody, run, *key, ("call", None, _NO_TOOL))
            asked = [each for each in run.questions if request_key(each) not in settled]
            if asked and after == run.last:
                shown = frozenset(map(request_key, asked))
                self._waiting.leave(str(context.task_id), run, after, (shown, context.call_context))
                await updater.requires_input(updater.new_agent_message(_questions(asked)))
                return True
        await self._tell_end(run, updater)
        return False

    async def _tell_end(self, run: runs.Run, updater: TaskUpdater) -> None:
        state, answered, reason = _end_of(run, self._service.agents[self._name])
        if answered:
            await updater.add_artifact(answered, _ANSWER, last_chunk=True)
        told = updater.new_agent_message([new_text_part(reason)]) if reason else None
        await updater.update_status(state, told)

    async def _settle(
        self, run: runs.Run, shown: frozenset[RequestKey], context: RequestContext
    ) -> set[RequestKey]:
        """Settle, by the message, the requests that its sender was shown, no later ones."""
        settled: set[RequestKey] = set()
        principal = context.call_context.state[_PRINCIPAL]
        for each in await self._service.open_questions(run):
            if (key := request_key(each)) in shown:
                try:
                    await self._service.settle(principal, run, *key, _answer(each.kind, context))
                except Problem as problem:
                    if problem.status == 503:  # its answer could not be recorded: it waits on
                        continue
                settled.add(key)  # perhaps elsewhere meanwhile
        return settled

    async def _give_up(self, task_id: str, state: _Waiting) -> None:
        """End a task whose client does not come back.

        A durable run goes on without its client; its task then has the end of the run.
        """
        context, run = state[1], self._runs.get(task_id)
        if run is not None and run.is_durable:
            ended = await self._store.get(task_id, context)
            if ended is not None:
                await self._store.save(ended, context)
        else:
            with suppress(errors.A2AError):
                await self.handler.on_cancel_task(CancelTaskRequest(id=task_id), context)
        await self._forget(task_id, context)

    async def _forget(self, task_id: str, context: ServerCallContext) -> None:
        """Discard all but the latest ended tasks."""
        self._runs.pop(task_id, None)
        self._store.begun.discard(task_id)
        self._ended.append((task_id, context))
        while len(self._ended) > 1 and (len(self._ended) > _MOST_TASKS or self._ended_bytes > _MOST_BYTES):
            await self._store.delete(*self._ended.popleft())

    @property
    def _ended_bytes(self) -> int:
        return sum(self._store.sizes.get(task_id, 0) for task_id, _ in self._ended)


def _not_now() -> errors.A2AError:
    return errors.UnsupportedOperationError(message="The task accepts a message only when it requires input.")


def _session(principal: Principal, context_id: str) -> str:
    """Return the session of a context, which has the owner of its tasks."""
    key = f"{principal.key}-" if principal.user is None and principal.key else ""
    return f"a2a-{key}{context_id}"


def _task_of(parts: Iterable[Part]) -> tuple[str, tuple[Content, ...]]:
    """Return the text of a message, and its files as content."""
    texts: list[str] = []
    content: list[Content] = []
    for each in parts:
        if each.HasField("text"):
            texts.append(each.text)
        elif each.HasField("data"):
            texts.append(json.dumps(get_data_parts([each])[0], ensure_ascii=False))
        elif each.HasField("raw"):
            made = part_of_file(each.filename or "file", each.raw)
            if made is None:
                raise errors.InvalidParamsError(message="A file of this kind is not accepted.")
            content.append(made)
        else:
            raise errors.InvalidParamsError(message="A file URL is not accepted: send the bytes of the file.")
    return "\n".join(texts), tuple(content)


def _questions(waiting: Iterable[OpenQuestion]) -> list[Part]:
    parts = []
    for each in waiting:
        asks = _ANSWER if each.kind in ("question", "call") else "approved"
        parts += [new_text_part(question_text(each)), new_data_part({"reply_with": asks})]
    return parts


def _answer(kind: str, context: RequestContext) -> runs.Answer:
    text = context.get_user_input().strip()
    message = context.message
    given = {}
    for each in get_data_parts(message.parts) if message is not None else ():
        given.update(each if isinstance(each, dict) else {})
    if kind in ("approval", "doubt"):
        approved = given.get("approved") is True or ("approved" not in given and text.lower() in _YES)
        if approved and "arguments" in given:  # which a message cannot change
            approved, text = False, "Its arguments are changed over /v1/runs, not by a message."
        return ("approval", ApprovalDecision(approved, "" if approved else shortened(text, MOST_REASON)))
    if kind == "call":
        return ("call", None, _NO_TOOL)
    reply = given.get(_ANSWER, text)
    return ("question", reply if isinstance(reply, str) and reply.strip() else "There is no answer.")


def _end_of(run: runs.Run, agent: ReactiveAgent[Any, Any]) -> tuple[TaskState, list[Part], str]:
    outcome = runs.outcome_of(run)
    if isinstance(outcome, events.TaskFailed):
        if isinstance(outcome.error, RunCancelled):
            return TaskState.TASK_STATE_CANCELED, [], ""
        return TaskState.TASK_STATE_FAILED, [], root_cause(outcome.error).message
    if outcome is None:
        return TaskState.TASK_STATE_FAILED, [], "The run was interrupted."
    answered: list[Part] = []
    if outcome.output:
        output = runs.decoded_output(agent, outcome.output)
        answered = [new_data_part(output) if runs.has_output_type(agent) else new_text_part(str(output))]
    return _STATES[outcome.status], answered, "" if outcome.status == "completed" else outcome.reason


# --- cards and routes -----------------------------------------------------------------------------------


def agent_card(name: str, agent: ReactiveAgent[Any, Any], address: str, *, needs_key: bool) -> AgentCard:
    """Return the agent card, which other agents discover."""
    about = f"Run the agent {name} on a task and get its answer."
    card = AgentCard(
        name=name,
        description=about,
        version=__version__,
        supported_interfaces=[
            AgentInterface(url=address, protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["application/json" if runs.has_output_type(agent) else "text/plain"],
        skills=[AgentSkill(id=name, name=name, description=about, tags=["task"])],
    )
    if needs_key:
        scheme = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer"))
        card.security_schemes["key"].CopyFrom(scheme)
        card.security_requirements.append(SecurityRequirement(schemes={"key": StringList()}))
    return card


class _Peer:
    def __init__(self, service: runs.AgentService, name: str) -> None:
        self._service = service
        self._name = name
        self._agent = service.agents[name]
        store = _Tasks(service, name)
        self._tasks = AgentTasks(service, name, store)
        handler = self._tasks.handler = DefaultRequestHandler(
            self._tasks, store, self._card(f"/a2a/{name}"), interrupted_task_timeout=2 * ANSWER_S
        )
        service.lifespans.append(lambda: aclosing(handler))
        self._dispatcher = JsonRpcDispatcher(handler, _Contexts())

    def _card(self, address: str) -> AgentCard:
        return agent_card(self._name, self._agent, address, needs_key=self._service.needs_key)

    async def show(self, request: Request) -> Response:
        self._service.agent(self._service.principal(request), self._name)
        card = self._card(f"{self._service.address(request)}/a2a/{self._name}")
        return JsonText(agent_card_to_dict(card))

    async def take(self, request: Request) -> Response:
        principal = self._service.principal(request)
        self._service.agent(principal, self._name)
        limits = principal.limits
        try:
            given = await read_json(request, most=limits.body_bytes, seconds=limits.body_s)
        except Problem as problem:
            if problem.code != "invalid-json":
                raise
            return JsonText(build_error_response(None, JSONParseError(message=problem.detail)))
        known = with_body(request, json_bytes(given))
        known.state.principal = principal
        try:
            asked = _request_of(given)
            if isinstance(asked, SendMessageRequest) and (task_id := asked.message.task_id):
                context_id = await self._tasks.context_of_message(task_id, _Contexts().build(known))
                if context_id and not asked.message.context_id:  # the library would make a new one
                    given["params"]["message"]["contextId"] = context_id
                    known = with_body(request, json_bytes(given))
        except errors.A2AError as error:
            return JsonText(build_error_response(_id_of(given), error))
        if isinstance(asked, GetTaskRequest):
            await self._tasks.note_shown(asked.id, _Contexts().build(known))
        if given["method"] not in _STREAMED:
            response = await self._dispatcher.handle_requests(known)
            if isinstance(asked, CancelTaskRequest):
                await self._tasks.cancel_recorded(asked.id, _Contexts().build(known))
            return response
        with self._service.uses.held(principal, "streams") as held:
            response = await self._dispatcher.handle_requests(known)
            return self._service.stream(principal, response, held, partial(_error_event, _id_of(given)))


def _error_event(request_id: str | int | None, problem: Problem) -> bytes:
    error = errors.InvalidRequestError(message=problem.detail)
    return sse(json_bytes(build_error_response(request_id, error)))


def _id_of(given: Any) -> str | int | None:
    number = given.get("id") if isinstance(given, dict) else None
    return number if isinstance(number, str | int) and not isinstance(number, bool) else None


def _request_of(given: Any) -> Any:
    """Return the request of the protocol.

    The library would refuse a wrong one too, but as a server error with a logged traceback.

    Raises:
        A2AError: it is wrong.
    """
    if not isinstance(given, dict):
        batch = "Send one request, not a batch." if isinstance(given, list) else "Send an object."
        raise errors.InvalidRequestError(message=batch)
    method, params = given.get("method"), given.get("params", {})
    if given.get("jsonrpc") != "2.0" or not isinstance(method, str) or _id_of(given) != given.get("id"):
        raise errors.InvalidRequestError("Expected jsonrpc 2.0, a method, and a number or text as id.")
    if unknown := sorted(given.keys() - {"jsonrpc", "id", "method", "params"}):
        raise errors.InvalidRequestError(f"There is no field {unknown[0][:100]!r}.")
    form = JsonRpcDispatcher.METHOD_TO_MODEL.get(method)
    if form is None:
        raise errors.MethodNotFoundError
    if not isinstance(params, dict):
        raise errors.InvalidParamsError("params: expected an object.")
    try:
        request = ParseDict(params, form(), ignore_unknown_fields=True)
        if isinstance(request, SendMessageRequest):
            _task_of(request.message.parts)
    except errors.InvalidParamsError:
        raise
    except Exception as error:  # noqa: BLE001 - of several types, by what is wrong
        raise errors.InvalidParamsError(f"params: {one_line(str(error))[:500]}") from None
    return request


def _is_no_request_error(record: logging.LogRecord) -> bool:
    """Return whether a record is not about a wrong request, which it would quote."""
    return record.levelno != logging.WARNING


def routes(service: runs.AgentService) -> list[BaseRoute]:
    """Return the routes; a single agent also has its card at the well-known path."""
    for module in ("server.routes.jsonrpc_dispatcher", "utils.version_validator"):
        logging.getLogger(f"a2a.{module}").addFilter(_is_no_request_error)
    found: list[BaseRoute] = []
    for name in service.agents:
        peer = _Peer(service, name)
        found += [
            Route(f"/a2a/{name}", peer.take, methods=["POST"]),
            Route(f"/a2a/{name}/.well-known/agent-card.json", peer.show),
        ]
        if len(service.agents) == 1:
            found.append(Route("/.well-known/agent-card.json", peer.show))
    return found
