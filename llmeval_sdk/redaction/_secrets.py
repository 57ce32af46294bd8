"""Finds secrets in a text: tokens by how they begin, and whatever stands under a secret's name.

A text is scanned once for each of the two, in linear time: nearly all of it is passed over by
searches for single characters, and what a pattern repeats can be split in one way only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from llmeval_sdk.redaction._forms import (
    LIKELY_NAMES,
    NO_PASSWORDS,
    PAIRED_NAME,
    PASSWORD_NAMES,
    SHORTEST,
    SURE_NAMES,
    TOKEN_CHARACTERS,
    TOKENS,
)


Span = tuple[int, int, str]
"""Where a secret begins and ends, and what the mark calls it."""


def redact_secrets(text: str) -> str:
    """Replace each secret of a text by ``<redacted:…>``; names and schemes before it stay."""
    text = f"\n{text}"  # so that something stands before the first word
    spans = [*_assigned(text)]
    if has_long_word(text.encode(errors="replace")):
        spans = [*_tokens(text), *_private_keys(text), *spans]
    spans.sort(key=lambda span: span[0])  # of two at the same place, the token says more
    pieces: list[str] = []
    done = 1
    for begin, span_end, kind in spans:
        end = span_end
        if end > done and end - begin >= _MOST_BARE:
            end = _REST.match(text, end).end()  # type: ignore[union-attr]  # may be empty
        if begin >= done:
            pieces += (text[done:begin], f"<redacted:{kind}>")
        done = max(done, end)
    return "".join((*pieces, text[done:]))


# -- tokens ----------------------------------------------------------------------------------------

_CLASSES = bytes(120 if byte in TOKEN_CHARACTERS else 32 for byte in range(256))
_RUN = b"x" * SHORTEST
_WORD = b" " + _RUN
_LEAD = 12
"""Bytes before a long word in which its beginning, such as ``Bearer``, may stand."""


def has_long_word(text: bytes) -> bool:
    """Say whether a text has a word as long as a token that begins like one, or a private key.

    Long words are looked for from the end: behind a space, which the search then skips by, they
    are found in two thirds of the time that a search from the beginning takes.
    """
    words = b" " + text.translate(_CLASSES)
    at = words.rfind(_WORD)
    if at < 0:
        return False
    if b"PRIVATE KEY" in text:
        return True
    begins = _beginning()
    end = len(text)
    for _ in range(_MAX_RUNS):
        behind = words.find(b" ", at + 1) - 1
        if begins(text, max(at - _LEAD, 0), end if behind < 0 else behind):
            return True
        end = at
        at = words.rfind(_WORD, 0, at)
        if at < 0:
            return False
    return bool(begins(text, 0, end))


_MAX_RUNS = 50
"""Long words that are looked at one by one; then the rest of the text is at once."""

_WORD_BEGINS = (
    r"[^A-Za-z0-9](?=[A-Za-z0-9])(?:[nrt](?<=\\[nrt])|u[0-9A-Fa-f]{4}"
    r"(?<=\\u....)|[0-9]{1,3}m|m(?<=\[m)|[0-9A-Fa-f]{2}(?<=%..))?"
)
"""Also behind an escaped character, a terminal's colour and a ``%20``. A pattern that begins like
this passes quickly over letters, and the first letter then chooses among the alternatives, of
which there are a hundred."""
_RANDOM_WORD = re.compile("[0-9]|[A-Za-z]{20}")
"""What words joined by hyphens do not have."""


@cache
def _beginning() -> Callable[[bytes, int, int], object]:
    found = _alternatives([(prefix, "") for prefix, _ in (*TOKENS, ("eyJ", ""))])
    return re.compile(f"{_WORD_BEGINS}(?:{found}|[bB]earer )".encode()).search


@cache
def _token() -> re.Pattern[str]:
    """Compile when first needed: it costs a process some milliseconds."""
    bearer = "[bB]earer {1,2}(?P<bearer>[A-Za-z0-9._~+/-]{18,}={0,2})"
    return re.compile(f"{_WORD_BEGINS}(?P<token>{_alternatives(TOKENS)}|{bearer})")


def _alternatives(pairs: Iterable[tuple[str, str]]) -> str:
    groups: dict[str, list[str]] = defaultdict(list)
    for prefix, rest in pairs:
        groups[prefix[0]].append(re.escape(prefix[1:]) + rest)
    return "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in groups.items())


def _tokens(text: str) -> Iterator[Span]:
    """Yield the tokens of a text that begins with a line break."""
    for match in _token().finditer(text):
        begin, end = match.span("bearer" if match["bearer"] else "token")
        if _RANDOM_WORD.search(text, begin, end):
            yield begin, end, "api_key"


_PEM_BEGINS = "-----BEGIN "
_PEM = re.compile(
    _PEM_BEGINS + "[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[^-]*(?:-(?!----)[^-]*)*-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    # A key that was cut off: its headers and its lines.
    r"|(?:[\s\\nr]{0,8}[A-Za-z-]{4,20}: [^\n\\]{1,100}){0,3}"
    r"(?:[\s\\nr]{0,8}[A-Za-z0-9+/=]{16,})*)"
)


_LONG_LINE = re.compile("[A-Za-z0-9+/=]{18}")


def _private_keys(text: str) -> Iterator[Span]:
    at = text.find(_PEM_BEGINS)
    while at >= 0:
        match = _PEM.match(text, at)
        end = at + 1
        if match and _LONG_LINE.search(match[0]):
            end = match.end()
            yield at, end, "private_key"
        at = text.find(_PEM_BEGINS, end)


# -- what stands under a name ----------------------------------------------------------------------

_MOST = 10_000
"""How many names with each operator, and how many addresses, are looked at in one text. It bounds
the time; of a text with more, the rest is taken out whole."""
_NAMES = (*SURE_NAMES, *LIKELY_NAMES)


def has_assignment(text: bytes) -> bool:
    """Say whether something stands behind a secret's name, or ``://user:password@`` does."""
    return (
        (b":" in text and _assigns(text, ":"))
        or (b"=" in text and _assigns(text, "="))
        or (b"@" in text and _address_bytes().search(text) is not None)
        or (b"</" in text and any(_ends_secret(m[1].decode()) for m in _CLOSING.finditer(text)))
    )


