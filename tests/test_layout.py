"""Rules of the code base that a machine can check: docstrings, examples, directions of imports."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import reactive_agents
from reactive_agents.core.values import lazy_pattern
from tests.support.sources import PACKAGE, ROOT, SOURCES, module_name, sources

SourceCheck = Callable[[Path], None]


def check_each(subtests: pytest.Subtests, sources: Iterable[Path], check: SourceCheck) -> None:
    """Check each file; one that fails does so by its path, and the others are checked as well."""
    for source in sources:
        with subtests.test(str(source.relative_to(ROOT))):
            check(source)


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


MODULES = {module_name(path): path for path in SOURCES}


def modules_imported_in(source: Path) -> set[str]:
    """The modules of the package that are named in import statements."""
    named = (
        (module, f"{module}.{name}") if name else (module, module)
        for module, name in sources()[source].imports
    )
    return {full if full in MODULES else module for module, full in named}


def circles_of(imports: dict[str, set[str]]) -> list[str]:
    """The modules that cannot be ordered so that each imports only those before it."""
    waiting = {name: (needed & imports.keys()) - {name} for name, needed in imports.items()}
    while free := [name for name, needed in waiting.items() if not needed & waiting.keys()]:
        for name in free:
            del waiting[name]
    return sorted(waiting)


def test_no_modules_import_each_other_for_types_or_in_functions_either() -> None:
    imports = {name: modules_imported_in(path) for name, path in MODULES.items()}
    assert sum(map(len, imports.values())) > 1_000
    assert circles_of(imports) == []
    assert circles_of({**imports, "reactive_agents.core.ids": {"reactive_agents.containers.runtime"}}) != []


def test_modules_are_few_and_little_of_them_is_imports() -> None:
    lines = sum(each.lines for each in sources().values())
    imports = sum(each.import_lines for each in sources().values())
    assert len(SOURCES) < 320, f"{len(SOURCES)} modules: put what is new into the module of its subject"
    assert imports / lines < 0.08, (
        f"{imports} of {lines} lines: import a module where many of its names are used"
    )


def test_what_is_public_has_a_docstring() -> None:
    without = {
        path: [*([] if source.docstring else ["the module"]), *source.undocumented]
        for path, source in sources().items()
        if source.lines and (path.name == "__init__.py" or not path.name.startswith("_"))
    }
    assert {path: names for path, names in without.items() if names} == {}


def test_nothing_is_marked_as_unfinished() -> None:
    mark = re.compile("TODO|FIXME|XXX")
    assert [path for path in SOURCES if mark.search(path.read_text(encoding="utf-8"))] == []


def test_examples_in_docstrings_are_true(subtests: pytest.Subtests) -> None:
    def check(source: Path) -> None:
        outcome = doctest.testmod(importlib.import_module(module_name(source)))
        assert outcome.attempted > 0
        assert outcome.failed == 0

    with_examples = [path for path in SOURCES if ">>>" in path.read_text(encoding="utf-8")]
    assert with_examples
    check_each(subtests, with_examples, check)


SLOW_TO_IMPORT = ("aiohttp", "dependency_injector", "httpx", "litellm", "pydantic", "rich", "typer")

PURE_PACKAGES = (
    "core.codec",
    "core.config",
    "core.events",
    "kernel",
    "reasoning",
    "engine",
    "persona",
    "ports",
    "effects",
    "event_loop",
)


@pytest.mark.system
@pytest.mark.parametrize(
    "statement",
    [
        "import reactive_agents",
        "import " + ", ".join(f"reactive_agents.{package}" for package in PURE_PACKAGES),
        "import reactive_agents.adapters.system, reactive_agents.adapters.telemetry.event_bus",
        "from reactive_agents import ReactiveAgents\n"
        "ReactiveAgents.create().with_model('offline').with_reasoning().with_memory().to_config()",
    ],
    ids=["the package", "the pure packages", "the adapters of the core layer", "a description of an agent"],
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


def test_patterns_that_are_compiled_at_their_first_use_can_be(subtests: pytest.Subtests) -> None:
    def check(source: Path) -> None:
        module = importlib.import_module(module_name(source))
        lazy = [each for each in vars(module).values() if type(each) is lazy_pattern]
        assert lazy
        for pattern in lazy:
            re.compile(pattern.pattern, pattern.flags)

    with_patterns = [path for path in SOURCES if " = lazy_pattern(" in path.read_text(encoding="utf-8")]
    assert with_patterns
    check_each(subtests, with_patterns, check)


PURE = ("event_loop.py", "effects.py", "core", "ports", "kernel", "reasoning", "engine", "persona")

IMPURE = {
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

ALLOWED = {
    "effects.py": {"asyncio"},  # which alone knows whether a cancellation is the task's own
    # of time limits, and of a forked process, which does not run the loop of its parent and has another id
    "event_loop.py": {"asyncio", "os", "time"},
}


READING = {"open", "print", "input", "datetime.now", "datetime.utcnow", "datetime.today"}


def test_the_pure_packages_use_no_clock_no_randomness_and_no_files() -> None:
    pure = {path: each for path, each in sources().items() if path.relative_to(PACKAGE).parts[0] in PURE}
    assert len(pure) > 100
    for path, source in pure.items():
        packages = {module.partition(".")[0] for module, _ in source.imports}
        assert packages & IMPURE == ALLOWED.get(path.name, set()), path
        assert source.called & READING == set(), path


TIMERS = re.compile(r"\b(?:perf_counter|process_time|thread_time|fail_after)\b|wait_for\(|deadline=None")
TIMED = ("benchmarks", "lab", "test_layout.py", "profiles.py")


def test_no_test_measures_time_or_has_a_limit_of_its_own() -> None:
    files = [path for folder in ("tests", "property_tests") for path in (ROOT / folder).rglob("*.py")]
    untimed = (path for path in files if not set(TIMED) & set(path.parts))
    found = {path: TIMERS.findall(path.read_text(encoding="utf-8")) for path in untimed}
    assert {path: timers for path, timers in found.items() if timers} == {}
