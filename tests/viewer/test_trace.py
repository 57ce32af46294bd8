"""The page of a trace tells all that the store knows of it."""

import re

import pytest
from seen_pages import Tags, text_of
from viewer_store import HOSTILE

from llmeval_sdk.model import Chunk
from llmeval_sdk.viewer import _trace
from llmeval_sdk.viewer._render import marked


def test_a_trace_shows_all_its_spans_and_the_first_evaluated_one(store, site):
    """Opening a trace leads to what was scored."""
    root = store.trace("Which roof?")
    page = site.get(f"/traces/{root.trace_id}")
    words = text_of(page)
    assert page.status == 200
    assert all(word in words for word in ("answer", "search", "Which roof?", "slate", "took"))
    assert "context_ recall_ heuristic" in words


def test_what_the_context_does_not_support_is_marked(store, site):
    """The parts of the response that groundedness_risk names stand out."""
    root = store.rich()
    page = site.get(f"/traces/{root.trace_id}")
    assert ">It costs 40 euro.</mark>" in page.text


def test_chunks_come_with_rank_score_method_and_verdicts(store, site):
    """The chunks of the retrieval below stand on the page of the span that used them."""
    root = store.rich()
    page = site.get(f"/traces/{root.trace_id}")
    chunks = page.text[page.text.index('id="chunk-1"') : page.text.index('id="labels"')]
    first, second = chunks.split('id="chunk-2"')
    assert all(word in first for word in ("bm25", "0.90", "barn.txt", "page 3", "names the roof"))
    assert ">yes<" in first
    assert ">no<" in second
    assert 'href="#extraction-1"' in first
    assert "<mark" in first  # the evidence of the extraction
    assert 'href="#chunk-1"' in page.text


def test_why_a_judge_ran_or_not_is_said(store, site):
    """Escalated and refused records both carry their reason, and what to do about it."""
    ran, refused = store.judged(), store.rich()
    words = text_of(site.get(f"/traces/{ran.trace_id}"))
    assert "recall 0.1 < 0.7" in words
    assert "100 tokens" in words
    assert "$0.0025" in words
    assert "0.5 chance to run" in words
    words = text_of(site.get(f"/traces/{refused.trace_id}"))
    assert "over budget" in words
    assert "5.00 of 5.00 USD" in words
    assert "LLMEVAL_BUDGET_USD_PER_DAY" in words


def test_scores_stand_in_the_order_one_would_look_at_them(store, site):
    """Judges before heuristics, and of each the bad ones first."""
    root = store.trace(recall=0.9)
    judge = {"evaluator_kind": "judge"}
    store.write(
        evaluations=[
            store.score(root, "a_good_judge", "yes", **judge),
            store.score(root, "bad_judge", "no", **judge),
            store.score(root, "fair_heuristic", 0.5),
            store.score(root, "some_risk", 0.9),
        ]
    )
    names = re.findall(
        r'class="name" href="/scores/(\w+)"', site.get(f"/traces/{root.trace_id}").text
    )
    assert names == [
        "bad_judge", "a_good_judge", "some_risk", "fair_heuristic", "context_recall_heuristic",
    ]  # fmt: skip


def test_a_judge_and_what_it_judged_lead_to_each_other(store, site):
    """The verdict links to the judge's own trace, and that one back."""
    root = store.judged()
    page = site.get(f"/traces/{root.trace_id}")
    link = re.search(r'<a href="(/traces/[0-9a-f]+)">The judge’s own trace', page.text)
    own = site.send("GET", link[1])
    assert f"/traces/{root.trace_id}?span={root.span_id}" in own.text


@pytest.mark.parametrize(
    "path", ["/traces/nothing", "/traces/x/y/request", "/scores/nothing", "/no"]
)
def test_what_is_not_here_is_said_so(store, site, path):
    """A missing trace is a page with a way on."""
    store.trace()
    page = site.get(path)
    assert page.status == 404
    assert "All traces" in page.text


def test_a_long_text_is_cut_and_a_link_away(store, site):
    """A page stays small, and nothing is lost."""
    root = store.trace("x" * 100_000)
    page = site.get(f"/traces/{root.trace_id}")
    assert len(page.text) < 60_000
    assert 'dir="auto" tabindex="0"' in page.text  # it scrolls, so the keyboard has to get there
    whole = site.get(f"/traces/{root.trace_id}/{root.span_id}/request")
    assert whole.text == "x" * 100_000
    assert whole.headers["content-type"].startswith("text/plain")


def test_a_long_chunk_is_cut_and_a_link_away(store, site):
    """Megabytes of passages make no megabytes of page."""
    chunks = tuple(Chunk(f"{number} " + "y" * 100_000) for number in range(50))
    root = store.trace(retrieved_context=chunks)
    page = site.get(f"/traces/{root.trace_id}")
    assert len(page.text) < 300_000
    whole = f"/traces/{root.trace_id}/{root.span_id}/chunk-50"
    assert f'href="{whole}"' in page.text
    assert site.get(whole).text == chunks[-1].content
    assert site.get(f"{whole}0").status == 404


def test_texts_cannot_turn_the_page_around(store, site):
    """Controls that reorder text, even what stands behind them, are shown instead of obeyed."""
    root = store.hostile()
    for path in ("/", f"/traces/{root.trace_id}", "/scores"):
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b]", site.get(path).text)
    hebrew = "\u05d0\u05d1\u200f!"  # ordinary text from right to left keeps its marks
    assert hebrew in site.get(f"/traces/{store.trace(hebrew).trace_id}").text


