"""Takes secrets and personal data out of what was captured, before it goes anywhere.

Built-in detectors come first, then the app's own function, which may misbehave. Each detector takes
linear time on any text: the patterns begin with a literal or with a check of the character before,
and repeat nothing that could be split in two ways, so that no text makes them try a place twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from llmeval_sdk.errors import ConfigurationError, nearest
from llmeval_sdk.exporters._secrets import (
    LONGEST,
    hides,
    hints,
    holds_secret,
    redact_secrets,
)
from llmeval_sdk.process.loading import loading
from llmeval_sdk.process.pieces import (
    MAX_SEARCHED,
    OVERLAP,
    end_of_run,
    find_all,
    paced,
    replace_all,
)


if TYPE_CHECKING:
    from llmeval_sdk.process.threads import HelperThreads


# Numbers that prove themselves: the Luhn sum of payment cards, ISO 7064 mod 97 of IBANs.

_SEPARATORS = str.maketrans("", "", " -")
_DOUBLED = bytes.maketrans(b"0123456789", bytes(48 + sum(divmod(2 * d, 10)) for d in range(10)))
_LETTERS = {letter: str(ord(letter) - 55) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22,
    "BI": 27, "BR": 29, "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27,
    "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27,
    "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22,
    "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32,
    "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19,
    "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24,
    "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31,
    "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23,
    "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}  # fmt: skip
"""Characters of an IBAN by country."""


def _is_card(text: str) -> int:
    """Return the length of the text if it is 13 to 19 digits with a Luhn sum of 0, else 0."""
    digits = text.translate(_SEPARATORS).encode()
    if not 13 <= len(digits) <= 19:
        return 0
    total = sum(digits[::-2]) + sum(digits[-2::-2].translate(_DOUBLED)) - 48 * len(digits)
    return 0 if total % 10 else len(text)


def _is_iban(text: str) -> int:
    """Return how many characters of the text are an IBAN of its country, else 0."""
    length = _IBAN_LENGTHS.get(text[:2], 0)
    plain = text.translate(_SEPARATORS)[:length]
    if not length or len(plain) < length:
        return 0
    number = "".join([_LETTERS.get(letter, letter) for letter in plain[4:] + plain[:4]])
    return _end_of(text, length) if int(number) % 97 == 1 else 0


def _end_of(text: str, characters: int) -> int:
    """Return where so many characters that are no separators end."""
    for index, letter in enumerate(text):
        characters -= letter not in " -"
        if not characters:
            return index + 1
    return len(text)


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
            return replace_all(pattern, lambda _: mark, text)
        pieces: list[str] = []
        done = at = 0
        for _ in range(_MAX_CHECKS):
            match = next(find_all(pattern, text, at), None)
            if match is None:
                return "".join((*pieces, text[done:])) if pieces else text
            begin = match.start()
            length = self.check(match[0])
            if length:
                pieces += (text[done:begin], mark)
                done = at = begin + length
            else:
                at = begin + self.skip if self.skip else match.end()
        return "".join((*pieces, replace_all(pattern, lambda _: mark, text[done:])))


_MAX_CHECKS = 5_000
"""More in one text are replaced unchecked: it bounds the time, and prose never has so many."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile when first needed: all at once would cost a process some milliseconds."""
    return re.compile(pattern)


@dataclass(frozen=True, slots=True)
class _WebTokens:
    """JSON web tokens: three parts in base64, of which the first two begin like a brace."""

    name: str = "jwt"

    def redact(self, text: str) -> str:
        mark = f"<redacted:{self.name}>"
        if len(text) > MAX_SEARCHED:
            text = self._without_long(text, mark)
        return replace_all(_TOKEN, lambda _: mark, text, overlap=LONGEST)

    def _without_long(self, text: str, mark: str) -> str:
        """Take out whole what begins like a token and is longer than one is read."""
        pieces: list[str] = []
        done = 0
        for match in find_all(_TOKEN_BEGINS, text, overlap=LONGEST):
            if match.end() - match.start() > LONGEST - OVERLAP and match.start() >= done:
                pieces += (text[done : match.start()], mark)
                done = end_of_run(_GOES_ON, text, match.end())
        return "".join((*pieces, text[done:]))


