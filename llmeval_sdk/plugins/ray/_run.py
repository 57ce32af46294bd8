"""A run on Ray Data: the blocks of the data go through a pool of actors, and become one report."""

from __future__ import annotations

import logging
import os
import pickle
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from llmeval_sdk.errors import ConfigurationError, DataError, LlmevalError, missing_extra
from llmeval_sdk.offline.report.aggregate import run_of
from llmeval_sdk.offline.report.report import Report
from llmeval_sdk.offline.report.storage import (
    REPORT,
    RUN,
    VERSION,
    BlockRows,
    TemporaryFolder,
    check_resumable,
    finish_folder,
    read_run,
    write_json,
)
from llmeval_sdk.offline.run.rows import bar
from llmeval_sdk.offline.run.work import Work
from llmeval_sdk.plugins.ray._block import (
    BlockEvaluator,
    BlockSummary,
    Task,
    check_budget,
    forget_budget,
    is_shared,
)
from llmeval_sdk.plugins.ray._dataset import Opened, check_data, open_dataset
from llmeval_sdk.plugins.ray._merge import CheckedBlocks, EvaluatedBlocks
from llmeval_sdk.process import private
from llmeval_sdk.store.files import path_of


STORE_BYTES = 512 << 20
"""Memory for blocks on their way to workers, of a Ray that is started here."""


class Cluster(NamedTuple):
    """Where a run takes place."""

    ray: Any
    workers: int
    machines: int
    processors: float
    """What a worker takes of Ray's processors, so that something is left for what reads."""


