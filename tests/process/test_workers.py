"""Work that a command spreads over processes of its own."""

import os

from llmeval_sdk.process.workers import AHEAD, mapped


def test_items_are_taken_ahead_of_the_caller_and_not_all_at_once(monkeypatch):
    """The processes have work while the caller writes what it has, and memory stays bounded."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield -number

    results = mapped(abs, items())
    for number in range(3):
        assert next(results) == number
        assert len(taken) == number + 1 + AHEAD
    results.close()
