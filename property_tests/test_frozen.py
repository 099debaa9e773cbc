"""Frozen classes: whatever their fields are, they do what those of attrs do."""

from __future__ import annotations

import copy
import keyword
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactive_agents.core.frozen import frozen, maker
from reactive_agents.core.messages import ToolCall, UserMessage

FIELD_NAMES = st.from_regex(r"_?[a-z]{1,4}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name.lstrip("_"))
) | st.sampled_from(["self_", "cls", "type", "object", "list", "_cls", "_open", "_default_0"])
DEFAULTS = st.sampled_from([attrs.NOTHING, None, 3, "x", attrs.Factory(list), attrs.Factory(dict)])


@st.composite
def fields(draw: st.DrawFn) -> dict[str, Any]:
    """The fields of a class: those without a default come first, as attrs wants them."""
    names = draw(st.lists(FIELD_NAMES, max_size=6, unique_by=lambda name: name.lstrip("_")))
    drawn = [(name, draw(DEFAULTS)) for name in names]
    drawn.sort(key=lambda pair: pair[1] is not attrs.NOTHING)
    return dict(drawn)


def class_of(decorator: Any, body: dict[str, Any], bases: tuple[type, ...] = ()) -> Any:
    own = {"__annotations__": dict.fromkeys(body, "object"), "__qualname__": "Made", "__module__": __name__}
    given_defaults = {name: attrs.field(default=default) for name, default in body.items()}
    return decorator(type("Made", bases, {**own, **given_defaults}))


def tried(function: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except (TypeError, ValueError, SyntaxError) as error:
        return str(error)


def held(made: Any) -> Any:
    return made if isinstance(made, str) else attrs.asdict(made)


@settings(max_examples=50)
@given(fields(), st.lists(st.integers(), max_size=7), st.data())
def test_it_takes_the_arguments_that_attrs_takes_and_refuses_those_that_it_refuses(
    body: dict[str, Any], positional: list[int], data: st.DataObject
) -> None:
    ours, theirs = class_of(frozen, body), class_of(attrs.frozen, body)
    names = [each.alias for each in attrs.fields(ours)]
    named = data.draw(st.dictionaries(st.sampled_from([*names, "other"]), st.integers()))
    for _ in range(2):  # the first object of a class is made in another way than the second
        assert held(tried(ours, *positional, **named)) == held(tried(theirs, *positional, **named))


@settings(max_examples=50)
@given(fields(), fields())
def test_a_class_of_both_inherits_as_one_of_attrs_does(first: dict[str, Any], second: dict[str, Any]) -> None:
    ours = class_of(lambda cls: tried(frozen, cls), second, (class_of(frozen, first),))
    theirs = class_of(lambda cls: tried(attrs.frozen, cls), second, (class_of(attrs.frozen, first),))
    if not isinstance(theirs, type):
        assert not isinstance(ours, type)
        return
    values = range(len(attrs.fields(theirs)))
    assert held(tried(ours, *values)) == held(tried(theirs, *values))


@given(st.text())
def test_an_object_is_frozen_equal_hashed_copied_and_pickled_as_ever(text: str) -> None:
    message = UserMessage(text)
    again = UserMessage(text)
    assert (message, hash(message), type(message)) == (again, hash(again), UserMessage)
    assert pickle.loads(pickle.dumps(message)) == message == copy.deepcopy(message)
    assert repr(message) == f"UserMessage(content={text!r})"
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        message.content = "other"  # type: ignore[misc]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        del message.content


def test_a_plain_subclass_keeps_its_class() -> None:
    class Louder(UserMessage):
        __slots__ = ()

        def shout(self) -> str:
            return self.content.upper()

    assert Louder("a").shout() == "A"
    assert type(Louder("a")) is Louder


def test_every_object_has_a_list_of_its_own() -> None:
    @frozen
    class Basket:
        eggs: list[int] = attrs.field(factory=list)

    Basket().eggs.append(1)
    assert Basket().eggs == []


def test_what_attrs_does_besides_is_still_done() -> None:
    @frozen
    class Checked:
        count: int = attrs.field(validator=attrs.validators.ge(0), converter=int)
        double: int = attrs.field(init=False)

        def __attrs_post_init__(self) -> None:
            object.__setattr__(self, "double", self.count * 2)

    made: Any = Checked
    for _ in range(2):
        assert made("3").double == 6
        with pytest.raises(ValueError, match="must be >= 0"):
            made("-1")


def test_a_factory_that_raises_leaves_nothing_behind() -> None:
    def broken() -> int:
        raise OSError("no")

    @frozen
    class Broken:
        part: int = attrs.field(factory=broken)

    for _ in range(2):
        with pytest.raises(OSError, match="no"):
            Broken()
    assert Broken(1).part == 1


def test_its_signature_is_that_of_attrs() -> None:
    assert ToolCall.__init__.__annotations__.keys() >= {"id", "name", "arguments"}
    ToolCall("1", "tool")  # type: ignore[arg-type]
    assert ToolCall.__init__.__annotations__.keys() >= {"id", "name", "arguments"}
    assert ToolCall.__init__.__qualname__ == "ToolCall.__init__"


@settings(max_examples=50)
@given(fields(), st.lists(st.integers(), max_size=7), st.data())
def test_a_maker_makes_what_the_class_makes_and_refuses_what_it_refuses(
    body: dict[str, Any], positional: list[int], data: st.DataObject
) -> None:
    cls = class_of(frozen, body)
    make = maker(cls)
    names = [each.alias for each in attrs.fields(cls)]
    named = data.draw(st.dictionaries(st.sampled_from([*names, "other"]), st.integers()))
    made, called = tried(make, *positional, **named), tried(cls, *positional, **named)
    if isinstance(called, str):
        assert isinstance(made, str)
        return
    assert (made, type(made)) == (called, cls)
    for name in (each.name for each in attrs.fields(cls)):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(made, name, 1)


def test_there_is_no_maker_for_a_class_that_does_more_than_take_its_fields() -> None:
    @frozen
    class Checked:
        count: int = attrs.field(validator=attrs.validators.ge(0))

    with pytest.raises(TypeError, match="Checked"):
        maker(Checked)


@pytest.mark.parametrize("slots", [True, False])
def test_a_field_that_follows_from_the_others_is_worked_out(slots: bool) -> None:
    @frozen(slots=slots)
    class Square:
        side: int
        area: int = attrs.field(init=False, default=attrs.Factory(lambda self: self.side**2, takes_self=True))
        name: str = "square"

    made_by = maker(Square) if slots else Square
    for made in (Square(3), Square(3, "other"), attrs.evolve(Square(2), side=3), made_by(3)):
        assert (made.side, made.area) == (3, 9)
    with pytest.raises(TypeError):
        Square(3, area=5)  # type: ignore[call-arg]
