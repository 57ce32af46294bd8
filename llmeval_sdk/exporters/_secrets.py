"""Finds secrets in a text: tokens by how they begin, and whatever stands under a secret's name.

A text is scanned once for each of the two, in linear time: nearly all of it is passed over by
searches for single characters, and what a pattern repeats can be split in one way only.
"""

from __future__ import annotations

import re
import string
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import chain, islice
from typing import Any, AnyStr

from llmeval_sdk.process.pieces import (
    MAX_SEARCHED,
    OVERLAP,
    end_of_run,
    find_all,
    replace_all,
    windows,
)


W, D, X = "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[A-Fa-f0-9]"
# The shapes of secrets, as their makers and the maintained scanners document them: pure facts.
#
# A token is known by its prefix. A password has no shape, so it is known by the name it stands
# under.

_END = "(?![A-Za-z0-9])"
_UUID = f"{X}{{8}}(?:-{X}{{4}}){{3}}-{X}{{12}}"

_NUMBERS = tuple(f"{first}{second}" for first in "MNO" for second in "DTjz")

TOKENS: tuple[tuple[str, str], ...] = (
    # Model providers and the tools around them: `sk-` is OpenAI, Anthropic, DeepSeek, OpenRouter …
    ("sk-", f"{D}{{20,}}"), ("hf_", f"{W}{{30,}}"), ("api_org_", f"{W}{{30,}}"),
    ("gsk_", f"{W}{{40,}}"),
    ("xai-", f"{W}{{40,}}"), ("pplx-", f"{W}{{32,}}"), ("r8_", f"{W}{{32,}}"),
    ("fw_", f"{W}{{22,}}"), ("nvapi-", f"{D}{{40,}}"),
    ("csk-", f"{W}{{40,}}"), ("pcsk_", f"{D}{{40,}}"), ("lsv2_", f"(?:pt|sk)_{X}{{32}}_{X}{{10}}"),
    ("ls__", f"{X}{{32,}}"), ("tvly-", f"{D}{{20,}}"), ("jina_", f"{D}{{40,}}"),
    ("pa-", f"{D}{{43}}(?!{D})"), ("tgp_v1_", f"{D}{{40,}}"),
    ("fc-", f"{X}{{32,}}"), ("e2b_", f"{X}{{40,}}"), ("phx_", f"{W}{{40,}}"),
    # Clouds and hosts.
    *((kind, f"[A-Z0-9]{{16}}{_END}") for kind in ("AKIA", "ASIA", "ABIA", "ACCA")),
    ("AIza", f"{D}{{35}}(?!{D})"), ("ya29.", f"{D}{{20,}}"), ("GOCSPX-", f"{D}{{20,}}"),
    ("LTAI", f"{W}{{16,20}}{_END}"),
    ("AQVN", f"{D}{{35,}}"), ("dapi", f"{X}{{32,}}"), ("HRKU-", f"{D}{{30,}}"),
    *((f"do{kind}_v1_", f"{X}{{64,}}") for kind in "opr"), ("v1.0-", f"{X}{{24}}-{X}{{100,}}"),
    ("fo1_", f"{D}{{43,}}"), ("fm2_", "[A-Za-z0-9+/]{100,}={0,3}"), ("pul-", f"{X}{{40,}}"),
    ("sha256~", f"{D}{{43,}}"), ("hvs.", f"{D}{{24,}}"), ("hvb.", f"{D}{{24,}}"),
    ("pscale_", r"(?:tkn|oauth|pw)_[A-Za-z0-9_.=-]{32,}"), ("sbp_", f"{X}{{40,}}"),
    ("sb_secret_", f"{D}{{20,}}"), ("mdb_sa_sk_", f"{D}{{20,}}"),
    # Code and packages.
    *((f"gh{kind}_", f"{W}{{36,}}") for kind in "pousr"), ("github_pat_", "[A-Za-z0-9_]{22,}"),
    (
        "gl",
        f"(?:pat|dt|ft|imt|agent|oas|ptt|rt|soat|cbt|ffct)-{D}{{20,}}(?:[.][0-9a-z]{{2,9}}){{0,3}}",
    ),
    ("GR1348941", f"{D}{{20,}}"), ("npm_", f"{W}{{36,}}"), ("pypi-Ag", f"{D}{{50,}}"),
    ("rubygems_", f"{X}{{48,}}"), ("dckr_pat_", f"{D}{{20,}}"), ("CLOJARS_", f"{W}{{60,}}"),
    ("AKCp", f"{W}{{69,}}"), ("ATATT3", "[A-Za-z0-9_=-]{100,}"), ("ATBB", f"{W}{{28,}}"),
    ("bkua_", f"{X}{{40,}}"), ("sgp_", f"(?:{X}{{16}}_|local_)?{X}{{40,}}"),
    # Payments, mail, chat and the rest.
    *((f"{side}_{mode}_", f"{W}{{16,}}") for side in ("sk", "rk") for mode in ("live", "test")),
    ("whsec_", "[A-Za-z0-9+/]{24,}={0,2}"), ("sq0atp-", f"{D}{{22,}}"), ("sq0csp-", f"{D}{{40,}}"),
    ("EAAA", f"{D}{{50,}}"), ("xox", "[abeoprs]-[A-Za-z0-9-]{14,}"), ("xapp-", "[A-Za-z0-9-]{20,}"),
    ("hooks.slack.com/", "(?:services|workflows|triggers)/[A-Za-z0-9+/]{20,}"),
    ("discord.com/api/webhooks/", f"[0-9]{{15,}}/{D}{{50,}}"),
    ("SG.", f"{D}{{16,}}[.]{D}{{16,}}"), ("SK", f"{X}{{32}}{_END}"), ("key-", f"{X}{{32}}{_END}"),
    ("xkeysib-", f"{X}{{64}}-{W}{{16}}"), ("AA", f"(?<=[0-9]:AA){D}{{32,}}"),
    *((f"shp{kind}_", f"{X}{{32,}}") for kind in ("at", "ca", "pa", "ss")),
    ("lin_api_", f"{W}{{32,}}"), ("ntn_", f"{W}{{40,}}"), ("secret_", f"{W}{{43}}{_END}"),
    ("glc_", "[A-Za-z0-9+/]{32,}={0,3}"), ("glsa_", f"{W}{{32}}_{X}{{8}}"),
    ("sntryu_", f"{X}{{64,}}"), ("sntrys_", "[A-Za-z0-9_+/=-]{40,}"),
    ("PMAK-", f"{X}{{24}}-{X}{{34}}"), ("dt0c01.", f"{W}{{24}}[.]{W}{{64}}"),
    ("dp.pt.", f"{W}{{40,}}"), ("duffel_", f"(?:test|live)_{D}{{43}}"), ("figd_", f"{D}{{40,}}"),
    ("EZAK", f"{W}{{54}}"), ("EZTK", f"{W}{{54}}"), ("fio-u-", f"{D}{{64}}"),
    ("ico-", f"{W}{{32}}{_END}"), ("shippo_", f"(?:live|test)_{X}{{40}}"),
    ("tfp_", "[A-Za-z0-9_.=-]{40,}"), ("pnu_", f"{W}{{36,}}"), ("rdme_", "[a-z0-9]{70}"),
    ("API-", f"[A-Z0-9]{{26}}{_END}"), ("NRAK-", "[A-Z0-9]{27}"), ("tk-us-", f"{D}{{48}}"),
    ("AGE-SECRET-KEY-1", "[A-Z0-9]{50,}"),
    # Further model tools, clouds, code hosts, mail and payments.
    ("sk_", f"{X}{{48}}{_END}"), ("sk_V2_", f"{D}{{30,}}"), ("wandb_v1_", f"{D}{{40,}}"),
    ("rpa_", f"{W}{{32,}}"), ("pylf_v", f"[0-9]_[a-z]{{2,8}}_{W}{{40,}}"),
    ("esecret_", f"{W}{{24,}}"), ("ABSK", "[A-Za-z0-9+/]{100,}={0,2}"),
    ("1//0", f"{D}{{40,}}"), ("AKID", f"{W}{{32}}{_END}"), ("tskey-", f"[a-z]{{3,8}}-{D}{{20,}}"),
    ("napi_", f"{W}{{40,}}"), ("rnd_", f"{W}{{28,}}"), ("vercel_blob_rw_", f"{D}{{30,}}"),
    *((f"nf{kind}_", f"{W}{{36,}}") for kind in "pcobu"), ("AstraCS:", f"{W}{{20,}}:{X}{{60,}}"),
    ("hvr.", f"{D}{{24,}}"), ("ops_eyJ", f"{D}{{100,}}"), ("ory_", f"[a-z]{{2,4}}_{D}{{30,}}"),
    ("dp.", f"(?:st|ct|sa|scim|audit)[.](?:{D}{{2,35}}[.])?{W}{{40,}}"),
    ("CCIPAT_", f"{D}{{40,}}"), ("CCIPRJ_", f"{D}{{40,}}"), ("ATCTT3", "[A-Za-z0-9_=-]{100,}"),
    ("ATSTT3", "[A-Za-z0-9_=-]{100,}"), ("cio", f"{W}{{32}}{_END}"),
    ("oy2", f"[a-z0-9]{{43}}{_END}"),
    ("cmVmd", f"{W}{{59}}{_END}"), ("PMAT-", "[A-Z0-9]{26}"),
    ("dt0s16.", f"{W}{{8,24}}[.]{W}{{64}}"),
    ("lin_oauth_", f"{X}{{64}}"), ("re_", f"{W}{{8}}_{W}{{24,}}"), ("md-", f"{D}{{22}}(?!{D})"),
    ("xsmtpsib-", f"{X}{{64}}-{W}{{16}}"),
    ("pat-", f"(?:na|eu)[0-9]-{_UUID}"),
    ("pat", f"{W}{{14}}[.]{X}{{64}}"),
    ("access-", f"(?:sandbox|development|production)-{_UUID}"),
    ("APP_USR-", f"[0-9]{{12,}}-{D}{{40,}}"), ("FLWSECK", f"(?:_TEST)?-{X}{{12,}}"),
    ("sk.eyJ", f"{D}{{20,}}[.]{D}{{20,}}"), ("xoxe.xox", "[bp]-[A-Za-z0-9-]{40,}"),
    ("cal_live_", f"{X}{{32}}"), ("EAA", f"{W}{{90,}}"),
    # And more of each, as their makers or at least two maintained scanners describe them.
    ("apify_api_", f"{W}{{34,}}"), ("dtn_", f"{X}{{40,}}"), ("KGAT_", f"{X}{{32,}}"),
    ("bedrock-api-key-", "[A-Za-z0-9+/=]{40,}"), ("AQ.Ab8", f"{D}{{40,}}"),
    ("IQoJb3JpZ2lu", "[A-Za-z0-9+/=%]{100,}"), ("FwoGZXIvYXdz", "[A-Za-z0-9+/=%]{100,}"),
    ("AKLT", f"{W}{{35,}}"), ("SCW", f"[A-Z0-9]{{17}}{_END}"), ("sl.", f"{D}{{100,}}"),
    *((f"vc{kind}_", f"{W}{{24,}}") for kind in "piark"),
    *((f"cf{kind}_", f"{D}{{40,}}") for kind in ("at", "ut", "k")), ("cflt", "[A-Za-z0-9+/]{60}"),
    ("t1.", f"{D}{{1,}}={{0,2}}[.]{D}{{43,}}={{0,2}}"), ("dckr_oat_", f"{D}{{32,}}"),
    *((f"sq{kind}_", f"{X}{{40}}") for kind in "pua"), ("CFPAT-", f"{D}{{43,}}"),
    *((f"{side}_org_{mode}_", f"{W}{{16,}}") for side in ("sk", "rk") for mode in ("live", "test")),
    *((f"rzp_{mode}_", f"{W}{{14,}}") for mode in ("live", "test")),
    *((f"{mode}_", f"{X}{{35}}{_END}") for mode in ("live", "test")),
    *((f"dbt{kind}_", f"{D}{{30,}}") for kind in "cu"), ("sgp_", f"{W}{{64}}"),
    ("WPL_AP1.", f"{W}{{16}}[.][A-Za-z0-9+/]{{6,}}={{0,2}}"), ("dG9rOj", f"{W}{{40,}}={{0,2}}"),
    *((f"hca{kind}_", "[a-z0-9]{50,}") for kind in ("ik", "ic")),
    ("A3-", f"(?:[A-Z0-9]{{5,11}}-){{4,5}}[A-Z0-9]{{5}}{_END}"),
    *((f"{kind}-", f"{_UUID}{_END}") for kind in ("sdk", "api")), ("as-", f"{W}{{22}}{_END}"),
    ("ver:", "[12]-hint:[0-9]{1,20}-ETMsDg[A-Za-z0-9+/=%]{40,}"),
    ("A" * 21, "[A-Za-z0-9%]{60,110}(?![A-Za-z0-9%+/])"),
    ("webhook.office.com/webhookb2/", f"{X}[A-Za-z0-9@/-]{{60,}}"),
    # A bot's token begins with its number in base64: a figure, and the upper half of another.
    *((begin, f"{D}{{20,26}}[.]{D}{{6}}[.]{D}{{27,}}") for begin in _NUMBERS),
)  # fmt: skip
"""Prefix and the pattern of what follows it; together never shorter than `SHORTEST`."""

