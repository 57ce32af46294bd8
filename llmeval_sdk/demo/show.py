"""The tables about answers and scores.

Every number is read back from the store, as any other tool would read what the SDK delivered.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from llmeval_sdk.demo.grading import OUTCOMES
from llmeval_sdk.model import Chunk, Evaluation, NotRun, SpanData
from llmeval_sdk.store.effective import counting
from llmeval_sdk.store.lookup import spans_like
from llmeval_sdk.store.reader import StoreReader


SPAN = "extract_field"
JUDGE = "context_recall_llm"


@dataclass(frozen=True, slots=True)
class Result:
    """One request: its span, what evaluators said of it, and which judges did not run."""

    span: SpanData
    evaluations: Mapping[str, Evaluation]
    decisions: Mapping[str, Evaluation]
    """What a decision model said in the place of judges."""
    not_run: tuple[NotRun, ...]
    chunks: tuple[Chunk, ...]
    """What the search found, in rank order."""
    steps: Mapping[str, float]
    """Seconds that each span below took, by its name."""

    @property
    def field(self) -> str:
        """Which field was asked for."""
        return self.span.tags.get("field", "")

    @property
    def outcome(self) -> str:
        """How the answer compares with the header: a key of ``grading.OUTCOMES``."""
        return str(self.value("against_header") or "")

    @property
    def answered(self) -> bool:
        """Whether the app gave a value."""
        return self.outcome in ("right", "wrong", "invented")

    @property
    def verdict(self) -> Evaluation | None:
        """What the judge said, or that it failed; ``None`` if it did not run."""
        return self.evaluations.get(JUDGE)

    @property
    def seconds(self) -> float:
        """How long the whole request took."""
        return (self.span.end_ns - self.span.start_ns) / 1e9

    def value(self, name: str) -> Any:
        """Return what one evaluator said, ``None`` if nothing."""
        found = self.evaluations.get(name)
        return None if found is None else found.value

    def reasons(self, threshold: float) -> tuple[str, ...]:
        """Say why the plain rule flags this record; empty where it does not."""
        recall = self.value("context_recall_heuristic")
        low = recall is not None and recall < threshold
        cut = self.value("recall_warning") == "HIT_RETRIEVAL_LIMIT"
        return (("recall below threshold",) if low else ()) + (("hit limit",) if cut else ())


def read(store: str | os.PathLike[str], since_ns: int) -> list[Result]:
    """Read the requests that began since a moment (nanoseconds since the epoch), oldest first."""
    with StoreReader(store) as reader:
        refs = [
            ref
            for ref in reader.read(lambda c: spans_like(c, "", 1_000_000))
            if ref.name == SPAN and ref.trace_id and (ref.start_ns or 0) >= since_ns
        ]
        found = [_result(reader, ref.trace_id or "", ref.span_id) for ref in refs]
    return sorted((each for each in found if each), key=lambda each: each.span.start_ns)


def _result(reader: StoreReader, trace_id: str, span_id: str) -> Result | None:
    spans = reader.trace(trace_id)
    span = next((span for span in spans if span.span_id == span_id), None)
    if span is None:
        return None
    events = reader.evaluations_of(span_id)
    return Result(
        span,
        {event.evaluation.name: event.evaluation for event in counting(events)},
        {
            event.evaluation.name: event.evaluation
            for event in events
            if event.evaluation.evaluator_kind == "decision" and event.evaluation.error is None
        },
        reader.not_run_of(span_id),
        next((each.retrieved_context for each in spans if each.retrieved_context), ()),
        {each.name: (each.end_ns - each.start_ns) / 1e9 for each in spans if each is not span},
    )


SCORES = {
    "context_relevance": "relevance",
    "context_precision": "precision",
    "context_recall_heuristic": "recall",
    "multi_source_agreement": "agreement",
    "aggregated_confidence": "confidence",
}
WIDE = 96
"""From this many columns on, tables have more space."""
PATTERNS = {"unanimous": "█", "majority": "▓", "mixed": "▒", "conflicting": "░"}


def section(console: Console, title: str, body: RenderableType, note: str = "") -> None:
    """Print a heading, what stands under it, and what it means."""
    console.print(Text(f"\n{title}", style="bold"))
    console.print(body)
    if note:
        console.print(Text(note, style="dim"))


def table(console: Console, *columns: str) -> Table:
    """Make a table in the demo's style: first column left, numbers right."""
    space = 1 if console.width >= WIDE else 0
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, space, 0, 0), show_edge=False)
    for number, column in enumerate(columns):
        made.add_column(column, justify="right" if number else "left", no_wrap=True)
    return made


