"""The tables about answers and scores.

Every number is read back from the store, as any other tool would read what the SDK delivered.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from llmeval_sdk.config import Settings
from llmeval_sdk.evaluation.escalation import HIGH, LOW
from llmeval_sdk.model import Chunk, Evaluation, NotRun, SpanData
from llmeval_sdk.model import values as _values
from llmeval_sdk.pipeline.stats import Stats
from llmeval_sdk.plugins.demo.grading import OUTCOMES
from llmeval_sdk.statistics.detection import (
    Figure,
    accuracy_at,
    auroc,
    caught_at,
    caught_interval,
)
from llmeval_sdk.store.latest import latest_of_span
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import Tiers
from llmeval_sdk.store.traces import spans_like
from llmeval_sdk.testing.judge_server import MODEL


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
        {event.evaluation.name: event.evaluation for event in latest_of_span(events)},
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


def average(values: Iterable[object]) -> str:
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


# The tables of the demo's cascade: the three tiers, and what they find of the bad answers.

CASCADE = "extraction_correctness"
"""The judge that the demo's cascade asks."""
FREE = "extraction_risk"


def tiers(
    console: Console, results: Sequence[Result], cascade: Tiers | None, *, stand_ins: bool
) -> None:
    """Show each tier's share of the records, and how many of the bad answers it finds."""
    answered = [row for row in results if row.answered]
    bad = [row for row in answered if row.outcome != "right"]
    decided = [row for row in answered if CASCADE in row.decisions]
    judged = [row for row in decided if _judged(row) is not None]
    made = table(console, "tier", "records", "share", "cost", "bad found", "good doubted")
    riskiest = sorted(answered, key=lambda row: -(row.value(FREE) or 0.0))[: len(bad)]
    made.add_row(
        f"1 free score: the {len(bad)} riskiest", str(len(answered)), "100%", "$0",
        *_caught(riskiest, bad, answered),
    )  # fmt: skip
    said_no = [row for row in decided if row.decisions[CASCADE].value == "no"]
    made.add_row(
        "2 decision model", str(len(decided)), percent(len(decided), len(answered)),
        _cost(row.decisions[CASCADE] for row in decided), *_caught(said_no, bad, answered),
    )  # fmt: skip
    counting = [row for row in decided if row.value(CASCADE) == "no"]
    made.add_row(
        "3 judge model, where uncertain", str(len(judged)), percent(len(judged), len(answered)),
        _cost(filter(None, map(_judged, judged))), *_caught(counting, bad, answered),
    )  # fmt: skip
    bounds = f"Uncertain is a probability from {LOW:g} to {HIGH:g}."
    meaning = f"bad found: of {len(bad)} wrong or invented answers; the last line is all tiers."
    notes = [f"{bounds} {meaning}"]
    if cascade is not None:
        notes.append(
            f"The judge model changed {cascade.changed} of {cascade.both} decisions that it saw,"
            f" {cascade.to_good} of them to yes."
        )
    if stand_ins:
        notes.append(
            "Both models are STAND-INS: rules on shared words behind a local server, no models."
            " The table shows how the tiers work together and says nothing about quality."
        )
    called = " (stand-ins, no models)" if stand_ins else ""
    section(console, f"Three tiers of {CASCADE}{called}", made, "\n".join(notes))


def _judged(row: Result) -> Evaluation | None:
    verdict = row.evaluations.get(CASCADE)
    return verdict if verdict is not None and verdict.evaluator_kind == "judge" else None


def _caught(
    named: Sequence[Result], bad: Sequence[Result], answered: Sequence[Result]
) -> tuple[str, str]:
    found = sum(row in bad for row in named)
    good = len(answered) - len(bad)
    return f"{found} ({percent(found, len(bad))})", percent(len(named) - found, good)


def _cost(evaluations: Iterable[Evaluation]) -> str:
    used = [evaluation.usage for evaluation in evaluations if evaluation.usage is not None]
    costs = [usage.cost_usd for usage in used if usage.cost_usd is not None]
    if costs:
        return f"${sum(costs):.4f}"
    tokens = sum(usage.total_tokens for usage in used)
    return f"{tokens:,} tokens"


