"""Versions of an app against each other, evaluator by evaluator, for command line and viewer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

from llmeval_sdk import _values
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.estimates.standardised import (
    ALPHA,
    FEWEST,
    Standardised,
    needed,
    standardised_difference,
)
from llmeval_sdk.estimates.tally import Tally
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.versions import Collected, Version, collect
from llmeval_sdk.store.views import known_names


MOST_SHOWN = 10
"""Versions that are compared: those with the most verdicts."""
SHIFT = 0.05
"""A difference between the shares of a kind of requests that is worth a line."""
FIVE_POINTS = 0.05
NO_CONTROL = "no control sample, so the judged records do not stand for the rest"


@dataclass(frozen=True, slots=True)
class Shift:
    """A kind of requests of which one version has more than the other."""

    kind: str
    """``span`` or ``language``."""
    name: str
    baseline_share: float
    version_share: float


@dataclass(frozen=True, slots=True)
class Compared:
    """One version against the one to compare with, by one evaluator."""

    evaluator: str
    baseline: str
    version: str
    baseline_mean: float | None
    """Over all traffic of the version, on its own mix of requests."""
    version_mean: float | None
    baseline_judged: int
    version_judged: int
    outcome: str
    """``better``, ``worse``, ``no difference shown`` or ``undecided``."""
    estimate: Standardised | None = None
    """The difference on the same mix of requests; ``None`` where it cannot be said."""
    needed: int | None = None
    """About how many judged requests of both in all would show a difference of five points."""
    shifts: tuple[Shift, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """All evaluators and versions of one look."""

    by: str
    since_ns: int
    compared: tuple[Compared, ...]
    problems: dict[str, str] = field(default_factory=dict)
    """Why nothing can be said, by evaluator."""
    notes: tuple[str, ...] = ()


def compare(
    reader: StoreReader,
    by: str,
    *,
    since_ns: int = 0,
    until_ns: int,
    evaluator: str | None = None,
    baseline: str | None = None,
) -> Comparison:
    """Compare the versions of a store, each with ``baseline`` or else with the oldest one.

    All intervals of one look together leave out a truth in at most 5 % of cases, at any time: the
    5 % are divided by the number of comparisons (Bonferroni).

    Raises `ConfigurationError` for an evaluator or baseline that is not there.
    """
    names = reader.read(known_names)
    judges = list(names.judges)
    if evaluator is not None:
        if evaluator not in names.evaluators:
            raise ConfigurationError(f"no evaluator {evaluator!r} has scored anything in the store")
        judges = [evaluator]
    problems, notes = {}, []
    ready: list[tuple[str, Collected, list[Version]]] = []
    for judge in judges:
        found = reader.read(lambda c, judge=judge: collect(c, judge, by, since_ns, until_ns))  # type: ignore[misc]
        versions = _shown(found, baseline)
        problem = _problem(found, versions, by)
        if problem:
            problems[judge] = problem
        else:
            ready.append((judge, found, versions))
        notes += _notes(judge, found, by)
    if (
        baseline is not None
        and judges
        and not any(each.name == baseline for _, _, versions in ready for each in versions)
    ):
        raise ConfigurationError(f"no judged request has {by} {baseline!r}")
    looks = sum(len(versions) - 1 for _, _, versions in ready)
    compared = tuple(
        _compared(judge, versions[0], other, ALPHA / looks)
        for judge, _, versions in ready
        for other in versions[1:]
    )
    return Comparison(by, since_ns, compared, problems, tuple(notes))


def _shown(found: Collected, baseline: str | None) -> list[Version]:
    """Return the versions to compare, the baseline first and then by age."""
    largest = sorted(found.versions.values(), key=lambda each: (-each.judged, each.name))
    kept = [each for each in largest if each.judged]
    kept = [each for each in kept[:MOST_SHOWN] if each.name != baseline]
    kept.sort(key=lambda each: (each.first_ns, each.name))
    first = found.versions.get(baseline) if baseline is not None else None
    return [first, *kept] if first is not None and first.judged else kept


def _problem(found: Collected, versions: Sequence[Version], by: str) -> str:  # noqa: PLR0911
    if found.is_out_of_scale:
        return "its scores leave 0..1, and a mean without a scale cannot be compared at any time"
    if found.has_categories:
        return "its answers are categories, which have shares and no mean"
    if not versions:
        if found.unweighted:
            return "no inclusion probabilities: its verdicts describe the judged records only"
        if found.unnamed:
            return f"none of its requests has a {by}"
        return "nothing was judged"
    if len(versions) < 2:
        return f"all its verdicts are of one {by}, {versions[0].name}"
    return ""


def _notes(judge: str, found: Collected, by: str) -> list[str]:
    notes = []
    if found.unnamed and found.versions:
        notes.append(f"{judge}: {found.unnamed:,} requests without a {by} are left out")
    if found.judge_changed_ns is not None:
        notes.append(
            f"{judge}: the judge changed ({' and '.join(found.judges[:4])}), and its versions are"
            " not mixed: only what the latest one said is compared"
        )
    if len([each for each in found.versions.values() if each.judged]) > MOST_SHOWN:
        notes.append(
            f"{judge}: {len(found.versions):,} versions; the {MOST_SHOWN} with the most verdicts"
            " are compared"
        )
    return notes


def _compared(judge: str, first: Version, second: Version, alpha: float) -> Compared:
    means = [_mean(each) for each in (first, second)]
    shifts = (*_shifts("span", 0, first, second), *_shifts("language", 1, first, second))
    notes = []
    if first.last_ns < second.first_ns or second.last_ns < first.first_ns:
        notes.append("the two did not run at the same time: what else changed is part of it")
    unlike = [each.name for each in (first, second) if not _reaches(each)]
    estimate = None
    if unlike:
        outcome = "undecided"
        notes.append(f"{' and '.join(unlike)}: {NO_CONTROL}")
    else:
        estimate = standardised_difference(first.strata, second.strata, alpha=alpha)
        if estimate is None:
            outcome = "undecided"
            notes.append(f"fewer than {FEWEST} judged requests of one kind in both")
        else:
            outcome = _outcome(judge, estimate)
            if estimate.compared < 0.995:
                notes.append(
                    f"{1 - estimate.compared:.1%} of the requests are of kinds that only one has,"
                    " and are left out"
                )
    more, judged = None, first.judged + second.judged
    if estimate is not None and outcome == "no difference shown":
        more = needed(estimate.variance, judged, FIVE_POINTS, alpha)
        if more <= judged:
            more = None
            notes.append("a difference of five points would have been seen")
    return Compared(
        judge, first.name, second.name, means[0], means[1], first.judged, second.judged, outcome,
        estimate, more, shifts, tuple(notes),
    )  # fmt: skip


def _outcome(judge: str, found: Standardised) -> str:
    if not found.difference.is_clear:
        return "no difference shown"
    return "better" if (found.difference.mean > 0) is not _values.high_is_bad(judge) else "worse"


def _mean(version: Version) -> float | None:
    whole = Tally()
    for tally in version.strata.values():
        whole.join(tally)
    return whole.mean() if whole.judged else None


def _reaches(version: Version) -> bool:
    """Say whether the inverses of the chances add up to all requests, but for chance."""
    weight = sum(tally.w for tally in version.strata.values())
    squares = sum(tally.ww for tally in version.strata.values())
    return weight + 3 * sqrt(max(squares - weight, 0.0)) >= 0.9 * version.count


def _shifts(kind: str, place: int, first: Version, second: Version) -> list[Shift]:
    """Return the span names or languages whose shares differ by more than chance and `SHIFT`."""
    shares = []
    for version in (first, second):
        counts: dict[str, int] = {}
        for stratum, tally in version.strata.items():
            counts[stratum[place]] = counts.get(stratum[place], 0) + tally.count
        shares.append({name: count / version.count for name, count in counts.items()})
    found = []
    for name in sorted(shares[0].keys() | shares[1].keys()):
        a, b = (side.get(name, 0.0) for side in shares)
        middle = (a * first.count + b * second.count) / (first.count + second.count)
        error = sqrt(middle * (1 - middle) * (1 / first.count + 1 / second.count))
        if abs(b - a) > max(SHIFT, 3 * error):
            found.append(Shift(kind, name, a, b))
    found.sort(key=lambda shift: -abs(shift.version_share - shift.baseline_share))
    return found[:MOST_SHOWN]
