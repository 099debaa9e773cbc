# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""The types of partial answers."""

from typing import assert_type

from attrs import frozen

from reactive_agents import ReactiveAgents
from reactive_agents.core.events import AgentEvent


@frozen
class Report:
    planet: str


async def partial_answers() -> None:
    builder = ReactiveAgents.create().with_model("offline")
    async for text in builder.build().stream_output("Report."):
        assert_type(text, str)
    reports = builder.with_output_type(Report).build().stream_output("Report.")
    async for report in reports:
        assert_type(report, Report)
    if reports.result.status == "completed":
        assert_type(reports.result.output, Report)
    async for numbers in builder.build().stream_output("Count.", output=list[int]):
        assert_type(numbers, list[int])
    async for event in builder.build().stream("Report."):
        assert_type(event, AgentEvent)
