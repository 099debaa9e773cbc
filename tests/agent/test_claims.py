"""Answers that claim what no call did, in many languages, through the whole agent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeAlias

import pytest

from reactive_agents import AgentResult, ReactiveAgents, tool
from reactive_agents.core.events import GuidanceGiven
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, answer, call, forever, say

pytestmark = pytest.mark.anyio

Deliver: TypeAlias = Callable[[str], Turn]
TO_ANN = "Send an email to ann@x.org and tell bob@x.org that the meeting moved."


@tool
def get_price(item: str) -> str:
    """Get the price of an item in euros."""
    return f"{item}: 39.90 EUR"


@tool
def send_email(to: str, body: str) -> str:
    """Send an email."""
    return "sent"


@tool
def transfer(to: str, amount: float) -> str:
    """Transfer money to an account."""
    raise ValueError("insufficient funds")


async def run(task: str, *turns: Turn) -> tuple[AgentResult, list[str]]:
    recorder = EventRecorder()
    llm = ScriptedLLM(*turns[:-1], forever(turns[-1]))
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning()
    agent = builder.with_tools(get_price, send_email, transfer).build()
    agent.subscribe(recorder)
    result = await agent.run(task)
    return result, [event.policy for event in recorder.of(GuidanceGiven)]


@pytest.mark.parametrize(
    ("task", "claim"),
    [
        ("Schicke eine E-Mail an ann@x.org, dass wir uns um 15 Uhr treffen.", "Gesendet an ann@x.org."),
        ("Envoie un e-mail à ann@x.org pour la réunion.", "L'e-mail a été envoyé à ann@x.org."),
        ("Envía un correo a ann@x.org sobre la reunión.", "He enviado el correo a ann@x.org."),
        ("给 ann@x.org 发一封邮件，说会议在下午3点。", "邮件已发送给 ann@x.org。"),
        ("ann@x.org に会議は15時だとメールしてください。", "ann@x.org にメールを送信しました。"),
        ("أرسل بريدًا إلى ann@x.org عن الاجتماع.", "تم إرسال البريد إلى ann@x.org."),
        ("Отправь письмо на ann@x.org о встрече.", "Письмо отправлено на ann@x.org."),
    ],
)
@pytest.mark.parametrize("deliver", [say, answer])
async def test_what_was_sent_to_nobody_is_no_success(task: str, claim: str, deliver: Deliver) -> None:
    result, asked = await run(task, deliver(claim))
    assert (result.status, result.output) == ("partial", claim)
    assert "No call was made with ann@x.org" in result.reason
    assert asked


@pytest.mark.parametrize("deliver", [say, answer])
async def test_an_address_that_no_call_had_is_asked_about(deliver: Deliver) -> None:
    sent = call("send_email", to="ann@x.org", body="It moved.")
    claim = "Both ann@x.org and bob@x.org know."
    result, asked = await run(TO_ANN, sent, deliver(claim))
    assert result.status == "partial"
    assert "No call was made with bob@x.org" in result.reason
    mended, _ = await run(
        TO_ANN, sent, deliver(claim), call("send_email", to="bob@x.org", body="It moved."), deliver(claim)
    )
    assert (mended.status, asked[-1]) == ("completed", "left_out")


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("What does the lamp cost? Do not write to ann@x.org.", "The lamp costs 39.90 EUR."),
        (
            "What does the lamp cost, and did you write to ann@x.org?",
            "39.90 EUR. I did not write to ann@x.org.",
        ),
        (
            "Draft a mail to ann@x.org with the price of the lamp.",
            "To: ann@x.org\n\nThe lamp costs 39.90 EUR.",
        ),
    ],
)
async def test_an_address_that_needs_no_call_is_not_asked_about(task: str, text: str) -> None:
    result, asked = await run(task, call("get_price", item="lamp"), answer(text))
    assert (result.status, result.output, asked) == ("completed", text, [])


CLAIM = "The lamp costs 39.90 EUR, and DE12 has it."
PAY = "Was kostet die Lampe? Überweise das an DE12."


@pytest.mark.parametrize("deliver", [say, answer])
async def test_what_only_failed_calls_were_about_is_no_success(deliver: Deliver) -> None:
    tried = [call("get_price", item="lamp"), call("transfer", to="DE12", amount=39.9)]
    result, asked = await run(PAY, *tried, deliver(CLAIM))
    assert (result.status, result.output, asked) == ("partial", CLAIM, ["failed_call"])
    assert result.reason.startswith("transfer failed, and the answer does not say so.")
    turned, _ = await run(PAY, *reversed(tried), deliver(CLAIM))
    assert turned.status == "partial"


@pytest.mark.parametrize(
    "text",
    [
        "The lamp costs 39.90 EUR. I could not transfer it to DE12.",
        "An DE12 ging nichts. Die Lampe kostet 39,90 EUR.",
        "39.90 EUR. The transfer to DE12 failed: insufficient funds, no money left.",
        "لم يتم التحويل إلى DE12، والمصباح بسعر 39.90.",
        "램프는 39.90유로이고 DE12로 송금하지 못했습니다.",
    ],
)
async def test_a_failure_that_the_answer_tells_is_not_asked_about(text: str) -> None:
    tried = [call("get_price", item="lamp"), call("transfer", to="DE12", amount=39.9)]
    result, asked = await run(PAY, *tried, answer(text))
    assert (result.output, asked) == (text, [])
    assert result.status in ("completed", "abstained")


COST = "What does the lamp cost?"


@pytest.mark.parametrize(
    "text",
    ["The lamp costs [price] EUR.", "The lamp costs {price} EUR.", "The lamp costs $XX.XX."],
)
async def test_an_answer_with_a_place_for_the_figure_is_asked_for_it(text: str) -> None:
    result, asked = await run(COST, answer(text), call("get_price", item="lamp"), answer("39.90 EUR"))
    assert (result.output, asked) == ("39.90 EUR", ["unsupported"])


async def test_an_amount_that_nobody_looked_up_is_questioned() -> None:
    tried = call("search_web", query="price of a lamp")
    result, asked = await run(
        COST, tried, answer("25 EUR."), call("get_price", item="lamp"), answer("39.90 EUR")
    )
    assert (result.output, asked) == ("39.90 EUR", ["unsupported"])
    both = "What do lamp and desk cost?"
    told = "The lamp costs 39.90 EUR and the desk 99 EUR."
    _, asked = await run(both, call("get_price", item="lamp"), answer(told))
    assert asked == ["unsupported"]


@pytest.mark.parametrize(
    ("task", "claim"),
    [
        ("Überweise 50 EUR an Max.", "Ich habe 50 EUR an Max überwiesen."),
        ("Transfère 50 euros à Max.", "Le virement est fait."),
        ("给小明转账五十欧元。", "已转账。"),
        ("Переведи Максу 50 евро.", "Деньги переведены."),
    ],
)
@pytest.mark.parametrize("deliver", [say, answer])
async def test_an_order_in_another_language_is_asked_for_its_call(
    task: str, claim: str, deliver: Deliver
) -> None:
    done = call("transfer", to="Max", amount=50)
    result, asked = await run(task, deliver(claim), done, answer("Es ging nicht: insufficient funds."))
    assert len(asked) == 1
    assert "Es ging nicht" in str(result.output)


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("Was ist die Hauptstadt von Frankreich?", "Paris."),
        ("法国的首都是哪里？", "巴黎。"),
        ("Schreibe einen Vers über den Mond.", "Der Mond ist aufgegangen."),
        ("Übersetze 'good morning' ins Deutsche.", "Guten Morgen."),
        ("你好", "你好！"),
        ("Danke dir!", "Gern geschehen!"),
        ("I am Ada.", "Hello Ada."),
        ("Erkläre kurz, was ein Vulkan ist.", "Ein Berg, aus dem Lava austritt."),
        ("用一句话解释什么是区块链", "一种分布式账本。"),
    ],
)
async def test_what_orders_nothing_of_the_tools_is_not_asked_about(task: str, text: str) -> None:
    result, asked = await run(task, answer(text))
    assert (result.status, result.output, asked) == ("completed", text, [])


@tool
def get_weather(city: str) -> str:
    """Get the weather of a city."""
    if city == "NYC":
        raise ValueError("unknown city")
    return "17 degrees, cloudy"


@tool
def find_page(query: str) -> str:
    """Find a page about something."""
    return "New York City: 17 degrees, cloudy"


@pytest.mark.parametrize(
    ("other", "most"),
    [(call("get_weather", city="New York City"), []), (call("find_page", query="weather"), ["failed_call"])],
)
async def test_what_was_found_in_another_way_is_a_success(other: Turn, most: list[str]) -> None:
    text = "In NYC sind es 17 Grad."
    turns = [call("get_weather", city="NYC"), other, forever(answer(text))]
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
    recorder = EventRecorder()
    built = agent.with_tools(get_weather, find_page).build()
    built.subscribe(recorder)
    result = await built.run("Wie ist das Wetter in NYC?")
    assert (result.status, result.output) == ("completed", text)
    assert [event.policy for event in recorder.of(GuidanceGiven)] == most


@pytest.mark.parametrize("deliver", [say, answer])
async def test_the_reason_says_that_no_tool_was_called(deliver: Deliver) -> None:
    result, asked = await run("Wiege den Brief an Ida.", deliver("Er wiegt wenig."))
    assert result.reason == "The model gave its final answer. No tool was called."
    assert asked
    result, _ = await run("Was kostet Alto?", call("get_price", item="Alto"), deliver("Alto kostet 39,90."))
    assert result.reason == "The model gave its final answer."


@tool
def find_flight(to: str) -> str:
    """Find flights to a city."""
    return "BA117 at 148 EUR, LH902 at 212 EUR"


@tool
def book_flight(flight: str) -> str:
    """Book a flight."""
    return f"{flight} is booked, reference QX7T2"


FOUND = call("find_flight", to="Oslo")
BOOKED = call("book_flight", flight="BA117")
FLY = "Find the cheapest flight to Oslo and book it."


async def fly(
    task: str, *turns: Turn, also: Callable[..., str] | None = None
) -> tuple[AgentResult, list[str]]:
    recorder = EventRecorder()
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns[:-1], forever(turns[-1]))).with_reasoning()
    agent = builder.with_tools(find_flight, book_flight, *([also] if also else ())).build()
    agent.subscribe(recorder)
    result = await agent.run(task)
    return result, [event.policy for event in recorder.of(GuidanceGiven)]


@pytest.mark.parametrize(
    ("task", "claim"),
    [
        (FLY, "BA117 for 148 EUR is booked."),
        (FLY, "The cheapest flight is BA117 at 148 EUR."),
        (FLY, "BA117 at 148 EUR. Next I book it."),
        ("Finde den günstigsten Flug nach Oslo und buche ihn.", "BA117 für 148 EUR ist gebucht."),
        ("Trouve le vol le moins cher pour Oslo et réserve-le.", "Le vol BA117 à 148 EUR est réservé."),
        ("Busca el vuelo más barato a Oslo y resérvalo, por favor.", "He reservado BA117 por 148 EUR."),
        ("找最便宜的去奥斯陆的航班并预订。", "已预订BA117,148欧元。"),
    ],
)
@pytest.mark.parametrize("deliver", [say, answer])
async def test_an_order_is_not_done_by_an_answer(task: str, claim: str, deliver: Deliver) -> None:
    result, asked = await fly(task, FOUND, deliver(claim))
    assert (result.status, asked.count("not_done") <= 1) == ("partial", True)
    if deliver is answer:  # a text may end the run before, as an announcement
        assert result.metadata.terminated_by == "not_done"
        assert "no call of book_flight was made" in result.reason
    mended, _ = await fly(task, FOUND, deliver(claim), BOOKED, deliver("BA117 is booked: QX7T2."))
    assert mended.status == "completed"


async def test_an_order_is_asked_about_once_in_whatever_words_it_is_claimed() -> None:
    texts = ["BA117 is booked.", "I have booked BA117 for you.", "Your flight BA117 has been booked."]
    result, asked = await fly(FLY, FOUND, *map(answer, texts))
    assert (result.status, result.output, asked.count("not_done")) == ("partial", texts[1], 1)


@pytest.mark.parametrize(
    ("task", "turns", "text"),
    [
        (FLY, [FOUND], "BA117 is the cheapest. I did not book it."),
        (FLY, [FOUND], "BA117 at 148 EUR is the cheapest. Which passenger is it for?"),
        (FLY, [FOUND, BOOKED], "BA117 at 148 EUR is booked."),
        ("Explain how a flight is booked.", [], "A flight is booked in three steps: search, choose, pay."),
        ("Find flights to Oslo, but book none.", [FOUND], "BA117 at 148 EUR, LH902 at 212 EUR."),
        ("If one is below 100 EUR, book a flight to Oslo.", [FOUND], "The cheapest is 148 EUR."),
        ("Which flight to Oslo should be booked?", [FOUND], "BA117 should be booked, at 148 EUR."),
        (
            "Write a haiku on a booked flight.",
            [],
            "Booked a flight at dawn,\nthe sea below is silver,\nhome is far away.",
        ),
    ],
)
async def test_an_honest_answer_is_not_asked_for_an_act(task: str, turns: list[Turn], text: str) -> None:
    result, asked = await fly(task, *turns, answer(text))
    assert (result.output, "not_done" in asked) == (text, False)
    assert result.status in ("completed", "abstained")


@pytest.mark.parametrize(("found", "status"), [("cancelled on 2 May", "completed"), ("paid", "partial")])
async def test_what_a_result_says_was_done_before_is_not_done_again(found: str, status: str) -> None:
    def get_booking(number: str) -> str:
        """Get a booking."""
        return f"Booking {number}: {found}"

    @tool(risk="medium")
    def cancel_booking(number: str) -> str:
        """Cancel a booking."""
        return "cancelled"

    said = answer("Booking 55 was cancelled on 2 May.")
    llm = ScriptedLLM(call("get_booking", number="55"), forever(said))
    builder = ReactiveAgents.create().with_llm(llm).with_tools(get_booking, cancel_booking).with_reasoning()
    result = await builder.build().run("Cancel booking 55.")
    assert result.status == status


@pytest.mark.parametrize("nothing", ["...", "…", COST, f"{COST} "])
@pytest.mark.parametrize("deliver", [say, answer])
async def test_an_answer_that_says_nothing_is_none(nothing: str, deliver: Deliver) -> None:
    look = call("get_price", item="lamp")
    result, _ = await run(COST, deliver(nothing), look, deliver(nothing), answer("39.90 EUR"))
    assert (result.status, result.output) == ("completed", "39.90 EUR")
    result, _ = await run(COST, deliver(nothing))
    assert result.status == "partial"


async def test_another_agent_may_have_done_what_is_ordered() -> None:
    def travel_desk(request: str) -> str:
        """Let the travel desk do something."""
        return "Ok."

    asked_for = call("travel_desk", request="BA117, please")
    result, asked = await fly(FLY, FOUND, asked_for, answer("BA117 is booked for 148 EUR."), also=travel_desk)
    assert (result.status, asked) == ("completed", [])


@pytest.mark.parametrize(("turns", "is_read"), [([FOUND, BOOKED], False), ([FOUND], True)])
async def test_a_run_whose_calls_were_made_is_not_read_for_orders(turns: list[Turn], is_read: bool) -> None:
    read: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_name == "act_left":
            read.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        await fly(FLY, *turns, answer("BA117 at 148 EUR is booked."))
    finally:
        sys.setprofile(None)
    assert bool(read) is is_read


async def test_an_answer_stands_when_repeated_after_a_call_of_another_tool_that_may_have_done_it() -> None:
    def ask_billing(request: str) -> str:
        """Ask the billing agent."""
        return "All is settled."

    @tool
    def refund_order(order_id: str) -> str:
        """Refund an order."""
        raise AssertionError("not called")

    llm = ScriptedLLM(call("ask_billing", request="refund 4711"), forever(answer("Order 4711 was refunded.")))
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning()
    agent = builder.with_tools(refund_order, ask_billing).build()
    result = await agent.run("Refund order 4711.")
    assert (result.status, result.metadata.model_calls) == ("completed", 3)
