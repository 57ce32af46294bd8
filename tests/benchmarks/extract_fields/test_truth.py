"""Ground truth out of headers, and a comparison that is neither strict on spelling nor lax."""

from __future__ import annotations

import pytest
from extract_fields.documents import compose
from extract_fields.grading import right, stated, truths


@pytest.mark.parametrize(
    ("field", "accepted"),
    [
        ("license", ("MIT", "Apache-2.0")),
        ("author", ("Ada Brew",)),
        ("minimum_python", ("3.9",)),
        ("repository", ("https://github.com/Kettle/teapot.git",)),
        ("documentation", ("https://teapot.readthedocs.io",)),
        ("summary", ("Brews tea on a schedule",)),
    ],
)
def test_each_field_has_its_place_in_the_header(field, accepted, teapot):
    """Every field's right answers come from the header's own entry for it."""
    assert truths(field, teapot) == accepted


def test_a_silent_header_gives_no_ground_truth(samovar):
    """A field that the header leaves out is not asked."""
    assert truths("repository", samovar) == ()


@pytest.mark.parametrize(
    ("field", "answer", "truth"),
    [
        ("license", "BSD-3-Clause", "BSD"),
        ("author", "ada brew and contributors", "Ada Brew"),
        ("author", "Alex Gronholm", "Alex Grönholm"),
        (
            "repository",
            "http://github.com/kettle/TeaPot/issues/7",
            "https://github.com/kettle/teapot",
        ),
        ("documentation", "https://t.example/docs/guide", "https://www.t.example/docs/en/latest/"),
        (
            "summary",
            "Teapot is a library that brews tea on a fixed schedule.",
            "Brews tea on a schedule",
        ),
    ],
)
def test_spelling_does_not_decide(field, answer, truth):
    """Case, accents, deeper links and the words around a value make no answer wrong."""
    assert right(field, answer, (truth,))


@pytest.mark.parametrize(
    ("field", "answer", "truth"),
    [
        ("license", "MIT", "Apache-2.0"),
        ("license", "BSD", "BSD-3-Clause"),
        ("author", "Ada", "Ada Brew"),
        ("author", "Ada Kettle", "Ada Brew"),
        ("minimum_python", "3.1", "3.10"),
        ("repository", "https://github.com/kettle/teapot2", "https://github.com/kettle/teapot"),
        ("documentation", "https://docs.python.org", "https://docs.teapot.example"),
        ("summary", "Teapot is a library.", "Brews tea on a schedule"),
        ("author", None, "Ada Brew"),
        ("author", "", "Ada Brew"),
    ],
)
def test_another_value_is_wrong(field, answer, truth):
    """What looks similar and is not the same counts as wrong, and so does no answer."""
    assert not right(field, answer, (truth,))


@pytest.mark.parametrize("field", ["license", "author", "minimum_python", "repository", "summary"])
def test_what_the_text_holds_is_stated(field, teapot):
    """A value that stands in the text is found there, without any extraction rule."""
    assert stated(field, teapot, truths(field, teapot))


@pytest.mark.parametrize("field", ["license", "author", "minimum_python"])
def test_what_the_text_lacks_is_not_stated(field, samovar):
    """A value that only the header has is known to be missing from the text."""
    assert truths(field, samovar)
    assert not stated(field, samovar, truths(field, samovar))


def test_a_longer_repository_name_does_not_state_a_shorter_one():
    """`kettle/teapot-tools` in the text is not `kettle/teapot`."""
    other = compose("teapot", [("README", "See https://github.com/kettle/teapot-tools.")])
    assert not stated("repository", other, ("https://github.com/kettle/teapot",))
    assert stated("repository", other, ("https://github.com/kettle/teapot-tools",))
