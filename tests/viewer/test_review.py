"""The page of what needs review: doubtful values one after the other, with two keys."""

import re

from llmeval_sdk.evaluation.calibrations import FittedCalibration, write
from llmeval_sdk.heuristics.extraction.risk import extraction_risk
from llmeval_sdk.model import Chunk
from llmeval_sdk.statistics.calibration import Calibration
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.state import state_path


INVOICE = "Acme <b>Ltd</b>\nSubtotal 41.50\nTotal due 47.31"


def place(value):
    start = INVOICE.index(value)
    return {"value": value, "chunk_number": 1, "start": start, "end": start + len(value)}


def fill(store, *fields, **options):
    """Store an answer of an invoice with some fields, and return its span."""
    span = store.span(
        request="Read the <i>invoice</i>.", response={"total": "41.50"},
        retrieved_context=(Chunk(INVOICE),), **options,
    )  # fmt: skip
    worst = max(field["chance"] for field in fields)
    risk = store.score(span, "extraction_risk", worst, metadata={"fields": list(fields)})
    store.write(spans=[span], evaluations=[risk])
    return span


def total(chance=0.93):
    why = {"reason": "it stands under 'Subtotal'", "rival": place("47.31")}
    return {"path": "total", "chance": chance, **place("41.50"), **why}


def vendor(chance=0.5):
    return {"path": "vendor", "value": "Acme <b>", "chance": chance, "reason": None}


def seq(page):
    return re.search(r'name="field" value="(\d+)"', page.text)[1]


def label(site, page, value):
    skip = re.search(r'name="skip" value="([^"]*)"', page.text)[1]
    done = site.post("/review", {"field": seq(page), "value": value, "skip": skip})
    assert done.status == 303
    return site.get(done.headers["location"])


def test_the_worst_value_is_shown_in_its_passage(site, store):
    """Value and rival are marked, and the sentence says why and where."""
    fill(store, vendor(), total())
    page = site.get("/review").text
    assert 'Subtotal <mark class="value">41.50</mark>' in page
    assert 'Total due <mark class="rival">47.31</mark>' in page
    assert "It stands under &#39;Subtotal&#39;, in passage 1." in page
    assert "Acme &lt;b&gt;" in page
    assert "<b>Ltd" not in page


def test_what_the_judge_said_of_the_value_is_shown(site, store):
    """The verdict on this field stands below its reason, as text and nothing else."""
    span = fill(store, total(), vendor())
    verdict = {
        "path": "total", "rating": "no", "chance": 1.0, "right_value": "47.31",
        "rationale": "41.50 is the <b>subtotal</b>",
    }  # fmt: skip
    judged = store.score(
        span, "extraction_correctness", "no", evaluator_kind="judge", metadata={"fields": [verdict]}
    )
    store.write(evaluations=[judged])
    first = site.get("/review")
    assert "The judge calls it wrong; it reads <bdi>47.31</bdi>" in first.text
    assert "41.50 is the &lt;b&gt;subtotal&lt;/b&gt;" in first.text
    assert "The judge calls it" not in label(site, first, "no").text


def test_values_are_labelled_one_after_the_other(site, store):
    """Right, wrong and skip lead on; a label is of the field, and the last one can be seen again."""
    span = fill(store, vendor(0.5), total(0.93), {**vendor(0.3), "path": "buyer"})
    first = site.get("/review")
    second = label(site, first, "no")
    assert 'class="value">Acme' in second.text
    third = label(site, second, "skip")
    fourth = label(site, third, "yes")
    assert seq(fourth) == seq(second)
    with StoreReader(store.path) as reader:
        said = {
            e.evaluation.metadata["field"]: e.evaluation for e in reader.feedback_of(span.span_id)
        }
    assert {field: each.value for field, each in said.items()} == {"total": "no", "buyer": "yes"}
    assert said["total"].name == "extraction_correctness"
    trace = site.get(f"/traces/{span.trace_id}").text
    assert "extraction_correctness</bdi></b> of <bdi>total</bdi>" in trace
    back = re.search(r'href="([^"]*)" data-key="u"', second.text)[1].replace("&amp;", "&")
    assert seq(site.get(back)) == seq(first)
    assert "Nothing needs review" in label(site, fourth, "yes").text


def test_what_is_no_label_is_refused(site, store, serve):
    """Other values, other fields, and a viewer whose labels are off."""
    fill(store, total())
    field = seq(site.get("/review"))
    assert site.post("/review", {"field": field, "value": "maybe"}).status == 400
    for unknown in ("", "9" * 400, "-1", "7_0", "999999"):
        assert site.post("/review", {"field": unknown, "value": "yes"}).status == 404
        assert site.get("/review", field=unknown).status == 200
    off = serve(feedback=False)
    assert off.get("/review").status == 403
    assert ">Review<" not in off.get("/").text


def test_places_that_make_no_sense_are_not_marked(site, store):
    """The store may be a stranger's: other numbers, other types, places beyond the passage."""
    strange = {"chunk_number": 7, "start": "x", "end": -3, "rival": ["y"], "reason": {"a": 1}}
    fill(store, {"path": "total", "value": "41.50", "chance": 0.9, **strange})
    fill(store, {**total(0.8), "start": 10_000, "end": 20_000, "rival": {"start": True}})
    first = site.get("/review")
    assert first.status == 200
    assert "<h3>Passage 1</h3>" in first.text
    assert label(site, first, "skip").status == 200


def test_the_page_is_first_in_the_menu_where_something_needs_review(site, store):
    """A store without doubtful values has no such page to offer."""
    fill(store, vendor(0.1))
    assert ">Review<" not in site.get("/").text
    fill(store, total())
    assert re.search(r'<nav aria-label="Pages">\s*<a href="/review">Review</a>', site.get("/").text)


def test_the_page_says_which_rate_of_errors_the_chances_are_for(site, store):
    """After `llmeval calibrate`, chances are the app's own, with the date of the labels."""
    fill(store, total(0.15), vendor(0.01))
    assert "Nothing needs review" in site.get("/review").text
    fitted = FittedCalibration(
        Calibration(1.0, 1.5, 120), extraction_risk.version, "", 1_767_225_600_000_000_000, 0.5, 0.4
    )
    write(state_path(store.path), {"extraction_risk": fitted})
    page = site.get("/review").text
    assert "own rate of errors, by 120 labels" in page
    assert "0.44" in page
