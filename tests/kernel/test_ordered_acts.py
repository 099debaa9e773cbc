"""Acts that a task orders: what no call did is not taken for done, and honest answers are not asked about."""

from __future__ import annotations

import pytest

from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel import ordered_acts
from reactive_agents.kernel.clauses import takes_named
from reactive_agents.kernel.ordered_acts import (
    CompletedCall,
    act_left,
    claimed_act_left,
    echoed_order_left,
    parts_left,
    replaced_left,
    tool_verb_left,
    values_left,
)
from tests.support.operations import assert_linear


def tool(name: str, description: str, *parameters: str) -> ToolDefinition:
    return ToolDefinition(
        name, description, {"type": "object", "properties": {each: {} for each in parameters}}
    )


TOOLS = (
    tool("get_order", "Look up an order by its number.", "order_id"),
    tool("refund", "Refund an amount in EUR to the customer of an order.", "order_id", "amount"),
    tool("cancel_order", "Cancel an order.", "order_id"),
    tool("send_mail", "Send an email.", "to", "subject", "body"),
    tool("search_flights", "Search flights.", "origin"),
    tool("book_flight", "Book a flight for a passenger.", "flight", "passenger"),
    tool("write_file", "Write a text file.", "path", "content"),
    tool("delete_file", "Delete a file.", "path"),
    tool("create_event", "Create a calendar event.", "title"),
    tool("transfer", "Transfer money to an account.", "to", "amount"),
    tool("remind", "Set a reminder.", "text"),
    tool("post_message", "Post a message to a channel.", "channel"),
    tool("order_item", "Order an item from the shop.", "item"),
    tool("update_ticket", "Update a ticket.", "id"),
    tool("close_ticket", "Close a ticket.", "id"),
    tool("run_shell", "Run a shell command.", "command"),
    tool("ask_agent", "Ask the billing agent to do something.", "task"),
    tool("schedule_meeting", "Schedule a meeting.", "title"),
)
DONE_BY_NONE = (
    ("Refund order 4711.", "Order 4711 has been refunded."),
    ("Refund order 4711.", "Done."),
    ("Refund order 4711.", "Refund order 4711."),
    ("Transfiere 50 euros a Marta.", "Sí, la transferencia a Marta está hecha."),
    ("Please cancel order 4711 and refund it.", "Order 4711 is cancelled and refunded."),
    ("Can you cancel order 4711 for me?", "Your order 4711 has been cancelled."),
    ("I'd like to cancel order 4711.", "I've cancelled order 4711 for you."),
    ("Storniere die Bestellung 4711 bitte.", "Ich habe die Bestellung 4711 storniert."),
    ("Könntest du bitte die Bestellung 4711 stornieren?", "Die Bestellung 4711 wurde storniert."),
    ("Bitte einen Flug nach Rom buchen.", "Der Flug nach Rom ist gebucht."),
    ("Annule la commande 4711, s'il te plaît.", "La commande 4711 a été annulée."),
    ("Peux-tu annuler la commande 4711 ?", "C'est fait, la commande 4711 est annulée."),
    ("Cancela el pedido 4711.", "El pedido 4711 ha sido cancelado."),
    ("¿Puedes cancelar el pedido 4711?", "He cancelado el pedido 4711."),
    ("Annulla l'ordine 4711.", "L'ordine 4711 è stato annullato."),
    ("Cancele o pedido 4711.", "O pedido 4711 foi cancelado."),
    ("Annuleer bestelling 4711.", "Bestelling 4711 is geannuleerd."),
    ("Anuluj zamówienie 4711.", "Zamówienie 4711 zostało anulowane."),
    ("Отмени заказ 4711.", "Заказ 4711 отменён."),
    ("取消订单4711。", "订单4711已取消。"),
    ("注文4711をキャンセルしてください。", "注文4711をキャンセルしました。"),
    ("Delete the file report.txt.", "The file report.txt has been deleted."),
    ("Lösche die Datei report.txt.", "Die Datei report.txt wurde gelöscht."),
    ("Create a calendar event for lunch on Friday.", "I've created the event for lunch on Friday."),
    ("Close ticket 12.", "Ticket 12 has been closed."),
    ("Update ticket 7 with the new address.", "I have updated ticket 7 with the new address."),
    ("Schedule a meeting with Bo on Friday.", "The meeting with Bo is scheduled for Friday."),
    (
        "Book a flight to Rome for Ana.",
        "Your flight to Rome is booked. Reference ABC123. No further action is needed.",
    ),
    ("Look up order 4711, then cancel it.", "Order 4711: 2 lamps. It has been cancelled."),
    ("Draft a short apology and send it to ana@x.org.", "I have drafted the apology and sent it."),
    ("Save the sum as total.txt.", "I saved the sum as total.txt."),
    ("Transfer 50 EUR to Max.", "50 EUR have been transferred to Max."),
    ("Order two lamps.", "I ordered two lamps for you."),
    ("Order 3 lamps if at least 3 are in stock.", "3 lamps were in stock, so I ordered 3."),
    ("Wenn die Bestellung 4711 bezahlt ist, storniere sie.", "Sie war bezahlt, und ich habe sie storniert."),
    ("Post 'Hello' in #general.", "I posted 'Hello' in #general."),
    ("Send the report to Ana by email.", "I looked at the order and sent the email to Ana."),
    ("Überweise 50 EUR an Max.", "Es sind 50 EUR an Max überwiesen."),
    ("Write the sum to total.txt.", "I wrote the sum to total.txt."),
)
HONEST = (
    ("Explain how refunds work.", "Refunds are paid within 14 days after the item was returned.", "", ""),
    (
        "Explain the refund and cancel policy.",
        "Orders are refunded within 14 days; they can be cancelled until they are shipped.",
        "",
        "",
    ),
    (
        "What is the status of order 4711?",
        "Order 4711 was refunded on 2 May.",
        "get_order",
        "Order 4711: refunded 2 May",
    ),
    (
        "Has order 4711 been refunded?",
        "Yes, it was refunded on 2 May.",
        "get_order",
        "Order 4711: refunded 2 May",
    ),
    (
        "Refund order 4711.",
        "Order 4711 has already been refunded on 2 May.",
        "get_order",
        "Order 4711: refunded 2 May",
    ),
    (
        "Storniere Bestellung 4711.",
        "Die Bestellung 4711 wurde bereits am 2. Mai storniert.",
        "get_order",
        "Order 4711: storniert am 2. Mai",
    ),
    (
        "Refund order 4711 if it was not shipped.",
        "Order 4711 was shipped, so it stays as it is.",
        "get_order",
        "Order 4711 shipped",
    ),
    (
        "Wenn die Bestellung 4711 nicht verschickt ist, storniere sie.",
        "Die Bestellung 4711 ist verschickt.",
        "get_order",
        "Order 4711: shipped",
    ),
    (
        "Look up order 4711. Do not refund it.",
        "Order 4711 was paid and shipped.",
        "get_order",
        "Order 4711 paid, shipped",
    ),
    (
        "Draft an email to Ana saying that her order was cancelled and refunded.",
        "Dear Ana, your order was cancelled and the amount refunded.",
        "",
        "",
    ),
    (
        "Write a short story in which Ada cancels her flight and books another.",
        "Ada cancelled her flight and booked another.",
        "",
        "",
    ),
    (
        "Translate 'Book a flight and cancel the order' into German.",
        "Buche einen Flug und storniere die Bestellung.",
        "",
        "",
    ),
    (
        "Translate into French: Send the invoice, cancel the order and refund the customer.",
        "Envoyez la facture, annulez la commande et remboursez le client.",
        "",
        "",
    ),
    (
        "Summarise: I booked a flight, then cancelled it and was refunded.",
        "The flight was booked, cancelled and refunded.",
        "",
        "",
    ),
    ("Suggest a subject line for a mail about a cancelled order.", "Your order has been cancelled", "", ""),
    ("Refund order 4711.", "I could not refund order 4711: there is no such order.", "get_order", ""),
    ("Refund order 4711.", "Which amount should I refund?", "", ""),
    ("Book a flight to Rome.", "From which city would you like to fly, and when?", "", ""),
    (
        "Find the cheapest flight to Rome and suggest one; I book it myself.",
        "BA117 at 148 EUR is the cheapest.",
        "search_flights",
        "BA117 148",
    ),
    (
        "Find flights to Rome and tell me which I should book.",
        "I suggest BA117, which can be booked for 148 EUR.",
        "search_flights",
        "BA117 148",
    ),
    ("Refund order 4711.", "Order 4711 has been refunded.", "ask_agent", "Done, 49.90 given back"),
    ("Delete report.txt.", "I deleted report.txt.", "run_shell", ""),
    ("Delete the third word: lamp desk chair pen", "I deleted it: lamp desk pen", "", ""),
    ("Delete every second word of Alpha Beta Gamma.", "I removed every second word: Alpha Gamma", "", ""),
    ("Remove the duplicates from a, b, a.", "With the duplicates removed: a, b", "", ""),
    (
        "Write a poem about a cancelled flight.",
        "I have written a poem: The board has changed, the flight is gone.",
        "",
        "",
    ),
    ("Create a list of five animals.", "I created this list: cat, dog, cow, pig, hen", "", ""),
    ("Create a table of events in Rome.", "I created the table below.", "", ""),
    (
        "Send me the total of order 4711.",
        "The total is 49.90 EUR. I sent you what I found.",
        "get_order",
        "total 49.90",
    ),
    (
        "Tell me the price and send my regards to Bob.",
        "The price is 5 EUR. Regards to Bob!",
        "get_order",
        "5 EUR",
    ),
    ("Order these words by length: lamp, desk.", "lamp, desk", "", ""),
    ("Order 4711 is late. Where is it?", "It was shipped on 3 May.", "get_order", "shipped 3 May"),
    (
        "Order 4711 is late. Tell me its status.",
        "It was ordered on 2 May and shipped on 3 May.",
        "get_order",
        "ordered 2 May, shipped 3 May",
    ),
    ("Cancel my newsletter?", "I can cancel orders. Which one do you mean?", "", ""),
    ("Remind me what order 4711 contains.", "It contains two lamps.", "get_order", "2 lamps"),
    ("I booked a flight yesterday. How long does it take to Rome?", "About two hours.", "", ""),
    (
        "My order was cancelled and refunded. Why?",
        "It was cancelled because the item was sold out.",
        "get_order",
        "cancelled: sold out",
    ),
    ("Reserva de hotel: ¿qué significa?", "Es cuando una habitación queda reservada.", "", ""),
    ("¿Cómo cancelo un pedido?", "El pedido queda cancelado al pulsar el botón.", "", ""),
    (
        "Erkläre, wie man eine Bestellung storniert.",
        "Man klickt auf Stornieren, dann ist sie storniert.",
        "",
        "",
    ),
    (
        "Was passiert, wenn ich Bestellung 4711 storniere?",
        "Dann wird der Betrag erstattet.",
        "get_order",
        "paid",
    ),
    ("Quelle est la politique de remboursement ?", "Les commandes sont remboursées sous 14 jours.", "", ""),
    ("取消政策是什么", "订单在24小时内可以取消。", "", ""),
    ("订单4711取消了吗", "订单4711已取消。", "get_order", "4711 已取消"),
    (
        "Refund order 4711 and email ana@x.org.",
        "I refunded order 4711 and emailed ana@x.org.",
        "refund send_mail",
        "Refunded; Sent",
    ),
    ("Cancel order 55. Actually, don't.", "Order 55 stays as it is.", "", ""),
    ("Can you book flights?", "Yes, I search and book flights. Tell me where you want to go.", "", ""),
    ("Could you book me a flight to Rome?", "Sure. When do you want to fly?", "", ""),
    (
        "Please check whether the flight was booked.",
        "Yes, LH902 is booked for Ana.",
        "get_order",
        "LH902 booked for Ana",
    ),
    (
        "Compare booking a flight with taking the train.",
        "A flight is booked in minutes; the train is cheaper.",
        "",
        "",
    ),
    (
        "Give me the steps to cancel an order and get it refunded.",
        "1. Open it. 2. Press cancel. 3. The amount is refunded.",
        "",
        "",
    ),
    ("Post a question about bees: title 'Bees'", "Posted: Bees.", "post_message", "ok"),
    ("Schedule for my day, please: gym, work, dinner.", "Gym 8, work 9, dinner 19.", "", ""),
    ("Update me on ticket 7.", "Ticket 7 was updated on 2 May.", "get_order", "Ticket 7: last change 2 May"),
    ("Close the sentence with a full stop: I am here", "I am here.", "", ""),
    ("Open question: what is love?", "A feeling.", "", ""),
    ("Cancel culture in one sentence, please.", "People are boycotted for what they said.", "", ""),
    ("Book recommendations about Rome.", "SPQR by Mary Beard.", "", ""),
    ("Text of the anthem, please.", "O say can you see...", "", ""),
    ("Pay attention to the dates and list them: 2 May, 3 May.", "2 May and 3 May.", "", ""),
    ("Transfer the numbers into a table: 1, 2, 3", "| 1 | 2 | 3 |", "", ""),
    (
        "Transfer learning in two sentences, please.",
        "A model is trained on one task and used for another.",
        "",
        "",
    ),
    ("Send a thank-you in one line.", "Thank you so much!", "", ""),
    ("Mail merge: what is it", "A way to send one letter to many people.", "", ""),
    ("Paga mínima en España 2026", "El salario mínimo es de 1184 euros.", "", ""),
    ("Overweeg of ik moet annuleren.", "Annuleren is gratis tot morgen.", "", ""),
    ("Reserve Bank of India: who leads it?", "A governor.", "", ""),
    ("Restart from the beginning and count to 3.", "1, 2, 3", "", ""),
    (
        "Send a GET request to example.com/status.",
        "I sent a GET request; it returned 200.",
        "get_order",
        "200",
    ),
    ("Cancel the meeting with Bo.", "The meeting is cancelled.", "", ""),
    (
        "Cancel order 4711.",
        "Order 4711 was already cancelled by the customer.",
        "get_order",
        "Order 4711: closed",
    ),
    ("Pay all open invoices.", "All invoices are already paid.", "get_order", "[]"),
    ("Book a flight to Rome.", "Please tell me the date and the name of the passenger.", "", ""),
    ("Buche einen Flug nach Rom.", "Bitte nennen Sie mir das Datum und den Namen.", "", ""),
    ("Réserve un vol pour Rome.", "Veuillez m'indiquer la date et le nom.", "", ""),
    ("Reserva un vuelo a Roma.", "Por favor, indícame la fecha.", "", ""),
    ("Book a flight to Rome for Ana.", "All flights to Rome are sold out.", "search_flights", "sold out"),
    ("Refund order 4711.", "The refund needs to be approved by a manager.", "get_order", "paid"),
    ("Refund order 4711.", "I need the reason for it first.", "get_order", "paid"),
    ("Refund order 4711.", '{"refunded": false, "reason": "closed"}', "get_order", "closed"),
    ("Delete unused imports in app.py.", "I removed two unused imports.", "run_shell", "ok"),
    ("Create a short agenda for the meeting.", "I created this agenda: welcome, budget, end.", "", ""),
    ("Rename the function foo to bar: def foo(): pass", "I renamed it: def bar(): pass", "", ""),
    ("Restart the game, please.", "A new game: guess my number!", "", ""),
    ("Close the brackets in this line: f(g(x", "I closed them: f(g(x))", "", ""),
    ("Open with a greeting and close with a wish.", "Hello! I opened warmly; have a nice day.", "", ""),
    ("Post-process the list 3, 1, 2 by sorting it.", "1, 2, 3", "", ""),
    ("Save me from boredom with a joke.", "Why did the chicken cross the road?", "", ""),
    ("Change the tense of 'I go' to the past.", "I changed it: I went", "", ""),
    (
        "Update the sentence to British spelling, please. My favorite color.",
        "Updated: my favourite colour.",
        "",
        "",
    ),
    ("Submit.", "Submitted.", "", ""),
    (
        "Order 3 lamps if at least 5 are in stock.",
        "3 are in stock, so nothing was ordered.",
        "get_order",
        "3",
    ),
    ("If order 4711 is late, cancel it.", "It comes on time, so I kept it.", "get_order", "on time"),
    (
        "When is a booking cancelled and refunded?",
        "It is cancelled after 24 hours, and then refunded.",
        "",
        "",
    ),
    (
        "Si je commande deux lampes, combien cela coûte ?",
        "Les lampes commandées coûtent 20 euros.",
        "get_order",
        "10 euros",
    ),
    ("If you booked a flight for me, what would it cost?", "It would cost 148 EUR.", "search_flights", "148"),
    (
        "Tell me when the order is cancelled.",
        "Order 4711 was cancelled today.",
        "get_order",
        "state: CANCELLED",
    ),
    (
        "When you cancel an order, the customer is refunded, right?",
        "Right, the customer is refunded.",
        "",
        "",
    ),
    (
        "Summarise what happens when orders are cancelled and refunded.",
        "Cancelled orders are refunded in 14 days.",
        "",
        "",
    ),
    ("Se cancello l'ordine, cosa succede?", "L'ordine viene cancellato e rimborsato.", "", ""),
    (
        "Refund order 4711, the lamp was broken.",
        "Refunds over 100 EUR go to a colleague, who will answer today.",
        "get_order",
        "140 EUR",
    ),
    (
        "Book the cheapest flight to Rome below 100 EUR.",
        "The cheapest flight costs 148 EUR, which is above 100 EUR.",
        "search_flights",
        "BA117 148",
    ),
    (
        "Bitte buche den günstigsten Flug nach Rom unter 100 Euro.",
        "Der günstigste Flug kostet 148 Euro.",
        "search_flights",
        "BA117 148",
    ),
    (
        "Réserve le vol le moins cher à moins de 100 euros.",
        "Le vol le moins cher coûte 148 euros.",
        "search_flights",
        "BA117 148",
    ),
    ("Transfer 50 EUR to Max.", "The account has 20 EUR, so the transfer is on hold.", "get_order", "20 EUR"),
    ("Je voudrais annuler ma commande 4711.", "Elle peut encore être annulée.", "get_order", "not shipped"),
    (
        "Plan: 1. write the mail, 2. send it, 3. archive it. Is the order right?",
        "Yes: write, send, archive.",
        "",
        "",
    ),
    (
        "She writes:\n\nHello, I ordered two lamps. Please send an email and refund them.\n\nSummarise it.",
        "She wants an email sent and the lamps refunded.",
        "",
        "",
    ),
    (
        "Rate the answer.\nCustomer: Please cancel order 4711. Send an email to ana@x.org.\nAgent: Done.",
        "3 of 5: it was cancelled, and the email was sent late.",
        "",
        "",
    ),
    (
        "注文4711はキャンセルされましたか？",
        "はい、注文4711はキャンセルされました。",
        "get_order",
        "cancelled",
    ),
    (
        "Summarise this. Book a flight for Ana and send an email.",
        "A flight is booked for Ana, and an email sent.",
        "",
        "",
    ),
    (
        "Kannst du mir sagen, wie ich eine Bestellung storniere?",
        "Im Konto; dann ist sie storniert.",
        "",
        "",
    ),
    ("Paid the invoice yesterday by transfer. Thanks!", "You are welcome, it was paid in time.", "", ""),
    ("Do not cancel order 4711.", "It was cancelled by the customer.", "", ""),
    ("Cancel it. " + "Some words on an order. " * 90, "It was cancelled by the customer.", "", ""),
    ("Cancel order 4711?", "Order 4711 was cancelled by the customer.", "", ""),
)
"""A task, its answer, the tools that were called, and a result."""


