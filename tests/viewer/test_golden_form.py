"""A request is added to a golden set from its page, and nothing else can be written that way."""

from __future__ import annotations

import pytest

from llmeval_sdk.offline import GoldenSet, golden_sets


def form(root, **given):
    return {"trace_id": root.trace_id, "span_id": root.span_id, **given}


def folder(store):
    return store.path.parent / "datasets"


def test_a_request_is_added_with_its_expected_answer(store, site):
    """The browser is led back to the page, which says so; the command evaluates the set."""
    root = store.trace()
    assert 'action="/golden"' in site.get(f"/traces/{root.trace_id}").text
    answer = site.post("/golden", form(root, dataset="answers", expected="<b>Slate.</b>"))
    assert answer.status == 303
    (row,) = GoldenSet("answers", folder=folder(store))
    assert (row["request_id"], row["expected_response"]) == (root.span_id, "<b>Slate.</b>")
    page = site.get(answer.headers["location"].partition("#")[0])
    assert "llmeval evaluate --dataset answers" in page.text


def test_a_page_claims_nothing_that_is_not_so(store, site):
    """An address that names a set says nothing where the request is not in it."""
    root = store.trace()
    for name in ("answers", "../x", "<script>alert(1)</script>"):
        page = site.get(f"/traces/{root.trace_id}?golden={name}")
        assert page.status == 200
        assert "--dataset" not in page.text


@pytest.mark.parametrize("name", ["", "../evil", "/etc/x", "a/b", "answers@1", "a" * 65])
def test_a_set_is_only_made_beside_the_store(store, site, name):
    """A name is no path, and a version never changes."""
    root = store.trace()
    assert site.post("/golden", form(root, dataset=name)).status == 400
    assert golden_sets(folder(store)) == []


def test_other_sites_cannot_post(store, site):
    """As for labels: a form of another page is refused, and so is an unknown trace."""
    root = store.trace()
    crossed = {"sec-fetch-site": "cross-site"}
    assert site.post("/golden", form(root, dataset="answers"), headers=crossed).status == 403
    assert site.post("/golden", {"trace_id": "x", "span_id": "y", "dataset": "a"}).status == 404
    assert golden_sets(folder(store)) == []
