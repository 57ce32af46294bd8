"""Learning in an app: outcomes are collected on any thread, and the worker fits in slices."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic, time
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

from llmeval_sdk import registry
from llmeval_sdk.config import SCORES, Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.heuristics.risk import groundedness
from llmeval_sdk.model import Evaluation, EvaluationEvent, Record
from llmeval_sdk.pipeline.plan import Hooks
from llmeval_sdk.plugins.learning.fits import (
    FEWEST,
    MAX_GROUPS,
    TEXT,
    FitState,
    FitStates,
    UnusableError,
    advanced,
    chosen,
    parts_of,
    states_of,
    text_of,
)
from llmeval_sdk.plugins.learning.fitting import Score, Slices, Weights, logit_of
from llmeval_sdk.plugins.learning.outcomes import (
    SITE,
    TABLES,
    Known,
    OutcomeCollector,
    Outcomes,
    group_of,
)
from llmeval_sdk.plugins.learning.settings import LearnedSettings
from llmeval_sdk.process.shield import caught, swallow, tell
from llmeval_sdk.store.connection import Inherited
from llmeval_sdk.store.files import Unusable, path_of
from llmeval_sdk.store.labels import read_label
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.state import SharedText, StateFile, state_path


# Reads the labels that the viewer and ``llmeval label`` wrote into the store.

MOST_AT_ONCE = 500


def _new_labels(store: Path, after: int) -> tuple[list[tuple[str, str, float, float]], int]:
    """Return labels that came after the one of that number, and the number of the last one.

    Each is a judge's name, a span id, how bad a person found the record, and the chance that it was
    labelled once it was judged. Where there is no store, or none that can be read, there are none.
    """
    if not store.exists():
        return [], after
    try:
        with StoreReader(store) as reader:
            rows = reader.read(lambda store: _rows(store, after))
    except (ConfigurationError, sqlite3.Error, OSError):
        return [], after
    labels = []
    for _, name, span_id, value, metadata in rows:
        label = read_label(value, metadata)
        if label is not None:
            labels.append((name, span_id, 1 - label.value, label.chance or 1.0))
    return labels, max((row[0] for row in rows), default=after)


def _rows(store: sqlite3.Connection, after: int) -> list[tuple[int, str, str, object, str | None]]:
    return store.execute(_NEW, (after, MOST_AT_ONCE)).fetchall()


_NEW = """
SELECT seq, name, span_id, value, metadata FROM feedback
WHERE seq > ? AND span_id != '' AND error_type IS NULL ORDER BY seq LIMIT ?
"""


# The score that learns, and how learning stands for it by span name.

LEARNS = "groundedness_risk"
"""The score that can learn."""
Weigh = Callable[..., tuple[float, dict[str, Any]]]


def taught(
    heuristic: FunctionHeuristic[Evaluation | None], weigh: Weigh
) -> tuple[FunctionHeuristic[Evaluation | None], Score]:
    """Return the heuristic with ``weigh`` in it, and what `learning.background` knows it by."""
    made_of = crc32(f"{heuristic.version} {' '.join(groundedness.FEATURES)}".encode())
    score = Score(heuristic.name, f"{made_of:08x}", groundedness.FEATURES)

    def evaluate(record: Record) -> Evaluation | None:
        return groundedness.evaluated(
            record,
            lambda language, value, features: weigh(score, language, record, value, features),
        )

    return replace(heuristic, evaluate=evaluate), score


LATEST = 300
"""The latest outcomes, of which the source that gave most is learned from."""
ALL = 1 << 40


def advanced_groups(
    outcomes: Outcomes,
    part: str,
    made_of: tuple[str, int],
    groups: Mapping[str, FitState],
    now: float,
) -> Slices[dict[str, FitState]]:
    """Return the states by span name as far as the outcomes take them; ``""`` stands for all.

    A span name has weights of its own only where they are better than those over all, so its state
    is compared with these.

    Args:
        outcomes: The outcomes of this host.
        part: The score and the language of its records.
        made_of: Which features the score has, and how many.
        groups: The states as they stand.
        now: Seconds since the epoch.
    """
    features, width = made_of
    totals = outcomes.sources(part, features, ALL)
    source = chosen(outcomes.sources(part, features, LATEST), totals)
    states = dict(groups)
    if source is None:
        return states
    counts = {name: count for (of, name), count in totals.items() if of == source}
    able = [name for name, count in counts.items() if name and count >= FEWEST]
    able.sort(key=lambda name: (-counts[name], name))
    own = able[:MAX_GROUPS] if len(counts) > 1 else []
    for name in ("", *own):
        rows = yield from outcomes.of(part, features, source, name or None, width=width)
        over_all = states[""].in_use if name else None
        states[name] = yield from advanced(
            states.get(name) or FitState(),
            source,
            rows,
            now,
            rival=None if over_all is None else over_all.weights,
        )
    rare = [name for name in states if name and name not in own]
    for name in rare[: max(0, len(states) - 1 - MAX_GROUPS)]:
        del states[name]
    return states


SYNC_SECONDS = 30.0
"""How often the files of this host are looked at."""
SYNC_OUTCOMES = 50
"""Outcomes that wait at most before the file gets them."""
FITTED_AFTER = 25
"""New outcomes before it is worth looking whether a fit or a check is due."""

T = TypeVar("T")


class _FitInUse(NamedTuple):
    version: str
    outcomes: int
    weights: Weights


class Learning(Hooks):
    """Re-fits risk scores for one pipeline, together with the other processes of its host.

    Args:
        store: The store's file; what is learned stands beside it.
        names: Whether span names may be kept; without them all records form one group.
        clock: Seconds that only rise.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        store: Path,
        *,
        names: bool = True,
        clock: Callable[[], float] = monotonic,
        now: Callable[[], float] = time,
    ) -> None:
        self._store = store
        self._path = state_path(store)
        self._file = StateFile(self._path, TABLES)
        self._outcomes = Outcomes(self._file)
        self._kept_weights = SharedText(StateFile(self._path, read_only=True), TEXT)
        self._clock, self._now = clock, now
        self._owner = secrets.token_hex(8)
        self._scores: dict[str, Score] = {}
        self._states: FitStates = {}
        self._in_force: dict[str, dict[str, _FitInUse]] = {}
        """Weights by part and span name; replaced whole, since other threads read it."""
        self._names = names
        self._collector = OutcomeCollector(names=names)
        self._last_label = 0
        self._version = 0
        """Of the text of weights that was read last."""
        self._problem = ""
        """Why it could not be read."""
        self._due = 0.0
        self._studied = 0
        self._session: Iterator[None] | None = None
        self._pid = os.getpid()

    @property
    def scores(self) -> tuple[Score, ...]:
        """The scores that learn here."""
        return tuple(self._scores.values())

    # -- scoring, on any thread -------------------------------------------------------------------

    def taught(self, heuristic: Any) -> Any:
        """Return a heuristic that asks this for its weights, if it is one that can learn."""
        shipped: Any = registry.known(LEARNS)
        if heuristic.name != LEARNS or heuristic is not shipped:
            return heuristic
        learned, score = taught(heuristic, self.weigh)
        self._scores[score.name] = score
        return learned

    def weigh(
        self,
        score: Score,
        language: str,
        record: Record,
        shipped: float,
        features: Mapping[str, float],
    ) -> tuple[float, dict[str, Any]]:
        """Return the risk of a record, and what its evaluation says of learned weights.

        Args:
            score: The score.
            language: Which of its models was used; each learns for itself.
            record: The record.
            shipped: Its risk by the shipped weights, 0..1.
            features: What that was made of, by name.
        """
        part = f"{score.name}/{language}"
        vector = tuple([float(features[name]) for name in score.names])
        logit = logit_of(shipped)
        if record.span_id:
            self._collector.scored(record.span_id, Known(part, score.features, logit, vector))
        groups = self._in_force.get(part)
        if not groups:
            return shipped, {}
        known = groups.get(group_of(record.span_name)) or groups.get("")
        if known is None:
            return shipped, {}
        about = {
            "learned": known.version,
            "learned_from": known.outcomes,
            "shipped_risk": round(shipped, 5),
        }
        return known.weights.risk(logit, vector), about

    def judgement_wanted(self, judge: str, record: Record) -> None:
        """Keep the features of a record that a judge is about to see, if it can teach a score."""
        if registry.predictor_of(judge) in self._scores:
            self._collector.admitted(record)

    def emitted(self, item: object) -> None:
        """Take in what a judge or a person said; anything else is no outcome."""
        if type(item) is EvaluationEvent and item.evaluation.evaluator_kind in ("judge", "human"):
            self._collector.collect(item, self._scores)

    # -- studying, in the worker ------------------------------------------------------------------

    def study(self) -> bool:
        """Do a slice of about a millisecond; return whether there is more to do at once."""
        if os.getpid() != self._pid:
            self._begin_anew()
        if self._session is None:
            if self._clock() < self._due and len(self._collector.outcomes) < SYNC_OUTCOMES:
                return False
            self._due = self._clock() + SYNC_SECONDS
            self._session = self._sessions()
        try:
            next(self._session)
        except StopIteration:
            self._session = None
        except Exception as error:
            self._session = None
            if not swallow(SITE, error):
                raise
        return self._session is not None

    def close(self) -> None:
        """Write what was heard and let go of the files; may be called from any thread."""
        if self._collector.outcomes or self._collector.labels:
            self._keep()
        self._file.close()

    def _begin_anew(self) -> None:
        """Leave to the parent of a fork what it heard and began."""
        self._pid, self._owner, self._session = os.getpid(), secrets.token_hex(8), None
        self._collector = OutcomeCollector(names=self._names)

    def _sessions(self) -> Iterator[None]:
        """Read what other processes learned, keep what was heard, and fit where that is due."""
        self._reload()
        yield
        has_outcomes = bool(self._collector.outcomes) or self._file.is_there
        if has_outcomes:
            found, self._last_label = _new_labels(self._store, self._last_label)
            self._collector.labels.extend(found)
            yield
        if self._collector.outcomes or self._collector.labels:
            self._keep()
            yield
        if not has_outcomes:
            return
        newest = self._outcomes.newest()
        if newest - self._studied < FITTED_AFTER:
            return
        if not self._outcomes.lease(self._owner, self._now()):
            return
        try:
            self._studied = newest
            self._reload()
            yield
            yield from self._fit()
        finally:
            self._outcomes.release(self._owner)

    def _keep(self) -> None:
        """Write what was collected; where that fails, it waits for the next time."""
        entries, labels = _taken(self._collector.outcomes), _taken(self._collector.labels)
        try:
            try:
                self._outcomes.add(entries)
            except (OSError, Unusable, Inherited, sqlite3.DatabaseError) as error:
                if isinstance(error, sqlite3.OperationalError):  # busy or full: another time
                    raise
                self._ignore("outcomes", str(error) or type(error).__name__)
                self._file.go_on_in_memory()
                self._outcomes.add(entries)
            self._outcomes.label(labels)
        except BaseException:
            self._collector.outcomes.extendleft(reversed(entries))
            self._collector.labels.extendleft(reversed(labels))
            raise

    def _reload(self) -> None:
        """Take over the weights in the file, if they were replaced since they were last read."""
        try:
            text, version = self._kept_weights.read()
            self._problem = ""
            if version == self._version:
                return
            self._version = version
            parts = parts_of(text)
        except (OSError, sqlite3.Error, Unusable, Inherited) as error:
            if (problem := str(error)) != self._problem:
                self._problem = problem
                reason = "untrusted" if isinstance(error, OSError) else "unreadable"
                self._ignore(reason, problem)
            return
        except UnusableError as error:
            self._ignore(error.reason, str(error))
            return
        finally:
            with suppress(sqlite3.Error):
                self._kept_weights.close()
        states: FitStates = {}
        for part, data in parts.items():
            score = self._scores.get(part.partition("/")[0])
            if score is None:
                continue
            try:
                states[part] = states_of(data, *score.made_of)
            except UnusableError as error:
                self._ignore(error.reason, str(error))
        self._put_in_force(states)

    def _ignore(self, reason: str, words: str) -> None:
        caught.add(f"{SITE}: {reason}")
        tell(f"{SITE}, {reason}", f"what was learned in {self._path.name} is ignored: {words}")

    def _put_in_force(self, states: FitStates) -> None:
        self._states = states
        self._in_force = {
            part: {
                name: _FitInUse(fit.weights.version, fit.outcomes, fit.weights)
                for name, state in groups.items()
                if (fit := state.in_use) is not None
            }
            for part, groups in states.items()
        }

    def _fit(self) -> Slices[None]:
        states = {part: dict(groups) for part, groups in self._states.items()}
        for part, features in self._outcomes.parts():
            score = self._scores.get(part.partition("/")[0])
            if score is not None and score.features == features:
                groups = yield from advanced_groups(
                    self._outcomes, part, score.made_of, states.get(part, {}), self._now()
                )
                if groups:
                    states[part] = groups
        if states == self._states:
            return
        self._put_in_force(states)
        parts = {
            part: (self._scores[part.partition("/")[0]].features, groups)
            for part, groups in states.items()
        }
        SharedText(self._file, TEXT).update(lambda _: (text_of(parts), None))
        with suppress(OSError, sqlite3.Error, Unusable):
            self._version = self._kept_weights.version()


def make(settings: Settings) -> Learning | None:
    """Return what re-fits risk scores beside the store, or ``None`` where it is switched off."""
    if not settings.of(LearnedSettings).learn:
        return None
    names = settings.capture_content != SCORES
    return Learning(path_of(settings.store), names=names)


def _taken(waiting: deque[T]) -> list[T]:
    """Take out what waits; another thread may be doing the same."""
    taken = []
    for _ in range(len(waiting)):
        with suppress(IndexError):
            taken.append(waiting.popleft())
    return taken