@pytest.mark.parametrize(("task", "text"), DONE_BY_NONE)
def test_an_ordered_act_that_no_call_did_is_left(task: str, text: str) -> None:
    assert act_left(task, text, TOOLS, {"get_order"}, ["Order 4711: 2 lamps, on its way"])


@pytest.mark.parametrize(
    ("task", "text", "named"),
    [
        ("Suche einen Zug und buche ihn.", "Der Zug ist gebucht.", tool("fahrkarte_buchen", "Kauft etwas.")),
    ],
)
def test_what_a_tool_does_is_known_by_any_word_of_its_name(
    task: str, text: str, named: ToolDefinition
) -> None:
    assert act_left(task, text, (TOOLS[0], named), {"get_order"}, ["found"]) == (named.name,)


@pytest.mark.parametrize(("task", "text"), DONE_BY_NONE)
def test_an_act_of_no_tool_or_of_a_called_one_is_not_left(task: str, text: str) -> None:
    (*names,) = act_left(task, text, TOOLS, set(), [])
    assert not act_left(task, text, TOOLS, {each.name for each in TOOLS}, [])
    others = [each for each in TOOLS if each.name not in names]
    assert not set(names) & set(act_left(task, text, others, set(), []))


@pytest.mark.parametrize(("task", "text", "called", "result"), HONEST)
def test_an_honest_answer_leaves_nothing(task: str, text: str, called: str, result: str) -> None:
    assert act_left(task, text, TOOLS, set(called.split()), [result] if result else []) == ()


