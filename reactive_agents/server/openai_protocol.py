"""OpenAI's protocol, with agents instead of models.

A client names an agent as the model, sends a conversation and gets the answer of a run. The run uses the
agent's tools, policies and instructions; a request with other tools is refused.

The protocol cannot retract streamed text, but an agent with tools may retract a text before a call. Only
the text of an agent without tools is streamed as content. That of others is streamed as
``reasoning_content``, and sent as content once it is the answer. The joined content is the answer.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import anyio
from attrs import define, evolve, frozen
from pydantic import BaseModel, ConfigDict, Field
from returns.result import Failure, Result
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from reactive_agents.agent import ReactiveAgent
from reactive_agents.agent.errors import AgentError
from reactive_agents.core import errors, events
from reactive_agents.core.content import Content
from reactive_agents.core.conversation import SessionInfo, SessionKey
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import JsonObject, json_bytes
from reactive_agents.core.message_formats import messages_from_openai
from reactive_agents.core.messages import Message, SystemMessage, UserMessage
from reactive_agents.core.model_settings import ModelSettings
from reactive_agents.core.tasks import AgentResult
from reactive_agents.effects import Effect, attempt
from reactive_agents.server import runs, web
from reactive_agents.server.access import Principal

Handler = Callable[[Request], Awaitable[Response]]

_STORED = "openai_response"
"""The key of the response in the metadata of its run."""
_OF_THE_REQUEST = errors.TaskError, errors.RunRefused, errors.ContentRefused
"""Errors of a run that are faults of its request."""
_KEPT = {
    *("instructions", "previous_response_id", "conversation", "store", "max_output_tokens", "user"),
    *("temperature", "top_p", "metadata"),
}
"""The request fields that the response repeats, but for ``store``."""
MOST_IN_MEMORY = 1_000
"""The most conversations of responses that are kept in memory, the latest ones."""

# --- requests -------------------------------------------------------------------------------------------

_Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^/\x00-\x1f\x7f]+$")]
_UNSUPPORTED: Mapping[str, Sequence[Any]] = {
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "n": (1,),
    "logprobs": (False,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "verbosity": ("medium",),
    "response_format": ({"type": "text"},),
    "text": tuple(
        {**kind, **length}
        for kind in ({}, {"format": {"type": "text"}})
        for length in ({}, {"verbosity": "medium"})
    ),
    "modalities": (["text"],),
    "audio": (),
    "background": (False,),
    "prompt": (),
}
"""Unsupported fields, with the values that have no effect and are accepted."""


class ModelRequestBody(BaseModel):
    """The fields of both kinds of requests; unknown ones are ignored."""

    model_config = ConfigDict(extra="allow")

    model: str
    stream: bool = False
    user: _Name | None = None
    temperature: float | None = None
    top_p: float | None = None
    parallel_tool_calls: bool | None = None
    metadata: dict[str, Any] | None = None

    def check(self) -> None:
        """Refuse fields that agents do not support.

        Raises:
            Problem: a field would have no effect.
        """
        for name, value in (self.model_extra or {}).items():
            if name in _UNSUPPORTED and value is not None and value not in _UNSUPPORTED[name]:
                tools = " An agent has its own tools." if name in ("tools", "functions") else ""
                detail = f"{name}: agents do not take this parameter.{tools}"
                raise web.Problem(400, "unsupported_parameter", detail, param=name)


class ChatRequest(ModelRequestBody):
    """A request for a chat completion.

    ``session`` is an extension of OpenAI's protocol: a conversation that the server stores.
    """

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    stream_options: dict[str, Any] | None = None
    session: _Name | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    reasoning_effort: str | None = None


class ResponseRequest(ModelRequestBody):
    """A request for a response."""

    input: Annotated[str, Field(min_length=1)] | Annotated[list[dict[str, Any]], Field(min_length=1)]
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: _Name | dict[str, Any] | None = None
    store: bool | None = True
    max_output_tokens: int | None = None
    reasoning: dict[str, Any] | None = None


_Body = TypeVar("_Body", bound=ModelRequestBody)


def _settings(
    agent: ReactiveAgent[Any, Any], body: ModelRequestBody, most_tokens: int | None, **given: Any
) -> ModelSettings | None:
    """Return the settings of a run; a client can lower the token limit, not raise it."""
    given |= {name: getattr(body, name) for name in ("temperature", "top_p", "parallel_tool_calls")}
    chosen = {name: value for name, value in given.items() if value is not None}
    allowed: Any = agent.container.settings().model_settings.max_tokens
    if most_tokens is not None:
        chosen["max_tokens"] = min(most_tokens, allowed) if isinstance(allowed, int) else most_tokens
    try:
        return ModelSettings(**chosen) if chosen else None
    except ValueError as error:
        raise web.Problem(400, "invalid_value", str(error)) from None


# --- conversations --------------------------------------------------------------------------------------


@frozen
class Conversation:
    """A conversation of a client: the task at its end, and the messages before."""

    text: str
    parts: tuple[Content, ...] = ()
    history: tuple[Message, ...] = ()


def conversation_of(messages: Sequence[Mapping[str, Any]], instructions: str = "") -> Conversation:
    """Return the conversation in messages of OpenAI's format.

    Instructions and system messages of the client are put before the task; the agent's instructions remain.

    Raises:
        Problem: a message is wrong, or the last one is not the user's.
    """
    read = messages_from_openai(messages)
    if isinstance(read, Failure):
        raise web.Problem(400, "invalid_value", read.failure().message, param="messages")
    said = list(read.unwrap())
    texts = [instructions, *(each.content for each in said if isinstance(each, SystemMessage))]
    said = [each for each in said if not isinstance(each, SystemMessage)]
    asked: list[UserMessage] = []
    while said and isinstance(said[-1], UserMessage):
        asked.insert(0, said.pop())  # type: ignore[arg-type]
    if not asked:
        raise web.Problem(400, "invalid_value", "The last message has to be the user's.", param="messages")
    texts += [each.content for each in asked]
    parts = tuple(part for each in asked for part in each.parts)
    return Conversation("\n\n".join(filter(str.strip, texts)), parts, tuple(said))


def _messages_of_input(given: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages = []
    for place, item in enumerate(given):
        kind = item.get("type", "message")
        if kind == "reasoning":
            continue
        if kind != "message" or "role" not in item:
            detail = f"input[{place}]: got an item of type {str(kind)[:40]!r}, expected a message."
            raise web.Problem(400, "invalid_value", detail, param="input")
        content = item.get("content")
        parts = [_chat_part(each) for each in content] if isinstance(content, list) else content
        messages.append({"role": item["role"], "content": parts})
    return messages


def _chat_part(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") == "input_image" and "image_url" in part:
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
    if isinstance(part, dict) and part.get("type") == "input_file" and "file_data" in part:
        return {
            "type": "file",
            "file": {name: part[name] for name in ("file_data", "filename") if name in part},
        }
    return part


# --- the answer of a run --------------------------------------------------------------------------------


def _failure(live: runs.LiveRun) -> web.Problem | None:
    """Return the problem of a run without a result; its headers forbid a retry."""
    once = {"x-should-retry": "false"}
    match live.outcome:
        case events.TaskCompleted():
            return None
        case events.TaskFailed(error=error) if not isinstance(error, errors.RunInterrupted):
            status, code = 500, type(error).__name__
            if isinstance(error, errors.GuardrailViolationError):
                status, code = 400, "content_filter"
            elif isinstance(errors.root_cause(error), _OF_THE_REQUEST):
                status, code = 400, "invalid_value"
            return web.Problem(status, code, error.message, headers=once)
        case _:
            return web.Problem(503, "interrupted", "The run was interrupted.", headers=once)


def _result(run: runs.Run) -> AgentResult:
    outcome = runs.outcome_of(run)
    assert outcome is not None
    assert not isinstance(outcome, events.TaskFailed)
    return outcome


def _text_of(result: AgentResult) -> str:
    """Return the answer, or why there is none: most clients show nothing else."""
    return result.text or ("" if result.status == "completed" else result.reason)


def _about(run: runs.Run) -> dict[str, Any]:
    """Return the fields of a run that the protocol lacks."""
    result = _result(run)
    return {"run_id": run.run_id, "status": result.status, "reason": result.reason}


Delta: TypeAlias = tuple[Literal["content", "thinking"], str]


@define(eq=False)
class AnswerDeltas:
    """Converts events of a run into deltas; ``is_live``: its text is sent at once."""

    is_live: bool
    _open: str = ""
    _was_sent: bool = False
    _separate: bool = False

    def take(self, event: Any) -> Iterator[Delta]:
        """Yield the deltas for an event."""
        match event:
            case events.ModelTextStreamed(text=text) if self.is_live:
                yield from self._send(text)
            case events.ModelTextStreamed(text=text):
                yield "thinking", text
            case events.ModelThinkingStreamed(purpose="think", text=text):
                yield "thinking", text
            case events.ModelTextRetracted() | events.ModelStreamRestarted() if self._open:
                self._open, self._separate = "", True

    def end(self, answer: str) -> Iterator[Delta]:
        """Yield the rest of the answer."""
        if answer.startswith(self._open):
            yield from self._send(answer[len(self._open) :])
        elif answer:
            self._separate = True
            yield from self._send(answer)

    def _send(self, text: str) -> Iterator[Delta]:
        if not text:
            return
        self._open += text
        if self._separate and self._was_sent:
            yield "content", "\n\n"
        self._separate, self._was_sent = False, True
        yield "content", text


async def _deltas_of(live: runs.LiveRun, *, is_live: bool) -> AsyncGenerator[Delta | None, None]:
    """Yield the deltas of a run without its sub-runs, and ``None`` after a pause."""
    deltas = AnswerDeltas(is_live)
    async for kept in live.follow():
        if kept is None:
            yield None
        elif kept.event.run_id == live.run_id:
            for each in deltas.take(kept.event):
                yield each
    if isinstance(live.outcome, events.TaskCompleted):
        for each in deltas.end(_text_of(_result(live))):
            yield each


def _has_tools(agent: ReactiveAgent[Any, Any]) -> bool:
    given = agent.container.tool_settings()
    return bool(given.tools or given.servers)


class OpenAIProtocol:
    """The operations of the protocol on the agents of a service."""

    def __init__(self, service: runs.AgentService) -> None:
        self._service = service
        self._busy: set[tuple[str, str]] = set()
        self._in_memory: dict[tuple[str, str], None] = {}
        self._keyed: WeakValueDictionary[RunId, anyio.Lock] = WeakValueDictionary()

    async def models(self, request: Request) -> Response:
        """List the agents as models."""
        principal = self._service.principal(request)
        names = self._service.names_for(principal)
        return web.JsonText({"object": "list", "data": [_model(each) for each in names]})

    async def model(self, request: Request) -> Response:
        """Return an agent as a model."""
        principal = self._service.principal(request)
        name, _ = self._agent(principal, request.path_params["model"])
        return web.JsonText(_model(name))

    async def _read(self, request: Request, kind: type[_Body]) -> tuple[Principal, _Body]:
        principal = self._service.principal(request)
        limits = principal.limits
        body = await web.read_body(request, kind, most=limits.body_bytes, seconds=limits.body_s)
        body.check()
        return principal, body

    def _agent(self, principal: Principal, name: str) -> tuple[str, ReactiveAgent[Any, Any]]:
        try:
            return self._service.agent(principal, name)
        except web.Problem as problem:
            detail = "The model does not exist, or the key may not use it."
            raise web.Problem(problem.status, "model_not_found", detail, param="model") from None

    async def chat(self, request: Request) -> Response:
        """Answer with a chat completion."""
        principal, body = await self._read(request, ChatRequest)
        name, agent = self._agent(principal, body.model)
        given = conversation_of(body.messages)
        settings = _settings(
            agent,
            body,
            body.max_completion_tokens or body.max_tokens,
            seed=body.seed,
            stop=tuple([body.stop] if isinstance(body.stop, str) else body.stop or ()) or None,
            reasoning_effort=body.reasoning_effort,
        )
        asked = _run_request(request, given, body, body.session, settings)
        live, own = await self._begin(principal, name, asked)
        completion = Completion(f"chatcmpl-{live.run_id}", int(time.time()), name)
        if body.stream:
            options = body.stream_options or {}
            source = completion.chunks(
                live, _has_tools(agent), with_usage=options.get("include_usage") is True
            )
            return self._stream(principal, live, own, source)
        return await self._answer(request, live, own, completion.document)

    async def respond(self, request: Request) -> Response:
        """Answer with a response, whose id continues the conversation."""
        principal, body = await self._read(request, ResponseRequest)
        name, agent = self._agent(principal, body.model)
        given = conversation_of(_messages_of_input(body.input), body.instructions or "")
        effort = (body.reasoning or {}).get("effort")
        settings = _settings(agent, body, body.max_output_tokens, reasoning_effort=effort)
        user, key = principal.acts_for(body.user), request.headers.get("idempotency-key")
        run_id = runs.keyed_run_id(principal, user, name, key) if key else runs.new_run_id()
        begin = partial(self._begin_response, request, principal, name, body, given, settings, run_id)
        lock = self._keyed.setdefault(run_id, anyio.Lock())
        async with lock:  # the same request may arrive twice at once
            try:
                live, own, answer = await begin()
            except web.Problem as refused:  # perhaps since another process began it meanwhile
                if not key or refused.code != "run-refused" or not await self._stored(principal, run_id):
                    raise
                live, own, answer = await begin()
        if body.stream:
            return self._stream(principal, live, own, answer.events(live, _has_tools(agent)))
        return await self._answer(request, live, own, answer.document)

    async def _begin_response(
        self,
        request: Request,
        principal: Principal,
        name: str,
        body: ResponseRequest,
        given: Conversation,
        settings: ModelSettings | None,
        run_id: RunId,
    ) -> tuple[runs.LiveRun, bool, AgentResponse]:
        """Return the run of a response, as :meth:`_begin` does, and the response."""
        agent, user = self._service.agents[name], principal.acts_for(body.user)
        is_keyed = "idempotency-key" in request.headers
        async with self._turn(name, is_keyed=is_keyed) as turns:
            known = await self._stored(principal, run_id) if is_keyed else None
            if known is None:
                made, session = await turns.next(agent, body, user, run_id, given.history)
                answer = AgentResponse(made, int(time.time()), name, body)
            else:  # the same request once more, without what is redacted in the stored one
                answer, session = evolve(known[0], body=body), runs.session_of(known[1])
            if session is not None and given.history:
                detail = "input: got earlier answers, which the conversation already contains."
                raise web.Problem(400, "invalid_value", detail, param="input")
            asked = _run_request(request, given, body, session, settings)
            asked = evolve(asked, run_id=run_id, metadata={**asked.metadata, _STORED: answer.stored()})
            live, own = await self._begin(principal, name, asked)
            turns.keep_until_ended(live)
            await self._delete_oldest(agent, turns.held)
        return live, own, answer

    async def _delete_oldest(self, agent: ReactiveAgent[Any, Any], held: tuple[str, str] | None) -> None:
        """Delete the oldest conversations of responses if too many are in memory."""
        if held is None or runs.has_lasting_sessions(agent):
            return
        self._in_memory.pop(held, None)
        self._in_memory[held] = None
        while len(self._in_memory) > MOST_IN_MEMORY:
            oldest = next((each for each in self._in_memory if each not in self._busy), None)
            if oldest is None:
                return
            del self._in_memory[oldest]
            name, session = oldest
            with suppress(AgentError):  # its client has deleted it
                await self._service.agents[name].sessions.delete(session)

    async def retrieve(self, request: Request) -> Response:
        """Return a stored response."""
        principal = self._service.principal(request)
        if request.query_params.get("stream", "false") != "false":
            detail = "stream: a response can be streamed only when it is created."
            raise web.Problem(400, "unsupported_parameter", detail, param="stream")
        answer, run = await self._response(principal, request.path_params["response"])
        return web.JsonText(answer.document(run), headers={"x-run-id": run.run_id})

    async def delete(self, request: Request) -> Response:
        """Delete a response, and its turn unless others continue it."""
        principal = self._service.principal(request)
        answer, run = await self._response(principal, request.path_params["response"])
        if runs.outcome_of(run) is None and not (isinstance(run, runs.LiveRun) and run.has_ended):
            raise web.Problem(
                409, "response_in_progress", "The response is in progress: cancel its run first."
            )
        if isinstance(run, runs.LiveRun):
            await run.until_ended()
        async with self._turn(answer.model) as turns:
            await turns.forget(self._service.agents[answer.model], run.task.user, answer.id)
            turns.release()
        await self._service.delete(run)
        return web.JsonText({"id": str(answer.id), "object": "response", "deleted": True})

    async def _response(self, principal: Principal, name: str) -> tuple[AgentResponse, runs.Run]:
        """Return a response by its id, and its run.

        Raises:
            Problem: there is none of this id for the principal.
        """
        asked = ResponseId.read(name)
        found = None if asked is None else await self._stored(principal, asked.run_id)
        if found is None or found[0].id != asked or found[0].body.store is False:
            raise web.Problem(404, "response_not_found", "There is no such response.")
        return found

    async def _stored(self, principal: Principal, run_id: RunId) -> tuple[AgentResponse, runs.Run] | None:
        try:
            run = await self._service.find(principal, run_id)
        except web.Problem as problem:
            if problem.status == 404:
                return None
            raise
        answer = AgentResponse.of(run, self._service.served_name(run))
        return None if answer is None or run.run_id != run_id else (answer, run)

    @asynccontextmanager
    async def _turn(self, agent: str, *, is_keyed: bool = False) -> AsyncGenerator[Turns, None]:
        turns = Turns(self._service, self._busy, agent)
        try:
            yield turns
        except BaseException as error:
            turns.release()
            if isinstance(error, Exception) and not is_keyed:  # otherwise its run may have begun elsewhere
                await turns.give_back()
            raise

    # --- runs -----------------------------------------------------------------------------------------------

    async def _begin(
        self, principal: Principal, name: str, asked: runs.RunRequest
    ) -> tuple[runs.LiveRun, bool]:
        """Return the run, and whether it ends with this request.

        A request with a key may be repeated, so that its run goes on.
        """
        live = await self._service.start_here(principal, name, asked)
        return live, live.asked is asked and asked.key is None

    async def _answer(
        self, request: Request, live: runs.LiveRun, own: bool, document: Callable[[runs.LiveRun], Any]
    ) -> Response:
        """Wait for a run's end; return its document, or why there is none."""
        try:
            if not await web.until_disconnected(request.receive, live.until_ended()):
                return Response(status_code=499)
        finally:
            if own:
                self._service.cancel(live)
        problem = _failure(live)
        if problem is not None:
            return _error(problem)
        return web.JsonText(document(live), headers={"x-run-id": live.run_id})

    def _stream(
        self, principal: Principal, live: runs.LiveRun, own: bool, source: AsyncGenerator[bytes, None]
    ) -> Response:
        with ExitStack() as held:
            if own:
                held.callback(self._service.cancel, live)
            held.enter_context(self._service.uses.held(principal, "streams"))
            stream = web.EventStream(source, {"x-run-id": live.run_id})
            return self._service.stream(principal, stream, held, _error_event)