# The tables about escalation, judges and risk scores, and three requests in full.


def escalation(console: Console, results: Sequence[Result], threshold: float) -> None:
    """Show which records were escalated, and why."""
    reasons = [" + ".join(row.reasons(threshold)) for row in results]
    escalated = [row for row, reason in zip(results, reasons, strict=True) if reason]
    made = table(console, "", "records", "share", "answered", "bad", "bad share")
    _add(made, "all", results, results)
    _add(made, "not escalated", [row for row in results if row not in escalated], results)
    _add(made, "escalated", escalated, results)
    for reason, _ in Counter(filter(None, reasons)).most_common():
        rows = [row for row, why in zip(results, reasons, strict=True) if why == reason]
        _add(made, f"  {reason}", rows, results)
    made.add_section()
    for name, short in (
        ("multi_source_agreement", "agreement"),
        ("aggregated_confidence", "confidence"),
    ):
        low = [row for row in results if (row.value(name) or 1.0) < threshold and row.answered]
        _add(made, f"had it been {short} < {threshold:g}", low, results)
    note = (
        "bad: wrong or invented, of the answered. The default rule looks at retrieval alone, so it"
        " need not find them; compare its line with `all` and with the two rules below it, which"
        " are one Escalation(..., when=below(...)) each."
    )
    title = f"Escalation: recall below {threshold:g} or a hit limit asks {JUDGE}"
    section(console, title, made, note)


def verdicts(console: Console, results: Sequence[Result], judge: str, threshold: float) -> None:
    """Show what the judge said, and for each record it did not judge, why not."""
    escalated = [row for row in results if row.reasons(threshold)]
    evaluations = [row.verdict for row in results if row.verdict is not None]
    values = sorted(v.value for v in evaluations if isinstance(v.value, float))
    errors = Counter(v.error.type for v in evaluations if v.error is not None)
    skipped = Counter(
        event.reason for row in escalated for event in row.not_run if event.evaluator == JUDGE
    )
    shown = Table.grid(padding=(0, 2))
    shown.add_column(justify="right")
    shown.add_column()
    shown.add_row(str(len(escalated)), "records escalated")
    spread = f", mean {average(values)}, {values[0]:.2f} to {values[-1]:.2f}" if values else ""
    shown.add_row(str(len(values)), f"verdicts{spread}")
    reasons = ", ".join(f"{reason} {count}" for reason, count in errors.items())
    shown.add_row(str(errors.total()), f"errors {reasons}".rstrip())
    shown.add_row(str(skipped.pop("over_budget", 0)), "not run: over_budget")
    usage = [v.usage for v in evaluations if v.usage is not None]
    costs = [each.cost_usd for each in usage if each.cost_usd is not None]
    for reason, count in skipped.most_common():
        shown.add_row(str(count), f"not run: {reason}{_MEANING.get(reason, '')}")
    if costs:
        tokens = sum(each.total_tokens for each in usage)
        shown.add_row(f"${sum(costs):.4f}", f"for {tokens:,} tokens")
    section(console, f"Verdicts of {judge}{RULES if judge == MODEL else ''}", shown)


RULES = " (rules on shared words, no model)"
_MEANING = {
    "missing_inputs": " (the app gave no value: nothing to hold against the chunks)",
    "not_sampled": " (a sampling rule left it out)",
    "cached": " (the same judgement was just made)",
}


def picked(results: Sequence[Result], threshold: float) -> tuple[Result | None, Result | None]:
    """Choose a record that went well, and one that was escalated and best judged."""
    good = [row for row in results if row.outcome == "right" and not row.reasons(threshold)]
    good.sort(
        key=lambda row: (
            row.field == "summary",
            -(row.value("multi_source_agreement") or 0),
            -(row.value("context_relevance") or 0),
        )
    )
    bad = [row for row in results if row.reasons(threshold)]
    bad.sort(
        key=lambda row: (
            row.verdict is None,
            row.outcome not in ("wrong", "invented"),
            row.value("context_recall_heuristic") or 0,
        )
    )
    return next(iter(good), None), next(iter(bad), None)


