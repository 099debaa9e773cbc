"""Whatever a builder is given, it is accepted and can be written and read back, or ``build`` says why not."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reactive_agents import AgentError, ReactiveAgents, read_config
from reactive_agents.agent import validation
from tests.support.profiles import examples

anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.complex_numbers(),
    st.timedeltas(),
    st.lists(st.integers() | st.text(max_size=4), max_size=2),
    st.tuples(st.text(max_size=4)),
    st.frozensets(st.integers() | st.text(max_size=4), max_size=2),
    st.dictionaries(st.integers() | st.text(max_size=4), st.none() | st.integers() | st.floats(), max_size=2),
    st.sampled_from([object(), object, print, "offline", "reactive", "think", "before", "1", "json:loads"]),
)


def arguments_of(name: str) -> Iterator[str]:
    """The arguments of a call of the builder; those that are given without a name as empty names."""
    for each in signature(getattr(ReactiveAgents, name)).parameters.values():
        if each.kind is Parameter.VAR_POSITIONAL:
            yield from ("", "")
        elif each.kind is Parameter.VAR_KEYWORD:  # such as Unpack[validation.ReasoningOptions]
            options = str(each.annotation).removeprefix("Unpack[validation.").removesuffix("]")
            yield from (*getattr(validation, options).__annotations__, "unheard_of")
        elif each.name != "self":
            yield "" if each.default is Parameter.empty else each.name


CALLS = [
    (name, tuple(arguments_of(name)))
    for name in dir(ReactiveAgents)
    if name.startswith("with_") or name == "from_config"
]


def test_the_arguments_of_each_call_of_the_builder_are_found() -> None:
    found = dict(CALLS)
    assert len(found) > 50
    assert found["with_toolset"] == ("", "prefix", "rename", "only", "filter", "each_turn", "prepare")
    assert found["with_fallbacks"] == ("", "")
    assert {"strategies", "compaction", "unheard_of"} < set(found["with_reasoning"])


@pytest.mark.system
@pytest.mark.parametrize(("name", "arguments"), CALLS)
@settings(examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_a_value_is_accepted_for_good_or_reported_by_build(
    name: str,
    arguments: tuple[str, ...],
    data: st.DataObject,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    positional = [data.draw(anything) for argument in arguments if not argument]
    options = {
        argument: data.draw(anything) for argument in arguments if argument and data.draw(st.booleans())
    }
    builder: Any = ReactiveAgents.create().with_model("offline")
    described = getattr(builder, name)(*positional, **options)
    problem = _problem(described.build)
    assert not list(tmp_path.iterdir())
    if problem is not None:
        return
    if "serialised" in (_problem(described.to_config) or ""):
        return
    config = described.to_config()
    assert read_config(json.loads(config.to_json())).unwrap() == config
    assert read_config(tomllib.loads(config.to_toml())).unwrap() == config


def _problem(made: Callable[[], object]) -> str | None:
    try:
        made()
    except AgentError as error:
        return str(error)
    return None