_CLOSING = re.compile(rb"</([A-Za-z0-9_.:-]{1,80})>")
_ELEMENT = re.compile(r">(?P<value>[^<>]+)</(?P<name>[A-Za-z0-9_.:-]{1,80})>")
_ENDINGS = tuple(name.replace(" ", "") for name in SURE_NAMES)


def _ends_secret(name: str) -> bool:
    """Say whether the name of an element ends like a secret's."""
    return name.translate(_JOINTS).lower().endswith(_ENDINGS)


_JOINTS = str.maketrans("", "", "_.-")


def _assigns(text: bytes, operator: str) -> bool:
    return bool(_behind_name(operator).search(text) and _named(operator).search(text.lower()[::-1]))


@cache
def _behind_name(operator: str) -> re.Pattern[bytes]:
    """Compile an operator behind the last three letters of a name, or behind what may be between.

    Clean texts rarely need more than this look, which makes no copy of them.
    """
    ends = {name[-3:] for name in (*_NAMES, PAIRED_NAME)}
    letters = ["".join(f"[{letter}{letter.upper()}]" for letter in end) for end in sorted(ends)]
    last = "".join(sorted({end[-1] + end[-1].upper() for end in ends}))
    gap = r"""["'\\ \t:]"""
    return re.compile(
        rf"{operator}(?:(?<=[{last}]{operator})(?<=(?:{'|'.join(letters)}){operator})"
        rf"|(?<={gap}{operator}))".encode()
    )


@cache
def _named(operator: str) -> re.Pattern[bytes]:
    """Compile an operator and the end of a name, both backwards: so only operators are tried.

    It searches lower case. The name may also be that of a pair, whose ``value`` stands between.
    """

    def backwards(names: Iterable[str]) -> str:
        return "|".join(name[::-1].replace(" ", "[_. -]{0,2}") for name in names)

    first = "".join({name[-1] for name in (*_NAMES, PAIRED_NAME)})
    between = r"""["'\\ \t\r\n,]|[nr](?=\\)"""
    pair = rf"(?:{PAIRED_NAME[::-1]}(?:{between}){{1,40}})?"
    kinds = {"password": PASSWORD_NAMES, "sure": SURE_NAMES, "cookie": ("cookie",)}
    kinds["likely"] = LIKELY_NAMES
    names = "|".join(f"(?P<{kind}>{backwards(endings)})" for kind, endings in kinds.items())
    names = f"(?:{names})"
    return re.compile(rf"""{operator}:?["'\\ \t]{{0,12}}(?=[{first}]){pair}{names}""".encode())


