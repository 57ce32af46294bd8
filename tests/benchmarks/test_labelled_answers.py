"""Answers over receipts and the demo's frozen ones keep what is known of them."""

import json

from benchmarks.quality.frozen_answers import FrozenCase, freeze, frozen
from benchmarks.quality.receipt_answers import FIELDS, receipt_records
from benchmarks.quality.structured_answers import RIGHT
from llmeval_sdk.model import Chunk, Extraction, Record


def receipt(number):
    """Return a receipt with two amounts and two dates."""
    total, day = f"{number + 20}.50", f"{number % 27 + 1:02d}/03/2018"
    company, address = f"SHOP {number} SDN BHD", f"NO {number} JALAN BUNGA, 81100 JOHOR"
    lines = [company, address, f"DATE {day}", "PRINTED 09/09/2019", f"ITEM {number}.10"]
    text = "\n".join([*lines, f"TOTAL {total}", "CASH 100.00"])
    key = {"company": company, "date": day, "address": address, "total": total}
    return {"id": f"r{number}", "text": text, "key": key}


def test_values_of_receipts_are_the_label_or_another_value(tmp_path):
    """A right value is the receipt's own, a wrong one is not, and about a tenth is wrong."""
    rows = [receipt(number) for number in range(150)]
    (tmp_path / "sroie.json").write_text(json.dumps(rows), encoding="utf-8")
    made = receipt_records(tmp_path)
    truths = [row["key"][name] for row in rows for name in FIELDS]
    assert len(made) == len(truths)
    for labelled, truth in zip(made, truths, strict=True):
        assert (labelled.record.value == truth) == (labelled.kind == RIGHT)
    assert 0.06 < sum(labelled.kind != RIGHT for labelled in made) / len(made) < 0.14
    assert made == receipt_records(tmp_path)


def test_frozen_answers_come_back_as_they_were(tmp_path):
    """A record that was written to the file and read again scores as before."""
    record = Record(
        request="Who wrote it?",
        value="Ada Lovelace",
        confidence="HIGH",
        retrieved_context=(Chunk("Written by Ada Lovelace", page=1, score=0.5),),
        extractions=(Extraction("Ada Lovelace", 1, 0.8, "by Ada Lovelace"),),
        field_config={"name": "author"},
        span_name="extract_field",
    )
    cases = [FrozenCase(record, 1), FrozenCase(record, 0)]
    freeze(cases, tmp_path / "answers.jsonl")
    assert frozen(tmp_path / "answers.jsonl") == cases
