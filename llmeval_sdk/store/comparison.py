"""Two groups of requests beside each other, such as two versions of an app, by what judges say."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import values
from llmeval_sdk.statistics.mean import (
    Difference,
    Estimate,
    Seen,
    Tally,
    difference,
    tallied_mean,
)
from llmeval_sdk.store.latest import (
    decider_of,
    distinct_versions,
    is_verdict,
    judge_version,
    model_of,
)
from llmeval_sdk.store.populations import Population, SharedReadings, by_group
from llmeval_sdk.store.reader import StoreReader, known_names
from llmeval_sdk.store.scores import EvaluationScope
from llmeval_sdk.store.selection import OTHERS, SEVERAL
from llmeval_sdk.store.splits import BY_SLICE
from llmeval_sdk.store.traffic import OF_THE_APP, answers_by_group


FEWEST = 30
"""With fewer judged requests of either group no difference is called one."""
NO_ANSWER = "no_answer"
"""The name, among the evaluators, of the share of requests whose answer got lost."""


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """What one evaluator says of two groups of requests."""

    evaluator: str
    baseline: str
    version: str
    baseline_judged: int
    version_judged: int
    baseline_mean: float | None
    """Over all traffic of the group; ``None`` where it cannot be said."""
    version_mean: float | None
    difference: Difference | None
    """The version's mean less the baseline's, with a 95 % interval for one look."""
    outcome: str
    """``better``, ``worse``, ``no difference shown`` or ``undecided``."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two groups of requests by all evaluators."""

    by: str
    since_ns: int
    baseline: str | None = None
    version: str | None = None
    others: tuple[str, ...] = ()
    """The groups that were not chosen, the oldest first."""
    compared: tuple[GroupDifference, ...] = ()
    notes: tuple[str, ...] = ()


def compare(
    reader: StoreReader,
    *,
    since_ns: int = 0,
    evaluator: str | None = None,
    baseline: str | None = None,
    version: str | None = None,
) -> Comparison:
    """Compare two groups of the reader's selection, which has one grouping.

    Args:
        reader: the store.
        since_ns: the time, in nanoseconds since the epoch, from which on requests count.
        evaluator: the only evaluator to compare by, which may be `NO_ANSWER`; by default all judges
            and the lost answers, where there are any.
        baseline: the group to compare with, by default the oldest one with a verdict.
        version: the group that is compared, by default the newest one.

    Raises:
        ConfigurationError: no evaluator or group has such a name, or there are more groups than an
            app has versions.
    """
    by = "" if reader.selection is None else reader.selection.by[0]
    names = reader.read(known_names)
    if evaluator not in (None, NO_ANSWER, *names.evaluators):
        raise ConfigurationError(f"no evaluator {evaluator!r} has scored anything in the store")
    judges = [name for name in names.evaluators if name == evaluator]
    if evaluator is None:
        judges = list(names.judges)
    periods, unnamed = reader.read(lambda store: _periods(store, since_ns))
    _check(periods, by, baseline, version)
    known = SharedReadings(reader, labels={})
    measured = {judge: _by_group(reader, since_ns, judge, known) for judge in judges}
    answers = reader.read(lambda store: _answers(store, since_ns))
    scored = {group for of in measured.values() for group, each in of.items() if each.funnel.scored}
    named = [name for name in periods if name != SEVERAL]
    judged_first = sorted(named, key=lambda name: name not in scored)
    baseline = baseline or next((name for name in judged_first if name != version), None)
    version = version or next((name for name in reversed(named) if name != baseline), None)
    if baseline is None or version is None:
        return Comparison(by, since_ns, notes=(_why_alone(named, by),))
    others = tuple(name for name in periods if name not in (baseline, version))
    notes = [f"{unnamed:,} requests without a {by} are left out"] if unnamed else []
    notes += _notes(periods, answers, (baseline, version))
    compared = [
        _compared(
            judge, (baseline, version), groups,
            reader.read(lambda c, judge=judge: _versions(c, judge, since_ns, (baseline, version))),  # type: ignore[misc]
        )
        for judge, groups in measured.items()
    ]  # fmt: skip
    if evaluator in (None, NO_ANSWER) and answers:
        compared.append(_compared_answers((baseline, version), answers))
    return Comparison(by, since_ns, baseline, version, others, tuple(compared), tuple(notes))


Periods = Mapping[str, tuple[int, int]]
"""When the first and the last request of each group began, the oldest group first."""


def _periods(connection: sqlite3.Connection, since_ns: int) -> tuple[Periods, int]:
    """Return the groups, and how many requests are in none."""
    sql = f"""
SELECT {BY_SLICE.part} AS slice, min(start_ns) AS first, max(start_ns), count(DISTINCT trace_id)
FROM spans WHERE start_ns >= ? AND {OF_THE_APP} GROUP BY slice ORDER BY first, slice
"""  # noqa: S608 - constants
    rows = connection.execute(sql, (since_ns,)).fetchall()
    periods = {name: (first, last) for name, first, last, _ in rows if name is not None}
    return periods, next((count for name, _, _, count in rows if name is None), 0)


