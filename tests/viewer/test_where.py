"""Every list of the viewer takes the filter of the commands, and links keep it."""

import html
import json
import re
import sqlite3
import threading
import time
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.viewer import _scores, _site
from llmeval_sdk.viewer._render import FILTERED


@pytest.fixture
def tenants(store):
    """Return the traces of two tenants, one of them judged badly."""
    acme = store.judged("question of acme", tags={"tenant": "acme"}, session_id="chat-acme")
    globex = store.trace("question of globex", tags={"tenant": "globex"}, session_id="chat-globex")
    return acme, globex


def rows(page):
    return re.findall(r'<tr data-id="([0-9a-f]+)"', page.text)


def counted(site, path, **query):
    """Return a page once it no longer says that it counts."""
    deadline = time.monotonic() + 60
    while "Still counting" in (page := site.get(path, **query)).text:
        assert time.monotonic() < deadline
    return page


def links(page):
    return [html.unescape(link) for link in re.findall(r'<a[^>]* href="([^"]+)"', page.text)]


def test_the_list_shows_the_requests_of_which_the_conditions_hold(tenants, site):
    """And names each condition, with a link that removes it."""
    acme, _ = tenants
    page = site.get("/", where="tag:tenant=acme")
    assert rows(page) == [acme.span_id]
    assert "tag:tenant=acme" in page.text
    assert len(rows(site.get("/", where="tag:tenant"))) == 2
    assert rows(site.get("/", where="tag:tenant=nobody")) == []


@pytest.mark.parametrize("path", ["/", *FILTERED])
def test_a_link_keeps_the_filter(tenants, site, path):
    """Whatever page it leads to that takes one."""
    page = counted(site, path, where="tag:tenant=acme")
    assert page.status == 200
    kept = [link for link in links(page) if urlsplit(link).path in ("/", *FILTERED)]
    assert len(kept) >= 2
    removing = [link for link in kept if "where" not in parse_qs(urlsplit(link).query)]
    assert len(removing) <= 2  # what removes the condition, and what clears all filters
    assert 'name="where" value="tag:tenant=acme"' in page.text


def test_the_overview_is_of_the_selected_requests(store, tenants, site):
    """Its figures and charts are theirs alone."""
    now = time.time_ns()
    for name, tenant in (("globexasked", "globex"), ("acmeasked", "acme")):
        store.trace("a question", name=name, tags={"tenant": tenant}, start_ns=now, end_ns=now + 1)
    assert "globexasked" in site.get("/overview").text
    of_globex = site.get("/overview", where="tag:tenant=globex").text
    assert "globexasked" in of_globex
    assert "acmeasked" not in of_globex
    assert "No traffic in this period" in site.get("/overview", where="tag:tenant=nobody").text


def test_scores_and_sessions_are_those_of_the_selected_requests(tenants, site):
    """As the commands show them."""
    assert "chat-globex" not in site.get("/sessions", where="tag:tenant=acme").text
    assert "chat-globex" in site.get("/sessions").text
    all_scores = site.get("/scores").text
    of_globex = counted(site, "/scores", where="tag:tenant=globex").text
    assert all_scores != of_globex


@pytest.mark.parametrize("path", ["/scores", "/scores/groundedness"])
def test_scores_that_take_long_are_counted_while_the_page_says_so(tenants, site, path, monkeypatch):
    """To select requests of a million spans and to sum up their scores takes seconds."""
    gate = threading.Event()
    of_all = _scores.known_names

    def held_up(store):
        assert gate.wait(20)
        return of_all(store)

    monkeypatch.setattr(_scores, "known_names", held_up)
    assert "Still counting" in site.get(path, where="tag:tenant=acme").text
    gate.set()
    page = counted(site, path, where="tag:tenant=acme")
    assert "groundedness" in page.text
    monkeypatch.setattr(_scores, "known_names", None)
    assert site.get(path, where="tag:tenant=acme").text == page.text


