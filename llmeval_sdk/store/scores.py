"""What several estimates need from a store, each read once and side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from sqlite3 import Connection
from typing import Any, TypeAlias, TypeVar

from llmeval_sdk import registry
from llmeval_sdk.statistics.funnels import NOT_SELECTED
from llmeval_sdk.statistics.mean import Tally
from llmeval_sdk.store._samples import Key
from llmeval_sdk.store._verdicts import predicted, scores_by_span
from llmeval_sdk.store.effective import decided
from llmeval_sdk.store.groups import EvaluationScope, Group, groups
from llmeval_sdk.store.labels import Label, labels_of
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.summary import NotRunSummary, ScoreSummary, score_summary
from llmeval_sdk.store.views import names_in


_T = TypeVar("_T")

LabelSource: TypeAlias = "str | Mapping[str, Label] | None"
"""The name of the feedback that corrects judges, labels by span id, or none of them."""


class Scores:
    """What several estimates need, each read once: sums, and free scores and labels by span.

    Args:
        reader: the store.
        predictor: the free score that predicts the verdicts of every judge; by default each judge
            declares its own.
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
        self._groups: dict[tuple[EvaluationScope, int], list[Group]] = {}
        self._predicted: dict[tuple[Any, ...], dict[Key, Tally]] = {}
        self._labelled: dict[str, Mapping[str, Label]] = {}

    def groups(
        self, scope: EvaluationScope, period_ns: int = 0, *, with_digits: bool = False
    ) -> list[Group]:
        """Return the sums over the evaluations of a scope, which are read once.

        Ask for digits (see `groups`) with the first call, if `summaries` is called later: it makes
        its histograms of them. Without digits it reads the scores again, to the same result.
        """
        key = scope, period_ns
        if key not in self._groups:
            scopes = [scope]
            if scope.evaluator is None:
                names = self._reader.read(lambda c: names_in(c, "evaluations", "name"))
                scopes = [scope._replace(evaluator=name) for name in names]
            reading = partial(groups, period_ns=period_ns, with_digits=with_digits)
            readings = [partial(reading, scope=scope) for scope in scopes]
            found = read_at_once(self._reader, readings)
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
        return [each for summaries in read_at_once(self._reader, readings) for each in summaries]

    def labels(self, judge: str) -> Mapping[str, Label]:
        """Return what people said of the records of a judge, by span."""
        if isinstance(self._labels, Mapping):
            return self._labels
        name = self._labels or judge
        if name not in self._labelled:
            self._labelled[name] = self._reader.read(lambda c: labels_of(c, name))
        return self._labelled[name]

    def read_ahead(self, not_run: Iterable[NotRunSummary], scope: EvaluationScope) -> None:
        """Have `of` and `predicted` ready for the judges that did not judge every record.

        Another thread may call this, as long as no thread calls these two meanwhile.
        """
        for judge in {each.evaluator for each in not_run if each.reason in NOT_SELECTED}:
            if self.of(judge):
                self.predicted(judge, scope)

    def predicted(
        self,
        judge: str,
        scope: EvaluationScope,
        *,
        period_ns: int = 0,
        every_kind: bool = False,
        origin: float = 0.0,
    ) -> dict[Key, Tally]:
        """Return sums over the records, judged or not, that have one of the scores from `of`.

        They are read once. `_verdicts.predicted` makes them, and describes the arguments.
        """
        key = judge, scope, period_ns, every_kind, origin
        if key not in self._predicted:
            reading = partial(
                predicted, scope=scope._replace(evaluator=judge), scores=self.of(judge),
                period_ns=period_ns, every_kind=every_kind, origin=origin,
            )  # fmt: skip
            self._predicted[key] = self._read(reading)
        return self._predicted[key]

    def of(self, judge: str) -> dict[str, float]:
        """Return the scores that say most about a judge's verdicts.

        They are the probabilities of decisions on the same question, where there are any, else the
        free score that the judge declares.
        """
        if self._predictor is None:
            decisions = self._decided.get(judge)
            if decisions is None:
                decisions = self._decided[judge] = self._read(lambda c: decided(c, judge))
            if decisions:
                return decisions
        name = self._predictor or registry.predictor_of(judge)
        if name is None:
            return {}
        if name not in self._scores:
            self._scores[name] = self._read(lambda c: scores_by_span(c, name))
        return self._scores[name]

    def _read(self, reading: Callable[[Connection], _T]) -> _T:
        with self._reader.another() as other:
            return other.read(reading)


def read_at_once(reader: StoreReader, readings: Sequence[Callable[[Connection], _T]]) -> list[_T]:
    """Do several readings at the same time, each on a connection of its own.

    SQLite leaves Python's lock while it works, so two cores read a large store in half the time.
    """
    if len(readings) < 2:
        return [reader.read(reading) for reading in readings]

    def read(reading: Callable[[Connection], _T]) -> _T:
        with reader.another() as other:
            return other.read(reading)

    with ThreadPoolExecutor(min(len(readings), os.cpu_count() or 2, 4)) as pool:
        return list(pool.map(read, readings))
