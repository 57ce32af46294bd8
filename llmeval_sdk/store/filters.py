"""The filter language: conditions on requests, such as ``tag:tenant=acme``.

A condition names a field, and usually an operator and a value. It holds of a whole request: of a
trace in which some span or evaluation meets it. A request is selected if all conditions hold of it.

====================  ==========================================  =====================
field                 what is compared                            operators
====================  ==========================================  =====================
``tag:KEY``           a tag of any span                           all
``model``             the name of a model that was called         ``= != ~ !~``
``user``              the tag ``user_id``                         ``= != ~ !~``
``session``           the session                                 ``= != ~ !~``
``name``              the name of a span                          ``= != ~ !~``
``error``             the type of error that ended the request    ``= != ~ !~``
``latency``           how long the request took: ``2s, 500ms``    ``= != < <= > >=``
``cost``              US dollars for all model calls              ``= != < <= > >=``
``score:EVALUATOR``   what an evaluator said                      all
``feedback:NAME``     what people said under this name            all
====================  ==========================================  =====================

``=`` takes several values, separated by commas, of which one has to match; ``~`` looks for a part
of the text and ignores the case of ASCII letters. A field alone, or with ``!=`` and no value,
selects the requests that have a value, and ``=`` without one those that have none. ``!=`` and
``!~`` select exactly the requests that ``=`` and ``~`` do not. Words that stand for good or bad
count as 1 and 0 where ``<`` and the like compare them.
"""

from __future__ import annotations

import csv
import io
import re
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from math import isfinite
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

from llmeval_sdk.errors import ConfigurationError, did_you_mean
from llmeval_sdk.model import DAY_SECONDS, values
from llmeval_sdk.store.encode import dumps
from llmeval_sdk.store.identities import forms
from llmeval_sdk.store.labels import is_latest_feedback
from llmeval_sdk.store.latest import StoredValue, is_latest, is_newest_row


MAX_CONDITIONS = 50
MAX_VALUES = 1_000
MAX_LENGTH = 20_000
"""Characters of one condition."""
MAX_NAMED = 200
"""Characters of a condition's `Condition.text`; a longer one ends in a digest."""
_SHOWN = 80
"""Characters of a condition that an error repeats."""
_TEXTS = ("model", "user", "session", "name", "error")
_NUMBERS = ("latency", "cost")
FIELDS = (*_TEXTS, *_NUMBERS)
NAMED_FIELDS = ("tag", "score", "feedback")
"""Fields that are followed by a colon and a name."""
SYNTAX = ", ".join((*(f"{field}:NAME" for field in NAMED_FIELDS), *FIELDS))
_ASCII_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
ONE_OF, CONTAINS, HAS = "=", "~", ""
_ORDER = ("<", "<=", ">", ">=")
_CONDITION = re.compile(
    r"""(?:(?P<kind>\w+):(?:"(?P<quoted>[^"]*)"|(?P<bare>[^=!~<>"]+))|(?P<field>[^=!~<>:]*))
    (?:(?P<operator>!=|!~|<=|>=|=|~|<|>)(?P<value>.*))?""",
    re.VERBOSE | re.DOTALL,
)
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": DAY_SECONDS, "w": 7 * DAY_SECONDS}
_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(ms|s|m|h)?")
_END_OF_TIME = 1 << 63
"""Nanoseconds since the epoch that a store can hold: until the year 2262."""
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3_600.0}


