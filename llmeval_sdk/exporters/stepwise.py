"""Sends one batch in several requests, so that each record is counted exactly once.

When a request fails in a way that may pass, the exporter raises an error, and delivery calls it
again with the same batch. Records that were settled by then are not sent or counted a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, NamedTuple

from llmeval_sdk.errors import ExportError
from llmeval_sdk.exporters.http import NOT_A_BACKEND, ServerAnswer
from llmeval_sdk.model import Batch
from llmeval_sdk.model.protocols import BaseExporter
from llmeval_sdk.process.shield import tell


class ExportStep(NamedTuple):
    """One request: its records and how to send them."""

    send: Callable[[list[Any]], ServerAnswer]
    records: list[Any]
    counted: bool = True
    """False for an addition to records that another step counts."""
    rejected: Callable[[bytes], tuple[int, str]] | None = None
    """Reads from a successful answer how many records the server did not take all the same, and
    why.

    Raises ValueError for an answer that no server of this kind would give.
    """
    patience: float = 0.0
    """For how many seconds the answer 404 means that something is not there yet."""


class Progress:
    """What has become of one batch so far."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.begun = monotonic()
        self.steps: list[ExportStep] = []
        self.later: list[ExportStep] = []
        self.delivered = 0
        self.refused: Counter[str] = Counter()

    def settle(self, step: ExportStep, reason: str | None = None) -> None:
        """Count the records of a step as delivered, or as refused for a reason."""
        if not step.counted:
            return
        if reason is None:
            self.delivered += len(step.records)
        else:
            self.refused[reason] += len(step.records)

    def stopped(self, error: ExportError) -> ExportError:
        """Return a failure with the counts of what was settled before it."""
        error.delivered, error.refused = self.delivered, dict(self.refused)
        return error


class StepwiseExporter(BaseExporter):
    """An exporter that plans each batch as steps. Subclasses write `plan`."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Add the steps of a batch to ``progress``; may raise `ExportError`."""
        raise NotImplementedError

    def export(self, batch: Batch, /) -> Mapping[str, int] | None:
        """Send a batch; when called again with the same one, only what is not settled yet."""
        progress = self._progress
        if progress is None or progress.batch is not batch:
            progress = Progress(batch)
            self.plan(batch, progress)
            self._progress = progress
        while progress.steps:
            self._do(progress.steps[0], progress)
        if progress.later:
            progress.steps, progress.later = progress.later, []
            waiting = ExportError("not_there_yet", retryable=True, retry_after=0.5)
            raise progress.stopped(waiting)
        self._progress = None
        return progress.refused

    def explain(self, answer: ServerAnswer) -> str:
        """Return the log line for a refusal; a subclass may add what a person can do."""
        failure = answer.failure()
        return f"{failure.reason}: {str(failure)[:200]}"

    def after_fork(self) -> None:
        """Forget in a child what the parent was sending."""
        self._progress = None

    def _do(self, step: ExportStep, progress: Progress) -> None:
        """Send one request and settle its records; raise if another attempt may succeed."""
        try:
            answer = step.send(step.records)
        except ExportError as error:
            raise progress.stopped(error) from error.__cause__
        if answer.ok:
            self._taken(step, answer, progress)
        elif answer.status == 413 and len(step.records) > 1:
            half = len(step.records) // 2
            first, rest = step.records[:half], step.records[half:]
            progress.steps[0:1] = [step._replace(records=first), step._replace(records=rest)]
            return
        elif answer.status == 404 and monotonic() - progress.begun < step.patience:
            progress.later.append(step)
        else:
            failure = answer.failure()
            if failure.retryable:
                raise progress.stopped(failure)
            tell(f"exporter {self.name}", self.explain(answer)[:300])
            progress.settle(step, failure.reason)
        del progress.steps[0]

    def _taken(self, step: ExportStep, answer: ServerAnswer, progress: Progress) -> None:
        try:
            lost, why = step.rejected(answer.body) if step.rejected else (0, "")
        except ValueError as error:
            tell(f"exporter {self.name}", f"{NOT_A_BACKEND}: {error}; check the address")
            progress.settle(step, NOT_A_BACKEND)
            return
        lost = min(lost, len(step.records))
        if lost:
            tell(f"exporter {self.name}", f"the server rejected {lost} records: {why[:200]}")
            progress.settle(step._replace(records=step.records[:lost]), "rejected")
        progress.settle(step._replace(records=step.records[lost:]))
