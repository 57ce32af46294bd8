"""The traffic that a judge could have judged, by version of the app: a tag, a model, a prompt."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import NamedTuple

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import HOUR_NS, values
from llmeval_sdk.statistics.mean import (
    CATEGORIES,
    NO_CHANCE,
    NO_CONTROL,
    NO_SCALE,
    Seen,
    Tally,
    stands_for,
)
from llmeval_sdk.statistics.reasons import step_of
from llmeval_sdk.statistics.standardised import (
    ALPHA,
    FEWEST,
    Standardised,
    needed,
    standardised_difference,
)
from llmeval_sdk.store.latest import (
    chance_of,
    decider_of,
    decision_probabilities,
    distinct_versions,
    is_newest,
    is_verdict,
    judge_version,
    model_of,
)
from llmeval_sdk.store.reader import TAG_DIMENSION, StoreReader, known_names
from llmeval_sdk.store.traffic import answers_by_version


MAX_VERSIONS = 1_000
"""Values beyond which a tag is no version."""
MAX_LENGTH = 100

Stratum = tuple[str, str]
"""Span name and language, as far as they are known."""


@dataclass(slots=True)
class Version:
    """The requests of one version that one evaluator scored or could have judged."""

    name: str
    first_ns: int = 0
    last_ns: int = 0
    lost: int = 0
    """Judgements that were selected and gave no verdict: failures, the budget, a full queue."""
    without_model: int = 0
    """Requests that nobody judged because no judge model was configured."""
    unweighted: int = 0
    """Verdicts without an inclusion probability, which are not counted."""
    strata: dict[Stratum, Tally] = field(default_factory=dict)

    def add(self, stratum: Stratum, seen: Seen) -> None:
        """Take in one request."""
        tally = self.strata.get(stratum)
        if tally is None:
            tally = self.strata[stratum] = Tally()
        tally.add(seen)

    @property
    def count(self) -> int:
        """How many requests there are."""
        return sum(tally.count for tally in self.strata.values())

    @property
    def judged(self) -> int:
        """How many requests have a verdict."""
        return sum(tally.judged for tally in self.strata.values())

    @property
    def lost_share(self) -> float:
        """The part of the selected judgements, 0..1, that gave no verdict."""
        selected = self.judged + self.lost
        return self.lost / selected if selected else 0.0


@dataclass(slots=True)
class EvaluatorVersions:
    """All versions of one evaluator, and what could not be counted."""

    versions: dict[str, Version] = field(default_factory=dict)
    unnamed: int = 0
    """Requests without the tag, model or prompt."""
    unweighted: int = 0
    """Verdicts without an inclusion probability, of all versions."""
    is_out_of_scale: bool = False
    has_categories: bool = False
    has_judge_changed: bool = False
    """Whether verdicts of earlier versions of the judge are left out."""
    judges: tuple[str, ...] = ()
    """The versions of the judge that answered."""


def dimension(text: str) -> str:
    """Check by what versions are told apart, and return it.

    That is ``tag:NAME``, ``release``, ``model`` or ``prompt``; for anything else
    `ConfigurationError` is raised.
    """
    if text in ("release", "model", "prompt") or TAG_DIMENSION.fullmatch(text):
        return text
    raise ConfigurationError(
        f"{text!r} is nothing to compare by: expected tag:NAME (such as tag:prompt_version),"
        " release, model or prompt"
    )


def collect(
    connection: sqlite3.Connection, evaluator: str, by: str, since_ns: int, until_ns: int
) -> EvaluatorVersions:
    """Collect the verdicts of one evaluator by version of the app.

    ``by`` is what `dimension` returned. If the judge itself has changed, only its latest version
    counts, from the first hour in which no other version of it answered. Raises
    `ConfigurationError` if the app has too many versions.
    """
    collected = EvaluatorVersions()
    since = _one_judge(connection, evaluator, since_ns, until_ns, collected)
    period = {"name": evaluator, "since": since, "until": until_ns, **_parameters(by)}
    about = _predictions(connection, evaluator, since - HOUR_NS, until_ns)
    version_sql = _VERSION[_kind(by)]
    for row in connection.execute(_scored_sql(version_sql), period):
        name, span_id, span_name, time_ns, language, value, chance, is_judge = row
        number = values.number(value)
        if number is None:
            collected.has_categories |= value is not None and not values.is_neutral(value)
        elif is_judge and not chance:
            collected.unweighted += 1
            _version_of(collected, name, time_ns).unweighted += 1
        elif not 0 <= number <= 1:
            collected.is_out_of_scale = True
        else:
            score, spoken = about.get(span_id, (None, None))
            stratum = span_name or "-", str(language or spoken or "-")[:MAX_LENGTH]
            version = _version_of(collected, name, time_ns)
            version.add(stratum, Seen(number, chance or 1.0, score))
    steps: dict[str, str | None] = {}
    for row in connection.execute(_not_run_sql(version_sql), period):
        name, span_id, span_name, time_ns, language, reason = row
        step = steps[reason] if reason in steps else steps.setdefault(reason, step_of(reason))
        if reason == "no_judge_model":
            _version_of(collected, name, time_ns).without_model += 1
        if step in (None, "eligible"):  # it was scored elsewhere, or could not have been
            continue
        score, spoken = about.get(span_id, (None, None))
        stratum = span_name or "-", str(language or spoken or "-")[:MAX_LENGTH]
        version = _version_of(collected, name, time_ns)
        version.lost += step != "selected"
        version.add(stratum, Seen(None, 1.0, score))
    for version in collected.versions.values():
        _without_losses(version)
    return collected


def _collect_answers(
    connection: sqlite3.Connection, by: str, since_ns: int, until_ns: int
) -> tuple[EvaluatorVersions, dict[str, int]]:
    """Collect which requests have no answer, by version of the app, as `collect` does verdicts.

    An answer that got lost counts 1. Also returns on how many requests each version abstained.
    Without any request that lacks an answer there are no versions.
    """
    collected, abstained = EvaluatorVersions(), Counter[str]()
    rows = answers_by_version(connection, _VERSION[_kind(by)], _parameters(by), since_ns, until_ns)
    for name, span_name, time_ns, state in rows:
        version = _version_of(collected, name, time_ns)
        version.add((span_name or "-", "-"), Seen(float(state == "lost"), 1.0, None))
        abstained[version.name] += state == "abstained"
    return collected, abstained


def _predictions(
    connection: sqlite3.Connection, evaluator: str, since_ns: int, until_ns: int
) -> dict[str, tuple[float | None, str | None]]:
    """Return what predicts a verdict, and the language, by span id.

    If there are decisions, their probabilities predict, as in `verdicts_by_hour`; otherwise the
    free score does.
    """
    about: dict[str, tuple[float | None, str | None]] = {}
    predictor = registry.predictor_of(evaluator)
    if predictor is not None:
        period = {"name": predictor, "since": since_ns, "until": until_ns}
        for span_id, value, language in connection.execute(_PREDICTED, period):
            about[span_id] = value, language
    decisions = decision_probabilities(connection, evaluator, since_ns, until_ns)
    if decisions:
        about = {span_id: (None, language) for span_id, (_, language) in about.items()}
        for span_id, probability in decisions.items():
            about[span_id] = probability, about.get(span_id, (None, None))[1]
    return about


def _version_of(collected: EvaluatorVersions, value: object, time_ns: int) -> Version:
    """Return the version that a request belongs to; requests without one are counted separately."""
    if value is None or value == "":
        collected.unnamed += 1
        return Version("")
    name = str(value)[:MAX_LENGTH]
    version = collected.versions.get(name)
    if version is None:
        if len(collected.versions) >= MAX_VERSIONS:
            raise ConfigurationError(
                f"there are more than {MAX_VERSIONS:,} values of it, which are no versions: compare"
                " by something that changes when the app does"
            )
        version = collected.versions[name] = Version(name, time_ns, time_ns)
    version.first_ns = min(version.first_ns, time_ns)
    version.last_ns = max(version.last_ns, time_ns)
    return version


def _without_losses(version: Version) -> None:
    """Let the verdicts of a version stand for its lost judgements as well."""
    if version.lost and version.judged:
        scored = 1 - version.lost_share
        for tally in version.strata.values():
            tally.scale_chances(scored)


def _one_judge(
    connection: sqlite3.Connection,
    evaluator: str,
    since: int,
    until: int,
    collected: EvaluatorVersions,
) -> int:
    """Return the moment from which on only the judge's latest version answered."""
    period = {"name": evaluator, "since": since, "until": until, "hour": HOUR_NS}
    hours: dict[int, set[str]] = {}
    for hour, *version in connection.execute(_JUDGES, period):
        hours.setdefault(hour, set()).add(judge_version(*version))
    known = distinct_versions(set().union(*hours.values()))
    collected.judges = tuple(sorted(known))
    if len(known) < 2:
        return since
    return _last_change(sorted(hours.items()), collected, since)


