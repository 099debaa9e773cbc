"""Immutable collections that grow without being copied.

A run adds to its steps, stored results and known calls in every turn, and each state has to stay as it is.
Copied tuples and dictionaries would make a turn cost the more the longer the run is: at 2,000 turns twice as
much. Here a collection and the ones that grew out of it share one list or dictionary, of which each knows how
much is its own. Only the newest of them adds in place; adding to an older one makes a copy.

They equal, and read like, the tuples, dictionaries and frozen sets with the same members, in the same order.
"""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from itertools import islice
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")
_H = TypeVar("_H", bound=Hashable)
_V = TypeVar("_V")


class PersistentList(Sequence[_T]):
    """An immutable sequence.

    ``steps.extended([step])`` takes as long as what is added.

    >>> one = PersistentList("ab")
    >>> two = one.extended("c")
    >>> one, two, two[1:]
    (('a', 'b'), ('a', 'b', 'c'), ('b', 'c'))
    """

    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[_T] = ()) -> None:
        if isinstance(items, PersistentList):
            self._items: list[_T] = items._items
            self._length: int = items._length
        else:
            self._items = list(items)
            self._length = len(self._items)

    def extended(self, more: Iterable[_T]) -> PersistentList[_T]:
        """Return a sequence with more items at its end."""
        if not self._length:  # what is empty may be the default of many, and stays so
            return _list_of(list(more))
        items = self._items if len(self._items) == self._length else self._items[: self._length]
        items += more
        return _list_of(items)

    def __add__(self, more: tuple[_T, ...]) -> PersistentList[_T]:
        return self.extended(more)

    def __radd__(self, before: tuple[_T, ...]) -> tuple[_T, ...]:
        return (*before, *self)

    def starts_with(self, other: Sequence[_T]) -> bool:
        """Whether it begins with these items; at once if it grew out of them."""
        if isinstance(other, PersistentList):
            if not other._length:
                return True
            if other._items is self._items:
                return other._length <= self._length
        return len(other) <= self._length and self[: len(other)] == tuple(other)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> _T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[_T, ...]: ...
    def __getitem__(self, place: int | slice) -> _T | tuple[_T, ...]:
        if isinstance(place, slice):
            return tuple([self._items[index] for index in range(*place.indices(self._length))])
        return self._items[range(self._length)[place]]

    def __iter__(self) -> Iterator[_T]:
        return islice(self._items, self._length)

    def __reversed__(self) -> Iterator[_T]:
        return islice(reversed(self._items), len(self._items) - self._length, None)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PersistentList | tuple):
            return len(other) == self._length and self.starts_with(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)


def _list_of(items: list[_T]) -> PersistentList[_T]:
    made: PersistentList[_T] = object.__new__(PersistentList)
    made._items, made._length = items, len(items)
    return made


