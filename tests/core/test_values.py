"""``Value`` and ``replaced`` do what attrs does, ``lazy_pattern`` what ``re.compile`` does."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import attrs
import pytest

from reactive_agents.core.ids import AgentId, RunId, SessionId, TaskId
from reactive_agents.core.persistent import as_list, as_map, as_set
from reactive_agents.core.tasks import Task
from reactive_agents.core.values import Value, lazy_pattern, replaced
from reactive_agents.engine import ExecutionContext
from reactive_agents.kernel import initial_kernel_state
from reactive_agents.kernel.ledger import CallLedger

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONTEXT = ExecutionContext(
    RunId("r"), Task(TaskId("t"), AgentId("a"), "text", NOW), SessionId("s"), NOW, max_iterations=3
)
STATE = initial_kernel_state(id="k", task_id=TaskId("t"), strategy="reactive", kernel_type="react")


def test_it_changes_the_named_fields_and_no_others() -> None:
    assert replaced(CONTEXT, iteration=2) == attrs.evolve(CONTEXT, iteration=2)
    assert replaced(STATE, iteration=5, output="x") == attrs.evolve(STATE, iteration=5, output="x")
    assert (CONTEXT.iteration, STATE.iteration) == (0, 0)


@pytest.mark.parametrize("value", [CONTEXT, STATE])
def test_the_new_value_is_frozen_too_and_the_old_one_is_untouched(value: object) -> None:
    new = replaced(value)
    assert new == value
    assert new is not value
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        new.iteration = 5  # type: ignore[attr-defined]


def test_an_unknown_field_is_refused() -> None:
    for name in ("no_such", "task_id", "failure_of"):
        with pytest.raises(TypeError, match=f"ExecutionContext has no field {name}"):
            replaced(CONTEXT, **{name: 1})


@pytest.mark.parametrize("kind", [ExecutionContext, CallLedger, type(STATE)])
def test_the_classes_it_is_used_for_check_nothing_in_their_init(kind: type) -> None:
    assert "__slots__" not in vars(kind)
    for field in attrs.fields(kind):
        assert field.validator is None
        if field.name == "meta":  # data of custom kernels: a map that a state had is taken as it is
            assert field.converter is not None
            known = field.converter({"seen": [1]})
            assert field.converter(known) is known
            continue
        assert field.converter in (None, as_list, as_map, as_set)


@attrs.frozen(eq=False, repr=False)
class Shared(Value):
    number: int
    texts: tuple[str, ...] = ()
    note: str = attrs.field(default="", eq=False)
    secret: str = attrs.field(default="", repr=False)
    place: str = attrs.field(default="", repr=lambda place: f"<{place}>")


@attrs.frozen(eq=False, repr=False)
class Special(Shared):
    more: int = 0


def test_values_have_the_equality_hash_and_representation_that_attrs_would_make() -> None:
    assert repr(Shared(1, ("a",), note="n", secret="s", place="here")) == (
        "Shared(number=1, texts=('a',), note='n', place=<here>)"
    )
    assert repr(Special(2)) == "Special(number=2, texts=(), note='', place=<>, more=0)"
    assert Shared(1, ("a",)) == Shared(1, ("a",))
    assert hash(Shared(1, ("a",))) == hash(Shared(1, ("a",)))
    for changed in (
        Shared(2, ("a",)),
        Shared(1),
        Shared(1, ("a",), secret="s"),
        Shared(1, ("a",), place="p"),
    ):
        assert changed != Shared(1, ("a",))
    assert Shared(1) == Shared(1, note="another")
    assert hash(Shared(1)) == hash(Shared(1, note="another"))
    assert Shared(1) != Special(1)
    assert Shared(1) != 1
    with pytest.raises(TypeError):
        hash(Shared(1, ["a"]))  # type: ignore[arg-type]


def test_a_lazy_pattern_is_compiled_when_it_is_used() -> None:
    broken = lazy_pattern("(")
    with pytest.raises(re.error):
        broken.search("text")


def test_a_lazy_pattern_finds_what_the_compiled_one_finds() -> None:
    text, lazy, compiled = (
        "One, TWO",
        lazy_pattern("(?P<word>[a-z]+)", re.I),
        re.compile("(?P<word>[a-z]+)", re.I),
    )
    for method in ("search", "match", "fullmatch"):
        ours, theirs = getattr(lazy, method)(text), getattr(compiled, method)(text)
        assert (ours and ours.groupdict()) == (theirs and theirs.groupdict())
    assert [each.span() for each in lazy.finditer(text, 2)] == [
        each.span() for each in compiled.finditer(text, 2)
    ]
    assert lazy.findall(text) == compiled.findall(text)
    assert lazy.split(text, maxsplit=1) == compiled.split(text, maxsplit=1)
    assert (
        lazy.sub(r"<\g<word>>", text, count=1) == compiled.sub(r"<\g<word>>", text, count=1) == "<One>, TWO"
    )
    assert lazy.pattern == compiled.pattern
    assert lazy_pattern(rb"\d").search(b"a1")