def test_what_follows_something_else_counts_where_an_answer_speaks_of_that_alone() -> None:
    text, found = "The cheapest flight is BA117 at 148 EUR.", ["BA117 148"]
    assert act_left("Find the cheapest flight and book it.", text, TOOLS, {"search_flights"}, found)
    assert not act_left("Book the cheapest flight.", text, TOOLS, {"search_flights"}, found)
    assert not act_left("Book the cheapest flight.", text, TOOLS, {"search_flights"}, [])
    assert act_left("Book the cheapest flight.", "Done.", TOOLS, {"search_flights"}, found)


def test_of_several_tools_for_an_act_each_is_named_and_each_may_do_it() -> None:
    both = (tool("send_mail", "Send an email.", "to"), tool("send_sms", "Send a text message.", "to"))
    order, text = "Send Ana a message.", "I sent it."
    assert act_left(order, text, both, set(), []) == ("send_mail", "send_sms")
    assert act_left(order, text, both, {"send_sms"}, []) == ()


@pytest.mark.parametrize("doubt", ["Only if she asks.", "Or wait.", "But not today.", "Actually, forget it."])
def test_where_an_act_may_not_be_meant_only_a_claim_counts(doubt: str) -> None:
    order = "Refund order 4711 now."
    assert act_left(order, "Done.", TOOLS, set(), [])
    assert not act_left(f"{order} {doubt}", "Done.", TOOLS, set(), [])
    assert act_left(f"{order} {doubt}", "It was refunded.", TOOLS, set(), [])


