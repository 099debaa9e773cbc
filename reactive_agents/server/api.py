"""The HTTP API of runs and sessions, with its OpenAPI document.

Each operation is one ``Operation``, from which its route and its part of the document are generated, so that
they agree.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

import anyio
from attrs import frozen
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import models_json_schema
from returns.result import Failure
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from reactive_agents import __version__
from reactive_agents.agent.errors import AgentError
from reactive_agents.core.codec import encode
from reactive_agents.core.content import Content
from reactive_agents.core.events import TaskFailed
from reactive_agents.core.governance import MOST_REASON, ApprovalDecision
from reactive_agents.core.json import json_bytes
from reactive_agents.core.message_formats import messages_from_openai, messages_to_openai
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.run_record import OpenQuestion, RunState
from reactive_agents.server import runs, web
from reactive_agents.server.access import Principal

_POLL_S = 0.5
_SILENCE_S = 15.0
_ENDED = "ended"
"""The id of the last event of a run that is found in its record alone."""

# --- what is sent and received --------------------------------------------------------------------------


def _in_a_path(name: str) -> str:
    if name in (".", ".."):
        raise ValueError("no path of a URL can name it")
    return name


Name: TypeAlias = Annotated[
    str,
    Field(pattern=r"^[^/\x00-\x1f\x7f]*[^/\s\x00-\x1f\x7f][^/\x00-\x1f\x7f]*$", max_length=200),
    AfterValidator(_in_a_path),
]
"""The name of a session or user, which fits into a path."""
Text: TypeAlias = Annotated[str, Field(pattern=r"\S")]
"""A text that is not blank."""


class NewRun(web.StrictBody):
    """A run to begin.

    ``task``: a text, or parts in the format of OpenAI's chat completions. ``history``: messages in the same
    format for the run to continue, without a session.
    """

    task: Text | Annotated[list[dict[str, Any]], Field(min_length=1)]
    agent: str | None = None
    user: Name | None = None
    session: Name | None = None
    history: list[dict[str, Any]] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    tags: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        default_factory=list, max_length=20
    )

    @model_validator(mode="after")
    def _one_conversation(self) -> NewRun:
        if self.session is not None and self.history:
            raise ValueError("session and history: give one of them")
        return self


class NoQuery(BaseModel):
    """No parameters."""

    model_config = ConfigDict(extra="forbid")


class RunsQuery(NoQuery):
    """The filter of listed runs."""

    agent: Name | None = None
    user: Name | None = None
    status: RunState | None = None
    limit: int = Field(50, ge=1, le=500)


class WaitQuery(NoQuery):
    """``wait_s``: seconds to wait for the end of the run."""

    wait_s: float = Field(0.0, ge=0.0, le=60.0, allow_inf_nan=False)


class OwnerQuery(NoQuery):
    """``user``: the owner of the sessions; by default the user of the key."""

    user: Name | None = None


class SessionsQuery(OwnerQuery):
    """``before``: only sessions last used before then, as after a page's last one."""

    before: AwareDatetime | None = None
    limit: int = Field(50, ge=1, le=500)


class StopRun(web.StrictBody):
    """``reason``: a sentence for the result."""

    reason: str = Field("", max_length=1_000)


class SettleApproval(web.StrictBody):
    """A decision on a tool call.

    ``reason``: for the audit log; shown to the model when the call is denied. ``arguments``: all with which
    an approved call is made, in place of those of the model.
    """

    kind: Literal["approval"]
    approved: bool
    reason: str = Field("", max_length=MOST_REASON)
    arguments: dict[str, Any] | None = None


class SettleQuestion(web.StrictBody):
    """An answer to a question of the model."""

    kind: Literal["question"]
    answer: Text


class SettleCall(web.StrictBody):
    """The result of an external call, or the ``error`` that it failed with."""

    kind: Literal["call"]
    result: Any = None
    error: str = Field("", max_length=10_000)


class Settlement(RootModel[Annotated[SettleApproval | SettleQuestion | SettleCall, Discriminator("kind")]]):
    """A decision, an answer or a result for a request of a run."""


