"""The files of words in ``core/languages``: their format, and that rules use all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import reactive_agents
from reactive_agents.core import languages
from reactive_agents.core.languages import alternatives, by_language, concepts_of, expression, word_set

PACKAGE = Path(reactive_agents.__file__).parent
FILES = sorted(Path(languages.__file__).parent.glob("*.txt"))
USE = re.compile(r"\b(word_set|by_language|alternatives|expression)\(\s*f?[\"']([\w{}]+)[\"']")


def uses() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the function of each use of a concept, and its name with any word for a placeholder."""
    for path in PACKAGE.rglob("*.py"):
        for function, name in USE.findall(path.read_text("utf-8")):
            yield function, re.compile(re.sub(r"\{\w+\}", r"\\w+", name))


def concepts() -> set[str]:
    return {concept for path in FILES for concept in concepts_of(path.read_text("utf-8"), path.name)}


def parts_of(text: str) -> list[str]:
    """The alternatives of an expression, without splitting its groups."""
    parts, depth, in_class = [""], 0, False
    for each in re.findall(r"\\.|.", text):
        in_class = each == "[" or (in_class and each != "]")
        depth += 0 if in_class else (each == "(") - (each == ")")
        if each == "|" and not depth and not in_class:
            parts.append("")
        else:
            parts[-1] += each
    return parts


def test_each_file_is_read() -> None:
    assert {path.stem for path in FILES} == set(languages.CODES)


def test_the_english_file_names_all_concepts() -> None:
    text = (PACKAGE / "core/languages/en.txt").read_text("utf-8")
    others = {each for line in re.findall("# In other languages also: (.+)", text) for each in line.split()}
    assert concepts_of(text, "en.txt").keys() | others == concepts()
    assert concepts_of(text, "en.txt").keys().isdisjoint(others)


def test_each_concept_of_a_file_is_used_by_a_rule() -> None:
    used = [name for _, name in uses()]
    assert [each for each in sorted(concepts()) if not any(name.fullmatch(each) for name in used)] == []


def test_each_concept_of_a_rule_has_words() -> None:
    known = concepts()
    assert [name.pattern for _, name in uses() if not any(map(name.fullmatch, known))] == []
    assert all(by_language(each) for each in known)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_word_stands_once_in_a_concept_of_a_language(path: Path) -> None:
    for concept, found in concepts_of(path.read_text("utf-8"), path.name).items():
        words = [part for each in found for part in parts_of(each)]
        assert all(words), f"an empty alternative of {concept}"
        assert len(set(words)) == len(words), concept


def test_a_set_of_words_holds_no_expressions() -> None:
    sets = [name for function, name in uses() if function in ("word_set", "by_language")]
    signs = {
        concept
        for path in FILES
        for concept, sign in re.findall(r"(?m)^(\w+)([:|]) ", path.read_text("utf-8"))
        if sign == "|"
    }
    assert [each for each in sorted(signs) if any(name.fullmatch(each) for name in sets)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_broken_expression_of_a_file_is_named(path: Path) -> None:
    broken = {}
    for concept, found in concepts_of(path.read_text("utf-8"), path.name).items():
        try:
            re.compile("|".join(found))
        except re.error as error:
            broken[concept] = str(error)
    assert broken == {}


def test_expressions_of_all_concepts_compile() -> None:
    for concept in concepts():
        re.compile(alternatives(concept))
        re.compile(expression(concept))


def test_a_line_holds_words_or_alternatives_and_may_go_on() -> None:
    text = "# German\n\nnot_yet: werden wird\n    kann\nonly_some| seule\\w*|les deux\n    sauf\n"
    assert concepts_of(text, "de.txt") == {
        "not_yet": ["werden", "wird", "kann"],
        "only_some": ["seule\\w*|les deux", "sauf"],
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("not_yet werden", 1),
        ("not_yet: werden\nnot-yet: wird", 2),
        ("# German\n: werden", 2),
        ("not_yet:\n", 1),
        ("not_yet:werden", 1),
        ("    werden", 1),
        ("not_yet: werden\n    \n", 2),
        ("not_yet: werden\n\nnot_yet: wird", 3),
    ],
)
def test_a_broken_line_is_an_error_with_file_and_line(text: str, line: int) -> None:
    with pytest.raises(ValueError, match=rf"^xx\.txt, line {line}: expected 'concept: words' or"):
        concepts_of(text, "xx.txt")


def test_an_unknown_concept_is_an_error() -> None:
    with pytest.raises(LookupError, match="has the concept 'not_there'"):
        word_set("not_there")


def test_words_of_languages_without_blanks_need_no_edges() -> None:
    condition = re.compile(expression("condition"))
    assert condition.search("see if it fits")
    assert condition.search("请说明如果失败怎么办")
    assert not condition.search("a fifth")
    assert not re.search(f"Only {expression('condition')}", "如果")
