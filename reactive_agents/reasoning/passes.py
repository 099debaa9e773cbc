"""Kernel runs as parts of a strategy, and their progress: one sum of all.

Each pass gets the remaining time, budget and requirements of the whole run, so that strategies need not
divide them, and what earlier passes stored can be recalled in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, results
from reactive_agents.core.events import ReasoningStepCompleted
from reactive_agents.core.ids import StepId
from reactive_agents.core.requirements import ToolNeeds, ToolRequirement
from reactive_agents.core.results import ReasoningStep
from reactive_agents.core.values import Value
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import (
    BRIEF_INSTRUCTIONS,
    REACT_INSTRUCTIONS,
    KernelInput,
    KernelRunOptions,
    KernelState,
    ThoughtKernel,
    run_kernel,
)
from reactive_agents.kernel.context_window.previews import preview
from reactive_agents.kernel.context_window.tool_results import result_budget, tool_results
from reactive_agents.kernel.ledger import NO_CALLS, CallCounts, CallLedger
from reactive_agents.kernel.open_requirements import (
    OpenRequirements,
    call_limits,
    calls_left,
    open_requirements,
)
from reactive_agents.kernel.policies.limits import budget_reached_by_run
from reactive_agents.kernel.prompt import fence
from reactive_agents.kernel.service_calls import definitions_in
from reactive_agents.kernel.toolset import FINAL_ANSWER, RECALL, Toolset, toolset_for
from reactive_agents.reasoning.confidence import rejections_in
from reactive_agents.reasoning.strategy import (
    StrategyInput,
    StrategyServices,
    begin_measure,
    compaction_of,
    conclude,
    kernel_input,
    profile_of,
)

if TYPE_CHECKING:
    from reactive_agents.core.errors import ReasoningErrors


@frozen(eq=False, repr=False)
class Progress(Value):
    """The sum of all passes of a strategy.

    Attributes:
        id: begins the ids of the strategy's own steps.
        steps: of all passes and of the strategy itself, in order.
        tool_results: the full text of each result, by the key that its observation names.
        iterations: turns that the model has taken in all passes.
        calls: the tool calls of all passes, and of earlier tries of the run.
        rejections: how often guidance was given because of a turn of the model.
    """

    id: str
    steps: tuple[ReasoningStep, ...] = ()
    tool_results: Mapping[str, str] = field(factory=dict)
    iterations: int = 0
    calls: CallCounts = NO_CALLS
    rejections: int = 0

    def after(self, state: KernelState) -> Progress:
        """Return the progress after a kernel run, however it ended."""
        return evolve(
            self,
            calls=self.calls.then(state.ledger.calls),
            steps=self.steps + state.steps,
            tool_results={**self.tool_results, **tool_results(state.scratchpad)},
            iterations=self.iterations + state.iteration,
            rejections=self.rejections + rejections_in(state.ledger.told),
        )


def requirements_left(needs: ToolNeeds, open_: OpenRequirements) -> ToolNeeds:
    """Return the needs with the open requirements alone, and the calls to be made."""
    left = (ToolRequirement(each.name, each.min_calls - done) for each, done in open_.open)
    return evolve(needs, required=tuple(left))


# --- What the tools of a strategy's passes gave, as text for a prompt ---


_NO_EVIDENCE = frozenset({RECALL, FINAL_ANSWER})
LEAST_SHOWN = 200
"""Characters that each observation gets at least; where that is too much for all, the oldest are left out."""


def evidence_of_run(progress: Progress, strategy_input: StrategyInput, services: StrategyServices) -> str:
    """Return the tool calls with their results, as far as the profile admits."""
    return evidence(
        progress, result_budget(profile_of(strategy_input, services), strategy_input.settings.compression)
    )


def evidence(progress: Progress, budget: int) -> str:
    """Return the tool calls with their results or errors, oldest first, for a prompt.

    Empty when no tool was called. Results of ``recall`` are left out: they are parts of other results. So are
    answers that were turned down, and calls that are the same and gave the same are shown once.

    Args:
        budget: characters of results that are shown, shared evenly.
    """
    calls = {_call_id(step): step.content for step in progress.steps if step.type == "action"}
    seen = [step for step in progress.steps if step.type == "observation" and _tool(step) not in _NO_EVIDENCE]
    shown = seen[-max(1, budget // LEAST_SHOWN) :]
    share = max(LEAST_SHOWN, budget // max(1, len(shown)))
    made = (_entry(step, calls.get(_call_id(step), ""), progress, share) for step in shown)
    entries = list(dict.fromkeys(made))
    left_out = len(seen) - len(shown)
    if left_out:
        entries.insert(0, f"[{left_out} earlier results are left out]")
    return "\n".join(entries)


def _entry(step: ReasoningStep, call: str, progress: Progress, share: int) -> str:
    known = step.metadata
    key = known.result_key if known is not None else None
    text = step.content if key is None else progress.tool_results.get(key, step.content)
    verb = "failed" if known is not None and known.success is False else "gave"
    return f"{preview(call, None, LEAST_SHOWN) or _tool(step)} {verb}: {preview(text, key, share)}"


def _tool(step: ReasoningStep) -> str:
    return (step.metadata.tool_used or "") if step.metadata is not None else ""


def _call_id(step: ReasoningStep) -> str:
    return (step.metadata.call_id or "") if step.metadata is not None else ""


# --- Kernel runs as parts of a strategy ---


MOST_TURNS = 10_000
"""Turns of all passes of a strategy, so that a custom one that begins passes without end ends."""


@frozen(eq=False, repr=False)
class Limit(Value):
    """A limit that ends a strategy between two passes.

    ``name`` is ``deadline``, ``budget`` or ``controller``.
    """

    name: str
    reason: str


@frozen(eq=False, repr=False)
class Pass(Value):
    """One kernel run of a strategy.

    Attributes:
        label: of its events, such as ``reflexion:generate``.
        key: begins the keys of its results; unique within the strategy, such as ``s2.``.
        task: the task of the pass.
        user_task: the task in the user's words, where that of the pass has earlier answers as well.
        part: the part of the task that the pass does, such as the instruction of a step; empty for all.
        max_iterations: turns that the model may take, 1 or more; the run's own limit may be lower.
        instructions: besides how to work in turns; trusted text.
        allowed_tools: the only tools that it may see; ``None`` for all.
        needs: the tools that it requires; ``None`` for those of the run.
        temperature: 0 to 2; ``None`` leaves it to the provider.
        kernel: a kernel, or the name of one; empty for that of the run's configuration.
        kernel_type: names the kernel; by default the name that it has.
        answers_by_tool: whether ``final-answer`` is offered, where there are tools.
        leads: whether the user's instructions lead it, as they lead the answer; else they are data.
        delivers: whether its answer is that of the run, and so has the form of the run's answers.
    """

    label: str
    key: str
    task: str
    max_iterations: int
    instructions: str = ""
    allowed_tools: frozenset[str] | None = None
    needs: ToolNeeds | None = None
    temperature: float | None = None
    kernel: str | ThoughtKernel = ""
    kernel_type: str = ""
    answers_by_tool: bool = True
    user_task: str = ""
    part: str = ""
    leads: bool = True
    delivers: bool = True


@effect
async def run_pass(
    each: Pass,
    progress: Progress,
    strategy: results.ReasoningStrategy,
    strategy_input: StrategyInput,
    services: StrategyServices,
) -> Result[KernelState, ReasoningErrors]:
    """Run one kernel and return its final state; a run that fails has one too.

    The instructions name the number of turns, and results of earlier passes can be recalled. Fails with
    ``StrategyExecutionError`` when the kernel breaks its own rules, with ``StrategyNotFoundError`` when there
    is none of that name, and with ``IterationLimitError`` when the passes have taken ``MOST_TURNS`` turns.

    Args:
        progress: of the strategy until now; add the state to it with :meth:`Progress.after`.
    """
    if progress.iterations >= MOST_TURNS:
        return Failure(errors.IterationLimitError(strategy, MOST_TURNS, len(progress.steps)))
    name = each.kernel or strategy_input.config.kernel
    found = find_kernel(name, services)
    if not isinstance(found, Success):
        return Failure(found.failure())
    earlier = strategy_input.earlier
    left = calls_left_of_run(progress, strategy_input, services)
    turns = min(each.max_iterations, strategy_input.max_iterations or each.max_iterations)
    allowed = _allowed(each.allowed_tools, left, strategy_input)
    in_turns = not each.kernel and has_tools(services, allowed)
    instructions = each.instructions
    if in_turns:
        is_brief = profile_of(strategy_input, services).is_brief
        instructions = loop_instructions(turns, instructions, is_brief=is_brief)
    if not each.leads:
        instructions = "\n\n".join(filter(None, (instructions, instructions_of_user(strategy_input))))
    given = kernel_input(strategy_input, instructions=instructions, temperature=each.temperature)
    if not each.leads:
        given = evolve(given, settings=evolve(given.settings, system_prompt=""))
    form = strategy_input.answer_form
    if form is not None and each.leads and not each.delivers and not each.answers_by_tool:
        given = evolve(given, instructions="\n\n".join(filter(None, (instructions, form.instructions))))
    task = evolve(
        given,
        answer_form=form if each.leads and each.delivers else None,
        task=each.task,
        user_task=each.user_task,
        part=each.part,
        allowed_tools=allowed,
        needs=strategy_input.needs if each.needs is None else each.needs,
        call_limits=limits_of_run(strategy_input),
        calls=progress.calls,
        compaction=compaction_of(strategy_input.config, strategy, services),
        results=progress.tool_results,
        key_prefix=given.key_prefix + each.key,
        earlier=earlier and evolve(earlier, ledger=CallLedger()),
    )
    options = KernelRunOptions(
        max_iterations=turns,
        strategy=strategy,
        kernel_type=each.kernel_type or str(name),
        kernel_pass=each.label,
        answers_by_tool=each.answers_by_tool,
    )
    run = await attempt(run_kernel(found.unwrap(), task, options, services.kernel))
    return run.alt(lambda error: errors.StrategyExecutionError(strategy, error.message, cause=error))


def instructions_of_user(strategy_input: StrategyInput) -> str:
    """Return the user's instructions as data; empty without any.

    They are for calls whose text is not the answer. The form of the answer is one of them.
    """
    form = strategy_input.answer_form
    own = "\n\n".join(
        filter(None, (strategy_input.settings.system_prompt, form.instructions if form is not None else ""))
    )
    follow = "The answer to the task has to follow these instructions:"
    return f"{follow}\n{fence('instructions', own)}" if own else ""


def find_kernel(
    kernel: str | ThoughtKernel, services: StrategyServices
) -> Result[ThoughtKernel, ReasoningErrors]:
    """Return the kernel of a name, or the kernel itself.

    Fails with ``StrategyNotFoundError``.
    """
    if not isinstance(kernel, str):
        return Success(kernel)
    found = services.kernels.get(kernel)
    return (
        Success(found)
        if found
        else Failure(errors.StrategyNotFoundError(kernel, tuple(services.kernels), "kernel"))
    )


def limit_reached(strategy_input: StrategyInput, services: StrategyServices) -> Limit | None:
    """Return the limit of time, budget or the controller that ends the run, if any."""
    if services.control is not None and services.control.ending is not None:
        return Limit("controller", services.control.ending.reason)
    deadline = strategy_input.deadline
    if deadline is not None and services.kernel.clock.monotonic() >= deadline:
        return Limit("deadline", "The time limit of the run was reached.")
    used_up = budget_reached_by_run(strategy_input.settings.budget, services.meter.account)
    if used_up is None and services.meter.refusal is not None:
        used_up = services.meter.refusal.message
    return None if used_up is None else Limit("budget", used_up)


def begin_progress(strategy_input: StrategyInput, services: StrategyServices) -> Progress:
    """Return the initial progress, with the calls of the run's earlier attempt."""
    progress, earlier = Progress(services.kernel.ids.new()), strategy_input.earlier
    return progress if earlier is None else evolve(progress, calls=earlier.ledger.counted)


