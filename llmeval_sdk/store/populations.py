"""From the judgements of a store to what they say about all traffic."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from sqlite3 import Connection
from typing import Any

from llmeval_sdk.model import values
from llmeval_sdk.statistics.funnels import Funnel, funnel
from llmeval_sdk.statistics.labels import (
    Correction,
    Labelled,
    doubt_about,
    side_of,
    tallied_correction,
)
from llmeval_sdk.statistics.mean import FEW_FOR_SLOPE, Estimate, Tally, stands_for, tallied_mean
from llmeval_sdk.store._judged import Judged
from llmeval_sdk.store._samples import (
    Key,
    add_passed_over,
    groups_by_judge,
    judged,
    judged_by_model,
)
from llmeval_sdk.store._verdicts import Verdict, verdicts
from llmeval_sdk.store.groups import EvaluationScope, Group
from llmeval_sdk.store.labels import Label
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import Scores, read_at_once
from llmeval_sdk.store.words import CATEGORIES, NO_CHANCE, NO_CONTROL


PERIODS = {"hour": 3_600_000_000_000, "day": 86_400_000_000_000}


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
    doubt: str = ""
    """What is odd about these labels; empty where nothing is."""


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
    by_model = reader.read(lambda c: judged_by_model(c, parts))
    sums = _sums(reader, scope, parts, by_model, period_ns=period_ns, every_kind=all_names)
    for key, sample in sums.items():
        samples.setdefault(place(key), Judged()).join(sample)
    known: dict[Key, Tally] = {}
    people: dict[Key, list[Labelled]] = {}
    for judge in {key[0] for key in samples}:
        mine = {key: sample for key, sample in samples.items() if key[0] == judge}
        narrow = scope._replace(evaluator=judge)
        all_kinds = all_names and judge not in by_model
        if any(map(_can_be_assisted, mine.values())) and scores.of(judge):
            tallies = scores.predicted(
                judge, scope, period_ns=period_ns, every_kind=all_kinds,
                origin=next(iter(mine.values())).origin,
            )  # fmt: skip
            for key, tally in tallies.items():
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


def _sums(
    reader: StoreReader,
    scope: EvaluationScope,
    parts: Sequence[Group],
    by_model: Container[str],
    *,
    period_ns: int,
    every_kind: bool,
) -> dict[Key, Judged]:
    """Sum up what each judge said and did not say."""
    readings = [
        partial(
            judged, scope=scope._replace(evaluator=name), parts=its, period_ns=period_ns,
            every_kind=every_kind and name not in by_model,
        )
        for name, its in groups_by_judge(parts, by_model, every_kind=every_kind).items()
    ]  # fmt: skip
    sums = {key: of for samples in read_at_once(reader, readings) for key, of in samples.items()}
    reader.read(lambda c: add_passed_over(c, scope, sums, period_ns))
    return sums


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
    return bool(
        sample.passed_over and sample.tally.judged and sample.tally.effective >= FEW_FOR_SLOPE
    )


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
        doubt_about((side_of(each.label), side_of(each.verdict)) for each in labelled),
    )


def _names_categories(sample: Judged) -> bool:
    """Say whether a judge gave a word that neither is a number nor neutral: then no mean is one."""
    return any(not values.is_neutral(word) for word in sample.categories)


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
