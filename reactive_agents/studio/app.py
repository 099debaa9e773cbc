"""The application of a studio: its page, and the HTTP API of the page.

It reuses parts of ``server``: the checks of host and origin, problem details, event streams and the runs of a
process. Its only user is the person at the machine, who has the token in the URL.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from importlib import resources
from typing import Any, Final, Literal

import anyio
from attrs import define, evolve, frozen
from pydantic import Field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from reactive_agents import __version__
from reactive_agents.agent import AgentConfig, ReactiveAgent
from reactive_agents.agent.errors import AgentError
from reactive_agents.core import errors, events
from reactive_agents.core.codec import encode
from reactive_agents.core.governance import ApprovalDecision
from reactive_agents.core.json import Json, JsonObject, json_bytes
from reactive_agents.core.run_record import LoggedRun, LoggedRunFilter, RecordedRun
from reactive_agents.server import web
from reactive_agents.server.runs import AgentService, Answer, LiveRun, Run, RunRequest, shown_name
from reactive_agents.studio import diagrams, run_document
from reactive_agents.studio.logged_runs import KnownRun, RunLibrary, RunUnreadable
from reactive_agents.studio.logged_runs import run_document as run_summary
from reactive_agents.studio.records import StudioRecords

CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The page runs only its own scripts, loads nothing from elsewhere, and creates no markup from texts."""

STUDIO: Final = "the studio"
"""Who gives orders and answers, for the audit log, if no other name is given."""
_HEADERS: Final = {**web.SECURITY_HEADERS, "content-security-policy": CONTENT_POLICY}
_TYPES: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_BODY_S, _MOST_BODY, _MOST_FILE = 30.0, 2_000_000, 200_000_000
_POLL_S, _PAUSE_S, _PAUSES, _SILENCE_S = 0.25, 0.04, 75, 15.0
_LONGEST_LIVE = 40_000
_STRANGER = """\
This studio belongs to another person, or was started again.
Open the address that the command printed.
"""


@frozen
class StudioAgent:
    """An agent that the studio can run, and its configuration."""

    agent: ReactiveAgent[Any, Any]
    config: AgentConfig


class TypedTask(web.StrictBody):
    """A run that the user begins."""

    agent: str
    task: str = Field(min_length=1, max_length=1_000_000)
    session: str | None = Field(default=None, max_length=200)
    user: str | None = Field(default=None, max_length=200)


class Order(web.StrictBody):
    """An order to a run."""

    action: Literal["pause", "resume", "stop", "cancel", "continue"]


class GivenAnswer(web.StrictBody):
    """The user's answer to a request of a run."""

    kind: Literal["approval", "question", "call"]
    id: str
    approved: bool = False
    reason: str = ""
    value: Any = None


class NewFork(web.StrictBody):
    """A fork of a run."""

    step: int = Field(ge=1)
    model: str | None = None
    message: str | None = None
    tool_result: Any = None


class OpenedFile(web.StrictBody):
    """The text of a file of runs."""

    text: str


class ForgottenEntry(web.StrictBody):
    """A memory to delete."""

    agent: str
    id: str


class ForgottenLearning(web.StrictBody):
    """A learning to delete."""

    id: str


def create_studio(
    library: RunLibrary,
    agents: Sequence[StudioAgent] = (),
    *,
    token: str,
    once: str = "",
    records: StudioRecords | None = None,
    hosts: Collection[str] = web.LOOPBACK_HOSTS,
    by: str = STUDIO,
) -> Starlette:
    """Return the ASGI application of a studio; ``app.state.service`` manages its runs.

    Its lifespan closes the agents; it recovers no runs.

    Args:
        agents: the agents that the user can run, with unique names.
        token: the secret in the URL of the page, then in its cookie.
        once: a second token, valid for one request, to start a browser with, whose command line other users
            of the machine can see.
        records: the stores of the agents besides runs.
        hosts: accepted host names.
        by: who gives orders and answers, for the audit log.

    Raises:
        ValueError: the token is too short, or two agents have the same name.
    """
    if len(token) < 16:
        raise ValueError("token: expected 16 characters or more.")
    names = [each.agent.name for each in agents]
    if len(set(names)) < len(names):
        raise ValueError(f"Two agents have the same name: {', '.join(names)}.")
    service = AgentService({each.agent.name: each.agent for each in agents}, shows_unchecked=True)
    service.anybody = evolve(service.anybody, label=by)
    pages = _Pages(library, service, tuple(agents), records or StudioRecords())

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(library.aclose)
            for each in agents:
                stack.push_async_callback(each.agent.aclose)
            try:
                yield
            finally:
                await service.drain(0.0)

    app = Starlette(
        routes=pages.routes(),
        middleware=[
            Middleware(web.Border, hosts=hosts, headers=_HEADERS),
            Middleware(OwnerOnly, token=token, once=once),
        ],
        lifespan=lifespan,
        exception_handlers={
            web.Problem: web.report,
            HTTPException: web.report,
            RunUnreadable: _unreadable,
            AgentError: _unavailable,
            500: web.report,
        },
    )
    app.state.service = service
    return app


