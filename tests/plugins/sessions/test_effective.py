"""One rule for what counts where a decision model and a judge model rated under one name."""

from contextlib import closing
from dataclasses import replace

import pytest
from viewer_store import Store

from llmeval_sdk.model import Evaluation, Failure
from llmeval_sdk.plugins.watch import look
from llmeval_sdk.store import labelling
from llmeval_sdk.store.alert_state import AlertState, Bound
from llmeval_sdk.store.latest import latest_of
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import recent_evaluations
from llmeval_sdk.store.span_lists import Query, list_page, scan_of


def of(kind, value=None, error=None):
    return Evaluation("groundedness", value, error=error, evaluator_kind=kind)


DECISION, VERDICT = of("decision", "yes"), of("judge", "no")
FAILED = of("judge", error=Failure("timeout"))


def test_the_judge_model_counts_where_it_answered():
    """Whichever of both came first."""
    assert latest_of([DECISION, VERDICT]) is latest_of([VERDICT, DECISION]) is VERDICT


def test_a_failure_of_the_judge_model_keeps_the_decision():
    assert latest_of([DECISION, FAILED]) is latest_of([FAILED, DECISION]) is DECISION


def test_of_one_kind_the_latest_counts():
    later = of("judge", "yes")
    assert latest_of([VERDICT, later]) is later
    assert latest_of([of("heuristic", 0.1), of("heuristic", 0.2)]).value == 0.2
    assert latest_of([]) is None


@pytest.fixture
def rated_twice(tmp_path):
    """A store with one span of which a decision said 0.1 and a judge model 0.9, and its reader."""
    store = Store(tmp_path / "llmeval.db")
    span = store.span(response="slate and more")
    doubted = {"unsupported_spans": [[0, 5]]}
    decision = store.score(span, "groundedness", 0.1, evaluator_kind="decision", metadata=doubted)
    verdict = store.score(span, "groundedness", 0.9, evaluator_kind="judge", metadata={})
    store.write(spans=[span], evaluations=[replace(decision, id="decision"), verdict])
    with closing(store), StoreReader(store.path) as reader:
        yield span, reader


@pytest.mark.parametrize(
    ("query", "is_listed"),
    [
        (Query(evaluator="groundedness", below=0.5), False),
        (Query(evaluator="groundedness", above=0.5), True),
        (Query(evaluator="groundedness", below=0.5, span_name="answer"), False),
        (Query(evaluator="groundedness", below=0.5, failed=True), False),
        (Query(order="lowest", order_by="groundedness"), True),
    ],
)
def test_lists_filter_by_the_evaluation_that_counts(rated_twice, query, is_listed):
    """A span is not listed for a value that another evaluation has replaced."""
    _, reader = rated_twice
    listed = reader.read(lambda connection: list_page(connection, query))
    assert len(listed.items) == is_listed


def test_lists_sort_by_the_evaluation_that_counts(rated_twice):
    """The place in the list is that of the value which the list shows."""
    _, reader = rated_twice
    lowest = scan_of(Query(order="lowest", order_by="groundedness")).candidates(None)
    candidates = reader.read(lambda connection: connection.execute(*lowest).fetchall())
    assert [key for key, _, _, matches in candidates if matches] == [0.9]


def test_the_examples_of_an_alarm_are_those_that_count(rated_twice):
    """A message about an alarm links no record that the judge model found good."""
    span, reader = rated_twice
    alert = AlertState.begun(Bound("groundedness", "<", 0.9), 0)
    alert.cursor_ns = span.end_ns + 1
    assert [one["value"] for one in look._worst(reader, alert, 0, "http://viewer")] == [0.9]


def test_a_record_to_label_is_marked_by_what_counts(rated_twice):
    """What a replaced evaluation called unsupported is not marked for the person who labels."""
    span, reader = rated_twice
    assert labelling.shown(reader, span.span_id).unsupported == ()


def test_the_figures_of_a_judge_leave_out_what_it_replaced(rated_twice):
    """The page of a judge counts a record once, with the value that counts."""
    _, reader = rated_twice
    recent = reader.read(
        lambda connection: recent_evaluations(connection, "groundedness", None, judge=True)
    )
    assert recent.values == (0.9,)
