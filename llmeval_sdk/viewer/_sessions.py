"""The list of sessions, and the page of one: its turns, what was said of them, and what it cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from llmeval_sdk.model import EvaluationEvent
from llmeval_sdk.model.chat import bounded_question
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.store.identities import UNREADABLE, forms, sessions_of, unreadable
from llmeval_sdk.store.sessions import (
    PAGE_TURNS,
    SessionTurn,
    StoredSession,
    ToolUse,
    session_totals,
    session_turns,
    sessions_page,
    stored_sessions,
    tool_uses,
    users_of,
)
from llmeval_sdk.store.span_lists import outcomes_of
from llmeval_sdk.viewer._render import (
    Cell,
    Content,
    MarkedText,
    as_text,
    cell_of,
    cells_of_outcomes,
    content_of,
    integer,
    page,
    preview,
    text_content,
    where_of,
)
from llmeval_sdk.viewer._site import state_of


_MAX_TEXT = 2_000
"""Characters of a question or an answer that the page of a session shows."""
_MAX_TOOLS = 12
"""Tool calls of a turn that it names."""
_MAX_VERDICTS = 300
"""Verdicts on a session that are read, from the newest on."""
_LISTED_VERDICTS = 40


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """One turn, as the page of its session shows it."""

    number: int
    turn: SessionTurn
    asked: Content | None
    """``None`` where the question was not captured; so is ``answered``."""
    answered: Content | None
    tools: tuple[ToolUse, ...]
    more_tools: int
    """How many tool calls are not among ``tools``."""
    cells: Mapping[str, Cell]
    people: Mapping[str, Cell]
    marks: tuple[tuple[str, Cell], ...]
    """The verdicts on the session that name this turn, each with its cell."""


@dataclass(frozen=True, slots=True)
class SessionVerdict:
    """The verdict of one evaluator on a session that counts, and those before it."""

    event: EvaluationEvent
    cell: Cell
    period: str
    turns: tuple[int, ...]
    """The numbers of the turns that it names."""

    former: tuple[tuple[EvaluationEvent, Cell, str], ...]
    """A triple for each former one, the latest first: event, cell and the period."""
    starts: tuple[int, ...] = ()
    """When those turns began. Calls that only asked for a tool are counted by the store and not by
    the verdict, so a number alone would mark another turn."""

    def names(self, number: int, turn: SessionTurn) -> bool:
        """Say whether this is said of a turn."""
        return turn.start_ns in self.starts if self.starts else number in self.turns


def show_list(request: Request) -> Response:
    """Answer with the sessions of the store, the latest first."""
    after = _place(request.query_params.get("after"))
    typed = request.query_params.get("user", "").strip()
    user = forms(typed, runtime.settings()) if typed else None
    with request.app.state.site.readers.lend(where_of(request)) as reader:
        listed = reader.read(lambda c: sessions_page(c, after, user=user))
        rows = [
            (item, _newest(stored_sessions(reader, item.session_id, most=_LISTED_VERDICTS)))
            for item in listed.items
        ]
        hidden = not rows and reader.read(
            lambda c: unreadable(c, typed, settings=runtime.settings())
        )
        state = reader.read(state_of)
    return page(
        request, "sessions.html",
        rows=rows, listed=listed, after=after, state=state, user=typed,
        problem=f"Perhaps {UNREADABLE}." if hidden else "",
    )  # fmt: skip


def show(request: Request) -> Response:
    """Answer with one session: its turns, page by page, and the verdicts on the whole."""
    typed = request.query_params.get("id", "")
    wanted = integer(request.query_params.get("turn"), 1)
    first = (wanted - 1) // PAGE_TURNS * PAGE_TURNS + 1
    with request.app.state.site.readers.lend() as reader:
        held = reader.read(lambda c: sessions_of(c, typed, runtime.settings()))
        session_id = held[0] if held else typed
        totals = reader.read(lambda c: session_totals(c, session_id))
        if totals is None:
            raise HTTPException(404, "The store has no turn of this session. It may be pruned.")
        rows = reader.read(lambda c: session_turns(c, session_id, first))
        tools = reader.read(lambda c: tool_uses(c, [row.trace_id for row in rows]))
        outcomes, people = reader.read(lambda c: outcomes_of(c, [row.span_id for row in rows]))
        users = reader.read(lambda c: users_of(c, [row.span_id for row in rows]))
        judged = stored_sessions(reader, session_id, most=_MAX_VERDICTS)
        state = reader.read(state_of)
    verdicts = _verdicts(judged)
    about_whole = {verdict.event.evaluation.name for verdict in verdicts}
    turns = []
    for number, row in enumerate(rows, first):
        called = _during(row, tools.get(row.trace_id, []))
        scores = outcomes.get(row.span_id, {})
        own = {name: score for name, score in scores.items() if name not in about_whole}
        naming = [verdict for verdict in verdicts if verdict.names(number, row)]
        turn = ShownTurn(
            number,
            row,
            _asked(row),
            _text(row.response, row.response_start),
            tuple(called[:_MAX_TOOLS]),
            max(len(called) - _MAX_TOOLS, 0),
            cells_of_outcomes(own),
            cells_of_outcomes(people.get(row.span_id, {})),
            tuple((verdict.event.evaluation.name, verdict.cell) for verdict in naming),
        )
        turns.append(turn)
    return page(
        request, "session.html",
        session_id=session_id, totals=totals, turns=turns, verdicts=verdicts, first=first,
        page_turns=PAGE_TURNS, state=state, users=users,
    )  # fmt: skip


def _newest(sessions: Sequence[StoredSession]) -> dict[str, Cell]:
    newest = sessions[0].newest if sessions else {}
    return {name: cell_of(newest[name].evaluation) for name in sorted(newest)}


def _verdicts(sessions: Sequence[StoredSession]) -> list[SessionVerdict]:
    """Arrange what was said of the session, the bad verdicts first."""
    verdicts = []
    for session in sessions:
        for name, event in session.newest.items():
            former = tuple(
                (other, cell_of(other.evaluation), _period(other))
                for other in session.history
                if other.evaluation.name == name and other is not event
            )
            cell = cell_of(event.evaluation)
            about = event.evaluation.metadata
            turns = tuple(_numbers(about.get("turns")))
            starts = tuple(_numbers(about.get("turn_starts_ns")))
            verdicts.append(SessionVerdict(event, cell, _period(event), turns, former, starts))
    order = ("bad", "fair", "good", "plain", "quiet")
    return sorted(verdicts, key=lambda v: (order.index(v.cell.tone), v.event.evaluation.name))


def _period(event: EvaluationEvent) -> str:
    return as_text(event.evaluation.metadata.get("period", "?"))[:20]


def _numbers(listed: object) -> Iterable[int]:
    """Return what is a number in a list of a verdict's metadata, which may hold anything."""
    numbers = listed if isinstance(listed, list) else []
    return islice((number for number in numbers if type(number) is int), 100)


def _during(turn: SessionTurn, uses: Sequence[ToolUse]) -> list[ToolUse]:
    return [use for use in uses if turn.start_ns <= use.start_ns <= turn.end_ns]


def _asked(turn: SessionTurn) -> Content | None:
    """Return what the user said: the last message of a chat, else all that was asked."""
    with suppress(ValueError, RecursionError):
        if turn.request is not None and (asked := bounded_question(json.loads(turn.request))):
            return text_content(asked, limit=_MAX_TEXT)
    return _text(turn.request, turn.request_start)


def _text(whole: str | None, start: str | None) -> Content | None:
    """Return a captured value as text; of one that is too long to be read, its beginning."""
    if start is None:
        return None
    with suppress(ValueError, RecursionError):
        if whole is not None:
            value = json.loads(whole)
            if value is None:
                return None
            text = isinstance(value, str)
            return text_content(value, limit=_MAX_TEXT) if text else content_of(value)
    return Content(text=MarkedText(((preview(start, _MAX_TEXT), False),), 1))


def _place(text: str | None) -> tuple[int, int] | None:
    """Read the place after which a page of the list begins."""
    start, _, seq = (text or "").partition("~")
    place = integer(start, 0), integer(seq, 0)
    return place if all(place) else None
