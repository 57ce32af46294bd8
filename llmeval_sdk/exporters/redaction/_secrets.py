"""Finds secrets in a text: tokens by how they begin, and whatever stands under a secret's name.

A text is scanned once for each of the two, in linear time: nearly all of it is passed over by
searches for single characters, and what a pattern repeats can be split in one way only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from llmeval_sdk.exporters.redaction._forms import (
    FREQUENT_PASSWORDS,
    HARMLESS_NAMES,
    LIKELY_NAMES,
    MARKED,
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
    if any(sign in text for sign in "%&\\\x1b") and _ESCAPED.search(text):
        spans += _assigned(_plain(text))
    if has_long_word(text.encode(errors="replace")):
        spans = [*_tokens(text), *_private_keys(text), *spans]
    spans.sort(key=lambda span: span[0])  # of two at the same place, the token says more
    pieces: list[str] = []
    done = 1
    for begin, span_end, kind in spans:
        end = span_end
        if end > done and end - begin >= _LONG and kind == "secret":
            end = _REST.match(text, end).end()  # type: ignore[union-attr]  # may be empty
        if begin >= done:
            pieces += (text[done:begin], f"<redacted:{kind}>")
        done = max(done, end)
    return "".join((*pieces, text[done:]))


# -- escapes ---------------------------------------------------------------------------------------

_ESCAPED = re.compile(
    r"%(?:25)?[23][0-9A-Fa-f]|&(?:quot|apos|lt|gt|amp|#)|\\(?:u00|x[1-3]|033|e\[|/)|\x1b\["
)
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
_REPLACED = tuple(
    dict.fromkeys(
        (each, sign.rjust(len(each)))
        for escape, sign in _WRITTEN
        for each in (escape, escape[:-2] + escape[-2:].upper())
    )
)


def _plain(text: str) -> str:
    """Write signs for their escapes, each behind as many blanks as leave every place where it was.

    What is found in it is cut out of the text itself.
    """
    for escape, sign in _REPLACED:
        text = text.replace(escape, sign)
    return _COLOUR.sub(lambda match: " " * len(match[0]), text)


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
    if any(marker in text for marker in _MARKERS):
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


_MARKERS = tuple(marker.encode() for marker, _, _ in MARKED)
_MAX_RUNS = 50
"""Long words that are looked at one by one; then the rest of the text is at once."""

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
_WITHOUT_END = re.compile(r"\(\?![^()]*\)$")
"""In a record, what follows a text may be a letter."""
_SHORT_PREFIX = 5
"""Letters of a beginning that other words have as well, so that the first look reads on."""


@cache
def _beginning() -> Callable[[bytes, int, int], object]:
    found = _alternatives(
        (prefix, _WITHOUT_END.sub("", rest) if len(prefix) <= _SHORT_PREFIX else "")
        for prefix, rest in (*TOKENS, ("eyJ", ""))
    )
    return re.compile(f"{_WORD_BEGINS}(?:{found}|{_BEARER})".encode()).search


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
    for match in _token().finditer(text):
        begin, end = match.span("bearer" if match["bearer"] else "token")
        if _RANDOM_WORD.search(text, begin, end):
            yield begin, end, "api_key"
    for marker, pattern, before in MARKED:
        at = text.find(marker)
        while at >= 0:
            found = _compiled(pattern).match(text, max(at - before, 1))
            if found:
                yield *found.span(), "api_key"
            at = text.find(marker, at + 1)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(f"(?<![A-Za-z0-9]){pattern}")


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
    if _is_assigned(text):
        return True
    if not (b"%" in text or b"&" in text or b"\\" in text or b"\x1b" in text):
        return False
    wide = text.decode("latin-1")  # one character for each byte
    return bool(_ESCAPED.search(wide)) and _is_assigned(_plain(wide).encode("latin-1"))


def _is_assigned(text: bytes) -> bool:
    return (
        (b":" in text and _assigns(text, ":"))
        or (b"=" in text and _assigns(text, "="))
        or (b"@" in text and _address_bytes().search(text) is not None)
        or (b"<" in text and b"</" in text and any(True for _ in _elements(text.decode("latin-1"))))
    )


_CLOSING = re.compile(r"</(?P<name>[A-Za-z0-9_.:-]{1,80})[ \t]{0,12}>")
_ENDINGS = tuple(name.replace(" ", "") for name in SURE_NAMES)
_LIKELY_ENDINGS = tuple(name.replace(" ", "") for name in LIKELY_NAMES)
_MOST_CONTENT = 8192
"""Characters of an element that are looked at."""
_CONTENT = re.compile(r"\s*(?:<!\[CDATA\[(?P<data>.+?)\]\]>|(?P<plain>[^<>]+))", re.DOTALL)
_PROPERTIES = frozenset(
    ("property", "param", "entry", "string", "value", "item", "setting", "field", "add", "variable")
)
"""Elements whose own name says nothing: the attribute or the element before them has the name."""
_ATTRIBUTE = re.compile("""[ \t\n](?:name|key|id)=\\\\?["']([A-Za-z0-9_.:-]{1,80})\\\\?["']""")
_KEY = re.compile(r"<key>\s*([^<>]{1,80}?)\s*</key>\s*\Z")


def _elements(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the secrets stand that are elements of XML."""
    for count, closing in enumerate(_CLOSING.finditer(text)):
        name = closing["name"]
        named = name.lower() in _PROPERTIES
        if count >= _MOST or not (named or _name_ends(name, _ENDINGS + _LIKELY_ENDINGS)):
            continue
        end = closing.start()
        lowest = max(end - _MOST_CONTENT, 0)
        tag = text.rfind(f"<{name}", lowest, end)
        begin = text.find(">", tag, end) + 1 if tag >= 0 else text.rfind(">", lowest, end) + 1
        if not begin:
            continue
        if named:
            attribute = _ATTRIBUTE.search(text, tag, begin) if tag >= 0 else None
            before = attribute or (_KEY.search(text, max(tag - 120, 0), tag) if tag > 0 else None)
            name = before[1] if before else ""
        content = _CONTENT.match(text, begin, end)
        if content is None or content[0].isspace():
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


def _assigns(text: bytes, operator: str) -> bool:
    return bool(_behind_name(operator).search(text) and _named(operator).search(text.lower()[::-1]))


@cache
def _behind_name(operator: str) -> re.Pattern[bytes]:
    """Compile an operator behind the last three letters of a name, or behind what may be between.

    Clean texts rarely need more than this look, which makes no copy of them.
    """
    ends = {name[-3:] for name in (*_NAMES, PAIRED_NAME, _TOLD)}
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
    gap = rf"""{operator}:?["'\\ \t]{{0,24}}(?=[{first}])(?:{_TOLD[::-1]})?"""
    return re.compile(rf"{gap}{pair}{names}".encode())


_TOLD = " is"
"""What may stand behind a name: the password is: …"""


def _assigned(text: str) -> Iterator[Span]:
    # One byte for each character, so that places agree; no name has a letter beyond ASCII.
    plain = text.encode("ascii", "replace").lower()[::-1]
    last = len(plain) - 1
    for operator in ":=":
        if operator not in text:
            continue
        ends = {"cookie": len(text), "header": len(text)}
        for count, name in enumerate(_named(operator).finditer(plain)):
            at = last - name.start()
            kind = str(name.lastgroup)
            match = _value(kind).match(text, at, ends.get(kind, len(text)))
            if kind in ends:
                ends[kind] = at  # these values may be long, so that none is read twice
            if match is None or (match.lastgroup == "word" and not _is_chosen(text, match)):
                pass
            elif kind != "likely" or not _is_harmless(plain, name):
                yield *match.span(match.lastgroup or 0), "secret"
            if count == _MOST:
                yield 1, at, "secret"
                break
    yield from _in_markup(text)


def _is_harmless(plain: bytes, name: re.Match[bytes]) -> bool:
    """Say whether a name, found in a reversed text, is whole that of a tokenizer or of paging."""
    whole = plain[name.end() - len("token") : name.end() + _LONGEST_HARMLESS]
    letters = _LETTERS.match(whole.translate(None, b"_-"))
    return letters is not None and letters[0][::-1].decode() in HARMLESS_NAMES


_LETTERS = re.compile(b"[a-z]+")
_LONGEST_HARMLESS = 24


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
    if "</" in text:
        for begin, end in _elements(text):
            yield begin, end, "secret"
    if "@" in text:
        for count, match in enumerate(_address().finditer(text)):
            begin, end = match.span(match.lastgroup or 0)
            if count == _MOST:
                yield begin, len(text), "secret"
                break
            yield begin, end, "secret"


_USERINFO = r"""[^\s/?#:'"<>]*:(?P<password>[^\s/?#'"<>]+)@"""
_RAW = (
    r"""[^\s/?#@:'"<>]+:(?![0-9]{0,5}[/?#,])"""
    r"""(?P<raw>(?:[^\s@'"<>:]|:(?!//)){1,128})@(?=[A-Za-z0-9])"""
)
"""A password in which signs that separate parts of an address are not escaped."""
_ONLY = r"(?=[a-z._~-]*[0-9])(?P<only>[A-Za-z0-9._~-]{30,}):?(?:x-oauth-basic)?@"
_ADDRESS = rf"(?<![^A-Za-z][0-9]://)(?<=://)(?:{_USERINFO}|{_RAW}|{_ONLY})"
"""No part crosses the next ``://``, so no place is read twice."""


@cache
def _address() -> re.Pattern[str]:
    return re.compile(_ADDRESS)


@cache
def _address_bytes() -> re.Pattern[bytes]:
    return re.compile(_ADDRESS.encode())


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
_MOST_BARE = 1024
"""Characters of a bare value that are read under each name; the rest of it is taken out with it,
once, so that a text of names that hold each other costs no more."""
_LONG = 200
_REST = re.compile(r"""[^\s"'<>\\]*""")
"""What goes on behind a long secret belongs to it, whatever sign is between."""
_PATH = r"(?![a-z_]+[0-9]{0,2}(?:\.[a-z_]+[0-9]{0,2})+(?![\w.+/=~-])|~?/[a-z]+/)"
"""Attributes of objects, as in ``args.password2``, are code, and ``pwd`` is a directory, too."""
_DATE = r"(?![0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T\s]|$))"
_BARE = (
    rf"{_RANDOM}{_PATH}{_DATE}(?=(?P<bare>[A-Za-z0-9_+/=.~!@#$%^*-]{{8,{_MOST_BARE}}}))"
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