def _last_change(
    hours: Iterable[tuple[int, set[str]]], collected: EvaluatorVersions, since: int
) -> int:
    current: set[str] = set()
    for hour, answering in hours:
        versions, both = distinct_versions(answering), distinct_versions(current | answering)
        if len(versions) > 1:
            since, current = (hour + 1) * HOUR_NS, set()
        elif current and len(both) == 1:
            current = both
        else:
            since = since if not current and since >= hour * HOUR_NS else hour * HOUR_NS
            current = versions
    collected.has_judge_changed = True
    return since


def _kind(by: str) -> str:
    return by.partition(":")[0]


def _parameters(by: str) -> dict[str, str]:
    return {"path": f'$."{by[4:]}"'} if by.startswith("tag:") else {}


def _tag(path: str) -> str:
    """Return SQL for a tag: the span's own, else that of the trace's root."""
    return f"""coalesce(
  CASE WHEN json_valid(s.tags) THEN json_extract(s.tags, {path}) END,
  (SELECT json_extract(r.tags, {path}) FROM spans r
   WHERE r.trace_id = e.trace_id AND r.parent_id IS NULL AND json_valid(r.tags) LIMIT 1))"""  # noqa: S608


_VERSION = {
    "tag": _tag(":path"),
    "release": f"coalesce({_tag(chr(39) + '$.release' + chr(39))},"
    f" {_tag(chr(39) + '$.version' + chr(39))})",
    "model": """(SELECT group_concat(model_name, ' + ') FROM (
  SELECT DISTINCT model_name FROM spans m WHERE m.trace_id = e.trace_id AND m.kind = 'llm'
  AND m.model_name IS NOT NULL ORDER BY model_name))""",
    "prompt": """(SELECT group_concat(p, ' + ') FROM (
  SELECT DISTINCT trim(ifnull(json_extract(m.prompt, '$.id'), '') || ' '
    || ifnull(json_extract(m.prompt, '$.version'), '')) AS p
  FROM spans m WHERE m.trace_id = e.trace_id AND json_valid(m.prompt) ORDER BY p))""",
}