class OwnerOnly:
    """Middleware that refuses requests without the token.

    The token is in the URL of the first request, then in a cookie. A browser sends a cookie to every port of
    a machine: the page is at a path that nobody guesses, so that no other server there gets its cookie.

    Args:
        token: a secret of the process.
        once: a second token, valid for one request; empty for none.
    """

    def __init__(self, app: ASGIApp, *, token: str, once: str = "") -> None:
        self._app = app
        self._token = token
        self._once = once
        self._cookie = f"studio-{hashlib.sha256(token.encode()).hexdigest()[:8]}"
        self._page = f"/{hashlib.sha256(f'page of {token}'.encode()).hexdigest()[:32]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        given = request.query_params.get("token")
        page = scope.get("root_path", "") + self._page
        response: Response
        if given is not None and request.url.path == "/" and (self._is_right(given) or self._uses_up(given)):
            response = RedirectResponse(f"{page}/", 303)
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path=f"{page}/")
        elif self._is_right(request.cookies.get(self._cookie, "")):
            own = scope if not scope["path"].startswith(f"{page}/") else {**scope, "root_path": page}
            await self._app(own, receive, send)
            return
        elif "/api/" in request.url.path:
            response = web.Problem(
                401, "unauthorized", "Open the address that the command printed."
            ).response()
        else:
            response = PlainTextResponse(_STRANGER, 401)
        await response(scope, receive, send)

    def _uses_up(self, given: str) -> bool:
        once = self._once
        if not once or not hmac.compare_digest(given.encode(errors="replace"), once.encode()):
            return False
        self._once = ""
        return True

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="replace"), self._token.encode())


async def _unreadable(request: Request, error: Exception) -> Response:
    return web.Problem(422, "unreadable", str(error)).response()


_UNDER_WAY: Final = "It is under way: it can be forked when it has ended."
"""A fork is the same task, of which an agent has one run at a time."""
_MOST_COUNTED = 5_000
"""The maximum of runs whose costs are added up for the page of budgets."""
_UNAVAILABLE = (
    errors.ContentUnavailable,
    errors.MemoryUnavailable,
    errors.RecordFailed,
    errors.RunLogFailed,
    errors.ServiceFailed,
    errors.SessionUnavailable,
)


async def _unavailable(request: Request, error: Any) -> Response:
    if isinstance(error.error, _UNAVAILABLE):
        return web.Problem(503, "unavailable", error.error.message).response()
    return web.Problem(409, "refused", error.error.message).response()


def page_files() -> dict[str, tuple[bytes, str]]:
    """Return the files of the page by their names, with their media types."""
    found: dict[str, tuple[bytes, str]] = {}
    for file in (resources.files("reactive_agents.studio") / "page").iterdir():
        ending = "." + file.name.rpartition(".")[2]
        if ending in _TYPES:
            found[file.name] = (file.read_bytes(), _TYPES[ending])
    return found


_Handler = Callable[[Request], Awaitable[Response]]


