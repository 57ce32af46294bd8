"""With one setting, ids of users and sessions leave the process only as keyed hashes."""

import hashlib
import hmac
import json
import sqlite3
from contextlib import closing, contextmanager

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.config.settings import IdentitySettings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model.protocols import ContextBridge
from llmeval_sdk.process.shield import caught
from llmeval_sdk.store.identities import Identities, identities
from llmeval_sdk.testing import capture
from llmeval_sdk.tracing import extract, inject
from llmeval_sdk.tracing._span import state


KEY = "a key that all hosts have"
PLAIN = ("anna", "chat-7")


def hash_of(identifier):
    """The hash as another program would make it, with the standard library alone."""
    digest = hmac.new(KEY.encode(), identifier.encode(), hashlib.sha256).hexdigest()
    return f"hmac-{digest[:32]}"


@llmeval.workflow(session_id="chat-7", tags={"user_id": "anna", "release": "v7"})
def decorated():
    """Declared before the setting is known."""
    return "Slate."


def annotated():
    with llmeval.workflow("annotated") as span:
        llmeval.annotate(session_id="chat-7", user_id="anna", tags={"release": "v7"})
    return span


def around():
    with (
        llmeval.annotation_context(session_id="chat-7", user_id="anna", tags={"release": "v7"}),
        llmeval.workflow("around"),
        llmeval.task("below"),
    ):
        pass


@pytest.mark.parametrize("way", [decorated, annotated, around])
def test_no_span_holds_an_id(way):
    """However the app names them, and on each span that they belong to."""
    with capture(hash_ids=KEY) as seen:
        way()
        seen.drain()
    assert seen.spans
    for span in seen.spans:
        assert span.session_id == hash_of("chat-7")
        assert span.tags == {"user_id": hash_of("anna"), "release": "v7"}
    assert not any(plain in repr(seen.spans) for plain in PLAIN)


@pytest.mark.parametrize("settings", [{}, {"spool": "spool"}])
def test_store_and_spool_hold_hashes(tmp_path, settings):
    """Not one byte of their files holds an id, nor does what a person said about it."""
    settings = {name: str(tmp_path / folder) for name, folder in settings.items()}
    store = tmp_path / "store.db"
    with capture(hash_ids=KEY, exporters=["local"], store=str(store), **settings):
        span = annotated()
        decorated()
        llmeval.submit_feedback(label="thumbs", value=True, span=span, submitter={"id": "anna"})
        llmeval.submit_feedback(label="thumbs", value=True, session_id="chat-7")
        llmeval.submit_evaluation(label="own", value=1.0, span=span, tags={"user_id": "anna"})
        llmeval.flush(10)
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert hash_of("anna").encode() in files
    assert not any(plain.encode() in files for plain in PLAIN)


def test_called_services_get_hashes_and_do_not_hash_them_again():
    """Nor does a service in between that begins no span of its own pass on what it was sent."""
    headers = {}
    with capture(hash_ids=KEY), llmeval.workflow("caller", session_id="chat-7"):
        llmeval.annotate(user_id="anna")
        inject(headers)
    assert dict(pair.split("=") for pair in headers["baggage"].split(",")) == {
        "session.id": hash_of("chat-7"),
        "user.id": hash_of("anna"),
    }
    plain, onward = {**headers, "baggage": "session.id=chat-7,user.id=anna"}, {}
    for received in (headers, plain):
        with capture(hash_ids=KEY) as seen:
            with extract(received):
                inject(onward)
                with llmeval.workflow("called"):
                    pass
            seen.drain()
            called = seen.span("called")
        assert (called.session_id, called.tags["user_id"]) == (hash_of("chat-7"), hash_of("anna"))
        assert "chat-7" not in json.dumps(onward)


@pytest.mark.plugin("openinference")
def test_spans_of_other_libraries_hold_hashes(tmp_path):
    """The session that an instrumentation wrote, which the store keeps with the score."""
    from opentelemetry.sdk.trace import TracerProvider

    from llmeval_sdk.plugins.openinference.otel import EvaluationSpanProcessor

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(EvaluationSpanProcessor())
    store = tmp_path / "store.db"
    with capture(hash_ids=KEY, exporters=["local"], store=str(store)):
        with provider.get_tracer("t").start_as_current_span("chat") as span:
            span.set_attributes({"openinference.span.kind": "LLM", "session.id": "chat-7"})
        llmeval.flush(10)
    with closing(sqlite3.connect(store)) as opened:
        assert opened.execute("SELECT session_id FROM spans").fetchall() == [(hash_of("chat-7"),)]


