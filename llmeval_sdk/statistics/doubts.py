"""Says when labels look as if nobody had read the records, before a figure rests on them."""

from __future__ import annotations

from collections.abc import Iterable


FEWEST = 10
"""Labels below which all may well be alike."""


def doubt_about(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a sentence on what is odd about labels, and what to do; empty where nothing is.

    Args:
        pairs: For each labelled record what a person said, and what the judge said.
    """
    said = list(pairs)
    if len(said) < FEWEST:
        return ""
    count = f"{len(said):,}"
    again = "read some of these records again in `llmeval view`, beside what the judge asks"
    if all(label != verdict for label, verdict in said):
        return (
            f"All {count} labels contradict the judge: either yes and no were mixed up, or people"
            f" answered another question than the judge; {again}, before you rely on them."
        )
    only = said[0][0]
    if any(label != only for label, _ in said):
        return ""
    against = sum(verdict != only for _, verdict in said)
    beside = f", and the judge says otherwise of {against:,} of these records" if against else ""
    return (
        f"All {count} labels are {only!r}{beside}: such labels cannot tell a good answer from a bad"
        f" one, and often nobody has read the answers; {again}, before you rely on them."
    )
