"""The fields of structured answers."""

import json

import pytest

from llmeval_sdk.model import Record
from llmeval_sdk.model.structure import MAX_FIELDS, fields_of, general_path


ORDER = {"vendor": {"name": "Northwind", "id": 7}, "lines": [{"amount": "1.50"}, {"amount": "2.50"}],
         "tags": ["a", "b"], "paid": False, "note": None}  # fmt: skip
PATHS = ["vendor.name", "vendor.id", "lines[0].amount", "lines[1].amount", "tags", "paid", "note"]


@pytest.mark.parametrize(
    "record",
    [
        Record(value=ORDER),
        Record(response=json.dumps(ORDER)),
        Record(response=f"```json\n{json.dumps(ORDER, indent=1)}\n```"),
        Record(
            value={"role": "assistant", "content": json.dumps(ORDER)}, response=json.dumps(ORDER)
        ),
    ],
)
def test_every_leaf_of_an_answer_is_a_field(record):
    """Objects, JSON text, fenced JSON and the JSON of a message give the same fields."""
    fields, left_out = fields_of(record)
    assert [field.path for field in fields] == PATHS
    assert left_out == 0
    assert fields[0].config["name"] == "vendor name"


def test_a_list_of_objects_is_an_answer_too():
    """Its items have an index each."""
    fields, _ = fields_of(Record(response='[{"total": 1}, {"total": 2}]'))
    assert [(field.path, field.value) for field in fields] == [("[0].total", 1), ("[1].total", 2)]
    assert general_path("lines[12].parts[3].id") == "lines.parts.id"


def test_what_a_model_says_about_a_value_is_no_field():
    """A mapping with a value and its confidence is one field."""
    (field,) = fields_of(Record(value={"total": {"value": "9.00", "confidence": 0.9}})).fields
    assert (field.path, field.value) == ("total", "9.00")


def test_a_configuration_by_path_or_name_reaches_its_field():
    """So descriptions and formats can be said for each of them."""
    config = {
        "lines.amount": {"description": "net", "format": "money"},
        "paid": {"cues": ["settled"]},
    }
    by_path = {
        field.path: field for field in fields_of(Record(value=ORDER, field_config=config)).fields
    }
    assert by_path["lines[1].amount"].description == "net"
    assert by_path["lines[1].amount"].config["format"] == "money"
    assert by_path["paid"].config["cues"] == ["settled"]


@pytest.mark.parametrize(
    "record",
    [
        Record(response="The total is 9."), Record(value=[1, 2]), Record(value="{broken"), Record(),
        Record(value={}), Record(response="[1] says so"), Record(response='{"a": 1} or {"a": 2}'),
        Record(value={"messages": [{"role": "user", "content": "x"}]}),
        Record(value={"choices": [{"message": {"role": "assistant", "content": "x"}}]}, response="x"),
        Record(value=ORDER, field_config={"name": "order"}), Record(response='{"a": NaN}'),
    ],
)  # fmt: skip
def test_prose_chats_and_single_fields_have_no_structure(record):
    """A table of a field that the app names is one value of that field."""
    assert fields_of(record) == ((), 0)


def test_ten_thousand_leaves_and_a_cycle_are_bounded():
    """The first 500 are read and the others counted; an object that holds itself comes to an end."""
    fields, left_out = fields_of(Record(value={f"f{n}": n for n in range(10_000)}))
    assert (len(fields), left_out) == (MAX_FIELDS, 9_500)
    loop = {"a": 1}
    loop["again"] = [loop] * 100
    fields, left_out = fields_of(Record(value=loop))
    assert len(fields) + left_out < 20_000
