"""The runs of a server: starting, buffering, streaming and settling them.

A run belongs to the server, not to the connection that began it: a separate task consumes its events and
buffers the latest under their numbers, so that a reader that was cut off can resume. A durable run is also
found in its record: after a restart, and from every process.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, aclosing, suppress
from datetime import UTC, datetime
from functools import partial
from inspect import isawaitable
from math import inf
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote

import anyio
import anyio.to_thread
from attrs import define, evolve, field, frozen
from returns.result import Failure, Result, Success
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from reactive_agents.adapters.system import checked_redactor
from reactive_agents.adapters.tools.decorator import Tool
from reactive_agents.agent import ReactiveAgent
from reactive_agents.agent.errors import AgentError, value_or_raise
from reactive_agents.agent.queue_worker import queued_run
from reactive_agents.core import errors, events
from reactive_agents.core.conversation import SessionInfo, wrong_name
from reactive_agents.core.governance import ApprovalDecision, GuardrailStage, described_request
from reactive_agents.core.ids import ApprovalId, RequestId, RunId
from reactive_agents.core.json import Json, json_bytes, map_texts
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.run_context import ContextFunction, DepsFunction, RunContext
from reactive_agents.core.run_record import OpenQuestion, RecordedRun, RunState
from reactive_agents.core.tasks import AgentResult, Task
from reactive_agents.core.texts import one_line, without_folders
from reactive_agents.effects import attempt
from reactive_agents.engine.durability import names_of_given_tools, task_difference
from reactive_agents.engine.recorded_answers import recorded_outcome
from reactive_agents.event_loop import spawn_on_this_loop
from reactive_agents.server.access import ApiKeys, Authenticate, KeyLimits, Principal, UseOfKeys
from reactive_agents.server.live_run import LiveRun as LiveRun
from reactive_agents.server.live_run import Run as Run
from reactive_agents.server.live_run import RunRequest as RunRequest
from reactive_agents.server.live_run import without_folders_of
from reactive_agents.server.web import HeldStream, Problem

_log = logging.getLogger("reactive_agents")

MOST_ENDED = 1_000
MOST_ENDED_EVENTS = 200_000
MOST_ENDED_TEXT = 100_000_000
"""Characters of requests, tool results and answers, which may be large, of all ended runs."""
ENDED_S = 600.0
"""Seconds that an ended run is stored, unless there are too many runs or events."""
ANSWER_S = 600.0
"""Seconds that a run waits for its client to return with an answer."""
_CHECK_S = 2.0
_BEGIN_S = 2.0
"""Seconds that an order to resume a run waits for whether the run is refused."""
_STOP_S = 60.0
"""Seconds in which a run that was stopped ends by itself, with its answer checked and recorded."""
_CANCEL_S = 10.0
"""Seconds for cancelled runs to end."""
_POLL_S: Final = 0.5
"""Seconds between checks of a run that continues from its record."""
SERVER: Final = "the server"
"""Who cancels or stops a run without an order, as when its client left."""
_ANYBODY: Final = "a client without a key"
_STORE_ERRORS: Final = errors.RecordFailed, errors.ServiceFailed, errors.SessionUnavailable

_State = TypeVar("_State")
_T = TypeVar("_T")

Answer: TypeAlias = (
    tuple[Literal["approval"], ApprovalDecision]
    | tuple[Literal["question"], str]
    | tuple[Literal["call"], Json, str]
)
"""The kind of a request, and the response of a person or another program."""
RequestKey: TypeAlias = tuple[str, str]
"""The run and the id of a request."""


DepsFactory: TypeAlias = Callable[[Principal], Any]
"""Create the dependencies of a run, or a context manager that makes them, for the sender of a request.