MARKED: tuple[tuple[str, str, int], ...] = (
    ("-us", f"{X}{{32}}-us[0-9]{{1,2}}{_END}", 32),
    (".atlasv1.", f"{W}{{14}}[.]atlasv1[.]{D}{{60,}}", 14),
    ("AZDO", f"{W}{{76}}AZDO{W}{{4}}{_END}", 76), ("JQQJ99", f"{W}{{52}}JQQJ99{W}{{10,40}}", 52),
    ("Q~", "[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}", 4),
    ("access_token$", f"access_token[$](?:production|sandbox)[$]{W}{{16}}[$]{X}{{32}}", 0),
)  # fmt: skip
"""Tokens that are known by what stands in them: that text, the whole, and how much is before it."""

LONGEST = 1 << 14
"""Characters up to which a secret is found whole wherever it stands; a longer one is closed whole
from its beginning on."""
SHORTEST = 18
"""Characters of `TOKEN_CHARACTERS` in a row that every token has."""
TOKEN_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.~%"

PASSWORD_NAMES = ("password", "passwd", "passphrase", "pwd", "passwort")
"""Endings of names whose value people choose: it may be short, and have no figure."""

FREQUENT_PASSWORDS = (
    "qwerty", "qwertz", "iloveyou", "letmein", "monkey", "dragon", "changeme", "changeit",
    "sunshine", "princess", "football", "baseball", "superman", "batman", "welcome", "trustnoone",
    "abcdef",
)  # fmt: skip
"""The most frequent ones without a figure; any other word needs surroundings that make it one."""

