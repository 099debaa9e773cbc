"""Answers of a given shape: asked for, found in the model's text, repaired, validated, asked for again."""

from __future__ import annotations

from reactive_agents.reasoning.shapes import Shape, shape_of, shape_read
from reactive_agents.reasoning.structured.asking import Question, Structured, ask_structured
from reactive_agents.reasoning.structured.reading import ReadAnswer, read_answer

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
