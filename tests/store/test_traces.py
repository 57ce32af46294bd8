"""Spans are found by what a person types of their ids."""

from llmeval_sdk.model import Batch
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.traces import spans_like


def test_a_span_is_found_by_the_beginning_of_its_id(writer, make):
    """A prefix finds every span that begins so, also one that only evaluations are about."""
    stored = make.span(span_id="abc0000000000001")
    other = make.span(span_id="abd0000000000002")
    judged = make.span(span_id="abc1000000000003")
    writer.write(Batch((stored, other), (make.evaluation(judged), make.evaluation(stored))))
    with StoreReader(writer.location) as reader:

        def find(prefix):
            return reader.read(lambda connection: spans_like(connection, prefix))

        assert [ref.span_id for ref in find("abc")] == [stored.span_id, judged.span_id]
        assert [ref.span_id for ref in find("abc0")] == [stored.span_id]
        assert [ref.name for ref in find("abc1")] == ["extract_field"]
        assert find("abe") == ()