The sender has the user of the run as its user.
"""


class AgentService:
    """The agents of a server and their runs: the interface for protocols.

    The arguments without description are those of ``create_app``.

    Args:
        shows_unchecked: whether senders see texts that guardrails have not checked yet, as the owner of the
            agents may.

    Attributes:
        agents: the agents by their names in the API.
        anybody: the sender of all requests without keys.
        is_draining: whether new runs are refused.
        lifespans: return contexts to keep open while the application is open; protocols append theirs.
    """

    def __init__(
        self,
        agents: Mapping[str, ReactiveAgent[Any, Any]],
        *,
        authenticate: Authenticate | None = None,
        limits: KeyLimits | None = None,
        deps: DepsFactory | None = None,
        queue: str | None = None,
        url: str = "",
        shows_unchecked: bool = False,
    ) -> None:
        self.agents = dict(agents)
        self._url = url.rstrip("/")
        self.uses = UseOfKeys()
        self.is_draining = False
        self.started = 0
        self.ended: dict[str, int] = {}
        self.anybody = Principal(limits=limits or KeyLimits())
        self.lifespans: list[Callable[[], AbstractAsyncContextManager[Any]]] = []
        self._authenticate = authenticate
        self._deps = deps
        self._queue = queue
        self._shows_unchecked = shows_unchecked
        self._live: dict[RunId, LiveRun] = {}
        self._ended_runs: deque[LiveRun] = deque()
        self._by_key: dict[RunId, LiveRun] = {}

    @property
    def needs_key(self) -> bool:
        """Whether requests must be authenticated."""
        return self._authenticate is not None

    def address(self, request: Request) -> str:
        """Return the URL for clients, without a ``/`` at the end."""
        path = request.scope.get("root_path", "").rstrip("/")
        return self._url or f"{str(request.base_url).rstrip('/').removesuffix(path)}{path}"

    # --- who asks, and for which agent ----------------------------------------------------------------------

    def principal(self, request: Request) -> Principal:
        """Return the sender of a request, and count the request.

        Raises:
            Problem: the key is missing or wrong, or has sent too many requests.
        """
        found = self.anybody if self._authenticate is None else self._authenticate(request)
        if found is None or wrong_name("user", found.user) is not None:  # such as a blank one: nobody
            raise _unauthorized("An API key is needed, as Authorization: Bearer …")
        self.uses.count_request(found)
        return found

    def stream(
        self, principal: Principal, source: ASGIApp, held: ExitStack, last: Callable[[Problem], bytes]
    ) -> Response:
        """Return a stream for a sender, which ends when its key is revoked or expires.

        Args:
            held: what is given up when it has ended.
            last: returns the last part of a stream that is ended before.
        """
        keys = self._authenticate if isinstance(self._authenticate, ApiKeys) else None

        def refused() -> Problem | None:
            if keys is None or keys.holds(principal.key):
                return None
            return _unauthorized("The API key of the stream was revoked, or has expired.")

        return HeldStream(source, refused=refused, last=last, on_end=held.pop_all().close)

    def names_for(self, principal: Principal) -> list[str]:
        """Return the names of the agents that the principal may use."""
        return [*filter(principal.may_use, self.agents)]

    def agent(self, principal: Principal, name: str | None) -> tuple[str, ReactiveAgent[Any, Any]]:
        """Return an agent by its name; without one, the only agent.

        Raises:
            Problem: there is none of this name for the principal.
        """
        names = self.names_for(principal)
        if name is None and len(names) == 1:
            name = names[0]
        if name is None:
            raise Problem(422, "agent-missing", "There are several agents: name one.")
        if name not in names:
            raise Problem(404, "agent-not-found", "There is no such agent.")
        return name, self.agents[name]

    # --- beginning ------------------------------------------------------------------------------------------

    async def start_here(self, principal: Principal, agent: str, asked: RunRequest) -> LiveRun:
        """Begin a run in this process, never in the queue, since its client waits.

        Raises:
            Problem: it is refused.
        """
        live = await self.start(principal, agent, asked, here=True)
        assert isinstance(live, LiveRun), "only runs that may be elsewhere are records"
        return live

    async def start(
        self, principal: Principal, agent: str | None, asked: RunRequest, *, here: bool = False
    ) -> Run:
        """Begin or enqueue a run; return it when it has its id.

        Raises:
            Problem: it is refused.
        """
        name, served = self.agent(principal, agent)
        self._refuse_as_it_ends()
        user, durable = principal.acts_for(asked.user), is_durable(served)
        run_id = asked.run_id
        if asked.key is not None:
            run_id = keyed_run_id(principal, user, name, asked.key)
        elif durable and run_id is None:
            run_id = new_run_id()
        known = self._begun_by(asked, run_id)
        if known is not None and (known.last or known.has_ended or not durable):
            return known
        task = await self._new_task(served, user, asked)
        if here or asked.tools or run_id is None:
            return await self._begin(principal, name, task, run_id, asked)
        if self._queue is not None:
            queued = queued_run(task, run_id, queue=self._queue, priority=0, due=None)
            return await self._enqueue(principal, served, queued, is_keyed=asked.key is not None)
        may_have_begun = asked.key is not None and durable
        begun = await _begun_elsewhere(served, run_id, task) if may_have_begun else None
        wait_s = _BEGIN_S if may_have_begun else inf
        return begun or await self._begin(principal, name, task, run_id, asked, wait_s=wait_s)

    async def _begin(
        self,
        principal: Principal,
        name: str,
        task: Task,
        run_id: RunId | None,
        asked: RunRequest,
        *,
        wait_s: float = inf,
    ) -> Run:
        """Begin a run here, unless it has been begun meanwhile.

        Args:
            wait_s: seconds after which the record is asked whether it has begun elsewhere.
        """
        known = self._begun_by(asked, run_id)
        if known is not None:
            return known
        served = self.agents[name]
        live = await self._conduct(principal, name, task, run_id, asked, asked.tools, wait_s=wait_s)
        while run_id is not None and not live.last and not live.has_ended:
            begun = await _begun_elsewhere(served, run_id, task)  # as by the recovery of another process
            if begun is not None:
                return begun
            await live.changed(_BEGIN_S)
        if live.refusal is not None:
            raise _refused(live.refusal)
        refusal = await live.refused_after_start(_BEGIN_S) if asked.key is not None else None
        if refusal is not None:  # such as another task that the key was used for at the same time
            self._forget(live)
            raise _refused(AgentError(refusal))
        return live

    def _begun_by(self, asked: RunRequest, run_id: RunId | None) -> LiveRun | None:
        """Return the run of the same request here, unless this process left it.

        Raises:
            Problem: another task was asked for by its idempotency key.
        """
        known = None if asked.key is None or run_id is None else self._by_key.get(run_id)
        if known is not None and (known.asked is None or known.asked.work != asked.work):
            raise _other_task()
        return None if known is None or known.is_left else known

    async def _new_task(self, served: ReactiveAgent[Any, Any], user: str | None, asked: RunRequest) -> Task:
        session = None
        if asked.session is not None:
            session = await self.session_to_use(served, user, asked.session)
        try:
            task = served.new_task(
                asked.text,
                session=session,
                user=user,
                history=asked.history or None,
                metadata=asked.metadata or None,
                tags=asked.tags or None,
                settings=asked.settings,
            )
        except AgentError as error:
            raise _refused(error) from None
        return evolve(task, parts=asked.parts or task.parts)

    async def _enqueue(
        self, principal: Principal, served: ReactiveAgent[Any, Any], queued: RecordedRun, *, is_keyed: bool
    ) -> RecordedRun:
        find = partial(served.runs.find, queued.run_id)
        try:
            async with self.uses.of(principal).queueing:  # so that each one counts those before it
                if not is_keyed or await _unless_missing(find()) is None:
                    await self._refuse_full_queue(principal)
                await served.runs.submit(queued)
            return await _shown(await find(), served)
        except AgentError as error:
            raise _refused(error) from None

    async def _refuse_full_queue(self, principal: Principal) -> None:
        """Raise a ``Problem`` if too many runs wait in the queue."""
        left = principal.limits.queued
        for agent in filter(is_durable, self.agents.values()):
            left -= await agent.runs.count_queued(principal.user, at_most=max(1, left))
            if left <= 0:
                detail = f"The key may have {principal.limits.queued} runs in the queue that have not begun."
                raise Problem(429, "too-many-queued", detail, headers={"retry-after": "5"})

    async def _conduct(
        self,
        principal: Principal,
        name: str,
        task: Task,
        run_id: RunId | None,
        asked: RunRequest | None = None,
        tools: Sequence[Tool] = (),
        *,
        wait_s: float = inf,
    ) -> LiveRun:
        """Run a task here; return the run when it has begun.

        Args:
            wait_s: seconds after which it is returned all the same, as while another process has it.
        """
        agent = self.agents[name]
        options: dict[str, Any] = {} if run_id is None else {"run_id": run_id}
        if tools:
            options["tools"] = tools
        if agent.deps_type is not None and self._deps is not None:
            made = self._deps(evolve(principal, user=task.user))
            by = ContextFunction(self._deps, True).name
            of_run = DepsFunction(ContextFunction(lambda: made, False), agent.deps_type, by)
            options["deps"] = of_run if of_run.is_entered(made) or isawaitable(made) else made
        self._refuse_as_it_ends()  # the shutdown may have begun since the request came
        self.uses.begin(principal, "runs")
        self._forget_ended()
        live = LiveRun(
            name,
            Task(task.id, task.agent_id, "", task.created_at, session=task.session, user=task.user),
            principal,
            is_durable(agent),
            asked,
            is_guarded=not self._shows_unchecked and guards(agent, "output"),
        )
        if run_id is not None:
            live.run_id = run_id
            self._live[run_id] = live
            if asked is not None and asked.key is not None:
                self._by_key[run_id] = live
        self.started += 1
        spawn_on_this_loop(partial(self._consume, live, task, options))
        spawn_on_this_loop(partial(self._stop_late, live))
        while not live.last and not live.has_ended:
            if not await live.changed(wait_s):
                break
        if live.refusal is not None:
            self._forget(live)
            raise _refused(live.refusal)
        return live

    async def _consume(self, live: LiveRun, task: Task, options: Mapping[str, Any]) -> None:
        """Run a task to its end, and buffer its events."""
        try:
            with live.scope:
                async with aclosing(self.agents[live.agent].stream(task, **options)) as stream:
                    async for event in stream:
                        live.take(event)
                        if live.last == 1:
                            self._live[live.run_id] = live
        except AgentError as error:
            live.refusal = error
        except (Exception, SystemExit) as error:  # noqa: BLE001 - nothing waits for the task
            _log.error("The run %s was cut off.", live.run_id, exc_info=error)
        finally:
            live.end(time.monotonic())
            self._ended_runs.append(live)
            self.uses.end(live.principal, "runs")
            self.ended[live.state] = self.ended.get(live.state, 0) + 1

    async def _stop_late(self, live: LiveRun) -> None:
        """Stop a run at the time limit of its key; waits for people do not count."""
        left_s = live.principal.limits.run_s
        while not live.has_ended and left_s > 0:
            if live.waits_for_person:
                await live.turned()
                continue
            since = time.monotonic()
            with anyio.move_on_after(left_s):
                await live.turned()
            left_s -= time.monotonic() - since
        if not live.has_ended:
            reason = "The time limit of the key for a run is exceeded."
            self.agents[live.agent].stop(live.task_id, reason, by=SERVER)
            with anyio.move_on_after(_STOP_S):
                await live.until_ended()
            self.cancel(live)  # a service hangs, such as a guardrail

    async def deps_of_queued(self, context: RunContext[None]) -> Any:
        """Return the dependencies of a run that no request of this process began."""
        return None if self._deps is None else self._deps(Principal(user=context.user))

    def _refuse_as_it_ends(self) -> None:
        if self.is_draining:
            detail = "The server is being stopped: send the request again."
            raise Problem(503, "draining", detail, headers={"retry-after": "5"})

    async def check_stores(self) -> None:
        """Check that runs can be recorded and logged.

        Raises:
            Problem: a store cannot be written, or not within two seconds.
        """
        with anyio.move_on_after(_CHECK_S), suppress(AgentError):  # the store has logged it
            for agent in self.agents.values():
                log = agent.container.core.run_log().value_or(None)
                if is_durable(agent):
                    await agent.runs.check()
                if log is not None:
                    value_or_raise(await attempt(log.check()))
            return
        raise Problem(503, "store-unavailable", "The runs of an agent cannot be stored now.")

    # --- finding --------------------------------------------------------------------------------------------

    async def find(self, principal: Principal, run_id: str) -> Run:
        """Return a run, or the main run of a sub-run.

        A recorded sub-run of an agent that is served here is returned itself.

        Raises:
            Problem: there is none of this id for the principal.
        """
        live = self._live.get(RunId(run_id))
        if live is None:
            live = next((each for each in self._live.values() if run_id in each.run_ids), None)
        if live is not None and live.last:
            if principal.may_use(live.agent) and principal.may_read(live.task.user):
                if not live.is_left:
                    return live
            else:
                raise _not_found()
        served = [each for name, each in self.agents.items() if principal.may_use(name) and is_durable(each)]
        known = [(each, RunId(run_id)) for each in served]
        while known:
            above: list[tuple[ReactiveAgent[Any, Any], RunId]] = []
            for agent, sought in known:
                found = await _of_store(_unless_missing(agent.runs.find(sought)))
                if found and found.agent_id == agent.agent_id and principal.may_read(found.task.user):
                    return await _shown(found, agent)
                if found and found.parent:
                    above.append((agent, found.parent))
            known = above
        if live is not None and live.last:  # it could not even be recorded
            return live
        raise _not_found()

    async def recent(
        self, principal: Principal, agent: str | None, user: str | None, state: RunState | None, limit: int
    ) -> list[Run]:
        """Return runs, latest first; without an agent those of all agents."""
        user = principal.acts_for(user)
        names = [self.agent(principal, agent)[0]] if agent else self.names_for(principal)
        found: dict[str, Run] = {}
        for name in names:
            if not is_durable(self.agents[name]):
                continue
            listed = self.agents[name].runs.list(state=state, user=user, limit=limit, brief=True)
            recorded = await _of_store(listed)
            found.update([(each.run_id, await _shown(each, self.agents[name])) for each in recorded])
        for live in [*self._live.values()]:
            fits = live.agent in names and live.last and user in (None, live.task.user)
            fits = fits and state in (None, live.state)
            if fits and live.is_left:  # perhaps it could not even be recorded
                fits = live.run_id not in found and await self.find(principal, live.run_id) is live
            if fits:
                found[live.run_id] = live
        ancient = datetime.fromtimestamp(0, UTC)
        begun = sorted(found.values(), key=lambda run: run.created_at or ancient, reverse=True)
        return begun[:limit]

    def served_name(self, run: Run) -> str:
        """Return the name in the API of a run's agent."""
        if isinstance(run, LiveRun):
            return run.agent
        return next(name for name, agent in self.agents.items() if agent.agent_id == run.agent_id)

    async def open_questions(self, run: Run) -> tuple[OpenQuestion, ...]:
        """Return the open requests of a run and of its sub-runs."""
        if isinstance(run, LiveRun):
            return run.questions
        if run.state != "waiting":
            return ()
        agent = self.agents[self.served_name(run)]
        asked = await _of_store(agent.runs.questions(run.run_id, below=True))
        shown: Callable[[Any], Any] = _redactor(agent).redact_json
        return tuple(evolve(each, request=shown(each.request)) for each in asked)

    async def follow_recorded(
        self, principal: Principal, run_id: str, answered: Collection[RequestKey], tools: Sequence[Tool] = ()
    ) -> AsyncGenerator[tuple[Run, list[OpenQuestion]], None]:
        """Yield a durable run and its new requests, again and again, until it has ended.

        Resumes the run here as soon as no process has it.

        Args:
            answered: requests that are not new, though they may still be open; it may grow meanwhile.
            tools: as for :meth:`order`.

        Raises:
            Problem: the run was deleted or is refused, a store failed, or this server is being stopped.
        """
        while True:
            run = await self.find(principal, run_id)
            readable = [each for each in await self.open_questions(run) if each.kind != "unreadable"]
            yield run, [each for each in readable if request_key(each) not in answered]
            if run.has_ended:
                return
            if isinstance(run, LiveRun):
                with anyio.move_on_after(_POLL_S):
                    await run.until_ended()
                continue
            self._refuse_as_it_ends()
            if run.status == "open" and not run.is_held:  # perhaps since its process ended
                await self.order(principal, run, "resume", tools=tools)
            here = self._live.get(run.run_id)
            if here is None or here.is_left:  # another process has it
                await anyio.sleep(_POLL_S)
            elif not here.last:
                await here.changed(_POLL_S)

    def cancel(self, run: LiveRun, by: str = SERVER) -> bool:
        """Cancel a run of this process; return whether that was possible.

        ``by``: who asks for it, for the audit log.
        """
        return not run.has_ended and isinstance(self.agents[run.agent].cancel(run.task_id, by=by), Success)

    # --- steering -------------------------------------------------------------------------------------------

    async def order(
        self,
        principal: Principal,
        run: Run,
        order: str,
        reason: str = "",
        tools: Sequence[Tool] = (),
    ) -> None:
        """Cancel, stop, pause or resume a run, in the name of the sender.

        ``resume`` continues an interrupted run in this process, or as soon as no other process has it, and so
        does ``stop``, up to its first new step.

        Args:
            tools: tools that are offered again to a run that was begun with tools of these names.

        Raises:
            Problem: the run does not allow it, for example because it has ended.
        """
        if isinstance(run, LiveRun):
            if run.is_left and run.asked is not None and order == "resume":  # it could not even be recorded
                await self.start(run.principal, run.agent, evolve(run.asked, run_id=run.run_id))
            else:
                await self._order_here(run, order, reason, by=principal.name or _ANYBODY)
            return
        agent, is_idle = self.agents[self.served_name(run)], run.state in ("interrupted", "paused", "waiting")
        is_left = run.status == "open" and is_idle and not run.is_held
        recorded: dict[str, Callable[..., Awaitable[None]]] = {
            "cancel": agent.runs.cancel,
            "stop": partial(agent.runs.stop, reason=reason),
            "pause": agent.runs.pause,
            "resume": agent.runs.unpause,
        }
        try:
            if order != "resume" or not is_left or run.order == "pause":
                await recorded[order](run.run_id, by=principal.name or _ANYBODY)
            if order in ("resume", "stop") and is_left:
                await self._resume_left(principal, run, tools)
        except AgentError as error:
            raise _problem_of(error, 409, "run-not-under-way") from None

    async def _order_here(self, run: LiveRun, order: str, reason: str, *, by: str) -> None:
        agent = self.agents[run.agent]
        here: dict[str, Callable[..., Result[None, errors.TaskError]]] = {
            "cancel": agent.cancel,
            "stop": partial(agent.stop, reason=reason),
            "pause": agent.pause,
            "resume": agent.resume,
        }
        if run.has_ended or isinstance(here[order](run.task_id, by=by), Failure):  # else a fork would take it
            raise Problem(409, "run-not-under-way", f"The run is {run.state}: it cannot {order}.")
        if run.is_durable and order in ("pause", "resume"):  # for the other processes, and the next
            give = agent.runs.pause if order == "pause" else agent.runs.unpause
            await _of_store(_unless_missing(give(run.run_id, by=by)))

    async def _resume_left(self, principal: Principal, run: RecordedRun, tools: Sequence[Tool]) -> None:
        """Continue a run here that no process has, unless it was just continued here."""
        name = self.served_name(run)
        own = await self.agents[name].runs.find(run.run_id)  # with what is redacted in the other
        known = self._live.get(run.run_id)
        if known is not None and not known.is_left:  # or it waits for the process that has it
            return
        same = (each for each in self._under_way() if each.task_id == own.task.id)
        other = next((each for each in same if each.run_id != run.run_id), None)
        if other is not None:  # beside which a fork would fail, for good
            with anyio.move_on_after(_BEGIN_S):  # perhaps it is being closed
                await other.until_ended()
            if not other.has_ended:
                detail = (
                    "It is a fork of a run that is under way here, or that has another fork under way here."
                )
                raise Problem(409, "fork-under-way", f"{detail} Resume it when that has ended.")
        offered = names_of_given_tools(run.definition)
        again = [each for each in tools if each.name in offered]
        live = await self._conduct(principal, name, own.task, run.run_id, tools=again, wait_s=_BEGIN_S)
        refusal = await live.refused_after_start(_BEGIN_S)
        if refusal is not None:
            raise Problem(409, "run-refused", refusal.message)

    async def delete(self, run: Run) -> None:
        """Delete an ended run from memory and its record.

        Raises:
            Problem: the record cannot be written.
        """
        name = self.served_name(run)
        self._forget(run)
        if is_durable(self.agents[name]):  # another request may be faster
            await _of_store(_unless_missing(self.agents[name].runs.delete(run.run_id)))

    async def settle(self, principal: Principal, run: Run, run_id: str, request: str, answer: Answer) -> None:
        """Settle a request of a run or sub-run.

        Raises:
            Problem: nothing of this kind waits under this id, the answer to a question is blank, or another
                person has to decide.
        """
        principal.must_settle(answer[0])
        if answer[0] == "question" and not answer[1].strip():
            raise Problem(422, "blank-answer", "The answer to a question is a text that is not blank.")
        agent, own = self.agents[self.served_name(run)], RunId(run_id)
        is_recorded = isinstance(run, RecordedRun)
        if isinstance(run, LiveRun) and run.is_durable:  # unless a sub-run has another record, or none
            is_recorded = await _of_store(_unless_missing(agent.runs.find(own))) is not None
            for each in agent.pending_approvals():  # the record does not have all checks of the tool
                is_meant = (each.run_id, each.approval_id) == (own, request)
                if is_meant and answer[0] == "approval":
                    taken = each.taken(answer[1])
                    if isinstance(taken, Failure):
                        raise _not_settled(taken.failure())
        if is_recorded:  # where the first answer holds, whichever process it came to
            await self._settle_recorded(principal, agent, own, request, answer)
        if isinstance(run, LiveRun):
            settled: Result[Any, Any] = Failure(None)
            match answer, run.requests.get((own, request)):
                case ("approval", decision), events.ApprovalRequested():
                    settled = _decided(
                        agent.approve, agent.deny, decision, principal, own, ApprovalId(request)
                    )
                case ("question", text), events.QuestionAsked():
                    settled = await agent.answer(own, RequestId(request), str(text))
                case ("call", result, error), events.ExternalCallRequested():
                    settled = await agent.deliver(own, RequestId(request), result, error=str(error))
            if isinstance(settled, Failure) and not is_recorded:
                raise _not_settled(settled.failure())

    async def _settle_recorded(
        self,
        principal: Principal,
        agent: ReactiveAgent[Any, Any],
        own: RunId,
        request: str,
        answer: Answer,
    ) -> None:
        try:
            asked_ones = await _of_store(agent.runs.questions(own, below=True))
            known = (
                each
                for each in asked_ones
                if each.run_id == own and request in (question_id(each), _digest_of(each))
            )
            question = next(known, None)
            if question is None:
                raise _not_waiting()
            if question.kind == "doubt":
                principal.must_settle("approval")
            match answer:
                case ("approval", decision):
                    await _decided(
                        agent.runs.approve, agent.runs.deny, decision, principal, own, question.key
                    )
                case ("question", text):
                    await agent.runs.answer(own, text, question.key)
                case ("call", result, error):
                    await agent.runs.answer(own, result, question.key, error=str(error))
        except AgentError as failed:
            raise _not_settled(failed.error) from None

    # --- sessions -------------------------------------------------------------------------------------------

    async def sessions(
        self,
        agent: ReactiveAgent[Any, Any],
        user: str | None,
        session: str | None = None,
        before: datetime | None = None,
        limit: int | None = None,
    ) -> list[tuple[str, SessionInfo]]:
        """Return the sessions of a user by the user's names; without a user, all."""
        found = await _of_store(agent.sessions.list(user, session=session, before=before, limit=limit))
        return [(shown_name(each.user, each.session) or "", each) for each in found]

    async def session(self, agent: ReactiveAgent[Any, Any], user: str | None, name: str) -> SessionInfo:
        """Return a session as :meth:`find_session` does.

        Raises:
            Problem: the user has none of this name.
        """
        found = await self.find_session(agent, user, name)
        if found is None:
            raise Problem(404, "session-not-found", "There is no such session.")
        return found

    async def find_session(
        self, agent: ReactiveAgent[Any, Any], user: str | None, name: str
    ) -> SessionInfo | None:
        """Return a session by its user's name for it; ``None`` if there is none.

        Without a user, returns a session that has no user.
        """
        for stored in dict.fromkeys((stored_name(user, name), name)):
            for shown, each in await self.sessions(agent, user, stored):
                if shown == name and each.user == user:
                    return each
        return None

    async def session_to_use(self, agent: ReactiveAgent[Any, Any], user: str | None, name: str) -> str:
        """Return the name of a session in the store, where users' names cannot clash."""
        if name in (".", ".."):
            raise Problem(
                422, "invalid-session", "A session cannot be named . or .., which paths cannot contain."
            )
        own = stored_name(user, name)
        if user is None or own == name:
            return own
        found = await self.find_session(agent, user, name)  # one of the program itself or the command line
        return own if found is None else found.session

    # --- the end --------------------------------------------------------------------------------------------

    def refuse_new_runs(self) -> None:
        """Refuse new runs, and interrupt those that wait for another worker."""
        self.is_draining = True
        for run in self._under_way():
            if _waits_for_holder(run):
                run.scope.cancel()

    async def drain(self, seconds: float) -> None:
        """Refuse new runs, and wait for those in progress.

        After these seconds, durable runs are interrupted, so that another process or the next start continues
        them, and other runs are cancelled. A durable run that waits for a person, or until another worker
        gives it up, is interrupted at once.
        """

        async def finish(run: LiveRun) -> None:
            while not run.has_ended:
                if _waits_for_holder(run) or (run.is_durable and run.waits_for_person):
                    run.scope.cancel()
                await run.changed(3_600.0)

        self.refuse_new_runs()
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as group:
                for run in self._under_way():
                    group.start_soon(finish, run)
        for run in self._under_way():
            if run.is_durable or not self.cancel(run):
                run.scope.cancel()
        with anyio.move_on_after(_CANCEL_S, shield=True):
            for run in self._under_way():
                await run.until_ended()

    def _under_way(self) -> list[LiveRun]:
        return [each for each in self._live.values() if not each.has_ended]

    @property
    def runs_under_way(self) -> int:
        """The number of runs in progress in this process."""
        return len(self._under_way())

    def _forget_ended(self) -> None:
        now, ended = time.monotonic(), self._ended_runs
        events_kept, text = sum(len(each.kept) for each in ended), sum(each.text for each in ended)
        while ended:
            first = ended[0]
            is_late = now - (first.ended_at or now) >= ENDED_S
            is_full = len(ended) > MOST_ENDED or events_kept > MOST_ENDED_EVENTS or text > MOST_ENDED_TEXT
            if not is_late and not is_full:
                return
            events_kept, text = events_kept - len(first.kept), text - first.text
            ended.popleft()
            for known in (self._live, self._by_key):
                if known.get(first.run_id) is first:  # not the one that continued it
                    del known[first.run_id]

    def _forget(self, run: Run) -> None:
        self._live.pop(run.run_id, None)
        self._by_key.pop(run.run_id, None)


