"""Values against the schema of an argument."""

from __future__ import annotations

import pytest

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.kernel.call_parsing.argument_schema import fits

LISTS: JsonObject = {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]}}
NAMES: JsonObject = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]},
}


def nested(leaf: Json, levels: int, key: str | None = None) -> Json:
    for _ in range(levels):
        leaf = [leaf] if key is None else {key: leaf}
    return leaf


@pytest.mark.parametrize(("schema", "key"), [(LISTS, None), (NAMES, "a")])
def test_a_value_is_compared_down_to_a_depth_and_matches_from_there_on(
    schema: JsonObject, key: str | None
) -> None:
    assert fits(nested(1, 5, key), schema, schema)
    assert not fits(nested("no", 5, key), schema, schema)
    assert not fits(nested("no", 10, key), schema, schema)
    assert fits(nested("no", 12, key), schema, schema), "each level of the value is three of the schema"


@pytest.mark.parametrize("key", ["allOf", "anyOf", "oneOf"])
def test_a_schema_that_refers_to_itself_without_end_matches(key: str) -> None:
    schema: JsonObject = {key: [{"$ref": "#"}]}
    assert fits(1, schema, schema)


@pytest.mark.parametrize("key", ["allOf", "anyOf", "oneOf"])
def test_a_schema_is_followed_down_to_a_depth_and_matches_from_there_on(key: str) -> None:
    schema: JsonObject = {"type": "string"}
    for _ in range(32):
        schema = {key: [schema]}
    assert not fits(1, schema, schema)
    assert fits(1, {key: [schema]}, schema)


def test_the_first_items_have_schemas_of_their_own() -> None:
    schema: JsonObject = {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}
    assert fits(["a", 1, 2], schema, schema)
    assert fits([], schema, schema)
    assert not fits([1], schema, schema)
    assert not fits(["a", "b"], schema, schema)


def test_a_choice_is_one_of_its_values_and_a_truth_value_is_no_number() -> None:
    schema: JsonObject = {"enum": [1, "b", True]}
    assert all(fits(value, schema, schema) for value in (1, "b", True))
    assert not any(fits(value, {"enum": [1]}, schema) for value in (True, 2, "1"))