def test_without_the_setting_ids_stay_as_they_are():
    with capture() as seen:
        annotated()
        seen.drain()
        assert seen.span("annotated").tags["user_id"] == "anna"


def test_a_key_that_can_be_guessed_is_refused_and_sends_no_id(monkeypatch):
    """In code by an error; from the environment, ids are left out, in every place."""
    with pytest.raises(ConfigurationError, match="16 characters"):
        llmeval.configure(hash_ids="true")
    monkeypatch.setenv("LLMEVAL_HASH_IDS", "true")
    problems = []
    settings = config.from_environment(problems=problems)
    assert settings.of(IdentitySettings).hash_ids is None
    assert "ids of users and sessions are left out" in problems[0]
    hidden = identities(settings).without(
        {
            "user_id": "anna",
            "tags": {"session.id": "anna", "team": "x"},
            "submitter": {"id": "anna", "role": "nurse"},
        }
    )
    assert hidden == {"tags": {"team": "x"}, "submitter": {"id": None, "role": "nurse"}}


def test_ids_that_are_left_out_leave_by_no_way(monkeypatch):
    """Neither with spans, nor by the headers of a call to another service."""
    monkeypatch.setenv("LLMEVAL_HASH_IDS", "true")
    headers = {}
    with capture() as seen:
        with llmeval.annotation_context(session_id="chat-7", user_id="anna"), llmeval.workflow("w"):
            inject(headers)
        seen.drain()
    assert seen.spans[0].session_id is None
    assert "anna" not in repr(seen.spans)
    assert "baggage" not in headers


@pytest.mark.parametrize("strange", ["", "\ud800", "x" * 100_000, 7, None])
def test_any_id_has_a_hash(strange):
    """An empty, broken, long or numeric one; each of the same length."""
    assert len(Identities(KEY).hashed(strange)) == 37


class Neighbour(ContextBridge):
    """Another library, with an annotation context of its own."""

    @contextmanager
    def annotation_context(self, **fields):
        self.fields = fields
        yield


def test_other_libraries_get_no_id_from_us(monkeypatch):
    """Neither as a field nor as a tag, because their spans leave the process without us."""
    neighbour = Neighbour()
    monkeypatch.setattr(state, "neighbours", [neighbour])
    monkeypatch.setattr(state, "identities", Identities(KEY))
    with llmeval.annotation_context(user_id="anna", tags={"session_id": "chat-7", "a": "b"}):
        pass
    assert neighbour.fields["user_id"] == hash_of("anna")
    assert neighbour.fields["tags"] == {"session_id": hash_of("chat-7"), "a": "b"}


def test_a_long_id_is_cut_as_spans_cut_it_and_takes_no_memory():
    """One hash stands for it everywhere, and strangers fill no cache with long ones."""
    hashes = Identities(KEY)
    assert hashes.hashed("x" * 5_000) == hash_of("x" * 1_000)
    assert hashes._remembered.cache_info().currsize == 0


class Unprintable:
    def __str__(self):
        raise ValueError("no text")


ITSELF = {}
ITSELF["tags"] = ITSELF


@pytest.mark.parametrize(
    "fields", [{"user_id": Unprintable()}, {"tags": {"user_id": Unprintable()}}, {"tags": ITSELF}]
)
def test_an_id_that_cannot_be_read_raises_nothing_into_the_app(fields, monkeypatch):
    """The other library gets no annotation then, since it could hold the id."""
    neighbour = Neighbour()
    monkeypatch.setattr(state, "neighbours", [neighbour])
    monkeypatch.setattr(state, "identities", Identities(KEY))
    with llmeval.annotation_context(**fields):
        answered = "Slate."
    assert answered == "Slate."
    assert not hasattr(neighbour, "fields")
    assert caught.snapshot()["annotation_context"] >= 1
