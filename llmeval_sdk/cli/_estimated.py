"""How ``llmeval evaluate --estimate`` shows what a run would cost."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from llmeval_sdk.cli._output import say, say_json, table


if TYPE_CHECKING:  # `llmeval --help` loads no event loop
    from llmeval_sdk.offline.run.cost import CostEstimate


def show(estimate: CostEstimate, *, as_json: bool) -> int:
    """Print an estimate; return the exit code."""
    if as_json:
        say_json({**asdict(estimate), "cost_usd": estimate.cost_usd})
        return 0
    say(f"An estimate for {estimate.rows:,} rows; no model was asked.")
    if estimate.models:
        _models(estimate)
    elif not estimate.unknown:
        say("No evaluator of this run asks a model: it costs nothing.")
    for judge, rows in estimate.unknown.items():
        say(f"{judge} is code: what it asks for {rows:,} rows shows only when it runs.")
    return 0


def _models(estimate: CostEstimate) -> None:
    rows = [
        (
            model.model,
            "decisions" if model.is_decisions else "judgements",
            f"{model.requests:,}",
            f"{model.usage.input_tokens:,}",
            f"{model.usage.output_tokens:,}",
            f"{model.cached:,}",
            _dollars(model.usage.cost_usd),
        )
        for model in estimate.models
    ]
    titles = ("model", "for", "requests", "input", "output", "cached", "cost")
    table(titles, rows, numbers=" ".join(titles[2:]))
    say("\nInput and output are tokens: of the input the most, at three characters a token.")
    say(f"Altogether about {_dollars(estimate.cost_usd)}, without retries.")
    if any(model.usage.cost_usd is None for model in estimate.models):
        say("Give the price of a model with --price 'MODEL=IN,OUT'.")


def _dollars(usd: float | None) -> str:
    return "an unknown price" if usd is None else f"${usd:.4f}"