def _scored_sql(version: str) -> str:
    return f"""
SELECT {version}, e.span_id, e.span_name, e.time_ns,
  CASE WHEN json_valid(s.tags) THEN json_extract(s.tags, '$.language') END,
  e.value, {chance_of("e")}, e.evaluator_kind = 'judge'
FROM evaluations e LEFT JOIN spans s ON s.trace_id = e.trace_id AND s.span_id = e.span_id
WHERE e.name = :name AND e.time_ns >= :since AND e.time_ns < :until AND e.error_type IS NULL
  AND {is_verdict("e")} AND {is_newest("e", ":name")}
"""  # noqa: S608 - constants


def _not_run_sql(version: str) -> str:
    return f"""
SELECT {version}, e.span_id, e.span_name, e.time_ns,
  CASE WHEN json_valid(s.tags) THEN json_extract(s.tags, '$.language') END, e.reason
FROM not_run e LEFT JOIN spans s ON s.trace_id = e.trace_id AND s.span_id = e.span_id
WHERE e.evaluator = :name AND e.time_ns >= :since AND e.time_ns < :until
"""  # noqa: S608 - constants


_PREDICTED = """
SELECT span_id, value, CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.language') END
FROM evaluations
WHERE name = :name AND time_ns >= :since AND time_ns < :until AND typeof(value) = 'real'
"""

