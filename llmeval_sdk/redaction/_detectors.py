"""What the built-in detectors look for. Each takes linear time on any text.

The patterns begin with a literal or with a check of the character before, and repeat nothing that
could be split in two ways, so that no text makes them try a place twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from llmeval_sdk.errors import ConfigurationError, nearest
from llmeval_sdk.redaction._checksums import is_card, is_iban


@dataclass(frozen=True, slots=True)
class Detector:
    """One kind of text that does not leave."""

    name: str
    patterns: tuple[tuple[str, str], ...]
    """Pairs of a text that must occur (empty: any) and the pattern to look for then."""
    found: Callable[[str], int] | None = None
    """Has the last word on a match: how many characters of it are one, 0 for none."""
    skip: int = 0
    """After how many characters of a match that is none another can begin; 0: only behind it."""

    def redact(self, text: str) -> str:
        """Replace what is found by ``<redacted:name>``."""
        for hint, pattern in self.patterns:
            if hint in text:
                text = self._replace(_compiled(pattern), text)
        return text

    def _replace(self, pattern: re.Pattern[str], text: str) -> str:
        mark = f"<redacted:{self.name}>"
        if self.found is None:
            return pattern.sub(mark, text)
        pieces: list[str] = []
        done = at = 0
        for _ in range(_MAX_CHECKS):
            match = pattern.search(text, at)
            if match is None:
                return "".join((*pieces, text[done:])) if pieces else text
            begin = match.start()
            length = self.found(match[0])
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


def _has_digit(text: str) -> int:
    return len(text) if _DIGIT.search(text) else 0


_DIGIT = re.compile("[0-9]")


def _after(hint: str, rest: str, *, boundary: str = "A-Za-z0-9") -> tuple[str, str]:
    """Look for a literal at the beginning of a word; literal first, which the engine finds fast."""
    return hint, f"{hint}(?<![{boundary}]{hint}){rest}"


_API_KEY = Detector(
    "api_key",
    (
        _after("sk-", "[A-Za-z0-9_-]{20,}"),
        *(_after(f"{side}_{mode}_", "[A-Za-z0-9]{16,}") for side in ("sk", "rk") for mode in ("live", "test")),  # noqa: E501
        *(_after(f"gh{kind}_", "[A-Za-z0-9]{36,}") for kind in "pousr"),
        _after("github_pat_", "[A-Za-z0-9_]{22,}"),
        _after("glpat-", "[A-Za-z0-9_-]{20,}"),
        *(_after(f"xox{kind}-", "[A-Za-z0-9-]{14,}") for kind in "abeoprs"),
        *(_after(kind, "[A-Z0-9]{16}(?![A-Za-z0-9])") for kind in ("AKIA", "ASIA")),
        _after("AIza", "[A-Za-z0-9_-]{35}"),
        _after("hf_", "[A-Za-z0-9]{30,}"),
        ("earer ", "earer (?<=[Bb]earer )[A-Za-z0-9._~+/-]{18,}={0,2}"),
    ),
    _has_digit,
)  # fmt: skip
_PRIVATE_KEY = Detector(
    "private_key",
    (
        (
            "PRIVATE KEY-----",
            (
                "-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
                "(?:(?:[^-]|-(?!----))*-----END [A-Z ]{0,30}PRIVATE KEY-----"
                r"|(?:[\s\\nr]{0,4}[A-Za-z0-9+/=]{16,})*)"
            ),
        ),
    ),
)
_JWT = Detector(
    "jwt",
    (
        _after(
            "eyJ",
            r"[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
            boundary="A-Za-z0-9_-",
        ),
    ),
)
_EMAIL = Detector(
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
_CARD = Detector(
    "card",
    (
        (
            "",
            (
                "(?<![0-9])[3-6][0-9]{3}(?:[0-9]{9,15}|"
                r"([ -])(?:[0-9]{4}\1[0-9]{4}\1[0-9]{1,7}|[0-9]{6}\1[0-9]{5}))(?![0-9])"
            ),
        ),
    ),
    is_card,
    skip=4,
)
_IBAN = Detector(
    "iban",
    (("", "(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]){11,30}"),),
    is_iban,
    skip=4,
)
_PHONE = Detector(
    "phone",
    (
        ("+", r"\+(?<![0-9A-Za-z+]\+)[1-9](?:[ .()/-]{0,2}[0-9]){7,14}(?![0-9])"),
        (
            "",
            (r"(?<![0-9A-Za-z])(?:\([0-9]{3}\) ?|[0-9]{3}[. -])[0-9]{3}[. -][0-9]{4}(?![0-9])"),
        ),
    ),
)

DETECTORS: dict[str, tuple[Detector, ...]] = {
    "api_key": (_PRIVATE_KEY, _API_KEY),
    "jwt": (_JWT,),
    "iban": (_IBAN,),
    "card": (_CARD,),
    "email": (_EMAIL,),
    "phone": (_PHONE,),
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
    return tuple(each for name in DETECTORS if name in wanted for each in DETECTORS[name])
