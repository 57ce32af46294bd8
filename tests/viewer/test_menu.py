"""The menu leads to pages that have something to show, and pages show no empty columns."""

import re

from llmeval_sdk.model import Usage


def menu(page):
    """Return the words of the menu."""
    nav = re.search(r'(?s)<nav aria-label="Pages">(.*?)</nav>', page.text)[1]
    return re.findall(r">([A-Z]\w+)</a>", nav)


def test_a_store_with_bare_traces_has_two_pages(site, store):
    """No sessions, scores, versions, labels and reports: no links to their empty pages."""
    assert menu(site.get("/")) == ["Traces", "Overview"]
    store.write(spans=[store.span()])
    page = site.get("/")
    assert menu(page) == ["Traces", "Overview"]
    assert "<legend>Score</legend>" not in page.text
    assert "<span>Judge</span>" not in page.text
    assert "Tokens</th>" not in site.get("/overview").text


def test_pages_join_the_menu_when_there_is_something_to_show(site, store):
    """Each as soon as it has something; a page that somebody opens by its address is named too."""
    site.get("/")
    span = store.span(session_id="s-1", tags={"release": "7"})
    verdict = store.score(span, "safety", "yes", evaluator_kind="judge")
    store.write(spans=[span], evaluations=[verdict])
    words = ["Traces", "Overview", "Sessions", "Scores", "Versions", "Label"]
    assert menu(site.get("/")) == words
    assert "Experiments" in menu(site.get("/experiments"))
    reports = store.path.with_name("reports")
    reports.mkdir()
    (reports / "one.jsonl").write_text("{}")
    assert "Experiments" in menu(site.get("/"))


def test_versions_are_offered_where_judges_answered(site, store):
    """They are compared by that; scores alone leave the page empty."""
    span = store.span(tags={"release": "7"}, model_name="gpt-4o")
    store.write(spans=[span], evaluations=[store.score(span, "groundedness_risk", 0.4)])
    assert menu(site.get("/")) == ["Traces", "Overview", "Scores"]


def test_labels_that_are_off_are_not_in_the_menu(serve, store):
    span = store.span()
    verdict = store.score(span, "safety", "yes", evaluator_kind="judge")
    store.write(spans=[span], evaluations=[verdict])
    assert menu(serve(feedback=False).get("/")) == ["Traces", "Overview", "Scores"]


def test_a_session_without_model_calls_has_no_cost(site, store):
    """And one with calls has it, of unknown price too."""
    bare = store.span(session_id="bare")
    store.write(spans=[bare])
    assert "<dt>Cost</dt>" not in site.get("/session", id="bare").text
    root = store.span(session_id="s")
    call = store.span("chat", kind="llm", parent=root, session_id="s", usage=Usage(9, 1, 10))
    store.write(spans=[root, call])
    assert "<dt>Cost</dt>" in site.get("/session", id="s").text
