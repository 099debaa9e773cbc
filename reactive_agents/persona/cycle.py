"""The context of one event's processing: settings, services, events, usage.

Every stage gets a :class:`Cycle`. It publishes events, records them in the journal, and handles a failing
store for all stages: it reports the failure and returns a default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar
from zoneinfo import ZoneInfo

import anyio
from attrs import define, evolve, frozen
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, personas
from reactive_agents.core.bases import Event
from reactive_agents.core.codec import from_json, to_json
from reactive_agents.core.conversation import wrong_name
from reactive_agents.core.events import ApprovalDecided, ExecutionPhaseFailed, TaskFailed
from reactive_agents.core.governance import GuardrailReport, GuardrailStage, SpendingRecord
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId, TaskId
from reactive_agents.core.persona_events import (
    PersonaEvent,
    PersonaStage,
    PersonaStageFailed,
    PersonaStepEnded,
)
from reactive_agents.core.persona_queue import Utterance, WorkItem
from reactive_agents.core.plans import PlanStep
from reactive_agents.core.results import ReasoningStep
from reactive_agents.core.run_record import RecordedRun
from reactive_agents.core.settings import BudgetConfig, RunSettings
from reactive_agents.core.tasks import Task, TaskResult
from reactive_agents.core.texts import shortened
from reactive_agents.core.tools import RESERVED_NAMES
from reactive_agents.effects import Effect, attempt, beside
from reactive_agents.engine.conversations import shown_history
from reactive_agents.engine.guardrail import publish_findings
from reactive_agents.engine.services import RunOverrides
from reactive_agents.event_loop import TIMEOUTS, Timeout, to_the_end
from reactive_agents.kernel import KernelServices, MeteredLLM, RunBudget, RunEvents
from reactive_agents.kernel.context import UsageAccount
from reactive_agents.kernel.policies.requirements import ABSTENTION
from reactive_agents.kernel.service_calls import call_service
from reactive_agents.persona import prompts
from reactive_agents.persona.domain import PersonaDomain
from reactive_agents.ports import (
    Clock,
    CostTracker,
    EventBus,
    Guardrail,
    IdSource,
    PersonaStore,
    RunRecord,
    TextComparison,
)
from reactive_agents.reasoning import StrategyInput, StrategyServices
from reactive_agents.reasoning.structured_output.question import Question, Structured, ask_structured

_T = TypeVar("_T")

OVER_LIMIT = "The limit of US dollars of the day is reached."
RECALLED_THOUGHTS = 5
MOST_HEARD = 200
"""Messages of a room for deciding on engagement, and whether a lesson may leave the room."""
RECALLED_KINDS: tuple[personas.ThoughtKind, ...] = ("observation", "decision", "self-reflection")


@frozen(eq=False)
class PersonaServices:
    """Services of a persona.

    Attributes:
        comparison: semantic similarity of learned patterns; without it their words are compared.
    """

    store: PersonaStore
    events: EventBus
    clock: Clock
    ids: IdSource
    comparison: Maybe[TextComparison] = Nothing


class OvertakenError(Exception):
    """Another process has taken the event; this one stops without recording anything."""


class UnreadableError(Exception):
    """Data that an event needs cannot be read now; the event is retried later."""


@define(eq=False)
class Cycle:
    """The processing of one event, or the evaluation of its plan.

    Attributes:
        meter: counts the tokens and dollars of planning and evaluation; steps are runs with their own totals.
        room: the room of the event; nothing of other rooms is read.
        claim: the item of the queue; ``None`` if the store failed.
        transcript: earlier messages of the room for prompts, oldest first.
        heard: the latest of them, for decisions on engagement.
        thoughts: the notes on the room for the plan and the answer.
        left_usd: US dollars that remain in the limits of the day; ``None`` for no limit.
        stored_usd: US dollars of this event that are stored already.
        unrecorded: events that are still to be added to the journal, with the next saving of the plan.
        step_tokens: tokens of the steps so far.
        step_cost_usd: US dollars of the steps so far.
    """

    settings: personas.PersonaSettings
    services: PersonaServices
    domain: PersonaDomain
    events: RunEvents
    meter: MeteredLLM
    started: float
    room: personas.Room
    claim: WorkItem | None = None
    transcript: tuple[Utterance, ...] = ()
    heard: tuple[Utterance, ...] = ()
    thoughts: tuple[personas.Thought, ...] = ()
    left_usd: float | None = None
    stored_usd: float = 0.0
    unrecorded: tuple[PersonaEvent, ...] = ()
    step_tokens: int = 0
    step_cost_usd: float = 0.0

    @property
    def reasons(self) -> bool:
        """Whether events of its domain are planned and evaluated."""
        own = self.domain.reasoning
        return self.settings.reasoning if own is None else own

    @property
    def local_time(self) -> str:
        """The current time in words, if the steps of the domain can schedule events."""
        if not self.domain.reminders:
            return ""
        zone = self.settings.engagement.timezone
        now = self.services.clock.now().astimezone(ZoneInfo(zone))
        return f"{now:%A}, {now.isoformat(timespec='minutes')} ({zone})"

    @property
    def tokens(self) -> int:
        """All tokens so far, those of the steps included."""
        return self.meter.usage.tokens + self.step_tokens

    @property
    def cost_usd(self) -> float:
        """US dollars so far, of model calls with a known price."""
        return self.meter.usage.cost_usd + self.step_cost_usd

    @property
    def unstored_usd(self) -> float:
        """US dollars so far that are not stored yet."""
        return self.cost_usd - self.stored_usd

    @property
    def is_over_limit(self) -> bool:
        """Whether the limits of the day are used up."""
        return self.left_usd is not None and self.cost_usd >= self.left_usd

    async def check(self, text: str, stage: GuardrailStage) -> GuardrailReport:
        """Return the report of the domain's guardrail, which blocks the text if it fails."""
        guardrail = self.domain.engine.ports.guardrail.value_or(None)
        if guardrail is None:
            return GuardrailReport(allowed=True)
        checked = await call_service(
            "guardrail", guardrail, Guardrail.check, GuardrailReport, text, stage, self.meter
        )
        if isinstance(checked, Failure):
            return GuardrailReport(allowed=False, violation="failed", detail=checked.failure().message)
        report = checked.unwrap()
        publish_findings(report, stage, self.events)
        return report

    async def read_limits(self) -> str:
        """Read the remaining dollars of the day; return the limit that is reached, if any."""
        if not self.settings.limits.of_usd:
            return ""
        room, store, midnight = self.room, self.services.store, await self._midnight()
        event = None if self.claim is None else self.claim.event
        chosen: dict[str, dict[str, Any]] = {
            "tenant": {},
            "user": {"user": event.user_id if event else None},
            "room": {"room": room},
        }
        lefts: list[float] = []
        for name, most in self.settings.limits.of_usd.items():
            spending = store.spending(room.persona_id, midnight, tenant=room.tenant, **chosen[name])
            spent = await self.read(spending, None)
            if spent is None:
                return f"The limits of a {name} cannot be read."
            lefts.append(self.stored_usd + most - spent.cost_usd)
            self.left_usd = min(lefts)
            if self.is_over_limit:
                return f"The limit of {most:g} US dollars of a {name} and day is reached."
        return ""

    async def engage(self) -> str:
        """Count the event for the day; return the limit that is reached, if any."""
        limits = self.settings.limits
        if self.claim is None or not limits.of_events:
            return ""
        counted = self.services.store.engage(self.claim, limits, await self._midnight())
        whose = await self.read(counted, "")
        if not whose:
            return ""
        return f"The limit of {limits.of_events[whose]} events of a {whose} and day is reached."

    async def _midnight(self) -> datetime:
        """Return when the day began, by the clock of the store."""
        now = await self.read(self.services.store.now(), self.services.clock.now())
        return now.replace(hour=0, minute=0, second=0, microsecond=0)

    async def record_cost(self) -> None:
        """Record the usage of planning and evaluation; each step records its own."""
        tracker = self.domain.engine.ports.cost_tracker.value_or(None)
        if tracker is None or not self.meter.models:
            return
        record = SpendingRecord(
            self.events.run_id,
            self.events.task_id,
            AgentId(self.settings.id),
            self.meter.models,
            self.services.clock.now(),
            user_of(self.claim),
        )

        async def store() -> None:
            recorded = await call_service("cost tracking", tracker, CostTracker.record, None, record)
            if isinstance(recorded, Failure):
                error = errors.ExecutionError(recorded.failure().message, self.events.task_id, "cost-track")
                self.events.publish(ExecutionPhaseFailed, phase="cost-track", error=error, fatal=False)

        await to_the_end(store)

    async def recall(self) -> None:
        """Read the transcript of the room and the notes on it."""
        store, shown, policy = self.services.store, self.settings.transcript, self.settings.engagement
        before = None if self.claim is None else self.claim.number
        listens = policy.staff or policy.peers or policy.mentions_only or self.domain.engage
        most = max(shown, MOST_HEARD, policy.max_peer_turns) if listens else shown
        self.heard = await self.read(store.transcript(self.room, before=before, limit=most), ())
        self.transcript = self.heard[-shown:] if shown else ()
        thoughts = store.recall_thoughts(self.room, kinds=RECALLED_KINDS, limit=RECALLED_THOUGHTS)
        self.thoughts = await self.attempt_or("recall", thoughts, ())

    async def plans(self, **chosen: Any) -> tuple[personas.PersonaPlan, ...]:
        """Return the latest matching plans of the room; none if the store fails.

        With ``context_id=None``, those of all rooms of its tenant and domain.
        """
        room = self.room
        chosen = {"domain": room.domain, "context_id": room.context_id, "tenant": room.tenant, **chosen}
        listed = self.services.store.list_plans(room.persona_id, **chosen)
        return await self.attempt_or("recall", listed, ())

    async def learnings(self, stage: PersonaStage = "recall") -> tuple[personas.LearningEntry, ...] | None:
        """Return the learnings of the room, and those of every room of its tenant.

        ``None`` if the store fails.
        """
        room = self.room
        listed = self.services.store.list_learnings(room.persona_id, domain=room.domain, tenant=room.tenant)
        if stage == "learn":  # what an event teaches is not lost; it is taken later
            known = await self.read(listed, None, stage=stage)
        else:
            known = await self.attempt_or(stage, listed, None)
        if known is None:
            return None
        own = (each for each in known if each.room in (None, room.context_id))
        return tuple(each for each in own if each.tenant == room.tenant)

    async def save(
        self, plan: personas.PersonaPlan, *, progress: bool = True, ended: PersonaStepEnded | None = None
    ) -> None:
        """Store the plan.

        Args:
            progress: whether the event has made progress, which resets its count of tries.
            ended: the end of its step, which is published, and recorded in the same transaction.

        Raises:
            OvertakenError: another process has taken the event.
            UnreadableError: the store failed before a step, and knows of all that ended.
        """
        cost_usd = self.unstored_usd
        if ended is not None:
            self.unrecorded += (ended,)
        stored = self.services.store.save_plan(
            plan, self.claim, progress=progress, cost_usd=cost_usd, journal=self.unrecorded
        )
        if progress or self.unrecorded:
            saved = await self.attempt_or("record", stored, None)
        else:  # a step that the store does not know would be repeated by a later process
            saved = await self.read(stored, None, stage="record")
        if saved is False:
            raise OvertakenError
        if saved:
            self.stored_usd += cost_usd
            self.unrecorded = ()
        if ended is not None:
            self.events.deliver(ended)

    async def publish(self, kind: Callable[..., Any], **fields: object) -> None:
        """Publish an event of a kind and record it in the journal."""
        event: PersonaEvent = kind(*self.events.stamp(), **fields)
        self.events.deliver(event)
        await self.attempt_or("record", self.services.store.record(event), None)

    async def attempt_or(
        self, stage: PersonaStage, pending: Effect[_T, errors.MemoryErrors], default: _T
    ) -> _T:
        """Await an effect of the store; publish its failure and return the default."""
        outcome = await attempt(pending)
        if isinstance(outcome, Failure):
            self._publish_failure(stage, outcome.failure())
            return default
        return outcome.unwrap()

    async def read(
        self, pending: Effect[_T, errors.MemoryErrors], default: _T, *, stage: PersonaStage = "recall"
    ) -> _T:
        """Await an effect that the event cannot be answered without.

        For an event outside of the queue, a failure returns the default, as in :meth:`attempt_or`.

        Raises:
            UnreadableError: the store failed.
        """
        outcome = await attempt(pending)
        if isinstance(outcome, Failure):
            self._publish_failure(stage, outcome.failure())
            if self.claim is not None:
                raise UnreadableError(outcome.failure().message)
            return default
        return outcome.unwrap()

    async def fail_stage(self, stage: PersonaStage, error: errors.PersonaErrors) -> None:
        """Publish and record the failure of a stage, unless it is the store's own."""
        event = self._publish_failure(stage, error)
        await self.attempt_or("record", self.services.store.record(event), None)

    def _publish_failure(self, stage: PersonaStage, error: errors.PersonaErrors) -> PersonaStageFailed:
        stamp = self.events.stamp()
        event = PersonaStageFailed(*stamp, persona_id=self.settings.id, stage=stage, error=error)
        self.events.deliver(event)
        return event

    async def ask(
        self, stage: Literal["plan", "replan", "evaluate"], question: Question[_T], task: str
    ) -> Result[Structured[_T], errors.StructuredOutputError]:
        """Ask a model outside of a run; publish a failure as that of the stage.

        Args:
            task: the description of the task of the question.
        """
        if self.is_over_limit:
            error = errors.StructuredOutputError(question.purpose, OVER_LIMIT, 0)
            await self.fail_stage(stage, error)
            return Failure(error)
        settings, timeouts, engine = self.settings, self.settings.timeouts, self.domain.engine
        model, timeout_s = settings.planning_model, timeouts.planning_s
        if stage == "evaluate":
            model, timeout_s = settings.evaluation_model, timeouts.evaluation_s
        run_settings = RunSettings(
            system_prompt=f"{prompts.role_of(settings)}\n\n{prompts.ROOM}"
            if self.transcript
            else prompts.role_of(settings),
            context_profile=engine.settings.limits_of_model,
        )
        strategy_input = StrategyInput(
            task_description=task,
            task_type=self.domain.name,
            run_id=self.events.run_id,
            task_id=self.events.task_id,
            agent_id=AgentId(settings.id),
            session_id=SessionId(self.events.run_id),
            settings=run_settings,
            history=shown_history(prompts.room_messages(self.transcript), model, run_settings, engine.ports),
            deadline=self.services.clock.monotonic() + timeout_s,
        )
        kernel = KernelServices(
            llm=self.meter,
            clock=self.services.clock,
            ids=self.services.ids,
            events=Some(self.events),
            counter=engine.ports.counter,
        )
        services = StrategyServices(kernel, self.meter)
        answered = await attempt(
            ask_structured(evolve(question, model=model, about_answer=True), strategy_input, services)
        )
        if isinstance(answered, Success):
            answered = await self._checked(question, answered.unwrap())
        if isinstance(answered, Failure):
            await self.fail_stage(stage, answered.failure())
        return answered

    async def _checked(
        self, question: Question[_T], answer: Structured[_T]
    ) -> Result[Structured[_T], errors.StructuredOutputError]:
        """Return the answer after the guardrail; fails if it is blocked."""
        report = await self.check(to_json(answer.value), "output")
        if report.allowed and report.redacted is None:
            return Success(answer)
        problem = f"A guardrail blocked it: {report.detail or report.violation}"
        if report.allowed and report.redacted is not None:
            read = from_json(report.redacted, type(answer.value))
            if isinstance(read, Success):
                return Success(evolve(answer, value=read.unwrap()))
            problem = "A guardrail redacted it so that it cannot be read."
        return Failure(errors.StructuredOutputError(question.purpose, problem, answer.attempts))


