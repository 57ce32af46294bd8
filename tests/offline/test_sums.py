"""A report is the same in whatever order, and in however many parts, its rows are summed up."""

import json
import pickle
import random
from fractions import Fraction

import pytest

from llmeval_sdk.model import Evaluation, Failure, Record, Usage
from llmeval_sdk.offline.report.aggregate import Aggregate, ExactSum
from llmeval_sdk.offline.report.row import Row


def awkward(count, seed=3):
    """Make floats whose plain sum depends on their order."""
    chance = random.Random(seed)
    return [chance.uniform(-1, 1) * 10.0 ** chance.randint(-200, 200) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 2, 511, 512, 513, 5_000])
def test_a_sum_is_the_exact_one_rounded_once(count):
    """However many amounts there are, and whatever their sizes."""
    amounts = awkward(count)
    exact = ExactSum()
    for amount in amounts:
        exact.add(amount)
    assert exact.total == float(sum(map(Fraction, amounts)))
    assert exact.mean(1) == exact.total


def test_parts_of_a_sum_merge_in_any_order_and_say_the_same():
    """To the last bit, also after a trip to another process, and to a third part."""
    amounts = awkward(3_000)
    whole = ExactSum()
    for amount in amounts:
        whole.add(amount)
    for seed in range(20):
        chance = random.Random(seed)
        chance.shuffle(amounts)
        cuts = sorted(chance.sample(range(len(amounts)), 7))
        merged = ExactSum()
        for begin, end in zip([0, *cuts], [*cuts, len(amounts)], strict=True):
            part = ExactSum()
            for amount in amounts[begin:end]:
                part.add(amount)
            merged.merge(pickle.loads(pickle.dumps(part)))
        assert merged == whole
        assert merged.total == whole.total


def test_a_sum_of_the_largest_floats_has_a_mean():
    """Where a plain sum would be infinite."""
    exact = ExactSum()
    for _ in range(4_000):
        exact.add(1.5e308)
    assert exact.mean(4_000) == 1.5e308


def test_few_floats_hold_a_sum_of_many():
    """Memory does not grow with the rows."""
    exact = ExactSum()
    for amount in awkward(20_000):
        exact.add(amount)
    assert len(exact._parts) < 600


def rows_of_all_kinds(count):
    chance = random.Random(5)
    for number in range(1, count + 1):
        score = chance.random() / 3
        evaluations = [
            Evaluation("b_score", value=score, duration=score),
            Evaluation("a_word", value=chance.choice(["red", "green", "blue"])),
            Evaluation(
                "judged", value=chance.choice(["yes", "no"]), evaluator_kind="judge",
                probability=chance.random(), usage=Usage(7, 3, 10, score / 1e5),
                metadata={"failed": 1, "ratings": ["yes", "no", "yes"]},
            ),
            Evaluation("failing", error=Failure(chance.choice(["timeout", "malformed"]))),
        ]  # fmt: skip
        chance.shuffle(evaluations)
        error = Failure(chance.choice(["KeyError", "ValueError"])) if number % 5 == 0 else None
        yield Row(Record("q"), {each.name: each for each in evaluations}, number, error)


def test_an_aggregate_is_the_same_bytes_for_any_order_and_partition():
    """Sums, counts, reasons and the order in which they are listed."""
    rows = list(rows_of_all_kinds(900))
    order = ("b_score", "a_word", "judged", "failing")
    written = set()
    for seed in range(12):
        chance = random.Random(seed)
        chance.shuffle(rows)
        parts = [Aggregate() for _ in range(chance.choice([1, 2, 7, 40]))]
        for row in rows:
            chance.choice(parts).add(row)
        merged = Aggregate()
        for part in parts:
            merged.merge(part)
        merged.put_in_order(order)
        written.add(json.dumps([merged.to_plain(), merged.metrics(), merged.counts()]))
    assert len(written) == 1
    assert list(merged.tallies) == list(order)