def accuracy(console: Console, results: Sequence[Result]) -> None:
    """Compare answers with the metadata headers, by field."""
    made = table(
        console, "field", "records", "stated", "right", "wrong", "missed", "accuracy",
        "abstained", "invented",
    )  # fmt: skip
    for field, rows in _by_field(results):
        counts = Counter(row.outcome for row in rows)
        stated = counts["right"] + counts["wrong"] + counts["missed"]
        made.add_row(
            field, str(len(rows)), str(stated), str(counts["right"]), str(counts["wrong"]),
            str(counts["missed"]), percent(counts["right"], stated),
            str(counts["abstained"]), str(counts["invented"]),
        )  # fmt: skip
    note = (
        "stated: the text holds what the header says, so that it can be found;"
        " accuracy = right / stated. Where the text is silent, no answer (abstained) is the good"
        " outcome and an answer (invented) the bad one."
    )
    section(console, "Extraction against ground truth (the metadata headers)", made, note)


def scores(console: Console, results: Sequence[Result], judge: str) -> None:
    """Show the mean of each score, by field and by outcome."""
    columns = (*SCORES.values(), "semantic", judge)
    made = table(console, "field", *columns)
    for field, rows in _by_field(results):
        made.add_row(field, *_means(rows))
    note = (
        "agreement: records with two extractions or more. semantic: semantic_validation, passes /"
        " (passes + fails); a licence known by its wording fails it, as its name is not there. "
        f"{judge}: mean verdict over the escalated records that were judged."
    )
    section(console, "Scores, mean by field", made, note)
    made = table(console, "outcome", "n", *columns)
    for outcome in OUTCOMES:
        rows = [row for row in results if row.outcome == outcome]
        if rows:
            made.add_row(outcome, str(len(rows)), *_means(rows))
    note = (
        "missed and abstained are answers without a value: neither good nor bad by themselves,"
        " so no score of a value speaks about them."
    )
    section(console, "Scores, mean by outcome", made, note)


def patterns(console: Console, results: Sequence[Result]) -> None:
    """Draw how the chunks agree, by field."""
    made = table(
        console, "field", *(f"{name} {mark}" for name, mark in PATTERNS.items()), "none", "mix"
    )
    made.columns[-1].justify = "left"
    for field, rows in _by_field(results):
        counts = Counter(row.value("agreement_pattern") or "" for row in rows)
        made.add_row(
            field, *(str(counts[name]) for name in PATTERNS), str(counts[""]), _bar(counts)
        )
    note = "none: fewer than two extractions, so nothing to compare."
    section(console, "Agreement between chunks, records by pattern", made, note)


def _by_field(results: Iterable[Result]) -> list[tuple[str, list[Result]]]:
    """Group by field in order of first appearance, with all of them last."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.field, []).append(result)
    everything = [result for rows in groups.values() for result in rows]
    return [*groups.items(), ("all", everything)]


def percent(part: float, whole: float) -> str:
    """Return a share as people read it; a dash where there is nothing to share."""
    return f"{part / whole:.0%}" if whole else "–"


def average(values: Iterable[Any]) -> str:
    """Return the mean of those that are numbers, a dash where none is."""
    numbers = [float(value) for value in values if isinstance(value, (int, float))]
    return f"{mean(numbers):.2f}" if numbers else "–"


def _means(rows: Sequence[Result]) -> list[str]:
    checks = Counter(row.value("semantic_validation") for row in rows)
    return [
        *(average(row.value(name) for row in rows) for name in SCORES),
        percent(checks["pass"], checks["pass"] + checks["fail"]),
        average(row.value(JUDGE) for row in rows),
    ]


def _bar(counts: Mapping[str, int], width: int = 12) -> str:
    total = sum(counts[name] for name in PATTERNS)
    bar, passed = "", 0
    for name, mark in PATTERNS.items():
        passed += counts[name]
        bar += mark * (round(passed / max(total, 1) * width) - len(bar))
    return bar
