"""Answers, announcements, calls as text, and figures without a source."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest
from attrs import evolve

from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.announcements import asks_advice
from reactive_agents.kernel.answer_check import (
    concludes,
    has_no_tool,
    is_composed,
    is_refusal,
    judge_text,
    lacks_total,
    tells_failure,
    unmade_call,
)
from reactive_agents.kernel.call_parsing.spelled_calls import lone_answer, spelled_answer, spelled_calls
from reactive_agents.kernel.clauses import (
    asks_mean,
    clauses_of,
    is_beside_tools,
    is_english,
    is_open_for,
    lacks_figure,
    may_be_order,
    names_particulars,
    only_asks,
)
from reactive_agents.kernel.contradictions import miscopied, mistotalled
from reactive_agents.kernel.evidence import (
    Seen,
    ends_with_evidence,
    unknown_people,
    unsupported_figures,
)
from tests.support.operations import assert_linear, operations_of

PRICES = Seen(
    "What do A-10 and B-20 cost together?",
    ('{"item": "A-10", "price": 12.5}', '{"item": "B-20", "price": 30.25}'),
)
TOOLS = {"get_price": "Get a price.", "search": "Search the web.", "final-answer": "Deliver the answer."}


@pytest.mark.parametrize(
    "answer",
    [
        "Together 42.75 euros.",
        "A-10 costs 12.50 and B-20 costs 30.25.",
        "1. A-10: 12.5\n2. B-20: 30.25",
        "The mean is 21.375, about 21.4.",
        "B-20 is 142 % dearer, by 17.75.",
        "There are 3 parts in all.",
        "It costs 12,50 euros.",
        "Two of each are 85.5.",
        "",
        "Nothing to count here.",
    ],
)
def test_what_was_seen_or_follows_from_it_is_supported(answer: str) -> None:
    assert unsupported_figures(answer, PRICES) == ()


@pytest.mark.parametrize(
    ("answer", "figures"),
    [
        ("Together 57.18 euros.", ("57.18",)),
        ("C-30 costs 99.99, A-10 costs 12.5.", ("C-30", "99.99")),
        ("The confirmation is R11077.", ("R11077",)),
        ("It was on 2024-05-13, and 2024-05-13 it is.", ("2024-05-13",)),
    ],
)
def test_what_nothing_seen_supports_is_named_once_and_in_order(answer: str, figures: tuple[str, ...]) -> None:
    assert unsupported_figures(answer, PRICES) == figures


@pytest.mark.parametrize(
    ("task", "results", "right", "wrong"),
    [
        ("Wie hoch ist der Gesamtumsatz?", ("120000", "150000"), "270.000 €", "280.000 €"),
        ("Quel est le total ?", ("120000", "150000"), "270 000 €", "280 000 €"),
        ("Quel est le total ?", ("120000", "150000"), "270\u202f000 €", "280\u202f000 €"),
        ("What is the total?", ("120000", "150000"), "€270k", "€271k"),
        ("What is the total?", ("120000", "150000"), "0.27 million", "0.28 million"),
        ("Wie viele sind es?", ("1.250 Stück", "2.300 Stück"), "3550 Stück", "4550 Stück"),
        ("Wie viele sind es?", ("1250",), "1.250 Stück", "1.390 Stück"),
        ("How heavy is it?", ("weight: 1.250 kg",), "1,25 kg", "3,71 kg"),
        ("いくつありますか？", ("1250",), "１２５０個です。", "１２６０個です。"),
        ("كم العدد؟", ("1250",), "يوجد ١٢٥٠.", "يوجد ١٢٦٠."),
        ("What share is it?", ("1250", "830"), "60.1% of it", "61.1% of it"),
        ("What are the shares?", ("[120, 150, 90, 300]",), "18.2%, 22.7%, 13.6%, 45.5%", "61.9%"),
        ("How warm is it in Fahrenheit?", ("17.4 °C",), "63.3 °F", "68.3 °F"),
        ("Quand ?", ("18:30",), "à 18h30", "à 97h83"),
        ("What share of the 400 was late?", ("late: 34",), "8.5 % of it", "12 % of it"),
        ("By how much did it grow?", ("200", "260"), "It grew by 30 %.", "It grew by 39 %."),
        ("How far is it in km?", ("24 miles",), "38.6 km (24 miles)", "24 km"),
        ("How warm is it?", ("86 degrees Fahrenheit",), "30 °C, which is 86 °F", "86 degrees Celsius"),
        ("How heavy is it?", ("18 lb",), "About 8.2 kg", "It is 18 kg"),
        ("Wie weit ist es?", ("24 km",), "24 Kilometer", "24 Meilen"),
        ("How far are both?", ("38.6 miles", "24 miles"), "62.1 km and 38.6 km", "67.3 km"),
        ("How far is it in km?", ("18 miles, 900 m up",), "About 29 km", "11.2 km"),
        ("What is it after the discount?", ("649 EUR, discount 15 %",), "551.65 EUR", "634 EUR"),
        ("What is it with VAT?", ("net 350 EUR, VAT 20 %",), "420 EUR", "370 EUR"),
        ("What is left?", ("80 items, 25 of them sold at 25 % off",), "55 items", "57 items"),
        ("What do they cost?", ("Nova: 399 EUR, Orbit: 549 EUR",), "150 EUR more", "499 EUR"),
        ("How long is it?", ("Dunes (2019), 137 minutes",), "2 hours 17 minutes", "2 hours 37 minutes"),
        ("What does the parcel of 2 kg cost?", ("30 pounds and 15 pounds",), "45 pounds", "74 pounds"),
        ("How did it change?", ("6.2 %, then 5.7 %",), "It fell by 0.5 percentage points", "by 0.7 %"),
        ("How long is it?", ("142 min",), "2 hours and 22 minutes", "2 hours and 27 minutes"),
    ],
)
def test_a_number_is_known_in_the_way_that_others_write_it(
    task: str, results: tuple[str, ...], right: str, wrong: str
) -> None:
    assert unsupported_figures(right, Seen(task, results)) == ()
    assert unsupported_figures(wrong, Seen(task, results)) != ()


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("Paid on 13/05/2024 at 10:00.", "2024-05-13T10:00:00"),
        ("It is 1,234,567 people.", "population 1234567"),
        ("It takes 90 minutes.", "duration 1.5 h"),
        ("There are 23 files.", "\n".join(f"file {chr(97 + n)}" for n in range(23))),
        ("There are 23 files.", "\n\n".join(f"file named {chr(97 + n)}" for n in range(23))),
        ("Sending it costs 16.325.", "price 87.5, shipping 4.95, insurance 13 % of the price"),
        ("COVID-19 is named.", "covid-19 is named"),
    ],
)
def test_other_ways_of_writing_and_counting_are_supported(answer: str, result: str) -> None:
    assert unsupported_figures(answer, Seen("Look it up.", (result,))) == ()


def test_among_many_numbers_only_names_are_judged() -> None:
    many = Seen("", (" ".join(str(n * n + 0.5) for n in range(60)),))
    assert unsupported_figures("It is 777.77 by order Z-777.", many) == ("Z-777",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A-10 costs 12.5 euros.", True),
        ("I looked it up. Together 42.75.", True),
        ("A-10 costs 12.5 euros. Now I will add them.", False),
        ("Now I look up B-20.", False),
        ("Shall I look up 30.25?", False),
        ("The prices are 12.5 and 30.25:", False),
        ("", False),
    ],
)
def test_evidence_is_at_the_end(text: str, expected: bool) -> None:
    assert ends_with_evidence(text, PRICES) is expected


def test_evidence_can_be_words_but_not_a_few_common_ones() -> None:
    seen = Seen("What is the capital of Australia?", ("With this in mind, Canberra was chosen.",))
    assert ends_with_evidence("The capital is Canberra.", seen)
    assert not ends_with_evidence("Let me check this with another source before going on.", seen)
    assert not ends_with_evidence("The capital of Australia.", seen)
    assert not ends_with_evidence("The capital is Canberra.", Seen("What is the capital?"))
    kettle = Seen("Where is the kettle?", ("the copper kettle is on the upper shelf",))
    assert ends_with_evidence("The copper one is upon that upper shelf.", kettle)
    assert not ends_with_evidence("A copper shelf needs gentle descaling beforehand.", kettle), "two of five"


def test_a_small_number_is_evidence_beside_a_short_result_only() -> None:
    assert ends_with_evidence("It is 3.", Seen("Add them.", ("3",)))
    assert not ends_with_evidence("Step 3 comes now.", Seen("Add them.", ("3 " + "x " * 300,)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Next I will use get_price.", "announcement"),
        ("I'll call get price now", "announcement"),
        ("Would you like me to go on?", "announcement"),
        ("Looking it up:", "announcement"),
        ("One moment…", "announcement"),
        ("With 12.5 found, get_price comes next.", "unclear"),
        ("I have nothing more to say.", "unclear"),
        ("A-10 costs 12.5 euros.", "answer"),
        ("Together 42.75.", "answer"),
        ("The search gave 12.5.", "answer"),
        ("It was not to be found.", "answer"),
        ("Together 42.75. If you need anything else, I will look it up.", "answer"),
        ("", "announcement"),
    ],
)
def test_texts_without_a_call(text: str, expected: str) -> None:
    assert judge_text(text, TOOLS, PRICES) == expected


def _labelled(half: str) -> list[tuple[bool, str, dict[str, str], Seen]]:
    """Return the texts of a half: whether each announces, the text, the tools and what was seen."""
    found = []
    for block in (Path(__file__).parent / "answer_texts" / f"{half}.txt").read_text("utf-8").split("\n\n"):
        lines = [line.partition(" ")[::2] for line in block.splitlines()]
        of = {mark: [text for each, text in lines if each == mark] for mark, _ in lines}
        tools = dict(each.split(": ", 1) for each in of["tool:"]) | {"final-answer": "Deliver the answer."}
        seen = Seen(of["task:"][0], tuple(of.get("result:", ())))
        found += [
            (mark == ">", text.replace("\\n", "\n"), tools, seen)
            for mark, text in lines
            if mark in (">", "=")
        ]
    return found


@pytest.mark.parametrize("half", ["tuning", "held_back"])
def test_labelled_texts_in_twelve_languages(half: str) -> None:
    """The tables were made with the first half in sight; of the second only the totals were looked at."""
    texts = _labelled(half)
    announcements = [judge_text(text, tools, seen) for announces, text, tools, seen in texts if announces]
    answers = [judge_text(text, tools, seen) for announces, text, tools, seen in texts if not announces]
    assert min(len(announcements), len(answers)) > 100
    assert announcements.count("answer") / len(announcements) < (0.03 if half == "tuning" else 0.1)
    assert 1 - answers.count("answer") / len(answers) < 0.03
    assert announcements.count("announcement") / len(announcements) > 0.75


def test_a_participle_of_the_task_is_a_noun() -> None:
    seen = Seen("Put a meeting on my calendar.", ("created #81",), given='{"title": "meeting"}')
    assert judge_text("Done: meeting at 10.", {"create": "Create an event."}, seen) == "answer"
    assert judge_text("Done: checking it again.", {"create": "Create an event."}, seen) == "announcement"


LAMP = {"get_price": "Get the price of an item.", "final-answer": "Deliver the answer."}
PRICE = Seen("램프와 책상 가격을 알려줘.", ("lamp: 39.90 EUR",), given='{"item": "lamp"}')


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("램프 가격이 얼마예요?", "램프 가격을 조회하겠습니다."),
        ("كم سعر المصباح؟", "سأبحث عن سعر المصباح الآن."),
        ("लैंप की कीमत क्या है?", "मैं लैंप की कीमत खोजूंगा।"),
        ("Giá đèn là bao nhiêu?", "Tôi sẽ tra cứu giá của đèn."),
        ("Berapa harga lampu?", "Saya akan mencari harga lampu."),
        ("Vad kostar lampan?", "Jag ska kolla upp priset på lampan."),
        ("Πόσο κοστίζει η λάμπα;", "Ας ελέγξω την τιμή."),
        ("台灯多少钱？", "我现在查询台灯的价格。"),
        ("台灯多少钱？", "正在查询价格。"),
    ],
)
def test_announcements_in_more_languages(task: str, text: str) -> None:
    assert judge_text(text, LAMP, Seen(task)) == "announcement"


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("ราคาโคมไฟเท่าไหร่", "โคมไฟราคาไม่แพงมากครับ"),
        ("Πόσο κοστίζει η λάμπα;", "Θα ψάξω την τιμή της λάμπας."),
        ("מה מחיר המנורה?", "אבדוק את מחיר המנורה."),
    ],
)
def test_before_a_call_a_text_in_a_script_without_signs_is_asked_about(task: str, text: str) -> None:
    assert judge_text(text, LAMP, Seen(task)) == "unclear"


def test_nor_is_a_word_of_the_task_enough_there_after_one() -> None:
    assert judge_text("책상 가격은 곧 나옵니다.", LAMP, PRICE) == "unclear"
    assert not concludes("책상 가격은 곧 나옵니다.", LAMP, PRICE)
    assert judge_text("램프는 39.90유로입니다.", LAMP, PRICE) == "answer"


@pytest.mark.parametrize(
    ("task", "text", "results"),
    [
        ("打开厨房的灯。", "好的，我已经打开了厨房的灯。", ("ok",)),
        ("创建一个工单。", "我已经创建了工单 SUP-482。", ("SUP-482",)),
        ("奥斯陆天气怎么样？", "奥斯陆目前正在下雨，气温17.4℃。", ('{"temp": 17.4}',)),
        ("螺栓超过1000个吗？", "是的。", ("1250",)),
        ("هل يوجد أكثر من 1000 برغي؟", "نعم.", ("1250",)),
    ],
)
def test_what_was_done_and_a_yes_are_answers_in_more_languages(
    task: str, text: str, results: tuple[str, ...]
) -> None:
    seen = Seen(task, results)
    assert judge_text(text, {"tool": "Do it."}, seen) == "answer" or concludes(text, {"tool": "Do it."}, seen)


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("Was kostet die Lampe?", "Leider habe ich keinen Zugriff auf aktuelle Preise."),
        ("Combien coûte la lampe ?", "Je n'ai pas accès aux prix actuels."),
        ("台灯多少钱？", "抱歉，我无法访问实时价格。"),
        ("램프 가격이 얼마예요?", "실시간 가격은 확인할 수 없습니다."),
    ],
)
def test_refusals_in_more_languages(task: str, text: str) -> None:
    assert is_refusal(text, Seen(task))


@pytest.mark.parametrize("results", [(), ("4 pieces", "17 pieces")])
def test_a_text_that_needs_no_look_up_is_an_answer_at_once(results: tuple[str, ...]) -> None:
    seen = Seen("What is 1 + 2?", results)
    assert judge_text("The answer is 3.", {"work": "Do some work."}, seen) == "answer"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"name": "lookup", "arguments": {"a": 1}}', "lookup"),
        ('Calling tool: {"tool": "lookup", "args": {}}', "lookup"),
        ('<tool_call>\n{"name": "lookup", "argum', "lookup"),
        ("<tool_call>\n", ""),
        ("Action: lookup\nAction Input: a", ""),
        ('<tool_call>{"name": "lookup", "arguments": {}}</tool_call>', "lookup"),
        ('The file holds {"name": "Ada", "arguments": 3}, which is JSON.', None),
        ('{"name": "Ada", "age": 36}', None),
        ('functions.lookup:0 {"a": 1', ""),
        ("functions.py:12: it is never used", None),
        ("Just prose (with brackets).", None),
        ("", None),
    ],
)
def test_calls_that_nobody_could_read(text: str, name: str | None) -> None:
    assert unmade_call(text) == name


@pytest.mark.parametrize(
    "text",
    ['[{"action": "start"}, {"action": "stop"}]', '<target name="x"><invoke class="a"/></target>'],
)
def test_data_that_is_delivered_is_no_call(text: str) -> None:
    assert unmade_call(text, delivered=True, quotes=False) is None


RESERVE = ToolDefinition(
    "reserve",
    "Reserve a table.",
    {
        "type": "object",
        "properties": {"restaurant_id": {"type": "string"}, "guests": {"type": "integer"}},
        "required": ["restaurant_id", "guests"],
    },
)
FOUND = Seen("Get a table for 6 people.", ('{"id": "r979"}',))


def unmade(text: str, seen: Seen = FOUND, *, told: str = "", delivered: bool = False) -> str | None:
    """Return the name in a text that is what looks like a call of ``reserve``."""
    return unmade_call(text, spelled_calls(text, (RESERVE,)), seen, told=told, delivered=delivered)


@pytest.mark.parametrize(
    "text",
    [
        'reserve: {"restaurant_id": "r979", "guests": 6}',
        'reserve {"restaurant_id": "r979", "guests": 6}',
        '**reserve**\n```json\n{"restaurant_id": "r979", "guests": 6}\n```',
        '{"restaurant_id": "r979", "guests": 6}',
        '{"reserve": {"restaurant_id": "r979", "guests": 6}}',
        "<reserve><restaurant_id>r979</restaurant_id><guests>6</guests></reserve>",
        "Tool: reserve\nArguments: restaurant_id=r979, guests=6",
        'I call reserve("r979", 6)',
        "Step 2: reserve(r979, 6)",
        "Use reserve with restaurant_id=r979 and guests=6.",
        "curl reserve?restaurant_id=r979&guests=6",
        "reserve\n- restaurant_id: r979\n- guests: 6",
        'reserve: {"restaurant_id": "r979", "gue',
        'reserve: {"restaurant_id": "r979", "guests": 6}\nI wait for the confirmation.',
    ],
)
def test_a_call_in_any_spelling_is_no_answer(text: str) -> None:
    assert unmade(text) == "reserve"


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "r979", "tables": 4}',
        'Found: {"name": "Luigi", "restaurant_id": "r979"}',
        '{"places": [{"restaurant_id": "r979"}]}',
        '[{"restaurant_id": "r979"}, {"restaurant_id": "r980"}]',
        "Tables can be reserved with the tool reserve(restaurant_id, guests).",
        "The reserve (as agreed) holds 979 places, and more reserve(s).",
        'It was done with reserve("r979", 6), and the place is r979.',
        "The reserve: r979.",
        "No table is free on 7 May.",
    ],
)
def test_data_signatures_and_examples_are_no_calls(text: str) -> None:
    assert unmade(text) is None


def test_json_that_was_asked_for_is_data() -> None:
    text = '{"restaurant_id": "r979", "guests": 6}'
    wanted = Seen("Give me restaurant_id and guests as JSON.", FOUND.results)
    assert unmade(text, wanted) is None
    assert unmade(text, told='JSON of {"restaurant_id", "guests"}') is None


def test_an_answer_that_tells_of_a_call_is_delivered() -> None:
    told = 'Luigi has a table for you, which was reserved by reserve("r979", 6).'
    assert unmade(told, delivered=True) is None
    assert unmade('I call reserve("r979", 6)', delivered=True) == "reserve"


ANSWER = {"answer": "Alto costs 4."}


@pytest.mark.parametrize(
    "text",
    [
        'final-answer\n{"answer": "Alto costs 4."}',
        'final-answer: {"answer": "Alto costs 4."}',
        'final_answer {"answer": "Alto costs 4."}',
        '**final-answer**\n```json\n{"answer": "Alto costs 4."}\n```',
        "<final-answer>Alto costs 4.</final-answer>",
        "<final-answer><answer>Alto costs 4.</answer></final-answer>",
        '{"final-answer": {"answer": "Alto costs 4."}}',
        '{"final_answer": "Alto costs 4."}',
        "final-answer: Alto costs 4.",
        'final-answer("Alto costs 4.")',
        'final-answer(answer="Alto costs 4.")',
        'Tool: final-answer\nArguments: {"answer": "Alto costs 4."}',
        "Tool: final-answer\nArguments: answer=Alto costs 4.",
    ],
)
def test_an_answer_in_any_spelling_of_its_tool(text: str) -> None:
    assert spelled_answer(text, whole=True) == ANSWER


@pytest.mark.parametrize(
    "text",
    [
        "Alto costs 4.",
        "final-answer is the tool for it.",
        "Final answer: 4.",
        '{"price": 4}',
        "final-answer:",
    ],
)
def test_texts_that_spell_no_answer(text: str) -> None:
    assert spelled_answer(text, whole=True) is None


def test_an_answer_after_prose_is_one_where_brackets_tell_its_end() -> None:
    spelled = 'I have all.\n\nfinal-answer: {"answer": "Alto costs 4."}'
    assert spelled_answer(spelled, whole=False) == ANSWER
    assert spelled_answer(spelled, whole=True) is None
    assert spelled_answer("The tools:\nfinal-answer: delivers it.", whole=False) is None


def test_an_object_alone_is_the_answer() -> None:
    assert lone_answer('{"answer": "Alto costs 4."}') == ANSWER
    assert lone_answer('{"answer": "Alto costs 4.", "price": 4}') is None


@pytest.mark.parametrize("total", [75, 76, 78, 79, 90])
def test_a_wrong_total_of_few_whole_numbers_is_unsupported(total: int) -> None:
    seen = Seen("How many crates are there in Harlow, Tavy and Quorn together?", ("17", "41", "19"))
    assert unsupported_figures("In all 77 crates.", seen) == ()
    assert unsupported_figures(f"In all {total} crates.", seen) == (str(total),)


@pytest.mark.parametrize("count", [5, 9])
def test_so_many_times_a_known_number_is_supported(count: int) -> None:
    seen = Seen("How much are lamps?", ("A lamp costs 417 euros.",))
    text = f"A lamp costs 417 euros, {count} of them cost"
    assert unsupported_figures(f"{text} {count * 417} euros.", seen) == ()
    assert unsupported_figures(f"{text} {count * 417 + 13} euros.", seen) == (str(count * 417 + 13),)


def test_a_total_of_products_is_supported_and_shares_are_judged_as_ever() -> None:
    bought = Seen("What do they cost in total?", ("3 lamps at 20 euros", "2 desks at 90 euros"))
    assert unsupported_figures("240 euros in total.", bought) == ()
    reduced = Seen("What is the total after 10% off?", ("120", "80"))
    assert unsupported_figures("It is 180.", reduced) == ()


@pytest.mark.parametrize(
    ("task", "results", "answer"),
    [
        ("What share voted yes?", ("yes 20, no 39",), "It is 33.9 %."),
        ("List the crates.", ("12\n700\n700\n51\n51\n51",), "They hold 1565 kg."),
        (
            "How high are the open bills in total?",
            ("17\n41\n19\n530\n88\n204\n62\n377\n1203\n96",),
            "It is 1831.",
        ),
        ("Was kosten sie?", ("1.250\n983\n2.117\n451\n3.311\n722\n769\n3.758",), "Zusammen 13.361."),
    ],
)
@pytest.mark.parametrize("more", [(), ("114807",), ("a rate of 0.19",)])
def test_a_share_or_total_that_is_supported_stays_so_when_more_is_found(
    task: str, results: tuple[str, ...], answer: str, more: tuple[str, ...]
) -> None:
    assert unsupported_figures(answer, Seen(task, (*results, *more))) == ()


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("That information isn't available to me.", True),
        ("The system is not available, sorry.", True),
        ("The room isn't available on Monday.", False),
    ],
)
def test_what_is_not_available_is_refused_unless_that_was_asked(text: str, refused: bool) -> None:
    task = "Is the room available on Monday?" if "room" in text else "How many crates are in Tavy?"
    assert is_refusal(text, Seen(task)) == refused


def test_common_words_are_no_evidence() -> None:
    errors = ("The arguments of 'count' are not valid. Send the call again with arguments that fit.",)
    seen = Seen("How many crates are in Tavy?", ("47", *errors))
    assert not ends_with_evidence("Sorry, I can't help with that.", seen)
    assert is_refusal("Sorry, I can't help with that.", seen)


def test_a_speaker_after_evidence_is_no_answer_though_nothing_seems_left() -> None:
    text = "Tavy came back with 120 crates, the rest to follow. Give me a second while I fetch it."
    seen = Seen("How many crates are in Tavy and Quorn?", ("120", "77"))
    assert not concludes(text, {"count": "Count the crates of a depot."}, seen)


FERRIES = {"ferries": "List the ferries to an island.", "final-answer": ""}
NOON = Seen("Which ferry gets me to Samsø before noon?", ("dep 08:15 arr 09:20; dep 12:05 arr 13:10",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The one at 08:15. Shall I book it?", True),
        ("Shall I book it?", False),
        ("Let me see. Shall I book it?", False),
        ("The one at 08:15, which arrives at 09:20. I'd take an umbrella.", True),
        ("I'd begin by asking the harbour.", False),
        ("I'd take the one that arrives at 09:20.", True),
        ("I'm going to compare 08:15 and 12:05.", False),
        ("The captain said “I will sail” at 08:15.", True),
        ("These are the ferries:", False),
    ],
)
def test_offers_advice_and_quotations_where_nothing_is_left(text: str, expected: bool) -> None:
    assert concludes(text, FERRIES, NOON) is expected


@pytest.mark.parametrize(
    ("task", "result", "expected"),
    [
        ("Mute everything until 5 pm.", "muted", True),
        ("Mute everything until 5 pm.", "all phones muted", True),
        ("Mute everything until 5 pm.", "all phones were muted", False),
        ("Mute everything until 5 pm.", "one user refused: R-17", False),
        ("Is everything muted until 5 pm?", "muted", False),
    ],
)
def test_what_the_speaker_will_do_acknowledges_an_order_that_was_carried_out(
    task: str, result: str, expected: bool
) -> None:
    text = "I'll keep things quiet until 5 pm."
    assert concludes(text, {"mute": "Mute notifications."}, Seen(task, (result,))) is expected


@pytest.mark.parametrize(
    ("task", "text", "expected"),
    [
        ("Hello!", "Hello! How can I help you today?", True),
        ("What can you do?", "I can list ferries.", True),
        ("Please explain to me how rain forms.", "I can do that for you.", False),
        ("Why is the sky blue?", "Blue light is scattered more, so it reaches us from all sides.", True),
        ("How do I boil an egg?", "Put it into boiling water for six minutes, then cool it.", True),
        ("Why is the sky blue?", "The sky scatters. Shall I tell you more?", True),
        ("Why is the sky blue?", "Because of the air. Shall I tell you more about that?", False),
        ("Why is the sky blue?", "Because of all the air. Shall I tell you more about that?", True),
        ("Name three boats.", "1. Saltwind\n2. Star\n3. Next Horizon", True),
        ("Why is the sky blue?", "I will look into that.", False),
    ],
)
def test_texts_where_the_tools_have_nothing_to_do_with_the_task(task: str, text: str, expected: bool) -> None:
    assert concludes(text, FERRIES, Seen(task)) is expected


def test_a_total_that_is_asked_for_has_to_be_there() -> None:
    seen = Seen("What do L1 and L2 cost altogether?", ("39", "52"))
    assert lacks_total("L1 costs 39 and L2 costs 52.", seen)
    assert not lacks_total("Together 91.", seen)
    asked = Seen("What do you mean by hot? Is it hot in Rome and Oslo?", ("31", "8"))
    assert not lacks_total("It is hot in Rome, with 31.", asked)
    assert not lacks_total("L1 costs 39.", Seen("What does L1 cost altogether?", ("39",)))
    assert not concludes("L1 costs 39 and L2 costs 52.", {"price": "Return a price."}, seen)


THINGS: tuple[str, ...] = ("Rome", "Oslo", "Bari")


def _mistotalled(told: str, seen: Seen) -> tuple[str, ...]:
    return mistotalled(told, seen, dict(zip(THINGS, seen.results, strict=False)))


@pytest.mark.parametrize(
    ("task", "results", "right", "wrong"),
    [
        ("What is the average of L1, L2 and L3?", ("L1: 71", "L2: 84", "L3: 91"), "82", "84"),
        ("What is the mean of the two?", ("4 °C", "9 °C"), "6.5", "8"),
        ("What do the desk and the chair cost in all?", ("249.00", "99.50"), "348.50", "358.50"),
        ("What do they cost together?", ("249.00", "99.50"), "about 350", "about 360"),
        ("What is left in total?", ("income 900", "rent 640"), "260", "250"),
        ("How much is that in all, in dozens?", ("120", "84"), "17", "18"),
        ("What is the total area?", ("width 12", "length 30"), "360", "380"),
        ("What do 3 pens and 2 pads cost?", ("2.40", "1.10"), "9.40", "10.60"),
        ("What is the price of 4 cups?", ("6.50 EUR",), "26", "28"),
        ("¿Cuánto suman las cuentas de Ana y Pau?", ("1250", "830"), "2080", "2180"),
        ("Was kosten sie zusammen?", ("12,40 EUR", "7,10 EUR"), "19,50", "18,50"),
    ],
)
def test_another_total_than_that_of_the_results_is_wrong(
    task: str, results: tuple[str, ...], right: str, wrong: str
) -> None:
    seen, kind = Seen(task, results), "average" if asks_mean(task) else "total"
    assert _mistotalled(f"The {kind} is {right}.", seen) == ()
    assert len(_mistotalled(f"The {kind} is {wrong}.", seen)) == len(results)
    for unclear in (evolve(seen, told="Add 5 for the way."), evolve(seen, results=(*results, "2 of 3"))):
        assert _mistotalled(f"The {kind} is {wrong}.", unclear) == ()
    of_others = {"Rome": results[0]} if results[1:] else {}
    assert mistotalled(f"The {kind} is {wrong}.", seen, of_others) == ()


@pytest.mark.parametrize(
    ("task", "results", "told"),
    [
        ("What do 3 pens and 2 pads cost?", ("2.40", "1.10"), "7.20 for the pens, 2.20 for the pads: 9.40."),
        ("How much dearer are 3 pens than 2 pads, by price?", ("2.40", "1.10"), "By 5.00."),
        ("What do 2 days of parking cost?", ("3 EUR per hour",), "144 euros, for 48 hours."),
        ("What do 2 days of parking cost, with 5 % off?", ("30 EUR",), "57 euros."),
        ("What is the average price of 3 pens and 2 pads?", ("2.40", "1.10"), "1.88 on average."),
        ("How many calories are in 50 g of lentils?", ("116 kcal",), "About 58."),
        ("What do Aero and Nova cost in SEK in all?", ("249.00", "99.50", "11.20"), "3903.20 in all."),
        ("What do 3 pens and 2 pads cost me from a 20 euro note?", ("2.40", "1.10"), "10.60 are left."),
        ("How long is the way in total?", ("5 km", "300 m"), "It is 5.3 km in total."),
        ("How many live there in total?", ("336,465", "128,928"), "About 465 thousand in total."),
        ("What is the total of each?", ("80", "4"), "The total of each is 20."),
        ("What is the average order?", ("12000", "80"), "The average order is 150."),
        ("What is the overall discount?", ("80", "60"), "The overall discount is 25 percent."),
        ("Where is the average rent higher?", ("900", "600"), "In Rome, with an average rent of 900."),
        ("What do 6 socks cost?", ("4.50 a pair",), "13.50."),
        ("What is the cost of a 3 course menu for us two?", ("45",), "For both it costs 90."),
        ("What do they cost altogether in a quarter?", ("900", "100"), "Altogether 3000 in a quarter."),
        ("What did I spend a day on average?", ("84", "56"), "On average 20 a day."),
        ("¿Cuánto suman los dos?", ("1.250", "830"), "Suman 2.080."),
        ("What is the total?", ("25", "8", "50"), "With 8 hours at 25, the total is 250."),
        ("What do 3 tickets cost if I return one?", ("15",), "30."),
    ],
)
def test_a_price_that_may_be_worked_out_is_no_other_total(
    task: str, results: tuple[str, ...], told: str
) -> None:
    assert _mistotalled(told, Seen(task, results)) == ()


@pytest.mark.parametrize("task", ["Compare the average rents of Rome and Oslo.", "Is the total above both?"])
def test_a_total_of_each_is_none_of_all(task: str) -> None:
    rents = Seen(task, ("1150", "1490"))
    for told in (
        "The average rent is 1150 in Rome, and that in Oslo is 1490.",
        "The total is 1150 for Rome. In Oslo it is 1490 in all.",
    ):
        assert _mistotalled(told, rents) == ()


def test_an_unused_tool_is_called_for_by_its_own_subject_or_verb() -> None:
    used = {"track_parcel": "Return where a parcel is."}
    cancel = {"cancel_parcel": "Cancel the delivery of a parcel."}
    assert not is_open_for("Has the parcel been delivered?", cancel, used)
    assert not is_open_for("Where is the parcel?", cancel, used)
    assert is_open_for("Where is the parcel? Cancel it if it is late.", cancel, used)
    assert is_open_for(
        "Which phone has the boss of Ines?",
        {"phone_of": "Find a phone number."},
        {"boss_of": "Find the boss."},
    )


def test_scripts_without_spaces_have_evidence_too() -> None:
    assert ends_with_evidence("包裹目前在上海分拣中心。", Seen("包裹PK-77到哪里了？", ("上海分拣中心",)))
    assert not ends_with_evidence("请稍等片刻好吗。", Seen("包裹PK-77到哪里了？", ("上海分拣中心",)))


@pytest.mark.parametrize(
    ("before", "judged"),
    [
        ("Do you mean the short or the long form of the report that the board had asked all offices for?",
         "announcement"),
        ("0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 ?", "announcement"),
        ("An old clock is set by hand: turn the small wheel on its back until both hands show the hour that "
         "the bell has struck.", "answer"),
    ],
)  # fmt: skip
def test_what_is_all_questions_is_no_answer(before: str, judged: str) -> None:
    assert judge_text(f"{before} Is it clear? Which date?", TOOLS, Seen("Tell me of clocks.")) == judged


def test_a_question_claims_no_figures() -> None:
    seen = Seen("How full is the tank of V3?", ("35 %",))
    assert unsupported_figures("It is 35 % full. Shall I look at V55?", seen) == ()
    assert unsupported_figures("It is 35 % full, V55 too.", seen) == ("V55",)


def test_a_rounded_figure_is_supported_by_what_it_stands_for() -> None:
    seen = Seen("Can I afford a bike for 900 euros?", ("8,214.70 EUR",))
    assert unsupported_figures("Nearly 7,300 euros would be left.", seen) == ()
    assert unsupported_figures("Nearly 7,900 euros would be left.", seen) == ("7,900",)
    assert unsupported_figures("7,301 euros would be left.", seen) == ("7,301",)


def test_a_time_until_then_and_a_question_of_yes_or_no_follow_an_answer() -> None:
    seen = Seen("Get the vet.", ("comes at 4 pm",))
    tools = {"call_vet": "Ask the vet to come."}
    assert concludes("The vet comes at 4 pm. Until then, keep her off the hard floor.", tools, seen)
    assert concludes("The vet comes at 4 pm. Is everything else alright?", tools, seen)
    assert not concludes("The vet comes at 4 pm. What about the price?", tools, seen)


# --- what a task is about, by its form ----------------------------------------------------------------------

PARTICULAR = [
    "Schicke ann@x.org eine Nachricht.",
    "Résume https://example.org/a pour moi.",
    "What do the lamp and the stool cost together?",
    "Shopping list\n1. lamp\n2. stool\nTotal?",
    "Basket: lamp and stool. The bill, please.",
    "Tell Ada, Bruno and Elif that the office is closed.",
    "Summiere Lampe, Stuhl und Tisch.",
    "¿Cuántos litros llevan la cuba, el tonel y la barrica?",
    "When does contract V-702 end?",
    "Put the sum into report.md.",
]
GENERAL = [
    "What is the capital of Peru?",
    "Which is further from the sun, Earth or Mars?",
    "What is heavier, a litre of water or a litre of oil?",
    "Who wrote Don Quixote?",
    "What is 12 times 12 and 3 in total?",
    "Rewrite more politely: 'Send me the file.'",
    "Danke dir!",
]


@pytest.mark.parametrize("task", PARTICULAR)
def test_a_task_about_particular_things_shows_in_its_form(task: str) -> None:
    assert names_particulars(task)
    assert not is_beside_tools(task, {"register": "Entry of the register."})


@pytest.mark.parametrize("task", GENERAL)
def test_a_general_question_names_nothing_that_has_to_be_looked_up(task: str) -> None:
    assert not names_particulars(task)


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("How much did Tom pay?", "His customer number is K75787."),
        ("How much did Tom pay?", "Next: O-9284."),
        ("How many cm are 5 feet?", "Right, on to the 5 feet."),
        ("What do both cost together?", "Step 1 - read the list. Step 2 - choose a tool."),
        ("Wie hoch ist der Pegel?", "Ich habe alles nachgesehen."),
        ("What is the price of the lamp?", "All done - everything was looked up."),
    ],
)
def test_a_text_without_a_figure_does_not_say_how_much(task: str, text: str) -> None:
    assert lacks_figure(text, task)


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("How much did Tom pay?", "31.90 EUR."),
        ("How many are left?", "There are a dozen left."),
        ("How many are left?", "Just one."),
        ("How many are left?", "None of them is left."),
        ("Wie hoch ist der Pegel?", "Bei -3 cm."),
        ("Who is Tom?", "A customer."),
        ("How many letters has the word of the list test-6?", "It has 6 letters."),
        ("What is the price of freedom?", "It is " + "a long and thoughtful answer to what was asked, " * 3),
    ],
)
def test_a_figure_a_numeral_or_a_denial_says_how_much(task: str, text: str) -> None:
    assert not lacks_figure(text, task)


@pytest.mark.parametrize(
    "task",
    [
        "Sum the page up.",
        "To sum up, what does it say?",
        "Put together a short overview.",
        "What is the overall impression?",
        "Fasse die Seite zusammen.",
        "Résume l'ensemble du texte.",
        "Summarise what they have in all cases.",
    ],
)
def test_a_task_of_a_summary_asks_for_no_figure(task: str) -> None:
    assert not lacks_figure("A friendly page about gardens.", task)
    assert not names_particulars(task)


@pytest.mark.parametrize("distinct", [30, 100_000])
def test_the_numbers_of_a_long_result_are_read_once_and_only_as_many_as_are_reckoned_with(
    distinct: int,
) -> None:
    def check(size: int) -> None:
        result = "; ".join(f"{3 * (number % distinct)}.25" for number in range(size))
        assert not unsupported_figures("It is 3.25.", Seen("What is it?", (result,)))
        assert bool(unsupported_figures("It is 98765.4.", Seen("What is it?", (result,)))) is (distinct < 40)

    def without_writing(size: int) -> int:
        written = operations_of(lambda: "; ".join(f"{number}" for number in range(size)))
        return operations_of(lambda: check(size)) - written

    few, many = without_writing(1_000), without_writing(4_000)
    assert many <= 1.5 * few


@pytest.mark.parametrize("part", ["-a", "a,", ", b ", "$", ".", "\n", "a/", "- ", "a.b", ": c "])
def test_the_form_of_a_task_is_read_in_linear_time(part: str) -> None:
    assert_linear(lambda size: (names_particulars(part * size), lacks_figure(part * size, "How much?")), 500)


@pytest.mark.parametrize("sign", ["x", "-@"])
def test_a_task_of_a_million_signs_holds_up_nothing(sign: str) -> None:
    task = sign * (1_000_000 // len(sign))  # in quadratic time this would take hours
    assert not names_particulars(task)
    may_be_order(task, {"book": "Book a flight."})


def test_digits_of_an_identifier_are_no_number_to_reckon_with() -> None:
    contract = Seen("How many days of notice has contract V-702?")
    assert unsupported_figures("It is 12 days.", contract) == ("12",), "702 minutes are 11.7 hours"


@pytest.mark.parametrize("text", ["No puedo ayudar con eso.", "Non posso farlo.", "Nie mogę tego zrobić."])
def test_a_refusal_needs_no_pronoun_where_the_verb_has_the_person(text: str) -> None:
    assert is_refusal(text, Seen("¿Cuánto cuesta la lámpara?"))


TOOLS_OF_ACCOUNTS = {"open_account": "Open an account.", "final-answer": "Deliver the answer."}


@pytest.mark.parametrize(
    ("text", "judged"),
    [
        ("I take open_account for it. It has one argument. So", "unclear"),
        ("pear, fig, apple", "answer"),
        ("Everything has been put in order.", "unclear"),
    ],
)
def test_a_text_about_listed_things_is_judged_by_what_it_adds(text: str, judged: str) -> None:
    assert judge_text(text, TOOLS_OF_ACCOUNTS, Seen("Sort these: apple, pear, fig.")) == judged


@pytest.mark.parametrize("text", ["There are two open ones.", "Let the dough rest, then bake it 20 minutes."])
def test_a_number_word_that_counts_the_results_is_evidence_and_a_let_is_no_announcement(text: str) -> None:
    found = Seen("What is there?", ('[{"id": 811}, {"id": 815}]', "Bake for 20 minutes."))
    assert judge_text(text, {}, found) == "answer"


def test_a_plan_in_one_line_has_no_figure() -> None:
    assert lacks_figure("My way: 1. ask for it 2. add it up 3. answer.", "How much is it in all?")
    assert not lacks_figure("It is 1. Not more.", "How much is it in all?")


def test_an_answer_may_be_rounded_to_tens() -> None:
    assert unsupported_figures("About 570.", Seen("How many kronor are 50 euros?", ("11.43",))) == ()


def test_a_plan_in_one_line_works_nothing_out() -> None:
    task = Seen("Convert 130 EUR to NOK: the rate of today, all in all.")
    assert (
        judge_text("My way: 1. ask for it 2. add it up 3. answer.", {"rate": "The rate."}, task) != "answer"
    )


def test_a_sum_leaves_out_any_of_the_figures_beside_it() -> None:
    prices = "lamp 11.17\ndesk 19.53\nvase 14.71\nrug 23.59\nsofa 31.37\nbed 47.93\nshelf 53.21"
    seen = Seen("What is on the bill?", (prices,))
    assert unsupported_figures(f"{prices}\nwithout vase and sofa 155.43", seen) == ()
    assert unsupported_figures(f"{prices}\nwithout vase and sofa 155.53", seen) == ("155.53",)


def test_a_verb_of_a_tool_makes_a_text_without_results_doubtful() -> None:
    task = Seen("Say it.")
    assert judge_text("They search the web for prices.", {"look": "Search the web."}, task) == "unclear"
    assert judge_text("They search the web for prices.", {"look": "Read a file."}, task) == "answer"


# --- manners of capable models ---------------------------------------------------------------------------

STOCK = Seen("Which is lower, SKU-1 or SKU-2?", ("400", "90"))
STOCK_TOOLS = {"stock_level": "Return the units in stock."}


@pytest.mark.parametrize(
    "text",
    [
        "SKU-2 has 90 units.\n\n🎉",
        "SKU-2 is lower, with 90 units. Perfect timing to reorder! Enjoy your day.",
        "SKU-2 has 90 units. Keep going!",
        "SKU-2, with 90 units. I hope this helps!",
        "SKU-2 is lower. It has 90 units. I hope this helps!",
        "SKU-2 has 90 units. Which of the two would you rather see?",
        "SKU-2 is lower:\n\n```\nSKU-1 400\nSKU-2 90\n```",
        "SKU-2, with 90 units (counting the returns).",
        "No, neither. SKU-2 has 90, let me know which one matters to you.",
    ],
)
def test_what_is_said_after_the_evidence_is_passed_over(text: str) -> None:
    assert judge_text(text, STOCK_TOOLS, STOCK) == "answer"


@pytest.mark.parametrize(
    "text",
    [
        "SKU-1 has 400 units. Now SKU-2.",
        "SKU-1 has 400 units. Let me look up SKU-2.",
        "SKU-1 has 400 units. Fetching the other one.",
        "SKU-1 has 400 units. Should I look up SKU-2?",
    ],
)
def test_what_comes_next_is_not_passed_over(text: str) -> None:
    assert judge_text(text, STOCK_TOOLS, Seen(STOCK.task, ("400",))) == "announcement" or not concludes(
        text, STOCK_TOOLS, Seen(STOCK.task, ("400",))
    )


@pytest.mark.parametrize(
    "text", ["I'm looking up the other one.", "Allow me to look up the other one first."]
)
def test_what_the_speaker_does_next_is_no_advice(text: str) -> None:
    assert not concludes(f"SKU-1 has 400 units. {text}", STOCK_TOOLS, Seen(STOCK.task, ("400",)))


def test_advice_may_stand_anywhere_behind_evidence_or_a_denial() -> None:
    assert concludes("SKU-2 has 90. It may not last. I'd recommend reordering it soon.", STOCK_TOOLS, STOCK)
    none = Seen("When is the next hearing?", ("[]",))
    assert concludes(
        "There is no hearing. I'd recommend asking again in May.", {"dates": "List dates."}, none
    )
    assert not concludes("I'd recommend asking again in May.", {"dates": "List dates."}, none)


def test_a_step_that_is_named_last_is_advice_after_a_long_text_only() -> None:
    found = (
        "SKU-2 has 90 units, which is lower than the 400 of SKU-1. "
        "In the hall by the river there is nothing else to be seen of it. "
    )
    assert not concludes(f"{found}Then reorder it.", STOCK_TOOLS, STOCK)
    assert concludes(f"{found}{found}Then reorder it.", STOCK_TOOLS, STOCK)


@pytest.mark.parametrize(
    ("answer", "result", "unsupported"),
    [
        ("Revenue was $281.7B.", "281700000000", ()),
        ("Revenue was $291.7B.", "281700000000", ("291.7B",)),
        ("The 30-day window at 690/month has closed.", "30 days, 690", ()),
        ("The 4711-day window has closed.", "30 days", ("4711-day",)),
        ("Wear an N95 mask.", "aqi 287", ("N95",)),
    ],
)
def test_a_figure_may_be_scaled_and_have_a_unit(
    answer: str, result: str, unsupported: tuple[str, ...]
) -> None:
    assert unsupported_figures(answer, Seen("How is it?", (result,))) == unsupported


def test_an_argument_of_a_call_supports_a_figure() -> None:
    asked = Seen("How many orders came in January?", ("18234",))
    assert unsupported_figures("There were 18,234 in January 2026.", asked) == ("2026",)
    assert unsupported_figures("There were 18,234 in January 2026.", evolve(asked, given="2026-01-01")) == ()


def test_a_time_that_something_takes_is_no_waiting() -> None:
    stopped = Seen("Terminate i-03", ("terminating",))
    tools = {"terminate": "Terminate an instance."}
    text = "`i-03` is being terminated. It can take a minute or two until it is gone from the list."
    assert concludes(text, tools, stopped)
    assert not concludes("Terminating it will take a minute.", tools, Seen("Which is idle?", ("i-03: 0 %",)))


@pytest.mark.parametrize("results", [(), ("gate B42",), ("gate B42", "A1")])
def test_a_short_identifier_is_supported_only_where_it_was_seen(results: tuple[str, ...]) -> None:
    assert unsupported_figures("It is gate C7.", Seen("Which gate?", results)) == ("C7",)
    assert unsupported_figures("It is gate C7.", Seen("Which gate?", (*results, "C7"))) == ()


def test_a_number_in_other_units_is_the_last_step_of_what_follows() -> None:
    seen = Seen("What is the weather in Rome?", ("Rome: 23.4 degrees, sunny.",))
    assert unsupported_figures("It is 74.1 degrees of Fahrenheit.", seen) == ()
    assert unsupported_figures("It is 31 degrees and raining.", seen) == ("31",)


def test_a_total_of_a_table_follows_from_its_rows() -> None:
    seen = Seen("What is on the bill?", ("3x room 140.00; minibar 12.50; parking 3x18.00",))
    rows = "| room | 420.00 |\n| minibar | 12.50 |\n| parking | 54.00 |\n"
    assert unsupported_figures(f"{rows}| total | 486.50 |", seen) == ()
    assert unsupported_figures(f"{rows}| total | 499.99 |", seen) == ("499.99",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("I couldn't start it because it's offline.", True),
        ("It does not work, sorry.", False),
        ("It's offline.", False),
    ],
)
def test_a_failure_is_told_by_a_denial_with_a_word_of_the_error(text: str, told: bool) -> None:
    assert tells_failure(text, "The tool 'set_state' failed (RuntimeError): device offline") is told


def test_what_may_pass_is_no_reason_to_end_until_it_happened_twice() -> None:
    error = "The tool 'fetch' failed (RuntimeError): 503 service unavailable"
    assert not tells_failure("The service is unavailable (503).", error)
    assert tells_failure("The service is unavailable (503).", error, is_repeated=True)


def test_a_no_tells_the_failure_of_a_look_up_that_found_nothing() -> None:
    text = "No, there isn't one in the repository."
    assert tells_failure(text, "The tool 'read' failed (RuntimeError): no such file")
    assert not tells_failure(text, "The tool 'read' failed (RuntimeError): disk is full")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("It's a 45-minute slot (16:30 to 17:15).", Seen("How long is it?", ("16:30, 17:15",))),
        (
            "1. `a91f3` – update of Node (Lena)\n2. `12bb8` – caching added (Lena)",
            Seen("Sum up the commits", ("a91f3 Lena: bump node\n12bb8 Lena: add cache",)),
        ),
        (
            "Casa Azul costs 84. I'd go for it: it has what you'd want and the reviews are better.",
            Seen("Find a hotel", ("Casa Azul 84; Douro 132",)),
        ),
        (
            "Yes, towards the weekend: the forecast has snow on the mountains.",
            Seen("Will it snow?", ("rain, -2C",)),
        ),
        (
            "Take the boat on Saturday morning.",
            Seen("When can I sail?", ("Fri 9 bft; Sat 3 bft; Sun 8 bft",)),
        ),
    ],
)
def test_lengths_of_time_labels_and_what_the_reader_wants_announce_nothing(text: str, seen: Seen) -> None:
    assert concludes(text, {"forecast": "Weather in a city."}, seen)


def test_a_moment_a_label_and_a_tool_announce() -> None:
    seen = Seen("What is it?", ("Ann 12", "Bob 13"))
    for text in (
        "One minute.",
        "1 minute, please.",
        "- Ann – 12\n- Bob – checking that now",
        "forecast, perhaps",
    ):
        assert not concludes(text, {"forecast": "Weather in a city."}, seen), text


def test_a_denial_is_of_the_whole_sentence() -> None:
    tools = {"goals": "Goals of the user."}
    said = "I can see your goals but not change them – you do that in the app."
    assert judge_text(said, tools, Seen("Set a new one")) != "announcement"


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("How long is 'garden'? Change nothing for that.", True),
        ("Wie lang ist 'garden'? Ändere dabei nichts.", True),
        ("How long is 'garden'?", False),
        ("Change nothing.", False),
        ("How long is 'garden'? Do not remove it.", True),
        ("Can you remove 'garden', but not 'gardens'? Leave nothing of it.", False),
        ("I cannot find 'garden'. Where is it?", False),
        ("You never told me. Where is it?", False),
    ],
)
def test_a_task_may_only_ask_and_forbid(task: str, expected: bool) -> None:
    assert only_asks(task, "delete_word", "Remove a word for good.") is expected


def test_code_that_is_to_be_written_claims_no_figures() -> None:
    code = "```bash\nfind . -print0 | xargs -0 head -n 4711\n```"
    assert unsupported_figures(code, Seen("Write a command that shows the files.")) == ()
    assert unsupported_figures(code, Seen("How many files are there?")) == ("4711",)


def test_a_text_may_be_one_of_the_task_in_other_words() -> None:
    task = Seen("Translate into German: I will look into it and call you back.")
    assert judge_text("Ich werde es mir ansehen und Sie zurückrufen.", STOCK_TOOLS, task) == "answer"
    assert judge_text("Ich seh's an und ruf zurück.", STOCK_TOOLS, task) == "answer"
    assert judge_text("I will translate that into German for you.", STOCK_TOOLS, task) != "answer"
    sends = {"send_mail": "Send a mail."}
    order = Seen("Send Tom this: I will look into it and call you back.")
    assert judge_text("I will look into it and call back.", sends, order) != "answer"


def test_what_is_asked_to_be_written_is_known_by_its_lines() -> None:
    lyrics = "I'm going down that road,\nI'm leaving all I know,\nI'll sing your name."
    assert is_composed(lyrics, "Write lyrics about home.", {"find_song": "Find a song."})
    assert not is_composed(lyrics, "Write lyrics to song.txt.", {"write_file": "Write a file."})
    assert not is_composed("I'll write lyrics about home.", "Write lyrics about home.", {})
    assert not is_composed("Sure.\nI will write:\nHere:", "Write lyrics about home.", {})


def test_a_tool_that_does_what_a_task_begins_with_is_called_for() -> None:
    used, book = {"rooms": "List rooms."}, {"reserve": "Reserve a place."}
    assert is_open_for("Reserve me one for two nights.", book, used)
    assert not is_open_for("Reserve me one for two nights.", {"cancel": "Cancel a place."}, {**used, **book})


def test_what_no_tool_does_may_be_denied() -> None:
    tools = {"search_mail": "Search the mailbox."}
    assert has_no_tool("I can't delete mails. I can only search them.", "Delete my last mail", tools)
    assert not has_no_tool("I can't search mails.", "Search my last mail", tools)
    assert not has_no_tool("I can't tell you the price.", "Tell me the price", tools)


@pytest.mark.parametrize(
    "text", ["Next I will use get_price. So it is.", "The prices come with get_price. It is so."]
)
def test_a_text_that_thinks_of_tools_is_unclear_unless_it_is_about_them(text: str) -> None:
    assert judge_text(text, TOOLS, Seen("How is it?")) == "unclear"
    assert judge_text(text, TOOLS, Seen("Who are you?")) == "answer"


def test_hardly_any_words_are_of_no_language_in_particular() -> None:
    assert is_english("Guten Morgen")
    assert not is_english("Guten Morgen allerseits")
    assert is_english("Guten Morgen to all")


@pytest.mark.parametrize(
    ("task", "asks"),
    [
        ("How to boil eggs?", True),
        ("How do I boil an egg?", True),
        ("Should people sleep at noon?", True),
        ("Could the report be sent?", False),
        ("How would the report look?", False),
    ],
)
def test_a_task_that_asks_for_advice_is_about_the_one_who_asks(task: str, asks: bool) -> None:
    assert asks_advice(task) is asks


@pytest.mark.parametrize(("months", "questioned"), [("12", ()), ("471", ("471",)), ("4711", ("4711",))])
def test_a_short_number_beside_what_was_found_may_be_common_knowledge(
    months: str, questioned: tuple[str, ...]
) -> None:
    seen = Seen("What is there about A-10?", ("It costs 450.",))
    assert unsupported_figures(f"It costs 450 for {months} months.", seen) == questioned


def test_the_clauses_of_few_long_answers_are_kept() -> None:
    def kept_of(answers: int) -> int:
        clauses_of.cache_clear()
        tracemalloc.start()
        for number in range(answers):
            clauses_of(f"This is number {number}." + " It is as it was before." * 2_000)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return kept

    assert kept_of(20) < 10 * kept_of(1)


@pytest.mark.parametrize(
    ("answer", "unknown"),
    [
        ("The parcel is in Cologne and comes on Tuesday.", ("Cologne", "Tuesday")),
        ("I found no parcel in Cologne.", ()),
        ("Your Friday is free. If you like, I can look at Monday too.", ()),
    ],
)
def test_empty_results_support_no_names(answer: str, unknown: tuple[str, ...]) -> None:
    assert unknown_people(answer, Seen("Where is the parcel that should come on Friday?", ("[]",))) == unknown


def test_an_empty_result_supports_no_figure_but_zero() -> None:
    seen = Seen("How much did Ann refund?", ("[]",))
    assert unsupported_figures("She refunded 0.00 EUR, not 12.50 EUR.", seen) == ("12.50",)


def test_units_and_shares_are_read_in_linear_time() -> None:
    seen = Seen("How far is it?", ("24 miles",))
    assert_linear(lambda size: unsupported_figures("24 km " + "1" * size, seen), 4_000)
    assert_linear(lambda size: unsupported_figures("1,2 % " * size, seen), 200)
    assert_linear(lambda size: unsupported_figures("12 " * size + "1" * size + " %", seen), 2_000)


@pytest.mark.parametrize(
    ("figure", "found", "meant"),
    [
        ("1,842.10", "1,482.10", "1,482.10"),
        ("12", "21", "21"),
        ("7", "7.0", ""),
        ("12", "22", ""),
        ("12", f"21 of {list(range(100, 120))}", ""),
        ("112", f"121 of {list(range(130, 150))}", "121"),
    ],
)
def test_a_figure_with_the_digits_of_a_result_is_miscopied(figure: str, found: str, meant: str) -> None:
    """Where there are many numbers, one of two digits may have those of any."""
    assert miscopied([figure], Seen("How much is it?", (found,))) == ({figure: meant} if meant else {})