def routes(service: runs.AgentService) -> list[BaseRoute]:
    """Return the routes of the protocol."""
    protocol = OpenAIProtocol(service)
    return [
        Route("/v1/models", _in_form(protocol.models)),
        Route("/v1/models/{model}", _in_form(protocol.model)),
        Route("/v1/chat/completions", _in_form(protocol.chat), methods=["POST"]),
        Route("/v1/responses", _in_form(protocol.respond), methods=["POST"]),
        web.PartsRoute("/v1/responses/{response}", _in_form(protocol.retrieve), methods=["GET"]),
        web.PartsRoute("/v1/responses/{response}", _in_form(protocol.delete), methods=["DELETE"]),
    ]


def _run_request(
    request: Request,
    given: Conversation,
    body: ModelRequestBody,
    session: str | None,
    settings: ModelSettings | None,
) -> runs.RunRequest:
    return runs.RunRequest(
        given.text,
        given.parts,
        body.user,
        session,
        () if session is not None else given.history,
        body.metadata or {},
        settings=settings,
        key=request.headers.get("idempotency-key") or None,
    )


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "reactive_agents"}


def _in_form(handler: Handler) -> Handler:

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:  # noqa: BLE001 - unknown ones are logged
            return _error(web.as_problem(error))

    return answer


