"""What judges and people said of scored records: collected in memory, kept in the file of state.

The outcomes of a host are shared by its processes. They are numbers, ids and span names, and no
text of a record.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from math import isfinite
from typing import NamedTuple

from llmeval_sdk import registry
from llmeval_sdk.model import EvaluationEvent, Record, is_stand_in, values
from llmeval_sdk.plugins.learning.fits import MOST_OUTCOMES, PEOPLE, TEXT, Source
from llmeval_sdk.plugins.learning.fitting import Outcome, Slices
from llmeval_sdk.process.shield import caught
from llmeval_sdk.store.state import Belongings, StateFile, StateTables


MOST_KEPT = 5_000
"""Outcomes that the file keeps of all scores together; the oldest make room."""
LEASE_SECONDS = 120.0
"""How long a process may fit before another one may begin too."""


class Entry(NamedTuple):
    """An outcome on its way into the file."""

    part: str
    """The score and the language of the record."""
    features: str
    """Which features these are; see `learning.Score`."""
    source: Source
    span_id: str
    span_name: str
    bad: float
    chance: float
    logit: float
    vector: tuple[float, ...]


class Outcomes:
    """The outcomes of a host. Using them raises what using a `StateFile` raises."""

    def __init__(self, file: StateFile) -> None:
        self._file = file

    def add(self, entries: Iterable[Entry]) -> None:
        """Add outcomes; of what one source says of a record several times, the last counts."""
        rows = [
            (*entry[:2], *entry.source, *entry[3:8], array("f", entry.vector).tobytes())
            for entry in entries
        ]
        with self._file.changing() as database:
            database.executemany(_ADD, rows)
            database.execute(_PRUNE, (MOST_KEPT,))

    def label(self, spans: Iterable[tuple[str, str, float, float]]) -> None:
        """Add what people said of judged records; of two labels of one record the later counts.

        Each of ``spans`` is a judge's name, a span id, how bad the record is (0..1) and the chance
        that it was labelled once it was judged. Labels of other records are left out, since nobody
        knows their features.
        """
        with self._file.reading() as database:
            for judge, span_id, bad, chance in spans:
                database.execute(_LABEL, (judge, "", PEOPLE, bad, chance, span_id, judge, PEOPLE))

    def lease(self, owner: str, now: float) -> bool:
        """Take the right to fit, which one process has at a time."""
        with self._file.reading() as database:
            return database.execute(_LEASE, (owner, now + LEASE_SECONDS, now, owner)).rowcount == 1

    def release(self, owner: str) -> None:
        """Give the right to fit back."""
        with self._file.reading() as database:
            database.execute("UPDATE fit_lease SET until = 0 WHERE owner = ?", (owner,))

    def newest(self) -> int:
        """Return the number of the newest outcome; 0 without any."""
        with self._file.reading() as database:
            (seq,) = database.execute("SELECT max(seq) FROM outcomes").fetchone()
        return seq or 0

    def sources(self, part: str, features: str, latest: int) -> dict[tuple[Source, str], int]:
        """Count the latest outcomes of a score by source and span name."""
        with self._file.reading() as database:
            rows = database.execute(_SOURCES, (part, features, latest)).fetchall()
        return {(Source(*source), span_name): n for *source, span_name, n in rows}

    def parts(self) -> list[tuple[str, str]]:
        """Return which scores, and of which features, there are outcomes of."""
        with self._file.reading() as database:
            return list(database.execute("SELECT DISTINCT part, features FROM outcomes"))

    def of(
        self, part: str, features: str, source: Source, span_name: str | None, *, width: int
    ) -> Slices[list[Outcome]]:
        """Return the latest outcomes of a source, oldest first, for one span name or for all.

        A row that does not hold ``width`` finite numbers is left out.
        """
        arguments = (part, features, *source, span_name, span_name, MOST_OUTCOMES)
        with self._file.reading() as database:
            rows = database.execute(_OF, arguments).fetchall()
        outcomes = []
        for seq, logit, blob, bad, chance in reversed(rows):
            vector = array("f")
            with suppress(ValueError, TypeError):
                vector.frombytes(blob)
                numbers = (logit, bad, chance, *vector)
                if len(vector) == width and all(map(isfinite, numbers)) and 0 < chance <= 1:
                    outcomes.append(Outcome(seq, logit, tuple(vector), bad, chance))
            if seq % 64 == 0:
                yield
        return outcomes


_SCRIPT = """
-- What risk scores knew of judged records, and what was said of those.
CREATE TABLE outcomes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  part TEXT NOT NULL,
  features TEXT NOT NULL,
  judge TEXT NOT NULL,
  version TEXT NOT NULL,
  model TEXT NOT NULL,
  span_id TEXT NOT NULL,
  span_name TEXT NOT NULL,
  bad REAL NOT NULL,
  chance REAL NOT NULL,
  logit REAL NOT NULL,
  vector BLOB NOT NULL
);
CREATE UNIQUE INDEX outcomes_once ON outcomes (span_id, part, judge, version, model);

