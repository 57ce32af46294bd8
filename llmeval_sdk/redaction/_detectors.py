"""What the built-in detectors look for. Each takes linear time on any text.

The patterns begin with a literal or with a check of the character before, and repeat nothing that
could be split in two ways, so that no text makes them try a place twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from llmeval_sdk.errors import ConfigurationError, nearest
from llmeval_sdk.redaction._checksums import is_card, is_iban
from llmeval_sdk.redaction._secrets import redact_secrets


class Detector(Protocol):
    """One kind of text that does not leave."""

    @property
    def name(self) -> str:
        """Return what ``LLMEVAL_REDACT`` calls it."""
        ...

    def redact(self, text: str) -> str:
        """Return the text with a mark, ``<redacted:…>``, in place of each that it has."""
        ...


@dataclass(frozen=True, slots=True)
class _Secrets:
    """API keys, tokens, private keys and passwords; the shapes are in `_forms`."""

    name: str = "api_key"

    def redact(self, text: str) -> str:
        return redact_secrets(text)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Texts of a pattern, some of which prove themselves by a checksum."""

    name: str
    patterns: tuple[tuple[str, str], ...]
    """Pairs of a text that must occur (empty: any) and the pattern to look for then."""
    check: Callable[[str], int] | None = None
    """Has the last word on a match: how many characters of it are one, 0 for none."""
    skip: int = 0
    """After how many characters of a match that is none another can begin; 0: only behind it."""

    def redact(self, text: str) -> str:
        """Replace what matches and stands the check."""
        for hint, pattern in self.patterns:
            if hint in text:
                text = self._replace(_compiled(pattern), text)
        return text

    def _replace(self, pattern: re.Pattern[str], text: str) -> str:
        mark = f"<redacted:{self.name}>"
        if self.check is None:
            return pattern.sub(mark, text)
        pieces: list[str] = []
        done = at = 0
        for _ in range(_MAX_CHECKS):
            match = pattern.search(text, at)
            if match is None:
                return "".join((*pieces, text[done:])) if pieces else text
            begin = match.start()
            length = self.check(match[0])
            if length:
                pieces += (text[done:begin], mark)
                done = at = begin + length
            else:
                at = begin + self.skip if self.skip else match.end()
        return "".join((*pieces, pattern.sub(mark, text[done:])))


_MAX_CHECKS = 5_000
"""More in one text are replaced unchecked: it bounds the time, and prose never has so many."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile when first needed: all at once would cost a process some milliseconds."""
    return re.compile(pattern)


_JWT = _Pattern(
    "jwt",
    (
        (
            "eyJ",
            (
                r"eyJ(?<![A-Za-z0-9_-]eyJ)[A-Za-z0-9_-]{8,}"
                r"\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
            ),
        ),
    ),
)
_EMAIL = _Pattern(
    "email",
    (
        (
            "@",
            (
                r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@"
                r"(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])"
            ),
        ),
    ),
)
_CARD = _Pattern(
    "card",
    (
        (
            "",
            (
                "(?<![0-9])(?:[3-6][0-9]{3}"
                # Mir, and Mastercard's second series.
                "|2(?:20[0-4]|22[1-9]|2[3-9][0-9]|[3-6][0-9]{2}|7[01][0-9]|720))(?:[0-9]{9,15}|"
                r"([ -])(?:[0-9]{4}\1[0-9]{4}\1[0-9]{4}\1[0-9]{3}"
                r"|[0-9]{4}\1[0-9]{4}\1[0-9]{1,7}|[0-9]{6}\1[0-9]{5}))(?![0-9])"
                "|(?<![0-9])220[0-4][0-9]{4}[ -][0-9]{10}(?![0-9])"
            ),
        ),
    ),
    is_card,
    skip=4,
)
_IBAN = _Pattern(
    "iban",
    (("", "(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]){11,30}"),),
    is_iban,
    skip=4,
)
_PHONE = _Pattern(
    "phone",
    (
        ("+", r"\+(?<![0-9A-Za-z+]\+)[1-9](?:[ .()/-]{0,2}[0-9]){7,14}(?![0-9])"),
        (
            "",
            (r"(?<![0-9A-Za-z])(?:\([0-9]{3}\) ?|[0-9]{3}[. -])[0-9]{3}[. -][0-9]{4}(?![0-9])"),
        ),
    ),
)

DETECTORS: dict[str, Detector] = {
    each.name: each for each in (_Secrets(), _JWT, _IBAN, _CARD, _EMAIL, _PHONE)
}
"""By the name that ``LLMEVAL_REDACT`` takes, in the order in which they are applied."""


def detectors(names: Iterable[str]) -> tuple[Detector, ...]:
    """Find detectors by name; ``all`` is each of them, ``off`` none.

    Raises `ConfigurationError` for an unknown name.
    """
    wanted = set(names)
    if wanted == {"off"}:
        return ()
    if "all" in wanted:
        wanted = set(DETECTORS)
    for name in wanted - set(DETECTORS):
        known = nearest(name, (*DETECTORS, "all", "off"))
        raise ConfigurationError(f"redact: unknown detector {name!r}: {known}")
    return tuple(detector for name, detector in DETECTORS.items() if name in wanted)
