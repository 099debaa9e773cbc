"""The file of model profiles: merged findings, several writers, foreign and newer files."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from returns.result import Failure, Success

from reactive_agents.adapters.llm.profiled_llm import SqliteModelProfiles, find_profile
from reactive_agents.adapters.llm.providers import server_address
from reactive_agents.adapters.system import state_directory
from reactive_agents.core.model_profiles import PROBE_SUBJECTS, ModelProfile, ProbeFinding, ProbeSubject
from reactive_agents.effects import attempt
from tests.support.sqlite_files import sqlite_file

AT = datetime(2026, 1, 1, tzinfo=UTC)


def profile_with(*known: ProbeSubject, model: str = "openai/small") -> ModelProfile:
    findings = (
        ProbeFinding(subject, "yes" if subject in known else "not known", "", AT)
        for subject in PROBE_SUBJECTS
    )
    return ModelProfile(model, "", tuple(findings))


def save(path: Path, profile: ModelProfile) -> ModelProfile:
    async def work() -> ModelProfile:
        store = SqliteModelProfiles(path)
        saved = await attempt(store.save(profile))
        await store.aclose()
        return saved.unwrap()

    return anyio.run(work)


def test_writers_side_by_side_lose_no_finding(tmp_path: Path) -> None:
    path = tmp_path / "models.db"
    writers = [
        threading.Thread(target=save, args=(path, profile_with(subject))) for subject in PROBE_SUBJECTS
    ]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    stored = find_profile(path, "openai/small", "").unwrap()
    assert stored is not None
    assert stored.complete


def test_each_model_and_address_has_its_own(tmp_path: Path) -> None:
    path = tmp_path / "models.db"
    save(path, profile_with("answer"))
    save(path, profile_with("numbers", model="openai/large"))
    assert find_profile(path, "openai/small", "") == Success(profile_with("answer"))
    assert find_profile(path, "openai/large", "") == Success(profile_with("numbers", model="openai/large"))
    assert find_profile(path, "openai/small", "http://other") == Success(None)


def test_a_file_that_is_missing_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "models.db"
    assert find_profile(path, "openai/small", "") == Success(None)
    assert not path.exists()
    assert find_profile(":memory:", "openai/small", "") == Success(None)


def test_foreign_files_and_damaged_profiles_are_failures_and_stay_as_they_are(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    with sqlite_file(foreign) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = foreign.read_bytes()
    failed = find_profile(foreign, "openai/small", "")
    assert isinstance(failed, Failure)
    assert "another program" in failed.failure().message
    assert foreign.read_bytes() == before

    path = tmp_path / "models.db"
    save(path, profile_with("answer"))
    with sqlite_file(path) as connection:
        connection.execute("UPDATE model_profiles SET body = '{\"model\": 3}'")
    failed = find_profile(path, "openai/small", "")
    assert isinstance(failed, Failure)
    assert "openai/small" in failed.failure().message
    assert save(path, profile_with("answer")) == profile_with("answer")  # a new probe replaces it


@pytest.mark.parametrize(
    ("model", "base_url", "environment", "address"),
    [
        ("openai/m", None, {}, ""),
        ("openai/m", "http://user:secret@Host:80/v1/", {}, "http://host:80/v1"),
        ("openai/m", None, {"OPENAI_BASE_URL": "http://proxy/v1"}, "http://proxy/v1"),
        ("ollama_chat/m", None, {"OLLAMA_API_BASE": "http://box:11434"}, "http://box:11434"),
        ("openai/m", "http://[broken", {}, ""),
    ],
)
def test_the_address_has_no_credentials(
    model: str, base_url: str | None, environment: dict[str, str], address: str
) -> None:
    assert server_address(model, base_url, environment) == address


def test_the_state_directory_is_that_of_the_platform() -> None:
    home = {"HOME": "/home/ada"}
    assert state_directory(home, "linux") == Path("/home/ada/.local/state/reactive-agents")
    assert state_directory({**home, "XDG_STATE_HOME": "/s"}, "linux") == Path("/s/reactive-agents")
    assert state_directory(home, "darwin").parts[-2:] == ("Application Support", "reactive-agents")
    assert state_directory({"LOCALAPPDATA": "/local"}, "win32") == Path("/local/reactive-agents")
