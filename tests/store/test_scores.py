"""What many scores say together."""

import random
import time
from collections import Counter
from contextlib import closing
from math import nextafter

import pytest
from summaries import not_run_summary, score_summary

from llmeval_sdk.model import Batch, Failure, Usage
from llmeval_sdk.store.populations import overall
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import (
    _BY_SPAN,
    BINS,
    NotRunSummary,
    ScoreSummary,
    bin_of,
    scores_by_span,
)


NOW = time.time_ns()


@pytest.fixture
def read(writer):
    def open_it(*evaluations, not_run=()):
        writer.write(Batch((), evaluations, tuple(not_run)))
        return closing(StoreReader(writer.path))

    return open_it


def test_scores_have_a_mean_and_a_distribution(make, read):
    """Ten parts of 0..1, the upper end in the last."""
    values = [0.0, 0.05, 0.3, 0.55, 0.55, 1.0]
    with read(*(make.evaluation(make.span(), value=value) for value in values)) as reader:
        (found,) = score_summary(reader)
    assert found == ScoreSummary(
        "context_precision",
        "heuristic",
        "extract_field",
        count=6,
        mean=pytest.approx(2.45 / 6),
        low=0.0,
        high=1.0,
        histogram=(2, 0, 0, 1, 0, 2, 0, 0, 0, 1),
    )


def test_scores_beyond_0_to_1_have_their_own_range(make, read):
    """Counts and latencies are spread from the smallest to the largest."""
    values = [100.0, 200.0, 1_100.0]
    with read(*(make.evaluation(make.span(), "tokens", value) for value in values)) as reader:
        (found,) = score_summary(reader)
    assert (found.low, found.high) == (100.0, 1_100.0)
    assert found.histogram == (1, 1, 0, 0, 0, 0, 0, 0, 0, 1)


def test_one_score_beyond_0_to_1_alone_has_a_distribution(make, read):
    """A range of no width is no division by zero."""
    with read(make.evaluation(make.span(), "tokens", 7.0)) as reader:
        (found,) = score_summary(reader)
    assert sum(found.histogram) == 1
    assert (found.low, found.high) == (7.0, 7.0)


def test_categories_and_booleans_have_shares(make, read):
    """Most frequent first; pass and fail are categories, too."""
    events = [make.evaluation(make.span(), "pattern", value) for value in ("mixed", "mixed", "yes")]
    events += [make.evaluation(make.span(), "cites", value) for value in (True, False, False)]
    with read(*events) as reader:
        cites, pattern = score_summary(reader)
    assert list(pattern.categories.items()) == [("mixed", 2), ("yes", 1)]
    assert cites.categories == {"fail": 2, "pass": 1}
    assert pattern.count == cites.count == 3
    assert pattern.mean is None  # "mixed" is no number
    assert cites.mean == pytest.approx(1 / 3)
    assert pattern.histogram == ()


def test_failures_and_not_applicable_are_no_scores(make, read):
    """They are counted beside the mean, never in it."""
    events = [
        make.evaluation(make.span(), value=1.0),
        make.evaluation(make.span(), value=None),
        make.evaluation(make.span(), value=None, error=Failure("timeout")),
    ]
    with read(*events) as reader:
        (found,) = score_summary(reader)
    assert (found.count, found.errors, found.not_applicable, found.mean) == (1, 1, 1, 1.0)


def test_the_corrected_mean_undoes_the_selection(make, read):
    """One control of 50 stands for fifty requests, an escalated one for itself."""
    events = [
        make.evaluation(make.span(), value=0.0, inclusion_probability=1.0),
        make.evaluation(make.span(), value=1.0, inclusion_probability=0.02),
    ]
    with read(*events) as reader:
        (found,) = score_summary(reader)
        whole = overall(reader, (None, None, None, None), None, found.evaluator)
    assert found.mean == whole.mean == 0.5
    assert whole.estimate.mean == pytest.approx(50 / 51)


def test_a_free_score_has_the_mean_over_all_traffic_where_some_gave_way(make, read):
    """A record that was scored by one in four stands for four; without a chance, for itself."""
    events = [
        make.evaluation(make.span(), value=value, inclusion_probability=chance)
        for value, chance in ((1.0, 0.25), (0.0, None), (True, 0.5), (0.5, 1.0))
    ]
    with read(*events) as reader:
        (found,) = score_summary(reader)
    assert found.weighted_mean == pytest.approx((4 * 1.0 + 0.0 + 2 * 1.0 + 0.5) / 8)
    assert found.mean == 2.5 / 4


