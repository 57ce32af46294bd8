"""Only the right visitor sees a page, and a page does nothing but what is ours."""

import socket

import pytest
from served import serving

import llmeval_sdk as llmeval


TOKEN = "a-token-that-is-long-enough"


def test_the_first_page_needs_the_token_in_its_address_alone(store, serve):
    """Whoever opens the printed address is let in, and needs no token after that."""
    store.trace("seen at once")
    site = serve(token=TOKEN)
    page = site.get(token=TOKEN)
    assert page.status == 200
    assert "seen at once" in page.text
    cookie = page.headers["set-cookie"]
    assert all(each in cookie for each in ("HttpOnly", "SameSite=Strict", "Path=/"))
    jar = {"cookie": cookie.partition(";")[0]}
    assert site.send("GET", "/scores", headers=jar).status == 200
    assert site.send("GET", "/static/viewer.css", headers=jar).status == 200


@pytest.mark.parametrize("path", ["/", "/scores", "/events", "/static/viewer.js", "/feedback"])
@pytest.mark.parametrize("query", [{}, {"token": ""}, {"token": "wrong"}, {"token": TOKEN[:-1]}])
def test_without_the_token_there_is_nothing_to_see(store, serve, path, query):
    """Every address is refused alike, and says what to do."""
    store.trace("secret words")
    answer = serve(token=TOKEN).get(path, **query)
    assert answer.status == 403
    assert "secret words" not in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:{}", 200), ("LOCALHOST:{}", 200), ("evil.example:{}", 403), ("127.0.0.1", 403)],
)
def test_a_foreign_host_is_refused(store, host, status):
    """A name that somebody bound to this address reads nothing, even with the token."""
    store.trace()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    names = {f"127.0.0.1:{port}", f"localhost:{port}"}
    app = llmeval.viewer.app(store=store.path, token=TOKEN, hosts=names)
    with serving(app, port=port) as site:
        answer = site.send("GET", f"/?token={TOKEN}", headers={"host": host.format(port)})
    assert answer.status == status


def test_every_answer_forbids_what_is_not_ours(store, serve):
    """Pages, refusals, errors and files carry the same policy."""
    store.trace()
    site = serve(token=TOKEN)
    for path, query in (("/", {"token": TOKEN}), ("/", {}), ("/none", {"token": TOKEN})):
        headers = site.get(path, **query).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"sec-fetch-site": "same-origin"}, 303),
        ({"origin": "http://127.0.0.1:{}"}, 303),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_another_page_cannot_label(store, site, headers, status):
    """A form that a foreign page sends changes nothing."""
    root = store.trace()
    form = {"trace_id": root.trace_id, "span_id": root.span_id, "name": "thumbs", "value": "up"}
    given = {name: value.format(site.port) for name, value in headers.items()}
    assert site.post("/feedback", form, given).status == status
