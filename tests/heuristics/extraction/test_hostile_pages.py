"""A page of blanks beside a missing value is read as soon as any other page."""

import pytest

from llmeval_sdk import registry
from llmeval_sdk.evaluation.scoring import run_heuristic
from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.text.extraction import MAX_PASSAGE, passages_of
from llmeval_sdk.text.stated import stated


BUILT_IN = [
    evaluator
    for name in registry.heuristics()
    if (evaluator := registry.evaluator(name)).kind == "heuristic"
]
PAGES = {
    "tabs": "\t", "spaces": " ", "mixed blanks": " \t\u00a0\u2003", "lines": "\n", "windows": " \r\n",
    "dots": ".", "leaders": "·_ ", "bars": "| ", "stars": "* ", "colons": "：:", "labels": "notes\t",
}  # fmt: skip
FIELDS = [f"notes {n}" for n in range(150)]


def record(page, value, config):
    """Four passages of a page that begins with the names of some fields."""
    text = f"notes{page * MAX_PASSAGE}"[:MAX_PASSAGE]
    chunks = tuple(Chunk(f"{n}\n{text}") for n in range(4))
    return Record(request="q", value=value, retrieved_context=chunks, field_config=config)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    ("value", "config"),
    [
        ({"notes": None}, {"notes": {"name": "Notes"}}),
        ({"notes": "", "ref": "   "}, {"ref": {"name": "notes"}}),
        (dict.fromkeys(FIELDS), {name: {"name": name} for name in FIELDS}),
        ("", {"name": "notes", "description": "notes of the page"}),
    ],
    ids=["a null", "empty values", "a row of nulls", "one empty field"],
)
def test_a_page_of_blanks_holds_no_score_up(page, value, config):
    """Each score says what it checked, or that the record is too large."""
    for heuristic in BUILT_IN:
        made = run_heuristic(heuristic, record(PAGES[page], value, config))
        assert made.error is None or made.error.type == "too_large", heuristic.name


@pytest.mark.parametrize(
    "gap", ["\t", ": ", " ..... ", "\t\t\t: ", "  ", " | ", ":" + " " * 250, " :\n"]
)
def test_the_value_behind_a_label_is_still_read(gap):
    """The gap between both may be as wide as a page."""
    text = f"Totals\nBatch notes{gap}kept dry\n"
    passages = passages_of(Record(retrieved_context=(Chunk(text),)))
    found = stated(passages, {"name": "Batch notes"})
    assert found is not None
    assert found.value == "kept dry"
