"""An offline run as traces: what the app does is recorded, and goes to exporters if there are any.

In every backend it stands apart from what is online: MLflow experiment, Phoenix project, Datadog ML
app and OTel service bear the experiment's name, each span has it as a tag, and the local store is
a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from llmeval_sdk import config, runtime
from llmeval_sdk._stats import ExporterStats
from llmeval_sdk.config import Settings
from llmeval_sdk.evaluation import addressed
from llmeval_sdk.model import Record, Target
from llmeval_sdk.offline.results.row import Row
from llmeval_sdk.offline.run.recording import Recording, Trail, with_ids
from llmeval_sdk.protocols import Exporter
from llmeval_sdk.tracing import Span, task
from llmeval_sdk.tracing._inner import state


TAG = "experiment"
FLUSH_EVERY = 2_000
"""Evaluations after which delivery is waited for, so that no queue runs over."""
FLUSH_SECONDS = 120.0


class Experiment:
    """Records the rows of one run; use it inside `recording`."""

    def __init__(self, name: str, recording: Recording, *, exports: bool) -> None:
        self.name = name
        self.exports = exports
        self._recording = recording
        self._waiting = 0

    def open(self, record: Record) -> AbstractContextManager[tuple[Span, Trail]]:
        """Open the span of a row."""
        attributes = {"request_id": record.request_id} if record.request_id else None
        scope = task(self.name, tags={TAG: self.name}, request=record.request, metadata=attributes)
        return self._recording.row(scope)

    def mark(self, record: Record) -> Record:
        """Make a span for a row that was answered before, and return the row with its ids."""
        with self.open(record) as (span, _):
            span.annotate(
                response=record.response,
                retrieved_context=record.retrieved_context,
                extractions=record.extractions,
                expected_facts=record.expected_facts,
                expected_response=record.expected_response,
                expected_retrieved_context=record.expected_retrieved_context,
            )
        return with_ids(record, span)

    def submit(self, row: Row) -> None:
        """Send what was said of a row."""
        record, pipeline = row.record, runtime.pipeline()
        if pipeline is None or record.span_id is None:
            return
        target = Target(record.trace_id, record.span_id, record.span_name, record.span_kind)
        for evaluation in row.evaluations.values():
            pipeline.submit(addressed(evaluation, target))
        self._waiting += 1 + len(row.evaluations)
        if self._waiting >= FLUSH_EVERY:
            self._waiting = 0
            runtime.flush(FLUSH_SECONDS)

    def finish(self) -> Mapping[str, ExporterStats]:
        """Wait until all is delivered and return each exporter's account."""
        return runtime.flush(FLUSH_SECONDS).exporters


@contextmanager
def recording(
    name: str, exporters: Sequence[Exporter | str], settings: Settings
) -> Iterator[Experiment]:
    """Set tracing up for a run; the app's own set-up stands aside and comes back.

    Raises:
        ConfigurationError: an exporter that is not known or lacks its library.
    """
    names = tuple(name for name in exporters if isinstance(name, str))
    given = tuple(each for each in exporters if not isinstance(each, str))
    problems: list[str] = []
    resolved = config.from_environment(
        problems=problems,
        exporters=names if exporters else ("memory",),  # whatever the environment names
        evaluators=(),
        judge_share=0.0,
        prices=settings.prices,
        enabled=True,
        trace_sample_rate=1.0,
        spool="",
        worker="thread",
        store=str(store_of(settings)),
        **config.in_experiment(name),
    )
    others = state.recorder
    with runtime.recording(resolved, problems, exporters=given, exports=bool(exporters)):
        assert state.recorder is not None
        recorder = state.recorder = Recording(state.recorder, others, settings.prices)
        yield Experiment(name, recorder, exports=bool(exporters))


def store_of(settings: Settings) -> Path:
    """Return the local store of experiments, beside that of the app."""
    return Path(settings.store).with_name("experiments.db")


def slug(name: str) -> str:
    """Make a name that every backend takes."""
    return re.sub(r"[^a-z0-9_.-]+", "-", name.lower()).strip("-.") or "rows"
