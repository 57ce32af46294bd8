"""A request is a span that nothing of ours is above, whatever stands above it elsewhere."""

import itertools
import json
import sqlite3
from contextlib import closing

import pytest

from llmeval_sdk.cli import main
from llmeval_sdk.model import Batch
from llmeval_sdk.store import _schema
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.requests import _SETTLE
from llmeval_sdk.store.span_lists import Query, listed_spans
from llmeval_sdk.store.writer import StoreWriter


TRACE, OUTSIDE, OTHER = "ab" * 16, "cd" * 8, "ef" * 8


@pytest.fixture
def writer(path):
    with closing(StoreWriter(path, max_days=0)) as writer:  # the spans below began in 1970
        yield writer


def requests(store):
    """Return the names of the requests that a list shows, in the order in which they began."""
    with closing(StoreReader(store)) as reader:
        return [item.name for item in listed_spans(reader, Query(order="oldest"), 50)]


def under(make, name, start_ns, parent=OUTSIDE, **given):
    """Return a local root below a span that is not ours."""
    return make.span(
        name, trace=TRACE, start_ns=start_ns, parent_id=parent, outside_parent=True, **given
    )


def in_every_order(tmp_path, spans):
    """Return the lists of requests of stores in which the spans arrived one by one."""
    seen = []
    for number, order in enumerate(itertools.permutations(spans)):
        with closing(StoreWriter(tmp_path / f"{number}.db", max_days=0)) as writer:
            for span in order:
                writer.write(Batch((span,)))
        seen.append(requests(tmp_path / f"{number}.db"))
    return seen


def every(seen):
    """Return what all of the lists say, which has to be the same."""
    assert all(each == seen[0] for each in seen), seen
    return seen[0]


def test_a_local_root_is_the_request_and_its_parent_comes_back(writer, make):
    """A span below another service's is listed, and is read back with the parent that it has."""
    span = under(make, "answer", 5)
    step = make.span("step", trace=TRACE, start_ns=6, parent_id=span.span_id, kind="task")
    writer.write(Batch((step, span)))
    assert requests(writer.location) == ["answer"]
    with closing(StoreReader(writer.location)) as reader:
        assert reader.span(span.span_id) == span
        assert reader.span(step.span_id) == step


def test_a_parent_that_is_merely_missing_makes_no_request(writer, make):
    """A step whose parent was dropped, or is yet to be written, is not taken for a request."""
    writer.write(Batch((make.span("step", trace=TRACE, parent_id=OTHER),)))
    assert requests(writer.location) == []


def test_two_below_the_same_outside_parent_are_one_request(tmp_path, make):
    """The earliest is listed, in whatever order they arrive; another parent is another request."""
    spans = [under(make, "second", 7), under(make, "first", 5), under(make, "third", 9)]
    assert every(in_every_order(tmp_path / "same", spans)) == ["first"]
    spans[0] = under(make, "of another call", 7, OTHER)
    assert every(in_every_order(tmp_path / "two", spans)) == ["first", "of another call"]


def test_two_that_begin_at_once_are_one_request(tmp_path, make):
    """Which of two is listed does not depend on which of them arrived first."""
    spans = [under(make, name, 5, span_id=name * 16) for name in "ba"]
    assert every(in_every_order(tmp_path, spans)) == ["a"]


def test_the_outer_service_has_the_request_of_a_trace_that_both_store(tmp_path, make):
    """Where the parent is in the store after all, the span is a step of that parent's request."""
    outer = make.span("outer", trace=TRACE, start_ns=1)
    call = make.span("call", trace=TRACE, start_ns=2, parent_id=outer.span_id, kind="task")
    inner = under(make, "inner", 3, call.span_id)
    assert every(in_every_order(tmp_path / "direct", [outer, call, inner])) == ["outer"]
    outer = under(make, "outer", 1, span_id=outer.span_id)
    assert every(in_every_order(tmp_path / "below", [outer, call, inner])) == ["outer"]


