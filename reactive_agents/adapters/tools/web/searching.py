"""Web search through the ``ddgs`` library, an optional part of the package."""

from __future__ import annotations

import importlib
from typing import Any

from returns.result import Failure, Result, Success

EXTRA = "reactive-agents[web]"

_REQUEST_S = 10


def search_with_ddgs(query: str, max_results: int) -> Result[list[dict[str, str]], str]:
    """What search engines find, each with ``title``, ``url`` and ``snippet``; empty when they find nothing.

    Blocks for some seconds. Fails with a sentence when the library is not installed, or when the engines
    limit the rate, cannot be reached or do not answer.
    """
    try:
        library: Any = importlib.import_module("ddgs")
        errors: Any = importlib.import_module("ddgs.exceptions")
    except ImportError as error:
        return Failure(f"searching the web needs an optional part: pip install '{EXTRA}' ({error})")
    try:
        found = library.DDGS(timeout=_REQUEST_S).text(query, max_results=max_results)
    except errors.RatelimitException:
        return Failure("the search engines want fewer requests: wait before the next search")
    except errors.TimeoutException:
        return Failure("the search engines did not answer in time")
    except errors.DDGSException as error:
        if "No results found" in str(error):
            return Success([])
        return Failure(f"the search engines cannot be reached: {error}")
    return Success(
        [
            {"title": each.get("title", ""), "url": each.get("href", ""), "snippet": each.get("body", "")}
            for each in found
        ]
    )
