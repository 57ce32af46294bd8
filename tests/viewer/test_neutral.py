"""A score that says nothing of quality has no colour, wherever it is shown."""

import re

import llmeval_sdk as llmeval
from llmeval_sdk.model import Evaluation, values
from llmeval_sdk.pipeline import runtime


ONE_METHOD = [{"content": "slate", "score": 7.5, "retrieval_method": "bm25"}]
"""Scores of one method, outside 0..1: context_relevance is nearly the same for every request."""


def test_a_near_constant_score_is_neutral_by_its_metadata():
    """The value alone would be called fair; what is known of it decides."""
    same = Evaluation("context_relevance", 0.1, metadata={"near_constant": True})
    assert values.standing_of(same) == "neutral"
    assert values.goodness_of(same) is None
    assert values.standing_of(Evaluation("context_relevance", 0.1)) == "bad"


def test_the_viewer_shows_it_without_colour(store, site):
    """In the list and on the trace's page, beside what it means."""
    with runtime.isolated():
        llmeval.configure(exporters=["local"], store=str(store.path))

        @llmeval.workflow
        def answer(question, chunks):
            return "slate"

        answer("What is the roof made of?", ONE_METHOD)
        assert llmeval.flush(10).complete
    plain = '<span class="score plain" title="neither good nor bad: nearly the same whatever'
    page = site.get()
    assert plain in page.text
    link = re.search(r'href="([^"]*/traces/[^"]+)"', page.text)
    assert plain in site.get(link[1]).text


def test_the_report_of_a_run_counts_it_among_nothing_bad():
    """Worst rows, regressions and colours ask the same function."""
    from llmeval_sdk.offline.report.summary import low, standing

    rows = [{"request": "q", "response": "slate", "retrieved_context": ONE_METHOD}]
    report = llmeval.evaluate(rows, evaluators=["context_relevance"])
    row = report.rows[0]
    assert standing(row.evaluations["context_relevance"]) == "neutral"
    assert low(row) == []


def test_chunks_that_say_nothing_but_their_text_have_no_relevance():
    """Without scores, pages and methods the value is 0 for every request; nothing found is bad."""
    rows = [
        {"request": "q", "response": "a", "retrieved_context": [{"content": "slate"}]},
        {"request": "q", "response": "a", "retrieved_context": []},
    ]
    bare, empty = llmeval.evaluate(rows, evaluators=["context_relevance"]).rows
    assert values.standing_of(bare.evaluations["context_relevance"]) == "neutral"
    assert values.standing_of(empty.evaluations["context_relevance"]) == "bad"
