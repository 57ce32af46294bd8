"""What `extraction_risk` catches, beside confidence, agreement and the documents' rule.

    python benchmarks/quality/extraction_evaluate.py --data ../shared/data [--json FILE]

Nothing is scored by weights that were fitted on it. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from extraction_data import KINDS, Case
from extraction_fit import PULL_WITHIN, Measured, fit, measure, risks
from extraction_sources import load
from risk_data import auroc, measured_on, recall_at
from sklearn.model_selection import GroupKFold

from benchmarks.recorded import keep
from llmeval_sdk.heuristics.aggregated_confidence import aggregated_confidence
from llmeval_sdk.heuristics.agreement import multi_source_agreement
from llmeval_sdk.heuristics.context_recall import context_recall_heuristic
from llmeval_sdk.heuristics.extraction.abstention import abstention_risk
from llmeval_sdk.heuristics.extraction.risk import ExtractionRisk
from llmeval_sdk.model import Chunk, Extraction, Record


SHARE, BAD = 0.2, 0.1
WITHIN_BAR, ACROSS_BAR, CAUGHT_BAR = 0.80, 0.75, 0.50
P50_BAR_MS, P95_BAR_MS = 1.0, 3.0
ACROSS = (
    (("receipts",), "packages"),
    (("packages",), "receipts"),
    (("receipts", "packages"), "short answers"),
)
PLAIN = {
    "confidence": lambda record: 1 - aggregated_confidence(record).value,
    "agreement": lambda record: 1 - (multi_source_agreement(record).value or 0.0),
    "documents' rule": lambda record: 1 - (context_recall_heuristic(record).value or 0.0),
}
missed: list[str] = []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures here too")
    options = parser.parse_args()
    cases = load(options.data)
    errors(cases)
    sources = {name: measure(rows) for name, rows in cases.items()}
    figures = within(sources)
    across(sources)
    abstentions(cases)
    cost()
    if options.json is not None:
        keep(options.json, "make quality", figures)
    if missed:
        print("\nmissed:", "; ".join(missed))
    return bool(missed)


def errors(cases: Mapping[str, Sequence[Case]]) -> None:
    print("\n## Extraction runs: what became of each field\n")
    print("| source | documents | records | " + " | ".join(KINDS) + " |\n|" + " --- |" * 10)
    for name, rows in cases.items():
        counted = Counter(case.kind for case in rows)
        cells = [name, len({case.group for case in rows}), len(rows), *(counted[k] for k in KINDS)]
        print("| " + " | ".join(map(str, cells)) + " |")
    print(
        "\n`present` is another value of the document, `missed` an answer that it has and the app"
        " lacks. Only answered records have a risk of being wrong."
    )


def within(sources: Mapping[str, Measured]) -> list[dict[str, Any]]:
    figures = []
    print(f"\n## Fitted within a source (5 folds by document), {BAD:.0%} bad\n")
    print("| source | AUROC | 95 % | caught at a 20 % share | bar |\n|" + " --- |" * 5)
    for name, source in sources.items():
        scores = np.zeros(len(source.labels))
        folds = GroupKFold(5).split(source.matrix, groups=source.groups)
        for train, test in folds:
            kept = np.zeros(len(scores), bool)
            kept[train] = True
            scores[test] = risks(source, fit([source.only(kept)], PULL_WITHIN))[test]
        found = measured_on(name, source.labels, scores, source.groups, score="extraction_risk")
        reached, caught, low, high = (found[key] for key in ("auroc", "caught", "low", "high"))
        print(
            f"| {name} | {reached:.3f} | {low:.3f} to {high:.3f} | {caught:.1%} | ≥ {WITHIN_BAR} |"
        )
        check(f"AUROC within {name}", reached, WITHIN_BAR)
        figures.append(found)
    return figures


def across(sources: Mapping[str, Measured]) -> None:
    print(f"\n## Fitted on other sources, {BAD:.0%} bad, a {SHARE:.0%} share judged\n")
    plain = " | ".join(f"{name}: AUROC, caught" for name in PLAIN)
    print(f"| fitted on | scored on | AUROC | caught | {plain} |")
    print("|" + " --- |" * (4 + len(PLAIN)))
    for fitted, scored in ACROSS:
        source = sources[scored]
        scores = risks(source, fit([sources[name] for name in fitted]))
        reached, caught = auroc(source.labels, scores), recall_at(source.labels, scores, SHARE, BAD)
        cells, best = [], 0.0
        for plain_score in PLAIN.values():
            others = [plain_score(case.record) for case in source.cases]
            other = recall_at(source.labels, others, SHARE, BAD)
            best = max(best, other)
            cells.append(f"{auroc(source.labels, others):.3f}, {other:.1%}")
        print(
            f"| {' + '.join(fitted)} | {scored} | {reached:.3f} | {caught:.1%} | "
            + " | ".join(cells)
            + " |"
        )
        check(f"AUROC {' + '.join(fitted)} → {scored}", reached, ACROSS_BAR)
        check(f"caught {' + '.join(fitted)} → {scored}", caught, max(CAUGHT_BAR, best))


def abstentions(cases: Mapping[str, Sequence[Case]]) -> None:
    print("\n## abstention_risk: answers that were missed, among records without one\n")
    print("| source | missed | rightly empty | AUROC |\n| --- | --- | --- | --- |")
    for name, rows in cases.items():
        empty = [case for case in rows if not case.answered]
        labels = [int(case.kind == "missed") for case in empty]
        scores = [abstention_risk(case.record).value or 0.0 for case in empty]
        print(
            f"| {name} | {sum(labels)} | {len(labels) - sum(labels)} | {auroc(labels, scores):.3f} |"
        )


def cost() -> None:
    """Time one record with 20 chunks, whose passages were not read before."""
    timed = []
    for turn in range(400):
        chunks = tuple(
            Chunk(
                f"Part {turn}-{place}. The invoice of 1{place % 10} March 2024 over EUR"
                f" {turn + place}.{place:02d} was sent to Ada Lovelace and is due within 30 days."
                " Payment terms follow the master agreement between the parties. " * 3,
                chunk_id=str(place),
                score=0.5,
                retrieval_method="bm25",
            )
            for place in range(20)
        )
        record = Record(
            request="What is the total of the invoice?",
            value=f"{turn + 3}.03",
            retrieved_context=chunks,
            extractions=(Extraction(f"{turn + 3}.03", 4, 0.8), Extraction(f"{turn}.00", 1, 0.6)),
            field_config={"name": "total", "description": "Amount due", "format": "money"},
        )
        score = ExtractionRisk()
        begun = time.thread_time()
        score.evaluate(record)
        timed.append((time.thread_time() - begun) * 1e3)
    p50, p95 = np.quantile(timed[50:], (0.5, 0.95))
    print(f"\n20 chunks, passages new: p50 {p50:.2f} ms, p95 {p95:.2f} ms of processor time")
    check("p50 ms", -p50, -P50_BAR_MS)
    check("p95 ms", -p95, -P95_BAR_MS)


def check(name: str, value: float, bar: float) -> None:
    if value < bar:
        missed.append(f"{name} {abs(value):.3f} (bar {abs(bar):.3f})")


if __name__ == "__main__":
    sys.exit(main())
