"""What people said of records: labels that judges and rules are measured by, and users' feedback.

Feedback is a label of a judge where it has the judge's name, or the name in ``report --labels``,
and no user of the app gave it: ``submit_feedback(source="review")``, the viewer and
``llmeval label`` make such labels. A label whose record was drawn with a known chance says so in
its metadata, such as ``{"inclusion_probability": 0.1}``, and if it was drawn from a part of the
traffic, from which (`frames`).

All other feedback, and all with the metadata ``{"source": "user"}``, is the opinion of users of the
app, who may have chosen its name as well as its value. Users decide which answers they rate, so
reports show their feedback and correct no mean with it. A label of one field of an answer has the
field's path in its metadata, as ``field``; it says nothing of the whole answer. Of several opinions
on a span, or on one field of its answer, under one name the latest counts. Feedback on a session
counts each time, because nothing tells which earlier feedback it would replace.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmeval_sdk.errors import DataError
from llmeval_sdk.model import values
from llmeval_sdk.process.reading import read_file
from llmeval_sdk.statistics.detection import caught_at, caught_interval
from llmeval_sdk.store.frames import ALL_TRAFFIC, Frame, frame_in
from llmeval_sdk.store.latest import StoredValue, chance_of, is_verdict
from llmeval_sdk.store.scores import MAX_SCORES, RecentEvaluations
from llmeval_sdk.store.splits import BY_SLICE
from llmeval_sdk.text.terminal import plural, printable


def field_of(f: str) -> str:
    """Return SQL for the field that a row of the table ``feedback`` is about, or NULL."""
    return detail_of(f, values.FIELD)


def detail_of(f: str, key: str) -> str:
    """Return SQL for what the metadata of a row of the table ``feedback`` have for a key."""
    return f"CASE WHEN json_valid({f}.metadata) THEN json_extract({f}.metadata, '$.{key}') END"


@dataclass(frozen=True, slots=True)
class Label:
    """A person's rating of a span, 0..1, and how its record was drawn."""

    value: float
    chance: float | None = None
    """The chance with which it was drawn from its frame; ``None`` where that is unknown."""
    frame: Frame = ALL_TRAFFIC
    """The records that it was drawn from."""


def labels_of(connection: sqlite3.Connection, name: str) -> dict[str, Label]:
    """Return the labels under a name by span; users' clicks are left out."""
    labels: dict[str, Label] = {}
    for span_id, value, metadata in connection.execute(_LABELS, (name,)):
        label = _read_label(value, metadata)
        if label is not None:
            labels[span_id] = label
    return labels


def _read_label(value: object, metadata: str | None) -> Label | None:
    """Read a label of a whole answer from the store.

    Returns ``None`` for a user's click, a label of one field, and what is no label.
    """
    number = values.number(value)
    details = json_object(metadata)
    if is_of_user(metadata) or values.FIELD in details or number is None or not 0 <= number <= 1:
        return None
    return _label(number, details)


def is_of_user(metadata: str | None) -> bool:
    """Say whether feedback that might be a label of a judge comes from a user of the app."""
    return values.is_of_user(json_object(metadata))


def of_people_sql(f: str) -> str:
    """Return SQL for whether a row of the table ``feedback`` comes from no user of the app."""
    return f"ifnull({detail_of(f, values.SOURCE)}, '') != '{values.USER}'"


def labels_from(path: str) -> dict[str, Label]:
    """Read labels from JSON lines such as ``{"span_id": "…", "label": "yes"}``.

    ``inclusion_probability`` may say with what chance the record was chosen, and ``drawn_from``
    from which part of the traffic, as `llmeval label --list --json` prints them. Raises
    `DataError`, which names the line, if a line is not a label.
    """
    labels: dict[str, Label] = {}
    try:
        lines = read_file(path).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = json_object(line)
        value = values.number(row.get("label"))
        span_id = row.get("span_id")
        if not isinstance(span_id, str) or value is None or not 0 <= value <= 1:
            raise DataError(
                f"line {number} of {path} is no label: expected"
                ' {"span_id": "…", "label": "yes"} or a label from 0 to 1'
            )
        labels[span_id] = _label(value, row)
    return labels


def _label(value: float, details: Mapping[str, object]) -> Label:
    return Label(value, _chance(details.get("inclusion_probability")), frame_in(details))


def _chance(value: object) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1:
        return float(value)
    return None


