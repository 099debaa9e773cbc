"""Words of languages by concept, for the rules that judge texts.

Each ``.txt`` file beside this module has the words of one language, and is named by its code. A line is a
concept with words between blanks, ``not_yet: werden wird kann``, or with alternatives of a regular expression
between bars, ``only_some| seule\\w*|sauf``. An indented line goes on with the concept before it, and one that
begins with ``#`` is a comment. Words are in small letters, but for those of names. All concepts are named in
``en.txt``, and a rule that uses one says what it means.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import SourceLoader

CODES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "tr", "zh", "ja", "ko", "ar", "other")
"""The languages that have a file; ``other`` are several with few words."""
_JOINED = ("zh", "ja", "ko", "ar")
"""Languages that write no blanks between words, or join particles to them."""


def concepts_of(text: str, source: str) -> dict[str, list[str]]:
    """Return the words of each concept of a file; of alternatives, the lines.

    Raises:
        ValueError: a line has another form, or its concept an earlier line; names ``source`` and the line.
    """
    found: dict[str, list[str]] = {}
    words, separator = None, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line[0] == "#":
            continue
        head, _, rest = line.partition(" ")
        if head:
            concept, separator, words = head[:-1], head[-1], None
            if concept.isidentifier() and separator in ":|" and concept not in found:
                words = found[concept] = []
        if words is None or not rest.strip():
            expected = "'concept: words' or 'concept| a|b', of a concept that has no line yet"
            raise ValueError(f"{source}, line {number}: expected {expected}, got {line!r}")
        words += rest.split() if separator == ":" else [rest.strip()]
    return found


_FILES = cast("SourceLoader", __spec__.loader)  # they may be in a zip file
_LANGUAGES = {
    code: concepts_of(_FILES.get_data(f"{__path__[0]}/{code}.txt").decode(), f"{code}.txt") for code in CODES
}


def by_language(concept: str) -> dict[str, list[str]]:
    """Return the words of a concept in each language that has any; at least one has."""
    found = {code: concepts[concept] for code, concepts in _LANGUAGES.items() if concept in concepts}
    if not found:
        raise LookupError(f"no file of {__name__} has the concept {concept!r}")
    return found


def word_set(concept: str) -> frozenset[str]:
    """Return the words of a concept."""
    return frozenset(chain.from_iterable(by_language(concept).values()))


def alternatives(concept: str) -> str:
    """Return a group of a regular expression with the words of a concept."""
    return f"(?:{'|'.join(dict.fromkeys(chain.from_iterable(by_language(concept).values())))})"


def expression(concept: str, before: str = r"\b", after: str = r"\b") -> str:
    r"""Return a group of a regular expression with a concept's words as whole ones.

    Args:
        before, after: what stands around a word, other than one of a language that joins words.
    """
    found = by_language(concept)
    joined = [each for code in _JOINED for each in found.pop(code, ())]
    spaced = dict.fromkeys(chain.from_iterable(found.values()))
    whole = [f"{before}(?:{'|'.join(spaced)}){after}"] if spaced else []
    return f"(?:{'|'.join([*whole, *joined])})"
