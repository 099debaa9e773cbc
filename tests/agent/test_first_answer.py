"""What a process imports until the first answer of the offline model, and what only when it is used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    *(
        "cattrs",
        "dependency_injector.wiring",
        "fastapi",
        "litellm",
        "mcp",
        "opentelemetry",
        "pydantic",
        "regex",
    ),
    *("rich", "sqlite3", "starlette", "typer", "werkzeug", "yaml", "reactive_agents.persona"),
    *("croniter", "cryptography", "dbos", "psycopg", "sqlalchemy"),  # of durable runs, as what follows
    *(
        "reactive_agents.adapters.governance.requests",
        "reactive_agents.core.control_events",
        "reactive_agents.core.governance",
        "reactive_agents.core.service_events",
        "reactive_agents.core.converter",
        "reactive_agents.core.memory",
        "reactive_agents.core.model_profiles",
        "reactive_agents.core.plans",
        "reactive_agents.core.run_errors",
        "reactive_agents.adapters.tools.mcp.server",
        "reactive_agents.adapters.tools.service",
        "reactive_agents.adapters.tools.schema",
        "reactive_agents.reasoning.controller",
        "reactive_agents.kernel.context_window.drop",
        "reactive_agents.kernel.context_window.summary",
        "reactive_agents.reasoning.structured_output.schema",
        "reactive_agents.kernel.call_parsing.parser",
        "reactive_agents.reasoning.structured_output.output_type",
        "reactive_agents.engine.handoffs",
        "reactive_agents.engine.requests",
        "reactive_agents.engine.run_tools",
        "reactive_agents.core.run_record",
        "reactive_agents.adapters.run_record",
        "reactive_agents.agent.runs",
        "reactive_agents.engine.durability",
        "reactive_agents.engine.recorded_answers",
        "reactive_agents.engine.run_journal",
    ),
)
NEEDED = ("PATH", "HOME", "LANG", "TMPDIR", "XDG_STATE_HOME")
"""Of the environment; a secret there is looked for in texts, by code that is imported for it."""
MOST_MODULES = 360
"""A number to go down: what takes the time of a start is mostly that of its modules."""
MOST_CLASSES = 215
"""Classes of values whose constructor attrs compiles, at 1 to 3 million instructions each."""
MOST_EQUALITIES = 3
"""Classes whose equality, hash and representation attrs compiles, at 1.5 million instructions each."""
MOST_PATTERNS = 90
"""Regular expressions that were compiled by then; the others of the package wait for their first use."""

FIRST_ANSWER = f"""
import re._compiler, sys

of_python = set(sys.modules)
compiled, compile_pattern = [], re._compiler.compile
re._compiler.compile = lambda *given: compiled.append(given) or compile_pattern(*given)

from reactive_agents import ReactiveAgents

agent = ReactiveAgents.create().with_model("offline").with_reasoning().build()
assert agent.run_sync("What is 17 * 23?").status
assert [name for name in {HEAVY} if name in sys.modules] == []
imported = sys.modules.keys() - of_python
assert len(imported) < {MOST_MODULES}, len(imported)
assert len(compiled) < {MOST_PATTERNS}, len(compiled)
classes = {{
    each
    for name, module in list(sys.modules.items())
    if name.startswith("reactive_agents")
    for each in vars(module).values()
    if isinstance(each, type) and each.__module__ == name and "__attrs_attrs__" in vars(each)
}}
written = [each.__qualname__ for each in classes if "__eq__" in vars(each)]
assert 100 < len(classes) < {MOST_CLASSES}, len(classes)
assert len(written) <= {MOST_EQUALITIES}, written
"""

MOST_OF_IMPORT = 355
"""Modules that the import of the builder loads, those of Python included; it is at 337."""
IMPORT = f"""
import sys

of_python = set(sys.modules)

import reactive_agents

loaded = {{name for name in sys.modules.keys() - of_python if name.startswith("reactive_agents")}}
assert loaded == {{"reactive_agents", "reactive_agents.core", "reactive_agents.lazy_imports"}}, loaded

from reactive_agents import ReactiveAgents

imported = sys.modules.keys() - of_python
assert len(imported) <= {MOST_OF_IMPORT}, len(imported)
packages = {{name.partition(".")[0] for name in imported}} - sys.stdlib_module_names
expected = {{"anyio", "attr", "attrs", "returns", "sniffio", "typing_extensions", "ulid_transform"}}
packages.remove("reactive_agents")
assert packages <= expected, packages - expected
"""
"""Stands for the time of ``import reactive_agents; ReactiveAgents``, which is to stay below 250 ms."""

INJECTOR = """
import gc, sys
import reactive_agents.containers
from dependency_injector import containers, providers

assert gc.isenabled()
config = providers.Configuration()
config.from_yaml(sys.argv[1])
assert config.place() == "here"

from pydantic_settings import BaseSettings

class Settings(BaseSettings):
    place: str = "there"

config.from_pydantic(Settings())
assert config.place() == "there"
try:
    config.from_pydantic(object())
except Exception as error:
    assert "Unable to recognize settings" in str(error)
else:
    raise AssertionError

import yaml
from dependency_injector.wiring import Provide, inject

assert yaml.safe_load("a: 1") == yaml.load("a: 1", providers.YamlLoader) == {"a": 1}

class Container(containers.DeclarativeContainer):
    value = providers.Object(5)

@inject
def injected(value: int = Provide[Container.value]) -> int:
    return value

container = Container()
container.wire(modules=[__name__])
assert injected() == 5
container.unwire()
"""

GARBAGE = """
import gc
from reactive_agents import ReactiveAgents

def young():
    return len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1))

assert young() < 2_000
ReactiveAgents.create().with_model("offline").build()
assert gc.isenabled() and not gc.get_freeze_count()
gc.set_threshold(0)
before = young()
agents = [ReactiveAgents.create().with_model("offline").build() for _ in range(10)]
assert young() - before > 1_000  # those of agents are not
"""

FROZEN = """
import gc
gc.freeze()
count, counted = gc.get_freeze_count, []
gc.get_freeze_count = lambda: counted.append(True) or count()
from reactive_agents import ReactiveAgent, ReactiveAgents, tool

assert count()
assert len(counted) == 1  # one by one, which takes a while
"""

PROGRAMS = {
    "the import": IMPORT,
    "the first answer": FIRST_ANSWER,
    "dependency-injector": INJECTOR,
    "objects of imports are old": GARBAGE,
    "what was frozen stays frozen": FROZEN,
}


@pytest.mark.system
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_what_is_not_needed_is_imported_when_it_is(program: str, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yml"
    settings.write_text("place: here\n")
    command = [sys.executable, "-c", program, str(settings)]
    alone = {name: value for name, value in os.environ.items() if name in NEEDED}
    done = subprocess.run(command, capture_output=True, text=True, env=alone)
    assert done.returncode == 0, done.stderr
