"""The judged records of each judge, and what they say about all traffic.

SQL sums up what judges said. The sums are exact, and those of a million verdicts take about a
second: the index ``evaluations_summed`` holds everything that they need, in the order of the
groups. Single verdicts are read only where an estimate needs to know the records.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from math import inf
from typing import NamedTuple, TypeAlias

from llmeval_sdk import registry
from llmeval_sdk.model import DAY_NS, HOUR_NS, values
from llmeval_sdk.statistics.labels import (
    PASS,
    Correction,
    Labelled,
    doubt_about,
    side_of,
    tallied_correction,
)
from llmeval_sdk.statistics.mean import (
    CATEGORIES,
    FEW_FOR_SLOPE,
    NO_CHANCE,
    NO_CONTROL,
    Estimate,
    Seen,
    Tally,
    stands_for,
    tallied_mean,
)
from llmeval_sdk.statistics.reasons import HEURISTICS, NOT_SELECTED, Funnel, funnel
from llmeval_sdk.store._schema import WORD
from llmeval_sdk.store.encode import dumps
from llmeval_sdk.store.frames import LeftOut
from llmeval_sdk.store.labels import Label, labels_of
from llmeval_sdk.store.latest import StoredValue, chance_of, decision_probabilities
from llmeval_sdk.store.reader import StoreReader, names_in
from llmeval_sdk.store.scores import (
    CHANCED,
    GROUP,
    EvaluationScope,
    Group,
    NotRunSummary,
    ScoreSummary,
    groups,
    score_summary,
    scores_by_span,
)
from llmeval_sdk.store.selection import frame_of
from llmeval_sdk.store.splits import BY_SLICE, WHOLE, Part, Split


# The sums of one judge, which SQL makes.


@dataclass(slots=True)
class Judged:
    """Sums over the verdicts of one judge, and over the records that it did not judge.

    They are about the spans of one name in one period.
    """

    origin: float = 0.0
    """A number that is subtracted from each verdict in `tally`: sums of large ones stay exact."""
    tally: Tally = field(default_factory=Tally)
    """Sums over the verdicts that are numbers and have an inclusion probability."""
    passed: int = 0
    """The number of verdicts in `tally` that are passes."""
    passed_weight: float = 0.0
    """The sum of the inverses of the inclusion probabilities of the passes."""
    low: float = inf
    high: float = -inf
    """The range of those verdicts."""
    numbers: int = 0
    """The number of verdicts that are numbers, with an inclusion probability or without."""
    total: float = 0.0
    """The sum of all verdicts that are numbers, less `origin` each."""
    is_out_of_scale: bool = False
    """Whether any verdict is outside 0..1."""
    passed_over: int = 0
    """The number of records that were not escalated or not sampled."""
    categories: Counter[str] = field(default_factory=Counter)
    """How often it gave each word that is not a number, including neutral ones such as ``skipped``.
    """
    answered: int = 0
    """The number of judgements without an error, whether or not they are numbers."""
    reasons: Counter[str] = field(default_factory=Counter)
    cost_usd: float | None = None
    versions: set[str] = field(default_factory=set)
    """The versions of the judge that gave these verdicts."""

    @property
    def mean(self) -> float | None:
        """The plain mean of the verdicts that are numbers."""
        return self.total / self.numbers + self.origin if self.numbers else None

    def join(self, other: Judged) -> None:
        """Add what the same judge said in another period or about spans of another name."""
        self.origin = other.origin
        self.tally.join(other.tally)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.is_out_of_scale |= other.is_out_of_scale
        for name in ("passed", "passed_weight", "numbers", "total", "passed_over", "answered"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.categories += other.categories
        self.reasons += other.reasons
        self.versions |= other.versions
        if other.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + other.cost_usd

    def add(self, sums: Sums) -> None:
        """Add verdicts that are numbers, with an inclusion probability each or without."""
        self.numbers += sums.numbers
        self.total += sums.total
        self.is_out_of_scale |= sums.low < 0 or sums.high > 1
        if sums.known:
            self.low, self.high = min(self.low, sums.low), max(self.high, sums.high)
            self.passed += sums.passed
            self.passed_weight += sums.passed_weight
            self.tally.join(
                Tally(
                    count=sums.known, judged=sums.known, heaviest=1 / sums.least_chance,
                    w=sums.w, wy=sums.wy, ww=sums.ww, wwy=sums.wwy, wwyy=sums.wwyy,
                )
            )  # fmt: skip


class Sums(NamedTuple):
    """Sums over some verdicts, as the statements below return them; y is a verdict less the origin.

    The sums after ``known`` are over the verdicts that have an inclusion probability.
    """

    numbers: int
    low: float
    high: float
    total: float
    known: int = 0
    least_chance: float = 1.0
    w: float = 0.0
    ww: float = 0.0
    wy: float = 0.0
    wwy: float = 0.0
    wwyy: float = 0.0
    passed: int = 0
    passed_weight: float = 0.0


Key = tuple[str, str | None, Part]
"""A judge, a span name, and a part of what is divided."""


def groups_by_judge(
    parts: Iterable[Group], by_model: Container[str], *, every_kind: bool = False
) -> dict[str, list[Group]]:
    """Return the groups whose verdicts count, by judge.

    With ``every_kind`` those of heuristics and decisions count as well, except for the evaluators
    in ``by_model`` (see `_judged_by_model`).
    """
    by_judge: dict[str, list[Group]] = {}
    for part in parts:
        if part.evaluator_kind == "judge" or (every_kind and part.name not in by_model):
            by_judge.setdefault(part.name, []).append(part)
    return by_judge


def judged(
    connection: sqlite3.Connection,
    scope: EvaluationScope,
    parts: Sequence[Group],
    *,
    split: Split = WHOLE,
    every_kind: bool = False,
) -> dict[Key, Judged]:
    """Sum up what one judge said, by `Key`.

    Args:
        connection: a store that is open.
        scope: which evaluations; it names the judge.
        parts: the judge's groups, as `groups_by_judge` returns them.
        split: how the verdicts are divided.
        every_kind: whether evaluations that no judge gave are summed up as well.
    """
    summing = _Summing(connection, scope, parts, split, every_kind=every_kind)
    samples = summing.run()
    if any(sample.is_out_of_scale for sample in samples.values()):
        whole = Judged()
        for sample in samples.values():
            whole.join(sample)
        samples = summing.run(whole.mean or 0.0)
    return samples


def _passed_over(
    connection: sqlite3.Connection, scope: EvaluationScope, split: Split
) -> list[tuple[str, str | None, Part, str, int]]:
    """Count the records that judges did not judge: a `Key`, the reason, and how many."""
    return connection.execute(
        f"""
