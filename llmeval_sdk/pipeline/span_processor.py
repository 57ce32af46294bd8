"""The pipeline on the app's thread: inline heuristics and the hand-over, in microseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from queue import Empty, SimpleQueue
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from llmeval_sdk.model import Evaluation, EvaluationEvent, Record
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


_EARLY = "context_relevance"
"""Scored as soon as a retrieval ends, so that the app can read it before it asks the model."""


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
        self._inline: Heuristics | None = None
        """The inline heuristics, which are loaded for the first span that they can read."""
        self.scored_since = 0
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
        """The heuristics that run on the app's thread."""
        if self._inline is None:
            with loading:
                self._inline = self._plan.make_inline()
        return self._inline

    def put_in_force(self, inline: Heuristics) -> None:
        """Score by the inline heuristics of a finished plan from now on."""
        self._inline = inline
        self.scored_since = time_ns()

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
        """Score a finished span and hand it over."""
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
            if span.kind == "retrieval" and span.retrieved_context is not None:
                evaluation = self.early(span)
                span.scored = None if evaluation is None else [evaluation]
            roll_up(span)
            if span.is_evaluated:
                self.score(span)
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
        return self.spool is not None or self._reads_anything

    @property
    def _reads_anything(self) -> bool:
        inline = self._inline
        return self._plan.reads_anything if inline is None else inline.reads_anything

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

    def early(self, span: Span) -> Evaluation | None:
        """Score the context that an open span holds so far, wherever it came from."""
        record = early_record(span, span.gathered, retrieved=self._plan.retrieved)
        return None if record is None else self.inline.run_one(_EARLY, record)

    def submit(self, event: EvaluationEvent) -> None:
        """Take an evaluation that the app made itself."""
        taker = self._in_force()
        taker.evaluations.add("submitted")
        taker._put(taker.reserved, event, 1_000)

    def take(
        self, read: Callable[[], Iterable[Span]], size: int, *, exported: bool = False
    ) -> None:
        """Take spans of another library, which are scored, and exported where nobody else does."""
        taker = self._in_force()
        taker._put(taker.lane, Unread(read, exported), size)

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
        inline = len(item.scored or ()) if is_span and item.is_evaluated else 0
        self.dropped.add(reason, 1 + inline)
        if is_span and type(item.parent) is not Span and reason != "spooled":
            self.lost_traces.add()
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

    def score(self, span: Span) -> None:
        """Run the inline heuristics on a span, unless there is nothing for them to read."""
        if not (span.has_metadata or self._reads_anything) or not self.inline:
            return
        record = span.record = self._record(span)
        done = list(span.scored or ())
        names = [evaluation.name for evaluation in done]
        for item in span.gathered or ():
            if type(item) is Retrieved and item.chunks is record.retrieved_context:
                done.extend(score for score in item.evaluations if score.name not in names)
        names = [evaluation.name for evaluation in done]
        done.extend(self.inline.run(record, but=names, by=_run_untraced))
        span.scored = done


def _run_untraced(heuristic: Heuristic, record: Record) -> Evaluation:
    """Run a heuristic of the app untraced: it may call the very function that it scores."""
    from llmeval_sdk.evaluation.scoring import own_copy, run_heuristic

    with disabled():
        return run_heuristic(heuristic, own_copy(record))
