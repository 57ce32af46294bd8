"""Fit what `groundedness_risk` and `retrieval_risk` ship: run once, commit what it writes.

    python benchmarks/quality/risk_train.py --data ../shared/data --out llmeval_sdk/heuristics/risk/data

Needs numpy, scikit-learn and bm25s; the package itself needs none of them. Same data, same files.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import risk_data
import risk_fit
import risk_retrieval
from risk_swaps import SHARES_OTHER

from llmeval_sdk.heuristics.risk._words import Additive


DATE = "2026-11-22"
VERSION = "2"
LICENCE = (
    "Fitted numbers and word counts only, no text of the sources, under this project's licence. "
    "Sources: RAGTruth, QA part, training split (MIT; passages from MS MARCO, research use); WiCE "
    "(annotations ODC-BY, text CC BY-SA); CLIFF and Goyal'21; BEGIN (CC BY and others); SQuAD 2.0 "
    "(CC BY-SA 4.0)."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("llmeval_sdk/heuristics/risk/data"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sets = {name: risk_data.answers(options.data, name) for name in risk_data.ANSWER_SETS}
    rows = risk_fit.training(sets["ragtruth_qa"])
    texts = [row.context for name in sets for row in sets[name]]
    texts += risk_data.paragraphs(options.data)
    table = risk_fit.background(texts, [row.answer for row in sets["ragtruth_qa"]])
    by_weight: dict[str, list[str]] = {}
    for stem, weight in table.items():
        by_weight.setdefault(f"{weight:.1f}", []).append(stem)
    write(
        options.out / "background.json",
        "contexts of all sets and answers of RAGTruth",
        {"stems": {weight: " ".join(by_weight[weight]) for weight in sorted(by_weight, key=float)}},
    )
    found = risk_fit.measured(rows, table)
    sentence, response = risk_fit.stack(found, rows)
    many = risk_fit.training(sets["ragtruth_qa"], SHARES_OTHER)
    other_sentence, other_response = risk_fit.stack(risk_fit.measured(many, table), many)
    write(
        options.out / "groundedness.json",
        f"RAGTruth QA training split, 3,356 answers of four open models with human span labels, "
        f"and {len(rows) - 3356} copies of clean ones with one number, name, unit, citation or "
        f"negation changed ({len(many) - 3356} copies for other languages than English)",
        {
            "span_threshold": risk_fit.span_threshold(found, rows),
            "english_sentence": plain(sentence),
            "english_response": plain(response),
            "other_sentence": plain(other_sentence),
            "other_response": plain(other_response),
        },
    )
    asked = risk_retrieval.training(options.data)
    vectors = risk_retrieval.measured(asked, table)
    write(
        options.out / "retrieval.json",
        "SQuAD 2.0: answerable questions of 12 articles asked of indexes that lack paragraphs",
        {part: plain(risk_retrieval.fit(part, vectors, asked)) for part in risk_retrieval.PARTS},
    )


def plain(model: Additive) -> dict[str, object]:
    return {"bias": model.bias, "features": {n: t._asdict() for n, t in model.features.items()}}


def write(path: Path, training_data: str, content: dict[str, object]) -> None:
    note = {"version": VERSION, "date": DATE, "training_data": training_data, "licence": LICENCE}
    lines = json.dumps({**note, **content}, ensure_ascii=False, indent=None, separators=(",", ":"))
    path.write_text(lines.replace('},"', '},\n"') + "\n", encoding="utf-8")
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
