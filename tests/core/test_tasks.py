"""Tasks and what their details list."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from reactive_agents.core.ids import AgentId, TaskId
from reactive_agents.core.tasks import Task


@pytest.mark.parametrize(
    ("details", "listed"),
    [
        ({}, ()),
        ({"files": None}, ()),
        ({"files": 5}, ()),
        ({"files": "a.txt"}, ("a.txt",)),
        ({"files": ["a.txt", 5, "b.txt"]}, ("a.txt", "b.txt")),
        ({"files": ("a.txt",)}, ("a.txt",)),
        ({"files": {"a.txt"}}, ("a.txt",)),
        ({"files": {"a.txt": 1}}, ()),
    ],
)
def test_texts_of_the_details_are_listed(details: dict[str, Any], listed: tuple[str, ...]) -> None:
    task = Task(TaskId("t"), AgentId("a"), "Write it.", datetime(2026, 1, 1, tzinfo=UTC), details=details)
    assert task.listed("files") == listed
