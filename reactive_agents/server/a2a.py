"""The A2A protocol: agents that other agents give tasks to.

A context of the protocol is a conversation here, and a task a run. A run that waits for an approval or an
answer is a task that requires input, and the next message of the task continues it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

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
    HTTPAuthSecurityScheme,
    Part,
    SecurityRequirement,
    SecurityScheme,
    SendMessageRequest,
    StringList,
    Task,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import InvalidParamsError, InvalidRequestError, MethodNotFoundError
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Message

from reactive_agents import __version__
from reactive_agents.adapters.telemetry.console import describe
from reactive_agents.agent import ReactiveAgent
from reactive_agents.core import events
from reactive_agents.core.content import Content, part_of_file
from reactive_agents.core.errors import RunCancelled, root_cause
from reactive_agents.core.texts import one_line
from reactive_agents.server.access import Principal
from reactive_agents.server.runs import (
    AgentService,
    Answer,
    LiveRun,
    RunRequest,
    WaitingRuns,
    decoded_output,
    has_output_type,
)
from reactive_agents.server.web import JsonText, Problem, json_bytes, read_json

_PRINCIPAL: Final = "principal"
_ANSWER: Final = "answer"
_MOST_TASKS: Final = 1_000
"""Ended tasks that are kept, of one agent."""
_STATES: Final = {
    "completed": TaskState.TASK_STATE_COMPLETED,
    "partial": TaskState.TASK_STATE_FAILED,
    "failed": TaskState.TASK_STATE_FAILED,
    "abstained": TaskState.TASK_STATE_REJECTED,
}
_YES: Final = frozenset({"yes", "approve", "approved", "ok"})
_TOLD: Final = ("phase", "plan", "tool", "handoff", "guidance")
"""Kinds of lines that are published as the status of a task at work."""


class _Caller(User):
    def __init__(self, principal: Principal) -> None:
        self.principal = principal

    @property
    def is_authenticated(self) -> bool:
        """Whether it has a key."""
        return bool(self.principal.key)

    @property
    def user_name(self) -> str:
        """Whose tasks it reaches: its user's, or those of its key."""
        user = self.principal.user
        return f"user:{user}" if user is not None else f"key:{self.principal.key}"


