"""Answers by text of a capable model, and in the same places texts that are none.

The offers at the end, the tools that are not needed, and the several languages are those of everyday use.
Each part was written with other subjects, tools and words before the rules had seen it: at that time 6 of the 25
answers of the third were asked about again, and 13 with the rules before. The cases of the fourth are in
``everyday_answers.toml``, in the manners of capable models: headings, lists, tables, code, advice, closing remarks.
"""

# ruff: noqa: E501 - the texts are the data

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from attrs import frozen

Part: TypeAlias = Literal["first", "second", "third", "everyday"]


@frozen
class SpokenCase:
    """A task whose answer is given as text.

    Attributes:
        tools: descriptions by name.
        calls: the calls before the answer: tool, arguments and result.
        answer: the text that is the answer.
        unfinished: texts that are no answer, each with the number of calls made before it.
    """

    task: str
    tools: Mapping[str, str]
    calls: tuple[tuple[str, Mapping[str, Any], str], ...]
    answer: str
    unfinished: tuple[tuple[int, str], ...] = ()


_PARCELS = {
    "track_parcel": "Return where a parcel is.",
    "change_address": "Change the address that a parcel goes to.",
    "cancel_parcel": "Cancel the delivery of a parcel.",
}
_LIBRARY = {
    "find_book": "Search the catalogue of the library.",
    "loans_of": "List the loans of a reader.",
    "extend_loan": "Extend a loan by four weeks.",
}
_HOME = {
    "read_sensor": "Read a sensor of the house.",
    "set_blind": "Move a blind, 0 is open and 100 is closed.",
}
_STAFF = {
    "find_person": "Find a member of staff by name.",
    "absences": "List the absences of a department for a month.",
    "request_leave": "Request leave for a member of staff.",
}
_FLEET = {
    "odometer": "Return how far a van has been driven.",
    "fuel": "Return how full the tank of a van is.",
}
_RECIPES = {"pantry": "List what is in the pantry.", "scale_recipe": "Scale a recipe to a number of people."}

