"""What tasks name."""

from __future__ import annotations

import pytest

from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.clauses import looked_up_by

TASK = "Where is order 4711?"


@pytest.mark.parametrize(
    ("parameter", "found"),
    [("order_id", ("4711",)), ("order_number", ("4711",)), ("order_total", ()), ("id", ()), ("user_id", ())],
)
def test_an_identifier_is_looked_up_by_a_tool_that_takes_the_identifier_of_that_thing(
    parameter: str, found: tuple[str, ...]
) -> None:
    parameters = {"type": "object", "properties": {parameter: {"type": "string"}}}
    assert looked_up_by(TASK, [ToolDefinition("show_order", "Show an order.", parameters)]) == found
