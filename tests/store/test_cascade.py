"""What a store says of a cascade: its tiers, the mean over all traffic, and the hours of alarms."""

import random

import pytest

from llmeval_sdk.model import Batch, Failure
from llmeval_sdk.store.populations import overall, populations
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import EvaluationScope, groups, tiers
from llmeval_sdk.store.span_lists import outcomes_of
from llmeval_sdk.store.verdicts_by_hour import Wanted, hours


JUDGE = "groundedness"
RECORDS = 2_000


@pytest.fixture
def cascade(writer, make, path):
    """Decisions that are too kind by 0.1, a judge model on the uncertain and on a tenth of others."""
    rng = random.Random(7)
    spans, evaluations, not_run, truth = [], [], [], []
    for _ in range(RECORDS):
        span = make.span()
        spans.append(span)
        good = rng.random()
        is_good = rng.random() < good
        truth.append(is_good)
        said = min(good + 0.1, 1.0)
        evaluations.append(
            make.evaluation(
                span, JUDGE, "yes" if said >= 0.5 else "no",
                id=f"{span.span_id}-{JUDGE}-decision", evaluator_kind="decision", probability=said,
            )
        )  # fmt: skip
        uncertain = 0.2 <= said <= 0.8
        if uncertain or rng.random() < 0.1:
            evaluations.append(
                make.evaluation(
                    span, JUDGE, "yes" if is_good else "no",
                    evaluator_kind="judge", inclusion_probability=1.0 if uncertain else 0.1,
                )
            )  # fmt: skip
        else:
            not_run.append(make.not_run(span, JUDGE, "not_escalated"))
    for start in range(0, RECORDS, 500):
        writer.write(Batch(spans=tuple(spans[start : start + 500])))
    writer.write(Batch(evaluations=tuple(evaluations), not_run=tuple(not_run)))
    writer.close()
    with StoreReader(path) as reader:
        yield reader, sum(truth) / RECORDS


def test_each_tier_has_its_share_and_what_it_changed(cascade):
    reader, _ = cascade
    (found,) = reader.read(
        lambda store: tiers(store, EvaluationScope(), groups(store, EvaluationScope()))
    )
    assert (found.judge, found.decided, found.eligible) == (JUDGE, RECORDS, RECORDS)
    assert found.shares[0] == 1.0
    assert 0.55 < found.shares[1] < 0.75
    assert found.both == found.judged
    assert 0 < found.changed < found.both
    assert found.to_good < found.changed


def test_the_mean_over_all_traffic_is_that_of_the_judge_model(cascade):
    """Decisions predict it; the control sample corrects their kindness."""
    reader, truth = cascade
    (found,) = populations(reader, (None, None, None, None), None)
    assert found.estimate.method == "model-assisted"
    assert found.estimate.low <= truth <= found.estimate.high
    assert found.estimate.high - found.estimate.low < 0.08


def test_over_all_names_too(cascade):
    """As alerts and charts see it: a decision is no second verdict beside the judge model's."""
    reader, truth = cascade
    found = overall(reader, (None, None, None, None), None, JUDGE)
    assert found.funnel.eligible == RECORDS
    assert found.estimate.low <= truth <= found.estimate.high


def test_an_alarm_hears_each_record_once(cascade):
    """Decisions predict what the judge model was not asked; they are no second verdict."""
    reader, _ = cascade
    wanted = Wanted(JUDGE)
    seen = [
        each
        for _, hour in reader.read(lambda store: list(hours(store, wanted, 0, 2**62)))
        for each in hour.seen
    ]
    assert len(seen) == RECORDS
    assert all(each.predictor is not None for each in seen)


@pytest.mark.parametrize("is_judged", [True, False])
def test_an_alarm_hears_of_a_moved_decision_model(writer, make, path, is_judged):
    """Where it decides, and where a judge model that names itself answers after it."""
    evaluations = []
    for decider in ("small-1", "small-2", None):
        span = make.span()
        if decider:
            about = {"id": span.span_id, "evaluator_kind": "decision", "probability": 0.9}
            about["metadata"] = {"model": decider}
            evaluations.append(make.evaluation(span, JUDGE, "yes", **about))
        if is_judged:
            about = {"evaluator_kind": "judge", "metadata": {"model": "gpt-x"}}
            evaluations.append(make.evaluation(span, JUDGE, "yes", **about))
    writer.write(Batch(evaluations=tuple(evaluations)))
    writer.close()
    with StoreReader(path) as reader:
        wanted = Wanted(JUDGE)
        ((_, hour),) = reader.read(lambda store: list(hours(store, wanted, 0, 2**62)))
    before = "gpt-x after " if is_judged else ""
    assert {name.split(", ")[1] for name in hour.versions} == {f"{before}small-{n}" for n in (1, 2)}


def test_a_list_shows_what_counts(writer, make, path):
    """The judge model's answer, and the decision where it failed, whichever came last."""
    judged, failed = make.span(), make.span()
    writer.write(
        Batch(
            spans=(judged, failed),
            evaluations=(
                make.evaluation(judged, JUDGE, "no", evaluator_kind="judge"),
                make.evaluation(judged, JUDGE, "yes", id="d", evaluator_kind="decision"),
                make.evaluation(failed, JUDGE, "yes", id="d", evaluator_kind="decision"),
                make.evaluation(
                    failed, JUDGE, None, error=Failure("timeout"), evaluator_kind="judge"
                ),
            ),
        )
    )
    writer.close()
    with StoreReader(path) as reader:
        scores, _ = reader.read(lambda store: outcomes_of(store, [judged.span_id, failed.span_id]))
    assert scores[judged.span_id][JUDGE].value == "no"
    assert (scores[failed.span_id][JUDGE].value, scores[failed.span_id][JUDGE].error) == (
        "yes",
        None,
    )


def test_records_decided_without_their_images_are_counted(writer, make, path):
    """The report says so: a decision about a picture that was not seen says little."""
    spans = [make.span() for _ in range(3)]
    evaluations = [
        make.evaluation(
            span, JUDGE, "yes", id=f"{span.span_id}-{JUDGE}-decision", evaluator_kind="decision",
            probability=0.9, metadata={"left_out": {"image_url": 2}} if place else {},
        )
        for place, span in enumerate(spans)
    ]  # fmt: skip
    writer.write(Batch(spans=tuple(spans), evaluations=tuple(evaluations)))
    writer.close()
    scope = EvaluationScope()
    with StoreReader(path) as reader:
        (tier,) = reader.read(lambda c: tiers(c, scope, groups(c, scope)))
    assert (tier.decided, tier.left_out) == (3, 2)
