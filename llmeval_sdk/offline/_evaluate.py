"""``evaluate()``: the evaluators that run online, over rows, in this process."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.offline import _journal
from llmeval_sdk.offline._aggregate import Aggregate
from llmeval_sdk.offline._chosen import Chosen
from llmeval_sdk.offline._data import Data, open_data
from llmeval_sdk.offline._engine import Item
from llmeval_sdk.offline._experiment import slug
from llmeval_sdk.offline._progress import bar
from llmeval_sdk.offline._report import Report
from llmeval_sdk.offline._row import Row, digest_of
from llmeval_sdk.offline._rows import record_from
from llmeval_sdk.offline._table import Rows
from llmeval_sdk.offline._work import Work
from llmeval_sdk.policy.budget import Budget
from llmeval_sdk.protocols import LLM, Exporter, Heuristic, Judge


SPOOLED_BYTES = 64 << 20
"""Rows that wait for a judge are in memory up to this size, and in a temporary file above."""
TOLD = 20
"""Problems of skipped rows that a report keeps."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during `evaluate`; ``report`` has the rows that were done."""

    def __init__(self, report: Report) -> None:
        super().__init__(f"interrupted after {len(report.rows):,} rows")
        self.report = report


def evaluate(
    data: Any,
    *,
    model: Callable[[Any], Any] | None = None,
    evaluators: Sequence[Heuristic | Judge | str | Any] | None = None,
    llm: LLM | str | Callable[..., Any] | None = None,
    concurrency: int = 8,
    progress: bool = True,
    budget: Budget | None = None,
    experiment: str | None = None,
    exporters: Sequence[Exporter | str] = (),
    save: str | os.PathLike[str] | None = None,
    resume: bool = False,
    skip_bad: bool = False,
    cache: bool = True,
) -> Report:
    """Evaluate rows with the evaluators that run online.

    Where rows cost something, because a judge or ``model`` is asked, all of them are read and
    checked before the first is.

    Args:
        data: a list of mappings of the input schema (``request``, ``response``,
            ``retrieved_context``, ``expected_response``, ``trace``, ``extractions`` …) or Records;
            a pandas or polars DataFrame; a Hugging Face Dataset; or the path of a ``.jsonl``,
            ``.csv`` or ``.parquet`` file, which is read row by row.
        model: the app: it is called with each request, under tracing, and what it retrieves,
            answers and uses becomes the row's. Sync or async. It gets ``{"messages": [...]}`` where
            the request is a text. A row on which it raises is reported with its ``error``.
        evaluators: names or objects. Default: every one whose inputs a row has; judges among them
            only where a judge model is configured.
        llm: the judge model: a name, an LLM or a callable; else ``LLMEVAL_JUDGE_MODEL``.
        concurrency: judgements, or calls of the model, at a time.
        progress: show a bar, where there is a terminal.
        budget: what the judges of this run may use; default: no limit.
        experiment: what the run is called in every backend.
        exporters: where spans and scores go beside the report: names or objects. Default: nowhere.
        save: a file to which each row is written as soon as it is done; see `Report.load`.
        resume: go on with the rows that ``save`` does not have, or that failed.
        skip_bad: leave out rows that cannot be read, and count them.
        cache: use verdicts of earlier runs where judge, model and inputs are the same.

    Raises:
        DataError: a row that cannot be read; the message names file, line and column.
        ConfigurationError: an unknown evaluator, a judge without a model to ask, data of no known
            kind.
        Interrupted: Ctrl-C; the exception has the report so far.
    """
    opened = open_data(data)
    work = Work(
        model=model,
        evaluators=None if evaluators is None else tuple(_listed(evaluators)),
        llm=llm,
        concurrency=concurrency,
        budget=budget,
        exporters=tuple(exporters),
        experiment=slug(experiment or f"offline-{Path(opened.name).stem or 'rows'}"),
        cache=cache,
    )
    judge = llm if isinstance(llm, str) else work.settings.judge_model
    header = {
        "experiment": work.experiment,
        "evaluators": list(work.chosen.names),
        "judge": judge if work.chosen.judges else None,
    }
    bad = Bad(skip=skip_bad)
    with ExitStack() as stack:
        count = opened.count
        items = good_rows(opened, work.chosen, bad, answered=model is None, digests=bool(save))
        if work.is_paid:
            checked = stack.enter_context(Checked())
            checked.fill(items)
            count, items = checked.count, iter(checked)
        out = Collected(save, header, resume=resume)
        tick = stack.enter_context(bar(work.experiment, count, shown=progress))

        def emit(row: Row) -> None:
            out.add(row)
            tick(1)

        def report(**more: Any) -> Report:
            return Report(
                out.rows,
                out.aggregate,
                work.experiment,
                work.chosen.names,
                bad.count,
                tuple(bad.told),
                **more,
            )

        try:
            delivery = work.run(out.undone(items, tick), emit)
        except KeyboardInterrupt:
            out.rows.flush()
            raise Interrupted(report()) from None
        out.finish({"skipped": bad.count, "problems": bad.told})
        return report(delivery=delivery)


