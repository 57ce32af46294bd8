"""What stands around a value: its kind, its places, its rivals, and the cues beside them."""

import random

import pytest

from llmeval_sdk.model import Chunk, Extraction, Record
from llmeval_sdk.text import extraction
from llmeval_sdk.text.cues import Marks
from llmeval_sdk.text.extraction import (
    MAX_TEXT,
    best_candidate,
    lower,
    passages_of,
    read,
    rivals,
)
from llmeval_sdk.text.values import kind_of


RECEIPT = "DATE: 25/12/2018\nSUBTOTAL 41.50\nTAX 3.32\nTOTAL DUE 44.82\nCASH 50.00"


def record(value, *texts, field="total", **fields):
    chunks = tuple(Chunk(text) for text in texts)
    config = {"name": field}
    return Record(value=value, retrieved_context=chunks, field_config=config, **fields)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("25/12/2018", "date"), ("12 March 2024", "date"), ("Mar 3, 2021", "date"),
        ("2018-12-25", "date"), ("1999", "year"), ("RM 9.00", "money"), ("1,234.50", "money"),
        ("-5.00", "money"), ("9", "number"), ("42%", "percent"), ("3.8", "version"),
        ("v3.10.1", "version"), ("https://x.org/a", "url"), ("a@b.co", "email"),
        ("AB-1234", "code"), ("Ada Lovelace", "name"), ("YONGFATT ENTERPRISE", "name"),
        ("lower case words", "line"), ("long text. " * 30, "text"), ("", "text"),
        ("10.280,27 EUR", "money"), ("10,280.27 EUR", "money"), ("1 234,50 zł", "money"),
        ("₹1,23,456.00", "money"), ("¥12,800", "money"), ("12,800円", "money"), ("15 %", "percent"),
        ("12. November 2026", "date"), ("2026年6月16日", "date"), ("1 марта 2026 г.", "date"),
        ("30 days", "quantity"), ("2.5 kg", "quantity"), ("DE", "country"), ("EUR", "currency"),
        ("English", "language"), ("BSD-3-Clause", "licence"), ("false", "boolean"),
        ("DE89 3704 0044 0532 0130 00", "code"),
    ],
)  # fmt: skip
def test_a_value_has_a_kind(value, kind):
    """The strictest kind that fits all of it."""
    assert kind_of(value) == kind


def test_rivals_are_the_other_values_of_the_kind_the_likeliest_first():
    """For a total they are the other amounts, not the date; the one beside "total" leads."""
    (reading,) = read(record("41.50", RECEIPT))
    assert [rival.value for rival in reading.rivals] == ["44.82", "50.00", "3.32"]
    assert reading.rivals[0].cue > reading.cue


def test_a_rival_is_shown_with_its_chunk_and_its_line():
    """That is what a judge and a person need to look it up."""
    shown = rivals(record("41.50", "nothing here", RECEIPT))
    assert shown[0] == {"value": "44.82", "chunk_number": 2, "evidence": "TOTAL DUE 44.82"}


def test_another_spelling_of_the_value_is_no_rival():
    """1,200.00 and 1200 are one amount, and the items of a list do not compete."""
    (reading,) = read(record("12000.00", "Total 12,000.00 and again 12000.00 and 7.00"))
    assert [rival.value for rival in reading.rivals] == ["7.00"]
    both = read(record(["3.32", "44.82"], RECEIPT))
    assert all(r.value not in ("3.32", "44.82") for reading in both for r in reading.rivals)


def test_the_nearest_cue_decides_and_cues_of_the_value_itself_count():
    """The word right before a value speaks most for it; "MIT License" names its own field."""
    text = "total 5.00 . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . 6.00"
    marks = Marks.of(text, (("total", 1.0),))
    assert marks.near(6, 10) > marks.near(len(text) - 4, len(text)) > 0
    assert marks.near(0, 10) >= marks.near(6, 10)
    assert marks.word(6, 10) == "total"


def test_a_cue_far_away_says_nothing():
    """Beyond some 120 characters a word belongs to something else."""
    text = "total" + " " * 500 + "6.00"
    assert Marks.of(text, (("total", 1.0),)).near(505, 509) == 0


