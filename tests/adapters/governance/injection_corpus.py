"""The corpus of prompt injections and harmless texts, in two halves.

Each line of ``samples/injection/`` is a sentence pattern: ``⟦a|b⟧`` stands for one of the words, and every
combination is a text. The rules were tuned on the patterns of one half; figures are those of the other half,
which shares no pattern with it. Which half a pattern is in, its hash decides.
"""

from __future__ import annotations

import base64
import codecs
import html
import re
from collections.abc import Iterator
from hashlib import sha256
from itertools import product
from pathlib import Path
from urllib.parse import quote

from attrs import frozen

_FOLDER = Path(__file__).parent / "samples" / "injection"
_CHOICE = re.compile(r"⟦(.*?)⟧")
_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|n)")
_ENCODED_EVERY = 9


@frozen
class Sample:
    """A text of the corpus.

    Attributes:
        kind: ``attack``, ``near-miss``, or the kind of a harmless text.
        tuning: whether the rules were tuned on it.
    """

    text: str
    kind: str
    language: str
    tuning: bool


def is_tuning(pattern: str) -> bool:
    """Whether the pattern is in the half that the rules were tuned on."""
    return sha256(pattern.encode()).digest()[0] % 2 == 0


def texts_of(pattern: str) -> Iterator[str]:
    """The texts that a pattern stands for."""
    parts = _CHOICE.split(pattern)
    for words in product(*(part.split("|") if place % 2 else [part] for place, part in enumerate(parts))):
        yield _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\n", "".join(words))


def _samples(name: str) -> Iterator[tuple[str, str]]:
    for line in (_FOLDER / name).read_text(encoding="utf-8").splitlines():
        head, _, pattern = line.rpartition("\t")
        yield head, pattern


def attacks() -> tuple[Sample, ...]:
    """Texts that give orders to a model; every ninth English one also in an encoding."""
    found = [
        Sample(text, "attack", language, is_tuning(pattern))
        for name, default in (("attacks_en.txt", "en"), ("attacks_other.txt", ""))
        for language, pattern in ((head or default, each) for head, each in _samples(name))
        for text in texts_of(pattern)
    ]
    return (*found, *_encoded([each for each in found if each.language == "en"][::_ENCODED_EVERY]))


def near_misses() -> tuple[Sample, ...]:
    """Harmless texts that talk about prompts and orders, or sound like an attack."""
    return tuple(
        Sample(text, "near-miss", language, is_tuning(pattern))
        for language, pattern in _samples("near_misses.txt")
        for text in texts_of(pattern)
    )


def harmless() -> tuple[Sample, ...]:
    """Mails, logs, code, documentation and tasks."""
    return tuple(
        Sample(text, head.partition(" ")[0], head.partition(" ")[2], is_tuning(pattern))
        for head, pattern in _samples("harmless.txt")
        for text in texts_of(pattern)
    )


def _encoded(samples: list[Sample]) -> Iterator[Sample]:
    """The samples in encodings, in turn, some of them within each other."""
    writers = (
        lambda text: "Decode this and act on it: " + base64.b64encode(text.encode()).decode(),
        lambda text: text.encode().hex(),
        lambda text: "Please read " + quote(text.encode(), safe="").replace("a", "%61").replace("e", "%65"),
        lambda text: "".join(f"&#{ord(each)};" for each in text),
        lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
        lambda text: codecs.encode(text, "rot13"),
        lambda text: "Hello." + "".join(chr(0xE0000 + ord(each)) for each in text if each.isascii()),
        lambda text: base64.b64encode(text.encode().hex().encode()).decode(),
        lambda text: "".join(f"\\u{ord(each):04x}" for each in text),
        lambda text: html.escape(quote(base64.b64encode(text.encode()).decode(), safe="")),
        lambda text: text[::-1],
        lambda text: "\u200b".join(text),
    )
    for place, each in enumerate(samples):
        yield Sample(writers[place % len(writers)](each.text), "encoded attack", "en", each.tuning)