class _Rows(NamedTuple):
    """The rows in which a condition looks for what it compares."""

    where: str
    """What holds of such a row, in SQL."""
    value: str
    """The value of a row, in SQL; NULL where it has none."""
    table: str = "spans"
    is_sum: bool = False
    """Whether ``value`` is a sum over all rows of a request."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a filter."""

    field: str
    name: str = ""
    """The name after ``tag:``, ``score:`` or ``feedback:``."""
    operator: str = HAS
    """One of ``= ~ < <= > >=``, or empty where any value will do."""
    is_negated: bool = False
    """Whether the requests are selected of which the rest does not hold."""
    values: tuple[str, ...] = ()
    number: float = 0.0
    """What a number is compared with; a latency is in seconds."""

    @property
    def text(self) -> str:
        """The condition as one text, the same for all ways to write it; a long one is shortened.

        Of an id that has a hash, it has the hash alone.
        """
        is_bare = self.name == self.name.strip() and not set(self.name) & set("=!~<>")
        name = self.name if is_bare else f'"{self.name}"'
        field = f"{self.field}:{name}" if name else self.field
        if self.operator == HAS:
            return _shortened(field + "=" * self.is_negated)
        operator = "!" * self.is_negated + self.operator
        if self.operator in _ORDER or self.field in _NUMBERS:
            return _shortened(f"{field}{operator}{self.number!r}")
        listed = set(map(self._fold, self.values))
        if self.field in ("user", "session") and self.operator == ONE_OF:
            listed = {forms(identifier)[-1] for identifier in listed}
        row = io.StringIO()
        csv.writer(row, lineterminator="").writerow(sorted(listed))
        text = row.getvalue() if self.operator == ONE_OF else self._fold(self.values[0])
        return _shortened(f"{field}{operator}{text}")

    def _fold(self, value: str) -> str:
        """Return a value in the case in which it is compared."""
        ignores_case = self.operator == CONTAINS or self.field in _OUTCOMES
        return _lower(value) if ignores_case else value

    @property
    def is_of_one_span(self) -> bool:
        """Whether a single span tells that the condition holds of its request."""
        rows = self._rows()
        return rows.table == "spans" and not rows.is_sum and not self.is_negated

    def requests_sql(self, place: int, also: Iterable[str] = ()) -> str:
        """Return a SELECT of the traces of which the condition, without its negation, holds.

        ``place`` tells its arguments from those of other conditions; ``also`` are further values,
        in SQL, of the one span that tells it.
        """
        rows, test = self._rows(), self.test_sql(place)
        of = "main.spans AS r INDEXED BY spans_summed"
        if rows.table != "spans":
            of, test = f"main.{rows.table} AS r", f"r.name = :name{place} AND {test}"
        test = f"GROUP BY r.trace_id HAVING {test}" if rows.is_sum else f"AND {test}"
        selected = ", ".join(("r.trace_id", *also))
        return f"SELECT {selected} FROM {of} WHERE {rows.where} {test}"  # noqa: S608 - constants

    def of_span_sql(self, span: str, place: int) -> str:
        """Return the whole condition as one on a span, whose request is looked at.

        The + keeps SQLite from reading all that was said under the name for each of the spans.
        """
        rows, test = self._rows(), self.test_sql(place)
        of = "spans AS r"
        if rows.table != "spans":
            of = f"spans AS t JOIN {rows.table} AS r ON r.span_id = t.span_id"
            test = f"+r.name = :name{place} AND {test}"
        at = f"{'r' if rows.table == 'spans' else 't'}.trace_id = {span}.trace_id"
        test = f"GROUP BY r.trace_id HAVING {test}" if rows.is_sum else f"AND {test}"
        exists = f"EXISTS (SELECT 1 FROM {of} WHERE {at} AND {rows.where} {test})"  # noqa: S608
        return f"NOT {exists}" if self.is_negated else exists

    def arguments(self, place: int) -> dict[str, StoredValue]:
        """Return the arguments of the SQL that the other two methods return."""
        name = self.name
        if self.field == "tag" and _has_path(name):
            name = f'$."{name}"'
        return {
            f"name{place}": name,
            f"values{place}": dumps([self._fold(value) for value in self.values]),
            f"number{place}": self.number,
        }

    def _rows(self) -> _Rows:
        if self.field in _OUTCOMES:
            return _OUTCOMES[self.field]
        is_odd = self.field == "tag" and not _has_path(self.name)
        return _ROWS["odd tag" if is_odd else self.field]

    def test_sql(self, place: int) -> str:
        """Return the condition, without its negation, as one on a row that is called ``r``.

        The row is one under the condition's name.
        """
        value, texts = self._rows().value.replace(":name", f":name{place}"), f":values{place}"
        if self.operator == HAS:
            return f"{value} IS NOT NULL"
        if self.operator in _ORDER or self.field in _NUMBERS:
            return f"llmeval_number({value}) {self.operator} :number{place}"
        if self.field in _OUTCOMES:
            return _test_of_outcome(value, self.operator, texts)
        return _test_of_text(value, self.operator, texts, is_one=len(self.values) == 1)


