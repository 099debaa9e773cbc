"""Identifiers are texts at run time, and kinds of their own to a type checker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reactive_agents.core import ids
from reactive_agents.core.codec import from_json, to_json

KINDS = [value for value in vars(ids).values() if getattr(value, "__supertype__", None) is str]


def test_every_id_is_branded() -> None:
    names = {kind.__name__ for kind in KINDS}
    of_personas = {"PersonaId", "ContextId", "EventId", "LearningId"}
    assert (
        names
        == {"AgentId", "RunId", "TaskId", "SessionId", "StepId", "PlanId", "CallId", "ApprovalId"}
        | of_personas
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_id_is_its_text(kind: type[str]) -> None:
    made = kind("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert type(made) is str
    assert to_json(made, kind) == '"01ARZ3NDEKTSV4RRFFQ69G5FAV"'
    assert from_json(to_json(made, kind), kind).unwrap() == made


def test_ids_are_not_taken_for_one_another(tmp_path: Path) -> None:
    script = tmp_path / "mixed.py"
    script.write_text(
        "from reactive_agents.core.ids import RunId, TaskId\n"
        "def f(run: RunId) -> None: ...\n"
        "f(RunId('r'))\n"
        "f(TaskId('t'))\n"
        "f('r')\n"
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", str(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = [line for line in checked.stdout.splitlines() if " error: " in line]
    assert [line.split(":")[1] for line in wrong] == ["4", "5"], checked.stdout + checked.stderr
