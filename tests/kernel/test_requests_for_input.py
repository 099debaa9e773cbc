"""Answers that ask the user for what is missing, in the forms of questions, orders and statements."""

from __future__ import annotations

import pytest

from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.clauses import asks_back
from tests.support.operations import assert_linear


def tool(name: str, *parameters: str) -> ToolDefinition:
    return ToolDefinition(name, name, {"type": "object", "properties": {each: {} for each in parameters}})


TOOLS = (
    tool("book_flight", "date", "passenger"),
    tool("get_order", "order_id"),
    tool("pay_invoice", "number", "amount"),
    tool("get_price", "item"),
    tool("send_mail", "to", "subject", "body"),
    tool("final-answer", "answer"),
)
REQUESTS = """
Which date?
Tell me the date first.
I need your order number to look that up.
Please send me the invoice number
Please send the invoice number to me.
Sure, let me know when you want to fly.
Could you please provide the passenger's name.
If you tell me the date, I can book it.
I'd be glad to. Just give me the order number.
To continue, please specify the amount.
You didn't say which invoice you mean.
You have not told me the date.
I need the date and the passenger's name.
I still need the order number.
I only need to know the date.
I'd need the date before I can book anything.
The date is missing.
I'm missing the name of the passenger.
Name the passenger, please.
Bitte nennen Sie mir das Datum.
Nenne mir bitte zuerst das Datum.
Teilen Sie mir bitte die Bestellnummer mit.
Geben Sie bitte die Rechnungsnummer an.
Ich brauche noch Ihre Bestellnummer.
Dafür benötige ich noch dein Reisedatum.
Schick mir die Rechnungsnummer.
Indiquez-moi la date.
Veuillez me préciser la date du voyage.
Merci de m'indiquer le numéro de commande.
J'ai besoin de votre numéro de commande.
Il me faut votre numéro de commande.
Dis-moi la date.
Dime la fecha.
Por favor, indícame la fecha.
Indíqueme el número del pedido, por favor.
Necesito saber tu fecha de viaje.
Me falta su número de pedido.
Dimmi la data.
Mi serve il tuo numero d'ordine.
Por favor, informe a data.
Geef mij de datum.
Laat me weten welke datum je wilt.
Proszę podać datę.
Укажите, пожалуйста, дату.
请告诉我日期。
日付を教えてください。
"""
NO_REQUESTS = """
Shall I go on?
Can I help you with anything else?
Tell me if you need anything else.
Let me know if I can help with anything else.
Please let me know if you need the receipt.
I need to check the order first.
I need the order status to answer.
I need the price of the item first.
I need the total of order 4711.
I need the order.
Please wait while I look it up.
Please give me a second.
Give me a moment, please.
I need a moment to look that up.
I need a minute.
First I need to call get_order.
Please note that it was refunded.
Please hold on.
You need to be there at nine.
The order is on its way. Send me a message if it is late.
It was shipped on 3 May.
Your order is missing a lamp, which is refunded.
The names are given in the list.
She told me the date.
It shows the date and the amount.
Let me look up the order.
Let us see the order first.
The label says "Tell me the date".
Ich brauche einen Moment.
Bitte warten Sie einen Augenblick.
Ich muss zuerst die Bestellung prüfen.
Ich brauche zuerst den Preis der Lampe.
Sagen Sie mir Bescheid, wenn Sie etwas brauchen.
Geben Sie mir bitte einen Moment.
J'ai besoin de vérifier la commande d'abord.
Dites-moi si vous avez besoin d'autre chose.
Donnez-moi un instant.
Necesito comprobar el pedido primero.
Dime si necesitas algo más.
Dame un momento.
Necesito revisarlo.
Dimmi se ti serve altro.
Un momento, por favor.
Laat me even kijken.
请稍等。
少々お待ちください。
I will send you the invoice.
I sent you the date.
"""
NEEDS = """
I need the order status to answer.
Ich brauche zuerst den Preis der Lampe.
Dafür brauche ich die Rechnungsnummer.
J'ai besoin de la facture.
Necesito la fecha.
"""


@pytest.mark.parametrize("text", REQUESTS.strip().splitlines())
def test_an_answer_asks_for_what_is_missing(text: str) -> None:
    assert asks_back(text, "Do it.", TOOLS)
    assert asks_back(f"R-17 is paid. {text}", "Do it.", TOOLS)


@pytest.mark.parametrize("text", NO_REQUESTS.strip().splitlines())
def test_an_announcement_and_an_offer_ask_for_nothing(text: str) -> None:
    assert not asks_back(text, "Do it.", TOOLS)


@pytest.mark.parametrize("text", NEEDS.strip().splitlines())
def test_what_a_tool_may_look_up_is_asked_for_only_if_no_tools_are_given(text: str) -> None:
    assert asks_back(text, "Do it.")
    assert not asks_back(text, "Do it.", TOOLS)


def test_what_the_task_mentions_is_not_missing() -> None:
    draft = "Hi Bo, please send me the invoice number."
    assert asks_back(draft, "Pay the invoice.", TOOLS)
    assert not asks_back(draft, "Send an email to Bo asking for the invoice number.", TOOLS)


def test_a_long_text_asks_only_by_the_question_at_its_end() -> None:
    letter = f"Tell me the date. {'The flight is booked for one person. ' * 8}"
    assert not asks_back(letter, "Do it.", TOOLS)
    assert asks_back(f"{letter}Which date?", "Do it.", TOOLS)


def test_the_work_is_linear_in_the_length_of_a_text() -> None:
    assert_linear(lambda size: asks_back("send to me, give us " * 2 + "x" * size, "Do it.", TOOLS), 200)
    assert_linear(lambda size: asks_back("please tell me. " * size, "Do it.", TOOLS), 40)
