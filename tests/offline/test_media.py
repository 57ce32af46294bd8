"""Of images and files in the rows of a data set only what they were is kept, as online."""

import base64
import json
import random
from hashlib import sha256

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.testing import FakeLLM


PNG = random.Random(7).randbytes(60_000)
URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
MARKER = f"<image/png of 60000 bytes, sha256 {sha256(PNG).hexdigest()[:16]}>"


@pytest.fixture
def length():
    """An evaluator that measures a whole row."""

    @llmeval.heuristic
    def length_of_row(record: llmeval.Record) -> float:
        return float(len(str(record)))

    yield length_of_row
    registry.forget("length_of_row")


def chat(url):
    parts = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": url}}]
    return {"messages": [{"role": "user", "content": parts}]}


ROW = {
    "request": chat(URL),
    "response": "A cat.",
    "retrieved_context": [{"content": URL, "metadata": {"thumb": URL}}],
    "extractions": [{"value": URL, "evidence": URL}],
    "expected_response": URL,
}


@pytest.mark.parametrize(
    "row",
    [
        ROW,
        {**ROW, "request": json.dumps(ROW["request"])},
        llmeval.Record(request=chat(URL), response="A"),
    ],
    ids=["mappings", "json", "record"],
)
def test_an_image_in_a_row_is_marked(row, length):
    """In every column, and in a Record of the app's."""
    (done,) = llmeval.evaluate([row], evaluators=[length], progress=False).rows
    assert done.record.request == chat(MARKER)
    assert "base64" not in str(done.record)
    assert done.evaluations["length_of_row"].value < 2_000


def test_an_app_that_answers_rows_gets_their_images(length):
    """What is kept of the row afterwards is a marker, also where the app failed."""
    given = []

    def app(request):
        given.append(request)
        if len(given) == 2:
            raise ValueError("no cat")
        return "A cat."

    rows = [{"request": chat(URL)}] * 2
    report = llmeval.evaluate(rows, model=app, evaluators=[length], progress=False)
    assert given == [chat(URL)] * 2
    assert [row.record.request for row in report.rows] == [chat(MARKER)] * 2


def test_images_are_kept_offline_for_those_who_want_them(monkeypatch, length):
    """By the setting."""
    monkeypatch.setenv("LLMEVAL_IMAGES", "keep")
    (done,) = llmeval.evaluate([ROW], evaluators=[length], progress=False).rows
    assert done.record.request == chat(URL)


def test_a_judge_of_rows_reads_markers(length):
    """A prompt has no room for a picture as text; a passage that is nothing else is none."""
    model = FakeLLM()
    llmeval.evaluate([ROW], evaluators=["groundedness"], llm=model, progress=False)
    assert not model.calls
    passage = {"content": f"{'A cat. ' * 2_500}![a cat]({URL})"}
    row = {**ROW, "retrieved_context": [passage]}
    llmeval.evaluate([row], evaluators=["groundedness"], llm=model, progress=False)
    assert model.calls
    assert URL[:200] not in str(model.calls)
