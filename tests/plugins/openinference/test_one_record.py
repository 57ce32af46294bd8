"""The same request is the same Record, wherever its spans are read."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.cli import main
from llmeval_sdk.model import Record
from llmeval_sdk.offline import record_from
from llmeval_sdk.offline.data.spans import stored
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.plugins.openinference.otel import EvaluationSpanProcessor
from llmeval_sdk.store.encode import dumps
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.testing import capture


CHUNKS = [
    {"content": "A slate roof.", "doc_uri": "a", "score": 0.9, "retrieval_method": "bm25"},
    {"content": "A tin shed.", "doc_uri": "b", "score": 0.4, "retrieval_method": "knn"},
]


@llmeval.retrieval
def search(question, limits=None):
    if limits is not None:
        llmeval.annotate(retrieval={"limits": limits})
    return CHUNKS


@llmeval.llm("gpt-4o")
def ask(question):
    llmeval.annotate(metrics={"input_tokens": 10, "output_tokens": 3})
    return "slate"


@llmeval.workflow
def plain(question):
    """A retrieval and a model call."""
    search(question)
    return ask(question)


@llmeval.workflow
def annotated(question):
    """What evaluators need, annotated on the span that is evaluated."""
    search(question)
    llmeval.annotate(
        extractions=[{"value": "slate", "chunk_number": 1, "confidence": 0.8}],
        value="SLATE",
        confidence="HIGH",
        field_config={"name": "roof", "format": "^[A-Z]+$"},
        retrieval={"limits": {"bm25": 1}, "total_before_filter": 60},
    )
    return ask(question)


@llmeval.task
def aggregate(answer):
    llmeval.annotate(
        extractions=[{"value": answer, "chunk_number": 1}],
        value=answer.upper(),
        confidence=0.7,
        field_config={"name": "roof"},
    )
    return answer


@llmeval.workflow
def annotated_below(question):
    """The same, annotated in the steps that know it."""
    search(question, limits={"bm25": 5})
    search(question, limits={"bm25": 1})
    return aggregate(ask(question))


@llmeval.workflow
def chunks_as_argument(question, chunks):
    """Chunks that are handed in beside the one text."""
    return ask(question)


@llmeval.workflow
def arguments_by_name(question, chunks, language):
    """Several texts: all arguments are the request."""
    return ask(question)


@llmeval.llm("gpt-4o")
def ask_with_context(question):
    variables = {"question": question, "context": ["A slate roof.", "A tin shed."]}
    llmeval.annotate(prompt=llmeval.Prompt(template="{context} {question}", variables=variables))
    return "slate"


@llmeval.workflow
def prompted(question):
    """The passages are nowhere but in the prompt of the model call."""
    return ask_with_context(question)


@llmeval.workflow
def prompted_after_a_search(question):
    """What was retrieved counts more than what a prompt holds of it."""
    search(question)
    return ask_with_context(question)


@llmeval.llm("gpt-4o")
def retrying(question):
    answer = ask(question)
    llmeval.annotate(metrics={"input_tokens": 10, "output_tokens": 3})
    return answer


@llmeval.workflow
def wrapped_call(question):
    """A model call inside a span that says the same tokens again."""
    return retrying(question)


@llmeval.workflow
def structured_answer(question):
    """An answer that is no text."""
    return {"roof": "slate", "confidence": 0.5}


@llmeval.workflow
def two_extractors(question):
    """Each step of a request took some values."""
    aggregate(ask(question))
    aggregate(ask(question))
    return "slate"


@llmeval.agent
def helper(question):
    return plain(question)


@llmeval.workflow
def nested(question):
    """What is below an agent belongs to that agent."""
    helper(question)
    return "done"


APPS = [
    plain, annotated, annotated_below, chunks_as_argument, arguments_by_name, wrapped_call,
    structured_answer, two_extractors, nested, prompted, prompted_after_a_search,
]  # fmt: skip
MORE = {chunks_as_argument: (CHUNKS,), arguments_by_name: (CHUNKS, "en")}
"""What an app is called with beside the question."""
_ITS_OWN = ("request_id", "trace_id", "span_id", "span_name", "span_kind", "latency_seconds")


def told(record, *, but=()):
    """Return what a Record says of its request, whoever gave it its ids."""
    left_out = (*_ITS_OWN, *but)
    return {
        field.name: value
        for field in fields(Record)
        if field.name not in left_out and (value := getattr(record, field.name)) not in (None, {})
    }


def live(app, **configuration):
    """Run an app and return what a heuristic of its topmost span saw, and the spans."""
    records = []

    @llmeval.heuristic
    def spy(record):
        records.append(record)

    try:
        with capture(evaluators=[spy], **configuration) as seen:
            app("Which roof?", *MORE.get(app, ()))
            seen.drain()
            return next(r for r in records if r.span_name == app.__name__), seen.spans
    finally:
        registry.forget("spy")


@pytest.fixture
def store(tmp_path):
    return tmp_path / "live.db"


def test_the_passages_in_a_prompt_reach_the_request_above():
    """Groundedness of a workflow lacks nothing where its model call's prompt has the context."""
    record, _ = live(prompted)
    assert [chunk.content for chunk in record.retrieved_context] == ["A slate roof.", "A tin shed."]
    record, _ = live(prompted_after_a_search)
    assert [chunk.doc_uri for chunk in record.retrieved_context] == ["a", "b"]