_FIRST: tuple[SpokenCase, ...] = (
    SpokenCase(
        "Where is my parcel PK-20931?",
        _PARCELS,
        (("track_parcel", {"number": "PK-20931"}, "sorting centre Kolding, scanned 06:42"),),
        "Your parcel is currently at the sorting centre in Kolding, where it was scanned at 06:42 this "
        "morning. Let me know if you'd like me to change the delivery address!",
        ((0, "Sure thing! I'd be glad to find your parcel."), (0, "Tracking it for you…")),
    ),
    SpokenCase(
        "Has parcel PK-20931 been delivered?",
        _PARCELS,
        (("track_parcel", {"number": "PK-20931"}, "handed over to a neighbour, Lindqvist"),),
        "Yes. A neighbour took it in; the name given is Lindqvist.",
        ((0, "That needs a glance at the tracking."), (0, "Checking whether it has been delivered.")),
    ),
    SpokenCase(
        "Send PK-20931 to Havnegade 4 instead.",
        _PARCELS,
        (("change_address", {"number": "PK-20931", "address": "Havnegade 4"}, "changed"),),
        "That's all taken care of. The parcel will now go to Havnegade 4.",
        ((0, "No problem, the address is about to be changed."), (0, "Let's get this redirected.")),
    ),
    SpokenCase(
        "Please cancel PK-20931.",
        _PARCELS,
        (("cancel_parcel", {"number": "PK-20931"}, "too late: out for delivery"),),
        "I'm afraid it is too late for that: the driver already has the parcel on board.",
        ((0, "Cancelling it right away."), (0, "Will be cancelled in a second!")),
    ),
    SpokenCase(
        "Do you have anything by Halldór Laxness?",
        _LIBRARY,
        (
            (
                "find_book",
                {"query": "Halldór Laxness"},
                "Independent People (2 copies, 1 on loan); The Fish Can Sing",
            ),
        ),
        "We have two of his books: *Independent People*, of which one copy is in, and *The Fish Can Sing*. "
        "Would you like me to reserve one for you?",
        ((0, "Let me see what the catalogue says about Laxness."), (0, "Great author! Searching now.")),
    ),
    SpokenCase(
        "When are the books of reader 5512 due?",
        _LIBRARY,
        (("loans_of", {"reader": 5512}, "Emma, due 3 March; Persuasion, due 17 March"),),
        "- **Emma**: 3 March\n- **Persuasion**: 17 March",
        ((0, "I'll pull up the loans for reader 5512."), (0, "Reader 5512 - one look at the list of loans.")),
    ),
    SpokenCase(
        "When are the books of reader 5512 due?",
        _LIBRARY,
        (("loans_of", {"reader": 5512}, "none"),),
        "Reader 5512 currently has nothing on loan.",
        (),
    ),
    SpokenCase(
        "Extend both loans of reader 5512.",
        _LIBRARY,
        (
            ("loans_of", {"reader": 5512}, "L-81 Emma, L-82 Persuasion"),
            ("extend_loan", {"loan": "L-81"}, "due 31 March"),
            ("extend_loan", {"loan": "L-82"}, "due 14 April"),
        ),
        "Both are extended. Emma is now due on 31 March and Persuasion on 14 April.",
        (
            (1, "These are L-81 and L-82, so both can be extended now."),
            (2, "Emma is done, on to Persuasion."),
            (1, "Next up: extending L-81."),
        ),
    ),
    SpokenCase(
        "How warm is it in the nursery?",
        _HOME,
        (("read_sensor", {"name": "nursery"}, "19.4"),),
        "The nursery is at 19.4 °C.",
        ((0, "I can read the sensor in the nursery for that."), (0, "Reading the nursery sensor.")),
    ),
    SpokenCase(
        "Is it too cold for the baby in the nursery?",
        _HOME,
        (("read_sensor", {"name": "nursery"}, "19.4"),),
        "At 19.4 °C it's a comfortable sleeping temperature, so there is no need to worry.",
        (
            (0, "Good point, the temperature matters a lot for babies."),
            (0, "To judge that, the sensor must be read."),
        ),
    ),
    SpokenCase(
        "Close the blind in the study halfway.",
        _HOME,
        (("set_blind", {"room": "study", "position": 50}, "moving"),),
        "The blind in the study is on its way to the half-closed position.",
        ((0, "Halfway means 50."), (0, "Sure - moving the blind.")),
    ),
    SpokenCase(
        "Schließe bitte die Jalousie im Büro.",
        _HOME,
        (("set_blind", {"room": "Büro", "position": 100}, "ok"),),
        "Erledigt, die Jalousie im Büro ist jetzt zu.",
        ((0, "Einen Augenblick bitte."), (0, "Ich fahre sie gleich herunter.")),
    ),
    SpokenCase(
        "Who in accounting is away in July?",
        _STAFF,
        (("absences", {"department": "accounting", "month": "July"}, "Petra Vance 1-14; Ola Brandt 20-31"),),
        "Petra Vance is off from the 1st to the 14th and Ola Brandt from the 20th to the 31st. So the team is "
        "complete only between the 15th and the 19th.",
        ((0, "Retrieving the July absences."), (0, "The absences of accounting are what we want here.")),
    ),
    SpokenCase(
        "Can Petra Vance take leave from 20 to 24 July? Request it if nobody else is away.",
        _STAFF,
        (("absences", {"department": "accounting", "month": "July"}, "Ola Brandt 20-31"),),
        "I haven't requested it, because Ola Brandt is already away at that time.",
        (
            (1, "Ola Brandt is away then. Let me think about what that means."),
            (0, "Looking at who is away first."),
        ),
    ),
    SpokenCase(
        "What is the extension of Ruth Amsel?",
        _STAFF,
        (
            (
                "find_person",
                {"name": "Ruth Amsel"},
                '{"name": "Ruth Amsel", "room": "B 204", "extension": 7731}',
            ),
        ),
        "You can reach her at 7731.",
        ((0, "Ruth Amsel, one moment."), (0, "find_person should give us that.")),
    ),
    SpokenCase(
        "Which of the vans V3 and V5 has been driven further?",
        _FLEET,
        (("odometer", {"van": "V3"}, "88,120 km"), ("odometer", {"van": "V5"}, "91,004 km")),
        "V5, by just under three thousand kilometres.",
        (
            (1, "V3 has 88,120 km. Now for V5."),
            (1, "88,120 km for V3; V5 is still missing."),
            (2, "Both readings are in, time to compare."),
            (0, "I'd compare the odometers."),
        ),
    ),
    SpokenCase(
        "Does V3 need fuel before a trip of 400 km? It does 800 km on a full tank.",
        _FLEET,
        (("fuel", {"van": "V3"}, "35 %"),),
        "Yes: 35 % lasts for about 280 km, so fill it up first.",
        ((0, "That depends on the tank."), (0, "First, how full is it?")),
    ),
    SpokenCase(
        "What could I cook tonight?",
        _RECIPES,
        (("pantry", {"shelf": "all"}, "rice, chickpeas, spinach, coconut milk, onions"),),
        "How about a chickpea and spinach curry with coconut milk, served over rice? You have everything for it.",
        ((0, "Let's have a look at what you have."), (0, "Fun! Depends on the pantry.")),
    ),
    SpokenCase(
        "What could I cook tonight?",
        _RECIPES,
        (("pantry", {"shelf": "all"}, "rice, chickpeas, spinach, coconut milk, onions"),),
        "I'd make a curry: fry the onions, add chickpeas and coconut milk, simmer for ten minutes, and stir in "
        "the spinach at the end.",
        ((1, "Nice selection! Give me a moment to come up with something."),),
    ),
    SpokenCase(
        "How do I cook rice?",
        _RECIPES,
        (),
        "Rinse it, add one and a half times as much water, bring it to the boil, then cover and let it steam for "
        "twelve minutes. Finally, fluff it up with a fork.",
        ((0, "Happy to explain!"), (0, "Rice is a good choice. Here is how:")),
    ),
    SpokenCase(
        "Hi there",
        _RECIPES,
        (),
        "Hi! What would you like to cook today?",
        (),
    ),
    SpokenCase(
        "Good evening!",
        _FLEET,
        (),
        "Good evening! Is there something I can do for you?",
        (),
    ),
    SpokenCase(
        "Thank you, that's all.",
        _PARCELS,
        (),
        "My pleasure. Have a great day!",
        (),
    ),
    SpokenCase(
        "Who are you?",
        _PARCELS,
        (),
        "I'm an assistant who can track, redirect and cancel parcels for you.",
        (),
    ),
    SpokenCase(
        "What can you do for me?",
        _LIBRARY,
        (),
        "I can search the catalogue, show you what a reader has on loan, and extend loans. Just tell me what "
        "you need.",
        (),
    ),
    SpokenCase(
        "Draft a two-sentence mail to a colleague who is ill.",
        _STAFF,
        (),
        "Dear Ruth,\n\nI was sorry to hear that you are unwell and hope that you get better soon. We will look "
        "after your projects until you are back.",
        ((0, "Certainly, I will draft that."), (0, "Here is a possible draft:")),
    ),
    SpokenCase(
        "Write a riddle for children.",
        _FLEET,
        (),
        "I have hands but cannot clap, and a face but cannot smile. What am I?",
        ((0, "Riddles are fun. Let me think of one."),),
    ),
    SpokenCase(
        "Suggest three names for a sailing boat.",
        _FLEET,
        (),
        "1. Saltwind\n2. Morning Star\n3. Next Horizon",
        ((0, "Let me come up with three names."),),
    ),
    SpokenCase(
        "Is 97 a prime number?",
        _PARCELS,
        (),
        "Yes, it is only divisible by 1 and itself.",
        ((0, "Let me check this."), (0, "We have to test the divisors.")),
    ),
    SpokenCase(
        "What is the difference between a virus and a bacterium?",
        _STAFF,
        (),
        "Bacteria are living cells that multiply on their own; viruses are far smaller and need a host. That is "
        "why antibiotics help us against bacteria only.",
        ((0, "That is a very good question."),),
    ),
    SpokenCase(
        "Comment dit-on « bonne nuit » en italien ?",
        _HOME,
        (),
        "On dit « buona notte ».",
        ((0, "Un instant, je réfléchis."),),
    ),
    SpokenCase(
        "¿Dónde está el paquete PK-77?",
        _PARCELS,
        (("track_parcel", {"number": "PK-77"}, "Zaragoza, almacén 3"),),
        "El paquete PK-77 está en el almacén 3 de Zaragoza. ¿Necesitas algo más?",
        ((0, "Enseguida lo miro."), (0, "Déjame consultar el seguimiento.")),
    ),
    SpokenCase(
        "Quanto è piena il serbatoio del furgone V5?",
        _FLEET,
        (("fuel", {"van": "V5"}, "60 %"),),
        "Il serbatoio è pieno al 60 %.",
        ((0, "Controllo subito."), (0, "Adesso guardo il serbatoio.")),
    ),
    SpokenCase(
        "Wie warm ist es im Keller?",
        _HOME,
        (("read_sensor", {"name": "Keller"}, "error: sensor offline since Tuesday"),),
        "Das kann ich im Moment nicht sagen: Der Sensor ist seit Dienstag offline.",
        ((0, "Dazu lese ich den Sensor aus."), (0, "Moment, ich schaue nach.")),
    ),
    SpokenCase(
        "Hoe vol is de tank van V3?",
        _FLEET,
        (("fuel", {"van": "V3"}, "35 %"),),
        "De tank is nog voor 35 % gevuld. Zal ik ook V5 nakijken?",
        ((0, "Ik kijk het even na."),),
    ),
    SpokenCase(
        "荷物PK-77はどこにありますか。",
        _PARCELS,
        (("track_parcel", {"number": "PK-77"}, "大阪の集配所"),),
        "荷物は大阪の集配所にあります。",
        ((0, "追跡情報を確認します。"),),
    ),
    SpokenCase(
        "包裹PK-77到哪里了？",
        _PARCELS,
        (("track_parcel", {"number": "PK-77"}, "上海分拣中心"),),
        "包裹目前在上海分拣中心。",
        ((0, "我马上查询一下。"), (0, "请稍等。")),
    ),
    SpokenCase(
        "Summarise the notes of the last safety round.",
        {"safety_notes": "Read the notes of the last safety round."},
        (
            (
                "safety_notes",
                {"which": "last"},
                "Exit 2 was blocked by pallets, removed on the spot. Extinguisher in hall B expires in June, "
                "to be replaced by Dana. Next round on 4 May.",
            ),
        ),
        "The blocked exit 2 was cleared immediately. Dana is going to swap the extinguisher in hall B before it "
        "expires. The following round takes place on 4 May.",
        ((0, "Sure, the notes have to be read first."), (1, "Thanks, I have the notes. Summary follows.")),
    ),
    SpokenCase(
        "What should we do first according to the safety notes?",
        {"safety_notes": "Read the notes of the last safety round."},
        (
            (
                "safety_notes",
                {"which": "last"},
                "Urgent: handrail loose at stair 4. Minor: sign faded at gate 1.",
            ),
        ),
        "You should fix the handrail at stair 4 first, since that one is marked as urgent. After that you can "
        "replace the sign at gate 1.",
        ((0, "The notes will tell."),),
    ),
    SpokenCase(
        "How many of the 24 seats of trip T9 are still free?",
        {"bookings": "List the bookings of a trip.", "book_seat": "Book a seat on a trip."},
        (("bookings", {"trip": "T9"}, "21 booked"),),
        "Three.",
        ((0, "Let me count."), (0, "The bookings of T9 are needed for that.")),
    ),
    SpokenCase(
        "Book me a seat on trip T9.",
        {"bookings": "List the bookings of a trip.", "book_seat": "Book a seat on a trip."},
        (("book_seat", {"trip": "T9"}, "seat 22"),),
        "You're all set: seat 22 on trip T9 is yours. Shall I send you a confirmation as well?",
        ((0, "Booking seat on T9…"), (0, "Gladly! There are 24 seats on that trip.")),
    ),
    SpokenCase(
        "Which ferry gets me to Samsø before noon?",
        {"ferries": "List the ferries to an island."},
        (("ferries", {"to": "Samsø"}, "dep 08:15 arr 09:20; dep 12:05 arr 13:10"),),
        "Take the 08:15 one. It arrives at twenty past nine, so you'll have plenty of time.",
        ((0, "Ferry times change often, better to look."), (0, "I am checking the ferries to Samsø.")),
    ),
    SpokenCase(
        "Log 45 minutes of work on project Heron.",
        {"log_time": "Log time on a project.", "timesheet": "Show the timesheet of a week."},
        (("log_time", {"project": "Heron", "minutes": 45}, "saved"),),
        "Logged.",
        ((0, "45 minutes for Heron, noted."), (0, "I'll log that for you.")),
    ),
    SpokenCase(
        "Log 45 minutes of work on project Heron.",
        {"log_time": "Log time on a project.", "timesheet": "Show the timesheet of a week."},
        (("log_time", {"project": "Heron", "minutes": 45}, '{"ok": true}'),),
        "Got it, I've put 45 minutes on Heron.",
        ((0, "Before logging I should make sure that Heron exists."),),
    ),
    SpokenCase(
        "Mute notifications until 5 pm.",
        {"mute": "Mute notifications until a time."},
        (("mute", {"until": "17:00"}, "muted"),),
        "I'll keep things quiet until 5 pm.",
        ((0, "Okay, muting."), (0, "Would you like to mute all of them?")),
    ),
    SpokenCase(
        "Wake me at 6:30 tomorrow.",
        {"set_alarm": "Set an alarm."},
        (("set_alarm", {"time": "06:30"}, "alarm on"),),
        "Alright, your alarm will ring at 6:30. Sleep well!",
        ((0, "Setting the alarm…"),),
    ),
    SpokenCase(
        "Is the invoice R-310 paid, and if not, how late is it?",
        {"invoice": "Return an invoice.", "remind_customer": "Send a reminder to a customer."},
        (
            (
                "invoice",
                {"number": "R-310"},
                '{"number": "R-310", "paid": false, "due": "2026-05-02", "days_late": 12}',
            ),
        ),
        "It isn't paid yet and is twelve days overdue. Do you want me to send a reminder?",
        ((0, "Invoice R-310, coming up."), (0, "This calls for a look at the invoice.")),
    ),
    SpokenCase(
        "Compare the two candidates Ek and Moreau.",
        {"candidate": "Return the file of a candidate."},
        (
            ("candidate", {"name": "Ek"}, "5 years as nurse, speaks Finnish, free from May"),
            ("candidate", {"name": "Moreau"}, "11 years as nurse, no night shifts"),
        ),
        "| | Ek | Moreau |\n|---|---|---|\n| Experience | 5 years | 11 years |\n| Start | May | unknown |\n"
        "| Nights | yes | no |\n\nOverall, Moreau is more experienced while Ek is more flexible.",
        (
            (1, "Ek: 5 years as a nurse. Moreau's file is next."),
            (2, "I now have both files and can compare them."),
            (2, "Here comes the comparison:"),
        ),
    ),
    SpokenCase(
        "Who should lead the expedition, Ek or Moreau?",
        {"candidate": "Return the file of a candidate."},
        (
            ("candidate", {"name": "Ek"}, "guide for 12 years, certified"),
            ("candidate", {"name": "Moreau"}, "guide for 1 year"),
        ),
        "I would go with Ek, who is certified and has been guiding for twelve years.",
        ((1, "Ek looks strong. I want to see Moreau too."), (2, "I would weigh both and then decide.")),
    ),
    SpokenCase(
        "What is the total of the invoices R-1 and R-2?",
        {"invoice": "Return an invoice."},
        (("invoice", {"number": "R-1"}, "118.40 EUR"), ("invoice", {"number": "R-2"}, "61.10 EUR")),
        "Together they amount to 179.50 EUR.",
        (
            (1, "R-1 is 118.40 EUR, then R-2."),
            (2, "R-1 is 118.40 EUR and R-2 is 61.10 EUR. Let me sum them up."),
            (2, "The invoices are 118.40 EUR and 61.10 EUR, and I'll add these."),
            (1, "The first invoice is 118.40 EUR."),
        ),
    ),
    SpokenCase(
        "Translate 'the meeting is postponed' into Danish.",
        _STAFF,
        (),
        "Mødet er udskudt.",
        ((0, "I will translate that now."),),
    ),
    SpokenCase(
        "Proofread: 'Their going to the shop.'",
        _PARCELS,
        (),
        'It should be "They\'re going to the shop."',
        (),
    ),
    SpokenCase(
        "Explain what 'out for delivery' means.",
        _PARCELS,
        (),
        "It means that the parcel has left the depot and a driver is bringing it to you today.",
        ((0, "Let me look into that."),),
    ),
    SpokenCase(
        "Give me a regular expression for a four-digit year.",
        _LIBRARY,
        (),
        "```\n\\b\\d{4}\\b\n```",
        ((0, "A regular expression for that is easy to write."),),
    ),
    SpokenCase(
        "How would you introduce yourself to a new customer?",
        _PARCELS,
        (),
        "I'd say: \"Hello, I'm the parcel assistant, and I will help you with anything about your deliveries.\"",
        (),
    ),
)

