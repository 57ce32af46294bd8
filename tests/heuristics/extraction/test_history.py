"""The field's history: bounded, without texts, shared by processes, and never a reason to fail."""

import json

from llmeval_sdk.heuristics.extraction._history import (
    MAX_COUNTED,
    MAX_FIELDS,
    FieldHistory,
    Histories,
    shape_of,
    traits,
)
from llmeval_sdk.heuristics.extraction.risk import ExtractionRisk
from llmeval_sdk.model import Chunk, Extraction, Record
from llmeval_sdk.store.state import HostLedger
from llmeval_sdk.text.extraction import read


KEY = b"k"


def reading(value, text="Total: {}"):
    (made,) = read(Record(value=value, retrieved_context=(Chunk(text.format(value)),)))
    return made


def filled(values):
    history = FieldHistory()
    for value in values:
        history.add(traits(reading(value), KEY))
    return history


def test_a_value_unlike_those_before_it_stands_out():
    """Another shape, another label, another place: each rises; the usual stays near 0."""
    history = filled(f"{n}/12/2018" for n in range(10, 28))
    usual = history.measure(traits(reading("28/12/2018"), KEY))
    odd = history.measure(traits(reading("next week", "see the\n{}"), KEY))
    for name in ("odd_shape", "odd_label", "odd_place"):
        assert usual[name] < 0.1 < odd[name]


def test_the_same_value_for_many_documents_stands_out_where_values_vary():
    """In a field that repeats few values, repeating one says nothing."""
    varied = filled([*(f"Shop {n}" for n in range(40)), *["Scanner Ltd"] * 8])
    closed = filled(["MIT", "BSD"] * 24)
    assert varied.measure(traits(reading("Scanner Ltd"), KEY))["repeated"] > 0.2
    assert closed.measure(traits(reading("MIT"), KEY))["repeated"] == 0


def test_an_empty_history_says_nothing():
    """The first record of a field is neither usual nor odd."""
    assert not any(FieldHistory().measure(traits(reading("x"), KEY)).values())


def test_a_history_is_bounded_whatever_comes():
    """A million strange values cannot grow it, and one record moves it by one."""
    history = filled(f"v{n} {chr(97 + n % 26) * (n % 19 + 1)}" for n in range(2_000))
    for tally in (history.shapes, history.labels, history.places, history.words, history.seen):
        assert len(tally.counts) <= MAX_COUNTED
    histories = Histories()
    for n in range(2 * MAX_FIELDS):
        histories.learn(f"field {n}", reading("x"))
    assert len(histories._fields) == MAX_FIELDS


def test_shapes_fold_digits_and_letters():
    """What is counted is the form, not the value."""
    assert shape_of("25/12/2018") == shape_of("1/1/99") == "9/9/9"
    assert shape_of("Ada Lovelace") == "Aa Aa"


def test_processes_share_a_history_and_no_text_is_written(tmp_path):
    """What one learns the other knows; the file holds hashes and counts only."""
    path = tmp_path / "app.history"
    now = [0.0]
    one = Histories(HostLedger(path), clock=lambda: now[0])
    other = Histories(HostLedger(path), clock=lambda: now[0])
    secret = "Hunter Two"
    for _turn in range(3):
        now[0] += 31
        for _ in range(20):
            one.learn("f", reading(secret))
            other.learn("f", reading("x"))
    assert other._fields["f"].values > 60
    assert other.measure("f", reading(secret))["odd_shape"] < 0.9
    assert b"Hunter" not in path.read_bytes()
    assert b"hunter" not in path.read_bytes()


def test_a_poisoned_or_foreign_file_is_begun_anew(tmp_path):
    """Rubbish, huge counts and other versions cost the history, never a record."""
    for text in ("{", "[]", '{"version": 99}', json.dumps({"version": 1, "key": "zz", "fields": {}}),
                 json.dumps({"version": 1, "key": "00", "fields": {"f": {"values": -1}}}),
                 "[" * 100_000):  # fmt: skip
        ledger = HostLedger(tmp_path / "app.history")
        ledger.update(lambda _, text=text: (text, None))
        histories = Histories(ledger)
        histories.learn("f", reading("x"))
        assert histories._fields["f"].values == 1
        ledger.close()


def test_a_file_that_cannot_be_used_is_no_reason_to_stop(tmp_path):
    """Learning goes on in memory."""
    (tmp_path / "app.history").mkdir()
    histories = Histories(HostLedger(tmp_path / "app.history"))
    from llmeval_sdk.process import shield

    shield.raise_again(False)
    for _ in range(300):
        histories.learn("f", reading("x"))
    assert histories._fields["f"].values == 300
    assert len(histories._news) <= 200


def test_only_live_records_are_learnt():
    """Evaluating twice, or offline, changes nothing: the same row has the same score."""
    risk = ExtractionRisk(Histories())
    made = Record(
        value="1.00",
        extractions=(Extraction("1.00", 1),),
        retrieved_context=(Chunk("total 1.00"),),
    )
    assert risk.evaluate(made) == risk.evaluate(made)
    assert risk.histories._fields == {}
    risk.learn(made)
    assert len(risk.histories._fields) == 1


def test_what_was_scored_is_learnt_without_a_second_reading():
    """Learning the record that was scored last counts what a reading of its own would count."""
    scored, fresh = Histories(), Histories()
    for n in range(20):
        record = Record(value=f"{n} EUR", retrieved_context=(Chunk(f"Total: {n} EUR\nTax: 1 EUR"),))
        ExtractionRisk(scored).evaluate(record)
        assert scored.recall(Record()) is None
        ExtractionRisk(scored).learn(record)
        assert scored.recall(record) is None
        ExtractionRisk(fresh).learn(record)
    probe = reading("next week", "see the\n{}")
    fresh._key = scored._key  # hashed alike, or no two histories could be compared
    assert scored._fields["/"].values == fresh._fields["/"].values == 20
    assert scored.measure("/", probe)["odd_shape"] == fresh.measure("/", probe)["odd_shape"] > 0
