"""A web client says what it thinks of an answer, with a token that only the app can make."""

import json
from urllib.parse import urlsplit

import pytest
from served import serving
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from llmeval_sdk import viewer
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.process.shield import caught
from llmeval_sdk.store.reader import StoreReader


KEY = "k" * 24


@pytest.fixture
def endpoint(store):
    """Return the app, a server of it, and a span in its store."""
    span = store.span("answer")
    store.write(spans=[span])
    app = viewer.feedback_app(key=KEY, store=store.path, per_minute=10)
    with serving(app) as server:
        yield app, server, span


def post(server, said, **headers):
    body = said if isinstance(said, str) else json.dumps(said)
    return server.send("POST", "/", body, {"content-type": "application/json", **headers}).status


def stored(store):
    with StoreReader(store.path) as reader:
        return [event.evaluation for event in reader.feedback()]


def test_feedback_with_a_token_is_stored(endpoint, store):
    """Thumbs, ratings, words and a reason arrive as what a user of the app said."""
    app, server, span = endpoint
    token = viewer.feedback_token(span, key=KEY)
    assert post(server, {"token": token, "value": True, "reason": "quick"}) == 204
    assert post(server, {"token": token, "name": "stars", "value": 4}) == 204
    assert post(server, {"token": token, "name": "correction", "value": "Slate."}) == 204
    found = {said.name: said for said in stored(store)}
    assert {name: said.value for name, said in found.items()} == {
        "thumbs": True, "stars": 4.0, "correction": "Slate.",
    }  # fmt: skip
    assert found["thumbs"].explanation == "quick"
    assert found["thumbs"].metadata["source"] == "user"
    assert app.counts["accepted"] == 3


@pytest.mark.parametrize("place", [Route, Mount])
@pytest.mark.parametrize("path", ["/feedback", "/feedback/"])
def test_the_slash_at_the_end_makes_no_difference(store, place, path):
    """As a route it answers at once; where the framework redirects, the body goes along."""
    span = store.span("answer")
    store.write(spans=[span])
    app = viewer.feedback_app(key=KEY, store=store.path, origins=["https://app.example.com"])
    body = json.dumps({"token": viewer.feedback_token(span, key=KEY), "value": True})
    with serving(Starlette(routes=[place("/feedback", app)])) as server:
        done = server.send("POST", path, body, {"content-type": "application/json"})
        if done.status == 307:
            assert (place is Route) == path.endswith("/")
            moved = urlsplit(done.headers["location"]).path
            done = server.send("POST", moved, body, {"content-type": "application/json"})
        asked = {"origin": "https://app.example.com", "access-control-request-method": "POST"}
        preflight = server.send("OPTIONS", "/feedback", None, asked)
    app.close()
    assert done.status == 204
    assert place is Mount or preflight.headers["access-control-allow-origin"]


def test_a_token_of_another_key_or_span_is_refused(endpoint, store):
    """Nobody can say something of a span whose token they were not given."""
    app, server, span = endpoint
    other = viewer.feedback_token(span, key="x" * 24)
    mine = viewer.feedback_token(span, key=KEY)
    for token in (other, mine[:-1] + ("0" if mine[-1] != "0" else "1"), "", mine.upper()):
        assert post(server, {"token": token, "value": True}) == 403
    assert stored(store) == []
    assert app.counts["forged"] == 4


def test_an_unknown_or_pruned_span_is_counted(endpoint, store):
    """A token that was signed for a span that is not there is told so."""
    app, server, _ = endpoint
    gone = viewer.feedback_token(store.span("gone"), key=KEY)
    assert post(server, {"token": gone, "value": True}) == 404
    assert app.counts["unknown span"] == 1
    assert caught.snapshot()["feedback endpoint: unknown span"] >= 1


def test_a_flood_is_refused_and_counted(endpoint, store):
    """After so many in a minute a client gets 429, and the store does not grow."""
    app, server, span = endpoint
    token = viewer.feedback_token(span, key=KEY)
    answers = [post(server, {"token": token, "value": True}) for _ in range(40)]
    assert 9 <= answers.count(204) <= 12
    assert answers.count(204) + answers.count(429) == 40
    assert len(stored(store)) == answers.count(204)
    assert app.counts["too many"] == answers.count(429)
    refused = server.send("POST", "/", json.dumps({"token": token, "value": True}))
    assert (refused.status, refused.headers["retry-after"]) == (429, "60")


def test_forged_posts_lock_nobody_out(endpoint, store):
    """Behind a proxy all clients have one address: only who has no token is refused by it."""
    _, server, span = endpoint
    forged = viewer.feedback_token(span, key="x" * 24)
    answers = [post(server, {"token": forged, "value": True}) for _ in range(40)]
    assert 9 <= answers.count(403) <= 12
    assert answers.count(403) + answers.count(429) == 40
    assert post(server, {"token": viewer.feedback_token(span, key=KEY), "value": True}) == 204


def test_one_address_cannot_use_up_what_all_may_send(endpoint, store):
    """Many people may share an address, but it takes at most half of what the endpoint takes."""
    _, server, _ = endpoint
    spans = [store.span("answer") for _ in range(15)]
    store.write(spans=spans)
    tokens = [viewer.feedback_token(span, key=KEY) for span in spans]
    answers = [post(server, {"token": token, "value": True}) for token in tokens for _ in range(8)]
    assert 100 <= answers.count(204) < 115
    assert answers.count(204) + answers.count(429) == 120


@pytest.mark.parametrize(
    "said",
    ["", "[]", "{", '{"value": 1e999}', {"value": None}, {"value": {"a": 1}},
     {"name": "a b", "value": True}, {"name": 3, "value": True}, {"value": "x" * 300},
     {"value": "\x1b[2J"}, {"value": "a\x9bb"}, {"value": "\0"}, {"value": True, "reason": "\x1b]0;x\x07"},
     {"value": "thumbs", "reason": "a\x85b"}],
)  # fmt: skip
def test_what_is_no_feedback_is_refused(endpoint, store, said):
    """The answer says what is expected, and nothing is stored."""
    _, server, span = endpoint
    if isinstance(said, dict):
        said = {"token": viewer.feedback_token(span, key=KEY), **said}
    assert post(server, said) == 400
    assert stored(store) == []


def test_lines_and_emoji_are_no_control_characters(endpoint, store):
    """A reason of several lines and joined emoji are stored as they were written."""
    _, server, span = endpoint
    reason = "first\r\n\tsecond \U0001f469\u200d\U0001f4bb"
    said = {"token": viewer.feedback_token(span, key=KEY), "value": "so-so", "reason": reason}
    assert post(server, said) == 204
    assert stored(store)[0].explanation == reason


def test_a_long_body_is_not_read_to_its_end(endpoint):
    """More than a few kilobytes are no feedback."""
    _, server, _ = endpoint
    assert post(server, json.dumps({"reason": "x" * 100_000})) == 413


def test_a_short_key_is_refused():
    """A key that can be guessed signs nothing."""
    with pytest.raises(ConfigurationError, match="at least 16"):
        viewer.feedback_app(key="short")


def test_half_a_character_is_stored_as_a_question_mark(endpoint, store):
    """JSON may hold it, and no database takes it."""
    _, server, span = endpoint
    token = viewer.feedback_token(span, key=KEY)
    said = f'{{"token": "{token}", "name": "word", "value": "\\ud800!", "reason": "\\udc00"}}'
    assert post(server, said) == 204
    (kept,) = stored(store)
    assert (kept.value, kept.explanation) == ("?!", "?")