@pytest.mark.parametrize("app", APPS)
def test_a_stored_request_is_judged_as_it_was_live(app, store):
    """`llmeval evaluate --from-store` gives evaluators what they saw online."""
    record, _ = live(app, exporters=["local"], store=str(store))
    with StoreReader(store) as reader:
        (again,) = [r for r in stored(reader) if r.span_name == app.__name__]
    assert told(again) == told(record)
    assert again.latency_seconds == record.latency_seconds
    assert (again.span_id, again.trace_id) == (record.span_id, record.trace_id)


@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_an_exported_request_is_evaluated_as_it_was_live(app, ending, store, tmp_path):
    """`llmeval export` and `llmeval evaluate` together lose nothing that evaluators look at."""
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    record, _ = live(app, exporters=["local"], store=str(store))
    file = tmp_path / f"day.{ending}"
    assert main(["export", "--store", str(store), "--out", str(file)]) == 0
    report = llmeval.evaluate(str(file), evaluators=["latency_seconds"])
    (again,) = [row.record for row in report.rows if row.record.span_name == app.__name__]
    assert told(again) == told(record)


@pytest.mark.parametrize("app", APPS)
def test_a_trace_in_a_row_is_read_as_it_was_live(app):
    """A column `trace` with spans of ours: what was annotated counts there too."""
    if app is nested:
        pytest.skip("a trace in a row is one request, whatever stands below")
    record, spans = live(app)
    again = record_from({"trace": json.loads(dumps({"spans": spans}))})
    assert told(again) == told(record)


@pytest.mark.parametrize("app", APPS)
def test_an_app_that_runs_offline_makes_the_record_it_makes_live(app):
    """`evaluate(model=app)` and a live call of the same app agree."""
    if app is nested or app in MORE:
        pytest.skip("a row is one request, and the app is called with that alone")
    record, _ = live(app)
    report = llmeval.evaluate([{"request": "Which roof?"}], model=app)
    again = report.rows[0].record
    assert told(again, but=("attributes",)) == told(record, but=("attributes",))


@pytest.mark.parametrize("app", APPS)
def test_redaction_changes_what_it_takes_out_and_nothing_else(app):
    """A Record that was read again from a redacted span is the Record that was scored inline."""
    record, _ = live(app)
    again, _ = live(app, redact=lambda text: text)
    assert told(again) == told(record)


def test_a_retrieval_setting_counts_after_the_fact_too(store):
    """What the union of all retrievals is online, it is for the store's requests."""

    @llmeval.workflow
    def two_hops(question):
        search(question)
        with llmeval.retrieval("second") as step:
            step.retrieved_context = [{"content": "A third.", "doc_uri": "c"}]
        return "slate"

    settings = {"retrieved_context": "all", "retrieval_limits": {"bm25": 1}}
    record, _ = live(two_hops, exporters=["local"], store=str(store), **settings)
    assert len(record.retrieved_context) == 3
    with runtime.isolated():
        runtime.configure(exporters=[], **settings)
        with StoreReader(store) as reader:
            (again,) = stored(
                reader,
                retrieved=runtime.settings().retrieved_context,
                limits=runtime.settings().retrieval_limits,
            )
    assert told(again) == told(record)


# -- spans of other libraries -----------------------------------------------------------------------

QUESTION, ANSWER = "Which roof?", "Slate."
TOP = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER}
FOUND = {
    "openinference.span.kind": "RETRIEVER",
    "input.value": QUESTION,
    "retrieval.documents.0.document.content": "A slate roof.",
    "retrieval.documents.0.document.id": "d1",
}
CALL = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "gpt-4o",
    "llm.provider": "openai",
    "llm.token_count.prompt": 7,
    "llm.token_count.completion": 3,
}
SERVER = {"http.request.method": "POST"}
UNKNOWN = {
    "mlflow.spanType": '"UNKNOWN"',
    "mlflow.spanInputs": json.dumps({"question": QUESTION}),
    "mlflow.spanOutputs": json.dumps(ANSWER),
}
FOREIGN = {
    "openinference": [(TOP, [(FOUND, []), (CALL, [])])],
    "a call that a wrapper tells again": [(TOP, [(FOUND, []), (CALL, [(CALL, [])])])],
    "below a server's span": [(SERVER, [(TOP, [(FOUND, []), (CALL, [])])])],
    "a step of no known kind on top": [(UNKNOWN, [(FOUND, []), (CALL, [])])],
    "a retrieval inside an agent": [
        (
            TOP,
            [
                ({"openinference.span.kind": "AGENT", "output.value": "x"}, [(FOUND, [])]),
                (CALL, []),
            ],
        )
    ],
    "a lone call": [({**CALL, "input.value": QUESTION, "output.value": ANSWER}, [])],
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_foreign_trace_is_one_record_online_and_in_a_row(case):
    """OpenTelemetry spans that our processor scores, and the same trace as OTLP in a data set."""
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common._internal.trace_encoder import encode_spans

    records = []

    @llmeval.heuristic
    def spy(record):
        records.append(record)

    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(EvaluationSpanProcessor(evaluators=[spy]))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("another-library")

    def run(spans):
        for attributes, below in spans:
            with tracer.start_as_current_span("step", attributes=attributes):
                run(below)

    try:
        with capture() as seen:
            run(FOREIGN[case])
            seen.drain()
    finally:
        registry.forget("spy")
    (record,) = records
    export = MessageToDict(encode_spans(exporter.get_finished_spans()))
    again = record_from({"trace": export})
    # online, a call is priced after the heuristics have run
    price = ("usage", "attributes")
    assert told(again, but=price) == told(record, but=price)
    assert (again.usage and again.usage.total_tokens) == (
        record.usage and record.usage.total_tokens
    )
    assert again.attributes == record.attributes
    assert again.latency_seconds == record.latency_seconds
