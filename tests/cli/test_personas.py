"""The commands about personas: events in, outcomes out, and everything readable afterwards."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import anyio
import pytest
from attrs import evolve

from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.cli.persona import lines_of, read_line
from reactive_agents.cli.persona_records import print_plan
from reactive_agents.core.codec import decode
from reactive_agents.core.errors import RateLimited
from reactive_agents.core.personas import PersonaOutcome, PersonaPlan
from reactive_agents.studio.diagrams import mermaid, persona_diagram, svg
from reactive_agents.testing import FakeClock, ScriptedLLM, fail, forever, say
from tests.cli.test_run import INTERRUPTING
from tests.support.command_line import ENVIRONMENT, Terminal, command
from tests.support.interrupts import heed_interrupts
from tests.support.personas import REPLANNING, a_persona_plan, assessed, persona_bench, planned

LIMITED = RateLimited("Too many requests.", "scripted/test")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "moon.md").write_text("# The moon\n\nThe moon is 384400 km away from the earth.\n")
    path = tmp_path / "ada.toml"
    path.write_text(
        f'name = "ada"\nmemory = "{tmp_path}/ada.db"\n[model]\nmodel = "offline"\n'
        f'[[domains]]\nname = "chat"\n[domains.agent]\ntools = ["file-search", "file-read"]\n'
        f'workspace = "{tmp_path}"\nreasoning = {{}}\n[[domains]]\nname = "code"\n'
    )
    return path


def test_what_cannot_be_served_is_explained(file: Path) -> None:
    plain = command("persona", "serve", file)
    assert plain.exit_code == 2
    assert "No domain of 'ada' has a channel" in " ".join(plain.stderr.replace("│", " ").split())
    file.write_text(file.read_text() + '[domains.channel]\nkind = "slack"\nsecret_env = "NOT_SET"\n')
    unset = command("persona", "serve", file)
    assert unset.exit_code == 2
    assert "domains.code.channel.secret_env" in unset.stderr


def lived(path: Path, llm: ScriptedLLM, **settings: Any) -> PersonaOutcome:
    """Process one event by a persona with a real file and this model."""

    async def live() -> PersonaOutcome:
        store = SqlitePersonaStore(path)
        try:
            clock = FakeClock(
                datetime.now(UTC), step_s=0.001
            )  # confidence fades, and the commands read the clock
            return await persona_bench(llm, store=store, clock=clock, **settings).process("What is React?")
        finally:
            await store.aclose()

    return anyio.run(live)


@pytest.fixture
def memory(tmp_path: Path) -> tuple[Path, PersonaOutcome]:
    path = tmp_path / "memory.db"
    llm = ScriptedLLM(
        planned(
            "Gather facts.",
            "Ask the search service.",
            "Write.",
            contingencies={"rate_limit": ("Use what is there.",)},
            learnings=("Bob is a beginner.",),
            risks=("Too many words.",),
        ),
        say("Facts: 42.", when="Gather facts.\n"),
        fail(LIMITED, when="Ask the search service.\n"),
        fail(LIMITED, when="Use what is there.\n"),
        planned("Write it from the facts.", when=REPLANNING),
        say("It is 42.", when="Write it from the facts.\n"),
        assessed(
            "Do not rely on the search service.",
            what_worked=("The facts were enough.",),
            mistakes=("The service was asked first.",),
            improvements=("Begin with the facts.",),
        ),
    )
    return path, lived(path, llm)


# --- events ---------------------------------------------------------------------------------------------


def test_send_prints_the_answer_and_tells_the_stages(file: Path) -> None:
    done = command("persona", "send", str(file), "How far away is the moon from the earth?")
    assert done.exit_code == 0, done.stderr
    assert "The moon is 384400 km away from the earth." in done.stdout
    for stage in ("event", "engagement", "plan", "step", "outcome", "answer", "evaluation"):
        assert any(line.startswith(f"{stage} ") for line in done.stderr.splitlines()), stage
    plan = command("plan", "--persona", file)
    assert plan.exit_code == 0
    assert "s1\tcompleted\t" in plan.stdout


def test_records_are_read_with_a_file_that_names_functions_which_are_not_loaded(file: Path) -> None:
    assert command("persona", "send", file, "How far away is the moon?").exit_code == 0
    file.write_text(file.read_text().replace('"file-read"', '"no_such_module:lend"'))
    plan = json.loads(command("plan", "--json", "--persona", file).stdout)["plan"]["id"]
    inbox = ("persona", "inbox", "list", "--all")
    for shown in (("plan",), ("explain", "--plan-id", plan), ("learnings",), inbox):
        done = command(*shown, "--persona", file)
        assert (done.exit_code, done.stderr) == (0, ""), shown
    sent = command("persona", "send", file, "How far away is the moon?")
    assert (sent.exit_code, "allow_tools_from" in sent.stderr) == (2, True)


def test_send_prints_one_document_with_json(file: Path) -> None:
    sent = command("persona", "send", file, "How far away is the moon?", "--json")
    outcome = decode(json.loads(sent.stdout), PersonaOutcome).unwrap()
    assert (sent.exit_code, outcome.status) == (0, "completed")


def test_send_names_the_user_and_the_tenant_of_the_event(file: Path) -> None:
    sent = command("persona", "send", file, "How far is the moon?", "--user", "u1", "--tenant", "acme")
    assert sent.exit_code == 0, sent.stderr
    listed = command("persona", "inbox", "list", "--all", "--tenant", "acme", "--json", "--persona", file)
    (item,) = json.loads(listed.stdout)
    assert (item["event"]["user"], item["event"]["tenant"], item["room"]["tenant"]) == ("u1", "acme", "acme")


@pytest.mark.parametrize("given", [(), ("--tenant", "market")])
def test_an_event_is_of_a_tenant_of_the_channel(file: Path, given: tuple[str, ...]) -> None:
    environment = {"SUPPORT_SECRET": "a secret of sixteen"}
    file.write_text(
        file.read_text()
        + '[domains.channel]\nkind = "webhook"\nurl = "http://127.0.0.1:9/"\n'
        + 'secret_env = "SUPPORT_SECRET"\ntenant = "shop"\n'
    )
    value = repr("market" if given else "")
    expected = f"event.tenant: got {value}, expected a tenant of the channel of 'code', in event "
    sent = command("persona", "send", file, "Hello", "--domain", "code", *given, "--json", **environment)
    assert (sent.exit_code, json.loads(sent.stdout)["error"]["tag"]) == (2, "InvalidEvent")
    assert json.loads(sent.stdout)["error"]["message"].startswith(expected)
    line = json.dumps({"content": "Hello", "domain": "code", "tenant": "market" if given else ""})
    ran = command("persona", "run", file, stdin=line, **environment)
    assert ran.exit_code == 1
    assert f"error: line 1: {expected}" in ran.stderr
    assert json.loads(command("persona", "inbox", "list", "--all", "--json", "--persona", file).stdout) == []


def test_a_declined_event_is_no_failure(file: Path) -> None:
    sent = command("persona", "send", file, "Hello", "--author", "ada")
    assert sent.exit_code == 0
    assert "declined: The persona is its author." in sent.stderr


def test_an_event_without_content_is_refused(file: Path) -> None:
    sent = command("persona", "send", file, " ")
    assert (sent.exit_code, sent.stdout) == (2, "")
    assert "event.content: got ' ', expected a text that is not blank" in sent.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["persona", "send", "nowhere.toml", "Hello"], "config: got 'nowhere.toml'"),
        (["persona", "send", "FILE", "Hello", "--domain", "chess"], "expected one of chat, code"),
        (["plan"], "--persona: got nothing"),
        (["plan", "--memory", "FILE"], "--persona: got nothing"),
        (["learnings", "--persona", "ada", "--memory", "nowhere.db"], "memory: got 'nowhere.db'"),
        (["explain", "--plan-id", "p"], "--persona: got nothing"),
    ],
)
def test_bad_usage_says_what_was_expected(file: Path, arguments: list[str], said: str) -> None:
    done = command(*(str(file) if each == "FILE" else each for each in arguments))
    assert done.exit_code == 2
    assert said in done.stderr


def test_run_takes_json_lines_and_tells_wrong_ones(file: Path) -> None:
    lines = [
        '{"content": "How far away is the moon?", "id": "e1"}',
        "",
        '{"content": "Hello", "author": "ada", "context": "other"}',
        '{"contents": "?"}',
        '{"content": "e4", "domain": "chess"}',
        '{"content": " ", "id": "e5"}',
    ]
    done = command("persona", "run", file, "--json", stdin="\n".join(lines))
    outcomes = [decode(json.loads(line), PersonaOutcome).unwrap() for line in done.stdout.splitlines()]
    assert {(outcome.event_id == "e1", outcome.status) for outcome in outcomes} == {
        (True, "completed"),
        (False, "declined"),
    }
    first, second, third = done.stderr.splitlines()
    assert first.startswith("error: line 4: Not a valid EventLine:")
    assert second == "error: line 5: There is no domain 'chess'. Known: chat, code."
    assert third.startswith("error: line 6: event.content: got ' ', expected a text that is not blank")
    assert done.exit_code == 3


@pytest.mark.anyio
async def test_a_line_in_another_encoding_holds_up_no_other_one() -> None:
    lines = b'{"content": "One?"}', b'{"content": "\xe9"}', b'{"content": "Two?"}'
    source = io.TextIOWrapper(io.BytesIO(b"\n".join(lines)), "utf-8")
    async with lines_of(source) as read:
        taken = [read_line(text).unwrap().content async for text in read]
    assert taken == ["One?", "\udce9", "Two?"]


def test_the_support_room_of_the_page_answers_offline_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[2]
    shutil.copytree(root / "docs" / "examples" / "support", tmp_path / "docs" / "examples" / "support")
    monkeypatch.chdir(tmp_path)
    page = (root / "docs" / "personas.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^reactive-agents (persona run .*) < (.*)$", page, re.M)
    arguments, events = line[0].split(), (tmp_path / line[1]).read_text()
    shown = page.partition("```text\n")[2].partition("```")[0]
    first = command(*arguments, stdin=events)
    assert (first.exit_code, set((first.stdout + first.stderr).splitlines())) == (0, set(shown.splitlines()))
    again = command(*arguments, stdin=events)
    assert sorted(again.stdout.splitlines()) == sorted(first.stdout.splitlines())
    plans = command("persona", "plans", "list", "--persona", arguments[2]).stdout.splitlines()
    assert len(plans) == 3, "nothing is planned twice"
    why = command("explain", "--event", "2", "--context", "dealer-9", "--persona", arguments[2]).stdout
    assert "Declined: A guardrail blocked the event" in why


def thirty_lines() -> str:
    return "".join(f'{{"content": "How far is the moon?", "id": "e{number}"}}\n' for number in range(30))


@pytest.mark.system
def test_run_reads_no_faster_than_it_works(file: Path) -> None:
    file.write_text(f"{file.read_text()}[inbox]\ncapacity = 1\n[engagement]\nmax_events = 100\n")
    done = command("persona", "run", file, "--json", stdin=thirty_lines())
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["event_id"] for each in outcomes] == [f"e{number}" for number in range(30)]
    assert ({each["status"] for each in outcomes}, done.stderr, done.exit_code) == ({"completed"}, "", 0)


def test_run_tells_what_overflows_the_inbox(file: Path) -> None:
    file.write_text(f'{file.read_text()}[inbox]\ncapacity = 1\noverflow = "drop_oldest"\n')
    done = command("persona", "run", file, "--json", stdin=thirty_lines())
    problems = done.stderr.splitlines()
    assert len(done.stdout.splitlines()) + len(problems) == 30
    assert all("The inbox is full; event" in problem for problem in problems)
    assert (len(problems) > 0, done.exit_code) == (True, 3)


def test_events_that_a_limit_refused_are_in_the_exit_code(file: Path) -> None:
    file.write_text(f"{file.read_text()}[engagement]\nmax_events = 2\n")
    done = command("persona", "run", file, "--json", stdin=thirty_lines())
    statuses = [json.loads(line)["status"] for line in done.stdout.splitlines()]
    assert (statuses.count("completed"), statuses.count("declined"), done.exit_code) == (2, 28, 3)


@pytest.mark.system
def test_an_interruption_ends_it_though_standard_input_stays_open(file: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "reactive_agents", "persona", "run", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        preexec_fn=heed_interrupts,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"content": "How far away is the moon?"}\n')
        process.stdin.flush()
        assert "Quotations" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 130


def running(file: Path) -> subprocess.Popen[str]:
    """Start a persona that works on a hundred events at most, and reads them from a pipe."""
    file.write_text(f"{file.read_text()}[engagement]\nmax_events = 100\n")
    command_line = [sys.executable, "-m", "reactive_agents", "persona", "run", str(file), "--json"]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command_line, **pipes, text=True, env=ENVIRONMENT)


@pytest.mark.system
def test_sigterm_drains_and_what_waits_is_done_at_the_next_start(file: Path) -> None:
    with running(file) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(thirty_lines())
        process.stdin.flush()  # and it stays open
        first = [process.stdout.readline()]
        process.send_signal(signal.SIGTERM)
        first += process.stdout.read().splitlines()
        assert process.wait(timeout=60) == -signal.SIGTERM
        said = re.fullmatch(
            r"Ended by SIGTERM; lines after line (\d+) are to be sent again\.\n", process.stderr.read()
        )
    assert said is not None
    assert int(said[1]) >= len(first)
    done = command("persona", "run", file, "--json")
    outcomes = [json.loads(line) for line in (*first, *done.stdout.splitlines())]
    assert [each["event_id"] for each in outcomes] == [f"e{number}" for number in range(len(outcomes))]
    assert {each["status"] for each in outcomes} == {"completed"}
    assert 0 < len(first) < len(outcomes), "nothing was begun after the signal, and nothing of it is lost"


@pytest.mark.system
def test_an_outcome_that_nobody_reads_ends_it_and_is_no_failure_of_the_event(file: Path) -> None:
    with running(file) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(thirty_lines().partition("\n")[0] + "\n")
        process.stdin.flush()
        first = json.loads(process.stdout.readline())
        process.stdout.close()
        process.stdin.write(thirty_lines().partition("\n")[2])
        process.stdin.close()
        assert process.wait(timeout=300) == 1
        assert process.stderr.read() == ""
    listed = json.loads(command("persona", "inbox", "list", "--all", "--persona", file, "--json").stdout)
    states = [each["status"] for each in listed]
    assert (first["event_id"], states.count("done"), states.count("dead")) == ("e0", 1, 0)
    left = [json.loads(line) for line in command("persona", "run", file, "--json").stdout.splitlines()]
    assert {each["event_id"] for each in left} == {each["key"] for each in listed} - {"e0"}
    assert {each["status"] for each in left} == {"completed"}


def test_an_interruption_in_json_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "ada.toml"
    file.write_text(
        f'name = "ada"\nmemory = "{tmp_path}/ada.db"\n[model]\nmodel = "offline"\n'
        '[[domains]]\nname = "chat"\n[domains.agent]\ntools = ["interrupting:calculator"]\nreasoning = {}\n'
    )
    (tmp_path / "interrupting.py").write_text(INTERRUPTING)
    refused = command("persona", "send", file, "What is 2 * 3?", "--json", modules=tmp_path)
    assert refused.exit_code == 2, "functions are named only with leave"
    leave = ("--allow-tools-from", "interrupting")
    done = command("persona", "send", file, "What is 2 * 3?", "--json", *leave, modules=tmp_path)
    assert (done.exit_code, done.stderr) == (130, "")
    assert json.loads(done.stdout)["error"]["tag"] == "RunCancelled"


# --- records --------------------------------------------------------------------------------------------


def test_plan_shows_steps_with_their_state(memory: tuple[Path, PersonaOutcome]) -> None:
    path, outcome = memory
    shown = command("plan", "--persona", "ada", "--memory", path)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == f"plan {outcome.plan.id} (completed, criteria met, model)"  # type: ignore[union-attr]
    assert "replanned: 1" in lines
    states = [line.split("\t")[:3] for line in lines if line.startswith("s")]
    assert states == [
        ["s1", "completed", "Gather facts."],
        ["s2", "failed", "Ask the search service."],
        ["s4", "failed", "Use what is there."],
        ["s3", "skipped", "Write."],
        ["s5", "completed", "Write it from the facts."],
    ]
    assert "criterion: The answer is clear." in lines


def test_no_text_of_a_plan_looks_like_another_part_of_it(
    memory: tuple[Path, PersonaOutcome], capsys: pytest.CaptureFixture[str]
) -> None:
    _, outcome = memory
    assert outcome.plan is not None
    said = "Hi.\ngoal: Pay.\u2028plan p1 (completed, criteria met, model)\rcriterion: It is paid."
    event = evolve(outcome.plan.event, content=said)
    print_plan(evolve(outcome.plan, event=event, success_criteria=(said,)))
    heads = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert [heads.count(each) for each in ("event", "goal", "criterion")] == [1, 1, 1]
    assert sum(each.startswith("plan") for each in heads) == 1


def test_plan_as_json_is_the_plan(memory: tuple[Path, PersonaOutcome]) -> None:
    path, outcome = memory
    assert outcome.plan is not None
    shown = command("plan", "--memory", path, "--plan-id", outcome.plan.id, "--json")
    assert decode(json.loads(shown.stdout), PersonaPlan).unwrap() == outcome.plan


def test_plan_as_a_picture(memory: tuple[Path, PersonaOutcome]) -> None:
    path, _ = memory
    drawn = command("plan", "--persona", "ada", "--memory", path, "--graph", "svg").stdout
    texts = [element.text for element in ElementTree.fromstring(drawn).iter() if element.text]
    assert "Use what is there." in texts
    assert "rate_limit" in texts
    chart = command("plan", "--persona", "ada", "--memory", path, "--graph", "mermaid").stdout
    assert chart.startswith("graph TD\n")
    assert "-. rate_limit .->" in chart
    assert '["s5: Write it from the facts. (completed)"]:::completed\n' in chart


def test_a_plan_is_a_picture_or_a_document(memory: tuple[Path, PersonaOutcome]) -> None:
    refused = command("plan", "--persona", "ada", "--memory", memory[0], "--graph", "svg", "--json")
    assert refused.exit_code == 2
    assert json.loads(refused.stdout)["error"]["message"].startswith("--graph: got svg with --json")


@pytest.mark.parametrize(
    ("said", "shown"),
    [("月" * 300, "月" * 27), ("Look\x00 \x1b[31mup\nit", "Look up it")],
)
def test_a_picture_holds_whatever_a_model_writes(said: str, shown: str) -> None:
    drawn = persona_diagram(a_persona_plan(said))
    texts = [element.text for element in ElementTree.fromstring(svg(drawn)).iter() if element.text]
    assert shown in texts
    assert f'["s1: {shown}' in mermaid(drawn)


def test_explain_tells_the_chain_from_the_records(memory: tuple[Path, PersonaOutcome]) -> None:
    path, outcome = memory
    assert outcome.plan is not None
    told = command("explain", "--memory", path, "--plan-id", outcome.plan.id)
    assert told.exit_code == 0
    said = [tuple(line.split("\t")[1:]) for line in told.stdout.splitlines()]
    stages = [stage for stage, _ in said]
    assert stages[:2] == ["event", "engagement"]
    assert stages[-4:] == ["learning", "event", "delivery", "evaluation"]
    texts = dict(reversed(said))
    assert texts["event"] == "Bob in chat/general: What is React?"
    assert texts["adjustment"].startswith("CONTINGENCY: Step s2 failed (rate_limit)")
    assert any(text.startswith("REPLAN: Step s4 (Use what is there.) failed") for _, text in said)
    assert texts["outcome"] == "completed: Every step succeeded or was recovered from."
    for found in ("Worked: The facts were enough.", "Mistake: The service was asked first."):
        assert ("evaluation", found) in said
    assert ("evaluation", "Next time: Begin with the facts.") in said
    document = json.loads(command("explain", "--memory", path, "--plan-id", outcome.plan.id, "--json").stdout)
    assert [link["stage"] for link in document] == stages


def test_a_plan_that_was_given_up_is_explained(tmp_path: Path) -> None:
    llm = ScriptedLLM(
        planned("Way 0."),
        *(planned(f"Way {number}.", when=REPLANNING) for number in range(1, 4)),
        *(fail(LIMITED, when=f"Way {number}.\n") for number in range(4)),
        assessed(),
    )
    outcome = lived(tmp_path / "memory.db", llm)
    assert outcome.plan is not None
    told = command("explain", "--memory", tmp_path / "memory.db", "--plan-id", outcome.plan.id).stdout
    assert told.count("REPLAN: ") == 3
    assert "ABORT: Step s4 (Way 3.) failed (rate_limit) after 3 new plans; aborting." in told
    assert "outcome\tfailed: " in told


def test_stages_that_failed_are_explained(tmp_path: Path) -> None:
    outcome = lived(tmp_path / "memory.db", ScriptedLLM(forever(fail(LIMITED))), max_replans=1)
    assert outcome.plan is not None
    told = command("explain", "--memory", tmp_path / "memory.db", "--plan-id", outcome.plan.id).stdout
    failures = [line.split("\t")[2] for line in told.splitlines() if "\tfailure\t" in line]
    assert [failure.partition(":")[0] for failure in failures] == ["plan", "replan", "evaluate"]
    assert all("Too many requests." in failure for failure in failures)


def test_learnings_are_listed_shown_set_and_deleted(memory: tuple[Path, PersonaOutcome]) -> None:
    path, outcome = memory
    place = ("learnings", "--persona", "ada", "--memory", path)
    (row,) = command(*place).stdout.splitlines()
    name, domain, confidence, counts, pattern = row.split("\t")
    assert (domain, confidence, counts) == ("chat", "0.67", "1/0")
    assert pattern == "Do not rely on the search service."
    assert command(*place, "--min-confidence", "0.7").stdout == ""
    assert command(*place, "--domain", "code").stdout == ""
    assert outcome.plan is not None
    assert f"learned from: {outcome.plan.task.id}" in command(*place, "show", name).stdout
    changed = command(*place, "--json", "override", name, "--confidence", "0.1")
    assert (json.loads(changed.stdout)["confidence"], json.loads(changed.stdout)["pinned"]) == (0.1, True)
    assert "confidence: 0.10 (set by hand)" in command(*place, "show", name).stdout
    assert "confidence: 0.67\n" in command(*place, "override", name).stdout
    assert command(*place, "delete", name).stdout == f"deleted {name}\n"
    assert command(*place).stdout == ""
    gone = command(*place, "delete", name)
    assert (gone.exit_code, gone.stderr) == (1, f"error: There is no learning '{name}'.\n")


def test_options_of_learnings_may_follow_the_subcommand(memory: tuple[Path, PersonaOutcome]) -> None:
    path, _ = memory
    place = ("--persona", "ada", "--memory", path)
    name = command("learnings", *place).stdout.split("\t")[0]
    shown = command("learnings", *place, "show", name).stdout
    assert command("learnings", "show", name, *place).stdout == shown
    assert command("learnings", "--persona", "ada", "show", name, "--memory", path).stdout == shown
    changed = command("learnings", "override", name, "--confidence", "0.1", *place, "--json").stdout
    assert json.loads(changed)["pinned"] is True
    nearer = command("learnings", "--memory", "nowhere.db", "show", name, *place)
    assert "set by hand" in nearer.stdout
    assert json.loads(command("learnings", "--json", "delete", name, *place).stdout) == {"deleted": name}
    nowhere = command("learnings", "show", name, "--persona", "ada", "--memory", "nowhere.db")
    assert (nowhere.exit_code, "memory: got 'nowhere.db'" in nowhere.stderr) == (2, True)


def test_a_learning_with_words_of_its_room_waits_for_a_person(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    lived(
        path, ScriptedLLM(planned("Answer."), say("So.", when="Answer."), assessed("Tell Bob of React 18."))
    )
    place = ("--persona", "ada", "--memory", path)
    name, _, domain, room, pattern = command("learnings", "review", *place).stdout.rstrip("\n").split("\t")
    assert (domain, room, pattern) == ("chat", "general", "Tell Bob of React 18.")
    approved = command("learnings", "approve", name, *place).stdout
    assert "pattern: Tell [name] of [name] [number]\n" in approved
    assert "used in: every room\n" in approved
    assert command("learnings", "review", *place).stdout == ""
    worded = command("learnings", "approve", name, "--pattern", "Name the version.", *place, "--json").stdout
    assert (json.loads(worded)["pattern"], json.loads(worded)["room"]) == ("Name the version.", None)
    kept = command("learnings", "keep", name, *place, "--json").stdout
    assert json.loads(kept)["reviewed"] is True


def test_a_terminal_gets_a_table(memory: tuple[Path, PersonaOutcome]) -> None:
    arguments = ("learnings", "--persona", "ada", "--memory", memory[0])
    shown = command(*arguments, stdout=Terminal(), COLUMNS="120").stdout
    assert "worked/failed" in shown
    assert "\t" not in shown


def test_what_is_out_of_range_is_refused(memory: tuple[Path, PersonaOutcome]) -> None:
    refused = command("learnings", "--persona", "ada", "--memory", memory[0], "--min-confidence", "2")
    assert refused.exit_code == 2
    assert "expected a number from 0 to 1" in refused.stderr


def test_an_unknown_plan_is_an_error(memory: tuple[Path, PersonaOutcome]) -> None:
    for told in ("plan", "explain"):
        missing = command(told, "--memory", memory[0], "--plan-id", "nothing")
        assert (missing.exit_code, missing.stderr) == (1, "error: There is no plan 'nothing'.\n")
    assert json.loads(command("plan", "--memory", memory[0], "--plan-id", "nothing", "--json").stdout) == {
        "error": {"tag": "RecordNotFound", "message": "There is no plan 'nothing'."}
    }
