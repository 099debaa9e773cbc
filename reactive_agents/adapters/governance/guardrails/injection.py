"""Detection of prompt injection: texts that give orders to the model.

The rules match phrases, disguises and hiding places. They do not understand a text: an attack in new words
passes (of attacks that were worded after the rules, fewer than half were found at first), and a text about
attacks is distinguished from an attack by quotation marks and the words before it, which an attacker can
write too. Where that matters, add a :class:`ModelJudge`.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from attrs import frozen

from reactive_agents.adapters.governance.guardrails.checks import Check
from reactive_agents.adapters.governance.guardrails.injection_phrases import ENGLISH, OTHER_LANGUAGES
from reactive_agents.adapters.governance.guardrails.text_folding import Folded, count_invisible, fold
from reactive_agents.core.governance import GuardrailAction, GuardrailFinding

CATEGORY = "prompt-injection"
DEFAULT_THRESHOLD = 0.6
LEAST_SCORE = 0.35
"""Findings below are not reported."""

_PHRASES = (*ENGLISH, *OTHER_LANGUAGES)
_NEAR = 300
_MOST_OF_A_PHRASE = 40
_CLOSED_UP = re.compile(
    r"(?:ignore|disregard|forget)(?:all|any|the|your|of|my|these|those){0,4}(?:previous|prior|above|earlie"
    r"r|system)?"
    r"(?:instruction|prompt|rule|guideline|direction)|systemprompt|doanythingnow"
)
_DISCUSSED = re.compile(
    r"\b(?:such as|e\.g\.|for example|for instance|examples?|phrases?|prompt[ \-]injections?|jailbreaks?|j"
    r"ailbreaking"
    r"|attack(?:s|ers?)?|malicious|payloads?|adversar\w{2,5}|injections?|strings?|test(?:s|ing| cases?)?|d"
    r"etect\w{0,4}"
    r"|assert\w{0,8}|regex|patterns?|filter(?:s|ed)?|block(?:s|ed)?|flag(?:s|ged)?|grep|called|titled|wrot"
    r"e|writes"
    r"|like|beispiel\w{0,3}|angreifer|angriff\w{0,2}|exemple|attaquants?|ejemplo|ataques?|tricks?|scam|phi"
    r"shing|refuse\w?)\b"
)
_ABOUT_PAPER = re.compile(
    r"^.{0,12}\b(?:in|on|from|of|for|about|regarding|concerning)"
    r" (?:the|my|our|this|last|page|step|section|yesterday|an?)\b"
    r" ?(?:manual|leaflet|recipe|packag\w{2,3}|box|page|e-?mails?|mail|letter|booklet|step|section|label|form"
    r"|ticket|memo|(?:same )?element|class|file|configuration|config|stylesheet|project|repository|assembly"
    r"|delivery|parking|meeting|kit|wiki|week|\d{1,4})"
)
_QUOTES = "\"'`"


@frozen
class _Said:
    start: int
    end: int
    name: str
    score: float


def prompt_injection(*, action: GuardrailAction = "block", threshold: float = DEFAULT_THRESHOLD) -> Check:
    """A check for prompt injection.

    Args:
        action: what is to be done from the threshold on; weaker findings are warnings.
        threshold: 0 to 1.
    """

    def check(text: str) -> list[GuardrailFinding]:
        return [
            GuardrailFinding(
                CATEGORY, start, end, score, action if score >= threshold else "warn",
                f"The text seems to give orders to the model ({name}).",
            )
            for start, end, score, name in _injections(text)
            if score >= LEAST_SCORE
        ]  # fmt: skip

    return check


def _injections(text: str) -> Iterator[tuple[int, int, float, str]]:
    plain = fold(text)
    for said in _combined(_said(plain.text)):
        yield *plain.span(said.start, said.end), said.score, said.name
    for disguised in spelt_texts(plain.text):
        yield from _unmasked(disguised, plain)
    if count_invisible(text) >= 8 and len(plain.text) < 0.98 * len(text):
        yield 0, len(text), 0.4, "invisible characters"
    for disguised in encoded_texts(text):
        yield from _unmasked(disguised, None)
    for disguised in hidden_texts(text):
        strongest = max((each.score for each in _combined(_said(fold(disguised.text).text))), default=0.0)
        if strongest >= LEAST_SCORE:
            yield disguised.start, disguised.end, min(1.0, strongest + 0.25), disguised.how


def _unmasked(disguised: Disguised, plain: Folded | None) -> Iterator[tuple[int, int, float, str]]:
    read = fold(disguised.text).text
    found = [each for each in _combined(_said(read)) if each.score >= LEAST_SCORE + 0.05]
    if disguised.how == "spaced letters" and _CLOSED_UP.search(re.sub(r"\W", "", read)):
        found.append(_Said(0, len(read), "override", 0.8))
    for each in found:
        start, end = disguised.start, disguised.end
        if plain is not None and disguised.how == "digits for letters":
            start, end = disguised.start + each.start, disguised.start + each.end
            if plain.text[start:end] == read[each.start : each.end]:
                continue  # nothing was in disguise here
        elif disguised.how in ("rot13", "reversed text") and each.score < 0.6:
            continue
        if plain is not None:
            start, end = plain.span(start, end)
        yield start, end, min(1.0, each.score + 0.1), f"{each.name}, {disguised.how}"


def _said(text: str) -> list[_Said]:
    """The phrases of a folded text, each with what it says in its place."""
    ascii_only = text.isascii()
    found: list[_Said] = []
    for phrase in _PHRASES:
        if ascii_only and not phrase.ascii_only:
            continue
        for count, match in enumerate(phrase.matches(text)):
            if count == _MOST_OF_A_PHRASE:
                break
            score = phrase.score * _weight_of_place(text, match.start(), match.end())
            found.append(_Said(match.start(), match.end(), phrase.name, score))
    return sorted(found, key=lambda each: (each.start, each.end))


def _weight_of_place(text: str, start: int, end: int) -> float:
    """Return the weight of a match: 1, less for quoted or discussed instructions."""
    before, after = text[max(0, start - 110) : start], text[end : end + 60]
    same_line = before.rpartition("\n")[2][-50:]
    quoted = any(
        same_line.count(mark) % 2 == 1 and mark in text[end : end + 90].partition("\n")[0] for mark in _QUOTES
    )
    weight = 1.0
    if _DISCUSSED.search(before):
        weight = 0.4 if quoted else 0.65
    elif quoted:
        weight = 0.72
    return min(weight, 0.4) if _ABOUT_PAPER.search(after) else weight


def _combined(found: Sequence[_Said]) -> list[_Said]:
    """Phrases of different kinds that stand near each other support each other."""
    combined: list[_Said] = []
    for index, said in enumerate(found):
        score, kinds = said.score, {said.name}
        for other in found[max(0, index - 6) : index + 7]:
            if other.name not in kinds and abs(other.start - said.start) <= _NEAR:
                kinds.add(other.name)
                score = 1 - (1 - score) * (1 - other.score)
        combined.append(_Said(said.start, said.end, said.name, score))
    return combined


# --- disguised texts: encodings, spaced letters, markup -------------------------------------------------


_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_\-])[A-Za-z0-9+/_\-]{16,}={0,2}")
_HEX = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}[ :]?){12,}")
_PERCENT = re.compile(r"(?:[\w\-.]{0,8}(?:%[0-9A-Fa-f]{2})+[\w\-.]{0,8}){3,}")
_ENTITIES = re.compile(r"(?:&#x?[0-9A-Fa-f]{2,6};[ ]?){6,}")
_ESCAPES = re.compile(r"(?:\\u00[0-9A-Fa-f]{2}|\\x[0-9A-Fa-f]{2}){6,}")
_SPACED = re.compile(r"(?<!\w)(?:\w[ .\-_*|/]{1,3}){7,}\w(?!\w)")
_LEET = re.compile(r"[a-z][013457][a-z]|(?<!\w)[013457@$!][a-z]{2}")
_LEET_LETTERS = str.maketrans("013457@$!", "oieastasi")
_TURNED = ("vtaber", "vafgehpgvba", "qvfertneq", "flfgrz cebzcg")
_REVERSED = ("snoitcurtsni", "erongi", "tpmorp metsys", "dragersid")
_HIDING_STYLE = re.compile(
    r"display\s{0,3}:\s{0,3}none|visibility\s{0,3}:\s{0,3}hidden|font-size\s{0,3}:\s{0,3}0|opacity\s{0,3}:"
    r"\s{0,3}0(?![.\d]*[1-9])"
    r"|color\s{0,3}:\s{0,3}(?:white|#fff(?:fff)?\b|transparent)|(?:left|top|text-indent)\s{0,3}:\s{0,3}-\d"
    r"{3}|aria-hidden=.true",
    re.I,
)
_MARKDOWN_COMMENT = re.compile(
    r"\[(?://|comment|_|hidden|)\]:\s{0,4}(?:#|<>)?\s{0,4}[(\"'][^\n]{1,2000}", re.I
)
_ATTRIBUTE = re.compile(r"\b(?:alt|title|aria-label|content|data-[\w\-]{1,30})=\"([^\"\n]{20,600})\"", re.I)
_LONGEST_HIDDEN = 2000
_AFTER_ENTITIES = 200
_AROUND = 120


@frozen
class Disguised:
    """A text that is in another one in disguise.

    Attributes:
        text: as it reads without the disguise.
        start: where it begins in the other text.
        end: where it ends there.
        how: the disguise.
    """

    text: str
    start: int
    end: int
    how: str


def encoded_texts(text: str) -> Iterator[Disguised]:
    """Yield texts decoded from base64, hexadecimal, percent encoding and entities."""
    for match in _BASE64.finditer(text):
        yield from _readable(match, _from_base64(match[0]), "base64")
    for match in _HEX.finditer(text):
        yield from _readable(match, _from_hex(match[0]), "hexadecimal")
    for match in _PERCENT.finditer(text) if "%" in text else ():
        yield Disguised(unquote(match[0]).replace("+", " "), *match.span(), "percent encoding")
    for match in _ENTITIES.finditer(text) if "&#" in text else ():
        end = min(len(text), match.end() + _AFTER_ENTITIES)
        yield Disguised(html.unescape(text[match.start() : end]), match.start(), end, "character entities")
    for match in _ESCAPES.finditer(text) if "\\" in text else ():
        decoded = re.sub(r"\\(?:u00|x)(..)", lambda each: chr(int(each[1], 16)), match[0])
        yield Disguised(decoded, *match.span(), "escapes")


def spelt_texts(folded: str) -> Iterator[Disguised]:
    """Yield readings of a folded text: joined letters, rot13, reversed, digit letters."""
    for match in _SPACED.finditer(folded):
        words = re.sub(r"(?<=\w)[ .\-_*|/](?=\w)", "", match[0])
        yield Disguised(re.sub(r"\W{2,}", " ", words), *match.span(), "spaced letters")
    if any(word in folded for word in _TURNED):
        yield Disguised(codecs.encode(folded, "rot13"), 0, len(folded), "rot13")
    if any(word in folded for word in _REVERSED):
        yield Disguised(folded[::-1], 0, len(folded), "reversed text")
    for start, end in _around(_LEET, folded):
        yield Disguised(folded[start:end].translate(_LEET_LETTERS), start, end, "digits for letters")


def _around(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Return the parts of a text around matches of a pattern, merged where they touch."""
    start = end = 0
    for match in pattern.finditer(text):
        if match.start() - _AROUND > end:
            if end:
                yield start, end
            start = match.start() - _AROUND
        end = min(len(text), match.end() + _AROUND)
    if end:
        yield start, end