class ChangeState(web.StrictBody):
    """``values``: JSON data by the keys to set. ``delete``: the keys to delete."""

    values: dict[str, Any] = Field(default_factory=dict)
    delete: list[str] = Field(default_factory=list)


class StateDocument(BaseModel):
    """The state of a session."""

    state: dict[str, Any]


class RenameSession(web.StrictBody):
    """``title``: the new title of the session."""

    title: Annotated[str, Field(min_length=1, max_length=1_000)]


def _whole(value: Any) -> Any:
    """Return ``935.0`` as the integer that it is for JSON Schema."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class ForkSession(web.StrictBody):
    """``into``: the name of the new session. ``turns``: only its first runs."""

    into: Name | None = None
    turns: Annotated[int, BeforeValidator(_whole)] | None = Field(None, ge=1)


class ServedAgent(BaseModel):
    """A served agent."""

    name: str


class RunFault(BaseModel):
    """The error of a failed run."""

    type: str
    message: str


class RunUsageDocument(BaseModel):
    """Tokens and cost of a run; ``cost_usd`` excludes ``unpriced_calls``."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    model_calls: int
    cost_usd: float
    unpriced_calls: int


class WaitingRequest(BaseModel):
    """A request that a run waits for.

    ``run_id``: the run under which the request is settled: this run or one of its sub-runs.
    """

    id: str
    run_id: str
    kind: Literal["approval", "question", "call", "doubt"]
    request: dict[str, Any]


class RunDocument(BaseModel):
    """A run. ``output``: the answer; ``reason``: why it ended, or what is missing."""

    run_id: str
    agent: str
    status: RunState
    task: str
    user: str | None
    session: str | None
    created_at: datetime | None
    output: str | None
    reason: str
    error: RunFault | None
    usage: RunUsageDocument | None
    requests: list[WaitingRequest]


class SessionDocument(BaseModel):
    """A session of an agent."""

    name: str
    user: str | None
    title: str
    turns: int
    messages: int
    created_at: datetime
    updated_at: datetime


class SessionContent(BaseModel):
    """A session with its messages, in the format of OpenAI's chat completions."""

    session: SessionDocument
    content: list[dict[str, Any]]


class AgentList(BaseModel):
    """The agents that a key may use."""

    data: list[ServedAgent]


class RunList(BaseModel):
    """Runs, latest first."""

    data: list[RunDocument]


class SessionList(BaseModel):
    """Sessions, latest first."""

    data: list[SessionDocument]


class ProblemDocument(BaseModel):
    """Problem details (RFC 9457). ``errors``: the wrong fields of a body."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[dict[str, str]] = Field(default_factory=list)


# --- operations -----------------------------------------------------------------------------------------

_Q = TypeVar("_Q", bound=BaseModel)


@frozen
class Call:
    """A request to an operation: its sender and its parsed parameters and body."""

    service: runs.AgentService
    request: Request
    principal: Principal
    query: Any
    body: Any

    def part(self, name: str) -> str:
        """Return a part of the path."""
        return str(self.request.path_params[name])


Handler: TypeAlias = Callable[[Call], Awaitable[Response]]


@frozen
class Operation:
    """One operation of the API.

    Attributes:
        answer: the schema of the response; ``None`` for no content.
        statuses: status codes of problems, besides those of every operation.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answer: type[BaseModel] | None
    status: int = 200
    query: type[BaseModel] = NoQuery
    body: type[BaseModel] | None = None
    statuses: Sequence[int] = ()
    headers: Sequence[tuple[str, str]] = ()
    media_type: str = "application/json"

    def endpoint(self, service: runs.AgentService) -> Callable[[Request], Awaitable[Response]]:
        """Return the function that Starlette calls."""

        async def answer(request: Request) -> Response:
            principal = service.principal(request)
            query = _read_query(self.query, request)
            body = None
            if self.body is not None:
                limits = principal.limits
                body = await web.read_body(request, self.body, most=limits.body_bytes, seconds=limits.body_s)
            return await self.handler(Call(service, request, principal, query, body))

        return answer


