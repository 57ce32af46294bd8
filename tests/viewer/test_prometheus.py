"""The gauges of `/metrics`: scores with intervals, who was judged, and what is left of the budget."""

import sqlite3
import time
from contextlib import closing

import metered_store
import pytest
from metered_store import scraped

from llmeval_sdk.store.losses import Process
from llmeval_sdk.viewer._prometheus import FRESH_SECONDS, FigureSource


def of(samples, name):
    """Return the samples of one metric, by their labels."""
    begin = f"{name}{{"
    return {
        key.removeprefix(begin)[:-1]: value
        for key, value in samples.items()
        if key.startswith(begin)
    }


JUDGE = 'evaluator="groundedness",kind="judge",name="answer"'
FREE = 'evaluator="groundedness_risk",kind="free",name="answer"'


def test_scores_have_means_with_intervals(serve, store):
    """Judges and free scores, for each span name, as `llmeval report` estimates them."""
    metered_store.fill(store)
    samples = scraped(serve(metrics=True))
    mean, low, high = (of(samples, f"llmeval_score_mean{end}") for end in ("", "_low", "_high"))
    assert mean.keys() == low.keys() == high.keys() == {JUDGE, FREE}
    assert mean[FREE] == pytest.approx(39 / 80)
    assert mean[JUDGE] == pytest.approx(13 / 20)
    assert all(low[about] < mean[about] < high[about] for about in mean)


def test_who_was_judged_and_why_not(serve, store):
    """The funnel by its steps, the refusals by reason, and what judges cost."""
    metered_store.fill(store)
    samples = scraped(serve(metrics=True))
    about = 'evaluator="groundedness",name="answer"'
    steps = of(samples, "llmeval_judge_requests")
    assert [
        steps[f'{about},step="{step}"'] for step in ("eligible", "selected", "budgeted", "scored")
    ] == [40, 30, 20, 20]
    assert of(samples, "llmeval_judge_not_run") == {
        f'{about},reason="not_escalated"': 10,
        f'{about},reason="over_budget"': 10,
    }
    assert of(samples, "llmeval_judge_cost_usd")[about] == pytest.approx(0.05)


def test_a_judge_of_words_has_no_mean(serve, store):
    """A mean that cannot be said is no series, rather than a zero."""
    store.write(evaluations=[store.score(store.span(), "topic", "roof", evaluator_kind="judge")])
    samples = scraped(serve(metrics=True))
    assert of(samples, "llmeval_score_mean") == {}
    assert of(samples, "llmeval_judge_requests")


def test_what_is_left_of_the_budget(serve, store, monkeypatch):
    """The books beside the store say what is spent, and the setting what may be."""
    site = serve(metrics=True)
    metered_store.fill(store, 1)
    assert of(scraped(site), "llmeval_budget_left_usd") == {}, "there are no books yet"
    metered_store.spend(store)
    monkeypatch.setenv("LLMEVAL_BUDGET_USD_PER_DAY", "2")
    samples = scraped(site)
    assert of(samples, "llmeval_budget_spent_usd") == {'judge=""': metered_store.SPENT}
    assert of(samples, "llmeval_budget_left_usd") == {'judge=""': 2 - metered_store.SPENT}


def test_books_that_cannot_be_read_are_no_budget(serve, store):
    """Nothing is shown of them, and the page still answers."""
    metered_store.fill(store, 1)
    store.path.with_suffix(".ledger").write_text("no database")
    assert of(scraped(serve(metrics=True)), "llmeval_budget_left_usd") == {}


def test_what_doctor_says_of_the_store_is_a_gauge(serve, store):
    """Whoever watches with Prometheus learns of losses by reason, and whether it is a problem."""
    metered_store.fill(store, 1)
    store.writer.note_losses(Process(time.time_ns(), 1), {"local": {"queue_full": 7}})
    site = serve(metrics=True)
    assert of(scraped(site), "llmeval_findings") == {
        'about="local: queue_full",kind="loss",severity="problem"': 7,
    }
    store.writer.note_losses(Process(time.time_ns(), 2), {})
    assert of(scraped(site), "llmeval_findings") == {
        'about="local: queue_full",kind="loss",severity="note"': 7,
    }


def test_evaluators_beyond_the_bound_are_counted(serve, store):
    """A hostile number of names makes no more series than the bound allows."""
    span = store.span()
    store.write(evaluations=[store.score(span, f"score-{number}", 0.5) for number in range(130)])
    samples = scraped(serve(metrics=True))
    assert len(of(samples, "llmeval_score_mean")) == 100
    assert samples["llmeval_score_pairs_left_out"] == 30


def test_a_failed_reading_keeps_the_figures_and_is_counted(serve, store, monkeypatch):
    """The page answers with what it knows; the time of the reading says how old that is."""
    metered_store.fill(store)
    monkeypatch.setattr("llmeval_sdk.viewer._prometheus.FRESH_SECONDS", -1_000.0)
    monkeypatch.setattr("llmeval_sdk.viewer._prometheus.REST", 0)
    site = serve(metrics=True)
    before = scraped(site)
    with closing(sqlite3.connect(store.path)) as database:
        database.execute("ALTER TABLE evaluations RENAME TO elsewhere")
    after = scraped(site)
    assert of(after, "llmeval_score_mean") == of(before, "llmeval_score_mean")
    assert after["llmeval_score_read_failures_total"] == 1


def test_figures_are_not_read_for_every_scrape():
    """Estimates over a large store take seconds, so a reading serves the scrapes after it."""
    readings = []
    source = FigureSource(lambda location, now: readings.append(location))
    for _ in range(5):
        source.figures("a.db")
    source.figures("b.db")
    assert FRESH_SECONDS > 1
    assert readings == ["a.db", "b.db"]


def test_a_damaged_row_costs_the_figures_of_scores_alone(serve, store):
    """A version that is no text cannot be ordered, and no counter is lost over that."""
    metered_store.fill(store)
    with closing(sqlite3.connect(store.path)) as database:
        database.execute("UPDATE evaluations SET evaluator_version = x'ff' WHERE seq = 1")
        database.commit()
    samples = scraped(serve(metrics=True))
    assert samples["llmeval_score_read_failures_total"] == 1
    assert of(samples, "llmeval_score_mean") == {}