_CODES = {
    "unauthorized": "invalid_api_key",
    "too-many-requests": "rate_limit_exceeded",
    "too-many-runs": "rate_limit_exceeded",
    "too-many-streams": "rate_limit_exceeded",
}


def _error_of(problem: web.Problem) -> dict[str, Any]:
    kind = "server_error" if problem.status >= 500 else "invalid_request_error"
    if problem.status == 429:
        kind = "rate_limit_error"
    param = problem.fields.get("param")
    if param is None and problem.fields.get("errors"):
        param = problem.fields["errors"][0]["pointer"].lstrip("/").replace("/", ".") or None
    code = _CODES.get(problem.code, problem.code)
    return {"error": {"message": problem.detail, "type": kind, "param": param, "code": code}}


def _error_event(problem: web.Problem) -> bytes:
    return web.sse(json_bytes(_error_of(problem)))


def _error(problem: web.Problem) -> Response:
    status = 400 if problem.status == 422 else problem.status
    return web.JsonText(_error_of(problem), status, problem.headers)


def _usage(run: runs.Run) -> tuple[int, int, int, int, int]:
    figures = _result(run).metadata
    usage = figures.usage
    total = max(usage.input_tokens + usage.output_tokens, figures.tokens_used)
    return usage.input_tokens, usage.output_tokens, total, usage.cached_tokens, usage.reasoning_tokens


