"""The application of a server: protocols, health and metrics.

``PROTOCOLS`` names the protocols. Each is a module with ``routes(service)``, which returns Starlette routes;
it is imported when an application uses it.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, cast

import anyio
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reactive_agents.adapters.system import joined_to_trace
from reactive_agents.agent import ReactiveAgent
from reactive_agents.server.access import ApiKeys, Authenticate, KeyLimits
from reactive_agents.server.runs import AgentService, DepsFactory, has_lasting_sessions, is_durable
from reactive_agents.server.web import LOOPBACK_HOSTS, Border, JsonText, Problem, healthy, report

PROTOCOLS: Mapping[str, str] = {
    "api": "reactive_agents.server.api",
    "a2a": "reactive_agents.server.a2a",
    "ag-ui": "reactive_agents.server.ag_ui",
    "mcp": "reactive_agents.server.mcp",
    "openai": "reactive_agents.server.openai_protocol",
}
"""The module of each protocol."""

Agents = ReactiveAgent[Any, Any] | Iterable[ReactiveAgent[Any, Any]] | Mapping[str, ReactiveAgent[Any, Any]]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DRAIN_S = 30.0
_CHECK_EVERY_S = 1.0


def create_app(
    agents: Agents,
    *,
    keys: ApiKeys | str | None = None,
    authenticate: Authenticate | None = None,
    limits: KeyLimits | None = None,
    hosts: Collection[str] | None = None,
    origins: Sequence[str] = (),
    deps: DepsFactory | None = None,
    queue: str | None = None,
    work: bool = True,
    url: str = "",
    drain_s: float = _DRAIN_S,
    protocols: Collection[str] = tuple(PROTOCOLS),
) -> Starlette:
    """Return the ASGI application that serves agents.

    ``app.state.service`` is the ``AgentService`` of their runs.

    Its lifespan opens and closes the agents. An application that mounts it passes its own lifespan on:
    ``Starlette(routes=[Mount("/agents", app)], lifespan=lambda _: app.router.lifespan_context(app))``.

    Args:
        agents: one, several, or a mapping from the names in the API.
        keys: the API keys, or the path of their file.
        authenticate: returns the sender of a request, instead of keys.
        limits: limits of each sender, if there are no keys.
        hosts: accepted host names. By default any with ``keys`` or ``authenticate``, else only those of this
            machine, so that no web page can reach the agents under another name.
        origins: web pages of other origins that may send requests (CORS); none by default.
        deps: makes the dependencies of each run, or a context manager that is entered for the run, in place
            of ``with_deps`` of the builder. It gets the sender, whose ``user`` is that of the run; runs of
            the queue have a sender without a key.
        queue: the queue for runs of durable agents, shared by the workers of all processes.
        work: whether this process works on that queue.
        url: the public URL of the application behind a proxy, such as ``https://agents.example/shop``, for
            agent cards and the OpenAPI document.
        drain_s: seconds for runs in progress to end when the application is closed.
        protocols: names in ``PROTOCOLS``.

    Raises:
        ValueError: an agent cannot be served, or an option or a key in the file of keys is wrong.
    """
    served = named_agents(agents)
    if keys is not None and authenticate is not None:
        raise ValueError("keys and authenticate: give one of them.")
    if iscoroutinefunction(authenticate):
        raise ValueError("authenticate: got an async function, expected a plain one.")
    if keys is not None and not isinstance(keys, ApiKeys):
        keys = ApiKeys(keys)
    if keys is not None:
        with suppress(OSError):  # the file may be made later
            keys.list()
    names: set[str] = set()
    for name, agent in served.items():
        if is_durable(agent) or has_lasting_sessions(agent):
            if agent.name in names:  # the key of one would reach what is stored of the other
                detail = "what is stored of them cannot be told apart: rename one by with_name."
                raise ValueError(f"Two agents have the name {agent.name!r}: {detail}")
            names.add(agent.name)
        if not agent.has_deps and deps is None:
            raise ValueError(
                f"{name!r} takes dependencies: deps has to make them, or with_deps of its builder."
            )
        if queue is not None and not is_durable(agent):
            raise ValueError(f"{name!r} is not durable: its runs cannot be queued.")
    unknown = [each for each in protocols if each not in PROTOCOLS]
    if unknown:
        raise ValueError(f"There is no protocol {unknown[0]!r}: expected some of {', '.join(PROTOCOLS)}.")
    if url and not re.fullmatch(r"https?://[^/?#\s]+(/[^?#\s]*)?", url):
        raise ValueError(f"url: got {url!r}, expected an address such as https://agents.example.")
    who = keys or authenticate
    service = AgentService(served, authenticate=who, limits=limits, deps=deps, queue=queue, url=url)
    metrics = ServerMetrics(service)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        takes_over: list[ReactiveAgent[Any, Any]] = []
        async with AsyncExitStack() as stack:
            for agent in served.values():
                await stack.enter_async_context(agent)
                durability = agent.container.settings().durability
                if queue is not None and work:
                    made_here = agent.deps_type is not None and deps is not None
                    agent.runs.ensure_worker(queue, service.deps_of_queued if made_here else None)
                elif durability is not None and durability.recover and agent.has_deps:
                    agent.runs.ensure_worker("")
                    takes_over.append(agent)
            for opened in service.lifespans:
                await stack.enter_async_context(opened())
            service.is_draining = False
            try:
                yield
            finally:
                service.refuse_new_runs()  # before workers give up theirs, which some wait for
                for agent in takes_over:  # it would continue what is interrupted now
                    await agent.runs.stop_workers()
                await service.drain(drain_s)

    routes: list[BaseRoute] = [
        Route("/healthz", healthy),
        Route("/readyz", _readiness(service, keys)),
        Route("/metrics", metrics.show),
    ]
    for name in protocols:
        routes += import_module(PROTOCOLS[name]).routes(service)
    allowed = hosts if hosts is not None else ("*",) if who is not None else LOOPBACK_HOSTS
    middleware = [
        Middleware(Border, hosts=allowed, origins=origins),
        Middleware(MeteredRequests, metrics=metrics),
    ]
    if origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["*"],  # clients of OpenAI and MCP send custom headers
            expose_headers=["x-run-id", "retry-after", "location", "mcp-session-id"],
        )
        middleware.insert(1, cors)
    app = Starlette(
        routes=routes,
        middleware=middleware,
        lifespan=lifespan,
        exception_handlers={HTTPException: report, Problem: report},
    )
    app.router.redirect_slashes = False
    app.state.service = service
    return app


def named_agents(agents: Agents) -> dict[str, ReactiveAgent[Any, Any]]:
    """Return agents by their names in the API.

    Raises:
        ValueError: a name cannot be served, two agents have the same name, or there is no agent.
    """
    served: dict[str, ReactiveAgent[Any, Any]]
    if isinstance(agents, Mapping):
        served = dict(cast(Mapping[str, ReactiveAgent[Any, Any]], agents))
    else:
        listed = (agents,) if isinstance(agents, ReactiveAgent) else tuple(agents)
        served = {each.name: each for each in listed}
        if len(served) < len(listed):
            names = [each.name for each in listed]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"Two agents have the name {twice!r}: rename one, or give a mapping of names.")
    for name in served:
        if not _NAME.fullmatch(name):
            expected = "letters, digits, '.', '_' and '-', at most 64"
            raise ValueError(f"An agent cannot be served as {name!r}: expected {expected}.")
    if not served:
        raise ValueError("There is no agent to serve.")
    return served


def _readiness(service: AgentService, keys: ApiKeys | None) -> Any:
    turn = anyio.Lock()  # the stores are checked at most once a second
    checked_at, found = -_CHECK_EVERY_S, None

    async def check() -> Problem | None:
        nonlocal checked_at, found
        async with turn:
            if time.monotonic() - checked_at >= _CHECK_EVERY_S:
                try:
                    await service.check_stores()
                    found = None
                except Problem as problem:
                    found = problem
                checked_at = time.monotonic()
            return found

    async def ready(request: Request) -> Response:
        if service.is_draining:
            raise Problem(503, "draining", "The server is being stopped.")
        if keys is not None and not keys.is_readable:
            raise Problem(503, "keys-unreadable", "The file of API keys cannot be read.")
        problem = await check()
        if problem is not None:
            raise problem
        return JsonText({"status": "ready"})

    return ready


class ServerMetrics(Collector):
    """Metrics in the Prometheus format, without names of users."""

    def __init__(self, service: AgentService) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._requests = Counter(
            "reactive_agents_http_requests", "Requests.", ("route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "reactive_agents_http_request_seconds",
            "Seconds until the first byte of the answer.",
            ("route",),
            registry=self._registry,
        )

    def collect(self) -> Iterable[Metric]:
        """Return the numbers of runs and streams."""
        service = self._service
        yield GaugeMetricFamily(
            "reactive_agents_runs_under_way", "Runs in progress here.", value=service.runs_under_way
        )
        yield GaugeMetricFamily(
            "reactive_agents_streams_open", "Open event streams.", value=service.uses.open_streams
        )
        yield CounterMetricFamily("reactive_agents_runs_started", "Runs begun here.", value=service.started)
        ended = CounterMetricFamily("reactive_agents_runs_ended", "Runs that ended here.", labels=["status"])
        for status, number in service.ended.items():
            ended.add_metric([status], number)
        yield ended

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    async def show(self, request: Request) -> Response:
        """Return the metrics, to a key without a user."""
        if self._service.principal(request).user is not None:
            raise Problem(403, "not-for-users", "The key of a user may not read metrics.")
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)


class MeteredRequests:
    """Middleware that counts requests by route, and joins them to a caller's trace."""

    def __init__(self, app: ASGIApp, *, metrics: ServerMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("route")
                path = getattr(route, "path", "none")  # never the path itself, which a stranger may choose
                self._metrics.count(path, message["status"], time.perf_counter() - begun)
            await send(message)

        with joined_to_trace(Headers(scope=scope).get("traceparent", "")):
            await self._app(scope, receive, send_counted)
