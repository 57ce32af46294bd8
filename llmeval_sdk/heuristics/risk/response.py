"""The features of a whole response, made from those of its sentences.

None of them describes style, such as length, lists or phrases. Style tells which generator wrote an
answer and not whether it is supported, so a model that uses it fails on the next generator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from llmeval_sdk.heuristics.risk._sentence import Sentence


NAMES = (
    "novel_mass", "novel_share", "novel_count", "worst_mass", "second_mass", "novel_run",
    "novel_run_mass", "novel_max", "fresh_mass", "best", "best_pair", "worst_best",
    "worst_best_pair", "bigrams", "copied", "numbers_absent", "numbers_far", "numbers_unpaired",
    "units_changed", "negated", "affirmed", "citation_gap", "asked_missing", "bigrams_absent",
    "worst_bigrams", "capitals_absent", "split_pairs", "question_share", "risk_1", "risk_2",
    "risk_3", "risk_mean", "risk_sum", "risk_any",
)  # fmt: skip


def measure(sentences: Sequence[Sentence], risks: Sequence[float]) -> dict[str, float]:
    """Summarise the features of a response's sentences, by name.

    Args:
        sentences: The sentences of the response; at least one.
        risks: The risk of each sentence, 0..1.
    """
    rows = [sentence.features for sentence in sentences]
    weights = [row["content"] + 1e-9 for row in rows]
    weight = sum(weights)
    shared = list(zip(rows, weights, strict=True))

    def total(name: str) -> float:
        return sum([row[name] for row in rows])

    def mean(name: str) -> float:
        return sum([row[name] * share for row, share in shared]) / weight

    masses = sorted([row["novel_mass"] for row in rows], reverse=True)
    worst = [*sorted(risks, reverse=True)[:3], 0.0, 0.0]
    return {
        "novel_mass": total("novel_mass"),
        "novel_share": total("novel_mass") / (total("mass") or 1.0),
        "novel_count": total("novel_count"),
        "worst_mass": masses[0],
        "second_mass": masses[1] if len(masses) > 1 else 0.0,
        "novel_run": max([row["novel_run"] for row in rows]),
        "novel_run_mass": max([row["novel_run_mass"] for row in rows]),
        "novel_max": max([row["novel_max"] for row in rows]),
        "fresh_mass": total("fresh_mass"),
        "best": mean("best"),
        "best_pair": mean("best_pair"),
        "worst_best": min([row["best"] for row in rows]),
        "worst_best_pair": min([row["best_pair"] for row in rows]),
        "bigrams": mean("bigrams"),
        "copied": max([row["copied"] for row in rows]),
        "numbers_absent": total("numbers_absent"),
        "numbers_far": total("numbers_far"),
        "numbers_unpaired": total("numbers_unpaired"),
        "units_changed": total("units_changed"),
        "negated": max([row["negated"] for row in rows]),
        "affirmed": max([row["affirmed"] for row in rows]),
        "asked_missing": rows[0]["asked_missing"],
        "bigrams_absent": total("bigrams_absent"),
        "worst_bigrams": min([row["bigrams"] for row in rows]),
        "citation_gap": total("citation_gap"),
        "capitals_absent": total("capitals_absent"),
        "split_pairs": total("split_pairs") / len(rows),
        "question_share": total("question_share") / len(rows),
        "risk_1": worst[0],
        "risk_2": worst[1],
        "risk_3": worst[2],
        "risk_mean": sum(risks) / len(rows),
        "risk_sum": sum(risks),
        "risk_any": -sum(math.log(max(1e-3, 1.0 - risk)) for risk in risks),
    }
