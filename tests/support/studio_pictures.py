"""``make screenshots``: pictures of four states of the studio, for its page in the documentation."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.support import studio_runs
from tests.support.chromium import chromium
from tests.support.studio_server import buyer, run_apart, scripted, serving

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SIZE: Any = {"width": 1280, "height": 800}


def main() -> None:
    """Make the runs, open the studio, and write the pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "runs.db"
        runs = run_apart(studio_runs.make_runs, log)
        agents = [buyer(log, log.parent), *(scripted(log, name) for name in ("sales", "strategist"))]
        with serving(log, agents) as address, chromium() as browser:
            for name, scheme, place, prepare in (
                ("studio-runs", "light", "runs", _list),
                ("studio-turn", "light", f"run/{runs['reactive']}", _turn),
                ("studio-tree", "dark", f"run/{runs['searched']}", _tree),
                ("studio-approval", "light", "runs", _approval),
            ):
                context = browser.new_context(viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]
                page = context.new_page()
                page.goto(address)
                page.goto(f"{page.url.partition('#')[0]}#/{place}")
                prepare(page)
                page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")
                context.close()
    print(f"The pictures are in {PICTURES}.")


def _list(page: Page) -> None:
    expect(page.locator("tbody tr")).to_have_count(7)


def _turn(page: Page) -> None:
    page.get_by_role("listbox").get_by_text("Turn 2").click()
    expect(page.locator(".inspector")).to_contain_text("New since Turn 1")


def _tree(page: Page) -> None:
    page.get_by_role("tab", name="Tree of thoughts").click()
    expect(page.locator(".diagram")).to_be_visible()


def _approval(page: Page) -> None:
    page.get_by_role("button", name="New run").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Agent").select_option("buyer")
    form.get_by_label("Task").fill("Order two cartons of the Kestrel, if a carton is below 2,000 EUR.")
    form.get_by_role("button", name="Start").click()
    expect(page.locator(".card")).to_contain_text("waits for approval")
    expect(page.locator(".inspector")).to_contain_text("Risk")


if __name__ == "__main__":
    main()
