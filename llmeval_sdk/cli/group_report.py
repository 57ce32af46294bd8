"""How ``llmeval report --by tag:tenant --by model`` shows scores by groups of requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from llmeval_sdk.cli.output import heading, say, say_wrapped, table
from llmeval_sdk.model import values
from llmeval_sdk.statistics.differences import FALSE_SHARE, FEWEST, GroupMean, differing
from llmeval_sdk.statistics.mean import Estimate
from llmeval_sdk.store.frames import LeftOut
from llmeval_sdk.store.labels import GroupFeedback
from llmeval_sdk.store.populations import Population
from llmeval_sdk.store.selection import MAX_SLICES, OTHERS, values_of
from llmeval_sdk.text.terminal import number, plural, printable


MAX_ROWS = 10
"""How many groups of an evaluator the text shows; ``--json`` has all of them."""


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """What one evaluator says of one group of requests."""

    evaluator: str
    group: tuple[str, ...]
    """The value of each grouping; ``(none)`` stands for requests without a value."""
    eligible: int
    scored: int
    mean: float | None
    """The plain mean of what was scored."""
    estimate: Estimate | None
    """The mean over all traffic of the group."""
    people: Estimate | None
    """The mean corrected by people's labels; ``None`` where too few of its records have one."""
    is_small: bool
    """Whether too little was scored to say anything."""
    differs: float
    """How far the mean is from the median of the other groups, where that is no chance; else 0."""
    is_worse: bool
    """Whether it differs for the worse."""
    cost_usd: float | None
    note: str
    left_out: LeftOut
    """How many labels do not count, by the part of the traffic that they were drawn from."""


def scored_groups(populations: Iterable[Population], width: int) -> list[ScoredGroup]:
    """Return the groups of each evaluator, the worst of them first and the small ones last.

    ``width`` is the number of groupings.
    """
    by_evaluator: dict[str, list[Population]] = {}
    for each in populations:
        if each.mean is not None or (each.funnel.eligible and not each.funnel.scored):
            by_evaluator.setdefault(each.judge, []).append(each)
    ordered: list[ScoredGroup] = []
    for name, groups in by_evaluator.items():
        means = [GroupMean(one.estimate, one.funnel.scored, one.funnel.eligible) for one in groups]
        differences = differing(means)
        made = [
            _group(one, width, differs) for one, differs in zip(groups, differences, strict=True)
        ]
        sign = -1 if values.high_is_bad(name) else 1
        made.sort(
            key=lambda one: (
                one.is_small or not one.estimate,
                sign * (one.mean or 0.0),
                -one.scored,
            )
        )
        ordered += made
    return ordered


def _group(population: Population, width: int, differs: float) -> ScoredGroup:
    estimate, scored = population.estimate, population.funnel.scored
    is_bad_up = values.high_is_bad(population.judge)
    mean = population.mean if estimate is None else estimate.mean
    return ScoredGroup(
        population.judge,
        tuple(values_of(population.group, width)),
        population.funnel.eligible,
        scored,
        mean,
        estimate,
        None if population.correction is None else population.correction.estimate,
        scored < FEWEST,
        differs,
        differs > 0 if is_bad_up else differs < 0,
        population.cost_usd,
        population.note,
        population.left_out,
    )


def show_groups(
    groups: Sequence[ScoredGroup], feedback: Sequence[GroupFeedback], by: Sequence[str]
) -> None:
    """Print the scores of each group, whether they differ by more than chance, and the feedback."""
    names = [one.removeprefix("tag:") for one in by]
    has_people = any(group.people for group in groups)
    rows, hidden = [], 0
    for name, its in groupby(groups, attrgetter("evaluator")):
        mine = list(its)
        for place, group in enumerate(mine[:MAX_ROWS]):
            rows.append(("" if place else name, *_row(group, has_people=has_people)))
        hidden = max(hidden, len(mine) - MAX_ROWS)
    if rows:
        heading("Scores by group, the worst first")
        people = ("people would say",) if has_people else ()
        titles = ("evaluator", *names, "eligible", "scored", "all traffic (95 %)", *people)
        table((*titles, "beside the others"), rows, numbers="eligible scored")
        if hidden > 0:
            say_wrapped(_hidden(hidden, "groups"))
        _show_chance(groups)
        _show_left_out(groups)
    else:
        say("No scores match that have a mean.")
    if feedback:
        heading("Feedback: what people said, who choose what they speak of")
        said = [
            (
                one.name, *values_of(one.group, len(by)), f"{one.count:,}",
                "-" if one.mean is None else number(one.mean),
            )
            for one in feedback
        ]  # fmt: skip
        table(("feedback", *names, "count", "mean"), said[:MAX_ROWS], numbers="count mean")
        if len(said) > MAX_ROWS:
            say_wrapped(_hidden(len(said) - MAX_ROWS, "rows"))


def _hidden(count: int, what: str) -> str:
    return f"{count:,} further {what} are not shown; --json has them."


def _show_chance(groups: Sequence[ScoredGroup]) -> None:
    count = len({group.group for group in groups})
    if count < 2:
        return
    small = len({group.group for group in groups if group.is_small})
    text = (
        f"{plural(count, 'group')} were looked at, and some look bad by chance. A group is called"
        f" worse or better only where chance explains it badly: of all that are, at most"
        f" {FALSE_SHARE:.0%} are expected to be called so wrongly (Benjamini-Hochberg)."
    )
    if small:
        text += f" Of a group with fewer than {FEWEST} scores nothing can be said."
    if any(OTHERS in group.group for group in groups):
        text += f" {OTHERS} are all but the {MAX_SLICES:,} largest groups."
    say_wrapped(text)


def _show_left_out(groups: Sequence[ScoredGroup]) -> None:
    for name, its in groupby(groups, attrgetter("evaluator")):
        left_out = LeftOut()
        for group in its:
            for frame, count in group.left_out.items():
                left_out.add(frame, count)
        if left_out:
            say_wrapped(f"{printable(name)}: {left_out.sentence}")


def _row(group: ScoredGroup, *, has_people: bool) -> tuple[str, ...]:
    people = (estimated(group.people),) if has_people else ()
    return (
        *group.group,
        f"{group.eligible:,}",
        f"{group.scored:,}",
        estimated(group.estimate),
        *people,
        _beside(group),
    )


def estimated(estimate: Estimate | None) -> str:
    """Return a mean with its interval; a star says that a free score narrowed it."""
    if estimate is None:
        return "-"
    mark = " *" if estimate.method == "model-assisted" else ""
    return f"{estimate.mean:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]{mark}"


def _beside(group: ScoredGroup) -> str:
    if group.is_small:
        return "too few to say"
    if group.estimate is None:
        return group.note.partition(":")[0]
    if not group.differs:
        return "-"
    return f"{'worse' if group.is_worse else 'better'} by {number(abs(group.differs))}"
