"""How much of a core the background takes: more while much waits, and less when nothing does."""

import pytest

from llmeval_sdk.pipeline._worker import LONGEST_PAUSE, QUIET_SHARE, SHORTEST_PAUSE, Pace
from llmeval_sdk.pipeline.overload import BUSY


def test_the_share_rises_with_the_queue_and_falls_back():
    """From half a core to as much as it may; a smaller bound holds at once."""
    level = [0.0]
    pace = Pace(1.0, level=lambda: level[0])
    assert pace.share == QUIET_SHARE
    level[0] = BUSY / 2
    assert pace.share == pytest.approx(0.75)
    level[0] = 1.0
    assert pace.share == 1.0
    pace.bound(0.25)
    assert pace.share == 0.25
    level[0] = 0.0
    assert pace.share == 0.25


def test_the_threads_of_exporters_count():
    """What they have used is paused for; a batch of theirs is paid in several pauses."""
    used = [0.0]
    pace = Pace(1.0, level=lambda: 1.0, others=lambda: used[0])
    assert pace._pause_after(0.001) == SHORTEST_PAUSE
    used[0] += 0.02
    assert 0.015 < pace._pause_after(0.001) < LONGEST_PAUSE
    used[0] += 10.0
    assert pace._pause_after(0.001) == LONGEST_PAUSE
    pace.begin()
    assert pace._pause_after(0.001) == SHORTEST_PAUSE


def test_the_time_in_which_others_had_the_interpreter_is_no_work():
    """Work of 0.3 ms that was interrupted for 5 ms by the app is worth the shortest pause."""
    assert Pace(0.5)._pause_after(0.005) == SHORTEST_PAUSE
