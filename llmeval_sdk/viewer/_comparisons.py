"""Pages that compare: two traces, versions of the app, and saved reports of offline runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from llmeval_sdk.errors import ConfigurationError, LlmevalError
from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline.report.compare import MAX_TEXT, Comparison, RowPair, says, step_of
from llmeval_sdk.offline.report.row import Row, texts
from llmeval_sdk.offline.saved import OpenedReport, SavedReport, SavedReports, readable
from llmeval_sdk.store.comparison import compare
from llmeval_sdk.store.latest import latest_of_span
from llmeval_sdk.store.reader import StoreReader, dimensions
from llmeval_sdk.store.traces import outline_of, traces_like
from llmeval_sdk.viewer._render import Cell, MarkedText, cell_of, marked, page, where_of
from llmeval_sdk.viewer._site import (
    WAIT_SECONDS,
    Background,
    BackgroundTask,
    Readers,
    Site,
    StoppedError,
    counting_page,
    state_of,
)
from llmeval_sdk.viewer._trace import Detail, read_detail


_MAX_ID_LENGTH = 64
_HEX = frozenset("0123456789abcdef-")


@dataclass(frozen=True, slots=True)
class ScorePair:
    """The evaluations of two spans by one evaluator."""

    name: str
    first: Cell | None
    second: Cell | None
    difference: float | None
    """The second score less the first, if both are numbers."""


def show_traces(request: Request) -> Response:
    """Answer with two spans side by side.

    The address names each by the beginning of a trace's or a span's id, or by both ids with a
    hyphen between them.
    """
    named = [request.query_params.get(side, "").strip() for side in ("a", "b")]
    with request.app.state.site.readers.lend() as reader:
        sides = [_read(reader, text) for text in named]
        state = reader.read(state_of)
    missing = [text for text, side in zip(named, sides, strict=True) if text and side is None]
    first, second = sides
    pairs = _score_pairs(first, second) if first is not None and second is not None else []
    return page(
        request, "compare.html", 404 if missing else 200,
        named=named, sides=sides, pairs=pairs, missing=missing, state=state,
    )  # fmt: skip


def _read(reader: StoreReader, text: str) -> Detail | None:
    """Return what an address names; ``None`` if no span or several have such an id."""
    if not text or len(text) > _MAX_ID_LENGTH or not _HEX.issuperset(text):
        return None
    trace_id, _, span_id = text.partition("-")
    if not span_id:
        matches = reader.read(lambda c: traces_like(c, trace_id))
        if len(matches) != 1:
            return None
        trace_id, span_id = matches[0][0], matches[0][1] or ""
    spans, _ = reader.read(lambda c: outline_of(c, trace_id))
    return read_detail(reader, trace_id, span_id or None, spans)


def _score_pairs(first: Detail, second: Detail) -> list[ScorePair]:
    by_name = [_evaluations(side) for side in (first, second)]
    pairs = []
    for name in sorted({*by_name[0], *by_name[1]}):
        one, other = (side.get(name) for side in by_name)
        cells = [None if each is None else cell_of(each) for each in (one, other)]
        values = [None if each is None else each.value for each in (one, other)]
        difference = None
        if isinstance(values[0], float) and isinstance(values[1], float):
            difference = values[1] - values[0]
        pairs.append(ScorePair(name, cells[0], cells[1], difference))
    return pairs


def _evaluations(side: Detail) -> dict[str, Evaluation]:
    events = latest_of_span(verdict.event for verdict in side.verdicts)
    return {event.evaluation.name: event.evaluation for event in events}


def show_versions(request: Request) -> Response:
    """Answer with two groups of requests by each judge."""
    wanted = {
        name: request.query_params.get(name, "").strip() or None
        for name in ("by", "baseline", "version")
    }
    readers: Readers = request.app.state.site.readers
    comparison, problem = None, ""
    with readers.lend() as reader:
        known, state = reader.read(dimensions), reader.read(state_of)
    by = wanted.pop("by") or (known[0] if known else "")
    if by:
        with readers.lend(where_of(request), by=by) as reader:
            try:
                comparison = compare(reader, baseline=wanted["baseline"], version=wanted["version"])
            except ConfigurationError as error:
                problem = str(error)
    names: tuple[str, ...] = ()
    if comparison is not None and comparison.baseline and comparison.version:
        names = tuple(sorted((comparison.baseline, comparison.version, *comparison.others)))
    return page(
        request, "versions.html", 400 if problem else 200,
        by=by, known=known, comparison=comparison, problem=problem, names=names, state=state,
        **wanted,
    )  # fmt: skip


_T = TypeVar("_T")
COLUMNS = 5
"""How many evaluators have a column of their own in the list."""
_SORTS: Mapping[str, Callable[[SavedReport], float | str | None]] = {
    "@time": lambda report: report.time_ns,
    "@name": lambda report: report.name,
    "@rows": lambda report: report.rows,
    "@cost": lambda report: report.cost_usd,
}


@dataclass(frozen=True, slots=True)
class RowShown:
    """One row of a report."""

    id: str
    request: MarkedText
    answer: MarkedText | None
    error: str
    others: tuple[tuple[str, MarkedText], ...]
    """The other fields of the row, such as the expected response."""
    scores: tuple[tuple[str, Cell, str], ...]
    """The evaluators, what they say and why."""


@dataclass(frozen=True, slots=True)
class PairShown:
    """One row of two reports."""

    before: RowShown
    after: RowShown
    scores: tuple[tuple[str, Cell | None, Cell | None, str, bool | None], ...]
    """The evaluators, what they said before and say now, why, and whether that is better."""


def show_reports(request: Request) -> Response:
    """Answer with the list of reports."""
    saved = _saved(request)
    listing = saved.listed()
    readable = [report for report in listing.reports if not report.problem]
    counted = Counter(score.evaluator for report in readable for score in report.scores)
    columns = [name for name, _ in counted.most_common(COLUMNS)]
    sort = request.query_params.get("sort", "")
    by = _key(sort.removeprefix("-"), counted)
    if by is not None:
        known = [report for report in readable if by(report) is not None]
        known.sort(key=by, reverse=not sort.startswith("-"))  # type: ignore[arg-type]
        readable = known + [report for report in readable if by(report) is None]
    return page(
        request, "experiments.html",
        folder=saved.folder, reports=readable, columns=columns, sort=sort if by else "",
        scores={each.name: {score.evaluator: score for score in each.scores} for each in readable},
        broken=[report for report in listing.reports if report.problem],
        left_out=listing.left_out, state="",
        chosen=[request.query_params.get(side, "") for side in ("a", "b")],
    )  # fmt: skip


def show_report(request: Request) -> Response:
    """Answer with one report: its metrics, and the rows that went worst."""
    saved, name = _saved(request), request.query_params.get("name", "")

    def start() -> BackgroundTask[OpenedReport]:
        return _background(request).start(
            ("report", saved.folder, name, saved.mark(name)),
            lambda tick: saved.opened(name, tick),
            total=saved.size(name),
        )

    return _when_done(
        request, name, start, "experiment.html",
        lambda found: {"report": found, "rows": [_row_shown(row) for row in found.worst]},
        name=name,
    )  # fmt: skip


def show_report_pair(request: Request) -> Response:
    """Answer with two reports: what changed, and the rows that changed side by side."""
    saved = _saved(request)
    before, now = (request.query_params.get(side, "") for side in ("a", "b"))
    if not before or not now:
        problem = "Choose two reports: one as it was before, and one as it is now."
        return _problem(request, "Two reports", problem, 400)

    def start() -> BackgroundTask[Comparison]:
        sizes = saved.size(before), saved.size(now)
        total = None if sizes[0] is None or sizes[1] is None else sizes[0] + sizes[1]
        return _background(request).start(
            ("compared", saved.folder, before, saved.mark(before), now, saved.mark(now)),
            lambda tick: saved.compared(now, before, tick),
            total=total,
        )

    return _when_done(
        request, "Two reports", start, "experiments_compared.html",
        lambda found: {
            "compared": found, "pairs": [_pair_shown(pair) for pair in found.rows],
            "worse": {change.path for change in found.worse},
        },
        before=before, now=now,
    )  # fmt: skip


def _saved(request: Request) -> SavedReports:
    site: Site = request.app.state.site
    return site.reports.now()


def _background(request: Request) -> Background:
    background: Background = request.app.state.site.background
    return background


def _key(
    sort: str, evaluators: Mapping[str, int]
) -> Callable[[SavedReport], float | str | None] | None:
    if sort in _SORTS:
        return _SORTS[sort]
    if sort not in evaluators:
        return None
    return lambda report: next(
        (score.mean for score in report.scores if score.evaluator == sort), None
    )


def _when_done(
    request: Request, title: str, start: Callable[[], BackgroundTask[_T]], template: str,
    shown: Callable[[_T], dict[str, Any]], **more: str,
) -> Response:  # fmt: skip
    """Answer with what a task finds, that it is still at work, or why it failed."""
    try:
        task = start()
        if not task.is_done(WAIT_SECONDS):
            return counting_page(request, title, task)
        with readable(title):
            about = shown(task.result())
        return page(request, template, **{**about, **more, "state": ""})
    except (LlmevalError, StoppedError) as error:
        return _problem(request, title, str(error), 422)


def _problem(request: Request, title: str, problem: str, status: int) -> Response:
    problem = f"{problem[:1].upper()}{problem[1:2_000]}"
    return page(
        request, "experiment_problem.html", status, title=title, problem=problem, state=""
    )  # fmt: skip


def _row_shown(row: Row) -> RowShown:
    told = dict(texts(row))
    asked, answer = told.pop("request", ""), told.pop("response", told.pop("value", None))
    error = f"{row.error.type}: {row.error.message}"[:MAX_TEXT] if row.error else ""
    scores = tuple(
        (name, cell_of(evaluation), _why(evaluation))
        for name, evaluation in row.evaluations.items()
        if says(evaluation)
    )
    return RowShown(
        row.id,
        marked(asked, limit=MAX_TEXT),
        None if answer is None else marked(answer, limit=MAX_TEXT),
        error,
        tuple(
            (name.replace("_", " "), marked(text, limit=MAX_TEXT)) for name, text in told.items()
        ),
        scores,
    )


def _pair_shown(pair: RowPair) -> PairShown:
    before, after = (
        {name: evaluation for name, evaluation in row.evaluations.items() if says(evaluation)}
        for row in (pair.before, pair.after)
    )
    scores = []
    for name in dict.fromkeys((*after, *before)):
        was, now = before.get(name), after.get(name)
        cells = [None if each is None else cell_of(each) for each in (was, now)]
        why = "" if now is None else _why(now)
        step = step_of(pair.before.evaluations.get(name), pair.after.evaluations.get(name))
        scores.append((name, cells[0], cells[1], why, None if step is None else step > 0))
    scores.sort(key=lambda each: (each[4] is None, each[4] is True))
    return PairShown(_row_shown(pair.before), _row_shown(pair.after), tuple(scores))


def _why(evaluation: Evaluation) -> str:
    said = evaluation.error.message if evaluation.error is not None else evaluation.explanation
    return (said or "")[:600]