def _read_query(kind: type[_Q], request: Request) -> _Q:
    given = request.query_params.multi_items()
    names = [name for name, _ in given]
    if len(names) != len(set(names)):
        raise web.Problem(422, "invalid-query", "A parameter is given twice.")
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        raise web.problem_of(error, "invalid-query", dict(given)) from None


def routes(service: runs.AgentService) -> list[BaseRoute]:
    """Return the routes of the API."""

    async def show(request: Request) -> Response:
        document = openapi(needs_agent=len(service.agents) > 1)
        return web.JsonText({**document, "servers": [{"url": service.address(request)}]})

    whole = "{request_id:path}"  # the id of a call that is made beside others contains a "/"
    own: list[BaseRoute] = [
        web.PartsRoute(
            each.path.replace("{request_id}", whole), each.endpoint(service), methods=[each.method]
        )
        for each in OPERATIONS
    ]
    return [*own, Route("/openapi.json", show)]


async def _agents(call: Call) -> Response:
    names = call.service.names_for(call.principal)
    return web.JsonText({"data": [{"name": each} for each in names]})


async def _start(call: Call) -> Response:
    asked: NewRun = call.body
    text: Any = asked.task
    parts: tuple[Content, ...] = ()
    if not isinstance(text, str):
        message = _messages([{"role": "user", "content": text}])[0]
        assert isinstance(message, UserMessage)
        text, parts = message.content, message.parts
    key = call.request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= 200:
        raise web.Problem(422, "invalid-key", "An idempotency key has 1 to 200 characters.")
    run = await call.service.start(
        call.principal,
        asked.agent,
        runs.RunRequest(
            text,
            parts,
            asked.user,
            asked.session,
            _messages(asked.history),
            asked.metadata,
            asked.tags,
            key=key,
        ),
    )
    document = await _run_document(call.service, run)
    root = urlsplit(call.service.address(call.request)).path
    return web.JsonText(document, 201, {"location": f"{root}/v1/runs/{quote(run.run_id, safe='')}"})


def _messages(given: Sequence[dict[str, Any]]) -> tuple[Any, ...]:
    read = messages_from_openai(given)
    if isinstance(read, Failure):
        raise web.Problem(422, "invalid-body", read.failure().message)
    return read.unwrap()


async def _list(call: Call) -> Response:
    query: RunsQuery = call.query
    found = await call.service.recent(call.principal, query.agent, query.user, query.status, query.limit)
    return web.JsonText({"data": [await _run_document(call.service, each) for each in found]})


async def _get(call: Call) -> Response:
    service, query = call.service, call.query
    run = await service.find(call.principal, call.part("run_id"))
    with anyio.move_on_after(query.wait_s):
        while not run.has_ended and query.wait_s:
            if isinstance(run, runs.LiveRun):
                await run.until_ended()
            else:
                await anyio.sleep(_POLL_S)
                run = await service.find(call.principal, run.run_id)
    return web.JsonText(await _run_document(service, run))


async def _events(call: Call) -> Response:
    run = await call.service.find(call.principal, call.part("run_id"))
    after, seen = 0, call.request.headers.get("last-event-id", "")
    if isinstance(run, runs.LiveRun):
        token, _, number = seen.partition(":")
        if token == run.token and number.isdecimal() and len(number) < 10:
            after = int(number)
            if run.has_ended and after > run.last:  # the run itself, too
                return Response(status_code=204)  # stops readers that reconnect forever
    elif run.has_ended and seen == _ENDED:
        return Response(status_code=204)
    with call.service.uses.held(call.principal, "streams") as held:
        stream = web.EventStream(_stream(call, run, after))
        return call.service.stream(
            call.principal, stream, held, lambda why: web.sse(json_bytes(why.document), event="problem")
        )


