"""The pages in a real browser: list, filter, open, label; and nothing hostile gets anywhere."""

import pytest
from viewer_store import HOSTILE

from llmeval_sdk.store.reader import StoreReader


pytestmark = pytest.mark.timeout(120)
TOKEN = "the-token-of-this-test"


def rows(page):
    return page.locator("tr[data-id]")


def test_a_visitor_lists_filters_opens_and_labels(store, serve, visit):
    """The whole way, from the printed address to a stored label, with the keyboard where it can."""
    store.trace("the good one", recall=0.95)
    bad = store.rich()
    site = serve(token=TOKEN)
    with visit() as page:
        page.goto(f"{site.address}/?token={TOKEN}")
        assert rows(page).count() == 2
        assert "token" not in page.url
        page.get_by_label("Evaluator").select_option("groundedness_risk")
        page.wait_for_url("**evaluator=groundedness_risk**")
        assert rows(page).count() == 1
        page.get_by_role("link", name="Which roof?").press("Enter")
        page.get_by_role("heading", name="extract_field").wait_for()
        assert page.locator("mark", has_text="It costs 40 euro.").is_visible()
        page.get_by_role("button", name="Bad").click()
        page.locator("#labels ~ ul", has_text="thumbs").wait_for()
        page.get_by_label("Label", exact=True).fill("groundedness")
        page.get_by_label("Value", exact=True).fill("no")
        page.get_by_label("Value", exact=True).press("Enter")
        page.locator("#labels ~ ul", has_text="groundedness").wait_for()
    with StoreReader(store.path) as reader:
        said = {
            each.evaluation.name: each.evaluation.value for each in reader.feedback_of(bad.span_id)
        }
    assert said == {"thumbs": "down", "groundedness": "no"}


def test_agreeing_with_an_evaluator_is_one_click(store, site, visit):
    """The buttons beside a score label it."""
    root = store.judged(verdict="no")
    with visit() as page:
        page.goto(f"{site.address}/traces/{root.trace_id}")
        form = page.get_by_role("form", name="Do you agree with groundedness?")
        form.get_by_role("button", name="Disagree").click()
        page.locator("#labels ~ ul", has_text="groundedness").wait_for()
    with StoreReader(store.path) as reader:
        (event,) = reader.feedback_of(root.span_id)
    assert event.evaluation.value == "yes"


def test_columns_are_chosen_by_their_boxes(store, site, visit):
    """Unticking a score takes its column away."""
    store.rich()
    with visit() as page:
        page.goto(f"{site.address}/")
        before = page.locator("thead th").count()
        page.get_by_text("Columns", exact=True).click()
        page.get_by_role("checkbox", name="context_relevance").uncheck()
        page.get_by_role("button", name="Show these").click()
        page.wait_for_url("**col=**")
        assert page.locator("thead th").count() == before - 1


def test_charts_are_drawn_and_have_a_size(store, site, visit):
    """Bars and lines are really there, in light and in dark."""
    for number in range(12):
        store.judged(verdict="yes" if number % 3 else "no")
    for scheme in ("light", "dark"):
        with visit(color_scheme=scheme) as page:
            page.goto(f"{site.address}/scores/context_recall_heuristic")
            bars = page.locator(".chart .desk [aria-roledescription=bar]")
            assert bars.count() >= 10
            tallest = max(bar.bounding_box()["height"] for bar in bars.all())
            assert tallest > 50
            fill = bars.first.evaluate("bar => getComputedStyle(bar).fill")
            assert fill == {"light": "rgb(68, 80, 200)", "dark": "rgb(154, 165, 255)"}[scheme]


