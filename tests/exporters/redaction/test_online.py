"""Redaction in a running app: nothing that it takes out reaches anybody behind the worker."""

import logging
import sqlite3
import threading
from contextlib import closing

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import Chunk, Extraction, Prompt
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.exporters.redaction import FAILED
from llmeval_sdk.testing import FakeLLM, capture


SECRET = "hunter2"
KEY = "sk-" + "abcdefghij0123456789xyz"
VERDICT = '{"rationale": "it says hunter3", "rating": "yes"}'


@llmeval.heuristic
def quotes(record):
    """Say what the response was."""
    return llmeval.Evaluation(
        "quotes", 1.0, explanation=f"said {record.response}", metadata={"r": record.response}
    )


def everything(secret):
    """Put a text wherever the app can put one."""

    @llmeval.retrieval
    def search(question, extra):
        return [Chunk(f"chunk {secret}", f"doc://{secret}", "c1", 0.5, 1, "bm25", {"m": secret})]

    with llmeval.workflow("w", tags={"who": secret}, session_id=f"s-{secret}") as span:
        search(f"where is {secret}", [secret])
        with llmeval.llm(
            "ask", request={"messages": [{"role": "user", "content": secret}]}
        ) as step:
            step.annotate(prompt=Prompt("p", "1", f"{secret} {{q}}", variables={"q": secret}))
            step.response = f"it is {secret}"
        try:
            with llmeval.tool("broken"):
                raise ValueError(f"no {secret}")
        except ValueError:
            pass
        span.annotate(
            request=f"where is {secret}",
            response=f"at {secret}",
            extractions=[Extraction(secret, 1, "HIGH", f"of {secret}")],
            value=secret,
            field_config={"name": "f", "description": secret},
            expected_facts=[secret],
            expected_retrieved_context=[{"doc_uri": f"doc://{secret}"}],
            metadata={"deep": {"list": [secret]}},
        )
        llmeval.submit_evaluation(
            label="mine", value=0.5, reasoning=f"because {secret}", assessment=f"a {secret}",
            metadata={"who": secret}, tags={"t": secret},
        )  # fmt: skip
    return span


def seen_by(captured):
    return repr((captured.spans, captured.evaluations, captured.not_run))


CUSTOM = {"redact": lambda text: text.replace(SECRET, "*")}


@pytest.mark.parametrize(
    ("secret", "options"), [(SECRET, CUSTOM), (KEY, {})], ids=["custom", "key"]
)
def test_a_secret_reaches_no_exporter_judge_store_or_log(secret, options, tmp_path, caplog):
    """Wherever the app puts it: spans, scores, judge prompts, the store's file and the log."""
    caplog.set_level(logging.DEBUG)
    llm = FakeLLM(VERDICT)
    judges = ["relevance_to_query", "groundedness", "chunk_relevance", quotes]
    with capture(
        llm=llm, evaluators=judges, exporters=["local"], store=str(tmp_path / "s.db"), **options
    ) as seen:
        everything(secret)
        stats = seen.drain()
    assert stats.judged["relevance_to_query"] == 1
    if options:  # the assessment is a label, which the app's function does not see
        seen.evaluations = [each for each in seen.evaluations if each.evaluation.name != "mine"]
    shown = seen_by(seen)
    assert secret not in shown
    assert "at *" in shown or "<redacted:api_key>" in shown
    prompts = repr(llm.calls)
    assert "where is" in prompts
    assert secret not in prompts
    assert secret not in caplog.text
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    if not options:
        assert secret.encode() not in stored
    assert seen.scores("w")["quotes"].value == 1.0


def test_the_app_sees_its_own_values_unchanged():
    """What was redacted is a copy: the span that the app holds still says what it said."""
    with capture(**CUSTOM) as seen:
        span = everything(SECRET)
        seen.drain()
    assert span.response == f"at {SECRET}"
    assert span.request == f"where is {SECRET}"
    assert seen.span("w").response == "at *"


def test_each_text_of_a_span_is_redacted_once():
    """However often it occurs in the span and in what evaluators see of it."""
    times = {}
    lock = threading.Lock()

    def custom(text):
        with lock:
            times[text] = times.get(text, 0) + 1
        return f"<{text}>"

    with capture(redact=custom, evaluators=[quotes]) as seen:
        with llmeval.workflow("w", request="question") as span:
            span.response = "answer"
        seen.drain()
    assert seen.span("w").response == "<answer>"
    assert seen.scores("w")["quotes"].explanation == "said <answer>"
    assert times["answer"] == times["question"] == 1


@pytest.mark.parametrize(
    "answer",
    [lambda text: 1 / 0, lambda text: 7, lambda text: text.nothing],
    ids=["raises", "number", "bug"],
)
def test_a_broken_redactor_lets_nothing_through(answer):
    """Fields say that it failed, inline scores stay, and no judge is paid for a marker."""
    llm = FakeLLM(VERDICT)
    with capture(
        llm=llm, evaluators=["relevance_to_query"], redact=answer, raise_again=False
    ) as seen:
        everything(SECRET)
        seen.drain()
    span = seen.span("w")
    assert (span.request, span.response) == (FAILED, FAILED)
    assert span.retrieved_context is None
    assert seen.span("search").retrieved_context[0].content == FAILED
    assert SECRET not in repr(seen.spans)
    assert llm.calls == []
    assert seen.reasons()["relevance_to_query"] == "error"
    assert seen.scores("w")["context_relevance"].value is not None