@pytest.mark.parametrize(
    "text",
    [
        "For the refund I need a reason.",
        "Please tell me the amount.",
        "Dafür brauche ich noch den Betrag.",
        "Merci de m'indiquer le montant.",
        "Necesito saber el importe.",
    ],
)
def test_an_answer_that_asks_for_what_an_act_needs_leaves_nothing_out(text: str) -> None:
    order, found = "Look up order 4711 and refund it.", ["Order 4711: 2 lamps"]
    assert act_left(order, "Order 4711 has two lamps.", TOOLS, {"get_order"}, found)
    assert not act_left(order, f"Order 4711 has two lamps. {text}", TOOLS, {"get_order"}, found)


def test_an_act_that_is_only_announced_is_left() -> None:
    assert act_left("Refund order 4711.", "Please wait, I will refund it now.", TOOLS, set(), [])
    assert not act_left(
        "Refund order 4711.", "I will refund it once you tell me the amount.", TOOLS, set(), []
    )


PARTS = (
    tool("pay_invoice", "Pay an invoice.", "number", "amount"),
    tool("list_invoices", "List invoices.", "status"),
    tool("delete_user", "Delete a user account.", "user"),
    tool("cancel_subscription", "Cancel a subscription.", "customer"),
    tool("cancel_meeting", "Cancel a meeting.", "person"),
    tool("water_plant", "Water a plant.", "plant"),
    tool("sms_senden", "Sendet eine SMS.", "kunde"),
    tool("run_shell", "Run a shell command.", "command"),
)
PAY = "Pay invoices R-17 and R-18."
SMS = "Schicke Anna Beck und Eva Holm eine SMS."


def made(*calls: str) -> list[CompletedCall]:
    """Return calls that worked, each written as its tool and its argument."""
    named = [call.split(" ", 1) for call in calls]
    return [
        CompletedCall(name, {"number": (value,), "amount": ("1",)}, f"{name} {value}: ok")
        for name, value in named
    ]


@pytest.mark.parametrize(
    ("task", "text", "call", "left"),
    [
        (PAY, "Both invoices are paid.", "pay_invoice R-17", "R-18"),
        (PAY, "R-17 and R-18 are paid.", "pay_invoice R-17", "R-18"),
        (PAY, "R-17 and R-18 are paid.", "pay_invoice R-18", "R-17"),
        (PAY, "I paid R-17 (120 EUR) and R-18 (75 EUR).", "pay_invoice R-17", "R-18"),
        (PAY, "Invoice R-17 was paid. Invoice R-18 was paid.", "pay_invoice R-17", "R-18"),
        ("Lösche die Benutzer jdoe und asmith.", "Beide wurden gelöscht.", "delete_user jdoe", "asmith"),
        ("Paie les factures R-17 et R-18.", "R-17 et R-18 sont payées.", "pay_invoice R-17", "R-18"),
        ("Paga las facturas R-17 y R-18.", "Las dos están pagadas.", "pay_invoice R-17", "R-18"),
        (
            "Cancel the subscriptions of Meyer and Okafor.",
            "The subscriptions of Meyer and Okafor are cancelled.",
            "cancel_subscription Meyer",
            "Okafor",
        ),
        ("Water the fern and the ivy.", "I watered the fern and the ivy.", "water_plant fern", "ivy"),
        ("Water the fern and the ivy.", "The fern and the ivy are watered.", "water_plant fern", "ivy"),
        ("Pay PO 41 and PO 42.", "PO 41 and PO 42 are paid.", "pay_invoice 41", "PO 42"),
        (SMS, "Ich habe Anna Beck und Eva Holm informiert.", "sms_senden Anna Beck", "Eva Holm"),
    ],
)
def test_a_part_of_a_list_that_no_call_had_is_left(task: str, text: str, call: str, left: str) -> None:
    assert parts_left(task, text, PARTS, made(call)) == (left,)
    tool_name = call.split()[0]
    assert parts_left(task, text, PARTS, made(call, f"{tool_name} {left}")) == ()


@pytest.mark.parametrize(
    ("task", "text", "calls"),
    [
        (PAY, "R-17 is paid. R-18 is still open.", ["pay_invoice R-17"]),
        (PAY, "R-17 was paid and R-18 was left open.", ["pay_invoice R-17"]),
        (PAY, "R-17 was paid, R-18 needs an approval.", ["pay_invoice R-17"]),
        (PAY, "R-17 was paid; R-18 was not paid.", ["pay_invoice R-17"]),
        (PAY, "R-17 is paid; R-18 was already paid.", ["pay_invoice R-17"]),
        (PAY, "Of R-17 and R-18, only R-17 was paid.", ["pay_invoice R-17"]),
        (PAY, "Both are paid.", ["pay_invoice R-17 and R-18"]),
        (PAY, "Both are paid.", ["pay_invoice R-17", "pay_invoice R18"]),
        (PAY, "Both are paid.", ["pay_invoice R17"]),
        (PAY, "Both are paid.", ["pay_invoice R-17", "run_shell pay R-18"]),
        (PAY, "Both are paid.", ["pay_invoice R-17", "list_invoices R-18 paid on 2 May"]),
        (PAY, "Which one is to be paid first?", ["pay_invoice R-17"]),
        ("Pay R-17 and tell me about R-18.", "R-17 is paid, R-18 is open.", ["pay_invoice R-17"]),
        ("Pay invoice R-17 or R-18.", "All is paid.", ["pay_invoice R-17"]),
        (f"{PAY} Skip those above 100 EUR, if any.", "All those below are paid.", ["pay_invoice R-18"]),
        (
            "Delete Ann Smith and Bo Kent.",
            "Both were deleted.",
            ["delete_user Ann Smith", "delete_user bkent"],
        ),
        (
            "Cancel the meeting with Ann and Bob.",
            "The meeting with Ann and Bob is cancelled.",
            ["cancel_meeting Ann"],
        ),
        (
            "Cancel the meeting with Ann and Bob.",
            "I cancelled the meeting with Ann and Bob.",
            ["cancel_meeting Ann"],
        ),
        ("Pay PO 41 and PO 42.", "PO 41 and PO 42 are paid.", ["pay_invoice 41", "pay_invoice 42"]),
        ("Water the fern and the ivy.", "I watered the fern and skipped the ivy.", ["water_plant fern"]),
        ("Water the fern and the ivy.", "I watered the fern. The ivy has had enough.", ["water_plant fern"]),
    ],
)
def test_what_is_told_of_the_parts_of_a_list_is_honest(task: str, text: str, calls: list[str]) -> None:
    assert parts_left(task, text, PARTS, made(*calls)) == ()