@define(eq=False)
class _Pages:
    library: RunLibrary
    service: AgentService
    agents: tuple[StudioAgent, ...]
    records: StudioRecords

    def routes(self) -> list[Route]:
        files = page_files()

        async def index(request: Request) -> Response:
            return _file(files["index.html"])

        async def static(request: Request) -> Response:
            found = files.get(request.path_params["name"])
            if found is None:
                raise web.Problem(404, "not-found", "There is no such file.")
            return _file(found)

        reads: Mapping[str, _Handler] = {
            "/api/state": self.state,
            "/api/runs": self.runs,
            "/api/runs/{run}": self.run,
            "/api/runs/{run}/stream": self.stream,
            "/api/runs/{run}/rows/{row:int}": self.row,
            "/api/runs/{run}/export": self.export,
            "/api/runs/{run}/recording": self.recording,
            "/api/compare/{one}/{other}": self.compare,
            "/api/sessions": self.sessions,
            "/api/sessions/{agent}/{session}": self.session,
            "/api/memory": self.memory,
            "/api/budgets": self.budgets,
            "/api/audit": self.audit,
            "/api/personas/{persona}": self.persona,
        }
        writes: Mapping[str, _Handler] = {
            "/api/runs": self.start,
            "/api/runs/{run}/orders": self.order,
            "/api/runs/{run}/answers": self.answer,
            "/api/runs/{run}/fork": self.fork,
            "/api/open": self.open,
            "/api/memory/forget": self.forget,
            "/api/personas/{persona}/forget": self.forget_learning,
        }
        return [
            Route("/", index),
            Route("/static/{name}", static),
            *(web.PartsRoute(path, handler, methods=["GET"]) for path, handler in reads.items()),
            *(web.PartsRoute(path, handler, methods=["POST"]) for path, handler in writes.items()),
        ]

    # --- what there is ------------------------------------------------------------------------------------

    async def state(self, request: Request) -> Response:
        latest = await self.library.runs(LoggedRunFilter(children=True, limit=1_000, brief=True))
        return web.JsonText(
            {
                "version": __version__,
                "runs_file": self.library.place,
                "agents": [_agent_document(each) for each in self.agents],
                "names": sorted({each.agent for each in latest} | set(self.service.agents)),
                "personas": [{"id": key, "name": each.name} for key, each in self.records.personas.items()],
            }
        )

    async def runs(self, request: Request) -> Response:
        given = request.query_params
        chosen = LoggedRunFilter(
            agent=given.get("agent"),
            user=given.get("user"),
            session=given.get("session"),
            status=given.get("status"),
            tagged=given.get("tag"),
            tool=given.get("tool"),
            since=_moment(given.get("since")),
            least_cost_usd=_number(given.get("min_cost")),
            children=given.get("children") == "true",
            limit=max(1, min(2_000, int(_number(given.get("limit")) or 100))),
            text=given.get("text"),
            brief=True,
        )
        found = await self.library.runs(chosen)
        return web.JsonText({"runs": [await self._summary(each) for each in found]})

    async def _summary(self, run: LoggedRun) -> JsonObject:
        """Return the summary of a run for lists, with its current state."""
        shown: JsonObject = {**run_summary(run), "opened": self.library.is_opened(run.run_id)}
        if run.ended_at is None and not shown["opened"] and run.agent in self.service.agents:
            found = await self._found(run.run_id)
            if isinstance(found, LiveRun):
                shown["status"] = found.state if found.run_id == run.run_id else run.status
            elif found is not None:
                shown["status"] = found.state
        return shown

    async def run(self, request: Request) -> Response:
        known = await self._known(request.path_params["run"])
        return web.JsonText(await self._document(known))

    async def _document(self, known: KnownRun, after: int = 0, *, is_first: bool = True) -> JsonObject:
        """Return the document of a run, or its changes after an event.

        A first request, also after a restart, gets the possible actions; later ones when they may have
        changed.
        """
        timeline, run = known.timeline, known.run
        if is_first and not self.library.is_opened(run.run_id):
            (run,) = await self.library.current([run])
        document = timeline.document(after)
        is_settled = not is_first and known.run.ended_at is None and "waiting" not in document
        drawn: dict[str, Json] = {}
        if document.get("plan"):
            drawn["plan"] = diagrams.plan_diagram(timeline.plan or {}).document()
        if document.get("tree"):
            drawn["tree"] = diagrams.tree_diagram(timeline.tree or {}).document()
        return {
            "run": await self._summary(run),
            "document": document,
            "diagrams": drawn,
            "children": list(run_document.place_children(timeline, known.children)),
            **({} if is_settled else {"can": await self._can(known)}),
        }

    async def stream(self, request: Request) -> Response:
        """Stream the changes of a run; messages have the number of the last event."""
        known = await self._known(request.path_params["run"])
        given = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
        after = int(given) if given.isdecimal() and len(given) < 10 else 0
        return web.EventStream(self._follow(known.run.run_id, after))

    async def _follow(self, run_id: str, after: int) -> AsyncGenerator[bytes, None]:
        sent, seen, said, shown, silent_s = after, 0, "", "", 0.0
        is_first = True
        while not self.service.is_draining:
            known = await self.library.known(run_id)
            if known is None:
                return
            ended = known.run.ended_at is not None or self.library.is_opened(run_id)
            if known.timeline.last > sent or is_first or ended:
                document = await self._document(known, sent, is_first=is_first)
                sent, is_first, silent_s = known.timeline.last, False, 0.0
                yield web.sse(json_bytes(document), event="changes", number=str(sent))
            if ended:
                yield web.sse(b"{}", event="end")
                return
            live = await self._live(run_id)
            if live is None:
                await anyio.sleep(_POLL_S)
                silent_s += _POLL_S
            else:
                if not await live.changed(_POLL_S):
                    silent_s += _POLL_S
                await anyio.sleep(_PAUSE_S)  # simultaneous events are sent together
                seen, said = _said(live, run_id, seen, said)
                if said != shown:
                    shown, silent_s = said, 0.0
                    yield web.sse(json_bytes({"text": said[-_LONGEST_LIVE:]}), event="delta")
            if silent_s >= _SILENCE_S:
                silent_s = 0.0
                yield web.HEARTBEAT

    async def row(self, request: Request) -> Response:
        known = await self._known(request.path_params["run"])
        row = known.timeline.row(request.path_params["row"])
        if row is None:
            raise web.Problem(404, "row-not-found", "The run has no such step.")
        document: dict[str, Json] = {"row": row.document(), "body": known.events.body(row.end or row.id)}
        if row.kind in ("turn", "question"):
            own, before = await self.library.requests(known, row.id)
            document |= run_document.model_call_details(row, known.events, own, before)
            earlier = run_document.turn_before(known.timeline, row)
            document["turn_before"] = None if earlier is None else earlier.title
        elif row.kind == "tool":
            document |= run_document.tool_call_details(row, known.events)
        elif row.kind in ("policy", "answer", "result", "plan", "step", "strategy", "phase", "other"):
            document["body"] = known.events.body(row.id)
        if row.kind in ("turn", "question", "tool"):
            document["fork_step"] = await self._recorded_step(known, row)
        return web.JsonText(document)

    async def compare(self, request: Request) -> Response:
        one = await self._known(request.path_params["one"])
        other = await self._known(request.path_params["other"])
        compared = run_document.compare(one.timeline, other.timeline)
        both = [
            {"run": await self._summary(each.run), "rows": each.timeline.document()["rows"]}
            for each in (one, other)
        ]
        return web.JsonText({**compared, "runs": both})

    async def _known(self, run_id: str) -> KnownRun:
        known = await self.library.known(run_id)
        if known is None and await self._found(run_id) is not None:
            for _ in range(_PAUSES):  # it has begun, but its first events are not logged yet
                await anyio.sleep(_PAUSE_S)
                known = await self.library.known(run_id)
                if known is not None:
                    break
        if known is None:
            raise web.Problem(404, "run-not-found", "The run log has no such run; it may be too old.")
        return known

    # --- what can be done ---------------------------------------------------------------------------------

    async def _found(self, run_id: str) -> Run | None:
        try:
            return await self.service.find(self.service.anybody, run_id)
        except web.Problem:
            return None

    async def _live(self, run_id: str) -> LiveRun | None:
        found = await self._found(run_id)
        return found if isinstance(found, LiveRun) and not found.has_ended else None

    async def _recorder(self, run_id: str) -> ReactiveAgent[Any, Any] | None:
        for each in self.agents:
            if each.config.durability is None:
                continue
            try:
                found = await each.agent.runs.find(run_id)
            except AgentError as error:
                if not isinstance(error.error, errors.RunRefused):
                    raise
                continue
            if found.agent_id == each.agent.agent_id:
                return each.agent
        return None

    async def _recorder_of(self, run_id: str, missing: str) -> ReactiveAgent[Any, Any]:
        recorder = await self._recorder(run_id)
        if recorder is None:
            raise web.Problem(409, "not-recorded", f"The run has no record: only durable runs {missing}.")
        return recorder

    async def _can(self, known: KnownRun) -> JsonObject:
        run_id = known.run.run_id
        nothing: dict[str, Json] = dict.fromkeys(
            ("order", "stop", "resume", "answer", "fork", "recording"), False
        )
        if self.library.is_opened(run_id):
            return {**nothing, "reason": "It was opened from a file and is read-only."}
        found, recorded, reason = await self._found(run_id), False, ""
        try:
            recorded = await self._recorder(run_id) is not None
        except AgentError as error:
            reason = error.error.message
        live = isinstance(found, LiveRun) and not found.has_ended
        goes_on = live and isinstance(found, LiveRun) and found.outcome is None
        is_own = found is not None and found.run_id == run_id
        state = found.state if isinstance(found, RecordedRun) else ""
        is_held = isinstance(found, RecordedRun) and found.is_held
        if known.run.agent not in self.service.agents:
            reason = (
                f"No agent {known.run.agent!r} is loaded: its configuration is needed to steer and fork runs."
            )
        elif not recorded and not reason:
            reason = "Only durable runs have a record and can be forked."
        elif goes_on and not reason:
            reason = _UNDER_WAY
        return {
            "order": is_own and (live or (is_held and state in ("running", "paused", "waiting"))),
            "stop": is_own and live,
            "resume": is_own and not is_held and state in ("interrupted", "paused", "waiting"),
            "answer": live or state == "waiting",
            "fork": recorded and not goes_on,
            "recording": recorded,
            "reason": reason,
        }

    async def _recorded_step(self, known: KnownRun, row: run_document.Row) -> int | None:
        try:
            recorder = await self._recorder(known.run.run_id)
            steps = () if recorder is None else await recorder.runs.steps(known.run.run_id)
        except AgentError:  # the document of the run says why it cannot be forked
            return None
        return run_document.recorded_step(
            known.timeline, row, [(each.kind, each.name, each.number) for each in steps]
        )

    async def start(self, request: Request) -> Response:
        given = await web.read_body(request, TypedTask, most=_MOST_BODY, seconds=_BODY_S)
        asked = RunRequest(given.task, user=given.user, session=given.session)
        begun = await self.service.start(self.service.anybody, given.agent, asked)
        return web.JsonText({"run_id": begun.run_id}, 201)

    async def order(self, request: Request) -> Response:
        given = await web.read_body(request, Order, most=_MOST_BODY, seconds=_BODY_S)
        found = await self.service.find(self.service.anybody, request.path_params["run"])
        action = "resume" if given.action == "continue" else given.action
        await self.service.order(self.service.anybody, found, action, "A person stopped it in the studio.")
        return web.JsonText({"run_id": found.run_id})

    async def answer(self, request: Request) -> Response:
        given = await web.read_body(request, GivenAnswer, most=_MOST_BODY, seconds=_BODY_S)
        run_id = request.path_params["run"]
        found = await self.service.find(self.service.anybody, run_id)
        answers: Mapping[str, Answer] = {
            "approval": ("approval", ApprovalDecision(given.approved, given.reason)),
            "question": ("question", str(given.value or "")),
            "call": ("call", given.value, ""),
        }
        await self.service.settle(self.service.anybody, found, run_id, given.id, answers[given.kind])
        return web.JsonText({"run_id": run_id})

    async def fork(self, request: Request) -> Response:
        given = await web.read_body(request, NewFork, most=_MOST_BODY, seconds=_BODY_S)
        run_id = request.path_params["run"]
        recorder = await self._recorder_of(run_id, "can be forked")
        live = await self._live(run_id)
        if live is not None and live.outcome is None:
            raise web.Problem(409, "not-forked", _UNDER_WAY)
        result = given.tool_result if "tool_result" in given.model_fields_set else ...
        try:
            forked = await recorder.runs.fork(
                run_id, at=given.step, model=given.model, message=given.message, tool_result=result
            )
        except AgentError as error:
            raise web.Problem(409, "not-forked", error.error.message) from None
        found = await self.service.find(self.service.anybody, forked)
        await self.service.order(self.service.anybody, found, "resume")
        return web.JsonText({"run_id": forked}, 201)

    async def export(self, request: Request) -> Response:
        """Export a run as a file that another studio can open."""
        known = await self._known(request.path_params["run"])
        return Response(await self.library.export(known.run.run_id), media_type="application/x-ndjson")

    async def recording(self, request: Request) -> Response:
        """Return the recording of a run for ``testing.RecordedRunPlayer``."""
        run_id = request.path_params["run"]
        recorder = await self._recorder_of(run_id, "have a recording")
        return web.JsonText(await recorder.runs.recording(run_id))

    async def open(self, request: Request) -> Response:
        given = await web.read_body(request, OpenedFile, most=_MOST_FILE, seconds=_BODY_S * 4)
        return web.JsonText({"run_ids": await self.library.open(given.text)}, 201)

    # --- records of agents --------------------------------------------------------------------------------

    def _agent(self, name: str | None) -> StudioAgent:
        found = next((each for each in self.agents if each.agent.name == name), None)
        if found is None:
            raise web.Problem(404, "agent-not-found", "No agent of this name is loaded.")
        return found

    async def sessions(self, request: Request) -> Response:
        agent = self._agent(request.query_params.get("agent")).agent
        found = await agent.sessions.list()
        return web.JsonText({"sessions": [encode(each) for each in found]})

    async def session(self, request: Request) -> Response:
        """Return a conversation, which may still be empty."""
        agent, name = self._agent(request.path_params["agent"]).agent, request.path_params["session"]
        known = {each.session: each for each in await agent.sessions.list()}
        if name not in known:
            return web.JsonText({"name": name, "title": "", "user": None, "messages": []})
        messages = await agent.sessions.read(name)
        shown = [{"tag": type(each).__name__, **encode(each)} for each in messages]  # type: ignore[dict-item]
        found = known[name]
        own = shown_name(found.user, name)  # the name with which the user continues it
        return web.JsonText({"name": own, "title": found.title, "user": found.user, "messages": shown})

    async def memory(self, request: Request) -> Response:
        agent = self._agent(request.query_params.get("agent"))
        found = await self.records.memories(
            agent.config, agent.agent.agent_id, request.query_params.get("text", "")
        )
        return web.JsonText({"entries": found})

    async def forget(self, request: Request) -> Response:
        given = await web.read_body(request, ForgottenEntry, most=_MOST_BODY, seconds=_BODY_S)
        forgotten = await self.records.forget(self._agent(given.agent).config, given.id)
        return web.JsonText({"forgotten": forgotten})

    async def budgets(self, request: Request) -> Response:
        runs = await self.library.runs(LoggedRunFilter(limit=_MOST_COUNTED, brief=True))
        limits = [
            limit for each in self.agents for limit in await self.records.limits(each.agent.name, each.config)
        ]
        latest = _MOST_COUNTED if len(runs) == _MOST_COUNTED else None
        return web.JsonText({**self.records.spending(runs), "limits": limits, "latest_runs": latest})

    async def audit(self, request: Request) -> Response:
        return web.JsonText(await self.records.audit(self._agent(request.query_params.get("agent")).config))

    async def persona(self, request: Request) -> Response:
        return web.JsonText(await self.records.persona(request.path_params["persona"]))

    async def forget_learning(self, request: Request) -> Response:
        given = await web.read_body(request, ForgottenLearning, most=_MOST_BODY, seconds=_BODY_S)
        forgotten = await self.records.forget_learning(request.path_params["persona"], given.id)
        return web.JsonText({"forgotten": forgotten})


