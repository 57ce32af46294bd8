"""Ragas' own metrics, by name or as objects of the app's. Imports Ragas."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

import ragas.metrics
from ragas.dataset_schema import SingleTurnSample
from ragas.metrics import collections

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.plugins.ragas._adapter import JudgeEmbeddings, JudgeModel


async def score(
    metric: Any, columns: Mapping[str, Any], model: JudgeModel, embeddings: JudgeEmbeddings
) -> dict[str, Any]:
    """Score with a metric of either family; what it lacks (LLM, embeddings) is ours."""
    if isinstance(metric, str):
        metric = _made(metric, model, embeddings)
    if hasattr(metric, "single_turn_ascore"):
        metric = _completed(metric, model, embeddings)
        with _counted(metric, model):
            value = await metric.single_turn_ascore(SingleTurnSample(**columns))
        return {"value": float(value)}
    taken = inspect.signature(metric.ascore).parameters
    with _counted(metric, model):
        result = await metric.ascore(**{k: v for k, v in columns.items() if k in taken})
    value = result.value
    return {
        "value": float(value) if isinstance(value, (int, float)) else value,
        "explanation": result.reason,
    }


def _made(name: str, model: JudgeModel, embeddings: JudgeEmbeddings) -> Any:
    """Make a metric of the current family, or of the legacy one where only that has it."""
    for family in (vars(collections), ragas.metrics._DEPRECATED_METRICS):
        for kind in family.values():
            if isinstance(kind, type) and _snake(kind.__name__) == name:
                given = {"llm": model, "embeddings": embeddings}
                taken = inspect.signature(kind).parameters
                return kind(**{k: v for k, v in given.items() if k in taken})
    raise JudgeError("not_installed", f"this Ragas has no metric {name!r}")


def _snake(name: str) -> str:
    """Turn a class's name into the metric's: ``NonLLMContextRecall`` -> non_llm_context_recall."""
    for word in ("LLM", "SQL", "CHRF"):
        name = name.replace(word, word.capitalize())
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _completed(metric: Any, model: JudgeModel, embeddings: JudgeEmbeddings) -> Any:
    """Give a copy of a legacy metric what it lacks; the app's object stays as it is."""
    lacking = {
        name: ours
        for name, ours in (("llm", model), ("embeddings", embeddings))
        if getattr(metric, name, ours) is None
    }
    if lacking:
        metric = copy.copy(metric)
        for name, ours in lacking.items():
            setattr(metric, name, ours)
    return metric


def _counted(metric: Any, model: JudgeModel) -> Any:
    """Note a run with the app's own LLM as one call of unknown size; ours counts by itself."""
    from contextlib import nullcontext

    own = getattr(metric, "llm", None)
    return nullcontext() if own is None or own is model else model.call(type(metric).__name__)