NO_PASSWORDS = (
    "none", "null", "true", "false", "str", "string", "text", "required", "optional", "hidden",
    "redacted", "password", "passwd", "passphrase", "pwd", "secret", "invalid", "incorrect",
    "missing", "wrong", "empty", "unknown", "changed", "expired", "input", "field", "value",
    "default", "example", "environ",
)  # fmt: skip
"""Words that stand under such a name and are none."""

SURE_NAMES = (
    *PASSWORD_NAMES, "secret", "api key", "access key", "account key",
    "private key", "secret key", "signing key", "encryption key", "master key", "auth key",
    "authorization", "subscription key", "application key",
)  # fmt: skip
"""Endings of names whose value is a secret, whatever it looks like; a space stands for an optional
hyphen, underscore, dot or space."""

LIKELY_NAMES = ("token", "cookie", "sig", "credential", "credentials")
"""Endings of names that also have harmless values; in a text the value has to look random."""

PAIRED_NAME = "value"
NAMING_FIELDS = ("name", "key", "field", "variable", "header", "Name", "Key")
"""Fields of a pair: ``{"name": "DB_PASSWORD", "value": "…"}``, as in lists of variables."""

FIELD_NAMES = (
    *SURE_NAMES, *LIKELY_NAMES, "secrets", "passwords", "api keys", "creds", "dsn", "db pass",
    "user pass", "connection string", "database url",
)  # fmt: skip
"""Endings of the names of fields and arguments whose value never leaves."""

HARMLESS_NAMES = frozenset(
    f"{kind}token"
    for kind in (
        "eos", "bos", "pad", "unk", "sep", "cls", "mask", "stop", "special", "start", "end",
        "first", "last", "nextpage", "page", "next", "continuation",
    )
)  # fmt: skip
"""Names that end like one of those and belong to tokenizers or to paging."""


# Names of fields and arguments whose value is a secret, however they are spelled.

_ENDINGS_OF_NAMES = tuple(name.replace(" ", "") for name in FIELD_NAMES)
_SEPARATORS = str.maketrans("", "", "_-. :")
_PAIRED = frozenset((PAIRED_NAME, PAIRED_NAME.capitalize()))
_MAX_NAME = 200


@lru_cache(maxsize=4096)
def _is_secret_name(name: str) -> bool:
    """Say whether a name ends like one of a secret: ``OPENAI_API_KEY``, ``clientSecret``, ``pwd``.

    Case, hyphens, underscores, dots and spaces do not matter. ``auth`` counts only by itself.
    """
    plain = name[-_MAX_NAME:].translate(_SEPARATORS).lower()
    return (plain.endswith(_ENDINGS_OF_NAMES) and plain not in HARMLESS_NAMES) or plain == "auth"


def hides(mapping: dict[Any, Any], key: object) -> bool:
    """Say whether what stands under a key of a mapping is a secret.

    It is by its key, or by the name beside it: ``{"name": "DB_PASSWORD", "value": "…"}``. The
    ``token`` beside a ``logprob`` is a piece of an answer.
    """
    if type(key) is not str:
        return False
    if _is_secret_name(key):
        return key != "token" or "logprob" not in mapping
    return key in _PAIRED and any(
        type(name) is str and _is_secret_name(name) for name in map(mapping.get, NAMING_FIELDS)
    )


def holds_secret(mapping: dict[Any, Any]) -> bool:
    """Say whether anything in a mapping is a secret by its key or by the name beside it."""
    if _harmless.issuperset(mapping):
        return False
    for key, item in mapping.items():
        if hides(mapping, key) and item:
            return True
    if len(_harmless) < _MAX_KNOWN:
        _harmless.update(
            key
            for key in mapping
            if type(key) is str and key not in _PAIRED and not _is_secret_name(key)
        )
    return False


_harmless: set[str] = set()
"""Names that were looked at already: most mappings of an app have the same ones."""
_MAX_KNOWN = 4096


Span = tuple[int, int, str]
"""Where a secret begins and ends, and what the mark calls it."""


def redact_secrets(text: str) -> str:
    """Replace each secret of a text by ``<redacted:…>``; names and schemes before it stay."""
    text = f"\n{text}"  # so that something stands before the first word
    spans = [*_assigned(text)]
    if _has_escapes(text.encode(errors="replace")):
        spans += _assigned(_plain(text))
    if _may_have_tokens(text):
        spans = [*_tokens(text), *_private_keys(text), *spans]
    spans.sort(key=lambda span: span[0])  # of two at the same place, the token says more
    pieces: list[str] = []
    done = 1
    for begin, span_end, kind in spans:
        end = span_end
        if end > done and end - begin >= _LONG and kind == "secret":
            end = end_of_run(_REST, text, end)
        if begin >= done:
            pieces += (text[done:begin], f"<redacted:{kind}>")
        done = max(done, end)
    return "".join((*pieces, text[done:]))


# -- escapes ---------------------------------------------------------------------------------------

_ESCAPES = {
    "%": re.compile(r"%(?:25)?[23][0-9A-Fa-f]"),
    "&": re.compile("&(?:quot|apos|lt|gt|amp|#)"),
    "\\": re.compile(r"\\(?:u00|x[1-3]|033|e\[|/)"),
    "\x1b": re.compile(r"\x1b\["),
}
"""A pattern for each first sign of an escape. One pattern for all takes twelve times as long."""
_COLOUR = re.compile(r"(?:\x1b|\\(?:u001[bB]|x1[bB]|033|e))\[[0-9;]{0,20}[A-Za-z]")
_WRITTEN = (
    *((f"\\u00{ord(sign):02x}", sign) for sign in "\"'<>=:&"),
    *((f"\\x{ord(sign):02x}", sign) for sign in "\"'<>=:&"),
    *((f"%25{ord(sign):02x}", sign) for sign in "\"'<>=:& "),
    *((f"%{ord(sign):02x}", sign) for sign in "\"'<>=:& "),
    ("&quot;", '"'), ("&#34;", '"'), ("&#x22;", '"'), ("&apos;", "'"), ("&#39;", "'"),
    ("&#x27;", "'"), ("&lt;", "<"), ("&#60;", "<"), ("&gt;", ">"), ("&#62;", ">"), ("&amp;", "&"),
    ("<\\/", "</"), (":\\/\\/", "://"),
)  # fmt: skip
_REPLACED: dict[str, dict[str, str]] = defaultdict(dict)
"""Escapes by their first sign, each with the text that replaces it, which is as long."""
for _escape, _sign in _WRITTEN:
    for _spelling in (_escape, _escape[:-2] + _escape[-2:].upper()):
        _REPLACED[_escape[0]][_spelling] = _sign.rjust(len(_escape))


def _has_escapes(text: bytes) -> bool:
    return any(
        sign in text and _occurs(sign, pattern, text) for sign, pattern in _ESCAPES_IN_BYTES.items()
    )


_ESCAPES_IN_BYTES = {
    sign.encode(): re.compile(pattern.pattern.encode()) for sign, pattern in _ESCAPES.items()
}