def _waits_for_holder(run: LiveRun) -> bool:
    """Return whether a run goes on only when the worker that has it gives it up."""
    return run.is_durable and (run.is_left or (run.asked is None and not run.last))


@frozen(eq=False)
class WaitingRun(Generic[_State]):
    """A run whose client left it, having seen the events up to a number.

    Attributes:
        after: the number.
        state: the part of the client's connection that a protocol needs to go on.
        taken: set when the wait has ended.
    """

    run: LiveRun
    after: int
    state: _State
    taken: anyio.Event = field(factory=anyio.Event)


@define(eq=False, repr=False)
class WaitingRuns(Generic[_State]):
    """Runs that wait for their clients to return with answers.

    If a client does not return in time, its run is cancelled; a durable run goes on, as one that no client
    waits for.

    Args:
        on_late: called with the key and the state of a run that is given up.
    """

    _service: AgentService
    _seconds: float = ANSWER_S
    _on_late: Callable[[str, _State], Awaitable[None]] | None = None
    _left: dict[str, WaitingRun[_State]] = field(factory=dict, init=False)

    def leave(self, key: str, run: LiveRun, after: int, state: _State) -> None:
        """Let a run wait for its client, which has seen the events up to a number."""
        earlier = self.take(key)
        if earlier is not None and earlier.run is not run:
            self._service.cancel(earlier.run)
        waiting = self._left[key] = WaitingRun(run, after, state)

        async def cancel_late() -> None:
            is_kept = True
            while is_kept and not waiting.taken.is_set():
                with anyio.move_on_after(self._seconds):
                    await waiting.taken.wait()
                is_kept = run.is_durable and not run.has_ended
            if not waiting.taken.is_set() and self.take(key) is not None:
                self._service.cancel(run)
                if self._on_late is not None:
                    await self._on_late(key, state)

        spawn_on_this_loop(cancel_late)

    def look(self, key: str) -> WaitingRun[_State] | None:
        """Return the run that waits under a key; it continues to wait."""
        return self._left.get(key)

    def take(self, key: str) -> WaitingRun[_State] | None:
        """Return the run that waits under a key, and end the wait."""
        waiting = self._left.pop(key, None)
        if waiting is not None:
            waiting.taken.set()
        return waiting