def begin_cycle(
    settings: personas.PersonaSettings,
    services: PersonaServices,
    domain: PersonaDomain,
    task_id: TaskId,
    room: personas.Room,
    claim: WorkItem | None = None,
) -> Cycle:
    """Begin the processing of an event, with a new run id."""
    clock, ports = services.clock, domain.engine.ports
    events = RunEvents(services.events, clock, RunId(services.ids.new()), task_id)
    account, settings_of_model = UsageAccount(), domain.engine.settings.model_settings
    budget = ports.budget.map(
        lambda guard: RunBudget(
            guard, events, prices=ports.prices, counter=ports.counter, account=account, user=user_of(claim)
        )
    ).value_or(None)
    meter = MeteredLLM(ports.llm, events, clock, budget=budget, account=account, settings=settings_of_model)
    return Cycle(settings, services, domain, events, meter, clock.monotonic(), room, claim)


def user_of(claim: WorkItem | None) -> str | None:
    """Return the user for whose event the work is, if that can be the user of a run."""
    return None if claim is None else known_user(claim.event)


def known_user(event: personas.DomainEvent) -> str | None:
    """Return the user of an event and its tenant, if that can be the user of a run."""
    user = f"{personas.joined_names(event.tenant)}/{event.user_id}" if event.tenant else event.user_id
    return user if wrong_name("user", user) is None else None