-- Which process may fit, and until when.
CREATE TABLE fit_lease (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  owner TEXT NOT NULL,
  until REAL NOT NULL
);
INSERT INTO fit_lease VALUES (1, '', 0);
"""


def _forget(database: sqlite3.Connection, theirs: Belongings) -> int:
    """Delete the verdicts on a user's spans that scores learn from; return how many there were."""
    statement = "DELETE FROM outcomes WHERE span_id = ?"
    return sum(database.execute(statement, (span,)).rowcount for span in theirs.spans)


TABLES = StateTables(
    owner="learning",
    noun="verdict that scores learn from",
    scripts=(_SCRIPT,),
    tables=("outcomes",),
    texts=(TEXT,),
    forget=_forget,
)

_ADD = """
INSERT INTO outcomes
  (part, features, judge, version, model, span_id, span_name, bad, chance, logit, vector)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET bad = excluded.bad, chance = excluded.chance
"""

_LABEL = """
INSERT INTO outcomes
  (part, features, judge, version, model, span_id, span_name, bad, chance, logit, vector)
SELECT part, features, ?, ?, ?, span_id, span_name, ?, chance * ?, logit, vector
FROM outcomes WHERE span_id = ? AND judge = ? AND model != ? ORDER BY seq DESC LIMIT 1
ON CONFLICT DO UPDATE SET bad = excluded.bad, chance = excluded.chance
"""

_PRUNE = "DELETE FROM outcomes WHERE seq <= (SELECT max(seq) FROM outcomes) - ?"

_LEASE = "UPDATE fit_lease SET owner = ?, until = ? WHERE until < ? OR owner = ?"

_SOURCES = """
SELECT judge, version, model, span_name, count(*) FROM (
  SELECT judge, version, model, span_name FROM outcomes
  WHERE part = ? AND features = ? ORDER BY seq DESC LIMIT ?
) GROUP BY judge, version, model, span_name
"""

_OF = """
SELECT seq, logit, vector, bad, chance FROM outcomes
WHERE part = ? AND features = ? AND judge = ? AND version = ? AND model = ?
  AND (? IS NULL OR span_name = ?)
ORDER BY seq DESC LIMIT ?
"""


# What was said, collected on any thread until the worker keeps it.

SITE = "learned weights"
MOST_WAITING, MOST_RECENT, MOST_JUDGED = 1_000, 200, 2_000
"""Outcomes that wait for the worker; scored records and judged records whose features are kept."""


LONGEST_NAME = 200


class Known(NamedTuple):
    """The features of one record, as they were when it was scored."""

    part: str
    """The score and the language, such as ``groundedness_risk/en``: each learns by itself."""
    features: str
    """A fingerprint of the features' names; verdicts on other features are not used."""
    logit: float
    """The logit of the risk that the shipped weights give."""
    vector: tuple[float, ...]
    """The values of the features, in the order of the score's names."""


