"""Tasks with the strategy that a person would give them to, written before the rules were.

Simple questions and single actions go to ``reactive``; texts and code whose quality matters to ``reflexion``;
work of several steps that build on each other to ``plan-execute-reflect``; open questions and creative work
to ``tree-of-thought``.

The rules were tuned on one half, ``TUNING``; the other, ``REPORT``, only ever told how good they are. Which
half a task belongs to follows from a hash of its text. Do not tune on ``REPORT``: write new tasks instead.
"""

# ruff: noqa: E501
from __future__ import annotations

from hashlib import sha256

_REACTIVE = """
What's 2+2?
Who wrote The Name of the Rose?
What is the capital of Mongolia?
Convert 72 degrees Fahrenheit to Celsius.
How many days are there between 3 March and 19 July?
What time is it in Tokyo right now?
Look up the current price of gold.
Read config.toml and tell me the port.
When was the Treaty of Westphalia signed?
Is 7919 a prime number?
Define photosynthesis in one sentence.
What does HTTP status 409 mean?
Give me the square root of 1764.
Find the phone number of our supplier in contacts.csv.
How tall is Mount Kilimanjaro?
Translate "good morning" into Finnish.
What is the weather like in Lisbon today?
Which file in this folder contains the word "deadline"?
What is 15% of 860?
Who is the current secretary general of the United Nations?
How do I undo the last commit in git?
Spell "necessary".
Tell me the boiling point of ethanol.
What was the score of yesterday's match between Ajax and Feyenoord?
List the files in the current directory.
What's the difference between a list and a tuple in Python?
Sum the numbers 14, 92, 7 and 33.
Does the library open on Sundays?
What is the chemical symbol of tungsten?
Hello!
Fetch https://example.org/status and tell me whether the service is up.
How many grams are in three ounces?
What does the acronym TCP stand for?
Turn the text "hello world" into upper case.
What year did Ada Lovelace die?
Check if port 8080 is in use.
Who am I talking to?
How long does it take to boil an egg?
Which languages are spoken in Switzerland?
What is the default timeout of the http client in settings.py?
Calculate the monthly payment for a loan of 20000 at 4% over five years.
What's on my calendar for tomorrow?
How old is the universe?
Give me a synonym for "happy".
Count the lines in server.log.
What is the exchange rate of the euro to the yen?
Name the planets of the solar system.
How do you say thank you in Portuguese?
What colour do you get when you mix blue and yellow?
Is the website up?
Search the web for the release date of Python 3.14.
What is an octagon?
Show me the last ten lines of the error log.
Remind me what the CAP theorem says.
At what temperature does paper burn?
What is the population of Peru according to the latest census?
In which drawer did I say the scissors were?
Who painted the ceiling of the Sistine Chapel, and when?
Please tell me the ISBN of Dune.
Send the message "I'll be late" to Karin.
"""

_REFLEXION = """
Write a technical report on the failure of the cooling pump.
Draft a formal letter to the landlord about the broken heating.
Proofread this paragraph and correct all mistakes: Their going too the store.
Write a polished abstract for my paper on graph neural networks.
Improve the wording of this press release so that it reads well to journalists.
Write an essay on the causes of the French Revolution.
Compose a sensitive condolence note to a colleague who lost her father.
Rewrite this contract clause so that it is precise and has no loopholes.
Write the documentation of the public API of this module.
Edit my cover letter for the position of data engineer.
Write a careful review of this manuscript for the journal.
Draft the executive summary of the annual report.
Write a function that parses ISO 8601 dates correctly, including all edge cases.
Translate this poem by Rilke into English, keeping metre and tone.
Write a high-quality product description for a handmade oak table.
Prepare the final wording of the privacy notice for our website.
Write a blog post about our new release that is accurate and engaging.
Critique this argument and give me an improved version of it.
Write an error-free SQL query that returns the top customers by revenue in each region.
Draft an apology to customers for last night's outage; it must strike the right tone.
Summarize this judgment for laymen without losing any legal nuance.
Write a persuasive speech for the opening of the new school.
Polish the introduction of my thesis.
Write a reference letter for my former student Ana Costa.
Formulate a clear and unambiguous job advertisement for a nurse.
Review this pull request and point out every bug.
Write a regular expression for email addresses and make sure that it has no false positives.
Write a newspaper article on the council's decision.
Draft the terms of service for a photo sharing site.
Correct the grammar and style of the following email.
Write a white paper on the security of our storage product.
Write a clear explanation of quantum entanglement for a textbook.
Rephrase this feedback so that it is honest, but kind.
Write a user manual for the coffee machine.
Draft a grant proposal for a study of urban bats.
Write a thorough unit test suite for the class Stack, covering every edge case.
Prepare a carefully worded reply to the complaint of Mr Horvat.
Write the speech that the bride's father gives at the wedding.
Write minutes of the meeting from these notes, complete and correct.
Refine this mission statement until it is concise and memorable.
Write an obituary for the founder of the choir.
Draft a memo to the board on the merger.
Write a literature review on sleep and memory.
Write a concise summary of this article of exactly 150 words.
Double-check and correct this proof that the square root of 2 is irrational.
Write an editorial on public transport.
Write a legal opinion on whether the clause is enforceable.
Draft a press statement about the recall that leaves no room for misunderstanding.
Write a detailed tutorial on list comprehensions for beginners.
Improve the readability of this function without changing what it does.
Write a professional biography of Dr. Amara Diallo for the conference programme.
Draft a patent claim for the hinge described below.
Revise the attached chapter for clarity and flow.
Write an academic paper section on the limits of our method.
Make this paragraph more precise.
Write a newsletter for the parents of the school.
"""

