"""A gate: bounds on metrics, a comparison with the run before, and a page to look at."""

import tempfile
from pathlib import Path

import llmeval_sdk as llmeval


def rows(hit_rate: float) -> list[dict]:
    """Make a golden set that finds the right document so often."""
    return [
        {
            "request_id": f"q{number}",
            "request": f"Question {number}?",
            "response": "An answer.",
            "retrieved_context": [
                {"doc_uri": "right" if number * 7 % 100 < 100 * hit_rate else "wrong"}
            ],
            "expected_retrieved_context": [{"doc_uri": "right"}],
        }
        for number in range(100)
    ]


folder = Path(tempfile.mkdtemp())
llmeval.evaluate(rows(0.9), evaluators=["document_recall"], save=folder / "main.jsonl")

report = llmeval.evaluate(rows(0.6), evaluators=["document_recall"])
compared = report.compare(llmeval.Report.load(folder / "main.jsonl"))
for change in compared.changes:
    print(f"{change.path}: {change.before:.2f} -> {change.after:.2f}, {change.verdict}")
    print(f"  difference {change.difference:+.2f}, 95 % [{change.low:+.2f}, {change.high:+.2f}]")
print(f"{compared.regressed} rows got worse, such as {compared.regressions[0].row.id}")

bounds = {"retrieval/ground_truth/document_recall/average": 0.8}
print("missed:", report.below(bounds, min_rated=0.9))  # of the rows that had the inputs

page = folder / "report.html"
page.write_text(report.to_html(at_least=bounds, compared=compared), "utf-8")
print("wrote", page.name, f"({page.stat().st_size // 1024} KB)")
