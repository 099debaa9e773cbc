"""Patterns of secrets of known providers, and names of secret fields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple, TypeAlias
from urllib.parse import quote, quote_plus

from reactive_agents.core.languages import alternatives, word_set
from reactive_agents.core.values import lazy_pattern

SHORTEST_SECRET = 8
"""Values of the environment below this many characters occur everywhere, and stay."""

_Judge: TypeAlias = Callable[[re.Match[str]], bool]


def _always(_: re.Match[str]) -> bool:
    return True


class SecretPattern(NamedTuple):
    """One pattern of a secret.

    Attributes:
        kind: names it in what stands in its place.
        look: matches it; when there is a group ``secret``, that is the secret, else the whole match.
        is_secret: a second look at a match, for patterns that also match harmless text.
        signs: folded texts, one of which is in every folded text that has a match; none when nothing of the
            kind is known.
        heads: folded texts, and how many characters at most may be between the start of a match and the
            start of one of them; every match has one that close. None when the whole text is searched.
        disguisable: whether the match may also be spelt with escapes or in pieces, without any sign.
    """

    kind: str
    look: str | re.Pattern[str]
    is_secret: _Judge = _always
    signs: tuple[str, ...] = ()
    heads: tuple[tuple[str, int], ...] = ()
    disguisable: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        """The regular expression, compiled when it is first used."""
        return _compiled(self.look)


@lru_cache(maxsize=1024)
def _compiled(look: str | re.Pattern[str]) -> re.Pattern[str]:
    return re.compile(look)


_EXPANDED = lazy_pattern(
    r"[\u00df\u0149\u01f0\u0390\u03b0\u0587\u1e96-\u1e9a\u1e9e\u1f50\u1f52\u1f54\u1f56\u1f80-\u1faf\u1fb2-\u1fb4"
    r"\u1fb6\u1fb7\u1fbc\u1fc2-\u1fc4\u1fc6\u1fc7\u1fcc\u1fd2\u1fd3\u1fd6\u1fd7\u1fe2-\u1fe4\u1fe6\u1fe7\u1ff2-\u1ff4"
    r"\u1ff6\u1ff7\u1ffc\ufb00-\ufb06\ufb13-\ufb17]"
)
"""Characters whose case folding has several, which no expression takes for one of them."""


def folded(text: str) -> str:
    """Return the text case-folded as a case-insensitive regular expression does.

    Each character stays in its place.
    """
    if text.isascii():
        return text.lower()
    plain = text.casefold()
    if len(plain) > len(text):
        plain = _EXPANDED.sub("\0", text.replace("İ", "i")).casefold()
    return plain.replace("ı", "i")


_SHORTEST_JWT_PART = 16
_LIKELY_RUN = lazy_pattern(r"[A-Za-z0-9]{12,}")


def _stands_alone_or_looks_random(match: re.Match[str]) -> bool:
    """Return whether a match is a key, and not a part of ``task-management-of-this``."""
    start = match.start()
    if start == 0 or not match.string[start - 1].isalnum():
        return True
    return any(not run.group().isalpha() for run in _LIKELY_RUN.finditer(match.group()))


def _has_three_parts(match: re.Match[str]) -> bool:
    parts = [part for part in match.group().split(".") if part]
    return len(parts) >= 3 and max(map(len, parts)) >= _SHORTEST_JWT_PART


def _is_long_or_looks_random(match: re.Match[str]) -> bool:
    """Return whether a match is a token, and not the word after ``bearer``."""
    secret = match.group("secret")
    return len(secret) >= _SHORTEST_JWT_PART or any(each.isdigit() or each.isupper() for each in secret[1:])


def _has_digit(match: re.Match[str]) -> bool:
    return any(char.isdigit() for char in match.group("secret"))


def _has_letter_and_digit(match: re.Match[str]) -> bool:
    """Return whether a value is a token, and not a number of tokens."""
    return _has_digit(match) and any(char.isalpha() for char in match.group("secret"))


# Every pattern takes time that is linear in the text: what may repeat without end begins after a prefix that
# it cannot contain, or cannot fail any more once it is entered; all other repetitions are bounded.
_VALUE = r"[^\s\"'\\,;&\[\]{}()<>]"
_QUOTE = r"(?:\\{0,3}[\"']?|%2[27])"
_IS = rf"{_QUOTE}\s{{0,4}}(?:(?::=|=>|[:=]){{1,2}}|%3[AD])(?:\s|%20|\+){{0,4}}{_QUOTE}"


def _pattern(
    kind: str, look: str, signs: str, is_secret: _Judge = _always, *, heads: str = ""
) -> SecretPattern:
    """Return a pattern, from signs with what may be before them, as ``key=<5``.

    Args:
        heads: what to begin at, where it is not one of the signs.
    """
    near = [(sign, int(before or 0)) for sign, _, before in (each.partition("<") for each in signs.split())]
    begin = tuple((head, 0) for head in heads.split()) or tuple(near)
    return SecretPattern(kind, look, is_secret, tuple(sign for sign, _ in near), begin)


# without possessive groups of several parts, which match wrongly before CPython 3.11.5
PATTERNS = (
    _pattern(
        "private-key",
        r"-----BEGIN[A-Z0-9 %+]{0,60}PRIVATE(?: |%20|\+)KEY[A-Z0-9 %+]{0,12}-----[\s\S]*?(?=-----|\Z)"
        r"(?:-----END[A-Z0-9 %+]{0,60}PRIVATE(?: |%20|\+)KEY[A-Z0-9 %+]{0,12}-----)?",
        "-----begin",
    ),
    _pattern("anthropic-key", r"sk-ant-[A-Za-z0-9_-]{16,}", "sk-ant-"),
    _pattern(
        "openai-key",
        r"sk-(?:proj-[A-Za-z0-9_-]{8,}|[A-Za-z0-9_-]{16,})",
        "sk-",
        _stands_alone_or_looks_random,
    ),
    # as providers show a key that they refuse
    _pattern(
        "masked-key",
        r"(?<![A-Za-z0-9])(?:sk|gsk|xai|pplx|rk|pk)[-_][A-Za-z0-9_.-]{0,64}\*{3,64}[\w.*-]{0,64}",
        "***<69",
    ),
    _pattern(
        "google-key",
        r"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,}",
        "aiza ya29. gocspx- 1//0",
    ),
    _pattern("aws-key", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}", "akia asia abia acca"),
    _pattern(
        "github-token",
        r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
    ),
    _pattern(
        "gitlab-token",
        r"gl(?:pat|rt|dt|ptt|ft|cbt|soat)-[A-Za-z0-9_-]{16,}",
        "glpat- glrt- gldt- glptt- glft- glcbt- glsoat-",
    ),
    _pattern(
        "slack-token",
        r"xox[abceoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{16,}|hooks\.slack\.com/services/[A-Za-z0-9/]{20,}",
        "xox xapp- hooks.slack.com",
    ),
    _pattern(
        "stripe-key",
        r"[srp]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}",
        "k_live_<1 k_test_<1 whsec_",
    ),
    _pattern(
        "model-provider-key",
        r"(?:hf|gsk|r8|fw)_[A-Za-z0-9]{20,}|(?:xai-|pplx-|tvly-|nvapi-|pcsk_)[A-Za-z0-9_-]{20,}",
        "hf_ gsk_ r8_ fw_ xai- pplx- tvly- nvapi- pcsk_",
        _stands_alone_or_looks_random,
    ),
    _pattern("package-registry-token", r"npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}", "npm_ pypi-"),
    _pattern("azure-key", r"[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,}", "q~<4"),
    _pattern("bot-token", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33,}", ":aa<10"),
    _pattern(
        "webhook",
        r"(?:discord(?:app)?\.com/api/webhooks/[0-9]{1,20}|webhook\.office\.com/webhookb2)/"
        r"(?P<secret>[A-Za-z0-9_@/-]{20,})",
        "/api/webhooks/<14 /webhookb2/<18",
    ),
    _pattern(
        "password-hash",
        r"\$(?:[156y]|2[aby]|argon2(?:id?|d))\$(?P<secret>[^\s:\"',;]{20,256})",
        "$1$ $5$ $6$ $y$ $2a$ $2b$ $2y$ $argon2",
    ),
    _pattern(
        "private-key",
        r"Private-Lines: [0-9]{1,4}\s{1,4}(?P<secret>(?:[A-Za-z0-9+/=]{1,80}+\s{0,2}+){1,200}+)",
        "private-lines",
    ),
    _pattern(
        "recovery-phrase",
        r"(?i:(?:seed|recovery|secret|mnemonic)[ -](?:phrase|words)\s{0,4}[:=]\s{0,4})"
        r"(?P<secret>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})",
        "seed recovery secret mnemonic",
    ),
    _pattern(
        "service-token",
        r"(?:do[opr]_v1_|shp(?:at|ca|pa|ss)_|lin_(?:api|oauth)_|dckr_pat_|sntrys_|glsa_|glc_|figd_|sbp_|ntn_"
        r"|pscale_(?:tkn|oauth|pw)_|hv[sbr]\.|dp\.(?:pt|st|ct|sa)\.|NRAK-|PMAK-|HRKU-|sq0(?:atp|csp)-)"
        r"[A-Za-z0-9_-]{20,}|AT[AC]TT3[A-Za-z0-9_=-]{20,}|AGE-SECRET-KEY-1[A-Z0-9]{40,}"
        r"|(?<![A-Za-z0-9])(?:key-[0-9a-f]{32}|dapi[0-9a-f]{32}|pul-[0-9a-f]{40}|EAAA[A-Za-z0-9_-]{56,}"
        r"|[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9]))|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{30,}"
        r"|dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}|nfp_[A-Za-z0-9]{30,}|secret_[A-Za-z0-9]{43}"
        r"|AKCp[A-Za-z0-9]{30,}|cmVmdGtuOj[A-Za-z0-9]{20,}|oauth:[a-z0-9]{30}(?![a-z0-9])|EAA[A-Za-z0-9]{60,}"
        r"|access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}",
        "_v1_<3 shpat_ shpca_ shppa_ shpss_ lin_api_ lin_oauth_ dckr_pat_ sntrys_ glsa_ glc_ figd_"
        " sbp_ ntn_ pscale_"
        " hvs. hvb. hvr. dp.pt. dp.st. dp.ct. dp.sa. nrak- pmak- hrku- sq0atp- sq0csp-"
        " atatt3 atctt3"
        " age-secret-key- key- dapi pul- eaa -us<32 .atlasv1.<14 dt0"
        " nfp_ secret_ akcp cmvmdgtuoj oauth: access_token$",
    ),
    _pattern("service-token", r"ra_[0-9a-f]{12}_[A-Za-z0-9_-]{40,}", "ra_"),
    _pattern("service-token", r"(?<![A-Za-z0-9])pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", "pat"),
    _pattern("sendgrid-key", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", "sg."),
    _pattern("jwt", r"eyJ[A-Za-z0-9_-]*+(?:\.[A-Za-z0-9_-]*+)*+", "eyj", _has_three_parts),
    _pattern(
        "bearer-token",
        r"(?i:bearer)(?:\s|%20|\+){1,4}(?P<secret>[A-Za-z0-9._~+/=-]{8,})",
        "bearer",
        _is_long_or_looks_random,
    ),
    _pattern(
        "authorization",
        rf"(?i:authorization|x-api-key){_IS}(?:[A-Za-z]{{1,20}}\s{{1,4}}|(?![A-Za-z]{{1,20}}\s))"
        rf"(?P<secret>{_VALUE}{{6,}})",
        "auth api<2",
    ),
    _pattern(
        "url-credentials",
        r"://(?P<secret>[^\s/?#\"'<>\[\]\\:]*+:[^\s/?#\"'<>\[\]\\]+|[^\s/?#\"'<>\[\]\\:@]{16,})(?=@)",
        "://",
    ),
    _pattern(
        "url-parameter",
        r"(?i:[?&](?:api_?key|key|token|(?:access|refresh|id)_token|sig|(?:x-(?:amz|goog)-)?signature"
        r"|x-amz-security-token|(?:client_)?secret|password|pwd|auth)=)"
        r"(?P<secret>[^&\s\"'#<>\[\]\\]{6,})",
        "key=<5 token=<16 sig=<1 signature=<8 secret<8 passw<1 pwd=<1 auth<1",
    ),
    _pattern("cookie", rf"(?i:cookie){_IS}(?P<secret>[\w.%+-]{{1,64}}=[^\r\n\"'<>\\]{{1,4096}})", "cookie"),
    _pattern(
        "command-password",
        r"\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]{0,2}[\"']?[^\s:\"']{0,64}:(?P<secret>[^\s\"']{1,128})",
        "curl",
    ),
    _pattern(
        "command-password",
        r"\b(?:mysql|mariadb)[a-z-]{0,12}\b[^\n]{0,200}?\s-p[\"']?(?P<secret>[^\s\"']{3,128})",
        "mysql mariadb",
    ),
    _pattern(
        "command-password",
        r"\b(?:sshpass|(?:docker|podman|helm|az|oc)\s{1,4}login\b[^\n]{0,200}?)\s{1,4}-p\s{0,4}[\"']?"
        r"(?P<secret>[^\s\"']{3,128})",
        "sshpass login<10",
    ),
    _pattern(
        "command-password",
        r"(?:(?<!\S)-pass(?:in|out)?\s{1,4}pass:|\bhtpasswd\s{1,4}-[A-Za-z]{0,4}b[A-Za-z]{0,4}\s{1,4}\S{1,128}\s{1,4}"
        r"\S{1,128}\s{1,4}|\blogin\s{1,8}\S{1,128}\s{1,8}password\s{1,8})(?P<secret>[^\s\"']{3,128})",
        "pass:<12 htpasswd login",
    ),
    _pattern(
        "command-password",
        r"(?i:--[a-z-]{0,24}(?:password|passwd|passphrase|token|api-key|secret))\s{1,4}[\"']?"
        rf"(?P<secret>{_VALUE}{{6,}})",
        "passw passphrase token -key secret",
        _has_letter_and_digit,
        heads="--",
    ),
    _pattern(
        "named-value",
        rf"[\"'](?i:pwd|pass|passcode)\\{{0,3}}[\"']\s{{0,4}}:\s{{0,4}}{_QUOTE}(?P<secret>{_VALUE}{{3,}})",
        "pwd<1 pass<1",
    ),
    _pattern(
        "named-value",
        r";\s{0,4}(?i:pwd|password)\s{0,2}=\s{0,2}(?P<secret>[^;\s\"'/][^;\s\"']{3,128})",
        "pwd<5 passw<5",
    ),
    _pattern(
        "named-value",
        r"(?i:(?:password|passwd|passphrase|secret|token|api[_-]?key)[\w-]{0,10}(?:</key>\s{0,20}<string)?>)"
        r"(?P<secret>[^<>\s]{4,256})</",
        "passw passphrase secret token api",
        _has_letter_and_digit,
    ),
    _pattern(
        "named-value",
        r"(?i:name=\\?\"[\w-]{0,40}(?:password|passwd|passphrase|secret|token|api_?key)\\?\")[^\n\\]{0,80}"
        r"(?:\r?\n|\\r\\n){2}(?P<secret>[^\r\n\\]{3,256})",
        "passw passphrase secret token api",
        heads="name=",
    ),
    _pattern(
        "named-value",
        r"(?i:(?:password|passwd|passphrase|secret|token|api[_-]?key)): {0,4}[|>][+-]?\s{1,20}"
        rf"(?P<secret>{_VALUE}{{4,}})",
        "passw passphrase secret token api",
        _has_digit,
    ),
    _pattern(
        "named-value",
        r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|(?:API|ACCESS|PRIVATE)_KEY)=[\"']"
        r"(?P<secret>[^\"'\n$<{]{6,256})",
        "passw passphrase secret token _key<7",
    ),
    _pattern(
        "named-value",
        r"(?i:api[_-]?keys|tokens|passwords|secrets|credentials|private[_-]?keys)"
        r"\\{0,3}[\"']?\s{0,4}[:=]\s{0,4}\[(?P<secret>[^\[\]{}]{8,4096})",
        "keys token passwords secret credentials",
        _has_letter_and_digit,
        heads="api private token passwords secret credentials",
    ),
    _pattern(
        "named-value",
        rf"(?i:(?<![A-Za-z])token){_IS}(?P<secret>{_VALUE}{{12,}})",
        "token",
        _has_letter_and_digit,
    ),
    _pattern(
        "named-value",
        r"(?i:api[_-]?key|secret(?:[_-]?access)?(?:[_-]?key)?|(?:access|auth|refresh)[_-]?token"
        r"|client[_-]?secret|password|passwd|passphrase|private[_-]?key|account[_-]?key|session[_-]?token"
        rf"|shared[_-]?access[_-]?key){_IS}(?P<secret>{_VALUE}{{8,}})",
        "api secret access auth refresh passw passphrase private account session",
        _has_digit,
        heads="api secret access auth refresh client passw passphrase private account session shared",
    ),
    _pattern(
        "named-value",
        rf"(?i:(?<![A-Za-z]){alternatives('secret_name')}"
        rf"(?:\s{{0,4}}[:=：]\s{{0,4}}|\s{{1,4}}{alternatives('secret_is')}\s{{1,4}}))"
        rf"(?P<secret>{_VALUE}{{6,}})",
        " ".join(sorted(word_set("secret_sign"))),
        _has_digit,
    ),
)

OTHER_KINDS = ("environment", "known", "pattern", "field", "depth")
"""Kinds of what is redacted besides the patterns."""
_KINDS = sorted({each.kind for each in PATTERNS} | {*OTHER_KINDS})
MARKER = lazy_pattern(rf"\[redacted:(?:{'|'.join(_KINDS)})\]")
"""Matches what stands in place of a secret."""


def markers_in(text: str) -> frozenset[str]:
    """Return what stands in a text in place of secrets.

    >>> markers_in("The key is [redacted:openai-key].")
    frozenset({'[redacted:openai-key]'})
    """
    return frozenset(MARKER.findall(text))


def _mark_of(sign: str) -> str:
    """Return the first punctuation character of a sign; empty for a word."""
    return next((character for character in sign if not character.isalnum()), "")


_BY_MARK = tuple(
    (mark, tuple(signs))
    for mark, signs in groupby(
        sorted({sign for each in PATTERNS for sign in each.signs}, key=_mark_of), _mark_of
    )
)
"""The signs by their marks: where a mark is missing, none of its signs has to be looked for."""


def signs_in(plain: str) -> set[str]:
    """Return the signs of all patterns that are in a folded text."""
    # one search each is a third of the cost of one regular expression for them all
    return {sign for mark, signs in _BY_MARK if mark in plain for sign in signs if sign in plain}


_SECRET_NAME = lazy_pattern(
    r"(?:keys?|tokens?|secrets?|passwords?|passwd|passphrases?|credentials?|dsn)(?:$|[_\-\d])"
    r"|(?:^|_)(?:pass|auth|pat)$|[a-z\d]_pwd$|connection_string",
    re.IGNORECASE,
)
_SECRET_FIELD = lazy_pattern(
    r"api[_-]?key|access[_-]?key|secret|(?:access|auth|refresh|bearer|session)[_-]?token"
    r"|^token$|^authorization$|password|passwd|passphrase|private[_-]?key|credential|(?:^|[_-])(?:pwd|pass)$"
    r"|^passcode$|^(?:set-)?cookies?$|(?:account|signing|encryption|master|session)[_-]?key"
    r"|connection[_-]?string|webhook[_-]?url",
    re.IGNORECASE,
)


@lru_cache(maxsize=2048)  # each agent looks at the whole environment
def is_secret_name(name: str) -> bool:
    """Return whether the name of an environment variable looks secret."""
    return _SECRET_NAME.search(name) is not None


def is_secret_field(name: str) -> bool:
    """Return whether the text of a JSON field of that name is always a secret."""
    return _SECRET_FIELD.search(name) is not None


# --- A pattern for a secret that is known by its value, however it is quoted, escaped or encoded ---


_MOST_FLEXIBLE = 256
_SHORTEST_LINE = 16
# a character of these may stand for itself or begin an escape, which would leave several ways to read a text
_AMBIGUOUS = lazy_pattern(r"[\\\"'`%\s\x00-\x1f\x7f]")

# the end of one literal and the start of the next, as in "one" + "two"
_SEAM = r"(?:\\{0,3}[\"'`]\s{0,8}[+.]?\s{0,8}\\{0,3}[\"'`])?"


DISGUISE = lazy_pattern(r"[%\\&]|[\"'`]\s{0,8}[+.]?\s{0,8}[\"'`]")
"""Matches in every text in which a secret may be spelt otherwise than as it is."""


@lru_cache(maxsize=256)  # each agent looks for the keys of the environment
def pattern_of(secret: str, kind: str) -> SecretPattern:
    """Return a pattern of a secret and its encodings in JSON, URLs, HTML and literals.

    A secret that holds quotes, backslashes, percent signs, white space or control characters, or more than
    256 characters, is found in whole forms only: as it is, and escaped or encoded as a whole by the common
    writers. Forms in base64, compressed or encrypted are not found.
    """
    if len(secret) <= _MOST_FLEXIBLE and not _AMBIGUOUS.search(secret):
        look = _SEAM.join(map(_any_form, secret))
        sign = folded(secret)
        return SecretPattern(kind, look, signs=(sign,), heads=((sign, 0),), disguisable=True)
    forms = sorted(set(_whole_forms(secret)), key=lambda form: (-len(form), form))
    signs = tuple(map(folded, forms))
    return SecretPattern(
        kind, "|".join(map(re.escape, forms)), signs=signs, heads=tuple((sign, 0) for sign in signs)
    )


def _any_form(char: str) -> str:
    octets = char.encode(errors="surrogatepass")
    units = char.encode("utf-16-be", errors="surrogatepass")
    percent = "".join(rf"%(?:25){{0,3}}{_hex(octet)}" for octet in octets)
    escaped = "".join(
        rf"\\\\{{0,3}}u{_hex(units[at])}{_hex(units[at + 1])}" for at in range(0, len(units), 2)
    )
    import html  # few secrets are looked for by their value

    forms = [re.escape(char), percent, escaped]
    if char == "/":
        forms.append(r"\\\\{0,3}/")
    if html.escape(char) != char:
        forms.append(re.escape(html.escape(char)))
    return f"(?:{'|'.join(forms)})"


def _hex(octet: int) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{octet:02x}")


def _whole_forms(secret: str) -> Iterator[str]:
    import html

    whole = [secret, secret.strip()]
    lines = [line.strip() for line in secret.splitlines()]
    for form in (*whole, *(line for line in lines if len(line) >= _SHORTEST_LINE)):
        yield form
        yield html.escape(form)
        yield repr(form)[1:-1]
        for ascii_only in (True, False):
            once = json.dumps(form, ensure_ascii=ascii_only)[1:-1]
            yield once
            yield once.replace("/", r"\/")
            yield json.dumps(once)[1:-1]
        octets = form.encode(errors="surrogatepass")
        for encoded in (quote(octets, safe=""), quote(octets), quote_plus(octets)):
            yield encoded
            yield re.sub("%[0-9A-F]{2}", lambda found: found.group().lower(), encoded)
