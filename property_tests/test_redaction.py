"""The laws of redaction: a known secret never gets through, and what was redacted stays as it is."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from property_tests.strategies import values_of
from reactive_agents.core.json import Json
from reactive_agents.core.redaction import Redactor

ALPHABET = string.ascii_letters + string.digits
PREFIXES = (
    "sk-",
    "sk-ant-",
    "AIza",
    "ghp_",
    "glpat-",
    "hf_",
    "npm_",
    "xoxb-",
    "sk_live_",
    "github_pat_",
    "gsk_",
    "dop_v1_",
    "shpat_",
    "hvs.",
    "lin_api_",
    "ATATT3",
)

MARKER = re.compile(r"\[redacted:[a-z-]+\]")

keys = st.builds(
    lambda prefix, body: f"{prefix}{body[:20]}7{body[20:]}",  # keys are random: one without digits is no key
    st.sampled_from(PREFIXES),
    st.text(ALPHABET, min_size=40, max_size=60),
)
STARTS = (
    "Cookie: a=",
    "curl -u a:",
    "mysql -p",
    '"pwd": "',
    "api_keys=[",
    "eyJ",
    "eyJa.b.",
    "sk-",
    "://",
    "://u:",
    "Bearer ",
    "password=",
    "-----BEGIN PRIVATE KEY-----",
)
surroundings = (
    st.text()
    | st.text(ALPHABET + "_-./:=&%\\\"'@[]{}<> \n")
    | st.sampled_from([*STARTS, "[redacted:", "[redacted:jwt]"])
)
secrets = st.text(st.characters(exclude_characters="[]"), min_size=8, max_size=40).filter(
    lambda text: text == text.strip() and len(text) >= 8
)
writers = st.sampled_from(
    [
        str,
        lambda text: json.dumps(text)[1:-1],
        lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
        lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1],
        lambda text: quote(text.encode(errors="surrogatepass"), safe=""),
    ]
)


@given(before=surroundings, key=keys, after=surroundings)
def test_no_key_of_a_known_provider_gets_through(before: str, key: str, after: str) -> None:
    assert key not in Redactor().redact(before + key + after)


@given(before=surroundings, secret=secrets, after=surroundings, write=writers)
def test_no_secret_of_the_environment_gets_through(
    before: str, secret: str, after: str, write: Callable[[str], str]
) -> None:
    written = write(secret)
    redacted = Redactor(environment={"SOME_TOKEN": secret}).redact(before + written + after)
    for piece in MARKER.split(redacted):
        assert secret not in piece
        assert written not in piece


own_patterns = st.sampled_from([r"\d+", r"a", r"b(?!a)", r"(?<=a)b", r"a$", r"\bed", r".+\]", "x*"])


@given(
    text=st.lists(surroundings | keys | secrets, max_size=8).map("".join),
    secret=secrets,
    patterns=st.lists(own_patterns, max_size=3),
)
def test_what_was_redacted_stays_as_it_is(text: str, secret: str, patterns: list[str]) -> None:
    redactor = Redactor(patterns, {"SOME_TOKEN": secret})
    once = redactor.redact(text)
    assert redactor.redact(once) == once


@given(values_of(Json), secrets)
def test_json_stays_json(value: Json, secret: str) -> None:
    redactor = Redactor(environment={"SOME_TOKEN": secret})
    once = redactor.redact_json(value)
    json.dumps(once)
    assert redactor.redact_json(once) == once
