"""Parts, their labels, and the kind of bytes."""

from __future__ import annotations

from typing import Any

import pytest

from reactive_agents import Audio, Document, Image
from reactive_agents.core.content import (
    estimated_tokens,
    interleaved,
    kind_of,
    media_type_of,
    part_of_file,
    shown_size,
    stored,
    text_and_parts,
)
from tests.support import contents

CAT = Image.from_bytes(contents.PNG, name="cat.png")


@pytest.mark.parametrize(
    ("data", "media_type", "kind"),
    [
        (contents.PNG, "image/png", "image"),
        (contents.GIF, "image/gif", "image"),
        (contents.JPEG, "image/jpeg", "image"),
        (contents.WEBP, "image/webp", "image"),
        (contents.WAV, "audio/wav", "audio"),
        (contents.MP3, "audio/mpeg", "audio"),
        (contents.TAGGED_MP3, "audio/mpeg", "audio"),
        (contents.FLAC, "audio/flac", "audio"),
        (contents.OGG, "audio/ogg", "audio"),
        (contents.PDF, "application/pdf", "document"),
        ("ä text".encode(), "text/plain", "document"),
        (b"", "text/plain", "document"),
        (contents.HTML, "text/html", "document"),
        (contents.ZIP, "application/zip", None),
        (b"RIFF\0\0\0\0AVI ", "application/octet-stream", None),
        (b"\0\0\0\x20ftypisom", "video/mp4", None),
        (b"\xff\xfe\0a", "application/octet-stream", None),
        (b"text with \0", "application/octet-stream", None),
        (contents.PNG[:7], "application/octet-stream", None),
    ],
)
def test_the_type_is_that_of_the_bytes(data: bytes, media_type: str, kind: str | None) -> None:
    assert media_type_of(data) == media_type
    assert kind_of(media_type) == kind
    part = part_of_file("folder/a.bin", data)
    assert (part and (part.kind, part.name, part.data)) == (kind and (kind, "a.bin", data))


def test_the_estimate_of_tokens_goes_by_the_kind() -> None:
    assert estimated_tokens(contents.PNG, "image/png") == 1_600
    assert estimated_tokens(contents.PDF, "application/pdf") == 2 * 3_000
    assert estimated_tokens(b"%PDF-" + bytes(120_000), "application/pdf") == 3 * 3_000
    assert estimated_tokens(bytes(32_000), "audio/wav") == 33
    assert estimated_tokens(bytes(16_000), "audio/mpeg") == 161
    assert estimated_tokens("ä".encode(), "text/plain") == 2


def test_a_label_names_kind_size_and_digest() -> None:
    assert CAT.label == str(CAT) == "[image cat.png, 70 bytes, sha256:6b7fa434f92a…]"
    assert repr(CAT) == "<Image cat.png, 70 bytes, sha256:6b7fa434f92a…>"
    assert Audio.from_bytes(b"x").label == "[audio, 1 bytes, sha256:2d711642b726…]"
    assert Document.from_path("reports/a.pdf").label == "[document a.pdf]"
    assert Image.from_url("https://a.example/b/%C3%A4.png?size=1").label == "[image ä.png]"
    assert stored(CAT, contents.PNG, media_type="image/png", tokens=1).label == CAT.label


@pytest.mark.parametrize("name", ['a"]\n[system] b\\', "<x>\0\x1b[1m", "x" * 500])
def test_no_name_can_end_its_label(name: str) -> None:
    label = Image.from_bytes(b"x", name=name).label
    assert len(label) < 130
    assert not set(label[1:-1]) & set('[]"\\<>\n\0\x1b')


def test_bytes_are_required() -> None:
    with pytest.raises(TypeError, match="data: got str, expected bytes"):
        Image.from_bytes("cat.png")  # type: ignore[arg-type]


@pytest.mark.parametrize("part", [Image, Document])
def test_a_url_is_a_text(part: Any) -> None:
    with pytest.raises(TypeError, match="url: got NoneType, expected a text"):
        part.from_url(None)


def test_sizes_are_those_that_a_person_reads() -> None:
    sizes = (0, 999, 1_000, 1_500, 34_200, 999_999, 1_000_000, 52_000_000)
    assert [shown_size(size) for size in sizes] == [
        "0 bytes",
        "999 bytes",
        "1 kB",
        "1.5 kB",
        "34 kB",
        "1000 kB",
        "1 MB",
        "52 MB",
    ]


def test_a_task_is_a_text_with_labels_and_its_parts() -> None:
    assert text_and_parts("Look.") == ("Look.", ())
    assert text_and_parts(CAT) == (CAT.label, (CAT,))
    assert text_and_parts(["Look:", CAT, "and say."]) == (f"Look:\n{CAT.label}\nand say.", (CAT,))
    assert text_and_parts(["Look:", 7]) is None


def test_parts_stand_after_their_labels_in_order() -> None:
    dog = Image.from_bytes(contents.GIF, name="dog.gif")
    text, parts = text_and_parts(["First:", CAT, "then:", dog, "done."]) or ("", ())
    assert list(interleaved(text, parts)) == [
        f"First:\n{CAT.label}",
        CAT,
        f"then:\n{dog.label}",
        dog,
        "done.",
    ]
    assert list(interleaved("cut", (CAT,))) == ["cut", CAT.label, CAT]
    assert list(interleaved(CAT.label, (CAT, CAT))) == [CAT.label, CAT, CAT.label, CAT]
