"""Secrets do not get through: what known ones look like, those of the environment, and the user's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from reactive_agents.adapters.system import EnvironmentRedactor
from reactive_agents.core import redaction, secret_patterns
from reactive_agents.core.json import Json
from reactive_agents.core.redaction import Redactor
from tests.support.operations import assert_linear

LETTERS = "aB3dE6gH1jK4mN7pQ0sT"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEow==\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"

KNOWN = [
    ("openai-key", f"sk-{LETTERS}"),
    ("openai-key", f"sk-proj-{LETTERS}_{LETTERS}-x"),
    ("anthropic-key", f"sk-ant-api03-{LETTERS}"),
    ("google-key", f"AIza{LETTERS}{LETTERS}"[:39]),
    ("google-key", f"ya29.{LETTERS}"),
    ("aws-key", "AKIAIOSFODNN7EXAMPLE"),
    ("github-token", f"ghp_{LETTERS}{LETTERS}"),
    ("github-token", f"github_pat_{LETTERS}_{LETTERS}"),
    ("gitlab-token", f"glpat-{LETTERS}"),
    ("gitlab-token", f"glrt-{LETTERS}"),
    ("google-key", f"1//0{LETTERS}{LETTERS}"),
    ("model-provider-key", f"fw_{LETTERS}"),
    ("service-token", f"{LETTERS[:14]}.atlasv1.{LETTERS}{LETTERS}"),
    ("service-token", f"dt0c01.{'ABCD' * 6}.{'EFGH' * 16}"),
    ("slack-token", "xoxb-123456789012-abcdefABCDEF"),
    ("slack-token", "hooks.slack.com/services/T0000/B0000/" + LETTERS),
    ("stripe-key", f"sk_live_{LETTERS}"),
    ("stripe-key", f"whsec_{LETTERS}"),
    ("model-provider-key", f"hf_{LETTERS}"),
    ("model-provider-key", f"gsk_{LETTERS}"),
    ("package-registry-token", f"npm_{LETTERS}{LETTERS}"),
    ("sendgrid-key", f"SG.{LETTERS}.{LETTERS}"),
    ("jwt", JWT),
    ("private-key", PEM),
    ("azure-key", f"abc8Q~{LETTERS}{LETTERS}"),
    ("bot-token", f"123456789:AA{LETTERS}{LETTERS}"),
    ("service-token", "dop_v1_" + "0123456789abcdef" * 4),
    ("service-token", "shpat_" + "0123456789abcdef" * 2),
    ("service-token", f"hvs.{LETTERS}{LETTERS}"),
    ("service-token", f"ATATT3xFfGF0{LETTERS}"),
    ("service-token", f"lin_api_{LETTERS}{LETTERS}"),
    ("service-token", f"dckr_pat_{LETTERS}"),
    ("service-token", f"glsa_{LETTERS}"),
    ("service-token", "AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN" * 3),
    ("private-key", PEM.replace("\n", "\\n")),
    ("service-token", f"ra_0123456789ab_{LETTERS}-_{LETTERS}x"),
]


@pytest.mark.parametrize(("kind", "secret"), KNOWN, ids=lambda value: value[:12])
def test_what_a_secret_of_a_known_provider_looks_like(kind: str, secret: str) -> None:
    for around in ("{}", "a {} b", '{{"key": "{}"}}', "x={}&y", "<{}>", "({})", "9x{}"):
        redacted = EnvironmentRedactor().redact(around.format(secret))
        assert f"[redacted:{kind}]" in redacted, around
        assert secret not in redacted, around


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Authorization: Bearer abcdefghijklmnop1", "Authorization: Bearer [redacted:bearer-token]"),
        ("authorization: Basic dXNlcjpwdw==", "authorization: Basic [redacted:authorization]"),
        ("-H 'X-Api-Key: abc123'", "-H 'X-Api-Key: [redacted:authorization]'"),
        ("postgres://me:p@ss:w@host/db", "postgres://[redacted:url-credentials]@host/db"),
        ("https://x.org/?a=1&token=abc123&b=2", "https://x.org/?a=1&token=[redacted:url-parameter]&b=2"),
        ('password = "correct-horse-1"', 'password = "[redacted:named-value]"'),
        (
            '{\\"client_secret\\": \\"hunter2hunter2\\"}',
            '{\\"client_secret\\": \\"[redacted:named-value]\\"}',
        ),
        ("key-" + "0123456789abcdef" * 2, "[redacted:service-token]"),
        ("dapi" + "0123456789abcdef" * 2, "[redacted:service-token]"),
        ("pul-" + "01234567" * 5, "[redacted:service-token]"),
        ("EAAA" + LETTERS * 3, "[redacted:service-token]"),
        ("0123456789abcdef" * 2 + "-us12", "[redacted:service-token]"),
        (
            f"https://discord.com/api/webhooks/1234/{LETTERS}",
            "https://discord.com/api/webhooks/1234/[redacted:webhook]",
        ),
        ("AccountKey=aB3dE6gH1jK4mN7pQ0sT==;Endpoint=x", "AccountKey=[redacted:named-value];Endpoint=x"),
        (f"aws_session_token={LETTERS}", "aws_session_token=[redacted:named-value]"),
        (f"DISCORD_TOKEN={LETTERS}", "DISCORD_TOKEN=[redacted:named-value]"),
        ("Cookie: sid=abc; theme=dark\nHost: x", "Cookie: [redacted:cookie]\nHost: x"),
        ("Set-Cookie: sid=abc; HttpOnly", "Set-Cookie: [redacted:cookie]"),
        ("curl -s -u me:hunter2 https://x.org", "curl -s -u me:[redacted:command-password] https://x.org"),
        ("curl --user 'me:hunter2' x.org", "curl --user 'me:[redacted:command-password]' x.org"),
        ("mysql -u root -phunter2 shop", "mysql -u root -p[redacted:command-password] shop"),
        ("sshpass -p hunter2 ssh me@host", "sshpass -p [redacted:command-password] ssh me@host"),
        ('{"pwd": "hunter2", "a": 1}', '{"pwd": "[redacted:named-value]", "a": 1}'),
        ('{"api_keys": ["abc-1-def", "ghi-2"]}', '{"api_keys": [[redacted:named-value]]}'),
        (f"token='{LETTERS}'", "token='[redacted:named-value]'"),
        ("DB_PASSPHRASE='tulips and snow'", "DB_PASSPHRASE='[redacted:named-value]'"),
        ("Driver=x;Uid=me;Pwd=hunter;", "Driver=x;Uid=me;Pwd=[redacted:named-value];"),
        ("<db-password>hunter2</db-password>", "<db-password>[redacted:named-value]</db-password>"),
        (
            "<key>apiKey</key>\n<string>hunter2</string>",
            "<key>apiKey</key>\n<string>[redacted:named-value]</string>",
        ),
        ("password: |\n  hunter2\n", "password: |\n  [redacted:named-value]\n"),
        ('name="password"\r\n\r\nhunter\r\n--x', 'name="password"\r\n\r\n[redacted:named-value]\r\n--x'),
        ("%22password%22%3A%22hunter2hunter%22", "%22password%22%3A[redacted:named-value]"),
        ("Das Passwort lautet hunter2", "Das Passwort lautet [redacted:named-value]"),
        ("mot de passe : hunter2", "mot de passe : [redacted:named-value]"),
        ("密码：hunter2", "密码：[redacted:named-value]"),
        ("psql --db-password hunter2 -h x", "psql --db-password [redacted:command-password] -h x"),
        ("machine x login me password hunter", "machine x login me password [redacted:command-password]"),
        (
            "openssl enc -pass pass:hunter -in a",
            "openssl enc -pass pass:[redacted:command-password] -in a",
        ),
        ("htpasswd -b users me hunter", "htpasswd -b users me [redacted:command-password]"),
        ("docker login -u me -p hunter x.io", "docker login -u me -p [redacted:command-password] x.io"),
        (f"root:$6$salt${LETTERS}:19000", "root:$6$[redacted:password-hash]:19000"),
        (
            "Private-Lines: 1\nAAAAIEaB3dE6gH1j\nPrivate-MAC: 0",
            "Private-Lines: 1\n[redacted:private-key]-MAC: 0",
        ),
        (
            f"seed phrase: {'legal winner thank year ' * 3}",
            "seed phrase: [redacted:recovery-phrase] ",
        ),
        (
            f"x.webhook.office.com/webhookb2/{LETTERS}@a/IncomingWebhook/b",
            "x.webhook.office.com/webhookb2/[redacted:webhook]",
        ),
        (
            "https://b.s3.org/k?X-Amz-Signature=0123ab&a=1",
            "https://b.s3.org/k?X-Amz-Signature=[redacted:url-parameter]&a=1",
        ),
        (f"secret_{LETTERS * 2}abc", "[redacted:service-token]"),
        (f"pat{LETTERS[:14]}.{'0123456789abcdef' * 4}", "[redacted:service-token]"),
        (f"EAAC{LETTERS * 3}", "[redacted:service-token]"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=[redacted:named-value]"),
    ],
)
def test_what_is_named_a_secret_by_what_stands_before_it(text: str, redacted: str) -> None:
    assert EnvironmentRedactor().redact(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What is the capital of France?",
        "01JD3M5W5J8Q2V9C4N7X6R1T0K",
        "task-management-of-something, a risk-adjusted-return-on-capital",
        "git clone ssh://git@github.com/a/b; see https://example.org:8080/path?key=1",
        "the password is required; a bearer of news; eyJust.a.name",
        "max_tokens=1000000000000, completion_token: 123456789012345",
        "curl -L https://example.org -o x; mysql -P 3306 -u me -p; cookie: a biscuit; PWD=/home/me2/project",
        "commit 5caffda0c1b2a3948576",
        "<maxTokens>4096</maxTokens> <password>required</password>; docker login -u me",
        "token: str | None = None",
        'name="password" is required; TOKEN="$OTHER"; API_KEY="<yours>"; --password-file secrets.txt',
        "The seed phrase: keep it. Das Passwort ist geheim; Private-Lines: none; $100$ and $5$",
        "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert EnvironmentRedactor(environment={}).redact(text) == text


ENVIRONMENT = {
    "MY_API_KEY": "abc/DEF+123&xyz",
    "PGPASSWORD": "correct horse battery",
    "SERVICE_TOKEN": "tökên-über-äll",
    "QUOTED_SECRET": 'a"b\\c\'d"e\\f',
    "SHORT_KEY": "1234567",
    "PIN_SECRET": "12345678901",
    "PWD": "/home/someone/project",
    "EDITOR": "some-editor-name",
}


@pytest.mark.parametrize("name", ["MY_API_KEY", "PGPASSWORD", "SERVICE_TOKEN", "QUOTED_SECRET", "PIN_SECRET"])
def test_values_of_the_environment_in_many_forms(name: str) -> None:
    secret = ENVIRONMENT[name]
    forms = [
        secret,
        json.dumps(secret),
        json.dumps(secret, ensure_ascii=False),
        json.dumps(json.dumps({"it": secret})),
        quote(secret),
        quote(secret, safe=""),
        re.sub("%..", lambda octet: octet.group().lower(), quote(secret, safe="")),
        repr(secret),
        f"pre{secret}post",
    ]
    redactor = EnvironmentRedactor(environment=ENVIRONMENT)
    for form in forms:
        redacted = redactor.redact(form)
        assert "[redacted:environment]" in redacted, form
        assert secret not in redacted
    assert redactor.redact(secret) == "[redacted:environment]"


@pytest.mark.parametrize(
    "form",
    [
        r"\u0061bc\/DEF+123&xyz",
        "%61%62%63%2FDEF%2b123%26xyz",
        "abc%252FDEF%252B123%2526xyz",
        'abc/DE" + "F+123&xyz',
        "'abc/D' 'EF+123&xyz'",
        "abc/DEF+123&amp;xyz",
    ],
)
def test_values_of_the_environment_in_pieces(form: str) -> None:
    redacted = EnvironmentRedactor(environment=ENVIRONMENT).redact(form)
    assert redacted.strip("'") == "[redacted:environment]"


def test_other_values_of_the_environment_stay() -> None:
    text = " ".join(ENVIRONMENT[name] for name in ("SHORT_KEY", "PWD", "EDITOR"))
    assert EnvironmentRedactor(environment=ENVIRONMENT).redact(text) == text


SECRET_NAMES = (
    "API_KEY apiKey GITHUB_TOKEN DB_PASSWORD SENTRY_DSN DB_PWD TOKEN_2 GH_PAT AWS_SECRET_ACCESS_KEY"
)
OTHER_NAMES = "PWD OLDPWD PATH SSH_AUTH_SOCK KEYBOARD TOKENIZERS_PARALLELISM"


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_names_that_look_secret(name: str) -> None:
    assert (
        EnvironmentRedactor(environment={name: "a-value-of-it"}).redact("a-value-of-it")
        == "[redacted:environment]"
    )


@pytest.mark.parametrize("name", OTHER_NAMES.split())
def test_names_that_look_like_others(name: str) -> None:
    assert EnvironmentRedactor(environment={name: "a-value-of-it"}).redact("a-value-of-it") == "a-value-of-it"


def test_the_environment_of_the_process_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TEST_TOKEN", "not-to-be-seen")
    assert EnvironmentRedactor().redact("It is not-to-be-seen.") == "It is [redacted:environment]."
    assert Redactor().redact("It is not-to-be-seen.") == "It is not-to-be-seen."


def test_patterns_of_the_user() -> None:
    redactor = EnvironmentRedactor([r"CASE-\d+", re.compile(r"name: (?P<secret>\w+)")], {})
    assert redactor.redact("CASE-42, name: Ada") == "[redacted:pattern], name: [redacted:pattern]"
    assert redactor.redact("") == ""
    assert EnvironmentRedactor([r"x*"], {}).redact("axxb") == "a[redacted:pattern]b"
    assert EnvironmentRedactor([r"b(?!a)", "a"], {}).redact("ba") == "[redacted:pattern][redacted:pattern]"
    with pytest.raises(ValueError, match="expected a regular expression"):
        EnvironmentRedactor(["("])


def test_what_overlaps_is_redacted_as_one() -> None:
    redactor = EnvironmentRedactor(environment={"A_KEY": "abcdefgh", "B_KEY": "efghijkl"})
    assert redactor.redact("<abcdefghijkl>") == "<[redacted:environment]>"
    key = f"sk-ant-{LETTERS}"
    assert EnvironmentRedactor(environment={"A_KEY": key[:12]}).redact(key) == "[redacted:anthropic-key]"


def test_a_marker_hides_no_secret() -> None:
    assert EnvironmentRedactor().redact(f"[redacted:sk-{LETTERS}]") == "[redacted:[redacted:openai-key]]"
    redactor = EnvironmentRedactor(environment={"A_KEY": "x[redacted:jwt]y"})
    assert redactor.redact("<x[redacted:jwt]y>") == "<[redacted:environment]>"


def test_json_is_redacted_in_depth() -> None:
    redactor = EnvironmentRedactor(environment=ENVIRONMENT)
    value: Json = {
        "list": [f"sk-{LETTERS}", 1, 2.5, True, None, 10**5000],
        f"sk-{LETTERS}": 1,
        f"sk-{LETTERS}x": 2,
        "password": "short",
        "api_key": "",
        "max_tokens": 5,
        "pin": 12345678901,
    }
    redacted: Json = {
        "list": ["[redacted:openai-key]", 1, 2.5, True, None, 10**5000],
        "[redacted:openai-key]": 1,
        "[redacted:openai-key] (2)": 2,
        "password": "[redacted:field]",
        "api_key": "",
        "max_tokens": 5,
        "pin": "[redacted:environment]",
    }
    assert redactor.redact_json(value) == redacted
    assert redactor.redact_json(redacted) == redacted


def test_json_without_end_is_cut() -> None:
    deep: Json = "leaf"
    for _ in range(100_000):
        deep = [deep]
    redacted = EnvironmentRedactor().redact_json(deep)
    assert json.dumps(redacted).count("[") == 65  # the marker has one too
    assert "[redacted:depth]" in json.dumps(redacted)


@pytest.mark.parametrize(
    "piece", ["eyJ", "sk-", "://a:", "-----BEGIN PRIVATE KEY-----", "password = ", "\\", '"', "a1", "AKIA"]
)
def test_the_work_grows_with_the_length_alone(piece: str) -> None:
    redactor = EnvironmentRedactor(environment=ENVIRONMENT)
    assert_linear(lambda size: redactor.redact((piece * size)[:size]), 10_000)


class CountedPattern:
    """A regular expression that counts the places at which it is tried."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self.groupindex = pattern.groupindex
        self.tried = 0

    def match(self, text: str, start: int) -> re.Match[str] | None:
        self.tried += 1
        return self._pattern.match(text, start)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        self.tried += len(text)
        return self._pattern.finditer(text)


