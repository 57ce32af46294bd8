"""The two first how-to pages, followed to the end: the files they give, run against the test agent."""

import os
import sys
from pathlib import Path

import pytest
from page import blocks_of
from ragas_model import answer

from llmeval_sdk.testing.judge_server import JudgeServer


HOW_TO = Path(__file__).parent.parent.parent.parent.parent / "docs" / "how-to"
RAGAS = os.environ.get("LLMEVAL_RAGAS_PYTHON")
REPLY = "The first Super Bowl was played in Los Angeles. Q: When was the first Super Bowl played?"


def program(page, name, folder):
    """Write a file of a page and return where it is."""
    (block,) = [each for each in blocks_of((HOW_TO / page).read_text()) if each.title == name]
    path = folder / name
    path.write_text(block.code)
    return path


def test_the_page_for_extractions_puts_scores_on_the_span(agent, tmp_path):
    """With the variables it names; the two scores that doubt the value are there."""
    app = program("extract-fields.md", "app.py", tmp_path)
    found = agent.run(app, folder=tmp_path, LLMEVAL_EXPORTERS="datadog,local")
    assert found.code == 0, found.errors[-2_000:]
    assert "complete: True" in found.output
    (span,) = found.roots("extract_field")
    assert found.tree(span) == ("extract_field", "search")
    assert found.evaluation("multi_source_agreement", on=span)["score_value"] == 0.5
    assert found.evaluation("semantic_validation", on=span)["categorical_value"] == "pass"
    assert found.evaluation("extraction_risk", on=span)["score_value"] > 0.3


@pytest.mark.skipif(not RAGAS, reason="needs `make test-guide`")
@pytest.mark.timeout(120)
def test_the_page_for_ragas_puts_the_three_scores_on_the_span(agent, tmp_path):
    """The driver knows nothing of us; ``llmeval run`` and the page's variables are all."""
    driver = program("ragas.md", "driver.py", tmp_path)
    variables = {
        "DD_LLMOBS_EVALUATORS": "ragas_faithfulness,ragas_context_precision,ragas_answer_relevancy",
        "LLMEVAL_EXPORTERS": "datadog,local",
        "LLMEVAL_RAGAS_PYTHON": RAGAS,
        "OPENAI_API_KEY": "x",
    }

    def model(request):
        app = "Answer by this" in str(request["messages"])
        return REPLY if app else answer(request)

    with JudgeServer(model) as server:
        found = agent.run(
            driver,
            command=(sys.executable, "-m", "llmeval_sdk", "run"),
            folder=tmp_path,
            timeout=100,
            **variables,
            OPENAI_BASE_URL=server.base_url,
        )
    assert found.code == 0, found.errors[-2_000:]
    (span,) = found.roots("OpenAI.createChatCompletion")
    for name in variables["DD_LLMOBS_EVALUATORS"].split(","):
        assert found.evaluation(name, on=span)["metric_type"] == "score"