def open_requirements_of_run(
    progress: Progress, strategy_input: StrategyInput, services: StrategyServices
) -> OpenRequirements:
    """Return the requirements of the run that are open or lost after all passes.

    A kernel run of the strategy has the same ones, as it asks the same function about the same calls.
    """
    limits = limits_of_run(strategy_input)
    return open_requirements(strategy_input.needs.required, progress.calls, limits, _toolset(services))


def limits_of_run(strategy_input: StrategyInput) -> Mapping[str, int]:
    """Return the maximum calls of each tool in the run, the same for all its passes."""
    settings = strategy_input.settings
    return call_limits(strategy_input.needs, settings.budget, parallel=settings.parallel_tool_calls)


def calls_left_of_run(
    progress: Progress, strategy_input: StrategyInput, services: StrategyServices
) -> Mapping[str, int]:
    """Return how often each limited tool may still be called in the run, 0 or more."""
    limits = limits_of_run(strategy_input)
    return calls_left(limits, progress.calls, _toolset(services)) if limits else {}


def _toolset(services: StrategyServices) -> Toolset:
    definitions = definitions_in(services.kernel.tools)
    return toolset_for(definitions, "full", allowed=None, answers_by_tool=True)


def note_step(
    progress: Progress,
    kind: results.StepType,
    content: str,
    services: StrategyServices,
    *,
    strategy: results.ReasoningStrategy,
    label: str,
    metadata: results.StepMetadata | None = None,
) -> Progress:
    """Return the progress with a step of the strategy itself, such as a critique.

    The step is published as a thought.

    Args:
        label: of its event, such as ``reflexion:critique``.
    """
    step = results.ReasoningStep(
        StepId(f"{progress.id}-{len(progress.steps) + 1}"),
        kind,
        content,
        services.kernel.clock.now(),
        metadata,
    )
    services.kernel.publish(ReasoningStepCompleted, strategy, progress.iterations, label, thought=content)
    if services.control is not None:
        services.control.note(step)
    return evolve(progress, steps=(*progress.steps, step))