async def _stream(call: Call, run: runs.Run, after: int) -> AsyncGenerator[bytes, None]:
    """Yield the events of a run as server-sent events, and finally the run."""
    service = call.service
    if isinstance(run, runs.LiveRun):
        async for kept in run.follow(after, silence_s=_SILENCE_S):
            if kept is None:
                yield web.HEARTBEAT
            else:
                yield web.sse(kept.json(), event=kept.kind, number=f"{run.token}:{kept.number}")
        last = json_bytes(await _run_document(service, run))
        yield web.sse(last, event="run", number=f"{run.token}:{run.last + 1}")
        return
    shown = b""
    with suppress(web.Problem):  # the run was deleted, or a store failed
        while True:
            data = json_bytes(await _run_document(service, run))
            number = _ENDED if run.has_ended else ""
            yield web.HEARTBEAT if data == shown else web.sse(data, event="run", number=number)
            shown = data
            if run.has_ended:
                return
            await anyio.sleep(_POLL_S)
            run = await service.find(call.principal, run.run_id)


def _order(order: str) -> Handler:
    async def give(call: Call) -> Response:
        service, principal, run_id = call.service, call.principal, call.part("run_id")
        reason = call.body.reason if isinstance(call.body, StopRun) else ""
        await service.order(principal, await service.find(principal, run_id), order, reason)
        return web.JsonText(await _run_document(service, await service.find(principal, run_id)), 202)

    return give


async def _settle(call: Call) -> Response:
    run_id = call.part("run_id")
    run = await call.service.find(call.principal, run_id)
    answer: runs.Answer = ("call", None, "")
    match call.body.root:
        case SettleApproval(approved=approved, reason=reason, arguments=arguments):
            answer = ("approval", ApprovalDecision(approved, reason, arguments))
        case SettleQuestion(answer=text):
            answer = ("question", text)
        case SettleCall(result=result, error=error):
            answer = ("call", result, error)
    await call.service.settle(call.principal, run, run_id, call.part("request_id"), answer)
    return Response(status_code=204)


async def _sessions(call: Call) -> Response:
    _, agent = call.service.agent(call.principal, call.part("agent"))
    query: SessionsQuery = call.query
    user = call.principal.acts_for(query.user)
    found = await call.service.sessions(agent, user, before=query.before, limit=query.limit)
    return web.JsonText({"data": [_session_document(name, info) for name, info in found]})


def _session_document(name: str, info: Any) -> dict[str, Any]:
    encoded: Any = encode(info)
    del encoded["session"]  # the name in the store
    return {"name": name, **encoded}


async def _session(call: Call) -> Response:
    _, agent = call.service.agent(call.principal, call.part("agent"))
    user, name = call.principal.acts_for(call.query.user), call.part("session")
    info = await call.service.session(agent, user, name)
    sessions = agent.sessions
    try:
        match call.request.method, call.body:
            case "DELETE", _:
                await sessions.delete(info.session)
                return Response(status_code=204)
            case _, RenameSession(title=title):
                await sessions.rename(info.session, title)
            case _, ForkSession(into=into, turns=turns):
                into = into or f"{name[:160]}-{secrets.token_hex(4)}"
                await sessions.fork(info.session, runs.stored_name(user, into), turns=turns)
                name = into
            case _:
                messages = await sessions.read(info.session)
                content = messages_to_openai(messages)
                return web.JsonText({"session": _session_document(name, info), "content": list(content)})
    except AgentError as error:
        raise runs.session_problem(error) from None
    changed = await call.service.session(agent, user, name)
    return web.JsonText(_session_document(name, changed), 201 if name != call.part("session") else 200)


async def _state(call: Call) -> Response:
    _, agent = call.service.agent(call.principal, call.part("agent"))
    user, name = call.principal.acts_for(call.query.user), call.part("session")
    try:
        match call.body:
            case ChangeState(values=values, delete=delete):
                stored = await call.service.session_to_use(agent, user, name)
                for known in await agent.sessions.list(session=stored):
                    if known.user != user:
                        raise web.Problem(409, "session-refused", "The session belongs to another user.")
                state = await agent.sessions.update_state(stored, values, delete=delete, user=user)
            case _:
                info = await call.service.session(agent, user, name)
                state = await agent.sessions.state(info.session)
    except AgentError as error:
        raise runs.session_problem(error) from None
    return web.JsonText({"state": state})


