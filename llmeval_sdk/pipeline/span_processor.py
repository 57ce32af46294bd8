"""The pipeline on the app's thread: the hand-over, in microseconds, and the scores it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from queue import Empty, SimpleQueue
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from llmeval_sdk.model import Evaluation, EvaluationEvent, Record, values
from llmeval_sdk.model.records import Retrieved, early_record, record_of
from llmeval_sdk.pipeline.intake import IntakePlan
from llmeval_sdk.pipeline.overload import NEAR, Decided, chance_of_traces, drawn
from llmeval_sdk.pipeline.queue import BoundedQueue, Spooled, Unread
from llmeval_sdk.process.loading import loading
from llmeval_sdk.process.shield import Count, Counts, caught, shield, swallow, tell
from llmeval_sdk.tracing import Span, disabled
from llmeval_sdk.tracing.internals import roll_up, settle, state


if TYPE_CHECKING:
    from llmeval_sdk.evaluation.scoring import Heuristics
    from llmeval_sdk.model.protocols import BaseExporter, Evaluator, Heuristic, LiveSpans
    from llmeval_sdk.pipeline.recovery import Spooling


RunHeuristic = Callable[["Heuristic", Record], Evaluation | None]
_EARLY = "context_relevance"
"""Can be read as soon as a retrieval has ended, before the app asks the model."""


_ENDED: Final = 2.0
"""Marks a trace of which a span has ended since it was decided about: it has gone or it waits."""
_TAKEN: Final = 3.0
"""Marks a trace of which the worker has taken a span."""


class SpanProcessor:
    """Takes finished spans and submitted evaluations, on the threads of the app.

    After the first record it takes no lock and writes nothing but the spool's mapped memory.

    Args:
        plan: what it works by.
        start: starts the worker; False where none can be started.
        find: finds the evaluator of a name in the plan of the worker.
    """

    def __init__(
        self,
        plan: IntakePlan,
        start: Callable[[], bool],
        find: Callable[[object], Evaluator | None],
    ) -> None:
        self._plan = plan
        self._start = start
        self._find = find
        self._running = False
        self._asleep = False
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._inline = plan.inline
        """The inline heuristics, which are loaded for the first span that they can read."""
        self._scored_since = 0
        """When the plan's own came in their place: the worker scores what had ended before."""
        self.lane = BoundedQueue(max_records=plan.queue_records, max_bytes=plan.queue_bytes)
        self.reserved = BoundedQueue(max_records=4 * plan.queue_records, max_bytes=plan.queue_bytes)
        """Evaluations have a lane of their own, so that a burst of spans does not drop them."""
        self.spans = Count()
        self.evaluations = Counts()
        self.dropped = Counts()
        self.lost_traces = Count()
        self.closed = False
        self.successor: SpanProcessor | None = None
        """The intake of the pipeline that replaced this one: it takes all further records."""
        self.at_task_end: Callable[[Span], None] | None = None
        """Called after each trace, in a process that may be killed any time, with its root."""
        self.spool: Spooling | None = None
        self._decided = Decided()
        """About traces of which several local roots may be here, as their parents are elsewhere."""
        self._live: list[tuple[str, LiveSpans]] = []
        self.follow(plan.exporters)

    def follow(self, exporters: Iterable[BaseExporter]) -> None:
        """Tell these exporters of each span while it is open, those first that give it its ids."""
        live = [(exporter.name, exporter.live) for exporter in exporters if exporter.live]
        self._live = sorted(live, key=lambda named: not named[1].gives_ids)

    @property
    def inline(self) -> Heuristics:
        """The heuristics whose scores the app can read at once."""
        if self._inline is None:
            with loading:
                self._inline = self._plan.make_inline()
        return self._inline

    def put_in_force(self, inline: Heuristics) -> None:
        """Score by the inline heuristics of a finished plan from now on."""
        self._inline = inline
        self._scored_since = time_ns()

    def on_start(self, span: Span) -> None:
        """Let exporters open their library's own span; near full, decide whether a trace stays."""
        if (self.lane.is_crowded or self.spool is not None) and type(span.parent) is not Span:
            self._decide(span)
        for name, live in self._live:
            try:
                live.on_start(span)
            except (Exception, SystemExit) as error:
                if not swallow(f"exporter {name}", error):
                    raise

    def on_end(self, span: Span) -> None:
        """Hand a finished span over, and have the app's own inline heuristics score it."""
        for name, live in self._live:
            try:
                live.on_end(span)
            except (Exception, SystemExit) as error:
                if not swallow(f"exporter {name}", error):
                    raise
        if not span.flags & 1:  # the sampler of a live library has dropped it
            return
        settle(span)
        try:
            roll_up(span)
            if self._scores_at_end:
                _keep(span, *self._score(span))
        except (Exception, SystemExit) as error:
            if not swallow("inline heuristics", error):
                raise
        taker = self._in_force()
        taker.spans.add()
        taker._hand_over(span)
        if taker.at_task_end is not None and type(span.parent) is not Span:
            taker.at_task_end(span)

    @property
    def reads_at_once(self) -> bool:
        """Whether a heuristic of the app, or the spool, reads a span the moment it ends."""
        inline = self._inline
        reads = inline is not None and inline.runs_app_code and inline.reads_anything
        return reads or self.spool is not None

    @property
    def _scores_at_end(self) -> bool:
        """Whether spans are scored when they end, and not by whoever reads the scores first.

        That is so where a heuristic of the app counts on it, and where nobody could do it later,
        because the spool leaves the texts out.
        """
        if self.spool is not None and not self.spool.holds_texts:
            return True
        return self._inline is not None and self._inline.runs_app_code

    def evaluate(self, span: Span, name: str) -> Evaluation | None:
        """Compute one heuristic at once on what a span holds so far."""
        from llmeval_sdk.evaluation.scoring import is_built_in, run_heuristic

        heuristic = self._find(name)
        if heuristic is None or heuristic.kind != "heuristic":
            tell("span.evaluate", f"no heuristic is named {name[:80]!r}")
            return None
        if state.read_calls_of is not None:
            state.read_calls_of(span)
        if (live := getattr(heuristic, "live", None)) is not None:
            return live(span)  # type: ignore[no-any-return]  # when the run ends, it is scored whole
        run = run_heuristic if is_built_in(heuristic) else _run_untraced
        evaluation = run(heuristic, self._record(span))
        others = (one for one in span.scored or () if one.name != evaluation.name)
        span.scored = [*others, evaluation]  # in the place of what it said of the span before
        return evaluation

    def scores(self, span: Span) -> Iterable[Evaluation]:
        """Return the scores of a span so far, for the app; in doubt the last one of a name counts.

        Those of a span that has ended are made once, from what it captured; a thread that makes
        them beside the worker makes the same ones.
        """
        if span.end_ns:
            if span.record is None:
                if state.read_calls_of is not None:
                    state.read_calls_of(span)
                if span.kind == "retrieval":
                    settle(span)  # a live exporter may read the scores before that is done
                scores, record = self._score(span)
                if _has_pending(scores):
                    return scores  # the worker keeps them all
                _keep(span, scores, record)
            return span.scored or ()
        scores = list(span.scored or ())
        item: Any
        for item in reversed(span.gathered or ()):
            last = self._of_retrieval(item) if type(item) is Retrieved else None
            if last is not None:
                scores.insert(0, last)
                break
        if span.retrieved_context is not None or not scores:
            early = self._early(span)
            scores.extend(() if early is None else (early,))
        return scores

    def _early(self, span: Span) -> Evaluation | None:
        """Score the context that a span holds so far, wherever it came from."""
        record = early_record(span, span.gathered, retrieved=self._plan.retrieved)
        return None if record is None else self.inline.run_one(_EARLY, record)

    def _of_retrieval(self, item: Retrieved) -> Evaluation | None:
        record = Record(retrieved_context=item.chunks, retrieval=item.retrieval)
        return self.inline.run_one(_EARLY, record)

    def submit(self, event: EvaluationEvent, size: int) -> None:
        """Take an evaluation of about ``size`` bytes that the app made itself."""
        taker = self._in_force()
        taker.evaluations.add("submitted")
        taker._put(taker.reserved, event, size)

    def take(
        self,
        read: Callable[[], Iterable[Span]],
        size: int,
        *,
        exported: bool = False,
        trace: int = 0,
    ) -> None:
        """Take spans of another library, which are scored, and exported where nobody else does.

        Those of a trace stay or go together, by the draw that decides about traces of ours.
        """
        taker = self._in_force()
        chance = taker._chance_of(trace) if trace and taker.lane.is_crowded else 1.0
        if chance:
            taker._put(taker.lane, Unread(read, exported, chance), size)
        else:
            taker.drop("queue_full", Unread(read, exported))

    def close(self, successor: SpanProcessor | None = None) -> None:
        """Take in nothing more, and leave it to a successor where there is one."""
        self.successor = successor
        self.closed = True

    def sweep(self, reason: str = "shutdown") -> None:
        """Drop what came after the worker's last look. Call it when nobody else reads the lanes."""
        for lane in (self.reserved, self.lane):
            while (item := lane.take()) is not None:
                self.drop(reason, item)

    # What goes when more comes than can be worked off: whole traces, see `overload`. Behind the
    # chance with which a trace stays, its ``fate`` has these two marks.

    @property
    def level(self) -> float:
        """How full it is, from 0 to 1: what does not fit waits in the spool if that has room."""
        spool = None if self.spool is None else self.spool.level
        if spool is None:
            return self.lane.level
        return min(self.lane.level, spool) if self._running else spool

    def _decide(self, root: Span) -> None:
        """Decide whether the trace of a local root stays, where this is near its end."""
        level = self.level
        if level < NEAR:
            return
        chance = 1.0 if root.error is not None else drawn(root.trace_id, chance_of_traces(level))
        if root.outside_parent:
            chance = self._decided.note(root.trace_number, chance)
        root.fate.append(chance)

    def _chance_of(self, trace: int) -> float:
        """Return the chance with which spans of another library stay, decided once for a trace."""
        level = self.level
        if level < NEAR:
            return self._decided.get(trace, 1.0)
        return self._decided.note(trace, drawn(f"{trace:032x}", chance_of_traces(level)))

    def _hand_over(self, span: Span) -> None:
        if (span.fate or self.lane.is_crowded) and self._goes(span):
            self.drop("queue_full" if self._running else "spool_full", span)
        else:
            self._put(self.lane, span, span.size)

    def _goes(self, span: Span) -> bool:
        """Return whether a span that has ended goes with its trace; decide about one that waits.

        Where there is no worker, another process may have taken some of its spans already.
        """
        fate = span.fate
        if type(span.parent) is not Span:
            if fate and span.error is not None:
                fate[0] = fate[0] if _ENDED in fate else 1.0  # nothing of it has gone
            elif not fate and self._running:
                self._decide(span)
            elif self._running and _TAKEN not in fate and not span.outside_parent:
                self._decide_anew(span)
        if fate and _ENDED not in fate:
            fate.append(_ENDED)
        return bool(fate) and not fate[0]

    def _decide_anew(self, root: Span) -> None:
        """Lower the chance of a trace that ends while all its spans wait, if more waits by now.

        It was decided when it began, and may have grown since. As there is one draw, the trace
        stays with the lower of the two chances.
        """
        fate, level = root.fate, self.level
        if level >= NEAR and (chance := chance_of_traces(level)) < fate[0]:
            fate[0] = drawn(root.trace_id, chance)

    def has_gone(self, span: Span) -> bool:
        """Return whether a span that waited is to be dropped; else its trace stays from now on."""
        fate = span.fate
        if not fate:
            fate.append(1.0)
        if _TAKEN not in fate:
            fate.append(_TAKEN)
        return not fate[0]

    def _in_force(self) -> SpanProcessor:
        """Return the intake that takes records now."""
        span_processor = self
        while span_processor.successor is not None:
            span_processor = span_processor.successor
        return span_processor

    def _put(self, lane: BoundedQueue, item: object, size: int) -> None:
        if self.closed:
            self.drop("shutdown", item)
            return
        running = self._running or self._run()
        if self.spool is not None and type(item) is not Unread:
            item = self.spool.keep(item)
        if not running:
            self.drop("no_worker", item)
        elif not lane.put(item, size):
            self._overflow(item)
            self.drop("queue_full", item)
        elif self._asleep:
            self.wake()

    def _overflow(self, item: object) -> None:
        """Have a trace go with a span that finds no room, or stay if the spool has the span."""
        kept = item if type(item) is Spooled else None
        span = item if kept is None else kept.item
        if type(span) is not Span:
            return
        if kept is not None and kept.place:
            self.has_gone(span)
        elif _TAKEN not in span.fate:
            span.fate[:1] = [0.0, _ENDED]

    def drop(self, reason: str, item: Any) -> None:
        """Count a record that is dropped here, with its inline evaluations."""
        if type(item) is Unread:
            caught.add(f"sources: {reason}")
            return
        if type(item) is Spooled:
            if item.place:  # it waits in the spool for another process
                reason = "spooled"
            elif reason == "no_worker":
                reason = "spool_full"
            item = item.item
        is_span = type(item) is Span
        inline = 0
        if is_span and item.is_evaluated:
            inline = sum(not _is_pending(evaluation) for evaluation in item.scored or ())
        self.dropped.add(reason, 1 + inline)
        if is_span and type(item.parent) is not Span and reason != "spooled":
            self.lost_traces.add()
        if reason == "spool_full" and self.spool is not None:
            self.spool.note_lost(self.dropped.of(reason), self.lost_traces.value)
        self.evaluations.add("inline", inline)
        for name, live in self._live if is_span else ():
            with shield(f"exporter {name}", calls_out=True):
                live.on_drop(item)

    def _run(self) -> bool:
        """Start the worker; where none can be started, the next record tries again."""
        self._running = self._start()
        return self._running

    def wake(self) -> None:
        """Wake the worker. `_put` calls it only while the worker sleeps, which is seldom."""
        self._asleep = False
        self._wake.put(None)

    def sleep(self, seconds: float, *, unless: Sized) -> bool:
        """Let the worker wait for something to do; False where nothing came in this time."""
        self._asleep = True
        if not (len(self.lane) or len(self.reserved) or len(unless)):
            try:
                self._wake.get(timeout=seconds)
            except Empty:
                return False
        self._asleep = False
        return True

    def _record(self, span: Span) -> Record:
        plan = self._plan
        return record_of(
            span, span.gathered, retrieved=plan.retrieved, limits=plan.retrieval_limits
        )

    def complete(self, span: Span, aside: RunHeuristic, *, is_foreign: bool) -> None:
        """Make the scores of a span that nobody has made yet. The worker calls it, once for each.

        Args:
            span: a span that has ended.
            aside: runs the heuristics that ask to be left to the worker.
            is_foreign: whether another library made it.
        """
        is_evaluated = span.owner is None if is_foreign else span.is_evaluated
        if not is_evaluated and span.kind != "retrieval":
            return
        is_new = span.record is None or span.end_ns <= self._scored_since
        if is_new or _has_pending(span.scored or ()):
            by = _run_untraced if is_new else _left_out  # the app's own have run at the end
            _keep(span, *self._score(span, by, aside, is_foreign=is_foreign))

    def _score(
        self,
        span: Span,
        by: RunHeuristic | None = None,
        aside: RunHeuristic | None = None,
        *,
        is_foreign: bool = False,
    ) -> tuple[list[Evaluation], Record | None]:
        """Return all inline scores of a span that has ended, and the record that they read."""
        done = [one for one in span.scored if not _is_pending(one)] if span.scored else []
        inline = self._inline
        reads = span.has_metadata or (inline is not None and inline.reads_anything)
        if not reads or not self.inline:
            return done, None
        names = {evaluation.name for evaluation in done} if done else set()
        if span.kind == "retrieval" and _EARLY not in names and not is_foreign:
            early = None if span.retrieved_context is None else self._early(span)
            done.extend(() if early is None else (early,))
            names.add(_EARLY)
        if not (span.owner is None if is_foreign else span.is_evaluated):
            return done, None
        record = self._record(span)
        for item in span.gathered or () if _EARLY not in names else ():
            if type(item) is Retrieved and item.chunks is record.retrieved_context:
                if item.retrieval is not record.retrieval:
                    early = self._of_retrieval(item)  # as it was read before the request ended
                    done.extend(() if early is None else (early,))
                    names.add(_EARLY)
                break
        by, aside = by or _run_untraced, aside or _pending
        done.extend(self.inline.run(record, but=names, by=by, aside=aside))
        return done, record


def _keep(span: Span, scores: list[Evaluation], record: Record | None) -> None:
    """Keep all scores of a span in it; threads that make them at a time keep the same ones."""
    span.scored = scores or None
    span.record = record  # last: whoever sees it relies on the scores


def _pending(heuristic: Heuristic, _: Record) -> Evaluation:
    """Return what stands for a score that the worker has yet to make."""
    return Evaluation(
        heuristic.name,
        label=values.PENDING,
        explanation="it is made in the background",
        evaluator_version=heuristic.version,
    )


def _is_pending(evaluation: Evaluation) -> bool:
    return evaluation.label == values.PENDING and evaluation.value is None


def _has_pending(evaluations: Iterable[Evaluation]) -> bool:
    labels = [evaluation.label for evaluation in evaluations]
    return values.PENDING in labels and any(map(_is_pending, evaluations))


def _left_out(_: Heuristic, __: Record) -> None:
    """Run nothing."""


def _run_untraced(heuristic: Heuristic, record: Record) -> Evaluation:
    """Run a heuristic of the app untraced: it may call the very function that it scores."""
    from llmeval_sdk.evaluation.scoring import own_copy, run_heuristic

    with disabled():
        return run_heuristic(heuristic, own_copy(record))
