"""Identifiers are texts at run time."""

from __future__ import annotations

import pytest

from reactive_agents.core import ids
from reactive_agents.core.codec import from_json, to_json

KINDS = [value for value in vars(ids).values() if getattr(value, "__supertype__", None) is str]


def test_every_id_is_branded() -> None:
    names = {kind.__name__ for kind in KINDS}
    of_personas = {"PersonaId", "ContextId", "EventId", "LearningId"}
    assert (
        names
        == {
            "AgentId",
            "RunId",
            "TaskId",
            "SessionId",
            "StepId",
            "PlanId",
            "CallId",
            "ApprovalId",
            "RequestId",
        }
        | of_personas
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_id_is_its_text(kind: type[str]) -> None:
    made = kind("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert type(made) is str
    assert to_json(made, kind) == '"01ARZ3NDEKTSV4RRFFQ69G5FAV"'
    assert from_json(to_json(made, kind), kind).unwrap() == made
