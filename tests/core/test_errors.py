"""Errors as values: what they say to a person, which layer each belongs to, and what is below them."""

from __future__ import annotations

from typing import get_args

import attrs
import pytest

from reactive_agents.core import bases, errors, run_errors
from reactive_agents.core.errors import (
    AddressRefused,
    ArgumentProblem,
    AuditBroken,
    BudgetExceeded,
    ContentRefused,
    ControllerError,
    DecodeError,
    DeliveryFailed,
    ExecutionError,
    FieldProblem,
    GuardrailViolationError,
    HookError,
    IllegalAgentState,
    IllegalTransition,
    InboxFull,
    InvalidConfig,
    InvalidToolArguments,
    IterationLimitError,
    KernelFailed,
    MaxIterationsError,
    MemoryUnavailable,
    ModelCallFailed,
    ModelTimeout,
    OutputValidatorFailed,
    PersonaErrors,
    PhaseCause,
    PolicyFailed,
    ReasoningError,
    RecordNotFound,
    RunCancelled,
    RuntimeErrors,
    SelectionError,
    ServiceFailed,
    ServiceMissing,
    SessionRefused,
    SessionUnavailable,
    StepIncomplete,
    StepTimedOut,
    StrategyExecutionError,
    StrategyNotFoundError,
    TaskError,
    ToolFailed,
    ToolNotAnswered,
    ToolNotApproved,
    ToolNotFound,
    ToolTimedOut,
    UnknownDomain,
    VerificationFailed,
    WorkspaceViolation,
    root_cause,
)

TIMEOUT = ModelTimeout("The model did not answer within 5 seconds.", "m", 5.0)

SENTENCES = [
    (errors.RunRefused("r1", "has another task"), "Run 'r1' has another task."),
    (
        errors.RunInterrupted("r1", "the disk is full."),
        "Run 'r1' was interrupted and can be resumed: the disk is full.",
    ),
    (
        errors.LeaseLost("r1"),
        "Run 'r1' was taken over by another process, or removed from its record.",
    ),
    (ToolNotFound("web"), "Unknown tool 'web'. Known tools: none."),
    (ToolNotFound("web", ("a", "b")), "Unknown tool 'web'. Known tools: a, b."),
    (
        InvalidToolArguments(
            "t", (ArgumentProblem("n", '"x"', "a number"), ArgumentProblem("m", "null", "y"))
        ),
        "The arguments of 't' are not valid: n: got \"x\", expected a number; m: got null, expected y.",
    ),
    (ToolFailed("t", "no such file"), "The tool 't' failed: no such file"),
    (StepIncomplete("s2", "Time is up.", "deadline"), "Step s2 was not finished: Time is up."),
    (StepTimedOut("s2", 2.5), "Step s2 did not end within 2.5 seconds."),
    (DeliveryFailed("chat", "OSError: gone"), "The answer could not be delivered to chat: OSError: gone"),
    (UnknownDomain("chess", ("chat", "code")), "There is no domain 'chess'. Known: chat, code."),
    (InboxFull(3, "e4"), "The inbox is full (3 events wait); event 'e4' was rejected."),
    (RecordNotFound("plan", "p1"), "There is no plan 'p1'."),
    (ToolFailed("t", "no such file", "OSError"), "The tool 't' failed (OSError): no such file"),
    (ToolTimedOut("t", 2.0), "The tool 't' did not end within 2 seconds."),
    (ToolTimedOut("t", 0.25), "The tool 't' did not end within 0.25 seconds."),
    (ToolNotApproved("t", "nobody was asked"), "The call of 't' was not approved: nobody was asked"),
    (ToolNotAnswered("t", "nobody was there"), "The call of 't' was not answered: nobody was there"),
    (
        WorkspaceViolation("../x", "it is outside"),
        "The path '../x' is refused: it is outside",
    ),
    (SessionRefused("a", "it belongs to another user"), "session 'a': it belongs to another user."),
    (
        ContentRefused("[image a.png]", "size", "52 MB", "at most 20 MB"),
        "[image a.png]: size: got 52 MB, expected at most 20 MB.",
    ),
    (AddressRefused("http://x/", "no."), "The address 'http://x/' is refused: no."),
    (
        DecodeError("Plan", (FieldProblem("$.id", "required field missing"), FieldProblem("$.seq", "wrong"))),
        "Not a valid Plan: $.id: required field missing; $.seq: wrong",
    ),
    (InvalidConfig("timeout_s", "-1", "more than 0"), "timeout_s: got -1, expected more than 0."),
    (
        ServiceMissing("audit", "runtime.audit"),
        "audit is enabled, but runtime.audit provides no service: add one, or switch it off.",
    ),
    (
        PolicyFailed("sources", "raised KeyError: 'url'"),
        "The policy sources raised KeyError: 'url'",
    ),
    (
        OutputValidatorFailed("is_known", "raised KeyError: 'T-5'"),
        "The output validator is_known raised KeyError: 'T-5'",
    ),
    (
        ModelCallFailed("think", 2, TIMEOUT),
        "The model call (think, iteration 2) failed: The model did not answer within 5 seconds.",
    ),
    (StrategyNotFoundError("x"), "There is no strategy 'x'. Known: none."),
    (StrategyNotFoundError("x", ("a", "b")), "There is no strategy 'x'. Known: a, b."),
    (ControllerError("after_step", "KeyError: 'x'"), "The controller's after_step failed: KeyError: 'x'"),
    (
        IterationLimitError("reactive", 3, 2),
        "The strategy reactive reached its limit of 3 turns after 2 steps.",
    ),
    (MaxIterationsError("t1", 4, 4), "Task t1 did not finish within 4 iterations."),
    (
        BudgetExceeded("day", 5.0, 4.75, 0.5),
        "The budget of the day is exhausted: 4.75 of 5 US dollars are spent or reserved, and the next call "
        "may cost 0.5.",
    ),
    (
        VerificationFailed("t1", 0.25, ("The number '7' was not observed.",)),
        "The answer was not verified (confidence 0.25): The number '7' was not observed.",
    ),
    (
        VerificationFailed("t1", 0.25),
        "The answer was not verified (confidence 0.25): Too little of it is supported.",
    ),
    (RunCancelled("t1", "agent-loop"), "Task t1 was cancelled in phase agent-loop."),
    (IllegalAgentState("idle", "running"), "The agent's state cannot change from 'idle' to 'running'."),
]