SELECT evaluator, span_name, {split.part}, reason, count(*) FROM not_run
{scope.of_not_run(f"evaluator <> '{HEURISTICS}'")}
GROUP BY evaluator, span_name, reason {split.and_part} ORDER BY min(seq)
""",  # noqa: S608 - constants
        scope._asdict(),
    ).fetchall()


def _judged_by_model(connection: sqlite3.Connection, parts: Iterable[Group]) -> set[str]:
    """Return the evaluators whose decisions do not count as verdicts.

    For these a judge model is considered as well: it answered, or the store says why it did not.
    See `latest.is_verdict`, which decides the same for one record.
    """
    kinds: dict[str, set[str]] = {}
    for part in parts:
        kinds.setdefault(part.name, set()).add(part.evaluator_kind)
    return {
        name
        for name, its in kinds.items()
        if "decision" in its
        and ("judge" in its or connection.execute(_IS_CONSIDERED, (name,)).fetchone())
    }


_IS_CONSIDERED = "SELECT 1 FROM not_run WHERE evaluator = ? LIMIT 1"


_Weight: TypeAlias = tuple[int, float, float, float]
"""The number of verdicts with an inclusion probability, the least inclusion probability, the sum of
the inverses, and the sum of the squares of the inverses."""
_Weights: TypeAlias = dict[tuple[StoredValue, ...], _Weight]
"""By the first six fields of a `Group` of a word."""


class _Summing:
    """Makes samples of what one judge said: words from their groups, scores by statements."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        scope: EvaluationScope,
        parts: Sequence[Group],
        split: Split,
        *,
        every_kind: bool,
    ) -> None:
        self._connection = connection
        self._arguments = scope._asdict()
        self._parts = parts
        self._where = scope.of_evaluations("" if every_kind else "+evaluator_kind = 'judge'")
        self._split = split
        self._every_kind = every_kind
        self._weights = self._read_weights()

    def run(self, origin: float = 0.0) -> dict[Key, Judged]:
        """Sum up all verdicts, less the origin each."""
        by_key: dict[Key, Judged] = {}

        def at(name: str, span_name: str | None, part: Part) -> Judged:
            return by_key.setdefault((name, span_name, part), Judged(origin))

        statements = self._statements(origin)
        for part in self._parts:
            self._add(at(part.name, part.span_name, part.part), part, has_sums=not statements)
        for statement in statements:
            sql = statement(self._where, self._split)
            for row in self._connection.execute(sql, {**self._arguments, "origin": origin}):
                sample = at(*row[:3])
                sums = Sums(*row[5:])
                sample.answered += row[4] if self._every_kind else 0
                if sums.numbers:
                    sample.versions.add(row[3] or "")
                    sample.add(sums)
        return by_key

    def _statements(self, origin: float) -> list[Callable[[str, Split], str]]:
        """Return the statements that sum up all scores; none where their groups have the sums."""
        scores = [part for part in self._parts if part.word is None and part.values]
        usable = all(
            part.known == part.values
            and (part.low or 0.0) >= -LARGEST_SCORE
            and (part.high or 0.0) <= LARGEST_SCORE
            for part in scores
        )
        if not usable:
            return [_scores_sql, _other_scores_sql]
        return [] if not origin and all(part.is_whole for part in scores) else [_scores_sql]

    def _read_weights(self) -> _Weights:
        """Return what the words of a judge weigh; nothing is read where all were judged."""
        if all(part.is_whole for part in self._parts if part.word is not None and part.known):
            return {}
        sql = _weights_sql(self._where, self._split)
        return {row[:6]: row[6:] for row in self._connection.execute(sql, self._arguments)}

    def _add(self, sample: Judged, part: Group, *, has_sums: bool) -> None:
        """Add what a group says by itself: its cost, and its verdicts if they are words.

        With ``has_sums``, its scores are added as well: all of them were sure to be judged.
        """
        if part.cost_usd is not None:
            sample.cost_usd = (sample.cost_usd or 0.0) + part.cost_usd
        count = part.rows - part.errors
        if part.word is None:
            sample.answered += (part.values if has_sums else 0) if self._every_kind else count
            if has_sums and part.values:
                known, total, squares = part.values, part.total, part.squares
                sample.versions.add(part.version or "")
                sample.add(
                    Sums(
                        known, part.low or 0.0, part.high or 0.0, total, known, 1.0, known, known,
                        total, total, squares, part.passed or 0, part.passed or 0,
                    )
                )  # fmt: skip
            return
        sample.answered += count
        number = values.number(part.word)
        if number is None:
            sample.categories[str(part.word)] += count
        elif count:
            y, passes = number - sample.origin, number >= PASS
            sums = Sums(count, number, number, count * y)
            known, least, w, ww = self._weight(part)
            if known:
                sums = Sums(
                    *sums[:4], known, least, w, ww, w * y, ww * y,
                    ww * y * y, known * passes, w * passes,
                )  # fmt: skip
            sample.versions.add(part.version or "")
            sample.add(sums)

    def _weight(self, part: Group) -> _Weight:
        """Return what the words of a group weigh; rows may have gone since the groups were read."""
        known = part.known or 0
        if part.is_whole:
            return known, 1.0, float(known), float(known)
        return self._weights.get(part[:6], (0, 1.0, 0.0, 0.0))


