"""dependency-injector is imported without the libraries that it only asks about, and works with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from reactive_agents import ReactiveAgents

agent = ReactiveAgents.create().with_model("offline").with_reasoning().build()
assert agent.run_sync("What is 17 * 23?").status
heavy = {"litellm", "mcp", "pydantic", "pydantic_settings", "regex", "rich", "starlette", "typer", "yaml"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)

from dependency_injector import providers
from dependency_injector.wiring import inject

config = providers.Configuration()
config.from_yaml("settings.yml")
assert config() == {"a": 1}, config()

import yaml
from pydantic_settings import BaseSettings

class Settings(BaseSettings):
    b: int = 2

config.from_yaml("settings.yml", loader=yaml.SafeLoader)
config.from_pydantic(Settings())
assert config() == {"a": 1, "b": 2}, config()
try:
    config.from_pydantic(3)
except Exception as error:
    assert "Unable to recognize settings instance" in str(error), error
else:
    raise AssertionError("took a number for settings")
assert issubclass(Settings, BaseSettings) and yaml.load("[1]", yaml.SafeLoader) == [1]
"""


def test_libraries_that_are_only_asked_about_are_imported_by_those_who_use_them(tmp_path: Path) -> None:
    (tmp_path / "settings.yml").write_text("a: 1\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
