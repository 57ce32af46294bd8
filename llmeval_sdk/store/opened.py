"""`open_store`: what a store knows of the requests that a filter selects, in Python."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence

from llmeval_sdk import config
from llmeval_sdk.store.dump import DumpScope, StoredSpan, dump
from llmeval_sdk.store.files import path_of
from llmeval_sdk.store.filters import read_time
from llmeval_sdk.store.populations import (
    NO_PREDICTOR,
    Population,
    SharedReadings,
    by_group,
    populations,
)
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import EvaluationScope, ScoreSummary
from llmeval_sdk.store.selection import BETWEEN, may_lack, selection_of
from llmeval_sdk.store.span_lists import ListedSpan, Query, listed_spans
from llmeval_sdk.store.traffic import BY_SELECTION, Traffic, TrafficScope, traffic


class OpenStore:
    """Answers questions about a store; made by `open_store`, and used in a ``with`` block.

    Every answer is about the requests that were selected, and about evaluations and spans since the
    time that was given. Groups are named as in ``llmeval report``; of two groupings, the values
    are joined by `BETWEEN`.

    Args:
        reader: The store, and the requests that were selected.
        since_ns: The time from which on evaluations and spans count, in nanoseconds since the
            epoch; ``None`` counts all of them.
    """

    BETWEEN = BETWEEN
    """The character between the two values of a group: ``group.split(OpenStore.BETWEEN)``."""

    def __init__(self, reader: StoreReader, since_ns: int | None) -> None:
        self._reader = reader
        self._since = since_ns
        self._is_grouped = bool(reader.selection is not None and reader.selection.by)

    def traces(self, limit: int = 20) -> list[ListedSpan]:
        """Return the first spans of the newest requests, at most ``limit``."""
        return listed_spans(self._reader, Query(since=self._since), limit)

    def spans(self) -> Iterator[StoredSpan]:
        """Yield every span, in the order of arrival, with all that was said of it."""
        return dump(self._reader, DumpScope(self._since))

    def scores(self, evaluator: str | None = None) -> list[ScoreSummary]:
        """Return counts, means and distributions by evaluator and span name."""
        return SharedReadings(self._reader).summaries(self._scope(evaluator))

    def estimates(self, evaluator: str | None = None) -> list[Population]:
        """Return the judges' means over all traffic, with their 95 % intervals.

        They are by judge and span name; where the store was opened with groupings, by evaluator
        and group, heuristics included.
        """
        scope = self._scope(evaluator)
        if self._is_grouped:
            return by_group(self._reader, scope, SharedReadings(self._reader, NO_PREDICTOR))
        return populations(self._reader, scope)

    def traffic(self) -> Traffic:
        """Return latencies, failures, tokens and cost, by span name or by group."""
        by = BY_SELECTION if self._is_grouped else "name"
        scope = TrafficScope(self._since)
        return self._reader.read(lambda connection: traffic(connection, scope, by))

    def _scope(self, evaluator: str | None) -> EvaluationScope:
        return EvaluationScope(self._since, None, evaluator)

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
        if self._reader.selection is not None:
            self._reader.selection.close()

    def __enter__(self) -> OpenStore:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(
    path: str | os.PathLike[str] | None = None,
    *,
    where: str | Sequence[str] = (),
    by: str | Sequence[str] = (),
    since: str | int | None = None,
    until: str | int | None = None,
) -> OpenStore:
    """Open a store to read it; the app may write it meanwhile.

    Args:
        path: The file; by default ``LLMEVAL_STORE``, else ``.llmeval/llmeval.db``.
        where: Conditions that requests have to meet, as in ``llmeval report --where``:
            ``"tag:tenant=acme"``, ``"model~gpt-4o"``, ``"score:groundedness<0.5"``.
        by: What requests are grouped by, at most two of ``request``, ``model``, ``user``,
            ``session`` and ``tag:KEY``.
        since: The time from which on evaluations and spans count: ``"24h"``, ``"7d"``, an ISO date,
            or nanoseconds since the epoch.
        until: The time before which requests begin.

    Where ``where`` names users or sessions whose ids the store may hold as hashes, and their key is
    missing, the log says that requests may be missing.

    Raises:
        ConfigurationError: There is no such store, or what was given is no condition, grouping or
            time.

    Examples:
        >>> llmeval.configure(exporters=["local"])
        >>> with llmeval.workflow("answer", tags={"tenant": "acme"}):
        ...     pass
        >>> stats = llmeval.flush()
        >>> with llmeval.open_store(where="tag:tenant=acme", by="model", since="7d") as store:
        ...     print([request.name for request in store.traces()])
        ['answer']
    """
    conditions = [where] if isinstance(where, str) else where
    groupings = [by] if isinstance(by, str) else by
    since_ns, until_ns = (read_time(at) if isinstance(at, str) else at for at in (since, until))
    location = path_of(path or config.from_environment(problems=[]).store)
    selection = selection_of(conditions, groupings, until_ns)
    reader = StoreReader(location, selection=selection)
    if warning := reader.read(lambda store: may_lack(store, selection)):
        logging.getLogger("llmeval_sdk").warning("open_store: %s", warning)
    return OpenStore(reader, since_ns)
