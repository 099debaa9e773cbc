"""Passes, the kernel runs that a strategy consists of, and their common progress.

Each pass gets the remaining time, budget and requirements of the whole run, so that strategies need not
divide them. Results that earlier passes stored can be recalled in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from attrs import evolve, field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, results
from reactive_agents.core.events import ReasoningStepCompleted
from reactive_agents.core.ids import StepId
from reactive_agents.core.results import DEADLINE, ReasoningStep
from reactive_agents.core.settings import ToolNeeds, ToolRequirement
from reactive_agents.core.values import Value
from reactive_agents.effects import effect
from reactive_agents.kernel import (
    BRIEF_INSTRUCTIONS,
    REACT_INSTRUCTIONS,
    KernelInput,
    KernelRunOptions,
    KernelState,
    ThoughtKernel,
    run_to_end,
)
from reactive_agents.kernel.context import order_in
from reactive_agents.kernel.context_window.previews import preview
from reactive_agents.kernel.context_window.tool_results import result_budget, tool_results
from reactive_agents.kernel.embedded_calls import NOTHING_CALLED
from reactive_agents.kernel.ledger import NO_CALLS, CallCounts, CallLedger
from reactive_agents.kernel.open_requirements import (
    OpenRequirements,
    call_limits,
    calls_left,
    open_requirements,
    without_replaced,
)
from reactive_agents.kernel.policies.limits import budget_reached_by_run
from reactive_agents.kernel.policies.unfinished_work import (
    call_missing,
    is_foreseen,
    items_left,
    looked_up_for_other,
    said_before,
    says_failure,
    undone_act,
)
from reactive_agents.kernel.prompt import NUMBER_OF_TURNS, fence
from reactive_agents.kernel.service_calls import definitions_in
from reactive_agents.kernel.termination import doubts_in
from reactive_agents.kernel.toolset import FINAL_ANSWER, RECALL, Toolset, toolset_for
from reactive_agents.reasoning.confidence import rejections_in
from reactive_agents.reasoning.strategy import (
    StrategyInput,
    StrategyServices,
    begin_measure,
    compaction_of,
    conclude,
    kernel_input,
    not_registered,
    profile_of,
    seconds_left,
)


@frozen(eq=False, repr=False)
class Progress(Value):
    """Everything that the passes of a strategy have done so far.

    Attributes:
        id: the prefix of the ids of the strategy's own steps.
        steps: the steps of all passes and of the strategy itself, in order.
        tool_results: the full text of each result, by the key that its observation names.
        iterations: number of turns that the model has taken in all passes.
        calls: the tool calls of all passes and of earlier attempts of the run.
        rejections: how often a policy gave guidance because of a turn of the model.
        doubts: what stands against answers that passes gave, by the answer.
    """

    id: str
    steps: tuple[ReasoningStep, ...] = ()
    tool_results: Mapping[str, str] = field(factory=dict)
    iterations: int = 0
    calls: CallCounts = NO_CALLS
    rejections: int = 0
    doubts: dict[str, str] = field(factory=dict)

    def after(self, state: KernelState) -> Progress:
        """Return the progress after another kernel run, however that ended."""
        return evolve(
            self,
            calls=self.calls.then(without_replaced(state.ledger.calls, state.steps)),
            steps=self.steps + state.steps,
            tool_results={**self.tool_results, **tool_results(state.scratchpad)},
            iterations=self.iterations + state.iteration,
            rejections=self.rejections + rejections_in(state.ledger.told),
            doubts={**self.doubts, **self._doubts_in(state)},
        )

    def _doubts_in(self, state: KernelState) -> Mapping[str, str]:
        """Return the doubts of a pass; those of an earlier one stand if it made no call."""
        text, doubt = state.output or "", doubts_in(state)
        return {text: doubt} if doubt or state.ledger.calls.succeeded else {}

    def with_doubts(self, reason: str, *texts: str | None) -> str:
        """Return a reason with what stands against the texts that a run rests on."""
        found = " ".join(dict.fromkeys(filter(None, (self.doubts.get(text or "") for text in texts))))
        if self.calls.attempts:  # perhaps in another pass
            found = found.replace(NOTHING_CALLED, "").strip()
        return f"{reason} {found}" if found else reason


def requirements_left(needs: ToolNeeds, open_: OpenRequirements) -> ToolNeeds:
    """Return the needs with only the open requirements and the calls still to make."""
    left = (ToolRequirement(each.name, each.min_calls - done) for each, done in open_.open)
    return evolve(needs, required=tuple(left))


# --- The results of tools in all passes, as text for a prompt ---


_NO_EVIDENCE = frozenset({RECALL, FINAL_ANSWER})
LEAST_SHOWN = 200
"""The fewest characters of an observation; where they are too many in all, the oldest are left out."""


def evidence_of_run(progress: Progress, strategy_input: StrategyInput, services: StrategyServices) -> str:
    """Return the tool calls with their results, as many as the model's profile admits."""
    return evidence(
        progress, result_budget(profile_of(strategy_input, services), strategy_input.settings.compression)
    )