def has_tools(services: StrategyServices, allowed: frozenset[str] | None = None) -> bool:
    """Return whether there are tools, among the allowed ones or at all."""
    definitions = definitions_in(services.kernel.tools)
    if allowed is None:
        return bool(definitions)
    return any(definition.name in allowed for definition in definitions)


def loop_instructions(turns: int, besides: str = "", *, is_brief: bool = False) -> str:
    """Return how to work in turns with tools, and how many turns there are.

    A model that does not know their number may answer too late.
    """
    number = f"You have {turns} turns." if turns > 1 else ""
    how = BRIEF_INSTRUCTIONS if is_brief else REACT_INSTRUCTIONS
    return " ".join([part for part in (how, number, besides) if part])


def _allowed(
    wanted: frozenset[str] | None, left: Mapping[str, int], strategy_input: StrategyInput
) -> frozenset[str] | None:
    used_up = frozenset(name for name, calls in left.items() if not calls)
    if not used_up:
        return wanted
    return (frozenset(strategy_input.available_tools) if wanted is None else wanted) - used_up


# --- strategies that are one kernel run -----------------------------------------------------------------


@effect
async def run_once(
    kernel: str | ThoughtKernel, task: KernelInput, options: KernelRunOptions, services: StrategyServices
) -> Result[results.ReasoningResult, ReasoningErrors]:
    """Return the result of one kernel run, partial when it stopped early.

    Fails with ``StrategyExecutionError`` when the kernel failed; its cause is the kernel's own error. Fails
    with ``StrategyNotFoundError`` when there is no kernel of that name.

    Args:
        kernel: a kernel, or the name of one.
    """
    measure, found = begin_measure(services), find_kernel(kernel, services)
    if not isinstance(found, Success):
        return Failure(found.failure())
    run = await attempt(run_kernel(found.unwrap(), task, options, services.kernel))
    if not isinstance(run, Success):
        error = run.failure()
        return Failure(errors.StrategyExecutionError(options.strategy, error.message, cause=error))
    state = run.unwrap()
    if state.status == "failed":
        return Failure(
            errors.StrategyExecutionError(
                options.strategy, state.reason, step=state.iteration, cause=state.error
            )
        )
    return Success(conclude(state, measure, services, task.task))
