"""The files of a deployment: what they say can be done, and is done with care. No container is run here."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from reactive_agents import read_config
from tests.support.command_line import parsed_command

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "deployment"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, with lines that go on joined."""
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def compose() -> dict[str, Any]:
    """The compose file, with its anchors resolved."""
    read = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    assert isinstance(read, dict)
    return read


def check_command(words: list[str]) -> None:
    """A command of reactive-agents has only options that there are, and the agent of the image."""
    known = {name for each in parsed_command(words[0]).params for name in each.opts}
    options = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
    assert options - known == set()
    assert "/etc/agents/clerk.toml" in words


def test_the_image_is_built_of_files_that_there_are_and_of_named_versions() -> None:
    given = instructions()
    stages = [rest.partition(" ")[0] for name, rest in given if name == "FROM"]
    assert all(re.fullmatch(r"python:3\.\d+-slim-\w+", each) for each in stages)
    for name, rest in given:
        assert name not in ("ADD", "MAINTAINER", "ARG")
        if name == "COPY" and "--from" not in rest:
            assert [each for each in rest.split()[:-1] if not (ROOT / each).exists()] == []
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (installed,) = re.findall(r'"\.\[([\w,]+)\]"', "\n".join(rest for _, rest in given))
    assert set(installed.split(",")) <= extras.keys()
    assert all("--no-cache-dir" in rest for _, rest in given if "pip install" in rest)


def test_the_image_runs_one_process_that_gets_the_signals_and_is_not_root() -> None:
    given = instructions()
    last = dict(given)
    assert last["USER"].isdecimal()
    assert int(last["USER"]) > 0
    assert last["STOPSIGNAL"] == "SIGTERM"
    entry, words = yaml.safe_load(last["ENTRYPOINT"]), yaml.safe_load(last["CMD"])
    assert entry == ["reactive-agents"]
    check_command(words)
    assert "--keys" in words
    health = yaml.safe_load(last["HEALTHCHECK"].partition("CMD ")[2])
    compile(health[2], "HEALTHCHECK", "exec")
    assert not re.search(r"KEY|TOKEN|PASSWORD|SECRET", last["ENV"])


def test_the_services_are_confined_and_hold_no_secret() -> None:
    services = compose()["services"]
    for name in ("web", "worker"):
        service = services[name]
        check_command(service["command"])
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["depends_on"]["db"]["condition"] == "service_healthy"
        assert not service.get("privileged", False)
    for service in services.values():
        secret = {k: v for k, v in service["environment"].items() if re.search("PASSWORD|KEY", k)}
        assert secret
        assert all(re.fullmatch(r"\$\{\w+:\?[\w' ]+\}", value) for value in secret.values())
        image = service.get("image", "a:1")
        assert ":" in image
        assert not image.endswith(":latest")
    named = {each.partition(":")[0] for service in services.values() for each in service["volumes"]}
    assert named == compose()["volumes"].keys()
    assert [each for service in services.values() for each in service.get("ports", [])] == [
        "127.0.0.1:8000:8000"
    ]
    (build,) = {each["build"]["dockerfile"] for each in services.values() if "build" in each}
    assert (ROOT / build).exists()


def test_a_container_has_longer_to_end_than_its_runs() -> None:
    web = compose()["services"]["web"]
    (drain,) = (word for word in web["command"] if word.startswith("--drain="))
    assert int(web["stop_grace_period"].removesuffix("s")) >= int(drain.partition("=")[2]) + 10


def test_the_server_and_its_workers_have_one_record_and_one_queue() -> None:
    services = compose()["services"]
    for option in ("--runs", "--queue"):
        found = [[w for w in services[n]["command"] if w.startswith(option)] for n in ("web", "worker")]
        assert found[0] == found[1] != []
    runs = next(word for word in services["web"]["command"] if word.startswith("--runs"))
    database = services["db"]["environment"]
    assert runs == f"--runs=postgresql://{database['POSTGRES_USER']}@db/{database['POSTGRES_DB']}"


def test_the_agent_of_the_image_is_one() -> None:
    config = read_config(FOLDER / "clerk.toml").unwrap()
    assert (config.name, config.model.model) == ("clerk", "openai/gpt-4o-mini")


@pytest.mark.parametrize("line", re.findall(r"^\$ (.+)$", (ROOT / "docs/serving.md").read_text(), re.M))
def test_each_command_of_the_page_is_one_of_known_programs(line: str) -> None:
    assert shlex.split(line)[0] in ("reactive-agents", "docker")
