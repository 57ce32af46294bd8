"""The saved reports of offline runs: a list, one of them, and two of them side by side."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from llmeval_sdk.errors import LlmevalError
from llmeval_sdk.offline.saved import SavedReports
from llmeval_sdk.viewer._background import (
    WAIT_SECONDS,
    Background,
    BackgroundTask,
    StoppedError,
    counting_page,
)
from llmeval_sdk.viewer._cells import Cell, MarkedText, cell_of, marked
from llmeval_sdk.viewer._readers import Readers
from llmeval_sdk.viewer._render import page


COLUMNS = 5
"""How many evaluators have a column of their own in the list."""
_SORTS: Mapping[str, Callable[[Any], Any]] = {
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
    """What else the row says, such as the expected response."""
    scores: tuple[tuple[str, Cell, str], ...]
    """The evaluators, what they say and why."""


@dataclass(frozen=True, slots=True)
class PairShown:
    """One row of two reports."""

    before: RowShown
    after: RowShown
    scores: tuple[tuple[str, Cell | None, Cell | None, str, bool | None], ...]
    """The evaluators, what they said before and say now, why, and whether that is better."""


class LateFolder:
    """The reports beside a store, whose place is only known once it is asked for."""

    def __init__(self, make: Callable[[Path], Any], readers: Readers, chosen: Path | None) -> None:
        self._make = make
        self._readers = readers
        self._chosen = chosen
        self._reports: Any = None

    def now(self) -> Any:
        """Return the `SavedReports`."""
        folder = self._chosen or self._readers.path.with_name("reports")
        if self._reports is None or self._reports.folder != folder:
            self._reports = self._make(folder)
        return self._reports


def folder_of(readers: Readers, reports: str | os.PathLike[str] | None) -> LateFolder:
    """Return the saved reports of a viewer."""
    return LateFolder(SavedReports, readers, None if reports is None else Path(reports))


def show_list(request: Request) -> Response:
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
        known.sort(key=by, reverse=not sort.startswith("-"))
        readable = known + [report for report in readable if by(report) is None]
    return page(
        request, "experiments.html",
        folder=saved.folder, reports=readable, columns=columns, sort=sort if by else "",
        scores={each.name: {score.evaluator: score for score in each.scores} for each in readable},
        broken=[report for report in listing.reports if report.problem],
        left_out=listing.left_out, state="",
        chosen=[request.query_params.get(side, "") for side in ("a", "b")],
    )  # fmt: skip


def show(request: Request) -> Response:
    """Answer with one report: its metrics, and the rows that went worst."""
    saved, name = _saved(request), request.query_params.get("name", "")

    def start() -> BackgroundTask[Any]:
        return _background(request).start(
            ("report", saved.folder, name, saved.mark(name)),
            lambda tick: saved.opened(name, tick),
            total=saved.size(name),
        )

    return _when_done(
        request, name, start, "experiment.html",
        lambda found: {"report": found, "rows": [_row(row) for row in found.worst]},
        name=name,
    )  # fmt: skip


def show_pair(request: Request) -> Response:
    """Answer with two reports: what changed, and the rows that changed side by side."""
    saved = _saved(request)
    before, now = (request.query_params.get(side, "") for side in ("a", "b"))
    if not before or not now:
        problem = "Choose two reports: one as it was before, and one as it is now."
        return _problem(request, "Two reports", problem, 400)

    def start() -> BackgroundTask[Any]:
        sizes = saved.size(before), saved.size(now)
        return _background(request).start(
            ("compared", saved.folder, before, saved.mark(before), now, saved.mark(now)),
            lambda tick: saved.compared(now, before, tick),
            total=None if None in sizes else sum(sizes),
        )

    return _when_done(
        request, "Two reports", start, "experiments_compared.html",
        lambda found: {"compared": found, "pairs": [_pair(pair) for pair in found.rows]},
        before=before, now=now,
    )  # fmt: skip


def _saved(request: Request) -> Any:
    folder = request.app.state.site.reports
    if folder is None:
        raise HTTPException(404, "Offline evaluation is not part of this installation.")
    return folder.now()


def _background(request: Request) -> Background:
    background: Background = request.app.state.site.background
    return background


def _key(sort: str, evaluators: Mapping[str, int]) -> Callable[[Any], Any] | None:
    if sort in _SORTS:
        return _SORTS[sort]
    if sort not in evaluators:
        return None
    return lambda report: next(
        (score.mean for score in report.scores if score.evaluator == sort), None
    )


def _when_done(
    request: Request, title: str, start: Callable[[], BackgroundTask[Any]], template: str,
    shown: Callable[[Any], dict[str, Any]], **more: Any,
) -> Response:  # fmt: skip
    """Answer with what a task finds, that it is still at work, or why it failed."""
    try:
        task = start()
        if not task.is_done(WAIT_SECONDS):
            return counting_page(request, title, task)
        return page(request, template, **shown(task.result()), **more, state="")
    except (LlmevalError, StoppedError) as error:
        return _problem(request, title, str(error), 422)


def _problem(request: Request, title: str, problem: str, status: int) -> Response:
    problem = f"{problem[:1].upper()}{problem[1:2_000]}"
    return page(
        request, "experiment_problem.html", status, title=title, problem=problem, state=""
    )  # fmt: skip


def _row(row: Any) -> RowShown:
    told = dict(row.texts)
    asked, answer = told.pop("request", ""), told.pop("response", told.pop("value", None))
    error = f"{row.error.type}: {row.error.message}"[: row.most_text] if row.error else ""
    scores = tuple(
        (name, cell_of(evaluation), _why(evaluation))
        for name, evaluation in row.evaluations.items()
    )
    return RowShown(
        row.id,
        marked(asked, limit=row.most_text),
        None if answer is None else marked(answer, limit=row.most_text),
        error,
        tuple(
            (name.replace("_", " "), marked(text, limit=row.most_text))
            for name, text in told.items()
        ),
        scores,
    )


def _pair(pair: Any) -> PairShown:
    before, after = pair.before.evaluations, pair.after.evaluations
    scores = []
    for name in dict.fromkeys((*after, *before)):
        was, now = before.get(name), after.get(name)
        cells = [None if each is None else cell_of(each) for each in (was, now)]
        why = "" if now is None else _why(now)
        step = pair.steps.get(name)
        scores.append((name, cells[0], cells[1], why, None if step is None else step > 0))
    scores.sort(key=lambda each: (each[4] is None, each[4] is True))
    return PairShown(_row(pair.before), _row(pair.after), tuple(scores))


def _why(evaluation: Any) -> str:
    said = evaluation.error.message if evaluation.error is not None else evaluation.explanation
    return (said or "")[:600]
