"""How one setting is declared and how its text is read; `config` has the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from llmeval_sdk.errors import nearest


MIN_SECRET = 16


class Secret:
    """Text that never prints: its repr, str and pickle do not hold it."""

    __slots__ = ("_reveal",)

    def __init__(self, text: str) -> None:
        self._reveal: Callable[[], str] = lambda: text

    def reveal(self) -> str:
        """Return the text itself, for the one place that sends it."""
        return self._reveal()

    def __repr__(self) -> str:
        return "Secret('***')"

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return (Secret, ("***",))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reveal() == self.reveal()

    def __hash__(self) -> int:
        return hash(self.reveal())


def flag(text: str) -> bool:
    """Read true or false."""
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("expected true or false")


def names(text: str) -> tuple[str, ...]:
    """Read names with commas between."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def fraction(text: str) -> float:
    """Read a number from 0 to 1."""
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError("expected a number from 0 to 1")
    return number


def positive(text: str) -> float:
    """Read a number of at least 0."""
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError("expected a number of at least 0")
    return number


def count(text: str) -> int:
    """Read a whole number of at least 0."""
    number = int(text)
    if number < 0:
        raise ValueError("expected a whole number of at least 0")
    return number


def limits(text: str) -> Mapping[str, int]:
    """Read retrieval limits by method."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not all(
        type(limit) is int and limit > 0 for limit in found.values()
    ):
        raise ValueError('expected JSON such as {"bm25": 20, "knn": 20}')
    return found


def long_secret(text: str) -> Secret:
    """Read a secret and refuse one that is short enough to be guessed."""
    if len(text.strip()) < MIN_SECRET:
        raise ValueError(
            f"expected at least {MIN_SECRET} characters, such as `openssl rand -hex 32`"
        )
    return Secret(text.strip())


def prices(text: str) -> Mapping[str, tuple[float, float]]:
    """Read prices by model: JSON, or ``model=in,out;model=in,out``."""
    if text.lstrip().startswith("{"):
        try:
            return price_table(json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"the JSON cannot be read ({error})") from None
    found: dict[str, Any] = {}
    for part in filter(str.strip, text.split(";")):
        model, _, pair = part.rpartition("=")
        try:
            found[model.strip()] = [float(number) for number in pair.split(",")]
        except ValueError:
            raise ValueError(f"expected model=in,out;model=in,out, not {part.strip()!r}") from None
    return price_table(found)


def price_table(given: Any) -> Mapping[str, tuple[float, float]]:
    """Check prices by model: USD per million input and output tokens; raises ``ValueError``."""
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise ValueError(f'expected {{"model": (input, output)}}, not {kind}')  # noqa: TRY004
    found: dict[str, tuple[float, float]] = {}
    for model, pair in given.items():
        if not isinstance(model, str) or not model.strip():
            raise ValueError(f"{model!r} is no model's name")
        numbers = tuple(pair) if isinstance(pair, (tuple, list)) else ()
        if len(numbers) != 2 or not all(map(_is_price, numbers)):
            raise ValueError(
                f"the price of {model!r} must be two numbers of at least 0, USD per million input "
                f"and output tokens, not {pair!r}"[:300]
            )
        found[model] = (float(numbers[0]), float(numbers[1]))
    return found


def _is_price(number: Any) -> bool:
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    return is_number and bool(0 <= number < 1e9)


SCORES = "scores"
"""The third value of ``capture_content``: nothing leaves that the app has named or written."""


def content(text: str) -> bool | str:
    """Read our own switch, or OpenTelemetry's words for where message content may go."""
    word = text.strip().upper()
    if word == SCORES.upper():
        return SCORES
    if word in ("NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT"):
        return word != "NO_CONTENT"
    return flag(text)


def one_of(*words: str) -> Callable[[str], str]:
    """Read one of some words, case aside."""

    def read(text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            raise ValueError(f"{nearest(word, words)}")
        return word

    return read


def setting(
    default: Any, *env: str, read: Callable[[str], Any] = str, doc: str, inverted: bool = False
) -> Any:
    """Declare one row of the table."""
    return field(
        default=default, metadata={"env": env, "read": read, "doc": doc, "inverted": inverted}
    )


def pairs(text: str) -> Mapping[str, str]:
    """Read OpenTelemetry's ``key=value,key=value``, where values may be percent-encoded."""
    from urllib.parse import unquote

    found = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not part.strip():
            continue
        if not equals or not key.strip():
            raise ValueError("expected key=value,key=value")
        found[key.strip()] = unquote(value.strip())
    return found


def secret_pairs(text: str) -> Mapping[str, Secret]:
    """Read ``key=value`` pairs whose values nobody may see."""
    return {key.lower(): Secret(value) for key, value in pairs(text).items()}


def duration(text: str) -> float:
    """Read seconds; from 500 on, milliseconds, as the OpenTelemetry specification has them."""
    number = positive(text)
    return number / 1000 if number >= 500 else number
