"""How one setting is declared, and how its text is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeVar

from llmeval_sdk.errors import nearest


# How one row of a table of settings is declared.


def setting(
    default: object,
    *env: str,
    read: Callable[[str], object] = str,
    doc: str,
    form_of: str | None = None,
    in_experiment: object = None,
) -> Any:
    """Declare a setting as a field of a dataclass.

    Args:
        default: its value where nothing sets it.
        env: the variables that set it; of several that are set, the first one wins.
        read: makes a value of the text, or raises ``ValueError`` with what it expected.
        doc: what it is for: a sentence or two, for the reference.
        form_of: the setting of which this is a form for spans or for scores alone, as the
            OpenTelemetry specification has them. The reference shows it in the row of that setting.
        in_experiment: the value that every offline experiment has, whatever the app's is;
            ``{name}`` in a text stands for the name of the experiment. ``None``: that of the app.
    """
    metadata = {
        "env": env,
        "read": read,
        "doc": doc,
        "form_of": form_of,
        "in_experiment": in_experiment,
    }
    return field(default=default, metadata=metadata)


# A text that nobody may see by accident.


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


MIN_SECRET = 16
_Reader = TypeVar("_Reader", bound=Callable[[str], Any])
_ALLOWED: dict[object, str] = {}


def allows(words: str) -> Callable[[_Reader], _Reader]:
    """Describe the values that a reader takes, for the table of settings."""

    def describe(read: _Reader) -> _Reader:
        _ALLOWED[read] = words
        return read

    return describe


def allowed(read: Callable[[str], object]) -> str:
    """Return in words which values a reader takes; ``text`` if it has no description."""
    return _ALLOWED.get(read, "text")


@allows("`true` or `false`")
def flag(text: str) -> bool:
    """Read true or false."""
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("expected true or false")


@allows("names with commas between")
def names(text: str) -> tuple[str, ...]:
    """Read names with commas between."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


@allows("a number from 0 to 1")
def fraction(text: str) -> float:
    """Read a number from 0 to 1."""
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError("expected a number from 0 to 1")
    return number


@allows("a number from 0 on")
def positive(text: str) -> float:
    """Read a number of at least 0."""
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError("expected a number of at least 0")
    return number


@allows("a whole number from 0 on")
def count(text: str) -> int:
    """Read a whole number of at least 0."""
    number = int(text)
    if number < 0:
        raise ValueError("expected a whole number of at least 0")
    return number


@allows("JSON")
def limits(text: str) -> Mapping[str, int]:
    """Read retrieval limits by method."""
    try:
        limit_of = json.loads(text)
    except json.JSONDecodeError:
        limit_of = None
    if not isinstance(limit_of, dict) or not all(
        type(limit) is int and limit > 0 for limit in limit_of.values()
    ):
        raise ValueError('expected JSON such as {"bm25": 20, "knn": 20}')
    return limit_of


@allows("a secret of at least 16 characters")
def long_secret(text: str) -> Secret:
    """Read a secret and refuse one that is short enough to be guessed."""
    if len(text.strip()) < MIN_SECRET:
        raise ValueError(
            f"expected at least {MIN_SECRET} characters, such as `openssl rand -hex 32`"
        )
    return Secret(text.strip())


class DefaultLimit(float):
    """A limit that holds because nobody has set one."""

    __slots__ = ()


@allows("`model=in,out[,cache read[,cache write]];…` or JSON")
def prices(text: str) -> Mapping[str, tuple[float, ...]]:
    """Read prices by model: JSON, or ``model=in,out;model=in,out``."""
    if text.lstrip().startswith("{"):
        try:
            return price_table(json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"the JSON cannot be read ({error})") from None
    price_of: dict[str, object] = {}
    for part in filter(str.strip, text.split(";")):
        model, _, pair = part.rpartition("=")
        try:
            price_of[model.strip()] = [float(number) for number in pair.split(",")]
        except ValueError:
            raise ValueError(f"expected model=in,out;model=in,out, not {part.strip()!r}") from None
    return price_table(price_of)


def price_table(prices: object) -> Mapping[str, tuple[float, ...]]:
    """Check prices by model: USD per million input and output tokens; raises ``ValueError``."""
    if not isinstance(prices, Mapping):
        kind = type(prices).__name__
        raise ValueError(f'expected {{"model": (input, output)}}, not {kind}')  # noqa: TRY004
    price_of: dict[str, tuple[float, ...]] = {}
    for model, pair in prices.items():
        if not isinstance(model, str) or not model.strip():
            raise ValueError(f"{model!r} is no model's name")
        numbers = tuple(pair) if isinstance(pair, (tuple, list)) else ()
        if len(numbers) not in (2, 3, 4) or not all(map(_is_price, numbers)):
            raise ValueError(
                f"the price of {model!r} must be two to four numbers of at least 0, USD per million"
                " input and output tokens, tokens read from a cache and written to it, not"
                f" {pair!r}"[:300]
            )
        price_of[model] = tuple(map(float, numbers))
    return price_of


def _is_price(number: Any) -> bool:
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    return is_number and bool(0 <= number < 1e9)


SCORES = "scores"
"""The third value of ``capture_content``: nothing that the app has named or written is sent."""


@allows("`true`, `false` or `scores`")
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
    *most, last = [f"`{word}`" for word in words]

    @allows(f"{', '.join(most)} or {last}")
    def read(text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            raise ValueError(f"{nearest(word, words)}")
        return word

    return read


@allows("`key=value,…`")
def pairs(text: str) -> Mapping[str, str]:
    """Read OpenTelemetry's ``key=value,key=value``, where values may be percent-encoded."""
    from urllib.parse import unquote

    value_of = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not part.strip():
            continue
        if not equals or not key.strip():
            raise ValueError("expected key=value,key=value")
        value_of[key.strip()] = unquote(value.strip())
    return value_of


@allows("`key=value,…`")
def secret_pairs(text: str) -> Mapping[str, Secret]:
    """Read ``key=value`` pairs whose values nobody may see."""
    return {key.lower(): Secret(value) for key, value in pairs(text).items()}


_SECRET_READERS = (long_secret, secret_pairs)


def is_secret(read: Callable[[str], object]) -> bool:
    """Return whether what a reader makes may never be shown."""
    return read in _SECRET_READERS or (isinstance(read, type) and issubclass(read, Secret))


def concealed(value: object, read: Callable[[str], object]) -> Any:
    """Return a secret that was set in code in the form that the environment would give it.

    Any other value is returned as it is. Raises ``ValueError`` as the reader does.
    """
    if read is secret_pairs and isinstance(value, Mapping):
        return {key.lower(): concealed(text, Secret) for key, text in value.items()}
    return read(value) if is_secret(read) and isinstance(value, str) else value


@allows("a number from 0 on")
def duration(text: str) -> float:
    """Read seconds; from 500 on, milliseconds, as the OpenTelemetry specification has them."""
    number = positive(text)
    return number / 1000 if number >= 500 else number
