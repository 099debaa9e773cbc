"""Output validators: functions of the program that judge and change answers.

They run on answers that no policy objects to, wherever in a run such an answer stands, and once for each:
what was accepted is not judged again. What they return takes the place of the answer in all that follows, so
that events, memory and the result have one answer.
"""

from __future__ import annotations

import inspect
from typing import Any

from attrs import evolve, field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ExecutionError, OutputValidatorFailed, ServiceFailed
from reactive_agents.core.governance import JudgedAnswer, ModelRetry
from reactive_agents.effects import effect, is_cancelled
from reactive_agents.engine.services import EngineServices, OutputValidator
from reactive_agents.kernel.answer_form import AnswerForm
from reactive_agents.kernel.service_calls import call_service
from reactive_agents.reasoning.structured_output.answer_parser import read_answer
from reactive_agents.reasoning.structured_output.output_type import TEXT, answer_form, text_of_value
from reactive_agents.reasoning.structured_output.schema import Shape

SERVICE = "output validators.accept"
LONGEST_REASON = 4_000
"""Characters of a validator's reason that the model is shown."""


def form_of_answers(services: EngineServices) -> AnswerForm | None:
    """Return the form of the run's answers; ``None`` for any text."""
    shape = services.ports.output_shape.value_or(None)
    validators = services.ports.output_validators
    if shape is None and not validators:
        return None
    form = answer_form(TEXT if shape is None else shape)
    return evolve(form, accept=_Judge(shape or TEXT, form, validators, services)) if validators else form


@frozen(eq=False)
class _Judge:
    """Asks the validators of a run about an answer, in their order.

    Attributes:
        accepted: the answers that were accepted, which are not judged again.
        rejected: the answers that were not, for ``retry`` of the context.
    """

    shape: Shape[Any]
    form: AnswerForm
    validators: tuple[OutputValidator, ...]
    services: EngineServices
    accepted: set[str] = field(factory=set)
    rejected: list[str] = field(factory=list)

    async def __call__(self, text: str) -> Result[str, str | OutputValidatorFailed]:
        """Return the answer as it is delivered.

        Fails with the objection of a validator, or with ``OutputValidatorFailed``, which ends the run.
        """
        if text in self.accepted:
            return Success(text)
        judged = await call_service(SERVICE, self.judge, JudgedAnswer, text)
        if not isinstance(judged, Success):
            error = judged.failure()
            failed = error if isinstance(error, OutputValidatorFailed) else _broken(error)
            handle = self.services.handle
            handle.failure = ExecutionError(failed.message, handle.context.task_id, handle.phase, failed)
            return Failure(failed)
        answer = judged.unwrap()
        if answer.objection:
            self.rejected.append(text)
            return Failure(f"The answer was not accepted: {answer.objection}")
        self.accepted.add(answer.text)
        return Success(answer.text)

    @effect
    async def judge(self, text: str) -> Result[JudgedAnswer, OutputValidatorFailed]:
        """Return the judgement on an answer of the form."""
        value = read_answer(text, self.shape).unwrap().value if self.form.has_fields else text
        for validator in self.validators:
            before = self._text(value)
            try:
                returned = self._call(validator, value)
                if inspect.isawaitable(returned):
                    returned = await returned
            except ModelRetry as retry:
                returned = retry
            except Exception as error:
                if is_cancelled():
                    raise
                return Failure(
                    OutputValidatorFailed(validator.name, f"raised {type(error).__name__}: {error}")
                )
            if isinstance(returned, ModelRetry):
                reason = str(returned).strip() or f"{validator.name} refused it."
                return Success(JudgedAnswer(text, reason[:LONGEST_REASON]))
            value = value if returned is None else returned
            after = self._text(value)
            problem = "it has no JSON form" if after is None else self.form.problem_in(after)
            if after is None or problem:
                wrong = f"returned a value that is no {self.shape.name}: {problem}"
                return Failure(OutputValidatorFailed(validator.name, wrong))
            text = text if after == before else after
        return Success(JudgedAnswer(text))

    def _call(self, validator: OutputValidator, value: Any) -> Any:
        if not validator.takes_context:
            return validator.function(value)
        return validator.function(self.services.run_context(retry=len(self.rejected)), value)

    def _text(self, value: Any) -> str | None:
        """Return the text of a value; ``None`` for one that has no JSON form."""
        try:
            return text_of_value(value, self.shape)
        except Exception:  # noqa: BLE001 - the serializers of a type are the user's code
            return None


def _broken(error: ServiceFailed) -> OutputValidatorFailed:
    return OutputValidatorFailed(SERVICE, error.message)
