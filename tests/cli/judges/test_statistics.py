"""The figures are the textbook's, their intervals cover, and what is undefined says so."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import pytest

from llmeval_sdk.errors import DataError
from llmeval_sdk.offline.agreement import Pair, agreement, side


def pairs_of(table):
    """Make pairs of a confusion table {(label, rating): count}."""
    found = [cell for cell, count in table.items() for _ in range(count)]
    return [Pair(str(n), label, rating) for n, (label, rating) in enumerate(found)]


TABLE = {("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15}


def test_the_figures_are_the_textbooks():
    """Cohen's example: 50 rows, observed 0.70, chance 0.50, kappa 0.40."""
    found = agreement(pairs_of(TABLE))
    assert found.confusion == ((20, 5), (10, 15))
    assert found.categories == ("yes", "no")
    values = {name: each.value for name, each in found.estimates.items() if name != "auroc"}
    assert values == pytest.approx(
        {"accuracy": 0.7, "kappa": 0.4, "precision": 2 / 3, "recall": 0.8, "f1": 8 / 11}
    )


def test_the_other_side_has_figures_of_its_own():
    """Of no: 15 of 20 told, 15 of 25 there."""
    found = agreement(pairs_of(TABLE), positive="no").estimates
    assert found["precision"].value == pytest.approx(0.75)
    assert found["recall"].value == pytest.approx(0.6)
    assert found["kappa"].value == pytest.approx(0.4)


def test_auroc_is_the_share_of_pairs_in_order():
    """Counted by hand over all pairs of a yes and a no, ties as halves."""
    random.seed(1)
    rows = [
        Pair(str(n), random.choice(["yes", "no"]), "yes", round(random.random(), 1))
        for n in range(60)
    ]
    high = [row.score for row in rows if row.label == "yes"]
    low = [row.score for row in rows if row.label == "no"]
    by_hand = sum((a > b) + (a == b) / 2 for a in high for b in low) / (len(high) * len(low))
    assert agreement(rows).estimates["auroc"].value == pytest.approx(by_hand)


def test_intervals_hold_the_figure_and_narrow_with_more_rows():
    """The same shares on ten times the rows give about a third of the width, repeatably."""
    few, many = (
        agreement(pairs_of(TABLE)),
        agreement(pairs_of({k: 10 * v for k, v in TABLE.items()})),
    )
    for found in (few, many):
        kappa = found.estimates["kappa"]
        assert kappa.low < kappa.value < kappa.high
    widths = [each.estimates["kappa"].high - each.estimates["kappa"].low for each in (few, many)]
    assert 2.5 < widths[0] / widths[1] < 4
    assert agreement(pairs_of(TABLE)) == few


def test_categories_are_compared_as_they_are():
    """Three categories have a table and a kappa; what needs two sides says so."""
    found = agreement(pairs_of({("a", "a"): 10, ("b", "b"): 10, ("c", "a"): 5}))
    assert found.confusion == ((10, 0, 0), (0, 10, 0), (5, 0, 0))
    assert found.estimates["kappa"].value == pytest.approx((0.8 - 0.4) / 0.6)
    assert "yes or no" in found.estimates["precision"].why


@pytest.mark.parametrize(
    "table",
    [
        {("yes", "yes"): 30, ("yes", "no"): 3},
        {("no", "no"): 30},
        {("yes", "no"): 30, ("no", "no"): 1},
        {("yes", "yes"): 1},
        {("no", "yes"): 1, ("yes", "no"): 1},
    ],
)
def test_what_is_not_defined_says_why(table):
    """One class, one row, no positives: a reason in words, and never NaN."""
    found = agreement(
        [Pair(p.id, p.label, p.rating, 0.5 + 0.1 * (p.rating == "yes")) for p in pairs_of(table)]
    )
    for each in found.estimates.values():
        assert all(
            part is None or math.isfinite(part) for part in (each.value, each.low, each.high)
        )
        assert each.why or None not in (each.value, each.low, each.high)
    if len({label for label, _ in table}) == 1:
        assert "all labels are" in found.estimates["kappa"].why


def test_the_worst_disagreement_comes_first():
    """By distance of the score from the label."""
    rows = [
        Pair("mild", "yes", "no", 0.45),
        Pair("agreed", "yes", "yes", 0.9),
        Pair("grave", "no", "yes", 0.99),
    ]
    assert [pair.id for pair in agreement(rows).disagreements] == ["grave", "mild"]


def test_labels_are_read_as_people_write_them():
    """Words, booleans and numbers are sides; other words are categories."""
    assert {side(each) for each in ("Yes", "pass", True, 1, 0.5, "1")} == {"yes"}
    assert {side(each) for each in ("no", "FAIL", False, 0, 0.49)} == {"no"}
    assert side(4, 4) == "yes"
    assert side("Formal ") == "formal"
    for bad in ("", None, float("nan"), []):
        with pytest.raises(DataError):
            side(bad)


def test_without_the_extra_the_message_says_what_to_install():
    """No scipy: one clear line, and nothing imported before it is needed."""
    code = (
        "import sys; sys.modules['scipy'] = sys.modules['numpy'] = None\n"
        "from llmeval_sdk.errors import MissingExtraError\n"
        "from llmeval_sdk.offline.agreement import Pair, agreement\n"
        "try: agreement([Pair('1', 'yes', 'no')])\n"
        "except MissingExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'llmeval-inprocess[stats]'" in done.stdout
