"""The form that the answers of a run have: the parameters of ``final-answer``.

A model fills in the fields of its answer as it fills in the arguments of any tool, so that no JSON is written
inside of JSON. An answer that otherwise stands is held to the form by the runner, since that may call
functions of the program: what is wrong with it goes back to the model, a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.json import JsonObject
from reactive_agents.core.texts import as_sentence, with_article
from reactive_agents.core.tools import FINAL_ANSWER, ToolDefinition
from reactive_agents.kernel.call_parsing.argument_schema import properties_of

OUTPUT_TYPE = "output_type"
"""The policy that guidance about the form carries, and ``terminated_by`` of what never fits."""
OUTPUT_VALIDATOR = "output_validator"
"""The same of answers that the program's functions do not accept."""
RETRIES = 2
"""How often a model is asked again for an answer that does not fit."""

COULD_NOT = "could_not"
"""The argument of ``final-answer`` by which a model abstains."""

FINAL_ANSWER_TOOL = ToolDefinition(
    name=FINAL_ANSWER,
    description="Deliver the full answer.",
    parameters={
        "type": "object",
        "properties": {
            "answer": {"type": "string"},
            COULD_NOT: {"type": "string", "description": "If impossible: why, what is needed."},
        },
        "required": ["answer"],
    },
)


@frozen(eq=False)
class AnswerForm:
    """The form of the answers of a run.

    Attributes:
        name: the name of the type, for messages.
        tool: the definition of ``final-answer``; its parameters are the fields of the answer.
        text_of: returns the text of the answer that arguments of ``final-answer`` are.
        problem_in: returns what is wrong with the text of an answer, for the model; empty if it fits. Pure.
        instructions: describes the form where ``final-answer`` is not offered; empty for any text.
        response_schema: JSON Schema of an answer that is a text, for providers that hold a model to it.
        accept: returns the text of the answer as it is delivered, or why it is not accepted; it may call
            functions of the program, and their values may differ from what the model gave.
        abstains: whether the tool has the argument ``could_not``.
        unwrapped: returns the text of an answer without the one field around it, if it has that.
        ratings: the names of fields that hold a number from 0 to 1, which is the model's own judgement.
    """

    name: str
    tool: ToolDefinition
    text_of: Callable[[JsonObject], str]
    problem_in: Callable[[str], str]
    instructions: str
    response_schema: JsonObject | None
    accept: Callable[[str], Awaitable[Result[str, str | errors.OutputValidatorFailed]]] | None = None
    abstains: bool = True
    unwrapped: Callable[[str], str] = str
    ratings: frozenset[str] = frozenset()

    @property
    def has_fields(self) -> bool:
        """Whether answers are values of a type, and not any text."""
        return self.tool is not FINAL_ANSWER_TOOL

    def fits(self, text: str) -> bool:
        """Return whether a text is a value of the form's type."""
        return self.has_fields and not self.problem_in(text)

    def without_ratings(self, text: str) -> str:
        """Return a text without the numbers that are the model's own judgement."""
        names = "|".join(map(re.escape, self.ratings))
        return re.sub(rf'"(?:{names})": ?[\d.eE+-]+', "", text) if names else text


def claims_in(answer: str, form: AnswerForm | None) -> str:
    """Return an answer without the model's own ratings, which need no source."""
    return answer if form is None else form.without_ratings(answer)


def reason_without_form(name: str, problem: str, *, rejected: bool = False) -> str:
    """Return the reason of a run whose answer lacks its form, or was ``rejected``."""
    if rejected:
        return f"{as_sentence(problem)} Missing: an answer that is accepted."
    wanted = with_article(name)
    return f"The answer could not be made {wanted}: {as_sentence(problem)} Missing: {wanted}."


def answer_tool(parameters: JsonObject) -> ToolDefinition:
    """Return ``final-answer`` with the fields of an answer as its parameters.

    A model may abstain in place of giving them, unless a field has the name of that argument.
    """
    said: JsonObject = {
        "type": "string",
        "description": "Only if impossible: why, what is needed. Then this alone.",
    }
    fields: JsonObject = {**properties_of(parameters)}
    fields.setdefault(COULD_NOT, said)
    return evolve(FINAL_ANSWER_TOOL, parameters={**parameters, "properties": fields})


async def accepted_text(text: str, form: AnswerForm) -> Result[str, str | errors.OutputValidatorFailed]:
    """Return the text of an answer as it is delivered, what is wrong, or a failure."""
    problem = form.problem_in(text)
    if problem:
        return Failure(problem)
    text = form.unwrapped(text)
    return Success(text) if form.accept is None else await form.accept(text)
