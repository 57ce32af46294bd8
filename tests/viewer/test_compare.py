"""Two traces stand side by side, with what differs in their scores."""

from seen_pages import Tags, text_of


def test_two_traces_stand_side_by_side(store, site):
    """Requests, answers and scores of both, and the difference of numbers."""
    first, second = store.trace("Which roof?", recall=0.25), store.trace("Which wall?", recall=0.75)
    store.write(evaluations=[store.score(second, "polite", "yes", evaluator_kind="judge")])
    ids = {"a": first.trace_id, "b": f"{second.trace_id}-{second.span_id}"}
    page = site.get("/compare", **ids)
    words = text_of(page)
    assert page.status == 200
    assert words.index("Which roof?") < words.index("Which wall?")
    assert "+0.5" in words
    assert page.text.count('aria-label="not scored"') == 1


def test_a_trace_leads_to_its_comparison(store, site):
    root = store.trace()
    page = site.get(f"/traces/{root.trace_id}").text
    link = f"/compare?a={root.trace_id}-{root.span_id}"
    assert f'href="{link}"' in page
    answer = site.send("GET", link)
    assert answer.status == 200
    assert "slate" in answer.text


def test_an_unknown_or_odd_id_is_said(store, site):
    """And nothing of it becomes markup."""
    root = store.trace()
    for odd in ("ffffffff", "x", "-", "<script>", "0" * 99, "%"):
        page = site.get("/compare", a=root.trace_id, b=odd)
        assert page.status == 404, odd
        assert "No trace and no span" in page.text
        assert page.text.count("<script") == 1


def test_hostile_traces_are_only_text(store, site):
    one, other = store.hostile(), store.hostile()
    page = site.get("/compare", a=one.trace_id, b=other.trace_id)
    found = Tags(page.text)
    assert page.status == 200
    assert "img" not in found.tags
    assert not any(name.startswith("on") for name in found.attributes)
    assert all(link.startswith(("/", "#")) for link in found.links)