def _occurs(sign: bytes, pattern: re.Pattern[bytes], text: bytes) -> bool:
    """Say whether a pattern that begins with a sign matches anywhere.

    A rare sign is found ten times as fast by itself as by a pattern.
    """
    at = text.find(sign)
    for _ in range(_MAX_RARE):
        if at < 0:
            return False
        if pattern.match(text, at, at + MAX_SEARCHED):
            return True
        at = text.find(sign, at + 1)
    return at >= 0 and next(find_all(pattern, text, at), None) is not None


_MAX_RARE = 16
"""How often a sign is looked for by itself. One search through the rest follows."""


def _plain(text: str) -> str:
    """Write signs for their escapes, each behind as many blanks as leave every place where it was.

    What is found in it is cut out of the text itself.
    """
    for begin, escapes in _REPLACED.items():
        if begin in text:
            for escape, sign in escapes.items():
                text = text.replace(escape, sign)
    if "\x1b" not in text and "\\" not in text:
        return text
    return replace_all(_COLOUR, lambda match: " " * len(match[0]), text)


# -- tokens ----------------------------------------------------------------------------------------

_CLASSES = bytes(120 if byte in TOKEN_CHARACTERS else 32 for byte in range(256))
_WORD = b" " + b"x" * SHORTEST
_LEAD = 24
"""Bytes before a long word in which its beginning, such as ``\\u0022Bearer``, may stand."""
_ROUND = 16
"""After each so many long words it is checked whether they are three quarters of the stretch."""
_BETWEEN_WORDS = b"\xff"
"""No byte of a text in UTF-8."""
_FIGURE, _MANY_LETTERS = b"0", b"x" * 20
_FIGURES_AND_LETTERS = bytes(
    48 if byte in b"0123456789J" else 120 if chr(byte) in string.ascii_letters else byte
    for byte in range(256)
)
"""Makes one sign of all letters, and one of all figures and the ``J`` of the ``eyJ`` of web tokens:
each token has either a figure or so many letters in a row."""


def _has_token(text: bytes) -> bool:
    """Say whether a text has a word that looks like a token, or begins a private key.

    Of ordinary text nearly all is left out before a pattern sees it: the words are too short.
    """
    words = _long_words(text)
    if not words:
        return False
    if b"-" in text and b"PRIVATE KEY" in text and _PEM_BEGINS.encode() in text:
        return True
    if len(words) < len(text) // 2:  # of more than that most have figures
        words = _with_figures(words)
    if len(words) > MAX_SEARCHED:  # what stands before each of many words makes them longer
        half = len(text) // 2
        return _has_token(text[: half + LONGEST]) or _has_token(text[half:])
    apart = words.translate(_APART)
    has_signs = any(sign.encode() in words for sign in _SIGNS_OF_TOKENS)
    looks = [_behind(" ", has_signs=has_signs)]
    if _ESCAPED.encode() in apart:
        looks.append(_behind(_ESCAPED + _ESCAPE_ENDS, has_signs=True))
    return (
        any(_begins_token(look, apart, words) for look in looks)
        or any(marked or tried == _MAX_TRIED for tried, marked in enumerate(_marked(words)))
        or (b"$" in text and b"access_token$" in text)  # its last part alone is a long word
    )


def _begins_token(look: re.Pattern[bytes], apart: bytes, words: bytes) -> bool:
    """Say whether a token begins where its prefix seems to; two places may overlap."""
    token, at = _token_bytes(), 0
    for _ in range(_MAX_TRIED):
        begin = look.search(apart, at)
        if begin is None:
            return False
        at = begin.start()
        if token.match(words, at):
            return True
        at += 1
    return token.search(words, at - 1) is not None


_MAX_TRIED = 200
"""How many places are tried one by one. One search through the rest, which costs more, follows."""


def _long_words(text: bytes) -> bytes:
    """Return the words that are as long as a token, each with what stands right before it.

    Where three quarters of a stretch are such words, as in base64, what is before it is taken as a
    whole.

    They are looked for from the end: behind a space, which the search then skips by, they are
    found in two thirds of the time that a search from the beginning takes.
    """
    classes = b" " + text.translate(_CLASSES)
    at = classes.rfind(b" ")
    words: list[bytes] = []
    size, begun = 0, len(text)
    if begun - at < SHORTEST:
        at = classes.rfind(_WORD, 0, at)
    while at >= 0:
        behind = classes.find(b" ", at + SHORTEST)
        end = behind - 1 if behind >= 0 else len(text)
        words.append(text[max(at - _LEAD, 0) : end])
        size += end - at
        if not len(words) % _ROUND:
            if size > (begun - at) * 3 // 4:
                words.append(text[:at])
                break
            size, begun = 0, at
        at = classes.rfind(_WORD, 0, at)
    return _BETWEEN_WORDS.join((b"", *words)) if words else b""


def _with_figures(words: bytes) -> bytes:
    """Return those of some words that have what every token has.

    The first one is kept: it is the last of the window, behind which a token may go on.
    """
    signs = words.translate(_FIGURES_AND_LETTERS)
    end = words.find(_BETWEEN_WORDS, 1)
    kept = [words[:end] if end > 0 else words]
    for sign in (_FIGURE, _MANY_LETTERS):
        at = signs.find(sign, end) if end > 0 else -1
        while at >= 0:
            begin, behind = signs.rfind(_BETWEEN_WORDS, 0, at), signs.find(_BETWEEN_WORDS, at)
            kept.append(words[begin:behind] if behind > 0 else words[begin:])
            at = signs.find(sign, behind) if behind > 0 else -1
    return b"".join(kept)


_WORD_BEGINS = (
    r"[^A-Za-z0-9](?=[A-Za-z0-9])(?:(?<=[\\%;\[])(?:[nrt](?<=\\[nrt])|u[0-9A-Fa-f]{4}(?<=\\u....)"
    r"|x[0-9A-Fa-f]{2}(?<=\\x..)|[0-9]{0,3}[A-Km](?<=[;\[0-9].)|(?:25)?[0-9A-Fa-f]{2}))?"
)
"""Also behind an escaped character, a terminal's command and a ``%20``. A pattern that begins like
this passes quickly over letters, and the first letter then chooses among the alternatives, of
which there are a hundred."""
_RANDOM_WORD = re.compile("[0-9]|[A-Za-z]{20}")
"""What words joined by hyphens do not have."""


_BEARER = r"(?:[bB]earer|BEARER)(?: {1,2}|%20|\\u0020|[+])"
_WEB_TOKEN = (("eyJ", "[A-Za-z0-9_-]{8,}"),)
_BEARERS = (("bearer", ""), ("Bearer", ""), ("BEARER", ""))
_ALNUM = string.ascii_letters + string.digits
_SIGNS_OF_TOKENS = "-_.:~"
"""Signs that long words often lack, as those of base64 do: a token with one is then none of them.
"""
_ESCAPED = "\x01"
_APART = bytes(
    byte if chr(byte) in _ALNUM else 1 if byte in b"\\%;[" else 32 for byte in range(256)
)
"""Makes one sign of all that may stand before a token, and another of what begins an escape: a
pattern that begins with one character passes over a text five times as fast as any other."""
_ESCAPE_ENDS = "(?:[nrt]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[0-9]{0,3}[A-Km]|(?:25)?[0-9A-Fa-f]{2})?"


