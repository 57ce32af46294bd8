"""No value that an app captured keeps its neighbours out of the store."""

import json
import math
import sqlite3
from contextlib import closing

import pytest
from counted import calls_of
from summaries import score_summary

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Batch, Usage
from llmeval_sdk.store.encode import dumps, loads
from llmeval_sdk.store.populations import overall
from llmeval_sdk.store.reader import StoreReader, dimensions


LONE = "broken \ud83d text"


KEPT = "broken ? text"


def test_a_lone_surrogate_is_stored_as_a_question_mark(writer, make):
    """Half a character, which no database, table or answer can hold, is none in the store either."""
    span = make.span(LONE, request=LONE, attributes={LONE: [LONE]}, tags={LONE: LONE, "team": LONE})
    neighbour = make.span(request="plain")
    writer.write(Batch((span, neighbour), (make.evaluation(span, explanation=LONE),)))
    with closing(StoreReader(writer.path)) as reader:
        kept = reader.span(span.span_id)
        (event,) = reader.evaluations_of(span.span_id)
        assert reader.span(neighbour.span_id) == neighbour
        assert reader.read(dimensions) == [f"tag:{KEPT}", "tag:team"]
    assert (kept.name, kept.request, kept.attributes) == (KEPT, KEPT, {KEPT: [KEPT]})
    assert kept.tags == {KEPT: KEPT, "team": KEPT}
    assert event.evaluation.explanation == KEPT


def test_nan_becomes_null_in_json(writer, make):
    """JSON has no NaN; the rest of the value stays."""
    span = make.span(attributes={"bad": [math.nan, math.inf, 1.5]}, metrics={"m": math.nan})
    writer.write(Batch((span,)))
    with closing(sqlite3.connect(writer.path)) as raw:
        attributes, metrics = raw.execute("SELECT attributes, metrics FROM spans").fetchone()
    strict = {"parse_constant": pytest.fail}
    assert json.loads(attributes, **strict) == {"bad": [None, None, 1.5]}
    assert json.loads(metrics, **strict) == {"m": None}


@pytest.mark.parametrize(
    ("value", "why"),
    [(math.nan, "not_finite"), (-math.inf, "not_finite"), (10**400, "not_a_number")],
)
def test_a_score_that_is_no_number_is_an_error_not_a_zero(writer, make, value, why):
    """NaN, infinity and the like are stored as failures that say so."""
    span = make.span()
    writer.write(Batch(evaluations=(make.evaluation(span, value=value),)))
    with closing(StoreReader(writer.path)) as reader:
        (event,) = reader.evaluations_of(span.span_id)
    assert event.evaluation.value is None
    assert event.evaluation.error.type == why


def test_numbers_beyond_64_bits_are_stored_as_floats(writer, make):
    """A token count that no column holds does not lose the span."""
    span = make.span(usage=Usage(10**30, 1, 1))
    writer.write(Batch((span,)))
    with closing(StoreReader(writer.path)) as reader:
        assert reader.span(span.span_id).usage.input_tokens == 1e30


def test_a_record_that_cannot_be_stored_is_counted_and_leaves_the_others(writer, make):
    """One record of the wrong type is refused with a reason; its neighbours are written."""
    good, bad = make.span(), make.span(retrieved_context=("not a Chunk",))
    assert writer.write(Batch((good, bad))) == {"unstorable:KeyError": 1}
    with closing(StoreReader(writer.path)) as reader:
        assert reader.counts().spans == 1


class Loud:
    def __repr__(self):
        raise RuntimeError("never asked for")

    __str__ = __repr__


def cyclic():
    items = [1]
    items.append(items)
    return items


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Loud(), "<Loud>"),
        ({"a": Loud()}, {"a": "<Loud>"}),
        (b"abc", "<3 bytes>"),
        ({(1, 2): "x"}, {"(1, 2)": "x"}),
        ({1: "x", None: "y"}, {"1": "x", "null": "y"}),
        ({3.5: math.nan}, {"3.5": None}),
        (cyclic(), [1, "<cycle>"]),
        ([10**5_000], ["<int of 16610 bits>"]),
        ((1, {2}), [1, [2]]),
        ("\x00\x1b[31m", "\x00\x1b[31m"),
    ],
)  # fmt: skip
def test_anything_becomes_json(value, expected):
    """What has no JSON leaves a marker, and no code of the app runs."""
    assert loads(dumps(value)) == expected


def test_depth_ends_in_a_marker():
    """Nesting without end is cut where it stops telling anything."""
    assert "<too deep>" in dumps(deep())


@pytest.mark.parametrize("leaf", [math.nan, 1.5, "x" * 1_000, {}])
def test_breadth_ends_in_a_marker(leaf):
    """A small value that unfolds into millions of nodes is cut."""
    value = [leaf]
    for _ in range(40):
        value = [value, value]
    assert len(dumps(value)) < 5_000_000


def test_big_texts_cost_little():
    """A megabyte of text is serialised without a walk over its characters in Python."""
    text = "Ein Satz über Dächer. " * 50_000
    assert calls_of(lambda: dumps(text)) < 200


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def test_a_reading_that_takes_too_long_is_ended(path, writer, make):
    """What a viewer's thread reads has an end, whatever the file makes of it; then it goes on."""
    writer.write(Batch((make.span(),)))
    with StoreReader(path, seconds=0.2) as reader:
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            reader.read(lambda c: c.execute(ENDLESS).fetchall())
        assert reader.counts().spans == 1


@pytest.mark.parametrize(
    "planted",
    [
        "CREATE VIEW more AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n",
        "CREATE TRIGGER t AFTER INSERT ON feedback BEGIN DELETE FROM spans; END",
    ],
)
def test_a_store_with_programs_in_it_is_refused(path, writer, make, planted):
    """A view may have no end, and a trigger does what its maker wants."""
    writer.write(Batch((make.span(),)))
    with closing(sqlite3.connect(path)) as other:
        other.execute(planted)
    with pytest.raises(ConfigurationError, match="views or triggers"):
        StoreReader(path)


@pytest.mark.parametrize("chance", ["half", math.inf, 0, -1, b"1"])
def test_an_inclusion_probability_that_is_none_costs_no_report(writer, make, chance):
    """Only a file made by hand holds one; the verdict counts as one without a probability."""
    span = make.span()
    writer.write(Batch((span,), (make.evaluation(span, evaluator_kind="judge"),)))
    with closing(sqlite3.connect(writer.path)) as raw, raw:
        raw.execute("UPDATE evaluations SET inclusion_probability = ?", (chance,))
    with closing(StoreReader(writer.path)) as reader:
        (summary,) = score_summary(reader)
        whole = overall(reader, (None, None, None, None), None, summary.evaluator)
    assert summary.count == 1
    assert whole.estimate is None or whole.estimate.judged == 0