def _listed(evaluators: Any) -> Sequence[Any]:
    if isinstance(evaluators, str):
        raise ConfigurationError(f"evaluators must be a list: [{evaluators!r}]")
    return evaluators  # type: ignore[no-any-return]


class Bad:
    """Rows that cannot be read: the first ends everything, unless they are to be skipped."""

    def __init__(self, *, skip: bool) -> None:
        self.skip = skip
        self.count = 0
        self.told: list[str] = []

    def add(self, error: DataError) -> None:
        """Count one, or raise it."""
        if not self.skip:
            raise error
        self.count += 1
        if len(self.told) < TOLD:
            self.told.append(str(error))


def good_rows(
    data: Data, chosen: Chosen, bad: Bad, *, answered: bool, digests: bool
) -> Iterator[Item]:
    """Yield the rows that can be evaluated."""
    seen: set[int] = set()
    for number, place, row in data.rows:
        try:
            if isinstance(row, DataError):
                raise DataError(f"{place}: {row}")
            record = record_from(row, number=number, place=place)
            chosen.check(record, place, answered=answered)
            if record.request_id is not None:
                mark = hash(record.request_id)  # of all ids together, 60 MB a million
                if mark in seen:
                    raise DataError(
                        f"{place}, column 'request_id': {record.request_id!r} was there before"
                    )
                seen.add(mark)
        except DataError as error:
            bad.add(error)
            continue
        yield Item(number, record, digest_of(record) if digests else "")


class Checked:
    """All rows, read to their end and put aside, so that none is bad once the first is paid for."""

    def __init__(self) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(SPOOLED_BYTES)  # noqa: SIM115
        self.count = 0

    def fill(self, items: Iterable[Item]) -> None:
        """Put rows aside; raises `DataError` for one that is bad."""
        for item in items:
            try:
                pickle.dump(item, self._file, pickle.HIGHEST_PROTOCOL)
            except Exception as error:
                raise DataError(
                    f"row {item.number} holds what cannot be put aside: {error}"
                ) from None
            self.count += 1

    def __enter__(self) -> Checked:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Item]:
        self._file.seek(0)
        for _ in range(self.count):
            yield pickle.load(self._file)  # noqa: S301 - written above


class Collected:
    """The rows that are done, in memory or in a file, and their aggregate."""

    def __init__(self, save: Any, header: dict[str, Any], *, resume: bool) -> None:
        self.aggregate = Aggregate()
        self._path = None if save is None else Path(save)
        self._header = header
        self._resumed: _journal.Resumed | None = None
        if self._path is None:
            if resume:
                raise ConfigurationError("resume needs the file that was saved to: pass save=")
            self.rows = Rows()
        elif resume and self._path.exists():
            self._resumed = _journal.Resumed(self._path, header)
            self.rows = self._resumed.rows
        else:
            self.rows = _journal.begin(self._path, header)

    def add(self, row: Row) -> None:
        """Take a row that is done."""
        self.rows.append(row)
        self.aggregate.add(row)

    def undone(self, items: Iterable[Item], tick: Callable[[int], None]) -> Iterator[Item]:
        """Yield the rows that an interrupted run has not done, and take the others as they are."""
        for item in items:
            done = self._resumed.take(item.number, item.digest) if self._resumed else None
            if done is None:
                yield item
            else:
                self.aggregate.add(done)
                tick(1)

    def finish(self, about: dict[str, Any]) -> None:
        """Complete the file."""
        if self._path is None:
            return
        self.rows.flush()
        if self._resumed is not None or about["skipped"]:
            _journal.copy(self._path, {**self._header, **about}, iter(self.rows), self.aggregate)
        else:
            _journal.finish(self.rows, self.aggregate, about)