_JUDGES = f"""
SELECT DISTINCT time_ns / :hour, evaluator_version, {model_of("evaluations")},
  {decider_of("evaluations")}
FROM evaluations
WHERE name = :name AND time_ns >= :since AND time_ns < :until AND error_type IS NULL
  AND value IS NOT NULL AND {is_verdict("evaluations")}
"""  # noqa: S608 - our own words

# Compares versions of an app, evaluator by evaluator, for the command line and the viewer.

MAX_SHOWN = 10
"""Versions that are compared: those with the most verdicts."""
SHIFT = 0.05
"""A difference between the shares of a kind of requests that is worth a line."""
FIVE_POINTS = 0.05
NO_ANSWER = "no_answer"
"""The name, among the evaluators, of the share of requests whose answer got lost."""
MUCH_LOST = 0.1
"""With this share of lost judgements or more, no difference is ruled out: the lost records may be
unlike the rest, and a difference may hide in them."""


@dataclass(frozen=True, slots=True)
class Shift:
    """A kind of requests of which one version has more than the other."""

    kind: str
    """``span`` or ``language``."""
    name: str
    baseline_share: float
    version_share: float


@dataclass(frozen=True, slots=True)
class VersionDifference:
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
    """The difference on the same mix of requests; ``None`` if it cannot be estimated."""
    needed: int | None = None
    """About how many judged requests, those of both versions added up, it takes to show a
    difference of five points."""
    shifts: tuple[Shift, ...] = ()
    notes: tuple[str, ...] = ()
    baseline_lost: int = 0
    """Judgements of the baseline that were selected and gave no verdict."""
    version_lost: int = 0


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """All evaluators and versions of one look."""

    by: str
    since_ns: int
    compared: tuple[VersionDifference, ...]
    problems: dict[str, str] = field(default_factory=dict)
    """Why nothing can be said, by evaluator."""
    notes: tuple[str, ...] = ()


def compare(  # noqa: C901
    reader: StoreReader,
    by: str,
    *,
    since_ns: int = 0,
    until_ns: int,
    evaluator: str | None = None,
    baseline: str | None = None,
) -> VersionComparison:
    """Compare each version in a store with ``baseline``, which is by default the oldest one.

    The chance that any of the intervals misses its true difference is at most 5 %, however often
    the store is looked at: the 5 % are divided by the number of comparisons (Bonferroni). Raises
    `ConfigurationError` for an evaluator or baseline that is not in the store.
    """
    names = reader.read(known_names)
    judges = list(names.judges)
    if evaluator is not None:
        if evaluator not in (*names.evaluators, NO_ANSWER):
            raise ConfigurationError(f"no evaluator {evaluator!r} has scored anything in the store")
        judges = [] if evaluator == NO_ANSWER else [evaluator]
    problems: dict[str, str] = {}
    notes: list[str] = []
    ready: list[tuple[str, EvaluatorVersions, list[Version]]] = []
    for judge in judges:
        collected = reader.read(lambda c, judge=judge: collect(c, judge, by, since_ns, until_ns))  # type: ignore[misc]
        versions = _judged_versions(collected, baseline)
        problem = _problem(collected, versions, by)
        if problem:
            problems[judge] = problem
        else:
            ready.append((judge, collected, versions))
        notes += _notes(judge, collected, by)
    answers, abstained = reader.read(lambda c: _collect_answers(c, by, since_ns, until_ns))
    versions = _judged_versions(answers, baseline)
    if evaluator in (None, NO_ANSWER) and len(versions) > 1:
        ready.append((NO_ANSWER, answers, versions))
    if (
        baseline is not None
        and judges
        and not any(version.name == baseline for _, _, versions in ready for version in versions)
    ):
        raise ConfigurationError(f"no judged request has {by} {baseline!r}")
    looks = sum(len(versions) - 1 for _, _, versions in ready)
    compared: list[VersionDifference] = []
    for judge, collected, (first, *others) in ready:
        for other in others:
            about = _lost_answers(judge, answers, abstained, (first.name, other.name))
            compared.append(_compared(judge, first, other, ALPHA / looks, about))
        for version in _unjudged_versions(collected)[:MAX_SHOWN]:
            if version.first_ns >= first.first_ns:
                compared.append(_not_compared(judge, first, version))
            else:
                notes.append(f"{judge}, {version.name}: {_why_unjudged(version)}")
    return VersionComparison(by, since_ns, tuple(compared), problems, tuple(notes))