LARGEST_SCORE = 1e100
"""The square of such a score is a number; only a file made by hand holds larger ones."""
_IS_USABLE = f"value BETWEEN {-LARGEST_SCORE} AND {LARGEST_SCORE}"


def _weights_sql(where: str, split: Split) -> str:
    """Sum up the inverses of the chances of verdicts in words, by the groups of `groups`."""
    return f"""
SELECT {GROUP}, {split.part}, {WORD}, count(*), min(inclusion_probability),
  sum(1 / inclusion_probability), sum(1 / (inclusion_probability * inclusion_probability))
FROM evaluations {where} AND {WORD} IS NOT NULL AND error_type IS NULL AND {CHANCED}
GROUP BY {GROUP}, {WORD} {split.and_part}
"""  # noqa: S608 - constants


def _scores_sql(where: str, split: Split) -> str:
    """Sum up the scores that have an inclusion probability: `Key`, version, count and `Sums`."""
    return f"""
SELECT name, span_name, {split.part}, evaluator_version, count(*),
  count(*), min(value), max(value), sum(value - :origin), count(*), min(inclusion_probability),
  sum(1 / inclusion_probability), sum(1 / (inclusion_probability * inclusion_probability)),
  sum((value - :origin) / inclusion_probability),
  sum((value - :origin) / (inclusion_probability * inclusion_probability)),
  sum((value - :origin) * (value - :origin) / (inclusion_probability * inclusion_probability)),
  sum(value >= {PASS}), sum((value >= {PASS}) / inclusion_probability)
FROM evaluations {where} AND error_type IS NULL AND typeof(value) = 'real'
  AND {CHANCED} AND {_IS_USABLE}
GROUP BY {GROUP} {split.and_part}
"""  # noqa: S608 - constants


