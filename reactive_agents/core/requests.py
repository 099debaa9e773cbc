"""Requests of a run to people and other programs, besides those for approval."""

from __future__ import annotations

from copy import deepcopy
from typing import TypeAlias

from attrs import field, frozen

from reactive_agents.core.ids import AgentId, CallId, RequestId, RunId, TaskId
from reactive_agents.core.json import Json, JsonObject


@frozen
class QuestionRequest:
    """A question of the model to a person.

    Attributes:
        question_id: names this question, and no other of its run.
        call_id: as in the other events of the call.
        text: the question, in the model's words.
        options: answers that the model suggests; any other is an answer too.
        timeout_s: seconds to wait for the answer.
    """

    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    question_id: RequestId
    call_id: CallId
    text: str
    options: tuple[str, ...] = ()
    timeout_s: float = 300.0

    @property
    def request_id(self) -> RequestId:
        """The id by which the request is replied to."""
        return self.question_id


def _own_copy(arguments: JsonObject) -> JsonObject:
    return deepcopy(arguments)


@frozen
class ExternalCallRequest:
    """A tool call that another program executes.

    Attributes:
        tool_call_id: names this call, and no other of its run; the same when the run is replayed, and so fit
            as an idempotency key.
        call_id: as in the other events of the call; steps of a plan that run side by side may share one.
        arguments: checked against the tool's schema; a copy that nothing else holds.
        timeout_s: seconds to wait for the result.
    """

    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    tool_call_id: RequestId
    call_id: CallId
    tool_name: str
    arguments: JsonObject = field(converter=_own_copy)
    timeout_s: float = 300.0

    @property
    def request_id(self) -> RequestId:
        """The id by which the request is replied to."""
        return self.tool_call_id


PersonRequest: TypeAlias = QuestionRequest | ExternalCallRequest


@frozen
class Reply:
    """The reply to a question or an external call.

    Attributes:
        value: the answer as text, or the result of the call.
        error: why the call failed, in the words of those who executed it.
        missing: why there is no reply, as the rest of a sentence; empty where there is one.
    """

    value: Json = None
    error: str = ""
    missing: str = ""
