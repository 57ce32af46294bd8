"""How a value stands among its rivals: the cues beside each, their number, how often they stand."""

from __future__ import annotations

from math import log1p

from llmeval_sdk.text.extraction import Reading
from llmeval_sdk.text.extraction.reading import FREE_FORM


FULL_CUE = 1.2
"""The cues beside a value seldom add up to more."""
_BESIDE = 60
"""Characters around a value in which a rival counts as beside it."""


def measure(reading: Reading) -> dict[str, float]:
    """Compare a value with the other values of its kind.

    ``rival_nearer``: how much more the field's cue words speak for the best rival than for the
    value; 0.5 is as much. ``no_cue``: no cue stands near the value. ``outnumbered``: a rival stands
    more often. ``opposed``: there is a rival; ``crowded``: there are many; ``crowded_line``: many
    stand beside the value.
    """
    rivals = reading.rivals
    has_cues = bool(reading.marks.starts)
    best = rivals[0].cue if rivals else 0.0
    lead = (best - reading.cue) / FULL_CUE if has_cues else 0.0
    if reading.kind in FREE_FORM:  # any capitalised word could be a name: their number says nothing
        return {
            "rival_nearer": 0.5 + max(-0.5, min(0.5, lead / 4)),
            "no_cue": 1 - min(1.0, reading.cue / FULL_CUE) if has_cues else 0.5,
        }
    often = max((rival.times for rival in rivals), default=0)
    return {
        "rival_nearer": 0.5 + max(-0.5, min(0.5, lead / 2)),
        "no_cue": 1 - min(1.0, reading.cue / FULL_CUE) if has_cues else 0.5,
        "outnumbered": often / (often + len(reading.spans)) if often else 0.0,
        "opposed": float(bool(rivals)),
        "crowded": min(1.0, log1p(len(rivals)) / 4),
        "crowded_line": min(1.0, log1p(_beside(reading)) / 2),
    }


def _beside(reading: Reading) -> int:
    if reading.best is None:
        return 0
    start, end = reading.best
    return sum(start - _BESIDE <= rival.start <= end + _BESIDE for rival in reading.rivals)