@cache
def _behind(beginning: str, *, has_signs: bool) -> re.Pattern[bytes]:
    """Compile the prefixes of tokens, and some other words, in a text that `_APART` changed.

    One letter of those that any begins with is looked at before the alternatives are.
    """
    prefixes = {
        prefix.encode().translate(_APART).decode()
        for prefix, rest in (*TOKENS, *_WEB_TOKEN, *_BEARERS)
        if has_signs or not _needs_sign(prefix, rest)
    }
    first = "".join(sorted({prefix[0] for prefix in prefixes}))
    others = _alternatives((rest, "") for rest in sorted({prefix[1:] for prefix in prefixes}))
    return re.compile(f"{beginning}[{first}](?:{others})".encode())


def _needs_sign(prefix: str, rest: str) -> bool:
    """Say whether each token of a shape has a sign: one of its prefix, of no class or option."""
    needed = _CLASS.sub("", _OPTION.sub("", rest.replace("[.]", ".")).replace("(?:", "("))
    return any(sign in prefix + needed for sign in _SIGNS_OF_TOKENS)


_OPTION = re.compile(r"\((?:[^()]|\([^()]*\))*\)(?:\?|\{0,[0-9]+\})")
_CLASS = re.compile(r"\[[^]]{0,80}\]|\{[0-9]+,[0-9]*\}")


_SHORT_PREFIX = 5
"""Prefixes of at most so many letters begin other words too, so what follows them is checked."""


@cache
def _token_bytes() -> re.Pattern[bytes]:
    """Compile what `_token` finds, as far as a word shows it of which the end may be missing."""
    shapes = [
        (prefix, f"(?:{rest}|{_PARTED[prefix]}{{900,}})" if prefix in _PARTED else rest)
        if len(prefix) <= _SHORT_PREFIX and "%" not in rest
        else (prefix, "")
        for prefix, rest in TOKENS
    ]
    bearer = f"{_BEARER}[A-Za-z0-9._~+/-]{{18}}"
    return re.compile(
        f"{_WORD_BEGINS}(?:{_alternatives((*shapes, *_WEB_TOKEN))}|{bearer})".encode()
    )


@cache
def _token() -> re.Pattern[str]:
    """Compile when first needed: it costs a process some milliseconds."""
    bearer = f"{_BEARER}(?P<bearer>[A-Za-z0-9._~+/-]{{18,}}={{0,2}})"
    return re.compile(f"{_WORD_BEGINS}(?P<token>{_alternatives(TOKENS)}|{bearer})")


def _alternatives(pairs: Iterable[tuple[str, str]]) -> str:
    groups: dict[str, list[str]] = defaultdict(list)
    for prefix, rest in pairs:
        groups[prefix[0]].append(re.escape(prefix[1:]) + rest)
    return "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in groups.items())


def _tokens(text: str) -> Iterator[Span]:
    """Yield the tokens of a text that begins with a line break."""
    for match in find_all(_token(), text, overlap=LONGEST):
        begin, end = match.span("bearer" if match["bearer"] else "token")
        if _RANDOM_WORD.search(text, begin, end):
            if end - begin > LONGEST:  # it may go on behind the piece
                end = end_of_run(_TOKEN_GOES_ON, text, end)
            yield begin, end, "api_key"
    for marked in _marked(text):
        if marked is not None:
            yield *marked.span(), "api_key"
    if len(text) > MAX_SEARCHED:
        for match in find_all(_first_parts(), text, overlap=LONGEST):
            if _RANDOM_WORD.search(text, *match.span("part")):
                yield match.start("part"), end_of_run(_TOKEN_GOES_ON, text, match.end()), "api_key"


def _marked(text: AnyStr) -> Iterator[re.Match[AnyStr] | None]:
    """Yield for each text that such a token has in it the token, or ``None`` if it is in none."""
    is_text = isinstance(text, str)
    for marker, pattern, before in MARKED:
        sign: Any = marker if is_text else marker.encode()
        if sign.strip(_ALNUM if is_text else _ALNUM.encode())[:1] not in text:
            continue  # which takes a tenth of the time
        at = text.find(sign)
        while at >= 0:
            first = max(at - before, 1)
            yield _compiled(pattern, is_text=is_text).match(text, first, first + MAX_SEARCHED)
            at = text.find(sign, at + 1)


_TOKEN_GOES_ON = re.compile("[A-Za-z0-9_.:=-]*")


@cache
def _first_parts() -> re.Pattern[str]:
    """Compile the first parts of tokens that are so long that no piece has the next one, too."""
    ways = [f"{re.escape(begin)}{signs}{{{LONGEST // 2},}}" for begin, signs in _PARTED.items()]
    return re.compile(f"{_WORD_BEGINS}(?P<part>{'|'.join(ways)})")


_PARTED = {"SG.": D, "sk.eyJ": D, "t1.": D, "AstraCS:": W, "APP_USR-": "[0-9]"}
"""Tokens whose first part has no bound, with its characters."""


@cache
def _compiled(pattern: str, *, is_text: bool) -> re.Pattern[Any]:
    whole = f"(?<![A-Za-z0-9]){pattern}"
    return re.compile(whole if is_text else whole.encode())


