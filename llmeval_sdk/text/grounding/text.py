"""Folds text, so that case, accents, compatibility forms, punctuation and spaces do not matter."""

from __future__ import annotations

import re
import unicodedata

from llmeval_sdk.text.grounding.amounts import NUMBER_WORDS


_FIGURES = {word: str(value) for word, value in NUMBER_WORDS.items()}
_LETTERS = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"}
_ACCENTS = (
    (0x0300, 0x036F),  # Latin, Greek and Cyrillic accents
    (0x0591, 0x05C7),  # Hebrew points
    (0x064B, 0x0652),  # Arabic vowels
    (0x0640, 0x0640),  # Arabic stretching
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
_INITIALS = re.compile(r"(?<=[^\W\d_])(?<![^\W\d_]{2})\.(?=[^\W\d_](?![^\W\d_]))")
"""The stop between two initials."""


_REMEMBERED = 20_000


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


def without_accents(text: str) -> str:
    """Resolve compatibility forms and drop accents."""
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))


def fold(text: str) -> str:
    """Return the folded words of a text, separated by one space.

    NFKC, case, accents, punctuation and spacing are gone; characters of scripts that are written
    without spaces become words of their own.
    """
    if text.isascii():
        folded = text.lower().translate(_FOLDING)
    else:
        folded = unicodedata.normalize("NFKD", text).casefold().translate(_FOLDING)
        folded = unicodedata.normalize("NFC", folded)
    return " ".join(folded.split())


def words(text: str, folded: str | None = None) -> list[str]:
    """Return the folded words of a text, for alignment; ``folded`` is the text where it is known.

    Initials without spaces, such as ``A.B.C.``, are one word. Numbers in words become figures.
    """
    if folded is None or "." in text:
        folded = fold(_INITIALS.sub("", text))
    return [_FIGURES.get(word, word) for word in folded.split()]
