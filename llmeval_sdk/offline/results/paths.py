"""Where an evaluation stands in the agent-evaluation schema, in a row and in the aggregates."""

from __future__ import annotations

from typing import Any

from llmeval_sdk.model import Evaluation, Score


def outcomes(evaluation: Evaluation) -> dict[str, Score]:
    """Return what an evaluation says by the schema's paths, aggregates aside."""
    base, per_chunk = base_of(evaluation)
    said: dict[str, Any]
    if per_chunk:
        metadata = evaluation.metadata
        said = {key: metadata.get(key) for key in ("ratings", "rationales", "error_messages")}
        said["precision"] = evaluation.value
    elif "/llm_judged/" in base:
        said = {"rating": evaluation.value, "rationale": evaluation.explanation}
        said["error_message"] = evaluation.error and (
            evaluation.error.message or evaluation.error.type
        )
    else:
        return {base: evaluation.value}
    return {f"{base}/{key}": value for key, value in said.items()}


_AT = {
    "document_recall": "retrieval/ground_truth/document_recall",
    "context_sufficiency": "retrieval/llm_judged/context_sufficiency",
    "total_token_count": "agent/total_token_count",
    "total_input_token_count": "agent/total_input_token_count",
    "total_output_token_count": "agent/total_output_token_count",
    "latency_seconds": "agent/latency_seconds",
}
_AVERAGES = {
    "agent/total_input_token_count": "agent/input_token_count/average",
    "agent/total_output_token_count": "agent/output_token_count/average",
    "response/llm_judged/safety": "response/llm_judged/safety/rating/average",
}


def base_of(evaluation: Evaluation) -> tuple[str, bool]:
    """Return where an evaluation stands in the schema, and whether it is one per chunk."""
    name = evaluation.name
    if evaluation.evaluator_kind != "judge":
        return _AT.get(name, name), False
    if "ratings" in evaluation.metadata or name == "chunk_relevance":
        return f"retrieval/llm_judged/{name}", True
    if name in _AT:
        return _AT[name], False
    is_score = isinstance(evaluation.value, float)
    return (name, False) if is_score else (f"response/llm_judged/{name}", False)


def contributions(evaluation: Evaluation) -> dict[str, float]:
    """Return what a rated row adds to the aggregates: each is the mean over the rated rows."""
    value = evaluation.value
    base, per_chunk = base_of(evaluation)
    if isinstance(value, str):
        if evaluation.evaluator_kind == "judge" and value in ("yes", "no"):
            path = _AVERAGES.get(base, f"{base}/rating/percentage")
            return {path: 1.0 if value == "yes" else 0.0}
        return {f"{evaluation.name}/{value}/percentage": 1.0}
    if value is None:
        return {}
    if per_chunk:
        return {f"{base}/precision/average": float(value)}
    return {_AVERAGES.get(base, f"{base}/average"): float(value)}