class OutcomeCollector:
    """Pairs what judges and people say with what a score knew of the record before."""

    def __init__(self, *, names: bool = True) -> None:
        self._names = names
        self.outcomes: deque[Entry] = deque()
        """Outcomes whose features are known, which wait for the worker."""
        self.labels: deque[tuple[str, str, float, float]] = deque()
        """Labels of judged records that wait for the worker. Each has the judge, the span's id,
        how bad the record is (0..1), and the chance that it was labelled."""
        self._recent: dict[str, Known] = {}
        self._judged: dict[str, Known] = {}

    def scored(self, span_id: str, known: Known) -> None:
        """Keep what was known of a record that was just scored."""
        _put(self._recent, span_id, known, MOST_RECENT)

    def admitted(self, record: Record) -> None:
        """Keep what is known of a record that a judge is about to see."""
        known = self._recent.get(record.span_id or "")
        if known is not None and record.span_id:
            _put(self._judged, record.span_id, known, MOST_JUDGED)

    def collect(self, event: EvaluationEvent, scores: Collection[str]) -> None:
        """Take in a verdict or a label if it says whether one of the scores was right."""
        evaluation, span_id = event.evaluation, event.target.span_id
        value = None if evaluation.error is not None else values.number(evaluation.value)
        if (
            registry.predictor_of(evaluation.name) not in scores
            or value is None
            or not 0 <= value <= 1
            or not span_id
        ):
            return
        if evaluation.evaluator_kind == "human":
            self._collect_label(event, span_id, 1 - value)
        elif not (evaluation.metadata.get("cached") or is_stand_in(evaluation)):
            self._collect_verdict(event, span_id, 1 - value)

    def _collect_verdict(self, event: EvaluationEvent, span_id: str, bad: float) -> None:
        known, evaluation = self._judged.get(span_id), event.evaluation
        if known is None or not 0 < evaluation.inclusion_probability <= 1:
            return  # the score did not apply to the record, or nobody knows how it was chosen
        model = str(evaluation.metadata.get("model") or "")
        source = Source(evaluation.name, evaluation.evaluator_version, model)
        self._keep(known, source, event, bad, evaluation.inclusion_probability)

    def _collect_label(self, event: EvaluationEvent, span_id: str, bad: float) -> None:
        """Take in a label. Clicks of the app's users choose themselves, and are none."""
        evaluation = event.evaluation
        if values.is_of_user(evaluation.metadata):
            return
        chance = _chance(evaluation.metadata)
        known = None if span_id in self._judged else self._recent.get(span_id)
        if known is not None:
            source = Source(evaluation.name, "", PEOPLE)
            self._keep(known, source, event, bad, chance)
        elif len(self.labels) < MOST_WAITING:
            self.labels.append((evaluation.name, span_id, bad, chance))

    def _keep(
        self, known: Known, source: Source, event: EvaluationEvent, bad: float, chance: float
    ) -> None:
        if len(self.outcomes) >= MOST_WAITING:
            caught.add(f"{SITE}: too many verdicts wait")
            return
        target = event.target
        group = group_of(target.span_name) if self._names else ""
        about = (known.part, known.features, source, target.span_id or "", group)
        self.outcomes.append(Entry(*about, bad, chance, known.logit, known.vector))


def group_of(span_name: str | None) -> str:
    """Return the group of records that a span name stands for."""
    return (span_name or "")[:LONGEST_NAME]


def _chance(metadata: Mapping[str, object]) -> float:
    """Return with what chance a person was asked; without a word, for certain."""
    chance = metadata.get("inclusion_probability")
    if isinstance(chance, (int, float)) and not isinstance(chance, bool) and 0 < chance <= 1:
        return float(chance)
    return 1.0


def _put(kept: dict[str, Known], span_id: str, known: Known, most: int) -> None:
    kept[span_id] = known
    while len(kept) > most:
        try:
            kept.pop(next(iter(kept)), None)
        except (RuntimeError, StopIteration):  # another thread changed it in between
            return
