"""The filters of the list: from an address to a query, and back into addresses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Any

from starlette.datastructures import QueryParams

from llmeval_sdk import _values
from llmeval_sdk.store.names import Known
from llmeval_sdk.store.query import Judged, Place, Query


RANGES = {"15m": 900, "1h": 3_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000}
JUDGED: Mapping[str, Judged] = {
    "yes": "yes", "escalated": "escalated", "control": "control", "no": "no",
}  # fmt: skip
MAX_COLUMNS = 12
_TEXTS = ("q", "span", "evaluator", "op", "value", "judge", "reason", "range", "sort")
_FLAGS = ("errors", "runs")
_FIRST_COLUMNS = (
    "extraction_risk", "groundedness_risk", "context_relevance", "context_recall_heuristic",
    "semantic_validation", "aggregated_confidence", "agreement_pattern", "context_precision",
    "retrieval_risk",
)  # fmt: skip
EXTRACTED = "context_precision"
"""What has a number only where records have extractions."""
_SHOWN = 6
_MOST = 1 << 63
"""What SQLite takes for a number."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What the address of a list asks for; an unknown name filters nothing."""

    params: Mapping[str, Any]
    """As they stand in addresses."""
    query: Query
    after: Place | None
    columns: tuple[str, ...]
    problems: tuple[str, ...] = field(default=())
    refused: bool = False
    """A filter makes no sense, so nothing is listed rather than everything."""

    @property
    def filtered(self) -> bool:
        """Whether some spans are left out."""
        return any(name not in ("sort", "col") for name in self.params)

    @property
    def fields(self) -> dict[str, Any]:
        """Return what stands in each field of the form; ``None`` where nothing does."""
        return {**dict.fromkeys((*_TEXTS, *_FLAGS, "col")), **self.params}

    def but(self, **changes: Any) -> dict[str, Any]:
        """Return the address' query with some of it changed; ``None`` leaves one out."""
        return {**self.params, **changes}


def read(given: QueryParams, known: Known) -> Filters:
    """Read the filters of an address."""
    params: dict[str, Any] = {name: given[name].strip() for name in _TEXTS if given.get(name)}
    params |= {name: "1" for name in _FLAGS if given.get(name)}
    problems: list[str] = []
    condition = _condition(params, known, problems)
    order_by = params.get("sort", "").removeprefix("-") or None
    highest = order_by is not None and _values.high_is_bad(order_by) != params["sort"].startswith(
        "-"
    )
    seconds = RANGES.get(params.get("range", ""))
    query = Query(
        span_name=params.get("span"),
        evaluator=params.get("evaluator"),
        judged=JUDGED.get(params.get("judge", ""), ""),
        reason=params.get("reason"),
        failed="errors" in params,
        text=params.get("q"),
        since=time.time_ns() - seconds * 1_000_000_000 if seconds else None,
        judges="runs" in params,
        order="newest" if not order_by else "highest" if highest else "lowest",
        order_by=order_by,
        **(condition or {}),
    )
    chosen = [name for name in given.getlist("col") if name][:MAX_COLUMNS]
    if chosen:
        params["col"] = chosen
    columns = tuple(dict.fromkeys(chosen)) or _default_columns(known, query)
    return Filters(
        params, query, _place(given.get("after")), columns, tuple(problems), condition is None
    )


def _condition(params: dict[str, Any], known: Known, problems: list[str]) -> dict[str, Any] | None:
    """Read ``evaluator``, ``op`` and ``value``; ``None`` for what cannot be compared.

    Half a condition filters nothing.
    """
    op, value = params.get("op", "below"), params.get("value")
    if "evaluator" not in params or value is None:
        params.pop("op", None)
        params.pop("value", None)
        return {}
    if op == "is":
        return {"verdict": value}
    name = params["evaluator"]
    if name in known.evaluators and name not in known.numeric:
        problems.append(f"{name} has given no numbers; to compare a word, choose “is”.")
    try:
        number = float(value)
    except ValueError:
        number = nan
    if not isfinite(number):
        problems.append(
            f"{op} {value!r} cannot be compared: {value!r} is no number. "
            "To compare a word, choose “is”."
        )
        return None
    return {"above" if op == "above" else "below": number}


def _place(text: str | None) -> Place | None:
    key, _, seq = (text or "").partition("~")
    try:
        place = Place(float(key) if "." in key or "e" in key else int(key), int(seq))
    except ValueError:
        return None
    return place if max(map(abs, place)) < _MOST else None


def _default_columns(known: Known, query: Query) -> tuple[str, ...]:
    """Show what is asked for, then judges, then the heuristics that say most."""
    wanted = [query.evaluator, query.order_by, *known.judges[:3], *_FIRST_COLUMNS]
    there = set(known.evaluators)
    if EXTRACTED not in known.numeric and query.evaluator != "semantic_validation":
        there.discard("semantic_validation")  # without extractions it says little
    shown = [name for name in wanted if name in there] + [
        name for name in known.heuristics if name in there
    ]
    return tuple(dict.fromkeys(name for name in shown if name))[:_SHOWN]