_PEM_BEGINS = "-----BEGIN "
_PEM_HEAD = re.compile(_PEM_BEGINS + "[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?!-----)")
_PEM_END = re.compile("-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_LINE_BREAK = r"(?:\s|\\{1,7}[nr]){1,8}"
"""Between two lines, also of a text in which line breaks are escaped, once or twice."""
_PEM_REST = re.compile(
    rf"(?:{_LINE_BREAK}[A-Za-z-]{{4,20}}: [^\n\\]{{1,100}}){{0,3}}"
    rf"(?:{_LINE_BREAK})?(?:[A-Za-z0-9+/=]{{16,}}(?:{_LINE_BREAK}[A-Za-z0-9+/=]{{16,}})*)?"
)
"""Of a key that was cut off, its headers and its lines."""
_MAX_PEM_EDGE = 80
"""Characters of its first or its last line."""


_LONG_LINE = re.compile("[A-Za-z0-9+/=]{18}")


def _private_keys(text: str) -> Iterator[Span]:
    at = text.find(_PEM_BEGINS)
    while at >= 0:
        end = at + 1
        head = _PEM_HEAD.match(text, at, at + _MAX_PEM_EDGE)
        if head is not None:
            closes = _end_of_key(text, head.end())
            if _LONG_LINE.search(text, head.end(), min(closes, at + MAX_SEARCHED)):
                end = closes
                yield at, end, "private_key"
        at = text.find(_PEM_BEGINS, end)


def _end_of_key(text: str, begin: int) -> int:
    """Return where a key ends whose first line ends at a place, however long it is."""
    close = text.find("-----", begin)
    if close >= 0 and (last := _PEM_END.match(text, close, close + _MAX_PEM_EDGE)):
        return last.end()
    limit = begin + MAX_SEARCHED
    rest = _PEM_REST.match(text, begin, limit)
    end = begin if rest is None else rest.end()
    return len(text) if end > limit - _MAX_PEM_EDGE else end


# -- what stands under a name ----------------------------------------------------------------------

_MAX_NAMES = 10_000
"""How many names with each operator, and how many addresses, are looked at in one text. It bounds
the time; of a text with more, the rest is taken out whole."""
_NAMES = (*SURE_NAMES, *LIKELY_NAMES)


def _has_name(text: bytes) -> bool:
    """Say whether an operator stands behind the name of a secret.

    Nearly all of what stands before an operator ends unlike any name.
    """
    text = text.replace(b"=", b":")  # one sign is found in half the time of two
    if b":" not in text:
        return False
    is_name = _named("").match
    for tried, place in enumerate(_behind_end().finditer(text)):
        if tried == _MAX_TRIED:
            return _named(":").search(text.lower()[::-1]) is not None
        begin = place.start()
        if is_name(text[max(begin - _MAX_GAP, 0) : begin].lower()[::-1]):
            return True
    return False


@cache
def _behind_end() -> re.Pattern[bytes]:
    """Compile a colon behind the last letters of a secret's name, or behind blanks and signs.

    Clean texts rarely need more than this look, which makes no copy of them.
    """
    either = {letter: f"[{letter}{letter.upper()}]" for letter in "".join(_LAST_LETTERS)}
    each = "|".join("".join(map(either.__getitem__, end)) for end in sorted(_LAST_LETTERS))
    any_of = "".join(
        f"[{''.join(sorted({*column, *''.join(column).upper()}))}]"
        for column in zip(*_LAST_LETTERS, strict=True)
    )
    last = "".join(sorted({end[-1] + end[-1].upper() for end in _LAST_LETTERS}))
    signs = r"""\"'\\ \t"""
    without, one, two = (
        f"(?<={any_of}{between}:)(?<=(?:{each}){between}:)" for between in ("", ".", "..")
    )
    behind_signs = f"(?:{one}|(?<=[{signs}].:)(?:{two}|(?<=[{signs}]..:)))"
    look = f"(?<=[{last}{signs}:]:)(?:(?<=[{signs}:]:){behind_signs}|{without})"
    return re.compile(f":{look}".encode(), re.DOTALL)


_MAX_GAP = 200
"""Bytes in which a name stands before an operator, with the word ``value`` between."""


def _has_address(text: bytes) -> bool:
    """Say whether ``://user:password@`` stands in a text, or an address that goes on behind it."""
    may_go_on = len(text) >= MAX_SEARCHED
    return (may_go_on or _occurs(b"@", _BEHIND_PASSWORD, text)) and _occurs(
        b"://", _address_bytes(), text
    )


_AROUND = 256
"""Characters around an escape that are looked at again with a sign in its place."""


def _unescaped(text: str) -> str:
    """Return the surroundings of the escapes of a text, or all of it, with signs in their place."""
    found = chain.from_iterable(find_all(pattern, text) for pattern in _ESCAPES.values())
    places = sorted(match.start() for match in islice(found, _MAX_TRIED))
    if len(places) == _MAX_TRIED:
        return _plain(text)
    parts: list[str] = []
    end = 0
    for place in places:
        begin = max(place - _AROUND, end)
        if begin > end:
            parts.append(_CUT)
        end = max(place + _AROUND, end)
        parts.append(text[begin:end])
    return _plain("".join((*parts, _CUT)))


_CUT = "\0"
_MAY_BE_ADDRESS = re.compile(
    rf"""(?:://|{_CUT})(?:[^\s@:'"<>{_CUT}]|:(?!//)){{0,1000}}(?:[@{_CUT}]|(?<=[^\s'"<>]{{1000}}))"""
)
"""An address of which the beginning or the end may be missing."""


def may_have_secrets(text: str) -> bool:
    """Say whether `redact_secrets` may change a text; if not, it was not read by most patterns."""
    data = text.encode(errors="replace")
    for window in windows(data, OVERLAP):
        if _has_token(window) or _has_name(window) or _has_address(window):
            return True
    if _occurs(b"<", _CLOSING_IN_BYTES, data) and next(_elements(text), None) is not None:
        return True
    if not _has_escapes(data):
        return False
    plain = _unescaped(text)
    return (
        any(map(_has_name, windows(plain.encode(errors="replace"), OVERLAP)))
        or ("@" in text and next(find_all(_MAY_BE_ADDRESS, plain), None) is not None)
        or any(_may_be_of_secret(closing["name"]) for closing in find_all(_CLOSING, plain))
    )


def _may_be_of_secret(name: str) -> bool:
    return name.lower() in _PROPERTIES or _name_ends(name, _ENDINGS + _LIKELY_ENDINGS)


_CLOSING = re.compile(r"</(?P<name>[A-Za-z0-9_.:-]{1,80})[ \t]{0,12}>")
_CLOSING_IN_BYTES = re.compile(_CLOSING.pattern.encode())
_ENDINGS = tuple(name.replace(" ", "") for name in SURE_NAMES)
_LIKELY_ENDINGS = tuple(name.replace(" ", "") for name in LIKELY_NAMES)
_MAX_CONTENT = 8192
"""Characters of an element that are looked at."""
_CONTENT = re.compile(r"\s*(?:<!\[CDATA\[(?P<data>.+?)\]\]>|(?P<plain>[^<>\s][^<>]*))", re.DOTALL)
_PROPERTIES = frozenset(
    ("property", "param", "entry", "string", "value", "item", "setting", "field", "add", "variable")
)
"""Elements whose own name says nothing: the attribute or the element before them has the name."""
_ATTRIBUTE = re.compile("""[ \t\n](?:name|key|id)=\\\\?["']([A-Za-z0-9_.:-]{1,80})\\\\?["']""")
_KEY = re.compile(r"<key>([^<>]{1,100})</key>\s*\Z")


def _elements(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the secrets stand that are elements of XML."""
    for count, closing in enumerate(find_all(_CLOSING, text)):
        name = closing["name"]
        if count >= _MAX_NAMES or not _may_be_of_secret(name):
            continue
        named = name.lower() in _PROPERTIES
        end = closing.start()
        lowest = max(end - _MAX_CONTENT, 0)
        tag = text.rfind(f"<{name}", lowest, end)
        begin = text.find(">", tag, end) + 1 if tag >= 0 else text.rfind(">", lowest, end) + 1
        if not begin:
            continue
        if named:
            attribute = _ATTRIBUTE.search(text, tag, begin) if tag >= 0 else None
            before = attribute or (_KEY.search(text, max(tag - 120, 0), tag) if tag > 0 else None)
            name = before[1].strip() if before else ""
        content = _CONTENT.match(text, begin, end)
        if content is None:
            continue
        value = content[content.lastgroup or 0].strip()
        if named and " " in value:
            continue  # what an app says, as in Android's lists of texts
        if _name_ends(name, _ENDINGS):
            known = not _NO_VALUE.fullmatch(value)
        else:
            known = _name_ends(name, _LIKELY_ENDINGS) and bool(_LOOKS_RANDOM.match(value))
        if known:
            yield content.span(content.lastgroup or 0)


def _name_ends(name: str, endings: tuple[str, ...]) -> bool:
    """Say whether the name of an element or a property ends like a secret's."""
    return name.translate(_JOINTS).lower().endswith(endings)


_JOINTS = str.maketrans("", "", "_.- ")


@cache
def _named(operator: str) -> re.Pattern[bytes]:
    """Compile an operator and the end of a name, both backwards: so only operators are tried.

    It searches lower case. The name may also be that of a pair, whose ``value`` stands between.
    """
    return re.compile(f"{operator}{_name_backwards()}".encode())


@cache
def _name_backwards() -> str:
    """Return the pattern of what stands before an operator, read from its end."""

    def backwards(names: Iterable[str]) -> str:
        whole = [name[::-1] for name in names if " " not in name]
        ends: dict[str, list[str]] = defaultdict(list)
        for name in names:
            if " " in name:
                begin, end = name.split()
                ends[end[::-1]].append(begin[::-1])
        joined = [f"{end}[_. -]{{0,2}}(?:{'|'.join(begins)})" for end, begins in ends.items()]
        return "|".join(whole + joined)

    first = "".join(sorted({name[-1] for name in (*_NAMES, PAIRED_NAME)}))
    between = r"""["'\\ \t\r\n,]|[nr](?=\\)"""
    pair = rf"(?:{PAIRED_NAME[::-1]}(?:{between}){{1,40}})?"
    kinds: dict[str, Iterable[str]] = {"password": PASSWORD_NAMES, "header": ("authorization",)}
    kinds["sure"] = [name for name in SURE_NAMES if name not in (*PASSWORD_NAMES, "authorization")]
    kinds["cookie"] = ("cookie",)
    kinds["likely"] = [name for name in LIKELY_NAMES if name != "cookie"]
    names = "|".join(f"(?P<{kind}>{backwards(endings)})" for kind, endings in kinds.items())
    names = f"(?:{names})"
    gap = rf""":?["'\\ \t]{{0,24}}(?=[{first}])(?:{_VERB[::-1]})?"""
    return f"{gap}{pair}{names}"


_LINE = re.compile(r"[^\n]*")
_VERB = " is"
"""What may stand behind a name: the password is: …"""
_LAST_LETTERS = {name[-3:] for name in (*_NAMES, PAIRED_NAME, _VERB)}


def _assigned(text: str) -> Iterator[Span]:
    # One byte for each character, so that places agree; no name has a letter beyond ASCII.
    plain = text.encode("ascii", "replace").lower()[::-1]
    last = len(plain) - 1
    for operator in ":=":
        if operator not in text:
            continue
        ends = {"cookie": len(text), "header": len(text)}
        for count, name in enumerate(find_all(_named(operator), plain)):
            at = last - name.start()
            kind = str(name.lastgroup)
            limit = min(ends.get(kind, len(text)), at + MAX_SEARCHED)
            match = _value(kind).match(text, at, limit)
            if kind in ends:
                ends[kind] = at  # these values may be long, so that none is read twice
            if match is None or (match.lastgroup == "word" and not _is_chosen(text, match)):
                pass
            elif kind != "likely" or not _is_harmless(plain, name):
                begin, end = match.span(match.lastgroup or 0)
                if end == at + MAX_SEARCHED:  # the rest of its line may belong to it
                    end = end_of_run(_LINE, text, end)
                yield begin, end, "secret"
            if count == _MAX_NAMES:
                yield 1, at, "secret"
                break
    yield from _in_markup(text)


def _is_harmless(plain: bytes, name: re.Match[bytes]) -> bool:
    """Say whether a name, found in a reversed text, is whole that of a tokenizer or of paging."""
    whole = plain[name.end() - len("token") : name.end() + _MAX_HARMLESS]
    letters = _LETTERS.match(whole.translate(None, b"_-"))
    return letters is not None and letters[0][::-1].decode() in HARMLESS_NAMES


_LETTERS = re.compile(b"[a-z]+")
_MAX_HARMLESS = 24


def _is_chosen(text: str, match: re.Match[str]) -> bool:
    """Say whether a word without a figure, alone behind a password's name, is a password.

    It is where it is assigned without blanks, as in a shell, an address or a connection string,
    where a user's name stands beside it, or where it is one of the most frequent passwords.
    Elsewhere it most likely says something about passwords.
    """
    begin, end = match.span("word")
    if text[begin - 1] in "=:":
        return True
    return text[end : end + 1] in "\r\n" and (
        match["word"].lower() in FREQUENT_PASSWORDS
        or _USER.search(text, max(begin - _NEAR, 0), begin) is not None
        or _USER.search(text, end, end + _NEAR) is not None
    )


_USER = re.compile(r"(?i:user(?:[ _]?name|[ _]?id)?|login|e-?mail)[\"']?[ \t]{0,3}[:=]")
_NEAR = 60


def _in_markup(text: str) -> Iterator[Span]:
    """Yield what an element of a secret's name holds, and the passwords of addresses."""
    if "<" in text and "</" in text:  # one sign is found twenty times as fast as two
        for begin, end in _elements(text):
            yield begin, end, "secret"
    if "@" in text and "://" in text:
        for count, (begin, end) in enumerate(_passwords_of_addresses(text)):
            if count == _MAX_NAMES:
                yield begin, len(text), "secret"
                break
            yield begin, end, "secret"


def _passwords_of_addresses(text: str) -> Iterator[tuple[int, int]]:
    at = text.find("://")
    while at >= 0:
        match = _address().match(text, at, at + MAX_SEARCHED)
        end = at + len("://")
        if match is not None:
            yield match.span(match.lastgroup or 0)
            end = match.end()
        elif (last := end_of_run(_AUTHORITY, text, end)) - at >= MAX_SEARCHED:
            yield end, last  # whatever it is: no address has so long a name of a host
            end = last
        at = text.find("://", end)


_USERINFO = r"""[^\s/?#:'"<>]*:(?P<password>[^\s/?#'"<>]+)@"""
_RAW = (
    r"""[^\s/?#@:'"<>]+:(?![0-9]{0,5}[/?#,])"""
    r"""(?P<raw>(?:[^\s@'"<>:]|:(?!//)){1,128})@(?=[A-Za-z0-9])"""
)
"""A password in which signs that separate parts of an address are not escaped."""
_ONLY = r"(?=[a-z._~-]*[0-9])(?P<only>[A-Za-z0-9._~-]{30,}):?(?:x-oauth-basic)?@"
_BEHIND_PASSWORD = re.compile(rb"""@(?<=[^\s/?#'"<>]@)""")
_ADDRESS = rf"://(?<![^A-Za-z][0-9]://)(?:{_USERINFO}|{_RAW}|{_ONLY})"
"""No part crosses the next ``://``, so no place is read twice."""
_AUTHORITY = re.compile(r"""[^\s/?#'"<>]*""")


@cache
def _address() -> re.Pattern[str]:
    return re.compile(_ADDRESS)


@cache
def _address_bytes() -> re.Pattern[bytes]:
    """Compile the same for a window, which may end before a long password does."""
    return re.compile(rf"{_ADDRESS}|://[^\s/?#'\"<>]{{900}}".encode())


@cache
def _value(kind: str) -> re.Pattern[str]:
    """Compile what may follow a name: for a likely one, only what looks random."""
    sure = kind in ("sure", "password", "header")
    look = "" if kind == "password" else _NO_PLACE if sure else _RANDOM
    ways = [_BARE]
    if sure:
        ways.append("(?P<long>[A-Za-z0-9+/]{32,}={0,2})")  # so long is no word, figure or not
    if kind == "password":
        ways += [_CHOSEN, _FIGURES, _SIGNS, _ALONE]
    bare = f"{_NO_WORD if sure else ''}(?:{'|'.join(ways)})"
    value = f"(?:{_QUOTED.replace('LOOK', look)}|{bare})"
    if kind == "header":
        done = rf"""(?![\\"']{{0,8}}{_SCHEME} {{0,2}}(?:<redacted:|["']))"""
        value = (
            rf"{done}(?:\[?[ \t]{{0,3}}(?:{_SCHEMES})|(?:[A-Z][A-Za-z]{{2,15}} {{1,2}})?{value})"
        )
    elif sure:
        basic = "[bB]asic {1,2}(?P<basic>[A-Za-z0-9+/]{8,}={0,2})"
        value = f"(?:{basic}|(?:[A-Z][A-Za-z]{{2,15}} {{1,2}})?{value})"
    if kind == "cookie":
        return re.compile(rf"{_COOKIES}|[=:]>?[ \t]{{0,24}}{value}")
    return re.compile(rf"[=:]>?[ \t]{{0,24}}{value}")


_RANDOM = r"""(?=[^0-9\s"'<>\\]{0,60}[0-9])(?=[^A-Za-z\s"'<>\\]{0,30}[A-Za-z])"""
"""A letter and a figure come soon: what distinguishes a password from a word or an amount."""
_LOOKS_RANDOM = re.compile(rf"{_RANDOM}\S{{8,}}")
_NO_VALUE = re.compile(rf"(?i:{'|'.join(NO_PASSWORDS)})|\*+|[$%{{].*", re.DOTALL)
"""What stands under a secret's name and is none: a type, a mask, or the name of a variable."""
_NO_WORD = rf"(?!(?i:{'|'.join(NO_PASSWORDS)})(?![\w+/!@#$%^*-]))"
_NO_PLACE = r"""(?![A-Za-z_./ -]{0,60}(?i:key|token|secret|authorization)[\\"'])"""
"""A key without a figure that ends like a name is a placeholder, such as ``test-key``."""
_QUOTED_BUT = (
    rf"(?!(?:[\w-]{{1,40}} {{1,2}})?<redacted:|(?i:your[ _-])|(?i:{'|'.join(NO_PASSWORDS)})[\\\"']"
    rf"|[,)\]}}](?:[\s,)\]}}:.]|$))"
)
"""Nor what is a placeholder, nor the rest of a line behind a quote that closes."""
_QUOTED = (
    rf'(?:"{_QUOTED_BUT}(?P<double>LOOK(?:[^"\\\n]|\\[^\n]){{4,}})'
    rf"|'{_QUOTED_BUT}(?P<single>LOOK(?:[^'\\\n]|\\[^\n]){{4,}})"
    rf"""|\\{{1,7}}["']{_QUOTED_BUT}(?P<escaped>LOOK[^"'\\\n]{{4,}}))"""
)
_MAX_BARE = 1024
"""Characters of a bare value that are read under each name; the rest of it is taken out with it,
once, so that a text of names that hold each other costs no more."""
_LONG = 200
_REST = re.compile(r"""[^\s"'<>\\]*""")
"""What goes on behind a long secret belongs to it, whatever sign is between."""
_PATH = r"(?![a-z_]+[0-9]{0,2}(?:\.[a-z_]+[0-9]{0,2})+(?![\w.+/=~-])|~?/[a-z]+/)"
"""Attributes of objects, as in ``args.password2``, are code, and ``pwd`` is a directory, too."""
_DATE = r"(?![0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T\s]|$))"
_BARE = (
    rf"{_RANDOM}{_PATH}{_DATE}(?=(?P<bare>[A-Za-z0-9_+/=.~!@#$%^*-]{{8,{_MAX_BARE}}}))"
    r"(?P=bare)(?![(\[{])"  # a call or an index is code, which names secrets all the time
)
_PART = r"[A-Za-z0-9!#$%&*+.^_|~\[\]-]{1,64}"
_PAIR = rf"""{_PART}=(?!%[(dsr])(?:\\{{0,7}}"[^"\\\r\n]*\\{{0,7}}"|[^;\s"'\\]+|(?=;))"""
_COOKIES = (
    r"""(?:=|:[ \t]{0,24})\\{0,7}["']?"""
    rf"(?P<cookies>(?:{_PART};[ \t]{{0,3}}){{0,8}}{_PAIR}(?:;[ \t]{{0,3}}(?:{_PAIR}|{_PART})?)*)"
)
"""Pairs, and names alone, up to the end of the line or of the text that is quoted."""
_SCHEME = (
    r"(?i:basic|bearer|digest|oauth|hawk|negotiate|ntlm|dpop|vapid|aws[\w-]{0,20}|hmac[\w-]{0,20}"
    r"|sharedkey(?:lite)?|signature|ssws|dsn|splunk|[A-Za-z_-]{0,24}(?:key|token))"
)
_FIELD = r"""[\w-]{1,40}=(?:\\{0,7}"[^"\\\r\n]{0,2048}\\{0,7}"|[^\s,"'\\]{1,2048})"""
_SCHEMES = (
    rf"""\\{{0,7}}["']?{_SCHEME} {{1,2}}(?:(?P<fields>{_FIELD}(?:, ?{_FIELD}){{0,15}})"""
    r"""|(?P<credentials>(?![${<%(\[]|(?i:your[_-]))[^\s"'\\<>,{}()]{4,})(?=[\s"'\\,]|$)"""
    r"""(?:(?=[ \t]{0,3}(?:["'\\\r\n]|$))|(?<=[0-9=])|(?<=[0-9].)|(?<=[0-9]..)|(?<=[0-9]...)))"""
)
"""Behind a known scheme, fields or whatever is the last of its line or has a figure."""
_CHOSEN = (
    rf"{_RANDOM}{_PATH}{_DATE}(?=(?P<chosen>[\w+/!@#$%^*-]{{4,64}}))(?P=chosen)(?![\w(\[{{]|\.\w)"
)
"""A short value with a letter and a figure."""
_ENDS = r"(?=[\s;&]|[,.]?(?:\s|$)|$)"
_FIGURES = rf"(?:(?<==)(?P<pin>[0-9]{{4,64}})|(?P<figures>[0-9]{{6,64}})){_ENDS}"
_SIGNS = (
    r"(?=\S{5})(?=(?P<signs>\w[\w+/-]{0,64}[!@#$%^*&?][\w+/!@#$%^*&?-]{2,64}))(?P=signs)"
    r"(?![\w(\[{]|\.\w)"
)
_ALONE = r"(?=[^\s;&]{5})(?P<word>[^\W\d_]{2,40}(?:-[^\W\d_]{2,40}){0,5})(?=[\s;&]|$)"
"""A word without a figure."""


# Whether there can be anything to redact in a text: a false alarm costs a closer look, and nothing
# that a detector would find is missed.

Hint = Callable[[str], object]
_DIGITS = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))
_BETWEEN = b" .()/-"


def _digits(length: int) -> Hint:
    """Look for so many digits in a row, separators aside."""
    run = b"0" * length

    def look(text: str) -> bool:
        parts = windows(text.encode(errors="replace"), OVERLAP)
        return any(run in part.translate(_DIGITS, _BETWEEN) for part in parts)

    return look


def _may_have_tokens(text: str) -> bool:
    return any(map(_has_token, windows(text.encode(errors="replace"), OVERLAP)))


_HINTS: dict[str, Hint] = {
    "api_key": may_have_secrets,
    "jwt": _may_have_tokens,
    "email": lambda text: "@" in text,
    "card": _digits(13),
    "iban": _digits(4),
    "phone": _digits(8),
}


def hints(names: Iterable[str]) -> tuple[Hint, ...]:
    """Return what to ask for some detectors, each question once."""
    wanted = set(names)
    if "api_key" in wanted:
        wanted.discard("jwt")  # the first question includes the second
    return tuple(_HINTS[name] for name in _HINTS if name in wanted)
