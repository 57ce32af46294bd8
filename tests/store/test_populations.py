"""Estimates from sums are those of the rows: nothing is rounded away or left out for speed."""

import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from functools import cache

import pytest
from raw_store import HOUR, RawStore
from summaries import score_summary

from llmeval_sdk.model import values as _values
from llmeval_sdk.statistics.labels import Labelled, corrected_mean
from llmeval_sdk.statistics.mean import assisted_mean, population_mean
from llmeval_sdk.statistics.reasons import funnel
from llmeval_sdk.store.labels import labels_of
from llmeval_sdk.store.latest import MIN_CHANCE
from llmeval_sdk.store.populations import (
    SharedReadings,
    groups_by_judge,
    judged,
    over_time,
    overall,
    populations,
)
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import EvaluationScope, bin_of, scores_by_span
from llmeval_sdk.store.splits import by_period


JUDGES = ("groundedness", "tone", "seconds_judge")
LOSSES = ("not_escalated", "not_sampled", "missing_inputs", "over_budget", "timeout", "cached")
CHANCES = (None, 0.0, 0.02, 0.05, 1.0)


def fill(raw, rng, requests):
    """Write requests with verdicts, failures and refusals of three judges, and some labels."""
    for number in range(requests):
        span_id, name = f"{number:016x}", rng.choice(("answer", "search", None))
        at = raw.now - rng.randrange(48) * HOUR - rng.randrange(HOUR)
        about = {"span_id": span_id, "span_name": name, "time_ns": at}
        risk = rng.random()
        if rng.random() < 0.9:  # some records have no free score
            raw.insert(
                "evaluations", id=f"{span_id}-r", name="groundedness_risk", value=risk,
                evaluator_kind="heuristic", evaluator_version="1", inclusion_probability=1.0,
                **about,
            )  # fmt: skip
        for judge in JUDGES:
            about["id"] = f"{span_id}-{judge}"
            if rng.random() < 0.4:
                raw.insert("not_run", evaluator=judge, reason=rng.choice(LOSSES), **about)
                continue
            chance = rng.choice((*CHANCES, rng.uniform(0.02, 1.0), rng.uniform(0.02, 1.0)))
            failed = rng.random() < 0.05
            raw.insert(
                "evaluations", name=judge, value=None if failed else value_of(judge, rng, risk),
                error_type="timeout" if failed else None, evaluator_kind="judge",
                evaluator_version=rng.choice(("3", "4")), inclusion_probability=chance,
                cost_usd=rng.choice((None, 0.001)), total_tokens=rng.choice((None, 90)), **about,
            )  # fmt: skip
        if rng.random() < 0.2:
            raw.insert(
                "feedback", id=f"{span_id}-l", name="groundedness", value=rng.choice(("yes", "no")),
                span_id=span_id, time_ns=at,
                metadata=rng.choice((None, '{"inclusion_probability":0.2}')),
            )  # fmt: skip


def value_of(judge, rng, risk):
    """Return a verdict as the store holds it."""
    if judge == "tone":
        return rng.choice((True, False, None, "skipped"))
    if judge == "seconds_judge":
        return 1e6 + 10 * rng.random()
    return rng.choice(("yes" if rng.random() > risk else "no", round(1 - risk, 3), "abstained"))


@cache
def rows_of(path, judge):
    """Read what by_rows estimates from: rows, refusals, risks and labels."""
    with closing(StoreReader(path)) as reader:
        rows = reader.read(lambda c: c.execute(
            "SELECT time_ns, span_id, value, error_type, inclusion_probability, span_name"
            " FROM evaluations WHERE name = ? ORDER BY seq", (judge,)).fetchall())  # fmt: skip
        refused = reader.read(lambda c: c.execute(
            "SELECT time_ns, span_id, reason, span_name FROM not_run WHERE evaluator = ?",
            (judge,)).fetchall())  # fmt: skip
        risks = reader.read(lambda c: scores_by_span(c, "groundedness_risk"))
        people = reader.read(lambda c: labels_of(c, judge))
    return rows, refused, risks, people


def by_rows(path, judge, span_name, labels, period=None):
    """Estimate as `estimates` does from the rows themselves."""
    rows, refused, risks, people = rows_of(path, judge)
    if span_name != "any":
        rows = [row for row in rows if row[5] == span_name]
        refused = [row for row in refused if row[3] == span_name]
    if period is not None:
        rows = [row for row in rows if row[0] - row[0] % HOUR == period]
        refused = [row for row in refused if row[0] - row[0] % HOUR == period]
    every_kind = span_name == "any"
    answered = sum(row[3] is None and not (every_kind and row[2] is None) for row in rows)
    numbers = [
        (number, row[4] or 0.0, row[1])
        for row in rows
        if row[3] is None and (number := _values.number(row[2])) is not None
    ]
    known = [each for each in numbers if each[1] > MIN_CHANCE]
    passed_over = [row[1] for row in refused if row[2] in {"not_escalated", "not_sampled"}]
    steps = funnel(answered, Counter(row[2] for row in refused))
    mean = sum(each[0] for each in numbers) / len(numbers) if numbers else None
    if not known:
        return steps, mean, None, None
    values, chances, spans = map(list, zip(*known, strict=True))
    bounds = (0.0, 1.0) if judge != "seconds_judge" else None
    everywhere = [risks.get(span_id) for span_id in (*spans, *passed_over)]
    scored = [x for x in everywhere if x is not None]
    if passed_over and scored and judge == "groundedness":
        middle = sum(scored) / len(scored)
        everywhere = [middle if x is None else x for x in everywhere]
        estimate = assisted_mean(
            values, chances, everywhere[: len(spans)], everywhere, bounds=bounds
        )
    else:
        estimate = population_mean(values, chances, bounds=bounds)
    labelled = [
        Labelled(value, people[span].value, chance, people[span].chance)
        for value, chance, span in known
        if span in people
    ]
    correction = None
    if labels and bounds:
        correction = corrected_mean(values, chances, labelled, mean=estimate.mean)
    return steps, mean, estimate, correction


