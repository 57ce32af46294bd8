"""Which free score finds a wrong answer, and one that only `extraction_risk` could find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from llmeval_sdk import _values
from llmeval_sdk.demo.results import Result
from llmeval_sdk.demo.show import percent, section, table
from llmeval_sdk.estimates.caught import caught_at


SHARE = 0.2
SCORES = (
    "extraction_risk", "groundedness_risk", "retrieval_risk", "aggregated_confidence",
    "multi_source_agreement", "context_relevance", "context_precision", "context_recall_heuristic",
)  # fmt: skip


def finders(console: Console, results: Sequence[Result], threshold: float) -> None:
    """Compare every score by the wrong answers that it would send to a judge."""
    answered = [row for row in results if row.answered]
    bad = [row.outcome != "right" for row in answered]
    made = table(console, "judged first", "AUROC", f"caught by judging {SHARE:.0%}", "of bad")
    rows = []
    for name in SCORES:
        risks = [risk_of(row, name) for row in answered]
        rows.append((name, auroc(risks, bad), caught_at(SHARE, risks, bad)))
    flagged = [float(bool(row.reasons(threshold))) for row in answered]
    rows.append(("the documents' rule", auroc(flagged, bad), caught_at(SHARE, flagged, bad)))
    rows.sort(key=lambda row: -(row[2] or 0))
    for name, area, caught in (*rows, ("at random", 0.5, SHARE)):
        shown = "–" if caught is None else f"{caught:.0%}"
        made.add_row(name, "–" if area is None else f"{area:.2f}", shown, str(sum(bad)))
    whole = percent(sum(flagged), len(flagged))
    note = (
        "Over the answered records; bad: wrong or invented. AUROC: the chance that a bad answer"
        " looks riskier than a right one; 0.50 is a coin. The documents' rule (recall below"
        f" {threshold:g} or a hit limit) flags {whole} of these records; of them, a fifth of all is"
        " taken at random."
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
