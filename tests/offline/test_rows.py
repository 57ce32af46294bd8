"""Rows: what is read, what is refused, and what the refusal says."""

from __future__ import annotations

import json

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import DataError
from llmeval_sdk.offline import record_from


NAN = float("nan")


@pytest.mark.parametrize(
    "request_",
    ["plain", {"messages": [{"role": "user", "content": "hi"}]}, {"query": "q", "history": []}],
)
def test_a_request_has_three_forms(request_):
    """They may stand mixed in one column, and as JSON text in a CSV cell."""
    assert record_from({"request": request_}).request == request_
    if isinstance(request_, dict):
        assert record_from({"request": json.dumps(request_)}).request == request_


def test_empty_cells_are_absent():
    """NaN, None and what data frames have instead leave a field out; an empty list is there."""
    pandas = pytest.importorskip("pandas")
    record = record_from(
        {
            "request": "q",
            "response": None,
            "expected_response": NAN,
            "latency_seconds": pandas.NA,
            "value": pandas.NaT,
            "retrieved_context": [],
        }
    )
    assert (record.response, record.expected_response, record.latency_seconds) == (None,) * 3
    assert record.retrieved_context == ()


def test_the_columns_of_data_frames_are_arrays():
    """Parquet read by pandas has numpy arrays where lists were, and floats for whole numbers."""
    numpy = pytest.importorskip("numpy")
    record = record_from(
        {
            "request": "q",
            "expected_facts": numpy.array(["a", "b"], dtype=object),
            "extractions": numpy.array([{"value": "v", "chunk_number": 2.0}], dtype=object),
        }
    )
    assert record.expected_facts == ("a", "b")
    assert record.extractions[0].chunk_number == 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"request": 7}, "column 'request': expected a text"),
        ({"request": {"inputs": "x"}}, "column 'request'"),
        ({"request": {"messages": []}}, "column 'request'"),
        ({"request": "q", "response": True}, "column 'response': expected a text, not bool True"),
        ({"request": "q", "expected_facts": [1]}, "column 'expected_facts': item 1"),
        ({"request": "q", "retrieved_context": "x"}, "expected a list of chunks"),
        ({"request": "q", "retrieved_context": [{"score": 1}]}, "item 1: expected a content"),
        ({"request": "q", "expected_retrieved_context": ["text"]}, "needs a doc_uri"),
        ({"request": "q", "extractions": [{"chunk": 1}]}, "item 1: expected a value"),
        ({"request": "q", "extractions": [{"value": 1, "chunk_number": "x"}]}, "is not a number"),
        ({"request": "q", "retrieval": [1]}, "column 'retrieval': expected a mapping"),
        ({"request": "q", "usage": {"tokens": 1}}, "column 'usage'"),
        ({"request": "q", "latency_seconds": "fast"}, "a number of seconds"),
        ({"request": "q", "latency_seconds": -1}, "a number of seconds"),
        ({"request": "q", "retrieved_context": "[{"}, "is not JSON"),
        ({"request": "q", "trace": {"a": 1}}, "is not a trace"),
        ({"request": "q", "respons": "r"}, "did you mean 'response'"),
        ({"question": "q"}, "did you mean 'request'"),
        ({"request": "q", "expected_facts": ["a"], "expected_response": "b"}, "not both"),
    ],
)
def test_a_wrong_cell_is_told_with_row_and_column(row, said):
    """The message names where it is and what was expected."""
    with pytest.raises(DataError) as told:
        record_from(row, place="data.jsonl, line 3")
    assert str(told.value).startswith("data.jsonl, line 3")
    assert said in str(told.value)


def test_other_columns_go_to_the_attributes():
    """A data set's own columns are kept for evaluators and slices."""
    record = record_from({"request": "q", "topic": "roofs", "attributes": {"tone": "calm"}})
    assert record.attributes == {"topic": "roofs", "tone": "calm"}


def test_ids_are_texts():
    """A data frame makes numbers of them."""
    assert record_from({"request_id": 7, "request": "q"}).request_id == "7"
    assert record_from({"request_id": 7.0, "request": "q"}).request_id == "7"


def test_a_record_is_a_row_as_it_is():
    """What was built for the online evaluators needs no translation."""
    record = llmeval.Record(request={"field": "roof"}, response="r")
    assert record_from(record) is record