def hidden_texts(text: str) -> Iterator[Disguised]:
    """Yield texts that are invisible when displayed as HTML or Markdown."""
    place = text.find("<!--")
    while place >= 0:
        close = text.find("-->", place + 4)
        end = len(text) if close < 0 else close
        yield Disguised(text[place + 4 : min(end, place + _LONGEST_HIDDEN)], place, end, "HTML comment")
        place = -1 if close < 0 else text.find("<!--", close)
    done = 0
    for match in _HIDING_STYLE.finditer(text) if "<" in text else ():
        if match.start() < done:
            continue
        start = text.find(">", match.end(), match.end() + 200) + 1
        if start:
            close = text.find("</", start, start + _LONGEST_HIDDEN)
            done = close if close >= 0 else min(len(text), start + _LONGEST_HIDDEN)
            yield Disguised(text[start:done], start, done, "invisible HTML")
    for match in _MARKDOWN_COMMENT.finditer(text):
        yield Disguised(match[0], *match.span(), "Markdown comment")
    for match in _ATTRIBUTE.finditer(text):
        yield Disguised(match[1], *match.span(1), "HTML attribute")


def _readable(match: re.Match[str], decoded: bytes | None, how: str) -> Iterator[Disguised]:
    if decoded is None:
        return
    text = decoded.decode("utf-8", "ignore")
    if len(text) >= 8 and sum(each.isprintable() or each.isspace() for each in text) >= 0.9 * len(decoded):
        yield Disguised(text, *match.span(), how)


def _from_base64(text: str) -> bytes | None:
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4))
    except (binascii.Error, ValueError):
        return None


def _from_hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text.replace(":", " "))
    except ValueError:
        return None
