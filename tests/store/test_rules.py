"""What the escalation rules would have found among checked extractions."""

import random
import time

import pytest

from llmeval_sdk import config
from llmeval_sdk.exporters.local import LocalExporter
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, Target
from llmeval_sdk.statistics.detection import caught_at, caught_interval
from llmeval_sdk.store.labels import FEWEST_CHECKED, compare_rules
from llmeval_sdk.store.reader import StoreReader


@pytest.mark.parametrize(
    ("share", "risks", "bad", "expected"),
    [
        (0.5, [4, 3, 2, 1], [True, True, False, False], 1.0),
        (0.25, [4, 3, 2, 1], [True, True, False, False], 0.5),
        (0.2, [1, 1, 1, 1], [True, False, False, False], 0.2),
        (0.5, [1, 2], [False, True], 1.0),
        (0.5, [1, 2], [False, False], None),
        (0.0, [1, 2], [False, True], 0.0),
    ],
)
def test_a_share_catches_what_stands_among_the_riskiest(share, risks, bad, expected):
    """Ties are taken at random, so a constant catches its share."""
    assert caught_at(share, risks, bad) == (
        expected if expected is None else pytest.approx(expected)
    )


def test_few_bad_records_leave_a_wide_interval():
    """All of eight caught is no proof of all, and weights make eight records fewer."""
    low, high = caught_interval(1.0, [True] * 8 + [False] * 8)
    assert (round(low, 2), high) == (0.68, 1.0)
    weighted = caught_interval(1.0, [True] * 8, [1, 1, 1, 1, 1, 1, 1, 20])
    assert weighted[0] < 0.4
    assert caught_interval(None, [False]) is None


def test_weights_stand_for_traffic():
    """A record that was chosen with a chance of 0.1 stands for ten."""
    assert caught_at(0.5, [2, 1], [True, True], [1, 9]) == pytest.approx(0.5)


def event(span_id, name, value, chance=1.0):
    evaluation = Evaluation(name, value, inclusion_probability=chance)
    return EvaluationEvent(
        f"{span_id}-{name}", Target("t" * 32, span_id, "w"), evaluation, time.time_ns()
    )


def stored(path, wrong_above, verdicts):
    """Store records whose risk is their number; the judge says no above a bound."""
    draw = random.Random(1)
    events = []
    for n in range(verdicts):
        span_id = f"{n:016x}"
        events += [
            event(span_id, "extraction_risk", n / verdicts),
            event(span_id, "context_recall_heuristic", draw.random()),
            event(span_id, "extraction_correctness", "no" if n >= wrong_above else "yes", 0.5),
        ]
    exporter = LocalExporter(config.from_environment({}, store=str(path)))
    exporter.export(Batch((), tuple(events)))
    exporter.close(5)


def test_the_rules_are_compared_on_verdicts(tmp_path):
    """A score that ranks the wrong ones last of all catches them; the rule on recall does not."""
    stored(tmp_path / "s.db", 90, 100)
    with StoreReader(tmp_path / "s.db") as reader:
        found = reader.read(lambda store: compare_rules(store, 0.7))
    assert (found.checked, found.labelled, found.wrong) == (100, 0, 10)
    assert found.share_caught == found.risk_caught == pytest.approx(1.0)
    assert 0.5 < found.plain_share < 0.9
    assert found.plain_caught < 1
    assert found.share_interval == pytest.approx((0.72, 1.0), abs=0.01)


def test_too_few_checked_records_compare_nothing(tmp_path):
    """Below the bound there are counts and no shares."""
    stored(tmp_path / "s.db", 0, FEWEST_CHECKED - 1)
    with StoreReader(tmp_path / "s.db") as reader:
        found = reader.read(lambda store: compare_rules(store, 0.7))
    assert not found.is_known
    assert found.checked == FEWEST_CHECKED - 1