_PLAN = """
Plan a microservices architecture for an online bookshop.
Migrate our database from MySQL to PostgreSQL, then verify the data.
Research the five biggest battery makers and compile a comparison table.
Set up a CI pipeline, add linting, and then deploy the service to staging.
First collect last month's sales, then compute the growth by region, and finally write a report to report.md.
Organize a conference for 200 people: venue, speakers, catering and budget.
Analyze the three log files, find the root cause of the crash, and propose a fix.
Plan a two-week trip through Japan with train times and a budget.
Download the dataset, clean it, train a classifier and report its accuracy.
Compare the quarterly results of Apple, Microsoft and Google and summarize the trends.
Refactor the payment module into separate services and update all callers.
Build a small web application with login, a database and an admin page.
Create a study plan for the bar exam over three months.
Investigate why the nightly job fails, fix it and add a test.
Read all files in docs/, extract the open questions and make a list sorted by owner.
Launch a marketing campaign: define the audience, choose the channels, set the budget and schedule the posts.
Look up the prices of XRP, XLM, ETH and Bitcoin and then write them into a table in prices.md.
Implement a REST API for invoices with tests and documentation.
Upgrade the project from Python 3.9 to 3.13 and resolve every incompatibility.
Step by step, work out the total cost of ownership of an electric van compared to a diesel one.
Evaluate four vendors against our twelve requirements and recommend one.
Gather the commits of the last week, group them by author and draft release notes.
Prepare the move of our office: inventory, movers, network and schedule.
Find all customers without an invoice, create the invoices, and email each of them.
Audit the security of this repository and write up the findings with severity and remedy.
Write a scraper that collects job offers, store them in SQLite, and then plot the numbers per city.
Research the history of the bridge, interview questions included, and assemble a dossier.
Debug the memory leak: reproduce it, profile, isolate the cause, and patch it.
Develop a roadmap for the next four quarters with milestones and dependencies.
Take the CSV in data/, remove duplicates, join it with regions.csv and save the result as out.parquet.
Plan the rollout of the new HR system across six countries.
Design and implement a caching layer for the search service.
Search for the newest papers on protein folding, read the three best, and synthesize their findings.
Convert the documentation from reStructuredText to Markdown, fix the links and publish it.
Make a project plan for renovating the kitchen, with the order of trades.
Work through these tasks:
1. list the open tickets
2. close the duplicates
3. assign the rest
Benchmark the three sorting libraries, collect the timings and produce a chart.
Set up a new Kubernetes cluster, migrate the workloads and switch the DNS.
Compile a market analysis of e-bikes in Europe: size, competitors, prices and outlook.
Check each of the 40 URLs in links.txt, and afterwards write a list of those that are dead.
Reorganize the photo archive by year and event, and report what could not be sorted.
Create a backup, update the server, run the smoke tests and roll back if they fail.
Fetch the weather for Paris, Rome and Oslo, then calculate the average and save it to weather.json.
Coordinate the release: freeze the branch, build the artifacts, test them and announce it.
Do a due diligence of the company: finances, legal matters, team and technology.
Plan and schedule the onboarding of three new engineers.
Collect reviews of the ten most popular laptops and rank them by battery life and price.
Port the game from Java to Kotlin module by module.
Analyze our churn data, segment the customers and develop a retention plan.
Produce an itinerary for a school trip to Berlin with bookings, costs and a packing list.
Read the requirements, design the schema, generate the migrations and seed the tables.
Find out which of our dependencies have known vulnerabilities, upgrade those and run the tests after each.
Calculate the tax for each employee in staff.csv, then create the payslips and finally a summary for the accountant.
Implement the parser, then the type checker, then the code generator for this little language.
Look into the outage of 3 May: build a timeline, determine the causes and list follow-up actions.
Prepare everything for the audit in June: collect the records, check them for gaps and fill those gaps.
"""

