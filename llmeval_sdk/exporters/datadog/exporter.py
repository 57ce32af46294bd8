"""Sends spans by ddtrace and evaluations by ourselves, and accounts for both."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping

from llmeval_sdk._process.shield import shield, swallow
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ExportError
from llmeval_sdk.exporters.datadog.intake import Intake, parts, told
from llmeval_sdk.exporters.datadog.labels import Labels
from llmeval_sdk.exporters.datadog.library import Library
from llmeval_sdk.exporters.datadog.live import Live
from llmeval_sdk.exporters.datadog.metrics import UnsendableError, encode, metric
from llmeval_sdk.exporters.datadog.spans import Spans
from llmeval_sdk.model import Batch, EvaluationEvent, Target


_signals: set[Callable[[], None]] = set()
"""What ddtrace calls on SIGTERM already; it must not be told twice."""


class Progress:
    """What became of one batch so far, kept while delivery tries again."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.waiting: list[list[bytes]] = []
        self.delivered = 0
        self.refused: Counter[str] = Counter()


class DatadogExporter:
    """A span counts as delivered when ddtrace took it, an evaluation when Datadog answered."""

    name = "datadog"
    gives_ids = True

    def __init__(self, library: Library, settings: Settings) -> None:
        self.library = library
        self.surroundings = Live(
            library,
            content=settings.capture_content is True,
            names=settings.capture_content in (True, False),
        )
        self.on_start = self.surroundings.on_start
        self.on_end = self.surroundings.on_end
        self.on_drop = self.surroundings.on_drop
        self.use_redactor = self.surroundings.use_redactor
        self._spans = Spans(library, self.surroundings)
        self._intake = Intake(library, timeout=settings.datadog_timeout)
        self._labels = Labels()
        self._progress: Progress | None = None
        self._flushing: threading.Thread | None = None

    def export(self, batch: Batch, /) -> Mapping[str, int] | None:
        """Finish the spans, post the evaluations; called again with the same batch, the rest."""
        progress = self._progress
        if progress is None or progress.batch is not batch:
            progress = self._progress = self._begin(batch)
        while progress.waiting:
            self._post(progress)
        self._progress = None
        return progress.refused

    def flush(self, timeout: float, /) -> None:
        """Have ddtrace send its spans; it may hang for longer than we may wait."""
        if self._flushing is not None and self._flushing.is_alive():
            self._flushing.join(timeout)
            return

        def send() -> None:
            with shield("exporter datadog: flush", calls_out=True):
                self._spans.send()

        self._flushing = threading.Thread(target=send, name="llmeval-datadog-flush", daemon=True)
        try:
            self._flushing.start()
        except RuntimeError:  # at interpreter exit no thread starts any more
            self._flushing = None
            send()
            return
        self._flushing.join(timeout)

    def close(self, timeout: float, /) -> None:
        """Flush; ddtrace itself stays enabled, it is the app's too."""
        self.flush(timeout)
        self._intake.close()

    def after_fork(self) -> None:
        """Begin anew in a child: what waits is the parent's."""
        self._progress = self._flushing = None
        self.surroundings.process = object()
        self._intake.after_fork()

    def at_exit_signal(self, deliver: Callable[[], None]) -> None:
        """Have ddtrace call ``deliver`` on SIGTERM, which it already handles, before its own."""
        if deliver not in _signals:
            _signals.add(deliver)
            with shield("exporter datadog: signals", calls_out=True):
                self.library.at_exit_signal(deliver)

    def at_flush(self, deliver: Callable[[], None]) -> None:
        """Have ``LLMObs.flush()`` call ``deliver`` first: the scores are part of what it sends."""
        with shield("exporter datadog: flush", calls_out=True):
            self.library.before_flush(deliver)

    # -- inside ---------------------------------------------------------------------------------

    def _begin(self, batch: Batch) -> Progress:
        progress = Progress(batch)
        progress.refused += self._spans.finish(batch.spans)
        progress.delivered = len(batch.spans) - progress.refused.total()
        written = []
        for event in batch.evaluations:
            try:
                written.append(self._written(event))
            except UnsendableError as reason:
                progress.refused[str(reason)] += 1
            except Exception as error:
                if not swallow("exporter datadog: writing", error):
                    raise
                progress.refused["unwritable"] += 1
        progress.waiting = parts(written)
        return progress

    def _written(self, event: EvaluationEvent) -> bytes:
        return encode(
            metric(
                event,
                label=self._labels.of(event.evaluation.name),
                join_on=self._ids(event.target),
                app=self.library.app,
                version=self.library.version,
            )
        )

    def _ids(self, target: Target) -> dict[str, str | None]:
        try:
            ids = self.surroundings.ids(target.trace_id or "0", target.span_id or "0")
        except ValueError:  # ids of somebody else's making
            return {"span_id": target.span_id, "trace_id": target.trace_id}
        return {
            "span_id": ids["span_id"] if target.span_id else None,
            "trace_id": ids["trace_id"] if target.trace_id else None,
        }

    def _post(self, progress: Progress) -> None:
        """Send one request and settle its metrics; what fails for now raises."""
        metrics = progress.waiting[0]
        try:
            answer = self._intake.post(metrics)
        except ExportError as error:
            error.delivered, error.refused = progress.delivered, dict(progress.refused)
            raise
        if answer.ok:
            progress.delivered += len(metrics)
        elif answer.status == 413 and len(metrics) > 1:
            half = len(metrics) // 2
            progress.waiting[0:1] = [metrics[:half], metrics[half:]]
            return
        else:
            failure = answer.failure()
            if failure.retryable:
                failure.delivered, failure.refused = progress.delivered, dict(progress.refused)
                raise failure
            told(self.name, answer)
            progress.refused[failure.reason] += len(metrics)
        del progress.waiting[0]
