"""The weighted sum of the features, and which of them speak loudest."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from llmeval_sdk.heuristics.aggregated_confidence import OTHERWISE, aggregated_confidence, runs_code
from llmeval_sdk.heuristics.extraction import _fit, _place, _rivalry, _votes
from llmeval_sdk.heuristics.extraction._history import Histories
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.values import ABSTAINED
from llmeval_sdk.text.extraction import (
    MAX_SHOWN,
    MAX_VALUES,
    Reading,
    abstained,
    read,
    value_of,
    values_of,
)


if TYPE_CHECKING:
    from llmeval_sdk.config import Settings


class RiskModel(NamedTuple):
    """What every feature weighs, and its mean over the labelled data."""

    bias: float
    weights: Mapping[str, float]
    means: Mapping[str, float]

    def risk(self, features: Mapping[str, float]) -> float:
        """Return the probability, 0..1, that a value is wrong; a feature that is absent is 0."""
        logit = self.bias + sum(
            weight * features.get(name, 0.0) for name, weight in self.weights.items()
        )
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))

    def loudest(self, features: Mapping[str, float], most: int = 4) -> list[str]:
        """Name the features that raise the risk most above what is usual."""
        raised = {
            name: weight * (features.get(name, 0.0) - self.means.get(name, 0.0))
            for name, weight in self.weights.items()
        }
        names = sorted(raised, key=lambda name: -raised[name])
        return [name for name in names[:most] if raised[name] > 0.05]


@lru_cache(None)
def shipped() -> RiskModel:
    """Read the weights that come with the package."""
    text = (files("llmeval_sdk.heuristics.extraction") / "data" / "extraction.json").read_text(
        encoding="utf-8"
    )
    data = json.loads(text)
    return RiskModel(data["bias"], data["weights"], data["means"])


def features(
    record: Record, reading: Reading, histories: Histories | None, name: str
) -> dict[str, float]:
    """Compute the features of one extracted value.

    Each lies between 0 and 1, and a high one is more common among wrong values.
    """
    confidence = aggregated_confidence(record)
    sure = confidence.value if isinstance(confidence.value, float) else OTHERWISE
    return {
        **_votes.measure(record, reading, sure),
        **_rivalry.measure(reading),
        **_fit.measure(record, reading, fits=confidence.metadata.get("format_valid")),
        **_place.measure(record, reading),
        **(histories.measure(name, reading) if histories is not None else {}),
    }


NAME = "extraction_risk"


@dataclass(frozen=True)
class ExtractionRisk:
    """Score 0..1, near 1 where an extracted value is probably wrong.

    Reads what every record of an extraction has: whether the extractors agree and how sure they
    are, which other values of the same kind stand in the passages and whether the field's cue words
    stand nearer to one of those, how the value fits its field, where it comes from, and what the
    field's values usually look like in this app. Compare ranks, not values, between applications.

    The cue words come from ``field_config`` (``name``, ``description``, and ``cues`` for more) and
    from the request. A list or table is as risky as its riskiest item. A record without a value has
    no risk: its label is ``abstained`` and `abstention_risk` says how likely a value was missed.

    Metadata: ``rival`` and ``rivals`` (the values that compete, strongest first, each with
    ``value``, ``chunk_number`` and ``evidence``), ``kind`` of the value, ``reasons`` (the features
    that raise the risk most), ``value`` (the riskiest item of several), and ``values_cut`` or
    ``passages_cut`` where not everything was read.
    """

    histories: Histories | None = None
    weights: RiskModel | None = None
    """What takes the place of the shipped weights, for training."""
    kind: Literal["heuristic"] = "heuristic"
    name: str = NAME
    version: str = "1"
    needs: tuple[str, ...] = ("extractions|field_config",)
    inline: bool = False
    automatic: bool = True

    def evaluate(self, record: Record, /) -> Evaluation:
        """Score one record."""
        values = values_of(record)
        if not values:
            return Evaluation(NAME, None, ABSTAINED, "the app gave no value")
        readings = read(record)
        if self.histories is not None:
            self.histories.remember(record, readings)
        if not readings or not (readings[0].passages.text or len(record.extractions or ()) > 1):
            reason = "there is neither a passage nor a second extraction to compare the value with"
            return Evaluation(NAME, None, None, reason)
        weights = self.weights or shipped()
        field = _field_of(record)
        measured = [features(record, reading, self.histories, field) for reading in readings]
        risks = [weights.risk(vector) for vector in measured]
        riskiest = risks.index(max(risks))
        reading, worst = readings[riskiest], measured[riskiest]
        reasons = weights.loudest(worst)
        metadata: dict[str, Any] = {"kind": reading.kind, "reasons": reasons}
        if reading.rivals:
            shown = [reading.shown(rival) for rival in reading.rivals[:MAX_SHOWN]]
            metadata |= {"rival": shown[0], "rivals": shown}
        if len(measured) > 1:
            metadata["value"] = reading.value[:200]
        if len(values) > MAX_VALUES:
            metadata["values_cut"] = True
        if reading.passages.cut:
            metadata["passages_cut"] = True
        telling = next((reason for reason in reasons if reason not in _GENERAL), None)
        why = explain(telling or reasons[0], reading) if reasons else None
        return Evaluation(NAME, round(risks[riskiest], 4), None, why, None, metadata)

    __call__ = evaluate

    def learn(self, record: Record, /) -> None:
        """Count a record's value in its field's history. The worker calls it, once per record."""
        if self.histories is not None:
            field = _field_of(record)
            if abstained(value_of(record)):
                self.histories.learn(field, None)
            readings = self.histories.recall(record)
            if readings is None:
                readings = read(record, most=1, with_rivals=False)
            for reading in readings:
                self.histories.learn(field, reading)

    def postponed(self, record: Record, /) -> bool:
        """Say whether the field's format is code of the app, which runs aside."""
        return runs_code(record)

    def configured(self, settings: Settings) -> ExtractionRisk:
        """Return it with the histories of this host, which stand beside the store."""
        from llmeval_sdk.store.ledger import HostLedger

        path = Path(settings.store).with_suffix(".history")
        return ExtractionRisk(Histories(HostLedger(path)), self.weights)


