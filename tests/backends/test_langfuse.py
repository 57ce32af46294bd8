"""Every kind of score, read by the models that Langfuse's own package makes of its API definition."""

from langfuse_server import FIELDS, PUBLIC, SECRET

import llmeval_sdk as llmeval
from llmeval_sdk.pipeline import runtime


CHUNKS = [{"content": "The roof is of slate.", "score": 0.9}, {"content": "Tiles.", "score": 0.4}]


@llmeval.heuristic
def tone(record):
    return "warm"


@llmeval.heuristic
def short(record):
    return True


@llmeval.heuristic
def breaks(record):
    raise RuntimeError("as it may")


def test_every_kind_of_score_is_one_that_the_package_reads(langfuse):
    """Numbers, yes or no, categories, failures, feedback: none has a field that Langfuse lacks."""
    url, ask = langfuse
    llmeval.configure(
        exporters=["langfuse"], langfuse_url=url, langfuse_public_key=PUBLIC,
        langfuse_secret_key=SECRET, langfuse_environment="Staging", evaluators=[tone, short, breaks],
    )  # fmt: skip
    with llmeval.workflow("answer", request="Which roof?", session_id="s-1") as workflow:
        workflow.retrieved_context = CHUNKS
        workflow.response = "Slate."
        ids = llmeval.export_span()
    llmeval.submit_evaluation(
        label="nice", value=0.5, span=ids, reasoning="Short.", tags={"a": "b"}
    )
    llmeval.submit_feedback(label="thumbs", value=True, span=ids, submitter={"id": "42"})
    llmeval.submit_feedback(label="liked", value="a lot", session_id="s-1")
    stats = runtime.flush(30).exporters["langfuse"]
    books = ask()
    assert books["problems"] == []
    assert stats.balanced
    assert stats.delivered == stats.created
    assert {score["dataType"] for score in books["scores"]} == {"NUMERIC", "BOOLEAN", "CATEGORICAL"}
    names = {score["name"] for score in books["scores"]}
    assert {"tone", "short", "breaks", "nice", "thumbs", "liked", "context_relevance"} <= names
    assert "invoke_workflow answer" in books["spans"]


def test_the_stand_in_knows_the_fields_of_the_package(langfuse):
    """What the everyday tests allow is what Langfuse has, neither more nor less."""
    assert set(langfuse[1]()["fields"]) == FIELDS
