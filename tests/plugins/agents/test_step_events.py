"""The rating of a tool call is also an event on the span of that call."""

import json

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from otlp_collector import attributes_of

import llmeval_sdk as llmeval
from llmeval_sdk import config, registry
from llmeval_sdk.evaluation.verdicts import judgement_key
from llmeval_sdk.exporters.otlp.app_providers import AppOtelExporter
from llmeval_sdk.exporters.otlp.attributes import count_refused, part_events
from llmeval_sdk.exporters.otlp.wire import logs_line
from llmeval_sdk.judges.prompt import sections_for
from llmeval_sdk.model import Evaluation, EvaluationEvent, Record, Step, Target
from llmeval_sdk.model.plain import built
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.plugins.datadog.exporter import metric
from llmeval_sdk.plugins.fleet._message import parsed, written
from llmeval_sdk.plugins.openinference.otel import EvaluationSpanProcessor
from llmeval_sdk.process.shield import caught
from llmeval_sdk.testing import FakeLLM, capture
from llmeval_sdk.tracing._finished import from_plain, to_plain


EVENT = "gen_ai.evaluation.result"
TRACE, AGENT, FIRST, SECOND = "ab" * 16, "01" * 8, "02" * 8, "03" * 8


@llmeval.tool
def read_page(n):
    return f"page {n}"


@llmeval.tool
def delete_page(n):
    return "gone"


def tidy_up():
    with llmeval.agent("janitor", request="tidy up") as span:
        read_page(3)
        delete_page(3)
        span.response = "done"


@pytest.fixture
def no_writes():
    @llmeval.judge(per="step")
    def no_writes(record, step, llm):
        return not step.name.startswith("delete")

    yield no_writes
    registry.forget("no_writes")


def run_event(**metadata):
    """Make the event of a run whose two tool calls were rated."""
    about = {
        "ratings": ["yes", "no"], "rationales": ["fine", None], "rated_steps": [2, 3],
        "rated_spans": [FIRST, SECOND], "why": "sampled", **metadata,
    }  # fmt: skip
    evaluation = Evaluation("no_writes", 0.5, metadata=about, evaluator_kind="judge")
    return EvaluationEvent("e", Target(TRACE, AGENT, "janitor", "agent"), evaluation, 5)


def test_our_tools_have_the_ratings_on_their_spans(collector, no_writes):
    """The event of the run stays on the agent's span, and only it is counted."""
    llmeval.configure(
        exporters=["otlp"], otlp_endpoint=collector.url, evaluators=[no_writes], escalations=[],
        llm=FakeLLM(),
    )  # fmt: skip
    tidy_up()
    stats = runtime.flush(20).exporters["otlp"]
    assert stats.delivered == stats.created
    rated = {}
    for log in collector.logs:
        about = attributes_of(log)
        if about["gen_ai.evaluation.name"] == "no_writes.step":
            assert log.event_name == EVENT
            rated[log.span_id] = about["gen_ai.evaluation.score.label"]
    read, delete = (collector.span(f"execute_tool {name}") for name in ("read_page", "delete_page"))
    assert rated == {read.span_id: "yes", delete.span_id: "no"}
    log, about = collector.events()["no_writes"]
    assert log.span_id == collector.span("invoke_agent janitor").span_id
    assert json.loads(about["llmeval.evaluation.metadata"])["rated_spans"] == [
        read.span_id.hex(), delete.span_id.hex()
    ]  # fmt: skip
    made = [log for log in collector.logs if log.span_id == delete.span_id]
    assert {log.trace_id for log in made} == {delete.trace_id}


def test_the_apps_own_providers_get_them_too(no_writes):
    """With ``otel="global"``, under the ids of the app's spans; the store keeps one evaluation."""
    spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
    tracers, loggers = (
        TracerProvider(shutdown_on_exit=False),
        LoggerProvider(shutdown_on_exit=False),
    )
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    loggers.add_log_record_processor(SimpleLogRecordProcessor(logs))
    exporter = AppOtelExporter(
        config.Settings(), tracer_provider=tracers, logger_provider=loggers
    )  # fmt: skip
    with capture(
        exporters=[exporter], evaluators=[no_writes], escalations=[], llm=FakeLLM()
    ) as kit:
        tidy_up()
        kit.drain()
    ids = {span.name: span.context.span_id for span in spans.get_finished_spans()}
    rated = {
        log.log_record.span_id: log.log_record.attributes["gen_ai.evaluation.score.label"]
        for log in logs.get_finished_logs()
        if log.log_record.attributes["gen_ai.evaluation.name"] == "no_writes.step"
    }
    assert rated == {ids["execute_tool read_page"]: "yes", ids["execute_tool delete_page"]: "no"}
    names = [event.evaluation.name for event in kit.evaluations]
    assert names.count("no_writes") == 1
    assert "no_writes.step" not in names