def json_object(text: str | None) -> Mapping[str, object]:
    """Parse a JSON object that may be anything; what is no object gives an empty mapping."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, TypeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


_LABELS = """
SELECT span_id, value, metadata FROM feedback
WHERE name = ? AND span_id != '' AND error_type IS NULL ORDER BY time_ns, seq
"""


# Feedback of any kind, as lists filter by it and pages sum it up.

ANY_NAME = "*"
"""Stands for all names."""
MAX_FEEDBACK = 10_000
"""How much feedback the overview looks at: the latest."""

_THUMB = "thumb"


def is_latest_feedback(f: str) -> str:
    """Return SQL that leaves out feedback which newer feedback under its name has replaced.

    ``f`` is the name by which a statement calls its row of the table ``feedback``.
    """
    return f"""
NOT EXISTS (SELECT 1 FROM feedback o WHERE o.span_id = {f}.span_id AND +o.name = {f}.name
  AND {f}.span_id != '' AND (o.time_ns, o.seq) > ({f}.time_ns, {f}.seq)
  AND {field_of("o")} IS {field_of(f)})
"""  # noqa: S608 - the name of a table


def is_wanted_feedback(f: str) -> str:
    """Return SQL for whether feedback is good, or bad, where one of the two is asked for.

    `add_feedback_function` gives the connection the function that tells them apart.
    """
    return f"ifnull({_THUMB}({f}.value) = :feedback_good, :feedback_good IS NULL)"


HAS_FEEDBACK = f"""
EXISTS (SELECT 1 FROM feedback f WHERE f.span_id = s.span_id AND f.error_type IS NULL
  AND (:feedback = '{ANY_NAME}' OR +f.name = :feedback) AND {is_latest_feedback("f")}
  AND {is_wanted_feedback("f")})
"""  # noqa: S608 - constants


def add_feedback_function(connection: sqlite3.Connection) -> None:
    """Give a connection the SQL function that says which feedback is good."""
    connection.create_function(_THUMB, 1, is_good, deterministic=True)


def is_good(value: object) -> bool | None:
    """Say whether feedback is good, half of its scale or more; ``None`` for what is neither."""
    number = values.number(value)
    return None if number is None or not 0 <= number <= 1 else number >= 0.5


def recent_feedback(
    connection: sqlite3.Connection, name: str, since: int | None
) -> RecentEvaluations:
    """Return the latest feedback under a name since a time in nanoseconds, newest first."""
    arguments = {"name": name, "since": since or 0, "limit": MAX_SCORES + 1}
    rows = connection.execute(_RECENT_FEEDBACK, arguments).fetchall()
    capped = len(rows) > MAX_SCORES
    rows = rows[:MAX_SCORES]
    return RecentEvaluations(
        tuple(row[0] for row in rows), tuple(row[1] for row in rows), 0, capped
    )


@dataclass(frozen=True, slots=True)
class FeedbackInPeriod:
    """The feedback under one name in a period, beside that of the period before."""

    name: str
    count: int
    mean: float | None
    """The mean of the feedback that is a number, with words such as yes and no as 1 and 0."""
    before: float | None
    times: tuple[int, ...]
    values: tuple[StoredValue, ...]

    @property
    def can_be_bad(self) -> bool:
        """Whether any of it counts as good or bad; stars and free text count as neither."""
        return any(is_good(value) is not None for value in self.values)


@dataclass(frozen=True, slots=True)
class PeriodFeedback:
    """The feedback of a period by its names."""

    by_name: tuple[FeedbackInPeriod, ...]
    traces: int
    """The number of traces with feedback."""
    capped: bool
    """Whether earlier feedback of the period was left out."""


def feedback_of_period(
    connection: sqlite3.Connection, since_ns: int, until_ns: int
) -> PeriodFeedback:
    """Sum up the feedback of a period, and of the period of the same length before it."""
    rows = connection.execute(_LATEST_FEEDBACK, (MAX_FEEDBACK + 1,)).fetchall()
    start = 2 * since_ns - until_ns
    reaches_back = len(rows) <= MAX_FEEDBACK or rows[MAX_FEEDBACK][0] < start
    capped = len(rows) > MAX_FEEDBACK and rows[MAX_FEEDBACK][0] >= since_ns
    last: dict[tuple[str, str | int], tuple[int, StoredValue, str]] = {}
    for time_ns, seq, name, span_id, trace_id, value in sorted(rows[:MAX_FEEDBACK]):
        if start <= time_ns < until_ns:
            last[name, span_id or seq] = time_ns, value, trace_id or span_id
    now: dict[str, list[tuple[int, StoredValue]]] = {}
    earlier: dict[str, list[StoredValue]] = {}
    for (name, _), (time_ns, value, _) in last.items():
        if time_ns >= since_ns:
            now.setdefault(name, []).append((time_ns, value))
        elif reaches_back:
            earlier.setdefault(name, []).append(value)
    by_name = []
    for name, feedback in sorted(now.items()):
        times, given = zip(*feedback, strict=True)
        before = _mean_feedback(earlier.get(name, ()))
        by_name.append(
            FeedbackInPeriod(name, len(given), _mean_feedback(given), before, times, given)
        )
    traces = {trace for time_ns, _, trace in last.values() if trace and time_ns >= since_ns}
    return PeriodFeedback(tuple(by_name), len(traces), capped)


def _mean_feedback(given: Sequence[StoredValue]) -> float | None:
    return _mean_of([number for value in given if (number := values.number(value)) is not None])


def _mean_of(numbers: Sequence[float]) -> float | None:
    """Return the mean of some numbers; ``None`` of none.

    Each is divided before they are added up, so that huge ones do not become infinite.
    """
    return sum(number / len(numbers) for number in numbers) if numbers else None


_RECENT_FEEDBACK = f"""
SELECT time_ns, value FROM feedback AS f WHERE name = :name AND time_ns >= :since
  AND error_type IS NULL AND {is_latest_feedback("f")}
