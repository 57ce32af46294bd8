"""Evaluates one block of the data after the other, in a worker of Ray.

A block is told to the driver as a `BlockSummary` alone. Its rows go to a Parquet file of their own.

A worker may be killed at any moment, and so may the driver. Whoever evaluates the block next finds
its log, which has each verdict as soon as it was made, or its finished rows.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import traceback
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any

from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.evaluation.limiter import BudgetLimiter, Unlimited
from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline.arrow import ArrowColumns, arrow_table
from llmeval_sdk.offline.data.source import Data, Located
from llmeval_sdk.offline.report.aggregate import Aggregate
from llmeval_sdk.offline.report.row import Output, Row
from llmeval_sdk.offline.report.storage import LINE, RUN, read_row, write_row
from llmeval_sdk.offline.run.rows import MAX_PROBLEMS, BadRows, good_rows
from llmeval_sdk.offline.run.work import InputRow, Work
from llmeval_sdk.plugins.shared.counters import RedisCounters
from llmeval_sdk.plugins.shared.redis_client import RedisThread
from llmeval_sdk.plugins.shared.settings import SharedSettings
from llmeval_sdk.process.shield import tell
from llmeval_sdk.store.encode import dumps, evaluation_from, sparse
from llmeval_sdk.store.files import make_folder
from llmeval_sdk.store.state import HostLedger


class BlockLog:
    """The verdicts on the rows of one block; use it inside `_block_log`.

    A line that is torn, because its writer was killed, counts as none.
    """

    def __init__(self, file: int, rows_file: Path) -> None:
        self._file = file
        self._rows: dict[int, bytes] = {}
        self._verdicts: dict[tuple[int, str], dict[str, Evaluation]] = {}
        if rows_file.exists():
            self._read_rows(rows_file)
        self._read_verdicts()

    def row(self, item: InputRow) -> Row | None:
        """Return the finished row, unless it is another one now or something failed on it."""
        line = self._rows.pop(item.number, None)
        if line is None:
            return None
        row = read_row(line)
        if row.digest != item.digest:
            return None
        if not any(evaluation.error for evaluation in row.evaluations.values()):
            return row
        verdicts = {
            name: evaluation
            for name, evaluation in row.evaluations.items()
            if evaluation.evaluator_kind != "heuristic" and evaluation.error is None
        }
        self._verdicts.setdefault((item.number, item.digest), {}).update(verdicts)
        return None

    def known(self, item: InputRow, /) -> Mapping[str, Evaluation]:
        """Return the verdicts on a row that are there already."""
        return self._verdicts.get((item.number, item.digest), {})

    def keep(self, item: InputRow, verdicts: Mapping[str, Evaluation], /) -> None:
        """Write verdicts at once, but for those that failed: they are asked for again."""
        made = [sparse(verdict) for verdict in verdicts.values() if verdict.error is None]
        line = dumps({"number": item.number, "digest": item.digest, "verdicts": made})
        if made and line is not None:
            text = line.encode("utf-8", "backslashreplace") + b"\n"
            os.write(self._file, text)

    def attempts(self, session: str) -> int:
        """Note that the block is begun; return how often it was in this session of the driver."""
        line = b'{"begun":"%s"}\n' % session.encode()
        os.write(self._file, line)
        return self._read().count(line)

    def _read(self) -> bytes:
        os.lseek(self._file, 0, os.SEEK_SET)  # what is written goes to the end nonetheless
        return os.read(self._file, os.fstat(self._file).st_size)

    def _read_verdicts(self) -> None:
        content = self._read()
        if content and not content.endswith(b"\n"):
            os.write(self._file, b"\n")  # ends the torn line
        for line in content.splitlines(keepends=True):
            try:
                plain: dict[str, Any] = json.loads(line)
            except ValueError:
                continue
            if "verdicts" not in plain:
                continue
            verdicts = map(evaluation_from, plain["verdicts"])
            known = self._verdicts.setdefault((plain["number"], plain["digest"]), {})
            known.update({verdict.name: verdict for verdict in verdicts})

    def _read_rows(self, path: Path) -> None:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        try:
            with ParquetFile(path) as file:
                for batch in file.iter_batches(columns=["number", LINE]):
                    numbers, lines = batch.columns
                    self._rows.update(zip(numbers.to_pylist(), lines.to_pylist(), strict=True))
        except (ArrowException, OSError, ValueError) as error:
            tell("resume", f"{path.name} cannot be read and is made anew: {type(error).__name__}")


@contextmanager
def _block_log(folder: Path, key: str) -> Iterator[BlockLog]:
    """Open the log of a block, which nobody else has open meanwhile; remove it at the end.

    A worker that was believed dead may still write; the lock makes the next one wait for its end.
    Two blocks with the same content have one log, and the second finds the rows of the first.
    """
    path = folder / f"{key}.verdicts"
    binary = getattr(os, "O_BINARY", 0)  # Windows has two kinds of files
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | binary, 0o600)
    try:
        _lock(file)
        yield BlockLog(file, folder / f"{key}.parquet")
        with suppress(PermissionError):  # Windows removes no file that is open
            path.unlink(missing_ok=True)
    finally:
        os.close(file)


def _lock(file: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows, where Ray runs on one machine, for trying it out
        return
    fcntl.flock(file, fcntl.LOCK_EX)


ROW_GROUP = 1_000
"""Rows that are written at a time."""


class BlockOutput:
    """The file of a block: the evaluators' columns, and each row as a line of JSON.

    Rows are announced with `expect` in the order of the data and added when they are done. The
    file has its name once it is whole.
    """

    def __init__(self, path: Path, outputs: Mapping[str, Output]) -> None:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        self._path = path
        self._beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        self._columns = ArrowColumns(outputs)
        own = [pa.field("number", pa.int64()), pa.field(LINE, pa.binary())]
        self._schema = pa.schema([own[0], *self._columns.fields(), own[1]])
        self._writer = ParquetWriter(self._beside, self._schema)
        self._expected: deque[int] = deque()
        self._done: dict[int, Row] = {}
        self._rows: list[Row] = []

    def expect(self, number: int) -> None:
        """Say which row comes next."""
        self._expected.append(number)

    def add(self, row: Row) -> None:
        """Take a row that is done; it is written after those before it."""
        self._done[row.number] = row
        while self._expected and self._expected[0] in self._done:
            self._rows.append(self._done.pop(self._expected.popleft()))
        if len(self._rows) >= ROW_GROUP:
            self._write()

    def __enter__(self) -> BlockOutput:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is None and self._rows:
            self._write()
        self._writer.close()
        if kind is None:
            self._beside.replace(self._path)
        else:
            self._beside.unlink(missing_ok=True)

    def _write(self) -> None:
        rows, self._rows = self._rows, []
        columns: list[Any] = [
            [row.number for row in rows],
            *self._columns.values(rows),
            [write_row(row) for row in rows],
        ]
        self._writer.write_table(arrow_table(columns, self._schema))


# What the driver of a run tells each worker.


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a worker is told once; it pickles."""

    work: Work
    folder: Path
    header: Mapping[str, Any]
    store: str
    """The folder of the driver's store, in which each machine keeps its verdicts."""
    shared: bool
    """Whether the driver shares its budget with other hosts."""
    run_id: str
    """What the run is called in shared places, also when it is resumed."""
    session: str
    """Of the driver: another one when the run is resumed."""
    only_check: bool = False
    """Whether rows are only read and checked, before the first of them is paid for."""
    skip_bad: bool = False
    left_out: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By block the numbers of rows whose ``request_id`` appeared in an earlier block."""


# One budget for all workers of a run: in a file of one machine, or in Redis for several.

LOCK_SECONDS = 30.0


def check_budget(work: Work, machines: int) -> None:
    """Refuse a budget that the workers could not share.

    Raises:
        ConfigurationError: there are several machines, and no Redis between them.
    """
    if work.budget is not None and machines > 1 and not is_shared(work):
        raise ConfigurationError(
            f"the cluster has {machines} machines, and a budget holds on one: set LLMEVAL_SHARED "
            "to a Redis that all of them reach, or pass no budget (--max-usd, --calls-per-minute)"
        )


def is_shared(work: Work) -> bool:
    """Return whether the settings of this process name a Redis for what hosts share."""
    return work.settings.of(SharedSettings).shared is not None


def limiter_of(work: Work, task: Task) -> BudgetLimiter:
    """Return what keeps the budget of the whole run in this worker.

    Raises:
        ConfigurationError: this worker does not know the Redis through which the budget is shared.
    """
    if work.budget is None:
        return Unlimited()
    path = _ledger_path(task)
    make_folder(path.parent)
    ledger = HostLedger(path, timeout=LOCK_SECONDS)
    limiter = BudgetLimiter(work.budget, ledger)
    if not task.shared:
        return limiter
    address = work.settings.of(SharedSettings).shared
    if address is None:
        raise ConfigurationError(
            "LLMEVAL_SHARED is set for the driver and not for this worker: give all machines the "
            "same environment"
        )
    return limiter.shared_by(RedisCounters(RedisThread(address), name=f"run.{task.run_id}"))


def forget_budget(task: Task) -> None:
    """Remove the ledger of a run that has ended; a run that is to be resumed needs it."""
    ledger = _ledger_path(task)
    for path in (ledger, *ledger.parent.glob(f"{ledger.name}-*")):  # SQLite's own files
        path.unlink(missing_ok=True)


def _ledger_path(task: Task) -> Path:
    return Path(task.store).with_name(f"run-{task.run_id}.ledger")


BATCH = 1_000
"""Rows of a block that are Python objects at a time, beside those whose judgements are awaited."""
ATTEMPTS = 4
"""How often a block is begun at most, because a worker that evaluates it may die."""
MARK = "\0"
"""Stands before the number of a row where only the driver knows its place in the whole data."""


@dataclass(slots=True)
class BlockSummary:
    """What the driver learns of a block. Rows are counted from 1 within it."""

    key: str
    length: int
    """How many rows the block has, with the bad ones."""
    ids: list[tuple[int, str]] = field(default_factory=list)
    """Number and ``request_id`` of the good rows that have one …"""
    marks: bytes = b""
    """… and of each eight bytes that stand for its id."""
    rows: int = 0
    """How many rows are in the file."""
    aggregate: Aggregate = field(default_factory=Aggregate)
    bad: int = 0
    problems: list[tuple[int, str]] = field(default_factory=list)
    """The first of the bad rows: number and problem."""
    refusal: str | None = None
    """The problem of a row that ends the run."""
    failure: str | None = None
    """Why the block cannot be evaluated at all."""


class BlockEvaluator:
    """Evaluates blocks in a Ray actor."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._is_ready = False

    def _make_ready(self) -> None:
        """Load what this process needs; an error here would be retried, in ``__init__``."""
        task = self._task
        where = f"the worker on {socket.gethostname()}"
        if not (task.folder / RUN).is_file():
            raise ConfigurationError(
                f"{where} does not see the folder {task.folder}: name one with save= (--save) that "
                "all machines of the cluster share"
            )
        work = task.work
        settings = work.settings.changed(store=task.store)
        work.__dict__["settings"] = settings
        work.__dict__["limiter"] = limiter_of(work, task)
        chosen = list(work.chosen.names)
        if chosen != task.header["evaluators"]:
            raise ConfigurationError(
                f"{where} has other evaluators than the driver: {chosen}, not "
                f"{task.header['evaluators']}; give all machines the same environment"
            )
        self._is_ready = True

    def __call__(self, table: Any) -> Any:
        """Evaluate a block; return its summary as the one cell of a table."""
        import pyarrow as pa

        summary = BlockSummary(key_of(table), table.num_rows)
        try:
            if not self._is_ready:
                self._make_ready()
            if self._task.only_check:
                for _ in self._items(table, summary):
                    pass
            else:
                self._evaluate(table, summary)
        except DataError as error:
            summary.refusal = str(error)
        except ConfigurationError as error:
            summary.failure = str(error)
        except Exception as error:  # a full disk, an environment that is not the driver's
            place = traceback.extract_tb(error.__traceback__)[-1]
            at = f"{Path(place.filename).name}:{place.lineno}, on {socket.gethostname()}"
            summary.failure = f"a block was not evaluated: {type(error).__name__}: {error} ({at})"
        return pa.table({"summary": [pickle.dumps(summary)]})

    def _evaluate(self, table: Any, summary: BlockSummary) -> None:
        task = self._task
        work = task.work.fresh()
        path = task.folder / f"{summary.key}.parquet"
        with ExitStack() as stack:
            log = stack.enter_context(_block_log(task.folder, summary.key))
            if log.attempts(task.session) > ATTEMPTS:
                raise ConfigurationError(
                    f"a worker died {ATTEMPTS} times over one block of {table.num_rows:,} rows: "
                    "a row may take all memory, or an evaluator may end the process; what is "
                    "done is saved, and resume=True (--resume) goes on"
                )
            output = stack.enter_context(BlockOutput(path, work.chosen.outputs))

            def emit(row: Row) -> None:
                summary.rows += 1
                summary.aggregate.add(row)
                output.add(row)

            def undone() -> Iterator[InputRow]:
                for item in self._items(table, summary):
                    output.expect(item.number)
                    row = log.row(item)
                    if row is None:
                        yield item
                    else:
                        emit(row)

            work.run(undone(), emit, log)

    def _items(self, table: Any, summary: BlockSummary) -> Iterator[InputRow]:
        """Read and check the rows of a block, and note what the driver has to know of them."""
        task = self._task
        located = (
            Located(number, f"{MARK}{number}", row) for number, row in enumerate(_rows_of(table), 1)
        )
        bad = _BlockBad(summary, skip=task.skip_bad)
        work = task.work
        items = good_rows(
            Data("", table.num_rows, located),
            work.chosen,
            bad,
            answered=True,
            digests=not task.only_check,
            settings=work.settings,
        )
        left_out = task.left_out.get(summary.key, frozenset())
        marks = bytearray()
        for item in items:
            if item.record.request_id is not None:
                text = item.record.request_id.encode("utf-8", "surrogatepass")
                marks += blake2b(text, digest_size=8).digest()
                summary.ids.append((item.number, item.record.request_id))
            if item.number not in left_out:
                yield item
        summary.marks = bytes(marks)


class _BlockBad(BadRows):
    """Notes the bad rows of a block by their numbers."""

    def __init__(self, summary: BlockSummary, *, skip: bool) -> None:
        super().__init__(skip=skip)
        self._summary = summary

    def add(self, error: DataError, number: int, *, leave_out: bool = False) -> None:
        """Count a bad row or raise its error."""
        super().add(error, number, leave_out=leave_out)
        self._summary.bad += 1
        if len(self._summary.problems) < MAX_PROBLEMS:
            self._summary.problems.append((number, str(error)))


def key_of(table: Any) -> str:
    """Identify a block by its content."""
    import pyarrow as pa

    digest = blake2b(digest_size=16)
    plain = table.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(_Hashing(digest), plain.schema) as stream:
        stream.write_table(plain)
    return digest.hexdigest()


class _Hashing:
    """A file that keeps the hash of what is written to it."""

    closed = False

    def __init__(self, digest: blake2b) -> None:
        self._digest = digest

    def write(self, content: bytes) -> int:
        """Take what is written."""
        self._digest.update(content)
        return len(content)

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _rows_of(table: Any) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=BATCH):
        yield from batch.to_pylist()
