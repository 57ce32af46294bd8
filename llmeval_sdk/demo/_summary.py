"""What `llmeval demo --json` prints: the figures of its tables, as one document."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from llmeval_sdk import _values
from llmeval_sdk.demo.show import Result


def summary(
    store: str, judge: str, results: Sequence[Result], phases: Mapping[str, float], stats: Any
) -> dict[str, Any]:
    """Return the outcomes of each field, the mean of each score, and what was not run or lost.

    Args:
        store: where the spans and scores are.
        judge: the judge model; the stand-in has a name that says so.
        results: one for each request.
        phases: seconds by what was done.
        stats: what became of all records.
    """
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    numbers: dict[str, list[float]] = defaultdict(list)
    not_run: Counter[str] = Counter()
    for result in results:
        outcomes[result.field][result.outcome] += 1
        not_run.update(refusal.reason for refusal in result.not_run)
        for name, evaluation in result.evaluations.items():
            if (number := _values.number(evaluation.value)) is not None:
                numbers[name].append(number)
    return {
        "store": store,
        "judge": judge,
        "records": len(results),
        "outcomes": {field: dict(counts) for field, counts in outcomes.items()},
        "scores": {
            name: {"mean": sum(values) / len(values), "count": len(values)}
            for name, values in sorted(numbers.items())
        },
        "not_run": dict(not_run),
        "seconds": dict(phases),
        "stats": stats,
    }
