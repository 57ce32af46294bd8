"""Where an evaluation stands in the agent-evaluation schema, in a row and in the aggregates."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline.results.outputs import Output, output_seen


CHUNK_COLUMNS = ("ratings", "rationales", "error_messages")


def columns(name: str, output: Output) -> dict[str, str]:
    """Return the columns of an evaluator in a table of rows, and what each holds.

    They hold a ``number``, ``count``, ``flag``, ``word``, ``list`` or ``any``.
    """
    base = _base(name, output)
    value = "word" if output.gives == "yes_no" else output.gives
    if output.per_chunk:
        lists = {f"{base}/{key}": "list" for key in CHUNK_COLUMNS}
        return {**lists, f"{base}/precision": "number"}
    if not output.is_judge:
        return {base: value}
    rated = base if output.gives == "number" else f"{base}/rating"
    return {rated: value, f"{base}/rationale": "word", f"{base}/error_message": "word"}


def cells(evaluation: Evaluation, output: Output) -> dict[str, Any]:
    """Return what an evaluation says, by the columns of its evaluator."""
    names = columns(evaluation.name, output)
    metadata, error = evaluation.metadata, evaluation.error
    if output.per_chunk:
        said = [metadata.get(key) for key in CHUNK_COLUMNS]
        return dict(zip(names, (*said, evaluation.value), strict=True))
    why = error and (error.message or error.type)
    said = [evaluation.value, evaluation.explanation, why]
    return dict(zip(names, said, strict=False))  # a heuristic has the value alone


def contributions(evaluation: Evaluation) -> dict[str, float]:
    """Return what a rated row adds to the aggregates: each is the mean over the rated rows."""
    value = evaluation.value
    if value is None:
        return {}
    output = output_seen(evaluation)
    if output.gives == "word":
        return {f"{evaluation.name}/{value}/percentage": 1.0}
    amount = float(value == "yes") if isinstance(value, str) else float(value)
    return {_metric(evaluation.name, output): amount}


def metric_paths(name: str, output: Output) -> tuple[str, ...]:
    """Return the metrics that an evaluator can have; ``*`` stands for any one category."""
    if output.per_chunk or output.gives in ("number", "count", "flag", "yes_no"):
        return (_metric(name, output),)
    rating = _metric(name, output._replace(gives="yes_no"))
    words = tuple(f"{name}/{word}/percentage" for word in output.words or ("*",))
    if output.gives == "word":
        return (*words, rating) if output.is_judge and "yes" in output.words else words
    averages = (
        _metric(name, output._replace(gives="number")),
        _metric(name, output._replace(gives="flag")),
    )
    return tuple(dict.fromkeys((*((rating,) * output.is_judge), *averages, *words)))


@lru_cache(1_024)  # asked for once per evaluation of every row
def _metric(name: str, output: Output) -> str:
    declared = _declared(name, "metric_path")
    if declared is not None:
        return declared
    base = _base(name, output)
    if output.per_chunk:
        return f"{base}/precision/average"
    is_rating = output.is_judge and output.gives == "yes_no"
    return f"{base}/rating/percentage" if is_rating else f"{base}/average"


def _base(name: str, output: Output) -> str:
    """Return where an evaluator stands: judged ratings and chunks have branches of the schema."""
    declared = _declared(name, "report_path")
    if declared is not None:
        return declared
    if output.per_chunk:
        return f"retrieval/llm_judged/{name}"
    if not output.is_judge or output.gives == "number":
        return name
    return f"response/llm_judged/{name}"


def _declared(name: str, attribute: str) -> str | None:
    """Return a path that the evaluator itself declares."""
    path: str | None = getattr(registry.known(name), attribute, None)
    return path
