"""The score pages say what evaluators said, over time and over all traffic."""

import re

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.store.losses import Process
from llmeval_sdk.viewer import _site


@pytest.fixture
def many(store):
    """Fill a store with forty records over forty minutes, half of them judged."""
    import time

    begin = time.time_ns() - 3_000_000_000_000
    for number in range(40):
        at = begin + number * 60_000_000_000
        if number % 2:
            store.judged(verdict="yes" if number % 4 == 1 else "no", start_ns=at)
        else:
            root = store.trace(recall=number / 40, start_ns=at)
            refused = store.refuse(root, "groundedness", "not_escalated", "recall is fine")
            pattern = store.score(root, "agreement_pattern", "mixed" if number % 3 else "unanimous")
            store.write(evaluations=[pattern], not_run=[refused])
    return store


def test_the_overview_has_every_evaluator(many, site):
    """Means, distributions, the funnel with its reasons, cost and patterns stand on one page."""
    page = site.get("/scores")
    assert page.status == 200
    for words in (
        "context_<wbr>recall_<wbr>heuristic",
        "agreement_<wbr>pattern",
        "not escalated",
        "eligible",
        "$0.0500",
    ):
        assert words in page.text, words
    assert "Agreement patterns" in page.text
    assert 'aria-roledescription="bar"' in page.text


def test_the_scores_of_a_large_store_are_counted_in_the_background(many, site, monkeypatch):
    """The page answers at once that it counts, and soon has the same figures."""
    monkeypatch.setattr(_site, "LARGE_STORE", 0)
    monkeypatch.setattr(_site, "WAIT_SECONDS", 0.0)
    first = site.get("/scores")
    assert first.status == 200
    assert "Still counting" in first.text
    monkeypatch.setattr(_site, "WAIT_SECONDS", 20.0)
    counted = site.get("/scores").text
    monkeypatch.setattr(_site, "LARGE_STORE", 1_000)
    assert counted == site.get("/scores").text


def test_scores_that_could_not_be_counted_are_told_as_such(many, site, monkeypatch):
    """The page says how long it tried, and the next visit counts again."""
    monkeypatch.setattr(_site, "LARGE_STORE", 0)
    monkeypatch.setattr(_site, "WAIT_SECONDS", 20.0)
    with monkeypatch.context() as limited:
        limited.setattr(_site, "PATIENT_SECONDS", -1.0)
        limited.setattr("llmeval_sdk.store.reader._STEPS", 1)
        page = site.get("/scores")
    assert page.status == 503
    assert "it took longer than -1 seconds" in page.text
    assert "groundedness" in site.get("/scores").text


def test_a_judges_mean_is_corrected_and_has_an_interval(many, site):
    """Half judged with chance 0.5: the plain mean and the one over all traffic are both there."""
    page = site.get("/scores/groundedness")
    assert page.status == 200
    assert re.search(r"<b>0\.5</b></dd><dd class=\"beside\">0\.\d+ to 0\.\d+", page.text)
    assert "Mean over time" in page.text
    assert "with its 95 % interval" in page.text
    assert page.text.count("<svg") >= 3


def test_charts_are_also_tables(many, site):
    """Whoever does not see a chart reads the same figures."""
    page = site.get("/scores/context_recall_heuristic")
    assert "The figures as a table" in page.text
    assert page.text.count('<th scope="row">20') > 5


def test_a_reason_leads_to_its_records(many, site):
    """The funnel's reasons are links to the traces behind them."""
    link = re.search(
        r'href="(/\?evaluator=groundedness&amp;reason=not_escalated)"', site.get("/scores").text
    )
    rows = site.send("GET", link[1].replace("&amp;", "&")).text
    assert rows.count("<tr data-id") == 20


def test_a_period_without_scores_says_so(store, site):
    """An old store is not empty: there is a way to all time."""
    store.trace(start_ns=1_700_000_000_000_000_000)
    assert "No scores in this period" in site.get("/scores", range="1h").text
    assert site.get("/scores/context_recall_heuristic", range="1h").status == 200


def test_an_app_shows_its_own_store_and_what_it_dropped(serve, tmp_path):
    """Mounted without a word it is the store of `configure`, with the account of each exporter."""
    site = serve(store=None)
    llmeval.configure(store=str(tmp_path / "app.db"))
    with llmeval.workflow("one", request="a question"):
        pass
    llmeval.flush(10)
    assert "a question" in site.get().text
    page = site.get("/scores").text
    account = page[page.index('id="drops"') :]
    assert '<th scope="row">local</th>' in account
    assert "none" in account


def test_another_store_has_no_account_of_this_process(store, site, tmp_path):
    """What this process dropped says nothing about the store of another."""
    llmeval.configure(store=str(tmp_path / "app.db"))
    with llmeval.workflow("one", request="a question"):
        pass
    llmeval.flush(10)
    store.trace()
    assert '<th scope="row">local</th>' not in site.get("/scores").text


