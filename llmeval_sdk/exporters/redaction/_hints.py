"""Whether there can be anything to redact, asked of a whole record at once in a few microseconds.

The record is its ``marshal`` form: one piece of bytes in which texts stand as UTF-8. A false alarm
costs a closer look; nothing that a detector would find is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from llmeval_sdk.exporters.redaction._secrets import has_assignment, has_long_word


Hint = Callable[[bytes], object]
_DIGITS = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))
_BETWEEN = b" .()/-"


def _secrets(record: bytes) -> bool:
    return has_long_word(record) or has_assignment(record)


def _digits(length: int) -> Hint:
    """Look for so many digits in a row, separators aside."""
    run = b"0" * length
    return lambda record: run in record.translate(_DIGITS, _BETWEEN)


_HINTS: dict[str, Hint] = {
    "api_key": _secrets,
    "jwt": has_long_word,
    "email": lambda record: b"@" in record,
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
