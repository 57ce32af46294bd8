"""A share is spent whole, on the riskiest first, and no record's chance is below the floor."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmeval_sdk.statistics.allocation import FLOOR, Allocation, default_control


shares = st.floats(0.01, 1.0)
parts = st.floats(0.0, 1.0)


@given(shares, parts)
def test_the_chances_add_up_to_the_share(share, part):
    """Over all ranks, in any number of steps, the mean chance is the share."""
    allocation = Allocation(share, part * share)
    steps = [allocation.chance(step / 64, (step + 1) / 64) for step in range(64)]
    assert sum(steps) / 64 == pytest.approx(share, abs=1e-9)
    assert allocation.chance(0.0, 1.0) == pytest.approx(share, abs=1e-9)


@given(shares, parts, st.floats(-1, 2))
def test_a_riskier_record_never_has_the_smaller_chance(share, part, now):
    """The chance falls with the rank and stays within the floor and 1, whatever is owed."""
    allocation = Allocation(share, part * share)
    steps = [allocation.chance(step / 50, (step + 1) / 50, now) for step in range(50)]
    assert all(a >= b - 1e-12 for a, b in pairwise(steps))
    assert min(steps) >= allocation.floor - 1e-12
    assert max(steps) <= 1 + 1e-12


def test_by_default_no_chance_is_below_one_in_twenty():
    """A fifth of the traffic: the safest record weighs at most twenty."""
    allocation = Allocation(0.2, default_control(0.2))
    assert allocation.chance(0.999, 1.0) == pytest.approx(FLOOR, abs=1e-3)
    assert allocation.chance(0.0, 0.05) == 1.0


def test_a_small_control_rate_is_the_same_for_the_whole_rest():
    """With 0.02 the share goes to the riskiest as it always did."""
    allocation = Allocation(0.2, 0.02)
    assert allocation.aim() == pytest.approx(0.18 / 0.98)
    assert {round(allocation.chance(rank, rank + 0.01), 12) for rank in (0.3, 0.6, 0.9)} == {0.02}


def test_what_was_overspent_is_saved():
    """Far above the share, only the floor is spent; far below it, everything is judged."""
    allocation = Allocation(0.2, 0.09)
    assert allocation.chance(0.0, 0.01, -1.0) == pytest.approx(FLOOR)
    assert allocation.chance(0.98, 0.99, 1.0) == 1.0
