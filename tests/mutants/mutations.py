"""Mutants of the code: cosmic-ray's operators, where the code is more than a type."""

from __future__ import annotations

import ast
import difflib
import random
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path

from attrs import frozen
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

OPERATORS = [
    name
    for name in operator_names()
    if not get_operator(name).arguments()
    and not name.endswith(("_Eq_Is", "_NotEq_IsNot", "_Is_Eq", "_IsNot_NotEq"))
]
"""Without those whose mutants run like the code itself: equal texts, small numbers, None."""

UNSEEN = ("overload", "effect", "cache")
"""Decorators without which a function does the same: a forgotten ``@effect`` is accepted."""


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

    def is_fault(self) -> bool:
        """Whether it is other Python: an operator may take the star of a signature for its own."""
        try:
            mutated = ast.parse(self.source())
        except SyntaxError:
            return False
        before = ast.parse(self.path.read_text(encoding="utf-8"))
        return "ReplaceBinaryOperator" not in self.operator or _operators(before) != _operators(mutated)

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
    """Choose so many places in the files and one mutant of each.

    The choice follows from the seed and the text of each line, so that a change elsewhere leaves it as it is.
    """
    places: list[tuple[str, list[Mutant]]] = []
    for path in sorted(paths):
        lines = path.read_text(encoding="utf-8").splitlines()
        for (line, column), mutants in mutants_of(path).items():
            place = f"{seed} {path} {lines[line - 1]} {column}"
            places.append((sha256(place.encode()).hexdigest(), mutants))
    places.sort(key=lambda place: place[0])
    chosen = (_one_of(mutants, random.Random(key)) for key, mutants in places)
    return list(islice(filter(None, chosen), count))


def _one_of(mutants: list[Mutant], chance: random.Random) -> Mutant | None:
    return next((each for each in chance.sample(mutants, len(mutants)) if each.is_fault()), None)


def _operators(module: ast.Module) -> list[str]:
    nodes = (node for node in ast.walk(module) if isinstance(node, ast.BinOp | ast.AugAssign))
    return [type(node.op).__name__ for node in nodes]


def _places_of_types(module: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where no test can see a change: annotations, aliases, casts, some decorators."""
    found: list[ast.AST | None] = []
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                unseen = [each for each in node.decorator_list if ast.unparse(each) in UNSEEN]
                found.append(node.returns)
                yield from (((each.lineno, 0), (each.lineno, each.col_offset)) for each in unseen)
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