def test_the_nearest_of_a_cue_decides_whatever_stands_farther_away():
    """Adding the same word farther away, also on other lines, changes nothing."""
    cues = [("total", 1.0), ("paid", 0.6), ("due", 0.4)]
    dice = random.Random(3)
    for _ in range(200):
        parts = dice.choices(["total ", "paid ", "due ", "\n", "of the "], k=14)
        text = "".join(parts) + "6.00 " + "".join(dice.choices(parts, k=14))
        start = text.index("6.00")
        marks = Marks.of(text, cues)
        places = [at for at in marks.starts if at < start]
        nearest = {marks.which[n]: at for n, at in enumerate(places)}
        behind = [at for at in marks.starts if at > start]
        first = {}
        for at in behind:
            first.setdefault(marks.which[marks.starts.index(at)], at)
        kept = {*nearest.values(), *first.values()}
        rows = [n for n, at in enumerate(marks.starts) if at in kept]
        alone = marks._replace(
            starts=[marks.starts[n] for n in rows], ends=[marks.ends[n] for n in rows],
            which=[marks.which[n] for n in rows],
        )  # fmt: skip
        assert alone.near(start, start + 4) == marks.near(start, start + 4)
        assert alone.word(start, start + 4) == marks.word(start, start + 4)


def test_the_fields_of_a_document_share_one_search_for_values():
    """What stands in the passages is looked for once per kind, not once per field."""
    (total,) = read(record("44.82", RECEIPT))
    (other,) = read(record("2.54", RECEIPT))
    assert total.passages is other.passages
    assert list(total.passages.kept) == ["money"]
    assert {rival.value for rival in total.rivals} != {rival.value for rival in other.rivals}


def test_evidence_takes_the_place_of_passages_and_joins_them():
    """What is quoted from elsewhere is read too, and cites no chunk."""
    quoted = Extraction("44.82", evidence="TOTAL DUE 44.82")
    (reading,) = read(Record(value="44.82", extractions=(quoted,), field_config={"name": "total"}))
    assert reading.spans
    assert reading.passages.number_at(reading.spans[0][0]) == 0
    there = Record(value="44.82", extractions=(quoted,), retrieved_context=(Chunk(RECEIPT),))
    assert len(passages_of(there).starts) == 1


def test_passages_are_bounded_and_keep_the_cited_ones():
    """A megabyte is cut, after the chunk that the extraction cites."""
    texts = [f"chunk {n} " + "x" * 9_000 for n in range(100)]
    made = record("1", *texts, extractions=(Extraction("1", 77),))
    passages = passages_of(made)
    assert len(passages.text) <= MAX_TEXT + 100
    assert passages.cut
    assert passages.numbers[0] == 77


@pytest.mark.parametrize("text", ["İstanbul İ", "ǅ ẞ", "ΑΣ", "plain"])
def test_lowering_moves_nothing(text):
    """Places in the lower-case text are places in the text."""
    assert len(lower(text)) == len(text)


def test_a_candidate_for_an_empty_answer_is_the_value_beside_the_cue():
    """It is of the kind that the field calls for."""
    shown, cue = best_candidate(record(None, RECEIPT), ("money",))
    assert shown["value"] == "44.82"
    assert cue > 0.5
    assert best_candidate(record(None, "nothing"), ("money",)) == (None, 0.0)


def test_scripts_without_spaces_or_capitals_are_read():
    """Right-to-left and unspaced texts have values and rivals like all others."""
    for value, text in (("٤٤٫٨٢", "المجموع ٤٤٫٨٢ ريال"), ("東京都", "住所 東京都 大阪府")):
        (reading,) = read(record(value, text))
        assert reading.spans


@pytest.mark.parametrize("field", ["total", "amount", "seller", "due_date", "note"])
def test_fields_that_share_passages_have_the_rivals_that_each_has_alone(field):
    """What one field of a document kept for the next changes no rival, cue, count or label."""
    text = (
        f"{RECEIPT}\nSeller: Acme Trading Ltd\nAcme Trading\nDue: 5 January 2019\n"
        "Subtotal 41.50\nTOTAL 44.82 on 25/12/2018\nBeta Depot Limited"
    )
    values = [
        "41.50", "44.82", "50.00", "7.77", "25/12/2018", "2019-01-05", "Acme Trading Ltd",
        "Acme Trading", "Depot", "TOTAL DUE 44.82", ["41.50", "44.82"],
    ]  # fmt: skip
    records = [record(value, text, "Page 2\nTOTAL 41.50", field=field) for value in values]
    alone = []
    for one in records:
        extraction._join.cache_clear()
        alone.append([(reading.rivals, reading.label, reading.best) for reading in read(one)])
    together = [
        [(reading.rivals, reading.label, reading.best) for reading in read(one)]
        for one in [*records, *records]
    ]
    assert together == alone * 2
    assert any(rivals for readings in alone for rivals, _, _ in readings)