def _shortened(text: str) -> str:
    """Return a text as it is if it is short, else its beginning with a digest of it all."""
    if len(text) <= MAX_NAMED:
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{text[:_SHOWN]}… {digest}"


def _test_of_text(value: str, operator: str, texts: str, *, is_one: bool) -> str:
    text = f"CAST({value} AS TEXT)"
    if operator == CONTAINS:
        return f"instr(lower({text}), {_listed_sql(texts)})"
    return f"{text} {'=' if is_one else 'IN'} {_listed_sql(texts)}"


def _test_of_outcome(value: str, operator: str, texts: str) -> str:
    """Return the test of a score, of a bool, which the store holds as 0 or 1, or of a word."""
    passed = f"CASE {value} WHEN 0 THEN 'fail' ELSE 'pass' END"
    word = f"lower(CASE typeof({value}) WHEN 'integer' THEN {passed} ELSE {value} END)"
    if operator == CONTAINS:
        return f"instr({word}, {_listed_sql(texts)})"
    same_number = f"{value} IN {_listed_sql(texts, 'llmeval_number(value)')}"
    return f"({word} IN {_listed_sql(texts)} OR (typeof({value}) <> 'text' AND {same_number}))"


def _lower(text: str) -> str:
    """Lower the ASCII letters of a text alone, as SQLite's ``lower`` does."""
    return text.translate(_ASCII_LOWER)


def _listed_sql(texts: str, value: str = "value") -> str:
    return f"(SELECT {value} FROM json_each({texts}))"  # noqa: S608 - the name of an argument


def _has_path(tag: str) -> bool:
    """Say whether a path of SQLite's can hold the name of a tag."""
    return tag.isprintable() and not set(tag) & {'"', "\\"}


def tag_sql(tag: str) -> str:
    """Return the value of a tag as a text, in SQL over the column ``tags`` of a span."""
    quoted = tag.replace("'", "''")
    value = f"""CAST(json_extract(tags, '$."{quoted}"') AS TEXT)"""
    if not _has_path(tag):
        value = f"(SELECT CAST(value AS TEXT) FROM json_each(tags) WHERE key = '{quoted}')"  # noqa: S608
    return f"(CASE WHEN json_valid(tags) THEN {value} END)"


_CALLS = "r.kind IN ('llm', 'embedding')"
_ROWS = {
    "tag": _Rows(
        "r.tags IS NOT NULL", "(CASE WHEN json_valid(r.tags) THEN json_extract(r.tags, :name) END)"
    ),
    "odd tag": _Rows(
        "r.tags IS NOT NULL",
        "(CASE WHEN json_valid(r.tags) THEN"
        " (SELECT CAST(value AS TEXT) FROM json_each(r.tags) WHERE key = :name) END)",
    ),
    "user": _Rows("r.tags IS NOT NULL", tag_sql("user_id").replace("tags", "r.tags")),
    "model": _Rows("r.model_name IS NOT NULL", "r.model_name"),
    "session": _Rows("r.session_id IS NOT NULL", "r.session_id"),
    "name": _Rows("1", "r.name"),
    "error": _Rows("r.parent_id IS NULL AND r.error_type IS NOT NULL", "r.error_type"),
    "latency": _Rows("r.parent_id IS NULL", "((r.end_ns - r.start_ns) / 1e9)"),
    "cost": _Rows(_CALLS, "sum(r.cost_usd)", is_sum=True),
}
_OUTCOMES = {
    "score": _Rows(
        f"r.error_type IS NULL AND {is_latest('r')} AND {is_newest_row('r')}",
        "r.value", "evaluations",
    ),
    "feedback": _Rows(
        f"r.error_type IS NULL AND {is_latest_feedback('r')}", "r.value", "feedback"
    ),
}  # fmt: skip


_BEFORE = "SELECT trace_id FROM main.spans WHERE parent_id IS NULL AND start_ns < :until"


