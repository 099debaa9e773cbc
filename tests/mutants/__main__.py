"""Plant a seeded sample of faults in the kernel and in planning, and count those that the tests find.

``python -m tests.mutants [--count 400] [--seed 14] [--first 1] [--processes 2]``

The tests run once to see which of them run which line. For each mutant a process of its own then runs the
nearest of the tests that run its line, and another one the rest if those pass; it stops at the first test
that fails. A mutant that no test fails for has survived. Each outcome is printed with the number of the
mutant in the sample, so that a run that was aborted can go on with ``--first`` and ``--keep-coverage``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.util
import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import attrs
import cattrs
import coverage
import hypothesis
import hypothesis.strategies
import pytest
import returns.future
import returns.result
import trio

from tests.mutants.mutations import Mutant, sample

LOADED_ONCE = (anyio, attrs, cattrs, hypothesis, returns, trio)
"""Libraries that the processes of all mutants share."""

ROOT = Path(__file__).parents[2]
PACKAGES = ("reactive_agents/kernel", "reactive_agents/reasoning/planning")
TESTS = (*PACKAGES, "tests/kernel", "tests/reasoning", "tests/agent", "property_tests")
DOCTESTS = ("--doctest-modules",)
DATA = ROOT / "build" / "mutants.coverage"
MOST_TESTS, NEAREST = 300, 12
PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
CPU_S, HANG_S = 120, 600
"""Bounds of one mutant, which may run for ever; one that does is found."""


# --- which tests run which line -------------------------------------------------------------------------


def record_coverage(tests: Sequence[str], processes: int) -> None:
    """Run the tests once, with the name of the running test beside each line that it runs."""
    DATA.parent.mkdir(exist_ok=True)
    DATA.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        f"--numprocesses={processes}",
        "--dist=loadfile",
        *DOCTESTS,
        *tests,
    ]
    sources = [f"--cov={package.replace('/', '.')}" for package in PACKAGES]
    covered = [*command, *sources, "--cov-context=test", "--cov-report=", "--cov-fail-under=0"]
    done = subprocess.run(covered, cwd=ROOT, env={**os.environ, "COVERAGE_FILE": str(DATA)}, check=False)
    if done.returncode:
        raise SystemExit("the tests must pass before mutants are planted")


class Coverage:
    """Which tests run which line."""

    def __init__(self) -> None:
        self._data = coverage.CoverageData(str(DATA))
        self._data.read()
        self._lines: dict[Path, Mapping[int, list[str]]] = {}
        self._sizes: Counter[str] = Counter()
        for measured in self._data.measured_files():
            for contexts in self._data.contexts_by_lineno(measured).values():
                self._sizes.update(contexts)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests to run for a mutant: nearest first, and among them those that run least else."""
        path = ROOT / mutant.path
        if path not in self._lines:
            self._lines[path] = self._data.contexts_by_lineno(str(path))
        lines = self._lines[path]
        running = {name for name in lines.get(mutant.line, []) if name}
        if not running:  # a line that runs at import, or one of several of a statement
            running = {name for names in lines.values() for name in names if name}
        names = {name.rpartition("|")[0] for name in running}
        size = {name: self._sizes[f"{name}|run"] for name in names}
        home = "tests/" + "/".join(mutant.path.parts[1:-1])
        return sorted(names, key=lambda name: (not name.startswith(home), size[name], name))[:MOST_TESTS]


# --- one mutant, in a process of its own ----------------------------------------------------------------


class _Planted(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from other code."""

    def __init__(self, name: str, path: Path, code: str) -> None:
        self._name, self._path, self._code = name, path, code

    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        package = self._path.name == "__init__.py"
        spec = importlib.util.spec_from_loader(fullname, self, origin=str(self._path), is_package=package)
        if spec is not None and package:
            spec.submodule_search_locations = [str(self._path.parent)]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(self._path)
        exec(compile(self._code, str(self._path), "exec"), vars(module))


class _Chosen:
    """Keeps the chosen tests, in their order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._place = {name: place for place, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._place), key=lambda item: self._place[item.nodeid]
        )


def run_planted(mutant: Mutant, tests: Sequence[str]) -> int:
    """Plant the fault in this process, run the tests, and return pytest's exit code, 0 if all passed."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    signal.alarm(HANG_S)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    name = ".".join(mutant.path.with_suffix("").parts).removesuffix(".__init__")
    sys.meta_path.insert(0, _Planted(name, ROOT / mutant.path, mutant.source()))
    importlib.import_module(name)  # so that pytest finds it when it collects the examples of its docstrings
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    quiet = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "-p", "no:faulthandler"]
    return int(pytest.main([*quiet, *DOCTESTS, *files], [_Chosen(tests)]))


# --- all of them ----------------------------------------------------------------------------------------


def outcomes(mutants: Mapping[int, Mutant], covered: Coverage, processes: int) -> dict[int, str]:
    """``killed``, ``survived`` or ``uncovered`` for each number; so many processes are run at once."""
    found: dict[int, str] = {}
    waiting = [(number, _portions(covered.tests_of(mutant))) for number, mutant in mutants.items()]
    running: dict[int, tuple[int, list[list[str]]]] = {}
    while waiting or running:
        while waiting and len(running) < processes:
            number, portions = waiting.pop(0)
            if portions:
                running[_start(mutants[number], portions[0])] = number, portions[1:]
            else:
                found[number] = _tell(number, mutants[number], "uncovered")
        if running:
            process, status = os.wait()
            number, portions = running.pop(process)
            code = os.waitstatus_to_exitcode(status)
            if code == pytest.ExitCode.INTERNAL_ERROR:
                raise SystemExit(f"the tests of mutant {number} cannot be run")
            passed = code in PASSED
            if passed and portions:
                waiting.insert(0, (number, portions))
            else:
                found[number] = _tell(number, mutants[number], "survived" if passed else "killed")
    return found


def _portions(tests: list[str]) -> list[list[str]]:
    return [portion for portion in (tests[:NEAREST], tests[NEAREST:]) if portion]


def _start(mutant: Mutant, tests: Sequence[str]) -> int:
    """Run the tests with the fault in a process of its own, and return its id."""
    if not (process := os.fork()):
        code = 1
        try:
            code = run_planted(mutant, tests)
        finally:
            os._exit(code)
    return process


def _tell(number: int, mutant: Mutant, outcome: str) -> str:
    print(f"{number} {outcome}: {mutant.path}:{mutant.line} ({mutant.operator})", flush=True)
    if outcome != "killed":
        print(f"{mutant.diff()}\n", flush=True)
    return outcome


def main() -> None:
    """Print the outcomes and the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--first", type=int, default=1, help="the number of the first that is run")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tests", nargs="+", default=TESTS)
    parser.add_argument("--keep-coverage", action="store_true", help="the tests and lines have not changed")
    options = parser.parse_args()
    if not (options.keep_coverage and DATA.exists()):
        record_coverage(options.tests, options.processes)
    files = [path for package in PACKAGES for path in Path(package).rglob("*.py")]
    numbered = dict(enumerate(sample(files, options.count, options.seed), start=1))
    chosen = {number: mutant for number, mutant in numbered.items() if number >= options.first}
    found = outcomes(chosen, Coverage(), options.processes)
    counts = Counter(found.values())
    score = counts["killed"] / len(found)
    print(f"{score:.1%} of {len(found)} mutants found: {dict(counts)}, seed {options.seed}")


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