def _check(periods: Periods, by: str, *names: str | None) -> None:
    if OTHERS in periods:
        raise ConfigurationError(
            f"{by} has too many values, which are no versions: compare by something that changes"
            " when the app does"
        )
    for name in names:
        if name is not None and name not in periods:
            raise ConfigurationError(f"no request has {by} {name!r}")


def _why_alone(named: Sequence[str], by: str) -> str:
    return f"all requests have one {by}, {named[0]}" if named else f"no request has a {by}"


def _notes(
    periods: Periods, answers: Mapping[str, _Answers], groups: tuple[str, str]
) -> Iterator[str]:
    first, second = (periods[group] for group in groups)
    if first[1] < second[0] or second[1] < first[0]:
        yield (
            "the two did not run at the same time, so the difference holds whatever else changed"
            " between"
        )
    for group in groups:
        about = answers.get(group)
        if about is not None and about.lost:
            yield (
                f"{about.lost / about.count:.1%} of the requests of {group} got no answer, which no"
                f" judge could see: see {NO_ANSWER}"
            )


def _by_group(
    reader: StoreReader, since_ns: int, judge: str, known: SharedReadings
) -> dict[str | None, Population]:
    scope = EvaluationScope(since_ns or None, evaluator=judge)
    return {each.group: each for each in by_group(reader, scope, known)}


def _versions(
    connection: sqlite3.Connection, judge: str, since_ns: int, groups: Sequence[str]
) -> tuple[str, ...]:
    """Return the versions of a judge that gave the verdicts on two groups."""
    sql = f"""
SELECT DISTINCT evaluator_version, {model_of("e")}, {decider_of("e")} FROM evaluations e
WHERE name = ? AND time_ns >= ? AND error_type IS NULL AND value IS NOT NULL AND {is_verdict("e")}
  AND {BY_SLICE.part} IN (?, ?)
"""  # noqa: S608 - constants
    rows = connection.execute(sql, (judge, since_ns, *groups))
    return tuple(sorted(distinct_versions({judge_version(*row) for row in rows})))


def _compared(
    judge: str,
    groups: tuple[str, str],
    measured: Mapping[str | None, Population],
    versions: Sequence[str],
) -> GroupDifference:
    sides = [measured.get(group) for group in groups]
    judged = [0 if side is None else side.funnel.scored for side in sides]
    notes = [
        f"{group}: {_note(side)}"
        for group, side in zip(groups, sides, strict=True)
        if side is None or side.note
    ]
    estimates = [None if side is None else side.estimate for side in sides]
    if len(versions) > 1:
        notes.append(
            f"the judge changed ({' and '.join(versions[:4])}), and its versions are not mixed:"
            " choose a period with one of them"
        )
        estimates = [None, None]
    return _difference(judge, groups, judged, estimates, notes)


def _note(side: Population | None) -> str:
    if side is None:
        return "nothing could be judged"
    steps, why = side.funnel, ""
    if not steps.scored:
        reasons = sorted(steps.reasons.items(), key=lambda reason: -reason[1])
        why = "".join(f", {name} {count:,}" for name, count in reasons)
    return f"{side.note}{why}"


def _difference(
    evaluator: str,
    groups: tuple[str, str],
    judged: Sequence[int],
    estimates: Sequence[Estimate | None],
    notes: list[str],
) -> GroupDifference:
    first, second = estimates
    change = None if first is None or second is None else difference(second, first)
    outcome = "no difference shown"
    if change is None:
        outcome = "undecided"
    elif min(judged) < FEWEST:
        outcome = "undecided"
        notes.append(f"fewer than {FEWEST} judged requests of one of the two")
    elif change.is_clear:
        is_good = (change.mean > 0) is not values.high_is_bad(evaluator)
        outcome = "better" if is_good else "worse"
    return GroupDifference(
        evaluator, *groups, judged[0], judged[1], None if first is None else first.mean,
        None if second is None else second.mean, change, outcome, tuple(notes),
    )  # fmt: skip


# Requests without an answer, which no judge can see: a version that loses its hard ones looks good.


@dataclass(slots=True)
class _Answers:
    """How many requests of a group have no answer."""

    count: int = 0
    lost: int = 0
    abstained: int = 0
    tally: Tally = field(default_factory=Tally)


def _answers(connection: sqlite3.Connection, since_ns: int) -> dict[str, _Answers]:
    """Count the requests of each group without an answer; empty where every request has one."""
    groups: dict[str, _Answers] = {}
    for group, state in answers_by_group(connection, since_ns):
        about = groups.setdefault(group, _Answers())
        about.count += 1
        about.lost += state == "lost"
        about.abstained += state == "abstained"
        about.tally.add(Seen(float(state == "lost")))
    return groups


def _compared_answers(groups: tuple[str, str], answers: Mapping[str, _Answers]) -> GroupDifference:
    sides = [answers.get(group, _Answers()) for group in groups]
    notes = [
        f"{group} abstained on {side.abstained / side.count:.1%} of its requests"
        for group, side in zip(groups, sides, strict=True)
        if side.abstained
    ]
    means = [tallied_mean(side.tally) for side in sides]
    return _difference(NO_ANSWER, groups, [side.count for side in sides], means, notes)
