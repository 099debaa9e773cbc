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


PRICED = "The price of the lamp is 39.90."
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


@pytest.mark.parametrize("deliver", [say, answer])
async def test_who_is_said_to_know_and_was_written_nothing_is_no_success(deliver: Deliver) -> None:
    task, claim = "Let Ann know that the meeting moved.", "Ann now knows that the meeting moved."
    result, asked = await run(task, deliver(claim))
    assert (result.status, result.output, asked[-1]) == ("partial", claim, "not_done")
    assert "no call of send_email was made" in result.reason
    sent = call("send_email", to="ann@x.org", body="It moved.")
    mended, _ = await run(task, deliver(claim), sent, deliver(claim))
    assert (mended.status, mended.output) == ("completed", claim)


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


@pytest.mark.parametrize("deliver", [say, answer])
async def test_the_reason_names_what_the_answer_is_about_and_no_look_up_was(deliver: Deliver) -> None:
    async def asked_about(city: str) -> tuple[AgentResult, list[str]]:
        text = "In city 43121 it is 17 degrees."
        turns = [call("get_weather", city=city), deliver(text), forever(answer(text))]
        recorder = EventRecorder()
        built = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(get_weather)
        agent = built.build()
        agent.subscribe(recorder)
        result = await agent.run("How warm is it in city 43121?")
        return result, [event.policy for event in recorder.of(GuidanceGiven)]

    result, asked = await asked_about("43112")
    assert (result.status, asked.count("left_out")) == ("completed", 1)
    assert "No call was made for: 43121." in result.reason
    result, asked = await asked_about("43121")
    assert (result.status, asked, "43121" in result.reason) == ("completed", [], False)
    result, asked = await asked_about("Parma")  # it may be another name of the same
    assert (result.status, asked, "43121" in result.reason) == ("completed", [], False)


@pytest.mark.parametrize(
    ("found", "text", "is_named"),
    [
        ("lamp: 39.90 EUR", "39.90 EUR, and delivery takes 3 days.", True),
        ("lamp: 39.90 EUR, delivery in 3 days", "39.90 EUR, and delivery takes 3 days.", False),
        ("lamp: 39.90 EUR", "39.90 EUR. I could not find out how long delivery takes.", False),
    ],
)
async def test_the_reason_names_the_look_up_that_the_answer_needs_and_nothing_told(
    found: str, text: str, is_named: bool
) -> None:
    def price(item: str) -> str:
        """Return the price of an item."""
        return found

    def delivery_days(item: str) -> str:
        """Return how many days delivery takes."""
        return "12 days"

    llm = ScriptedLLM(call("price", item="lamp"), forever(answer(text)))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(price, delivery_days).build()
    result = await agent.run("What does the lamp cost, and how many days does delivery take?")
    assert (result.status, "Not called: delivery_days." in result.reason) == ("completed", is_named)


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


async def test_an_answer_that_is_a_call_is_not_said_to_be_without_one() -> None:
    result, _ = await run("Was kostet Alto?", answer('get_price({"item": "Alto"})'))
    assert result.reason == (
        "The model gave its final answer. The answer was a call of get_price written as text; it was run, "
        "and its result is the answer."
    )


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


async def pay(task: str, *turns: Turn, required: str = "") -> tuple[AgentResult, list[str]]:
    @tool
    def pay_invoice(number: str, amount: float = 0.0) -> str:
        """Pay an invoice."""
        return f"{number} is paid"

    @tool
    def get_order(order_id: str) -> str:
        """Look up an order by its number."""
        return f"Order {order_id}: 2 lamps, shipped on 3 May"

    recorder = EventRecorder()
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns[:-1], forever(turns[-1]))).with_reasoning()
    builder = builder.with_tools(pay_invoice, get_order)
    agent = (builder.with_required_tools(required) if required else builder).build()
    agent.subscribe(recorder)
    result = await agent.run(task)
    return result, [event.policy for event in recorder.of(GuidanceGiven)]


@pytest.mark.parametrize(
    "text",
    [
        "Please send me the invoice number",
        "Tell me the number of the invoice first. And the amount.",
        "I need the invoice number to pay it.",
        "You did not say which invoice you mean.",
        "Bitte nennen Sie mir zuerst die Rechnungsnummer.",
        "Merci de m'indiquer le numéro de la facture.",
        "Dime el número de la factura, por favor.",
    ],
)
@pytest.mark.parametrize("deliver", [say, answer])
async def test_a_request_for_what_the_task_lacks_is_accepted_when_repeated(
    text: str, deliver: Deliver
) -> None:
    result, asked = await pay("Pay the invoice.", deliver(text))
    assert (result.status, result.output) == ("completed", text)
    assert asked.count("required_tools") == 1
    assert result.metadata.model_calls <= 3
    held, _ = await pay("Pay the invoice.", deliver(text), required="pay_invoice")
    assert held.status == "partial"


