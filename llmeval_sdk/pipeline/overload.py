"""What gives way, and with which chance, when more comes than can be worked off.

Everything here goes by the level of a queue: how much of it is taken, from 0 to 1. Scores give way
first, from `HALF` on, and from `NEAR` on whole traces do. The chances never jump and never are 0,
so that what stays can be weighted by their inverse and stands for all there was.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final


HALF: Final = 0.5
"""From this level on, heuristics of some records are left out."""
NEAR: Final = 0.75
"""From this level on, traces are left out."""
FULL: Final = 0.9
"""From this level on, as many are left out as ever; the room above is for traces that stay."""
FEWEST_SCORED: Final = 0.1
"""The chance of a record to be scored when the queue is `NEAR` its end."""
FEWEST_STAYING: Final = 0.02
"""The chance of a trace to stay when the queue is `FULL`."""
BUSY: Final = 0.05
"""At this level the background takes as much of a core as it may. A twentieth of the queue is some
hundreds of records, so that a steady load waits for a moment only."""
MAX_DECIDED = 2_000
"""The latest traces whose chances are remembered where their spans share no state."""


def chance_of_scores(level: float) -> float:
    """Return the chance with which the heuristics of a record run."""
    return _falling(level, HALF, NEAR, FEWEST_SCORED)


def chance_of_traces(level: float) -> float:
    """Return the chance with which a trace stays."""
    return _falling(level, NEAR, FULL, FEWEST_STAYING)


def _falling(level: float, begin: float, end: float, fewest: float) -> float:
    """Return 1 up to one level, the fewest from another on, and between them a straight line."""
    passed = min(max((level - begin) / (end - begin), 0.0), 1.0)
    return 1.0 - passed * (1.0 - fewest)


def drawn(trace_id: str, chance: float) -> float:
    """Return the chance for a trace that stays, and 0 for one that goes.

    The draw is the same for a trace in all processes, and those that stay with a lower chance are
    among those that stay with a higher one.
    """
    if chance >= 1:
        return 1.0
    from llmeval_sdk.evaluation.sampling import overload_draw  # the app's thread seldom needs it

    return chance if overload_draw(trace_id) < chance else 0.0


class Decided(OrderedDict[Hashable, float]):
    """The chances with which the latest traces stay, each decided once; 0: the trace goes."""

    def note(self, trace: Hashable, chance: float) -> float:
        """Decide about a trace unless that is done; return what holds."""
        if len(self) >= MAX_DECIDED:
            self.popitem(last=False)
        return self.setdefault(trace, chance)
