"""Columns whose names are almost ours: nothing is guessed, and all of a row are named at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from llmeval_sdk.errors import DataError


ELSEWHERE = {
    "question": "request",
    "query": "request",
    "input": "request",
    "inputs": "request",
    "user_input": "request",
    "prompt": "request",
    "answer": "response",
    "output": "response",
    "outputs": "response",
    "prediction": "response",
    "contexts": "retrieved_context",
    "context": "retrieved_context",
    "retrieved_contexts": "retrieved_context",
    "documents": "retrieved_context",
    "chunks": "retrieved_context",
    "ground_truth": "expected_response",
    "reference": "expected_response",
    "expected_output": "expected_response",
    "expected_answer": "expected_response",
    "gold": "expected_response",
    "gold_answer": "expected_response",
    "id": "request_id",
    "latency": "latency_seconds",
    "trajectory": "steps",
    "tool_definitions": "tools",
    "reference_trajectory": "expected_trajectory",
    "expected_tool_calls": "expected_trajectory",
}
"""The names of our columns in other systems: an error suggests ours, and nothing is guessed."""


MOST_NAMED = 20
"""Unknown columns that one message names."""


def check_names(
    others: Mapping[str, Any], fields: Mapping[str, Any], where: str, columns: Iterable[str]
) -> None:
    """Refuse misspelled columns of the schema; other columns belong to the data set.

    Args:
        others: The columns of a row that the schema does not have.
        fields: Those that it has.
        where: The place of the row.
        columns: All that the schema has.
    """
    unknown: dict[str, str] = {}
    for column in others:
        name = str(column)
        close = get_close_matches(name.lower()[:80], columns, n=1, cutoff=0.85)
        meant = ELSEWHERE.get(name.lower()) or (close[0] if close else None)
        if meant is not None and meant not in fields:
            unknown[name] = meant
    if not unknown:
        return
    shown = dict(list(unknown.items())[:MOST_NAMED])
    named = ", ".join(f"{name!r:.80}: did you mean {ours!r}?" for name, ours in shown.items())
    more = f" and {len(unknown) - len(shown):,} more" if len(unknown) > len(shown) else ""
    several = "s" if len(unknown) > 1 else ""
    options = " ".join(f"--map {name:.80}={ours}" for name, ours in shown.items())
    raise DataError(
        f"{where}: unknown column{several} {named}{more} Map what is meant ({options}, or "
        f"map_columns={shown!r:.1000}), or rename it, or put what is not to be evaluated into "
        f"'attributes'{_also(others, unknown)}"
    )


def _also(others: Mapping[str, Any], unknown: Mapping[str, str]) -> str:
    """List the remaining unknown columns, which resemble none of ours."""
    rest = [str(name) for name in others if str(name) not in unknown]
    named = ", ".join(f"{name!r:.80}" for name in rest[:MOST_NAMED])
    more = f" and {len(rest) - MOST_NAMED:,} more" if len(rest) > MOST_NAMED else ""
    return f". These would be kept as attributes, unless mapped: {named}{more}" if rest else ""
