"""Experiments, overview, feedback and the comparison of traces in a real browser."""

import re
import time

import pytest
from viewer_store import HOSTILE

import llmeval_sdk as llmeval
from llmeval_sdk.store.labelling import add_feedback, human_label


pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def pages(store):
    """Fill the store, save two reports beside it, and return the paths of the pages."""
    first, second = store.rich(), store.judged()
    store.hostile()
    for number in range(6):
        add_feedback(store.path, human_label(store.trace(f"{number}"), "thumbs", number > 1))
    folder = store.path.with_name("reports")
    for name, answer in (("before", "slate"), ("now", HOSTILE)):
        rows = [
            {"request_id": f"{n}", "request": HOSTILE if n else "Which roof?", "response": text,
             "expected_response": "slate"}
            for n, text in enumerate(("slate", "slate", answer))
        ]  # fmt: skip
        llmeval.evaluate(
            rows, evaluators=["exact_match", "token_f1"], save=folder / f"{name}.jsonl",
            progress=False,
        )  # fmt: skip
    (folder / "broken.jsonl").write_text(HOSTILE, "utf-8", "replace")
    return (
        "/overview", "/sessions", "/versions", "/label", "/experiments",
        "/experiments/report?name=now.jsonl", "/experiments/compare?a=before.jsonl&b=now.jsonl",
        "/experiments/compare?a=broken.jsonl&b=now.jsonl", "/scores/thumbs", "/?said=-thumbs",
        f"/compare?a={first.trace_id}&b={second.trace_id}",
    )  # fmt: skip


def settle(page):
    """Wait until the page has counted."""
    page.get_by_text("Still counting").wait_for(state="detached")


def test_two_reports_are_chosen_and_compared(pages, site, visit):
    """From the list to the row that changed, with its answers side by side."""
    with visit() as page:
        page.goto(f"{site.address}/overview")
        page.get_by_role("link", name="Experiments").click()
        page.get_by_label("before.jsonl as it was before").check()
        page.get_by_label("now.jsonl as it is now").check()
        page.get_by_role("button", name="Compare the two").click()
        page.wait_for_url("**/experiments/compare?**")
        settle(page)
        before = page.get_by_role("region", name="Before")
        assert before.inner_text().split() == ["Before", "slate"]
        now = page.get_by_role("region", name="Now")
        left, right = before.bounding_box(), now.bounding_box()
        assert left["x"] + left["width"] <= right["x"]
        assert left["y"] == right["y"]
        page.get_by_role("link", name="Swap").click()
        page.wait_for_url("**a=now.jsonl&b=before.jsonl")


def test_the_list_is_filtered_by_feedback_with_one_choice(pages, site, visit):
    """Choosing what was disliked applies itself and stays in the address."""
    with visit() as page:
        page.goto(f"{site.address}/")
        page.locator("[name=said]").select_option("-thumbs")
        page.wait_for_url("**said=-thumbs**")
        assert page.locator("tr[data-id]").count() == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_never_scrolls_sideways_here_either(pages, site, visit, scheme):
    """Every page fits a narrow screen, and the menu shows the page that is open."""
    with visit(clean=False, viewport={"width": 360, "height": 740}, color_scheme=scheme) as page:
        for path in pages:
            page.goto(f"{site.address}{path}")
            settle(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
            open_page = page.locator(".top nav [aria-current]")
            if open_page.count():
                box = open_page.bounding_box()
                assert box["x"] >= 0, path
                assert box["x"] + box["width"] <= 361, path


def test_each_chart_is_drawn_once(pages, site, visit):
    """A wide screen shows the wide drawing, a phone the narrow one, and neither shows both."""
    for width in (1280, 360):
        with visit(viewport={"width": width, "height": 800}) as page:
            for path in ("/overview", "/scores/thumbs"):
                page.goto(f"{site.address}{path}")
                settle(page)
                charts = page.locator(".desk, .phone")
                shown = [charts.nth(n).is_visible() for n in range(charts.count())]
                assert shown
                assert sum(shown) * 2 == len(shown), (width, path)


def test_the_new_pages_can_be_read_by_a_screen_reader(pages, site, visit):
    """One main landmark, one first heading, and a name for every control."""
    with visit(clean=False) as page:
        for path in pages:
            page.goto(f"{site.address}{path}")
            settle(page)
            assert page.get_by_role("main").count() == 1
            assert page.locator("h1").count() == 1, path
            unnamed = page.evaluate("""() => [...document.querySelectorAll("a, button, select, input:not([type=hidden])")]
                .filter(each => !(each.textContent.trim() || each.labels?.length || each.getAttribute("aria-label")))
                .map(each => each.outerHTML)""")
            assert unnamed == [], path


def test_a_page_that_counts_shows_itself_when_it_is_done(store, site, visit):
    """The browser asks again by itself, without a script."""
    begin = time.time_ns() - 60 * 10**9
    for _ in range(5):
        store.write(spans=[store.span("answer", start_ns=begin) for _ in range(4_000)])
    with visit(java_script_enabled=False) as page:
        page.goto(f"{site.address}/overview")
        page.get_by_role("heading", name=re.compile("^(Figures|Compared with)")).wait_for(
            timeout=60_000
        )
