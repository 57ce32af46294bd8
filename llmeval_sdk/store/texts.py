"""Keeps each long text of a day once, and gives readers the columns of spans whole.

A passage stands in the span that retrieved it, in the record of its request and in the prompt of
the model, and again in the next request that finds it. So a text of some length is taken out of
the JSON of a span and put into the table ``texts``; where it stood, its key remains between two
characters U+001F, which JSON never holds as they are. A column is whole again when each key has its
text in place, to the byte.

The key is a hash of the day and the text. ``text_uses`` counts in how many spans each key stands;
the transaction that takes away the last of them deletes the text with its key, so that nothing of
a deleted span is left.
"""

from __future__ import annotations

import json
import sqlite3
import weakref
import zlib
from base64 import urlsafe_b64encode
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

from llmeval_sdk.model import DAY_NS
from llmeval_sdk.process.pieces import MAX_READ, pause
from llmeval_sdk.store.encode import COLUMNS, Row, cell, dumps


MARK = "\x1f"
"""Stands before and after a key. JSON escapes it, so no text of an app looks like a key."""
SHORTEST = 1_024
"""Characters, as JSON has them, from which on a text is kept by itself."""
LONG_COLUMNS = ("retrieved_context", "request", "response", "value", "attributes")
"""The columns of spans whose long texts are kept by themselves. Passages come first, because the
others repeat them."""
MAX_QUOTES = 10_000
"""Quotation marks of one column that are looked at: JSON of more holds few long texts, or is
itself written inside a text."""
MAX_COMPARED = 1 << 22
"""Characters that are searched for the texts of earlier spans: some milliseconds."""
COMPRESSED = 1 << 18
"""Characters that one transaction compresses, in 5 ms: other processes wait for its end, and at 20
ns a character, an app of long texts would pay more for this than for all other writing."""
REMEMBERED = 4 << 20
"""Characters of the long texts of the latest traces that a writer remembers, to find them again in
the spans that end later."""
_LONGEST = 64 << 20
"""Characters of the longest column that is made whole again; see `files.LONGEST_VALUE`."""
_WINDOW, _MEMORY = -14, 7
"""How `zlib` is told to write no header and to look back 16 KB at most: with 4 KB a text of 20 KB
takes a third more time and 4 % more room, and with the usual 32 KB its tables are so large that the
system takes their memory back after every text."""

_PLACES = {name: COLUMNS["spans"].index(name) for name in LONG_COLUMNS}
_TRACE, _SPAN, _START = (COLUMNS["spans"].index(n) for n in ("trace_id", "span_id", "start_ns"))

Bodies = dict[str, bytes]
"""Long texts by their keys, as they stand in JSON, in UTF-8."""


# Writing: taking long texts out of rows, and counting who uses them.


class LongTexts:
    """Takes the long texts out of the rows of spans.

    It remembers those of the latest traces, because a model's prompt repeats the passages of a span
    that ended before: inside a longer text, only what is known beforehand can be found.
    """

    def __init__(self) -> None:
        self._of_traces: OrderedDict[str, dict[str, str]] = OrderedDict()
        self._characters = 0

    def taken_out(self, row: Row, bodies: Bodies) -> Row:
        """Return a span's row with keys in place of its long texts, which are added to bodies."""
        columns = [
            (name, place, text)
            for name, place in _PLACES.items()
            if type(text := row[place]) is str and len(text) > SHORTEST
        ]
        if not columns:
            return row
        known = self._known(row[_TRACE])
        day = row[_START] // DAY_NS
        changed = list(row)
        for name, place, text in columns:
            if name != "retrieved_context":  # whose passages are whole texts: they need no search
                text = _known_replaced(text, known, bodies)  # noqa: PLW2901
            changed[place] = self._whole_replaced(text, day, known, bodies)
        if not known:  # else traces without long texts would be remembered for ever
            del self._of_traces[row[_TRACE]]
        self._forget_oldest()
        return tuple(changed)

    def _known(self, trace: str) -> dict[str, str]:
        """Return the keys of the long texts of a trace, by text."""
        known = self._of_traces.setdefault(trace, {})
        self._of_traces.move_to_end(trace)
        return known

    def _whole_replaced(self, text: str, day: int, known: dict[str, str], bodies: Bodies) -> str:
        """Replace each whole text of some JSON that is long and has no key in it."""
        parts: list[str] = []
        end = 0
        for start, stop in _long_strings(text):
            body = text[start:stop]
            if MARK in body:
                continue
            key = known.get(body)
            if key is None:
                data = _data(body)
                key = known[body] = _key(day, data)
                bodies[key] = data
                self._characters += len(body)
            elif key not in bodies:
                bodies[key] = _data(body)
            parts += (text[end:start], MARK, key, MARK)
            end = stop
            pause()
        return "".join((*parts, text[end:])) if parts else text

    def _forget_oldest(self) -> None:
        while self._characters > REMEMBERED:
            _, gone = self._of_traces.popitem(last=False)
            self._characters -= sum(map(len, gone))


