"""Labels are stored as submit_feedback stores them, and nothing else can be written."""

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import cli
from llmeval_sdk.errors import ExportError
from llmeval_sdk.store import labelling
from llmeval_sdk.store.reader import StoreReader


def form(root, **given):
    return {"trace_id": root.trace_id, "span_id": root.span_id, **given}


def labels(path):
    with StoreReader(path) as reader:
        return reader.feedback()


def test_a_label_is_stored_and_shown(store, site):
    """A visitor is led back to the trace, where the label stands."""
    root = store.trace()
    answer = site.post("/feedback", form(root, name="thumbs", value="up", note="as in the book"))
    assert answer.status == 303
    assert answer.headers["location"] == f"/traces/{root.trace_id}?span={root.span_id}#labels"
    (event,) = labels(store.path)
    assert event.target.span_id == root.span_id
    assert event.evaluation.value == "up"
    assert event.evaluation.evaluator_kind == "human"
    page = site.get(f"/traces/{root.trace_id}")
    assert "as in the book" in page.text
    assert "thumbs" in site.get().text


def test_a_label_has_the_shape_of_submitted_feedback(store, site, tmp_path):
    """Whoever reads feedback cannot tell where it was given, but for who gave it."""
    root = store.trace()
    site.post("/feedback", form(root, name="groundedness", value="no", note="invented"))
    llmeval.configure(store=str(tmp_path / "other.db"))
    llmeval.submit_feedback(
        label="groundedness", value="no", reasoning="invented", submitter={"id": "viewer"},
        span={"trace_id": root.trace_id, "span_id": root.span_id}, source="review",
    )  # fmt: skip
    llmeval.flush(10)
    (ours,), (theirs,) = labels(store.path), labels(tmp_path / "other.db")
    assert ours.evaluation.metadata | {"source": "review"} == theirs.evaluation.metadata
    assert replace(ours.evaluation, metadata={}) == replace(theirs.evaluation, metadata={})
    assert ours.target.span_id == theirs.target.span_id


def test_a_number_is_stored_as_one(store, site):
    """A label that is a number can be compared with a score; NaN is only a word."""
    root = store.trace()
    for value in ("0.25", "nan", "slate"):
        site.post("/feedback", form(root, name="quality", value=value))
    assert [each.evaluation.value for each in labels(store.path)] == [0.25, "nan", "slate"]


def test_labels_feed_the_agreement(store, site, capsys):
    """What visitors say of a judge is what `llmeval agreement` measures it against."""
    pytest.importorskip("scipy")
    for said in ("no", "no", "yes"):
        root = store.judged(verdict="no")
        site.post("/feedback", form(root, name="groundedness", value=said))
    code = cli.main(["judges", "--store", str(store.path), "--evaluator", "groundedness", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert found["count"] == 3
    assert found["estimates"]["accuracy"]["value"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("name", "value", "agree"),
    [
        ("groundedness", "no", "no"),
        ("correct", True, "yes"),
        ("context_precision", 0.9, "yes"),
        ("groundedness_risk", 0.9, "no"),
        ("semantic_validation", "pass", "yes"),
    ],
)
def test_agreeing_means_the_side_the_evaluator_took(store, site, name, value, agree):
    """The first button of an evaluation labels it as it was, the second the other way."""
    root = store.trace()
    store.write(evaluations=[store.score(root, name, value)])
    page = site.get(f"/traces/{root.trace_id}").text
    at = page.index(f'name="name" value="{name}"')
    buttons = page[at : page.index("</form>", at)]
    other = "no" if agree == "yes" else "yes"
    assert buttons.index(f'value="{agree}" title="Agree') < buttons.index(
        f'value="{other}" title="Dis'
    )


def test_whoever_labels_stays_where_they_are(store, site):
    """The page comes back at the score that was labelled, with the chosen button pressed."""
    root = store.judged(verdict="no")
    given = form(root, name="groundedness", value="yes", at="score-1")
    assert site.post("/feedback", given).headers["location"].endswith("#score-1")
    page = site.get(f"/traces/{root.trace_id}").text
    row = page[page.index('id="score-1"') : page.index('id="score-2"')]
    assert re.findall(r'value="(\w+)" title="[^"]*" [^>]*aria-pressed="true"', row) == ["yes"]
    assert "A person said: <bdi>yes</bdi>" in row


@pytest.mark.parametrize("place", ["", "labels", "score-x", "//elsewhere", "score-1\r\nx: y"])
def test_only_places_of_the_page_are_gone_back_to(store, site, place):
    """What is no place of ours leads to the labels."""
    given = form(store.trace(), name="thumbs", value="up", at=place)
    assert site.post("/feedback", given).headers["location"].endswith("#labels")


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"name": "", "value": "up"}, 400),
        ({"name": "thumbs", "value": "  "}, 400),
        ({"name": "thumbs", "value": "up", "span_id": "0" * 16}, 404),
        ({"name": "thumbs", "value": "x" * 30_000}, 413),
    ],
)
def test_a_label_that_cannot_be_stored_says_why(store, site, given, status):
    """A refused label is an error on a page, and no row."""
    root = store.trace()
    assert site.post("/feedback", {**form(root), **given}).status == status
    assert labels(store.path) == ()


def test_labels_can_be_switched_off(store, serve):
    """An app that mounts the viewer for reading only gets no forms, and no writes."""
    root = store.trace()
    site = serve(feedback=False)
    assert "<form" not in site.get(f"/traces/{root.trace_id}").text
    assert site.post("/feedback", form(root, name="thumbs", value="up")).status == 403


def test_the_writer_can_do_nothing_else(store):
    """SQLite refuses every statement of its connection but adding feedback."""
    store.trace()
    with closing(sqlite3.connect(store.path)) as connection:
        connection.set_authorizer(labelling._only_feedback)
        for statement in (
            "DELETE FROM feedback",
            "UPDATE feedback SET value = 1",
            "INSERT INTO spans (name) VALUES ('x')",
            "DROP TABLE feedback",
            "SELECT * FROM spans",
            "ATTACH ':memory:' AS other",
            "PRAGMA journal_mode = DELETE",
        ):
            with pytest.raises(sqlite3.DatabaseError, match=r"not authorized|prohibited"):
                connection.execute(statement)


def test_a_store_that_is_gone_is_not_made_anew(store, tmp_path, site):
    """Feedback for a deleted store fails instead of starting an empty one."""
    root = store.trace()
    (event,) = [store.score(root, "thumbs", "up", evaluator_kind="human")]
    with pytest.raises(ExportError):
        labelling.add_feedback(tmp_path / "gone.db", event)
    assert not (tmp_path / "gone.db").exists()