ORDER BY time_ns DESC LIMIT :limit
"""  # noqa: S608 - constants

_LATEST_FEEDBACK = """
SELECT time_ns + 0, seq, name, span_id, trace_id, value FROM feedback
WHERE error_type IS NULL ORDER BY seq DESC LIMIT ?
"""


# The feedback of users: how much of the traffic it is about, and what users think of it.

MAX_WORDS = 5
"""The most different words or texts that a report shows under one name."""
MAX_WORD_LENGTH = 60
"""Characters of a text that are shown. Longer texts that begin alike are counted as one."""


@dataclass(frozen=True, slots=True)
class UserFeedback:
    """The feedback that users of the app gave under one name."""

    name: str
    count: int
    """The number of traces that have such feedback."""
    mean: float | None
    """The mean of its numbers, on the scale on which they were given. Yes counts as 1 and no as 0.
    It is ``None`` if there are only words."""
    low: float | None
    """The smallest of the numbers; ``None`` if there are only words."""
    high: float | None
    """The largest of the numbers; ``None`` if there are only words."""
    words: Mapping[str, int]
    """The most frequent words and texts, with how often each was given."""
    other_words: int
    """How often words and texts were given that are not among `words`."""
    share: float
    """The part of all traces that have such feedback, from 0 to 1. Feedback about a session counts
    as one trace."""
    unmatched: int = 0
    """How many traces with such feedback are not in the store, because their ids are unknown or
    they were pruned. They count in the mean and not in the share."""


def user_feedback(
    connection: sqlite3.Connection, judges: set[str], since_ns: int | None = None
) -> list[UserFeedback]:
    """Return the feedback of users by its name: all that is not a label of one of the judges.

    Only the latest feedback on a trace counts. Feedback about a session counts each time.
    """
    by_name: dict[str, dict[str | int, tuple[StoredValue, bool]]] = {}
    for seq, name, span_id, trace_id, value, metadata, matches in connection.execute(
        _ALL_FEEDBACK, (since_ns or 0,)
    ):
        is_label = name in judges or values.FIELD in json_object(metadata)
        if value is not None and (not is_label or is_of_user(metadata)):
            by_name.setdefault(name, {})[trace_id or span_id or seq] = value, bool(matches)
    if not by_name:
        return []
    (traces,) = connection.execute(_TRACE_COUNT, (since_ns or 0,)).fetchone()
    return [
        _summed(name, list(by_trace.values()), traces) for name, by_trace in sorted(by_name.items())
    ]


@dataclass(frozen=True, slots=True)
class GroupFeedback:
    """What people said under one name of the requests of one group."""

    name: str
    group: str | None
    """The group of the reader's selection; ``None`` for requests in none."""
    count: int
    mean: float | None
    """The mean of what is a number, counting good words as 1 and bad ones as 0."""


