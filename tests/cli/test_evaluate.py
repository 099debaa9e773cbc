"""``reactive-agents evaluate``: cases of a file, in a table and as JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Completed, command
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.waiting import until_blocking

ROOT = Path(__file__).parents[2]

CASES = """
[[cases]]
name = "product"
task = "What is 17 * 23?"
contains = ["391"]
matches = ['\\d{3}']
max_cost_usd = 0
calls = [{ tool = "calculator", times = 1, arguments = { expression = "17 * 23" } }]

[[cases]]
task = "What is 2 + 2?"
expected = "5"
"""


def evaluated(folder: Path, cases: str, *options: str) -> Completed:
    (folder / "cases.toml").write_text(cases, encoding="utf-8")
    return command("evaluate", folder / "cases.toml", *options, OPENAI_API_KEY="sk-test")


def test_the_table_says_which_cases_do_not_pass_and_the_exit_code_that_some_did_not(tmp_path: Path) -> None:
    done = evaluated(tmp_path, CASES, "--tools", "calculator", "--repeats", "2")
    assert done.exit_code == 1
    table = done.stdout.splitlines()
    assert table[1].startswith("product         2 of 2  $0.0000")
    assert table[2].endswith("expected output: got '2 + 2 = 4', expected '5'")
    assert table[3].endswith("50% passed")
    assert sorted(done.stderr.splitlines()) == [
        "What is 2 + 2?, run 1: expected output: got '2 + 2 = 4', expected '5'",
        "What is 2 + 2?, run 2: expected output: got '2 + 2 = 4', expected '5'",
        "product, run 1: passed",
        "product, run 2: passed",
    ]


def test_json_is_the_report_and_a_rate_that_is_reached_is_no_failure(tmp_path: Path) -> None:
    done = evaluated(tmp_path, CASES, "--tools", "calculator", "--pass-rate", "0.5", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["passed"], report["runs"]) == (1, 2)
    assert [case["name"] for case in report["cases"]] == ["product", "What is 2 + 2?"]


def test_calls_and_their_arguments_are_compared(tmp_path: Path) -> None:
    calls = 'calls = [{ tool = "calculator", arguments = { times = 2 } }, { tool = "file-read", times = 0 }]'
    done = evaluated(
        tmp_path, f'[[cases]]\ntask = "What is 3 * 4?"\n{calls}\n', "--tools", "calculator,file-read"
    )
    assert done.exit_code == 1
    assert "calls calculator: 0 calls" in done.stdout
    assert "calls shell" not in done.stdout


def test_a_judge_is_shown_the_answer_and_the_expected_one(tmp_path: Path) -> None:
    judged = Answer('{"reason": "It names no unit.", "score": 0.2}')
    with OpenAIServer(judged) as server:
        (tmp_path / "judge.toml").write_text(
            f'[model]\nmodel = "openai/gpt-4o-mini"\nprofiles = ":memory:"\nbase_url = "{server.base_url}"\n'
        )
        case = '[[cases]]\ntask = "What is 2 + 2?"\nexpected = "4 euros"\ncriteria = ["It names the unit."]\n'
        judge = str(tmp_path / "judge.toml")
        done = evaluated(tmp_path, case, "--tools=calculator", "--judge", judge)
    assert done.exit_code == 1
    assert "judged: It names the unit.: It names no unit." in done.stdout
    question = json.dumps(server.requests[0].body["messages"])
    assert "2 + 2 = 4" in question
    assert "4 euros" in question


@pytest.mark.parametrize(
    ("cases", "options", "said"),
    [
        ("cases = []", (), "cases"),
        ('[[cases]]\ntask = "x"\nanswer = "y"', (), "answer"),
        ('[[cases]]\ntask = "x"\nstatus = "done"', (), "status"),
        ('[[cases]]\ntask = "x"\nmatches = ["("]', (), "cases[0].matches: got '('"),
        ('[[cases]]\ntask = "x"\ncriteria = ["It is short."]', (), "expected a judge= or --judge"),
        ('[[cases]]\ntask = "x"\n[[cases]]\ntask = "x"', (), "2 cases named 'x'"),
        (CASES, ("--tools", "hammer"), "hammer"),
        (CASES, ("--pass-rate", "2"), "expected a share from 0 to 1"),
        (CASES, ("--repeats", "0"), "--repeats"),
        (CASES, ("--judge", "no/such/judge.toml"), "no/such/judge.toml"),
    ],
)
def test_what_is_wrong_is_named_before_anything_runs(
    tmp_path: Path, cases: str, options: tuple[str, ...], said: str
) -> None:
    done = evaluated(tmp_path, cases, *options)
    assert (done.exit_code, done.stdout) == (2, ""), done
    assert said in " ".join(done.stderr.split())


def test_a_missing_file_is_bad_usage_in_json_too(tmp_path: Path) -> None:
    done = command("evaluate", tmp_path / "none.toml", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["message"].endswith("expected a file of cases that exists.")


def test_the_record_of_runs_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text('[durability]\npath = "runs.db"\n')
    config = str(tmp_path / "agent.toml")
    done = evaluated(tmp_path, '[[cases]]\ntask = "What is 2 + 2?"\n', "--config", config)
    assert done.exit_code == 0, done
    assert not (tmp_path / "runs.db").exists()
    assert not Path("runs.db").exists()


def test_a_tool_that_the_agent_lacks_is_an_error_also_where_it_should_not_be_called(tmp_path: Path) -> None:
    calls = 'calls = [{ tool = "calculatr", times = 0 }]'
    done = evaluated(tmp_path, f'[[cases]]\ntask = "What is 3 * 4?"\n{calls}\n', "--tools", "calculator")
    assert done.exit_code == 1
    assert "the agent has no tool 'calculatr', but: calculator" in done.stdout


HANGS_AT_ITS_SECOND_RUN = """
from pathlib import Path

from reactive_agents import ReactiveAgents
from reactive_agents.testing import ScriptedLLM, say


def second(request):
    Path("second").touch()
    return say("late", delay=3_600)


agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("done"), second))
"""


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_sigterm_reports_the_runs_that_were_judged(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "cases.toml").write_text(
        '[[cases]]\ntask = "One."\ncontains = ["done"]\n[[cases]]\ntask = "Two."\n'
    )
    (tmp_path / "app.py").write_text(HANGS_AT_ITS_SECOND_RUN)
    arguments = ("evaluate", "cases.toml", "--config", "app:agent", "--limit", "1", *options)
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    evaluating = (sys.executable, "-m", "reactive_agents", *arguments)
    paths = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(evaluating, **pipes, cwd=tmp_path, env=paths) as process:
        until_blocking((tmp_path / "second").exists)
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate()
    assert process.returncode == -signal.SIGTERM
    if not options:
        assert printed.endswith("The evaluation was interrupted after 1 run.\n")
        return
    document = json.loads(printed)
    assert (document["passed"], document["runs"]) == (1, 1)
    assert document["error"]["tag"] == "Interrupted"
