"""``reactive-agents evaluate``: how often an agent passes the cases of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast

import anyio
import typer
from attrs import evolve
from returns.result import Result, Success

from reactive_agents.adapters.system import cancel_on_sigterm
from reactive_agents.adapters.telemetry.console import SilentView
from reactive_agents.agent import AgentConfig, AgentError, ReactiveAgent
from reactive_agents.agent.description import DeskOptions
from reactive_agents.agent.errors import value_or_raise
from reactive_agents.cli import output
from reactive_agents.cli import run as running
from reactive_agents.cli.output import argument, option
from reactive_agents.core.errors import ConfigErrors
from reactive_agents.core.json import JsonObject
from reactive_agents.core.texts import counted
from reactive_agents.evaluation import CaseRun, EvaluationReport, read_cases
from reactive_agents.evaluation import evaluate as evaluate_agent


def evaluate(
    described: running.AgentOptions,
    cases: Annotated[Path, argument("CASES", "The file of the cases, .toml or .json.")],
    judge: Annotated[
        str | None,
        option(
            "--judge M",
            "The model that judges by the criteria of the cases, or an agent's configuration, .toml or "
            ".json, or module:name of one built in Python.",
        ),
    ] = None,
    repeats: Annotated[int, option("--repeats N", "Runs of each case; 1 by default.", min=1)] = 1,
    limit: Annotated[int, option("--limit N", "Runs at the same time; 4 by default.", min=1)] = 4,
    pass_rate: Annotated[
        float,
        option(
            "--pass-rate RATE",
            "The share of runs that must pass, from 0 to 1; fewer end with exit code 1. 1 by default.",
            parser=output.number_up_to(1, "a share"),
        ),
    ] = 1.0,
) -> None:
    """Run an agent on cases, and count the runs that pass.

    Progress goes to standard error, the table to standard output. No run asks anybody.
    """
    output.check_there("CASES", str(cases), "a file of cases")
    own = described.from_python()
    if own is not None and own.container.settings().durability is not None:
        raise output.bad_usage(
            "AGENT", repr(str(described.path)), "an agent without durability, to be evaluated"
        )

    def build() -> ReactiveAgent:
        made = described.from_python()
        if made is not None:
            return made
        # an agent with a record would first continue its interrupted runs
        known = evolve(output.value_or_exit(described.config), durability=None)
        return value_or_raise(running.build_agent(known, SilentView(), described.path, cases, desk=_NOBODY))

    judged: list[CaseRun] = []

    def show(run: CaseRun) -> None:
        judged.append(run)
        if not output.is_json():
            wrong = [score for score in run.scores if not score.passed]
            said = "passed" if not wrong else f"{wrong[0].name}: {wrong[0].reason}"
            output.tell(output.one_line(f"{run.case.name}, run {run.attempt}: {said}"))

    async def run_all() -> EvaluationReport:
        judging = None if judge is None else value_or_raise(_judge(judge, described.allow_tools_from))
        read = read_cases(cases, judge=judging)
        first = build()  # a wrong configuration is an error before the first run
        source = build if own is None or first is not own else own
        with cancel_on_sigterm():
            try:
                return await evaluate_agent(source, read, repeats=repeats, limit=limit, on_run=show)
            except anyio.get_cancelled_exc_class():
                _report_interrupted(judged)  # before the signal ends the process
                raise

    try:
        report = anyio.run(run_all)
    except AgentError as wrong:
        raise output.fail(wrong.error) from None
    output.report(report.to_json(), str(report))
    passed = report.pass_rate >= pass_rate
    raise typer.Exit(output.ExitCode.COMPLETED if passed else output.ExitCode.FAILED)


def _report_interrupted(judged: Sequence[CaseRun]) -> None:
    """Report the runs that were judged before the evaluation was interrupted."""
    said = f"The evaluation was interrupted after {counted(len(judged), 'run')}."
    report = EvaluationReport(tuple(judged))
    failed = cast(JsonObject, output.error_record("Interrupted", said))
    output.report({**report.to_json(), **failed}, f"{report}\n{said}")


_NOBODY = DeskOptions(attended=False)


def _judge(named: str, allow_tools_from: str | None) -> Result[ReactiveAgent, ConfigErrors]:
    """Return the agent that judges, by its file or its model."""
    if output.is_python_name(named):
        return Success(running.python_agent(named, allow_tools_from=allow_tools_from))
    is_file = named.endswith((".toml", ".json"))
    configured = (
        running.read_config_file(Path(named), allow_tools_from)
        if is_file
        else Success(running.adjusted(AgentConfig(name="judge"), named))
    )
    return configured.bind(lambda known: running.build_agent(known, SilentView(), desk=_NOBODY))
