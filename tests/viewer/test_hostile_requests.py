"""Whatever a request holds, the answer is a page or a sentence, and never an error of the server."""

import asyncio
from contextlib import closing
from urllib.parse import quote_from_bytes

import pytest

from llmeval_sdk import viewer


HOSTILE = {
    "a line end": b"tag:team=a\rb",
    "a line end in a name": b"tag:a\rb=c",
    "a quote left open": b'tag:team="a\rb',
    "half a character": b"user=\xed\xa0\x80",
    "no UTF-8": b"tag:team=\xff",
    "NUL": b"tag:team=\0",
    "a huge number": b"9" * 400,
    "more digits than Python reads": b"9" * 5_000,
    "a row number too large for SQLite": b"9" * 19,
    "a huge bound": b"latency<" + b"9" * 400 + b"h",
    "no number": b"nan",
    "no finite number": b"1e999",
    "an odd digit": "²".encode(),
    "a line separator": "\u2028".encode(),
    "steering": b"\x1b[2J",
    "half an address": b"http://[::1",
    "a path": b"../../etc/passwd",
    "fifteen thousand letters": b"x" * 15_000,
    "nothing": b"",
}
GETS = {
    "/": "where said sort evaluator op value name session user errors before after kind q span state",
    "/sessions": "where user after",
    "/session": "where id turn",
    "/compare": "where a b",
    "/scores": "where range",
    "/scores/groundedness": "where range",
    "/review": "where field skip last",
    "/label": "where judge labels skip span last",
    "/versions": "where by baseline version range",
    "/overview": "where range",
    "/experiments": "sort a b",
    "/experiments/report": "name",
    "/experiments/compare": "a b",
    "/static/viewer.js": "v",
}
"""What pages read of their addresses, or might."""
HEADERS = ("cookie", "host", "origin", "sec-fetch-site", "last-event-id", "range", "if-none-match")


class _Site:
    """The app as a server would call it, which may pass on more than our own client can send."""

    def __init__(self, app):
        self._app = app

    def send(self, method, path, *, query=b"", body=b"", headers=()):
        return asyncio.run(asyncio.wait_for(self._sent(method, path, query, body, headers), 25))

    async def _sent(self, method, path, query, body, headers):
        answer = {"body": b""}
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            return parts.pop() if parts else {"type": "http.disconnect"}

        async def send(message):
            if message["type"] == "http.response.start":
                answer["status"] = message["status"]
            else:
                answer["body"] += message.get("body", b"")

        named = [(name.encode(), value) for name, value in headers]
        hosts = [] if any(name == "host" for name, _ in headers) else [(b"host", b"127.0.0.1")]
        await self._app({
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": path, "raw_path": b"", "query_string": query, "root_path": "",
            "headers": [*hosts, *named], "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 80),
        }, receive, send)  # fmt: skip
        return answer["status"], answer["body"].decode()


@pytest.fixture
def shown(store):
    """Return the viewer of one judged request, open to any host, and the request's first span."""
    root = store.judged(tags={"team": "a", "user_id": "u"}, session_id="s")
    with closing(viewer.app(store=store.path, open=True, hosts=["*"], metrics=True)) as app:
        yield _Site(app), root


def _query(name, text):
    return f"{name}={quote_from_bytes(text)}".encode()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_address_is_an_error_of_the_server(shown, text):
    """Every parameter of every page, and every part of a path."""
    site, root = shown
    calls = [(path, _query(name, text)) for path, names in GETS.items() for name in names.split()]
    calls += [
        ("/label", b"judge=groundedness&" + _query(name, text)) for name in GETS["/label"].split()
    ]
    calls += [
        (f"/traces/{root.trace_id}", _query(name, text)) for name in ("span", "step", "golden")
    ]
    for part in (text.decode("utf-8", "surrogateescape"), text.decode("utf-8", "replace")):
        ids = (root.trace_id, root.span_id, "request")
        paths = ["/".join((*ids[:place], part, *ids[place + 1 :])) for place in range(3)]
        calls += [(f"/{path}", b"") for path in (part, f"scores/{part}", f"traces/{part}")]
        calls += [(f"/traces/{path}", b"") for path in paths]
    for path, query in calls:
        status, _ = site.send("GET", path, query=query)
        assert status in (200, 303, 400, 404, 422), (path, query, status)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_form_is_an_error_of_the_server(shown, text):
    """Every field of every form, and the filter beside it."""
    site, root = shown
    fields = {"trace_id": root.trace_id.encode(), "span_id": root.span_id.encode()}
    forms = {
        "/review": {"field": b"1", "value": b"yes", "skip": b""},
        "/label": {
            **fields,
            "judge": b"groundedness",
            "value": b"yes",
            "labels": b"9",
            "skip": b"",
        },
        "/feedback": {**fields, "name": b"helpful", "value": b"yes", "note": b"", "at": b"main"},
        "/golden": {**fields, "dataset": b"kept", "expected": b"slate"},
    }
    for path, form in forms.items():
        bodies = [b"&".join(_query(*one) for one in {**form, name: text}.items()) for name in form]
        whole = b"&".join(_query(*one) for one in form.items())
        calls = [(b"", body) for body in (*bodies, text)] + [(_query("where", text), whole)]
        for query, body in calls:
            status, _ = site.send("POST", path, query=query, body=body)
            assert status in (303, 400, 404), (path, query, body, status)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_header_is_an_error_of_the_server(shown, text):
    """Cookies, hosts and where a form came from, with a token and without."""
    site, _ = shown
    with closing(viewer.app(token="a-token-that-is-long-enough", hosts=["*"])) as app:
        for name in HEADERS:
            value = b"llmeval-80=" + text if name == "cookie" else text
            for each, method, path in (
                (site, "GET", "/"), (site, "POST", "/feedback"), (site, "GET", "/static/viewer.css"),
                (_Site(app), "GET", "/"),
            ):  # fmt: skip
                status, _ = each.send(method, path, headers=[(name, value)])
                assert status < 500, (name, method, path, status)


@pytest.mark.parametrize("path", ["/", "/sessions", "/scores", "/review", "/label", "/overview"])
def test_a_filter_that_cannot_be_read_is_refused_in_a_sentence(shown, path):
    """The page says what is wrong; that of the list keeps its form."""
    site, _ = shown
    status, page = site.send("GET", path, query=_query("where", HOSTILE["a line end"]))
    assert status == (200 if path == "/" else 400)
    assert "a control character in a value has to stand in quotes" in page


def test_a_value_with_a_line_end_is_found_in_quotes(store, shown):
    """What a store holds can be asked for."""
    site, _ = shown
    store.trace("a request of two lines", tags={"team": "a\rb"})
    status, page = site.send("GET", "/", query=_query("where", b'tag:team="a\rb"'))
    assert status == 200
    assert "a request of two lines" in page
