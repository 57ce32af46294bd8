"""Folded text, in which case, accents, compatibility forms, punctuation and spaces are gone.

`word_spans` and `plain_starts` lead back from a folded text to the text as it was written.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import accumulate

from llmeval_sdk.process.pieces import find_all, paced, pieces
from llmeval_sdk.text.amounts import NUMBER_WORDS


_FIGURES = {word: str(value) for word, value in NUMBER_WORDS.items()}
_LETTERS = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"}
_ACCENTS = (
    (0x0300, 0x036F),  # Latin, Greek and Cyrillic accents
    (0x0591, 0x05C7),  # Hebrew points
    (0x064B, 0x0652),  # Arabic vowels
    (0x0640, 0x0640),  # Arabic stretching
    (0x3099, 0x309A),  # voicing of kana
)
_DENSE = (  # scripts without spaces between words: each character is a word
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3040, 0x30FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
_MARKS = re.compile("[\u0300-\u036f]+")
_INITIALS = re.compile(r"\.(?<=[^\W\d_]\.)(?<![^\W\d_]{2}\.)(?=[^\W\d_](?![^\W\d_]))")
"""The stop between two initials. It looks back from behind the stop, which is fast to find."""

_REMEMBERED = 20_000
_AT_ONCE, _COUNTED = 8_000, 4_000
"""Characters that are folded, and that are counted one by one, between two pauses."""


def is_dense(character: str) -> bool:
    """Return whether a character is of a script that puts no spaces between words."""
    code = ord(character)
    return code >= 0x0E00 and any(first <= code <= last for first, last in _DENSE)


class _Folding(dict[int, str]):
    """The folded form of each character, computed when the character first comes."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if any(first <= code <= last for first, last in _ACCENTS):
            folded = ""
        elif is_dense(character):
            folded = f" {character} "
        elif unicodedata.category(character)[0] in "LMN":
            folded = _LETTERS.get(character, character)
        elif character == "&":
            folded = " and "
        elif character in "'’`":
            folded = ""
        else:
            folded = " "
        if len(self) < _REMEMBERED:
            self[code] = folded
        return folded


_FOLDING = _Folding()
_ASCII_FOLDING = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))
"""The same for the bytes of a text that has no other characters, ten times as fast."""


class _Plain(dict[int, str]):
    """The plain form of each character: in lower case, without accents and compatibility forms.

    Figures of other scripts become those that amounts and dates are read from.
    """

    def __missing__(self, code: int) -> str:
        folded = unicodedata.normalize("NFKD", chr(code))
        plain = unicodedata.normalize("NFC", _MARKS.sub("", folded)).lower()
        plain = _SEPARATORS.get(plain, plain)
        if len(plain) == 1 and plain.isdecimal():
            plain = str(int(plain))
        if len(self) < _REMEMBERED:
            self[code] = plain
        return plain


_SEPARATORS = {"\u066b": ".", "\u066c": ",", "\u2212": "-", "\u2019": "'"}
"""Arabic marks of decimals and thousands, the minus sign, and the apostrophe of Swiss amounts."""
_PLAIN = _Plain()


def plain(text: str) -> str:
    """Return a text in lower case, without accents and compatibility forms, to be parsed."""
    if text.isascii():
        return text.lower()
    return "".join([piece.translate(_PLAIN) for piece in pieces(text, _AT_ONCE)])


def plain_starts(text: str) -> list[int] | None:
    """Return where each character of a text begins in its plain form, and where the last one ends.

    ``None`` says that nothing has moved, which is the usual case.
    """
    if text.isascii():
        return None
    characters = {character for piece in pieces(text, _COUNTED) for character in set(piece)}
    sizes = {character: len(character.translate(_PLAIN)) for character in characters}
    if set(sizes.values()) <= {1}:
        return None
    starts = [0]
    for piece in pieces(text, _COUNTED):
        starts += accumulate((sizes[sign] for sign in piece), initial=starts.pop())
    return starts


def fold(text: str) -> str:
    """Return the folded words of a text, separated by one space.

    NFKC, case, accents, punctuation and spacing are gone; characters of scripts that are written
    without spaces become words of their own.
    """
    if text.isascii():
        folded = text.lower().replace("&", " and ")
        folded = folded.encode().translate(_ASCII_FOLDING, b"'`").decode()
    else:
        folded = "".join(map(_folded, pieces(text, _AT_ONCE)))
    return " ".join(folded.split())


def _folded(piece: str) -> str:
    folded = unicodedata.normalize("NFKD", piece).casefold().translate(_FOLDING)
    return unicodedata.normalize("NFC", folded)


def words(text: str, folded: str | None = None) -> list[str]:
    """Return the folded words of a text, for alignment; ``folded`` is the text where it is known.

    Initials without spaces, such as ``A.B.C.``, are one word. Numbers in words become figures.
    """
    if folded is None or "." in text:
        folded = fold("".join([_INITIALS.sub("", piece) for piece in pieces(text, _AT_ONCE)]))
    return [_FIGURES.get(word, word) for word in paced(folded.split())]


def word_spans(text: str, count: int) -> list[tuple[int, int]]:
    """Return where each of the ``count`` words of `fold` stands in a text.

    Usually words are read off the text. Where that gives another number of them, because a sign has
    become several words, each word has the place of all that stands between two spaces.
    """
    if text.isascii():
        return [match.span() for match in find_all(_ASCII_WORD, text)]
    spans = [match.span() for match in find_all(_WORD, text)]
    if len(spans) != count:
        pieces = ((match.span(), len(fold(match[0]).split())) for match in find_all(_PIECE, text))
        spans = [span for span, parts in pieces for _ in range(parts)]
    return spans


_PIECE = re.compile(r"\S+")
_RANGES = "".join(f"{chr(first)}-{chr(last)}" for first, last in _DENSE)
_ASCII_WORD = re.compile(r"[A-Za-z0-9](?:['`]*[A-Za-z0-9])*|&")
_WORD = re.compile(
    rf"[{_RANGES}]|&|[^\W_{_RANGES}](?:['’`\u0300-\u036f]{{0,40}}[^\W_{_RANGES}])*[\u0300-\u036f]{{0,40}}"
)