LONGEST_THOUGHT = 500


async def add_thought(
    plan: personas.PersonaPlan, kind: personas.ThoughtKind, content: str, importance: float, cycle: Cycle
) -> None:
    """Add a thought to working memory, cut to :data:`LONGEST_THOUGHT` characters."""
    text = shortened(content, LONGEST_THOUGHT)
    services = cycle.services
    thought = personas.Thought(
        personas.ThoughtId(services.ids.new()),
        plan.persona_id,
        plan.domain,
        plan.context_id,
        kind,
        text,
        importance,
        services.clock.now(),
        plan.event.tenant,
        plan.event.user_id,
    )
    await cycle.attempt_or("record", services.store.add_thought(thought), None)


# --- execution of a step: a full run of the domain's engine ---------------------------------------------

RunEnd: TypeAlias = Result[TaskResult, TaskFailed | errors.ExecutionError]
"""How the run of a step ended."""


async def execute_step(plan: personas.PersonaPlan, step: PlanStep, cycle: Cycle) -> personas.StepOutcome:
    """Execute a step; partial, abstained and timed-out runs are failures."""
    ids, engine = cycle.services.ids, cycle.domain.engine
    started = cycle.services.clock.monotonic()
    run_id, recorded = RunId(ids.new()), None
    if (record := engine.ports.record.value_or(None)) is not None:
        run_id = _run_id_of(plan, step)
        recorded = await _recorded_run(run_id, record, cycle)
    # a recorded one keeps its task, whatever has been noted since it began
    task = await _task_of(plan, step, cycle) if recorded is None else recorded.task
    is_last = prompts.is_last_step(plan, step)
    prompt = prompts.step_instructions(cycle.settings, engine.settings.system_prompt, is_last=is_last)
    overrides = RunOverrides(
        cycle.domain.deps,
        settings={"system_prompt": prompt, **_budget(cycle)},
        accept_changes=recorded is not None,
    )
    decided: dict[CallId, bool] = {}

    def note(event: Event) -> None:
        if isinstance(event, ApprovalDecided):
            decided[event.call_id] = event.approved

    unsubscribe = engine.ports.events.subscribe(note, run_id=run_id)
    try:
        streaming = cycle.settings.streaming and is_last
        ended, timed_out = await _run_with_timeout(task, run_id, overrides, cycle, streaming=streaming)
    finally:
        unsubscribe()
    match ended:
        case Failure(TaskFailed(error=errors.RunInterrupted() as interrupted)) if cycle.claim is not None:
            raise UnreadableError(interrupted.message)  # a later try continues it
    outcome = _outcome_of(step, run_id, ended, decided, cycle)
    if timed_out and outcome.error is not None:
        outcome = evolve(outcome, error=errors.StepTimedOut(step.id, cycle.settings.timeouts.step_s))
    return evolve(outcome, duration_ms=(cycle.services.clock.monotonic() - started) * 1000)


