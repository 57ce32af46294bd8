"""The tables of the demo's cascade: the three tiers, and what they find of the bad answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console

from llmeval_sdk.demo.show import Result, percent, section, table
from llmeval_sdk.model import Evaluation
from llmeval_sdk.policy.cascade import HIGH, LOW
from llmeval_sdk.store.tiers import Tiers


CASCADE = "extraction_correctness"
"""The judge that the demo's cascade asks."""
FREE = "extraction_risk"


def tiers(
    console: Console, results: Sequence[Result], cascade: Tiers | None, *, stand_ins: bool
) -> None:
    """Show each tier's share of the records, and how many of the bad answers it finds."""
    answered = [row for row in results if row.answered]
    bad = [row for row in answered if row.outcome != "right"]
    decided = [row for row in answered if CASCADE in row.decisions]
    judged = [row for row in decided if _judged(row) is not None]
    made = table(console, "tier", "records", "share", "cost", "bad found", "good doubted")
    riskiest = sorted(answered, key=lambda row: -(row.value(FREE) or 0.0))[: len(bad)]
    made.add_row(
        f"1 free score: the {len(bad)} riskiest", str(len(answered)), "100%", "$0",
        *_caught(riskiest, bad, answered),
    )  # fmt: skip
    said_no = [row for row in decided if row.decisions[CASCADE].value == "no"]
    made.add_row(
        "2 decision model", str(len(decided)), percent(len(decided), len(answered)),
        _cost(row.decisions[CASCADE] for row in decided), *_caught(said_no, bad, answered),
    )  # fmt: skip
    counting = [row for row in decided if row.value(CASCADE) == "no"]
    made.add_row(
        "3 judge model, where uncertain", str(len(judged)), percent(len(judged), len(answered)),
        _cost(filter(None, map(_judged, judged))), *_caught(counting, bad, answered),
    )  # fmt: skip
    bounds = f"Uncertain is a probability from {LOW:g} to {HIGH:g}."
    meaning = f"bad found: of {len(bad)} wrong or invented answers; the last line is all tiers."
    notes = [f"{bounds} {meaning}"]
    if cascade is not None:
        notes.append(
            f"The judge model changed {cascade.changed} of {cascade.both} decisions that it saw,"
            f" {cascade.to_good} of them to yes."
        )
    if stand_ins:
        notes.append(
            "Both models are STAND-INS: rules on shared words behind a local server, no models."
            " The table shows how the tiers work together and says nothing about quality."
        )
    called = " (stand-ins, no models)" if stand_ins else ""
    section(console, f"Three tiers of {CASCADE}{called}", made, "\n".join(notes))


def _judged(row: Result) -> Evaluation | None:
    verdict = row.evaluations.get(CASCADE)
    return verdict if verdict is not None and verdict.evaluator_kind == "judge" else None


def _caught(
    named: Sequence[Result], bad: Sequence[Result], answered: Sequence[Result]
) -> tuple[str, str]:
    found = sum(row in bad for row in named)
    good = len(answered) - len(bad)
    return f"{found} ({percent(found, len(bad))})", percent(len(named) - found, good)


def _cost(evaluations: Iterable[Evaluation]) -> str:
    used = [evaluation.usage for evaluation in evaluations if evaluation.usage is not None]
    costs = [usage.cost_usd for usage in used if usage.cost_usd is not None]
    if costs:
        return f"${sum(costs):.4f}"
    tokens = sum(usage.total_tokens for usage in used)
    return f"{tokens:,} tokens"
