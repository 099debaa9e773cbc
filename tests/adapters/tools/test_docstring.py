"""Docstrings in the styles that people write."""

from __future__ import annotations

import pytest

from reactive_agents.adapters.tools.signature import Documentation, read_docstring

GOOGLE = """Find a thing.

    It may take a while.

    Args:
        query: what to find,
            in any case
        limit (int): how many

    Returns:
        The things.

    Raises:
        ValueError: never
    """

NUMPY = """Find a thing.

    It may take a while.

    Parameters
    ----------
    query : str
        what to find, in any case
    limit : int
        how many

    Returns
    -------
    list
        The things.
    """

REST = """Find a thing.

    It may take a while.

    :param query: what to find, in any case
    :param int limit: how many
    :returns: the things
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST])
def test_styles(docstring: str) -> None:
    assert read_docstring(docstring) == Documentation(
        "Find a thing.\n\nIt may take a while.",
        {"query": "what to find, in any case", "limit": "how many"},
    )


@pytest.mark.parametrize("docstring", [None, "", "  \n "])
def test_nothing(docstring: str | None) -> None:
    assert read_docstring(docstring) == Documentation()


def test_prose_stays_as_it_is() -> None:
    text = "Do it.\n\nNote: this is a sentence.\n\n    indented: code\n"
    assert read_docstring(text).text == text.strip()
