"""Errors of memory, tools and the other optional services."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from reactive_agents.core.errors.models import BudgetExceeded


@frozen
class MemoryUnavailable:
    """The memory cannot be read or written. ``operation``: the failed operation."""

    message: str
    operation: str


MemoryErrors: TypeAlias = MemoryUnavailable


@frozen
class ApprovalNotPending:
    """No request waits for this decision: it is unknown or was decided already."""

    run_id: str
    approval_id: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"No approval {self.approval_id!r} is pending in run {self.run_id!r}."


@frozen
class ServiceFailed:
    """A guardrail, cost, verification or audit service failed."""

    message: str
    service: str
    operation: str


BudgetErrors: TypeAlias = BudgetExceeded | ServiceFailed


@frozen
class AuditBroken:
    """An audit log was tampered with, or lost entries.

    Attributes:
        sequence: number of the first entry that is wrong or missing; the first of a log is 1.
        problem: the problem, in a clause.
    """

    sequence: int
    problem: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"Entry {self.sequence} of the audit log is invalid: {self.problem.rstrip('.')}."


AuditErrors: TypeAlias = AuditBroken | ServiceFailed


# --- tool calls ---------------------------------------------------------------------------------------------


@frozen
class ToolNotFound:
    """There is no tool of that name. ``known``: the names there are."""

    tool_name: str
    known: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        return f"There is no tool named {self.tool_name!r}. Known tools: {', '.join(self.known) or 'none'}."


@frozen
class ArgumentProblem:
    """One invalid argument. ``got``: the value as JSON text, shortened."""

    argument: str
    got: str
    expected: str


@frozen
class InvalidToolArguments:
    """The arguments do not fit the tool's schema; the tool did not run."""

    tool_name: str
    problems: tuple[ArgumentProblem, ...]

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        problems = "; ".join(f"{p.argument}: got {p.got}, expected {p.expected}" for p in self.problems)
        return f"The arguments of {self.tool_name!r} are not valid: {problems}."


@frozen
class ToolFailed:
    """The tool ran and raised. ``exception``: the name of the exception's class."""

    tool_name: str
    detail: str
    exception: str = ""

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        kind = f" ({self.exception})" if self.exception else ""
        return f"The tool {self.tool_name!r} failed{kind}: {self.detail}"


@frozen
class ToolTimedOut:
    """The tool did not end within ``timeout_s`` seconds; with 0 it never began."""

    tool_name: str
    timeout_s: float

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        return f"The tool {self.tool_name!r} did not end within {self.timeout_s:g} seconds."


@frozen
class ToolNotApproved:
    """The tool needs approval that was not given; it did not run."""

    tool_name: str
    reason: str

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        return f"The call of {self.tool_name!r} was not approved: {self.reason}"


@frozen
class WorkspaceViolation:
    """A path leaves the workspace, or is not of the kind that the tool handles."""

    path: str
    reason: str

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        return f"The path {self.path!r} is refused: {self.reason}"


@frozen
class AddressRefused:
    """A URL leads or redirects to a forbidden address. ``url``: without credentials."""

    url: str
    reason: str

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        return f"The address {self.url!r} is refused: {self.reason}"


ToolErrors: TypeAlias = (
    ToolNotFound
    | InvalidToolArguments
    | ToolFailed
    | ToolTimedOut
    | ToolNotApproved
    | WorkspaceViolation
    | AddressRefused
)