def _import_ray() -> Any:
    """Import Ray, which then reports nothing of its use to anybody.

    Raises:
        MissingExtraError: it is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # noqa: TID251 - it is Ray that reads it
    try:
        import ray
        import ray.data
    except ImportError:
        raise missing_extra("engine='ray'", "ray", "ray") from None
    return ray


@contextmanager
def connected(ray: Any, workers: int | None) -> Iterator[Cluster]:
    """Use the Ray of this process, else that of ``RAY_ADDRESS``, else start one meanwhile.

    Raises:
        ConfigurationError: it cannot be reached, or has too few processors for the workers.
    """
    started = not ray.is_initialized()
    if started:
        _start(ray, workers)
    try:
        processors = int(ray.cluster_resources().get("CPU", 0))
        most = max(1, processors - 1)  # one is left for what reads the data
        if workers is not None and workers > most:
            raise ConfigurationError(
                f"workers={workers} (--workers): Ray has {processors} processors, of which one "
                f"reads; pass at most {most}"
            )
        machines = sum(bool(node["Alive"]) for node in ray.nodes())
        yield Cluster(ray, workers or most, machines, 1.0 if processors > 1 else 0.5)
    finally:
        if started:
            ray.shutdown()


def _start(ray: Any, workers: int | None) -> None:
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"ray\.")  # they are about code of ours and of Ray
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # noqa: TID251 - Ray's own
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    try:
        if os.environ.get("RAY_ADDRESS"):  # noqa: TID251 - Ray's own
            ray.init(**quiet)
            return
        ray.init(
            address="local",
            num_cpus=(workers or os.cpu_count() or 1) + 1,  # workers, and what reads
            include_dashboard=False,
            object_store_memory=STORE_BYTES,
            _node_ip_address="127.0.0.1",
            **quiet,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"Ray cannot be used: {error}") from None


class RayRun:
    """Evaluates data on Ray. `run` does it, and `report` sums up what was done so far.

    Args:
        data: a Dataset, or the path of Parquet files.
        work: what is to be done to every row.
        header: says what the run is, as saved reports do.
        save: the folder to which each block is written; without it a temporary one.
        resume: go on with what ``save`` holds.
        skip_bad: leave out rows that cannot be read, and count them.
        progress: show a progress bar.
        workers: how many actors evaluate; by default as many as Ray has processors, less one.

    Raises:
        ConfigurationError: an option makes no sense with Ray, or the data is no data for it.
        MissingExtraError: Ray is not installed.
    """

    def __init__(
        self,
        data: Any,
        work: Work,
        header: Mapping[str, Any],
        *,
        save: Any,
        resume: bool,
        skip_bad: bool,
        progress: bool,
        workers: int | None,
    ) -> None:
        _check_options(work, save, resume=resume, workers=workers)
        self._paths = check_data(data)
        self._ray = _import_ray()
        self._data = data
        self._work = work
        self._header = {"llmeval_report": VERSION, **header}
        self._progress = progress
        self._workers = workers
        self._resume = resume
        self._temporary = None if save is not None else TemporaryFolder()
        self._folder = Path(save if self._temporary is None else self._temporary.path).resolve()
        self._checked = CheckedBlocks("", skip_bad)
        self._evaluated = EvaluatedBlocks(self._folder, {})

    def run(self) -> None:
        """Evaluate everything.

        Raises:
            DataError: a row cannot be read.
            ConfigurationError: the budget cannot hold, or workers are not set up as the driver is.
        """
        with connected(self._ray, self._workers) as whole:
            check_budget(self._work, whole.machines)
            if self._temporary is not None and whole.machines > 1:
                raise ConfigurationError(
                    f"the cluster has {whole.machines} machines: name a folder that all of them "
                    "share with save= (--save)"
                )
            is_paid = self._work.is_paid
            opened = open_dataset(
                self._ray, self._data, self._paths, self._work.chosen, paid=is_paid
            )
            self._checked.name = opened.name
            task, cluster = self._task(whole)
            count = opened.rows
            if is_paid:
                with bar("checking rows", count, shown=self._progress) as tick:
                    for summary in _summaries(cluster, opened, replace(task, only_check=True)):
                        self._checked.add(summary)
                        tick(summary.length)
                count = self._checked.length
                self._check_resumed()
                task = replace(task, left_out=self._checked.left_out())
                self._evaluated.left_out = dict(task.left_out)
            with bar(self._work.experiment, count, shown=self._progress) as tick:
                for summary in _summaries(cluster, opened, task):
                    self._evaluated.add(summary, self._repeated(summary))
                    tick(summary.length)
        self._finish()
        forget_budget(task)

    def report(self) -> Report:
        """Sum up the blocks that are done."""
        work, evaluated = self._work, self._evaluated
        evaluated.aggregate.put_in_order(work.chosen.names)
        return Report(
            BlockRows(self._folder, evaluated.blocks, self._temporary),
            evaluated.aggregate,
            work.experiment,
            work.chosen.names,
            self._checked.bad,
            tuple(self._checked.problems),
            outputs=work.chosen.outputs,
            run=run_of(self._header),
        )

    def _task(self, cluster: Cluster) -> tuple[Task, Cluster]:
        """Return what workers are told, and a cluster of no more workers than judgements."""
        work = self._work
        run_id = self._begin()
        if work.is_paid:
            cluster = cluster._replace(workers=min(cluster.workers, work.places))
            work = replace(work, concurrency=max(1, work.places // cluster.workers))
        task = Task(
            work=work,
            folder=self._folder,
            header=self._header,
            store=str(path_of(work.settings.store).resolve()),
            shared=is_shared(work),
            run_id=run_id,
            session=uuid4().hex,
            skip_bad=self._checked.skip_bad,
        )
        try:
            self._ray.cloudpickle.dumps(task)
        except Exception as error:
            raise ConfigurationError(
                "the evaluators and models of a run on Ray go to other processes, and one of them "
                f"cannot be pickled: {error}; name it ('module:attribute') in place of the object"
            ) from None
        return task, cluster

    def _begin(self) -> str:
        """Make the folder, or go on with it; return what the run is called in shared places."""
        folder = self._folder
        if folder.is_file() or (
            folder.is_dir() and any(folder.iterdir()) and not (folder / RUN).exists()
        ):
            raise ConfigurationError(
                f"{folder} is not the folder of a run on Ray and is not written to: name another "
                "one with save= (--save)"
            )
        try:
            private.make_folder(folder)
            if self._resume and (folder / RUN).exists():
                before = read_run(folder)
                check_resumable(folder, before, self._header)
                return str(before["run"])
            for pattern in ("*.parquet", "*.verdicts", "*.tmp", "*.db*", REPORT):
                for path in folder.glob(pattern):
                    path.unlink()
            run_id = uuid4().hex
            write_json(folder / RUN, {**self._header, "run": run_id})
        except OSError as error:
            raise ConfigurationError(f"{folder} cannot be written: {error.strerror}") from None
        return run_id

    def _check_resumed(self) -> None:
        """Refuse to go on where what was paid for would not be found again."""
        if not self._resume:
            return
        keys = {key for key, _ in self._checked.repeated}
        begun = {path.stem for path in self._folder.iterdir() if path.suffix in _OF_BLOCKS}
        if begun - keys:
            raise ConfigurationError(
                f"{self._folder} cannot be resumed: {len(begun - keys):,} of its {len(begun):,} "
                "blocks are not among those of this data; give it the same rows in the same "
                "partitions, or start anew without resume"
            )

    def _repeated(self, summary: BlockSummary) -> frozenset[int]:
        """Return the rows of the next block that have the id of an earlier row."""
        if not self._work.is_paid:
            return self._checked.add(summary)
        number, checked = len(self._evaluated.blocks), self._checked.repeated
        if number >= len(checked) or checked[number][0] != summary.key:
            raise DataError(
                "the Dataset gave other rows when it was read for the second time: call "
                "materialize() on it first"
            )
        return checked[number][1]

    def _finish(self) -> None:
        evaluated = self._evaluated
        evaluated.aggregate.put_in_order(self._work.chosen.names)
        keys = {block.key for block in evaluated.blocks}
        for path in self._folder.iterdir():
            if path.suffix in _OF_BLOCKS and path.stem not in keys:
                path.unlink()
        about = {"skipped": self._checked.bad, "problems": self._checked.problems}
        finish_folder(self._folder, evaluated.blocks, evaluated.aggregate, about)


_OF_BLOCKS = (".parquet", ".verdicts")


def _check_options(work: Work, save: object, *, resume: bool, workers: int | None) -> None:
    if work.model is not None:
        raise ConfigurationError(
            "engine='ray' evaluates rows that have answers: model= (--model) runs with the local "
            "engine alone"
        )
    if work.exporters:
        raise ConfigurationError(
            "engine='ray' writes its results to save= (--save): exporters= (--exporters) works "
            "with the local engine alone"
        )
    if resume and save is None:
        raise ConfigurationError("resume= needs the folder of the earlier run: pass it as save=")
    if workers is not None and (type(workers) is not int or workers < 1):
        raise ConfigurationError(f"workers must be a whole number from 1 on, not {workers!r}")


def _summaries(cluster: Cluster, opened: Opened, task: Task) -> Iterator[BlockSummary]:
    """Send the blocks through the workers; yield their summaries in the order of the data."""
    ray = cluster.ray
    blocks = {"batch_size": None, "batch_format": "pyarrow", "num_cpus": cluster.processors}
    if task.only_check:  # tasks begin at once, where actors are started first
        evaluated = opened.dataset.map_batches(partial(_check, task), **blocks)
    else:
        evaluated = opened.dataset.map_batches(
            BlockEvaluator,
            fn_constructor_args=(task,),
            compute=ray.data.ActorPoolStrategy(
                size=min(cluster.workers, opened.blocks or cluster.workers)
            ),
            **blocks,
        )
    context = evaluated.context
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    try:
        for batch in evaluated.iter_batches(batch_size=None, batch_format="pyarrow"):
            for cell in batch.column("summary").to_pylist():
                summary = pickle.loads(cell)  # noqa: S301 - our own worker wrote it
                if summary.failure is not None:
                    raise ConfigurationError(summary.failure)
                yield summary
    except ray.exceptions.RayError as error:
        raise _plain_error(error) from None


def _check(task: Task, table: object) -> Any:
    return BlockEvaluator(task)(table)


def _plain_error(error: BaseException) -> LlmevalError:
    """Say in one line what Ray says in a hundred."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if _NAMED.match(line)]
    why = (causes or lines or [""])[0]
    return LlmevalError(
        f"Ray could not read or evaluate a block: {type(error).__name__}: {why}; what is done is "
        "saved, and resume=True (--resume) goes on"
    )


_NAMED = re.compile(r"(?!ray\.)[\w.]+(Error|Exception)\b")
"""How the line of a traceback begins that names what was raised."""
