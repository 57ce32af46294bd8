"""What other libraries call our fields means the same live and in a data set."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from llmeval_sdk.errors import DataError
from llmeval_sdk.model.fields import FIELD_OF, OTHER_NAMES
from llmeval_sdk.model.records import chunks_of_arguments
from llmeval_sdk.offline.data.record import READERS, record_from
from llmeval_sdk.tracing._span import WRITERS


OWN_FIELDS = {"prompt"}
"""Names that ``annotate`` has for a field of its own."""
LIVE_ONLY = {"attributes": "metadata", "user": "user_id"}
"""Names of fields that a span has and a row has not: a row keeps such columns as attributes."""


@pytest.mark.parametrize("name", sorted(FIELD_OF))
def test_each_name_is_known_in_a_data_set(name):
    """The error says which of our columns was meant."""
    with pytest.raises(DataError, match=FIELD_OF[name]):
        record_from({name: "x", "extractions": []}, place="row 1")


@pytest.mark.parametrize("name", sorted(FIELD_OF))
def test_each_name_of_a_field_that_can_be_annotated_is_known_live(name):
    """``annotate`` writes the field, unless the name is a field itself."""
    if FIELD_OF[name] in WRITERS and name not in OWN_FIELDS:
        assert WRITERS[name] is WRITERS[FIELD_OF[name]]


def test_each_name_that_is_known_live_is_known_in_a_data_set():
    """A row and an annotation can be written with the same names.

    A row has the path of its field in ``field_config``: many tables have a column ``field``.
    """
    others = WRITERS.keys() - READERS.keys() - {"metadata", "metrics", "tags", "name", "field"}
    assert others - {"session_id", "user_id", "abstained"} <= FIELD_OF.keys() | LIVE_ONLY.keys()


def called_with(**arguments):
    """The chunks that a workflow with these arguments works on."""
    return chunks_of_arguments(SimpleNamespace(arguments=arguments, request=None))


@pytest.mark.parametrize("name", ["retrieved_context", *OTHER_NAMES["retrieved_context"]])
def test_passages_among_the_arguments_are_the_context(name):
    """An argument called ``context`` is what a user expects it to be, where it holds passages."""
    (chunk,) = called_with(**{name: ["The roof is covered with slate."]})
    assert chunk.content == "The roof is covered with slate."


@pytest.mark.parametrize("context", [[{"role": "user", "content": "Hello"}], {"user": "u1"}, "x"])
def test_other_things_that_are_called_context_are_no_passages(context):
    """The messages of a chat and the context of a request are often called so too."""
    assert called_with(context=context) is None
    (chunk,) = called_with(context=context, chunks=["slate"])
    assert chunk.content == "slate"


@pytest.mark.parametrize(
    "context", [["tenant acme"], [1, 2], [], [{"type": "human", "content": "Hi"}]]
)
def test_a_context_never_takes_the_place_of_passages_with_a_plainer_name(context):
    """Whatever stands first in the call; an empty one alone says nothing of what was retrieved."""
    (chunk,) = called_with(context=context, documents=["slate"])
    assert chunk.content == "slate"
    assert called_with(context=[]) is None
    assert called_with(documents=[]) == ()


def test_the_page_has_the_names_of_the_fields_that_apps_annotate():
    """The table of the documentation is the table of the code."""
    page = (Path(__file__).parents[2] / "docs" / "concepts" / "records.md").read_text("utf-8")
    for field in ("request", "response", "retrieved_context", "expected_response"):
        names = ", ".join(f"`{name}`" for name in OTHER_NAMES[field])
        assert f"| `{field}` | {names} |" in page
