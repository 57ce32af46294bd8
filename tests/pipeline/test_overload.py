"""When more comes than can be worked off, whole traces go, and those that stay stand for all."""

import threading
from collections import Counter
from contextvars import Context
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
from doubles import Exporter, Hanging
from plans import change_plan

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.evaluation.sampling import overload_draw, sampling_draw
from llmeval_sdk.model import Evaluation, EvaluationEvent, SpanData, Target
from llmeval_sdk.model.protocols import complete_exporter
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.batch_exporter import Delivery
from llmeval_sdk.pipeline.dispatcher import Privacy
from llmeval_sdk.pipeline.intake import IntakePlan
from llmeval_sdk.pipeline.overload import FULL, HALF, NEAR, chance_of_scores, chance_of_traces
from llmeval_sdk.pipeline.queue import Unread
from llmeval_sdk.pipeline.recovery import MOST_FILES, Spooling
from llmeval_sdk.pipeline.span_processor import SpanProcessor
from llmeval_sdk.pipeline.spool import Folder
from llmeval_sdk.process import shield
from llmeval_sdk.testing import capture
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing._span import Spec, finish, start
from llmeval_sdk.tracing.internals import state


STEPS = 4
RECORDS = 1_000


@pytest.fixture
def intake():
    """Return an intake for a thousand records whose worker never takes one."""
    with capture():
        plan = replace(runtime.pipeline().plan, queue_records=RECORDS)
        intake = SpanProcessor(IntakePlan.of(plan), lambda: True, plan.find)
        state.recorder = intake
        yield intake


def request(number=0, *, steps=STEPS, fails=False):
    """Record a request of some steps; return its trace."""
    try:
        with llmeval.workflow("request", request=number) as span:
            for step in range(1, steps):
                with llmeval.task("step", request=step):
                    pass
            if fails:
                raise KeyError(number)
    except KeyError:
        pass
    return span.trace_id


def opened_request():
    """Begin a request with a step that has ended; return its span, and what ends it."""
    context, block = Context(), llmeval.workflow("request")

    def begin():
        span = block.__enter__()
        with llmeval.task("step"):
            pass
        return span

    return context.run(begin), partial(context.run, block.__exit__, None, None, None)


def fill(intake, level):
    """Record requests until the queue is that full, each of which is decided about by then."""
    traces = []
    while intake.lane.level < level:
        traces.append(request())
    return traces


def waiting(intake):
    """Take what waits as the worker does; return the spans that it has to deal with."""
    spans = []
    while (item := intake.lane.take()) is not None:
        if intake.has_gone(item):
            intake.drop("queue_full", item)
        else:
            spans.append(item)
    return spans


def whole(spans):
    """Return how many traces are whole; fail where one is not."""
    counts = Counter(span.trace_id for span in spans)
    assert set(counts.values()) <= {STEPS}
    return len(counts)


def balanced(intake, spans):
    assert intake.spans.value == len(spans) + intake.dropped.total


def test_chances_never_jump_and_never_are_none():
    """What is weighted by its chance needs one, and a small step of the level changes it little."""
    for chance, begin, end in ((chance_of_scores, HALF, NEAR), (chance_of_traces, NEAR, FULL)):
        steps = [chance(number / 1_000) for number in range(1_200)]
        assert steps == sorted(steps, reverse=True)
        assert all(0 < step <= 1 for step in steps)
        assert max(one - other for one, other in pairwise(steps)) < 0.01
        assert chance(begin) == 1 > chance((begin + end) / 2) > chance(end) == chance(2.0)