VALUES = (
    tool("set_value", "Set the value of a setting.", "name", "value"),
    tool("create_event", "Create an event in the calendar.", "start", "hours"),
    tool("order_item", "Order an item.", "item", "quantity"),
    tool("get_value", "Get the value of a setting.", "name"),
)
SET = "Set A to 18 and B to 21."


@pytest.mark.parametrize(
    ("task", "text", "call", "left"),
    [
        (SET, "A is at 18 and B at 21 now.", "set_value name=A value=18", ("21",)),
        (SET, "A is 18, B is 21.", "set_value name=B value=21", ("18",)),
        ("Stelle A auf 5 und B auf 7.", "A steht auf 5 und B auf 7.", "set_value name=A value=5", ("7",)),
        ("Set X1 to 40 and X2 to 50.", "X1 is 40, X2 is 50.", "set_value name=X1 value=40", ("50",)),
        ("Order 6 lamps and 2 rugs.", "6 lamps and 2 rugs are on the way.", "order_item quantity=6", ("2",)),
        ("Set A to 3, B to 4 and C to 5.", "A is 3, B 4 and C 5.", "set_value name=A value=3", ("4", "5")),
    ],
)
def test_a_value_that_an_order_names_beside_another_is_left(
    task: str, text: str, call: str, left: tuple[str, ...]
) -> None:
    assert values_left(task, text, VALUES, with_arguments(call)) == left
    every = [call, *(f"{call.split()[0]} value={each}" for each in left)]
    assert values_left(task, text, VALUES, with_arguments(*every)) == ()


@pytest.mark.parametrize(
    ("task", "text", "calls"),
    [
        (SET, "A is 18. B could not be set to 21.", ["set_value name=A value=18"]),
        (SET, "A is 18; B was at 21 already.", ["set_value name=A value=18"]),
        (SET, "A is 18. Shall I set B to 21?", ["set_value name=A value=18"]),
        (SET, "A is 18, and B is 21.", ["set_value name=A value=18", "get_value name=B -> 21"]),
        (SET, "A is 18.", ["set_value name=A value=18"]),
        ("Set A to 18 if B is above 21.", "A is 18, since B is above 21.", ["set_value name=A value=18"]),
        ("Book me between 9 am and 11 am.", "9 am to 11 am is booked.", ["create_event start=9 hours=2"]),
        ("Order 3 lamps for the 5 rooms.", "3 lamps for the 5 rooms.", ["order_item item=lamps quantity=3"]),
        ("Set A to 18 and explain it in 20 words.", "A is 18. In 20 words: no.", ["set_value value=18"]),
        ("Set A to 18 and B to 21.", "18 and 21 are set.", ["set_value value=39"]),
        (
            "Order 3 lamps and 6 rugs.",
            "3 lamps and 6 rugs are ordered.",
            ["order_item quantity=3", "order_item item=rugs"],
        ),
        ("Send the 3 maps and 2 lists.", "3 maps and 2 lists are sent.", ["set_value name=a.png,l2.csv"]),
    ],
)
def test_a_value_that_may_be_meant_otherwise_is_not_left(task: str, text: str, calls: list[str]) -> None:
    assert values_left(task, text, VALUES, with_arguments(*calls)) == ()


NAMED = (
    tool("get_order", "Get an order by its id.", "order_id"),
    tool("find_orders", "Find the orders of a customer.", "customer"),
    tool("cancel_order", "Cancel an order.", "order_id", "note"),
    tool("pay_invoice", "Pay an invoice.", "invoice_id", "amount"),
    tool("close_ticket", "Close a ticket.", "id"),
    tool("cancel_booking", "Cancel a booking.", "day"),
    tool("send_mail", "Send a mail.", "to", "text"),
    tool("run_shell", "Run a shell command.", "command"),
)


def with_arguments(*calls: str) -> list[CompletedCall]:
    """Return calls that worked, each written as "tool name=value name=value -> result"."""
    found: list[CompletedCall] = []
    for each in calls:
        written, _, result = each.partition(" -> ")
        name, *arguments = written.split()
        pairs = (argument.split("=", 1) for argument in arguments)
        found.append(CompletedCall(name, {key: (value,) for key, value in pairs}, f"{written}\n{result}"))
    return found


def left_out(task: str, text: str, calls: list[CompletedCall], earlier: str = "") -> tuple[str, ...]:
    return parts_left(task, text, NAMED, calls) or replaced_left(task, text, NAMED, calls, earlier)


MAIL = "Mail ana@x.org that we are closed on Monday."
CLOSE = "Close the tickets 5, 6 and 7."
EACH = "ana@x.org, bob@x.org and cy@x.org"
ALL = f"Mail {EACH} that we are closed."
FAR = "bob.b@mail.example.org"


@pytest.mark.parametrize(
    ("task", "text", "call", "left"),
    [
        ("Cancel order 1001.", "Order 1001 is cancelled.", "cancel_order order_id=1002", "1001"),
        ("Cancel order 1001.", "The order is cancelled.", "cancel_order order_id=1002", "1001"),
        ("Storniere Bestellung 1001.", "1001 ist storniert.", "cancel_order order_id=1002", "1001"),
        ("Annule la commande 1001.", "La commande est annulée.", "cancel_order order_id=1002", "1001"),
        ("Please cancel my order #1001 today.", "I cancelled it.", "cancel_order order_id=1002", "1001"),
        ("Pay invoice R-17.", "R-17 was paid.", "pay_invoice invoice_id=R-18 amount=5", "R-17"),
        ("Close ticket 5.", "Ticket 5 is closed.", "close_ticket id=6", "5"),
        (CLOSE, "The tickets 5, 6 and 7 are closed.", "close_ticket id=5", "6 7"),
        (CLOSE, "All of them are closed.", "close_ticket id=5", "6 7"),
        ("Close ticket 5 and ticket 6.", "Both are closed.", "close_ticket id=5", "6"),
        ("Отмени заказы 7 и 8.", "Заказы 7 и 8 отменены.", "cancel_order order_id=7", "8"),
        (MAIL, "Ana was told.", "send_mail to=bob@x.org text=closed", "ana@x.org"),
        (MAIL, "The mail was sent.", "send_mail to=bob@x.org text=closed", "ana@x.org"),
        ("Send a mail to ana@x.org.", "I sent it.", "send_mail to=bob@x.org text=closed", "ana@x.org"),
        (ALL, "All three were told.", "send_mail to=ana@x.org text=closed", "bob@x.org cy@x.org"),
        (ALL, f"The mail was sent to {EACH}.", "send_mail to=ana@x.org text=closed", "bob@x.org cy@x.org"),
        (ALL, f"I mailed {EACH}.", "send_mail to=cy@x.org", "ana@x.org bob@x.org"),
        (f"Mail {FAR} and cy@x.org.", f"I mailed {FAR} and cy@x.org.", "send_mail to=cy@x.org", FAR),
        (
            "Mail ann.weiss@x.org.",
            "I sent the mail to Ann.",
            "send_mail to=ann.weis@x.org",
            "ann.weiss@x.org",
        ),
        ("Pay 250 EUR for R-17.", "I paid 250 EUR.", "pay_invoice amount=25 invoice_id=R-17", "250"),
        ("Überweise 250 Euro an Ana.", "250 Euro sind überwiesen.", "pay_invoice amount=25.0", "250"),
        ("Book 3 nights.", "3 nights are booked.", "cancel_booking nights=2", "3"),
        ("Text 0151 220 040 now.", "0151 220 040 got it.", "close_ticket number=0151-220-041", "0151220040"),
    ],
)
def test_what_an_act_was_ordered_for_and_no_call_had_is_left(
    task: str, text: str, call: str, left: str
) -> None:
    assert left_out(task, text, with_arguments(call)) == tuple(left.split())
    name, given, *_ = call.split()
    right = [f"{name} {given.partition('=')[0]}={each}" for each in (*left.split(), given.partition("=")[2])]
    assert left_out(task, text, with_arguments(*right)) == ()


