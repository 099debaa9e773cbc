"""What is wrong with a configuration or another document."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen


@frozen
class FieldProblem:
    """What is wrong at one place of a document. ``path``: from the root ``$``, as in ``$.steps[0].id``."""

    path: str
    problem: str


@frozen
class DecodeError:
    """A document is not of the type that it should be."""

    type_name: str
    problems: tuple[FieldProblem, ...]

    @property
    def message(self) -> str:
        """One sentence that names each field, its value and what was expected."""
        problems = "; ".join(f"{p.path}: {p.problem}" for p in self.problems)
        return f"Not a valid {self.type_name}: {problems}"


@frozen
class InvalidConfig:
    """An option has a value that it cannot have."""

    option: str
    value: str
    expected: str

    @property
    def message(self) -> str:
        """One sentence that names the option, its value and what was expected."""
        return f"{self.option}: got {self.value}, expected {self.expected.rstrip('.')}."


@frozen
class ServiceMissing:
    """A service is switched on, but none is provided. ``provider``: where the container expects it."""

    service: str
    provider: str

    @property
    def message(self) -> str:
        """One sentence that says how to mend it."""
        return f"{self.service} is enabled, but {self.provider} provides none: give it one or switch it off."


ConfigErrors: TypeAlias = DecodeError | InvalidConfig | ServiceMissing