def test_what_the_writers_of_a_store_lost_is_told(store, site):
    """What never arrived elsewhere stands on the page, by exporter and reason."""
    store.trace()
    store.writer.note_losses(Process(1, 1), {"otlp": {"exporter_full": 1_200}})
    page = site.get("/scores").text
    assert "exporter full 1,200" in page[page.index('id="drops"') :]
    assert "In this period" not in page


def test_scores_over_records_that_were_lost_say_so(many, site):
    """Figures and charts are of what is stored, which the page of each evaluator says as well."""
    root = many.trace()
    many.writer.note_losses(Process(1, 1), {"local": {"queue_full": 31_656}}, root.start_ns)
    for path in ("/scores", "/scores/groundedness", "/scores/context_recall_heuristic"):
        page = site.get(path).text
        assert "In this period: 31,656 records lost (queue_full 31,656)." in page, path


def test_labels_are_counted(many, site):
    """What people said has its own figures."""
    root = many.trace()
    form = {
        "trace_id": root.trace_id,
        "span_id": root.span_id,
        "name": "groundedness",
        "value": "no",
    }
    site.post("/feedback", form)
    page = site.get("/scores").text
    assert "llmeval agreement --evaluator groundedness --feedback groundedness" in page


@pytest.fixture
def riskiest(store):
    """Fill a store in which the worst fifth is judged, mostly bad, beside a good control sample."""
    import time

    begin = time.time_ns() - 7_200_000_000_000
    for number in range(200):
        at = begin + number * 36_000_000_000
        root = store.trace(start_ns=at)
        if number % 5 == 0:
            verdict = store.score(
                root, "groundedness", "no", evaluator_kind="judge", inclusion_probability=1.0
            )
            store.write(evaluations=[verdict])
        elif number % 10 == 1:
            verdict = store.score(
                root, "groundedness", "yes", evaluator_kind="judge", inclusion_probability=0.125
            )
            store.write(evaluations=[verdict])
        else:
            refused = store.refuse(root, "groundedness", "not_escalated", "")
            store.write(not_run=[refused])
    return store


def test_a_judges_page_has_one_estimate(riskiest, site):
    """The head, the card, the chart and its table say what all traffic is like, in the same words.

    A third of the judged is good and four fifths of all traffic: the plain mean stands only where
    it is said to be of the judged.
    """
    page = site.get("/scores/groundedness").text
    head = re.search(r"all traffic (0\.\d+) \((0\.\d+) to (\d[.\d]*)\)", page)
    assert head is not None
    assert float(head[1]) == pytest.approx(0.8, abs=0.1)
    card = re.search(
        r"All traffic</dt><dd><b>([\d.]+)</b></dd><dd class=\"beside\">([\d.]+) to ([\d.]+)", page
    )
    assert card.groups() == head.groups()
    assert " mean 0." not in re.sub(r"<[^>]+>", " ", page)
    rows = re.findall(r'<th scope="row">20[^<]+</th><td class="num">([\d.]+)</td>', page)
    assert len(rows) > 5
    assert sum(map(float, rows)) / len(rows) == pytest.approx(float(head[1]), abs=0.1)
    assert "95 % interval" in page


def test_without_a_control_sample_nothing_is_said_of_all_traffic(store, site):
    """A mean of the judged is called that, on the head, in the chart and in its table."""
    for number in range(20):
        root = store.trace()
        if number % 2:
            store.write(evaluations=[store.score(
                root, "groundedness", "no", evaluator_kind="judge", inclusion_probability=1.0
            )])  # fmt: skip
        else:
            store.write(not_run=[store.refuse(root, "groundedness", "not_escalated", "")])
    page = site.get("/scores/groundedness").text
    assert "mean of the judged 0" in page
    assert "Mean of the judged over time" in page
    assert "Only the judged</th>" in page
    assert "All traffic</th>" not in page


def test_a_judge_of_categories_is_counted(store, site):
    """38 verdicts in words: shares and counts, never "nothing was judged"."""
    for number in range(38):
        root = store.trace()
        tone = "formal" if number % 4 else "rude"
        store.write(evaluations=[store.score(root, "tone", tone, evaluator_kind="judge")])
    for path in ("/scores", "/scores/tone"):
        page = site.get(path).text
        assert "othing was judged" not in page
        assert "of 38" in page
        assert "Its answers are categories" in page
        assert "formal" in page


def test_a_judges_page_shows_how_sure_decisions_were(store, site):
    """A chart of the probabilities, where there are any."""
    for number in range(4):
        root = store.trace(f"question {number}")
        probability = 0.2 + 0.2 * number
        store.write(
            evaluations=[
                store.score(
                    root, "polite", "yes", evaluator_kind="decision", probability=probability
                )
            ]
        )
    page = site.get("/scores/polite").text
    assert "Probability of a good outcome" in page
    assert "By decision models, on 4 records." in page
    assert "0.80 to 0.90: 1 record<" in page
    store.judged()
    assert "Probability of a good outcome" not in site.get("/scores/groundedness").text
