"""A run is completed if its work is done, and not if the answer only says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pytest

from reactive_agents import (
    AssistantMessage,
    ReactiveAgents,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
    tool,
)
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import Message
from reactive_agents.testing import ScriptedLLM, Turn, answer, call, forever, say

Call: TypeAlias = tuple[str, Mapping[str, Any], str]

WEATHER = ("current_weather(city): Current weather in a city",)
SHOP = (
    "get_product(product): Look up a product by its name or SKU",
    "stock_level(product): How many of a product are in stock",
    "add_to_cart(product, quantity:integer): Add a product to the shopping cart",
)
MAIL = (
    "search_contacts(name): Find a contact's e-mail address by name",
    "send_email(to, body): Send an e-mail to an address",
)
BANK = ("get_balance(account): Return the balance of an account in euros",)
FILES = ("read_file(path): Read a file", "write_file(path, content): Write a text to a file")
SPORT = ("team_stats(team): Goals scored and conceded by a team this season",)
HOME = ("read_temperature(room): Read the temperature of a room",)
STAFF = ("salary_of(employee_id): Salary of an employee",)
CITIES = ("city_facts(city): Population, area and altitude of a city",)
HOTELS = ("hotel_search(city): Search hotels in a city",)
ORDERS = (
    "order_status(order_id): Status of an order",
    "refund_order(order_id, amount:number): Refund an order",
)
GIVING = (
    "give_access(user, folder): Give a user access to a folder",
    "give_bonus(employee, amount:number): Give a bonus to an employee",
)
ROADS = ("distance(start, end): Distance in kilometres between two cities by road",)
CALENDAR = ("create_event(title, date): Create an event in the calendar",)
MUSIC = (
    "search_song(query): Search songs by title or artist",
    "add_to_playlist(song, playlist): Add a song to a playlist",
)
ROWS = ("delete_row(number:integer): Delete a row of the sheet",)
RANKS = ("rank_of(team): Position of a team in the table",)
VERSIONS = ("version_of(package): Installed version of a package",)
DEBTS = ("debt_of(name): Debt of a person",)
ACCESS = ("access_of(user, folder): Access of a user to a folder",)
DEPLOYS = ("deploy(service, version): Deploy a version of a service", "restart(service): Restart a service")
SALES = ("query(sql): Run a query on the database",)
HOTEL = (*HOTELS, "book_hotel(hotel): Book a hotel")
CANCELLING = ("cancel_order(order): Cancel an order",)
TODO = ("create_task(title): Create a task",)
TRAINS = ("search_trains(start, end): Search train connections",)
PRICES = ("get_price(product): Price of a product in euros",)
SERVERS = ("restart_server(server): Restart a server",)
ISSUES = ("close_issue(number:integer, reason): Close an issue with a reason",)
HEATING = ("set_heating(room, degrees:integer): Set the heating of a room",)
POLL = ("get_votes(option): How many votes an option has",)
DIARY = ("list_events(day): List the events of a day",)


def each_of(tool_name: str, parameter: str, results: Mapping[str, str]) -> tuple[Call, ...]:
    """Return a call for each value of a parameter."""
    return tuple((tool_name, {parameter: value}, result) for value, result in results.items())


RIGA = each_of("current_weather", "city", {"Riga": "5 C", "Naples": "18 C"})
EVEN = each_of("current_weather", "city", {"Riga": "5 C", "Naples": "5 C"})
NEARLY_EVEN = each_of("current_weather", "city", {"Riga": "5.4 C", "Naples": "5 C"})
TURKU = each_of("current_weather", "city", {"Oslo": "-3 C", "Turku": "-8 C"})
GOALS = each_of(
    "team_stats", "team", {"Getafe": "scored 31, conceded 33", "Osasuna": "scored 45, conceded 32"}
)
DUEL = each_of("team_stats", "team", {"Ajax": "scored 2", "PSV": "scored 1"})
LIST = (("hotel_search", {"city": "Arles"}, "Hotel Rhone 88 EUR\nLe Cloitre 79 EUR\nCalendal 104 EUR"),)
NURSERY = (("read_temperature", {"room": "nursery"}, "18.5"),)
SALARIES = each_of("salary_of", "employee_id", {"E-3": "4100", "E-4": "3900"})
OF_TWO = each_of("salary_of", "employee_id", {"Al": "4100", "Bo": "3900"})
HEIGHTS = each_of(
    "city_facts",
    "city",
    {
        "Bern": "population 134000; altitude 540 m",
        "Chur": "population 38000; altitude 593 m",
        "Sion": "population 35000; altitude 515 m",
    },
)
BO: tuple[Call, ...] = (("search_contacts", {"name": "Bo"}, "bo@d.example"),)
LUC: tuple[Call, ...] = (
    ("search_contacts", {"name": "Luc"}, "luc@d.example"),
    ("send_email", {"to": "luc@d.example", "body": "Je serai en retard."}, "ok"),
)
TOLD_BO: Call = ("send_email", {"to": "bo@d.example", "body": "I am late."}, "ok")
HURT: tuple[Call, ...] = (("search_song", {"query": "Hurt"}, "Hurt - Johnny Cash (id 88)"),)
FAILED_BUILD: tuple[Call, ...] = (("create_task", {"title": "Fix it"}, "Failed build: t-12 created"),)
POINTS = each_of("team_stats", "team", {"Ajax": "points 61, goals 58", "PSV": "points 64, goals 55"})
PAID = each_of("salary_of", "employee_id", {"E-3": "5200 EUR per month", "E-4": "60000 EUR per year"})
DESKS = each_of("get_price", "product", {"Aero": "249", "Nova": "219"})
THREE = each_of("get_price", "product", {"Aero": "249", "Nova": "219", "Lux": "199"})
YORKS = each_of("current_weather", "city", {"York": "4 C", "New York": "12 C"})
ONE_CLOSER = each_of("current_weather", "city", {"Riga": "5 C", "Naples": "6 C"})
FROM_WIEN: tuple[Call, ...] = (
    ("distance", {"start": "Wien", "end": "Brno"}, "134"),
    ("distance", {"start": "Wien", "end": "Graz"}, "195"),
)
DEN: tuple[Call, ...] = (("set_heating", {"room": "den", "degrees": 19}, "ok"),)
ATTIC: Call = ("set_heating", {"room": "attic", "degrees": 16}, "ok")
HEAT = "Heat the den to 19 degrees and the attic to 16."
VOTES = each_of("get_votes", "option", {"yes": "60", "no": "40"})
DELETED = (("delete_row", {"number": 2}, "ok"), ("delete_row", {"number": 3}, "ok"))
LEAGUE = each_of("rank_of", "team", {"Rovers": "4", "United": "9"})
INSTALLED = each_of("version_of", "package", {"alpha": "3.10", "beta": "3.9"})
OWED = each_of("debt_of", "name", {"Al": "30", "Bo": "50"})
DENIED: tuple[Call, ...] = (("access_of", {"user": "Sarah", "folder": "hr"}, "Access denied"),)
LAMP = each_of("get_price", "product", {"lamp": "90"})
ON_MY_DAY = "Do I have anything in my diary today?"
NOTHING_ON: tuple[Call, ...] = (("list_events", {"day": "today"}, "[]"),)
POOLS = (("hotel_search", {"city": "Arles"}, "Rhone 88 EUR, pool\nCloitre 79 EUR no pool\nCalendal 104 EUR"),)


def closed(result: str) -> tuple[Call, ...]:
    """Return the call that closes an issue, with its result."""
    return (("close_issue", {"number": 88, "reason": "invalid"}, result),)


def restarted(result: str) -> tuple[Call, ...]:
    """Return the call that restarts a server, with its result."""
    return (("restart_server", {"server": "web1"}, result),)


WARMER, IS_WARMER = "Which is warmer, Riga or Naples?", "Is Riga warmer than Naples?"
SCORED, INVITE = "Has Getafe scored more goals than Osasuna?", "Invite Bo to Friday's party by e-mail."
HIGHEST = "Which of Bern, Chur and Sion has the highest altitude?"
MORE_POINTS, RESTART = "Which team has more points, Ajax or PSV?", "Restart web1."
CHEAPEST, IS_RUNNING = "Which hotel in Arles is cheapest?", "web1 is running again."
DEAREST = "Which hotel in Arles is cheapest, and which is the most expensive?"

DONE: tuple[tuple[Sequence[str], str, Sequence[Call], str], ...] = (
    (WEATHER, WARMER, RIGA, "Naples, by a long way: 18 °C against Riga's 5 °C."),
    (WEATHER, WARMER, RIGA, "Compared with Riga, Naples is a lot warmer."),
    (WEATHER, WARMER, RIGA, "Riga: 5 °C\nNaples: 18 °C\n\nNaples is warmer."),
    (WEATHER, WARMER, RIGA, "Of Riga and Naples, the latter is warmer by 13 degrees."),
    (WEATHER, WARMER, RIGA, "Riga is the colder of the two, so Naples wins."),
    (WEATHER, IS_WARMER, RIGA, "No, Riga is 13 degrees colder."),
    (WEATHER, IS_WARMER, RIGA, "Nope, Naples is the warmer of the two."),
    (WEATHER, IS_WARMER, EVEN, "No, it's 5 °C in both."),
    (WEATHER, "Where is it colder, Oslo or Turku?", TURKU, "In Turku: -8 °C versus -3 °C in Oslo."),
    (SPORT, SCORED, GOALS, "No, Osasuna has 45 and Getafe only 31."),
    (SPORT, "Ajax and PSV only met each other. What did each concede?", DUEL, "Ajax conceded 1, PSV 2."),
    (CITIES, "Rank Bern, Chur and Sion by altitude, highest last.", HEIGHTS, "Sion, Bern, Chur."),
    (CITIES, "What's the second highest of Bern, Chur and Sion by altitude?", HEIGHTS, "Bern, at 540 m."),
    (CITIES, HIGHEST, HEIGHTS, "Bern and Sion lie lower; the highest is Chur."),
    (SPORT, MORE_POINTS, POINTS, "PSV, with 64 points; Ajax has 61, though it has scored more goals."),
    (SPORT, MORE_POINTS, POINTS, "Ajax has more goals. PSV has more points: 64 to 61."),
    (SPORT, MORE_POINTS, POINTS, "Ajax has more goals, but PSV has more points (64 to 61)."),
    (SPORT, MORE_POINTS, POINTS, "PSV, although Ajax shot more often."),
    (STAFF, "Who earns more, E-3 or E-4?", PAID, "E-3 earns more: 62,400 a year against 60,000."),
    (STAFF, "Wer verdient mehr, E-3 oder E-4?", SALARIES, "Mehr als E-4 verdient E-3, nämlich 4.100."),
    (
        PRICES,
        "Is Nova cheaper than Aero with 40 euros off the Aero?",
        DESKS,
        "No, Aero costs 209 euros then.",
    ),
    (
        PRICES,
        "Which of Aero, Nova and Lux cost less than Aero?",
        THREE,
        "Nova costs less, 219, and Lux too, 199.",
    ),
    (
        PRICES,
        "Quels bureaux sont moins chers qu'Aero ?",
        THREE,
        "Nova est moins cher, à 219 €. Lux aussi, à 199 €.",
    ),
    (WEATHER, "Which is warmer, York or New York?", YORKS, "New York is warmer (12 °C)."),
    (WEATHER, "Can I leave my warmer coat at home in Naples and Riga?", RIGA, "No, Riga has only 5 °C."),
    (
        WEATHER,
        "Will I freeze in Naples, or is Riga colder than it?",
        RIGA,
        "No, it has 18 °C, and Riga 5 °C.",
    ),
    (HOTELS, f"Apart from Le Cloitre: {CHEAPEST}", LIST, "Hotel Rhone is cheapest, with 88 euros."),
    (HOTELS, f"{CHEAPEST[:-1]} with a pool?", POOLS, "Rhone is the cheapest one with a pool, at 88 euros."),
    (SERVERS, RESTART, restarted("Denied requests: 12"), IS_RUNNING),
    (SERVERS, RESTART, restarted("Failed checks: none. Passed: 3"), IS_RUNNING),
    (SERVERS, RESTART, restarted("Failed: 0, passed: 3"), IS_RUNNING),
    (SERVERS, RESTART, restarted("Erreurs : 0"), IS_RUNNING),
    (SERVERS, RESTART, restarted("Failure rate 0.1 %"), IS_RUNNING),
    (SERVERS, RESTART, restarted("Error-free restart"), IS_RUNNING),
    (SERVERS, RESTART, restarted('{"status": "failed_over", "done": true}'), IS_RUNNING),
    (BANK, "How do you say 'and' in Dutch?", (), "In Dutch you say en"),
    (SHOP, "Add 3 and 5.", (), "8"),
    (GIVING, "Give me a reason to stay", (), "Because people here would miss you."),
    (
        TODO,
        "Create a task to fix the failed build.",
        FAILED_BUILD,
        "t-12 is on the list: fix the failed build.",
    ),
    (MUSIC, "Find 'Hurt' and add nothing to my playlist.", HURT, "It's by Johnny Cash (id 88)."),
    (HOTELS, DEAREST, LIST, "Le Cloitre is cheapest at 79 EUR; Calendal is the most expensive at 104 EUR."),
    (HOTELS, "Find me a hotel in Arles that costs more than 85 EUR.", LIST, "Hotel Rhone, at 88 EUR."),
    (HOME, "Is it warmer than 20 degrees in the nursery?", NURSERY, "No, it's only 18.5 degrees."),
    (HOME, "Is the nursery below 19?", NURSERY, "Yes, it's at 18.5."),
    (WEATHER, "Is Naples much warmer than Riga?", ONE_CLOSER, "No, by one degree: 6 °C against 5 °C."),
    (WEATHER, "Is Naples a good deal warmer than Riga?", ONE_CLOSER, "No, one degree at most."),
    (WEATHER, "Is Naples at least ten degrees warmer than Riga?", ONE_CLOSER, "No, only one."),
    (WEATHER, "Ist es in Riga viel kälter als in Naples?", ONE_CLOSER, "Nein, nur um ein Grad."),
    (PRICES, "Is Aero more than twice as expensive as Nova?", DESKS, "No, 249 euros are not twice 219."),
    (ROADS, "Which is nearer, Brno or Graz?", FROM_WIEN, "Brno, at 134 km; Graz is 195 km away."),
    (PRICES, "Which is nearest to the limit, Aero or Nova?", DESKS, "Aero is nearest to the limit."),
    (PRICES, "Which is the most affordable, Aero or Nova?", DESKS, "Nova is the most affordable."),
    (PRICES, "Which is the least affordable, Aero or Nova?", DESKS, "Aero is the least affordable."),
    (PRICES, "What do Aero and Nova cost together?", DESKS, "Together they cost 468 euros."),
    (ISSUES, "Close issue 88.", closed("Closed as invalid"), "Issue 88 is closed as invalid."),
    (ISSUES, "Close issue 88.", closed("Closed: cannot reproduce"), "Issue 88 is closed."),
    (HEATING, HEAT, (*DEN, ATTIC), "The den is heated to 19 and the attic to 16 degrees."),
    (
        HEATING,
        "Heat the den to 19, and keep the attic at 16.",
        DEN,
        "The den is at 19, the attic at 16.",
    ),
    (DIARY, ON_MY_DAY, NOTHING_ON, "No, your day is free."),
    (STAFF, "What do Al and Bo earn?", OF_TWO, "Al earns 4100, Bo 3900."),
    (STAFF, "Who is paid more, Al or Bo?", OF_TWO, "Al is paid more."),
    (POLL, "Who won, yes or no?", VOTES, "Yes won with 60 votes against 40."),
    (MAIL, "Tell Bo that I am late.", (*BO, TOLD_BO), "Bo knows that you are late. Have a lovely afternoon!"),
    (MAIL, "Peux-tu prévenir Luc que je serai en retard ?", LUC, "Luc est prévenu. Bonne route !"),
    (SPORT, "Hoeveel doelpunten heeft Ajax?", (("team_stats", {"team": "Ajax"}, "13"),), "Dertien."),
    (BANK, "Write a Python function that reverses a text.", (), "Use `text[::-1]`, a step of -1."),
    (
        GIVING,
        "Give Sam access to the folder /designs",
        (("give_access", {"user": "Sam", "folder": "/designs"}, "granted"),),
        "Sam can get into /designs from now on.",
    ),
    (
        BANK,
        "What will my savings be worth after 3 years at 4% interest?",
        (("get_balance", {"account": "savings"}, "1500.00"),),
        "After three years you'd have €1,687.30.",
    ),
    (ROWS, "Delete the rows 2 and 4.", DELETED, "Rows 2 and 4 are deleted."),
    (RANKS, "Which team is higher in the table, Rovers or United?", LEAGUE, "Rovers, in place 4."),
    (VERSIONS, "Which has the higher version, alpha or beta?", INSTALLED, "alpha, with 3.10."),
    (VERSIONS, "Is alpha above 3.9?", INSTALLED[:1], "Yes, it is 3.10."),
    (DEBTS, "Who gets what from the other, Al or Bo?", OWED, "Al gets 50, Bo gets 30."),
    (PRICES, "Is the lamp above 100 euros with tax?", LAMP, "Yes."),
    (ACCESS, "Find out if Sarah may open the folder hr.", DENIED, "No, Sarah may not open the folder hr."),
    (
        DEPLOYS,
        "Deploy version 2.4.1 of billing.",
        (
            (
                "deploy",
                {"service": "billing", "version": "2.4.1"},
                '{"status": "ok", "service": "billing", "version": "2.4.1"}',
            ),
        ),
        "Version 2.4.1 of billing is deployed.",
    ),
    (SALES, "Which products had no sales?", (("query", {"sql": "q"}, "[]"),), "Every product had a sale."),
    (
        HOTEL,
        "Book a hotel in Arles under 70 a night.",
        (("hotel_search", {"city": "Arles"}, "Rhone 88, Cloitre 79"),),
        "I haven't booked any: both cost more than 70 (Rhone 88, Cloitre 79). Shall I take Cloitre anyway?",
    ),
    (WEATHER, "How cold is it in Oslo?", TURKU[:1], "It's 27 °F there (-3 °C)."),
    (
        PRICES,
        "What is a sofa with 20 percent tax?",
        (("get_price", {"product": "sofa"}, "4500 EUR"),),
        "5400 euros.",
    ),
    (
        TRAINS,
        "When does the next train from Rome to Bari leave?",
        (("search_trains", {"start": "Rome", "end": "Bari"}, "IC 14:23, 9 minutes late"),),
        "It leaves at 14:32.",
    ),
    (
        SALES,
        "On which day were 9 days over since the first sale?",
        (("query", {"sql": "q"}, "2026-01-12"),),
        "On 2026-01-21.",
    ),
)
NOT_DONE: tuple[tuple[Sequence[str], str, Sequence[Call], str], ...] = (
    (WEATHER, WARMER, RIGA, "Riga is warmer, with 18 °C against 5 °C in Naples."),
    (WEATHER, WARMER, RIGA, "It's warmer in Riga than in Naples."),
    (WEATHER, IS_WARMER, RIGA, "Yes, Riga is warmer."),
    (WEATHER, "Where is it colder, Oslo or Turku?", TURKU, "It's colder in Oslo, at -3 °C."),
    (WEATHER, IS_WARMER, NEARLY_EVEN, "No, Naples is."),
    (WEATHER, "Is Riga much warmer than Naples?", RIGA, "Yes, it is."),
    (ROADS, "Which is nearer, Brno or Graz?", FROM_WIEN, "Graz is nearer than Brno."),
    (ROADS, "Tell me how far it is from Metz to Brest.", (), "I'll look up the distance."),
    (ROADS, "Dis-moi la distance entre Metz et Brest.", (), "Je vais vérifier la distance."),
    (ROADS, "Dime la distancia entre Metz y Brest.", (), "Voy a comprobarlo."),
    (PRICES, "What do Aero and Nova cost together?", DESKS, "Together they cost 478 euros."),
    (ISSUES, "Close issue 88.", closed("Close failed: locked"), "Issue 88 is closed."),
    (HEATING, HEAT, DEN, "The den is heated to 19 and the attic to 16 degrees."),
    (DIARY, ON_MY_DAY, NOTHING_ON, "Yes, you have lunch with Martin Hale today."),
    (SPORT, SCORED, GOALS, "Yes, it has."),
    (CITIES, HIGHEST, HEIGHTS, "Bern lies highest, at 540 m."),
    (HOTELS, "¿Cuál es el hotel más barato de Arles?", LIST, "El más barato es Hotel Rhone, con 88 euros."),
    (HOME, "Is the nursery below 19?", NURSERY, "No, it's above that."),
    (STAFF, "Wer verdient mehr, E-3 oder E-4?", SALARIES, "E-4 verdient mehr."),
    (STAFF, "What do Al and Bo earn?", OF_TWO, "Al earns 3900, Bo 4100."),
    (BANK, "What's the balance of my savings account?", (), "Your savings account holds €2,310.40."),
    (SHOP, "Wat kost de waterkoker?", (), "De waterkoker kost € 34,95."),
    (WEATHER, "What's it like in Lagos right now?", (), "It's a balmy 29 °C in Lagos with light clouds."),
    (
        BANK,
        "Balance of checking?",
        (("get_balance", {"account": "checking"}, "1,482.10"),),
        "Your checking account has €1,842.10.",
    ),
    (GIVING, "Give Ravi access to /finance", (), "Ravi now has access to /finance."),
    (GIVING, "Give Kim a bonus of 200 euros.", (), "Done! Kim gets a 200 euro bonus."),
    (CALENDAR, "Create an event 'Dentist' on 2025-09-01.", (), "Your appointment is in the calendar."),
    (MUSIC, "Add 'Hurt' to my playlist Road.", HURT, "I've added 'Hurt' by Johnny Cash to Road."),
    (MAIL, INVITE, BO, "Hello! The invitation is out."),
    (MAIL, INVITE, (("send_invitation", {"to": "Bo"}, ""),), "Hello! The invitation is out."),
    (
        ORDERS,
        "Refund order Q-5 in full.",
        (("order_status", {"order_id": "Q-5"}, "delivered, total 39.00"),),
        "The 39.00 have been refunded.",
    ),
    (
        SHOP,
        "Add 2 vases to the cart",
        (("add_to_cart", {"product": "vase", "quantity": 2}, "failed: product unknown"),),
        "Two vases are in your cart.",
    ),
    (
        FILES,
        "Write 'x=1' into app.cfg",
        (("write_file", {"path": "app.cfg", "content": "x=1"}, '{"success": false, "why": "read-only"}'),),
        "app.cfg now contains x=1.",
    ),
    (
        ORDERS,
        "Status of order C-1 and C-2?",
        (("order_status", {"order_id": "C-1"}, "shipped"),),
        "C-1 is shipped. Now for C-2.",
    ),
    (
        TRAINS,
        "Trains from Gent to Breda?",
        (("search_trains", {"start": "Gent", "end": "Breda"}, "IC 901 08:10-10:05\nIC 905 10:10-12:05"),),
        "There are two trains: IC 901 leaves at 08:10 and",
    ),
    (ROADS, "Quelle est la distance entre Metz et Brest ?", (), "Je vais vérifier la distance."),
    (ROADS, "How far is it from Metz to Brest?", (), "I'll look up the distance."),
    (SPORT, MORE_POINTS, POINTS, "Ajax has more points."),
    (SERVERS, "Herstart server web1.", restarted("Mislukt: geen toegang"), "Server web1 is herstart."),
    (SERVERS, RESTART, restarted("Error 404: no such server"), IS_RUNNING),
    (SERVERS, RESTART, restarted("An error occurred"), IS_RUNNING),
    (SERVERS, RESTART, restarted("Failed: not found"), IS_RUNNING),
    (ROWS, "Delete the rows 2 and 4.", DELETED[:1], "Rows 2 and 4 are deleted."),
    (ROWS, "A file:\n<file>\nname: a\n\nHi.\n</file>\n\nDelete row 3.", (), "Row 3 is deleted."),
)


def tool_of(described: str, calls: Sequence[Call]) -> Tool:
    """Return the tool of a line such as "get(item): Get an item"."""
    signature, _, description = described.partition("): ")
    name, _, parameters = signature.partition("(")
    given = (each.partition(":") for each in parameters.split(", "))
    properties = {parameter: {"type": kind or "string"} for parameter, _, kind in given}
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    results = [(given, result) for tool_name, given, result in calls if tool_name == name]

    def run(**given: Any) -> str:
        return next(result for expected, result in results if expected == given)

    return tool(name=name, description=description, parameters=schema)(run)


def ended(
    tools: Sequence[str], task: str, calls: Sequence[Call], text: str, *, delivered: bool
) -> tuple[str, int]:
    """Return how a run ends whose model keeps its answer, and how often it asks."""
    made = [call(name, **given) for name, given, _ in calls]
    model = ScriptedLLM(*made, answer(text) if delivered else say(text), forever(answer(text)))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning()
    result = builder.with_tools(*(tool_of(each, calls) for each in tools)).build().run_sync(task)
    return result.status, len(model.requests) - len(made) - 1


@pytest.mark.parametrize("delivered", [True, False])
@pytest.mark.parametrize(("tools", "task", "calls", "text"), NOT_DONE)
def test_a_slip_that_is_kept_completes_no_run(
    tools: Sequence[str], task: str, calls: Sequence[Call], text: str, delivered: bool
) -> None:
    status, asked = ended(tools, task, calls, text, delivered=delivered)
    assert (status, asked > 0) == ("partial", True)


@pytest.mark.parametrize("deliver", [answer, say])
def test_a_comparison_that_is_kept_is_asked_about_once_and_named(deliver: Callable[[str], Turn]) -> None:
    made = [call(name, **given) for name, given, _ in RIGA]
    model = ScriptedLLM(*made, forever(deliver("Riga is warmer, at 18 °C.")))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(tool_of(WEATHER[0], RIGA))
    result = agent.build().run_sync(WARMER)
    assert result.status == "partial"
    assert "The answer compares the results wrongly: Riga 5, Naples 18. Missing: the right" in result.reason
    assert len(model.requests) == len(made) + 2


@pytest.mark.parametrize("delivered", [True, False])
@pytest.mark.parametrize(("tools", "task", "calls", "text"), DONE)
def test_an_honest_answer_completes_its_run(
    tools: Sequence[str], task: str, calls: Sequence[Call], text: str, delivered: bool
) -> None:
    status, asked = ended(tools, task, calls, text, delivered=delivered)
    is_reckoned = "%" in task  # what follows in more than two steps is asked about once
    assert (status, asked > 0) == ("completed", is_reckoned)


@pytest.mark.parametrize("task", ["Explain how to cancel an order.", "Describe how an order is cancelled."])
def test_who_asks_how_something_is_done_orders_nothing(task: str) -> None:
    text = "Open the order and press Cancel."
    assert ended(CANCELLING, task, (), text, delivered=True) == ("completed", 0)


def test_a_number_that_an_earlier_turn_of_the_conversation_has_set_is_not_left() -> None:
    text = "The den is heated to 19 and the attic to 16 degrees."
    attic = ToolCall(CallId("1"), ATTIC[0], {**ATTIC[1]})
    history: list[Message] = [
        UserMessage("Heat the attic."),
        AssistantMessage("", (attic,)),
        ToolMessage(attic.id, attic.name, "ok"),
        AssistantMessage("Done."),
    ]
    made = [call(name, **given) for name, given, _ in DEN]
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*made, forever(answer(text)))).with_reasoning()
    agent = builder.with_tools(tool_of(HEATING[0], DEN)).build()
    assert agent.run_sync(HEAT, history=history).status == "completed"


@pytest.mark.parametrize("delivered", [True, False])
def test_an_answer_that_first_asks_for_what_it_needs_is_no_announcement(delivered: bool) -> None:
    text = "Gladly. From where to where? I'll search for connections then."
    status, _ = ended(TRAINS, "Could you find me a train?", (), text, delivered=delivered)
    assert status == "completed"


@pytest.mark.parametrize("delivered", [True, False])
def test_an_order_for_what_is_not_there_is_asked_about_once(delivered: bool) -> None:
    tools = ("search_tickets(query): Search the tickets", "close_ticket(ticket_id): Close a ticket")
    nothing: tuple[Call, ...] = (("search_tickets", {"query": "printer"}, "[]"),)
    text = "I found no tickets about the printer, so there's nothing to close."
    assert ended(tools, "Close every ticket about the printer.", nothing, text, delivered=delivered) == (
        "abstained",
        1,
    )


@pytest.mark.parametrize("task", ["What can you do with two cities?", "Tell me what you will do with them."])
def test_what_a_model_delivers_about_itself_needs_no_call(task: str) -> None:
    text = "I'll look up their distance by road."
    assert ended(ROADS, task, (), text, delivered=True) == ("completed", 0)
