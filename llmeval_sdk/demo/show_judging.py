"""The tables about escalation, judges and risk scores, and three requests in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from llmeval_sdk import _values
from llmeval_sdk.demo.show import JUDGE, SCORES, Result, average, percent, section, table
from llmeval_sdk.estimates.caught import caught_at, caught_interval
from llmeval_sdk.testing.judge_server import MODEL


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
    made = table(console, "judged first", "AUROC", f"caught by judging {SHARE:.0%}", "of bad")
    rows = []
    for name in RANKED_SCORES:
        risks = [risk_of(row, name) for row in answered]
        rows.append((name, auroc(risks, bad), caught_at(SHARE, risks, bad)))
    flagged = [float(bool(row.reasons(threshold))) for row in answered]
    rows.append(
        (
            f"the evaluation framework's rule, recall below {threshold:g}",
            auroc(flagged, bad),
            caught_at(SHARE, flagged, bad),
        )
    )
    rows.sort(key=lambda row: -(row[2] or 0))
    for name, area, caught in (*rows, ("at random", 0.5, SHARE)):
        shown = "–" if caught is None else f"{caught:.0%}"
        interval = caught_interval(caught, bad) if name != "at random" else None
        if interval:
            shown += f" ({interval[0]:.0%}–{interval[1]:.0%})"
        made.add_row(name, "–" if area is None else f"{area:.2f}", shown, str(sum(bad)))
    whole = percent(sum(flagged), len(flagged))
    note = (
        "Over the answered records; bad: wrong or invented; in brackets the 95 % interval."
        " AUROC: the chance that a bad answer looks riskier than a right one; 0.50 is a coin. The"
        f" evaluation framework's rule (recall below {threshold:g} or a hit limit) flags {whole} of"
        " these records; of them, a fifth of all is taken at random."
    )
    section(console, "Which score finds a wrong answer?", made, note)


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


def auroc(risks: Sequence[float], bad: Sequence[bool]) -> float | None:
    """Return the chance that a bad record is riskier than a good one, ties counting half."""
    high = [risk for risk, is_bad in zip(risks, bad, strict=True) if is_bad]
    low = [risk for risk, is_bad in zip(risks, bad, strict=True) if not is_bad]
    if not high or not low:
        return None
    wins = sum((one > other) + 0.5 * (one == other) for one in high for other in low)
    return wins / (len(high) * len(low))


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
