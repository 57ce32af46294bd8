"""Tables of what `groundedness_risk` and `retrieval_risk` catch, against human labels.

    python benchmarks/quality/risk_evaluate.py --data ../shared/data [--out risk.md] [--json FILE]

Nothing is fitted on what it is measured on: models *and* background table are fitted anew without
the sources, the generator, the data set or the articles of the row.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import risk_fit
import risk_languages
import risk_retrieval
from risk_data import (
    ANSWER_SETS,
    BUDGETS,
    Row,
    answers,
    auroc,
    interval,
    measured_on,
    paragraphs,
    recall_at,
)
from risk_index import asked
from risk_swaps import SHARES, swapped
from sklearn.model_selection import GroupKFold

from benchmarks.recorded import keep
from llmeval_sdk.heuristics.risk import _context
from llmeval_sdk.heuristics.risk.groundedness import groundedness_risk
from llmeval_sdk.heuristics.risk.retrieval import retrieval_risk
from llmeval_sdk.model import Chunk, Record


class Report:
    """Lines for the screen and the file, and the figures that are kept."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.figures: list[dict[str, Any]] = []

    def say(self, line: str = "") -> None:
        print(line, flush=True)
        self.lines.append(line)

    def table(self, *head: str) -> None:
        self.row(*head)
        self.row(*("---" for _ in head))

    def row(self, *cells: object) -> None:
        shown = (f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells)
        self.say(f"| {' | '.join(shown)} |")


class Fitted:
    """Models and table fitted on some rows, from texts that leave the rest out."""

    def __init__(self, rows: list[Row], texts: list[str]) -> None:
        self.table = risk_fit.background(
            [r.context for r in rows] + texts, [r.answer for r in rows]
        )
        prepared = risk_fit.training(rows)
        self.models = risk_fit.stack(risk_fit.measured(prepared, self.table), prepared)

    def risks(self, rows: list[Row]) -> list[float]:
        return risk_fit.risks(risk_fit.measured(rows, self.table), self.models)


def novel_mass(rows: list[Row], table: dict[str, float]) -> list[float]:
    """The untrained single feature: mass of what the context does not have."""
    found = risk_fit.measured(rows, table)
    return [sum(s.features["novel_mass"] for s in sentences) for sentences in found]


def groundedness(report: Report, folder: Path) -> None:
    sets = {name: answers(folder, name) for name in ANSWER_SETS}
    rows, texts = sets["ragtruth_qa"], paragraphs(folder)
    labels, groups = [r.label for r in rows], [r.group for r in rows]
    share = float(np.mean(labels))
    risk, single = np.zeros(len(rows)), np.zeros(len(rows))
    made: dict[str, list[float]] = {kind: [] for kind in SHARES}
    for fit, rest in GroupKFold(5).split(rows, groups=groups):
        model = Fitted([rows[i] for i in fit], texts)
        held_out = [rows[i] for i in rest]
        risk[rest] = model.risks(held_out)
        single[rest] = novel_mass(held_out, model.table)
        for kind in made:
            made[kind] += model.risks(swapped(held_out, {kind: 0.5}, seed=9))
    report.say(
        f"\n## groundedness_risk: RAGTruth QA, 5 folds by source ({len(rows)} answers, {share:.1%} bad)\n"
    )
    heads = [f"recall@{b:.0%}" for b in BUDGETS]
    report.table("method", "AUROC", "95 %", *heads, *(f"{h} at 10 % bad" for h in heads))
    report.row("random", 0.5, "", *BUDGETS, *BUDGETS)
    length = [len(r.answer) for r in rows]
    for name, scores in (
        ("length only", length),
        ("unsupported mass, untrained", single),
        ("**groundedness_risk**", risk),
    ):
        low, high = interval(labels, scores, groups)
        caught = [recall_at(labels, scores, b) for b in BUDGETS]
        reweighted = [recall_at(labels, scores, b, 0.1) for b in BUDGETS]
        report.row(name, auroc(labels, scores), f"{low:.3f} to {high:.3f}", *caught, *reweighted)
    report.figures.append(
        measured_on("RAGTruth QA", labels, risk, groups, score="groundedness_risk")
    )
    ceilings = [min(1.0, b / share) for b in BUDGETS]
    report.row(
        "ceiling (budget / share of bad)", 1.0, "", *ceilings, *(min(1.0, b / 0.1) for b in BUDGETS)
    )
    clean = [float(risk[i]) for i in range(len(rows)) if not labels[i]]
    report.say("\nOne detail changed in a clean answer, held out, against clean answers:\n")
    report.table("change", "answers", "AUROC")
    for kind, risks in made.items():
        labelled = [0] * len(clean) + [1] * len(risks)
        report.row(kind, len(risks), auroc(labelled, clean + risks))
    short = [round(float(risk[i]), 5) for i in range(len(rows)) if len(rows[i].answer) < 200]
    tied = sum(short.count(value) > 1 for value in short) / (len(short) or 1)
    report.say(f"\nAnswers under 200 characters that share their value with another: {tied:.1%}.")


