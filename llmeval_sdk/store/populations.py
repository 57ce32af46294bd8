"""From the judgements of a store to what they say about all traffic."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from sqlite3 import Connection
from typing import Any, TypeAlias

from llmeval_sdk import _values, registry
from llmeval_sdk.estimates.assisted import FEW
from llmeval_sdk.estimates.correction import Correction, Labelled, tallied_correction
from llmeval_sdk.estimates.funnels import Funnel, funnel
from llmeval_sdk.estimates.mean import Estimate, stands_for
from llmeval_sdk.estimates.tally import Tally, tallied_mean
from llmeval_sdk.store._judged import Judged
from llmeval_sdk.store._samples import Key, judged, judged_by_model
from llmeval_sdk.store._verdicts import Verdict, predicted, scores_by_span, verdicts
from llmeval_sdk.store.effective import decided
from llmeval_sdk.store.labels import Label, labels_of
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.summary import EvaluationScope, Group, groups
from llmeval_sdk.store.views import names_in
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


class Scores:
    """What several estimates need, each read once: sums, and free scores and labels by span.

    Args:
        reader: the store.
        predictor: the free score that predicts the verdicts of every judge; by default each judge
            declares its own.
        labels: the name of the feedback that corrects judges, or labels by span id; by default each
            judge is corrected by the feedback under its own name.
    """

    def __init__(
        self, reader: StoreReader, predictor: str | None = None, labels: LabelSource = None
    ) -> None:
        self._reader = reader
        self._predictor = predictor
        self._labels = labels
        self._decided: dict[str, dict[str, float]] = {}
        self._scores: dict[str, dict[str, float]] = {}
        self._groups: dict[tuple[EvaluationScope, int], list[Group]] = {}
        self._labelled: dict[str, Mapping[str, Label]] = {}

    def groups(self, scope: EvaluationScope, period_ns: int = 0) -> list[Group]:
        """Return what the evaluations of a scope add up to."""
        key = scope, period_ns
        if key not in self._groups:
            scopes = [scope]
            if scope.evaluator is None:
                names = self._reader.read(lambda c: names_in(c, "evaluations", "name"))
                scopes = [scope._replace(evaluator=name) for name in names]
            self._groups[key] = _groups_at_once(self._reader, scopes, period_ns)
        return self._groups[key]

    def labels(self, judge: str) -> Mapping[str, Label]:
        """Return what people said of the records of a judge, by span."""
        if isinstance(self._labels, Mapping):
            return self._labels
        name = self._labels or judge
        if name not in self._labelled:
            self._labelled[name] = self._reader.read(lambda c: labels_of(c, name))
        return self._labelled[name]

    def of(self, judge: str) -> dict[str, float]:
        """Return the scores that say most about a judge's verdicts.

        They are the probabilities of decisions on the same question, where there are any, else the
        free score that the judge declares.
        """
        if self._predictor is None:
            decisions = self._decided.get(judge)
            if decisions is None:
                decisions = self._decided[judge] = self._reader.read(lambda c: decided(c, judge))
            if decisions:
                return decisions
        name = self._predictor or registry.predictor_of(judge)
        if name is None:
            return {}
        if name not in self._scores:
            self._scores[name] = self._reader.read(lambda c: scores_by_span(c, name))
        return self._scores[name]


def _groups_at_once(
    reader: StoreReader, scopes: Sequence[EvaluationScope], period_ns: int
) -> list[Group]:
    """Add up several scopes at the same time, each on a connection of its own.

    SQLite leaves Python's lock while it works, so two cores read a large store in half the time.
    """
    if len(scopes) < 2:
        return reader.read(lambda c: [part for its in scopes for part in groups(c, its, period_ns)])

    def read(scope: EvaluationScope) -> list[Group]:
        with reader.another() as other:
            return other.read(lambda c: groups(c, scope, period_ns))

    with ThreadPoolExecutor(min(len(scopes), os.cpu_count() or 2, 4)) as pool:
        return [part for parts in pool.map(read, scopes) for part in parts]


def populations(
    reader: StoreReader,
    scope: tuple[Any, ...],
    scores: Scores | None = None,
    period_ns: int = 0,
) -> list[Population]:
    """Estimate for every judge and span name, and for every period where periods have a length.

    ``scope`` is a `EvaluationScope`, or its fields in their order.
    """
    return _estimated(reader, EvaluationScope(*scope), scores, period_ns)


def overall(
    reader: StoreReader, scope: tuple[Any, ...], scores: Scores | None, evaluator: str
) -> Population:
    """Estimate for one evaluator over the spans of all names."""
    mine = EvaluationScope(*scope)._replace(evaluator=evaluator)
    whole = _estimated(reader, mine, scores, all_names=True)
    return whole[0] if whole else _population((evaluator, None, None), Judged(), None, [])


def over_time(
    reader: StoreReader,
    scope: tuple[Any, ...],
    scores: Scores | None,
    evaluator: str,
    period_ns: int,
) -> list[Population]:
    """Estimate for one evaluator over the spans of all names, period by period."""
    mine = EvaluationScope(*scope)._replace(evaluator=evaluator)
    return _estimated(reader, mine, scores, period_ns, all_names=True)


def _estimated(
    reader: StoreReader,
    scope: EvaluationScope,
    scores: Scores | None,
    period_ns: int = 0,
    *,
    all_names: bool = False,
) -> list[Population]:
    """Estimate for each judge and period; with ``all_names`` for the spans of all names together.

    Then heuristics are estimated as well as judges.
    """
    scores = scores or Scores(reader)

    def place(key: Key) -> Key:
        return (key[0], None, key[2]) if all_names else key

    samples: dict[Key, Judged] = {}
    parts = scores.groups(scope, period_ns)
    sums = reader.read(lambda c: judged(c, scope, parts, period_ns=period_ns, every_kind=all_names))
    for key, sample in sums.items():
        samples.setdefault(place(key), Judged()).join(sample)
    by_model = reader.read(lambda c: judged_by_model(c, parts))
    known: dict[Key, Tally] = {}
    people: dict[Key, list[Labelled]] = {}
    for judge in {key[0] for key in samples}:
        mine = {key: sample for key, sample in samples.items() if key[0] == judge}
        narrow = scope._replace(evaluator=judge)
        all_kinds = all_names and judge not in by_model
        by_span = scores.of(judge) if any(map(_can_be_assisted, mine.values())) else {}
        if by_span:
            read: Callable[[Connection], dict[Key, Tally]] = partial(
                predicted, scope=narrow, scores=by_span, period_ns=period_ns, every_kind=all_kinds,
                origin=next(iter(mine.values())).origin,
            )  # fmt: skip
            for key, tally in reader.read(read).items():
                known.setdefault(place(key), Tally()).join(tally)
        labels = scores.labels(judge)
        if labels and any(sample.tally.judged for sample in mine.values()):
            for row in reader.read(partial(_rows, narrow, labels, every_kind=all_kinds)):
                begin = row.time_ns - row.time_ns % period_ns if period_ns else None
                label = labels[row.span_id]
                people.setdefault(place((judge, row.span_name, begin)), []).append(
                    Labelled(row.value, label.value, row.chance, label.chance)
                )
    return [
        _population(key, sample, known.get(key), people.get(key, []))
        for key, sample in sorted(samples.items(), key=_order)
    ]


def _rows(
    scope: EvaluationScope, spans: Mapping[str, Label], connection: Connection, *, every_kind: bool
) -> list[Verdict]:
    """Return the verdicts on some spans that have an inclusion probability."""
    rows = verdicts(connection, scope, every_kind=every_kind, spans=spans)
    return [row for row in rows if row.chance]


def _order(item: tuple[Key, Judged]) -> tuple[str, str, int]:
    judge, span_name, period = item[0]
    return judge, span_name or "", period or 0


def _can_be_assisted(sample: Judged) -> bool:
    """Say whether a free score can narrow an estimate: some records were judged and some not."""
    return bool(sample.passed_over and sample.tally.judged and sample.tally.effective >= FEW)


def _population(
    key: Key, sample: Judged, scored: Tally | None, labelled: Sequence[Labelled]
) -> Population:
    steps = funnel(sample.answered, sample.reasons)
    estimate, note = _estimate(steps, sample, scored)
    correction = None
    if estimate is not None and not sample.is_out_of_scale:
        correction = tallied_correction(
            sample.tally, sample.passed_weight, sample.passed, labelled, mean=estimate.mean
        )
    return Population(
        *key,
        steps,
        None if _names_categories(sample) else sample.mean,
        estimate,
        note,
        sample.cost_usd,
        dict(sample.categories.most_common()),
        correction,
        len(labelled),
    )


def _names_categories(sample: Judged) -> bool:
    """Say whether a judge gave a word that neither is a number nor neutral: then no mean is one."""
    return any(not _values.is_neutral(word) for word in sample.categories)


def _estimate(steps: Funnel, sample: Judged, scored: Tally | None) -> tuple[Estimate | None, str]:
    """Return the estimate and what to know about it, or no estimate and why there is none."""
    tally = sample.tally
    if _names_categories(sample):
        return None, CATEGORIES
    if not sample.numbers:
        return None, _nothing(sample, steps)
    if not tally.judged:
        return None, NO_CHANCE
    if sample.passed_over and not _stands_for_all(tally, steps):
        return None, NO_CONTROL
    if scored is not None and scored.scored:
        tally = tally.with_scores(scored, sample.passed_over)
    bounds = (0.0, 1.0) if sample.low >= 0 and sample.high <= 1 else None
    estimate = tallied_mean(tally, bounds=bounds, origin=sample.origin)
    return estimate, _note(sample.numbers - tally.judged, steps, sample.versions)


def _nothing(sample: Judged, steps: Funnel) -> str:
    """Say why there is no number although a judge may have answered."""
    if sample.answered:
        return "no answer applies: each is neutral, such as skipped or abstained"
    return "nothing was judged" if steps.eligible else "nothing could be judged"


def _stands_for_all(tally: Tally, steps: Funnel) -> bool:
    """Say whether the judged records can stand for all eligible ones.

    Records that could have been judged only if no judgement had been lost are not expected in it.
    """
    expected = steps.eligible * tally.judged / steps.selected
    return stands_for(tally.w, tally.ww - tally.w, expected)


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
