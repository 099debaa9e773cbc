"""The records that stand for earlier turns, by whichever method; ``fast`` where another one fails."""

from __future__ import annotations

import inspect
from typing import assert_never

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.usage import ModelSpending
from reactive_agents.effects import attempt
from reactive_agents.kernel import KernelContext
from reactive_agents.ports import LLM
from reactive_agents.reasoning.synthesis.choose import SynthesisMethod
from reactive_agents.reasoning.synthesis.deep import deep_records, records_of
from reactive_agents.reasoning.synthesis.fast import fast_records
from reactive_agents.reasoning.synthesis.material import SynthesisMaterial
from reactive_agents.reasoning.synthesis.settings import SynthesisFunction, SynthesisSettings

QUESTION_SHARE = 0.5
"""Of the window, what a model is shown of the earlier turns when it puts them in short."""


@frozen
class Composed:
    """What became of the earlier turns.

    Attributes:
        method: what made the records.
        problem: why the method that was chosen failed; empty when it did not.
        spent: on the model's call, if one was asked.
    """

    records: tuple[str, ...]
    method: SynthesisMethod
    problem: str = ""
    spent: tuple[ModelSpending, ...] = ()


async def compose(
    material: SynthesisMaterial,
    method: SynthesisMethod,
    settings: SynthesisSettings,
    context: KernelContext,
    llm: LLM,
    *,
    window_tokens: int,
) -> Composed:
    """The records by the method that was chosen, or by ``fast`` when it fails.

    Args:
        window_tokens: the window of the run's model, of which a question takes a part.
    """
    match method:
        case "fast":
            return Composed(fast_records(material), "fast")
        case "deep":
            room = int(QUESTION_SHARE * window_tokens)
            composed = await _deep(material, settings, context, llm, room=room)
        case "custom":
            composed = await _custom(material, settings.function)
        case _:
            assert_never(method)
    if not composed.problem:
        return composed
    return evolve(composed, records=fast_records(material), method="fast")


async def _deep(
    material: SynthesisMaterial,
    settings: SynthesisSettings,
    context: KernelContext,
    llm: LLM,
    *,
    room: int,
) -> Composed:
    model = settings.model or context.input.model
    asked = deep_records(material, llm, model=model, temperature=settings.temperature, room=room)
    answer = (await attempt(asked)).unwrap()
    return Composed(answer.records, "deep", answer.problem, answer.spent)


async def _custom(material: SynthesisMaterial, function: SynthesisFunction | None) -> Composed:
    text = await _called(material, function)
    if isinstance(text, Failure):
        return Composed((), "custom", text.failure())
    records = records_of(text.unwrap(), material.budget)
    return Composed(records, "custom", "" if records else "The function gave a blank text.")


async def _called(material: SynthesisMaterial, function: SynthesisFunction | None) -> Result[str, str]:
    if function is None:
        return Failure("There is no function.")
    try:
        made = function(material)
        text: object = await made if inspect.isawaitable(made) else made
    except Exception as error:  # noqa: BLE001 - the function is the user's own
        return Failure(f"{type(error).__name__}: {error}")
    if not isinstance(text, str):
        return Failure(f"The function gave {type(text).__name__}, expected a text.")
    return Success(text)