async def _task_of(plan: personas.PersonaPlan, step: PlanStep, cycle: Cycle) -> Task:
    """Return the task of the run of a step, with what earlier steps and the room say."""
    room = plan.room
    learnings = await _followed(plan, cycle) if prompts.is_last_step(plan, step) else ()
    again = any(each.status == "failed" for each in plan.plan.steps)
    failures = [each for each in await ended_steps(plan, cycle) if not each.success] if again else []
    content = prompts.step_content(
        plan, step, failures=failures, thoughts=cycle.thoughts, learnings=learnings, now=cycle.local_time
    )
    return Task(
        TaskId(cycle.services.ids.new()),
        cycle.domain.engine.settings.agent_id,
        content,
        cycle.services.clock.now(),
        type=plan.domain,
        user=known_user(plan.event),
        history=prompts.room_messages(cycle.transcript, plan.event.author),
        metadata={"event": plan.event.id, "room": room.context_id, "tenant": room.tenant},
        scope=room.key,
    )


def _outcome_of(
    step: PlanStep, run_id: RunId, ended: RunEnd, decided: Mapping[CallId, bool], cycle: Cycle
) -> personas.StepOutcome:
    """Return the outcome of a step whose run ended, and count what it cost.

    Args:
        decided: whether calls were approved.
    """
    error: errors.StepErrors | None = None
    output, steps, metadata = "", tuple[ReasoningStep, ...](), None
    match ended:
        case Success(result):
            output, steps, metadata = result.output or "", result.steps, result.metadata
            if not result.success:
                error = errors.StepIncomplete(step.id, result.reason, metadata.terminated_by)
        case Failure(TaskFailed() as failed):
            error, steps, metadata = failed.error, failed.steps, failed.metadata
        case Failure(errors.ExecutionError() as defect):
            error = defect
    tokens, cost_usd = (0, 0.0) if metadata is None else (metadata.tokens_used, metadata.cost_usd)
    cycle.step_tokens += tokens
    cycle.step_cost_usd += cost_usd
    return personas.StepOutcome(
        step_id=step.id,
        run_id=run_id,
        success=error is None,
        output=output,
        at=cycle.services.clock.now(),
        error=error,
        detail="" if error is None else _last_tool_error(steps),
        tokens=tokens,
        cost_usd=cost_usd,
        calls=calls_of(steps, decided),
    )


