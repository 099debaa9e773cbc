"""The rules of the house that a machine can check."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import reactive_agents

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "reactive_agents"
SOURCES = sorted(PACKAGE.rglob("*.py"))
LONGEST_FILE = 500

every_source = pytest.mark.parametrize(
    "source", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in SOURCES]
)


def test_the_package_under_test_is_the_one_beside_the_tests() -> None:
    assert Path(str(reactive_agents.__file__)).parent == PACKAGE
    assert len(SOURCES) > 100


def test_an_import_only_points_down() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    linted = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert f"Contracts: {len(contracts)} kept, 0 broken." in linted.stdout


@every_source
def test_files_stay_small(source: Path) -> None:
    assert len(source.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


@every_source
def test_what_is_public_says_what_it_is_for(source: Path) -> None:
    if source.name.startswith("_") and source.name != "__init__.py":
        return
    module = ast.parse(source.read_text(encoding="utf-8"))
    if module.body:
        assert ast.get_docstring(module), "the module has no docstring"
    assert [definition.name for definition in public_definitions(module) if not documented(definition)] == []


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public_definitions(holder: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """Public classes and functions, and the public methods of public classes."""
    for node in holder.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node)


def documented(definition: Definition) -> bool:
    """Whether it has a docstring; further signatures of an overloaded function need none."""
    decorators = [ast.unparse(each).rpartition(".")[2] for each in definition.decorator_list]
    return bool(ast.get_docstring(definition)) or bool({"overload", "setter"} & set(decorators))


@every_source
def test_nothing_is_left_to_be_done(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert [mark for mark in ("TODO", "FIXME", "XXX") if mark in text] == []


@pytest.mark.parametrize(
    "source",
    [path for path in SOURCES if ">>>" in path.read_text(encoding="utf-8")],
    ids=lambda path: path.stem,
)
def test_examples_in_docstrings_are_true(source: Path) -> None:
    name = ".".join(source.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted > 0
    assert outcome.failed == 0


SLOW_TO_IMPORT = ("aiohttp", "dependency_injector", "httpx", "litellm", "pydantic", "rich", "typer")

PURE_ROOMS = (
    "core.codec",
    "core.config",
    "core.events",
    "kernel",
    "reasoning",
    "engine",
    "persona",
    "ports",
    "effects",
)


@pytest.mark.parametrize(
    "statement",
    [
        "import reactive_agents",
        "import " + ", ".join(f"reactive_agents.{room}" for room in PURE_ROOMS),
        "import reactive_agents.adapters.system, reactive_agents.adapters.telemetry.event_bus",
    ],
    ids=["the package", "the pure rooms", "the adapters of the core layer"],
)
def test_importing_loads_no_service_library(statement: str) -> None:
    script = f"{statement}\nimport sys\nprint([name for name in {SLOW_TO_IMPORT!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


PURE = ("effects.py", "core", "ports", "kernel", "reasoning", "engine", "persona")

WORLDLY = {
    "asyncio",
    "io",
    "os",
    "random",
    "secrets",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "time",
    "uuid",
}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(path, id=str(path.relative_to(ROOT)))
        for path in SOURCES
        if path.relative_to(PACKAGE).parts[0] in PURE
    ],
)
def test_the_pure_rooms_reach_for_no_clock_no_chance_and_no_files(source: Path) -> None:
    module = ast.parse(source.read_text(encoding="utf-8"))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(module)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
        )
    }
    # time limits are kept in one place; whether a cancellation is the task's own, only asyncio knows
    allowed = {"asyncio", "time"} if source.name == "effects.py" else set()
    assert imported & WORLDLY == allowed
    called = {ast.unparse(node.func) for node in ast.walk(module) if isinstance(node, ast.Call)}
    assert called & {"open", "print", "input", "datetime.now", "datetime.utcnow", "datetime.today"} == set()
