"""Answers of a given shape: asked for, found in the model's text, repaired, validated, asked for again."""

from __future__ import annotations

from reactive_agents.reasoning.structured_output.answer_parser import ReadAnswer, read_answer
from reactive_agents.reasoning.structured_output.question import Question, Structured, ask_structured
from reactive_agents.reasoning.structured_output.schema import Shape, shape_of, shape_read

__all__ = [
    "Question",
    "ReadAnswer",
    "Shape",
    "Structured",
    "ask_structured",
    "read_answer",
    "shape_of",
    "shape_read",
]