def question_id(question: OpenQuestion) -> str:
    """Return the id of a request: that of its event."""
    own = (question.request.get(name) for name in ("approval_id", "question_id", "tool_call_id"))
    return next((each for each in own if isinstance(each, str)), _digest_of(question))


def request_key(question: OpenQuestion) -> RequestKey:
    """Return the run and the id of a request."""
    return question.run_id, question_id(question)


def question_text(question: OpenQuestion) -> str:
    """Return a question, or the call to decide on or to execute, in one line."""
    asked: Any = question.request
    if question.kind == "unreadable":
        return "A request that cannot be read here."
    if question.kind == "question":
        return one_line(str(asked.get("text", "")))
    if question.kind == "call":
        return one_line(f"{asked.get('tool_name')} {json.dumps(asked.get('arguments'), ensure_ascii=False)}")
    given = str(asked.get("tool_name")), asked.get("arguments"), str(asked.get("risk", ""))
    return one_line(described_request(*given, asked.get("copied") or (), str(asked.get("notice") or "")))


def _digest_of(question: OpenQuestion) -> str:
    """Return the id of a question that cannot be read.

    Earlier versions gave such an id to all.
    """
    return hashlib.sha256(question.key.encode("utf-8", "replace")).hexdigest()[:24]


def stored_name(user: str | None, name: str) -> str:
    """Return the name of a user's session in the store, unique among all users.

    >>> stored_name("ada", "diary"), stored_name("ada:x", "diary"), stored_name(None, "diary")
    ('ada:diary', 'ada%3Ax:diary', 'diary')
    """
    return name if user is None else f"{quote(user, safe=' @.-+')}:{name}"