def feedback_by_group(
    connection: sqlite3.Connection, since_ns: int | None = None
) -> list[GroupFeedback]:
    """Return what people said, by name and group; of each span the latest counts."""
    by_group: dict[tuple[str, str | None], list[StoredValue]] = {}
    for name, group, value in connection.execute(_FEEDBACK_BY_GROUP, (since_ns or 0,)):
        by_group.setdefault((name, group), []).append(value)
    summed = []
    for (name, group), given in sorted(by_group.items(), key=lambda item: str(item[0])):
        numbers = [number for one in given if (number := values.number(one)) is not None]
        mean = sum(numbers) / len(numbers) if numbers else None
        summed.append(GroupFeedback(name, group, len(given), mean))
    return summed


def _summed(name: str, given: Sequence[tuple[StoredValue, bool]], traces: int) -> UserFeedback:
    """Sum up the feedback under one name, given as values and whether the store has their trace."""
    matched = sum(matches for _, matches in given)
    numbers, words = [], Counter[str]()
    for value, _ in given:
        number = values.number(value)
        if number is not None:
            numbers.append(number)
        else:
            words[printable(value, MAX_WORD_LENGTH)] += 1
    commonest = dict(words.most_common(MAX_WORDS))
    return UserFeedback(
        name,
        len(given),
        _mean_of(numbers),
        min(numbers, default=None),
        max(numbers, default=None),
        commonest,
        words.total() - sum(commonest.values()),
        matched / max(traces, matched, 1),
        len(given) - matched,
    )


def extent_of(feedback: UserFeedback) -> str:
    """Say how much of the traffic has such feedback: ``3 traces, 1.2% of all``."""
    unknown = f" ({feedback.unmatched:,} not in this store)" if feedback.unmatched else ""
    return f"{plural(feedback.count, 'trace')}{unknown}, {feedback.share:.1%} of all"


def describe_feedback(feedback: UserFeedback) -> str:
    """Describe what users think: ``mean 3.80 (from 1 to 5)`` or ``"polite" 8, "rude" 4``."""
    parts = []
    if feedback.mean is not None and feedback.low is not None and feedback.high is not None:
        is_share = feedback.low >= 0 and feedback.high <= 1
        scale = "" if is_share else f" (from {feedback.low:g} to {feedback.high:g})"
        parts.append(f"mean {feedback.mean:.2f}{scale}")
    parts += [f"{json.dumps(word, ensure_ascii=False)} {n:,}" for word, n in feedback.words.items()]
    if feedback.other_words:
        parts.append(f"{feedback.other_words:,} others")
    return ", ".join(parts)


_FEEDBACK_BY_GROUP = f"""
SELECT name, {BY_SLICE.part}, value FROM feedback
WHERE error_type IS NULL AND value IS NOT NULL AND time_ns >= ? AND {is_latest_feedback("feedback")}
ORDER BY seq
"""  # noqa: S608 - constants
_ALL_FEEDBACK = """
SELECT seq, name, span_id, trace_id, value, metadata, ifnull(trace_id, '') = '' AND span_id = ''
    OR EXISTS (SELECT 1 FROM spans WHERE spans.span_id = feedback.span_id)
    OR EXISTS (SELECT 1 FROM spans WHERE spans.trace_id = feedback.trace_id)
FROM feedback WHERE time_ns >= ? AND error_type IS NULL ORDER BY time_ns, seq
"""

_TRACE_COUNT = "SELECT count(*) FROM spans WHERE parent_id IS NULL AND start_ns >= ?"


# The escalation rules, measured by labels: how many wrong extractions each rule would find.

