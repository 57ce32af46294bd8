"""`--json` prints one document on standard output and nothing else, with keys that stay."""

import json

import pytest

from llmeval_sdk.model import Failure


@pytest.fixture
def filled(store):
    span = store.span("01" * 8, request="q", response="a", trace_id="0a" * 16)
    store.evaluation(span, "precision", 0.25, explanation="why")
    store.evaluation(span, "broken", None, error=Failure("timeout", "late"))
    store.not_run(span, "correctness", "not_sampled")
    store.span("02" * 8, "search", kind="retrieval", parent_id=span.span_id, trace_id="0a" * 16)
    return store


def document(done, code=0):
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


KEYS = {
    "span_id", "trace_id", "span", "evaluations", "not_run", "feedback", "no_answer", "other_spans",
}  # fmt: skip


def test_explain_prints_a_span_with_all_that_was_said(llmeval, filled):
    """By the id of the span or its trace; scores, failures, and why a judge did not run."""
    shown = document(llmeval("explain", "01" * 8, "--json", "--store", filled.path))
    assert set(shown) == KEYS
    assert shown["span"]["request"] == "q"
    said = {each["name"]: each for each in shown["evaluations"]}
    assert (said["precision"]["value"], said["broken"]["error"]["type"]) == (0.25, "timeout")
    (refusal,) = shown["not_run"]
    assert refusal["reason"] == "not_sampled"
    assert refusal["advice"]
    by_trace = document(llmeval("explain", "0a" * 16, "--json", "--store", filled.path))
    assert by_trace["span_id"] == "01" * 8
    assert [other["name"] for other in by_trace["other_spans"]] == ["search"]
    assert document(llmeval("explain", "--last", "--json", "--store", filled.path))["span"]


def test_explain_has_the_same_keys_where_nothing_is_known(llmeval, filled):
    """An unknown id, and the beginning of several."""
    nothing = document(llmeval("explain", "ff", "--json", "--store", filled.path), code=1)
    several = document(llmeval("explain", "0", "--json", "--store", filled.path), code=1)
    assert set(nothing) == set(several) == KEYS
    assert (nothing["span"], nothing["other_spans"]) == (None, [])
    assert [other["span_id"] for other in several["other_spans"]] == ["01" * 8, "02" * 8]


def test_prune_prints_what_went(llmeval, filled):
    """The same keys for a dry run and for a real one."""
    run = ("prune", "--store", filled.path, "--max-days", "1", "--json")
    dry, real = document(llmeval(*run, "--dry-run")), document(llmeval(*run))
    assert set(dry) == set(real)
    assert (dry["too_old"], dry["removed"], real["removed"]) == (2, 0, 2)


def test_doctor_prints_settings_and_findings(llmeval):
    """Without a secret; the exit code says the same as ``broken``."""
    env = {"OPENAI_API_KEY": "sk-very-secret-key", "LLMEVAL_JUDGE_MODEL": "m"}
    done = llmeval("doctor", "--offline", "--json", **env)
    shown = document(done)
    assert shown["broken"] == 0
    assert {"name": "judge_model", "value": "m", "from": "LLMEVAL_JUDGE_MODEL"} in shown["settings"]
    assert {"Store", "Judge model"} <= set(shown["sections"])
    assert "sk-very-secret-key" not in done.stdout
    broken = document(llmeval("doctor", "--offline", "--json", LLMEVAL_JUDGE_CONCURRENCY="x"), 1)
    assert broken["broken"] == 1


def test_prune_prints_what_went_of_a_user(llmeval, store):
    """The same keys for a dry run and for a real one; no prose on standard output."""
    for number in (1, 2):
        tags = {"user_id": f"user-{number}"}
        store.span(f"{number:016x}", trace_id=f"{number:032x}", tags=tags)
    run = ("prune", "--store", store.path, "--user", "user-1", "--json")
    dry, real = document(llmeval(*run, "--dry-run")), document(llmeval(*run))
    assert set(dry) == set(real)
    assert (dry["traces"], dry["removed"], real["removed"]) == (1, 0, 1)
