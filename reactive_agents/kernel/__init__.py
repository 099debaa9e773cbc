"""One reasoning step, the decisions about it, and the one loop that repeats it."""

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
    REACT_INSTRUCTIONS,
    direct_kernel,
    given_call_kernel,
    one_shot_kernel,
    react_kernel,
)
from reactive_agents.kernel.metered_llm import MeteredLLM, RunBudget
from reactive_agents.kernel.policies.decision import STANDARD_POLICIES, decide
from reactive_agents.kernel.runner import ReActKernelResult, execute_react_kernel, run_kernel
from reactive_agents.kernel.state import (
    LEGAL_TRANSITIONS,
    TERMINAL,
    Guidance,
    KernelState,
    KernelStatus,
    Proposal,
    SerializedKernelState,
    deserialize_kernel_state,
    initial_kernel_state,
    serialize_kernel_state,
    transition_state,
)
from reactive_agents.kernel.usage import UsageAccount

__all__ = [
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
    "MeteredLLM",
    "Policy",
    "Proceed",
    "Proposal",
    "ReActKernelResult",
    "Redirect",
    "RunBudget",
    "RunEvents",
    "SerializedKernelState",
    "Stop",
    "ThoughtKernel",
    "UsageAccount",
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
    "serialize_kernel_state",
    "transition_state",
]
