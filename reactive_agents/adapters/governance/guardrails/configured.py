"""From the configuration of a guardrail to the guardrail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.guardrails.checks import Check
from reactive_agents.adapters.governance.guardrails.injection import DEFAULT_THRESHOLD, prompt_injection
from reactive_agents.adapters.governance.guardrails.limits import allowed_topics, length_limit
from reactive_agents.adapters.governance.guardrails.model_judge import ModelJudge
from reactive_agents.adapters.governance.guardrails.personal_data import personal_data
from reactive_agents.adapters.governance.guardrails.presidio import presidio_check
from reactive_agents.adapters.governance.guardrails.rule_guardrail import RuleGuardrail
from reactive_agents.adapters.governance.guardrails.toxicity import toxicity
from reactive_agents.core.errors import InvalidConfig, ServiceFailed
from reactive_agents.core.governance import GuardrailStage
from reactive_agents.core.service_config import ALL_STAGES, CheckConfig, CheckName, GuardrailsConfig

_STAGES: dict[CheckName, tuple[GuardrailStage, ...]] = {
    "prompt-injection": ("input", "tool-result"),
    "toxicity": ("input", "output"),
    "topics": ("input", "output"),
}
"""Where a check looks by default; the others look everywhere."""
_WITH_THRESHOLD: tuple[CheckName, ...] = ("prompt-injection", "toxicity", "presidio")


def build_guardrail(
    config: GuardrailsConfig, functions: Sequence[Check] = ()
) -> Result[RuleGuardrail, InvalidConfig]:
    """The guardrail of the configured checks, the functions and the judge, in this order.

    Fails with ``InvalidConfig`` when a check has an option that is not its own, lacks one, or needs an extra
    that is not installed.
    """
    by_stage: dict[GuardrailStage, tuple[Check, ...]] = {}
    for place, each in enumerate(config.checks):
        option = f"guardrails.checks[{place}]"
        wrong = _wrong_option(each, option)
        if wrong is not None:
            return Failure(wrong)
        check = build_check(each)
        if isinstance(check, Failure):
            problem = check.failure().message
            return Failure(InvalidConfig(option, repr(each.name), f"an installed check. {problem}"))
        for stage in each.stages if each.stages is not None else _STAGES.get(each.name, ALL_STAGES):
            by_stage[stage] = (*by_stage.get(stage, ()), check.unwrap())
    judges = (ModelJudge(model=config.judge_model),) if config.judge_model is not None else ()
    return Success(RuleGuardrail((*functions, *judges), by_stage))


def _wrong_option(config: CheckConfig, option: str) -> InvalidConfig | None:
    name = repr(config.name)
    if config.stages is not None and not config.stages:
        return InvalidConfig(f"{option}.stages", "none", f"one or more of {', '.join(ALL_STAGES)} ({name})")
    if config.threshold is not None and config.name not in _WITH_THRESHOLD:
        expected = f"none, since the check {name} has no threshold"
        return InvalidConfig(f"{option}.threshold", str(config.threshold), expected)
    if (config.max_characters is None) == (config.name == "length"):
        expected = "1 or more for the check 'length', and none for another"
        return InvalidConfig(f"{option}.max_characters", str(config.max_characters), f"{expected} ({name})")
    if any(config.topics.values()) != (config.name == "topics"):
        expected = "a topic with a word for the check 'topics', and none for another"
        return InvalidConfig(f"{option}.topics", str(dict(config.topics)), f"{expected} ({name})")
    return None


def build_check(config: CheckConfig) -> Result[Check, ServiceFailed]:
    """The check that the configuration describes; fails with ``ServiceFailed`` when its extra is missing."""
    action, threshold = config.action, config.threshold
    match config.name:
        case "prompt-injection":
            return Success(
                prompt_injection(
                    action=action or "block",
                    threshold=DEFAULT_THRESHOLD if threshold is None else threshold,
                )
            )
        case "personal-data":
            return Success(personal_data(action=action or "redact"))
        case "toxicity":
            return Success(
                toxicity(action=action or "block", threshold=0.6 if threshold is None else threshold)
            )
        case "length":
            return Success(length_limit(config.max_characters or 0, action=action or "block"))
        case "topics":
            return Success(allowed_topics(config.topics, action=action or "block"))
        case "presidio":
            return presidio_check(
                action=action or "redact", threshold=0.5 if threshold is None else threshold
            )
        case _:
            assert_never(config.name)
