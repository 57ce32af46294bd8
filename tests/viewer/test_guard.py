"""Only the right visitor sees a page, and a page does nothing but what is ours."""

import socket
import time

import pytest
from served import serving

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.viewer._guard import PASS_SECONDS, Pass


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


@pytest.mark.parametrize("options", [{}, {"token": ""}, {"token": TOKEN, "open": True}])
def test_an_app_says_who_may_look(options):
    """Mounted without a word the pages would publish every prompt: it is an error with both ways out."""
    with pytest.raises(ConfigurationError, match=r"token=.*open=True"):
        llmeval.viewer.app(**options)


@pytest.mark.parametrize(
    ("hosts", "host", "status"),
    [
        (None, "127.0.0.1:{}", 200),
        (None, "localhost:{}", 200),
        (None, "[::1]:{}", 200),
        (None, "10.0.0.7", 200),
        (None, "evil.example:{}", 403),
        (None, "127.0.0.1.evil.example", 403),
        (None, "localhost.evil.example:{}", 403),
        (None, "", 403),
        (["app.example.com"], "APP.example.com:8443", 200),
        (["app.example.com"], "evil.example", 403),
        (["*"], "evil.example", 200),
    ],
)
def test_a_mounted_viewer_checks_the_host(serve, store, hosts, host, status):
    """Without a word only addresses and localhost are answered, which no foreign page can be."""
    store.trace()
    site = serve(hosts=hosts)
    headers = {"host": host.format(site.port)}
    assert site.send("GET", "/", headers=headers).status == status


def jar(page):
    return {"cookie": page.headers["set-cookie"].partition(";")[0]}


def test_the_cookie_is_not_the_token(serve, store):
    """Whoever reads the browser's cookies does not learn the token."""
    store.trace()
    cookie = serve(token=TOKEN).get(token=TOKEN).headers["set-cookie"]
    assert TOKEN not in cookie
    assert "Max-Age=43200" in cookie


def test_a_cookie_is_of_no_use_on_another_port(serve, store):
    """Browsers send it to every server of the host; another viewer with the same token refuses it."""
    store.trace()
    one, other = serve(token=TOKEN), serve(token=TOKEN)
    name, _, value = jar(one.get(token=TOKEN))["cookie"].partition("=")
    assert one.send("GET", "/", headers={"cookie": f"{name}={value}"}).status == 200
    renamed = f"{name}={value}; llmeval-{other.port}={value}"
    assert other.send("GET", "/", headers={"cookie": renamed}).status == 403


@pytest.mark.parametrize("shift", [PASS_SECONDS + 1, -10])
def test_a_cookie_runs_out(monkeypatch, shift):
    """After twelve hours the address with the token is needed again; no end can be made up."""
    issued = Pass(TOKEN).issue(8520)
    assert Pass(TOKEN).is_valid(issued, 8520)
    begin = time.time()
    monkeypatch.setattr(time, "time", lambda: begin + shift)
    assert Pass(TOKEN).is_valid(issued, 8520) is (shift < 0)
    until, _, signature = issued.partition("-")
    for forged in (
        f"{int(until) + 60}-{signature}",
        f"{until}-",
        "-",
        "",
        "٣-x",
        f"9{'9' * 400}-x",
    ):
        assert not Pass(TOKEN).is_valid(forged, 8520)


def test_a_browser_is_sent_on_to_an_address_without_the_token(serve, store):
    """The token stays neither in the address bar nor in a bookmark; the rest of the query does."""
    store.trace()
    site = serve(token=TOKEN)
    visit = {"sec-fetch-dest": "document", "sec-fetch-site": "none"}
    page = site.send("GET", f"/scores?range=1h&token={TOKEN}", headers=visit)
    assert page.status == 303
    assert page.headers["location"] == "/scores?range=1h"
    assert site.send("GET", "/scores", headers=jar(page)).status == 200
