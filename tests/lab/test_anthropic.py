"""The laboratory over the Anthropic protocol: the same tasks, models and slips."""

from __future__ import annotations

import pytest

from tests.lab.anthropic_server import AnthropicServer
from tests.lab.laboratory import ModelServer, run_tasks
from tests.lab.simulated_model import SimulatedModel
from tests.lab.slips import CAPABLE, WEAK
from tests.lab.tasks import FAMILIES

pytestmark = pytest.mark.system

TASKS = [(family, family.task(0)) for family in FAMILIES]


def test_a_capable_model_solves_every_family() -> None:
    servers: list[AnthropicServer] = []

    def serve(model: SimulatedModel) -> ModelServer:
        servers.append(AnthropicServer(model))
        return servers[0]

    figures = run_tasks(TASKS, CAPABLE, serve=serve)
    wrong = [(o.task_id, o.status, o.output) for o in figures.outcomes if o.ending != "right"]
    assert wrong == []
    assert {each.path for each in servers[0].requests} == {"/v1/messages"}
    assert any("tool_result" in str(each.body["messages"]) for each in servers[0].requests)


@pytest.mark.parametrize("strategy", ["reactive", "reflexion"])
def test_a_weak_model_slips_and_runs_end_all_the_same(strategy: str) -> None:
    figures = run_tasks(TASKS, WEAK, strategy, serve=AnthropicServer)
    assert sum(figures.slips.values()) >= len(TASKS)
    assert not [o for o in figures.outcomes if o.status == "failed"]
    assert figures.count("false success") <= 3
