"""Errors that every layer makes."""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

from attrs import frozen

from reactive_agents.core.values import Value


class _Sentence:
    def __init__(self, template: str) -> None:
        self._template = template

    def __get__(self, error: object, owner: type | None = None) -> str:
        return self._template.format(error) if error is not None else self._template


def sentence(template: str) -> str:
    """Return the ``message`` of an error class.

    It formats the template with the error as ``0``.

    A type checker sees the text that each error has, so that the error fits a protocol with a ``message``.

    >>> ServiceMissing("budget", "governance.budget").message
    'budget is enabled, but governance.budget provides none: give it one or switch it off.'
    """
    return cast(str, _Sentence(template))


@frozen(eq=False, repr=False)
class FieldProblem(Value):
    """One problem of a document. ``path``: from the root, as ``$.steps[0].id``."""

    path: str
    problem: str


@frozen(eq=False, repr=False)
class DecodeError(Value):
    """A document does not have the expected type."""

    type_name: str
    problems: tuple[FieldProblem, ...]

    @property
    def message(self) -> str:
        """One sentence that names each field, its value and what was expected."""
        problems = "; ".join(f"{p.path}: {p.problem}" for p in self.problems)
        return f"Not a valid {self.type_name}: {problems}"


@frozen(eq=False, repr=False)
class InvalidConfig(Value):
    """An option has an invalid value."""

    option: str
    value: str
    expected: str

    @property
    def message(self) -> str:
        """One sentence that names the option, its value and what was expected."""
        return f"{self.option}: got {self.value}, expected {self.expected.rstrip('.')}."


@frozen(eq=False, repr=False)
class ServiceMissing(Value):
    """A service is enabled, but none is provided.

    ``provider``: its place in the container.
    """

    service: str
    provider: str

    message = sentence(
        "{0.service} is enabled, but {0.provider} provides none: give it one or switch it off."
    )


@frozen(eq=False, repr=False)
class ServiceFailed(Value):
    """A guardrail, cost, verification or audit service failed."""

    message: str
    service: str
    operation: str


BudgetPeriod: TypeAlias = Literal["run", "day", "month"]
ConfigErrors: TypeAlias = DecodeError | InvalidConfig | ServiceMissing
