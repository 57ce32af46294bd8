"""From the judgements of a store to what they say about all traffic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from llmeval_sdk import _values, registry
from llmeval_sdk.estimates.assisted import assisted_mean
from llmeval_sdk.estimates.correction import Correction, Labelled, corrected_mean
from llmeval_sdk.estimates.funnel import Funnel, funnel
from llmeval_sdk.estimates.mean import Estimate, stands_for
from llmeval_sdk.store.labels import Label, labels_of
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.samples import Judged
from llmeval_sdk.store.words import CATEGORIES, NO_CHANCE, NO_CONTROL


PERIODS = {"hour": 3_600_000_000_000, "day": 86_400_000_000_000}


LabelSource: TypeAlias = "str | Mapping[str, Label] | None"
"""The name of the feedback that corrects judges, labels by span id, or none of them."""


@dataclass(frozen=True, slots=True)
class Population:
    """What one judge says about the spans of one name, judged and not."""

    judge: str
    span_name: str | None
    period_ns: int | None
    """When its period began; ``None`` where there is only one."""
    funnel: Funnel
    mean: float | None
    """Plain mean of what was judged; pass and yes count 1, fail and no count 0. ``None`` where a
    judge answers in other words."""
    estimate: Estimate | None
    """Mean over all traffic; ``None`` where it cannot be said, and ``note`` says why."""
    note: str
    cost_usd: float | None
    categories: Mapping[str, int]
    """How often it answered each word that is no number, most frequent first."""
    correction: Correction | None = None
    """What people would say, where enough of the judged records have labels."""
    labels: int = 0
    """Judged records that people labelled."""


def populations(
    reader: StoreReader,
    given: tuple[Any, ...],
    predictor: str | None,
    period_ns: int = 0,
    *,
    labels: LabelSource = None,
) -> list[Population]:
    """Estimate for every judge and span name, and for every period where periods have a length.

    ``labels`` is the name of the feedback that corrects judges, or labels by span id; by default
    each judge is corrected by the feedback under its own name.
    """
    scores = _Scores(reader, predictor, labels)
    return [
        _population(*key, found, scores)
        for key, found in reader.judged(*given, period_ns=period_ns).items()
    ]


def overall(
    reader: StoreReader, given: tuple[Any, ...], predictor: str | None, evaluator: str
) -> Population:
    """Estimate for one evaluator over the spans of all names."""
    since, until, _, span_name = given
    whole = Judged()
    for found in reader.judged(since, until, evaluator, span_name, every_kind=True).values():
        whole.add(found)
    return _population(evaluator, None, None, whole, _Scores(reader, predictor))


def over_time(
    reader: StoreReader, given: tuple[Any, ...], evaluator: str, period_ns: int
) -> list[Population]:
    """Estimate for one evaluator over the spans of all names, period by period."""
    since, until, _, span_name = given
    found: dict[int, Judged] = {}
    every = reader.judged(since, until, evaluator, span_name, period_ns=period_ns, every_kind=True)
    for (_, _, period), judged in every.items():
        found.setdefault(period or 0, Judged()).add(judged)
    scores = _Scores(reader, None)
    return [
        _population(evaluator, None, period, judged, scores)
        for period, judged in sorted(found.items())
    ]


def predictor_of(judge: str) -> str | None:
    """Return the free score that says most about a judge's verdicts, as the judge declares."""
    name: str | None = getattr(registry.known(judge), "predictor", None)
    return name


class _Scores:
    """Free scores and labels by span, read once for each that is needed."""

    def __init__(
        self, reader: StoreReader, predictor: str | None, labels: LabelSource = None
    ) -> None:
        self._reader = reader
        self._predictor = predictor
        self._labels = labels
        self._known: dict[str, dict[str, float]] = {}
        self._labelled: dict[str, Mapping[str, Label]] = {}

    def labels(self, judge: str) -> Mapping[str, Label]:
        """Return what people said of the records of a judge, by span."""
        if isinstance(self._labels, Mapping):
            return self._labels
        name = self._labels or judge
        if name not in self._labelled:
            self._labelled[name] = self._reader.read(lambda c: labels_of(c, name))
        return self._labelled[name]

    def of(self, judge: str) -> dict[str, float]:
        """Return the scores that say most about a judge's verdicts, as the judge declares."""
        name = self._predictor or predictor_of(judge)
        if name is None:
            return {}
        if name not in self._known:
            self._known[name] = self._reader.scores_by_span(name)
        return self._known[name]


