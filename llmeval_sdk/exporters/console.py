"""Prints one line per trace with its scores, on standard error."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ExportError
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, NotRun, SpanData
from llmeval_sdk.model.protocols import BaseExporter
from llmeval_sdk.text.terminal import number, printable, score, seconds


class ConsoleExporter(BaseExporter):
    """Writes ``llmeval extract_field 1.24 s | context_precision 0.60 | trace 4bf9…`` lines.

    A trace gets a line when its root span ends, and another one when scores arrive later. Several
    evaluations with the same name are shown as one: as their mean, or as how often each category
    occurred.
    """

    name = "console"

    def __init__(self, settings: Settings | None = None) -> None:
        pass

    def export(self, batch: Batch, /) -> None:
        """Print the lines of a batch's traces in one write."""
        text = "".join(f"{line}\n" for line in _lines(batch))
        stream = sys.stderr
        if not text or stream is None:
            return
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError) as error:  # stderr is closed, or a pipe that nobody reads
            raise ExportError("stderr_closed", str(error)) from error

    def flush(self, timeout: float, /) -> None:
        """Do nothing: a batch is printed when `export` returns."""

    def close(self, timeout: float, /) -> None:
        """Leave standard error open: it is the app's."""


def _lines(batch: Batch) -> Iterable[str]:
    roots = {span.trace_id: span for span in batch.spans if span.is_local_root}
    scores: dict[str | None, list[EvaluationEvent]] = {}
    for event in batch.evaluations:
        scores.setdefault(event.target.trace_id, []).append(event)
    skipped: dict[str | None, list[NotRun]] = {}
    for refusal in batch.not_run:
        skipped.setdefault(refusal.target.trace_id, []).append(refusal)
    for trace_id in dict.fromkeys([*roots, *scores]):
        events = scores.get(trace_id, [])
        parts = [_head(roots.get(trace_id or ""), events), *_folded(e.evaluation for e in events)]
        refusals = dict.fromkeys(f"{r.evaluator} ({r.reason})" for r in skipped.get(trace_id, []))
        if refusals:
            parts.append(f"not run: {printable(', '.join(refusals))}")
        if trace_id:
            parts.append(f"trace {printable(trace_id, 32)}")
        yield "llmeval " + " | ".join(parts)


def _head(root: SpanData | None, events: list[EvaluationEvent]) -> str:
    if root is None:
        names = dict.fromkeys(event.target.span_name or "(no span)" for event in events)
        return printable(", ".join(names))
    text = f"{printable(root.name, 60)} {seconds((root.end_ns - root.start_ns) / 1e9)}"
    return f"{text} | failed: {printable(root.error.type, 60)}" if root.error else text


def _folded(evaluations: Iterable[Evaluation]) -> Iterable[str]:
    by_name: dict[str, list[Evaluation]] = {}
    for evaluation in evaluations:
        by_name.setdefault(evaluation.name, []).append(evaluation)
    for name, same in by_name.items():
        yield f"{printable(name, 60)} {_outcome(same)}"


def _outcome(evaluations: list[Evaluation]) -> str:
    if len(evaluations) == 1:
        return _one(evaluations[0])
    scores = [
        evaluation.value for evaluation in evaluations if type(evaluation.value) in (int, float)
    ]
    others = [
        evaluation for evaluation in evaluations if type(evaluation.value) not in (int, float)
    ]
    words = Counter(
        "failed" if evaluation.error else score(evaluation.value) for evaluation in others
    )
    parts = [f"{times}x {word}" for word, times in words.most_common(4)]
    if scores:
        mean = sum(map(float, scores)) / len(scores)  # type: ignore[arg-type]
        parts.insert(0, f"{number(mean)} (mean of {len(scores)})")
    return ", ".join(parts)


def _one(evaluation: Evaluation) -> str:
    if evaluation.error:
        return f"failed: {printable(evaluation.error.type, 60)}"
    text = score(evaluation.value)
    return f"{text} {printable(evaluation.label, 60)}" if evaluation.label else text
