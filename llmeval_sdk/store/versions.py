"""The traffic that a judge could have judged, by version of the app: a tag, a model, a prompt."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from llmeval_sdk import _values, registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.estimates.sequence import Seen
from llmeval_sdk.estimates.steps import step_of
from llmeval_sdk.estimates.tally import Tally
from llmeval_sdk.store.effective import (
    CHANCE,
    DECIDER,
    IS_NEWEST,
    MODEL,
    UNJUDGED,
    decided,
    different,
    version_of,
)
from llmeval_sdk.store.hours import HOUR_NS
from llmeval_sdk.store.unanswered import answers


MAX_VERSIONS = 1_000
"""Values beyond which a tag is no version."""
LONGEST = 100
_TAG = re.compile(r'tag:[^"\\\x00-\x1f]{1,200}')
_RECENT = 2_000

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
        """How many of them have a verdict."""
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
    if text in ("release", "model", "prompt") or _TAG.fullmatch(text):
        return text
    raise ConfigurationError(
        f"{text!r} is nothing to compare by: expected tag:NAME (such as tag:prompt_version),"
        " release, model or prompt"
    )


def dimensions(connection: sqlite3.Connection) -> list[str]:
    """Return the tags, and ``model`` and ``prompt``, that the latest spans of a store have."""
    tags = [name for (name,) in connection.execute(_TAGS, (_RECENT,))]
    model, prompt = connection.execute(_OTHERS, (_RECENT,)).fetchone()
    known_tags = [f"tag:{name}" for name in tags if _TAG.fullmatch(f"tag:{name}")]
    return known_tags + ["model"] * bool(model) + ["prompt"] * bool(prompt)


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
    for row in connection.execute(_SCORED.format(version=version_sql), period):
        name, span_id, span_name, time_ns, language, value, chance, is_judge = row
        number = _values.number(value)
        if number is None:
            collected.has_categories |= value is not None and not _values.is_neutral(value)
        elif is_judge and not chance:
            collected.unweighted += 1
            _version_of(collected, name, time_ns).unweighted += 1
        elif not 0 <= number <= 1:
            collected.is_out_of_scale = True
        else:
            score, spoken = about.get(span_id, (None, None))
            stratum = span_name or "-", str(language or spoken or "-")[:LONGEST]
            version = _version_of(collected, name, time_ns)
            version.add(stratum, Seen(number, chance or 1.0, score))
    steps: dict[str, str | None] = {}
    for row in connection.execute(_NOT_RUN.format(version=version_sql), period):
        name, span_id, span_name, time_ns, language, reason = row
        step = steps[reason] if reason in steps else steps.setdefault(reason, step_of(reason))
        if reason == "no_judge_model":
            _version_of(collected, name, time_ns).without_model += 1
        if step in (None, "eligible"):  # it was scored elsewhere, or could not have been
            continue
        score, spoken = about.get(span_id, (None, None))
        stratum = span_name or "-", str(language or spoken or "-")[:LONGEST]
        version = _version_of(collected, name, time_ns)
        version.lost += step != "selected"
        version.add(stratum, Seen(None, 1.0, score))
    for version in collected.versions.values():
        _without_losses(version)
    return collected


def collect_answers(
    connection: sqlite3.Connection, by: str, since_ns: int, until_ns: int
) -> tuple[EvaluatorVersions, dict[str, int]]:
    """Collect which requests have no answer, by version of the app, as `collect` does verdicts.

    An answer that got lost counts 1. Also returns on how many requests each version abstained.
    Without any request that lacks an answer there are no versions.
    """
    collected, abstained = EvaluatorVersions(), Counter[str]()
    rows = answers(connection, _VERSION[_kind(by)], _parameters(by), since_ns, until_ns)
    for name, span_name, time_ns, state in rows:
        version = _version_of(collected, name, time_ns)
        version.add((span_name or "-", "-"), Seen(float(state == "lost"), 1.0, None))
        abstained[version.name] += state == "abstained"
    return collected, abstained


def _predictions(
    connection: sqlite3.Connection, evaluator: str, since_ns: int, until_ns: int
) -> dict[str, tuple[float | None, str | None]]:
    """Return what predicts a verdict, and the language, by span id.

    If there are decisions, their probabilities predict, as in `hours`; otherwise the free score
    does.
    """
    about: dict[str, tuple[float | None, str | None]] = {}
    predictor = registry.predictor_of(evaluator)
    if predictor is not None:
        period = {"name": predictor, "since": since_ns, "until": until_ns}
        for span_id, value, language in connection.execute(_PREDICTED, period):
            about[span_id] = value, language
    decisions = decided(connection, evaluator, since_ns, until_ns)
    if decisions:
        about = {span_id: (None, language) for span_id, (_, language) in about.items()}
        for span_id, probability in decisions.items():
            about[span_id] = probability, about.get(span_id, (None, None))[1]
    return about


def _version_of(collected: EvaluatorVersions, value: Any, time_ns: int) -> Version:
    """Return the version that a request belongs to; requests without one are counted separately."""
    if value is None or value == "":
        collected.unnamed += 1
        return Version("")
    name = str(value)[:LONGEST]
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
        hours.setdefault(hour, set()).add(version_of(*version))
    known = different(set().union(*hours.values()))
    collected.judges = tuple(sorted(known))
    if len(known) < 2:
        return since
    return _last_change(sorted(hours.items()), collected, since)


def _last_change(
    hours: Iterable[tuple[int, set[str]]], collected: EvaluatorVersions, since: int
) -> int:
    current: set[str] = set()
    for hour, answering in hours:
        versions, both = different(answering), different(current | answering)
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

_SCORED = f"""
SELECT {{version}}, e.span_id, e.span_name, e.time_ns,
  CASE WHEN json_valid(s.tags) THEN json_extract(s.tags, '$.language') END,
  e.value, {CHANCE.format(table="e")}, e.evaluator_kind = 'judge'
