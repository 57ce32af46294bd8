"""A record without an answer is neither good nor bad wherever it is shown."""

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.span_lists import Query, list_page, outcomes_of
from llmeval_sdk.viewer._render import cells_of_outcomes


def stored(tmp_path):
    """Store one wrong answer, and one record without any, both with a recall of 0."""
    path = tmp_path / "s.db"
    llmeval.configure(store=str(path), exporters=["local"])
    for value, extractions in (("1.00", [{"value": "1.00"}]), (None, [])):
        with llmeval.workflow("extract_field", request="total?"):
            llmeval.annotate(
                value=value,
                extractions=extractions,
                retrieved_context=[{"content": "Total 2.00"}],
                field_config={"name": "total"},
                response=value,
            )
    llmeval.flush(20)
    return path


def test_scores_of_an_empty_answer_have_no_colour(tmp_path):
    """A recall of 0 is red beside an answer, and plain where the app gave none."""
    with StoreReader(stored(tmp_path)) as reader:
        result = reader.read(lambda c: list_page(c, Query()))
        spans = [item.span_id for item in result.items]
        scores, _ = reader.read(lambda c: outcomes_of(c, spans))
    empty, answered = (cells_of_outcomes(scores[span_id]) for span_id in spans)
    assert answered["context_recall_heuristic"].tone == "bad"
    assert {cell.tone for cell in empty.values()} <= {"plain", "quiet"}


def test_the_worst_first_leaves_empty_answers_out(tmp_path):
    """They would be the reddest of all by every score of a value."""
    query = Query(order="lowest", order_by="context_recall_heuristic")
    with StoreReader(stored(tmp_path)) as reader:
        result = reader.read(lambda c: list_page(c, query))
    assert [item.response for item in result.items] == ['"1.00"']


def test_the_name_that_the_pages_go_by_is_the_heuristics():
    """One word in two places that may not import each other."""
    from llmeval_sdk.model import values

    assert registry.evaluator(values.ABSTENTION).name == values.ABSTENTION