class _Contexts(ServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        """Return the context of a request whose sender is known."""
        principal: Principal = request.state.principal
        state = {_PRINCIPAL: principal, "headers": dict(request.headers)}
        return ServerCallContext(user=_Caller(principal), state=state)


class AgentTasks(AgentExecutor):
    """Runs the tasks that other agents give to an agent."""

    def __init__(self, service: AgentService, name: str, store: InMemoryTaskStore) -> None:
        self._service = service
        self._name = name
        self._store = store
        self._waiting: WaitingRuns[None] = WaitingRuns(service)
        self._runs: dict[str, LiveRun] = {}
        self._ended: deque[tuple[str, ServerCallContext]] = deque()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run or continue a task until it ends or requires input."""
        task_id, context_id = str(context.task_id), str(context.context_id)
        updater = TaskUpdater(event_queue, task_id, context_id)
        principal: Principal = context.call_context.state[_PRINCIPAL]
        waiting = self._waiting.take(task_id)
        if waiting is not None:
            run, after, _ = waiting
            settled = await self._settle(run, context)
            await updater.start_work()
        else:
            if context.current_task is None:
                submitted = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
                history = [context.message] if context.message is not None else []
                await event_queue.enqueue_event(
                    Task(id=task_id, context_id=context_id, status=submitted, history=history)
                )
            try:
                run = await self._begin(principal, context, context_id)
            except Problem as problem:
                await updater.reject(updater.new_agent_message([new_text_part(problem.detail)]))
                return
            after, settled = 0, set()
            await updater.start_work()
        self._runs[task_id] = run
        try:
            if await self._follow(run, after, settled, updater, task_id):
                return
        except BaseException:
            self._service.cancel(run)
            raise
        self._runs.pop(task_id, None)
        await self._forget(task_id, context.call_context)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Cancel the run of a task."""
        task_id = str(context.task_id)
        self._waiting.take(task_id)
        run = self._runs.pop(task_id, None)
        if run is not None:
            self._service.cancel(run)
        await TaskUpdater(event_queue, task_id, str(context.context_id)).cancel()

    # --- parts ----------------------------------------------------------------------------------------------

    async def _begin(self, principal: Principal, context: RequestContext, context_id: str) -> LiveRun:
        text, parts = _task_of(context.message.parts if context.message is not None else ())
        run = await self._service.start(
            principal, self._name, RunRequest(text, parts=parts, session=f"a2a-{context_id}")
        )
        if not isinstance(run, LiveRun):
            raise Problem(409, "run-queued", "The agent's runs are queued: they cannot be followed here.")
        return run

    async def _follow(
        self, run: LiveRun, after: int, settled: set[tuple[str, str]], updater: TaskUpdater, task_id: str
    ) -> bool:
        """Tell what the run does; return whether the task requires input now."""
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
                    said = False  # the next text takes the place of this one
                case events.TaskCompleted() | events.TaskFailed():
                    pass
                case event:
                    line = describe(event)
                    if line is not None and line.kind in _TOLD:
                        message = updater.new_agent_message([new_text_part(line.text)])
                        await updater.start_work(message)
            new = [each for each in run.requests.items() if each[0] not in settled]
            for key, request in new:
                if isinstance(request, events.ExternalCallRequested):
                    settled.add(key)
                    await self._service.settle(run, *key, ("call", None, "No one executes this tool here."))
            asked = [request for key, request in new if key not in settled]
            if asked and after == run.last:
                self._waiting.leave(task_id, run, after, None)
                await updater.requires_input(updater.new_agent_message(_questions(asked)))
                return True
        await self._tell_end(run, updater)
        return False

    async def _tell_end(self, run: LiveRun, updater: TaskUpdater) -> None:
        match run.outcome:
            case events.TaskCompleted(result=result):
                agent = self._service.agents[run.agent]
                if result.output:
                    await updater.add_artifact(_answer_parts(agent, result.output), _ANSWER, last_chunk=True)
                reason = "" if result.status == "completed" else result.reason
                told = updater.new_agent_message([new_text_part(reason)]) if reason else None
                await updater.update_status(_STATES[result.status], told)
            case events.TaskFailed(error=RunCancelled()):
                await updater.cancel()
            case events.TaskFailed(error=error):
                told = updater.new_agent_message([new_text_part(root_cause(error).message)])
                await updater.failed(told)
            case _:
                await updater.failed(updater.new_agent_message([new_text_part("The run was interrupted.")]))

    async def _settle(self, run: LiveRun, context: RequestContext) -> set[tuple[str, str]]:
        """Settle what the run waits for by the message; return what was settled."""
        settled: set[tuple[str, str]] = set()
        for key, request in tuple(run.requests.items()):
            settled.add(key)
            await self._service.settle(run, *key, _answer(request, context))
        return settled

    async def _forget(self, task_id: str, context: ServerCallContext) -> None:
        """Keep the latest of the ended tasks alone."""
        self._ended.append((task_id, context))
        if len(self._ended) > _MOST_TASKS:
            await self._store.delete(*self._ended.popleft())


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
                raise InvalidParamsError(message="A file of this kind is not taken.")
            content.append(made)
        else:
            raise InvalidParamsError(message="A file by its URL is not taken: send its bytes.")
    return "\n".join(texts), tuple(content)


def _questions(requests: Iterable[events.AgentEvent]) -> list[Part]:
    """Return what a person, or the other agent, is asked."""
    parts = []
    for request in requests:
        line = describe(request)
        asks = "approved" if isinstance(request, events.ApprovalRequested) else _ANSWER
        parts += [new_text_part(line.text if line is not None else ""), new_data_part({"reply_with": asks})]
    return parts


def _answer(request: events.AgentEvent, context: RequestContext) -> Answer:
    text = context.get_user_input().strip()
    message = context.message
    given = {}
    for each in get_data_parts(message.parts) if message is not None else ():
        given.update(each if isinstance(each, dict) else {})
    if isinstance(request, events.ApprovalRequested):
        approved = given.get("approved") is True or ("approved" not in given and text.lower() in _YES)
        return ("approval", approved, "" if approved else text)
    reply = given.get(_ANSWER, text)
    return ("question", reply if isinstance(reply, str) and reply.strip() else "There is no answer.")


def _answer_parts(agent: ReactiveAgent[Any, Any], output: str) -> list[Part]:
    if not has_output_type(agent):
        return [new_text_part(output)]
    return [new_data_part(decoded_output(agent, output))]


@asynccontextmanager
async def _closing(handler: DefaultRequestHandler) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await handler.aclose()


# --- cards and routes -----------------------------------------------------------------------------------


def agent_card(name: str, agent: ReactiveAgent[Any, Any], address: str, *, needs_key: bool) -> AgentCard:
    """Return the card by which other agents find an agent."""
    about = f"Give a task to the agent {name} and get its answer."
    card = AgentCard(
        name=name,
        description=about,
        version=__version__,
        supported_interfaces=[
            AgentInterface(url=address, protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["application/json" if has_output_type(agent) else "text/plain"],
        skills=[AgentSkill(id=name, name=name, description=about, tags=["task"])],
    )
    if needs_key:
        scheme = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer"))
        card.security_schemes["key"].CopyFrom(scheme)
        card.security_requirements.append(SecurityRequirement(schemes={"key": StringList()}))
    return card


class _Peer:
    """An agent as the protocol has it."""

    def __init__(self, service: AgentService, name: str) -> None:
        self._service = service
        self._name = name
        self._agent = service.agents[name]
        store = InMemoryTaskStore()
        handler = DefaultRequestHandler(
            AgentTasks(service, name, store), store, self._card(f"/a2a/{name}"), interrupted_task_timeout=600
        )
        service.lifespans.append(lambda: _closing(handler))
        self._dispatcher = JsonRpcDispatcher(handler, _Contexts())

    def _card(self, address: str) -> AgentCard:
        return agent_card(self._name, self._agent, address, needs_key=self._service.needs_key)

    async def show(self, request: Request) -> Response:
        """Answer with the agent's card."""
        self._service.agent(self._service.principal(request), self._name)
        path = request.scope.get("root_path", "").rstrip("/")
        address = f"{str(request.base_url).rstrip('/').removesuffix(path)}{path}/a2a/{self._name}"
        return JsonText(agent_card_to_dict(self._card(address)))

    async def take(self, request: Request) -> Response:
        """Answer a request of the protocol."""
        principal = self._service.principal(request)
        self._service.agent(principal, self._name)
        limits = principal.limits
        try:
            given = await read_json(request, most=limits.body_bytes, seconds=limits.body_s)
        except Problem as problem:
            if problem.code != "invalid-json":
                raise
            return JsonText(build_error_response(None, JSONParseError(message=problem.detail)))
        wrong = _wrong_request(given)
        if wrong is not None:
            return JsonText(wrong)
        bodies = [json_bytes(given)]

        async def receive() -> Message:
            return {"type": "http.request", "body": bodies.pop()} if bodies else await request.receive()

        known = Request(request.scope, receive)
        known.state.principal = principal
        return await self._dispatcher.handle_requests(known)


def _wrong_request(given: Any) -> dict[str, Any] | None:
    """Return the error that answers what is no request of the protocol.

    The library answers these too, but takes them for failures of the server and logs each with a traceback.
    """
    if not isinstance(given, dict):
        batch = "Send one request: a batch is not taken." if isinstance(given, list) else "Send an object."
        return build_error_response(None, InvalidRequestError(message=batch))
    number, method, params = given.get("id"), given.get("method"), given.get("params", {})
    known = number if isinstance(number, str | int) and not isinstance(number, bool) else None
    if given.get("jsonrpc") != "2.0" or not isinstance(method, str) or known != number:
        expected = "Expected jsonrpc 2.0, a method, and a number or text as id."
        return build_error_response(known, InvalidRequestError(message=expected))
    if unknown := sorted(given.keys() - {"jsonrpc", "id", "method", "params"}):
        strange = f"There is no field {unknown[0][:100]!r}."
        return build_error_response(known, InvalidRequestError(message=strange))
    form = JsonRpcDispatcher.METHOD_TO_MODEL.get(method)
    if form is None:
        return build_error_response(known, MethodNotFoundError())
    if not isinstance(params, dict):
        return build_error_response(known, InvalidParamsError(message="params: expected an object."))
    try:
        request = ParseDict(params, form(), ignore_unknown_fields=True)
        if isinstance(request, SendMessageRequest):
            _task_of(request.message.parts)
    except InvalidParamsError as error:
        return build_error_response(known, error)
    except Exception as error:  # noqa: BLE001 - of several types, by what is wrong
        detail = f"params: {one_line(str(error))[:500]}"
        return build_error_response(known, InvalidParamsError(message=detail))
    return None


def routes(service: AgentService) -> list[BaseRoute]:
    """Return the routes; a single agent has its card at the well-known place too."""
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