def agree(found, expected):
    """Compare a `Population` with what the rows say."""
    steps, mean, estimate, correction = expected
    assert found.funnel == steps
    assert found.mean == (None if mean is None else pytest.approx(mean, rel=1e-9))
    if found.note.startswith("no control sample"):
        return 0
    compare(found.estimate, estimate)
    if correction is not None:
        compare(found.correction.estimate, correction.estimate)
        assert found.correction.passed_wrongly == close(correction.passed_wrongly)
        assert found.correction.failed_wrongly == close(correction.failed_wrongly)
    else:
        assert found.correction is None
    return 1


def compare(found, expected):
    if expected is None:
        assert found is None
        return
    assert (found.mean, found.low, found.high) == tuple(
        map(close, (expected.mean, expected.low, expected.high))
    )
    assert found.method == expected.method


def close(number):
    return None if number is None else pytest.approx(number, rel=1e-9, abs=1e-9)


@pytest.fixture(scope="module", params=range(4))
def path(request, tmp_path_factory):
    """A random store: losses, two versions of each judge, chances of 0 and none at all."""
    folder = tmp_path_factory.mktemp("populations")
    raw = RawStore(folder / "own" / "random.db", seed=request.param)
    raw.connection.execute("BEGIN")
    fill(raw, random.Random(request.param), 40 if request.param == 3 else 1_500)
    raw.connection.execute("COMMIT")
    raw.close()
    return raw.path


def test_every_judge_and_span_name_is_estimated_as_from_its_rows(path):
    """Weighted, model-assisted and corrected by labels; within 0..1 and far outside."""
    with closing(StoreReader(path)) as reader:
        found = populations(reader, (None,) * 4, SharedReadings(reader))
    assert {each.judge for each in found} == set(JUDGES)
    compared = sum(
        agree(each, by_rows(path, each.judge, each.span_name, labels=True)) for each in found
    )
    assert compared


def test_all_span_names_together_are_estimated_as_from_their_rows(path):
    """What alerts and the pages of judges show, with sums that are joined."""
    with closing(StoreReader(path)) as reader:
        for judge in JUDGES:
            found = overall(reader, (None,) * 4, SharedReadings(reader), judge)
            agree(found, by_rows(path, judge, "any", labels=True))


def test_every_hour_is_estimated_as_from_its_rows(path):
    """Trends are made of the same sums, hour by hour."""
    with closing(StoreReader(path)) as reader:
        for judge in JUDGES:
            for found in over_time(
                reader, (None,) * 4, SharedReadings(reader), judge, by_period(HOUR)
            ):
                expected = by_rows(path, judge, "any", labels=True, period=found.period_ns)
                agree(found, expected)


def test_a_summary_counts_as_its_rows_do(path):
    """Counts, means, failures, costs and ten parts of the range, for every span name."""
    with closing(StoreReader(path)) as reader:
        found = score_summary(reader)
        rows = reader.read(lambda c: c.execute(
            "SELECT name, span_name, value, error_type, cost_usd, total_tokens FROM evaluations"
        ).fetchall())  # fmt: skip
    assert len(found) == 12
    for each in found:
        mine = [row for row in rows if row[:2] == (each.evaluator, each.span_name)]
        scores = [row[2] for row in mine if type(row[2]) is float]
        assert each.count == sum(row[2] is not None for row in mine)
        assert each.errors == sum(row[3] is not None for row in mine)
        assert each.not_applicable == sum(row[2] is None and row[3] is None for row in mine)
        assert each.total_tokens == sum(row[5] or 0 for row in mine)
        assert (each.cost_usd or 0) == pytest.approx(sum(row[4] or 0 for row in mine))
        bins = [0] * 10
        for score in scores:
            bins[bin_of(score, each.low, each.high)] += 1
        assert each.histogram == (tuple(bins) if scores else ())


def test_rows_that_went_between_two_reads_are_no_error(path, tmp_path):
    """Groups and weights are read by two connections, and another process may prune in between."""
    path = shutil.copy(path, tmp_path / "random.db")
    with closing(StoreReader(path)) as reader:
        known = SharedReadings(reader)
        scope = EvaluationScope()
        groups = known.groups(scope)
        name, of_judge = next(iter(groups_by_judge(groups, ()).items()))
        scope = scope._replace(evaluator=name)
        before = reader.read(lambda store: judged(store, scope, of_judge))
        raw = sqlite3.connect(path)
        raw.execute("DELETE FROM evaluations WHERE evaluator_kind = 'judge'")
        raw.commit()
        raw.close()
        after = reader.read(lambda store: judged(store, scope, of_judge))
    assert before.keys() == after.keys()
    weighed = [sum(sample.tally.judged for sample in read.values()) for read in (before, after)]
    assert weighed[1] < weighed[0]