class PersistentMap(Mapping[_H, _V]):
    """A read-only mapping.

    ``stored | {key: text}`` takes as long as what is added, if all keys are new.

    >>> one = PersistentMap({"a": 1})
    >>> two = one | {"b": 2}
    >>> one, two, two | {"a": 3}
    ({'a': 1}, {'a': 1, 'b': 2}, {'a': 3, 'b': 2})
    """

    __slots__ = ("_items", "_length")

    def __init__(self, items: Mapping[_H, _V] | Iterable[tuple[_H, _V]] = ()) -> None:
        self._items: dict[_H, tuple[int, _V]]
        if isinstance(items, PersistentMap):
            shared: Any = items
            self._items = shared._items
            self._length: int = shared._length
        else:
            given: Any = dict(items)
            self._items = {key: (at, given[key]) for at, key in enumerate(given)}
            self._length = len(self._items)

    def __or__(self, more: Mapping[_H, _V]) -> PersistentMap[_H, _V]:
        """Return a mapping with further entries, which replace those of equal keys."""
        if not more:
            return self
        items, own = self._items, self._length
        if not own or len(items) > own or not items.keys().isdisjoint(more):
            items = dict(islice(items.items(), own))
        for key, value in more.items():
            items[key] = (items[key][0] if key in items else len(items), value)
        grown: PersistentMap[_H, _V] = object.__new__(PersistentMap)
        grown._items, grown._length = items, len(items)
        return grown

    def added_to(self, earlier: Mapping[_H, _V]) -> Mapping[_H, _V]:
        """Return the entries added to an earlier mapping, or all if it is no ancestor."""
        if not isinstance(earlier, PersistentMap) or earlier._items is not self._items:
            return self
        newest = islice(reversed(self._items), len(self._items) - self._length, None)
        return {key: self._items[key][1] for key in islice(newest, self._length - earlier._length)}

    def __getitem__(self, key: _H) -> _V:
        at, value = self._items[key]
        if at >= self._length:  # of one that grew out of this
            raise KeyError(key)
        return value

    @overload
    def get(self, key: _H, /) -> _V | None: ...
    @overload
    def get(self, key: _H, /, default: _V | _T) -> _V | _T: ...
    def get(self, key: _H, /, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        at, value = self._items.get(key, (self._length, default))
        return value if at < self._length else default

    def items(self) -> ItemsView[_H, _V]:
        """Return the keys with their values."""
        return {key: value for key, (_, value) in islice(self._items.items(), self._length)}.items()

    def values(self) -> ValuesView[_V]:
        """Return the values, in the order of their keys."""
        return {key: value for key, (_, value) in islice(self._items.items(), self._length)}.values()

    def __contains__(self, key: Any) -> bool:
        return key in self._items and self._items[key][0] < self._length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[_H]:
        return islice(self._items, self._length)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class PersistentSet(Set[_H], Generic[_H]):
    """An immutable set; ``known | {call}`` takes as long as what is added.

    It keeps the order of its members.

    >>> one = PersistentSet("ab")
    >>> one | "bc", "c" in one
    ({'a', 'b', 'c'}, False)
    """

    __slots__ = ("_members",)

    def __init__(self, members: Iterable[_H] = ()) -> None:
        if isinstance(members, PersistentSet):
            self._members: PersistentMap[_H, None] = members._members
        else:
            self._members = PersistentMap(dict.fromkeys(members))

    def __or__(self, more: Iterable[_H]) -> PersistentSet[_H]:  # type: ignore[override]
        """Return a set with other members besides."""
        grown: PersistentSet[_H] = object.__new__(PersistentSet)
        lacking = self.lacking(more)
        grown._members = self._members | dict.fromkeys(lacking) if lacking else self._members
        return grown

    def lacking(self, members: Iterable[_H]) -> list[_H]:
        """Return those of the members that are not in the set."""
        known: Any = self._members
        held = known._items if len(known._items) == known._length else known
        return [each for each in members if each not in held]

    def added_to(self, earlier: PersistentSet[_H]) -> PersistentSet[_H]:
        """Return the members added to an earlier set, or all if it is no ancestor."""
        return PersistentSet(self._members.added_to(earlier._members))

    def __contains__(self, member: object) -> bool:
        return member in self._members

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[_H]:
        return iter(self._members)

    def __hash__(self) -> int:
        return self._hash()

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self))}}}" if self else "frozenset()"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)


# --- Converters of attrs fields, which so take plain collections as well ---


def as_list(items: Iterable[Any]) -> PersistentList[Any]:
    """Return the items as a persistent list, which may be the same."""
    return items if isinstance(items, PersistentList) else PersistentList(items)


def as_map(entries: Mapping[Any, Any]) -> PersistentMap[Any, Any]:
    """Return the entries as a persistent map, which may be the same."""
    return entries if isinstance(entries, PersistentMap) else PersistentMap(entries)


def as_set(members: Iterable[Any]) -> PersistentSet[Any]:
    """Return the members as a persistent set, which may be the same."""
    return members if isinstance(members, PersistentSet) else PersistentSet(members)


NO_ITEMS: PersistentList[Any] = PersistentList()
NO_ENTRIES: PersistentMap[Any, Any] = PersistentMap()
NO_MEMBERS: PersistentSet[Any] = PersistentSet()
