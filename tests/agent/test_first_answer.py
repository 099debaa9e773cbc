"""What a process imports until the first answer of the offline model, and what only when it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    *("dependency_injector.wiring", "fastapi", "litellm", "mcp", "opentelemetry", "pydantic", "regex"),
    *("rich", "sqlite3", "starlette", "typer", "werkzeug", "yaml", "reactive_agents.persona"),
    *("croniter", "cryptography", "dbos", "psycopg", "sqlalchemy"),  # of durable runs, as what follows
    *(
        "reactive_agents.kernel.call_parsing.parser",
        "reactive_agents.reasoning.structured_output.output_type",
        "reactive_agents.engine.handoffs",
        "reactive_agents.core.run_record",
        "reactive_agents.adapters.run_record",
        "reactive_agents.agent.runs",
        "reactive_agents.engine.durability",
    ),
)
MOST_MODULES = 440
"""A number to go down: what takes the time of a start is mostly that of its modules."""

FIRST_ANSWER = f"""
import sys
from reactive_agents import ReactiveAgents

agent = ReactiveAgents.create().with_model("offline").with_reasoning().build()
assert agent.run_sync("What is 17 * 23?").status
assert [name for name in {HEAVY} if name in sys.modules] == []
assert len(sys.modules) < {MOST_MODULES}, len(sys.modules)
"""

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
from reactive_agents import ReactiveAgents

assert gc.get_freeze_count()
"""

PROGRAMS = {
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
    done = subprocess.run([sys.executable, "-c", program, settings], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
