"""The documentation site in a browser: search, both modes, diagrams, nothing from another host."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.docs import site


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    site.main()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site.SITE)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.set_default_timeout(120_000)
    yield page
    page.close()


def test_a_page_is_found_by_a_word_and_read_in_dark_mode(page: Page, address: str) -> None:
    asked: list[str] = []
    problems: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(f"{address}/index.html")
    search = page.get_by_role("textbox", name="Search")
    search.press_sequentially("calls in doubt")  # it listens to keys
    found = page.locator(".md-search-result__link[href*='/durable-runs.html']:not([href*='/decisions/'])")
    found.first.click()
    expect(page).to_have_title("Durable runs - reactive_agents")
    page.locator("label[title='Switch to dark mode']").click()
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
    assert problems == []
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def test_examples_have_no_marks_for_the_tests(page: Page, address: str) -> None:
    page.goto(f"{address}/observability.html")
    expect(page.locator("pre code").first).to_contain_text("import anyio")
    assert "# complete" not in page.content()


def test_diagrams_are_drawn_by_a_script_of_the_site(page: Page, address: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{address}/architecture.html")
    expect(page.locator("div.mermaid")).to_be_visible()
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def test_the_reference_has_what_the_package_exports(page: Page, address: str) -> None:
    import reactive_agents

    page.goto(f"{address}/reference/reactive_agents.html")
    names = {name for name in reactive_agents.__all__ if not name.startswith("_")}
    shown = {
        each.split(".")[-1] for each in page.locator(".doc-heading").evaluate_all("all => all.map(e => e.id)")
    }
    assert names - set(shown) == set()


def test_language_models_find_every_page(address: str) -> None:
    listed = (site.SITE / "llms.txt").read_text(encoding="utf-8")
    places = re.findall(r"\]\(([^)]+)\)", listed)
    assert "examples/quick_start.md" in places
    assert [each for each in places if not (site.SITE / each).is_file()] == []
    for place in site.SOURCE.glob("*.md"):
        if place.stem not in ("index", "pages", "CHANGELOG", "CONTRIBUTING", "LICENSE", "SECURITY"):
            assert f"]({place.name}): " in listed
            assert (site.SITE / place.name).read_text(encoding="utf-8") == place.read_text(encoding="utf-8")