def _known_replaced(text: str, known: Mapping[str, str], bodies: Bodies) -> str:
    """Replace the long texts that a trace had before, wherever they stand; the latest go first."""
    room = MAX_COMPARED
    if len(text) > MAX_READ:
        return text
    for body, key in reversed(list(known.items())):
        room -= len(text)
        if room < 0 or len(text) < SHORTEST:
            break
        while (place := _place_of(body, text)) >= 0:
            text = f"{text[:place]}{MARK}{key}{MARK}{text[place + len(body) :]}"
            if key not in bodies:
                bodies[key] = _data(body)
        pause()
    return text


def _place_of(body: str, text: str) -> int:
    """Return where a long text stands, or -1; a text that repeats itself may be overlooked.

    It is looked for by a few characters of its middle, which takes a tenth of the time: beginnings
    are often the same.
    """
    middle = len(body) // 2
    sample = body[middle : middle + _SAMPLE]
    place = text.find(sample, middle)
    for _ in range(_TRIES):
        if place < 0 or text.startswith(body, place - middle):
            break
        place = text.find(sample, place + 1)
    else:
        return -1
    return max(place - middle, -1)


_SAMPLE, _TRIES = 32, 32


def _long_strings(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the long strings of some JSON begin and end, without their quotation marks."""
    quotes = 0
    start = text.find('"') + 1
    while start:
        end = text.find('"', start)
        while end > 0 and text[end - 1] == "\\" and _is_escaped(text, end):
            end = text.find('"', end + 1)
            quotes += 1
        if end < 0 or quotes > MAX_QUOTES:
            return
        if end - start >= SHORTEST:
            yield start, end
        quotes += 1
        start = text.find('"', end + 1) + 1


def _is_escaped(text: str, place: int) -> bool:
    first = place
    while text[first - 1] == "\\":
        first -= 1
    return (place - first) % 2 == 1


def _key(day: int, data: bytes) -> str:
    digest = blake2b(data, digest_size=16, salt=day.to_bytes(8, "big", signed=True))
    return urlsafe_b64encode(digest.digest())[:22].decode()


def _data(body: str) -> bytes:
    return body.encode("utf-8", "replace")  # as `encode.cell` writes half a surrogate pair


def replace(
    connection: sqlite3.Connection, rows: Sequence[Row], bodies: Bodies, *, room: int = COMPRESSED
) -> None:
    """Count, inside the caller's transaction, the keys of spans that are about to be written.

    Texts that the store lacks are added; of them, about ``room`` characters are compressed. A span
    that is there already is about to be replaced, and gives its own back.
    """
    latest = {(row[_TRACE], row[_SPAN]): row for row in rows}  # a later row replaces an earlier one
    change = _uses([row[place] for place in _PLACES.values()] for row in latest.values())
    replaced = connection.execute(_REPLACED, (cell(dumps(list(latest))),))
    change.subtract(_uses(replaced))
    _change_uses(connection, change, bodies, room)


def release(connection: sqlite3.Connection, traces: Iterable[str]) -> None:
    """Give back, inside the caller's transaction, the texts of traces about to be deleted."""
    change: Counter[str] = Counter()
    for trace in traces:
        change.subtract(_uses(connection.execute(_OF_TRACE, (trace,))))
    _change_uses(connection, change, {}, 0)


def _uses(rows: Iterable[Iterable[object]]) -> Counter[str]:
    """Count in how many rows each key stands."""
    return Counter(key for row in rows for key in _keys(row))


def _keys(columns: Iterable[object]) -> set[str]:
    marked = (text for text in columns if isinstance(text, str) and MARK in text)
    return {key for text in marked for key in text.split(MARK)[1::2]}


def _change_uses(
    connection: sqlite3.Connection, change: Mapping[str, int], bodies: Bodies, room: int
) -> None:
    """Add to the counts of keys, write the texts that are new, and delete those without a use.

    As many statements for a thousand texts as for one: each gives up the interpreter's lock, see
    `writer`.
    """
    changed = {key: count for key, count in change.items() if count}
    if not changed:
        return
    counts = dumps(changed)
    held = {key for (key,) in connection.execute(_HELD, (counts,))}
    if held:
        connection.execute(_COUNT, (counts,))
    if min(changed.values()) < 0:
        connection.execute(_DELETE_TEXTS, (counts,))
        connection.execute(_DELETE_KEYS, (counts,))
    new = [key for key in changed if key not in held and key in bodies]
    if new:
        _add(connection, {key: changed[key] for key in new}, bodies, room)


def _add(
    connection: sqlite3.Connection, uses: Mapping[str, int], bodies: Bodies, room: int
) -> None:
    seq = connection.execute("SELECT ifnull(max(seq), 0) FROM texts").fetchone()[0] + 1
    places = {key: (place, count) for place, (key, count) in enumerate(uses.items(), seq)}
    values: list[int | bytes] = []
    for key, (place, _) in places.items():
        data = bodies[key]
        is_room = len(data) <= room
        room -= len(data) * is_room
        values += (place, _packed(data, level=1 if is_room else 0))
    for start in range(0, len(values), 2 * _ROWS):
        part = values[start : start + 2 * _ROWS]
        marks = ",".join(["(?,?)"] * (len(part) // 2))
        connection.execute(f"INSERT INTO texts (seq, body) VALUES {marks}", part)  # noqa: S608
    connection.execute(_ADD_KEYS, (dumps(places),))


_ROWS = 256
"""Texts in one statement; releases of SQLite before 3.32 take 999 parameters."""


def _packed(data: bytes, *, level: int) -> bytes:
    packing = zlib.compressobj(level, zlib.DEFLATED, _WINDOW, _MEMORY)
    return packing.compress(data) + packing.flush()


_TEXTS = ", ".join(f"s.{name}" for name in LONG_COLUMNS)
_MARKED = " OR ".join(f"instr(s.{name}, char({ord(MARK)}))" for name in LONG_COLUMNS)
_REPLACED = f"""
SELECT {_TEXTS} FROM json_each(?) a CROSS JOIN spans s INDEXED BY spans_by_trace
WHERE s.trace_id = json_extract(a.value, '$[0]') AND s.span_id = json_extract(a.value, '$[1]')
  AND ({_MARKED})
"""  # noqa: S608 - constants
_OF_TRACE = f"SELECT {_TEXTS} FROM spans s WHERE s.trace_id = ? AND ({_MARKED})"  # noqa: S608
_HELD = "SELECT key FROM text_uses WHERE key IN (SELECT key FROM json_each(?))"
_COUNT = """
INSERT OR REPLACE INTO text_uses (key, text, uses)
SELECT u.key, u.text, u.uses + c.value FROM json_each(?) c CROSS JOIN text_uses u ON u.key = c.key
"""
_DELETE_TEXTS = """
DELETE FROM texts WHERE seq IN (
  SELECT u.text FROM json_each(?) c CROSS JOIN text_uses u ON u.key = c.key WHERE u.uses < 1)
"""
_DELETE_KEYS = "DELETE FROM text_uses WHERE key IN (SELECT key FROM json_each(?)) AND uses < 1"
_ADD_KEYS = """
INSERT INTO text_uses (key, text, uses)
SELECT key, json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)
"""


# Reading: the columns with their texts in place.


def whole(column: str) -> str:
    """Return a column of spans with its long texts in place, in SQL for `add_functions`."""
    is_marked = f"instr({column}, char({ord(MARK)}))"
    return f"CASE WHEN {is_marked} THEN llmeval_whole({column}) ELSE {column} END"


def columns_of(table: str) -> str:
    """Return what `encode` reads of a table, in SQL."""
    return ", ".join(
        whole(name) if table == "spans" and name in LONG_COLUMNS else name
        for name in COLUMNS[table]
    )


def add_functions(connection: sqlite3.Connection) -> None:
    """Give a connection to a store the function that puts long texts in place."""
    connection.create_function("llmeval_whole", 1, _Whole(connection))


class _Whole:
    """Puts long texts in place; a key stays where its text is missing, damaged, or one too much.

    It remembers texts, so that a search through many requests reads those of a corpus once.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = weakref.ref(connection)  # else the two would keep the file open
        self._known: dict[str, str] = {}
        self._characters = 0

    def __call__(self, text: str) -> str:
        parts = text.split(MARK)
        bodies = self._bodies(set(parts[1::2]))
        room = _LONGEST - len(text)
        for place in range(1, len(parts) - 1, 2):
            body = bodies.get(parts[place])
            room -= len(body or "")
            parts[place] = f"{MARK}{parts[place]}{MARK}" if body is None or room < 0 else body
        return "".join(parts)

    def _bodies(self, keys: set[str]) -> dict[str, str]:
        if self._characters > REMEMBERED:
            self._known, self._characters = {}, 0
        missing = keys - self._known.keys()
        connection = self._connection()
        if missing and connection is not None:
            for key, packed in connection.execute(_BODIES, (json.dumps(list(missing)),)):
                if (body := _unpacked(packed)) is not None:
                    self._known[key] = body
                    self._characters += len(body)
        return self._known


def _unpacked(packed: object) -> str | None:
    unpacking = zlib.decompressobj(-zlib.MAX_WBITS)  # another version may look back further
    try:
        data = unpacking.decompress(packed, _LONGEST)  # type: ignore[arg-type]  # what a file has
        return data.decode() if unpacking.eof else None
    except (zlib.error, TypeError, UnicodeDecodeError):
        return None


_BODIES = """
SELECT u.key, t.body FROM json_each(?) k CROSS JOIN text_uses u ON u.key = k.value
CROSS JOIN texts t ON t.seq = u.text
"""
