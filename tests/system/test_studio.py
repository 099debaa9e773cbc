"""The page of the studio in a real Chromium: what it shows, does, and how it is used."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from attrs import evolve
from playwright.sync_api import Browser, Page, Route, expect

from reactive_agents import ReactiveAgents, tool
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.agent import AgentConfig
from reactive_agents.agent.persona_config import PersonaConfig
from reactive_agents.core.config import DurabilityConfig
from reactive_agents.core.ids import RunId
from reactive_agents.studio.app import StudioAgent
from reactive_agents.studio.records import StudioRecords
from reactive_agents.testing import ScriptedLLM, answer, call, calls, say
from tests.studio.test_app import asking_things
from tests.support import studio_runs
from tests.support.personas import assessed, persona_bench, planned
from tests.support.studio_server import buyer, run_apart, scripted, serving

ROOT = Path(__file__).parents[2]
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
HOSTILE = (
    '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>'
    "</pre><svg onload=window.hacked=3> javascript:alert(1) \u202egnp.exe {{7*7}} ${window.hacked=4}"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, RunId | None]]:
    """A log with a run of each strategy."""
    log = tmp_path_factory.mktemp("studio") / "runs.db"
    return log, run_apart(studio_runs.make_runs, log)


@pytest.fixture(scope="module")
def address(runs: tuple[Path, dict[str, RunId | None]]) -> Iterator[str]:
    log, _ = runs
    agents = [buyer(log, log.parent), *(scripted(log, name) for name in ("sales", "writer"))]
    asks = call("ask-user", question="Which size?", options=["S", "L"])
    agents.append(asking_things(log, asks, call("locate"), answer("It is sent."), answer("C'est fait.")))
    with serving(log, agents) as found:
        yield found


class Watched:
    """A page that remembers what went wrong, and what it has asked."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self.asked: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda told: told.type == "error" and self.problems.append(told.text))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(address)
        self.home = page.url.partition("#")[0]

    def open(self, place: str) -> Page:
        self.page.goto(f"{self.home}#/{place}")
        return self.page


@pytest.fixture
def watched(browser: Browser, address: str) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(120_000)
    found = Watched(context.new_page(), address)
    yield found
    assert found.problems == []
    origin = address.partition("/?")[0]
    assert [url for url in found.asked if not url.startswith((origin, "blob:"))] == []
    context.close()


expect.set_options(timeout=120_000)


def begin_run(page: Page, task: str, agent: str | None = None) -> None:
    """Begin a run with the form of the page."""
    page.get_by_role("button", name="New run").click()
    form = page.get_by_role("dialog")
    if agent is not None:
        form.get_by_label("Agent").select_option(agent)
    form.get_by_label("Task").fill(task)
    form.get_by_role("button", name="Start").click()


def steps(page: Page) -> Any:
    return page.get_by_role("listbox", name="Steps of the run")


# --- what it shows --------------------------------------------------------------------------------------


def test_a_run_is_found_opened_and_read(watched: Watched, runs: Any) -> None:
    page = watched.open("runs")
    expect(page).not_to_have_url("token")
    page.get_by_role("searchbox").fill("austria")
    page.get_by_role("link", name="What does a dealer in Austria").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("dealer in Austria")
    steps(page).get_by_text("Turn 2").click()
    inspector = page.get_by_role("region", name="Details of the step")
    expect(inspector).to_contain_text("New since Turn 1")
    expect(inspector).to_contain_text("24.80 EUR to Austria")
    steps(page).locator(".row.tool.failed").click()
    expect(inspector).to_contain_text("no product 'Tarn 2'")
    expect(page).to_have_title(re.compile("dealer in Austria.* · Studio"))
    page.go_back()
    expect(page).to_have_title("Runs · Studio")
    page.get_by_role("link", name="Sessions", exact=True).click()
    expect(page).to_have_title("Sessions · Studio")


