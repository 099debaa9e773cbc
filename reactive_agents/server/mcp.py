"""Agents as the tools of an MCP server, over standard streams or streamable HTTP.

Each agent is a tool that takes a task. A call reports the progress of the run, and cancelling it cancels the
run. Approvals and questions go to the person at the client (elicitation): during the call if the connection
can carry requests, else by a result that asks for input, after which the client repeats the call with the
person's answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import TaskGroup, TaskStatus
from attrs import define, field
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reactive_agents import __version__
from reactive_agents.adapters.telemetry.console import describe
from reactive_agents.adapters.tools.mcp.stdio import MessageStream
from reactive_agents.agent import ReactiveAgent
from reactive_agents.agent.multi_agent import agent_tool_name
from reactive_agents.core import events
from reactive_agents.core.errors import root_cause
from reactive_agents.core.governance import ApprovalDecision
from reactive_agents.core.json import Json, JsonObject, without_surrogates
from reactive_agents.core.run_record import OpenQuestion
from reactive_agents.core.texts import one_line
from reactive_agents.server import runs
from reactive_agents.server.access import Principal
from reactive_agents.server.runs import request_key
from reactive_agents.server.web import Problem, check_values, read_bytes, with_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.routing import BaseRoute

_PRINCIPAL: Final = "reactive_agents.principal"
_LEFT: Final = "reactive_agents.left"
_NO_PROGRAM: Final[runs.Answer] = (
    "call",
    None,
    "No program executes this tool for a client of this protocol.",
)
_STRUCTURED: Final = "2025-06-18"
"""The first version of the protocol with structured content."""
_LONGEST_TWICE: Final = 400_000
"""Bytes of an answer that comes as text and as structured content, both whole."""
_SHOWN: Final = 50_000
"""Characters of a longer one that come as text."""
_Context = ServerRequestContext[Any, Any]
_Arguments = Mapping[str, Any]


@define(eq=False)
class _Followed:
    """The reported progress of a run, which may take the client several calls.

    Attributes:
        seen: the number of the last event.
        asked: the requests that were sent to the client.
    """

    run: runs.LiveRun
    seen: int = 0
    shown: int = 0
    asked: set[runs.RequestKey] = field(factory=set)


class McpAgents:
    """The MCP server of the agents of a service.

    Attributes:
        server: the server of the MCP library, for any transport.
    """

    def __init__(self, service: runs.AgentService) -> None:
        self._service = service
        self._waiting: runs.WaitingRuns[_Followed] = runs.WaitingRuns(service)
        self.server: Server[Any] = Server(
            "reactive_agents", version=__version__, on_list_tools=self._list, on_call_tool=self._call
        )

    # --- which tools there are ------------------------------------------------------------------------------

    async def _list(self, context: _Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        principal = self._principal(context)
        names = self._service.names_for(principal)
        return types.ListToolsResult(tools=[_tool(name, self._service.agents[name]) for name in names])

    def _principal(self, context: _Context) -> Principal:
        """Return the sender of a request; over standard streams, the local user."""
        if context.request is None:
            return self._service.anybody
        found: Principal = context.request.scope[_PRINCIPAL]
        return found

    def _agent_of(self, principal: Principal, tool: str) -> str:
        for name in self._service.names_for(principal):
            if agent_tool_name(name) == tool:
                return name
        raise MCPError(types.INVALID_PARAMS, f"There is no tool {tool!r}.")

    # --- calls ----------------------------------------------------------------------------------------------

    async def _call(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        principal = self._principal(context)
        name, arguments = self._agent_of(principal, params.name), params.arguments or {}
        try:
            if params.request_state is not None:
                run_id, responses = params.request_state, params.input_responses or {}
                found = await self._service.find(principal, run_id)  # only the sender's own
                if self._waiting.look(run_id) is None and self._service.served_name(found) == name:
                    return await self._go_on_recorded(context, found, responses)
                followed, asked_again = await self._go_on(context, run_id, responses)
                if asked_again:
                    return self._ask_for_input(followed, asked_again)
            else:
                task, session = _text(arguments, "task"), None
                if arguments.get("session") is not None:
                    session = _text(arguments, "session")
                asked = runs.RunRequest(task, session=session)
                followed = _Followed(await self._service.start_here(principal, name, asked))
        except Problem as problem:
            return _error(problem.detail)
        return await self._follow(context, followed)

    async def _follow(
        self, context: _Context, followed: _Followed
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Report the run until it ends, or needs input that the connection cannot carry."""
        run = followed.run
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._cancel_left, context, run)
                async for kept in run.follow(followed.seen):
                    if kept is not None:
                        followed.seen = kept.number
                        await _report(context, followed, kept.event)
                    new = [each for each in run.questions if request_key(each) not in followed.asked]
                    followed.asked.update(map(request_key, new))
                    for each in new:
                        if not _can_ask(context) or each.kind == "call":
                            answer = _REFUSALS.get(each.kind, _NO_PROGRAM)
                            await self._settle(context, run, each, answer)
                        elif context.session.can_send_request:
                            group.start_soon(self._ask, context, run, each)
                    if not _can_ask(context) or context.session.can_send_request:
                        continue
                    if questions := [each for each in new if request_key(each) in run.requests]:
                        group.cancel_scope.cancel()
                        return self._ask_for_input(followed, questions)
                group.cancel_scope.cancel()
        except BaseException as error:
            is_cancelled = isinstance(error, anyio.get_cancelled_exc_class())
            if not (run.is_durable and is_cancelled and _ends_with_server(context)):
                self._service.cancel(run)
            raise
        return _result(run, self._service.agents[run.agent], context.protocol_version)

    async def _cancel_left(self, context: _Context, run: runs.LiveRun) -> None:
        """Cancel the run when the client of its call leaves.

        The library itself does so in the newer protocol alone. A call that ends with its server was not left:
        a durable run goes on when the server is started again.
        """
        if context.request is not None:
            await context.request.scope[_LEFT].wait()
            self._service.cancel(run)

    async def _ask(self, context: _Context, run: runs.LiveRun, request: OpenQuestion) -> None:
        params = _form(request)
        try:
            given = await context.session.elicit_form(
                params.message, params.requested_schema, context.request_id
            )
            answer = _answer(request, given)
        except (MCPError, NoBackChannelError):
            answer = _REFUSALS.get(request.kind, _NO_PROGRAM)
        await self._settle(context, run, request, answer)

    async def _settle(
        self, context: _Context, run: runs.Run, request: OpenQuestion, answer: runs.Answer
    ) -> None:
        try:
            await self._service.settle(self._principal(context), run, *request_key(request), answer)
        except Problem as problem:  # it was settled elsewhere, or has expired, or another person decides
            if problem.status == 503:  # the answer could not be recorded
                raise

    # --- input by a second call -----------------------------------------------------------------------------

    def _ask_for_input(
        self, followed: _Followed, requests: Sequence[OpenQuestion]
    ) -> types.InputRequiredResult:
        run = followed.run
        self._waiting.leave(run.run_id, run, followed.seen, followed)
        return _input_required(run, requests)

    async def _go_on(
        self, context: _Context, run_id: str, responses: Mapping[str, Any]
    ) -> tuple[_Followed, list[OpenQuestion]]:
        """Settle the client's answers; return the run and the requests without one."""
        waiting = self._waiting.take(run_id)
        if waiting is None:
            raise Problem(409, "no-input-needed", "The run waits for no input.")
        followed = waiting.state
        asked = [each for each in followed.run.questions if request_key(each) in followed.asked]
        return followed, await self._settle_given(context, followed.run, asked, responses, set())

    async def _settle_given(
        self,
        context: _Context,
        run: runs.Run,
        requests: Sequence[OpenQuestion],
        responses: Mapping[str, Any],
        settled: set[runs.RequestKey],
    ) -> list[OpenQuestion]:
        """Settle requests by the client's responses; return those without one."""
        unanswered = []
        for each in requests:
            response = responses.get("/".join(request_key(each)))
            if each.kind == "call":
                answer = _NO_PROGRAM
            elif isinstance(response, types.ElicitResult):
                answer = _answer(each, response)
            else:
                unanswered.append(each)
                continue
            settled.add(request_key(each))
            await self._settle(context, run, each, answer)
        return unanswered

    async def _go_on_recorded(
        self, context: _Context, run: runs.Run, responses: Mapping[str, Any]
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Settle answers to a durable run that no call waits for here, and follow it."""
        principal, settled = self._principal(context), set[runs.RequestKey]()
        if isinstance(run, runs.LiveRun) and not run.is_durable:
            raise Problem(409, "no-input-needed", "The run waits for no input.")
        run_id, name = run.run_id, self._service.served_name(run)
        async for run, asked in self._service.follow_recorded(principal, run_id, settled):
            if isinstance(run, runs.LiveRun):
                followed = _Followed(run, seen=run.last, asked=settled | run.requests.keys())
                if unanswered := await self._settle_given(context, run, asked, responses, settled):
                    return self._ask_for_input(followed, unanswered)
                return await self._follow(context, followed)
            if unanswered := await self._settle_given(context, run, asked, responses, settled):
                return _input_required(run, unanswered)
        return _result(run, self._service.agents[name], context.protocol_version)


async def _report(context: _Context, followed: _Followed, event: events.AgentEvent) -> None:
    line = None if isinstance(event, events.ExecutionPhaseSkipped) else describe(event)
    if line is not None:
        followed.shown += 1
        await context.session.report_progress(followed.shown, None, one_line(line.text))


def _ends_with_server(context: _Context) -> bool:
    """Return whether a call that is cancelled was not by its client.

    In the newer protocol, whose connections carry no requests, a client cancels a call by leaving it.
    """
    if context.request is None or context.session.can_send_request:
        return False
    return not context.request.scope[_LEFT].is_set()


def _can_ask(context: _Context) -> bool:
    capabilities = context.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


# --- texts and forms ------------------------------------------------------------------------------------


def _tool(name: str, agent: ReactiveAgent[Any, Any]) -> types.Tool:
    task = "what the agent is to do or to answer, complete in itself"
    session = "name of a conversation; calls with one name continue it"
    properties: JsonObject = {
        "task": {"type": "string", "description": task},
        "session": {"type": "string", "description": session},
    }
    return types.Tool(
        name=agent_tool_name(name),
        title=name,
        description=f"Run the agent {name} on a task and get its answer.",
        input_schema={
            "type": "object",
            "properties": properties,
            "required": ["task"],
            "additionalProperties": False,
        },
        output_schema=_output_schema(agent),
        annotations=types.ToolAnnotations(read_only_hint=False, open_world_hint=True),
    )


def _output_schema(agent: ReactiveAgent[Any, Any]) -> JsonObject:
    output: Json = {} if runs.has_output_type(agent) else {"type": ["string", "null"]}
    return {
        "type": "object",
        "properties": {
            "status": {"enum": ["completed", "partial", "abstained", "failed"]},
            "output": output,
            "reason": {"type": "string"},
            "run_id": {"type": "string"},
        },
        "required": ["status", "output", "reason", "run_id"],
    }


def _text(arguments: _Arguments, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise MCPError(types.INVALID_PARAMS, f"{name}: expected a text that is not blank.")
    unknown = arguments.keys() - {"task", "session"}
    if unknown:
        raise MCPError(types.INVALID_PARAMS, f"{min(unknown)}: unknown argument.")
    return value


def _input_required(run: runs.Run, requests: Sequence[OpenQuestion]) -> types.InputRequiredResult:
    asked: types.InputRequests = {
        "/".join(request_key(each)): types.ElicitRequest(params=_form(each)) for each in requests
    }
    return types.InputRequiredResult(input_requests=asked, request_state=run.run_id)


def _form(question: OpenQuestion) -> types.ElicitRequestFormParams:
    """Return the form for an approval of a tool, or for an answer."""
    asked: Any = question.request
    properties: JsonObject = {"approve": {"type": "boolean", "title": f"Let {asked.get('tool_name')} run"}}
    if question.kind == "question":
        answer: JsonObject = {"type": "string", "title": "Answer"}
        if options := asked.get("options"):
            answer["description"] = "such as " + ", ".join(map(one_line, options))
        properties = {"answer": answer}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(properties)}
    return types.ElicitRequestFormParams(message=runs.question_text(question), requested_schema=schema)


def _answer(request: OpenQuestion, given: types.ElicitResult) -> runs.Answer:
    content = given.content if given.action == "accept" and given.content is not None else {}
    if request.kind != "question":
        approved = content.get("approve") is True
        reason = "" if approved else "The person at the client did not approve it."
        return ("approval", ApprovalDecision(approved, reason))
    text = content.get("answer")
    if isinstance(text, str) and text.strip():
        return ("question", text)
    return ("question", "The person at the client gives no answer.")


_REFUSALS: Final[Mapping[str, runs.Answer]] = {
    "approval": ("approval", ApprovalDecision(False, "The client cannot ask a person for approval.")),
    "question": ("question", "The client cannot ask a person: no one answers."),
}
"""Answers in place of a person that the client cannot ask."""


def _result(run: runs.Run, agent: ReactiveAgent[Any, Any], version: str) -> types.CallToolResult:
    """Return the result of a call, whose structured content comes as text too.

    A long text is then cut, since clients read messages of at most a mebibyte. Clients of versions before
    that of ``_STRUCTURED`` read the text alone.
    """
    outcome = runs.outcome_of(run)
    if outcome is None:
        return _error("The run was interrupted.")
    if isinstance(outcome, events.TaskFailed):
        return _error(root_cause(outcome.error).message)
    text, is_read = outcome.output or "", version >= _STRUCTURED
    sent = json.dumps(text, ensure_ascii=False).encode(errors="replace")
    if is_read and len(sent) > _LONGEST_TWICE:
        text = (
            f"{text[:_SHOWN]}\n\n[{len(text) - _SHOWN} more characters: see output in the structured content]"
        )
    shown = text if outcome.status == "completed" else f"{outcome.status}: {outcome.reason}\n\n{text}"
    output = runs.decoded_output(agent, outcome.output)
    found = {"status": outcome.status, "output": output, "reason": outcome.reason, "run_id": run.run_id}
    return types.CallToolResult(
        content=[types.TextContent(text=shown.strip())],
        structured_content=found if is_read else None,
        is_error=outcome.status == "failed",
    )


def _error(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


# --- transports -----------------------------------------------------------------------------------------


async def serve_stdio(
    service: runs.AgentService,
    *,
    stdin: anyio.AsyncFile[str] | None = None,
    stdout: anyio.AsyncFile[str] | None = None,
) -> None:
    """Serve one client over standard input and output, until it closes them."""
    server = McpAgents(service).server
    try:
        async with stdio_server(stdin, stdout) as (read, write):
            await server.run(AnsweredStream(read, write), write, server.create_initialization_options())
    except* BrokenPipeError:  # the client closed without waiting for its answer
        pass


class AnsweredStream(MessageStream):
    """The messages of a client; unreadable ones are answered with an error.

    The MCP library only reports them as exceptions, so the client would wait forever.
    """

    def __init__(
        self, source: ReadStream[SessionMessage | Exception], answers: WriteStream[SessionMessage]
    ) -> None:
        super().__init__(source)
        self._answers = answers

    async def receive(self) -> SessionMessage | Exception:
        """Return the next readable message."""
        while True:
            message = await super().receive()
            if not isinstance(message, Exception):
                return message
            error = unreadable(message)
            if error is not None:
                await self._answers.send(SessionMessage(error))


def unreadable(error: Exception) -> types.JSONRPCError | None:
    """Return the error response for an unreadable message.

    It has the id of a request, but not of a response, which the client did not choose. ``None`` for a blank
    line.
    """
    found = types.ErrorData(
        code=types.INVALID_REQUEST, message="The message is not a request, notification or response."
    )
    given: Any = None
    for each in error.errors() if isinstance(error, ValidationError) else ():
        if each["type"] == "json_invalid":  # of the line
            found = types.ErrorData(code=types.PARSE_ERROR, message="The message is not JSON in UTF-8.")
            if not each["input"].strip():
                return None
            with suppress(ValueError, RecursionError):
                given = json.loads(each["input"])
        elif each["type"] == "missing":  # in the message
            given = each["input"]
    known = given.get("id") if isinstance(given, dict) and "method" in given else None
    with suppress(ValidationError):
        if not isinstance(known, str) or known == without_surrogates(known):
            return types.JSONRPCError(jsonrpc="2.0", id=known, error=found)
    return types.JSONRPCError(jsonrpc="2.0", id=None, error=found)


@define(eq=False)
class _Sessions:
    """The sessions of one key, which end with ``scope``, and its open requests."""

    manager: StreamableHTTPSessionManager
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    requests: int = 0


class McpEndpoint:
    """The ASGI application of the streamable HTTP transport; ``run`` is its lifespan.

    Each key has a separate session manager, so that keys cannot access or crowd out each other's sessions.

    Args:
        most_keys: when more keys have one, the sessions of the key that was idle for longest end.
    """

    def __init__(self, service: runs.AgentService, *, most_keys: int = 10_000) -> None:
        self._service = service
        self._server = McpAgents(service).server
        self._most_keys = most_keys
        self._sessions: dict[tuple[str, str | None], _Sessions] = {}  # the latest last
        self._opening = anyio.Lock()
        self._group: TaskGroup | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Accept requests within the block."""
        async with anyio.create_task_group() as self._group:
            yield
            self._group.cancel_scope.cancel()
        self._sessions.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        principal = self._service.principal(request)
        limits, uses = principal.limits, self._service.uses
        if request.method == "POST":
            body = await read_bytes(request, most=limits.body_bytes, seconds=limits.body_s)
            check_values(body)
            request = with_body(request, body)
        sessions = await self._sessions_of(principal)
        left = anyio.Event()
        scope = {**scope, _PRINCIPAL: principal, _LEFT: left}

        async def receive_next() -> Message:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                left.set()
            return message

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            sessions.requests += 1
            try:
                await sessions.manager.handle_request(scope, receive, send)
            finally:
                sessions.requests -= 1

        answered: ASGIApp = answer
        if request.method == "GET":  # a stream without a run, which would not be counted
            held = uses.held(principal, "streams")
            answered = self._service.stream(principal, answer, held, lambda _: b"")
        await answered(scope, receive_next, send)

    async def _sessions_of(self, principal: Principal) -> _Sessions:
        whose = (principal.key, principal.user)
        async with self._opening:
            found = self._sessions.pop(whose, None)
            if found is None:
                assert self._group is not None, "requests come within the lifespan"
                if len(self._sessions) >= self._most_keys:
                    idle = next((whose for whose, each in self._sessions.items() if not each.requests), None)
                    if idle is not None:
                        self._sessions.pop(idle).scope.cancel()
                most = max(1, principal.limits.streams)
                found = _Sessions(
                    StreamableHTTPSessionManager(
                        self._server, max_request_body_size=sys.maxsize, max_sessions=most
                    )
                )
                await self._group.start(_open, found)
            self._sessions[whose] = found
            return found


async def _open(sessions: _Sessions, *, task_status: TaskStatus[None]) -> None:
    with sessions.scope:
        async with sessions.manager.run():
            task_status.started()
            await anyio.sleep_forever()


def routes(service: runs.AgentService) -> list[BaseRoute]:
    """Return the routes of the protocol."""
    endpoint = McpEndpoint(service)
    service.lifespans.append(endpoint.run)
    return [Route("/mcp", endpoint)]
