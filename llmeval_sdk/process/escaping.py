"""Makes texts of strangers harmless before a terminal or a log shows them."""

from __future__ import annotations

import re


_STEERING = re.compile(
    "[\0-\x08\v-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
"""Control characters but for the end of a line and the tab, and those that change the direction of
the text after them."""


def escaped(text: str) -> str:
    r"""Return a text of many lines in which what steers a terminal is written as ``\u001b``.

    JSON reads such an escape as the character that it stands for, so JSON text stays the same JSON.
    """
    return _STEERING.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def one_line(text: str) -> str:
    """Return a text as one line in which all that is not printable is written as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _in_a_line(c) for c in text)


def _in_a_line(character: str) -> str:
    return " " if character in "\n\t\r" else character.encode("unicode_escape").decode()