def test_a_long_text_is_only_looked_at_where_a_secret_may_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: dict[object, CountedPattern] = {}
    monkeypatch.setattr(
        secret_patterns, "_compiled", lambda look: counted.setdefault(look, CountedPattern(re.compile(look)))
    )
    words = "the api takes a token, no secret password, of its user; see https://example.org --help "
    text = (words + "and so on. " * 80) * 200
    assert EnvironmentRedactor(environment={}).redact(text) == text
    assert len(counted) > 10
    assert max(each.tried for each in counted.values()) <= 12 * 200  # of nearly 200,000 characters


def test_redactors_of_one_environment_share_its_compiled_patterns() -> None:
    environment = {"SHOP_TOKEN": "tulip-1234-5678", "HOME": "/home/ada"}
    first, second = (EnvironmentRedactor(environment=environment) for _ in range(2))
    assert first.redact("tulip-1234-5678") == second.redact("tulip-1234-5678") == "[redacted:environment]"
    assert first.patterns[0] is second.patterns[0]


def test_lists_in_secret_fields_and_short_names_of_passwords_are_redacted() -> None:
    data: Json = {
        "api_keys": ["a", ["b", 3]],
        "db_pwd": "x",
        "pass": "y",
        "Set-Cookie": ["z"],
        "passes": ["c"],
    }
    assert Redactor().redact_json(data) == {
        "api_keys": ["[redacted:field]", ["[redacted:field]", 3]],
        "db_pwd": "[redacted:field]",
        "pass": "[redacted:field]",
        "Set-Cookie": ["[redacted:field]"],
        "passes": ["c"],
    }