def test_a_redactor_that_hangs_delays_nothing_but_the_worker(monkeypatch):
    """The app's calls end while it hangs, what hangs is closed, and the exit is not held up."""
    release = threading.Event()
    with capture(redact=lambda text: release.wait() and text) as seen:
        for _ in range(200):
            with llmeval.workflow("w", request=SECRET):
                pass
        seen.drain()
        release.set()
    assert {span.request for span in seen.spans} == {FAILED}


def test_a_redactor_whose_helpers_are_traced_makes_no_spans():
    """Else each span would make another to redact."""

    @llmeval.task
    def clean(text):
        return text.replace(SECRET, "*")

    with capture(redact=clean) as seen:
        with llmeval.workflow("w", request=SECRET):
            pass
        seen.drain()
    assert [span.name for span in seen.spans] == ["w"]
    assert seen.spans[0].request == "*"


def test_personal_data_is_looked_for_when_asked():
    """By name in code or in the environment; keys are looked for by default."""
    text = f"mail a@example.com, card 4111 1111 1111 1111, key {KEY}"
    with capture() as seen:
        with llmeval.workflow("w", request=text):
            pass
        seen.drain()
    assert seen.spans[0].request == text.replace(KEY, "<redacted:api_key>")
    with capture(redact=["email", "card"]) as seen:
        with llmeval.workflow("w", request=text):
            pass
        seen.drain()
    assert seen.spans[0].request == f"mail <redacted:email>, card <redacted:card>, key {KEY}"
    with capture(redact="off") as seen:
        with llmeval.workflow("w", request=text):
            pass
        seen.drain()
    assert seen.spans[0].request == text


def test_a_mistake_in_the_environment_uses_every_detector(monkeypatch, caplog):
    """A misspelt name must not let through what was meant to be taken out."""
    monkeypatch.setenv("LLMEVAL_REDACT", "emial")
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "memory")
    from llmeval_sdk.exporters import memory

    memory.clear()
    with llmeval.workflow("w", request="a@example.com"):
        pass
    llmeval.flush()
    assert memory.spans()[-1].request == "<redacted:email>"
    assert "did you mean 'email'" in caplog.text


def test_a_mistake_in_code_is_told_at_once():
    """``configure()`` raises."""
    with pytest.raises(ConfigurationError, match="did you mean 'email'"):
        llmeval.configure(redact=["emial"])


def test_without_content_no_text_leaves_and_the_scores_do(tmp_path):
    """Heuristics, inline and in the background, still score; nothing quotes what they read."""
    options = {"capture_content": False, "exporters": ["local"], "store": str(tmp_path / "s.db")}
    with capture(
        llm=FakeLLM(VERDICT), evaluators=[quotes, "relevance_to_query"], **options
    ) as seen:
        everything(SECRET)
        seen.drain()
    spans = [
        repr(span).replace(f"s-{SECRET}", "").replace(f"'who': '{SECRET}'", "")
        for span in seen.spans
    ]
    assert not [span for span in spans if f"{SECRET}" in span.replace(f"doc://{SECRET}", "")]
    events = [each for each in seen.evaluations if each.evaluation.label != f"a {SECRET}"]
    assert SECRET not in repr(events)
    assert "hunter3" not in seen_by(seen)
    scores = seen.scores("w")
    assert scores["quotes"].value == 1.0
    assert scores["context_relevance"].value is not None
    assert scores["relevance_to_query"].value == "yes"
    with closing(sqlite3.connect(tmp_path / "s.db")) as store:
        texts = store.execute(
            "SELECT request, response, metadata FROM spans JOIN evaluations USING (span_id)"
        )
        assert SECRET not in repr(texts.fetchall())


@pytest.mark.parametrize(
    ("secret", "options", "kept"),
    [(KEY, {}, b"where is <redacted:api_key>"), (SECRET, CUSTOM, b""), (SECRET, {"capture_content": False}, b"")],
    ids=["built-in", "custom", "no content"],
)  # fmt: skip
def test_the_spool_holds_no_secret(secret, options, kept, tmp_path):
    """Built-in detectors run before the copy; with a function of the app, it has no content.

    It has the scores then, which who takes it over could not make.
    """
    with capture(spool=str(tmp_path / "spool"), worker="off", exporters=[], **options):
        everything(secret)
        (path,) = (tmp_path / "spool").iterdir()
        content = path.read_bytes()
    labels = content.replace(b"a " + secret.encode(), b"")
    assert secret.encode() not in labels
    assert kept in content
    assert (b"context_relevance" in content) is not kept.startswith(b"where")
