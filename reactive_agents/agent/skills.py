"""Skills: instructions in folders, which an agent reads when a task needs them.

The form is that of https://agentskills.io: a folder with a file ``SKILL.md``, whose front matter has a name
and a description, and with further files that its text names. The model is shown the descriptions, and loads
a text by a call, so that many skills cost few tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.decorator import Tool, tool
from reactive_agents.adapters.tools.workspace import files_below, open_to_read
from reactive_agents.agent.validation import wrong_path
from reactive_agents.containers.layers import find_orders
from reactive_agents.core.errors import InvalidConfig, ToolErrors, WorkspaceViolation
from reactive_agents.core.json import abbreviated
from reactive_agents.core.texts import one_line
from reactive_agents.core.tools import LOAD_SKILL

SKILL_FILE = "SKILL.md"
LARGEST_SKILL_FILE = 1_000_000
"""The maximum of bytes of a file of a skill."""
_MOST_LISTED = 100
_LONGEST_DESCRIPTION = 1024
_NAME = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(-[a-z0-9]+)*")
_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


@frozen
class Skill:
    """A folder of instructions.

    Attributes:
        name: at most 64 lowercase letters and digits, with single hyphens between them.
        description: what it is for, and when to use it; 1 to 1024 characters.
        folder: the resolved folder with its ``SKILL.md``.
        found_in: the resolved folder that was searched for skills: this one, or one above it.
    """

    name: str
    description: str
    folder: Path
    found_in: Path


def read_skills(folders: Iterable[str]) -> Result[tuple[Skill, ...], InvalidConfig]:
    """Return the skills of folders: each is a skill, or has skills as its subfolders.

    Fails if a folder has none, a front matter cannot be read or looks like orders to the model, or two skills
    have the same name.
    """
    skills: dict[str, Skill] = {}
    for folder in folders:
        if (wrong := wrong_path("skills", folder)) is not None:
            return Failure(wrong)
        try:
            searched = Path(folder).expanduser().resolve()
            places = _places(searched)
        except (OSError, RuntimeError, ValueError) as error:  # an unknown home, a name that no file can have
            return _wrong(folder, f"a folder that can be read ({error})")
        if not places:
            return _wrong(folder, f"a folder with a {SKILL_FILE}, or with subfolders that have one")
        for place in places:
            found = _skill_in(place, searched)
            if isinstance(found, Failure):
                return Failure(found.failure())
            skill = found.unwrap()
            if skills.setdefault(skill.name, skill).folder != skill.folder:
                return _wrong(place, f"a name other than that of {str(skills[skill.name].folder)!r}")
    return Success(tuple(skills.values()))


def skill_tool(skills: Sequence[Skill]) -> Tool:
    """Return the tool that loads the texts of skills."""
    folders = {each.name: each.folder for each in skills}
    described = (
        "Load a skill: instructions for a kind of task. They were written for you, like your other "
        "instructions: if the task fits one of these descriptions, load that skill first, and follow it."
    )
    described += "".join(f"\n- {each.name}: {one_line(each.description)}" for each in skills)
    name = {"type": "string", "enum": [*folders], "description": "the name of the skill"}
    file = {"type": "string", "default": SKILL_FILE, "description": "a file that the text of the skill names"}
    parameters = {
        "type": "object",
        "properties": {"skill": name, "file": file},
        "required": ["skill"],
        "additionalProperties": False,
    }

    @tool(name=LOAD_SKILL, description=described, parameters=parameters, idempotent=True)
    def load_skill(skill: str, file: str = SKILL_FILE) -> Result[str, ToolErrors]:
        return _read(folders[skill], file).map(lambda text: _with_files(text, folders[skill], file))

    return load_skill


def _places(folder: Path) -> list[Path]:
    """Return the folders with a skill: the folder itself, or those below it."""
    if (folder / SKILL_FILE).is_file():
        return [folder]
    below = sorted(each for each in folder.iterdir() if (each / SKILL_FILE).is_file())
    return [each.resolve() for each in below]


def _skill_in(folder: Path, found_in: Path) -> Result[Skill, InvalidConfig]:
    import yaml  # few agents have skills

    place = folder / SKILL_FILE
    read = _read(folder, SKILL_FILE)
    if isinstance(read, Failure):
        return _wrong(place, f"a text that can be read ({read.failure().message})")
    front_matter = _FRONT_MATTER.match(read.unwrap())
    if front_matter is None:
        return _wrong(place, "a text that begins with front matter between lines of '---'")
    try:
        fields: Any = yaml.safe_load(front_matter[1])
    except Exception as error:  # noqa: BLE001 - a value of a wrong type raises nearly anything
        return _wrong(place, f"front matter in YAML ({one_line(str(error))})")
    given = fields if isinstance(fields, dict) else {}
    name, description = given.get("name"), given.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return _wrong(
            place, f"a name of at most 64 lowercase letters, digits and hyphens, not {abbreviated(name)}"
        )
    if not isinstance(description, str) or not 0 < len(description.strip()) <= _LONGEST_DESCRIPTION:
        return _wrong(
            place, f"a description of 1 to {_LONGEST_DESCRIPTION} characters, not {abbreviated(description)}"
        )
    orders = find_orders(f"{name.replace('-', ' ')}.\n\n{description}")
    if orders:
        return _wrong(place, f"a name and a description that only say what the skill is for ({orders})")
    return Success(Skill(name, description.strip(), folder, found_in))


def _read(folder: Path, file: str) -> Result[str, WorkspaceViolation]:
    """Return the text of a file of a skill."""
    opened = open_to_read(folder, file)
    if isinstance(opened, Failure):
        return Failure(opened.failure())
    with opened.unwrap() as source:
        content = source.read(LARGEST_SKILL_FILE + 1)
    if len(content) > LARGEST_SKILL_FILE:
        return Failure(WorkspaceViolation(file, f"it has more than {LARGEST_SKILL_FILE} bytes."))
    try:
        return Success(content.decode())
    except UnicodeDecodeError:
        return Failure(WorkspaceViolation(file, "it is no text in UTF-8."))


def _with_files(text: str, folder: Path, file: str) -> str:
    """Return a text as the model sees it: the main one with its other files."""
    if Path(file) != Path(SKILL_FILE):
        return text
    front_matter = _FRONT_MATTER.match(text)
    body = text[front_matter.end() :].strip() if front_matter else text
    files = (each for each in files_below(folder) if each != SKILL_FILE and each.isprintable())
    others = list(islice(files, _MOST_LISTED + 1))
    if not others:
        return body
    more = "\n- and more" if len(others) > _MOST_LISTED else ""
    listed = "\n".join(f"- {each}" for each in others[:_MOST_LISTED])
    return f"{body}\n\nFiles of this skill, in {folder}:\n{listed}{more}"


def _wrong(place: object, expected: str) -> Failure[InvalidConfig]:
    return Failure(InvalidConfig("skills", repr(str(place)), expected))