def test_secrets_that_are_learned_later_are_redacted_also_where_a_text_was_clean() -> None:
    redactor, other = Redactor(), Redactor(secrets=["known-from-the-start"])
    joined = redactor.joined(other)
    for each in (redactor, joined, other):
        assert each.redact("the harbour-evening") == "the harbour-evening"
    redactor.learn(["harbour-evening", "short"])
    for each in (redactor, joined):
        assert each.redact("the harbour-evening") == "the [redacted:known]"
        assert each.redact("short") == "short"
    assert other.redact("the harbour-evening") == "the harbour-evening"
    assert redactor.joined(other).redact("the harbour-evening") == "the [redacted:known]"


def test_the_latest_hundred_secrets_that_were_learned_are_known() -> None:
    redactor = Redactor(secrets=["known-from-the-start"])
    redactor.learn(f"harbour-{number:03}" for number in range(101))
    assert redactor.redact("known-from-the-start") == "[redacted:known]"
    found = [number for number in range(101) if "[" in redactor.redact(f"harbour-{number:03}")]
    assert found == list(range(1, 101))


def test_a_secret_that_is_still_in_use_stays_known_whatever_is_learned_beside_it() -> None:
    redactor = Redactor()
    for number in range(250):
        redactor.learn(["kept-for-all-requests", f"token-of-{number:03}"])
        assert redactor.redact("kept-for-all-requests") == "[redacted:known]"


def test_a_secret_that_is_learned_while_patterns_are_made_is_redacted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    redactor, make = Redactor(secrets=["known-from-the-start"]), redaction.pattern_of

    def learn_meanwhile(value: str, kind: str) -> Any:  # as another thread may
        redactor.learn(["learned-meanwhile"])
        return make(value, kind)

    monkeypatch.setattr(redaction, "pattern_of", learn_meanwhile)
    redactor.redact("a text: learned-meanwhile")
    assert redactor.redact("a text: learned-meanwhile") == "a text: [redacted:known]"