FOREIGN = {
    "openinference": (
        {"openinference.span.kind": "AGENT", "input.value": "tidy up", "output.value": "done"},
        {"openinference.span.kind": "TOOL", "tool.name": "delete_page", "output.value": "gone"},
    ),
    "gen_ai": (
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "janitor"},
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "delete_page"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", FOREIGN)
def test_tools_of_another_library_have_their_own_spans(family, no_writes):
    """The ids are those of the library's spans."""
    agent, tool = FOREIGN[family]
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(EvaluationSpanProcessor(evaluators=[no_writes]))
    tracer = provider.get_tracer("another-library")
    with capture(escalations=[], llm=FakeLLM()) as kit:
        with tracer.start_as_current_span("janitor", attributes=agent):
            with tracer.start_as_current_span("delete_page", attributes=tool) as called:
                pass
        kit.drain()
    (event,) = [one for one in kit.evaluations if one.evaluation.name == "no_writes"]
    (rating,) = part_events([event], fields=False)
    ids = called.get_span_context()
    assert rating.target.span_id == f"{ids.span_id:016x}"
    assert rating.target.trace_id == f"{ids.trace_id:032x}"


def test_a_verdict_that_is_used_again_is_about_the_spans_of_the_new_run(no_writes):
    """An equal run is judged once, and the ratings stand on the tools of each."""
    with capture(evaluators=[no_writes], escalations=[], llm=FakeLLM()) as kit:
        tidy_up()
        kit.drain()
        tidy_up()
        kit.drain()
    first, second = (one for one in kit.evaluations if one.evaluation.name == "no_writes")
    assert second.evaluation.metadata["cached"] is True
    known = {span.span_id for span in kit.spans if span.trace_id == second.target.trace_id}
    assert {one.target.span_id for one in part_events([second], fields=False)} <= known
    assert len(part_events([first], fields=False)) == len(part_events([second], fields=False)) == 2


def test_the_id_is_no_content():
    """Neither a prompt nor the key of a verdict has it, and equal calls stay equal."""
    call = Step("tool", name="f", span_id=FIRST)
    assert call == Step("tool", name="f", span_id=SECOND)
    assert FIRST not in repr(call)
    one, other = (Record(steps=(Step("tool", name="f", span_id=id_),)) for id_ in (FIRST, SECOND))
    judge = registry.evaluator("tool_selection")
    assert judgement_key(judge, "m", one) == judgement_key(judge, "m", other)
    assert "span_id" not in str(sections_for("steps", one, None))


def test_it_travels_to_workers():
    """A message of the fleet has it."""
    record = Record(steps=(Step("tool", name="f", span_id=FIRST),))
    assert built(Record, parsed(written(record))).steps[0].span_id == FIRST


def test_an_event_says_what_it_rates():
    """The step, the run, the reason; no tokens, which the run's event has."""
    first, second = part_events([run_event()], fields=False)
    assert first.target == Target(TRACE, FIRST, None, "tool")
    assert (first.evaluation.name, first.evaluation.value) == ("no_writes.step", "yes")
    assert first.evaluation.explanation == "fine"
    assert second.evaluation.metadata == {"why": "sampled", "step": 3, "run_span_id": AGENT}
    assert len({"e", first.id, second.id}) == 3
    records = json.loads(logs_line([first], {}, "1"))["resourceLogs"][0]["scopeLogs"][0]
    assert records["logRecords"][0]["spanId"] == FIRST
    sent = metric(first, label="x", join_on={"span_id": "2", "trace_id": TRACE}, app="", version="")
    assert sent["join_on"] == {"span": {"span_id": "2", "trace_id": TRACE}}


@pytest.mark.parametrize(
    "metadata",
    [
        {"rated_spans": "all"}, {"rated_spans": [None, "x" * 16]}, {"ratings": None},
        {"ratings": [None, {}]}, {"rated_spans": ["0" * 16]}, {"rated_spans": ["4111 card no "]},
    ],
)  # fmt: skip
def test_what_is_no_rating_of_a_span_has_no_event(metadata):
    """Metadata can be anything: an app writes its own, and redaction changes some."""
    assert part_events([run_event(**metadata)], fields=False) == []


def test_an_evaluation_has_at_most_a_hundred():
    """However long the lists are."""
    ids = [f"{number:016x}" for number in range(1, 1_001)]
    many = run_event(rated_spans=ids, rated_steps=[1] * 1_000, ratings=["no" * 9_000] * 1_000)
    made = list(part_events([many], fields=False))
    assert len(made) == 100
    assert len(made[0].evaluation.value) == 8_000


def test_it_survives_the_spool():
    """A process that judges for another one reads the id with the step."""
    with capture():
        span = llmeval.agent("janitor", request="tidy up")
        with span as agent:
            delete_page(3)
        again = from_plain(to_plain(agent))
    (step,) = (item for item in again.gathered if isinstance(item, Step))
    (before,) = (item for item in agent.gathered if isinstance(item, Step))
    assert step.span_id == before.span_id != agent.span_id
    assert len(step.span_id) == 16


def test_ratings_that_a_backend_refuses_are_counted():
    """They are in no exporter's account, and not lost in silence either."""
    before = caught.snapshot().get("ratings of parts: no_span", 0)
    count_refused({"no_span": 2})
    assert caught.snapshot()["ratings of parts: no_span"] == before + 2
