"""What people said filters the list, and its course stands on the overview and on a page."""

import re
import time
from contextlib import closing

import pytest

from llmeval_sdk.model import Evaluation, EvaluationEvent, Target
from llmeval_sdk.store.labelling import add_feedback
from llmeval_sdk.store.labels import feedback_of_period, recent_feedback
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.viewer._overview import MAX_ROWS


HOUR_NS = 3_600 * 10**9


def say(store, span, name, value, *, ago=0):
    """Store what somebody said of a span."""
    target = Target(span.trace_id, span.span_id, span.name, span.kind)
    say.count += 1
    outcome = Evaluation(name, value, evaluator_kind="human")
    at = time.time_ns() - ago * 10**9
    add_feedback(store.path, EvaluationEvent(f"{span.span_id}-{say.count}", target, outcome, at))


say.count = 0


def shown(page):
    """Return the spans that a list shows."""
    return re.findall(r'data-id="([0-9a-f]+)"', page.text)


@pytest.fixture
def spoken(store):
    """Return four traces: liked, disliked, first liked and then disliked, and never spoken of."""
    liked, disliked, changed, silent = (store.trace(f"request {n}") for n in range(4))
    say(store, liked, "thumbs", True, ago=50)
    say(store, disliked, "thumbs", False, ago=40)
    say(store, changed, "thumbs", True, ago=30)
    say(store, changed, "thumbs", False, ago=20)
    say(store, liked, "quality", "no", ago=10)
    return liked, disliked, changed, silent


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("thumbs", [2, 1, 0]),
        ("-thumbs", [2, 1]),
        ("+thumbs", [0]),
        ("*", [0, 2, 1]),
        ("-*", [0, 2, 1]),
        ("+*", [0]),
        ("quality", [0]),
        ("+quality", []),
        ("unknown", []),
        ("-", [3, 2, 1, 0]),
        ("", [3, 2, 1, 0]),
    ],
)
def test_the_list_filters_by_what_people_said(spoken, site, said, expected):
    """By name, by good or bad, or by anything; what somebody said last counts."""
    page = site.get(said=said)
    assert page.status == 200
    assert shown(page) == [spoken[place].span_id for place in expected]


@pytest.mark.parametrize(
    "others",
    [
        {"sort": "@time"}, {"sort": "@took"}, {"sort": "context_recall_heuristic"},
        {"span": "answer"}, {"evaluator": "context_recall_heuristic", "op": "above", "value": "0.5"},
        {"range": "1h"}, {"q": "request"}, {"judge": "no"},
    ],
)  # fmt: skip
def test_it_works_together_with_the_other_filters(spoken, site, others):
    """Whatever else is asked for, only what was disliked is listed."""
    page = site.get(said="-thumbs", **others)
    assert sorted(shown(page)) == sorted(spoken[place].span_id for place in (1, 2))


def test_the_filter_survives_paging_and_offers_the_names(spoken, store, site):
    """Each page's link keeps the filter; the form shows what is chosen."""
    for number in range(120):
        say(store, store.trace(f"more {number}"), "thumbs", False)
    seen, query = [], "/?said=-thumbs"
    while query:
        page = site.get(query)
        seen += shown(page)
        link = re.search(r'rel="next" href="([^"]+)"', page.text)
        query = link and link[1].replace("&amp;", "&")
    assert len(seen) == len(set(seen)) == 122
    assert '<option value="-thumbs" selected>thumbs: bad</option>' in page.text


def test_a_form_without_feedback_offers_no_filter(store, site):
    """Where nobody said anything, the form stays as short as it was."""
    store.trace()
    assert 'name="said"' not in site.get("/").text


def text_of(page):
    """Return what a page says, without its charts."""
    return " ".join(re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<svg.*?</svg>", "", page.text)).split())


def test_the_overview_says_who_spoke_and_how(store, site):
    """The share of the requests, the mean now and before, and a chart of its course."""
    for number in range(8):
        root = store.trace(f"request {number}")
        if number < 4:
            say(store, root, "thumbs", number != 0, ago=number * 3_600)
    say(store, store.trace("old"), "thumbs", False, ago=30 * 3_600)
    page = site.get("/overview")
    told = text_of(page)
    assert "thumbs 4 0.75 0" in told, told[-700:]
    assert "44.44% of the requests have feedback" in told
    assert 'aria-label="thumbs"' in page.text
    assert "said=-thumbs" in page.text


def test_stars_have_a_mean_on_the_overview_and_words_a_count(store, site):
    """Neither is good or bad by itself, so no link leads to bad ones."""
    for number in range(4):
        root = store.trace(f"request {number}")
        say(store, root, "stars", 2.0 + number, ago=number * 3_600)
        say(store, root, "tone", "polite", ago=number * 3_600)
    page = site.get("/overview")
    assert "stars 4 3.50" in text_of(page)
    assert "tone 4 –" in text_of(page)
    assert 'aria-label="stars"' in page.text
    assert "said=stars" in page.text
    assert "said=-stars" not in page.text


def test_feedback_has_a_page_of_its_own(spoken, store, site):
    """A name that no evaluator has shows its course; that of an evaluator shows both."""
    page = site.get("/scores/thumbs")
    assert page.status == 200
    told = text_of(page)
    assert "what people said · 3 said · mean 0.33" in told
    assert "Mean over time" in told
    say(store, spoken[0], "context_recall_heuristic", 0.2)
    assert "People: mean over time" in text_of(site.get("/scores/context_recall_heuristic"))
    assert site.get("/scores/nobody").status == 404


def test_what_was_said_of_sessions_counts_each_time(store, site):
    """Nothing tells whose earlier word it would replace, so no two are one."""
    store.trace("request")
    for number in range(10):
        outcome = Evaluation("thumbs", number % 2 == 0, evaluator_kind="human")
        at = time.time_ns() - number * 10**9
        add_feedback(store.path, EvaluationEvent(f"session-{number}", Target(), outcome, at))
    now = time.time_ns()
    with closing(StoreReader(store.path)) as reader:
        spoken = reader.read(lambda c: feedback_of_period(c, now - HOUR_NS, now + HOUR_NS))
        recent = reader.read(lambda c: recent_feedback(c, "thumbs", None))
    (said,) = spoken.by_name
    assert (said.count, said.mean, spoken.traces) == (10, 0.5, 0)
    assert len(recent.values) == 10


def test_the_overview_shows_the_names_with_most_feedback(store, site):
    """A client that invents names makes no page that grows with them."""
    span = store.trace("request")
    for number in range(40):
        say(store, span, f"name-{number:02}", True)
    say(store, store.trace("another"), "name-39", True)
    page = site.get("/overview")
    names = set(re.findall(r"name-\d\d", page.text))
    assert len(names) == MAX_ROWS
    assert "name-39" in names
    assert f"not shown: {40 - MAX_ROWS}." in page.text


def test_a_period_that_was_not_read_whole_is_not_compared(store, monkeypatch):
    """Where the limit cuts the period before, there is no mean of it."""
    span = store.trace("request")
    now = time.time_ns()
    for ago in (5_000, 4_500, 4_000, 1):
        say(store, store.trace(f"request {ago}"), "thumbs", ago != 4_500, ago=ago)
    say(store, span, "thumbs", True, ago=2)

    def before():
        with closing(StoreReader(store.path)) as reader:
            (said,) = reader.read(
                lambda c: feedback_of_period(c, now - HOUR_NS, now + 10**9)
            ).by_name
        return said.before

    assert before() == pytest.approx(2 / 3)
    monkeypatch.setattr("llmeval_sdk.store.labels.MAX_FEEDBACK", 3)
    assert before() is None
