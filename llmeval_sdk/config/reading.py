"""How one setting is declared, and how its value is read, from a variable or from code."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar


# How one row of a table of settings is declared.

DEFAULT = object()
"""The careful value of a setting that closes nothing: its default."""
JUDGES, IDS = "judges", "ids"
"""What a setting closes when it cannot be read: judges, the ids of users and sessions, or an
exporter by its name, such as ``otlp``."""


class Row:
    """One setting of a table; `setting` makes it, and says what its parts are."""

    __slots__ = (
        "careful", "closes", "default", "doc", "form_of", "in_experiment", "name", "read",
        "variables",
    )  # fmt: skip
    name: str
    default: Any
    variables: tuple[str, ...]
    read: Callable[[Any], Any]
    doc: str
    careful: Any
    closes: str | None
    form_of: str | None
    in_experiment: Any

    def __init__(self, **parts: Any) -> None:
        for name, part in parts.items():
            setattr(self, name, part)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def is_guarded(self) -> bool:
        """Whether a mistake in it could open what it should close: privacy, money, traffic."""
        return self.careful is not DEFAULT or self.closes is not None

    @property
    def is_secret(self) -> bool:
        """Whether what it holds may never be shown."""
        return is_secret(self.read)


def setting(
    default: object,
    *env: str,
    read: Callable[[Any], object] | None = None,
    doc: str,
    careful: object = DEFAULT,
    closes: str | None = None,
    form_of: str | None = None,
    in_experiment: object = None,
) -> Any:
    """Declare a setting as an attribute of a `Table`.

    Args:
        default: its value where nothing sets it.
        env: the variables that set it; of several that are set, the first one decides.
        read: makes a value of a text, or of what code gave to ``configure()``, or raises
            ``ValueError``. Default: any `text`.
        doc: what it is for: a sentence or two, for the reference.
        careful: the value that it takes when a variable is set and cannot be read: that by which
            least is recorded, sent or spent. A function makes it of the text and of the value that
            the setting has otherwise. Default: ``default``.
        closes: what is switched off as long as it cannot be read: `JUDGES`, `IDS`, or an exporter.
        form_of: the setting of which this is a form for spans or for scores alone, as the
            OpenTelemetry specification has them. The reference shows it in the row of that setting.
        in_experiment: the value that every offline experiment has, whatever the app's is;
            ``{name}`` in a text stands for the name of the experiment. ``None``: that of the app.
    """
    return Row(
        default=default,
        variables=env,
        read=read or text,
        doc=doc,
        careful=careful,
        closes=closes,
        form_of=form_of,
        in_experiment=in_experiment,
    )


_AnyTable = TypeVar("_AnyTable", bound="Table")


class Table:
    """Settings of one area: each attribute that `setting` declares, with its value. Immutable."""

    rows: ClassVar[Mapping[str, Row]] = {}
    """The rows by their names, those of base classes first."""

    def __init_subclass__(cls) -> None:
        cls.rows = {
            name: row
            for base in reversed(cls.__mro__)
            for name, row in vars(base).items()
            if type(row) is Row
        }

    def __init__(self, **values: Any) -> None:
        if unknown := values.keys() - self.rows.keys():
            raise TypeError(f"{type(self).__name__} has no setting {', '.join(sorted(unknown))}")
        held = {name: row.default for name, row in self.rows.items()}
        self.__dict__.update(held | values)

    def changed(self: _AnyTable, **values: Any) -> _AnyTable:  # noqa: PYI019 - 3.10
        """Return a copy with other values."""
        return type(self)(**self.__dict__ | values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings are immutable: {name}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        held = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({held})"


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


# The kinds of settings. A reader takes a text as a variable has it, or another value that fits its
# protocol. It raises `ValueError`, whose message, if it has one, says what was expected, and never
# repeats what it was given: that may be a key in the wrong place.

MIN_SECRET = 16
_Reader = TypeVar("_Reader", bound=Callable[[Any], Any])


class _Kind(NamedTuple):
    """What a reader takes."""

    words: str = "text"
    choices: tuple[str, ...] = ()
    is_secret: bool = False


_KINDS: dict[object, _Kind] = {}


def allows(words: str, *choices: str, is_secret: bool = False) -> Callable[[_Reader], _Reader]:
    """Describe the values that a reader takes, for the table of settings and for messages.

    Args:
        words: all of them, in words.
        choices: the single words among them, of which a message names the nearest.
        is_secret: whether nobody may see them.
    """

    def describe(read: _Reader) -> _Reader:
        _KINDS[read] = _Kind(words, choices, is_secret)
        return read

    return describe


def allowed(read: Callable[[Any], object]) -> str:
    """Return in words which values a reader takes; ``text`` if it has no description."""
    return _KINDS.get(read, _Kind()).words


def is_secret(read: Callable[[Any], object]) -> bool:
    """Return whether what a reader makes may never be shown."""
    return _KINDS.get(read, _Kind()).is_secret


def expected(read: Callable[[Any], object], value: object, problem: Exception) -> str:
    """Say what a reader takes in the place of a value that it refused, and the nearest choice."""
    from llmeval_sdk.errors import did_you_mean

    kind = _KINDS.get(read, _Kind())
    of_reader = str(problem) if type(problem) is ValueError else ""
    line = of_reader or f"expected {kind.words.replace('`', '')}"
    parts = value.split(",") if isinstance(value, str) else value
    words = [part.strip().lower() for part in _texts(parts)] if kind.choices else []
    wrong = next((word for word in words if word not in kind.choices), "")
    near = did_you_mean(wrong, kind.choices)
    return f"{line}; {near}" if near else line


def _texts(value: object) -> list[str]:
    """Return the texts of a collection, such as a list of names with a mistake in it."""
    held = value if isinstance(value, (list, tuple, set, frozenset)) else ()
    return [item for item in held if isinstance(item, str)]


@allows("text")
def text(value: object) -> str:
    """Read any text that can be written as UTF-8, without the blanks around it."""
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004 - readers raise no other error
    plain = str.strip(value)
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise ValueError("expected text that can be written as UTF-8") from None
    if "\0" in plain:
        raise ValueError("expected text without null characters")
    return plain


@allows("a path")
def path(value: object) -> str:
    """Read a path, as text or as an `os.PathLike`."""
    plain = os.fsdecode(value) if isinstance(value, os.PathLike) else value
    if not isinstance(plain, str) or "\0" in plain:
        raise ValueError
    os.fsencode(plain)
    return str.strip(plain)


@allows("a file that can be read")
def file(value: object) -> str:
    """Read the path of a file that is there."""
    plain = path(value)
    if plain and not os.access(plain, os.R_OK):
        raise ValueError
    return plain


@allows("`http://…`, `https://…` or `host:port`")
def server(value: object) -> str:
    """Read the address of a server, of which the scheme may be missing."""
    plain = text(value)
    address(plain if "://" in plain else plain and f"http://{plain}")
    return plain


@allows("`http://…` or `https://…`")
def address(value: object) -> str:
    """Read the address of a server."""
    plain = text(value)
    if plain and not _is_address(plain):
        raise ValueError("expected an address such as https://host:port/path")
    return plain


def _is_address(plain: str) -> bool:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(plain)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_printable = plain.isprintable() and " " not in plain
    return parts.scheme in ("http", "https") and bool(parts.hostname) and has_port and is_printable


_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@allows("`true` or `false`", *_TRUE[:-1], *_FALSE[:-1])
def flag(value: object) -> bool:
    """Read true or false."""
    if isinstance(value, str):
        word = str.strip(value).lower()
        if word in _TRUE + _FALSE:
            return word in _TRUE
    elif (isinstance(value, int) and value in (0, 1)) or _is_bool_of_numpy(value):
        return bool(value)
    raise ValueError


def _is_bool_of_numpy(value: object) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")


@allows("names with commas between")
def names(value: object) -> tuple[str, ...]:
    """Read names with commas between, or any sequence of texts."""
    if isinstance(value, str):
        parts: Iterable[object] = str.split(value, ",")
    elif isinstance(value, Collection) and not isinstance(value, (bytes, bytearray, Mapping)):
        parts = value
    else:
        raise ValueError  # noqa: TRY004
    return tuple(filter(None, map(text, parts)))


def some_of(*words: str) -> Callable[[object], tuple[str, ...]]:
    """Read some of some words, case aside."""

    @allows(f"{', '.join(f'`{word}`' for word in words)}, with commas between", *words)
    def read(value: object) -> tuple[str, ...]:
        wanted = tuple(name.lower() for name in names(value))
        if not set(wanted).issubset(words) or (isinstance(value, str) and not wanted):
            raise ValueError
        return wanted

    return read


def _real(value: Any) -> Any:
    """Return an object that is a number by its protocol; raises ``ValueError`` for others."""
    from decimal import Decimal
    from numbers import Real
    from operator import index

    if hasattr(type(value), "__index__"):
        return index(value)
    if not isinstance(value, (Real, Decimal)):
        raise ValueError  # noqa: TRY004
    return value


def _number(value: object) -> float:
    """Return a finite number that a text or an object stands for; raises ``ValueError``."""
    if isinstance(value, bool) or _is_bool_of_numpy(value):
        raise ValueError
    if not isinstance(value, (int, float)):
        try:
            value = float(value if isinstance(value, str) else _real(value))
        except (ValueError, OverflowError):
            raise ValueError from None
    if not -1e300 < value < 1e300:  # which NaN is not either
        raise ValueError
    return float(value)


@allows("a number from 0 to 1")
def fraction(value: object) -> float:
    """Read a number from 0 to 1."""
    number = _number(value)
    if not 0 <= number <= 1:
        raise ValueError
    return number


@allows("a number from 0 on")
def positive(value: object) -> float:
    """Read a number of at least 0."""
    number = _number(value)
    if number < 0:
        raise ValueError
    return number


@allows("a whole number from 0 on")
def count(value: object) -> int:
    """Read a whole number of at least 0."""
    number = _number(value)
    if not (0 <= number < 1 << 63 and number.is_integer()):
        raise ValueError
    return int(number)


@allows("JSON")
def limits(value: object) -> Mapping[str, int]:
    """Read retrieval limits by method: JSON or a mapping."""
    limit_of = _json(value) if isinstance(value, str) else value
    try:
        if not isinstance(limit_of, Mapping):
            raise ValueError  # noqa: TRY004, TRY301
        read = {text(method): count(limit) for method, limit in limit_of.items()}
        if not all(read.values()):
            raise ValueError  # noqa: TRY301
    except ValueError:
        raise ValueError('expected JSON such as {"bm25": 20, "knn": 20}') from None
    return read


def _json(value: str) -> object:
    """Return what JSON stands for; raises ``ValueError``."""
    import json

    try:
        read: object = json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError from None
    return read


@allows("a JSON list")
def json_list(value: object) -> str:
    """Read a JSON list; what its entries mean is for those who know the rules."""
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004
    if str.strip(value) and not isinstance(_json(value), list):
        raise ValueError
    return str.strip(value)


@allows("a secret", is_secret=True)
def secret(value: object) -> Secret:
    """Read any text as a secret."""
    return Secret(text(value.reveal() if isinstance(value, Secret) else value))


@allows("a secret of at least 16 characters", is_secret=True)
def long_secret(value: object) -> Secret:
    """Read a secret and refuse one that is short enough to be guessed."""
    read = secret(value)
    if 0 < len(read.reveal()) < MIN_SECRET:
        raise ValueError(
            f"expected at least {MIN_SECRET} characters, such as `openssl rand -hex 32`"
        )
    return read


class DefaultLimit(float):
    """A limit that holds because nobody has set one."""

    __slots__ = ()


@allows("`model=in,out[,cache read[,cache write]];…` or JSON")
def prices(value: object) -> Mapping[str, tuple[float, ...]]:
    """Read prices by model: a mapping, JSON, or ``model=in,out;model=in,out``."""
    if not isinstance(value, str):
        return price_table(value)
    if value.lstrip().startswith("{"):
        return price_table(_json(value))
    price_of: dict[str, object] = {}
    for part in filter(str.strip, value.split(";")):
        model, _, pair = part.rpartition("=")
        try:
            price_of[model.strip()] = list(map(float, pair.split(",")))
        except ValueError:
            raise ValueError(_PRICE) from None
    return price_table(price_of)


_PRICE = (
    "expected model=in,out;model=in,out: two to four numbers of at least 0, USD per million input"
    " and output tokens, tokens read from a cache and written to it"
)


def price_table(prices: object) -> Mapping[str, tuple[float, ...]]:
    """Check prices by model: USD per million input and output tokens; raises ``ValueError``."""
    if not isinstance(prices, Mapping):
        raise ValueError(f'{_PRICE}, or {{"model": (input, output)}}')  # noqa: TRY004
    price_of: dict[str, tuple[float, ...]] = {}
    for place, (model, pair) in enumerate(prices.items(), 1):
        try:
            name = text(model)
            is_texts = any(isinstance(number, str) for number in pair)
            numbers = () if is_texts else tuple(map(positive, pair))
        except (ValueError, TypeError):
            name, numbers = "", ()
        if not name or len(numbers) not in (2, 3, 4) or max(numbers) >= 1e9:
            raise ValueError(f"price {place}: {_PRICE}")
        price_of[name] = numbers
    return price_of


SCORES = "scores"
"""The third value of ``capture_content``: nothing that the app has named or written is sent."""
_CONTENT = ("NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT")


@allows("`true`, `false` or `scores`", "true", "false", SCORES)
def content(value: object) -> bool | str:
    """Read our own switch, or OpenTelemetry's words for where message content may go."""
    if isinstance(value, str):
        word = str.strip(value).upper()
        if word == SCORES.upper():
            return SCORES
        if word in _CONTENT:
            return word != "NO_CONTENT"
    return flag(value)


