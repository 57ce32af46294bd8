"""A judge's verdicts come to the same figures in every place that sums them up."""

import pytest
from summaries import score_summary

from llmeval_sdk.model import Batch
from llmeval_sdk.model import values as _values
from llmeval_sdk.store.populations import overall
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import recent_evaluations
from llmeval_sdk.viewer._charts import figures


@pytest.fixture
def filled(make, path, writer):
    """Return a function that stores one judge's verdicts and returns where."""

    def fill(values):
        spans = [make.span() for _ in values]
        events = [
            make.evaluation(span, "tone", value, evaluator_kind="judge")
            for span, value in zip(spans, values, strict=True)
        ]
        writer.write(Batch(tuple(spans), tuple(events)))
        return path

    return fill


TEN = ["pass"] * 7 + ["fail"] * 3


@pytest.mark.parametrize("values", [TEN, [True] * 7 + [False] * 3, ["yes"] * 7 + ["no"] * 3])
def test_seven_of_ten_is_a_mean_of_point_seven_everywhere(filled, values):
    """Estimate, summary, the viewer's figures and the export give one answer for every spelling."""
    with StoreReader(filled(values)) as reader:
        whole = overall(reader, (None, None, None, None), None, "tone")
        assert whole.mean == pytest.approx(0.7)
        assert whole.estimate.mean == pytest.approx(0.7)
        assert whole.funnel.scored == 10
        assert score_summary(reader)[0].mean == pytest.approx(0.7)
        recent = reader.read(lambda c: recent_evaluations(c, "tone", None))
        assert figures("tone", recent, judge=True).mean == pytest.approx(0.7)
    assert sum(map(_values.number, values)) == 7


def test_skipped_verdicts_count_in_no_mean(filled):
    """A check that had nothing to look at neither raises nor lowers the share that passed."""
    with StoreReader(filled([*TEN, "skipped", "abstained"])) as reader:
        assert overall(reader, (None,) * 4, None, "tone").mean == pytest.approx(0.7)
        summary = score_summary(reader)[0]
        assert summary.mean == pytest.approx(0.7)
        assert summary.categories["skipped"] == 1
        recent = reader.read(lambda c: recent_evaluations(c, "tone", None))
        assert figures("tone", recent, judge=True).mean == pytest.approx(0.7)


def test_a_judge_of_categories_has_judged(filled):
    """38 verdicts in words are not "nothing was judged"; they have shares, and no mean."""
    with StoreReader(filled(["formal"] * 30 + ["rude"] * 8)) as reader:
        whole = overall(reader, (None,) * 4, None, "tone")
    assert whole.funnel.scored == 38
    assert whole.mean is None
    assert whole.estimate is None
    assert "categories" in whole.note
    assert whole.categories == {"formal": 30, "rude": 8}
