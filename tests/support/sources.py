"""The sources of the package, as rules for them need them; a process parses each once and keeps no trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "reactive_agents"
SOURCES = sorted(PACKAGE.rglob("*.py"))

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@frozen
class Source:
    """A module of the package.

    Attributes:
        imports: each import anywhere in it, as the module and the name that is taken from it, if any.
        import_lines: the lines of its import statements.
        called: the names that are called in it, with at most one dot.
        docstrings: the line and the text of each, that of the module first.
        classes: the names of its public classes.
        undocumented: its public definitions without a docstring.
    """

    lines: int
    imports: frozenset[tuple[str, str]]
    import_lines: int
    called: frozenset[str]
    docstrings: Sequence[tuple[int, str]]
    docstring: str | None
    classes: Sequence[str]
    undocumented: Sequence[str]


def module_name(source: Path) -> str:
    """Return the name by which a file is imported."""
    return ".".join(source.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def sources() -> dict[Path, Source]:
    """Each module of the package."""
    return {path: _read(path.read_text(encoding="utf-8")) for path in SOURCES}


def _read(text: str) -> Source:
    module = ast.parse(text)
    nodes = list(ast.walk(module))
    documented = [node for node in nodes if isinstance(node, ast.Module | Definition)]
    found = [(getattr(node, "lineno", 1), ast.get_docstring(node) or "") for node in documented]
    importing = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return Source(
        lines=len(text.splitlines()),
        imports=frozenset(each for node in importing for each in _imported(node)),
        import_lines=sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in importing),
        called=frozenset(_dotted(node.func) for node in nodes if isinstance(node, ast.Call)),
        docstrings=[(line, docstring) for line, docstring in found if docstring],
        docstring=ast.get_docstring(module),
        classes=[
            node.name
            for node in module.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        ],
        undocumented=[each.name for each in _public(module) if not _has_docstring(each)],
    )


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    for alias in node.names:
        yield (alias.name, "") if isinstance(node, ast.Import) else (node.module or "", alias.name)


def _dotted(called: ast.expr) -> str:
    match called:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return f"{name}.{attribute}"
    return ""


def _public(holder: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """Public classes and functions, and the public methods of public classes."""
    for node in holder.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node)


def _has_docstring(definition: Definition) -> bool:
    """Whether it has a docstring; further signatures of an overloaded function need none."""
    decorators = [ast.unparse(each).rpartition(".")[2] for each in definition.decorator_list]
    return bool(ast.get_docstring(definition)) or bool({"overload", "setter"} & set(decorators))
