"""What an app says beforehand that a good answer has."""

import llmeval_sdk as llmeval
from llmeval_sdk.heuristics.document_recall import document_recall
from llmeval_sdk.testing import capture


def test_ground_truth_can_be_annotated_online():
    """Expected documents give document_recall on live traffic."""
    with capture() as seen:
        with llmeval.workflow("answer"):
            llmeval.annotate(
                retrieved_context=[{"doc_uri": "a"}, {"doc_uri": "b"}],
                expected_retrieved_context=[{"doc_uri": "a"}, {"doc_uri": "z"}],
            )
        seen.drain()
    assert seen.scores()[document_recall.name].value == 0.5
