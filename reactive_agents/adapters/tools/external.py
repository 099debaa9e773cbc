"""Tools that another program executes, and the one by which a model asks a person."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from reactive_agents.adapters.tools.decorator import Tool, tool
from reactive_agents.adapters.tools.schema import ArgumentSchema
from reactive_agents.adapters.tools.signature import ToolDefinitionError
from reactive_agents.core.json import JsonObject
from reactive_agents.core.tools import ASK_USER, Risk


def external_tool(
    name: str,
    parameters: JsonObject,
    *,
    description: str,
    timeout_s: float | None = None,
    requires_approval: bool = False,
    risk: Risk = "low",
    output: bool = False,
    idempotent: bool = False,
    volatile: bool = False,
) -> Tool[..., Any, object]:
    """Return a tool that another program executes.

    Each call is checked here, and waits for ``agent.deliver``. Where a Python function describes the
    arguments, ``@tool(external=True)`` does the same.

    Args:
        parameters: JSON Schema of the arguments, an object schema.
        description: for the model.
        timeout_s: seconds that a call waits for its result, above 0; by default ``timeouts.answer_s``.
        requires_approval, risk, output, idempotent, volatile: as for :func:`tool`.

    Raises:
        ToolDefinitionError: the name, the schema or an option is not valid.
    """
    from reactive_agents.adapters.tools.mcp.listed_tools import ArgumentCheck

    try:
        if parameters.get("type") != "object":
            raise ValueError("its type is not object")
        check = ArgumentCheck(parameters)
    except Exception as error:
        raise ToolDefinitionError(
            f"The schema of the external tool {name!r} is not valid: {error}."
        ) from error
    properties = parameters.get("properties")
    names = tuple(properties) if isinstance(properties, dict) else ()
    made = tool(
        name=name,
        description=description,
        timeout_s=timeout_s,
        requires_approval=requires_approval,
        risk=risk,
        output=output,
        idempotent=idempotent,
        volatile=volatile,
        external=True,
    )(_not_run)
    return evolve(made, given_schema=ArgumentSchema(parameters, None, names, check))


def _not_run() -> None:
    """Describe no arguments: the schema does."""


@tool(name=ASK_USER, external=True)
def ask_user(question: str, options: list[str] | None = None) -> None:
    """Ask the user for what only they know or decide; wait for the answer.

    Args:
        question: one question, with all that is needed to answer it.
        options: answers to choose from, if there are few.
    """
