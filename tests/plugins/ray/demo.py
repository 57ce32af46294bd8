"""What `make demo-ray` shows: the demo's records, evaluated on two Ray workers and in this process.

The demo app extracts fields from the distributions that are installed, and its records are exported
as Parquet. Both engines evaluate them with the free evaluators; the two reports have to be the same.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import llmeval_sdk as llmeval
from llmeval_sdk.offline.report.summary import headline, lines, shown


WORKERS = 2
EVALUATORS = [
    "context_relevance", "context_precision", "context_recall_heuristic", "recall_warning",
    "semantic_validation", "multi_source_agreement", "groundedness_risk",
]  # fmt: skip


def main():
    """Run it; 1 where the reports differ."""
    with tempfile.TemporaryDirectory(prefix="llmeval-ray-") as folder:
        records = Path(folder) / "records.parquet"
        command = [sys.executable, "-m", "llmeval_sdk"]
        env = {**os.environ, "LLMEVAL_STORE": str(Path(folder) / "demo.db")}
        print("the demo app extracts fields and is traced ...", flush=True)
        run = [*command, "demo", "--limit", "40"]
        subprocess.run(run, env=env, check=True, stdout=subprocess.DEVNULL)
        export = [*command, "export", "--format", "parquet", "--out", str(records)]
        subprocess.run(export, env=env, check=True)
        return compare(records, Path(folder) / "run")


def compare(records, save):
    reports = {}
    for engine, options in (("local", {}), ("ray", {"workers": WORKERS, "save": save})):
        print(f"\n{engine}: evaluating {records.name} ...", flush=True)
        begun = time.monotonic()
        report = llmeval.evaluate(
            records, engine=engine, evaluators=EVALUATORS, skip_bad=True, experiment="demo",
            progress=False, **options,
        )  # fmt: skip
        print(f"{headline(report)}, in {time.monotonic() - begun:.1f} s with start-up")
        reports[engine] = report
    print()
    for line in lines(reports["ray"]):
        print(f"{line.path:<45} {shown(line.value):>7} over {line.rated:,} rows")
    files = sorted(save.glob("*.parquet"))
    print(
        f"\n{len(files)} Parquet file(s) of results, {sum(path.stat().st_size for path in files):,} bytes"
    )
    same = said(reports["local"]) == said(reports["ray"])
    print("the two reports are " + ("the same, byte for byte" if same else "NOT THE SAME"))
    return 0 if same and len(reports["ray"].rows) else 1


def said(report):
    """Return all that a report says."""
    plain = [report.metrics, report.counts, report.reasons, report.skipped, report.problems]
    rows = [
        [
            row.number,
            row.id,
            {
                each.name: (each.value, each.explanation, each.error)
                for each in row.evaluations.values()
            },
        ]
        for row in report.rows
    ]
    return json.dumps([plain, rows, report.to_markdown(), report.to_html()], default=repr)


if __name__ == "__main__":
    sys.exit(main())
