"""Retrieval from documents: passages by words and by meaning, kept up to date, embedded once."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from reactive_agents import AgentError, DocumentIndex, ReactiveAgents
from reactive_agents.agent.document_search import (
    MOST_PASSAGES,
    DocumentPassage,
    FoundPassage,
    FoundPassages,
    passages_of,
)
from reactive_agents.core.errors import InvalidToolArguments, ToolFailed
from reactive_agents.testing import ScriptedLLM, answer, call
from tests.support.embedders import ToyEmbedder, toy_vector
from tests.support.openai_server import OpenAIServer

pytestmark = pytest.mark.anyio

RETURNS = "# Returns\n\nRefunds are paid within 14 days.\n\n## Parcels\n\nSend the goods back in their box.\n"


def embedded_passages(embedder: ToyEmbedder) -> list[str]:
    return [text for texts in embedder.asked for text in texts if ":" in text]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "returns.md").write_text(RETURNS, encoding="utf-8")
    (documents / "shop.txt").write_text("The shop is open from nine to five.\n", encoding="utf-8")
    return documents


async def found(index: DocumentIndex, query: str, limit: int = 5) -> FoundPassages:
    return (await index.search(query, limit)).unwrap()


async def first(index: DocumentIndex, query: str) -> FoundPassage:
    return (await found(index, query))["passages"][0]


# --- passages -------------------------------------------------------------------------------------------


def test_a_passage_begins_at_a_heading_and_has_the_headings_above_it() -> None:
    lines = [
        "intro",
        "# A",
        "one",
        "",
        "## B #",
        "two",
        "```",
        "# no heading",
        "```",
        "# C",
        "",
        "## D",
        "three",
    ]
    assert list(passages_of(lines, 1_000)) == [
        DocumentPassage(1, 1, "", "intro"),
        DocumentPassage(2, 3, "A", "# A\none"),
        DocumentPassage(5, 9, "A > B", "## B #\ntwo\n```\n# no heading\n```"),
        DocumentPassage(10, 13, "C > D", "# C\n\n## D\nthree"),
    ]


@given(
    st.lists(
        st.text(alphabet="ab #\t`é日", max_size=40) | st.sampled_from(["", "# A", "## B", "```"]), max_size=30
    ),
    st.integers(1, 60),
)
def test_every_line_is_in_a_passage_of_bounded_size_and_in_order(lines: list[str], most: int) -> None:
    passages = list(passages_of(lines, most))
    kept = "".join("".join(each.text.split("\n")) for each in passages)
    assert "".join(kept.split()) == "".join("".join(lines).split())
    for each in passages:
        assert each.text.strip()
        assert len(each.text) <= most + each.text.count("\n")
        assert lines[each.start_line - 1].strip()
        assert lines[each.end_line - 1].strip()
    places = [place for each in passages for place in (each.start_line, each.end_line)]
    assert places == sorted(places)


# --- search ---------------------------------------------------------------------------------------------


def test_an_index_in_place_of_its_tool_says_how_to_make_one(folder: Path) -> None:
    wrong: Any = DocumentIndex(folder)
    with pytest.raises(AgentError, match=r"tools: got a DocumentIndex, expected .*; its tool\(\) makes one"):
        ReactiveAgents.create().with_model("offline").with_tools(wrong).build()


async def test_an_agent_answers_from_a_passage(folder: Path) -> None:
    llm = ScriptedLLM(call("document-search", query="When are refunds paid?"), answer("Within 14 days."))
    tool = DocumentIndex(folder).tool(description="Search the handbook of the shop.")
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(tool).build()
    result = await agent.run("When are refunds paid?")
    assert (result.status, result.output) == ("completed", "Within 14 days.")
    seen = result.tool_results["document-search-1"]
    assert '"path": "returns.md", "start_line": 1, "end_line": 3' in seen
    assert llm.requests[0].tools[0].description.startswith("Search the handbook")


async def test_the_offline_model_quotes_passages_with_their_places(folder: Path) -> None:
    builder = ReactiveAgents.create().with_model("offline").with_reasoning()
    agent = builder.with_tools(DocumentIndex(folder).tool()).build()
    result = await agent.run("When are refunds paid?")
    assert result.status == "completed"
    assert result.output is not None
    assert result.output.splitlines()[-1] == "- “Refunds are paid within 14 days.” (returns.md:3)"


async def test_words_are_found_in_passages_headings_and_names_of_files(folder: Path) -> None:
    (folder / "日本語.md").write_text("# 返品\n返金は十四日以内に支払われます。\n", encoding="utf-8")
    index = DocumentIndex(folder)
    assert await first(index, "refund refunds") == {
        "path": "returns.md",
        "start_line": 1,
        "end_line": 3,
        "heading": "Returns",
        "text": "# Returns\n\nRefunds are paid within 14 days.",
    }
    assert (await first(index, "parcels"))["heading"] == "Returns > Parcels"
    assert (await first(index, "shop"))["path"] == "shop.txt"
    assert (await first(index, "返金はいつですか"))["path"] == "日本語.md"
    assert await found(index, "helicopter") == {"passages": []}
    assert len((await found(index, "the goods, the refunds and the shop", 2))["passages"]) == 2


async def test_an_embedder_finds_what_has_no_word_in_common(folder: Path) -> None:
    (folder / "cars.txt").write_text("The automobile is in the garage.\n", encoding="utf-8")
    query = "car"
    assert await found(DocumentIndex(folder), query) == {"passages": []}
    by_meaning = DocumentIndex(folder, embedder=ToyEmbedder())
    assert (await first(by_meaning, query))["path"] == "cars.txt"


async def test_a_search_sees_files_as_they_are_now(folder: Path) -> None:
    index = DocumentIndex(folder, glob="**/*.md")
    assert "14 days" in (await first(index, "refunds"))["text"]
    (folder / "returns.md").write_text("Refunds are paid within 15 days, at last.\n", encoding="utf-8")
    assert "15 days" in (await first(index, "refunds"))["text"]
    (folder / "new").mkdir()
    (folder / "new" / "gifts.md").write_text("Gifts have no refunds.\n", encoding="utf-8")
    assert {each["path"] for each in (await found(index, "refunds"))["passages"]} == {
        "returns.md",
        "new/gifts.md",
    }
    (folder / "returns.md").unlink()
    assert [each["path"] for each in (await found(index, "refunds"))["passages"]] == ["new/gifts.md"]
    assert await found(index, "shop") == {"passages": []}


async def test_an_embedding_model_can_have_its_own_server(folder: Path) -> None:
    with OpenAIServer(embed=toy_vector) as server:
        index = DocumentIndex(
            folder, embedding_model="openai/bge-m3", api_key="index-key", base_url=server.base_url
        )
        assert "note" not in await found(index, "car")
        await index.aclose()
    assert {each.headers["authorization"] for each in server.requests} == {"Bearer index-key"}
    assert {each.body["model"] for each in server.requests} == {"bge-m3"}


async def test_a_passage_is_embedded_once_for_all_searches_and_processes(
    folder: Path, tmp_path: Path
) -> None:
    path, embedder = tmp_path / "index.db", ToyEmbedder()
    index = DocumentIndex(folder, embedder=embedder, path=path)
    async with anyio.create_task_group() as group:  # calls of one turn
        for query in ("refunds", "goods", "shop"):
            group.start_soon(index.search, query)
    passages = embedded_passages(embedder)
    assert len(passages) == len(set(passages)) == 3
    other = DocumentIndex(folder, embedder=embedder, path=path)  # as another process has it
    await found(other, "refunds")
    (folder / "returns.md").write_text(f"{RETURNS}\n## Gifts\n\nNone.\n", encoding="utf-8")
    await found(other, "refunds")
    passages = embedded_passages(embedder)
    assert len(passages) == len(set(passages)) == 4
    for each in (index, other):
        await each.aclose()


async def test_indexes_share_a_file(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    texts, pages = (DocumentIndex(folder, glob=each, path=path) for each in ("*.txt", "*.md"))
    for _ in range(2):
        assert {each["path"] for each in (await found(texts, "the"))["passages"]} == {"shop.txt"}
        assert {each["path"] for each in (await found(pages, "the"))["passages"]} == {"returns.md"}
    for each in (texts, pages):
        await each.aclose()


async def test_without_its_embedder_a_search_is_by_words_and_says_so(folder: Path) -> None:
    embedder = ToyEmbedder()
    embedder.problem = OSError("no route to the model")
    index = DocumentIndex(folder, embedder=embedder)
    result = await found(index, "refunds")
    assert result["passages"][0]["path"] == "returns.md"
    assert result.get("note") == (
        "Passages were found by their words alone, since the embedder failed "
        "(OSError: no route to the model)."
    )
    embedder.problem = None
    assert "note" not in await found(index, "refunds")
    (folder / "image.png").write_bytes(b"\0")
    await found(index, "refunds")
    embedder.problem = OSError("no route to the model")
    assert (await found(index, "refunds")).get("note") == f"Files skipped: 1 binary. {result.get('note')}"


async def test_secrets_are_not_sent_to_the_embedder(folder: Path) -> None:
    key = "sk-proj-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4"
    (folder / "shop.txt").write_text(f"The key of the shop is {key}.\n", encoding="utf-8")
    embedder = ToyEmbedder()
    await found(DocumentIndex(folder, embedder=embedder), f"shop {key}")
    asked = str(embedder.asked)
    assert asked.count("[redacted:") == 2
    assert key not in asked


# --- files that are no text -----------------------------------------------------------------------------


async def test_a_reader_returns_the_text_of_other_files(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("good.PDF", "bad.pdf", "none.pdf"):
        (folder / name).write_bytes(b"%PDF\0")

    async def read(path: Path) -> object:
        if path.stem == "bad":
            raise ValueError("page 1 is broken")
        return "# Delivery\nBy drone." if path.stem == "good" else None

    index = DocumentIndex(folder, readers={".pdf": read})
    with caplog.at_level(logging.WARNING, "reactive_agents"):
        result = await found(index, "drone")
    assert [(each["path"], each["start_line"]) for each in result["passages"]] == [("good.PDF", 1)]
    assert result.get("note") == "Files skipped: 2 whose reader failed."
    assert [record.getMessage() for record in caplog.records] == [
        "bad.pdf cannot be indexed: its reader raised ValueError('page 1 is broken')",
        "none.pdf cannot be indexed: its reader returned NoneType, no text",
    ]


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need a privilege")
async def test_files_outside_and_binary_ones_are_not_read(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("The vault code is 0000.\n", encoding="utf-8")
    (folder / "link.txt").symlink_to(secret)
    (folder / "image.png").write_bytes(b"vault\0")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "note.txt").write_text("vault\n", encoding="utf-8")
    result = await found(DocumentIndex(folder), "vault code")
    assert result == {
        "passages": [],
        "note": "Files skipped: 1 binary, 1 not readable inside the folder.",
    }


async def test_files_that_could_not_be_indexed_are_tried_again_by_the_next_index(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "page.pdf").write_bytes(b"%PDF\0")

    async def searched(**readers: Callable[[Path], object]) -> str | None:
        given = {f".{suffix}": reader for suffix, reader in readers.items()}
        index = DocumentIndex(folder, path=tmp_path / "index.db", readers=given)
        await found(index, "drone")
        result = await found(index, "drone")
        await index.aclose()
        return result.get("note") or result["passages"][0]["text"]

    tries: list[Path] = []
    assert await searched() == "Files skipped: 1 binary."
    assert await searched(pdf=tries.append) == "Files skipped: 1 whose reader failed."
    assert len(tries) == 1
    assert await searched(pdf=lambda path: "By drone.") == "By drone."
    assert await searched() == "Files skipped: 1 binary."


async def test_texts_and_names_that_are_no_unicode_hold_up_no_other_file(folder: Path) -> None:
    (folder / "scan.pdf").write_bytes(b"%PDF\0")
    note = None
    with suppress(OSError):  # of a file system that has no such names
        (folder / "name-\udcff.md").write_text("A drone.\n", encoding="utf-8")
        note = "Files skipped: 1 whose name is not UTF-8."
    index = DocumentIndex(folder, readers={".pdf": lambda path: "drone \udcff"})
    result = await found(index, "drone")
    assert ([each["text"] for each in result["passages"]], result.get("note")) == (["drone \ufffd"], note)


async def test_a_hidden_file_is_read_only_if_the_glob_names_it(folder: Path) -> None:
    (folder / ".env").write_text("DRONE_KEY=drone\n", encoding="utf-8")
    assert (await found(DocumentIndex(folder), "drone"))["passages"] == []
    assert (await first(DocumentIndex(folder, glob="**/.*"), "drone"))["path"] == ".env"


async def test_all_of_a_long_line_is_found(folder: Path) -> None:
    (folder / "data.json").write_text("[" + "0, " * 50_000 + '"drone"]', encoding="utf-8")
    assert (await first(DocumentIndex(folder), "drone"))["path"] == "data.json"


async def test_a_search_returns_at_most_a_thousand_passages(folder: Path) -> None:
    (folder / "many.md").write_text("# Drone\nflies\n" * (MOST_PASSAGES + 1), encoding="utf-8")
    assert len((await found(DocumentIndex(folder), "drone", 2**63))["passages"]) == MOST_PASSAGES


# --- failures -------------------------------------------------------------------------------------------


async def test_a_query_without_a_word_and_a_limit_below_one_are_refused(folder: Path) -> None:
    index = DocumentIndex(folder)
    for query, limit in (("?!", 5), ("refunds", 0)):
        refused = await index.search(query, limit)
        assert isinstance(refused, Failure)
        assert isinstance(refused.failure(), InvalidToolArguments)
    assert isinstance(await index.search("what is it"), Success)  # common words are words


async def test_a_folder_that_is_gone_empties_no_index(folder: Path, tmp_path: Path) -> None:
    embedder = ToyEmbedder()
    index = DocumentIndex(folder, embedder=embedder)
    await first(index, "refunds")
    away = await anyio.Path(folder).rename(tmp_path / "away")
    assert "does not exist" in (await index.search("refunds")).failure().message
    await away.rename(folder)
    await first(index, "refunds")
    assert len(embedded_passages(embedder)) == len(set(embedded_passages(embedder)))


async def test_a_file_that_is_no_database_is_refused_and_kept(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database, but a text that is long enough to be one " * 40)
    index = DocumentIndex(folder, path=tmp_path / "text.db")
    refused = (await index.search("refunds")).failure()
    assert isinstance(refused, ToolFailed)
    assert "text.db" in refused.message
    assert (tmp_path / "text.db").read_text().startswith("no database")


def test_wrong_arguments_are_named(folder: Path) -> None:
    files: Any = ["returns.md"]
    with pytest.raises(ValueError, match="folder: got an array of 1 item, expected a folder that exists"):
        DocumentIndex(files)
    with pytest.raises(ValueError, match=r"folder: got '/nowhere', expected a folder that exists"):
        DocumentIndex("/nowhere")
    with pytest.raises(ValueError, match="passage_chars: got 10, expected 200 or more"):
        DocumentIndex(folder, passage_chars=10)
    with pytest.raises(ValueError, match="base_url: got one, expected an embedding_model beside it"):
        DocumentIndex(folder, base_url="http://127.0.0.1:1/v1", embedder=ToyEmbedder())
    with pytest.raises(ValueError, match=r"base_url: got ada…, expected an address that begins with http://"):
        DocumentIndex(folder, embedding_model="openai/x", base_url="ada:secret@host")
    with pytest.raises(ValueError, match="embedding_model: got 'openai/x', expected none beside an embedder"):
        DocumentIndex(folder, embedding_model="openai/x", embedder=ToyEmbedder())
    with pytest.raises(ValueError, match="expected the path of a file"):
        DocumentIndex(folder, path="postgresql://localhost/x")