def evidence(progress: Progress, budget: int) -> str:
    """Return the tool calls with their results or errors, oldest first, for a prompt.

    The text is empty when no tool was called. Results of ``recall`` are left out, since they are parts of
    other results, and so are answers that were turned down. Equal calls with equal results are shown once.

    Args:
        budget: the most characters of results, which share them evenly.
    """
    calls = {step.call_id: step.content for step in progress.steps if step.type == "action"}
    seen = [step for step in progress.steps if step.type == "observation" and step.tool not in _NO_EVIDENCE]
    shown = seen[-max(1, budget // LEAST_SHOWN) :]
    share = max(LEAST_SHOWN, budget // max(1, len(shown)))
    made = (_entry(step, calls.get(step.call_id, ""), progress, share) for step in shown)
    entries = list(dict.fromkeys(made))
    left_out = len(seen) - len(shown)
    if left_out:
        entries.insert(0, f"[{left_out} earlier results are left out]")
    return "\n".join(entries)


def _entry(step: ReasoningStep, call: str, progress: Progress, share: int) -> str:
    key, has_failed = step.result_key or None, step.metadata is not None and step.metadata.success is False
    text = step.content if key is None else progress.tool_results.get(key, step.content)
    verb = "failed" if has_failed else "gave"
    return f"{preview(call, None, LEAST_SHOWN) or step.tool} {verb}: {preview(text, key, share)}"


# --- Kernel runs as parts of a strategy ---


MOST_TURNS = 10_000
"""The most turns of all passes, so that a custom strategy that never stops beginning passes is ended."""


@frozen(eq=False, repr=False)
class Limit(Value):
    """A limit that ends a strategy: ``deadline``, ``budget`` or ``controller``."""

    name: str
    reason: str


@frozen(eq=False, repr=False)
class Pass(Value):
    """One kernel run of a strategy.

    Attributes:
        label: the name of the pass in its events, such as ``reflexion:generate``.
        key: the prefix of the keys of its results, unique within the strategy, such as ``s2.``.
        user_task: the task in the user's words, where ``task`` also has earlier answers.
        part: the part of the task that the pass does, such as the instruction of a step; empty for all.
        max_iterations: turns that the model may take, 1 or more; the run's own limit may be lower.
        instructions: trusted text, besides the instructions for working in turns.
        allowed_tools: the only tools that the model may see; ``None`` for all.
        needs: the tools that the pass requires; ``None`` for those that the run requires.
        temperature: 0 to 2; ``None`` leaves it to the provider.
        kernel: a kernel, or the name of one; empty for the kernel of the run's configuration.
        kernel_type: the name of the kernel in its state; by default the name in ``kernel``.
        answers_by_tool: whether ``final-answer`` is offered, if there are tools.
        leads: whether the user's instructions lead the pass, as they lead the answer; otherwise they are
            data for it.
        delivers: whether its answer is the run's answer, and so has the form of that.
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
    kernel_pass: Pass,
    progress: Progress,
    strategy: results.ReasoningStrategy,
    strategy_input: StrategyInput,
    services: StrategyServices,
) -> Result[KernelState, errors.ReasoningErrors]:
    """Run one kernel and return its final state, which a run that fails has too.

    The instructions name the number of turns, and results of earlier passes can be recalled.

    Fails with ``StrategyExecutionError`` when the kernel breaks its own rules, with ``StrategyNotFoundError``
    when there is no kernel of that name, and with ``IterationLimitError`` when the passes have taken
    ``MOST_TURNS`` turns.

    Args:
        progress: the progress of the strategy until now; :meth:`Progress.after` adds the state to it.
    """
    if progress.iterations >= MOST_TURNS:
        return Failure(errors.IterationLimitError(strategy, MOST_TURNS, len(progress.steps)))
    kernel = kernel_pass.kernel or strategy_input.config.kernel
    earlier, leads = strategy_input.earlier, kernel_pass.leads
    left = calls_left_of_run(progress, strategy_input, services)
    turns = min(kernel_pass.max_iterations, strategy_input.max_iterations or kernel_pass.max_iterations)
    allowed = _allowed(kernel_pass.allowed_tools, left, strategy_input)
    instructions = _instructions(kernel_pass, turns, allowed, strategy_input, services)
    given = kernel_input(strategy_input, instructions=instructions, temperature=kernel_pass.temperature)
    task = evolve(
        given,
        settings=given.settings if leads else evolve(given.settings, system_prompt=""),
        answer_form=given.answer_form if leads and kernel_pass.delivers else None,
        task=kernel_pass.task,
        user_task=kernel_pass.user_task,
        part=kernel_pass.part,
        allowed_tools=allowed,
        needs=strategy_input.needs if kernel_pass.needs is None else kernel_pass.needs,
        call_limits=limits_of_run(strategy_input),
        calls=progress.calls,
        compaction=compaction_of(strategy_input.config, strategy, services),
        results=progress.tool_results,
        key_prefix=given.key_prefix + kernel_pass.key,
        earlier=earlier and evolve(earlier, ledger=CallLedger()),
    )
    options = KernelRunOptions(
        max_iterations=turns,
        strategy=strategy,
        kernel_type=kernel_pass.kernel_type or str(kernel),
        kernel_pass=kernel_pass.label,
        answers_by_tool=kernel_pass.answers_by_tool,
    )
    return await _run(kernel, task, options, services)


def _instructions(
    kernel_pass: Pass,
    turns: int,
    allowed: frozenset[str] | None,
    strategy_input: StrategyInput,
    services: StrategyServices,
) -> str:
    """Return the instructions of a pass: its own, and those for working in turns."""
    own, more, form = kernel_pass.instructions, "", strategy_input.answer_form
    if not kernel_pass.kernel and has_tools(services, allowed):
        own = loop_instructions(turns, own, is_brief=profile_of(strategy_input, services).is_brief)
    if not kernel_pass.leads:
        more = instructions_of_user(strategy_input)
    elif form is not None and not kernel_pass.delivers and not kernel_pass.answers_by_tool:
        more = form.instructions
    return "\n\n".join(filter(None, (own, more)))


def instructions_of_user(strategy_input: StrategyInput) -> str:
    """Return the user's instructions as data; empty when there are none.

    They are for calls whose text is not the answer. The form of the answer is one of them.
    """
    form = strategy_input.answer_form
    form_of_answer = form.instructions if form is not None else ""
    instructions = "\n\n".join(filter(None, (strategy_input.settings.system_prompt, form_of_answer)))
    follow = "The answer to the task has to follow these instructions:"
    return f"{follow}\n{fence('instructions', instructions)}" if instructions else ""


def limit_reached(strategy_input: StrategyInput, services: StrategyServices) -> Limit | None:
    """Return the limit that ends the run, of its time, its budget or its controller."""
    if services.control is not None and services.control.ending is not None:
        return Limit("controller", services.control.ending.reason)
    if seconds_left(strategy_input, services) <= 0:
        return Limit(DEADLINE, "The time limit of the run was reached.")
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
    """Return the run's requirements that are open or lost after all passes."""
    limits = limits_of_run(strategy_input)
    return open_requirements(strategy_input.needs.required, progress.calls, limits, _toolset(services))


def limits_of_run(strategy_input: StrategyInput) -> Mapping[str, int]:
    """Return the most calls of each limited tool in the run, for all its passes."""
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


def call_missing_in(
    text: str,
    steps: Iterable[ReasoningStep],
    tool_results: Mapping[str, str],
    strategy_input: StrategyInput,
    services: StrategyServices,
) -> str:
    """Return which call of a run is missing, of :func:`call_missing`.

    Nothing is known of it in a plan that is resumed, whose composite steps made calls in another run.
    """
    if strategy_input.plan_id is not None:
        return ""
    earlier = strategy_input.earlier.ledger.counted.attempts if strategy_input.earlier is not None else ()
    history = strategy_input.history.messages
    return call_missing(
        text,
        order_in(strategy_input.task_description),
        definitions_in(services.kernel.tools),
        steps,
        tool_results,
        earlier,
        earlier=earlier,
        history=history,
        told=said_before(strategy_input.settings.system_prompt, strategy_input.memory, history),
    )


def items_left_in(
    result: results.ReasoningResult, strategy_input: StrategyInput, services: StrategyServices
) -> tuple[str, ...]:
    """Return the items that no call of a run was for, of :func:`items_left`.

    Where there are none, what the answer tells of, of :func:`looked_up_for_other`.
    """
    if strategy_input.plan_id is not None:
        return ()
    task, offered = order_in(strategy_input.task_description), definitions_in(services.kernel.tools)
    found, history = result.tool_results, strategy_input.history.messages
    items = items_left(task, offered, result.steps, found.values(), history)
    if items or strategy_input.earlier is not None:
        return items
    told = said_before(strategy_input.settings.system_prompt, strategy_input.memory, history)
    return looked_up_for_other(result.output or "", task, offered, result.steps, found, told)


def undone_act_in(
    result: results.ReasoningResult, strategy_input: StrategyInput, services: StrategyServices
) -> ReasoningStep | None:
    """Return the failure of an act in any pass, of :func:`undone_act`."""
    task = order_in(strategy_input.task_description)
    if not any(says_failure(step, task) for step in result.steps):
        return None
    seen = (step for step in result.steps if step.type == "observation" and step.metadata)
    made = [(each.tool_used or "", each.success is not False) for step in seen if (each := step.metadata)]
    counted, offered = NO_CALLS.with_calls(made), definitions_in(services.kernel.tools)
    failure = undone_act(task, offered, result.steps, result.tool_results, counted)
    if failure is None or is_foreseen(failure, result.output or "", task, strategy_input.task_description):
        return None
    return failure


def note_step(
    progress: Progress,
    kind: results.StepType,
    content: str,
    services: StrategyServices,
    *,
    label: str,
    metadata: results.StepMetadata | None = None,
) -> Progress:
    """Return the progress with a step of the strategy itself, published as a thought.

    ``label``: the name of the step in its event, such as ``reflexion:critique``.
    """
    step = results.ReasoningStep(
        StepId(f"{progress.id}-{len(progress.steps) + 1}"),
        kind,
        content,
        services.kernel.clock.now(),
        metadata,
    )
    strategy = label.partition(":")[0]
    services.kernel.publish(ReasoningStepCompleted, strategy, progress.iterations, label, thought=content)
    if services.control is not None:
        services.control.note(step)
    return evolve(progress, steps=(*progress.steps, step))


def has_tools(services: StrategyServices, allowed: frozenset[str] | None = None) -> bool:
    """Return whether there are tools that are allowed; ``None`` allows all."""
    definitions = definitions_in(services.kernel.tools)
    if allowed is None:
        return bool(definitions)
    return any(definition.name in allowed for definition in definitions)


@lru_cache(maxsize=64)  # the same for all runs of an agent
def loop_instructions(turns: int, besides: str = "", *, is_brief: bool = False) -> str:
    """Return the instructions for working in turns with tools.

    They state the number of turns, since a model that does not know it may answer too late.
    """
    number = NUMBER_OF_TURNS.format(turns) if turns > 1 else ""
    how = BRIEF_INSTRUCTIONS if is_brief else REACT_INSTRUCTIONS
    return " ".join([part for part in (how, number, besides) if part])


def _allowed(
    wanted: frozenset[str] | None, left: Mapping[str, int], strategy_input: StrategyInput
) -> frozenset[str] | None:
    used_up = frozenset(name for name, calls in left.items() if not calls)
    if not used_up:
        return wanted
    return (frozenset(strategy_input.available_tools) if wanted is None else wanted) - used_up


@effect
async def run_once(
    kernel: str | ThoughtKernel, task: KernelInput, options: KernelRunOptions, services: StrategyServices
) -> Result[results.ReasoningResult, errors.ReasoningErrors]:
    """Return the result of one kernel run, partial when it stopped early.

    Fails with ``StrategyExecutionError`` when the kernel failed, whose error is then the cause, and with
    ``StrategyNotFoundError`` when there is no kernel of that name.
    """
    measure = begin_measure(services)
    run = await _run(kernel, task, options, services)
    if not isinstance(run, Success):
        return Failure(run.failure())
    state = run.unwrap()
    if state.status == "failed":
        return Failure(
            errors.StrategyExecutionError(options.strategy, state.reason, state.iteration, state.error)
        )
    return Success(conclude(state, measure, services, task.task, task.answer_form))


async def _run(
    kernel: str | ThoughtKernel, task: KernelInput, options: KernelRunOptions, services: StrategyServices
) -> Result[KernelState, errors.ReasoningErrors]:
    """Return the final state of a kernel, which may be given by its name."""
    found = services.kernels.get(kernel) if isinstance(kernel, str) else kernel
    if found is None:
        return not_registered(str(kernel), services.kernels, "kernel")
    run = await run_to_end(found, task, options, services.kernel)
    return run.alt(lambda error: errors.StrategyExecutionError(options.strategy, error.message, cause=error))
