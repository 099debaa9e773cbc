"""The outputs in the README; ``python -m tests.docs.readme`` brings them up to date."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
OUTPUT = re.compile(r"(?<=```text\n).*?(?=```)", re.S)
PROGRAM = re.compile(r"(?<=```python\n).*?(?=```)", re.S)


def run(*command: str) -> str:
    """Both outputs together, as on a terminal."""
    ran = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
        timeout=60,
        env={
            "PATH": os.environ["PATH"],
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "REACTIVE_AGENTS_RUN_LOG": "off",
        },
    )
    return ran.stdout


def demo_output() -> str:
    """Return the output of ``make demo``."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (question,) = re.findall(r"^QUESTION \?= (.*)$", makefile, re.M)
    command = [sys.executable, "-m", "reactive_agents", "run", question, "--model", "offline"]
    return run(*command, "--tools", "calculator,file-search,file-read", "--workspace", "docs")


def quick_start_output() -> str:
    """Return the output of the first program in the README."""
    return run(sys.executable, "-c", PROGRAM.findall(README.read_text(encoding="utf-8"))[0])


def main() -> None:
    """Write both into the README."""
    outputs = iter((demo_output(), quick_start_output()))
    text = OUTPUT.sub(lambda _: next(outputs), README.read_text(encoding="utf-8"))
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
