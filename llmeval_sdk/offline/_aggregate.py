"""Evaluations of many rows -> metrics by path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline._report import Row


_PATHS = {
    "document_recall": "retrieval/ground_truth/document_recall/average",
    "total_token_count": "agent/total_token_count/average",
    "total_input_token_count": "agent/input_token_count/average",
    "total_output_token_count": "agent/output_token_count/average",
    "latency_seconds": "agent/latency_seconds/average",
    "safety": "response/llm_judged/safety/rating/average",
    "context_sufficiency": "retrieval/llm_judged/context_sufficiency/rating/percentage",
    "chunk_relevance": "retrieval/llm_judged/chunk_relevance/precision/average",
}
"""Paths of the agent-evaluation schema where the name alone does not give them."""


def aggregate(rows: Iterable[Row]) -> tuple[dict[str, float], dict[str, dict[str, int]]]:
    """Return the metrics and, by evaluator, how many rows had a value, none, or an error."""
    found: dict[str, list[Evaluation]] = {}
    for row in rows:
        for name, evaluation in row.evaluations.items():
            found.setdefault(name, []).append(evaluation)
    metrics: dict[str, float] = {}
    counts: dict[str, dict[str, int]] = {}
    for name, evaluations in found.items():
        rated = [each for each in evaluations if each.value is not None]
        failures = sum(each.error is not None for each in evaluations)
        counts[name] = {
            "evaluated": len(rated),
            "not_applicable": len(evaluations) - len(rated) - failures,
            "failed": failures,
        }
        if rated:
            metrics.update(_metrics(name, rated))
    return metrics, counts


def _metrics(name: str, rated: list[Evaluation]) -> dict[str, float]:
    values = [each.value for each in rated]
    words = [value for value in values if isinstance(value, str)]
    judged = rated[0].evaluator_kind == "judge"
    if words and judged and set(words) <= {"yes", "no"}:
        path = _PATHS.get(name, f"response/llm_judged/{name}/rating/percentage")
        return {path: words.count("yes") / len(words)}
    if words:
        shares = Counter(words)
        return {f"{name}/{word}/percentage": n / len(words) for word, n in shares.items()}
    mean = sum(float(value) for value in values if isinstance(value, (float, bool))) / len(values)
    return {_PATHS.get(name, f"{name}/average"): mean}
