"""Names of tools as models write them, matched with the names that there are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from attrs import frozen

_PREFIX = re.compile(r"^(?:functions?|tools?|default_api)[./:]", re.I)
_NUMBER = re.compile(r":\d{1,6}$")
_SEPARATORS = re.compile(r"[\s_-]+")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LONGEST_NAME = 128


@frozen
class NameIndex:
    """The registered names, ready to be looked up by what a model wrote.

    Attributes:
        exact: the names.
        by_folded: without regard to case, ``-`` for ``_``; ``None`` where two names fold to the same.
        by_squashed: without separators at all; ``None`` where it is ambiguous.
    """

    exact: frozenset[str]
    by_folded: Mapping[str, str | None]
    by_squashed: Mapping[str, str | None]

    def resolve(self, written: str) -> str | None:
        """The registered name that was meant, or ``None``.

        An exact match wins. Otherwise case, ``_``, ``-`` and a prefix such as ``functions.`` make no
        difference, as long as only one name fits.

        >>> index_names(["web-search", "clock"]).resolve("functions.Web_Search")
        'web-search'
        """
        if len(written) > _LONGEST_NAME:
            return written if written in self.exact else None
        bare = _NUMBER.sub("", _PREFIX.sub("", written.strip()))
        for candidate in (written, bare):
            if candidate in self.exact:
                return candidate
        folded = fold(bare)
        if folded in self.by_folded:
            return self.by_folded[folded]
        return self.by_squashed.get(squash(bare))


def index_names(known: Collection[str]) -> NameIndex:
    """Make names ready to be looked up."""
    return NameIndex(
        exact=frozenset(known),
        by_folded=_unique((fold(name), name) for name in known),
        by_squashed=_unique((squash(name), name) for name in known),
    )


def fold(name: str) -> str:
    """The name without regard to case and with ``_`` for ``-``."""
    return name.casefold().replace("-", "_")


def squash(name: str) -> str:
    """The name without regard to case and without separators: the same for all ways to join its words."""
    return _SEPARATORS.sub("", name).casefold()


def words(name: str) -> tuple[str, ...]:
    """The words of a name, in lower case.

    >>> words("startLine"), words("start-line"), words("HTTPServer")
    (('start', 'line'), ('start', 'line'), ('http', 'server'))
    """
    parts = _SEPARATORS.split(_WORD_START.sub("_", name))
    return tuple(part.casefold() for part in parts if part)


def _unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for key, name in pairs:
        if key:
            found[key] = name if found.get(key, name) == name else None
    return found
