"""States in the middle of a run, for policies."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from reactive_agents.core.settings import BudgetConfig, CallLimit, ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.kernel import Guidance, KernelContext, KernelState, Proposal
from reactive_agents.kernel.ledger import NO_CALLS, CallCounts, CallLedger
from reactive_agents.testing import FakeTools
from tests.support.kernels import kernel_bench, new_state

REPORT = ToolDefinition("report", "Delivers the report.", {"type": "object"}, output=True)


def moment(
    answer: str | None = None,
    *,
    iteration: int = 2,
    said: str = "",
    tokens: int = 0,
    cost: float = 0.0,
    **fields: Any,
) -> KernelState:
    """A state that thinks again.

    Args:
        answer: what the model holds out as its answer.
        said: the policy that has given guidance for the turn.
        tokens: of the kernel run.
        cost: of the kernel run, in US dollars.
        fields: of the state where it has them, else of its ledger or the counts of its calls.
    """
    state_fields = {key: fields.pop(key) for key in list(fields) if hasattr(new_state(), key)}
    counts = {key: fields.pop(key) for key in list(fields) if hasattr(NO_CALLS, key)}
    return evolve(
        new_state(),
        iteration=iteration,
        usage=RunUsage("", Usage(0, 0, tokens), cost),
        proposal=None if answer is None else Proposal(answer),
        guidance=(Guidance(said, "So."),) if said else (),
        ledger=CallLedger(calls=CallCounts(**counts), **fields),
        **state_fields,
    )


def around(
    required: dict[str, int] | None = None,
    *,
    relevant: frozenset[str] = frozenset(),
    limits: dict[str, int] | None = None,
    tokens: int | None = None,
    cost_usd: float | None = None,
    **fields: Any,
) -> KernelContext:
    """The context of a run with the tools ``look``, ``see`` and ``report``, which delivers."""
    calls = tuple(CallLimit(*each) for each in (limits or {}).items())
    tools = FakeTools({"look": "seen", "see": "seen", "report": "done"}, definitions=(REPORT,))
    return kernel_bench(tools=tools).context(
        needs=ToolNeeds(tuple(ToolRequirement(*each) for each in (required or {}).items()), relevant),
        budget=BudgetConfig(tokens, cost_usd, calls),
        **fields,
    )