def shown_name(user: str | None, stored: str | None) -> str | None:
    """Return the name of a session for its user.

    >>> shown_name("ada", "ada:diary"), shown_name("ada", "made-by-the-program"), shown_name(None, None)
    ('diary', 'made-by-the-program', None)
    """
    return stored if user is None or stored is None else stored.removeprefix(stored_name(user, ""))


def session_of(run: Run) -> str | None:
    """Return the name of a run's session for its user; ``None`` without one."""
    return shown_name(run.task.user, run.task.session)


def guards(agent: ReactiveAgent[Any, Any], stage: GuardrailStage) -> bool:
    """Return whether a guardrail of the agent checks the texts of a stage."""
    guardrail = agent.container.governance.guardrail().value_or(None)
    looks_at = getattr(guardrail, "looks_at", None)
    return guardrail is not None and (looks_at is None or bool(looks_at(stage)))


def _redactor(agent: ReactiveAgent[Any, Any]) -> Redactor:
    return checked_redactor(agent.container.core.redactor())


async def _shown(run: RecordedRun, agent: ReactiveAgent[Any, Any]) -> RecordedRun:
    """Return a run of the record as its events show it.

    The record itself holds the secrets, with which the run goes on.
    """
    redactor = _redactor(agent)
    texts: list[Json] = [run.task.input, dict(run.task.metadata), run.result]
    if redactor.long_in(texts):
        return await anyio.to_thread.run_sync(_without_secrets, run, redactor)
    return _without_secrets(run, redactor)


