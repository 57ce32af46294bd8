"""What a worker does: it evaluates one block of the data after the other.

A block is told to the driver as a `BlockSummary` alone. Its rows go to a file of their own.
"""

from __future__ import annotations

import pickle
import socket
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.evaluation.limiter import BudgetLimiter, Unlimited
from llmeval_sdk.offline.data.source import Data, Located
from llmeval_sdk.offline.report.aggregate import Aggregate
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.offline.report.storage import RUN
from llmeval_sdk.offline.run.rows import TOLD, Bad, RowSeal, good_rows
from llmeval_sdk.offline.run.work import InputRow, Work
from llmeval_sdk.plugins.ray._journal import opened
from llmeval_sdk.plugins.ray._output import BlockOutput
from llmeval_sdk.plugins.shared.host import Host
from llmeval_sdk.plugins.shared.limiter import SharedLimiter
from llmeval_sdk.plugins.shared.link import RedisLink
from llmeval_sdk.plugins.shared.settings import SharedSettings
from llmeval_sdk.store.files import make_folder
from llmeval_sdk.store.state import HostLedger, ledger_path


# What the driver of a run tells each worker.


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a worker is told once; it pickles."""

    work: Work
    folder: Path
    header: Mapping[str, Any]
    seal: RowSeal
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
    books = _books_of(task)
    make_folder(books.parent)
    ledger = HostLedger(books, timeout=LOCK_SECONDS)
    limiter = BudgetLimiter(work.budget, ledger)
    if not task.shared:
        return limiter
    address = work.settings.of(SharedSettings).shared
    if address is None:
        raise ConfigurationError(
            "LLMEVAL_SHARED is set for the driver and not for this worker: give all machines the "
            "same environment"
        )
    return SharedLimiter.instead_of(
        limiter,
        host=Host(HostLedger(ledger_path(task.store), "hosts", timeout=LOCK_SECONDS)),
        link=RedisLink(address),
        name=f"run.{task.run_id}",
        longest=work.settings.judge_timeout + 5.0,
    )


def forget_budget(task: Task) -> None:
    """Remove the books of a run that has ended; one that is to be resumed needs them."""
    books = _books_of(task)
    for path in (books, *books.parent.glob(f"{books.name}-*")):  # SQLite's own files
        path.unlink(missing_ok=True)


def _books_of(task: Task) -> Path:
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
        settings = replace(work.settings, store=task.store)
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
            journal = stack.enter_context(opened(task.folder, summary.key, task.seal))
            if journal.attempts(task.session) > ATTEMPTS:
                raise ConfigurationError(
                    f"a worker died {ATTEMPTS} times over one block of {table.num_rows:,} rows: "
                    "a row may take all memory, or an evaluator may end the process; what is "
                    "done is saved, and resume=True (--resume) goes on"
                )
            output = stack.enter_context(BlockOutput(path, work.chosen.outputs, task.seal))

            def emit(row: Row) -> None:
                summary.rows += 1
                summary.aggregate.add(row)
                output.add(row)

            def undone() -> Iterator[InputRow]:
                for item in self._items(table, summary):
                    output.expect(item.number)
                    row = journal.row(item)
                    if row is None:
                        yield item
                    else:
                        emit(row)

            work.run(undone(), emit, journal)

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


class _BlockBad(Bad):
    """Notes the bad rows of a block by their numbers."""

    def __init__(self, summary: BlockSummary, *, skip: bool) -> None:
        super().__init__(skip=skip)
        self._summary = summary

    def add(self, error: DataError, number: int, *, leave_out: bool = False) -> None:
        """Count a bad row or raise its error."""
        super().add(error, number, leave_out=leave_out)
        self._summary.bad += 1
        if len(self._summary.problems) < TOLD:
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

    def __init__(self, digest: Any) -> None:
        self._digest = digest

    def write(self, content: Any) -> int:
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