def test_traces_go_whole(intake):
    """With three times as many requests as there is room for, none is broken; all is counted."""
    traces = [request(number) for number in range(3 * RECORDS // STEPS)]
    assert 0.75 < intake.lane.level < 1
    spans = waiting(intake)
    assert RECORDS // STEPS * NEAR < whole(spans) < len(traces) / 2
    balanced(intake, spans)
    assert set(intake.dropped.snapshot()) == {"queue_full"}


def test_those_that_stay_stand_for_all(intake):
    """The sum of the inverse chances estimates how many there were; without losses it is exact."""
    estimates = []
    for _ in range(10):
        made = {request(number) for number in range(3 * RECORDS // STEPS)}
        roots = [span for span in waiting(intake) if span.parent is None]
        assert {span.trace_id for span in roots} < made
        estimates.append(sum(1 / (span.inclusion_probability or 1) for span in roots) / len(made))
    assert 0.8 < sum(estimates) / len(estimates) < 1.2


def test_one_draw_decides_and_it_is_not_the_sampling_s(intake):
    """The same traces go in all processes, and the judged ones are no more likely to stay."""
    fill(intake, NEAR + 0.05)
    for number in range(200):
        with llmeval.workflow("request", request=number) as span:
            (chance,) = span.fate
            expected = overload_draw(span.trace_id) < chance_of_traces(intake.lane.level)
        assert bool(chance) is expected
    draws = [overload_draw(f"{number:032x}") for number in range(400)]
    others = [sampling_draw(f"{number:032x}") for number in range(400)]
    low = [one for one, other in zip(draws, others, strict=True) if other < 0.5]
    assert 0.4 < sum(low) / len(low) < 0.6


def test_a_trace_that_was_open_is_decided_about_at_its_end(intake):
    """While all its spans wait here; the worker skips those of one that goes."""
    opened = [opened_request() for _ in range(100)]
    fill(intake, NEAR + 0.07)
    assert not any(root.fate for root, _ in opened)
    for _, end in opened:
        end()
    gone = [root.trace_id for root, _ in opened if not root.fate[0]]
    assert 0 < len(gone) < 100
    spans = waiting(intake)
    stayed = {root.trace_id for root, _ in opened}.difference(gone)
    counts = Counter(span.trace_id for span in spans)
    assert [counts[trace] for trace in gone] == [0] * len(gone)
    assert [counts[trace] for trace in stayed] == [2] * len(stayed)
    balanced(intake, spans)


def test_a_trace_of_which_something_left_stays(intake):
    """The worker has taken one of its spans: it is whole, with a chance of 1."""
    root, end = opened_request()
    assert len(waiting(intake)) == 1
    fill(intake, FULL - 0.02)
    end()
    assert root.inclusion_probability is None
    assert [span for span in waiting(intake) if span.trace_id == root.trace_id] == [root]


def test_a_failed_request_stays_where_nothing_of_it_went(intake):
    """Its chance is 1 then; where a step of it was decided about, it has that chance as well."""
    fill(intake, FULL - 0.02)
    alone = {request(number, steps=1, fails=True) for number in range(20)}
    stayed = [span for span in waiting(intake) if span.trace_id in alone]
    assert len(stayed) == 20
    assert {span.inclusion_probability for span in stayed} == {None}
    fill(intake, FULL - 0.02)
    broken = {request(number, fails=True) for number in range(200)}
    spans = [span for span in waiting(intake) if span.trace_id in broken]
    assert whole(spans) < 200
    assert all(span.inclusion_probability < 1 for span in spans)


def test_late_spans_follow_the_trace(intake):
    """A task that ends after its request, and one that begins then, go or stay with it."""
    fill(intake, NEAR + 0.07)
    roots = [start(Spec("workflow", "request"), None) for _ in range(60)]
    tasks = [start(Spec("task", "late"), root) for root in roots]
    for span in (*roots, *tasks):
        finish(span)
    later = [start(Spec("task", "later"), root) for root in roots]
    for span in later:
        finish(span)
    by_trace = Counter(span.trace_id for span in waiting(intake))
    assert {by_trace[root.trace_id] for root in roots} == {0, 3}


def test_at_the_bound_the_rest_of_a_trace_goes_with_its_first_span(intake):
    """One request of more steps than there is room for goes as a whole, and all is counted."""
    request(steps=RECORDS + 10)
    assert waiting(intake) == []
    assert intake.dropped.snapshot() == {"queue_full": RECORDS + 10}


def test_at_the_bound_a_failed_request_goes_whole_as_well(intake):
    """A step of it has found no room, so that keeping the rest would break it."""
    root = start(Spec("workflow", "request"), None)
    while intake.lane.put(None, 1):
        pass
    finish(start(Spec("task", "step"), root))
    while intake.lane.take() is not None:
        pass
    finish(root, KeyError("late"))
    assert waiting(intake) == []
    assert intake.dropped.snapshot() == {"queue_full": 2}


def test_a_record_larger_than_the_queue_goes_with_its_trace():
    """It is bounded and counted; the next request is taken as ever."""
    with capture():
        plan = replace(runtime.pipeline().plan, queue_bytes=50_000)
        intake = SpanProcessor(IntakePlan.of(plan), lambda: True, plan.find)
        state.recorder = intake
        with llmeval.workflow("large"):
            with llmeval.task("step", request="x" * 60_000):
                pass
        assert waiting(intake) == []
        assert intake.dropped.snapshot() == {"queue_full": 2}
        trace = request()
        assert whole(waiting(intake)) == 1
        assert trace


def test_local_roots_of_one_trace_have_one_fate(intake):
    """Whatever is above them elsewhere: the first decision holds for all of them in this process."""
    fill(intake, NEAR + 0.07)
    parents = [f"00-{number + 1:032x}-{number + 1:016x}-01" for number in range(100)]
    for parent in parents:
        with llmeval.tracing.extract({"traceparent": parent}):
            request()
    for parent in parents:
        with llmeval.tracing.extract({"traceparent": parent}):
            request()
    counts = Counter(span.trace_id for span in waiting(intake) if span.trace_number <= 100)
    assert 0 < len(counts) < 100
    assert set(counts.values()) == {2 * STEPS}


def test_a_trace_that_grew_is_decided_about_once_more(intake):
    """More waits at its end than at its start: it stays with the lower chance, by the same draw."""
    fill(intake, NEAR)
    opened = [opened_request() for _ in range(100)]
    before = {root.trace_id: root.fate[0] for root, _ in opened}
    assert len([chance for chance in before.values() if chance > 0.5]) > 50
    fill(intake, FULL - 0.01)
    for root, end in opened:
        level = intake.level
        end()
        stays = overload_draw(root.trace_id) < chance_of_traces(level)
        stays = stays and before[root.trace_id] > 0
        assert root.fate[0] == (chance_of_traces(level) if stays else 0.0)
    spans = waiting(intake)
    counts = Counter(span.trace_id for span in spans if span.trace_id in before)
    assert set(counts.values()) == {2}
    balanced(intake, spans)


def test_without_pressure_nothing_is_decided(intake):
    """No chance stands at a span, and the worker's look changes none."""
    for number in range(100):
        request(number)
    spans = waiting(intake)
    assert whole(spans) == 100
    assert {span.inclusion_probability for span in spans} == {None}
    assert all(type(span) is Span for span in spans)


CONTEXT = [{"content": "The house has a roof of slate, and a chimney.", "chunk_id": "1"}]


def foreign(intake, number):
    """Hand over a span of another library's trace; return whether it found its way."""
    before = len(intake.lane)
    intake.take(lambda: (), 2_000, trace=number)
    return len(intake.lane) > before


def test_spans_of_other_libraries_stay_or_go_by_the_draw_of_their_trace(intake):
    """At the bound, too, a trace goes as one would of ours, and each that goes is counted."""
    fill(intake, FULL)
    known = shield.caught.snapshot().get("sources: queue_full", 0)
    chance = chance_of_traces(FULL)
    staying = [number for number in range(1, 2_000) if overload_draw(f"{number:032x}") < chance]
    stayed = [number for number in range(1, 2_000) if foreign(intake, number)]
    assert stayed == staying
    items = iter(intake.lane.take, None)
    assert {item.chance for item in items if type(item) is Unread} == {chance}
    gone = 1_999 - len(stayed)
    assert shield.caught.snapshot()["sources: queue_full"] - known == gone


def test_scores_of_another_library_s_spans_have_the_chance_of_their_trace():
    """They stand for those of the spans that went."""
    with capture() as seen:
        span, _ = opened_request()
        span.annotate(retrieved_context=["The roof is slate."], response="It is slate.")
        span.end_ns = span.start_ns + 1
        intake = runtime.pipeline()._span_processor
        assert intake._put(intake.lane, Unread(lambda: (span,), True, 0.25), 1) is None
        seen.drain()
    assert seen.scores("request")["groundedness_risk"].inclusion_probability == 0.25


def test_a_trace_of_another_library_is_decided_about_once(intake):
    """What comes of it later goes as well, although there is room by then."""
    fill(intake, FULL)
    gone = next(n for n in range(1, 100) if overload_draw(f"{n:032x}") > chance_of_traces(FULL))
    assert not foreign(intake, gone)
    while intake.level > 0.76:
        intake.lane.take()
    assert not foreign(intake, gone)


def scored_under_pressure(requests):
    """Have requests come, of which 400 may wait, before the first is scored; return what came."""
    exporter, held = Exporter(), threading.Event()

    @llmeval.heuristic
    def own(record):
        held.wait(30)
        return 1.0

    @llmeval.judge
    async def cheap(record, llm):
        return True

    with capture(exporters=[exporter], evaluators=[own, cheap], escalations=[]):
        change_plan(queue_records=400)
        for number in range(requests):
            with llmeval.workflow("request", request=f"What is roof {number} of?") as span:
                span.annotate(response="It is of slate.", retrieved_context=CONTEXT)
        held.set()
        assert llmeval.flush(30).complete
        stats = llmeval.stats()
    registry.forget("own")
    registry.forget("cheap")
    return exporter, stats


def test_scores_give_way_before_traces_and_means_hold():
    """Those of a share of requests; own heuristics run on all, and nothing else is lost."""
    exporter, stats = scored_under_pressure(280)
    assert sum(span.name == "request" for span in exporter.spans) == 280
    by_name = {}
    for event in exporter.evaluations:
        by_name.setdefault(event.evaluation.name, []).append(event)
    assert len(by_name["own"]) == 280
    assert {event.evaluation.inclusion_probability for event in by_name["own"]} == {1.0}
    left_out = stats.not_run["heuristics"]["busy"]
    assert 5 < left_out < 150
    assert stats.not_run["cheap"] == {"busy": left_out}
    assert list(stats.funnels) == ["cheap"]
    for name in ("cheap", "groundedness_risk"):
        chances = [event.evaluation.inclusion_probability for event in by_name[name]]
        assert len(chances) == 280 - left_out
        assert min(chances) < 0.6
        assert max(chances) == 1
        assert 200 < sum(1 / chance for chance in chances) < 380
    scored = {event.target.span_id for event in by_name["groundedness_risk"]}
    assert scored == {event.target.span_id for event in by_name["cheap"]}


def left_to_an_agent(tmp_path, size, *, worker=False):
    """Have records left in a spool; return the intake, and what reads them."""
    plan = replace(runtime.pipeline().plan, queue_records=RECORDS)
    intake = SpanProcessor(IntakePlan.of(plan), lambda: worker, plan.find)
    privacy = Privacy(plan.redactor, content=True)
    intake.spool = Spooling(
        Folder(str(tmp_path / "spool"), file_bytes=size),
        (),
        pack=privacy.pack,
        unpack=privacy.unpack,
        left=True,
        living=False,
    )
    state.recorder = intake
    return intake, privacy


def test_without_a_worker_the_spool_s_room_decides(tmp_path):
    """Whole traces go when the agent takes too little; what it took makes room at once."""
    with capture():
        intake, privacy = left_to_an_agent(tmp_path, 1 << 19)
        for number in range(1_000):
            request(number)
        assert intake.dropped.snapshot().keys() == {"spool_full", "spooled"}
        rings = [file.ring for file in intake.spool._files]
        assert len(rings) == MOST_FILES
        assert NEAR < intake.spool.level < 1
        kept = [privacy.unpack(ring.take(slot)[1]) for ring in rings for slot in ring.records()]
        assert 0 < whole(kept) < 1_000
        for ring in rings:
            for slot in ring.records():
                ring.clear(slot)
        for number in range(40):
            request(number)
        assert intake.spool.level < HALF


def test_a_trace_of_which_the_spool_keeps_a_part_stays(tmp_path):
    """Another process delivers that part, so that the rest has to arrive as well."""
    with capture():
        intake, _ = left_to_an_agent(tmp_path, 1 << 16, worker=True)
        opened = [start(Spec("workflow", "request"), None) for _ in range(60)]
        while intake.lane.put(None, 1):
            pass
        for root in opened[:30]:
            finish(start(Spec("task", "step"), root))
        for root in opened:
            finish(root)
    assert {tuple(root.fate)[:1] for root in opened[:30]} == {(1.0,)}
    assert intake.dropped.snapshot()["spooled"] >= 60


def test_a_spool_that_is_full_says_so(tmp_path):
    """A record without a free slot was not lost for want of a thread."""
    with capture():
        intake, _ = left_to_an_agent(tmp_path, 1 << 16)
        with llmeval.workflow("large", request="x" * 100_000):
            pass
    assert intake.dropped.snapshot() == {"spool_full": 1}


def test_scores_and_verdicts_have_the_chance_of_their_trace():
    """So that means over all requests hold, of those that always run and of those that gave way."""
    exporter, stats = scored_under_pressure(1_000)
    chances = {
        span.span_id: span.inclusion_probability or 1.0
        for span in exporter.spans
        if span.name == "request"
    }
    assert len(chances) < 400
    assert min(chances.values()) < 0.9
    for event in exporter.evaluations:
        chance = chances[event.target.span_id]
        probability = event.evaluation.inclusion_probability
        assert probability == chance if event.evaluation.name == "own" else probability <= chance
    verdicts = [event for event in exporter.evaluations if event.evaluation.name == "cheap"]
    scores = [each for each in exporter.evaluations if each.evaluation.name == "groundedness_risk"]
    assert {event.target.span_id: event.evaluation.inclusion_probability for event in verdicts} == {
        event.target.span_id: event.evaluation.inclusion_probability for event in scores
    }
    account = stats.exporters[exporter.name]
    assert account.balanced
    assert account.dropped.keys() == {"queue_full"}


def span_of(number, trace, parent=None):
    return SpanData(f"{trace:032x}", f"{number + 1:016x}", parent, "step", "task", 0, 1)


def test_an_exporter_that_is_too_slow_gets_whole_traces_with_their_scores():
    """Other exporters get all; what it gets is weighted, and all it does not get is counted."""
    slow, healthy = Hanging(), Exporter()
    deliveries = [
        Delivery(complete_exporter(exporter), max_records=RECORDS, max_bytes=1 << 30)
        for exporter in (slow, healthy)
    ]
    traces = 3 * RECORDS // STEPS
    for trace in range(traces):
        for delivery in deliveries:
            for number in range(STEPS):
                delivery.offer(span_of(number, trace), 1_000)
            target = Target(f"{trace:032x}", f"{1:016x}", "step", "task")
            delivery.offer(EvaluationEvent("e", target, Evaluation("good", 1.0), 0), 1_000)
        deliveries[1].barrier().done.wait(30)
    created = traces * (STEPS + 1)
    assert healthy.received == created
    assert {span.inclusion_probability for span in healthy.spans} == {None}
    slow.release.set()
    assert deliveries[0].barrier().done.wait(30)
    stats = deliveries[0].stats(created, {})
    assert stats.balanced
    assert stats.delivered == slow.received
    assert set(stats.dropped) == {"exporter_full"}
    kept = whole(slow.spans)
    assert kept < traces / 2
    assert {event.target.trace_id for event in slow.evaluations} == {s.trace_id for s in slow.spans}
    for span, event in zip(slow.spans[::STEPS], slow.evaluations, strict=True):
        assert (span.inclusion_probability or 1.0) == event.evaluation.inclusion_probability
    weights = [1 / event.evaluation.inclusion_probability for event in slow.evaluations]
    assert 0.5 * traces < sum(weights) < 1.6 * traces
    assert max(weights) > 1


def test_what_was_drawn_before_is_not_drawn_again():
    """A trace that stayed in the queue with a lower chance stays here, and keeps its weight."""
    exporter = Hanging()
    delivery = Delivery(complete_exporter(exporter), max_records=RECORDS, max_bytes=1 << 30)
    for number in range(int(RECORDS * (NEAR + FULL) / 2)):
        delivery._spans.put(span_of(number, number), 1)
    level = chance_of_traces(delivery._spans.level)
    stayed = [t for t in range(1_000, 2_000) if overload_draw(f"{t:032x}") < level / 2][:20]
    for trace in stayed:
        delivery.offer(replace(span_of(0, trace), inclusion_probability=level / 2), 1)
    exporter.release.set()
    assert delivery.barrier().done.wait(30)
    spans = [span for span in exporter.spans if int(span.trace_id, 16) in stayed]
    assert len(spans) == len(stayed)
    assert {span.inclusion_probability for span in spans} == {level / 2}