def _without_secrets(run: RecordedRun, redactor: Redactor) -> RecordedRun:
    metadata: Any = redactor.redact_json(run.task.metadata)
    task = evolve(run.task, input=redactor.redact(run.task.input), metadata=metadata)
    try:
        result = json.dumps(map_texts(json.loads(run.result), redactor.redact)) if run.result else ""
    except ValueError:
        result = ""  # which cannot be read
    return evolve(run, task=task, result=result)


def is_durable(agent: ReactiveAgent[Any, Any]) -> bool:
    """Return whether the runs of an agent are recorded."""
    return agent.container.settings().durability is not None


def has_lasting_sessions(agent: ReactiveAgent[Any, Any]) -> bool:
    """Return whether the sessions of an agent outlive the process."""
    store = agent.container.memory.sessions().value_or(None)
    return store is not None and bool(getattr(getattr(store, "content", None), "lasting", True))


async def _unless_missing(asked: Awaitable[_T]) -> _T | None:
    """Return what the record answers about a run; ``None`` if it has none."""
    try:
        return await asked
    except AgentError as error:
        if isinstance(error.error, errors.RunRefused):
            return None
        raise


async def _begun_elsewhere(agent: ReactiveAgent[Any, Any], run_id: RunId, task: Task) -> RecordedRun | None:
    """Return the run of a task, as it is shown, if it is held elsewhere or has ended.

    Raises:
        Problem: the run has another task, or the record cannot be read.
    """
    try:
        found = await _unless_missing(agent.runs.find(run_id))
    except AgentError as error:
        raise _refused(error) from None
    if found is None:
        return None
    if task_difference(found.task, evolve(task, parts=found.task.parts)):  # the text has the labels of parts
        raise _other_task()
    return await _shown(found, agent) if found.is_held or found.has_ended else None