def test_scores_are_counted_anew_after_a_while(tenants, store, site, monkeypatch):
    """As the requests are looked for again, and with what arrived since."""
    where = {"where": "tag:tenant=acme"}
    assert counted(site, "/scores", **where).text.count("late_score") == 0
    root = store.span(tags={"tenant": "acme"})
    store.write(spans=[root], evaluations=[store.score(root, "late_score", 0.5)])
    assert counted(site, "/scores", **where).text.count("late_score") == 0
    monkeypatch.setattr(_site, "SELECTED_SECONDS", -1.0)
    deadline = time.monotonic() + 60
    while "late_score" not in counted(site, "/scores", **where).text:
        assert time.monotonic() < deadline


def test_an_evaluator_that_has_scored_none_of_the_requests_is_not_found(tenants, site):
    """Also where it has scored others."""
    assert counted(site, "/scores/groundedness", where="tag:tenant=globex").status == 404
    assert counted(site, "/scores/groundedness", where="tag:tenant=acme").status == 200


@pytest.mark.parametrize("path", ["/", *FILTERED])
def test_what_is_no_condition_is_told(tenants, site, path):
    """With what was meant, and as text."""
    page = site.get(path, where="tenant=<b>acme")
    assert page.status == (200 if path == "/" else 400)
    assert "there is no field" in html.unescape(page.text)
    assert "<b>acme" not in page.text
    assert rows(page) == []


def test_requests_that_arrive_are_selected_after_a_while(tenants, store, site, monkeypatch):
    """A selection is remembered for some seconds only."""
    assert "chat-later" not in site.get("/sessions", where="tag:tenant=acme").text
    store.trace("later", tags={"tenant": "acme"}, session_id="chat-later")
    monkeypatch.setattr(_site, "SELECTED_SECONDS", 0.0)
    assert "chat-later" in site.get("/sessions", where="tag:tenant=acme").text


def test_the_search_for_requests_has_a_limit_of_time(tenants, store, site, monkeypatch):
    """A store of a stranger may have a filter look at as much as it likes."""
    tags = json.dumps({f"tag {number}": "x" for number in range(50_000)})
    with sqlite3.connect(store.path) as file:
        file.execute("UPDATE spans SET tags = ? WHERE session_id = 'chat-acme'", (tags,))
    monkeypatch.setattr(_site, "SECONDS", 0.0)
    assert site.get("/sessions").status == 200
    page = site.get("/sessions", where=r'tag:"od\d"=x')
    assert page.status == 503
    assert "it took longer than 0 seconds" in page.text


def test_what_keeps_requests_from_being_found_is_told(tenants, store, site):
    """As other pages tell that the store cannot be read."""
    with sqlite3.connect(store.path) as file:
        file.execute("DROP INDEX spans_summed")
    page = site.get("/sessions", where="tag:tenant=acme")
    assert page.status == 503
    assert "cannot be read: no such index" in page.text


def test_a_label_is_stored_with_the_filter_that_its_record_was_drawn_under(tenants, store, site):
    """The page says where it counts, and pages about other requests leave it out."""
    acme, _ = tenants
    assert "count in figures on" in site.get("/label", where="tag:tenant=acme").text
    assert "count in figures on" not in site.get("/label").text
    fields = {"judge": "groundedness", "span_id": acme.span_id, "value": "yes"}
    answer = site.post(f"/label?{urlencode({'where': 'tag:tenant=acme'})}", fields)
    assert answer.status == 303
    assert "where=" in answer.headers["location"]
    with StoreReader(store.path) as reader:
        (event,) = reader.feedback("groundedness")
    assert event.evaluation.metadata["drawn_from"]["where"] == ["tag:tenant=acme"]
    left_out = "1 label drawn from a part of the traffic (tag:tenant=acme)"
    assert left_out in site.get("/scores/groundedness").text
    assert left_out not in counted(site, "/scores/groundedness", where="tag:tenant=acme").text