@pytest.mark.parametrize(
    "text",
    [
        "Tell me if you need anything else.",
        "I need to check the invoice first.",
        "I need the status of the invoice first.",
        "Please wait while I pay it.",
        "Please give me a second.",
        "The invoice is paid. Please let me know if you need the receipt.",
    ],
)
@pytest.mark.parametrize("deliver", [say, answer])
async def test_what_asks_for_nothing_does_not_stand_for_a_required_call(text: str, deliver: Deliver) -> None:
    result, _ = await pay("Pay the invoice.", deliver(text))
    assert result.status == "partial"


async def test_in_its_only_turn_a_model_may_ask_for_what_it_lacks() -> None:
    @tool
    def get_price(item: str) -> str:
        """Get the price of an item."""
        return "5 EUR"

    def builder(text: str) -> ReactiveAgents:
        llm = ScriptedLLM(say(text))
        return ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(get_price)

    ask, announce = "I'll need to know your item first.", "I'll need to look at it first."
    for text, status in ((ask, "completed"), (announce, "partial")):
        result = await builder(text).with_max_iterations(1).build().run("Get the price.")
        assert (result.status, result.output) == (status, text)


@pytest.mark.parametrize("deliver", [say, answer])
async def test_an_act_for_a_part_of_a_list_does_not_stand_for_all(deliver: Deliver) -> None:
    task, both = "Pay invoices R-17 and R-18.", deliver("Both invoices are paid.")
    first, second = call("pay_invoice", number="R-17"), call("pay_invoice", number="R-18")
    result, asked = await pay(task, first, both)
    assert (result.status, result.metadata.terminated_by) == ("partial", "not_done")
    assert "no call for R-18 has worked" in result.reason
    assert asked.count("not_done") == 1
    assert (await pay(task, first, both, second, both))[0].status == "completed"
    honest, asked = await pay(
        task, first, deliver("R-17 is paid. R-18 was not paid, since it lacks an amount.")
    )
    assert ("not_done" in asked, honest.status) == (False, "completed")


@pytest.mark.parametrize("deliver", [say, answer])
async def test_an_act_on_another_thing_does_not_stand_for_the_ordered_one(deliver: Deliver) -> None:
    task, claim = "Pay invoice R-17.", deliver("Invoice R-17 is paid.")
    other, right = call("pay_invoice", number="R-18"), call("pay_invoice", number="R-17")
    result, asked = await pay(task, other, claim)
    assert (result.status, result.metadata.terminated_by) == ("partial", "not_done")
    assert "no call for R-17 has worked" in result.reason
    assert asked.count("not_done") == 1
    assert (await pay(task, other, claim, right, claim))[0].status == "completed"
    honest, asked = await pay(task, other, deliver("By mistake I paid R-18; R-17 is not paid."))
    assert ("not_done" in asked, honest.status) == (False, "completed")


@pytest.mark.parametrize(("level", "given"), [(75, 191.0), (1.5, 90.0), (20, 0.8), (90, 1.5708)])
async def test_a_value_may_be_given_in_another_unit(level: float, given: float) -> None:
    @tool(risk="medium")
    def set_level(level: float) -> str:
        """Set the level."""
        return "ok"

    llm = ScriptedLLM(call("set_level", level=given), forever(answer(f"The level is set to {level}.")))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(set_level).build()
    result = await agent.run(f"Set the level to {level}.")
    assert (result.status, result.metadata.model_calls) == ("completed", 2)


@pytest.mark.parametrize("deliver", [say, answer])
async def test_a_mail_to_somebody_else_does_not_stand_for_the_ordered_one(deliver: Deliver) -> None:
    task, claim = "Mail ann@x.org that we are closed.", deliver("Ann was told.")
    result, asked = await run(task, call("send_email", to="bob@x.org", body="closed"), claim)
    assert (result.status, "no call for ann@x.org has worked" in result.reason) == ("partial", True)
    assert asked.count("not_done") == 1
    result, asked = await run(task, call("send_email", to="Ann <ann@x.org>", body="closed"), claim)
    assert (result.status, "not_done" in asked) == ("completed", False)