async def ended_steps(plan: personas.PersonaPlan, cycle: Cycle) -> tuple[personas.StepOutcome, ...]:
    """Return the outcomes of the ended steps of a plan, in order, from its journal.

    Raises:
        UnreadableError: the journal cannot be read.
    """
    journal = await cycle.read(cycle.services.store.journal(plan.task.id), ())
    known = (*journal, *cycle.unrecorded)
    ended = (each for each in known if isinstance(each, PersonaStepEnded) and each.plan_id == plan.id)
    return tuple(each.outcome for each in ended)


async def cancel_steps(plan: personas.PersonaPlan, cycle: Cycle) -> tuple[personas.StepOutcome, ...]:
    """Cancel the durable runs of the steps in progress, which nothing is to continue.

    What they spent becomes a part of the event's; their outcomes say what they did.
    """
    record = cycle.domain.engine.ports.record.value_or(None)
    outcomes: list[personas.StepOutcome] = []
    for step in plan.plan.steps:
        if record is None or step.status != "in_progress":
            continue
        run_id = _run_id_of(plan, step)
        recorded = await _recorded_run(run_id, record, cycle)
        if recorded is None:
            continue
        overrides = RunOverrides(accept_changes=True, cancels=True)
        ended, _ = await _run_with_timeout(recorded.task, run_id, overrides, cycle)
        outcomes.append(_outcome_of(step, run_id, ended, {}, cycle))
    return tuple(outcomes)


