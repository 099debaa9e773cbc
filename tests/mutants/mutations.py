"""Mutants of the code: cosmic-ray's operators, where the code is more than a type."""

from __future__ import annotations

import ast
import difflib
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from attrs import frozen
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

OPERATORS = [
    name
    for name in operator_names()
    if not get_operator(name).arguments() and not name.endswith(("_Eq_Is", "_NotEq_IsNot"))
]
"""Without those whose mutants run like the code itself: equal texts and small numbers are one object."""


@frozen
class Mutant:
    """One fault that can be planted.

    Attributes:
        path: the file.
        operator: the name of cosmic-ray's operator.
        occurrence: which of the places where the operator applies in the file, from 0.
        line: the first line that it changes, from 1.
    """

    path: Path
    operator: str
    occurrence: int
    line: int

    def source(self) -> str:
        """Return the code of the file with the fault."""
        code, operator = self.path.read_text(encoding="utf-8"), get_operator(self.operator)()
        return str(mutate_code(code, operator, self.occurrence))

    def is_code(self) -> bool:
        """Whether it is Python: an operator may take a sign of another meaning for its own."""
        try:
            ast.parse(self.source())
        except SyntaxError:
            return False
        return True

    def diff(self) -> str:
        """Return the lines that differ."""
        before, after = self.path.read_text(encoding="utf-8").splitlines(), self.source().splitlines()
        changed = difflib.unified_diff(before, after, lineterm="", n=0)
        return "\n".join(line for line in changed if not line.startswith(("---", "+++", "@@")))


def mutants_of(path: Path) -> dict[tuple[int, int], list[Mutant]]:
    """The mutants of a file by the line and column of what they change, except for types."""
    code = path.read_text(encoding="utf-8")
    types = list(_places_of_types(ast.parse(code)))
    nodes = list(ast_nodes(get_ast(code)))
    found: dict[tuple[int, int], list[Mutant]] = {}
    for name in OPERATORS:
        operator = get_operator(name)()
        positions = (place for node in nodes for place in operator.mutation_positions(node))
        for occurrence, (start, _) in enumerate(positions):
            if not any(first <= start < last for first, last in types):
                found.setdefault(start, []).append(Mutant(path, name, occurrence, start[0]))
    return found


def sample(paths: Sequence[Path], count: int, seed: int) -> list[Mutant]:
    """Choose so many places in the files and one mutant of each, the same for the same seed and code."""
    chance = random.Random(seed)
    places = [mutants for path in sorted(paths) for _, mutants in sorted(mutants_of(path).items())]
    chance.shuffle(places)
    chosen = (next((each for each in chance.sample(of, len(of)) if each.is_code()), None) for of in places)
    return list(islice(filter(None, chosen), count))


def _places_of_types(module: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where types are written, whose changes no test can see: annotations, aliases, casts."""
    found: list[ast.AST | None] = []
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found += [
                    node.returns,
                    *(each for each in node.decorator_list if "overload" in ast.unparse(each)),
                ]
            case ast.arg():
                found.append(node.annotation)
            case ast.AnnAssign():
                alias = "TypeAlias" in ast.unparse(node.annotation)
                found.append(node if alias else node.annotation)
            case ast.Call(func=ast.Name("cast" | "TypeVar" | "NewType")):
                found += node.args[:1]
            case ast.ClassDef():
                found += node.bases
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                found.append(node)
    for each in found:
        if isinstance(each, ast.expr | ast.stmt):
            yield (each.lineno, each.col_offset), (each.end_lineno or 0, each.end_col_offset or 0)
