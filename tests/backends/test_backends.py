"""One request, read back from each backend's own API."""

import json

import pytest
from backend_servers import eventually, fetch

import llmeval_sdk as llmeval
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.testing import FakeLLM


COMPLETION = {
    "id": "chatcmpl-1",
    "model": "gpt-4o",
    "choices": [{"message": {"role": "assistant", "content": "Slate."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 11, "completion_tokens": 2},
}
CHUNKS = [
    {"content": "The roof is of slate.", "doc_uri": "survey.pdf", "chunk_id": "c1", "score": 0.9},
    {"content": "The annex was sold.", "doc_uri": "annex.pdf", "chunk_id": "c2", "score": 0.4},
]
VERDICT = '{"rationale": "kind words", "rating": "yes"}'


@pytest.fixture
def answer():
    """An app with every kind of step; returns the ids of the workflow it ran."""
    polite = llmeval.LLMJudge("polite", "Is it polite?\n\n{response}")
    broken = llmeval.LLMJudge("broken", "BROKEN {response}")

    @llmeval.judge(per="chunk")
    def on_topic(record, chunk, llm) -> bool:
        return "roof" in chunk.content

    @llmeval.retrieval
    def find(query):
        return CHUNKS

    @llmeval.llm(model_name="gpt-4o", model_provider="openai")
    def ask(messages):
        return COMPLETION

    @llmeval.workflow
    def answer(question):
        find(question)
        ask([{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}])
        llmeval.annotate(tags={"session_id": "s-1"}, expected_response="slate")
        llmeval.submit_feedback(label="thumbs", value=True, reasoning="nice")
        seen.update(llmeval.export_span())
        return "Slate."

    seen = {}

    def run(**settings):
        model = FakeLLM(lambda prompt: "nonsense" if "BROKEN" in str(prompt) else VERDICT)
        llmeval.configure(evaluators=[polite, broken, on_topic], llm=model, **settings)
        answer("Which roof?")
        stats = runtime.flush(60)
        (account,) = stats.exporters.values()
        assert account.delivered == account.created, account
        return seen

    return run


def test_phoenix_shows_spans_and_scores(phoenix, answer, screenshot):
    """Kinds, texts, documents, tokens; annotations of the span and of the documents."""
    ids = answer(exporters=["phoenix"], phoenix_endpoint=phoenix, phoenix_project="survey")
    project = f"{phoenix}/v1/projects/survey"

    def arrived():
        return {s["name"]: s for s in fetch(f"{project}/spans?limit=100")["data"]}

    awaited = {"invoke_workflow answer", "evaluation polite"}
    spans = eventually(lambda: awaited <= arrived().keys() and arrived())
    kinds = {name: span["span_kind"] for name, span in spans.items()}
    assert kinds["invoke_workflow answer"] == "CHAIN"
    assert kinds["retrieval find"] == "RETRIEVER"
    assert kinds["chat gpt-4o"] == "LLM"
    assert kinds["evaluation polite"] == "EVALUATOR"
    workflow = spans["invoke_workflow answer"]["attributes"]
    assert (workflow["input.value"], workflow["output.value"]) == ("Which roof?", "Slate.")
    model = spans["chat gpt-4o"]["attributes"]
    assert (model["llm.token_count.prompt"], model["llm.token_count.completion"]) == (11, 2)
    assert model["output.value"] == "Slate."
    found = spans["retrieval find"]["attributes"]
    assert found["retrieval.documents.0.document.content"] == CHUNKS[0]["content"]

    def scores():
        data = fetch(f"{project}/span_annotations?span_ids={ids['span_id']}&limit=100")["data"]
        found = {each["name"]: each for each in data}
        return {"polite", "broken", "on_topic", "thumbs", "context_relevance"} <= {*found} and found

    found = eventually(scores)
    assert found["polite"]["result"]["label"] == "yes"
    assert found["polite"]["result"]["explanation"] == "kind words"
    assert found["polite"]["annotator_kind"] == "LLM"
    assert found["on_topic"]["result"]["score"] == 0.5
    assert found["context_relevance"]["result"]["score"] == pytest.approx(0.325)
    assert found["context_relevance"]["annotator_kind"] == "CODE"
    assert found["thumbs"]["annotator_kind"] == "HUMAN"
    assert found["broken"]["result"]["score"] is None
    query = (
        "{ projects(first: 20) { edges { node { id name spans(first: 50) { edges { node { name"
        " documentEvaluations { name label score documentPosition } } } } } } } }"
    )

    def rated():
        edges = fetch(f"{phoenix}/graphql", {"query": query})["data"]["projects"]["edges"]
        node = next(edge["node"] for edge in edges if edge["node"]["name"] == "survey")
        spans = {edge["node"]["name"]: edge["node"] for edge in node["spans"]["edges"]}
        rated = spans["retrieval find"]["documentEvaluations"]
        return len(rated) == 2 and (node["id"], rated)

    project_id, ratings = eventually(rated)
    assert [each["label"] for each in ratings] == ["yes", "no"]
    words = ("invoke_workflow", "context_relevance", "0.32", "polite")
    screenshot(f"{phoenix}/projects/{project_id}/spans", "phoenix", *words)


def test_mlflow_shows_spans_scores_and_ground_truth(mlflow, answer, screenshot):
    """Types, texts, tokens; feedback with rationale, errors, and the expectation."""
    ids = answer(exporters=["mlflow"], mlflow_uri=mlflow, mlflow_experiment="survey")
    trace = f"tr-{ids['trace_id']}"
    info = fetch(f"{mlflow}/api/3.0/mlflow/traces/{trace}")["trace"]["trace_info"]
    about = info["trace_metadata"]
    assert json.loads(about["mlflow.trace.tokenUsage"])["total_tokens"] == 13
    assert about["mlflow.trace.session"] == "s-1"
    assert "Which roof?" in info["request_preview"]
    assert "Slate." in info["response_preview"]
    found = {each["assessment_name"]: each for each in info["assessments"]}
    assert found["polite"]["feedback"]["value"] == "yes"
    assert found["polite"]["rationale"] == "kind words"
    assert found["polite"]["source"]["source_type"] == "LLM_JUDGE"
    assert found["polite"]["span_id"] == ids["span_id"]
    assert found["context_relevance"]["feedback"]["value"] == pytest.approx(0.325)
    assert found["context_relevance"]["source"]["source_type"] == "CODE"
    assert found["context_relevance"]["metadata"]["label"] == "investigate"
    assert found["on_topic"]["feedback"]["value"] == 0.5
    assert found["thumbs"]["source"]["source_type"] == "HUMAN"
    assert found["broken"]["feedback"]["error"]["error_code"]
    assert found["expected_response"]["expectation"]["value"] == "slate"
    spans = fetch(f"{mlflow}/api/3.0/mlflow/traces/get?trace_id={trace}&allow_partial=true")
    types = {
        span["name"]: next(
            a["value"]["string_value"] for a in span["attributes"] if a["key"] == "mlflow.spanType"
        )
        for span in spans["trace"]["spans"]
    }
    assert types == {
        "invoke_workflow answer": "CHAIN",
        "retrieval find": "RETRIEVER",
        "chat gpt-4o": "LLM",
    }
    name = f"{mlflow}/api/2.0/mlflow/experiments/get-by-name?experiment_name=survey"
    experiment = fetch(name)["experiment"]["experiment_id"]
    pages = f"{mlflow}/#/experiments/{experiment}"
    words = ("context_relevance", "0.33", "on_topic", "0.5")
    screenshot(f"{pages}/overview/quality", "mlflow", *words)
    url = f"{pages}/traces?selectedEvaluationId={trace}"
    screenshot(url, "mlflow-trace", "Which roof?", "Slate.", "retrieval find")


def test_a_generic_receiver_reads_spans_and_events(test_agent, answer):
    """What another implementation of OTLP understands of our bytes."""
    ids = answer(exporters=["otlp"], otlp_endpoint=test_agent)
    traces = json.dumps(fetch(f"{test_agent}/test/session/traces"))
    logs = json.dumps(fetch(f"{test_agent}/test/session/logs"))
    assert "invoke_workflow answer" in traces
    assert "retrieval find" in traces
    assert "gen_ai.evaluation.result" in logs
    assert "context_relevance" in logs
    assert ids["span_id"]
