"""A column `trace` says what the other columns do not: MLflow 2 and 3, OTLP, and our own spans."""

from __future__ import annotations

import json

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import DataError
from llmeval_sdk.offline import record_from
from llmeval_sdk.store.encode import dumps
from llmeval_sdk.testing import capture


FOUND = [{"page_content": "Roofs are slate.", "metadata": {"doc_uri": "d1"}, "id": None}]
BEFORE = [{"page_content": "Nothing.", "metadata": {"doc_uri": "d0"}, "id": None}]
SECOND = 1_000_000_000


def spans(make):
    """A chain: two searches and a model call, wrapped by a span that sums its tokens up."""
    return [
        make("1", None, "CHAIN", 0, 9, {"question": "roof?"}, "slate"),
        make("2", "1", "RETRIEVER", 1, 2, {"q": "roof?"}, BEFORE),
        make("3", "1", "RETRIEVER", 3, 4, {"q": "roof!"}, FOUND),
        make("4", "1", "LLM", 5, 8, "roof?", "slate", {"input_tokens": 11, "output_tokens": 4}),
        make(
            "5", "4", "CHAT_MODEL", 6, 7, "roof?", "slate", {"input_tokens": 11, "output_tokens": 4}
        ),
    ]


def attributes(kind, given, said, usage):
    found = {"mlflow.spanType": kind, "mlflow.spanInputs": given, "mlflow.spanOutputs": said}
    if usage:
        found["mlflow.chat.tokenUsage"] = usage
    return {key: json.dumps(value) for key, value in found.items()}


def mlflow2():
    def make(number, parent, kind, begins, ends, given, said, usage=None):
        return {
            "name": kind.lower(),
            "context": {"trace_id": "t", "span_id": number},
            "parent_id": parent,
            "start_time": begins * SECOND,
            "end_time": ends * SECOND,
            "status_code": "OK",
            "attributes": attributes(kind, given, said, usage),
            "events": [],
        }

    info = {"request_id": "t", "timestamp_ms": 0, "execution_time_ms": 9000, "status": "OK"}
    return {"info": info, "data": {"spans": spans(make), "request": "{}", "response": '"slate"'}}


def mlflow3():
    def make(number, parent, kind, begins, ends, given, said, usage=None):
        return {
            "trace_id": "gAPhujMjTFBuVUcN4adHPg==",
            "span_id": number,
            "parent_span_id": parent,
            "name": kind.lower(),
            "start_time_unix_nano": begins * SECOND,
            "end_time_unix_nano": ends * SECOND,
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": attributes(kind, given, said, usage),
        }

    info = {"trace_id": "tr-1", "request_time": "2026-01-01T00:00:00Z", "state": "OK"}
    return {"info": info, "data": {"spans": spans(make)}}


def otlp():
    def make(number, parent, kind, begins, ends, given, said, usage=None):
        kinds = {"CHAIN": "CHAIN", "RETRIEVER": "RETRIEVER", "LLM": "CHAIN", "CHAT_MODEL": "LLM"}
        told = {"openinference.span.kind": kinds[kind], "input.value": json.dumps(given)}
        found = {key: {"stringValue": value} for key, value in told.items()}
        if kind == "RETRIEVER":
            document = "retrieval.documents.0.document"
            found[f"{document}.content"] = {"stringValue": said[0]["page_content"]}
            uri = said[0]["metadata"]["doc_uri"]
            found[f"{document}.metadata"] = {"stringValue": json.dumps({"doc_uri": uri})}
        else:
            found["output.value"] = {"stringValue": said}
        if usage and kind == "CHAT_MODEL":
            found["llm.token_count.prompt"] = {"intValue": str(usage["input_tokens"])}
            found["llm.token_count.completion"] = {"intValue": str(usage["output_tokens"])}
        return {
            "traceId": "t",
            "spanId": number,
            "parentSpanId": parent or "",
            "name": kind,
            "startTimeUnixNano": str(begins * SECOND),
            "endTimeUnixNano": str(ends * SECOND),
            "attributes": [{"key": key, "value": value} for key, value in found.items()],
        }

    return {"resourceSpans": [{"scopeSpans": [{"spans": spans(make)}]}]}


def own():
    def make(number, parent, kind, begins, ends, given, said, usage=None):
        kinds = {"CHAIN": "workflow", "RETRIEVER": "retrieval", "LLM": "task", "CHAT_MODEL": "llm"}
        return {
            "span_id": number,
            "parent_id": parent,
            "kind": kinds[kind],
            "start_ns": begins * SECOND,
            "end_ns": ends * SECOND,
            "request": given["question"] if kind == "CHAIN" else given,
            "response": said,
            "retrieved_context": said if kind == "RETRIEVER" else None,
            "usage": usage,
        }

    return {"spans": spans(make)}


@pytest.mark.parametrize("make", [mlflow2, mlflow3, otlp, own])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_trace_fills_the_columns_that_are_missing(make, as_text):
    """Response, the last retrieval's documents, tokens counted once, time of the root."""
    trace = json.dumps(make()) if as_text else make()
    record = record_from({"trace": trace})
    assert record.request == "roof?"
    assert record.response == "slate"
    assert [chunk.doc_uri for chunk in record.retrieved_context] == ["d1"]
    assert record.retrieved_context[0].content == "Roofs are slate."
    assert (record.usage.input_tokens, record.usage.total_tokens) == (11, 15)
    assert record.latency_seconds == 9.0


