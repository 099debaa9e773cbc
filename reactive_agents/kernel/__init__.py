"""The kernel: a step of reasoning, the policies, and the one loop.

A kernel takes one step, from a frozen state to the next. Everything else is a rule about states: which state
may follow (``state``), what the model is shown (``prompt``), what its answer and the results of its calls
change (``reducers``), whether to continue (``policies``). All of that is pure, so that a rule is tested
without a model, and a run is a function of what its services answered. Only two functions touch the world,
``model_call.ask`` and ``tool_execution.run_calls``, and the loop in ``runner`` is the only one: strategies
decide how often it is run and with which options, never what a step is.

What must stay true: one function decides whether a text holds a call (``call_parsing``), one which
requirements are open (``open_requirements``), one how a transcript is shortened
(``context_window.compaction``), and tokens and money are summed in one account (``UsageAccount``). New
behaviour is a policy or a kernel beside the built-in ones, not a case in the loop.
"""

from __future__ import annotations

from reactive_agents.kernel.context import (
    CompactionFunction,
    CompactionMaterial,
    CompactionSettings,
    EarlierAttempt,
    KernelContext,
    KernelInput,
    KernelRunOptions,
    KernelServices,
    KernelStep,
    Policy,
    Proceed,
    Redirect,
    Stop,
    ThoughtKernel,
    Verdict,
)
from reactive_agents.kernel.events import KernelHooks, RunEvents, build_kernel_hooks, noop_hooks
from reactive_agents.kernel.kernels import (
    BUILT_IN_KERNELS,
    direct_kernel,
    given_call_kernel,
    one_shot_kernel,
    react_kernel,
)
from reactive_agents.kernel.metered_llm import MeteredLLM
from reactive_agents.kernel.policies.decision import STANDARD_POLICIES, decide
from reactive_agents.kernel.prompt import BRIEF_INSTRUCTIONS, REACT_INSTRUCTIONS
from reactive_agents.kernel.run_budget import RunBudget
from reactive_agents.kernel.runner import execute_react_kernel, run_kernel, run_to_end
from reactive_agents.kernel.state import (
    LEGAL_TRANSITIONS,
    TERMINAL,
    Guidance,
    KernelState,
    KernelStatus,
    Proposal,
    deserialize_kernel_state,
    initial_kernel_state,
    serialize_kernel_state,
    transition_state,
)

__all__ = [
    "BRIEF_INSTRUCTIONS",
    "BUILT_IN_KERNELS",
    "LEGAL_TRANSITIONS",
    "REACT_INSTRUCTIONS",
    "STANDARD_POLICIES",
    "TERMINAL",
    "CompactionFunction",
    "CompactionMaterial",
    "CompactionSettings",
    "EarlierAttempt",
    "Guidance",
    "KernelContext",
    "KernelHooks",
    "KernelInput",
    "KernelRunOptions",
    "KernelServices",
    "KernelState",
    "KernelStatus",
    "KernelStep",
    "MeteredLLM",
    "Policy",
    "Proceed",
    "Proposal",
    "Redirect",
    "RunBudget",
    "RunEvents",
    "Stop",
    "ThoughtKernel",
    "Verdict",
    "build_kernel_hooks",
    "decide",
    "deserialize_kernel_state",
    "direct_kernel",
    "execute_react_kernel",
    "given_call_kernel",
    "initial_kernel_state",
    "noop_hooks",
    "one_shot_kernel",
    "react_kernel",
    "run_kernel",
    "run_to_end",
    "serialize_kernel_state",
    "transition_state",
]