def test_costs_are_summed(make, read):
    """What judges used is added up where it is known."""
    events = [
        make.evaluation(make.span(), evaluator_kind="judge", usage=Usage(1, 2, 3, 0.5)),
        make.evaluation(make.span(), evaluator_kind="judge", usage=Usage(1, 2, 3)),
        make.evaluation(make.span(), evaluator_kind="judge"),
    ]
    with read(*events) as reader:
        (found,) = score_summary(reader)
    assert (found.cost_usd, found.total_tokens) == (0.5, 6)


def test_summaries_can_be_narrowed(make, read):
    """By time (since inclusive, until exclusive), evaluator and span name."""
    events = [
        make.evaluation(make.span(name), evaluator, 7.5, time_ns=at)
        for name in ("one", "two") for evaluator in ("a", "b") for at in (NOW + 1_000, NOW + 2_000, NOW + 3_000)
    ]  # fmt: skip
    with read(*events) as reader:
        assert [found.count for found in score_summary(reader)] == [3, 3, 3, 3]
        assert [found.count for found in score_summary(reader, since=NOW + 2_000)] == [2, 2, 2, 2]
        assert [found.count for found in score_summary(reader, until=NOW + 2_000)] == [1, 1, 1, 1]
        (found,) = score_summary(reader, NOW + 1_500, NOW + 2_500, "b", "two")
    assert (found.evaluator, found.span_name, found.count, sum(found.histogram)) == (
        "b",
        "two",
        1,
        1,
    )


def test_judges_that_did_not_run_are_counted_by_reason(make, read):
    """Most frequent first, with the latest detail."""
    refusals = [
        make.not_run(make.span(start_ns=NOW), reason="over_budget", detail="first"),
        make.not_run(make.span(start_ns=NOW + 1), reason="not_sampled", detail="rate 0"),
        make.not_run(make.span(start_ns=NOW + 9), reason="over_budget", detail="last"),
        make.not_run(make.span(), "safety", "no_judge_model", ""),
    ]
    with read(not_run=refusals) as reader:
        assert not_run_summary(reader) == (
            NotRunSummary("correctness", "over_budget", 2, "last"),
            NotRunSummary("correctness", "not_sampled", 1, "rate 0"),
            NotRunSummary("safety", "no_judge_model", 1, ""),
        )
        assert len(not_run_summary(reader, evaluator="safety")) == 1
        assert not_run_summary(reader, span_name="other") == ()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.7, 0.3), (1e6, 1e6 + 1e-9), (2.5, 2.5)])
def test_the_histogram_counts_each_score_where_bin_of_puts_it(make, path, writer, low, high):
    """SQL and Python agree on random scores, on the ends of each part, and just beside these."""
    rng = random.Random(5)
    ends = [low + number * (high - low) / BINS for number in range(BINS + 1)]
    beside = [nextafter(end, way) for end in ends for way in (low, high)]
    scores = [*ends, *beside, *(rng.uniform(low, high) for _ in range(300))]
    spans = [make.span() for _ in scores]
    events = [make.evaluation(span, "tone", at) for span, at in zip(spans, scores, strict=True)]
    writer.write(Batch(tuple(spans), tuple(events)))
    with StoreReader(path) as reader:
        (summary,) = score_summary(reader)
    counts = Counter(bin_of(score, summary.low, summary.high) for score in scores)
    assert summary.histogram == tuple(counts[number] for number in range(BINS))


def test_of_several_scores_of_a_span_the_greatest_predicts(make, read):
    """In whichever order they came; they are read by time, as they were written."""
    spans = [make.span(), make.span()]
    events = [
        make.evaluation(spans[number % 2], "tone", value, id=f"{number}", time_ns=NOW + number)
        for number, value in enumerate((0.2, 0.9, 0.7, -0.5, 0.4, None))
    ]
    with read(*events) as reader:
        found = reader.read(lambda c: scores_by_span(c, "tone"))
        plan = reader.read(lambda c: c.execute(f"EXPLAIN QUERY PLAN {_BY_SPAN}", ("",)).fetchall())
    assert found == {spans[0].span_id: 0.7, spans[1].span_id: 0.9}
    assert ["evaluations_by_time" in step[3] for step in plan] == [True]
