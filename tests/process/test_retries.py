"""The waits between attempts, which all that tries again shares."""

from itertools import islice

import pytest

from llmeval_sdk.process.retries import pauses


def test_waits_double_up_to_the_longest():
    """Without a spread they are what they are called."""
    assert [*islice(pauses(1.0, 5.0, spread=(1.0, 1.0)), 5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


@pytest.mark.parametrize("spread", [(0.0, 1.0), (0.5, 1.5)])
def test_waits_are_spread(spread):
    """Those who failed together come back at different times, within the bounds."""
    waits = [next(pauses(2.0, 8.0, spread=spread)) for _ in range(200)]
    assert len(set(waits)) > 190
    assert spread[0] * 2.0 <= min(waits) <= max(waits) <= spread[1] * 2.0