def test_hostile_content_stays_text_in_a_browser(store, site, visit):
    """No script, no dialog, no request elsewhere, no violation of the policy, no broken page."""
    root = store.hostile()
    form = {
        "trace_id": root.trace_id,
        "span_id": root.span_id,
        "name": HOSTILE,
        "value": HOSTILE,
        "note": HOSTILE,
    }
    assert site.post("/feedback", form).status == 303
    with visit() as page:
        for path in ("/", f"/traces/{root.trace_id}", "/scores"):
            page.goto(f"{site.address}{path}")
            page.wait_for_load_state("load")
            assert page.locator("img, main script").count() == 0
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), path
        page.goto(f"{site.address}/")
        page.locator("th.what a").first.click()
        page.get_by_role("heading", name="Scores").wait_for()


def test_a_script_that_got_in_would_not_run(store, site, visit):
    """The policy is the second line of defence, and it holds by itself."""
    store.trace()
    with visit(clean=False) as page:
        page.goto(f"{site.address}/")
        page.evaluate("""() => {
            const script = document.createElement("script");
            script.textContent = "window.injected = true";
            document.body.append(script);
            const image = document.createElement("img");
            image.setAttribute("onerror", "window.injected = true");
            image.src = "x";
            document.body.append(image);
        }""")
        page.wait_for_timeout(200)
        assert page.evaluate("window.injected") is None


def test_a_new_trace_appears_by_itself(store, site, visit):
    """Without reloading, with a word for screen readers, and without losing the chosen filter."""
    store.trace("the first")
    with visit() as page:
        page.goto(f"{site.address}/?span=answer")
        page.locator("[data-live]:not([hidden])").wait_for()
        store.trace("the second")
        page.get_by_role("link", name="the second").wait_for(timeout=15_000)
        assert "1 new trace" in page.get_by_role("status").inner_text()
        assert rows(page).count() == 2


def test_a_wrong_token_and_a_foreign_host_see_nothing(store, serve, visit):
    """In a browser as well."""
    store.trace("secret words")
    site = serve(token=TOKEN, hosts={"viewer.example"})
    with visit(clean=False) as page:
        for address in (f"{site.address}/?token=wrong", f"{site.address}/?token={TOKEN}"):
            answer = page.goto(address)
            assert answer.status == 403
            assert "secret words" not in page.content()


def test_every_page_can_be_read_by_a_screen_reader(store, site, visit):
    """One main landmark, one first heading, a name for every control, and focus that shows."""
    root = store.rich()
    with visit() as page:
        for path in ("/", f"/traces/{root.trace_id}", "/scores", "/scores/context_relevance"):
            page.goto(f"{site.address}{path}")
            assert page.get_by_role("main").count() == 1
            assert page.get_by_role("navigation", name="Pages").count() == 1
            assert page.locator("h1").count() == 1
            unnamed = page.evaluate("""() => [...document.querySelectorAll("a, button, select, input:not([type=hidden])")]
                .filter(each => !(each.textContent.trim() || each.labels?.length || each.getAttribute("aria-label")))
                .map(each => each.outerHTML)""")
            assert unnamed == []
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.textContent") == "Skip to content"
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_a_phone_folds_the_filters_away(store, site, visit):
    """One tap brings them back, and where some are set they are there."""
    store.trace()
    with visit(viewport={"width": 390, "height": 844}) as page:
        page.goto(f"{site.address}/")
        assert page.get_by_role("searchbox").is_visible()
        assert page.locator("select[name=range]").is_hidden()
        page.get_by_label("Filters").check()
        assert page.locator("select[name=range]").is_visible()
        page.locator("select[name=range]").select_option("24h")
        page.wait_for_url("**range=24h**")
        assert page.locator("select[name=range]").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_never_scrolls_sideways(store, site, visit, scheme):
    """Every page fits a narrow screen."""
    root, hostile = store.rich(), store.hostile()
    with visit(viewport={"width": 360, "height": 740}, color_scheme=scheme) as page:
        traces = [f"/traces/{each.trace_id}" for each in (root, hostile)]
        for path in ("/", *traces, "/scores", "/scores/context_relevance"):
            page.goto(f"{site.address}{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