class Filter(NamedTuple):
    """Conditions that all hold of a request that is selected; without any, all requests are."""

    conditions: tuple[Condition, ...] = ()

    def of_span_sql(self, span: str) -> str:
        """Return the filter as a condition on one span; empty without conditions."""
        parts = [
            condition.of_span_sql(span, place) for place, condition in enumerate(self.conditions)
        ]
        return " AND ".join(parts)

    def requests_sql(self, until: int | None = None) -> str:
        """Return a SELECT of the traces that are selected.

        With ``until`` the requests begin before the time that is the argument ``until``.
        """
        parts = [(c.is_negated, c.requests_sql(n)) for n, c in enumerate(self.conditions)]
        chosen = [sql for is_negated, sql in parts if not is_negated]
        others = [sql for is_negated, sql in parts if is_negated]
        if until is not None:
            chosen.append(_BEFORE)
        first = " INTERSECT ".join(chosen or ["SELECT trace_id FROM main.spans"])
        return " EXCEPT ".join((first, *others))

    def arguments(self) -> dict[str, StoredValue]:
        """Return the arguments of the SQL that the other methods return, but for ``until``."""
        arguments: dict[str, StoredValue] = {}
        for place, condition in enumerate(self.conditions):
            arguments |= condition.arguments(place)
        return arguments

    def telling_sql(self, also: Iterable[str]) -> str:
        """Return a SELECT of the traces that are selected, and of values of the spans that tell it.

        It is empty unless a single span tells it.
        """
        if len(self.conditions) != 1 or not self.conditions[0].is_of_one_span:
            return ""
        return self.conditions[0].requests_sql(0, also)

    @property
    def texts(self) -> frozenset[str]:
        """The conditions as texts, by which `frames.Frame` compares filters."""
        return frozenset(condition.text for condition in self.conditions)

    @property
    def identifiers(self) -> tuple[str, ...]:
        """The ids of users and sessions that it compares, which a store may hold as hashes."""
        own = [part.values for part in self.conditions if part.field in ("user", "session")]
        return tuple(identifier for listed in own for identifier in listed)


def read_filter(texts: Iterable[str]) -> Filter:
    """Read the conditions of a filter; raises `ConfigurationError` for a text that is none."""
    conditions = tuple(map(_condition, texts))
    if len(conditions) > MAX_CONDITIONS:
        raise ConfigurationError(f"{len(conditions):,} conditions: at most {MAX_CONDITIONS}")
    return Filter(conditions)


def _condition(text: str) -> Condition:
    """Read one condition; raises `ConfigurationError`, which says what was expected."""
    shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
    try:
        if len(text) > MAX_LENGTH:
            raise ConfigurationError(f"a condition has at most {MAX_LENGTH:,} characters")  # noqa: TRY301
        text.encode()
        return _parsed(text)
    except UnicodeEncodeError:
        raise ConfigurationError(f"{shown}: the condition holds half a character") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{shown}: {error}") from None


def _parsed(text: str) -> Condition:
    match = _CONDITION.fullmatch(text.lstrip())
    if match is None:
        raise ConfigurationError("expected a condition such as tag:tenant=acme")
    field, name = _field(match)
    sign = match["operator"] or HAS
    is_negated, operator = sign.startswith("!"), sign.removeprefix("!")
    if operator in _ORDER and field in _TEXTS:
        raise ConfigurationError(f"{field} is a text; expected one of = != ~ !~")
    if operator in (CONTAINS, HAS) and field in _NUMBERS:
        raise ConfigurationError(f"{field} is a number; expected a comparison, as in {field}>2")
    value = (match["value"] or "").strip()
    if operator in (HAS, ONE_OF) and not value and field not in _NUMBERS:
        # "= nothing" selects what has no value, which is the opposite of the field alone.
        return Condition(field, name, is_negated=operator == ONE_OF and not is_negated)
    if not value:
        raise ConfigurationError(f"expected a value after {operator!r}")
    if operator in _ORDER or field in _NUMBERS:
        return Condition(field, name, operator, is_negated, number=_number(field, value))
    listed = _listed(value) if operator == ONE_OF else (value,)
    if len(listed) > MAX_VALUES:
        raise ConfigurationError(f"{len(listed):,} values; at most {MAX_VALUES:,} are compared")
    if field in ("user", "session") and operator == ONE_OF:
        listed = tuple(form for identifier in listed for form in forms(identifier))
    return Condition(field, name, operator, is_negated, listed)


