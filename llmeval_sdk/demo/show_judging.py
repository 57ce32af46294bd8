"""The tables about escalation and judges, and two requests in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from llmeval_sdk.demo.results import JUDGE, Result
from llmeval_sdk.demo.show import SCORES, average, percent, section, table
from llmeval_sdk.testing.judge_server import MODEL


def escalation(console: Console, results: Sequence[Result], threshold: float) -> None:
    """Show which records were escalated, and why."""
    reasons = [" + ".join(row.reasons(threshold)) for row in results]
    asked = [row for row, reason in zip(results, reasons, strict=True) if reason]
    made = table(console, "", "records", "share", "answered", "bad", "bad share")
    _add(made, "all", results, results)
    _add(made, "not escalated", [row for row in results if row not in asked], results)
    _add(made, "escalated", asked, results)
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
    asked = [row for row in results if row.reasons(threshold)]
    given = [row.verdict for row in results if row.verdict is not None]
    values = sorted(v.value for v in given if isinstance(v.value, float))
    errors = Counter(v.error.type for v in given if v.error is not None)
    skipped = Counter(
        event.reason for row in asked for event in row.not_run if event.evaluator == JUDGE
    )
    shown = Table.grid(padding=(0, 2))
    shown.add_column(justify="right")
    shown.add_column()
    shown.add_row(str(len(asked)), "records escalated")
    spread = f", mean {average(values)}, {values[0]:.2f} to {values[-1]:.2f}" if values else ""
    shown.add_row(str(len(values)), f"verdicts{spread}")
    told = ", ".join(f"{reason} {count}" for reason, count in errors.items())
    shown.add_row(str(errors.total()), f"errors {told}".rstrip())
    shown.add_row(str(skipped.pop("over_budget", 0)), "not run: over_budget")
    usage = [v.usage for v in given if v.usage is not None]
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
