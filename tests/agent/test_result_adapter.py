"""Results for pydantic: their JSON Schema, to JSON and back, with an output of any type."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Any

import attrs
import jsonschema
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from reactive_agents import (
    AgentError,
    AgentResult,
    CompletedResult,
    PartialResult,
    ReactiveAgents,
    TypedResult,
    result_adapter,
)
from reactive_agents.testing import ScriptedLLM, Turn, forever, say


@attrs.frozen
class City:
    name: str
    founded: date | None = None


@dataclass
class Point:
    x: float


ROME = say('{"name": "Rome", "founded": "0753-04-21"}')


def run(output_type: Any, *turns: Turn) -> Any:
    builder: Any = ReactiveAgents.create().with_llm(ScriptedLLM(*turns))
    builder = builder if output_type is None else builder.with_output_type(output_type)
    return builder.with_verification().build().run_sync("Which city?")


@pytest.mark.parametrize(
    ("kind", "turn", "output"),
    [
        (City, ROME, {"name": "Rome", "founded": "0753-04-21"}),
        (City, forever(say("No.")), None),
        (Point, say('{"x": 1}'), {"x": 1.0}),
        (list[City], say('[{"name": "Rome"}]'), [{"name": "Rome", "founded": None}]),
        (int | None, say("null"), None),
        (str, say("Rome."), "Rome."),
    ],
)
def test_a_result_is_written_as_its_schema_says_and_read_back_equal(
    kind: Any, turn: Turn, output: object
) -> None:
    result, adapter = run(kind, turn), result_adapter(kind)
    text = adapter.dump_json(result)
    assert json.loads(text)["output"] == output
    jsonschema.Draft202012Validator(adapter.json_schema()).validate(json.loads(text))
    again = adapter.validate_json(text)
    assert again == result
    assert type(again) is type(result)


def test_plain_results_need_no_type() -> None:
    result, adapter = run(None, say("Rome.")), result_adapter()
    assert adapter.validate_json(adapter.dump_json(result)) == result


def test_models_have_results_as_fields() -> None:
    class Reply(BaseModel):
        plain: AgentResult
        typed: TypedResult[Point]

    reply = Reply(plain=run(None, say("Rome.")), typed=run(Point, say('{"x": 1}')))
    assert Reply.model_validate_json(reply.model_dump_json()) == reply
    assert "Point" in Reply.model_json_schema()["$defs"]
    assert TypeAdapter(CompletedResult[Point]).validate_python(reply.typed) is reply.typed
    with pytest.raises(ValidationError):
        TypeAdapter(PartialResult[Point]).validate_json(
            TypeAdapter(TypedResult[Point]).dump_json(reply.typed)
        )


def test_wrong_results_are_refused_by_name() -> None:
    adapter = result_adapter(City)
    data = json.loads(adapter.dump_json(run(City, ROME)))
    for wrong, named in (
        ({**data, "output": {"name": 3}}, "name"),
        ({**data, "output": None}, "dict"),
        ({**data, "status": "done"}, "status"),
        ([], "an object"),
    ):
        with pytest.raises(ValidationError, match=named):
            adapter.validate_python(wrong)
    with pytest.raises(AgentError, match="a type with a JSON form"):
        result_adapter(type("Opaque", (), {}))