def new_run_id() -> RunId:
    """Return an id that cannot be guessed."""
    return RunId(secrets.token_hex(16))


def keyed_run_id(principal: Principal, user: str | None, agent: str, key: str) -> RunId:
    """Return the id of the run that a request with an idempotency key begins."""
    whose = json_bytes([principal.key if user is None else None, user, agent, key])
    return RunId(hashlib.sha256(whose).hexdigest()[:32])


def _other_task() -> Problem:
    return Problem(422, "other-task", "The idempotency key was used for another task.")


def _problem_of(failed: AgentError, status: int, code: str, **fields: Any) -> Problem:
    """Return why an agent refused something, or that a store of it failed."""
    if isinstance(failed.error, _STORE_ERRORS):
        return _store_failed(failed.error.message)
    return Problem(status, code, without_folders(failed.error.message), **fields)


def _refused(error: AgentError) -> Problem:
    return _problem_of(error, 422, "run-refused", error=type(error.error).__name__)


async def _of_store(asked: Awaitable[_T]) -> _T:
    try:
        return await asked
    except AgentError as error:
        raise _store_failed(error.error.message) from None


def session_problem(error: AgentError) -> Problem:
    """Return why a session could not be used."""
    return _problem_of(error, 409, "session-refused")


def _store_failed(message: str) -> Problem:
    _log.error("A store of the agent failed: %s", message)
    return Problem(503, "store-unavailable", "A store of the agent cannot be used now.")