_TREE = """
Brainstorm names for a bakery run by two sisters.
Come up with creative ways to reduce food waste in a school canteen.
What are some unconventional business ideas for a small island?
Write a short story about a lighthouse keeper who collects voices.
Invent a board game about beekeeping.
Explore different approaches to making our city car-free.
How might society change if people needed no sleep?
Suggest several possible explanations for the sudden drop in visitors.
Write a poem about rust.
Think of ten slogans for a bicycle shop.
Imagine a world in which the sea is sweet water and describe it.
Propose alternative endings for Romeo and Juliet.
Use the numbers 4, 9, 10 and 13 to make 24.
What could a museum of the future look like?
Give me ideas for a birthday party for a six-year-old who loves dinosaurs.
Devise a riddle whose answer is "shadow".
Generate a few wildly different concepts for a logo of a river cruise company.
What would be the best strategy to win at Monopoly, considering different play styles?
Solve this crossword: 1 across, five letters, a fruit; 2 down, four letters, a river.
Compose a song about moving to the countryside.
Find an original angle for a documentary on salt.
Which ways are there to motivate volunteers without money?
Dream up a festival that celebrates silence.
What if Rome had never fallen?
Design a fantasy creature that lives in deserts.
Weigh the options for what I should do after my degree.
Create a character for a detective novel set in Havana.
Explore possible futures of remote work.
I want to surprise my partner for our anniversary; what are some ideas?
How could we reinvent the umbrella?
Write the opening scene of a play about two astronauts.
Suggest a plot twist for my thriller.
Discuss various perspectives on whether machines can be conscious.
Think outside the box: how can a library attract teenagers?
Come up with hypotheses for why the experiment gave opposite results.
Write a haiku about traffic lights.
Invent a recipe with beetroot, coffee and oranges.
What might be novel uses for old wind turbine blades?
Place eight queens on a chessboard so that none attacks another.
Suggest gift ideas for a grandfather who has everything.
Make up a fairy tale with a grumpy teapot.
Consider alternatives to performance reviews and their merits.
What are possible solutions to the housing shortage in Dublin?
Speculate about what language whales would write in.
Conceive an art installation for an abandoned swimming pool.
A farmer must cross a river with a wolf, a goat and a cabbage. How can he do it?
Brainstorm features for an app for birdwatchers.
Pitch three different concepts for a podcast on maths.
Explore the design space for a chair made of one sheet of cardboard.
Write lyrics for a lullaby.
What are creative ways to explain gravity to children?
Think up a team-building activity for programmers who hate team-building.
How would you approach ending loneliness in big cities?
Envision our company ten years from now.
Come up with a catchy title for my memoir.
Find different ways to split the bill fairly among nine friends.
Tell me a bedtime story about a snail who wants to fly.
Generate ideas on how to make bus rides fun.
"""


def _tasks(text: str) -> list[str]:
    """One task a line; a line that begins with a number goes on with the task above it."""
    tasks: list[str] = []
    for line in text.strip().splitlines():
        if line[:2] in ("1.", "2.", "3."):
            tasks[-1] += f"\n{line}"
        else:
            tasks.append(line)
    return tasks


LABELLED: tuple[tuple[str, str], ...] = tuple(
    (task, strategy)
    for strategy, text in (
        ("reactive", _REACTIVE),
        ("reflexion", _REFLEXION),
        ("plan-execute-reflect", _PLAN),
        ("tree-of-thought", _TREE),
    )
    for task in _tasks(text)
)


def in_report(task: str) -> bool:
    """Whether the task belongs to the half that is reported on."""
    return sha256(task.encode()).digest()[0] % 2 == 1


TUNING = tuple(each for each in LABELLED if not in_report(each[0]))
REPORT = tuple(each for each in LABELLED if in_report(each[0]))