EXTRACTION_JUDGE = "extraction_correctness"
FEWEST_CHECKED, FEWEST_WRONG = 20, 3
"""From how many checked records, and wrong ones among them, a comparison says anything."""
MAX_CHECKED = 50_000
"""Checked records that are read."""
RISKIEST_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class RuleComparison:
    """The rule by documents beside `extraction_risk`; all but the counts are in 0..1."""

    checked: int
    """The number of extractions with a person's label, or otherwise with a verdict of
    ``extraction_correctness``."""
    labelled: int
    """The number of extractions with a label of a person."""
    wrong: int
    plain_share: float | None = None
    """The part of the traffic that the rule asks about: recall is below its bound, or a limit was
    hit."""
    plain_caught: float | None = None
    """Part of the wrong extractions among them."""
    risk_caught: float | None = None
    """The part of the wrong extractions among as many records, those with the highest
    `extraction_risk`."""
    share: float = RISKIEST_SHARE
    share_caught: float | None = None
    """The part of the wrong extractions among the riskiest ``share``."""
    plain_interval: tuple[float, float] | None = None
    """The 95 % interval of ``plain_caught``, which few wrong extractions leave wide."""
    risk_interval: tuple[float, float] | None = None
    share_interval: tuple[float, float] | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is enough to compare."""
        return self.share_caught is not None


def compare_rules(
    connection: sqlite3.Connection, threshold: float, since_ns: int | None = None
) -> RuleComparison:
    """Compare the two rules on what was checked since a moment.

    ``threshold`` is the recall below which the rule by documents asks. A verdict stands for the
    traffic from which its record was chosen.
    """
    flagged: list[bool] = []
    risks: list[float] = []
    wrong: list[bool] = []
    weights: list[float] = []
    labelled = 0
    rows = connection.execute(
        _CHECKED, (since_ns or 0, EXTRACTION_JUDGE, since_ns or 0, MAX_CHECKED)
    )
    for label, verdict, chance, risk, recall, warning in rows:
        person = values.number(label)
        labelled += person is not None
        good = values.number(verdict) if person is None else person
        score = values.number(risk)
        if good is None or score is None:
            continue
        low = isinstance(recall, (int, float)) and recall < threshold
        flagged.append(low or warning == "HIT_RETRIEVAL_LIMIT")
        risks.append(score)
        wrong.append(good < 0.5)
        weights.append(1.0 if person is not None or not chance else 1 / chance)
    bad = sum(wrong)
    if len(wrong) < FEWEST_CHECKED or bad < FEWEST_WRONG:
        return RuleComparison(len(wrong), labelled, bad)
    plain = [float(is_flagged) for is_flagged in flagged]
    share = sum(w for w, is_flagged in zip(weights, flagged, strict=True) if is_flagged)
    share /= sum(weights)
    caught = [
        caught_at(part, scores, wrong, weights)
        for part, scores in ((share, plain), (share, risks), (RISKIEST_SHARE, risks))
    ]
    by_rule, by_risk, by_share = caught
    intervals = (caught_interval(each, wrong, weights) for each in caught)
    return RuleComparison(
        len(wrong), labelled, bad, share, by_rule, by_risk, RISKIEST_SHARE, by_share, *intervals
    )


def describe_rules(rules: RuleComparison) -> str:
    """Return the comparison as one line, for `llmeval doctor`."""
    if not rules.is_known:
        return f"{rules.checked} extractions were checked so far: too few to compare the rules"
    return (
        f"of {rules.wrong} wrong extractions, the recall rule would catch"
        f" {_share(rules.plain_caught, rules.plain_interval)} by judging"
        f" {rules.plain_share or 0:.0%}; extraction_risk"
        f" {_share(rules.risk_caught, rules.risk_interval)} by judging as many,"
        f" {_share(rules.share_caught, rules.share_interval)} by judging {rules.share:.0%}"
        " (LLMEVAL_JUDGE_SHARE)"
    )


def _share(caught: float | None, interval: tuple[float, float] | None) -> str:
    surely = f" (95 % interval {percents(interval)})" if interval else ""
    return f"{caught or 0:.0%}{surely}"


def percents(interval: tuple[float, float]) -> str:
    """Return an interval within 0..1 as whole percent: ``12% to 31%``."""
    return f"{interval[0]:.0%} to {interval[1]:.0%}"


_IS_LABEL = f"""
f.name = '{EXTRACTION_JUDGE}' AND f.span_id != '' AND f.error_type IS NULL
  AND {field_of("f")} IS NULL AND {of_people_sql("f")}
"""
_CHECKED = f"""
WITH checked AS (
  SELECT span_id, max(value) AS label, NULL AS verdict, NULL AS chance
  FROM feedback AS f WHERE {_IS_LABEL} AND time_ns >= ? GROUP BY span_id
  UNION ALL
  SELECT span_id, NULL, value, {chance_of("evaluations")}
  FROM evaluations
  WHERE name = ? AND time_ns >= ? AND error_type IS NULL AND span_id != ''
    AND {is_verdict("evaluations")}
    AND span_id NOT IN (SELECT span_id FROM feedback AS f WHERE {_IS_LABEL})
  LIMIT ?
)
SELECT checked.label, checked.verdict, checked.chance, risk.value, recall.value, warning.value
FROM checked
JOIN evaluations AS risk
  ON risk.span_id = checked.span_id AND risk.name = 'extraction_risk'
LEFT JOIN evaluations AS recall
  ON recall.span_id = checked.span_id AND recall.name = 'context_recall_heuristic'
LEFT JOIN evaluations AS warning
  ON warning.span_id = checked.span_id AND warning.name = 'recall_warning'
"""  # noqa: S608 - constants
