"""Matching of tool names that models write with registered names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from attrs import frozen

from reactive_agents.core.values import Value, lazy_pattern

_PREFIX = lazy_pattern(r"^(?:functions?|tools?|default_api)[./:]", re.I)
_NUMBER = lazy_pattern(r":\d{1,6}$")
_MARKS = lazy_pattern(r"\A[\s\"'`]+|(?:<\|.*|\(\)|[\s\"'`])+\Z", re.DOTALL)
"""Signs that are no part of a name: ``"order"``, ``order()``, ``order<|channel|>json``."""
_SEPARATORS = lazy_pattern(r"[\s_-]+")
_WORD_START = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LONGEST_NAME = 128


@frozen(eq=False, repr=False)
class NameIndex(Value):
    """An index of registered names for lookup by a written name.

    Attributes:
        exact: the names.
        by_folded: the names without case, with ``_`` for ``-``; ``None`` for ambiguous ones.
        by_squashed: the names without separators; ``None`` for ambiguous ones.
    """

    exact: frozenset[str]
    by_folded: Mapping[str, str | None]
    by_squashed: Mapping[str, str | None]

    def resolve(self, written: str) -> str | None:
        """Return the registered name that was meant, or ``None``.

        An exact match wins. Otherwise ignores case, ``_``, ``-``, quotation marks, signs of a chat template
        after it and a prefix such as ``functions.`` if only one name matches.

        >>> index_names(["web-search", "clock"]).resolve("functions.Web_Search")
        'web-search'
        """
        if len(written) > _LONGEST_NAME:
            return written if written in self.exact else None
        bare = _NUMBER.sub("", _PREFIX.sub("", _MARKS.sub("", written)))
        for candidate in (written, bare):
            if candidate in self.exact:
                return candidate
        folded = fold(bare)
        if folded in self.by_folded:
            return self.by_folded[folded]
        return self.by_squashed.get(squash(bare))


def index_names(known: Collection[str]) -> NameIndex:
    """Return an index of names."""
    return NameIndex(
        exact=frozenset(known),
        by_folded=_unique((fold(name), name) for name in known),
        by_squashed=_unique((squash(name), name) for name in known),
    )


def fold(name: str) -> str:
    """Return the name in lower case and with ``_`` for ``-``."""
    return name.casefold().replace("-", "_")


def squash(name: str) -> str:
    """Return the name in lower case without separators."""
    return _SEPARATORS.sub("", name).casefold()


def words(name: str) -> tuple[str, ...]:
    """Return the words of a name, in lower case.

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


# --- Names of tools that are not registered, brought to the one that was meant ---


_SYNONYMS = tuple(
    frozenset(group.split())
    for group in (
        "search websearch searchweb googlesearch google internetsearch bravesearch duckduckgosearch",
        "search filesearch searchfiles searchfile grep",
        "calculator calculate calc math evaluate",
        "fileread readfile read cat openfile viewfile",
        "filewrite writefile savefile createfile write",
        "shell bash runcommand executecommand terminal runshell",
        "httpget fetch fetchurl webfetch readurl browse",
        "python runpython executepython pythonrepl codeinterpreter runcode codeexecute",
        "finalanswer final finish submitanswer giveanswer answer",
        "clock currenttime gettime getcurrenttime now time",
    )
)
_CLOSE = 0.9
_CLOSE_WORD = 0.8
_SHORT_WORD = 4
_LONGEST = 64


def find_tool(written: str, known: Collection[str]) -> str | None:
    """Return the registered name that a written one means; ``None`` if uncertain.

    Tries in this order, each only if a single tool matches: another spelling; with or without the suffix
    ``tool``; a name of several words without a namespace before it; a known synonym; a typo within one long
    word that keeps its first letter and all digits, so that ``get-user`` never matches ``set-user``.
    """
    index = index_names(known)
    found = index.resolve(written) or index.resolve(_without_ending(written)) or _in_namespace(written, index)
    if found is not None or len(written) > _LONGEST:
        return found
    squashed = squash(written)
    for fit in (are_synonyms, _is_close):
        fitting = [name for name in known if len(name) <= _LONGEST and fit(written, name)]
        if fit is are_synonyms:
            rivals = [name for name in known if name not in fitting and squashed in words(name)]
            fitting = [*fitting, *rivals] if fitting else []
        if fitting:
            return fitting[0] if len(fitting) == 1 else None
    return None


def _in_namespace(written: str, index: NameIndex) -> str | None:
    """Return the name of several words after the last dot: ``orders.get_order``.

    It is the tool of that namespace where there is one: ``orders-get_order``. A namespace whose tools have
    its name has no others.
    """
    namespace, dot, name = written.rpartition(".")
    if not dot:
        return None
    within = words(namespace.replace(".", "_"))
    if any(len(own := words(known)) > len(within) and own[: len(within)] == within for known in index.exact):
        return index.by_squashed.get(squash("".join((*within, name))))
    return index.resolve(name) if len(words(name)) > 1 else None


def _without_ending(name: str) -> str:
    parts = words(name)
    return "_".join(parts[:-1]) if len(parts) > 1 and parts[-1] in ("tool", "function") else name


def are_synonyms(written: str, name: str, groups: Iterable[frozenset[str]] = _SYNONYMS) -> bool:
    """Return whether two names stand in one group, by default of names of tools."""
    one, other = squash(written), squash(name)
    return any(one in group and other in group for group in groups)


def _is_close(written: str, name: str) -> bool:
    one, other = squash(written), squash(name)
    if not one or one[:1] != other[:1] or _digits(one) != _digits(other) or _ratio(one, other) < _CLOSE:
        return False
    mine, theirs = words(written), words(name)
    if len(mine) != len(theirs):
        return len(mine) == 1
    return all(_is_slip(word, meant) for word, meant in zip(mine, theirs, strict=True))


def _is_slip(word: str, meant: str) -> bool:
    if word == meant:
        return True
    long = min(len(word), len(meant)) >= _SHORT_WORD
    return long and word[0] == meant[0] and _ratio(word, meant) >= _CLOSE_WORD


def _ratio(one: str, other: str) -> float:
    from difflib import SequenceMatcher  # for names that are not found

    return SequenceMatcher(None, one, other).ratio()


def _digits(name: str) -> str:
    return "".join(sign for sign in name if sign.isdigit())
