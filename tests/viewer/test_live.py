"""News of the store reaches open pages, and a mounted viewer lives below its path."""

import http.client
import json
import re
from contextlib import closing

import pytest
from served import serving
from starlette.applications import Starlette
from starlette.routing import Mount

import llmeval_sdk as llmeval
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.viewer._site import RETRY_MS, Watch


@pytest.fixture
def quick(monkeypatch):
    """Look at the store every 50 ms."""
    monkeypatch.setattr("llmeval_sdk.viewer._site.LOOK_SECONDS", 0.05)


def state_of(page):
    return re.search(r'data-state="([^"]*)"', page.text)[1]


def test_a_new_trace_is_news(store, site, quick):
    """A stream that waits is told of a trace that arrives, and where it stands now."""
    store.trace()
    known = state_of(site.get())
    with closing(http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)) as connection:
        connection.request("GET", f"/events?state={known}")
        answer = connection.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.readline().startswith(b"retry:")
        store.trace()
        lines = [answer.readline().decode() for _ in range(4)]
    event = dict(line.strip().split(": ", 1) for line in lines if ": " in line)
    assert event["event"] == "change"
    assert json.loads(event["data"]) == {"spans": 2}
    assert event["id"] == state_of(site.get())


def test_what_happened_between_two_streams_is_not_missed(store, site, quick):
    """A browser that comes back with the last id it knew is told at once."""
    store.trace()
    known = state_of(site.get())
    store.trace()
    with closing(http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)) as connection:
        connection.request("GET", "/events", headers={"last-event-id": known})
        answer = connection.getresponse()
        assert b"retry" in answer.readline()
        answer.readline()
        assert answer.readline().startswith(b"id: ")


def test_a_quiet_stream_ends_by_itself(store, site, quick, monkeypatch):
    """A server that waits for open requests is not kept from stopping."""
    monkeypatch.setattr("llmeval_sdk.viewer._site.STREAM_SECONDS", 0.3)
    store.trace()
    known = state_of(site.get())
    answer = site.get("/events", state=known)
    assert answer.text == f"retry: {RETRY_MS}\n\n"


def test_watching_an_idle_store_reads_one_number(store, quick):
    """While nothing is written, a look is SQLite's own version of the file and no query."""
    store.trace()
    from llmeval_sdk.viewer._site import Readers

    readers = Readers(store.path)
    watch, statements = Watch(readers), []
    with readers.lend() as reader:
        reader.read(lambda c: c.set_trace_callback(statements.append))
    for _ in range(3):
        watch._look()
    assert sum("max(seq)" in each for each in statements) == 1
    store.trace()
    watch._look()
    assert sum("max(seq)" in each for each in statements) == 2
    readers.close()


def test_a_store_that_appears_is_shown(tmp_path, serve, store):
    """The page of a missing store turns into the list once the app has written."""
    site = serve()
    page = site.get()
    assert page.status == 200
    assert state_of(page) == ""
    store.trace("first of all")
    assert "first of all" in site.get().text


def test_a_store_that_is_replaced_is_read_anew(store, serve):
    """Deleting the file and starting over does not need a restart of the viewer."""
    site = serve()
    store.trace("of the first file")
    assert "of the first file" in site.get().text
    store.close()
    for each in store.path.parent.glob("llmeval.db*"):
        each.unlink()
    store.trace("of the second file")
    page = site.get().text
    assert "of the second file" in page
    assert "of the first file" not in page


def test_a_mounted_viewer_links_below_its_path(store, serve):
    """Every address on every page stays below the mount, and works there."""
    root = store.judged()
    site = serve(mounted="/ops/llmeval")
    for path in ("/", f"/traces/{root.trace_id}", "/scores", "/scores/groundedness"):
        page = site.get(path)
        assert page.status == 200
        links = re.findall(r'(?:href|src|action|data-events)="([^"#][^"]*)"', page.text)
        assert links
        assert all(link.startswith("/ops/llmeval/") for link in links), path
    assert site.get("/static/viewer.css").status == 200
    form = {"trace_id": root.trace_id, "span_id": root.span_id, "name": "thumbs", "value": "up"}
    assert site.post("/feedback", form).headers["location"].startswith("/ops/llmeval/traces/")


def test_the_apps_own_user_signs_labels(store):
    """Mounted behind a login, a label says who gave it."""
    root = store.trace()

    class User:
        display_name = "ada"

    viewer = llmeval.viewer.app(store=store.path, open=True)

    async def logged_in(scope, receive, send):
        scope["user"] = User()
        await viewer(scope, receive, send)

    with serving(Starlette(routes=[Mount("/x", logged_in)]), "/x") as site:
        form = {"trace_id": root.trace_id, "span_id": root.span_id, "name": "thumbs", "value": "up"}
        assert site.post("/feedback", form).status == 303
    viewer.close()
    with StoreReader(store.path) as reader:
        (event,) = reader.feedback()
    assert event.evaluation.metadata == {"submitter": {"id": "ada"}}