@pytest.mark.parametrize("deliver", [say, answer])
@pytest.mark.parametrize(
    "text", ["Order 4711 was delivered on 9 May.", "It was shipped on 12 June.", "Order 4711: 214.80 EUR"]
)
async def test_figures_of_an_identifier_that_no_call_had_are_no_answer(text: str, deliver: Deliver) -> None:
    task, known = "When was order 4711 shipped?", "Order 4711 was shipped on 3 May."
    result, asked = await pay(task, deliver(text))
    assert (result.status, asked.count("left_out")) == ("partial", 1)
    assert "No call was made with 4711, which the answer is about." in result.reason
    mended, _ = await pay(task, deliver(text), call("get_order", order_id="4711"), deliver(known))
    assert (mended.status, mended.output) == ("completed", known)


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("Order 4711 was placed on 3 May and takes 10 days. When does it come?", "It should come on 13 May."),
        ("How do I return order 4711?", "Within 14 days, by post."),
        ("What can I do about order 4711?", "You have 14 days to return it."),
        ("What does error 404 mean?", "The page was not found; 410 means that it is gone."),
        ("Where is order 4711?", "I cannot tell: the number should have 8 digits."),
    ],
)
async def test_what_can_be_told_of_a_number_without_a_call_is_an_answer(task: str, text: str) -> None:
    result, _ = await pay(task, answer(text))
    assert result.output == text
    assert result.status in ("completed", "abstained")


@pytest.mark.parametrize("deliver", [say, answer])
@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("What is the status of order 4711?", "Done."),
        ("Wie ist der Stand der Bestellung 4711?", "Erledigt."),
        ("What is the status of order 4711?", "The status of order 4711."),
        (
            "What is the status of order 4711?",
            "You called no tool. If this is your answer, deliver it with final-answer. "
            "Otherwise make the call.",
        ),
    ],
)
async def test_a_question_is_not_answered_by_done_or_by_the_guidance(
    task: str, text: str, deliver: Deliver
) -> None:
    result, asked = await pay(task, deliver(text))
    assert (result.status, asked[0]) == ("partial", "empty_reply")


async def test_a_question_of_yes_or_no_is_answered_in_its_own_words() -> None:
    result, asked = await run(
        "Is the price of the lamp 39.90?", call("get_price", item="lamp"), answer(PRICED)
    )
    assert (result.status, result.output, "empty_reply" in asked) == ("completed", PRICED, False)


async def test_done_is_an_answer_after_a_call_and_to_an_order() -> None:
    for task in ("Can you pay invoice R-17?", "What about paying invoice R-17?"):
        result, asked = await pay(task, call("pay_invoice", number="R-17"), answer("Done."))
        assert (result.status, "empty_reply" in asked) == ("completed", False)


@pytest.mark.parametrize(
    "task",
    [
        "Look up the orders 1001, 1002 and 1003 and tell me the prices.",
        "What do the orders 1001 and 1002 cost?",
    ],
)
async def test_a_whole_number_that_was_not_looked_up_is_asked_about_once(task: str) -> None:
    @tool
    def get_order(order_id: int, limit: int = 5) -> str:
        """Get an order by its number."""
        return f"order {order_id}: {order_id - 990} EUR"

    numbers = [each for each in (1001, 1002, 1003) if str(each) in task]
    looked = [call("get_order", order_id=each) for each in numbers]
    claim = answer("; ".join(f"{each}: {each - 990} EUR" for each in numbers))
    for turns, is_asked in (((looked[0], claim, *looked[1:], claim), True), ((*looked, claim), False)):
        recorder = EventRecorder()
        builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        agent = builder.with_tools(get_order).build()
        agent.subscribe(recorder)
        result = await agent.run(task)
        asked = [event.text for event in recorder.of(GuidanceGiven) if event.policy == "left_out"]
        assert (result.status, len(asked)) == ("completed", is_asked)
        assert all("The task also names: 1002" in each for each in asked)


async def test_an_item_that_only_the_delivered_answer_names_was_not_looked_up() -> None:
    task, claim = (
        "What do the lamp, the desk and the sofa cost?",
        "Lamp 39.90, desk 39.90 and sofa 39.90 EUR.",
    )
    looked = [call("get_price", item=each) for each in ("lamp", "desk", "sofa")]
    result, asked = await run(task, *looked[:2], answer(claim), looked[2], answer(claim))
    assert (result.status, "left_out" in asked) == ("completed", True)