@pytest.mark.parametrize(
    ("example", "view", "text"),
    [
        ("planned", "Plan", "Price of the Tarn"),
        ("searched", "Tree of thoughts", "Bundle it with a gas cartridge"),
        ("reflected", "Attempts (2)", "It promises a delivery time"),
        ("delegated", "Sub-agents (1)", "logistics"),
        ("planned", "Plan", "price · completed"),
        ("planned", "Plan", "recommend one.completed"),
        ("failed", "Usage and end", "overloaded"),
    ],
)
def test_each_strategy_has_its_view(watched: Watched, runs: Any, example: str, view: str, text: str) -> None:
    page = watched.open(f"run/{runs[1][example]}")
    page.get_by_role("tab", name=view).click()
    expect(page.get_by_role("tabpanel")).to_contain_text(text)


def test_two_runs_are_compared_from_the_first_difference(watched: Watched, runs: Any) -> None:
    page = watched.open(f"compare/{runs[1]['reactive']}/{runs[1]['failed']}")
    expect(page.get_by_text("They differ from the first step on")).to_be_visible()
    expect(page.get_by_role("region", name="The step of the second run")).to_contain_text("Ember 2")


def test_what_is_missing_says_what_to_do(watched: Watched) -> None:
    page = watched.open("runs")
    page.get_by_role("searchbox").fill("no run has this word")
    expect(page.get_by_text("No run fits")).to_be_visible()
    page = watched.open("personas")
    expect(page.get_by_text("reactive-agents studio persona.toml")).to_be_visible()
    page = watched.open("run/none")
    expect(page.get_by_role("alert")).to_contain_text("no such run")
    watched.problems.clear()  # the browser reports the status 404


def test_a_run_has_the_tokens_of_its_sub_agents_in_the_list_and_on_its_page(
    watched: Watched, runs: Any
) -> None:
    page = watched.open("runs")
    expect(page.get_by_role("row", name="A customer in Norway")).to_contain_text("2,488")
    page = watched.open(f"run/{runs[1]['delegated']}")
    expect(page.locator(".figure-line")).to_contain_text("2,488 tokens")


# --- what it does ----------------------------------------------------------------------------------------


def test_a_run_is_begun_watched_approved_and_forked(watched: Watched) -> None:
    page = watched.open("runs")
    begin_run(page, "Order two cartons of the Kestrel.", "buyer")
    card = page.locator(".card")
    expect(card).to_contain_text("place_order waits for approval")
    expect(card).to_contain_text('"cartons": 2')
    expect(card).to_contain_text("high risk")
    card.get_by_role("button", name="Approve").click()
    expect(page.locator(".run-head .status")).to_have_text("completed")
    steps(page).locator(".row.tool", has_text="place_order").click()
    inspector = page.get_by_role("region", name="Details of the step")
    expect(inspector).to_contain_text("order 4471")
    expect(inspector).to_contain_text("approved")
    inspector.get_by_role("button", name="Fork from here").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Result").fill("The supplier is closed.")
    before = page.url
    dialog.get_by_role("button", name="Fork and run").click()
    page.wait_for_url(lambda url: url.partition("#")[2][:30] != before.partition("#")[2][:30])
    expect(steps(page).locator(".row.tool", has_text="place_order")).to_be_visible()


