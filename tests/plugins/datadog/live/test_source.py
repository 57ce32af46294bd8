"""Spans of plain ddtrace code are scored by our evaluators, with two lines."""

import json
import sys

import pytest


@pytest.fixture(scope="module")
def arrived(agent, tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    found = agent.run("plain_ddtrace.py", folder=folder, DD_LLMOBS_ML_APP=None)
    assert found.code == 0, found.errors[-2_000:]
    return found


@pytest.fixture(scope="module")
def root(arrived):
    found = sorted(arrived.roots("answer"), key=lambda span: span["start_ns"])
    assert len(found) == 2
    return found[0]


def labels(arrived, span):
    return {
        each["label"]
        for each in arrived.evaluations
        if each.get("join_on", {}).get("span", {}).get("span_id") == span["span_id"]
    }


def test_the_workflow_is_scored_with_what_is_below_it(arrived, root):
    """Documents of the retrieval, tokens of the model call, request and response of its own."""
    relevance = arrived.evaluation("context_relevance", on=root)
    assert relevance["metadata"]["mean_score"] == 0.5
    assert relevance["join_on"]["span"]["trace_id"] == root["trace_id"]
    assert "ml_app:plain" in relevance["tags"]
    assert arrived.evaluation("total_token_count", on=root)["score_value"] >= 9


def test_a_judge_reads_the_same_record(arrived, root):
    """And runs once."""
    verdict = arrived.evaluation("groundedness", on=root)
    assert verdict["categorical_value"] in ("yes", "no")
    assert "'groundedness': 1" in arrived.output
    assert "problems {}" in arrived.output


def test_a_judges_own_call_is_not_judged(arrived):
    """Although ddtrace instruments the client it uses."""
    named = {each["join_on"]["span"]["span_id"] for each in arrived.evaluations}
    ours = {span["span_id"] for span in arrived.spans if span["name"] in ("answer", "ours", "ask")}
    assert named <= ours


def test_nothing_is_scored_twice_and_nothing_in_disabled(arrived, root):
    """A span of ours around theirs is scored by us already."""
    second = sorted(arrived.roots("answer"), key=lambda span: span["start_ns"])[1]
    assert labels(arrived, second) == set()
    mine = [
        each["label"]
        for each in arrived.evaluations
        if each["join_on"]["span"]["span_id"] == root["span_id"]
    ]
    assert len(mine) == len(set(mine))


def test_a_judges_run_is_a_trace_of_its_own_with_a_link(arrived, root):
    """It never stretches the trace it is about; its tokens are on the call below it."""
    (run,) = arrived.roots("groundedness")
    (link,) = run["span_links"]
    assert (link["span_id"], link["trace_id"]) == (root["span_id"], root["trace_id"])
    assert run["trace_id"] != root["trace_id"]
    (call,) = arrived.children(run)
    assert call["meta"]["span"]["kind"] == "llm"
    assert call["metrics"]["total_tokens"] > 0
    assert call["trace_id"] == run["trace_id"]


@pytest.fixture(scope="module")
def of_users(agent, tmp_path_factory):
    """What an app of users, sessions and plain answers printed, by its first word."""
    done = agent.run("of_users.py", folder=tmp_path_factory.mktemp("users"), DD_LLMOBS_ML_APP=None)
    assert done.code == 0, done.errors[-2_000:]
    lines = [line.partition(" ") for line in done.output.splitlines()]
    return [(word, rest) for word, _, rest in lines]


def test_an_answer_that_is_a_plain_text_is_judged(of_users):
    """Ddtrace keeps it as a message without a role."""
    records = [json.loads(rest) for word, rest in of_users if word == "record"]
    assert [record[1:] for record in records] == [
        ["The roof is slate.", ["The roof is slate."]]
    ] * 2


def test_users_sessions_and_tags_of_ddtrace_are_kept(of_users):
    """Those of `LLMObs.annotate`, and not what ddtrace says of itself."""
    (stored,) = (json.loads(rest) for word, rest in of_users if word == "stored")
    labelled = {"user_id": "ann", "team": "roofs"}
    assert sorted((span for span in stored if span[0] != "seen"), key=str) == [
        ["answer", "chat-7", {"user_id": "bob"}],
        ["ask", "chat-7", labelled],
        ["ask", None, labelled],
    ]


def test_spans_of_ddtrace_are_read_without_the_exporter_datadog_too(agent, tmp_path):
    """`llmeval run` with the local store alone: the app switches LLM Observability on itself."""
    run = (sys.executable, "-m", "llmeval_sdk", "run")
    done = agent.run(
        "by_environment.py", folder=tmp_path, command=run, DD_LLMOBS_ENABLED="1",
        LLMEVAL_EXPORTERS="local", LLMEVAL_STORE="traces.db",
    )  # fmt: skip
    assert done.code == 0, done.errors[-2_000:]
    assert json.loads(done.output.splitlines()[-1]) == [["answer"]]