def _assigned(text: str) -> Iterator[Span]:
    # One byte for each character, so that places agree; no name has a letter beyond ASCII.
    plain = text.encode("ascii", "replace").lower()[::-1]
    last = len(plain) - 1
    for operator in ":=":
        if operator not in text:
            continue
        for count, name in enumerate(_named(operator).finditer(plain)):
            at = last - name.start()
            if (match := _value(str(name.lastgroup)).match(text, at)) is not None:
                yield *match.span(match.lastgroup or 0), "secret"
            if count == _MOST:
                yield 1, at, "secret"
                break
    yield from _in_markup(text)


def _in_markup(text: str) -> Iterator[Span]:
    """Yield what an element of a secret's name holds, and the passwords of addresses."""
    if "</" in text:
        for element in _ELEMENT.finditer(text):
            if _ends_secret(element["name"]) and not element["value"].isspace():
                yield *element.span("value"), "secret"
    if "@" in text:
        for count, match in enumerate(_address().finditer(text)):
            if count == _MOST:
                yield match.start("password"), len(text), "secret"
                break
            yield *match.span("password"), "secret"


_ADDRESS = r"""://[^\s/?#@:'"<>]*:(?P<password>[^\s/?#@'"<>]+)@"""
"""Neither part crosses the next ``://``, so no place is read twice."""


@cache
def _address() -> re.Pattern[str]:
    return re.compile(_ADDRESS)


@cache
def _address_bytes() -> re.Pattern[bytes]:
    return re.compile(_ADDRESS.encode())


@cache
def _value(kind: str) -> re.Pattern[str]:
    """Compile what may follow a name: for a likely one, only what looks random."""
    sure = kind in ("sure", "password")
    ways = [_QUOTED.replace("LOOK", "" if sure else _RANDOM), _BARE]
    if kind == "cookie":
        ways.insert(0, _COOKIES)
    if sure:
        ways.append("(?P<long>[A-Za-z0-9+/]{32,}={0,2})")  # so long is no word, figure or not
    if kind == "password":
        ways.append(_CHOSEN)
    value = f"(?:{'|'.join(ways)})"
    if sure:
        basic = "[bB]asic {1,2}(?P<basic>[A-Za-z0-9+/]{8,}={0,2})"
        value = f"(?:{basic}|(?:[A-Z][A-Za-z]{{2,15}} {{1,2}})?{value})"
    return re.compile(rf"[=:]>?[ \t]{{0,3}}{value}")


_RANDOM = r"""(?=[^0-9\s"'<>\\]{0,60}[0-9])(?=[^A-Za-z\s"'<>\\]{0,30}[A-Za-z])"""
"""A letter and a figure come soon: what distinguishes a password from a word or an amount."""
_QUOTED = (
    r'(?:"(?!<redacted:)(?P<double>LOOK(?:[^"\\\n]|\\[^\n]){4,})'
    r"|'(?!<redacted:)(?P<single>LOOK(?:[^'\\\n]|\\[^\n]){4,})"
    r"""|\\{1,7}["'](?!<redacted:)(?P<escaped>LOOK[^"'\\\n]{4,}))"""
)
_MOST_BARE = 1024
"""Characters of a bare value that are read under each name; the rest of it is taken out with it,
once, so that a text of names that hold each other costs no more."""
_REST = re.compile("[A-Za-z0-9_+/=.~!@#$%^*-]*")
_BARE = (
    rf"(?=(?P<bare>{_RANDOM}[A-Za-z0-9_+/=.~!@#$%^*-]{{8,{_MOST_BARE}}}))"
    r"(?P=bare)(?![(\[{])"  # a call or an index is code, which names secrets all the time
)
_PAIR = r"""[A-Za-z0-9_.-]{1,64}=[^;:\s"'\\]+"""
_COOKIES = rf"""(?<=:)[ \t]{{0,3}}\\{{0,7}}["']?(?P<cookies>{_PAIR}(?:; ?{_PAIR})*)"""
"""No pair has a colon, and each search begins behind one, so no place is read twice."""
_CHOSEN = (
    rf"(?!(?i:{'|'.join(NO_PASSWORDS)})\b)"
    rf"(?=(?P<chosen>(?:{_RANDOM}[A-Za-z0-9_+/!@#$%^*-]{{4,64}}|[A-Za-z]{{6,64}}(?=[\r\n;&]|$))))"
    r"(?P=chosen)(?![\w(\[{.])"
)
"""A short value with a figure, or a word with which a line or a pair ends."""
