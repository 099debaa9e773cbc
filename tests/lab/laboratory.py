"""Run a strategy on tasks with a simulated model behind a real HTTP server, and count how the runs ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import anyio
from attrs import evolve, field, frozen

from reactive_agents import AgentError, ReactiveAgents
from tests.lab.simulated_model import SimulatedModel
from tests.lab.slips import Profile
from tests.lab.tasks import Family, LabTask
from tests.support.openai_server import OpenAIServer, Received, Reply

Ending: TypeAlias = Literal["right", "false success", "honest failure"]


@frozen
class Outcome:
    """How one run ended."""

    family: str
    task_id: str
    ending: Ending
    status: str
    terminated_by: str
    output: str
    calls: int = 0
    prompt_tokens: int = 0


@frozen
class Figures:
    """Totals of many runs."""

    outcomes: tuple[Outcome, ...] = field(repr=False)
    slips: Mapping[str, int]

    def count(self, ending: Ending) -> int:
        """Return how many runs ended so."""
        return sum(outcome.ending == ending for outcome in self.outcomes)

    @property
    def calls(self) -> int:
        """Model calls of all runs."""
        return sum(outcome.calls for outcome in self.outcomes)

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of all runs, a token for four characters."""
        return sum(outcome.prompt_tokens for outcome in self.outcomes)


class ModelServer(OpenAIServer):
    """The HTTP server of the OpenAI protocol, answered by a simulated model.

    Attributes:
        provider: litellm's name for the protocol.
    """

    provider = "openai"

    def __init__(self, model: SimulatedModel) -> None:
        super().__init__()
        self._model = model

    def _next(self, received: Received) -> Reply:
        return self._model.reply(received.body)


def run_tasks(
    tasks: Iterable[tuple[Family, LabTask]],
    profile: Profile,
    strategy: str = "reactive",
    *,
    seed: int = 0,
    at_once: int = 8,
    build: Callable[[ReactiveAgents], ReactiveAgents] = lambda builder: builder,
    serve: Callable[[SimulatedModel], ModelServer] = ModelServer,
) -> Figures:
    """Run each task once with an agent of its tools, and return the figures.

    Args:
        serve: makes the server, of another protocol for example.
    """
    chosen = list(tasks)
    model = SimulatedModel(chosen, profile, seed=seed)
    outcomes: dict[str, Outcome] = {}

    async def run_all(server: ModelServer) -> None:
        limit = anyio.CapacityLimiter(at_once)

        async def run_one(family: Family, task: LabTask) -> None:
            async with limit:
                ended = await _run(family, task, strategy, server, build)
                asked, read = model.asked[task.id], model.prompt_tokens[task.id]
                outcomes[task.id] = evolve(ended, calls=asked, prompt_tokens=read)

        async with anyio.create_task_group() as group:
            for family, task in chosen:
                group.start_soon(run_one, family, task)

    with serve(model) as server:
        anyio.run(run_all, server)
    return Figures(tuple(outcomes[task.id] for _, task in chosen), dict(model.slips))


async def _run(
    family: Family,
    task: LabTask,
    strategy: str,
    server: ModelServer,
    build: Callable[[ReactiveAgents], ReactiveAgents],
) -> Outcome:
    builder = (
        ReactiveAgents.create()
        .with_model(f"{server.provider}/simulated", base_url=server.base_url, api_key="none")
        .with_reasoning(strategy)
    )
    if task.tools:
        builder = builder.with_tools(*task.tools).with_approval(lambda _: True)
    result: Any
    async with build(builder).build() as agent:
        try:
            result = await agent.run(task.text)
            status, output = str(result.status), str(result.output or "")
        except AgentError as failed:
            result, status, output = failed, "failed", str(failed)
    figures = result.metadata
    return Outcome(
        family=family.name,
        task_id=task.id,
        ending=_ending(task, status, output),
        status=status,
        terminated_by=figures.terminated_by if figures else "",
        output=output,
    )


def _ending(task: LabTask, status: str, output: str) -> Ending:
    right = task.is_right(output)
    if status == "abstained":
        return "honest failure" if task.can_be_done else "right"
    if status != "completed":
        return "honest failure"
    return "right" if right else "false success"