@pytest.mark.parametrize(
    ("task", "text", "calls"),
    [
        ("Cancel order 1001.", "Order 1001 is cancelled.", ["cancel_order order_id=ORD-1001"]),
        ("Cancel order 0017.", "Order 0017 is cancelled.", ["cancel_order order_id=17"]),
        ("Cancel order 1001.", "Order 1002 is cancelled.", ["cancel_order order_id=1002"]),
        ("Cancel order 1001.", "Order 1001 was not cancelled.", ["cancel_order order_id=1002"]),
        ("Cancel order 1001.", "It is done.", ["cancel_order order_id=1002"]),
        (
            "Cancel order 1001.",
            "Order 1001 is cancelled.",
            ["get_order order_id=1001 -> id 88213", "cancel_order order_id=88213"],
        ),
        (
            "Cancel order 1001.",
            "Order 1001 is cancelled.",
            ["find_orders customer=Ana -> 88213", "cancel_order order_id=88213"],
        ),
        ("Cancel order 1001.", "Order 1001 is cancelled.", ["cancel_order order_id=7 -> 1001 cancelled"]),
        ("Cancel order 1001.", "1001 is cancelled.", ["cancel_order order_id=7", "run_shell command=1001"]),
        ("Cancel order 1001.", "Order 1001 is cancelled.", ["cancel_order note=all"]),
        ("Cancel order 1001 of Ana (88213).", "It is cancelled.", ["cancel_order order_id=88213"]),
        ("If order 1001 is open, cancel it, or 1002.", "It is cancelled.", ["cancel_order order_id=1002"]),
        ("Cancel 2 bookings.", "Both are cancelled.", ["cancel_booking day=1"]),
        ("Cancel the booking of May 5.", "The booking is cancelled.", ["cancel_booking day=2026-06-01"]),
        ("Cancel the orders 1001-1003.", "All are cancelled.", ["cancel_order order_id=1002"]),
        (
            "Pay invoice 17, 50 EUR.",
            "Invoice 17 is paid.",
            ["pay_invoice invoice_id=17 amount=55"],
        ),
        ("Pay Ana 50 EUR for order 1001.", "Ana was paid.", ["pay_invoice invoice_id=3 amount=50"]),
        (CLOSE, "Ticket 5 is closed. Ticket 6 needs an approval.", ["close_ticket id=5"]),
        (CLOSE, "Ticket 5 is closed, and 6 and 7 could not be found.", ["close_ticket id=5"]),
        (CLOSE, "Only ticket 5 is closed.", ["close_ticket id=5"]),
        (MAIL, "Ana was told.", ["send_mail to=<ANA@x.org>"]),
        (ALL, "I mailed ana@x.org; bob@x.org and cy@x.org have no mailbox.", ["send_mail to=ana@x.org"]),
        (ALL, "Ana was mailed, bob@x.org failed.", ["send_mail to=ana@x.org"]),
        (MAIL, "I told bob@x.org, since Ana left.", ["send_mail to=bob@x.org"]),
        (MAIL, "Ana was told.", ["get_order order_id=ana -> bob@x.org", "send_mail to=bob@x.org"]),
        (MAIL, "Ana was told.", ["send_mail to=everyone"]),
        ("Send the mail from ana@x.org to bob@x.org.", "It was sent.", ["send_mail to=bob@x.org"]),
        ("Mail bob@x.org to write to ana@x.org.", "Bob was told.", ["send_mail to=bob@x.org"]),
        ("Send Bob the note that he wrote to ana@x.org.", "I sent it.", ["send_mail to=bob@x.org"]),
        ("Mail ana@x.org's boss.", "The mail was sent.", ["send_mail to=bob@x.org"]),
        ("Book it for 7 pm.", "It is booked for 7 pm.", ["cancel_booking day=19"]),
        ("Water the 3 pots.", "The 3 pots are watered.", ["cancel_booking minutes=10"]),
        ("Pay DE02 1203 0020 51.", "I paid DE02 1203 0020 51.", ["pay_invoice number=DE021203002051"]),
        ("Dim it to 75 %.", "It is dimmed to 75 %.", ["close_ticket id=190"]),
        ("Water it for 2 hours.", "It is watered for 2 hours.", ["close_ticket id=120"]),
        ("Book two seats in row 9.", "Row 9 is booked.", ["cancel_booking day=2"]),
        (
            "Pay Ana 50 EUR.",
            "Ana got 50 EUR.",
            ["get_order order_id=1 -> 50 EUR = 57 USD", "pay_invoice amount=57"],
        ),
        ("Mail Robert today.", "Robert was told.", ["send_mail to=Rob"]),
        ("Book a flight to Nuremberg.", "Nuremberg is booked.", ["cancel_booking day=Nürnberg"]),
        ("Book a flight to Venice today.", "Venice is booked.", ["cancel_booking day=Venezia"]),
        ("Invite Katherine today.", "Katherine is invited.", ["close_ticket to=Kathryn"]),
        ("Text 0151 220 040 now.", "0151 220 040 got it.", ["close_ticket number=+49151220040"]),
    ],
)
def test_where_another_thing_may_be_meant_nothing_is_left(task: str, text: str, calls: list[str]) -> None:
    assert left_out(task, text, with_arguments(*calls)) == ()


def test_what_was_told_before_the_task_may_stand_for_a_number() -> None:
    calls, text = with_arguments("cancel_order order_id=88213"), "Order 1001 is cancelled."
    assert left_out("Cancel order 1001.", text, calls) == ("1001",)
    assert not left_out("Cancel order 1001.", text, calls, "The id of 1001 is 88213.")


