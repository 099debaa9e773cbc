"""Runs of weak models with look-ups: what is asked again, what is named in the reason, what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reactive_agents import AgentResult, ReactiveAgents, tool
from reactive_agents.core.events import GuidanceGiven
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, answer, call, calls, forever, say

pytestmark = pytest.mark.anyio


@tool
def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return {"Rome": "Rome: 24 °C, sunny, wind 12 km/h", "Oslo": "Oslo: 3 °C, snow, wind 30 km/h"}[city]


@tool
def stock(item: str) -> int:
    """Get how many pieces of an item are in stock."""
    if item == "bolt":
        raise ConnectionError("warehouse offline")
    return {"nut": 1200, "washer": 0}[item]


@tool
def search_notes(query: str) -> list[str]:
    """Search the notes."""
    return []


@tool
def list_bookings(room: str, day: str) -> list[str]:
    """List the bookings of a room on a day."""
    return []


@tool
def find_person(name: str) -> list[dict[str, Any]]:
    """Find people by name."""
    return [{"name": "Ann Lee", "mail": "ann.lee@x.org"}, {"name": "Ann Low", "mail": "ann.low@x.org"}]


@tool
def read_page(url: str) -> str:
    """Read a page."""
    return "Contact: info [at] shop.example, +49 30 1234567."


@tool
def balance(account: str) -> str:
    """Get the balance of an account."""
    return f"{account}: -1.234,50 €"


@tool
def price(item: str) -> str:
    """Get the price of an item."""
    return f"{item}: 89.00 EUR"


@tool
def inventory() -> dict[str, Any]:
    """Get the inventory."""
    return {"packs": 5, "per_pack": 12, "used": 3}


@tool
def lookup(word: str) -> str:
    """Look up a word in the dictionary."""
    raise LookupError("no entry")


@tool
def send_mail(to: str, body: str) -> str:
    """Send a mail."""
    return "sent"


@tool
def licht(raum: str, an: bool) -> str:
    """Schaltet das Licht in einem Raum ein oder aus."""
    return "ok"


@tool
def kalender(tag: str) -> list[str]:
    """Liefert die Termine eines Tages."""
    return []


@tool
def termin_anlegen(titel: str, zeit: str) -> str:
    """Legt einen Termin an."""
    return "angelegt"


@tool
def clima(ciudad: str) -> str:
    """Devuelve el tiempo de una ciudad."""
    return f"{ciudad}: 28 grados, despejado"


@tool
def enviar(destinatario: str, texto: str) -> str:
    """Envía un mensaje."""
    return "enviado"


TOOLS: dict[str, Any] = {
    "get_weather": get_weather,
    "stock": stock,
    "search_notes": search_notes,
    "list_bookings": list_bookings,
    "find_person": find_person,
    "read_page": read_page,
    "balance": balance,
    "price": price,
    "inventory": inventory,
    "lookup": lookup,
    "send_mail": send_mail,
    "licht": licht,
    "kalender": kalender,
    "termin_anlegen": termin_anlegen,
    "clima": clima,
    "enviar": enviar,
}
ROME = call("get_weather", city="Rome")
TWO_ITEMS = calls(call("stock", item="nut"), call("stock", item="bolt"))
ANNS = call("find_person", name="Ann")
NOTHING = call("search_notes", query="it")
TO_ANN = "Send the weather of Rome to ann@x.org."
BATHROOM = "Schalte das Licht im Bad aus."
TO_ANA = "Envía a Ana el tiempo de Madrid."
MEETING = "Trag am Montag um 11 Uhr einen Termin mit Bo ein."


async def run(task: str, tools: str, *turns: Turn) -> tuple[AgentResult, list[str]]:
    recorder = EventRecorder()
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns[:-1], forever(turns[-1])))
    agent = builder.with_reasoning().with_tools(*(TOOLS[each] for each in tools.split())).build()
    agent.subscribe(recorder)
    result = await agent.run(task)
    return result, [each.policy for each in recorder.of(GuidanceGiven) if each.policy != "progress"]


@pytest.mark.parametrize(
    ("task", "tools", "made", "said", "policy", "reason"),
    [
        ("How warm is it in Rome?", "get_weather", ROME, "It is 27 °C.", "unsupported", "no source: 27"),
        ("How warm is it in Rome?", "get_weather", ROME, '{"temperature": 29}', "unsupported", "source: 29"),
        ("How many nuts and bolts are there?", "stock", TWO_ITEMS, "1,200 nuts.", "failed_call", "stock"),
        (
            "How many nuts and bolts are there?",
            "stock",
            TWO_ITEMS,
            "There are 1,200 nuts and 1,200 bolts.",
            "failed_call",
            "A call of stock failed.",
        ),
        ("What do my notes say?", "search_notes", NOTHING, "The board approved it.", "unsupported", "found"),
        (
            "Find my wifi password.",
            "search_notes",
            NOTHING,
            "It is hunter2.",
            "unsupported",
            "found anything",
        ),
        (
            "Was steht am Dienstag an?",
            "kalender",
            call("kalender", tag="Dienstag"),
            "Du triffst deinen Arzt.",
            "unsupported",
            "found anything",
        ),
        ("What is the address of Ann?", "find_person", ANNS, "anna.li@x.org", "unsupported", "anna.li@x.org"),
    ],
)
@pytest.mark.parametrize("deliver", [answer, say])
async def test_what_no_result_has_is_asked_about_and_named(
    task: str, tools: str, made: Turn, said: str, policy: str, reason: str, deliver: Callable[[str], Turn]
) -> None:
    result, asked = await run(task, tools, made, deliver(said))
    assert policy in asked
    assert result.status != "completed" or reason in result.reason


@pytest.mark.parametrize(
    ("task", "tools", "made", "said"),
    [
        (TO_ANN, "get_weather send_mail", [ROME], "It's 24 °C and sunny in Rome."),
        (BATHROOM, "licht", [], "Das Licht im Bad ist aus."),
        (TO_ANA, "clima enviar", [call("clima", ciudad="Madrid")], "Se lo he enviado a Ana."),
        ("How warm is it in Rome?", "get_weather", [], '<tool_call>{"name": "get_weather", "argum'),
        ("How warm is it in Rome?", "get_weather", [], "<function=get_weather><parameter=city>Ro"),
        ("How warm is it in Rome?", "get_weather", [], '<invoke name="get_weather"><parameter name="city">'),
        ("How warm is it in Rome?", "get_weather", [], "<|python_tag|>get_weather("),
        ("How warm is it in Rome?", "get_weather", [ROME], "Here is the answer:"),
        ("How warm is it in Rome?", "get_weather", [], "**Answer:**"),
    ],
)
@pytest.mark.parametrize("deliver", [answer, say])
async def test_what_was_not_done_or_said_is_no_success(
    task: str, tools: str, made: list[Turn], said: str, deliver: Callable[[str], Turn]
) -> None:
    result, asked = await run(task, tools, *made, deliver(said))
    assert (result.status, bool(asked)) == ("partial", True)


@pytest.mark.parametrize(
    ("task", "tools", "made", "said"),
    [
        ("How warm is it in Rome?", "get_weather", [ROME], "24 °C"),
        ("What's the weather in Rome in Fahrenheit?", "get_weather", [ROME], "75 °F and sunny in Rome."),
        ("How many pieces are left?", "inventory", [call("inventory")], "57 pieces are left."),
        ("What is half the price of a rug?", "price", [call("price", item="rug")], "44.50"),
        ("What is the balance of A1?", "balance", [call("balance", account="A1")], "It is -1,234.50 euros."),
        (
            "How many nuts and bolts are there?",
            "stock",
            [TWO_ITEMS],
            "There are 1,200 nuts; the bolts could not be counted, the warehouse is offline.",
        ),
        ("What do my notes say?", "search_notes", [NOTHING], "There is nothing in your notes."),
        (
            "Is room 5 free on Friday?",
            "list_bookings",
            [call("list_bookings", room="5", day="Friday")],
            "Yes, it's available all day.",
        ),
        ("What do my notes say?", "search_notes", [NOTHING], "Your folder of notes is empty."),
        ("How many notes are there?", "search_notes", [NOTHING], "There are 0 notes."),
        (
            "Was steht am Dienstag an?",
            "kalender",
            [call("kalender", tag="Dienstag")],
            "Am Dienstag ist dein ganzer Tag frei.",
        ),
        ("What changed in my notes?", "search_notes", [NOTHING], "Your working folder is clean."),
        (
            "Write a verse about my notes; look at them first.",
            "search_notes",
            [NOTHING],
            "Blank pages wait beneath the lamp, a quiet winter field.",
        ),
        ("What is the address of Ann Low?", "find_person", [ANNS], "ann.low@x.org"),
        (
            "What is the address of https://shop.example?",
            "read_page",
            [call("read_page", url="https://shop.example")],
            "info@shop.example",
        ),
        (TO_ANN, "get_weather send_mail", [ROME, call("send_mail", to="ann@x.org", body="24")], "Sent."),
        (
            "Send ann@x.org a mail if it rains in Rome.",
            "get_weather send_mail",
            [ROME],
            "It is sunny in Rome, so I sent nothing.",
        ),
        (BATHROOM, "licht", [call("licht", raum="Bad", an=False)], "Das Licht im Bad ist aus."),
        (
            MEETING,
            "kalender termin_anlegen",
            [call("kalender", tag="Montag"), call("termin_anlegen", titel="Bo", zeit="Montag 11:00")],
            "Der Termin mit Bo am Montag um 11 Uhr ist eingetragen.",
        ),
    ],
)
async def test_an_honest_answer_is_not_asked_again(
    task: str, tools: str, made: list[Turn], said: str
) -> None:
    result, asked = await run(task, tools, *made, answer(said))
    assert (result.status, result.output, asked) == ("completed", said, [])


@pytest.mark.parametrize("deliver", [answer, say])
async def test_a_denial_may_be_in_another_language_than_the_error(deliver: Callable[[str], Turn]) -> None:
    failed, said = call("lookup", word="Serendipität"), deliver("Dafür gibt es keinen Eintrag.")
    result, asked = await run("Schlag Serendipität nach.", "lookup", failed, said)
    assert (result.status, asked) == ("completed", ["failed_call"])


@pytest.mark.parametrize("deliver", [answer, say])
async def test_a_list_in_another_order_needs_no_tool(deliver: Callable[[str], Turn]) -> None:
    said = deliver("higo, manzana, pera")
    result, _ = await run("Ordena las palabras pera, manzana e higo.", "enviar clima", said)
    assert result.status == "completed"
