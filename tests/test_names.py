"""The names of classes and modules, and the first lines of docstrings: rules for readers of the package."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from tests.support.sources import PACKAGE, SOURCES, sources

LONGEST_FIRST_LINE = 80
GERUNDS_OF_THE_FIELD = {
    "chunking",
    "embedding",
    "logging",
    "planning",
    "pricing",
    "routing",
    "scheduling",
    "streaming",
    "testing",
    "tracing",
}


def docstrings() -> Iterator[tuple[str, str]]:
    """Every docstring of the package, with its file and line."""
    for path, source in sources().items():
        for line, text in source.docstrings:
            yield f"{path.relative_to(PACKAGE.parent)}:{line}", text


def test_no_two_public_classes_have_one_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, source in sources().items():
        for name in source.classes:
            places[name].append(str(path.relative_to(PACKAGE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_module_has_the_name_of_a_package_beside_it() -> None:
    assert [path for path in SOURCES if path.with_suffix("").is_dir()] == []


def test_modules_are_nouns() -> None:
    gerunds = [path.stem for path in SOURCES if re.fullmatch("[a-z]+ing", path.stem)]
    assert set(gerunds) <= GERUNDS_OF_THE_FIELD


def test_a_docstring_says_what_a_thing_is_or_does() -> None:
    assert [place for place, text in docstrings() if text.startswith("What ")] == []


def test_the_first_line_of_a_docstring_is_short() -> None:
    long = [place for place, text in docstrings() if len(text.splitlines()[0]) > LONGEST_FIRST_LINE]
    assert long == []


MAIN_MODULES = {"cli": "main"}
"""The modules that say for their package why it is as it is, where its ``__init__`` does not."""


def test_each_package_begins_with_why_it_is_as_it_is() -> None:
    """More than a title: at least a sentence or two below it."""
    packages = [path.parent for path in SOURCES if path.match("reactive_agents/*/__init__.py")]
    assert len(packages) > 10
    mains = [path / f"{MAIN_MODULES.get(path.name, '__init__')}.py" for path in packages]
    texts = {main.parent.name: sources()[main].docstring or "" for main in mains}
    assert [name for name, text in texts.items() if len(text.splitlines()) < 4] == []