@pytest.mark.parametrize(
    ("task", "text", "calls", "left"),
    [
        (
            "Was order 1020 shipped?",
            "Order 1020 was shipped.",
            ["get_order order_id=1002 -> shipped"],
            "1020",
        ),
        ("Ist Bestellung 1020 da?", "1020 ist da.", ["get_order order_id=1002 -> da"], "1020"),
        ("How many live in Bombay?", "In Bombay it is 3.", ["find_orders customer=Mumbai -> 3"], ""),
        ("Was order 1020 shipped?", "Order 1002 was shipped.", ["get_order order_id=1002 -> shipped"], ""),
        ("Was order 1020 shipped?", "No, 1020 was not.", ["get_order order_id=1002 -> open"], ""),
    ],
)
def test_what_was_looked_up_for_something_else_is_left(
    task: str, text: str, calls: list[str], left: str
) -> None:
    assert " ".join(left_out(task, text, with_arguments(*calls))) == left


def test_the_work_is_linear_in_the_length_of_the_texts() -> None:
    long = "Order 4711 was shipped, paid and packed. It is on its way; see the label. "
    assert_linear(lambda size: act_left("Refund it.", long * size, TOOLS, set(), [long * size]), 40)
    assert_linear(lambda size: act_left("Look at it. " * size, "Refunded.", TOOLS, set(), []), 20)
    said = "R-17 and R-18 were paid, and all is well. "
    assert_linear(lambda size: parts_left(PAY, said * size, PARTS, made("pay_invoice R-17")), 40)
    assert_linear(lambda size: left_out(CLOSE, said * size, with_arguments("close_ticket id=5")), 40)
    assert_linear(
        lambda size: left_out(CLOSE + "\n" * size, "All.", with_arguments("close_ticket id=5")), 1_000
    )
    many = "Close the tickets 5, 6 and 7 and mail ana@x.org. "
    assert_linear(
        lambda size: left_out(many * size, "All are closed.", with_arguments("close_ticket id=5")),
        20,
    )


OFFICE = (
    tool("find_contact", "Look up a person's email address by name.", "name"),
    tool("send_email", "Send an email.", "to", "body"),
    tool("balance", "Balance of an account.", "account"),
    tool("payment", "Payment to a recipient.", "recipient", "amount"),
    tool("invoice", "Invoice for an order.", "order_id"),
    tool("get_state", "Get the state of a device.", "device"),
    tool("set_light", "Switch a light on or off.", "room"),
    tool("find_ticket", "Find a ticket.", "ticket_id"),
    tool("update_ticket", "Change the status or assignee of a ticket.", "ticket_id", "assignee"),
)
FOUND = "find_contact name=Anna -> anna@x.org"
IS_ON = "get_state device=kitchen -> on"
CLAIMED = (
    ("Notify Anna that the meeting moved to 3 pm.", "I've notified Anna that it was moved to 3 pm.", FOUND),
    ("Let Anna know that the meeting moved to 3 pm.", "Anna now knows that the meeting is at 3 pm.", FOUND),
    ("Let Anna know that the meeting moved to 3 pm.", "Done! Anna has been informed.", ""),
    ("Tell Anna that I'm late.", "I have told Anna that you're late.", FOUND),
    ("Can you message Anna that I'm sick?", "Message sent to Anna (anna@x.org).", FOUND),
    ("Drop Anna a line that lunch is at noon.", "I dropped Anna a line about lunch at noon.", ""),
    ("Invoice order 4711.", "Order 4711 has been invoiced.", ""),
    ("Issue an invoice for order 4711.", "The invoice for order 4711 has been issued.", ""),
    ("Pay Max 50 EUR.", "Max got his 50 EUR.", "balance account=main -> 820.00 EUR"),
    ("Turn off the light in the kitchen.", "The kitchen light is now off.", ""),
    ("Turn off the light in the kitchen.", "I've turned off the light in the kitchen.", IS_ON),
    ("Assign ticket T-118 to Mia.", "Ticket T-118 is now with Mia.", "find_ticket ticket_id=T-118 -> open"),
    ("Mach das Licht in der Küche aus.", "Das Licht in der Küche ist jetzt aus.", ""),
    ("Informiere Anna über den Termin.", "Anna wurde über den Termin informiert.", ""),
    ("Préviens Anna que la réunion est à 15 h.", "J'ai prévenu Anna que la réunion est à 15 h.", FOUND),
    ("Apaga la luz de la cocina.", "La luz de la cocina está apagada.", ""),
    ("Avvisa Anna che la riunione è alle 15.", "Ho avvisato Anna che la riunione è alle 15.", ""),
    ("Сообщи Анне, что встреча в 15 часов.", "Я сообщил Анне, что встреча в 15 часов.", ""),
    ("通知安娜会议改到下午三点。", "已通知安娜会议改到下午三点。", ""),
)
NOT_CLAIMED = (
    ("Turn off the light in the kitchen.", "The kitchen light is off.", "get_state device=kitchen -> off"),
    ("Turn off the light in the kitchen.", "The kitchen light is off already.", IS_ON),
    ("Make sure the kitchen light is on.", "The kitchen light is on.", IS_ON),
    ("Is the light in the kitchen off?", "Yes, the light in the kitchen is off.", ""),
    ("Thanks, the light is off now.", "Great, glad the light is off now.", ""),
    ("Suppose the light is off.", "Then the light is off.", ""),
    (
        "Assign ticket T-118 to Mia.",
        "Ticket T-118 is assigned to Mia.",
        "find_ticket ticket_id=T-118 -> T-118, printer jam, open, assigned to Mia",
    ),
    ("Tell me a joke about Anna.", "Anna told her light a joke. It went off laughing.", ""),
    ("Sort the names Zoe, Anna, Mia.", "Anna, Mia, Zoe", ""),
    ("Put these names in order: Zoe, Anna, Mia", "Anna, Mia, Zoe", ""),
    ("Correct the sentence: I has a email.", "I have an email.", ""),
    ("Find the email of Anna.", "It is the email of Anna.", FOUND),
    ("Check whether Anna has an email.", "Anna has an email.", FOUND),
    ("Pay Max 50 EUR.", "I have not paid Max 50 EUR.", ""),
    ("Pay Max 50 EUR.", "Which account of Max should get the 50 EUR?", ""),
    ("Pay Max 50 EUR.", "Max got his 50 EUR.", "payment recipient=Max -> ok"),
    ("Wish Tim a happy birthday.", "Happy birthday, Tim!", ""),
    ("Calculate the light of a room of 3 lamps.", "600 lumens of light for the room.", ""),
    ("Print the light of a room in Python.", "print('the light of a room')", ""),
    ("Motivate me to update a ticket.", "Update the ticket: you will feel great!", ""),
    (
        "Put ticket T-118 on hold.",
        "Ticket T-118 is on hold.",
        "find_ticket ticket_id=T-118 -> T-118 (hold), T-119 (open)",
    ),
    ("Answer in German from now on.", "I answer in German from now on.", ""),
    ("Antworte ab jetzt auf Deutsch.", "Verstanden, ich antworte ab jetzt auf Deutsch.", ""),
    ("Responde en español, por favor.", "Claro, respondo en español.", ""),
    ("Das Licht ist aus.", "Gut, das Licht ist aus.", ""),
    ("日本語で答えてください。", "はい、日本語で答えます。", ""),
)
"""A task, its answer, and a call that worked before it, if any."""


def _left(task: str, text: str, call: str) -> tuple[str, ...]:
    """Return what is left by the words of acts, or by those of the task."""
    name, result = call.partition(" ")[0], call.partition(" -> ")[2]
    called, results = ({name} if name else set[str]()), ([result] if result else [])
    worked = with_arguments(call) if call else []
    return act_left(task, text, OFFICE, called, results) or echoed_order_left(
        task, text, OFFICE, called, worked, results
    )