@pytest.mark.parametrize("found", [(), (call("get_price", item="tea"),)])
async def test_figures_that_a_model_keeps_without_a_source_are_named(found: tuple[Turn, ...]) -> None:
    invented = answer("Tea costs 7.75 euros and coffee 9.35 euros.")
    result, asked = await run("What do tea and coffee cost?", *found, invented)
    # with a result they may be worked out, before any call they are invented
    assert (result.status, "unsupported" in asked) == ("completed" if found else "partial", True)
    assert "These figures have no source: 7.75, 9.35." in result.reason


async def test_figures_that_were_found_are_not_named() -> None:
    seen = answer("Tea costs 39.90 euros.")
    for turns in ([seen], [answer("Tea costs 7.75 euros."), seen]):
        result, _ = await run("What does tea cost?", call("get_price", item="tea"), *turns)
        assert (result.status, "no source" in result.reason) == ("completed", False)


@tool(risk="high")
def cancel_orders(order_ids: str) -> str:
    """Cancel orders."""
    return "ok"


@tool(risk="high")
def cancel_range(first: int, last: int) -> str:
    """Cancel the orders of a range."""
    return "ok"


@pytest.mark.parametrize("deliver", [say, answer])
@pytest.mark.parametrize(
    ("made", "status"),
    [
        (call("cancel_orders", order_ids="1001-1003"), "completed"),
        (call("cancel_orders", order_ids="1001..1003"), "completed"),
        (call("cancel_range", first=1001, last=1003), "completed"),
        (call("cancel_orders", order_ids="1001,1003"), "partial"),
        (call("cancel_range", first=1001, last=1002), "partial"),
    ],
)
async def test_a_call_for_a_range_is_for_all_within_it(made: Turn, status: str, deliver: Deliver) -> None:
    llm = ScriptedLLM(made, forever(deliver("Orders 1001, 1002 and 1003 were cancelled.")))
    able = {each.name: each for each in (cancel_orders, cancel_range)}[made.calls[0].name]
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(able).build()
    result = await agent.run("Cancel orders 1001, 1002 and 1003.")
    assert (result.status, result.metadata.model_calls) == (status, 2 + (status == "partial"))


async def test_the_number_and_the_amount_of_a_call_are_no_range() -> None:
    @tool(risk="high")
    def pay_invoice(number: str, amount: float) -> str:
        """Pay an invoice."""
        return "ok"

    paid = forever(say("Invoices R-17 and R-18 have been paid."))
    llm = ScriptedLLM(call("pay_invoice", number="R-17", amount=120.0), paid)
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(pay_invoice).build()
    result = await agent.run("Pay invoices R-17 and R-18.")
    assert (result.status, result.metadata.terminated_by) == ("partial", "not_done")


@pytest.mark.parametrize("strategy", ["reactive", "direct"])
async def test_who_asks_for_confirmation_claims_nothing(strategy: str) -> None:
    @tool(risk="low")
    def get_order(order_id: int) -> str:
        """Get an order by its id."""
        return "total: 10.50"

    text = "Order 1001 has a total of 10.50. Before I cancel it, please confirm."
    llm = ScriptedLLM(
        call("get_order", order_id=1001), forever((say if strategy == "direct" else answer)(text))
    )
    agent = (
        ReactiveAgents.create().with_llm(llm).with_reasoning(strategy).with_tools(get_order, cancel_orders)
    )
    result = await agent.build().run("Look up order 1001 and cancel it.")
    assert (result.status, result.metadata.model_calls) == ("completed", 2)


@pytest.mark.parametrize("deliver", [say, answer])
@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("Set the price of tea to 4.20.", "The price of tea is set to 4.20."),
        ("Setze den Preis von Tee auf 4,20.", "Der Preis von Tee ist auf 4,20 gesetzt."),
        ("Raise the price of tea from 4.00 to 4.40 EUR, by 10%.", "Tea went from 4.00 to 4.40 EUR (+10%)."),
    ],
)
async def test_a_figure_that_the_order_gives_is_one(task: str, text: str, deliver: Deliver) -> None:
    @tool(risk="medium")
    def set_price(item: str, price: str) -> str:
        """Set the price of an item."""
        return "updated"

    llm = ScriptedLLM(call("set_price", item="tea", price="x"), forever(deliver(text)))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(set_price).build()
    result = await agent.run(task)
    assert (result.status, result.metadata.model_calls) == ("completed", 2)