def _judged_versions(collected: EvaluatorVersions, baseline: str | None) -> list[Version]:
    """Return the baseline, followed by the other judged versions from the oldest to the newest."""
    largest = sorted(
        collected.versions.values(), key=lambda version: (-version.judged, version.name)
    )
    kept = [version for version in largest if version.judged]
    kept = [version for version in kept[:MAX_SHOWN] if version.name != baseline]
    kept.sort(key=lambda version: (version.first_ns, version.name))
    first = collected.versions.get(baseline) if baseline is not None else None
    return [first, *kept] if first is not None and first.judged else kept


def _unjudged_versions(collected: EvaluatorVersions) -> list[Version]:
    """Return the versions with traffic but no verdict, starting with the most traffic."""
    unjudged = [version for version in collected.versions.values() if not version.judged]
    return sorted(unjudged, key=lambda version: (-_requests(version), version.name))


def _requests(version: Version) -> int:
    return version.count + version.without_model + version.unweighted


def _problem(collected: EvaluatorVersions, versions: Sequence[Version], by: str) -> str:  # noqa: PLR0911
    if collected.is_out_of_scale:
        return NO_SCALE
    if collected.has_categories:
        return CATEGORIES
    if not versions:
        if collected.unweighted:
            return NO_CHANCE
        if collected.unnamed:
            return f"none of its requests has a {by}"
        return "nothing was judged"
    if len(versions) < 2:
        return f"all its verdicts are of one {by}, {versions[0].name}"
    return ""


def _notes(judge: str, collected: EvaluatorVersions, by: str) -> list[str]:
    notes = []
    if collected.unnamed and collected.versions:
        notes.append(f"{judge}: {collected.unnamed:,} requests without a {by} are left out")
    if collected.unweighted and collected.versions:
        notes.append(
            f"{judge}: {collected.unweighted:,} verdicts without an inclusion probability are left"
            " out"
        )
    if collected.has_judge_changed:
        notes.append(
            f"{judge}: the judge changed ({' and '.join(collected.judges[:4])}), and its versions"
            " are not mixed: only what the latest one said is compared"
        )
    judged = [version for version in collected.versions.values() if version.judged]
    if len(judged) > MAX_SHOWN:
        notes.append(
            f"{judge}: {len(collected.versions):,} versions; the {MAX_SHOWN} with the most"
            " verdicts are compared"
        )
    if len(judged) < 2:  # nothing is compared, so no row says it
        notes += [
            f"{judge}, {version.name}: {_why_unjudged(version)}"
            for version in _unjudged_versions(collected)[:MAX_SHOWN]
        ]
    return notes


def _why_unjudged(version: Version) -> str:
    """Say why a version that has traffic has no verdict."""
    if version.lost:
        return f"no verdict: all {version.lost:,} judgements were lost"
    if version.without_model:
        return f"no verdict: no judge model was configured for {version.without_model:,} requests"
    if version.unweighted:
        return f"{NO_CHANCE.partition(':')[0]} in its {version.unweighted:,} verdicts"
    return f"no verdict: none of its {version.count:,} requests was chosen to be judged"


def _not_compared(judge: str, first: Version, unjudged: Version) -> VersionDifference:
    """Return the row of a version that has traffic and no verdict."""
    return VersionDifference(
        judge, first.name, unjudged.name, _mean(first), None, first.judged, 0, "undecided",
        notes=(_why_unjudged(unjudged),), baseline_lost=first.lost, version_lost=unjudged.lost,
    )  # fmt: skip


class _LostAnswers(NamedTuple):
    """The effect of requests without an answer on a comparison."""

    most: float = 0.0
    """The larger share, 0..1, of requests that a judge could not see for want of an answer."""
    notes: tuple[str, ...] = ()