_GARDEN = {
    "soil_moisture": "Measure the moisture of a bed.",
    "water_bed": "Water a bed for some minutes.",
    "frost_warning": "Return whether frost is expected.",
}
_CLINIC = {
    "patient_file": "Open the file of a patient.",
    "free_slots": "List free appointments of a doctor.",
    "book_slot": "Book an appointment.",
}
_SHOP = {
    "stock_level": "Return how many pieces of an article are in the warehouse.",
    "reorder": "Order an article.",
}
_CODE = {
    "run_tests": "Run the tests of a module.",
    "open_pull_requests": "List open pull requests of a repository.",
}
_HOTEL = {"room_status": "Return the status of a room.", "guest_in": "Return who stays in a room."}
_MUSIC = {"concerts": "List concerts in a town.", "ticket_price": "Return the price of a ticket."}

_SECOND: tuple[SpokenCase, ...] = (
    SpokenCase(
        "Does the tomato bed need watering?",
        _GARDEN,
        (("soil_moisture", {"bed": "tomato"}, "61 %"),),
        "Not today. At 61 % the soil is still moist enough.",
        ((0, "Measuring..."), (0, "We can find out with a measurement."), (0, "The bed of tomatoes, right.")),
    ),
    SpokenCase(
        "Water the tomato bed for ten minutes.",
        _GARDEN,
        (("water_bed", {"bed": "tomato", "minutes": 10}, "started"),),
        "The water is running and will stop by itself in ten minutes.",
        ((0, "On my way to the tomatoes!"), (0, "I am about to open the valve.")),
    ),
    SpokenCase(
        "Will my dahlias survive the night outside?",
        _GARDEN,
        (("frost_warning", {"night": "tonight"}, "down to -4 after 3 am"),),
        "Probably not, since it goes down to -4 °C after three in the morning. I'd bring them in or cover them.",
        ((0, "Dahlias are sensitive to frost, hmm."), (0, "A question for the frost warning.")),
    ),
    SpokenCase(
        "When should I prune roses?",
        _GARDEN,
        (),
        "The best time is early spring, when the forsythia blooms. First remove dead wood, then shorten the "
        "remaining shoots to about five buds.",
        ((0, "Roses, lovely. I will gather some advice."),),
    ),
    SpokenCase(
        "Which allergies does Mr Okonkwo have?",
        _CLINIC,
        (("patient_file", {"name": "Okonkwo"}, "allergies: penicillin, latex; born 1961"),),
        "He is allergic to penicillin and latex.",
        ((0, "Opening his file."), (0, "That should be in the file of Mr Okonkwo.")),
    ),
    SpokenCase(
        "Is there anything free with Dr Weiss on Thursday?",
        _CLINIC,
        (("free_slots", {"doctor": "Weiss", "day": "Thursday"}, "10:20, 15:40"),),
        "Yes, there are two openings: 10:20 and 15:40. Which one do you prefer?",
        ((0, "Let me ask the calendar."), (0, "Thursday with Dr Weiss, sure.")),
    ),
    SpokenCase(
        "Is there anything free with Dr Weiss on Friday?",
        _CLINIC,
        (("free_slots", {"doctor": "Weiss", "day": "Friday"}, "[]"),),
        "Unfortunately she is fully booked on Friday. If you like, I can look at the following Monday instead.",
        ((0, "I would have to look at the free slots."),),
    ),
    SpokenCase(
        "Book the first free appointment with Dr Weiss on Thursday.",
        _CLINIC,
        (
            ("free_slots", {"doctor": "Weiss", "day": "Thursday"}, "10:20, 15:40"),
            ("book_slot", {"doctor": "Weiss", "time": "10:20"}, "booked, code WZ4"),
        ),
        "Done. You have an appointment on Thursday at 10:20; please bring the code WZ4 with you.",
        (
            (1, "The first one is at 10:20, which is what gets booked."),
            (1, "10:20 is free. Booking it."),
            (0, "Happy to arrange that."),
            (1, "There is room at 10:20 and 15:40."),
        ),
    ),
    SpokenCase(
        "Do we still have brass hinges?",
        _SHOP,
        (("stock_level", {"article": "brass hinge"}, "0"),),
        "No, we are out of them at the moment. Should I reorder some?",
        ((0, "Brass hinges... one lookup."), (0, "The warehouse has the answer to this.")),
    ),
    SpokenCase(
        "Do we have more brass hinges or more steel hinges?",
        _SHOP,
        (
            ("stock_level", {"article": "brass hinge"}, "140"),
            ("stock_level", {"article": "steel hinge"}, "95"),
        ),
        "More brass ones.",
        (
            (1, "140 of brass. And steel?"),
            (1, "We hold 140 brass hinges; steel comes next."),
            (2, "Got both numbers, comparing."),
        ),
    ),
    SpokenCase(
        "Order twenty steel hinges.",
        _SHOP,
        (("reorder", {"article": "steel hinge", "pieces": 20}, "order accepted"),),
        "I've placed the order for twenty steel hinges.",
        ((0, "Placing the order now, twenty pieces."), (0, "Twenty steel hinges, consider it done soon.")),
    ),
    SpokenCase(
        "Do the tests of the parser pass?",
        _CODE,
        (("run_tests", {"module": "parser"}, "41 passed, 2 failed: test_nested, test_empty"),),
        "Not all of them. 41 pass, while `test_nested` and `test_empty` fail.",
        ((0, "I'm running them now."), (0, "Running tests takes a while, hang on.")),
    ),
    SpokenCase(
        "Why might test_empty fail in a parser?",
        _CODE,
        (),
        "Typically because the code assumes at least one token. Check whether it indexes the list before testing "
        "that it has any items.",
        (),
    ),
    SpokenCase(
        "Show me the open pull requests of loom.",
        _CODE,
        (("open_pull_requests", {"repository": "loom"}, "#12 Fix rounding (Ada); #15 Faster start (Jo)"),),
        "There are two:\n\n* #12 Fix rounding, by Ada\n* #15 Faster start, by Jo",
        ((0, "Sure, fetching the list:"), (0, "loom is the repository in question.")),
    ),
    SpokenCase(
        "Is room 305 ready?",
        _HOTEL,
        (("room_status", {"room": 305}, "cleaning"),),
        "It's still being cleaned.",
        ((0, "I can tell you in an instant."), (0, "We must ask for the status of the room.")),
    ),
    SpokenCase(
        "Who is staying in room 305?",
        _HOTEL,
        (("guest_in", {"room": 305}, "nobody"),),
        "Nobody at present.",
        ((0, "Finding out who is in 305."),),
    ),
    SpokenCase(
        "Wer wohnt in Zimmer 12?",
        _HOTEL,
        (("guest_in", {"room": 12}, "Familie Sørensen, bis Freitag"),),
        "Dort wohnt bis Freitag die Familie Sørensen.",
        ((0, "Ich frage das für Sie ab."), (0, "Zimmer 12, einen Moment.")),
    ),
    SpokenCase(
        "La chambre 12 est-elle prête ?",
        _HOTEL,
        (("room_status", {"room": 12}, "prête"),),
        "Oui, vous pouvez y monter dès maintenant.",
        ((0, "Je vais vérifier."), (0, "Voyons l'état de la chambre.")),
    ),
    SpokenCase(
        "¿Cuánto cuesta una entrada para ver a Lhasa?",
        _MUSIC,
        (("ticket_price", {"artist": "Lhasa"}, "32 EUR"),),
        "La entrada sale por 32 euros. ¿Te la reservo?",
        ((0, "Voy a mirar el precio."), (0, "Dame un segundo.")),
    ),
    SpokenCase(
        "リサのコンサートのチケットはいくらですか。",
        _MUSIC,
        (("ticket_price", {"artist": "リサ"}, "4800円"),),
        "チケットは4800円です。",
        ((0, "料金を調べてみます。"),),
    ),
    SpokenCase(
        "奥斯陆有什么音乐会？",
        _MUSIC,
        (("concerts", {"town": "奥斯陆"}, "周五：爱乐乐团；周六：爵士之夜"),),
        "周五有爱乐乐团的演出，周六是爵士之夜。",
        ((0, "让我查一下。"),),
    ),
    SpokenCase(
        "What's on in Bergen this weekend?",
        _MUSIC,
        (("concerts", {"town": "Bergen"}, "Sat 20:00 Ulver, Grieghallen; Sun 15:00 Brass Band, Kodehuset"),),
        "On Saturday at 8 pm Ulver plays at Grieghallen, and on Sunday afternoon you can hear the Brass Band in "
        "Kodehuset. Have fun!",
        (
            (0, "Bergen has a lively scene. Looking for events."),
            (1, "Two events came back, I'll list them for you."),
        ),
    ),
    SpokenCase(
        "Which of the two concerts in Bergen would you pick?",
        _MUSIC,
        (("concerts", {"town": "Bergen"}, "Sat 20:00 Ulver, Grieghallen; Sun 15:00 Brass Band, Kodehuset"),),
        "My pick would be Ulver. They rarely play in town, and Grieghallen has wonderful acoustics.",
        ((0, "Hard to say before I know them."),),
    ),
    SpokenCase(
        "Hey!",
        _SHOP,
        (),
        "Hey, good to see you. What do you need?",
        (),
    ),
    SpokenCase(
        "ok, bye",
        _HOTEL,
        (),
        "Bye! I'm here whenever you need me.",
        (),
    ),
    SpokenCase(
        "What are you able to help with?",
        _CODE,
        (),
        "Two things: I can run tests for you, and I can list pull requests that are still open.",
        (),
    ),
    SpokenCase(
        "Compose a birthday verse for my aunt.",
        _CODE,
        (),
        "Another year, another smile,\nyou make each moment worth the while.\nSo here's to cake and candlelight,\n"
        "may all your days be warm and bright!",
        ((0, "What a lovely idea, let me write something."), (0, "With pleasure! Here it comes:")),
    ),
    SpokenCase(
        "Rewrite more politely: 'Send me the file.'",
        _GARDEN,
        (),
        "Could you please send me the file?",
        ((0, "I will rewrite it politely."),),
    ),
    SpokenCase(
        "Ask me a question about history.",
        _SHOP,
        (),
        "Which ruler did the Magna Carta bind in 1215?",
        (),
    ),
    SpokenCase(
        "What is heavier, a litre of water or a litre of oil?",
        _HOTEL,
        (),
        "Water: a litre of it weighs about a kilogram, oil some eight per cent less.",
        ((0, "We need to compare densities."),),
    ),
    SpokenCase(
        "How does a heat pump work?",
        _CODE,
        (),
        "It moves heat instead of making it. A fluid evaporates outside and takes up warmth; a compressor squeezes "
        "it, so it gets hotter; then it condenses inside and gives that warmth to us.",
        ((0, "Happy to explain how it works:"), (0, "Let's start with the basics.")),
    ),
    SpokenCase(
        "Convert 5 feet 11 to centimetres.",
        _CLINIC,
        (),
        "That is roughly 180 cm.",
        ((0, "I have to convert both parts."),),
    ),
    SpokenCase(
        "What is 3/8 as a decimal?",
        _MUSIC,
        (),
        "0.375",
        ((0, "Dividing now."),),
    ),
    SpokenCase(
        "Name the planets in order.",
        _SHOP,
        (),
        "Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune.",
        (),
    ),
    SpokenCase(
        "Wie schreibt man 'Rhythmus'?",
        _SHOP,
        (),
        "R-h-y-t-h-m-u-s.",
        (),
    ),
    SpokenCase(
        "Sum up the call with the supplier.",
        {"call_notes": "Return the notes of a call."},
        (
            (
                "call_notes",
                {"who": "supplier"},
                "Prices stay until autumn. They ship twice a week. Contract renewal is up to Nora.",
            ),
        ),
        "Prices are fixed until autumn and there are two shipments per week. What remains is for Nora to decide "
        "about renewing the contract.",
        ((0, "First the notes."), (1, "I've read the notes and will condense them.")),
    ),
    SpokenCase(
        "What did the supplier promise, and what must we do next?",
        {"call_notes": "Return the notes of a call."},
        (
            (
                "call_notes",
                {"who": "supplier"},
                "They promise two shipments a week. We owe them the signed form.",
            ),
        ),
        "They promised to ship twice a week. Our next step is to send the signed form.",
        ((1, "Understood, now the summary."),),
    ),
    SpokenCase(
        "What do the lamps L1 and L2 cost altogether?",
        {"lamp_price": "Return the price of a lamp."},
        (("lamp_price", {"lamp": "L1"}, "39"), ("lamp_price", {"lamp": "L2"}, "52")),
        "You'd pay 91 for both.",
        (
            (1, "L1 costs 39."),
            (1, "39 for L1. What about L2?"),
            (2, "L1 costs 39 and L2 costs 52."),
            (2, "Adding 39 and 52."),
            (2, "All prices are known. Would you like the total?"),
        ),
    ),
    SpokenCase(
        "Which of L1 and L2 would suit a small desk?",
        {"lamp_size": "Return the size of a lamp."},
        (("lamp_size", {"lamp": "L1"}, "height 90 cm"), ("lamp_size", {"lamp": "L2"}, "height 35 cm")),
        "L2, because it is only 35 cm high. I'd put L1 on the floor.",
        ((1, "L1 is 90 cm high, quite tall. L2 remains."), (2, "Let me weigh that up.")),
    ),
    SpokenCase(
        "Remember that I am vegetarian.",
        {"keep_note": "Keep a note about the user."},
        (("keep_note", {"text": "vegetarian"}, "kept"),),
        "Noted! From now on I'll only suggest vegetarian dishes.",
        ((0, "Good to know."), (0, "I should keep that in mind.")),
    ),
    SpokenCase(
        "Start the dishwasher at 22:00.",
        {"dishwasher": "Start the dishwasher at a time."},
        (("dishwasher", {"at": "22:00"}, '{"scheduled": "22:00"}'),),
        "It's scheduled. The dishwasher will start at ten tonight.",
        ((0, "22:00, got it. Scheduling."),),
    ),
    SpokenCase(
        "Is the sauna free now?",
        {"sauna": "Return who is in the sauna."},
        (("sauna", {"day": "today"}, "two guests until 18:30"),),
        "Not yet, but it will be from half past six.",
        ((0, "Let me peek."), (0, "The sauna is popular in the evening.")),
    ),
)