def examples(console: Console, results: Sequence[Result], judge: str, threshold: float) -> None:
    """Show one request that went well and one that was escalated."""
    console.print()
    titles = ("A good record", "An escalated record")
    for title, row in zip(titles, picked(results, threshold), strict=True):
        if row is not None:
            console.print(_panel(title, row, judge, threshold))


def _panel(title: str, row: Result, judge: str, threshold: float) -> Panel:
    shown = Table.grid(padding=(0, 2))
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column()
    truth = row.evaluations.get("against_header")
    shown.add_row("question", str(row.span.request))
    shown.add_row("answer", str(row.span.response or "none"))
    shown.add_row("outcome", f"{row.outcome}; {truth.explanation if truth else ''}")
    passages = len({chunk.chunk_id for chunk in row.chunks})
    shown.add_row("retrieved", f"{len(row.chunks)} hits on {passages} of the document's chunks")
    for extraction in (row.span.extractions or ())[:3]:
        shown.add_row("", _extraction(row, extraction.chunk_number or 0, str(extraction.value)))
    parts = [
        f"{short} {value:.2f}"
        for name, short in SCORES.items()
        if isinstance(value := row.value(name), float)
    ]
    shown.add_row("scores", ", ".join([*parts, f"semantic {row.value('semantic_validation')}"]))
    shown.add_row("escalated", ", ".join(row.reasons(threshold)) or "no")
    if row.verdict is not None:
        verdict = row.verdict
        answer = verdict.error.type if verdict.error else average([verdict.value])
        shown.add_row(judge, f"{answer}: {(verdict.explanation or '')[:200]}")
    shown.add_row("span id", row.span.span_id)
    return Panel(shown, title=title, title_align="left", expand=False)


def _extraction(row: Result, number: int, value: str) -> str:
    """Describe one extraction by its value and where it came from."""
    if not 0 < number <= len(row.chunks):
        return value
    chunk = row.chunks[number - 1]
    file = (chunk.doc_uri or "").rpartition("/")[2]
    side = f"{chunk.retrieval_method} {chunk.score or 0:.2f}"
    return f"{value[:60]} from hit {number} ({file}, page {chunk.page}, {side})"


def _add(made: Table, name: str, rows: Sequence[Result], everything: Sequence[Result]) -> None:
    answered = sum(row.answered for row in rows)
    bad = sum(row.outcome in ("wrong", "invented") for row in rows)
    share = percent(len(rows), len(everything))
    made.add_row(name, str(len(rows)), share, str(answered), str(bad), percent(bad, answered))


SHARE = 0.2
RANKED_SCORES = (
    "extraction_risk", "groundedness_risk", "retrieval_risk", "aggregated_confidence",
    "multi_source_agreement", "context_relevance", "context_precision", "context_recall_heuristic",
)  # fmt: skip


