"""``reactive-agents models``: the model providers, and the probe of a model."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import anyio
import typer

from reactive_agents.adapters.llm.providers import PROVIDERS, Provider
from reactive_agents.cli import output
from reactive_agents.cli.output import argument, option
from reactive_agents.core.codec import encode
from reactive_agents.core.json import JsonObject
from reactive_agents.core.model_profiles import ModelProfile, ProbeFinding
from reactive_agents.core.texts import dollars

_NAME_WIDTH = 14
_NOTE_WIDTH = 64


models = output.command_group("List the model providers, or probe a model.", invoke_without_command=True)


@models.callback()
def list_providers(context: typer.Context) -> None:
    """List the model providers, or probe a model.

    Configured providers come first; the others show the environment variable that is missing.
    """
    if context.invoked_subcommand is not None:
        return
    providers = [(each, each.missing(os.environ)) for each in PROVIDERS]
    if output.is_json():
        output.print_json(
            [
                {
                    "provider": each.name,
                    "ready": not missing,
                    "missing": list(missing),
                    "default_model": each.default_model,
                    "note": each.note,
                }
                for each, missing in providers
            ]
        )
        return
    for provider, missing in sorted(providers, key=lambda each: bool(each[1])):
        state = f"set {' and '.join(missing)}" if missing else "ready"
        if sys.stdout.isatty():
            _print_block(provider, state, ready=not missing)
        else:
            typer.echo("\t".join((provider.name, state, provider.default_model or "", provider.note)))


def _print_block(provider: Provider, state: str, *, ready: bool) -> None:
    """Print a provider on several lines; a table would break long model names."""
    lines = [state, *([provider.default_model] if provider.default_model else [])]
    lines += wrap(provider.note, _NOTE_WIDTH)
    for number, line in enumerate(lines):
        name = "" if number else provider.name
        typer.secho(
            f"{name:<{_NAME_WIDTH}}{line}",
            fg="green" if ready else None,
            dim=number > 0 or not ready,
        )


@models.command()
def probe(
    model: Annotated[str, argument("", "provider/model, or a provider for its default model.")],
    base_url: output.ServerOption = None,
    path: Annotated[
        Path | None,
        option("--path -p FILE", "The file of profiles; by default in the user's state directory."),
    ] = None,
    longest_prompt: Annotated[
        int,
        option(
            "--longest-prompt TOKENS", "Tokens of the longest prompt to send.", min=2_048, show_default=True
        ),
    ] = 32_768,
) -> None:
    """Probe a model and its server with a dozen short requests.

    The profile is stored. Agents with this model at this URL use it for options that they do not set.
    """
    from reactive_agents import AgentError, ReactiveAgents

    key = None if base_url is None else output.key_of_server(model)
    described = ReactiveAgents.create().with_model(model, base_url=base_url, api_key=key, profiles=path)
    try:
        agent = described.build()
    except AgentError as wrong:
        raise output.fail(wrong.error) from None
    profile, problem = anyio.run(_probe, agent, longest_prompt)
    if output.is_json():
        output.print_json({**_record(profile), "problem": problem})
    else:
        _print_profile(profile)
        if problem:
            output.tell(f"error: {problem}")
    answer = profile.finding("answer")
    if problem or answer is None or answer.problem:
        raise typer.Exit(output.ExitCode.FAILED)
    raise typer.Exit(output.ExitCode.COMPLETED if profile.complete else output.ExitCode.PARTIAL)


async def _probe(agent: Any, longest_prompt: int) -> tuple[ModelProfile, str]:
    from reactive_agents.agent.model_probe import probe_agent

    def report(finding: ProbeFinding) -> None:
        if not output.is_json() and sys.stderr.isatty():
            output.tell(f"{finding.subject}: {finding.outcome}")

    async with agent:
        return await probe_agent(agent.container, longest_prompt=longest_prompt, report=report)


def _record(profile: ModelProfile) -> JsonObject:
    from reactive_agents.kernel.context_window.window import profile_for

    tier = profile.tier(profile_for(profile.model).tier)
    return {
        "model": profile.model,
        "address": profile.address,
        "findings": encode(profile.findings),
        "settings": {
            "context_tier": tier,
            "window_tokens": profile.window(tier),
            "call_format": profile.call_format,
            "omitted_parameters": [*sorted(profile.refused_parameters)],
        },
        "usage": encode(profile.usage),
    }


def _print_profile(profile: ModelProfile) -> None:
    rows: list[tuple[str, str, str]] = [
        (each.subject, each.outcome, output.one_line(_detail(each))) for each in profile.findings
    ]
    settings: Any = _record(profile)["settings"]
    rows += [("context tier", str(settings["context_tier"]), "used unless it is set")]
    rows += [("call format", str(settings["call_format"] or "not known"), "")]
    rows += [("window", str(settings["window_tokens"] or "as listed"), "tokens")]
    omitted = ", ".join(settings["omitted_parameters"]) or "none"
    rows += [("not sent", omitted, "parameters that the server refuses")]
    usage = profile.usage
    cost = dollars(usage.cost_usd, usage.unpriced_calls)
    rows += [("cost", cost, f"{usage.calls} answers, {usage.tokens:,} tokens")]
    output.print_table(("subject", "result", "detail"), rows)


def _detail(finding: ProbeFinding) -> str:
    if not finding.problem:
        return finding.detail
    return f"Found on {finding.at:%Y-%m-%d}, not this time: {finding.problem}"
