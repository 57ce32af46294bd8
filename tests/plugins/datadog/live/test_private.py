"""What reaches Datadog by the capture settings and the redaction, also from spans that we drop."""

import json

import pytest


KEY = "sk-" + "abcdefghij0123456789xyz"
TEXTS = ("q-text", "a-text", "chunk-text", "value-text", "proof-text", "prompt-text", "error-text",
         "why-text", "meta-text", "own-text")  # fmt: skip
NAMES = ("span-name", "tag-name", "session-name", "doc-name", "chunk-name",
         "metric-name", "label-name")  # fmt: skip


@pytest.fixture
def run(agent, tmp_path):
    """Run the app, and return what arrived and all of it as one text."""

    def run(*arguments, **env):
        arrived = agent.run("private.py", *arguments, folder=tmp_path, **env)
        assert arrived.code == 0, arrived.errors[-3_000:]
        assert "problems {}" in arrived.output
        return arrived, json.dumps((arrived.spans, arrived.evaluations))

    return run


def test_no_span_of_ddtraces_has_a_secret_that_was_annotated(run):
    """Neither in the prompt that it inherits, nor in names, tags and sessions, nor when dropped."""
    arrived, text = run()
    assert "'shutdown'" in arrived.output
    assert KEY not in text
    assert [word for word in (*TEXTS, *NAMES) if word not in text] == []
    prompts = [
        span["meta"]["input"]["prompt"]["variables"]["q"]
        for span in arrived.spans
        if "prompt" in span["meta"].get("input", {})
    ]
    assert len(prompts) >= 5
    assert set(prompts) == {"q-text <redacted:api_key> own-secret"}


def test_what_the_apps_own_function_hides_is_in_no_span_either(run):
    """It runs behind the worker only, so that a prompt waits for it and is not inherited."""
    arrived, text = run("own")
    assert "own-secret" not in text
    assert KEY not in text
    (asked,) = [span for span in arrived.spans if span["name"] == "span-name ask"]
    assert asked["meta"]["input"]["prompt"]["variables"] == {"q": "q-text <redacted:api_key> ***"}


def test_without_content_names_leave_and_no_text_does(run):
    """Names of spans, tags, sessions, metrics and documents, scores and their labels."""
    arrived, text = run(LLMEVAL_CAPTURE_CONTENT="0")
    assert [word for word in (*TEXTS, KEY) if word in text] == []
    assert "session-name" in text
    assert "private.py" in text
    assert arrived.evaluation("own_score", on=arrived.span("span-name"))["score_value"] == 0.25


def test_with_scores_only_nothing_arrives_that_the_app_named(run):
    """Kinds, times, models, types of errors, and the names and values of scores do."""
    _, text = run(LLMEVAL_CAPTURE_CONTENT="scores")
    assert [word for word in (*TEXTS, *NAMES, KEY, "private.py", "call-name") if word in text] == []
    assert "own_score" in text
    assert "gpt-4o" in text
    assert "ValueError" in text
