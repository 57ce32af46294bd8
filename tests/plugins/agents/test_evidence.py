"""What tools returned counts as context where an answer is compared with what the app had."""

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.model import Chunk, Record, Step
from llmeval_sdk.model.fields import lacking
from llmeval_sdk.model.records import evidence_of
from llmeval_sdk.testing import FakeLLM, capture


SHIPPED = Step("tool", None, "get_order", {"order_id": "A17"}, {"status": "shipped"})
DOCUMENT = Chunk("Orders that are shipped cannot be refunded.", "terms.pdf")


def test_documents_come_first_and_results_name_their_call():
    """The marks are the retrieval method and the call before the text."""
    record = Record(retrieved_context=(DOCUMENT,), steps=(Step("user", "Refund it."), SHIPPED))
    document, result = evidence_of(record)
    assert document == DOCUMENT
    assert (result.retrieval_method, result.metadata["step"]) == ("tool", 2)
    assert result.content == 'tool get_order returned {"status": "shipped"}'


def test_evidence_is_bounded():
    """Of many long results the last ones count, and each gets its share."""
    steps = tuple(Step("tool", None, f"t{n}", {}, "x" * 100_000) for n in range(500))
    chunks = evidence_of(Record(steps=steps))
    assert chunks[-1].metadata["tool"] == "t499"
    assert sum(len(chunk.content) for chunk in chunks) < 70_000


def test_without_documents_and_results_there_is_no_evidence():
    """A call whose result never came is none."""
    assert evidence_of(Record(steps=(Step("tool", None, "get_order"),))) is None
    assert evidence_of(Record(retrieved_context=(DOCUMENT,))) == (DOCUMENT,)


def test_a_claim_is_judged_against_what_a_tool_returned():
    """A refund beside the result "shipped" is no case of missing inputs."""
    seen = []

    def model(messages):
        seen.append(str(messages))
        return {"rationale": "The order is shipped.", "rating": "no"}

    @llmeval.tool
    def get_order(order_id: str) -> dict:
        return {"id": order_id, "status": "shipped"}

    @llmeval.agent
    def support(question: str) -> str:
        get_order("A17")
        return "I have refunded 900 EUR."

    with capture(evaluators=["groundedness"], llm=FakeLLM(model)) as kit:
        support("Please refund order A17.")
        kit.drain()
        scores = {event.evaluation.name: event.evaluation for event in kit.evaluations}
    assert scores["groundedness"].value == "no"
    assert "tool get_order" in seen[0]
    assert "shipped" in seen[0]
    assert scores["groundedness_risk"].value > 0.5


def test_what_lacks_is_named_as_before():
    """A judge without any context says so in the words of the schema."""
    judge = registry.evaluator("groundedness")
    assert lacking(judge, Record(request="?", response="!")) == "retrieved_context"


def test_what_the_model_wrote_itself_is_no_evidence():
    """An invented claim is not supported by the arguments of a call that the agent made."""
    claim = "The warranty of the roof lasts for thirty years and covers hail."
    steps = (Step("tool", None, "send_note", {"text": claim}, "queued"),)
    record = Record(request="How long is the warranty?", response=claim, steps=steps)
    assert all(claim not in chunk.content for chunk in evidence_of(record))
    assert registry.evaluator("groundedness_risk").evaluate(record).value > 0.5