def _field_of(record: Record) -> str:
    """Return what a record's history goes by: the span's name and the field's."""
    config = record.field_config if isinstance(record.field_config, Mapping) else {}
    return f"{record.span_name or ''}/{config.get('name', '')!s:.100}"


_GENERAL = ("free_form", "opposed", "crowded", "lone")
"""True of many values of a field: told only where nothing more telling raises the risk."""
_WHY: Mapping[str, str] = {
    "against": "other extractions have another value",
    "split": "the extractions are divided",
    "lone": "only one extraction supports it",
    "few_sources": "it comes from few chunks",
    "outvoted": "another value has more votes",
    "unsure": "the aggregation is not sure of it",
    "unsure_self": "its extraction is not sure of it",
    "no_cue": "nothing near it names the field",
    "outnumbered": "another {kind} stands more often in the passages",
    "opposed": "there is another {kind} in the passages",
    "crowded": "the passages hold many values of its kind",
    "crowded_line": "other values of its kind stand right beside it",
    "wrong_format": "it does not have the format of its field",
    "wrong_kind": "a {kind} is not what the field's name calls for",
    "free_form": "it is free text, which nothing can check",
    "cut_off": "the source text continues after the value",
    "has_label": "it begins with a label",
    "long": "it is longer than one value usually is",
    "common": "it is made of common words",
    "unrelated": "another address fits the request better",
    "absent": "it stands in none of the passages",
    "uncited": "it stands in no chunk that its extractions cite",
    "low_rank": "its chunk was ranked low",
    "one_side": "only one retrieval method found its chunk",
    "low_score": "its chunk scored far below the best",
    "qualified": "a word on its line says that it is something else",
    "odd_shape": "values of this field usually look different",
    "odd_label": "other words usually stand before values of this field",
    "odd_place": "values of this field usually stand elsewhere",
    "odd_words": "values of this field usually have other words",
    "repeated": "the same value was given for many documents",
    "usually_empty": "most documents have no value of this field",
}
_KIND_WORDS = {"line": "line of text", "text": "passage", "money": "amount", "url": "address"}


def explain(reason: str, reading: Reading) -> str:
    """Say in a sentence what a feature means for this value."""
    kind = _KIND_WORDS.get(reading.kind, reading.kind)
    if reason == "rival_nearer" and reading.rivals:
        rival = reading.rivals[0]
        word = reading.marks.word(rival.start, rival.end)
        nearer = "stands nearer to" if rival.cue > reading.cue else "stands as near to"
        shown = rival.value if len(rival.value) <= 60 else rival.value[:60] + "…"
        return f"another {kind}, {shown!r}, {nearer} {word!r}"
    return _WHY.get(reason, reason).format(kind=kind)


extraction_risk = ExtractionRisk()