def _run_id_of(plan: personas.PersonaPlan, step: PlanStep) -> RunId:
    """Return the id of the durable run of a step, the same in every process."""
    return RunId(f"{plan.id}-{step.id}")


async def _recorded_run(run_id: RunId, record: RunRecord, cycle: Cycle) -> RecordedRun | None:
    """Return the durable run of a step, which a process began that is gone.

    Raises:
        UnreadableError: the record cannot be read.
    """
    found = await attempt(record.find(run_id))
    if isinstance(found, Failure) and cycle.claim is not None:
        raise UnreadableError(found.failure().message)
    return found.value_or(None)


def calls_of(steps: Iterable[ReasoningStep], decided: Mapping[CallId, bool]) -> tuple[personas.StepCall, ...]:
    """Return the tool calls of a run with their results, without its final answer.

    Args:
        decided: whether calls were approved.
    """
    found: dict[CallId, personas.StepCall] = {}
    for step in steps:
        call_id = None if step.metadata is None else step.metadata.call_id
        if step.metadata is None or call_id is None:
            continue
        if step.type == "action":
            tool, approved = step.metadata.tool_used or "", decided.get(call_id)
            if tool in RESERVED_NAMES:
                continue
            found[call_id] = personas.StepCall(
                tool, shortened(step.content, LONGEST_THOUGHT), None, approved=approved
            )
        elif call_id in found:
            found[call_id] = evolve(
                found[call_id],
                success=step.metadata.success,
                result=shortened(step.content, LONGEST_THOUGHT),
                in_doubt=step.metadata.origin == "in_doubt",
            )
    return tuple(found.values())


