"""The tool by which a model asks a person."""

from __future__ import annotations

from reactive_agents.adapters.tools.decorator import tool
from reactive_agents.core.tools import ASK_USER


@tool(name=ASK_USER, external=True)
def ask_user(question: str, options: list[str] | None = None) -> None:
    """Ask the user for what only they know or decide; wait for the answer.

    Args:
        question: one question, with all that is needed to answer it.
        options: answers to choose from, if there are few.
    """