@pytest.mark.parametrize(("error", "sentence"), SENTENCES)
def test_the_sentence_of_an_error_names_what_it_knows(
    error: RuntimeErrors | PhaseCause, sentence: str
) -> None:
    assert error.message == sentence
    assert "\n" not in error.message


def test_what_answers_a_call_of_the_program_has_a_sentence_too() -> None:
    broken = AuditBroken(3, "its hash does not fit its content")
    assert broken.message == "Entry 3 of the audit log is invalid: its hash does not fit its content."


def test_every_error_of_every_layer_has_a_message() -> None:
    computed = {type(error) for error, _ in SENTENCES}
    for kind in {*get_args(RuntimeErrors), *get_args(PhaseCause)}:
        given = "message" in attrs.fields_dict(kind)
        assert given != (kind in computed), f"{kind.__name__} has no message, or no example of it here"


def test_every_error_has_its_layer() -> None:
    parts = {"ArgumentProblem", "FieldProblem", "_ModelError", "_OperationFailed"}
    parts |= {
        "ApprovalNotPending",
        "RequestNotPending",
        "AuditBroken",
        "BudgetExceeded",
        "RunLogFailed",
    }  # answer a call of the program, and never fail a run
    classes = {
        kind.__name__
        for module in (bases, run_errors)
        for kind in vars(module).values()
        if getattr(kind, "__module__", "") == module.__name__ and attrs.has(kind) and kind is not bases.Event
    }
    assert {kind.__name__ for kind in get_args(RuntimeErrors)} | {
        kind.__name__ for kind in get_args(PhaseCause)
    } | {kind.__name__ for kind in get_args(PersonaErrors)} | parts == classes
    assert not {*get_args(RuntimeErrors)} & {*get_args(PhaseCause)}


def test_an_error_is_a_value() -> None:
    assert ToolFailed("t", "x") == ToolFailed("t", "x")
    assert ToolFailed("t", "x") != ToolFailed("t", "y")
    assert len({TIMEOUT, ModelTimeout(TIMEOUT.message, "m", 5.0)}) == 1
    assert not isinstance(TIMEOUT, BaseException)


CALL_FAILED = ModelCallFailed("think", 0, TIMEOUT)


@pytest.mark.parametrize(
    ("error", "root"),
    [
        (TIMEOUT, TIMEOUT),
        (CALL_FAILED, TIMEOUT),
        (ReasoningError("It could not be finished.", CALL_FAILED), TIMEOUT),
        (StrategyExecutionError("reactive", "It failed.", 1, TIMEOUT), TIMEOUT),
        (
            ExecutionError(
                "The phase failed.", "t1", "agent-loop",
                StrategyExecutionError("reactive", "It failed.", 1, CALL_FAILED),
            ),
            TIMEOUT,
        ),
        *(
            (error, error)
            for error in (
                ExecutionError("The phase failed.", "t1", "agent-loop"),
                ReasoningError("It could not be started."),
                HookError("A hook raised.", "verify", "before", "KeyError: 'x'"),
                HookError("A hook raised.", "verify", "before"),
                GuardrailViolationError("It was blocked.", "t1", "injection"),
                KernelFailed("It gave up.", "custom"),
                IllegalTransition("status: done may not become acting", "status", "done", "acting"),
                MemoryUnavailable("It cannot be read.", "flush"),
                ServiceFailed("It does not work.", "audit", "append"),
                SessionUnavailable("They cannot be read.", "begin"),
                SelectionError("There is no strategy to choose from."),
                TaskError("It has no text.", "t1"),
            )
        ),
    ],
)  # fmt: skip
def test_the_root_cause_is_the_innermost_error(
    error: RuntimeErrors | PhaseCause, root: RuntimeErrors | PhaseCause
) -> None:
    assert root_cause(error) is root