def _field(match: re.Match[str]) -> tuple[str, str]:
    """Return the field of a condition, and the name that follows a colon."""
    kind, name = match["kind"], match["quoted"] or (match["bare"] or "").strip()
    field = kind or match["field"].strip()
    if field not in (NAMED_FIELDS if kind else FIELDS):
        raise ConfigurationError(_unknown(field, name, has_name=bool(kind)))
    if kind and not name:
        raise ConfigurationError(f"expected a name after {kind!r}, as in {kind}:NAME")
    return field, name


def length_of(text: str) -> float | None:
    """Return the seconds that ``90s``, ``5m``, ``24h``, ``7d`` or ``2w`` is, or ``None``.

    A length of 292 years or more is none either: no time of a store is so far from another.
    """
    match = _LENGTH.fullmatch(text.strip())
    length = 0.0 if match is None else float(match[1]) * _UNITS[match[2]]
    return None if match is None or length * 1e9 >= _END_OF_TIME else length


def read_time(text: str) -> int:
    """Read ``90m``, ``24h``, ``7d`` or an ISO date as nanoseconds since the epoch.

    A date without a zone is local time. Raises `ConfigurationError` for any other text, and for a
    time before 1970 or after 2262.
    """
    try:
        if (length := length_of(text)) is not None:
            at = time.time_ns() - int(length * 1e9)
        else:
            moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
            at = int(moment.timestamp() * 1e9)
        if not 0 <= at < _END_OF_TIME:
            raise OverflowError  # noqa: TRY301 - as `datetime` does for a date before its first
    except OverflowError:
        raise ConfigurationError(
            f"{text!r:.{_SHOWN}} lies before 1970 or after 2262: no request was then"
        ) from None
    except ValueError:
        raise ConfigurationError(
            f"{text!r:.{_SHOWN}} is not a time: expected 90m, 24h, 7d or 2026-01-31T12:00"
        ) from None
    return at


def _listed(text: str) -> tuple[str, ...]:
    """Return the values of a list that commas separate; a value with a comma stands in quotes."""
    try:
        rows: list[list[str]] = list(csv.reader([text.replace("\n", " ")], skipinitialspace=True))
    except csv.Error:
        raise ConfigurationError("a control character in a value has to stand in quotes") from None
    return tuple(value.strip() for value in rows[0] if value.strip())


def _number(field: str, text: str) -> float:
    if field == "latency":
        if (match := _DURATION.fullmatch(text)) is not None:
            return float(match[1]) * _SECONDS[match[2]]
        raise ConfigurationError("expected a length of time, such as 2s or 500ms")
    number = _number_of(text.removeprefix("$") if field == "cost" else text)
    if number is None:
        raise ConfigurationError(f"expected a number after the operator, not {text!r}")
    return number


def _unknown(field: str, name: str, *, has_name: bool) -> str:
    if not field:
        return f"expected the name of a field first: {SYNTAX}"
    if has_name and field in FIELDS:
        return f"{field!r} has no further name: expected {field}={name or 'VALUE'}"
    if field in NAMED_FIELDS:
        return f"expected a name after {field!r}, as in {field}:NAME"
    near = did_you_mean(field, (*FIELDS, *NAMED_FIELDS)) or f"did you mean 'tag:{field}'?"
    return f"there is no field {field!r}; {near} There are {SYNTAX}"


def _number_of(value: object) -> float | None:
    """Return the number that a text stands for, as digits or as a word for good or bad."""
    try:
        number = float(value)  # type: ignore[arg-type]  # whatever SQLite passes
    except (TypeError, ValueError):
        return values.number(value)
    return number if isfinite(number) else None


def add_functions(connection: sqlite3.Connection) -> None:
    """Give a connection the function that the conditions call."""
    connection.create_function("llmeval_number", 1, _number_of, deterministic=True)