def without_content(given: str, present: object) -> bool | str:
    """Return what an unreadable ``capture_content`` allows: no text.

    Nor names, where it may stand for ``scores``, or another variable says so.
    """
    return SCORES if present == SCORES or "score" in given.lower() else False


def one_of(*words: str) -> Callable[[object], str]:
    """Read one of some words, case aside."""
    *most, last = [f"`{word}`" for word in words]

    @allows(f"{', '.join(most)} or {last}", *words)
    def read(value: object) -> str:
        word = str.strip(value).lower() if isinstance(value, str) else ""
        if word not in words:
            raise ValueError
        return word

    return read


@allows("`key=value,…`")
def pairs(value: object) -> Mapping[str, str]:
    """Read a mapping, or OpenTelemetry's ``key=value,key=value`` of percent-encoded values."""
    if isinstance(value, Mapping):
        return {text(key): text(item) for key, item in value.items()}
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004
    from urllib.parse import unquote

    value_of = {}
    for part in value.split(","):
        key, equals, item = part.partition("=")
        if not part.strip():
            continue
        if not equals or not key.strip():
            raise ValueError
        value_of[text(key)] = text(unquote(item.strip()))
    return value_of


@allows("`key=value,…`", is_secret=True)
def secret_pairs(value: object) -> Mapping[str, Secret]:
    """Read ``key=value`` pairs whose values nobody may see."""
    items = value if isinstance(value, Mapping) else pairs(value)
    secret_of = {text(key).lower(): secret(item) for key, item in items.items()}
    for part in (*secret_of, *(item.reveal() for item in secret_of.values())):
        if not part.isascii() or not part.isprintable():
            raise ValueError("expected key=value,… of printable ASCII characters")
    return secret_of


@allows("a number from 0 on")
def duration(value: object) -> float:
    """Read seconds; a text from 500 on is milliseconds, as OpenTelemetry's variables have them."""
    number = positive(value)
    return number / 1000 if isinstance(value, str) and number >= 500 else number
