"""Plant a seeded sample of faults in the kernel and in planning, and count those that the tests find.

``python -m tests.mutants [--count 400] [--seed 14] [--processes 2]``

The tests run once to see which of them run which line. For each mutant a process of its own then runs the
tests that run its line, the nearest first, and stops at the first that fails. A mutant that no test fails for
has survived.
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
MOST_TESTS = 300
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


def outcomes(mutants: Sequence[Mutant], covered: Coverage, processes: int) -> dict[Mutant, str]:
    """``killed``, ``survived`` or ``uncovered`` for each mutant; so many of them are run at once."""
    found: dict[Mutant, str] = {}
    waiting, running = list(mutants), dict[int, Mutant]()
    while waiting or running:
        while waiting and len(running) < processes:
            mutant = waiting.pop(0)
            if not (tests := covered.tests_of(mutant)):
                found[mutant] = "uncovered"
                continue
            if not (process := os.fork()):
                code = 1
                try:
                    code = run_planted(mutant, tests)
                finally:
                    os._exit(code)
            running[process] = mutant
        if running:
            process, status = os.wait()
            mutant = running.pop(process)
            found[mutant] = "survived" if status == 0 else "killed"
            if status == 0:
                print(
                    f"{mutant.path}:{mutant.line} survived ({mutant.operator})\n{mutant.diff()}\n", flush=True
                )
    return found


def main() -> None:
    """Print the survivors and the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tests", nargs="+", default=TESTS)
    parser.add_argument("--keep-coverage", action="store_true", help="the tests and lines have not changed")
    options = parser.parse_args()
    if not (options.keep_coverage and DATA.exists()):
        record_coverage(options.tests, options.processes)
    files = [path for package in PACKAGES for path in Path(package).rglob("*.py")]
    found = outcomes(sample(files, options.count, options.seed), Coverage(), options.processes)
    counts = Counter(found.values())
    score = counts["killed"] / len(found)
    print(f"{score:.1%} of {len(found)} mutants found: {dict(counts)}, seed {options.seed}")


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
