"""What was said of scored records, heard on any thread and kept until the worker studies it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from llmeval_sdk import registry
from llmeval_sdk.model import EvaluationEvent, Record, is_stand_in, values
from llmeval_sdk.plugins.learning._course import PEOPLE, Source
from llmeval_sdk.plugins.learning._outcomes import Entry
from llmeval_sdk.process.shield import caught


SITE = "learned weights"
MOST_WAITING, MOST_RECENT, MOST_JUDGED = 1_000, 200, 2_000
"""Outcomes that wait for the worker; scored records and judged records whose features are kept."""


LONGEST_NAME = 200


class Known(NamedTuple):
    """The features of one record, as they were when it was scored."""

    part: str
    """The score and the language, such as ``groundedness_risk/en``: each learns by itself."""
    features: str
    """A fingerprint of the features' names; verdicts on other features are not used."""
    logit: float
    """The logit of the risk that the shipped weights give."""
    vector: tuple[float, ...]
    """The values of the features, in the order of the score's names."""


class Hearing:
    """Pairs what judges and people say with what a score knew of the record before."""

    def __init__(self, *, names: bool = True) -> None:
        self._names = names
        self.news: deque[Entry] = deque()
        """Outcomes whose features are known, which wait for the worker."""
        self.labels: deque[tuple[str, str, float, float]] = deque()
        """Labels of judged records that wait for the worker. Each has the judge, the span's id,
        how bad the record is (0..1), and the chance that it was labelled."""
        self._recent: dict[str, Known] = {}
        self._judged: dict[str, Known] = {}

    def scored(self, span_id: str, known: Known) -> None:
        """Keep what was known of a record that was just scored."""
        _put(self._recent, span_id, known, MOST_RECENT)

    def admitted(self, record: Record) -> None:
        """Keep what is known of a record that a judge is about to see."""
        known = self._recent.get(record.span_id or "")
        if known is not None and record.span_id:
            _put(self._judged, record.span_id, known, MOST_JUDGED)

    def hear(self, event: EvaluationEvent, scores: Collection[str]) -> None:
        """Take in a verdict or a label if it says whether one of the scores was right."""
        evaluation, span_id = event.evaluation, event.target.span_id
        value = None if evaluation.error is not None else values.number(evaluation.value)
        if (
            registry.predictor_of(evaluation.name) not in scores
            or value is None
            or not 0 <= value <= 1
            or not span_id
        ):
            return
        if evaluation.evaluator_kind == "human":
            self._hear_person(event, span_id, 1 - value)
        elif not (evaluation.metadata.get("cached") or is_stand_in(evaluation)):
            self._hear_judge(event, span_id, 1 - value)

    def _hear_judge(self, event: EvaluationEvent, span_id: str, bad: float) -> None:
        known, evaluation = self._judged.get(span_id), event.evaluation
        if known is None or not 0 < evaluation.inclusion_probability <= 1:
            return  # the score did not apply to the record, or nobody knows how it was chosen
        model = str(evaluation.metadata.get("model") or "")
        source = Source(evaluation.name, evaluation.evaluator_version, model)
        self._keep(known, source, event, bad, evaluation.inclusion_probability)

    def _hear_person(self, event: EvaluationEvent, span_id: str, bad: float) -> None:
        """Take in a label. Clicks of the app's users choose themselves, and are none."""
        evaluation = event.evaluation
        if evaluation.metadata.get("source") == "user":
            return
        chance = _chance(evaluation.metadata)
        known = None if span_id in self._judged else self._recent.get(span_id)
        if known is not None:
            source = Source(evaluation.name, "", PEOPLE)
            self._keep(known, source, event, bad, chance)
        elif len(self.labels) < MOST_WAITING:
            self.labels.append((evaluation.name, span_id, bad, chance))

    def _keep(
        self, known: Known, source: Source, event: EvaluationEvent, bad: float, chance: float
    ) -> None:
        if len(self.news) >= MOST_WAITING:
            caught.add(f"{SITE}: too many verdicts wait")
            return
        target = event.target
        group = group_of(target.span_name) if self._names else ""
        about = (known.part, known.features, source, target.span_id or "", group)
        self.news.append(Entry(*about, bad, chance, known.logit, known.vector))


def group_of(span_name: str | None) -> str:
    """Return the group of records that a span name stands for."""
    return (span_name or "")[:LONGEST_NAME]


def _chance(metadata: Mapping[str, Any]) -> float:
    """Return with what chance a person was asked; without a word, for certain."""
    chance = metadata.get("inclusion_probability")
    if isinstance(chance, (int, float)) and not isinstance(chance, bool) and 0 < chance <= 1:
        return float(chance)
    return 1.0


def _put(kept: dict[str, Known], span_id: str, known: Known, most: int) -> None:
    kept[span_id] = known
    while len(kept) > most:
        try:
            kept.pop(next(iter(kept)), None)
        except (RuntimeError, StopIteration):  # another thread changed it in between
            return
