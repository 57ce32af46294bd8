"""What `export` wrote comes back as it was, once, and whatever else a file holds is told by line."""

import gzip
import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from llmeval_sdk.model import (
    Batch,
    Chunk,
    Evaluation,
    EvaluationEvent,
    Extraction,
    Failure,
    Prompt,
    SpanData,
    Target,
    Usage,
)


START = 1_767_225_600_123_456_789
TRACE = "ab" * 16


@pytest.fixture
def filled(store):
    """A store with everything that a store holds, a workflow with steps below it among them."""
    root = store.span(
        "0a" * 8, name="answer", start_ns=START, request={"messages": [{"role": "user"}]},
        response="slate", value={"roof": [1, 2.0, None, True]}, confidence="HIGH",
        session_id="s-1", tags={"tenant": "acme"}, metrics={"latency": 0.25}, attributes={"n": 1},
        field_config={"name": "roof"}, retrieval={"limits": {"bm25": 3}}, trace_flags=0,
        expected={"expected_facts": ("slate",), "expected_response": "slate",
                  "expected_retrieved_context": (Chunk("t", "a.md"),), "abstained": "no idea"},
        extractions=(Extraction("slate", 1, 0.5, "quoted"), Extraction([], None)),
        retrieved_context=(Chunk("own", "own.md", page=3),),
    )  # fmt: skip
    store.span(
        "0b" * 8, name="search", kind="retrieval", parent_id=root.span_id, request="roof?",
        retrieved_context=(Chunk("The roof is slate.", "a.md", "c1", 0.5, 3, "bm25", {"x": 1}),),
    )  # fmt: skip
    store.span("0e" * 8, name="empty", kind="retrieval", parent_id=root.span_id,
               retrieved_context=(), extractions=())  # fmt: skip
    store.span(
        "0c" * 8, name="ask", kind="llm", parent_id=root.span_id, response={"choices": []},
        model_name="gpt", model_provider="openai", usage=Usage(3, 4, 7, 0.01),
        prompt=Prompt("p", "2", chat_template=({"role": "user"},), variables={"q": "x"}),
        metrics={"cache_read_input_tokens": 2, "time_to_first_token": 0.5},
    )  # fmt: skip
    store.span("0d" * 8, name="broken", error=Failure("ValueError", "no"), request="\0 ü \U0001f600")
    store.span(
        "0f" * 8, name="judging", trace_id="cd" * 16, kind="task", tags={"llmeval.judge": "polite"},
        links=(Target(TRACE, root.span_id, "answer", "workflow"),),
    )  # fmt: skip
    bare = store.span("1a" * 8, name="bare", trace_id="ce" * 16, request="q", response="")
    store.span("1b" * 8, name="step", kind="retrieval", trace_id="ce" * 16, parent_id=bare.span_id,
               retrieved_context=(Chunk("below"),))  # fmt: skip
    store.evaluation(root, "precision", 0.25, explanation="why", inclusion_probability=0.1)
    store.evaluation(root, "whole", 1.0, label="all", evaluator_version="3", duration=0.5)
    store.evaluation(root, "polite", "yes", evaluator_kind="judge", usage=Usage(1, 2, 3, 0.5))
    store.evaluation(root, "polite", "no", evaluator_kind="decision", probability=0.875)
    store.evaluation(root, "passed", True, metadata={"model": "m", "nested": [{"a": None}]})
    store.evaluation(root, "broken", None, error=Failure("timeout", "late"))
    fields = [{"path": "lines[0].amount", "value": "3", "chance": 0.25}]
    store.evaluation(root, "extraction_risk", 0.25, metadata={"fields": fields})
    store.evaluation(root, "thumbs", True, evaluator_kind="human", metadata={"user": "u"})
    by_id = EvaluationEvent(
        "other-id", Target(None, root.span_id), Evaluation("stars", 5.0, evaluator_kind="human"),
        START + 77,
    )  # fmt: skip
    store.writer.write(Batch(evaluations=(by_id,)))
    store.not_run(root, "correctness", "sampled_out", "sample_rate 0.1")
    return store


def exported(llmeval, path, *options):
    done = llmeval("export", "--store", path, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sorted_rows(path):
    """Return all rows of the tables, without the numbers of their arrival."""
    with closing(sqlite3.connect(path)) as file:
        found = {}
        for table in ("spans", "evaluations", "feedback", "not_run", "fields"):
            cursor = file.execute(f"SELECT * FROM {table}")
            found[table] = sorted((row[1:] for row in cursor), key=repr)
        return found


def test_json_lines_come_back_as_they_were(llmeval, filled, tmp_path):
    """Every table has the same rows in the same order, and the next export has the same lines."""
    text = exported(llmeval, filled.path)
    (tmp_path / "day.jsonl").write_text(text, "utf-8")
    done = llmeval("import", "day.jsonl", "--store", "new/llmeval.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert "imported 8 spans, 7 evaluations, 2 labels and 1 judge that did not run" in done.stdout
    assert sorted_rows(tmp_path / "new/llmeval.db") == sorted_rows(filled.path)
    assert exported(llmeval, "new/llmeval.db") == text