def test_calls_that_wait_together_are_decided_in_two_windows_each_with_its_reason(
    browser: Browser, tmp_path: Path
) -> None:
    @tool(requires_approval=True)
    def transfer(to: str) -> str:
        """Transfer money."""
        return "391"

    log = tmp_path / "runs.db"
    both = calls(call("transfer", to="Ada"), call("transfer", to="Bob"))
    described = studio_runs.builder(log, "bank", both, answer("Done."), answer("Done.")).with_reasoning()
    agent = described.with_tools(transfer).with_approval(timeout_s=600.0).build()
    config = AgentConfig(name="bank", durability=DurabilityConfig(str(log), recover=False))
    context = browser.new_context()
    with serving(log, [StudioAgent(agent, config)]) as address:
        watched = Watched(context.new_page(), address)
        page, other = watched.page, context.new_page()
        begin_run(page, "Pay both.")
        last = page.locator(".card", has_text="Bob")
        last.get_by_label("Reason").fill("Bob's invoice is right.")
        other.goto(page.url)
        other.locator(".card", has_text="Ada").get_by_role("button", name="Approve").click()
        expect(page.locator(".card")).to_have_count(1)
        expect(last.get_by_label("Reason")).to_have_value("Bob's invoice is right.")
        last.get_by_role("button", name="Approve").click()
        expect(page.locator(".run-head .status")).to_have_text("completed")
        steps(page).locator(".row.tool", has_text="Bob").click()
        inspector = page.get_by_role("region", name="Details of the step")
        expect(inspector).to_contain_text("Bob's invoice is right.")
        inspector.get_by_role("button", name="Fork from here").click()
        expect(page.get_by_role("dialog").get_by_label("Result")).to_have_value('"391"')
        assert watched.problems == []
    context.close()


def test_a_pause_is_confirmed_and_a_run_begun_again(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "runs.db"
    context = browser.new_context()
    with serving(log, [buyer(log, tmp_path)]) as address:
        watched = Watched(context.new_page(), address)
        page = watched.open("runs")
        begin_run(page, "Order two cartons.")
        expect(page.locator(".card")).to_contain_text("waits for approval")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_text("It pauses before its next step.")).to_be_visible()
        row = watched.open("runs").get_by_role("row", name="Order two cartons.")
        expect(row).to_contain_text("waiting")
        row.get_by_role("link").click()
        cancel = page.get_by_role("button", name="Cancel")
        cancel.hover()
        page.mouse.down()
        page.wait_for_timeout(1_500)  # the head of the run is drawn anew each second
        page.mouse.up()
        expect(page.locator(".run-head .reason")).to_contain_text("was cancelled")
        page.get_by_role("button", name="Run again").click()
        expect(page.get_by_role("dialog").get_by_label("Task")).to_have_value("Order two cartons.")
        assert watched.problems == []
    context.close()


