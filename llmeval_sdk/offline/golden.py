"""Golden sets: requests that somebody chose, with the answers that somebody expects of them."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from llmeval_sdk import config
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, DataError, nearest
from llmeval_sdk.model import Record, SpanData
from llmeval_sdk.model.records import OWNERS
from llmeval_sdk.offline.data.exported import EXPECTED, is_exported, record_of_row
from llmeval_sdk.offline.data.record import record_from
from llmeval_sdk.offline.data.source import open_data
from llmeval_sdk.offline.data.spans import stored_record
from llmeval_sdk.process import private
from llmeval_sdk.process.private import replace_text
from llmeval_sdk.store.encode import dumps, sparse
from llmeval_sdk.store.files import make_folder, path_of
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.traces import spans_like, traces_like


# Requests of the store as rows of a golden set, and such rows as Records.


def _find_request(reader: StoreReader, prefix: str) -> SpanData:
    """Return the span that is meant by an id or its beginning; a trace stands for its request.

    Raises:
        ConfigurationError: There is none, or there are several.
    """
    prefix = prefix.strip().lower()
    found = reader.read(lambda c: spans_like(c, prefix)) if prefix else ()
    spans = [ref.span_id for ref in found if ref.span_id == prefix] or [r.span_id for r in found]
    if len(spans) > 1:
        raise ConfigurationError(f"several spans have an id that begins with {prefix!r:.80}")
    span = reader.span(spans[0]) if spans else None
    if span is not None:
        return span
    traces = {trace for trace, _ in reader.read(lambda c: traces_like(c, prefix)) if prefix}
    if len(traces) > 1:
        raise ConfigurationError(f"several traces have an id that begins with {prefix!r:.80}")
    for trace in traces:
        members = reader.trace(trace)
        return next((span for span in members if span.kind in OWNERS), members[0])
    raise ConfigurationError(
        f"there is no span or trace whose id begins with {prefix!r:.80} in {reader.location}; "
        "`llmeval traces` lists them"
    )


def row_of(reader: StoreReader, span: SpanData, settings: Settings) -> dict[str, Any]:
    """Return a request as a row: what evaluators saw of it when it was live, and where it was."""
    record = stored_record(
        span,
        reader.trace(span.trace_id),
        retrieved=settings.retrieved_context,
        limits=settings.retrieval_limits,
    )
    fields = sparse(record)
    first = ("request_id", "request", "response", *EXPECTED)
    row = {name: fields[name] for name in first if name in fields}
    row |= {name: value for name, value in fields.items() if name not in _LAST}
    if record.value == record.response:
        row.pop("value", None)  # it is only the response again
    return {
        **row,
        "duration_seconds": record.latency_seconds or 0.0,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "name": span.name,
        "kind": span.kind,
        "start_time": datetime.fromtimestamp(span.start_ns / 1e9, timezone.utc).isoformat(),
        "start_ns": span.start_ns,
    }


_LAST = ("latency_seconds", "trace_id", "span_id", "span_name", "span_kind")


def record_of(row: Mapping[str, object], place: str) -> Record:
    """Return a row as evaluators see it; raises `DataError` where it cannot be read."""
    return record_of_row(row, place) if is_exported(row) else record_from(row, place=place)


MAX_BYTES = 64 << 20
"""Of one version."""
MAX_BYTES_IN_ALL = 1 << 30
_FILE = re.compile(r"v(\d{4,6})\.jsonl")


class Versions:
    """The files ``v0001.jsonl``, ``v0002.jsonl`` … of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of the versions that there are, the newest last.

        Raises:
            ConfigurationError: The folder is a symbolic link.
        """
        _refuse_link(self.folder)
        if not self.folder.is_dir():
            return ()
        names = (_FILE.fullmatch(file.name) for file in self.folder.iterdir())
        return tuple(sorted(int(match[1]) for match in names if match))

    def file(self, number: int) -> Path:
        """Return the file of a version; raises `ConfigurationError` where it is a symbolic link."""
        path = self.folder / f"v{number:04}.jsonl"
        _refuse_link(self.folder)
        _refuse_link(path)
        return path

    def read(self, number: int) -> list[dict[str, Any]]:
        """Return the rows of a version.

        Raises:
            DataError: A line cannot be read, or the file is too large.
        """
        path = self.file(number)
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path} is larger than {_megabytes(MAX_BYTES)}")
        rows = []
        for _, place, row in open_data(path).rows:
            if not isinstance(row, dict):
                why = row if isinstance(row, DataError) else "expected a mapping"
                raise DataError(f"{place}: {why}")
            rows.append(row)
        return rows

    def rewrite(self, number: int, rows: Sequence[Mapping[str, object]]) -> None:
        """Write a version anew, without rows that have to be deleted.

        Raises:
            ConfigurationError: The folder cannot be written.
        """
        try:
            replace_text(self.file(number), _lines(rows).decode("utf-8"))
        except OSError as error:
            raise ConfigurationError(f"{self.folder} cannot be written: {error}") from None

    def write(self, number: int, rows: Sequence[Mapping[str, object]]) -> bool:
        """Write a version; returns False, and writes nothing, if it is there already.

        Raises:
            ConfigurationError: It would be too large, or the folder cannot be written.
        """
        lines = _lines(rows)
        earlier = sum(self.file(each).stat().st_size for each in self.numbers())
        for size, most in ((len(lines), MAX_BYTES), (earlier + len(lines), MAX_BYTES_IN_ALL)):
            if size > most:
                raise ConfigurationError(
                    f"{self.folder}: this would be {_megabytes(size)} of rows, and at most "
                    f"{_megabytes(most)} are kept: remove rows, or delete old versions"
                )
        beside = self.folder / f".{secrets.token_hex(8)}.tmp"
        try:
            private.make_folder(self.folder)
            private.make_file(beside)
            with beside.open("wb") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            os.link(beside, self.file(number))  # fails where somebody was quicker
        except FileExistsError:
            return False
        except OSError as error:
            raise ConfigurationError(f"{self.folder} cannot be written: {error.strerror}") from None
        finally:
            beside.unlink(missing_ok=True)
        return True


def _lines(rows: Sequence[Mapping[str, object]]) -> bytes:
    return "".join(f"{dumps(row)}\n" for row in rows).encode("utf-8", "backslashreplace")


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise ConfigurationError(f"{path} is a symbolic link: a golden set is a folder of files")


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"


MAX_ROWS = 10_000
MAX_SETS = 1_000
"""Of a folder, so many sets are listed."""
_ATTEMPTS = 100
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})(?:@v?([0-9]{1,6}))?")

Rows = list[dict[str, Any]]


class GoldenSet:
    """A named list of requests with expected answers, in versions that never change.

    Each version is a file of JSON lines, ``NAME/v0001.jsonl`` and so on, with the columns that
    `evaluate` reads; people may edit a file or add one with the next number. The newest version
    counts. Rows are copies: they stay when the store forgets the trace, and if the store is
    redacted, so are they.

    `evaluate` takes a golden set as its data.

    Args:
        name: Up to 64 letters, digits, ``.``, ``_`` and ``-``. ``answers@2`` is version 2.
        folder: Where the sets are. Default: ``datasets`` beside the local store.

    Raises:
        ConfigurationError: The name cannot name a set.

    Examples:
        >>> answers = GoldenSet("answers", folder="evals")
        >>> answers.versions
        ()
    """

    def __init__(self, name: str, *, folder: str | os.PathLike[str] | None = None) -> None:
        match = _NAME.fullmatch(name)
        if match is None or (match[2] is not None and int(match[2]) == 0):
            raise ConfigurationError(
                f"{name!r:.100} cannot name a golden set: use up to 64 ASCII letters, digits, "
                "'.', '_' and '-', and for an earlier version NAME@2"
            )
        self.name = match[1]
        self.version = None if match[2] is None else int(match[2])
        """The version that was asked for; ``None`` means the newest."""
        self._is_default = folder is None
        self.folder = _default_folder() if folder is None else private.expanded(folder).absolute()
        self._files = Versions(self.folder / self.name)

    @property
    def versions(self) -> tuple[int, ...]:
        """The numbers of all versions, the newest last."""
        return self._files.numbers()

    @property
    def path(self) -> Path:
        """The file of this version.

        Raises:
            ConfigurationError: There is no such set, or no such version of it.
        """
        versions = self.versions
        if not versions:
            others = [each.name for each in golden_sets(self.folder)]
            hint = f": {nearest(self.name, others)}" if others else ""
            raise ConfigurationError(
                f"there is no golden set {self.name!r} in {self.folder}{hint}; "
                f"`llmeval dataset add {self.name} ID` makes one of a trace"
            )
        number = self.version or versions[-1]
        if number not in versions:
            raise ConfigurationError(
                f"{self.name} has no version {number}: there are v{versions[0]:04} to "
                f"v{versions[-1]:04}"
            )
        return self._files.file(number)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"<GoldenSet {self.name!r} in {str(self.folder)!r}>"

    def __len__(self) -> int:
        return len(self._rows())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows())

    def records(self) -> list[Record]:
        """Return the rows as evaluators see them; raises `DataError` where one cannot be read."""
        path = self.path
        return [record_of(row, f"{path}, row {number}") for number, row in enumerate(self, 1)]

    def add(
        self,
        *ids: str,
        store: str | os.PathLike[str] | None = None,
        expected_response: str | None = None,
    ) -> list[str]:
        """Add requests of a local store; those that are in the set stay as they are.

        Args:
            ids: The ids of spans or traces, or their beginnings. A trace stands for its request.
            store: The store. Default: ``LLMEVAL_STORE``.
            expected_response: The answer to expect of each.

        Returns:
            The ids of the rows that are new.

        Raises:
            ConfigurationError: There is no such store or id, or an id fits several; then nothing
                was added.
        """
        settings = config.from_environment(problems=[])
        if self._is_default:
            make_folder(self.folder.parent)
        with StoreReader(path_of(store or settings.store)) as reader:
            found = {span.span_id: span for span in (_find_request(reader, each) for each in ids)}
            new = {name: row_of(reader, span, settings) for name, span in found.items()}
        if expected_response is not None:
            for row in new.values():
                _expect(row, {"expected_response": expected_response})
        added: list[str] = []

        def append(rows: Rows) -> Rows:
            known = {row.get("request_id") for row in rows}
            added[:] = [name for name in new if name not in known]
            return rows + [new[name] for name in added]

        self._change(append)
        return added

    def edit(
        self,
        request_id: str,
        *,
        expected_response: str | None = None,
        expected_facts: Sequence[str] | None = None,
        expected_retrieved_context: Sequence[Mapping[str, object]] | None = None,
    ) -> None:
        """Write down what is expected of a row, named by its id or its number, in a new version.

        An expected answer takes the place of expected facts, and facts that of an answer.

        Raises:
            ConfigurationError: There is no such row, or nothing or both were expected.
        """
        if expected_response is not None and expected_facts is not None:
            raise ConfigurationError("expect an answer or facts, but not both")
        expected = {
            "expected_response": expected_response,
            "expected_facts": None if expected_facts is None else list(expected_facts),
            "expected_retrieved_context": None
            if expected_retrieved_context is None
            else [dict(chunk) for chunk in expected_retrieved_context],
        }
        given = {name: value for name, value in expected.items() if value is not None}
        if not given:
            raise ConfigurationError(f"say what to expect: {', '.join(EXPECTED)}")

        def replace(rows: Rows) -> Rows:
            changed = [dict(row) for row in rows]
            _expect(_row_of(changed, request_id, self.name), given)
            return changed

        self.path  # noqa: B018 - a set that is not there has no rows to edit
        self._change(replace)

    def remove(self, *ids: str) -> None:
        """Leave rows out of the next version; raises `ConfigurationError` where one is unknown."""

        def without(rows: Rows) -> Rows:
            gone = {id(_row_of(rows, each, self.name)) for each in ids}
            return [row for row in rows if id(row) not in gone]

        self.path  # noqa: B018 - as above
        self._change(without)

    def replace(self, rows: Sequence[Mapping[str, object]]) -> bool:
        """Make these rows the next version; return whether anything changed.

        Raises:
            DataError: A row cannot be evaluated; the message names it.
        """
        for number, row in enumerate(rows, 1):
            record_of(row, f"line {number}")
        before = self.versions
        self._change(lambda _: [dict(row) for row in rows])
        return self.versions != before

    def _rows(self) -> Rows:
        path = self.path
        return self._files.read(int(path.stem[1:]))

    def _change(self, change: Callable[[Rows], Rows]) -> None:
        """Write the next version, on top of what others wrote meanwhile."""
        if self.version is not None:
            raise ConfigurationError(
                f"{self.name}@{self.version}: a version never changes; name the set alone, and "
                "the change becomes its next version"
            )
        for _ in range(_ATTEMPTS):
            newest = max(self.versions, default=0)
            rows = self._files.read(newest) if newest else []
            changed = change(rows)
            if len(changed) > MAX_ROWS:
                some = "row" if MAX_ROWS == 1 else "rows"
                raise ConfigurationError(
                    f"{self.name}: a golden set has at most {MAX_ROWS:,} {some}"
                )
            if changed == rows or self._files.write(newest + 1, changed):
                return
        raise ConfigurationError(f"{self.name}: others write versions all the time; try again")


def golden_sets(folder: str | os.PathLike[str] | None = None) -> list[GoldenSet]:
    """Return the golden sets of a folder, by name; by default of ``datasets`` beside the store."""
    place = _default_folder() if folder is None else private.expanded(folder)
    if not place.is_dir():
        return []
    names = sorted(each.name for each in place.iterdir() if _is_set(each))
    return [GoldenSet(name, folder=place) for name in names[:MAX_SETS]]


def _is_set(folder: Path) -> bool:
    match = _NAME.fullmatch(folder.name)
    is_named = match is not None and match[2] is None
    return is_named and not folder.is_symlink() and bool(Versions(folder).numbers())


def _default_folder() -> Path:
    return path_of(config.from_environment(problems=[]).store).with_name("datasets")


def _expect(row: dict[str, Any], expected: Mapping[str, object]) -> None:
    """Put ground truth into a row, after its answer; an answer and facts exclude each other."""
    kept = {name: value for name, value in row.items() if name not in expected}
    if {"expected_response", "expected_facts"} & expected.keys():
        for name in ("expected_response", "expected_facts"):
            kept.pop(name, None)
    first: list[str] = [name for name in ("request_id", "request", "response") if name in kept]
    before: dict[str, Any] = {name: kept.pop(name) for name in first}
    row.clear()
    row.update({**before, **expected, **kept})


def _row_of(rows: Rows, request_id: str, name: str) -> dict[str, Any]:
    """Return the one row whose id begins so, or that has this number, counted from 1."""
    ids = [str(row.get("request_id", "")) for row in rows]
    is_number = request_id.isdecimal() and request_id[0] != "0" and len(request_id) < 6
    places = [number for number, each in enumerate(ids) if each == request_id]
    if not places and is_number and int(request_id) <= len(rows):
        places = [int(request_id) - 1]
    if not places and request_id:
        places = [number for number, each in enumerate(ids) if each.startswith(request_id)]
    if len(places) == 1:
        return rows[places[0]]
    if places:
        raise ConfigurationError(
            f"several rows of {name} have an id that begins {request_id!r:.80}"
        )
    some = ", ".join(each for each in ids[:5] if each)
    raise ConfigurationError(
        f"{name} has no row {request_id!r:.80}: it has {some or 'no row with an id'}"
        + (" …" if len(ids) > 5 else "")
    )
