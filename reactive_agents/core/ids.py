"""Branded identifiers.

Their text is a ULID from the :class:`~reactive_agents.ports.IdSource` port."""

from __future__ import annotations

from typing import NewType

AgentId = NewType("AgentId", str)
RunId = NewType("RunId", str)
"""Names a run: in its events, its requests and its record."""
TaskId = NewType("TaskId", str)
"""Names a task: a running one is paused, stopped or cancelled by it."""
SessionId = NewType("SessionId", str)
StepId = NewType("StepId", str)
PlanId = NewType("PlanId", str)
PersonaId = NewType("PersonaId", str)
ContextId = NewType("ContextId", str)
EventId = NewType("EventId", str)
LearningId = NewType("LearningId", str)
CallId = NewType("CallId", str)
"""Pairs a tool call with its result inside one conversation; given by the model's provider."""
ApprovalId = NewType("ApprovalId", str)
"""Names a request for approval within its run: what an answer to it is about."""
RequestId = NewType("RequestId", str)
"""Names a question or an external call within its run: what its answer or result is given for."""
