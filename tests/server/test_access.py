"""API keys in a file, and the limits of each."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_agents import ReactiveAgents
from reactive_agents.server import ApiKeys, KeyLimits, Principal, create_app
from reactive_agents.server.access import KeyUse, UseOfKeys
from reactive_agents.server.web import Problem
from reactive_agents.testing import ScriptedLLM, say


@pytest.fixture
def keys(tmp_path: Path) -> ApiKeys:
    return ApiKeys(tmp_path / "keys.json")


def test_a_key_tells_whose_it_is_and_is_not_in_its_file(keys: ApiKeys, tmp_path: Path) -> None:
    key, stored = keys.create("Ada's laptop", agents=["clerk"], user="ada")
    assert keys.find(key) == Principal(stored.id, frozenset({"clerk"}), "ada", KeyLimits())
    path = tmp_path / "keys.json"
    secret = key.partition(f"{stored.id}_")[2]
    assert secret
    assert secret not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["keys.json"]


def test_nobody_else_can_replace_a_file_in_a_new_folder(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ApiKeys(tmp_path / "new" / "keys.json").create("one")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_no_other_text_is_a_key(keys: ApiKeys) -> None:
    key, stored = keys.create("one")
    other, _ = keys.create("two")
    spoiled = f"ra_{stored.id}_{other.split('_', 2)[2]}"
    for text in ("", "ra", f"ra_{stored.id}", f"ra_{stored.id}_", key[:-1], key + "x", key.upper(), spoiled):
        assert keys.find(text) is None


@given(st.text())
def test_no_text_at_all_is_a_key_where_there_are_none(text: str) -> None:
    assert ApiKeys("no-such-folder/keys.json").find(text) is None


@pytest.mark.parametrize("user", ["", " ", "."])
def test_no_key_is_made_for_a_user_that_no_run_can_have(keys: ApiKeys, user: str) -> None:
    with pytest.raises(ValueError, match="user: got"):
        keys.create("one", user=user)


def test_a_revoked_key_ends_with_the_next_request(keys: ApiKeys, tmp_path: Path) -> None:
    key, stored = keys.create("one")
    serving = ApiKeys(tmp_path / "keys.json")
    assert serving.find(key) is not None
    assert keys.revoke(stored.id)
    assert serving.find(key) is None
    (revoked,) = keys.list()
    assert keys.revoke(stored.id)
    assert keys.list() == (revoked,), "it was revoked then, not now"
    assert not keys.revoke("nobody")
    assert not ApiKeys(tmp_path / "misspelt.json").revoke(stored.id)
    assert not (tmp_path / "misspelt.json").exists()
    assert revoked.revoked_at is not None


def test_all_entries_of_an_id_are_revoked(keys: ApiKeys, tmp_path: Path) -> None:
    """Else the last one, which counts, may be one that is not."""
    key, stored = keys.create("one")
    path = tmp_path / "keys.json"
    (entry,) = json.loads(path.read_text())["keys"]
    path.write_text(json.dumps({"keys": [entry, entry]}))
    serving = ApiKeys(path)
    assert serving.find(key) is not None
    assert keys.revoke(stored.id)
    assert serving.find(key) is None


def test_a_key_ends_at_its_time(keys: ApiKeys) -> None:
    now = datetime.now(UTC)
    ended, _ = keys.create("old", expires_at=now - timedelta(seconds=1))
    going, _ = keys.create("new", expires_at=now + timedelta(days=1))
    assert keys.find(ended) is None
    assert keys.find(going) is not None


@pytest.mark.parametrize("content", [None, "", "{}x", '{"keys": [1]}'], ids=str)
def test_a_file_that_cannot_be_read_any_more_admits_its_keys_a_minute_longer(
    keys: ApiKeys,
    tmp_path: Path,
    content: str | None,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, path = [5.0], tmp_path / "keys.json"
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    key, stored = keys.create("one")
    assert keys.find(key) is not None
    before = path.read_text()
    path.unlink() if content is None else path.write_text(content)
    for clock[0] in (10.0, 64.0):
        assert keys.find(key) is not None
        assert keys.holds(stored.id)
        assert not keys.is_readable
    assert ApiKeys(path).find(key) is None
    clock[0] = 65.0
    assert not keys.holds(stored.id)
    assert keys.find(key) is None
    told = [(each.levelname, each.message.partition(":")[0]) for each in caplog.records]
    wanted = [
        ("WARNING", "The keys are admitted up to 60 s more"),
        ("ERROR", "No key is admitted"),  # of the other process
        ("ERROR", "No key is admitted"),
    ]
    assert told == wanted, "each once, not for each request"
    path.write_text(before)
    assert keys.find(key) is not None


def test_a_key_that_was_revoked_while_nobody_came_is_refused_although_its_file_is_gone(
    keys: ApiKeys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, path = [5.0], tmp_path / "keys.json"
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    key, stored = keys.create("one")
    assert keys.find(key) is not None
    ApiKeys(path).revoke(stored.id)
    path.unlink()
    clock[0] = 3_600.0
    assert keys.find(key) is None


@pytest.mark.parametrize("name", ["requests_per_minute", "body_bytes", "body_s", "run_s"])
def test_a_limit_with_which_nothing_can_be_asked_is_refused(
    keys: ApiKeys, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    with pytest.raises(ValueError, match=f"'{name}' must be > 0: 0"):
        KeyLimits(**{name: 0})
    key, _ = keys.create("one")
    path = tmp_path / "keys.json"
    document = json.loads(path.read_text())
    document["keys"][0]["limits"][name] = 0
    path.write_text(json.dumps(document))
    assert keys.find(key) is None
    assert name in caplog.text


@pytest.mark.parametrize(("name", "value"), [("expires_at", "2030-01-01T00:00:00"), ("digest", "é" * 64)])
def test_a_key_that_cannot_be_compared_is_refused(
    keys: ApiKeys, tmp_path: Path, name: str, value: str
) -> None:
    key, _ = keys.create("one")
    path = tmp_path / "keys.json"
    document = json.loads(path.read_text())
    document["keys"][0][name] = value
    path.write_text(json.dumps(document))
    assert ApiKeys(path).find(key) is None


def test_a_key_whose_end_has_no_zone_is_not_made(keys: ApiKeys) -> None:
    with pytest.raises(ValueError, match="expires_at: got 2030-01-01T00:00:00, expected a time"):
        keys.create("one", expires_at=datetime(2030, 1, 1))


def test_a_key_that_is_spoiled_in_the_file_stays_as_it_was_and_the_others_are_as_they_are_now(
    keys: ApiKeys, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (spoiled, one), (revoked, _), (other, _) = map(keys.create, ("one", "two", "three"))
    serving = ApiKeys(tmp_path / "keys.json")
    assert serving.find(spoiled) is not None
    path = tmp_path / "keys.json"
    document = json.loads(path.read_text())
    document["keys"][0]["limits"]["run_s"] = 0
    document["keys"][1]["revoked_at"] = "2026-01-01T00:00:00Z"
    path.write_text(json.dumps(document))
    found = [serving.find(each) for each in (spoiled, revoked, other)]
    assert [each is not None for each in found] == [True, False, True]
    (record,) = caplog.records
    told = (
        f"{path}: the key {one.id!r} is wrong: Not a valid StoredKey: $.limits.run_s: 'run_s' must be > 0: 0"
    )
    assert record.levelname == "WARNING"
    assert record.message.startswith(told)
    assert record.message.endswith("'run_s' must be > 0: 0.0 It stays as it was.")
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("Hello."))).build()
    with pytest.raises(ValueError, match=re.escape(told)):
        create_app(agent, keys=str(path))
    document["keys"][0]["revoked_at"] = "yesterday"  # whatever this means, it is not to be used any more
    path.write_text(json.dumps(document))
    assert serving.find(spoiled) is None
    assert caplog.messages[-1].endswith("It is refused.")
    path.unlink()
    create_app(agent, keys=str(path))  # it may be made later


def test_a_file_of_something_else_is_not_overwritten(keys: ApiKeys, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"name": "my agent"}))
    with pytest.raises(ValueError, match="not a key file"):
        keys.create("one")
    assert json.loads(path.read_text()) == {"name": "my agent"}


def test_keys_that_are_made_and_revoked_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    first, stored = ApiKeys(path).create("first")

    def change(number: int) -> None:
        if number == 7:
            ApiKeys(path).revoke(stored.id)
        else:
            ApiKeys(path).create(f"key {number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(24)))
    found = ApiKeys(path).list()
    assert len(found) == 24
    assert ApiKeys(path).find(first) is None


# --- scopes and limits ----------------------------------------------------------------------------------

names = st.text(max_size=5)


@given(st.none() | names, st.none() | names)
def test_a_key_of_a_user_acts_for_and_reads_that_user_alone(own: str | None, other: str | None) -> None:
    principal = Principal("k", user=own)
    if own is not None and other not in (None, own):
        with pytest.raises(Problem, match="may not act"):
            principal.acts_for(other)
    else:
        assert principal.acts_for(other) == (other if own is None else own)
        assert principal.may_read(other if own is None else own)
    assert principal.may_read(other) == (own is None or own == other)


def test_requests_beyond_the_rate_are_refused_until_time_has_passed() -> None:
    now = [0.0]
    uses, principal = UseOfKeys(lambda: now[0]), Principal("k", limits=KeyLimits(requests_per_minute=6))
    for _ in range(6):
        uses.count_request(principal)
    with pytest.raises(Problem) as refused:
        uses.count_request(principal)
    assert (refused.value.status, refused.value.headers) == (429, {"retry-after": "11"})
    uses.count_request(Principal("another"))
    now[0] = 10.5
    uses.count_request(principal)
    with pytest.raises(Problem):
        uses.count_request(principal)


def test_users_who_use_nothing_any_more_are_forgotten() -> None:
    now = [0.0]
    uses, limits = UseOfKeys(lambda: now[0]), KeyLimits(requests_per_minute=1, runs=1)
    busy = Principal("busy", limits=limits)
    uses.begin(busy, "runs")
    kept = WeakSet[KeyUse]()
    for number in range(5_000):
        now[0] += 1.0
        user = Principal(f"user-{number}", limits=limits)
        uses.count_request(user)
        kept.add(uses.of(user))
    with pytest.raises(Problem, match="1 requests a minute"):
        uses.count_request(Principal("user-4999", limits=limits))
    with pytest.raises(Problem, match="1 runs"):
        uses.begin(busy, "runs")
    assert len(kept) <= 1_000


def test_users_without_keys_have_limits_of_their_own() -> None:
    uses, limits = UseOfKeys(), KeyLimits(runs=1)
    uses.begin(Principal(user="ada", limits=limits), "runs")
    uses.begin(Principal(user="eve", limits=limits), "runs")
    with pytest.raises(Problem, match="at the same time"):
        uses.begin(Principal(user="ada", limits=limits), "runs")


@given(st.lists(st.sampled_from(["runs", "streams", "end"]), max_size=40))
def test_no_more_than_the_limit_is_under_way(steps: list[str]) -> None:
    uses, principal = UseOfKeys(), Principal("k", limits=KeyLimits(runs=3, streams=2))
    begun: list[str] = []
    for step in steps:
        if step == "end":
            if begun:
                uses.end(principal, begun.pop())
            continue
        if begun.count(step) == {"runs": 3, "streams": 2}[step]:
            with pytest.raises(Problem, match="at the same time"):
                uses.begin(principal, step)
        else:
            uses.begin(principal, step)
            begun.append(step)
    assert uses.of(principal).runs == begun.count("runs") <= 3
    assert uses.open_streams == begun.count("streams") <= 2