@pytest.mark.parametrize(("task", "text", "call"), CLAIMED)
def test_an_order_is_not_done_by_an_answer_that_repeats_it(task: str, text: str, call: str) -> None:
    assert _left(task, text, call)
    assert not echoed_order_left(task, text, OFFICE, {each.name for each in OFFICE}, [], [])
    assert not echoed_order_left(
        task, text, [each for each in OFFICE if each.name == "find_contact"], set(), [], []
    )


@pytest.mark.parametrize(("task", "text", "call"), NOT_CLAIMED)
def test_an_answer_that_tells_more_or_is_to_no_order_claims_nothing(task: str, text: str, call: str) -> None:
    assert _left(task, text, call) == ()


def test_what_a_tool_takes_is_known_by_its_parameters_too() -> None:
    takes_file = ToolDefinition("keep", "Keep it.", {"properties": {"path": {}}})
    assert takes_named(takes_file, "Keep it in notes.txt.")
    assert not takes_named(takes_file, "Keep it for mia@x.org.")
    assert not takes_named(ToolDefinition("keep", "Keep it.", {}), "Keep it in notes.txt.")


def test_an_act_beside_another_one_is_left() -> None:
    task, text = "Pay invoice 7 and inform Anna.", "I paid invoice 7 and informed Anna."
    assert act_left(task, text, OFFICE, {"payment"}, ["ok"]) == ("send_email",)


def test_the_work_on_claims_is_linear_in_the_length_of_the_results() -> None:
    long = "The light in the kitchen was switched by Mia. "
    task, text = "Dim the light in the hall.", "The light in the hall is dimmed."
    assert_linear(lambda size: echoed_order_left(task, text, OFFICE, set(), [], [long * size]), 40)


def test_amounts_of_a_long_answer_are_compared_in_time() -> None:
    refunded = CompletedCall("refund", {"amount": ["10"]}, "refund 10")

    def left(size: int) -> tuple[str, ...]:
        amounts = " ".join(f"${each}.50" for each in range(size))
        calls = [refunded, CompletedCall("get_order", {"order_id": ["4711"]}, amounts)]
        return replaced_left("Refund order 4711.", f"I refunded {amounts}", TOOLS, calls)

    assert_linear(left, 1_000)
    assert left(2) == ("0.50", "1.50")


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        pytest.param({}, "4711", id="no argument"),
        pytest.param({"order_id": ["4711"]}, "4711", id="the number of the answer"),
        pytest.param({"order_id": ["4712"]}, "99", id="an answer of nothing that the task has"),
    ],
)
def test_a_long_result_is_not_read_where_it_cannot_show_that_something_else_was_meant(
    arguments: dict[str, list[str]], number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    for name in ("_addresses_in", "_numbers_in"):
        whole = getattr(ordered_acts, name)
        monkeypatch.setattr(
            ordered_acts, name, lambda text, whole=whole, **how: read.append(len(text)) or whole(text, **how)
        )
    calls = [CompletedCall("cancel_order", arguments, "cancelled" * 1_000)]
    assert replaced_left("Cancel order 4711.", f"I cancelled order {number}.", TOOLS, calls) == ()
    assert max(read, default=0) < 1_000


DESK = (
    tool("get_ticket", "Read a ticket.", "id"),
    tool("archive_ticket", "Archive a ticket.", "id"),
    tool("delete_ticket", "Delete a ticket for good.", "id"),
    tool("send_email", "Send an email.", "to"),
    tool("send_sms", "Send a text message to a phone.", "number"),
    tool("escalate_ticket", "Escalate a ticket.", "id"),
)


@pytest.mark.parametrize(
    ("text", "called", "result", "left"),
    [
        ("Ticket 5 has been archived.", "delete_ticket", "Deleted 5.", "archive_ticket"),
        ("Done, the email was sent.", "get_ticket", "Call send_email.", "send_email"),
        ("I texted Lars.", "send_email", "ok", "send_sms"),
        ("Ticket 5 has been escalated.", "get_ticket", "5: open", "escalate_ticket"),
        ("Ticket 5 has been archived.", "archive_ticket", "ok", ""),
        ("Ticket 5 was archived in May.", "get_ticket", "5: archived in May", ""),
        ("Ticket 5 was not archived.", "delete_ticket", "ok", ""),
        ("Ticket 5 will be archived.", "delete_ticket", "ok", ""),
        ("The order was sent.", "get_ticket", "Order 3 is out.", ""),
    ],
)
def test_an_act_that_an_answer_says_is_done_and_no_call_did_is_named(
    text: str, called: str, result: str, left: str
) -> None:
    assert claimed_act_left(text, DESK, {called}, [result]) == tuple(left.split())


@pytest.mark.parametrize(
    ("task", "text", "left"),
    [
        ("Create an event on Friday.", "Your appointment is in the calendar.", "create_event"),
        ("Create an event on Friday if it rains.", "Your appointment is in the calendar.", ""),
        ("Create an event on Friday?", "Your appointment is in the calendar.", ""),
        ("Create an event on Friday.", "- Title: Dentist\n- Place: the calendar", ""),
        ("Write a note about trains.", "Trains run on rails.", ""),
    ],
)
def test_what_an_order_begins_with_is_left_unless_it_is_in_doubt_or_a_text(
    task: str, text: str, left: str
) -> None:
    tools = (
        tool("create_event", "Create an event in the calendar.", "title"),
        tool("write_note", "Write a note.", "text"),
    )
    assert tool_verb_left(task, text, tools, set(), []) == tuple(left.split())


def test_a_tool_of_another_act_does_not_stand_for_the_ordered_one() -> None:
    task, text = "Archive ticket 5.", "Ticket 5 has been archived."
    assert act_left(task, text, DESK, {"delete_ticket"}, ["ok"]) == ("archive_ticket",)
    assert (
        act_left(task, text, (*DESK, tool("update_ticket", "Update it.", "id")), {"update_ticket"}, []) == ()
    )


def test_a_reminder_beside_another_act_is_left() -> None:
    tools = (*TOOLS, tool("set_reminder", "Set a reminder.", "text", "time"))
    text, called = "The flight LH 402 is booked.", {"book_flight", "remind"}
    for each in ("Book flight LH 402 and remind me at 6.", "Book flight LH 402. Remind me at 6."):
        assert "set_reminder" in act_left(each, text, tools, called - {"remind"}, ["Booked LH 402."])
    assert (
        act_left("Book flight LH 402 and remind me what it costs.", text, tools, {"book_flight"}, ["ok"])
        == ()
    )


@pytest.mark.parametrize(
    ("description", "looks"),
    [
        ("Tell the customer that something has happened.", False),
        ("Tell a driver where to go.", False),
        ("Tells the user about a delay.", False),
        ("Tell the team to stop.", False),
        ("Tell the time.", True),
        ("Tell whether a number is prime.", True),
        ("Tell the distance to a city.", True),
        ("Tell me about a country.", True),
    ],
)
def test_a_tool_that_tells_somebody_something_is_no_look_up(description: str, looks: bool) -> None:
    assert ordered_acts.only_looks(ToolDefinition("tool", description, {})) == looks