def test_what_is_between_two_services_need_not_be_stored(tmp_path, make):
    """A trace that has a span which nothing is above is one request, whatever is missing."""
    outer = make.span("outer", trace=TRACE, start_ns=1)
    spans = [outer, under(make, "inner", 3), under(make, "other", 2, OTHER)]
    assert every(in_every_order(tmp_path, spans)) == ["outer"]


def test_a_batch_that_is_delivered_twice_changes_nothing(writer, make):
    """Delivery is at least once: the second time, the later of two is still no request."""
    batch = Batch((under(make, "second", 7), under(make, "first", 5)))
    writer.write(batch)
    writer.write(batch)
    assert requests(writer.location) == ["first"]


def test_a_trace_of_any_size_is_not_read_for_each_batch(writer, make):
    """A client that always sends the same header makes one trace, of all that it asks for."""
    writer.write(Batch((under(make, "answer", 5),)))
    with closing(sqlite3.connect(writer.location)) as raw:
        empty = {"above": "[]", "whole": "[]"}
        plan = [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {_SETTLE}", empty)]
    of_spans = [
        step for step in plan if "VIRTUAL TABLE" not in step and step[:4] in ("SCAN", "SEAR")
    ]
    assert len(of_spans) == 6
    assert all(step.startswith("SEARCH") for step in of_spans), plan
    assert [step for step in of_spans if "spans_by_trace (trace_id=? AND span_id=?)" in step]


@pytest.mark.parametrize("form", ["jsonl", "otlp"])
def test_an_import_has_the_requests_that_were_exported(tmp_path, make, form):
    """A request stays one, and two that are one stay one, in either form of an export."""
    store, file, copy = (tmp_path / name for name in ("a.db", f"a.{form}", "b.db"))
    spans = [under(make, "second", 2_000), under(make, "first", 1_000)]
    with closing(StoreWriter(store, max_days=0)) as writer:
        writer.write(Batch((*spans, make.span("lost", trace=TRACE, parent_id=OTHER))))
    export = ["export", "--store", str(store), "--out", str(file)]
    assert main([*export, *(["--format", "otlp"] if form == "otlp" else [])]) == 0
    assert main(["import", str(file), "--store", str(copy)]) == 0
    assert requests(copy) == ["first"]
    with closing(StoreReader(copy)) as reader:
        assert [reader.span(span.span_id).parent_id for span in spans] == [OUTSIDE, OUTSIDE]


def test_an_exported_row_says_it(tmp_path, make):
    """A row of an export has the parent of its span, and whether that is a span of ours."""
    store, file = tmp_path / "a.db", tmp_path / "a.jsonl"
    with closing(StoreWriter(store, max_days=0)) as writer:
        writer.write(Batch((under(make, "answer", 1_000),)))
    assert main(["export", "--store", str(store), "--out", str(file)]) == 0
    row = json.loads(file.read_text("utf-8"))
    assert (row["parent_id"], row["outside_parent"]) == (OUTSIDE, True)


def test_a_store_of_an_older_release_keeps_its_requests(path, make, monkeypatch):
    """Requests of before are requests, what lacks its parent there is none, and new ones come."""
    new = _schema.STORE
    older = _schema.Schema(new.application_id, new.scripts[:3])
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        older.migrate(raw)
        raw.execute("PRAGMA journal_mode = WAL").fetchall()
        for name, parent in (("old", None), ("step", OTHER)):
            raw.execute(
                "INSERT INTO spans (trace_id, span_id, parent_id, name, kind, start_ns, end_ns)"
                " VALUES (?, ?, ?, ?, 'workflow', 1, 2)",
                ("12" * 16, name.ljust(16, "0"), parent, name),
            )
    with closing(StoreWriter(path, max_days=0)) as writer:
        writer.write(Batch((under(make, "new", 5),)))
        assert writer.fallback_reason is None
    assert requests(path) == ["old", "new"]
