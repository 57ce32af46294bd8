"""Whether there can be anything to redact, asked of a whole record at once in about a microsecond.

The record is its ``marshal`` form: one piece of bytes in which texts stand as UTF-8. A false alarm
costs a closer look; nothing that a detector would find is missed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable


Hint = Callable[[bytes], object]
_TOKEN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.~"
_TOKENS = bytes(120 if byte in _TOKEN else 32 for byte in range(256))
_RUN = b"x" * 18
"""No key or token is shorter, and hardly a word is as long."""
_DIGITS = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))
_BETWEEN = b" .()/-"
_key = re.compile(
    b"sk-|[sr]k_(?:live|test)_|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|AKIA|ASIA|AIza|hf_|eyJ"
    b"|earer |KEY-----|-----END"
).search


def _keys(record: bytes) -> bool:
    """Look for the beginning of a key, in and around long words only: most records have few."""
    words = record.translate(_TOKENS)
    at = words.find(_RUN)
    while at >= 0:
        end = words.find(b" ", at)
        if end < 0:
            end = len(record)
        if _key(record, at - 10 if at > 10 else 0, end + 10):
            return True
        at = words.find(_RUN, end)
    return False


def _digits(length: int) -> Hint:
    """Look for so many digits in a row, separators aside."""
    run = b"0" * length
    return lambda record: run in record.translate(_DIGITS, _BETWEEN)


_HINTS: dict[str, Hint] = {
    "api_key": _keys,
    "private_key": _keys,
    "jwt": _keys,
    "email": lambda record: b"@" in record,
    "card": _digits(13),
    "iban": _digits(4),
    "phone": _digits(8),
}


def hints(names: Iterable[str]) -> tuple[Hint, ...]:
    """Return what to ask for some detectors, each question once."""
    return tuple(dict.fromkeys(_HINTS[name] for name in names))
