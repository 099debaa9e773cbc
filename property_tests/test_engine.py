"""The engine under random presence of services, hooks and failures."""

from __future__ import annotations

from typing import Any

import anyio
from attrs import frozen
from hypothesis import event, example, given
from hypothesis import strategies as st
from returns.result import Failure

from reactive_agents.core.errors import HookError, MemoryUnavailable, ModelUnavailable, ServiceFailed
from reactive_agents.core.events import (
    ExecutionPhaseEntered,
    ExecutionPhaseFailed,
    ExecutionPhaseSkipped,
    TaskCompleted,
    TaskFailed,
    TaskStarted,
)
from reactive_agents.engine import LIFECYCLE_PHASES, ExecutionContext, LifecycleHook
from reactive_agents.testing import (
    AllowAll,
    BlockWords,
    FixedRouter,
    FixedVerifier,
    InMemoryMemory,
    RecordingAuditLog,
    RecordingCostTracker,
    ScriptedLLM,
    call,
    fail,
    say,
)
from tests.support.engines import TEN_PHASES, Bench, bench
from tests.support.profiles import examples

LOOP = {"think", "act", "observe"}
PHASE_OF_SERVICE = {
    "memory": "memory-flush",
    "guardrail": "guardrail",
    "cost_router": "cost-route",
    "cost_tracker": "cost-track",
    "verifier": "verify",
    "audit": "audit",
}


def broken_service(name: str) -> Any:
    failure = ServiceFailed("broken", name, "any")
    return {
        "memory": lambda: InMemoryMemory(fails_with=MemoryUnavailable("broken", "any")),
        "guardrail": lambda: AllowAll(fails_with=failure),
        "cost_router": lambda: FixedRouter("m", fails_with=failure),
        "cost_tracker": lambda: RecordingCostTracker(fails_with=failure),
        "verifier": lambda: FixedVerifier(1.0, fails_with=failure),
        "audit": lambda: RecordingAuditLog(fails_with=failure),
    }[name]()


def sound_service(name: str) -> Any:
    return {
        "memory": InMemoryMemory,
        "guardrail": lambda: BlockWords("forbidden"),
        "cost_router": lambda: FixedRouter("scripted/routed"),
        "cost_tracker": RecordingCostTracker,
        "verifier": lambda: FixedVerifier(0.9),
        "audit": RecordingAuditLog,
    }[name]()


@frozen
class Scenario:
    """The circumstances of one run."""

    services: dict[str, str]
    hooks: tuple[tuple[str, str, str], ...]
    strict: bool
    reasoning: bool
    model_fails: bool
    text: str


hooks = st.tuples(
    st.sampled_from(LIFECYCLE_PHASES),
    st.sampled_from(["before", "after", "on-error"]),
    st.sampled_from(["watch", "raise"]),
)
scenarios = st.builds(
    Scenario,
    services=st.dictionaries(st.sampled_from(sorted(PHASE_OF_SERVICE)), st.sampled_from(["sound", "broken"])),
    hooks=st.lists(hooks, max_size=4).map(tuple),
    strict=st.booleans(),
    reasoning=st.booleans(),
    model_fails=st.booleans(),
    text=st.sampled_from(["What is 1 + 2?", "a forbidden thing", " "]),
)


def set_up(scenario: Scenario) -> tuple[Bench, dict[str, Any]]:
    services = {
        name: sound_service(name) if state == "sound" else broken_service(name)
        for name, state in scenario.services.items()
    }
    last = fail(ModelUnavailable("down", "m")) if scenario.model_fails else say("The answer is 3.")
    made = bench(
        ScriptedLLM(call("add", a=1, b=2), last),
        reasoning=scenario.reasoning,
        hooks=[
            LifecycleHook(phase, timing, watch if kind == "watch" else broken_hook)  # type: ignore[arg-type]
            for phase, timing, kind in scenario.hooks
        ],
        options={"strict_hooks": scenario.strict},
        **services,
    )
    return made, services


def watch(context: ExecutionContext) -> ExecutionContext:
    return context


def broken_hook(context: ExecutionContext) -> None:
    raise RuntimeError("a hook raised")


@given(scenarios)
@example(
    Scenario({"audit": "sound"}, (("audit", "before", "raise"),), True, False, False, "What is 1 + 2?"),
)
@examples(15)
def test_every_run_ends_once_its_phases_in_order_and_its_account_closed(scenario: Scenario) -> None:
    made, services = set_up(scenario)
    outcome = anyio.run(made.run, scenario.text)
    events = made.recorder.events

    # it begins and ends, once each
    assert isinstance(events[0], TaskStarted)
    assert isinstance(events[-1], TaskFailed if isinstance(outcome, Failure) else TaskCompleted)
    assert sum(isinstance(each, TaskCompleted | TaskFailed) for each in events) == 1
    assert [each.sequence for each in events] == list(range(1, len(events) + 1))
    assert made.engine.running() == ()

    # the phases come in their order, each once, but for the loop's own
    order = [
        "loop" if each.phase in LOOP else each.phase
        for each in events
        if isinstance(each, ExecutionPhaseEntered | ExecutionPhaseSkipped)
    ]
    collapsed = [phase for i, phase in enumerate(order) if i == 0 or order[i - 1] != phase]
    positions = [TEN_PHASES.index(phase) for phase in collapsed]
    assert positions == sorted(set(positions))
    if not isinstance(outcome, Failure):
        assert tuple(collapsed) == TEN_PHASES

    # a phase is skipped when and only when its service is absent
    for name, phase in PHASE_OF_SERVICE.items():
        if phase in collapsed:
            skipped = any(each.phase == phase for each in made.recorder.of(ExecutionPhaseSkipped))
            assert skipped == (name not in services), phase

    # the account is closed however the run ended and whatever hooks do, and never twice
    if scenario.text.strip():
        for name, record in (("cost_tracker", "records"), ("audit", "entries")):
            if scenario.services.get(name) == "sound":
                closing = [
                    each
                    for each in getattr(services[name], record)
                    if getattr(each, "action", "run") == "run"
                ]
                assert len(closing) == 1, name

    # what fails the run, and what does not
    if not isinstance(outcome, Failure):
        assert scenario.text == "What is 1 + 2?" or ("guardrail" not in services and scenario.text.strip())
        assert not scenario.model_fails
        assert scenario.services.get("guardrail") != "broken"
        assert all(not each.fatal for each in made.recorder.of(ExecutionPhaseFailed))
    elif not scenario.strict:
        assert not isinstance(outcome.failure().error, HookError)
        assert (
            scenario.model_fails
            or not scenario.text.strip()
            or scenario.services.get("guardrail") == "broken"
            or ("guardrail" in services and scenario.text == "a forbidden thing")
        )
    event("failed" if isinstance(outcome, Failure) else "completed")