# --- chat completions as documents ----------------------------------------------------------------------


@frozen
class Completion:
    """A chat completion of a run."""

    id: str
    created: int
    model: str

    def _envelope(self, kind: str, choices: list[Any], **more: Any) -> dict[str, Any]:
        head = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return {**head, "choices": choices, **more}

    def document(self, live: runs.LiveRun) -> dict[str, Any]:
        """Return the completion of a run that has a result."""
        message = {"role": "assistant", "content": _text_of(_result(live)), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(live)}
        about = {"usage": _chat_usage(live), "reactive_agents": _about(live)}
        return self._envelope("chat.completion", [choice], **about)

    async def chunks(
        self, live: runs.LiveRun, has_tools: bool, *, with_usage: bool
    ) -> AsyncGenerator[bytes, None]:
        """Yield the completion as the chunks of a stream."""

        def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return web.sse(json_bytes(self._envelope("chat.completion.chunk", [choice], **more)))

        fields = {"content": "content", "thinking": "reasoning_content"}
        yield chunk({"role": "assistant", "content": ""})
        async for delta in _deltas_of(live, is_live=not has_tools):
            yield web.HEARTBEAT if delta is None else chunk({fields[delta[0]]: delta[1]})
        problem = _failure(live)
        if problem is not None:
            yield _error_event(problem)
            return
        yield chunk({}, _finish(live), reactive_agents=_about(live))
        if with_usage:
            yield web.sse(json_bytes(self._envelope("chat.completion.chunk", [], usage=_chat_usage(live))))
        yield web.sse(b"[DONE]")