async def _run_document(service: runs.AgentService, run: runs.Run) -> dict[str, Any]:
    outcome = runs.outcome_of(run)
    error = result = usage = None
    if isinstance(outcome, TaskFailed):
        error = {"type": type(outcome.error).__name__, "message": outcome.error.message}
    else:
        result = outcome
    if outcome is not None:
        figures = outcome.metadata
        usage = {
            "input_tokens": figures.usage.input_tokens,
            "output_tokens": figures.usage.output_tokens,
            "total_tokens": figures.tokens_used,
            "model_calls": figures.model_calls,
            "cost_usd": figures.cost_usd,
            "unpriced_calls": figures.unpriced_calls,
        }
    return {
        "run_id": run.run_id,
        "agent": service.served_name(run),
        "status": run.state,
        "task": run.task.input,
        "user": run.task.user,
        "session": runs.session_of(run),
        "created_at": None if run.created_at is None else run.created_at.isoformat(),
        "output": None if result is None else result.output,
        "reason": "" if result is None else result.reason,
        "error": error,
        "usage": usage,
        "requests": [_document_of(each) for each in await service.open_questions(run)],
    }


_STAMP = ("run_id", "task_id", "sequence", "at", "agent", "parent_run_id")


def _document_of(asked: OpenQuestion) -> dict[str, Any]:
    shown = {name: value for name, value in asked.request.items() if name not in _STAMP}
    return {"id": runs.question_id(asked), "run_id": asked.run_id, "kind": asked.kind, "request": shown}


# --- the table of operations, and the document ----------------------------------------------------------

_RESUME = ("Last-Event-ID", "The id of the last event that was read: the stream continues after it.")
_ONCE = ("Idempotency-Key", "The name of the work: repeated requests begin it only once.")

OPERATIONS: Sequence[Operation] = (
    Operation("GET", "/v1/agents", _agents, "List the agents.", AgentList),
    Operation(
        "POST",
        "/v1/runs",
        _start,
        "Begin a run.",
        RunDocument,
        201,
        body=NewRun,
        statuses=(403, 404, 503),
        headers=(_ONCE,),
    ),
    Operation("GET", "/v1/runs", _list, "List runs.", RunList, query=RunsQuery, statuses=(403, 404, 503)),
    Operation(
        "GET",
        "/v1/runs/{run_id}",
        _get,
        "Return a run, or wait for its end.",
        RunDocument,
        query=WaitQuery,
        statuses=(404, 503),
    ),
    Operation(
        "GET",
        "/v1/runs/{run_id}/events",
        _events,
        "Stream the events of a run as server-sent events; the last is the run itself.",
        None,
        statuses=(404, 503),
        headers=(_RESUME,),
        media_type="text/event-stream",
    ),
    *(
        Operation(
            "POST",
            f"/v1/runs/{{run_id}}/{order}",
            _order(order),
            summary,
            RunDocument,
            202,
            body=body,
            statuses=(404, 409, 503),
        )
        for order, summary, body in (
            ("cancel", "Cancel a run, without a result.", None),
            ("pause", "Pause a run before its next model call or tool call.", None),
            ("resume", "Resume a paused or interrupted run.", None),
            ("stop", "Stop a run now, with its partial result.", StopRun),
        )
    ),
    Operation(
        "POST",
        "/v1/runs/{run_id}/requests/{request_id}",
        _settle,
        "Approve or deny a call, answer a question, or deliver the result of an external call.",
        None,
        204,
        body=Settlement,
        statuses=(403, 404, 409, 503),
    ),
    Operation(
        "GET",
        "/v1/agents/{agent}/sessions",
        _sessions,
        "List the sessions of a user.",
        SessionList,
        query=SessionsQuery,
        statuses=(403, 404, 503),
    ),
    *(
        Operation(
            method,
            f"/v1/agents/{{agent}}/sessions/{{session}}{end}",
            _state if end == "/state" else _session,
            summary,
            answer,
            status,
            query=OwnerQuery,
            body=body,
            statuses=(403, 404, 409, 503),
        )
        for method, end, summary, answer, status, body in (
            ("GET", "", "Return a session with its messages.", SessionContent, 200, None),
            ("GET", "/state", "Return the state of a session.", StateDocument, 200, None),
            ("PATCH", "/state", "Change keys of the state of a session.", StateDocument, 200, ChangeState),
            ("PATCH", "", "Rename a session.", SessionDocument, 200, RenameSession),
            ("DELETE", "", "Delete a session with everything in it.", None, 204, None),
            ("POST", "/fork", "Copy a session into a new one.", SessionDocument, 201, ForkSession),
        )
    ),
)