def test_a_message_that_is_written_during_an_answer_is_kept(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "runs.db"
    agents = [asking_things(log, call("ask-user", question="Which size?"), answer("It is sent."))]
    context = browser.new_context()
    with serving(log, agents) as address:
        watched = Watched(context.new_page(), address)
        page = watched.open("sessions/sums/letters")
        message = page.get_by_label("Message")
        message.fill("Send the letter.")
        page.get_by_role("button", name="Send").click()
        waiting = page.get_by_role("link", name="It waits for you")
        expect(waiting).to_be_visible()
        message.fill("Thank you")
        other = Watched(context.new_page(), address)
        other.page.goto(f"{other.home}{waiting.get_attribute('href')}")
        card = other.page.locator(".card")
        card.get_by_label("Answer").fill("L")
        card.get_by_role("button", name="Answer").click()
        expect(page.get_by_text("It is sent.")).to_be_visible()
        expect(page.get_by_role("navigation", name="Conversations")).to_contain_text("Send the letter.")
        expect(message).to_have_value("Thank you")
        expect(page.get_by_role("button", name="Send")).to_be_enabled()
        assert watched.problems == other.problems == []
    context.close()


def test_a_page_tells_that_the_studio_is_gone_and_goes_on_when_it_is_back(
    browser: Browser, tmp_path: Path
) -> None:
    log = tmp_path / "runs.db"
    context = browser.new_context()
    with serving(log, [buyer(log, tmp_path)]) as address:
        page = Watched(context.new_page(), address).open("runs")
        expect(page.get_by_text("No runs yet")).to_be_visible()
    gone = page.get_by_text("The studio does not answer.")
    expect(gone).to_be_visible()
    with serving(log, [buyer(log, tmp_path)], int(address.partition("/?")[0].rpartition(":")[2])):
        expect(gone).to_be_hidden()
        refused: list[str] = []

        def refuse_once(route: Route) -> None:
            refused.append(route.request.url)
            if len(refused) > 1:
                route.continue_()
            else:
                route.fulfill(status=401)

        page.route("**/stream?*", refuse_once)
        begin_run(page, "Order two cartons.")
        expect(page.locator(".card")).to_contain_text("waits for approval")
        page.get_by_role("button", name="Approve").click()
        expect(page.locator(".run-head .status")).to_have_text("completed")
        assert len(refused) > 1
    context.close()


def test_details_follow_steps_that_come_faster_than_they_load(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "runs.db"
    turns = (evolve(call("price", product=f"P-{number}"), delay=0.3) for number in range(100))
    agent = scripted(log, "clerk", *turns)
    context = browser.new_context()
    context.add_init_script("""
        const real = window.fetch;
        window.fetch = async (place, options) => {
            if (String(place).includes("/rows/")) await new Promise((done) => setTimeout(done, 800));
            return real(place, options);
        };
    """)
    with serving(log, [agent]) as address:
        watched = Watched(context.new_page(), address)
        page = watched.open("runs")
        begin_run(page, "Look again and again.")
        expect(page.locator(".inspector h2")).to_have_text(re.compile("Turn [3-9]"))
        expect(page.locator(".run-head .status")).to_have_text("running")
        assert watched.problems == []
    context.close()


def test_characters_that_are_not_seen_are_shown_as_escapes(watched: Watched) -> None:
    page = watched.open("runs")
    hidden = "\u202e\u200b\u2066\u200d\ufe0f\U000e0100\u3164\u034f\u2065\u00a0\u2800"
    shown = page.evaluate(
        "async (given) => { const { text } = await import('./static/dom.js');"
        " return [text({ to: given }).textContent, text(given).textContent]; }",
        f"a{hidden}b",
    )
    assert shown[0] == '{\n  "to": "a' + "".join(f"\\u{{{ord(each):x}}}" for each in hidden) + 'b"\n}'
    assert not {*"\u202e\u200b\u2066\U000e0100\u3164"} & {*shown[1]}


def test_a_question_is_answered_a_result_delivered_and_a_turn_forked(watched: Watched) -> None:
    page = watched.open("runs")
    begin_run(page, "Send it.", "sums")
    card = page.locator(".card")
    expect(card).to_contain_text("Which size?")
    card.get_by_role("button", name="L", exact=True).click()
    expect(card).to_contain_text("locate waits for its result")
    card.get_by_label("Result").fill('{"lat": 1}')
    card.get_by_role("button", name="Deliver").click()
    expect(page.locator(".run-head .status")).to_have_text("completed")
    steps(page).locator(".row.turn").last.click()
    inspector = page.get_by_role("region", name="Details of the step")
    inspector.get_by_role("button", name="Fork from here").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Message").fill("Say it in French.")
    before = page.url
    dialog.get_by_role("button", name="Fork and run").click()
    page.wait_for_url(lambda url: url.partition("#")[2][:30] != before.partition("#")[2][:30])
    expect(page.locator("#panel")).to_contain_text("C'est fait.")


def test_a_saved_run_opens_again(watched: Watched, runs: Any, tmp_path: Path) -> None:
    page = watched.open(f"run/{runs[1]['reflected']}")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as a file").click()
    file = tmp_path / "run.jsonl"
    saved.value.save_as(file)
    assert json.loads(file.read_text().splitlines()[0])["run"]["agent"] == "writer"
    page.get_by_role("button", name="Open a file").click()
    page.get_by_label("File of a run").set_input_files(file)
    page.get_by_role("dialog").get_by_role("button", name="Open", exact=True).click()
    expect(page.get_by_text("It was opened from a file")).to_be_visible()
    expect(page.get_by_role("tab", name="Attempts (2)")).to_be_visible()


# --- strangers -------------------------------------------------------------------------------------------


def test_texts_are_read_from_the_side_that_they_begin_at(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "runs.db"
    said = "مرحبا بكم في هذا المكان الجميل، " * 20 + "مرحبا."

    async def make() -> str:
        described = ReactiveAgents.create().with_llm(ScriptedLLM(say(said))).with_reasoning()
        async with described.with_run_log(log).with_sessions(tmp_path / "s.db").build() as agent:
            result = await agent.run("قل مرحبا.", user="علي", session="محادثة", tags=["وسم"])
        return str(result.run_id)

    run_id = run_apart(make)
    context = browser.new_context()
    with serving(log) as address:
        watched = Watched(context.new_page(), address)
        page = watched.open("runs")
        names = page.locator(".under > bdi")
        expect(names).to_have_text(["session محادثة", "علي", "وسم"])
        places = [box["x"] for box in (each.bounding_box() for each in names.all()) if box is not None]
        assert places == sorted(places)
        page = watched.open(f"run/{run_id}")
        note = page.locator(".row.answer .row-note")
        begins = note.evaluate(
            "each => { const range = document.createRange(); range.setStart(each.firstChild, 0);"
            " range.setEnd(each.firstChild, 1); return range.getBoundingClientRect().right; }"
        )
        box = note.bounding_box()
        assert box is not None
        assert begins <= box["x"] + box["width"] + 1  # the beginning is not what is cut off
        page.locator(".row.answer").click()
        answered = page.locator(".inspector .text.prose")
        expect(answered).to_have_css("direction", "rtl")
        assert watched.problems == []
    context.close()


def test_what_models_and_tools_write_is_text(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "runs.db"

    @tool
    def fetch(url: str) -> str:
        """Fetch a page."""
        return HOSTILE

    async def make() -> str:
        model = ScriptedLLM(call("fetch", url=HOSTILE), answer(HOSTILE, thinking=HOSTILE))
        described = ReactiveAgents.create().with_name(HOSTILE[:40]).with_llm(model).with_reasoning()
        async with described.with_tools(fetch).with_run_log(log).build() as agent:
            result = await agent.run(HOSTILE, user=HOSTILE[:60], tags=[HOSTILE[:60]])
        return str(result.run_id)

    run_id = run_apart(make)
    context = browser.new_context()
    with serving(log) as address:
        watched = Watched(context.new_page(), address)
        page = watched.open("runs")
        expect(page.get_by_role("link", name="<img src=x")).to_be_visible()
        assert "\u202e" not in page.content()
        page = watched.open(f"run/{run_id}")
        for number in range(steps(page).locator(".row:visible").count()):
            steps(page).locator(".row:visible").nth(number).click()
            expect(page.locator(".inspector h2")).to_be_visible()
        assert "\u202e" not in page.content() + page.title()
        for name in ("Usage and end", "Timeline"):
            page.get_by_role("tab", name=name).click()
        watched.open(f"compare/{run_id}/{run_id}")
        expect(page.get_by_text("No step differs")).to_be_visible()
        assert page.evaluate("window.hacked") is None
        assert page.locator("img, iframe, object, embed, main script, main svg[onload]").count() == 0
        assert watched.problems == []
        blocked = page.evaluate(
            "() => { try { document.body.innerHTML = '<b>x</b>'; return '' } catch (e) { return e.name } }"
        )
        assert blocked == "TypeError"
    context.close()


# --- the command -----------------------------------------------------------------------------------------


def test_no_server_on_another_port_gets_the_cookie(watched: Watched) -> None:
    received: list[str | None] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(self.headers.get("cookie"))
            self.send_response(200)
            self.send_header("set-cookie", "own=1; path=/")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever).start()
        page = watched.page.context.new_page()
        for path in ("", "api/state", "static/main.js"):
            page.goto(f"http://127.0.0.1:{server.server_port}/{path}")
        page.evaluate("async () => (await fetch('/last')).status")
        page.close()
        server.shutdown()
    assert set(received) == {None, "own=1"}
    expect(watched.open("runs").get_by_role("searchbox")).to_be_visible()


def test_the_command_prints_an_address_and_ends_with_an_interrupt(tmp_path: Path, browser: Browser) -> None:
    (tmp_path / "agent.toml").write_text('name = "helper"\n[model]\nmodel = "offline"\n[reasoning]\n')
    words = ["studio", "agent.toml", "--runs", "runs.db", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "reactive_agents", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("Studio: ").strip()
            context = browser.new_context()
            page = Watched(context.new_page(), address).open("runs")
            expect(page.get_by_text("No runs yet")).to_be_visible()
            page.get_by_role("button", name="New run").click()
            page.get_by_role("dialog").get_by_label("Task").fill("Say hi.")
            page.get_by_role("button", name="Start").click()
            expect(steps(page)).to_contain_text("Ended")
            process.send_signal(signal.SIGINT)
            told = process.communicate(timeout=60)[1]
            context.close()
        finally:
            process.kill()
    assert process.returncode == 0, told
    assert "Traceback" not in told


# --- how it is used ---------------------------------------------------------------------------------------


def test_a_run_is_read_with_the_keyboard_alone(watched: Watched, runs: Any) -> None:
    page = watched.open("runs")
    expect(page.get_by_role("link", name="What does a dealer in Austria")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("compare the dealer")
    expect(page.locator("tbody tr")).to_have_count(1)
    link = page.get_by_role("link", name="Compare the dealer prices")
    for _ in range(20):
        page.keyboard.press("Tab")
        if link.evaluate("each => each === document.activeElement"):
            break
    page.keyboard.press("Enter")
    listed = steps(page)
    expect(listed).to_be_visible()
    listed.focus()
    page.keyboard.press("Home")
    expect(listed.locator("[aria-selected=true]")).to_contain_text("Task")
    page.keyboard.press("ArrowDown")
    expect(listed.locator("[aria-selected=true]")).to_contain_text("reasoning")
    chosen = listed.locator("[aria-selected=true]").get_attribute("id")
    assert listed.get_attribute("aria-activedescendant") == chosen
    page.keyboard.press("End")
    expect(listed.locator("[aria-selected=true]")).to_contain_text("Ended")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Details of the step")).to_be_focused()
    page.keyboard.press("Escape")
    expect(listed).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, address: str, runs: Any, scheme: Any) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 800})
    watched, ids = Watched(context.new_page(), address), runs[1]
    views = [
        ("runs", "Took"),
        (f"run/{ids['reactive']}", "Ended by"),
        (f"run/{ids['planned']}", "Plan"),
        (f"run/{ids['searched']}", "Tree of thoughts"),
        (f"run/{ids['reflected']}", "Attempts (2)"),
        (f"compare/{ids['reactive']}/{ids['failed']}", "Two runs"),
        *((name, title) for name, title in (("sessions", "Sessions"), ("memory", "Memory"))),
        *((name, title) for name, title in (("budgets", "Budgets"), ("audit", "Audit"))),
        ("personas", "No persona is loaded"),
    ]
    found: list[str] = []
    for place, text in views:
        page = watched.open(place)
        expect(page.locator("main")).to_contain_text(text)
        tab = page.get_by_role("tab", name=text)
        if tab.count():
            tab.click()
        found += [f"{place}: {each}" for each in serious(page)]
    page.get_by_role("button", name="New run").click()
    found += [f"dialog: {each}" for each in serious(page)]
    assert found == []
    context.close()


def a_persona_that_learned(memory: Path) -> StudioRecords:
    """The records of a persona with a plan of many steps and lessons of hostile and of long words."""

    async def work() -> None:
        acts = [f"Take step {number} of the order. <b onclick=alert(1)>" for number in range(1, 9)]
        turns = [planned(*acts), *(say("It is done.") for _ in acts), assessed(f"Ask first. {'x' * 300}")]
        store = SqlitePersonaStore(memory)
        await persona_bench(ScriptedLLM(*turns), store=store).process("Order <img src=x onerror=alert(1)>")
        await store.aclose()

    run_apart(work)
    return StudioRecords({"ada": PersonaConfig("Ada", str(memory), id="ada")})


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (380, "dark")])
def test_plans_and_learnings_of_a_persona_are_read(
    browser: Browser, tmp_path: Path, width: int, scheme: Any
) -> None:
    records = a_persona_that_learned(tmp_path / "memory.db")
    with serving(tmp_path / "runs.db", records=records) as address:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
        watched = Watched(context.new_page(), address)
        page = watched.open("personas")
        expect(page.locator("main")).to_contain_text("Order <img src=x")
        expect(page.locator("main")).to_contain_text(
            "s8 started: Take step 8 of the order. <b onclick=alert(1)>"
        )
        row = page.get_by_role("row", name="Ask first.")
        expect(row).to_contain_text("chat")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert serious(page) == []
        row.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_text("Nothing is learned yet.")).to_be_visible()
        assert watched.problems == []
        context.close()


