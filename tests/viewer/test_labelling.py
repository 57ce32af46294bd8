"""The page that hands out judged records: one after the other, stored with their chances."""

import re
import sqlite3
from contextlib import closing

from llmeval_sdk.model import Chunk, Extraction
from llmeval_sdk.store.reader import StoreReader


JUDGE = "groundedness"


def fill(store, count=20):
    for number in range(count):
        span = store.span(request=f"question <b>{number}</b>", response="It is slate.")
        given = {"evaluator_kind": "judge", "inclusion_probability": 0.5}
        verdict = "no" if number % 5 == 0 else "yes"
        risk = store.score(
            span, "groundedness_risk", 0.5, metadata={"unsupported_spans": [[6, 11], ["x"]]}
        )
        store.write(spans=[span], evaluations=[risk, store.score(span, JUDGE, verdict, **given)])


def shown_span(page):
    return re.search(r'name="span_id" value="(\w+)"', page.text)[1]


def answer(site, page, value, count="10"):
    form = {"judge": JUDGE, "span_id": shown_span(page), "value": value, "labels": count}
    form["skip"] = re.search(r'name="skip" value="([^"]*)"', page.text)[1]
    done = site.post("/label", form)
    assert done.status == 303
    return site.get(done.headers["location"])


def test_records_are_labelled_one_after_the_other(site, store):
    """Yes, skip and no lead on; what was said is stored with the chance of the choice."""
    fill(store)
    first = site.get("/label", labels=10)
    assert "<mark" in first.text
    assert "question &lt;b&gt;" in first.text
    second = answer(site, first, "yes")
    assert shown_span(second) != shown_span(first)
    third = answer(site, second, "skip")
    assert shown_span(third) not in {shown_span(first), shown_span(second)}
    fourth = answer(site, third, "no")
    with StoreReader(store.path) as reader:
        said = {e.target.span_id: e.evaluation for e in reader.feedback(JUDGE)}
    assert {span: each.value for span, each in said.items()} == {
        shown_span(first): "yes", shown_span(third): "no",
    }  # fmt: skip
    assert all(0 < each.metadata["inclusion_probability"] <= 1 for each in said.values())
    back = site.get(re.search(r'href="([^"]*)" data-key="u"', fourth.text)[1].replace("&amp;", "&"))
    assert shown_span(back) == shown_span(third)


def test_the_page_shows_the_rubric_the_passages_and_the_evidence(site, store):
    """All that is needed to judge; what an extraction quotes is marked in its passage."""
    span = store.span(
        request="the roof?", response="slate",
        retrieved_context=(Chunk("The barn. The roof is slate."),),
        extractions=(Extraction("slate", 1, 0.9, "The roof is slate."),),
    )  # fmt: skip
    verdict = store.score(span, JUDGE, "yes", evaluator_kind="judge", inclusion_probability=0.5)
    store.write(spans=[span], evaluations=[verdict])
    page = site.get("/label").text
    assert "Decide whether the chunks support the response" in page
    assert "The barn. <mark" in page
    assert "from passage 1" in page


def test_labels_that_are_all_alike_are_told(site, store):
    """On the page that collects them, and where they correct a mean."""
    fill(store)
    page = site.get("/label", labels=20)
    for _ in range(20):
        page = answer(site, page, "yes", "20")
    sentence = "All 20 labels are &#39;yes&#39;, and the judge says otherwise of 4"
    assert sentence in page.text
    assert sentence in site.get(f"/scores/{JUDGE}").text


def test_what_is_no_label_is_refused(site, store, serve):
    """Other values, other records, other judges, and a viewer whose labels are off."""
    fill(store)
    span = shown_span(site.get("/label"))
    form = {"judge": JUDGE, "span_id": span, "value": "yes"}
    assert site.post("/label", {**form, "value": "maybe"}).status == 400
    assert site.post("/label", {**form, "span_id": "00" * 8}).status == 404
    assert site.post("/label", {**form, "judge": "nothing"}).status == 404
    assert site.get("/label", judge="nothing").status == 404
    assert site.get("/label", labels="9" * 40, skip="," * 900).status == 200
    closed = serve(feedback=False)
    assert closed.post("/label", form).status == 403
    assert closed.get("/label").status == 403
    assert ">Label<" not in closed.get("/scores").text


def test_an_empty_store_says_what_is_missing(site, store):
    store.trace()
    page = site.get("/label")
    assert page.status == 200
    assert "Nothing to label yet" in page.text


def test_records_whose_spans_were_pruned_are_said_to_be_gone(site, store):
    """That nothing can be shown does not mean that all of them have a label."""
    fill(store)
    with closing(sqlite3.connect(store.path)) as rows:
        rows.execute("DELETE FROM spans")
        rows.commit()
    text = site.get("/label", labels=10).text
    assert "None of the 10 records that wait for a label is in the store any more" in text
    assert "All chosen records have a label" not in text
