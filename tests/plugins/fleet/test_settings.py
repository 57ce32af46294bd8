"""A fleet that cannot be used is said at `configure()`; in the environment it is a line of the log."""

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.process import shield


KEY = "a-key-that-only-tests-have"
QUEUE = "redis://127.0.0.1:1/0"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"judge_queue": "amqp://user:pass-word@h/"}, "expected redis://"),
        ({"judge_queue": "redis://"}, "expected redis://"),
        ({"judge_queue": QUEUE}, "set LLMEVAL_FLEET_KEY on apps and workers"),
        ({"judge_queue": QUEUE, "fleet_key": "short"}, "at least 16 characters"),
        ({"judge_queue": QUEUE, "fleet_key": KEY, "capture_content": False}, "capture_content"),
        ({"judge_queue": QUEUE, "fleet_key": KEY, "capture_content": "scores"}, "capture_content"),
    ],
)
def test_configure_says_what_is_wrong(settings, words):
    """The message says what to do, and holds no password."""
    with pytest.raises(llmeval.errors.ConfigurationError, match=words) as error:
        llmeval.configure(exporters=["memory"], **settings)
    assert "pass-word" not in str(error.value)


def test_a_mistake_in_the_environment_leaves_judgements_at_home(monkeypatch):
    """No key: a line in the log, the app runs on, and nothing is spent in its own process."""
    monkeypatch.setenv("LLMEVAL_JUDGE_QUEUE", QUEUE)
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "memory")
    with llmeval.workflow("answer", request="q") as span:
        span.response = "a"
    assert runtime.pipeline().plan.judging is None
    assert not runtime.pipeline().plan.has_model
    assert any("LLMEVAL_JUDGE_QUEUE" in site for site in shield._last_told)


def test_an_address_that_cannot_be_read_is_no_budget_of_its_own(monkeypatch):
    """Where all hosts were to share one budget, a slip of the pen must not give each its own."""
    monkeypatch.setenv("LLMEVAL_SHARED", "redi:/host")
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "memory")
    monkeypatch.setenv("LLMEVAL_JUDGE_BASE_URL", "http://127.0.0.1:1/v1")
    llmeval.configure(evaluators=["safety"], judge_model="stand-in")
    with llmeval.workflow("answer", request="q") as span:
        span.response = "a"
    stats = llmeval.flush(10)
    assert stats.not_run["safety"] == {"not_sampled": 1}
    assert any("LLMEVAL_SHARED" in site for site in shield._last_told)


def test_neither_address_nor_key_shows(monkeypatch):
    """The representation of the settings holds neither."""
    llmeval.configure(
        exporters=["memory"], judge_queue="redis://:pass-word@127.0.0.1:1/0", fleet_key=KEY
    )
    assert "pass-word" not in repr(runtime.settings())
    assert KEY not in repr(runtime.settings())
    assert runtime.pipeline().plan.has_model
