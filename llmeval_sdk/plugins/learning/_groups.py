"""The courses of one score: over all its records, and of each span name with enough outcomes."""

from __future__ import annotations

from collections.abc import Mapping

from llmeval_sdk.plugins.learning._course import FEWEST, LearningCourse, advanced, chosen
from llmeval_sdk.plugins.learning._file import MOST_GROUPS
from llmeval_sdk.plugins.learning._fit import Slices
from llmeval_sdk.plugins.learning._outcomes import Outcomes


LATEST = 300
"""The latest outcomes, of which the source that gave most is learned from."""
ALL = 1 << 40


def advanced_groups(
    outcomes: Outcomes,
    part: str,
    made_of: tuple[str, int],
    groups: Mapping[str, LearningCourse],
    now: float,
) -> Slices[dict[str, LearningCourse]]:
    """Return the courses by span name as far as the outcomes take them; ``""`` stands for all.

    A span name has weights of its own only where they are better than those over all, so its course
    is compared with these.

    Args:
        outcomes: The outcomes of this host.
        part: The score and the language of its records.
        made_of: Which features the score has, and how many.
        groups: The courses as they stand.
        now: Seconds since the epoch.
    """
    features, width = made_of
    totals = outcomes.sources(part, features, ALL)
    source = chosen(outcomes.sources(part, features, LATEST), totals)
    courses = dict(groups)
    if source is None:
        return courses
    counts = {name: count for (of, name), count in totals.items() if of == source}
    able = [name for name, count in counts.items() if name and count >= FEWEST]
    able.sort(key=lambda name: (-counts[name], name))
    own = able[:MOST_GROUPS] if len(counts) > 1 else []
    for name in ("", *own):
        rows = yield from outcomes.of(part, features, source, name or None, width=width)
        over_all = courses[""].in_use if name else None
        courses[name] = yield from advanced(
            courses.get(name) or LearningCourse(),
            source,
            rows,
            now,
            rival=None if over_all is None else over_all.weights,
        )
    rare = [name for name in courses if name and name not in own]
    for name in rare[: max(0, len(courses) - 1 - MOST_GROUPS)]:
        del courses[name]
    return courses
