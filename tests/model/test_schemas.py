"""What the schema of an answer says about its fields reaches the score, without annotation."""

import dataclasses
from typing import Annotated, TypedDict

import pytest
from counted import calls_of
from pydantic import BaseModel, Field

import llmeval_sdk as llmeval
from llmeval_sdk.model import Record
from llmeval_sdk.model.schemas import MAX_DESCRIPTION, described, descriptions_in, descriptions_of
from llmeval_sdk.model.structure import MAX_FIELDS, fields_of, path_of_single
from llmeval_sdk.testing import capture


class Line(BaseModel):
    what: str = Field(description="What was bought")
    net: float | None = None


class Invoice(BaseModel):
    pay: str = Field(description="Total amount due, tax included")
    lines: list[Line] = []


@dataclasses.dataclass
class Receipt:
    pay: str = dataclasses.field(metadata={"description": "Total amount due, tax included"})
    shop: Annotated[str, "Name of the shop"] = ""


class Note(TypedDict):
    pay: Annotated[str, "Total amount due, tax included"]


def invoice(_: str) -> Invoice: ...
def maybe(_: str) -> Invoice | None: ...
async def later(_: str) -> list[Invoice]: ...
def receipt(_: str) -> Receipt: ...
def note(_: str) -> Note: ...
def unknown(_: str) -> "Missing": ...  # noqa: F821
def plain(_): ...


class Failing:
    @classmethod
    def model_json_schema(cls):
        raise RuntimeError("the app's own")


def failing(_: str) -> Failing: ...


PAY = "Total amount due, tax included"


@pytest.mark.parametrize("function", [invoice, maybe, later, receipt, note])
def test_the_annotation_of_a_function_describes_its_fields(function):
    """Pydantic models, data classes and typed dictionaries, alone, optional or in a list."""
    assert descriptions_of(function)["pay"] == PAY


def test_fields_of_items_are_described_for_all_items():
    """The path has no index, as in a field_config."""
    assert descriptions_of(invoice)["lines.what"] == "What was bought"


@pytest.mark.parametrize("function", [unknown, plain, failing, len])
def test_an_annotation_that_cannot_be_read_describes_nothing(function):
    """It is the app's code: whatever it raises stays inside."""
    assert descriptions_of(function) == {}


SCHEMA = Invoice.model_json_schema()


@pytest.mark.parametrize(
    "request_",
    [
        {
            "messages": [],
            "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
        },
        {"input": "", "text": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"messages": [], "tools": [{"type": "function", "function": {"parameters": SCHEMA}}]},
        {"messages": [], "tools": [{"name": "read", "input_schema": SCHEMA}]},
    ],
)
def test_the_schema_in_a_request_describes_the_fields(request_):
    """The formats of two APIs, and the parameters of the one tool that was offered."""
    record = described(Record(request=request_, value={"pay": "41.50", "lines": [{"what": "Tea"}]}))
    by_path = {field.path: field.description for field in fields_of(record).fields}
    assert by_path == {"pay": PAY, "lines[0].what": "What was bought"}


def test_what_the_app_says_of_a_field_comes_first():
    """A field_config is completed, and never replaced."""
    config = {"pay": {"description": "What is to be paid", "locale": "de-DE"}}
    record = described(Record(value={"pay": "41.50"}, field_config=config), invoice)
    assert record.field_config["pay"] == config["pay"]
    one_field = Record(value={"pay": "41.50"}, field_config={"name": "table"})
    assert described(one_field, invoice) is one_field


@pytest.mark.parametrize("answer", ["It is 41.50.", {"answer": "It is 41.50."}, None])
def test_an_answer_in_prose_stays_as_it_is(answer):
    """Only fields are described."""
    record = Record(response="It is 41.50.", value=answer)
    assert described(record, invoice) is record


def cyclic():
    schema = {"type": "object", "properties": {"name": {"description": "x" * 5_000}}}
    schema["properties"]["again"] = schema
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"f{n}": {"description": "d" * 2_000} for n in range(1_000)}},
        {"$ref": "#", "properties": {"a": {"description": "text"}}},
        {"$ref": "#/$defs/missing/" + "x/" * 10_000},
        {"properties": "none", "anyOf": 5, "items": [1], "description": 7},
        cyclic(),
    ],
    ids=["2 MB", "itself", "a long way", "no schema", "a circle"],
)
def test_hostile_schemas_are_bounded(schema):
    """In work, in their number of fields and in the length of each description."""
    found = descriptions_in(schema)
    assert calls_of(lambda: descriptions_in(schema)) < 32_000
    assert len(found) <= MAX_FIELDS
    assert all(len(text) <= MAX_DESCRIPTION for text in found.values())


def test_a_traced_function_that_returns_a_model_is_scored_by_its_descriptions():
    """The field's name says nothing here; its description in the class does."""
    text = "Subtotal 41.50\nTax 3.32\nTotal due 44.82"
    with capture(escalations=[]) as seen:

        @llmeval.workflow
        def named(text: str) -> Invoice:
            with llmeval.retrieval("pages") as span:
                span.annotate(retrieved_context=[text])
            return Invoice(pay="41.50")

        @llmeval.workflow
        def unnamed(text: str):
            with llmeval.retrieval("pages") as span:
                span.annotate(retrieved_context=[text])
            return Invoice(pay="41.50")

        named(text)
        unnamed(text)
        seen.drain()
        with_schema = seen.scores("named")["extraction_risk"].value
        without = seen.scores("unnamed")["extraction_risk"].value
    assert with_schema > without


TEXT = "Subtotal 41.50\nTax 3.32\nTotal due 44.82"
ASK = {"role": "user", "content": "What is to be paid?"}
FORMAT = {"type": "json_schema", "json_schema": {"name": "invoice", "schema": SCHEMA}}


def chance_offline(request_, **run):
    """Return the chance of the one field of an answer that was evaluated offline."""
    row = {"request": request_, "retrieved_context": [{"content": TEXT}]}
    if not run:
        row["response"] = '{"pay": "41.50"}'
    report = llmeval.evaluate([row], evaluators=["extraction_risk"], progress=False, **run)
    return report.rows[0].evaluations["extraction_risk"].value


def test_rows_of_a_data_set_are_scored_by_the_schema_in_their_request():
    """As the same request is online."""
    plain = chance_offline({"messages": [ASK]})
    assert chance_offline({"messages": [ASK], "response_format": FORMAT}) > plain + 0.1


def test_an_app_that_runs_offline_is_scored_by_what_its_function_returns():
    """As the same function is online."""

    def named(question: str) -> Invoice:
        return Invoice(pay="41.50")

    def unnamed(question: str):
        return Invoice(pay="41.50")

    assert chance_offline("What?", model=named) > chance_offline("What?", model=unnamed) + 0.1


def test_a_path_without_a_name_says_that_a_row_is_one_field():
    """As `annotate(field=…)` does online, also of a value that is an object."""
    record = Record(value={"net": "1"}, field_config={"path": "lines[2]"})
    assert described(record, invoice) is record
    assert fields_of(record).fields == ()
    assert path_of_single(record) == "lines[2]"
