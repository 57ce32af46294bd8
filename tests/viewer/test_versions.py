"""The page of versions says what ``llmeval compare`` says."""

import time


def fill(store):
    began = time.time_ns() - 1_000_000_000  # a span's verdict comes at its end, which must be past
    for version, bad in (("v1", 0), ("v2", 3)):
        for number in range(120):
            span = store.span("answer", start_ns=began, tags={"prompt_version": version})
            good = number % 10 >= bad
            score = store.score(
                span, "groundedness", good, evaluator_kind="judge", inclusion_probability=1.0
            )
            store.write(spans=[span], evaluations=[score])


def test_the_versions_of_a_tag_are_compared(site, store):
    """The first tag is compared by itself; the outcome, both names and the interval are there."""
    fill(store)
    page = site.get("/versions")
    assert page.status == 200
    for words in ("tag:prompt_version", "worse", "v1", "v2", "-0.300"):
        assert words in page.text
    assert "better" in site.get("/versions?by=tag:prompt_version&baseline=v2").text


def test_bad_addresses_get_a_sentence(site, store):
    """What is nothing to compare by is said on the page, and written text stays text."""
    fill(store)
    page = site.get("/versions?by=<script>x</script>")
    assert page.status == 400
    assert "expected one of request, model" in page.text
    assert "<script>x" not in page.text
    assert "no request has a tag:other" in site.get("/versions?by=tag:other").text


def test_a_version_without_verdicts_is_on_the_page(site, store):
    """All its judgements were lost: it has a row, and a sentence that says so."""
    fill(store)
    began = time.time_ns() - 500_000_000
    for _ in range(3):
        span = store.span("answer", start_ns=began, tags={"prompt_version": "v3"})
        store.write(spans=[span], not_run=[store.refuse(span, "groundedness", "timeout")])
    text = site.get("/versions").text
    assert "<bdi>v3</bdi>" in text
    assert "v3: nothing was judged, timeout 3" in text
