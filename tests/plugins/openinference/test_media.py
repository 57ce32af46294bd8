"""Images and files that other instrumentations write into their spans are kept as what they were."""

import base64
import json
import random
from hashlib import sha256

import pytest
from opentelemetry.sdk.trace import TracerProvider

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.model.chat import question, steps_of
from llmeval_sdk.plugins.openinference.otel import EvaluationSpanProcessor
from llmeval_sdk.testing import capture


PNG = random.Random(7).randbytes(60_000)
CODED = base64.b64encode(PNG).decode()
URL = f"data:image/png;base64,{CODED}"
MARKER = f"<image/png of 60000 bytes, sha256 {sha256(PNG).hexdigest()[:16]}>"
BLOB = {"type": "blob", "mime_type": "image/png", "modality": "image", "content": CODED}
SAID = {"type": "text", "content": "What is this?"}


@pytest.fixture
def seen_of():
    """Return what the evaluators see of a span with some attributes."""
    records = []

    @llmeval.heuristic
    def what_was_shown(record: llmeval.Record) -> float:
        records.append(record)
        return 1.0

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(EvaluationSpanProcessor(evaluators=[what_was_shown]))
    tracer = provider.get_tracer("another-library")

    def see(attributes, **settings):
        with capture(**settings) as seen:
            with tracer.start_as_current_span("s", attributes=attributes):
                pass
            seen.drain()
        (record,) = records
        return record

    yield see
    registry.forget("what_was_shown")


def chat(*parts):
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [*parts]}]),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": "A cat."}, BLOB]}]
        ),
    }


def test_a_blob_is_beside_the_question_and_never_in_it(seen_of):
    """OpenTelemetry has the data of an image where it has the words of a text."""
    record = seen_of(chat(SAID, BLOB))
    (turn,) = record.request["messages"]
    assert turn["content"] == [
        {"type": "text", "text": "What is this?"},
        {**BLOB, "content": MARKER},
    ]
    assert question(record.request) == "What is this?\n[blob]"
    assert record.response == "A cat."


def test_a_blob_is_kept_for_those_who_want_it(seen_of):
    """As a data URL, beside the question too."""
    (turn,) = seen_of(chat(SAID, BLOB), images="keep").request["messages"]
    assert turn["content"][1]["content"] == URL


def test_a_message_of_nothing_but_a_blob_is_a_question(seen_of):
    """Somebody sent a picture and said nothing."""
    (turn,) = seen_of(chat(BLOB)).request["messages"]
    assert turn["content"] == [{**BLOB, "content": MARKER}]


@pytest.mark.parametrize("odd", [{"mime_type": 7}, {"content": 7}, {"content": None}])
def test_an_odd_blob_is_survived(seen_of, odd):
    """And its text beside it is read."""
    (turn,) = seen_of(chat(SAID, {**BLOB, **odd})).request["messages"]
    assert turn["content"][0]["text"] == "What is this?"
    assert CODED not in str(turn)


def test_a_blob_is_no_step_of_a_run():
    """What was said beside it is one."""
    (step,) = steps_of([{"role": "user", "parts": [SAID, BLOB]}])
    assert step.content == "What is this?"


@pytest.mark.parametrize(
    "attributes",
    [
        {
            "openinference.span.kind": "RETRIEVER",
            "input.value": "q",
            "retrieval.documents.0.document.content": URL,
        },
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.documents": json.dumps([{"content": URL}]),
        },
    ],
    ids=["openinference", "gen_ai"],
)
def test_a_document_that_is_a_picture_is_marked(seen_of, attributes):
    """In the dialects that have documents."""
    (chunk,) = seen_of(attributes).retrieved_context
    assert chunk.content == MARKER