def _file(found: tuple[bytes, str]) -> Response:
    return Response(found[0], media_type=found[1])


def _agent_document(each: StudioAgent) -> JsonObject:
    config, container = each.config, each.agent.container
    reasoning = config.reasoning
    tools = config.tools or [tool.name for tool in container.tool_settings().tools]
    return {
        "name": each.agent.name,
        "model": config.model.model or config.model.provider or container.models.llm().model,
        "strategy": "direct" if reasoning is None else reasoning.default_strategy,
        "tools": list(tools),
        "memory": config.memory is not None,
        "audit": config.audit is not None,
        "durable": config.durability is not None,
    }


def _said(live: LiveRun, run_id: str, seen: int, said: str) -> tuple[int, str]:
    if not live.kept:
        return seen, said
    first = live.kept[0].number
    for at in range(max(seen + 1, first) - first, len(live.kept)):
        event = live.kept[at].event
        match event:
            case _ if event.run_id != run_id:
                continue
            case events.ModelTextStreamed(text=text) | events.ModelThinkingStreamed(text=text):
                said += text
            case events.ModelCallStarted() | events.ModelStreamRestarted() | events.ModelTextRetracted():
                said = ""
    return live.last, said


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise web.Problem(422, "invalid-time", "A time is written as 2026-01-31T12:00:00Z.") from None
    if found.tzinfo is None:
        raise web.Problem(422, "invalid-time", "The time needs a zone, such as Z.")
    return found


def _number(text: str | None) -> float | None:
    if not text:
        return None
    try:
        found = float(text)
    except ValueError:
        raise web.Problem(422, "invalid-number", f"{text[:40]!r} is not a number.") from None
    return found if abs(found) < 1e12 else None
