"""The tokens and seconds that a request took. These heuristics run only if they are named."""

from __future__ import annotations

from functools import partial

from llmeval_sdk.heuristics._reading import number
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation, Record


def _total_token_count(record: Record) -> Evaluation | None:
    """Return the number of tokens into and out of all model calls of the request."""
    usage = record.usage
    if usage is None:
        return None
    total = number(usage.total_tokens)
    if not total:
        total = (number(usage.input_tokens) or 0.0) + (number(usage.output_tokens) or 0.0)
    return Evaluation("total_token_count", total)


def _total_input_token_count(record: Record) -> Evaluation | None:
    """Return the number of tokens that went into all model calls of the request."""
    count = None if record.usage is None else number(record.usage.input_tokens)
    return Evaluation("total_input_token_count", count)


def _total_output_token_count(record: Record) -> Evaluation | None:
    """Return the number of tokens that came out of all model calls of the request."""
    count = None if record.usage is None else number(record.usage.output_tokens)
    return Evaluation("total_output_token_count", count)


def _latency_seconds(record: Record) -> Evaluation | None:
    """Return the seconds from the start of the request to its end."""
    seconds = number(record.latency_seconds)
    return None if seconds is None else Evaluation("latency_seconds", seconds)


_token_count = partial(
    FunctionHeuristic,
    needs=("usage",), inline=True, automatic=False, output="count",
)  # fmt: skip

total_token_count = _token_count(
    _total_token_count, "total_token_count", report_path="agent/total_token_count"
)
total_input_token_count = _token_count(
    _total_input_token_count,
    "total_input_token_count",
    report_path="agent/total_input_token_count",
    metric_path="agent/input_token_count/average",
)
total_output_token_count = _token_count(
    _total_output_token_count,
    "total_output_token_count",
    report_path="agent/total_output_token_count",
    metric_path="agent/output_token_count/average",
)
latency_seconds = FunctionHeuristic(
    _latency_seconds,
    "latency_seconds",
    needs=("latency_seconds",),
    inline=True,
    automatic=False,
    report_path="agent/latency_seconds",
)
