"""What is done before the end of a process leaves the interpreter as it was."""

import sys

import pytest

from llmeval_sdk.process.exits import TURN_SECONDS, prompt_turns


@pytest.mark.parametrize("usual", [0.005, TURN_SECONDS / 5])
def test_threads_take_turns_as_usual_afterwards(usual):
    """Threads take turns sooner inside the block, never later than the app chose, and as before after it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(usual)
    try:
        with pytest.raises(KeyError), prompt_turns():
            assert sys.getswitchinterval() == pytest.approx(min(usual, TURN_SECONDS), abs=2e-6)
            raise KeyError
        assert sys.getswitchinterval() == pytest.approx(usual, abs=2e-6)
    finally:
        sys.setswitchinterval(before)