FROM evaluations e LEFT JOIN spans s ON s.trace_id = e.trace_id AND s.span_id = e.span_id
WHERE e.name = :name AND e.time_ns >= :since AND e.time_ns < :until AND e.error_type IS NULL
  AND {UNJUDGED.format(table="e")} AND {IS_NEWEST.format(table="e", name=":name")}
"""  # noqa: S608 - constants

_NOT_RUN = """
SELECT {version}, e.span_id, e.span_name, e.time_ns,
  CASE WHEN json_valid(s.tags) THEN json_extract(s.tags, '$.language') END, e.reason
FROM not_run e LEFT JOIN spans s ON s.trace_id = e.trace_id AND s.span_id = e.span_id
WHERE e.evaluator = :name AND e.time_ns >= :since AND e.time_ns < :until
"""

_PREDICTED = """
SELECT span_id, value, CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.language') END
FROM evaluations
WHERE name = :name AND time_ns >= :since AND time_ns < :until AND typeof(value) = 'real'
"""

_JUDGES = f"""
SELECT DISTINCT time_ns / :hour, evaluator_version, {MODEL.format(table="evaluations")},
  {DECIDER.format(table="evaluations")}
FROM evaluations
WHERE name = :name AND time_ns >= :since AND time_ns < :until AND error_type IS NULL
  AND value IS NOT NULL AND {UNJUDGED.format(table="evaluations")}
"""  # noqa: S608 - our own words

_TAGS = """
SELECT DISTINCT t.key
FROM (SELECT tags FROM spans WHERE tags IS NOT NULL ORDER BY seq DESC LIMIT ?) s,
  json_each(CASE WHEN json_valid(s.tags) THEN s.tags ELSE '{}' END) t
WHERE t.key IS NOT NULL ORDER BY t.key LIMIT 100
"""

_OTHERS = """
SELECT max(kind = 'llm' AND model_name IS NOT NULL), max(prompt IS NOT NULL)
FROM (SELECT kind, model_name, prompt FROM spans ORDER BY seq DESC LIMIT ?)
"""
