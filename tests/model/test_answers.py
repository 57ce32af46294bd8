"""What is no answer is decided in one place, which swallows no exception that is not ours."""

import signal
from collections import UserDict

import pytest

from llmeval_sdk.model.chat import is_answer


class TimeIsOverError(Exception):
    """Stands for the soft time limit of a task queue."""


def test_an_object_of_the_app_that_raises_is_something():
    """Reading it fails, which does not make it nothing."""

    class Odd(UserDict):
        def get(self, name, default=None):
            raise ValueError("not readable")

    assert is_answer(Odd(value=None))


def test_what_a_signal_handler_raises_passes_through():
    """The limit strikes while a value is being read."""

    class Slow(UserDict):
        def get(self, name, default=None):
            signal.raise_signal(signal.SIGUSR1)
            return default

    def end(*_):
        raise TimeIsOverError

    before = signal.signal(signal.SIGUSR1, end)
    try:
        with pytest.raises(TimeIsOverError):
            is_answer(Slow(value=None))
    finally:
        signal.signal(signal.SIGUSR1, before)
