"""150 tasks with the tool calls that each cannot be done without, to measure the rules by.

Every second task is held back: rules are tuned on the others only. A label counts the calls that a careful
person would insist on; where a tool only might help, or the task gives the figures itself, there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.json import Json
from reactive_agents.core.tools import ToolDefinition

Half: TypeAlias = Literal["tuning", "held-back"]


@frozen
class LabelledTask:
    """A task, the tools that it is given with, and the calls that it requires."""

    text: str
    tools: tuple[ToolDefinition, ...]
    calls: Mapping[str, int]
    half: Half


def _tool(
    name: str,
    description: str,
    *,
    risk: Literal["low", "medium"] = "low",
    output: bool = False,
    **parameters: Json,
) -> ToolDefinition:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in parameters.items()},
        "required": list(parameters),
    }
    return ToolDefinition(name, description, schema, risk=risk, output=output)


TOOLS: Mapping[str, ToolDefinition] = {
    each.name: each
    for each in (
        _tool("price", "Look up the price of one item in the catalogue.", item="string"),
        _tool("get_price", "Return the current price of a coin.", symbol="string"),
        _tool("prices_of", "Return the prices of several items.", items="array"),
        _tool("stock_of", "Tell how many pieces of an article are in stock.", article="string"),
        _tool("get_weather", "Get the weather of a city now.", city="string"),
        _tool("forecast", "Get the forecast for a city.", city="string", days="integer"),
        _tool("send_email", "Send an email.", risk="medium", to="string", subject="string", body="string"),
        _tool("search_inbox", "Search the inbox.", words="string"),
        _tool("web-search", "Search the web.", query="string"),
        _tool("http-get", "Get a text from an address.", url="string"),
        _tool("file-read", "Read lines of a text file.", path="string"),
        _tool(
            "file-write", "Write or append text.", risk="medium", output=True, path="string", text="string"
        ),
        _tool("calculator", "Work out an arithmetic expression.", expression="string"),
        _tool("hotels_in", "List the hotels of a place.", place="string"),
        _tool("book", "Book a room.", risk="medium", hotel="string", guest="string", nights="integer"),
        _tool("place_order", "Place an order.", risk="medium", customer="string", lines="array"),
        _tool("list_events", "List the events of a day.", day="string"),
        _tool(
            "create_event", "Create an event in the calendar.", risk="medium", title="string", day="string"
        ),
        _tool("translate", "Translate a text.", text="string", language="string"),
        _tool("population", "Look up the population of a country.", country="string"),
        _tool("get_customer", "Get the record of a customer.", customer_id="string"),
        _tool("delete_file", "Delete a file.", risk="medium", path="string"),
        _tool("roll_dice", "Roll a dice.", sides="integer"),
        _tool(
            "exchange_rate", "Get the exchange rate between two currencies.", base="string", other="string"
        ),
        _tool("query_db", "Run a query.", sql="string"),
        _tool("x17", "Internal.", value="string"),
        _tool("do-it", "Does it.", what="string"),
        _tool("weigh", "Weigh an article.", article="string"),
        _tool("run_tests", "Run the tests of a folder.", path="string"),
        _tool("cancel_order", "Cancel an order.", order_id="string"),
        _tool("refund_order", "Refund an order.", order_id="string"),
    )
}

_ROWS: tuple[tuple[str, str, Mapping[str, int]], ...] = (
    # --- look-ups of several things ---
    (
        "What do Kelto, Ramox, Torin and Vinell cost together? Look up each price and give the sum.",
        "price",
        {"price": 4},
    ),
    ("Look up each price of apples, pears, plums and grapes.", "price", {"price": 4}),
    ("prices for XRP, XLM, ETH and Bitcoin", "get_price", {"get_price": 4}),
    ("Give me the prices of BTC and ETH.", "get_price", {"get_price": 2}),
    ("What is the weather in Oslo, Rome and Paris?", "get_weather", {"get_weather": 3}),
    (
        "Get the weather for Lima, Quito and Bogota and tell me which city is the warmest.",
        "get_weather",
        {"get_weather": 3},
    ),
    ("Oslo, Rome and Paris weather", "get_weather", {"get_weather": 3}),
    ("Compare the population of France, Italy and Spain.", "population", {"population": 3}),
    ("Which has the larger population, Chile or Peru?", "population", {"population": 2}),
    ("How many pieces of Halina are in stock?", "stock_of price", {"stock_of": 1}),
    ("Check the stock of Bolts, Nuts and Screws.", "stock_of", {"stock_of": 3}),
    ("What is the price of Kelto?", "price", {"price": 1}),
    ("Tell me the price of the Vinell lamp and the price of the Torin chair.", "price", {"price": 2}),
    ("Compare the prices of milk, bread and butter.", "price", {"price": 3}),
    ("Find the forecast for Berlin and Munich for the next 3 days.", "forecast", {"forecast": 2}),
    ("Get the records of customers C-17, C-20 and C-31.", "get_customer", {"get_customer": 3}),
    ("Look up the prices of all five items: Alto, Bero, Calo, Dino and Evo.", "price", {"price": 5}),
    ("What does the exchange rate between EUR and USD look like now?", "exchange_rate", {"exchange_rate": 1}),
    ("What is the current price of Bitcoin?", "get_price", {"get_price": 1}),
    ("I need the weather of Oslo.", "get_weather", {"get_weather": 1}),
    ("Please check the price of the Kelto desk for me.", "price", {"price": 1}),
    ("Look up the prices of Alto and Bero at once.", "prices_of", {"prices_of": 1}),
    ("What are the prices of Alto, Bero and Calo?", "prices_of", {"prices_of": 1}),
    (
        "Look up the population of Ghana and the population of Togo, then add them.",
        "population calculator",
        {"population": 2},
    ),
    ("How is the weather in Madrid?", "get_weather forecast", {"get_weather": 1}),
    ("Is the price of Torin higher than that of Ramox?", "price", {"price": 1}),
    # --- files and addresses ---
    ("Read notes.md and say what it is about.", "file-read file-write", {"file-read": 1}),
    ("Read a.txt, b.txt and c.txt and compare them.", "file-read", {"file-read": 3}),
    (
        "Read jan.csv and feb.csv, add up the units, and write the sum into total.txt.",
        "file-read file-write",
        {"file-read": 2, "file-write": 1},
    ),
    ("Summarise report.txt into summary.md.", "file-read file-write", {"file-read": 1, "file-write": 1}),
    ("Write a poem about the sea to poem.txt.", "file-read file-write", {"file-write": 1}),
    ("Save a list of ten colours as colours.txt.", "file-read file-write", {"file-write": 1}),
    ("Summarise https://example.com/a.html", "http-get file-read", {"http-get": 1}),
    ("Compare https://example.com/a and https://example.com/b.", "http-get", {"http-get": 2}),
    ("Fetch https://example.com/data.json and count the entries.", "http-get web-search", {"http-get": 1}),
    ("Delete the file old.log.", "delete_file file-read", {"delete_file": 1}),
    ("What is in setup.cfg?", "file-read", {"file-read": 1}),
    ("Please open config.toml and tell me the port.", "file-read file-write", {"file-read": 1}),
    # --- doing something ---
    ("Send an email to Bob that the meeting is moved to 3 pm.", "send_email search_inbox", {"send_email": 1}),
    ("Email Alice the agenda of tomorrow.", "send_email", {"send_email": 1}),
    ("Book the cheapest hotel in Felurmont for Ada, two nights.", "hotels_in book", {"book": 1}),
    ("Please book a room in the Ritz for Mr Stone for one night.", "book hotels_in", {"book": 1}),
    (
        "Order 5 pieces of Lomax and 3 pieces of Nesira for Vinost, in one order.",
        "place_order",
        {"place_order": 1},
    ),
    ("Place an order of two chairs for Ada.", "place_order price", {"place_order": 1}),
    ("Create an event Dentist on Friday.", "create_event list_events", {"create_event": 1}),
    ("List the events of Monday and Tuesday.", "list_events create_event", {"list_events": 2}),
    ("Roll the dice twice with 6 sides.", "roll_dice", {"roll_dice": 2}),
    ("Roll a dice three times and give me the sum.", "roll_dice", {"roll_dice": 3}),
    ("Weigh the Kelto first, then tell me whether it is heavier than 3 kg.", "weigh", {"weigh": 1}),
    ("Run the tests of the folder tests/core.", "run_tests", {"run_tests": 1}),
    (
        "Look up the price of Kelto and send an email to Bob with it.",
        "price send_email",
        {"price": 1, "send_email": 1},
    ),
    (
        "Find the weather in Oslo and email it to Carol.",
        "get_weather send_email",
        {"get_weather": 1, "send_email": 1},
    ),
    # --- the tool is named ---
    ("Use x17 with the value 3.", "x17 do-it", {"x17": 1}),
    ("Call do-it with what=now.", "do-it x17", {"do-it": 1}),
    ("Use the calculator to work out how long it takes.", "calculator", {"calculator": 1}),
    ("Call query_db for the number of users.", "query_db", {"query_db": 1}),
    ("Run `run_tests` on tests/kernel.", "run_tests file-read", {"run_tests": 1}),
    ("Use web-search to find who won the cup.", "web-search", {"web-search": 1}),
    # --- the web ---
    ("Search the web for the newest release of Python.", "web-search file-read", {"web-search": 1}),
    ("What happened in AI this week? Search the web.", "web-search", {"web-search": 1}),
    ("Write a summary of today's news for Alice, Bob and Carol.", "web-search", {"web-search": 1}),
    ("What are the latest news about Rome?", "web-search", {"web-search": 1}),
    # --- arithmetic ---
    ("What is 17 * 23?", "calculator", {"calculator": 1}),
    ("What is 12 % of 250?", "calculator", {"calculator": 1}),
    ("Calculate 3.75 * 12.4 + 18.", "calculator", {"calculator": 1}),
    ("Compute (1234 + 877) / 3.", "calculator", {"calculator": 1}),
    # --- near misses: talk about it ---
    ("Explain how email works.", "send_email search_inbox", {}),
    ("Explain how to log in and send an email to Bob.", "send_email", {}),
    ("How do I send an email to Bob?", "send_email", {}),
    ("Write a poem about the price of love.", "price file-write", {}),
    ("Write a story in which Ada books a hotel in Rome.", "book hotels_in", {}),
    ("Why is the weather in Oslo so bad?", "get_weather", {}),
    ("Describe the weather in London in a novel of Dickens.", "get_weather", {}),
    ("What is a forecast?", "forecast", {}),
    ("What does the word price mean in economics?", "price", {}),
    ("Write a Python function get_price that returns the price of Bitcoin.", "get_price", {}),
    ("Show me code that calls get_weather for Oslo.", "get_weather", {}),
    ("What is the difference between price and value?", "price", {}),
    ("How does a calculator work?", "calculator", {}),
    ("Explain the history of the telephone book.", "book", {}),
    ("Recommend a book about Rome.", "book hotels_in", {}),
    ("Which book did Tolstoy write first?", "book", {}),
    ("Summarise the book War and Peace for Ada.", "book", {}),
    ("What is the order of the planets?", "place_order", {}),
    ("In which order should I read Tolkien?", "place_order", {}),
    ("Put these names in order: Carol, Alice, Bob.", "place_order", {}),
    ("Name three events of the French Revolution.", "list_events create_event", {}),
    ("List the events that led to the war of 1812.", "list_events", {}),
    ("Define population in statistics.", "population", {}),
    ("How do I delete a file in Linux?", "delete_file", {}),
    ("What would happen if I deleted the file old.log?", "delete_file", {}),
    ("Give an example of an email to a customer named Bob.", "send_email get_customer", {}),
    ("Draft an email to Bob about the delay.", "send_email", {}),
    ("Draft an email to Carol; I will send it myself.", "send_email", {}),
    # --- near misses: not to be done ---
    ("Do not search the web: what is the capital of France?", "web-search", {}),
    ("Without looking up the price, guess what Kelto costs.", "price", {}),
    ("Don't send the email to Bob yet, only tell me what it would say.", "send_email", {}),
    ("Never book a hotel in Rome. What else could Ada do there?", "book hotels_in", {}),
    ("If the price of Kelto is above 10, tell me; otherwise do nothing. Is it raining?", "price", {}),
    ("Send an email to Bob only if the tests fail.", "send_email run_tests", {}),
    ("There is no need to check the weather in Oslo; just say hello.", "get_weather", {}),
    ("Answer from memory, no tools: what is the population of Japan?", "population", {}),
    ("Instead of sending an email to Bob, write me the text here.", "send_email", {}),
    ("Tell me whether I should send an email to Bob.", "send_email", {}),
    ("Remind me to send an email to Bob.", "send_email", {}),
    ("I already sent the email to Bob. What can I do next?", "send_email", {}),
    ("Should I book the Ritz for Ada?", "book", {}),
    ("Rather than reading notes.md again, tell me what you know about Rome.", "file-read", {}),
    # --- near misses: the figures are there ---
    (
        "Kelto costs 3 euros and Ramox costs 4 euros. What is the price of Kelto and Ramox together?",
        "price",
        {},
    ),
    ("Given the prices Alto 3, Bero 5 and Calo 9: which price is the lowest?", "price", {}),
    ("Oslo has 3 degrees and Rome 20. Which city has the better weather?", "get_weather", {}),
    ("The stock of Bolts is 40, that of Nuts is 12. How many more Bolts are in stock?", "stock_of", {}),
    ("Ada has 3 apples and Bob has 4. How many do they have?", "calculator stock_of", {}),
    ("A train leaves at 3 and arrives at 7. How long does it take?", "calculator", {}),
    (
        "The population of Chad was 17 million and that of Mali 21. Which population is larger?",
        "population",
        {},
    ),
    ("Our price is 20 euros. Write a slogan for Kelto with this price.", "price", {}),
    # --- near misses: counts of other things ---
    ("Write a letter to Alice, Bob and Carol about the price of Kelto.", "price", {}),
    ("Tell Alice, Bob and Carol a joke about the weather.", "get_weather", {}),
    ("Make a table with the columns price, stock and weight.", "price stock_of", {}),
    ("Give three reasons why prices rise.", "price", {}),
    ("Plan a trip for Ada, Bob and Carol to Rome.", "book get_weather", {}),
    ("Explain the weather to Tom, Tim and Kim.", "get_weather", {}),
    # --- near misses: odd names, numbers that are no arithmetic ---
    ("We are open 24/7, also on 2024-12-31. Say it nicely.", "calculator", {}),
    ("Call me at 555-1234 or 555-9876.", "calculator", {}),
    ("Do it again, please.", "do-it", {}),
    ("Just do it!", "do-it x17", {}),
    ("What does x17 stand for in your tools?", "x17", {}),
    ("The score was 3-1 in 2019-2020. Who won?", "calculator", {}),
    ("Translate 'send an email to Bob' into German.", "send_email", {}),
    ('What is the past tense of "weigh"?', "weigh", {}),
    ("Capital of France?", "web-search get_price population", {}),
    ("Hello!", "price get_weather web-search", {}),
    ("Thanks, that was all.", "send_email", {}),
    ("How many letters has the word window? Change nothing for that.", "delete_file", {}),
    ("What tools do you have?", "price get_weather", {}),
    ("Can you send emails?", "send_email", {}),
    ("Weigh the pros and cons of tea and coffee.", "weigh", {}),
    ("Place your bets: who wins, Rome or Milan?", "place_order", {}),
    # --- other languages ---
    ("Was kostet Kelto? Schlage den Preis nach.", "price", {}),
    ("Quel temps fait-il à Paris, Rome et Oslo ?", "get_weather", {}),
    ("Explica cómo funciona el email.", "send_email", {}),
    ("Bitte keine Email an Bob senden, nur den Text zeigen.", "send_email", {}),
    ("Het book van Anna is mooi. Wat is de price-tag?", "book price", {}),
    ("東京の天気を教えてください。", "get_weather", {}),
    # --- and some of everything ---
    ("Get me the weather of Nairobi, please.", "get_weather price", {"get_weather": 1}),
    ("Find out the price of Zeta and of Eta.", "price", {"price": 2}),
    ("It is cold in Oslo today, isn't it? Write me a haiku.", "get_weather", {}),
    ("Look at the price tag: it says 30. Is that a lot?", "price", {}),
    ("What is the population of Japan compared with that of Korea?", "population", {"population": 2}),
    ("Who wrote the forecast for the party in Berlin?", "forecast", {}),
)

_FURTHER: tuple[tuple[str, str, Mapping[str, int]], ...] = (
    # --- words of tools in other senses ---
    ("List three prices that rose in Rome.", "price", {}),
    ("Write a report about the weather in Oslo.", "get_weather", {"get_weather": 1}),
    ("Which population lives in Peru?", "population", {}),
    ("Give me a list of cities with good weather in Europe.", "get_weather", {}),
    ("What is the price of freedom?", "price", {}),
    ("What is the weather?", "get_weather", {}),
    ("What is the order of Mercury, Venus and Mars?", "place_order", {}),
    ("Order the names Carol, Alice and Bob by length.", "place_order", {}),
    ("Order these cities: Rome, Oslo.", "place_order", {}),
    ("Book titles in italics, please: War and Peace.", "book", {}),
    ("Book of Job: summarise it.", "book", {}),
    ("Email addresses contain an @. True?", "send_email", {}),
    ("Email is older than the Web. True or false?", "send_email web-search", {}),
    ("Create a table of events in Rome.", "create_event list_events", {}),
    ("Create a story about an event in Paris.", "create_event", {}),
    ("Delete every second word of: Alpha Beta Gamma.", "delete_file", {}),
    ("Remove the file extension from the name Report.txt", "delete_file", {}),
    ("What is the weight of Kelto?", "weigh", {"weigh": 1}),
    ("Find events in Berlin on Friday.", "list_events", {"list_events": 1}),
    ("Name the events of Monday.", "list_events", {"list_events": 1}),
    ("Show the current weather and the price.", "get_weather price", {}),
    ("List the prices.", "price", {}),
    ("Read my mind.", "file-read", {}),
    ("Read the following and summarise: Prices rose in Rome.", "price file-read", {}),
    ("Compare prices and wages in England.", "price", {}),
    ("Who is the customer in the play of Molière?", "get_customer", {}),
    ("What customers does Apple have?", "get_customer", {}),
    ("Get ready for the weather of Oslo with three tips.", "get_weather", {}),
    ("Translate the price list into German.", "translate price", {}),
    ("Translate good morning into French and Spanish.", "translate", {"translate": 2}),
    ("What is the capital of the country with population 5 million?", "population", {}),
    ("Is the forecast of Delphi a myth?", "forecast", {}),
    ("Which forecast method is best in Excel?", "forecast", {}),
    ("What is Price's theorem?", "price", {}),
    ("Who is Vincent Price?", "price", {}),
    ("Roll up your sleeves and tell me a fact.", "roll_dice", {}),
    ("What is the probability of a 6 when I roll a dice?", "roll_dice", {}),
    ("Roll a sushi with 2 kinds of fish.", "roll_dice", {}),
    ("Use 3 words.", "x17", {}),
    ("Calculate the area under y = x^2 from 0 to 3.", "calculator", {}),
    ("On 12/24/2024 we meet at 10 - 12.", "calculator", {}),
    ("Pages 10 - 20 of the book cover 3 / 4 of it?", "calculator", {}),
    ("Search the web of lies in Hamlet.", "web-search", {}),
    ("What is the news value of gossip?", "web-search", {}),
    ("Is Windows 10 * good?", "calculator", {}),
    ("Who sends an email to Bob in the film?", "send_email", {}),
    ("Send my regards to Bob.", "send_email", {}),
    ("Send help: my email to Bob bounced!", "send_email", {}),
    ("Add Bob to the email list.", "send_email", {}),
    ("Tell Bob to send an email to Ann.", "send_email", {}),
    ("Ask Bob and send an email to Ann with what he says.", "send_email", {"send_email": 1}),
    ("Please tell me the weather words in French for Paris.", "get_weather", {}),
    ("What are prices, wages and rents?", "price", {}),
    ("What are the stock phrases of Homer and Virgil?", "stock_of", {}),
    ("Which stock exchange is in Paris?", "stock_of exchange_rate", {}),
    ("Check the stock cubes recipe of Maggi.", "stock_of", {}),
    ("How many people live in Oslo and Rome?", "population", {"population": 2}),
    ("In what year was the price of Gold fixed?", "price", {}),
    ("Hotels in Rome are expensive, true?", "hotels_in", {}),
    ("Find hotels in Rome.", "hotels_in book", {"hotels_in": 1}),
    ("Read chapter 3 of Emma.", "file-read", {}),
    ("Open the door to Narnia.", "file-read", {}),
    ("Write to Bob at bob@mail.com about notes.txt", "file-write send_email", {}),
    ("Rename a.txt to b.txt", "file-read file-write", {}),
    ("Compare my file a.txt with the rules of Chess.", "file-read", {"file-read": 1}),
    ("The file config.toml is broken. Any general tips?", "file-read", {}),
    ("Create a file hello.txt with the word hi.", "file-write file-read", {"file-write": 1}),
    ("Which is better, package.json or pyproject.toml?", "file-read", {}),
    ("Is node.py a good name for a module?", "file-read", {}),
    ("Who runs example.com?", "http-get", {}),
    ("Is https://example.com a valid address?", "http-get", {}),
    ("Put a link to https://example.com into a sentence.", "http-get", {}),
    ("My site is https://example.com. Write a slogan.", "http-get", {}),
    ("Schedule: Monday gym. Create an event name for it.", "create_event", {}),
    ("Place Oslo on the map of Europe.", "place_order hotels_in", {}),
    ("Book me.", "book", {}),
    ("Weigh Anna's arguments.", "weigh", {}),
    ("Run the numbers of Q3.", "run_tests", {}),
    ("Run a marathon in Berlin: give me a plan.", "run_tests", {}),
    # --- acts that are taken back, bound to a condition, asked about, or part of a text ---
    ("Could you cancel order 55? Wait, no - leave it.", "cancel_order", {}),
    ("Cancel order 55. Actually, don't.", "cancel_order", {}),
    ("Send an email to Bob. Sorry, forget that; tell me a joke.", "send_email", {}),
    ("Make a checklist: book a table at Luigi, send an email to Ana.", "send_email book", {}),
    ("Make a checklist: send an email to Ana, read report.txt.", "send_email file-read", {}),
    ("Once I say go, delete the file notes.txt.", "delete_file", {}),
    ("Is this an order or a question? Delete the file notes.txt.", "delete_file", {}),
    ("A customer writes: Cancel order 55. Draft a reply.", "cancel_order", {}),
    ("The ticket says: cancel order 55. Which department is that?", "cancel_order", {}),
    ("Turn into a polite question: Delete the file notes.txt.", "delete_file", {}),
    ("Rephrase: Delete the file notes.txt.", "delete_file", {}),
    ("Cancel order 55. Scratch that.", "cancel_order", {}),
    ("Cancel order 55. Changed my mind, it stays.", "cancel_order", {}),
    ("Cancel order 55. Just kidding!", "cancel_order", {}),
    ("Cancel order 55. Oh wait.", "cancel_order", {}),
    ("Refund the order 55, no, hold on.", "refund_order", {}),
    ("Send an email to Bob. Cancel that.", "send_email", {}),
    ("Delete the file notes.txt. Stop! Keep it.", "delete_file", {}),
    ("Delete the file notes.txt when I come back.", "delete_file", {}),
    ("Delete the file notes.txt as soon as the backup is there.", "delete_file", {}),
    ("Cancel order 55 in case it has not left the store.", "cancel_order", {}),
    ("Cancel order 55 or order 56, whichever is cheaper.", "cancel_order", {}),
    ("Cancel order 55 after the call with Ana.", "cancel_order", {}),
    ("Perhaps cancel order 55.", "cancel_order", {}),
    ("Write instructions to open the archive and delete the file notes.txt.", "delete_file", {}),
    ("Tell Bob to read a.txt and send an email to Ana.", "send_email", {}),
    ("Ask Ana to refund order 55, cancel order 56.", "cancel_order refund_order", {}),
    ("Put this on my agenda: send an email to Ana.", "send_email", {}),
    ("Name a button. Cancel order 55 is too long for it.", "cancel_order", {}),
    ("Give me the steps in order, send an email to Ana, book a room in the Ritz.", "send_email book", {}),
    ("Steps:\n- Send an email to Ana\n- Book a room in the Ritz", "send_email book", {}),
    ("Classify this.\nPlease cancel order 55.", "cancel_order", {}),
    ("Ana wrote this morning. Please cancel order 55.", "cancel_order", {}),
    ("Which intent is it: cancel order 55, refund order 56?", "cancel_order refund_order", {}),
    ("Say this in French: please cancel order 55.", "cancel_order", {}),
    ("Play a waiter. I say to you: book a room in the Ritz for Ana.", "book", {}),
    ("Read this aloud, “Send an email to Bob”, and comment on it.", "send_email", {}),
    ("Pick a subject line. Cancel order 55 today. Refund order 56 now.", "cancel_order refund_order", {}),
    ("What does it cost to cancel order 55?", "cancel_order", {}),
    ("My colleague is about to cancel order 55. Any risks?", "cancel_order", {}),
    ("Cancel culture: summarise the order of events of 2020.", "cancel_order", {}),
    ("What is the order of Mercury, Venus and Mars?", "cancel_order refund_order", {}),
    ("List the order of Rome, Oslo and Paris by size.", "refund_order", {}),
    ("Every time Ana complains, refund order 55.", "refund_order", {}),
    ("Suggest a subject. Send an email to Ana.", "send_email", {}),
    ("Repeat after me, cancel order 55.", "cancel_order", {}),
    ("Type the words cancel order 55.", "cancel_order", {}),
    ("Cancel order 55.", "cancel_order", {"cancel_order": 1}),
    ("Please cancel order 55. Thanks!", "cancel_order refund_order", {"cancel_order": 1}),
    (
        "Refund order 55 and send an email to Ana.",
        "refund_order send_email",
        {"refund_order": 1, "send_email": 1},
    ),
)

LABELLED: tuple[LabelledTask, ...] = tuple(
    LabelledTask(
        text, tuple(TOOLS[name] for name in names.split()), calls, "held-back" if place % 2 else "tuning"
    )
    for place, (text, names, calls) in enumerate(_ROWS)
)
"""150 tasks; none has been taken out, and labels are not changed for the rules."""

NEAR_MISSES: tuple[LabelledTask, ...] = tuple(
    LabelledTask(text, tuple(TOOLS[name] for name in names.split()), calls, "tuning")
    for text, names, calls in _FURTHER
)
"""More tasks for tuning, most of which require nothing."""