def serious(page: Page) -> list[str]:
    """The serious findings of axe-core on a page."""
    page.evaluate(AXE)
    results = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in results["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def test_a_narrow_screen_shows_steps_and_then_details(browser: Browser, address: str, runs: Any) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    watched = Watched(context.new_page(), address)
    for place in ("runs", f"run/{runs[1]['planned']}", f"compare/{runs[1]['reactive']}/{runs[1]['failed']}"):
        page = watched.open(place)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    page = watched.open(f"run/{runs[1]['reactive']}")
    inspector = page.get_by_role("region", name="Details of the step")
    expect(inspector).to_be_hidden()
    steps(page).get_by_text("Turn 1").tap()
    expect(inspector).to_contain_text("Turn 1")
    page.get_by_role("button", name="Back to the steps").tap()
    expect(steps(page)).to_be_visible()
    context.close()


TURNS = int(os.environ.get("STUDIO_TURNS", "700"))


def test_thousands_of_steps_are_a_few_rows_of_the_page(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "runs.db"
    run_id = run_apart(studio_runs.long_run, log, TURNS)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    with serving(log) as address:
        watched = Watched(context.new_page(), address)
        page = watched.open(f"run/{run_id}")
        listed = steps(page)
        expect(listed).to_be_visible()
        row = listed.locator(".row:visible").first
        expect(row).to_have_attribute("aria-setsize", str(3 * TURNS + 3))
        script = """async () => {
            const list = document.querySelector(".list");
            let frames = 0;
            for (let top = 0; top < list.scrollHeight; top += 3000) {
                list.scrollTop = top;
                await new Promise(requestAnimationFrame);
                frames += 1;
            }
            return [frames, list.querySelectorAll(".row").length];
        }"""
        client = context.new_cdp_session(page)
        client.send("Performance.enable")
        before = scripting(client)
        frames, rows = page.evaluate(script)
        spent_ms = (scripting(client) - before) * 1000
        told = f"{spent_ms / frames:.2f} ms of script, style and layout a frame"
        print(f"\n{frames} frames over {3 * TURNS + 3:,} rows: {told}")
        assert rows < 80
        listed.focus()
        page.keyboard.press("End")
        expect(listed.locator("[aria-selected=true]")).to_contain_text("Ended")
        page.get_by_label("Search steps").fill("number=567")
        expect(listed.locator(".row:visible").first).to_have_attribute("aria-setsize", "2")
        assert watched.problems == []
    context.close()


def scripting(client: Any) -> float:
    """Seconds that the page has spent in scripts, styles and layout."""
    names = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
    return sum(
        each["value"] for each in client.send("Performance.getMetrics")["metrics"] if each["name"] in names
    )