def finders(console: Console, results: Sequence[Result], threshold: float) -> None:
    """Compare every score by the wrong answers that it would send to a judge."""
    answered = [row for row in results if row.answered]
    bad = [row.outcome != "right" for row in answered]
    made = table(
        console, "judged first", "AUROC", f"caught in {SHARE:.0%}", "of", "right of the rest",
    )  # fmt: skip
    rows = []
    for name in RANKED_SCORES:
        risks = [risk_of(row, name) for row in answered]
        rows.append(_detection_by(name, risks, bad))
    flagged = [float(bool(row.reasons(threshold))) for row in answered]
    rows.append(_detection_by(f"the rule: recall below {threshold:g}", flagged, bad))
    rows.sort(key=lambda row: -(row[2] or 0))
    right = 1 - sum(bad) / max(1, len(bad))
    for name, area, caught, accuracy in (*rows, ("at random", None, SHARE, None)):
        share = "–" if caught is None else f"{caught:.0%}"
        interval = caught_interval(caught, bad) if area is not None else None
        if interval:
            share += f" ({interval[0]:.0%}–{interval[1]:.0%})"
        made.add_row(
            name,
            f"{area.value:.2f} ({area.low:.2f}–{area.high:.2f})" if area else "0.50",
            share,
            str(sum(bad)),
            f"{accuracy.value:.0%} ({accuracy.low:.0%}–{accuracy.high:.0%})"
            if accuracy
            else f"{right:.0%}",
        )
    whole = percent(sum(flagged), len(flagged))
    note = (
        f"Over the answered records: how many of the {sum(bad)} bad ones, wrong or invented, are"
        f" among the riskiest {SHARE:.0%}, and what part of the others is right; in brackets the"
        " 95 % interval."
        " AUROC: the chance that a bad answer looks riskier than a right one; 0.50 is a coin. The"
        f" evaluation framework's rule (recall below {threshold:g} or a hit limit) flags {whole} of"
        " these records; of them, a fifth of all is taken at random."
    )
    section(console, "Which score finds a wrong answer?", made, note)


def _detection_by(
    name: str, risks: Sequence[float], bad: Sequence[bool]
) -> tuple[str, Figure | None, float | None, Figure | None]:
    """Return a score's AUROC, the share of errors it catches and what is right of the rest."""
    accuracy = accuracy_at(1 - SHARE, risks, bad)
    return name, auroc(risks, bad), caught_at(SHARE, risks, bad), accuracy


LISTED = 5
"""The most errors that are listed as found, and as missed."""


MAX_SHOWN = 22
"""Characters of an answer, and of the truth, that the list has room for."""


def errors(console: Console, results: Sequence[Result]) -> None:
    """Show which wrong answers `extraction_risk` doubts, which it misses, and at what cost."""
    answered = [row for row in results if row.answered]
    bad = [row for row in answered if row.outcome != "right"]
    if not bad:
        section(console, "The errors", Text(f"None of {len(answered)} answers is wrong."))
        return
    bad.sort(key=lambda row: -(_chance(row) or 0.0))
    found = [row for row in bad if _is_doubted(row)]
    missed = bad[len(found) :]
    looks = sum(map(_is_doubted, answered))
    unscored = sum(_chance(row) is None for row in answered)
    made = table(console, "chance", "field", "answer", "truth", "why")
    for column in made.columns:
        column.justify = "left"
    made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"
    for word, rows in (("found", found[:LISTED]), ("missed", missed[-LISTED:])):
        for row in rows:
            truth, risk = row.evaluations.get("against_header"), row.evaluations.get(FREE)
            header = (truth.explanation or "") if truth is not None else ""
            made.add_row(
                f"{word} {average([_chance(row)])}", row.field, _short(str(row.span.response)),
                _short(header.removeprefix("header: ")), (risk.explanation or "") if risk else "",
            )  # fmt: skip
    note = (
        f"Found: {len(found)} of {len(bad)} wrong or invented answers have a chance of an error"
        f" above {_values.DOUBTFUL_ABOVE:g}, where a look is worth it; {len(missed)} were missed."
        f" That takes {looks} looks at {len(answered)} answers, {looks - len(found)} of them at"
        f" right ones. {_against_formulas(answered)}"
    )
    if unscored:
        note += f" {unscored} answers have no {FREE}, so nothing was found among them."
    section(console, f"The errors: {len(found)} found, {len(missed)} missed", made, note)


def _chance(row: Result) -> float | None:
    """Return the chance of an error; ``None`` where the score failed or did not run."""
    return _values.number(row.value(FREE))


def _is_doubted(row: Result) -> bool:
    return (_chance(row) or 0.0) > _values.DOUBTFUL_ABOVE


