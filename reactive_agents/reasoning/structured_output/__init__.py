"""Values of a given shape: asked of a model, parsed, repaired and validated.

A shape is a JSON Schema with a function that reads JSON data into a value. Models that cannot be held to a
schema still give the value: the JSON is found in their text, repaired where it is broken, fitted to the
schema as far as nothing is lost, and asked for again with the exact problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactive_agents.lazy_imports import lazy_names

if TYPE_CHECKING:
    from reactive_agents.reasoning.structured_output.answer_parser import read_answer
    from reactive_agents.reasoning.structured_output.output_type import (
        TEXT,
        answer_form,
        convert_output,
        retyped_result,
        text_of_value,
    )

__all__ = ["TEXT", "answer_form", "convert_output", "read_answer", "retyped_result", "text_of_value"]

if not TYPE_CHECKING:  # else type checkers accept any name
    __getattr__ = lazy_names(__name__, dict.fromkeys(__all__, f"{__name__}.output_type"))