def _finish(live: runs.LiveRun) -> str:
    return "length" if _result(live).status == "partial" else "stop"


def _chat_usage(live: runs.LiveRun) -> dict[str, Any]:
    read, written, total, cached, reasoned = _usage(live)
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoned},
    }


# --- responses as documents -----------------------------------------------------------------------------


_RESPONSE_ID = re.compile(r"resp_([0-9a-f]+)_([0-9]{1,7})_([^_]+)")


@frozen
class ResponseId:
    """The id of a response.

    Attributes:
        root: names the session of the response.
        turn: the number of its turn there; 0 if it cannot be continued by its id.
        run_id: the id of its run.
    """

    root: str
    turn: int
    run_id: RunId

    @classmethod
    def read(cls, text: str) -> ResponseId | None:
        """Return the id that is written in a text."""
        found = _RESPONSE_ID.fullmatch(text)
        return None if found is None else cls(found[1], int(found[2]), RunId(found[3]))

    def __str__(self) -> str:
        return f"{self.session}_{self.turn}_{self.run_id}"

    @property
    def session(self) -> str:
        """The name of the session for its user."""
        return f"resp_{self.root}"


class Turns:
    """Finds the session of a response, and the id that continues it.

    If the turn of an id is not the last one, or its session is in use, a fork of the session continues it, so
    that a response always follows the one it names.
    """

    def __init__(self, service: runs.AgentService, busy: set[tuple[str, str]], agent: str) -> None:
        self._service = service
        self._busy = busy
        self._agent = agent
        self.held: tuple[str, str] | None = None
        self._give_back: Callable[[], Effect[None, Any]] | None = None

    async def next(
        self,
        agent: ReactiveAgent[Any, Any],
        body: ResponseRequest,
        user: str | None,
        run_id: RunId,
        history: Sequence[Message],
    ) -> tuple[ResponseId, str | None]:
        """Return the id of the response, and its session.

        It has no session if it is not stored, or if the client sent the conversation.

        Raises:
            Problem: there is no such response for this user.
        """
        given = body.conversation
        named = given.get("id") if isinstance(given, dict) else given
        made = ResponseId(secrets.token_hex(8), 0, run_id)
        if named is not None:
            if (
                body.previous_response_id is not None
                or not isinstance(named, str)
                or not 1 <= len(named) <= 200
            ):
                detail = "conversation: expected its name, without previous_response_id."
                raise web.Problem(400, "invalid_value", detail, param="conversation")
            return made, named
        if body.previous_response_id is not None:
            made = await self._following(agent, body.previous_response_id, user, run_id)
        elif body.store is False or history:
            return made, None
        made = evolve(made, turn=made.turn + 1)
        self._hold(runs.stored_name(user, made.session))
        return made, made.session

    def _hold(self, session: str) -> None:
        self.held = (self._agent, session)
        self._busy.add(self.held)

    def _is_busy(self, info: SessionInfo) -> bool:
        """Return whether a run continues a session, perhaps one of another process."""
        return info.is_held or (self._agent, info.session) in self._busy

    async def forget(self, agent: ReactiveAgent[Any, Any], user: str | None, response: ResponseId) -> None:
        """Delete the turn of a response, unless others continue it.

        Raises:
            Problem: its session is in use.
        """
        info = await self._service.find_session(agent, user, response.session)
        if info is None or response.turn != info.turns:  # or it is a session that the client named
            return
        if self._is_busy(info):
            raise web.Problem(409, "response_in_progress", "Another response is continuing it.")
        self._hold(info.session)
        sessions, spare = agent.sessions, runs.stored_name(user, f"resp_{secrets.token_hex(8)}")
        try:
            if info.turns > 1:
                await sessions.fork(info.session, spare, turns=info.turns - 1)
            await sessions.delete(info.session)
            if info.turns > 1:
                await sessions.fork(spare, info.session)
                await sessions.delete(spare)
        except AgentError as error:
            raise runs.session_problem(error) from None

    async def _following(
        self, agent: ReactiveAgent[Any, Any], previous: str, user: str | None, run_id: RunId
    ) -> ResponseId:
        """Return the id of the turn that is continued, in its session or a fork."""
        missing = web.Problem(
            404, "previous_response_not_found", "There is no such response.", param="previous_response_id"
        )
        found = ResponseId.read(previous)
        if found is not None and found.turn == 0:
            missing.detail = "The server does not store the conversation of the response: send its messages."
            raise missing
        info = None if found is None else await self._service.find_session(agent, user, found.session)
        if found is None or info is None or found.turn > info.turns:
            raise missing
        found = evolve(found, run_id=run_id)
        is_last = found.turn == info.turns and not self._is_busy(info)
        if is_last and await self._reserved(agent, info, run_id):
            return found
        fork = evolve(found, root=secrets.token_hex(8))
        try:
            await agent.sessions.fork(info.session, runs.stored_name(user, fork.session), turns=fork.turn)
        except AgentError as error:
            refused = runs.session_problem(error)
            raise missing if refused.status == 409 else refused from None
        return fork

    async def _reserved(self, agent: ReactiveAgent[Any, Any], info: SessionInfo, run_id: RunId) -> bool:
        """Return whether a run has the next turn, before all other processes."""
        store = agent.container.memory.sessions().value_or(None)
        reserve = getattr(store, "reserve", None)  # a custom store need not have it
        if reserve is None or not runs.has_lasting_sessions(agent):
            return True
        key = SessionKey(agent.agent_id, info.session, info.user)
        reserved: Result[bool, Any] = await attempt(reserve(key, run_id, info.turns))
        if isinstance(reserved, Failure):
            raise runs.session_problem(AgentError(reserved.failure()))
        if store is not None and reserved.unwrap():
            self._give_back = partial(store.end, key, run_id, None)
        return reserved.unwrap()

    async def give_back(self) -> None:
        """Let others have the reserved turn of a run that is not begun.

        If that fails, they have it when the reservation ends.
        """
        if self._give_back is not None:
            await attempt(self._give_back())

    def keep_until_ended(self, live: runs.LiveRun) -> None:
        """Hold the session until the run has ended."""
        self._give_back = None
        live.on_end.append(self.release)
        if live.has_ended:  # before the client learns its id
            self.release()

    def release(self) -> None:
        """Let others use the session."""
        if self.held is not None:
            self._busy.discard(self.held)