_FARM = {
    "milk_of": "Return how many litres a cow gave on a day.",
    "vet_visits": "List the visits of the vet for an animal.",
    "call_vet": "Ask the vet to come.",
}
_BANK = {"balance": "Return the balance of an account.", "transfer": "Transfer money to an account."}
_MUSEUM = {"exhibits": "List the exhibits of a hall.", "opening_times": "Return the opening times of a day."}
_GYM = {"classes": "List the classes of a day.", "join_class": "Put a member on the list of a class."}

_THIRD: tuple[SpokenCase, ...] = (
    SpokenCase(
        "How much milk did Berta give yesterday?",
        _FARM,
        (("milk_of", {"cow": "Berta", "day": "yesterday"}, "23.5"),),
        "Berta gave 23.5 litres yesterday.",
        ((0, "Consulting the milk records."), (0, "Berta, let me see.")),
    ),
    SpokenCase(
        "Has Berta seen the vet this year?",
        _FARM,
        (("vet_visits", {"animal": "Berta"}, "14 February: hoof trimmed"),),
        "She has: her hooves were trimmed on 14 February. Is everything alright with her?",
        ((0, "I need her list of visits."),),
    ),
    SpokenCase(
        "Berta limps. Get the vet.",
        _FARM,
        (("call_vet", {"animal": "Berta", "why": "limps"}, "comes at 4 pm"),),
        "The vet will be with you at 4 pm. Until then, keep her off the hard floor.",
        ((0, "Oh no! I will contact the vet."), (0, "Poor Berta.")),
    ),
    SpokenCase(
        "What does it mean when a cow limps?",
        _FARM,
        (),
        "Most often there is something wrong with a hoof, such as an infection or a stone. If she does not get "
        "better within a day, have someone look at it.",
        (),
    ),
    SpokenCase(
        "What's on my savings account?",
        _BANK,
        (("balance", {"account": "savings"}, "8,214.70 EUR"),),
        "You have 8,214.70 euros in savings.",
        ((0, "Retrieving your balance…"), (0, "Savings, coming right up.")),
    ),
    SpokenCase(
        "Can I afford a bike for 900 euros from my savings?",
        _BANK,
        (("balance", {"account": "savings"}, "8,214.70 EUR"),),
        "Easily. Nearly 7,300 euros would be left.",
        ((0, "That depends on your balance."), (0, "First we look at the account.")),
    ),
    SpokenCase(
        "Transfer 50 euros to Ida.",
        _BANK,
        (("transfer", {"to": "Ida", "amount": 50.0}, "executed"),),
        "Sent! Ida should see the 50 euros by tomorrow.",
        ((0, "Transferring 50 euros to Ida."), (0, "Shall I go ahead with that?")),
    ),
    SpokenCase(
        "Überweise Ida 50 Euro.",
        _BANK,
        (("transfer", {"to": "Ida", "amount": 50.0}, "ok"),),
        "Die 50 Euro sind unterwegs zu Ida.",
        ((0, "Gern, die Überweisung wird vorbereitet."),),
    ),
    SpokenCase(
        "Which account holds more, savings or giro?",
        _BANK,
        (
            ("balance", {"account": "savings"}, "8,214.70 EUR"),
            ("balance", {"account": "giro"}, "1,033.10 EUR"),
        ),
        "Your savings account does, by a wide margin.",
        ((1, "8,214.70 EUR on the savings account; giro is next."), (2, "Comparing both balances now.")),
    ),
    SpokenCase(
        "What can I see in hall 3?",
        _MUSEUM,
        (("exhibits", {"hall": 3}, "bronze mirrors, a chariot, two burial masks"),),
        "Hall 3 shows bronze mirrors, a chariot and two burial masks. I'd start with the masks.",
        ((0, "Let me list the exhibits."), (0, "Hall 3 is a great choice!")),
    ),
    SpokenCase(
        "Is the museum open on Monday?",
        _MUSEUM,
        (("opening_times", {"day": "Monday"}, "closed"),),
        "Sorry, it's closed on Mondays. Would Tuesday work for you?",
        ((0, "Monday might be a day off, checking."),),
    ),
    SpokenCase(
        "¿A qué hora abre el museo el martes?",
        _MUSEUM,
        (("opening_times", {"day": "martes"}, "10-18"),),
        "El martes abre a las diez y cierra a las seis de la tarde.",
        ((0, "Consulto el horario."), (0, "Un momento, por favor.")),
    ),
    SpokenCase(
        "Is there yoga today?",
        _GYM,
        (("classes", {"day": "today"}, "07:00 spinning, 18:30 yoga (2 places), 20:00 boxing"),),
        "Yes, at 18:30, and two places are left. Shall I put you on the list?",
        ((0, "Yoga is good for you! One look at the classes."),),
    ),
    SpokenCase(
        "Sign me up for yoga today.",
        _GYM,
        (("join_class", {"class_name": "yoga"}, "added"),),
        "You're in. See you at yoga!",
        ((0, "Signing you up..."), (0, "Yoga today, great.")),
    ),
    SpokenCase(
        "Is there pilates today?",
        _GYM,
        (("classes", {"day": "today"}, "07:00 spinning, 18:30 yoga, 20:00 boxing"),),
        "There is no pilates today, but yoga comes closest.",
        ((0, "I'll have a look at today's plan."),),
    ),
    SpokenCase(
        "Good morning",
        _BANK,
        (),
        "Good morning! How may I help you?",
        (),
    ),
    SpokenCase(
        "Cheers, that was it.",
        _GYM,
        (),
        "You're welcome, take care!",
        (),
    ),
    SpokenCase(
        "Are you a human?",
        _MUSEUM,
        (),
        "No, I'm a computer program that knows about the museum.",
        (),
    ),
    SpokenCase(
        "Tell me a tongue twister.",
        _BANK,
        (),
        "She sells seashells by the seashore.",
        ((0, "Here's one for you:"),),
    ),
    SpokenCase(
        "Which is further from the sun, Earth or Mars?",
        _FARM,
        (),
        "Mars. It is about one and a half times as far away as we are.",
        ((0, "I should compare their orbits."),),
    ),
    SpokenCase(
        "What is 18 times 12?",
        _MUSEUM,
        (),
        "18 times 12 equals 216.",
        ((0, "Let me multiply."),),
    ),
    SpokenCase(
        "Turn this into a question: 'You like tea.'",
        _FARM,
        (),
        "Do you like tea?",
        (),
    ),
    SpokenCase(
        "Give me tips for a job interview.",
        _FARM,
        (),
        "- Read up on the company first\n- Prepare two or three stories about your work\n- Bring questions\n"
        "- Afterwards, send a short thank-you note",
        ((0, "Sure! Here are some tips:"),),
    ),
    SpokenCase(
        "What does APR stand for?",
        _BANK,
        (),
        "Annual percentage rate.",
        (),
    ),
    SpokenCase(
        "Wie heißt die Hauptstadt von Peru?",
        _GYM,
        (),
        "Lima.",
        (),
    ),
)


def _everyday() -> tuple[SpokenCase, ...]:
    """Return the cases of the file."""
    read = tomllib.loads((Path(__file__).parent / "everyday_answers.toml").read_text(encoding="utf-8"))
    return tuple(
        SpokenCase(
            case["task"],
            read["tools"][case["tools"]],
            tuple((name, given, result) for name, given, result in case["calls"]),
            case["answer"],
            tuple((made, text) for made, text in case.get("unfinished", ())),
        )
        for case in read["case"]
    )


SPOKEN: Mapping[Part, tuple[SpokenCase, ...]] = {
    "first": _FIRST,
    "second": _SECOND,
    "third": _THIRD,
    "everyday": _everyday(),
}
