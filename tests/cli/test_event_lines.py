"""The lines that a person sees of each strategy during a run."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.adapters.telemetry.console import LiveView, PlainView, describe
from reactive_agents.core.errors import MemoryUnavailable, RateLimited
from reactive_agents.core.events import (
    AgentEvent,
    GuardrailTriggered,
    ModelCallAbandoned,
    ModelCallCompleted,
    PlanStoreFailed,
)
from reactive_agents.core.ids import PlanId, RunId, TaskId
from reactive_agents.core.usage import RunUsage, Usage, unknown_usage
from reactive_agents.reasoning import StrategyRegistry
from reactive_agents.testing import (
    EventRecorder,
    FakeClock,
    ScriptedLLM,
    Turn,
    answer,
    call,
    calls,
    forever,
    say,
)
from tests.support.command_line import command
from tests.support.plans import (
    ANALYSING,
    AUGMENTING,
    analysis_step,
    plan,
    satisfied,
    steps,
    tool_step,
    unsatisfied,
)

DOCS = Path(__file__).parents[2] / "docs"


def shown(strategy: str, *turns: Turn, **options: Any) -> list[str]:
    """The lines of a run, without those of phases, calls of models and tools, and the summary."""
    failed: list[str] = []

    def fetch(page: int) -> str:
        """Fetch a page."""
        if page and not failed:
            failed.append("once")
            raise OSError("the line is busy")
        return "a page"

    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_tools(fetch)
    agent = builder.with_reasoning(strategy, strategies=options).build()
    recorder, output = EventRecorder(), io.StringIO()
    agent.subscribe(recorder)
    agent.run_sync("Fetch\nit.")
    plain, live = PlainView(output), LiveView(io.StringIO())
    with live:
        for event in recorder.events:
            plain.show(event)
            live.show(event)
    return [
        re.sub(r"  +", " ", line)
        for line in output.getvalue().splitlines()
        if line.split()[0] not in ("phase", "model", "tool", "done", "partial", "action", "result")
    ]


def test_a_plan_is_shown_while_it_runs() -> None:
    begun, listed, *rest = shown(
        "plan-execute-reflect",
        plan(tool_step("fetch", page=1), analysis_step("Read {{from_step:s1}}.")),
        say("Read.", when=ANALYSING),
        unsatisfied("the end"),
        steps(analysis_step("Read the end."), when=AUGMENTING),
        say("Read it all.", when=ANALYSING),
        satisfied("s3"),
        *[answer("Read it all.")] * 2,
    )[1:]
    assert re.fullmatch(r"plan \w+ begins: 2 steps, linear", begun)
    assert listed == "plan s1 (tool_call: fetch): Call fetch s2 (analysis): Think"
    assert rest == [
        "step s1 begins: Call fetch",
        next(line for line in rest if line.startswith("step s1, attempt 2: ") and "the line is busy" in line),
        "step s1 completed: Call fetch",
        "step s2 begins: Think",
        "thought Read.",
        "step s2 completed: Think",
        "review UNSATISFIED (confidence 0.60). Missing: the end.",
        "plan augmented, version 2, remaining: s3 Think",
        "step s3 begins: Think",
        "thought Read it all.",
        "step s3 completed: Think",
        "review SATISFIED (confidence 0.90).",
        "plan completed",
    ]


def test_a_plan_that_does_not_reach_its_goal_is_shown_with_what_went_wrong() -> None:
    said = shown(
        "plan-execute-reflect",
        plan(analysis_step("Read."), analysis_step("{{from_step:s1}}")),
        *[say("", when=ANALYSING)] * 2,
        forever(answer("Nothing could be read.")),
    )
    assert any(line.startswith("step s1 failed: ") for line in said)
    assert "step s2 skipped: Skipped: it depends on s1, which is failed." in said
    assert said[-1] == "plan stays active and can be resumed"


def thinking(text: str) -> Turn:
    """The model says a text, and delivers it."""
    return calls(call("final-answer", answer=text), text=text)


def test_critiques_thoughts_of_a_tree_and_choices_are_shown() -> None:
    verdict = say('{"issues": ["Too short."], "score": 0.4, "satisfied": false}')
    good = say('{"issues": [], "score": 1, "satisfied": true}')
    said = shown("reflexion", thinking("No."), verdict, thinking("No, never."), good)
    assert [line for line in said[1:] if "final-answer" not in line] == [
        "thought No.",
        "critique Not accepted, score 0.40: Too short.",
        "thought No, never.",
        "critique Accepted, score 1.00.",
    ]
    scored = say('{"scores": [{"candidate": 1, "reason": "", "score": 0.9}]}')
    tree = say('{"thoughts": ["Ask."]}')
    said = shown("tree-of-thought", tree, scored, thinking("Asked."), tree_of_thought={"depth": 1})
    assert said[1].startswith("plan ")
    assert "Ask." in said[1]
    assert said[2] == "thought Asked."
    said = shown("adaptive", thinking("It is."))
    assert said[1].startswith("strategy Strategy: reactive. Reason: ")


STAMP = RunId("r"), TaskId("t"), 1, FakeClock().now()


@pytest.mark.parametrize(
    "event",
    [
        PlanStoreFailed(*STAMP, plan_id=PlanId("p"), error=MemoryUnavailable("Full.", "save")),
        GuardrailTriggered(*STAMP, "input", "injection", "block", 1.0, 0, 1, detail="Full."),
    ],
)
def test_what_went_wrong_is_shown_on_a_terminal_too(event: AgentEvent) -> None:
    output = io.StringIO()
    with LiveView(output, width=120) as live:
        live.show(event)
    assert "Full." in output.getvalue()


REFUSED = (RunUsage("m", Usage(4, 3, 7), 0.5), RunUsage("n", Usage(1, 1, 2), 0.25))


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            ModelCallCompleted(*STAMP, "think", "m", Usage(1, 1, 2), 0.25, 3.0, REFUSED),
            "m: 2 tokens, $0.2500, 3 ms (and 9 tokens, $0.7500, for 2 failed attempts)",
        ),
        (
            ModelCallAbandoned(
                *STAMP, "think", RateLimited("Later.", "m", refused=(unknown_usage("m"),)), 3.0
            ),
            "model: Later. (and 0 tokens or more, $0.0000 or more, for 1 failed attempt)",
        ),
    ],
)
def test_the_cost_of_failed_attempts_is_shown_and_in_the_totals(event: AgentEvent, line: str) -> None:
    shown_line = describe(event)
    assert shown_line is not None
    assert shown_line.text == line
    output = io.StringIO()
    with LiveView(output, width=120) as live:
        live.show(event)
    if isinstance(event, ModelCallCompleted):
        assert "11 tokens · $1.0000" in output.getvalue()


def test_a_tiny_cost_is_not_shown_as_none() -> None:
    shown_line = describe(ModelCallCompleted(*STAMP, "think", "m", Usage(1, 1, 2), 0.0000273, 3.0))
    assert shown_line is not None
    assert shown_line.text == "m: 2 tokens, $0.000027, 3 ms"


def test_help_and_page_name_every_strategy() -> None:
    help_text = "".join(command("run", "--help").stdout.split())  # lines may break at a hyphen
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    for name in StrategyRegistry().names():
        assert f"'{name}'" in help_text
        assert f"`{name}`" in page