def test_hostile_content_is_only_text(store, site):
    """Markup in any stored field, name or label never becomes markup of the page."""
    root = store.hostile()
    score = f"/scores/{HOSTILE.encode().hex('%')}"
    for path in (
        "/",
        f"/traces/{root.trace_id}",
        "/scores",
        score.replace("/scores/", "/scores/%", 1),
    ):
        page = site.get(path)
        assert page.status == 200, path
        found = Tags(page.text)
        assert "img" not in found.tags
        assert not any(name.startswith("on") for name in found.attributes)
        assert all(link.startswith(("/", "#")) for link in found.links), path
        assert page.text.count("<script") == 1
        assert "49" not in re.findall(r"\{\{7\*7\}\}|>49<", page.text)


def test_a_waterfall_survives_parents_that_are_missing_or_in_a_circle(store, site):
    """Every span of a broken trace is shown once."""
    trace = "f" * 32
    one, two, lost = (store.span(name, trace=trace) for name in ("one", "two", "lost"))
    from dataclasses import replace

    store.write(
        spans=[
            replace(one, parent_id=two.span_id),
            replace(two, parent_id=one.span_id),
            replace(lost, parent_id="0" * 16),
        ]
    )
    page = site.get(f"/traces/{trace}")
    assert page.status == 200
    assert page.text.count('class="line') == 3


def test_bars_lie_within_the_time_line(store):
    """A span of no length is visible, and none reaches beyond the end."""
    trace = "e" * 32
    spans = [store.span(trace=trace, start_ns=10**18 + n, end_ns=10**18 + n) for n in range(5)]
    store.write(spans=spans)
    from llmeval_sdk.store.reader import StoreReader
    from llmeval_sdk.store.traces import outline_of

    with StoreReader(store.path) as reader:
        found, complete = reader.read(lambda c: outline_of(c, trace))
    bars = _trace.bars(found)
    assert complete
    assert len(bars) == 5
    assert all(bar.x >= 0 and bar.width > 0 and bar.x + bar.width <= 1_000 for bar in bars)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], [("hello world", False)]),
        ([[0, 5]], [("hello", True), (" world", False)]),
        ([[6, 99]], [("hello ", False), ("world", True)]),
        ([[0, 5], [3, 11]], [("hello", True), (" world", True)]),
        (["x", [1], [5, 2], [-1, 3], [None, 2], {}], [("hello world", False)]),
        ("nonsense", [("hello world", False)]),
    ],
)
def test_marks_are_the_ranges_that_make_sense(spans, expected):
    """Stored ranges are not trusted."""
    assert list(marked("hello world", spans).parts) == expected


def test_a_judges_verdict_comes_first_and_says_who_gave_it(store, site):
    """Judge, value and reason lead the page, before request and response; a stand-in is named."""
    root = store.judged(why="recall 0.1 < 0.7")
    verdict = store.score(
        root, "polite", "no", evaluator_kind="judge", explanation="stand-in: a rude word",
        metadata={"model": "stand-in"},
    )  # fmt: skip
    store.write(evaluations=[verdict])
    page = site.get(f"/traces/{root.trace_id}", span=root.span_id).text
    places = [page.index(each) for each in ("Not in the text.", "<h3>Request", 'id="chunks"')]
    assert places == sorted(places)
    assert page.index("stand-in</b>") < page.index("<h3>Request")
    assert page.count("stand-in</b>") == 1
    for path in ("/scores", "/scores/polite"):
        assert "not a model" in site.get(path).text
    heads = site.get("/").text.split("<tbody")[0]
    assert heads.count("stand-in</b>") == 1  # of `polite`; the judge beside it was a model


def test_details_do_not_repeat_what_stands_elsewhere(store, site):
    """A value, label or explanation stands once, and so do the request and the model's name."""
    root = store.span(
        request="a single question", response="an answer", model_name="gpt-4o",
        attributes={"model_name": "gpt-4o", "question": "a single question", "tenant": "acme"},
    )  # fmt: skip
    score = store.score(
        root, "agreement_pattern", "mixed", label="two of three", explanation="they differ",
        metadata={"pattern": "mixed", "band": "two of three", "why_not": "they differ", "n": 3},
    )  # fmt: skip
    store.write(spans=[root], evaluations=[score])
    page = site.get(f"/traces/{root.trace_id}", span=root.span_id).text
    seen = re.sub(r"<[^>]+>", " ", page)
    assert seen.count("two of three") == 1
    assert seen.count("they differ") == 1
    assert seen.count("a single question") == 1
    assert seen.count("gpt-4o") == 1
    assert "acme" in page
    assert "<dt><bdi>n</bdi></dt>" in page


def test_an_abstained_score_has_a_word_and_no_colour(store, site):
    """Its number is in the tooltip."""
    root = store.span(request="q")
    store.write(
        spans=[root], evaluations=[store.score(root, "extraction_risk", 0.9, label="abstained")]
    )
    page = site.get(f"/traces/{root.trace_id}", span=root.span_id).text
    assert '<span class="quiet" title="0.90: abstained' in page
    assert 'class="score bad"' not in page


def test_a_decision_shows_its_probability(store, site):
    """Beside the rating, with the judges rather than with the heuristics."""
    root = store.trace()
    score = store.score(
        root, "polite", "yes", evaluator_kind="decision", probability=0.875,
        metadata={"confidence": 0.75, "threshold": 0.5},
    )  # fmt: skip
    store.write(evaluations=[score])
    words = text_of(site.get(f"/traces/{root.trace_id}"))
    assert "87.5% probably good" in words
    assert words.index("polite") < words.index("context_ recall_ heuristic")
    assert "confidence 0.75" in re.sub(r"\s+", " ", words)