def _budget(cycle: Cycle) -> dict[str, BudgetConfig]:
    """Return the budget of a step: that of the domain, within the rest of the day's."""
    own = cycle.domain.engine.settings.budget
    if cycle.left_usd is None:
        return {}
    left_usd = max(1e-9, cycle.left_usd - cycle.cost_usd)
    return {"budget": evolve(own, cost_usd=min(left_usd, own.cost_usd or left_usd))}


async def _followed(plan: personas.PersonaPlan, cycle: Cycle) -> tuple[personas.LearningEntry, ...]:
    """Return the current learnings that the plan follows."""
    found = []
    for learning_id in plan.follows:
        known = await cycle.attempt_or("recall", cycle.services.store.get_learning(learning_id), Nothing)
        learning = known.value_or(None)
        if learning is not None and not learning.rejected:
            found.append(learning)
    return tuple(found)


def is_abstention(outcome: personas.StepOutcome) -> bool:
    """Return whether the run of a step abstained, as impossible."""
    return isinstance(outcome.error, errors.StepIncomplete) and outcome.error.terminated_by == ABSTENTION


async def _run_with_timeout(
    task: Task, run_id: RunId, overrides: RunOverrides, cycle: Cycle, *, streaming: bool = False
) -> tuple[RunEnd, bool]:
    """Run the task; return its result and whether it timed out.

    While the run waits for a person, the time stands still. On a timeout the engine cancels the run, so that
    its usage is recorded. A durable one that another process has, such as a recovery of the agent, is waited
    for no longer.
    """
    engine, timed_out, timeout = cycle.domain.engine, False, Timeout()

    async def cancel_later(scope: anyio.CancelScope) -> None:
        nonlocal timed_out
        with anyio.CancelScope() as time_left:
            timeout.begin(time_left, cycle.settings.timeouts.step_s)
            await anyio.sleep_forever()
        timed_out = True
        if engine.ports.record != Nothing and engine.get_context(task.id) == Nothing:
            scope.cancel()
        engine.cancel(task.id)

    elsewhere = errors.ExecutionError("Another process has the run of the step.", task.id, "think")
    ended: RunEnd = Failure(elsewhere)
    async with beside(cancel_later):
        above = TIMEOUTS.set((*TIMEOUTS.get(), timeout))
        try:
            ended = await engine.conduct(task, run_id=run_id, streaming=streaming, overrides=overrides)
        except Exception as error:  # noqa: BLE001 - strategies, tools and hooks are the user's code; the persona continues
            ended = Failure(errors.ExecutionError(f"{type(error).__name__}: {error}", task.id, "think"))
        finally:
            TIMEOUTS.reset(above)
    return ended, timed_out


def _last_tool_error(steps: tuple[ReasoningStep, ...]) -> str:
    seen = [step for step in steps if step.type == "observation" and step.metadata is not None]
    if seen and seen[-1].metadata is not None and seen[-1].metadata.success is False:
        return seen[-1].content
    return ""