def generators(report: Report, folder: Path) -> None:
    rows, texts = answers(folder, "ragtruth_qa"), paragraphs(folder)
    report.say("\n### A generator held out, and its sources too (3 folds)\n")
    report.table("generator", "bad", "AUROC", "recall@20% at 10 % bad")
    means = []
    for generator in sorted({r.model for r in rows}):
        labels, scores = [], []
        for fit, rest in GroupKFold(3).split(rows, groups=[r.group for r in rows]):
            model = Fitted([rows[i] for i in fit if rows[i].model != generator], texts)
            held_out = [rows[i] for i in rest if rows[i].model == generator]
            labels += [r.label for r in held_out]
            scores += model.risks(held_out)
        means.append(auroc(labels, scores))
        report.row(
            generator, float(np.mean(labels)), means[-1], recall_at(labels, scores, 0.2, 0.1)
        )
    report.row("mean", "", float(np.mean(means)), "")


def others(report: Report, folder: Path) -> None:
    sets = {name: answers(folder, name) for name in ANSWER_SETS}
    texts = paragraphs(folder)
    model = Fitted(sets["ragtruth_qa"], texts)
    report.say(
        "\n### Other labelled sets, fitted on RAGTruth only, their text not in the table either\n"
    )
    report.table(
        "set",
        "answers",
        "bad",
        "AUROC",
        "unsupported mass",
        "recall@20%",
        "ceiling",
        "recall@20% at 10 % bad",
    )
    means, caught = [], []
    for name in ANSWER_SETS[1:]:
        rows = sets[name]
        labels = [r.label for r in rows]
        scores = model.risks(rows)
        found = measured_on(
            name, labels, scores, [r.group for r in rows], score="groundedness_risk"
        )
        report.figures.append(found)
        means.append(found["auroc"])
        caught.append(found["caught"])
        bad = float(np.mean(labels))
        single = auroc(labels, novel_mass(rows, model.table))
        report.row(
            name,
            len(rows),
            bad,
            means[-1],
            single,
            recall_at(labels, scores, 0.2),
            min(1.0, 0.2 / bad),
            caught[-1],
        )
    report.row("mean", "", "", float(np.mean(means)), "", "", "", float(np.mean(caught)))


