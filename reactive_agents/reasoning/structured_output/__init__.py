"""Values of a given shape: asked of a model, parsed, repaired and validated.

A shape is a JSON Schema with a function that reads JSON data into a value. Models that cannot be held to a
schema still give the value: the JSON is found in their text, repaired where it is broken, fitted to the
schema as far as nothing is lost, and asked for again with the exact problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactive_agents.lazy_imports import lazy_names

if TYPE_CHECKING:
    from reactive_agents.reasoning.structured_output.answer_parser import ReadAnswer, read_answer
    from reactive_agents.reasoning.structured_output.output_type import (
        TEXT,
        answer_form,
        convert_output,
        retyped_result,
        text_of_value,
    )
    from reactive_agents.reasoning.structured_output.question import Question, Structured, ask_structured
    from reactive_agents.reasoning.structured_output.schema import Shape, shape_of, shape_read_by

_HOMES = {
    "ReadAnswer": "reactive_agents.reasoning.structured_output.answer_parser",
    "read_answer": "reactive_agents.reasoning.structured_output.answer_parser",
    "TEXT": "reactive_agents.reasoning.structured_output.output_type",
    "answer_form": "reactive_agents.reasoning.structured_output.output_type",
    "convert_output": "reactive_agents.reasoning.structured_output.output_type",
    "retyped_result": "reactive_agents.reasoning.structured_output.output_type",
    "text_of_value": "reactive_agents.reasoning.structured_output.output_type",
    "Question": "reactive_agents.reasoning.structured_output.question",
    "Structured": "reactive_agents.reasoning.structured_output.question",
    "ask_structured": "reactive_agents.reasoning.structured_output.question",
    "Shape": "reactive_agents.reasoning.structured_output.schema",
    "shape_of": "reactive_agents.reasoning.structured_output.schema",
    "shape_read_by": "reactive_agents.reasoning.structured_output.schema",
}

__all__ = [
    "TEXT",
    "Question",
    "ReadAnswer",
    "Shape",
    "Structured",
    "answer_form",
    "ask_structured",
    "convert_output",
    "read_answer",
    "retyped_result",
    "shape_of",
    "shape_read_by",
    "text_of_value",
]

__getattr__ = lazy_names(__name__, _HOMES)
