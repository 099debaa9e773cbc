"""``reactive-agents serve`` and ``keys``, without a server: that is in ``tests/system``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from reactive_agents import ReactiveAgent
from reactive_agents.server import ApiKeys
from tests.support.command_line import command


def test_keys_are_created_listed_and_revoked(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    made = command(
        "keys", "create", "Ada", "--user", "ada", "-a", "clerk", "--limit", "runs=3", "--keys", path
    )
    assert made.exit_code == 0
    found = ApiKeys(path).find(made.stdout.strip())
    assert found is not None
    assert "approves" not in path.read_text("utf-8")  # as earlier versions read and write it
    assert (found.user, found.agents, found.limits.runs) == ("ada", frozenset({"clerk"}), 3)
    other = command("keys", "create", "Eve", "--user", "eve", "--no-approvals", "--keys", path)
    assert (found.approves, ApiKeys(path).find(other.stdout.strip()).approves) == (True, False)
    rows = command("keys", "list", "--keys", path).stdout.splitlines()
    assert [row.split("\t")[-1] for row in rows] == ["approves", "no approvals"]
    listed = json.loads(command("keys", "list", "--keys", path, "--json").stdout)
    assert [(each["name"], each["user"], each["digest"]) for each in listed] == [
        ("Ada", "ada", ""),
        ("Eve", "eve", ""),
    ]
    secret = made.stdout.strip().partition(f"{found.key}_")[2]
    assert secret
    assert secret not in command("keys", "list", "--keys", path).stdout
    assert command("keys", "revoke", found.key, "--keys", path).exit_code == 0
    assert ApiKeys(path).find(made.stdout.strip()) is None
    assert "revoked" in command("keys", "list", "--keys", path).stdout


def test_a_wrong_entry_keeps_no_key_from_being_listed_or_revoked(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    leaked, spoiled = (
        command("keys", "create", name, "--any-user", "--keys", path).stdout.strip() for name in ("a", "b")
    )
    serving = ApiKeys(path)
    assert None not in (serving.find(leaked), serving.find(spoiled))
    leaked_id, spoiled_id = (each.split("_")[1] for each in (leaked, spoiled))
    head, _, tail = path.read_text().partition(spoiled_id)
    tail = tail.replace('"run_s": 3600.0', '"run_s": 0, "note": "café"', 1)
    assert '"note"' in tail
    path.write_text(f"{head}{spoiled_id}{tail}")
    problem = f"warning: {path}: the key {spoiled_id!r} is wrong: "
    listed = command("keys", "list", "--keys", path, "--json")
    assert [each["id"] for each in json.loads(listed.stdout)] == [leaked_id]
    assert listed.stderr.startswith(problem)
    revoked = command("keys", "revoke", leaked_id, "--keys", path)
    assert revoked.exit_code == 0
    assert revoked.stderr.startswith(problem)
    assert path.read_text().endswith(f"{spoiled_id}{tail}")  # as it was
    assert serving.find(leaked) is None
    assert serving.find(spoiled) is not None
    other = command("keys", "create", "c", "--any-user", "--keys", path)
    assert other.stderr.startswith(problem)
    assert serving.find(other.stdout.strip()) is not None
    assert command("keys", "revoke", spoiled_id, "--keys", path).exit_code == 0
    assert serving.find(spoiled) is None


def test_a_key_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(b'{"keys": ["\xff"]}')
    for order in (("list",), ("revoke", "one"), ("create", "one", "--any-user")):
        done = command("keys", *order, "--keys", path)
        assert done.exit_code == 2
        assert f"{path} is not a key file" in done.stderr
    assert path.read_bytes() == b'{"keys": ["\xff"]}'


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("keys", "create", "x"), "--user or --any-user"),
        (("keys", "create", "x", "--user", "a", "--any-user"), "--user or --any-user"),
        (("keys", "create", "x", "--user", ""), "--user: user: got ''"),
        (("keys", "create", "x", "--any-user", "--limit", "runs=0"), "above 0"),
        (("keys", "create", "x", "--any-user", "--limit", "cats=1"), "requests_per_minute"),
        (("keys", "create", "x", "--any-user", "--limit", "run_s=inf"), "above 0"),
        (("keys", "revoke", "nobody"), "there is no key"),
        (("keys", "create", "x", "--any-user", "--days", "-1"), "got -1, expected a number above 0"),
        (("keys", "create", "x", "--any-user", "--days", "soon"), "'--days': got 'soon'"),
        (("serve", "agent.toml", "--host", "0.0.0.0"), "needs --keys"),
        (("serve", "agent.toml", "--missing"), "No such option"),
        (("serve", "agent.toml", "--no-work"), "needs --queue"),
        (("serve", "agent.toml", "--origin", "not a url"), "such as https://app.example"),
    ],
    ids=lambda given: " ".join(map(str, given)) if isinstance(given, tuple) else None,
)
def test_wrong_use_is_explained(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    file = () if arguments[0] == "serve" else ("--keys", tmp_path / "keys.json")
    done = command(*arguments, *file)
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.replace("│", " ").split())


def test_a_server_needs_its_keys_and_its_agents(tmp_path: Path) -> None:
    missing = command("serve", tmp_path / "agent.toml", "--keys", tmp_path / "keys.json", "--host", "0.0.0.0")
    assert missing.exit_code == 2
    assert "keys create" in missing.stderr
    assert command("serve", tmp_path / "agent.toml").exit_code == 2
    (tmp_path / "agent.toml").write_text('name = "a b"\n')
    named = command("serve", tmp_path / "agent.toml")
    assert (named.exit_code, "cannot be served" in named.stderr) == (2, True)


def test_the_file_with_the_mistake_is_named(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text('name = "clerk"\n[model]\nmodel = "offline"\n')
    for name, text in {"a.toml": 'nmae = "x"\n', "b.toml": "name = \n", "c.json": '{"name": "a",}'}.items():
        (tmp_path / name).write_text(text)
        done = command("serve", tmp_path / "good.toml", tmp_path / name)
        assert (done.exit_code, f"Not a valid AgentConfig in {name}: $" in done.stderr) == (2, True)
    twice = command("serve", tmp_path / "good.toml", tmp_path / "good.toml")
    assert (twice.exit_code, "Two agents have the name 'clerk'" in twice.stderr) == (2, True)


def test_a_record_that_cannot_be_used_ends_the_command_before_anybody_is_answered(tmp_path: Path) -> None:
    (tmp_path / "clerk.toml").write_text('name = "clerk"\n[model]\nmodel = "offline"\n')
    (tmp_path / "runs.db").write_text("no database, really\n" * 100)
    refused = command("serve", tmp_path / "clerk.toml", "--port", "0", "--runs", tmp_path / "runs.db")
    assert refused.exit_code == 1
    assert "is not a database" in refused.stderr
    assert "Serving" not in refused.stderr
    told = command("serve", tmp_path / "clerk.toml", "--port", "0", "--runs", tmp_path / "runs.db", "--json")
    assert (told.exit_code, json.loads(told.stdout)["error"]["tag"]) == (1, "RecordFailed")


def test_agents_of_a_server_write_neither_its_keys_nor_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / name for name in ("one.toml", "two.toml", "keys.json")]
    for file in files[:2]:
        file.write_text(f'name = "{file.stem}"\ntools = ["file-write"]\n[model]\nmodel = "offline"\n')
    command("keys", "create", "x", "--any-user", "--keys", files[2])
    protected = []

    def note(agents: Sequence[ReactiveAgent], **_: object) -> None:
        protected.extend(each.container.tool_settings().protected for each in agents)
        raise ValueError("enough")

    monkeypatch.setattr("reactive_agents.cli.serve.create_app", note)
    assert command("serve", *files[:2], "--keys", files[2]).exit_code == 2
    assert [each.issuperset(files) for each in protected] == [True, True]