_TOKEN = re.compile(r"eyJ(?<![A-Za-z0-9_-]eyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*")
_TOKEN_BEGINS = re.compile(r"eyJ(?<![A-Za-z0-9_-]eyJ)[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,2}")
_GOES_ON = re.compile("[A-Za-z0-9_.-]*")


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
    _is_card,
    skip=4,
)
_IBAN = _Pattern(
    "iban",
    (("", "(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]){11,30}"),),
    _is_iban,
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
    each.name: each for each in (_Secrets(), _WebTokens(), _IBAN, _CARD, _EMAIL, _PHONE)
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


def without_secrets(text: str) -> str:
    """Return a text without what any detector finds, for messages about what a person set."""
    for detector in DETECTORS.values():
        text = detector.redact(text)
    return text


class _Clean:
    """The texts in which the detectors found nothing lately, by hash and length.

    It holds no text, at most twice `MOST` numbers, about 3 MB. The hash of a text is salted anew
    in each process and has 64 bits; a cryptographic one takes five times as long.
    """

    MOST = 1 << 14

    def __init__(self) -> None:
        self._lately: set[int] = set()
        self._before: set[int] = set()

    def __contains__(self, text: str) -> bool:
        key = (hash(text) << 32) + len(text)
        if key in self._lately:
            return True
        if key not in self._before:
            return False
        self._keep(key)
        return True

    def add(self, text: str) -> None:
        self._keep((hash(text) << 32) + len(text))

    def _keep(self, key: int) -> None:
        if len(self._lately) >= self.MOST:
            self._before, self._lately = self._lately, set()
        self._lately.add(key)


_SHORT = 256
"""Characters of a text that is looked at together with others, since a look has its price."""
FAILED = "<redaction failed>"
_SECRET = "<redacted:secret>"  # noqa: S105 - what stands in its place
Text = Callable[[str], str]


class Redactor:
    """What no text leaves without.

    Args:
        names: built-in detectors, see `DETECTORS`.
        custom: the app's own ``redact(text) -> text``, called with every text that was captured.
        timeout: seconds it may take for one record. A record that it does not answer for in time is
            replaced by `FAILED` as a whole, and so is every record while it is not called, because
            too many of its calls hang (`process.threads`). A text on which it raises
            or that it answers with anything but text becomes `FAILED` too.
    """

    def __init__(
        self, names: Iterable[str] = (), custom: Text | None = None, *, timeout: float = 2.0
    ) -> None:
        self._detectors = detectors(names)
        kinds = [detector.name for detector in self._detectors]
        self._hints = hints(kinds)
        self._clean = _Clean()
        self._reads_names = "api_key" in kinds
        self._custom = custom
        self._timeout = timeout
        self._helper_threads: HelperThreads | None = None

    @property
    def is_needed(self) -> bool:
        """Say whether there is anything to do at all."""
        return bool(self._detectors) or self._custom is not None

    @property
    def has_custom(self) -> bool:
        """Say whether the app's own function has a word."""
        return self._custom is not None

    def may_concern(self, value: object) -> bool:
        """Say whether the built-in detectors can find anything in a plain value.

        A text that was found clean lately is not looked at again.
        """
        texts: dict[str, None] = {}
        if self._has_named(value, texts):
            return True
        short: list[str] = []
        for text in paced(texts):
            if len(text) < _SHORT:
                short.append(text)
            elif text not in self._clean:
                if self._may_have(text):
                    return True
                self._clean.add(text)
        return bool(short) and self._may_have("\n".join(short))  # each begins a line

    def _may_have(self, text: str) -> bool:
        return any(hint(text) for hint in self._hints)

    def _has_named(self, value: Any, texts: dict[str, None]) -> bool:
        """Gather the texts of a plain value, each once, up to one that is a secret by its name."""
        cls = type(value)
        if cls is dict:
            if self._reads_names and holds_secret(value):
                return True
            texts.update(dict.fromkeys([key for key in value if type(key) is str]))
            value = value.values()
        for item in value if cls is dict or cls is list or cls is tuple else (value,):
            kind = type(item)
            if kind is str:
                texts[item] = None
            elif (kind is dict or kind is list or kind is tuple) and self._has_named(item, texts):
                return True
        return False

    def detect(self, value: object) -> Any:
        """Redact all texts of a plain value, keys of mappings too, by the built-in detectors."""
        return self._walk(value, self._detect)

    def call_custom(self, value: object) -> tuple[Any, bool]:
        """Redact all texts of a plain value by the app's function; keys of mappings stay.

        Returns the value, and False where anything failed.
        """
        if self._custom is None:
            return value, True
        texts: dict[str, str] = {}
        _collect(value, texts)
        if not texts:
            return value, True
        with loading:  # threads beside ours bring an event loop, which few need
            from llmeval_sdk.process.threads import HelperThreads, NoAnswerError, NotCalledError

        if self._helper_threads is None:
            self._helper_threads = HelperThreads("redact")
        try:
            changed = self._helper_threads.call(
                _answers, self._custom, texts, patience=lambda: self._timeout
            )
        except (NotCalledError, NoAnswerError):
            changed = texts
        return _replace(value, changed), FAILED not in changed.values()

    def _detect(self, text: str) -> str:
        if len(text) <= 5 or (len(text) >= _SHORT and text in self._clean):
            return text
        redacted = text
        for detector in self._detectors:
            redacted = detector.redact(redacted)
        if redacted == text and len(text) >= _SHORT:
            self._clean.add(text)
        return redacted

    def _walk(self, value: Any, text: Text) -> Any:
        cls = type(value)
        if cls is str:
            return text(value)
        if cls is dict:
            return {
                text(key) if type(key) is str else key: _hidden(item)
                if self._reads_names and hides(value, key)
                else self._walk(item, text)
                for key, item in value.items()
            }
        if cls is list or cls is tuple:
            return cls(self._walk(item, text) for item in value)
        return value


def _answers(custom: Text, texts: Mapping[str, str]) -> dict[str, str]:
    """Return what the app's function makes of each text; the marker stays where it fails."""
    answers = dict(texts)
    for text in texts:
        try:
            answer = custom(text)
        except BaseException:  # even a SystemExit: nothing may leave unredacted  # noqa: S112
            continue
        if type(answer) is str:
            answers[text] = answer
    return answers


def _hidden(value: Any) -> Any:
    """Replace what stands under the name of a secret; numbers of tokens and flags are none."""
    cls = type(value)
    if cls is str:
        return _SECRET if value else value
    if cls is dict:
        return {key: _hidden(item) for key, item in value.items()}
    if cls is list or cls is tuple:
        return cls(_hidden(item) for item in value)
    return value


def _collect(value: Any, into: dict[str, str]) -> None:
    """Gather the texts of a value, each once, marked as failed until somebody redacts them."""
    cls = type(value)
    if cls is str:
        if value:
            into[value] = FAILED
    elif cls is dict:
        for item in value.values():
            _collect(item, into)
    elif cls is list or cls is tuple:
        for item in value:
            _collect(item, into)


def _replace(value: Any, changed: Mapping[str, str]) -> Any:
    cls = type(value)
    if cls is str:
        return changed.get(value, value)
    if cls is dict:
        return {key: _replace(item, changed) for key, item in value.items()}
    if cls is list or cls is tuple:
        return cls(_replace(item, changed) for item in value)
    return value