@pytest.mark.parametrize("deliver", [say, answer])
async def test_the_sender_of_a_mail_needs_no_call(deliver: Deliver) -> None:
    sent = call("send_email", to="bob@x.org", body="The invoice.")
    text = "The invoice from ann@x.org was forwarded to bob@x.org."
    result, asked = await run("Forward the invoice from ann@x.org to bob@x.org.", sent, deliver(text))
    assert (result.status, asked) == ("completed", [])


async def test_what_an_earlier_turn_of_the_conversation_did_is_not_left() -> None:
    first = call("cancel_orders", order_ids="1001"), answer("Order 1001 was cancelled.")
    second = (
        call("cancel_orders", order_ids="1003"),
        forever(answer("Orders 1001 and 1003 are cancelled now.")),
    )
    llm = ScriptedLLM(*first, *second)
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(cancel_orders).build()
    await agent.run("Cancel order 1001.", session="s")
    result = await agent.run("Cancel the orders 1001 and 1003.", session="s")
    assert (result.status, result.metadata.model_calls) == ("completed", 2)


async def test_an_address_that_a_call_of_the_conversation_had_is_not_asked_about() -> None:
    first = call("send_email", to="ann@x.org", body="Closed."), answer("Sent to ann@x.org.")
    claim = answer("The mail was sent to ann@x.org and bob@x.org.")
    llm = ScriptedLLM(*first, call("send_email", to="bob@x.org", body="Closed."), forever(claim))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(send_email).build()
    await agent.run("Mail ann@x.org that we are closed.", session="s")
    result = await agent.run("The mail has to go to ann@x.org and bob@x.org. Send it.", session="s")
    assert (result.status, result.metadata.model_calls) == ("completed", 2)


@pytest.mark.parametrize("deliver", [say, answer])
@pytest.mark.parametrize("ids", [(1001, 1002, 1003), ("1001", "1002", "1003")])
async def test_a_number_sign_is_no_part_of_a_number(ids: tuple[int | str, ...], deliver: Deliver) -> None:
    @tool(risk="high")
    def cancel_order(order_id: str | int) -> str:
        """Cancel an order."""
        return "ok"

    made = [call("cancel_order", order_id=each) for each in ids]
    llm = ScriptedLLM(*made, forever(deliver("Orders #1001, #1002 and #1003 of customer 9 were cancelled.")))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(cancel_order).build()
    result = await agent.run("Cancel the orders #1001, #1002, and #1003 of customer 9.")
    assert (result.status, result.metadata.model_calls) == ("completed", 4)


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("Extract the addresses as JSON: Ann (ann@x.org), Bob (bob@x.org)", '["ann@x.org", "bob@x.org"]'),
        ("Correct the grammar: 'He send mail to ann@x.org.'", "He sent a mail to ann@x.org."),
    ],
)
async def test_an_address_in_given_data_needs_no_call(task: str, text: str) -> None:
    result, asked = await run(task, answer(text))
    assert (result.status, "not_done" not in asked) == ("completed", True)


@pytest.mark.parametrize("deliver", [say, answer])
async def test_a_figure_of_the_data_in_a_task_is_an_answer(deliver: Deliver) -> None:
    data = "\n".join(f"lamp {number}: total {number - 990}.50 EUR" for number in range(1001, 1012))
    task = f"{data}\n\nWhat is the total of lamp 1004?"
    result, _ = await run(task, deliver("The total of lamp 1004 is 14.50 EUR."))
    assert (result.status, result.metadata.model_calls <= 2) == ("completed", True)


@pytest.mark.parametrize(
    ("lamp", "said", "is_asked"),
    [
        ("39.90 EUR", "49.90 EUR", True),  # by the number of turns in the instructions
        ("39.90 EUR", "39.90 EUR", False),
        ("39.90 EUR, 0 in stock", "57.35 EUR", True),
        ("47005 EUR", "About 47,005 EUR", False),
    ],
)
async def test_the_number_of_turns_and_zero_are_no_source(lamp: str, said: str, is_asked: bool) -> None:
    @tool
    def look_up(item: str) -> str:
        """Get the price of an item."""
        return lamp

    llm, recorder = ScriptedLLM(call("look_up", item="lamp"), forever(answer(said))), EventRecorder()
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(look_up).build()
    agent.subscribe(recorder)
    result = await agent.run("What does a lamp cost?")
    asked = [event.policy for event in recorder.of(GuidanceGiven)]
    assert asked == (["unsupported"] if is_asked else [])
    assert ("no source" in result.reason) == is_asked