@frozen
class AgentResponse:
    """A response of a run."""

    id: ResponseId
    created: int
    model: str
    body: ResponseRequest

    @classmethod
    def of(cls, run: runs.Run, model: str) -> AgentResponse | None:
        """Return the response of a run; ``None`` if it has none."""
        match run.task.metadata.get(_STORED):
            case {"id": str(known), "created_at": int(created), "request": dict(given)}:
                try:
                    request = ResponseRequest.model_validate({**given, "model": model, "input": "-"})
                except (TypeError, ValueError):  # a client of another protocol wrote it
                    return None
                response = ResponseId.read(known)
                return None if response is None else cls(response, created, model, request)
        return None

    def stored(self) -> JsonObject:
        """Return the stored fields of the response."""
        request = self.body.model_dump(mode="json", include=_KEPT, exclude_none=True)
        return {"id": str(self.id), "created_at": self.created, "request": request}

    def document(self, run: runs.Run | None) -> dict[str, Any]:
        """Return the response, in progress until its run has ended."""
        body, outcome = self.body, None if run is None else runs.outcome_of(run)
        status, output, usage, incomplete, error, about = "in_progress", [], None, None, None, None
        if run is not None and isinstance(outcome, events.TaskFailed):
            status = outcome.status
            error = {"code": "server_error", "message": outcome.error.message} if status == "failed" else None
        elif isinstance(run, runs.LiveRun) and run.has_ended and outcome is None:
            status, error = "failed", {"code": "server_error", "message": "The run was interrupted."}
        elif run is not None and outcome is not None:
            status = "incomplete" if _result(run).status == "partial" else "completed"
            incomplete = {"reason": "max_output_tokens"} if status == "incomplete" else None
            output = [self._message(_text_of(_result(run)), status)]
            usage, about = _response_usage(run), _about(run)
        named = body.conversation
        return {
            "id": str(self.id),
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": error,
            "incomplete_details": incomplete,
            "model": self.model,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            **body.model_dump(include=_KEPT - {"store"}),
            "conversation": {"id": named} if isinstance(named, str) else named,
            "text": {"format": {"type": "text"}},
            "usage": usage,
            "metadata": body.metadata or {},
            "reactive_agents": about,
        }

    def _message(self, text: str, status: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
        return {
            "type": "message",
            "id": f"msg_{self.id}",
            "role": "assistant",
            "status": status,
            "content": content,
        }

    async def events(self, live: runs.LiveRun, has_tools: bool) -> AsyncGenerator[bytes, None]:
        """Yield the response as the events of a stream."""
        number = 0
        place = {"item_id": f"msg_{self.id}", "output_index": 0, "content_index": 0}

        def event(kind: str, **fields: Any) -> bytes:
            nonlocal number
            number += 1
            data = {"type": kind, "sequence_number": number - 1, **fields}
            return web.sse(json_bytes(data), event=kind)

        yield event("response.created", response=self.document(None))
        yield event("response.in_progress", response=self.document(None))
        empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        item = {**self._message("", "in_progress"), "content": []}
        yield event("response.output_item.added", output_index=0, item=item)
        yield event("response.content_part.added", **place, part=empty)
        sent = ""
        async for made in _deltas_of(live, is_live=not has_tools):
            if made is None:
                yield web.HEARTBEAT
            elif made[0] == "content":
                sent += made[1]
                yield event("response.output_text.delta", **place, delta=made[1], logprobs=[])
        problem = _failure(live)
        if problem is not None:
            failed = {"status": "failed", "error": {"code": "server_error", "message": problem.detail}}
            yield event("response.failed", response={**self.document(live), **failed})
            return
        document = self.document(live)
        yield event("response.output_text.done", **place, text=sent, logprobs=[])
        yield event("response.content_part.done", **place, part={**empty, "text": sent})
        yield event("response.output_item.done", output_index=0, item=document["output"][0])
        yield event(f"response.{document['status']}", response=document)


def _response_usage(run: runs.Run) -> dict[str, Any]:
    read, written, total, cached, reasoned = _usage(run)
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": reasoned},
        "total_tokens": total,
    }