def _short(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def _against_formulas(answered: Sequence[Result]) -> str:
    """Say whether `extraction_risk` finds more by a fifth of the looks than any other score."""
    bad = [row.outcome != "right" for row in answered]
    caught = {
        name: caught_at(SHARE, [risk_of(row, name) for row in answered], bad) or 0.0
        for name in RANKED_SCORES
    }
    own = caught.pop(FREE)
    best = max(caught, key=lambda name: caught[name])
    verb = "finds more than" if own > caught[best] else "does not find more than"
    return (
        f"By looking at the riskiest {SHARE:.0%}, {FREE} ({own:.0%}) {verb} the best of the other"
        f" scores, {best} ({caught[best]:.0%})."
    )


def rivalled(console: Console, results: Sequence[Result]) -> None:
    """Show a wrong value that stands in the document, with the rival that was right."""
    row = wrong_but_present(results)
    if row is None:
        return
    evaluation = row.evaluations["extraction_risk"]
    truth = row.evaluations.get("against_header")
    shown = Table.grid(padding=(0, 2))
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column()
    shown.add_row("question", str(row.span.request))
    shown.add_row("answer", f"{row.span.response} ({row.outcome})")
    shown.add_row("truth", str(truth.explanation if truth else ""))
    shown.add_row("extraction_risk", f"{evaluation.value:.2f}: {evaluation.explanation}")
    for rival in _rivals(row)[:3]:
        shown.add_row("rival", f"{rival.get('value')}, in: {str(rival.get('evidence'))[:120]!r}")
    shown.add_row("semantic_validation", str(row.value("semantic_validation")))
    console.print()
    title = "A wrong value from the right document: grounded, and not right"
    console.print(Panel(shown, title=title, title_align="left", expand=False))


def wrong_but_present(results: Sequence[Result]) -> Result | None:
    """Choose the riskiest wrong answer whose rivals hold the right one."""
    wrong = [row for row in results if row.outcome == "wrong" and _rivals(row)]
    wrong.sort(
        key=lambda row: (
            not _names_the_truth(row),
            row.field == "summary",
            not _is_nearer(row),
            row.value("semantic_validation") != "pass",
            -float(row.value("extraction_risk") or 0),
        )
    )
    return wrong[0] if wrong else None


def risk_of(row: Result, name: str) -> float:
    """Return a score so that high is risky; the middle where a record has none."""
    value = _values.number(row.value(name))
    if value is None:
        return 0.5
    return value if _values.high_is_bad(name) else 1 - value


def _rivals(row: Result) -> list[Mapping[str, object]]:
    evaluation = row.evaluations.get("extraction_risk")
    rivals = evaluation.metadata.get("rivals") if evaluation is not None else None
    return [rival for rival in rivals or () if isinstance(rival, Mapping)]


def _names_the_truth(row: Result) -> bool:
    truth = row.evaluations.get("against_header")
    header = (truth.explanation or "") if truth is not None else ""
    expected = header.casefold().removeprefix("header: ").split(" or ")
    return any(str(rival.get("value", "")).casefold() in expected for rival in _rivals(row))


def _is_nearer(row: Result) -> bool:
    """Say whether the strongest reason is a rival that cues speak for more."""
    reasons = row.evaluations["extraction_risk"].metadata.get("reasons")
    return isinstance(reasons, list) and reasons[:1] == ["rival_nearer"]


# The tables about the run itself: time, delivery, and what to do next.


def times(
    console: Console, results: Sequence[Result], phases: Mapping[str, float], overhead: float
) -> None:
    """Show how long each phase took, and each step of a request."""
    shown = Table.grid(padding=(0, 2))
    shown.add_column()
    shown.add_column(justify="right")
    for phase, seconds in phases.items():
        shown.add_row(phase, f"{seconds:.2f} s")
    section(console, "Time of the run", shown)
    steps: dict[str, list[float]] = {
        "search (BM25 + LSA, merged)": _step(results, "hybrid_search"),
        "extract": _step(results, "extract"),
        "aggregate": _step(results, "aggregate"),
        "whole request": [row.seconds for row in results],
        "judge, in the background": [
            row.verdict.duration for row in results if row.verdict and row.verdict.duration
        ],
    }
    made = table(console, "step", "median", "95 %", "calls")
    for step, known in steps.items():
        if known:
            tail = quantiles(known, n=20)[-1] if len(known) > 1 else known[0]
            made.add_row(step, _milliseconds(median(known)), _milliseconds(tail), str(len(known)))
    made.add_section()
    made.add_row("what the SDK added to a request", _milliseconds(overhead), "", str(len(results)))
    note = (
        "From the spans. The last line is the median difference to the same call under"
        " llmeval.disabled(), made just"
        " before or after it: 4 spans, their chunks and all inline"
        " scores, while the worker delivers what came before."
    )
    section(console, "Time of one request", made, note)


def delivery(console: Console, stats: Stats) -> None:
    """Show whether the account of every exporter adds up."""
    columns = ("exporter", "created", "delivered", "dropped", "undelivered", "unknown", "adds up")
    made = table(console, *columns)
    lost = dict(stats.dropped)
    for name, account in stats.exporters.items():
        lost.update({f"{name}: {reason}": count for reason, count in account.dropped.items()})
        made.add_row(
            name, str(account.created), str(account.delivered), str(sum(account.dropped.values())),
            str(account.undelivered), str(account.unknown), "yes" if account.balanced else "NO",
        )  # fmt: skip
    notes = [
        f"{what}: " + ", ".join(f"{reason} {count}" for reason, count in counted.items())
        for what, counted in (("dropped", lost), ("problems", stats.problems))
        if counted
    ]
    if not stats.complete:
        notes.append("Not everything was judged and delivered in time.")
    title = f"Delivery: {stats.spans} spans and {stats.evaluations} evaluations"
    section(console, title, made, "\n".join(notes))


def next_steps(console: Console, store: str, results: Sequence[Result], threshold: float) -> None:
    """Say where everything is, and which commands show more of it."""
    good, bad = picked(results, threshold)
    where = "" if store == Settings().store else f" --store {shlex.quote(store)}"
    program = _program()
    commands = [f"{program} view{where}", f"{program} report{where}", f"{program} doctor"]
    row = bad or good
    if row is not None:
        commands.insert(2, f"{program} explain {row.span.span_id}{where}")
    console.print(Text(f"\nEverything is in {store}. Next:", style="bold"))
    for command in commands:
        console.print(Text(f"  {command}"), soft_wrap=True)  # whole, so that it can be copied


def _program() -> str:
    """Return how this installation is called: the command where it is on the path."""
    found = shutil.which("llmeval")
    if found and Path(found).parent == Path(sys.executable).parent:
        return "llmeval"
    return f"{shlex.quote(os.path.relpath(sys.executable))} -m llmeval_sdk"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def _step(results: Sequence[Result], name: str) -> list[float]:
    return [row.steps[name] for row in results if name in row.steps]


# What `llmeval demo --json` prints: the figures of its tables, as one document.


def summary(
    store: str, judge: str, results: Sequence[Result], phases: Mapping[str, float], stats: object
) -> dict[str, Any]:
    """Return the outcomes of each field, the mean of each score, and what was not run or lost.

    Args:
        store: where the spans and scores are.
        judge: the judge model; the stand-in has a name that says so.
        results: one for each request.
        phases: seconds by what was done.
        stats: what became of all records.
    """
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    numbers: dict[str, list[float]] = defaultdict(list)
    not_run: Counter[str] = Counter()
    for result in results:
        outcomes[result.field][result.outcome] += 1
        not_run.update(refusal.reason for refusal in result.not_run)
        for name, evaluation in result.evaluations.items():
            if (number := _values.number(evaluation.value)) is not None:
                numbers[name].append(number)
    return {
        "store": store,
        "judge": judge,
        "records": len(results),
        "outcomes": {field: dict(counts) for field, counts in outcomes.items()},
        "scores": {
            name: {"mean": sum(values) / len(values), "count": len(values)}
            for name, values in sorted(numbers.items())
        },
        "not_run": dict(not_run),
        "seconds": dict(phases),
        "stats": stats,
    }