def _unauthorized(detail: str) -> Problem:
    return Problem(401, "unauthorized", detail, headers={"www-authenticate": "Bearer"})


def _not_found() -> Problem:
    return Problem(404, "run-not-found", "There is no such run.")


def _not_waiting() -> Problem:
    return Problem(409, "not-waiting", "No such request waits for this answer.")


def _not_settled(error: object) -> Problem:
    """Return why a reply was not taken; a request that waits on is said to."""
    if isinstance(error, errors.InvalidConfig | errors.InvalidToolArguments):
        return Problem(422, "invalid-decision", f"{error.message} The request waits on.")
    return _store_failed(error.message) if isinstance(error, _STORE_ERRORS) else _not_waiting()


def _decided(
    approve: Callable[..., _T],
    deny: Callable[..., _T],
    decision: ApprovalDecision,
    principal: Principal,
    *request: object,
) -> _T:
    """Decide on a call in the name of the sender."""
    by = principal.name
    if decision.approved:
        return approve(*request, decision.reason, arguments=decision.arguments, by=by)
    if decision.arguments is not None:
        raise _not_settled(errors.InvalidConfig("arguments", "some", "none, since the call is denied"))
    return deny(*request, decision.reason, by=by)


def outcome_of(run: Run) -> AgentResult | events.TaskFailed | None:
    """Return the result or failure of a run; ``None`` before its end."""
    if isinstance(run, LiveRun):
        return run.outcome.result if isinstance(run.outcome, events.TaskCompleted) else run.outcome
    if not run.result:
        return None
    read = recorded_outcome(run)
    if isinstance(read, errors.RunRefused):
        return None
    return without_folders_of(read.failure()) if isinstance(read, Failure) else read.unwrap().result


def has_output_type(agent: ReactiveAgent[Any, Any]) -> bool:
    """Return whether the answers of an agent are values of a type, as JSON text."""
    return agent.container.engine.output_shape().value_or(None) is not None


def decoded_output(agent: ReactiveAgent[Any, Any], output: str | None) -> Json:
    """Return an answer as JSON data: a value of the output type, or a text."""
    decoded: Json = json.loads(output) if output and has_output_type(agent) else output
    return decoded