def _population(
    judge: str, span_name: str | None, period: int | None, found: Judged, scores: _Scores
) -> Population:
    steps = funnel(found.answered, found.reasons)
    estimate, note = _estimate(judge, steps, found, scores)
    is_mean = found.values and not _names_categories(found)
    mean = sum(found.values) / len(found.values) if is_mean else None
    words = dict(found.categories.most_common())
    labelled = _labelled(found, scores.labels(judge)) if found.values else []
    correction = None
    if estimate is not None and min(found.values) >= 0 and max(found.values) <= 1:
        known = [place for place, chance in enumerate(found.chances) if chance > 0]
        correction = corrected_mean(
            [found.values[place] for place in known],
            [found.chances[place] for place in known],
            labelled,
            mean=estimate.mean,
        )
    return Population(
        judge, span_name, period, steps, mean, estimate, note, found.cost_usd, words, correction,
        len(labelled),
    )  # fmt: skip


def _labelled(found: Judged, labels: Mapping[str, Label]) -> list[Labelled]:
    """Return the judged records that people labelled."""
    if not labels:
        return []
    rows = zip(found.span_ids, found.values, found.chances, strict=True)
    return [
        Labelled(value, labels[span_id].value, chance, labels[span_id].chance)
        for span_id, value, chance in rows
        if chance > 0 and span_id in labels
    ]


def _names_categories(found: Judged) -> bool:
    """Say whether a judge gave a word that neither is a number nor neutral: then no mean is one."""
    return any(not _values.is_neutral(word) for word in found.categories)


def _estimate(
    judge: str, steps: Funnel, found: Judged, scores: _Scores
) -> tuple[Estimate | None, str]:
    if _names_categories(found):
        return None, CATEGORIES
    if not found.values:
        return None, _nothing(found, steps)
    known = [place for place, chance in enumerate(found.chances) if chance > 0]
    if not known:
        return None, NO_CHANCE
    values = [found.values[place] for place in known]
    chances = [found.chances[place] for place in known]
    spans = [found.span_ids[place] for place in known]
    if found.passed_over and not _stands_for_all(chances, steps):
        return None, NO_CONTROL
    bounds = (0.0, 1.0) if min(values) >= 0 and max(values) <= 1 else None
    by_span = scores.of(judge) if found.passed_over else {}
    everywhere = _predicted([*spans, *found.passed_over], by_span)
    estimate = assisted_mean(values, chances, everywhere[: len(spans)], everywhere, bounds=bounds)
    return estimate, _note(len(found.values) - len(known), steps, found.versions)


def _nothing(found: Judged, steps: Funnel) -> str:
    """Say why there is no number although a judge may have answered."""
    if found.answered:
        return "no answer applies: each is neutral, such as skipped or abstained"
    return "nothing was judged" if steps.eligible else "nothing could be judged"


def _stands_for_all(chances: list[float], steps: Funnel) -> bool:
    """Say whether the judged records can stand for all eligible ones.

    Records that could have been judged only if no judgement had been lost are not expected in it.
    """
    weights = [1 / chance for chance in chances]
    expected = steps.eligible * len(chances) / steps.selected
    return stands_for(sum(weights), sum(w * (w - 1) for w in weights), expected)


def _predicted(spans: Iterable[str], by_span: dict[str, float]) -> list[float]:
    """Return the free score of each span; one without any gets the mean, which predicts nothing."""
    found = [by_span.get(span_id) for span_id in spans]
    known = [score for score in found if score is not None]
    middle = sum(known) / len(known) if known else 0.0
    return [middle if score is None else score for score in found]


def _note(unknown: int, steps: Funnel, versions: set[str]) -> str:
    notes = []
    if len(versions) > 1:
        notes.append(
            f"{len(versions)} versions of it answered ({', '.join(sorted(versions)[:4])}): one mean"
            " over both says nothing of either; choose a period by --since"
        )
    if unknown:
        notes.append(f"{unknown:,} judgements without an inclusion probability are left out")
    if lost := steps.selected - steps.scored:
        notes.append(f"{lost:,} selected records were not scored and are taken to be like the rest")
    return "; ".join(notes)