def _other_scores_sql(where: str, split: Split) -> str:
    """Sum up scores without an inclusion probability, and scores that no estimate can use."""
    return f"""
SELECT name, span_name, {split.part}, evaluator_version, count(*),
  sum({_IS_USABLE}), min(CASE WHEN {_IS_USABLE} THEN value END),
  max(CASE WHEN {_IS_USABLE} THEN value END), sum(CASE WHEN {_IS_USABLE} THEN value - :origin END)
FROM evaluations {where} AND error_type IS NULL AND typeof(value) = 'real'
  AND NOT (ifnull({CHANCED}, 0) AND {_IS_USABLE})
GROUP BY {GROUP} {split.and_part}
"""  # noqa: S608 - constants


# Single verdicts, for estimates that need to know the records.


class Verdict(NamedTuple):
    """A verdict that is a number."""

    judge: str
    span_name: str | None
    time_ns: int
    span_id: str
    value: float
    """The score, with 1 for pass and yes and 0 for fail and no."""
    chance: float
    """Its inclusion probability; 0 stands for an unknown one."""
    part: Part = None
    """The part of what is divided that it is in."""


def verdicts(
    connection: sqlite3.Connection,
    scope: EvaluationScope,
    *,
    every_kind: bool = False,
    spans: Collection[str] | None = None,
    split: Split = WHOLE,
) -> Iterator[Verdict]:
    """Yield the verdicts that are numbers.

    Args:
        connection: a store that is open.
        scope: which evaluations.
        every_kind: whether heuristics count as judges.
        spans: the ids of the spans that they are about; all spans by default.
        split: how they are divided.
    """
    kind = "" if every_kind else "+evaluator_kind = 'judge'"
    if spans is None:
        where = scope.of_evaluations("error_type IS NULL", kind)
    else:
        among = "span_id IN (SELECT value FROM json_each(:spans))"
        where = scope.of_evaluations(among, "error_type IS NULL", kind)
    rows = connection.execute(
        f"""
SELECT name, span_name, time_ns, span_id, value, {chance_of("evaluations")}, {split.part}
FROM evaluations {where}
""",  # noqa: S608 - constants
        {**scope._asdict(), "spans": dumps(list(spans or ()))},
    )
    for name, span_name, time_ns, span_id, value, chance, part in rows:
        number = value if type(value) is float else values.number(value)
        if number is not None:
            yield Verdict(name, span_name, time_ns, span_id, number, chance or 0.0, part)