def _lost_answers(
    judge: str,
    answers: EvaluatorVersions,
    abstained: Mapping[str, int],
    names: Sequence[str],
) -> _LostAnswers:
    """Say of two versions how many requests have no answer, or were abstained from."""
    most, notes = 0.0, []
    for name in names:
        version = answers.versions.get(name)
        if version is None or not version.count:
            continue
        share, declared = _mean(version) or 0.0, abstained.get(name, 0) / version.count
        if judge == NO_ANSWER:
            notes += [f"{name} abstained on {declared:.1%} of its requests"] if declared else []
        elif share:
            most = max(most, share)
            notes.append(f"{share:.1%} of the requests of {name} got no answer: see {NO_ANSWER}")
    return _LostAnswers(most, tuple(notes))


def _compared(
    judge: str,
    first: Version,
    second: Version,
    alpha: float,
    answers: _LostAnswers = _LostAnswers(),  # noqa: B008 - it never changes
) -> VersionDifference:
    means = [_mean(version) for version in (first, second)]
    shifts = (*_shifts("span", 0, first, second), *_shifts("language", 1, first, second))
    notes = [*_losses(first, second), *answers.notes]
    if first.last_ns < second.first_ns or second.last_ns < first.first_ns:
        notes.append(
            "the two did not run at the same time, so the difference holds whatever else changed"
            " between"
        )
    unlike = [version.name for version in (first, second) if not _stands_for_all(version)]
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
    more = None
    if estimate is not None and outcome == "no difference shown":
        judged = first.judged + second.judged
        more = needed(estimate.variance, judged, FIVE_POINTS, alpha)
        if more <= judged:
            more = None
            if answers.most >= FIVE_POINTS:
                notes.append(
                    "with so many requests without an answer, a difference of five points may be"
                    " hidden"
                )
            elif max(first.lost_share, second.lost_share) <= MUCH_LOST:
                notes.append("a difference of five points would have been seen")
            else:
                notes.append(
                    "with so many judgements lost, a difference of five points may be hidden"
                )
    return VersionDifference(
        judge, first.name, second.name, means[0], means[1], first.judged, second.judged, outcome,
        estimate, more, shifts, tuple(notes), first.lost, second.lost,
    )  # fmt: skip


def _losses(*versions: Version) -> list[str]:
    """Say how many judgements of each version were lost."""
    return [
        f"{version.lost_share:.0%} of the judgements of {version.name} were lost ({version.lost:,}"
        f" of {version.judged + version.lost:,}) and are taken to be like the rest"
        for version in versions
        if version.lost
    ]


def _outcome(judge: str, estimate: Standardised) -> str:
    if not estimate.difference.is_clear:
        return "no difference shown"
    return "better" if (estimate.difference.mean > 0) is not values.high_is_bad(judge) else "worse"


def _mean(version: Version) -> float | None:
    whole = Tally()
    for tally in version.strata.values():
        whole.join(tally)
    return whole.mean() if whole.judged else None


def _stands_for_all(version: Version) -> bool:
    """Say whether the judged requests of a version can stand for all of them."""
    weight = sum(tally.w for tally in version.strata.values())
    squares = sum(tally.ww for tally in version.strata.values())
    return stands_for(weight, squares - weight, version.count)


def _shifts(kind: str, place: int, first: Version, second: Version) -> list[Shift]:
    """Return the span names or languages whose shares differ by more than chance and `SHIFT`."""
    shares = []
    for version in (first, second):
        counts: dict[str, int] = {}
        for stratum, tally in version.strata.items():
            counts[stratum[place]] = counts.get(stratum[place], 0) + tally.count
        shares.append({name: count / version.count for name, count in counts.items()})
    shifts = []
    for name in sorted(shares[0].keys() | shares[1].keys()):
        a, b = (side.get(name, 0.0) for side in shares)
        middle = (a * first.count + b * second.count) / (first.count + second.count)
        error = sqrt(middle * (1 - middle) * (1 / first.count + 1 / second.count))
        if abs(b - a) > max(SHIFT, 3 * error):
            shifts.append(Shift(kind, name, a, b))
    shifts.sort(key=lambda shift: -abs(shift.version_share - shift.baseline_share))
    return shifts[:MAX_SHOWN]
