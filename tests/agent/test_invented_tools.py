"""A model that first calls a tool that there is not: its answer does the work, or only says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reactive_agents import ReactiveAgents, tool
from reactive_agents.testing import ScriptedLLM, Turn, answer, call, forever, say

pytestmark = pytest.mark.anyio

DOES_THE_WORK = [
    ("Sort these words: pear, apple, fig.", "sort_list", "apple, fig, pear"),
    ("Sort the words pear, apple and fig.", "sort_list", "apple, fig, pear"),
    ("Put pear, apple and fig in alphabetical order.", "sort_words", "apple, fig, pear"),
    ("Sort the numbers 9, 3 and 7.", "sort_numbers", "3, 7, 9"),
    (
        "Sort this list alphabetically: kiwi, banana, apple",
        "sort_list",
        "The sorted list is: apple, banana, kiwi.",
    ),
    ("Translate 'good morning' into French.", "translate", "Bonjour."),
    ("Translate good morning into French.", "translate_text", "Good morning in French is bonjour."),
    ("Translate the sentence I love you to German.", "translate_text", "Ich liebe dich."),
    (
        "Summarize this: The meeting moved to Friday because Ann is ill.",
        "summarize_text",
        "The meeting moved to Friday as Ann is ill.",
    ),
    (
        "Summarize in one sentence: Ann is ill, so the meeting was moved to Friday.",
        "summarize",
        "Because Ann is ill, the meeting was moved to Friday.",
    ),
    ("Reverse the word stressed.", "reverse_string", "desserts"),
    ("Make this uppercase: hello world", "to_upper", "HELLO WORLD"),
    ("Convert hello world to uppercase.", "convert_case", "HELLO WORLD"),
    ("Count the words in 'the cat sat'.", "count_words", "3"),
    ("Remove the duplicates from a, b, a, c.", "remove_duplicates", "a, b, c"),
    ("Delete the commas in 'a,b,c'.", "delete_characters", "abc"),
    (
        "Write a haiku about rain.",
        "write_poem",
        "Rain on the old roof, / the frog listens in the dark, / morning smells of moss.",
    ),
    (
        "Write an email to Ann that the meeting moved.",
        "write_email",
        "Dear Ann, the meeting has moved. Best, Tom",
    ),
    (
        "Draft a short reminder for Bo about the invoice.",
        "draft_message",
        "Hi Bo, a short reminder: the invoice is still open.",
    ),
    ("Create a list of three fruits.", "create_list", "Apple, pear, plum."),
    ("Rephrase: the order was cancelled.", "rephrase", "Somebody cancelled the order."),
    ("Fix the spelling: I recieved teh mail.", "fix_spelling", "I received the mail."),
    ("Correct the grammar: he go home", "correct_grammar", "He goes home."),
    ("Extract the names from: Ann met Bo in Rome.", "extract_names", "Ann, Bo"),
    ("Classify the sentiment: I love this phone.", "classify_sentiment", "positive"),
    ("Rename the variable x to count in: x = x + 1", "rename_variable", "count = count + 1"),
    ("Format as a list: red, green, blue", "format_list", "- red\n- green\n- blue"),
    ("Format 2026-11-28 as a German date.", "format_date", "28.11.2026"),
    ("Give me a synonym for quick.", "get_synonym", "fast"),
    ("Order the cities by length: Rome, Oslo, Amsterdam.", "order_list", "Oslo, Rome, Amsterdam"),
    ("Merge the lists a, b and c, d.", "merge_lists", "a, b, c, d"),
    ("Split 'a-b-c' at the dashes.", "split_string", "a, b, c"),
    ("Replace cat with dog in: the cat sat.", "replace_text", "the dog sat."),
    (
        "Shorten this: The train that we took yesterday was very late.",
        "shorten_text",
        "Yesterday's train was very late.",
    ),
    ("Sort the words pear, apple and fig.", "sort_list", "Here are the words sorted: apple, fig, pear."),
    ("Sort the words pear, apple and fig.", "sort_list", "I sorted the words: apple, fig, pear."),
    ("Translate good morning into French.", "translate", "I translated good morning into French: bonjour."),
    ("Sortiere diese Wörter: Birne, Apfel, Feige.", "sort_list", "Apfel, Birne, Feige"),
    ("Sortiere die Wörter Birne, Apfel und Feige.", "sort_list", "Apfel, Birne, Feige"),
    ("Übersetze guten Morgen ins Englische.", "translate", "Good morning."),
    (
        "Fasse zusammen: Ann ist krank, deshalb ist die Sitzung am Freitag.",
        "summarize",
        "Die Sitzung ist am Freitag, weil Ann krank ist.",
    ),
    (
        "Schreibe ein Gedicht über Regen.",
        "write_poem",
        "Der Regen fällt, die Gasse glänzt, und alles riecht nach Gras.",
    ),
    ("Lösche die Kommas in a,b,c.", "remove_characters", "abc"),
    (
        "Schreibe eine Mail an Ann, dass die Sitzung verschoben ist.",
        "write_email",
        "Liebe Ann, die Sitzung ist verschoben. Gruß Tom",
    ),
    ("Ordne die Zahlen 9, 3 und 7.", "sort_numbers", "3, 7, 9"),
    ("Schreib Hallo Welt in Großbuchstaben.", "to_upper", "HALLO WELT"),
    ("Trie les mots poire, pomme et figue.", "sort_list", "figue, poire, pomme"),
    ("Trie ces mots : poire, pomme, figue.", "trier_liste", "figue, poire, pomme"),
    ("Traduis bonjour en anglais.", "translate", "Good morning."),
    (
        "Résume : Anne est malade, donc la réunion est reportée à vendredi.",
        "summarize",
        "La réunion est reportée à vendredi, car Anne est malade.",
    ),
    ("Écris un poème sur la pluie.", "write_poem", "La pluie tombe et chante sur les toits gris."),
    ("Supprime les virgules de a,b,c.", "remove_characters", "abc"),
    ("Mets les mots poire, pomme et figue en majuscules.", "to_upper", "POIRE, POMME, FIGUE"),
    ("Ordena las palabras pera, manzana e higo.", "ordenar_lista", "higo, manzana, pera"),
    ("Ordena estas palabras: pera, manzana, higo.", "sort_list", "higo, manzana, pera"),
    ("Traduce buenos días al inglés.", "translate", "Good morning."),
    (
        "Resume: Ana está enferma, así que la reunión pasa al viernes.",
        "summarize",
        "La reunión pasa al viernes porque Ana está enferma.",
    ),
    ("Escribe un poema sobre la lluvia.", "write_poem", "La lluvia cae y canta sobre los tejados."),
    ("Borra las comas de a,b,c.", "remove_characters", "abc"),
    ("Corrige: yo tiene hambre.", "correct_text", "Yo tengo hambre."),
    ("Choose the longest word of pear and banana.", "choose_word", "The longest word is banana."),
    ("Find the longest word in pear, banana and fig.", "longest_word", "The longest word is banana."),
    ("Pick the odd one out: dog, cat, car.", "pick_item", "Car is the odd one out."),
    ("Identify the verb in the sentence The cat sat.", "identify_verb", "The verb in the sentence is sat."),
    ("Check whether level is a palindrome.", "check_palindrome", "Level is a palindrome."),
    ("Check the spelling of the word recieve.", "spell_check", "The word is spelled receive."),
    ("Capitalize the name ada.", "capitalize", "Ada"),
    ("Decide which is bigger, a whale or a dog.", "compare", "A whale is bigger than a dog."),
    ("Compare the words big and bigger.", "compare_words", "Bigger is the comparative of big."),
    ("Explain the word entropy.", "explain_word", "Entropy is a measure of disorder."),
    ("Spell the word cat backwards.", "reverse_word", "tac"),
    ("Round 3.7 to a whole number.", "round_number", "4"),
    ("Round 3.7 to a whole number.", "round_number", "3.7 rounded to a whole number is 4."),
    ("Convert 3 km to meters.", "convert_units", "3 km are 3000 meters."),
    ("Add 3 and 4.", "add_numbers", "3 and 4 make 7."),
    ("Add the word end to the sentence This is the.", "append_text", "This is the end."),
    ("Add a comma to the sentence Yes I do.", "edit_text", "Yes, I do."),
    ("Sort the names Bo, Ann and Cy by length.", "sort_names", "By length: Bo, Cy, Ann."),
    ("Sort the names Bo, Ann and Cy.", "sort_names", "Sorted: Ann, Bo, Cy."),
    ("Sort the names Bo, Ann and Cy.", "sort_names", "Ann, Bo and Cy"),
    ("Sort the names Bo, Ann and Cy.", "sort_names", "- Ann\n- Bo\n- Cy"),
    ("Sort the names Bo, Ann and Cy.", "sort_names", "1. Ann\n2. Bo\n3. Cy"),
    ("Sort the names Bo, Ann and Cy.", "sort_names", '["Ann", "Bo", "Cy"]'),
    ("Sort the names Bo, Ann and Cy.", "sort_names", "The names in alphabetical order are Ann, Bo and Cy."),
    ("Sort the names Bo, Ann and Cy.", "sort_names", "The sorted names are Ann, Bo and Cy."),
    ("Put the words moon, star and sun in reverse order.", "reverse_list", "sun, star, moon"),
    (
        "Put the words moon, star and sun in reverse order.",
        "reverse_list",
        "The words in reverse order: sun, star, moon.",
    ),
    ("Arrange the letters b, c, a.", "arrange", "a, b, c"),
    ("Sortiere die Namen Bo, Ann und Cy.", "sortiere_namen", "Ann, Bo und Cy"),
    ("Sortiere die Namen Bo, Ann und Cy.", "sort_names", "Die Namen sortiert: Ann, Bo, Cy."),
    ("Sortiere die Namen Bo, Ann und Cy.", "sort_names", "Die sortierten Namen sind Ann, Bo und Cy."),
    ("Runde 3,7 auf eine ganze Zahl.", "round_number", "4"),
    ("Drehe das Wort Lager um.", "reverse_string", "Regal"),
    ("Trie les noms Bo, Ann et Cy.", "sort_names", "Ann, Bo et Cy"),
    ("Trie les noms Bo, Ann et Cy.", "sort_names", "Voici les noms triés : Ann, Bo, Cy."),
    ("Inverse les mots lune, soleil.", "reverse_list", "soleil, lune"),
    ("Ordena los nombres Bo, Ana y Cy.", "sort_names", "Ana, Bo y Cy"),
    ("Ordena los nombres Bo, Ana y Cy.", "sort_names", "Los nombres ordenados: Ana, Bo, Cy."),
    ("Invierte las palabras luna y sol.", "reverse_list", "sol y luna"),
]
ONLY_SAYS_SO = [
    ("Send a mail to Ada that it rains.", "send_mail", "I sent the mail."),
    ("Send a mail to Ada that it rains.", "send_mail", "The mail has been sent to Ada."),
    ("Send a mail to Ada that it rains.", "send_mail", "Done."),
    ("Send a mail to Ada that it rains.", "send_mail", "Mail sent."),
    ("Mail Ada that it rains.", "send_email", "Ada has been informed that it rains."),
    ("Let Ada know that it rains.", "notify_user", "Ada now knows that it rains."),
    ("Tell Ada that the meeting moved.", "send_message", "I told Ada that the meeting moved."),
    ("Search for sky and send it to Ada.", "send", "I sent the mail to Ada."),
    ("Book a room for Ada.", "book_room", "The room is booked."),
    ("Book a room for Ada.", "book_room", "I booked a room for Ada."),
    ("Reserve a table for two at eight.", "reserve_table", "Your table for two at eight is reserved."),
    ("Cancel order 4711.", "cancel_order", "Order 4711 has been cancelled."),
    ("Cancel order 4711.", "cancel_order", "Order 4711 cancelled."),
    ("Refund order 4711.", "refund_order", "The refund for order 4711 is on its way."),
    ("Delete the file a.txt.", "delete_file", "The file a.txt was deleted."),
    ("Delete the file a.txt.", "delete_file", "a.txt deleted."),
    ("Turn off the light in the kitchen.", "turn_off_light", "The light in the kitchen is off."),
    ("Turn off the light in the kitchen.", "turn_off", "The kitchen light has been turned off."),
    ("Remind me at five to call Bo.", "set_reminder", "I will remind you at five to call Bo."),
    ("Remind me at five to call Bo.", "set_reminder", "Reminder set for five."),
    ("Restart the server web-1.", "restart_server", "Server web-1 was restarted."),
    ("Pay invoice 77.", "pay_invoice", "Invoice 77 is paid."),
    ("Close ticket 12.", "close_ticket", "Ticket 12 is closed."),
    ("Assign ticket 12 to Mia.", "assign_ticket", "Ticket 12 is assigned to Mia."),
    ("Add milk to my shopping list.", "add_to_list", "I added milk to your shopping list."),
    ("Add milk to my shopping list.", "add_item", "Milk is on your shopping list."),
    ("Create an event for Friday at ten.", "create_event", "The event for Friday at ten was created."),
    ("Set the thermostat to 21 degrees.", "set_temperature", "The thermostat is set to 21 degrees."),
    ("Save the text 'hello' to notes.txt.", "write_file", "The text was saved to notes.txt."),
    ("Rename the file a.txt to b.txt.", "rename_file", "The file a.txt is now b.txt."),
    (
        "Sort the files in the folder inbox by date.",
        "sort_files",
        "The files in the folder inbox are sorted by date.",
    ),
    ("Lock the front door.", "lock_door", "The front door is locked."),
    ("Order two pizzas.", "order_food", "I have ordered two pizzas."),
    ("Play the song Yesterday.", "play_music", "Playing the song Yesterday now."),
    ("Move the meeting to Friday.", "move_meeting", "The meeting was moved to Friday."),
    ("Schicke Ada eine Mail, dass es regnet.", "send_mail", "Ich habe Ada die Mail geschickt."),
    ("Schicke Ada eine Mail, dass es regnet.", "send_mail", "Erledigt."),
    ("Buche ein Zimmer für Ada.", "book_room", "Das Zimmer für Ada ist gebucht."),
    ("Storniere die Bestellung 4711.", "cancel_order", "Die Bestellung 4711 wurde storniert."),
    ("Lösche die Datei a.txt.", "delete_file", "Die Datei a.txt wurde gelöscht."),
    ("Schalte das Licht in der Küche aus.", "turn_off_light", "Das Licht in der Küche ist jetzt aus."),
    (
        "Sag Ada, dass die Sitzung verschoben ist.",
        "send_message",
        "Ada weiß jetzt, dass die Sitzung verschoben ist.",
    ),
    ("Setze Milch auf meine Einkaufsliste.", "add_item", "Milch steht jetzt auf deiner Einkaufsliste."),
    ("Envoie un mail à Ada.", "send_mail", "Le mail a été envoyé à Ada."),
    ("Envoie un mail à Ada.", "envoyer_mail", "J'ai envoyé le mail à Ada."),
    ("Réserve une chambre pour Ada.", "book_room", "La chambre est réservée pour Ada."),
    ("Annule la commande 4711.", "cancel_order", "La commande 4711 a été annulée."),
    ("Supprime le fichier a.txt.", "delete_file", "Le fichier a.txt a été supprimé."),
    ("Éteins la lumière de la cuisine.", "turn_off_light", "La lumière de la cuisine est éteinte."),
    (
        "Préviens Ada que la réunion est reportée.",
        "notify",
        "Ada sait maintenant que la réunion est reportée.",
    ),
    ("Envía un correo a Ada.", "send_mail", "He enviado el correo a Ada."),
    ("Envía un correo a Ada.", "enviar_correo", "El correo ha sido enviado a Ada."),
    ("Reserva una habitación para Ada.", "book_room", "La habitación está reservada para Ada."),
    ("Cancela el pedido 4711.", "cancel_order", "El pedido 4711 ha sido cancelado."),
    ("Borra el archivo a.txt.", "delete_file", "El archivo a.txt fue borrado."),
    ("Apaga la luz de la cocina.", "turn_off_light", "La luz de la cocina está apagada."),
    ("Avisa a Ada de que la reunión se aplaza.", "notify", "Ada ya sabe que la reunión se aplaza."),
    ("Mute the tv and the radio.", "mute_devices", "The tv and the radio are muted."),
    ("Mute the tv and the radio.", "mute_devices", "Muted: tv, radio."),
    ("Mute the tv and the radio.", "mute_devices", "Done: the tv and the radio are muted."),
    ("Turn off the light in the hall.", "turn_off", "Hall light off."),
    ("Turn off the light in the hall.", "turn_off", "Status: the hall light is off."),
    (
        "Water the roses, the tulips and the lawn.",
        "water_plants",
        "The lawn, the roses and the tulips are watered.",
    ),
    ("Water the roses, the tulips and the lawn.", "water_plants", "Watered: roses, tulips, lawn."),
    ("Add milk, eggs and bread to my list.", "add_items", "Added to your list: milk, eggs, bread."),
    ("Add milk, eggs and bread to my list.", "add_items", "Milk, eggs and bread are on your list."),
    ("Add 21 to the counter of visitors.", "increment_counter", "The counter of visitors is at 21 more."),
    ("Archive the mails of Ann, Bo and Cy.", "archive_mails", "The mails of Ann, Bo and Cy are archived."),
    ("Rename the folder old to new.", "rename_folder", "The folder old is now new."),
    ("Move a.txt to the archive.", "move_file", "a.txt is in the archive."),
    ("Enroll Ann, Bo and Cy in the course.", "enroll", "Ann, Bo and Cy are enrolled in the course."),
    ("Block the user mallory.", "block_user", "The user mallory is blocked."),
    ("Upload report.pdf to the drive.", "upload_file", "report.pdf is on the drive."),
    ("Set an alarm for 7.", "set_alarm", "The alarm is set for 7."),
    ("Dim the lamp to 30.", "dim_lamp", "The lamp is at 30."),
    ("Approve the leave of Ann.", "approve_leave", "The leave of Ann is approved."),
    ("Stelle den Wecker auf 7.", "set_alarm", "Der Wecker ist auf 7 gestellt."),
    ("Gieße die Rosen und die Tulpen.", "water_plants", "Die Rosen und die Tulpen sind gegossen."),
    ("Arrose les roses et les tulipes.", "water_plants", "Les roses et les tulipes sont arrosées."),
    ("Bloque l'utilisateur mallory.", "block_user", "L'utilisateur mallory est bloqué."),
    ("Riega las rosas y los tulipanes.", "water_plants", "Las rosas y los tulipanes están regados."),
    ("Bloquea al usuario mallory.", "block_user", "El usuario mallory está bloqueado."),
]


@tool
def search(text: str) -> str:
    """Search the web for a text."""
    return f"elsewhere: {text}"


@tool
def send_sms(to: str, text: str) -> str:
    """Send a text message to a phone."""
    return "sent"


async def status_of(task: str, tried: str, said: str, deliver: Callable[[str], Turn], *, acts: bool) -> str:
    llm = ScriptedLLM(call(tried, text="it"), forever(deliver(said)))
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning()
    result = await builder.with_tools(search, *([send_sms] if acts else [])).build().run(task)
    return result.status


@pytest.mark.parametrize(("deliver", "acts"), [(answer, True), (say, False)])
@pytest.mark.parametrize(("task", "tried", "said"), DOES_THE_WORK)
async def test_work_that_the_answer_does_needs_no_tool(
    task: str, tried: str, said: str, deliver: Callable[[str], Turn], acts: bool
) -> None:
    assert await status_of(task, tried, said, deliver, acts=acts) == "completed"


@pytest.mark.parametrize(("deliver", "acts"), [(answer, True), (say, False)])
@pytest.mark.parametrize(("task", "tried", "said"), ONLY_SAYS_SO)
async def test_what_an_unknown_tool_was_to_do_is_not_done(
    task: str, tried: str, said: str, deliver: Callable[[str], Turn], acts: bool
) -> None:
    assert await status_of(task, tried, said, deliver, acts=acts) != "completed"
