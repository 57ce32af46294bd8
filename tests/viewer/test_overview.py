"""The overview says how much, how fast and how dear, and what has changed."""

import re
import time
from contextlib import closing

import pytest
from metered_store import scraped
from served import serving
from viewer_store import Store

from llmeval_sdk import viewer
from llmeval_sdk.model import JUDGE_TAG, Failure, Usage
from llmeval_sdk.store.losses import Process
from llmeval_sdk.viewer import _site


SECOND = 1_000_000_000


def fill(store, count=200, ago=600, **more):
    """Write requests with one call each, of 10 ms to 2 s."""
    now = time.time_ns() - ago * SECOND
    spans = []
    for number in range(count):
        root = store.span(
            "answer", start_ns=now, end_ns=now + (number + 1) * SECOND // 100,
            error=Failure("TimeoutError", "") if number % 20 == 0 else None, **more,
        )  # fmt: skip
        call = store.span(
            "chat", kind="llm", parent=root, trace=root.trace_id, start_ns=now,
            end_ns=now + SECOND, model_name="gpt-4o", usage=Usage(90, 10, 100, 0.01), **more,
        )  # fmt: skip
        spans += [root, call]
    store.write(spans=spans)


def text_of(page):
    """Return what a page says, without its charts."""
    return " ".join(re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<svg.*?</svg>", "", page.text)).split())


def test_what_is_to_be_known_of_the_store_stands_above_all(site, store):
    """Losses since the last start, by reason and with what helps, as `llmeval doctor` says them."""
    fill(store)
    assert "To be known" not in text_of(site.get("/overview"))
    lost = {"local": {"queue_full": 31_656}}
    store.writer.note_losses(Process(time.time_ns(), 1), lost)
    told = text_of(site.get("/overview"))
    assert "To be known 31,656 records never reached the store since" in told
    assert "`llmeval agent`" in told
    assert told.index("To be known") < told.index("requests")


def lose(store, records, traces):
    lost = {"local": {"queue_full": records}, "traces": {"local": traces}}
    store.writer.note_losses(Process(time.time_ns(), 1), lost)


def test_figures_of_a_period_with_losses_say_so(site, store):
    """Totals are at least what is stored, are compared with nothing, and charts say it as well."""
    fill(store)
    fill(store, ago=26 * 3_600)
    lose(store, 31_656, 200)
    told = text_of(site.get("/overview"))
    assert "In this period: 50% of 400 traces stored, 31,656 records lost (queue_full" in told
    assert "This holds for the charts" in told
    assert "requests ≥ 200 200 –" in told
    assert "cost ≥ $2.00 $2.00 –" in told


def test_figures_are_weighted_where_chances_account_for_what_is_lost(site, store):
    """A trace that stayed by one in four counts as four, in requests, tokens, costs and latencies."""
    fill(store, inclusion_probability=0.25)
    lose(store, 2_400, 600)
    told = text_of(site.get("/overview"))
    assert "25% of 800 traces stored" in told
    assert "requests ≈ 800 " in told
    assert "tokens ≈ 80,000" in told
    assert "cost ≈ $8.00" in told
    fill(store, inclusion_probability=0.25)  # which arrive after the first look
    assert "requests ≈ 1,600 " in text_of(site.get("/overview")).replace("≥", "≈")


def test_it_shows_volume_errors_latency_and_cost(site, store):
    """Each figure is that of the store, also the percentiles."""
    fill(store)
    page = site.get("/overview")
    assert page.status == 200
    told = text_of(page)
    for words in (
        "requests 200 failed",
        "failed 5.00%",
        "tokens 20,000",
        "cost $2.00",
        "answer 200 10",
    ):
        assert words in told, words
    assert "the period before" not in told  # there is none to compare with
    assert "Change" not in told
    p95 = float(re.search(r"latency p95 ([0-9.]+) s", told)[1])
    assert p95 == pytest.approx(1.9, rel=0.01)
    assert page.text.count("<svg") >= 8


def test_what_arrives_later_is_taken_in(site, store):
    """The next page has what was written since, and nothing is counted twice."""
    fill(store)
    site.get("/overview")
    fill(store, count=50)
    for _ in range(2):
        assert "requests 250" in text_of(site.get("/overview"))


def test_what_changed_is_said(site, store):
    """The period before stands beside it; a dearer hour is a change for the worse."""
    fill(store, count=100, ago=30 * 3_600)
    fill(store, count=200)
    told = text_of(site.get("/overview?range=24h"))
    assert "Compared with the period before" in told
    assert "requests 200 100 +100%" in told
    assert "cost ($1.00 to $2.00)" in told


def test_judges_are_not_counted_and_an_empty_store_is_said(site, store):
    """What judges call is theirs; without traffic there is a sentence."""
    fill(store, count=3, tags={JUDGE_TAG: "groundedness"})
    page = site.get("/overview")
    assert page.status == 200
    assert "No traffic in this period" in page.text


def test_prometheus_gets_counters_of_what_happens(serve, store):
    """From the first scrape on, requests, calls, tokens, money and durations are counted."""
    fill(store, count=5)
    site = serve(metrics=True)
    scraped(site)
    fill(store, count=40)
    found = scraped(site)
    assert found['llmeval_requests_total{error_type="",name="answer"}'] == 38
    assert found['llmeval_requests_total{error_type="TimeoutError",name="answer"}'] == 2
    tokens = (
        'gen_ai_client_token_usage_total{gen_ai_request_model="gpt-4o",gen_ai_token_type="input"}'
    )
    assert found[tokens] == 3_600
    assert found['llmeval_cost_usd_total{gen_ai_request_model="gpt-4o"}'] == pytest.approx(0.4)
    assert found['llmeval_request_duration_seconds_count{name="answer"}'] == 40


@pytest.mark.parametrize(("chance", "stands_for"), [(0.4, 2.5), (1e-9, 1_000)])
def test_prometheus_counts_what_stands_for_traces_that_were_left_out(
    serve, store, chance, stands_for
):
    """Requests, durations, tokens and money by the chance to stay, however strange that is."""
    site = serve(metrics=True)
    scraped(site)
    fill(store, count=40, inclusion_probability=chance)
    found = scraped(site)
    assert found['llmeval_requests_total{error_type="",name="answer"}'] == 38 * stands_for
    assert found['llmeval_request_duration_seconds_count{name="answer"}'] == 40 * stands_for
    cost = found['llmeval_cost_usd_total{gen_ai_request_model="gpt-4o"}']
    assert cost == pytest.approx(0.4 * stands_for)


def test_what_arrives_in_a_store_that_was_not_there_is_counted(tmp_path):
    """The viewer was scraped before the app had written anything: its first requests count."""
    path = tmp_path / "later" / "llmeval.db"
    app = viewer.app(store=path, open=True, metrics=True)
    with closing(app), serving(app) as site:
        assert not [name for name in scraped(site) if name.startswith("llmeval_requests")]
        with closing(Store(path)) as store:
            fill(store, count=40)
            found = scraped(site)
            assert found['llmeval_requests_total{error_type="",name="answer"}'] == 38
            fill(store, count=20)
            found = scraped(site)
            assert found['llmeval_requests_total{error_type="",name="answer"}'] == 57


def test_a_call_of_unknown_cost_is_counted_and_shown_as_such(serve, store):
    """A stream that does not say what it used may have cost anything: no figure says $0."""
    begin = time.time_ns() - 60 * 10**9
    store.write(spans=[store.span("answer", start_ns=begin)])
    site = serve(metrics=True)
    scraped(site)
    root = store.span("answer", start_ns=begin)
    call = store.span(
        "chat", trace=root.trace_id, parent=root, kind="llm", model_name="gpt-4o", start_ns=begin
    )
    store.write(spans=[root, call])
    found = scraped(site)
    assert found['llmeval_unpriced_calls_total{gen_ai_request_model="gpt-4o"}'] == 1
    assert "unknown" in site.get("/overview").text


def test_labels_are_bounded(serve, store):
    """Ten thousand names of requests are a hundred series and one for the rest."""
    site = serve(metrics=True)
    store.write(spans=[store.span("first")])
    scraped(site)
    store.write(spans=[store.span(f"name-{number}") for number in range(300)])
    names = {name for name in scraped(site) if name.startswith("llmeval_requests_total")}
    assert len(names) == 101
    assert any("_OTHER" in name for name in names)


def test_metrics_are_off_unless_wanted_and_behind_the_token(serve, store):
    """Without the option there is no such page, and a token guards it like all others."""
    fill(store, count=1)
    assert serve().get("/metrics").status == 404
    guarded = serve(token="t" * 32, metrics=True)
    assert guarded.get("/metrics").status == 403
    assert guarded.get(f"/metrics?token={'t' * 32}").status == 200


def test_the_first_overview_of_a_large_store_says_that_it_is_read(serve, store, monkeypatch):
    """The page answers before it is read, and then has the figures, which are kept for a while."""
    fill(store, count=50)
    monkeypatch.setattr(_site, "LARGE_STORE", 0)
    monkeypatch.setattr(_site, "WAIT_SECONDS", 0.0)
    site = serve()
    page = site.get("/overview")
    deadline = time.monotonic() + 60
    while "requests 50" not in text_of(page):
        assert 'http-equiv="refresh"' in page.text
        assert time.monotonic() < deadline
        page = site.get("/overview")
    fill(store, count=25)
    assert "requests 50" in text_of(site.get("/overview"))
    monkeypatch.setattr(_site, "SELECTED_SECONDS", -1.0)
    monkeypatch.setattr(_site, "WAIT_SECONDS", 20.0)
    assert "requests 75" in text_of(site.get("/overview"))


@pytest.mark.parametrize("where", [{}, {"where": "tag:tenant=acme"}], ids=["all", "filtered"])
def test_a_count_that_fails_does_not_look_like_no_traffic(site, store, monkeypatch, where):
    """The page says that the store could not be read, and the next visit counts again."""
    fill(store, tags={"tenant": "acme"})
    with monkeypatch.context() as limited:
        limited.setattr(_site, "SECONDS", -1.0)
        limited.setattr(_site, "PATIENT_SECONDS", -1.0)
        limited.setattr("llmeval_sdk.store.reader._STEPS", 1)
        page = site.get("/overview", **where)
    assert page.status == 503
    assert "No traffic" not in page.text
    assert "requests 200" in text_of(site.get("/overview", **where))
