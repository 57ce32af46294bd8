"""The labelled development data as rows, and the figures that are reported on them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score


ANSWER_SETS = ("ragtruth_qa", "wice", "cliff_goyal", "begin")
BUDGETS = (0.1, 0.2, 0.3)


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled answer; label 1 = it says what its context does not."""

    group: str
    model: str
    question: str
    context: str
    answer: str
    label: int
    spans: tuple[tuple[int, int], ...] = ()


def answers(folder: Path, name: str) -> list[Row]:
    rows = []
    for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        spans = tuple((first, last) for first, last in row["extra"].get("spans", ()))
        rows.append(
            Row(
                row["group"],
                row["model"],
                row["question"],
                row["context"],
                row["response"],
                row["label"],
                spans,
            )
        )
    return rows


def paragraphs(folder: Path) -> list[str]:
    """The paragraphs of the SQuAD articles."""
    articles = json.loads((folder / "squad2_half.json").read_text(encoding="utf-8"))
    return [paragraph["text"] for paragraph in articles["paras"]]


def unmarked(context: str) -> str:
    """Drop the "passage 1:" marks, which contexts of other applications do not have."""
    return re.sub(r"passage \d+:", "", context)


def auroc(labels, scores) -> float:
    return float(roc_auc_score(labels, scores))


def recall_at(labels, scores, budget: float, share_bad: float | None = None) -> float:
    """Share of all bad rows among the most suspicious ``budget`` of the traffic.

    With ``share_bad`` the rows are weighted so that this share of the traffic is bad.
    """
    labels = np.asarray(labels)
    weights = np.ones(len(labels))
    if share_bad is not None:
        observed = labels.mean()
        weights = np.where(labels == 1, share_bad / observed, (1 - share_bad) / (1 - observed))
    order = np.argsort(-np.asarray(scores), kind="stable")
    spent = np.cumsum(weights[order]) / weights.sum()
    caught = np.cumsum((weights * labels)[order]) / (weights * labels).sum()
    return float(np.interp(budget, [0.0, *spent], [0.0, *caught]))


def interval(labels, scores, groups, rounds: int = 300) -> tuple[float, float]:
    """The 95 % bootstrap interval of the AUROC, drawn by source."""
    labels, scores, groups = map(np.asarray, (labels, scores, groups))
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    dice = np.random.default_rng(0)
    drawn = []
    for _ in range(rounds):
        picked = np.concatenate([members[i] for i in dice.integers(0, len(members), len(members))])
        if 0 < labels[picked].mean() < 1:
            drawn.append(auroc(labels[picked], scores[picked]))
    return float(np.quantile(drawn, 0.025)), float(np.quantile(drawn, 0.975))


def measured_on(name, labels, scores, groups, *, score: str) -> dict[str, Any]:
    """Return how well a score finds what is labelled as wrong in a set, as results are kept.

    ``caught`` is the share of the errors among the riskiest fifth, where a tenth is wrong.
    """
    low, high = interval(labels, scores, groups)
    return {
        "score": score,
        "set": name,
        "records": len(labels),
        "wrong": float(np.mean(labels)),
        "auroc": float(auroc(labels, scores)),
        "low": low,
        "high": high,
        "caught": float(recall_at(labels, scores, 0.2, 0.1)),
    }