def retrieval(report: Report, folder: Path) -> None:
    table = risk_fit.background(
        [r.context for name in ANSWER_SETS for r in answers(folder, name)],
        [r.answer for r in answers(folder, "ragtruth_qa")],
    )
    pool = risk_retrieval.training(folder)
    vectors = risk_retrieval.measured(pool, table)
    report.say("\n## retrieval_risk: SQuAD 2.0, top 5 BM25 + top 5 LSA, 6 folds by article\n")
    report.table(
        "index",
        "questions",
        "insufficient",
        "AUROC",
        "text only",
        "best sentence",
        "recall@10%",
        "recall@20%",
        "ceilings",
    )
    for name, kept, hard in (
        ("half of the paragraphs removed", 0.5, False),
        ("complete", 1.0, False),
        ("complete, adversarial questions too", 1.0, True),
    ):
        rows = asked(folder, kept=kept, seed=0, unanswerable=hard)
        measured = risk_retrieval.measured(rows, table)
        labels, groups = [r.label for r in rows], [r.group for r in rows]
        scores = {"hybrid": np.zeros(len(rows)), "text": np.zeros(len(rows))}
        for _, rest in GroupKFold(6).split(rows, groups=groups):
            out = {groups[i] for i in rest}
            kept_rows = [i for i, row in enumerate(pool) if row.group not in out]
            fit = [vectors[i] for i in kept_rows], [pool[i] for i in kept_rows]
            text_model, hybrid = (risk_retrieval.fit(part, *fit) for part in ("text", "hybrid"))
            for i in rest:
                scores["text"][i] = text_model.risk(measured[i])
                scores["hybrid"][i] = (
                    hybrid.risk(measured[i]) if "overlap" in measured[i] else scores["text"][i]
                )
        report.figures.append(
            measured_on(
                f"SQuAD 2.0, {name}", labels, scores["hybrid"], groups, score="retrieval_risk"
            )
        )
        bad = float(np.mean(labels))
        caught = [recall_at(labels, scores["hybrid"], b) for b in (0.1, 0.2)]
        single = auroc(labels, [-m["best_sentence"] for m in measured])
        ceilings = " / ".join(f"{min(1.0, b / bad):.2f}" for b in (0.1, 0.2))
        report.row(
            name,
            len(rows),
            bad,
            auroc(labels, scores["hybrid"]),
            auroc(labels, scores["text"]),
            single,
            *caught,
            ceilings,
        )


def cost(report: Report, folder: Path) -> None:
    rows = answers(folder, "ragtruth_qa")[::3]
    big = "\n\n".join(dict.fromkeys(r.context for r in rows))[:32_000]
    hybrid = [row.record for row in asked(folder, kept=1.0, seed=0)[::3]]
    plain = [
        Record(request=r.question, response=r.answer, retrieved_context=(Chunk(r.context),))
        for r in rows
    ]
    large = [
        Record(request=r.question, response=r.answer, retrieved_context=(Chunk(big),))
        for r in rows[:300]
    ]
    report.say("\n## Cost: CPU milliseconds per evaluation, one thread\n")
    report.table("what", "p50", "p95")
    for name, heuristic, records, warm in (
        ("groundedness_risk, its own context (1.2 kB)", groundedness_risk, plain, False),
        ("groundedness_risk, context seen before", groundedness_risk, plain, True),
        ("groundedness_risk, 32 kB context", groundedness_risk, large, False),
        ("groundedness_risk, 32 kB context seen before", groundedness_risk, large, True),
        ("retrieval_risk, 5 to 10 passages (6 kB)", retrieval_risk, hybrid, False),
        ("retrieval_risk, context seen before", retrieval_risk, hybrid, True),
    ):
        times = []
        for record in records:
            if warm:
                heuristic(record)
            else:
                _context.forget_contexts()
            start = time.thread_time()
            heuristic(record)
            times.append(1000 * (time.thread_time() - start))
        report.row(name, *(float(np.quantile(times, q)) for q in (0.5, 0.95)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, help="write the tables to this Markdown file too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures here too")
    options = parser.parse_args()
    report = Report()
    report.say("# The risk scores against human labels")
    cost(report, options.data)
    risk_languages.report(report.say, options.data)
    groundedness(report, options.data)
    others(report, options.data)
    generators(report, options.data)
    retrieval(report, options.data)
    if options.out:
        options.out.write_text("\n".join(report.lines) + "\n", encoding="utf-8")
    if options.json is not None:
        keep(options.json, "make quality", report.figures)


if __name__ == "__main__":
    main()