@pytest.mark.parametrize("make", [mlflow2, mlflow3, otlp, own])
def test_columns_win_over_the_trace(make):
    """What a row says itself is not replaced."""
    record = record_from({"request": "mine", "response": "brick", "trace": make()})
    assert (record.request, record.response) == ("mine", "brick")
    assert record.retrieved_context is not None


def test_a_frame_of_mlflow_traces_is_read_as_it_is():
    """Its request is the app's arguments, its response what came back, beside a trace as text."""
    pandas = pytest.importorskip("pandas")
    row = {"request": {"question": "roof?"}, "response": "slate", "trace": json.dumps(mlflow3())}
    frame = pandas.DataFrame(
        [{**row, "trace_id": "tr-1", "request_time": 5, "execution_duration": 9}]
    )
    (found,) = llmeval.evaluate(frame).rows
    assert (found.record.request, found.record.response) == ("roof?", "slate")
    assert found.record.usage.total_tokens == 15
    with pytest.raises(DataError, match="expected a text"):
        record_from({**row, "trace": None})


def test_the_defaults_see_what_the_trace_told():
    """Token counts and document recall run on a row of a request, a trace and ground truth."""
    row = {
        "request": "roof?",
        "trace": mlflow3(),
        "expected_retrieved_context": [{"doc_uri": "d1"}],
    }
    metrics = llmeval.evaluate([row]).metrics
    assert metrics["retrieval/ground_truth/document_recall/average"] == 1.0
    assert metrics["agent/total_token_count/average"] == 15
    assert metrics["agent/input_token_count/average"] == 11
    assert metrics["agent/latency_seconds/average"] == 9.0


def test_a_trace_without_spans_is_told_by_its_info():
    """MLflow keeps a summary beside the spans."""
    trace = mlflow2()
    trace["data"]["spans"] = []
    record = record_from({"request": "q", "trace": trace})
    assert (record.response, record.latency_seconds) == ("slate", 9.0)


def test_spans_of_our_own_come_back(rows):
    """What tracing recorded, written as JSON, is a trace."""
    with capture() as seen:

        @llmeval.retrieval
        def search(question):
            return [{"content": "Roofs are slate.", "doc_uri": "d1"}]

        @llmeval.workflow
        def answer(question):
            search(question)
            return "slate"

        answer("roof?")
        seen.drain()
    record = record_from({"trace": json.loads(dumps({"spans": list(seen.spans)}))})
    assert (record.request, record.response) == ("roof?", "slate")
    assert record.retrieved_context[0].doc_uri == "d1"


OPENAI = {
    "choices": [{"message": {"role": "assistant", "content": "slate"}}],
    "usage": {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15},
}
STREAMED = [
    {"choices": [{"delta": {"content": "slate"}}], "usage": None},
    {"choices": [], "usage": OPENAI["usage"]},
]
LANGCHAIN = {
    "generations": [[{"text": "slate", "message": {"type": "ai", "content": "slate"}}]],
    "llm_output": {"token_usage": OPENAI["usage"], "model_name": "m"},
}
LANGCHAIN_MESSAGES = {
    "generations": [
        [
            {
                "message": {
                    "content": "slate",
                    "usage_metadata": {"input_tokens": 11, "output_tokens": 4, "total_tokens": 15},
                }
            }
        ]
    ],
    "llm_output": None,
}


@pytest.mark.parametrize("kind", ["LLM", "CHAT_MODEL"])
@pytest.mark.parametrize("said", [OPENAI, STREAMED, LANGCHAIN, LANGCHAIN_MESSAGES])
def test_mlflow_2_tells_tokens_in_the_answers_of_model_calls(kind, said):
    """Those of LLM and CHAT_MODEL spans, each call once: a chain that hands an answer on is none."""
    trace = mlflow2()
    for span in trace["data"]["spans"]:
        number = span["context"]["span_id"]
        span["attributes"].pop("mlflow.chat.tokenUsage", None)
        if number == "1":
            span["attributes"]["mlflow.spanOutputs"] = json.dumps(OPENAI)
        elif number == "4":
            span["attributes"] = attributes("CHAIN", "roof?", OPENAI, None)
        elif number == "5":
            span["attributes"] = attributes(kind, "roof?", said, None)
    row = {"request": "roof?", "trace": json.dumps(trace)}
    metrics = llmeval.evaluate([row]).metrics
    assert metrics["agent/total_token_count/average"] == 15
    assert metrics["agent/input_token_count/average"] == 11
    assert metrics["agent/output_token_count/average"] == 4


def test_two_model_calls_of_mlflow_2_are_summed():
    """A wrapper around one of them that repeats its usage counts once."""
    trace = mlflow2()
    spans = trace["data"]["spans"]
    for span in spans:
        span["attributes"].pop("mlflow.chat.tokenUsage", None)
    for span in spans[3:]:  # an LLM around a CHAT_MODEL
        span["attributes"]["mlflow.spanOutputs"] = json.dumps(OPENAI)
    second = {"trace_id": "t", "span_id": "6"}
    spans.append({**spans[4], "context": second, "parent_id": "1"})
    record = record_from({"request": "roof?", "trace": trace})
    assert (record.usage.input_tokens, record.usage.total_tokens) == (22, 30)


@pytest.mark.parametrize("said", ["slate", [], [1, None], {"usage": "much"}, {"generations": 7}])
def test_answers_that_tell_no_tokens_are_read(said):
    """Odd outputs read as nothing."""
    trace = mlflow2()
    for span in trace["data"]["spans"][3:]:
        span["attributes"] = attributes("LLM", "roof?", said, None)
    assert record_from({"request": "roof?", "trace": trace}).usage is None
