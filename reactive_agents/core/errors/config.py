"""Errors of configurations and other documents."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen


@frozen
class FieldProblem:
    """One problem of a document. ``path``: from the root, as ``$.steps[0].id``."""

    path: str
    problem: str


@frozen
class DecodeError:
    """A document does not have the expected type."""

    type_name: str
    problems: tuple[FieldProblem, ...]

    @property
    def message(self) -> str:
        """One sentence that names each field, its value and what was expected."""
        problems = "; ".join(f"{p.path}: {p.problem}" for p in self.problems)
        return f"Not a valid {self.type_name}: {problems}"


@frozen
class InvalidConfig:
    """An option has an invalid value."""

    option: str
    value: str
    expected: str

    @property
    def message(self) -> str:
        """One sentence that names the option, its value and what was expected."""
        return f"{self.option}: got {self.value}, expected {self.expected.rstrip('.')}."


@frozen
class ServiceMissing:
    """A service is enabled, but none is provided.

    ``provider``: its place in the container.
    """

    service: str
    provider: str

    @property
    def message(self) -> str:
        """One sentence that says how to fix it."""
        return f"{self.service} is enabled, but {self.provider} provides none: give it one or switch it off."


ConfigErrors: TypeAlias = DecodeError | InvalidConfig | ServiceMissing