def usable(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the verdicts of each judge that are numbers and have an inclusion probability."""
    counts: dict[str, int] = {}
    for name, word, times in connection.execute(_USABLE):
        if word is None or values.number(word) is not None:
            counts[name] = counts.get(name, 0) + times
    return counts


def _predicted_sums(
    connection: sqlite3.Connection,
    scope: EvaluationScope,
    scores: Mapping[str, float],
    *,
    split: Split = WHOLE,
    every_kind: bool = False,
    origin: float = 0.0,
) -> dict[Key, Tally]:
    """Sum up the records that have a free score, judged and passed over.

    Args:
        connection: a store that is open.
        scope: which evaluations, and which judgements that did not run.
        scores: the free scores, by span id.
        split: how the records are divided.
        every_kind: whether heuristics count as judges.
        origin: what is subtracted from each verdict, as in `_samples.Judged`.
    """
    tallies: dict[Key, Tally] = defaultdict(Tally)
    for verdict in verdicts(connection, scope, every_kind=every_kind, split=split):
        score = scores.get(verdict.span_id)
        if verdict.chance and score is not None:
            seen = Seen(verdict.value - origin, verdict.chance, score)
            tallies[verdict.judge, verdict.span_name, verdict.part].add(seen)
    reasons = ",".join(f"'{reason}'" for reason in sorted(NOT_SELECTED))
    passed_over = connection.execute(
        f"""
SELECT evaluator, span_name, {split.part}, span_id
FROM not_run {scope.of_not_run(f"reason IN ({reasons})")}
""",  # noqa: S608 - constants
        scope._asdict(),
    )
    of_key: dict[Key, list[float]] = defaultdict(list)
    for name, span_name, part, span_id in passed_over:
        if (score := scores.get(span_id)) is not None:
            of_key[name, span_name, part].append(score)
    for key, xs in of_key.items():
        squares = sum(x * x for x in xs)
        tallies[key].join(Tally(count=len(xs), scored=len(xs), all_x=sum(xs), all_xx=squares))
    return tallies


_USABLE = f"""
SELECT name, {WORD}, count(*) FROM evaluations
WHERE evaluator_kind = 'judge' AND error_type IS NULL AND value IS NOT NULL AND {CHANCED}
GROUP BY {GROUP}, {WORD}
"""  # noqa: S608 - constants

LabelSource: TypeAlias = "str | Mapping[str, Label] | None"
"""The name of the feedback that corrects judges, labels by span id, or none of them."""
NO_PREDICTOR = ""


class SharedReadings:
    """Reads once what several estimates share: sums, and free scores and labels by span.

    Args:
        reader: the store.
        predictor: the free score that predicts the verdicts of every judge; by default each judge
            declares its own. `NO_PREDICTOR` saves the seconds that reading a million takes.
        labels: the name of the feedback that corrects judges, or labels by span id; by default each
            judge is corrected by the feedback under its own name.
    """

    def __init__(
        self, reader: StoreReader, predictor: str | None = None, labels: LabelSource = None
    ) -> None:
        self._reader = reader
        self._predictor = predictor
        self._labels = labels
        self._decided: dict[str, dict[str, float]] = {}
        self._scores: dict[str, dict[str, float]] = {}
        self._groups: dict[tuple[EvaluationScope, Split], list[Group]] = {}
        self._predicted: dict[
            tuple[str, EvaluationScope, Split, bool, float], dict[Key, Tally]
        ] = {}
        self._labelled: dict[str, Mapping[str, Label]] = {}

    def groups(
        self, scope: EvaluationScope, split: Split = WHOLE, *, with_digits: bool = False
    ) -> list[Group]:
        """Return the sums over the evaluations of a scope, which are read once.

        Ask for digits (see `groups`) with the first call, if `summaries` is called later: it makes
        its histograms of them. Without digits it reads the scores again, to the same result.
        """
        key = scope, split
        if key not in self._groups:
            scopes = [scope]
            if scope.evaluator is None:
                names = self._reader.read(lambda c: names_in(c, "evaluations", "name"))
                scopes = [scope._replace(evaluator=name) for name in names]
            reading = partial(groups, split=split, with_digits=with_digits)
            readings = [partial(reading, scope=scope) for scope in scopes]
            found = self._reader.read_at_once(readings)
            self._groups[key] = [part for parts in found for part in parts]
        return self._groups[key]

    def summaries(self, scope: EvaluationScope) -> list[ScoreSummary]:
        """Return a summary for each evaluator and span name of a scope, in their order."""
        by_name: dict[str, list[Group]] = {}
        for part in self.groups(scope):
            by_name.setdefault(part.name, []).append(part)
        readings = [
            partial(score_summary, scope=scope, parts=parts) for _, parts in sorted(by_name.items())
        ]
        return [each for summaries in self._reader.read_at_once(readings) for each in summaries]

    def labels(self, judge: str) -> Mapping[str, Label]:
        """Return what people said of the records of a judge, by span."""
        if isinstance(self._labels, Mapping):
            return self._labels
        name = self._labels or judge
        if name not in self._labelled:
            self._labelled[name] = self._reader.read(lambda c: labels_of(c, name))
        return self._labelled[name]

    def read_ahead(self, not_run: Iterable[NotRunSummary], scope: EvaluationScope) -> None:
        """Have `of` and `predicted_sums` ready for the judges that did not judge every record.

        Another thread may call this, as long as no thread calls these two meanwhile.
        """
        for judge in {each.evaluator for each in not_run if each.reason in NOT_SELECTED}:
            if self.of(judge):
                self.predicted_sums(judge, scope)

    def predicted_sums(
        self,
        judge: str,
        scope: EvaluationScope,
        *,
        split: Split = WHOLE,
        every_kind: bool = False,
        origin: float = 0.0,
    ) -> dict[Key, Tally]:
        """Return sums over the records, judged or not, that have one of the scores from `of`.

        They are read once. `_verdicts.predicted` makes them, and describes the arguments.
        """
        key = judge, scope, split, every_kind, origin
        if key not in self._predicted:
            reading = partial(
                _predicted_sums, scope=scope._replace(evaluator=judge), scores=self.of(judge),
                split=split, every_kind=every_kind, origin=origin,
            )  # fmt: skip
            self._predicted[key] = self._reader.read_apart(reading)
        return self._predicted[key]

    def of(self, judge: str) -> dict[str, float]:
        """Return the scores that say most about a judge's verdicts.

        They are the probabilities of decisions on the same question, where there are any, else the
        free score that the judge declares.
        """
        if self._predictor == NO_PREDICTOR:
            return {}
        if self._predictor is None:
            decisions = self._decided.get(judge)
            if decisions is None:
                reading = partial(decision_probabilities, judge=judge)
                decisions = self._decided[judge] = self._reader.read_apart(reading)
            if decisions:
                return decisions
        name = self._predictor or registry.predictor_of(judge)
        if name is None:
            return {}
        if name not in self._scores:
            self._scores[name] = self._reader.read_apart(lambda c: scores_by_span(c, name))
        return self._scores[name]


PERIODS = {"hour": HOUR_NS, "day": DAY_NS}


# From sums, free scores and labels to estimates.

ScopeFields: TypeAlias = tuple[int | None, int | None, str | None, str | None]
"""An `EvaluationScope`, or its fields in their order."""


@dataclass(frozen=True, slots=True)
class Population:
    """The estimate of one judge over the spans of one name, judged and not judged."""

    judge: str
    span_name: str | None
    period_ns: int | None
    """When its period began; ``None`` where the split is not by period."""
    funnel: Funnel
    mean: float | None
    """Plain mean of what was judged; pass and yes count 1, fail and no count 0. ``None`` where a
    judge answers in other words."""
    estimate: Estimate | None
    """Mean over all traffic; ``None`` where it cannot be said, and ``note`` says why."""
    note: str
    cost_usd: float | None
    categories: Mapping[str, int]
    """How often it answered each word that is no number, most frequent first."""
    correction: Correction | None = None
    """The mean that people would give, where enough of the judged records have labels."""
    labels: int = 0
    """Judged records that people labelled."""
    doubt: str = ""
    """A sentence that says why the labels look odd; empty where they do not."""
    group: str | None = None
    """Its group of requests; ``None`` where the split is by no group, and for those in none."""
    left_out: LeftOut = field(default_factory=LeftOut)
    """The labels that do not count, because they were drawn from a part of the traffic."""


def populations(
    reader: StoreReader,
    scope: ScopeFields,
    scores: SharedReadings | None = None,
    split: Split = WHOLE,
) -> list[Population]:
    """Estimate for every judge and span name, and for every part where a split makes several."""
    return _estimated(reader, EvaluationScope(*scope), scores, split)


def overall(
    reader: StoreReader, scope: ScopeFields, scores: SharedReadings | None, evaluator: str
) -> Population:
    """Estimate for one evaluator over the spans of all names."""
    mine = EvaluationScope(*scope)._replace(evaluator=evaluator)
    whole = _estimated(reader, mine, scores, all_names=True)
    return whole[0] if whole else _population((evaluator, None, None), Judged(), None, [])


def by_group(
    reader: StoreReader, scope: ScopeFields, scores: SharedReadings | None
) -> list[Population]:
    """Estimate for each evaluator, heuristics included, by the groups of the reader's selection."""
    return _estimated(reader, EvaluationScope(*scope), scores, BY_SLICE, all_names=True)


def over_time(
    reader: StoreReader,
    scope: ScopeFields,
    scores: SharedReadings | None,
    evaluator: str,
    split: Split,
) -> list[Population]:
    """Estimate for one evaluator over the spans of all names, part by part."""
    mine = EvaluationScope(*scope)._replace(evaluator=evaluator)
    return _estimated(reader, mine, scores, split, all_names=True)


def _estimated(
    reader: StoreReader,
    scope: EvaluationScope,
    scores: SharedReadings | None,
    split: Split = WHOLE,
    *,
    all_names: bool = False,
) -> list[Population]:
    """Estimate for each judge and part; with ``all_names`` for the spans of all names together.

    Then heuristics are estimated as well as judges.
    """
    scores = scores or SharedReadings(reader)

    def place(key: Key) -> Key:
        return (key[0], None, key[2]) if all_names else key

    def judged_among(
        spans: Collection[str], scope: EvaluationScope, *, every_kind: bool
    ) -> list[Verdict]:
        reading = partial(verdicts, scope=scope, every_kind=every_kind, spans=spans, split=split)
        return reader.read(lambda c: [row for row in reading(c) if row.chance])

    samples: dict[Key, Judged] = {}
    with reader.beside(partial(_passed_over, scope=scope, split=split)) as passed_over:
        parts = scores.groups(scope, split)
        by_model = reader.read(lambda c: _judged_by_model(c, parts))
        sums = _sums(reader, scope, parts, by_model, split=split, every_kind=all_names)
    _add_passed_over(sums, passed_over.result())
    for key, sample in sums.items():
        samples.setdefault(place(key), Judged()).join(sample)
    known: dict[Key, Tally] = {}
    people: dict[Key, list[Labelled]] = {}
    left_out: dict[Key, LeftOut] = {}
    frames = cache(partial(frame_of, reader.selection, scope.since))
    for judge in {key[0] for key in samples}:
        mine = {key: sample for key, sample in samples.items() if key[0] == judge}
        narrow = scope._replace(evaluator=judge)
        all_kinds = all_names and judge not in by_model
        if any(map(_can_be_assisted, mine.values())) and scores.of(judge):
            tallies = scores.predicted_sums(
                judge, scope, split=split, every_kind=all_kinds,
                origin=next(iter(mine.values())).origin,
            )  # fmt: skip
            for key, tally in tallies.items():
                known.setdefault(place(key), Tally()).join(tally)
        labels = scores.labels(judge)
        if labels and any(sample.tally.judged for sample in mine.values()):
            for row in judged_among(labels, narrow, every_kind=all_kinds):
                label, key = labels[row.span_id], place((judge, row.span_name, row.part))
                if label.frame.covers(frames(row.part)):
                    record = Labelled(row.value, label.value, row.chance, label.chance)
                    people.setdefault(key, []).append(record)
                else:
                    left_out.setdefault(key, LeftOut()).add(label.frame)
    return [
        _population(key, sample, known.get(key), people.get(key, []), left_out.get(key))
        for key, sample in sorted(samples.items(), key=_order)
    ]


def _sums(
    reader: StoreReader,
    scope: EvaluationScope,
    parts: Sequence[Group],
    by_model: Container[str],
    *,
    split: Split,
    every_kind: bool,
) -> dict[Key, Judged]:
    """Sum up what each judge said."""
    readings = [
        partial(
            judged, scope=scope._replace(evaluator=name), parts=its, split=split,
            every_kind=every_kind and name not in by_model,
        )
        for name, its in groups_by_judge(parts, by_model, every_kind=every_kind).items()
    ]  # fmt: skip
    return {key: of for samples in reader.read_at_once(readings) for key, of in samples.items()}


def _add_passed_over(
    samples: dict[Key, Judged], passed_over: Iterable[tuple[str, str | None, Part, str, int]]
) -> None:
    """Add to the samples of all judges how many records they did not judge, and why."""
    origins = {key[0]: sample.origin for key, sample in samples.items()}
    for judge, span_name, part, reason, count in passed_over:
        none = Judged(origins.get(judge, 0.0))
        sample = samples.setdefault((judge, span_name, part), none)
        sample.reasons[reason] += count
        sample.passed_over += count if reason in NOT_SELECTED else 0


def _order(item: tuple[Key, Judged]) -> tuple[str, str, int, str]:
    judge, span_name, part = item[0]
    return judge, span_name or "", part if isinstance(part, int) else 0, str(part or "")


def _can_be_assisted(sample: Judged) -> bool:
    """Say whether a free score can narrow an estimate: some records were judged and some not."""
    return bool(
        sample.passed_over and sample.tally.judged and sample.tally.effective >= FEW_FOR_SLOPE
    )


def _population(
    key: Key,
    sample: Judged,
    scored: Tally | None,
    labelled: Sequence[Labelled],
    left_out: LeftOut | None = None,
) -> Population:
    steps = funnel(sample.answered, sample.reasons)
    estimate, note = _estimate(steps, sample, scored)
    correction = None
    if labelled and estimate is not None and not sample.is_out_of_scale:
        correction = tallied_correction(
            sample.tally, sample.passed_weight, sample.passed, labelled, mean=estimate.mean
        )
    pairs = [(side_of(each.label), side_of(each.verdict)) for each in labelled]
    doubt = doubt_about(pairs) if pairs else ""
    judge, span_name, part = key
    return Population(
        judge,
        span_name,
        part if isinstance(part, int) else None,
        steps,
        None if _names_categories(sample) else sample.mean,
        estimate,
        note,
        sample.cost_usd,
        dict(sample.categories.most_common()),
        correction,
        len(labelled),
        doubt,
        part if isinstance(part, str) else None,
        left_out or LeftOut(),
    )


def _names_categories(sample: Judged) -> bool:
    """Say whether a judge gave a word that neither is a number nor neutral: then no mean is one."""
    return any(not values.is_neutral(word) for word in sample.categories)


def _estimate(steps: Funnel, sample: Judged, scored: Tally | None) -> tuple[Estimate | None, str]:
    """Return the estimate and what to know about it, or no estimate and why there is none."""
    tally = sample.tally
    if _names_categories(sample):
        return None, CATEGORIES
    if not sample.numbers:
        return None, _nothing(sample, steps)
    if not tally.judged:
        return None, NO_CHANCE
    if sample.passed_over and not _stands_for_all(tally, steps):
        return None, NO_CONTROL
    if scored is not None and scored.scored:
        tally = tally.with_scores(scored, sample.passed_over)
    bounds = (0.0, 1.0) if sample.low >= 0 and sample.high <= 1 else None
    estimate = tallied_mean(tally, bounds=bounds, origin=sample.origin)
    return estimate, _note(sample.numbers - tally.judged, steps, sample.versions)


def _nothing(sample: Judged, steps: Funnel) -> str:
    """Say why there is no number although a judge may have answered."""
    if sample.answered:
        return "no answer applies: each is neutral, such as skipped or abstained"
    return "nothing was judged" if steps.eligible else "nothing could be judged"


def _stands_for_all(tally: Tally, steps: Funnel) -> bool:
    """Say whether the judged records can stand for all eligible ones.

    Records that could have been judged only if no judgement had been lost are not expected in it.
    """
    expected = steps.eligible * tally.judged / steps.selected
    return stands_for(tally.w, tally.ww - tally.w, expected)


def _note(unknown: int, steps: Funnel, versions: set[str]) -> str:
    notes = []
    if len(versions) > 1:
        notes.append(
            f"{len(versions)} versions of it answered ({', '.join(sorted(versions)[:4])}): one mean"
            " over both says nothing of either; choose a period by --since"
        )
    if unknown:
        notes.append(f"{unknown:,} judgements without an inclusion probability are left out")
    if lost := steps.selected - steps.scored:
        notes.append(f"{lost:,} selected records were not scored and are taken to be like the rest")
    return "; ".join(notes)
