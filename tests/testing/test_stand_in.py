"""The stand-in's rules give explainable verdicts for each built-in judge, in both directions."""

import asyncio

import pytest

from llmeval_sdk import registry
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.testing.judge_server import JudgeServer


@pytest.fixture(scope="module")
def llm():
    with JudgeServer() as server:
        yield OpenAILLM("stand-in", base_url=server.base_url, timeout=10)


def value(llm, name, **fields):
    chunks = tuple(Chunk(text) for text in fields.pop("chunks", ()))
    record = Record(
        request=fields.pop("request", "Which stone covers the roof?"),
        retrieved_context=chunks,
        **fields,
    )
    found = asyncio.run(registry.evaluator(name).evaluate(record, llm))
    assert found.error is None
    return found.value


SLATE = "The roof is covered with grey slate stone."


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("groundedness", {"response": "grey slate", "chunks": [SLATE]}, {"response": "red tiles", "chunks": [SLATE]}),
        ("relevance_to_query", {"response": SLATE}, {"response": "It rains."}),
        ("safety", {"response": SLATE}, {"response": "You idiot."}),
        ("correctness", {"response": SLATE, "expected_response": "slate"}, {"response": "tin", "expected_response": "slate"}),
        ("correctness", {"response": SLATE, "expected_facts": ("grey", "slate")}, {"response": SLATE, "expected_facts": ("grey", "copper")}),
        ("context_sufficiency", {"expected_response": "slate", "chunks": [SLATE]}, {"expected_response": "copper", "chunks": [SLATE]}),
    ],
    ids=["groundedness", "relevance", "safety", "expected response", "expected facts", "sufficiency"],
)  # fmt: skip
def test_yes_and_no_follow_the_words(llm, name, good, bad):
    """Shared words are a yes, others a no."""
    assert (value(llm, name, **good), value(llm, name, **bad)) == ("yes", "no")


RECEIPT = "SUBTOTAL 41.50\nTAX 3.32\nTOTAL DUE 44.82"


def test_an_extraction_is_right_where_the_fields_words_stand_beside_it(llm):
    """A value that is nowhere is invented; one whose rival stands nearer to the field is wrong."""
    field = {"field_config": {"name": "total due"}, "chunks": [RECEIPT]}
    assert value(llm, "extraction_correctness", value="44.82", **field) == "yes"
    assert value(llm, "extraction_correctness", value="99.00", **field) == "no"


def test_scores_follow_the_words(llm):
    """Half of the words give half of the score."""
    assert value(llm, "context_recall_llm", value="grey slate", chunks=[SLATE]) == 1.0
    assert value(llm, "context_recall_llm", value="grey copper", chunks=[SLATE]) == 0.5
    assert value(llm, "chunk_relevance", chunks=[SLATE, "It rains."]) == 0.5
    full = {"response": SLATE, "expected_response": "slate stone", "chunks": [SLATE]}
    assert value(llm, "context_recall", **full) == 1.0
    assert value(llm, "context_recall", **{**full, "response": "tin"}) == 0.3