@cache
def openapi(*, needs_agent: bool = False) -> Mapping[str, Any]:
    """Return the OpenAPI document of the API, made when it is first asked for.

    Args:
        needs_agent: whether a run must name its agent, since there are several.
    """
    models: set[type[BaseModel]] = {ProblemDocument}
    for each in OPERATIONS:
        models.update(kind for kind in (each.answer, each.body) if kind is not None)
    modes: list[Any] = [(kind, "validation") for kind in sorted(models, key=lambda kind: kind.__name__)]
    _, schemas = models_json_schema(modes, ref_template="#/components/schemas/{model}")
    if needs_agent:
        schemas["$defs"]["NewRun"]["required"].append("agent")
        schemas["$defs"]["NewRun"]["properties"]["agent"] = {"type": "string"}
    paths: dict[str, Any] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method.lower()] = _described(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "reactive_agents",
            "version": __version__,
            "summary": "Runs and sessions of agents.",
        },
        "paths": paths,
        "security": [{"key": []}, {}],
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
_MEANINGS = {
    400: "The request is malformed.",
    401: "The API key is missing or wrong.",
    403: "The key may not do this.",
    404: "It does not exist for this key.",
    408: "The body arrived too slowly.",
    409: "The state of the run or session does not allow it.",
    413: "The body is too large.",
    415: "The body is not valid JSON.",
    421: "The server does not accept this host name.",
    422: "The body or a parameter is wrong.",
    429: "A limit of the key is reached.",
    503: "The server is shutting down, or a store cannot be read.",
}


def _described(operation: Operation) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", operation.path)
    ]
    queried = operation.query.model_json_schema().get("properties", {})
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in queried.items()]
    parameters += [
        {"name": name, "in": "header", "description": about, "schema": {"type": "string"}}
        for name, about in operation.headers
    ]
    content: dict[str, Any] = {}
    if operation.answer is not None:
        content = {operation.media_type: {"schema": _reference(operation.answer)}}
    elif operation.status == 200:
        content = {operation.media_type: {"schema": {"type": "string"}}}
    answered: dict[str, Any] = {"description": operation.summary}
    if content:
        answered["content"] = content
    answers: dict[str, Any] = {str(operation.status): answered}
    if operation.media_type == "text/event-stream":
        answers["204"] = {"description": "The run has ended, and all its events were read."}
    every = (400, 401, 403, 421, 422, 429) + ((408, 413, 415) if operation.body else ())
    for status in sorted({*every, *operation.statuses}):
        answers[str(status)] = {"description": _MEANINGS[status], "content": _PROBLEM}
    words = (each.strip("{}") for each in operation.path.split("/")[2:])
    described: dict[str, Any] = {
        "operationId": "_".join((operation.method.lower(), *words)),
        "summary": operation.summary,
        "parameters": parameters,
        "responses": answers,
    }
    if operation.body is not None:
        schema = {"application/json": {"schema": _reference(operation.body)}}
        described["requestBody"] = {"required": web.needs_body(operation.body), "content": schema}
    return described


def _reference(kind: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
